//! Open files. Connections share them; a file that was not used for long is closed and opened again when it is read.
//!
//! A file is one version. Each read looks at the file's state after its bytes, so bytes of another version are never
//! given as this one's: the kernel changes the times before the bytes.

use super::super::wire::{RemoteStat, State};
use super::names::{FileState, Names, NotOpened};
use super::origin::{OriginFile, Origins};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Most open descriptors, if the process may have that many.
const MOST_OPEN: usize = 4096;

/// One version of a served file.
pub(super) struct ServedFile {
    name: String,
    state: FileState,
    /// Its state in the words of the protocol.
    pub(super) told: RemoteStat,
    open: Mutex<Option<Arc<File>>>,
    /// Where it is, if not here. Then it has no name, state or descriptor.
    origin: Option<Arc<OriginFile>>,
}

impl ServedFile {
    /// A file at an origin.
    pub(super) fn at_origin(file: Arc<OriginFile>) -> Self {
        let told = file.told;
        let state = FileState { device: 0, inode: 0, size: 0, modified_ns: 0, changed_ns: 0, kind: told.kind };
        Self { name: String::new(), state, told, open: Mutex::default(), origin: Some(file) }
    }

    /// The file at an origin, if it is there.
    pub(super) fn origin(&self) -> Option<&Arc<OriginFile>> {
        self.origin.as_ref()
    }
}

/// All of them.
pub(super) struct FileTable {
    names: Names,
    origins: Arc<Origins>,
    known: Mutex<Known>,
    most_open: usize,
}

#[derive(Default)]
struct Known {
    files: HashMap<String, Weak<ServedFile>>,
    /// Those that are open, in the order of their opening.
    open: VecDeque<Weak<ServedFile>>,
    clean_at: usize,
}

/// The bytes of a read, as far as they came.
pub(super) enum Filled {
    /// So many; fewer than wanted at the end of the file.
    All(usize),
    /// So many; the rest waits for the disk.
    Waits(usize),
}

impl FileTable {
    pub(super) fn new(names: Names, origins: Origins) -> Self {
        Self { names, origins: Arc::new(origins), known: Mutex::default(), most_open: most_open() }
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    pub(super) fn origins(&self) -> &Arc<Origins> {
        &self.origins
    }

    /// Opens a name in its version of now.
    pub(super) fn open(&self, name: &str, at_once: bool) -> Result<Arc<ServedFile>, NotOpened> {
        let (file, state) = self.names.file(name, at_once)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.files.get(name).and_then(Weak::upgrade).filter(|same| same.state == state) {
            return Ok(same);
        }
        let served = Arc::new(ServedFile {
            name: name.to_owned(),
            state,
            told: state.told(),
            open: Mutex::new(Some(Arc::new(file))),
            origin: None,
        });
        if known.files.len() >= known.clean_at {
            known.files.retain(|_, file| file.strong_count() > 0);
            known.open.retain(|file| file.strong_count() > 0);
            known.clean_at = (known.files.len() * 2).max(1024);
        }
        known.files.insert(name.to_owned(), Arc::downgrade(&served));
        self.note_open(&mut known, &served);
        Ok(served)
    }

    fn note_open(&self, known: &mut Known, served: &Arc<ServedFile>) {
        known.open.push_back(Arc::downgrade(served));
        while known.open.len() > self.most_open {
            if let Some(oldest) = known.open.pop_front().and_then(|file| file.upgrade()) {
                // Reads that use it keep their reference.
                *oldest.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
    }

    /// The open file of that version. Opening it again may wait.
    fn descriptor(&self, served: &Arc<ServedFile>, at_once: bool) -> Result<Arc<File>, NotOpened> {
        if let Some(file) = &*served.open.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(file.clone());
        }
        let (file, state) = self.names.file(&served.name, at_once)?;
        if state != served.state {
            return Err(NotOpened::State(State::Changed));
        }
        let file = Arc::new(file);
        *served.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(file.clone());
        self.note_open(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner), served);
        Ok(file)
    }

    /// Appends bytes of a file to `out`, up to its capacity. `at_once`: what does not wait for the disk.
    pub(super) fn read(
        &self,
        served: &Arc<ServedFile>,
        offset: u64,
        len: usize,
        out: &mut Vec<u8>,
        at_once: bool,
    ) -> Result<Filled, State> {
        let file = match self.descriptor(served, at_once) {
            Ok(file) => file,
            Err(NotOpened::WouldWait) => return Ok(Filled::Waits(0)),
            Err(NotOpened::State(state)) => return Err(state),
        };
        let mut done = 0;
        while done < len {
            match read_some(&file, offset.saturating_add(done as u64), len - done, out, at_once) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::EOPNOTSUPP | libc::ENOSYS) if at_once => return Ok(Filled::Waits(done)),
                    // Beyond what an offset can be: past the end of any file.
                    Some(libc::EINVAL | libc::EOVERFLOW) => break,
                    _ => return Err(State::Io),
                },
            }
        }
        match FileState::of(&*file) {
            Ok(state) if state == served.state => Ok(Filled::All(done)),
            Ok(_) => Err(State::Changed),
            Err(_) => Err(State::Io),
        }
    }

    /// The state of a changed file's name now, for the client.
    pub(super) fn now(&self, served: &ServedFile) -> Result<RemoteStat, State> {
        self.names.state(&served.name).map(|state| state.told())
    }
}

/// One read to the end of a buffer, which has the capacity.
fn read_some(file: &File, offset: u64, len: usize, out: &mut Vec<u8>, at_once: bool) -> io::Result<usize> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let room = out.spare_capacity_mut();
    let to = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len().min(len) };
    let flags = if at_once { libc::RWF_NOWAIT } else { 0 };
    // SAFETY: the vector is one valid range of spare capacity, which this thread owns.
    let n = unsafe { libc::preadv2(file.as_raw_fd(), &raw const to, 1, offset, flags) };
    let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel wrote the first `n` bytes of the spare capacity.
    unsafe { out.set_len(out.len() + n) };
    Ok(n)
}

fn most_open() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is valid for writing.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
    let quarter = usize::try_from(limit.rlim_cur / 4).unwrap_or(MOST_OPEN);
    if known {
        quarter.clamp(4, MOST_OPEN)
    } else {
        64
    }
}

#[cfg(test)]
mod tests;
