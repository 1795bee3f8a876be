//! Pages that no line uses any more in the earliest window of a run through time. Where memory is short, pages of the
//! time step behind are given back at once, before the run has passed the window.

use field::domain::Domains;
use field::shape::DomainCell;
use pager::PageHash;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A page of a zone's points.
pub type ZonePage = (u32, u64);

/// No line has been this many windows after the run's. It gets at most one window ahead, and then enters one more. next
/// then.
const BEYOND: u32 = 3;

/// Consecutive windows that fit into memory before counting stops. A run whose memory is short now and then goes on
/// counting.
const ROOMY: u32 = 8;

/// Counts the lines at each page. A line counts at the pages of the cell in which it entered its window. It may reach
/// others before it leaves the window. So the count is a hint, and a wrong one costs a read.
#[derive(Default)]
pub struct PageUsers {
    lines: Mutex<HashMap<(u32, ZonePage), u32, PageHash>>,
    /// 1. Lines count in windows from this one on. No line had entered these when counting began, so all lines count
    ///    there. `u32::MAX`: memory holds the pages of a window, and lines are not counted.
    since: AtomicU32,
    /// Windows since memory was last short.
    roomy: AtomicU32,
}

impl PageUsers {
    fn lines(&self) -> MutexGuard<'_, HashMap<(u32, ZonePage), u32, PageHash>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run has come to `window`. Counts of the windows before are deleted: they are of dropped lines. At window 0
    /// all lines begin again. `short`: pages were evicted in the window before.
    pub fn passed(&self, window: u32, short: bool) {
        if short {
            self.begin(window);
        } else if self.roomy.fetch_add(1, Relaxed) >= ROOMY {
            self.stop();
        }
        if self.since.load(Relaxed) == u32::MAX {
            return;
        }
        if window == 0 {
            self.since.store(0, Relaxed);
        }
        self.lines().retain(|(of, _), _| *of >= window && window > 0);
    }

    /// Begins to count, if lines are not counted: from the first window that no line has entered.
    pub fn begin(&self, window: u32) {
        self.roomy.store(0, Relaxed);
        // Of two threads that come here one window apart, the first sets the window.
        let from = |since| (since == u32::MAX).then_some(window.saturating_add(BEYOND));
        let _begun = self.since.fetch_update(Relaxed, Relaxed, from);
    }

    /// Stops counting.
    pub fn stop(&self) {
        if self.since.swap(u32::MAX, Relaxed) != u32::MAX {
            self.lines().clear();
        }
    }

    pub(crate) fn counts(&self, window: u32) -> bool {
        window >= self.since.load(Relaxed)
    }

    /// A line moved from a cell in one window to another cell in another window. Pages that it was the last to leave
    /// are added to `left`.
    pub fn moved<D: Domains + ?Sized>(
        &self,
        domains: &D,
        from: Option<(u32, D::Cell)>,
        to: Option<(u32, D::Cell)>,
        left: &mut Vec<ZonePage>,
    ) {
        let counted = |at: Option<(u32, D::Cell)>| at.filter(|(window, _)| self.counts(*window));
        let (from, to) = (counted(from), counted(to));
        if from.is_none() && to.is_none() {
            return;
        }
        let mut lines = self.lines();
        for ((window, cell), arrives) in to.map(|at| (at, true)).into_iter().chain(from.map(|at| (at, false))) {
            domains.pages_of(cell, |page| {
                let key = (window, (cell.domain(), page));
                if arrives {
                    *lines.entry(key).or_insert(0) += 1;
                } else if let Some(n) = lines.get_mut(&key) {
                    *n -= 1;
                    if *n == 0 {
                        lines.remove(&key);
                        left.push((cell.domain(), page));
                    }
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use field::locator::CellId;
    use field::nodes::Zone;
    use field::translate::Translation;

    fn one_zone(dims: [usize; 3], page: [usize; 3]) -> Zone {
        let translation = Translation::new(dims, page);
        let (name, arrays, boxes) = ("zone1".into(), Vec::new(), Vec::new());
        Zone { name, translation, arrays, xyz: 0, iblank: None, boxes, uniform: None }
    }

    #[test]
    fn the_last_to_leave_a_page_says_so() {
        // Pages of 4 points: the cell at 3 lies in two of them along i.
        let zones = [one_zone([8, 4, 4], [4, 4, 4])];
        let cell = |i| CellId { zone: 0, ijk: [i, 0, 0] };
        let (leaving, mut left) = (PageUsers::default(), Vec::new());
        leaving.moved(&zones[..], None, Some((1, cell(3))), &mut left);
        leaving.moved(&zones[..], None, Some((1, cell(1))), &mut left);
        assert!(left.is_empty());
        leaving.moved(&zones[..], Some((1, cell(3))), Some((2, cell(5))), &mut left);
        assert_eq!(
            left,
            [(0, 1)],
            "another is still at page 0, and who came to page 1 in the next window does not count"
        );
        left.clear();
        leaving.moved(&zones[..], Some((1, cell(1))), None, &mut left);
        assert_eq!(left, [(0, 0)]);
        // A dropped line never leaves.
        left.clear();
        leaving.moved(&zones[..], None, Some((2, cell(1))), &mut left);
        leaving.passed(3, true);
        leaving.moved(&zones[..], Some((2, cell(1))), Some((3, cell(1))), &mut left);
        assert!(left.is_empty());
        leaving.moved(&zones[..], Some((3, cell(1))), None, &mut left);
        assert_eq!(left, [(0, 0)]);
    }

    #[test]
    fn where_memory_holds_all_nothing_is_counted_and_later_only_windows_that_nobody_was_in() {
        let zones = [one_zone([8, 4, 4], [4, 4, 4])];
        let cell = |i| CellId { zone: 0, ijk: [i, 0, 0] };
        let (leaving, mut left) = (PageUsers::default(), Vec::new());
        leaving.moved(&zones[..], None, Some((1, cell(1))), &mut left);
        (1..=ROOMY + 1).for_each(|window| leaving.passed(window, false));
        assert!(leaving.lines().is_empty() && !leaving.counts(100));
        leaving.passed(20, true);
        assert!(!leaving.counts(20 + BEYOND - 1) && leaving.counts(20 + BEYOND));
        // The first of these lines came before counting began.
        leaving.moved(&zones[..], Some((21, cell(1))), Some((23, cell(1))), &mut left);
        leaving.passed(21, true);
        leaving.moved(&zones[..], Some((22, cell(1))), Some((23, cell(1))), &mut left);
        assert!(left.is_empty());
        leaving.moved(&zones[..], Some((23, cell(1))), Some((24, cell(1))), &mut left);
        assert!(left.is_empty());
        leaving.moved(&zones[..], Some((23, cell(1))), None, &mut left);
        assert_eq!(left, [(0, 0)]);
        // All lines begin again.
        leaving.passed(0, true);
        assert!(leaving.counts(0) && leaving.lines().is_empty());
    }
}
