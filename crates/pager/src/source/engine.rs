//! Readers of open files: the interface between the set of files and its two backends.

use super::{Buffer, Completion, HOLE_BYTES};
use crate::error::PageErrorKind;
use std::cell::UnsafeCell;
use std::fs::File;
use std::os::fd::RawFd;
use std::sync::Arc;

/// One read of an open file, on its way.
pub(crate) struct Op {
    pub(crate) file: Arc<File>,
    /// Where the next byte comes from.
    pub(crate) offset: u64,
    /// Remaining buffers.
    pub(crate) buffers: Vec<Buffer>,
    pub(super) token: u64,
    /// The read's first byte and its end in the source, and the place in the source where the file begins.
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) base: u64,
    pub(super) done: Arc<dyn Completion>,
    /// The same file without `O_DIRECT`, if `file` has it.
    pub(super) buffered: Option<Arc<File>>,
}

impl Op {
    /// Whether the read bypasses the page cache.
    pub(crate) fn direct(&self) -> bool {
        self.buffered.is_some()
    }

    /// After an error: whether the read can continue through the page cache. Unaligned parts cannot be read directly,
    /// such as the end of most files.
    pub(crate) fn fall_back(&mut self, error: i32) -> bool {
        match self.buffered.take().filter(|_| error == libc::EINVAL) {
            Some(file) => {
                self.file = file;
                true
            }
            None => false,
        }
    }

    /// Notes that `n` bytes arrived. `None`: more bytes are expected. Otherwise the result of the read.
    pub(crate) fn advance(&mut self, mut n: usize) -> Option<Result<(), PageErrorKind>> {
        if n == 0 {
            let have = self.base.saturating_add(self.offset);
            return Some(Err(PageErrorKind::Short { offset: self.begin, end: self.end, have }));
        }
        self.offset += n as u64;
        let mut full = 0;
        for b in &mut self.buffers {
            let k = b.len.min(n);
            b.skip(k);
            n -= k;
            if b.len > 0 {
                break;
            }
            full += 1;
        }
        self.buffers.drain(..full);
        self.buffers.is_empty().then_some(Ok(()))
    }

    pub(crate) fn complete(self, result: Result<(), PageErrorKind>) {
        self.done.complete(self.token, result);
    }
}

/// The destination of unneeded bytes: the system cannot skip them.
struct Nowhere(UnsafeCell<[u8; HOLE_BYTES]>);

// SAFETY: only the system writes there, and no thread reads it.
unsafe impl Sync for Nowhere {}

static NOWHERE: Nowhere = Nowhere(UnsafeCell::new([0; HOLE_BYTES]));

/// Buffers in the form of the system, none longer than `most`.
pub(super) fn iovecs(buffers: &[Buffer], most: usize) -> Vec<libc::iovec> {
    let mut all = Vec::with_capacity(buffers.len());
    for b in buffers {
        if !b.is_hole() {
            all.push(libc::iovec { iov_base: b.ptr.cast(), iov_len: b.len.min(most) });
            continue;
        }
        let mut left = b.len;
        while left > 0 {
            let len = left.min(HOLE_BYTES);
            all.push(libc::iovec { iov_base: NOWHERE.0.get().cast(), iov_len: len });
            left -= len;
        }
    }
    all
}

/// A reader of files.
pub(crate) trait Engine: Send + Sync {
    fn name(&self) -> &'static str;
    /// Starts reads; each is completed once.
    fn submit(&self, ops: Vec<Op>);
    /// Whether [`Engine::poll`] would complete an arrival.
    fn ready(&self) -> bool {
        false
    }
    /// Completes arrivals, if this engine leaves that to its callers.
    fn poll(&self) {}
    /// A descriptor to sleep on for the next arrival, if reads are in flight and callers complete them.
    fn wait_fd(&self) -> Option<RawFd> {
        None
    }
}
