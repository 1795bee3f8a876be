//! Invariant 4 for the pager: for any limit, policy, readers, latency, order and pieces, the bytes of a page are the
//! page's.

mod common;
use common::*;
use pager::source::simulated::Simulation;
use pager::source::ReadForm;
use pager::*;
use proptest::prelude::*;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

fn specs() -> impl Strategy<Value = Vec<MapArray>> {
    let kind = prop_oneof![(1usize..5).prop_map(MapKind::Plain), Just(MapKind::Coded), Just(MapKind::Indexed)];
    let spec = (kind, 1u32..3, 1u64..60, prop_oneof![Just(64usize), Just(4096), 1usize..20_000], 0u64..6)
        .prop_map(|(kind, steps, pages, bytes, holes)| MapArray { kind, steps, pages, bytes: bytes.max(8), holes });
    proptest::collection::vec(spec, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("FARFIELD_CASES").ok().and_then(|c| c.parse().ok()).unwrap_or(60), max_shrink_iters: 20, rng_seed: proptest::test_runner::RngSeed::Fixed(42), failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn pages_are_the_truth(
        specs in specs(),
        seed in 1u64..1000,
        limit in prop_oneof![Just(900u64 << 10), Just(2 << 20), Just(64 << 20)],
        policy in proptest::sample::select(PolicyKind::ALL.to_vec()),
        readers in 1usize..20,
        latency_us in 0u64..300,
        depth in 0usize..5,
        short_reads in prop_oneof![Just(0.0), Just(0.3)],
        transient_errors in prop_oneof![Just(0.0), Just(0.02)],
        threads in 1usize..4,
        whole_blocks: bool,
        own_depth in proptest::option::of(1usize..40),
    ) {
        let written = write(seed, &specs);
        let simulation = Simulation {
            seed, latency: Duration::ZERO..Duration::from_micros(latency_us), depth, shuffle: true, short_reads,
            transient_errors,
            form: ReadForm { block: whole_blocks.then_some(4096), depth: own_depth, ..ReadForm::default() },
            ..Simulation::default()
        };
        let config = PagerConfig { limit, policy, readers, ..PagerConfig::default() };
        let o = written.simulated(config, simulation);
        std::thread::scope(|s| {
            for t in 0..threads {
                let o = &o;
                s.spawn(move || tasks(o, seed * 31 + t as u64, 60, 6));
            }
        });
        let c = o.pager.counters();
        prop_assert_eq!(o.pager.ledger().overdraft(), 0, "{:?}", c);
        prop_assert!(c.peak_bytes <= limit);
        prop_assert!(c.touched <= c.total);
        prop_assert!(c.published >= c.touched.min(1));
        prop_assert_eq!(c.failed, 0);
    }
}

#[test]
fn files_are_the_truth_through_every_backend() {
    let specs = [
        MapArray { kind: MapKind::Plain(3), steps: 2, pages: 120, bytes: 16_384, holes: 0 },
        MapArray { kind: MapKind::Indexed, steps: 1, pages: 200, bytes: 10_000, holes: 7 },
        MapArray { kind: MapKind::Coded, steps: 1, pages: 100, bytes: 5_000, holes: 0 },
    ];
    let written = write(77, &specs);
    let path = std::env::temp_dir().join(format!("farfield-files-{}", std::process::id()));
    std::fs::write(&path, &written.blob).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    let backends = [(Backend::Auto, false), (Backend::Threads, false), (Backend::Auto, true), (Backend::Threads, true)];
    for (backend, direct) in backends {
        for (readers, limit) in [(1, 1 << 20), (16, 1 << 20), (4, 64 << 20)] {
            let o = written.open_file(PagerConfig { limit, readers, backend, ..PagerConfig::default() }, &path);
            o.pager.set_direct(direct);
            // Reads use the page cache in any case if it has the bytes. Whole blocks extend beyond the end of the file.
            // SAFETY: a hint about an open file.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
            std::thread::scope(|s| {
                for t in 0..3 {
                    let o = &o;
                    s.spawn(move || tasks(o, 99 + t, 300, 6));
                }
            });
            let c = o.pager.counters();
            assert!(c.peak_bytes <= limit && o.pager.ledger().overdraft() == 0, "{c:?}");
            assert!(limit > 1 << 20 || c.evictions > 100, "{c:?}");
        }
    }
    std::fs::remove_file(&path).unwrap();
}

/// Reads all pages of the only array at once. Returns the numbers of reads and bytes.
fn all_at_once(o: &OpenedPager, priority: Priority) -> (u64, u64) {
    let pages: Vec<PageId> = (0..o.maps[0].pages).map(|page| PageId::new(o.arrays[0], 0, page)).collect();
    let (bell, wake) = Bell::new(&o.pager);
    assert_eq!(o.pager.request(&pages, 1, &wake, priority), Requested::Pending);
    drive(&o.pager, || bell.rang() == 1);
    let worker = o.pager.worker();
    for id in pages {
        match worker.page(id) {
            Lookup::Here(bytes) => o.verify(id, bytes),
            other => panic!("{other:?}"),
        }
    }
    let c = o.pager.counters();
    (c.reads, c.bytes_read)
}

/// With whole blocks, two adjacent pages have a block in common. Still they are one read, and the block is read once.
#[test]
fn neighbours_are_one_read_of_whole_blocks() {
    for (bytes, short_reads, transient_errors) in
        [(5_000, 0.0, 0.0), (4096 - 4, 0.0, 0.0), (12_288, 1.0, 0.0), (9_001, 1.0, 1.0)]
    {
        let written = write(5, &[MapArray { kind: MapKind::Coded, steps: 1, pages: 64, bytes, holes: 0 }]).in_order();
        let len = written.blob.len() as u64;
        let form = ReadForm { block: Some(4096), ..ReadForm::default() };
        let simulation = Simulation { seed: 9, short_reads, transient_errors, form, ..Simulation::default() };
        let o = written.simulated(PagerConfig { limit: 16 << 20, readers: 16, ..PagerConfig::default() }, simulation);
        let (reads, read) = all_at_once(&o, Priority::Demand);
        if transient_errors == 0.0 {
            assert_eq!((reads, read), (1, len.next_multiple_of(4096)), "{bytes}");
        }
        let c = o.pager.counters();
        // Reads that failed together are tried again alone.
        assert_eq!((c.failed, c.retries > 0), (0, transient_errors > 0.0), "{c:?}");
    }
}

/// A prefetch waits for a free reader, and the pages behind it are read with it.
#[test]
fn what_is_read_ahead_is_read_with_its_neighbours() {
    let written =
        write(6, &[MapArray { kind: MapKind::Coded, steps: 1, pages: 64, bytes: 3_000, holes: 0 }]).in_order();
    let simulation =
        Simulation { latency: Duration::from_micros(500)..Duration::from_micros(600), ..Simulation::default() };
    let o = written.simulated(PagerConfig { limit: 16 << 20, readers: 1, ..PagerConfig::default() }, simulation);
    let (reads, read) = all_at_once(&o, Priority::Prefetch);
    assert!(reads <= 4, "{reads} reads");
    assert_eq!(read, 64 * 3_004);
}

/// All at once: the limit moves, others charge, requests are cancelled, policies differ, and the bytes of pages stay
/// right.
#[test]
fn pages_are_the_truth_while_everything_changes() {
    let specs = [
        MapArray { kind: MapKind::Plain(2), steps: 2, pages: 150, bytes: 9_000, holes: 0 },
        MapArray { kind: MapKind::Indexed, steps: 1, pages: 200, bytes: 4_000, holes: 9 },
        MapArray { kind: MapKind::Coded, steps: 1, pages: 60, bytes: 40_000, holes: 0 },
    ];
    let written = write(83, &specs);
    for (seed, &policy) in (1..).zip(PolicyKind::ALL) {
        let simulation = Simulation {
            seed,
            latency: Duration::ZERO..Duration::from_micros(400),
            depth: 5,
            shuffle: true,
            short_reads: 0.2,
            transient_errors: 0.02,
            ..Simulation::default()
        };
        let most = 4u64 << 20;
        let o =
            written.simulated(PagerConfig { limit: most, policy, readers: 8, ..PagerConfig::default() }, simulation);
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            let tasks: Vec<_> = (0..3)
                .map(|t| {
                    let o = &o;
                    s.spawn(move || tasks(o, seed * 7 + t, 250, 6))
                })
                .collect();
            s.spawn(|| {
                let mut rng = Rng(seed);
                while !stop.load(SeqCst) {
                    match rng.below(3) {
                        0 => o.pager.set_limit((1 << 20) + rng.below(most - (1 << 20))),
                        _ => {
                            let charge = o.pager.charge(ChargeKind::Results, rng.below(400 << 10));
                            std::thread::sleep(Duration::from_micros(rng.below(500)));
                            drop(charge);
                        }
                    }
                    std::thread::sleep(Duration::from_micros(rng.below(1500)));
                }
            });
            let results: Vec<_> = tasks.into_iter().map(|t| t.join()).collect();
            stop.store(true, SeqCst);
            assert!(results.iter().all(Result::is_ok));
        });
        let c = o.pager.counters();
        assert!(c.peak_bytes <= most && c.failed == 0 && c.evictions > 100, "{c:?}");
        // No charge is left over.
        o.pager.set_limit(most);
        for kind in [ChargeKind::Encoded, ChargeKind::Scratch, ChargeKind::Results] {
            drive(&o.pager, || o.pager.ledger().of(kind) == 0);
        }
        let sum: u64 = CHARGE_KINDS.iter().map(|k| o.pager.ledger().of(*k)).sum();
        assert_eq!(sum, o.pager.ledger().used());
    }
}
