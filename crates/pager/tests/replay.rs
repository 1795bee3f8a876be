//! A run's own log, replayed under its own policy and limit, gives the same faults and evictions.

mod common;
use common::*;
use pager::policy::PolicyKind;
use pager::replay::{Choice, Mirror, ReplayCounts, Stack, Survey};
use pager::source::simulated::Simulation;
use pager::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps all events.
#[derive(Default)]
struct RecordedEvents(Mutex<Vec<Event>>);

impl Observer for RecordedEvents {
    fn event(&self, _: u64, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

fn arrays() -> Vec<MapArray> {
    let spec = |kind, pages, bytes| MapArray { kind, ..plain(pages, bytes) };
    vec![plain(300, 4096), spec(MapKind::Coded, 200, 12_000), spec(MapKind::Indexed, 200, 3000)]
}

fn plain(pages: u64, bytes: usize) -> MapArray {
    MapArray { kind: MapKind::Plain(1), steps: 1, pages, bytes, holes: 0 }
}

/// One thread makes this many steps, each over nearby pages, some often, and releases pins now and then. It also
/// prefetches, hints and gives back.
fn run(o: &OpenedPager, seed: u64, steps: usize, workers: usize) {
    std::thread::scope(|s| {
        for w in 0..workers {
            s.spawn(move || one(o, seed + w as u64, steps));
        }
    });
}

fn one(o: &OpenedPager, seed: u64, steps: usize) {
    let mut rng = Rng(seed);
    let (bell, wake) = Bell::new(&o.pager);
    let mut worker = o.pager.worker();
    let mut rang = 0;
    for step in 0..steps {
        worker.begin_step();
        let array = o.arrays[rng.below(3) as usize];
        let count = o.pager.map(array).pages();
        let base = if rng.below(3) == 0 { rng.below(12) } else { rng.below(count) };
        let pages: Vec<PageId> = (0..1 + rng.below(5)).map(|n| PageId::new(array, 0, (base + n * n) % count)).collect();
        // Several, so that some find no room.
        let ahead: Vec<PageId> = (40..60).map(|n| PageId::new(array, 0, (base + n) % count)).collect();
        let (mut restarts, mut elder) = (0, None);
        loop {
            let missing: Vec<PageId> =
                pages.iter().copied().filter(|p| matches!(worker.page(*p), Lookup::Absent)).collect();
            if missing.is_empty() {
                break;
            }
            worker.release();
            restarts += 1;
            if restarts == 3 {
                elder = Some(o.pager.hold(&pages));
            }
            if o.pager.request(&missing, step as u64, &wake, Priority::Demand) == Requested::Pending {
                rang += 1;
                drive(&o.pager, || bell.rang() >= rang);
            }
        }
        for page in &pages {
            // A lookup may miss a page that another thread's eviction moves in the table, though it is pinned.
            let found = (0..1000).find_map(|_| match worker.page(*page) {
                Lookup::Here(bytes) => Some(bytes),
                _ => {
                    std::thread::yield_now();
                    None
                }
            });
            let bytes = found.expect("pinned a moment ago");
            o.verify(*page, bytes);
        }
        drop(elder);
        match rng.below(40) {
            0 if o.pager.request(&ahead, 0, &wake, Priority::Prefetch) == Requested::Pending => {
                rang += 1;
                drive(&o.pager, || bell.rang() >= rang);
            }
            1 => o.pager.hint_evict(&pages, Reuse::Never),
            2 => o.pager.hint_evict(&pages, Reuse::Last),
            3 => o.pager.drop_stale_hints(),
            4 => drop(o.pager.give_back_segments(&[array], 0..1)),
            10 => drop(o.pager.give_back_pages(&pages)),
            5 => o.pager.keep_used_since(o.pager.now().saturating_sub(20)),
            6..10 => worker.release(),
            _ => {}
        }
    }
}

fn mirrored(events: &[Event], policy: PolicyKind, readers: usize) -> ReplayCounts {
    let mut mirror = Mirror::new(policy, readers);
    events.iter().for_each(|e| mirror.event(e));
    mirror.counts()
}

#[test]
fn its_own_policy_and_limit_come_to_the_same_faults_and_evictions() {
    let written = write(61, &arrays());
    for &policy in PolicyKind::ALL {
        for (limit, seed) in [(256 << 10, 1), (512 << 10, 2), (1 << 20, 3), (16 << 20, 4)] {
            let kept = Arc::new(RecordedEvents::default());
            let config =
                PagerConfig { limit, policy, readers: 4, observer: Some(kept.clone()), ..PagerConfig::default() };
            let latency =
                Simulation { latency: Duration::ZERO..Duration::from_micros(50), seed, ..Simulation::default() };
            let o = written.simulated(config, latency);
            run(&o, seed, 2500, 1);
            let c = o.pager.counters();
            let counts = mirrored(&kept.0.lock().unwrap(), policy, 4);
            let what = format!("{policy:?}, {limit} bytes, seed {seed}: {c:?}");
            assert_eq!((counts.faults, counts.evictions), (c.faults, c.evictions), "{what}");
            assert!(limit > 1 << 20 || c.evictions > 500, "{what}");
        }
    }
}

#[test]
fn several_workers_come_near() {
    let written = write(67, &arrays());
    for policy in [PolicyKind::Clock, PolicyKind::Lru] {
        let kept = Arc::new(RecordedEvents::default());
        let config = PagerConfig {
            limit: 768 << 10,
            policy,
            readers: 8,
            observer: Some(kept.clone()),
            ..PagerConfig::default()
        };
        let o = written.simulated(config, Simulation::fixed(Duration::from_micros(20), 4));
        run(&o, 9, 3000, 3);
        let c = o.pager.counters();
        let counts = mirrored(&kept.0.lock().unwrap(), policy, 8);
        let near = |a: u64, b: u64| (a as f64 / b as f64 - 1.0).abs() < 0.02;
        assert!(near(counts.faults, c.faults) && near(counts.evictions, c.evictions), "{policy:?} {counts:?} {c:?}");
    }
}

#[test]
fn no_policy_beats_the_optimum_and_all_agree_where_there_is_room() {
    let written = write(71, &[plain(400, 4096), plain(10, 4096), plain(100, 4096)]);
    let kept = Arc::new(RecordedEvents::default());
    let config = PagerConfig { limit: 32 << 20, observer: Some(kept.clone()), ..PagerConfig::default() };
    let o = written.simulated(config, Simulation::default());
    run(&o, 5, 4000, 1);
    let events = kept.0.lock().unwrap();
    let mut survey = Survey::new(1);
    events.iter().for_each(|e| survey.event(e));
    survey.end();
    assert_eq!((survey.faults, survey.evictions), (o.pager.counters().faults, 0));
    let replay = |choice, room| {
        let mut stack = Stack::new(choice, room, &survey).unwrap();
        events.iter().for_each(|e| stack.event(e, &survey));
        stack.counts()
    };
    for share in [1, 2, 4, 16] {
        let room = survey.touched_bytes / share;
        let best = replay(Choice::Optimal, room);
        for (&kind, choice) in PolicyKind::ALL.iter().flat_map(|k| [(k, Choice::Policy(*k)), (k, Choice::Waiting(*k))])
        {
            let counts = replay(choice, room);
            assert!(counts.faults >= best.faults && counts.uses == best.uses, "{kind:?} at 1/{share}");
            // Pages that the run itself gave back are dropped at any size.
            if share == 1 && choice == Choice::Policy(kind) {
                assert_eq!((counts.faults, counts.again, counts.evictions), (survey.touched(), 0, 0));
            }
        }
    }
}

#[test]
fn the_optimum_is_belady_s() {
    // Three frames, and the string of Belady's paper: 7 misses, and first in, first out has 9.
    let page = |n: u64| PageId::new(ArrayId(0), 0, n);
    let sized =
        Event::Reserve { page: page(0), priority: Priority::Demand, bytes: 10, frames: 10, cached: 0, used: 10 };
    let uses = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5].map(|n| Event::Use { page: page(n) });
    let mut survey = Survey::new(1);
    survey.event(&sized);
    uses.iter().for_each(|e| survey.event(e));
    survey.end();
    let mut stack = Stack::new(Choice::Optimal, 30, &survey).unwrap();
    uses.iter().for_each(|e| stack.event(e, &survey));
    assert_eq!((stack.counts().faults, stack.counts().again), (7, 2));
}

/// A task requests one page, others are used, and then it uses the requested one.
#[test]
fn what_a_parked_task_waits_for_is_there_when_it_goes_on() {
    let page = |n: u64| PageId::new(ArrayId(0), 0, n);
    let priority = Priority::Demand;
    let sized = Event::Reserve { page: page(0), priority, bytes: 10, frames: 10, cached: 0, used: 10 };
    let want = |n| Event::Want { page: page(n), token: 1, priority };
    let pin = |n| Event::Pin { page: page(n), worker: 0, group: 0, fresh: true };
    let misses = |choice, events: &[Event]| {
        let mut survey = Survey::new(1);
        survey.event(&sized);
        events.iter().for_each(|e| survey.event(e));
        survey.end();
        let mut stack = Stack::new(choice, 30, &survey).unwrap();
        events.iter().for_each(|e| stack.event(e, &survey));
        stack.counts().faults
    };
    let one: Vec<Event> = [want(1)].into_iter().chain((2..9).map(pin)).chain([pin(1)]).collect();
    for &kind in PolicyKind::ALL {
        assert_eq!(misses(Choice::Waiting(kind), &one), 8, "{kind:?}");
    }
    let (aware, waiting) = (Choice::Aware(PolicyKind::Lru), Choice::Waiting(PolicyKind::Lru));
    assert_eq!(misses(aware, &one), 9);
    // More pages are awaited than fit: one is evicted, and the two others are resident at their use.
    let many: Vec<Event> = (1..9).map(want).chain((1..9).map(pin)).collect();
    assert_eq!((misses(aware, &many), misses(waiting, &many)), (16, 14));
    // A task that never comes does not keep its page for ever.
    let never: Vec<Event> = [want(1)].into_iter().chain((0..300).map(|n| pin(2 + n % 3))).collect();
    assert!(misses(waiting, &never) < 60);
}

#[test]
fn coarser_pages_are_larger_and_fewer() {
    let mut survey = Survey::new(2);
    let (pages_i, pages_j, pages_k) = (5, 3, 2);
    let name = "zone1/xyz".into();
    survey.event(&Event::Array { array: ArrayId(0), pages: 30, pages_i, pages_j, pages_k, derived: false, name });
    let page = |n: u64| PageId::new(ArrayId(0), 0, n);
    let (priority, bytes) = (Priority::Demand, 100);
    survey.event(&Event::Reserve { page: page(0), priority, bytes, frames: 100, cached: 0, used: 100 });
    (0..30).for_each(|n| survey.event(&Event::Use { page: page(n) }));
    survey.end();
    // 3 x 2 x 1 boxes that hold all thirty pages together.
    assert_eq!((survey.touched(), survey.touched_bytes), (6, 3000));
}
