//! Errors of seeds.

use super::forms::FORMS;
use field::error::FieldError;
use output::OutputError;
use pager::Pager;
use runtime::limits::would_do;
use std::io;
use std::path::PathBuf;

/// An error of seeds.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// A shape of another form.
    #[error("seeds '{spec}': {reason}; write {form}")]
    Shape {
        /// The text.
        spec: String,
        /// The error.
        reason: String,
        /// The right form.
        form: &'static str,
    },
    /// Neither a shape nor a file.
    #[error("seeds '{spec}': {reason}; write {FORMS}")]
    Unknown {
        /// The text.
        spec: String,
        /// The error.
        reason: String,
    },
    /// A file that cannot be opened.
    #[error("seeds from {path}: {source}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file that does not hold seeds.
    #[error("seeds from {path}: {reason}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error and the right content.
        reason: String,
    },
    /// A seed's number that is too high.
    #[error("there is no seed {index}: there are {len}, counted from 0")]
    Index {
        /// The number.
        index: u64,
        /// Number of seeds.
        len: u64,
    },
    /// Points that cannot be written to disk or read back.
    #[error("seeds: {0}")]
    Spill(String),
    /// No memory for a list of points.
    #[error("seeds need {needs} bytes of memory, which are not to be had")]
    Memory {
        /// Sufficient bytes.
        needs: u64,
    },
    /// The watch cancelled.
    #[error("interrupted while seeds were read")]
    Cancelled,
}

impl SeedError {
    /// The error for callers of the crate. `pager` has the ledger that was to hold the points.
    pub fn in_run(self, pager: Option<&Pager>) -> FieldError {
        match self {
            Self::Open { path, source } if source.kind() == io::ErrorKind::NotFound => {
                FieldError::format(path, "there is no such file of seeds; check the path")
            }
            Self::Open { path, source } => FieldError::io(path, source),
            Self::File { path, reason } => FieldError::format(path, format!("not readable as seeds: {reason}")),
            e @ Self::Memory { needs } => match pager {
                Some(p) => FieldError::LimitTooSmall {
                    limit: p.ledger().limit(),
                    needs: would_do(p, needs),
                    what: "a list of seeds".into(),
                },
                // There is no limit that could be too small.
                None => FieldError::Output(e.to_string()),
            },
            Self::Spill(message) => FieldError::Output(format!("seeds: {message}")),
            Self::Cancelled => FieldError::Interrupted,
            e @ (Self::Shape { .. } | Self::Unknown { .. } | Self::Index { .. }) => FieldError::Usage(e.to_string()),
        }
    }
}

impl From<OutputError> for SeedError {
    fn from(e: OutputError) -> Self {
        match e {
            OutputError::Memory { needs } => Self::Memory { needs },
            e => Self::Spill(e.to_string()),
        }
    }
}
