//! What a thread has asked for ahead of its use.

use crate::last_use::ZonePage;
use pager::{PageId, Wake};

/// Pages that are asked for together, so that neighbours become one read. Asked for one particle at a time, 3,050 pages that 4,000
/// particles touched took 2,670 reads, and so 2,150; all pages of a window in one go would take 1,340.
const TOGETHER: usize = 64;

/// Pages that a thread remembers: 64 KiB of them.
const REMEMBERED: usize = 4096;

/// Pages of points that it remembers of some windows: 24 KiB.
const KNOWN: usize = 1024;

/// Pages asked for ahead of their use, by one thread: most particles want what one before them asked for.
pub(super) struct Ahead {
    /// Pages of points, of one task.
    pub(super) pages: Vec<ZonePage>,
    /// Those that were seen lately in a window, each at the place that its name gives it: what is read of most need not be listed.
    known: Box<[Option<(u32, ZonePage)>]>,
    /// Of one page of points.
    listed: Vec<PageId>,
    /// To be asked for.
    waiting: Vec<PageId>,
    /// Pages that were asked for lately, each at the place that its name gives it.
    asked: Box<[Option<PageId>]>,
    window: u32,
}

impl Ahead {
    pub(super) fn new() -> Self {
        let (known, asked) = (vec![None; KNOWN].into(), vec![None; REMEMBERED].into());
        Self { pages: Vec::new(), known, listed: Vec::new(), waiting: Vec::new(), asked, window: 0 }
    }

    /// Takes what is read of `pages` in a window, as `list` says, as far as it was not asked for lately.
    pub(super) fn take_new(&mut self, window: u32, list: impl Fn(ZonePage, &mut Vec<PageId>)) {
        if window < self.window {
            // Tasks begin again, and so do the segments.
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

    /// Whether there are enough to be asked for.
    pub(super) fn are_many(&self) -> bool {
        self.waiting.len() >= TOGETHER
    }

    /// Asks for all that are to be asked for, in the order in which they lie.
    pub(super) fn ask(&mut self, with: impl FnOnce(&[PageId])) {
        if !self.waiting.is_empty() {
            self.waiting.sort_unstable();
            with(&self.waiting);
            self.waiting.clear();
        }
    }
}

/// Where a page is remembered.
fn of_page(page: PageId) -> usize {
    place(page.page ^ u64::from(page.array.0) << 40 ^ u64::from(page.step) << 20, REMEMBERED)
}

/// One of so many places, a power of two (Fibonacci hashing).
fn place(name: u64, places: usize) -> usize {
    (name.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - places.trailing_zeros())) as usize % places
}

/// Is told of pages that nobody waits for.
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
        // Of the next window the first step is the last one's second.
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
