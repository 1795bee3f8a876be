//! Blocks under one lock: where they are, which go next.

use super::memory::BlockMemory;
use super::{FileDigest, BLOCK};
use pager::policy::{Need, Policy, Probe, S3Fifo};
use pager::{ArrayId, PageHash, PageId};
use std::cell::Cell;
use std::collections::HashMap;

/// Bytes of a record in the index: key, value and control byte at the least load of a table that has just grown.
const INDEX_BYTES: usize = 17 * 16 / 7;

/// A block in memory, or a free place for one.
pub(super) struct Block {
    file: FileDigest,
    number: u64,
    hash: u64,
    /// When it was used last, in blocks that came.
    stamp: Cell<u64>,
    crc: u32,
    /// Its bytes; fewer than a block at the end of a file. 0: it is free.
    len: u16,
    referenced: Cell<bool>,
}

impl Block {
    fn none() -> Self {
        let (stamp, referenced) = (Cell::new(0), Cell::new(false));
        Self { file: [0; 16], number: 0, hash: 0, stamp, crc: 0, len: 0, referenced }
    }

    /// The hash of a block. Digests of files are evenly spread already.
    pub(super) fn hash(file: &FileDigest, number: u64) -> u64 {
        let (words, _) = file.as_chunks::<8>();
        let mixed = u64::from_le_bytes(words[0]) ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^ (mixed >> 32)
    }

    fn is(&self, file: &FileDigest, number: u64) -> bool {
        self.len > 0 && self.number == number && self.file == *file
    }
}

/// The blocks as the policy sees them.
#[derive(Default)]
struct Blocks {
    blocks: Vec<Block>,
    index: HashMap<u64, u32, PageHash>,
    /// Blocks that came.
    came: u64,
}

impl Blocks {
    fn find(&self, hash: u64, file: &FileDigest, number: u64) -> Option<u32> {
        let place = *self.index.get(&hash)?;
        self.blocks.get(place as usize)?.is(file, number).then_some(place)
    }

    fn free(&mut self, place: u32) {
        if let Some(block) = self.blocks.get_mut(place as usize) {
            self.index.remove(&block.hash);
            *block = Block::none();
        }
    }
}

impl Probe for Blocks {
    fn referenced(&self, place: u32) -> bool {
        self.blocks[place as usize].referenced.get()
    }
    fn forget(&self, place: u32) {
        self.blocks[place as usize].referenced.set(false);
    }
    fn stamp(&self, place: u32) -> u64 {
        self.blocks[place as usize].stamp.get()
    }
    fn now(&self) -> u64 {
        self.came
    }
    fn take(&mut self, place: u32) -> bool {
        self.free(place);
        true
    }
}

/// The checksum of a block does not hold. The block is gone.
pub(super) struct Damaged;

/// Invariants:
/// 1. Each place below `blocks.len()` is either in the index and in the policy, or in `unused`.
/// 2. At most `allowed` places are in the index, after each call.
pub(super) struct CachePart {
    memory: BlockMemory,
    blocks: Blocks,
    policy: S3Fifo,
    unused: Vec<u32>,
    allowed: usize,
    most: usize,
    /// Bytes of a block and its records.
    cost: usize,
}

impl CachePart {
    /// At most `limit` bytes.
    pub(super) fn new(limit: u64) -> Self {
        let policy = S3Fifo::default();
        let cost = BLOCK + policy.bytes_per_frame() + 2 * size_of::<Block>() + INDEX_BYTES + 2 * size_of::<u32>();
        let most = usize::try_from(limit).unwrap_or(usize::MAX) / cost;
        let most = most.min(u32::MAX as usize - 1);
        // Without addresses it is a cache of nothing: every read goes to the origin.
        let (memory, most) = match BlockMemory::reserve(most) {
            Ok(memory) => (memory, most),
            Err(_) => (BlockMemory::none(), 0),
        };
        Self { memory, blocks: Blocks::default(), policy, unused: Vec::new(), allowed: most, most, cost }
    }

    fn count(&self) -> usize {
        self.blocks.index.len()
    }

    /// Bytes of blocks and their records.
    pub(super) fn used(&self) -> u64 {
        (self.count() * self.cost) as u64
    }

    /// Most of them now.
    pub(super) fn allowed(&self) -> u64 {
        (self.allowed * self.cost) as u64
    }

    pub(super) fn contains(&self, hash: u64, file: &FileDigest, number: u64) -> bool {
        self.blocks.find(hash, file, number).is_some()
    }

    /// Appends bytes of a block from `within` on, at most `most`. 0: it is not here.
    ///
    /// # Errors
    /// [`Damaged`].
    pub(super) fn read(
        &mut self,
        hash: u64,
        file: &FileDigest,
        number: u64,
        within: usize,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, Damaged> {
        let Some(place) = self.blocks.find(hash, file, number) else { return Ok(0) };
        let block = &self.blocks.blocks[place as usize];
        let bytes = &self.memory.block(place)[..block.len.into()];
        if crc32c::crc32c(bytes) != block.crc {
            self.drop(place);
            return Err(Damaged);
        }
        block.referenced.set(true);
        block.stamp.set(self.blocks.came);
        let part = bytes.get(within..).unwrap_or_default();
        let part = &part[..part.len().min(most)];
        out.extend_from_slice(part);
        Ok(part.len())
    }

    fn drop(&mut self, place: u32) {
        self.policy.removed(place);
        self.blocks.free(place);
        self.unused.push(place);
    }

    /// Keeps a block.
    pub(super) fn insert(&mut self, hash: u64, file: &FileDigest, number: u64, bytes: &[u8]) {
        if self.allowed == 0 || bytes.is_empty() || bytes.len() > BLOCK {
            return;
        }
        // A block of the same hash goes, whether it is this one or another.
        if let Some(place) = self.blocks.index.get(&hash).copied() {
            self.drop(place);
        }
        let Some(place) = self.place() else { return };
        self.memory.block_mut(place)[..bytes.len()].copy_from_slice(bytes);
        self.blocks.came += 1;
        self.blocks.blocks[place as usize] = Block {
            file: *file,
            number,
            hash,
            stamp: Cell::new(self.blocks.came),
            crc: crc32c::crc32c(bytes),
            len: bytes.len() as u16,
            referenced: Cell::new(true),
        };
        self.blocks.index.insert(hash, place);
        self.policy.inserted(place, PageId::new(ArrayId(0), 0, hash), self.blocks.came);
    }

    /// A free place: an unused one, a new one, or that of the block that goes.
    fn place(&mut self) -> Option<u32> {
        if self.count() >= self.allowed {
            return self.policy.victim(Need::Demand, &mut self.blocks);
        }
        if let Some(place) = self.unused.pop() {
            return Some(place);
        }
        let place = u32::try_from(self.blocks.blocks.len()).ok().filter(|place| (*place as usize) < self.most)?;
        self.blocks.blocks.push(Block::none());
        Some(place)
    }

    /// Allows so many bytes. Returns the bytes of blocks that were given back to the system.
    pub(super) fn allow(&mut self, bytes: u64) -> u64 {
        self.allowed = (usize::try_from(bytes).unwrap_or(usize::MAX) / self.cost).min(self.most);
        let mut gone = Vec::new();
        while self.count() > self.allowed {
            let Some(place) = self.policy.victim(Need::Demand, &mut self.blocks) else { break };
            gone.push(place);
        }
        if gone.is_empty() {
            return 0;
        }
        gone.sort_unstable();
        // One call for neighbours.
        for run in gone.chunk_by(|a, b| *a + 1 == *b) {
            self.memory.give_back(run[0], run.len());
        }
        let bytes = (gone.len() * BLOCK) as u64;
        // The lowest places first: what is left unused stays together.
        self.unused.extend(gone.into_iter().rev());
        bytes
    }

    #[cfg(test)]
    pub(super) fn damage(&mut self) -> u64 {
        let places: Vec<u32> = self.blocks.index.values().copied().collect();
        for place in &places {
            let len = usize::from(self.blocks.blocks[*place as usize].len);
            self.memory.block_mut(*place)[len / 2] ^= 4;
        }
        places.len() as u64
    }
}
