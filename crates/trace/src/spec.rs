//! The specification of a trace.

use crate::line_kinds::ReadAhead;
use crate::seeds::Seeds;
use crate::timelines::TimelineSpec;
use field::error::FieldError;
use kernels::streamline::Options;
use std::path::PathBuf;

/// The specification of a trace.
#[derive(Clone, Debug)]
pub struct TraceSpec {
    /// The seeds.
    pub seeds: Seeds,
    /// The vector's name.
    pub field: String,
    /// The time step.
    pub step: usize,
    /// Fields sampled along the lines.
    pub scalars: Vec<String>,
    /// Options of integration. `stop` ends lines by a condition.
    pub options: Options,
    /// A condition of fields that ends a line where it holds.
    pub stop: Option<String>,
    /// Pathlines instead of streamlines.
    pub path: Option<PathSpec>,
    /// Options over several times.
    pub over: OverTime,
}

/// Options of pathlines, beside [`kernels::streamline::Options`]. The direction is that of time, and lengths and steps
/// count for the whole line.
#[derive(Clone, Debug, Default)]
pub struct PathSpec {
    /// Time of release; `None`: the first time, or backward the last.
    pub from: Option<f64>,
    /// Last time; `None`: the last of the dataset, or backward the first.
    pub to: Option<f64>,
    /// Longest step, as a time; the step of methods without step control. `None`: from the cell.
    pub time_step: Option<f64>,
    /// Each time step holds until the next, instead of linear interpolation.
    pub held: bool,
    /// Streaklines: times of release.
    pub streak: Option<Releases>,
    /// Pages that are prefetched.
    pub ahead: ReadAhead,
    /// Keep only points at the times of the dataset, the first and the last.
    pub at_steps: bool,
}

/// Times of release of a streakline's particles, between those of its first and last one.
#[derive(Clone, Debug)]
pub enum Releases {
    /// At this interval of time.
    Every(f64),
    /// At every this many time steps of the dataset.
    Steps(usize),
    /// At these times.
    At(Vec<f64>),
}

/// Options of a trace over several times.
#[derive(Clone, Debug, Default)]
pub struct OverTime {
    /// Streamlines: their time steps, one after the other; `None`: the trace's one.
    pub steps: Option<Vec<usize>>,
    /// Particles: output times; `None`: pathlines at every time step, others at the end.
    pub outputs: Option<OutputTimes>,
    /// Pathlines in a file for each time: length of the line behind each particle, as a time; none if 0.
    pub trail: f64,
    /// Timelines instead of pathlines.
    pub timeline: Option<TimelineSpec>,
    /// Where to save the state of the particles, so that they can continue in more time steps.
    pub save_state: Option<PathBuf>,
    /// A saved state to continue from.
    pub resume: Option<PathBuf>,
}

impl OverTime {
    /// Whether particles continue from a saved state, or may later.
    pub(crate) fn keeps(&self) -> bool {
        self.save_state.is_some() || self.resume.is_some()
    }

    /// Whether times beyond the end of the run are allowed, for runs that continue from its state. `None`: it cannot be
    /// saved.
    pub(crate) fn may_go_on(&self) -> Option<bool> {
        self.timeline.is_none().then_some(self.save_state.is_some())
    }

    /// Refuses options that do not go together.
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

/// Output times, between the times of the first release and the end.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputTimes {
    /// Both, and every time step of the dataset between them.
    Steps,
    /// At this interval of time from the release.
    Every(f64),
    /// At these times.
    At(Vec<f64>),
}
