//! The memory of pages: slots and frame numbers, the order of replacement, and what keeps a page or lets it go.

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

/// Least limit under which slots come by the huge page: there are some ten sizes of slots, and each may leave most of one unused.
const HUGE_LIMIT: u64 = 128 << 20;

/// The expected next use of a page, in an eviction hint.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The page is not used again.
    Never = 0,
    /// All other pages that are used again come first.
    Last = 1,
}

/// Pages of each kind of [`Reuse`] that hints are kept of: 32 KiB of names, a part of the reserve of any limit under which there are
/// so many.
const MOST_HINTS: usize = 1024;

/// Hints that are tried for a page that can go: pages that workers still have pinned are those hinted last.
pub(crate) const HINTS_TRIED: usize = 64;

/// What became of a hinted frame.
pub(crate) enum HintOutcome {
    /// The frame holds another page, or its page was used since.
    Stale,
    /// A worker has the page pinned.
    Pinned,
    /// The page was dropped.
    Dropped,
}

/// Pages that go before what the policy finds, by their expected reuse.
#[derive(Default)]
pub(crate) struct EvictionHints {
    /// Frames, with the pages that they held when the hint was given; the first hinted first.
    queues: [VecDeque<(u32, PageId)>; 2],
}

impl EvictionHints {
    /// Hints of a kind that can be kept beside those there are.
    pub(crate) fn room(&self, reuse: Reuse) -> usize {
        MOST_HINTS.saturating_sub(self.queues[reuse as usize].len())
    }

    pub(crate) fn add(&mut self, frame: u32, page: PageId, reuse: Reuse) {
        self.queues[reuse as usize].push_back((frame, page));
    }

    /// Keeps the hints that still hold; their number.
    pub(crate) fn retain(&mut self, holds: impl Fn(u32, PageId) -> bool) -> u64 {
        self.queues.iter_mut().for_each(|queue| queue.retain(|(frame, page)| holds(*frame, *page)));
        self.queues.iter().map(|queue| queue.len() as u64).sum()
    }

    /// The first hinted frame that `drop` drops, of pages with no later reuse than `latest`.
    pub(crate) fn take(&mut self, latest: Reuse, mut drop: impl FnMut(u32, PageId) -> HintOutcome) -> Option<u32> {
        for queue in self.queues.iter_mut().take(latest as usize + 1) {
            for _ in 0..queue.len().min(HINTS_TRIED) {
                let Some((frame, page)) = queue.pop_front() else { break };
                match drop(frame, page) {
                    HintOutcome::Stale => {}
                    HintOutcome::Dropped => return Some(frame),
                    // Comes up again later.
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

/// What the slots of a page are charged for, in their order.
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

    /// The slots of a page of these sizes, of which those of the buffers may be 0. `None` if no class is as large.
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

    /// While memory is far from full, slots come by the huge page, charged whole. Not before those are used again that were given
    /// back to the system: else what is behind the last slots, and the addresses, would grow with every squeeze.
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

    /// Takes a page's slots, all of which are cached or were charged as cached.
    ///
    /// # Errors
    /// When the system refuses address space: nothing is taken then.
    pub(crate) fn take(&mut self, page: &PageSlots) -> io::Result<[Option<PoolSlot>; 3]> {
        let mut slots = [None; 3];
        for (slot, class) in slots.iter_mut().zip(page.classes) {
            let Some(class) = class else { continue };
            match self.pool.take(class) {
                Ok((taken, _)) => *slot = Some(taken),
                Err(e) => {
                    // No address space: what was taken is cached again. The charge of the rest stays with the cached kind until
                    // the pool gives memory back; this ends the page, and as good as certainly the run.
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

    /// Gives free slots back to the system, some `bytes` of them, but for those that a page `keep`s. Whether there were any.
    pub(crate) fn give_back(&mut self, bytes: u64, keep: Option<&PageSlots>) -> bool {
        let keep = |class: ClassId| keep.map_or(0, |page| page.count(class));
        let given = self.pool.give_back(usize::try_from(bytes).unwrap_or(usize::MAX), keep);
        self.ledger.release(ChargeKind::Cached, given.slots as u64);
        self.ledger.release(ChargeKind::Tables, given.rests as u64);
        given.slots > 0
    }

    /// Chunks of frame records that there are.
    pub(crate) fn chunks(&self) -> usize {
        self.numbers.chunks()
    }

    /// The chunk that the next frame needs and that there is not yet.
    pub(crate) fn next_chunk(&self) -> Option<usize> {
        self.numbers.next_chunk()
    }

    /// Whether there can be no more frames.
    pub(crate) fn exhausted(&self) -> bool {
        self.numbers.exhausted()
    }

    /// The transitions that happened.
    #[cfg(test)]
    pub(crate) fn transitions(&self) -> &Transitions {
        &self.transitions
    }
}

/// Which pages have memory, and which may lose it.
pub(crate) struct Residency {
    slots: FrameSlots,
    /// 1. The policy has exactly the frames of resident pages.
    policy: Box<dyn Policy>,
    hints: EvictionHints,
    /// 2. How often each page is held, resident or not: never 0. The frame of a resident page has a copy.
    held: HashMap<PageId, u32, PageHash>,
}

impl Residency {
    pub(crate) fn new(pool: Pool, policy: Box<dyn Policy>, ledger: Arc<Ledger>) -> Self {
        let slots = FrameSlots { pool, numbers: FrameNumbers::default(), ledger, transitions: Transitions::default() };
        Self { slots, policy, hints: EvictionHints::default(), held: HashMap::default() }
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

    /// What an eviction uses at the same time.
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

    /// How often a page is held.
    pub(crate) fn holds(&self, page: PageId) -> u32 {
        self.held.get(&page).copied().unwrap_or(0)
    }

    /// Holds a page once more.
    pub(crate) fn hold(&mut self, page: PageId) {
        *self.held.entry(page).or_insert(0) += 1;
    }

    /// Takes one hold of a page back. How many are left; `None` if there was none.
    pub(crate) fn unhold(&mut self, page: PageId) -> Option<u32> {
        let n = self.held.get_mut(&page)?;
        *n -= 1;
        let left = *n;
        if left == 0 {
            self.held.remove(&page);
        }
        Some(left)
    }

    /// Bytes of the map of holds.
    pub(crate) fn bytes(&self) -> usize {
        self.held.capacity() * 32
    }

    /// Gives the room back that the map of holds does not need.
    pub(crate) fn trim(&mut self) {
        self.held.shrink_to_fit();
    }
}
