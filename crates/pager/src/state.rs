//! What the pager's lock protects: flights (pages on their way), who waits for them, and the queues between.
//!
//! A page that is neither resident nor failed and that someone asked for has one *flight*. It is *queued*, may have to wait
//! for an *index* page, is *started* (its memory is reserved; it has an [`Active`] entry until it is settled), and is settled
//! as resident, failed or cancelled. All waiters hang on the flight; that is what makes reading single-flight.

use crate::derived::{DerivedInput, Making};
use crate::error::{PageError, PageErrorKind};
use crate::frames::FrameNumbers;
use crate::id::{PageId, SourceId};
use crate::map::{Extent, PageMap};
use crate::policy::Policy;
use crate::pool::{Pool, PoolSlot};
use crate::request::Wake;
use crate::slab::SlotMap;
use crate::source::Source;
use crate::table::PageHash;
use crate::touched::Touched;
use crate::worker::Pins;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum FlightStage {
    Queued,
    NeedsIndex,
    /// Derived, and not to be begun before others are made.
    Parked,
    Started,
}

/// What `locate` said, kept while the page waits for memory.
#[derive(Default)]
pub(crate) struct Translated {
    pub(crate) segments: Vec<Extent>,
    pub(crate) encoded_len: usize,
    /// The part of the encoded buffer that is the page: more was read where whole blocks of the device are.
    pub(crate) body: Range<usize>,
    /// The part of the encoded buffer that belongs into the frame, at this byte.
    pub(crate) moved: Option<(Range<usize>, usize)>,
    pub(crate) scratch_len: usize,
    pub(crate) fill: bool,
    /// The pages that it is made of, where it is derived.
    pub(crate) inputs: Option<Vec<PageId>>,
}

impl Translated {
    /// Bytes of the pool that the encoded page takes (none if a [`Tail`] holds it), and its scratch.
    pub(crate) fn buffers(&self) -> [usize; 2] {
        [if self.encoded_len > TAIL_BYTES { self.encoded_len } else { 0 }, self.scratch_len]
    }

    /// Where the encoded bytes go: the slot that was reserved for them, or a tail of their own.
    pub(crate) fn encoded(&self, slot: Option<PoolSlot>) -> Option<Encoded> {
        match slot {
            Some(slot) => Some(Encoded::Slot(slot, self.encoded_len)),
            None => (self.encoded_len > 0).then(|| Encoded::Tail(Tail::new(), self.encoded_len)),
        }
    }
}

pub(crate) struct Flight {
    pub(crate) id: PageId,
    pub(crate) stage: FlightStage,
    /// Someone waits for it to compute with it.
    pub(crate) demand: bool,
    /// Its read was started, or will be, ahead of any use.
    pub(crate) prefetched: bool,
    /// 1. A queue entry counts only if it carries this number: a promoted flight leaves a dead entry in the prefetch queue.
    pub(crate) ticket: u64,
    /// Head of the list of waiters in `PagerState::waits`.
    pub(crate) waiters: u32,
    /// 2. The index page that it waits for or that was made resident for it: held until the translation was repeated, so that
    ///    the index cannot be evicted again by the very pages that need it.
    pub(crate) index: Option<PageId>,
    pub(crate) hops: u8,
    /// Its entry among the active ones while it is being made, else `NONE`.
    pub(crate) making: u32,
    pub(crate) job: Option<Box<Translated>>,
}

#[derive(Copy, Clone, Debug)]
pub(crate) enum Waiter {
    Request(u32),
    /// A flight with the ticket that it had, since its place may have become another's when it was cancelled.
    Flight(u32, u64),
}

pub(crate) struct WaitNode {
    pub(crate) to: Waiter,
    pub(crate) next: u32,
}

pub(crate) struct Request {
    pub(crate) token: u64,
    pub(crate) wake: Arc<dyn Wake>,
    pub(crate) left: u32,
}

/// Where the encoded bytes of a page go, and how many they are.
pub(crate) enum Encoded {
    Slot(PoolSlot, usize),
    Tail(Tail, usize),
}

impl Encoded {
    pub(crate) fn place(&self) -> (*mut u8, usize) {
        match self {
            Self::Slot(slot, len) => (slot.ptr, *len),
            Self::Tail(tail, len) => (tail.ptr(), *len),
        }
    }
}

/// Bytes of a [`Tail`]: a checksum, as a rule.
const TAIL_BYTES: usize = 16;

/// The few bytes that are read beside a page that goes straight into its frame. A slot of the pool would be a page of the system. A
/// raw pointer, because the entry that owns it moves while a source writes here, and a box would say that nobody else does.
pub(crate) struct Tail(NonNull<[u8; TAIL_BYTES]>);

impl Tail {
    fn new() -> Self {
        Self(NonNull::from(Box::leak(Box::new([0; TAIL_BYTES]))))
    }

    fn ptr(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // SAFETY: from a box, and owned by this value alone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A page whose memory is reserved.
pub(crate) struct Active {
    pub(crate) flight: u32,
    pub(crate) id: PageId,
    pub(crate) frame: u32,
    pub(crate) ptr: *mut u8,
    pub(crate) len: usize,
    pub(crate) encoded: Option<Encoded>,
    /// As in [`Translated`].
    pub(crate) body: Range<usize>,
    /// As in [`Translated`].
    pub(crate) moved: Option<(Range<usize>, usize)>,
    pub(crate) scratch: Option<(PoolSlot, usize)>,
    pub(crate) segments: Vec<Extent>,
    /// 3. Segments that have not arrived. While it is not 0 a source may write to the frame and the encoded buffer, so they are
    ///    not freed, cancelled or not.
    pub(crate) left: u32,
    /// Segments handed to a source so far.
    pub(crate) issued: u32,
    pub(crate) fill: bool,
    pub(crate) error: Option<(SourceId, u64, PageErrorKind)>,
    pub(crate) attempts: u8,
    /// What is still to be done, where the page is made of others.
    pub(crate) making: Option<Box<Making>>,
}

impl Active {
    /// Bytes reserved for it in the pool.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        let encoded = if let Some(Encoded::Slot(_, len)) = self.encoded { len } else { 0 };
        (self.len + encoded + self.scratch.map_or(0, |s| s.1)) as u64
    }

    /// Bytes of its lists, outside the pool.
    pub(crate) fn heap_bytes(&self) -> u64 {
        let tail = if let Some(Encoded::Tail(..)) = self.encoded { TAIL_BYTES } else { 0 };
        let making =
            self.making.as_ref().map_or(0, |m| size_of::<Making>() + m.wanted.capacity() * size_of::<DerivedInput>());
        (self.segments.capacity() * size_of::<Extent>() + tail + making) as u64
    }
}

/// A segment that waits for a read slot.
#[derive(Copy, Clone)]
pub(crate) struct Staged {
    pub(crate) source: SourceId,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    pub(crate) active: u32,
    pub(crate) segment: u32,
    /// Read on its own: a joined read that it was part of failed, and the failure must not be blamed on its neighbours.
    pub(crate) solo: bool,
    /// A piece of a row, of a page that has many: what lies between it and the next may be read with them.
    pub(crate) piece: bool,
}

/// A read that a source works on.
pub(crate) struct ReadUnderway {
    /// Distinguishes this read from earlier ones at the same place: a source that completes twice is found out.
    pub(crate) serial: u32,
    /// In the order in which they lie.
    pub(crate) parts: Vec<ReadPart>,
}

/// A segment within a read.
#[derive(Copy, Clone)]
pub(crate) struct ReadPart {
    pub(crate) active: u32,
    pub(crate) segment: u32,
    /// Its first bytes that are the last ones of the part before it: read there, and copied from there.
    pub(crate) shared: u32,
}

/// Counters that are kept under the lock.
#[derive(Default)]
pub(crate) struct LockedCounters {
    pub(crate) faults: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) prefetched_used: u64,
    pub(crate) evictions: u64,
    pub(crate) given_back: u64,
    pub(crate) prefetched: u64,
    pub(crate) prefetch_dropped: u64,
    pub(crate) fills: u64,
    pub(crate) failed: u64,
    pub(crate) published: u64,
    pub(crate) decoded: u64,
    pub(crate) derived: u64,
    pub(crate) given_up: u64,
    pub(crate) index_faults: u64,
    pub(crate) bytes_read: u64,
    pub(crate) reads: u64,
    pub(crate) segments: u64,
    pub(crate) retries: u64,
    pub(crate) full: u64,
}

pub(crate) struct PagerState {
    pub(crate) maps: Vec<Arc<dyn PageMap>>,
    pub(crate) sources: Vec<Arc<dyn Source>>,
    pub(crate) pool: Pool,
    pub(crate) numbers: FrameNumbers,
    pub(crate) policy: Box<dyn Policy>,
    /// Frames that go before what the policy finds, with the pages that they held when that was said, by [`crate::evict::Again`].
    pub(crate) offered: [VecDeque<(u32, PageId)>; 2],

    pub(crate) flights: SlotMap<Flight>,
    /// 4. Exactly the flights of `flights`, by page. A page in here is not in the page table.
    pub(crate) flying: HashMap<PageId, u32, PageHash>,
    pub(crate) requests: SlotMap<Request>,
    pub(crate) waits: SlotMap<WaitNode>,
    pub(crate) tickets: u64,
    /// 5. First in, first out, and its head blocks the rest while memory is full: a large page cannot be overtaken for ever
    ///    by small ones.
    pub(crate) demand: VecDeque<(u32, u64)>,
    /// 6. Looked at only when `demand` is empty.
    pub(crate) prefetch: VecDeque<(u32, u64)>,

    pub(crate) active: SlotMap<Active>,
    /// Of pages that are read.
    pub(crate) active_bytes: u64,
    /// Of pages that are made of others.
    pub(crate) making_bytes: u64,
    /// How many those are, and how many there ever were.
    pub(crate) makings: usize,
    pub(crate) making_serial: u64,
    /// Flights in [`FlightStage::Parked`], with their tickets, first come first.
    pub(crate) parked: VecDeque<(u32, u64)>,
    /// A page was given up for want of memory: until one is made, none is begun beside another.
    pub(crate) alone: bool,
    /// Of the lists of `active`: a page of a file in another order can have hundreds of segments.
    pub(crate) heap_bytes: u64,
    pub(crate) staged: VecDeque<Staged>,
    pub(crate) reads: SlotMap<ReadUnderway>,
    pub(crate) serial: u32,
    /// 7. Reads that a source works on; never more than the configured readers.
    pub(crate) in_flight: usize,
    /// Active entries whose segments have all arrived.
    pub(crate) arrived: VecDeque<u32>,
    /// No reads are started until some of `arrived` are decoded.
    pub(crate) backlog: bool,
    /// 8. One thread at a time submits, without the lock. Others leave a note in `again`. So a source that completes inside
    ///    `submit` does not recurse.
    pub(crate) pumping: bool,
    pub(crate) again: bool,
    /// The head of `demand` waits for memory.
    pub(crate) starved: bool,
    /// Counts what could make room: pages published, memory freed, holds dropped.
    pub(crate) relief: u64,
    /// `relief` when the head of `demand` last found memory full: no use to look again before it changes.
    pub(crate) refused_at: Option<u64>,
    /// The limit was lowered and the pool is not below it yet.
    pub(crate) shrinking: bool,

    pub(crate) failed: HashMap<PageId, PageError, PageHash>,
    /// Of the page that failed before all others.
    pub(crate) first_failure: Option<PageError>,
    pub(crate) held: HashMap<PageId, u32, PageHash>,
    pub(crate) touched: Touched,
    pub(crate) workers: Vec<Arc<Pins>>,
    pub(crate) worker_serial: u32,
    /// 9. Called after the lock is released, by whoever put them here.
    pub(crate) wakes: Vec<(Arc<dyn Wake>, u64)>,
    pub(crate) tally: LockedCounters,
    /// Bytes of bookkeeping charged beyond the reserve.
    pub(crate) booked: u64,
}

// SAFETY: raw pointers in slots and active entries are addresses in the pool, which `PagerState` owns; who may touch the memory
// behind them is fixed by invariant 3 and by pinning.
unsafe impl Send for PagerState {}

impl PagerState {
    /// Bytes of queues, lists and maps.
    pub(crate) fn bookkeeping(&self) -> u64 {
        let vectors = self.flights.bytes()
            + self.requests.bytes()
            + self.waits.bytes()
            + self.active.bytes()
            + self.reads.bytes()
            + self.staged.capacity() * size_of::<Staged>()
            + (self.demand.capacity() + self.prefetch.capacity() + self.parked.capacity()) * 16
            + self.arrived.capacity() * 4
            + self.flying.capacity() * 32
            + self.held.capacity() * 32
            // A failed page keeps a message beside its place in the map.
            + self.failed.capacity() * 160;
        vectors as u64 + self.heap_bytes + self.touched.bytes()
    }

    /// Gives the room of lists back that a burst of requests has left, if they are empty now. False if they are not.
    pub(crate) fn trim(&mut self) -> bool {
        if self.flights.len() > 0 || self.requests.len() > 0 || self.waits.len() > 0 || self.active.len() > 0 {
            return false;
        }
        self.flights = SlotMap::default();
        self.flying = HashMap::default();
        self.requests = SlotMap::default();
        self.waits = SlotMap::default();
        self.active = SlotMap::default();
        self.demand = VecDeque::new();
        self.prefetch = VecDeque::new();
        self.parked = VecDeque::new();
        self.held.shrink_to_fit();
        true
    }

    pub(crate) fn add_waiter(&mut self, flight: u32, to: Waiter) {
        let Some(next) = self.flights.get(flight).map(|f| f.waiters) else { return };
        let node = self.waits.insert(WaitNode { to, next });
        if let Some(f) = self.flights.get_mut(flight) {
            f.waiters = node;
        }
    }

    /// Queues a flight, at the front if it has waited already.
    pub(crate) fn enqueue(&mut self, flight: u32, front: bool) {
        self.tickets += 1;
        let ticket = self.tickets;
        let Some(f) = self.flights.get_mut(flight) else { return };
        f.ticket = ticket;
        f.stage = FlightStage::Queued;
        let queue = if f.demand { &mut self.demand } else { &mut self.prefetch };
        if front {
            queue.push_front((flight, ticket));
        } else {
            queue.push_back((flight, ticket));
        }
    }

    /// Whether somebody waits for a flight, and nobody but with this wake.
    pub(crate) fn only_for(&self, flight: u32, wake: &Arc<dyn Wake>) -> bool {
        let mut node = self.flights.get(flight).map_or(NONE, |f| f.waiters);
        let mut any = false;
        while let Some(w) = self.waits.get(node) {
            node = w.next;
            let mine = match w.to {
                Waiter::Request(r) => {
                    self.requests.get(r).map(|r| std::ptr::addr_eq(Arc::as_ptr(&r.wake), Arc::as_ptr(wake)))
                }
                // Of a page that waits for this one as its index.
                Waiter::Flight(other, ticket) => {
                    let other = self.flights.get(other).filter(|o| o.ticket == ticket).map(|_| other);
                    other.map(|o| self.only_for(o, wake))
                }
            };
            match mine {
                Some(false) => return false,
                Some(true) => any = true,
                None => {}
            }
        }
        any
    }

    /// The flight at the front of a queue, dead entries dropped.
    pub(crate) fn head(&mut self, demand: bool) -> Option<u32> {
        loop {
            let queue = if demand { &mut self.demand } else { &mut self.prefetch };
            let &(flight, ticket) = queue.front()?;
            match self.flights.get(flight) {
                Some(f) if f.ticket == ticket && f.stage == FlightStage::Queued => return Some(flight),
                _ => {
                    queue.pop_front();
                }
            }
        }
    }

    /// Nothing is on its way that would free or publish memory.
    pub(crate) fn quiet(&self) -> bool {
        // A page that is being made and waits for its inputs moves no sooner than they do.
        self.active.iter().all(|(_, a)| a.making.as_ref().is_some_and(|m| !m.busy))
    }
}
