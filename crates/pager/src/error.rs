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
    /// The file is another than at the opening of its dataset.
    #[error("changed while it was read: it was {was}, and is {is} now; open the dataset again")]
    Changed {
        /// The version at the opening.
        was: String,
        /// The version now.
        is: String,
    },
    /// Two servers have different files under one name.
    #[error("its copies differ: {one}, and {other}; copy one over the other, with its times (rsync -a, cp -p)")]
    Differs {
        /// A server, and the state of the file there.
        one: String,
        /// The same of another server.
        other: String,
    },
    /// A server does not answer.
    #[error("{server} cannot be reached: {last} ({tried})")]
    Unreachable {
        /// Its name and port.
        server: String,
        /// The attempts, such as "5 times in 20 s".
        tried: String,
        /// The last failure.
        last: String,
    },
    /// A server answers too slowly.
    #[error("{server} did not answer in time: {last} ({tried})")]
    TimedOut {
        /// Its name and port.
        server: String,
        /// The attempts.
        tried: String,
        /// The last failure.
        last: String,
    },
    /// A server refuses this user.
    #[error("{server} refuses access: {message}")]
    Unauthorized {
        /// Its name and port.
        server: String,
        /// Its answer, and what to do.
        message: String,
    },
    /// A server's answer breaks the protocol. It is not used.
    #[error("{server} gave a wrong answer: {message}")]
    Protocol {
        /// Its name and port.
        server: String,
        /// The fault.
        message: String,
    },
    /// The place cannot do this.
    #[error("{0}")]
    Unsupported(String),
    /// The user stopped a read that waited.
    #[error("interrupted")]
    Interrupted,
    /// The read was given up before its bytes came, because nobody waited for it.
    #[error("withdrawn")]
    Withdrawn,
    /// A folder has too many names.
    #[error("there are more than {most} names")]
    TooMany {
        /// The most that were asked for.
        most: usize,
    },
    /// The page with its encoded bytes and scratch is larger than the limit leaves room for.
    #[error("needs {needs} bytes at once but the memory limit leaves {limit}")]
    TooLarge {
        /// Bytes of frame, encoded page and scratch together.
        needs: u64,
        /// Bytes that the limit leaves for pages.
        limit: u64,
    },
}

impl PageErrorKind {
    /// Whether the network or a server is the cause, and not the data.
    pub fn is_network(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Unauthorized { .. } | Self::Protocol { .. }
        )
    }

    /// Whether the same read may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Protocol { .. })
    }

    /// Whether a run that needs the page ends at once: its other pages would fail in the same way, or belong to another
    /// version of the data.
    pub fn ends_run(&self) -> bool {
        self.is_network() || matches!(self, Self::Changed { .. } | Self::Differs { .. })
    }

    /// As an error of the system, from which [`PageErrorKind::from`] gives the same kind.
    pub fn into_io(self) -> io::Error {
        let kind = match &self {
            Self::Missing => io::ErrorKind::NotFound,
            Self::Denied(_) | Self::Unauthorized { .. } => io::ErrorKind::PermissionDenied,
            Self::Short { .. } => io::ErrorKind::UnexpectedEof,
            Self::Unreachable { .. } => io::ErrorKind::HostUnreachable,
            Self::TimedOut { .. } => io::ErrorKind::TimedOut,
            Self::Unsupported(_) => io::ErrorKind::Unsupported,
            Self::Interrupted => io::ErrorKind::Other,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, self)
    }
}

/// The page error for a system error.
impl From<&io::Error> for PageErrorKind {
    fn from(e: &io::Error) -> Self {
        if let Some(kind) = e.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            return kind.clone();
        }
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
