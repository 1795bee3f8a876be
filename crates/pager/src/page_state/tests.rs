//! A simulated source with reads that the test completes, and pages that pass every transition.

use super::PageState::{self, *};
use super::Transitions;
use crate::source::{Completion, Read, Source};
use crate::*;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

const ALL: [PageState; 11] =
    [Absent, Queued, NeedsIndex, Parked, Staged, Reading, Arrived, Making, Resident, Evicting, Failed];
const PAGE: usize = 4096;

/// Keeps reads until the test ends them.
#[derive(Default)]
struct HeldSource {
    reads: Mutex<Vec<(u64, Arc<dyn Completion>)>>,
    withdrawn: Mutex<Vec<u64>>,
}

impl Source for HeldSource {
    fn describe(&self) -> String {
        "held".into()
    }
    fn size(&self) -> Result<u64, PageErrorKind> {
        Ok(u64::MAX)
    }
    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        self.reads.lock().unwrap().extend(batch.into_iter().map(|read| (read.token, done.clone())));
    }
    fn withdraw(&self, tokens: &[u64], _: &Arc<dyn Completion>) {
        self.withdrawn.lock().unwrap().extend(tokens);
    }
}

#[derive(Copy, Clone)]
enum Kind {
    /// One extent.
    Plain,
    /// Two extents, far from each other.
    Split,
    Undecodable,
    Fill,
    Unlocatable,
    /// Needs the page of the same number of another array.
    Indexed(ArrayId),
    /// Is derived from the page of the same number of another array.
    Derived(ArrayId),
}

struct TestMap {
    kind: Kind,
    bytes: usize,
    source: SourceId,
}

impl TestMap {
    fn extents(&self, page: PageId, count: usize) -> Located {
        let len = self.bytes / count;
        // Too far apart to be joined.
        let extent = |n: usize| Extent {
            source: self.source,
            offset: (u64::from(page.array.0) << 48) + (page.page << 32) + ((n as u64) << 24),
            len,
            to: ExtentTarget::Frame(n * len),
        };
        Located::Extents {
            segments: (0..count).map(extent).collect(),
            encoded_len: 0,
            scratch_len: 0,
            found: Box::default(),
        }
    }

    fn bad(&self) -> PageError {
        PageError::new("test", PageErrorKind::Decode("bad".into()))
    }
}

impl PageMap for TestMap {
    fn name(&self) -> &str {
        "test"
    }
    fn pages(&self) -> u64 {
        16
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.bytes
    }
    fn locate(&self, page: PageId, index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        match self.kind {
            Kind::Plain | Kind::Undecodable => self.extents(page, 1),
            Kind::Split => self.extents(page, 2),
            Kind::Fill => Located::Fill,
            Kind::Unlocatable => Located::Failed(self.bad()),
            Kind::Indexed(array) => match index(PageId { array, ..page }) {
                Some(_) => self.extents(page, 1),
                None => Located::Need(PageId { array, ..page }),
            },
            Kind::Derived(array) => Located::Derived { inputs: vec![PageId { array, ..page }], scratch_len: 64 },
        }
    }
    fn decode(&self, _: PageId, _: &[u64], _: &[u8], _: &mut [u8], _: &mut [u8]) -> Result<(), PageError> {
        match self.kind {
            Kind::Undecodable => Err(self.bad()),
            _ => Ok(()),
        }
    }
    fn derived(&self) -> bool {
        matches!(self.kind, Kind::Derived(_))
    }
    fn take(&self, _: PageId, _: usize, _: &[u8], _: &mut [u8]) -> Result<(), PageError> {
        Ok(())
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        frame.fill(0);
    }
    fn checked(&self) -> bool {
        false
    }
}

struct Silent;

impl Wake for Silent {
    fn wake(&self, _: u64) {}
}

/// A pager with one reader over a held source.
struct Bench {
    pager: Arc<Pager>,
    held: Arc<HeldSource>,
    source: SourceId,
}

impl Bench {
    fn new(limit: u64) -> Self {
        let pager = Pager::new(PagerConfig { limit, readers: 1, ..PagerConfig::default() }).unwrap();
        let held = Arc::<HeldSource>::default();
        let source = pager.add_source(held.clone());
        Self { pager, held, source }
    }

    fn array(&self, kind: Kind, bytes: usize) -> ArrayId {
        self.pager.add_array(Arc::new(TestMap { kind, bytes, source: self.source }))
    }

    /// Requests pages with a wake of their own, by which they can be cancelled.
    fn request(&self, pages: &[PageId]) -> Arc<dyn Wake> {
        let wake: Arc<dyn Wake> = Arc::new(Silent);
        self.pager.request(pages, 0, &wake, Priority::Demand);
        wake
    }

    /// Ends the one read that the source has.
    fn end_read(&self, result: Result<(), PageErrorKind>) {
        let (token, done) = self.held.reads.lock().unwrap().pop().expect("the source has a read");
        done.complete(token, result);
    }

    fn state(&self, page: PageId) -> PageState {
        self.pager.page_state(&self.pager.lock(), page)
    }

    #[track_caller]
    fn is(&self, pages: &[(PageId, PageState)]) {
        for (page, state) in pages {
            assert_eq!(self.state(*page), *state, "{page:?}");
        }
    }

    fn seen(&self) -> HashSet<(PageState, PageState)> {
        let st = self.pager.lock();
        let slots = st.residency.slots().transitions();
        st.flights.transitions().seen.union(&slots.seen).copied().collect()
    }
}

fn page(array: ArrayId, n: u64) -> PageId {
    PageId::new(array, 0, n)
}

#[test]
fn pages_go_through_every_transition() {
    let seen: HashSet<_> = [read_pages(), derived_pages(), given_up_pages()].into_iter().flatten().collect();
    assert_eq!(Failed as usize + 1, ALL.len());
    let table: HashSet<_> = ALL.iter().flat_map(|from| from.next().iter().map(|to| (*from, *to))).collect();
    assert_eq!(table.difference(&seen).collect::<Vec<_>>(), [] as [&(PageState, PageState); 0]);
}

fn read_pages() -> HashSet<(PageState, PageState)> {
    let b = Bench::new(1 << 20);
    let plain = b.array(Kind::Plain, PAGE);
    let p = |n| page(plain, n);
    // One is read, one waits for the reader, one is queued.
    let first = b.request(&[p(0), p(1)]);
    let other = b.request(&[p(2)]);
    b.is(&[(p(0), Reading), (p(1), Staged), (p(2), Queued)]);
    b.pager.cancel(&other);
    b.pager.cancel(&first);
    b.is(&[(p(0), Reading), (p(1), Absent), (p(2), Absent)]);
    b.end_read(Ok(()));
    b.is(&[(p(0), Arrived)]);
    assert!(b.pager.work());
    b.is(&[(p(0), Resident)]);
    // Pinned pages stay.
    let mut worker = b.pager.worker();
    assert!(matches!(worker.page(p(0)), Lookup::Here(_)));
    assert_eq!(b.pager.give_back_pages(&[p(0)]), 0);
    b.is(&[(p(0), Resident)]);
    worker.release();
    assert_eq!(b.pager.give_back_pages(&[p(0)]), 1);
    b.is(&[(p(0), Absent)]);
    // The second extent waits for the reader of the first.
    let split = page(b.array(Kind::Split, PAGE), 0);
    b.request(&[split]);
    b.end_read(Ok(()));
    b.is(&[(split, Reading)]);
    b.end_read(Ok(()));
    b.is(&[(split, Arrived)]);
    assert!(b.pager.work());
    b.is(&[(split, Resident)]);
    // A permanent error.
    b.request(&[p(3)]);
    for _ in 0..3 {
        b.is(&[(p(3), Reading)]);
        b.end_read(Err(PageErrorKind::Io("held".into())));
    }
    b.is(&[(p(3), Failed)]);
    assert!(matches!(worker.page(p(3)), Lookup::Failed(_)));
    b.pager.forget_failures();
    b.is(&[(p(3), Absent)]);
    // Its read is withdrawn, but another task asks for the page before it ends.
    b.held.withdrawn.lock().unwrap().clear();
    for is_wanted in [true, false] {
        let wake = b.request(&[p(4)]);
        b.is(&[(p(4), Reading)]);
        assert_eq!(*b.held.withdrawn.lock().unwrap(), [] as [u64; 0]);
        b.pager.cancel(&wake);
        let reads = b.held.reads.lock().unwrap().iter().map(|read| read.0).collect::<Vec<_>>();
        assert_eq!(std::mem::take(&mut *b.held.withdrawn.lock().unwrap()), reads);
        if is_wanted {
            b.request(&[p(4)]);
            b.end_read(Err(PageErrorKind::Withdrawn));
            b.is(&[(p(4), Reading)]);
            b.end_read(Ok(()));
            while b.pager.work() {}
            assert_eq!(b.pager.give_back_pages(&[p(4)]), 1);
        } else {
            b.end_read(Err(PageErrorKind::Withdrawn));
        }
        b.is(&[(p(4), Absent)]);
    }
    // No read, no translation, no page.
    let [fill, unlocatable, undecodable] =
        [Kind::Fill, Kind::Unlocatable, Kind::Undecodable].map(|kind| page(b.array(kind, PAGE), 0));
    b.request(&[fill, unlocatable, undecodable]);
    b.is(&[(fill, Arrived), (unlocatable, Failed), (undecodable, Reading)]);
    b.end_read(Ok(()));
    while b.pager.work() {}
    b.is(&[(fill, Resident), (undecodable, Failed)]);
    // The index comes, fails, or is no longer needed.
    let index = b.array(Kind::Plain, PAGE);
    let indexed = b.array(Kind::Indexed(index), PAGE);
    for (n, result) in [(0, Ok(())), (1, Err(PageErrorKind::Missing)), (2, Ok(()))] {
        let wake = b.request(&[page(indexed, n)]);
        b.is(&[(page(indexed, n), NeedsIndex), (page(index, n), Reading)]);
        if n == 2 {
            b.pager.cancel(&wake);
            b.is(&[(page(indexed, n), Absent), (page(index, n), Reading)]);
        }
        b.end_read(result);
        while b.pager.work() {}
        if n == 0 {
            // The only possible read is its own now.
            b.is(&[(page(indexed, 0), Reading)]);
            b.end_read(Ok(()));
            assert!(b.pager.work());
        }
    }
    b.is(&[(page(indexed, 0), Resident), (page(indexed, 1), Failed), (page(index, 2), Resident)]);
    b.seen()
}

fn derived_pages() -> HashSet<(PageState, PageState)> {
    // Two derived pages need more than their quarter of the limit.
    let b = Bench::new(SMALLEST_LIMIT);
    let plain = b.array(Kind::Plain, PAGE);
    let derived = b.array(Kind::Derived(plain), 5 * PAGE);
    let (p, d) = (|n| page(plain, n), |n| page(derived, n));
    b.request(&[d(0)]);
    let second = b.request(&[d(1)]);
    b.is(&[(d(0), Arrived), (d(1), Parked)]);
    assert!(b.pager.work());
    b.is(&[(d(0), Making), (p(0), Reading)]);
    b.end_read(Ok(()));
    assert!(b.pager.work());
    b.is(&[(d(0), Arrived), (p(0), Resident)]);
    assert!(b.pager.work());
    b.is(&[(d(0), Resident), (d(1), Arrived)]);
    let third = b.request(&[d(2)]);
    b.is(&[(d(2), Parked)]);
    b.pager.cancel(&third);
    b.is(&[(d(2), Absent)]);
    // It is cancelled while its input is read.
    assert!(b.pager.work());
    b.is(&[(d(1), Making), (p(1), Reading)]);
    b.pager.cancel(&second);
    b.is(&[(d(1), Absent), (p(1), Reading)]);
    b.end_read(Ok(()));
    assert!(b.pager.work());
    b.is(&[(p(1), Resident)]);
    // Its input fails.
    b.request(&[d(3)]);
    assert!(b.pager.work());
    b.end_read(Err(PageErrorKind::Missing));
    b.is(&[(d(3), Failed), (p(3), Failed)]);
    b.seen()
}

fn given_up_pages() -> HashSet<(PageState, PageState)> {
    let b = Bench::new(1 << 20);
    let plain = b.array(Kind::Plain, PAGE);
    let derived = b.array(Kind::Derived(plain), 24 * PAGE);
    let pages = [page(derived, 0), page(derived, 1)];
    b.request(&pages);
    b.is(&pages.map(|page| (page, Arrived)));
    // Their inputs find no memory, and no page on its way would free any.
    let ledger = b.pager.ledger().clone();
    let charge = b.pager.charge(ChargeKind::Other, ledger.available()).unwrap();
    assert!(b.pager.work() && b.pager.work());
    assert_eq!(b.pager.counters().given_up, 1);
    let states = pages.map(|page| b.state(page));
    assert!(states.contains(&Making) && states.contains(&Parked), "{states:?}");
    drop(charge);
    while pages.iter().any(|page| b.state(*page) != Resident) {
        if !b.pager.work() {
            b.end_read(Ok(()));
        }
    }
    b.seen()
}

#[test]
#[should_panic(expected = "no page goes from Absent to Resident")]
fn other_transitions_are_refused() {
    Transitions::default().go(Absent, Resident);
}
