//! The folder of the cache: whose it is, what of it is ours, and how much room is left.
//!
//! *Theory.* Segments hold what runs compute with, so nobody else may write to the folder. Other files in it are never
//! read or removed. Processes create and remove segments one at a time, under a lock of the folder.

use super::format::{self, SegmentName};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// The file that processes lock while they create or remove segments.
const LOCK: &str = "farfield-cache.lock";
/// Time between two tries to get a lock.
const TRY_EVERY: Duration = Duration::from_millis(2);

/// Creates the folder, or checks the one that is there.
///
/// # Errors
/// In words: it cannot be a folder, or others could write to it.
pub(super) fn prepare(folder: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let about = match (std::fs::metadata(folder), made) {
        (Ok(about), _) => about,
        (Err(_), Err(e)) | (Err(e), Ok(())) => return Err(e.to_string()),
    };
    // SAFETY: the call only returns a number.
    let me = unsafe { libc::geteuid() };
    match about {
        about if !about.is_dir() => Err("it is no folder".into()),
        about if about.uid() != me => Err("it belongs to another user".into()),
        about if about.mode() & 0o022 != 0 => Err("other users may write to it".into()),
        _ => Ok(()),
    }
}

/// Opens a file of the folder, which is no link, pipe or device.
pub(super) fn open(folder: &Path, name: &str, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(folder.join(name))?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// A file whose lock this process has. It is given up explicitly: a child that was just forked has the file, too, and
/// would keep the lock until it runs its own program.
pub(super) struct LockedFile(File);

impl LockedFile {
    /// Takes a file's lock, and else gives the file back.
    ///
    /// # Errors
    /// `WouldBlock`: another process has it. Others: the file system has no locks.
    pub fn take(file: File) -> Result<Self, (File, io::Error)> {
        // SAFETY: the descriptor is open as long as `file` is there.
        match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
            0 => Ok(Self(file)),
            _ => Err((file, io::Error::last_os_error())),
        }
    }
}

impl std::ops::Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// The lock of the folder. `None`: it cannot be had in that time.
pub(super) fn lock(folder: &Path, patience: Duration) -> io::Result<Option<LockedFile>> {
    let mut file = open(folder, LOCK, OpenOptions::new().read(true).write(true).create(true))?;
    let end = Instant::now() + patience;
    loop {
        match LockedFile::take(file) {
            Ok(locked) => return Ok(Some(locked)),
            Err((_, e)) if e.kind() != io::ErrorKind::WouldBlock => return Err(e),
            Err(_) if Instant::now() >= end => return Ok(None),
            Err((back, _)) => file = back,
        }
        std::thread::sleep(TRY_EVERY);
    }
}

/// A file of the folder whose name is ours.
#[derive(Copy, Clone, Debug)]
pub(super) struct ListedSegment {
    pub number: u64,
    pub sealed: bool,
    pub bytes: u64,
}

/// The files with names of ours. Whether they are segments is said by their bytes.
pub(super) fn list(folder: &Path) -> io::Result<Vec<ListedSegment>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some((number, sealed)) = name.to_str().and_then(format::parse_file_name) else { continue };
        // A file that is gone by now counts no more.
        let Ok(about) = entry.metadata() else { continue };
        if about.is_file() {
            found.push(ListedSegment { number, sealed, bytes: about.len() });
        }
    }
    Ok(found)
}

/// Removes a segment that is ours by its bytes. Its space is free at once, also if other processes have it open; they see
/// that it has no name any more.
pub(super) fn remove(folder: &Path, name: &SegmentName, sealed: bool) -> io::Result<()> {
    let file_name = format::file_name(name.number, sealed);
    let opened = open(folder, &file_name, OpenOptions::new().write(true));
    match std::fs::remove_file(folder.join(file_name)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed?,
    }
    // Else its space is free when the last process has closed it.
    let _freed = opened.and_then(|file| file.set_len(0));
    Ok(())
}

/// Whether an open file was removed.
pub(super) fn is_removed(file: &File) -> bool {
    file.metadata().is_ok_and(|about| about.nlink() == 0)
}

/// Free and all bytes of the folder's disk. `None`: the system does not say.
pub(super) fn space(folder: &Path) -> Option<(u64, u64)> {
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: a plain structure of numbers, for which zeros are valid.
    let mut about: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero, and `about` is writable.
    let failed = unsafe { libc::statvfs(path.as_ptr(), &mut about) } != 0;
    #[allow(clippy::unnecessary_cast, reason = "the widths differ between systems")]
    let block = about.f_frsize as u64;
    #[allow(clippy::unnecessary_cast, reason = "the widths differ between systems")]
    let (free, all) = (about.f_bavail as u64, about.f_blocks as u64);
    (!failed).then(|| (free.saturating_mul(block), all.saturating_mul(block)))
}
