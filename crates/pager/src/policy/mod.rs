//! Replacement: which page is evicted when another needs its room.
//!
//! A policy keeps an order over frames only. The [`Probe`] says whether a frame may be evicted (pins, holds) and when
//! it was used. All calls come under the pager's lock.

mod clock;
mod ghosts;
mod links;
mod lru;
mod replacement;
mod s3fifo;
mod sieve;
#[cfg(test)]
mod tests;
mod two_queue;
mod uses;

pub use clock::Clock;
pub use lru::Lru;
pub use replacement::{Need, Policy, Probe};
pub use s3fifo::S3Fifo;
pub use sieve::Sieve;
pub use two_queue::TwoQueue;

/// Which policy to use.
///
/// ```
/// use pager::PolicyKind;
/// assert_eq!(PolicyKind::named("2q"), Some(PolicyKind::TwoQueue));
/// let names: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
/// assert_eq!(names, ["clock", "lru", "sieve", "s3-fifo", "2q"]);
/// ```
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Second chance: a hand passes over the frames and picks the first that was not used since its last pass.
    #[default]
    Clock,
    /// Least recently used.
    Lru,
    /// SIEVE (Zhang et al. 2024): as second chance, but survivors keep their place and new pages are evicted soon.
    Sieve,
    /// S3-FIFO (Yang et al. 2023): a small queue for new pages, a main one for pages used again.
    S3Fifo,
    /// 2Q (Johnson and Shasha 1994): a queue for new pages, and least recently used for pages that came back.
    TwoQueue,
}

impl PolicyKind {
    /// All kinds.
    pub const ALL: &[Self] = &[Self::Clock, Self::Lru, Self::Sieve, Self::S3Fifo, Self::TwoQueue];

    /// The name on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clock => Clock::NAME,
            Self::Lru => Lru::NAME,
            Self::Sieve => Sieve::NAME,
            Self::S3Fifo => S3Fifo::NAME,
            Self::TwoQueue => TwoQueue::NAME,
        }
    }

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// A new policy of this kind.
    pub fn build(self) -> Box<dyn Policy> {
        match self {
            Self::Clock => Box::new(Clock::default()),
            Self::Lru => Box::new(Lru::default()),
            Self::Sieve => Box::new(Sieve::default()),
            Self::S3Fifo => Box::new(S3Fifo::default()),
            Self::TwoQueue => Box::new(TwoQueue::default()),
        }
    }
}

#[cfg(test)]
pub(crate) mod conformance {
    //! The properties of every policy.
    use super::*;
    use crate::id::{ArrayId, PageId};
    use std::collections::{HashMap, HashSet};

    #[derive(Clone, Default)]
    pub(crate) struct Frames {
        pub(crate) referenced: std::cell::RefCell<HashSet<u32>>,
        pub(crate) pinned: HashSet<u32>,
        pub(crate) stamps: HashMap<u32, u64>,
        pub(crate) present: HashSet<u32>,
        pub(crate) now: u64,
        pub(crate) probes: usize,
        pub(crate) settling: u64,
        /// The answer of [`Probe::lately`], if not 0.
        pub(crate) lately: u64,
    }

    impl Probe for Frames {
        fn referenced(&self, f: u32) -> bool {
            self.referenced.borrow().contains(&f)
        }
        fn forget(&self, f: u32) {
            self.referenced.borrow_mut().remove(&f);
        }
        fn stamp(&self, f: u32) -> u64 {
            self.stamps.get(&f).copied().unwrap_or(0)
        }
        fn now(&self) -> u64 {
            self.now
        }
        fn lately(&self) -> u64 {
            if self.lately > 0 {
                self.lately
            } else {
                u64::MAX
            }
        }
        fn settling(&self) -> u64 {
            self.settling
        }
        fn take(&mut self, f: u32) -> bool {
            assert!(self.present.contains(&f), "asked for a frame that is not there");
            self.probes += 1;
            !self.pinned.contains(&f) && self.present.remove(&f)
        }
    }

    impl Frames {
        /// Publishes the page of the frame's number.
        pub(crate) fn add(&mut self, p: &mut dyn Policy, f: u32) {
            self.add_page(p, f, u64::from(f));
        }
        pub(crate) fn add_page(&mut self, p: &mut dyn Policy, f: u32, page: u64) {
            self.now += 1;
            self.present.insert(f);
            self.touch(f);
            p.inserted(f, PageId::new(ArrayId(0), 0, page), self.now);
        }
        /// Uses a page while others are published.
        pub(crate) fn use_page(&mut self, f: u32) {
            self.now += 1;
            self.touch(f);
        }
        pub(crate) fn touch(&mut self, f: u32) {
            self.referenced.borrow_mut().insert(f);
            self.stamps.insert(f, self.now);
        }
        /// Drops a page without the policy's choice.
        pub(crate) fn drop_page(&mut self, p: &mut dyn Policy, f: u32) {
            self.present.remove(&f);
            p.removed(f);
        }
    }

    pub(crate) fn check(kind: PolicyKind) {
        for settling in [0, 1, 1000] {
            let f = Frames { settling, ..Frames::default() };
            everything_can_be_had(kind.build().as_mut(), f.clone());
            used_pages_outlive_a_scan(kind.build().as_mut(), f.clone());
            prefetches_change_nothing(kind, f.clone());
            prefetches_take_what_is_idle(kind.build().as_mut(), f);
        }
        assert_eq!(kind.build().name(), kind.name());
        assert_eq!(PolicyKind::named(kind.name()), Some(kind));
    }

    fn everything_can_be_had(p: &mut dyn Policy, mut f: Frames) {
        // No frames: full.
        assert_eq!(p.victim(Need::Demand, &mut f), None);
        assert_eq!(p.victim(Need::Prefetch, &mut f), None);
        // A frame that was never there may be removed.
        p.removed(7);
        // Everything pinned: full, after a bounded number of probes.
        for i in 0..50 {
            f.add(p, i);
        }
        f.pinned = (0..50).collect();
        f.probes = 0;
        assert_eq!(p.victim(Need::Demand, &mut f), None);
        assert!(f.probes <= 200, "{}", f.probes);
        // One unpinned: found.
        f.pinned.remove(&33);
        assert_eq!(p.victim(Need::Demand, &mut f), Some(33));
        assert_eq!(p.victim(Need::Demand, &mut f), None);
        // All in use: none for a prefetch, and no change.
        f.pinned.clear();
        for i in (0..50).filter(|i| *i != 33) {
            f.use_page(i);
        }
        assert_eq!(p.victim(Need::Prefetch, &mut f), None);
        assert_eq!(f.present.len(), 49);
        // After any history: full if all are used and pinned, and the one unpinned frame is found.
        for free in [None, Some(12), Some(40)] {
            for i in f.present.clone() {
                f.use_page(i);
            }
            f.pinned = f.present.iter().copied().filter(|i| Some(*i) != free).collect();
            f.probes = 0;
            assert_eq!(p.victim(Need::Demand, &mut f), free);
            assert!(f.probes <= 200, "{}", f.probes);
            if let Some(i) = free {
                f.add_page(p, i, 1000 + u64::from(i));
            }
        }
        f.pinned.clear();
        // Removed frames are not probed, numbers are reused, and each page is evicted once in the end.
        for i in 0..10 {
            f.drop_page(p, i);
        }
        f.add(p, 3);
        let mut gone = HashSet::new();
        while let Some(v) = p.victim(Need::Demand, &mut f) {
            assert!(gone.insert(v), "{v} went twice");
        }
        assert!(f.present.is_empty() && gone.len() == 40);
    }

    /// Pages in constant use outlive a scan, except at the start, when no page has a second use.
    fn used_pages_outlive_a_scan(p: &mut dyn Policy, mut f: Frames) {
        let mut lost = 0;
        for i in 0..8 {
            f.add(p, i);
        }
        for i in 8..1000 {
            f.use_page(0);
            f.use_page(1);
            assert!(p.victim(Need::Demand, &mut f).is_some());
            for hot in 0..2 {
                if !f.present.contains(&hot) {
                    lost += 1;
                    f.add(p, hot);
                    p.victim(Need::Demand, &mut f);
                }
            }
            f.add(p, i);
        }
        assert!(lost <= 4, "{lost}");
    }

    /// Of two policies with the same history, one sometimes gets a request for a prefetch while all is in use. Both
    /// evict the same afterwards.
    fn prefetches_change_nothing(kind: PolicyKind, f: Frames) {
        let mut both = [(kind.build(), f.clone()), (kind.build(), f)];
        for i in 0..200 {
            for (n, (p, f)) in both.iter_mut().enumerate() {
                if f.present.len() == 60 {
                    for used in 0..3 {
                        f.present
                            .iter()
                            .copied()
                            .filter(|p| p % 3 == (i + used) % 3)
                            .for_each(|p| f.referenced.get_mut().extend([p]));
                    }
                    let stamps: Vec<_> = f.present.iter().map(|p| (*p, f.now)).collect();
                    f.stamps.extend(stamps);
                    if n == 1 {
                        f.lately = f.now;
                        assert_eq!(p.victim(Need::Prefetch, f), None);
                        f.lately = 0;
                    }
                    assert!(p.victim(Need::Demand, f).is_some());
                }
                f.add(p.as_mut(), i);
            }
            assert_eq!(both[0].1.present, both[1].1.present, "{kind:?}");
        }
    }

    /// A prefetch replaces a page that was unused for a whole pool of publications. It spares pages used since the kept
    /// count, and pinned ones.
    fn prefetches_take_what_is_idle(p: &mut dyn Policy, mut f: Frames) {
        (0..60).for_each(|i| f.add(p, i));
        for i in 60..270 {
            let Some(v) = p.victim(Need::Demand, &mut f) else { panic!("full") };
            f.add_page(p, v, i);
        }
        // Used from now on: the last ten of them, for longer than a pool of publications.
        let used: HashSet<u32> = f.present.iter().copied().filter(|i| *i >= 50).collect();
        for _ in 0..10 {
            used.iter().for_each(|i| f.use_page(*i));
        }
        f.lately = 1;
        assert_eq!(p.victim(Need::Prefetch, &mut f), None, "all were used at 1 or later");
        f.lately = 0;
        f.pinned.insert(5);
        let mut gone = HashSet::new();
        while let Some(v) = p.victim(Need::Prefetch, &mut f) {
            gone.insert(v);
        }
        assert!(!gone.is_empty() && gone.is_disjoint(&used) && !gone.contains(&5), "{gone:?}");
    }
}
