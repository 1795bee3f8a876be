//! Large blocks directly from the system. They return to it at once.
//!
//! # Theory
//! The ledger counts memory in use, the limit is on resident memory, and an allocator keeps freed memory between the
//! two. glibc keeps much. After the first large block is freed, it takes other blocks of that size from its arenas, one
//! for each thread. Memory below another block in an arena stays resident.
//!
//! | run | limit | with glibc alone | with blocks of [`APART`] and more apart |
//! |---|---|---|---|
//! | conversions | 48 MiB | up to 12 MiB over limit and base | 4 MiB below |
//! | conversions | 512 MiB | by chance 57 MiB over | 33 to 50 MiB below |
//! | surfaces and slices | 48 MiB | 2 to 3 MiB over | |
//!
//! Conversions take the same time, and their figures are always the same.
//!
//! glibc has a setting for this (`M_MMAP_THRESHOLD`), but it holds for the whole process. NumPy's arrays, which are the
//! caller's, would then be mapped anew each time.
//!
//! The network thread takes and frees a buffer for each reply. There a mapping for each cost a third of the thread's
//! time, so it keeps a few of them ([`keep_some`]).
//!
//! # Practice
//! [`Apart`] is the extension's `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Blocks of this many bytes and more have a mapping of their own. A mapping costs a few microseconds and a page fault
/// each 4 KiB. Below this size, the blocks that threads keep are small beside the memory left free for them. At 128 KiB
/// the lists of reads of one page of thousands of rows stayed below the threshold. Casting 160^3 doubles at 1600 x 900
/// then ended 0.7 to 1.1 MiB over a limit of 8 MiB. With this value it ends 0.3 to 0.5 MiB below.
pub const APART: usize = 64 << 10;

/// The system's allocator, except for large blocks.
#[derive(Copy, Clone, Debug, Default)]
pub struct Apart;

/// Whether a block of this size lies apart. Blocks aligned to more than a page of the system do not.
const fn is_apart(size: usize, align: usize) -> bool {
    size >= APART && align <= 4096
}

/// Mappings up to this size may be kept. Their lengths are few, so that one fits another block.
const KEPT_SIZE: usize = 512 << 10;
/// Mappings that a thread keeps.
const KEPT: usize = 8;
/// Bytes of them.
const KEPT_BYTES: usize = 1 << 20;

thread_local! {
    /// Whether this thread keeps mappings.
    static KEEPS: Cell<bool> = const { Cell::new(false) };
    static KEPT_BLOCKS: [Cell<(*mut u8, usize)>; KEPT] = const { [const { Cell::new((std::ptr::null_mut(), 0)) }; KEPT] };
}

/// From now on this thread keeps up to 1 MiB of the mappings that it frees. They are never given back, so it is one that
/// lives as long as the process.
pub fn keep_some() {
    KEEPS.set(true);
}

/// Length of the mapping of a block: one of four in each power of two, as far as mappings may be kept. Pages that nobody
/// touches take no memory.
const fn mapped(size: usize) -> usize {
    if size > KEPT_SIZE {
        return size;
    }
    let step = (size.next_power_of_two() / 8).next_multiple_of(4096);
    size.next_multiple_of(step)
}

/// A kept mapping of that length.
fn take_kept(len: usize) -> Option<*mut u8> {
    if !KEEPS.get() || len > KEPT_SIZE {
        return None;
    }
    KEPT_BLOCKS.with(|blocks| {
        let found = blocks.iter().find(|block| block.get().1 == len)?;
        Some(found.replace((std::ptr::null_mut(), 0)).0)
    })
}

/// Keeps a mapping, if there is room for it.
fn keep(p: *mut u8, len: usize) -> bool {
    if !KEEPS.get() || len > KEPT_SIZE {
        return false;
    }
    KEPT_BLOCKS.with(|blocks| {
        let bytes: usize = blocks.iter().map(|block| block.get().1).sum();
        let free = blocks.iter().find(|block| block.get().1 == 0 && bytes + len <= KEPT_BYTES);
        free.is_some_and(|free| {
            free.set((p, len));
            true
        })
    })
}

fn unmap(p: *mut u8, size: usize) {
    let len = mapped(size);
    if !keep(p, len) {
        // SAFETY: a mapping of that many bytes, made by `map`, which its owner no longer uses.
        unsafe { libc::munmap(p.cast(), len) };
    }
}

fn map(size: usize) -> *mut u8 {
    let size = mapped(size);
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
    let found = unsafe { libc::mmap(std::ptr::null_mut(), size, rights, flags, -1, 0) };
    if found == libc::MAP_FAILED {
        return std::ptr::null_mut();
    }
    found.cast()
}

// SAFETY: the layout alone decides whether a block is the system's allocator's or a mapping. The caller passes the same
// layout to free it, so each returns to its origin. Mappings begin at pages, are zeroed, and overlap nothing.
unsafe impl GlobalAlloc for Apart {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_apart(layout.size(), layout.align()) {
            return take_kept(mapped(layout.size())).unwrap_or_else(|| map(layout.size()));
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_apart(layout.size(), layout.align()) {
            return map(layout.size());
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        if is_apart(layout.size(), layout.align()) {
            return unmap(p, layout.size());
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (was, will) = (is_apart(layout.size(), layout.align()), is_apart(size, layout.align()));
        if was && will {
            let (from, to) = (mapped(layout.size()), mapped(size));
            // SAFETY: as above. The kernel moves the pages, not the bytes.
            let moved = unsafe { libc::mremap(p.cast(), from, to, libc::MREMAP_MAYMOVE) };
            return if moved == libc::MAP_FAILED { std::ptr::null_mut() } else { moved.cast() };
        }
        if !was && !will {
            // SAFETY: the caller's promise.
            return unsafe { System.realloc(p, layout, size) };
        }
        // SAFETY: the caller promises that `size`, rounded up to the alignment, is a valid size. The new block is not
        // in use, and both have at least the copied bytes.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                std::ptr::copy_nonoverlapping(p, new, layout.size().min(size));
                self.dealloc(p, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_bytes_while_they_grow_and_shrink() {
        let sizes = [1, 4096, APART - 1, APART, APART + 1, 3 * APART, 64 << 20, 2 * APART, APART - 8, 100, 5 * APART];
        for align in [1usize, 64, 4096, 8192] {
            let mut layout = Layout::from_size_align(sizes[0], align).unwrap();
            // SAFETY: layouts are those of the blocks, and only written bytes are read.
            unsafe {
                let mut p = Apart.alloc_zeroed(layout);
                for (n, size) in sizes.into_iter().enumerate().skip(1) {
                    assert!(!p.is_null() && p.addr().is_multiple_of(align), "{size} {align}");
                    p.write(n as u8);
                    p.add(layout.size() / 2).write(n as u8);
                    let both = [0, layout.size() / 2].map(|at| (at < size).then_some(at));
                    p = Apart.realloc(p, layout, size);
                    layout = Layout::from_size_align(size, align).unwrap();
                    for at in both.into_iter().flatten() {
                        assert_eq!(p.add(at).read(), n as u8, "{size} {align}");
                    }
                }
                Apart.dealloc(p, layout);
                let layout = Layout::from_size_align(APART, align).unwrap();
                let p = Apart.alloc_zeroed(layout);
                assert!((0..APART).all(|n| p.add(n).read() == 0));
                Apart.dealloc(p, layout);
            }
        }
    }

    #[test]
    fn a_thread_that_keeps_blocks_gives_them_out_again() {
        for size in [APART, APART + 1, 100_000, 300_000, KEPT_SIZE] {
            let len = mapped(size);
            assert!(len >= size && len <= size + size / 4 + 4096 && len.is_multiple_of(4096), "{size}");
            assert_eq!(mapped(len), len);
        }
        assert_eq!(mapped(KEPT_SIZE + 1), KEPT_SIZE + 1);
        let kept = || KEPT_BLOCKS.with(|blocks| blocks.iter().map(|block| block.get().1).sum::<usize>());
        let thread = std::thread::spawn(move || {
            let layout = Layout::from_size_align(100_000, 8).unwrap();
            // SAFETY: layouts are those of the blocks.
            unsafe {
                Apart.dealloc(Apart.alloc(layout), layout);
                assert_eq!(kept(), 0, "not before it is told to");
                keep_some();
                let p = Apart.alloc(layout);
                p.write(7);
                Apart.dealloc(p, layout);
                assert_eq!(kept(), mapped(100_000));
                let zeroed = Apart.alloc_zeroed(Layout::from_size_align(100_001, 8).unwrap());
                assert_eq!(zeroed.read(), 0);
                Apart.dealloc(zeroed, Layout::from_size_align(100_001, 8).unwrap());
                let again = Apart.alloc(layout);
                assert!(again == p || again == zeroed);
                let many: Vec<*mut u8> = (0..40).map(|_| Apart.alloc(layout)).collect();
                many.into_iter().chain([again]).for_each(|p| Apart.dealloc(p, layout));
                assert!(kept() <= KEPT_BYTES);
            }
        });
        thread.join().unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_given_back_is_not_resident() {
        let layout = Layout::from_size_align(64 << 20, 8).unwrap();
        // SAFETY: as above.
        unsafe {
            let p = Apart.alloc(layout);
            (0..layout.size()).step_by(4096).for_each(|at| p.add(at).write(1));
            let with = crate::process::resident_bytes();
            Apart.dealloc(p, layout);
            assert!(with - crate::process::resident_bytes().min(with) > 60 << 20);
        }
    }
}
