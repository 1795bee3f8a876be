//! Formats of flows: what a dataset asks of the files that its zones lie in.
//!
//! # Theory
//! A format knows files; a [`Dataset`](crate::dataset::Dataset) knows zones and pages. Everything between them is this trait: which files
//! there are, where the arrays lie in them, how whole rows are read, and what is stored beside the arrays.
//!
//! # Practice
//! A format whose arrays lie uncompressed in files returns an [`ArrayLayout`] for each and is paged in place:
//! [`Dataset::in_place`](crate::dataset::Dataset::in_place). A format with pages of its own (our store) registers its page maps itself.

use crate::catalog::RowReader;
use crate::error::FieldError;
use crate::plot3d::ArrayLayout;
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
    /// The files that say which dataset it is: its data files, or the root document of a store.
    fn files(&self) -> Vec<PathBuf>;

    /// How the steps are spread over files, for a store that is made of them and grows with them.
    fn series(&self) -> SeriesFiles {
        SeriesFiles::default()
    }

    /// Where an array of a zone lies in [`Self::files`]; `None` for formats with pages of their own.
    fn layout(&self, _zone: usize, _array: usize) -> Option<Arc<ArrayLayout>> {
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
