//! Memory of blocks.

use super::BLOCK;
use std::io;
use std::ptr::NonNull;

/// Memory for a number of blocks. A block takes none until it is written, and none after [`Self::give_back`].
pub(super) struct BlockMemory {
    ptr: NonNull<u8>,
    blocks: usize,
}

// SAFETY: it is memory, and its owner decides who uses which part.
unsafe impl Send for BlockMemory {}

impl BlockMemory {
    /// No memory.
    pub(super) fn none() -> Self {
        Self { ptr: NonNull::dangling(), blocks: 0 }
    }

    /// Reserves addresses.
    ///
    /// # Errors
    /// When the process has none left.
    pub(super) fn reserve(blocks: usize) -> io::Result<Self> {
        if blocks == 0 {
            return Ok(Self::none());
        }
        let len = blocks * BLOCK;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
        let ptr = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if ptr == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range is the mapping just made. Both are hints: with huge pages a block could not be given back,
        // and a core dump needs none of it.
        unsafe {
            libc::madvise(ptr, len, libc::MADV_NOHUGEPAGE);
            libc::madvise(ptr, len, libc::MADV_DONTDUMP);
        }
        let ptr = NonNull::new(ptr.cast()).ok_or_else(|| io::Error::other("mmap gave the null page"))?;
        Ok(Self { ptr, blocks })
    }

    /// The bytes of a block.
    pub(super) fn block(&self, number: u32) -> &[u8] {
        assert!((number as usize) < self.blocks);
        // SAFETY: the block is inside the mapping, and writing it needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr().add(number as usize * BLOCK), BLOCK) }
    }

    /// The bytes of a block, for writing.
    pub(super) fn block_mut(&mut self, number: u32) -> &mut [u8] {
        assert!((number as usize) < self.blocks);
        // SAFETY: the block is inside the mapping, and nothing else is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr().add(number as usize * BLOCK), BLOCK) }
    }

    /// Gives the memory of blocks back to the system. They read as zeros afterwards.
    pub(super) fn give_back(&mut self, first: u32, count: usize) {
        assert!(first as usize + count <= self.blocks);
        // SAFETY: the range is inside the mapping, and nothing of it is borrowed.
        unsafe {
            let at = self.ptr.as_ptr().add(first as usize * BLOCK);
            libc::madvise(at.cast(), count * BLOCK, libc::MADV_DONTNEED);
        }
    }
}

impl Drop for BlockMemory {
    fn drop(&mut self) {
        if self.blocks > 0 {
            // SAFETY: the range was mapped by `reserve` and is unmapped once.
            unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.blocks * BLOCK) };
        }
    }
}
