//! From the queues to the sources: translating pages, reserving their memory, joining neighbours, keeping reads in flight.

use crate::error::{PageError, PageErrorKind};
use crate::event::Event;
use crate::evict::NoRoom;
use crate::id::{PageId, SourceId};
use crate::map::{Located, Segment, Target};
use crate::pager::Pager;
use crate::policy::Need;
use crate::request::page_name;
use crate::source::{Buffer, Completion, Read, Source};
use crate::state::{Active, Job, Part, Reading, Stage, Staged, State, Waiter};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{fence, Ordering::*};
use std::sync::{Arc, MutexGuard};

/// Longest joined read. Beyond this a longer read is no faster on any device seen, and it keeps its frames from being
/// published.
const JOIN_BYTES: usize = 1 << 20;
/// Most segments of a joined read: well below what `preadv` and io_uring take (1024).
const JOIN_SEGMENTS: usize = 256;
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
    pub(crate) fn finish(&self, mut st: MutexGuard<'_, State>) {
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
    fn gather(&self, st: &mut State) -> Vec<(Arc<dyn Source>, Vec<Read>)> {
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

    fn shrink(&self, st: &mut State) {
        self.starved.store(true, SeqCst);
        fence(SeqCst);
        if self.make_room(st, 0).is_ok() {
            st.shrinking = false;
            self.starved.store(st.starved, SeqCst);
        } else {
            self.pressure.fetch_add(1, SeqCst);
        }
    }

    /// Takes the first staged segment with those that follow it in the source.
    fn next_read(&self, st: &mut State) -> Option<(SourceId, Read)> {
        let block = self.files.direct_block();
        let first = st.staged.pop_front()?;
        let mut parts = vec![Part { active: first.active, segment: first.segment, shared: 0 }];
        let mut buffers = vec![buffer(st, parts[0])?];
        let mut end = first.offset.checked_add(first.len as u64)?;
        let mut before = first.len;
        while let Some(&next) = st.staged.front() {
            let len = (end - first.offset) as usize;
            if first.solo
                || next.solo
                || next.source != first.source
                || parts.len() >= JOIN_SEGMENTS
                || len + next.len > JOIN_BYTES
            {
                break;
            }
            let Some(shared) = shared(end, before, &next, block) else { break };
            st.staged.pop_front();
            let part = Part { active: next.active, segment: next.segment, shared: shared as u32 };
            let Some(b) = buffer(st, part) else { continue };
            let b = Buffer { ptr: b.ptr.wrapping_add(shared), len: b.len - shared };
            parts.push(part);
            match buffers.last_mut() {
                // Neighbours in the source that are neighbours in the frame too.
                Some(last) if last.ptr.wrapping_add(last.len) == b.ptr => last.len += b.len,
                _ => buffers.push(b),
            }
            end += b.len as u64;
            before = next.len;
        }
        for part in &parts {
            if let Some(a) = st.active.get_mut(part.active) {
                a.issued += 1;
            }
        }
        st.serial = st.serial.wrapping_add(1);
        let serial = st.serial;
        let segments = parts.len() as u32;
        let index = st.reads.insert(Reading { serial, parts });
        let token = u64::from(serial) << 32 | u64::from(index);
        st.in_flight += 1;
        let len = end - first.offset;
        st.tally.reads += 1;
        st.tally.bytes_read += len;
        st.tally.segments += u64::from(segments);
        self.emit(|| Event::ReadStart { read: token, source: first.source, offset: first.offset, len, segments });
        Some((first.source, Read { token, offset: first.offset, buffers }))
    }

    /// Moves pages from the queues to the staged segments, in the order of their places in the sources. False if none could be.
    fn stage(&self, st: &mut State) -> bool {
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
            // As many as can be read at once: a page demanded a moment later must not queue behind prefetches. Pages one behind the
            // other are one read, as a rule.
            let free = self.readers.saturating_sub(st.in_flight);
            let (mut runs, mut last) = (0, None);
            while st.active_bytes <= self.ledger.limit() / 4 && staged < window {
                let Some(flight) = st.head(false) else { break };
                let id = st.flights.get(flight).map(|f| f.id);
                let goes_on = id.zip(last).is_some_and(|(id, last)| follows(id, last));
                if runs >= free && !goes_on {
                    break;
                }
                match self.start(st, flight, Need::Prefetch) {
                    Start::Started => {
                        staged += 1;
                        runs += usize::from(!goes_on);
                        last = id;
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
    fn start(&self, st: &mut State, flight: u32, need: Need) -> Start {
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
            Err(NoRoom::System(e)) => return self.fail(st, flight, id, PageErrorKind::Io(e)),
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
        let State { active: actives, staged, .. } = st;
        if let Some(a) = actives.get(active) {
            staged.extend(a.segments.iter().enumerate().map(|(i, s)| staged_segment(active, i, s, false)));
        }
        Start::Started
    }

    pub(crate) fn unqueue(&self, st: &mut State, flight: u32) {
        if let Some(f) = st.flights.get_mut(flight) {
            f.stage = Stage::Started;
        }
        // The entry is at the front of its queue; if it is not, it is dead now and dropped when it comes up.
        for queue in [&mut st.demand, &mut st.prefetch] {
            if queue.front().is_some_and(|e| e.0 == flight) {
                queue.pop_front();
            }
        }
    }

    fn fail(&self, st: &mut State, flight: u32, id: PageId, kind: PageErrorKind) -> Start {
        let error = PageError::new(page_name(st, id), kind);
        self.unqueue(st, flight);
        self.settle(st, flight, Err(Some(error)));
        Start::Moved
    }

    /// Asks the page map where the page lies. On the way the flight may move to wait for an index page, or fail.
    fn translate(&self, st: &mut State, flight: u32, id: PageId) -> Result<Job, Start> {
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
                let mut job = Job { segments, encoded_len, body: 0..encoded_len, scratch_len, ..Job::default() };
                if let Some(block) = self.files.direct_block() {
                    widen(&mut job, block);
                }
                job
            }
            Ok(Located::Fill) => {
                st.tally.fills += 1;
                Job { fill: true, ..Job::default() }
            }
            Ok(Located::Derived { inputs, scratch_len }) => Job { scratch_len, inputs: Some(inputs), ..Job::default() },
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
    pub(crate) fn drop_index(&self, st: &mut State, flight: u32) {
        if let Some(page) = st.flights.get_mut(flight).and_then(|f| f.index.take()) {
            self.unhold(st, page);
        }
    }

    /// Parks a flight under an index page.
    fn await_index(&self, st: &mut State, flight: u32, id: PageId, page: PageId) -> Start {
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
            let next = st.flying.get(&at).and_then(|f| st.flights.get(*f)).filter(|f| f.stage == Stage::NeedsIndex);
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
            f.stage = Stage::NeedsIndex;
            f.index = Some(page);
        }
        if self.table.find(page, &self.frames).is_some() {
            // It is here although the map says that it needs it: ask again, at most `MAX_HOPS` times.
            st.enqueue(flight, true);
            return Start::Moved;
        }
        let known = st.flying.contains_key(&page);
        st.tally.index_faults += u64::from(!known);
        let index = self.flight(st, page, demand);
        let ticket = st.flights.get(flight).map_or(0, |f| f.ticket);
        st.add_waiter(index, Waiter::Flight(flight, ticket));
        if !known {
            // Whoever waits for it is at the front already.
            st.enqueue(index, true);
        }
        Start::Moved
    }
}

/// Makes the read of a page that lies in one piece one of whole blocks, which can go past the page cache. The last page of a file
/// may then reach beyond its end.
fn widen(job: &mut Job, block: u64) {
    // The page, and what of it goes into the frame as it is.
    let (first, page, into_frame) = match job.segments.as_slice() {
        [one] if one.to == Target::Encoded(0) && one.len == job.encoded_len => (one, one.len, None),
        [page, sum] => match (page.to, sum.to) {
            (Target::Frame(at), Target::Encoded(0))
                if page.source == sum.source
                    && page.offset.checked_add(page.len as u64) == Some(sum.offset)
                    && sum.len == job.encoded_len =>
            {
                (page, page.len + sum.len, Some((page.len, at)))
            }
            _ => return,
        },
        _ => return,
    };
    let skip = (first.offset % block) as usize;
    let Some(len) = (skip + page).checked_next_multiple_of(block as usize) else { return };
    if (page as u64) < block {
        return;
    }
    let (source, offset) = (first.source, first.offset - skip as u64);
    let moved = into_frame.map_or(0, |(len, _)| len);
    job.moved = into_frame.map(|(len, at)| (skip..skip + len, at));
    job.body = skip + moved..skip + page;
    job.segments = vec![Segment { source, offset, len, to: Target::Encoded(0) }];
    job.encoded_len = len;
}

/// How many bytes of a segment a read has that ends at `end`, where the segment can be joined to it: none of one that begins there, or,
/// where whole blocks are read ([`widen`]), the block in which one page ends and the next begins. `before`: the length of the read's
/// last segment.
fn shared(end: u64, before: usize, next: &Staged, block: Option<u64>) -> Option<usize> {
    let shared = end.checked_sub(next.offset)?;
    let one_block = Some(shared) == block && shared < next.len as u64 && shared <= before as u64;
    (shared == 0 || one_block).then_some(shared as usize)
}

/// Whether a page is the next one of another's array and step.
fn follows(id: PageId, last: PageId) -> bool {
    (id.array, id.step) == (last.array, last.step) && last.page.checked_add(1) == Some(id.page)
}

/// Where the bytes of a part's whole segment go.
pub(crate) fn buffer(st: &State, part: Part) -> Option<Buffer> {
    let a = st.active.get(part.active)?;
    let segment = a.segments.get(part.segment as usize)?;
    let (base, at) = match segment.to {
        Target::Frame(at) => (a.ptr, at),
        Target::Encoded(at) => (a.encoded.as_ref()?.place().0, at),
    };
    // `sound` checked that the segment lies inside.
    Some(Buffer { ptr: base.wrapping_add(at), len: segment.len })
}

pub(crate) fn staged_segment(active: u32, index: usize, s: &Segment, solo: bool) -> Staged {
    Staged { source: s.source, offset: s.offset, len: s.len, active, segment: index as u32, solo }
}

/// Whether every segment has bytes, stays inside its target and inside 64 bits, and has a source.
fn sound(segments: &[Segment], frame: usize, encoded: usize, sources: usize) -> bool {
    u32::try_from(segments.len()).is_ok()
        && segments.iter().all(|s| {
            let (at, room) = match s.to {
                Target::Frame(at) => (at, frame),
                Target::Encoded(at) => (at, encoded),
            };
            s.len > 0
                && at.checked_add(s.len).is_some_and(|end| end <= room)
                && s.offset.checked_add(s.len as u64).is_some()
                && (s.source.0 as usize) < sources
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is read are whole blocks around the page; the parts of them that go on are the page's bytes, all and no others.
        #[test]
        fn widened_pages_are_the_same_bytes(offset in 0u64..100_000, page in 1usize..20_000, sum in 0usize..20, block in prop::sample::select(vec![512u64, 4096])) {
            let source = SourceId(3);
            let mut segments = vec![Segment { source, offset, len: page, to: Target::Frame(64) }];
            if sum > 0 {
                segments.push(Segment { source, offset: offset + page as u64, len: sum, to: Target::Encoded(0) });
            } else {
                segments[0].to = Target::Encoded(0);
            }
            let encoded_len = if sum > 0 { sum } else { page };
            let before = segments.clone();
            let mut job = Job { segments, encoded_len, body: 0..encoded_len, ..Job::default() };
            widen(&mut job, block);
            if ((page + sum) as u64) < block {
                prop_assert_eq!(job.segments, before);
                return Ok(());
            }
            let [one] = job.segments.as_slice() else { return Err(TestCaseError::fail("one segment")) };
            prop_assert_eq!((one.source, one.to, one.len), (source, Target::Encoded(0), job.encoded_len));
            prop_assert!(one.offset.is_multiple_of(block) && (one.len as u64).is_multiple_of(block));
            let at = |n: usize| one.offset + n as u64;
            let body = if sum > 0 { offset + page as u64..offset + (page + sum) as u64 } else { offset..offset + page as u64 };
            prop_assert_eq!(at(job.body.start)..at(job.body.end), body);
            prop_assert_eq!(job.moved.is_some(), sum > 0);
            if let Some((from, to)) = job.moved {
                prop_assert_eq!((at(from.start)..at(from.end), to), (offset..offset + page as u64, 64));
            }
            prop_assert!(one.offset <= offset && at(one.len) >= offset + (page + sum) as u64);
            prop_assert!((one.len as u64) < (page + sum) as u64 + 2 * block);
        }
    }
}
