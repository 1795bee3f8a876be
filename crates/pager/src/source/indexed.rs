//! Extents that come in one reply with the index that names them.
//!
//! A page of a shard whose index is not known costs two round trips: the index, then the page. A place that follows
//! indexes itself ([`Place::indexed`](crate::place::Place::indexed)) gives both in one. The index is read for one page;
//! the extent of that page waits here until it is read, which is next. All folders of a pager share one budget. An
//! extent that is not read after all makes room for others of its folder.

use super::first_budget::FirstBudget;
use super::{Buffer, Read};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The longest extent that is worth it: a longer one takes more time than the round trip.
const LONGEST: usize = 1 << 20;
/// Most files with a wanted entry. More than that many are read in one sweep, where round trips overlap anyway.
const MOST_WANTED: usize = 1024;

/// The entry of an index that names a wanted extent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedEntry {
    /// Where it stands in the index.
    pub(super) at: usize,
    /// A longer extent is read by itself.
    pub(super) longest: usize,
}

/// See the module.
pub(super) struct IndexedExtents {
    lists: Mutex<ExtentLists>,
    /// What it has taken of the budget.
    bytes: AtomicU64,
    budget: Arc<FirstBudget>,
}

impl Drop for IndexedExtents {
    fn drop(&mut self) {
        self.budget.give(self.bytes());
    }
}

#[derive(Default)]
struct ExtentLists {
    /// By file. `None`: more than one entry is wanted. The others would wait for a second round trip anyway.
    wanted: HashMap<u64, Option<WantedEntry>>,
    /// By file: place in the file, bytes.
    here: HashMap<u64, (u64, Vec<u8>)>,
    order: VecDeque<u64>,
}

impl IndexedExtents {
    pub(super) fn new(budget: Arc<FirstBudget>) -> Self {
        Self { lists: Mutex::default(), bytes: AtomicU64::new(0), budget }
    }

    fn give(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Relaxed);
        self.budget.give(bytes);
    }

    fn lists(&self) -> MutexGuard<'_, ExtentLists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page needs the extent that an entry of a file's index names.
    pub(super) fn want(&self, file: u64, entry: WantedEntry) {
        if entry.longest > LONGEST {
            return;
        }
        let mut lists = self.lists();
        if lists.wanted.len() >= MOST_WANTED {
            lists.wanted.clear();
        }
        let wanted = lists.wanted.entry(file).or_insert(Some(entry));
        if wanted.is_some_and(|other| other.at != entry.at) {
            *wanted = None;
        }
    }

    /// The one wanted entry of a file whose index is read now, with room for its extent.
    pub(super) fn take(&self, file: u64) -> Option<WantedEntry> {
        let mut lists = self.lists();
        let entry = lists.wanted.remove(&file)??;
        while !self.budget.take(entry.longest as u64) {
            let oldest = lists.order.pop_front()?;
            self.drop_extent(&mut lists, oldest);
        }
        self.bytes.fetch_add(entry.longest as u64, Relaxed);
        Some(entry)
    }

    /// The reply to a taken entry came, with an extent of the file or without.
    pub(super) fn put(&self, file: u64, entry: WantedEntry, extent: Option<(u64, Vec<u8>)>) {
        let mut lists = self.lists();
        let extent = extent.filter(|(_, bytes)| !bytes.is_empty() && bytes.len() <= entry.longest);
        self.give((entry.longest - extent.as_ref().map_or(0, |(_, bytes)| bytes.len())) as u64);
        if let Some((offset, bytes)) = extent {
            self.drop_extent(&mut lists, file);
            lists.here.insert(file, (offset, bytes));
            lists.order.push_back(file);
        }
    }

    fn drop_extent(&self, lists: &mut ExtentLists, file: u64) {
        if let Some((_, bytes)) = lists.here.remove(&file) {
            self.give(bytes.len() as u64);
            lists.order.retain(|other| *other != file);
        }
    }

    /// Fills a read that begins at a place of the file, if its bytes wait here. They are given once.
    pub(super) fn fill(&self, file: u64, offset: u64, read: &Read) -> bool {
        if self.bytes() == 0 {
            return false;
        }
        let mut lists = self.lists();
        let Some((begin, bytes)) = lists.here.get(&file) else { return false };
        let Some(from) = offset.checked_sub(*begin).and_then(|from| usize::try_from(from).ok()) else { return false };
        let Some(bytes) = bytes.get(from..).and_then(|rest| rest.get(..read.len())) else { return false };
        // SAFETY: the buffers are this read's until it is completed, and nothing else writes to them.
        unsafe { put(&read.buffers, 0, bytes) };
        self.drop_extent(&mut lists, file);
        true
    }

    /// Bytes of extents here or on their way.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

/// Writes `bytes` at place `at` of the joined buffers, as far as they reach.
///
/// # Safety
/// The buffers are valid, and no other thread accesses those bytes.
pub(super) unsafe fn put(buffers: &[Buffer], at: i64, bytes: &[u8]) {
    let mut begin = 0i64;
    for b in buffers {
        let end = begin + b.len as i64;
        let (from, to) = (at.max(begin), (at + bytes.len() as i64).min(end));
        if from < to && !b.is_hole() {
            let part = &bytes[(from - at) as usize..(to - at) as usize];
            // SAFETY: `from` and `to` are between the begin and the end of the buffer.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), b.ptr.add((from - begin) as usize), part.len()) };
        }
        begin = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::ReadClass;

    const MOST_BYTES: u64 = 4 << 20;

    fn extents() -> IndexedExtents {
        let budget = Arc::<FirstBudget>::default();
        budget.set(MOST_BYTES);
        IndexedExtents::new(budget)
    }

    fn read_of(memory: &mut [u8]) -> Read {
        let buffers = vec![Buffer { ptr: memory.as_mut_ptr(), len: memory.len() }];
        Read { token: 1, offset: 0, buffers, class: ReadClass::Demand }
    }

    #[test]
    fn an_extent_is_given_once_and_only_whole() {
        let extents = extents();
        let entry = WantedEntry { at: 16, longest: 100 };
        extents.want(3, entry);
        assert_eq!((extents.take(4), extents.take(3), extents.take(3)), (None, Some(entry), None));
        assert_eq!(extents.bytes(), 100);
        extents.put(3, entry, Some((1000, (0..50).collect())));
        assert_eq!(extents.bytes(), 50);
        let mut memory = [0; 20];
        for (file, offset) in [(2, 1010), (3, 990), (3, 1031)] {
            assert!(!extents.fill(file, offset, &read_of(&mut memory)), "{file} {offset}");
        }
        assert!(extents.fill(3, 1030, &read_of(&mut memory)));
        assert!(memory.iter().copied().eq(30..50));
        assert!(!extents.fill(3, 1030, &read_of(&mut memory)));
        assert_eq!(extents.bytes(), 0);
    }

    #[test]
    fn several_entries_of_one_index_are_not_followed() {
        let extents = extents();
        for at in [16, 16, 32] {
            extents.want(1, WantedEntry { at, longest: 10 });
        }
        assert_eq!(extents.take(1), None);
        extents.want(1, WantedEntry { at: 0, longest: LONGEST + 1 });
        assert_eq!(extents.take(1), None);
    }

    #[test]
    fn extents_that_nobody_reads_make_room() {
        let extents = extents();
        let entry = WantedEntry { at: 0, longest: LONGEST };
        for file in 0..20 {
            extents.want(file, entry);
            let taken = extents.take(file).expect("there is room");
            extents.put(file, taken, Some((0, vec![1; LONGEST])));
            assert!(extents.bytes() <= MOST_BYTES);
        }
        // What is on its way is not dropped, and leaves no room.
        (20..24).for_each(|file| extents.want(file, entry));
        let taken: Vec<_> = (20..24).filter_map(|file| extents.take(file)).collect();
        assert_eq!((taken.len(), extents.bytes()), (4, MOST_BYTES));
        extents.want(24, entry);
        assert_eq!(extents.take(24), None);
        taken.into_iter().for_each(|entry| extents.put(20, entry, None));
        assert_eq!(extents.bytes(), 0);
        // What another folder of the pager has is not free, and is again once that folder is gone.
        let other = IndexedExtents::new(extents.budget.clone());
        (0..4).for_each(|file| other.want(file, entry));
        assert_eq!((0..4).filter_map(|file| other.take(file)).count(), 4);
        extents.want(1, entry);
        assert_eq!(extents.take(1), None);
        drop(other);
        extents.want(1, entry);
        assert_eq!(extents.take(1), Some(entry));
    }
}
