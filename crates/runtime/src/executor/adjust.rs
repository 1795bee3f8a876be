//! What changes while a thread steps tasks: the memory limit, and the window that the run has come to.

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

    /// Opens the window that the run has come to, unless that was done. False while another thread does, or when it fails.
    pub(super) fn opened(&mut self) -> bool {
        let s = self.shared;
        let window = s.lock().ready.earliest();
        if s.opened.load(SeqCst) > window {
            return true;
        }
        // No task is in it yet but those that wait to be taken: all other threads are idle, or on their way here.
        let Ok(_opens) = s.opens.try_lock() else { return false };
        while s.opened.load(SeqCst) <= window {
            if let Err(e) = self.work.open(s.opened.load(SeqCst)) {
                s.fail(e);
                return false;
            }
            s.opened.fetch_add(1, SeqCst);
        }
        s.pager.notify();
        true
    }
}
