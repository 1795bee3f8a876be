//! Numbers that are told from a page map's translation to its decoder, by way of the page's encoded bytes: what a decoder gets beside them
//! is the page's name alone.

use super::{Completion, Read, Source};
use crate::error::PageErrorKind;
use std::sync::Arc;

/// Bytes of a number.
pub const TOLD_BYTES: usize = 8;

/// A source in which the eight bytes at a place are the number of that place, little-endian.
pub struct OffsetSource;

impl Source for OffsetSource {
    fn describe(&self) -> String {
        "numbers".into()
    }

    fn size(&self) -> Result<u64, PageErrorKind> {
        Ok(u64::MAX)
    }

    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        for read in batch {
            // Numbers that are near each other are asked for by one read, each at its place in it.
            let mut at = read.offset;
            for b in &read.buffers {
                if !b.is_hole() {
                    let len = b.len as u64;
                    let numbers: Vec<u8> = (0..len).step_by(TOLD_BYTES).flat_map(|n| (at + n).to_le_bytes()).collect();
                    // SAFETY: the buffer is this read's until it is completed, and no number is longer than is left of it.
                    unsafe { std::ptr::copy_nonoverlapping(numbers.as_ptr(), b.ptr, numbers.len().min(b.len)) };
                }
                at += b.len as u64;
            }
            done.complete(read.token, Ok(()));
        }
    }
}
