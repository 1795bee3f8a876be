//! Files that appear under their name when they are complete, or not at all, and anonymous files.

use super::{partial_file, OutputError};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// An unfinished file of a result or a picture. Dropped before [`NewFile::commit`], it leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    /// Its final place. Links are followed, so that a link stays one.
    target: PathBuf,
    /// Its present place, in the same directory so that the rename is atomic; `None` after the commit. See `hidden`.
    temporary: Option<PathBuf>,
    file: Arc<File>,
}

impl NewFile {
    /// Creates the temporary file beside `path`. Call it before the work, so that an unwritable path fails at the start
    /// of the run.
    ///
    /// # Errors
    /// [`OutputError::Target`] for a directory or a special file; [`OutputError`] when the system refuses.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let refused = |reason: String| OutputError::Target { path: path.to_path_buf(), reason };
        let target = match fs::metadata(path) {
            Ok(known) if known.is_dir() => return Err(refused("it is a directory; name a file".into())),
            // Renaming over a device or a pipe would replace it.
            Ok(known) if !known.is_file() => return Err(refused("it is not a regular file".into())),
            Ok(_) => fs::canonicalize(path).map_err(|e| OutputError::io(path, "write", e))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
            Err(e) => return Err(OutputError::io(path, "write", e)),
        };
        let directory = directory_of(&target);
        if !directory.is_dir() {
            return Err(refused(format!("its folder does not exist: there is no directory {}", directory.display())));
        }
        let name = target.file_name().ok_or_else(|| refused("it has no file name".into()))?;
        match partial_file::file(&directory, name) {
            Ok((temporary, file)) => Ok(Self { target, temporary: Some(temporary), file: Arc::new(file) }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(refused(e.to_string())),
            Err(e) => Err(OutputError::io(path, "write", e)),
        }
    }

    /// The path it will have.
    pub fn path(&self) -> &Path {
        &self.target
    }

    /// The file, which is anonymous or has a hidden name.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Syncs the bytes to disk and gives the file its name. Returns its length. If the system refuses, an old file is
    /// still there.
    ///
    /// # Errors
    /// [`OutputError`] when the system refuses.
    pub fn commit(mut self) -> Result<u64, OutputError> {
        let failed = |e| OutputError::io(&self.target, "write", e);
        self.file.sync_all().map_err(failed)?;
        let bytes = self.file.metadata().map_err(failed)?.len();
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.target).map_err(failed)?;
        }
        self.temporary = None;
        // The directory entry must reach the disk, too. Some file systems refuse to sync a directory; the file is
        // complete nevertheless.
        if let Ok(directory) = File::open(directory_of(&self.target)) {
            let _refused = directory.sync_all();
        }
        Ok(bytes)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // It may be gone already.
            let _gone = fs::remove_file(temporary);
        }
    }
}

/// The folder of a path.
pub fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// An anonymous file in `directory`: it disappears when it is closed, however the process ends.
///
/// # Errors
/// The system's error.
pub fn anonymous(directory: &Path) -> io::Result<File> {
    let unnamed = OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(directory);
    match unnamed {
        Ok(file) => Ok(file),
        // Network and older overlay file systems have no anonymous files: create one and unlink it.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL | libc::ENOENT)) => {
            static COUNTER: AtomicU64 = AtomicU64::new(0);
            let name = format!(".farfield-spill-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
            let path = directory.join(name);
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            fs::remove_file(&path)?;
            Ok(file)
        }
        Err(e) => Err(e),
    }
}
