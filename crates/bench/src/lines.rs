//! Many lines over any nodes: by the executor, or in a plain loop.

use field::dataset::Dataset;
use field::error::FieldError;
use field::in_memory::FlatNodes;
use field::locator::{ZoneFields, ZoneLocator, LANES};
use field::nodes::{Each, Miss, Nodes, Zone};
use field::paged::PagedNodes;
use field::simd::V4;
use kernels::flow::{GridFlow, ZoneOrder};
use kernels::line::JoinedLine;
use kernels::streamline::{step_lanes, StepProgress, Streamline};
use pager::error::PageError;
use pager::{PageId, Pager, Worker};
use runtime::executor::{self, Budgeted, Outcome, RunLoad, RunStats, Windowed, Work};
use runtime::limits;
use runtime::session::ProgressWatch;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use trace::admission::{SeedOrder, SeedRule};
use trace::line_kinds::step_lines;
use trace::TraceSpec;

/// Nodes with a thread's worker.
pub(super) trait Pinning: Nodes {
    fn worker(&mut self) -> &mut Worker;
}

impl Pinning for PagedNodes {
    #[inline(always)]
    fn worker(&mut self) -> &mut Worker {
        Self::worker(self)
    }
}

/// Flat arrays by the executor, which never use its worker. The remaining difference to pages is translation.
pub(super) struct Idle {
    pub nodes: FlatNodes,
    pub worker: Worker,
}

impl Pinning for Idle {
    #[inline(always)]
    fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }
}

impl Nodes for Idle {
    type At<'a> = Each<'a, Self>;
    #[inline(always)]
    fn zones(&self) -> &[Zone] {
        self.nodes.zones()
    }
    #[inline(always)]
    fn at(&mut self, zone: usize, cell: [u32; 3]) -> Each<'_, Self> {
        Each::new(self, zone, cell)
    }
    #[inline(always)]
    fn vector(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss> {
        self.nodes.vector(zone, array, cell, out)
    }
    #[inline(always)]
    fn scalar(
        &mut self,
        zone: usize,
        array: usize,
        component: usize,
        cell: [u32; 3],
        out: &mut [f64; 8],
    ) -> Result<(), Miss> {
        self.nodes.scalar(zone, array, component, cell, out)
    }
    #[inline(always)]
    fn prefetch(&self, zone: usize, arrays: &[usize], cell: [u32; 3]) {
        self.nodes.prefetch(zone, arrays, cell);
    }
    fn blocks_that_hold(&mut self, zone: usize, level: usize, p: V4, out: &mut Vec<[u32; 3]>) -> Result<(), Miss> {
        self.nodes.blocks_that_hold(zone, level, p, out)
    }
    fn children_that_hold(
        &mut self,
        zone: usize,
        level: usize,
        parent: [u32; 3],
        p: V4,
        out: &mut Vec<[u32; 3]>,
    ) -> Result<(), Miss> {
        self.nodes.children_that_hold(zone, level, parent, p, out)
    }
    fn row_bounds(&mut self, zone: usize, array: usize, cell: [u32; 3], count: u32) -> Result<Option<(V4, V4)>, Miss> {
        self.nodes.row_bounds(zone, array, cell, count)
    }
    fn block(&mut self, zone: usize, level: usize, block: [u32; 3]) -> Result<[f32; 6], Miss> {
        self.nodes.block(zone, level, block)
    }
    fn missing(&mut self) -> &mut Vec<PageId> {
        self.nodes.missing()
    }
    fn failure(&mut self) -> Option<PageError> {
        self.nodes.failure()
    }
}

/// A trace, for any kind of nodes.
pub(super) struct Job<'a> {
    pub spec: &'a TraceSpec,
    rule: SeedRule<'a>,
    /// The order of [`trace::trace`], so that no arm gains by the order of its seeds.
    sorted: Option<SeedOrder>,
    pub fields: Arc<[ZoneFields]>,
    pub order: ZoneOrder,
}

/// Lines in seed order, and figures of the run.
#[derive(Default)]
pub(super) struct Traced {
    pub lines: Vec<JoinedLine>,
    pub run: RunStats,
    /// Most times that one line found pages absent. It is a lower bound of the longest chain of faults that had to
    /// follow each other.
    pub rounds_most: u64,
}

impl<'a> Job<'a> {
    pub fn new(
        spec: &'a TraceSpec,
        dataset: &Dataset,
        pager: &Arc<Pager>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Self, FieldError> {
        let rule = SeedRule::new(&spec.seeds, dataset)?;
        Ok(Self {
            spec,
            sorted: SeedOrder::near(&rule, pager, watch)?,
            rule,
            fields: dataset.fields(Some(&spec.field), &spec.scalars, spec.step)?,
            order: ZoneOrder::file(dataset.zones.len()),
        })
    }

    /// The `n`th seed in the order of tracing, and its line.
    pub fn line(&self, n: u64) -> Result<(u64, Streamline), FieldError> {
        let seed = self.sorted.as_ref().map_or(n, |order| order.get(n));
        Ok((seed, Streamline::new(self.rule.seed(seed)?, &self.spec.options, 0)))
    }

    pub fn flow<N: Nodes>(&self, nodes: N) -> GridFlow<N> {
        GridFlow::new(ZoneLocator::new(nodes, self.fields.clone()), self.order.clone())
    }

    /// Traces all seeds by the executor.
    pub fn by_executor<N: Pinning>(
        &self,
        pager: &Arc<Pager>,
        load: RunLoad,
        make: &(dyn Fn(Worker) -> N + Sync),
        watch: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Traced, FieldError> {
        let work = Tracing { job: self, make, done: Mutex::new((Vec::new(), 0)) };
        let run = executor::run(&work, pager, load, watch)?;
        let (mut numbered, rounds_most) = work.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        numbered.sort_unstable_by_key(|l| l.0);
        Ok(Traced { lines: numbered.into_iter().map(|l| l.1).collect(), run, rounds_most })
    }

    /// The executor's load for a trace of this size, as [`trace::trace`] chooses it.
    pub fn load(&self, dataset: &Dataset, pager: &Pager, workers: usize) -> RunLoad {
        let step_bytes = dataset.step_bytes(&self.fields, pager, 1);
        let line_bytes = limits::line_bytes(&self.spec.options, 0);
        let limit = pager.ledger().limit();
        let active = limits::active_lines(limit, step_bytes, line_bytes, workers, pager.readers());
        RunLoad { tasks: self.spec.seeds.len(), workers, active }
    }

    /// Traces one seed after another on each thread.
    pub fn by_loop<N: Nodes>(&self, threads: usize, make: &(dyn Fn() -> N + Sync)) -> Result<Traced, FieldError> {
        let next = AtomicU64::new(0);
        let began = std::time::Instant::now();
        let run = || -> Result<(Vec<(u64, JoinedLine)>, u64), FieldError> {
            let mut flow = self.flow(make());
            let (mut lines, mut steps) = (Vec::new(), 0);
            let mut lanes: [Option<(u64, Streamline)>; LANES] = [const { None }; LANES];
            loop {
                for lane in lanes.iter_mut().filter(|l| l.is_none()) {
                    let n = next.fetch_add(1, Relaxed);
                    if n < self.spec.seeds.len() {
                        *lane = Some(self.line(n)?);
                    }
                }
                if lanes.iter().all(Option::is_none) {
                    return Ok((lines, steps));
                }
                let mut done = [false; LANES];
                let mut absent = false;
                let tasks = lanes.each_mut().map(|l| l.as_mut().map(|l| &mut l.1));
                step_lanes(&mut flow, &self.spec.options, tasks, |lane, _, _, result| {
                    steps += 1;
                    done[lane] = result == Ok(StepProgress::Done);
                    absent |= result.is_err();
                });
                if absent {
                    return Err(FieldError::Usage("a plain loop met a page that is not there".into()));
                }
                for (lane, done) in lanes.iter_mut().zip(done) {
                    if let Some((seed, line)) = lane.take_if(|_| done) {
                        lines.push((seed, line.into_line()));
                    }
                }
            }
        };
        let parts: Vec<_> = if threads <= 1 {
            vec![run()]
        } else {
            std::thread::scope(|s| {
                let all: Vec<_> = (0..threads).map(|_| s.spawn(run)).collect();
                let lost = || Err(FieldError::Usage("a thread ended early".into()));
                all.into_iter().map(|t| t.join().unwrap_or_else(|_| lost())).collect()
            })
        };
        let mut traced = Traced::default();
        let mut numbered = Vec::new();
        for part in parts {
            let (lines, steps) = part?;
            numbered.extend(lines);
            traced.run.steps += steps;
        }
        traced.run.wall_s = began.elapsed().as_secs_f64();
        numbered.sort_unstable_by_key(|l| l.0);
        traced.lines = numbered.into_iter().map(|l| l.1).collect();
        Ok(traced)
    }
}

impl Traced {
    pub fn points(&self) -> u64 {
        self.lines.iter().map(|l| l.points.len() as u64).sum()
    }

    /// Checksum of all positions and times, to compare arms.
    pub fn digest(&self) -> String {
        let mut sum = crc32fast::Hasher::new();
        for l in &self.lines {
            sum.update(&(l.points.len() as u64).to_le_bytes());
            l.points.iter().flatten().for_each(|c| sum.update(&c.to_le_bytes()));
            l.time.iter().for_each(|t| sum.update(&t.to_le_bytes()));
        }
        format!("{:08x}", sum.finalize())
    }
}

/// Checksum of lines in the order of their seeds: the offset of each, all positions, all times. It equals that of lines
/// that a trace leaves in memory.
pub(super) fn digest(lines: &[JoinedLine]) -> String {
    let mut sum = crc32fast::Hasher::new();
    let mut offset = 0u64;
    sum.update(&offset.to_le_bytes());
    for line in lines {
        offset += line.points.len() as u64;
        sum.update(&offset.to_le_bytes());
    }
    lines.iter().flat_map(|line| line.points.iter().flatten()).for_each(|c| sum.update(&c.to_le_bytes()));
    lines.iter().flat_map(|line| &line.time).for_each(|t| sum.update(&t.to_le_bytes()));
    format!("{:08x}", sum.finalize())
}

struct Tracing<'a, 'b, N> {
    job: &'a Job<'b>,
    make: &'a (dyn Fn(Worker) -> N + Sync),
    done: Mutex<(Vec<(u64, JoinedLine)>, u64)>,
}

struct Task {
    number: u64,
    line: Streamline,
    rounds: u64,
}

impl<N: Pinning> Work for Tracing<'_, '_, N> {
    type Task = Task;
    type Context = GridFlow<N>;

    fn context(&self, _thread: usize, worker: Worker) -> Self::Context {
        self.job.flow((self.make)(worker))
    }
    #[inline(always)]
    fn worker<'c>(&self, flow: &'c mut Self::Context) -> &'c mut Worker {
        flow.space.nodes.worker()
    }
    fn admit(&self, n: u64) -> Result<Task, FieldError> {
        let (number, line) = self.job.line(n)?;
        Ok(Task { number, line, rounds: 0 })
    }
    #[inline(always)]
    fn steps(&self, flow: &mut Self::Context, tasks: [Option<&mut Task>; LANES], outcomes: &mut [Outcome; LANES]) {
        let mut lines = [const { None }; LANES];
        let mut rounds = [const { None }; LANES];
        for ((task, line), round) in tasks.into_iter().zip(&mut lines).zip(&mut rounds) {
            if let Some(Task { line: l, rounds: r, .. }) = task {
                (*line, *round) = (Some(l), Some(r));
            }
        }
        step_lines(flow, &self.job.spec.options, lines, outcomes, |_, _| ());
        for (round, outcome) in rounds.into_iter().zip(outcomes) {
            if let (Some(round), StepProgress::Need) = (round, outcome.progress) {
                *round += 1;
            }
        }
    }
    #[inline(always)]
    fn bytes(&self, task: &Task) -> usize {
        task.line.bytes()
    }
    fn finish(&self, task: Task) -> Result<(), FieldError> {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.1 = done.1.max(task.rounds);
        done.0.push((task.number, task.line.into_line()));
        Ok(())
    }
}

impl<N: Pinning> Windowed for Tracing<'_, '_, N> {}

impl<N: Pinning> Budgeted for Tracing<'_, '_, N> {}
