//! What an origin says, in the words of the protocol.

use super::super::super::wire::{RemoteKind, RemoteStat, State};
use pager::place::{FileKind, FileStat, FileVersion};
use pager::PageErrorKind;

/// Longest message.
const MOST_MESSAGE: usize = 1000;

/// The state for the client, and what it should know.
///
/// Missing is only what the origin calls missing. Whatever else stands between server and origin is a failure of the
/// origin: never a file that is not there.
pub(in super::super) fn refusal(kind: &PageErrorKind) -> (State, String) {
    let state = match kind {
        PageErrorKind::Missing => State::Missing,
        PageErrorKind::Denied(_) => State::Denied,
        PageErrorKind::TooMany { .. } => State::TooMany,
        PageErrorKind::Changed { .. } => State::Changed,
        PageErrorKind::Unsupported(_) => State::Unsupported,
        _ => State::OriginFailed,
    };
    let mut message = match state {
        State::Unsupported | State::OriginFailed => kind.to_string(),
        _ => String::new(),
    };
    if message.len() > MOST_MESSAGE {
        message.truncate((0..=MOST_MESSAGE).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0));
    }
    (state, message)
}

/// The digest of a file's address and version.
fn digest(address: &str, version: &FileVersion) -> [u8; 16] {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for part in [address.as_bytes(), version.tag.as_bytes()] {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    context.update(&version.size.to_le_bytes());
    let mut out = [0; 16];
    out.copy_from_slice(&context.finish().as_ref()[..16]);
    out
}

/// The state of a name.
pub(in super::super) fn told(address: &str, stat: &FileStat) -> RemoteStat {
    let (kind, size) = match stat.kind {
        FileKind::File => (RemoteKind::File, stat.version.size),
        FileKind::Folder => (RemoteKind::Folder, 0),
        FileKind::Other => (RemoteKind::Other, 0),
    };
    RemoteStat { kind, size, modified_ns: stat.modified_ns, version: digest(address, &stat.version) }
}
