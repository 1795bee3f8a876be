//! How queues tell a use from the use that a page was read for.
//!
//! The algorithms are told each access, and the first one is the miss: a page that is used once has no use after it was put into its
//! queue. Here a page is published first and used after that, workers set a bit and a date and nothing else, and publishing sets both.
//! So a use is known when a frame's turn comes, and it counts as one of *again* if its date is later than the page's own by more than
//! the pages that may be published in between ([`Probe::settling`]). A page that was read ahead and then used once counts as used again
//! unless that was at once, and so does one that somebody held pinned for long.

use super::replacement::Probe;

/// In place of a page's date, once its bit was looked at and forgotten: any use that is seen from then on is one again. No use is as
/// old: every frame had a page published, and [`settling`] is less than there are frames.
pub(super) const LOOKED_AT: u64 = 0;

/// Frames that are looked at for one that a prefetch may have. The next look goes on where this one ended.
const SWEEP: usize = 128;

/// Publications within which uses belong to the first one. A small part of the frames: else a queue that holds a tenth of them
/// would see no use at all.
pub(super) fn settling(probe: &dyn Probe, count: usize) -> u64 {
    probe.settling().min(count as u64 / 32)
}

/// Whether a page that was published at `born` was used again, or since it was looked at.
pub(super) fn used_again(probe: &dyn Probe, frame: u32, born: u64, settling: u64) -> bool {
    probe.referenced(frame) && probe.stamp(frame).saturating_sub(born) > settling
}

/// Whether a prefetch may have a frame: not used again, and not at all since its bit was forgotten or while half the pool was
/// published. Pages that were read ahead are not driven out by the next ones before they had their time.
pub(super) fn idle(probe: &dyn Probe, frame: u32, born: u64, count: usize) -> bool {
    let stamp = probe.stamp(frame);
    stamp < probe.lately()
        && !used_again(probe, frame, born, settling(probe, count))
        && (!probe.referenced(frame) || stamp.saturating_add(count.div_ceil(2) as u64) <= probe.now())
}

/// A hand over frame numbers for prefetches, which so leave every order as it is.
#[derive(Debug, Default)]
pub(super) struct Sweep(usize);

impl Sweep {
    /// The next of `places` that is taken. Not more than [`SWEEP`] are asked: where hardly any is idle a prefetch should not search
    /// the pool for one under the lock.
    pub(super) fn find(&mut self, places: usize, mut take: impl FnMut(u32) -> bool) -> Option<u32> {
        for _ in 0..places.min(SWEEP) {
            let frame = if self.0 < places { self.0 } else { 0 };
            self.0 = frame + 1;
            let frame = u32::try_from(frame).ok()?;
            if take(frame) {
                return Some(frame);
            }
        }
        None
    }
}
