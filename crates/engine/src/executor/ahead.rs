//! What a thread has asked for ahead of its use.

use pager::{PageId, Wake};

/// Pages that a thread remembers: 64 KiB of them.
const REMEMBERED: usize = 4096;

/// Pages asked for ahead of their use, by one thread: most particles want what one before them asked for.
pub(super) struct Ahead {
    /// Of one task.
    pub(super) pages: Vec<PageId>,
    /// Pages that were asked for lately, each at the place that its name gives it.
    asked: Box<[Option<PageId>]>,
    window: u32,
}

impl Ahead {
    pub(super) fn new() -> Self {
        Self { pages: Vec::new(), asked: vec![None; REMEMBERED].into(), window: 0 }
    }

    /// Leaves those of `pages` that were not asked for lately.
    pub(super) fn keep_new(&mut self, window: u32) {
        if window < self.window {
            // Tasks begin again, and so do the segments.
            self.asked.fill(None);
        }
        self.window = window;
        let asked = &mut self.asked;
        self.pages.retain(|page| asked[place(*page)].replace(*page) != Some(*page));
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
