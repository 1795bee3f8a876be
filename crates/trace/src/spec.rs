//! What a trace is asked for.

use crate::line_kinds::ReadAhead;
use crate::seeds::Seeds;
use crate::timelines::TimelineSpec;
use field::error::FieldError;
use kernels::streamline::Options;
use std::path::PathBuf;

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

/// What is asked of pathlines beside [`kernels::streamline::Options`], of which the direction is that of time, and lengths and steps
/// count for the whole line.
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
    /// Streaklines: when particles are let go.
    pub streak: Option<Releases>,
    /// What is read before particles ask for it.
    pub ahead: ReadAhead,
    /// Keep points at the times of the dataset, the first and the last alone.
    pub at_steps: bool,
}

/// When the particles of a streakline are let go, between the times of its first and its last one.
#[derive(Clone, Debug)]
pub enum Releases {
    /// Whenever so much time has passed.
    Every(f64),
    /// At every so many time steps of the dataset.
    Steps(usize),
    /// At these times.
    At(Vec<f64>),
}

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
