//! The streakline of one seed as a restartable task: where the particles are at one time that were let go there one after the other.
//!
//! All of a seed's particles go from one time of the series to the next before any goes further, so that each time step is read once for
//! all of them, and of each particle no more is kept than where it is.

use crate::line::{Half, Joined, Line, Reason};
use crate::pathline::{PathOptions, Pathline};
use crate::saved::{Saved, Saver};
use crate::streamline::{Seed, StepProgress};
use crate::unsteady::{UnsteadyFlow, UnsteadyLine};
use field::locator::CellId;
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

/// One seed's streakline, at each of the stops of [`PathOptions`] and at the end.
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
    /// The window of the run that all of them are in.
    window: u32,
    /// Those are let go that are due at that very time, before the streakline is taken down.
    last_due: bool,
    /// Why the last one ended that is no longer there.
    ended: Option<Reason>,
    /// The seed was found in a zone once.
    found: bool,
    /// The same, and how many were let go, before those that are due at the very time.
    before_last: (Option<Reason>, usize),
    /// The line so far.
    line: Line,
}

impl UnsteadyLine for Streakline {
    type Options = StreakOptions;

    fn times(options: &StreakOptions) -> [f64; 2] {
        options.path.times
    }

    fn new(seed: Seed, options: &StreakOptions, fields: usize) -> Self {
        let mut line = Line::new(fields + OF_PARTICLES);
        line.begin(Half::Forward);
        Self {
            seed,
            fields,
            particles: Vec::new(),
            released: 0,
            current: 0,
            until: options.path.times[0],
            window: 0,
            last_due: false,
            ended: None,
            found: false,
            before_last: (None, 0),
            line,
        }
    }

    fn bytes(&self) -> usize {
        // All particles are of one size; any of them may be amid a step where streaklines are taken down between the times of a series.
        let each = self.particles.last().map_or(0, Pathline::bytes_under_way);
        core::mem::size_of::<Self>() + self.particles.capacity() * each + self.line.bytes()
    }

    fn most_bytes(options: &StreakOptions) -> usize {
        let each = Pathline::most_bytes(&options.path) + Pathline::step_bytes();
        core::mem::size_of::<Self>() + options.releases.len() * each
    }

    fn step_bytes() -> usize {
        0
    }

    fn place(&self) -> Option<CellId> {
        self.particles.first().and_then(Pathline::place)
    }

    fn step<N: Nodes>(
        &mut self,
        flow: &mut UnsteadyFlow<N>,
        options: &StreakOptions,
        lane: usize,
    ) -> Result<StepProgress, Miss> {
        if self.line.ended().is_some() {
            return Ok(StepProgress::Done);
        }
        let forward = options.path.forward();
        while let Some(p) = self.particles.get_mut(self.current) {
            let there = if forward { p.time() >= self.until } else { p.time() <= self.until };
            if p.ended().is_some() || (there && p.is_located()) {
                self.current += 1;
                continue;
            }
            p.step(flow, &options.path, lane)?;
            return Ok(StepProgress::Yield);
        }
        // All of them are at one time.
        self.found |= self.particles.iter().any(Pathline::was_found);
        let gone = self.particles.iter().filter_map(Pathline::ended).find(|r| *r != Reason::Time);
        self.ended = gone.or(self.ended);
        self.particles.retain(|p| matches!(p.ended(), None | Some(Reason::Time)));
        self.current = self.particles.len();
        let (now, stop) = (self.until, options.path.times[1]);
        if now == stop || options.path.stops_at(now) {
            if !self.last_due {
                self.last_due = true;
                self.before_last = (self.ended, self.released);
                self.release(options, |t| t == now);
                return Ok(StepProgress::Yield);
            }
            self.take_down();
        }
        if now == stop {
            let reason = if self.particles.is_empty() { self.ended.unwrap_or(Reason::Left) } else { Reason::Time };
            self.line.end(reason);
            return Ok(StepProgress::Done);
        }
        let until = options.path.round_after(flow.series(), now);
        (self.until, self.last_due, self.current) = (until, false, 0);
        self.release(options, |t| if forward { t < until } else { t > until });
        self.window = self.window.max(flow.series().window_at(now, options.path.times));
        Ok(StepProgress::Yield)
    }

    fn window(&self) -> u32 {
        self.window
    }

    fn ahead<N: Nodes>(
        &self,
        flow: &mut UnsteadyFlow<N>,
        options: &StreakOptions,
        lane: usize,
        cells: &mut dyn FnMut(CellId),
    ) {
        // Those that are yet to be let go begin where the last did, near enough.
        self.particles.iter().for_each(|p| p.ahead(flow, &options.path, lane, cells));
    }

    fn fail(&mut self) {
        self.particles = Vec::new();
        self.line.end(Reason::Failed);
    }

    fn into_line(self) -> Joined {
        let found = self.found;
        let mut line = self.line.join();
        line.outside &= !found;
        line
    }

    fn save(&self, options: &StreakOptions, to: &mut Saver) {
        let stop = options.path.times[1];
        let (ended, released) = self.before_last;
        let failed = self.line.ended() == Some(Reason::Failed);
        to.whole(u64::from(failed) | u64::from(self.found) << 1);
        to.reason(ended);
        to.whole(released as u64);
        to.float(self.until);
        // What was taken down at the end is taken down anew, if at all.
        let mut line = self.line.clone();
        if !failed {
            line.forget_after(|time| time == stop);
        }
        line.save(to);
        // Those let go at the end are let go anew: they were looked for between the last steps of the series.
        let kept = || self.particles.iter().filter(|p| p.released() != stop);
        to.whole(kept().count() as u64);
        kept().for_each(|p| p.save(&options.path, to));
    }

    fn restore(seed: Seed, options: &StreakOptions, fields: usize, from: &mut Saved<'_>) -> Option<Self> {
        let mut s = Self::new(seed, options, fields);
        let marks = from.whole()?;
        let failed = marks & 1 == 1;
        s.found = marks & 2 == 2;
        (s.ended, s.released, s.until) = (from.reason()?, from.whole()? as usize, from.float()?);
        s.before_last = (s.ended, s.released);
        s.line = Line::restore(from, fields + OF_PARTICLES)?;
        let count = from.count(16)?;
        s.particles.reserve_exact(count);
        for _ in 0..count {
            s.particles.push(Pathline::restore_last(s.seed.clone(), &options.path, fields, from)?);
        }
        s.current = s.particles.len();
        if !failed {
            s.line.go_on();
        }
        Some(s)
    }
}

impl Streakline {
    /// Lets go the next particles that are due.
    fn release(&mut self, options: &StreakOptions, due: impl Fn(f64) -> bool) {
        while let Some(&t) = options.releases.get(self.released).filter(|t| due(**t)) {
            self.particles.push(Pathline::released_at(self.seed.clone(), t, self.fields));
            self.released += 1;
        }
    }

    /// Takes down where the particles are now, the one let go last first.
    fn take_down(&mut self) {
        for p in self.particles.iter().rev() {
            if let Some((x, zone, fields)) = p.last() {
                let born = p.released();
                let age = (self.until - born).abs();
                self.line.push_at(x, self.until, zone, fields.iter().copied().chain([born, age]));
            }
        }
    }
}
