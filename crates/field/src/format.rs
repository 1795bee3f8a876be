//! Formats of flows: what a dataset asks of the files that its zones lie in.
//!
//! # Theory
//! A format knows files; a [`Dataset`](crate::dataset::Dataset) knows zones and pages. Everything between them is this trait: which files
//! there are, where the arrays lie in them, how whole rows are read, and what is stored beside the arrays.
//!
//! # Practice
//! A format whose arrays lie uncompressed in files returns an [`ArrayLayout`] for each, or a [`ComputedArray`] where a rule gives the
//! numbers, and is paged in place: [`Dataset::in_place`](crate::dataset::Dataset::in_place). A format with pages of its own (our store)
//! registers its page maps itself.

use crate::array_layout::ArrayLayout;
use crate::catalog::RowReader;
use crate::computed_array::ComputedArray;
use crate::error::FieldError;
use crate::series::SeriesFiles;
use std::path::PathBuf;
use std::sync::Arc;

/// How the numbers lie on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// `in place`, `flat` or `cubed`.
    pub layout: &'static str,
    /// Name of the codec, if pages are encoded.
    pub codec: Option<&'static str>,
    /// Bytes of all files; `None` where they are those of the numbers.
    pub bytes: Option<u64>,
    /// Bytes of the largest page that [`Format::rows`] decodes on the way; 0 where nothing is decoded.
    pub page_bytes: usize,
}

/// A format of flows, of one open dataset.
pub trait Format: Send + Sync {
    /// The files that say which dataset it is: those that its user named and what they name, or the root document of a store.
    fn files(&self) -> Vec<PathBuf>;

    /// The files that layouts number: those that hold the numbers.
    fn data_files(&self) -> Vec<PathBuf> {
        self.files()
    }

    /// For each of so many steps which of [`Self::files`] it is of; none for formats with pages of their own.
    fn files_by_step(&self, steps: usize) -> Vec<Vec<usize>>;

    /// How the steps are spread over files, for a store that is made of them and grows with them.
    fn series(&self) -> SeriesFiles {
        SeriesFiles::default()
    }

    /// Where an array of a zone lies in [`Self::data_files`]; `None` for formats with pages of their own, and for computed arrays.
    fn layout(&self, _zone: usize, _array: usize) -> Option<Arc<ArrayLayout>> {
        None
    }

    /// The rule of an array of a zone that no file holds.
    fn computed(&self, _zone: usize, _array: usize) -> Option<Arc<ComputedArray>> {
        None
    }

    /// Whether pages are read where the files hold them, so that boxes come from an index in the cache and no page has a checksum.
    fn is_in_place(&self) -> bool;

    /// A reader of whole rows of an array, which passes the pager by.
    ///
    /// # Errors
    /// [`FieldError`] for an array that there is not, or files that cannot be opened.
    fn rows(&self, zone: usize, array: usize) -> Result<Arc<dyn RowReader>, FieldError>;

    /// Pages of everything that the files hold, boxes and indexes too; `None` where that follows from the zones.
    fn page_count(&self) -> Option<u64> {
        None
    }

    /// How the numbers lie on disk.
    fn storage(&self) -> Storage;
}

/// The files of each step where each array's file says it: numbers of files by step, without repeats, in the order of zones and arrays.
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
