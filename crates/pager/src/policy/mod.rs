//! Replacement: which page goes when another needs its room.
//!
//! A policy keeps an order over frames and nothing else. Whether a frame may go (pins, holds) and when it was used is what
//! the [`Probe`] says. All calls come under the pager's lock.

mod clock;
mod lru;

pub use clock::Clock;
pub use lru::Lru;

/// Which policy to use.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Second chance: a hand passes over the frames and takes the first that was not used since it last passed.
    #[default]
    Clock,
    /// The page whose last use is longest ago.
    Lru,
}

impl PolicyKind {
    /// All there are.
    pub const ALL: &[Self] = &[Self::Clock, Self::Lru];

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Lru => "lru",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// A new policy of this kind.
    pub fn build(self) -> Box<dyn Policy> {
        match self {
            Self::Clock => Box::new(Clock::default()),
            Self::Lru => Box::new(Lru::default()),
        }
    }
}

/// How much a victim may cost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// A page that someone waits for needs the room: any frame that is not pinned may go.
    Demand,
    /// Only frames that were not used lately may go ([`Probe::lately`]), and their standing must not be touched.
    Prefetch,
}

/// What a policy may ask about a frame.
pub trait Probe {
    /// Whether the frame was used since [`Probe::forget`].
    fn referenced(&self, frame: u32) -> bool;
    /// Forgets that the frame was used.
    fn forget(&self, frame: u32);
    /// When the frame was last pinned or released: a count that grows with every page published.
    fn stamp(&self, frame: u32) -> u64;
    /// The count now.
    fn now(&self) -> u64;
    /// What was used at this count or later was used lately, whatever else says so.
    fn lately(&self) -> u64 {
        u64::MAX
    }
    /// Takes the frame's page away if nothing pins or holds it. After `true` the frame is gone.
    fn take(&mut self, frame: u32) -> bool;
}

/// An order of replacement.
pub trait Policy: Send {
    /// For messages.
    fn name(&self) -> &'static str;
    /// A frame holds a new page.
    fn inserted(&mut self, frame: u32, stamp: u64);
    /// A frame's page went away, other than through [`Policy::victim`].
    fn removed(&mut self, frame: u32);
    /// Takes one frame through [`Probe::take`] and returns it. `None` says *full*: after a bounded number of probes every frame
    /// turned out pinned, or too much in use for this need.
    fn victim(&mut self, need: Need, probe: &mut dyn Probe) -> Option<u32>;
    /// Bytes that the policy needs for each frame, for the ledger.
    fn bytes_per_frame(&self) -> usize;
}

#[cfg(test)]
pub(crate) mod conformance {
    //! What every policy has to hold.
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[derive(Default)]
    pub(crate) struct Frames {
        pub(crate) referenced: std::cell::RefCell<HashSet<u32>>,
        pub(crate) pinned: HashSet<u32>,
        pub(crate) stamps: HashMap<u32, u64>,
        pub(crate) present: HashSet<u32>,
        pub(crate) now: u64,
        pub(crate) probes: usize,
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
        fn take(&mut self, f: u32) -> bool {
            assert!(self.present.contains(&f), "asked for a frame that is not there");
            self.probes += 1;
            !self.pinned.contains(&f) && self.present.remove(&f)
        }
    }

    impl Frames {
        pub(crate) fn add(&mut self, p: &mut dyn Policy, f: u32) {
            self.now += 1;
            self.present.insert(f);
            self.referenced.borrow_mut().insert(f);
            self.stamps.insert(f, self.now);
            p.inserted(f, self.now);
        }
        pub(crate) fn use_page(&mut self, f: u32) {
            self.now += 1;
            self.referenced.borrow_mut().insert(f);
            self.stamps.insert(f, self.now);
        }
    }

    pub(crate) fn check(kind: PolicyKind) {
        // Nothing there: full.
        let mut p = kind.build();
        let mut f = Frames::default();
        assert_eq!(p.victim(Need::Demand, &mut f), None);
        // Everything pinned: full, after a bounded number of probes.
        for i in 0..50 {
            f.add(p.as_mut(), i);
        }
        f.pinned = (0..50).collect();
        f.probes = 0;
        assert_eq!(p.victim(Need::Demand, &mut f), None);
        assert!(f.probes <= 200, "{}", f.probes);
        // One free: found.
        f.pinned.remove(&33);
        assert_eq!(p.victim(Need::Demand, &mut f), Some(33));
        assert_eq!(p.victim(Need::Demand, &mut f), None);
        // All in use: nothing for a prefetch, and that changes nothing.
        f.pinned.clear();
        for i in (0..50).filter(|i| *i != 33) {
            f.use_page(i);
        }
        assert_eq!(p.victim(Need::Prefetch, &mut f), None);
        assert_eq!(f.present.len(), 49);
        // Removed frames are not asked for again, numbers are reused, and every page can be had in the end, once.
        for i in 0..10 {
            p.removed(i);
            f.present.remove(&i);
        }
        f.add(p.as_mut(), 3);
        let mut gone = HashSet::new();
        while let Some(v) = p.victim(Need::Demand, &mut f) {
            assert!(gone.insert(v), "{v} went twice");
        }
        assert!(f.present.is_empty() && gone.len() == 40);
        // Pages that are used all the time outlive a scan, but for the start, when all look alike.
        let mut lost = 0;
        for i in 0..8 {
            f.add(p.as_mut(), i);
        }
        for i in 8..1000 {
            f.use_page(0);
            f.use_page(1);
            assert!(p.victim(Need::Demand, &mut f).is_some());
            for hot in 0..2 {
                if !f.present.contains(&hot) {
                    lost += 1;
                    f.add(p.as_mut(), hot);
                    p.victim(Need::Demand, &mut f);
                }
            }
            f.add(p.as_mut(), i);
        }
        assert!(lost <= 4, "{lost}");
    }
}
