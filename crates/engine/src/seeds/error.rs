//! What can be wrong with seeds.

use super::spec::FORMS;
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
    /// Points that were put on disk cannot be read back.
    #[error("seeds: {0}")]
    Spill(String),
}
