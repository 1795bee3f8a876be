//! The pathline of one particle as a restartable task: its path in an unsteady flow.
//!
//! Steps end at the times of the series, where linear interpolation has a kink. So a method keeps its order, and a step
//! needs the pages of at most two steps of the series. Steps are made in physical space, and each stage is located in
//! the grid of its time.

use crate::flow::{Flow, ParticlePosition, Sample};
use crate::line::{Half, JoinedLine, Line, Reason};
pub use crate::pathoptions::PathOptions;
use crate::rk::{Method, StepOutcome, Stepper};
use crate::saved_state::{SavedState, Saver};
use crate::streamline::physical::SMALLEST;
use crate::streamline::walls::facing;
use crate::streamline::{distance, growth, next_step, Seed, StepProgress, SHRINK_MIN};
use crate::unsteady::{SeriesFlow, UnsteadyLine};
use field::domain::SeriesLocator;
use field::locator::{Blank, CellId};
use field::nodes::Miss;
use field::shape::DomainCell;
use field::simd::V4;

/// Largest factor by which a step may be extended to reach a time of the series. Smaller than any shortening of a step.
const STRETCH: f64 = 1.0 + 1e-10;

#[derive(Clone, Debug)]
enum PathlineState<C> {
    /// The seed must be located.
    Locate,
    /// The particle reaches a time of the series, with this vector. The two steps around it change.
    Enter(ParticlePosition<C>, [f64; 3]),
    /// A step is in progress.
    Run(Box<Stepper<ParticlePosition<C>>>, ParticlePosition<C>),
    Finished,
}

/// The path of one particle.
#[derive(Clone, Debug)]
pub struct Pathline<C = CellId> {
    seed: Seed,
    state: PathlineState<C>,
    x: [f64; 3],
    time: f64,
    /// The step of the series at or before the present time.
    interval: u32,
    /// Step that the error control allows, in time.
    h: f64,
    line: Line,
    /// Whether all points are kept, or the seed and the last.
    all: bool,
    steps: u32,
    released: f64,
    window: u32,
    /// The time of the last point kept.
    last_kept: f64,
    /// Its place at the end of the time span, from which it may continue.
    arrived: Option<ParticlePosition<C>>,
    /// Smallest step out of the grid before the line ends, as a share of the time of a cell.
    smallest: f64,
    sampled: Vec<f64>,
}

impl<C: DomainCell> UnsteadyLine for Pathline<C> {
    type Options = PathOptions;
    type Cell = C;

    fn times(options: &PathOptions) -> [f64; 2] {
        options.times
    }

    fn new(seed: Seed, options: &PathOptions, fields: usize) -> Self {
        Self { all: true, ..Self::released_at(seed, options.times[0], fields) }
    }

    fn bytes(&self) -> usize {
        self.bytes_under_way() - if matches!(self.state, PathlineState::Run(..)) { 0 } else { Self::step_bytes() }
    }

    fn most_bytes(_options: &PathOptions) -> usize {
        core::mem::size_of::<Self>()
    }

    fn step_bytes() -> usize {
        core::mem::size_of::<Stepper<ParticlePosition<C>>>()
    }

    fn step<L: SeriesLocator<Cell = C>>(
        &mut self,
        flow: &mut SeriesFlow<L>,
        options: &PathOptions,
        lane: usize,
    ) -> Result<StepProgress, Miss> {
        match &self.state {
            PathlineState::Locate => self.locate(flow, options, lane)?,
            PathlineState::Enter(place, _) => {
                let place = *place;
                self.enter(flow, options, place, lane)?;
            }
            PathlineState::Run(..) => self.run(flow, options, lane)?,
            PathlineState::Finished => {}
        }
        Ok(if matches!(self.state, PathlineState::Finished) { StepProgress::Done } else { StepProgress::Yield })
    }

    fn window(&self) -> u32 {
        self.window
    }

    fn place(&self) -> Option<C> {
        match &self.state {
            PathlineState::Enter(place, _) | PathlineState::Run(_, place) => Some(place.spot.cell),
            PathlineState::Locate | PathlineState::Finished => self.arrived.map(|place| place.spot.cell),
        }
    }

    fn drain(&mut self, least: usize) -> Option<JoinedLine> {
        (self.line.len() >= least).then(|| self.line.drain())
    }

    fn ahead<L: SeriesLocator<Cell = C>>(
        &self,
        flow: &mut SeriesFlow<L>,
        options: &PathOptions,
        lane: usize,
        cells: &mut dyn FnMut(C),
    ) {
        let PathlineState::Enter(place, v) = &self.state else { return };
        let until = flow.series().edge_after(self.time, options.times[1]);
        flow.straight_on(lane, place, *v, until - self.time, cells);
    }

    fn put_away(&self, to: &mut Saver) -> bool {
        let PathlineState::Enter(place, v) = &self.state else { return false };
        to.place_short(place);
        to.floats(v);
        to.floats(&self.x);
        to.floats(&[self.time, self.h, self.released, self.last_kept, self.smallest]);
        to.halves(self.interval, self.window);
        to.halves(self.steps, u32::from(self.all));
        self.line.save(to);
        true
    }

    fn take_up(from: &mut SavedState<'_>, fields: usize) -> Option<Self> {
        let (place, v, x) = (from.place_short()?, from.three()?, from.three()?);
        let (time, h, released) = (from.float()?, from.float()?, from.float()?);
        // It has left the place of its release.
        let mut p = Self::released_at(Seed::Physical(x), released, fields);
        (p.x, p.time, p.h, p.last_kept, p.smallest) = (x, time, h, from.float()?, from.float()?);
        (p.interval, p.window) = from.halves()?;
        let all;
        (p.steps, all) = from.halves()?;
        p.all = all == 1;
        p.line = Line::restore(from, fields)?;
        p.state = PathlineState::Enter(place, v);
        Some(p)
    }

    fn away_at(from: &mut SavedState<'_>) -> Option<C> {
        from.place_short().map(|place| place.spot.cell)
    }

    const AWAY_BYTES: usize = 8 * (7 + 3 + 3 + 5 + 2 + 3);

    fn fail(&mut self) {
        self.end(Reason::Failed);
    }

    fn into_line(self) -> JoinedLine {
        self.line.join()
    }

    fn save(&self, options: &PathOptions, to: &mut Saver) {
        let state = match &self.arrived {
            // It was located between the last steps of the series. A longer series has other steps there.
            _ if self.released == options.times[1] => UNLOCATED,
            Some(_) => ARRIVED,
            None => ENDED,
        };
        to.whole(state);
        to.float(self.released);
        if state == UNLOCATED {
            return;
        }
        to.float(self.time);
        to.floats(&self.x);
        to.float(self.h);
        to.whole(u64::from(self.steps));
        self.line.save(to);
        if let (ARRIVED, Some(place)) = (state, &self.arrived) {
            to.place(place);
        }
    }

    fn restore(seed: Seed, options: &PathOptions, fields: usize, from: &mut SavedState<'_>) -> Option<Self> {
        Some(Self { all: true, ..Self::restore_last(seed, options, fields, from)? })
    }
}

/// States in which particles are saved.
const UNLOCATED: u64 = 0;
const ARRIVED: u64 = 1;
const ENDED: u64 = 2;

impl<C: DomainCell> Pathline<C> {
    /// A particle of which only the last point is kept.
    pub(crate) fn released_at(seed: Seed, time: f64, fields: usize) -> Self {
        let mut line = Line::new(fields);
        line.begin(Half::Forward);
        Self {
            seed,
            state: PathlineState::Locate,
            x: [0.0; 3],
            time,
            all: false,
            steps: 0,
            released: time,
            window: 0,
            last_kept: f64::NAN,
            arrived: None,
            interval: 0,
            h: f64::INFINITY,
            smallest: SMALLEST,
            line,
            sampled: Vec::new(),
        }
    }

    /// A restored particle, of which only the last point matters.
    pub(crate) fn restore_last(
        seed: Seed,
        options: &PathOptions,
        fields: usize,
        from: &mut SavedState<'_>,
    ) -> Option<Self> {
        let state = from.whole()?;
        let released = from.float()?;
        let mut p = Self::released_at(seed, released, fields);
        if state == UNLOCATED {
            return Some(p);
        }
        (p.time, p.x, p.h, p.steps) = (from.float()?, from.three()?, from.float()?, from.small()?);
        p.line = Line::restore(from, fields)?;
        p.last_kept = p.line.last_time().unwrap_or(f64::NAN);
        p.state = PathlineState::Finished;
        match state {
            ENDED => {}
            ARRIVED => {
                let place = from.place()?;
                if p.time == options.times[1] {
                    p.arrived = Some(place);
                } else {
                    p.line.go_on();
                    p.state = PathlineState::Enter(place, [0.0; 3]);
                }
            }
            _ => return None,
        }
        Some(p)
    }

    /// Bytes held during a step.
    pub(crate) fn bytes_under_way(&self) -> usize {
        core::mem::size_of::<Self>() + Self::step_bytes() + self.line.bytes_of_few() + 8 * self.sampled.capacity()
    }

    /// The time of release.
    pub(crate) fn released(&self) -> f64 {
        self.released
    }

    /// The last place: position, 0-based zone, sampled fields.
    pub(crate) fn last(&self) -> Option<([f64; 3], u32, &[f64])> {
        self.line.last()
    }

    /// Why it ended.
    pub(crate) fn ended(&self) -> Option<Reason> {
        self.line.ended()
    }

    /// Whether its seed is in a zone: it has a point there, or is in a hole.
    pub(crate) fn was_found(&self) -> bool {
        self.line.last().is_some() || self.ended().is_some_and(|r| r != Reason::Left)
    }

    /// Whether its seed was located.
    pub(crate) fn is_located(&self) -> bool {
        !matches!(self.state, PathlineState::Locate)
    }

    /// The present time.
    pub fn time(&self) -> f64 {
        self.time
    }

    /// Keeps all points from now on.
    pub(crate) fn keep_all(&mut self) {
        self.all = true;
    }

    /// Passes on the points since the last call.
    pub(crate) fn take(&mut self, each: impl FnMut([f64; 3], f64, u32, &[f64])) {
        self.line.take(each);
    }

    /// Follows the particle out of the grid to within this share of the time of a cell.
    pub(crate) fn leave_within(&mut self, share: f64) {
        self.smallest = share;
    }

    /// Bounds the next step by a time. Its stages of a longer step are dropped.
    pub(crate) fn at_most(&mut self, h: f64) {
        self.h = self.h.min(h);
        if let PathlineState::Run(stepper, _) = &mut self.state {
            stepper.restart();
        }
    }

    /// Ends the line where it is.
    pub(crate) fn end(&mut self, reason: Reason) {
        self.line.end(reason);
        self.state = PathlineState::Finished;
    }

    fn locate<L: SeriesLocator<Cell = C>>(
        &mut self,
        flow: &mut SeriesFlow<L>,
        options: &PathOptions,
        lane: usize,
    ) -> Result<(), Miss> {
        let Some(interval) = flow.series().interval(self.time, options.forward()) else {
            self.end(Reason::Time);
            return Ok(());
        };
        flow.go_to(lane, interval, self.time);
        let found = self.seed.place(&mut flow.grid)?;
        let Some((spot, x)) = found else {
            self.end(Reason::Left);
            return Ok(());
        };
        let place = ParticlePosition { spot, kept_fringe: None };
        match flow.value(place)? {
            Sample::Value(v, place) => {
                let stopped = self.is_to_stop(flow, options, &place)?;
                self.record(flow, &place, x, self.time)?;
                (self.x, self.interval) = (x, interval);
                self.state = PathlineState::Run(flow.stepper(v, place), place);
                if stopped {
                    self.end(Reason::Stopped);
                } else if self.time == options.times[1] {
                    self.end(Reason::Time);
                }
            }
            Sample::Outside(exit) => self.end(exit.reason(false)),
        }
        Ok(())
    }

    /// Continues between the next two steps of the series, where cells may be blanked out and vectors differ.
    fn enter<L: SeriesLocator<Cell = C>>(
        &mut self,
        flow: &mut SeriesFlow<L>,
        options: &PathOptions,
        place: ParticlePosition<C>,
        lane: usize,
    ) -> Result<(), Miss> {
        let Some(interval) = flow.series().interval(self.time, options.forward()) else {
            self.end(Reason::Time);
            return Ok(());
        };
        self.turn(flow, options);
        flow.go_to(lane, interval, self.time);
        let mut place = place;
        if !flow.series().linear {
            // If steps are held, the grid jumps.
            match flow.grid.locate(self.x, &place)? {
                Ok(there) => place = there,
                Err(exit) => {
                    self.end(exit.reason(false));
                    return Ok(());
                }
            }
        }
        if flow.grid.space.geometry(place.spot.cell)?.blank == Blank::Hole {
            match flow.grid.cross(V4::from_xyz(self.x), place.spot.cell.domain(), None, true)? {
                Some(spot) => place = ParticlePosition { spot, kept_fringe: None },
                None => {
                    self.end(Reason::Hole);
                    return Ok(());
                }
            }
        }
        match flow.value(place)? {
            Sample::Value(v, place) => {
                self.interval = interval;
                self.state = PathlineState::Run(flow.stepper(v, place), place);
            }
            Sample::Outside(exit) => self.end(exit.reason(false)),
        }
        Ok(())
    }

    fn run<L: SeriesLocator<Cell = C>>(
        &mut self,
        flow: &mut SeriesFlow<L>,
        o: &PathOptions,
        lane: usize,
    ) -> Result<(), Miss> {
        let PathlineState::Run(stepper, at) = &mut self.state else { return Ok(()) };
        let (x0, forward) = (self.x, o.forward());
        let sign = if forward { 1.0 } else { -1.0 };
        flow.go_to(lane, self.interval, self.time);
        if let Some(settled) = flow.grid.settle(at, |_| Ok(V4::from_xyz(x0)))? {
            if settled.spot != at.spot {
                match flow.value(settled)? {
                    Sample::Value(v, _) => stepper.begin(v, settled),
                    Sample::Outside(exit) => {
                        let place = *at;
                        self.record_last(flow, &place)?;
                        self.end(exit.reason(false));
                        return Ok(());
                    }
                }
            }
            // Kept like the finished stages: a restarted step does not settle again.
            *at = settled;
        }
        let v = stepper.first();
        let cell_time = flow.length_scale(at)? / v.length3();
        if !(cell_time > 0.0) {
            // The vector's length overflows, or the cell has none.
            self.end(Reason::Hole);
            return Ok(());
        }
        let series = flow.series();
        let single = series.times.len() < 2;
        let [first, last] = [self.interval, series.next(self.interval)].map(|n| series.times[n as usize]);
        let edge = if forward { last } else { first };
        // Where a particle hardly moves, the grid may: the scale of a small step follows from the faster of the two.
        let scale = if single { cell_time } else { cell_time.min(last - first) };
        // A flow of one step is constant in time.
        let stop = if single || (edge - o.times[1]) * sign > 0.0 { o.times[1] } else { edge };
        let stop = o.stop_after(self.time).filter(|s| (stop - *s) * sign > 0.0).unwrap_or(stop);
        let time_left = (stop - self.time) * sign;
        let fixed = o.method != Method::Rk45;
        let most = match o.time_step {
            Some(step) => step,
            None if fixed => o.step_cells * cell_time,
            None => cell_time,
        };
        let bound = self.h;
        let mut h = bound.min(most);
        // A step that ends just before the stop would leave one of rounding's size.
        if time_left <= h * STRETCH {
            h = time_left;
        }
        let step = match stepper.go(flow, o.method, (x0, self.time), sign * h)? {
            StepOutcome::Done(step) => step,
            StepOutcome::Outside(exit) => {
                if h > self.smallest * scale {
                    stepper.restart();
                    self.h = 0.5 * h;
                    return Ok(());
                }
                let at = *at;
                flow.go_to(lane, self.interval, self.time);
                self.record_last(flow, &at)?;
                let wall = match facing(&mut flow.grid, &at, v, sign)? {
                    Some(face) => flow.is_wall(face)?,
                    None => false,
                };
                self.end(exit.reason(wall));
                return Ok(());
            }
        };
        let chord = distance(step.x, x0);
        let ratio = step.error / (o.tolerance * chord);
        // Below the rounding of the position a smaller step is no better.
        let rounding = f64::EPSILON * 16.0 * (x0.iter().map(|c| c.abs()).sum::<f64>() + chord);
        let exact = step.error <= rounding;
        if !fixed && !exact && ratio > 1.0 && h > 1e-6 * scale {
            stepper.restart();
            self.h = h * growth(ratio * ratio).max(SHRINK_MIN);
            return Ok(());
        }
        let length_left = o.max_length - self.line.half_length();
        if chord > length_left * (1.0 + 1e-9) && length_left > 0.0 && h > 1e-9 * scale {
            // Shorten until the chord is the remaining length: the chord is nearly proportional to the step.
            stepper.restart();
            self.h = h * (length_left / chord).min(1.0 - 1e-9);
            return Ok(());
        }
        let at_stop = h >= time_left;
        let time = if at_stop { stop } else { self.time + sign * h };
        let (v1, end) = step.end;
        // Times so large that a step is below their rounding.
        let stands = time == self.time && !at_stop;
        let reason = if self.is_to_stop(flow, o, &end)? {
            Some(Reason::Stopped)
        } else if chord >= length_left * (1.0 - 1e-9) {
            Some(Reason::Length)
        } else if stands {
            Some(Reason::Time)
        } else if self.steps + 1 >= o.max_steps {
            // Before the time: continued, its steps would exceed the limit.
            Some(Reason::Steps)
        } else if at_stop && stop == o.times[1] {
            Some(Reason::Time)
        } else {
            None
        };
        // The last stage was at this place and time.
        if o.every_step || at_stop || reason.is_some() {
            self.record(flow, &end, step.x, time)?;
        }
        self.line.advance(chord);
        (self.x, self.time) = (step.x, time);
        self.steps += 1;
        self.h = match (fixed, exact) {
            (true, _) => f64::INFINITY,
            (false, true) => next_step(bound, h, 0.0),
            (false, false) => next_step(bound, h, ratio * ratio).max(h * SHRINK_MIN),
        };
        if reason == Some(Reason::Time) && !stands {
            self.arrived = Some(end);
        }
        if at_stop {
            self.turn(flow, o);
            if let PathlineState::Run(stepper, _) = core::mem::replace(&mut self.state, PathlineState::Enter(end, v1)) {
                flow.take_back(stepper);
            }
        } else if let PathlineState::Run(stepper, at) = &mut self.state {
            stepper.begin(v1, end);
            *at = end;
        }
        if let Some(reason) = reason {
            self.end(reason);
        }
        Ok(())
    }

    /// Whether the stop condition holds at a place, at the flow's time.
    fn is_to_stop<L: SeriesLocator<Cell = C>>(
        &mut self,
        flow: &mut SeriesFlow<L>,
        o: &PathOptions,
        place: &ParticlePosition<C>,
    ) -> Result<bool, Miss> {
        let Some(stop) = &o.stop else { return Ok(false) };
        self.sampled.clear();
        flow.sample(place, &mut self.sampled)?;
        let sides = self.sampled.get(self.line.fields()..).unwrap_or_default();
        Ok(stop.holds(|n| sides.get(n).copied().unwrap_or(f64::NAN)))
    }

    /// Records the window of the present time.
    fn turn<L: SeriesLocator<Cell = C>>(&mut self, flow: &SeriesFlow<L>, o: &PathOptions) {
        self.window = self.window.max(flow.series().window_at(self.time, o.times));
    }

    /// Adds the present point of a particle that ends, if it was not kept.
    fn record_last<L: SeriesLocator<Cell = C>>(
        &mut self,
        flow: &mut SeriesFlow<L>,
        place: &ParticlePosition<C>,
    ) -> Result<(), Miss> {
        if self.last_kept == self.time {
            return Ok(());
        }
        self.record(flow, place, self.x, self.time)
    }

    /// Adds the present point at a time, which is the flow's.
    fn record<L: SeriesLocator<Cell = C>>(
        &mut self,
        flow: &mut SeriesFlow<L>,
        place: &ParticlePosition<C>,
        x: [f64; 3],
        time: f64,
    ) -> Result<(), Miss> {
        self.sampled.clear();
        flow.sample(place, &mut self.sampled)?;
        if !self.all {
            self.line.forget();
        }
        self.last_kept = time;
        self.line.push_at(x, time, place.spot.cell.domain(), self.sampled.iter().take(self.line.fields()).copied());
        Ok(())
    }
}
