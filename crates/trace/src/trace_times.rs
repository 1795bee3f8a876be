//! What a trace over several times is asked for, and the times at which its lines are wanted.

use crate::timelines::TimelineSpec;
use crate::TraceSpec;
use field::dataset::Dataset;
use field::decimal::Multiples;
use field::error::FieldError;
use kernels::unsteady::Series;
use output::Moments;
use pager::Pager;
use runtime::limits::charge_other;
use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

/// What a trace over several times is asked for, beside what one of a single time is.
#[derive(Clone, Debug, Default)]
pub struct OverTime {
    /// Streamlines: of these time steps, one after the other; `None`: of the one of the trace.
    pub steps: Option<Vec<usize>>,
    /// Particles: when their lines are wanted; `None`: pathlines at every time step, others at the end.
    pub outputs: Option<OutputTimes>,
    /// Pathlines in a file for each time: how much of its line each particle trails behind it, time; none if 0.
    pub trail: f64,
    /// Timelines instead of pathlines.
    pub timeline: Option<TimelineSpec>,
    /// Where to keep the state of the particles, so that they can go on when there are more time steps.
    pub save_state: Option<PathBuf>,
    /// A state that was kept, to go on from.
    pub resume: Option<PathBuf>,
}

impl OverTime {
    /// Whether particles go on from a state, or may.
    pub(crate) fn keeps(&self) -> bool {
        self.save_state.is_some() || self.resume.is_some()
    }

    /// Whether there may be times behind the end of the run, for those that go on from its state; `None` where none can be kept.
    pub(crate) fn may_go_on(&self) -> Option<bool> {
        self.timeline.is_none().then_some(self.save_state.is_some())
    }

    /// Refuses what does not go together.
    ///
    /// # Errors
    /// [`FieldError::Usage`].
    pub(crate) fn check(&self, spec: &TraceSpec, is_file: bool, is_series: bool) -> Result<(), FieldError> {
        let wrong = |what: &str| Err(FieldError::Usage(what.to_owned()));
        match &spec.path {
            None if self.outputs.is_some() => wrong("streamlines have no times of output; say of which time steps they are"),
            None if self.keeps() => wrong("the state of streamlines is not kept: they do not go on with time"),
            None if is_series && self.steps.is_none() => {
                wrong("a .pvd lists files of several times, and these streamlines are of one; choose time steps (--steps), or write a .vtp")
            }
            Some(_) if self.steps.is_some() => wrong("particles go through all time steps; --steps is for streamlines"),
            path if self.trail != 0.0 && path.as_ref().is_none_or(|p| p.streak.is_some() || self.timeline.is_some()) => {
                wrong("only pathlines have a trail")
            }
            Some(_) if !(self.trail >= 0.0) => wrong("the time that a particle trails behind it must be 0 or more"),
            Some(_) if self.trail > 0.0 && is_file && !is_series => {
                wrong("a trail is drawn in the files of a .pvd, one for each time, and in no other output; write a .pvd, or leave --trail away")
            }
            Some(_) if self.timeline.is_some() && self.keeps() => {
                wrong("the state of timelines is not kept: what is put in between goes all the way from the release; trace them anew")
            }
            _ => Ok(()),
        }
    }
}

/// When lines are wanted, between the times of the first release and the end.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputTimes {
    /// At both and at every time step of the dataset between them.
    Steps,
    /// Whenever so much time has passed since the release.
    Every(f64),
    /// At these times.
    At(Vec<f64>),
}

/// Most times at which lines are wanted: each is a file, or a line a seed.
const MOST_OUTPUTS: f64 = 1e6;

/// Whether `time` lies between the two ends, whichever is the earlier.
pub(crate) fn is_within(time: f64, [from, to]: [f64; 2]) -> bool {
    if to < from {
        (to..=from).contains(&time)
    } else {
        (from..=to).contains(&time)
    }
}

/// How much of the way from the first end is but rounding: who says 0.3 and means a third of 0.9 is to have that third one, too.
const ROUNDING: f64 = 1e-12;

/// Times so far apart, from the one end to the other, as decimal numbers: 0.3 is the third of 0.1. One that lies before or beyond the
/// other end, or a time step of `steps`, by rounding alone is that. (The same ones whatever the other end is: a run that goes on is one.)
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

/// Whether `time` comes after the second of two ends, in the direction of the run.
pub(crate) fn is_later(time: f64, [from, to]: [f64; 2]) -> bool {
    if to < from {
        time < to
    } else {
        time > to
    }
}

/// What else may be done about a time that lies beyond the end of a run whose state may be kept, and is not.
pub(crate) fn beyond(time: f64, ends: [f64; 2], later: Option<bool>) -> &'static str {
    if later == Some(false) && is_later(time, ends) {
        "; where the state is saved (--save-state) there may be later ones, for the runs that go on"
    } else {
        ""
    }
}

/// Times of the ledger's: as many as there may be are charged before they are made.
pub struct Times {
    /// Rising.
    pub times: Arc<[f64]>,
    /// The memory that they take.
    pub _held: Box<dyn Any>,
}

/// Charges what making a list of so many times takes: the list as it grows, and the one that is kept.
pub(crate) fn charge_times(pager: &Arc<Pager>, count: f64, what: &str) -> Result<Box<dyn Any>, FieldError> {
    charge_other(pager, (count + 1.0) as u64 * 32, what)
}

/// When lines of particles are wanted.
pub(crate) struct Outputs {
    /// Where they were asked for; else at the end.
    asked: Option<Times>,
    /// Pathlines: at each time step, unless asked for otherwise.
    each: Times,
}

impl Outputs {
    /// Where steps end for them, in the order of the run.
    pub(crate) fn stops(&self) -> Arc<[f64]> {
        self.asked.as_ref().map_or_else(|| [].into(), |asked| asked.times.clone())
    }

    /// What each line has to do with them. `through`: lines go through times, else they are of one.
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

/// The times at which the lines of particles are wanted; those of a series of files at every time step unless asked for otherwise.
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

/// The steps of streamlines, and when they are.
///
/// # Errors
/// [`FieldError::Usage`] for none, or one twice; what [`Dataset::check_step`] says.
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
        // Three tenths as floats add them up are more than 0.3.
        assert_eq!(all(0.1 + 0.2, [0.0, 0.9]).len(), 4);
        assert_eq!(all(0.1, [0.0, 0.5]), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]);
        // What is farther away than rounding is left out, and not moved.
        assert_eq!(all(0.5, [0.0, 0.999_999_9]), [0.0, 0.5]);
        assert_eq!(all(0.5, [0.0, 1.000_000_1]), [0.0, 0.5, 1.0]);
        assert_eq!(all(0.5, [2.0, 2.0]), [2.0]);
    }

    #[test]
    fn multiples_are_the_time_steps_that_they_mean() {
        // As a solver adds them up.
        let mut steps = vec![0.0f64];
        (0..39).for_each(|n| steps.push(steps[n] + 0.1));
        assert!(steps[8] != 0.8 && steps[9] != 0.9);
        for last in [9, 20, 39] {
            assert_eq!(every(0.1, [0.0, steps[last]], &steps).collect::<Vec<_>>(), steps[..=last]);
        }
        assert_eq!(every(0.25, [0.0, 1.0], &steps).collect::<Vec<_>>(), [0.0, 0.25, steps[5], 0.75, 1.0]);
    }
}
