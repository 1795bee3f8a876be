//! Faults of one attempt: those that another attempt may mend, and those that end the read.

use super::address::{redact, Kind};
use pager::error::PageErrorKind;
use std::error::Error;
use std::time::Duration;

/// The fault of an attempt.
#[derive(Debug)]
pub(super) enum Fault {
    /// Another attempt would meet it again.
    Final(PageErrorKind),
    /// It may pass.
    Passing(Passing),
}

/// A fault that may pass.
#[derive(Debug)]
pub(super) struct Passing {
    pub kind: PassingKind,
    pub message: String,
    /// The server's wish for the time until the next attempt.
    pub wait: Option<Duration>,
}

/// The kinds of such faults.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum PassingKind {
    /// No connection.
    Connect,
    /// No reply, or no more bytes, in time.
    Silence,
    /// A broken connection, or a status that says "later".
    Broken,
}

impl Passing {
    pub(super) fn new(kind: PassingKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), wait: None }
    }
}

impl From<Passing> for Fault {
    fn from(passing: Passing) -> Self {
        Self::Passing(passing)
    }
}

impl From<PageErrorKind> for Fault {
    fn from(kind: PageErrorKind) -> Self {
        Self::Final(kind)
    }
}

impl Fault {
    /// The fault of a request that got no reply, or of a body that broke.
    pub(super) fn of(server: &str, e: &reqwest::Error) -> Self {
        let message = chain(e);
        if e.is_redirect() {
            return Self::Final(PageErrorKind::Protocol { server: server.into(), message });
        }
        if e.is_builder() {
            return Self::Final(PageErrorKind::Unsupported(message));
        }
        if e.is_connect() && message.contains("certificate") {
            let advice = "set SSL_CERT_FILE to a file with the certificate of its authority if you trust it";
            let message = format!("{message}; {advice}");
            return Self::Final(PageErrorKind::Unauthorized { server: server.into(), message });
        }
        let kind = match e {
            _ if e.is_connect() => PassingKind::Connect,
            _ if e.is_timeout() => PassingKind::Silence,
            _ => PassingKind::Broken,
        };
        Passing::new(kind, message).into()
    }
}

/// An error with its causes, each once, without URLs: those may hold secrets.
pub(super) fn chain(e: &(dyn Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(e);
    while let Some(e) = next {
        let text = redact(&e.to_string());
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        next = e.source();
    }
    parts.join(": ")
}

/// The error of a read that has no further attempt.
pub(super) fn give_up(server: &str, last: &Passing, attempts: u32, took: Duration) -> PageErrorKind {
    let times = if attempts == 1 { "once".to_owned() } else { format!("{attempts} times") };
    let tried = format!("{times} in {:.1} s", took.as_secs_f64());
    let (server, message) = (server.to_owned(), last.message.clone());
    match last.kind {
        PassingKind::Silence => PageErrorKind::TimedOut { server, tried, last: message },
        PassingKind::Connect | PassingKind::Broken => PageErrorKind::Unreachable { server, tried, last: message },
    }
}

/// What to do about a refusal.
pub(super) fn advice(kind: Kind, anonymous: bool) -> &'static str {
    match (kind, anonymous) {
        (Kind::Web, _) => "check the address and its signature or password, which may have expired",
        (Kind::S3, true) => {
            "the request was not signed, for there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
             or AWS_PROFILE"
        }
        (Kind::S3, false) => {
            "check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE) and AWS_REGION; AWS_NO_SIGN_REQUEST=YES reads a \
             public bucket. A key that does not exist is refused so, too, if the bucket may not be listed"
        }
        (Kind::Google, true) => {
            "the request was not signed, for there are no credentials: set GOOGLE_APPLICATION_CREDENTIALS"
        }
        (Kind::Google, false) => "check GOOGLE_APPLICATION_CREDENTIALS; GOOGLE_SKIP_SIGNATURE=true reads a public bucket",
        (Kind::Azure, true) => {
            "the request was not signed, for there are no credentials: set AZURE_STORAGE_ACCOUNT_KEY or \
             AZURE_STORAGE_SAS_KEY"
        }
        (Kind::Azure, false) => {
            "check AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY; AZURE_SKIP_SIGNATURE=true reads a public container"
        }
    }
}
