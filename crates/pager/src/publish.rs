//! From arrived bytes to resident pages: completions, decoding, publication, and wakes.

use crate::error::{PageError, PageErrorKind};
use crate::event::{Event, ServerStep};
use crate::flights::{Waiter, NONE};
use crate::frames::{state, used};
use crate::ledger::ChargeKind;
use crate::page_state::PageState;
use crate::pager::Pager;
use crate::reads::{Active, AfterExtent, ReadPart};
use crate::source::{Completion, ReadNote, ReadStep};
use crate::state::PagerState;
use crate::translated::Encoded;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

/// Further tries of a segment after a read error. A missing or too short file is not tried again.
const RETRIES: u8 = 2;

impl Completion for Pager {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        let mut st = self.lock();
        let arrived = self.end_read(&mut st, token, &result);
        self.completed(st, arrived);
    }

    fn complete_all(&self, results: Vec<(u64, Result<(), PageErrorKind>)>) {
        let mut st = self.lock();
        let arrived = results.iter().map(|(token, result)| self.end_read(&mut st, *token, result)).sum();
        self.completed(st, arrived);
    }

    fn note(&self, token: u64, note: ReadNote<'_>) {
        if !self.observed() {
            return;
        }
        let (did, wait_us, service_us) = match note.step {
            ReadStep::Connected { took_us } => (ServerStep::Connected, took_us, 0),
            ReadStep::Sent => (ServerStep::Sent, 0, 0),
            ReadStep::FirstByte { queue_us, service_us } => (ServerStep::FirstByte, queue_us, service_us),
            ReadStep::Retried => (ServerStep::Retried, 0, 0),
            ReadStep::Hedged => (ServerStep::Hedged, 0, 0),
            ReadStep::Withdrawn => (ServerStep::Withdrawn, 0, 0),
        };
        let mut st = self.lock();
        let known = st.servers.iter().position(|name| **name == *note.server);
        let server = known.unwrap_or_else(|| {
            let name: Arc<str> = note.server.into();
            st.servers.push(name.clone());
            let server = st.servers.len() - 1;
            self.emit(|| Event::Server { server: server as u32, name });
            server
        }) as u32;
        self.emit(|| Event::AtServer { read: token, server, connection: note.connection, did, wait_us, service_us });
    }
}

/// Copies bytes that were read once for two parts of a completed read from the first to the second.
fn share(st: &PagerState, parts: &[ReadPart]) {
    for pair in parts.windows(2).filter(|pair| pair[1].shared > 0) {
        let (Some(from), Some(to)) = (st.reads.buffer(pair[0]), st.reads.buffer(pair[1])) else { continue };
        let shared = pair[1].shared as usize;
        // SAFETY: the read is completed, so no source writes to either buffer. Both belong to entries that wait for
        // this read, so both are alive. Neither is shorter than `shared`, which was checked when they were joined.
        // Bytes that were not read are read again before any use.
        unsafe { std::ptr::copy(from.ptr.add(from.len - shared), to.ptr, shared) };
    }
}

/// Whether all bytes of a page arrived although its read ended at byte `have`, with its file. A read of whole blocks
/// may extend beyond the page, and a joined read covers other pages.
fn whole(st: &PagerState, active: u32, segment: u32, have: u64) -> bool {
    let Some(a) = st.reads.get(active).filter(|a| a.segments.len() == 1) else { return false };
    let Some(s) = a.segments.get(segment as usize) else { return false };
    !a.body.is_empty() && have >= s.offset.saturating_add(a.body.end as u64)
}

impl Pager {
    /// Ends a read: its extents arrived, or will never. Returns the pages that arrived with it.
    fn end_read(&self, st: &mut PagerState, token: u64, result: &Result<(), PageErrorKind>) -> usize {
        // A source completed a read twice. The second time is ignored, since the memory may belong to another read.
        let Some(parts) = st.reads.end_read(token) else { return 0 };
        self.emit(|| Event::ReadEnd { read: token, ok: result.is_ok() });
        let mut arrived = 0;
        let alone = parts.len() == 1;
        share(st, &parts);
        for ReadPart { active, segment, .. } in parts {
            let result = match result {
                Err(PageErrorKind::Short { have, .. }) if whole(st, active, segment, *have) => Ok(()),
                other => other.clone(),
            };
            let Some(others) = st.reads.give_back(active) else { continue };
            if let Err(kind) = &result {
                if self.try_again(st, active, segment, kind, alone) {
                    if let Some(flight) = st.reads.get(active).filter(|_| !others).map(|a| a.flight) {
                        st.flights.go(flight, PageState::Staged);
                    }
                    continue;
                }
            }
            let Some(a) = st.reads.get_mut(active) else { continue };
            let flight = a.flight;
            if let Err(kind) = &result {
                let s = a.segments.get(segment as usize);
                let (source, offset) = s.map_or((crate::id::SourceId(0), 0), |s| (s.source, s.offset));
                a.error.get_or_insert((source, offset, kind.clone()));
            }
            match st.reads.end_extent(active) {
                Some(AfterExtent::Staged) => st.flights.go(flight, PageState::Staged),
                Some(AfterExtent::Arrived) => {
                    st.flights.go(flight, PageState::Arrived);
                    arrived += 1;
                }
                Some(AfterExtent::Failed) => self.fail_active(st, active),
                Some(AfterExtent::Reading) | None => {}
            }
        }
        arrived
    }

    /// Releases the lock after reads have ended, starts new ones, and wakes threads for the pages that arrived.
    fn completed(&self, mut st: MutexGuard<'_, PagerState>, arrived: usize) {
        // Inside a pump of this thread or another, that pump continues by itself.
        if st.pumping {
            st.again = true;
            drop(st);
        } else {
            self.finish(st);
        }
        self.idlers.add_work(arrived);
    }

    /// Stages an extent again after its read failed, if another try can succeed.
    fn try_again(&self, st: &mut PagerState, active: u32, segment: u32, kind: &PageErrorKind, alone: bool) -> bool {
        // What is wrong with a server is not wrong with one of the extents.
        let of_extent = !kind.ends_run() && !matches!(kind, PageErrorKind::Missing | PageErrorKind::Withdrawn);
        let joined = !alone && of_extent;
        let Some(a) = st.reads.get_mut(active) else { return false };
        if matches!(kind, PageErrorKind::Withdrawn) && a.error.is_none() {
            // Somebody may have asked for the page since.
            let unwanted = st.flights.get(a.flight).is_some_and(|f| f.withdrawn);
            return !unwanted && st.reads.stage_again(active, segment);
        }
        let transient = alone && matches!(kind, PageErrorKind::Io(_)) && a.attempts < RETRIES;
        if !joined && !transient || a.error.is_some() {
            return false;
        }
        a.attempts += u8::from(transient);
        let staged = st.reads.stage_again(active, segment);
        st.tally.retries += u64::from(staged);
        staged
    }

    /// Fails a page with an unreadable extent, or drops one whose read was withdrawn.
    fn fail_active(&self, st: &mut PagerState, active: u32) {
        let Some(mut a) = st.reads.end(active) else { return };
        let flight = a.flight;
        let error = a.error.take().filter(|(.., kind)| !matches!(kind, PageErrorKind::Withdrawn));
        let error = error.map(|(source, offset, kind)| {
            let (name, kind) = match st.sources.get(source) {
                Some(s) => s.explain(offset, kind),
                None => (String::new(), kind),
            };
            PageError::new(format!("{name}: {}", st.page_name(a.id)), kind)
        });
        self.release_active(st, a, true);
        self.settle(st, flight, Err(error));
    }

    /// Decodes and publishes one arrived page on the calling thread, and calls the resulting wakes. False if no page
    /// waited.
    pub fn work(&self) -> bool {
        // Keeps the device busy and completes arrivals. Without arrivals this reads one shared word.
        self.reap();
        if !self.idlers.has_work() {
            return false;
        }
        let mut st = self.lock();
        let Some(active) = st.reads.take_arrived() else { return false };
        self.idlers.took_work();
        let Some(a) = st.reads.get(active) else { return true };
        if a.making.is_some() {
            return self.make(st, active);
        }
        let (id, fill, frame) = (a.id, a.fill, a.frame);
        let (page, encoded, scratch) = ((a.ptr, a.len), a.encoded.as_ref().map(Encoded::place), a.scratch);
        let (body, moved, found) = (a.body.clone(), a.moved.clone(), a.found.clone());
        let Some(map) = st.map(id).cloned() else { return true };
        drop(st);

        let begin = self.observed().then(Instant::now);
        // SAFETY: the three slots belong to this active entry, which only this thread took from `arrived`. Every read
        // into them is completed (`left` is 0), and the frame is not published. So no other thread accesses their
        // memory.
        let (page, encoded, scratch) = unsafe {
            (
                std::slice::from_raw_parts_mut(page.0, page.1),
                encoded.map_or(&[][..], |(ptr, len)| std::slice::from_raw_parts(ptr, len)),
                scratch.map_or(&mut [][..], |(s, len)| std::slice::from_raw_parts_mut(s.ptr, len)),
            )
        };
        if let Some((from, at)) = moved {
            let to = at..at + from.len();
            if let (Some(from), Some(to)) = (encoded.get(from), page.get_mut(to)) {
                to.copy_from_slice(from);
            }
        }
        let encoded = encoded.get(body).unwrap_or(&[]);
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            if fill {
                map.fill(id, page);
                Ok(())
            } else {
                map.decode(id, &found, encoded, scratch, page)
            }
        }))
        .unwrap_or_else(|_| {
            Err(PageError::new(
                format!("{} page {}", map.name(), id.page),
                PageErrorKind::Decode("decoder panicked".into()),
            ))
        });
        if let Some(t) = begin {
            let took_ns = u64::try_from(t.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.emit(|| Event::Decode { page: id, took_ns });
        }

        let mut st = self.lock();
        st.tally.decoded += u64::from(!fill);
        let Some(a) = st.reads.end(active) else { return true };
        let flight = a.flight;
        self.release_active(&mut st, a, decoded.is_err());
        match decoded {
            Ok(()) => {
                self.publish(&mut st, flight, frame);
                self.settle(&mut st, flight, Ok(()));
            }
            Err(error) => self.settle(&mut st, flight, Err(Some(error))),
        }
        self.finish(st);
        true
    }

    pub(crate) fn publish(&self, st: &mut PagerState, flight: u32, frame: u32) {
        let (Some(f), Some(at)) = (self.frames.get(frame), st.flights.get(flight)) else { return };
        let (id, is_index) = (at.id(), at.is_index);
        let tick = self.tick.fetch_add(1, Relaxed) + 1;
        f.referenced.store(used::YES, Relaxed);
        f.stamp.store(tick, Relaxed);
        f.holds.store(st.residency.holds(id), Relaxed);
        // A prefetch that was demanded on its way counts as used.
        let prefetched = match (at.prefetched, at.demand()) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => {
                st.tally.prefetched_used += 1;
                self.emit(|| Event::PrefetchUsed { page: id });
                0
            }
        };
        f.prefetched.store(prefetched, Relaxed);
        f.state.store(state::RESIDENT, Release);
        self.table.insert(id, frame);
        st.residency.published(frame, id, tick);
        st.flights.go(flight, PageState::Resident);
        st.tally.published += 1;
        st.relief += 1;
        let bytes = f.bytes().1 as u64;
        self.emit(|| Event::Publish { page: id, bytes, used: self.ledger.used() });
        if is_index {
            self.retain_index(st, id, crate::os::round_up(f.bytes().1).map_or(u64::MAX, |frame| frame as u64));
        }
    }

    /// Frees the buffers of a page that has arrived or failed, and its frame if it does not become resident.
    pub(crate) fn release_active(&self, st: &mut PagerState, a: Active, frame: bool) {
        if let Some(f) = st.flights.get_mut(a.flight).filter(|_| a.making.is_some()) {
            f.making = NONE;
        }
        if let Some(Encoded::Slot(slot, _)) = a.encoded {
            self.free_buffer(st, slot, ChargeKind::Encoded);
        }
        if let Some((slot, _)) = a.scratch {
            self.free_buffer(st, slot, ChargeKind::Scratch);
        }
        if frame {
            self.emit(|| Event::Freed { page: a.id });
            self.free_frame(st, a.frame);
        }
    }

    /// Ends a flight: `Ok` resident, `Err(Some)` failed, `Err(None)` cancelled or dropped. Settles all waiters.
    pub(crate) fn settle(&self, st: &mut PagerState, flight: u32, outcome: Result<(), Option<PageError>>) {
        self.drop_index(st, flight);
        let to = match &outcome {
            Ok(()) => PageState::Resident,
            Err(Some(_)) => PageState::Failed,
            Err(None) => PageState::Absent,
        };
        let Some(f) = st.flights.end(flight, to) else { return };
        let id = f.id();
        match &outcome {
            Ok(()) => {}
            Err(None) => self.emit(|| Event::Dropped { page: id }),
            Err(Some(error)) => {
                self.emit(|| Event::Failed { page: id, reason: error.to_string().into() });
                if st.flights.fail(id, error) {
                    st.tally.failed += 1;
                    self.failed_count.fetch_add(1, SeqCst);
                }
            }
        }
        debug_assert_eq!(self.page_state(st, id), to, "{id:?}");
        let mut node = f.waiters();
        while let Some(waiter) = st.flights.take_waiter(&mut node) {
            match waiter {
                Waiter::Request(request) => st.wakes.extend(st.flights.settle_request(request)),
                // A page that waited for this one as its index is translated again, or ends the same way.
                Waiter::Flight(other, ticket) if st.flights.waits(other, ticket) => {
                    if self.input_settled(st, other, id, &outcome) {
                        continue;
                    }
                    match &outcome {
                        Ok(()) => st.flights.enqueue(other, true),
                        Err(_) => self.settle(st, other, outcome.clone()),
                    }
                }
                Waiter::Flight(..) => {}
            }
        }
    }
}
