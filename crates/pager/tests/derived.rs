//! Derived pages: computed once for all requests, never from missing data, under any limit that holds one of them.

mod common;
use common::*;
use pager::source::memory::Memory;
use pager::source::simulated::Simulation;
use pager::*;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

/// Page p is the bytewise sum of pages p, p + 1, ... of another array, `width` of them, modulo the number of pages.
struct Sum {
    of: ArrayId,
    pages: u64,
    width: u64,
    bytes: usize,
    made: AtomicU64,
}

impl Sum {
    fn inputs(&self, id: PageId) -> Vec<PageId> {
        (0..self.width).map(|n| PageId::new(self.of, id.step, (id.page + n) % self.pages)).collect()
    }
}

impl PageMap for Sum {
    fn name(&self) -> &str {
        "sum"
    }
    fn pages(&self) -> u64 {
        self.pages
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.bytes
    }
    fn derived(&self) -> bool {
        true
    }
    fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        Located::Derived { inputs: self.inputs(id), scratch_len: self.bytes * self.width as usize }
    }
    fn take(&self, _: PageId, input: usize, bytes: &[u8], scratch: &mut [u8]) -> Result<(), PageError> {
        scratch[input * self.bytes..][..self.bytes].copy_from_slice(bytes);
        Ok(())
    }
    fn decode(
        &self,
        _: PageId,
        _: &[u64],
        encoded: &[u8],
        scratch: &mut [u8],
        frame: &mut [u8],
    ) -> Result<(), PageError> {
        assert!(encoded.is_empty());
        self.made.fetch_add(1, SeqCst);
        for (n, to) in frame.iter_mut().enumerate() {
            *to = scratch.chunks(self.bytes).fold(0, |sum: u8, page| sum.wrapping_add(page[n]));
        }
        Ok(())
    }
    fn fill(&self, _: PageId, _: &mut [u8]) {}
    fn checked(&self) -> bool {
        true
    }
}

const PAGES: u64 = 60;
const BYTES: usize = 8192;

/// Sums of an encoded array with an index, and sums of those sums.
fn derived(o: &OpenedPager, width: u64) -> (Arc<Sum>, ArrayId, Arc<Sum>, ArrayId) {
    let add = |of: ArrayId| {
        let map = Arc::new(Sum { of, pages: PAGES, width, bytes: BYTES, made: AtomicU64::new(0) });
        (map.clone(), o.pager.add_array(map))
    };
    let (first, a) = add(o.arrays[0]);
    let (second, b) = add(a);
    (first, a, second, b)
}

fn expected(seed: u64, page: u64, width: u64, depth: u32, i: usize) -> u8 {
    if depth == 0 {
        return truth(seed, 0, page, i);
    }
    (0..width).fold(0, |sum: u8, n| sum.wrapping_add(expected(seed, (page + n) % PAGES, width, depth - 1, i)))
}

fn written() -> WrittenArrays {
    write(11, &[MapArray { kind: MapKind::Indexed, steps: 1, pages: PAGES, bytes: BYTES, holes: 0 }])
}

fn check(o: &OpenedPager, bytes: &[u8], page: u64, depth: u32) {
    let seed = o.maps[0].seed;
    for i in [0, 1, 7, 8, 4095, BYTES - 1] {
        assert_eq!(bytes[i], expected(seed, page, 3, depth, i), "page {page} byte {i} of depth {depth}");
    }
}

#[test]
fn made_once_of_pages_that_are_read_once() {
    let o = written().simulated(
        PagerConfig { limit: 16 << 20, ..PagerConfig::default() },
        Simulation::fixed(Duration::from_millis(1), 8),
    );
    let (first, _, second, sums) = derived(&o, 3);
    std::thread::scope(|s| {
        for t in 0..4 {
            let o = &o;
            s.spawn(move || {
                let mut pages: Vec<PageId> = (0..PAGES).map(|p| PageId::new(sums, 0, p)).collect();
                pages.rotate_left(t * 13);
                let _hold = o.pager.fetch(&pages).unwrap();
                let worker = o.pager.worker();
                for id in pages {
                    let Lookup::Here(bytes) = worker.page(id) else { panic!("held") };
                    check(o, bytes, id.page, 2);
                }
            });
        }
    });
    let c = o.pager.counters();
    assert_eq!((first.made.load(SeqCst), second.made.load(SeqCst)), (PAGES, PAGES));
    assert_eq!((c.derived, c.decoded - c.index_faults, c.given_up, c.failed), (2 * PAGES, PAGES, 0, 0), "{c:?}");
    // Derived pages are no pages of the data.
    assert_eq!(c.touched, PAGES + c.index_faults);
}

#[test]
fn only_what_is_asked_for_is_made() {
    let o = written().simulated(PagerConfig::default(), Simulation::fixed(Duration::ZERO, 8));
    let (first, _, second, sums) = derived(&o, 3);
    let _hold = o.pager.fetch(&[PageId::new(sums, 0, 4)]).unwrap();
    assert_eq!((first.made.load(SeqCst), second.made.load(SeqCst)), (3, 1));
    let c = o.pager.counters();
    assert_eq!(c.decoded - c.index_faults, 5, "pages 4 to 8: {c:?}");
}

/// Four threads request all pages in order, with memory for one chain of derived pages and little more. Pages are
/// dropped and made again. All become resident in the end, right, within the limit. The tables of four workers take 128
/// KiB of it.
#[test]
fn under_the_smallest_limit_all_are_made() {
    for (seed, limit) in [(1, 336u64 << 10), (2, 352 << 10), (3, 384 << 10), (4, 512 << 10)] {
        let simulation = Simulation {
            seed,
            latency: Duration::from_micros(5)..Duration::from_micros(200),
            depth: 8,
            shuffle: true,
            ..Simulation::fixed(Duration::ZERO, 8)
        };
        let o = written().simulated(PagerConfig { limit, ..PagerConfig::default() }, simulation);
        let (_, _, _, sums) = derived(&o, 3);
        let workers: Vec<Worker> = (0..4).map(|_| o.pager.worker()).collect();
        std::thread::scope(|s| {
            for (t, mut worker) in (0u64..).zip(workers) {
                let o = &o;
                s.spawn(move || {
                    for n in 0..PAGES {
                        let id = PageId::new(sums, 0, (n + 15 * t) % PAGES);
                        let hold = o.pager.fetch(&[id]).unwrap_or_else(|e| panic!("limit {limit}, {id:?}: {e}"));
                        let Lookup::Here(bytes) = worker.page(id) else { panic!("held") };
                        check(o, bytes, id.page, 2);
                        worker.release();
                        drop(hold);
                    }
                });
            }
        });
        assert!(o.pager.ledger().peak() <= limit, "{} of {limit}", o.pager.ledger().peak());
    }
}

#[test]
fn what_is_made_of_a_failed_page_fails_with_its_name() {
    let mut bytes = vec![0u8; 4 * 16];
    bytes.truncate(3 * 16);
    let pager = Pager::new(PagerConfig::default()).unwrap();
    let source = pager.add_source(Arc::new(Memory::new("short", bytes)));
    struct StoredMap(SourceId);
    impl PageMap for StoredMap {
        fn name(&self) -> &str {
            "stored"
        }
        fn pages(&self) -> u64 {
            4
        }
        fn page_bytes(&self, _: PageId) -> usize {
            16
        }
        fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
            let segment = Extent { source: self.0, offset: id.page * 16, len: 16, to: ExtentTarget::Frame(0) };
            Located::Extents { segments: vec![segment], encoded_len: 0, scratch_len: 0, found: Box::default() }
        }
        fn decode(&self, _: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
            Ok(())
        }
        fn fill(&self, _: PageId, _: &mut [u8]) {}
        fn checked(&self) -> bool {
            false
        }
    }
    let stored = pager.add_array(Arc::new(StoredMap(source)));
    let sum = |of| Arc::new(Sum { of, pages: 4, width: 2, bytes: 16, made: AtomicU64::new(0) });
    let sums = pager.add_array(sum(stored));
    let twice = pager.add_array(sum(sums));
    assert!(pager.fetch(&[PageId::new(twice, 0, 0)]).is_ok(), "pages 0 to 2");
    for (array, page) in [(sums, 2), (twice, 1), (sums, 2)] {
        let Err(e) = pager.fetch(&[PageId::new(array, 0, page)]) else { panic!("{array:?} {page}") };
        assert!(e.to_string().contains("stored step 0 page 3"), "{e}");
    }
    // A page derived from itself, through another.
    let next = ArrayId(twice.0 + 2);
    let (a, b) = (pager.add_array(sum(next)), pager.add_array(sum(twice)));
    assert_eq!(b, next);
    assert!(pager.fetch(&[PageId::new(a, 0, 0)]).is_err(), "made of a failed page");
    let circle = ArrayId(b.0 + 1);
    let own = pager.add_array(sum(circle));
    assert_eq!(own, circle);
    let Err(e) = pager.fetch(&[PageId::new(own, 0, 0)]) else { panic!("it is made of itself") };
    assert!(e.to_string().contains("made of itself"), "{e}");
    // Free workers finish pages that were started for failed ones.
    while pager.work() {}
    let ledger = pager.ledger();
    assert_eq!((ledger.of(ChargeKind::Scratch), ledger.of(ChargeKind::Encoded)), (0, 0));
}

#[test]
fn giving_up_leaves_nothing_behind() {
    let o = written().simulated(PagerConfig::default(), Simulation::fixed(Duration::from_millis(3), 2));
    let (_, _, _, sums) = derived(&o, 3);
    for round in 0..20u64 {
        let (bell, wake) = Bell::new(&o.pager);
        let pages: Vec<PageId> = (0..8).map(|n| PageId::new(sums, 0, (round * 7 + n) % PAGES)).collect();
        let asked = o.pager.request(&pages, round, &wake, Priority::Demand) == Requested::Pending;
        for _ in 0..round {
            o.pager.work();
        }
        o.pager.cancel(&wake);
        if asked {
            drive(&o.pager, || bell.rang() == 1);
        }
    }
    let _hold = o.pager.fetch(&[PageId::new(sums, 0, 0)]).unwrap();
    drive(&o.pager, || o.pager.ledger().of(ChargeKind::Scratch) == 0);
    assert_eq!(o.pager.ledger().of(ChargeKind::Encoded), 0);
}
