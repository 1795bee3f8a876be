//! Faults of one attempt: those that another attempt may mend, and those that end the read.

use super::address::{redact, StoreKind};
use pager::error::PageErrorKind;
use reqwest::StatusCode;
use std::error::Error;
use std::time::Duration;

/// The fault of an attempt.
#[derive(Debug)]
pub(super) enum AttemptFault {
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

impl From<Passing> for AttemptFault {
    fn from(passing: Passing) -> Self {
        Self::Passing(passing)
    }
}

impl From<PageErrorKind> for AttemptFault {
    fn from(kind: PageErrorKind) -> Self {
        Self::Final(kind)
    }
}

/// A reply with a status other than success.
pub(super) struct Refusal<'a> {
    pub server: &'a str,
    pub kind: StoreKind,
    /// Whether the request was not signed.
    pub anonymous: bool,
    pub status: StatusCode,
    /// See [`error_code`].
    pub code: Option<String>,
    /// See [`Passing::wait`].
    pub wait: Option<Duration>,
}

/// The code of an object store's error, such as `SlowDown`. The rest of its text may repeat parts of credentials.
pub(super) fn error_code(text: &str) -> Option<String> {
    let code = text.split_once("<Code>")?.1.split_once("</Code>")?.0;
    let sound = !code.is_empty() && code.len() < 60 && code.bytes().all(|b| b.is_ascii_alphanumeric());
    sound.then(|| code.to_owned())
}

impl AttemptFault {
    /// The fault that a reply's status says.
    pub(super) fn of_status(refusal: Refusal<'_>) -> Self {
        let Refusal { server, kind, anonymous, status, code, wait } = refusal;
        let server = server.to_owned();
        let code = code.as_deref();
        let message = match code {
            Some(code) => format!("it answers {status}, {code}"),
            None => format!("it answers {status}"),
        };
        // Keys that expired are refused with 400 by S3.
        let expired = matches!(code, Some("ExpiredToken" | "InvalidToken" | "InvalidAccessKeyId"));
        match status {
            StatusCode::NOT_FOUND if matches!(code, Some("NoSuchBucket" | "ContainerNotFound")) => {
                let message = format!("{message}: check the bucket's name and region");
                PageErrorKind::Protocol { server, message }.into()
            }
            StatusCode::NOT_FOUND => PageErrorKind::Missing.into(),
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                let message = format!("{message}: set the proxy's user in HTTPS_PROXY");
                PageErrorKind::Unauthorized { server, message }.into()
            }
            _ if expired || matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                let message = format!("{message}: {}", advice(kind, anonymous));
                PageErrorKind::Unauthorized { server, message }.into()
            }
            _ if matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
                || status.is_server_error() =>
            {
                Passing { kind: PassingKind::Broken, message, wait }.into()
            }
            _ => PageErrorKind::Protocol { server, message }.into(),
        }
    }

    /// The fault of a request that got no reply, or of a body that broke.
    pub(super) fn of(server: &str, e: &reqwest::Error) -> Self {
        // Its own words are that a request was sent.
        let message = e.source().map_or_else(|| chain(e), chain);
        let message = message.strip_prefix("client error (Connect): ").unwrap_or(&message).to_owned();
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
    let (server, mut last_message) = (server.to_owned(), last.message.clone());
    match last.kind {
        PassingKind::Silence => PageErrorKind::TimedOut { server, tried, last: last_message },
        PassingKind::Broken => PageErrorKind::Unreachable { server, tried, last: last_message },
        PassingKind::Connect => {
            last_message += "; check the address, that its server runs, and the proxy (HTTPS_PROXY) if there is one";
            PageErrorKind::Unreachable { server, tried, last: last_message }
        }
    }
}

/// What to do about a refusal.
pub(super) fn advice(kind: StoreKind, anonymous: bool) -> &'static str {
    match (kind, anonymous) {
        (StoreKind::Web, _) => "check the address and its signature or password, which may have expired",
        (StoreKind::S3, true) => {
            "the request was not signed, for there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
             or AWS_PROFILE"
        }
        (StoreKind::S3, false) => {
            "check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE) and AWS_REGION; AWS_NO_SIGN_REQUEST=YES reads a \
             public bucket. A key that does not exist is refused so, too, if the bucket may not be listed"
        }
        (StoreKind::Google, true) => {
            "the request was not signed, for there are no credentials: set GOOGLE_APPLICATION_CREDENTIALS"
        }
        (StoreKind::Google, false) => "check GOOGLE_APPLICATION_CREDENTIALS; GOOGLE_SKIP_SIGNATURE=true reads a public bucket",
        (StoreKind::Azure, true) => {
            "the request was not signed, for there are no credentials: set AZURE_STORAGE_ACCOUNT_KEY or \
             AZURE_STORAGE_SAS_KEY"
        }
        (StoreKind::Azure, false) => {
            "check AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY; AZURE_SKIP_SIGNATURE=true reads a public container"
        }
    }
}
