//! The scheduler against the plainest form of its rules, and rules that its callers rely on.

use super::model::{Answer, Model};
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// The next event. Numbers choose among existing tasks, modulo their count.
#[derive(Clone, Debug)]
enum Act {
    Take(usize),
    TakeMore(usize),
    /// A task of a thread reaches a later window, packed or not, at a place.
    Turn(usize, u32, u64, bool),
    Park(usize, u64),
    HandBack(usize),
    Finish(usize),
    DropHand(usize),
    Wake(usize),
    WakeFirst(usize),
    NoteWait(bool, bool),
    MakeRoom,
    DropHalf,
    Allow(usize, (usize, usize)),
    MayWait((usize, usize)),
    Freed,
}

fn act() -> impl Strategy<Value = Act> {
    let many = || prop_oneof![3 => Just(usize::MAX), 1 => 0..6usize];
    let bounds = move || (many(), many());
    prop_oneof![
        30 => (0..3usize).prop_map(Act::Take),
        3 => (0..20usize).prop_map(Act::TakeMore),
        20 => (any::<usize>(), 1..3u32, 0..15u64, any::<bool>()).prop_map(|(n, on, p, packed)| Act::Turn(n, on, p, packed)),
        20 => (any::<usize>(), 0..15u64).prop_map(|(n, p)| Act::Park(n, p)),
        3 => any::<usize>().prop_map(Act::HandBack),
        6 => any::<usize>().prop_map(Act::Finish),
        2 => any::<usize>().prop_map(Act::DropHand),
        20 => any::<usize>().prop_map(Act::Wake),
        4 => any::<usize>().prop_map(Act::WakeFirst),
        4 => (any::<bool>(), any::<bool>()).prop_map(|(first, in_vain)| Act::NoteWait(first, in_vain)),
        1 => Just(Act::MakeRoom),
        1 => Just(Act::DropHalf),
        1 => (1..12usize, bounds()).prop_map(|(most, waiting)| Act::Allow(most, waiting)),
        1 => bounds().prop_map(Act::MayWait),
        4 => Just(Act::Freed),
    ]
}

fn plan() -> impl Strategy<Value = SchedulerPlan> {
    (0..14u64, 1..4usize, 1..14usize, any::<bool>(), prop_oneof![Just(1), Just(3), Just(u64::MAX)]).prop_map(
        |(tasks, threads, active, windowed, in_runs)| {
            let in_runs = if windowed { 1 } else { in_runs };
            SchedulerPlan { tasks, threads, active, windowed, in_runs }
        },
    )
}

/// The scheduler and its model, and the tasks that threads have.
struct Pair {
    real: Scheduler<()>,
    model: Model,
    plan: SchedulerPlan,
    hands: Vec<ActiveTask<()>>,
    tokens: Vec<usize>,
    /// Dropped tasks whose memory is not free yet.
    gone: VecDeque<Vec<(u64, u32)>>,
    finished: Vec<u64>,
}

/// An index below `of`, if there is any.
fn one(n: usize, of: usize) -> Option<usize> {
    n.checked_rem(of)
}

/// Three places in each of five neighbourhoods.
fn place(n: u64) -> u64 {
    (n / 3) << WITHIN | (n % 3)
}

impl Pair {
    fn new(plan: SchedulerPlan) -> Self {
        let (real, model) = (Scheduler::new(plan), Model::new(plan));
        Self { real, model, plan, hands: Vec::new(), tokens: Vec::new(), gone: VecDeque::new(), finished: Vec::new() }
    }

    fn take_up(&mut self, waiting: WaitingTask<()>) {
        self.hands.push(match waiting {
            WaitingTask::Whole(task) => *task,
            WaitingTask::Packed(Packed { number, window, place, record, .. }) => {
                assert_eq!(u64::from(record), number + 100, "its own record");
                ActiveTask { number, body: (), restarts: 0, window, place }
            }
        });
    }

    fn take(&mut self, thread: usize) -> bool {
        let thread = thread % self.plan.threads;
        let expected = self.model.next(thread);
        let next = self.real.next(thread);
        assert!(self.model.agrees(&expected, next.as_ref()), "{expected:?}, and not {next:?}");
        match next {
            Some(Next::Ready(waiting)) => self.take_up(waiting),
            Some(Next::Begin(number)) => {
                let place = if self.plan.windowed { 0 } else { thread as u64 };
                self.hands.push(ActiveTask { number, body: (), restarts: 0, window: 0, place });
            }
            None => {}
        }
        expected != Answer::Nothing
    }

    /// The step of a task was made.
    fn step(&mut self, n: usize) -> Option<ActiveTask<()>> {
        let mut task = self.hands.swap_remove(one(n, self.hands.len())?);
        task.restarts = 0;
        if self.model.elder == Some(task.number) {
            self.model.elder = None;
            self.real.elder_stepped();
        }
        Some(task)
    }

    fn drop(&mut self, gone: Gone<()>, count: usize, elder_too: bool) {
        let names = gone.names();
        let numbers: Vec<u64> = names.iter().map(|(number, _)| *number).collect();
        self.model.dropped(&numbers, count, elder_too).unwrap();
        if !names.is_empty() {
            self.gone.push_back(names);
        }
    }

    fn free(&mut self) {
        if let Some(names) = self.gone.pop_front() {
            self.real.freed(&names);
            self.model.freed(&names);
        }
    }

    fn finish(&mut self, n: usize) {
        let Some(task) = self.step(n) else { return };
        assert_eq!(self.real.finished(task.window), self.model.finished(task.number));
        self.finished.push(task.number);
    }

    fn wake(&mut self, n: usize, first: bool) {
        let Some(at) = one(n, self.tokens.len()) else { return };
        let token = self.tokens.swap_remove(at);
        if first {
            self.real.wake_first(token);
        } else {
            self.real.wake(token);
        }
        self.model.wake(token, first);
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Take(thread) => {
                self.take(thread);
            }
            Act::TakeMore(most) => {
                let mut more = Vec::new();
                self.real.take_more(most, 1, &mut more);
                let numbers: Vec<u64> = more.iter().map(WaitingTask::number).collect();
                assert_eq!(numbers, self.model.take_more(most, 1));
                more.into_iter().for_each(|waiting| self.take_up(waiting));
            }
            Act::Turn(n, on, at, packed) if self.plan.windowed => {
                let Some(mut task) = self.step(n) else { return };
                let from = task.window;
                task.window = (from + on).min(5);
                task.place = place(at);
                let ActiveTask { number, window, place, .. } = task;
                let record = number as u32 + 100;
                let waiting = if packed {
                    WaitingTask::packed(number, window, place, record)
                } else {
                    WaitingTask::Whole(Box::new(task))
                };
                self.model.turned(from, &waiting);
                self.real.turned(from, waiting);
                assert_eq!(self.real.passed(), self.model.passed());
                assert_eq!(self.real.any_before(window), self.model.any_before(window));
            }
            Act::Turn(..) => {}
            Act::Park(n, at) => {
                let Some(at_hand) = one(n, self.hands.len()) else { return };
                let mut task = self.hands.swap_remove(at_hand);
                task.restarts += 1;
                if self.plan.windowed {
                    task.place = place(at);
                }
                if task.restarts > 2 && self.model.elder != Some(task.number) {
                    let made = self.real.make_elder(task.number);
                    assert_eq!(made, self.model.elder.is_none(), "one elder at a time");
                    self.model.elder = self.model.elder.or(Some(task.number));
                }
                let (number, window, at) = (task.number, task.window, task.place);
                let token = self.real.park(Box::new(task));
                assert!(!self.model.waits(token), "a token is one wait's");
                self.model.park(number, window, at, token);
                self.tokens.push(token);
            }
            Act::HandBack(n) => {
                let Some(at) = one(n, self.hands.len()) else { return };
                let waiting = WaitingTask::Whole(Box::new(self.hands.swap_remove(at)));
                self.model.push(&waiting, true);
                self.real.push_first(waiting);
            }
            Act::Finish(n) => self.finish(n),
            Act::DropHand(n) => {
                let Some(at) = one(n, self.hands.len()) else { return };
                let task = self.hands.swap_remove(at);
                let names = [(task.number, task.window)];
                self.real.freed(&names);
                self.model.freed(&names);
            }
            Act::Wake(n) => self.wake(n, false),
            Act::WakeFirst(n) => self.wake(n, true),
            Act::NoteWait(first, in_vain) if !self.plan.windowed => {
                self.real.note_wait(first, in_vain);
                self.model.note_wait(first, in_vain);
            }
            Act::NoteWait(..) => {}
            Act::MakeRoom => {
                let (count, elder_too) = self.model.room();
                let gone = self.real.make_room();
                self.drop(gone, count, elder_too);
            }
            Act::DropHalf => {
                let (idle, others) = self.model.others();
                let (gone, found) = self.real.drop_half();
                assert_eq!(found, !gone.is_empty() || others);
                self.drop(gone, idle.div_ceil(2), false);
            }
            Act::Allow(most, waiting) => {
                let over = self.model.allow(most, waiting);
                let gone = self.real.allow(most, waiting);
                self.drop(gone, over, false);
            }
            Act::MayWait(waiting) => {
                self.real.may_wait(waiting);
                self.model.load.may_wait(waiting);
            }
            Act::Freed => self.free(),
        }
        self.compare();
    }

    fn compare(&mut self) {
        assert_eq!(self.real.active(), self.model.active());
        assert_eq!(self.real.enough_wait(), self.model.enough_wait());
        assert_eq!(self.real.is_stuck(), self.model.is_stuck());
        assert_eq!(self.real.records().count(), self.model.packed());
    }

    /// All wakes come, memory is free, and every taken task finishes in one step. So the run ends.
    fn end(&mut self) {
        self.act(Act::Allow(4, (usize::MAX, usize::MAX)));
        for _ in 0..4 * self.plan.tasks + 4 {
            while !self.gone.is_empty() {
                self.free();
            }
            while !self.tokens.is_empty() {
                self.wake(0, false);
            }
            (0..self.plan.threads).for_each(|thread| {
                self.take(thread);
            });
            while !self.hands.is_empty() {
                self.finish(0);
            }
            self.compare();
        }
        self.finished.sort_unstable();
        assert_eq!(self.finished, (0..self.plan.tasks).collect::<Vec<_>>(), "each is done, once");
        assert!(self.model.is_through() && self.model.elder.is_none());
        assert_eq!((self.real.active(), self.real.is_stuck()), (0, false));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn whatever_happens_it_answers_as_the_model_does_and_each_task_ends_once(
        plan in plan(),
        acts in prop::collection::vec(act(), 0..200),
    ) {
        let mut pair = Pair::new(plan);
        acts.into_iter().for_each(|act| pair.act(act));
        pair.end();
    }
}

fn task(number: u64, window: u32, place: u64) -> Box<ActiveTask<()>> {
    Box::new(ActiveTask { number, body: (), restarts: 0, window, place })
}

fn plan_of(tasks: u64, windowed: bool) -> SchedulerPlan {
    SchedulerPlan { tasks, threads: 1, active: tasks as usize, windowed, in_runs: 1 }
}

/// A scheduler whose tasks have all begun.
fn begun(tasks: u64, windowed: bool) -> Scheduler<()> {
    let mut scheduler = Scheduler::new(plan_of(tasks, windowed));
    (0..tasks).for_each(|n| assert!(matches!(scheduler.next(0), Some(Next::Begin(number)) if number == n)));
    assert!(scheduler.next(0).is_none());
    scheduler
}

fn next(scheduler: &mut Scheduler<()>) -> Option<u64> {
    scheduler.next(0).map(|next| match next {
        Next::Ready(waiting) => waiting.number(),
        Next::Begin(number) => panic!("{number} begins"),
    })
}

#[test]
fn what_was_found_of_one_limit_is_forgotten_with_it() {
    let mut scheduler = begun(6, false);
    scheduler.note_wait(false, true);
    assert!(scheduler.load.is_short());
    assert!(scheduler.allow(6, (usize::MAX, usize::MAX)).is_empty());
    assert!(!scheduler.load.is_short());
}

/// Tasks of two neighbourhoods. Two wait for pages in the first, and one of them is dropped while it waits.
#[test]
fn a_crowd_goes_on_when_the_last_wake_has_come_whatever_became_of_the_tasks() {
    let mut scheduler = begun(7, true);
    let fresh = |number: u64| WaitingTask::Whole(task(number, 0, (number % 2) << WITHIN));
    let parked = |number: u64| {
        let mut task = task(number, 0, (number % 2) << WITHIN);
        task.restarts = 1;
        task
    };
    scheduler.push(fresh(2));
    let first = scheduler.park(parked(0));
    let second = scheduler.park(parked(4));
    // One was there before, one comes after, one is elsewhere.
    scheduler.push_first(fresh(6));
    scheduler.push(fresh(1));
    assert_eq!((next(&mut scheduler), next(&mut scheduler)), (Some(1), None));
    assert!(scheduler.is_stuck());
    let gone = scheduler.drop_those(1, |task| task.number == 4);
    assert_eq!(gone.len(), 1);
    assert!(scheduler.is_stuck(), "its wake has not come");
    scheduler.wake(second);
    assert!(scheduler.is_stuck(), "nobody wakes, and the other still waits");
    scheduler.wake(first);
    assert!(!scheduler.is_stuck());
    // A free token does not refer to its earlier task.
    let third = scheduler.park(parked(1));
    assert_eq!(scheduler.ready.in_first(), 3);
    assert_eq!([0; 4].map(|_| next(&mut scheduler)), [Some(0), Some(2), Some(6), None]);
    scheduler.wake(99);
    assert!(scheduler.is_stuck());
    scheduler.wake(third);
    assert_eq!(next(&mut scheduler), Some(1));
}

#[test]
fn the_earliest_window_goes_first_and_nobody_far_ahead() {
    let mut scheduler = begun(4, true);
    assert!(scheduler.passed().is_none());
    for (number, window) in [(0, 1), (1, 2), (2, 1)] {
        scheduler.turned(0, WaitingTask::Whole(task(number, window, number)));
    }
    // One is still in the first window, and waits for pages.
    assert!(scheduler.passed().is_none());
    assert_eq!(
        [0; 3].map(|_| next(&mut scheduler)),
        [Some(2), Some(0), None],
        "the last place first, and none two windows ahead"
    );
    assert!(scheduler.is_stuck());
    assert_eq!(scheduler.finished(0), Some(1));
    assert_eq!(next(&mut scheduler), Some(1));
    assert_eq!([1, 1, 2].map(|window| scheduler.finished(window)), [None, Some(2), Some(0)]);
}

#[test]
fn all_are_begun_again_once_until_a_task_ends() {
    let mut scheduler = begun(2, false);
    assert!(scheduler.make_elder(0) && !scheduler.make_elder(1));
    let token = scheduler.park(task(0, 0, 0));
    assert!(scheduler.finished(0).is_none());
    let gone = scheduler.make_room();
    assert_eq!(gone.names(), [(0, 0)], "the elder, which is all that there is");
    scheduler.freed(&gone.names());
    scheduler.wake(token);
    assert!(matches!(scheduler.next(0), Some(Next::Begin(0))));
    assert!(scheduler.make_elder(0), "there is none any more");
    scheduler.park(task(0, 0, 0));
    assert!(scheduler.make_room().is_empty(), "that does not help twice");
}
