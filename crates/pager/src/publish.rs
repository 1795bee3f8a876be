//! From arrived bytes to resident pages: completions, decoding, publishing, and telling who waits.

use crate::error::{PageError, PageErrorKind};
use crate::event::Event;
use crate::frames::{state, used};
use crate::join::{buffer, staged_segment};
use crate::ledger::ChargeKind;
use crate::pager::Pager;
use crate::source::Completion;
use crate::state::{Active, Encoded, PagerState, ReadPart, Waiter, NONE};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering::*;
use std::time::Instant;

/// Tries of a segment whose read the system refused, beyond the first. What is gone or too short is not tried again.
const RETRIES: u8 = 2;

impl Completion for Pager {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        let (index, serial) = ((token & u64::from(u32::MAX)) as u32, (token >> 32) as u32);
        let mut st = self.lock();
        if st.reads.get(index).is_none_or(|r| r.serial != serial) {
            // A source that completes a read twice: the second time means nothing, the memory may be someone else's.
            return;
        }
        let Some(read) = st.reads.remove(index) else { return };
        st.in_flight -= 1;
        self.emit(|| Event::ReadEnd { read: token, ok: result.is_ok() });
        let mut arrived = 0;
        let alone = read.parts.len() == 1;
        share(&st, &read.parts);
        for ReadPart { active, segment, .. } in read.parts {
            let result = match &result {
                Err(PageErrorKind::Short { have, .. }) if whole(&st, active, segment, *have) => Ok(()),
                other => other.clone(),
            };
            if let Err(kind) = &result {
                if self.try_again(&mut st, active, segment, kind, alone) {
                    continue;
                }
            }
            let Some(a) = st.active.get_mut(active) else { continue };
            if let Err(kind) = &result {
                let s = a.segments.get(segment as usize);
                let (source, offset) = s.map_or((crate::id::SourceId(0), 0), |s| (s.source, s.offset));
                a.error.get_or_insert((source, offset, kind.clone()));
            }
            a.left -= 1;
            if a.left > 0 {
                continue;
            }
            if a.error.is_none() {
                st.arrived.push_back(active);
                arrived += 1;
            } else if let Some(mut a) = st.active.remove(active) {
                let flight = a.flight;
                let error = a.error.take().map(|(source, offset, kind)| {
                    let (name, kind) = match st.sources.get(source.0 as usize) {
                        Some(s) => s.explain(offset, kind),
                        None => (String::new(), kind),
                    };
                    PageError::new(format!("{name}: {}", crate::request::page_name(&st, a.id)), kind)
                });
                self.release_active(&mut st, a, true);
                self.settle(&mut st, flight, Err(error));
            }
        }
        // Inside a pump that is this thread's own, or another's, the pump goes on by itself.
        if st.pumping {
            st.again = true;
            drop(st);
        } else {
            self.finish(st);
        }
        self.idlers.add_work(arrived);
    }
}

/// Copies the bytes that were read once for two parts of a completed read from the first to the second.
fn share(st: &PagerState, parts: &[ReadPart]) {
    for pair in parts.windows(2).filter(|pair| pair[1].shared > 0) {
        let (Some(from), Some(to)) = (buffer(st, pair[0]), buffer(st, pair[1])) else { continue };
        let shared = pair[1].shared as usize;
        // SAFETY: the read is completed, so that no source writes to either any more; both are buffers of entries that wait for this
        // very read and therefore are there, and neither is shorter, which was looked at when they were joined. What was not read is
        // read again before it is looked at.
        unsafe { std::ptr::copy(from.ptr.add(from.len - shared), to.ptr, shared) };
    }
}

/// Whether all of a page is there although its read ended at byte `have`, with its file: a read of whole blocks may ask for more, and one of
/// several pages for others.
fn whole(st: &PagerState, active: u32, segment: u32, have: u64) -> bool {
    let Some(a) = st.active.get(active).filter(|a| a.segments.len() == 1) else { return false };
    let Some(s) = a.segments.get(segment as usize) else { return false };
    !a.body.is_empty() && have >= s.offset.saturating_add(a.body.end as u64)
}

impl Pager {
    /// Stages a segment once more after its read failed, if that makes sense.
    fn try_again(&self, st: &mut PagerState, active: u32, segment: u32, kind: &PageErrorKind, alone: bool) -> bool {
        let joined = !alone && !matches!(kind, PageErrorKind::Missing);
        let Some(a) = st.active.get_mut(active) else { return false };
        let transient = alone && matches!(kind, PageErrorKind::Io(_)) && a.attempts < RETRIES;
        if !joined && !transient || a.error.is_some() {
            return false;
        }
        a.attempts += u8::from(transient);
        let Some(staged) = staged_segment(active, segment as usize, &a.segments, true) else { return false };
        st.staged.push_front(staged);
        st.tally.retries += 1;
        true
    }

    /// Decodes and publishes one page that has arrived, on the calling thread, and calls the wakes that follow. False if none
    /// waited.
    pub fn work(&self) -> bool {
        // Keeps the device busy, and finds what has arrived: a look at a shared word if nothing has.
        self.reap();
        if !self.idlers.has_work() {
            return false;
        }
        let mut st = self.lock();
        let Some(active) = st.arrived.pop_front() else { return false };
        self.idlers.took_work();
        let Some(a) = st.active.get(active) else { return true };
        if a.making.is_some() {
            return self.make(st, active);
        }
        let (id, fill, frame) = (a.id, a.fill, a.frame);
        let (page, encoded, scratch) = ((a.ptr, a.len), a.encoded.as_ref().map(Encoded::place), a.scratch);
        let (body, moved) = (a.body.clone(), a.moved.clone());
        let Some(map) = st.maps.get(id.array.0 as usize).cloned() else { return true };
        drop(st);

        let begin = self.observed().then(Instant::now);
        // SAFETY: the three slots belong to this active entry, which only this thread has taken from `arrived`; every read into
        // them is completed (`left` is 0), and the frame is not published, so nobody else has their memory.
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
                map.decode(id, encoded, scratch, page)
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
        let Some(a) = st.active.remove(active) else { return true };
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
        let (Some(f), Some(flight)) = (self.frames.get(frame), st.flights.get(flight)) else { return };
        let id = flight.id;
        let tick = self.tick.fetch_add(1, Relaxed) + 1;
        f.referenced.store(used::YES, Relaxed);
        f.stamp.store(tick, Relaxed);
        f.holds.store(st.held.get(&id).copied().unwrap_or(0), Relaxed);
        // A prefetch that was demanded while it was on its way is used.
        let prefetched = match (flight.prefetched, flight.demand) {
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
        st.policy.inserted(frame, id, tick);
        st.tally.published += 1;
        st.relief += 1;
        let bytes = f.bytes().1 as u64;
        self.emit(|| Event::Publish { page: id, bytes, used: self.ledger.used() });
    }

    /// Frees the buffers of a page that has arrived or failed, and its frame if it does not become resident.
    pub(crate) fn release_active(&self, st: &mut PagerState, a: Active, frame: bool) {
        st.heap_bytes -= a.heap_bytes();
        if a.making.is_some() {
            st.making_bytes -= a.reserved_bytes();
            st.makings -= 1;
            if let Some(f) = st.flights.get_mut(a.flight) {
                f.making = NONE;
            }
        } else {
            st.active_bytes -= a.reserved_bytes();
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

    /// Ends a flight: `Ok` resident, `Err(Some)` failed, `Err(None)` cancelled or dropped. Tells who waits.
    pub(crate) fn settle(&self, st: &mut PagerState, flight: u32, outcome: Result<(), Option<PageError>>) {
        self.drop_index(st, flight);
        let Some(f) = st.flights.remove(flight) else { return };
        st.flying.remove(&f.id);
        if let Err(None) = &outcome {
            self.emit(|| Event::Dropped { page: f.id });
        }
        if let Err(Some(error)) = &outcome {
            self.emit(|| Event::Failed { page: f.id, reason: error.to_string().into() });
            if st.failed.insert(f.id, error.clone()).is_none() {
                st.tally.failed += 1;
                st.first_failure.get_or_insert_with(|| error.clone());
                self.failed_count.fetch_add(1, SeqCst);
            }
        }
        let mut node = f.waiters;
        while node != NONE {
            let Some(w) = st.waits.remove(node) else { break };
            node = w.next;
            match w.to {
                Waiter::Request(r) => {
                    let Some(request) = st.requests.get_mut(r) else { continue };
                    request.left -= 1;
                    if request.left == 0 {
                        if let Some(request) = st.requests.remove(r) {
                            st.wakes.push((request.wake, request.token));
                        }
                    }
                }
                // A page that waited for this one as its index: translated again, or with the same fate.
                Waiter::Flight(other, ticket) if st.flights.get(other).is_some_and(|o| o.ticket == ticket) => {
                    if self.input_settled(st, other, f.id, &outcome) {
                        continue;
                    }
                    match &outcome {
                        Ok(()) => st.enqueue(other, true),
                        Err(_) => self.settle(st, other, outcome.clone()),
                    }
                }
                Waiter::Flight(..) => {}
            }
        }
    }
}
