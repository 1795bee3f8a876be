//! What can be wrong with seeds.

use super::forms::FORMS;
use field::error::FieldError;
use output::OutputError;
use pager::Pager;
use runtime::limits::would_do;
use std::io;
use std::path::PathBuf;

/// What is wrong with seeds.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// A shape that is not written as it should be.
    #[error("seeds '{spec}': {reason}; write {form}")]
    Shape {
        /// What was written.
        spec: String,
        /// What is wrong with it.
        reason: String,
        /// How it is written.
        form: &'static str,
    },
    /// Neither a shape nor a file.
    #[error("seeds '{spec}': {reason}; write {FORMS}")]
    Unknown {
        /// What was written.
        spec: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that cannot be opened.
    #[error("seeds from {path}: {source}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that does not hold seeds.
    #[error("seeds from {path}: {reason}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// A seed's number that is too high.
    #[error("there is no seed {index}: there are {len}, counted from 0")]
    Index {
        /// The number.
        index: u64,
        /// How many there are.
        len: u64,
    },
    /// Points cannot be put on disk or read back from it.
    #[error("seeds: {0}")]
    Spill(String),
    /// The memory for a list of points is not to be had.
    #[error("seeds need {needs} bytes of memory, which are not to be had")]
    Memory {
        /// The bytes that would do.
        needs: u64,
    },
    /// The one who watches wants no more.
    #[error("interrupted while seeds were read")]
    Cancelled,
}

impl SeedError {
    /// As callers of the crate see it; `pager` is the one whose ledger was to hold the points.
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
                // No limit was given that could be too small.
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
