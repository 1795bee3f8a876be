//! Kinds of lines: their tasks, and a thread's context for stepping them.

use crate::admission::SeedRule;
use field::domain::{Domains, Locator, SeriesLocator};
use field::error::FieldError;
use field::locator::{CellId, ZoneFields, ZoneLocator, LANES};
use field::motion::Neighbours;
use field::nodes::{Miss, Zone};
use field::paged::PagedNodes;
use kernels::flow::{DomainFlow, GridFlow, ZoneOrder};
use kernels::line::JoinedLine;
use kernels::saved_state::{SavedState, Saver};
use kernels::streamline::{step_lanes, Options, Seed, StepProgress, Streamline};
use kernels::unsteady::{Series, SeriesFlow, UnsteadyFlow, UnsteadyLine};
use pager::error::PageError;
use pager::id::ArrayId;
use pager::{PageId, Worker};
use runtime::executor::Outcome;
use runtime::last_use::ZonePage;
use std::ops::Range;
use std::sync::Arc;

/// Pages of time steps that are prefetched for particles.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ReadAhead {
    /// Nothing.
    None,
    /// The way of each particle between the next two steps, into unused memory.
    #[default]
    Along,
}

/// A kind of line.
pub(crate) trait Tracer: Sync {
    /// One unfinished line.
    type Line: Send + 'static;
    /// A thread's view of the dataset.
    type Flow;
    /// Makes a thread's view.
    fn flow(&self, worker: Worker) -> Self::Flow;
    /// The pager's part of the view.
    fn worker<'c>(&self, flow: &'c mut Self::Flow) -> &'c mut Worker;
    /// A line that starts at a seed.
    fn line(&self, seed: Seed) -> Self::Line;
    /// The line of task number `n`: of one seed, unless the kind uses several.
    ///
    /// # Errors
    /// As [`SeedRule::seed`].
    fn begin(&self, n: u64, seeds: &SeedRule<'_>) -> Result<Self::Line, FieldError> {
        Ok(self.line(seeds.seed(n)?))
    }
    /// Saves the state of a finished line.
    fn save(&self, _line: &Self::Line, _to: &mut Saver) {}
    /// A line from its saved state. `None`: not a valid state.
    fn restore(&self, _seed: Seed, _from: &mut SavedState<'_>) -> Option<Self::Line> {
        None
    }
    /// One step of each line, and its outcome. A line with a failed page ends there, and `failed` gets its lane and the
    /// error.
    fn steps(
        &self,
        flow: &mut Self::Flow,
        lines: [Option<&mut Self::Line>; LANES],
        outcomes: &mut [Outcome; LANES],
        failed: impl FnMut(usize, Option<PageError>),
    );
    /// Prefetches memory for the next step of a line, while others are stepped.
    fn prefetch(&self, _flow: &mut Self::Flow, _line: &Self::Line) {}
    /// Bytes that a line holds.
    fn bytes(line: &Self::Line) -> usize;
    /// The result of a finished line.
    fn join(line: Self::Line) -> JoinedLine;
    /// Whether lines go through time.
    const WINDOWED: bool = false;
    /// Number of windows that lines go through.
    fn windows(&self) -> usize {
        1
    }
    /// The window of a line; see [`runtime::executor::Windowed::window`].
    fn window(_line: &Self::Line) -> u32 {
        0
    }
    /// The last cell of a line through time, if known.
    fn place(_line: &Self::Line) -> Option<CellId> {
        None
    }
    /// Bytes that a line through time holds in addition while it is amid a step.
    fn step_bytes() -> usize {
        0
    }
    /// See [`UnsteadyLine::put_away`].
    fn put_away(_line: &Self::Line, _to: &mut Saver) -> bool {
        false
    }
    /// See [`UnsteadyLine::take_up`].
    fn take_up(&self, _from: &[u8]) -> Option<Self::Line> {
        None
    }
    /// As [`Self::prefetch`], for a packed line in a window.
    fn prefetch_away(&self, _flow: &mut Self::Flow, _window: u32, _from: &[u8]) {}
    /// See [`UnsteadyLine::AWAY_BYTES`].
    const AWAY_BYTES: usize = 0;
    /// Most bytes of a line through time, as far as known, beside the points of one window.
    fn most_bytes(&self) -> usize {
        0
    }
    /// Takes the points that an unfinished line need not keep, if there are at least `least`.
    fn drain(_line: &mut Self::Line, _least: usize) -> Option<JoinedLine> {
        None
    }
    /// Adds the pages of points that a line will likely use in its next window.
    fn ahead(&self, _flow: &mut Self::Flow, _lane: usize, _line: &Self::Line, _pages: &mut Vec<ZonePage>) {}
    /// Adds the pages read of a page of points in a window.
    fn of_page(&self, _window: u32, _page: ZonePage, _pages: &mut Vec<PageId>) {}
    /// The arrays that differ from step to step, sorted. Also their time steps that no line uses from a window on.
    fn passed(&self, _window: u32) -> (&[ArrayId], Range<u32>) {
        (&[], 0..0)
    }
    /// For a page that the last line of a window has left, adds two kinds of pages. The first are not used again: those
    /// of the time step that only this and earlier windows need. The second are used in the next window.
    fn left(&self, _window: u32, _page: ZonePage, _pages: &mut [Vec<PageId>; 2]) {}
    /// For pages of points used in a window, adds the pages that the next window reads and this one does not.
    fn after(&self, _window: u32, _pages: &[ZonePage], _of: &mut Vec<PageId>) {}
}

/// Streamlines of one time step.
pub(crate) struct Streamlines {
    pub zones: Arc<[Zone]>,
    pub fields: Arc<[ZoneFields]>,
    pub order: ZoneOrder,
    pub step: u32,
    /// The steps from which the grids' motion follows.
    pub near: Neighbours,
    pub options: Options,
    /// Number of sampled components.
    pub components: usize,
}

impl Tracer for Streamlines {
    type Line = Streamline;
    type Flow = GridFlow<PagedNodes>;

    fn flow(&self, worker: Worker) -> Self::Flow {
        let nodes = PagedNodes::new(self.zones.clone(), worker, self.step);
        let mut space = ZoneLocator::new(nodes, self.fields.clone());
        space.near = Some(self.near);
        GridFlow::new(space, self.order.clone())
    }
    #[inline(always)]
    fn worker<'c>(&self, flow: &'c mut Self::Flow) -> &'c mut Worker {
        flow.space.nodes.worker()
    }
    fn line(&self, seed: Seed) -> Streamline {
        Streamline::new(seed, &self.options, self.components)
    }
    #[inline(always)]
    fn steps(
        &self,
        flow: &mut Self::Flow,
        lines: [Option<&mut Streamline>; LANES],
        outcomes: &mut [Outcome; LANES],
        failed: impl FnMut(usize, Option<PageError>),
    ) {
        step_lines(flow, &self.options, lines, outcomes, failed);
    }
    #[inline(always)]
    fn bytes(line: &Streamline) -> usize {
        line.bytes()
    }
    fn join(line: Streamline) -> JoinedLine {
        line.into_line()
    }
}

/// Lines through time.
pub(crate) struct Unsteady<L: UnsteadyLine> {
    pub zones: Arc<[Zone]>,
    pub series: Arc<Series>,
    pub order: ZoneOrder,
    pub options: L::Options,
    /// Number of sampled components.
    pub components: usize,
    pub ahead: ReadAhead,
    /// Arrays that differ from step to step, sorted.
    pub arrays: Vec<ArrayId>,
    /// For each zone, the numbers of the arrays that lines use: the same numbers at every step.
    wanted: Vec<Vec<usize>>,
}

impl<L: UnsteadyLine> Unsteady<L> {
    /// For a dataset's zones.
    pub(crate) fn new(
        zones: Arc<[Zone]>,
        series: Arc<Series>,
        order: ZoneOrder,
        options: L::Options,
        components: usize,
        ahead: ReadAhead,
    ) -> Self {
        let of_zone = |z: &Zone| {
            let arrays = z.arrays.iter().filter(|a| !a.steady).map(|a| a.id);
            arrays.chain(z.boxes.iter().filter(|b| !b.steady).map(|b| b.id)).collect::<Vec<_>>()
        };
        let mut arrays: Vec<ArrayId> = zones.iter().flat_map(of_zone).collect();
        arrays.sort_unstable();
        let of_zone = |(z, of): (&Zone, &ZoneFields)| of.arrays().into_iter().chain([z.xyz]).chain(z.iblank).collect();
        let wanted =
            series.fields.first().map_or_else(Vec::new, |fields| zones.iter().zip(&**fields).map(of_zone).collect());
        Self { zones, series, order, options, components, ahead, arrays, wanted }
    }
}

impl<L: UnsteadyLine<Cell = CellId> + 'static> Tracer for Unsteady<L> {
    type Line = L;
    type Flow = UnsteadyFlow<PagedNodes>;

    fn flow(&self, worker: Worker) -> Self::Flow {
        UnsteadyFlow::new(PagedNodes::new(self.zones.clone(), worker, 0), self.series.clone(), self.order.clone())
    }
    #[inline(always)]
    fn worker<'c>(&self, flow: &'c mut Self::Flow) -> &'c mut Worker {
        flow.grid.space.nodes.nodes().worker()
    }
    fn line(&self, seed: Seed) -> L {
        L::new(seed, &self.options, self.components)
    }
    fn steps(
        &self,
        flow: &mut Self::Flow,
        lines: [Option<&mut L>; LANES],
        outcomes: &mut [Outcome; LANES],
        failed: impl FnMut(usize, Option<PageError>),
    ) {
        step_unsteady(flow, &self.options, lines, outcomes, failed);
    }
    #[inline(always)]
    fn prefetch(&self, flow: &mut Self::Flow, line: &L) {
        if let Some(cell) = line.place() {
            flow.prefetch(self.series.interval_of(line.window(), L::times(&self.options)), cell);
        }
    }
    fn bytes(line: &L) -> usize {
        line.bytes()
    }
    fn join(line: L) -> JoinedLine {
        line.into_line()
    }
    const WINDOWED: bool = true;
    fn windows(&self) -> usize {
        self.series.times.len().saturating_sub(1)
    }
    #[inline(always)]
    fn window(line: &L) -> u32 {
        line.window()
    }
    fn place(line: &L) -> Option<CellId> {
        line.place()
    }
    fn step_bytes() -> usize {
        L::step_bytes()
    }
    fn put_away(line: &L, to: &mut Saver) -> bool {
        line.put_away(to)
    }
    fn take_up(&self, from: &[u8]) -> Option<L> {
        L::take_up(&mut SavedState(from), self.components)
    }
    fn prefetch_away(&self, flow: &mut Self::Flow, window: u32, from: &[u8]) {
        if let Some(cell) = L::away_at(&mut SavedState(from)) {
            flow.prefetch(self.series.interval_of(window, L::times(&self.options)), cell);
        }
    }
    const AWAY_BYTES: usize = L::AWAY_BYTES;
    fn most_bytes(&self) -> usize {
        L::most_bytes(&self.options)
    }
    fn drain(line: &mut L, least: usize) -> Option<JoinedLine> {
        line.drain(least)
    }
    fn ahead(&self, flow: &mut Self::Flow, lane: usize, line: &L, pages: &mut Vec<ZonePage>) {
        if self.ahead != ReadAhead::Along {
            return;
        }
        line.ahead(flow, &self.options, lane, &mut |cell| {
            self.zones.pages_of(cell, |page| {
                // Most lines stay in one page.
                if pages.last() != Some(&(cell.zone, page)) {
                    pages.push((cell.zone, page));
                }
            });
        });
    }
    fn of_page(&self, window: u32, (zone, page): ZonePage, pages: &mut Vec<PageId>) {
        let first = self.series.interval_of(window, L::times(&self.options));
        let second = if self.series.linear { self.series.next(first) } else { first };
        let of = &self.zones[zone as usize];
        for array in self.wanted.get(zone as usize).into_iter().flatten().map(|a| &of.arrays[*a]) {
            let steps = if array.steady { [0, 0] } else { [first, second] };
            pages.push(PageId::new(array.id, steps[0], page));
            if steps[1] != steps[0] {
                pages.push(PageId::new(array.id, steps[1], page));
            }
        }
    }
    fn passed(&self, window: u32) -> (&[ArrayId], Range<u32>) {
        (&self.arrays, self.series.passed(window, L::times(&self.options)))
    }
    fn left(&self, window: u32, (zone, page): ZonePage, pages: &mut [Vec<PageId>; 2]) {
        let times = L::times(&self.options);
        let interval = self.series.interval_of(window, times);
        let mut steps = [interval, if self.series.linear { self.series.next(interval) } else { interval }];
        if times[1] < times[0] {
            steps.reverse();
        }
        let [never, last] = pages;
        let of = &self.zones[zone as usize];
        for array in self.wanted.get(zone as usize).into_iter().flatten().map(|n| &of.arrays[*n]) {
            if !array.steady {
                never.push(PageId::new(array.id, steps[0], page));
            }
            if array.steady || steps[1] != steps[0] {
                last.push(PageId::new(array.id, if array.steady { 0 } else { steps[1] }, page));
            }
        }
    }
    fn after(&self, window: u32, pages: &[ZonePage], of: &mut Vec<PageId>) {
        let Some(fresh) = self.series.fresh_after(window, L::times(&self.options)) else { return };
        // In storage order: all pages of one array of a zone together.
        for zone in pages.chunk_by(|a, b| a.0 == b.0) {
            let Some(number) = zone.first().map(|(number, _)| *number as usize) else { continue };
            let arrays = self.wanted.get(number).into_iter().flatten().map(|a| &self.zones[number].arrays[*a]);
            for array in arrays.filter(|a| !a.steady) {
                of.extend(zone.iter().map(|(_, page)| PageId::new(array.id, fresh, *page)));
            }
        }
    }
    fn save(&self, line: &L, to: &mut Saver) {
        line.save(&self.options, to);
    }
    fn restore(&self, seed: Seed, from: &mut SavedState<'_>) -> Option<L> {
        L::restore(seed, &self.options, self.components, from).filter(|_| from.is_at_end())
    }
}

/// One step of each streamline, and its outcome. A line with a failed page ends there, and `failed` gets its lane and
/// the error.
#[inline(always)]
pub fn step_lines<L: Locator>(
    flow: &mut DomainFlow<L>,
    options: &Options,
    lines: [Option<&mut Streamline<L::Cell>>; LANES],
    outcomes: &mut [Outcome; LANES],
    mut failed: impl FnMut(usize, Option<PageError>),
) {
    step_lanes(flow, options, lines, |lane, flow, line, result| {
        take(result, &mut flow.space, &mut outcomes[lane], |error| {
            failed(lane, error);
            line.fail();
        });
    });
}

/// As [`step_lines`], for lines through time.
pub fn step_unsteady<L: SeriesLocator, U: UnsteadyLine<Cell = L::Cell>>(
    flow: &mut SeriesFlow<L>,
    options: &U::Options,
    lines: [Option<&mut U>; LANES],
    outcomes: &mut [Outcome; LANES],
    mut failed: impl FnMut(usize, Option<PageError>),
) {
    for (lane, line) in lines.into_iter().enumerate() {
        let Some(line) = line else { continue };
        let result = line.step(flow, options, lane);
        take(result, &mut flow.grid.space, &mut outcomes[lane], |error| {
            failed(lane, error);
            line.fail();
        });
    }
}

/// Records the outcome of a step.
#[inline(always)]
fn take<L: Locator>(
    result: Result<StepProgress, Miss>,
    space: &mut L,
    outcome: &mut Outcome,
    fail: impl FnOnce(Option<PageError>),
) {
    outcome.progress = match result {
        Ok(p) => p,
        Err(Miss::Absent) => {
            outcome.missing.append(space.missing());
            StepProgress::Need
        }
        Err(Miss::Failed) => {
            space.missing().clear();
            fail(space.failure());
            StepProgress::Done
        }
    };
}
