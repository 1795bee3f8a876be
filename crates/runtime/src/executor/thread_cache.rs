//! What a thread keeps for its next tasks, so that threads need not meet for each: records, charges, and the bytes of packed tasks.
//!
//! What a task was charged with while it was not packed is kept for the next that is unpacked: so does the allocator with its memory, and
//! what were charged in its place would come on top (of 6,000 tasks at 10 MiB up to 1.3 MiB).

use super::records::Records;
use super::scheduler::{Packed, Waiting};
use field::simd::{prefetch, CACHE_LINE};
use pager::{Charge, ChargeKind, Pager};
use std::collections::VecDeque;

/// Tasks of a run through time that a thread takes up and hands back together, at most: they are neighbours, and what two threads
/// share is touched once for all of them. One by one, 10,000 particles in 200 windows took two threads 12.0 s of processor time
/// where one alone took 7.8.
pub(crate) const TOGETHER: usize = 32;

/// Bytes of charges that a thread keeps for itself.
const KEPT: u64 = 64 << 10;

pub(crate) struct ThreadCache {
    /// Records without a task.
    spare: Vec<u32>,
    /// What tasks that were packed or are done had been charged with: some, and what has come since records were last wanted.
    kept: Charge,
    /// Charges of nothing: to make one and to drop it are four changes of counts that all threads have in common, and two million
    /// particles a run that are packed and unpacked took 0.2 s of processor time by that.
    empty: Vec<Charge>,
    /// What tasks were packed into that are not handed back yet, one after the other.
    put: Vec<u8>,
    /// What was in the records of the tasks that were taken last.
    taken: Vec<u8>,
    /// Bytes of each of them.
    size: usize,
    /// The window in which there was no memory for more records, and how many tasks had been dropped by then: there is none for the next
    /// task, either, until there is another window or some were dropped.
    refused: Option<(u32, u64)>,
}

impl ThreadCache {
    pub(crate) fn new(pager: &Pager) -> Self {
        let kept = pager.no_charge(ChargeKind::Tasks);
        Self { spare: Vec::new(), kept, empty: Vec::new(), put: Vec::new(), taken: Vec::new(), size: 0, refused: None }
    }

    /// Copies the records of tasks that are taken up; there are none from before. They were written a window ago, and lie anywhere: all of
    /// them are on their way before the first is looked at.
    pub(crate) fn take<T>(&mut self, first: &mut Waiting<T>, more: &mut VecDeque<Waiting<T>>, records: &mut Records) {
        self.size = records.size();
        self.taken.clear();
        for record in core::iter::once(&*first).chain(&*more).filter_map(Waiting::record) {
            let bytes = records.get(record);
            (0..bytes.len()).step_by(CACHE_LINE).for_each(|at| prefetch(&raw const bytes[at]));
        }
        for waiting in core::iter::once(first).chain(more) {
            if let Waiting::Packed(packed) = waiting {
                packed.from = self.taken.len();
                self.taken.extend_from_slice(records.get(packed.record));
            }
        }
        let less = KEPT.saturating_sub(self.kept.bytes());
        self.kept.take_from(records.kept(), less);
    }

    /// The bytes of a task that was taken up.
    pub(crate) fn taken(&self, packed: &Packed) -> &[u8] {
        &self.taken[packed.from..packed.from + self.size]
    }

    /// Packs a task by `put` into `size` bytes at most, and says where they begin; none where it cannot be.
    pub(crate) fn pack(&mut self, size: usize, put: impl FnOnce(&mut Vec<u8>) -> bool) -> Option<usize> {
        let from = self.put.len();
        if !put(&mut self.put) || self.put.len() - from > size {
            self.put.truncate(from);
            return None;
        }
        self.put.resize(from + size, 0);
        Some(from)
    }

    /// Fills the record of a task that was packed.
    pub(crate) fn hand_back<T>(&self, waiting: &Waiting<T>, records: &mut Records) {
        if let Waiting::Packed(packed) = waiting {
            records.set(packed.record, &self.put[packed.from..packed.from + records.size()]);
        }
    }

    /// All tasks that were packed are handed back.
    pub(crate) fn handed_back(&mut self) {
        self.put.clear();
    }

    /// A record without a task.
    pub(crate) fn pop_record(&mut self) -> Option<u32> {
        self.spare.pop()
    }

    /// Takes free records, as many as are packed together, and gives back what is kept of charges beyond the bound. Says whether there
    /// are any, and bytes of the charge that more of them take.
    pub(crate) fn take_records(&mut self, records: &mut Records) -> (bool, usize) {
        records.take(TOGETHER, &mut self.spare);
        let more = self.kept.bytes().saturating_sub(KEPT);
        records.kept().take_from(&mut self.kept, more);
        (!self.spare.is_empty(), records.chunk_charge())
    }

    /// Keeps a record whose task is unpacked. True when so many are kept that some are to be given back.
    pub(crate) fn keep_record(&mut self, record: u32) -> bool {
        self.spare.push(record);
        self.spare.len() > 4 * TOGETHER
    }

    /// Gives back records beyond those that a thread needs.
    pub(crate) fn give_records(&mut self, records: &mut Records) {
        self.spare.drain(TOGETHER..).for_each(|record| records.put_back(record));
    }

    /// Whether memory for more records was refused in a window, since so many tasks have been dropped.
    pub(crate) fn was_refused(&self, window: u32, dropped: u64) -> bool {
        self.refused == Some((window, dropped))
    }

    /// Takes note of it.
    pub(crate) fn refuse(&mut self, window: u32, dropped: u64) {
        self.refused = Some((window, dropped));
    }

    /// Bytes that lack where `bytes` are wanted, and those that are kept besides: to be had of [`Records::kept`].
    pub(crate) fn lacks(&self, bytes: u64) -> Option<u64> {
        (self.kept.bytes() < bytes).then(|| bytes.max(KEPT) - self.kept.bytes())
    }

    /// Takes up to so many bytes of charges for itself.
    pub(crate) fn take_kept(&mut self, from: &mut Charge, bytes: u64) {
        self.kept.take_from(from, bytes);
    }

    /// Gives up to so many bytes of charges.
    pub(crate) fn give_kept(&mut self, to: &mut Charge, bytes: u64) {
        to.take_from(&mut self.kept, bytes);
    }

    /// A charge of up to so many bytes of those that are kept.
    pub(crate) fn charge(&mut self, bytes: u64, pager: &Pager) -> Charge {
        let mut charge = self.empty.pop().unwrap_or_else(|| pager.no_charge(ChargeKind::Tasks));
        charge.take_from(&mut self.kept, bytes);
        charge
    }

    /// Keeps what a task was charged with that is packed.
    pub(crate) fn keep(&mut self, mut charge: Charge) {
        self.kept.take_from(&mut charge, u64::MAX);
        if self.empty.len() < TOGETHER {
            self.empty.push(charge);
        }
    }

    /// Keeps of what a task was charged with that is done, up to `most` bytes in all. The rest is released.
    pub(crate) fn keep_some(&mut self, mut charge: Charge, most: u64) {
        let more = most.saturating_sub(self.kept.bytes());
        self.kept.take_from(&mut charge, more);
    }

    /// A task needs no more than so many bytes: what it is charged with beyond that is kept for the next that grows, up to a bound. What
    /// 10,000 particles give back and take again in each of 200 windows took half a second of processor time where all threads count it.
    pub(crate) fn shrink(&mut self, charge: &mut Charge, to: u64) {
        let over = charge.bytes().saturating_sub(to);
        self.kept.take_from(charge, over.min(KEPT.saturating_sub(self.kept.bytes())));
        charge.shrink(to);
    }

    /// Gives back all records, and all charges where others take them.
    pub(crate) fn give_back(&mut self, records: &mut Records) {
        self.spare.drain(..).for_each(|record| records.put_back(record));
        if records.size() > 0 {
            records.kept().take_from(&mut self.kept, u64::MAX);
        }
    }
}
