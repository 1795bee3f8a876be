//! The memory of pages: slots and frame numbers, the order of replacement, holds and hints.

use crate::frames::FrameNumbers;
use crate::id::PageId;
use crate::ledger::{ChargeKind, Ledger};
use crate::page_hash::PageHash;
use crate::page_state::{PageState, Transitions};
use crate::policy::Policy;
use crate::pool::{ClassId, Pool, PoolSlot, HUGE_BYTES};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

/// Smallest limit with huge pages. There are some ten sizes of slots, and each may leave most of a huge page unused.
const HUGE_LIMIT: u64 = 128 << 20;

/// The expected next use of a page, in an eviction hint.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The page is not used again.
    Never = 0,
    /// All other pages that are used again come first.
    Last = 1,
}

/// Most hints of each kind of [`Reuse`]: 32 KiB of names, a part of the reserve of any limit with that many pages.
const MOST_HINTS: usize = 1024;

/// Hints tried for one victim: pages that workers still have pinned are those hinted last.
pub(crate) const HINTS_TRIED: usize = 64;

/// The result of trying a hinted frame.
pub(crate) enum HintOutcome {
    /// The frame holds another page, or its page was used since.
    Stale,
    /// A worker has the page pinned.
    Pinned,
    /// The page was dropped.
    Dropped,
}

/// Pages evicted before the policy's choice, by their expected reuse.
#[derive(Default)]
pub(crate) struct EvictionHints {
    /// Frames with their pages at the time of the hint; the first hinted first.
    queues: [VecDeque<(u32, PageId)>; 2],
}

impl EvictionHints {
    /// Free places for hints of a kind.
    pub(crate) fn room(&self, reuse: Reuse) -> usize {
        MOST_HINTS.saturating_sub(self.queues[reuse as usize].len())
    }

    pub(crate) fn add(&mut self, frame: u32, page: PageId, reuse: Reuse) {
        self.queues[reuse as usize].push_back((frame, page));
    }

    /// Drops the hints that no longer hold. Returns the number of the others.
    pub(crate) fn retain(&mut self, holds: impl Fn(u32, PageId) -> bool) -> u64 {
        self.queues.iter_mut().for_each(|queue| queue.retain(|(frame, page)| holds(*frame, *page)));
        self.queues.iter().map(|queue| queue.len() as u64).sum()
    }

    /// The first hinted frame that `drop` drops, among pages with no later reuse than `latest`.
    pub(crate) fn take(&mut self, latest: Reuse, mut drop: impl FnMut(u32, PageId) -> HintOutcome) -> Option<u32> {
        for queue in self.queues.iter_mut().take(latest as usize + 1) {
            for _ in 0..queue.len().min(HINTS_TRIED) {
                let Some((frame, page)) = queue.pop_front() else { break };
                match drop(frame, page) {
                    HintOutcome::Stale => {}
                    HintOutcome::Dropped => return Some(frame),
                    // Tried again later.
                    HintOutcome::Pinned => queue.push_back((frame, page)),
                }
            }
        }
        None
    }
}

/// The sizes of slots that one page takes: frame, encoded buffer, scratch.
pub(crate) struct PageSlots {
    classes: [Option<ClassId>; 3],
}

impl PageSlots {
    /// Slots of a class among them.
    fn count(&self, class: ClassId) -> usize {
        self.classes.iter().flatten().filter(|c| **c == class).count()
    }
}

/// The kinds of charge of a page's slots, in their order.
const KINDS: [ChargeKind; 3] = [ChargeKind::Frames, ChargeKind::Encoded, ChargeKind::Scratch];

/// Slots of the pool, and the numbers of frames.
pub(crate) struct FrameSlots {
    /// 1. A slot in use is charged as frame, encoded bytes or scratch, a free one as cached.
    pool: Pool,
    /// 2. A frame number in use has exactly one slot.
    numbers: FrameNumbers,
    ledger: Arc<Ledger>,
    transitions: Transitions,
}

impl FrameSlots {
    /// Changes the state of a page that is resident.
    pub(crate) fn go(&mut self, from: PageState, to: PageState) {
        self.transitions.go(from, to);
    }

    /// The slots of a page of these sizes, where buffers may have size 0. `None` if no class is as large.
    pub(crate) fn page_slots(&mut self, [frame, encoded, scratch]: [usize; 3]) -> Option<PageSlots> {
        let frame = self.pool.class(frame)?;
        let mut buffer = |bytes: usize| match bytes {
            0 => Some(None),
            bytes => self.pool.buffer_class(bytes).map(Some),
        };
        Some(PageSlots { classes: [Some(frame), buffer(encoded)?, buffer(scratch)?] })
    }

    /// Bytes of a page's slots.
    pub(crate) fn bytes(&self, page: &PageSlots) -> u64 {
        page.classes.iter().flatten().map(|c| self.pool.bytes(*c) as u64).sum()
    }

    /// Bytes of a page's frame.
    pub(crate) fn frame_bytes(&self, page: &PageSlots) -> u64 {
        page.classes[0].map_or(0, |c| self.pool.bytes(c) as u64)
    }

    /// Bytes of the slot of a buffer.
    pub(crate) fn buffer_bytes(&mut self, bytes: usize) -> u64 {
        self.pool.buffer_class(bytes).map_or(u64::MAX, |c| self.pool.bytes(c) as u64)
    }

    /// Bytes of a page's slots that are not cached, and so not charged.
    pub(crate) fn uncached(&self, page: &PageSlots) -> u64 {
        let mut short = 0;
        for (i, class) in page.classes.iter().enumerate().filter_map(|(i, c)| Some((i, (*c)?))) {
            let nth = page.classes[..i].iter().flatten().filter(|c| **c == class).count();
            if nth >= self.pool.cached(class) {
                short += self.pool.bytes(class) as u64;
            }
        }
        short
    }

    /// Adds slots a huge page at a time, charged whole, while memory is far from full. Slots that the system has back
    /// are used first. Otherwise the unused ends of huge pages, and the addresses, would grow with every squeeze.
    pub(crate) fn stock(&mut self, page: &PageSlots) {
        for class in page.classes.iter().flatten() {
            self.stock_class(*class);
        }
    }

    fn stock_class(&mut self, class: ClassId) {
        let limit = self.ledger.limit();
        if limit < HUGE_LIMIT || self.pool.free(class) > 0 || self.pool.huge_slots(class).is_none() {
            return;
        }
        let bytes = HUGE_BYTES as u64;
        if self.ledger.used() + bytes > limit / 4 * 3 || !self.ledger.try_charge(ChargeKind::Cached, bytes) {
            return;
        }
        match self.pool.stock(class) {
            Ok(rest) => self.ledger.transfer(ChargeKind::Cached, ChargeKind::Tables, rest as u64),
            Err(_) => self.ledger.release(ChargeKind::Cached, bytes),
        }
    }

    /// Takes a page's slots, which are cached or charged as cached.
    ///
    /// # Errors
    /// When the system refuses address space. No slot is taken then.
    pub(crate) fn take(&mut self, page: &PageSlots) -> io::Result<[Option<PoolSlot>; 3]> {
        let mut slots = [None; 3];
        for (slot, class) in slots.iter_mut().zip(page.classes) {
            let Some(class) = class else { continue };
            match self.pool.take(class) {
                Ok((taken, _)) => *slot = Some(taken),
                Err(e) => {
                    // No address space: the taken slots are cached again. The charge of the rest stays cached until the
                    // pool gives memory back. This fails the page, and almost certainly the run.
                    slots.into_iter().flatten().for_each(|s| self.pool.put(s));
                    self.ledger.release(ChargeKind::Cached, self.pool.bytes(class) as u64);
                    return Err(e);
                }
            }
        }
        for (class, kind) in page.classes.iter().zip(KINDS) {
            if let Some(class) = class {
                self.ledger.transfer(ChargeKind::Cached, kind, self.pool.bytes(*class) as u64);
            }
        }
        Ok(slots)
    }

    /// Frees a slot that is charged as `kind`. It is cached then.
    pub(crate) fn free(&mut self, slot: PoolSlot, kind: ChargeKind) {
        let bytes = self.pool.bytes(slot.class) as u64;
        self.pool.put(slot);
        self.ledger.transfer(kind, ChargeKind::Cached, bytes);
    }

    /// The number of a new frame in a slot.
    pub(crate) fn add_frame(&mut self, slot: PoolSlot) -> u32 {
        self.numbers.take(slot)
    }

    /// Frees a frame's number and slot. False if it has none.
    pub(crate) fn free_frame(&mut self, frame: u32) -> bool {
        let slot = self.numbers.free(frame);
        if let Some(slot) = slot {
            self.free(slot, ChargeKind::Frames);
        }
        slot.is_some()
    }

    /// Gives some `bytes` of free slots back to the system, except those that the page `keep` needs. Whether there were
    /// any.
    pub(crate) fn give_back(&mut self, bytes: u64, keep: Option<&PageSlots>) -> bool {
        let keep = |class: ClassId| keep.map_or(0, |page| page.count(class));
        let given = self.pool.give_back(usize::try_from(bytes).unwrap_or(usize::MAX), keep);
        self.ledger.release(ChargeKind::Cached, given.slots as u64);
        self.ledger.release(ChargeKind::Tables, given.rests as u64);
        given.slots > 0
    }

    /// Existing chunks of frame records.
    pub(crate) fn chunks(&self) -> usize {
        self.numbers.chunks()
    }

    /// The chunk that the next frame needs, if it does not exist.
    pub(crate) fn next_chunk(&self) -> Option<usize> {
        self.numbers.next_chunk()
    }

    /// Whether all frame numbers are in use.
    pub(crate) fn exhausted(&self) -> bool {
        self.numbers.exhausted()
    }

    /// The transitions so far.
    #[cfg(test)]
    pub(crate) fn transitions(&self) -> &Transitions {
        &self.transitions
    }
}

/// Index pages that are held so that other pages are evicted first.
#[derive(Default)]
struct RetainedIndexes {
    /// 1. With their bytes, in the order in which they came. Each page is there once: it is resident while it is held.
    queue: VecDeque<(PageId, u64)>,
    /// 2. The sum of the bytes in `queue`.
    bytes: u64,
}

/// The resident pages, and those that may be evicted.
pub(crate) struct Residency {
    slots: FrameSlots,
    /// 1. The policy has exactly the frames of resident pages.
    policy: Box<dyn Policy>,
    hints: EvictionHints,
    /// 2. Number of holds of each page, resident or not: never 0. The frame of a resident page has a copy.
    held: HashMap<PageId, u32, PageHash>,
    indexes: RetainedIndexes,
}

impl Residency {
    pub(crate) fn new(pool: Pool, policy: Box<dyn Policy>, ledger: Arc<Ledger>) -> Self {
        let slots = FrameSlots { pool, numbers: FrameNumbers::default(), ledger, transitions: Transitions::default() };
        Self {
            slots,
            policy,
            hints: EvictionHints::default(),
            held: HashMap::default(),
            indexes: RetainedIndexes::default(),
        }
    }

    pub(crate) fn slots(&self) -> &FrameSlots {
        &self.slots
    }

    pub(crate) fn slots_mut(&mut self) -> &mut FrameSlots {
        &mut self.slots
    }

    pub(crate) fn hints_mut(&mut self) -> &mut EvictionHints {
        &mut self.hints
    }

    /// The parts that an eviction uses at the same time.
    pub(crate) fn parts(&mut self) -> (&mut FrameSlots, &mut dyn Policy, &mut EvictionHints) {
        (&mut self.slots, self.policy.as_mut(), &mut self.hints)
    }

    /// A frame's page became resident.
    pub(crate) fn published(&mut self, frame: u32, page: PageId, stamp: u64) {
        self.policy.inserted(frame, page, stamp);
    }

    /// Bytes that the policy keeps of each frame.
    pub(crate) fn policy_bytes(&self) -> usize {
        self.policy.bytes_per_frame()
    }

    /// Number of holds of a page.
    pub(crate) fn holds(&self, page: PageId) -> u32 {
        self.held.get(&page).copied().unwrap_or(0)
    }

    pub(crate) fn hold(&mut self, page: PageId) {
        *self.held.entry(page).or_insert(0) += 1;
    }

    /// Removes a hold from a page. Returns the remaining holds; `None` if there was none.
    pub(crate) fn unhold(&mut self, page: PageId) -> Option<u32> {
        let n = self.held.get_mut(&page)?;
        *n -= 1;
        let left = *n;
        if left == 0 {
            self.held.remove(&page);
        }
        Some(left)
    }

    /// Adds an index page that became resident.
    pub(crate) fn retain_index(&mut self, page: PageId, bytes: u64) {
        self.indexes.queue.push_back((page, bytes));
        self.indexes.bytes += bytes;
    }

    /// Takes the retained index page that came first, if all of them take more than `share` bytes.
    pub(crate) fn release_index(&mut self, share: u64) -> Option<PageId> {
        if self.indexes.bytes <= share {
            return None;
        }
        let (page, bytes) = self.indexes.queue.pop_front()?;
        self.indexes.bytes -= bytes;
        Some(page)
    }

    /// Takes the retained index pages for which `passed` is true.
    pub(crate) fn release_indexes_of(&mut self, passed: impl Fn(&PageId) -> bool) -> Vec<PageId> {
        let (released, rest) = self.indexes.queue.drain(..).partition::<VecDeque<_>, _>(|(page, _)| passed(page));
        self.indexes.queue = rest;
        self.indexes.bytes -= released.iter().map(|(_, bytes)| bytes).sum::<u64>();
        released.into_iter().map(|(page, _)| page).collect()
    }

    /// Bytes of the map of holds and of the retained index pages' names.
    pub(crate) fn bytes(&self) -> usize {
        self.held.capacity() * 32 + self.indexes.queue.capacity() * size_of::<(PageId, u64)>()
    }

    /// Frees the unused memory of the map of holds and of the list of index pages.
    pub(crate) fn trim(&mut self) {
        self.held.shrink_to_fit();
        self.indexes.queue.shrink_to_fit();
    }
}
