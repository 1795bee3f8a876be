//! How many tasks may be active, and which is the next that begins.

use super::unstarted::Unstarted;

#[derive(Debug)]
pub(crate) struct Admission {
    /// Those that never began.
    unstarted: Unstarted,
    /// Numbers of tasks that were dropped.
    again: Vec<u64>,
    /// 1. Tasks that hold memory. One leaves the count after its memory was freed, so that who finds itself alone is.
    active: usize,
    /// Tasks active at most, now.
    allowed: usize,
    /// What the work allows at this limit.
    most: usize,
    /// Tasks that have finished since `allowed` was last changed.
    since: usize,
}

impl Admission {
    pub(crate) fn new(unstarted: Unstarted, most: usize) -> Self {
        Self { unstarted, again: Vec::new(), active: 0, allowed: most, most, since: 0 }
    }

    pub(crate) fn active(&self) -> usize {
        self.active
    }

    /// The number of a task that begins now on a thread, if there is room for one and one is left. Those that were dropped go first.
    pub(crate) fn begin(&mut self, thread: usize) -> Option<u64> {
        if self.active >= self.allowed {
            return None;
        }
        let number = self.again.pop().or_else(|| self.unstarted.next(thread))?;
        self.active += 1;
        Some(number)
    }

    /// A task has finished. One more is allowed when as many have as were allowed: memory may have been short for a moment only, and
    /// what is dropped is paid for by what was done.
    pub(crate) fn finished(&mut self) {
        self.active -= 1;
        self.since += 1;
        if self.since >= self.allowed && self.allowed < self.most {
            (self.allowed, self.since) = (self.allowed + 1, 0);
        }
    }

    /// Memory did not do for as many as there were: these begin again, and from now on no more are active than are left.
    pub(crate) fn freed(&mut self, numbers: impl ExactSizeIterator<Item = u64>) {
        self.active -= numbers.len();
        self.again.extend(numbers);
        (self.allowed, self.since) = (self.allowed.min(self.active.max(1)), 0);
    }

    /// The work allows so many. Says how many are too many.
    pub(crate) fn allow(&mut self, most: usize) -> usize {
        let most = most.max(1);
        (self.allowed, self.most, self.since) = (most, most, 0);
        self.active.saturating_sub(most)
    }
}
