//! The pins of a worker: the frames that it uses, as the evictor sees them.

use crate::frames::Chunked;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::Acquire};

/// Bytes of each worker for each frame: the pin, and its place in the list of pins (which may be half empty).
pub(crate) const PIN_BYTES: usize = 1 + 2 * size_of::<Pinned>();

/// The part of a worker that others read.
#[repr(align(128))]
pub(crate) struct Pins {
    pub(crate) serial: u32,
    /// 1. Not 0 while the worker uses the frame with that number. Written by the worker only.
    ///    [`Frame`](crate::frames::Frame)'s invariant 1 orders it against the frame's state: the worker stores the pin
    ///    and then reads the state, the evictor the reverse.
    pub(crate) bytes: Chunked<AtomicU8>,
    /// 2. Counters, written by the worker only (so without read-modify-write), read by all.
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) prefetched_used: AtomicU64,
}

impl Pins {
    /// Whether the worker uses a frame. For the evictor, after its fence.
    pub(crate) fn pinned(&self, frame: u32) -> bool {
        // Acquire: the worker's reads of the page precede the release of its pin.
        self.bytes.get(frame).is_some_and(|b| b.load(Acquire) != 0)
    }

    pub(crate) fn grow(&self, chunk: usize) {
        self.bytes.grow(chunk);
    }
}

/// A pin that is held.
#[derive(Copy, Clone)]
pub(crate) struct Pinned {
    pub(crate) frame: u32,
    pub(crate) place: u32,
}
