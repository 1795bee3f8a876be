//! Four double lanes. The cell map needs lane permutations that portable vector crates lack. So this is a thin shell
//! over AVX2 + FMA if the build has them, else over plain arrays. Both round alike only with fused multiply-add:
//! results are promised bit for bit for one build on one CPU.

#[cfg(all(target_arch = "x86_64", target_feature = "avx2", target_feature = "fma"))]
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the intrinsics on values need AVX2 and FMA alone, which the cfg on this module guarantees; blocks that read or write memory say more"
)]
mod imp {
    use core::arch::x86_64::*;

    /// Two values in the low lanes; the others are 0.
    ///
    /// # Safety
    /// `p` and `p + 1` must be readable.
    #[inline(always)]
    unsafe fn two_f32(p: *const f32) -> __m128 {
        // SAFETY: the caller promises that these places can be read.
        unsafe { _mm_castsi128_ps(_mm_loadu_si64(p.cast())) }
    }

    /// Four doubles; lanes are named x, y, z, w.
    #[derive(Copy, Clone, Debug)]
    #[repr(transparent)]
    pub struct V4(__m256d);

    impl V4 {
        /// Lanes from values.
        #[inline(always)]
        pub fn new(x: f64, y: f64, z: f64, w: f64) -> Self {
            Self(unsafe { _mm256_setr_pd(x, y, z, w) })
        }
        /// The same value in each lane.
        #[inline(always)]
        pub fn splat(x: f64) -> Self {
            Self(unsafe { _mm256_set1_pd(x) })
        }
        /// Lanes as an array.
        #[inline(always)]
        pub fn to_array(self) -> [f64; 4] {
            let mut a = [0.0; 4];
            // SAFETY: the array has as many numbers as there are lanes.
            unsafe { _mm256_storeu_pd(a.as_mut_ptr(), self.0) };
            a
        }
        /// `self + a * b`, rounded once.
        #[inline(always)]
        pub fn fma(self, a: Self, b: Self) -> Self {
            Self(unsafe { _mm256_fmadd_pd(a.0, b.0, self.0) })
        }
        /// `self - a * b`, rounded once.
        #[inline(always)]
        pub fn fnma(self, a: Self, b: Self) -> Self {
            Self(unsafe { _mm256_fnmadd_pd(a.0, b.0, self.0) })
        }
        /// Lanes (y, z, x, w).
        #[inline(always)]
        pub fn yzx(self) -> Self {
            Self(unsafe { _mm256_permute4x64_pd::<0b11_00_10_01>(self.0) })
        }
        /// Lanes (z, x, y, w).
        #[inline(always)]
        pub fn zxy(self) -> Self {
            Self(unsafe { _mm256_permute4x64_pd::<0b11_01_00_10>(self.0) })
        }
        /// Lanes (y, x, x, x): weights of the first bilinear terms of the cell map.
        #[inline(always)]
        pub fn srrr(self) -> Self {
            Self(unsafe { _mm256_permute4x64_pd::<0b00_00_00_01>(self.0) })
        }
        /// Lanes (z, z, y, y): weights of the second.
        #[inline(always)]
        pub fn ttss(self) -> Self {
            Self(unsafe { _mm256_permute4x64_pd::<0b01_01_10_10>(self.0) })
        }
        /// Lane `N` in each lane.
        #[inline(always)]
        pub fn lane<const N: i32>(self) -> Self {
            Self(unsafe {
                match N {
                    0 => _mm256_permute4x64_pd::<0b00_00_00_00>(self.0),
                    1 => _mm256_permute4x64_pd::<0b01_01_01_01>(self.0),
                    2 => _mm256_permute4x64_pd::<0b10_10_10_10>(self.0),
                    _ => _mm256_permute4x64_pd::<0b11_11_11_11>(self.0),
                }
            })
        }
        /// First lane.
        #[inline(always)]
        pub fn first(self) -> f64 {
            unsafe { _mm256_cvtsd_f64(self.0) }
        }
        /// Lane-wise minimum; the second operand where either is NaN.
        #[inline(always)]
        pub fn min(self, o: Self) -> Self {
            Self(unsafe { _mm256_min_pd(self.0, o.0) })
        }
        /// Lane-wise maximum; the second operand where either is NaN.
        #[inline(always)]
        pub fn max(self, o: Self) -> Self {
            Self(unsafe { _mm256_max_pd(self.0, o.0) })
        }
        /// The next whole number at or below each lane.
        #[inline(always)]
        pub fn floor(self) -> Self {
            Self(unsafe { _mm256_floor_pd(self.0) })
        }
        /// Lane-wise absolute value.
        #[inline(always)]
        pub fn abs(self) -> Self {
            Self(unsafe { _mm256_andnot_pd(_mm256_set1_pd(-0.0), self.0) })
        }
        /// Whether `self < o` in each of the lanes x, y, z (false for NaN).
        #[inline(always)]
        pub fn all_less_xyz(self, o: Self) -> bool {
            unsafe { _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_LT_OQ>(self.0, o.0)) & 7 == 7 }
        }
        /// A mask of the lanes in which `self < o` (false for NaN).
        #[inline(always)]
        pub fn below(self, o: Self) -> Self {
            Self(unsafe { _mm256_cmp_pd::<_CMP_LT_OQ>(self.0, o.0) })
        }
        /// Lanes of `o` where the mask is set, else of `self`.
        #[inline(always)]
        pub fn replace(self, mask: Self, o: Self) -> Self {
            Self(unsafe { _mm256_blendv_pd(self.0, o.0, mask.0) })
        }
        /// Where both masks are set.
        #[inline(always)]
        pub fn both(self, o: Self) -> Self {
            Self(unsafe { _mm256_and_pd(self.0, o.0) })
        }
        /// Where either mask is set.
        #[inline(always)]
        pub fn either(self, o: Self) -> Self {
            Self(unsafe { _mm256_or_pd(self.0, o.0) })
        }
        /// A mask as bits, lane x lowest.
        #[inline(always)]
        pub fn bits(self) -> u8 {
            unsafe { _mm256_movemask_pd(self.0) as u8 }
        }
        /// Lane-wise square root.
        #[inline(always)]
        pub fn sqrt(self) -> Self {
            Self(unsafe { _mm256_sqrt_pd(self.0) })
        }
        /// Turns rows into columns.
        #[inline(always)]
        pub fn transpose(r: [Self; 4]) -> [Self; 4] {
            unsafe {
                let a = _mm256_unpacklo_pd(r[0].0, r[1].0);
                let b = _mm256_unpackhi_pd(r[0].0, r[1].0);
                let c = _mm256_unpacklo_pd(r[2].0, r[3].0);
                let d = _mm256_unpackhi_pd(r[2].0, r[3].0);
                [
                    Self(_mm256_permute2f128_pd::<0x20>(a, c)),
                    Self(_mm256_permute2f128_pd::<0x20>(b, d)),
                    Self(_mm256_permute2f128_pd::<0x31>(a, c)),
                    Self(_mm256_permute2f128_pd::<0x31>(b, d)),
                ]
            }
        }
        /// Two consecutive points in i, from a plane of values per component: lanes (x, y, z, 0) of each.
        ///
        /// # Safety
        /// `p[c]` and `p[c] + 1` must be readable.
        #[inline(always)]
        pub unsafe fn pair_of_planes_f32(p: [*const f32; 3]) -> [Self; 2] {
            // SAFETY: the caller promises that these places can be read.
            unsafe {
                let x = two_f32(p[0]);
                let y = two_f32(p[1]);
                let z = two_f32(p[2]);
                let xy = _mm_unpacklo_ps(x, y);
                let z0 = _mm_unpacklo_ps(z, _mm_setzero_ps());
                [Self(_mm256_cvtps_pd(_mm_movelh_ps(xy, z0))), Self(_mm256_cvtps_pd(_mm_movehl_ps(z0, xy)))]
            }
        }
        /// Two values at `a`, then two at `b`.
        ///
        /// # Safety
        /// `a`, `a + 1`, `b` and `b + 1` must be readable.
        #[inline(always)]
        pub unsafe fn pairs_f32(a: *const f32, b: *const f32) -> Self {
            // SAFETY: the caller promises that these places can be read.
            unsafe { Self(_mm256_cvtps_pd(_mm_movelh_ps(two_f32(a), two_f32(b)))) }
        }
        /// Smallest and largest of points of three components, in four rows of `points`. NaN are skipped, except in the
        /// first point.
        ///
        /// # Safety
        /// `points` is not 0, and 3 `points` values must be readable from each of `rows` on.
        #[inline(always)]
        pub unsafe fn bounds_f32(rows: [*const f32; 4], points: usize) -> [Self; 2] {
            // SAFETY: the caller promises that these places can be read.
            unsafe {
                // A load reads four values, with the first of the next point; the last point has no next.
                let one = |p: *const f32| _mm_movelh_ps(two_f32(p), _mm_load_ss(p.add(2)));
                let (mut lo, mut hi) = (one(rows[0]), one(rows[0]));
                for row in rows {
                    let mut p = row;
                    for _ in 1..points {
                        let v = _mm_loadu_ps(p);
                        (lo, hi) = (_mm_min_ps(v, lo), _mm_max_ps(v, hi));
                        p = p.add(3);
                    }
                    let v = one(p);
                    (lo, hi) = (_mm_min_ps(v, lo), _mm_max_ps(v, hi));
                }
                let none = _mm_setzero_ps();
                [lo, hi].map(|v| Self(_mm256_cvtps_pd(_mm_blend_ps::<0b1000>(v, none))))
            }
        }
        /// A point of three components: lanes (x, y, z, 0).
        ///
        /// # Safety
        /// `p` to `p + 2` must be readable.
        #[inline(always)]
        pub unsafe fn point_f32(p: *const f32) -> Self {
            // SAFETY: the caller promises that these places can be read.
            unsafe {
                let xy = two_f32(p);
                Self(_mm256_cvtps_pd(_mm_movelh_ps(xy, _mm_load_ss(p.add(2)))))
            }
        }
        /// Two consecutive points of three components: lanes (x, y, z, 0) of each.
        ///
        /// # Safety
        /// `p` to `p + 5` must be readable.
        #[inline(always)]
        pub unsafe fn pair_f32(p: *const f32) -> [Self; 2] {
            // SAFETY: the caller promises that these places can be read.
            unsafe {
                // The second load begins at z of the first point, so that it ends with the second.
                let a = _mm_loadu_ps(p);
                let b = _mm_loadu_ps(p.add(2));
                let none = _mm_setzero_ps();
                let a = _mm_blend_ps::<0b1000>(a, none);
                let b = _mm_blend_ps::<0b1000>(_mm_shuffle_ps::<0b00_11_10_01>(b, b), none);
                [Self(_mm256_cvtps_pd(a)), Self(_mm256_cvtps_pd(b))]
            }
        }
    }
    impl core::ops::Add for V4 {
        type Output = Self;
        #[inline(always)]
        fn add(self, o: Self) -> Self {
            Self(unsafe { _mm256_add_pd(self.0, o.0) })
        }
    }
    impl core::ops::Sub for V4 {
        type Output = Self;
        #[inline(always)]
        fn sub(self, o: Self) -> Self {
            Self(unsafe { _mm256_sub_pd(self.0, o.0) })
        }
    }
    impl core::ops::Mul for V4 {
        type Output = Self;
        #[inline(always)]
        fn mul(self, o: Self) -> Self {
            Self(unsafe { _mm256_mul_pd(self.0, o.0) })
        }
    }
    impl core::ops::Div for V4 {
        type Output = Self;
        #[inline(always)]
        fn div(self, o: Self) -> Self {
            Self(unsafe { _mm256_div_pd(self.0, o.0) })
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "avx2", target_feature = "fma")))]
mod imp {
    /// Four doubles; lanes are named x, y, z, w.
    #[derive(Copy, Clone, Debug)]
    #[repr(C, align(32))]
    pub struct V4([f64; 4]);

    impl V4 {
        /// Lanes from values.
        #[inline(always)]
        pub fn new(x: f64, y: f64, z: f64, w: f64) -> Self {
            Self([x, y, z, w])
        }
        /// The same value in each lane.
        #[inline(always)]
        pub fn splat(x: f64) -> Self {
            Self([x; 4])
        }
        /// Lanes as an array.
        #[inline(always)]
        pub fn to_array(self) -> [f64; 4] {
            self.0
        }
        #[inline(always)]
        fn zip(self, o: Self, f: impl Fn(f64, f64) -> f64) -> Self {
            Self(core::array::from_fn(|n| f(self.0[n], o.0[n])))
        }
        /// `self + a * b`, rounded once.
        #[inline(always)]
        pub fn fma(self, a: Self, b: Self) -> Self {
            Self(core::array::from_fn(|n| a.0[n].mul_add(b.0[n], self.0[n])))
        }
        /// `self - a * b`, rounded once.
        #[inline(always)]
        pub fn fnma(self, a: Self, b: Self) -> Self {
            Self(core::array::from_fn(|n| (-a.0[n]).mul_add(b.0[n], self.0[n])))
        }
        /// Lanes (y, z, x, w).
        #[inline(always)]
        pub fn yzx(self) -> Self {
            Self([self.0[1], self.0[2], self.0[0], self.0[3]])
        }
        /// Lanes (z, x, y, w).
        #[inline(always)]
        pub fn zxy(self) -> Self {
            Self([self.0[2], self.0[0], self.0[1], self.0[3]])
        }
        /// Lanes (y, x, x, x): weights of the first bilinear terms of the cell map.
        #[inline(always)]
        pub fn srrr(self) -> Self {
            Self([self.0[1], self.0[0], self.0[0], self.0[0]])
        }
        /// Lanes (z, z, y, y): weights of the second.
        #[inline(always)]
        pub fn ttss(self) -> Self {
            Self([self.0[2], self.0[2], self.0[1], self.0[1]])
        }
        /// Lane `N` in each lane.
        #[inline(always)]
        pub fn lane<const N: i32>(self) -> Self {
            Self([self.0[N as usize]; 4])
        }
        /// First lane.
        #[inline(always)]
        pub fn first(self) -> f64 {
            self.0[0]
        }
        /// Lane-wise minimum; the second operand where either is NaN.
        #[inline(always)]
        pub fn min(self, o: Self) -> Self {
            self.zip(o, |a, b| if a < b { a } else { b })
        }
        /// Lane-wise maximum; the second operand where either is NaN.
        #[inline(always)]
        pub fn max(self, o: Self) -> Self {
            self.zip(o, |a, b| if a > b { a } else { b })
        }
        /// The next whole number at or below each lane.
        #[inline(always)]
        pub fn floor(self) -> Self {
            Self(self.0.map(f64::floor))
        }
        /// Lane-wise absolute value.
        #[inline(always)]
        pub fn abs(self) -> Self {
            Self(self.0.map(f64::abs))
        }
        /// Whether `self < o` in each of the lanes x, y, z (false for NaN).
        #[inline(always)]
        pub fn all_less_xyz(self, o: Self) -> bool {
            (0..3).all(|n| self.0[n] < o.0[n])
        }
        /// A mask of the lanes in which `self < o` (false for NaN).
        #[inline(always)]
        pub fn below(self, o: Self) -> Self {
            self.zip(o, |a, b| f64::from_bits(if a < b { u64::MAX } else { 0 }))
        }
        /// Lanes of `o` where the mask is set, else of `self`.
        #[inline(always)]
        pub fn replace(self, mask: Self, o: Self) -> Self {
            Self(core::array::from_fn(|n| if mask.0[n].is_sign_negative() { o.0[n] } else { self.0[n] }))
        }
        /// Where both masks are set.
        #[inline(always)]
        pub fn both(self, o: Self) -> Self {
            self.zip(o, |a, b| f64::from_bits(a.to_bits() & b.to_bits()))
        }
        /// Where either mask is set.
        #[inline(always)]
        pub fn either(self, o: Self) -> Self {
            self.zip(o, |a, b| f64::from_bits(a.to_bits() | b.to_bits()))
        }
        /// A mask as bits, lane x lowest.
        #[inline(always)]
        pub fn bits(self) -> u8 {
            (0..4).fold(0, |bits, n| bits | u8::from(self.0[n].is_sign_negative()) << n)
        }
        /// Lane-wise square root.
        #[inline(always)]
        pub fn sqrt(self) -> Self {
            Self(self.0.map(f64::sqrt))
        }
        /// Turns rows into columns.
        #[inline(always)]
        pub fn transpose(r: [Self; 4]) -> [Self; 4] {
            core::array::from_fn(|c| Self(core::array::from_fn(|n| r[n].0[c])))
        }
        /// Two consecutive points in i, from a plane of values per component: lanes (x, y, z, 0) of each.
        ///
        /// # Safety
        /// `p[c]` and `p[c] + 1` must be readable.
        #[inline(always)]
        pub unsafe fn pair_of_planes_f32(p: [*const f32; 3]) -> [Self; 2] {
            core::array::from_fn(|n| {
                // SAFETY: the caller promises that these places can be read.
                let at = |c: usize| f64::from(unsafe { p[c].add(n).read_unaligned() });
                Self([at(0), at(1), at(2), 0.0])
            })
        }
        /// Two values at `a`, then two at `b`.
        ///
        /// # Safety
        /// `a`, `a + 1`, `b` and `b + 1` must be readable.
        #[inline(always)]
        pub unsafe fn pairs_f32(a: *const f32, b: *const f32) -> Self {
            // SAFETY: the caller promises that these places can be read.
            let at = |p: *const f32| f64::from(unsafe { p.read_unaligned() });
            Self([at(a), at(a.wrapping_add(1)), at(b), at(b.wrapping_add(1))])
        }
        /// Smallest and largest of points of three components, in four rows of `points`. NaN are skipped, except in the
        /// first point.
        ///
        /// # Safety
        /// `points` is not 0, and 3 `points` values must be readable from each of `rows` on.
        #[inline(always)]
        pub unsafe fn bounds_f32(rows: [*const f32; 4], points: usize) -> [Self; 2] {
            // SAFETY: the caller promises that these places can be read.
            let first = unsafe { Self::point_f32(rows[0]) };
            // SAFETY: the caller promises that these places can be read.
            let all = rows.into_iter().flat_map(|r| (0..points).map(move |n| unsafe { Self::point_f32(r.add(3 * n)) }));
            let (lo, hi) = all.fold((first, first), |(lo, hi), p| (p.min(lo), p.max(hi)));
            [lo, hi]
        }
        /// A point of three components: lanes (x, y, z, 0).
        ///
        /// # Safety
        /// `p` to `p + 2` must be readable.
        #[inline(always)]
        pub unsafe fn point_f32(p: *const f32) -> Self {
            // SAFETY: the caller promises that these places can be read.
            let at = |n: usize| f64::from(unsafe { p.add(n).read_unaligned() });
            Self([at(0), at(1), at(2), 0.0])
        }
        /// Two consecutive points of three components: lanes (x, y, z, 0) of each.
        ///
        /// # Safety
        /// `p` to `p + 5` must be readable.
        #[inline(always)]
        pub unsafe fn pair_f32(p: *const f32) -> [Self; 2] {
            // SAFETY: the caller promises that these places can be read.
            let at = |n: usize| f64::from(unsafe { p.add(n).read_unaligned() });
            [Self([at(0), at(1), at(2), 0.0]), Self([at(3), at(4), at(5), 0.0])]
        }
    }
    impl core::ops::Add for V4 {
        type Output = Self;
        #[inline(always)]
        fn add(self, o: Self) -> Self {
            self.zip(o, |a, b| a + b)
        }
    }
    impl core::ops::Sub for V4 {
        type Output = Self;
        #[inline(always)]
        fn sub(self, o: Self) -> Self {
            self.zip(o, |a, b| a - b)
        }
    }
    impl core::ops::Mul for V4 {
        type Output = Self;
        #[inline(always)]
        fn mul(self, o: Self) -> Self {
            self.zip(o, |a, b| a * b)
        }
    }
    impl core::ops::Div for V4 {
        type Output = Self;
        #[inline(always)]
        fn div(self, o: Self) -> Self {
            self.zip(o, |a, b| a / b)
        }
    }
}

pub use imp::V4;

/// Prefetches the cache line of an address. Only a hint: any address is allowed, and nothing is read.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is harmless.
    unsafe {
        use core::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    // Other processors get no hint.
    #[cfg(not(target_arch = "x86_64"))]
    let _unused = address;
}

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

impl V4 {
    /// Whether x, y and z are finite.
    #[inline(always)]
    pub fn is_finite_xyz(self) -> bool {
        self.abs().all_less_xyz(Self::splat(f64::INFINITY))
    }
    /// Zero in each lane.
    #[inline(always)]
    pub fn zero() -> Self {
        Self::splat(0.0)
    }
    /// Lanes x, y, z.
    #[inline(always)]
    pub fn xyz(self) -> [f64; 3] {
        let a = self.to_array();
        [a[0], a[1], a[2]]
    }
    /// (x, y, z, 0).
    #[inline(always)]
    pub fn from_xyz(p: [f64; 3]) -> Self {
        Self::new(p[0], p[1], p[2], 0.0)
    }
    /// Cross product of the lanes x, y, z; lane w is w w' - w w' = 0.
    #[inline(always)]
    pub fn cross(self, o: Self) -> Self {
        (self.yzx() * o.zxy()).fnma(self.zxy(), o.yzx())
    }
    /// Sum of the products of the lanes x, y, z.
    #[inline(always)]
    pub fn dot3(self, o: Self) -> f64 {
        let p = (self * o).to_array();
        p[0] + p[1] + p[2]
    }
    /// Euclidean length of the lanes x, y, z.
    #[inline(always)]
    pub fn length3(self) -> f64 {
        self.dot3(self).sqrt()
    }
}
