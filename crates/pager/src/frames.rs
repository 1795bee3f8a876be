//! Records of frames, and the chunked arrays of frames and pins.
//!
//! A frame number names the memory of one page that is resident or under a read. Its record holds the page and the
//! address of the bytes. Records are never moved or freed while the pager lives, so they are read without a lock.

use crate::id::{ArrayId, PageId};
use crate::os::Mapping;
use crate::pool::PoolSlot;
use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering::*};

/// Frames of one chunk: 16 KiB of records. A larger chunk would use up a tiny limit.
pub(crate) const CHUNK: usize = 256;
/// Most chunks: 2^26 frames, 256 GiB of the smallest ones. The directory is address space, not memory.
const CHUNKS: usize = 1 << 18;

/// Types for which all-zero bytes are a value. A zeroed allocation is an array of them.
///
/// # Safety
/// Only for such types, and without drop glue.
pub(crate) unsafe trait Zeroed {}
// SAFETY: integers.
unsafe impl Zeroed for AtomicU8 {}

/// An array that grows by chunks, is read without a lock, and never moves its elements.
pub(crate) struct Chunked<T: Zeroed> {
    /// 1. A slot is null or points to `CHUNK` elements that live as long as `self`. It is set once, under the pager's
    ///    lock. The first number of that chunk is published after it (release), so a thread that has a number also sees
    ///    its chunk.
    directory: Mapping,
    _elements: PhantomData<T>,
}

impl<T: Zeroed> Chunked<T> {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { directory: Mapping::reserve(CHUNKS * size_of::<AtomicPtr<T>>())?, _elements: PhantomData })
    }

    fn slots(&self) -> &[AtomicPtr<T>] {
        // SAFETY: the mapping holds CHUNKS zeroed (null) pointers, page aligned, for as long as `self`.
        unsafe { std::slice::from_raw_parts(self.directory.as_ptr().cast(), CHUNKS) }
    }

    fn layout() -> Layout {
        // CHUNK times a small size: cannot overflow.
        Layout::array::<T>(CHUNK).unwrap_or(Layout::new::<T>())
    }

    /// Allocates chunk `c` if needed. Called under the pager's lock.
    pub(crate) fn grow(&self, c: usize) {
        let slot = &self.slots()[c];
        if slot.load(Relaxed).is_null() {
            let layout = Self::layout();
            // SAFETY: the layout is not empty.
            let ptr = unsafe { alloc_zeroed(layout) }.cast::<T>();
            if ptr.is_null() {
                handle_alloc_error(layout);
            }
            slot.store(ptr, Release);
        }
    }

    /// Element `i`, if its chunk exists.
    #[inline]
    pub(crate) fn get(&self, i: u32) -> Option<&T> {
        let i = i as usize;
        let chunk = self.slots().get(i / CHUNK)?.load(Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: invariant 1; `i % CHUNK` is inside the chunk.
        Some(unsafe { &*chunk.add(i % CHUNK) })
    }
}

impl<T: Zeroed> Drop for Chunked<T> {
    fn drop(&mut self) {
        for slot in self.slots() {
            let chunk = slot.load(Relaxed);
            if chunk.is_null() {
                // Chunks are allocated in order, so the rest of the directory is untouched. Reading it would make it
                // resident.
                break;
            }
            // SAFETY: allocated in `grow` with this layout; `Zeroed` types have no drop glue.
            unsafe { dealloc(chunk.cast(), Self::layout()) };
        }
    }
}

/// The state of a frame.
pub(crate) mod state {
    /// No page.
    pub(crate) const FREE: u32 = 0;
    /// Reserved; its page is being read or decoded.
    pub(crate) const LOADING: u32 = 1;
    /// Holds its page.
    pub(crate) const RESIDENT: u32 = 2;
    /// The evictor checks whether a worker has it pinned.
    pub(crate) const EVICTING: u32 = 3;
}

/// The use of a page.
pub(crate) mod used {
    /// Unused since the clock's hand last passed.
    pub(crate) const NO: u8 = 0;
    /// Used since then.
    pub(crate) const YES: u8 = 1;
    /// Unused since an eviction hint named it.
    pub(crate) const HINTED: u8 = 2;
}

/// One frame, on a cache line of its own. A worker that sets `referenced` on one page does not slow readers of its
/// neighbours.
#[repr(C, align(64))]
pub(crate) struct Frame {
    /// 1. Pinning: a worker stores its pin, fences, and then must read `RESIDENT` here and its page below. Evicting:
    ///    the evictor (under the lock) stores `EVICTING`, fences, and then must read no pin. Both fences are SeqCst, so
    ///    at least one of the two sees the other.
    pub(crate) state: AtomicU32,
    /// 2. Whether the page was used, as [`used`] says. A hint, written only when it changes: a page that all workers
    ///    use is not written by all of them.
    pub(crate) referenced: AtomicU8,
    /// 3. 0: demanded. 1: prefetched and not used yet. 2: prefetched and used since.
    pub(crate) prefetched: AtomicU8,
    /// 4. Holds on the page, which is evicted only at 0. Written under the lock only.
    pub(crate) holds: AtomicU32,
    /// 5. The page. Written only while `state` is not `RESIDENT`.
    array: AtomicU32,
    step: AtomicU32,
    page: AtomicU64,
    /// 6. The address and the length of the page. Written as 5.
    ptr: AtomicPtr<u8>,
    len: AtomicUsize,
    /// 7. The pager's tick when a worker last pinned or released it. A hint, as 2.
    pub(crate) stamp: AtomicU64,
}

// SAFETY: atomics of integers and a pointer: zero is a value of each. No drop glue.
unsafe impl Zeroed for Frame {}

impl Frame {
    /// The page of the frame.
    pub(crate) fn id(&self) -> PageId {
        PageId::new(ArrayId(self.array.load(Relaxed)), self.step.load(Relaxed), self.page.load(Relaxed))
    }

    #[inline]
    pub(crate) fn is(&self, id: PageId) -> bool {
        self.page.load(Relaxed) == id.page
            && self.array.load(Relaxed) == id.array.0
            && self.step.load(Relaxed) == id.step
    }

    #[inline]
    pub(crate) fn bytes(&self) -> (*mut u8, usize) {
        (self.ptr.load(Relaxed), self.len.load(Relaxed))
    }

    /// Sets the page of a frame. Only while the frame is not resident, under the lock.
    pub(crate) fn assign(&self, id: PageId, ptr: *mut u8, len: usize) {
        self.array.store(id.array.0, Relaxed);
        self.step.store(id.step, Relaxed);
        self.page.store(id.page, Relaxed);
        self.ptr.store(ptr, Relaxed);
        self.len.store(len, Relaxed);
        self.holds.store(0, Relaxed);
        self.state.store(state::LOADING, Release);
    }
}

/// The free frame numbers, and the slot of each used one. Under the lock.
#[derive(Default)]
pub(crate) struct FrameNumbers {
    free: Vec<u32>,
    slots: Vec<Option<PoolSlot>>,
}

// SAFETY: slots are addresses in the pool; see there.
unsafe impl Send for FrameNumbers {}

impl FrameNumbers {
    /// The chunk that the next number needs, if it is new.
    pub(crate) fn next_chunk(&self) -> Option<usize> {
        (self.free.is_empty() && self.slots.len().is_multiple_of(CHUNK)).then_some(self.slots.len() / CHUNK)
    }

    /// Whether all frame numbers are in use.
    pub(crate) fn exhausted(&self) -> bool {
        self.free.is_empty() && self.slots.len() >= CHUNK * CHUNKS
    }

    pub(crate) fn chunks(&self) -> usize {
        self.slots.len().div_ceil(CHUNK)
    }

    pub(crate) fn take(&mut self, slot: PoolSlot) -> u32 {
        match self.free.pop() {
            Some(n) => {
                self.slots[n as usize] = Some(slot);
                n
            }
            None => {
                // At most CHUNK * CHUNKS = 2^26 numbers: callers check `exhausted` first.
                let n = self.slots.len() as u32;
                self.slots.push(Some(slot));
                n
            }
        }
    }

    pub(crate) fn free(&mut self, frame: u32) -> Option<PoolSlot> {
        let slot = self.slots.get_mut(frame as usize)?.take()?;
        self.free.push(frame);
        Some(slot)
    }
}
