//! Pathlines: their times, their releases, and the fields read at each step.

use crate::spec::{PathSpec, Releases, TraceSpec};
use crate::trace_times::{beyond, charge_times, every, is_later, is_within, Times};
use field::dataset::Dataset;
use field::error::FieldError;
use field::expression::Condition;
use kernels::pathline::PathOptions;
use kernels::rk::Method;
use kernels::streamline::{Direction, Integrator};
use kernels::unsteady::Series;
use pager::Pager;
use runtime::limits::charge_other;
use std::any::Any;
use std::sync::Arc;

/// Most particles of one streakline.
const MOST_RELEASES: f64 = 1e7;

/// Times of the releases, in the order of the run. `later`: see `OverTime::may_go_on`.
pub fn releases(
    releases: &Releases,
    series: &Series,
    pager: &Arc<Pager>,
    [from, to]: [f64; 2],
    later: Option<bool>,
) -> Result<Times, FieldError> {
    let wrong = |what: String| Err(FieldError::Usage(what));
    let back = to < from;
    let within = |t: &f64| is_within(*t, [from, to]);
    let most = match releases {
        Releases::Every(span) => ((to - from).abs() / span).min(MOST_RELEASES) + 1.0,
        Releases::Steps(_) => series.times.len() as f64,
        Releases::At(times) => times.len() as f64,
    };
    let held = charge_times(pager, most, "the times of the releases")?;
    let mut times: Vec<f64> = match releases {
        Releases::Every(span) if !(*span > 0.0 && span.is_finite()) => {
            return wrong(format!("particles cannot be released every {span}; it must be a positive time"))
        }
        Releases::Every(span) if (to - from).abs() / span > MOST_RELEASES => {
            return wrong(format!(
            "every {span} between {from} and {to} makes {:.0} particles a seed; choose a longer time between releases",
            (to - from).abs() / span
        ))
        }
        Releases::Every(span) => every(*span, [from, to], &series.times).collect(),
        Releases::Steps(0) => return wrong("particles cannot be released every 0 steps; it must be 1 or more".into()),
        Releases::Steps(n) => {
            let mut times: Vec<f64> = series.times.iter().copied().filter(within).collect();
            if back {
                times.reverse();
            }
            times.into_iter().step_by(*n).collect()
        }
        Releases::At(times) => {
            let ends = [from, to];
            let fits = |t: f64| is_within(t, ends) || (later == Some(true) && is_later(t, ends));
            if let Some(t) = times.iter().find(|t| !fits(**t)) {
                let hint = beyond(*t, ends, later);
                return wrong(format!("the release time {t} does not lie between {from} and {to}{hint}"));
            }
            times.iter().copied().filter(within).collect()
        }
    };
    times.sort_by(f64::total_cmp);
    if back {
        times.reverse();
    }
    if times.is_empty() {
        return wrong(format!(
            "no particle is released between {from} and {to}; say when with a time between releases, or the times of them"
        ));
    }
    Ok(Times { times: times.into(), _held: held })
}

/// A dataset's steps for particles.
pub struct Course {
    /// The grid and arrays of each step.
    pub series: Arc<Series>,
    /// Options of the particles.
    pub options: PathOptions,
    /// The charge of the series.
    pub held: Box<dyn Any>,
}

/// The times of particles, and the fields read at each step. `sampled` ends with the fields of the stop condition.
pub fn series(
    dataset: &Dataset,
    pager: &Arc<Pager>,
    spec: &TraceSpec,
    path: &PathSpec,
    (sampled, stop): (&[String], Option<Arc<Condition>>),
) -> Result<Course, FieldError> {
    let times: Box<[f64]> = dataset.catalog.times.as_slice().into();
    if let Some(n) = times.windows(2).position(|t| !(t[0] < t[1])) {
        return Err(FieldError::Usage(format!(
            "the times of steps {n} and {} are {} and {}; pathlines need times that rise",
            n + 1,
            times[n],
            times[n + 1]
        )));
    }
    if let Some(why) = dataset.catalog.untimed() {
        return Err(FieldError::Usage(format!(
            "{why} Particles need times; --dt goes with the files, when they are opened or converted"
        )));
    }
    let kind = match () {
        () if path.streak.is_some() => "streaklines",
        () if spec.over.timeline.is_some() => "timelines",
        () => "pathlines",
    };
    let (Some(&first), Some(&last)) = (times.first(), times.last()) else {
        return Err(FieldError::Usage("the dataset has no time step".into()));
    };
    let back = match spec.options.direction {
        Direction::Forward => false,
        Direction::Backward => true,
        Direction::Both => {
            return Err(FieldError::Usage(format!("{kind} go forward or backward in time; choose one direction")))
        }
    };
    let (from, to) = if back { (last, first) } else { (first, last) };
    if path.to.is_none() && times.len() == 1 {
        return Err(FieldError::Usage(format!(
            "the dataset has one time step, so nothing says when {kind} end; give the end time, t1"
        )));
    }
    let (from, to) = (path.from.unwrap_or(from), path.to.unwrap_or(to));
    let unit = &dataset.catalog.time_units;
    for (what, time) in [("release", from), ("end", to)] {
        if !time.is_finite() || (times.len() > 1 && !(first..=last).contains(&time)) {
            return Err(FieldError::Usage(format!(
                "the {what} time {time} lies outside of the dataset's times, {first} to {last} (unit {unit})"
            )));
        }
    }
    if (to < from) != back && to != from {
        let way = if back { "before" } else { "after" };
        return Err(FieldError::Usage(format!("the end time {to} must lie {way} the release time {from}")));
    }
    let method = match spec.options.method {
        Integrator::Rk45 | Integrator::Rk45Physical => Method::Rk45,
        Integrator::Fixed(m) => m,
    };
    let options = PathOptions {
        method,
        tolerance: spec.options.tolerance,
        times: [from, to],
        max_length: spec.options.max_length,
        max_steps: spec.options.max_steps,
        time_step: path.time_step,
        step_cells: spec.options.step_cells,
        every_step: !path.at_steps,
        stops: [].into(),
        stop,
    };
    let bytes = dataset.fields_over_time_bytes(sampled) + size_of_val(&*times) as u64;
    let held = charge_other(pager, bytes, "what is read of each time step")?;
    let fields = dataset.fields_over_time(&spec.field, sampled)?;
    let series = Arc::new(Series { times, fields, linear: !path.held });
    Ok(Course { series, options, held })
}
