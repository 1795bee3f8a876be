//! The queues against the plainest implementation of the same rules, and scans against pages in use.

use super::conformance::Frames;
use super::*;
use crate::id::{ArrayId, PageId};
use proptest::prelude::*;
use std::collections::HashMap;

/// A policy on vectors, the oldest first: the reference.
trait ModelPolicy {
    fn add(&mut self, f: u32, page: u64, now: u64);
    fn remove(&mut self, f: u32);
    fn victim(&mut self, probe: &mut Frames) -> Option<u32>;
    /// A prefetch has evicted this page.
    fn prefetched(&mut self, f: u32);
}

fn settling(probe: &Frames, count: usize) -> u64 {
    probe.settling.min((count / 32) as u64)
}

/// The record of one frame. `born`: 0 once its bit was inspected.
#[derive(Clone, Debug)]
struct One {
    f: u32,
    page: u64,
    born: u64,
    uses: u8,
}

fn again(one: &One, settling: u64, probe: &Frames) -> bool {
    probe.referenced(one.f) && probe.stamp(one.f) - one.born > settling
}

#[derive(Default)]
struct PlainSieve {
    queue: Vec<One>,
    hand: usize,
}

impl ModelPolicy for PlainSieve {
    fn add(&mut self, f: u32, page: u64, now: u64) {
        // The hand passes the last page: it is at the oldest then.
        if self.hand == self.queue.len() {
            self.hand = 0;
        }
        self.queue.push(One { f, page, born: now, uses: 0 });
    }
    fn remove(&mut self, f: u32) {
        let Some(at) = self.queue.iter().position(|o| o.f == f) else { return };
        self.queue.remove(at);
        self.hand -= usize::from(at < self.hand);
        if self.hand == self.queue.len() {
            self.hand = 0;
        }
    }
    fn victim(&mut self, probe: &mut Frames) -> Option<u32> {
        let count = self.queue.len();
        let settling = settling(probe, count);
        for turn in 0..3 {
            for _ in 0..count {
                let one = &mut self.queue[self.hand];
                if again(one, settling, probe) {
                    probe.forget(one.f);
                    one.born = 0;
                } else if (turn == 2 || probe.now - one.born >= settling) && probe.take(one.f) {
                    let f = one.f;
                    self.remove(f);
                    return Some(f);
                }
                self.hand = (self.hand + 1) % count;
            }
        }
        None
    }
    fn prefetched(&mut self, f: u32) {
        self.remove(f);
    }
}

#[derive(Default)]
struct PlainS3 {
    small: Vec<One>,
    main: Vec<One>,
    ghosts: Vec<u64>,
}

impl PlainS3 {
    fn gone(&mut self, count: usize, name: Option<u64>) {
        self.ghosts.extend(name);
        let most = count * 9 / 10;
        self.ghosts.drain(..self.ghosts.len().saturating_sub(most));
        assert!(self.ghosts.len() <= self.small.len() + self.main.len());
    }
}

impl ModelPolicy for PlainS3 {
    fn add(&mut self, f: u32, page: u64, now: u64) {
        let one = One { f, page, born: now, uses: 0 };
        let known = self.ghosts.contains(&page);
        self.ghosts.retain(|g| *g != page);
        if known { &mut self.main } else { &mut self.small }.push(one);
    }
    fn remove(&mut self, f: u32) {
        let count = self.small.len() + self.main.len();
        self.small.retain(|o| o.f != f);
        self.main.retain(|o| o.f != f);
        self.gone(count, None);
    }
    fn victim(&mut self, probe: &mut Frames) -> Option<u32> {
        let count = self.small.len() + self.main.len();
        let settling = settling(probe, count);
        let (mut small, mut main, mut pinned) = (self.small.len(), 5 * self.main.len(), 0);
        loop {
            let can_main = main > 0 && pinned < self.main.len();
            let can_small = small > 0;
            if can_small && (10 * self.small.len() >= count || !can_main) {
                small -= 1;
                let mut one = self.small.remove(0);
                if again(&one, settling, probe) {
                    probe.forget(one.f);
                    (one.uses, one.born) = (1, 0);
                    self.main.push(one);
                    main += 5;
                    pinned = 0;
                } else if probe.take(one.f) {
                    self.gone(count, Some(one.page));
                    return Some(one.f);
                } else {
                    self.small.push(one);
                }
            } else if can_main {
                main -= 1;
                let last = main < self.main.len();
                let mut one = self.main.remove(0);
                if !last && again(&one, settling, probe) {
                    probe.forget(one.f);
                    (one.uses, one.born) = (3.min(one.uses + 1), 0);
                    pinned = 0;
                } else if !last && one.uses > 0 {
                    one.uses -= 1;
                    pinned = 0;
                } else if probe.take(one.f) {
                    self.gone(count, None);
                    return Some(one.f);
                } else {
                    pinned += 1;
                }
                self.main.push(one);
            } else {
                return None;
            }
        }
    }
    fn prefetched(&mut self, f: u32) {
        let name = self.small.iter().find(|o| o.f == f).map(|o| o.page);
        let count = self.small.len() + self.main.len();
        self.small.retain(|o| o.f != f);
        self.main.retain(|o| o.f != f);
        self.gone(count, name);
    }
}

#[derive(Default)]
struct Plain2Q {
    arrived: Vec<One>,
    /// With the last known use of each. Pages found pinned count as used then.
    often: Vec<(u64, u32)>,
    out: Vec<u64>,
}

impl Plain2Q {
    fn count(&self) -> usize {
        self.arrived.len() + self.often.len()
    }
    fn gone(&mut self, count: usize, name: Option<u64>) {
        self.out.extend(name);
        self.out.drain(..self.out.len().saturating_sub(count / 2));
        assert!(self.out.len() <= self.count());
    }
    fn first(&mut self, keep: usize, looks: &mut usize, probe: &mut Frames) -> Option<u32> {
        while *looks > 0 && self.arrived.len() > keep {
            *looks -= 1;
            let count = self.count();
            let one = self.arrived.remove(0);
            if probe.take(one.f) {
                self.gone(count, Some(one.page));
                return Some(one.f);
            }
            self.arrived.push(one);
        }
        None
    }
}

impl ModelPolicy for Plain2Q {
    fn add(&mut self, f: u32, page: u64, now: u64) {
        if self.out.contains(&page) {
            self.out.retain(|o| *o != page);
            self.often.push((now, f));
        } else {
            self.arrived.push(One { f, page, born: now, uses: 0 });
        }
    }
    fn remove(&mut self, f: u32) {
        let count = self.count();
        self.arrived.retain(|o| o.f != f);
        self.often.retain(|o| o.1 != f);
        self.gone(count, None);
    }
    fn victim(&mut self, probe: &mut Frames) -> Option<u32> {
        let count = self.count();
        let mut looks = self.arrived.len();
        if let Some(f) = self.first(count / 4, &mut looks, probe) {
            return Some(f);
        }
        for one in &mut self.often {
            one.0 = one.0.max(probe.stamp(one.1));
        }
        self.often.sort_unstable();
        for at in 0..self.often.len() {
            let f = self.often[at].1;
            if probe.take(f) {
                self.often.remove(at);
                // Those before it were pinned.
                self.often[..at].iter_mut().for_each(|o| o.0 = probe.now);
                self.gone(count, None);
                return Some(f);
            }
        }
        self.often.iter_mut().for_each(|o| o.0 = probe.now);
        self.first(0, &mut looks, probe)
    }
    fn prefetched(&mut self, f: u32) {
        let name = self.arrived.iter().find(|o| o.f == f).map(|o| o.page);
        let count = self.count();
        self.arrived.retain(|o| o.f != f);
        self.often.retain(|o| o.1 != f);
        self.gone(count, name);
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// A page is needed: used if resident, else published in a frame, after an eviction if all are in use.
    Want(u64),
    Pin(u32),
    Release(u32),
    Remove(u32),
    Prefetch,
    Victim,
}

fn ops() -> impl Strategy<Value = (u32, u64, Vec<Op>)> {
    let op = prop_oneof![
        20 => (0u64..400).prop_map(Op::Want),
        10 => (0u64..40).prop_map(Op::Want),
        3 => (0u32..90).prop_map(Op::Pin),
        4 => (0u32..90).prop_map(Op::Release),
        1 => (0u32..90).prop_map(Op::Remove),
        1 => Just(Op::Prefetch),
        1 => Just(Op::Victim),
    ];
    (1u32..90, prop_oneof![Just(0u64), Just(1), Just(100)], proptest::collection::vec(op, 1..600))
}

/// Gives both the same calls, and compares their victims.
fn compare(
    kind: PolicyKind,
    plain: &mut dyn ModelPolicy,
    frames: u32,
    settling: u64,
    ops: &[Op],
) -> Result<(), TestCaseError> {
    let mut p = kind.build();
    let mut real = Frames { settling, ..Frames::default() };
    let mut model = real.clone();
    let mut holds: HashMap<u32, u64> = HashMap::new();
    for op in ops {
        let victim = match op {
            Op::Want(page) => {
                if let Some((&f, _)) = holds.iter().find(|(_, held)| *held == page) {
                    real.touch(f);
                    model.touch(f);
                    continue;
                }
                holds.len() == frames as usize
            }
            Op::Victim => true,
            Op::Prefetch => {
                if let Some(f) = p.victim(Need::Prefetch, &mut real) {
                    prop_assert!(!real.pinned.contains(&f));
                    model.present.remove(&f);
                    plain.prefetched(f);
                    holds.remove(&f);
                }
                false
            }
            Op::Pin(f) if holds.contains_key(f) => {
                for side in [&mut real, &mut model] {
                    side.pinned.insert(*f);
                    side.touch(*f);
                }
                false
            }
            Op::Release(f) => {
                for side in [&mut real, &mut model] {
                    if side.pinned.remove(f) {
                        side.touch(*f);
                    }
                }
                false
            }
            Op::Remove(f) if holds.contains_key(f) && !real.pinned.contains(f) => {
                real.drop_page(p.as_mut(), *f);
                model.present.remove(f);
                plain.remove(*f);
                holds.remove(f);
                false
            }
            _ => false,
        };
        if victim {
            let full = real.present.iter().all(|f| real.pinned.contains(f));
            let (a, b) = (p.victim(Need::Demand, &mut real), plain.victim(&mut model));
            prop_assert_eq!(a, b, "{:?} {:?}", kind, op);
            prop_assert_eq!(a.is_none(), full, "{:?}", kind);
            a.map(|f| holds.remove(&f));
        }
        if let Op::Want(page) = op {
            if let Some(f) = (0..frames).find(|f| !holds.contains_key(f)) {
                holds.insert(f, *page);
                real.add_page(p.as_mut(), f, *page);
                model.now += 1;
                model.present.insert(f);
                model.touch(f);
                plain.add(f, *page, model.now);
            }
        }
        prop_assert_eq!(&*real.referenced.borrow(), &*model.referenced.borrow());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("FARFIELD_CASES").ok().and_then(|c| c.parse().ok()).unwrap_or(300),
        rng_seed: proptest::test_runner::RngSeed::Fixed(2024), failure_persistence: None, max_shrink_iters: 20_000, ..ProptestConfig::default()
    })]
    #[test]
    fn queues_do_as_the_plainest_writing_of_them((frames, settling, ops) in ops()) {
        compare(PolicyKind::Sieve, &mut PlainSieve::default(), frames, settling, &ops)?;
        compare(PolicyKind::S3Fifo, &mut PlainS3::default(), frames, settling, &ops)?;
        compare(PolicyKind::TwoQueue, &mut Plain2Q::default(), frames, settling, &ops)?;
    }
}

/// A pool of this many frames, with one request after the other.
struct Cache {
    policy: Box<dyn Policy>,
    probe: Frames,
    frames: u32,
    pages: HashMap<u64, u32>,
}

impl Cache {
    fn new(kind: PolicyKind, frames: u32, settling: u64) -> Self {
        let probe = Frames { settling, ..Frames::default() };
        Self { policy: kind.build(), probe, frames, pages: HashMap::new() }
    }

    /// Whether the page was there.
    fn want(&mut self, page: u64) -> bool {
        if let Some(f) = self.pages.get(&page) {
            self.probe.touch(*f);
            return true;
        }
        let frame = if self.pages.len() < self.frames as usize {
            self.pages.len() as u32
        } else {
            let f = self.policy.victim(Need::Demand, &mut self.probe).unwrap();
            self.pages.retain(|_, held| *held != f);
            f
        };
        self.pages.insert(page, frame);
        self.probe.add_page(self.policy.as_mut(), frame, page);
        false
    }
}

/// Twenty pages are used repeatedly among others that are used once. Then two thousand others are used once.
#[test]
fn a_scan_leaves_what_is_used_again() {
    // In the order of `ALL`: a policy without a number would be left out.
    let stays = [0, 0, 20, 20, 20];
    assert_eq!(stays.len(), PolicyKind::ALL.len());
    for settling in [0, 64] {
        for (&kind, stay) in PolicyKind::ALL.iter().zip(stays) {
            let mut c = Cache::new(kind, 100, settling);
            let mut once = 1000..;
            for _ in 0..60 {
                for hot in 0..20 {
                    c.want(hot);
                    once.by_ref().take(2).for_each(|page| {
                        c.want(page);
                    });
                }
            }
            once.by_ref().take(2000).for_each(|page| {
                c.want(page);
            });
            let left = (0..20).filter(|hot| c.pages.contains_key(hot)).count();
            assert_eq!(left, stay, "{} with a settling time of {settling}", kind.name());
        }
    }
}

#[test]
fn kinds_have_names_of_their_own() {
    for &kind in PolicyKind::ALL {
        assert_eq!(PolicyKind::named(kind.name()), Some(kind));
    }
    assert_eq!(PolicyKind::named("random"), None);
    let page = PageId::new(ArrayId(0), 0, 0);
    for mut p in PolicyKind::ALL.iter().map(|kind| kind.build()) {
        // A page inserted twice in one frame is present once.
        let mut f = Frames::default();
        f.add(p.as_mut(), 0);
        p.inserted(0, page, f.now);
        assert_eq!([(); 2].map(|()| p.victim(Need::Demand, &mut f)), [Some(0), None], "{}", p.name());
    }
}
