//! Streamlines of many seeds: seeds to tasks, tasks to the executor, lines to the spool.

use crate::admission::SeedOrder;
pub(crate) use crate::admission::{place_of, zone_order, SeedRule};
use crate::away::Held;
use crate::executor::{self, Load, Outcome, RunStats, Work};
use crate::handover::{cut, Sink};
pub use crate::handover::{line_layout, provenance};
use crate::leaving::Leaving;
use crate::limits::{
    active_lines, enough_limit, least_limit, line_bytes, more_than, results_budget, too_large, window_bytes, would_do,
    KEPT_AWAY, KEPT_POINTS,
};
use crate::output::{self, LineArrays, LineLayout, LineSpool, OutputFile, OutputFormat, SpoolOptions};
use crate::overtime::{output_times, steps_of};
pub use crate::overtime::{OutputTimes, OverTime};
use crate::pathlines::{self, Course};
pub use crate::pathlines::{PathSpec, Releases, Units};
use crate::resume::{Kept, StateReader};
use crate::seeds::Seeds;
use crate::session::{Session, Watch};
pub use crate::share::LedgerShare;
use crate::stop::Sampled;
use crate::timelines::Timelines;
pub use crate::timelines::{Curves, Refine, TimelineSpec};
pub use crate::tracers::ReadAhead;
use crate::tracers::{Streamlines, Tracer, Unsteady};
use field::dataset::Dataset;
use field::error::FieldError;
use field::nodes::Zone;
use field::space::{CellId, ZoneFields, LANES};
use kernels::pathline::Pathline;
use kernels::saved::{Saved, Saver};
use kernels::streakline::{StreakOptions, Streakline, OF_PARTICLES};
use kernels::streamline::Options;
use kernels::timeline::{TimelineOptions, OF_POINTS};
use pager::error::PageError;
use pager::{PageId, Pager, Worker};
use std::iter::once;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
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
    /// How; at what they stop says `stop`.
    pub options: Options,
    /// What ends a line where it holds: a condition of fields.
    pub stop: Option<String>,
    /// Pathlines instead of streamlines.
    pub path: Option<PathSpec>,
    /// What a trace over several times is asked for.
    pub over: OverTime,
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
    zones: &'a [Zone],
    seeds: &'a SeedRule<'a>,
    /// Seeds in the order of admission, where sorting them fits.
    sorted: Option<&'a SeedOrder>,
    /// States to go on from.
    states: Option<&'a StateReader>,
    /// Whether the state at the end is kept.
    saves: bool,
    layout: &'a LineLayout,
    /// Which of the moments the lines are of, where each is of one time step.
    moment: u64,
    step_bytes: u64,
    line_bytes: u64,
    /// What a line takes beside that while it is amid a step.
    under_way_bytes: u64,
    workers: usize,
    /// Whether lines that wait for their turn are put away.
    puts_away: bool,
    /// When the run came to its last window, as the pager counts.
    since: AtomicU64,
    /// Pages that had been evicted when it came there.
    evicted: AtomicU64,
    /// Whether memory held what the last window took: only then is there room to read ahead.
    roomy: AtomicBool,
    /// The window that comes first, and where lines are in it and in the next.
    window: AtomicU32,
    leaving: Leaving,
    units: Option<&'a Units>,
    sink: &'a Mutex<Sink>,
}

/// One line in the making.
pub struct LineTask<L> {
    number: u64,
    line: Held<L>,
    failure: Option<PageError>,
    /// No piece of it is in the spool yet.
    first: bool,
    /// The window in which it is, and the cell in which it came there.
    at: Option<(u32, CellId)>,
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
        let line = match self.states {
            None => self.tracer.begin(n, self.seeds)?,
            Some(states) => {
                let state = states.state(n)?;
                let line = self.tracer.restore(self.seeds.seed(n)?, &mut Saved(&state));
                line.ok_or_else(|| states.damaged(n))?
            }
        };
        Ok(LineTask { number: n, line: Held::new(line), failure: None, first: true, at: None })
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
                (*line, *failure) = (Some(l.take_up(&self.tracer)), Some(f));
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
        let held = match &task.line {
            Held::Here(line) => T::bytes(line),
            Held::Away(bytes) => bytes.capacity(),
        };
        // What it grows by within a window is charged from the beginning: of thousands of tasks it would be too much to charge later.
        if T::WINDOWED {
            held.max(self.line_bytes as usize) + OF_TASK as usize
        } else {
            held
        }
    }
    /// Its halves are joined into arrays of their own, and those are split by fields once the halves are gone.
    fn finishing(&self, task: &Self::Task) -> usize {
        // A state that is kept stands beside them, and a copy of the line.
        task.line.here().map_or(0, T::bytes) * if self.saves { 4 } else { 1 }
    }
    fn resized(&self, limit: u64, _active: usize) -> Result<usize, FieldError> {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.spool.set_budget(results_budget(limit)).map_err(FieldError::from)?;
        Ok(self.most_active(limit))
    }
    const WINDOWED: bool = T::WINDOWED;
    #[inline(always)]
    fn window(&self, task: &Self::Task) -> u32 {
        task.line.here().map(T::window).or(task.at.map(|at| at.0)).unwrap_or(0)
    }
    fn place(&self, task: &Self::Task) -> Option<u64> {
        task.line.here().and_then(T::place).or(task.at.map(|at| at.1)).map(place_of)
    }
    fn waiting(&self, limit: u64) -> (usize, usize) {
        if !self.goes_through_time() {
            return (usize::MAX, usize::MAX);
        }
        // A place takes a page of each array and one of their neighbours, as a rule: a quarter of the largest step. They may fill a quarter of
        // the memory.
        let places = limit / self.step_bytes.max(1);
        (self.most_waiting(limit), usize::try_from(places).unwrap_or(usize::MAX).clamp(2 * self.workers, MOST_PLACES))
    }
    fn turned(
        &self,
        flow: &mut Self::Context,
        lane: usize,
        task: &mut Self::Task,
        ahead: &mut Vec<PageId>,
    ) -> Result<(), FieldError> {
        let Held::Here(line) = &mut task.line else { return Ok(()) };
        if self.roomy.load(Relaxed) {
            self.tracer.ahead(flow, lane, line, ahead);
        }
        let at = T::place(line).map(|cell| (T::window(line), cell));
        // A state that is kept holds the line so far, and a line for each moment is made of the whole.
        let keeps = self.saves || !self.layout.moments.is_one_line();
        let least = if self.puts_away { KEPT_AWAY } else { KEPT_POINTS / 2 };
        let piece = if keeps { None } else { T::drain(line, least) };
        if self.puts_away {
            task.line.put_away::<T>(self.line_bytes as usize);
        }
        self.moved(task, at);
        let Some(piece) = piece else { return Ok(()) };
        let first = core::mem::replace(&mut task.first, false);
        let lines = cut(self.layout, task.number, self.moment, &piece);
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.extend(&piece, &lines, first).map_err(FieldError::from)
    }
    fn passed(&self, window: u32) -> Vec<PageId> {
        self.pager.keep_used_since(self.since.swap(self.pager.now(), Relaxed));
        let evicted = self.pager.evictions();
        self.roomy.store(self.evicted.swap(evicted, Relaxed) == evicted, Relaxed);
        self.window.store(window, Relaxed);
        let (arrays, steps) = self.tracer.passed(window);
        if !steps.is_empty() {
            self.pager.give_back_segments(arrays, steps);
        }
        let mut pages = self.tracer.coming(window);
        pages.truncate((self.pager.ledger().limit() / 16 / OF_REQUEST) as usize);
        pages
    }
    fn has_units(&self) -> bool {
        T::WINDOWED && self.units.is_some()
    }
    fn open(&self, window: u32) -> Result<(), FieldError> {
        self.units.map_or(Ok(()), |units| (units.0)(window))
    }
    fn finish(&self, mut task: Self::Task) -> Result<(), FieldError> {
        self.moved(&mut task, None);
        if let Some(e) = task.failure.as_ref().and_then(|e| too_large(self.pager, e)) {
            return Err(e);
        }
        let mut state = Saver::default();
        let line = task.line.into_line(&self.tracer);
        if self.saves {
            self.tracer.save(&line, &mut state);
        }
        let j = T::join(line);
        let lines = cut(self.layout, task.number, self.moment, &j);
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(states) = &mut sink.state {
            states.add(task.number, &state.0).map_err(FieldError::from)?;
        }
        sink.take(&j, &lines, !task.first, task.failure).map_err(FieldError::from)
    }
}

impl<T: Tracer> Tracing<'_, T> {
    /// A line has come into another window, or is done.
    fn moved(&self, task: &mut LineTask<T::Line>, to: Option<(u32, CellId)>) {
        if !self.goes_through_time() {
            return;
        }
        let (mut left, from) = (Vec::new(), core::mem::replace(&mut task.at, to));
        self.leaving.moved(self.zones, from, to, &mut left);
        let Some((window, _)) = from else { return };
        if left.is_empty() || self.roomy.load(Relaxed) || window != self.window.load(Relaxed) {
            return;
        }
        let mut pages = Vec::new();
        left.into_iter().for_each(|page| self.tracer.left(window, page, &mut pages));
        if !pages.is_empty() {
            self.pager.give_back_pages(&pages);
        }
    }

    fn goes_through_time(&self) -> bool {
        T::WINDOWED && self.tracer.windows() > 1
    }

    /// Lines through time that may wait for pages amid a step: one part in sixteen of the memory is for what they hold of it.
    fn most_waiting(&self, limit: u64) -> usize {
        let most = limit / 16 / self.under_way_bytes.max(1);
        usize::try_from(most).unwrap_or(usize::MAX).max(2 * self.workers)
    }

    /// Lines under way at most. Those that go through time hold a quarter of the memory: with half of it, 10,000 particles
    /// read 7.4 GB at 16 MiB, where two batches read 0.7.
    fn most_active(&self, limit: u64) -> usize {
        if self.goes_through_time() {
            let each = self.line_bytes + OF_TASK;
            let steps = self.most_waiting(limit) as u64 * self.under_way_bytes;
            let most = (limit / 4).saturating_sub(steps) / each;
            return usize::try_from(most).unwrap_or(usize::MAX).max(2 * self.workers);
        }
        active_lines(limit, self.step_bytes, self.line_bytes, self.workers, self.pager.readers())
    }
}

/// Places at which lines through time wait for pages at most: their reads keep any device busy.
const MOST_PLACES: usize = 1024;

/// Bytes that the executor keeps of a task, and what the allocator loses between states that come and go: 10,000 particles that were charged
/// with 680 bytes each took 820.
const OF_TASK: u64 = 640;

/// Bytes that a page takes in the pager's lists from when it is asked for until it comes.
const OF_REQUEST: u64 = 256;

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
    let Sampled { names: sampled, stop } = Sampled::of(session, spec)?;
    // Names are checked before an index is built for them.
    session.dataset().fields(Some(&spec.field), &sampled, spec.step)?;
    let found = session.seeded(spec, watch)?;
    let spec = found.as_ref().unwrap_or(spec);
    let (over, is_series) = (&spec.over, file.as_ref().is_some_and(|f| f.format() == OutputFormat::Pvd));
    over.check(spec, is_series)?;
    let dataset = session.located(watch)?;
    let seeds = SeedRule::new(&spec.seeds, &dataset)?;
    let mut layout = line_layout(&dataset, spec);
    let components = layout.fields.iter().map(|f| f.components).sum();
    let (zones, order) = (dataset.zones.clone(), zone_order(&dataset, &session.spec.zone_order)?);
    let tasks = spec.seeds.len();
    let Some(path) = &spec.path else {
        let fields = dataset.fields(Some(&spec.field), &sampled, spec.step)?;
        let need = Need::of(&dataset, &fields, &session.pager, 1);
        let steps = over.steps.clone().unwrap_or_else(|| vec![spec.step]);
        if over.steps.is_some() {
            layout.moments = steps_of(&dataset, &steps)?;
        }
        let tracers = steps.iter().map(|step| {
            let fields = dataset.fields(Some(&spec.field), &sampled, *step)?;
            let options = Options { stop: stop.clone(), ..spec.options.clone() };
            let (zones, order) = (zones.clone(), order.clone());
            Ok(Streamlines { zones, fields, order, step: *step as u32, options, components })
        });
        let job = Job { session, spec, seeds: &seeds, tasks, layout, need, file, kept: Kept::default() };
        return job.trace(tracers, watch);
    };
    let Course { series, mut options, held: _held } =
        pathlines::series(&dataset, &session.pager, spec, path, (&sampled, stop))?;
    let need = Need::of(
        &dataset,
        &series.fields[0],
        &session.pager,
        if series.linear { series.times.len().min(2) } else { 1 },
    );
    let outputs = output_times(over, &series, &session.pager, options.times, is_series)?;
    options.stops = outputs.stops();
    layout.moments =
        outputs.moments(path.streak.is_none() && over.timeline.is_none(), over.trail, &dataset.catalog.time_units);
    let kept = match over.keeps() {
        true => Kept::of(session, &dataset, spec, path, (&series, &options), &seeds, watch)?,
        false => Kept::default(),
    };
    let job = Job { session, spec, seeds: &seeds, tasks, layout, need, file, kept };
    if let Some(timeline) = &over.timeline {
        let components = components - OF_POINTS;
        let (curves, _curves_held) = timeline.charged_curves(tasks, &session.pager)?;
        let options = TimelineOptions { path: options, refine: timeline.refine, max_points: timeline.max_points };
        let unsteady = Unsteady::new(zones, series, order, options, components, path.ahead);
        let job = Job { tasks: curves.len() as u64 - 1, ..job };
        return job.trace(once(Ok(Timelines { unsteady, curves })), watch);
    }
    let Some(streak) = &path.streak else {
        let tracer = Unsteady::<Pathline>::new(zones, series, order, options, components, path.ahead);
        return job.trace(once(Ok(tracer)), watch);
    };
    let releases = pathlines::releases(streak, &series, &session.pager, options.times)?;
    let options = StreakOptions { path: options, releases: releases.times.clone() };
    let components = components - OF_PARTICLES;
    let tracer = Unsteady::<Streakline>::new(zones, series, order, options, components, path.ahead);
    job.trace(once(Ok(tracer)), watch)
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

/// Lines of one kind that are to be traced.
struct Job<'a> {
    session: &'a Session,
    spec: &'a TraceSpec,
    seeds: &'a SeedRule<'a>,
    /// Lines that each tracer makes.
    tasks: u64,
    layout: LineLayout,
    need: Need,
    file: Option<OutputFile>,
    kept: Kept,
}

impl Job<'_> {
    /// Traces them: all lines of a tracer, then those of the next.
    fn trace<T: Tracer>(
        self,
        tracers: impl ExactSizeIterator<Item = Result<T, FieldError>>,
        watch: &mut Watch<'_>,
    ) -> Result<(TraceReport, Option<LineArrays>), FieldError>
    where
        T::Line: 'static,
    {
        let Job { session, spec, seeds, tasks, layout, need, file, kept } = self;
        let pager = &session.pager;
        let limit = pager.ledger().limit();
        let least = least_limit(need.step);
        let components = layout.fields.iter().map(|f| f.components).sum();
        let workers = session.means.threads();
        let line_bytes = line_bytes(&spec.options, components).max(2 * kept.longest());
        let enough = enough_limit(need.closure + 2 * workers as u64 * line_bytes).max(least);
        if limit < least {
            return Err(FieldError::LimitTooSmall {
                limit,
                needs: enough,
                what: "the largest step of a line with its results".into(),
            });
        }
        let lines = tasks.saturating_mul(layout.moments.lines_per_seed());
        let directory = SpoolOptions::spill_directory(file.as_ref());
        let states = kept.writer(&directory, tasks)?;
        let saves = states.is_some();
        // Of a line that hands its points over as it goes no more is kept than those of a window.
        let keeps = saves || !layout.moments.is_one_line();
        let options =
            SpoolOptions { seeds: lines, layout: layout.clone(), budget_bytes: results_budget(limit), directory };
        let spool = LineSpool::new(options, Box::new(LedgerShare::new(pager.clone()))).map_err(|e| {
            match FieldError::from(e) {
                FieldError::LimitTooSmall { needs, what, .. } => {
                    FieldError::LimitTooSmall { limit, needs: needs * 8, what }
                }
                e => e,
            }
        })?;
        let sorted = if tasks == spec.seeds.len() { SeedOrder::near(seeds, pager, watch)? } else { None };
        let sink = Mutex::new(Sink::new(spool, states));
        let (mut run, all) = (RunStats::default(), tasks * tracers.len() as u64);
        for (n, tracer) in tracers.enumerate() {
            let tracer = tracer?;
            let through_time = T::WINDOWED && tracer.windows() > 1;
            let line_bytes = match (through_time, keeps) {
                (true, false) => tracer.most_bytes() as u64 + window_bytes(components, KEPT_POINTS),
                (true, true) => tracer.most_bytes() as u64 + line_bytes / 4,
                _ => line_bytes,
            };
            let fit = tasks.saturating_mul(line_bytes + OF_TASK) <= limit / 16;
            let puts_away = through_time && T::AWAY_BYTES > 0 && !keeps && !fit;
            let away_bytes = T::AWAY_BYTES as u64 + window_bytes(components, KEPT_AWAY);
            let (line_bytes, step_bytes) = if puts_away {
                (away_bytes, line_bytes + T::step_bytes() as u64)
            } else {
                (line_bytes, T::step_bytes() as u64)
            };
            let work = Tracing {
                tracer,
                pager,
                zones: &seeds.zones,
                seeds,
                sorted: sorted.as_ref(),
                states: kept.reader(),
                saves,
                layout: &layout,
                moment: n as u64,
                step_bytes: need.step,
                line_bytes,
                under_way_bytes: step_bytes,
                puts_away,
                workers,
                since: AtomicU64::new(pager.now()),
                evicted: AtomicU64::new(pager.evictions()),
                roomy: AtomicBool::new(true),
                window: AtomicU32::new(0),
                leaving: Leaving::default(),
                units: spec.path.as_ref().and_then(|p| p.units.as_ref()),
                sink: &sink,
            };
            let at_once = spec.path.as_ref().and_then(|p| p.at_once).unwrap_or(usize::MAX).max(1);
            let load = Load { tasks, workers, active: work.most_active(pager.ledger().limit()), at_once };
            pager.keep_used_since(if T::WINDOWED { pager.now() } else { u64::MAX });
            let before = tasks * n as u64;
            let one =
                executor::run(&work, pager, load, &mut |done| watch("tracing", (before + done) as f64, all as f64));
            pager.keep_used_since(u64::MAX);
            // What was short at that moment says little about what else would have been; lines may be longer than is expected of
            // them.
            let limit = pager.ledger().limit();
            run.add(&one.map_err(|e| more_than(e, enough.max(limit + limit / 2)))?);
        }
        session.add_wait(run.wait_s);
        let mut sink = sink.into_inner().unwrap_or_else(PoisonError::into_inner);
        let stats = sink.spool.stats();
        let reasons =
            output::Reason::ALL.iter().map(|r| (r.name(), sink.reasons[usize::from(r.code())])).filter(|(_, n)| *n > 0);
        let report = TraceReport {
            lines,
            points: stats.points,
            reasons: reasons.collect(),
            outside: sink.outside,
            failed: sink.failed,
            failure: sink.failure,
            run,
            spilled_bytes: stats.spilled_bytes,
        };
        let partial = report.failed > 0;
        let refused = |e| match FieldError::from(e) {
            FieldError::LimitTooSmall { needs, what, .. } => {
                FieldError::LimitTooSmall { limit: pager.ledger().limit(), needs: would_do(pager, needs), what }
            }
            e => e,
        };
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
                sink.spool.write(file, &provenance, partial, &mut told).map_err(refused)?;
                None
            }
            None => Some(sink.spool.arrays(partial).map_err(FieldError::from)?),
        };
        if let Some(states) = sink.state {
            kept.finish(states)?;
        }
        Ok((report, arrays))
    }
}
