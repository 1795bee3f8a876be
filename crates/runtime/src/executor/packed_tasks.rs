//! Tasks of a run through time that wait for their turn, put away in records of one size: of ten thousand most wait at any time, and what
//! their states would take goes to pages.
//!
//! A record is in one chunk of many, so that the allocator keeps nothing between them, and chunks are charged whole. A thread that takes a
//! task up keeps its record for the next that it puts away. Where there is no memory for more records a task stays as it is.
//!
//! What a task was charged with while it was not put away is kept for the next that is taken up: so does the allocator with its memory, and
//! what were charged in its place would come on top (of 6,000 tasks at 10 MiB up to 1.3 MiB).

use super::parked::WITHIN;
use super::scheduler::TaskSlot;
use super::task_memory::{too_small, Refused};
use super::{Thread, Work, TOGETHER};
use crate::process;
use field::simd::{prefetch, CACHE_LINE};
use pager::{Charge, ChargeKind, Pager};
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a chunk: few are charged, and little is left of the last.
const CHUNK: usize = 256 << 10;

/// Bytes that are charged with a record beside it: a place in a crowd. An entry takes 32, and up to four times that in a crowd that many
/// have left; of one that is alone its memory takes 48 and its place in the map of crowds 42 to 74.
pub const OF_RECORD: usize = 128;

/// Bytes of charges that a thread keeps for itself.
const KEPT: u64 = 64 << 10;

/// Bytes of charges of tasks that are done that a thread keeps at most.
const KEPT_OF_DONE: u64 = 192 << 10;

/// Memory of some records.
pub(super) type Chunk = (Box<[u8]>, Charge);

/// The records of a run.
pub(super) struct Records {
    /// Bytes of a record.
    size: usize,
    /// None where it was given back: no record of it is in use, or free.
    chunks: Vec<Option<Chunk>>,
    /// 1. A record is here, in the hands of a thread, or has a task that waits.
    free: Vec<u32>,
    /// What tasks that were put away, or are done, had been charged with.
    kept: Charge,
}

impl Records {
    pub(super) fn new(size: usize, pager: &Pager) -> Self {
        Self { size, chunks: Vec::new(), free: Vec::new(), kept: pager.no_charge(ChargeKind::Tasks) }
    }

    /// Bytes of memory for more of them; 0 where tasks are never put away.
    fn of_chunk(&self) -> usize {
        CHUNK.checked_div(self.size).map_or(0, |records| records.max(1) * self.size)
    }

    /// Bytes that such a chunk is charged with.
    fn chunk_charge(&self) -> usize {
        self.of_chunk() + self.of_chunk().checked_div(self.size).unwrap_or(0) * OF_RECORD
    }

    fn add(&mut self, charge: Charge) {
        let bytes = self.of_chunk();
        let at = self.chunks.iter().position(Option::is_none).unwrap_or(self.chunks.len());
        let (first, more) = (at * bytes / self.size, bytes / self.size);
        if at == self.chunks.len() {
            self.chunks.push(None);
        }
        self.chunks[at] = Some((vec![0; bytes].into_boxed_slice(), charge));
        // The first go first: as few of them are touched as are in use.
        self.free.extend((first..first + more).rev().map(|n| n as u32));
    }

    fn at(&self, record: u32) -> (usize, usize) {
        let in_chunk = self.of_chunk() / self.size;
        (record as usize / in_chunk, record as usize % in_chunk * self.size)
    }

    pub(super) fn get(&self, record: u32) -> &[u8] {
        let (chunk, from) = self.at(record);
        let (bytes, _) = self.chunks[chunk].as_ref().expect(IN_USE);
        &bytes[from..from + self.size]
    }

    pub(super) fn set(&mut self, record: u32, to: &[u8]) {
        let ((chunk, from), size) = (self.at(record), self.size);
        let (bytes, _) = self.chunks[chunk].as_mut().expect(IN_USE);
        bytes[from..from + size].copy_from_slice(to);
    }

    pub(super) fn put_back(&mut self, record: u32) {
        self.free.push(record);
    }

    /// Whether there is so much free that [`Records::gather`] may give some back.
    pub(super) fn may_gather(&self) -> bool {
        self.size > 0 && self.free.len() >= self.of_chunk() / self.size
    }

    /// Moves tasks to the first records, and takes out chunks in which nothing is left, to be freed under no lock. `tasks` are all that
    /// wait in a record; what a thread has in its hands stays where it is.
    pub(super) fn gather<'a>(&mut self, tasks: impl Iterator<Item = &'a mut u32>) -> Vec<Chunk> {
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
        let in_chunk = self.of_chunk() / self.size.max(1);
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

/// A task that waits in a record.
pub(super) struct Away {
    pub(super) number: u64,
    pub(super) window: u32,
    pub(super) place: u64,
    pub(super) record: u32,
    /// Where its bytes begin, in the hands of a thread.
    from: usize,
}

/// A task that waits for a thread.
pub(super) enum WaitingTask<T> {
    Whole(Box<TaskSlot<T>>),
    Away(Away),
}

impl<T> WaitingTask<T> {
    /// One whose bytes are in its record.
    pub(super) fn away(number: u64, window: u32, place: u64, record: u32) -> Self {
        Self::Away(Away { number, window, place, record, from: 0 })
    }

    pub(super) fn window(&self) -> u32 {
        match self {
            Self::Whole(slot) => slot.window,
            Self::Away(away) => away.window,
        }
    }

    pub(super) fn place(&self) -> u64 {
        match self {
            Self::Whole(slot) => slot.place,
            Self::Away(away) => away.place,
        }
    }

    /// The record in which it waits.
    fn record(&self) -> Option<u32> {
        if let Self::Away(away) = self {
            Some(away.record)
        } else {
            None
        }
    }

    /// Whether its pages are held.
    pub(super) fn is_elder(&self) -> bool {
        matches!(self, Self::Whole(slot) if slot.hold.is_some())
    }

    /// Whether it has not gone on in a window yet, in a neighbourhood.
    pub(super) fn is_fresh_at(&self, window: u32, neighbourhood: u64) -> bool {
        let went_on = matches!(self, Self::Whole(slot) if slot.restarts > 0);
        !went_on && self.window() == window && self.place() >> WITHIN == neighbourhood
    }
}

/// What a thread has in its hands.
pub(super) struct Hands {
    /// Records without a task.
    spare: Vec<u32>,
    /// What tasks that were put away or are done had been charged with: some, and what has come since records were last wanted.
    kept: Charge,
    /// Charges of nothing: to make one and to drop it are four changes of counts that all threads have in common, and two million
    /// particles a run that are put away and taken up took 0.2 s of processor time by that.
    empty: Vec<Charge>,
    /// What tasks were put away as that are not handed back yet, one after the other.
    put: Vec<u8>,
    /// What was in the records of the tasks that were taken last.
    taken: Vec<u8>,
    /// Bytes of each of them.
    size: usize,
    /// The window in which there was no memory for more records, and how many tasks had been dropped by then: there is none for the next
    /// task, either, until there is another window or some were dropped.
    refused: Option<(u32, u64)>,
}

impl Hands {
    pub(super) fn new(pager: &Pager) -> Self {
        let kept = pager.no_charge(ChargeKind::Tasks);
        Self { spare: Vec::new(), kept, empty: Vec::new(), put: Vec::new(), taken: Vec::new(), size: 0, refused: None }
    }

    /// A task needs no more than so many bytes: what it is charged with beyond that is kept for the next that grows, up to a bound. What
    /// 10,000 particles give back and take again in each of 200 windows took half a second of processor time where all threads count it.
    pub(super) fn shrink(&mut self, charge: &mut Charge, to: u64) {
        let over = charge.bytes().saturating_sub(to);
        self.kept.take_from(charge, over.min(KEPT.saturating_sub(self.kept.bytes())));
        charge.shrink(to);
    }

    /// Keeps a charge of nothing for the next task.
    fn lay_by(&mut self, charge: Charge) {
        if self.empty.len() < TOGETHER {
            self.empty.push(charge);
        }
    }

    /// Copies the records of tasks that are taken up; there are none from before. They were written a window ago, and lie anywhere: all of
    /// them are on their way before the first is looked at.
    pub(super) fn take<T>(
        &mut self,
        first: &mut WaitingTask<T>,
        more: &mut VecDeque<WaitingTask<T>>,
        records: &mut Records,
    ) {
        self.size = records.size;
        self.taken.clear();
        for away in core::iter::once(&*first).chain(&*more).filter_map(WaitingTask::record) {
            let bytes = records.get(away);
            (0..bytes.len()).step_by(CACHE_LINE).for_each(|at| prefetch(&raw const bytes[at]));
        }
        for waiting in core::iter::once(first).chain(more) {
            if let WaitingTask::Away(away) = waiting {
                away.from = self.taken.len();
                self.taken.extend_from_slice(records.get(away.record));
            }
        }
        let less = KEPT.saturating_sub(self.kept.bytes());
        self.kept.take_from(&mut records.kept, less);
    }

    /// The bytes of a task that was taken up.
    pub(super) fn taken(&self, away: &Away) -> &[u8] {
        &self.taken[away.from..away.from + self.size]
    }

    /// Fills the record of a task that was put away.
    pub(super) fn hand_back<T>(&self, waiting: &WaitingTask<T>, records: &mut Records) {
        if let WaitingTask::Away(away) = waiting {
            records.set(away.record, &self.put[away.from..away.from + records.size]);
        }
    }

    /// All tasks that were put away are handed back.
    pub(super) fn handed_back(&mut self) {
        self.put.clear();
    }
}

impl<W: Work> Thread<'_, W>
where
    W::Task: 'static,
{
    /// Puts a task away that has come to another window, if its kind can be and there is room.
    pub(super) fn put_away(&mut self, slot: Box<TaskSlot<W::Task>>) -> WaitingTask<W::Task> {
        let size = self.work.record_bytes();
        if size == 0 {
            return WaitingTask::Whole(slot);
        }
        let Some(record) = self.record(slot.window) else { return WaitingTask::Whole(slot) };
        let put = &mut self.hands.put;
        let from = put.len();
        if !self.work.put_away(&slot.task, put) || put.len() - from > size {
            put.truncate(from);
            self.hands.spare.push(record);
            return WaitingTask::Whole(slot);
        }
        put.resize(from + size, 0);
        let TaskSlot { number, window, place, mut charge, .. } = *slot;
        self.hands.kept.take_from(&mut charge, u64::MAX);
        self.hands.lay_by(charge);
        WaitingTask::Away(Away { number, window, place, record, from })
    }

    /// A record without a task.
    fn record(&mut self, window: u32) -> Option<u32> {
        let s = self.shared;
        while self.hands.spare.is_empty() {
            let bytes = {
                let records = &mut s.lock().ready.records;
                let left = records.free.len().saturating_sub(TOGETHER);
                self.hands.spare.extend(records.free.drain(left..));
                let more = self.hands.kept.bytes().saturating_sub(KEPT);
                records.kept.take_from(&mut self.hands.kept, more);
                records.chunk_charge()
            };
            if self.hands.spare.is_empty() {
                let now = Some((window, s.dropped.load(Relaxed)));
                if self.hands.refused == now {
                    return None;
                }
                // Not under the lock: what is dropped for it may wake tasks.
                let Ok(charge) = s.pager.charge(ChargeKind::Tasks, bytes as u64) else {
                    self.hands.refused = now;
                    return None;
                };
                s.lock().ready.records.add(charge);
            }
        }
        self.hands.spare.pop()
    }

    /// The task itself; none where there is no memory for it now: it waits on.
    pub(super) fn take_up(&mut self, waiting: WaitingTask<W::Task>) -> Option<Box<TaskSlot<W::Task>>> {
        let s = self.shared;
        let away = match waiting {
            WaitingTask::Whole(slot) => return Some(slot),
            WaitingTask::Away(away) => away,
        };
        let bytes = self.hands.taken(&away);
        // Nobody else has had the bytes.
        let task = self.work.take_up(away.number, bytes).expect("a task that was put away in this process comes back");
        let bytes = self.work.bytes(&task) as u64;
        let mut charge = self.kept(bytes);
        // What this thread has under way goes first: this one loses nothing by waiting.
        let charged = if self.lanes.iter().any(Option::is_some) {
            self.charged(&mut |_| charge.grow(bytes)).map_err(|refused| Refused { another: true, ..refused })
        } else {
            self.insist(|_| charge.grow(bytes))
        };
        match charged {
            Ok(()) => {
                let Away { number, window, place, record, .. } = away;
                self.hands.spare.push(record);
                if self.hands.spare.len() > 4 * TOGETHER {
                    let records = &mut s.lock().ready.records;
                    self.hands.spare.drain(TOGETHER..).for_each(|record| records.put_back(record));
                }
                let (restarts, wanted, behind, hold) = (0, Vec::new(), 0, None);
                return Some(Box::new(TaskSlot {
                    number,
                    task,
                    charge,
                    restarts,
                    wanted,
                    behind,
                    hold,
                    window,
                    place,
                }));
            }
            Err(Refused { full, alone: true, .. }) => s.fail(too_small(full, "a line under way")),
            // Its record is as it was.
            Err(Refused { another: true, .. }) => s.lock().push_first(WaitingTask::Away(away)),
            Err(_) => {
                drop((task, charge));
                self.hands.spare.push(away.record);
                s.again(&[(away.number, away.window)]);
            }
        }
        None
    }

    /// A charge of up to so many bytes of what tasks had been charged with that were put away or are done.
    pub(super) fn kept(&mut self, bytes: u64) -> Charge {
        self.gather_kept(bytes);
        let mut charge = self.hands.empty.pop().unwrap_or_else(|| self.shared.pager.no_charge(ChargeKind::Tasks));
        charge.take_from(&mut self.hands.kept, bytes);
        charge
    }

    /// Gets at so many bytes of what tasks had been charged with, if there are so many.
    fn gather_kept(&mut self, bytes: u64) {
        if self.hands.kept.bytes() < bytes && self.work.record_bytes() > 0 {
            let less = bytes.max(KEPT) - self.hands.kept.bytes();
            self.hands.kept.take_from(&mut self.shared.lock().ready.records.kept, less);
        }
    }

    /// Keeps some of what a task that is done was charged with: the allocator does. All of it would cost pages where lines are long (at
    /// 6 MiB 1,000 streamlines came to 80 to 770 KiB below limit and base without, to 800 to 1,350 with, and evicted 1.4 times the pages).
    pub(super) fn keep(&mut self, mut charge: Charge) {
        let most = KEPT_OF_DONE.min(self.shared.pager.ledger().limit() / 16 / self.load.workers.max(1) as u64);
        let more = most.saturating_sub(self.hands.kept.bytes());
        self.hands.kept.take_from(&mut charge, more);
    }

    /// Lets go of all that this thread has of tasks that wait, and says whether any of them may go on.
    pub(super) fn let_go(&mut self) -> bool {
        self.hand_back();
        let mut q = self.shared.lock();
        let any = !self.mine.is_empty();
        self.mine.drain(..).for_each(|waiting| q.push_first(waiting));
        self.hands.spare.drain(..).for_each(|record| q.ready.records.put_back(record));
        if self.work.record_bytes() > 0 {
            q.ready.records.kept.take_from(&mut self.hands.kept, u64::MAX);
        }
        any
    }

    /// Charges a task with so many bytes at least; none where it had to be dropped, or does not fit.
    pub(super) fn charge(
        &mut self,
        mut slot: Box<TaskSlot<W::Task>>,
        bytes: usize,
        what: &str,
    ) -> Option<Box<TaskSlot<W::Task>>> {
        let s = self.shared;
        if bytes <= slot.charged() {
            return Some(slot);
        }
        let more = (bytes - slot.charged()) as u64;
        self.gather_kept(more);
        slot.charge.take_from(&mut self.hands.kept, more);
        match self.insist(|_| slot.charge.grow(bytes as u64)) {
            Ok(()) => return Some(slot),
            Err(Refused { full, alone: true, .. }) => s.fail(too_small(full, what)),
            Err(_) => s.dropped(vec![slot]),
        }
        None
    }

    /// Releases what tasks had been charged with that were put away or are done, and records that are free.
    pub(super) fn release_kept(&mut self) {
        let mut kept = self.shared.pager.no_charge(ChargeKind::Tasks);
        kept.take_from(&mut self.hands.kept, u64::MAX);
        let chunks = {
            let mut q = self.shared.lock();
            kept.take_from(&mut q.ready.records.kept, u64::MAX);
            q.ready.gather()
        };
        let any = kept.bytes() > 0 || !chunks.is_empty();
        // Before their charge.
        let _charges: Vec<Charge> = chunks.into_iter().map(|(_, charge)| charge).collect();
        if any {
            process::give_back_freed();
        }
    }
}

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
        // What is in a thread's hands keeps its chunk, and no other.
        records.free.clear();
        assert!(records.gather(core::iter::empty()).is_empty());
        records.add(pager.charge(ChargeKind::Tasks, records.chunk_charge() as u64).unwrap());
        assert_eq!(records.chunks.iter().flatten().count(), 2, "where the other was");
        assert_eq!(records.gather(core::iter::empty()).len(), 1);
        drop(records);
        assert_eq!(pager.ledger().of(ChargeKind::Tasks), before);
    }
}
