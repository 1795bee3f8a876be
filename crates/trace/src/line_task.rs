//! Lines as tasks of the executor: begun, stepped, packed between their turns, and finished.

use crate::admission::{SeedOrder, SeedRule};
use crate::finished_lines::{cut, LineSink};
use crate::line_kinds::Tracer;
use crate::memory::{LineMemory, OF_TASK};
use crate::resume::StateReader;
use field::domain::Domains;
use field::error::FieldError;
use field::locator::{CellId, LANES};
use field::nodes::Zone;
use kernels::saved_state::{SavedState, Saver};
use output::LineLayout;
use pager::error::PageError;
use pager::{PageId, Pager, Reuse, Worker};
use runtime::executor::{Budgeted, Outcome, Windowed, Work, OF_RECORD};
use runtime::last_use::{PageUsers, ZonePage};
use runtime::limits::{active_lines, results_budget, too_large};
use runtime::next_window::WindowPrediction;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// State shared by all lines of a trace.
pub(crate) struct Tracing<'a, T> {
    pub(crate) tracer: T,
    pub(crate) pager: &'a Arc<Pager>,
    pub(crate) zones: &'a [Zone],
    pub(crate) seeds: &'a SeedRule<'a>,
    /// Seeds in the order of admission, if sorting them fits into memory.
    pub(crate) sorted: Option<&'a SeedOrder>,
    /// Saved states from which lines continue.
    pub(crate) states: Option<&'a StateReader>,
    /// Whether the state at the end is saved.
    pub(crate) saves: bool,
    pub(crate) layout: &'a LineLayout,
    /// Number of the lines' moment, if each is of one time step.
    pub(crate) moment: u64,
    pub(crate) step_bytes: u64,
    pub(crate) memory: LineMemory,
    pub(crate) workers: usize,
    /// When the run reached its present window, by the pager's count.
    pub(crate) since: AtomicU64,
    /// Pages evicted until then.
    pub(crate) evicted: AtomicU64,
    /// Whether memory held the pages of the last window. If not, pages that no line uses any more are hinted for
    /// eviction.
    pub(crate) roomy: AtomicBool,
    /// Whether it nearly did: only then is there room for prefetches.
    pub(crate) nearly: AtomicBool,
    /// The earliest window, and the pages of lines in it and in the next.
    pub(crate) window: AtomicU32,
    pub(crate) page_users: PageUsers,
    pub(crate) prediction: WindowPrediction,
    /// Bytes of all pages of a time step that lines may use.
    pub(crate) whole_step: u64,
    /// Whether memory holds the pages of two windows. Then none need be evicted before the window is passed.
    pub(crate) holds: AtomicBool,
    pub(crate) sink: &'a Mutex<LineSink>,
}

/// One unfinished line.
pub struct LineTask<L> {
    number: u64,
    line: L,
    /// Boxed, as hardly any line has one and thousands wait.
    failure: Option<Box<PageError>>,
    /// No piece of it is in the spool yet.
    first: bool,
    /// Its window, and the cell in which it entered that.
    at: Option<(u32, CellId)>,
}

impl<T: Tracer> Work for Tracing<'_, T> {
    type Task = LineTask<T::Line>;
    type Context = T::Flow;

    fn context(&self, _thread: usize, worker: Worker) -> Self::Context {
        self.tracer.flow(worker)
    }
    #[inline(always)]
    fn worker<'c>(&self, flow: &'c mut Self::Context) -> &'c mut Worker {
        self.tracer.worker(flow)
    }
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError> {
        let n = self.seed_of(n);
        let line = match self.states {
            None => self.tracer.begin(n, self.seeds)?,
            Some(states) => {
                let state = states.state(n)?;
                let line = self.tracer.restore(self.seeds.seed(n)?, &mut SavedState(&state));
                line.ok_or_else(|| states.damaged(n))?
            }
        };
        Ok(LineTask { number: n, line, failure: None, first: true, at: None })
    }
    #[inline(always)]
    fn steps(
        &self,
        flow: &mut Self::Context,
        tasks: [Option<&mut Self::Task>; LANES],
        outcomes: &mut [Outcome; LANES],
    ) {
        let mut failures = [const { None }; LANES];
        let mut lines = [const { None }; LANES];
        for ((task, line), failure) in tasks.into_iter().zip(&mut lines).zip(&mut failures) {
            if let Some(LineTask { line: l, failure: f, .. }) = task {
                (*line, *failure) = (Some(l), Some(f));
            }
        }
        self.tracer.steps(flow, lines, outcomes, |lane, error| {
            if let Some(f) = &mut failures[lane] {
                **f = error.map(Box::new);
            }
        });
    }
    #[inline(always)]
    fn prefetch(&self, flow: &mut Self::Context, task: &Self::Task) {
        self.tracer.prefetch(flow, &task.line);
    }
    #[inline(always)]
    fn bytes(&self, task: &Self::Task) -> usize {
        let held = T::bytes(&task.line);
        // Its growth within a window is charged from the beginning. For thousands of tasks a later charge would be too
        // much.
        if T::WINDOWED {
            held.max(self.memory.line_bytes as usize) + OF_TASK as usize
        } else {
            held
        }
    }
    /// Its halves are joined into new arrays, and these are split by fields after the halves are freed.
    fn finishing(&self, task: &Self::Task) -> usize {
        // A state to save is held beside them, with a copy of the line.
        T::bytes(&task.line) * if self.saves { 4 } else { 1 }
    }
    fn finish(&self, mut task: Self::Task) -> Result<(), FieldError> {
        self.moved(&mut task, None);
        if let Some(e) = task.failure.as_deref().and_then(|e| too_large(self.pager, e)) {
            return Err(e);
        }
        let mut state = Saver::default();
        let line = task.line;
        if self.saves {
            self.tracer.save(&line, &mut state);
        }
        let j = T::join(line);
        let lines = cut(self.layout, task.number, self.moment, &j);
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(states) = &mut sink.state {
            states.add(task.number, &state.0).map_err(FieldError::from)?;
        }
        sink.take(&j, &lines, !task.first, task.failure.map(|e| *e)).map_err(FieldError::from)
    }
}

impl<T: Tracer> Windowed for Tracing<'_, T> {
    const WINDOWED: bool = T::WINDOWED;
    #[inline(always)]
    fn window(&self, task: &Self::Task) -> u32 {
        T::window(&task.line)
    }
    fn place(&self, task: &Self::Task) -> Option<u64> {
        T::place(&task.line).map(|cell| self.zones.curve_key(cell))
    }
    fn waiting(&self, limit: u64) -> (usize, usize) {
        if !self.goes_through_time() {
            return (usize::MAX, usize::MAX);
        }
        // Bounds the places by the pages that they use. A place usually takes a page of each array and one of their
        // neighbours: a quarter of the largest step. If memory is short, places may fill an eighth of it. 10,000
        // particles:
        //
        // | limit | share of memory | wait | read |
        // |---|---|---|---|
        // | 32 MiB | a twelfth | 1.78 s | 2.12 GiB |
        // | 32 MiB | an eighth | 1.57 s | 2.12 GiB |
        // | 32 MiB | a sixth | 1.44 s | 2.16 GiB |
        //
        // If memory is not short, places may fill a quarter: at 64 MiB the wait fell from 0.28 to 0.07 s.
        let places = if self.nearly.load(Relaxed) { limit } else { limit / 2 } / self.step_bytes.max(1);
        (self.most_waiting(limit), usize::try_from(places).unwrap_or(usize::MAX).clamp(2 * self.workers, MOST_PLACES))
    }
    fn turned(
        &self,
        flow: &mut Self::Context,
        lane: usize,
        task: &mut Self::Task,
        ahead: &mut Vec<ZonePage>,
    ) -> Result<(), FieldError> {
        let line = &mut task.line;
        if self.nearly.load(Relaxed) {
            self.tracer.ahead(flow, lane, line, ahead);
        }
        let at = T::place(line).map(|cell| (T::window(line), cell));
        // A saved state holds the line so far, and lines for each moment are made of the whole line.
        let keeps = self.saves || !self.layout.moments.is_one_line();
        let piece = if keeps { None } else { T::drain(line, self.memory.together) };
        self.moved(task, at);
        let Some(piece) = piece else { return Ok(()) };
        let first = core::mem::replace(&mut task.first, false);
        let lines = cut(self.layout, task.number, self.moment, &piece);
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.extend(&piece, &lines, first).map_err(FieldError::from)
    }
    fn of_page(&self, window: u32, page: ZonePage, pages: &mut Vec<PageId>) {
        self.prediction.wants(window, page);
        self.tracer.of_page(window, page, pages);
    }
    fn record_bytes(&self) -> usize {
        self.memory.record_bytes
    }
    fn put_away(&self, task: &Self::Task, to: &mut Vec<u8>) -> bool {
        to.push(u8::from(task.first));
        let mut saver = Saver(core::mem::take(to));
        let done = task.failure.is_none() && T::put_away(&task.line, &mut saver);
        *to = saver.0;
        done
    }
    fn take_up(&self, n: u64, from: &[u8]) -> Option<Self::Task> {
        let (first, state) = from.split_first()?;
        let line = self.tracer.take_up(state)?;
        let at = T::place(&line).map(|cell| (T::window(&line), cell));
        Some(LineTask { number: self.seed_of(n), line, failure: None, first: *first == 1, at })
    }
    fn prefetch_away(&self, flow: &mut Self::Context, window: u32, from: &[u8]) {
        if let Some((_first, state)) = from.split_first() {
            self.tracer.prefetch_away(flow, window, state);
        }
    }
    fn passed(&self, window: u32) -> Vec<PageId> {
        let now = self.pager.now();
        let since = self.since.swap(now, Relaxed);
        self.pager.keep_used_since(since);
        let evicted = self.pager.evictions();
        let lost = evicted.saturating_sub(self.evicted.swap(evicted, Relaxed));
        let roomy = lost == 0;
        self.roomy.store(roomy, Relaxed);
        self.nearly.store(lost.saturating_mul(NEARLY_SHARE) <= now.saturating_sub(since), Relaxed);
        self.window.store(window, Relaxed);
        self.pager.drop_stale_hints();
        if !self.holds.load(Relaxed) {
            self.page_users.passed(window, !roomy);
        }
        let (arrays, steps) = self.tracer.passed(window);
        if !steps.is_empty() {
            self.pager.give_back_segments(arrays, steps);
        }
        let mut pages = Vec::new();
        self.tracer.after(window, &self.prediction.passed(window, roomy), &mut pages);
        pages.truncate((self.pager.ledger().limit() / 16 / OF_REQUEST) as usize);
        pages
    }
}

impl<T: Tracer> Budgeted for Tracing<'_, T> {
    fn resized(&self, limit: u64, _active: usize) -> Result<usize, FieldError> {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.spool.set_budget(results_budget(limit)).map_err(FieldError::from)?;
        let holds = self.whole_step.saturating_mul(3) <= limit / 2;
        match (self.holds.swap(holds, Relaxed), holds) {
            (false, true) => self.page_users.stop(),
            (true, false) => self.page_users.begin(self.window.load(Relaxed)),
            _ => {}
        }
        Ok(self.most_active(limit))
    }
}

impl<T: Tracer> Tracing<'_, T> {
    fn seed_of(&self, n: u64) -> u64 {
        self.sorted.as_ref().map_or(n, |order| order.get(n))
    }

    /// A line has entered another window, or is done.
    fn moved(&self, task: &mut LineTask<T::Line>, to: Option<(u32, CellId)>) {
        if !self.goes_through_time() {
            return;
        }
        let (mut left, from) = (Vec::new(), core::mem::replace(&mut task.at, to));
        self.page_users.moved(self.zones, from, to, &mut left);
        let Some((window, _)) = from else { return };
        if left.is_empty() || self.roomy.load(Relaxed) || window != self.window.load(Relaxed) {
            return;
        }
        let mut pages = [Vec::new(), Vec::new()];
        left.into_iter().for_each(|page| self.tracer.left(window, page, &mut pages));
        // Lines reverse their order in the next window: pages left first are used last.
        for (pages, again) in pages.iter().zip([Reuse::Never, Reuse::Last]) {
            if !pages.is_empty() {
                self.pager.hint_evict(pages, again);
            }
        }
    }

    fn goes_through_time(&self) -> bool {
        T::WINDOWED && self.tracer.windows() > 1
    }

    /// Lines through time that may wait for pages amid a step. One part in 32 of the memory is for the state that they
    /// hold then.
    fn most_waiting(&self, limit: u64) -> usize {
        let most = limit / 32 / self.memory.under_way_bytes.max(1);
        usize::try_from(most).unwrap_or(usize::MAX).max(2 * self.workers)
    }

    /// Most lines under way. Lines through time hold less than a third of the memory. With half of it, 10,000 particles
    /// read 7.4 GB at 16 MiB, and 0.7 in two batches.
    pub(crate) fn most_active(&self, limit: u64) -> usize {
        if self.goes_through_time() {
            let each = if self.memory.record_bytes > 0 {
                (self.memory.record_bytes + OF_RECORD) as u64
            } else {
                self.memory.line_bytes + OF_TASK
            };
            let steps = self.most_waiting(limit) as u64 * self.memory.under_way_bytes;
            let most = of_states(limit).saturating_sub(steps) / each;
            return usize::try_from(most).unwrap_or(usize::MAX).max(2 * self.workers);
        }
        active_lines(limit, self.step_bytes, self.memory.line_bytes, self.workers, self.pager.readers())
    }
}

pub(crate) fn of_states(limit: u64) -> u64 {
    limit / 16 * 5
}

/// Memory nearly held the pages of a window if at most one page in this many published ones was evicted.
const NEARLY_SHARE: u64 = 8;

/// Most places at which lines through time wait for pages. Their reads keep any device busy.
const MOST_PLACES: usize = 1024;

/// Bytes of a requested page in the pager's lists, until it arrives.
const OF_REQUEST: u64 = 256;
