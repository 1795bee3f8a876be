//! Files of a picture: the PNG, which appears under its name when it is whole, and scratch files.

use crate::output::{NewFile, OutputError, SpoolOptions};
use field::error::FieldError;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers scratch files of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

fn number() -> String {
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A name for a file that is needed for a while; whatever lies there is removed at the end.
pub(crate) struct ScratchFile {
    pub(crate) path: PathBuf,
}

impl ScratchFile {
    pub(crate) fn new(extension: &str) -> Self {
        let folder = SpoolOptions::spill_directory(None);
        Self { path: folder.join(format!("farfield-scene-{}.{extension}", number())) }
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // Where nothing was written under the name there is nothing to remove.
        let _never_made = std::fs::remove_file(&self.path);
    }
}

/// A picture file in the making. Dropped before [`PictureFile::commit`], it leaves nothing.
pub(crate) struct PictureFile(NewFile);

impl PictureFile {
    /// Makes the temporary file beside `path`, before the work, so that a path that cannot be written ends the run at its start.
    pub(crate) fn create(path: &Path) -> Result<Self, FieldError> {
        Ok(Self(NewFile::create(path)?))
    }

    /// Gives the file its name; returns its bytes.
    pub(crate) fn commit(self) -> Result<u64, FieldError> {
        Ok(self.0.commit()?)
    }

    /// An error of drawing into it.
    pub(crate) fn failed(&self, e: io::Error) -> FieldError {
        OutputError::io(self.0.path(), "write", e).into()
    }
}

impl Write for PictureFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.file().as_ref().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
