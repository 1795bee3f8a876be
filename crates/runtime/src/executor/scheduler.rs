//! What the threads of a run share: the tasks in nobody's hands, and the counts.

use super::concurrency::Crowding;
use super::new_tasks::Fresh;
use super::packed_tasks::{Chunk, WaitingTask};
use super::parked::Parked;
use super::ready::ReadyTasks;
use super::RunLoad;
use crate::process;
use field::error::FieldError;
use pager::{Charge, Hold, PageId, Pager, Wake};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};

pub(super) struct TaskSlot<T> {
    pub(super) number: u64,
    pub(super) task: T,
    pub(super) charge: Charge,
    /// Restarts of the present step, and the pages that it has asked for.
    pub(super) restarts: u32,
    pub(super) wanted: Vec<PageId>,
    /// Of these, how many it asked for before it last went on within the step.
    pub(super) behind: usize,
    /// In a box: one task at a time has one, and thousands wait.
    pub(super) hold: Option<Box<Hold>>,
    /// The window that the task was in when it was last looked at.
    pub(super) window: u32,
    /// And where it was then.
    pub(super) place: u64,
}

impl<T> TaskSlot<T> {
    /// Bytes that its state is charged with.
    pub(super) fn charged(&self) -> usize {
        self.charge.bytes() as usize
    }

    /// Bytes of the list of pages that its step has asked for.
    pub(super) fn wanted_bytes(&self) -> usize {
        self.wanted.capacity() * size_of::<PageId>()
    }

    /// Its step has asked for these pages, too. The list takes no more room than they need: hundreds of tasks wait with one. Says whether
    /// it had asked for one of them before.
    pub(super) fn wants(&mut self, missing: &[PageId]) -> bool {
        let new = missing.iter().filter(|p| !self.wanted.contains(p)).count();
        self.wanted.reserve_exact(new);
        for p in missing {
            match self.wanted.iter().position(|w| w == p) {
                None => self.wanted.push(*p),
                // It stands on it once more.
                Some(at) if at < self.behind => {
                    self.wanted[at..].rotate_left(1);
                    self.behind -= 1;
                }
                Some(_) => {}
            }
        }
        new < missing.len()
    }

    /// What the elder holds: all that it has asked for since it last went on, and of what it asked for before that the latest pages, `most`
    /// in all.
    pub(super) fn held(&self, most: usize) -> &[PageId] {
        &self.wanted[self.behind.min(self.wanted.len().saturating_sub(most))..]
    }
}

/// Tasks that are dropped.
pub(super) struct Gone<T> {
    pub(super) slots: Vec<Box<TaskSlot<T>>>,
    /// Numbers and windows of those that were put away.
    pub(super) away: Vec<(u64, u32)>,
    /// Memory of records in which none is left.
    pub(super) chunks: Vec<Chunk>,
}

impl<T> Gone<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), away: Vec::new(), chunks: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() + self.away.len()
    }
}

/// What a thread takes up.
pub(super) enum Next<T> {
    Ready(WaitingTask<T>),
    Begin(u64),
}

pub(super) struct TaskQueue<T> {
    /// Tasks that wait for a thread.
    pub(super) ready: ReadyTasks<T>,
    /// Tasks that wait for pages.
    pub(super) parked: Parked<T>,
    /// Numbers of tasks that were dropped.
    pub(super) again: Vec<u64>,
    /// Those that never began.
    fresh: Fresh,
    /// The same by the present limit, and places at which they wait at most.
    pub(super) fitting: (usize, usize),
    /// And by how it goes.
    pub(super) crowding: Crowding,
    /// 1. Tasks that hold memory. One leaves the count after its memory was freed, so that who finds itself alone is.
    pub(super) active: usize,
    /// Tasks active at most, now.
    pub(super) allowed: usize,
    /// What the work allows at this limit.
    pub(super) most: usize,
    /// Tasks that have finished since `allowed` was last changed.
    pub(super) since: usize,
    /// Finished tasks when all were last begun again.
    pub(super) began_again: Option<u64>,
    pub(super) error: Option<FieldError>,
}

impl<T> TaskQueue<T> {
    pub(super) fn new(load: &RunLoad, mut ready: ReadyTasks<T>, in_runs: u64) -> Self {
        let active = load.active;
        ready.by_thread = in_runs > 1;
        Self {
            ready,
            parked: Parked::new(),
            again: Vec::new(),
            fresh: Fresh::new(load.tasks, load.workers, in_runs),
            fitting: (usize::MAX, usize::MAX),
            crowding: Crowding::new(),
            active: 0,
            allowed: active,
            most: active,
            since: 0,
            began_again: None,
            error: None,
        }
    }

    /// The number of a task that may begin now on a thread.
    pub(super) fn number(&mut self, thread: usize) -> Option<u64> {
        if self.enough_wait() || !self.ready.may_begin() {
            return None;
        }
        let more = (self.active < self.allowed).then(|| self.again.pop().or_else(|| self.fresh.next(thread))).flatten();
        let Some(number) = more else {
            self.ready.close();
            return None;
        };
        self.active += 1;
        self.ready.began();
        Some(number)
    }

    /// So many tasks, and at so many places, may wait for pages from now on.
    pub(super) fn may_wait(&mut self, (tasks, places): (usize, usize)) {
        self.fitting = (tasks.max(1), places.max(1));
    }

    /// Whether as many tasks wait for pages as may.
    pub(super) fn enough_wait(&self) -> bool {
        let (tasks, places) = self.parked.waiting();
        tasks >= self.fitting.0.min(self.crowding.most()) || places >= self.fitting.1
    }

    /// A task waits for a thread from now on, behind the others where no place says otherwise.
    pub(super) fn push(&mut self, waiting: WaitingTask<T>) {
        let shut = self.parked.any_at(waiting.window(), waiting.place());
        self.ready.push(waiting, shut);
    }

    /// The same, before the others.
    pub(super) fn push_first(&mut self, waiting: WaitingTask<T>) {
        let shut = self.parked.any_at(waiting.window(), waiting.place());
        self.ready.push_first(waiting, shut);
    }

    /// A task waits for pages: for the first time in its step, or in vain.
    pub(super) fn note_wait(&mut self, first: bool, in_vain: bool) {
        if in_vain {
            self.crowding.in_vain(self.parked.waiting().0.max(1), self.ready.count().0);
        } else if first {
            self.crowding.went_well();
        }
    }

    /// A task waits for pages, under the token that this gives.
    pub(super) fn park(&mut self, slot: Box<TaskSlot<T>>) -> usize {
        let (token, first) = self.parked.park(slot);
        first.into_iter().for_each(|place| self.ready.shut(place));
        token
    }

    /// A wake has come: the task that waited for it, if it is still there.
    pub(super) fn wake(&mut self, token: usize) -> Option<WaitingTask<T>> {
        let (slot, last) = self.parked.wake(token);
        last.into_iter().for_each(|place| self.ready.open(place));
        slot.map(WaitingTask::Whole)
    }

    /// A task that may go on, or the number of one that may begin now on a thread; of a run through time those begin first.
    pub(super) fn next(&mut self, thread: usize, windowed: bool) -> Option<Next<T>> {
        let first = if windowed { self.number(thread).map(Next::Begin) } else { None };
        first.or_else(|| {
            // The elder holds pages that those may need the room of who wait.
            let ready = if self.enough_wait() && !self.ready.elder_first() { None } else { self.ready.pop_for(thread) };
            ready.map(Next::Ready).or_else(|| self.number(thread).map(Next::Begin))
        })
    }

    /// Tasks that no thread steps, and how many of them are held.
    fn idle(&self) -> (usize, usize) {
        let (ready, held) = self.ready.count();
        let parked = self.parked.iter();
        parked.fold((ready, held), |(n, held), slot| (n + 1, held + usize::from(slot.hold.is_some())))
    }

    /// Memory did not do for as many as there were: from now on no more than are left.
    fn fewer(&mut self) {
        (self.allowed, self.since) = (self.allowed.min(self.active.max(1)), 0);
    }

    /// A task has finished. One more is allowed when as many have as were allowed: memory may have been short for a moment only, and
    /// what is dropped is paid for by what was done.
    fn finished(&mut self, window: u32) {
        self.active -= 1;
        self.ready.ended(window);
        self.since += 1;
        if self.since >= self.allowed && self.allowed < self.most {
            (self.allowed, self.since) = (self.allowed + 1, 0);
        }
    }
}

pub(super) struct Scheduler<T> {
    pub(super) queue: Mutex<TaskQueue<T>>,
    pub(super) pager: Arc<Pager>,
    /// The memory limit that the work was told of last.
    pub(super) limit: AtomicU64,
    /// Held by the one thread that decides how many tasks fit: that nothing moves, or what a new limit means. Locked before `queue`.
    pub(super) judge: Mutex<()>,
    /// What finished tasks of a run through time were charged with: the allocator keeps their memory, and what is charged in its place
    /// would come on top (3 MiB were seen, of 10,000 particles).
    retired: Mutex<Vec<Charge>>,
    /// Held by the one thread for whose task others are dropped.
    pub(super) insists: Mutex<()>,
    /// Threads that wait for memory for a task: what others keep for later is for them.
    pub(super) short: AtomicUsize,
    pub(super) done: AtomicU64,
    pub(super) stop: AtomicBool,
    /// Threads that have neither tasks nor pins, and wait. Only when all do is nothing left that could release any.
    pub(super) waiting: AtomicUsize,
    /// Threads that have not left.
    pub(super) live: AtomicUsize,
    /// Who waits for the last of them.
    pub(super) caller: std::thread::Thread,
    pub(super) elder: AtomicBool,
    pub(super) waited_us: AtomicU64,
    pub(super) restarts: AtomicU64,
    pub(super) elders: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) steps: AtomicU64,
}

impl<T> Scheduler<T> {
    pub(super) fn new(pager: &Arc<Pager>, load: &RunLoad, ready: ReadyTasks<T>, in_runs: u64) -> Self {
        Self {
            queue: Mutex::new(TaskQueue::new(load, ready, in_runs)),
            pager: pager.clone(),
            // None yet: the first thread tells the work.
            limit: AtomicU64::new(0),
            judge: Mutex::new(()),
            retired: Mutex::new(Vec::new()),
            insists: Mutex::new(()),
            short: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            live: AtomicUsize::new(load.workers.max(1)),
            caller: std::thread::current(),
            elder: AtomicBool::new(false),
            waited_us: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            elders: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            steps: AtomicU64::new(0),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, TaskQueue<T>> {
        // A panic on another thread is carried to the caller by the scope; the queue itself is never left half changed.
        pager::spin_lock::lock(&self.queue)
    }

    pub(super) fn fail(&self, e: FieldError) {
        self.lock().error.get_or_insert(e);
        self.stop.store(true, SeqCst);
        self.pager.notify();
    }

    /// Whether one task at most holds memory.
    pub(super) fn alone(&self) -> bool {
        self.lock().active <= 1
    }

    /// A task's step was made: whatever it had to wait for is behind it.
    pub(super) fn stepped(&self, slot: &mut TaskSlot<T>) {
        slot.restarts = 0;
        // Its room is given back: there may be tens of thousands of tasks.
        (slot.wanted, slot.behind) = (Vec::new(), 0);
        if slot.hold.take().is_some() {
            self.elder.store(false, SeqCst);
        }
    }

    /// A task is through, and its memory is free. Says to which window the run has come thereby, if it has come to another.
    pub(super) fn finished(&self, window: u32, tasks: u64) -> Option<u32> {
        let passed = {
            let mut q = self.lock();
            q.finished(window);
            q.ready.passed()
        };
        // Others may begin, or go on, that could not before.
        let wanted = passed.is_some() && self.waiting.load(Relaxed) > 0;
        if self.done.fetch_add(1, SeqCst) + 1 >= tasks || wanted {
            self.pager.notify();
        }
        passed
    }

    /// A task's memory was freed. Its charge is released when there is enough to be given back to the system.
    pub(super) fn retire(&self, charge: Charge) {
        let enough = (self.lock().active / 8).max(256);
        let mut retired = pager::spin_lock::lock(&self.retired);
        retired.push(charge);
        if retired.len() >= enough {
            process::give_back_freed();
            retired.clear();
        }
    }

    /// Releases what finished tasks were charged with.
    pub(super) fn release_retired(&self) {
        let retired = core::mem::take(&mut *pager::spin_lock::lock(&self.retired));
        if !retired.is_empty() {
            process::give_back_freed();
        }
    }

    /// Frees tasks that nobody steps, to begin them again when there is room; from now on no more are active than are left.
    pub(super) fn dropped(&self, slots: Vec<Box<TaskSlot<T>>>) {
        self.gone(Gone { slots, ..Gone::new() });
    }

    fn gone(&self, Gone { slots, away: mut numbers, chunks }: Gone<T>) {
        numbers.extend(slots.iter().map(|slot| (slot.number, slot.window)));
        let elder = slots.iter().any(|slot| slot.hold.is_some());
        drop((slots, chunks));
        if elder {
            self.elder.store(false, SeqCst);
        }
        self.again(&numbers);
    }

    /// Takes note of tasks whose memory is free, and that begin again later: their numbers and windows.
    pub(super) fn again(&self, numbers: &[(u64, u32)]) {
        self.dropped.fetch_add(numbers.len() as u64, Relaxed);
        let mut q = self.lock();
        for (number, window) in numbers {
            q.again.push(*number);
            q.ready.ended(*window);
        }
        q.ready.close();
        q.active -= numbers.len();
        q.fewer();
        drop(q);
        self.pager.notify();
    }

    /// The work allows `most` tasks under the present limit, of which so many may be `waiting`. Whatever was found about the limit before
    /// it says nothing any more.
    pub(super) fn allow(&self, most: usize, waiting: (usize, usize)) {
        let most = most.max(1);
        let over = {
            let mut q = self.lock();
            q.may_wait(waiting);
            (q.allowed, q.most, q.since, q.began_again) = (most, most, 0, None);
            q.crowding = Crowding::new();
            q.active.saturating_sub(most)
        };
        if over > 0 {
            self.drop_idle(over);
        }
    }

    /// Nothing moves. Drops half of the tasks, and in the end the elder and its pages, too: where they lie scattered, they take more
    /// room than the reserve has for them. That once only until a task finishes or the limit changes, so that it ends: false when it
    /// was done before, and the one task that there is has all the memory.
    pub(super) fn make_room(&self) -> bool {
        let active = self.lock().active;
        if self.drop_idle(active / 2) > 0 {
            return true;
        }
        let done = Some(self.done.load(SeqCst));
        if core::mem::replace(&mut self.lock().began_again, done) == done {
            return false;
        }
        self.drop_those(usize::MAX, |_| true) > 0
    }

    /// Drops half of the tasks that nobody steps, for one that a thread holds. False when there are none but the elder and that one.
    pub(super) fn drop_half(&self) -> bool {
        let (idle, active) = {
            let q = self.lock();
            let (idle, elders) = q.idle();
            (idle - elders, q.active - elders)
        };
        self.drop_idle(idle.div_ceil(2)) > 0 || active > 1
    }

    /// Drops up to `count` of the tasks that nobody steps, but not the elder, and says how many.
    fn drop_idle(&self, count: usize) -> usize {
        self.drop_those(count, |slot| slot.hold.is_none())
    }

    fn drop_those(&self, count: usize, which: impl Fn(&TaskSlot<T>) -> bool) -> usize {
        let mut gone = Gone::new();
        let mut q = self.lock();
        q.parked.drop_those(count, &which, &mut gone);
        q.ready.drop_those(count, which, &mut gone);
        gone.chunks = q.ready.gather();
        drop(q);
        let n = gone.len();
        if n > 0 {
            self.gone(gone);
        }
        n
    }
}

impl<T: Send> Wake for Scheduler<T> {
    fn wake(&self, token: u64) {
        let mut q = self.lock();
        // Tasks are parked before their pages are asked for, so it is there, or was dropped.
        if let Some(waiting) = q.wake(token as usize) {
            // Where memory is short for those under way its pages are there now, and may be gone when all others have had a turn.
            if waiting.is_elder() || q.crowding.is_short() {
                q.push_first(waiting);
            } else {
                q.push(waiting);
            }
        }
        drop(q);
        self.pager.notify();
    }
}

/// A thread on its way out. One that panics takes its tasks with it: the others must not wait for them.
pub(super) struct Leaving<'a, T>(pub(super) &'a Scheduler<T>);

impl<T> Drop for Leaving<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, SeqCst);
            self.0.pager.notify();
        }
        self.0.live.fetch_sub(1, SeqCst);
        self.0.caller.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::super::packed_tasks::Records;
    use super::super::parked::WITHIN;
    use super::*;
    use pager::{ChargeKind, PagerConfig};

    #[test]
    fn what_was_found_of_one_limit_is_forgotten_with_it() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let load = RunLoad { tasks: 6, workers: 1, active: 6 };
        let shared: Scheduler<()> = Scheduler::new(&pager, &load, ReadyTasks::new(false, Records::new(0, &pager)), 1);
        shared.lock().note_wait(false, true);
        assert!(shared.lock().crowding.is_short());
        shared.allow(6, (usize::MAX, usize::MAX));
        assert!(!shared.lock().crowding.is_short());
    }

    /// Tasks of two neighbourhoods; one waits for pages in the first, then another, and one of them is dropped while it waits.
    #[test]
    fn a_crowd_goes_on_when_the_last_wake_has_come_whatever_became_of_the_tasks() {
        let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() }).unwrap();
        let load = RunLoad { tasks: 6, workers: 1, active: 6 };
        let mut q: TaskQueue<()> = TaskQueue::new(&load, ReadyTasks::new(true, Records::new(0, &pager)), 1);
        let slot = |number: u64| {
            let charge = pager.charge(ChargeKind::Tasks, 1).unwrap();
            let (restarts, wanted, behind, hold) = (0, Vec::new(), 0, None);
            let place = (number % 2) << WITHIN;
            Box::new(TaskSlot { number, task: (), charge, restarts, wanted, behind, hold, window: 0, place })
        };
        let parked = |number: u64| {
            let mut slot = slot(number);
            slot.restarts = 1;
            slot
        };
        (0..6).for_each(|_| q.ready.began());
        q.ready.close();
        q.push(WaitingTask::Whole(slot(2)));
        let first = q.park(parked(0));
        let second = q.park(parked(4));
        // One was there before, one comes after, one is elsewhere.
        q.push_first(WaitingTask::Whole(slot(6)));
        q.push(WaitingTask::Whole(slot(1)));
        let next = |q: &mut TaskQueue<()>| match q.ready.pop() {
            Some(WaitingTask::Whole(slot)) => Some(slot.number),
            _ => None,
        };
        assert_eq!((next(&mut q), next(&mut q), q.ready.none()), (Some(1), None, true));
        let mut gone = Gone::new();
        q.parked.drop_those(1, |slot| slot.number == 4, &mut gone);
        assert_eq!(gone.len(), 1);
        assert!(q.ready.none(), "its wake has not come");
        assert!(q.wake(second).is_none() && q.ready.none(), "nobody wakes, and the other still waits");
        let woken = q.wake(first).expect("it was there");
        q.push(woken);
        // A token that is free again says nothing of who had it.
        let third = q.park(parked(1));
        assert_eq!(q.ready.in_first(), 3);
        assert_eq!([next(&mut q), next(&mut q), next(&mut q), next(&mut q)], [Some(0), Some(2), Some(6), None]);
        assert!(q.wake(third).is_some() && q.wake(99).is_none());
    }
}
