//! Memory for frames, encoded bytes and scratch: size classes in a few anonymous mappings.
//!
//! A freed slot stays in its class and keeps its memory (*cached*), so the next page of that size needs no system call.
//! It returns to the system when another class needs the room. The pool knows addresses, not charges. Its caller
//! charges the ledger before it takes a fresh slot, and releases the charge after [`Pool::give_back`].

use crate::os::{self, Mapping};
use crate::page_hash::PageHash;
use std::collections::HashMap;
use std::io;

/// Address space of a new pool: a dataset that reads little takes no more. With a tebibyte each, some 128 open datasets
/// exhausted a process's addresses, and NumPy, threads and subprocesses failed, too.
const FIRST: usize = 64 << 20;
/// Each further mapping is as large as all before it together, so that there are few, and at most this.
const LARGEST: usize = if usize::BITS == 64 { 64 << 30 } else { 256 << 20 };

/// Slots are carved from the mapping in runs of about this size, so that those of one class are adjacent.
const RUN_BYTES: usize = 4 << 20;

/// A huge page of current processors.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Most huge pages. Each may become a mapping of its own in the kernel when a part of it is given back. A process may
/// have 65530 mappings (`vm.max_map_count`).
const HUGE_MOST: usize = 16 << 10;

/// A size class of the pool.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassId(u32);

/// Memory of the pool.
#[derive(Copy, Clone, Debug)]
pub(crate) struct PoolSlot {
    pub(crate) ptr: *mut u8,
    pub(crate) class: ClassId,
}

struct Class {
    bytes: usize,
    /// 1. Free, backed by memory, charged. Last in, first out: the slot used last is still in the processor's caches.
    cached: Vec<*mut u8>,
    /// 2. Free, given back to the system, not charged.
    cold: Vec<*mut u8>,
    /// 3. The part of the current run that was never handed out, not charged.
    fresh: *mut u8,
    fresh_left: usize,
}

/// See the module.
pub(crate) struct Pool {
    mappings: Vec<Mapping>,
    /// Carved bytes of the last mapping.
    carved: usize,
    classes: Vec<Class>,
    by_bytes: HashMap<usize, ClassId, PageHash>,
    cached_bytes: usize,
    /// Whole huge pages: the address, and the bytes behind the last slot, which are resident and charged.
    huge: HashMap<usize, usize>,
    /// Huge pages so far.
    huge_count: usize,
}

/// Bytes returned to the system.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReturnedBytes {
    /// Of cached slots.
    pub(crate) slots: usize,
    /// Behind the last slots of huge pages.
    pub(crate) rests: usize,
}

// SAFETY: the raw pointers are addresses in mappings that the pool owns; slots are handed out to one owner at a time.
unsafe impl Send for Pool {}

impl Pool {
    pub(crate) fn new(limit: usize) -> io::Result<Self> {
        let len = os::round_up(limit).unwrap_or(FIRST).clamp(RUN_BYTES, FIRST);
        let mappings = vec![Mapping::reserve(len).map_err(os::no_addresses)?];
        Ok(Self {
            mappings,
            carved: 0,
            classes: Vec::new(),
            by_bytes: HashMap::default(),
            cached_bytes: 0,
            huge: HashMap::new(),
            huge_count: 0,
        })
    }

    /// The class for exactly `bytes`, rounded up to system pages. `None` on overflow.
    pub(crate) fn class(&mut self, bytes: usize) -> Option<ClassId> {
        let bytes = os::round_up(bytes.max(1))?;
        if let Some(&c) = self.by_bytes.get(&bytes) {
            return Some(c);
        }
        let id = ClassId(u32::try_from(self.classes.len()).ok()?);
        let class = Class { bytes, cached: Vec::new(), cold: Vec::new(), fresh: std::ptr::null_mut(), fresh_left: 0 };
        self.classes.push(class);
        self.by_bytes.insert(bytes, id);
        Some(id)
    }

    /// The class for a buffer whose size varies from page to page. Sizes are steps of a quarter of a power of two:
    /// there are few classes, and at most a fifth is lost.
    pub(crate) fn buffer_class(&mut self, bytes: usize) -> Option<ClassId> {
        let bytes = os::round_up(bytes.max(1))?;
        let step = (bytes.checked_next_power_of_two()? / 8).max(os::os_page());
        self.class(bytes.checked_next_multiple_of(step)?)
    }

    /// Bytes of one slot.
    pub(crate) fn bytes(&self, class: ClassId) -> usize {
        self.classes[class.0 as usize].bytes
    }

    /// Free slots of a class that are charged already.
    pub(crate) fn cached(&self, class: ClassId) -> usize {
        self.classes[class.0 as usize].cached.len()
    }

    /// Free slots of a class, including those that the system has back.
    pub(crate) fn free(&self, class: ClassId) -> usize {
        let c = &self.classes[class.0 as usize];
        c.cached.len() + c.cold.len()
    }

    /// Bytes of all cached slots.
    #[cfg(test)]
    pub(crate) fn cached_bytes(&self) -> usize {
        self.cached_bytes
    }

    /// Takes a slot, a cached one if possible. The flag says whether it was cached.
    pub(crate) fn take(&mut self, class: ClassId) -> io::Result<(PoolSlot, bool)> {
        let c = &mut self.classes[class.0 as usize];
        if let Some(ptr) = c.cached.pop() {
            self.cached_bytes -= c.bytes;
            return Ok((PoolSlot { ptr, class }, true));
        }
        if let Some(ptr) = c.cold.pop() {
            return Ok((PoolSlot { ptr, class }, false));
        }
        if c.fresh_left == 0 {
            let slots = (RUN_BYTES / c.bytes).max(1);
            let run = slots.checked_mul(c.bytes).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
            let ptr = self.carve(run)?;
            let c = &mut self.classes[class.0 as usize];
            c.fresh = ptr;
            c.fresh_left = slots;
        }
        let c = &mut self.classes[class.0 as usize];
        let ptr = c.fresh;
        // SAFETY: `fresh_left` slots of `bytes` bytes follow in the run.
        c.fresh = unsafe { ptr.add(c.bytes) };
        c.fresh_left -= 1;
        Ok((PoolSlot { ptr, class }, false))
    }

    /// Slots of a class in one huge page, if a huge page is worthwhile.
    pub(crate) fn huge_slots(&self, class: ClassId) -> Option<usize> {
        let slots = HUGE_BYTES / self.bytes(class);
        (slots >= 8 && self.huge_count < HUGE_MOST).then_some(slots)
    }

    /// Adds a huge page of cached slots to a class. Returns the bytes behind the last slot. The caller has charged
    /// [`HUGE_BYTES`]: one touch makes all of them resident.
    pub(crate) fn stock(&mut self, class: ClassId) -> io::Result<usize> {
        let slots = HUGE_BYTES / self.bytes(class);
        let rest = HUGE_BYTES - slots * self.bytes(class);
        let gap = |p: &Self| {
            let at = p.mappings.last().map_or(0, |m| m.as_ptr() as usize + p.carved);
            at.next_multiple_of(HUGE_BYTES) - at
        };
        if gap(self) + HUGE_BYTES > self.left() {
            self.map_more(2 * HUGE_BYTES)?;
        }
        self.carve(gap(self))?;
        let run = self.carve(HUGE_BYTES)?;
        if let Some(m) = self.mappings.last() {
            m.make_huge(run, HUGE_BYTES);
        }
        self.huge.insert(run as usize, rest);
        self.huge_count += 1;
        let c = &mut self.classes[class.0 as usize];
        // The first slot on top.
        // SAFETY: the run has that many slots.
        c.cached.extend((0..slots).rev().map(|n| unsafe { run.add(n * c.bytes) }));
        self.cached_bytes += slots * c.bytes;
        Ok(rest)
    }

    /// Uncarved bytes of the last mapping.
    fn left(&self) -> usize {
        self.mappings.last().map_or(0, |m| m.len() - self.carved)
    }

    /// Adds a mapping when the last one is carved. Only its touched pages use memory. Where addresses are scarce it is
    /// as small as possible.
    fn map_more(&mut self, bytes: usize) -> io::Result<()> {
        let all: usize = self.mappings.iter().map(Mapping::len).sum();
        let len = all.clamp(FIRST, LARGEST).max(bytes);
        let mapping = Mapping::reserve(len).or_else(|_| Mapping::reserve(os::round_up(bytes).unwrap_or(bytes)));
        self.mappings.push(mapping.map_err(os::no_addresses)?);
        self.carved = 0;
        Ok(())
    }

    fn carve(&mut self, bytes: usize) -> io::Result<*mut u8> {
        if self.left() < bytes {
            self.map_more(bytes)?;
        }
        let Some(m) = self.mappings.last() else { return Err(io::ErrorKind::OutOfMemory.into()) };
        // SAFETY: `carved + bytes` is at most the length of the mapping.
        let ptr = unsafe { m.as_ptr().add(self.carved) };
        self.carved += bytes;
        Ok(ptr)
    }

    /// Caches a slot that nothing reads or writes any more.
    pub(crate) fn put(&mut self, slot: PoolSlot) {
        let c = &mut self.classes[slot.class.0 as usize];
        c.cached.push(slot.ptr);
        self.cached_bytes += c.bytes;
    }

    /// Gives at least `bytes` of cached slots back to the system if there are as many. Keeps `keep(class)` slots of
    /// each class.
    pub(crate) fn give_back(&mut self, bytes: usize, keep: impl Fn(ClassId) -> usize) -> ReturnedBytes {
        let mut given = ReturnedBytes::default();
        for (i, c) in self.classes.iter_mut().enumerate() {
            let keep = keep(ClassId(i as u32));
            while given.slots + given.rests < bytes && c.cached.len() > keep {
                // The oldest first: it is the coldest. `swap_remove` takes constant time; exact age does not matter.
                let ptr = c.cached.swap_remove(0);
                let base = ptr as usize / HUGE_BYTES * HUGE_BYTES;
                if let Some(rest) = self.huge.remove(&base) {
                    // From now on its slots are given back one by one: the system must not put two mebibytes behind one
                    // of them.
                    // SAFETY: the huge page is inside a mapping of the pool, and nothing uses the bytes behind its last
                    // slot.
                    unsafe {
                        let base = ptr.sub(ptr as usize - base);
                        os::never_huge(base, HUGE_BYTES);
                        os::give_back(base.add(HUGE_BYTES - rest), rest);
                    }
                    given.rests += rest;
                }
                // SAFETY: the slot is inside a mapping of the pool, is aligned, and is free.
                unsafe { os::give_back(ptr, c.bytes) };
                c.cold.push(ptr);
                given.slots += c.bytes;
            }
        }
        self.cached_bytes -= given.slots;
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_in_their_class_and_given_back() {
        let mut p = Pool::new(1 << 20).unwrap();
        let small = p.class(5000).unwrap();
        let large = p.class(100_000).unwrap();
        assert_eq!(p.bytes(small) % os::os_page(), 0);
        let (a, cached) = p.take(small).unwrap();
        assert!(!cached);
        // SAFETY: the slot is ours.
        unsafe { a.ptr.write_bytes(7, p.bytes(small)) };
        p.put(a);
        let (b, cached) = p.take(small).unwrap();
        assert!(cached);
        assert_eq!(a.ptr, b.ptr);
        p.put(b);
        assert_eq!(p.give_back(1, |c| if c == small { 1 } else { 0 }), ReturnedBytes::default());
        assert_eq!(p.give_back(1, |_| 0), ReturnedBytes { slots: p.bytes(small), rests: 0 });
        assert_eq!(p.cached_bytes(), 0);
        let (c, cached) = p.take(small).unwrap();
        assert!(!cached && c.ptr == a.ptr);
        // SAFETY: the slot is ours.
        assert_eq!(unsafe { c.ptr.read() }, 0, "given back memory reads as zeros");
        let (d, _) = p.take(large).unwrap();
        assert_ne!(d.ptr, c.ptr);
        assert_eq!(d.ptr as usize % 4096, 0);
    }

    #[test]
    fn slots_do_not_overlap() {
        let mut p = Pool::new(1 << 20).unwrap();
        let mut taken = Vec::new();
        for i in 0..600usize {
            let class = p.class(4096 * (1 + i % 5)).unwrap();
            let (s, _) = p.take(class).unwrap();
            taken.push((s.ptr as usize, p.bytes(class)));
        }
        taken.sort_unstable();
        assert!(taken.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
    }

    #[test]
    fn a_huge_page_of_slots() {
        let mut p = Pool::new(64 << 20).unwrap();
        let other = p.class(8192).unwrap();
        let _ = p.take(other).unwrap();
        let class = p.class(48 << 10).unwrap();
        assert_eq!(p.huge_slots(class), Some(42));
        assert_eq!(p.huge_slots(p.by_bytes[&8192]), Some(256));
        assert_eq!(p.stock(class).unwrap(), 32 << 10);
        assert_eq!((p.cached(class), p.cached_bytes()), (42, 42 * (48 << 10)));
        let mut at: Vec<usize> = (0..42)
            .map(|_| p.take(class).map(|(s, cached)| (s.ptr as usize, cached)).unwrap())
            .map(|(at, cached)| {
                assert!(cached);
                at
            })
            .collect();
        at.sort_unstable();
        assert!(at.windows(2).all(|w| w[0] + (48 << 10) == w[1]));
        assert!(at[0].is_multiple_of(HUGE_BYTES) && !p.take(class).unwrap().1);
        let large = p.class(1 << 20).unwrap();
        assert_eq!(p.huge_slots(large), None);
    }

    /// Bytes of a huge page that are in memory.
    fn resident(base: *mut u8) -> usize {
        let mut pages = vec![0u8; HUGE_BYTES / os::os_page()];
        // SAFETY: the range is mapped, and there is a byte for each of its pages.
        let answer = unsafe { libc::mincore(base.cast(), HUGE_BYTES, pages.as_mut_ptr()) };
        assert_eq!(answer, 0);
        pages.iter().filter(|p| **p & 1 == 1).count() * os::os_page()
    }

    /// After a part of it is given back, the slots of a huge page are like any others: each uses its own bytes.
    #[test]
    fn a_huge_page_goes_back_slot_by_slot() {
        let mut p = Pool::new(64 << 20).unwrap();
        let class = p.class(228 << 10).unwrap();
        assert_eq!((p.huge_slots(class), p.stock(class).unwrap()), (Some(8), 224 << 10));
        let slots: Vec<PoolSlot> = (0..8).map(|_| p.take(class).unwrap().0).collect();
        let base = slots[0].ptr;
        // SAFETY: the slots are ours.
        slots.iter().for_each(|s| unsafe { s.ptr.write_bytes(1, p.bytes(class)) });
        assert!(resident(base) >= 8 * (228 << 10));
        slots.into_iter().for_each(|s| p.put(s));
        // The bytes behind the last slot go with the first slot, and count.
        let one = p.give_back(300 << 10, |_| 0);
        assert_eq!(one, ReturnedBytes { slots: 228 << 10, rests: 224 << 10 });
        assert_eq!(resident(base), 7 * (228 << 10));
        assert_eq!(p.give_back(usize::MAX, |_| 0), ReturnedBytes { slots: 7 * (228 << 10), rests: 0 });
        assert_eq!((resident(base), p.cached_bytes(), p.free(class)), (0, 0, 8));
        let (s, cached) = p.take(class).unwrap();
        assert!(!cached);
        // SAFETY: the slot is ours.
        unsafe { s.ptr.write_bytes(1, p.bytes(class)) };
        assert_eq!(resident(base), 228 << 10);
    }

    /// Where addresses are scarce, huge pages are still aligned.
    #[test]
    fn huge_pages_in_small_mappings() {
        let mut p = Pool::new(1 << 20).unwrap();
        p.mappings = vec![Mapping::reserve(3 << 20).unwrap()];
        let class = p.class(64 << 10).unwrap();
        for n in 1..=80 {
            p.stock(class).unwrap();
            assert_eq!(p.cached(class), n * 32);
        }
        assert!(p.huge.keys().all(|base| base.is_multiple_of(HUGE_BYTES)) && p.mappings.len() <= 5);
        let mut at: Vec<usize> = (0..80 * 32).map(|_| p.take(class).unwrap().0.ptr as usize).collect();
        at.sort_unstable();
        assert!(at.windows(2).all(|w| w[0] + (64 << 10) <= w[1]));
    }

    #[test]
    fn few_buffer_classes() {
        let mut p = Pool::new(1 << 20).unwrap();
        let mut seen = std::collections::HashSet::new();
        for b in (1..1_000_000usize).step_by(777) {
            let c = p.buffer_class(b).unwrap();
            assert!(p.bytes(c) >= b);
            assert!(p.bytes(c) <= b.next_multiple_of(4096) * 5 / 4 + 4096);
            seen.insert(c.0);
        }
        assert!(seen.len() < 60, "{}", seen.len());
        assert!(p.class(usize::MAX).is_none() && p.buffer_class(usize::MAX - 10).is_none());
    }
}
