//! Derived pages: pages computed from other pages.
//!
//! The frame and the scratch of a derived page are reserved in one charge. The page then waits for its inputs, as a
//! page waits for its shard's index. A free worker ([`Pager::work`]) passes the resident inputs to the page map one at
//! a time. Each is pinned only during that call. After the last input the map computes the page, and it is published as
//! any other.
//!
//! *Why it always ends.* Memory of pages that wait for inputs is missing for the inputs. Three rules bound it:
//!
//! 1. Pages in the making hold at most a quarter of the limit, except one page and its inputs.
//! 2. When a page finds no memory and no page is on its way, the youngest page in the making is dropped and queued
//!    again. One path of pages that wait for the requesting page is spared: the path to the oldest. Until one page is
//!    finished, no other is started beside it.
//! 3. An input published for a page stays until that page has read it, which needs no memory.
//!
//! The closure of a step counts the memory of one derived page and of its inputs' own making. So the last page in the
//! making finds room.

use crate::error::{PageError, PageErrorKind};
use crate::event::Event;
use crate::id::PageId;
use crate::page_state::PageState;
use crate::pager::Pager;
use crate::pump::Start;
use crate::state::PagerState;
use crate::translated::Translated;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::MutexGuard;
use std::time::Instant;

impl Pager {
    /// Whether a derived page may have its memory now.
    pub(crate) fn may_make(&self, st: &PagerState, flight: u32, bytes: u64) -> bool {
        let fits = !st.alone && st.reads.derived_bytes().saturating_add(bytes) <= self.ledger.limit() / 4;
        st.reads.derived() == 0 || fits || self.is_input(st, flight)
    }

    /// Whether a page in the making waits for a flight.
    fn is_input(&self, st: &PagerState, flight: u32) -> bool {
        st.flights.dependents(flight).any(|other| st.making_of(other).is_some())
    }

    /// Takes a page out of its queue until another is made.
    pub(crate) fn park(&self, st: &mut PagerState, flight: u32, job: Translated) -> Start {
        st.flights.park(flight, job);
        Start::Moved
    }

    /// Queues two parked pages for each that has ended, so that as many run as find room.
    pub(crate) fn unpark(&self, st: &mut PagerState) {
        st.flights.unpark(2);
    }

    /// Drops the youngest page in the making, and queues it again. False if there is none to drop.
    ///
    /// `wanting` finds no memory. The pages on one path from it to the oldest page that waits for it are spared. In the
    /// end only the memory of one page and its inputs is left in use.
    pub(crate) fn give_up(&self, st: &mut PagerState, wanting: u32) -> bool {
        let idle = st.reads.all_making().filter(|(_, m)| !m.busy);
        let mut victims: Vec<(u64, u32)> = idle.map(|(flight, m)| (m.serial, flight)).collect();
        victims.sort_unstable_by_key(|v| std::cmp::Reverse(v.0));
        let (_, kept) = self.oldest_way(st, wanting);
        let Some((_, victim)) = victims.into_iter().find(|(_, v)| !kept.contains(v)) else { return false };
        let Some(active) = st.making_of(victim) else { return false };
        self.free_making(st, active);
        st.tally.given_up += 1;
        st.alone = true;
        st.flights.enqueue(victim, false);
        true
    }

    /// The path from a flight through its dependents to the oldest page in the making, and the age of that page.
    fn oldest_way(&self, st: &PagerState, from: u32) -> (u64, Vec<u32>) {
        let mut best = (u64::MAX, Vec::new());
        for other in st.flights.dependents(from) {
            let way = self.oldest_way(st, other);
            if way.0 < best.0 {
                best = way;
            }
        }
        if let Some(m) = st.making_of(from).and_then(|active| st.reads.making(active)) {
            best.0 = best.0.min(m.serial);
            best.1.push(from);
        }
        best
    }

    /// Frees the memory of a page in the making, and releases its inputs.
    fn free_making(&self, st: &mut PagerState, active: u32) {
        let Some(mut a) = st.reads.end(active) else { return };
        for w in a.making.iter_mut().flat_map(|m| m.wanted.iter_mut()).filter(|w| w.held) {
            w.held = false;
            self.unhold(st, w.page);
        }
        self.release_active(st, a, true);
        st.relief += 1;
    }

    /// Ends the making of a page that failed or that no task waits for. If a worker is computing the page, that worker
    /// ends it. Does nothing for other pages.
    pub(crate) fn abandon(&self, st: &mut PagerState, flight: u32, error: Option<PageError>) {
        let Some(active) = st.making_of(flight) else { return };
        let Some(making) = st.reads.making_mut(active) else { return };
        if making.busy {
            making.doomed.get_or_insert(error);
            return;
        }
        self.free_making(st, active);
        self.settle(st, flight, Err(error));
        self.unpark(st);
    }

    /// Demands the inputs of a page in the making that is demanded itself.
    pub(crate) fn promote_inputs(&self, st: &mut PagerState, flight: u32) {
        let Some(active) = st.making_of(flight) else { return };
        let Some(making) = st.reads.making(active) else { return };
        let awaited: Vec<PageId> = making.wanted.iter().filter(|w| w.awaited).map(|w| w.page).collect();
        for page in awaited {
            if st.flights.of(page).is_some() {
                self.input(st, page, true);
            }
        }
    }

    /// Notes for a page in the making that an input is settled. False if `flight` is not being made.
    pub(crate) fn input_settled(
        &self,
        st: &mut PagerState,
        flight: u32,
        input: PageId,
        outcome: &Result<(), Option<PageError>>,
    ) -> bool {
        let Some(active) = st.making_of(flight) else { return false };
        let demand = st.flights.get(flight).is_some_and(|f| f.demand());
        match outcome {
            // Dropped, but this page is demanded: the input is requested again.
            Err(error) if error.is_some() || !demand => {
                self.abandon(st, flight, error.clone());
                return true;
            }
            _ => {}
        }
        let here = outcome.is_ok();
        let Some(making) = st.reads.making_mut(active) else { return true };
        let queue = !making.busy;
        making.busy = true;
        let mut hold = false;
        for w in making.wanted.iter_mut().filter(|w| w.page == input) {
            w.awaited = false;
            hold = here && !w.held;
            w.held |= here;
        }
        if hold {
            self.hold_one(st, input);
        }
        if queue {
            st.reads.arrive_again(active);
            st.flights.go(flight, PageState::Arrived);
            self.idlers.add_work(1);
        }
        true
    }

    /// Passes the resident inputs to the page map and requests the others. Computes the page after the last input.
    pub(crate) fn make<'a>(&'a self, mut st: MutexGuard<'a, PagerState>, active: u32) -> bool {
        let begin = Instant::now();
        if let Some(flight) = st.reads.get(active).map(|a| a.flight) {
            st.flights.go(flight, PageState::Making);
        }
        loop {
            let Some(a) = st.reads.get(active) else { return true };
            let (id, flight) = (a.id, a.flight);
            let Some(making) = a.making.as_ref() else { return true };
            if let Some(error) = making.doomed.clone() {
                return self.end_making(st, active, Err(error));
            }
            let here = making.wanted.iter().enumerate().find_map(|(n, w)| {
                let frame = self.frames.get(self.table.find(w.page, &self.frames)?)?;
                Some((n, w.page, w.place, frame))
            });
            let scratch = a.scratch;
            let Some(map) = st.map(id).cloned() else { return true };
            let Some((n, input, place, frame)) = here else {
                if making.wanted.is_empty() {
                    break;
                }
                self.want(&mut st, active, flight);
                let took = nanoseconds(begin);
                if let Some(m) = st.reads.making_mut(active) {
                    m.took_ns += took;
                }
                self.finish(st);
                return true;
            };
            self.note_use(frame);
            self.emit(|| Event::Use { page: input });
            let (bytes, len) = frame.bytes();
            self.hold_one(&mut st, input);
            st.tally.hits += 1;
            drop(st);
            // SAFETY: the input is held, so it stays, and a resident page is not written. The scratch belongs to this
            // page, which only this thread has (invariant 2).
            let taken = unsafe {
                let bytes = std::slice::from_raw_parts(bytes, len);
                let scratch = scratch.map_or(&mut [][..], |(s, len)| std::slice::from_raw_parts_mut(s.ptr, len));
                catch_unwind(AssertUnwindSafe(|| map.take(id, place as usize, bytes, scratch)))
            };
            st = self.lock();
            self.unhold(&mut st, input);
            let Some(making) = st.reads.making_mut(active) else { return true };
            let w = making.wanted.swap_remove(n);
            match taken {
                Ok(Ok(())) => {}
                Ok(Err(error)) => making.doomed = Some(Some(error)),
                Err(_) => making.doomed = Some(Some(panicked(map.name(), id))),
            }
            if w.held {
                self.unhold(&mut st, input);
            }
        }

        let Some(a) = st.reads.get(active) else { return true };
        let (id, page, scratch) = (a.id, (a.ptr, a.len), a.scratch);
        let before = a.making.as_ref().map_or(0, |m| m.took_ns);
        let Some(map) = st.map(id).cloned() else { return true };
        drop(st);
        // SAFETY: as above. The frame is not published yet, so no other thread accesses it.
        let (page, scratch) = unsafe {
            (
                std::slice::from_raw_parts_mut(page.0, page.1),
                scratch.map_or(&mut [][..], |(s, len)| std::slice::from_raw_parts_mut(s.ptr, len)),
            )
        };
        let made = catch_unwind(AssertUnwindSafe(|| map.decode(id, &[], &[], scratch, page)))
            .unwrap_or_else(|_| Err(panicked(map.name(), id)));
        self.emit(|| Event::Derive { page: id, took_ns: before + nanoseconds(begin) });
        let st = self.lock();
        self.end_making(st, active, made.map_err(Some))
    }

    /// Publishes a computed page, or ends its flight with an error.
    fn end_making(&self, mut st: MutexGuard<'_, PagerState>, active: u32, made: Result<(), Option<PageError>>) -> bool {
        let Some(a) = st.reads.get_mut(active) else { return true };
        let (flight, frame) = (a.flight, a.frame);
        if let Some(m) = &mut a.making {
            m.busy = false;
        }
        match made {
            Ok(()) => {
                if let Some(a) = st.reads.end(active) {
                    self.release_active(&mut st, a, false);
                }
                st.tally.derived += 1;
                st.alone = false;
                self.publish(&mut st, flight, frame);
                self.settle(&mut st, flight, Ok(()));
                self.unpark(&mut st);
            }
            // No task waited for the page when it was doomed; one may wait by now.
            Err(None) if st.flights.get(flight).is_some_and(|f| f.demand()) && st.flights.is_awaited(flight) => {
                self.free_making(&mut st, active);
                st.flights.enqueue(flight, false);
                self.unpark(&mut st);
            }
            Err(error) => self.abandon(&mut st, flight, error),
        }
        self.finish(st);
        true
    }

    /// Requests the absent inputs at the front of the queue, so that started pages are finished first.
    fn want(&self, st: &mut PagerState, active: u32, flight: u32) {
        let Some(demand) = st.flights.get(flight).map(|f| f.demand()) else { return };
        let Some(making) = st.reads.making_mut(active) else { return };
        making.busy = false;
        let mut ask = Vec::new();
        for w in making.wanted.iter_mut().filter(|w| !w.awaited) {
            w.awaited = true;
            ask.push(w.page);
        }
        // A page that found memory full while this one was busy may drop it now.
        st.relief += 1;
        if let Some(error) = ask.iter().find_map(|page| st.flights.failure(*page).cloned()) {
            return self.abandon(st, flight, Some(error));
        }
        for &page in ask.iter().rev() {
            let known = st.flights.of(page).is_some();
            let input = self.input(st, page, demand);
            if st.flights.leads_to(flight, input) {
                let error = PageErrorKind::Decode("it is made of itself".into());
                let error = PageError::new(st.page_name(page), error);
                return self.abandon(st, flight, Some(error));
            }
            st.flights.add_dependent(input, flight);
            let parked = st.flights.get(input).is_some_and(|f| f.state() == PageState::Parked);
            if !known || parked {
                st.flights.enqueue(input, true);
            }
        }
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn panicked(name: &str, id: PageId) -> PageError {
    PageError::new(format!("{name} page {}", id.page), PageErrorKind::Decode("making it panicked".into()))
}
