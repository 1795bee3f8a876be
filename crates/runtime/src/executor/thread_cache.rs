//! Records, charges and bytes of packed tasks that a thread keeps for its next tasks. So threads need not meet for each
//! task.
//!
//! A packed task's charge is kept for the next unpacked task. The allocator keeps the memory, too, and a new charge
//! would come on top (of 6,000 tasks at 10 MiB up to 1.3 MiB).

use super::records::Records;
use super::scheduler::{Packed, WaitingTask};
use field::simd::{prefetch, CACHE_LINE};
use pager::{Charge, ChargeKind, Pager};
use std::collections::VecDeque;

/// Most tasks of a run through time that a thread takes and hands back together. They are neighbours, and shared data
/// are touched once for all of them. One by one, 10,000 particles in 200 windows took two threads 12.0 s of processor
/// time. One thread alone took 7.8 s.
pub(crate) const TOGETHER: usize = 32;

/// Bytes of charges that a thread keeps.
const KEPT: u64 = 64 << 10;

pub(crate) struct ThreadCache {
    /// Records without a task.
    spare: Vec<u32>,
    /// Charges of tasks that were packed or are done: up to a bound, and those added since records were last needed.
    kept: Charge,
    /// Empty charges. To make one and to drop it changes four shared counts. That took 0.2 s of processor time in a run
    /// of two million particles that are packed and unpacked.
    empty: Vec<Charge>,
    /// Bytes of packed tasks that are not handed back yet, one after the other.
    put: Vec<u8>,
    /// Bytes of the records of the tasks taken last.
    taken: Vec<u8>,
    size: usize,
    /// The window in which memory for more records was refused, and the number of tasks dropped until then. It is not
    /// requested again until another window begins or tasks are dropped.
    refused: Option<(u32, u64)>,
}

impl ThreadCache {
    pub(crate) fn new(pager: &Pager) -> Self {
        let kept = pager.no_charge(ChargeKind::Tasks);
        Self { spare: Vec::new(), kept, empty: Vec::new(), put: Vec::new(), taken: Vec::new(), size: 0, refused: None }
    }

    /// Copies the records of taken tasks; none are left from before. They were written a window ago at any place. So
    /// all are prefetched into the cache before the first is copied.
    pub(crate) fn take<T>(
        &mut self,
        first: &mut WaitingTask<T>,
        more: &mut VecDeque<WaitingTask<T>>,
        records: &mut Records,
    ) {
        self.size = records.size();
        self.taken.clear();
        for record in core::iter::once(&*first).chain(&*more).filter_map(WaitingTask::record) {
            let bytes = records.get(record);
            (0..bytes.len()).step_by(CACHE_LINE).for_each(|at| prefetch(&raw const bytes[at]));
        }
        for waiting in core::iter::once(first).chain(more) {
            if let WaitingTask::Packed(packed) = waiting {
                packed.from = self.taken.len();
                self.taken.extend_from_slice(records.get(packed.record));
            }
        }
        let less = KEPT.saturating_sub(self.kept.bytes());
        self.kept.take_from(records.kept(), less);
    }

    pub(crate) fn taken(&self, packed: &Packed) -> &[u8] {
        &self.taken[packed.from..packed.from + self.size]
    }

    /// Packs a task by `put` into at most `size` bytes. Returns where they begin; `None` if `put` fails or needs more.
    pub(crate) fn pack(&mut self, size: usize, put: impl FnOnce(&mut Vec<u8>) -> bool) -> Option<usize> {
        let from = self.put.len();
        if !put(&mut self.put) || self.put.len() - from > size {
            self.put.truncate(from);
            return None;
        }
        self.put.resize(from + size, 0);
        Some(from)
    }

    pub(crate) fn hand_back<T>(&self, waiting: &WaitingTask<T>, records: &mut Records) {
        if let WaitingTask::Packed(packed) = waiting {
            records.set(packed.record, &self.put[packed.from..packed.from + records.size()]);
        }
    }

    /// Forgets the bytes of packed tasks: all are handed back.
    pub(crate) fn handed_back(&mut self) {
        self.put.clear();
    }

    pub(crate) fn pop_record(&mut self) -> Option<u32> {
        self.spare.pop()
    }

    /// Takes free records for the tasks that are packed together, and gives back kept charges beyond the bound. Returns
    /// whether there are any, and the bytes that more records charge.
    pub(crate) fn take_records(&mut self, records: &mut Records) -> (bool, usize) {
        records.take(TOGETHER, &mut self.spare);
        let more = self.kept.bytes().saturating_sub(KEPT);
        records.kept().take_from(&mut self.kept, more);
        (!self.spare.is_empty(), records.chunk_charge())
    }

    /// Keeps the record of an unpacked task. True if so many are kept that some should be given back.
    pub(crate) fn keep_record(&mut self, record: u32) -> bool {
        self.spare.push(record);
        self.spare.len() > 4 * TOGETHER
    }

    /// Gives back records beyond those that a thread needs.
    pub(crate) fn give_records(&mut self, records: &mut Records) {
        self.spare.drain(TOGETHER..).for_each(|record| records.put_back(record));
    }

    /// Whether memory for more records was refused in this window, and no task was dropped since.
    pub(crate) fn was_refused(&self, window: u32, dropped: u64) -> bool {
        self.refused == Some((window, dropped))
    }

    pub(crate) fn refuse(&mut self, window: u32, dropped: u64) {
        self.refused = Some((window, dropped));
    }

    /// Bytes to take from [`Records::kept`] if fewer than `bytes` are kept: enough for `bytes` or for the bound, the
    /// larger.
    pub(crate) fn lacks(&self, bytes: u64) -> Option<u64> {
        (self.kept.bytes() < bytes).then(|| bytes.max(KEPT) - self.kept.bytes())
    }

    pub(crate) fn take_kept(&mut self, from: &mut Charge, bytes: u64) {
        self.kept.take_from(from, bytes);
    }

    pub(crate) fn give_kept(&mut self, to: &mut Charge, bytes: u64) {
        to.take_from(&mut self.kept, bytes);
    }

    pub(crate) fn charge(&mut self, bytes: u64, pager: &Pager) -> Charge {
        let mut charge = self.empty.pop().unwrap_or_else(|| pager.no_charge(ChargeKind::Tasks));
        charge.take_from(&mut self.kept, bytes);
        charge
    }

    pub(crate) fn keep(&mut self, mut charge: Charge) {
        self.kept.take_from(&mut charge, u64::MAX);
        if self.empty.len() < TOGETHER {
            self.empty.push(charge);
        }
    }

    /// Keeps part of a finished task's charge, up to `most` bytes in all. The rest is released.
    pub(crate) fn keep_some(&mut self, mut charge: Charge, most: u64) {
        let more = most.saturating_sub(self.kept.bytes());
        self.kept.take_from(&mut charge, more);
    }

    /// Shrinks a task's charge to `to` bytes. The rest stays for the next task that grows, up to a bound. In one count
    /// of all threads, the charges of 10,000 particles in 200 windows took half a second of processor time.
    pub(crate) fn shrink(&mut self, charge: &mut Charge, to: u64) {
        let over = charge.bytes().saturating_sub(to);
        self.kept.take_from(charge, over.min(KEPT.saturating_sub(self.kept.bytes())));
        charge.shrink(to);
    }

    /// Gives back all records, and all charges if tasks are packed.
    pub(crate) fn give_back(&mut self, records: &mut Records) {
        self.spare.drain(..).for_each(|record| records.put_back(record));
        if records.size() > 0 {
            records.kept().take_from(&mut self.kept, u64::MAX);
        }
    }
}
