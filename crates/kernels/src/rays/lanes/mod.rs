//! Eight lanes of 32 bits: AVX2 and FMA if the build has them, otherwise plain arrays. Both round equally where there
//! is a fused multiply-add.

#[cfg(all(target_arch = "x86_64", target_feature = "avx2", target_feature = "fma"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "avx2", target_feature = "fma"))]
use avx2 as imp;
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2", target_feature = "fma")))]
mod plain;
#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2", target_feature = "fma")))]
use plain as imp;

pub(crate) use imp::{pairs_f32, D4, F4, F8, I4, I8};

/// A bit for each of the first `count` of eight lanes. `count` is at least one, and above eight it counts as eight.
#[inline(always)]
pub(crate) fn firsts(count: i32) -> u32 {
    255 >> (8 - count.min(8))
}

/// The byte 1 in each of eight.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Numbers of the set bits in `mask` (of eight), plus `first`, as bytes from the lowest on.
#[inline(always)]
pub(crate) fn numbers(mask: u32, first: u32) -> u64 {
    #[cfg(all(target_arch = "x86_64", target_feature = "bmi2"))]
    {
        use core::arch::x86_64::{_pdep_u64, _pext_u64};
        // SAFETY: the cfg guarantees BMI2.
        let bytes = unsafe {
            let whole = _pdep_u64(u64::from(mask), ONES).wrapping_mul(255);
            _pext_u64(0x0706_0504_0302_0100, whole)
        };
        bytes.wrapping_add(u64::from(first).wrapping_mul(ONES))
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "bmi2")))]
    {
        let (mut out, mut at) = (u64::from(first).wrapping_mul(ONES), 0);
        for n in (0..8u64).filter(|n| mask >> n & 1 == 1) {
            out = out.wrapping_add(n << at);
            at += 8;
        }
        out
    }
}

/// Copies sixteen bytes that are `stride` (2 to 4) apart.
///
/// # Safety
/// `16 * stride` bytes from `p` on can be read, and sixteen written to `to`.
#[inline(always)]
pub(crate) unsafe fn pick(p: *const u8, stride: usize, to: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        match stride {
            2 => imp::pick::<2>(p, to),
            3 => imp::pick::<3>(p, to),
            _ => imp::pick::<4>(p, to),
        }
    }
}

/// A bit for each zero among eight bytes.
#[inline(always)]
pub(crate) fn zeros(bytes: u64) -> u32 {
    // Exact, since no byte here is above 127: adding 127 sets the highest bit of every other byte.
    let set = bytes.wrapping_add(0x7f * ONES) & (0x80 * ONES);
    let none = !set & (0x80 * ONES);
    // Gathers the highest bits in the highest byte.
    ((none >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_bytes() {
        assert_eq!([1, 3, 8, 64].map(firsts), [1, 7, 255, 255]);
        for mask in 0..256u32 {
            let n = numbers(mask, 16).to_le_bytes();
            let set: Vec<u8> = (0..8).filter(|b| mask >> b & 1 == 1).map(|b| b + 16).collect();
            assert_eq!(&n[..set.len()], &set[..]);
            let bytes: [u8; 8] =
                core::array::from_fn(|b| if mask >> b & 1 == 1 { 0 } else { (1 + (b * 37) % 127) as u8 });
            assert_eq!(zeros(u64::from_le_bytes(bytes)), mask);
        }
    }

    #[test]
    fn bytes_that_are_apart() {
        for stride in 2..=4 {
            let bytes: Vec<u8> = (0..16 * stride).map(|n| (n * 59 + 7) as u8).collect();
            let mut found = [0; 16];
            // SAFETY: that many bytes are there.
            unsafe { pick(bytes.as_ptr(), stride, found.as_mut_ptr()) };
            let apart: Vec<u8> = bytes.iter().step_by(stride).copied().collect();
            assert_eq!(found[..], apart[..]);
        }
    }

    #[test]
    fn lanes_at_both_ends_and_those_that_are_like_them() {
        let lanes = I8::bytes(u64::from_le_bytes([7, 7, 7, 9, 7, 9, 9, 9]));
        assert_eq!(lanes.ends(), [7, 9]);
        let chosen = lanes.equal(I8::splat(7)).choose(I8::splat(-1), I8::lanes());
        assert_eq!(chosen.to_array(), [-1, -1, -1, 3, -1, 5, 6, 7]);
    }

    #[test]
    fn two_rows_of_bytes_times_weights() {
        let bytes: Vec<u8> = (0..200u32).map(|n| (n * 151 + 13) as u8).collect();
        let at = [0, 3, 190, 17, 64, 121, 5, 99];
        let weights = |n: usize| [16384 - 2000 * n as i32, 2000 * n as i32];
        let by = I8::lanes().to_array().map(|n| weights(n as usize)).map(|[a, b]| a | b << 16);
        // SAFETY: eight bytes from each are there, and so are eight lanes.
        let found = unsafe { I8::dot_rows_u8::<5>(bytes.as_ptr(), &at, I8::load(by.as_ptr())) };
        for (row, found) in found.map(I8::to_array).into_iter().enumerate() {
            for n in 0..8 {
                let [a, b] = [0, 1].map(|next| i32::from(bytes[at[n] as usize + 5 * row + next]));
                assert_eq!(found[n], a * weights(n)[0] + b * weights(n)[1], "row {row}, lane {n}");
            }
        }
    }

    #[test]
    fn boxes_of_voxels() {
        let v = I4::new([3, -2, 7, 9]);
        let (low, high) = (I4::new([3, -2, 0, 0]), I4::new([4, 0, 8, 0]));
        assert!(v.within(low, high));
        assert!(!v.within(low, I4::new([3, 0, 8, 0])) && !v.within(I4::new([3, -1, 0, 0]), high));
        assert_eq!(v.sum3(), 8);
        assert_eq!(v.negative(I4::splat(1), I4::splat(2)).to_array(), [2, 1, 2, 2]);
        assert_eq!(v.to_f4().least3(5.0), -2.0);
    }
}
