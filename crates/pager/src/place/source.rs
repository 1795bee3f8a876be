//! A remote file as a source of pages.

use super::known;
use super::seam::{FileRef, Place};
use crate::error::PageErrorKind;
use crate::source::{Completion, Read, ReadForm, Source};
use std::path::Path;
use std::sync::Arc;

/// A remote file. Its version is the one that the opening of the dataset has seen, or that of the first reply.
pub struct PlaceFile {
    place: Arc<dyn Place>,
    file: FileRef,
}

impl PlaceFile {
    /// The file of that path in its place.
    pub fn new(place: Arc<dyn Place>, path: &Path) -> Self {
        Self { place, file: FileRef { path: path.into(), base: 0, pin: known::pin(path) } }
    }
}

impl Source for PlaceFile {
    fn describe(&self) -> String {
        super::shown(&self.file.path)
    }

    fn explain(&self, _: u64, kind: PageErrorKind) -> (String, PageErrorKind) {
        let kind = if kind == PageErrorKind::Missing { self.file.pin.missing() } else { kind };
        (self.describe(), kind)
    }

    fn size(&self) -> Result<u64, PageErrorKind> {
        match self.file.pin.expected() {
            Some(version) => Ok(version.size),
            None => {
                let found = known::stat(&[self.file.path.to_path_buf()]).remove(0)?;
                self.file.pin.check(&found.version)?;
                Ok(found.version.size)
            }
        }
    }

    fn form(&self) -> ReadForm {
        self.place.form()
    }

    fn limited_by(&self) -> Option<Arc<dyn Place>> {
        Some(self.place.clone())
    }

    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        self.place.submit(&self.file, batch, done);
    }

    fn promote(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        self.place.promote(tokens, done);
    }

    fn withdraw(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        self.place.withdraw(tokens, done);
    }
}

/// A file whose URL names no place. Each of its reads fails with the reason.
pub(crate) struct NoSource {
    path: Arc<Path>,
    kind: PageErrorKind,
}

impl NoSource {
    pub(crate) fn new(path: &Path, kind: PageErrorKind) -> Self {
        Self { path: path.into(), kind }
    }
}

impl Source for NoSource {
    fn describe(&self) -> String {
        super::shown(&self.path)
    }

    fn size(&self) -> Result<u64, PageErrorKind> {
        Err(self.kind.clone())
    }

    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        batch.iter().for_each(|read| done.complete(read.token, Err(self.kind.clone())));
    }
}
