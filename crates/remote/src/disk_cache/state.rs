//! What the threads of a cache share: options, the table of segments, counters, and what is to be said.

use super::folder::{self, ListedSegment, LockedFile};
use super::format::{self, FileKey, SegmentName, SEGMENT};
use super::index::{CacheIndex, IndexEntry};
use super::segment::{self, CacheSegment};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Records that one read may be put together of.
const MOST_PIECES: usize = 64;
/// Open files of segments.
const MOST_OPEN: usize = 128;
/// Time for the lock of the folder when a cache is opened. Other processes hold it for milliseconds, or tenths of a
/// second while they copy used records.
pub(super) const PATIENCE: Duration = Duration::from_millis(300);

/// The limits of a cache.
#[derive(Copy, Clone, Debug)]
pub struct DiskCacheOptions {
    /// Most bytes of its files, those of all processes together. 0: nothing is stored.
    pub bytes: u64,
    /// Part of the disk that stays free, in percent.
    pub keep_free_percent: u8,
    /// Bytes of a segment; at most 64 MiB, and an eighth of `bytes`.
    pub segment: u64,
    /// Bytes that wait to be written. What does not fit is dropped.
    pub queue: usize,
    /// Threads that read.
    pub readers: usize,
}

impl Default for DiskCacheOptions {
    fn default() -> Self {
        Self { bytes: 10 << 30, keep_free_percent: 5, segment: SEGMENT, queue: 8 << 20, readers: 8 }
    }
}

impl DiskCacheOptions {
    /// Bytes of a segment.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.segment.min(SEGMENT).min(self.bytes / 8) / 8 * 8
    }

    /// Bytes of the longest record: several go into a segment.
    pub(super) fn longest(&self) -> usize {
        (self.segment_bytes() / 4).min(format::LONGEST as u64) as usize
    }
}

/// What a cache did in this process.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskCacheCounts {
    /// Reads that it answered.
    pub hits: u64,
    /// Bytes of these.
    pub hit_bytes: u64,
    /// Reads that it could not answer.
    pub misses: u64,
    /// Records that did not hold their checksum, or could not be read.
    pub faults: u64,
    /// Records that were written.
    pub stored: u64,
    /// Bytes of these.
    pub stored_bytes: u64,
    /// Records that were dropped because the disk was slower than the network, or refused them.
    pub dropped: u64,
    /// Segments that were removed to make room.
    pub evicted: u64,
}

#[derive(Default)]
pub(super) struct CacheCounters {
    pub hits: AtomicU64,
    pub hit_bytes: AtomicU64,
    pub misses: AtomicU64,
    pub faults: AtomicU64,
    pub stored: AtomicU64,
    pub stored_bytes: AtomicU64,
    pub dropped: AtomicU64,
    pub evicted: AtomicU64,
}

impl CacheCounters {
    pub fn read(&self) -> DiskCacheCounts {
        DiskCacheCounts {
            hits: self.hits.load(Relaxed),
            hit_bytes: self.hit_bytes.load(Relaxed),
            misses: self.misses.load(Relaxed),
            faults: self.faults.load(Relaxed),
            stored: self.stored.load(Relaxed),
            stored_bytes: self.stored_bytes.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
        }
    }
}

/// What can be wrong with a cache; each is said once.
#[derive(Copy, Clone, Debug)]
pub(super) enum CacheFault {
    Unusable = 1,
    NotWritten = 2,
    NotRead = 4,
}

/// A part of a read that one record has.
#[derive(Clone)]
pub(super) struct HitPiece {
    pub segment: Arc<CacheSegment>,
    pub entry: IndexEntry,
    /// The wanted bytes of the file.
    pub from: u64,
    pub to: u64,
}

/// The segments and the index of their records.
///
/// Invariants:
/// 1. Entries of the index name slots with a segment.
#[derive(Default)]
pub(super) struct SegmentTable {
    pub index: CacheIndex,
    pub slots: Vec<Option<Arc<CacheSegment>>>,
}

impl SegmentTable {
    pub fn free_slot(&mut self) -> Option<u16> {
        let slot = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        u16::try_from(slot).ok()
    }

    fn forget(&mut self, slot: u16) {
        if let Some(segment) = self.slots.get_mut(usize::from(slot)).and_then(Option::take) {
            segment.close();
            self.index.remove_slot(slot);
        }
    }

    fn slot_of(&self, number: u64) -> Option<u16> {
        let same = |s: &Option<Arc<CacheSegment>>| s.as_ref().is_some_and(|s| s.name.number == number);
        self.slots.iter().position(same).and_then(|slot| u16::try_from(slot).ok())
    }
}

/// See the module.
pub(super) struct CacheState {
    pub folder: Arc<Path>,
    pub options: DiskCacheOptions,
    pub counters: CacheCounters,
    /// Whether anything can be read, or written.
    pub usable: AtomicBool,
    pub writable: AtomicBool,
    table: Mutex<SegmentTable>,
    open_files: AtomicUsize,
    reads: AtomicU64,
    said: AtomicU8,
    notices: Mutex<Vec<String>>,
}

impl CacheState {
    pub fn new(folder: &Path, options: DiskCacheOptions) -> Self {
        Self {
            folder: folder.into(),
            options,
            counters: CacheCounters::default(),
            usable: AtomicBool::new(true),
            writable: AtomicBool::new(options.bytes > 0),
            table: Mutex::default(),
            open_files: AtomicUsize::new(0),
            reads: AtomicU64::new(0),
            said: AtomicU8::new(0),
            notices: Mutex::default(),
        }
    }

    pub fn table(&self) -> MutexGuard<'_, SegmentTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn say(&self, fault: CacheFault, message: impl FnOnce() -> String) {
        if self.said.fetch_or(fault as u8, Relaxed) & fault as u8 == 0 {
            self.notices.lock().unwrap_or_else(PoisonError::into_inner).push(message());
        }
    }

    pub fn take_notice(&self) -> Option<String> {
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        (!notices.is_empty()).then(|| notices.remove(0))
    }

    /// The records that have these bytes of a file.
    pub fn plan(&self, key: FileKey, offset: u64, len: usize) -> Option<Vec<HitPiece>> {
        let end = offset.checked_add(len as u64).filter(|end| *end > offset)?;
        let mut table = self.table();
        let entries = table.index.cover(key, offset, end, MOST_PIECES)?;
        let mut from = offset;
        let pieces = entries.into_iter().map(|entry| {
            let to = entry.end().min(end);
            let segment = table.slots.get(usize::from(entry.slot()))?.clone()?;
            Some(HitPiece { segment, entry, from: std::mem::replace(&mut from, to), to })
        });
        pieces.collect()
    }

    /// The file of a segment. Beyond a number of open ones, that least used is closed.
    pub fn open(&self, segment: &CacheSegment) -> io::Result<Arc<std::fs::File>> {
        segment.used.store(self.reads.fetch_add(1, Relaxed), Relaxed);
        let (file, opened) = segment.open()?;
        if opened && self.open_files.fetch_add(1, Relaxed) >= MOST_OPEN {
            let table = self.table();
            let mut by_use: Vec<&Arc<CacheSegment>> = table.slots.iter().flatten().collect();
            by_use.sort_by_key(|s| s.used.load(Relaxed));
            let closed = by_use.iter().take(by_use.len() / 2).filter(|s| s.close()).count();
            // Segments that were removed have closed theirs, so the rest is counted anew.
            self.open_files.store((MOST_OPEN / 2).max(by_use.len() / 2).saturating_sub(closed), Relaxed);
        }
        Ok(file)
    }

    /// Forgets a record that does not hold, or the segment of a file that is gone.
    pub fn fault(&self, piece: &HitPiece, e: &io::Error) {
        let mut table = self.table();
        if e.kind() == io::ErrorKind::NotFound {
            if let Some(slot) = table.slot_of(piece.segment.name.number) {
                table.forget(slot);
            }
            return;
        }
        table.index.remove(&piece.entry);
        drop(table);
        self.counters.faults.fetch_add(1, Relaxed);
        self.say(CacheFault::NotRead, || {
            let folder = self.folder.display();
            format!("a record of the disk cache in {folder} is not used: {e}; its bytes come from the server")
        });
    }

    /// Learns of segments that other processes sealed, and forgets those that they removed. Returns all files with
    /// names of ours. `orphans`: those that no process writes any more are read, too.
    pub fn refresh(&self, orphans: bool) -> io::Result<Vec<ListedSegment>> {
        let listed = folder::list(&self.folder)?;
        let mut table = self.table();
        let gone = |s: &CacheSegment| !listed.iter().any(|l| l.number == s.name.number);
        let slots = 0..u16::try_from(table.slots.len()).unwrap_or(u16::MAX);
        for slot in slots {
            if table.slots[usize::from(slot)].as_ref().is_some_and(|s| gone(s)) {
                table.forget(slot);
            }
        }
        let known = |l: &&ListedSegment| table.slot_of(l.number).is_none() && (l.sealed || orphans);
        let fresh: Vec<ListedSegment> = listed.iter().filter(known).copied().collect();
        let first = table.index.len() == 0;
        drop(table);
        let (mut loaded, mut entries) = (Vec::new(), Vec::new());
        for ListedSegment { number, sealed, .. } in fresh {
            // One that cannot be read, or is not ours, is as if it were not there.
            let name = format::file_name(number, sealed);
            let Ok(file) = folder::open(&self.folder, &name, OpenOptions::new().read(true)) else { continue };
            let found = match sealed {
                true => segment::load(&file, number),
                false => LockedFile::take(file).map_or(Ok(None), |file| segment::load(&file, number)),
            };
            loaded.extend(found.ok().flatten());
        }
        // Of equal records the newest is loaded last, and stays.
        loaded.sort_by_key(|l| (l.name.born, l.name.number));
        let mut table = self.table();
        for found in loaded {
            let Some(slot) = table.free_slot() else { break };
            table.slots[usize::from(slot)] = Some(CacheSegment::new(&self.folder, found.name, false));
            entries.extend(found.rows.iter().map(|r| IndexEntry::new(r.key, r.offset, slot, r.at, r.len)));
        }
        if first && table.index.len() == 0 {
            table.index = CacheIndex::load(entries);
        } else {
            for entry in entries {
                table.index.insert(entry);
            }
        }
        Ok(listed)
    }

    /// Bytes of the cache's files, those that still grow counted as full.
    pub fn charged(&self, listed: &[ListedSegment]) -> u64 {
        let full = self.options.segment_bytes();
        listed.iter().map(|l| if l.sealed { l.bytes } else { l.bytes.max(full) }).sum()
    }

    /// Whether a segment is in the table, and its file in the folder as far as is known.
    pub fn has(&self, slot: u16, segment: &Arc<CacheSegment>) -> bool {
        self.table().slots.get(usize::from(slot)).is_some_and(|s| s.as_ref().is_some_and(|s| Arc::ptr_eq(s, segment)))
    }

    /// Puts a new segment into the table.
    pub fn add(&self, segment: &Arc<CacheSegment>) -> Option<u16> {
        let mut table = self.table();
        let slot = table.free_slot()?;
        table.slots[usize::from(slot)] = Some(segment.clone());
        Some(slot)
    }

    /// Removes a sealed segment and forgets its records.
    pub fn evict(&self, name: &SegmentName) -> io::Result<()> {
        folder::remove(&self.folder, name, true)?;
        let mut table = self.table();
        if let Some(slot) = table.slot_of(name.number) {
            table.forget(slot);
        }
        self.counters.evicted.fetch_add(1, Relaxed);
        Ok(())
    }
}
