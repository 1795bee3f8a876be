//! Typed errors of datasets.

use pager::error::PageError;
use std::path::PathBuf;

/// What can go wrong with a dataset. Every message names the path and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    /// The path cannot be opened or read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The content is not what the format asks for.
    #[error("{path}: {message}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        message: String,
    },
    /// More than one reading of the content adds up (exit code 2).
    #[error("{path}: {count} readings fit this file; choose one:\n{list}", path = path.display(), count = readings.len(), list = readings.join("\n"))]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// Each reading with the options that choose it.
        readings: Vec<String>,
    },
    /// A name that the dataset does not have.
    #[error("no {what} named '{name}'; there are: {}", if known.is_empty() { "none (a PLOT3D grid alone has no fields: add +q=FILE)".to_owned() } else { known.join(", ") })]
    Unknown {
        /// `field`, `zone`, ...
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// An argument that makes no sense here.
    #[error("{0}")]
    Usage(String),
    /// The memory limit does not hold what is asked for.
    #[error("the memory limit of {limit} bytes is too small: {what} needs {needs} bytes")]
    LimitTooSmall {
        /// The limit.
        limit: u64,
        /// What would do.
        needs: u64,
        /// For what.
        what: String,
    },
    /// A page failed.
    #[error(transparent)]
    Page(#[from] PageError),
    /// A result cannot be written; the message names the file.
    #[error("{0}")]
    Output(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl FieldError {
    /// A [`FieldError::Format`].
    pub fn format(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self::Format { path: path.into(), message: message.into() }
    }
    /// A [`FieldError::Io`].
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }
}
