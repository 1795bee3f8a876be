//! The streakline of one seed as a restartable task: the places, at one time, of the particles released there one after
//! another.
//!
//! All of a seed's particles reach one time of the series before any advances further. So each time step is read once
//! for all of them. Of each particle only its place is kept.

use crate::line::{Half, JoinedLine, Line, Reason};
use crate::pathline::{PathOptions, Pathline};
use crate::saved_state::{SavedState, Saver};
use crate::streamline::{Seed, StepProgress};
use crate::unsteady::{SeriesFlow, UnsteadyLine};
use field::domain::SeriesLocator;
use field::locator::CellId;
use field::nodes::Miss;
use field::shape::DomainCell;
use std::sync::Arc;

/// Options of streaklines.
#[derive(Clone, Debug)]
pub struct StreakOptions {
    /// Options of each particle; its times are the first release and the time of the streakline.
    pub path: PathOptions,
    /// Times of release, in the order of the run.
    pub releases: Arc<[f64]>,
}

/// Numbers of each particle beside the sampled fields: the time of its release, and its age.
pub const OF_PARTICLES: usize = 2;

/// One seed's streakline, at each of the stops of [`PathOptions`] and at the end.
#[derive(Clone, Debug)]
pub struct Streakline<C = CellId> {
    seed: Seed,
    fields: usize,
    /// In the order of their release.
    particles: Vec<Pathline<C>>,
    /// Particles released so far.
    released: usize,
    /// The next particle to step.
    current: usize,
    /// The target time of all of them.
    until: f64,
    /// The window of the run that all of them are in.
    window: u32,
    /// Whether particles due at the very time of the streakline are released.
    last_due: bool,
    /// Why the last removed particle ended.
    ended: Option<Reason>,
    /// Whether the seed was found in a zone.
    found: bool,
    /// The same, and the number of releases, before those due at the very time.
    before_last: (Option<Reason>, usize),
    /// The line so far.
    line: Line,
}

impl<C: DomainCell> UnsteadyLine for Streakline<C> {
    type Options = StreakOptions;
    type Cell = C;

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
        // All particles have one size. Any of them may be in mid-step when a streakline between the times of a series
        // is recorded.
        let each = self.particles.last().map_or(0, Pathline::bytes_under_way);
        core::mem::size_of::<Self>() + self.particles.capacity() * each + self.line.bytes()
    }

    fn most_bytes(options: &StreakOptions) -> usize {
        let each = Pathline::<C>::most_bytes(&options.path) + Pathline::<C>::step_bytes();
        core::mem::size_of::<Self>() + options.releases.len() * each
    }

    fn step_bytes() -> usize {
        0
    }

    fn place(&self) -> Option<C> {
        self.particles.first().and_then(Pathline::place)
    }

    fn step<L: SeriesLocator<Cell = C>>(
        &mut self,
        flow: &mut SeriesFlow<L>,
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

    fn ahead<L: SeriesLocator<Cell = C>>(
        &self,
        flow: &mut SeriesFlow<L>,
        options: &StreakOptions,
        lane: usize,
        cells: &mut dyn FnMut(C),
    ) {
        // Particles not released yet begin near the last one.
        self.particles.iter().for_each(|p| p.ahead(flow, &options.path, lane, cells));
    }

    fn fail(&mut self) {
        self.particles = Vec::new();
        self.line.end(Reason::Failed);
    }

    fn into_line(self) -> JoinedLine {
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
        // A line recorded at the end is recorded again, if at all.
        let mut line = self.line.clone();
        if !failed {
            line.forget_after(|time| time == stop);
        }
        line.save(to);
        // Particles released at the end are released again: they were located between the last steps of the series.
        let kept = || self.particles.iter().filter(|p| p.released() != stop);
        to.whole(kept().count() as u64);
        kept().for_each(|p| p.save(&options.path, to));
    }

    fn restore(seed: Seed, options: &StreakOptions, fields: usize, from: &mut SavedState<'_>) -> Option<Self> {
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

impl<C: DomainCell> Streakline<C> {
    /// Releases the next particles that are due.
    fn release(&mut self, options: &StreakOptions, due: impl Fn(f64) -> bool) {
        while let Some(&t) = options.releases.get(self.released).filter(|t| due(**t)) {
            self.particles.push(Pathline::released_at(self.seed.clone(), t, self.fields));
            self.released += 1;
        }
    }

    /// Records the present places of the particles, the last released first.
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
