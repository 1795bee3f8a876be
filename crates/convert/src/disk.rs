//! What the writer does to the file system, each with the path in its error.

use field::error::FieldError;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Files that are made durable one by one.
const SYNC_EACH: usize = 4000;
/// How many at once.
const SYNC_THREADS: usize = 8;

/// The file system, through which tests can cut the power.
#[derive(Default)]
pub struct Disk {
    /// Operations until nothing works any more.
    #[cfg(test)]
    pub fuse: Option<std::sync::atomic::AtomicI64>,
}

/// An error about `path`; a full disk gets words that say what to do.
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
    /// Burns the fuse.
    fn step(&self, _path: &Path) -> Result<(), FieldError> {
        #[cfg(test)]
        if let Some(fuse) = &self.fuse {
            if fuse.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) <= 0 {
                return Err(FieldError::io(_path, io::Error::other("the power is cut")));
            }
        }
        Ok(())
    }

    /// Makes a folder and those that it lies in.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn create_dir(&self, path: &Path) -> Result<(), FieldError> {
        self.step(path)?;
        std::fs::create_dir_all(path).map_err(|e| failed(path, e))
    }

    /// Opens a file for writing, empty. A file that has another name, too, is another store's: that keeps it.
    pub fn create(&self, path: &Path) -> Result<File, FieldError> {
        self.step(path)?;
        if std::fs::symlink_metadata(path).is_ok_and(|m| m.nlink() > 1) {
            std::fs::remove_file(path).map_err(|e| failed(path, e))?;
        }
        File::options().read(true).write(true).create(true).truncate(true).open(path).map_err(|e| failed(path, e))
    }

    /// Gives the file `from` the name `to`, too; copies it where the file system does not know second names. A name that is there
    /// from an earlier try is replaced.
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

    /// Writes bytes at a position of a file, which `path` names in errors.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn write_at(&self, file: &File, path: &Path, bytes: &[u8], at: u64) -> Result<(), FieldError> {
        if let Err(e) = self.step(path) {
            // A process dies in the middle of a write, which may have come no further than this or not even so far.
            let _half = file.write_all_at(&bytes[..bytes.len() / 2], at);
            return Err(e);
        }
        file.write_all_at(bytes, at).map_err(|e| failed(path, e))
    }

    /// Makes a file so long; what was not written reads as zeros and takes no room.
    pub fn set_len(&self, file: &File, path: &Path, len: u64) -> Result<(), FieldError> {
        self.step(path)?;
        file.set_len(len).map_err(|e| failed(path, e))
    }

    /// Asks the system to begin writing what was written last, so that `sync` at the end has little left to do and dirty
    /// memory stays small. Only a hint: what it answers does not matter.
    pub fn push(&self, file: &File, at: u64, len: u64) {
        let (Ok(at), Ok(len)) = (i64::try_from(at), i64::try_from(len)) else { return };
        // SAFETY: a system call on an open descriptor, without memory.
        unsafe { libc::sync_file_range(file.as_raw_fd(), at, len, libc::SYNC_FILE_RANGE_WRITE) };
    }

    /// Makes a file's content durable.
    pub fn sync(&self, file: &File, path: &Path) -> Result<(), FieldError> {
        self.step(path)?;
        if self.is_simulated() {
            return Ok(());
        }
        file.sync_all().map_err(|e| failed(path, e))
    }

    /// A test's process that is "killed" loses nothing that was written, so it need not wait for the disk.
    fn is_simulated(&self) -> bool {
        #[cfg(test)]
        return self.fuse.is_some();
        #[cfg(not(test))]
        false
    }

    /// Writes a small file whole; not durable until a sync.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<File, FieldError> {
        let file = self.create(path)?;
        self.write_at(&file, path, bytes, 0)?;
        Ok(file)
    }

    /// Makes a folder's entries durable.
    pub fn sync_dir(&self, path: &Path) -> Result<(), FieldError> {
        let dir = File::open(path).map_err(|e| failed(path, e))?;
        self.sync(&dir, path)
    }

    /// Makes many small files and folders durable, side by side, so that the file system can join their commits. Above
    /// some thousands the whole file system at once is cheaper, although that waits for everybody else's data, too.
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

    /// Gives a file or a folder another name.
    ///
    /// # Errors
    /// [`FieldError::Io`].
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), FieldError> {
        self.step(to)?;
        std::fs::rename(from, to).map_err(|e| failed(to, e))
    }

    /// Lets two folders change places in one step. `false` where the file system cannot.
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

    /// Removes a folder and all in it, or a file; that it is not there is fine.
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

/// Free bytes for this user on the file system of `path`; `None` where that cannot be told.
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

/// What a conversion makes in its folder. Whatever else lies there is somebody's, and stays. The plan comes first: without it,
/// nothing else here is taken for work to go on with.
const OWN: [&str; 4] = ["plan.json", "units", "store", "old"];
/// How often who waits for another run looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The folder `DST.partial`, locked: at most one conversion into a target runs at a time. The lock goes with the
/// process, however it ends.
pub struct Partial {
    /// The folder.
    pub path: PathBuf,
    _lock: File,
}

impl Partial {
    /// Where the folder for a target is.
    pub fn place(dst: &Path) -> Option<PathBuf> {
        let mut name = dst.file_name()?.to_owned();
        name.push(".partial");
        Some(dst.with_file_name(name))
    }

    /// Makes the folder if need be and locks it. Where another run has it, `wait` is asked again and again whether to wait for
    /// that; without it, that is an error.
    pub fn lock(disk: &Disk, dst: &Path, mut wait: Option<&mut dyn FnMut() -> bool>) -> Result<Self, FieldError> {
        let path =
            Self::place(dst).ok_or_else(|| FieldError::Usage(format!("{}: not a name for a store", dst.display())))?;
        // Another conversion may finish, and remove its folder, between our opening and locking it; then we try again.
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

    /// The store that is being made.
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// What is converted, and how.
    pub fn plan(&self) -> PathBuf {
        self.path.join("plan.json")
    }

    /// Records of finished units.
    pub fn units(&self) -> PathBuf {
        self.path.join("units")
    }

    /// The store that was there, for a moment, where two folders cannot change places in one step.
    pub fn old(&self) -> PathBuf {
        self.path.join("old")
    }

    /// Refuses a folder in which lies what no conversion makes: it is somebody's, who has called it by our name.
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

    /// Removes what conversions have made in the folder.
    pub fn clear(&self, disk: &Disk) -> Result<(), FieldError> {
        OWN.iter().try_for_each(|name| disk.remove(&self.path.join(name)))
    }

    /// Removes what conversions have made, and the folder if nothing else is in it.
    pub fn remove(self, disk: &Disk) -> Result<(), FieldError> {
        self.clear(disk)?;
        self.remove_empty();
        Ok(())
    }

    /// Removes the folder if there is nothing in it.
    pub fn remove_empty(self) {
        // Where it is not empty it stays, and a folder without a plan in it is in nobody's way.
        let _stays = std::fs::remove_dir(&self.path);
    }
}
