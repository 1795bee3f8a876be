//! 2Q, the full version.
//!
//! *Theory.* Johnson and Shasha, "2Q: a low overhead high performance buffer management replacement algorithm" (VLDB
//! 1994), section 3. A page enters a queue A1in, where uses change nothing: uses soon after the first say little. When
//! A1in has more than a quarter of the pages, its oldest is evicted and its name enters A1out. A page that comes back
//! while its name is there was used again after some time. It enters Am, which is ordered by last use. While A1in is
//! within its quarter, Am evicts the page used longest ago, without a name. A1out has names of half as many pages as
//! are resident.
//!
//! *Practice.* The pager cannot see accesses, and A1in needs none: a page's first use need not be distinguished from
//! the next. Am is [`Lru`], ordered by the stamps of workers, and has its cost: a few operations on a heap for each
//! victim. Differences from the paper:
//! - Sizes are parts of the pages resident now, which are as many as fit.
//! - The name is looked up when a page has been read, and not when it is requested. Room was made in between, and the
//!   names of evicted pages may have displaced it.
//! - A pinned page of A1in moves to its front. A page that was given back or evicted by a hint leaves no name: the
//!   policy did not find it unused.

use super::ghosts::Ghosts;
use super::links::{grown, reach, LinkedQueue, Links};
use super::lru::Lru;
use super::replacement::{Need, Policy, Probe};
use super::uses::{idle, Sweep, LOOKED_AT};
use crate::id::{ArrayId, PageId};

/// A1in is kept at one part in this many (Kin).
const IN: usize = 4;
/// A1out has one name for this many pages (Kout).
const OUT: usize = 2;

/// A1in, A1out and Am.
#[derive(Debug, Default)]
pub struct TwoQueue {
    /// 1. A frame is in `arrived` (if `links` has it) or in `often`, or it holds no page.
    links: Links,
    arrived: LinkedQueue,
    often: Lru,
    /// 2. No page in it is resident, and it has at most as many pages as are resident.
    ghosts: Ghosts,
    /// By frame: its page and the stamp of its publication. For frames in A1in.
    nodes: Vec<(PageId, u64)>,
    sweep: Sweep,
}

impl TwoQueue {
    /// The name in messages and on the command line.
    pub(super) const NAME: &'static str = "2q";

    fn count(&self) -> usize {
        self.arrived.len() + self.often.len()
    }

    /// Removes one frame of `count`. Its page leaves a name if it was in A1in and `name`.
    fn drop(&mut self, frame: u32, name: bool, count: usize) {
        let arrived = self.links.contains(frame);
        if arrived {
            self.links.remove(&mut self.arrived, frame);
        } else {
            self.often.removed(frame);
        }
        if name && arrived {
            self.ghosts.remember(self.nodes[frame as usize].0, count / OUT);
        } else if self.count() < count {
            self.ghosts.trim(count / OUT);
        }
    }

    /// Evicts the oldest unpinned page of A1in while it has more than `keep`. `looks`: pages left to inspect.
    fn arrived_first(&mut self, keep: usize, looks: &mut usize, probe: &mut dyn Probe) -> Option<u32> {
        while *looks > 0 && self.arrived.len() > keep {
            *looks -= 1;
            let frame = self.arrived.oldest()?;
            if probe.take(frame) {
                return Some(frame);
            }
            self.links.renew(&mut self.arrived, frame);
        }
        None
    }
}

impl Policy for TwoQueue {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn inserted(&mut self, frame: u32, page: PageId, stamp: u64) {
        self.drop(frame, false, self.count());
        if self.ghosts.forget(page) {
            self.often.inserted(frame, page, stamp);
            return;
        }
        reach(&mut self.nodes, frame, (PageId::new(ArrayId(0), 0, 0), LOOKED_AT));
        self.nodes[frame as usize] = (page, stamp);
        self.links.push(&mut self.arrived, frame);
    }

    fn removed(&mut self, frame: u32) {
        self.drop(frame, false, self.count());
    }

    fn victim(&mut self, need: Need, probe: &mut dyn Probe) -> Option<u32> {
        let count = self.count();
        if need == Need::Prefetch {
            let Self { links, nodes, sweep, .. } = self;
            let arrived = sweep.find(links.places(), |f| {
                links.contains(f) && idle(probe, f, nodes[f as usize].1, count) && probe.take(f)
            });
            if let Some(frame) = arrived {
                self.drop(frame, true, count);
                return Some(frame);
            }
        }
        let mut looks = if need == Need::Demand { self.arrived.len() } else { 0 };
        if let Some(frame) = self.arrived_first(count / IN, &mut looks, probe) {
            self.drop(frame, true, count);
            return Some(frame);
        }
        if let Some(frame) = self.often.oldest(need, count, probe) {
            self.drop(frame, false, count);
            return Some(frame);
        }
        let frame = self.arrived_first(0, &mut looks, probe)?;
        self.drop(frame, true, count);
        Some(frame)
    }

    fn bytes_per_frame(&self) -> usize {
        // A frame in Am keeps its place in the arrays of A1in.
        Links::BYTES + grown(size_of::<(PageId, u64)>()) + self.often.bytes_per_frame() + Ghosts::BYTES.div_ceil(OUT)
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{check, Frames};
    use super::super::PolicyKind;
    use super::*;

    #[test]
    fn conforms() {
        check(PolicyKind::TwoQueue);
    }

    /// By hand, with eight pages: Kin is 2, Kout is 4. 0 to 7 enter A1in; 0 and 5 are used, which changes nothing.
    /// 1. 0, 1, 2 are evicted in this order for 8, 9, 10. A1in: 3 to 10; A1out: 0, 1, 2.
    /// 2. 3 is evicted for 1, which enters Am; 4 for 2, 5 for 4, likewise. A1in: 6 to 10; A1out: 0, 3, 5; Am: 1, 2, 4.
    /// 3. 6 is evicted for 11, 7 for 12. A1out is full then and loses 0: 3, 5, 6, 7. 8 is evicted for 0, which enters
    ///    A1in. A1in: 9 to 12, 0; A1out: 5, 6, 7, 8.
    /// 4. 9 is evicted for 6, 10 for 8, 11 for 9, which all enter Am. A1in: 12, 0, which is Kin; A1out: 7, 10, 11; Am:
    ///    1, 2, 4, 6, 8, 9.
    /// 5. 1 is used. Am evicts 2, used longest ago, for 13. Am leaves no name: 12 is evicted for 2, which enters A1in.
    #[test]
    fn goes_as_worked_out_by_hand() {
        let (mut p, mut f) = (TwoQueue::default(), Frames::default());
        (0..8).for_each(|i| f.add(&mut p, i));
        f.use_page(0);
        f.use_page(5);
        let mut go = |steps: &[(u32, u32)], use_after: Option<u32>| {
            for (gone, new) in steps {
                assert_eq!(p.victim(Need::Demand, &mut f), Some(*gone), "for {new}");
                f.add(&mut p, *new);
            }
            use_after.into_iter().for_each(|i| f.use_page(i));
            (p.arrived.len(), p.ghosts.len(), p.often.len())
        };
        assert_eq!(go(&[(0, 8), (1, 9), (2, 10)], None), (8, 3, 0));
        assert_eq!(go(&[(3, 1), (4, 2), (5, 4)], None), (5, 3, 3));
        assert_eq!(go(&[(6, 11), (7, 12), (8, 0)], None), (5, 4, 3));
        assert_eq!(go(&[(9, 6), (10, 8), (11, 9)], Some(1)), (2, 3, 6));
        assert_eq!(go(&[(2, 13), (12, 2)], None), (3, 4, 5));
    }

    #[test]
    fn bytes_are_honest() {
        let (mut p, mut f) = (TwoQueue::default(), Frames::default());
        (0..5000).for_each(|i| f.add(&mut p, i));
        for page in 5000..40_000 {
            let frame = p.victim(Need::Demand, &mut f).unwrap();
            f.add_page(&mut p, frame, if page % 3 == 0 && page > 6001 { page - 6001 } else { page });
            assert!(p.ghosts.len() <= 2500);
        }
        assert!(p.often.len() > 1000, "{}", p.often.len());
        let own = p.links.held_bytes() + p.nodes.capacity() * size_of::<(PageId, u64)>() + p.ghosts.held_bytes();
        assert!(own + p.often.bytes_per_frame() * 5120 <= 5120 * p.bytes_per_frame(), "{own}");
        for left in (0..5000).rev() {
            assert!(p.victim(Need::Demand, &mut f).is_some());
            assert!(p.ghosts.len() <= left, "{} for {left}", p.ghosts.len());
        }
    }
}
