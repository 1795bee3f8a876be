//! SIEVE.
//!
//! *Theory.* Algorithm 1 of Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is simpler than LRU" (NSDI 2024). One queue in
//! order of arrival; a use sets a page's bit and moves nothing. A hand moves from the oldest to the newest and round
//! again. It clears set bits and evicts the first page without one. Unlike second chance, survivors keep their place,
//! so the hand is soon among the newest pages. A page used once is evicted after a short time ("quick demotion"), and
//! pages behind the hand are visited rarely.
//!
//! *Practice.* Differences from the paper:
//!
//! - A use is seen by its bit and stamp when the hand comes. Uses that belong to a page's first use do not count (see
//!   `uses`).
//! - The paper evicts the newest page at once. Here a task may be about to wake for that page, which would be read
//!   again and again. So the hand passes over pages published within [`Probe::settling`], as over pinned ones, unless
//!   no other page is left.
//!
//! A victim takes one inspection, and one more for each cleared bit. A use pays for that.

use super::links::{grown, reach, LinkedQueue, Links};
use super::replacement::{Need, Policy, Probe};
use super::uses::{idle, settling, used_again, Sweep, LOOKED_AT};
use crate::id::PageId;

/// The queue and its hand.
#[derive(Debug, Default)]
pub struct Sieve {
    links: Links,
    queue: LinkedQueue,
    /// By frame: the stamp of its publication, until the hand has cleared its bit.
    born: Vec<u64>,
    /// 1. The frame inspected next, which is in `queue`; `None`: the oldest.
    hand: Option<u32>,
    sweep: Sweep,
}

impl Sieve {
    /// The name in messages and on the command line.
    pub(super) const NAME: &'static str = "sieve";

    fn drop(&mut self, frame: u32) {
        if self.hand == Some(frame) {
            self.hand = self.links.newer(frame);
        }
        self.links.remove(&mut self.queue, frame);
    }
}

impl Policy for Sieve {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn inserted(&mut self, frame: u32, _page: PageId, stamp: u64) {
        self.drop(frame);
        reach(&mut self.born, frame, LOOKED_AT);
        self.born[frame as usize] = stamp;
        self.links.push(&mut self.queue, frame);
    }

    fn removed(&mut self, frame: u32) {
        self.drop(frame);
    }

    fn victim(&mut self, need: Need, probe: &mut dyn Probe) -> Option<u32> {
        let count = self.queue.len();
        if need == Need::Prefetch {
            let Self { links, born, sweep, .. } = self;
            let found = sweep.find(links.places(), |f| {
                links.contains(f) && idle(probe, f, born[f as usize], count) && probe.take(f)
            })?;
            self.drop(found);
            return Some(found);
        }
        let settling = settling(probe, count);
        // Two turns as in the paper, and one for recently published pages.
        for look in 0..3 * count {
            let frame = self.hand.or(self.queue.oldest())?;
            let born = self.born[frame as usize];
            if used_again(probe, frame, born, settling) {
                probe.forget(frame);
                self.born[frame as usize] = LOOKED_AT;
            } else if (look >= 2 * count || probe.now().saturating_sub(born) >= settling) && probe.take(frame) {
                // The hand stays behind it.
                self.hand = Some(frame);
                self.drop(frame);
                return Some(frame);
            }
            self.hand = self.links.newer(frame);
        }
        None
    }

    fn bytes_per_frame(&self) -> usize {
        Links::BYTES + grown(8)
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{check, Frames};
    use super::super::PolicyKind;
    use super::*;

    #[test]
    fn conforms() {
        check(PolicyKind::Sieve);
    }

    /// By hand: 0 to 4 come, 0 and 2 are used. The hand clears 0 and evicts 1; 5 comes. It clears 2 and evicts 3; 6
    /// comes. It evicts 4; 7 comes. It evicts 5, the next newer page, although 0 and 2 are older and have no bit. 6 is
    /// used: cleared, and 7, the newest, is evicted. Round again: 0, 2, and 6, whose bit is clear.
    #[test]
    fn sifts_as_worked_out_by_hand() {
        let (mut p, mut f) = (Sieve::default(), Frames::default());
        (0..5).for_each(|i| f.add(&mut p, i));
        f.use_page(0);
        f.use_page(2);
        let mut gone = Vec::new();
        for new in [Some(5), Some(6), Some(7), None] {
            gone.extend(p.victim(Need::Demand, &mut f));
            new.into_iter().for_each(|i| f.add(&mut p, i));
        }
        f.use_page(6);
        gone.extend(std::iter::from_fn(|| p.victim(Need::Demand, &mut f)));
        assert_eq!(gone, [1, 3, 4, 5, 7, 0, 2, 6]);
    }

    /// Of 64 pages, uses up to two publications later belong to the first. 10 was used one publication after its own
    /// and 11 three after. The hand passes over 11 only.
    #[test]
    fn first_uses_are_no_visits() {
        let (mut p, mut f) = (Sieve::default(), Frames { settling: 2, ..Frames::default() });
        for i in 0..64 {
            f.add(&mut p, i);
            match i {
                11 => f.touch(10),
                14 => f.touch(11),
                _ => {}
            }
        }
        let gone: Vec<_> = (0..12).filter_map(|_| p.victim(Need::Demand, &mut f)).collect();
        assert_eq!(gone, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]);
    }

    /// All but the last two of 64 were used. In the paper 62 is evicted, which has no bit. Where a task may be about to
    /// use it, the hand moves round and evicts 0, which it has cleared. It evicts 62 if it must.
    #[test]
    fn what_has_just_come_is_left() {
        for (settling, pinned, gone) in [(0, 0, 62), (2, 0, 0), (2, 62, 62)] {
            let (mut p, mut f) = (Sieve::default(), Frames { settling, ..Frames::default() });
            (0..62).for_each(|i| f.add(&mut p, i));
            f.now += 3;
            (0..62).for_each(|i| f.touch(i));
            (62..64).for_each(|i| f.add(&mut p, i));
            f.pinned = (0..pinned).collect();
            assert_eq!(p.victim(Need::Demand, &mut f), Some(gone), "settling {settling}, {pinned} pinned");
        }
    }

    #[test]
    fn bytes_are_honest() {
        let (mut p, mut f) = (Sieve::default(), Frames::default());
        (0..5000).for_each(|i| f.add(&mut p, i));
        let held = p.links.held_bytes() + p.born.capacity() * 8;
        assert!(held <= 5120 * p.bytes_per_frame(), "{held}");
    }
}
