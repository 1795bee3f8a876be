//! Runs many restartable tasks on a few threads: a step that finds pages absent parks its task under them, and the thread
//! goes on with another.
//!
//! # What keeps it from starving
//! 1. How many tasks are active follows from what fits ([`Load::active`]); a task's state is made when it is admitted.
//! 2. A parked task holds no pins, except the *elder*: one task at a time whose step was restarted three times for pages
//!    that had gone again. Its pages are held until the step succeeds, out of a reserve that is checked before the run.
//! 3. A task whose state finds no memory any more is dropped and begun again later, when fewer are active: its answer depends on
//!    nothing but its number. So are those that a lowered limit has no room for.
//! 4. When nothing moves (no task is ready, no page is on its way, memory is full), tasks are dropped, at last all of them. The run
//!    ends with what it needs when a single task, begun again with all the memory to itself, does not move either.
//!
//! # Practice
//! A thread steps several tasks at a time ([`LANES`]): the same instructions serve them all, and one's cache lines travel while
//! another computes.

mod shared;

use field::error::FieldError;
use field::space::LANES;
use kernels::streamline::Progress;
use pager::{ChargeKind, Full, PageId, Pager, Priority, Requested, Wake, Worker};
use shared::{Leaving, Shared, Slot};
use std::sync::atomic::Ordering::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rounds of steps before a thread looks for completed reads, other tasks, or a stop.
const ROUNDS: usize = 256;
/// Restarts of one step before its task may become the elder.
const PATIENCE: u32 = 3;
/// Rounds between looks at the size of a task's state.
const CHARGE_ROUNDS: usize = 16;
/// Progress is told, and an interruption noticed, this often.
const TELL_EVERY: Duration = Duration::from_millis(80);
/// A refused charge is tried again for this long: pins are let go within microseconds, reads over a network take a part of a second.
const CHARGE_PATIENCE: Duration = Duration::from_secs(2);
/// Tasks that nobody steps make way for a charge that was refused for this long, and then for twice as long each time.
const MAKE_WAY: Duration = Duration::from_millis(10);
/// A task's state is charged anew when it has grown by this much.
const CHARGE_STEP: usize = 64 << 10;

/// A kind of task.
pub trait Work: Sync {
    /// The task.
    type Task: Send;
    /// What a thread needs to step tasks.
    type Context;
    /// Makes a thread's context.
    fn context(&self, worker: Worker) -> Self::Context;
    /// The pager's part of a context.
    fn worker<'c>(&self, context: &'c mut Self::Context) -> &'c mut Worker;
    /// Makes task number `n` in the order of admission.
    ///
    /// # Errors
    /// Anything; it ends the run.
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError>;
    /// One restartable step of each task that is there; what came of it goes to the outcome of the same number, whose `missing`
    /// is empty before.
    fn steps(
        &self,
        context: &mut Self::Context,
        tasks: [Option<&mut Self::Task>; LANES],
        outcomes: &mut [Outcome; LANES],
    );
    /// Bytes that a task holds now.
    fn bytes(&self, task: &Self::Task) -> usize;
    /// Bytes that [`Work::finish`] takes for a moment beside what the task holds.
    fn finishing(&self, _task: &Self::Task) -> usize {
        0
    }
    /// The memory limit is `limit` bytes now (told at the beginning, too): gives back what is too much under it, and says how many
    /// tasks may be active at most.
    ///
    /// # Errors
    /// Anything; it ends the run.
    fn resized(&self, _limit: u64, active: usize) -> Result<usize, FieldError> {
        Ok(active)
    }
    /// Takes a finished task's result.
    ///
    /// # Errors
    /// Anything; it ends the run.
    fn finish(&self, task: Self::Task) -> Result<(), FieldError>;
}

/// What came of a step.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How far the task is.
    pub progress: Progress,
    /// Pages found absent, where that is why.
    pub missing: Vec<PageId>,
}

/// How much may be under way.
#[derive(Copy, Clone, Debug)]
pub struct Load {
    /// Number of tasks.
    pub tasks: u64,
    /// Threads.
    pub workers: usize,
    /// Tasks active at most, unless [`Work::resized`] says otherwise.
    pub active: usize,
}

/// What a run took.
#[derive(Copy, Clone, Debug, Default)]
pub struct RunStats {
    /// Wall time.
    pub wall_s: f64,
    /// Time in which threads had nothing to do, a thread.
    pub wait_s: f64,
    /// Steps that found pages absent.
    pub restarts: u64,
    /// Times that a task became the elder.
    pub elders: u64,
    /// Tasks that were dropped for lack of memory and begun again.
    pub dropped: u64,
    /// Steps.
    pub steps: u64,
}

/// Runs all tasks of `work`. `watch` is called on the calling thread about ten times a second with the number of finished
/// tasks; when it returns false the run stops.
///
/// # Errors
/// The first error of a task; [`FieldError::LimitTooSmall`] when a step does not fit; [`FieldError::Interrupted`].
pub fn run<W: Work>(
    work: &W,
    pager: &Arc<Pager>,
    load: Load,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<RunStats, FieldError>
where
    W::Task: 'static,
{
    let began = Instant::now();
    let workers = load.workers.max(1);
    let shared: Arc<Shared<W::Task>> = Arc::new(Shared::new(pager, load.active, workers));
    // All of them before the first thread fills the memory: what a worker costs is charged when it is made.
    let pins: Vec<Worker> = (0..workers).map(|_| pager.worker()).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = pins
            .into_iter()
            .enumerate()
            .map(|(n, worker)| {
                let shared = shared.clone();
                std::thread::Builder::new().name(format!("farfield-{n}")).spawn_scoped(scope, move || {
                    let _leaving = Leaving(&shared);
                    Thread::new(work, &shared, worker, load).run();
                })
            })
            .collect();
        for t in threads {
            if let Err(e) = t {
                shared.fail(FieldError::Usage(format!("cannot start a thread: {e}")));
                shared.live.fetch_sub(1, SeqCst);
            }
        }
        let mut looked = Instant::now();
        while shared.live.load(SeqCst) > 0 {
            // The last thread ends this wait.
            std::thread::park_timeout(TELL_EVERY.saturating_sub(looked.elapsed()));
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
    let mut q = shared.lock();
    // Pages that others want, too, are still read, and their requests hold `shared`, but no task any more.
    (q.ready, q.parked) = Default::default();
    if let Some(e) = q.error.take() {
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
    shared: &'a Arc<Shared<W::Task>>,
    wake: Arc<dyn Wake>,
    context: W::Context,
    load: Load,
    lanes: [Option<Box<Slot<W::Task>>>; LANES],
    outcomes: [Outcome; LANES],
    steps: u64,
}

impl<'a, W: Work> Thread<'a, W>
where
    W::Task: 'static,
{
    fn new(work: &'a W, shared: &'a Arc<Shared<W::Task>>, worker: Worker, load: Load) -> Self {
        let wake: Arc<dyn Wake> = shared.clone();
        let context = work.context(worker);
        let outcomes = core::array::from_fn(|_| Outcome { progress: Progress::Yield, missing: Vec::new() });
        Self { work, shared, wake, context, load, lanes: [const { None }; LANES], outcomes, steps: 0 }
    }

    fn run(&mut self) {
        let s = self.shared;
        while !s.stop.load(Relaxed) {
            while s.pager.work() {}
            self.follow();
            for lane in 0..LANES {
                if self.lanes[lane].is_none() {
                    match self.take() {
                        Some(slot) => self.lanes[lane] = Some(slot),
                        None => break,
                    }
                }
            }
            if self.lanes.iter().all(Option::is_none) {
                if s.done.load(SeqCst) >= self.load.tasks {
                    break;
                }
                self.wait();
                continue;
            }
            self.rounds();
        }
        s.steps.fetch_add(self.steps, Relaxed);
        self.lanes = [const { None }; LANES];
        self.work.worker(&mut self.context).release();
        s.pager.notify();
    }

    /// Takes note of a memory limit that has changed.
    fn follow(&mut self) {
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
        match self.work.resized(limit, self.load.active) {
            Ok(most) => s.allow(most),
            Err(e) => s.fail(e),
        }
    }

    /// A ready task, or a new one while there is room for its state.
    fn take(&mut self) -> Option<Box<Slot<W::Task>>> {
        let s = self.shared;
        let number = {
            let mut q = s.lock();
            if let Some(slot) = q.ready.pop_front() {
                return Some(slot);
            }
            q.number(self.load.tasks)?
        };
        let task = match self.work.admit(number) {
            Ok(task) => task,
            Err(e) => {
                s.fail(e);
                return None;
            }
        };
        let bytes = self.work.bytes(&task);
        match self.begin(|pager| pager.charge(ChargeKind::Tasks, bytes as u64)) {
            Ok(charge) => {
                let (restarts, wanted, hold) = (0, Vec::new(), None);
                Some(Box::new(Slot { number, task, charge, charged: bytes, restarts, wanted, hold }))
            }
            Err(Refused { full, alone: true }) => {
                s.fail(too_small(full, "the state of a line"));
                None
            }
            Err(_) => {
                drop(task);
                s.again(&[number]);
                None
            }
        }
    }

    fn wait(&mut self) {
        let s = self.shared;
        self.work.worker(&mut self.context).release();
        // This thread has no task, and no pins.
        s.waiting.fetch_add(1, SeqCst);
        let began = Instant::now();
        if s.pager.stalled().is_some() {
            let dropped = s.dropped.load(SeqCst);
            // Asked twice: a release may have been on its way.
            s.pager.idle(Duration::from_millis(20));
            // Those that wait here have found the same: one of them decides.
            let _judge = pager::patient::lock(&s.judge);
            let idle = s.waiting.load(SeqCst) == s.live.load(SeqCst) && {
                let q = s.lock();
                q.ready.is_empty() && q.active > 0
            };
            if idle && s.dropped.load(SeqCst) == dropped && s.limit.load(SeqCst) == s.pager.ledger().limit() {
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
        s.waited_us.fetch_add(began.elapsed().as_micros() as u64, Relaxed);
    }

    /// Steps of all lanes, until one of them is done or lacks pages.
    fn rounds(&mut self) {
        for round in 0..ROUNDS {
            self.work.worker(&mut self.context).begin_step();
            let tasks = self.lanes.each_mut().map(|l| l.as_mut().map(|slot| &mut slot.task));
            self.work.steps(&mut self.context, tasks, &mut self.outcomes);
            let mut left = false;
            for lane in 0..LANES {
                if self.lanes[lane].is_some() && !self.stays(lane, round % CHARGE_ROUNDS == 0) {
                    left = true;
                    if let Some(slot) = self.lanes[lane].take() {
                        let missing = core::mem::take(&mut self.outcomes[lane].missing);
                        self.leave(slot, missing);
                    }
                }
            }
            if left {
                return;
            }
        }
    }

    /// Takes note of a step; false when its task cannot go on here: it is done, or lacks pages.
    #[inline(always)]
    fn stays(&mut self, lane: usize, charge: bool) -> bool {
        self.steps += 1;
        if self.outcomes[lane].progress != Progress::Yield {
            return false;
        }
        let Some(slot) = &mut self.lanes[lane] else { return false };
        if slot.restarts > 0 {
            self.shared.stepped(slot);
        }
        if !charge {
            return true;
        }
        let bytes = self.work.bytes(&slot.task);
        if bytes <= slot.charged + CHARGE_STEP {
            return true;
        }
        let Some(mut slot) = self.lanes[lane].take() else { return false };
        let grown = self.insist(|_| slot.charge.grow(bytes as u64));
        slot.charged = bytes;
        match grown {
            Ok(()) => {
                self.lanes[lane] = Some(slot);
                return true;
            }
            Err(Refused { full, alone: true }) => self.shared.fail(too_small(full, "a line under way")),
            Err(_) => self.shared.dropped(vec![slot]),
        }
        false
    }

    /// Charges the state of a task that is to begin. That is worth no wait, unless there is no other task.
    fn begin<T>(&mut self, mut charge: impl FnMut(&Pager) -> Result<T, Full>) -> Result<T, Refused> {
        let s = self.shared;
        let began = Instant::now();
        loop {
            match self.charged(&mut charge) {
                Err(r) if r.alone && began.elapsed() < self.patience() && !s.stop.load(Relaxed) => nap(),
                other => return other,
            }
        }
    }

    /// Charges something for a task that has got far. First workers let go of what they pinned in their last steps, and pages in
    /// flight come and can be given up. Then tasks go that nobody steps: this one has more to lose, or is done. Of two threads that
    /// insist the second gives up its task.
    fn insist<T>(&mut self, mut charge: impl FnMut(&Pager) -> Result<T, Full>) -> Result<T, Refused> {
        let s = self.shared;
        let mut refused = match self.charged(&mut charge) {
            Ok(done) => return Ok(done),
            Err(r) => r,
        };
        let first = s.insists.try_lock();
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
        Err(refused)
    }

    /// One attempt, for which this thread lets go of what it can.
    fn charged<T>(&mut self, charge: &mut impl FnMut(&Pager) -> Result<T, Full>) -> Result<T, Refused> {
        let s = self.shared;
        if let Ok(done) = charge(&s.pager) {
            return Ok(done);
        }
        s.pager.press();
        self.work.worker(&mut self.context).release();
        while s.pager.work() {}
        // Looked at before: what the last of the others held is free when the charge is tried.
        let alone = s.alone();
        charge(&s.pager).map_err(|full| Refused { full, alone })
    }

    /// Hands back the tasks in this thread's lanes, and drops half of those that nobody steps. False when there are none, and none
    /// in another thread's lanes either.
    fn make_way(&mut self) -> bool {
        for (lane, outcome) in self.lanes.iter_mut().zip(&mut self.outcomes) {
            // Those that are done stay: they are about to be handed over.
            if outcome.progress == Progress::Done {
                continue;
            }
            if let Some(mut slot) = lane.take() {
                // What a step lacked is found again by the next; one that was made is noted.
                outcome.missing.clear();
                if outcome.progress == Progress::Yield {
                    self.shared.stepped(&mut slot);
                }
                self.shared.lock().ready.push_front(slot);
            }
        }
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

    /// A task that cannot go on: it is done, or `missing` says what it lacks.
    fn leave(&mut self, mut slot: Box<Slot<W::Task>>, missing: Vec<PageId>) {
        let s = self.shared;
        if s.stop.load(Relaxed) {
            return;
        }
        if missing.is_empty() {
            if slot.hold.take().is_some() {
                s.elder.store(false, SeqCst);
            }
            let bytes = self.work.bytes(&slot.task) + self.work.finishing(&slot.task);
            if bytes > slot.charged {
                match self.insist(|_| slot.charge.grow(bytes as u64)) {
                    Ok(()) => {}
                    Err(Refused { full, alone: true }) => return s.fail(too_small(full, "the result of a line")),
                    Err(_) => return s.dropped(vec![slot]),
                }
            }
            let Slot { task, charge, .. } = *slot;
            if let Err(e) = self.work.finish(task) {
                s.fail(e);
            }
            drop(charge);
            s.finished(self.load.tasks);
            return;
        }
        s.restarts.fetch_add(1, Relaxed);
        slot.restarts += 1;
        for p in &missing {
            if !slot.wanted.contains(p) {
                slot.wanted.push(*p);
            }
        }
        if slot.hold.is_some() {
            slot.hold = Some(s.pager.hold(&slot.wanted));
        } else if slot.restarts > PATIENCE && !s.elder.swap(true, SeqCst) {
            s.elders.fetch_add(1, Relaxed);
            slot.hold = Some(s.pager.hold(&slot.wanted));
        }
        // Parked before the pages are asked for: the wake may come at once, from any thread.
        let token = {
            let mut q = s.lock();
            let at = match q.free.pop() {
                Some(n) => n,
                None => {
                    q.parked.push(None);
                    q.parked.len() - 1
                }
            };
            q.parked[at] = Some(slot);
            at
        };
        if s.pager.request(&missing, token as u64, &self.wake, Priority::Demand) == Requested::Ready {
            let mut q = s.lock();
            // No wake comes.
            q.free.push(token);
            if let Some(slot) = q.parked[token].take() {
                q.ready.push_front(slot);
            }
        }
    }
}

/// A charge that was refused to the end.
struct Refused {
    full: Full,
    /// No other task held any memory.
    alone: bool,
}

/// A moment in which other threads let go of something.
fn nap() {
    std::thread::sleep(Duration::from_millis(1));
}

fn too_small(full: pager::Full, what: &str) -> FieldError {
    FieldError::LimitTooSmall { limit: full.limit, needs: full.limit.saturating_add(full.needs), what: what.to_owned() }
}
