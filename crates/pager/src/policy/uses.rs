//! The distinction between the first use of a page and later uses, for queues.
//!
//! The published algorithms see each access, and the first one is the miss: a page used once has no use in its queue.
//! Here a page is published first and used afterwards. Workers only set a bit and a stamp, and publication sets both.
//! So a use is seen when a frame's turn comes.
//!
//! It counts as *used again* if its stamp exceeds the page's own by more than the publications in between
//! ([`Probe::settling`]). This is wrong for two kinds of pages used once: a prefetched page with a late use, and a page
//! pinned for long.

use super::replacement::Probe;

/// Replaces a page's stamp once its bit was inspected and cleared: any use seen afterwards counts as another. No use is
/// as old: every frame had a page published, and [`settling`] is less than the number of frames.
pub(super) const LOOKED_AT: u64 = 0;

/// Frames inspected for one prefetch. The next search continues where this one ended.
const SWEEP: usize = 128;

/// Publications during which uses belong to the first one. A small part of the frames: otherwise a queue of a tenth of
/// them would see no use.
pub(super) fn settling(probe: &dyn Probe, count: usize) -> u64 {
    probe.settling().min(count as u64 / 32)
}

/// Whether a page published at `born` was used again, or used since its inspection.
pub(super) fn used_again(probe: &dyn Probe, frame: u32, born: u64, settling: u64) -> bool {
    probe.referenced(frame) && probe.stamp(frame).saturating_sub(born) > settling
}

/// Whether a prefetch may replace a frame. It was not used again. It was also not used since its bit was cleared, or
/// while half the pool was published. So prefetched pages keep their time against the next ones.
pub(super) fn idle(probe: &dyn Probe, frame: u32, born: u64, count: usize) -> bool {
    let stamp = probe.stamp(frame);
    stamp < probe.lately()
        && !used_again(probe, frame, born, settling(probe, count))
        && (!probe.referenced(frame) || stamp.saturating_add(count.div_ceil(2) as u64) <= probe.now())
}

/// A hand over frame numbers for prefetches, which leaves every order unchanged.
#[derive(Debug, Default)]
pub(super) struct Sweep(usize);

impl Sweep {
    /// The next of `places` that `take` accepts. At most [`SWEEP`] are tried: where few are idle, a prefetch should not
    /// search the whole pool under the lock.
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
