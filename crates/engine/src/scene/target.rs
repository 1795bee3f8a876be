//! Files of a picture: the PNG, which appears under its name when it is whole, and scratch files.

use crate::output::SpoolOptions;
use field::error::FieldError;
use std::fs::{self, File, OpenOptions};
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
        let _ = fs::remove_file(&self.path);
    }
}

/// A picture file in the making. Dropped before [`PictureFile::commit`], it leaves nothing.
pub(crate) struct PictureFile {
    target: PathBuf,
    temporary: PathBuf,
    file: Option<File>,
}

impl PictureFile {
    /// Makes the temporary file beside `path`, before the work, so that a path that cannot be written ends the run at its start.
    pub(crate) fn create(path: &Path) -> Result<Self, FieldError> {
        let refused = |reason: &str| FieldError::Usage(format!("{}: {reason}", path.display()));
        // Links are followed, so that a link stays one.
        let target = match fs::metadata(path) {
            Ok(m) if m.is_dir() => return Err(refused("it is a directory; name a .png file")),
            // Renaming over a device or a pipe would replace it.
            Ok(m) if !m.is_file() => return Err(refused("it is not a regular file")),
            Ok(_) => fs::canonicalize(path).map_err(|e| FieldError::io(path, e))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
            Err(e) => return Err(FieldError::io(path, e)),
        };
        let name = target.file_name().ok_or_else(|| refused("name a .png file"))?.to_string_lossy().into_owned();
        let temporary = target.with_file_name(format!(".{name}.{}.part", number()));
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => refused("its folder does not exist"),
            _ => FieldError::io(path, e),
        })?;
        Ok(Self { target, temporary, file: Some(file) })
    }

    /// Gives the file its name; returns its bytes.
    pub(crate) fn commit(mut self) -> Result<u64, FieldError> {
        let Some(file) = self.file.take() else { return Ok(0) };
        let done = || -> io::Result<u64> {
            file.sync_all()?;
            let bytes = file.metadata()?.len();
            fs::rename(&self.temporary, &self.target)?;
            Ok(bytes)
        };
        done().map_err(|e| {
            let _ = fs::remove_file(&self.temporary);
            FieldError::io(&self.target, e)
        })
    }

    /// An error of drawing into it.
    pub(crate) fn failed(&self, e: io::Error) -> FieldError {
        match e.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FieldError::io(
                &self.target,
                io::Error::new(e.kind(), "no space left on device; free some space or write elsewhere"),
            ),
            _ => FieldError::io(&self.target, e),
        }
    }
}

impl Write for PictureFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(f) => f.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for PictureFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
