//! Network memory: blocks of files in the RAM of this machine, in front of a slower origin.
//!
//! *Theory.* A block is 4 KiB of one version of a file: a page of the system, so freed blocks return to it one by one,
//! nothing is fragmented, and reads that overlap in any way share their bytes. An origin is asked for runs of absent
//! blocks, which are the pages as clients ask for them, rounded by 2 KiB at either end on average. A version never
//! changes, so a block is never out of date. S3-FIFO chooses what goes: most pages of a run are read once.
//!
//! *Practice.* Parts of the cache have a lock, a policy and memory each. A block belongs to a part by the hash of its
//! 64 KiB, so a page takes one or two locks. The limit counts blocks and records of blocks. A block's checksum is
//! computed when it comes and compared whenever it goes out; a block that fails is dropped, and read again.
//!
//! | module | for |
//! |---|---|
//! | `part` | blocks under one lock |
//! | `memory` | memory of blocks, given back to the system |
//! | `pressure` | whether the host is short of memory, and how much the cache may have then |
//! | `watch` | the thread that looks at the host |

mod memory;
mod part;
mod pressure;
mod watch;

pub use pressure::HostMemory;
pub(super) use watch::MemoryWatch;

use part::{Block, CachePart};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a block.
pub(super) const BLOCK: usize = 4096;
/// Blocks that are in the same part: 64 KiB.
const GROUP_SHIFT: u32 = 4;
/// Bytes of a part, if there are so many, and most parts. Smaller parts would be filled unevenly.
const PART_BYTES: u64 = 32 << 20;
const MOST_PARTS: u64 = 64;

/// The digest of a file's address and version.
pub(super) type FileDigest = [u8; 16];

/// What the cache has and had.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryUse {
    /// Bytes of blocks with their records.
    pub(super) used: u64,
    /// Most of them that the host leaves now.
    pub(super) allowed: u64,
    /// Most of them.
    pub(super) limit: u64,
    /// Bytes of blocks that were given back because the host was short.
    pub(super) given_back: u64,
    /// Blocks whose checksum did not hold. Each was read again.
    pub(super) damaged: u64,
}

/// See the module.
pub(super) struct MemoryCache {
    parts: Box<[Mutex<CachePart>]>,
    limit: u64,
    given_back: AtomicU64,
    damaged: AtomicU64,
}

impl MemoryCache {
    /// A cache of at most `limit` bytes; 0: it keeps nothing.
    pub(super) fn new(limit: u64) -> Self {
        let count = if limit == 0 { 0 } else { (limit / PART_BYTES).clamp(1, MOST_PARTS) };
        let part = |_| Mutex::new(CachePart::new(limit / count));
        Self { parts: (0..count).map(part).collect(), limit, given_back: AtomicU64::new(0), damaged: AtomicU64::new(0) }
    }

    /// The part of a block, and the hash of the block.
    fn part(&self, file: &FileDigest, block: u64) -> Option<(MutexGuard<'_, CachePart>, u64)> {
        let group = Block::hash(file, block >> GROUP_SHIFT);
        let at = usize::try_from(group % (self.parts.len() as u64).max(1)).unwrap_or(0);
        let part = self.parts.get(at)?.lock().unwrap_or_else(PoisonError::into_inner);
        Some((part, Block::hash(file, block)))
    }

    /// Whether it has a block. Says nothing about its checksum.
    pub(super) fn contains(&self, file: &FileDigest, block: u64) -> bool {
        self.part(file, block).is_some_and(|(part, hash)| part.contains(hash, file, block))
    }

    /// Appends bytes of a file from `offset` on, at most `len`, up to the first block that is absent. Returns how many.
    pub(super) fn read(&self, file: &FileDigest, offset: u64, len: usize, out: &mut Vec<u8>) -> usize {
        let mut done = 0;
        let mut at = offset;
        while done < len {
            let group = (at / BLOCK as u64) >> GROUP_SHIFT;
            let Some((mut part, _)) = self.part(file, at / BLOCK as u64) else { break };
            // All blocks of the group under one lock.
            while done < len && (at / BLOCK as u64) >> GROUP_SHIFT == group {
                let (block, within) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
                let read = part.read(Block::hash(file, block), file, block, within, len - done, out);
                match read {
                    Ok(0) => return done,
                    Ok(n) => (done, at) = (done + n, at + n as u64),
                    Err(part::Damaged) => {
                        self.damaged.fetch_add(1, Relaxed);
                        return done;
                    }
                }
            }
        }
        done
    }

    /// Keeps bytes of a file, which begin at a block and end at one or with the file.
    pub(super) fn insert(&self, file: &FileDigest, first: u64, bytes: &[u8]) {
        for (block, bytes) in (first..).zip(bytes.chunks(BLOCK)) {
            let Some((mut part, hash)) = self.part(file, block) else { return };
            part.insert(hash, file, block, bytes);
        }
    }

    /// What it has and had.
    pub(super) fn usage(&self) -> MemoryUse {
        let mut sum = MemoryUse {
            limit: self.limit,
            given_back: self.given_back.load(Relaxed),
            damaged: self.damaged.load(Relaxed),
            ..MemoryUse::default()
        };
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            sum.used += part.used();
            sum.allowed += part.allowed();
        }
        sum
    }

    /// Allows so many bytes from now on. What is above is dropped, the least used first, and its memory is given back.
    pub(super) fn allow(&self, bytes: u64) {
        let count = self.parts.len() as u64;
        for part in &self.parts {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            self.given_back.fetch_add(part.allow(bytes / count), Relaxed);
        }
    }

    /// Flips a bit of each block.
    #[cfg(test)]
    pub(super) fn damage(&self) -> u64 {
        self.parts.iter().map(|part| part.lock().unwrap_or_else(PoisonError::into_inner).damage()).sum()
    }
}

#[cfg(test)]
mod tests;
