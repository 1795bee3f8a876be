//! Write-behind, and room for it.
//!
//! *Theory.* Replacement is S3-FIFO (Yang et al. 2023) by segments. New records go to a small segment. When room is
//! needed, the oldest small segment is removed if small ones take more than a tenth of the cache. Else it is the oldest main
//! one. Its records that were used are copied to a main segment first. A run that reads everything once so passes through
//! a tenth of the cache. Records that come back soon after their removal go to a main segment at once. Hits are counted
//! by each process for itself.
//!
//! *Practice.* Room for a whole segment is made when it is created, under the lock of the folder, and counted as taken.
//! So all processes together stay below the limit; while records are copied one more segment may exist.

use super::folder::{self, ListedSegment};
use super::format::{FileKey, RecordHead, RecordRow, SegmentKind, SegmentName, HEAD};
use super::ghost::GhostTable;
use super::index::IndexEntry;
use super::segment::{self, CacheSegment, GrowingSegment};
use super::state::{CacheFault, CacheState};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time without writes after one failed.
const PAUSE: Duration = Duration::from_secs(10);
/// Time without writes after other processes left no room.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// Time for the lock of the folder. Only this thread waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes written between two looks at the free space of the disk.
const LOOK_EVERY: u64 = 1 << 20;

/// Why there is no room.
enum WriteRefusal {
    /// Other processes write all that there is, or hold the lock.
    Now,
    /// The disk is too full.
    Disk,
    Failed(io::Error),
}

impl From<io::Error> for WriteRefusal {
    fn from(e: io::Error) -> Self {
        Self::Failed(e)
    }
}

/// Bytes for a record.
pub(super) struct NewRecord {
    pub key: FileKey,
    pub offset: u64,
    pub bytes: Box<[u8]>,
    /// Whether it is stored also if it is there.
    pub again: bool,
}

/// Writes records, on one thread.
pub(super) struct CacheWriter {
    state: Arc<CacheState>,
    /// Small and main.
    growing: [Option<GrowingSegment>; 2],
    ghosts: GhostTable,
    /// Nothing is written before this time.
    paused: Option<Instant>,
    unlooked: u64,
}

impl CacheWriter {
    pub fn new(state: Arc<CacheState>) -> Self {
        let ghosts = GhostTable::new(state.options.bytes);
        Self { state, growing: [None, None], ghosts, paused: None, unlooked: 0 }
    }

    /// Stores a record, unless its bytes are there. What cannot be stored is dropped.
    pub fn store(&mut self, record: &NewRecord) {
        if !record.again && self.state.plan(record.key, record.offset, record.bytes.len()).is_some() {
            return;
        }
        let paused = self.paused.is_some_and(|until| Instant::now() < until);
        let stored = !paused && self.state.writable.load(Relaxed) && self.try_store(record);
        let counters = &self.state.counters;
        if stored {
            counters.stored.fetch_add(1, Relaxed);
            counters.stored_bytes.fetch_add(record.bytes.len() as u64, Relaxed);
        } else {
            counters.dropped.fetch_add(1, Relaxed);
        }
    }

    fn try_store(&mut self, record: &NewRecord) -> bool {
        let known = self.ghosts.take(record.key, record.offset);
        let kind = if known { SegmentKind::Main } else { SegmentKind::Small };
        let len = record.bytes.len() as u32;
        let room = self.room(kind, len).and_then(|()| {
            let head = RecordHead { key: record.key, offset: record.offset, len, sum: crc32c::crc32c(&record.bytes) };
            self.append(kind, &head, &record.bytes, 0).map_err(WriteRefusal::Failed)
        });
        let Err(e) = room else { return true };
        let pause = if matches!(e, WriteRefusal::Now) { SHORT_PAUSE } else { PAUSE };
        self.paused = Some(Instant::now() + pause);
        let folder = self.state.folder.display();
        match e {
            WriteRefusal::Now => {}
            WriteRefusal::Disk => self.state.say(CacheFault::NotWritten, || {
                format!("the disk cache in {folder} stores nothing more: its disk is too full")
            }),
            WriteRefusal::Failed(e) => {
                self.state.say(CacheFault::NotWritten, || format!("the disk cache in {folder} cannot be written: {e}"));
                // What is there stays readable.
                self.seal_all();
            }
        }
        false
    }

    fn append(&mut self, kind: SegmentKind, head: &RecordHead, bytes: &[u8], heat: u64) -> io::Result<()> {
        let Some(growing) = &mut self.growing[kind as usize] else { return Err(io::ErrorKind::NotFound.into()) };
        let at = growing.append(head, bytes)?;
        let entry = IndexEntry::new(head.key, head.offset, growing.slot, at, head.len);
        let mut table = self.state.table();
        if table.index.insert(entry) && heat > 0 {
            table.index.set_heat(&entry, heat);
        }
        drop(table);
        self.unlooked += bytes.len() as u64;
        Ok(())
    }

    /// Gives up segments that a user removed.
    fn forget_removed(&mut self) {
        for growing in &mut self.growing {
            growing.take_if(|g| !self.state.has(g.slot, &g.segment));
        }
    }

    fn fits(&self, kind: SegmentKind, len: u32) -> bool {
        self.growing[kind as usize].as_ref().is_some_and(|g| g.fits(len))
    }

    /// Sees to it that a segment has room for a record.
    fn room(&mut self, kind: SegmentKind, len: u32) -> Result<(), WriteRefusal> {
        self.forget_removed();
        if self.fits(kind, len) {
            if self.unlooked >= LOOK_EVERY {
                if !self.disk_has(0) {
                    return Err(WriteRefusal::Disk);
                }
                self.unlooked = 0;
            }
            return Ok(());
        }
        self.seal(kind)?;
        let Some(_lock) = folder::lock(&self.state.folder, PATIENCE)? else { return Err(WriteRefusal::Now) };
        let listed = self.make_room()?;
        // Rescued records may have needed a segment, too.
        if !self.fits(kind, len) {
            self.seal(kind)?;
            if !self.resume(kind, len, &listed) {
                self.create(kind)?;
            }
        }
        Ok(())
    }

    /// Goes on with the newest segment, if it is at most half full: short runs would leave many small ones. The lock of
    /// the folder is held.
    fn resume(&mut self, kind: SegmentKind, len: u32, listed: &[ListedSegment]) -> bool {
        let most = self.state.options.segment_bytes();
        let table = self.state.table();
        let of_kind = |s: &(usize, &Arc<CacheSegment>)| s.1.name.kind == kind && !s.1.growing.load(Relaxed);
        let all = table.slots.iter().enumerate().filter_map(|(slot, s)| Some((slot, s.as_ref()?)));
        let newest = all.filter(of_kind).max_by_key(|(_, s)| (s.name.born, s.name.number));
        let Some((slot, segment)) = newest.map(|(slot, s)| (slot as u16, s.clone())) else { return false };
        drop(table);
        let small = |l: &ListedSegment| l.number == segment.name.number && l.sealed && l.bytes <= most / 2;
        if !listed.iter().any(small) {
            return false;
        }
        // One that cannot be opened again stays as it is.
        let resumed = GrowingSegment::resume(&self.state.folder, segment, slot, most).ok().flatten();
        self.growing[kind as usize] = resumed.filter(|g| g.fits(len));
        self.fits(kind, len)
    }

    fn seal(&mut self, kind: SegmentKind) -> io::Result<()> {
        self.growing[kind as usize].take().map_or(Ok(()), |growing| growing.seal(&self.state.folder))
    }

    /// Ends the segments that this process writes.
    pub fn seal_all(&mut self) {
        for kind in [SegmentKind::Small, SegmentKind::Main] {
            // One that cannot be sealed is found by its heads, later.
            let _sealed = self.seal(kind);
        }
    }

    /// Creates a segment. The lock of the folder is held.
    fn create(&mut self, kind: SegmentKind) -> io::Result<()> {
        let born = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        // Other processes have other keys.
        let number = RandomState::new().hash_one(born);
        let name = SegmentName { number, born, kind };
        let mut growing = GrowingSegment::create(&self.state.folder, name, self.state.options.segment_bytes())?;
        match self.state.add(&growing.segment) {
            Some(slot) => growing.slot = slot,
            None => return growing.seal(&self.state.folder).and(Err(io::Error::other("there are too many segments"))),
        }
        self.growing[kind as usize] = Some(growing);
        Ok(())
    }

    /// Whether the disk has room for so many bytes, and for what stays free.
    fn disk_has(&self, bytes: u64) -> bool {
        let keep = u64::from(self.state.options.keep_free_percent);
        folder::space(&self.state.folder).is_none_or(|(free, all)| free >= all / 100 * keep + bytes)
    }

    /// Reads the folder, and keeps it within its limit.
    ///
    /// # Errors
    /// Nothing can be written there. What can be read is known.
    pub fn begin(&mut self) -> io::Result<()> {
        let locked = match self.state.writable.load(Relaxed) {
            true => folder::lock(&self.state.folder, super::state::PATIENCE),
            false => Ok(None),
        };
        match locked {
            Ok(Some(_lock)) => {
                let listed = self.learn()?;
                match self.shrink(listed, 0, false) {
                    Err(WriteRefusal::Failed(e)) => Err(e),
                    // Others write more than this process may have.
                    Ok(_) | Err(WriteRefusal::Now | WriteRefusal::Disk) => Ok(()),
                }
            }
            // Segments of processes that ended are read as they are.
            Ok(None) => self.state.refresh(true).map(drop),
            Err(e) => self.state.refresh(true).and(Err(e)),
        }
    }

    /// Makes room for a segment. The lock of the folder is held. Returns the files that stay.
    fn make_room(&mut self) -> Result<Vec<ListedSegment>, WriteRefusal> {
        let listed = self.learn()?;
        self.shrink(listed, self.state.options.segment_bytes(), true)
    }

    fn learn(&mut self) -> io::Result<Vec<ListedSegment>> {
        let mut listed = self.state.refresh(false)?;
        if self.adopt(&listed) {
            listed = self.state.refresh(false)?;
        }
        self.forget_removed();
        Ok(listed)
    }

    /// Removes segments until so many bytes more are allowed. The lock of the folder is held.
    fn shrink(
        &mut self,
        mut listed: Vec<ListedSegment>,
        bytes: u64,
        disk: bool,
    ) -> Result<Vec<ListedSegment>, WriteRefusal> {
        loop {
            let full = self.state.charged(&listed) + bytes > self.state.options.bytes;
            if !full && (!disk || self.disk_has(bytes)) {
                return Ok(listed);
            }
            let Some(victim) = self.victim(&listed) else {
                return Err(if full { WriteRefusal::Now } else { WriteRefusal::Disk });
            };
            self.rescue(&victim)?;
            self.state.evict(&victim.name)?;
            listed = folder::list(&self.state.folder)?;
        }
    }

    /// Seals segments whose process has ended.
    fn adopt(&self, listed: &[ListedSegment]) -> bool {
        let adopted = |l: &&ListedSegment| !l.sealed && segment::adopt(&self.state.folder, l.number).unwrap_or(false);
        listed.iter().filter(adopted).count() > 0
    }

    /// The segment to remove.
    fn victim(&self, listed: &[ListedSegment]) -> Option<Arc<CacheSegment>> {
        let table = self.state.table();
        // One that was sealed may grow again, in another process.
        let sealed = |s: &&Arc<CacheSegment>| listed.iter().any(|l| l.sealed && l.number == s.name.number);
        let of = |kind| table.slots.iter().flatten().filter(sealed).filter(move |s| s.name.kind == kind);
        let small = of(SegmentKind::Small).count() as u64 * self.state.options.segment_bytes();
        let oldest = |kind| of(kind).min_by_key(|s| (s.name.born, s.name.number)).cloned();
        let (first, second) = match small > self.state.options.bytes / 10 {
            true => (SegmentKind::Small, SegmentKind::Main),
            false => (SegmentKind::Main, SegmentKind::Small),
        };
        oldest(first).or_else(|| oldest(second))
    }

    /// Copies used records of a segment to a main one, at most half of it: so its removal always makes room.
    fn rescue(&mut self, victim: &CacheSegment) -> Result<(), WriteRefusal> {
        // Without its file nothing can be rescued.
        let Ok((file, _)) = victim.open() else { return Ok(()) };
        let Ok(Some(loaded)) = segment::load(&file, victim.name.number) else { return Ok(()) };
        let (mut left, mut bytes) = (self.state.options.segment_bytes() / 2, Vec::new());
        for row in loaded.rows {
            let Some(heat) = self.heat(victim, &row) else { continue };
            if heat == 0 {
                if victim.name.kind == SegmentKind::Small {
                    self.ghosts.put(row.key, row.offset);
                }
                continue;
            }
            let Some(rest) = left.checked_sub(u64::from(row.len)) else { continue };
            let Some(head) = read_whole(&file, &victim.name, &row, &mut bytes) else { continue };
            if !self.fits(SegmentKind::Main, row.len) {
                self.seal(SegmentKind::Main)?;
                let taken = self.state.charged(&folder::list(&self.state.folder)?);
                if taken > self.state.options.bytes || !self.disk_has(self.state.options.segment_bytes()) {
                    return Ok(());
                }
                self.create(SegmentKind::Main)?;
            }
            let heat = if victim.name.kind == SegmentKind::Small { 0 } else { heat - 1 };
            self.append(SegmentKind::Main, &head, &bytes[HEAD..], heat)?;
            left = rest;
        }
        Ok(())
    }

    fn heat(&self, segment: &CacheSegment, row: &RecordRow) -> Option<u64> {
        let table = self.state.table();
        let same = |s: &Option<Arc<CacheSegment>>| s.as_ref().is_some_and(|s| s.name == segment.name);
        let slot = table.slots.iter().position(same)?;
        table.index.heat(&IndexEntry::new(row.key, row.offset, slot as u16, row.at, row.len))
    }
}

/// Reads a record whole, and checks it.
fn read_whole(file: &File, name: &SegmentName, row: &RecordRow, bytes: &mut Vec<u8>) -> Option<RecordHead> {
    bytes.resize(HEAD + row.len as usize, 0);
    file.read_exact_at(bytes, row.at).ok()?;
    let head = RecordHead::parse(name, bytes)?;
    let sound = head.key == row.key && head.offset == row.offset && head.len == row.len;
    (sound && crc32c::crc32c(&bytes[HEAD..]) == head.sum).then_some(head)
}

impl Drop for CacheWriter {
    fn drop(&mut self) {
        self.seal_all();
    }
}
