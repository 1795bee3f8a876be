//! Sources of bytes. A source gets batches of reads and completes each exactly once, in any order, from any thread. A
//! local file is one source among remote ones.

use crate::error::PageErrorKind;
use crate::place::seam::Place;
use std::sync::Arc;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod engine;
pub mod file;
mod first_budget;
mod first_reads;
pub mod folder;
pub(crate) mod helpers;
mod indexed;
pub mod memory;
pub mod simulated;
#[cfg(test)]
mod tests;
mod threads;
mod uring;

/// The hole of a local disk ([`ReadForm::hole`]). A read of its own takes some 12
/// microseconds of the processor, enough to copy 50 KiB. A disk reads whole blocks of 4 KiB around each piece anyway.
pub(crate) const HOLE_BYTES: usize = 16 << 10;

/// A destination buffer. The pager guarantees that the memory stays valid and unshared until the read is completed.
#[derive(Copy, Clone, Debug)]
pub struct Buffer {
    /// First byte; null for a hole ([`Buffer::hole`]).
    pub ptr: *mut u8,
    /// Length in bytes.
    pub len: usize,
}

impl Buffer {
    /// Unneeded bytes between two pieces that are read together. A source skips them, or reads them to memory that is
    /// not used.
    pub fn hole(len: usize) -> Self {
        Self { ptr: std::ptr::null_mut(), len }
    }

    /// Whether its bytes are dropped.
    pub fn is_hole(&self) -> bool {
        self.ptr.is_null()
    }

    /// Skips `n` bytes that are filled.
    fn skip(&mut self, n: usize) {
        if !self.is_hole() {
            self.ptr = self.ptr.wrapping_add(n);
        }
        self.len -= n;
    }
}

// SAFETY: a buffer has one writer at a time: it belongs to the read until its completion.
unsafe impl Send for Buffer {}

/// The urgency of a read.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ReadClass {
    /// A task waits for a page of it.
    #[default]
    Demand,
    /// Nothing waits for it yet.
    Prefetch,
}

/// One contiguous range of a source, scattered over buffers in order. The first and the last are no holes.
#[derive(Debug)]
pub struct Read {
    /// Returned on completion.
    pub token: u64,
    /// First byte in the source.
    pub offset: u64,
    /// The destinations, in order.
    pub buffers: Vec<Buffer>,
    /// Its urgency.
    pub class: ReadClass,
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

/// Receives completions.
pub trait Completion: Send + Sync {
    /// Called exactly once for each read, from any thread. `Ok` means that every byte arrived.
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>);
    /// The same for several reads, for less than as many calls cost.
    fn complete_all(&self, results: Vec<(u64, Result<(), PageErrorKind>)>) {
        results.into_iter().for_each(|(token, result)| self.complete(token, result));
    }
    /// Called when something happens to a read at a server, before its completion.
    fn note(&self, token: u64, note: ReadNote<'_>) {
        let _ = (token, note);
    }
}

/// What happens to a read at a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ReadNote<'a> {
    /// Name and port of the server.
    pub server: &'a str,
    /// Number of the connection at the server; 0 if it has none yet.
    pub connection: u32,
    /// The event.
    pub step: ReadStep,
}

/// An event of a read at a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ReadStep {
    /// A connection was made for it.
    Connected {
        /// Duration in microseconds.
        took_us: u64,
    },
    /// The request was sent.
    Sent,
    /// The first byte of the reply arrived.
    FirstByte {
        /// Microseconds that the request waited at the server, if the server says so; else 0.
        queue_us: u64,
        /// Microseconds that the server worked on it, if it says so; else 0.
        service_us: u64,
    },
    /// The attempt failed, and another one follows.
    Retried,
    /// It was also asked of another server, or on another connection.
    Hedged,
    /// The request was withdrawn.
    Withdrawn,
}

/// The reads that suit a source.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ReadForm {
    /// Most reads in flight. `None`: reads count together with those of other such sources, up to the pager's readers.
    /// Pages are staged for all sources together: those of a full source, once staged, keep others from being staged.
    pub depth: Option<usize>,
    /// Whole pages are read as whole blocks of so many bytes, a power of two, which can bypass the page cache.
    pub block: Option<u64>,
    /// Longest joined read, in bytes. Longer reads were no faster on any disk tested, and they delay the publication of
    /// their frames.
    pub longest: usize,
    /// Most bytes between two pieces of rows that are read with them and dropped.
    pub hole: usize,
}

impl Default for ReadForm {
    /// That of a local disk.
    fn default() -> Self {
        Self { depth: None, block: None, longest: 1 << 20, hole: HOLE_BYTES }
    }
}

/// A place from which bytes are read.
pub trait Source: Send + Sync {
    /// Path or URL, for messages.
    fn describe(&self) -> String;
    /// The subject and the error for messages about a failed read that begins at `offset`. A source of many files names
    /// the file, and counts bytes in it.
    fn explain(&self, offset: u64, kind: PageErrorKind) -> (String, PageErrorKind) {
        let _ = offset;
        (self.describe(), kind)
    }
    /// Size in bytes now.
    ///
    /// # Errors
    /// [`PageErrorKind::Missing`] if it does not exist (only ever for "not found"), `Io` for any other reason.
    fn size(&self) -> Result<u64, PageErrorKind>;
    /// The reads that suit it now. Called under the pager's lock, for each read.
    fn form(&self) -> ReadForm {
        ReadForm::default()
    }
    /// The place with which it shares a limit of reads in flight ([`Place::room`]). Constant.
    fn limited_by(&self) -> Option<Arc<dyn Place>> {
        None
    }
    /// Bytes of its own that grow with the data, which the pager charges. `None`: never any.
    fn held_bytes(&self) -> Option<u64> {
        None
    }
    /// Starts reads; must not block for long. The source continues short reads until all bytes arrived or it reaches
    /// the end. At the end the read completes with [`PageErrorKind::Short`], and the bytes before the end have arrived.
    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>);
    /// A task waits now for reads that were submitted as prefetches with the same `done`. Must not block.
    fn promote(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        let _ = (tokens, done);
    }
    /// Nobody waits any more for reads that were submitted with the same `done`. Each of them still completes exactly
    /// once: with its result, or early with [`PageErrorKind::Withdrawn`]. Must not block. A repeated call does no harm.
    fn withdraw(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        let _ = (tokens, done);
    }
    /// For a source with reads that arrive by the clock. Completes due reads on the calling thread, and returns the
    /// time until the next. An idle worker then sleeps exactly that long and needs no other thread to wake it. A source
    /// must complete its reads without these calls, too.
    fn due(&self) -> Option<std::time::Duration> {
        None
    }
    /// Whether [`Source::due`] is worth calling. Constant.
    fn timed(&self) -> bool {
        false
    }
}
