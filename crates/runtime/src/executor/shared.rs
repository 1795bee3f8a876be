//! State that the threads of a run share: the tasks that no thread has, under one lock, and counts.

use super::body::{Body, TaskSlot};
use super::records::Records;
use super::scheduler::{Gone, Scheduler, SchedulerPlan};
use crate::process;
use field::error::FieldError;
use pager::{Charge, Pager, Wake};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};

/// The state under the lock.
pub(crate) struct Queue<T> {
    pub(crate) scheduler: Scheduler<Body<T>>,
    /// The bytes of packed tasks.
    pub(crate) records: Records,
    error: Option<FieldError>,
}

impl<T> Queue<T> {
    fn new(plan: SchedulerPlan, record_bytes: usize, pager: &Pager) -> Self {
        Self { scheduler: Scheduler::new(plan), records: Records::new(record_bytes, pager), error: None }
    }
}

pub(crate) struct RunState<T> {
    queue: Mutex<Queue<T>>,
    pub(crate) pager: Arc<Pager>,
    tasks: u64,
    /// The last memory limit given to the work.
    pub(crate) limit: AtomicU64,
    /// Held by the one thread that decides how many tasks fit: after a stall, or under a new limit. Locked before
    /// `queue`.
    pub(crate) judge: Mutex<()>,
    /// Charges of finished tasks of a run through time. The allocator keeps their memory, and later charges would come
    /// on top (3 MiB were seen, of 10,000 particles).
    retired: Mutex<Vec<Charge>>,
    /// Held by the one thread for whose task others are dropped.
    pub(crate) insists: Mutex<()>,
    /// Threads that wait for memory for a task. Memory that others keep for later is for them.
    pub(crate) short: AtomicUsize,
    pub(crate) done: AtomicU64,
    pub(crate) stop: AtomicBool,
    /// Waiting threads, without tasks or pins. When all wait, nothing is left that could release pages or memory.
    pub(crate) waiting: AtomicUsize,
    /// Threads that have not left.
    pub(crate) live: AtomicUsize,
    /// The thread that waits for the last of them.
    caller: std::thread::Thread,
    pub(crate) waited_us: AtomicU64,
    pub(crate) restarts: AtomicU64,
    pub(crate) elders: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) steps: AtomicU64,
}

impl<T> RunState<T> {
    /// The state of a run that the calling thread waits for. `record_bytes`: bytes of a packed task.
    pub(crate) fn new(pager: &Arc<Pager>, plan: SchedulerPlan, record_bytes: usize) -> Self {
        Self {
            queue: Mutex::new(Queue::new(plan, record_bytes, pager)),
            pager: pager.clone(),
            tasks: plan.tasks,
            // None yet: the first thread gives it to the work.
            limit: AtomicU64::new(0),
            judge: Mutex::new(()),
            retired: Mutex::new(Vec::new()),
            insists: Mutex::new(()),
            short: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            live: AtomicUsize::new(plan.threads),
            caller: std::thread::current(),
            waited_us: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            elders: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            steps: AtomicU64::new(0),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        // The scope passes a panic of another thread to the caller. The queue itself is never left half changed.
        pager::spin_lock::lock(&self.queue)
    }

    pub(crate) fn fail(&self, e: FieldError) {
        self.lock().error.get_or_insert(e);
        self.stop.store(true, SeqCst);
        self.pager.notify();
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.load(SeqCst) >= self.tasks
    }

    /// Whether at most one task holds memory.
    pub(crate) fn alone(&self) -> bool {
        self.lock().scheduler.active() <= 1
    }

    /// Wakes waiting threads: tasks may begin or continue that could not before.
    pub(crate) fn notify_waiting(&self) {
        if self.waiting.load(Relaxed) > 0 {
            self.pager.notify();
        }
    }

    /// A task's step was made: its absent pages are behind it.
    pub(crate) fn stepped(&self, slot: &mut TaskSlot<T>) {
        slot.restarts = 0;
        // The list's memory is freed: there may be tens of thousands of tasks.
        slot.body.wanted = Default::default();
        self.let_pages_go(slot);
    }

    /// Releases the pages of a task, if it is the elder.
    pub(crate) fn let_pages_go(&self, slot: &mut TaskSlot<T>) {
        if slot.body.hold.take().is_some() {
            self.lock().scheduler.elder_stepped();
        }
    }

    /// A task has finished, and its memory is free. Returns the window that the run has reached thereby, if it is
    /// another.
    pub(crate) fn finished(&self, window: u32) -> Option<u32> {
        let passed = self.lock().scheduler.finished(window);
        let wanted = passed.is_some() && self.waiting.load(Relaxed) > 0;
        if self.done.fetch_add(1, SeqCst) + 1 >= self.tasks || wanted {
            self.pager.notify();
        }
        passed
    }

    /// A task's memory was freed. Its charge is released when enough memory can be returned to the system.
    pub(crate) fn retire(&self, charge: Charge) {
        let enough = (self.lock().scheduler.active() / 8).max(256);
        let mut retired = pager::spin_lock::lock(&self.retired);
        retired.push(charge);
        if retired.len() >= enough {
            process::give_back_freed();
            retired.clear();
        }
    }

    pub(crate) fn release_retired(&self) {
        let retired = core::mem::take(&mut *pager::spin_lock::lock(&self.retired));
        if !retired.is_empty() {
            process::give_back_freed();
        }
    }

    /// Records dropped tasks whose memory is free, by number and window. They begin again later.
    pub(crate) fn freed(&self, tasks: &[(u64, u32)]) {
        self.dropped.fetch_add(tasks.len() as u64, Relaxed);
        self.lock().scheduler.freed(tasks);
        self.pager.notify();
    }

    /// Frees a task of a thread, to begin again when there is room. From now on no more tasks are active than remain.
    pub(crate) fn drop_task(&self, slot: Box<TaskSlot<T>>) {
        let name = (slot.number, slot.window);
        drop(slot);
        self.freed(&[name]);
    }

    /// The work allows `most` tasks under the present limit, and `waiting` of them may wait. Drops the excess.
    pub(crate) fn allow(&self, most: usize, waiting: (usize, usize)) {
        self.free(|scheduler| (scheduler.allow(most, waiting), ()));
    }

    /// Nothing moves: drops tasks. False if all were dropped before, and the one active task has all the memory.
    pub(crate) fn make_room(&self) -> bool {
        self.free(|scheduler| (scheduler.make_room(), ())).0
    }

    /// Drops half of the tasks that no thread steps, for a task of this thread. False if there are none but the elder
    /// and that one.
    pub(crate) fn drop_half(&self) -> bool {
        self.free(Scheduler::drop_half).1
    }

    /// Frees the tasks that the scheduler drops, and chunks of records that become empty, without the lock. True if
    /// there were any.
    fn free<R>(&self, drops: impl FnOnce(&mut Scheduler<Body<T>>) -> (Gone<Body<T>>, R)) -> (bool, R) {
        let mut q = self.lock();
        let (gone, found) = drops(&mut q.scheduler);
        gone.packed.iter().for_each(|packed| q.records.put_back(packed.record));
        let Queue { scheduler, records, .. } = &mut *q;
        let chunks = records.gather(scheduler.records());
        drop(q);
        let (any, names) = (!gone.is_empty(), gone.names());
        drop((gone, chunks));
        if !any {
            return (false, found);
        }
        self.freed(&names);
        (true, found)
    }

    /// Takes out the remaining tasks after all threads have left, and the error. Pages that other runs need are still
    /// read. Their requests hold this state, but no task any more. Tasks are freed without the lock, since freeing may
    /// wake threads that wait for memory.
    pub(crate) fn end(&self) -> Result<(), FieldError> {
        self.release_retired();
        let none = SchedulerPlan { tasks: 0, threads: 1, active: 0, windowed: false, in_runs: 1 };
        let queue = core::mem::replace(&mut *self.lock(), Queue::new(none, 0, &self.pager));
        queue.error.map_or(Ok(()), Err)
    }
}

impl<T: Send> Wake for RunState<T> {
    fn wake(&self, token: u64) {
        // Tasks are parked before their pages are requested. So it is parked, or was dropped.
        self.lock().scheduler.wake(token as usize);
        self.pager.notify();
    }
}

/// A thread on its way out. If it panics its tasks are lost, and the others must not wait for them.
pub(crate) struct ThreadExit<'a, T>(pub(crate) &'a RunState<T>);

impl<T> Drop for ThreadExit<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, SeqCst);
            self.0.pager.notify();
        }
        self.0.live.fetch_sub(1, SeqCst);
        self.0.caller.unpark();
    }
}
