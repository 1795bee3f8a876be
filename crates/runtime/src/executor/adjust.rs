//! What changes while a thread steps tasks: the memory limit.

use super::work::Work;
use super::Thread;
use std::sync::atomic::Ordering::*;

impl<W: Work> Thread<'_, W>
where
    W::Task: 'static,
{
    /// Takes note of a memory limit that has changed.
    pub(super) fn follow(&mut self) {
        let s = self.shared;
        let now = || s.pager.ledger().limit();
        if s.limit.load(Relaxed) == now() {
            return;
        }
        // One thread at a time, so that the work hears the last limit last.
        let Ok(_judge) = s.judge.try_lock() else { return };
        let limit = now();
        if s.limit.swap(limit, SeqCst) == limit {
            return;
        }
        // Those that go for a lower limit are found among all that no thread steps.
        self.let_go();
        match self.work.resized(limit, self.load.active) {
            Ok(most) => s.allow(most, self.work.waiting(limit)),
            Err(e) => s.fail(e),
        }
    }
}
