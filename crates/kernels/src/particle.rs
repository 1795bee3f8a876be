//! A particle without its path, which advances from one time of the series to the next. Flow maps and pictures of every
//! time step use it.
//!
//! All of a run's particles reach one time before any advances further, so that each time step is read once for all of
//! them. Between two times a particle is a value that can be stored. Storing it changes no result: its steps end at the
//! times of the series anyway.

use crate::line::{JoinedLine, Reason};
use crate::pathline::{PathOptions, Pathline};
use crate::streamline::{Seed, StepProgress};
use crate::unsteady::{SeriesFlow, UnsteadyLine};
use field::domain::SeriesLocator;
use field::locator::CellId;
use field::nodes::Miss;
use field::shape::DomainCell;

/// Options of particles.
#[derive(Clone, Debug)]
pub struct ParticleOptions {
    /// Options of each particle; its times are the first release and the last time of all.
    pub path: PathOptions,
    /// The time that all advance to now: one of the series, or the last.
    pub until: f64,
    /// A box (lower and upper corner). A particle that leaves it ends at its faces.
    pub within: Option<[[f64; 3]; 2]>,
}

/// Share of the time of a cell within which the exit of a particle from the grid is found.
const LEAVES_WITHIN: f64 = 1e-9;

/// Distance to a face of the box, as a share of the box and its place, below which a particle is on it.
const ON_FACE: f64 = 1e-12;

/// One particle.
#[derive(Clone, Debug)]
pub struct Particle<C = CellId> {
    path: Pathline<C>,
}

impl<C: DomainCell> Particle<C> {
    /// A particle released at a time; `fields` is the number of sampled components.
    pub fn released_at(seed: Seed, time: f64, fields: usize) -> Self {
        Self { path: Pathline::released_at(seed, time, fields) }
    }

    /// As [`Self::released_at`], with the points on the path kept until [`Self::take`].
    pub fn with_points(seed: Seed, time: f64, fields: usize) -> Self {
        let mut path = Pathline::released_at(seed, time, fields);
        path.keep_all();
        Self { path }
    }

    /// Finds the time of the exit from the grid to within a millionth of a cell, for residence times.
    #[must_use]
    pub fn timed(mut self) -> Self {
        self.path.leave_within(LEAVES_WITHIN);
        self
    }

    /// The time of release.
    pub fn released(&self) -> f64 {
        self.path.released()
    }

    /// The present time.
    pub fn time(&self) -> f64 {
        self.path.time()
    }

    /// The present place: position, 0-based zone, sampled fields. `None` before its location, and outside of all zones.
    pub fn last(&self) -> Option<([f64; 3], u32, &[f64])> {
        self.path.last()
    }

    /// Why it has ended; [`Reason::Time`] at the last time of all.
    pub fn ended(&self) -> Option<Reason> {
        self.path.ended()
    }

    /// Passes on the points on the path since the last call: position, time, 0-based zone, fields.
    pub fn take(&mut self, each: impl FnMut([f64; 3], f64, u32, &[f64])) {
        self.path.take(each);
    }

    /// Whether it has reached its present target time.
    pub fn is_there(&self, options: &ParticleOptions) -> bool {
        let there = if options.path.forward() { self.time() >= options.until } else { self.time() <= options.until };
        self.ended().is_some() || (there && self.path.is_located())
    }

    /// Ends it on the face of the box that its last step crossed; `before` is its state before that step.
    fn stay_within(&mut self, before: Self, [low, high]: [[f64; 3]; 2]) {
        let Some((x1, ..)) = self.last() else { return };
        let outside = |x: &[f64; 3]| (0..3).any(|a| !(low[a] <= x[a] && x[a] <= high[a]));
        if !outside(&x1) {
            return;
        }
        let Some((x0, ..)) = before.last() else {
            // Its seed is outside.
            self.path.end(Reason::Left);
            return;
        };
        // Distance to the face, and length of the step, along the axis of the first exit.
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
        // Repeat the step with the length for constant speed: the next one is nearer.
        *self = before;
        self.path.at_most(step * first.0);
    }
}

impl<C: DomainCell> UnsteadyLine for Particle<C> {
    type Options = ParticleOptions;
    type Cell = C;

    fn times(options: &ParticleOptions) -> [f64; 2] {
        options.path.times
    }

    fn most_bytes(options: &ParticleOptions) -> usize {
        Pathline::<C>::most_bytes(&options.path)
    }

    fn step_bytes() -> usize {
        Pathline::<C>::step_bytes()
    }

    fn place(&self) -> Option<C> {
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

    /// Done when it has reached its present target time, or has ended.
    fn step<L: SeriesLocator<Cell = C>>(
        &mut self,
        flow: &mut SeriesFlow<L>,
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

    fn into_line(self) -> JoinedLine {
        self.path.into_line()
    }
}
