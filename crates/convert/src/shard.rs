//! Writes one shard: space for the index and the checksum of its name, the pages in order, then the content of that
//! space.

use super::disk::Disk;
use field::error::FieldError;
use field::store::codec::CRC_BYTES;
use field::store::layout::{name_checksum, ShardGrid, ABSENT, ENTRY_BYTES, NAME_BYTES};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Bytes after which the system is asked to start writing.
const PUSH_BYTES: u64 = 8 << 20;

/// An unfinished shard. Pages come in the order of their slots.
pub(super) struct ShardWriter {
    path: PathBuf,
    file: File,
    shard: u64,
    slots: usize,
    /// Next byte, next slot, and the end of the range that the system was asked to write.
    at: u64,
    slot: usize,
    pushed: u64,
    index: Vec<u8>,
    name: [u8; NAME_BYTES],
    seal: u32,
}

impl ShardWriter {
    /// Creates the file `name` below the root of a store.
    pub fn new(disk: &Disk, root: &Path, name: &str, grid: &ShardGrid, shard: u64) -> Result<Self, FieldError> {
        let path = root.join(name);
        let file = disk.create(&path)?;
        let at = grid.head_bytes() as u64;
        let (index, name) = (Vec::with_capacity(grid.head_bytes()), name_checksum(name));
        Ok(Self { path, file, shard, slots: grid.slots(), at, slot: 0, pushed: at, index, name, seal: 0 })
    }

    fn entry(&mut self, offset: u64, len: u64) {
        self.index.extend_from_slice(&offset.to_le_bytes());
        self.index.extend_from_slice(&len.to_le_bytes());
        self.slot += 1;
    }

    /// Appends encoded pages of the lengths `lens`.
    pub fn append(&mut self, disk: &Disk, grid: &ShardGrid, bytes: &[u8], lens: &[u32]) -> Result<(), FieldError> {
        disk.write_at(&self.file, &self.path, bytes, self.at)?;
        let mut end = 0;
        for &len in lens {
            end += len as usize;
            let crc = end.checked_sub(CRC_BYTES).and_then(|from| bytes.get(from..end)).unwrap_or_default();
            self.seal = crc32c::crc32c_append(self.seal, crc);
            self.skip(grid);
            self.entry(self.at, u64::from(len));
            self.at += u64::from(len);
        }
        if self.at - self.pushed >= PUSH_BYTES {
            disk.push(&self.file, self.pushed, self.at - self.pushed);
            self.pushed = self.at;
        }
        Ok(())
    }

    /// Skips slots beyond the zone's end.
    fn skip(&mut self, grid: &ShardGrid) {
        while self.slot < self.slots && grid.page_at(self.shard, self.slot).is_none() {
            self.entry(ABSENT, ABSENT);
        }
    }

    /// Writes the index. Returns the file, its path and length, and the index's checksum.
    pub fn finish(mut self, disk: &Disk, grid: &ShardGrid) -> Result<WrittenShard, FieldError> {
        self.skip(grid);
        if self.index.len() != self.slots * ENTRY_BYTES {
            return Err(FieldError::format(self.path, format!("{} of {} pages were written", self.slot, self.slots)));
        }
        let index_crc = crc32c::crc32c(&self.index);
        self.index.extend_from_slice(&index_crc.to_le_bytes());
        self.index.extend_from_slice(&self.name);
        disk.write_at(&self.file, &self.path, &self.index, 0)?;
        let seal = crc32c::crc32c_append(self.seal, &index_crc.to_le_bytes());
        Ok(WrittenShard { file: self.file, path: self.path, bytes: self.at, index_crc, seal })
    }
}

/// A written shard before its sync.
pub(super) struct WrittenShard {
    pub file: File,
    pub path: PathBuf,
    pub bytes: u64,
    pub index_crc: u32,
    /// Checksum of the pages' checksums, in the order of their slots, and the index's.
    pub seal: u32,
}
