//! Hashes of page names, for the page table and for maps under the lock.

use crate::id::PageId;

/// Spreads pages. The high bits are the best mixed.
#[inline]
pub(crate) fn hash(id: PageId) -> u64 {
    let a = id.page.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let b = ((u64::from(id.array.0) << 32) | u64::from(id.step)).wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    (a ^ b.rotate_left(29)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Hashes pages, and other small numbers, for maps under locks. It takes some nanoseconds, and the standard library's
/// hash takes tens. Not for keys that an attacker may choose.
#[derive(Copy, Clone, Default)]
pub struct IdHash(u64);

impl std::hash::Hasher for IdHash {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u32(&mut self, v: u32) {
        self.write_u64(u64::from(v));
    }
    fn write_usize(&mut self, v: usize) {
        self.write_u64(v as u64);
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(29) ^ v).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// Makes [`IdHash`]es.
pub type PageHash = std::hash::BuildHasherDefault<IdHash>;
