//! The state that all threads of a server share.

use super::clients::Clients;
use super::counts::Counts;
use super::files::FileTable;
use super::mailbox::Mailbox;
use super::readers::Readers;
use super::staging::StagingArea;
use rustls::ServerConfig;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::Arc;
use std::time::Duration;

/// Times after which a connection is closed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Until TLS is agreed.
    pub handshake: Duration,
    /// From there until HELLO; the same until the rest of a request.
    pub hello: Duration,
    /// Until some of a waiting reply is taken.
    pub reply: Duration,
    /// Without any request.
    pub idle: Duration,
    /// At the end of the server, until the requests under way are answered.
    pub ending: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            hello: Duration::from_secs(5),
            reply: Duration::from_secs(30),
            idle: Duration::from_secs(300),
            ending: Duration::from_secs(2),
        }
    }
}

/// See the module.
pub(super) struct ServerShared {
    pub(super) files: FileTable,
    pub(super) served: Vec<String>,
    pub(super) staging: Option<Arc<StagingArea>>,
    pub(super) clients: Clients,
    pub(super) counts: Counts,
    pub(super) readers: Readers,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) mailboxes: Vec<Mailbox>,
    /// Requests that each event loop lets a connection have under way.
    pub(super) grants: Vec<AtomicU32>,
    pub(super) stopping: AtomicBool,
    pub(super) patience: Patience,
    pub(super) memory_limit: usize,
    pub(super) rate: Option<u64>,
    pub(super) rate_per_client: Option<u64>,
}
