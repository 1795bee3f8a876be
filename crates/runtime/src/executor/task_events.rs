//! Events of a thread: how long it computed, and the fate of each task in a lane. Nothing is timed without an observer.

use field::locator::LANES;
use pager::{Did, Event, Pager};

/// Microseconds of computing in one event, and a thread also sends one before it waits. An event for every task or two
/// would make some million events.
const TOLD_US: u64 = 1000;

pub(super) struct TaskEventBuffer {
    observed: bool,
    /// When each lane got its task, and the rounds made until then.
    lanes: [(u64, u64); LANES],
    rounds: u64,
    begun_us: u64,
    /// Computing time, and rounds, not recorded yet.
    untold_us: u64,
    told_rounds: u64,
}

impl TaskEventBuffer {
    pub(super) fn new(pager: &Pager) -> Self {
        let observed = pager.observed();
        Self { observed, lanes: [(0, 0); LANES], rounds: 0, begun_us: 0, untold_us: 0, told_rounds: 0 }
    }

    pub(super) fn took(&mut self, pager: &Pager, lane: usize) {
        if self.observed {
            self.lanes[lane] = (pager.now_us(), self.rounds);
        }
    }

    #[inline(always)]
    pub(super) fn round(&mut self) {
        self.rounds += 1;
    }

    pub(super) fn begin(&mut self, pager: &Pager) {
        if self.observed {
            self.begun_us = pager.now_us();
        }
    }

    pub(super) fn end(&mut self, pager: &Pager) {
        if self.observed {
            self.untold_us += pager.now_us().saturating_sub(self.begun_us);
            if self.untold_us >= TOLD_US {
                self.tell(pager);
            }
        }
    }

    /// Records the computing since the last record.
    pub(super) fn tell(&mut self, pager: &Pager) {
        if self.observed && self.rounds > self.told_rounds {
            let (took_us, steps) = (self.untold_us, self.rounds - self.told_rounds);
            pager.record(|| Event::Compute { took_us, steps });
            (self.untold_us, self.told_rounds) = (0, self.rounds);
        }
    }

    /// A lane hands on its task.
    pub(super) fn left(&self, pager: &Pager, lane: usize, task: u64, did: Did, window: u32, token: u64) {
        if self.observed {
            let (since_us, rounds) = self.lanes[lane];
            let (took_us, steps) = (pager.now_us().saturating_sub(since_us), self.rounds - rounds);
            pager.record(|| Event::Task { task, did, took_us, steps, window, token });
        }
    }

    /// The thread had nothing to do for `took_us`.
    pub(super) fn waited(&self, pager: &Pager, took_us: u64) {
        if self.observed {
            pager.record(|| Event::Wait { took_us });
        }
    }
}
