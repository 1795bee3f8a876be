//! The hot path: from a page to its bytes, on a thread that computes.
//!
//! Each worker has a small direct-mapped cache of the pages that it has pinned, which it alone reads and writes: asking for a
//! page again takes no lock, no atomic read-modify-write, and touches no line that another thread writes. The first time a
//! worker asks for a page it pins it, also without a lock: the pin is a byte in an array that only this worker writes and
//! that the evictor reads (hazard pointers, with one pointer for each frame).

use crate::error::PageError;
use crate::event::Event;
use crate::frames::{state, used, Chunked, Frame};
use crate::id::PageId;
use crate::ledger::ChargeKind;
use crate::pager::Pager;
use crate::table::hash;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{fence, AtomicU64, AtomicU8, Ordering::*};
use std::sync::Arc;

/// Steps after which a page that is used goes on being told of, where somebody observes. At each step it would take longer than the
/// steps.
const GROUP: u32 = 512;
/// Pages that are told of together at most: 4 KiB.
const UNTOLD: usize = 64;
/// A pin whose page was told of in a group long ago: no mark of a group.
const OLD: u8 = u8::MAX;
/// Entries of a worker's cache: 32 KiB. A line of a few hundred pages is in play at a time; this is two to four times that.
const CACHE: usize = 1024;
/// Bytes that each worker costs, whatever there are of frames.
const OWN_BYTES: u64 = (CACHE * size_of::<CachedPage>() + UNTOLD * size_of::<Event>()) as u64;
/// Bytes that each worker costs for each frame: the pin, and its place in the list of pins (which may be half empty).
pub(crate) const PIN_BYTES: usize = 1 + 2 * size_of::<Pinned>();

/// Workers that there ever were: no two count their releases alike, so that nothing remembered of one is taken for another's.
static WORKERS: AtomicU64 = AtomicU64::new(1);

/// A page as a worker sees it.
#[derive(Clone, Debug)]
pub enum Lookup<'a> {
    /// The page's bytes: `page_bytes` of them, at least 64-byte aligned, in native byte order, laid out as the page map says.
    Here(&'a [u8]),
    /// Not here yet: ask for it with [`Pager::request`] and come back.
    Absent,
    /// Cannot be had.
    Failed(PageError),
}

/// The part of a worker that others read.
#[repr(align(128))]
pub(crate) struct Pins {
    serial: u32,
    /// 1. Not 0 while the worker uses the frame with that number. Written by the worker only. Storing a pin and then reading the
    ///    frame's state, against storing the state and then reading pins, is what [`Frame`]'s invariant 1 is about.
    bytes: Chunked<AtomicU8>,
    /// 2. Counters, written by the worker only (so no read-modify-write is needed), read by whoever asks.
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) prefetched_used: AtomicU64,
}

impl Pins {
    /// Whether the worker uses a frame. For the evictor, after its fence.
    pub(crate) fn pinned(&self, frame: u32) -> bool {
        // Acquire: what the worker read from the page it read before it let go.
        self.bytes.get(frame).is_some_and(|b| b.load(Acquire) != 0)
    }

    pub(crate) fn grow(&self, chunk: usize) {
        self.bytes.grow(chunk);
    }
}

#[inline]
pub(crate) fn count(c: &AtomicU64) {
    c.store(c.load(Relaxed).wrapping_add(1), Relaxed);
}

/// A cached page.
#[derive(Copy, Clone)]
struct CachedPage {
    page: u64,
    /// Array and step, or `EMPTY`.
    tag: u64,
    ptr: *const u8,
    /// Larger pages are not cached.
    len: u32,
    /// The group in which the page was last told of.
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

/// A pin that is held.
#[derive(Copy, Clone)]
struct Pinned {
    frame: u32,
    place: u32,
}

/// One thread's view of the pages. Pages that it returned stay where they are until [`Worker::release`] or
/// [`Worker::begin_step`], which borrow it mutably: the compiler sees to it that no page outlives its pin.
pub struct Worker {
    pager: Arc<Pager>,
    pins: Arc<Pins>,
    /// 1. Entries other than `EMPTY` are pages that this worker has pinned.
    cache: Box<[UnsafeCell<CachedPage>]>,
    /// 2. Exactly the frames whose pin byte is set.
    list: UnsafeCell<Vec<Pinned>>,
    pinned_bytes: Cell<usize>,
    pressure: Cell<u64>,
    releases: u64,
    /// Steps begun in this group, and groups before it.
    steps: u32,
    groups: u64,
    /// Pages that were pinned before this group and used in it, and nobody was told of yet: told together, under one lock and one clock,
    /// before anything else of this worker is told.
    untold: Cell<Vec<Event>>,
    /// 3. What the pin byte of a page holds that was told of in this group: never 0.
    mark: u8,
}

// SAFETY: the raw pointers are into the pool, which the `Arc<Pager>` keeps; a worker moves between threads as a whole. It is
// not `Sync` (cells), so its cache and list are used by one thread at a time.
unsafe impl Send for Worker {}

impl Pager {
    /// A worker: one for each thread that computes.
    ///
    /// # Panics
    /// If the system refuses the address space for the worker's pins (a few megabytes, of which only what is used is memory).
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
            // What finds no room is charged all the same: a worker without its tables cannot run, and what is above the limit is
            // made up for as pages are released.
            let _room = self.make_room(&mut st, cost);
            self.ledger.force(ChargeKind::Tables, cost);
        }
        for chunk in 0..st.numbers.chunks() {
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
            untold: Cell::new(Vec::new()),
            mark: 1,
        }
    }
}

impl Worker {
    /// The pager.
    pub fn pager(&self) -> &Arc<Pager> {
        &self.pager
    }

    /// Bytes of the pages that are pinned now.
    pub fn pinned_bytes(&self) -> usize {
        self.pinned_bytes.get()
    }

    /// Changes whenever pins are released, and is another for every worker: what [`Self::page`] returned stays where it is for as
    /// long as this is the same.
    #[inline]
    pub fn releases(&self) -> u64 {
        self.releases
    }

    /// The bytes of a page, pinned until the next [`Worker::release`] or [`Worker::begin_step`]. `Absent` may be said of a page
    /// that is being moved; [`Pager::request`] knows better.
    #[inline]
    pub fn page(&self, id: PageId) -> Lookup<'_> {
        let place = place(id);
        // SAFETY: `place` is below CACHE. The entry is only written in `pin`, `tell_again` and `release`, on this thread, and no
        // reference to it is kept.
        let e = unsafe { *self.cache.get_unchecked(place).get() };
        if e.page == id.page && e.tag == tag(id) {
            count(&self.pins.hits);
            if e.group != self.groups as u32 {
                self.tell_again(id, place);
            }
            // SAFETY: invariant 1: the page is pinned, its bytes are not written while it is resident, and the borrow of `self`
            // ends before the pin does.
            return Lookup::Here(unsafe { std::slice::from_raw_parts(e.ptr, e.len as usize) });
        }
        self.first_look(id, place)
    }

    /// A page that stayed pinned is used for the first time in this group.
    #[inline(never)]
    fn tell_again(&self, id: PageId, place: usize) {
        // SAFETY: only this thread uses the entry, and no reference to it is kept.
        unsafe { (*self.cache[place].get()).group = self.groups as u32 };
        let mut untold = self.untold.take();
        untold.push(Event::Pin { page: id, worker: self.pins.serial, group: self.groups, fresh: false });
        let full = untold.len() >= UNTOLD;
        self.untold.set(untold);
        if full {
            self.tell_rest();
        }
    }

    /// Tells what nobody was told of yet.
    fn tell_rest(&self) {
        // Taken before: whoever is told may be a program that looks at pages.
        let mut untold = self.untold.take();
        if !untold.is_empty() {
            self.pager.emit_all(&untold);
            untold.clear();
            untold.append(&mut self.untold.take());
        }
        self.untold.set(untold);
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
                // The evictor may have seen this pin and found memory full because of it.
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
            self.tell_pin(id, true);
        } else if !f.is(id) {
            // Pinned for another page, which therefore is what the frame holds: the table was read while it changed.
            return None;
        } else if held != self.mark {
            pin.store(self.mark, Relaxed);
            self.tell_pin(id, false);
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

    fn tell_pin(&self, page: PageId, fresh: bool) {
        self.tell_rest();
        self.pager.emit(|| Event::Pin { page, worker: self.pins.serial, group: self.groups, fresh });
    }

    /// Tells the policy that a page is in use; writes only what is not so already.
    fn note(&self, f: &Frame) {
        if f.referenced.load(Relaxed) != used::YES {
            f.referenced.store(used::YES, Relaxed);
        }
        let tick = self.pager.tick.load(Relaxed);
        if f.stamp.load(Relaxed) != tick {
            f.stamp.store(tick, Relaxed);
        }
    }

    /// To be called between steps: releases the pins if memory is short or the worker has more pinned than its share (a quarter
    /// of the limit, divided by the workers). Two loads and two comparisons otherwise. Where somebody observes, each so many steps are
    /// a group, in which a page is told of once.
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

    /// From here on pages are told of once more, also those that stay pinned.
    #[inline(never)]
    fn next_group(&mut self) {
        self.steps = 0;
        if self.pager.observed() {
            self.tell_rest();
            self.groups += 1;
            self.mark = 1 + (self.groups % u64::from(OLD - 1)) as u8;
            // What others remember of this worker's pages is looked up anew.
            self.releases += 1;
            if self.mark == 1 {
                // Marks begin again: what is pinned has none of them.
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
        self.tell_rest();
        let list = self.list.get_mut();
        // In use until now: that is when the policies' clocks should say that they were used.
        let tick = self.pager.tick.load(Relaxed);
        for p in list.iter() {
            *self.cache[p.place as usize].get_mut() = NOTHING;
            if let Some(f) = self.pager.frames.get(p.frame) {
                // What was offered in the meantime stays so.
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
