//! Streamlines of many seeds: seeds to tasks, tasks to the executor, lines to the spool.

pub mod admission;
pub mod advect;
mod finished_lines;
pub mod flowmap;
mod identity;
mod line_fields;
pub mod line_kinds;
mod line_task;
pub mod pathlines;
mod resume;
mod seed_condition;
mod seed_importance;
pub mod seeds;
mod timelines;
pub mod trace_times;

use crate::admission::SeedOrder;
pub use crate::admission::SeedRule;
use crate::finished_lines::LineSink;
pub use crate::finished_lines::{line_layout, provenance};
use crate::line_fields::LineFields;
pub use crate::line_kinds::ReadAhead;
use crate::line_kinds::{Streamlines, Tracer, Unsteady};
use crate::line_task::{Tracing, OF_TASK};
use crate::pathlines::Course;
pub use crate::pathlines::{PathSpec, Releases, Units};
use crate::resume::ResumeState;
pub use crate::seed_condition::seeded;
use crate::seeds::Seeds;
use crate::timelines::Timelines;
pub use crate::timelines::{Curves, Refine, TimelineSpec};
use crate::trace_times::{output_times, steps_of};
pub use crate::trace_times::{OutputTimes, OverTime};
use field::dataset::Dataset;
use field::error::FieldError;
use field::locator::ZoneFields;
use field::motion::Neighbours;
use field::nodes::Zone;
use kernels::pathline::Pathline;
use kernels::streakline::{StreakOptions, Streakline, OF_PARTICLES};
use kernels::streamline::{Options, TerminalSpeed};
use kernels::timeline::{TimelineOptions, OF_POINTS};
use output::{Destination, LineArrays, LineLayout, LineSpool, OutputFile, OutputFormat, SpoolOptions};
use pager::Pager;
use runtime::executor::{self, RunLoad, RunStats, OF_RECORD};
use runtime::last_use::Leaving;
use runtime::ledger_share::LedgerShare;
use runtime::limits::{
    enough_limit, kept_away, least_limit, line_bytes, more_than, results_budget, window_bytes, would_do, KEPT_LEAST,
    KEPT_POINTS, OF_STATES,
};
use runtime::next_window::Likely;
use runtime::session::{ProgressWatch, Session};
use std::iter::once;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};

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
    /// Seeds that lie in no zone; of timelines, curves of which no seed lies in one.
    pub outside: u64,
    /// Other lines of which there is no point, by reason.
    pub empty: Vec<(&'static str, u64)>,
    /// Lines that met a page that cannot be read.
    pub failed: u64,
    /// The first such page, in words.
    pub failure: Option<String>,
    /// Whether the state that was to be kept is: that of lines that met such a page would hide for good that they did.
    pub state_saved: Option<bool>,
    /// What the run took.
    pub run: RunStats,
    /// Bytes of lines that went through a temporary file.
    pub spilled_bytes: u64,
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
    watch: &mut ProgressWatch<'_>,
) -> Result<(TraceReport, Option<LineArrays>), FieldError> {
    let file = match to {
        Destination::File(p) => Some(OutputFile::create(p).map_err(FieldError::from)?),
        Destination::Memory => None,
    };
    session.dataset().check_step(spec.step)?;
    if matches!(spec.options.terminal_speed, TerminalSpeed::Absolute(speed) if !(speed >= 0.0)) {
        return Err(FieldError::Usage("the terminal speed must be 0 or more".into()));
    }
    let LineFields { names: sampled, stop } = LineFields::of(session, spec)?;
    // Names are checked before an index is built for them.
    session.dataset().fields(Some(&spec.field), &sampled, spec.step)?;
    let found = seeded(session, spec, watch)?;
    let spec = found.as_ref().unwrap_or(spec);
    let (over, is_series) = (&spec.over, file.as_ref().is_some_and(|f| f.format() == OutputFormat::Pvd));
    over.check(spec, file.is_some(), is_series)?;
    let dataset = session.located(watch)?;
    let seeds = SeedRule::new(&spec.seeds, &dataset)?;
    let mut layout = line_layout(&dataset, spec);
    let components = layout.fields.iter().map(|f| f.components).sum();
    let (zones, order) = (dataset.zones.clone(), session.zone_order(&dataset)?);
    let tasks = spec.seeds.len();
    let Some(path) = &spec.path else {
        let fields = dataset.fields(Some(&spec.field), &sampled, spec.step)?;
        let need = Need::of(&dataset, &fields, &session.pager, 1).beside(dataset.neighbour_bytes(&session.pager));
        let steps = over.steps.clone().unwrap_or_else(|| vec![spec.step]);
        if over.steps.is_some() {
            layout.moments = steps_of(&dataset, &steps)?;
        }
        let tracers = steps.iter().map(|step| {
            let fields = dataset.fields(Some(&spec.field), &sampled, *step)?;
            let options = Options { stop: stop.clone(), ..spec.options.clone() };
            let (zones, order) = (zones.clone(), order.clone());
            let near = Neighbours::of(*step, &dataset.catalog.times);
            Ok(Streamlines { zones, fields, order, step: *step as u32, near, options, components })
        });
        let job = TraceJob { session, spec, seeds: &seeds, tasks, layout, need, file, kept: ResumeState::default() };
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
        true => ResumeState::of(session, &dataset, spec, path, (&series, &options), &seeds, watch)?,
        false => ResumeState::default(),
    };
    let job = TraceJob { session, spec, seeds: &seeds, tasks, layout, need, file, kept };
    if let Some(timeline) = &over.timeline {
        let components = components - OF_POINTS;
        let (curves, _curves_held) = timeline.charged_curves(tasks, &session.pager)?;
        let options = TimelineOptions { path: options, refine: timeline.refine, max_points: timeline.max_points };
        let unsteady = Unsteady::new(zones, series, order, options, components, path.ahead);
        let job = TraceJob { tasks: curves.len() as u64 - 1, ..job };
        return job.trace(once(Ok(Timelines { unsteady, curves })), watch);
    }
    let Some(streak) = &path.streak else {
        let tracer = Unsteady::<Pathline>::new(zones, series, order, options, components, path.ahead);
        return job.trace(once(Ok(tracer)), watch);
    };
    let releases = pathlines::releases(streak, &series, &session.pager, options.times, over.may_go_on())?;
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
    /// All pages of a time step.
    whole_step: u64,
}

impl Need {
    /// Of lines that look at so many time steps at a time.
    fn of(dataset: &Dataset, fields: &[ZoneFields], pager: &Pager, steps: usize) -> Self {
        let page_bytes = |z: &Zone, of: &ZoneFields| -> u64 {
            let arrays = of.arrays().into_iter().chain([z.xyz]).chain(z.iblank).map(|n| &z.arrays[n]);
            arrays.map(|a| (z.translation.component * a.components * a.dtype.size()) as u64).sum()
        };
        let zones = dataset.zones.iter().zip(fields);
        Self {
            step: dataset.step_bytes(fields, pager, steps),
            closure: dataset.closure_bytes(fields, pager, steps),
            whole_step: zones.map(|(z, of)| page_bytes(z, of).saturating_mul(z.translation.count())).sum(),
        }
    }
}

impl Need {
    /// With so many bytes more a step.
    fn beside(self, bytes: u64) -> Self {
        Self { step: self.step + bytes, closure: self.closure + bytes, ..self }
    }
}

/// Lines of one kind that are to be traced.
struct TraceJob<'a> {
    session: &'a Session,
    spec: &'a TraceSpec,
    seeds: &'a SeedRule<'a>,
    /// Lines that each tracer makes.
    tasks: u64,
    layout: LineLayout,
    need: Need,
    file: Option<OutputFile>,
    kept: ResumeState,
}

impl TraceJob<'_> {
    /// Traces them: all lines of a tracer, then those of the next.
    fn trace<T: Tracer>(
        self,
        tracers: impl ExactSizeIterator<Item = Result<T, FieldError>>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(TraceReport, Option<LineArrays>), FieldError>
    where
        T::Line: 'static,
    {
        let TraceJob { session, spec, seeds, tasks, layout, need, file, kept } = self;
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
        let sink = Mutex::new(LineSink::new(spool, states));
        let (mut run, all) = (RunStats::default(), tasks * tracers.len() as u64);
        for (n, tracer) in tracers.enumerate() {
            let tracer = tracer?;
            let through_time = T::WINDOWED && tracer.windows() > 1;
            let own = tracer.most_bytes() as u64;
            let fit = |bytes: u64, part: u64| tasks.saturating_mul(bytes + OF_TASK) <= limit / part;
            let room = |points| own + window_bytes(components, points);
            let points = if fit(room(KEPT_POINTS), 16) { KEPT_POINTS } else { KEPT_LEAST };
            let line_bytes = match (through_time, keeps) {
                (true, false) => room(points),
                (true, true) => own + line_bytes / 4,
                _ => line_bytes,
            };
            let puts_away = through_time && T::AWAY_BYTES > 0 && !keeps && !fit(line_bytes, OF_STATES);
            // What a line that is amid a step takes beside its record is counted with those that are.
            let (record_bytes, under_way_bytes, together) = if puts_away {
                let away = T::AWAY_BYTES as u64;
                let points = kept_away(limit / 10, tasks, away + OF_RECORD as u64, components);
                let record = 1 + away + window_bytes(components, points);
                (record as usize, line_bytes + OF_TASK + T::step_bytes() as u64, points + 1)
            } else {
                (0, T::step_bytes() as u64, points / 2)
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
                under_way_bytes,
                record_bytes,
                together,
                workers,
                since: AtomicU64::new(pager.now()),
                evicted: AtomicU64::new(pager.evictions()),
                roomy: AtomicBool::new(true),
                nearly: AtomicBool::new(true),
                window: AtomicU32::new(0),
                leaving: Leaving::default(),
                likely: Likely::default(),
                whole_step: need.whole_step,
                holds: AtomicBool::new(false),
                units: spec.path.as_ref().and_then(|p| p.units.as_ref()),
                keeps_passed: spec.path.as_ref().is_some_and(|p| p.keeps_passed),
                sink: &sink,
            };
            let at_once = spec.path.as_ref().and_then(|p| p.at_once).unwrap_or(usize::MAX).max(1);
            let load = RunLoad { tasks, workers, active: work.most_active(pager.ledger().limit()), at_once };
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
        let named = |counts: &[u64; 16]| -> Vec<(&'static str, u64)> {
            let all = output::Reason::ALL.iter().map(|r| (r.name(), counts[usize::from(r.code())]));
            all.filter(|(_, n)| *n > 0).collect()
        };
        let partial = sink.failed > 0;
        let report = TraceReport {
            lines,
            points: stats.points,
            reasons: named(&sink.reasons),
            outside: sink.outside,
            empty: named(&sink.empty),
            state_saved: saves.then_some(!partial),
            failed: sink.failed,
            failure: sink.failure,
            run,
            spilled_bytes: stats.spilled_bytes,
        };
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
        // Dropped, it leaves what was there.
        if let Some(states) = sink.state.filter(|_| !partial) {
            kept.finish(states)?;
        }
        Ok((report, arrays))
    }
}
