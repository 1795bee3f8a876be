//! From the queues to the sources: translating pages, reserving their memory, keeping reads in flight.

use crate::error::{PageError, PageErrorKind};
use crate::event::Event;
use crate::evict::NoRoom;
use crate::id::{PageId, SourceId};
use crate::join::{widen, Runs};
use crate::map::{Extent, ExtentTarget, Located};
use crate::page_state::PageState;
use crate::pager::Pager;
use crate::policy::Need;
use crate::reads::{Active, ExtentProgress};
use crate::source::{Completion, Read, Source};
use crate::state::PagerState;
use crate::translated::Translated;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{fence, Ordering::*};
use std::sync::{Arc, MutexGuard};

/// Pages for each reader whose reads are sorted and joined together.
const WINDOW_PER_READER: usize = 4;
/// Most translations of one page that each ask for another index page. Formats have one or two levels.
const MAX_HOPS: u8 = 8;

/// The outcome for a queued page.
pub(crate) enum Start {
    /// Its reads are staged.
    Started,
    /// It left the queue for another reason.
    Moved,
    /// It stays queued until there is memory.
    Full,
}

/// Reads, together for each source.
fn by_source(st: &PagerState, reads: Vec<(SourceId, u64)>) -> Vec<(Arc<dyn Source>, Vec<u64>)> {
    let mut all: Vec<(SourceId, Vec<u64>)> = Vec::new();
    for (source, token) in reads {
        match all.iter_mut().find(|(known, _)| *known == source) {
            Some((_, tokens)) => tokens.push(token),
            None => all.push((source, vec![token])),
        }
    }
    all.into_iter().filter_map(|(source, tokens)| Some((st.sources.get(source)?.clone(), tokens))).collect()
}

impl Pager {
    /// Starts as many reads as may be in flight. Called after every event that could allow one: a request, an arrival,
    /// a publication, a release of memory.
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
            let promotions = std::mem::take(&mut st.promotions);
            let promotions = by_source(&st, promotions);
            let withdrawals = std::mem::take(&mut st.withdrawals);
            let withdrawals = by_source(&st, withdrawals);
            let tells = !promotions.is_empty() || !withdrawals.is_empty();
            if batches.is_empty() && wakes.is_empty() && !tells {
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
            if let Some(me) = self.me.upgrade().filter(|_| tells) {
                let done: Arc<dyn Completion> = me;
                promotions.iter().for_each(|(source, tokens)| source.promote(tokens, &done));
                withdrawals.iter().for_each(|(source, tokens)| source.withdraw(tokens, &done));
            }
            self.call(wakes);
            st = self.lock();
        }
    }

    /// Completes arrivals of the file reader, if it leaves that to its callers. Then starts reads for all free places
    /// at once: the system takes a group of reads in about the time of one.
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

    /// Releases the lock, calls the pending wakes, and starts new reads.
    pub(crate) fn finish(&self, mut st: MutexGuard<'_, PagerState>) {
        let wakes = std::mem::take(&mut st.wakes);
        let more = st.flights.queued(true) || st.flights.queued(false) || !st.reads.staged().is_empty() || st.shrinking;
        let more = more || st.flights.has_parked() && st.reads.derived() == 0 || !st.withdrawals.is_empty();
        drop(st);
        self.call(wakes);
        if more {
            self.pump();
        }
    }

    fn call(&self, wakes: Vec<(Arc<dyn crate::priority::Wake>, u64)>) {
        for (wake, token) in wakes {
            self.emit(|| Event::Resume { token });
            wake.wake(token);
        }
    }

    /// Reads to submit now, by source.
    fn gather(&self, st: &mut PagerState) -> Vec<(Arc<dyn Source>, Vec<Read>)> {
        let mut batches: Vec<(SourceId, Vec<Read>)> = Vec::new();
        // The last chosen reads are submitted.
        st.sources.submitted();
        if st.shrinking {
            self.shrink(st);
        }
        // With a backlog of pages, decoding comes first: the calling thread is a worker, and the bytes just read are
        // still in its caches. Between the two bounds reads start in groups. The upper bound exceeds a short queue:
        // otherwise all reads arrive, and the disk idles until half is decoded. With pages of 48 KiB and 16 readers
        // that takes 70 us a page instead of 56.
        let most = self.readers.max(32);
        let mut may_start = !st.reads.has_backlog(most);
        while may_start {
            let Some(at) = st.first_with_room(self.readers) else {
                may_start = st.reads.staged().is_empty() && st.all_room(self.readers) > 0 && self.stage(st);
                continue;
            };
            let Some((source, read)) = self.next_read(st, at) else { continue };
            match batches.iter_mut().find(|(s, _)| *s == source) {
                Some((_, reads)) => reads.push(read),
                None => batches.push((source, vec![read])),
            }
        }
        self.book(st);
        batches.into_iter().filter_map(|(s, reads)| Some((st.sources.get(s)?.clone(), reads))).collect()
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

    /// Moves pages from the queues to the staged segments, in the order of their places in the sources. False if none
    /// was moved.
    fn stage(&self, st: &mut PagerState) -> bool {
        let window = WINDOW_PER_READER * self.readers.clamp(4, 64);
        let mut staged = 0;
        if st.reads.derived() == 0 {
            self.unpark(st);
        }
        while staged < window {
            // Reserved memory cannot be evicted: leave most of the limit to pages in use.
            if st.reads.read_bytes() > self.ledger.limit() / 4 {
                break;
            }
            if st.refused_at == Some(st.relief) {
                break;
            }
            let Some(flight) = st.flights.head(true) else { break };
            match self.start(st, flight, Need::Demand) {
                Start::Started => staged += 1,
                Start::Moved => {}
                Start::Full => {
                    st.refused_at = Some(st.relief);
                    break;
                }
            }
        }
        if staged == 0 && !st.flights.queued(true) {
            // As many reads as there are free readers, and half of the reservable memory: a later demand must not queue
            // behind prefetches.
            let free = st.all_room(self.readers);
            let (mut runs, mut last, mut seen) = (Runs::default(), None, 0);
            while st.reads.read_bytes() <= self.ledger.limit() / 8 && staged < window && runs.reads() <= free {
                let Some(flight) = st.flights.head(false) else { break };
                let id = st.flights.get(flight).map(|f| f.id());
                // A page that follows the last one is usually read with it.
                let goes_on = id.zip(last).is_some_and(|(id, last)| follows(id, last));
                if runs.reads() == free && !goes_on {
                    break;
                }
                match self.start(st, flight, Need::Prefetch) {
                    Start::Started => {
                        staged += 1;
                        last = id;
                        st.reads
                            .staged()
                            .range(seen..)
                            .for_each(|segment| runs.add(segment, &st.sources.form(segment.source)));
                        seen = st.reads.staged().len();
                    }
                    Start::Moved => {}
                    Start::Full => {
                        st.tally.prefetch_dropped += 1;
                        st.flights.unqueue(flight);
                        self.settle(st, flight, Err(None));
                    }
                }
            }
        }
        st.reads.sort_staged();
        staged > 0
    }

    /// Translates a queued page and reserves its memory.
    fn start(&self, st: &mut PagerState, flight: u32, need: Need) -> Start {
        let Some(f) = st.flights.get_mut(flight) else { return Start::Moved };
        let id = f.id();
        let job = match f.job.take() {
            Some(job) => *job,
            None => match self.translate(st, flight, id) {
                Ok(job) => job,
                Err(moved) => return moved,
            },
        };
        let Some(map) = st.map(id) else { return Start::Moved };
        let [encoded, scratch] = job.buffers();
        let sizes = [map.page_bytes(id), encoded, scratch];
        if job.inputs.is_some() && !self.may_make(st, flight, sizes.iter().map(|s| *s as u64).sum()) {
            return self.park(st, flight, job);
        }
        let mut reserved = self.reserve(st, sizes, id, need);
        while matches!(reserved, Err(NoRoom::Full))
            && need == Need::Demand
            && st.reads.quiet()
            && self.give_up(st, flight)
        {
            reserved = self.reserve(st, sizes, id, need);
        }
        let reserved = reserved.or_else(|e| match e {
            NoRoom::Full if need == Need::Demand && st.reads.quiet() && !st.starved => {
                // No page on its way would make room. Set the flag, then try again: a release between the first try and
                // the flag did not see the waiting demand.
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
                if need == Need::Demand && st.reads.quiet() {
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
        st.flights.unqueue(flight);
        let makes = job.inputs.is_some();
        let arrives = job.segments.is_empty();
        let active = Active {
            flight,
            id,
            frame: reserved.frame,
            ptr: reserved.slot.ptr,
            len: sizes[0],
            encoded: job.encoded(reserved.encoded),
            body: job.body,
            moved: job.moved,
            found: job.found,
            scratch: reserved.scratch.map(|s| (s, job.scratch_len)),
            progress: ExtentProgress::new(job.segments.len()),
            segments: job.segments,
            fill: job.fill,
            error: None,
            attempts: 0,
            making: job.inputs.map(|inputs| st.reads.new_making(inputs)),
        };
        let active = st.reads.begin(active);
        if let Some(f) = st.flights.get_mut(flight).filter(|_| makes) {
            f.making = active;
        }
        st.flights.go(flight, if arrives { PageState::Arrived } else { PageState::Staged });
        if arrives {
            // A worker asks for the inputs of a derived page.
            self.idlers.add_work(1);
        }
        Start::Started
    }

    fn fail(&self, st: &mut PagerState, flight: u32, id: PageId, kind: PageErrorKind) -> Start {
        let error = PageError::new(st.page_name(id), kind);
        st.flights.unqueue(flight);
        self.settle(st, flight, Err(Some(error)));
        Start::Moved
    }

    /// Translates a page by its page map. Otherwise the flight waits for an index page, or fails.
    fn translate(&self, st: &mut PagerState, flight: u32, id: PageId) -> Result<Translated, Start> {
        let Some(map) = st.map(id).cloned() else {
            return Err(self.fail(st, flight, id, PageErrorKind::Decode("no such array".into())));
        };
        if id.page >= map.pages() {
            let kind = PageErrorKind::Decode(format!("no such page: there are {}", map.pages()));
            return Err(self.fail(st, flight, id, kind));
        }
        let mut index = |page: PageId| -> Option<*const [u8]> {
            // Nothing is evicted under the lock, so the bytes stay while the map reads them.
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
            Ok(Located::Extents { segments, encoded_len, scratch_len, found }) => {
                if !sound(&segments, map.page_bytes(id), encoded_len, st.sources.len()) {
                    let kind = PageErrorKind::Decode("its translation points outside of the page".into());
                    return Err(self.fail(st, flight, id, kind));
                }
                let body = 0..encoded_len;
                let mut job = Translated { segments, encoded_len, body, scratch_len, found, ..Translated::default() };
                if let Some(block) = job.segments.first().and_then(|first| st.sources.form(first.source).block) {
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
                st.flights.unqueue(flight);
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

    /// Releases the index page that was held for a flight.
    pub(crate) fn drop_index(&self, st: &mut PagerState, flight: u32) {
        if let Some(page) = st.flights.get_mut(flight).and_then(|f| f.index.take()) {
            self.unhold(st, page);
        }
    }

    /// Makes a flight wait for its index page.
    fn await_index(&self, st: &mut PagerState, flight: u32, id: PageId, page: PageId) -> Start {
        if let Some(error) = st.flights.failure(page).cloned() {
            st.flights.unqueue(flight);
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
        // Whether the index waits for this very page, directly or not.
        let mut circle = page == id;
        let mut at = page;
        for _ in 0..MAX_HOPS {
            let next = st.flights.of(at).and_then(|f| st.flights.get(f));
            let next = next.filter(|f| f.state() == PageState::NeedsIndex);
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
        let demand = st.flights.get(flight).is_some_and(|f| f.demand());
        self.hold_one(st, page);
        self.drop_index(st, flight);
        st.flights.await_index(flight, page);
        if self.table.find(page, &self.frames).is_some() {
            // The index is resident although the map needs it: translate again, at most `MAX_HOPS` times.
            st.flights.enqueue(flight, true);
            return Start::Moved;
        }
        let known = st.flights.of(page).is_some();
        st.tally.index_faults += u64::from(!known);
        let index = self.input(st, page, demand);
        if let Some(f) = st.flights.get_mut(index) {
            f.is_index = true;
        }
        st.flights.add_dependent(index, flight);
        if !known {
            // The page that waits for it was at the front already.
            st.flights.enqueue(index, true);
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

/// Whether a page follows another in its array and step.
fn follows(id: PageId, last: PageId) -> bool {
    (id.array, id.step) == (last.array, last.step) && last.page.checked_add(1) == Some(id.page)
}
