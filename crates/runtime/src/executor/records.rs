//! Memory of packed tasks: records of one size.
//!
//! Records lie in chunks, so that the allocator keeps nothing between them. A chunk is charged whole.

use pager::{Charge, ChargeKind, Pager};
use std::collections::BTreeSet;

/// Bytes of a chunk: there are few charges, and little of the last chunk is unused.
const CHUNK: usize = 256 << 10;

/// Bytes charged with a record beside it, for a place in a crowd. An entry takes 32, and up to four times that in a
/// crowd that many tasks have left. A task alone in its crowd takes 48, and its place in the map of crowds 42 to 74.
pub const OF_RECORD: usize = 128;

pub(crate) type Chunk = (Box<[u8]>, Charge);

pub(crate) struct Records {
    /// Bytes of a record.
    size: usize,
    /// `None`: given back, and no record of it is free or in use.
    chunks: Vec<Option<Chunk>>,
    /// 1. A record is free, or a thread has it, or it has a waiting task.
    free: Vec<u32>,
    /// Charges of tasks that were packed or are done, for threads that need more than they keep.
    kept: Charge,
}

impl Records {
    pub(crate) fn new(size: usize, pager: &Pager) -> Self {
        Self { size, chunks: Vec::new(), free: Vec::new(), kept: pager.no_charge(ChargeKind::Tasks) }
    }

    pub(crate) fn kept(&mut self) -> &mut Charge {
        &mut self.kept
    }

    /// Bytes of a record.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Bytes of a chunk; 0 if tasks are never packed.
    fn of_chunk(&self) -> usize {
        CHUNK.checked_div(self.size).map_or(0, |records| records.max(1) * self.size)
    }

    pub(crate) fn chunk_charge(&self) -> usize {
        self.of_chunk() + self.of_chunk().checked_div(self.size).unwrap_or(0) * OF_RECORD
    }

    /// Adds the records of a charged chunk.
    pub(crate) fn add(&mut self, charge: Charge) {
        let bytes = self.of_chunk();
        let at = self.chunks.iter().position(Option::is_none).unwrap_or(self.chunks.len());
        let (first, more) = (at * bytes / self.size, bytes / self.size);
        if at == self.chunks.len() {
            self.chunks.push(None);
        }
        self.chunks[at] = Some((vec![0; bytes].into_boxed_slice(), charge));
        // The first records are used first, so that as few as possible are touched.
        self.free.extend((first..first + more).rev().map(|n| n as u32));
    }

    fn at(&self, record: u32) -> (usize, usize) {
        let in_chunk = self.of_chunk() / self.size;
        (record as usize / in_chunk, record as usize % in_chunk * self.size)
    }

    pub(crate) fn get(&self, record: u32) -> &[u8] {
        let (chunk, from) = self.at(record);
        let (bytes, _) = self.chunks[chunk].as_ref().expect(IN_USE);
        &bytes[from..from + self.size]
    }

    pub(crate) fn set(&mut self, record: u32, to: &[u8]) {
        let ((chunk, from), size) = (self.at(record), self.size);
        let (bytes, _) = self.chunks[chunk].as_mut().expect(IN_USE);
        bytes[from..from + size].copy_from_slice(to);
    }

    pub(crate) fn take(&mut self, most: usize, to: &mut Vec<u32>) {
        let left = self.free.len().saturating_sub(most);
        to.extend(self.free.drain(left..));
    }

    pub(crate) fn put_back(&mut self, record: u32) {
        self.free.push(record);
    }

    /// Moves tasks to the first records, and takes out empty chunks. The caller frees them without the lock. `tasks`
    /// are all that wait in a record; records that a thread has stay at their places.
    pub(crate) fn gather<'a>(&mut self, tasks: impl Iterator<Item = &'a mut u32>) -> Vec<Chunk> {
        // Less than a chunk is never given back.
        if self.size == 0 || self.free.len() < self.of_chunk() / self.size {
            return Vec::new();
        }
        let mut free: BTreeSet<u32> = self.free.drain(..).collect();
        let mut tasks: Vec<&mut u32> = tasks.collect();
        tasks.sort_unstable_by_key(|record| core::cmp::Reverse(**record));
        for record in tasks {
            let Some(first) = free.pop_first() else { break };
            if first > *record {
                free.insert(first);
                break;
            }
            let bytes = self.get(*record).to_vec();
            self.set(first, &bytes);
            free.insert(core::mem::replace(record, first));
        }
        let in_chunk = self.of_chunk() / self.size;
        let mut gone = Vec::new();
        for (n, chunk) in self.chunks.iter_mut().enumerate() {
            let records = (n * in_chunk) as u32..((n + 1) * in_chunk) as u32;
            if chunk.is_some() && free.range(records.clone()).count() == in_chunk {
                records.for_each(|record| {
                    free.remove(&record);
                });
                gone.extend(chunk.take());
            }
        }
        self.free.extend(free.into_iter().rev());
        gone
    }
}

const IN_USE: &str = "a record in use has its memory";

#[cfg(test)]
mod tests {
    use super::*;
    use pager::PagerConfig;

    #[test]
    fn records_keep_what_they_are_given_and_chunks_are_charged() {
        let pager = Pager::new(PagerConfig { limit: 4 << 20, ..PagerConfig::default() }).unwrap();
        let mut records = Records::new(1000, &pager);
        assert_eq!(records.of_chunk(), CHUNK / 1000 * 1000);
        let before = pager.ledger().of(ChargeKind::Tasks);
        for _ in 0..2 {
            records.add(pager.charge(ChargeKind::Tasks, records.chunk_charge() as u64).unwrap());
        }
        assert_eq!(pager.ledger().of(ChargeKind::Tasks) - before, 2 * records.chunk_charge() as u64);
        let mut all = core::mem::take(&mut records.free);
        assert_eq!(all.len(), 2 * (CHUNK / 1000));
        for record in &all {
            records.set(*record, &[*record as u8; 1000]);
        }
        for record in &all {
            assert!(records.get(*record).iter().all(|b| *b == *record as u8), "record {record}");
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2 * (CHUNK / 1000), "no record is there twice");
        // Half of the tasks go, those in every other record: the others fit into the first chunk.
        let mut live: Vec<u32> = all.iter().copied().filter(|n| n % 2 == 1).collect();
        let what: Vec<u8> = live.iter().map(|n| *n as u8).collect();
        records.free = all.into_iter().filter(|n| n % 2 == 0).collect();
        let gone = records.gather(live.iter_mut());
        assert_eq!((gone.len(), records.chunks.iter().flatten().count()), (1, 1));
        for (record, byte) in live.iter().zip(what) {
            assert!(records.get(*record).iter().all(|b| *b == byte), "record {record}");
        }
        drop(gone);
        assert_eq!(pager.ledger().of(ChargeKind::Tasks) - before, records.chunk_charge() as u64);
        // A record that a thread has keeps its own chunk alone.
        records.free.clear();
        assert!(records.gather(core::iter::empty()).is_empty());
        records.add(pager.charge(ChargeKind::Tasks, records.chunk_charge() as u64).unwrap());
        assert_eq!(records.chunks.iter().flatten().count(), 2, "where the other was");
        assert_eq!(records.gather(core::iter::empty()).len(), 1);
        drop(records);
        assert_eq!(pager.ledger().of(ChargeKind::Tasks), before);
    }
}
