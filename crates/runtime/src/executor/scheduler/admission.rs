//! How many tasks may be active, and which begins next.

use super::unstarted::Unstarted;

#[derive(Debug)]
pub(crate) struct Admission {
    unstarted: Unstarted,
    /// Numbers of tasks that were dropped.
    again: Vec<u64>,
    /// 1. Tasks that hold memory. One is subtracted after its memory was freed, so a task that is alone by this count
    ///    is alone.
    active: usize,
    /// Most active tasks now.
    allowed: usize,
    /// Most that the work allows under this limit.
    most: usize,
    /// Tasks finished since `allowed` was last changed.
    since: usize,
}

impl Admission {
    pub(crate) fn new(unstarted: Unstarted, most: usize) -> Self {
        Self { unstarted, again: Vec::new(), active: 0, allowed: most, most, since: 0 }
    }

    pub(crate) fn active(&self) -> usize {
        self.active
    }

    /// The number of a task that begins now on a thread, if there is room for one and one is left. Dropped ones go
    /// first.
    pub(crate) fn begin(&mut self, thread: usize) -> Option<u64> {
        if self.active >= self.allowed {
            return None;
        }
        let number = self.again.pop().or_else(|| self.unstarted.next(thread))?;
        self.active += 1;
        Some(number)
    }

    /// A task has finished. One more is allowed when as many have finished as were allowed. Memory may have been short
    /// for a moment only, and finished work pays for drops.
    pub(crate) fn finished(&mut self) {
        self.active -= 1;
        self.since += 1;
        if self.since >= self.allowed && self.allowed < self.most {
            (self.allowed, self.since) = (self.allowed + 1, 0);
        }
    }

    /// Memory did not hold all active tasks. The dropped ones begin again, and no more are active than remain.
    pub(crate) fn freed(&mut self, numbers: impl ExactSizeIterator<Item = u64>) {
        self.active -= numbers.len();
        self.again.extend(numbers);
        (self.allowed, self.since) = (self.allowed.min(self.active.max(1)), 0);
    }

    /// The work allows `most`. Returns the excess.
    pub(crate) fn allow(&mut self, most: usize) -> usize {
        let most = most.max(1);
        (self.allowed, self.most, self.since) = (most, most, 0);
        self.active.saturating_sub(most)
    }
}
