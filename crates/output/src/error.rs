//! Why an output cannot be written.

use field::error::FieldError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why lines or a surface cannot be kept or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OutputError {
    /// The disk is full.
    #[error(
        "cannot write {path}: no space left on device{}; free some space or write elsewhere",
        if *spill { " (results that do not fit in memory wait there; TMPDIR names another directory)" } else { "" },
        path = path.display()
    )]
    NoSpace {
        /// The file or directory.
        path: PathBuf,
        /// True for the temporary file of results that do not fit in memory.
        spill: bool,
    },
    /// The system refused.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The target is unsuitable.
    #[error("cannot write {path}: {reason}", path = path.display())]
    Target {
        /// The requested path.
        path: PathBuf,
        /// The fault, and a remedy.
        reason: String,
    },
    /// The requested arrays are inconsistent.
    #[error("{0}")]
    Layout(String),
    /// The budget is below the least need. The caller adds the limit that the budget is a part of.
    #[error("the memory limit leaves too little for results: {needs} bytes are needed")]
    Memory {
        /// The bytes needed.
        needs: u64,
    },
    /// Arrays for the caller, which are not charged, are larger than the system grants.
    #[error("the arrays of all lines take {needs} bytes of memory, which are not to be had; write the lines to a file instead")]
    Arrays {
        /// Bytes of the refused one.
        needs: u64,
    },
    /// A line that does not fit the layout, or a repeated one.
    #[error("the line of seed {seed}: {reason}")]
    Line {
        /// The seed's index.
        seed: u64,
        /// The fault.
        reason: String,
    },
    /// Ctrl-C during writing; no part of the file is left.
    #[error("interrupted while {path} was written", path = path.display())]
    Cancelled {
        /// The file that was not written.
        path: PathBuf,
    },
    /// Lines of a complete result are missing.
    #[error("{missing} of {seeds} seeds have no line (the first is seed {first}); write it as a partial result")]
    Incomplete {
        /// Missing lines.
        missing: u64,
        /// Lines in all.
        seeds: u64,
        /// The first one.
        first: u64,
    },
}

impl OutputError {
    /// A system error about `path`. A full disk has its own message.
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { path: path.to_path_buf(), spill: false }
            }
            _ => Self::Io { path: path.to_path_buf(), action, source: Arc::new(source) },
        }
    }

    /// The same for the temporary file of a log.
    pub fn spill(path: &Path, action: &'static str, source: io::Error) -> Self {
        match Self::io(path, action, source) {
            Self::NoSpace { path, .. } => Self::NoSpace { path, spill: true },
            other => other,
        }
    }
}

/// The error for the engine's callers, except for [`OutputError::Memory`]. An output knows neither the limit behind its
/// budget nor other charges, so its caller adds both.
impl From<OutputError> for FieldError {
    fn from(e: OutputError) -> Self {
        match e {
            OutputError::Cancelled { .. } => Self::Interrupted,
            OutputError::Memory { needs } => Self::LimitTooSmall { limit: 0, needs, what: "the results".into() },
            OutputError::Target { path, reason } => Self::Usage(format!("{}: {reason}", path.display())),
            OutputError::Io { ref source, .. } => Self::output(e.to_string(), source),
            e => Self::Output(e.to_string()),
        }
    }
}
