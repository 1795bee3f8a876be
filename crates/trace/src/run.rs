//! A whole trace: checks its specification, chooses the kind of line, and traces the lines.

use crate::admission::SeedRule;
use crate::finished_lines::line_layout;
use crate::job::TraceJob;
use crate::line_fields::LineFields;
use crate::line_kinds::{Streamlines, Unsteady};
use crate::memory::Need;
use crate::pathlines::{self, Course};
use crate::report::TraceReport;
use crate::resume::ResumeState;
use crate::seed_condition::seeded;
use crate::spec::TraceSpec;
use crate::timelines::Timelines;
use crate::trace_times::{output_times, steps_of};
use field::error::FieldError;
use field::motion::Neighbours;
use kernels::pathline::Pathline;
use kernels::streakline::{StreakOptions, Streakline, OF_PARTICLES};
use kernels::streamline::{Options, TerminalSpeed};
use kernels::timeline::{TimelineOptions, OF_POINTS};
use output::{Destination, LineArrays, OutputFile, OutputFormat};
use runtime::session::{ProgressWatch, Session};
use std::iter::once;

/// Traces lines and writes or returns them.
///
/// # Errors
/// [`FieldError`]: unknown fields and invalid seeds, before any page is read; a limit that does not hold the largest
/// step; a failed write.
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
    // Names are checked before an index is built.
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
