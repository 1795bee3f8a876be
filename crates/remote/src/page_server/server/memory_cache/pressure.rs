//! Whether the host is short of memory, and how much the cache may have then.
//!
//! A cache gives way before the host swaps: when little memory is available, or when less than a quarter is and tasks stall
//! for it (`/proc/pressure/memory`). The machine and the server's own cgroup count, whichever is shorter.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The part of memory that stays available, and its bounds in bytes.
const KEEP_PART: u64 = 20;
const KEEP_LEAST: u64 = 128 << 20;
const KEEP_MOST: u64 = 4 << 30;
/// Percent of the last ten seconds in which some task stalled for memory: above it the cache shrinks, and below the other
/// it may grow.
const STALLED: f64 = 10.0;
const CALM: f64 = 1.0;
/// The part of the cache that goes while tasks stall, and the part of its limit by which it grows, at each look.
const STEP: u64 = 8;

/// The memory of the host.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct HostMemory {
    /// Bytes of the machine, or of the cgroup's limit.
    pub total: u64,
    /// Bytes that can be had without swapping.
    pub available: u64,
    /// Percent of the last ten seconds in which some task stalled for memory.
    pub stalled: f64,
}

impl HostMemory {
    /// Reads it. `None`: the system does not say.
    pub fn read() -> Option<Self> {
        let machine = machine();
        match (machine, own_cgroup().and_then(|folder| cgroup(folder))) {
            (Some(machine), Some(group)) => Some(machine.shorter(group)),
            (found, other) => found.or(other),
        }
    }

    fn shorter(self, other: Self) -> Self {
        let least = if other.available < self.available { other } else { self };
        Self { stalled: self.stalled.max(other.stalled), ..least }
    }

    /// Bytes that must stay available.
    fn kept(&self) -> u64 {
        (self.total / KEEP_PART).clamp(KEEP_LEAST, KEEP_MOST)
    }

    /// Bytes that others need and that are not available.
    pub(super) fn lacks(&self) -> u64 {
        self.kept().saturating_sub(self.available)
    }

    /// Whether tasks stall because the whole machine is short. A program that stalls in a limit of its own gains nothing by
    /// what a cache gives back.
    fn stalls_above(&self, percent: f64) -> bool {
        self.stalled > percent && self.available < self.total / 4
    }

    /// Bytes that a cache may have which has `used` bytes, and may have `allowed` now and `limit` at most.
    pub(super) fn allows(&self, used: u64, allowed: u64, limit: u64) -> u64 {
        let step = if self.stalls_above(STALLED) { used / STEP } else { 0 };
        let goes = self.lacks().max(step);
        if goes > 0 {
            return used.saturating_sub(goes).min(allowed);
        }
        if allowed < limit && !self.stalls_above(CALM) {
            // Not more than the host has beyond what it keeps twice: else the next look would take it again.
            let room = self.available.saturating_sub(2 * self.kept());
            return limit.min(allowed.saturating_add(room.min((limit / STEP).max(1 << 20))));
        }
        allowed
    }
}

/// A number of bytes after a name in `/proc/meminfo`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn machine() -> Option<HostMemory> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    Some(HostMemory {
        total: kibibytes(&text, "MemTotal")?,
        available: kibibytes(&text, "MemAvailable")?,
        stalled: stalled(Path::new("/proc/pressure/memory")),
    })
}

/// A kernel without this file says nothing, which counts as calm: what is available counts then.
fn stalled(file: &Path) -> f64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let some = text.lines().find_map(|line| line.strip_prefix("some avg10="));
    some.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// The folder of the cgroup (version 2) of this process, if it has a limit of its own.
fn own_cgroup() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let text = fs::read_to_string("/proc/self/cgroup").ok()?;
        let name = text.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
        Some(Path::new("/sys/fs/cgroup").join(name))
    };
    FOLDER.get_or_init(find).as_ref()
}

fn cgroup(folder: &Path) -> Option<HostMemory> {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    // Without a limit the file says "max".
    let (total, current) = (number("memory.max")?, number("memory.current")?);
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let of_files = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    // The page cache gives way by itself.
    let files: u64 = ["inactive_file ", "active_file "].into_iter().filter_map(of_files).sum();
    let available = total.saturating_sub(current.saturating_sub(files));
    Some(HostMemory { total, available, stalled: stalled(&folder.join("memory.pressure")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn this_machine_says_what_it_has() {
        let found = HostMemory::read().unwrap();
        assert!(found.total > 0 && found.available <= found.total && found.stalled >= 0.0, "{found:?}");
    }

    #[test]
    fn a_cache_gives_way_and_comes_back() {
        let calm = HostMemory { total: 40 * GIB, available: 20 * GIB, stalled: 0.0 };
        assert_eq!(calm.allows(8 * GIB, 16 * GIB, 16 * GIB), 16 * GIB);
        // 2 GiB stay available; 1.5 of them are lacking.
        let short = HostMemory { available: GIB / 2, ..calm };
        assert_eq!(short.allows(8 * GIB, 16 * GIB, 16 * GIB), 8 * GIB - 3 * GIB / 2);
        assert_eq!(short.allows(GIB, 16 * GIB, 16 * GIB), 0);
        let stalling = HostMemory { stalled: 30.0, available: 9 * GIB, ..calm };
        assert_eq!(stalling.allows(8 * GIB, 16 * GIB, 16 * GIB), 7 * GIB);
        let elsewhere = HostMemory { stalled: 30.0, ..calm };
        assert_eq!(elsewhere.allows(8 * GIB, 16 * GIB, 16 * GIB), 16 * GIB);
        assert_eq!(calm.allows(4 * GIB, 4 * GIB, 16 * GIB), 6 * GIB);
        let tight = HostMemory { available: 3 * GIB, ..calm };
        assert_eq!(tight.allows(4 * GIB, 4 * GIB, 16 * GIB), 4 * GIB);
    }
}
