//! What pathlines are asked for: between which times, and what is read at each step.

use crate::trace::TraceSpec;
use field::dataset::Dataset;
use field::error::FieldError;
use kernels::pathline::PathOptions;
use kernels::rk::Method;
use kernels::streamline::{Direction, Integrator};
use kernels::unsteady::Series;
use std::sync::Arc;

/// What is asked of pathlines beside [`kernels::streamline::Options`], of which the direction is that of time, and lengths and steps count for the whole line.
#[derive(Clone, Debug, Default)]
pub struct PathSpec {
    /// When particles are let go; `None`: at the first time, or backward at the last.
    pub from: Option<f64>,
    /// Until when they are followed; `None`: to the last time, or backward to the first.
    pub to: Option<f64>,
    /// Longest step, time; the step of methods without step control. `None`: from the cell.
    pub time_step: Option<f64>,
    /// A step of the dataset holds until the next, instead of linear interpolation between them.
    pub held: bool,
}

/// The times between which particles are followed, and what is read at each step.
pub(crate) fn series(
    dataset: &Dataset,
    spec: &TraceSpec,
    path: &PathSpec,
) -> Result<(Arc<Series>, PathOptions), FieldError> {
    let times: Box<[f64]> = dataset.catalog.times.as_slice().into();
    if let Some(n) = times.windows(2).position(|t| !(t[0] < t[1])) {
        return Err(FieldError::Usage(format!(
            "the times of steps {n} and {} are {} and {}; pathlines need times that rise",
            n + 1,
            times[n],
            times[n + 1]
        )));
    }
    if dataset.catalog.times_counted {
        return Err(FieldError::Usage(format!(
            "nothing says when the {} time steps are, they are only numbered; say how far apart they are with --dt, when the \
             files are opened or converted",
            times.len()
        )));
    }
    let (Some(&first), Some(&last)) = (times.first(), times.last()) else {
        return Err(FieldError::Usage("the dataset has no time step".into()));
    };
    let back = match spec.options.direction {
        Direction::Forward => false,
        Direction::Backward => true,
        Direction::Both => {
            return Err(FieldError::Usage("pathlines go forward or backward in time; choose one direction".into()))
        }
    };
    let (from, to) = if back { (last, first) } else { (first, last) };
    if path.to.is_none() && times.len() == 1 {
        return Err(FieldError::Usage(
            "the dataset has one time step, so nothing says when pathlines end; give the end time".into(),
        ));
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
    };
    let fields = dataset.fields_over_time(&spec.field, &spec.scalars)?;
    Ok((Arc::new(Series { times, fields, linear: !path.held }), options))
}
