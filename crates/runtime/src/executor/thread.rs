//! A thread of a run. It takes tasks, steps several of them together, and finishes, parks or packs them.
//!
//! `memory.rs` gets memory for them, and `packing.rs` packs waiting ones.

use super::body::{Body, TaskSlot};
use super::memory::{too_small, ChargeRefusal};
use super::read_ahead::Ahead;
use super::scheduler::{ActiveTask, Next, WaitingTask, WITHIN};
use super::shared::{Queue, RunState};
use super::task_events::TaskEventBuffer;
use super::thread_cache::{ThreadCache, TOGETHER};
use super::work::{Budgeted, Outcome, RunLoad, Windowed, Work};
use field::locator::LANES;
use kernels::streamline::StepProgress;
use pager::{Did, PageId, Priority, Requested, Wake, Worker};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds of steps between checks for completed reads, other tasks, or a stop.
const ROUNDS: usize = 256;
/// Restarts of one step before its task may become the elder.
const PATIENCE: u32 = 3;
/// Rounds between checks of the size of a task's state.
const CHARGE_ROUNDS: usize = 16;
/// A state is charged again after it has grown by this much. The uncharged bytes of a dozen tasks must be few under the
/// smallest limits, too.
const CHARGE_STEP: usize = 8 << 10;

pub(crate) struct Thread<'a, W: Work> {
    pub(crate) work: &'a W,
    number: usize,
    pub(crate) shared: &'a Arc<RunState<W::Task>>,
    wake: Arc<dyn Wake>,
    /// Receives the wakes of prefetches.
    nobody: Arc<dyn Wake>,
    pub(crate) context: W::Context,
    pub(crate) load: RunLoad,
    pub(crate) lanes: [Option<Box<TaskSlot<W::Task>>>; LANES],
    /// Tasks that this thread has taken and that wait for a lane.
    pub(crate) mine: VecDeque<WaitingTask<Body<W::Task>>>,
    /// Tasks that reached another window, each with the window that the scheduler has for it.
    turned: Vec<(u32, WaitingTask<Body<W::Task>>)>,
    pub(crate) cache: ThreadCache,
    pub(crate) outcomes: [Outcome; LANES],
    steps: u64,
    /// Prefetches in this window and the one before, so that none is requested twice.
    ahead: Ahead,
    telling: TaskEventBuffer,
}

impl<'a, W: Windowed + Budgeted> Thread<'a, W> {
    pub(crate) fn new(
        work: &'a W,
        shared: &'a Arc<RunState<W::Task>>,
        (number, worker): (usize, Worker),
        load: RunLoad,
        nobody: Arc<dyn Wake>,
    ) -> Self {
        let fresh = || Outcome { progress: StepProgress::Yield, missing: Vec::new(), moved: false };
        Self {
            work,
            number,
            shared,
            wake: shared.clone(),
            nobody,
            context: work.context(number, worker),
            load,
            lanes: [const { None }; LANES],
            mine: VecDeque::new(),
            turned: Vec::new(),
            cache: ThreadCache::new(&shared.pager),
            outcomes: core::array::from_fn(|_| fresh()),
            steps: 0,
            ahead: Ahead::new(),
            telling: TaskEventBuffer::new(&shared.pager),
        }
    }

    /// Steps tasks until all are done, or the run stops.
    pub(crate) fn run(&mut self) {
        let s = self.shared;
        while !s.stop.load(Relaxed) {
            while s.pager.work() {}
            self.follow();
            for lane in 0..LANES {
                if self.lanes[lane].is_none() {
                    match self.take() {
                        // The outcome of the last step in this lane was another task's.
                        Some(slot) => {
                            self.lanes[lane] = Some(slot);
                            self.telling.took(&s.pager, lane);
                            self.outcomes[lane].progress = StepProgress::Need;
                        }
                        None => break,
                    }
                }
            }
            if self.lanes.iter().all(Option::is_none) {
                if s.is_done() {
                    break;
                }
                if !self.let_go() {
                    self.wait();
                }
                continue;
            }
            self.telling.begin(&s.pager);
            self.rounds();
            self.telling.end(&s.pager);
        }
        self.telling.tell(&s.pager);
        s.steps.fetch_add(self.steps, Relaxed);
        self.lanes = [const { None }; LANES];
        self.work.worker(&mut self.context).release();
        s.pager.notify();
    }

    /// A ready task, or a new one if there is room for its state.
    fn take(&mut self) -> Option<Box<TaskSlot<W::Task>>> {
        if let Some(waiting) = self.mine.pop_front() {
            self.prefetch(LANES - 1..LANES);
            return self.unpack(waiting);
        }
        self.hand_back();
        let next = {
            let mut q = self.shared.lock();
            let Queue { scheduler, records, .. } = &mut *q;
            let mut next = scheduler.next(self.number)?;
            if let (true, Next::Ready(first)) = (W::WINDOWED, &mut next) {
                scheduler.take_more(TOGETHER, LANES, &mut self.mine);
                self.cache.take(first, &mut self.mine, records);
            }
            next
        };
        match next {
            Next::Ready(waiting) => {
                self.prefetch(0..LANES);
                self.unpack(waiting)
            }
            Next::Begin(number) => self.admit(number),
        }
    }

    /// Begins a task. `None`: there is no memory for its state.
    fn admit(&mut self, number: u64) -> Option<Box<TaskSlot<W::Task>>> {
        let s = self.shared;
        let task = match self.work.admit(number) {
            Ok(task) => task,
            Err(e) => {
                s.fail(e);
                return None;
            }
        };
        let bytes = self.work.bytes(&task) as u64;
        let mut charge = self.kept(bytes);
        match self.begin(|_| charge.grow(bytes)) {
            Ok(()) => {
                let place = if W::WINDOWED { 0 } else { self.number as u64 };
                Some(Box::new(ActiveTask { number, body: Body::new(task, charge), restarts: 0, window: 0, place }))
            }
            Err(ChargeRefusal { full, alone: true, .. }) => {
                s.fail(too_small(full, "the state of a line"));
                None
            }
            Err(_) => {
                drop((task, charge));
                s.freed(&[(number, 0)]);
                None
            }
        }
    }

    /// Prefetches memory for some tasks that this thread steps next. A particle that begins a window reads some twenty
    /// cache lines that no other has read. Waiting for them took a quarter of the time.
    fn prefetch(&mut self, which: core::ops::Range<usize>) {
        for waiting in self.mine.range(which.start.min(self.mine.len())..which.end.min(self.mine.len())) {
            match waiting {
                WaitingTask::Whole(slot) => self.work.prefetch(&mut self.context, &slot.body.task),
                WaitingTask::Packed(packed) => {
                    self.work.prefetch_away(&mut self.context, packed.window, self.cache.taken(packed));
                }
            }
        }
    }

    fn wait(&mut self) {
        let s = self.shared;
        self.ask_ahead();
        self.work.worker(&mut self.context).release();
        self.telling.tell(&s.pager);
        if s.short.load(SeqCst) > 0 {
            self.release_kept();
        }
        // This thread has no task, and no pins.
        s.waiting.fetch_add(1, SeqCst);
        let began = Instant::now();
        if s.pager.stalled().is_some() {
            let dropped = s.dropped.load(SeqCst);
            self.release_kept();
            // The pager is checked again after a pause: a release may have been under way.
            s.pager.idle(Duration::from_millis(20));
            // All waiting threads reach this point: one of them decides.
            let _judge = pager::spin_lock::lock(&s.judge);
            let idle = s.waiting.load(SeqCst) == s.live.load(SeqCst) && s.lock().scheduler.is_stuck();
            if idle && s.dropped.load(SeqCst) == dropped && s.limit.load(SeqCst) == s.pager.ledger().limit() {
                // Others may have released memory since.
                self.release_kept();
                if let Some(full) = s.pager.stalled() {
                    if !s.make_room() && !s.pager.release_index_pages() {
                        s.fail(too_small(full, "the largest step"));
                    }
                }
            }
        } else {
            s.pager.idle(Duration::from_millis(50));
        }
        s.waiting.fetch_sub(1, SeqCst);
        let took_us = began.elapsed().as_micros() as u64;
        s.waited_us.fetch_add(took_us, Relaxed);
        self.telling.waited(&s.pager, took_us);
    }

    /// Steps all lanes until a task leaves its lane.
    fn rounds(&mut self) {
        for round in 0..ROUNDS {
            self.work.worker(&mut self.context).begin_step();
            let tasks = self.lanes.each_mut().map(|l| l.as_mut().map(|slot| &mut slot.body.task));
            self.work.steps(&mut self.context, tasks, &mut self.outcomes);
            self.telling.round();
            let mut left = false;
            for lane in 0..LANES {
                if self.lanes[lane].is_some() && !self.stays(lane, W::EACH_STEP || round % CHARGE_ROUNDS == 0) {
                    left = true;
                    match self.lanes[lane].take() {
                        Some(slot) if self.outcomes[lane].progress == StepProgress::Yield => self.turn(lane, slot),
                        Some(slot) => {
                            let missing = core::mem::take(&mut self.outcomes[lane].missing);
                            self.leave(lane, slot, missing);
                        }
                        None => {}
                    }
                }
            }
            if left {
                return;
            }
        }
    }

    /// Records a step. False if its task leaves the lane: it is done, lacks pages, or reached another window.
    #[inline(always)]
    fn stays(&mut self, lane: usize, charge: bool) -> bool {
        self.steps += 1;
        if self.outcomes[lane].progress != StepProgress::Yield {
            return false;
        }
        let Some(slot) = &mut self.lanes[lane] else { return false };
        if slot.restarts > 0 {
            self.shared.stepped(slot);
        }
        if W::WINDOWED && self.work.window(&slot.body.task) != slot.window {
            return false;
        }
        if !charge {
            return true;
        }
        let bytes = self.work.bytes(&slot.body.task);
        // Of thousands of tasks that advance together every byte counts.
        if bytes <= slot.body.charged() + if W::WINDOWED { 0 } else { CHARGE_STEP } {
            return true;
        }
        let Some(slot) = self.lanes[lane].take() else { return false };
        self.lanes[lane] = self.charge(slot, bytes, "a line under way");
        self.lanes[lane].is_some()
    }

    /// A task reached another window. Others may go first.
    fn turn(&mut self, lane: usize, mut slot: Box<TaskSlot<W::Task>>) {
        let s = self.shared;
        let window = self.work.window(&slot.body.task);
        if let Err(e) = self.work.turned(&mut self.context, lane, &mut slot.body.task, &mut self.ahead.pages) {
            return s.fail(e);
        }
        self.telling.left(&s.pager, lane, slot.number, Did::Turn, window, 0);
        self.ahead.take_new(window, |page, pages| self.work.of_page(window, page, pages));
        let from = core::mem::replace(&mut slot.window, window);
        slot.place = self.place(&slot);
        let waiting = match self.pack(slot) {
            WaitingTask::Whole(mut slot) => {
                let bytes = self.work.bytes(&slot.body.task);
                // If it is dropped it is still counted in its old window.
                slot.window = from;
                let Some(mut slot) = self.charge(slot, bytes, "a line under way") else { return };
                slot.window = window;
                self.cache.shrink(&mut slot.body.charge, bytes as u64);
                WaitingTask::Whole(slot)
            }
            packed => packed,
        };
        self.turned.push((from, waiting));
        if self.ahead.are_many() {
            self.ask_ahead();
        }
        // At once if other threads have nothing to do, or if this thread may not come here again for long.
        if self.turned.len() >= TOGETHER || self.mine.is_empty() || s.waiting.load(Relaxed) > 0 {
            self.hand_back();
        }
    }

    pub(crate) fn hand_back(&mut self) {
        let Some(latest) = self.turned.iter().map(|(_, waiting)| waiting.window()).max() else { return };
        let (passed, others) = {
            let mut q = self.shared.lock();
            for (from, waiting) in self.turned.drain(..) {
                self.cache.hand_back(&waiting, &mut q.records);
                q.scheduler.turned(from, waiting);
            }
            self.cache.handed_back();
            (q.scheduler.passed(), q.scheduler.any_before(latest))
        };
        self.passed(passed);
        self.shared.notify_waiting();
        // If no other task goes first, one of these may be the next.
        if !others && self.mine.is_empty() {
            self.ask_ahead();
        }
    }

    /// Where a task is. In a run through time: its place in the data, or a place of its own until that is known. In
    /// other runs: the number of its thread.
    pub(crate) fn place(&self, slot: &TaskSlot<W::Task>) -> u64 {
        if W::WINDOWED {
            self.work.place(&slot.body.task).unwrap_or(slot.number << WITHIN)
        } else {
            self.number as u64
        }
    }

    /// Requests pages that tasks will likely use in their next window.
    fn ask_ahead(&mut self) {
        let (pager, nobody) = (&self.shared.pager, &self.nobody);
        self.ahead.ask(|pages| {
            // No task waits for them.
            let _asked = pager.request(pages, 0, nobody, Priority::Prefetch);
        });
    }

    /// Informs the work if the run has reached another window.
    fn passed(&mut self, window: Option<u32>) {
        let Some(window) = window else { return };
        let s = self.shared;
        self.ask_ahead();
        let ahead = self.work.passed(window);
        let limit = s.limit.load(SeqCst);
        let waiting = self.work.waiting(limit);
        let mut q = s.lock();
        // Under another limit, the thread that follows it sets this.
        if s.limit.load(SeqCst) == limit {
            q.scheduler.may_wait(waiting);
        }
        drop(q);
        s.notify_waiting();
        if !ahead.is_empty() {
            s.pager.request(&ahead, 0, &self.nobody, Priority::Prefetch);
        }
    }

    /// A task leaves its lane: it is done, or lacks the `missing` pages.
    fn leave(&mut self, lane: usize, slot: Box<TaskSlot<W::Task>>, missing: Vec<PageId>) {
        if self.shared.stop.load(Relaxed) {
            return;
        }
        if missing.is_empty() {
            self.finish(lane, slot);
        } else {
            self.park(lane, slot, &missing);
        }
    }

    fn finish(&mut self, lane: usize, mut slot: Box<TaskSlot<W::Task>>) {
        let s = self.shared;
        s.let_pages_go(&mut slot);
        let bytes = self.work.bytes(&slot.body.task) + self.work.finishing(&slot.body.task);
        let Some(slot) = self.charge(slot, bytes, "the result of a line") else { return };
        let ActiveTask { number, window, body, .. } = *slot;
        self.telling.left(&s.pager, lane, number, Did::End, window, 0);
        if let Err(e) = self.work.finish(body.task) {
            s.fail(e);
        }
        if W::WINDOWED {
            s.retire(body.charge);
        } else {
            self.keep(body.charge);
        }
        let passed = s.finished(window);
        self.passed(passed);
    }

    /// Parks a task and requests its absent pages.
    fn park(&mut self, lane: usize, mut slot: Box<TaskSlot<W::Task>>, missing: &[PageId]) {
        let s = self.shared;
        s.restarts.fetch_add(1, Relaxed);
        if core::mem::take(&mut self.outcomes[lane].moved) {
            match self.work.holds() {
                0 => s.stepped(&mut slot),
                _ => slot.body.wanted.go_on(),
            }
        }
        slot.restarts += 1;
        let in_vain = slot.body.wanted.add(missing);
        let first = slot.restarts == 1;
        if W::WINDOWED {
            // It may wait for long, as many others do.
            let bytes = self.work.bytes(&slot.body.task) + slot.body.wanted.bytes();
            let Some(charged) = self.charge(slot, bytes, "a line under way") else { return };
            slot = charged;
        }
        let may = slot.body.hold.is_none() && slot.restarts > PATIENCE;
        let becomes = may && s.lock().scheduler.make_elder(slot.number);
        s.elders.fetch_add(u64::from(becomes), Relaxed);
        if becomes || slot.body.hold.is_some() {
            slot.body.hold = Some(Box::new(s.pager.hold(slot.body.wanted.held(self.work.holds()))));
        }
        slot.place = self.place(&slot);
        let (number, window, at) = (slot.number, slot.window, slot.neighbourhood());
        // Parked before the request: the wake may come at once, from any thread.
        let token = {
            let mut q = s.lock();
            let token = q.scheduler.park(slot);
            // Tasks of its neighbourhood would lack the same pages.
            for _ in 0..self.mine.len() {
                match self.mine.pop_front() {
                    Some(waiting) if waiting.is_fresh_at(at) => q.scheduler.push(waiting),
                    other => self.mine.extend(other),
                }
            }
            token
        };
        self.telling.left(&s.pager, lane, number, Did::Wait, window, token as u64);
        if s.pager.request(missing, token as u64, &self.wake, Priority::Demand) == Requested::Pending {
            if !W::WINDOWED {
                s.lock().scheduler.note_wait(first, in_vain);
            }
            return;
        }
        // No wake comes.
        s.lock().scheduler.wake_first(token);
        // Threads may sleep that found enough tasks waiting, or its neighbourhood shut.
        s.notify_waiting();
    }
}
