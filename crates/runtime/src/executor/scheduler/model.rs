//! The scheduler's rules in their plainest form: tasks in one list, and everything else counted from it when needed.

use super::load_control::LoadControl;
use super::{Next, SchedulerPlan, WaitingTask, WITHIN};

type At = (u32, u64);

/// A task that no thread has.
#[derive(Clone, Debug)]
struct Idle {
    number: u64,
    window: u32,
    place: u64,
    /// Its step was restarted: it waits for pages, or they have come.
    restarted: bool,
    packed: bool,
    token: Option<usize>,
    /// Its number among the tasks that joined a crowd that had begun.
    late: Option<usize>,
}

impl Idle {
    fn at(&self) -> At {
        (self.window, self.place >> WITHIN)
    }
}

/// A thread's expected next task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Ready(u64),
    /// A dropped one.
    Again(u64),
    /// Any that never began.
    Unstarted,
    Nothing,
}

pub(super) struct Model {
    plan: SchedulerPlan,
    /// In the order of the queue, if the run has no windows.
    idle: Vec<Idle>,
    /// For each token whose wake is still to come, the place of its task.
    wakes: Vec<(usize, At)>,
    /// Crowds that have begun.
    begun: Vec<At>,
    came_late: usize,
    active: Vec<(u64, u32)>,
    unstarted: Vec<u64>,
    again: Vec<u64>,
    allowed: usize,
    most: usize,
    since: usize,
    open: bool,
    told: u32,
    pub(super) elder: Option<u64>,
    began_again: bool,
    pub(super) load: LoadControl,
}

impl Model {
    pub(super) fn new(plan: SchedulerPlan) -> Self {
        Self {
            idle: Vec::new(),
            wakes: Vec::new(),
            begun: Vec::new(),
            came_late: 0,
            active: Vec::new(),
            unstarted: (0..plan.tasks).collect(),
            again: Vec::new(),
            allowed: plan.active,
            most: plan.active,
            since: 0,
            open: true,
            told: 0,
            elder: None,
            began_again: false,
            load: LoadControl::new(),
            plan,
        }
    }

    pub(super) fn active(&self) -> usize {
        self.active.len()
    }

    fn earliest(&self) -> u32 {
        if self.open {
            return 0;
        }
        self.active.iter().map(|(_, window)| *window).min().unwrap_or(0)
    }

    fn is_shut(&self, at: At) -> bool {
        self.wakes.iter().any(|(_, of)| *of == at)
    }

    fn ready(&self) -> impl Iterator<Item = &Idle> {
        self.idle.iter().filter(|task| task.token.is_none())
    }

    fn may_go_on(&self, task: &Idle) -> bool {
        task.token.is_none() && (!self.plan.windowed || task.restarted || !self.is_shut(task.at()))
    }

    /// The ready tasks in the first window that has any, up to window `last`.
    fn first(&self, last: u32) -> Vec<&Idle> {
        let may = || self.idle.iter().filter(|task| self.may_go_on(task) && task.window <= last);
        let window = may().map(|task| task.window).min();
        may().filter(|task| Some(task.window) == window).collect()
    }

    pub(super) fn enough_wait(&self) -> bool {
        let mut places: Vec<At> = self.wakes.iter().map(|(_, at)| *at).collect();
        places.sort_unstable();
        places.dedup();
        self.load.is_enough((self.wakes.len(), places.len()))
    }

    pub(super) fn is_stuck(&self) -> bool {
        let none = match self.plan.windowed {
            true => self.first(self.earliest() + 1).is_empty(),
            false => self.ready().next().is_none(),
        };
        (none || self.enough_wait()) && !self.active.is_empty()
    }

    pub(super) fn any_before(&self, window: u32) -> bool {
        self.plan.windowed && self.idle.iter().any(|task| task.window < window && self.may_go_on(task))
    }

    fn best(&self, thread: usize, by_thread: bool) -> Option<u64> {
        if !self.plan.windowed {
            let first = self.ready().next()?;
            if by_thread && self.plan.in_runs > 1 && self.elder != Some(first.number) {
                if let Some(own) = self.ready().find(|task| task.place == thread as u64) {
                    return Some(own.number);
                }
            }
            return Some(first.number);
        }
        let first = self.first(self.earliest() + 1);
        let up = first.first()?.window.is_multiple_of(2);
        let towards = |n: u64| if up { n } else { u64::MAX - n };
        // Neighbourhood by neighbourhood. In each: woken tasks, then late ones with the last first, then the others.
        let key = |task: &&&Idle| {
            let place = (towards(task.place), towards(task.number));
            let late = core::cmp::Reverse(task.late);
            let fresh = !task.restarted;
            (towards(task.place >> WITHIN), fresh, if fresh { late } else { core::cmp::Reverse(None) }, place)
        };
        first.iter().min_by_key(key).map(|task| task.number)
    }

    fn take(&mut self, number: u64) {
        let place = self.idle.iter().position(|task| task.number == number).expect("it is there");
        let task = self.idle.remove(place);
        if self.plan.windowed && !task.restarted && !self.begun.contains(&task.at()) {
            self.begun.push(task.at());
        }
        self.forget_empty();
    }

    /// An empty crowd begins anew.
    fn forget_empty(&mut self) {
        let idle = &self.idle;
        let is_there = |at: &At| idle.iter().any(|task| task.token.is_none() && !task.restarted && task.at() == *at);
        self.begun.retain(is_there);
    }

    fn begin(&mut self) -> Answer {
        let others = self.ready().any(|task| task.window == 0);
        if self.enough_wait() || (self.plan.windowed && (!self.open || others)) {
            return Answer::Nothing;
        }
        if self.active.len() < self.allowed {
            if let Some(number) = self.again.pop() {
                self.active.push((number, 0));
                return Answer::Again(number);
            }
            if !self.unstarted.is_empty() {
                return Answer::Unstarted;
            }
        }
        self.close();
        Answer::Nothing
    }

    fn close(&mut self) {
        if self.plan.windowed && !self.active.is_empty() {
            self.open = false;
        }
    }

    pub(super) fn next(&mut self, thread: usize) -> Answer {
        if self.plan.windowed {
            let begins = self.begin();
            if begins != Answer::Nothing {
                return begins;
            }
        }
        let elder_first =
            !self.plan.windowed && self.elder.is_some() && self.ready().next().map(|t| t.number) == self.elder;
        if !self.enough_wait() || elder_first {
            if let Some(number) = self.best(thread, true) {
                self.take(number);
                return Answer::Ready(number);
            }
        }
        self.begin()
    }

    /// A task began for the first time. False if it had begun before.
    pub(super) fn began(&mut self, number: u64) -> bool {
        let before = self.unstarted.len();
        self.unstarted.retain(|n| *n != number);
        self.active.push((number, 0));
        before == self.unstarted.len() + 1
    }

    /// Whether a thread was given the expected task.
    pub(super) fn agrees(&mut self, answer: &Answer, next: Option<&Next<()>>) -> bool {
        match (answer, next) {
            (Answer::Nothing, None) => true,
            (Answer::Ready(number), Some(Next::Ready(waiting))) => waiting.number() == *number,
            (Answer::Again(number), Some(Next::Begin(begins))) => begins == number,
            (Answer::Unstarted, Some(Next::Begin(number))) => self.began(*number),
            _ => false,
        }
    }

    pub(super) fn take_more(&mut self, most: usize, lanes: usize) -> Vec<u64> {
        let threads = self.plan.threads;
        let waiting = self.load.most() / (lanes * threads);
        let in_first = if self.plan.windowed { self.first(u32::MAX).len() } else { 0 };
        let share = (in_first / (2 * threads)).min(most).min(waiting);
        let mut more = Vec::new();
        for _ in 1..share {
            let Some(number) = self.best(0, false) else { break };
            self.take(number);
            more.push(number);
        }
        more
    }

    pub(super) fn push(&mut self, waiting: &WaitingTask<()>, first: bool) {
        let (restarted, packed) = match waiting {
            WaitingTask::Whole(task) => (task.restarts > 0, false),
            WaitingTask::Packed(_) => (false, true),
        };
        let (number, window, place) = (waiting.number(), waiting.window(), waiting.place());
        self.push_idle(Idle { number, window, place, restarted, packed, token: None, late: None }, first);
    }

    fn push_idle(&mut self, mut task: Idle, first: bool) {
        if self.plan.windowed && !task.restarted && self.begun.contains(&task.at()) {
            self.came_late += 1;
            task.late = Some(self.came_late);
        }
        self.idle.insert(if first { 0 } else { self.idle.len() }, task);
    }

    pub(super) fn turned(&mut self, from: u32, waiting: &WaitingTask<()>) {
        let of = self.active.iter_mut().find(|(number, window)| *number == waiting.number() && *window == from);
        of.expect("it is active").1 = waiting.window();
        self.push(waiting, false);
    }

    pub(super) fn passed(&mut self) -> Option<u32> {
        let earliest = self.earliest();
        (core::mem::replace(&mut self.told, earliest) != earliest).then_some(earliest)
    }

    pub(super) fn park(&mut self, number: u64, window: u32, place: u64, token: usize) {
        let task = Idle { number, window, place, restarted: true, packed: false, token: Some(token), late: None };
        self.wakes.push((token, task.at()));
        self.idle.push(task);
    }

    /// Whether a wake is to come under a token.
    pub(super) fn waits(&self, token: usize) -> bool {
        self.wakes.iter().any(|(of, _)| *of == token)
    }

    pub(super) fn wake(&mut self, token: usize, first: bool) {
        self.wakes.retain(|(of, _)| *of != token);
        let Some(place) = self.idle.iter().position(|task| task.token == Some(token)) else { return };
        let task = Idle { token: None, ..self.idle.remove(place) };
        let first = first || self.elder == Some(task.number) || self.load.is_short();
        self.push_idle(task, first);
    }

    pub(super) fn note_wait(&mut self, first: bool, in_vain: bool) {
        if in_vain {
            let ready = self.ready().count();
            self.load.in_vain(self.wakes.len().max(1), ready);
        } else if first {
            self.load.went_well();
        }
    }

    pub(super) fn finished(&mut self, number: u64) -> Option<u32> {
        self.began_again = false;
        self.leave(number);
        self.since += 1;
        if self.since >= self.allowed && self.allowed < self.most {
            (self.allowed, self.since) = (self.allowed + 1, 0);
        }
        self.passed()
    }

    fn leave(&mut self, number: u64) {
        let before = self.active.len();
        self.active.retain(|(of, _)| *of != number);
        assert_eq!(self.active.len() + 1, before, "{number} was active, once");
        self.open |= self.active.is_empty();
    }

    pub(super) fn freed(&mut self, tasks: &[(u64, u32)]) {
        for (number, _) in tasks {
            self.leave(*number);
            self.elder = self.elder.filter(|elder| elder != number);
            self.again.push(*number);
        }
        self.close();
        (self.allowed, self.since) = (self.allowed.min(self.active.len().max(1)), 0);
    }

    pub(super) fn allow(&mut self, most: usize, waiting: (usize, usize)) -> usize {
        self.load.may_wait(waiting);
        self.load.forget();
        self.began_again = false;
        let most = most.max(1);
        (self.allowed, self.most, self.since) = (most, most, 0);
        self.active.len().saturating_sub(most)
    }

    /// How early a task is dropped, the least first. Tasks that wait for pages go first, then those of the latest
    /// window. In it packed ones go first, then whole ones, of both those of shut crowds first, and then woken ones.
    fn turn(&self, task: &Idle) -> (bool, core::cmp::Reverse<u32>, u8) {
        let windowed = self.plan.windowed;
        let kept_back = self.is_shut(task.at());
        let of = match (task.packed, task.restarted) {
            _ if !windowed || task.token.is_some() => 0,
            (true, _) => u8::from(!kept_back),
            (false, false) => 2 + u8::from(!kept_back),
            (false, true) => 4,
        };
        let window = if windowed && task.token.is_none() { task.window } else { 0 };
        (task.token.is_none(), core::cmp::Reverse(window), of)
    }

    /// Removes dropped tasks, and checks the choice of `count` of them.
    pub(super) fn dropped(&mut self, gone: &[u64], count: usize, elder_too: bool) -> Result<(), String> {
        let may = |task: &Idle| elder_too || self.elder != Some(task.number);
        let there = self.idle.iter().filter(|task| may(task)).count();
        if gone.len() != there.min(count) {
            return Err(format!("{} of {there} dropped where {count} were to be", gone.len()));
        }
        let (out, left): (Vec<_>, Vec<_>) = self.idle.iter().cloned().partition(|task| gone.contains(&task.number));
        if out.len() != gone.len() || !out.iter().all(may) {
            return Err(format!("{gone:?}: one was not there, or there twice, or the elder"));
        }
        let latest = out.iter().map(|task| self.turn(task)).max();
        if left.iter().filter(|task| may(task)).any(|task| Some(self.turn(task)) < latest) {
            return Err(format!("{gone:?}: another was to go first"));
        }
        self.idle = left;
        self.forget_empty();
        Ok(())
    }

    /// How many tasks are to be dropped for room, half or all, and whether the elder may be.
    pub(super) fn room(&mut self) -> (usize, bool) {
        let half = self.active.len() / 2;
        let idle = self.idle.iter().filter(|task| self.elder != Some(task.number)).count();
        if half.min(idle) > 0 || core::mem::replace(&mut self.began_again, true) {
            return (half, false);
        }
        (usize::MAX, true)
    }

    /// Tasks that no thread has without the elder, and whether an active one exists beside it and one more.
    pub(super) fn others(&self) -> (usize, bool) {
        let idle = self.idle.iter().filter(|task| self.elder != Some(task.number)).count();
        let elder = self.idle.len() - idle;
        (idle, self.active.len() - elder > 1)
    }

    pub(super) fn packed(&self) -> usize {
        self.idle.iter().filter(|task| task.packed).count()
    }

    pub(super) fn is_through(&self) -> bool {
        self.active.is_empty() && self.unstarted.is_empty() && self.again.is_empty() && self.idle.is_empty()
    }
}
