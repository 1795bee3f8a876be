//! Asking for pages, holding them, and giving up.

use crate::error::PageError;
use crate::event::Event;
use crate::frames::{used, Frame};
use crate::id::PageId;
use crate::ledger::Full;
use crate::pager::{Pager, PagerError};
use crate::state::{Flight, FlightStage, PagerState, Request, Waiter, NONE};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Whether someone waits for a page.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Someone waits.
    Demand,
    /// It will be used soon. Read only when nobody waits for anything, and only into memory that nobody uses; dropped
    /// (and the wake called) when there is none.
    Prefetch,
}

/// The answer to a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Requested {
    /// Every page is resident or failed now. No wake comes.
    Ready,
    /// The wake is called once, when every page is settled.
    Pending,
}

/// Is told when a request is settled. Called without any lock of the pager, from whichever thread settled the last page:
/// from [`Pager::work`], or, if a page failed, also from a reader's thread, or within [`Pager::request`] itself.
pub trait Wake: Send + Sync {
    /// `token` is the request's.
    fn wake(&self, token: u64);
}

/// Keeps pages from being evicted, whether they are resident now or become so later.
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

/// How long [`Pager::fetch`] waits when memory is full and nothing is on its way. Whoever computes releases pins within a step
/// or two, which is milliseconds; what has not moved after this long is held by someone who waits too.
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
    /// Asks for pages. A page that many ask for is read once. `priority` counts for pages that are not on their way yet; a
    /// page queued for prefetch moves up when it is demanded.
    ///
    /// With [`Requested::Pending`], `wake.wake(token)` is called exactly once, when every page is settled: resident, failed,
    /// cancelled, or (prefetch only) dropped. A page can have been evicted again by the time the wake is heard.
    pub fn request(&self, pages: &[PageId], token: u64, wake: &Arc<dyn Wake>, priority: Priority) -> Requested {
        let demand = priority == Priority::Demand;
        let mut st = self.lock();
        let mut request = NONE;
        let mut left = 0u32;
        for &id in pages {
            self.emit(|| Event::Want { page: id, token, priority });
            if let Some(f) = self.table.find(id, &self.frames).and_then(|n| self.frames.get(n)) {
                if demand {
                    self.note_use(f);
                    self.mark_touched(&mut st, id);
                }
                continue;
            }
            if st.failed.contains_key(&id) {
                continue;
            }
            let flight = self.flight(&mut st, id, demand);
            if request == NONE {
                request = st.requests.insert(Request { token, wake: wake.clone(), left: 0 });
            }
            st.add_waiter(flight, Waiter::Request(request));
            left += 1;
        }
        if left == 0 {
            return Requested::Ready;
        }
        if let Some(r) = st.requests.get_mut(request) {
            r.left = left;
        }
        self.book(&mut st);
        drop(st);
        self.pump();
        Requested::Pending
    }

    /// The flight of a page that is needed to find, or to make, another.
    pub(crate) fn input(&self, st: &mut PagerState, id: PageId, demand: bool) -> u32 {
        let priority = if demand { Priority::Demand } else { Priority::Prefetch };
        self.emit(|| Event::Input { page: id, priority });
        self.flight(st, id, demand)
    }

    /// The flight of a page that is neither resident nor failed, made or promoted as needed.
    pub(crate) fn flight(&self, st: &mut PagerState, id: PageId, demand: bool) -> u32 {
        if demand {
            self.mark_touched(st, id);
        }
        let known = st.flying.get(&id).copied();
        if let Some(flight) = known {
            if let Some(f) = st.flights.get_mut(flight).filter(|f| demand && !f.demand) {
                f.demand = true;
                let requeue = f.stage == FlightStage::Queued;
                let unread = requeue || f.stage == FlightStage::NeedsIndex;
                if unread {
                    // Its read was not started: it is an ordinary fault now.
                    f.prefetched = false;
                    st.tally.faults += 1;
                }
                let index = f.index.filter(|_| f.stage == FlightStage::NeedsIndex);
                if unread {
                    self.emit(|| Event::Fault { page: id });
                }
                if requeue {
                    st.enqueue(flight, false);
                }
                self.promote_inputs(st, flight);
                if let Some(index) = index.filter(|i| st.flying.contains_key(i)) {
                    self.input(st, index, true);
                }
            }
            return flight;
        }
        let flight = st.flights.insert(Flight {
            id,
            stage: FlightStage::Queued,
            demand,
            prefetched: !demand,
            ticket: 0,
            waiters: NONE,
            index: None,
            hops: 0,
            making: NONE,
            job: None,
        });
        st.flying.insert(id, flight);
        st.enqueue(flight, false);
        if demand {
            st.tally.faults += 1;
            self.emit(|| Event::Fault { page: id });
        } else {
            self.emit(|| Event::Queued { page: id });
        }
        flight
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

    /// Why a page failed, if it did.
    pub fn failure(&self, id: PageId) -> Option<PageError> {
        self.lock().failed.get(&id).cloned()
    }

    /// Why the first page failed of all that have since the pager was made.
    pub fn first_failure(&self) -> Option<PageError> {
        self.lock().first_failure.clone()
    }

    /// Forgets failed pages, so that the next request reads them again.
    pub fn forget_failures(&self) {
        let mut st = self.lock();
        st.failed.clear();
        self.failed_count.store(0, SeqCst);
    }

    /// Keeps pages from being evicted until the returned value is dropped, whether they are resident now or become so later.
    /// Does not ask for them.
    pub fn hold(self: &Arc<Self>, pages: &[PageId]) -> Hold {
        let mut st = self.lock();
        for &id in pages {
            self.hold_one(&mut st, id);
        }
        self.book(&mut st);
        Hold { pager: self.clone(), pages: pages.to_vec() }
    }

    pub(crate) fn hold_one(&self, st: &mut PagerState, id: PageId) {
        *st.held.entry(id).or_insert(0) += 1;
        self.copy_holds(st, id);
        self.emit(|| Event::Hold { page: id });
    }

    pub(crate) fn unhold(&self, st: &mut PagerState, id: PageId) {
        if let Some(n) = st.held.get_mut(&id) {
            *n -= 1;
            if *n == 0 {
                st.relief += 1;
                st.held.remove(&id);
            }
            self.emit(|| Event::Unhold { page: id });
        }
        self.copy_holds(st, id);
    }

    fn copy_holds(&self, st: &PagerState, id: PageId) {
        if let Some(f) = self.table.find(id, &self.frames).and_then(|n| self.frames.get(n)) {
            f.holds.store(st.held.get(&id).copied().unwrap_or(0), Relaxed);
        }
    }

    /// Asks for pages and waits for them on the calling thread, which meanwhile decodes whatever arrives. They stay
    /// until the returned hold is dropped.
    ///
    /// # Errors
    /// [`PagerError::Page`] with the first page, in the order given, that cannot be had; [`PagerError::Full`] when memory is
    /// full, nothing is on its way that would free any, and nobody releases any.
    pub fn fetch(self: &Arc<Self>, pages: &[PageId]) -> Result<Hold, PagerError> {
        let hold = self.hold(pages);
        let fetch = Arc::new(FetchWake { done: AtomicBool::new(false), pager: self.me.clone() });
        let wake: Arc<dyn Wake> = fetch.clone();
        // A page that was settled and is neither here nor failed is asked for again.
        while self.request(pages, 0, &wake, Priority::Demand) == Requested::Pending {
            let mut stalled: Option<(Instant, Full)> = None;
            while !fetch.done.swap(false, SeqCst) {
                if self.work() {
                    stalled = None;
                    continue;
                }
                match (self.stalled(), stalled) {
                    (None, _) => stalled = None,
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
        match pages.iter().find_map(|id| st.failed.get(id)) {
            Some(e) => Err(e.clone().into()),
            None => {
                drop(st);
                Ok(hold)
            }
        }
    }

    /// Drops what was asked for with `wake` and is wanted by nobody else. Whoever asked is woken, as ever once, when all pages of
    /// the request are settled: at once, unless some of them are being read or wanted by others, too. Does not stop later requests.
    pub fn cancel(&self, wake: &Arc<dyn Wake>) {
        let mut st = self.lock();
        let mine: HashSet<u32> = st.flights.iter().map(|(n, _)| n).filter(|n| st.only_for(*n, wake)).collect();
        // Segments that no source has seen are unstaged; a page of which none was issued is dropped with its memory.
        let staged = std::mem::take(&mut st.staged);
        let mut dropped = Vec::new();
        for s in staged {
            match st.active.get(s.active) {
                Some(a) if a.issued == 0 && mine.contains(&a.flight) => dropped.push(s.active),
                Some(_) => st.staged.push_back(s),
                None => {}
            }
        }
        dropped.dedup();
        for a in dropped {
            if let Some(active) = st.active.remove(a) {
                let flight = active.flight;
                self.release_active(&mut st, active, true);
                self.settle(&mut st, flight, Err(None));
            }
        }
        for &flight in &mine {
            self.abandon(&mut st, flight, None);
        }
        for flight in mine {
            if st.flights.get(flight).is_some_and(|f| f.stage != FlightStage::Started) {
                self.settle(&mut st, flight, Err(None));
            }
        }
        if st.head(true).is_none() {
            // Nobody is left who lacks memory.
            st.starved = false;
            self.starved.store(st.shrinking, SeqCst);
        }
        self.finish(st);
        self.notify();
    }
}

/// What messages call a page.
pub(crate) fn page_name(st: &PagerState, id: PageId) -> String {
    match st.maps.get(id.array.0 as usize) {
        Some(map) => map.page_name(id),
        None => format!("unknown array step {} page {}", id.step, id.page),
    }
}
