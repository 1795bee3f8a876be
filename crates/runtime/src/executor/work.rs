//! Kinds of tasks: the traits that the executor calls, and the counts that it takes and returns.

use crate::last_use::ZonePage;
use field::error::FieldError;
use field::locator::LANES;
use kernels::streamline::StepProgress;
use pager::{PageId, Worker};
use std::time::Instant;

/// A kind of task. [`Windowed`] and [`Budgeted`] may be empty for most kinds.
pub trait Work: Sync {
    /// The task.
    type Task: Send + 'static;
    /// A thread's own state for stepping tasks.
    type Context;
    /// Makes the context of a thread, numbered from 0.
    fn context(&self, thread: usize, worker: Worker) -> Self::Context;
    /// The pager's part of a context.
    fn worker<'c>(&self, context: &'c mut Self::Context) -> &'c mut Worker;
    /// Makes task number `n` in the order of admission.
    ///
    /// # Errors
    /// Anything; it ends the run.
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError>;
    /// Makes one restartable step of each present task. Its result goes to the outcome of the same index, whose
    /// `missing` is empty before.
    fn steps(
        &self,
        context: &mut Self::Context,
        tasks: [Option<&mut Self::Task>; LANES],
        outcomes: &mut [Outcome; LANES],
    );
    /// Prefetches memory for the next step of a task, while others are stepped.
    fn prefetch(&self, _context: &mut Self::Context, _task: &Self::Task) {}
    /// Whether tasks are charged after each step, because one step may take megabytes. Otherwise they are charged now
    /// and then.
    const EACH_STEP: bool = false;
    /// Bytes that a task holds now. If tasks are charged after each step, also the most that the next step adds.
    fn bytes(&self, task: &Self::Task) -> usize;
    /// Bytes that [`Work::finish`] holds for a moment beside the task's own.
    fn finishing(&self, _task: &Self::Task) -> usize {
        0
    }
    /// Receives a finished task.
    ///
    /// # Errors
    /// Anything; it ends the run.
    fn finish(&self, task: Self::Task) -> Result<(), FieldError>;
}

/// Tasks that go through time, window by window. An empty implementation: they do not.
pub trait Windowed: Work {
    /// Whether tasks go through time, and [`Windowed::window`] is their window.
    const WINDOWED: bool = false;
    /// The window of a task, counted from 0 in the order of the run. It never falls.
    fn window(&self, _task: &Self::Task) -> u32 {
        0
    }
    /// The place of a task in the data, if known. Tasks at near places read the same pages. Tasks whose places differ
    /// only in the lowest twelve bits mostly read the very same.
    fn place(&self, _task: &Self::Task) -> Option<u64> {
        None
    }
    /// How many tasks may wait for pages under a limit, and at how many places, so that their pages are not evicted
    /// before their use.
    fn waiting(&self, _limit: u64) -> (usize, usize) {
        (usize::MAX, usize::MAX)
    }
    /// A task has reached another window and waits for its turn there. It hands over data that it need not keep, and
    /// adds pages of points that it will likely use to `ahead`.
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
    /// Adds the pages that tasks read of a page of points in a window.
    fn of_page(&self, _window: u32, _page: ZonePage, _pages: &mut Vec<PageId>) {}
    /// No task is in an earlier window, and none will be unless all begin again. Returns pages to prefetch.
    fn passed(&self, _window: u32) -> Vec<PageId> {
        Vec::new()
    }
    /// Bytes of a packed task; 0 if tasks are never packed.
    fn record_bytes(&self) -> usize {
        0
    }
    /// Adds the bytes from which [`Windowed::take_up`] restores the task. False if it cannot be packed now.
    fn put_away(&self, _task: &Self::Task, _to: &mut Vec<u8>) -> bool {
        false
    }
    /// The task of this number, from the packed bytes at the start of `from`.
    fn take_up(&self, _n: u64, _from: &[u8]) -> Option<Self::Task> {
        None
    }
    /// Prefetches memory for the next step of a packed task, in a window.
    fn prefetch_away(&self, _context: &mut Self::Context, _window: u32, _from: &[u8]) {}
}

/// Work with a limit or a deadline of its own. An empty implementation: it has none.
pub trait Budgeted: Work {
    /// The memory limit is `limit` bytes, now or from the beginning. Releases memory beyond it, and returns how many
    /// tasks may be active at most.
    ///
    /// # Errors
    /// Anything; it ends the run.
    fn resized(&self, _limit: u64, active: usize) -> Result<usize, FieldError> {
        Ok(active)
    }
    /// Most pages that the elder holds of a task that makes progress within a step ([`Outcome::moved`]). Pages
    /// requested since its last progress are always held. A tile of rays needs more pages than fit. 0: pages requested
    /// before the progress are forgotten, and the count of restarts begins anew.
    fn holds(&self) -> usize {
        0
    }
    /// How many consecutive tasks a thread begins and steps itself, because they share its own state. At 1 threads take
    /// the next task, so that all compute in one place and share its pages.
    fn in_runs(&self) -> u64 {
        1
    }
    /// When the run ends, whether or not all tasks are done. It is interrupted then.
    fn until(&self) -> Option<Instant> {
        None
    }
}

/// The result of a step.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The task's progress.
    pub progress: StepProgress,
    /// Pages found absent, if the step stopped for them.
    pub missing: Vec<PageId>,
    /// It made progress before it found pages absent. Pages that it waited for earlier are behind it and need not all
    /// be held. A tile of rays needs all pages that any of its rays needs.
    pub moved: bool,
}

/// The size of a run.
#[derive(Copy, Clone, Debug)]
pub struct RunLoad {
    /// Number of tasks.
    pub tasks: u64,
    /// Threads.
    pub workers: usize,
    /// Most active tasks, unless [`Budgeted::resized`] returns another number.
    pub active: usize,
}

/// Times and counts of a run.
#[derive(Copy, Clone, Debug, Default)]
pub struct RunStats {
    /// Wall time.
    pub wall_s: f64,
    /// Time that threads were idle, on average a thread.
    pub wait_s: f64,
    /// Steps that found pages absent.
    pub restarts: u64,
    /// Times that a task became the elder.
    pub elders: u64,
    /// Tasks dropped for lack of memory.
    pub dropped: u64,
    /// Steps.
    pub steps: u64,
}

impl RunStats {
    /// Adds the counts of a later run.
    pub fn add(&mut self, next: &Self) {
        self.wall_s += next.wall_s;
        self.wait_s += next.wait_s;
        self.restarts += next.restarts;
        self.elders += next.elders;
        self.dropped += next.dropped;
        self.steps += next.steps;
    }
}
