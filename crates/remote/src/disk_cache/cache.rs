//! The cache of remote bytes on the local disk.

use super::folder;
use super::format::{file_digest, FileKey};
use super::index::IndexEntry;
use super::queue::WriteQueue;
use super::readers::{fill, read_any, HitJob, ReaderPool, Scratch};
use super::segment::CacheSegment;
use super::state::{CacheFault, CacheState, DiskCacheCounts, DiskCacheOptions, HitPiece};
use super::writer::{CacheWriter, NewRecord};
use pager::source::Buffer;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two looks for segments of other processes, which follow misses.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Notes of one name that are kept in view; older ones go with their segments.
const MOST_NOTES: usize = 16;

/// See the module `disk_cache`. One a folder and process; shared by all places.
///
/// Invariants:
/// 1. No call fails, and none waits for a disk except `fill`, `note_of` and
///    [`Self::flush`].
pub struct DiskCache {
    state: Arc<CacheState>,
    queue: WriteQueue,
    readers: ReaderPool,
    opened: Instant,
    /// When it was looked for segments last, in milliseconds after `opened`.
    looked: AtomicU64,
}

impl DiskCache {
    /// Opens the cache of a folder, which is created if there is none. A folder that cannot be used is an empty cache;
    /// [`Self::take_notice`] says why.
    pub fn open(folder: &Path, options: DiskCacheOptions) -> Arc<Self> {
        let state = Arc::new(CacheState::new(folder, options));
        let mut writer = CacheWriter::new(state.clone());
        match folder::prepare(folder) {
            Err(e) => {
                state.usable.store(false, Relaxed);
                state.writable.store(false, Relaxed);
                let shown = folder.display();
                state.say(CacheFault::Unusable, || format!("the disk cache in {shown} is not used: {e}"));
            }
            Ok(()) => {
                if let Err(e) = writer.begin() {
                    state.writable.store(false, Relaxed);
                    let shown = folder.display();
                    state.say(CacheFault::NotWritten, || format!("the disk cache in {shown} cannot be written: {e}"));
                }
            }
        }
        let (queue, readers) = (WriteQueue::new(state.clone(), writer), ReaderPool::new(options.readers));
        Arc::new(Self { state, queue, readers, opened: Instant::now(), looked: AtomicU64::new(0) })
    }

    /// Whether there is anything to read or write.
    pub fn is_usable(&self) -> bool {
        self.state.usable.load(Relaxed)
    }

    /// What a user should know about it, once each.
    pub fn take_notice(&self) -> Option<String> {
        self.state.take_notice()
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.state.folder
    }

    /// Its limits.
    pub fn options(&self) -> &DiskCacheOptions {
        &self.state.options
    }

    /// What it did in this process.
    pub fn counts(&self) -> DiskCacheCounts {
        self.state.counters.read()
    }

    /// Records that are known.
    pub fn records(&self) -> usize {
        self.state.table().index.len()
    }

    /// Bytes in memory that grow with the records.
    pub fn index_bytes(&self) -> u64 {
        let table = self.state.table();
        table.index.bytes() + (table.slots.capacity() * size_of::<CacheSegment>()) as u64
    }

    /// Bytes that wait to be written.
    pub fn waiting_bytes(&self) -> u64 {
        self.queue.bytes() as u64
    }

    /// The digest of a file in a place.
    pub(super) fn file(place: &str, path: &Path) -> u64 {
        file_digest("file", place, path)
    }

    /// Whether it has bytes of that file, of any version.
    pub(super) fn has_any(&self, file: u64) -> bool {
        self.state.usable.load(Relaxed) && self.state.table().index.any(file)
    }

    /// The records that have all these ranges of a file; `None` is a miss. Each is checked when it is read.
    pub(super) fn plan(&self, key: FileKey, ranges: &[(u64, u64)]) -> Option<Vec<HitPiece>> {
        if !self.state.usable.load(Relaxed) {
            return None;
        }
        let plans = ranges.iter().map(|(from, to)| self.state.plan(key, *from, (to - from) as usize));
        let plan: Option<Vec<Vec<HitPiece>>> = plans.collect();
        if plan.is_none() {
            self.missed();
        }
        plan.map(|pieces| pieces.concat())
    }

    /// Counts a miss, and learns now and then what other processes stored.
    pub(super) fn missed(&self) {
        self.state.counters.misses.fetch_add(1, Relaxed);
        let (now, last) = (self.opened.elapsed().as_millis() as u64, self.looked.load(Relaxed));
        if now >= last + LOOK_EVERY.as_millis() as u64
            && self.looked.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
            && self.state.usable.load(Relaxed)
        {
            self.queue.refresh();
        }
    }

    /// Runs jobs on the threads that read.
    pub(super) fn run(&self, jobs: Vec<HitJob>) {
        self.readers.run(jobs);
    }

    /// Fills buffers, which begin at a byte of the file, from the records of a plan. False: a record does not hold, and the bytes are undefined.
    ///
    /// # Safety
    /// The buffers are valid, and nobody else uses them.
    pub(super) unsafe fn fill(
        &self,
        key: FileKey,
        to: (u64, &[Buffer]),
        pieces: &[HitPiece],
        scratch: &mut Scratch,
    ) -> bool {
        // SAFETY: as above.
        let filled = unsafe { fill(&self.state, key, to, pieces, scratch) };
        if !filled {
            self.missed();
        }
        filled
    }

    /// Whether so many bytes would be taken for storing now.
    pub(super) fn wants(&self, bytes: usize) -> bool {
        self.state.writable.load(Relaxed) && self.queue.has_room(bytes)
    }

    /// Offers bytes of a file. What does not fit into the queue is dropped.
    pub(super) fn store(&self, key: FileKey, offset: u64, bytes: Vec<u8>) {
        let longest = self.state.options.longest();
        if longest == 0 || bytes.is_empty() || !self.state.writable.load(Relaxed) {
            return;
        }
        if bytes.len() <= longest {
            return self.queue.store(NewRecord { key, offset, bytes: bytes.into(), again: false });
        }
        for (n, part) in bytes.chunks(longest).enumerate() {
            let offset = offset + (n * longest) as u64;
            self.queue.store(NewRecord { key, offset, bytes: part.into(), again: false });
        }
    }

    /// Keeps a small document about a name. The newest is found again by [`Self::note_of`].
    pub(super) fn note(&self, about: &str, place: &str, path: &Path, bytes: Vec<u8>) {
        let fits = !bytes.is_empty() && bytes.len() <= self.state.options.longest();
        if !fits || !self.state.usable.load(Relaxed) || !self.state.writable.load(Relaxed) {
            return;
        }
        let file = file_digest(about, place, path);
        let version = u64::from(crc32c::crc32c(&bytes)) << 32 | u64::from(crc32c::crc32c_append(1, &bytes));
        let key = FileKey { file, version };
        match self.notes(file).first() {
            // Hits keep it from being removed.
            Some((newest, _)) if newest.is_of(key) => drop(self.state.plan(key, 0, bytes.len())),
            _ => self.queue.store(NewRecord { key, offset: 0, bytes: bytes.into(), again: true }),
        }
    }

    /// The records of notes, newest first.
    fn notes(&self, file: u64) -> Vec<(IndexEntry, Arc<CacheSegment>)> {
        let table = self.state.table();
        let segment = |e: IndexEntry| Some((e, table.slots.get(usize::from(e.slot()))?.clone()?));
        let found = table.index.of_file(file, MOST_NOTES).into_iter().filter_map(segment);
        let mut found: Vec<(IndexEntry, Arc<CacheSegment>)> = found.collect();
        drop(table);
        found.sort_by_key(|(entry, segment)| std::cmp::Reverse((segment.name.born, entry.at())));
        found
    }

    /// The newest document about a name.
    pub(super) fn note_of(&self, about: &str, place: &str, path: &Path) -> Option<Vec<u8>> {
        let file = file_digest(about, place, path);
        self.notes(file).into_iter().find_map(|(entry, segment)| {
            let opened = self.state.open(&segment).ok()?;
            let (head, bytes) = read_any(&opened, &segment.name, &entry)?;
            (head.key.file == file).then_some(bytes)
        })
    }

    /// Waits until everything that was offered is written, at most so long. A process that ends without it loses what
    /// waits; what is written is found by the next one. Returns whether everything is written.
    pub fn flush(&self, patience: Duration) -> bool {
        self.queue.flush(patience)
    }
}
