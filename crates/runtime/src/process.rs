//! What the system says of this process.

use field::error::FieldError;
use std::path::Path;

fn status_kib(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with(key));
    line.and_then(|l| l.split_whitespace().nth(1)).and_then(|v| v.parse::<u64>().ok()).unwrap_or(0)
}

/// Resident bytes now (VmRSS); 0 where the system does not say.
pub fn resident_bytes() -> u64 {
    status_kib("VmRSS:") * 1024
}

/// Most resident bytes so far (VmHWM); 0 where the system does not say.
pub fn peak_resident_bytes() -> u64 {
    status_kib("VmHWM:") * 1024
}

/// Resident bytes before a run's first page. All of this library's code is touched first: a page of code that is first used
/// during a run would count as if data had taken it (3.5 MiB, more than a small limit leaves to spare).
pub fn base_bytes() -> u64 {
    static TOUCHED: std::sync::Once = std::sync::Once::new();
    TOUCHED.call_once(touch_code);
    resident_bytes()
}

/// Reads a byte of every system page of the mapping that holds this function. Where the system does not show its mappings nothing is
/// read: then the base is as small as it was, and code counts as if data had taken it.
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
        // SAFETY: inside a readable mapping of code, which stays while this runs in it; the volatile read is not left out.
        unsafe { core::ptr::read_volatile(core::ptr::with_exposed_provenance::<u8>(at)) };
    }
}

/// Gives what the allocator keeps of freed memory back to the system. It keeps what thousands of states took after they are gone and
/// their charges released: what is charged next would come on top (2 MiB were seen, of 10,000 particles).
pub(crate) fn give_back_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// From here on threads share what the allocator keeps of freed small blocks, as far as they have none of their own yet, and as long as this
/// process lives: what each keeps for itself was 1.9 MiB of two threads that cast 1024^3 bytes, 0.4 more than is left free for it at 12 MiB.
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

/// Bytes of memory that can be had: what the machine has left, and the limits of the control groups that this process is in.
/// `None` where the system does not say.
pub fn memory_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let free = line.split_whitespace().next()?.parse::<u64>().ok()? * 1024;
    // A system without control groups limits nothing by them.
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

/// Whether so many bytes are read past the page cache. Data that it cannot keep anyway go past it: 48 KiB at random come at 980 MB/s
/// that way and at 500 through it, for a third of the processor time. What it can keep is read through it, so that the next run finds
/// it there.
pub fn is_past_cache(bytes: u64) -> bool {
    bytes > memory_available().map_or(u64::MAX, |b| b / 2)
}

/// Bytes of all files below a folder.
///
/// # Errors
/// [`FieldError::Io`] names a folder or file that cannot be looked at.
pub fn folder_bytes(path: &Path) -> Result<u64, FieldError> {
    let io = |e| FieldError::io(path, e);
    std::fs::read_dir(path).map_err(io)?.try_fold(0, |sum, entry| {
        let entry = entry.map_err(io)?;
        let about = entry.metadata().map_err(|e| FieldError::io(entry.path(), e))?;
        Ok(sum + if about.is_dir() { folder_bytes(&entry.path())? } else { about.len() })
    })
}
