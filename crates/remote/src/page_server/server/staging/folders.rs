//! Folders by descriptor: one name at a time, no link followed.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// An open folder.
pub(super) struct OpenFolder(OwnedFd);

fn c_name(name: &str) -> io::Result<CString> {
    if name.is_empty() || name == "." || name == ".." || name.contains('/') {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    CString::new(name).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn checked(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl OpenFolder {
    /// Opens a folder by its path.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(File::open(path)?.into()))
    }

    /// Its descriptor, for others.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    fn openat(&self, name: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
        let flags = flags | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        // SAFETY: the descriptor is open, and the name ends with NUL.
        let got = unsafe { libc::openat(self.0.as_raw_fd(), name.as_ptr(), flags, 0o600 as libc::c_uint) };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call gave this descriptor to the caller alone.
        Ok(unsafe { OwnedFd::from_raw_fd(got) })
    }

    /// A folder in it.
    pub(super) fn folder(&self, name: &str) -> io::Result<Self> {
        Ok(Self(self.openat(&c_name(name)?, libc::O_RDONLY | libc::O_DIRECTORY)?))
    }

    /// A folder in it, which is made if it is not there.
    pub(super) fn make(&self, name: &str) -> io::Result<Self> {
        let c = c_name(name)?;
        // SAFETY: the descriptor is open, and the name ends with NUL.
        match checked(unsafe { libc::mkdirat(self.0.as_raw_fd(), c.as_ptr(), 0o700) }) {
            Err(e) if e.raw_os_error() != Some(libc::EEXIST) => Err(e),
            _ => self.folder(name),
        }
    }

    /// The folder of a path below it, and the last name of the path. `make`: folders that are not there are made.
    pub(super) fn parent<'a>(&self, path: &'a str, make: bool) -> io::Result<(Self, &'a str)> {
        let mut folder = Self(self.descriptor()?);
        let (above, leaf) = path.rsplit_once('/').map_or(("", path), |(above, leaf)| (above, leaf));
        for name in above.split('/').filter(|name| !name.is_empty()) {
            folder = if make { folder.make(name)? } else { folder.folder(name)? };
        }
        Ok((folder, leaf))
    }

    /// A regular file in it, made if it is new, for reading and writing.
    pub(super) fn file(&self, name: &str, new: bool) -> io::Result<File> {
        let flags = if new { libc::O_CREAT | libc::O_EXCL } else { 0 };
        Ok(self.openat(&c_name(name)?, libc::O_RDWR | libc::O_NONBLOCK | flags)?.into())
    }

    /// The state of a name in it; of a link, that of the link.
    pub(super) fn stat(&self, name: &str) -> io::Result<libc::stat> {
        let c = c_name(name)?;
        // SAFETY: integers, for which zero is a value.
        let mut found: libc::stat = unsafe { std::mem::zeroed() };
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        // SAFETY: the descriptor is open, the name ends with NUL, and the structure is valid for writing.
        checked(unsafe { libc::fstatat(self.0.as_raw_fd(), c.as_ptr(), &mut found, flags) })?;
        Ok(found)
    }

    /// Removes a file, or an empty folder.
    pub(super) fn remove(&self, name: &str, folder: bool) -> io::Result<()> {
        let c = c_name(name)?;
        let flags = if folder { libc::AT_REMOVEDIR } else { 0 };
        // SAFETY: the descriptor is open, and the name ends with NUL.
        checked(unsafe { libc::unlinkat(self.0.as_raw_fd(), c.as_ptr(), flags) })
    }

    /// Moves a name to another folder. A file there is replaced in one step.
    pub(super) fn move_to(&self, name: &str, to: &Self, as_name: &str) -> io::Result<()> {
        let (from, into) = (c_name(name)?, c_name(as_name)?);
        // SAFETY: the descriptors are open, and the names end with NUL.
        checked(unsafe { libc::renameat(self.0.as_raw_fd(), from.as_ptr(), to.0.as_raw_fd(), into.as_ptr()) })
    }

    /// The names in it.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(format!("/proc/self/fd/{}", self.0.as_raw_fd()))?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }

    /// Brings its names to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open.
        checked(unsafe { libc::fsync(self.0.as_raw_fd()) })
    }

    /// Bytes that its file system has free for this user.
    pub(super) fn free(&self) -> io::Result<u64> {
        // SAFETY: integers, for which zero is a value.
        let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and the structure is valid for writing.
        checked(unsafe { libc::fstatvfs(self.0.as_raw_fd(), &mut found) })?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Takes a lock that ends with the process. `false`: another process has it.
    pub(super) fn lock(&self) -> io::Result<bool> {
        // SAFETY: the descriptor is open.
        match checked(unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
            Err(e) if e.raw_os_error() == Some(libc::EWOULDBLOCK) => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Bytes of all regular files below it.
    pub(super) fn bytes_below(&self) -> io::Result<u64> {
        let mut bytes = 0u64;
        for name in self.names()? {
            bytes += self.bytes_of(&name)?;
        }
        Ok(bytes)
    }

    /// Bytes of a file in it, or of all files below a folder in it; 0 of what is not there.
    pub(super) fn bytes_of(&self, name: &str) -> io::Result<u64> {
        let found = match self.stat(name) {
            Ok(found) => found,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(e) => return Err(e),
        };
        match found.st_mode & libc::S_IFMT {
            libc::S_IFREG => Ok(u64::try_from(found.st_size).unwrap_or(0)),
            libc::S_IFDIR => self.folder(name)?.bytes_below(),
            _ => Ok(0),
        }
    }

    /// Removes a name with all below it. What is not there is removed already.
    pub(super) fn remove_all(&self, name: &str) -> io::Result<()> {
        let found = match self.stat(name) {
            Ok(found) => found,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        let is_folder = found.st_mode & libc::S_IFMT == libc::S_IFDIR;
        if is_folder {
            let below = self.folder(name)?;
            for inner in below.names()? {
                below.remove_all(&inner)?;
            }
        }
        self.remove(name, is_folder)
    }
}
