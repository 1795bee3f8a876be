//! Local files, read through io_uring or, where that cannot be had, by a pool of threads.

use super::folder::{FileNames, Folder};
use super::helpers::Helpers;
use super::threads::Threads;
use super::uring::Uring;
use super::{Buffer, Completion, Read, Source, HOLE_BYTES};
use crate::error::PageErrorKind;
use crate::os::no_files;
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// How local files are read.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// io_uring if a ring can be set up here, else threads.
    #[default]
    Auto,
    /// io_uring.
    Uring,
    /// A pool of threads that call `preadv`.
    Threads,
}

/// One read of an open file, on its way.
pub(crate) struct Op {
    pub(crate) file: Arc<File>,
    /// Where the next byte comes from.
    pub(crate) offset: u64,
    /// What is still to be filled.
    pub(crate) buffers: Vec<Buffer>,
    token: u64,
    /// The read's first byte and its end, in the source, and where in the source the file begins.
    begin: u64,
    end: u64,
    base: u64,
    done: Arc<dyn Completion>,
    /// The same file without `O_DIRECT`, if `file` has it.
    buffered: Option<Arc<File>>,
}

impl Op {
    /// Whether the read goes past the page cache.
    pub(crate) fn direct(&self) -> bool {
        self.buffered.is_some()
    }

    /// After an error: whether the read can go on through the page cache. What is not aligned cannot be read directly, and the
    /// end of a file hardly ever is.
    pub(crate) fn fall_back(&mut self, error: i32) -> bool {
        match self.buffered.take().filter(|_| error == libc::EINVAL) {
            Some(file) => {
                self.file = file;
                true
            }
            None => false,
        }
    }

    /// Takes note that `n` bytes arrived. `None`: everything is here or the file is at its end; the result stands beside it.
    pub(crate) fn advance(&mut self, mut n: usize) -> Option<Result<(), PageErrorKind>> {
        if n == 0 {
            let have = self.base.saturating_add(self.offset);
            return Some(Err(PageErrorKind::Short { offset: self.begin, end: self.end, have }));
        }
        self.offset += n as u64;
        let mut full = 0;
        for b in &mut self.buffers {
            let k = b.len.min(n);
            b.skip(k);
            n -= k;
            if b.len > 0 {
                break;
            }
            full += 1;
        }
        self.buffers.drain(..full);
        self.buffers.is_empty().then_some(Ok(()))
    }

    pub(crate) fn complete(self, result: Result<(), PageErrorKind>) {
        self.done.complete(self.token, result);
    }
}

/// Where bytes go that nobody wants: the system has no way to pass over them.
struct Nowhere(UnsafeCell<[u8; HOLE_BYTES]>);

// SAFETY: only the system writes there, and nobody ever reads it.
unsafe impl Sync for Nowhere {}

static NOWHERE: Nowhere = Nowhere(UnsafeCell::new([0; HOLE_BYTES]));

/// Buffers as the system takes them, none longer than `most`.
pub(super) fn iovecs(buffers: &[Buffer], most: usize) -> Vec<libc::iovec> {
    let mut all = Vec::with_capacity(buffers.len());
    for b in buffers {
        if !b.is_hole() {
            all.push(libc::iovec { iov_base: b.ptr.cast(), iov_len: b.len.min(most) });
            continue;
        }
        let mut left = b.len;
        while left > 0 {
            let len = left.min(HOLE_BYTES);
            all.push(libc::iovec { iov_base: NOWHERE.0.get().cast(), iov_len: len });
            left -= len;
        }
    }
    all
}

/// What reads files.
pub(crate) trait Engine: Send + Sync {
    fn name(&self) -> &'static str;
    /// Starts reads; each is completed once.
    fn submit(&self, ops: Vec<Op>);
    /// Whether something has arrived that [`Engine::poll`] would complete.
    fn ready(&self) -> bool {
        false
    }
    /// Completes what has arrived, if this engine leaves that to its callers.
    fn poll(&self) {}
    /// What to sleep on for the next arrival, if there are reads in flight and their completion is left to callers.
    fn wait_fd(&self) -> Option<RawFd> {
        None
    }
}

/// Open files at most. Shards are many; descriptors are few.
const OPEN: usize = 256;

/// What `O_DIRECT` wants offsets, lengths and addresses to be multiples of where the system does not say: enough for any device seen.
const ALIGNMENT: u64 = 4096;

struct OpenFiles {
    /// By file and whether it goes past the page cache, with the time of the last use.
    files: HashMap<(u64, bool), (Arc<File>, u64)>,
    clock: u64,
}

/// Reads files and keeps a bounded number of them open.
pub struct FileSet {
    engine: Box<dyn Engine>,
    open: Mutex<OpenFiles>,
    limit: usize,
    serial: AtomicU64,
    direct: AtomicBool,
    /// What offsets, lengths and addresses of direct reads must be multiples of, for all files opened so far; 0: none was.
    block: AtomicU32,
    /// What opens files that lie in folders.
    helpers: Helpers,
}

impl FileSet {
    /// A reader with at most `depth` reads at a time.
    ///
    /// # Errors
    /// When the backend was named and cannot be had.
    pub fn new(backend: Backend, depth: usize) -> io::Result<Arc<Self>> {
        let engine: Box<dyn Engine> = match backend {
            Backend::Threads => Box::new(Threads::new(depth)),
            Backend::Uring => Box::new(Uring::new(depth)?),
            Backend::Auto => match Uring::new(depth) {
                Ok(ring) => Box::new(ring),
                Err(_) => Box::new(Threads::new(depth)),
            },
        };
        let open = Mutex::new(OpenFiles { files: HashMap::new(), clock: 0 });
        Ok(Arc::new(Self {
            engine,
            open,
            limit: open_limit(),
            serial: AtomicU64::new(0),
            direct: AtomicBool::new(false),
            block: AtomicU32::new(0),
            helpers: Helpers::new(depth),
        }))
    }

    /// A source over a file, opened when it is first read.
    pub fn file(this: &Arc<Self>, path: &Path) -> Arc<dyn Source> {
        let serial = this.serial.fetch_add(1, Relaxed);
        Arc::new(FileSource { path: path.to_owned(), serial, files: this.clone() })
    }

    /// A source over many files, each opened when it is first read.
    ///
    /// # Errors
    /// When there are more than one source can have.
    pub fn folder(this: &Arc<Self>, names: Arc<dyn FileNames>) -> io::Result<Arc<Folder>> {
        let serial = this.serial.fetch_add(names.count(), Relaxed);
        Folder::new(this.clone(), serial, names).map(Arc::new)
    }

    /// `io_uring` or `threads`.
    pub fn backend_name(&self) -> &'static str {
        self.engine.name()
    }

    /// See [`Engine::ready`].
    pub(crate) fn ready(&self) -> bool {
        self.engine.ready()
    }

    /// See [`Engine::poll`].
    pub(crate) fn poll(&self) {
        self.engine.poll();
    }

    /// See [`Engine::wait_fd`].
    pub(crate) fn wait_fd(&self) -> Option<RawFd> {
        self.engine.wait_fd()
    }

    /// Whether reads that are aligned go past the page cache (`O_DIRECT`) where it does not have them: a page is then in memory
    /// once and not twice, and is not copied, but nothing is left behind for the next run. Off at first.
    pub fn set_direct(&self, on: bool) {
        self.direct.store(on, Relaxed);
    }

    /// If reads go past the page cache ([`Self::set_direct`]), what they must be multiples of: as the files opened so far say, which
    /// lie on one device as a rule. A read that is not aligned for its own file falls back to the page cache.
    pub(crate) fn direct_block(&self) -> Option<u64> {
        let block = match self.block.load(Relaxed) {
            0 => ALIGNMENT,
            known => known.into(),
        };
        self.direct.load(Relaxed).then_some(block)
    }

    /// Threads that may wait for the system where a source must not.
    pub(super) fn helpers(&self) -> &Helpers {
        &self.helpers
    }

    /// A file that is open.
    pub(super) fn opened(&self, serial: u64, direct: bool) -> Option<Arc<File>> {
        let mut open = self.open.lock().unwrap_or_else(|e| e.into_inner());
        open.clock += 1;
        let now = open.clock;
        let (file, used) = open.files.get_mut(&(serial, direct))?;
        *used = now;
        Some(file.clone())
    }

    /// A file, opened if it is not open: without the lock, since that can take as long as a read.
    pub(super) fn get(&self, serial: u64, path: &Path, direct: bool) -> io::Result<Arc<File>> {
        if let Some(file) = self.opened(serial, direct) {
            return Ok(file);
        }
        let mut options = File::options();
        options.read(true);
        if direct {
            std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_DIRECT);
        }
        let file = Arc::new(options.open(path).map_err(no_files)?);
        advise_random(&file);
        if direct {
            self.block.fetch_max(direct_alignment(&file).unwrap_or(ALIGNMENT as u32), Relaxed);
        }
        let mut open = self.open.lock().unwrap_or_else(|e| e.into_inner());
        open.clock += 1;
        let now = open.clock;
        if let Some((file, _)) = open.files.get(&(serial, direct)) {
            // Somebody else was faster.
            return Ok(file.clone());
        }
        if open.files.len() >= self.limit {
            // A closed file's reads go on: each has its own reference.
            if let Some(oldest) = open.files.iter().min_by_key(|(_, (_, used))| *used).map(|(k, _)| *k) {
                open.files.remove(&oldest);
            }
        }
        open.files.insert((serial, direct), (file.clone(), now));
        Ok(file)
    }

    /// Reads of a file as its engine takes them: past the page cache where that is wanted and can be had.
    pub(super) fn ops(&self, at: FileHandle<'_>, batch: Vec<Read>, done: &Arc<dyn Completion>) -> Vec<Op> {
        let FileHandle { file, serial, path, base } = at;
        // Where direct reads are not to be had, the page cache will do.
        let block = self.direct_block();
        let aligned = |read: &Read| block.is_some_and(|b| aligned(read, b));
        let wanted = batch.iter().any(aligned);
        let direct = wanted.then(|| self.get(serial, path, true).ok()).flatten();
        let ops = batch.into_iter().map(|r| {
            let offset = r.offset - base;
            let direct = direct.clone().filter(|_| aligned(&r) && !cached(file, offset, r.len() as u64));
            let (file, buffered) = match direct {
                Some(direct) => (direct, Some(file.clone())),
                None => (file.clone(), None),
            };
            let (begin, end) = (r.offset, r.offset.saturating_add(r.len() as u64));
            Op { file, buffered, offset, begin, end, base, token: r.token, buffers: r.buffers, done: done.clone() }
        });
        ops.collect()
    }

    /// Starts reads.
    pub(super) fn start(&self, ops: Vec<Op>) {
        self.engine.submit(ops);
    }
}

/// An open file of a source.
#[derive(Copy, Clone)]
pub(super) struct FileHandle<'a> {
    pub(super) file: &'a Arc<File>,
    pub(super) serial: u64,
    pub(super) path: &'a Path,
    /// Where in the source it begins.
    pub(super) base: u64,
}

/// A quarter of the descriptors that the process may have, and no more than `OPEN`.
fn open_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is valid for writing.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
    if known {
        usize::try_from(limit.rlim_cur / 4).unwrap_or(OPEN).clamp(4, OPEN)
    } else {
        64
    }
}

/// The pager knows which bytes it wants next; what the kernel reads beyond them is memory and bandwidth lost.
fn advise_random(file: &File) {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open. It is a hint, so its result does not matter.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
}

/// What direct reads of a file must be multiples of, where the system says (Linux 6.1 and newer). Often 512 bytes, so that a page of
/// 16 KiB and its checksum take 16.5 KiB and not 20.
fn direct_alignment(file: &File) -> Option<u32> {
    use std::os::fd::AsRawFd;
    const STATX_DIOALIGN: u32 = 0x2000;
    // SAFETY: integers, of which zero is a value.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let (fd, nothing) = (file.as_raw_fd(), c"".as_ptr());
    // SAFETY: the descriptor is open, the path is empty, and the structure is as the call writes it.
    let result =
        unsafe { libc::syscall(libc::SYS_statx, fd, nothing, libc::AT_EMPTY_PATH, STATX_DIOALIGN, &raw mut found) };
    let block = found.stx_dio_offset_align.max(found.stx_dio_mem_align);
    let said = result == 0 && found.stx_mask & STATX_DIOALIGN != 0;
    (said && block.is_power_of_two() && u64::from(block) <= ALIGNMENT).then_some(block)
}

/// Whether the page cache has all of a range of a file (Linux 6.5 and newer can tell). Asking by a read that must not wait
/// would start the very read that is to be avoided.
fn cached(file: &File, offset: u64, len: u64) -> bool {
    use std::os::fd::AsRawFd;
    /// `struct cachestat`: pages that are cached, dirty, under writeback, evicted, recently evicted.
    #[repr(C)]
    struct Cached([u64; 5]);
    const CACHESTAT: libc::c_long = 451;
    let (range, mut found) = ([offset, len], Cached([0; 5]));
    // SAFETY: both structures are as the call takes them and outlive it.
    let result = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), &mut found, 0) };
    let page = crate::os::os_page() as u64;
    let pages = offset.saturating_add(len).div_ceil(page) - offset / page;
    result == 0 && found.0[0] >= pages
}

/// A local file.
struct FileSource {
    path: PathBuf,
    serial: u64,
    files: Arc<FileSet>,
}

impl Source for FileSource {
    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn size(&self) -> Result<u64, PageErrorKind> {
        let file = self.files.get(self.serial, &self.path, false).map_err(|e| PageErrorKind::from(&e))?;
        file.metadata().map(|m| m.len()).map_err(|e| PageErrorKind::from(&e))
    }

    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        let file = match self.files.get(self.serial, &self.path, false) {
            Ok(file) => file,
            Err(e) => {
                let kind = PageErrorKind::from(&e);
                batch.iter().for_each(|r| done.complete(r.token, Err(kind.clone())));
                return;
            }
        };
        let at = FileHandle { file: &file, serial: self.serial, path: &self.path, base: 0 };
        self.files.start(self.files.ops(at, batch, done));
    }
}

/// Whether a read can go past the page cache. What goes nowhere must be copied there: a device would write to the same memory for several
/// reads at once, and whoever checks what it wrote would find it changed.
fn aligned(read: &Read, block: u64) -> bool {
    let whole = |n: u64| n.is_multiple_of(block);
    whole(read.offset) && read.buffers.iter().all(|b| !b.is_hole() && whole(b.len as u64) && whole(b.ptr as u64))
}
