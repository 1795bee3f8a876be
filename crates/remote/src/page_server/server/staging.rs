//! The folder of staged data: files that clients bring, and the datasets that they become.
//!
//! A dataset is served once it is published, all its files at once. Until then its files lie out of sight:
//!
//! | below the folder | for |
//! |---|---|
//! | `NAME/...` | datasets that are served |
//! | `.staging/parts/NAME/...` | files of which bytes are missing |
//! | `.staging/complete/NAME/...` | whole files of datasets that are not published |
//! | `.staging/gone` | what is being removed |
//!
//! Everything is found again at the next start. All files together, at their full sizes, never exceed the limit.

mod folders;
mod incoming;

use super::super::wire::{StageProgress, StageRoom, StagedFile, State};
use folders::OpenFolder;
use incoming::{Incoming, NotTaken};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files that are brought to the disk at the same time. More would take the readers from other clients.
const MOST_COMMITS: usize = 8;
/// The longest name of a dataset.
const LONGEST_DATASET: usize = 100;
/// The longest name between two slashes.
const LONGEST_PART: usize = 255;
/// Files that make a folder a store. They are published last: with them a reader finds the rest.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];

/// A refusal: the state of the reply, and why.
pub(super) type StageRefusal = (State, String);

/// A file that is begun, by dataset and the digest of its name.
type Key = (String, String);

#[derive(Default)]
struct AreaState {
    used: u64,
    files: HashMap<Key, Arc<Mutex<Incoming>>>,
}

/// See the module.
pub(super) struct StagingArea {
    root: OpenFolder,
    /// Its lock keeps other servers away.
    _hidden: OpenFolder,
    parts: OpenFolder,
    complete: OpenFolder,
    gone: OpenFolder,
    limit: u64,
    /// Names that the server has from its start.
    taken: Vec<String>,
    /// Held while names change. It is taken before a file's own lock, and that before the state's.
    changes: Mutex<()>,
    state: Mutex<AreaState>,
    /// Commits under way.
    commits: AtomicUsize,
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unfit(why: impl Into<String>) -> StageRefusal {
    (State::Unfit, why.into())
}

fn failed(e: &io::Error) -> StageRefusal {
    match e.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => (State::Full, format!("its disk for staged data is full ({e})")),
        Some(libc::ENOTDIR | libc::EISDIR | libc::EEXIST | libc::ENOTEMPTY | libc::ELOOP) => {
            unfit("a file stands where a folder must be, or the other way round")
        }
        _ => (State::Unfit, format!("its folder for staged data: {e}")),
    }
}

fn not_taken(why: NotTaken) -> StageRefusal {
    match why {
        NotTaken::Unfit(why) => unfit(why),
        NotTaken::Io(e) => failed(&e),
    }
}

/// The name of the file that holds the bytes of one that is begun.
fn part_name(digest: &str, file: &StagedFile) -> String {
    format!("{digest}-{:x}-{:x}", file.size, file.modified_ns as u64)
}

/// Digest, size and time in that name.
fn parse_part(name: &str) -> Option<(String, u64, i64)> {
    let mut words = name.split('-');
    let digest = words.next()?.to_owned();
    let size = u64::from_str_radix(words.next()?, 16).ok()?;
    let modified_ns = u64::from_str_radix(words.next()?, 16).ok()? as i64;
    words.next().is_none().then_some((digest, size, modified_ns))
}

fn is_dataset(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=LONGEST_DATASET).contains(&name.len()) && !name.starts_with('.') && name.chars().all(plain)
}

impl StagingArea {
    /// Opens the folder, and counts what is in it.
    ///
    /// # Errors
    /// When it cannot be used, or another server uses it.
    pub(super) fn open(path: &Path, limit: u64, taken: Vec<String>) -> io::Result<Self> {
        let told = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        std::fs::create_dir_all(path).map_err(told)?;
        let root = OpenFolder::open(path).map_err(told)?;
        let hidden = root.make(".staging").map_err(told)?;
        if !hidden.lock().map_err(told)? {
            let why = format!("{}: another server keeps its staged data here", path.display());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
        }
        let make = |name: &str| hidden.make(name).map_err(told);
        let (parts, complete, gone) = (make("parts")?, make("complete")?, make("gone")?);
        for name in gone.names().map_err(told)? {
            gone.remove_all(&name).map_err(told)?;
        }
        let mut state = AreaState::default();
        for dataset in parts.names().map_err(told)? {
            let folder = parts.folder(&dataset).map_err(told)?;
            for name in folder.names().map_err(told)? {
                let Some((digest, size, modified_ns)) = parse_part(&name) else { continue };
                let file = StagedFile { name: String::new(), size, modified_ns };
                let there = Incoming::surely_there(folder.bytes_of(&name).map_err(told)?.min(size));
                let key = (dataset.clone(), digest);
                state.files.insert(key, Arc::new(Mutex::new(Incoming::new(&file, there))));
                state.used = state.used.saturating_add(size);
            }
        }
        for name in root.names().map_err(told)? {
            let inside = if name == ".staging" { complete.bytes_below() } else { root.bytes_of(&name) };
            state.used = state.used.saturating_add(inside.map_err(told)?);
        }
        let (changes, state, commits) = (Mutex::new(()), Mutex::new(state), AtomicUsize::new(0));
        Ok(Self { root, _hidden: hidden, parts, complete, gone, limit, taken, changes, state, commits })
    }

    /// The folder, from which staged names are served.
    pub(super) fn folder(&self) -> io::Result<OwnedFd> {
        self.root.descriptor()
    }

    /// The names of its datasets.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = self.root.names().unwrap_or_default();
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        names
    }

    /// What can be staged.
    pub(super) fn room(&self) -> StageRoom {
        let used = guard(&self.state).used;
        StageRoom { limit: self.limit, used, free: self.root.free().unwrap_or(0) }
    }

    /// The dataset of a name, once the name is one that can be staged.
    fn dataset<'a>(&self, name: &'a str) -> Result<&'a str, StageRefusal> {
        let (first, rest) = name.split_once('/').map_or((name, None), |(first, rest)| (first, Some(rest)));
        if !is_dataset(first) {
            return Err(unfit(format!(
                "{first:?} cannot be a name; give one of letters, digits and . _ -, {LONGEST_DATASET} at most, that does \
                 not begin with a point"
            )));
        }
        let good = |part: &str| {
            !part.is_empty() && part != "." && part != ".." && part.len() <= LONGEST_PART && !part.contains('\0')
        };
        if rest.is_some_and(|rest| !rest.split('/').all(good)) {
            return Err(unfit(format!("{name:?} cannot be the name of a file")));
        }
        if self.taken.iter().any(|taken| taken == first) {
            return Err(unfit(format!("the server serves another dataset as {first:?}; choose another name")));
        }
        Ok(first)
    }

    fn key(&self, name: &str) -> Result<Key, StageRefusal> {
        let dataset = self.dataset(name)?.to_owned();
        let digest = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
        Ok((dataset, digest.as_ref()[..16].iter().map(|b| format!("{b:02x}")).collect()))
    }

    /// The bytes of a whole file of that name in one of its trees, and whether it is this version.
    fn whole(tree: &OpenFolder, file: &StagedFile) -> (u64, bool) {
        let found = tree.parent(&file.name, false).and_then(|(folder, leaf)| folder.stat(leaf));
        let Ok(found) = found else { return (0, false) };
        let is_file = found.st_mode & libc::S_IFMT == libc::S_IFREG;
        let size = u64::try_from(found.st_size).unwrap_or(0);
        let modified_ns = found.st_mtime.saturating_mul(1_000_000_000).saturating_add(found.st_mtime_nsec);
        (if is_file { size } else { 0 }, is_file && size == file.size && modified_ns == file.modified_ns)
    }

    fn is_there(&self, file: &StagedFile) -> bool {
        [&self.root, &self.complete].iter().any(|tree| Self::whole(tree, file).1)
    }

    /// Begins a file, or goes on with it. `only_look`: says whether it has its room.
    pub(super) fn begin(&self, file: &StagedFile, only_look: bool) -> Result<StageProgress, StageRefusal> {
        let key = self.key(&file.name)?;
        if self.is_there(file) {
            return Ok(StageProgress { bytes: file.size, complete: true });
        }
        let _changes = guard(&self.changes);
        let known = guard(&self.state).files.get(&key).cloned();
        if let Some(known) = known {
            let held = guard(&known);
            if held.is_of(file) {
                let bytes = if only_look { held.size } else { held.there };
                return Ok(StageProgress { bytes, complete: false });
            }
            if !only_look {
                self.forget(&key, held)?;
            }
        }
        if only_look {
            return Ok(StageProgress { bytes: 0, complete: false });
        }
        let mut state = guard(&self.state);
        if state.used.saturating_add(file.size) > self.limit {
            let left = self.limit.saturating_sub(state.used);
            let why = format!(
                "{} needs {} bytes; of the {} for staged data {left} are left",
                file.name, file.size, self.limit
            );
            return Err((State::Full, why));
        }
        let free = self.root.free().map_err(|e| failed(&e))?;
        if file.size > free {
            let why = format!("{} needs {} bytes; its disk has {free} bytes free", file.name, file.size);
            return Err((State::Full, why));
        }
        let folder = self.parts.make(&key.0).map_err(|e| failed(&e))?;
        folder.file(&part_name(&key.1, file), true).map_err(|e| failed(&e))?;
        state.used += file.size;
        state.files.insert(key, Arc::new(Mutex::new(Incoming::new(file, 0))));
        Ok(StageProgress { bytes: 0, complete: false })
    }

    /// Removes a file that is begun.
    fn forget(&self, key: &Key, mut held: MutexGuard<'_, Incoming>) -> Result<(), StageRefusal> {
        held.gone = true;
        let file = StagedFile { name: String::new(), size: held.size, modified_ns: held.modified_ns };
        let removed = self.parts.folder(&key.0).and_then(|folder| folder.remove(&part_name(&key.1, &file), false));
        let mut state = guard(&self.state);
        state.files.remove(key);
        state.used = state.used.saturating_sub(file.size);
        removed.map_err(|e| failed(&e))
    }

    fn incoming(&self, key: &Key) -> Result<Arc<Mutex<Incoming>>, StageRefusal> {
        guard(&self.state).files.get(key).cloned().ok_or_else(|| unfit("this file was not begun, or was removed"))
    }

    /// Takes bytes of a file that is begun.
    pub(super) fn put(&self, file: &StagedFile, offset: u64, crc: u32, bytes: &[u8]) -> Result<(), StageRefusal> {
        let key = self.key(&file.name)?;
        if crc32c::crc32c(bytes) != crc {
            return Err(unfit("bytes have changed on their way: their checksum is wrong"));
        }
        let incoming = self.incoming(&key)?;
        let mut held = guard(&incoming);
        if !held.is_of(file) {
            return Err(unfit("another version of this file was begun"));
        }
        let folder = self.parts.folder(&key.0).map_err(|e| failed(&e))?;
        let disk = folder.file(&part_name(&key.1, file), false).map_err(|e| failed(&e))?;
        held.put(&disk, offset, bytes).map_err(not_taken)
    }

    /// Reads a file back, a part at a time, and makes it one of its dataset if its checksum is that of the source. Nothing
    /// is done while too many others are at it: the client asks again.
    pub(super) fn commit(&self, file: &StagedFile, crc: u32) -> Result<StageProgress, StageRefusal> {
        let others = self.commits.fetch_add(1, Relaxed);
        let result = match others < MOST_COMMITS {
            true => self.commit_now(file, crc),
            false => Ok(StageProgress { bytes: 0, complete: false }),
        };
        self.commits.fetch_sub(1, Relaxed);
        result
    }

    fn commit_now(&self, file: &StagedFile, crc: u32) -> Result<StageProgress, StageRefusal> {
        let key = self.key(&file.name)?;
        let done = StageProgress { bytes: file.size, complete: true };
        let incoming = match self.incoming(&key) {
            Ok(incoming) => incoming,
            // The answer to the first commit was lost.
            Err(_) if self.is_there(file) => return Ok(done),
            Err(refusal) => return Err(refusal),
        };
        let (folder, name) = (self.parts.folder(&key.0).map_err(|e| failed(&e))?, part_name(&key.1, file));
        let found = {
            let mut held = guard(&incoming);
            if held.gone && self.is_there(file) {
                return Ok(done);
            }
            if !held.is_of(file) {
                return Err(unfit("another version of this file was begun"));
            }
            let disk = folder.file(&name, false).map_err(|e| failed(&e))?;
            match held.check(&disk).map_err(not_taken)? {
                None => return Ok(StageProgress { bytes: held.checked(), complete: false }),
                Some(found) => found,
            }
        };
        let _changes = guard(&self.changes);
        let mut held = guard(&incoming);
        if held.gone {
            return if self.is_there(file) { Ok(done) } else { Err(unfit("this file was removed meanwhile")) };
        }
        if found != crc {
            self.forget(&key, held)?;
            let why = "the bytes read back are not those of the source: their checksum is another; begin it again";
            return Err(unfit(why));
        }
        let (to, leaf) = self.complete.parent(&file.name, true).map_err(|e| failed(&e))?;
        let before = to.bytes_of(leaf).map_err(|e| failed(&e))?;
        folder.move_to(&name, &to, leaf).and_then(|()| to.sync()).map_err(|e| failed(&e))?;
        held.gone = true;
        let mut state = guard(&self.state);
        state.files.remove(&key);
        state.used = state.used.saturating_sub(before);
        drop(state);
        // It stays while other files of the dataset are begun.
        let _busy = self.parts.remove(&key.0, true);
        Ok(done)
    }

    /// Serves the whole files of a dataset.
    pub(super) fn publish(&self, name: &str) -> Result<(), StageRefusal> {
        if self.dataset(name)? != name {
            return Err(unfit(format!("{name:?} is no name of a dataset")));
        }
        let _changes = guard(&self.changes);
        if self.complete.stat(name).is_err() {
            return match self.root.stat(name) {
                Ok(_) => Ok(()),
                Err(_) => Err((State::Missing, format!("nothing of {name:?} was staged"))),
            };
        }
        let freed = merge(&self.complete, &self.root, name).and_then(|freed| self.root.sync().map(|()| freed));
        let mut state = guard(&self.state);
        state.used = state.used.saturating_sub(freed.map_err(|e| failed(&e))?);
        Ok(())
    }

    /// Removes a staged dataset with all that was begun of it.
    pub(super) fn remove(&self, name: &str) -> Result<(), StageRefusal> {
        if self.dataset(name)? != name {
            return Err(unfit(format!("{name:?} is no name of a dataset")));
        }
        let _changes = guard(&self.changes);
        let begun: Vec<(Key, Arc<Mutex<Incoming>>)> = {
            let state = guard(&self.state);
            state.files.iter().filter(|(key, _)| key.0 == name).map(|(key, held)| (key.clone(), held.clone())).collect()
        };
        for (key, held) in begun {
            self.forget(&key, guard(&held))?;
        }
        let mut was_there = self.parts.stat(name).is_ok();
        self.parts.remove_all(name).map_err(|e| failed(&e))?;
        for (number, tree) in [&self.root, &self.complete].into_iter().enumerate() {
            if tree.stat(name).is_err() {
                continue;
            }
            was_there = true;
            let bytes = tree.bytes_of(name).map_err(|e| failed(&e))?;
            let gone = format!("{number}-{name}");
            // Out of sight in one step.
            tree.move_to(name, &self.gone, &gone).map_err(|e| failed(&e))?;
            let removed = self.gone.remove_all(&gone);
            let mut state = guard(&self.state);
            state.used = state.used.saturating_sub(bytes);
            drop(state);
            removed.map_err(|e| failed(&e))?;
        }
        match was_there {
            true => Ok(()),
            false => Err((State::Missing, format!("there is no staged dataset {name:?}"))),
        }
    }
}

/// Moves a name with all below it; files that stand there are replaced one by one. Returns the bytes of those.
fn merge(from: &OpenFolder, to: &OpenFolder, name: &str) -> io::Result<u64> {
    let is_folder = |found: &libc::stat| found.st_mode & libc::S_IFMT == libc::S_IFDIR;
    let (new, old) = (from.stat(name)?, to.stat(name));
    let replaces = match &old {
        Ok(old) if is_folder(old) != is_folder(&new) => return Err(io::Error::from_raw_os_error(libc::EEXIST)),
        Ok(_) => true,
        Err(_) => false,
    };
    if !replaces || !is_folder(&new) {
        let freed = if replaces { to.bytes_of(name)? } else { 0 };
        from.move_to(name, to, name)?;
        return Ok(freed);
    }
    let (inner, into) = (from.folder(name)?, to.folder(name)?);
    let mut names = inner.names()?;
    names.sort_by_key(|name| DOCUMENTS.contains(&name.as_str()));
    let mut freed = 0;
    for name in names {
        freed += merge(&inner, &into, &name)?;
    }
    into.sync()?;
    from.remove(name, true)?;
    Ok(freed)
}
