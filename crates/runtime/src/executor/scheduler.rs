//! Which task is next, which wait, and how many are active.
//!
//! # Theory
//! A task is *unstarted*, then *active* until it has finished. A thread has an active task, or the task is *ready* (it
//! waits for a thread) or *parked* (it waits for pages). A dropped task is unstarted again when its memory is free.
//! Each transition is one call, and its result follows from the calls before it. There is no lock, thread, clock or
//! memory of tasks here. So tests compare sequences of calls with a plain model (`tests.rs`).
//!
//! [`ready`] decides which task continues first; [`admission`] and [`active_windows`], which begins; [`load_control`],
//! how many may wait for pages. One task at a time is the *elder*. It is dropped last, and in a run without windows it
//! goes first.
//!
//! # Practice
//! [`Scheduler`] is generic over the data of a task. Its owner keeps it under one lock, frees dropped tasks after
//! releasing the lock, and then reports that ([`Scheduler::freed`]).

mod active_windows;
mod admission;
mod crowds;
mod load_control;
mod parked;
mod ready;
mod task;
mod unstarted;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use active_windows::ActiveWindows;
use admission::Admission;
use load_control::LoadControl;
use parked::Parked;
use ready::Ready;
pub(crate) use task::{ActiveTask, Gone, Next, Packed, WaitingTask, WITHIN};
use unstarted::Unstarted;

/// The tasks of a run and their bounds.
#[derive(Copy, Clone, Debug)]
pub(crate) struct SchedulerPlan {
    /// Number of tasks.
    pub(crate) tasks: u64,
    pub(crate) threads: usize,
    /// Most active tasks.
    pub(crate) active: usize,
    /// Whether tasks go through time, window by window.
    pub(crate) windowed: bool,
    /// Consecutive tasks that a thread begins and steps itself. At 1 threads take the next task.
    pub(crate) in_runs: u64,
}

/// The tasks that no thread has, and counts of the others.
pub(crate) struct Scheduler<T> {
    ready: Ready<T>,
    parked: Parked<T>,
    windows: ActiveWindows,
    admission: Admission,
    load: LoadControl,
    /// The number of the one task whose pages are held.
    elder: Option<u64>,
    /// All tasks were dropped, and none has finished since.
    began_again: bool,
    windowed: bool,
    threads: usize,
}

impl<T> Scheduler<T> {
    pub(crate) fn new(plan: SchedulerPlan) -> Self {
        let SchedulerPlan { tasks, threads, active, windowed, in_runs } = plan;
        Self {
            ready: Ready::new(windowed, in_runs > 1),
            parked: Parked::new(),
            windows: ActiveWindows::new(windowed),
            admission: Admission::new(Unstarted::new(tasks, threads, in_runs), active),
            load: LoadControl::new(),
            elder: None,
            began_again: false,
            windowed,
            threads: threads.max(1),
        }
    }

    /// Tasks that have begun and not finished. Dropped ones count until their memory is free.
    pub(crate) fn active(&self) -> usize {
        self.admission.active()
    }

    /// Whether there are tasks and none can continue before a page arrives: none is ready, or as many wait as may.
    pub(crate) fn is_stuck(&self) -> bool {
        (self.ready.none(self.windows.earliest()) || self.enough_wait()) && self.active() > 0
    }

    /// Whether as many tasks wait for pages as may.
    pub(crate) fn enough_wait(&self) -> bool {
        self.load.is_enough(self.parked.waiting())
    }

    /// A task that may continue, or the number of one that begins now on a thread. In a run through time beginning ones
    /// come first.
    pub(crate) fn next(&mut self, thread: usize) -> Option<Next<T>> {
        let first = if self.windowed { self.begin(thread).map(Next::Begin) } else { None };
        first.or_else(|| {
            // The elder goes on even then: the waiting tasks may need the room of its pages.
            let waits = self.enough_wait() && !self.ready.is_first(self.elder);
            let ready = if waits { None } else { self.ready.pop_for(thread, self.windows.earliest(), self.elder) };
            ready.map(Next::Ready).or_else(|| self.begin(thread).map(Next::Begin))
        })
    }

    /// More ready tasks for a thread that took one, at most `most`, while each thread has `lanes`. The other threads
    /// keep their share, and no more tasks are taken than may wait.
    pub(crate) fn take_more(&mut self, most: usize, lanes: usize, to: &mut impl Extend<WaitingTask<T>>) {
        let waiting = self.load.most() / (lanes * self.threads);
        let share = (self.ready.in_first() / (2 * self.threads)).min(most).min(waiting);
        let earliest = self.windows.earliest();
        to.extend((1..share).map_while(|_| self.ready.pop(earliest)));
    }

    /// The number of a task that may begin now on a thread.
    fn begin(&mut self, thread: usize) -> Option<u64> {
        let may = self.windows.is_open() && !(self.windowed && self.ready.any_in_first());
        if self.enough_wait() || !may {
            return None;
        }
        let Some(number) = self.admission.begin(thread) else {
            self.windows.close();
            return None;
        };
        self.windows.began();
        Some(number)
    }

    /// A task becomes ready, behind the others unless it has a place.
    pub(crate) fn push(&mut self, waiting: WaitingTask<T>) {
        let shut = self.parked.any_at(waiting.neighbourhood());
        self.ready.push(waiting, shut);
    }

    /// The same, before the others.
    pub(crate) fn push_first(&mut self, waiting: WaitingTask<T>) {
        let shut = self.parked.any_at(waiting.neighbourhood());
        self.ready.push_first(waiting, shut);
    }

    /// A task came from window `from` into its present one, and waits for its turn there.
    pub(crate) fn turned(&mut self, from: u32, waiting: WaitingTask<T>) {
        self.windows.turned(from, waiting.window());
        self.push(waiting);
    }

    /// The window that the run has reached, if it changed since the last call.
    pub(crate) fn passed(&mut self) -> Option<u32> {
        self.windows.passed()
    }

    /// Whether a task is ready in a window before this one.
    pub(crate) fn any_before(&self, window: u32) -> bool {
        self.ready.any_before(window)
    }

    /// Parks a task, and returns its token.
    pub(crate) fn park(&mut self, task: Box<ActiveTask<T>>) -> usize {
        let (token, first) = self.parked.park(task);
        first.into_iter().for_each(|place| self.ready.shut(place));
        token
    }

    /// A wake has come. Its task, unless dropped, goes first if it is the elder, or if memory is short. Its pages are
    /// resident now, and may be evicted before all others have had a turn.
    pub(crate) fn wake(&mut self, token: usize) {
        let Some(task) = self.unpark(token) else { return };
        if self.elder == Some(task.number) || self.load.is_short() {
            self.push_first(WaitingTask::Whole(task));
        } else {
            self.push(WaitingTask::Whole(task));
        }
    }

    /// The pages of the task under this token are resident, and no wake comes. It goes before the others.
    pub(crate) fn wake_first(&mut self, token: usize) {
        if let Some(task) = self.unpark(token) {
            self.push_first(WaitingTask::Whole(task));
        }
    }

    fn unpark(&mut self, token: usize) -> Option<Box<ActiveTask<T>>> {
        let (task, last) = self.parked.wake(token);
        last.into_iter().for_each(|place| self.ready.open(place));
        task
    }

    /// A task of a run without windows was parked: for the first time in its step, or in vain.
    pub(crate) fn note_wait(&mut self, first: bool, in_vain: bool) {
        if in_vain {
            self.load.in_vain(self.parked.waiting().0.max(1), self.ready.len());
        } else if first {
            self.load.went_well();
        }
    }

    /// Makes a task of a thread the elder, if there is none. True if it did.
    pub(crate) fn make_elder(&mut self, number: u64) -> bool {
        let none = self.elder.is_none();
        if none {
            self.elder = Some(number);
        }
        none
    }

    /// The elder's step was made: there is no elder now.
    pub(crate) fn elder_stepped(&mut self) {
        self.elder = None;
    }

    /// A task has finished, and its memory is free. Returns the window that the run has reached thereby, if it is
    /// another.
    pub(crate) fn finished(&mut self, window: u32) -> Option<u32> {
        self.began_again = false;
        self.admission.finished();
        self.windows.ended(window);
        self.windows.passed()
    }

    /// The memory of dropped tasks is free. They begin again later, and no more tasks are active than remain. `tasks`
    /// has their numbers and the windows in which they were counted.
    pub(crate) fn freed(&mut self, tasks: &[(u64, u32)]) {
        if self.elder.is_some_and(|elder| tasks.iter().any(|(number, _)| *number == elder)) {
            self.elder = None;
        }
        tasks.iter().for_each(|(_, window)| self.windows.ended(*window));
        self.windows.close();
        self.admission.freed(tasks.iter().map(|(number, _)| *number));
    }

    /// Sets how many tasks may wait for pages, and at how many places.
    pub(crate) fn may_wait(&mut self, waiting: (usize, usize)) {
        self.load.may_wait(waiting);
    }

    /// The work allows `most` tasks under a new limit, and `waiting` of them may wait. Drops the excess. Experience
    /// with the limit before is forgotten.
    pub(crate) fn allow(&mut self, most: usize, waiting: (usize, usize)) -> Gone<T> {
        self.load.may_wait(waiting);
        self.load.forget();
        self.began_again = false;
        let over = self.admission.allow(most);
        self.drop_idle(over)
    }

    /// Nothing moves: drops half of the tasks, and in the end also the elder. If its pages lie scattered, they need
    /// more room than its reserve. All are dropped only once until a task finishes or the limit changes. So it ends: an
    /// empty result means that this was done before, and the one active task has all the memory.
    pub(crate) fn make_room(&mut self) -> Gone<T> {
        let gone = self.drop_idle(self.active() / 2);
        if !gone.is_empty() || core::mem::replace(&mut self.began_again, true) {
            return gone;
        }
        self.drop_those(usize::MAX, |_| true)
    }

    /// Drops half of the tasks that no thread has, for a task of one thread. Returns whether there are others than the
    /// elder and that task.
    pub(crate) fn drop_half(&mut self) -> (Gone<T>, bool) {
        let parked = |number| self.parked.iter().any(|task| task.number == number);
        let elders = usize::from(self.elder.is_some_and(|number| parked(number) || self.ready.has(number)));
        let (idle, active) = (self.ready.len() + self.parked.iter().count() - elders, self.active() - elders);
        let gone = self.drop_idle(idle.div_ceil(2));
        let others = !gone.is_empty() || active > 1;
        (gone, others)
    }

    /// Drops up to `count` of the tasks that no thread has, except the elder.
    fn drop_idle(&mut self, count: usize) -> Gone<T> {
        let elder = self.elder;
        self.drop_those(count, |task| Some(task.number) != elder)
    }

    fn drop_those(&mut self, count: usize, which: impl Fn(&ActiveTask<T>) -> bool) -> Gone<T> {
        let mut gone = Gone::default();
        self.parked.drop_those(count, &which, &mut gone);
        self.ready.drop_those(count, which, &mut gone);
        gone
    }

    /// The records of packed tasks that no thread has.
    pub(crate) fn records(&mut self) -> impl Iterator<Item = &mut u32> {
        self.ready.records()
    }
}
