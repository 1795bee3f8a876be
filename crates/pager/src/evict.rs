//! Making room: reserving a page's memory in one charge, dropping clean pages, giving memory back.

use crate::event::Event;
use crate::frames::{state, used, Chunked, Frame, FrameNumbers, CHUNK};
use crate::id::{ArrayId, PageId};
use crate::ledger::{ChargeKind, Full};
use crate::map::PageMap;
use crate::pager::Pager;
use crate::policy::{Need, Probe};
use crate::pool::{ClassId, Pool, PoolSlot, HUGE_BYTES};
use crate::request::Priority;
use crate::state::{LockedCounters, PagerState};
use crate::table::Table;
use crate::touched::Touched;
use crate::worker::{Pins, PIN_BYTES};
use std::ops::Range;
use std::sync::atomic::{fence, Ordering::*};
use std::sync::Arc;

/// Free slots that wait for a page of their size keep at most one part in this many of the limit from pages of other sizes. With
/// one in 32, the buffers of one batch of pages of 48 KiB went to the system after it and came back for the next: 25.6 us a page,
/// not 21.6.
const CACHED_SHARE: u64 = 12;

/// When a page is expected to be wanted again that nobody is at any more.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Again {
    /// Never.
    Never = 0,
    /// Behind all others that are wanted again.
    Last = 1,
}

/// Pages of each kind that are remembered as [offered](Pager::offer_pages): 32 KiB of names, a part of the reserve of any limit under which
/// there are so many.
const MOST_OFFERED: usize = 1024;

/// Of these so many are looked at for one that can go: those that workers still have pinned are the ones offered last.
pub(crate) const OFFERS_TRIED: usize = 64;

/// Pages for each reader that may be published between a page and its first use. As many are staged for each reader at a time, and what a
/// task waits for is among them as a rule.
const PUBLISHED_BEFORE_USE: u64 = 4;

/// Least limit under which slots come by the huge page: there are some ten sizes of slots, and each may leave most of one unused.
const HUGE_LIMIT: u64 = 128 << 20;

/// A page's memory, all of it.
pub(crate) struct Reserved {
    pub(crate) frame: u32,
    pub(crate) slot: PoolSlot,
    pub(crate) encoded: Option<PoolSlot>,
    pub(crate) scratch: Option<PoolSlot>,
}

/// Why a reservation failed.
pub(crate) enum NoRoom {
    /// Not now.
    Full,
    /// Never under this limit.
    TooLarge { needs: u64, limit: u64 },
    /// The system refused address space.
    System(String),
}

/// What the policy sees of the pager.
struct PagerProbe<'a> {
    pager: &'a Pager,
    pool: &'a mut Pool,
    numbers: &'a mut FrameNumbers,
    workers: &'a [Arc<Pins>],
    touched: &'a mut Touched,
    maps: &'a [Arc<dyn PageMap>],
    tally: &'a mut LockedCounters,
    /// Pages go since the run has passed them, and not to make room.
    passed: bool,
}

impl PagerProbe<'_> {
    fn frame(&self, frame: u32) -> Option<&Frame> {
        self.pager.frames.get(frame)
    }

    /// Whether a frame still holds a page that was offered, and nobody has asked for it since.
    fn is_offered(&self, frame: u32, id: PageId) -> bool {
        self.frame(frame).is_some_and(|f| {
            let offered = f.referenced.load(Relaxed) == used::OFFERED;
            offered && f.state.load(Relaxed) == state::RESIDENT && f.id() == id
        })
    }
}

/// Pages that may be published between the coming of a page and its first use by whoever waits for it.
pub(crate) fn settling(readers: usize) -> u64 {
    PUBLISHED_BEFORE_USE * readers as u64
}

impl Probe for PagerProbe<'_> {
    fn referenced(&self, frame: u32) -> bool {
        self.frame(frame).is_some_and(|f| f.referenced.load(Relaxed) == used::YES)
    }

    fn forget(&self, frame: u32) {
        if let Some(f) = self.frame(frame) {
            f.referenced.store(used::NO, Relaxed);
        }
    }

    fn stamp(&self, frame: u32) -> u64 {
        self.frame(frame).map_or(0, |f| f.stamp.load(Relaxed))
    }

    fn now(&self) -> u64 {
        self.pager.tick.load(Relaxed)
    }

    fn lately(&self) -> u64 {
        self.pager.lately.load(Relaxed)
    }

    fn settling(&self) -> u64 {
        settling(self.pager.readers)
    }

    fn take(&mut self, frame: u32) -> bool {
        let frames: &Chunked<Frame> = &self.pager.frames;
        let Some(f) = frames.get(frame) else { return false };
        if f.holds.load(Relaxed) != 0 || f.state.load(Relaxed) != state::RESIDENT {
            return false;
        }
        // Invariant 1 of `Frame`: announce, fence, look.
        f.state.store(state::EVICTING, Release);
        fence(SeqCst);
        if self.workers.iter().any(|w| w.pinned(frame)) {
            f.state.store(state::RESIDENT, Release);
            return false;
        }
        let id = f.id();
        self.pager.table.remove(id, frames);
        match f.prefetched.swap(0, Relaxed) {
            1 => self.pager.emit(|| Event::PrefetchWasted { page: id }),
            2 => {
                if let Some(map) = self.maps.get(id.array.0 as usize).filter(|m| !m.derived()) {
                    self.touched.mark(id, map.pages(), self.pager.ledger.limit() / 32);
                }
            }
            _ => {}
        }
        f.state.store(state::FREE, Release);
        if let Some(slot) = self.numbers.free(frame) {
            let bytes = self.pool.bytes(slot.class) as u64;
            self.pool.put(slot);
            self.pager.ledger.transfer(ChargeKind::Frames, ChargeKind::Cached, bytes);
        }
        if self.passed {
            self.tally.given_back += 1;
            self.pager.emit(|| Event::GiveBack { page: id });
        } else {
            self.tally.evictions += 1;
            self.pager.emit(|| Event::Evict { page: id });
        }
        true
    }
}

impl Pager {
    /// The count of pages published, by which uses are dated.
    pub fn now(&self) -> u64 {
        self.tick.load(Relaxed)
    }

    /// Pages dropped so far to make room.
    pub fn evictions(&self) -> u64 {
        self.lock().tally.evictions
    }

    /// From now on no prefetch takes the place of a page that was used at this count ([`Self::now`]) or later: a run through time knows
    /// that what it has used in its last window it will likely want in this one. `u64::MAX`: the policy alone decides.
    pub fn keep_used_since(&self, count: u64) {
        self.lately.store(count, Relaxed);
        self.emit(|| Event::Lately { count });
    }

    /// Drops the resident pages of some time steps, except those that are pinned or held: a run that has passed these segments gives
    /// them back before the policy would find them. Of step 0, as which steady arrays count, only the pages of `unsteady` arrays go
    /// (sorted). Says how many were dropped.
    pub fn give_back_segments(&self, unsteady: &[ArrayId], steps: Range<u32>) -> u64 {
        let mut st = self.lock();
        let all = 0..(st.numbers.chunks() * CHUNK) as u32;
        let passed =
            |id: &PageId| steps.contains(&id.step) && (id.step > 0 || unsteady.binary_search(&id.array).is_ok());
        let those = all.map_while(|n| Some((n, self.frames.get(n)?)));
        let those = those.filter(|(_, f)| f.state.load(Relaxed) == state::RESIDENT && passed(&f.id())).map(|(n, _)| n);
        let dropped = self.drop_frames(&mut st, those);
        self.finish(st);
        dropped
    }

    /// Drops those of some pages that are resident, except those that are pinned or held: a pass that comes to each page once has their room
    /// for those that it comes to next. Says how many were dropped.
    pub fn give_back_pages(&self, pages: &[PageId]) -> u64 {
        let mut st = self.lock();
        let those = pages.iter().filter_map(|id| {
            let n = self.table.find(*id, &self.frames)?;
            let there = |f: &Frame| f.state.load(Relaxed) == state::RESIDENT && f.id() == *id;
            self.frames.get(n).is_some_and(there).then_some(n)
        });
        let dropped = self.drop_frames(&mut st, those);
        self.finish(st);
        dropped
    }

    /// Says when these pages are expected to be wanted again: those never wanted go before any others, then those wanted last, the first
    /// offered first, each unless somebody has used it after all by then. What the policy would find goes after them.
    pub fn offer_pages(&self, pages: &[PageId], again: Again) {
        let mut st = self.lock();
        let room = MOST_OFFERED.saturating_sub(st.offered[again as usize].len());
        for id in pages.iter().take(room) {
            let Some(n) = self.table.find(*id, &self.frames) else { continue };
            if let Some(f) = self.frames.get(n) {
                f.referenced.store(used::OFFERED, Relaxed);
                st.offered[again as usize].push_back((n, *id));
                self.emit(|| Event::Offer { page: *id, again: again as u32 });
            }
        }
    }

    /// Forgets what was said of pages that are gone, or were used since. The others still go first: in a run that goes to and fro what was
    /// left first is wanted last in the next window, too.
    pub fn sort_out_offers(&self) {
        let mut st = self.lock();
        let PagerState { offered, pool, numbers, workers, touched, maps, tally, .. } = &mut *st;
        let hand = PagerProbe { pager: self, pool, numbers, workers, touched, maps, tally, passed: false };
        offered.iter_mut().for_each(|queue| queue.retain(|(frame, id)| hand.is_offered(*frame, *id)));
        self.emit(|| Event::SortOffers { left: offered.iter().map(|queue| queue.len() as u64).sum() });
    }

    /// Drops those frames that may go. They are counted for themselves: nothing else wanted their room.
    fn drop_frames(&self, st: &mut PagerState, frames: impl Iterator<Item = u32>) -> u64 {
        let PagerState { policy, pool, numbers, workers, touched, maps, tally, .. } = st;
        let mut hand = PagerProbe { pager: self, pool, numbers, workers, touched, maps, tally, passed: true };
        let mut dropped = 0;
        for n in frames {
            if hand.take(n) {
                policy.removed(n);
                dropped += 1;
            }
        }
        st.relief += u64::from(dropped > 0);
        dropped
    }

    /// Drops one clean page. Its memory is cached then.
    fn evict(&self, st: &mut PagerState, need: Need) -> bool {
        let PagerState { policy, pool, numbers, workers, touched, maps, tally, offered, .. } = st;
        let mut hand = PagerProbe { pager: self, pool, numbers, workers, touched, maps, tally, passed: false };
        // What is wanted again no prefetch takes the place of.
        let kinds = if need == Need::Prefetch { 1 } else { 2 };
        for queue in offered.iter_mut().take(kinds) {
            // Those that a worker has not let go of yet come up again later.
            for _ in 0..queue.len().min(OFFERS_TRIED) {
                let Some((frame, id)) = queue.pop_front() else { break };
                if !hand.is_offered(frame, id) {
                    continue;
                }
                if hand.take(frame) {
                    policy.removed(frame);
                    return true;
                }
                queue.push_back((frame, id));
            }
        }
        policy.victim(need, &mut hand).is_some()
    }

    /// Tells that pages were dropped, or none could be, where no reservation tells it.
    fn tell_squeeze(&self, need: Need, full: bool) {
        self.emit(|| Event::Squeeze {
            frames: self.ledger.of(ChargeKind::Frames),
            cached: self.ledger.of(ChargeKind::Cached),
            used: self.ledger.used(),
            full,
            priority: if need == Need::Demand { Priority::Demand } else { Priority::Prefetch },
        });
    }

    fn give_back(&self, st: &mut PagerState, bytes: u64, keep: impl Fn(ClassId) -> usize) -> bool {
        let given = st.pool.give_back(usize::try_from(bytes).unwrap_or(usize::MAX), keep);
        self.ledger.release(ChargeKind::Cached, given.slots as u64);
        self.ledger.release(ChargeKind::Tables, given.rests as u64);
        given.slots > 0
    }

    fn full(&self, needs: u64) -> Full {
        Full { needs, used: self.ledger.used(), limit: self.ledger.limit() }
    }

    /// Drops pages until `bytes` more fit under the limit.
    pub(crate) fn make_room(&self, st: &mut PagerState, bytes: u64) -> Result<(), Full> {
        let pool = self.ledger.of(ChargeKind::Frames) + self.ledger.of(ChargeKind::Cached);
        let rest = self.ledger.used().saturating_sub(pool);
        if rest.saturating_add(bytes) > self.ledger.limit() {
            // Not even an empty pool would do: do not empty it for nothing.
            if bytes > 0 {
                return Err(self.full(bytes));
            }
        }
        let before = st.tally.evictions;
        loop {
            let short = self.ledger.used().saturating_add(bytes).saturating_sub(self.ledger.limit());
            if short == 0 {
                if st.tally.evictions > before {
                    self.tell_squeeze(Need::Demand, false);
                }
                return Ok(());
            }
            if !self.give_back(st, short, |_| 0) && !self.evict(st, Need::Demand) {
                self.tell_squeeze(Need::Demand, true);
                return Err(self.full(bytes));
            }
        }
    }

    /// Bytes of tables that one more frame costs now.
    fn table_growth(&self, st: &PagerState) -> u64 {
        let chunk = match st.numbers.next_chunk() {
            Some(_) => self.chunk_bytes(st, st.workers.len()),
            None => 0,
        };
        chunk + self.table.growth(self.reserved_frames(st))
    }

    /// Frames that will want a place in the table: those being read, and one more.
    fn reserved_frames(&self, st: &PagerState) -> usize {
        st.active.len() + 1
    }

    /// Bytes that one chunk of frames costs with `workers` workers.
    fn chunk_bytes(&self, st: &PagerState, workers: usize) -> u64 {
        (CHUNK * (size_of::<Frame>() + 40 + st.policy.bytes_per_frame() + workers * PIN_BYTES)) as u64
    }

    /// Bytes of tables without which not even one page can be resident.
    fn least_tables(&self, st: &PagerState) -> u64 {
        self.reserve.load(Relaxed) + Table::first_bytes() + self.chunk_bytes(st, st.workers.len())
    }

    /// Bytes that one more worker costs in all chunks there are.
    pub(crate) fn worker_bytes(&self, st: &PagerState) -> u64 {
        (CHUNK * st.numbers.chunks() * PIN_BYTES) as u64
    }

    /// While memory is far from full, slots come by the huge page, charged whole. Not before those are used again that were given
    /// back to the system: else what is behind the last slots, and the addresses, would grow with every squeeze.
    fn stock(&self, st: &mut PagerState, class: ClassId) {
        let limit = self.ledger.limit();
        if limit < HUGE_LIMIT || st.pool.free(class) > 0 {
            return;
        }
        if st.pool.huge_slots(class).is_none() {
            return;
        }
        let bytes = HUGE_BYTES as u64;
        if self.ledger.used() + bytes > limit / 4 * 3 || !self.ledger.try_charge(ChargeKind::Cached, bytes) {
            return;
        }
        match st.pool.stock(class) {
            Ok(rest) => self.ledger.transfer(ChargeKind::Cached, ChargeKind::Tables, rest as u64),
            Err(_) => self.ledger.release(ChargeKind::Cached, bytes),
        }
    }

    /// Reserves frame, encoded buffer and scratch in one charge, or nothing.
    pub(crate) fn reserve(
        &self,
        st: &mut PagerState,
        sizes: [usize; 3],
        id: PageId,
        need: Need,
    ) -> Result<Reserved, NoRoom> {
        let limit = self.ledger.limit();
        let never = |needs: u64, limit: u64| NoRoom::TooLarge { needs, limit };
        let [frame, encoded, scratch] = sizes;
        let overflow = || never(u64::MAX, limit);
        let frame = st.pool.class(frame).ok_or_else(overflow)?;
        let encoded = (encoded > 0).then(|| st.pool.buffer_class(encoded).ok_or_else(overflow)).transpose()?;
        let scratch = (scratch > 0).then(|| st.pool.buffer_class(scratch).ok_or_else(overflow)).transpose()?;
        let wanted = [Some(frame), encoded, scratch];
        let count = |class: ClassId| wanted.iter().flatten().filter(|c| **c == class).count();
        let whole: u64 = wanted.iter().flatten().map(|c| st.pool.bytes(*c) as u64).sum();
        let left = limit.saturating_sub(self.least_tables(st));
        if whole > left || st.numbers.exhausted() {
            return Err(never(whole, left));
        }
        for class in wanted.iter().flatten() {
            self.stock(st, *class);
        }
        loop {
            // Slots that are cached are charged already.
            let mut short = self.table_growth(st);
            for (i, class) in wanted.iter().enumerate().filter_map(|(i, c)| Some((i, (*c)?))) {
                let nth = wanted[..i].iter().flatten().filter(|c| **c == class).count();
                if nth >= st.pool.cached(class) {
                    short += st.pool.bytes(class) as u64;
                }
            }
            if self.ledger.used() <= self.ledger.limit()
                && (short == 0 || self.ledger.try_charge(ChargeKind::Cached, short))
            {
                break;
            }
            let over = self.ledger.used().saturating_add(short).saturating_sub(self.ledger.limit());
            // A page dropped is most often of the size that is wanted and serves at once. Free slots of other sizes are kept up
            // to a share of the limit: buffers that the next page wants again should not go to the system and back each time.
            let slack = limit / CACHED_SHARE;
            let excess = self.ledger.of(ChargeKind::Cached).saturating_sub(slack);
            if excess > 0 && self.give_back(st, over.min(excess), count) {
                continue;
            }
            if !self.evict(st, need) {
                // After it the policy's order may be another.
                self.tell_squeeze(need, true);
                if !self.give_back(st, over, count) {
                    return Err(NoRoom::Full);
                }
            }
        }
        // Everything is charged. Growth first, since its bytes were charged as cached with the rest.
        let growth = self.table_growth(st);
        self.ledger.transfer(ChargeKind::Cached, ChargeKind::Tables, growth);
        if let Some(chunk) = st.numbers.next_chunk() {
            self.frames.grow(chunk);
            for w in &st.workers {
                w.grow(chunk);
            }
        }
        self.table.grow(self.reserved_frames(st), &self.frames);
        let kinds = [ChargeKind::Frames, ChargeKind::Encoded, ChargeKind::Scratch];
        let mut slots = [None; 3];
        for i in 0..3 {
            let Some(class) = wanted[i] else { continue };
            match st.pool.take(class) {
                Ok((slot, _)) => slots[i] = Some(slot),
                Err(e) => {
                    // No address space: what was taken is cached again. The charge of the rest stays with the cached kind until
                    // the pool gives memory back; this ends the page, and as good as certainly the run.
                    slots.into_iter().flatten().for_each(|s| st.pool.put(s));
                    self.ledger.release(ChargeKind::Cached, st.pool.bytes(class) as u64);
                    return Err(NoRoom::System(e.to_string()));
                }
            }
        }
        for (class, kind) in wanted.iter().zip(kinds) {
            if let Some(class) = class {
                self.ledger.transfer(ChargeKind::Cached, kind, st.pool.bytes(*class) as u64);
            }
        }
        let [Some(slot), encoded, scratch] = slots else {
            return Err(NoRoom::System("the pool gave no frame".into()));
        };
        let number = st.numbers.take(slot);
        if let Some(f) = self.frames.get(number) {
            f.assign(id, slot.ptr, sizes[0]);
        }
        self.emit(|| Event::Reserve {
            page: id,
            priority: if need == Need::Demand { Priority::Demand } else { Priority::Prefetch },
            bytes: st.pool.bytes(frame) as u64,
            frames: self.ledger.of(ChargeKind::Frames),
            cached: self.ledger.of(ChargeKind::Cached),
            used: self.ledger.used(),
        });
        Ok(Reserved { frame: number, slot, encoded, scratch })
    }

    /// Bytes that a page takes at once.
    pub(crate) fn needs(&self, st: &mut PagerState, flight: u32) -> u64 {
        let Some(f) = st.flights.get(flight) else { return 0 };
        let (id, buffers) = (f.id, f.job.as_ref().map_or([0, 0], |j| j.buffers()));
        let Some(map) = st.maps.get(id.array.0 as usize) else { return 0 };
        let frame = crate::os::round_up(map.page_bytes(id)).unwrap_or(usize::MAX) as u64;
        buffers.iter().filter(|b| **b > 0).fold(frame, |sum, b| {
            sum.saturating_add(st.pool.buffer_class(*b).map_or(u64::MAX, |c| st.pool.bytes(c) as u64))
        })
    }

    /// Frees a buffer of an active page.
    pub(crate) fn free_buffer(&self, st: &mut PagerState, slot: PoolSlot, kind: ChargeKind) {
        let bytes = st.pool.bytes(slot.class) as u64;
        st.pool.put(slot);
        st.relief += 1;
        self.ledger.transfer(kind, ChargeKind::Cached, bytes);
    }

    /// Frees a frame that never became resident.
    pub(crate) fn free_frame(&self, st: &mut PagerState, frame: u32) {
        if let Some(f) = self.frames.get(frame) {
            f.state.store(state::FREE, Release);
        }
        if let Some(slot) = st.numbers.free(frame) {
            self.free_buffer(st, slot, ChargeKind::Frames);
        }
    }

    /// Marks a page as touched.
    pub(crate) fn mark_touched(&self, st: &mut PagerState, id: PageId) {
        if let Some(map) = st.maps.get(id.array.0 as usize).filter(|m| !m.derived()) {
            st.touched.mark(id, map.pages(), self.ledger.limit() / 32);
        }
    }

    /// Marks those prefetched pages as touched that workers have used since.
    pub(crate) fn account_prefetched(&self, st: &mut PagerState) {
        if st.tally.prefetched == 0 {
            return;
        }
        for n in 0..(st.numbers.chunks() * CHUNK) as u32 {
            let Some(f) = self.frames.get(n) else { break };
            if f.state.load(Relaxed) == state::RESIDENT && f.prefetched.compare_exchange(2, 0, Relaxed, Relaxed).is_ok()
            {
                self.mark_touched(st, f.id());
            }
        }
    }
}
