//! A source of bytes in memory.

use super::{Completion, Read, Source};
use crate::error::PageErrorKind;
use std::sync::Arc;

/// A source over bytes in memory. Reads are completed within [`Source::submit`].
pub struct Memory {
    name: String,
    bytes: Vec<u8>,
}

impl Memory {
    /// A source over `bytes`.
    pub fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), bytes }
    }
}

/// The error of a read beyond the end of a source of `size` bytes.
pub(crate) fn short(read: &Read, size: u64) -> Option<PageErrorKind> {
    let end = read.offset.saturating_add(read.len() as u64);
    (end > size).then_some(PageErrorKind::Short { offset: read.offset, end, have: size })
}

/// The part of a read inside a source of `size` bytes.
pub(crate) fn there(read: &Read, size: u64) -> std::ops::Range<u64> {
    let end = read.offset.saturating_add(read.len() as u64);
    read.offset.min(size)..end.min(size)
}

/// Copies bytes to the buffers of a read, as far as they reach.
///
/// # Safety
/// The buffers are valid and unshared, which the pager promises until the read is completed.
pub(crate) unsafe fn scatter(read: &Read, mut bytes: &[u8]) {
    for b in &read.buffers {
        let n = b.len.min(bytes.len());
        if !b.is_hole() {
            // SAFETY: `n` is at most the length of each.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), b.ptr, n) };
        }
        bytes = &bytes[n..];
    }
}

impl Source for Memory {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn size(&self) -> Result<u64, PageErrorKind> {
        Ok(self.bytes.len() as u64)
    }

    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        for read in batch {
            let there = there(&read, self.bytes.len() as u64);
            // SAFETY: the buffers belong to this read until it is completed.
            unsafe { scatter(&read, &self.bytes[there.start as usize..there.end as usize]) };
            done.complete(read.token, short(&read, self.bytes.len() as u64).map_or(Ok(()), Err));
        }
    }
}
