//! The pager's promises, one at a time.

mod common;
use common::*;
use pager::source::simulated::{Simulated, Simulation};
use pager::*;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn a_page_asked_for_by_many_is_read_once() {
    let written = write(3, &[plain(40, 4096), MapArray { kind: MapKind::Indexed, ..plain(40, 3000) }]);
    let o = written.simulated(config(8 << 20), Simulation::fixed(Duration::from_millis(2), 4));
    let all: Vec<PageId> = o.arrays.iter().flat_map(|a| (0..40).map(|p| PageId::new(*a, 0, p))).collect();
    std::thread::scope(|s| {
        for t in 0..4 {
            let (o, all) = (&o, &all);
            s.spawn(move || {
                let mut pages = all.clone();
                pages.rotate_left(t * 17);
                let _hold = o.pager.fetch(&pages).unwrap();
                check(o, &o.pager.worker(), &pages);
            });
        }
        // And a thousand tasks on this thread.
        let (bell, wake) = Bell::new(&o.pager);
        let mut pending = 0;
        for token in 0..1000 {
            let page = all[token as usize % all.len()];
            pending += usize::from(o.pager.request(&[page], token, &wake, Priority::Demand) == Requested::Pending);
        }
        drive(&o.pager, || bell.rang() == pending);
    });
    let c = o.pager.counters();
    let decoded: u64 = o.maps.iter().map(|m| m.decoded.load(SeqCst)).sum();
    assert_eq!((decoded, c.published, c.evictions), (80, 83, 0), "80 pages and 3 index pages: {c:?}");
    assert_eq!((c.faults, c.index_faults, c.touched, c.total), (83, 3, 83, 83));
    assert_eq!(c.bytes_read, 40 * 4096 + 40 * 3004 + 3 * 128);
}

#[test]
fn neighbours_are_read_together() {
    let mut written = write(5, &[plain(64, 4096)]);
    // All in order: pages requested together are adjacent.
    written = WrittenArrays::in_order(written);
    let o = in_memory(&written, config(8 << 20));
    let _hold = o.pager.fetch(&ids(&o, 0..64)).unwrap();
    let c = o.pager.counters();
    assert_eq!(c.segments, 64);
    assert!(c.reads <= 2, "{} reads for 64 neighbours", c.reads);
    // Requested in any order.
    let o = in_memory(&written, config(8 << 20));
    let mut pages = ids(&o, 0..32);
    pages.reverse();
    let _hold = o.pager.fetch(&pages).unwrap();
    assert_eq!(o.pager.counters().reads, 1);
}

#[test]
fn reads_in_flight_are_bounded() {
    struct CountingSource(Simulated, std::sync::atomic::AtomicUsize, Arc<std::sync::atomic::AtomicUsize>);
    struct Count(Arc<dyn source::Completion>, Arc<std::sync::atomic::AtomicUsize>);
    impl source::Completion for Count {
        fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
            self.1.fetch_sub(1, SeqCst);
            self.0.complete(token, result);
        }
    }
    impl source::Source for CountingSource {
        fn describe(&self) -> String {
            "counting".into()
        }
        fn size(&self) -> Result<u64, PageErrorKind> {
            self.0.size()
        }
        fn submit(&self, batch: Vec<source::Read>, done: &Arc<dyn source::Completion>) {
            let n = self.2.fetch_add(batch.len(), SeqCst) + batch.len();
            self.1.fetch_max(n, SeqCst);
            let done: Arc<dyn source::Completion> = Arc::new(Count(done.clone(), self.2.clone()));
            self.0.submit(batch, &done);
        }
    }
    let written = write(5, &[plain(400, 4096)]);
    let kept = std::sync::Mutex::new(None);
    let o = written.open(PagerConfig { readers: 6, ..config(8 << 20) }, |b| {
        let simulation = Simulation::fixed(Duration::from_micros(300), 0);
        let s =
            Arc::new(CountingSource(Simulated::new(b, simulation).unwrap(), Default::default(), Default::default()));
        *kept.lock().unwrap() = Some(s.clone());
        s
    });
    let scattered: Vec<PageId> = ids(&o, 0..400).into_iter().step_by(3).collect();
    let _hold = o.pager.fetch(&scattered).unwrap();
    let most = kept.lock().unwrap().as_ref().unwrap().1.load(SeqCst);
    assert_eq!(most, 6, "as many as allowed, and no more");
}

#[test]
fn pinned_pages_stay() {
    let written = write(11, &[plain(300, 4096), MapArray { kind: MapKind::Coded, ..plain(300, 9000) }]);
    for &policy in PolicyKind::ALL {
        let o = in_memory(&written, PagerConfig { policy, ..config(1 << 20) });
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            for t in 0..3u64 {
                let (o, stop) = (&o, &stop);
                s.spawn(move || {
                    let mut rng = Rng(t);
                    let mut worker = o.pager.worker();
                    let (bell, wake) = Bell::new(&o.pager);
                    let mut rung = 0;
                    while !stop.load(SeqCst) {
                        let pages: Vec<PageId> = (0..8).map(|_| o.random_page(&mut rng)).collect();
                        if o.pager.request(&pages, 0, &wake, Priority::Demand) == Requested::Pending {
                            rung += 1;
                            drive(&o.pager, || bell.rang() == rung);
                        }
                        {
                            let here: Vec<_> = pages
                                .iter()
                                .filter_map(|&id| match worker.page(id) {
                                    Lookup::Here(b) => Some((id, b)),
                                    _ => None,
                                })
                                .collect();
                            // Looked up twice, with evictions by the others in between.
                            for _ in 0..2 {
                                here.iter().for_each(|(id, b)| o.verify(*id, b));
                                while o.pager.work() {}
                            }
                        }
                        worker.release();
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(700));
            stop.store(true, SeqCst);
        });
        let c = o.pager.counters();
        assert!(c.evictions > 1000, "{c:?}");
        assert!(c.peak_bytes <= 1 << 20 && o.pager.ledger().overdraft() == 0, "{c:?}");
        assert!(c.hits > 1000, "{c:?}");
    }
}

#[test]
fn held_pages_stay_and_published_ones_are_held() {
    let written = write(13, &[plain(400, 4096)]);
    let o = in_memory(&written, config(512 << 10));
    let held = ids(&o, 0..20);
    let hold = o.pager.hold(&held);
    drop(o.pager.fetch(&ids(&o, 0..10)).unwrap());
    for p in 20..400 {
        drop(o.pager.fetch(&ids(&o, p..p + 1)).unwrap());
        if p == 200 {
            drop(o.pager.fetch(&ids(&o, 10..20)).unwrap());
        }
    }
    assert!(held.iter().all(|p| o.pager.is_resident(*p)));
    assert!(o.pager.counters().evictions > 200);
    drop(hold);
    for p in 100..400 {
        drop(o.pager.fetch(&ids(&o, p..p + 1)).unwrap());
    }
    assert!(!held.iter().any(|p| o.pager.is_resident(*p)));
}

#[test]
fn full_is_an_error_and_not_a_wait_for_ever() {
    let written = write(17, &[plain(400, 4096)]);
    let o = in_memory(&written, config(512 << 10));
    let begin = Instant::now();
    let error = o.pager.fetch(&ids(&o, 0..300)).map(|_| ()).unwrap_err();
    assert!(matches!(error, PagerError::Full(Full { needs: 4096, .. })), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(20));
    drop(o.pager.fetch(&ids(&o, 300..350)).unwrap());
    // A charge that does not fit is refused at once, and one that fits makes room.
    let all = o.pager.fetch(&ids(&o, 0..50)).unwrap();
    assert!(o.pager.charge(ChargeKind::Results, 480 << 10).is_err());
    let charge = o.pager.charge(ChargeKind::Results, 150 << 10).unwrap();
    assert!(ids(&o, 0..50).iter().all(|p| o.pager.is_resident(*p)));
    drop((all, charge));
    assert_eq!(o.pager.ledger().of(ChargeKind::Results), 0);
}

#[test]
fn pins_are_given_up_under_pressure() {
    let written = write(19, &[plain(400, 4096)]);
    let o = in_memory(&written, config(512 << 10));
    let mut worker = o.pager.worker();
    let mut pinned = 0;
    for p in ids(&o, 0..400) {
        let (bell, wake) = Bell::new(&o.pager);
        worker.begin_step();
        while matches!(worker.page(p), Lookup::Absent) {
            // Not released before the wait: begin_step has to see the waiting demand.
            if o.pager.request(&[p], 0, &wake, Priority::Demand) == Requested::Pending {
                let end = Instant::now() + Duration::from_secs(10);
                while bell.rang() == 0 {
                    assert!(Instant::now() < end);
                    if !o.pager.work() {
                        worker.begin_step();
                    }
                }
            }
        }
        pinned = pinned.max(worker.pinned_bytes());
    }
    assert!(pinned > 100 << 10, "{pinned}");
    assert_eq!(o.pager.stalled(), None);
}

#[test]
fn failures_are_reported_with_their_reason() {
    let specs = [MapArray { kind: MapKind::Coded, ..plain(30, 5000) }, plain(30, 4096)];
    let written = WrittenArrays::in_order(write(23, &specs));
    let at = |o: &OpenedPager, a: usize, p: usize| o.maps[a].places[p].unwrap();
    let probe = in_memory(&written, config(4 << 20));
    let simulation = Simulation {
        flipped: vec![at(&probe, 0, 3) + 77],
        broken: std::iter::once(at(&probe, 0, 5)..at(&probe, 0, 5) + 1).collect(),
        truncated: Some(at(&probe, 1, 28) + 10),
        transient_errors: 0.1,
        ..Simulation::default()
    };
    let o = written.simulated(config(4 << 20), simulation);
    let page = |a: usize, p: u64| PageId::new(o.arrays[a], 0, p);
    let kind = |id: PageId| match o.pager.fetch(&[id]) {
        Err(PagerError::Page(e)) => {
            assert!(e.what.contains("array"), "{e}");
            e.kind
        }
        other => panic!("{:?}", other.map(|_| ())),
    };
    // All together first, so that reads are joined and failures have to be attributed.
    let all: Vec<PageId> = (0..2).flat_map(|a| (0..30).map(move |p| (a, p))).map(|(a, p)| page(a, p)).collect();
    assert!(o.pager.fetch(&all).is_err());
    assert!(matches!(kind(page(0, 3)), PageErrorKind::Checksum { .. }));
    assert!(matches!(kind(page(0, 5)), PageErrorKind::Io(_)));
    assert!(matches!(kind(page(1, 28)), PageErrorKind::Short { .. }));
    assert!(matches!(kind(page(1, 29)), PageErrorKind::Short { .. }));
    assert!(matches!(kind(page(1, 30)), PageErrorKind::Decode(_)), "there is no such page");
    let worker = o.pager.worker();
    assert!(matches!(worker.page(page(0, 5)), Lookup::Failed(_)));
    let bad = [page(0, 3), page(0, 5), page(1, 28), page(1, 29)];
    let good: Vec<PageId> = all.into_iter().filter(|p| !bad.contains(p)).collect();
    let _hold = o.pager.fetch(&good).unwrap();
    check(&o, &worker, &good);
    let c = o.pager.counters();
    assert_eq!(c.failed, 5);
    assert!(c.retries > 0);
    o.pager.forget_failures();
    assert!(matches!(worker.page(page(0, 5)), Lookup::Absent));
    assert!(matches!(kind(page(0, 5)), PageErrorKind::Io(_)));
}

#[test]
fn a_page_too_large_says_what_it_needs() {
    let written = write(29, &[plain(2, 600 << 10)]);
    let o = in_memory(&written, config(512 << 10));
    match o.pager.fetch(&ids(&o, 0..1)).map(|_| ()) {
        Err(PagerError::Page(PageError { kind: PageErrorKind::TooLarge { needs, limit }, .. })) => {
            assert!(needs >= 600 << 10 && limit <= 512 << 10);
        }
        other => panic!("{other:?}"),
    }
    o.pager.set_limit(2 << 20);
    drop(o.pager.fetch(&ids(&o, 0..2)).unwrap());
    assert!(matches!(
        Pager::new(config(1000)).map(|_| ()),
        Err(PagerError::LimitTooSmall { limit: 1000, needs: SMALLEST_LIMIT })
    ));
}

#[test]
fn the_limit_can_be_lowered_and_raised() {
    let written = write(31, &[plain(900, 4096)]);
    let o = in_memory(&written, config(8 << 20));
    drop(o.pager.fetch(&ids(&o, 0..900)).unwrap());
    assert!(o.pager.ledger().used() > 3 << 20);
    let mut worker = o.pager.worker();
    let mine = ids(&o, 0..200);
    check(&o, &worker, &mine);
    o.pager.set_limit(1 << 20);
    // Pinned pages exceed any limit until they are released.
    check(&o, &worker, &mine);
    let pinned = o.pager.ledger().used();
    worker.begin_step();
    assert!(worker.pinned_bytes() == 0);
    assert!(o.pager.ledger().used() <= 1 << 20, "{} {pinned}", o.pager.ledger().used());
    drop(o.pager.fetch(&ids(&o, 0..100)).unwrap());
    assert!(o.pager.ledger().used() <= 1 << 20);
    o.pager.set_limit(8 << 20);
    let _hold = o.pager.fetch(&ids(&o, 0..900)).unwrap();
    assert!(o.pager.ledger().used() > 3 << 20);
}

/// With huge pages, a lower limit takes all of their memory back, also the parts without slots.
#[test]
fn a_lowered_limit_takes_huge_pages_back() {
    const HIGH: u64 = 128 << 20;
    const LOW: u64 = 12 << 20;
    // Eight slots to a huge page, and 160 KiB behind them.
    let written = write(33, &[plain(380, 240_000), MapArray { kind: MapKind::Coded, ..plain(60, 200_000) }]);
    let o = in_memory(&written, config(HIGH));
    let coded: Vec<PageId> = (0..60).map(|p| PageId::new(o.arrays[1], 0, p)).collect();
    let tables = || o.pager.ledger().of(ChargeKind::Tables);
    let first = tables();
    for round in 0..4 {
        drop(o.pager.fetch(&ids(&o, 0..380)).unwrap());
        drop(o.pager.fetch(&coded).unwrap());
        assert!(o.pager.ledger().used() > HIGH * 3 / 4, "{}", o.pager.ledger().used());
        o.pager.set_limit(LOW);
        assert!(o.pager.ledger().used() <= LOW, "round {round}: {}", o.pager.ledger().used());
        let mut worker = o.pager.worker();
        for some in [&coded[..10], &ids(&o, 100..110)] {
            let _hold = o.pager.fetch(some).unwrap();
            check(&o, &worker, some);
            worker.begin_step();
        }
        drop(worker);
        assert!(tables() < first, "round {round}: a share of the limit is kept for tables: {} of {first}", tables());
        o.pager.set_limit(HIGH);
        assert!(tables() - first < 1 << 20, "round {round}: {} bytes of tables, {first} at first", tables());
    }
    assert_eq!(o.pager.ledger().overdraft(), 0);
}

#[test]
fn cancelled_requests_are_woken_and_can_be_made_again() {
    let written = write(37, &[plain(300, 4096), MapArray { kind: MapKind::Indexed, ..plain(300, 4096) }]);
    let simulation = Simulation::fixed(Duration::from_millis(20), 2);
    let o = written.simulated(PagerConfig { readers: 2, ..config(8 << 20) }, simulation);
    let (bell, wake) = Bell::new(&o.pager);
    let mut pending = 0;
    let all: Vec<PageId> = o.arrays.iter().flat_map(|a| (0..300).map(|p| PageId::new(*a, 0, p))).collect();
    for (token, page) in all.iter().enumerate().step_by(5) {
        pending += usize::from(o.pager.request(&[*page], token as u64, &wake, Priority::Demand) == Requested::Pending);
    }
    // A page with another waiter is still read: here one of two, with the needed index pages.
    let (other, others) = Bell::new(&o.pager);
    let shared: Vec<PageId> = all.iter().copied().step_by(10).collect();
    assert_eq!(o.pager.request(&shared, 0, &others, Priority::Demand), Requested::Pending);
    let begin = Instant::now();
    o.pager.cancel(&wake);
    assert!(bell.rang() >= pending / 2 - 10 && bell.rang() <= pending / 2 + 10, "{} of {pending}", bell.rang());
    assert_eq!(other.rang(), 0);
    drive(&o.pager, || other.rang() == 1 && bell.rang() == pending);
    assert!(shared.iter().all(|p| o.pager.is_resident(*p)));
    assert!(begin.elapsed() > Duration::from_millis(20 * 60 / 2), "sixty reads, two at a time");
    // And a page without one is not.
    assert!(all.iter().skip(5).step_by(10).filter(|p| o.pager.is_resident(**p)).count() <= 10);
    let again: Vec<PageId> = all.iter().skip(5).copied().step_by(10).collect();
    assert_eq!(o.pager.request(&again, 0, &wake, Priority::Demand), Requested::Pending);
    let begin = Instant::now();
    o.pager.cancel(&wake);
    drive(&o.pager, || bell.rang() == pending + 1);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    let _hold = o.pager.fetch(&all[290..310]).unwrap();
    check(&o, &o.pager.worker(), &all[290..310]);
    assert_eq!(o.pager.counters().failed, 0);
}

#[test]
fn prefetch_comes_after_demand_and_takes_nothing_in_use() {
    let written = write(41, &[plain(400, 4096)]);
    let o = in_memory(&written, config(512 << 10));
    let (bell, wake) = Bell::new(&o.pager);
    assert_eq!(o.pager.request(&ids(&o, 0..10), 1, &wake, Priority::Prefetch), Requested::Pending);
    drive(&o.pager, || bell.rang() == 1);
    let mut worker = o.pager.worker();
    check(&o, &worker, &ids(&o, 0..4));
    let c = o.pager.counters();
    assert_eq!((c.prefetched, c.prefetched_used, c.touched, c.faults), (10, 4, 4, 0));
    // Fill the memory with pages in use; prefetches then find nothing.
    let hold = o.pager.fetch(&ids(&o, 20..90)).unwrap();
    worker.release();
    assert_eq!(o.pager.request(&ids(&o, 100..400), 2, &wake, Priority::Prefetch), Requested::Pending);
    drive(&o.pager, || bell.rang() == 2);
    let c = o.pager.counters();
    assert!(c.prefetch_dropped > 200, "{c:?}");
    assert!(ids(&o, 20..90).iter().all(|p| o.pager.is_resident(*p)));
    drop(hold);
}

#[test]
fn segments_that_are_over_are_given_back() {
    let written = write(42, &[MapArray { steps: 3, ..plain(40, 4096) }, plain(40, 4096)]);
    let o = in_memory(&written, config(4 << 20));
    let page = |array: usize, step: u32, page: u64| PageId::new(o.arrays[array], step, page);
    let all: Vec<PageId> = (0..40).flat_map(|n| [page(0, 0, n), page(0, 1, n), page(0, 2, n), page(1, 0, n)]).collect();
    drop(o.pager.fetch(&all).unwrap());
    let held = o.pager.fetch(&[page(0, 0, 3)]).unwrap();
    let mut worker = o.pager.worker();
    check(&o, &worker, &[page(0, 1, 5)]);
    let (used, evicted) = (o.pager.counters().used_bytes, o.pager.counters().evictions);
    assert_eq!(o.pager.give_back_segments(&[o.arrays[0]], 0..2), 78);
    let here = |id| o.pager.is_resident(id);
    assert!((0..40).all(|n| here(page(0, 2, n)) && here(page(1, 0, n))), "of other steps and arrays");
    assert!(here(page(0, 0, 3)) && here(page(0, 1, 5)), "in use");
    assert_eq!((0..40).filter(|n| here(page(0, 0, *n)) || here(page(0, 1, *n))).count(), 2);
    let c = o.pager.counters();
    assert_eq!((c.given_back, c.evictions), (78, evicted));
    // Pages given back make room for others at once.
    assert!(c.used_bytes <= used);
    check(&o, &worker, &[page(0, 1, 5)]);
    worker.release();
    drop(held);
    assert_eq!(o.pager.give_back_segments(&[o.arrays[0]], 0..2), 2);
    drop(o.pager.fetch(&all).unwrap());
    check(&o, &worker, &all);
    worker.release();
    // Single pages: one is held and one is absent.
    let held = o.pager.fetch(&[page(0, 0, 3)]).unwrap();
    let some = [page(0, 0, 2), page(0, 0, 3), page(0, 2, 4), page(0, 0, 2), page(1, 1, 0)];
    assert_eq!(o.pager.give_back_pages(&some), 2);
    assert!(!here(page(0, 0, 2)) && here(page(0, 0, 3)) && !here(page(0, 2, 4)) && here(page(1, 0, 0)));
    drop(held);
    drop(o.pager.fetch(&all).unwrap());
    check(&o, &worker, &all);
}

#[test]
fn pages_that_were_offered_go_first_in_their_order_unless_they_are_used() {
    for &policy in PolicyKind::ALL {
        let written = write(45, &[plain(400, 4096)]);
        let o = in_memory(&written, PagerConfig { policy, ..config(512 << 10) });
        drop(o.pager.fetch(&ids(&o, 0..60)).unwrap());
        let mut worker = o.pager.worker();
        let page = |n: u64| ids(&o, n..n + 1)[0];
        // One is pinned when it is hinted, and one is used again afterwards.
        check(&o, &worker, &[page(12)]);
        o.pager.hint_evict(&ids(&o, 30..39), Reuse::Last);
        o.pager.hint_evict(&ids(&o, 10..14), Reuse::Never);
        worker.release();
        check(&o, &worker, &[page(31)]);
        worker.release();
        let here = |n: u64| o.pager.is_resident(page(n));
        let mut gone: Vec<u64> = Vec::new();
        let mut next = 100;
        while gone.len() < 12 {
            drop(o.pager.fetch(&[page(next)]).unwrap());
            next += 1;
            gone.extend((0..60).filter(|n| !here(*n) && !gone.contains(n)).collect::<Vec<_>>());
        }
        assert_eq!(gone[..4], [10, 11, 12, 13], "{policy:?}: those never wanted first, whoever had them pinned");
        assert_eq!(
            gone[4..12],
            [30, 32, 33, 34, 35, 36, 37, 38],
            "{policy:?}: then those wanted last, but the one in use"
        );
        o.pager.hint_evict(&ids(&o, 40..44), Reuse::Last);
        check(&o, &worker, &ids(&o, 40..43));
        worker.release();
        o.pager.drop_stale_hints();
        drop(o.pager.fetch(&[page(next)]).unwrap());
        assert_eq!((40..44).map(here).collect::<Vec<_>>(), [true, true, true, false], "{policy:?}: not used since");
    }
}

#[test]
fn prefetches_leave_what_was_used_lately() {
    // Least recently used gives a prefetch only pages unused for a whole pool of publications.
    for policy in PolicyKind::ALL.iter().copied().filter(|kind| *kind != PolicyKind::Lru) {
        let written = write(44, &[plain(400, 4096)]);
        let o = in_memory(&written, PagerConfig { policy, ..config(512 << 10) });
        let (bell, wake) = Bell::new(&o.pager);
        // More than fits, so that the clock has passed over all of them and noted no use since. Half of them are older
        // than half the pool.
        for from in (0..200).step_by(10) {
            drop(o.pager.fetch(&ids(&o, from..from + 10)).unwrap());
        }
        let here = |from: u64| ids(&o, from..200).into_iter().filter(|p| o.pager.is_resident(*p)).count();
        let before = here(0);
        o.pager.keep_used_since(0);
        assert_eq!(o.pager.request(&ids(&o, 300..400), 1, &wake, Priority::Prefetch), Requested::Pending);
        drive(&o.pager, || bell.rang() == 1);
        let c = o.pager.counters();
        assert!(here(0) == before && c.prefetch_dropped > 50, "{policy:?} {before} {c:?}");
        o.pager.keep_used_since(u64::MAX);
        assert_eq!(o.pager.request(&ids(&o, 300..400), 2, &wake, Priority::Prefetch), Requested::Pending);
        drive(&o.pager, || bell.rang() == 2);
        assert!(here(0) < before, "{policy:?} {:?}", o.pager.counters());
    }
}

#[test]
fn what_is_demanded_before_its_read_began_was_not_read_ahead() {
    let written = write(45, &[MapArray { kind: MapKind::Indexed, ..plain(100, 4096) }]);
    let o = in_memory(&written, config(4 << 20));
    let (bell, wake) = Bell::new(&o.pager);
    // No decoding yet, so that all of them wait for their index.
    let pages = ids(&o, 0..10);
    assert_eq!(o.pager.request(&pages, 1, &wake, Priority::Prefetch), Requested::Pending);
    assert_eq!(o.pager.request(&pages, 2, &wake, Priority::Demand), Requested::Pending);
    drive(&o.pager, || bell.rang() == 2);
    check(&o, &o.pager.worker(), &pages);
    let c = o.pager.counters();
    assert_eq!((c.faults, c.prefetched, c.prefetched_used), (10, 1, 1), "only the index was: {c:?}");
}

#[test]
fn a_pager_goes_when_its_last_owner_does() {
    let written = write(53, &[plain(300, 4096)]);
    let path = std::env::temp_dir().join(format!("farfield-gone-{}", std::process::id()));
    std::fs::write(&path, &written.blob).unwrap();
    for backend in [Backend::Auto, Backend::Threads] {
        for latency in [false, true] {
            let config = PagerConfig { backend, ..config(2 << 20) };
            let o = if latency {
                written.simulated(config, Simulation::fixed(Duration::from_millis(3), 4))
            } else {
                written.open_file(config, &path)
            };
            let (_, wake) = Bell::new(&o.pager);
            // Reads in flight, undecoded pages, requests that no thread waits for.
            o.pager.request(&ids(&o, 0..300), 1, &wake, Priority::Demand);
            let weak = Arc::downgrade(&o.pager);
            drop((o, wake));
            let end = Instant::now() + Duration::from_secs(10);
            while weak.upgrade().is_some() {
                assert!(Instant::now() < end, "still there");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    std::fs::remove_file(&path).unwrap();
}
