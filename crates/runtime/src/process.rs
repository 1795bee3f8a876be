//! Memory and processor time of this process, from the system.

use field::error::FieldError;
use std::path::Path;

fn status_kib(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(key));
    line.and_then(|l| l.split_whitespace().nth(1)).and_then(|v| v.parse::<u64>().ok()).unwrap_or(0)
}

/// Resident bytes now (VmRSS); 0 if the system does not show them.
pub fn resident_bytes() -> u64 {
    status_kib("VmRSS:") * 1024
}

/// Most resident bytes so far (VmHWM); 0 if the system does not show them.
pub fn peak_resident_bytes() -> u64 {
    status_kib("VmHWM:") * 1024
}

/// Resident bytes before a run's first page. All code of this library is touched first. Otherwise a page of code first
/// used during a run would count as data (3.5 MiB, more than a small limit leaves free).
pub fn base_bytes() -> u64 {
    static TOUCHED: std::sync::Once = std::sync::Once::new();
    TOUCHED.call_once(touch_code);
    resident_bytes()
}

/// Reads a byte of every system page of the mapping that holds this function. If the system does not show its mappings,
/// nothing is read. Then the base is smaller, and code counts as data.
fn touch_code() {
    let here = touch_code as fn() as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let span = maps.lines().find_map(|line| {
        let (span, rest) = line.split_once(' ')?;
        let (first, end) = span.split_once('-')?;
        let span = usize::from_str_radix(first, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        (rest.starts_with('r') && span.contains(&here)).then_some(span)
    });
    for at in span.unwrap_or(0..0).step_by(4096) {
        // SAFETY: inside a readable mapping of code, which stays while this runs in it. The volatile read is not left
        // out.
        unsafe { core::ptr::read_volatile(core::ptr::with_exposed_provenance::<u8>(at)) };
    }
}

/// Returns the allocator's freed memory to the system. The allocator keeps the memory of thousands of states after
/// their charges are released, and later charges would come on top. 2 MiB were seen, of 10,000 particles.
pub(crate) fn give_back_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// From now on, threads share the allocator's freed small blocks, unless they have an arena of their own already. This
/// holds as long as the process lives. Two threads that cast 1024^3 bytes kept 1.9 MiB for themselves, 0.4 more than is
/// left free for it at 12 MiB.
pub(crate) fn share_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: may be called at any time, from any thread.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Processor seconds of all threads, user and system.
pub fn cpu_seconds() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// Bytes of available memory: the machine's, within the limits of this process's control groups. `None` if the system
/// does not show them.
pub fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let free = line.split_whitespace().next()?.parse::<u64>().ok()? * 1024;
    // A system without control groups has no such limits.
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().filter_map(|l| {
        let mut parts = l.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            c if c.split(',').any(|c| c == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        std::fs::read_to_string(format!("{root}{path}/{name}")).ok()?.trim().parse::<u64>().ok()
    });
    Some(limits.fold(free, u64::min))
}

/// Whether data of this size are read past the page cache, since it cannot keep them. Reads of 48 KiB at random reach
/// 980 MB/s that way and 500 through the cache, for a third of the processor time. Data that the cache can keep are
/// read through it, so that the next run finds them there.
pub fn is_past_cache(bytes: u64) -> bool {
    bytes > memory_available().map_or(u64::MAX, |b| b / 2)
}

/// Bytes of all files below a folder.
///
/// # Errors
/// [`FieldError::Io`] names a folder or file that cannot be read.
pub fn folder_bytes(path: &Path) -> Result<u64, FieldError> {
    let io = |e| FieldError::io(path, e);
    std::fs::read_dir(path).map_err(io)?.try_fold(0, |sum, entry| {
        let entry = entry.map_err(io)?;
        let about = entry.metadata().map_err(|e| FieldError::io(entry.path(), e))?;
        Ok(sum + if about.is_dir() { folder_bytes(&entry.path())? } else { about.len() })
    })
}
