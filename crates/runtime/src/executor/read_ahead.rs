//! The prefetches of a thread.

use crate::last_use::ZonePage;
use pager::{PageId, Wake};

/// Pages requested together, so that reads of neighbours are joined. 4,000 particles touched 3,050 pages. Requested one
/// particle at a time they took 2,670 reads, and so 2,150. All pages of a window at once would take 1,340.
const TOGETHER: usize = 64;

/// Requested pages that a thread remembers: 64 KiB.
const REMEMBERED: usize = 4096;

/// Pages of points that it remembers for some windows: 24 KiB.
const KNOWN: usize = 1024;

/// Prefetches of one thread. Most tasks use pages that a task before them requested.
pub(super) struct Ahead {
    /// Pages of points of one task.
    pub(super) pages: Vec<ZonePage>,
    /// Pages of points seen lately in a window, each at a place by its hash. Their pages need not be listed again.
    known: Box<[Option<(u32, ZonePage)>]>,
    listed: Vec<PageId>,
    waiting: Vec<PageId>,
    /// Pages requested lately, each at a place by its hash.
    asked: Box<[Option<PageId>]>,
    window: u32,
}

impl Ahead {
    pub(super) fn new() -> Self {
        let (known, asked) = (vec![None; KNOWN].into(), vec![None; REMEMBERED].into());
        Self { pages: Vec::new(), known, listed: Vec::new(), waiting: Vec::new(), asked, window: 0 }
    }

    /// Adds the pages that `list` gives for `pages` in a window, except those requested lately.
    pub(super) fn take_new(&mut self, window: u32, list: impl Fn(ZonePage, &mut Vec<PageId>)) {
        if window < self.window {
            // Tasks begin again, and read the steps of the series again.
            self.known.fill(None);
            self.asked.fill(None);
        }
        self.window = window;
        for page in self.pages.drain(..) {
            let known = &mut self.known[place(page.1 ^ u64::from(page.0) << 40 ^ u64::from(window) << 20, KNOWN)];
            if known.replace((window, page)) != Some((window, page)) {
                list(page, &mut self.listed);
            }
        }
        let asked = &mut self.asked;
        let mut new = |page: &PageId| asked[of_page(*page)].replace(*page) != Some(*page);
        self.waiting.extend(self.listed.drain(..).filter(|page| new(page)));
    }

    pub(super) fn are_many(&self) -> bool {
        self.waiting.len() >= TOGETHER
    }

    /// Requests all added pages, in the order of their position in the data.
    pub(super) fn ask(&mut self, with: impl FnOnce(&[PageId])) {
        if !self.waiting.is_empty() {
            self.waiting.sort_unstable();
            with(&self.waiting);
            self.waiting.clear();
        }
    }
}

fn of_page(page: PageId) -> usize {
    place(page.page ^ u64::from(page.array.0) << 40 ^ u64::from(page.step) << 20, REMEMBERED)
}

/// One of `places`, a power of two (Fibonacci hashing).
fn place(name: u64, places: usize) -> usize {
    (name.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - places.trailing_zeros())) as usize % places
}

/// The receiver of wakes for prefetched pages: no task waits for them.
pub struct Nobody;

impl Wake for Nobody {
    fn wake(&self, _token: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use pager::id::ArrayId;

    #[test]
    fn what_many_want_is_asked_for_once_and_in_order() {
        let mut ahead = Ahead::new();
        let page = |n: u64, step: u32| PageId::new(ArrayId(1), step, n);
        // The steps on either side of a window.
        let list = |window: u32| {
            move |(_, n): ZonePage, pages: &mut Vec<PageId>| pages.extend([page(n, window), page(n, window + 1)])
        };
        for n in (0..20).rev() {
            ahead.pages.extend([(0, n), (0, n + 1)]);
            ahead.take_new(1, list(1));
        }
        assert!(!ahead.are_many() && ahead.pages.is_empty());
        let mut asked = Vec::new();
        ahead.ask(|pages| asked.extend_from_slice(pages));
        assert_eq!(asked, [1, 2].into_iter().flat_map(|step| (0..=20).map(move |n| page(n, step))).collect::<Vec<_>>());
        ahead.ask(|_| panic!("nothing is left"));
        // The first step of the next window is the second of this one.
        ahead.pages.extend((0..=20).map(|n| (0, n)));
        ahead.take_new(2, list(2));
        ahead.ask(|pages| assert_eq!(pages, (0..=20).map(|n| page(n, 3)).collect::<Vec<_>>()));
        ahead.pages.extend((100..150).map(|n| (0, n)));
        ahead.take_new(2, list(2));
        assert!(ahead.are_many());
        ahead.pages.push((0, 120));
        ahead.take_new(0, list(2));
        ahead.ask(|pages| assert_eq!(pages.len(), 102, "tasks that begin again want it again"));
    }
}
