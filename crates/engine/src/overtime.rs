//! What a trace over several times is asked for, and the times at which its lines are wanted.

use crate::limits::charge_other;
use crate::output::Moments;
use crate::timelines::TimelineSpec;
use crate::trace::TraceSpec;
use field::dataset::Dataset;
use field::error::FieldError;
use kernels::unsteady::Series;
use pager::Pager;
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

    /// Refuses what does not go together.
    ///
    /// # Errors
    /// [`FieldError::Usage`].
    pub(crate) fn check(&self, spec: &TraceSpec, is_series: bool) -> Result<(), FieldError> {
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

/// Times of the ledger's: as many as there may be are charged before they are made.
pub(crate) struct Times {
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
    let each = times_of(&OutputTimes::Steps, series, pager, ends)?;
    let asked = match (&over.outputs, is_series) {
        (Some(outputs), _) => Some(times_of(outputs, series, pager, ends)?),
        (None, true) => Some(times_of(&OutputTimes::Steps, series, pager, ends)?),
        (None, false) => None,
    };
    Ok(Outputs { asked, each })
}

/// Times in the order of the run.
///
/// # Errors
/// [`FieldError::Usage`] for times beyond the ends, or too many.
fn times_of(
    outputs: &OutputTimes,
    series: &Series,
    pager: &Arc<Pager>,
    [from, to]: [f64; 2],
) -> Result<Times, FieldError> {
    let wrong = |what: String| Err(FieldError::Usage(what));
    let sign = if to < from { -1.0 } else { 1.0 };
    let count = match outputs {
        OutputTimes::Steps => series.times.len() as f64 + 2.0,
        OutputTimes::Every(span) if !(*span > 0.0 && span.is_finite()) => {
            return wrong(format!("there is no output every {span}; it must be a positive time"))
        }
        OutputTimes::Every(span) => (to - from).abs() / span,
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
        OutputTimes::Every(span) => {
            (0u32..).map(|n| from + sign * span * f64::from(n)).take_while(|t| is_within(*t, [from, to])).collect()
        }
        OutputTimes::At(times) => {
            if let Some(t) = times.iter().find(|t| !is_within(**t, [from, to])) {
                return wrong(format!("the output time {t} does not lie between {from} and {to}"));
            }
            times.clone()
        }
    };
    times.sort_by(|a, b| (a * sign).total_cmp(&(b * sign)));
    times.dedup();
    if times.is_empty() {
        return wrong("no time of output is given; name one at least".into());
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
