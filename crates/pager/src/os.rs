//! The system calls of the pool.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Granularity of frames: the system takes back no smaller part.
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

/// An anonymous mapping. Its pages use no memory until they are touched.
pub(crate) struct Mapping {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is memory. Its owner decides who accesses which part.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `len` bytes of zeros. `NORESERVE`: untouched bytes count neither as memory nor as commit charge. Huge
    /// pages are off until [`Self::make_huge`]: a touched frame must use its own bytes and not two mebibytes.
    pub(crate) fn reserve(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
        let ptr = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if ptr == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ptr = NonNull::new(ptr.cast::<u8>()).ok_or_else(|| io::Error::other("mmap gave the null page"))?;
        // SAFETY: the range is the mapping just made. Both calls are hints: without them only memory is wasted.
        unsafe {
            libc::madvise(ptr.as_ptr().cast(), len, libc::MADV_NOHUGEPAGE);
            libc::madvise(ptr.as_ptr().cast(), len, libc::MADV_DONTDUMP);
        }
        Ok(Self { ptr, len })
    }

    /// Asks for huge pages behind a part of the mapping. The first touch is then one fault for two mebibytes, and the
    /// processor translates fewer addresses. A hint.
    pub(crate) fn make_huge(&self, ptr: *mut u8, len: usize) {
        // SAFETY: the range is inside this mapping, and the call changes no bytes.
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

/// The error for a system without free addresses.
pub(crate) fn no_addresses(error: io::Error) -> io::Error {
    let what = "the process has no addresses left for another mapping; close datasets, or raise its limits (ulimit -v, vm.max_map_count)";
    io::Error::new(io::ErrorKind::ResourceBusy, format!("{what}: {error}"))
}

/// Open pagers.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// Files of each pager: its ring, the eventfd that wakes a sleeper on it, and one or two of data.
const FILES: usize = 4;
/// Files left to the rest of the process.
const SPARE_FILES: usize = 256;

/// A guard for one open pager. When the files of all pagers approach the soft limit of the process, it is raised, at
/// most to the hard limit. Most systems start with 1024, and a thousand open datasets need twice as many.
#[derive(Debug)]
pub(crate) struct OpenFileLimit(());

impl OpenFileLimit {
    pub(crate) fn new() -> Self {
        let files = (OPEN.fetch_add(1, Relaxed) + 1) * FILES + SPARE_FILES;
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls access only the given struct.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0
                && (files as libc::rlim_t) > limit.rlim_cur
                && limit.rlim_cur < limit.rlim_max
            {
                limit.rlim_cur = limit.rlim_max.min(2 * files as libc::rlim_t);
                // If this is refused, the next open reports the lack of files.
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

/// The error for a process with too many open files, and its remedy.
pub(crate) fn no_files(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EMFILE) {
        return error;
    }
    let what = "the process may have no more files open; close datasets, or raise its limit (ulimit -n)";
    io::Error::new(io::ErrorKind::ResourceBusy, format!("{what}: {error}"))
}

/// Gives the memory under `ptr..ptr + len` back to the system. It reads as zeros afterwards.
///
/// # Safety
/// The range is inside a live [`Mapping`], is aligned to system pages, and nothing reads or writes it.
pub(crate) unsafe fn give_back(ptr: *mut u8, len: usize) {
    // SAFETY: the caller's promise. The call fails only on ranges that break it.
    unsafe { libc::madvise(ptr.cast(), len, libc::MADV_DONTNEED) };
}

/// Asks for huge pages behind memory that is charged as a whole and about to be written. The processor then translates
/// fewer addresses. A hint, which takes no more memory than `of` has.
pub fn make_huge<T>(of: &mut [T]) {
    let range = of.as_mut_ptr_range();
    let Some(start) = round_up(range.start as usize) else { return };
    let end = range.end as usize / os_page() * os_page();
    if end > start {
        // SAFETY: the range is inside the slice, and the call changes no bytes.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Reverts [`Mapping::make_huge`]. A hint.
///
/// # Safety
/// The range is inside a live [`Mapping`] and is aligned to system pages.
pub(crate) unsafe fn never_huge(ptr: *mut u8, len: usize) {
    // SAFETY: the caller's promise. The call changes no bytes.
    unsafe { libc::madvise(ptr.cast(), len, libc::MADV_NOHUGEPAGE) };
}
