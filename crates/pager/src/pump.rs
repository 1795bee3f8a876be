//! From the queues to the sources: translating pages, reserving their memory, keeping reads in flight.

use crate::error::{PageError, PageErrorKind};
use crate::event::Event;
use crate::evict::NoRoom;
use crate::id::{PageId, SourceId};
use crate::join::{staged_segment, widen, Runs};
use crate::map::{Extent, ExtentTarget, Located};
use crate::pager::Pager;
use crate::policy::Need;
use crate::request::page_name;
use crate::source::{Completion, Read, Source};
use crate::state::{Active, FlightStage, PagerState, Translated, Waiter};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{fence, Ordering::*};
use std::sync::{Arc, MutexGuard};

/// Pages whose reads are sorted and joined at a time, for each reader.
const WINDOW_PER_READER: usize = 4;
/// Translations of one page that may each ask for another index page. Formats have one or two levels.
const MAX_HOPS: u8 = 8;

/// What became of a queued page.
pub(crate) enum Start {
    /// Its reads are staged.
    Started,
    /// It left the queue otherwise.
    Moved,
    /// It stays where it is until there is memory.
    Full,
}

impl Pager {
    /// Starts as many reads as may be in flight. Called after anything that could allow one: a request, an arrival, a page
    /// published, memory released.
    pub(crate) fn pump(&self) {
        let mut st = self.lock();
        if st.pumping {
            st.again = true;
            return;
        }
        st.pumping = true;
        loop {
            st.again = false;
            let batches = self.gather(&mut st);
            let wakes = std::mem::take(&mut st.wakes);
            if batches.is_empty() && wakes.is_empty() {
                if st.again {
                    continue;
                }
                st.pumping = false;
                return;
            }
            drop(st);
            if !batches.is_empty() {
                if let Some(me) = self.me.upgrade() {
                    let done: Arc<dyn Completion> = me;
                    for (source, reads) in batches {
                        source.submit(reads, &done);
                    }
                    self.idlers.lead(&self.files);
                }
            }
            self.call(wakes);
            st = self.lock();
        }
    }

    /// Completes what has arrived at the file reader, if it leaves that to its callers, and then starts reads for all the free
    /// places at once: the system takes a group of reads in about the time of one.
    pub(crate) fn reap(&self) {
        if !self.files.ready() {
            return;
        }
        let mine = !std::mem::replace(&mut self.lock().pumping, true);
        self.files.poll();
        if mine {
            self.lock().pumping = false;
        }
        self.pump();
    }

    /// Releases the lock, then calls the wakes that came up under it, then starts what can be started now.
    pub(crate) fn finish(&self, mut st: MutexGuard<'_, PagerState>) {
        let wakes = std::mem::take(&mut st.wakes);
        let more = !st.demand.is_empty() || !st.prefetch.is_empty() || !st.staged.is_empty() || st.shrinking;
        let more = more || !st.parked.is_empty() && st.makings == 0;
        drop(st);
        self.call(wakes);
        if more {
            self.pump();
        }
    }

    fn call(&self, wakes: Vec<(Arc<dyn crate::request::Wake>, u64)>) {
        for (wake, token) in wakes {
            self.emit(|| Event::Resume { token });
            wake.wake(token);
        }
    }

    /// Reads to submit now, by source.
    fn gather(&self, st: &mut PagerState) -> Vec<(Arc<dyn Source>, Vec<Read>)> {
        let mut batches: Vec<(SourceId, Vec<Read>)> = Vec::new();
        if st.shrinking {
            self.shrink(st);
        }
        // With a backlog of pages to decode, decoding comes first: whoever pumps is a worker, and what was just read is still in
        // its caches. Between the two bounds reads are started in groups rather than one by one. The upper one is above what a
        // short queue holds: else all of it arrives, and the disk waits until half is decoded (48 KiB, 16 readers: 70 us a page,
        // not 56).
        let most = self.readers.max(32);
        if st.arrived.len() >= most {
            st.backlog = true;
        } else if st.arrived.len() <= most / 2 {
            st.backlog = false;
        }
        while !st.backlog {
            if st.in_flight >= self.readers {
                break;
            }
            if st.staged.is_empty() && !self.stage(st) {
                break;
            }
            let Some((source, read)) = self.next_read(st) else { continue };
            match batches.iter_mut().find(|(s, _)| *s == source) {
                Some((_, reads)) => reads.push(read),
                None => batches.push((source, vec![read])),
            }
        }
        self.book(st);
        batches.into_iter().filter_map(|(s, reads)| Some((st.sources.get(s.0 as usize)?.clone(), reads))).collect()
    }

    fn shrink(&self, st: &mut PagerState) {
        self.starved.store(true, SeqCst);
        fence(SeqCst);
        if self.make_room(st, 0).is_ok() {
            st.shrinking = false;
            self.starved.store(st.starved, SeqCst);
        } else {
            self.pressure.fetch_add(1, SeqCst);
        }
    }

    /// Moves pages from the queues to the staged segments, in the order of their places in the sources. False if none could be.
    fn stage(&self, st: &mut PagerState) -> bool {
        let window = WINDOW_PER_READER * self.readers.clamp(4, 64);
        let mut staged = 0;
        if st.makings == 0 {
            self.unpark(st);
        }
        while staged < window {
            // What is reserved cannot be evicted: leave most of the memory to pages in use.
            if st.active_bytes > self.ledger.limit() / 4 {
                break;
            }
            if st.refused_at == Some(st.relief) {
                break;
            }
            let Some(flight) = st.head(true) else { break };
            match self.start(st, flight, Need::Demand) {
                Start::Started => staged += 1,
                Start::Moved => {}
                Start::Full => {
                    st.refused_at = Some(st.relief);
                    break;
                }
            }
        }
        if staged == 0 && st.demand.is_empty() {
            // As many reads as may be under way, and half of what may be reserved: a page demanded a moment later must not queue behind
            // prefetches.
            let free = self.readers.saturating_sub(st.in_flight);
            let block = self.files.direct_block();
            let (mut runs, mut last, mut seen) = (Runs::default(), None, 0);
            while st.active_bytes <= self.ledger.limit() / 8 && staged < window && runs.reads() <= free {
                let Some(flight) = st.head(false) else { break };
                let id = st.flights.get(flight).map(|f| f.id);
                // A page behind the last one is read with it, as a rule.
                let goes_on = id.zip(last).is_some_and(|(id, last)| follows(id, last));
                if runs.reads() == free && !goes_on {
                    break;
                }
                match self.start(st, flight, Need::Prefetch) {
                    Start::Started => {
                        staged += 1;
                        last = id;
                        st.staged.range(seen..).for_each(|segment| runs.add(segment, block));
                        seen = st.staged.len();
                    }
                    Start::Moved => {}
                    Start::Full => {
                        st.tally.prefetch_dropped += 1;
                        st.prefetch.pop_front();
                        self.settle(st, flight, Err(None));
                    }
                }
            }
        }
        st.staged.make_contiguous().sort_unstable_by_key(|s| (s.source, s.offset, s.active, s.segment));
        staged > 0
    }

    /// Translates a queued page and reserves its memory.
    fn start(&self, st: &mut PagerState, flight: u32, need: Need) -> Start {
        let Some(f) = st.flights.get_mut(flight) else { return Start::Moved };
        let id = f.id;
        let job = match f.job.take() {
            Some(job) => *job,
            None => match self.translate(st, flight, id) {
                Ok(job) => job,
                Err(moved) => return moved,
            },
        };
        let Some(map) = st.maps.get(id.array.0 as usize) else { return Start::Moved };
        let [encoded, scratch] = job.buffers();
        let sizes = [map.page_bytes(id), encoded, scratch];
        if job.inputs.is_some() && !self.may_make(st, flight, sizes.iter().map(|s| *s as u64).sum()) {
            return self.park(st, flight, job);
        }
        let mut reserved = self.reserve(st, sizes, id, need);
        while matches!(reserved, Err(NoRoom::Full)) && need == Need::Demand && st.quiet() && self.give_up(st, flight) {
            reserved = self.reserve(st, sizes, id, need);
        }
        let reserved = reserved.or_else(|e| match e {
            NoRoom::Full if need == Need::Demand && st.quiet() && !st.starved => {
                // Nothing is on its way that would make room: say so, and look once more, now that whoever releases
                // something between the first look and the flag knows that somebody waits.
                st.starved = true;
                st.tally.full += 1;
                self.starved.store(true, SeqCst);
                fence(SeqCst);
                self.emit(|| Event::Full { page: id, needs: sizes.iter().map(|s| *s as u64).sum() });
                self.reserve(st, sizes, id, need)
            }
            e => Err(e),
        });
        let reserved = match reserved {
            Ok(r) => r,
            Err(NoRoom::Full) => {
                if let Some(f) = st.flights.get_mut(flight) {
                    f.job = Some(Box::new(job));
                }
                if need == Need::Demand && st.quiet() {
                    self.pressure.fetch_add(1, SeqCst);
                }
                return Start::Full;
            }
            Err(NoRoom::TooLarge { needs, limit }) => {
                return self.fail(st, flight, id, PageErrorKind::TooLarge { needs, limit })
            }
            Err(NoRoom::System(e)) => return self.fail(st, flight, id, PageErrorKind::Exhausted(e)),
        };
        if need == Need::Demand && st.starved {
            st.starved = false;
            self.starved.store(st.shrinking, SeqCst);
        }
        if need == Need::Prefetch {
            st.tally.prefetched += 1;
            self.emit(|| Event::PrefetchIssued { page: id });
        }
        self.unqueue(st, flight);
        let left = job.segments.len() as u32;
        let active = Active {
            flight,
            id,
            frame: reserved.frame,
            ptr: reserved.slot.ptr,
            len: sizes[0],
            encoded: job.encoded(reserved.encoded),
            body: job.body,
            moved: job.moved,
            scratch: reserved.scratch.map(|s| (s, job.scratch_len)),
            segments: job.segments,
            left,
            issued: 0,
            fill: job.fill,
            error: None,
            attempts: 0,
            making: job.inputs.map(|inputs| self.making(st, inputs)),
        };
        st.heap_bytes += active.heap_bytes();
        let (bytes, makes) = (active.reserved_bytes(), active.making.is_some());
        let active = st.active.insert(active);
        if makes {
            st.making_bytes += bytes;
            st.makings += 1;
            if let Some(f) = st.flights.get_mut(flight) {
                f.making = active;
            }
        } else {
            st.active_bytes += bytes;
        }
        if left == 0 {
            st.arrived.push_back(active);
            self.idlers.add_work(1);
        }
        let PagerState { active: actives, staged, .. } = st;
        if let Some(a) = actives.get(active) {
            staged.extend((0..a.segments.len()).filter_map(|i| staged_segment(active, i, &a.segments, false)));
        }
        Start::Started
    }

    pub(crate) fn unqueue(&self, st: &mut PagerState, flight: u32) {
        if let Some(f) = st.flights.get_mut(flight) {
            f.stage = FlightStage::Started;
        }
        // The entry is at the front of its queue; if it is not, it is dead now and dropped when it comes up.
        for queue in [&mut st.demand, &mut st.prefetch] {
            if queue.front().is_some_and(|e| e.0 == flight) {
                queue.pop_front();
            }
        }
    }

    fn fail(&self, st: &mut PagerState, flight: u32, id: PageId, kind: PageErrorKind) -> Start {
        let error = PageError::new(page_name(st, id), kind);
        self.unqueue(st, flight);
        self.settle(st, flight, Err(Some(error)));
        Start::Moved
    }

    /// Asks the page map where the page lies. On the way the flight may move to wait for an index page, or fail.
    fn translate(&self, st: &mut PagerState, flight: u32, id: PageId) -> Result<Translated, Start> {
        let Some(map) = st.maps.get(id.array.0 as usize).cloned() else {
            return Err(self.fail(st, flight, id, PageErrorKind::Decode("no such array".into())));
        };
        if id.page >= map.pages() {
            let kind = PageErrorKind::Decode(format!("no such page: there are {}", map.pages()));
            return Err(self.fail(st, flight, id, kind));
        }
        let mut index = |page: PageId| -> Option<*const [u8]> {
            // Under the lock nothing is evicted, so the bytes stay for as long as the map may look at them.
            let f = self.frames.get(self.table.find(page, &self.frames)?)?;
            self.note_use(f);
            self.emit(|| Event::Use { page });
            let (ptr, len) = f.bytes();
            Some(std::ptr::slice_from_raw_parts(ptr, len))
        };
        let located = catch_unwind(AssertUnwindSafe(|| map.locate(id, &mut index)));
        if !matches!(located, Ok(Located::Need(_))) {
            self.drop_index(st, flight);
        }
        let job = match located {
            Ok(Located::Extents { segments, encoded_len, scratch_len }) => {
                if !sound(&segments, map.page_bytes(id), encoded_len, st.sources.len()) {
                    let kind = PageErrorKind::Decode("its translation points outside of the page".into());
                    return Err(self.fail(st, flight, id, kind));
                }
                let mut job =
                    Translated { segments, encoded_len, body: 0..encoded_len, scratch_len, ..Translated::default() };
                if let Some(block) = self.files.direct_block() {
                    widen(&mut job, block);
                }
                job
            }
            Ok(Located::Fill) => {
                st.tally.fills += 1;
                Translated { fill: true, ..Translated::default() }
            }
            Ok(Located::Derived { inputs, scratch_len }) => {
                Translated { scratch_len, inputs: Some(inputs), ..Translated::default() }
            }
            Ok(Located::Need(page)) => return Err(self.await_index(st, flight, id, page)),
            Ok(Located::Failed(error)) => {
                self.unqueue(st, flight);
                self.settle(st, flight, Err(Some(error)));
                return Err(Start::Moved);
            }
            Err(_) => {
                let kind = PageErrorKind::Decode("its translation panicked".into());
                return Err(self.fail(st, flight, id, kind));
            }
        };
        Ok(job)
    }

    /// Lets go of the index page that was held for a flight.
    pub(crate) fn drop_index(&self, st: &mut PagerState, flight: u32) {
        if let Some(page) = st.flights.get_mut(flight).and_then(|f| f.index.take()) {
            self.unhold(st, page);
        }
    }

    /// Parks a flight under an index page.
    fn await_index(&self, st: &mut PagerState, flight: u32, id: PageId, page: PageId) -> Start {
        if let Some(error) = st.failed.get(&page).cloned() {
            self.unqueue(st, flight);
            self.settle(st, flight, Err(Some(error)));
            return Start::Moved;
        }
        let hops = match st.flights.get_mut(flight) {
            Some(f) => {
                f.hops += 1;
                f.hops
            }
            None => return Start::Moved,
        };
        // Does the index wait, through others, for this very page?
        let mut circle = page == id;
        let mut at = page;
        for _ in 0..MAX_HOPS {
            let next =
                st.flying.get(&at).and_then(|f| st.flights.get(*f)).filter(|f| f.stage == FlightStage::NeedsIndex);
            match next.and_then(|f| f.index) {
                Some(next) => at = next,
                None => break,
            }
            circle |= at == id;
        }
        if circle || hops > MAX_HOPS {
            let kind = PageErrorKind::Decode("its translation does not end".into());
            return self.fail(st, flight, id, kind);
        }
        let demand = st.flights.get(flight).is_some_and(|f| f.demand);
        self.hold_one(st, page);
        self.drop_index(st, flight);
        self.unqueue(st, flight);
        if let Some(f) = st.flights.get_mut(flight) {
            f.stage = FlightStage::NeedsIndex;
            f.index = Some(page);
        }
        if self.table.find(page, &self.frames).is_some() {
            // It is here although the map says that it needs it: ask again, at most `MAX_HOPS` times.
            st.enqueue(flight, true);
            return Start::Moved;
        }
        let known = st.flying.contains_key(&page);
        st.tally.index_faults += u64::from(!known);
        let index = self.input(st, page, demand);
        let ticket = st.flights.get(flight).map_or(0, |f| f.ticket);
        st.add_waiter(index, Waiter::Flight(flight, ticket));
        if !known {
            // Whoever waits for it is at the front already.
            st.enqueue(index, true);
        }
        Start::Moved
    }
}

/// Whether every segment has bytes, stays inside its target and inside 64 bits, and has a source.
fn sound(segments: &[Extent], frame: usize, encoded: usize, sources: usize) -> bool {
    u32::try_from(segments.len()).is_ok()
        && segments.iter().all(|s| {
            let (at, room) = match s.to {
                ExtentTarget::Frame(at) => (at, frame),
                ExtentTarget::Encoded(at) => (at, encoded),
            };
            s.len > 0
                && at.checked_add(s.len).is_some_and(|end| end <= room)
                && s.offset.checked_add(s.len as u64).is_some()
                && (s.source.0 as usize) < sources
        })
}

/// Whether a page is the next one of another's array and step.
fn follows(id: PageId, last: PageId) -> bool {
    (id.array, id.step) == (last.array, last.step) && last.page.checked_add(1) == Some(id.page)
}
