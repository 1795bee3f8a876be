//! Replies that are no data: what their status says, and the state of a name.

use super::address::{Name, StoreKind};
use super::fault::{error_code, AttemptFault, Passing, PassingKind, Refusal};
use super::line::ServerLine;
use super::origin::{Ask, AskedPart, Patience};
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

/// The fault that a status other than success says.
pub(super) async fn fault(line: &ServerLine, reply: Response) -> AttemptFault {
    let (status, wait) = (reply.status(), reply::retry_after(reply.headers()));
    let code = error_code(&String::from_utf8_lossy(&drain(reply).await));
    let (kind, anonymous) = line.origin.kind();
    AttemptFault::of_status(Refusal { server: &line.server, kind, anonymous, status, code, wait })
}

/// Takes the body of a reply, of exactly `length` bytes. `put` gets them in order.
///
/// # Errors
/// A body that ends early, breaks or stands still may be asked for again; a longer one breaks the protocol.
pub(super) async fn body(
    line: &ServerLine,
    mut reply: Response,
    length: u64,
    mut put: impl FnMut(&[u8]) + Send,
) -> Result<(), AttemptFault> {
    let mut left = length;
    loop {
        let stall = line.options.stall;
        let Ok(chunk) = tokio::time::timeout(stall, reply.chunk()).await else {
            line.origin.leave();
            let message = format!("no byte for {:.1} s, {left} of {length} bytes missing", stall.as_secs_f64());
            return Err(Passing::new(PassingKind::Silence, message).into());
        };
        match chunk {
            Ok(Some(bytes)) => {
                if bytes.len() as u64 > left {
                    let message = format!("its body is longer than the {length} bytes of the range");
                    return Err(PageErrorKind::Protocol { server: line.server.clone(), message }.into());
                }
                line.meter.received(bytes.len());
                put(&bytes);
                left -= bytes.len() as u64;
            }
            Ok(None) if left == 0 => return Ok(()),
            Ok(None) => {
                let message = format!("the body ended with {left} of {length} bytes missing");
                return Err(Passing::new(PassingKind::Broken, message).into());
            }
            Err(e) => return Err(AttemptFault::of(&line.server, &e)),
        }
    }
}

/// The state of a file.
pub(super) struct NameState {
    pub version: FileVersion,
    pub modified_ns: i64,
    /// The server led to a name with a `/` at its end: a folder.
    pub is_folder: bool,
}

/// The state of a name, by one attempt.
///
/// # Errors
/// [`PageErrorKind::Missing`] only if the server says that there is no such name.
pub(super) async fn stat(line: &ServerLine, name: &Name, patience: Patience) -> Result<NameState, AttemptFault> {
    let reply = line.send(Ask { name, part: AskedPart::Head, condition: None, patience }).await?;
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
        StatusCode::FORBIDDEN if line.origin.kind().0 == StoreKind::Web => {}
        _ => return Err(fault(line, reply).await),
    }
    drop(reply);
    first_byte(line, name, patience).await
}

/// The state of a name by its first byte, where a server answers no HEAD.
async fn first_byte(line: &ServerLine, name: &Name, patience: Patience) -> Result<NameState, AttemptFault> {
    let reply = line.send(Ask { name, part: AskedPart::Bytes(0, 1), condition: None, patience }).await?;
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

fn found(reply: &Response, size: u64, is_folder: bool) -> NameState {
    let headers = reply.headers();
    NameState { version: reply::version(headers, size), modified_ns: reply::modified_ns(headers), is_folder }
}

/// Whether a server led from a name to that of a folder.
pub(super) fn leads_to_folder(name: &Name, reply: &Response) -> bool {
    matches!(name, Name::Url(_)) && !name.is_folder() && reply.url().path().ends_with('/')
}
