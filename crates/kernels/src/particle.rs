//! A particle of which no more is kept than where it is, and that goes from one time of the series to the next: what maps of a flow
//! and pictures of every time step are made of.
//!
//! All of a run's particles go to one time before any goes further, so that each time step is read once for all of them. Between two
//! times a particle is a value that can be put away; that it was, or how often, changes nothing: its steps end at the times of the series anyway.

use crate::line::{Joined, Reason};
use crate::pathline::{PathOptions, Pathline};
use crate::streamline::{Seed, StepProgress};
use crate::unsteady::{UnsteadyFlow, UnsteadyLine};
use field::locator::CellId;
use field::nodes::{Miss, Nodes};

/// How particles are followed.
#[derive(Clone, Debug)]
pub struct ParticleOptions {
    /// Of each particle; its times are the first release and the last time of all.
    pub path: PathOptions,
    /// To which time all go now: one of the series, or the last.
    pub until: f64,
    /// A box (lower and upper corner) whose faces end a particle: it has left.
    pub within: Option<[[f64; 3]; 2]>,
}

/// Share of the time that a cell takes to within which it is found when a particle leaves the grid.
const LEAVES_WITHIN: f64 = 1e-9;

/// Distance to a face of the box, as a share of the box and its place, below which a particle is on it.
const ON_FACE: f64 = 1e-12;

/// One particle.
#[derive(Clone, Debug)]
pub struct Particle {
    path: Pathline,
}

impl Particle {
    /// One that is let go at a time; `fields` is the number of sampled components.
    pub fn released_at(seed: Seed, time: f64, fields: usize) -> Self {
        Self { path: Pathline::released_at(seed, time, fields) }
    }

    /// As [`Self::released_at`], of which the points on the way are kept until [`Self::take`] has them.
    pub fn with_points(seed: Seed, time: f64, fields: usize) -> Self {
        let mut path = Pathline::released_at(seed, time, fields);
        path.keep_all();
        Self { path }
    }

    /// Finds out to within a millionth of a cell when it leaves the grid: for whoever asks how long it stays.
    #[must_use]
    pub fn timed(mut self) -> Self {
        self.path.leave_within(LEAVES_WITHIN);
        self
    }

    /// When it was let go.
    pub fn released(&self) -> f64 {
        self.path.released()
    }

    /// When it is.
    pub fn time(&self) -> f64 {
        self.path.time()
    }

    /// Where it is: position, 0-based zone, sampled fields. `None` before it was looked for, and where it was in no zone.
    pub fn last(&self) -> Option<([f64; 3], u32, &[f64])> {
        self.path.last()
    }

    /// Why it goes no further; [`Reason::Time`] at the last time of all.
    pub fn ended(&self) -> Option<Reason> {
        self.path.ended()
    }

    /// Hands over the points on the way that were added since this was called last: position, time, 0-based zone, fields.
    pub fn take(&mut self, each: impl FnMut([f64; 3], f64, u32, &[f64])) {
        self.path.take(each);
    }

    /// Whether it is where it goes to now.
    pub fn is_there(&self, options: &ParticleOptions) -> bool {
        let there = if options.path.forward() { self.time() >= options.until } else { self.time() <= options.until };
        self.ended().is_some() || (there && self.path.is_located())
    }

    /// Ends it on the face of the box through which a step has taken it; `before` is what it was before that step.
    fn stay_within(&mut self, before: Self, [low, high]: [[f64; 3]; 2]) {
        let Some((x1, ..)) = self.last() else { return };
        let outside = |x: &[f64; 3]| (0..3).any(|a| !(low[a] <= x[a] && x[a] <= high[a]));
        if !outside(&x1) {
            return;
        }
        let Some((x0, ..)) = before.last() else {
            // Its seed lies outside.
            self.path.end(Reason::Left);
            return;
        };
        // How far it is to the face, and how far the step went, along the axis on which it comes out first.
        let mut first = (f64::INFINITY, 0.0);
        for a in 0..3 {
            let (left, gone) = match () {
                () if x1[a] > high[a] => (high[a] - x0[a], x1[a] - x0[a]),
                () if x1[a] < low[a] => (x0[a] - low[a], x0[a] - x1[a]),
                () => continue,
            };
            let near = ON_FACE * (high[a] - low[a] + high[a].abs().max(low[a].abs()));
            if left <= near {
                // It is on the face already.
                *self = before;
                self.path.end(Reason::Left);
                return;
            }
            let share = if gone - left <= near { 1.0 } else { left / gone };
            if share < first.0 {
                first = (share, gone);
            }
        }
        let step = (self.time() - before.time()).abs();
        if first.0 >= 1.0 || step == 0.0 {
            self.path.end(Reason::Left);
            return;
        }
        // Made again, as long as would do if the particle went at one speed: the next one is nearer.
        *self = before;
        self.path.at_most(step * first.0);
    }
}

impl UnsteadyLine for Particle {
    type Options = ParticleOptions;

    fn times(options: &ParticleOptions) -> [f64; 2] {
        options.path.times
    }

    fn most_bytes(options: &ParticleOptions) -> usize {
        Pathline::most_bytes(&options.path)
    }

    fn step_bytes() -> usize {
        Pathline::step_bytes()
    }

    fn place(&self) -> Option<CellId> {
        self.path.place()
    }

    fn window(&self) -> u32 {
        self.path.window()
    }

    fn new(seed: Seed, options: &ParticleOptions, fields: usize) -> Self {
        Self::released_at(seed, options.path.times[0], fields)
    }

    fn bytes(&self) -> usize {
        self.path.bytes()
    }

    /// Done when it is where it goes to now, or goes no further.
    fn step<N: Nodes>(
        &mut self,
        flow: &mut UnsteadyFlow<N>,
        options: &ParticleOptions,
        lane: usize,
    ) -> Result<StepProgress, Miss> {
        if self.is_there(options) {
            return Ok(StepProgress::Done);
        }
        match options.within {
            None => {
                self.path.step(flow, &options.path, lane)?;
            }
            Some(within) => {
                let before = self.clone();
                self.path.step(flow, &options.path, lane)?;
                self.stay_within(before, within);
            }
        }
        Ok(if self.is_there(options) { StepProgress::Done } else { StepProgress::Yield })
    }

    fn fail(&mut self) {
        self.path.fail();
    }

    fn into_line(self) -> Joined {
        self.path.into_line()
    }
}
