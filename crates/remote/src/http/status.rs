//! Replies that are no data: what their status says, and the state of a name.

use super::address::{Kind, Name};
use super::fault::{advice, Fault, Passing, PassingKind};
use super::line::Line;
use super::origin::Ask;
use super::reply;
use pager::error::PageErrorKind;
use pager::place::FileVersion;
use reqwest::{Response, StatusCode};
use std::time::Duration;

/// Bytes of an error's text that are read.
const MOST_TEXT: usize = 4096;

/// The text of an error, as far as it comes soon. Its connection can be used again then.
pub(super) async fn drain(mut reply: Response) -> Vec<u8> {
    let mut text = Vec::new();
    let read = async {
        while let Ok(Some(bytes)) = reply.chunk().await {
            text.extend_from_slice(&bytes[..bytes.len().min(MOST_TEXT - text.len())]);
            if text.len() == MOST_TEXT {
                break;
            }
        }
    };
    let _late = tokio::time::timeout(Duration::from_millis(500), read).await;
    text
}

/// The code of an object store's error, such as `SlowDown`. The rest of the text may repeat parts of credentials.
fn code(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let code = text.split_once("<Code>")?.1.split_once("</Code>")?.0;
    let sound = !code.is_empty() && code.len() < 60 && code.bytes().all(|b| b.is_ascii_alphanumeric());
    sound.then(|| code.to_owned())
}

/// The fault that a status other than success says.
pub(super) async fn fault(line: &Line, reply: Response) -> Fault {
    let (status, wait) = (reply.status(), reply::retry_after(reply.headers()));
    let (kind, anonymous) = line.origin.kind();
    let code = code(&drain(reply).await);
    let mut message = format!("it answers {status}");
    if let Some(code) = &code {
        message = format!("{message}, {code}");
    }
    // Keys that expired are refused with 400 by S3.
    let expired = matches!(code.as_deref(), Some("ExpiredToken" | "InvalidToken" | "InvalidAccessKeyId"));
    let server = line.server.clone();
    match status {
        StatusCode::NOT_FOUND if code.as_deref() == Some("NoSuchBucket") => {
            PageErrorKind::Protocol { server, message: format!("{message}: check the bucket's name and region") }.into()
        }
        StatusCode::NOT_FOUND => PageErrorKind::Missing.into(),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => refused(server, &message, kind, anonymous),
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            let message = format!("{message}: set the proxy's user in HTTPS_PROXY");
            PageErrorKind::Unauthorized { server, message }.into()
        }
        _ if expired => refused(server, &message, kind, anonymous),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => passing(message, wait),
        _ if status.is_server_error() => passing(message, wait),
        _ => PageErrorKind::Protocol { server, message }.into(),
    }
}

fn refused(server: String, message: &str, kind: Kind, anonymous: bool) -> Fault {
    let message = format!("{message}: {}", advice(kind, anonymous));
    PageErrorKind::Unauthorized { server, message }.into()
}

fn passing(message: String, wait: Option<Duration>) -> Fault {
    Passing { kind: PassingKind::Broken, message, wait }.into()
}

/// The state of a file.
pub(super) struct Found {
    pub version: FileVersion,
    pub modified_ns: i64,
    /// The server led to a name with a `/` at its end: a folder.
    pub is_folder: bool,
}

/// The state of a name, by one attempt.
///
/// # Errors
/// [`PageErrorKind::Missing`] only if the server says that there is no such name.
pub(super) async fn stat(line: &Line, name: &Name) -> Result<Found, Fault> {
    let reply = line.send(Ask { name, range: None, condition: None }).await?;
    let is_folder = leads_to_folder(name, &reply);
    match reply.status() {
        StatusCode::OK => {
            if let Some(size) = reply::length(reply.headers()) {
                return Ok(found(&reply, size, is_folder));
            }
        }
        StatusCode::NOT_FOUND => return Err(PageErrorKind::Missing.into()),
        // A signature of a URL can allow GET alone.
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {}
        StatusCode::FORBIDDEN if line.origin.kind().0 == Kind::Web => {}
        _ => return Err(fault(line, reply).await),
    }
    drop(reply);
    first_byte(line, name).await
}

/// The state of a name by its first byte, where a server answers no HEAD.
async fn first_byte(line: &Line, name: &Name) -> Result<Found, Fault> {
    let reply = line.send(Ask { name, range: Some((0, 1)), condition: None }).await?;
    let is_folder = leads_to_folder(name, &reply);
    let headers = reply.headers();
    let size = match reply.status() {
        StatusCode::PARTIAL_CONTENT => reply::range(headers).map(|(_, _, size)| size),
        StatusCode::OK => reply::length(headers),
        StatusCode::RANGE_NOT_SATISFIABLE => reply::size_of_unsatisfied(headers),
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED if is_folder => {
            return Ok(found(&reply, 0, true));
        }
        _ => return Err(fault(line, reply).await),
    };
    let Some(size) = size else {
        let message = "it does not say the size of the file".to_owned();
        return Err(PageErrorKind::Protocol { server: line.server.clone(), message }.into());
    };
    let found = found(&reply, size, is_folder);
    if reply.status() != StatusCode::OK {
        drain(reply).await;
    }
    Ok(found)
}

fn found(reply: &Response, size: u64, is_folder: bool) -> Found {
    let headers = reply.headers();
    Found { version: reply::version(headers, size), modified_ns: reply::modified_ns(headers), is_folder }
}

fn leads_to_folder(name: &Name, reply: &Response) -> bool {
    matches!(name, Name::Url(_)) && !name.is_folder() && reply.url().path().ends_with('/')
}
