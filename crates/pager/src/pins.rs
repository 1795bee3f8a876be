//! The pins of a worker: which frames it uses, for the evictor to see.

use crate::frames::Chunked;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::Acquire};

/// Bytes that each worker costs for each frame: the pin, and its place in the list of pins (which may be half empty).
pub(crate) const PIN_BYTES: usize = 1 + 2 * size_of::<Pinned>();

/// The part of a worker that others read.
#[repr(align(128))]
pub(crate) struct Pins {
    pub(crate) serial: u32,
    /// 1. Not 0 while the worker uses the frame with that number. Written by the worker only. Storing a pin and then reading the
    ///    frame's state, against storing the state and then reading pins, is what [`Frame`](crate::frames::Frame)'s invariant 1 is about.
    pub(crate) bytes: Chunked<AtomicU8>,
    /// 2. Counters, written by the worker only (so no read-modify-write is needed), read by all.
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) prefetched_used: AtomicU64,
}

impl Pins {
    /// Whether the worker uses a frame. For the evictor, after its fence.
    pub(crate) fn pinned(&self, frame: u32) -> bool {
        // Acquire: what the worker read from the page it read before it let go.
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
