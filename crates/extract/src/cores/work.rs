//! A block of cells as a task of the executor.

use super::gather::{within, BlockReader, Got};
use super::plan::{CorePlan, ReadStage, Size};
use super::store::{CorePoint, CoreStore};
use field::error::FieldError;
use field::expression::run::swirling_strength;
use field::locator::LANES;
use field::plot3d::iblank::hides_cell;
use kernels::cores::block::{Cell, CoreBlock, Mark};
use kernels::cores::cells::segments;
use kernels::cores::method::{least_direction, least_magnitude, symmetric_eigenvalues};
use kernels::cores::pencil::dot;
use kernels::cores::Method;
use kernels::streamline::StepProgress;
use pager::error::PageError;
use pager::{PageId, Pager, Worker};
use runtime::executor::{Budgeted, Outcome, Windowed, Work};
use runtime::limits::{results_budget, too_large};
use std::sync::{Arc, Mutex, PoisonError};

/// Points processed in one step.
const TOGETHER: usize = 128;

pub(super) struct CoreBlocks<'a> {
    pub plan: &'a CorePlan,
    pub size: Size,
    pub pager: &'a Arc<Pager>,
    pub store: Mutex<CoreStore>,
    /// Blocks with an unreadable page, with its message.
    pub failed: Mutex<Vec<(u64, String)>>,
}

/// The next phase of a task.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Starts a slab.
    Slab,
    /// Reads boxes of pages.
    Boxes(ReadStage),
    /// Computes the strength of the points that are new.
    Strength,
    /// Samples at kept points.
    Scalars,
    Done,
}

/// One block in progress.
pub(super) struct Task {
    number: u64,
    /// Index of its zone in the plan.
    of: usize,
    block: CoreBlock,
    phase: Phase,
    /// Boxes of pages still to be read.
    boxes: Vec<[u32; 3]>,
    /// Velocity and strength of the points of the block so far; NaN if a point has none.
    made: Vec<CoreSample>,
    /// Kept points, in the order of places, and pairs of them.
    kept: Vec<u32>,
    pairs: Vec<[u32; 2]>,
    scalars: Vec<f64>,
    failure: Option<Box<PageError>>,
}

#[derive(Copy, Clone)]
struct CoreSample {
    v: [f64; 3],
    strength: f64,
}

/// A matrix of the nine numbers from `n` on.
fn matrix(of: &[f64], n: usize) -> [[f64; 3]; 3] {
    core::array::from_fn(|r| core::array::from_fn(|c| of[n + 3 * r + c]))
}

fn vector(of: &[f64], n: usize) -> [f64; 3] {
    core::array::from_fn(|c| of[n + c])
}

impl CoreBlocks<'_> {
    /// One step. If it needs pages, nothing has changed.
    fn step(&self, g: &mut BlockReader<'_>, task: &mut Task, missing: &mut Vec<PageId>) -> StepProgress {
        match task.phase {
            Phase::Slab => {
                self.begin_slab(task);
                StepProgress::Yield
            }
            Phase::Boxes(stage) => self.boxes(g, task, stage, missing),
            Phase::Strength => self.strength(g, task, missing),
            Phase::Scalars => self.scalars(g, task, missing),
            Phase::Done => StepProgress::Done,
        }
    }

    fn begin_slab(&self, task: &mut Task) {
        let [from, to] = task.block.to_mark();
        let [mut lo, mut hi] = task.block.nodes();
        (lo[2], hi[2]) = (from, to);
        if self.plan.zones[task.of].fields(ReadStage::Mark).is_empty() {
            for k in from..to {
                for j in lo[1]..hi[1] {
                    (lo[0]..hi[0]).for_each(|i| task.block.mark([i, j, k], Mark::Field));
                }
            }
        } else if from < to {
            task.boxes = self.boxes_of(task.of, lo, hi);
        }
        task.phase = Phase::Boxes(ReadStage::Mark);
    }

    /// The boxes of pages that overlap a box of nodes, the last first.
    fn boxes_of(&self, of: usize, lo: [u32; 3], hi: [u32; 3]) -> Vec<[u32; 3]> {
        let page = self.plan.dataset.zones[self.plan.zones[of].zone].translation.page;
        let range = |a: usize| (lo[a] / page[a]..(hi[a] - 1) / page[a] + 1).rev();
        let mut boxes = Vec::new();
        for k in range(2) {
            for j in range(1) {
                boxes.extend(range(0).map(|i| [i, j, k]));
            }
        }
        boxes
    }

    fn boxes(
        &self,
        g: &mut BlockReader<'_>,
        task: &mut Task,
        stage: ReadStage,
        missing: &mut Vec<PageId>,
    ) -> StepProgress {
        if task.boxes.is_empty() {
            return self.boxes_done(task, stage);
        }
        let [mut lo, mut hi] = task.block.nodes();
        let planes = if stage == ReadStage::Mark { Some(task.block.to_mark()) } else { task.block.to_set() };
        [lo[2], hi[2]] = planes.unwrap_or([lo[2], hi[2]]);
        let first = task.boxes.len().saturating_sub(self.size.ahead);
        let mut some = task.boxes.split_off(first);
        let before = some.len();
        // The results of boxes are independent: resident ones are read, in any order.
        some.retain(|b| {
            let block = &mut task.block;
            let got = match stage {
                ReadStage::Mark => g.page((task.of, stage), *b, [lo, hi], missing, &mut |node, v| {
                    block.mark(node, self.mark(task.of, v));
                    if self.plan.dataset.zones[self.plan.zones[task.of].zone].iblank.is_some() && hides_cell(v[0]) {
                        block.hide(node);
                    }
                }),
                _ => g.page((task.of, stage), *b, [lo, hi], missing, &mut |node, v| self.set(block, node, v)),
            };
            match got {
                Got::All => false,
                Got::Absent => true,
                Got::Failed(e) => {
                    let page = self.plan.dataset.zones[self.plan.zones[task.of].zone].translation.page;
                    let [lo, hi] = within(page, *b, [lo, hi]);
                    each(lo, hi, |node| match stage {
                        ReadStage::Mark => task.block.mark(node, Mark::Failed),
                        _ => task.block.unread(node),
                    });
                    task.failure.get_or_insert_with(|| Box::new(e));
                    false
                }
            }
        });
        let done = some.len() < before;
        task.boxes.append(&mut some);
        if done {
            missing.clear();
            StepProgress::Yield
        } else {
            StepProgress::Need
        }
    }

    fn mark(&self, of: usize, v: &[f64]) -> Mark {
        let z = &self.plan.dataset.zones[self.plan.zones[of].zone];
        if z.iblank.is_some() && v[0] == 0.0 {
            return Mark::Hole;
        }
        match (self.plan.method, v.last()) {
            // Interpolation between nodes of at least this value gives no lower one. A NaN node makes its cells holes.
            (Method::Lambda2, Some(l)) if !l.is_finite() => Mark::Hole,
            (Method::Lambda2, Some(l)) if -l <= self.plan.min_strength => Mark::Quiet,
            _ => Mark::Field,
        }
    }

    fn set(&self, block: &mut CoreBlock, node: [u32; 3], v: &[f64]) {
        // Coordinates may have two components, with z = 0.
        let rest = if self.plan.method == Method::Lambda2 { 12 } else { 6 };
        let at = v.len() - rest;
        let mut x = [0.0; 3];
        x[..at].copy_from_slice(&v[..at]);
        let first = vector(v, at);
        let second = match self.plan.method {
            Method::Lambda2 => least_direction(&matrix(v, at + 3)),
            _ => vector(v, at + 3),
        };
        block.set(node, x, first, second);
    }

    fn boxes_done(&self, task: &mut Task, stage: ReadStage) -> StepProgress {
        if stage == ReadStage::Mark {
            task.block.marks_done();
            if let Some([from, to]) = task.block.to_set() {
                let [mut lo, mut hi] = task.block.nodes();
                (lo[2], hi[2]) = (from, to);
                let page = self.plan.dataset.zones[self.plan.zones[task.of].zone].translation.page;
                task.boxes = self.boxes_of(task.of, lo, hi);
                let block = &task.block;
                task.boxes.retain(|b| {
                    let [lo, hi] = within(page, *b, [lo, hi]);
                    block.needs(lo, hi)
                });
            }
            task.phase = Phase::Boxes(ReadStage::Set);
        } else {
            task.block.march();
            task.phase = Phase::Strength;
        }
        StepProgress::Yield
    }

    fn strength(&self, g: &mut BlockReader<'_>, task: &mut Task, missing: &mut Vec<PageId>) -> StepProgress {
        let before = task.made.len();
        let asks = !self.plan.zones[task.of].fields(ReadStage::Strength).is_empty();
        let mut values = Vec::new();
        for f in task.block.found[before..].iter().take(TOGETHER) {
            values.clear();
            if asks {
                match g.mean((task.of, ReadStage::Strength), &f.on.nodes(), &f.on.weights, missing, &mut values) {
                    Got::All => {}
                    Got::Absent => break,
                    Got::Failed(e) => {
                        task.failure.get_or_insert_with(|| Box::new(e));
                        task.made.push(CoreSample { v: f.v, strength: f64::NAN });
                        continue;
                    }
                }
            }
            task.made.push(match self.plan.method {
                Method::SujudiHaimes => CoreSample { v: f.v, strength: swirling_strength(&matrix(&values, 0)) },
                Method::Levy => CoreSample { v: f.v, strength: dot(f.w, f.w).sqrt() },
                Method::Lambda2 => {
                    let (_, others) = least_magnitude(symmetric_eigenvalues(&matrix(&values, 1)));
                    let valley = values[0] < 0.0 && others > 0.0;
                    CoreSample { v: vector(&values, 10), strength: if valley { -values[0] } else { f64::NAN } }
                }
            });
        }
        if task.made.len() < task.block.found.len() {
            let done = task.made.len() > before;
            if done {
                missing.clear();
            }
            return if done { StepProgress::Yield } else { StepProgress::Need };
        }
        if task.block.to_set().is_some() {
            task.phase = Phase::Slab;
            return StepProgress::Yield;
        }
        let places = task.block.places();
        let made = &task.made;
        let pairs = segments(&task.block, &places, |n| made[n as usize].strength > self.plan.min_strength);
        let mut used = vec![false; task.block.found.len()];
        pairs.iter().flatten().for_each(|n| used[*n as usize] = true);
        task.kept = places.into_iter().filter(|n| used[*n as usize]).collect();
        task.pairs = pairs;
        task.phase = Phase::Scalars;
        StepProgress::Yield
    }

    fn scalars(&self, g: &mut BlockReader<'_>, task: &mut Task, missing: &mut Vec<PageId>) -> StepProgress {
        let n = self.plan.components;
        let before = task.scalars.len().checked_div(n).unwrap_or(task.kept.len());
        let mut done = before;
        for place in task.kept[before..].iter().take(TOGETHER) {
            let f = &task.block.found[*place as usize];
            match g.mean((task.of, ReadStage::Scalars), &f.on.nodes(), &f.on.weights, missing, &mut task.scalars) {
                Got::All => {}
                Got::Absent => break,
                Got::Failed(e) => {
                    task.failure.get_or_insert_with(|| Box::new(e));
                    task.scalars.resize((done + 1) * n, f64::NAN);
                }
            }
            done += 1;
        }
        if done == task.kept.len() {
            task.phase = Phase::Done;
            return StepProgress::Done;
        }
        if done == before {
            return StepProgress::Need;
        }
        missing.clear();
        StepProgress::Yield
    }

    /// A point with the states of the cells around it, as far as this block knows them.
    fn point<'t>(&self, task: &'t Task, place: usize) -> CorePoint<'t> {
        let n = task.kept[place] as usize;
        let (f, made) = (&task.block.found[n], &task.made[n]);
        let mut flags = 0;
        for cell in f.key.cells() {
            flags |= match task.block.cell(cell) {
                _ if task.block.is_beyond(cell) => super::store::BEYOND,
                Some(Cell::Hole) => super::store::HOLE,
                Some(Cell::Failed) => super::store::FAILED,
                _ => 0,
            };
        }
        let lengths = dot(f.v, f.v).sqrt() * dot(f.w, f.w).sqrt();
        let n = self.plan.components;
        CorePoint {
            key: f.key,
            flags,
            x: f.x,
            size: f.size as f32,
            v: made.v,
            strength: made.strength,
            helicity: dot(f.v, f.w) / lengths,
            scalars: &task.scalars[place * n..(place + 1) * n],
        }
    }
}

fn each(lo: [u32; 3], hi: [u32; 3], mut node: impl FnMut([u32; 3])) {
    for k in lo[2]..hi[2] {
        for j in lo[1]..hi[1] {
            (lo[0]..hi[0]).for_each(|i| node([i, j, k]));
        }
    }
}

impl<'a> Work for CoreBlocks<'a> {
    type Task = Task;
    type Context = BlockReader<'a>;

    fn context(&self, _thread: usize, worker: Worker) -> Self::Context {
        BlockReader::new(self.plan, worker)
    }
    fn worker<'c>(&self, g: &'c mut Self::Context) -> &'c mut Worker {
        &mut g.worker
    }
    fn admit(&self, n: u64) -> Result<Task, FieldError> {
        let (of, low) = self.plan.block(n);
        let zone = self.plan.zones[of].zone;
        let cells = self.plan.dataset.zones[zone].cells();
        let axial = self.plan.method == Method::Lambda2;
        Ok(Task {
            number: n,
            of,
            block: CoreBlock::new(zone as u32, cells, low, self.size.planes, axial),
            phase: Phase::Slab,
            boxes: Vec::new(),
            made: Vec::new(),
            kept: Vec::new(),
            pairs: Vec::new(),
            scalars: Vec::new(),
            failure: None,
        })
    }
    fn steps(&self, g: &mut Self::Context, tasks: [Option<&mut Task>; LANES], outcomes: &mut [Outcome; LANES]) {
        for (task, outcome) in tasks.into_iter().zip(outcomes) {
            if let Some(task) = task {
                outcome.progress = self.step(g, task, &mut outcome.missing);
            }
        }
    }
    fn bytes(&self, task: &Task) -> usize {
        task.block.bytes()
            + task.boxes.capacity() * size_of::<[u32; 3]>()
            + task.made.capacity() * size_of::<CoreSample>()
            + (task.kept.capacity() + 2 * task.pairs.capacity()) * 4
            + task.scalars.capacity() * 8
            + size_of::<Task>()
    }
    /// Places of points, and cells with their points, during the join.
    fn finishing(&self, task: &Task) -> usize {
        task.block.found.len() * 4
    }
    fn finish(&self, task: Task) -> Result<(), FieldError> {
        if let Some(e) = &task.failure {
            if let Some(e) = too_large(self.pager, e) {
                return Err(e);
            }
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.push((task.number, e.to_string()));
        }
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let found = task.block.places().len() as u64;
        let pairs = task.pairs.iter().map(|p| p.map(|n| task.block.found[n as usize].key));
        store.add(task.number, found, (0..task.kept.len()).map(|n| self.point(&task, n)), pairs)
    }
}

impl<'a> Windowed for CoreBlocks<'a> {}

impl<'a> Budgeted for CoreBlocks<'a> {
    fn resized(&self, limit: u64, active: usize) -> Result<usize, FieldError> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.set_budget(results_budget(limit) / 2)?;
        Ok(active)
    }
}
