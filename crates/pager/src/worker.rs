//! The hot path: from a page to its bytes, on a computing thread.
//!
//! Each worker has a small direct-mapped cache of its pinned pages, which it alone reads and writes. A repeated lookup
//! takes no lock and no atomic read-modify-write, and touches no cache line that another thread writes. The first
//! lookup pins the page, also without a lock. The pin is a byte in an array that only this worker writes and that the
//! evictor reads. These are hazard pointers, one for each frame.

use crate::error::PageError;
use crate::event::Event;
use crate::frames::{state, used, Chunked, Frame};
use crate::id::PageId;
use crate::ledger::ChargeKind;
use crate::page_hash::hash;
use crate::pager::Pager;
use crate::pins::{Pinned, Pins};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{fence, AtomicU64, Ordering::*};
use std::sync::Arc;

/// Steps of a group. With an observer, the use of a page is recorded once a group: recording each use would take longer
/// than the steps.
const GROUP: u32 = 512;
/// Most uses that are recorded together: 4 KiB.
const UNRECORDED: usize = 64;
/// The mark of a pin whose use was recorded in a much earlier group.
const OLD: u8 = u8::MAX;
/// Entries of a worker's cache: 32 KiB. A line uses a few hundred pages at a time; this is two to four times that.
const CACHE: usize = 1024;
/// Bytes of each worker, beside those for each frame.
const OWN_BYTES: u64 = (CACHE * size_of::<CachedPage>() + UNRECORDED * size_of::<Event>()) as u64;
/// Workers so far. Each counts its releases from another number, so no caller confuses the pages of two workers.
static WORKERS: AtomicU64 = AtomicU64::new(1);

/// A page as a worker sees it.
#[derive(Clone, Debug)]
pub enum Lookup<'a> {
    /// The page's bytes: `page_bytes` of them, at least 64-byte aligned, in native byte order, laid out as the page map says.
    Here(&'a [u8]),
    /// The page is not resident. Request it with [`Pager::request`] and look it up again.
    Absent,
    /// The page cannot be read or decoded.
    Failed(PageError),
}

#[inline]
pub(crate) fn count(c: &AtomicU64) {
    c.store(c.load(Relaxed).wrapping_add(1), Relaxed);
}

#[derive(Copy, Clone)]
struct CachedPage {
    page: u64,
    /// Array and step, or `EMPTY`.
    tag: u64,
    ptr: *const u8,
    /// Larger pages are not cached.
    len: u32,
    /// The group in which its use was last recorded.
    group: u32,
}

/// No page has this tag: array numbers are counted up from 0.
const EMPTY: u64 = u64::MAX;
const NOTHING: CachedPage = CachedPage { page: 0, tag: EMPTY, ptr: std::ptr::null(), len: 0, group: 0 };

#[inline]
fn tag(id: PageId) -> u64 {
    (u64::from(id.array.0) << 32) | u64::from(id.step)
}

#[inline]
fn place(id: PageId) -> usize {
    (hash(id) >> (u64::BITS - CACHE.trailing_zeros())) as usize
}

/// One thread's view of the pages. Returned pages stay in place until [`Worker::release`] or [`Worker::begin_step`].
/// Both borrow the worker mutably, so the compiler ensures that no page outlives its pin.
pub struct Worker {
    pager: Arc<Pager>,
    pins: Arc<Pins>,
    /// 1. Entries other than `EMPTY` are pages that this worker has pinned.
    cache: Box<[UnsafeCell<CachedPage>]>,
    /// 2. Exactly the frames with a set pin byte.
    list: UnsafeCell<Vec<Pinned>>,
    pinned_bytes: Cell<usize>,
    pressure: Cell<u64>,
    releases: u64,
    /// Steps in this group, and groups before it.
    steps: u32,
    groups: u64,
    /// Unrecorded uses in this group of pages that were pinned before it. They are recorded together, under one lock
    /// and one clock, before any other event of this worker.
    unrecorded: Cell<Vec<Event>>,
    /// 3. The pin byte of a page whose use was recorded in this group: never 0.
    mark: u8,
}

// SAFETY: the raw pointers are into the pool, which the `Arc<Pager>` keeps. A worker moves between threads as a whole.
// It is not `Sync` (cells), so one thread at a time uses its cache and list.
unsafe impl Send for Worker {}

impl Pager {
    /// A worker: one for each computing thread.
    ///
    /// # Panics
    /// If the system refuses the address space for the worker's pins (a few megabytes, of which only used parts are
    /// memory).
    pub fn worker(self: &Arc<Self>) -> Worker {
        let bytes = match Chunked::new() {
            Ok(b) => b,
            Err(e) => panic!("cannot reserve address space for a worker: {e}"),
        };
        let mut st = self.lock();
        let serial = st.worker_serial;
        st.worker_serial = serial.wrapping_add(1);
        let pins = Arc::new(Pins {
            serial,
            bytes,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            prefetched_used: AtomicU64::new(0),
        });
        let cost = self.worker_bytes(&st) + OWN_BYTES;
        if !self.ledger.try_charge(ChargeKind::Tables, cost) {
            // Charged without room too: a worker cannot run without its tables, and the excess ends as pages are
            // released.
            let _room = self.make_room(&mut st, cost);
            self.ledger.force(ChargeKind::Tables, cost);
        }
        for chunk in 0..st.residency.slots().chunks() {
            pins.grow(chunk);
        }
        st.workers.push(pins.clone());
        self.worker_count.store(st.workers.len(), Relaxed);
        self.budget_pins(&st);
        drop(st);
        Worker {
            pager: self.clone(),
            pins,
            cache: (0..CACHE).map(|_| UnsafeCell::new(NOTHING)).collect(),
            list: UnsafeCell::new(Vec::new()),
            pinned_bytes: Cell::new(0),
            pressure: Cell::new(0),
            releases: WORKERS.fetch_add(1, Relaxed) << 40,
            steps: 0,
            groups: 0,
            unrecorded: Cell::new(Vec::new()),
            mark: 1,
        }
    }
}

impl Worker {
    /// The pager.
    pub fn pager(&self) -> &Arc<Pager> {
        &self.pager
    }

    /// Bytes of the pages pinned now.
    pub fn pinned_bytes(&self) -> usize {
        self.pinned_bytes.get()
    }

    /// A number that changes with each release of pins, different for every worker. Bytes returned by [`Self::page`]
    /// stay in place while it is unchanged.
    #[inline]
    pub fn releases(&self) -> u64 {
        self.releases
    }

    /// The bytes of a page, pinned until the next [`Worker::release`] or [`Worker::begin_step`]. A page that is being
    /// moved in the page table may be reported as absent; [`Pager::request`] checks under the lock.
    #[inline]
    pub fn page(&self, id: PageId) -> Lookup<'_> {
        let place = place(id);
        // SAFETY: `place` is below CACHE. The entry is written only in `pin`, `record_again` and `release`, on this
        // thread, and no reference to it is kept.
        let e = unsafe { *self.cache.get_unchecked(place).get() };
        if e.page == id.page && e.tag == tag(id) {
            count(&self.pins.hits);
            if e.group != self.groups as u32 {
                self.record_again(id, place);
            }
            // SAFETY: invariant 1: the page is pinned, and its bytes are not written while it is resident. The borrow
            // of `self` ends before the pin does.
            return Lookup::Here(unsafe { std::slice::from_raw_parts(e.ptr, e.len as usize) });
        }
        self.first_look(id, place)
    }

    /// Records the first use in this group of a page that stayed pinned.
    #[inline(never)]
    fn record_again(&self, id: PageId, place: usize) {
        // SAFETY: only this thread uses the entry, and no reference to it is kept.
        unsafe { (*self.cache[place].get()).group = self.groups as u32 };
        let mut unrecorded = self.unrecorded.take();
        unrecorded.push(Event::Pin { page: id, worker: self.pins.serial, group: self.groups, fresh: false });
        let full = unrecorded.len() >= UNRECORDED;
        self.unrecorded.set(unrecorded);
        if full {
            self.record_rest();
        }
    }

    /// Records the unrecorded uses.
    fn record_rest(&self) {
        // Taken out first: the observer may look pages up.
        let mut unrecorded = self.unrecorded.take();
        if !unrecorded.is_empty() {
            self.pager.emit_all(&unrecorded);
            unrecorded.clear();
            unrecorded.append(&mut self.unrecorded.take());
        }
        self.unrecorded.set(unrecorded);
    }

    #[inline(never)]
    fn first_look(&self, id: PageId, place: usize) -> Lookup<'_> {
        let found = self.pager.table.find(id, &self.pager.frames);
        if let Some(page) = found.and_then(|n| self.pin(id, n, place)) {
            count(&self.pins.hits);
            return Lookup::Here(page);
        }
        count(&self.pins.misses);
        if self.pager.failed_count.load(Relaxed) > 0 {
            if let Some(error) = self.pager.failure(id) {
                return Lookup::Failed(error);
            }
        }
        Lookup::Absent
    }

    fn pin(&self, id: PageId, frame: u32, place: usize) -> Option<&[u8]> {
        let f = self.pager.frames.get(frame)?;
        let pin = self.pins.bytes.get(frame)?;
        let held = pin.load(Relaxed);
        if held == 0 {
            pin.store(self.mark, Relaxed);
            fence(SeqCst);
            if f.state.load(Acquire) != state::RESIDENT || !f.is(id) {
                pin.store(0, Release);
                // The evictor may have found memory full because of this pin.
                self.pager.relieved();
                return None;
            }
            // SAFETY: only this thread uses the list, and no reference into it is kept.
            let list = unsafe { &mut *self.list.get() };
            list.push(Pinned { frame, place: place as u32 });
            self.pinned_bytes.set(self.pinned_bytes.get() + f.bytes().1);
            self.note(f);
            if f.prefetched.load(Relaxed) == 1 && f.prefetched.compare_exchange(1, 2, Relaxed, Relaxed).is_ok() {
                count(&self.pins.prefetched_used);
                self.pager.emit(|| Event::PrefetchUsed { page: id });
            }
            self.record_pin(id, true);
        } else if !f.is(id) {
            // Pinned for another page, the one that the frame holds: the table was read while it changed.
            return None;
        } else if held != self.mark {
            pin.store(self.mark, Relaxed);
            self.record_pin(id, false);
        }
        let (ptr, len) = f.bytes();
        // SAFETY: as in `page`.
        unsafe {
            if let Ok(len) = u32::try_from(len) {
                *self.cache[place].get() =
                    CachedPage { page: id.page, tag: tag(id), ptr, len, group: self.groups as u32 };
            }
            Some(std::slice::from_raw_parts(ptr, len))
        }
    }

    fn record_pin(&self, page: PageId, fresh: bool) {
        self.record_rest();
        self.pager.emit(|| Event::Pin { page, worker: self.pins.serial, group: self.groups, fresh });
    }

    /// Marks a page as used, for the policy. Writes only differing values.
    fn note(&self, f: &Frame) {
        if f.referenced.load(Relaxed) != used::YES {
            f.referenced.store(used::YES, Relaxed);
        }
        let tick = self.pager.tick.load(Relaxed);
        if f.stamp.load(Relaxed) != tick {
            f.stamp.store(tick, Relaxed);
        }
    }

    /// Begins a step. Releases the pins if memory is short or the worker has more pinned than its share: a quarter of
    /// the limit, divided by the workers. Otherwise two loads and two comparisons. With an observer, the use of a page
    /// is recorded once in a group of steps.
    #[inline]
    pub fn begin_step(&mut self) {
        self.steps += 1;
        if self.steps >= GROUP {
            self.next_group();
        }
        if self.pager.pressure.load(Relaxed) != self.pressure.get()
            || self.pinned_bytes.get() > self.pager.pin_budget.load(Relaxed)
        {
            self.release();
        }
    }

    /// Begins a group: each use is recorded again, also of pages that stay pinned.
    #[inline(never)]
    fn next_group(&mut self) {
        self.steps = 0;
        if self.pager.observed() {
            self.record_rest();
            self.groups += 1;
            self.mark = 1 + (self.groups % u64::from(OLD - 1)) as u8;
            // Callers that keep pages of this worker must look them up again.
            self.releases += 1;
            if self.mark == 1 {
                // Marks start again: no pinned page has one.
                let bytes = &self.pins.bytes;
                let pinned = self.list.get_mut();
                pinned.iter().filter_map(|p| bytes.get(p.frame)).for_each(|pin| pin.store(OLD, Relaxed));
            }
        }
    }

    /// Releases all pins.
    pub fn release(&mut self) {
        self.pressure.set(self.pager.pressure.load(Relaxed));
        let list = self.list.get_mut();
        if list.is_empty() {
            return;
        }
        self.releases += 1;
        self.record_rest();
        let list = self.list.get_mut();
        // The pages were in use until now, and their stamps must show it.
        let tick = self.pager.tick.load(Relaxed);
        for p in list.iter() {
            *self.cache[p.place as usize].get_mut() = NOTHING;
            if let Some(f) = self.pager.frames.get(p.frame) {
                // A hint given in the meantime stays.
                if f.referenced.load(Relaxed) == used::NO {
                    f.referenced.store(used::YES, Relaxed);
                }
                if f.stamp.load(Relaxed) != tick {
                    f.stamp.store(tick, Relaxed);
                }
            }
            if let Some(pin) = self.pins.bytes.get(p.frame) {
                pin.store(0, Release);
            }
        }
        list.clear();
        self.pinned_bytes.set(0);
        self.pager.emit(|| Event::Release { worker: self.pins.serial });
        self.pager.relieved();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.release();
        let mut st = self.pager.lock();
        st.workers.retain(|w| w.serial != self.pins.serial);
        st.tally.hits += self.pins.hits.load(Relaxed);
        st.tally.misses += self.pins.misses.load(Relaxed);
        st.tally.prefetched_used += self.pins.prefetched_used.load(Relaxed);
        self.pager.worker_count.store(st.workers.len(), Relaxed);
        self.pager.budget_pins(&st);
        let cost = self.pager.worker_bytes(&st) + OWN_BYTES;
        self.pager.ledger.release(ChargeKind::Tables, cost);
    }
}
