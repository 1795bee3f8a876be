//! The page table: from a page to its frame. It has resident pages only, so its memory follows theirs.
//!
//! Open addressing with linear probing over frame numbers; the page is read from the frame's record. Writers hold the
//! pager's lock, readers no lock. A reader may miss a page that is being moved, or find a frame that has just become
//! another page's. Both are harmless. A reader checks the frame after it has pinned it, and asks under the lock before
//! it treats a page as absent.

use crate::frames::{Chunked, Frame};
use crate::id::PageId;
use crate::page_hash::hash;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};
use std::sync::Mutex;

struct Slots {
    shift: u32,
    /// 0 or a frame number plus one.
    slots: Box<[AtomicU32]>,
}

impl Slots {
    fn new(bits: u32) -> Self {
        let slots = (0..1usize << bits).map(|_| AtomicU32::new(0)).collect();
        Self { shift: 64 - bits, slots }
    }
    #[inline]
    fn start(&self, id: PageId) -> usize {
        (hash(id) >> self.shift) as usize
    }
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }
}

/// Slots of the first table.
const FIRST_BITS: u32 = 8;

pub(crate) struct Table {
    /// 1. Points to the last of `all`.
    current: AtomicPtr<Slots>,
    /// 2. Outgrown tables stay until the end, since a reader may still be probing one. Each is half of the next, so
    ///    together they are smaller than the current one.
    all: Mutex<Vec<*mut Slots>>,
    count: AtomicU32,
}

// SAFETY: the pointers are boxes owned by the table; slots are atomics.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    pub(crate) fn new() -> Self {
        let first = Box::into_raw(Box::new(Slots::new(FIRST_BITS)));
        Self { current: AtomicPtr::new(first), all: Mutex::new(vec![first]), count: AtomicU32::new(0) }
    }

    /// Bytes of the first table.
    pub(crate) fn first_bytes() -> u64 {
        4 << FIRST_BITS
    }

    #[inline]
    fn slots(&self) -> &Slots {
        // SAFETY: invariants 1 and 2: never null, lives as long as `self`.
        unsafe { &*self.current.load(Acquire) }
    }

    /// Bytes by which the table has to grow before `more` pages can be inserted; 0 if they fit.
    pub(crate) fn growth(&self, more: usize) -> u64 {
        let (len, count) = (self.slots().slots.len(), self.count.load(Relaxed) as usize);
        if (count + more) * 2 > len {
            ((count + more) * 2).next_power_of_two() as u64 * 4
        } else {
            0
        }
    }

    /// Finds the frame of a page. Without the lock the answer is a hint.
    #[inline]
    pub(crate) fn find(&self, id: PageId, frames: &Chunked<Frame>) -> Option<u32> {
        let t = self.slots();
        let mask = t.mask();
        let mut i = t.start(id);
        for _ in 0..=mask {
            let v = t.slots[i & mask].load(Acquire);
            let n = v.checked_sub(1)?;
            if frames.get(n)?.is(id) {
                return Some(n);
            }
            i = (i + 1) & mask;
        }
        None
    }

    /// Makes room for `more` pages. Under the lock, after [`Table::growth`] was charged.
    pub(crate) fn grow(&self, more: usize, frames: &Chunked<Frame>) {
        let bytes = self.growth(more);
        if bytes == 0 {
            return;
        }
        let old = self.slots();
        let new = Slots::new((bytes / 4).trailing_zeros());
        for v in old.slots.iter().map(|s| s.load(Relaxed)).filter(|&v| v != 0) {
            if let Some(f) = frames.get(v - 1) {
                Self::place(&new, f.id(), v);
            }
        }
        let new = Box::into_raw(Box::new(new));
        self.all.lock().unwrap_or_else(|e| e.into_inner()).push(new);
        self.current.store(new, Release);
    }

    fn place(t: &Slots, id: PageId, v: u32) {
        let mask = t.mask();
        let mut i = t.start(id);
        while t.slots[i].load(Relaxed) != 0 {
            i = (i + 1) & mask;
        }
        t.slots[i].store(v, Release);
    }

    /// Inserts a page that is not there. Under the lock, after [`Table::grow`].
    pub(crate) fn insert(&self, id: PageId, frame: u32) {
        Self::place(self.slots(), id, frame + 1);
        self.count.fetch_add(1, Relaxed);
    }

    /// Removes a page. Under the lock. The pages behind it in its run are moved up, so there are no tombstones. The
    /// table stays quick however many pages pass through it.
    pub(crate) fn remove(&self, id: PageId, frames: &Chunked<Frame>) {
        let t = self.slots();
        let mask = t.mask();
        let Some(frame) = self.find(id, frames) else { return };
        let mut hole = t.start(id);
        while t.slots[hole].load(Relaxed) != frame + 1 {
            hole = (hole + 1) & mask;
        }
        let mut i = hole;
        loop {
            i = (i + 1) & mask;
            let v = t.slots[i].load(Relaxed);
            if v == 0 {
                break;
            }
            let Some(f) = frames.get(v - 1) else { break };
            let home = t.start(f.id());
            // It may move into the hole if its home is not between the hole and itself.
            if (i.wrapping_sub(home) & mask) >= (i.wrapping_sub(hole) & mask) {
                t.slots[hole].store(v, Release);
                hole = i;
            }
        }
        t.slots[hole].store(0, Release);
        self.count.fetch_sub(1, Relaxed);
    }

    /// Number of pages.
    pub(crate) fn len(&self) -> u32 {
        self.count.load(Relaxed)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for &t in self.all.lock().unwrap_or_else(|e| e.into_inner()).iter() {
            // SAFETY: made by `Box::into_raw`, freed once, no reader is left.
            drop(unsafe { Box::from_raw(t) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ArrayId;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]
        #[test]
        fn behaves_as_a_map(ops in proptest::collection::vec((any::<bool>(), 0u32..3, 0u32..2, 0u64..200), 1..2000)) {
            let (table, frames) = (Table::new(), Chunked::<Frame>::new().unwrap());
            for c in 0..8 { frames.grow(c); }
            let mut truth = HashMap::new();
            let mut free: Vec<u32> = (0..2000).collect();
            for (add, array, step, page) in ops {
                let id = PageId::new(ArrayId(array), step, page);
                if add && !truth.contains_key(&id) {
                    let n = free.pop().unwrap();
                    frames.get(n).unwrap().assign(id, std::ptr::null_mut(), 0);
                    table.grow(1, &frames);
                    table.insert(id, n);
                    truth.insert(id, n);
                } else if !add {
                    table.remove(id, &frames);
                    if let Some(n) = truth.remove(&id) { free.push(n); }
                }
                prop_assert_eq!(table.find(id, &frames), truth.get(&id).copied());
            }
            for (id, n) in &truth {
                prop_assert_eq!(table.find(*id, &frames), Some(*n));
            }
            prop_assert_eq!(table.len() as usize, truth.len());
        }
    }
}
