//! Pages that no line is at any more in the window of a run through time that comes first: those of the time step that the run leaves
//! behind are given back at once where memory is short, before the rest of the window is through.

use field::nodes::Zone;
use field::space::CellId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A page of a zone's points.
pub(crate) type ZonePage = (u32, u64);

/// How many lines are at each page. Of a line the pages count in which the cell lies where it came into its window: it may come by others
/// before it leaves the window, so that what this says is a hint, and costs a read where it is wrong.
#[derive(Default)]
pub(crate) struct Leaving {
    lines: Mutex<HashMap<(u32, ZonePage), u32>>,
}

impl Leaving {
    /// The run has come to a window: what was counted of those before it, of lines that were dropped, is no more. At the first all begin
    /// again.
    pub(crate) fn passed(&self, window: u32) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|(of, _), _| *of >= window && window > 0);
    }

    /// A line was in a cell in one window, and is in another cell in another: adds the pages that it was the last to leave to `left`.
    pub(crate) fn moved(
        &self,
        zones: &[Zone],
        from: Option<(u32, CellId)>,
        to: Option<(u32, CellId)>,
        left: &mut Vec<ZonePage>,
    ) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
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
        leaving.passed(3);
        leaving.moved(&zones, Some((2, cell(1))), Some((3, cell(1))), &mut left);
        assert!(left.is_empty());
        leaving.moved(&zones, Some((3, cell(1))), None, &mut left);
        assert_eq!(left, [(0, 0)]);
    }
}
