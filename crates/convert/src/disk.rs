//! The writer's file system operations, each with the path in its error.

use field::error::FieldError;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most files that are synced one by one.
const SYNC_EACH: usize = 4000;
/// Number of threads for that.
const SYNC_THREADS: usize = 8;

/// The file system. Tests can simulate a power failure through it.
#[derive(Default)]
pub struct Disk {
    /// Number of operations before all fail.
    #[cfg(test)]
    pub fuse: Option<std::sync::atomic::AtomicI64>,
}

/// An error about `path`. A full disk has a message with a remedy.
pub(crate) fn failed(path: &Path, e: io::Error) -> FieldError {
    match e.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => FieldError::io(
            path,
            io::Error::new(
                io::ErrorKind::StorageFull,
                "no space left on device; make room and run again with --resume, or delete the .partial folder",
            ),
        ),
        _ => FieldError::io(path, e),
    }
}

impl Disk {
    /// Counts down the fuse.
    fn step(&self, _path: &Path) -> Result<(), FieldError> {
        #[cfg(test)]
        if let Some(fuse) = &self.fuse {
            if fuse.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) <= 0 {
                return Err(FieldError::io(_path, io::Error::other("the power is cut")));
            }
        }
        Ok(())
    }

    /// Creates a folder with its parents.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn create_dir(&self, path: &Path) -> Result<(), FieldError> {
        self.step(path)?;
        std::fs::create_dir_all(path).map_err(|e| failed(path, e))
    }

    /// Opens a file for writing, empty. A file with a second name belongs to another store, which keeps its content: a
    /// new file is created.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn create(&self, path: &Path) -> Result<File, FieldError> {
        self.step(path)?;
        if std::fs::symlink_metadata(path).is_ok_and(|m| m.nlink() > 1) {
            std::fs::remove_file(path).map_err(|e| failed(path, e))?;
        }
        File::options().read(true).write(true).create(true).truncate(true).open(path).map_err(|e| failed(path, e))
    }

    /// Adds the name `to` to the file `from`, or copies it if the file system has no second names. A name from an
    /// earlier attempt is replaced.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn link(&self, from: &Path, to: &Path) -> Result<(), FieldError> {
        self.step(to)?;
        let mut linked = std::fs::hard_link(from, to);
        if linked.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists) {
            std::fs::remove_file(to).map_err(|e| failed(to, e))?;
            linked = std::fs::hard_link(from, to);
        }
        match linked {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(FieldError::format(
                from,
                "is not there, so that no steps can be added to this store; copy the store again, or convert its source again",
            )),
            Err(e) => match e.raw_os_error() {
                Some(libc::EPERM | libc::EOPNOTSUPP | libc::ENOSYS | libc::EMLINK) => {
                    std::fs::copy(from, to).map_err(|e| failed(to, e))?;
                    let file = File::open(to).map_err(|e| failed(to, e))?;
                    self.sync(&file, to)
                }
                _ => Err(failed(to, e)),
            },
        }
    }

    /// Writes bytes at a position of a file; `path` is for errors.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn write_at(&self, file: &File, path: &Path, bytes: &[u8], at: u64) -> Result<(), FieldError> {
        if let Err(e) = self.step(path) {
            // A killed process may have written half of it, or less.
            let _half = file.write_all_at(&bytes[..bytes.len() / 2], at);
            return Err(e);
        }
        file.write_all_at(bytes, at).map_err(|e| failed(path, e))
    }

    /// Sets the length of a file. Unwritten parts read as zeros and use no space.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn set_len(&self, file: &File, path: &Path, len: u64) -> Result<(), FieldError> {
        self.step(path)?;
        file.set_len(len).map_err(|e| failed(path, e))
    }

    /// Asks the system to start writing the last range, so that the final `sync` is short and dirty memory stays small.
    /// A hint: its result does not matter.
    pub fn push(&self, file: &File, at: u64, len: u64) {
        let (Ok(at), Ok(len)) = (i64::try_from(at), i64::try_from(len)) else { return };
        // SAFETY: a system call on an open descriptor, without memory.
        unsafe { libc::sync_file_range(file.as_raw_fd(), at, len, libc::SYNC_FILE_RANGE_WRITE) };
    }

    /// Makes a file's content durable.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn sync(&self, file: &File, path: &Path) -> Result<(), FieldError> {
        self.step(path)?;
        if self.is_simulated() {
            return Ok(());
        }
        file.sync_all().map_err(|e| failed(path, e))
    }

    /// A test that "kills" a process loses no written bytes, so it need not wait for the disk.
    fn is_simulated(&self) -> bool {
        #[cfg(test)]
        return self.fuse.is_some();
        #[cfg(not(test))]
        false
    }

    /// Writes a small file completely; not durable until a sync.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<File, FieldError> {
        let file = self.create(path)?;
        self.write_at(&file, path, bytes, 0)?;
        Ok(file)
    }

    /// Makes a folder's entries durable.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn sync_dir(&self, path: &Path) -> Result<(), FieldError> {
        let dir = File::open(path).map_err(|e| failed(path, e))?;
        self.sync(&dir, path)
    }

    /// Syncs many small files and folders in parallel, so that the file system can join their commits. Above some
    /// thousands, syncing the whole file system is cheaper, although that waits for other processes' data, too.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn sync_paths(&self, root: &Path, paths: &[PathBuf]) -> Result<(), FieldError> {
        if paths.len() > SYNC_EACH {
            return self.sync_file_system(root);
        }
        let one = |p: &PathBuf| -> Result<(), FieldError> {
            File::open(p).map_err(|e| failed(p, e)).and_then(|f| self.sync(&f, p))
        };
        std::thread::scope(|scope| {
            let share = paths.len().div_ceil(SYNC_THREADS).max(1);
            let threads: Vec<_> =
                paths.chunks(share).map(|c| scope.spawn(move || c.iter().try_for_each(one))).collect();
            threads.into_iter().try_for_each(|t| t.join().unwrap_or(Err(FieldError::Internal("a thread panicked"))))
        })
    }

    fn sync_file_system(&self, path: &Path) -> Result<(), FieldError> {
        self.step(path)?;
        let dir = File::open(path).map_err(|e| failed(path, e))?;
        // SAFETY: a system call on an open descriptor.
        if unsafe { libc::syncfs(dir.as_raw_fd()) } != 0 {
            return Err(failed(path, io::Error::last_os_error()));
        }
        Ok(())
    }

    /// Renames a file or a folder.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), FieldError> {
        self.step(to)?;
        std::fs::rename(from, to).map_err(|e| failed(to, e))
    }

    /// Exchanges two folders in one step. `false` if the file system cannot.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn exchange(&self, a: &Path, b: &Path) -> Result<bool, FieldError> {
        self.step(b)?;
        let c = |p: &Path| CString::new(p.as_os_str().as_bytes()).map_err(|e| failed(p, io::Error::other(e)));
        let (x, y) = (c(a)?, c(b)?);
        // SAFETY: two C strings that live through the call.
        let rc =
            unsafe { libc::renameat2(libc::AT_FDCWD, x.as_ptr(), libc::AT_FDCWD, y.as_ptr(), libc::RENAME_EXCHANGE) };
        if rc == 0 {
            return Ok(true);
        }
        let e = io::Error::last_os_error();
        match e.raw_os_error() {
            Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => Ok(false),
            _ => Err(failed(b, e)),
        }
    }

    /// Removes a folder with its content, or a file. A missing one is no error.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn remove(&self, path: &Path) -> Result<(), FieldError> {
        self.step(path)?;
        let gone = match std::fs::symlink_metadata(path) {
            Ok(m) if m.is_dir() => std::fs::remove_dir_all(path),
            Ok(_) => std::fs::remove_file(path),
            Err(e) => Err(e),
        };
        match gone {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed(path, e)),
            _ => Ok(()),
        }
    }
}

/// Free bytes for this user on the file system of `path`; `None` if unknown.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let c = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut s = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: a C string, and room for the answer.
    if unsafe { libc::statvfs(c.as_ptr(), s.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: filled by the call (and zeroed before).
    let s = unsafe { s.assume_init() };
    s.f_bavail.checked_mul(s.f_frsize)
}

/// The entries that a conversion makes in its folder. Other entries belong to others and stay. The plan is written
/// first: without it no other entry counts as work to be continued.
const OWN: [&str; 4] = ["plan.json", "units", "store", "old"];
/// Interval at which a waiting run checks whether the other is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The folder `DST.partial`, locked: at most one conversion into a target runs at a time. The lock ends with the
/// process.
pub struct Partial {
    /// The folder.
    pub path: PathBuf,
    _lock: File,
}

impl Partial {
    /// The folder for a target.
    pub fn place(dst: &Path) -> Option<PathBuf> {
        let mut name = dst.file_name()?.to_owned();
        name.push(".partial");
        Some(dst.with_file_name(name))
    }

    /// Creates the folder if needed and locks it. If another run has it, `wait` is called repeatedly and returns
    /// whether to wait. Without `wait` that is an error.
    ///
    /// # Errors
    /// [`FieldError::Format`] if another run has the folder and `wait` is `None`; [`FieldError::Interrupted`] if it
    /// returns false; [`FieldError::Usage`] for a target without a name; [`FieldError::Io`].
    pub fn lock(disk: &Disk, dst: &Path, mut wait: Option<&mut dyn FnMut() -> bool>) -> Result<Self, FieldError> {
        let path =
            Self::place(dst).ok_or_else(|| FieldError::Usage(format!("{}: not a name for a store", dst.display())))?;
        // Another conversion may finish, and remove its folder, between our opening and locking it; then try again.
        let mut tries = 0;
        while tries < 100 {
            disk.create_dir(&path)?;
            let lock = match File::open(&path) {
                Ok(lock) => lock,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    tries += 1;
                    continue;
                }
                Err(e) => return Err(failed(&path, e)),
            };
            // SAFETY: a system call on an open descriptor.
            if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                let e = io::Error::last_os_error();
                match (&mut wait, e.kind()) {
                    (Some(go_on), io::ErrorKind::WouldBlock) => {
                        if !go_on() {
                            return Err(FieldError::Interrupted);
                        }
                        std::thread::sleep(LOOK_EVERY);
                        continue;
                    }
                    (None, io::ErrorKind::WouldBlock) => {
                        return Err(FieldError::format(
                            dst,
                            "another conversion into this target is running; wait for it or choose another target",
                        ))
                    }
                    _ => return Err(failed(&path, e)),
                }
            }
            let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
            match (lock.metadata(), std::fs::metadata(&path)) {
                (Ok(a), Ok(b)) if same(&a, &b) => return Ok(Self { path, _lock: lock }),
                (Err(e), _) => return Err(failed(&path, e)),
                (_, Err(e)) if e.kind() != io::ErrorKind::NotFound => return Err(failed(&path, e)),
                _ => tries += 1,
            }
        }
        Err(FieldError::format(dst, "other conversions into this target come and go; wait for them and try again"))
    }

    /// The unfinished store.
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// The plan: the input and the options.
    pub fn plan(&self) -> PathBuf {
        self.path.join("plan.json")
    }

    /// Records of finished units.
    pub fn units(&self) -> PathBuf {
        self.path.join("units")
    }

    /// The replaced store, for a short time, on a file system that cannot exchange folders in one step.
    pub fn old(&self) -> PathBuf {
        self.path.join("old")
    }

    /// Refuses a folder with other entries than those of a conversion: it belongs to others and only has this name.
    ///
    /// # Errors
    /// [`FieldError::Format`] names such an entry; [`FieldError::Io`].
    pub fn check_own(&self) -> Result<(), FieldError> {
        let io = |e| failed(&self.path, e);
        let names = std::fs::read_dir(&self.path).map_err(io)?.map(|e| e.map(|e| e.file_name()));
        let names = names.collect::<Result<Vec<_>, _>>().map_err(io)?;
        match names.iter().filter(|n| !OWN.iter().any(|own| *n == own)).min() {
            None => Ok(()),
            Some(stranger) => Err(FieldError::format(
                &self.path,
                format!(
                    "is where the conversion would work, and holds '{}', which no conversion made; move it elsewhere or choose \
                     another target",
                    stranger.to_string_lossy()
                ),
            )),
        }
    }

    /// Removes the entries of conversions from the folder.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn clear(&self, disk: &Disk) -> Result<(), FieldError> {
        OWN.iter().try_for_each(|name| disk.remove(&self.path.join(name)))
    }

    /// Removes the entries of conversions, and the folder if no other entry is left.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn remove(self, disk: &Disk) -> Result<(), FieldError> {
        self.clear(disk)?;
        self.remove_empty();
        Ok(())
    }

    /// Removes the folder if it is empty.
    pub fn remove_empty(self) {
        // A folder with entries stays, and is harmless without a plan.
        let _stays = std::fs::remove_dir(&self.path);
    }
}
