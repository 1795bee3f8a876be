//! How a thread gets memory for its tasks, and whose task goes when there is none.

use super::body::TaskSlot;
use super::scheduler::Waiting;
use super::shared::Queue;
use super::thread::Thread;
use super::work::{Budgeted, Windowed};
use crate::limits::{most_threads, stack_bytes};
use crate::process;
use field::error::FieldError;
use field::locator::LANES;
use kernels::streamline::StepProgress;
use pager::{Charge, ChargeKind, Full, Pager};
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// A refused charge is tried again for this long: pins are let go within microseconds, reads over a network take a part of a second.
const CHARGE_PATIENCE: Duration = Duration::from_secs(2);
/// Tasks that nobody steps make way for a charge that was refused for this long, and then for twice as long each time.
const MAKE_WAY: Duration = Duration::from_millis(10);

/// Bytes of charges of tasks that are done that a thread keeps at most.
const KEPT_OF_DONE: u64 = 192 << 10;

/// Threads for a run, and the charge of their stacks: fewer than are asked for where memory is held for something else. Of more threads
/// than a limit has room for, which no session asks for, it is not held against the run what they take.
pub(crate) fn stacks(pager: &Pager, asked: usize) -> (usize, Option<Charge>) {
    let most = most_threads(pager.ledger().limit());
    let mut n = asked;
    while stack_bytes(n.min(most)) > 0 {
        if let Ok(charge) = pager.charge(ChargeKind::Other, stack_bytes(n.min(most))) {
            return (n, Some(charge));
        }
        // As many as take less.
        n = n.min(most) - 1;
    }
    (n, None)
}

impl<W: Windowed + Budgeted> Thread<'_, W> {
    /// Takes note of a memory limit that has changed.
    pub(crate) fn follow(&mut self) {
        let s = self.shared;
        let now = || s.pager.ledger().limit();
        if s.limit.load(Relaxed) == now() {
            return;
        }
        // One thread at a time, so that the work hears the last limit last.
        let Ok(_judge) = s.judge.try_lock() else { return };
        let limit = now();
        if s.limit.swap(limit, SeqCst) == limit {
            return;
        }
        // Those that go for a lower limit are found among all that no thread steps.
        self.let_go();
        match self.work.resized(limit, self.load.active) {
            Ok(most) => s.allow(most, self.work.waiting(limit)),
            Err(e) => s.fail(e),
        }
    }

    /// Charges the state of a task that is to begin. That is worth no wait, unless there is no other task.
    pub(crate) fn begin<T>(&mut self, mut charge: impl FnMut(&Pager) -> Result<T, Full>) -> Result<T, Refused> {
        let s = self.shared;
        let began = Instant::now();
        loop {
            match self.charged(&mut charge) {
                Err(r) if r.alone && began.elapsed() < self.patience() && !s.stop.load(Relaxed) => nap(),
                other => return other,
            }
        }
    }

    /// Charges something for a task that has got far, or is to go on where this thread has no other. First workers let go of what they
    /// pinned in their last steps, and pages in flight come and can be given up. Then tasks go that nobody steps: this one has more to
    /// lose, or is done, or nothing else goes on. Of two threads that insist the second gives up its task, or leaves it waiting.
    pub(crate) fn insist<T>(&mut self, mut charge: impl FnMut(&Pager) -> Result<T, Full>) -> Result<T, Refused> {
        match self.charged(&mut charge) {
            Ok(done) => Ok(done),
            Err(refused) => {
                self.shared.short.fetch_add(1, SeqCst);
                // Those that wait are asked to let go of what they keep.
                self.shared.pager.notify();
                let done = self.insist_on(charge, refused);
                self.shared.short.fetch_sub(1, SeqCst);
                done
            }
        }
    }

    /// The same, after it was refused once.
    fn insist_on<T>(
        &mut self,
        mut charge: impl FnMut(&Pager) -> Result<T, Full>,
        mut refused: Refused,
    ) -> Result<T, Refused> {
        let s = self.shared;
        let first = s.insists.try_lock();
        let another = first.is_err();
        let began = Instant::now();
        // Reads over a network take a while: each half of what is idle goes after twice the time of the one before.
        let (mut asked, mut moment) = (began, MAKE_WAY);
        while began.elapsed() < self.patience() && !s.stop.load(Relaxed) {
            if !refused.alone && asked.elapsed() >= moment {
                if first.is_err() || !self.make_way() {
                    break;
                }
                (asked, moment) = (Instant::now(), 2 * moment);
            } else {
                nap();
            }
            refused = match self.charged(&mut charge) {
                Ok(done) => return Ok(done),
                Err(r) => r,
            };
        }
        Err(Refused { another, ..refused })
    }

    /// One attempt, for which this thread lets go of what it can.
    pub(crate) fn charged<T>(&mut self, charge: &mut impl FnMut(&Pager) -> Result<T, Full>) -> Result<T, Refused> {
        let s = self.shared;
        if let Ok(done) = charge(&s.pager) {
            return Ok(done);
        }
        s.release_retired();
        self.release_kept();
        s.pager.press();
        self.work.worker(&mut self.context).release();
        while s.pager.work() {}
        // Looked at before: what the last of the others held is free when the charge is tried.
        let alone = s.alone();
        charge(&s.pager).map_err(|full| Refused { full, alone, another: false })
    }

    /// Hands back the tasks in this thread's lanes, and drops half of those that nobody steps. False when there are none, and none
    /// in another thread's lanes either.
    fn make_way(&mut self) -> bool {
        for lane in 0..LANES {
            // Those that are done stay: they are about to be handed over.
            if self.outcomes[lane].progress == StepProgress::Done {
                continue;
            }
            if let Some(mut slot) = self.lanes[lane].take() {
                // What a step lacked is found again by the next; one that was made is noted.
                self.outcomes[lane].missing.clear();
                if self.outcomes[lane].progress == StepProgress::Yield {
                    self.shared.stepped(&mut slot);
                }
                // It may have gone far since it was last looked at.
                slot.place = self.place(&slot);
                self.shared.lock().scheduler.push_first(Waiting::Whole(slot));
            }
        }
        self.let_go();
        self.shared.drop_half()
    }

    /// A limit below what is in use says nothing about what others will release: tasks have to go.
    fn patience(&self) -> Duration {
        let ledger = self.shared.pager.ledger();
        if ledger.used() > ledger.limit() {
            CHARGE_PATIENCE / 100
        } else {
            CHARGE_PATIENCE
        }
    }

    /// A charge of up to so many bytes of what tasks had been charged with that were packed or are done.
    pub(crate) fn kept(&mut self, bytes: u64) -> Charge {
        self.gather_kept(bytes);
        self.cache.charge(bytes, &self.shared.pager)
    }

    /// Gets at so many bytes of what tasks had been charged with, if there are so many.
    fn gather_kept(&mut self, bytes: u64) {
        if self.work.record_bytes() == 0 {
            return;
        }
        if let Some(less) = self.cache.lacks(bytes) {
            self.cache.take_kept(self.shared.lock().records.kept(), less);
        }
    }

    /// Keeps some of what a task that is done was charged with: the allocator does. All of it would cost pages where lines are long (at
    /// 6 MiB 1,000 streamlines came to 80 to 770 KiB below limit and base without, to 800 to 1,350 with, and evicted 1.4 times the pages).
    pub(crate) fn keep(&mut self, charge: Charge) {
        let most = KEPT_OF_DONE.min(self.shared.pager.ledger().limit() / 16 / self.load.workers.max(1) as u64);
        self.cache.keep_some(charge, most);
    }

    /// Charges a task with so many bytes at least; none where it had to be dropped, or does not fit.
    pub(crate) fn charge(
        &mut self,
        mut slot: Box<TaskSlot<W::Task>>,
        bytes: usize,
        what: &str,
    ) -> Option<Box<TaskSlot<W::Task>>> {
        let (s, charged) = (self.shared, slot.body.charged());
        if bytes <= charged {
            return Some(slot);
        }
        let more = (bytes - charged) as u64;
        self.gather_kept(more);
        self.cache.give_kept(&mut slot.body.charge, more);
        match self.insist(|_| slot.body.charge.grow(bytes as u64)) {
            Ok(()) => return Some(slot),
            Err(Refused { full, alone: true, .. }) => s.fail(too_small(full, what)),
            Err(_) => s.drop_task(slot),
        }
        None
    }

    /// Releases what tasks had been charged with that were packed or are done, and records that are free.
    pub(crate) fn release_kept(&mut self) {
        let mut kept = self.shared.pager.no_charge(ChargeKind::Tasks);
        self.cache.give_kept(&mut kept, u64::MAX);
        let chunks = {
            let mut q = self.shared.lock();
            let Queue { scheduler, records, .. } = &mut *q;
            kept.take_from(records.kept(), u64::MAX);
            records.gather(scheduler.records())
        };
        let any = kept.bytes() > 0 || !chunks.is_empty();
        // Before their charge.
        let _charges: Vec<Charge> = chunks.into_iter().map(|(_, charge)| charge).collect();
        if any {
            process::give_back_freed();
        }
    }
}

/// A charge that was refused to the end.
pub(crate) struct Refused {
    pub(crate) full: Full,
    /// No other task held any memory.
    pub(crate) alone: bool,
    /// Another thread insisted at the time: tasks are on their way out for it.
    pub(crate) another: bool,
}

/// A moment in which other threads let go of something.
fn nap() {
    std::thread::sleep(Duration::from_millis(1));
}

pub(crate) fn too_small(full: Full, what: &str) -> FieldError {
    FieldError::LimitTooSmall { limit: full.limit, needs: full.limit.saturating_add(full.needs), what: what.to_owned() }
}
