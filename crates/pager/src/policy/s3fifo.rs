//! S3-FIFO.
//!
//! *Theory.* Algorithm 1 of Yang, Zhang, Qiu, Yue, Vinayak, "FIFO queues are all you need for cache eviction" (SOSP
//! 2023). Most pages are used once. A small queue S (a tenth) holds new pages for a short time. A page at its end that
//! was used moves to the main queue M. Any other page is evicted, and its name enters a ghost queue G. A page that
//! comes back while its name is in G enters M at once. M is a queue with second chances: a page counts at most
//! three uses. At its end it moves to the front again and its count drops by one.
//!
//! *Practice.* Differences from the paper:
//! - A page's uses are one bit, read when its turn comes, once in S and once a turn in M. In S one use is enough, and
//!   the paper asks for two. Uses that belong to the first one do not count (see `uses`). In M the bit means one use or
//!   more. The count rises by one in a turn with the bit, and drops by one in a turn without. If it dropped in each
//!   turn, as in the paper, no count would ever rise.
//! - Sizes are parts of the pages resident now, which are as many as fit. G holds nine tenths of that, as many as M
//!   may.
//! - A pinned page moves to the front of its own queue. A page that was given back or evicted by a hint leaves no name:
//!   the policy did not find it unused.
//!
//! A victim takes one inspection, and one more for each cleared bit and each decrement. Uses pay for those.

use super::ghosts::Ghosts;
use super::links::{grown, reach, LinkedQueue, Links};
use super::replacement::{Need, Policy, Probe};
use super::uses::{idle, settling, used_again, Sweep, LOOKED_AT};
use crate::id::{ArrayId, PageId};

/// S is kept at one part in this many.
const SMALL: usize = 10;
/// Largest count of uses.
const MOST: u8 = 3;
/// Inspections of a page of M in one search: its bit, its count down to 0, and its eviction.
const TURNS: usize = 2 + MOST as usize;

#[derive(Copy, Clone, Debug)]
struct S3Node {
    page: PageId,
    /// Stamp of its publication, until its bit is inspected.
    born: u64,
    /// Whether it is in M. Otherwise it is in S, or in no queue.
    main: bool,
    /// Uses, 0 to `MOST`. 0 in S.
    uses: u8,
}

const NOBODY: S3Node = S3Node { page: PageId::new(ArrayId(0), 0, 0), born: LOOKED_AT, main: false, uses: 0 };

/// The three queues.
#[derive(Debug, Default)]
pub struct S3Fifo {
    links: Links,
    small: LinkedQueue,
    main: LinkedQueue,
    /// 1. No page in it is resident, and it has at most as many pages as are resident.
    ghosts: Ghosts,
    nodes: Vec<S3Node>,
    sweep: Sweep,
}

impl S3Fifo {
    /// The name in messages and on the command line.
    pub(super) const NAME: &'static str = "s3-fifo";

    fn count(&self) -> usize {
        self.small.len() + self.main.len()
    }

    /// Removes a frame. Its page leaves a name if it was in S and `name`.
    fn drop(&mut self, frame: u32, name: bool) {
        if !self.links.contains(frame) {
            return;
        }
        // Of the frames with this one: integer division may give fewer without it.
        let ghosts = self.count() * (SMALL - 1) / SMALL;
        let node = self.nodes[frame as usize];
        self.links.remove(if node.main { &mut self.main } else { &mut self.small }, frame);
        if name && !node.main {
            self.ghosts.remember(node.page, ghosts);
        } else {
            self.ghosts.trim(ghosts);
        }
    }

    /// Moves a frame from S to M, as one that was used again.
    fn promote(&mut self, frame: u32) {
        self.links.remove(&mut self.small, frame);
        self.links.push(&mut self.main, frame);
        let node = &mut self.nodes[frame as usize];
        (node.main, node.uses, node.born) = (true, 1, LOOKED_AT);
    }

    /// Inspects the end of S.
    fn look_small(&mut self, settling: u64, probe: &mut dyn Probe) -> Victim {
        let Some(frame) = self.small.oldest() else { return Victim::Pinned };
        if used_again(probe, frame, self.nodes[frame as usize].born, settling) {
            probe.forget(frame);
            self.promote(frame);
            return Victim::Kept;
        }
        if probe.take(frame) {
            self.drop(frame, true);
            return Victim::Taken(frame);
        }
        self.links.renew(&mut self.small, frame);
        Victim::Pinned
    }

    /// Inspects the end of M. `last`: uses no longer count.
    fn look_main(&mut self, settling: u64, last: bool, probe: &mut dyn Probe) -> Victim {
        let Some(frame) = self.main.oldest() else { return Victim::Pinned };
        let node = &mut self.nodes[frame as usize];
        let look = if !last && used_again(probe, frame, node.born, settling) {
            probe.forget(frame);
            (node.uses, node.born) = ((node.uses + 1).min(MOST), LOOKED_AT);
            Victim::Kept
        } else if !last && node.uses > 0 {
            node.uses -= 1;
            Victim::Kept
        } else if probe.take(frame) {
            self.drop(frame, false);
            return Victim::Taken(frame);
        } else {
            Victim::Pinned
        };
        self.links.renew(&mut self.main, frame);
        look
    }
}

enum Victim {
    Taken(u32),
    Kept,
    Pinned,
}

impl Policy for S3Fifo {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn inserted(&mut self, frame: u32, page: PageId, stamp: u64) {
        self.drop(frame, false);
        let main = self.ghosts.forget(page);
        reach(&mut self.nodes, frame, NOBODY);
        self.nodes[frame as usize] = S3Node { page, born: stamp, main, uses: 0 };
        self.links.push(if main { &mut self.main } else { &mut self.small }, frame);
    }

    fn removed(&mut self, frame: u32) {
        self.drop(frame, false);
    }

    fn victim(&mut self, need: Need, probe: &mut dyn Probe) -> Option<u32> {
        let count = self.count();
        if need == Need::Prefetch {
            let Self { links, nodes, sweep, .. } = self;
            let found = sweep.find(links.places(), |f| {
                let node = nodes[f as usize];
                links.contains(f) && node.uses == 0 && idle(probe, f, node.born, count) && probe.take(f)
            })?;
            self.drop(found, true);
            return Some(found);
        }
        let settling = settling(probe, count);
        // Each page of S is inspected once. Pages of M are inspected until a whole round was pinned.
        let (mut small, mut main, mut pinned) = (self.small.len(), TURNS * self.main.len(), 0);
        loop {
            let in_main = main > 0 && pinned < self.main.len();
            if small > 0 && (self.small.len() * SMALL >= count || !in_main) {
                small -= 1;
                match self.look_small(settling, probe) {
                    Victim::Taken(frame) => return Some(frame),
                    Victim::Kept => (main, pinned) = (main + TURNS, 0),
                    Victim::Pinned => {}
                }
            } else if in_main {
                main -= 1;
                match self.look_main(settling, main < self.main.len(), probe) {
                    Victim::Taken(frame) => return Some(frame),
                    Victim::Kept => pinned = 0,
                    Victim::Pinned => pinned += 1,
                }
            } else {
                return None;
            }
        }
    }

    fn bytes_per_frame(&self) -> usize {
        Links::BYTES + grown(size_of::<S3Node>()) + Ghosts::BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{check, Frames};
    use super::super::PolicyKind;
    use super::*;

    #[test]
    fn conforms() {
        check(PolicyKind::S3Fifo);
    }

    fn victim(p: &mut S3Fifo, f: &mut Frames) -> u32 {
        p.victim(Need::Demand, f).unwrap()
    }

    /// By hand, with ten pages, so that S shrinks to one. 0 to 9 enter S; 0 and 4 are used.
    /// 1. 0 was used and moves to M; 1 is evicted and is a ghost. 1 comes back: into M. S: 2 to 9; M: 0, 1.
    /// 2. 2, 3 are evicted; 10, 11 come. 4 was used: to M, and 5 is evicted; 12 comes. S: 6 to 12; M: 0, 1, 4.
    /// 3. 6 to 11 are used, 12 is not: they move to M. Then S has one page of ten, enough to evict from it: 12 is
    ///    evicted. S: none; M: 0, 1, 4, 6 to 11. 13 comes: S has one page of ten.
    /// 4. 13 is used and moves to M. S is empty, so M must evict: 0 counts 1 and moves to the front with 0; 1 counts 0
    ///    and is evicted. It came as a ghost, but M leaves no name: it comes back into S.
    /// 5. It is evicted at once, since S has one page of ten, and is a ghost.
    #[test]
    fn goes_as_worked_out_by_hand() {
        let (mut p, mut f) = (S3Fifo::default(), Frames::default());
        (0..10).for_each(|i| f.add(&mut p, i));
        f.use_page(0);
        f.use_page(4);
        assert_eq!(victim(&mut p, &mut f), 1);
        f.add(&mut p, 1);
        assert_eq!((p.small.len(), p.main.len(), p.ghosts.len()), (8, 2, 0));
        for (gone, new) in [(2, 10), (3, 11), (5, 12)] {
            assert_eq!(victim(&mut p, &mut f), gone);
            f.add(&mut p, new);
        }
        assert_eq!((p.small.len(), p.main.len(), p.ghosts.len()), (7, 3, 3));
        (6..12).for_each(|i| f.use_page(i));
        assert_eq!(victim(&mut p, &mut f), 12);
        f.add(&mut p, 13);
        f.use_page(13);
        assert_eq!(victim(&mut p, &mut f), 1);
        f.add(&mut p, 1);
        assert_eq!((p.small.len(), p.main.len()), (1, 9));
        assert_eq!(victim(&mut p, &mut f), 1);
        f.add(&mut p, 1);
        assert_eq!((p.small.len(), p.main.len()), (0, 10), "back while its name was there");
    }

    /// 0, 1 and 2 enter M with count 1 and stay there, pinned. In each turn with a use the count of 0 rises, up to 3.
    /// In each turn without one it drops, before the eviction.
    #[test]
    fn counts_turns_with_uses_and_takes_them_down_in_turns_without() {
        let (mut p, mut f) = (S3Fifo::default(), Frames::default());
        (0..4).for_each(|i| f.add(&mut p, i));
        (0..3).for_each(|i| f.use_page(i));
        assert_eq!(victim(&mut p, &mut f), 3);
        f.pinned = (1..3).collect();
        let mut uses = vec![p.nodes[0].uses];
        for used in [true, true, true, false, false, false] {
            if used {
                f.use_page(0);
            }
            for _ in 0..3 {
                assert!(!matches!(p.look_main(0, false, &mut f), Victim::Taken(_)));
            }
            uses.push(p.nodes[0].uses);
        }
        assert_eq!(uses, [1, 2, 3, 3, 2, 1, 0]);
        assert!(matches!(p.look_main(0, false, &mut f), Victim::Taken(0)));
        assert_eq!((p.nodes[1].uses, p.main.len()), (0, 2));
    }

    #[test]
    fn bytes_are_honest() {
        let (mut p, mut f) = (S3Fifo::default(), Frames::default());
        (0..5000).for_each(|i| f.add(&mut p, i));
        for page in 5000..40_000 {
            let frame = victim(&mut p, &mut f);
            f.add_page(&mut p, frame, page);
            assert!(p.ghosts.len() <= 4500);
        }
        assert_eq!(p.ghosts.len(), 4500);
        let held = p.links.held_bytes() + p.nodes.capacity() * size_of::<S3Node>() + p.ghosts.held_bytes();
        assert!(held <= 5120 * p.bytes_per_frame(), "{held}");
        for left in (0..5000).rev() {
            victim(&mut p, &mut f);
            assert!(p.ghosts.len() <= left, "{} for {left}", p.ghosts.len());
        }
    }
}
