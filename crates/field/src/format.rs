//! Formats of flows, as a dataset uses them.
//!
//! # Theory
//! A format knows files; a [`Dataset`](crate::dataset::Dataset) knows zones and pages. This trait lies between them:
//! files, layouts of arrays, readers of rows, storage.
//!
//! # Practice
//! A format with uncompressed arrays returns an [`ArrayLayout`] for each, or a [`ComputedArray`] for numbers by rules.
//! It is paged in place: [`Dataset::in_place`](crate::dataset::Dataset::in_place). A format with its own pages (our
//! store) registers its page maps itself.

use crate::array_layout::ArrayLayout;
use crate::catalog::RowReader;
use crate::computed_array::ComputedArray;
use crate::error::FieldError;
use crate::series::SeriesFiles;
use std::path::PathBuf;
use std::sync::Arc;

/// The storage of the numbers on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// `in place`, `flat` or `cubed`.
    pub layout: &'static str,
    /// Name of the codec, if pages are encoded.
    pub codec: Option<&'static str>,
    /// Bytes of all files; `None` if they equal those of the numbers.
    pub bytes: Option<u64>,
    /// Bytes of the largest page that [`Format::rows`] decodes; 0 without decoding.
    pub page_bytes: usize,
}

/// A format of flows, for one open dataset.
pub trait Format: Send + Sync {
    /// The files that identify the dataset: those named by the user and those that they name, or a store's root
    /// document.
    fn files(&self) -> Vec<PathBuf>;

    /// The files with the numbers, in the order of layouts.
    fn data_files(&self) -> Vec<PathBuf> {
        self.files()
    }

    /// Indices of [`Self::files`] by step; none for formats with their own pages.
    fn files_by_step(&self, steps: usize) -> Vec<Vec<usize>>;

    /// The files of each step, for a store that grows with them.
    fn series(&self) -> SeriesFiles {
        SeriesFiles::default()
    }

    /// The layout of an array in [`Self::data_files`]. `None` for formats with their own pages, and computed arrays.
    fn layout(&self, _zone: usize, _array: usize) -> Option<Arc<ArrayLayout>> {
        None
    }

    /// The rule of an array that no file holds.
    fn computed(&self, _zone: usize, _array: usize) -> Option<Arc<ComputedArray>> {
        None
    }

    /// Whether pages are read in place. Boxes then come from an index in the cache, and pages have no checksums.
    fn is_in_place(&self) -> bool;

    /// A reader of whole rows of an array, which bypasses the pager.
    ///
    /// # Errors
    /// [`FieldError`] for an array that does not exist, or files that cannot be opened.
    fn rows(&self, zone: usize, array: usize) -> Result<Arc<dyn RowReader>, FieldError>;

    /// Pages of all contents, with boxes and indexes. `None` if that follows from the zones.
    fn page_count(&self) -> Option<u64> {
        None
    }

    /// The storage of the numbers on disk.
    fn storage(&self) -> Storage;
}

/// Numbers of the files of each step, from the arrays' layouts, each once.
pub(crate) fn files_of_layouts<'a>(
    layouts: impl Iterator<Item = &'a Arc<ArrayLayout>>,
    steps: usize,
) -> Vec<Vec<usize>> {
    let mut used = vec![Vec::new(); steps];
    for layout in layouts {
        for (step, used) in used.iter_mut().enumerate() {
            let file = layout.file(step, 0);
            if !used.contains(&file) {
                used.push(file);
            }
        }
    }
    used
}
