//! Which task is next, which wait, and how many may be under way.
//!
//! # Theory
//! A task is *unstarted*, then *active* until it has finished. An active task is in the hands of a thread, *ready* (it waits for a
//! thread), or *parked* (it waits for pages). A dropped task becomes unstarted again when its memory is free. Each transition is one
//! call, and its answer follows from the calls before it: there is no lock here, no thread, no clock and no memory of tasks. So
//! sequences of calls are held to a plain model (`tests.rs`).
//!
//! Who goes on first is decided by [`ready`]; who begins, by [`admission`] and [`active_windows`]; how many may wait for pages, by
//! [`load_control`]. One task at a time is the *elder*: it is dropped last, and of a run without windows it goes on first.
//!
//! # Practice
//! [`Scheduler`] is generic over what a task carries. Whoever holds it keeps it under one lock, frees what is dropped after it let go of
//! the lock, and then says so ([`Scheduler::freed`]).

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
pub(crate) use task::{ActiveTask, Gone, Next, Packed, Waiting, WITHIN};
use unstarted::Unstarted;

/// What a run consists of.
#[derive(Copy, Clone, Debug)]
pub(crate) struct SchedulerPlan {
    /// Number of tasks.
    pub(crate) tasks: u64,
    pub(crate) threads: usize,
    /// Tasks active at most.
    pub(crate) active: usize,
    /// Whether tasks go through time, window by window.
    pub(crate) windowed: bool,
    /// Tasks that follow each other which a thread begins, and goes on with itself; with 1 threads take whatever is next.
    pub(crate) in_runs: u64,
}

/// The tasks in nobody's hands, and what is known of the others.
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

    /// Tasks that have begun and are not through; the dropped ones until their memory is free.
    pub(crate) fn active(&self) -> usize {
        self.admission.active()
    }

    /// Whether nothing goes on before a page has come: no task may, or as many wait as may; and there are some.
    pub(crate) fn is_stuck(&self) -> bool {
        (self.ready.none(self.windows.earliest()) || self.enough_wait()) && self.active() > 0
    }

    /// Whether as many tasks wait for pages as may.
    pub(crate) fn enough_wait(&self) -> bool {
        self.load.is_enough(self.parked.waiting())
    }

    /// A task that may go on, or the number of one that begins now on a thread; of a run through time those begin first.
    pub(crate) fn next(&mut self, thread: usize) -> Option<Next<T>> {
        let first = if self.windowed { self.begin(thread).map(Next::Begin) } else { None };
        first.or_else(|| {
            // The elder holds pages that those may need the room of who wait.
            let waits = self.enough_wait() && !self.ready.is_first(self.elder);
            let ready = if waits { None } else { self.ready.pop_for(thread, self.windows.earliest(), self.elder) };
            ready.map(Next::Ready).or_else(|| self.begin(thread).map(Next::Begin))
        })
    }

    /// More ready tasks for a thread that took one, `most` with it, while each thread has `lanes`. The other threads get their share, and
    /// no more are taken than may wait.
    pub(crate) fn take_more(&mut self, most: usize, lanes: usize, to: &mut impl Extend<Waiting<T>>) {
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

    /// A task waits for a thread from now on, behind the others where no place says otherwise.
    pub(crate) fn push(&mut self, waiting: Waiting<T>) {
        let shut = self.parked.any_at(waiting.neighbourhood());
        self.ready.push(waiting, shut);
    }

    /// The same, before the others.
    pub(crate) fn push_first(&mut self, waiting: Waiting<T>) {
        let shut = self.parked.any_at(waiting.neighbourhood());
        self.ready.push_first(waiting, shut);
    }

    /// A task came from a window into the one in which it is now, where it waits for its turn.
    pub(crate) fn turned(&mut self, from: u32, waiting: Waiting<T>) {
        self.windows.turned(from, waiting.window());
        self.push(waiting);
    }

    /// The window to which the run has come, if it has come to another since this was last asked.
    pub(crate) fn passed(&mut self) -> Option<u32> {
        self.windows.passed()
    }

    /// Whether a task may go on in a window before this one.
    pub(crate) fn any_before(&self, window: u32) -> bool {
        self.ready.any_before(window)
    }

    /// A task waits for pages, under the token that this gives.
    pub(crate) fn park(&mut self, task: Box<ActiveTask<T>>) -> usize {
        let (token, first) = self.parked.park(task);
        first.into_iter().for_each(|place| self.ready.shut(place));
        token
    }

    /// A wake has come. The task that waited for it, if it is still there, goes first where memory is short for those under way (its
    /// pages are there now, and may be gone when all others have had a turn), and where it is the elder.
    pub(crate) fn wake(&mut self, token: usize) {
        let Some(task) = self.unpark(token) else { return };
        if self.elder == Some(task.number) || self.load.is_short() {
            self.push_first(Waiting::Whole(task));
        } else {
            self.push(Waiting::Whole(task));
        }
    }

    /// No wake comes: the pages of the task that waits under the token are there. It goes before the others.
    pub(crate) fn wake_first(&mut self, token: usize) {
        if let Some(task) = self.unpark(token) {
            self.push_first(Waiting::Whole(task));
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

    /// Makes a task in a thread's hands the elder, if there is none. Says whether it did.
    pub(crate) fn make_elder(&mut self, number: u64) -> bool {
        let none = self.elder.is_none();
        if none {
            self.elder = Some(number);
        }
        none
    }

    /// The elder's step was made: there is none now.
    pub(crate) fn elder_stepped(&mut self) {
        self.elder = None;
    }

    /// A task is through, and its memory is free. Says to which window the run has come thereby, if it has come to another.
    pub(crate) fn finished(&mut self, window: u32) -> Option<u32> {
        self.began_again = false;
        self.admission.finished();
        self.windows.ended(window);
        self.windows.passed()
    }

    /// The memory of dropped tasks is free: they begin again later, and no more are active than are left. `tasks` are their numbers, and
    /// the windows in which they were counted.
    pub(crate) fn freed(&mut self, tasks: &[(u64, u32)]) {
        if self.elder.is_some_and(|elder| tasks.iter().any(|(number, _)| *number == elder)) {
            self.elder = None;
        }
        tasks.iter().for_each(|(_, window)| self.windows.ended(*window));
        self.windows.close();
        self.admission.freed(tasks.iter().map(|(number, _)| *number));
    }

    /// So many tasks, and at so many places, may wait for pages from now on.
    pub(crate) fn may_wait(&mut self, waiting: (usize, usize)) {
        self.load.may_wait(waiting);
    }

    /// The work allows `most` tasks under a new limit, of which so many may be `waiting`. Drops what is too much. Whatever was found about
    /// the limit before it says nothing any more.
    pub(crate) fn allow(&mut self, most: usize, waiting: (usize, usize)) -> Gone<T> {
        self.load.may_wait(waiting);
        self.load.forget();
        self.began_again = false;
        let over = self.admission.allow(most);
        self.drop_idle(over)
    }

    /// Nothing moves. Drops half of the tasks, and in the end the elder, too: where its pages lie scattered, they take more room than the
    /// reserve has for them. That once only until a task finishes or the limit changes, so that it ends: none goes where it was done
    /// before, and the one task that there is has all the memory.
    pub(crate) fn make_room(&mut self) -> Gone<T> {
        let gone = self.drop_idle(self.active() / 2);
        if !gone.is_empty() || core::mem::replace(&mut self.began_again, true) {
            return gone;
        }
        self.drop_those(usize::MAX, |_| true)
    }

    /// Drops half of the tasks in nobody's hands, for one that a thread holds, and says whether there are others than the elder and that
    /// one.
    pub(crate) fn drop_half(&mut self) -> (Gone<T>, bool) {
        let parked = |number| self.parked.iter().any(|task| task.number == number);
        let elders = usize::from(self.elder.is_some_and(|number| parked(number) || self.ready.has(number)));
        let (idle, active) = (self.ready.len() + self.parked.iter().count() - elders, self.active() - elders);
        let gone = self.drop_idle(idle.div_ceil(2));
        let others = !gone.is_empty() || active > 1;
        (gone, others)
    }

    /// Drops up to `count` of the tasks in nobody's hands, but not the elder.
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

    /// The records of the packed tasks in nobody's hands.
    pub(crate) fn records(&mut self) -> impl Iterator<Item = &mut u32> {
        self.ready.records()
    }
}
