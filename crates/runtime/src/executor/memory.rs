//! Memory for the tasks of a thread, and which tasks are dropped without it.

use super::body::TaskSlot;
use super::scheduler::WaitingTask;
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

/// A refused charge is tried again for this long. Pins are released within microseconds; reads over a network take part
/// of a second.
const CHARGE_PATIENCE: Duration = Duration::from_secs(2);
/// Tasks that no thread steps are dropped for a charge refused for this long, and then for twice as long each time.
const MAKE_WAY: Duration = Duration::from_millis(10);

/// Most bytes that a thread keeps of the charges of finished tasks.
const KEPT_OF_DONE: u64 = 192 << 10;

/// Threads for a run, and the charge of their stacks. Fewer than requested if other memory is held. More threads than a
/// limit has room for, which no session requests, are not charged.
pub(crate) fn stacks(pager: &Pager, asked: usize) -> (usize, Option<Charge>) {
    let most = most_threads(pager.ledger().limit());
    let mut n = asked;
    while stack_bytes(n.min(most)) > 0 {
        if let Ok(charge) = pager.charge(ChargeKind::Other, stack_bytes(n.min(most))) {
            return (n, Some(charge));
        }
        // At most `most` threads are charged: one fewer of those needs less memory.
        n = n.min(most) - 1;
    }
    (n, None)
}

impl<W: Windowed + Budgeted> Thread<'_, W> {
    /// Adapts to a changed memory limit.
    pub(crate) fn follow(&mut self) {
        let s = self.shared;
        let now = || s.pager.ledger().limit();
        if s.limit.load(Relaxed) == now() {
            return;
        }
        // One thread at a time, so that the work gets the newest limit last.
        let Ok(_judge) = s.judge.try_lock() else { return };
        let limit = now();
        if s.limit.swap(limit, SeqCst) == limit {
            return;
        }
        // For a lower limit, tasks are chosen among all that no thread steps.
        self.let_go();
        match self.work.resized(limit, self.load.active) {
            Ok(most) => s.allow(most, self.work.waiting(limit)),
            Err(e) => s.fail(e),
        }
    }

    /// Charges the state of a task that is to begin. A refused charge is tried again only if there is no other task.
    pub(crate) fn begin<T>(&mut self, mut charge: impl FnMut(&Pager) -> Result<T, Full>) -> Result<T, ChargeRefusal> {
        let s = self.shared;
        let began = Instant::now();
        loop {
            match self.charged(&mut charge) {
                Err(r) if r.alone && began.elapsed() < self.patience() && !s.stop.load(Relaxed) => nap(),
                other => return other,
            }
        }
    }

    /// Charges memory for an advanced task, or for any task if this thread has no other. First workers release the pins
    /// of their last steps, and pages on their way arrive and can be dropped. Then tasks that no thread steps are
    /// dropped: this one has more to lose, or is done, or nothing else moves. If two threads insist, the second drops
    /// its task or leaves it waiting.
    pub(crate) fn insist<T>(&mut self, mut charge: impl FnMut(&Pager) -> Result<T, Full>) -> Result<T, ChargeRefusal> {
        match self.charged(&mut charge) {
            Ok(done) => Ok(done),
            Err(refused) => {
                self.shared.short.fetch_add(1, SeqCst);
                // Waiting threads are asked to release memory that they keep.
                self.shared.pager.notify();
                let done = self.insist_on(charge, refused);
                self.shared.short.fetch_sub(1, SeqCst);
                done
            }
        }
    }

    /// The same, after the first refusal.
    fn insist_on<T>(
        &mut self,
        mut charge: impl FnMut(&Pager) -> Result<T, Full>,
        mut refused: ChargeRefusal,
    ) -> Result<T, ChargeRefusal> {
        let s = self.shared;
        let first = s.insists.try_lock();
        let another = first.is_err();
        let began = Instant::now();
        // Reads over a network take a while: each half of the idle tasks is dropped after twice the time of the one
        // before.
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
        Err(ChargeRefusal { another, ..refused })
    }

    /// One attempt. This thread first releases all it can.
    pub(crate) fn charged<T>(
        &mut self,
        charge: &mut impl FnMut(&Pager) -> Result<T, Full>,
    ) -> Result<T, ChargeRefusal> {
        let s = self.shared;
        if let Ok(done) = charge(&s.pager) {
            return Ok(done);
        }
        s.release_retired();
        self.release_kept();
        s.pager.press();
        self.work.worker(&mut self.context).release();
        while s.pager.work() {}
        // Evaluated before the charge: then the last memory of the others is free when the charge is tried.
        let alone = s.alone();
        charge(&s.pager).map_err(|full| ChargeRefusal { full, alone, another: false })
    }

    /// Hands back the tasks in this thread's lanes, and drops half of those that no thread steps. False when there are
    /// none, also not in another thread's lanes.
    fn make_way(&mut self) -> bool {
        for lane in 0..LANES {
            // Finished tasks stay: they are about to be handed over.
            if self.outcomes[lane].progress == StepProgress::Done {
                continue;
            }
            if let Some(mut slot) = self.lanes[lane].take() {
                // The next step finds its absent pages again. A step that was made is recorded.
                self.outcomes[lane].missing.clear();
                if self.outcomes[lane].progress == StepProgress::Yield {
                    self.shared.stepped(&mut slot);
                }
                // It may have moved since its place was last recorded.
                slot.place = self.place(&slot);
                self.shared.lock().scheduler.push_first(WaitingTask::Whole(slot));
            }
        }
        self.let_go();
        self.shared.drop_half()
    }

    /// Under a limit below the memory in use, other tasks will not release enough: tasks have to be dropped.
    fn patience(&self) -> Duration {
        let ledger = self.shared.pager.ledger();
        if ledger.used() > ledger.limit() {
            CHARGE_PATIENCE / 100
        } else {
            CHARGE_PATIENCE
        }
    }

    /// A charge of up to `bytes`, from kept charges of tasks that were packed or are done.
    pub(crate) fn kept(&mut self, bytes: u64) -> Charge {
        self.gather_kept(bytes);
        self.cache.charge(bytes, &self.shared.pager)
    }

    /// Moves up to `bytes` of kept charges to this thread.
    fn gather_kept(&mut self, bytes: u64) {
        if self.work.record_bytes() == 0 {
            return;
        }
        if let Some(less) = self.cache.lacks(bytes) {
            self.cache.take_kept(self.shared.lock().records.kept(), less);
        }
    }

    /// Keeps part of a finished task's charge, since the allocator keeps its memory. Keeping all would cost pages where
    /// lines are long. At 6 MiB 1,000 streamlines ended 80 to 770 KiB below limit and base without it, and 800 to 1,350
    /// with it. They evicted 1.4 times the pages then.
    pub(crate) fn keep(&mut self, charge: Charge) {
        let most = KEPT_OF_DONE.min(self.shared.pager.ledger().limit() / 16 / self.load.workers.max(1) as u64);
        self.cache.keep_some(charge, most);
    }

    /// Charges a task with at least `bytes`. `None`: it was dropped, or does not fit.
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
            Err(ChargeRefusal { full, alone: true, .. }) => s.fail(too_small(full, what)),
            Err(_) => s.drop_task(slot),
        }
        None
    }

    /// Releases the kept charges of tasks that were packed or are done, and free records.
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
        // Memory is freed before its charge is released.
        let _charges: Vec<Charge> = chunks.into_iter().map(|(_, charge)| charge).collect();
        if any {
            process::give_back_freed();
        }
    }
}

pub(crate) struct ChargeRefusal {
    pub(crate) full: Full,
    /// No other task held memory.
    pub(crate) alone: bool,
    /// Another thread insisted at the time: tasks are being dropped for it.
    pub(crate) another: bool,
}

/// Waits a moment, in which other threads release memory.
fn nap() {
    std::thread::sleep(Duration::from_millis(1));
}

pub(crate) fn too_small(full: Full, what: &str) -> FieldError {
    FieldError::LimitTooSmall { limit: full.limit, needs: full.limit.saturating_add(full.needs), what: what.to_owned() }
}
