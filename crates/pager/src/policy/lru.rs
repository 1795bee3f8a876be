//! Least recently used, by the stamps that workers leave when they pin and release.

use super::replacement::{Need, Policy, Probe};
use crate::id::PageId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A heap ordered by the stamp of each frame at its last inspection. Workers move stamps without a lock and without
/// notice. A frame popped with an outdated stamp is inserted again under the real one. So a use is free here, and a
/// victim takes a few heap operations.
#[derive(Debug, Default)]
pub struct Lru {
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// Generation of each frame number's entry. Entries of older generations are dropped when they are popped. Odd:
    /// present.
    generation: Vec<u32>,
    count: usize,
}

impl Lru {
    /// The name in messages and on the command line.
    pub(super) const NAME: &'static str = "lru";

    fn clear(&mut self, frame: u32) {
        if let Some(g) = self.generation.get_mut(frame as usize) {
            if *g % 2 == 1 {
                *g = g.wrapping_add(1);
                self.count -= 1;
            }
        }
    }

    /// Frames that hold a page.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// [`Policy::victim`] for a part of `pool` frames.
    pub(super) fn oldest(&mut self, need: Need, pool: usize, probe: &mut dyn Probe) -> Option<u32> {
        // A pinned frame is in use now and moves behind all others. Each is inspected at most twice.
        let mut looks = 2 * self.count;
        // For a prefetch: last used at least a whole pool of publications ago.
        let old = probe.now().saturating_sub(pool as u64).min(probe.lately());
        let mut pinned = Vec::new();
        let mut found = None;
        while looks > 0 {
            let Some(Reverse((stamp, frame, g))) = self.heap.pop() else { break };
            if self.generation[frame as usize] != g {
                continue;
            }
            looks -= 1;
            let real = probe.stamp(frame);
            if real > stamp {
                self.heap.push(Reverse((real, frame, g)));
            } else if need == Need::Prefetch && stamp >= old {
                self.heap.push(Reverse((stamp, frame, g)));
                break;
            } else if probe.take(frame) {
                found = Some(frame);
                break;
            } else {
                pinned.push((frame, g));
            }
        }
        for (frame, g) in pinned {
            let stamp = if need == Need::Demand { probe.now() } else { probe.stamp(frame) };
            self.heap.push(Reverse((stamp, frame, g)));
        }
        if let Some(frame) = found {
            self.clear(frame);
        }
        found
    }
}

impl Policy for Lru {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn inserted(&mut self, frame: u32, _page: PageId, stamp: u64) {
        let i = frame as usize;
        if self.generation.len() <= i {
            self.generation.resize(i + 1, 0);
        }
        self.clear(frame);
        self.generation[i] = self.generation[i].wrapping_add(1);
        self.count += 1;
        self.heap.push(Reverse((stamp, frame, self.generation[i])));
        if self.heap.len() > 64 + 2 * self.count {
            // Entries of removed frames are dropped before they outnumber the living ones.
            let generation = &self.generation;
            self.heap.retain(|Reverse((_, f, g))| generation[*f as usize] == *g);
        }
    }

    fn removed(&mut self, frame: u32) {
        self.clear(frame);
    }

    fn victim(&mut self, need: Need, probe: &mut dyn Probe) -> Option<u32> {
        self.oldest(need, self.count, probe)
    }

    fn bytes_per_frame(&self) -> usize {
        // The heap holds up to twice the living entries, in a vector that may be half empty.
        2 * 2 * 16 + 8
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{check, Frames};
    use super::super::PolicyKind;
    use super::*;

    #[test]
    fn conforms() {
        check(PolicyKind::Lru);
    }

    #[test]
    fn takes_the_page_used_longest_ago() {
        let (mut p, mut f) = (Lru::default(), Frames::default());
        for i in 0..5 {
            f.add(&mut p, i);
        }
        for i in [2, 0, 4, 1, 3, 2] {
            f.use_page(i);
        }
        let order: Vec<_> = std::iter::from_fn(|| p.victim(Need::Demand, &mut f)).collect();
        assert_eq!(order, [0, 4, 1, 3, 2]);
    }
}
