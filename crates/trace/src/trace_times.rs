//! Output times of a trace over several times.

use crate::spec::{OutputTimes, OverTime};
use field::dataset::Dataset;
use field::decimal::Multiples;
use field::error::FieldError;
use kernels::unsteady::Series;
use output::Moments;
use pager::Pager;
use runtime::limits::charge_other;
use std::any::Any;
use std::sync::Arc;

/// Most output times: each is a file, or a line of each seed.
const MOST_OUTPUTS: f64 = 1e6;

/// Whether `time` lies between the two ends, in either order.
pub(crate) fn is_within(time: f64, [from, to]: [f64; 2]) -> bool {
    if to < from {
        (to..=from).contains(&time)
    } else {
        (from..=to).contains(&time)
    }
}

/// Share of the way from the first end that counts as rounding. A user who writes 0.3 for a third of 0.9 gets the third
/// one, too.
const ROUNDING: f64 = 1e-12;

/// Times at intervals of `span` between the ends, as decimal numbers: three times 0.1 is 0.3. A time that differs only
/// by rounding from the other end, or from one of `steps`, becomes that. Times do not depend on the other end, since a
/// continued run must have the same ones.
pub(crate) fn every(span: f64, [from, to]: [f64; 2], steps: &[f64]) -> impl Iterator<Item = f64> + '_ {
    let each = Multiples::new(from, if to < from { -span } else { span });
    let meant = move |n: u32| {
        let t = each.at(n);
        let after = steps.partition_point(|s| *s < t);
        let beside = steps.iter().skip(after.saturating_sub(1)).take(2).copied();
        let mut known = std::iter::once(to).chain(beside);
        known.find(|s| (s - t).abs() <= ROUNDING * (t - from).abs()).unwrap_or(t)
    };
    (0..=u32::MAX).map(meant).take_while(move |t| is_within(*t, [from, to]))
}

/// Whether `time` is after the second end, in the direction of the run.
pub(crate) fn is_later(time: f64, [from, to]: [f64; 2]) -> bool {
    if to < from {
        time < to
    } else {
        time > to
    }
}

/// Advice for a time beyond the end of a run whose state may be saved, and is not.
pub(crate) fn beyond(time: f64, ends: [f64; 2], later: Option<bool>) -> &'static str {
    if later == Some(false) && is_later(time, ends) {
        "; where the state is saved (--save-state) there may be later ones, for the runs that go on"
    } else {
        ""
    }
}

/// Times with their charge, which is made before they are.
pub struct Times {
    /// Rising.
    pub times: Arc<[f64]>,
    /// Their charge.
    pub _held: Box<dyn Any>,
}

/// Charges the making of a list of `count` times: the growing list, and the final one.
pub(crate) fn charge_times(pager: &Arc<Pager>, count: f64, what: &str) -> Result<Box<dyn Any>, FieldError> {
    charge_other(pager, (count + 1.0) as u64 * 32, what)
}

pub(crate) struct Outputs {
    /// As requested; `None`: at the end.
    asked: Option<Times>,
    /// For pathlines: as requested, or each time step.
    each: Times,
}

impl Outputs {
    /// Times at which steps of lines end, in the order of the run.
    pub(crate) fn stops(&self) -> Arc<[f64]> {
        self.asked.as_ref().map_or_else(|| [].into(), |asked| asked.times.clone())
    }

    /// How lines belong to these times. `through`: each line goes through several times.
    pub(crate) fn moments(&self, through: bool, trail: f64, unit: &str) -> Moments {
        match (&self.asked, through) {
            (asked, true) => {
                let mut rising = asked.as_ref().unwrap_or(&self.each).times.to_vec();
                rising.sort_by(f64::total_cmp);
                Moments::Through { times: rising.into(), trail }
            }
            (Some(asked), false) => Moments::At { times: asked.times.clone(), steps: None, unit: unit.to_owned() },
            (None, false) => Moments::One,
        }
    }
}

/// Output times of lines of particles. By default, every time step for a series of files.
///
/// # Errors
/// [`FieldError::Usage`] for times beyond the ends, or too many.
pub(crate) fn output_times(
    over: &OverTime,
    series: &Series,
    pager: &Arc<Pager>,
    ends: [f64; 2],
    is_series: bool,
) -> Result<Outputs, FieldError> {
    let later = over.may_go_on();
    let each = times_of(&OutputTimes::Steps, series, pager, ends, later)?;
    let asked = match (&over.outputs, is_series) {
        (Some(outputs), _) => Some(times_of(outputs, series, pager, ends, later)?),
        (None, true) => Some(times_of(&OutputTimes::Steps, series, pager, ends, later)?),
        (None, false) => None,
    };
    Ok(Outputs { asked, each })
}

/// Times in the order of the run. `later`: see [`OverTime::may_go_on`].
///
/// # Errors
/// [`FieldError::Usage`] for times beyond the ends, or too many.
fn times_of(
    outputs: &OutputTimes,
    series: &Series,
    pager: &Arc<Pager>,
    [from, to]: [f64; 2],
    later: Option<bool>,
) -> Result<Times, FieldError> {
    let wrong = |what: String| Err(FieldError::Usage(what));
    let sign = if to < from { -1.0 } else { 1.0 };
    let count = match outputs {
        OutputTimes::Steps => series.times.len() as f64 + 2.0,
        OutputTimes::Every(span) if !(*span > 0.0 && span.is_finite()) => {
            return wrong(format!("there is no output every {span}; it must be a positive time"))
        }
        OutputTimes::Every(span) => (to - from).abs() / span + 1.0,
        OutputTimes::At(times) => times.len() as f64,
    };
    if count > MOST_OUTPUTS {
        return wrong(format!("{count:.0} times of output are too many; choose a longer time between them"));
    }
    let held = charge_times(pager, count, "the times of output")?;
    let mut times: Vec<f64> = match outputs {
        OutputTimes::Steps => {
            let between = series.times.iter().copied().filter(|t| is_within(*t, [from, to]));
            [from, to].into_iter().chain(between).collect()
        }
        OutputTimes::Every(span) => every(*span, [from, to], &series.times).collect(),
        OutputTimes::At(times) => {
            let ends = [from, to];
            let fits = |t: f64| is_within(t, ends) || (later == Some(true) && is_later(t, ends));
            if let Some(t) = times.iter().find(|t| !fits(**t)) {
                let hint = beyond(*t, ends, later);
                return wrong(format!("the output time {t} does not lie between {from} and {to}{hint}"));
            }
            times.iter().copied().filter(|t| is_within(*t, ends)).collect()
        }
    };
    times.sort_by(|a, b| (a * sign).total_cmp(&(b * sign)));
    times.dedup();
    if times.is_empty() {
        return wrong(format!("no time of output between {from} and {to} is given; name one at least"));
    }
    Ok(Times { times: times.into(), _held: held })
}

/// The time steps of streamlines, and their times.
///
/// # Errors
/// [`FieldError::Usage`] for none, or one twice; as [`Dataset::check_step`].
pub(crate) fn steps_of(dataset: &Dataset, steps: &[usize]) -> Result<Moments, FieldError> {
    if steps.is_empty() {
        return Err(FieldError::Usage("no time step is chosen; name one at least".into()));
    }
    let mut all = Vec::with_capacity(steps.len());
    for &step in steps {
        dataset.check_step(step)?;
        if all.contains(&(step as u32)) {
            return Err(FieldError::Usage(format!("time step {step} is named twice")));
        }
        all.push(step as u32);
    }
    let time = |step: &u32| dataset.catalog.times.get(*step as usize).copied().unwrap_or(f64::from(*step));
    let unit = dataset.catalog.time_units.clone();
    Ok(Moments::At { times: all.iter().map(time).collect(), steps: Some(all.into()), unit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(span: f64, ends: [f64; 2]) -> Vec<f64> {
        every(span, ends, &[]).collect()
    }

    #[test]
    fn no_multiple_is_lost_to_rounding() {
        for count in 1..200u32 {
            for (span, ends) in [(0.1, [0.0, f64::from(count) / 10.0]), (0.7, [0.3, 0.3 + 0.7 * f64::from(count)])] {
                for ends in [ends, [ends[1], ends[0]]] {
                    let times = all(span, ends);
                    assert_eq!(times.len(), count as usize + 1, "{span} {ends:?}");
                    assert_eq!([times[0], times[count as usize]], ends);
                }
            }
        }
        // The sum of three tenths in floating point is more than 0.3.
        assert_eq!(all(0.1 + 0.2, [0.0, 0.9]).len(), 4);
        assert_eq!(all(0.1, [0.0, 0.5]), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]);
        // A time farther away than rounding is left out, and not moved.
        assert_eq!(all(0.5, [0.0, 0.999_999_9]), [0.0, 0.5]);
        assert_eq!(all(0.5, [0.0, 1.000_000_1]), [0.0, 0.5, 1.0]);
        assert_eq!(all(0.5, [2.0, 2.0]), [2.0]);
    }

    #[test]
    fn multiples_are_the_time_steps_that_they_mean() {
        // Summed up, as a solver does.
        let mut steps = vec![0.0f64];
        (0..39).for_each(|n| steps.push(steps[n] + 0.1));
        assert!(steps[8] != 0.8 && steps[9] != 0.9);
        for last in [9, 20, 39] {
            assert_eq!(every(0.1, [0.0, steps[last]], &steps).collect::<Vec<_>>(), steps[..=last]);
        }
        assert_eq!(every(0.25, [0.0, 1.0], &steps).collect::<Vec<_>>(), [0.0, 0.25, steps[5], 0.75, 1.0]);
    }
}
