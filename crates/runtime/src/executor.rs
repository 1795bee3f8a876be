//! Runs many restartable tasks on a few threads: a step that finds pages absent parks its task under them, and the thread
//! goes on with another.
//!
//! # What keeps it from starving
//! 1. How many tasks are active follows from what fits ([`RunLoad::active`]); a task's state is made when it is admitted.
//! 2. A parked task holds no pins, except the *elder*: one task at a time whose step was restarted three times for pages
//!    that had gone again. Its pages are held until the step succeeds, out of a reserve that is checked before the run.
//! 3. A task whose state finds no memory any more is dropped and begun again later, when fewer are active: its answer depends on
//!    nothing but its number. So are those that a lowered limit has no room for.
//! 4. When nothing moves (no task is ready, no page is on its way, memory is full), tasks are dropped, at last all of them. The run
//!    ends with what it needs when a single task, begun again with all the memory to itself, does not move either.
//!
//! # Time
//! Tasks of a run through time are ordered by [windows](Work::window), and the run says which windows it has passed; see `ready.rs`.
//!
//! # Practice
//! A thread steps several tasks at a time ([`LANES`]): the same instructions serve them all, and one's cache lines travel while
//! another computes.

mod adjust;
mod concurrency;
mod located_tasks;
mod new_tasks;
mod packed_tasks;
mod parked;
mod read_ahead;
mod ready;
mod scheduler;
mod task_events;
mod task_memory;
mod work;

use field::error::FieldError;
use field::locator::LANES;
use kernels::streamline::StepProgress;
pub use packed_tasks::OF_RECORD;
use packed_tasks::{Hands, Records, WaitingTask};
use pager::{Did, PageId, Pager, Priority, Requested, Wake, Worker};
use parked::Parked;
use read_ahead::Ahead;
pub use read_ahead::Nobody;
use ready::ReadyTasks;
use scheduler::{Leaving, Next, Scheduler, TaskSlot};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use task_events::Telling;
use task_memory::{stacks, too_small, Refused};
pub use work::{Outcome, RunLoad, RunStats, Work};

/// Rounds of steps before a thread looks for completed reads, other tasks, or a stop.
const ROUNDS: usize = 256;
/// Restarts of one step before its task may become the elder.
const PATIENCE: u32 = 3;
/// Rounds between looks at the size of a task's state.
const CHARGE_ROUNDS: usize = 16;
/// Progress is told, and an interruption noticed, this often.
const TELL_EVERY: Duration = Duration::from_millis(80);
/// Tasks of a run through time that a thread takes up and hands back together, at most: they are neighbours, and what two threads
/// share is touched once for all of them. One by one, 10,000 particles in 200 windows took two threads 12.0 s of processor time
/// where one alone took 7.8.
const TOGETHER: usize = 32;
/// A task's state is charged anew when it has grown by this much: what a dozen of them have not been charged with yet must be little at
/// the smallest limits, too.
const CHARGE_STEP: usize = 8 << 10;

/// Runs all tasks of `work`. `watch` is called on the calling thread about ten times a second with the number of finished
/// tasks; when it returns false the run stops.
///
/// # Errors
/// The first error of a task; [`FieldError::LimitTooSmall`] when a step does not fit; [`FieldError::Interrupted`], also when it is
/// [time](Work::until).
pub fn run<W: Work>(
    work: &W,
    pager: &Arc<Pager>,
    load: RunLoad,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<RunStats, FieldError>
where
    W::Task: 'static,
{
    let began = Instant::now();
    let (workers, _stacks) = stacks(pager, load.workers.max(1));
    let load = RunLoad { workers, ..load };
    let nobody: Arc<dyn Wake> = Arc::new(Nobody);
    let ready = ReadyTasks::new(W::WINDOWED, Records::new(work.record_bytes(), pager));
    let shared: Arc<Scheduler<W::Task>> = Arc::new(Scheduler::new(pager, &load, ready, work.in_runs()));
    // All of them before the first thread fills the memory: what a worker costs is charged when it is made.
    let pins: Vec<Worker> = (0..workers).map(|_| pager.worker()).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = pins
            .into_iter()
            .enumerate()
            .map(|(n, worker)| {
                let (shared, nobody) = (shared.clone(), nobody.clone());
                std::thread::Builder::new().name(format!("farfield-{n}")).spawn_scoped(scope, move || {
                    let _leaving = Leaving(&shared);
                    Thread::new(work, &shared, (n, worker), load, nobody).run();
                })
            })
            .collect();
        for t in threads {
            if let Err(e) = t {
                shared.fail(FieldError::System(format!("cannot start a thread: {e}; try fewer --workers")));
                shared.live.fetch_sub(1, SeqCst);
            }
        }
        let (mut looked, mut until) = (Instant::now(), work.until());
        while shared.live.load(SeqCst) > 0 {
            // The last thread ends this wait.
            let left = until.map_or(Duration::MAX, |t| t.saturating_duration_since(Instant::now()));
            std::thread::park_timeout(TELL_EVERY.saturating_sub(looked.elapsed()).min(left));
            if until.is_some_and(|t| Instant::now() >= t) {
                until = None;
                shared.fail(FieldError::Interrupted);
            }
            if looked.elapsed() >= TELL_EVERY {
                looked = Instant::now();
                if !watch(shared.done.load(Relaxed)) {
                    shared.fail(FieldError::Interrupted);
                }
            }
        }
    });
    let wake: Arc<dyn Wake> = shared.clone();
    pager.cancel(&wake);
    pager.cancel(&nobody);
    shared.release_retired();
    let mut q = shared.lock();
    // Pages that others want, too, are still read, and their requests hold `shared`, but no task any more. These are freed under no
    // lock: who waits for memory may be woken by it.
    let ready = core::mem::replace(&mut q.ready, ReadyTasks::new(W::WINDOWED, Records::new(0, pager)));
    let parked = core::mem::replace(&mut q.parked, Parked::new());
    let error = q.error.take();
    drop(q);
    drop((ready, parked));
    if let Some(e) = error {
        return Err(e);
    }
    Ok(RunStats {
        wall_s: began.elapsed().as_secs_f64(),
        wait_s: shared.waited_us.load(Relaxed) as f64 * 1e-6 / workers as f64,
        restarts: shared.restarts.load(Relaxed),
        elders: shared.elders.load(Relaxed),
        dropped: shared.dropped.load(Relaxed),
        steps: shared.steps.load(Relaxed),
    })
}

struct Thread<'a, W: Work> {
    work: &'a W,
    /// Counted from 0.
    number: usize,
    shared: &'a Arc<Scheduler<W::Task>>,
    wake: Arc<dyn Wake>,
    /// Asks for what is read ahead.
    nobody: Arc<dyn Wake>,
    context: W::Context,
    load: RunLoad,
    lanes: [Option<Box<TaskSlot<W::Task>>>; LANES],
    /// Tasks that this thread has taken up and that wait for a lane.
    mine: VecDeque<WaitingTask<W::Task>>,
    /// Tasks that came to another window, with the one that the queue knows.
    turned: Vec<(u32, WaitingTask<W::Task>)>,
    hands: Hands,
    outcomes: [Outcome; LANES],
    steps: u64,
    /// Pages that were asked for ahead of their use, in this window and the one before: they need not be asked for again.
    ahead: Ahead,
    telling: Telling,
}

impl<'a, W: Work> Thread<'a, W>
where
    W::Task: 'static,
{
    fn new(
        work: &'a W,
        shared: &'a Arc<Scheduler<W::Task>>,
        (number, worker): (usize, Worker),
        load: RunLoad,
        nobody: Arc<dyn Wake>,
    ) -> Self {
        let wake: Arc<dyn Wake> = shared.clone();
        let context = work.context_of(number, worker);
        let fresh = || Outcome { progress: StepProgress::Yield, missing: Vec::new(), moved: false };
        let outcomes = core::array::from_fn(|_| fresh());
        let (lanes, ahead) = ([const { None }; LANES], Ahead::new());
        let (mine, turned, hands) = (VecDeque::new(), Vec::new(), Hands::new(&shared.pager));
        let steps = 0;
        Self {
            work,
            number,
            shared,
            wake,
            nobody,
            context,
            load,
            lanes,
            mine,
            turned,
            hands,
            outcomes,
            steps,
            ahead,
            telling: Telling::new(&shared.pager),
        }
    }

    fn run(&mut self) {
        let s = self.shared;
        while !s.stop.load(Relaxed) {
            while s.pager.work() {}
            self.follow();
            for lane in 0..LANES {
                if self.lanes[lane].is_none() {
                    match self.take() {
                        // What came of the last step in this lane was another task's.
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
                if s.done.load(SeqCst) >= self.load.tasks {
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

    /// A ready task, or a new one while there is room for its state.
    fn take(&mut self) -> Option<Box<TaskSlot<W::Task>>> {
        let s = self.shared;
        if let Some(waiting) = self.mine.pop_front() {
            self.prefetch(LANES - 1..LANES);
            return self.take_up(waiting);
        }
        self.hand_back();
        let next = {
            let mut q = s.lock();
            let mut next = q.next(self.number, W::WINDOWED)?;
            if let (true, Next::Ready(first)) = (W::WINDOWED, &mut next) {
                // The other threads get their share, and no more are taken than may wait.
                let workers = self.load.workers.max(1);
                let waiting = q.fitting.0 / (LANES * workers);
                let more = (q.ready.in_first() / (2 * workers)).min(TOGETHER).min(waiting);
                self.mine.extend((1..more).map_while(|_| q.ready.pop()));
                self.hands.take(first, &mut self.mine, &mut q.ready.records);
            }
            next
        };
        let number = match next {
            Next::Ready(waiting) => {
                self.prefetch(0..LANES);
                return self.take_up(waiting);
            }
            Next::Begin(number) => number,
        };
        let task = match self.work.admit(number) {
            Ok(task) => task,
            Err(e) => {
                s.fail(e);
                return None;
            }
        };
        let bytes = self.work.bytes(&task);
        let mut charge = self.kept(bytes as u64);
        match self.begin(|_| charge.grow(bytes as u64)) {
            Ok(()) => {
                let place = if W::WINDOWED { 0 } else { self.number as u64 };
                let (restarts, wanted, behind, hold, window) = (0, Vec::new(), 0, None, 0);
                Some(Box::new(TaskSlot { number, task, charge, restarts, wanted, behind, hold, window, place }))
            }
            Err(Refused { full, alone: true, .. }) => {
                s.fail(too_small(full, "the state of a line"));
                None
            }
            Err(_) => {
                drop((task, charge));
                s.again(&[(number, 0)]);
                None
            }
        }
    }

    /// Has the processor load what some of those that this thread takes next will read: a particle that begins a window reads some twenty
    /// lines that no other has read, and waited for them for a quarter of the time.
    fn prefetch(&mut self, which: core::ops::Range<usize>) {
        for waiting in self.mine.range(which.start.min(self.mine.len())..which.end.min(self.mine.len())) {
            match waiting {
                WaitingTask::Whole(slot) => self.work.prefetch(&mut self.context, &slot.task),
                WaitingTask::Away(away) => {
                    self.work.prefetch_away(&mut self.context, away.window, self.hands.taken(away));
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
            // Asked twice: a release may have been on its way.
            s.pager.idle(Duration::from_millis(20));
            // Those that wait here have found the same: one of them decides.
            let _judge = pager::spin_lock::lock(&s.judge);
            let idle = s.waiting.load(SeqCst) == s.live.load(SeqCst) && {
                let q = s.lock();
                (q.ready.none() || q.enough_wait()) && q.active > 0
            };
            if idle && s.dropped.load(SeqCst) == dropped && s.limit.load(SeqCst) == s.pager.ledger().limit() {
                // What others have let go of since.
                self.release_kept();
                if let Some(full) = s.pager.stalled() {
                    if !s.make_room() {
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

    /// Steps of all lanes, until one of them is done or lacks pages.
    fn rounds(&mut self) {
        for round in 0..ROUNDS {
            self.work.worker(&mut self.context).begin_step();
            let tasks = self.lanes.each_mut().map(|l| l.as_mut().map(|slot| &mut slot.task));
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

    /// Takes note of a step; false when its task cannot go on here: it is done, lacks pages, or has come to another window.
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
        if W::WINDOWED && self.work.window(&slot.task) != slot.window {
            return false;
        }
        if !charge {
            return true;
        }
        let bytes = self.work.bytes(&slot.task);
        // Of thousands of tasks that go together each counts.
        if bytes <= slot.charged() + if W::WINDOWED { 0 } else { CHARGE_STEP } {
            return true;
        }
        let Some(slot) = self.lanes[lane].take() else { return false };
        self.lanes[lane] = self.charge(slot, bytes, "a line under way");
        self.lanes[lane].is_some()
    }

    /// A task that has come to another window: others may have to go first.
    fn turn(&mut self, lane: usize, mut slot: Box<TaskSlot<W::Task>>) {
        let s = self.shared;
        let window = self.work.window(&slot.task);
        if let Err(e) = self.work.turned(&mut self.context, lane, &mut slot.task, &mut self.ahead.pages) {
            return s.fail(e);
        }
        self.telling.left(&s.pager, lane, slot.number, Did::Turn, window, 0);
        self.ahead.take_new(window, |page, pages| self.work.of_page(window, page, pages));
        let from = core::mem::replace(&mut slot.window, window);
        slot.place = self.place(&slot);
        let waiting = match self.put_away(slot) {
            WaitingTask::Whole(mut slot) => {
                let bytes = self.work.bytes(&slot.task);
                // Should it be dropped, it is still counted where it came from.
                slot.window = from;
                let Some(mut slot) = self.charge(slot, bytes, "a line under way") else { return };
                slot.window = window;
                self.hands.shrink(&mut slot.charge, bytes as u64);
                WaitingTask::Whole(slot)
            }
            away => away,
        };
        self.turned.push((from, waiting));
        if self.ahead.are_many() {
            self.ask_ahead();
        }
        // Where others have nothing to do, or this thread may not look here again for long, at once.
        if self.turned.len() >= TOGETHER || self.mine.is_empty() || s.waiting.load(Relaxed) > 0 {
            self.hand_back();
        }
    }

    /// Hands back the tasks that came to another window.
    fn hand_back(&mut self) {
        let Some(latest) = self.turned.iter().map(|(_, waiting)| waiting.window()).max() else { return };
        let s = self.shared;
        let (passed, others) = {
            let mut q = s.lock();
            for (from, waiting) in self.turned.drain(..) {
                q.ready.turned(from, waiting.window());
                self.hands.hand_back(&waiting, &mut q.ready.records);
                q.push(waiting);
            }
            self.hands.handed_back();
            (q.ready.passed(), q.ready.any_before(latest))
        };
        self.passed(passed);
        if s.waiting.load(Relaxed) > 0 {
            s.pager.notify();
        }
        // Where no other task goes first, one of these may be the next that goes on.
        if !others && self.mine.is_empty() {
            self.ask_ahead();
        }
    }

    /// Where a task is: of those that go through time in the data, and one that has not found its place has one for itself; of others the
    /// thread that steps it.
    fn place(&self, slot: &TaskSlot<W::Task>) -> u64 {
        if W::WINDOWED {
            self.work.place(&slot.task).unwrap_or(slot.number << parked::WITHIN)
        } else {
            self.number as u64
        }
    }

    /// Asks for what tasks that came to another window will want.
    fn ask_ahead(&mut self) {
        let (pager, nobody) = (&self.shared.pager, &self.nobody);
        self.ahead.ask(|pages| {
            // Nobody waits for them, whether they come at once or later.
            let _asked = pager.request(pages, 0, nobody, Priority::Prefetch);
        });
    }

    /// Tells the work that the run has come to another window, if it has.
    fn passed(&mut self, window: Option<u32>) {
        let Some(window) = window else { return };
        let s = self.shared;
        self.ask_ahead();
        let ahead = self.work.passed(window);
        let limit = s.limit.load(SeqCst);
        let waiting = self.work.waiting(limit);
        let mut q = s.lock();
        // Under another limit whoever follows it says so.
        if s.limit.load(SeqCst) == limit {
            q.may_wait(waiting);
        }
        drop(q);
        if s.waiting.load(Relaxed) > 0 {
            s.pager.notify();
        }
        if !ahead.is_empty() {
            s.pager.request(&ahead, 0, &self.nobody, Priority::Prefetch);
        }
    }

    /// A task that cannot go on: it is done, or `missing` says what it lacks.
    fn leave(&mut self, lane: usize, mut slot: Box<TaskSlot<W::Task>>, missing: Vec<PageId>) {
        let s = self.shared;
        if s.stop.load(Relaxed) {
            return;
        }
        if missing.is_empty() {
            if slot.hold.take().is_some() {
                s.elder.store(false, SeqCst);
            }
            let bytes = self.work.bytes(&slot.task) + self.work.finishing(&slot.task);
            let Some(slot) = self.charge(slot, bytes, "the result of a line") else { return };
            let TaskSlot { task, charge, window, number, .. } = *slot;
            self.telling.left(&s.pager, lane, number, Did::End, window, 0);
            if let Err(e) = self.work.finish(task) {
                s.fail(e);
            }
            if W::WINDOWED {
                s.retire(charge);
            } else {
                self.keep(charge);
            }
            let passed = s.finished(window, self.load.tasks);
            self.passed(passed);
            return;
        }
        s.restarts.fetch_add(1, Relaxed);
        if core::mem::take(&mut self.outcomes[lane].moved) {
            match self.work.holds() {
                0 => s.stepped(&mut slot),
                _ => slot.behind = slot.wanted.len(),
            }
        }
        slot.restarts += 1;
        let in_vain = slot.wants(&missing);
        let first = slot.restarts == 1;
        if W::WINDOWED {
            // It may wait for long, as many others do.
            let bytes = self.work.bytes(&slot.task) + slot.wanted_bytes();
            let Some(charged) = self.charge(slot, bytes, "a line under way") else { return };
            slot = charged;
        }
        let becomes = slot.hold.is_none() && slot.restarts > PATIENCE && !s.elder.swap(true, SeqCst);
        s.elders.fetch_add(u64::from(becomes), Relaxed);
        if becomes || slot.hold.is_some() {
            slot.hold = Some(Box::new(s.pager.hold(slot.held(self.work.holds()))));
        }
        slot.place = self.place(&slot);
        let (number, window) = (slot.number, slot.window);
        // Parked before the pages are asked for: the wake may come at once, from any thread.
        let token = {
            let mut q = s.lock();
            let neighbourhood = slot.place >> parked::WITHIN;
            let token = q.park(slot);
            // Those beside it would lack the same pages.
            for _ in 0..self.mine.len() {
                match self.mine.pop_front() {
                    Some(waiting) if waiting.is_fresh_at(window, neighbourhood) => q.push(waiting),
                    other => self.mine.extend(other),
                }
            }
            token
        };
        self.telling.left(&s.pager, lane, number, Did::Wait, window, token as u64);
        if s.pager.request(&missing, token as u64, &self.wake, Priority::Demand) == Requested::Pending {
            if !W::WINDOWED {
                s.lock().note_wait(first, in_vain);
            }
            return;
        }
        // No wake comes.
        let mut q = s.lock();
        if let Some(waiting) = q.wake(token) {
            q.push_first(waiting);
        }
        drop(q);
        // Who found that enough wait, or the others beside it kept back, may sleep.
        if s.waiting.load(Relaxed) > 0 {
            s.pager.notify();
        }
    }
}
