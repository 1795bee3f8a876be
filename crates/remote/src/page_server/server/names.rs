//! The names that are served, and nothing beside them.
//!
//! Each root is opened once. Every lookup below it is one `openat2` that the kernel holds inside the root, without
//! symbolic links on the way.

use super::super::wire::{RemoteKind, RemoteStat, State, MOST_NAME};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The state of a file that decides whether it is still the same.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) modified_ns: i64,
    pub(super) changed_ns: i64,
    pub(super) kind: RemoteKind,
}

impl FileState {
    /// That of an open file.
    pub(super) fn of(file: &impl AsRawFd) -> io::Result<Self> {
        // SAFETY: integers, for which zero is a value.
        let mut found: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and the structure is valid for writing.
        if unsafe { libc::fstat(file.as_raw_fd(), &mut found) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::from_stat(&found))
    }

    fn from_stat(found: &libc::stat) -> Self {
        let time = |s: i64, ns: i64| s.saturating_mul(1_000_000_000).saturating_add(ns);
        let kind = match found.st_mode & libc::S_IFMT {
            libc::S_IFREG => RemoteKind::File,
            libc::S_IFDIR => RemoteKind::Folder,
            _ => RemoteKind::Other,
        };
        Self {
            device: found.st_dev,
            inode: found.st_ino,
            size: u64::try_from(found.st_size).unwrap_or(0),
            modified_ns: time(found.st_mtime, found.st_mtime_nsec),
            changed_ns: time(found.st_ctime, found.st_ctime_nsec),
            kind,
        }
    }

    /// Its state in the words of the protocol.
    pub(super) fn told(&self) -> RemoteStat {
        let words = [self.device, self.inode, self.size, self.modified_ns as u64, self.changed_ns as u64];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
        let mut version = [0; 16];
        version.copy_from_slice(&digest.as_ref()[..16]);
        let size = if self.kind == RemoteKind::File { self.size } else { 0 };
        RemoteStat { kind: self.kind, size, modified_ns: self.modified_ns, version }
    }
}

struct Root {
    name: String,
    /// The folder, or the folder of the file.
    folder: OwnedFd,
    /// The name of the file, if one file is served.
    only: Option<CString>,
}

/// The roots by name.
/// The second is the folder of staged names, which come and go.
pub(super) struct Names(Vec<Root>, Option<Root>);

/// The reason why a name was not opened.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum NotOpened {
    /// The state for the client.
    State(State),
    /// It would wait for the disk, which the caller did not want.
    WouldWait,
}

impl Names {
    /// Opens the roots.
    ///
    /// # Errors
    /// For a name that is no single plain component, a path that does not exist, and a system without `openat2`.
    pub(super) fn open(names: &[(String, PathBuf)]) -> io::Result<Self> {
        let mut roots: Vec<Root> = Vec::new();
        for (name, path) in names {
            let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
            if !is_component(name) {
                return Err(wrong(format!("{name:?} is no name to serve: it needs letters, and no slash")));
            }
            if roots.iter().any(|root| root.name == *name) {
                return Err(wrong(format!("the name {name:?} is given twice")));
            }
            let failed = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
            let path = path.canonicalize().map_err(failed)?;
            let is_folder = path.metadata().map_err(failed)?.is_dir();
            let (folder, only) = match (is_folder, path.parent(), path.file_name()) {
                (false, Some(parent), Some(file)) => {
                    let file = CString::new(file.as_bytes()).map_err(|_| wrong("a path has a NUL".into()))?;
                    (parent.to_owned(), Some(file))
                }
                _ => (path.clone(), None),
            };
            let folder = OwnedFd::from(File::open(&folder).map_err(failed)?);
            let root = Root { name: name.clone(), folder, only };
            root.at(root.only.as_deref().unwrap_or(c"."), libc::O_PATH, false).map_err(|e| match e.raw_os_error() {
                Some(libc::ENOSYS) => {
                    io::Error::new(e.kind(), "this kernel has no openat2 (Linux 5.6), without which nothing is served")
                }
                _ => failed(e),
            })?;
            roots.push(root);
        }
        Ok(Self(roots, None))
    }

    /// With the names in a folder, except hidden ones.
    pub(super) fn with_staged(self, folder: OwnedFd) -> Self {
        Self(self.0, Some(Root { name: String::new(), folder, only: None }))
    }

    /// The root and the path below it.
    fn find(&self, name: &str) -> Result<(&Root, CString), State> {
        if name.is_empty() || name.len() > MOST_NAME {
            return Err(State::BadName);
        }
        let (first, rest) = name.split_once('/').map_or((name, None), |(first, rest)| (first, Some(rest)));
        if !is_component(first) || rest.is_some_and(|rest| !rest.split('/').all(is_component)) {
            return Err(State::BadName);
        }
        let Some(root) = self.0.iter().find(|root| root.name == first) else {
            let staged = self.1.as_ref().filter(|_| !first.starts_with('.')).ok_or(State::Missing)?;
            return Ok((staged, CString::new(name).map_err(|_| State::BadName)?));
        };
        let below = match (&root.only, rest) {
            (Some(file), None) => file.clone(),
            (Some(_), Some(_)) => return Err(State::Missing),
            (None, rest) => CString::new(rest.unwrap_or(".")).map_err(|_| State::BadName)?,
        };
        Ok((root, below))
    }

    /// The state of a name.
    pub(super) fn state(&self, name: &str) -> Result<FileState, State> {
        let (root, below) = self.find(name)?;
        // A link itself has no version that would say what it leads to.
        let found = root.at(&below, libc::O_PATH, false).map_err(|e| refused(&e))?;
        FileState::of(&found).map_err(|e| refused(&e))
    }

    /// Opens a regular file. `at_once`: only if the kernel knows all of its path already.
    pub(super) fn file(&self, name: &str, at_once: bool) -> Result<(File, FileState), NotOpened> {
        let (root, below) = self.find(name).map_err(NotOpened::State)?;
        let not = |e: io::Error| match e.raw_os_error() {
            Some(libc::EAGAIN) if at_once => NotOpened::WouldWait,
            _ => NotOpened::State(refused(&e)),
        };
        // Looked at first: opening a device can have effects.
        let seen = root.at(&below, libc::O_PATH, at_once).map_err(not)?;
        if FileState::of(&seen).map_err(not)?.kind != RemoteKind::File {
            return Err(NotOpened::State(State::NotFile));
        }
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
        let file = File::from(root.at(&below, flags, at_once).map_err(not)?);
        let state = FileState::of(&file).map_err(not)?;
        if state.kind != RemoteKind::File {
            return Err(NotOpened::State(State::NotFile));
        }
        Ok((file, state))
    }

    /// The names of a folder; of all that is served for the empty name. At most `most`.
    pub(super) fn list(&self, name: &str, most: usize) -> Result<Vec<(RemoteKind, u64, String)>, State> {
        if name.is_empty() {
            let kind = |root: &Root| if root.only.is_some() { RemoteKind::File } else { RemoteKind::Folder };
            let size = |root: &Root| self.state(&root.name).map_or(0, |state| state.told().size);
            let mut found: Vec<_> = self.0.iter().map(|root| (kind(root), size(root), root.name.clone())).collect();
            if let Some(staged) = &self.1 {
                let folder = staged.at(c".", libc::O_RDONLY | libc::O_DIRECTORY, false).map_err(|e| refused(&e))?;
                let names = entries(folder, most)?.into_iter();
                found.extend(
                    names.filter(|(_, _, name)| !name.starts_with('.') && !self.0.iter().any(|r| r.name == *name)),
                );
            }
            return Ok(found);
        }
        let (root, below) = self.find(name)?;
        let folder = root.at(&below, libc::O_RDONLY | libc::O_DIRECTORY, false).map_err(|e| refused(&e))?;
        entries(folder, most)
    }
}

/// A name between two slashes.
pub(super) fn is_component(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains('/') && !name.contains('\0')
}

/// The state of a reply for a failed lookup.
fn refused(e: &io::Error) -> State {
    match e.raw_os_error() {
        Some(libc::ENOENT) => State::Missing,
        Some(libc::ENOTDIR) => State::Missing,
        Some(libc::ELOOP) => State::Link,
        Some(libc::EXDEV | libc::ENAMETOOLONG | libc::EINVAL) => State::BadName,
        Some(libc::EACCES | libc::EPERM) => State::Denied,
        _ => State::Io,
    }
}

impl Root {
    /// Opens a path that stays below the root and meets no link.
    fn at(&self, below: &CStr, flags: libc::c_int, at_once: bool) -> io::Result<OwnedFd> {
        // SAFETY: integers, for which zero is a value.
        let mut how: libc::open_how = unsafe { std::mem::zeroed() };
        how.flags = (flags | libc::O_CLOEXEC) as u64;
        how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS | libc::RESOLVE_NO_SYMLINKS;
        if at_once {
            how.resolve |= libc::RESOLVE_CACHED;
        }
        loop {
            let (fd, path) = (self.folder.as_raw_fd(), below.as_ptr());
            // SAFETY: the descriptor is open, the path ends with NUL, and the structure is as the call reads it.
            let got =
                unsafe { libc::syscall(libc::SYS_openat2, fd, path, &raw const how, size_of::<libc::open_how>()) };
            if let Ok(got) = libc::c_int::try_from(got).map(|got| got.max(-1)) {
                if got >= 0 {
                    // SAFETY: the call gave this descriptor to the caller alone.
                    return Ok(unsafe { OwnedFd::from_raw_fd(got) });
                }
            }
            let e = io::Error::last_os_error();
            match e.raw_os_error() {
                Some(libc::EINTR) => {}
                // A rename beside the lookup: the kernel could not be sure that it stayed inside.
                Some(libc::EAGAIN) if !at_once => std::thread::yield_now(),
                _ => return Err(e),
            }
        }
    }
}

/// An open folder that is being listed.
struct Listing(*mut libc::DIR);

impl Drop for Listing {
    fn drop(&mut self) {
        // SAFETY: it is open and closed here only.
        unsafe { libc::closedir(self.0) };
    }
}

fn entries(folder: OwnedFd, most: usize) -> Result<Vec<(RemoteKind, u64, String)>, State> {
    // SAFETY: the descriptor is open; on success it belongs to the listing.
    let listing = Listing(unsafe { libc::fdopendir(folder.as_raw_fd()) });
    if listing.0.is_null() {
        std::mem::forget(listing);
        return Err(refused(&io::Error::last_os_error()));
    }
    let fd = std::os::fd::IntoRawFd::into_raw_fd(folder);
    let mut found = Vec::new();
    loop {
        // SAFETY: the listing is open and used by this thread only.
        let entry = unsafe { libc::readdir(listing.0) };
        if entry.is_null() {
            return Ok(found);
        }
        // SAFETY: the entry is valid until the next call; its name ends with NUL.
        let name = unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) };
        // A name that is no text cannot be part of a dataset.
        let Some(text) = name.to_str().ok().filter(|n| is_component(n)) else { continue };
        // SAFETY: integers, for which zero is a value.
        let mut about: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open, the name ends with NUL, and the structure is valid for writing.
        let looked = unsafe { libc::fstatat(fd, name.as_ptr(), &mut about, libc::AT_SYMLINK_NOFOLLOW) };
        let (kind, size) = match looked {
            0 => (FileState::from_stat(&about).kind, FileState::from_stat(&about).told().size),
            _ => (RemoteKind::Other, 0),
        };
        if found.len() == most {
            return Err(State::TooMany);
        }
        found.push((kind, size, text.to_owned()));
    }
}
