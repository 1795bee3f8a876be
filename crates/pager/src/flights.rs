//! Flights: pages on their way, their waiters, and their queues.
//!
//! A requested page that is neither resident nor failed has one *flight*. All requests of the page wait on that flight,
//! so it is read once. A flight ends when its page is resident, failed or absent again.

use crate::error::PageError;
use crate::id::PageId;
use crate::page_hash::PageHash;
use crate::page_state::{PageState, Transitions};
use crate::priority::Wake;
use crate::slab::SlotMap;
use crate::translated::Translated;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the failure of a server stands for its page. Tasks that need the page meanwhile see it without another try.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// A page on its way.
pub(crate) struct Flight {
    id: PageId,
    state: PageState,
    demand: bool,
    ticket: u64,
    /// Head of the list of waiters in `Flights::waits`.
    waiters: u32,
    /// Its read starts ahead of any use.
    pub(crate) prefetched: bool,
    /// Its read was withdrawn, and nobody has asked for the page since.
    pub(crate) withdrawn: bool,
    /// The index page that it waits for or that is resident for it. It is held until the translation is repeated.
    /// Otherwise the pages that need the index could evict it.
    pub(crate) index: Option<PageId>,
    /// Another page waits for this one as its index.
    pub(crate) is_index: bool,
    pub(crate) hops: u8,
    /// The entry in `Reads` of a derived page with memory, else `NONE`.
    pub(crate) making: u32,
    pub(crate) job: Option<Box<Translated>>,
}

impl Flight {
    pub(crate) fn id(&self) -> PageId {
        self.id
    }

    pub(crate) fn state(&self) -> PageState {
        self.state
    }

    /// Whether a task waits for the page.
    pub(crate) fn demand(&self) -> bool {
        self.demand
    }

    /// Head of the list of waiters, for [`Flights::take_waiter`].
    pub(crate) fn waiters(&self) -> u32 {
        self.waiters
    }
}

/// A waiter of a flight.
#[derive(Copy, Clone, Debug)]
pub(crate) enum Waiter {
    Request(u32),
    /// A flight and its ticket at that time. A cancelled flight's place may be reused.
    Flight(u32, u64),
}

struct WaitNode {
    to: Waiter,
    next: u32,
}

struct Request {
    token: u64,
    wake: Arc<dyn Wake>,
    /// Pages that are not settled yet.
    left: u32,
}

/// A flight and its ticket.
type Entry = (u32, u64);

/// All flights, their waiters and queues, and the pages that failed.
#[derive(Default)]
pub(crate) struct Flights {
    /// 1. The state of a flight changes in [`Flights::go`] alone, along the table of [`PageState::next`].
    flights: SlotMap<Flight>,
    /// 2. Exactly the flights of `flights`, by page. A page in here is neither in the page table nor in `failed`.
    flying: HashMap<PageId, u32, PageHash>,
    /// 3. Each request counts its waiters in `waits`, and is removed with the last of them.
    requests: SlotMap<Request>,
    waits: SlotMap<WaitNode>,
    /// 4. A flight gets a new ticket each time it is queued. A queue entry or a waiter is valid only with the flight's
    ///    current ticket. So a promoted flight leaves a dead entry in `prefetch`.
    tickets: u64,
    /// 5. First in, first out. The head blocks the rest while memory is full, so small pages cannot overtake a large
    ///    one for ever.
    demand: VecDeque<Entry>,
    /// 6. Its head is used only when `demand` is empty.
    prefetch: VecDeque<Entry>,
    /// 7. All parked flights, in order of arrival.
    parked: VecDeque<Entry>,
    failed: HashMap<PageId, PageError, PageHash>,
    /// When failures that may pass are forgotten, if there are any.
    retry_at: Option<Instant>,
    first_failure: Option<PageError>,
    /// The last failure that ends a run, and how many there were.
    ending: Option<PageError>,
    endings: u64,
    transitions: Transitions,
}

impl Flights {
    pub(crate) fn get(&self, flight: u32) -> Option<&Flight> {
        self.flights.get(flight)
    }

    pub(crate) fn get_mut(&mut self, flight: u32) -> Option<&mut Flight> {
        self.flights.get_mut(flight)
    }

    /// The flight of a page.
    pub(crate) fn of(&self, page: PageId) -> Option<u32> {
        self.flying.get(&page).copied()
    }

    /// Starts the flight of an absent page, at the end of its queue.
    pub(crate) fn begin(&mut self, id: PageId, demand: bool) -> u32 {
        self.transitions.go(PageState::Absent, PageState::Queued);
        let flight = self.flights.insert(Flight {
            id,
            state: PageState::Queued,
            demand,
            ticket: 0,
            waiters: NONE,
            prefetched: !demand,
            withdrawn: false,
            index: None,
            is_index: false,
            hops: 0,
            making: NONE,
            job: None,
        });
        self.flying.insert(id, flight);
        self.enqueue(flight, false);
        flight
    }

    pub(crate) fn go(&mut self, flight: u32, to: PageState) {
        if let Some(f) = self.flights.get_mut(flight) {
            self.transitions.go(f.state, to);
            f.state = to;
        }
    }

    /// Ends a flight whose page is resident, or becomes failed or absent. The caller removes its waiters.
    pub(crate) fn end(&mut self, flight: u32, to: PageState) -> Option<Flight> {
        if to != PageState::Resident {
            self.go(flight, to);
        }
        let f = self.flights.remove(flight)?;
        debug_assert_eq!(f.state, to, "{:?}", f.id);
        self.flying.remove(&f.id);
        Some(f)
    }

    /// Marks the page as demanded. False if it was before.
    pub(crate) fn promote(&mut self, flight: u32) -> bool {
        self.flights.get_mut(flight).is_some_and(|f| !std::mem::replace(&mut f.demand, true))
    }

    /// Queues a flight; `front` for one that has waited already.
    pub(crate) fn enqueue(&mut self, flight: u32, front: bool) {
        self.tickets += 1;
        let ticket = self.tickets;
        let Some(f) = self.flights.get_mut(flight) else { return };
        f.ticket = ticket;
        if f.state != PageState::Queued {
            self.transitions.go(f.state, PageState::Queued);
            f.state = PageState::Queued;
        }
        let queue = if f.demand { &mut self.demand } else { &mut self.prefetch };
        if front {
            queue.push_front((flight, ticket));
        } else {
            queue.push_back((flight, ticket));
        }
    }

    /// Removes a flight from the front of its queue. An entry elsewhere becomes dead with the change of state.
    pub(crate) fn unqueue(&mut self, flight: u32) {
        for queue in [&mut self.demand, &mut self.prefetch] {
            if queue.front().is_some_and(|e| e.0 == flight) {
                queue.pop_front();
            }
        }
    }

    /// The flight at the front of a queue. Dead entries are dropped.
    pub(crate) fn head(&mut self, demand: bool) -> Option<u32> {
        loop {
            let queue = if demand { &mut self.demand } else { &mut self.prefetch };
            let &(flight, ticket) = queue.front()?;
            match self.flights.get(flight) {
                Some(f) if f.ticket == ticket && f.state == PageState::Queued => return Some(flight),
                _ => {
                    queue.pop_front();
                }
            }
        }
    }

    /// Whether a queue has entries, dead ones included.
    pub(crate) fn queued(&self, demand: bool) -> bool {
        !if demand { &self.demand } else { &self.prefetch }.is_empty()
    }

    /// Removes a flight from its queue until its index page is resident.
    pub(crate) fn await_index(&mut self, flight: u32, index: PageId) {
        self.unqueue(flight);
        self.go(flight, PageState::NeedsIndex);
        if let Some(f) = self.flights.get_mut(flight) {
            f.index = Some(index);
        }
    }

    /// Removes a flight from its queue until another derived page ends.
    pub(crate) fn park(&mut self, flight: u32, job: Translated) {
        self.unqueue(flight);
        self.go(flight, PageState::Parked);
        if let Some(f) = self.flights.get_mut(flight) {
            f.job = Some(Box::new(job));
            self.parked.push_back((flight, f.ticket));
        }
    }

    /// Queues up to `most` parked flights again.
    pub(crate) fn unpark(&mut self, most: usize) {
        let mut left = most;
        while left > 0 {
            let Some((flight, ticket)) = self.parked.pop_front() else { return };
            if self.flights.get(flight).is_some_and(|f| f.ticket == ticket && f.state == PageState::Parked) {
                self.enqueue(flight, false);
                left -= 1;
            }
        }
    }

    /// Whether `parked` has entries, dead ones included.
    pub(crate) fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// A request that no page belongs to yet.
    pub(crate) fn add_request(&mut self, token: u64, wake: Arc<dyn Wake>) -> u32 {
        self.requests.insert(Request { token, wake, left: 0 })
    }

    /// Adds a request to the waiters of a flight.
    pub(crate) fn add_to_request(&mut self, request: u32, flight: u32) {
        if let Some(r) = self.requests.get_mut(request) {
            r.left += 1;
            self.add_waiter(flight, Waiter::Request(request));
        }
    }

    /// Adds a flight to the waiters of another, with its current ticket.
    pub(crate) fn add_dependent(&mut self, flight: u32, dependent: u32) {
        if let Some(ticket) = self.flights.get(dependent).map(|f| f.ticket) {
            self.add_waiter(flight, Waiter::Flight(dependent, ticket));
        }
    }

    fn add_waiter(&mut self, flight: u32, to: Waiter) {
        let Some(f) = self.flights.get_mut(flight) else { return };
        f.waiters = self.waits.insert(WaitNode { to, next: f.waiters });
    }

    /// Removes a waiter from the list of an ended flight, and moves `node` to the next one.
    pub(crate) fn take_waiter(&mut self, node: &mut u32) -> Option<Waiter> {
        let w = self.waits.remove(*node)?;
        *node = w.next;
        Some(w.to)
    }

    /// Settles one page of a request. Returns the request's wake and token after the last page.
    pub(crate) fn settle_request(&mut self, request: u32) -> Option<(Arc<dyn Wake>, u64)> {
        let r = self.requests.get_mut(request)?;
        r.left -= 1;
        if r.left > 0 {
            return None;
        }
        self.requests.remove(request).map(|r| (r.wake, r.token))
    }

    /// Whether a waiting flight still has this ticket.
    pub(crate) fn waits(&self, flight: u32, ticket: u64) -> bool {
        self.flights.get(flight).is_some_and(|f| f.ticket == ticket)
    }

    fn waiters(&self, flight: u32) -> impl Iterator<Item = Waiter> + '_ {
        let mut node = self.flights.get(flight).map_or(NONE, |f| f.waiters);
        std::iter::from_fn(move || {
            let w = self.waits.get(node)?;
            node = w.next;
            Some(w.to)
        })
    }

    /// Flights that wait for a flight as their index or their input.
    pub(crate) fn dependents(&self, flight: u32) -> impl Iterator<Item = u32> + '_ {
        self.waiters(flight).filter_map(|w| match w {
            Waiter::Flight(other, ticket) if self.waits(other, ticket) => Some(other),
            _ => None,
        })
    }

    /// Whether a flight has waiters.
    pub(crate) fn is_awaited(&self, flight: u32) -> bool {
        self.waiters(flight).any(|w| match w {
            Waiter::Request(r) => self.requests.get(r).is_some(),
            Waiter::Flight(other, ticket) => self.waits(other, ticket),
        })
    }

    /// Whether `to` waits for `from`, directly or not.
    pub(crate) fn leads_to(&self, from: u32, to: u32) -> bool {
        from == to || self.dependents(from).any(|other| self.leads_to(other, to))
    }

    /// The flights with waiters, all of which have this wake.
    pub(crate) fn only_for(&self, wake: &Arc<dyn Wake>) -> HashSet<u32> {
        self.flights.iter().map(|(n, _)| n).filter(|n| self.is_only_for(*n, wake)).collect()
    }

    fn is_only_for(&self, flight: u32, wake: &Arc<dyn Wake>) -> bool {
        let mut any = false;
        for w in self.waiters(flight) {
            let mine = match w {
                Waiter::Request(r) => {
                    self.requests.get(r).map(|r| std::ptr::addr_eq(Arc::as_ptr(&r.wake), Arc::as_ptr(wake)))
                }
                Waiter::Flight(other, ticket) => self.waits(other, ticket).then(|| self.is_only_for(other, wake)),
            };
            match mine {
                Some(false) => return false,
                Some(true) => any = true,
                None => {}
            }
        }
        any
    }

    pub(crate) fn failure(&self, page: PageId) -> Option<&PageError> {
        self.failed.get(&page)
    }

    /// The error of the first page that failed since the pager was made.
    pub(crate) fn first_failure(&self) -> Option<&PageError> {
        self.first_failure.as_ref()
    }

    /// The number of failures so far that end a run, and the last one.
    pub(crate) fn ending(&self) -> (u64, Option<&PageError>) {
        (self.endings, self.ending.as_ref())
    }

    /// Stores the error of a page whose flight has ended as failed. False if it had one.
    pub(crate) fn fail(&mut self, page: PageId, error: &PageError) -> bool {
        if error.kind.ends_run() {
            self.ending = Some(error.clone());
            self.endings += 1;
        }
        if error.kind.is_transient() {
            self.retry_at.get_or_insert_with(|| Instant::now() + RETRY_AFTER);
        }
        self.first_failure.get_or_insert_with(|| error.clone());
        self.failed.insert(page, error.clone()).is_none()
    }

    /// Makes pages absent again whose failures may have passed. Returns their number.
    pub(crate) fn forget_passed(&mut self) -> usize {
        match self.retry_at {
            Some(at) if at <= Instant::now() => {
                self.retry_at = None;
                self.forget_failures(|error| error.kind.is_transient())
            }
            _ => 0,
        }
    }

    /// Makes the failed pages with a `forgotten` error absent again. Returns their number.
    pub(crate) fn forget_failures(&mut self, forgotten: impl Fn(&PageError) -> bool) -> usize {
        let before = self.failed.len();
        self.failed.retain(|_, error| {
            let gone = forgotten(error);
            if gone {
                self.transitions.go(PageState::Failed, PageState::Absent);
            }
            !gone
        });
        before - self.failed.len()
    }

    /// Bytes of lists, queues and maps.
    pub(crate) fn bytes(&self) -> usize {
        self.flights.bytes()
            + self.requests.bytes()
            + self.waits.bytes()
            + (self.demand.capacity() + self.prefetch.capacity() + self.parked.capacity()) * size_of::<Entry>()
            + self.flying.capacity() * 32
            // The message of a failed page is beside its place in the map.
            + self.failed.capacity() * 160
    }

    /// Whether there is no flight and no request.
    pub(crate) fn is_empty(&self) -> bool {
        self.flights.len() == 0 && self.requests.len() == 0 && self.waits.len() == 0
    }

    /// Frees the memory of empty lists.
    pub(crate) fn trim(&mut self) {
        debug_assert!(self.is_empty());
        self.flights = SlotMap::default();
        self.flying = HashMap::default();
        self.requests = SlotMap::default();
        self.waits = SlotMap::default();
        self.demand = VecDeque::new();
        self.prefetch = VecDeque::new();
        self.parked = VecDeque::new();
    }

    /// The transitions that happened.
    #[cfg(test)]
    pub(crate) fn transitions(&self) -> &Transitions {
        &self.transitions
    }
}
