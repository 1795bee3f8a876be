//! Making room: reserving a page's memory in one charge, dropping clean pages, giving memory back.

use crate::event::Event;
use crate::frames::{state, used, Chunked, Frame, CHUNK};
use crate::id::{ArrayId, PageId};
use crate::ledger::{ChargeKind, Full};
use crate::map::PageMap;
use crate::page_state::PageState;
use crate::pager::Pager;
use crate::pins::{Pins, PIN_BYTES};
use crate::policy::{Need, Policy, Probe};
use crate::pool::PoolSlot;
use crate::priority::Priority;
use crate::residency::{EvictionHints, FrameSlots, HintOutcome, Reuse};
use crate::state::{LockedCounters, PagerState};
use crate::table::Table;
use crate::touched::Touched;
use std::ops::Range;
use std::sync::atomic::{fence, Ordering::*};
use std::sync::Arc;

/// Free slots of one size that are kept for a page take from other sizes at most one part in this many of the limit.
///
/// A smaller part returns the buffers of each batch of pages to the system, and the next batch faults them in again.
/// With pages of 48 KiB a part of one in 32 takes 25.6 us a page, one in 12 takes 21.6 us.
const CACHED_SHARE: u64 = 12;

/// Index pages are evicted last while they take at most one part in this many of the limit. One index page locates up to
/// some thousand pages, and each of those waits for two reads in turn without it.
const INDEX_SHARE: u64 = 8;

/// Pages for each reader that may be published between a page and its first use. As many pages are staged for each
/// reader at a time, and a task's pages are usually among them.
const PUBLISHED_BEFORE_USE: u64 = 4;

/// The reserved memory of one page.
pub(crate) struct Reserved {
    pub(crate) frame: u32,
    pub(crate) slot: PoolSlot,
    pub(crate) encoded: Option<PoolSlot>,
    pub(crate) scratch: Option<PoolSlot>,
}

/// Why a reservation failed.
pub(crate) enum NoRoom {
    /// The memory is in use now.
    Full,
    /// The limit never allows it.
    TooLarge { needs: u64, limit: u64 },
    /// The system refused address space.
    System(String),
}

/// The pager as a policy sees it.
struct PagerProbe<'a> {
    pager: &'a Pager,
    slots: &'a mut FrameSlots,
    workers: &'a [Arc<Pins>],
    touched: &'a mut Touched,
    maps: &'a [Arc<dyn PageMap>],
    tally: &'a mut LockedCounters,
    /// Pages are dropped because the run has passed them, and not for room.
    passed: bool,
}

impl PagerProbe<'_> {
    fn frame(&self, frame: u32) -> Option<&Frame> {
        self.pager.frames.get(frame)
    }

    /// Whether a frame still holds its hinted page, unused since the hint.
    fn is_hinted(&self, frame: u32, id: PageId) -> bool {
        self.frame(frame).is_some_and(|f| {
            let hinted = f.referenced.load(Relaxed) == used::HINTED;
            hinted && f.state.load(Relaxed) == state::RESIDENT && f.id() == id
        })
    }
}

/// Pages that may be published between the arrival of a page and its first use by the waiting task.
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
        // Invariant 1 of `Frame`: store the state, fence, then check the pins.
        self.slots.go(PageState::Resident, PageState::Evicting);
        f.state.store(state::EVICTING, Release);
        fence(SeqCst);
        if self.workers.iter().any(|w| w.pinned(frame)) {
            self.slots.go(PageState::Evicting, PageState::Resident);
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
        self.slots.go(PageState::Evicting, PageState::Absent);
        f.state.store(state::FREE, Release);
        self.slots.free_frame(frame);
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
    /// The count of published pages, which dates uses.
    pub fn now(&self) -> u64 {
        self.tick.load(Relaxed)
    }

    /// Pages dropped so far to make room.
    pub fn evictions(&self) -> u64 {
        self.lock().tally.evictions
    }

    /// Keeps pages used at this count ([`Self::now`]) or later from being replaced by prefetches. A run through time
    /// likely uses the pages of its last window again. `u64::MAX`: the policy alone decides.
    pub fn keep_used_since(&self, count: u64) {
        self.lately.store(count, Relaxed);
        self.emit(|| Event::Lately { count });
    }

    /// Drops the resident pages of some time steps, except pinned and held ones. Returns their number.
    ///
    /// A run that has passed these segments frees them before the policy would. Steady arrays have step 0, so of step 0
    /// only the pages of `unsteady` arrays (sorted) are dropped.
    pub fn give_back_segments(&self, unsteady: &[ArrayId], steps: Range<u32>) -> u64 {
        let mut st = self.lock();
        let all = 0..(st.residency.slots().chunks() * CHUNK) as u32;
        let passed =
            |id: &PageId| steps.contains(&id.step) && (id.step > 0 || unsteady.binary_search(&id.array).is_ok());
        for index in st.residency.release_indexes_of(passed) {
            self.unhold(&mut st, index);
        }
        let those = all.map_while(|n| Some((n, self.frames.get(n)?)));
        let those = those.filter(|(_, f)| f.state.load(Relaxed) == state::RESIDENT && passed(&f.id())).map(|(n, _)| n);
        let dropped = self.drop_frames(&mut st, those);
        self.finish(st);
        dropped
    }

    /// Drops the resident pages among `pages`, except pinned and held ones. Returns their number. A pass that uses each
    /// page once makes room for its next pages so.
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

    /// Hints at the expected reuse of resident pages.
    ///
    /// Pages never used again are evicted first, then pages used last, in the order of the hints. The policy chooses
    /// among the rest. A use after the hint cancels it. The number of hints is bounded; further ones are ignored.
    pub fn hint_evict(&self, pages: &[PageId], reuse: Reuse) {
        let mut st = self.lock();
        let room = st.residency.hints_mut().room(reuse);
        for id in pages.iter().take(room) {
            let Some(n) = self.table.find(*id, &self.frames) else { continue };
            if let Some(f) = self.frames.get(n) {
                f.referenced.store(used::HINTED, Relaxed);
                st.residency.hints_mut().add(n, *id, reuse);
                self.emit(|| Event::EvictHint { page: *id, again: reuse as u32 });
            }
        }
    }

    /// Drops hints of pages that were evicted or used since. The others stay in force: a run that sweeps to and fro
    /// uses the hinted pages last in the next window, too.
    pub fn drop_stale_hints(&self) {
        let mut st = self.lock();
        let (evictor, _, hints) = self.evictor(&mut st, false);
        let left = hints.retain(|frame, id| evictor.is_hinted(frame, id));
        self.emit(|| Event::DropStaleHints { left });
    }

    /// The pager as a policy sees it, with the policy and the hints. `passed`: the run has passed the pages.
    fn evictor<'a>(
        &'a self,
        st: &'a mut PagerState,
        passed: bool,
    ) -> (PagerProbe<'a>, &'a mut dyn Policy, &'a mut EvictionHints) {
        let PagerState { residency, workers, touched, maps, tally, .. } = st;
        let (slots, policy, hints) = residency.parts();
        (PagerProbe { pager: self, slots, workers, touched, maps, tally, passed }, policy, hints)
    }

    /// Drops those frames that are neither pinned nor held. They count as given back and not as evictions.
    fn drop_frames(&self, st: &mut PagerState, frames: impl Iterator<Item = u32>) -> u64 {
        let (mut evictor, policy, _) = self.evictor(st, true);
        let mut dropped = 0;
        for n in frames {
            if evictor.take(n) {
                policy.removed(n);
                dropped += 1;
            }
        }
        st.relief += u64::from(dropped > 0);
        dropped
    }

    /// Drops one clean page. Its memory stays cached.
    fn evict(&self, st: &mut PagerState, need: Need) -> bool {
        let (mut evictor, policy, hints) = self.evictor(st, false);
        // No prefetch replaces a page that is used again.
        let latest = if need == Need::Prefetch { Reuse::Never } else { Reuse::Last };
        let hinted = hints.take(latest, |frame, id| match evictor.is_hinted(frame, id) {
            false => HintOutcome::Stale,
            true if evictor.take(frame) => HintOutcome::Dropped,
            true => HintOutcome::Pinned,
        });
        match hinted {
            Some(frame) => {
                policy.removed(frame);
                true
            }
            None => policy.victim(need, &mut evictor).is_some(),
        }
    }

    /// Holds an index page that has come, with a frame of `bytes`. Releases those that came first beyond the share of all
    /// index pages.
    pub(crate) fn retain_index(&self, st: &mut PagerState, page: PageId, bytes: u64) {
        let share = self.ledger.limit() / INDEX_SHARE;
        if bytes <= share {
            st.residency.retain_index(page, bytes);
            self.hold_one(st, page);
            self.release_indexes(st, share);
        }
    }

    /// Lets index pages be evicted as other pages are. Whether any were kept from it. A caller that finds memory full
    /// asks this last, after all that it can release itself.
    pub fn release_index_pages(&self) -> bool {
        let any = self.release_indexes(&mut self.lock(), 0);
        self.relieved();
        any
    }

    /// Releases the index pages that came first, until the others take at most `share` bytes. Whether there were any.
    fn release_indexes(&self, st: &mut PagerState, share: u64) -> bool {
        let mut any = false;
        while let Some(page) = st.residency.release_index(share) {
            self.unhold(st, page);
            any = true;
        }
        any
    }

    /// Records a squeeze that no reservation records.
    fn record_squeeze(&self, need: Need, full: bool) {
        self.emit(|| Event::Squeeze {
            frames: self.ledger.of(ChargeKind::Frames),
            cached: self.ledger.of(ChargeKind::Cached),
            used: self.ledger.used(),
            full,
            priority: if need == Need::Demand { Priority::Demand } else { Priority::Prefetch },
        });
    }

    fn full(&self, needs: u64) -> Full {
        Full { needs, used: self.ledger.used(), limit: self.ledger.limit() }
    }

    /// Drops pages until `bytes` more fit under the limit.
    pub(crate) fn make_room(&self, st: &mut PagerState, bytes: u64) -> Result<(), Full> {
        let pool = self.ledger.of(ChargeKind::Frames) + self.ledger.of(ChargeKind::Cached);
        let rest = self.ledger.used().saturating_sub(pool);
        if rest.saturating_add(bytes) > self.ledger.limit() {
            // Even an empty pool is too small: keep its slots.
            if bytes > 0 {
                return Err(self.full(bytes));
            }
        }
        let before = st.tally.evictions;
        loop {
            let short = self.ledger.used().saturating_add(bytes).saturating_sub(self.ledger.limit());
            if short == 0 {
                if st.tally.evictions > before {
                    self.record_squeeze(Need::Demand, false);
                }
                return Ok(());
            }
            if !st.residency.slots_mut().give_back(short, None) && !self.evict(st, Need::Demand) {
                self.record_squeeze(Need::Demand, true);
                if !self.release_indexes(st, 0) {
                    return Err(self.full(bytes));
                }
            }
        }
    }

    /// Bytes by which one more frame grows the tables now.
    fn table_growth(&self, st: &PagerState) -> u64 {
        let chunk = match st.residency.slots().next_chunk() {
            Some(_) => self.chunk_bytes(st, st.workers.len()),
            None => 0,
        };
        chunk + self.table.growth(self.reserved_frames(st))
    }

    /// Frames that will need a place in the table: those being read, and one more.
    fn reserved_frames(&self, st: &PagerState) -> usize {
        st.reads.count() + 1
    }

    /// Bytes of one chunk of frames with `workers` workers.
    fn chunk_bytes(&self, st: &PagerState, workers: usize) -> u64 {
        (CHUNK * (size_of::<Frame>() + 40 + st.residency.policy_bytes() + workers * PIN_BYTES)) as u64
    }

    /// Bytes of tables that even one resident page needs.
    fn least_tables(&self, st: &PagerState) -> u64 {
        self.reserve.load(Relaxed) + Table::first_bytes() + self.chunk_bytes(st, st.workers.len())
    }

    /// Bytes of one more worker in all existing chunks.
    pub(crate) fn worker_bytes(&self, st: &PagerState) -> u64 {
        (CHUNK * st.residency.slots().chunks() * PIN_BYTES) as u64
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
        let slots = st.residency.slots_mut();
        let page = slots.page_slots(sizes).ok_or_else(|| never(u64::MAX, limit))?;
        let (whole, exhausted) = (slots.bytes(&page), slots.exhausted());
        let left = limit.saturating_sub(self.least_tables(st));
        if whole > left || exhausted {
            return Err(never(whole, left));
        }
        st.residency.slots_mut().stock(&page);
        loop {
            // Cached slots are charged already.
            let short = self.table_growth(st) + st.residency.slots().uncached(&page);
            if self.ledger.used() <= self.ledger.limit()
                && (short == 0 || self.ledger.try_charge(ChargeKind::Cached, short))
            {
                break;
            }
            let over = self.ledger.used().saturating_add(short).saturating_sub(self.ledger.limit());
            // A dropped page usually has the needed size. Free slots of other sizes are kept up to a share of the
            // limit. Otherwise buffers that the next page needs would go to the system and back each time.
            let slack = limit / CACHED_SHARE;
            let excess = self.ledger.of(ChargeKind::Cached).saturating_sub(slack);
            if excess > 0 && st.residency.slots_mut().give_back(over.min(excess), Some(&page)) {
                continue;
            }
            if !self.evict(st, need) {
                // The policy's order may have changed.
                self.record_squeeze(need, true);
                if !st.residency.slots_mut().give_back(over, Some(&page)) {
                    return Err(NoRoom::Full);
                }
            }
        }
        // All bytes are charged. Tables grow first: their bytes were charged as cached with the rest.
        let growth = self.table_growth(st);
        self.ledger.transfer(ChargeKind::Cached, ChargeKind::Tables, growth);
        if let Some(chunk) = st.residency.slots().next_chunk() {
            self.frames.grow(chunk);
            for w in &st.workers {
                w.grow(chunk);
            }
        }
        self.table.grow(self.reserved_frames(st), &self.frames);
        let slots = st.residency.slots_mut().take(&page).map_err(|e| NoRoom::System(e.to_string()))?;
        let [Some(slot), encoded, scratch] = slots else {
            return Err(NoRoom::System("the pool gave no frame".into()));
        };
        let number = st.residency.slots_mut().add_frame(slot);
        if let Some(f) = self.frames.get(number) {
            f.assign(id, slot.ptr, sizes[0]);
        }
        self.emit(|| Event::Reserve {
            page: id,
            priority: if need == Need::Demand { Priority::Demand } else { Priority::Prefetch },
            bytes: st.residency.slots().frame_bytes(&page),
            frames: self.ledger.of(ChargeKind::Frames),
            cached: self.ledger.of(ChargeKind::Cached),
            used: self.ledger.used(),
        });
        Ok(Reserved { frame: number, slot, encoded, scratch })
    }

    /// Bytes that a page needs at once.
    pub(crate) fn needs(&self, st: &mut PagerState, flight: u32) -> u64 {
        let Some(f) = st.flights.get(flight) else { return 0 };
        let (id, buffers) = (f.id(), f.job.as_ref().map_or([0, 0], |j| j.buffers()));
        let Some(map) = st.map(id) else { return 0 };
        let frame = crate::os::round_up(map.page_bytes(id)).unwrap_or(usize::MAX) as u64;
        let slots = st.residency.slots_mut();
        buffers.iter().filter(|b| **b > 0).fold(frame, |sum, b| sum.saturating_add(slots.buffer_bytes(*b)))
    }

    /// Frees a buffer of an active page.
    pub(crate) fn free_buffer(&self, st: &mut PagerState, slot: PoolSlot, kind: ChargeKind) {
        st.residency.slots_mut().free(slot, kind);
        st.relief += 1;
    }

    /// Frees a frame that never became resident.
    pub(crate) fn free_frame(&self, st: &mut PagerState, frame: u32) {
        if let Some(f) = self.frames.get(frame) {
            f.state.store(state::FREE, Release);
        }
        st.relief += u64::from(st.residency.slots_mut().free_frame(frame));
    }

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
        for n in 0..(st.residency.slots().chunks() * CHUNK) as u32 {
            let Some(f) = self.frames.get(n) else { break };
            if f.state.load(Relaxed) == state::RESIDENT && f.prefetched.compare_exchange(2, 0, Relaxed, Relaxed).is_ok()
            {
                self.mark_touched(st, f.id());
            }
        }
    }
}
