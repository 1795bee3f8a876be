//! Names of evicted pages, in the order of eviction.

use super::links::{grown, reach, LinkedQueue, Links};
use crate::id::{ArrayId, PageId};
use crate::page_hash::hash;

const NONE: u32 = u32::MAX;
const NOBODY: PageId = PageId::new(ArrayId(0), 0, 0);

/// Remembered pages: a queue, and a table of chains to find them. The standard table with a queue beside it needs twice
/// the memory: it may be three quarters empty and keeps each name twice.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    links: Links,
    order: LinkedQueue,
    /// 1. By place: the page. Of places in `order` only, no two the same.
    pages: Vec<PageId>,
    /// 2. By place: the next place in the same chain. For a place that is not in `order`: the next free place.
    next: Vec<u32>,
    /// 3. By chain: its first place. The number of chains is a power of two, and less than twice the most pages at once
    ///    (at least 16).
    chains: Vec<u32>,
    /// The first place that is not in `order`.
    free: Option<u32>,
}

impl Ghosts {
    /// Bytes for each page that may be remembered at once.
    pub(super) const BYTES: usize = Links::BYTES + grown(size_of::<PageId>()) + grown(4) + 2 * 4;

    fn chain(&self, page: PageId) -> usize {
        (hash(page) >> (u64::BITS - self.chains.len().trailing_zeros())) as usize
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        let vectors = self.pages.capacity() * size_of::<PageId>() + (self.next.capacity() + self.chains.capacity()) * 4;
        self.links.held_bytes() + vectors
    }

    /// Remembers a page, and forgets the oldest beyond `most`.
    pub(super) fn remember(&mut self, page: PageId, most: usize) {
        self.forget(page);
        self.trim(most.saturating_sub(1));
        if most == 0 {
            return;
        }
        if self.order.len() >= self.chains.len() {
            self.widen();
        }
        let place = match self.free {
            Some(place) => {
                self.free = Some(self.next[place as usize]).filter(|n| *n != NONE);
                place
            }
            // At most the frames that existed at once: 2^26.
            None => self.pages.len() as u32,
        };
        reach(&mut self.pages, place, NOBODY);
        reach(&mut self.next, place, NONE);
        self.pages[place as usize] = page;
        self.links.push(&mut self.order, place);
        self.chain_up(place);
    }

    /// Forgets a page. Whether it was remembered.
    pub(super) fn forget(&mut self, page: PageId) -> bool {
        if self.chains.is_empty() {
            return false;
        }
        let chain = self.chain(page);
        let (mut before, mut place) = (NONE, self.chains[chain]);
        while place != NONE && self.pages[place as usize] != page {
            (before, place) = (place, self.next[place as usize]);
        }
        if place == NONE {
            return false;
        }
        let after = self.next[place as usize];
        match self.next.get_mut(before as usize) {
            Some(next) => *next = after,
            None => self.chains[chain] = after,
        }
        self.links.remove(&mut self.order, place);
        self.next[place as usize] = self.free.unwrap_or(NONE);
        self.free = Some(place);
        true
    }

    /// Forgets the oldest until `most` are left.
    pub(super) fn trim(&mut self, most: usize) {
        while self.order.len() > most {
            let Some(page) = self.order.oldest().map(|place| self.pages[place as usize]) else { break };
            self.forget(page);
        }
    }

    fn chain_up(&mut self, place: u32) {
        let chain = self.chain(self.pages[place as usize]);
        self.next[place as usize] = std::mem::replace(&mut self.chains[chain], place);
    }

    fn widen(&mut self) {
        let chains = (self.chains.len() * 2).max(16);
        self.chains = vec![NONE; chains];
        let mut place = self.order.oldest();
        while let Some(p) = place {
            self.chain_up(p);
            place = self.links.newer(p);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_first() {
        let page = |n| PageId::new(ArrayId(1), 2, n);
        let mut g = Ghosts::default();
        assert!(!g.forget(page(0)));
        g.remember(page(0), 0);
        assert_eq!(g.len(), 0);
        (0..1000).for_each(|n| g.remember(page(n), 100));
        assert_eq!(g.len(), 100);
        assert!(!g.forget(page(899)) && g.forget(page(900)) && !g.forget(page(900)) && g.forget(page(950)));
        // A page remembered again is the youngest.
        g.remember(page(901), 100);
        assert_eq!(g.len(), 98);
        g.trim(3);
        let left: Vec<u64> = (0..1000).filter(|n| g.forget(page(*n))).collect();
        assert_eq!(left, [901, 998, 999]);
        assert_eq!(g.len(), 0);
    }

    #[test]
    fn a_place_is_used_again() {
        let mut g = Ghosts::default();
        (0..100_000).for_each(|n| g.remember(PageId::new(ArrayId(0), 0, n), 300));
        assert!(g.pages.len() <= 300 && g.held_bytes() <= 300 * Ghosts::BYTES, "{} {}", g.pages.len(), g.held_bytes());
    }
}
