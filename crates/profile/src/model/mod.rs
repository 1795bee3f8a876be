//! The duration of a run with other settings: a queueing simulation of its log.
//!
//! *Theory.* A run is a closed queueing network: tasks circulate between workers (which compute, decode and keep books)
//! and readers. For each task the log has its turns, with the steps of each and the pages that it then waited for. For
//! reads it has their duration and depth. [`Recording`] stores that. [`Recording::predict`] simulates the run with
//! other numbers of workers and readers, other latencies, or fewer repeated reads. The service time of a read is
//! `a + b d` at depth `d`, by least squares over the reads of the log. `b` is 0 for a device of fixed latency, and the
//! time of a single read for a device that serves them in sequence.
//!
//! *Limits.* The order of turns is that of the log within a task, and "first come, first served" between tasks. The
//! cost of a second thread for the first (memory bandwidth, locks) cannot be known from one run, and is taken from
//! others (`THREADING`). So the model's result for the run's own settings differs from the measurement. Its results
//! for other settings are scaled by the ratio ([`Recording::scaled`]).

mod advice;
mod queue;

pub use advice::{advice, RunFacts};

use pager::{Did, Event, PageId, Priority};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

type ModelPages<V> = HashMap<PageId, V, BuildHasherDefault<pager::IdHash>>;

/// The cost of several threads beyond one, as a share of all processor time: Ellsworth's (2001) result for threads
/// alone.
const THREADING: f64 = 0.13;

/// Most turns kept, some 100 MiB with the pages that they wait for. The beginning of a longer run represents all of it.
const MOST_TURNS: usize = 2 << 20;

/// A task's work in one turn, and its wait afterwards.
#[derive(Clone, Copy, Debug)]
struct Turn {
    task: u32,
    window: u32,
    steps: u32,
    /// Index of its first load; its loads end where those of the next turn begin.
    loads: u32,
    ends: bool,
}

/// A turn of a task as the log has it; runs number their tasks from the beginning.
struct LoggedTurn {
    task: u64,
    window: u32,
    steps: u64,
    ends: bool,
}

/// A page on its way, once.
#[derive(Clone, Copy, Debug)]
struct PageLoad {
    /// Whether the page was resident before.
    again: bool,
}

/// The settings of a prediction.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct ModelResources {
    /// Threads that compute.
    pub workers: usize,
    /// Reads in flight at most.
    pub readers: usize,
    /// Service time of reads, as a share of the measured one.
    pub latency: f64,
    /// Share of the repeated reads that remain.
    pub again: f64,
}

/// The data of a log that the model needs.
#[derive(Default)]
pub struct Recording {
    turns: Vec<Turn>,
    /// For each turn, in order: loads waited for (true) or prefetched.
    wants: Vec<(u32, bool)>,
    loads: Vec<PageLoad>,
    current: ModelPages<u32>,
    seen: ModelPages<()>,
    /// Queued prefetches that have not started.
    queued: ModelPages<()>,
    tasks: HashMap<u64, u32>,
    task_count: u32,
    /// Turns and steps of the whole log, and time without a task in progress.
    all_turns: u64,
    all_steps: f64,
    idle_us: u64,
    /// The last turn of each thread, to which later requests belong.
    open: HashMap<u32, (usize, Vec<(u32, bool)>)>,
    full: bool,
    compute_us: u64,
    decode_us: u64,
    derive_us: u64,
    /// Workers' time that is neither computing, nor waiting, nor decoding.
    alive: HashMap<u32, (u64, u64)>,
    waited_us: u64,
    first_us: Option<u64>,
    last_us: u64,
    wall_us: u64,
    reads: u64,
    pages_read: u64,
    read_us: u64,
    /// Sums for the line of service over depth: count, d, d^2, t, d t.
    line: [f64; 5],
    in_flight: HashMap<u64, (u64, u32)>,
    /// Tasks in progress, and most at a time.
    active: HashMap<u64, ()>,
    most_active: usize,
    /// As in the run.
    pub workers: usize,
    /// As in the run.
    pub readers: usize,
}

impl Recording {
    /// Processes an event. All events must come in their order.
    pub fn event(&mut self, at_us: u64, thread: u32, event: &Event) {
        self.wall_us = self.wall_us.max(at_us);
        match event {
            Event::Note { json } => {
                if let Ok(note) = serde_json::from_str::<serde_json::Value>(json) {
                    let number = |name: &str| note["run"][name].as_u64().and_then(|n| usize::try_from(n).ok());
                    self.workers = number("workers").unwrap_or(self.workers);
                    self.readers = number("readers").unwrap_or(self.readers);
                }
            }
            // A fault of a queued prefetch is the same load.
            Event::Fault { page } if self.queued.remove(page).is_some() => {}
            Event::Fault { page } | Event::Queued { page } => {
                let again = self.seen.insert(*page, ()).is_some();
                if self.full {
                    return;
                }
                let load = self.loads.len() as u32;
                self.current.insert(*page, load);
                self.loads.push(PageLoad { again });
                let demand = matches!(event, Event::Fault { .. });
                if !demand {
                    self.queued.insert(*page, ());
                }
                // It was requested slightly before the load existed.
                if let Some((_, wants)) = self.open.get_mut(&thread) {
                    wants.push((load, demand));
                }
            }
            Event::Reserve { page, .. } | Event::Dropped { page } => drop(self.queued.remove(page)),
            Event::Want { page, priority, .. } => {
                if let (Some(load), Some((_, wants))) = (self.current.get(page), self.open.get_mut(&thread)) {
                    wants.push((*load, *priority == Priority::Demand));
                }
            }
            Event::Task { task, did, took_us, steps, window, .. } => {
                let turn = LoggedTurn { task: *task, window: *window, steps: *steps, ends: *did == Did::End };
                self.turn(at_us, thread, *took_us, turn);
            }
            Event::Compute { took_us, .. } => {
                self.compute_us += took_us;
                self.lives(at_us, thread, *took_us);
            }
            Event::Wait { took_us } => {
                self.waited_us += took_us;
                self.lives(at_us, thread, *took_us);
            }
            Event::Decode { took_ns, .. } => self.decode_us += took_ns.div_ceil(1000),
            Event::Derive { took_ns, .. } => self.derive_us += took_ns.div_ceil(1000),
            Event::ReadStart { read, segments, depth, .. } => {
                self.reads += 1;
                self.pages_read += u64::from(*segments);
                self.in_flight.insert(*read, (at_us, *depth));
            }
            Event::ReadEnd { read, ok: true } => {
                if let Some((since, depth)) = self.in_flight.remove(read) {
                    let (d, t) = (f64::from(depth), at_us.saturating_sub(since) as f64);
                    self.read_us += t as u64;
                    for (sum, more) in self.line.iter_mut().zip([1.0, d, d * d, t, d * t]) {
                        *sum += more;
                    }
                }
            }
            Event::ReadEnd { read, .. } => drop(self.in_flight.remove(read)),
            _ => {}
        }
    }

    fn lives(&mut self, at_us: u64, thread: u32, took_us: u64) {
        let begin = at_us.saturating_sub(took_us);
        let life = self.alive.entry(thread).or_insert((begin, at_us));
        *life = (life.0.min(begin), life.1.max(at_us));
    }

    fn turn(&mut self, at_us: u64, thread: u32, took_us: u64, logged: LoggedTurn) {
        let LoggedTurn { task, window, steps, ends } = logged;
        let begin = at_us.saturating_sub(took_us);
        if self.first_us.is_some() && self.active.is_empty() {
            // Between two runs, or during other work.
            self.idle_us += begin.saturating_sub(self.last_us);
        }
        self.first_us = Some(self.first_us.map_or(begin, |f| f.min(begin)));
        self.last_us = self.last_us.max(at_us);
        self.lives(at_us, thread, took_us);
        self.all_turns += 1;
        self.all_steps += steps as f64;
        if ends {
            self.active.remove(&task);
        } else {
            self.active.insert(task, ());
            self.most_active = self.most_active.max(self.active.len());
        }
        self.close(thread);
        if self.turns.len() >= MOST_TURNS {
            self.full = true;
            return;
        }
        let next = self.task_count;
        let number = *self.tasks.entry(task).or_insert(next);
        self.task_count = self.task_count.max(number + 1);
        if ends {
            // The next run numbers its tasks from the beginning.
            self.tasks.remove(&task);
        }
        let task = number;
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        let turn = Turn { task, window, steps, loads: u32::MAX, ends };
        self.turns.push(turn);
        self.open.insert(thread, (self.turns.len() - 1, Vec::new()));
    }

    /// The requests of a thread's last turn are complete now.
    fn close(&mut self, thread: u32) {
        if let Some((turn, wants)) = self.open.remove(&thread) {
            self.turns[turn].loads = self.wants.len() as u32;
            // Each turn's requests end in a mark.
            self.wants.extend(wants);
            self.wants.push((u32::MAX, false));
        }
    }

    /// Completes the recording after the last event.
    pub fn end(&mut self) {
        let threads: Vec<u32> = self.open.keys().copied().collect();
        threads.into_iter().for_each(|t| self.close(t));
        (self.current, self.seen, self.queued) = Default::default();
        (self.workers, self.readers) = (self.workers.max(1), self.readers.max(1));
    }

    /// Whether there is too little for a prediction.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Share of the run in the kept turns.
    pub fn covers(&self) -> f64 {
        let kept: f64 = self.turns.iter().map(|t| f64::from(t.steps)).sum();
        if self.full {
            (kept / self.all_steps.max(1.0)).min(1.0)
        } else {
            1.0
        }
    }

    /// The settings of the run.
    pub fn resources(&self) -> ModelResources {
        ModelResources { workers: self.workers, readers: self.readers, latency: 1.0, again: 1.0 }
    }

    /// Seconds of the run outside of the stepping of tasks.
    fn outside_s(&self) -> f64 {
        let inside = self.last_us.saturating_sub(self.first_us.unwrap_or(0)).saturating_sub(self.idle_us);
        self.wall_us.saturating_sub(inside) as f64 * 1e-6
    }

    /// Measured seconds of the run.
    pub fn measured_s(&self) -> f64 {
        self.wall_us as f64 * 1e-6
    }

    /// Predicted seconds of the run, by the model alone.
    pub fn predict(&self, resources: ModelResources) -> f64 {
        self.outside_s() + queue::Queueing::new(self, resources).run() * 1e-6
    }

    /// The same, scaled by the model's error for the run's own settings.
    pub fn scaled(&self, resources: ModelResources, as_it_was_s: f64) -> f64 {
        let inside = self.measured_s() - self.outside_s();
        let modelled = (as_it_was_s - self.outside_s()).max(1e-9);
        self.outside_s() + (self.predict(resources) - self.outside_s()) * inside / modelled
    }

    /// Seconds that a read took on average.
    pub fn read_mean_s(&self) -> f64 {
        self.read_us as f64 * 1e-6 / self.line[0].max(1.0)
    }

    /// Service time of a read in microseconds: of a single one, and the addition for each other read in flight.
    fn service(&self) -> (f64, f64) {
        let [n, d, dd, t, dt] = self.line;
        if n < 1.0 {
            return (0.0, 0.0);
        }
        let spread = n * dd - d * d;
        let mean = t / n;
        if spread < 1e-9 * n * n || n < 30.0 {
            return (mean, 0.0);
        }
        let slope = ((n * dt - d * t) / spread).clamp(0.0, mean / (d / n).max(1.0));
        (mean - slope * d / n, slope)
    }

    /// Microseconds of a worker for a step, for each load that arrives, and for each turn.
    fn costs(&self) -> (f64, f64, f64) {
        let loads = self.pages_read.max(self.loads.len() as u64).max(1) as f64;
        let alive: u64 = self.alive.values().map(|(from, to)| to - from).sum();
        let known = self.compute_us + self.waited_us + self.decode_us + self.derive_us;
        let other = alive.saturating_sub(known) as f64;
        (
            self.compute_us as f64 / self.all_steps.max(1.0),
            (self.decode_us + self.derive_us) as f64 / loads,
            other / self.all_turns.max(1) as f64,
        )
    }
}
