//! Streamlines of many seeds: seeds to tasks, tasks to the executor, lines to the spool.

use crate::admission::SeedOrder;
pub(crate) use crate::admission::SeedRule;
use crate::executor::{self, Load, Outcome, RunStats, Work};
use crate::output::{
    self, FieldSpec, FieldType, FieldValues, FinishedLine, LineArrays, LineLayout, LineSpool, OutputFile, Provenance,
    SpoolOptions,
};
use crate::pathlines::Course;
pub use crate::pathlines::{PathSpec, Releases};
use crate::seeds::Seeds;
use crate::session::{would_do, Session, Watch};
pub use crate::share::LedgerShare;
pub use crate::tracers::ReadAhead;
use crate::tracers::{Streamlines, Tracer, Unsteady};
use field::dataset::Dataset;
use field::error::FieldError;
use field::space::{ZoneFields, LANES};
use kernels::flow::ZoneOrder;
use kernels::line::Joined;
use kernels::pathline::Pathline;
use kernels::streakline::{StreakOptions, Streakline, OF_PARTICLES};
use kernels::streamline::{Direction, Options};
use pager::error::{PageError, PageErrorKind};
use pager::{PageId, Pager, Worker};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// What is traced.
#[derive(Clone, Debug)]
pub struct TraceSpec {
    /// Where lines begin.
    pub seeds: Seeds,
    /// The vector.
    pub field: String,
    /// Time step.
    pub step: usize,
    /// Fields sampled along the lines.
    pub scalars: Vec<String>,
    /// How.
    pub options: Options,
    /// Pathlines instead of streamlines.
    pub path: Option<PathSpec>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct TraceReport {
    /// Seeds.
    pub lines: u64,
    /// Points of all lines.
    pub points: u64,
    /// Lines by reason, names as in the outputs.
    pub reasons: Vec<(&'static str, u64)>,
    /// Seeds that lie in no zone.
    pub outside: u64,
    /// Lines that met a page that cannot be read.
    pub failed: u64,
    /// The first such page, in words.
    pub failure: Option<String>,
    /// What the run took.
    pub run: RunStats,
    /// Bytes of lines that went through a temporary file.
    pub spilled_bytes: u64,
}

struct Tracing<'a, T> {
    tracer: T,
    pager: &'a Arc<Pager>,
    seeds: SeedRule<'a>,
    /// Seeds in the order of admission, where sorting them fits.
    sorted: Option<SeedOrder>,
    layout: LineLayout,
    need: Need,
    line_bytes: u64,
    workers: usize,
    /// When the run came to its last window, as the pager counts.
    since: AtomicU64,
    /// Pages that had been evicted when it came there.
    evicted: AtomicU64,
    /// Whether memory held what the last window took: only then is there room to read ahead.
    roomy: AtomicBool,
    sink: Mutex<Sink>,
}

struct Sink {
    spool: LineSpool,
    reasons: [u64; 16],
    outside: u64,
    failed: u64,
    failure: Option<String>,
}

/// One line in the making.
pub struct LineTask<L> {
    number: u64,
    line: L,
    failure: Option<PageError>,
    /// No piece of it is in the spool yet.
    first: bool,
}

impl<T: Tracer> Work for Tracing<'_, T> {
    type Task = LineTask<T::Line>;
    type Context = T::Flow;

    fn context(&self, worker: Worker) -> Self::Context {
        self.tracer.flow(worker)
    }
    #[inline(always)]
    fn worker<'c>(&self, flow: &'c mut Self::Context) -> &'c mut Worker {
        self.tracer.worker(flow)
    }
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError> {
        let n = self.sorted.as_ref().map_or(n, |order| order.get(n));
        Ok(LineTask { number: n, line: self.tracer.line(self.seeds.seed(n)?), failure: None, first: true })
    }
    #[inline(always)]
    fn steps(
        &self,
        flow: &mut Self::Context,
        tasks: [Option<&mut Self::Task>; LANES],
        outcomes: &mut [Outcome; LANES],
    ) {
        let mut failures = [const { None }; LANES];
        let mut lines = [const { None }; LANES];
        for ((task, line), failure) in tasks.into_iter().zip(&mut lines).zip(&mut failures) {
            if let Some(LineTask { line: l, failure: f, .. }) = task {
                (*line, *failure) = (Some(l), Some(f));
            }
        }
        self.tracer.steps(flow, lines, outcomes, |lane, error| {
            if let Some(f) = &mut failures[lane] {
                **f = error;
            }
        });
    }
    #[inline(always)]
    fn bytes(&self, task: &Self::Task) -> usize {
        // What it grows by within a window is charged from the beginning: of thousands of tasks it would be too much to charge later.
        T::bytes(&task.line).max(if T::WINDOWED { self.line_bytes as usize } else { 0 })
    }
    /// Its halves are joined into arrays of their own, and those are split by fields once the halves are gone.
    fn finishing(&self, task: &Self::Task) -> usize {
        T::bytes(&task.line)
    }
    fn resized(&self, limit: u64, _active: usize) -> Result<usize, FieldError> {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.spool.set_budget(results_budget(limit)).map_err(FieldError::from)?;
        Ok(self.most_active(limit))
    }
    const WINDOWED: bool = T::WINDOWED;
    #[inline(always)]
    fn window(&self, task: &Self::Task) -> u32 {
        T::window(&task.line)
    }
    fn turned(
        &self,
        flow: &mut Self::Context,
        lane: usize,
        task: &mut Self::Task,
        ahead: &mut Vec<PageId>,
    ) -> Result<(), FieldError> {
        if self.roomy.load(Relaxed) {
            self.tracer.ahead(flow, lane, &task.line, ahead);
        }
        let Some(piece) = T::drain(&mut task.line, KEPT_POINTS / 2) else { return Ok(()) };
        let first = core::mem::replace(&mut task.first, false);
        self.keep(task.number, &piece, |spool, piece| spool.extend(piece, first))
    }
    fn passed(&self, window: u32) -> Vec<PageId> {
        self.pager.keep_used_since(self.since.swap(self.pager.now(), Relaxed));
        let evicted = self.pager.evictions();
        self.roomy.store(self.evicted.swap(evicted, Relaxed) == evicted, Relaxed);
        let (arrays, steps) = self.tracer.passed(window);
        if !steps.is_empty() {
            self.pager.give_back_segments(arrays, steps);
        }
        self.tracer.coming(window)
    }
    fn finish(&self, task: Self::Task) -> Result<(), FieldError> {
        if let Some(e) = &task.failure {
            if let PageErrorKind::TooLarge { needs, .. } = e.kind {
                // Nothing is wrong with the page: the limit was lowered below what it takes.
                return Err(FieldError::LimitTooSmall {
                    limit: self.pager.ledger().limit(),
                    needs: would_do(self.pager, needs.saturating_mul(2)),
                    what: e.what.to_string(),
                });
            }
        }
        let begun = !task.first;
        let j = T::join(task.line);
        let outside = j.points.is_empty() && !begun && task.failure.is_none();
        let mut reason = output::Reason::Left;
        self.keep(task.number, &j, |spool, line| {
            reason = line.reason;
            spool.add(line)
        })?;
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.reasons[usize::from(reason.code())] += 1;
        sink.outside += u64::from(outside);
        if let Some(f) = task.failure {
            sink.failed += 1;
            sink.failure.get_or_insert_with(|| f.to_string());
        }
        Ok(())
    }
}

impl<T: Tracer> Tracing<'_, T> {
    /// Hands a line, or a piece of one, to the spool.
    fn keep(
        &self,
        seed: u64,
        j: &Joined,
        put: impl FnOnce(&mut LineSpool, &FinishedLine<'_>) -> Result<(), output::OutputError>,
    ) -> Result<(), FieldError> {
        let columns = split(&j.fields, &self.layout.fields, j.points.len());
        let values: Vec<FieldValues<'_>> = columns.iter().map(|c| FieldValues::F64(c)).collect();
        let code = |r: Option<kernels::line::Reason>| {
            r.and_then(|r| output::Reason::from_code(r as u8)).unwrap_or(output::Reason::Left)
        };
        let line = FinishedLine {
            seed,
            points: &j.points,
            time: &j.time,
            zone: &j.zone,
            fields: &values,
            reason: code(j.reason),
            reason_backward: code(j.reason_backward.or(j.reason)),
        };
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        put(&mut sink.spool, &line).map_err(FieldError::from)
    }

    /// Lines under way at most.
    fn most_active(&self, limit: u64) -> usize {
        if T::WINDOWED {
            let each = self.line_bytes + OF_TASK;
            return usize::try_from(limit / 2 / each).unwrap_or(usize::MAX).max(2 * self.workers);
        }
        active_lines(limit, self.need.step, self.line_bytes, self.workers, self.pager.readers())
    }
}

/// Bytes that the executor keeps of a task.
const OF_TASK: u64 = 256;

/// Points of a pathline that are handed over in one piece, as a rule: a piece has 12 bytes of its own, a point 36 or more.
const KEPT_POINTS: usize = 8;

/// From point by point to field by field.
fn split(values: &[f64], fields: &[FieldSpec], points: usize) -> Vec<Vec<f64>> {
    let stride: usize = fields.iter().map(|f| f.components).sum();
    let mut at = 0;
    let column = |f: &FieldSpec| {
        let column =
            (0..points).flat_map(|p| values[p * stride + at..p * stride + at + f.components].iter().copied()).collect();
        at += f.components;
        column
    };
    fields.iter().map(column).collect()
}

/// Where the lines go.
pub enum Destination<'a> {
    /// Into memory that is the caller's.
    Memory,
    /// Into a file; the format follows from its name.
    File(&'a Path),
}

/// Traces and hands the lines over.
///
/// # Errors
/// [`FieldError`]: unknown fields and bad seeds before any page is read; a limit that does not hold the largest step; what
/// cannot be written.
pub fn trace(
    session: &Session,
    spec: &TraceSpec,
    to: Destination<'_>,
    watch: &mut Watch<'_>,
) -> Result<(TraceReport, Option<LineArrays>), FieldError> {
    let file = match to {
        Destination::File(p) => Some(OutputFile::create(p).map_err(FieldError::from)?),
        Destination::Memory => None,
    };
    session.dataset().check_step(spec.step)?;
    let wrong = |o: &f64| !(*o >= 0.0);
    if wrong(&spec.options.terminal_speed) {
        return Err(FieldError::Usage("the terminal speed must be 0 or more".into()));
    }
    // Names are checked before an index is built for them.
    session.dataset().fields(Some(&spec.field), &spec.scalars, spec.step)?;
    let dataset = session.located(watch)?;
    let layout = line_layout(&dataset, spec);
    let components = layout.fields.iter().map(|f| f.components).sum();
    let (zones, order) = (dataset.zones.clone(), zone_order(&dataset, &session.spec.zone_order)?);
    match &spec.path {
        None => {
            let fields = dataset.fields(Some(&spec.field), &spec.scalars, spec.step)?;
            let need = Need::of(&dataset, &fields, &session.pager, 1);
            let (step, options) = (spec.step as u32, spec.options.clone());
            let tracer = Streamlines { zones, fields, order, step, options, components };
            trace_by(session, spec, tracer, (&dataset, layout, need), file, watch)
        }
        Some(path) => {
            let Course { series, options, held: _held } =
                crate::pathlines::series(&dataset, &session.pager, spec, path)?;
            let need = Need::of(
                &dataset,
                &series.fields[0],
                &session.pager,
                if series.linear { series.times.len().min(2) } else { 1 },
            );
            let Some(streak) = &path.streak else {
                let tracer = Unsteady::<Pathline>::new(zones, series, order, options, components, path.ahead);
                return trace_by(session, spec, tracer, (&dataset, layout, need), file, watch);
            };
            let releases = crate::pathlines::releases(streak, &series, options.times)?;
            let options = StreakOptions { path: options, releases };
            let components = components - OF_PARTICLES;
            let tracer = Unsteady::<Streakline>::new(zones, series, order, options, components, path.ahead);
            trace_by(session, spec, tracer, (&dataset, layout, need), file, watch)
        }
    }
}

/// Bytes that lines take of the data.
struct Need {
    /// The largest step.
    step: u64,
    /// Any step, wherever it leads.
    closure: u64,
}

impl Need {
    /// Of lines that look at so many time steps at a time.
    fn of(dataset: &Dataset, fields: &[ZoneFields], pager: &Pager, steps: usize) -> Self {
        Self { step: dataset.step_bytes(fields, pager, steps), closure: dataset.closure_bytes(fields, pager, steps) }
    }
}

/// Traces one kind of lines.
fn trace_by<T: Tracer>(
    session: &Session,
    spec: &TraceSpec,
    tracer: T,
    (dataset, layout, need): (&Dataset, LineLayout, Need),
    file: Option<OutputFile>,
    watch: &mut Watch<'_>,
) -> Result<(TraceReport, Option<LineArrays>), FieldError>
where
    T::Line: 'static,
{
    let pager = &session.pager;
    let limit = pager.ledger().limit();
    let least = least_limit(need.step);
    let components = layout.fields.iter().map(|f| f.components).sum();
    let workers = session.means.threads();
    let line_bytes = match T::WINDOWED {
        true => tracer.most_bytes() as u64 + window_bytes(components),
        false => line_bytes(&spec.options, components),
    };
    let enough = enough_limit(need.closure + 2 * workers as u64 * line_bytes).max(least);
    if limit < least {
        return Err(FieldError::LimitTooSmall {
            limit,
            needs: enough,
            what: "the largest step of a line with its results".into(),
        });
    }
    let count = spec.seeds.len();
    let options = SpoolOptions {
        seeds: count,
        layout: layout.clone(),
        budget_bytes: results_budget(limit),
        directory: SpoolOptions::spill_directory(file.as_ref()),
    };
    let spool =
        LineSpool::new(options, Box::new(LedgerShare::new(pager.clone()))).map_err(|e| match FieldError::from(e) {
            FieldError::LimitTooSmall { needs, what, .. } => {
                FieldError::LimitTooSmall { limit, needs: needs * 8, what }
            }
            e => e,
        })?;
    let seeds = SeedRule::new(&spec.seeds, dataset)?;
    let sorted = SeedOrder::near(&seeds, pager, watch)?;
    let work = Tracing {
        tracer,
        pager,
        seeds,
        sorted,
        layout,
        need,
        line_bytes,
        workers,
        since: AtomicU64::new(pager.now()),
        evicted: AtomicU64::new(pager.evictions()),
        roomy: AtomicBool::new(true),
        sink: Mutex::new(Sink { spool, reasons: [0; 16], outside: 0, failed: 0, failure: None }),
    };
    let at_once = spec.path.as_ref().and_then(|p| p.at_once).unwrap_or(usize::MAX).max(1);
    let load = Load { tasks: count, workers, active: work.most_active(limit), at_once };
    pager.keep_used_since(if T::WINDOWED { pager.now() } else { u64::MAX });
    let run = executor::run(&work, pager, load, &mut |done| watch("tracing", done as f64, count as f64));
    pager.keep_used_since(u64::MAX);
    // What was short at that moment says little about what else would have been; lines may be longer than is expected of them.
    let limit = pager.ledger().limit();
    let run = run.map_err(|e| more_than(e, enough.max(limit + limit / 2)))?;
    session.add_wait(run.wait_s);
    let sink = work.sink.into_inner().unwrap_or_else(PoisonError::into_inner);
    let stats = sink.spool.stats();
    let reasons =
        output::Reason::ALL.iter().map(|r| (r.name(), sink.reasons[usize::from(r.code())])).filter(|(_, n)| *n > 0);
    let report = TraceReport {
        lines: count,
        points: stats.points,
        reasons: reasons.collect(),
        outside: sink.outside,
        failed: sink.failed,
        failure: sink.failure,
        run,
        spilled_bytes: stats.spilled_bytes,
    };
    let partial = report.failed > 0;
    let arrays = match file {
        Some(file) => {
            let provenance = provenance(session, spec);
            let mut told = |done: u64, total: u64| {
                if watch("writing", done as f64, total as f64) {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            };
            sink.spool.write(file, &provenance, partial, &mut told).map_err(FieldError::from)?;
            None
        }
        None => Some(sink.spool.arrays(partial).map_err(FieldError::from)?),
    };
    Ok((report, arrays))
}

/// Bytes of finished lines that stay in memory; the others go to disk.
fn results_budget(limit: u64) -> usize {
    usize::try_from(limit / 8).unwrap_or(usize::MAX)
}

/// A limit that is too small, with at least `enough` as what would do.
pub(crate) fn more_than(e: FieldError, enough: u64) -> FieldError {
    match e {
        FieldError::LimitTooSmall { limit, needs, what } => {
            FieldError::LimitTooSmall { limit, needs: needs.max(enough), what }
        }
        e => e,
    }
}

/// Bytes that a line under way may come to, with room to grow.
pub(crate) fn line_bytes(options: &Options, components: usize) -> u64 {
    let points = 2 * (u64::from(options.max_steps) + 1);
    points.saturating_mul(48 + 8 * components as u64).min(LONG_LINE)
}

/// Bytes of the points of a line that goes through time, while it is in a window: as a rule it makes a few steps there.
fn window_bytes(components: usize) -> u64 {
    KEPT_POINTS as u64 * (40 + 8 * components as u64)
}

/// More is not set aside for a line whatever its options allow: hardly any gets as long, and few lines under way would leave
/// readers idle.
const LONG_LINE: u64 = 256 << 10;

/// Lines under way at a time: each uses a page or two of each array that it reads, and grows; half of the memory is for that. No more
/// than keep readers and workers busy: what a line waits for is mostly a page or two of each of three arrays.
pub(crate) fn active_lines(limit: u64, step_bytes: u64, line_bytes: u64, workers: usize, readers: usize) -> usize {
    let each = (step_bytes / 4).max(64 << 10).max(line_bytes);
    let busy = readers.max(workers * 2 * LANES).max(BUSY);
    (limit / 2 / each).clamp(workers as u64 * 2, busy as u64) as usize
}

/// Lines that keep a disk busy. Of 512 under way 1.10 times the bytes of the pages touched were read, of 64 to 128 1.05, and the run took
/// 0.63 s instead of 0.68; with 32 it took 0.84.
const BUSY: usize = 128;

/// The smallest limit for a largest step of so many bytes: the elder's pages beside an eighth for results, and the bookkeeping.
pub fn least_limit(step_bytes: u64) -> u64 {
    ((step_bytes + step_bytes / 4).max(LEAST) * 8 / 7).div_ceil(64 << 10) * (64 << 10) + (64 << 10)
}

/// A limit that does for steps that need so many bytes in all, wherever they lead: beside them stand what the session keeps free,
/// the pager's tables, and the results.
pub fn enough_limit(closure_bytes: u64) -> u64 {
    crate::session::limit_for(closure_bytes + 2 * LEAST, 8).div_ceil(64 << 10) * (64 << 10)
}

/// Least memory for a run whatever the data: buffers of the outputs, tables, a few tasks.
const LEAST: u64 = 512 << 10;

/// What is written beside the lines. Not where the data lay: the same data give the same bytes from any layout and place.
pub fn provenance(session: &Session, spec: &TraceSpec) -> Provenance {
    let dataset = session.dataset();
    Provenance {
        program: concat!("farfield ", env!("CARGO_PKG_VERSION")).to_owned(),
        source: String::new(),
        length_unit: dataset.length_unit(),
        time_unit: match spec.path {
            None => dataset.travel_time_unit(&spec.field),
            Some(_) => dataset.catalog.time_units.clone(),
        },
        notes: vec![
            ("field".into(), spec.field.clone()),
            ("tolerance".into(), format!("{:e}", spec.options.tolerance)),
        ],
    }
}

/// What every line of a trace has.
pub fn line_layout(dataset: &Dataset, spec: &TraceSpec) -> LineLayout {
    let fields = spec.scalars.iter().map(|name| FieldSpec {
        name: name.clone(),
        components: dataset.quantity(0, name).map_or(1, |q| q.components()),
        dtype: FieldType::F64,
        unit: dataset.units(name),
    });
    let mut fields: Vec<FieldSpec> = fields.collect();
    if spec.path.as_ref().is_some_and(|p| p.streak.is_some()) {
        let unit = || dataset.catalog.time_units.clone();
        let of_particles = ["birth", "age"];
        fields.extend(of_particles.map(|name| FieldSpec {
            name: name.into(),
            components: 1,
            dtype: FieldType::F64,
            unit: unit(),
        }));
    }
    LineLayout { fields, both: spec.options.direction == Direction::Both }
}

/// The order of search between zones: those named first, then the others in file order.
pub(crate) fn zone_order(dataset: &Dataset, names: &[String]) -> Result<ZoneOrder, FieldError> {
    let mut order = Vec::with_capacity(dataset.zones.len());
    for n in names {
        let z = dataset.zone_named(n)? as u32;
        if !order.contains(&z) {
            order.push(z);
        }
    }
    for z in 0..dataset.zones.len() as u32 {
        if !order.contains(&z) {
            order.push(z);
        }
    }
    Ok(ZoneOrder(order.into()))
}
