//! The pages ever requested: one bit a page, in blocks that exist only where a page was touched.

use crate::id::{ArrayId, PageId};
use crate::page_hash::PageHash;
use std::collections::{HashMap, HashSet};

/// Pages of one block: 256 bytes.
const BLOCK: u64 = 2048;
/// Bytes of a block and its place in the map.
pub(crate) const BLOCK_BYTES: u64 = 256 + 2 * 33;

/// See the module.
#[derive(Default)]
pub(crate) struct Touched {
    blocks: HashMap<PageId, Box<[u64; 32]>, PageHash>,
    seen: HashSet<(ArrayId, u32), PageHash>,
    pub(crate) touched: u64,
    pub(crate) total: u64,
    /// Some page could not be noted: `touched` is a lower bound.
    pub(crate) partial: bool,
}

impl Touched {
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK_BYTES + self.seen.len() as u64 * 32
    }

    /// Notes a page of an array that has `pages` pages a step. A new block is added only while all blocks take less
    /// than `share` bytes.
    pub(crate) fn mark(&mut self, id: PageId, pages: u64, share: u64) {
        if self.seen.insert((id.array, id.step)) {
            self.total = self.total.saturating_add(pages);
        }
        let key = PageId { page: id.page / BLOCK, ..id };
        let (word, bit) = ((id.page % BLOCK / 64) as usize, 1u64 << (id.page % 64));
        let room = self.bytes() + BLOCK_BYTES <= share;
        let block = match self.blocks.get_mut(&key) {
            Some(b) => b,
            None if room => self.blocks.entry(key).or_insert_with(|| Box::new([0; 32])),
            None => {
                self.partial = true;
                return;
            }
        };
        if block[word] & bit == 0 {
            block[word] |= bit;
            self.touched += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_different_pages() {
        let mut t = Touched::default();
        for page in [0, 1, 63, 64, 2047, 2048, 1, 0, 1 << 40] {
            t.mark(PageId::new(ArrayId(1), 0, page), 100, 1 << 20);
        }
        t.mark(PageId::new(ArrayId(1), 1, 0), 100, 1 << 20);
        assert_eq!((t.touched, t.total, t.partial), (8, 200, false));
        t.mark(PageId::new(ArrayId(2), 1, 0), 5, 0);
        assert_eq!((t.touched, t.total, t.partial), (8, 205, true));
    }
}
