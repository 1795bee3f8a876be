//! What is converted.

use field::catalog::{Catalog, RowReader};
use field::series::SeriesFiles;
use std::path::PathBuf;
use std::sync::Arc;

/// One array to convert.
#[derive(Clone)]
pub struct ArraySource {
    /// Where its rows come from.
    pub rows: Arc<dyn RowReader>,
    /// Steps that it has: 1 (steady), or those of the dataset.
    pub steps: usize,
}

/// What is converted.
#[derive(Clone)]
pub struct ConvertInput {
    /// What it holds.
    pub catalog: Catalog,
    /// The arrays of each zone, in catalog order.
    pub arrays: Vec<Vec<ArraySource>>,
    /// The files it comes from: if one of them changes, nothing half done is used.
    pub files: Vec<PathBuf>,
    /// Which of them, as their user named them, are whose step's; empty for what is no series of files.
    pub series: SeriesFiles,
    /// What arrays are computed, and how; empty where all are those of the source.
    pub made: String,
}

impl ConvertInput {
    /// What was read of it so far: bytes, and reads.
    pub fn read(&self) -> [u64; 2] {
        let each = self.arrays.iter().flatten().map(|a| a.rows.tally().get());
        each.fold([0; 2], |sum, n| [sum[0] + n[0], sum[1] + n[1]])
    }
}
