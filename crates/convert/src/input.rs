//! The input of a conversion.

use field::catalog::{Catalog, RowReader};
use field::series::SeriesFiles;
use std::path::PathBuf;
use std::sync::Arc;

/// One array to convert.
#[derive(Clone)]
pub struct ArraySource {
    /// The source of its rows.
    pub rows: Arc<dyn RowReader>,
    /// Its steps: 1 (steady), or those of the dataset.
    pub steps: usize,
}

/// The input of a conversion.
#[derive(Clone)]
pub struct ConvertInput {
    /// Its contents.
    pub catalog: Catalog,
    /// The arrays of each zone, in catalog order.
    pub arrays: Vec<Vec<ArraySource>>,
    /// Its files. If one of them changes, unfinished work is not used.
    pub files: Vec<PathBuf>,
    /// The files of each step, as their user named them; empty unless the input is a series of files.
    pub series: SeriesFiles,
    /// The computed arrays and their definitions; empty if all are those of the source.
    pub made: String,
}

impl ConvertInput {
    /// Bytes and reads of it so far.
    pub fn read(&self) -> [u64; 2] {
        let each = self.arrays.iter().flatten().map(|a| a.rows.tally().get());
        each.fold([0; 2], |sum, n| [sum[0] + n[0], sum[1] + n[1]])
    }
}
