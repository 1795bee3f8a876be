//! Local files, read by io_uring or, where it is not available, by a pool of threads.

use super::engine::{Engine, Op};
use super::first_budget::FirstBudget;
use super::helpers::Helpers;
use super::threads::Threads;
use super::uring::Uring;
use super::{Completion, Read, ReadForm, Source};
use crate::error::PageErrorKind;
use crate::os::no_files;
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

/// Most open files. Shards are many; descriptors are few.
const OPEN: usize = 256;

/// Alignment of offsets, lengths and addresses for `O_DIRECT` where the system does not say: enough for all common
/// devices.
const ALIGNMENT: u64 = 4096;

struct OpenFiles {
    /// By file and whether it bypasses the page cache, with the time of the last use.
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
    /// Alignment of offsets, lengths and addresses of direct reads, for all files opened so far; 0: none was.
    block: AtomicU32,
    /// Threads that open files in folders.
    helpers: Helpers,
    /// Memory of the first reads of remote files.
    first: Arc<FirstBudget>,
}

impl FileSet {
    /// A reader with at most `depth` reads at a time.
    ///
    /// # Errors
    /// When a named backend is not available.
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
            first: Arc::default(),
        }))
    }

    /// The memory of the first reads of its folders.
    pub(crate) fn first_budget(&self) -> &Arc<FirstBudget> {
        &self.first
    }

    /// A source over a file, opened when it is first read.
    pub fn file(this: &Arc<Self>, path: &Path) -> Arc<dyn Source> {
        let serial = this.take_serials(1);
        Arc::new(FileSource { path: path.to_owned(), serial, files: this.clone() })
    }

    /// The first of `count` serial numbers for files of a source.
    pub(super) fn take_serials(&self, count: u64) -> u64 {
        self.serial.fetch_add(count, Relaxed)
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

    /// Sets whether aligned reads bypass the page cache (`O_DIRECT`), unless it has their bytes. A page is then in
    /// memory once instead of twice, and is not copied. But nothing stays for the next run. Off by default.
    pub fn set_direct(&self, on: bool) {
        self.direct.store(on, Relaxed);
    }

    /// The alignment of direct reads, if reads bypass the page cache ([`Self::set_direct`]). It follows from the files
    /// opened so far, which are usually on one device. A read that is not aligned for its own file falls back to the
    /// page cache.
    pub(crate) fn direct_block(&self) -> Option<u64> {
        let block = match self.block.load(Relaxed) {
            0 => ALIGNMENT,
            known => known.into(),
        };
        self.direct.load(Relaxed).then_some(block)
    }

    /// Threads that may block where a source must not.
    pub(super) fn helpers(&self) -> &Helpers {
        &self.helpers
    }

    pub(super) fn opened(&self, serial: u64, direct: bool) -> Option<Arc<File>> {
        let mut open = self.open.lock().unwrap_or_else(|e| e.into_inner());
        open.clock += 1;
        let now = open.clock;
        let (file, used) = open.files.get_mut(&(serial, direct))?;
        *used = now;
        Some(file.clone())
    }

    /// A file, opened if needed. Opening takes as long as a read, so it is done without the lock.
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
            // Another thread was faster.
            return Ok(file.clone());
        }
        if open.files.len() >= self.limit {
            // Reads of a closed file continue: each has its own reference.
            if let Some(oldest) = open.files.iter().min_by_key(|(_, (_, used))| *used).map(|(k, _)| *k) {
                open.files.remove(&oldest);
            }
        }
        open.files.insert((serial, direct), (file.clone(), now));
        Ok(file)
    }

    /// Reads of a file for its engine. They bypass the page cache where that is enabled and possible.
    pub(super) fn ops(&self, at: FileHandle<'_>, batch: Vec<Read>, done: &Arc<dyn Completion>) -> Vec<Op> {
        let FileHandle { file, serial, path, base } = at;
        // Where direct reads are not possible, the page cache is used.
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
    /// The place in the source where it begins.
    pub(super) base: u64,
}

/// A quarter of the process's descriptors, and at most `OPEN`.
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

/// The pager knows the next bytes itself. The kernel's readahead wastes memory and bandwidth.
fn advise_random(file: &File) {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open. It is a hint, so its result does not matter.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
}

/// The alignment for direct reads of a file, where the system says it (Linux 6.1 and newer). Often 512 bytes: a page of
/// 16 KiB and its checksum then take 16.5 KiB and not 20.
fn direct_alignment(file: &File) -> Option<u32> {
    use std::os::fd::AsRawFd;
    const STATX_DIOALIGN: u32 = 0x2000;
    // SAFETY: integers, for which zero is a value.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let (fd, nothing) = (file.as_raw_fd(), c"".as_ptr());
    // SAFETY: the descriptor is open, the path is empty, and the structure is as the call writes it.
    let result =
        unsafe { libc::syscall(libc::SYS_statx, fd, nothing, libc::AT_EMPTY_PATH, STATX_DIOALIGN, &raw mut found) };
    let block = found.stx_dio_offset_align.max(found.stx_dio_mem_align);
    let said = result == 0 && found.stx_mask & STATX_DIOALIGN != 0;
    (said && block.is_power_of_two() && u64::from(block) <= ALIGNMENT).then_some(block)
}

/// Whether the page cache has all of a range of a file (Linux 6.5 and newer). A read that must not wait would start the
/// very read that is to be avoided.
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

    fn form(&self) -> ReadForm {
        ReadForm { block: self.files.direct_block(), ..ReadForm::default() }
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

/// Whether a read can bypass the page cache. Holes must be copied: a device would write to the same memory for several
/// reads at once. A verifier of the written bytes would find them changed.
fn aligned(read: &Read, block: u64) -> bool {
    let whole = |n: u64| n.is_multiple_of(block);
    whole(read.offset) && read.buffers.iter().all(|b| !b.is_hole() && whole(b.len as u64) && whole(b.ptr as u64))
}
