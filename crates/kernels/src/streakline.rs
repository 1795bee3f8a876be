//! The streakline of one seed as a restartable task: where the particles are at one time that were let go there one after the other.
//!
//! All of a seed's particles go from one time of the series to the next before any goes further, so that each time step is read once for
//! all of them, and of each particle no more is kept than where it is.

use crate::line::{Half, Joined, Line, Reason};
use crate::pathline::{PathOptions, Pathline};
use crate::streamline::{Progress, Seed};
use crate::unsteady::{UnsteadyFlow, UnsteadyLine};
use field::nodes::{Miss, Nodes};
use std::sync::Arc;

/// How streaklines are made.
#[derive(Clone, Debug)]
pub struct StreakOptions {
    /// Of each particle; its times are the first release and the time of the streakline.
    pub path: PathOptions,
    /// When particles are let go, in the order of the run.
    pub releases: Arc<[f64]>,
}

/// What a streakline has of each particle beside the sampled fields: when it was let go, and how long ago that is.
pub const OF_PARTICLES: usize = 2;

/// One seed's streakline.
#[derive(Clone, Debug)]
pub struct Streakline {
    seed: Seed,
    fields: usize,
    /// In the order of their release.
    particles: Vec<Pathline>,
    /// How many were let go so far.
    released: usize,
    /// The one that goes on next.
    current: usize,
    /// The time that all of them go to.
    until: f64,
    /// How many times of the series all of them have come by.
    window: u32,
    began: bool,
    /// Why the last one ended that is no longer there.
    ended: Option<Reason>,
    /// The line, once done.
    line: Option<Line>,
}

impl UnsteadyLine for Streakline {
    type Options = StreakOptions;

    fn times(options: &StreakOptions) -> [f64; 2] {
        options.path.times
    }

    fn new(seed: Seed, options: &StreakOptions, fields: usize) -> Self {
        let until = options.path.times[0];
        Self {
            seed,
            fields,
            particles: Vec::new(),
            released: 0,
            current: 0,
            until,
            window: 0,
            began: false,
            ended: None,
            line: None,
        }
    }

    fn bytes(&self) -> usize {
        // All particles are of one size.
        let each = self.particles.last().map_or(0, Pathline::bytes);
        let line = self.line.as_ref().map_or(0, Line::bytes);
        core::mem::size_of::<Self>() + self.particles.capacity() * each + line
    }

    fn most_bytes(options: &StreakOptions) -> usize {
        core::mem::size_of::<Self>() + options.releases.len() * Pathline::most_bytes(&options.path)
    }

    fn step<N: Nodes>(
        &mut self,
        flow: &mut UnsteadyFlow<N>,
        options: &StreakOptions,
        lane: usize,
    ) -> Result<Progress, Miss> {
        if self.line.is_some() {
            return Ok(Progress::Done);
        }
        let forward = options.path.forward();
        while let Some(p) = self.particles.get_mut(self.current) {
            let there = if forward { p.time() >= self.until } else { p.time() <= self.until };
            if p.ended().is_some() || (there && p.is_located()) {
                self.current += 1;
                continue;
            }
            p.step(flow, &options.path, lane)?;
            return Ok(Progress::Yield);
        }
        // All of them are at one time.
        let gone = self.particles.iter().filter_map(Pathline::ended).find(|r| *r != Reason::Time);
        self.ended = gone.or(self.ended);
        self.particles.retain(|p| matches!(p.ended(), None | Some(Reason::Time)));
        let stop = options.path.times[1];
        if self.until == stop && self.released == options.releases.len() {
            let reason = if self.particles.is_empty() { self.ended.unwrap_or(Reason::Left) } else { Reason::Time };
            self.finish(reason, stop);
            return Ok(Progress::Done);
        }
        self.until = flow.series().edge_after(self.until, stop);
        self.window += u32::from(self.began);
        self.began = true;
        self.current = 0;
        let due = |t: f64| if forward { t < self.until } else { t > self.until };
        while let Some(&t) = options.releases.get(self.released).filter(|t| due(**t) || self.until == stop) {
            self.particles.push(Pathline::released_at(self.seed.clone(), t, self.fields));
            self.released += 1;
        }
        Ok(Progress::Yield)
    }

    fn window(&self) -> u32 {
        self.window
    }

    fn fail(&mut self) {
        self.particles.clear();
        self.finish(Reason::Failed, 0.0);
    }

    fn into_line(self) -> Joined {
        self.line.unwrap_or_else(|| Line::new(self.fields + OF_PARTICLES)).join()
    }
}

impl Streakline {
    fn finish(&mut self, reason: Reason, time: f64) {
        let mut line = Line::new(self.fields + OF_PARTICLES);
        line.begin(Half::Forward);
        for p in self.particles.iter().rev() {
            if let Some((x, zone, fields)) = p.last() {
                let born = p.released();
                line.push_at(x, time, zone, fields.iter().copied().chain([born, (time - born).abs()]));
            }
        }
        line.end(reason);
        self.particles = Vec::new();
        self.line = Some(line);
    }
}
