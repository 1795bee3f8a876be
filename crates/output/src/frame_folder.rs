//! The unfinished folder of a series of files.

use super::new_file::directory_of;
use super::{partial_file, OutputError};
use std::fs;
use std::path::{Path, PathBuf};

/// The unfinished folder of a series. Dropped before [`FrameFolder::commit`], it leaves nothing.
#[derive(Debug)]
pub(crate) struct FrameFolder {
    /// Its final place: the list's name without its extension.
    target: PathBuf,
    /// The present place of its files; `None` after the commit.
    temporary: Option<PathBuf>,
    /// The lock of that folder. A folder without a lock belongs to an ended run.
    _lock: fs::File,
    /// The common start of the files' names.
    stem: String,
}

impl FrameFolder {
    /// Makes a folder beside the list `path`.
    pub(crate) fn create(path: &Path) -> Result<Self, OutputError> {
        let refused = |reason: String| OutputError::Target { path: path.to_path_buf(), reason };
        let target = path.with_extension("");
        let stem = target.file_name().and_then(|n| n.to_str()).map(str::to_owned);
        let stem = stem.ok_or_else(|| refused("its name must be text, for the list holds it".into()))?;
        check_replaceable(&target, &stem, path)?;
        let name = target.file_name().unwrap_or_default();
        match partial_file::folder(&directory_of(&target), name) {
            Ok((temporary, lock)) => {
                put_back(&replaced(&temporary), &target).map_err(|e| OutputError::io(path, "write", e))?;
                Ok(Self { target, temporary: Some(temporary), _lock: lock, stem })
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Err(refused(e.to_string())),
            Err(e) => Err(OutputError::io(path, "write", e)),
        }
    }

    pub(crate) fn file_name(&self, frame: usize) -> String {
        format!("{}_{frame:04}.vtp", self.stem)
    }

    /// The name of the folder, as its list has it.
    pub(crate) fn name(&self) -> &str {
        &self.stem
    }

    /// The present place of a file of the series.
    pub(crate) fn path(&self, frame: usize) -> PathBuf {
        self.temporary.as_ref().unwrap_or(&self.target).join(self.file_name(frame))
    }

    /// Gives the folder its name. The list of an earlier run is removed first: it must not name files of this one.
    pub(crate) fn commit(&mut self, list: &Path) -> Result<(), OutputError> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        let failed = |e| OutputError::io(list, "write", e);
        check_replaceable(&self.target, &self.stem, list)?;
        match fs::remove_file(list) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        if self.target.is_dir() {
            let old = replaced(temporary);
            fs::rename(&self.target, &old).map_err(failed)?;
            fs::rename(temporary, &self.target).map_err(failed)?;
            fs::remove_dir_all(&old).map_err(failed)?;
        } else {
            fs::rename(temporary, &self.target).map_err(failed)?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for FrameFolder {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // It may be gone already.
            let _gone = fs::remove_dir_all(temporary);
        }
    }
}

/// The temporary place of the replaced folder, until it is removed.
fn replaced(temporary: &Path) -> PathBuf {
    let mut old = temporary.to_path_buf().into_os_string();
    old.push("-old");
    old.into()
}

/// Repairs the state that a run killed during the replacement of a folder left. The old folder gets its name back if
/// there is no new one.
fn put_back(old: &Path, target: &Path) -> std::io::Result<()> {
    match (old.is_dir(), target.symlink_metadata().is_ok()) {
        (true, true) => fs::remove_dir_all(old),
        (true, false) => fs::rename(old, target),
        (false, _) => Ok(()),
    }
}

/// Refuses a folder with other contents than the files of an earlier run.
fn check_replaceable(target: &Path, stem: &str, path: &Path) -> Result<(), OutputError> {
    let refused = |reason: String| Err(OutputError::Target { path: path.to_path_buf(), reason });
    let entries = match fs::read_dir(target) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
            return refused(format!(
                "its files go to the folder {}, which is a file; name another output",
                target.display()
            ))
        }
        Err(e) => return Err(OutputError::io(target, "read", e)),
    };
    for entry in entries {
        let name = entry.map_err(|e| OutputError::io(target, "read", e))?.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix(stem)?.strip_prefix('_')?.strip_suffix(".vtp"));
        if !number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
            return refused(format!(
                "its files go to the folder {}, which holds something else ({}); name another output",
                target.display(),
                name.display()
            ));
        }
    }
    Ok(())
}
