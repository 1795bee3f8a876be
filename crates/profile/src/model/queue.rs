//! The simulation itself: workers, readers, and the tasks between them.

use super::{ModelResources, Recording};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Most windows between the first and the last task of a run through time, as in the executor.
const AHEAD: u32 = 1;

#[derive(Copy, Clone, PartialEq, Eq)]
enum ModelPageState {
    Unasked,
    Asked,
    Here,
}

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ModelEvent {
    /// A read has come; its loads wait for a worker.
    Read(u32),
    /// A worker is free again, after a task's turn (by number) or other work.
    Turned(u32),
    Decoded(u32),
}

/// Time in integer nanoseconds, so that the order is total.
type Nanoseconds = u64;

pub(super) struct Queueing<'a> {
    of: &'a Recording,
    resources: ModelResources,
    /// Turns of each task, in order, and its present one.
    turns: Vec<Vec<u32>>,
    at: Vec<usize>,
    state: Vec<ModelPageState>,
    /// Tasks that wait for each load.
    waiters: Vec<Vec<u32>>,
    /// Loads that each task lacks.
    lacks: Vec<u32>,
    /// Tasks that may continue, those of early windows first.
    ready: BinaryHeap<Reverse<(u32, u64, u32)>>,
    order: u64,
    /// Tasks in each window, to know the earliest.
    windows: std::collections::BTreeMap<u32, u32>,
    next: usize,
    active: usize,
    demand: VecDeque<u32>,
    ahead: VecDeque<u32>,
    arrived: VecDeque<u32>,
    reading: usize,
    idle: usize,
    /// Loads that one read brings.
    joined: usize,
    groups: Vec<Vec<u32>>,
    free_groups: Vec<u32>,
    events: BinaryHeap<Reverse<(Nanoseconds, ModelEvent)>>,
    now: Nanoseconds,
    step_us: f64,
    load_us: f64,
    turn_us: f64,
    service: (f64, f64),
}

impl<'a> Queueing<'a> {
    pub(super) fn new(of: &'a Recording, resources: ModelResources) -> Self {
        let mut turns: Vec<Vec<u32>> = vec![Vec::new(); of.task_count as usize];
        for (n, turn) in of.turns.iter().enumerate() {
            turns[turn.task as usize].push(n as u32);
        }
        // The remaining repeated reads, evenly spread.
        let (mut sum, again) = (0.0, resources.again);
        let state = of.loads.iter().map(|load| {
            sum += if load.again { again } else { 1.0 };
            if load.again && sum < 1.0 {
                return ModelPageState::Here;
            }
            sum -= sum.floor();
            ModelPageState::Unasked
        });
        let threading = |workers: usize| if workers > 1 { 1.0 + super::THREADING } else { 1.0 };
        let slower = threading(resources.workers) / threading(of.workers);
        let (step_us, load_us, turn_us) = of.costs();
        let (step_us, load_us, turn_us) = (step_us * slower, load_us * slower, turn_us * slower);
        Self {
            of,
            resources,
            at: vec![0; turns.len()],
            state: state.collect(),
            waiters: vec![Vec::new(); of.loads.len()],
            lacks: vec![0; turns.len()],
            turns,
            ready: BinaryHeap::new(),
            order: 0,
            windows: Default::default(),
            next: 0,
            active: 0,
            demand: VecDeque::new(),
            ahead: VecDeque::new(),
            arrived: VecDeque::new(),
            reading: 0,
            idle: resources.workers,
            joined: (of.pages_read as f64 / of.reads.max(1) as f64).round().max(1.0) as usize,
            groups: Vec::new(),
            free_groups: Vec::new(),
            events: BinaryHeap::new(),
            now: 0,
            step_us,
            load_us,
            turn_us,
            service: of.service(),
        }
    }

    fn after(&mut self, us: f64, what: ModelEvent) {
        self.events.push(Reverse((self.now.saturating_add((us * 1e3).max(1.0) as u64), what)));
    }

    /// Microseconds until all tasks are done.
    pub(super) fn run(mut self) -> f64 {
        self.admit();
        self.dispatch();
        while let Some(Reverse((at, what))) = self.events.pop() {
            self.now = at;
            match what {
                ModelEvent::Read(group) => {
                    self.reading -= 1;
                    let loads = std::mem::take(&mut self.groups[group as usize]);
                    self.free_groups.push(group);
                    self.arrived.extend(loads);
                }
                ModelEvent::Turned(turn) => {
                    self.idle += 1;
                    self.turned(turn);
                }
                ModelEvent::Decoded(load) => {
                    self.idle += 1;
                    self.state[load as usize] = ModelPageState::Here;
                    for task in std::mem::take(&mut self.waiters[load as usize]) {
                        self.lacks[task as usize] -= 1;
                        if self.lacks[task as usize] == 0 {
                            self.goes_on(task);
                        }
                    }
                }
            }
            self.dispatch();
        }
        self.now as f64 * 1e-3
    }

    /// Tasks begin while as many are active as were.
    fn admit(&mut self) {
        while self.active < self.of.most_active.max(self.resources.workers) && self.next < self.turns.len() {
            let task = self.next as u32;
            self.next += 1;
            if self.turns[task as usize].is_empty() {
                continue;
            }
            self.active += 1;
            *self.windows.entry(self.window(task)).or_default() += 1;
            self.goes_on(task);
        }
    }

    fn window(&self, task: u32) -> u32 {
        let turns = &self.turns[task as usize];
        // A turn's window is the task's at its end; the one before is the task's present window.
        let at = self.at[task as usize];
        let turn = if at == 0 { turns.first() } else { turns.get(at - 1) };
        turn.map_or(0, |t| self.of.turns[*t as usize].window)
    }

    fn goes_on(&mut self, task: u32) {
        self.order += 1;
        self.ready.push(Reverse((self.window(task), self.order, task)));
    }

    fn dispatch(&mut self) {
        while self.idle > 0 {
            if let Some(load) = self.arrived.pop_front() {
                self.idle -= 1;
                self.after(self.load_us, ModelEvent::Decoded(load));
                continue;
            }
            let earliest = self.windows.keys().next().copied().unwrap_or(0);
            let Some(&Reverse((window, _, task))) = self.ready.peek() else { break };
            if window > earliest.saturating_add(AHEAD) {
                break;
            }
            self.ready.pop();
            self.idle -= 1;
            let turn = self.turns[task as usize][self.at[task as usize]];
            let us = f64::from(self.of.turns[turn as usize].steps) * self.step_us + self.turn_us;
            self.after(us, ModelEvent::Turned(turn));
        }
        while self.reading < self.resources.readers {
            let mut loads = Vec::new();
            while loads.len() < self.joined {
                match self.demand.pop_front() {
                    Some(load) => loads.push(load),
                    None => break,
                }
            }
            if loads.is_empty() {
                loads.extend((0..self.joined).map_while(|_| self.ahead.pop_front()));
            }
            if loads.is_empty() {
                break;
            }
            self.reading += 1;
            let us = (self.service.0 + self.service.1 * self.reading as f64) * self.resources.latency;
            let group = self.free_groups.pop().unwrap_or_else(|| {
                self.groups.push(Vec::new());
                self.groups.len() as u32 - 1
            });
            self.groups[group as usize] = loads;
            self.after(us, ModelEvent::Read(group));
        }
    }

    fn turned(&mut self, turn: u32) {
        let t = self.of.turns[turn as usize];
        let task = t.task;
        let before = self.window(task);
        self.at[task as usize] += 1;
        let done = t.ends || self.at[task as usize] >= self.turns[task as usize].len();
        if let Some(n) = self.windows.get_mut(&before) {
            *n -= 1;
            if *n == 0 {
                self.windows.remove(&before);
            }
        }
        if !done {
            *self.windows.entry(t.window).or_default() += 1;
        }
        let mut lacks = 0;
        let wants = self.of.wants.get(t.loads as usize..).unwrap_or_default();
        for &(load, demand) in wants.iter().take_while(|w| w.0 != u32::MAX) {
            let state = &mut self.state[load as usize];
            if *state == ModelPageState::Here {
                continue;
            }
            if *state == ModelPageState::Unasked {
                *state = ModelPageState::Asked;
                let queue = if demand { &mut self.demand } else { &mut self.ahead };
                queue.push_back(load);
            }
            if demand && !done {
                self.waiters[load as usize].push(task);
                lacks += 1;
            }
        }
        if done {
            self.active -= 1;
            self.admit();
        } else if lacks > 0 {
            self.lacks[task as usize] = lacks;
        } else {
            self.goes_on(task);
        }
    }
}
