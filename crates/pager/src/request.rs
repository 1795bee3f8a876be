//! Requests for pages, holds, and cancelling.

use crate::error::PageError;
use crate::event::Event;
use crate::flights::NONE;
use crate::frames::{used, Frame};
use crate::id::PageId;
use crate::ledger::Full;
use crate::page_state::PageState;
use crate::pager::{Pager, PagerError};
use crate::priority::{Priority, Requested, Wake};
use crate::state::PagerState;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Keeps pages from eviction, resident now or later.
pub struct Hold {
    pager: Arc<Pager>,
    pages: Vec<PageId>,
}

impl Hold {
    /// The pages.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut st = self.pager.lock();
        for &id in &self.pages {
            self.pager.unhold(&mut st, id);
        }
        drop(st);
        self.pager.relieved();
    }
}

/// How long [`Pager::fetch`] waits when memory is full and no page is on its way. A computing worker releases pins
/// within a step or two, which takes milliseconds. Memory still in use after this long belongs to a thread that waits,
/// too.
const PATIENCE: Duration = Duration::from_secs(3);

struct FetchWake {
    done: AtomicBool,
    pager: Weak<Pager>,
}

impl Wake for FetchWake {
    fn wake(&self, _token: u64) {
        self.done.store(true, SeqCst);
        if let Some(p) = self.pager.upgrade() {
            p.notify();
        }
    }
}

impl Pager {
    /// Requests pages. A page with many requests is read once. `priority` applies to pages that are not on their way
    /// yet. A queued prefetch moves up when it is demanded.
    ///
    /// For [`Requested::Pending`], `wake.wake(token)` is called exactly once, when every page is settled: resident,
    /// failed, cancelled, or (prefetch only) dropped. A page may be evicted again before the wake is processed.
    pub fn request(&self, pages: &[PageId], token: u64, wake: &Arc<dyn Wake>, priority: Priority) -> Requested {
        let demand = priority == Priority::Demand;
        let mut st = self.lock();
        self.forget_passed(&mut st);
        let mut request = NONE;
        for &id in pages {
            self.emit(|| Event::Want { page: id, token, priority });
            if let Some(f) = self.table.find(id, &self.frames).and_then(|n| self.frames.get(n)) {
                if demand {
                    self.note_use(f);
                    self.mark_touched(&mut st, id);
                }
                continue;
            }
            if st.flights.failure(id).is_some() {
                continue;
            }
            let flight = self.flight(&mut st, id, demand);
            if request == NONE {
                request = st.flights.add_request(token, wake.clone());
            }
            st.flights.add_to_request(request, flight);
        }
        if request == NONE {
            return Requested::Ready;
        }
        self.book(&mut st);
        drop(st);
        self.pump();
        Requested::Pending
    }

    /// The flight of a page that locates another, or that another is derived from.
    pub(crate) fn input(&self, st: &mut PagerState, id: PageId, demand: bool) -> u32 {
        let priority = if demand { Priority::Demand } else { Priority::Prefetch };
        self.emit(|| Event::Input { page: id, priority });
        self.flight(st, id, demand)
    }

    /// The flight of a page that is neither resident nor failed: a new one, or the existing one, promoted as needed.
    pub(crate) fn flight(&self, st: &mut PagerState, id: PageId, demand: bool) -> u32 {
        if demand {
            self.mark_touched(st, id);
        }
        if let Some(flight) = st.flights.of(id) {
            if let Some(f) = st.flights.get_mut(flight) {
                f.withdrawn = false;
            }
            if demand && st.flights.promote(flight) {
                self.promoted(st, flight);
            }
            return flight;
        }
        debug_assert_eq!(self.page_state(st, id), PageState::Absent, "{id:?}");
        let flight = st.flights.begin(id, demand);
        if demand {
            st.tally.faults += 1;
            self.emit(|| Event::Fault { page: id });
        } else {
            self.emit(|| Event::Queued { page: id });
        }
        flight
    }

    /// Promotes the pages that a promoted flight needs, too.
    fn promoted(&self, st: &mut PagerState, flight: u32) {
        let Some(f) = st.flights.get_mut(flight) else { return };
        let (id, state) = (f.id(), f.state());
        let index = f.index.filter(|_| state == PageState::NeedsIndex);
        if matches!(state, PageState::Queued | PageState::NeedsIndex) {
            // Its read has not started: it is an ordinary fault now.
            f.prefetched = false;
            st.tally.faults += 1;
            self.emit(|| Event::Fault { page: id });
        }
        if state == PageState::Queued {
            st.flights.enqueue(flight, false);
        }
        if state == PageState::Reading {
            let reads = st.reads.of_flight(flight);
            st.promotions.extend(reads.into_iter().filter(|(source, _)| st.sources.is_limited_by_place(*source)));
        }
        self.promote_inputs(st, flight);
        if let Some(index) = index.filter(|i| st.flights.of(*i).is_some()) {
            self.input(st, index, true);
        }
    }

    pub(crate) fn note_use(&self, f: &Frame) {
        f.referenced.store(used::YES, Relaxed);
        f.stamp.store(self.tick.load(Relaxed), Relaxed);
    }

    /// Whether a page is resident now.
    pub fn is_resident(&self, id: PageId) -> bool {
        let _st = self.lock();
        self.table.find(id, &self.frames).is_some()
    }

    /// The error of a failed page.
    pub fn failure(&self, id: PageId) -> Option<PageError> {
        let mut st = self.lock();
        self.forget_passed(&mut st);
        st.flights.failure(id).cloned()
    }

    /// Makes pages absent again whose failures may have passed.
    fn forget_passed(&self, st: &mut PagerState) {
        let forgotten = st.flights.forget_passed();
        self.failed_count.fetch_sub(forgotten, SeqCst);
    }

    /// The error of the first page that failed since the pager was made.
    pub fn first_failure(&self) -> Option<PageError> {
        self.lock().flights.first_failure().cloned()
    }

    /// The number of failures since the pager was made that end a run ([`PageErrorKind::ends_run`](crate::PageErrorKind::ends_run)).
    pub fn ending_failures(&self) -> u64 {
        self.lock().flights.ending().0
    }

    /// The last failure that ends a run, if there was one after the first `before`.
    pub fn ending_failure(&self, before: u64) -> Option<PageError> {
        let st = self.lock();
        let (count, last) = st.flights.ending();
        last.filter(|_| count > before).cloned()
    }

    /// Makes failed pages absent, so that the next request reads them again.
    pub fn forget_failures(&self) {
        let mut st = self.lock();
        let forgotten = st.flights.forget_failures(|_| true);
        self.failed_count.fetch_sub(forgotten, SeqCst);
    }

    /// Keeps pages from eviction until the returned value is dropped, resident now or later. Does not request them.
    pub fn hold(self: &Arc<Self>, pages: &[PageId]) -> Hold {
        let mut st = self.lock();
        for &id in pages {
            self.hold_one(&mut st, id);
        }
        self.book(&mut st);
        Hold { pager: self.clone(), pages: pages.to_vec() }
    }

    pub(crate) fn hold_one(&self, st: &mut PagerState, id: PageId) {
        st.residency.hold(id);
        self.copy_holds(st, id);
        self.emit(|| Event::Hold { page: id });
    }

    pub(crate) fn unhold(&self, st: &mut PagerState, id: PageId) {
        if let Some(left) = st.residency.unhold(id) {
            st.relief += u64::from(left == 0);
            self.emit(|| Event::Unhold { page: id });
        }
        self.copy_holds(st, id);
    }

    fn copy_holds(&self, st: &PagerState, id: PageId) {
        if let Some(f) = self.table.find(id, &self.frames).and_then(|n| self.frames.get(n)) {
            f.holds.store(st.residency.holds(id), Relaxed);
        }
    }

    /// Requests pages and waits for them on the calling thread, which meanwhile decodes arrived pages. The pages stay
    /// until the returned hold is dropped.
    ///
    /// # Errors
    /// [`PagerError::Page`] with the first page, in the given order, that cannot be read. [`PagerError::Full`] when
    /// memory is full, no page on its way would free any, and no thread releases any.
    pub fn fetch(self: &Arc<Self>, pages: &[PageId]) -> Result<Hold, PagerError> {
        let hold = self.hold(pages);
        let fetch = Arc::new(FetchWake { done: AtomicBool::new(false), pager: self.me.clone() });
        let wake: Arc<dyn Wake> = fetch.clone();
        // A page that was settled and is neither resident nor failed is requested again.
        while self.request(pages, 0, &wake, Priority::Demand) == Requested::Pending {
            let mut stalled: Option<(Instant, Full)> = None;
            while !fetch.done.swap(false, SeqCst) {
                if self.work() {
                    stalled = None;
                    continue;
                }
                match (self.stalled(), stalled) {
                    (None, _) => stalled = None,
                    (Some(_), None) if self.release_index_pages() => {}
                    (Some(full), None) => stalled = Some((Instant::now(), full)),
                    (Some(full), Some((since, _))) if since.elapsed() > PATIENCE => {
                        self.cancel(&wake);
                        return Err(full.into());
                    }
                    _ => {}
                }
                let nap = if stalled.is_some() { Duration::from_millis(5) } else { Duration::from_millis(200) };
                self.idle(nap);
            }
        }
        let st = self.lock();
        match pages.iter().find_map(|id| st.flights.failure(*id)) {
            Some(e) => Err(e.clone().into()),
            None => {
                drop(st);
                Ok(hold)
            }
        }
    }

    /// Cancels the requests with this `wake`, and drops their pages without other waiters. The wake is called once,
    /// when all pages of the request are settled. That is at once, unless some pages are being read or have other
    /// waiters. Later requests are not affected.
    pub fn cancel(&self, wake: &Arc<dyn Wake>) {
        let mut st = self.lock();
        let mine = st.flights.only_for(wake);
        // Extents that no source has seen are unstaged. A page without an issued extent is dropped with its memory.
        for active in st.reads.unstage(|flight| mine.contains(&flight)) {
            if let Some(active) = st.reads.end(active) {
                let flight = active.flight;
                self.release_active(&mut st, active, true);
                self.settle(&mut st, flight, Err(None));
            }
        }
        for &flight in &mine {
            self.abandon(&mut st, flight, None);
        }
        // A server need not send what nobody waits for.
        let unwanted = st.reads.of_flights_alone(|flight| mine.contains(&flight));
        st.withdrawals.extend(unwanted);
        for &flight in &mine {
            if let Some(f) = st.flights.get_mut(flight) {
                f.withdrawn = true;
            }
        }
        for flight in mine {
            if st.flights.get(flight).is_some_and(|f| !f.state().has_memory()) {
                self.settle(&mut st, flight, Err(None));
            }
        }
        if st.flights.head(true).is_none() {
            // No demand is left that waits for memory.
            st.starved = false;
            self.starved.store(st.shrinking, SeqCst);
        }
        self.finish(st);
        self.notify();
    }
}
