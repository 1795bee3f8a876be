//! Pages that lines will likely use in the window after the next: those that they use in the next. Lines that go
//! through time together move less than a page in most windows, so most pages of one are pages of the one after.
//!
//! A line gives its pages when it reaches a window. That is late for the first lines of the next window. The order of
//! lines reverses there, so the last ones go first. Pages requested by whole windows are on their way a window earlier,
//! and in the order of their positions.

use crate::last_use::ZonePage;
use pager::PageHash;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Most pages of points remembered of a window. Three windows take 100 KiB, a small part of the memory kept free under
/// any limit. A window that uses more has no likely pages.
const MOST: usize = 1024;

/// Windows without loss after which pages are likely again, once some were lost. Pages read a window earlier take
/// memory. If others lacked that memory, early reads must not resume at once.
const REST: u32 = 8;

/// Pages of a window are likely in the next if, the last time, at most one in this many was not used again.
const LOST_SHARE: usize = 8;

#[derive(Default)]
struct NextWindow {
    window: u32,
    pages: HashSet<ZonePage, PageHash>,
}

/// See the module.
#[derive(Default)]
pub struct WindowPrediction(Mutex<Windows>);

#[derive(Default)]
struct Windows {
    windows: Vec<NextWindow>,
    /// Windows until pages are likely again.
    rest: u32,
}

impl WindowPrediction {
    /// A line uses a page in a window.
    pub fn wants(&self, window: u32, page: ZonePage) {
        let windows = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner).windows;
        let n = windows.iter().position(|w| w.window == window).unwrap_or_else(|| {
            windows.push(NextWindow { window, ..NextWindow::default() });
            windows.len() - 1
        });
        // One more than remembered: the window has too many.
        if windows[n].pages.len() <= MOST {
            windows[n].pages.insert(page);
        }
    }

    /// All lines have reached a window or are beyond it. Returns its pages, in order, that are likely in the next one,
    /// too. `ample`: no page was evicted since the window before.
    pub fn passed(&self, window: u32, ample: bool) -> Vec<ZonePage> {
        let Windows { windows, rest } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Later windows are from before all lines began again.
        windows.retain(|w| window.abs_diff(w.window) <= 1);
        *rest = if ample { rest.saturating_sub(1) } else { REST };
        if *rest > 0 {
            return Vec::new();
        }
        let of =
            |window: Option<u32>| windows.iter().find(|w| Some(w.window) == window).filter(|w| w.pages.len() <= MOST);
        let (Some(before), Some(now)) = (of(window.checked_sub(1)), of(Some(window))) else { return Vec::new() };
        let lost = before.pages.difference(&now.pages).count();
        if lost * LOST_SHARE > before.pages.len() {
            return Vec::new();
        }
        let mut pages: Vec<ZonePage> = now.pages.iter().copied().collect();
        pages.sort_unstable();
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_windows_want_the_third_will() {
        let likely = WindowPrediction::default();
        let want = |window, pages: core::ops::Range<u64>| pages.for_each(|page| likely.wants(window, (0, page)));
        want(1, 0..16);
        assert!(likely.passed(1, true).is_empty(), "nothing is known of the window before");
        want(3, 100..101);
        want(2, 1..18);
        assert_eq!(likely.passed(2, true), (1..18).map(|page| (0, page)).collect::<Vec<_>>());
        // Three of seventeen are gone.
        want(3, 4..30);
        assert!(likely.passed(3, true).is_empty());
        want(4, 4..30);
        assert_eq!(likely.passed(4, true).len(), 26, "one of 27 is gone");
    }

    #[test]
    fn where_pages_had_to_make_room_nothing_is_likely_for_a_while() {
        let likely = WindowPrediction::default();
        for window in 1..40 {
            likely.wants(window, (0, 1));
            let found = likely.passed(window, window != 10 && window != 12);
            let rests = (10..12 + REST).contains(&window) || window == 1;
            assert_eq!(found.is_empty(), rests, "{window}");
        }
    }

    #[test]
    fn no_more_is_remembered_than_has_room() {
        let likely = WindowPrediction::default();
        for window in 1..3 {
            (0..2 * MOST as u64).for_each(|page| likely.wants(window, (0, page)));
        }
        assert!(likely.passed(2, true).is_empty());
        assert!(likely.0.lock().unwrap().windows.iter().all(|w| w.pages.len() == MOST + 1));
    }

    #[test]
    fn lines_that_begin_again_tell_anew() {
        let likely = WindowPrediction::default();
        (7..9).for_each(|window| likely.wants(window, (0, 1)));
        assert_eq!(likely.passed(8, true), [(0, 1)]);
        likely.passed(0, true);
        (0..2).for_each(|window| likely.wants(window, (0, 2)));
        assert_eq!(likely.passed(1, true), [(0, 2)]);
    }
}
