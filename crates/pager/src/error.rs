//! Typed errors of the pager.

use std::io;
use std::sync::Arc;

/// The reason why a page cannot be read. Cheap to clone: it is stored by page, and every request gets the same error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageErrorKind {
    /// The source ended before the page did (a truncated file, a file that shrank).
    #[error("ends at byte {have} but the page needs bytes {offset} to {end}")]
    Short {
        /// First requested byte.
        offset: u64,
        /// One past the last requested byte.
        end: u64,
        /// Where the source ends.
        have: u64,
    },
    /// A checksum does not hold.
    #[error("checksum mismatch: stored {stored:#010x}, computed {computed:#010x}")]
    Checksum {
        /// The checksum beside the page.
        stored: u32,
        /// The checksum of the bytes read.
        computed: u32,
    },
    /// The bytes do not decode to the page.
    #[error("does not decode: {0}")]
    Decode(String),
    /// The operating system could not read.
    #[error("read failed: {0}")]
    Io(String),
    /// The operating system does not let this user read. Trying again would not help.
    #[error("read refused: {0}")]
    Denied(String),
    /// The process is out of open files or of addresses; the data are as they were.
    #[error("read failed: {0}")]
    Exhausted(String),
    /// A file that must exist is missing.
    #[error("missing")]
    Missing,
    /// The page with its encoded bytes and scratch is larger than the limit leaves room for.
    #[error("needs {needs} bytes at once but the memory limit leaves {limit}")]
    TooLarge {
        /// Bytes of frame, encoded page and scratch together.
        needs: u64,
        /// Bytes that the limit leaves for pages.
        limit: u64,
    },
}

/// The page error for a system error.
impl From<&io::Error> for PageErrorKind {
    fn from(e: &io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::PermissionDenied => Self::Denied(e.to_string()),
            io::ErrorKind::ResourceBusy => Self::Exhausted(e.to_string()),
            _ => Self::Io(e.to_string()),
        }
    }
}

/// A page error and its subject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {kind}")]
pub struct PageError {
    /// The file or URL and the page, as messages name them.
    pub what: Arc<str>,
    /// The reason.
    pub kind: PageErrorKind,
}

impl PageError {
    /// An error about `what`.
    pub fn new(what: impl Into<Arc<str>>, kind: PageErrorKind) -> Self {
        Self { what: what.into(), kind }
    }
}
