//! What the system says of this process.

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

/// Processor seconds of all threads, user and system.
pub fn cpu_seconds() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is valid for the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// Bytes of all files below a folder.
pub fn folder_bytes(path: &std::path::Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let each = entries.flatten().map(|e| match e.metadata() {
        Ok(m) if m.is_dir() => folder_bytes(&e.path()),
        Ok(m) => m.len(),
        Err(_) => 0,
    });
    each.sum()
}
