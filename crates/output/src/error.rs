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
        /// True when it is the temporary file of results that do not fit in memory.
        spill: bool,
    },
    /// The system refused.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The target cannot be an output.
    #[error("cannot write {path}: {reason}", path = path.display())]
    Target {
        /// The path asked for.
        path: PathBuf,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// The arrays asked for make no sense.
    #[error("{0}")]
    Layout(String),
    /// The budget does not hold the least that is needed. Whoever knows of which limit the budget is a part says so.
    #[error("the memory limit leaves too little for results: {needs} bytes are needed")]
    Memory {
        /// The bytes that would do.
        needs: u64,
    },
    /// Arrays for the caller, which no limit binds, are larger than what the system gives.
    #[error("the arrays of all lines take {needs} bytes of memory, which are not to be had; write the lines to a file instead")]
    Arrays {
        /// Bytes of the one that was refused.
        needs: u64,
    },
    /// A line that does not fit the layout, or comes twice.
    #[error("the line of seed {seed}: {reason}")]
    Line {
        /// The seed's index.
        seed: u64,
        /// What is wrong.
        reason: String,
    },
    /// Ctrl-C while the file was written; nothing is left of it.
    #[error("interrupted while {path} was written", path = path.display())]
    Cancelled {
        /// The file that would have been.
        path: PathBuf,
    },
    /// A complete result was asked for, but lines are missing.
    #[error("{missing} of {seeds} seeds have no line (the first is seed {first}); write it as a partial result")]
    Incomplete {
        /// How many are missing.
        missing: u64,
        /// Of how many.
        seeds: u64,
        /// The first one.
        first: u64,
    },
}

impl OutputError {
    /// An error of the system about `path`; a full disk gets its own words.
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

/// As the engine's callers see it, but for [`OutputError::Memory`]: an output has a share of a limit and knows neither that nor what
/// else is held, so whoever makes one puts both in.
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
