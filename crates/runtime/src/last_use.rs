//! Pages that no line is at any more in the window of a run through time that comes first: those of the time step that the run leaves
//! behind are given back at once where memory is short, before the rest of the window is through.

use field::locator::CellId;
use field::nodes::Zone;
use pager::PageHash;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A page of a zone's points.
pub type ZonePage = (u32, u64);

/// So many windows after the one that the run has come to no line has been yet: none gets more than one ahead of it, and comes into the
/// next then.
const BEYOND: u32 = 3;

/// Windows one after the other that memory holds before lines are no longer counted: where it is short now and then, they are.
const ROOMY: u32 = 8;

/// How many lines are at each page. Of a line the pages count in which the cell lies where it came into its window: it may come by others
/// before it leaves the window, so that what this says is a hint, and costs a read where it is wrong.
#[derive(Default)]
pub struct Leaving {
    lines: Mutex<HashMap<(u32, ZonePage), u32, PageHash>>,
    /// 1. Lines count in windows from this one on: all of them do then, since none had come there when counting began. `u32::MAX`
    ///    where memory holds what a window takes: nobody wants to know.
    since: AtomicU32,
    /// Windows since memory was last short.
    roomy: AtomicU32,
}

impl Leaving {
    fn lines(&self) -> MutexGuard<'_, HashMap<(u32, ZonePage), u32, PageHash>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run has come to a window: what was counted of those before it, of lines that were dropped, is no more. At the first all begin
    /// again. `short`: pages had to be evicted in the one before.
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

    /// Lines are to be counted, if they are not: from the first window on in which there is none yet.
    pub fn begin(&self, window: u32) {
        self.roomy.store(0, Relaxed);
        // Two threads that come here one window apart: the later.
        let from = |since| (since == u32::MAX).then_some(window.saturating_add(BEYOND));
        let _begun = self.since.fetch_update(Relaxed, Relaxed, from);
    }

    /// Lines are not counted any more.
    pub fn stop(&self) {
        if self.since.swap(u32::MAX, Relaxed) != u32::MAX {
            self.lines().clear();
        }
    }

    /// Whether lines in a window are counted.
    pub(crate) fn counts(&self, window: u32) -> bool {
        window >= self.since.load(Relaxed)
    }

    /// A line was in a cell in one window, and is in another cell in another: adds the pages that it was the last to leave to `left`.
    pub fn moved(
        &self,
        zones: &[Zone],
        from: Option<(u32, CellId)>,
        to: Option<(u32, CellId)>,
        left: &mut Vec<ZonePage>,
    ) {
        let counted = |at: Option<(u32, CellId)>| at.filter(|(window, _)| self.counts(*window));
        let (from, to) = (counted(from), counted(to));
        if from.is_none() && to.is_none() {
            return;
        }
        let mut lines = self.lines();
        for ((window, cell), arrives) in to.map(|at| (at, true)).into_iter().chain(from.map(|at| (at, false))) {
            let Some(zone) = zones.get(cell.zone as usize) else { continue };
            zone.translation.pages_of_cell(cell.ijk, |page| {
                let key = (window, (cell.zone, page));
                if arrives {
                    *lines.entry(key).or_insert(0) += 1;
                } else if let Some(n) = lines.get_mut(&key) {
                    *n -= 1;
                    if *n == 0 {
                        lines.remove(&key);
                        left.push((cell.zone, page));
                    }
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let (leaving, mut left) = (Leaving::default(), Vec::new());
        leaving.moved(&zones, None, Some((1, cell(3))), &mut left);
        leaving.moved(&zones, None, Some((1, cell(1))), &mut left);
        assert!(left.is_empty());
        leaving.moved(&zones, Some((1, cell(3))), Some((2, cell(5))), &mut left);
        assert_eq!(
            left,
            [(0, 1)],
            "another is still at page 0, and who came to page 1 in the next window does not count"
        );
        left.clear();
        leaving.moved(&zones, Some((1, cell(1))), None, &mut left);
        assert_eq!(left, [(0, 0)]);
        // One that was dropped never leaves.
        left.clear();
        leaving.moved(&zones, None, Some((2, cell(1))), &mut left);
        leaving.passed(3, true);
        leaving.moved(&zones, Some((2, cell(1))), Some((3, cell(1))), &mut left);
        assert!(left.is_empty());
        leaving.moved(&zones, Some((3, cell(1))), None, &mut left);
        assert_eq!(left, [(0, 0)]);
    }

    #[test]
    fn where_memory_holds_all_nothing_is_counted_and_later_only_windows_that_nobody_was_in() {
        let zones = [one_zone([8, 4, 4], [4, 4, 4])];
        let cell = |i| CellId { zone: 0, ijk: [i, 0, 0] };
        let (leaving, mut left) = (Leaving::default(), Vec::new());
        leaving.moved(&zones, None, Some((1, cell(1))), &mut left);
        (1..=ROOMY + 1).for_each(|window| leaving.passed(window, false));
        assert!(leaving.lines().is_empty() && !leaving.counts(100));
        leaving.passed(20, true);
        assert!(!leaving.counts(20 + BEYOND - 1) && leaving.counts(20 + BEYOND));
        // Of these the first had come before.
        leaving.moved(&zones, Some((21, cell(1))), Some((23, cell(1))), &mut left);
        leaving.passed(21, true);
        leaving.moved(&zones, Some((22, cell(1))), Some((23, cell(1))), &mut left);
        assert!(left.is_empty());
        leaving.moved(&zones, Some((23, cell(1))), Some((24, cell(1))), &mut left);
        assert!(left.is_empty());
        leaving.moved(&zones, Some((23, cell(1))), None, &mut left);
        assert_eq!(left, [(0, 0)]);
        // All begin again.
        leaving.passed(0, true);
        assert!(leaving.counts(0) && leaving.lines().is_empty());
    }
}
