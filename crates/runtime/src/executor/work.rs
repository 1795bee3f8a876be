//! What the executor is told, and tells.

use crate::last_use::ZonePage;
use field::error::FieldError;
use field::locator::LANES;
use kernels::streamline::StepProgress;
use pager::{PageId, Worker};
use std::time::Instant;

/// A kind of task: what all need. Most kinds need no more, and say so by empty [`Windowed`] and [`Budgeted`].
pub trait Work: Sync {
    /// The task.
    type Task: Send + 'static;
    /// What a thread needs to step tasks.
    type Context;
    /// Makes the context of a thread, counted from 0.
    fn context(&self, thread: usize, worker: Worker) -> Self::Context;
    /// The pager's part of a context.
    fn worker<'c>(&self, context: &'c mut Self::Context) -> &'c mut Worker;
    /// Makes task number `n` in the order of admission.
    ///
    /// # Errors
    /// Anything; it ends the run.
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError>;
    /// One restartable step of each task that is there; what came of it goes to the outcome of the same number, whose `missing`
    /// is empty before.
    fn steps(
        &self,
        context: &mut Self::Context,
        tasks: [Option<&mut Self::Task>; LANES],
        outcomes: &mut [Outcome; LANES],
    );
    /// Asks the processor to load what the next step of a task will read, while others are stepped.
    fn prefetch(&self, _context: &mut Self::Context, _task: &Self::Task) {}
    /// Whether tasks are charged after each step, since one may take megabytes; else now and then.
    const EACH_STEP: bool = false;
    /// Bytes that a task holds now, and with the next step at most where it is charged after each.
    fn bytes(&self, task: &Self::Task) -> usize;
    /// Bytes that [`Work::finish`] takes for a moment beside what the task holds.
    fn finishing(&self, _task: &Self::Task) -> usize {
        0
    }
    /// Takes a finished task's result.
    ///
    /// # Errors
    /// Anything; it ends the run.
    fn finish(&self, task: Self::Task) -> Result<(), FieldError>;
}

/// What tasks need that go through time, window by window. Left empty they do not.
pub trait Windowed: Work {
    /// Whether tasks go through time, and are in the window that [`Windowed::window`] says.
    const WINDOWED: bool = false;
    /// The window that a task is in, counted from 0 in the order of the run; it never falls.
    fn window(&self, _task: &Self::Task) -> u32 {
        0
    }
    /// Where in the data a task is, if that is known: tasks at places that are near each other read the same pages, those whose places
    /// differ in the lowest twelve bits alone mostly the very same.
    fn place(&self, _task: &Self::Task) -> Option<u64> {
        None
    }
    /// How many tasks may wait for pages under a limit, and at how many places, so that what comes for them is not evicted before they
    /// have used it.
    fn waiting(&self, _limit: u64) -> (usize, usize) {
        (usize::MAX, usize::MAX)
    }
    /// A task has come to another window and waits until it is its turn there: hands over what it need not keep, and adds the pages of
    /// points that it will likely want to `ahead`.
    ///
    /// # Errors
    /// Anything; it ends the run.
    fn turned(
        &self,
        _context: &mut Self::Context,
        _lane: usize,
        _task: &mut Self::Task,
        _ahead: &mut Vec<ZonePage>,
    ) -> Result<(), FieldError> {
        Ok(())
    }
    /// Adds what tasks read of a page of points in a window.
    fn of_page(&self, _window: u32, _page: ZonePage, _pages: &mut Vec<PageId>) {}
    /// No task is in a window before this one, and none will be, unless all begin again. Says which pages to read ahead.
    fn passed(&self, _window: u32) -> Vec<PageId> {
        Vec::new()
    }
    /// Bytes of a task that is packed while it waits for its turn; 0 where none is.
    fn record_bytes(&self) -> usize {
        0
    }
    /// Adds what [`Windowed::take_up`] makes the task of; false if it cannot be packed as it is now.
    fn put_away(&self, _task: &Self::Task, _to: &mut Vec<u8>) -> bool {
        false
    }
    /// The task of this number that was packed as the first of these bytes.
    fn take_up(&self, _n: u64, _from: &[u8]) -> Option<Self::Task> {
        None
    }
    /// Has the processor load what the next step of a task reads that was packed as the first of these bytes, in a window.
    fn prefetch_away(&self, _context: &mut Self::Context, _window: u32, _from: &[u8]) {}
}

/// What work needs that keeps to a limit or a time of its own. Left empty it has none.
pub trait Budgeted: Work {
    /// The memory limit is `limit` bytes now (told at the beginning, too): gives back what is too much under it, and says how many
    /// tasks may be active at most.
    ///
    /// # Errors
    /// Anything; it ends the run.
    fn resized(&self, _limit: u64, active: usize) -> Result<usize, FieldError> {
        Ok(active)
    }
    /// Of tasks that go on within a step ([`Outcome::moved`]), how many pages the elder holds at most, unless those that it asked for since
    /// it last went on are more: a tile of rays comes to more than fit. 0: what came before that is forgotten, and it begins anew.
    fn holds(&self) -> usize {
        0
    }
    /// How many tasks that follow each other a thread begins, and goes on with itself, since they share what it keeps for itself. With 1
    /// threads take whatever is next, so that all are at work in one place and share its pages.
    fn in_runs(&self) -> u64 {
        1
    }
    /// When the run is to end, whether or not all tasks are done: it is then interrupted.
    fn until(&self) -> Option<Instant> {
        None
    }
}

/// What came of a step.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How far the task is.
    pub progress: StepProgress,
    /// Pages found absent, where that is why.
    pub missing: Vec<PageId>,
    /// It went on before it found pages absent: what it had waited for is behind it, and need not all be held for it. A tile of rays comes to
    /// all pages that any of them comes to.
    pub moved: bool,
}

/// How much may be under way.
#[derive(Copy, Clone, Debug)]
pub struct RunLoad {
    /// Number of tasks.
    pub tasks: u64,
    /// Threads.
    pub workers: usize,
    /// Tasks active at most, unless [`Budgeted::resized`] says otherwise.
    pub active: usize,
}

/// What a run took.
#[derive(Copy, Clone, Debug, Default)]
pub struct RunStats {
    /// Wall time.
    pub wall_s: f64,
    /// Time in which threads had nothing to do, a thread.
    pub wait_s: f64,
    /// Steps that found pages absent.
    pub restarts: u64,
    /// Times that a task became the elder.
    pub elders: u64,
    /// Tasks that were dropped for lack of memory and begun again.
    pub dropped: u64,
    /// Steps.
    pub steps: u64,
}

impl RunStats {
    /// With those of a run after it.
    pub fn add(&mut self, next: &Self) {
        self.wall_s += next.wall_s;
        self.wait_s += next.wait_s;
        self.restarts += next.restarts;
        self.elders += next.elders;
        self.dropped += next.dropped;
        self.steps += next.steps;
    }
}
