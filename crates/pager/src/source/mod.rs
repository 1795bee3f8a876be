//! Where bytes come from. A source takes batches of reads and completes each exactly once, in any order, from any
//! thread; a local file is one source among remote ones.

use crate::error::PageErrorKind;
use std::sync::Arc;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod engine;
pub mod file;
pub mod folder;
mod helpers;
pub mod memory;
pub mod simulated;
#[cfg(test)]
mod tests;
mod threads;
mod uring;

/// What lies between two pieces of rows is read with them up to so many bytes, and goes nowhere: a read of its own takes some 12
/// microseconds of the processor, in which it copies 50 KiB, and a disk reads whole blocks of 4 KiB around each piece anyway.
pub(crate) const HOLE_BYTES: usize = 16 << 10;

/// A destination buffer. The pager guarantees that the memory stays valid and unshared until the read is completed.
#[derive(Copy, Clone, Debug)]
pub struct Buffer {
    /// First byte; null where the bytes go nowhere ([`Buffer::hole`]).
    pub ptr: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

impl Buffer {
    /// Bytes that nobody wants, between two pieces that are read together. A source passes over them, or reads them to where nobody looks.
    pub fn hole(len: usize) -> Self {
        Self { ptr: std::ptr::null_mut(), len }
    }

    /// Whether its bytes go nowhere.
    pub fn is_hole(&self) -> bool {
        self.ptr.is_null()
    }

    /// Has its first `n` bytes.
    fn skip(&mut self, n: usize) {
        if !self.is_hole() {
            self.ptr = self.ptr.wrapping_add(n);
        }
        self.len -= n;
    }
}

// SAFETY: a buffer is written by one reader at a time: it belongs to the read until its completion.
unsafe impl Send for Buffer {}

/// One contiguous range of a source, scattered over buffers in order. The first and the last are no holes.
#[derive(Debug)]
pub struct Read {
    /// Handed back on completion.
    pub token: u64,
    /// First byte in the source.
    pub offset: u64,
    /// Where the bytes go, in order.
    pub buffers: Vec<Buffer>,
}

impl Read {
    /// Total bytes.
    pub fn len(&self) -> usize {
        self.buffers.iter().map(|b| b.len).sum()
    }
    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Gets completions.
pub trait Completion: Send + Sync {
    /// Called exactly once for each read, from any thread. `Ok` means that every byte arrived.
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>);
}

/// A place that bytes are read from.
pub trait Source: Send + Sync {
    /// Path or URL, for messages.
    fn describe(&self) -> String;
    /// What messages call the place of a read that begins at `offset` and failed, and the error as it is to be told: of a source that
    /// is many files, the file, and bytes counted in it.
    fn explain(&self, offset: u64, kind: PageErrorKind) -> (String, PageErrorKind) {
        let _ = offset;
        (self.describe(), kind)
    }
    /// Size in bytes now.
    ///
    /// # Errors
    /// [`PageErrorKind::Missing`] if it is not there (only ever for "not found"), `Io` for anything else.
    fn size(&self) -> Result<u64, PageErrorKind>;
    /// Starts reads; must not block for long. Short reads are continued by the source until all bytes are there or the
    /// end is reached, which completes with [`PageErrorKind::Short`]: what lies before the end has arrived then, too.
    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>);
    /// For a source whose reads arrive by the clock: completes, on the calling thread, what is due, and says how long until
    /// more is. An idle worker then sleeps just as long and needs no other thread to wake it. A source must complete its
    /// reads without these calls too.
    fn due(&self) -> Option<std::time::Duration> {
        None
    }
    /// Whether [`Source::due`] is worth calling. Never changes.
    fn timed(&self) -> bool {
        false
    }
}
