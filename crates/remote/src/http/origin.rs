//! Where a place sends its requests: a web server by URL, or an object store by key.

use super::address::{Kind, Name};
use super::bucket::Bucket;
use super::client::Connections;
use super::fault::{Fault, Passing, PassingKind};
use reqwest::header::{ACCEPT_ENCODING, IF_MATCH, RANGE};
use reqwest::{Method, Response};
use std::sync::Arc;
use std::time::Duration;

/// A request.
#[derive(Copy, Clone)]
pub(super) struct Ask<'a> {
    pub name: &'a Name,
    /// First byte, and one past the last. `None`: only the head of a reply is wanted.
    pub range: Option<(u64, u64)>,
    /// The ETag that the file must have.
    pub condition: Option<&'a str>,
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
    pub(super) async fn send(&self, server: &str, ask: Ask<'_>, deadline: Duration) -> Result<Response, Fault> {
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
    pub(super) fn kind(&self) -> (Kind, bool) {
        match self {
            Self::Web(_) => (Kind::Web, true),
            Self::Bucket(bucket) => (bucket.kind(), bucket.is_anonymous()),
        }
    }
}

async fn web(connections: &Connections, server: &str, ask: Ask<'_>) -> Result<Response, Fault> {
    let Name::Url(url) = ask.name else { unreachable!("the names of a web server are URLs") };
    let method = if ask.range.is_some() { Method::GET } else { Method::HEAD };
    // Ranges are of the file's own bytes, not of a compressed form.
    let mut request = connections.client()?.1.request(method, url.clone()).header(ACCEPT_ENCODING, "identity");
    if let Some((begin, end)) = ask.range {
        request = request.header(RANGE, format!("bytes={begin}-{}", end - 1));
    }
    if let Some(tag) = ask.condition {
        request = request.header(IF_MATCH, tag);
    }
    request.send().await.map_err(|e| Fault::of(server, &e))
}
