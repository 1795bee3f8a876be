//! The page map's answer for a page, and the buffer for its encoded bytes.

use crate::id::PageId;
use crate::map::Extent;
use crate::pool::PoolSlot;
use std::ops::Range;
use std::ptr::NonNull;

/// The answer of [`PageMap::locate`](crate::PageMap::locate), kept while the page waits for memory.
#[derive(Default)]
pub(crate) struct Translated {
    pub(crate) segments: Vec<Extent>,
    pub(crate) encoded_len: usize,
    /// The part of the encoded buffer that is the page: a read of whole blocks of the device has more.
    pub(crate) body: Range<usize>,
    /// The part of the encoded buffer that is copied into the frame, at this byte.
    pub(crate) moved: Option<(Range<usize>, usize)>,
    pub(crate) scratch_len: usize,
    /// Numbers passed to decoding unchanged.
    pub(crate) found: Box<[u64]>,
    pub(crate) fill: bool,
    /// The inputs of a derived page.
    pub(crate) inputs: Option<Vec<PageId>>,
}

impl Translated {
    /// Bytes of the pool for the encoded page (none if a [`Tail`] holds it), and for its scratch.
    pub(crate) fn buffers(&self) -> [usize; 2] {
        [if self.encoded_len > TAIL_BYTES { self.encoded_len } else { 0 }, self.scratch_len]
    }

    /// The buffer of the encoded bytes: the reserved slot, or a tail.
    pub(crate) fn encoded(&self, slot: Option<PoolSlot>) -> Option<Encoded> {
        match slot {
            Some(slot) => Some(Encoded::Slot(slot, self.encoded_len)),
            None => (self.encoded_len > 0).then(|| Encoded::Tail(Tail::new(), self.encoded_len)),
        }
    }
}

/// The buffer of a page's encoded bytes, with their number.
pub(crate) enum Encoded {
    Slot(PoolSlot, usize),
    Tail(Tail, usize),
}

impl Encoded {
    pub(crate) fn place(&self) -> (*mut u8, usize) {
        match self {
            Self::Slot(slot, len) => (slot.ptr, *len),
            Self::Tail(tail, len) => (tail.ptr(), *len),
        }
    }
}

/// Bytes of a [`Tail`]: usually a checksum.
pub(crate) const TAIL_BYTES: usize = 16;

/// The few bytes read beside a page that goes straight into its frame. A slot of the pool would be a page of the
/// system. A raw pointer, because the entry that owns it moves while a source writes here, and a box would claim
/// exclusive access.
pub(crate) struct Tail(NonNull<[u8; TAIL_BYTES]>);

impl Tail {
    fn new() -> Self {
        Self(NonNull::from(Box::leak(Box::new([0; TAIL_BYTES]))))
    }

    fn ptr(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        // SAFETY: from a box, and owned by this value alone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
