//! Where a place sends its requests: a web server by URL, or an object store by key.

use super::address::{Name, StoreKind};
use super::bucket::Bucket;
use super::client::Connections;
use super::fault::{AttemptFault, Passing, PassingKind};
use pager::error::PageErrorKind;
use reqwest::header::{ACCEPT_ENCODING, IF_MATCH, RANGE};
use reqwest::{Method, Response};
use std::sync::Arc;
use std::time::Duration;

/// The message for the name of another kind of place.
pub(super) const ELSEWHERE: &str = "the file is in another place";

/// How long the head of a reply may take.
#[derive(Copy, Clone)]
pub(super) struct Patience {
    /// Attempts that failed before this one. Each doubles the time, for a server can be slower than it ever was.
    pub failed: u32,
    /// Time that is left for all attempts.
    pub left: Duration,
}

/// What is asked of a file.
#[derive(Copy, Clone)]
pub(super) enum AskedPart {
    /// Only the head of a reply.
    Head,
    /// Bytes from the first number on, up to the second without it.
    Bytes(u64, u64),
    /// So many bytes at its end.
    Last(u64),
}

/// A request.
#[derive(Copy, Clone)]
pub(super) struct Ask<'a> {
    pub name: &'a Name,
    pub part: AskedPart,
    /// The ETag that the file must have.
    pub condition: Option<&'a str>,
    pub patience: Patience,
}

/// The origin of a place.
pub(super) enum Origin {
    Web(Arc<Connections>),
    Bucket(Bucket),
}

impl Origin {
    fn connections(&self) -> &Connections {
        match self {
            Self::Web(connections) => connections,
            Self::Bucket(bucket) => bucket.connections(),
        }
    }

    /// Sends a request, and waits for the head of its reply.
    ///
    /// # Errors
    /// The fault of the connection, or silence until the deadline. A reply of any status is none.
    pub(super) async fn send(&self, server: &str, ask: Ask<'_>, deadline: Duration) -> Result<Response, AttemptFault> {
        let (number, _) = self.connections().client()?;
        let sent = async {
            match self {
                Self::Web(connections) => web(connections, server, ask).await,
                Self::Bucket(bucket) => bucket.send(ask).await,
            }
        };
        match tokio::time::timeout(deadline, sent).await {
            Ok(reply) => reply,
            Err(_) => {
                self.connections().leave(number);
                let message = format!("no reply within {:.1} s", deadline.as_secs_f64());
                Err(Passing::new(PassingKind::Silence, message).into())
            }
        }
    }

    /// Leaves all connections behind, for one is silent.
    pub(super) fn leave(&self) {
        if let Ok((number, _)) = self.connections().client() {
            self.connections().leave(number);
        }
    }

    /// Its kind, and whether it sends requests without credentials.
    pub(super) fn kind(&self) -> (StoreKind, bool) {
        match self {
            Self::Web(_) => (StoreKind::Web, true),
            Self::Bucket(bucket) => (bucket.kind(), bucket.is_anonymous()),
        }
    }
}

async fn web(connections: &Connections, server: &str, ask: Ask<'_>) -> Result<Response, AttemptFault> {
    let Name::Url(url) = ask.name else { return Err(PageErrorKind::Unsupported(ELSEWHERE.into()).into()) };
    let (method, range) = match ask.part {
        AskedPart::Head => (Method::HEAD, None),
        AskedPart::Bytes(begin, end) => (Method::GET, Some(format!("bytes={begin}-{}", end - 1))),
        AskedPart::Last(len) => (Method::GET, Some(format!("bytes=-{len}"))),
    };
    // Ranges are of the file's own bytes, not of a compressed form.
    let mut request = connections.client()?.1.request(method, url.clone()).header(ACCEPT_ENCODING, "identity");
    if let Some(range) = range {
        request = request.header(RANGE, range);
    }
    if let Some(tag) = ask.condition {
        request = request.header(IF_MATCH, tag);
    }
    request.send().await.map_err(|e| AttemptFault::of(server, &e))
}
