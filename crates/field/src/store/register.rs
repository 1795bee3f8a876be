//! Where a store registers its files and arrays.

use pager::id::{ArrayId, SourceId};
use pager::map::PageMap;
use pager::{FileNames, Folder, Pager};
use std::path::Path;
use std::sync::Arc;

/// The calls by which a store registers its files and arrays.
pub trait Register {
    /// Adds a file.
    fn add_file(&mut self, path: &Path) -> SourceId;
    /// Adds the files of a remote store as one source. A registrar of local files has none.
    ///
    /// # Errors
    /// When there are more files than one source can have.
    fn add_folder(&mut self, names: Arc<dyn FileNames>) -> std::io::Result<(SourceId, Arc<Folder>)> {
        Err(std::io::Error::other(format!("{}: only local files are read here", names.describe())))
    }
    /// Adds an array.
    fn add_array(&mut self, map: Arc<dyn PageMap>) -> ArrayId;
}

/// Registers with a pager.
pub(crate) struct PagerRegistrar<'a>(pub &'a Pager);

impl Register for PagerRegistrar<'_> {
    fn add_file(&mut self, path: &Path) -> SourceId {
        self.0.add_file(path)
    }
    fn add_folder(&mut self, names: Arc<dyn FileNames>) -> std::io::Result<(SourceId, Arc<Folder>)> {
        let folder = self.0.folder(names)?;
        Ok((self.0.add_source(folder.clone()), folder))
    }
    fn add_array(&mut self, map: Arc<dyn PageMap>) -> ArrayId {
        self.0.add_array(map)
    }
}
