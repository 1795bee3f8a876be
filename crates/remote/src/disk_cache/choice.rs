//! Whether the disk or the server is faster, by measure.
//!
//! *Theory.* Times run from the request to the last byte, so they include waiting in line: a disk that is quick for one
//! read and slow for many is seen as what it is. Medians of the last reads stand for each; one late answer changes
//! nothing. Reads of like length are compared.
//!
//! *Practice.* Until both have been seen, the disk answers. Where the disk is slower by a quarter, reads go to the
//! server. One in sixty-four still goes to the disk, to see whether that changes. A disk that is slow by itself
//! also sends one in sixty-four to the server, which may not have been seen at all.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Times that are kept of each.
const KEPT: usize = 33;
/// Times before a median counts.
const ENOUGH: usize = 8;
/// Of so many reads one goes the other way.
const PROBE_EVERY: u32 = 64;
/// Limits of the classes, in bytes.
const CLASSES: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, usize::MAX];
/// A disk is slow beyond this time, and this rate in bytes a microsecond.
const SLOW: Duration = Duration::from_millis(2);
const SLOW_RATE: u64 = 200;

/// Where bytes come from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum ByteOrigin {
    Disk,
    Server,
}

/// The last times, and their median.
#[derive(Default)]
struct RunningMedian {
    times: Vec<Duration>,
    next: usize,
    median: Option<Duration>,
}

impl RunningMedian {
    fn note(&mut self, time: Duration) {
        match self.times.get_mut(self.next) {
            Some(slot) => *slot = time,
            None => self.times.push(time),
        }
        self.next = (self.next + 1) % KEPT;
        // Sorting each time would cost more than a median that is some reads old.
        if self.times.len() >= ENOUGH && self.next.is_multiple_of(4) {
            let mut sorted = self.times.clone();
            sorted.sort_unstable();
            self.median = sorted.get(sorted.len() / 2).copied();
        }
    }
}

#[derive(Default)]
struct ClassTimes {
    of: [RunningMedian; 2],
    asked: u32,
}

/// The times of one place and the disk before it.
#[derive(Default)]
pub(super) struct OriginChoice(Mutex<[ClassTimes; 4]>);

impl OriginChoice {
    fn lock(&self) -> MutexGuard<'_, [ClassTimes; 4]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn class(len: usize) -> usize {
        CLASSES.iter().position(|most| len <= *most).unwrap_or(CLASSES.len() - 1)
    }

    /// Notes the time of a read.
    pub fn note(&self, origin: ByteOrigin, len: usize, time: Duration) {
        self.lock()[Self::class(len)].of[origin as usize].note(time);
    }

    fn disk_is_slower(times: &ClassTimes) -> bool {
        let [disk, server] = [0, 1].map(|n| times.of[n].median);
        disk.zip(server).is_some_and(|(disk, server)| disk > server + server / 4)
    }

    /// Where a read that both can answer goes.
    pub fn choose(&self, len: usize) -> ByteOrigin {
        let times = &mut self.lock()[Self::class(len)];
        times.asked = times.asked.wrapping_add(1);
        let probe = times.asked.is_multiple_of(PROBE_EVERY);
        let slow = SLOW + Duration::from_micros(len as u64 / SLOW_RATE);
        let usual = if Self::disk_is_slower(times) { ByteOrigin::Server } else { ByteOrigin::Disk };
        match (usual, probe) {
            (ByteOrigin::Server, true) => ByteOrigin::Disk,
            (ByteOrigin::Disk, true) if times.of[0].median.is_some_and(|disk| disk > slow) => ByteOrigin::Server,
            (usual, _) => usual,
        }
    }
}
