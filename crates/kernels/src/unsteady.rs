//! An unsteady flow between the steps of a series.
//!
//! Vectors and sampled fields are computed at each step, and interpolated linearly between two steps. A particle is
//! located in the grid of its time. A cell that is blanked out at either step cannot contain it. Results depend on
//! place and time only, never on earlier requests.

use crate::flow::{DomainFlow, Exit, Flow, ParticlePosition, Sample, ZoneOrder};
use crate::line::JoinedLine;
use crate::rk::Stepper;
use crate::saved_state::{SavedState, Saver};
use crate::streamline::{Seed, StepProgress};
use field::cell::interpolate_scalar;
use field::domain::{LaterValues, SeriesLocator};
use field::locator::{CellPoint, ZoneFields, ZoneLocator, KEPT, LANES};
use field::nodes::{Miss, Nodes};
use field::shape::{DomainCell, Face};
use field::simd::V4;
use field::time_interpolated::TimeInterpolated;
use std::ops::Range;
use std::sync::Arc;

/// The times and fields of a series.
pub struct Series<F = ZoneFields> {
    /// Time of each step, rising.
    pub times: Box<[f64]>,
    /// Traced vector and sampled fields at each step, by domain.
    pub fields: Box<[Arc<[F]>]>,
    /// Whether to interpolate linearly between steps; otherwise a step holds until the next.
    pub linear: bool,
}

impl<F> Series<F> {
    /// The interval of a particle that continues from `time`: the number of its first step. `None` outside of the
    /// series. A single step is the same at all times.
    pub fn interval(&self, time: f64, forward: bool) -> Option<u32> {
        if let [_] = *self.times {
            return time.is_finite().then_some(0);
        }
        let after = if forward {
            self.times.partition_point(|t| *t <= time)
        } else {
            self.times.partition_point(|t| *t < time).max(1)
        };
        let last = self.times.len().saturating_sub(1);
        let within = self.times.first()? <= &time && &time <= self.times.last()?;
        within.then(|| after.saturating_sub(1).min(last.saturating_sub(1)) as u32)
    }

    /// The interval of a window of the run from one time to another.
    pub fn interval_of(&self, window: u32, [from, to]: [f64; 2]) -> u32 {
        let first = self.interval(from, to >= from).unwrap_or(0);
        let last = self.times.len().saturating_sub(2) as u32;
        if to >= from {
            first.saturating_add(window).min(last)
        } else {
            first.saturating_sub(window)
        }
    }

    /// The window of the run of a particle that continues from a time.
    pub fn window_at(&self, time: f64, [from, to]: [f64; 2]) -> u32 {
        let at = |t: f64| self.interval(t, to >= from).unwrap_or(0);
        at(time).abs_diff(at(from))
    }

    /// The time steps that no window from this one on needs.
    pub fn passed(&self, window: u32, times: [f64; 2]) -> Range<u32> {
        let interval = self.interval_of(window, times);
        if times[1] >= times[0] {
            0..interval
        } else {
            self.next(interval) + 1..self.times.len() as u32
        }
    }

    /// The time step that a window of the run is the first to need. It is the step at the far end, or the only step if
    /// steps hold. The first window needs another one, too.
    pub fn fresh(&self, window: u32, times: [f64; 2]) -> u32 {
        let interval = self.interval_of(window, times);
        if times[1] >= times[0] && self.linear {
            self.next(interval)
        } else {
            interval
        }
    }

    /// The same for the next window, if there is one: the run may end before the series does.
    pub fn fresh_after(&self, window: u32, times: [f64; 2]) -> Option<u32> {
        let interval = self.interval_of(window, times);
        let forward = times[1] >= times[0];
        let ends = *self.times.get(if forward { self.next(interval) } else { interval } as usize)?;
        let goes_on = if forward { ends < times[1] } else { ends > times[1] };
        (goes_on && self.times.len() > 1).then(|| self.fresh(window.saturating_add(1), times))
    }

    /// The next time of the series between `time` and `stop`, or `stop` if that comes first.
    pub fn edge_after(&self, time: f64, stop: f64) -> f64 {
        let n = if stop >= time {
            Some(self.times.partition_point(|t| *t <= time))
        } else {
            self.times.partition_point(|t| *t < time).checked_sub(1)
        };
        let edge = n.and_then(|n| self.times.get(n)).copied().filter(|_| self.times.len() > 1);
        edge.filter(|t| (*t - time).abs() < (stop - time).abs()).unwrap_or(stop)
    }

    /// The step after an interval's first; the same one in a series of a single step.
    #[inline(always)]
    pub fn next(&self, interval: u32) -> u32 {
        (interval + 1).min(self.times.len().saturating_sub(1) as u32)
    }
}

/// A kind of line in an unsteady flow, as a restartable task.
pub trait UnsteadyLine: Send + Sized {
    /// Its options.
    type Options: Sync;
    /// The type of its cells.
    type Cell: DomainCell;
    /// Begin and end of the run; the end may be the earlier time.
    fn times(options: &Self::Options) -> [f64; 2];
    /// A task for a seed; `fields` is the number of sampled components.
    fn new(seed: Seed, options: &Self::Options, fields: usize) -> Self;
    /// Bytes held.
    fn bytes(&self) -> usize;
    /// Most bytes of a task without the points of its line, while it waits at the beginning of a window.
    fn most_bytes(options: &Self::Options) -> usize;
    /// Additional bytes during a step.
    fn step_bytes() -> usize;
    /// One restartable step in a lane: on `Err` nothing has changed.
    ///
    /// # Errors
    /// [`Miss`]: pages are absent (and listed by the accessor), or one failed.
    fn step<L: SeriesLocator<Cell = Self::Cell>>(
        &mut self,
        flow: &mut SeriesFlow<L>,
        options: &Self::Options,
        lane: usize,
    ) -> Result<StepProgress, Miss>;
    /// Its window: the number of times of the series passed.
    fn window(&self) -> u32;
    /// The cell of its last place, if known: lines near each other read the same pages.
    fn place(&self) -> Option<Self::Cell> {
        None
    }
    /// Removes the points that it need not keep, if they are at least `least`. The rest continues them.
    fn drain(&mut self, _least: usize) -> Option<JoinedLine> {
        None
    }
    /// Passes to `cells` its likely cells until the next time of the series, at either step around that time. Called
    /// while it waits at the beginning of a window. A hint, from the last cell only.
    fn ahead<L: SeriesLocator<Cell = Self::Cell>>(
        &self,
        _flow: &mut SeriesFlow<L>,
        _options: &Self::Options,
        _lane: usize,
        _cells: &mut dyn FnMut(Self::Cell),
    ) {
    }
    /// Writes its state as a packed task while it waits at the beginning of a window. Returns false and writes nothing
    /// in other states, and for kinds without packing.
    fn put_away(&self, _to: &mut Saver) -> bool {
        false
    }
    /// Restores the state of [`Self::put_away`], with the same results. `None` for invalid bytes.
    fn take_up(_from: &mut SavedState<'_>, _fields: usize) -> Option<Self> {
        None
    }
    /// The cell of a packed task.
    fn away_at(_from: &mut SavedState<'_>) -> Option<Self::Cell> {
        None
    }
    /// Usual bytes of [`Self::put_away`] without points; 0 for kinds without packing.
    const AWAY_BYTES: usize = 0;
    /// Ends the line because of an unreadable page.
    fn fail(&mut self);
    /// The line, once done. Its times are those of the series.
    fn into_line(self) -> JoinedLine;
    /// Saves a line that is done at a time of the series, to be continued when the series is longer. Writes nothing for
    /// kinds without it.
    fn save(&self, _options: &Self::Options, _to: &mut Saver) {}
    /// The line of [`Self::save`], to be continued to the end given by the options. `None` for invalid bytes.
    fn restore(_seed: Seed, _options: &Self::Options, _fields: usize, _from: &mut SavedState<'_>) -> Option<Self> {
        None
    }
}

/// The data of a cell at the later step.
struct LaterCell<C> {
    cell: C,
    values: LaterValues,
}

/// The time of a lane.
#[derive(Copy, Clone, PartialEq)]
struct When {
    interval: u32,
    weight: f64,
}

/// One worker's view of a series. Between domains it follows the conventions of [`DomainFlow`].
pub struct SeriesFlow<L: SeriesLocator> {
    /// The grid at the present time.
    pub grid: DomainFlow<L>,
    series: Arc<Series<L::Fields>>,
    lane: usize,
    when: [When; LANES],
    later: Box<[LaterCell<L::Cell>; KEPT * LANES]>,
    /// Unused steppers. Every particle starts one at each time of the series, and allocating it each time took a
    /// twentieth of a run.
    spare: Vec<Box<Stepper<ParticlePosition<L::Cell>>>>,
}

/// A series in curvilinear zones, over access to the nodes of single steps.
pub type UnsteadyFlow<N> = SeriesFlow<ZoneLocator<TimeInterpolated<N>>>;

/// Most spare steppers. A lane usually returns one before it takes one.
const SPARE: usize = 4 * LANES;

impl<N: Nodes> UnsteadyFlow<N> {
    /// Over a dataset's nodes.
    ///
    /// # Panics
    /// For a series without steps.
    pub fn new(nodes: N, series: Arc<Series>, order: ZoneOrder) -> Self {
        let fields = series.fields[0].clone();
        Self::over(ZoneLocator::new(TimeInterpolated::new(nodes), fields), series, order)
    }
}

impl<L: SeriesLocator> SeriesFlow<L> {
    /// Over a locator at any time of the series.
    pub fn over(space: L, series: Arc<Series<L::Fields>>, order: ZoneOrder) -> Self {
        let later = || LaterCell { cell: L::Cell::NOWHERE, values: LaterValues::default() };
        Self {
            grid: DomainFlow::new(space, order),
            series,
            lane: 0,
            when: [When { interval: u32::MAX, weight: 0.0 }; LANES],
            later: Box::new(core::array::from_fn(|_| later())),
            spare: Vec::with_capacity(SPARE),
        }
    }

    /// A stepper at a point with known vector.
    pub(crate) fn stepper(
        &mut self,
        v: [f64; 3],
        at: ParticlePosition<L::Cell>,
    ) -> Box<Stepper<ParticlePosition<L::Cell>>> {
        match self.spare.pop() {
            Some(mut stepper) => {
                stepper.begin(v, at);
                stepper
            }
            None => Box::new(Stepper::new(v, at)),
        }
    }

    /// Keeps a finished stepper for reuse.
    pub(crate) fn take_back(&mut self, stepper: Box<Stepper<ParticlePosition<L::Cell>>>) {
        if self.spare.len() < SPARE {
            self.spare.push(stepper);
        }
    }

    /// The series.
    pub fn series(&self) -> &Arc<Series<L::Fields>> {
        &self.series
    }

    /// Selects a lane, and sets its time within an interval.
    #[inline(always)]
    pub fn go_to(&mut self, lane: usize, interval: u32, time: f64) {
        self.lane = lane % LANES;
        self.grid.space.take_turn(self.lane);
        let next = if self.series.linear { self.series.next(interval) } else { interval };
        self.grid.space.set_steps(interval, next);
        self.grid.space.set_fields(&self.series.fields[interval as usize]);
        if self.when[self.lane].interval != interval {
            self.when[self.lane].interval = interval;
            self.forget();
        }
        self.grid.space.set_weight(self.when[self.lane].weight);
        self.set_time(time);
    }

    /// Prefetches into the processor's caches the data of a step in a cell between two steps of the series, while other
    /// lanes compute. The lane with the next turn sets its own time first.
    #[inline(always)]
    pub fn prefetch(&mut self, interval: u32, cell: L::Cell) {
        let (series, space) = (&self.series, &mut self.grid.space);
        let next = if series.linear { series.next(interval) } else { interval };
        space.set_steps(interval, next);
        space.prefetch_at(cell, &series.fields[interval as usize], false);
        if next != interval {
            space.prefetch_at(cell, &series.fields[next as usize], true);
        }
    }

    /// See [`SeriesLocator::straight_on`]; for a particle in a lane.
    pub fn straight_on(
        &mut self,
        lane: usize,
        place: &ParticlePosition<L::Cell>,
        vector: [f64; 3],
        time: f64,
        cells: &mut dyn FnMut(L::Cell),
    ) {
        self.grid.space.take_turn(lane);
        self.grid.space.straight_on(&place.spot, vector, time, cells);
    }

    /// As [`field::domain::Locator::is_wall`], between two steps of the series: motion is relative to the domain.
    pub(crate) fn is_wall(&mut self, face: Face<L::Cell>) -> Result<bool, Miss> {
        let Some(time) = self.time_between(face.cell.domain()) else { return self.grid.space.is_wall(face) };
        let first = self.when[self.lane].interval;
        let fields = [first, self.series.next(first)].map(|step| &*self.series.fields[step as usize]);
        self.grid.space.is_wall_between(face, fields, time)
    }

    /// Time between the two steps, if a domain moves between them.
    fn time_between(&self, domain: u32) -> Option<f64> {
        let first = self.when[self.lane].interval;
        let [from, to] = [first, self.series.next(first)].map(|n| self.series.times.get(n as usize));
        let time = to? - from?;
        (self.grid.space.moves(domain) && time > 0.0).then_some(time)
    }

    /// Drops the data loaded by the lane.
    fn forget(&mut self) {
        self.grid.space.forget();
        for later in &mut self.later[self.lane * KEPT..][..KEPT] {
            later.cell = L::Cell::NOWHERE;
        }
    }

    /// Whether the interval's steps differ.
    fn changes(&self) -> bool {
        let interval = self.when[self.lane].interval;
        self.series.linear && self.series.next(interval) != interval
    }

    /// Loads vector and sampled fields of the later step.
    #[inline(always)]
    fn load_later(&mut self, cell: L::Cell) -> Result<usize, Miss> {
        let n = self.grid.space.slot(cell);
        if self.later[n].cell == cell {
            return Ok(n);
        }
        self.fill_later(cell, n).map(|()| n)
    }

    #[inline(never)]
    fn fill_later(&mut self, cell: L::Cell, n: usize) -> Result<(), Miss> {
        let next = self.series.next(self.when[self.lane].interval);
        let l = &mut self.later[n];
        l.cell = L::Cell::NOWHERE;
        self.grid.space.load_later(cell, &self.series.fields[next as usize], &mut l.values)?;
        l.cell = cell;
        Ok(())
    }

    /// The vector at a place, now.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn value(&mut self, place: ParticlePosition<L::Cell>) -> Result<Sample<ParticlePosition<L::Cell>>, Miss> {
        let (cell, rst) = (place.spot.cell, place.spot.rst);
        let first = self.grid.space.cell(cell).map(|l| l.vector.at(rst));
        if !self.changes() {
            return Ok(Sample::of(first?, place));
        }
        let second = self.load_later(cell).map(|n| self.later[n].values.vector.at(rst));
        match (first, second) {
            (Ok(a), Ok(b)) => Ok(Sample::of(a + (b - a) * V4::splat(self.when[self.lane].weight), place)),
            (a, b) => Err(Miss::worst([a.err(), b.err(), None])),
        }
    }

    /// The sampled fields at a place, now, component by component.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn sample(&mut self, place: &ParticlePosition<L::Cell>, out: &mut Vec<f64>) -> Result<(), Miss> {
        let (cell, rst) = (place.spot.cell, place.spot.rst);
        let second = if self.changes() { self.load_later(cell).map(Some) } else { Ok(None) };
        let first = self.grid.space.cell(cell);
        let (first, second) = match (first, second) {
            (Ok(a), Ok(b)) => (a, b),
            (a, b) => return Err(Miss::worst([a.err(), b.err(), None])),
        };
        let weight = self.when[self.lane].weight;
        out.extend(first.sampled.iter().enumerate().map(|(row, a)| {
            let a = interpolate_scalar(a, rst);
            match second {
                Some(n) => a + (interpolate_scalar(&self.later[n].values.sampled[row], rst) - a) * weight,
                None => a,
            }
        }));
        Ok(())
    }
}

impl<L: SeriesLocator> Flow for SeriesFlow<L> {
    type Cursor = ParticlePosition<L::Cell>;

    #[inline(always)]
    fn set_time(&mut self, time: f64) {
        let when = self.when[self.lane];
        let [from, to] = [when.interval, self.series.next(when.interval)].map(|n| self.series.times[n as usize]);
        // Rounding may put a stage at the end of the interval beyond it.
        let weight = if self.changes() { ((time - from) / (to - from)).clamp(0.0, 1.0) } else { 0.0 };
        if weight == when.weight {
            return;
        }
        self.when[self.lane].weight = weight;
        self.grid.space.set_weight(weight);
    }

    fn seed(&mut self, x: [f64; 3]) -> Result<Sample<Self::Cursor>, Miss> {
        match self.grid.start(x)? {
            Some(spot) => self.value(ParticlePosition { spot, kept_fringe: None }),
            None => Ok(Sample::Outside(Exit::Left)),
        }
    }

    fn at(&mut self, x: [f64; 3], from: &Self::Cursor) -> Result<Sample<Self::Cursor>, Miss> {
        match self.grid.locate(x, from)? {
            Ok(place) => self.value(place),
            Err(exit) => Ok(Sample::Outside(exit)),
        }
    }

    #[inline(always)]
    fn quick(&mut self, x: V4, from: &Self::Cursor) -> Option<V4> {
        let (cell, rst) = self.grid.space.known_spot(from.spot.cell.domain(), x)?;
        if self.grid.space.loaded(cell).is_none() {
            self.grid.space.cell(cell).ok()?;
        }
        let first = self.grid.space.loaded(cell)?.vector.at_v4(rst);
        let v = if self.changes() {
            let n = self.load_later(cell).ok()?;
            let second = self.later[n].values.vector.at_v4(rst);
            first + (second - first) * V4::splat(self.when[self.lane].weight)
        } else {
            first
        };
        v.is_finite_xyz().then_some(v)
    }

    #[inline(always)]
    fn quick_cursor(&mut self, x: V4, from: &Self::Cursor) -> Self::Cursor {
        match self.grid.space.known_spot(from.spot.cell.domain(), x) {
            Some((cell, rst)) => {
                ParticlePosition { spot: CellPoint { cell, rst: rst.xyz() }, kept_fringe: from.kept_fringe }
            }
            None => *from,
        }
    }

    #[inline(always)]
    fn length_scale(&mut self, at: &Self::Cursor) -> Result<f64, Miss> {
        self.grid.space.length(at.spot.cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_needs_one_step_that_those_before_it_do_not() {
        let series =
            |linear| -> Series { Series { times: [0.0, 1.0, 2.0, 3.0, 4.0].into(), fields: Box::new([]), linear } };
        let of = |linear: bool, times: [f64; 2]| {
            let series = series(linear);
            let windows = series.window_at(times[1], times) + 1;
            (0..windows).map(|n| (series.fresh(n, times), series.fresh_after(n, times))).collect::<Vec<_>>()
        };
        // From mid-interval to mid-interval; there is no window behind the last, though the series continues.
        assert_eq!(of(true, [0.5, 2.5]), [(1, Some(2)), (2, Some(3)), (3, None)]);
        assert_eq!(of(false, [0.5, 2.5]), [(0, Some(1)), (1, Some(2)), (2, None)]);
        assert_eq!(of(true, [2.5, 0.5]), [(2, Some(1)), (1, Some(0)), (0, None)]);
        assert_eq!(of(false, [2.5, 0.5]), [(2, Some(1)), (1, Some(0)), (0, None)]);
        // To a time of the series, where no particle enters the next interval.
        assert_eq!(of(true, [0.0, 2.0])[..2], [(1, Some(2)), (2, None)]);
        assert_eq!(of(true, [4.0, 2.0])[..2], [(3, Some(2)), (2, None)]);
        assert_eq!(of(true, [1.0, 4.0])[..3], [(2, Some(3)), (3, Some(4)), (4, None)]);
        let single: Series = Series { times: [7.0].into(), fields: Box::new([]), linear: true };
        assert_eq!((single.fresh(0, [0.0, 9.0]), single.fresh_after(0, [0.0, 9.0])), (0, None));
    }
}
