//! 2Q, the full version.
//!
//! *Theory.* Johnson and Shasha, "2Q: a low overhead high performance buffer management replacement algorithm" (VLDB 1994), section 3.
//! A page comes into a queue A1in, where uses change nothing: those that follow the first at once say little. When A1in has more than
//! a quarter of the pages its oldest goes, and its name into A1out. What comes back while its name is there was used again after
//! some time, and goes to Am, which is ordered by last use. While A1in is within its quarter, Am gives the page used longest ago,
//! without a name. A1out has names of half as many pages as there are.
//!
//! *Practice.* That uses in A1in change nothing is what a pager wants that cannot see accesses: a page's first use needs no telling from
//! the next. Am is [`Lru`], ordered by the dates that workers leave, and costs what that costs: a few operations on a heap for
//! each victim. What differs:
//! - Sizes are parts of the pages that are there now, which are as many as fit.
//! - The name is looked up when a page has been read, not when it is asked for: room was made before that, and the names of what went
//!   may have displaced it.
//! - A pinned page of A1in goes to its front. What was given back or went by an offer leaves no name: it was not the policy that found
//!   it useless.

use super::ghosts::Ghosts;
use super::links::{grown, reach, LinkedQueue, Links};
use super::lru::Lru;
use super::uses::{idle, Sweep, LOOKED_AT};
use super::{Need, Policy, PolicyKind, Probe};
use crate::id::{ArrayId, PageId};

/// A1in is kept at one part in so many (Kin).
const IN: usize = 4;
/// A1out has one name for so many pages (Kout).
const OUT: usize = 2;

/// A1in, A1out and Am.
#[derive(Debug, Default)]
pub struct TwoQueue {
    /// 1. A frame is in `arrived` (if `links` has it) or in `often`, or its page is gone.
    links: Links,
    arrived: LinkedQueue,
    often: Lru,
    /// 2. No page in it is resident, and there are at most as many as pages that are.
    ghosts: Ghosts,
    /// By frame: its page and when that was published. Of those that arrived.
    nodes: Vec<(PageId, u64)>,
    sweep: Sweep,
}

impl TwoQueue {
    fn count(&self) -> usize {
        self.arrived.len() + self.often.len()
    }

    /// Takes note that a frame is gone of `count` that there were. Its page leaves a name if it was in A1in and `name`.
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

    /// The oldest of A1in that is not pinned, while there are more than `keep`. `looks` is what is left of those in it to look at.
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
        PolicyKind::TwoQueue.name()
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
        // A frame's place among those that arrived is kept while it is in Am.
        Links::BYTES + grown(size_of::<(PageId, u64)>()) + self.often.bytes_per_frame() + Ghosts::BYTES.div_ceil(OUT)
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{check, Frames};
    use super::*;

    #[test]
    fn conforms() {
        check(PolicyKind::TwoQueue);
    }

    /// By hand, with eight pages: Kin is 2, Kout is 4. 0 to 7 come into A1in; 0 and 5 are used, which changes nothing.
    /// 1. 0, 1, 2 go in their order for 8, 9, 10. A1in: 3 to 10; A1out: 0, 1, 2.
    /// 2. 3 goes for 1, which comes into Am; 4 for 2, 5 for 4, likewise. A1in: 6 to 10; A1out: 0, 3, 5; Am: 1, 2, 4.
    /// 3. 6 goes for 11, 7 for 12, by which A1out is full and loses 0: 3, 5, 6, 7. 8 goes for 0, which comes into A1in. A1in: 9 to 12, 0;
    ///    A1out: 5, 6, 7, 8.
    /// 4. 9 goes for 6, 10 for 8, 11 for 9, all into Am. A1in: 12, 0, which is Kin; A1out: 7, 10, 11; Am: 1, 2, 4, 6, 8, 9.
    /// 5. 1 is used. Am gives 2, used longest ago, for 13. From there it has no name: 12 goes for 2, which comes into A1in.
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
