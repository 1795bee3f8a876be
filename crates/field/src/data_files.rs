//! The files of arrays, for reading rows in order. Pages are read through the pager's sources.

use crate::error::FieldError;
use crate::file::FileBytes;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Files kept open for sequential reading.
const OPEN: usize = 16;

/// The files of a dataset, in the order of their numbers in layouts.
#[derive(Debug)]
pub struct DataFiles {
    paths: Vec<PathBuf>,
    /// The last files used, newest last.
    open: Mutex<Vec<(usize, Arc<FileBytes>)>>,
}

impl DataFiles {
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, open: Mutex::new(Vec::new()) }
    }

    /// Path of each file.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    pub(crate) fn get(&self, n: usize) -> Result<Arc<FileBytes>, FieldError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|o| o.0 == n) {
            let hit = open.remove(at);
            let file = hit.1.clone();
            open.push(hit);
            return Ok(file);
        }
        let path = self.path(n);
        let file = Arc::new(FileBytes::open(path).map_err(|e| FieldError::io(path, e))?);
        if open.len() == OPEN {
            open.remove(0);
        }
        open.push((n, file.clone()));
        Ok(file)
    }

    pub(crate) fn path(&self, n: usize) -> &Path {
        self.paths.get(n).map_or(Path::new(""), PathBuf::as_path)
    }
}
