//! Arithmetic of voxels: exact sums, means rounded to the nearest, and limits rounded outward to single precision.

use field::volume::Voxel;

/// A type of voxels with the operations of levels and ranges.
pub trait VoxelNumber: Voxel + PartialEq {
    /// The sum of eight of them: exact for integers, in double precision for others.
    type Sum: Copy + std::ops::Add<Output = Self::Sum>;
    /// No number is larger.
    const LARGEST: Self;
    /// No number is smaller.
    const SMALLEST: Self;
    /// Zero.
    const ZERO: Self::Sum;
    /// As a summand.
    fn widen(self) -> Self::Sum;
    /// The mean of 2^`SHIFT` numbers with this sum; an integer is rounded to the nearest, halves to even.
    fn mean_of<const SHIFT: u32>(sum: Self::Sum) -> Self;
    /// The same for any count from 1 to 8.
    fn mean(sum: Self::Sum, count: u32) -> Self;
    /// Whether it is NaN.
    fn is_nothing(self) -> bool;
    /// Whether it is neither NaN nor infinite.
    fn is_plain(self) -> bool;
    /// An eighth, for sums that overflow; integers never do.
    fn eighth(self) -> Self::Sum;
    /// The mean from [`Self::eighth`]s.
    fn mean_of_eighths(sum: Self::Sum, count: u32) -> Self;
    /// The largest number in single precision up to it.
    fn below(self) -> f32;
    /// The smallest number in single precision from it on.
    fn above(self) -> f32;
}

macro_rules! whole {
    ($($t:ty => $sum:ty),*) => { $(
        impl VoxelNumber for $t {
            type Sum = $sum;
            const LARGEST: Self = <$t>::MAX;
            const SMALLEST: Self = <$t>::MIN;
            const ZERO: $sum = 0;
            #[inline(always)]
            fn widen(self) -> $sum { self as $sum }
            #[inline(always)]
            fn mean_of<const SHIFT: u32>(sum: $sum) -> Self {
                if SHIFT == 0 {
                    return sum as Self;
                }
                // A shift rounds down; the offset makes that the nearest, and of two the even one.
                let half = (1 << (SHIFT - 1)) - 1;
                (sum.wrapping_add(half).wrapping_add((sum >> SHIFT) & 1) >> SHIFT) as Self
            }
            fn mean(sum: $sum, count: u32) -> Self {
                let n = count as $sum;
                let (q, r) = (sum.div_euclid(n), sum.rem_euclid(n));
                let up = 2 * r > n || 2 * r == n && q & 1 == 1;
                (q + <$sum>::from(up)) as Self
            }
            #[inline(always)]
            fn is_nothing(self) -> bool { false }
            #[inline(always)]
            fn is_plain(self) -> bool { true }
            fn eighth(self) -> $sum { self as $sum }
            fn mean_of_eighths(sum: $sum, count: u32) -> Self { Self::mean(sum, count) }
            fn below(self) -> f32 {
                let near = self as f32;
                if near as i128 > self as i128 { near.next_down() } else { near }
            }
            fn above(self) -> f32 {
                let near = self as f32;
                if (near as i128) < self as i128 { near.next_up() } else { near }
            }
        }
    )* };
}

whole!(u8 => u16, i8 => i16, u16 => u32, i16 => i32, u32 => u64, i32 => i64, u64 => u128, i64 => i128);

macro_rules! real {
    ($($t:ty),*) => { $(
        impl VoxelNumber for $t {
            type Sum = f64;
            const LARGEST: Self = <$t>::INFINITY;
            const SMALLEST: Self = <$t>::NEG_INFINITY;
            const ZERO: f64 = 0.0;
            #[inline(always)]
            fn widen(self) -> f64 { f64::from(self) }
            #[inline(always)]
            fn mean_of<const SHIFT: u32>(sum: f64) -> Self { (sum * (1.0 / f64::from(1u32 << SHIFT))) as Self }
            fn mean(sum: f64, count: u32) -> Self { (sum / f64::from(count)) as Self }
            #[inline(always)]
            fn is_nothing(self) -> bool { self.is_nan() }
            #[inline(always)]
            fn is_plain(self) -> bool { self.is_finite() }
            fn eighth(self) -> f64 { f64::from(self) * 0.125 }
            fn mean_of_eighths(sum: f64, count: u32) -> Self { (sum * (8.0 / f64::from(count))) as Self }
            fn below(self) -> f32 {
                let near = self as f32;
                if f64::from(near) > f64::from(self) { near.next_down() } else { near }
            }
            fn above(self) -> f32 {
                let near = self as f32;
                if f64::from(near) < f64::from(self) { near.next_up() } else { near }
            }
        }
    )* };
}

real!(f32, f64);

/// Elements of voxels of one type. Unaligned bytes, and those behind the last whole one, are omitted.
pub fn elements<T: VoxelNumber>(bytes: &[u8]) -> &[T] {
    // SAFETY: every bit pattern is a valid integer or float, and `align_to` handles alignment and length.
    unsafe { bytes.align_to().1 }
}

/// As [`elements`], mutable.
pub(super) fn elements_mut<T: VoxelNumber>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: as above, and every value is valid bytes.
    unsafe { bytes.align_to_mut().1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_round_half_to_even() {
        for (sum, want) in [(4u16, 0u8), (12, 2), (20, 2), (28, 4), (5, 1), (11, 1), (13, 2), (2040, 255)] {
            assert_eq!(<u8 as VoxelNumber>::mean_of::<3>(sum), want, "{sum}");
            assert_eq!(<u8 as VoxelNumber>::mean(sum, 8), want, "{sum}");
        }
        for sum in -1024i16..=1016 {
            assert_eq!(<i8 as VoxelNumber>::mean_of::<3>(sum), (f64::from(sum) / 8.0).round_ties_even() as i8, "{sum}");
            assert_eq!(<i8 as VoxelNumber>::mean(sum, 8), (f64::from(sum) / 8.0).round_ties_even() as i8, "{sum}");
        }
        assert_eq!(<i16 as VoxelNumber>::mean(-5, 3), -2);
        assert_eq!(<u64 as VoxelNumber>::mean_of::<3>(8 * u128::from(u64::MAX)), u64::MAX);
        assert_eq!(<i64 as VoxelNumber>::mean_of::<1>(2 * i128::from(i64::MIN)), i64::MIN);
        assert_eq!(<f64 as VoxelNumber>::mean_of_eighths(8.0 * f64::MAX.eighth(), 8), f64::MAX);
    }

    #[test]
    fn limits_contain_what_they_limit() {
        let near = |x: u64| (x.below() as i128 <= x as i128) && (x.above() as i128 >= x as i128);
        assert!([0, 1, (1 << 24) + 1, u64::MAX, u64::MAX - 1, 1 << 63].into_iter().all(near));
        assert_eq!((i64::MIN.below(), i64::MAX.above()), (-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0));
        assert_eq!((((1u32 << 24) + 1).below(), ((1u32 << 24) + 1).above()), (16_777_216.0, 16_777_218.0));
        assert_eq!((1e300f64.below(), 1e300f64.above()), (f32::MAX, f32::INFINITY));
        assert_eq!(((-1e300f64).below(), (-1e300f64).above()), (f32::NEG_INFINITY, f32::MIN));
        assert_eq!((0.1f64.below() as f64 <= 0.1, 0.1f64.above() as f64 >= 0.1), (true, true));
        assert_eq!(7.25f32.below(), 7.25);
    }
}
