//! Segments: one file each, which one process writes and all read.

use super::folder::{self, LockedFile};
use super::format::{self, RecordHead, RecordRow, SegmentName, HEAD, HEADER, ROW, SEGMENT, TRAILER};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The end of a segment that is read at first: the index of 2,000 records.
const TAIL: usize = 64 << 10;
/// Rows of a growing segment: 1 MiB.
const MOST_ROWS: usize = 32 << 10;

/// A segment as readers see it.
///
/// Invariants:
/// 1. `file` is open for reading, or closed to spare descriptors. An open one is readable also after its removal.
pub(super) struct CacheSegment {
    pub name: SegmentName,
    folder: Arc<Path>,
    /// Whether this process still writes it.
    pub growing: AtomicBool,
    file: Mutex<Option<Arc<File>>>,
    /// When it was read last, in reads.
    pub used: AtomicU64,
}

impl CacheSegment {
    pub fn new(folder: &Arc<Path>, name: SegmentName, growing: bool) -> Arc<Self> {
        let (growing, used) = (AtomicBool::new(growing), AtomicU64::new(0));
        Arc::new(Self { name, folder: folder.clone(), growing, file: Mutex::new(None), used })
    }

    /// Its file, and whether it was opened now.
    ///
    /// # Errors
    /// `NotFound` if another process removed it.
    pub fn open(&self) -> io::Result<(Arc<File>, bool)> {
        let mut slot = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*slot {
            return Ok((file.clone(), false));
        }
        let by = |sealed| {
            let name = format::file_name(self.name.number, sealed);
            folder::open(&self.folder, &name, OpenOptions::new().read(true))
        };
        // It may be sealed after the first try.
        let file = Arc::new(by(true).or_else(|_| by(false)).or_else(|_| by(true))?);
        *slot = Some(file.clone());
        Ok((file, true))
    }

    /// Closes its file, if no reader is about to use it. Returns whether there was one.
    pub fn close(&self) -> bool {
        self.file.try_lock().is_ok_and(|mut file| file.take().is_some())
    }
}

/// A segment of the folder, as its file says.
pub(super) struct LoadedSegment {
    pub name: SegmentName,
    pub rows: Vec<RecordRow>,
    /// Where its records end.
    pub end: u64,
}

/// Reads what a segment has. `None`: the file is not ours.
pub(super) fn load(file: &File, number: u64) -> io::Result<Option<LoadedSegment>> {
    let size = file.metadata()?.len();
    let mut head = vec![0; HEADER.min(size as usize)];
    file.read_exact_at(&mut head, 0)?;
    let mut tail = vec![0; TAIL.min(size.saturating_sub(head.len() as u64) as usize)];
    let begin = size - tail.len() as u64;
    file.read_exact_at(&mut tail, begin)?;
    let trailer = tail.len().checked_sub(TRAILER).and_then(|at| SegmentName::from_trailer(&tail[at..]));
    let trailer = trailer.filter(|(name, ..)| name.number == number);
    let header = SegmentName::from_header(&head).filter(|name| name.number == number);
    let Some(name) = header.or(trailer.map(|(name, ..)| name)) else { return Ok(None) };
    if let Some((_, rows, sum)) = trailer {
        let (bytes, end) = (rows * ROW, size - TRAILER as u64);
        if let Some(begin) = end.checked_sub(bytes as u64).filter(|begin| *begin >= HEADER as u64) {
            let mut index = vec![0; bytes];
            match tail.len().checked_sub(TRAILER + bytes) {
                Some(at) => index.copy_from_slice(&tail[at..at + bytes]),
                None => file.read_exact_at(&mut index, begin)?,
            }
            if name.sum(&index) == sum {
                let rows = index.chunks(ROW).filter_map(|row| RecordRow::parse(row, begin.min(SEGMENT))).collect();
                return Ok(Some(LoadedSegment { name, rows, end: begin }));
            }
        }
    }
    let (rows, end) = scan(file, &name, size.min(SEGMENT))?;
    Ok(Some(LoadedSegment { name, rows, end }))
}

/// Goes from head to head, up to the first that is not sound.
fn scan(file: &File, name: &SegmentName, size: u64) -> io::Result<(Vec<RecordRow>, u64)> {
    let (mut rows, mut at) = (Vec::new(), HEADER as u64);
    let mut head = [0; HEAD];
    while at + HEAD as u64 <= size {
        file.read_exact_at(&mut head, at)?;
        let Some(RecordHead { key, offset, len, .. }) = RecordHead::parse(name, &head) else { break };
        if at + HEAD as u64 + u64::from(len) > size {
            break;
        }
        rows.push(RecordRow { key, offset, at, len });
        at += format::span(len);
    }
    // The place for the next record, which may lie some bytes behind the end of the file.
    Ok((rows, at))
}

/// Writes the index of a segment at its end, and names it as sealed. On a full disk it has no index: its records are
/// found by their heads then.
fn finish(folder: &Path, file: &File, name: &SegmentName, rows: &[u8], end: u64) -> io::Result<()> {
    let mut all = rows.to_vec();
    all.extend(name.trailer(rows));
    file.set_len(end)?;
    if file.write_all_at(&all, end).is_err() {
        file.set_len(end)?;
    }
    std::fs::rename(
        folder.join(format::file_name(name.number, false)),
        folder.join(format::file_name(name.number, true)),
    )
}

/// Seals a segment whose process has ended. Called under the lock of the folder. Returns whether there was one. A file
/// that another process writes, or that is not ours, stays as it is.
pub(super) fn adopt(folder: &Path, number: u64) -> io::Result<bool> {
    let open = format::file_name(number, false);
    let file = folder::open(folder, &open, OpenOptions::new().read(true).write(true))?;
    let Ok(file) = LockedFile::take(file) else { return Ok(false) };
    let Some(loaded) = load(&file, number)? else {
        let mut bytes = vec![0; (file.metadata()?.len() as usize).min(HEADER)];
        file.read_exact_at(&mut bytes, 0)?;
        if SegmentName::begins_header(number, &bytes) {
            std::fs::remove_file(folder.join(open))?;
        }
        return Ok(false);
    };
    let mut rows = Vec::with_capacity(loaded.rows.len() * ROW);
    loaded.rows.iter().for_each(|row| row.put(&mut rows));
    finish(folder, &file, &loaded.name, &rows, loaded.end)?;
    Ok(true)
}

/// A segment that this process writes.
///
/// Invariants:
/// 1. The file is locked until it is sealed. Records end at `at`; a failed write leaves it there.
pub(super) struct GrowingSegment {
    pub segment: Arc<CacheSegment>,
    pub slot: u16,
    file: LockedFile,
    at: u64,
    rows: Vec<u8>,
    most: u64,
}

impl GrowingSegment {
    /// Creates the file. Called under the lock of the folder.
    pub fn create(folder: &Arc<Path>, name: SegmentName, most: u64) -> io::Result<Self> {
        let path = format::file_name(name.number, false);
        let file = folder::open(folder, &path, OpenOptions::new().read(true).write(true).create_new(true))?;
        let made = LockedFile::take(file).map_err(|(_, e)| e).and_then(|file| {
            file.write_all_at(&name.header(), 0)?;
            Ok(file)
        });
        let file = match made {
            Ok(file) => file,
            Err(e) => {
                let _gone = folder::remove(folder, &name, false);
                return Err(e);
            }
        };
        let segment = CacheSegment::new(folder, name, true);
        Ok(Self { segment, slot: 0, file, at: HEADER as u64, rows: Vec::new(), most })
    }

    /// Goes on with a sealed segment. Called under the lock of the folder. `None`: the file is not ours, or locked.
    pub fn resume(folder: &Path, segment: Arc<CacheSegment>, slot: u16, most: u64) -> io::Result<Option<Self>> {
        let [sealed, open] = [true, false].map(|sealed| format::file_name(segment.name.number, sealed));
        let file = folder::open(folder, &sealed, OpenOptions::new().read(true).write(true))?;
        let Ok(file) = LockedFile::take(file) else { return Ok(None) };
        let loaded = load(&file, segment.name.number)?.filter(|l| l.name == segment.name);
        let Some(loaded) = loaded.filter(|l| l.rows.len() < MOST_ROWS / 2) else { return Ok(None) };
        let mut rows = Vec::with_capacity(loaded.rows.len() * ROW);
        loaded.rows.iter().for_each(|row| row.put(&mut rows));
        std::fs::rename(folder.join(sealed), folder.join(open))?;
        let at = format::padded(loaded.end);
        // The trailer goes, which also says whose the file is.
        file.write_all_at(&segment.name.header(), 0)?;
        file.set_len(at)?;
        segment.growing.store(true, Relaxed);
        Ok(Some(Self { segment, slot, file, at, rows, most }))
    }

    /// Whether a record of that length has room.
    pub fn fits(&self, len: u32) -> bool {
        let index = (self.rows.len() + ROW + TRAILER) as u64;
        self.rows.len() < MOST_ROWS * ROW && self.at + format::span(len) + index <= self.most
    }

    /// Appends a record. Returns its place.
    ///
    /// # Errors
    /// Those of the system. The record is not there then.
    pub fn append(&mut self, head: &RecordHead, bytes: &[u8]) -> io::Result<u64> {
        let at = self.at;
        self.file.write_all_at(&head.bytes(&self.segment.name), at)?;
        self.file.write_all_at(bytes, at + HEAD as u64)?;
        RecordRow { key: head.key, offset: head.offset, at, len: head.len }.put(&mut self.rows);
        self.at += format::span(head.len);
        Ok(at)
    }

    /// Ends it. An empty one is removed.
    pub fn seal(self, folder: &Path) -> io::Result<()> {
        let sealed = match self.rows.is_empty() {
            // A user may have removed it.
            _ if folder::is_removed(&self.file) => Ok(()),
            true => folder::remove(folder, &self.segment.name, false),
            false => finish(folder, &self.file, &self.segment.name, &self.rows, self.at),
        };
        self.segment.growing.store(false, Relaxed);
        sealed
    }
}
