//! Windows of active tasks, and whether others may begin: the progress of a run through time.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(crate) struct ActiveWindows {
    /// 1. Number of active tasks in each window, wherever they are. Every window of an active task is a key.
    active: BTreeMap<u32, usize>,
    windowed: bool,
    /// 2. Tasks through time begin in batches. While a batch is open, tasks begin in the first window, and no window is
    ///    passed. Then none begins until the batch has finished: a later one would need the first time steps again.
    open: bool,
    /// The earliest window last returned by [`Self::passed`].
    told: u32,
}

impl ActiveWindows {
    pub(crate) fn new(windowed: bool) -> Self {
        Self { active: BTreeMap::new(), windowed, open: true, told: 0 }
    }

    /// The earliest window of an active task, or of one that may begin.
    pub(crate) fn earliest(&self) -> u32 {
        let first = self.active.first_key_value().filter(|_| !self.open);
        first.map_or(0, |(window, _)| *window)
    }

    /// Whether the batch takes more tasks. Always in a run without windows.
    pub(crate) fn is_open(&self) -> bool {
        !self.windowed || self.open
    }

    /// No more tasks begin for now: none are left, or there is no room.
    pub(crate) fn close(&mut self) {
        self.open &= !self.windowed || self.active.is_empty();
    }

    pub(crate) fn began(&mut self) {
        *self.active.entry(0).or_insert(0) += 1;
    }

    pub(crate) fn ended(&mut self, window: u32) {
        if let Some(n) = self.active.get_mut(&window) {
            *n -= 1;
            if *n == 0 {
                self.active.remove(&window);
            }
        }
        self.open |= self.active.is_empty();
    }

    pub(crate) fn turned(&mut self, from: u32, to: u32) {
        *self.active.entry(to).or_insert(0) += 1;
        self.ended(from);
    }

    /// The earliest window, if it has changed since the last call.
    pub(crate) fn passed(&mut self) -> Option<u32> {
        let earliest = self.earliest();
        (core::mem::replace(&mut self.told, earliest) != earliest).then_some(earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_passed_when_the_batch_is_closed_and_the_last_has_left() {
        let mut windows = ActiveWindows::new(true);
        (0..2).for_each(|_| windows.began());
        windows.turned(0, 1);
        assert_eq!((windows.is_open(), windows.passed()), (true, None), "one may begin in the first window");
        windows.close();
        assert!(!windows.is_open());
        assert_eq!((windows.earliest(), windows.passed()), (0, None));
        windows.turned(0, 2);
        assert_eq!((windows.passed(), windows.passed()), (Some(1), None));
        windows.ended(1);
        assert_eq!(windows.passed(), Some(2));
        windows.ended(2);
        assert!(windows.is_open(), "the next batch");
        assert_eq!(windows.passed(), Some(0));
    }

    #[test]
    fn a_batch_without_tasks_stays_open() {
        let mut windows = ActiveWindows::new(true);
        windows.close();
        assert!(windows.is_open());
        let mut without = ActiveWindows::new(false);
        without.began();
        without.close();
        assert!(without.is_open());
    }
}
