//! Large blocks of memory straight from the system, to which they go back at once.
//!
//! # Theory
//! The ledger knows what is in use, the limit is about what is resident, and between the two lies what an allocator keeps of what was
//! freed. glibc's keeps much: from the first large block that is freed on it takes others of that size out of its arenas, of which each
//! thread has one, and what lies below another block in an arena stays resident. Conversions went over limit and base by up to 12 MiB of
//! 48 and, by chance, 57 of 512; surfaces and slices by 2 to 3 MiB of 48. With blocks of [`APART`] and more apart, the same
//! conversions stay 4 MiB below 48 and 33 to 50 below 512, in the same time, and always the same.
//!
//! glibc can be told so itself (`M_MMAP_THRESHOLD`), but then for the whole process, in which NumPy's arrays are the caller's: those would
//! be mapped anew each time.
//!
//! # Practice
//! [`Apart`] is the extension's `#[global_allocator]`.

use std::alloc::{GlobalAlloc, Layout, System};

/// Blocks from so many bytes on have a mapping of their own. A mapping costs a few microseconds and a page fault each 4 KiB; below this,
/// what threads keep is small beside what is left free for it. With 128 KiB the lists of what is read of a page that is made of thousands
/// of rows stayed below, and 160^3 doubles at 1600 x 900 were cast 0.7 to 1.1 MiB over a limit of 8 MiB; with this, 0.3 to 0.5 below.
pub const APART: usize = 64 << 10;

/// The system's allocator, but for large blocks.
#[derive(Copy, Clone, Debug, Default)]
pub struct Apart;

/// Whether a block of these bytes lies apart: what is aligned to more than a page of the system does not.
const fn is_apart(size: usize, align: usize) -> bool {
    size >= APART && align <= 4096
}

fn map(size: usize) -> *mut u8 {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
    let found = unsafe { libc::mmap(std::ptr::null_mut(), size, rights, flags, -1, 0) };
    if found == libc::MAP_FAILED {
        return std::ptr::null_mut();
    }
    found.cast()
}

// SAFETY: a block is the system's allocator's or a mapping by its layout alone, which whoever gives it back knows, so that each goes
// back to where it came from. Mappings begin at pages, are zeroed, and overlap nothing.
unsafe impl GlobalAlloc for Apart {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_apart(layout.size(), layout.align()) {
            return map(layout.size());
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
            // SAFETY: a mapping of that many bytes, made by `map`, which its owner gives up.
            unsafe { libc::munmap(p.cast(), layout.size()) };
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (was, will) = (is_apart(layout.size(), layout.align()), is_apart(size, layout.align()));
        if was && will {
            // SAFETY: as above. The kernel moves the pages, not the bytes.
            let moved = unsafe { libc::mremap(p.cast(), layout.size(), size, libc::MREMAP_MAYMOVE) };
            return if moved == libc::MAP_FAILED { std::ptr::null_mut() } else { moved.cast() };
        }
        if !was && !will {
            // SAFETY: the caller's promise.
            return unsafe { System.realloc(p, layout, size) };
        }
        // SAFETY: the caller promises that `size`, rounded up to the alignment, is a size; the new block is none that is in use, and
        // both have at least the bytes that are copied.
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
            // SAFETY: layouts are those of the blocks, and what is read was written.
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
