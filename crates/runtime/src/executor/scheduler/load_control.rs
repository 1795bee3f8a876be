//! How many tasks may wait for pages at a time: bounds from the limit, and from whether pages are still resident at
//! their use.
//!
//! # Theory
//! If more tasks are active than memory has room for, one task's page is evicted for another's before its first use.
//! Then both request theirs again: thrashing (Denning, "Thrashing: its causes and prevention", 1968). The need of a
//! step is not known before: a step of a line with a derived field may use one page or sixty. But a task that requests
//! a page twice in one step shows thrashing as it happens. The answer is that of networks: fewer by a factor when it
//! shows, a few more while it does not (Chiu and Jain 1989).
//!
//! # Practice
//! [`Crowding`] is for runs without windows. Tasks through time are bounded by places
//! ([`crate::executor::Windowed::waiting`]).

/// Divisor of the number of waiting tasks after pages were requested in vain. Pages read by 300 streamlines with
/// vorticity, in a sixteenth of what they touch:
///
/// | load control | pages |
/// |---|---|
/// | 2/3 remain, patience 4 | 60,000 to 132,000 |
/// | these values | 55,000 to 57,000 |
/// | none | 166,000 to 543,000 |
///
/// Other runs read as much as before.
const FEWER: usize = 2;
/// Successful waits of each task that may wait, before more may.
const PATIENCE: usize = 16;

#[derive(Debug)]
pub(crate) struct LoadControl {
    /// Most tasks and places by the present limit.
    fitting: (usize, usize),
    /// The bound by experience.
    crowding: Crowding,
}

impl LoadControl {
    pub(crate) fn new() -> Self {
        Self { fitting: (usize::MAX, usize::MAX), crowding: Crowding::new() }
    }

    /// Sets how many tasks may wait, and at how many places.
    pub(crate) fn may_wait(&mut self, (tasks, places): (usize, usize)) {
        self.fitting = (tasks.max(1), places.max(1));
    }

    /// Forgets the experience with the limit before.
    pub(crate) fn forget(&mut self) {
        self.crowding = Crowding::new();
    }

    /// Most waiting tasks by the limit alone.
    pub(crate) fn most(&self) -> usize {
        self.fitting.0
    }

    /// Whether as many tasks wait, or at as many places, as may.
    pub(crate) fn is_enough(&self, (tasks, places): (usize, usize)) -> bool {
        tasks >= self.most().min(self.crowding.most()) || places >= self.fitting.1
    }

    /// Whether thrashing bounds the number of waiting tasks.
    pub(crate) fn is_short(&self) -> bool {
        self.crowding.is_short()
    }

    /// A task waits for the first time in a step: the one before was made.
    pub(crate) fn went_well(&mut self) {
        self.crowding.went_well();
    }

    /// A task waits again for a page of the same step. `waiting` tasks wait, with it; `woken` ones are ready.
    pub(crate) fn in_vain(&mut self, waiting: usize, woken: usize) {
        self.crowding.in_vain(waiting, woken);
    }
}

#[derive(Debug)]
struct Crowding {
    most: usize,
    /// Waits that began before `most` was last lowered. Their results do not count.
    settling: usize,
    well: usize,
}

impl Crowding {
    fn new() -> Self {
        Self { most: usize::MAX, settling: 0, well: 0 }
    }

    /// Tasks that may wait before any other continues. Tasks that threads have may still come to wait.
    fn most(&self) -> usize {
        self.most
    }

    fn is_short(&self) -> bool {
        self.most < usize::MAX
    }

    fn went_well(&mut self) {
        self.settling = self.settling.saturating_sub(1);
        if !self.is_short() {
            return;
        }
        self.well += 1;
        if self.well >= PATIENCE.saturating_mul(self.most) {
            (self.most, self.well) = (self.most + 1 + self.most / 8, 0);
        }
    }

    fn in_vain(&mut self, waiting: usize, woken: usize) {
        if self.settling > 0 {
            self.settling -= 1;
            return;
        }
        (self.most, self.well) = ((self.most.min(waiting) / FEWER).max(1), 0);
        self.settling = waiting + woken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_as_many_where_pages_are_gone_again_and_more_while_they_are_not() {
        let mut c = Crowding::new();
        (0..1000).for_each(|_| c.went_well());
        assert!(!c.is_short(), "nothing is held back before it shows");
        c.in_vain(40, 10);
        assert_eq!(c.most(), 20);
        // Tasks that waited then, or were ready, do not count.
        (0..50).for_each(|_| c.in_vain(25, 0));
        assert_eq!(c.most(), 20);
        c.in_vain(12, 0);
        assert_eq!(c.most(), 6, "of those that did wait");
        (0..12).for_each(|_| c.went_well());
        for n in 12..PATIENCE * 6 {
            assert_eq!(c.most(), 6, "{n}");
            c.went_well();
        }
        assert_eq!(c.most(), 7);
        (0..PATIENCE * (7 + 8)).for_each(|_| c.went_well());
        assert_eq!(c.most(), 10, "one more, and another for each eight");
        for _ in 0..200 {
            c.in_vain(5, 0);
        }
        assert_eq!(c.most(), 1, "one may always wait");
    }
}
