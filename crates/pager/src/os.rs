//! The few system calls that the pool stands on.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Granularity of frames. Smaller than this nothing can be given back to the system.
pub(crate) fn os_page() -> usize {
    use std::sync::OnceLock;
    static PAGE: OnceLock<usize> = OnceLock::new();
    *PAGE.get_or_init(|| {
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(page).unwrap_or(4096).max(4096)
    })
}

/// Rounds up to whole system pages; `None` on overflow.
pub(crate) fn round_up(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(os_page())
}

/// An anonymous mapping whose pages take no memory until they are touched.
pub(crate) struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is memory; who may touch which part of it is the business of its owner.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes of zeros. `NORESERVE`: what is untouched counts neither as memory nor as commit charge. No
    /// huge pages but where they are asked for: a touched frame must cost its own bytes and not two mebibytes.
    pub(crate) fn reserve(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
        let ptr = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if ptr == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ptr = NonNull::new(ptr.cast::<u8>()).ok_or_else(|| io::Error::other("mmap gave the null page"))?;
        // SAFETY: the range is the mapping just made. Both are hints; where they are unknown nothing is lost but thrift.
        unsafe {
            libc::madvise(ptr.as_ptr().cast(), len, libc::MADV_NOHUGEPAGE);
            libc::madvise(ptr.as_ptr().cast(), len, libc::MADV_DONTDUMP);
        }
        Ok(Self { ptr, len })
    }

    /// Asks for huge pages behind a part of the mapping: the first touch then costs one fault for two mebibytes, and the processor
    /// looks up fewer addresses. A hint.
    pub(crate) fn make_huge(&self, ptr: *mut u8, len: usize) {
        // SAFETY: the range lies in this mapping; the call changes no bytes.
        unsafe { libc::madvise(ptr.cast(), len, libc::MADV_HUGEPAGE) };
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `reserve` and is unmapped once.
        unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.len) };
    }
}

/// Says what is exhausted where the system grants no more addresses.
pub(crate) fn no_addresses(error: io::Error) -> io::Error {
    let what = "the process has no addresses left for another mapping; close datasets, or raise its limits (ulimit -v, vm.max_map_count)";
    io::Error::new(io::ErrorKind::ResourceBusy, format!("{what}: {error}"))
}

/// Pagers that are open.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// Files that each keeps open: its ring, what wakes who sleeps on it, and one or two of data.
const FILES: usize = 4;
/// Files that are left to everybody else.
const SPARE_FILES: usize = 256;

/// That a pager is open. Where the files that all of them keep come near what the process may have, the soft limit is raised, as far as
/// the hard one goes: most systems begin with 1024, and a thousand open datasets are twice as many.
#[derive(Debug)]
pub(crate) struct OpenFileLimit(());

impl OpenFileLimit {
    pub(crate) fn new() -> Self {
        let files = (OPEN.fetch_add(1, Relaxed) + 1) * FILES + SPARE_FILES;
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls read or write the one struct that is given to them.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0
                && (files as libc::rlim_t) > limit.rlim_cur
                && limit.rlim_cur < limit.rlim_max
            {
                limit.rlim_cur = limit.rlim_max.min(2 * files as libc::rlim_t);
                // Where that is refused, what opens next says so.
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
            }
        }
        Self(())
    }
}

impl Drop for OpenFileLimit {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Relaxed);
    }
}

/// Says what to do where the process may have no more files open.
pub(crate) fn no_files(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EMFILE) {
        return error;
    }
    let what = "the process may have no more files open; close datasets, or raise its limit (ulimit -n)";
    io::Error::new(io::ErrorKind::ResourceBusy, format!("{what}: {error}"))
}

/// Gives the memory under `ptr..ptr + len` back to the system; it reads as zeros afterwards.
///
/// # Safety
/// The range lies in a live [`Mapping`], is aligned to system pages, and nothing reads or writes it.
pub(crate) unsafe fn give_back(ptr: *mut u8, len: usize) {
    // SAFETY: the caller's promise. The call fails only on ranges that break it.
    unsafe { libc::madvise(ptr.cast(), len, libc::MADV_DONTNEED) };
}

/// Asks for huge pages behind memory that is charged as a whole and about to be written: the processor then looks up fewer addresses. A
/// hint; it takes no more memory than there is in `of`.
pub fn make_huge<T>(of: &mut [T]) {
    let range = of.as_mut_ptr_range();
    let Some(start) = round_up(range.start as usize) else { return };
    let end = range.end as usize / os_page() * os_page();
    if end > start {
        // SAFETY: the range lies in the slice; the call changes no bytes.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Takes back what [`Mapping::make_huge`] asked for. A hint.
///
/// # Safety
/// The range lies in a live [`Mapping`] and is aligned to system pages.
pub(crate) unsafe fn never_huge(ptr: *mut u8, len: usize) {
    // SAFETY: the caller's promise. The call changes no bytes.
    unsafe { libc::madvise(ptr.cast(), len, libc::MADV_NOHUGEPAGE) };
}
