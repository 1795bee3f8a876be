//! What a thread has asked for ahead of its use.

use pager::{PageId, Wake};

/// Pages that are asked for together, so that neighbours become one read. Asked for one particle at a time, 3,050 pages that 4,000
/// particles touched took 2,670 reads, and so 2,150; all pages of a window in one go would take 1,340.
const TOGETHER: usize = 64;

/// Pages that a thread remembers: 64 KiB of them.
const REMEMBERED: usize = 4096;

/// Pages asked for ahead of their use, by one thread: most particles want what one before them asked for.
pub(super) struct Ahead {
    /// Of one task.
    pub(super) pages: Vec<PageId>,
    /// To be asked for.
    waiting: Vec<PageId>,
    /// Pages that were asked for lately, each at the place that its name gives it.
    asked: Box<[Option<PageId>]>,
    window: u32,
}

impl Ahead {
    pub(super) fn new() -> Self {
        Self { pages: Vec::new(), waiting: Vec::new(), asked: vec![None; REMEMBERED].into(), window: 0 }
    }

    /// Takes those of `pages` that were not asked for lately.
    pub(super) fn take_new(&mut self, window: u32) {
        if window < self.window {
            // Tasks begin again, and so do the segments.
            self.asked.fill(None);
        }
        self.window = window;
        let asked = &mut self.asked;
        self.waiting.extend(self.pages.drain(..).filter(|page| asked[place(*page)].replace(*page) != Some(*page)));
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

/// Where a page is remembered (Fibonacci hashing).
fn place(page: PageId) -> usize {
    let name = page.page ^ u64::from(page.array.0) << 40 ^ u64::from(page.step) << 20;
    (name.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - REMEMBERED.trailing_zeros())) as usize % REMEMBERED
}

/// Is told of pages that nobody waits for.
pub(super) struct Nobody;

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
        let page = |n: u64| PageId::new(ArrayId(1), 3, n);
        for n in (0..40).rev() {
            ahead.pages.extend([page(n), page(n + 1)]);
            ahead.take_new(1);
        }
        assert!(!ahead.are_many() && ahead.pages.is_empty());
        let mut asked = Vec::new();
        ahead.ask(|pages| asked.extend_from_slice(pages));
        assert_eq!(asked, (0..=40).map(page).collect::<Vec<_>>());
        ahead.ask(|_| panic!("nothing is left"));
        ahead.pages.extend((100..200).map(page));
        ahead.take_new(1);
        assert!(ahead.are_many());
        ahead.pages.push(page(150));
        ahead.take_new(0);
        ahead.ask(|pages| assert_eq!(pages.len(), 101, "tasks that begin again want it again"));
    }
}
