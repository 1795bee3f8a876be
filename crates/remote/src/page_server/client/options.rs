//! Deadlines of a client.

use std::time::Duration;

/// Deadlines and bounds of the connections to a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Most time without the server, for each read: retries, reconnections and silence together.
    pub network_timeout: Duration,
    /// The same for a server that was never reached: it is more likely a wrong address than a fault that passes.
    pub first_timeout: Duration,
    /// Most time to connect, and then to agree on TLS and HELLO.
    pub connect: Duration,
    /// Least time without a byte after which a connection that owes a demand is closed. More, ten times the slowest of
    /// a hundred reads, where that is longer.
    pub silence: Duration,
    /// The same for a connection that owes prefetches only.
    pub stall: Duration,
    /// Most connections.
    pub connections: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            network_timeout: Duration::from_secs(60),
            first_timeout: Duration::from_secs(5),
            connect: Duration::from_secs(5),
            silence: Duration::from_secs(2),
            stall: Duration::from_secs(10),
            connections: 8,
        }
    }
}
