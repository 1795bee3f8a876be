//! Hidden names beside a result, for unfinished files: `.NAME.part-0`, or the next number if another run holds that.
//!
//! A run holds a lock on its hidden files until it ends, however it ends. So a name without a lock was left by a killed
//! run, and the next run for the same result reuses or removes it. Names are numbered and not random. So leftovers are
//! found by one or two checks, without listing a folder of perhaps thousands of pictures.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Most runs that may write one result at the same time.
const NUMBERS: usize = 1000;

/// Bytes of a result's name in the hidden one: names may have 255 on most file systems.
const NAME_BYTES: usize = 200;

/// The hidden name of `name` in `directory` with a number.
fn hidden(directory: &Path, name: &OsStr, number: usize) -> PathBuf {
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(OsStr::from_bytes(&name.as_bytes()[..name.len().min(NAME_BYTES)]));
    hidden.push(format!(".part-{number}"));
    directory.join(hidden)
}

/// Whether no other process holds a lock on it. On a file system without locks an existing file counts as locked.
fn is_free(file: &File, made_here: bool) -> bool {
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(_)) => made_here,
    }
}

/// Whether a path still names the opened file: between opening and locking another run may have given it its final
/// name.
fn is_at(path: &Path, file: &File) -> bool {
    let known = |m: &fs::Metadata| (m.dev(), m.ino());
    matches!((fs::symlink_metadata(path), file.metadata()), (Ok(a), Ok(b)) if known(&a) == known(&b))
}

fn none_free() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "too many temporary files beside it; remove them")
}

/// Creates an empty hidden file for `name` in `directory`, and removes those of killed runs.
///
/// # Errors
/// The system's error; [`io::ErrorKind::AlreadyExists`] if no number is free.
pub fn file(directory: &Path, name: &OsStr) -> io::Result<(PathBuf, File)> {
    let mut made: Option<(PathBuf, File)> = None;
    for number in 0..NUMBERS {
        let path = hidden(directory, name, number);
        let there = path.symlink_metadata();
        if made.is_some() && there.is_err() {
            break; // names are used in order: there is no later one either
        }
        // Links are not followed, and a file with another name belongs to others.
        if there.as_ref().is_ok_and(|m| !m.is_file() || m.nlink() != 1) {
            continue;
        }
        let mut open = OpenOptions::new();
        open.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
        let file = match if there.is_ok() { open.open(&path) } else { open.create_new(true).open(&path) } {
            Ok(file) => file,
            // Another run was quicker, or the file is another user's.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) && (there.is_ok() || e.kind() == io::ErrorKind::AlreadyExists) =>
            {
                continue
            }
            Err(e) => return Err(e),
        };
        if !is_free(&file, there.is_err()) || !is_at(&path, &file) {
            continue;
        }
        if made.is_none() {
            file.set_len(0)?;
            made = Some((path, file));
        } else {
            fs::remove_file(&path)?;
        }
    }
    made.ok_or_else(none_free)
}

/// Creates an empty hidden folder for `name` in `directory`, and removes those of killed runs. The file is the folder's
/// lock; hold it until the folder has its final name.
///
/// # Errors
/// As [`file()`].
pub(crate) fn folder(directory: &Path, name: &OsStr) -> io::Result<(PathBuf, File)> {
    for number in 0..NUMBERS {
        let path = hidden(directory, name, number);
        if path.symlink_metadata().is_ok_and(|m| m.is_dir()) {
            let left = match File::open(&path) {
                Ok(left) => left,
                Err(_) => continue,
            };
            if !is_free(&left, false) || !is_at(&path, &left) {
                continue;
            }
            fs::remove_dir_all(&path)?;
        }
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e),
        }
        let lock = File::open(&path)?;
        if is_free(&lock, true) && is_at(&path, &lock) {
            return Ok((path, lock));
        }
    }
    Err(none_free())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use testing::TestDir;

    #[test]
    fn what_killed_runs_left_is_taken_or_removed_and_what_is_held_stays() {
        let dir = TestDir::new("hidden-file");
        let at = dir.path("");
        for number in 0..3 {
            fs::write(hidden(&at, OsStr::new("a.png"), number), b"left").unwrap();
        }
        fs::write(dir.path(".b.png.part-0"), b"of another result").unwrap();
        let held = File::open(dir.path(".a.png.part-1")).unwrap();
        held.lock().unwrap();
        let (path, mut first) = file(&at, OsStr::new("a.png")).unwrap();
        assert_eq!(path, dir.path(".a.png.part-0"));
        assert_eq!(dir.names(), [".a.png.part-0", ".a.png.part-1", ".b.png.part-0"]);
        assert_eq!(first.metadata().unwrap().len(), 0, "it begins empty");
        first.write_all(b"half").unwrap();
        let (second, _lock) = file(&at, OsStr::new("a.png")).unwrap();
        assert_eq!(second, dir.path(".a.png.part-2"), "two runs of one result do not meet");
        assert_eq!(fs::read(&path).unwrap(), b"half");
    }

    #[test]
    fn links_are_not_followed() {
        let dir = TestDir::new("hidden-link");
        fs::write(dir.path("precious"), b"mine").unwrap();
        std::os::unix::fs::symlink(dir.path("precious"), dir.path(".a.png.part-0")).unwrap();
        fs::hard_link(dir.path("precious"), dir.path(".a.png.part-1")).unwrap();
        let (path, _file) = file(&dir.path(""), OsStr::new("a.png")).unwrap();
        assert_eq!(path, dir.path(".a.png.part-2"));
        assert_eq!(fs::read(dir.path("precious")).unwrap(), b"mine");
    }

    #[test]
    fn folders_too() {
        let dir = TestDir::new("hidden-folder");
        fs::create_dir(dir.path(".a.part-0")).unwrap();
        fs::write(dir.path(".a.part-0/a_0000.vtp"), b"left").unwrap();
        let (path, lock) = folder(&dir.path(""), OsStr::new("a")).unwrap();
        assert_eq!((path.clone(), fs::read_dir(&path).unwrap().count()), (dir.path(".a.part-0"), 0));
        let (other, _lock) = folder(&dir.path(""), OsStr::new("a")).unwrap();
        assert_eq!(other, dir.path(".a.part-1"));
        drop(lock);
    }
}
