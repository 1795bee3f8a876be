//! Pages made of other pages.
//!
//! A derived page has its frame and its scratch reserved in one charge, as any fault has, and then waits for its inputs as pages
//! wait for their shard's index. A worker that finds time ([`Pager::work`]) shows those that are here to the page map, one at a
//! time, each pinned only while it is looked at; when none is left the map makes the page, and it is published as any other.
//!
//! *What keeps it from starving.* Memory of pages that wait for their inputs is memory that the inputs cannot have. So (1) pages
//! being made hold at most a quarter of the limit, but for one and what it is made of; (2) when a page finds no memory and
//! nothing is on its way, the youngest page being made is given up, but for one that waits for it and those that wait for that
//! one in turn, to be begun again, and until one is made no other is begun beside it; (3) inputs that are published for a page
//! stay until it has seen them, which needs no memory. What one page takes, its inputs' own making included, is part of the
//! closure of a step, so that the last one left finds room.

use crate::error::{PageError, PageErrorKind};
use crate::event::Event;
use crate::id::PageId;
use crate::pager::Pager;
use crate::pump::Start;
use crate::state::{FlightStage, PagerState, Translated, Waiter, NONE};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::MutexGuard;
use std::time::Instant;

/// What is left to do for a page that is made of others.
pub(crate) struct Making {
    /// 1. Inputs that were not taken yet.
    pub(crate) wanted: Vec<DerivedInput>,
    /// 2. In `arrived`, or with a worker: then nobody else touches its frame and scratch, nor frees them.
    pub(crate) busy: bool,
    /// 3. Why it will not be made, found out while a worker had it. `None` inside: nobody wants it any more.
    doomed: Option<Option<PageError>>,
    /// Its age: later ones are given up first.
    serial: u64,
    took_ns: u64,
}

/// An input.
pub(crate) struct DerivedInput {
    page: PageId,
    /// Its place in the list of the page map.
    place: u32,
    /// The page waits for its flight.
    awaited: bool,
    /// It was published while the page waited, and is held until it is taken.
    held: bool,
}

impl Pager {
    /// Of a page whose memory is about to be reserved. It is put among what has arrived, so that a worker asks for its inputs.
    pub(crate) fn making(&self, st: &mut PagerState, inputs: Vec<PageId>) -> Box<Making> {
        st.making_serial += 1;
        let wanted = inputs.into_iter().zip(0u32..);
        let wanted = wanted.map(|(page, place)| DerivedInput { page, place, awaited: false, held: false }).collect();
        Box::new(Making { wanted, busy: true, doomed: None, serial: st.making_serial, took_ns: 0 })
    }

    /// Whether a page may be begun now.
    pub(crate) fn may_make(&self, st: &PagerState, flight: u32, bytes: u64) -> bool {
        let fits = !st.alone && st.making_bytes.saturating_add(bytes) <= self.ledger.limit() / 4;
        st.makings == 0 || fits || self.is_input(st, flight)
    }

    /// Whether a page that is being made waits for a flight.
    fn is_input(&self, st: &PagerState, flight: u32) -> bool {
        let mut node = st.flights.get(flight).map_or(NONE, |f| f.waiters);
        while let Some(w) = st.waits.get(node) {
            node = w.next;
            if let Waiter::Flight(other, ticket) = w.to {
                let other = st.flights.get(other).filter(|o| o.ticket == ticket);
                if other.is_some_and(|o| o.making != NONE) {
                    return true;
                }
            }
        }
        false
    }

    /// Takes a page out of its queue until another is made.
    pub(crate) fn park(&self, st: &mut PagerState, flight: u32, job: Translated) -> Start {
        self.unqueue(st, flight);
        if let Some(f) = st.flights.get_mut(flight) {
            f.stage = FlightStage::Parked;
            f.job = Some(Box::new(job));
            let entry = (flight, f.ticket);
            st.parked.push_back(entry);
        }
        Start::Moved
    }

    /// Puts parked pages back to their queues: two for each that has ended, so that as many are made as find room.
    pub(crate) fn unpark(&self, st: &mut PagerState) {
        let mut left = 2;
        while left > 0 {
            let Some((flight, ticket)) = st.parked.pop_front() else { return };
            if st.flights.get(flight).is_some_and(|f| f.ticket == ticket && f.stage == FlightStage::Parked) {
                st.enqueue(flight, false);
                left -= 1;
            }
        }
    }

    /// Gives up the youngest page being made but for one that waits for `wanting`, which finds no memory, and those that wait for
    /// it in turn: of several ways up the one to the oldest is kept, so that what is left in the end is what one page takes.
    /// False if there is none to give up.
    pub(crate) fn give_up(&self, st: &mut PagerState, wanting: u32) -> bool {
        let mut victims: Vec<(u64, u32)> = st
            .active
            .iter()
            .filter_map(|(_, a)| Some((a.making.as_ref().filter(|m| !m.busy)?.serial, a.flight)))
            .collect();
        victims.sort_unstable_by_key(|v| std::cmp::Reverse(v.0));
        let (_, kept) = self.oldest_way(st, wanting);
        let Some((_, victim)) = victims.into_iter().find(|(_, v)| !kept.contains(v)) else { return false };
        let Some(active) = st.flights.get(victim).map(|f| f.making) else { return false };
        self.free_making(st, active);
        st.tally.given_up += 1;
        st.alone = true;
        st.enqueue(victim, false);
        true
    }

    /// The way from a flight up through those that wait for it, to the oldest page being made; with that one's age.
    fn oldest_way(&self, st: &PagerState, from: u32) -> (u64, Vec<u32>) {
        let mut best = (u64::MAX, Vec::new());
        let mut node = st.flights.get(from).map_or(NONE, |f| f.waiters);
        while let Some(w) = st.waits.get(node) {
            node = w.next;
            let Waiter::Flight(other, ticket) = w.to else { continue };
            if st.flights.get(other).is_some_and(|o| o.ticket == ticket) {
                let way = self.oldest_way(st, other);
                if way.0 < best.0 {
                    best = way;
                }
            }
        }
        let making = st.flights.get(from).and_then(|f| st.active.get(f.making)).and_then(|a| a.making.as_ref());
        if let Some(m) = making {
            best.0 = best.0.min(m.serial);
            best.1.push(from);
        }
        best
    }

    /// Whether `to` waits for `from`, through others or not.
    fn leads_to(&self, st: &PagerState, from: u32, to: u32) -> bool {
        if from == to {
            return true;
        }
        let mut node = st.flights.get(from).map_or(NONE, |f| f.waiters);
        while let Some(w) = st.waits.get(node) {
            node = w.next;
            if let Waiter::Flight(other, ticket) = w.to {
                let live = st.flights.get(other).is_some_and(|o| o.ticket == ticket);
                if live && self.leads_to(st, other, to) {
                    return true;
                }
            }
        }
        false
    }

    /// Frees the memory of a page that is being made, and lets go of its inputs.
    fn free_making(&self, st: &mut PagerState, active: u32) {
        let Some(mut a) = st.active.remove(active) else { return };
        for w in a.making.iter_mut().flat_map(|m| m.wanted.iter_mut()).filter(|w| w.held) {
            w.held = false;
            self.unhold(st, w.page);
        }
        self.release_active(st, a, true);
        st.relief += 1;
    }

    /// Ends the making of a page: failed, or wanted by nobody. A worker that has it ends it. Nothing if it is not being made.
    pub(crate) fn abandon(&self, st: &mut PagerState, flight: u32, error: Option<PageError>) {
        let Some(active) = st.flights.get(flight).map(|f| f.making).filter(|a| *a != NONE) else { return };
        let Some(making) = st.active.get_mut(active).and_then(|a| a.making.as_mut()) else { return };
        if making.busy {
            making.doomed.get_or_insert(error);
            return;
        }
        self.free_making(st, active);
        self.settle(st, flight, Err(error));
        self.unpark(st);
    }

    /// An input of a page that is being made is demanded as the page is.
    pub(crate) fn promote_inputs(&self, st: &mut PagerState, flight: u32) {
        let Some(active) = st.flights.get(flight).map(|f| f.making).filter(|a| *a != NONE) else { return };
        let Some(making) = st.active.get(active).and_then(|a| a.making.as_ref()) else { return };
        let awaited: Vec<PageId> = making.wanted.iter().filter(|w| w.awaited).map(|w| w.page).collect();
        for page in awaited {
            if st.flying.contains_key(&page) {
                self.input(st, page, true);
            }
        }
    }

    /// Tells a page that is being made what became of an input. False if `flight` is not being made.
    pub(crate) fn input_settled(
        &self,
        st: &mut PagerState,
        flight: u32,
        input: PageId,
        outcome: &Result<(), Option<PageError>>,
    ) -> bool {
        let Some((active, demand)) = st.flights.get(flight).map(|f| (f.making, f.demand)).filter(|f| f.0 != NONE)
        else {
            return false;
        };
        match outcome {
            // Dropped, but whoever wants this page waits: it is asked for again.
            Err(error) if error.is_some() || !demand => {
                self.abandon(st, flight, error.clone());
                return true;
            }
            _ => {}
        }
        let here = outcome.is_ok();
        let making = st.active.get_mut(active).and_then(|a| a.making.as_mut());
        let Some(making) = making else { return true };
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
            st.arrived.push_back(active);
            self.idlers.add_work(1);
        }
        true
    }

    /// Shows those inputs that are here to the page map, asks for the others, and makes the page when all were shown.
    pub(crate) fn make<'a>(&'a self, mut st: MutexGuard<'a, PagerState>, active: u32) -> bool {
        let begin = Instant::now();
        loop {
            let Some(a) = st.active.get(active) else { return true };
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
            let Some(map) = st.maps.get(id.array.0 as usize).cloned() else { return true };
            let Some((n, input, place, frame)) = here else {
                if making.wanted.is_empty() {
                    break;
                }
                self.want(&mut st, active, flight);
                let took = nanoseconds(begin);
                if let Some(m) = st.active.get_mut(active).and_then(|a| a.making.as_mut()) {
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
            // SAFETY: the input is held, so that it stays, and it is not written while it is resident; the scratch is this page's,
            // which only this thread has taken (invariant 2).
            let taken = unsafe {
                let bytes = std::slice::from_raw_parts(bytes, len);
                let scratch = scratch.map_or(&mut [][..], |(s, len)| std::slice::from_raw_parts_mut(s.ptr, len));
                catch_unwind(AssertUnwindSafe(|| map.take(id, place as usize, bytes, scratch)))
            };
            st = self.lock();
            self.unhold(&mut st, input);
            let Some(making) = st.active.get_mut(active).and_then(|a| a.making.as_mut()) else { return true };
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

        let Some(a) = st.active.get(active) else { return true };
        let (id, page, scratch) = (a.id, (a.ptr, a.len), a.scratch);
        let before = a.making.as_ref().map_or(0, |m| m.took_ns);
        let Some(map) = st.maps.get(id.array.0 as usize).cloned() else { return true };
        drop(st);
        // SAFETY: as above; the frame is not published yet, so nobody else has its memory.
        let (page, scratch) = unsafe {
            (
                std::slice::from_raw_parts_mut(page.0, page.1),
                scratch.map_or(&mut [][..], |(s, len)| std::slice::from_raw_parts_mut(s.ptr, len)),
            )
        };
        let made = catch_unwind(AssertUnwindSafe(|| map.decode(id, &[], scratch, page)))
            .unwrap_or_else(|_| Err(panicked(map.name(), id)));
        self.emit(|| Event::Derive { page: id, took_ns: before + nanoseconds(begin) });
        let st = self.lock();
        self.end_making(st, active, made.map_err(Some))
    }

    /// Publishes a page that was made, or ends it otherwise.
    fn end_making(&self, mut st: MutexGuard<'_, PagerState>, active: u32, made: Result<(), Option<PageError>>) -> bool {
        let Some(a) = st.active.get_mut(active) else { return true };
        let (flight, frame) = (a.flight, a.frame);
        if let Some(m) = &mut a.making {
            m.busy = false;
        }
        match made {
            Ok(()) => {
                if let Some(a) = st.active.remove(active) {
                    self.release_active(&mut st, a, false);
                }
                st.tally.derived += 1;
                st.alone = false;
                self.publish(&mut st, flight, frame);
                self.settle(&mut st, flight, Ok(()));
                self.unpark(&mut st);
            }
            // Nobody wanted it when that was found out; somebody may by now.
            Err(None)
                if st.flights.get(flight).is_some_and(|f| f.demand && f.waiters != NONE)
                    && self.wanted(&st, flight) =>
            {
                self.free_making(&mut st, active);
                st.enqueue(flight, false);
                self.unpark(&mut st);
            }
            Err(error) => self.abandon(&mut st, flight, error),
        }
        self.finish(st);
        true
    }

    /// Whether anybody waits for a flight.
    fn wanted(&self, st: &PagerState, flight: u32) -> bool {
        let mut node = st.flights.get(flight).map_or(NONE, |f| f.waiters);
        while let Some(w) = st.waits.get(node) {
            node = w.next;
            match w.to {
                Waiter::Request(r) if st.requests.get(r).is_some() => return true,
                Waiter::Flight(o, ticket) if st.flights.get(o).is_some_and(|o| o.ticket == ticket) => return true,
                _ => {}
            }
        }
        false
    }

    /// Asks for the inputs that are not here, ahead of what else is queued: what was begun is finished first.
    fn want(&self, st: &mut PagerState, active: u32, flight: u32) {
        let Some((demand, ticket)) = st.flights.get(flight).map(|f| (f.demand, f.ticket)) else { return };
        let Some(making) = st.active.get_mut(active).and_then(|a| a.making.as_mut()) else { return };
        making.busy = false;
        let mut ask = Vec::new();
        for w in making.wanted.iter_mut().filter(|w| !w.awaited) {
            w.awaited = true;
            ask.push(w.page);
        }
        // Whoever found memory full while this page was busy may find that it can be given up.
        st.relief += 1;
        if let Some(error) = ask.iter().find_map(|page| st.failed.get(page).cloned()) {
            return self.abandon(st, flight, Some(error));
        }
        for &page in ask.iter().rev() {
            let known = st.flying.contains_key(&page);
            let input = self.input(st, page, demand);
            if self.leads_to(st, flight, input) {
                let error = PageErrorKind::Decode("it is made of itself".into());
                let error = PageError::new(crate::request::page_name(st, page), error);
                return self.abandon(st, flight, Some(error));
            }
            st.add_waiter(input, Waiter::Flight(flight, ticket));
            let parked = st.flights.get(input).is_some_and(|f| f.stage == FlightStage::Parked);
            if !known || parked {
                st.enqueue(input, true);
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
