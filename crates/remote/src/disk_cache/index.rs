//! The places of records in memory: a sorted list in chunks.
//!
//! *Theory.* A range is found by the order of offsets, so entries are sorted by file, version and offset. Entries of 24
//! bytes in chunks that grow in small steps take less than a tree's nodes, and their bytes are known exactly.
//!
//! *Practice.* A digest is cut to 64 bits: 40 of the file, 24 of its version. Records of one file are neighbours
//! whatever their version, so it is cheap to ask whether there is any. A record's head has the whole digest, and each
//! read checks it.

use super::format::{FileKey, LONGEST};

/// Entries of a full chunk.
const CHUNK: usize = 512;
/// Entries of a chunk that is loaded, which leaves room for some more.
const LOADED: usize = 448;
/// Entries by which a chunk grows.
const STEP: usize = 64;
/// Bits of a version in a key.
const VERSION_BITS: u32 = 24;
/// Hits that are counted.
const MOST_HEAT: u64 = 3;
/// Entries before an offset that may reach beyond it: those of one read in small pieces.
const BACK: usize = 64;

/// Invariants:
/// 1. `place` is slot (16 bits), place in the segment / 8 (23 bits), length (21 bits), hits (2 bits), from the top.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    key: u64,
    pub offset: u64,
    place: u64,
}

fn cut(key: FileKey) -> u64 {
    key.file >> VERSION_BITS << VERSION_BITS | key.version >> (64 - VERSION_BITS)
}

impl IndexEntry {
    pub fn new(key: FileKey, offset: u64, slot: u16, at: u64, len: u32) -> Self {
        let place = u64::from(slot) << 46 | (at / 8) << 23 | u64::from(len) << 2;
        Self { key: cut(key), offset, place }
    }

    /// Whether it may be of that file and version.
    pub fn is_of(&self, key: FileKey) -> bool {
        self.key == cut(key)
    }

    pub fn slot(&self) -> u16 {
        (self.place >> 46) as u16
    }

    /// Place in the segment.
    pub fn at(&self) -> u64 {
        (self.place >> 23 & 0x7F_FFFF) * 8
    }

    pub fn len(&self) -> u32 {
        (self.place >> 2 & 0x1F_FFFF) as u32
    }

    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len())
    }

    pub fn heat(&self) -> u64 {
        self.place & MOST_HEAT
    }

    fn order(&self) -> (u64, u64) {
        (self.key, self.offset)
    }

    /// Whether both are the same record, whatever its hits.
    fn is(&self, other: &Self) -> bool {
        self.order() == other.order() && self.place >> 2 == other.place >> 2
    }
}

/// See the module.
///
/// Invariants:
/// 1. No chunk is empty; entries are in order in each chunk and over all of them.
/// 2. There is at most one entry for a key and an offset.
#[derive(Default)]
pub(super) struct CacheIndex {
    chunks: Vec<Vec<IndexEntry>>,
    len: usize,
}

impl CacheIndex {
    /// Of two records with the same key and offset, the longer one stays.
    pub fn load(mut entries: Vec<IndexEntry>) -> Self {
        entries.sort_by_key(|e| (e.key, e.offset, e.len()));
        entries.reverse();
        entries.dedup_by_key(|e| e.order());
        entries.reverse();
        let chunks: Vec<Vec<IndexEntry>> = entries.chunks(LOADED).map(<[IndexEntry]>::to_vec).collect();
        Self { chunks, len: entries.len() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> u64 {
        let entries: usize = self.chunks.iter().map(Vec::capacity).sum();
        (entries * size_of::<IndexEntry>() + self.chunks.capacity() * size_of::<Vec<IndexEntry>>()) as u64
    }

    /// The chunk and the place in it of the first entry that is not before this order.
    fn find(&self, order: (u64, u64)) -> (usize, usize) {
        let chunk = self.chunks.partition_point(|c| c.last().is_some_and(|e| e.order() < order));
        let at = self.chunks.get(chunk).map_or(0, |c| c.partition_point(|e| e.order() < order));
        (chunk, at)
    }

    fn get(&self, (chunk, at): (usize, usize)) -> Option<&IndexEntry> {
        self.chunks.get(chunk)?.get(at)
    }

    fn before(&self, (chunk, at): (usize, usize)) -> Option<(usize, usize)> {
        match at {
            0 => chunk.checked_sub(1).map(|chunk| (chunk, self.chunks[chunk].len() - 1)),
            at => Some((chunk, at - 1)),
        }
    }

    /// Adds a record. Returns false, and changes nothing, if there is a longer one at its place.
    pub fn insert(&mut self, entry: IndexEntry) -> bool {
        let (mut chunk, mut at) = self.find(entry.order());
        if let Some(known) =
            self.chunks.get_mut(chunk).and_then(|c| c.get_mut(at)).filter(|e| e.order() == entry.order())
        {
            let longer = known.len() > entry.len();
            if !longer {
                *known = entry;
            }
            return !longer;
        }
        if chunk == self.chunks.len() {
            // After the last: fill the last chunk, which leaves no half-filled ones behind.
            match self.chunks.last() {
                Some(last) if last.len() < CHUNK => (chunk, at) = (chunk - 1, last.len()),
                _ => self.chunks.push(Vec::new()),
            }
        } else if self.chunks[chunk].len() == CHUNK {
            let mut rest = Vec::with_capacity(CHUNK / 2 + STEP);
            rest.extend(self.chunks[chunk].drain(CHUNK / 2..));
            self.chunks[chunk].shrink_to(CHUNK / 2 + STEP);
            self.chunks.insert(chunk + 1, rest);
            if at > CHUNK / 2 {
                (chunk, at) = (chunk + 1, at - CHUNK / 2);
            }
        }
        let entries = &mut self.chunks[chunk];
        if entries.len() == entries.capacity() {
            entries.reserve_exact(STEP);
        }
        entries.insert(at, entry);
        self.len += 1;
        true
    }

    /// Forgets a record, if it is still there.
    pub fn remove(&mut self, entry: &IndexEntry) {
        let at = self.find(entry.order());
        if self.get(at).is_some_and(|e| e.is(entry)) {
            self.chunks[at.0].remove(at.1);
            self.len -= 1;
            if self.chunks[at.0].is_empty() {
                self.chunks.remove(at.0);
            }
        }
    }

    /// Forgets a segment.
    pub fn remove_slot(&mut self, slot: u16) {
        for chunk in &mut self.chunks {
            chunk.retain(|e| e.slot() != slot);
            chunk.shrink_to(chunk.len() + STEP);
        }
        self.chunks.retain(|c| !c.is_empty());
        self.len = self.chunks.iter().map(Vec::len).sum();
    }

    /// The hits of a record, if it is still there.
    pub fn heat(&self, entry: &IndexEntry) -> Option<u64> {
        self.get(self.find(entry.order())).filter(|e| e.is(entry)).map(IndexEntry::heat)
    }

    /// Sets the hits of a record.
    pub fn set_heat(&mut self, entry: &IndexEntry, heat: u64) {
        let (chunk, at) = self.find(entry.order());
        if let Some(known) = self.chunks.get_mut(chunk).and_then(|c| c.get_mut(at)).filter(|e| e.is(entry)) {
            known.place = known.place & !MOST_HEAT | heat.min(MOST_HEAT);
        }
    }

    /// Whether there is a record of that file, of any version.
    pub fn any(&self, file: u64) -> bool {
        let first = file >> VERSION_BITS << VERSION_BITS;
        self.get(self.find((first, 0))).is_some_and(|e| e.key >> VERSION_BITS == file >> VERSION_BITS)
    }

    /// All records of a file, of any version; at most `most`.
    pub fn of_file(&self, file: u64, most: usize) -> Vec<IndexEntry> {
        let (chunk, at) = self.find((file >> VERSION_BITS << VERSION_BITS, 0));
        let here = self.chunks.get(chunk).map_or(&[][..], |c| &c[at..]);
        let after = self.chunks.iter().skip(chunk + 1).flatten();
        let same = |e: &&IndexEntry| e.key >> VERSION_BITS == file >> VERSION_BITS;
        here.iter().chain(after).take_while(same).take(most).copied().collect()
    }

    /// The records that together have the bytes from `offset` to `end`, each counted as hit; at most `most`.
    pub fn cover(&mut self, key: FileKey, offset: u64, end: u64, most: usize) -> Option<Vec<IndexEntry>> {
        let (key, mut found, mut at) = (cut(key), Vec::new(), offset);
        while at < end {
            let (place, entry) = self.reaching(key, at, end)?;
            if found.len() == most {
                return None;
            }
            at = entry.end();
            found.push((place, entry));
        }
        let hit = |((chunk, at), entry): ((usize, usize), IndexEntry)| {
            let place = &mut self.chunks[chunk][at].place;
            *place = *place & !MOST_HEAT | (*place & MOST_HEAT).saturating_add(1).min(MOST_HEAT);
            entry
        };
        Some(found.into_iter().map(hit).collect())
    }

    /// The record with byte `at` that reaches farthest; one that reaches `end` is enough.
    fn reaching(&self, key: u64, at: u64, end: u64) -> Option<((usize, usize), IndexEntry)> {
        let mut place = self.find((key, at.saturating_add(1)));
        let mut best: Option<((usize, usize), IndexEntry)> = None;
        for _ in 0..BACK {
            let Some(before) = self.before(place) else { break };
            place = before;
            let entry = self.chunks[place.0][place.1];
            if entry.key != key || entry.offset.saturating_add(LONGEST as u64) <= at {
                break;
            }
            if entry.end() > best.map_or(at, |(_, best)| best.end()) {
                best = Some((place, entry));
            }
            if entry.end() >= end {
                break;
            }
        }
        best
    }
}
