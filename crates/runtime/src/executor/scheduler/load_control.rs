//! How many tasks may wait for pages at a time: as many as are asked for, as the limit has room for, and by whether their pages are still
//! there when they go on.
//!
//! # Theory
//! Where more tasks are under way than memory has room for what they stand on, a page that came for one goes for another before
//! the first has used it, and both ask again: thrashing (Denning, "Thrashing: its causes and prevention", 1968). How much room a task
//! takes cannot be said beforehand (a step of a line with a derived field stands on one page or on sixty), but that a task asks for a
//! page that it has already asked for in the same step says it as it happens. The answer is the one of networks: less by a factor
//! where it shows, more by one while it does not (Chiu and Jain 1989).
//!
//! # Practice
//! [`Crowding`] is for runs without windows; those through time wait by places ([`crate::executor::Windowed::waiting`]).

/// How many times fewer tasks wait when pages were asked for in vain. With 2/3 of them left and a patience of 4, 300 streamlines with
/// vorticity in a sixteenth of what they touch read 60,000 to 132,000 pages, with these 55,000 to 57,000; without load control 166,000 to
/// 543,000. Other runs read as much as before.
const FEWER: usize = 2;
/// So many waits of each task that may wait have to go well before one more may.
const PATIENCE: usize = 16;

/// Bounds of how many tasks wait for pages.
#[derive(Debug)]
pub(crate) struct LoadControl {
    /// Tasks by the present limit, and places at which they wait, at most.
    fitting: (usize, usize),
    /// And by how it goes.
    crowding: Crowding,
}

impl LoadControl {
    pub(crate) fn new() -> Self {
        Self { fitting: (usize::MAX, usize::MAX), crowding: Crowding::new() }
    }

    /// So many tasks, and at so many places, may wait from now on.
    pub(crate) fn may_wait(&mut self, (tasks, places): (usize, usize)) {
        self.fitting = (tasks.max(1), places.max(1));
    }

    /// What was found of one limit says nothing of another.
    pub(crate) fn forget(&mut self) {
        self.crowding = Crowding::new();
    }

    /// Tasks that may wait, however it goes.
    pub(crate) fn most(&self) -> usize {
        self.fitting.0
    }

    /// Whether as many tasks, or at as many places, wait as may.
    pub(crate) fn is_enough(&self, (tasks, places): (usize, usize)) -> bool {
        tasks >= self.most().min(self.crowding.most()) || places >= self.fitting.1
    }

    /// Whether fewer may wait than would if all went well.
    pub(crate) fn is_short(&self) -> bool {
        self.crowding.is_short()
    }

    /// A task waits for the first time in a step: the one before was made.
    pub(crate) fn went_well(&mut self) {
        self.crowding.went_well();
    }

    /// A task waits once more for a page that it has already waited for, while `waiting` do, it and others; `woken` are about to go on.
    pub(crate) fn in_vain(&mut self, waiting: usize, woken: usize) {
        self.crowding.in_vain(waiting, woken);
    }
}

#[derive(Debug)]
struct Crowding {
    most: usize,
    /// Waits that were begun before `most` was last lowered: what comes of them says nothing of it.
    settling: usize,
    well: usize,
}

impl Crowding {
    fn new() -> Self {
        Self { most: usize::MAX, settling: 0, well: 0 }
    }

    /// Tasks that may wait before any other goes on. Those that threads have in hand may come to wait all the same.
    fn most(&self) -> usize {
        self.most
    }

    /// Whether fewer may wait than would if all went well.
    fn is_short(&self) -> bool {
        self.most < usize::MAX
    }

    /// A task waits for the first time in a step: the one before was made.
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

    /// A task waits once more for a page that it has already waited for, while `waiting` do, it and others; `woken` are about to go on.
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
        // Those that waited then, or were about to go on, say nothing new.
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
