//! Lanes in AVX2 and FMA.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the intrinsics on values need AVX2 and FMA alone, which the cfg on this module guarantees; blocks that read or write memory say more"
)]

use core::arch::x86_64::*;

/// Eight single-precision numbers.
#[derive(Copy, Clone)]
#[repr(transparent)]
pub(crate) struct F8(pub __m256);

/// Eight 32-bit integers.
#[derive(Copy, Clone)]
#[repr(transparent)]
pub(crate) struct I8(pub __m256i);

/// Four single-precision numbers.
#[derive(Copy, Clone)]
#[repr(transparent)]
pub(crate) struct F4(pub __m128);

impl F8 {
    #[inline(always)]
    pub(crate) fn splat(x: f32) -> Self {
        Self(unsafe { _mm256_set1_ps(x) })
    }
    #[inline(always)]
    pub(crate) fn from(a: [f32; 8]) -> Self {
        // SAFETY: the array has as many numbers as there are lanes.
        Self(unsafe { _mm256_loadu_ps(a.as_ptr()) })
    }
    #[inline(always)]
    pub(crate) fn sub(self, o: Self) -> Self {
        Self(unsafe { _mm256_sub_ps(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn to_array(self) -> [f32; 8] {
        let mut a = [0.0; 8];
        // SAFETY: the array has as many numbers as there are lanes.
        unsafe { _mm256_storeu_ps(a.as_mut_ptr(), self.0) };
        a
    }
    /// Lanes with a set bit; all others are those of `o`.
    #[inline(always)]
    pub(crate) fn among(self, bits: u32, o: Self) -> Self {
        unsafe {
            let own = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits as i32), own), own);
            Self(_mm256_blendv_ps(o.0, self.0, _mm256_castsi256_ps(set)))
        }
    }
    /// `self + a * b`, rounded once.
    #[inline(always)]
    pub(crate) fn fma(self, a: Self, b: Self) -> Self {
        Self(unsafe { _mm256_fmadd_ps(a.0, b.0, self.0) })
    }
    /// `self - a * b`, rounded once.
    #[inline(always)]
    pub(crate) fn fnma(self, a: Self, b: Self) -> Self {
        Self(unsafe { _mm256_fnmadd_ps(a.0, b.0, self.0) })
    }
    /// Four and four.
    #[inline(always)]
    pub(crate) fn pair(a: F4, b: F4) -> Self {
        Self(unsafe { _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(a.0), b.0) })
    }
    /// The first four, or the others.
    #[inline(always)]
    pub(crate) fn half(self, n: usize) -> F4 {
        F4(unsafe {
            if n == 0 {
                _mm256_castps256_ps128(self.0)
            } else {
                _mm256_extractf128_ps::<1>(self.0)
            }
        })
    }
    /// The last lane of each four in all of them.
    #[inline(always)]
    pub(crate) fn last(self) -> Self {
        Self(unsafe { _mm256_permute_ps::<0b11_11_11_11>(self.0) })
    }
    #[inline(always)]
    pub(crate) fn any_at_most(self, most: Self) -> bool {
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(self.0, most.0)) != 0 }
    }
    /// The larger; `least` for NaN.
    #[inline(always)]
    pub(crate) fn at_least(self, least: Self) -> Self {
        Self(unsafe { _mm256_max_ps(self.0, least.0) })
    }
    #[inline(always)]
    pub(crate) fn at_most(self, most: Self) -> Self {
        Self(unsafe { _mm256_min_ps(self.0, most.0) })
    }
    /// To the nearest integers, those halfway to the even ones.
    #[inline(always)]
    pub(crate) fn round(self) -> I8 {
        I8(unsafe { _mm256_cvtps_epi32(self.0) })
    }
    /// `of` in lanes where `self` is a number, `or` elsewhere.
    #[inline(always)]
    pub(crate) fn number(self, of: I8, or: I8) -> I8 {
        unsafe {
            let m = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_ORD_Q>(self.0, self.0));
            I8(_mm256_blendv_epi8(or.0, of.0, m))
        }
    }
}

impl I8 {
    #[inline(always)]
    pub(crate) fn splat(x: i32) -> Self {
        Self(unsafe { _mm256_set1_epi32(x) })
    }
    #[inline(always)]
    pub(crate) fn lanes() -> Self {
        Self(unsafe { _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7) })
    }
    #[inline(always)]
    pub(crate) fn add(self, o: Self) -> Self {
        Self(unsafe { _mm256_add_epi32(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn sub(self, o: Self) -> Self {
        Self(unsafe { _mm256_sub_epi32(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn mul(self, o: Self) -> Self {
        Self(unsafe { _mm256_mullo_epi32(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn and(self, o: Self) -> Self {
        Self(unsafe { _mm256_and_si256(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn or(self, o: Self) -> Self {
        Self(unsafe { _mm256_or_si256(self.0, o.0) })
    }
    /// All ones in lanes that are the same.
    #[inline(always)]
    pub(crate) fn equal(self, o: Self) -> Self {
        Self(unsafe { _mm256_cmpeq_epi32(self.0, o.0) })
    }
    /// For lanes that are all ones or all zeros: `a` where they are ones, `b` elsewhere.
    #[inline(always)]
    pub(crate) fn choose(self, a: Self, b: Self) -> Self {
        Self(unsafe { _mm256_blendv_epi8(b.0, a.0, self.0) })
    }
    /// The first lane and the last.
    #[inline(always)]
    pub(crate) fn ends(self) -> [i32; 2] {
        unsafe { [_mm256_extract_epi32::<0>(self.0), _mm256_extract_epi32::<7>(self.0)] }
    }
    /// All ones in lanes where `self` is above `o`.
    #[inline(always)]
    pub(crate) fn above(self, o: Self) -> Self {
        Self(unsafe { _mm256_cmpgt_epi32(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn down<const N: i32>(self) -> Self {
        Self(unsafe { _mm256_srai_epi32::<N>(self.0) })
    }
    #[inline(always)]
    pub(crate) fn up<const N: i32>(self) -> Self {
        Self(unsafe { _mm256_slli_epi32::<N>(self.0) })
    }
    /// Shifts each lane left by the other, which is below 32.
    #[inline(always)]
    pub(crate) fn up_by(self, o: Self) -> Self {
        Self(unsafe { _mm256_sllv_epi32(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn to_f8(self) -> F8 {
        F8(unsafe { _mm256_cvtepi32_ps(self.0) })
    }
    #[inline(always)]
    pub(crate) fn to_array(self) -> [i32; 8] {
        let mut a = [0; 8];
        // SAFETY: the array has as many numbers as there are lanes.
        unsafe { _mm256_storeu_si256(a.as_mut_ptr().cast(), self.0) };
        a
    }
    /// For each lane, the products of the low halves and of the high halves (as i16), added.
    #[inline(always)]
    pub(crate) fn dot_halves(self, o: Self) -> Self {
        Self(unsafe { _mm256_madd_epi16(self.0, o.0) })
    }
    /// A bit for each lane below 0.
    #[inline(always)]
    pub(crate) fn signs(self) -> u32 {
        unsafe { _mm256_movemask_ps(_mm256_castsi256_ps(self.0)) as u32 }
    }
    /// Lanes from bytes.
    #[inline(always)]
    pub(crate) fn bytes(b: u64) -> Self {
        Self(unsafe { _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(b as i64)) })
    }
    /// Writes them from `at` on.
    ///
    /// # Safety
    /// Eight can be written there.
    #[inline(always)]
    pub(crate) unsafe fn store(self, at: *mut i32) {
        // SAFETY: the caller promises that eight numbers can be written there.
        unsafe { _mm256_storeu_si256(at.cast(), self.0) }
    }
    /// The eight from `at` on.
    ///
    /// # Safety
    /// They can be read.
    #[inline(always)]
    pub(crate) unsafe fn load(at: *const i32) -> Self {
        // SAFETY: the caller promises that eight numbers can be read there.
        Self(unsafe { _mm256_loadu_si256(at.cast()) })
    }
    /// Lanes of these numbers.
    #[inline(always)]
    pub(crate) fn chosen(self, lanes: Self) -> Self {
        Self(unsafe { _mm256_permutevar8x32_epi32(self.0, lanes.0) })
    }
    /// For each lane the number at `p + lane`.
    ///
    /// # Safety
    /// All of them can be read.
    #[inline(always)]
    pub(crate) unsafe fn gather(self, p: *const i32) -> Self {
        // SAFETY: the caller promises that these places can be read.
        Self(unsafe { _mm256_i32gather_epi32::<4>(p, self.0) })
    }
    /// `o` without the bits of `self`.
    #[inline(always)]
    pub(crate) fn not_and(self, o: Self) -> Self {
        Self(unsafe { _mm256_andnot_si256(self.0, o.0) })
    }
    /// For each lane the byte at `p + at[lane]`, lane 0 lowest.
    ///
    /// # Safety
    /// All of them can be read.
    #[inline(always)]
    pub(crate) unsafe fn gather_bytes(p: *const u8, at: &[i32; 8]) -> u64 {
        // SAFETY: the caller promises that these places can be read.
        unsafe {
            let q = |n: usize| i32::from(*p.offset(at[n] as isize));
            let v = _mm_cvtsi32_si128(q(0));
            let v = _mm_insert_epi8::<1>(v, q(1));
            let v = _mm_insert_epi8::<2>(v, q(2));
            let v = _mm_insert_epi8::<3>(v, q(3));
            let v = _mm_insert_epi8::<4>(v, q(4));
            let v = _mm_insert_epi8::<5>(v, q(5));
            let v = _mm_insert_epi8::<6>(v, q(6));
            let v = _mm_insert_epi8::<7>(v, q(7));
            _mm_cvtsi128_si64(v) as u64
        }
    }
    /// For each lane the two bytes at `p + at[lane]`, as the two halves.
    ///
    /// # Safety
    /// All of them can be read.
    #[inline(always)]
    pub(crate) unsafe fn pairs_u8(p: *const u8, at: &[i32; 8]) -> Self {
        // SAFETY: the caller promises that these places can be read.
        unsafe {
            let q = |n: usize| i32::from(p.offset(at[n] as isize).cast::<u16>().read_unaligned());
            let v = _mm_cvtsi32_si128(q(0));
            let v = _mm_insert_epi16::<1>(v, q(1));
            let v = _mm_insert_epi16::<2>(v, q(2));
            let v = _mm_insert_epi16::<3>(v, q(3));
            let v = _mm_insert_epi16::<4>(v, q(4));
            let v = _mm_insert_epi16::<5>(v, q(5));
            let v = _mm_insert_epi16::<6>(v, q(6));
            let v = _mm_insert_epi16::<7>(v, q(7));
            Self(_mm256_cvtepu8_epi16(v))
        }
    }
    /// For each lane the two bytes at `p + at[lane]` times the low and the high half of `by`, added. The second result
    /// is the same for those `ROW` bytes on.
    ///
    /// # Safety
    /// Eight bytes at each can be read.
    #[inline(always)]
    pub(crate) unsafe fn dot_rows_u8<const ROW: usize>(p: *const u8, at: &[i32; 8], by: Self) -> [Self; 2] {
        const { assert!(ROW + 1 < 8) };
        // SAFETY: the caller promises that these places can be read.
        unsafe {
            let two = |n: usize, m: usize| {
                let a = _mm_load_sd(p.offset(at[n] as isize).cast());
                _mm_castpd_si128(_mm_loadh_pd(a, p.offset(at[m] as isize).cast()))
            };
            let to = _mm256_broadcastsi128_si256(_mm_loadu_si128(const { &spread(ROW as i8) }.as_ptr().cast()));
            // Lanes 0 1 | 4 5 and 2 3 | 6 7, each with both rows.
            let a = _mm256_shuffle_epi8(_mm256_set_m128i(two(4, 5), two(0, 1)), to);
            let b = _mm256_shuffle_epi8(_mm256_set_m128i(two(6, 7), two(2, 3)), to);
            let a = _mm256_castsi256_ps(_mm256_madd_epi16(a, _mm256_unpacklo_epi32(by.0, by.0)));
            let b = _mm256_castsi256_ps(_mm256_madd_epi16(b, _mm256_unpackhi_epi32(by.0, by.0)));
            [
                Self(_mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(a, b))),
                Self(_mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(a, b))),
            ]
        }
    }
    /// For each lane the two 16-bit numbers at `p + at[lane]`, as the two halves.
    ///
    /// # Safety
    /// All of them can be read.
    #[inline(always)]
    pub(crate) unsafe fn pairs_16(p: *const u16, at: &[i32; 8]) -> Self {
        // SAFETY: the caller promises that these places can be read.
        unsafe {
            let q = |n: usize| p.offset(at[n] as isize).cast::<i32>().read_unaligned();
            let four = |n: usize| {
                let v = _mm_cvtsi32_si128(q(n));
                let v = _mm_insert_epi32::<1>(v, q(n + 1));
                let v = _mm_insert_epi32::<2>(v, q(n + 2));
                _mm_insert_epi32::<3>(v, q(n + 3))
            };
            Self(_mm256_set_m128i(four(4), four(0)))
        }
    }
    #[inline(always)]
    pub(crate) fn xor(self, o: Self) -> Self {
        Self(unsafe { _mm256_xor_si256(self.0, o.0) })
    }
}

/// For each lane the two numbers at `p + at[lane]`: all first ones, all second ones.
///
/// # Safety
/// All of them can be read.
#[inline(always)]
pub(crate) unsafe fn pairs_f32(p: *const f32, at: &[i32; 8]) -> [F8; 2] {
    // SAFETY: the caller promises that these places can be read.
    unsafe {
        let two = |n: usize, m: usize| {
            let a = _mm_castpd_ps(_mm_load_sd(p.offset(at[n] as isize).cast()));
            let b = _mm_loadh_pd(_mm_castps_pd(a), p.offset(at[m] as isize).cast());
            _mm_castpd_ps(b)
        };
        // Lanes 0 1 | 4 5 and 2 3 | 6 7, so that shuffles within halves put them in order.
        let a = _mm256_set_m128(two(4, 5), two(0, 1));
        let b = _mm256_set_m128(two(6, 7), two(2, 3));
        [F8(_mm256_shuffle_ps::<0b10_00_10_00>(a, b)), F8(_mm256_shuffle_ps::<0b11_01_11_01>(a, b))]
    }
}

/// A shuffle: which of sixteen bytes, the `load`th of `stride` times as many, move to which place of those that are
/// `stride` apart.
const fn picked(stride: usize, load: usize) -> [i8; 16] {
    let mut to = [-1; 16];
    let mut n = 0;
    while n < 16 {
        if n * stride / 16 == load {
            to[n] = (n * stride % 16) as i8;
        }
        n += 1;
    }
    to
}

/// A shuffle: of eight bytes and the next eight, two neighbours and the two `row` bytes on, each with a zero behind it.
const fn spread(row: i8) -> [i8; 16] {
    let mut to = [-1; 16];
    let mut n = 0;
    while n < 8 {
        to[2 * n as usize] = n / 4 * 8 + n / 2 % 2 * row + n % 2;
        n += 1;
    }
    to
}

/// See [`super::pick`].
///
/// # Safety
/// As there.
#[inline(always)]
pub(crate) unsafe fn pick<const STRIDE: usize>(p: *const u8, to: *mut u8) {
    // SAFETY: the caller promises that these places can be read and written.
    unsafe {
        let mut all = _mm_setzero_si128();
        for load in 0..STRIDE {
            let places = const { [picked(STRIDE, 0), picked(STRIDE, 1), picked(STRIDE, 2), picked(STRIDE, 3)] };
            let places = _mm_loadu_si128(places[load].as_ptr().cast());
            all = _mm_or_si128(all, _mm_shuffle_epi8(_mm_loadu_si128(p.add(16 * load).cast()), places));
        }
        _mm_storeu_si128(to.cast(), all);
    }
}

/// Four 32-bit integers; the first three are i, j, k.
#[derive(Copy, Clone, Debug)]
#[repr(transparent)]
pub(crate) struct I4(pub __m128i);

impl I4 {
    #[inline(always)]
    pub(crate) fn new(a: [i32; 4]) -> Self {
        // SAFETY: the array has as many numbers as there are lanes.
        Self(unsafe { _mm_loadu_si128(a.as_ptr().cast()) })
    }
    #[inline(always)]
    pub(crate) fn splat(x: i32) -> Self {
        Self(unsafe { _mm_set1_epi32(x) })
    }
    #[inline(always)]
    pub(crate) fn to_array(self) -> [i32; 4] {
        let mut a = [0; 4];
        // SAFETY: the array has as many numbers as there are lanes.
        unsafe { _mm_storeu_si128(a.as_mut_ptr().cast(), self.0) };
        a
    }
    #[inline(always)]
    pub(crate) fn add(self, o: Self) -> Self {
        Self(unsafe { _mm_add_epi32(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn sub(self, o: Self) -> Self {
        Self(unsafe { _mm_sub_epi32(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn mul(self, o: Self) -> Self {
        Self(unsafe { _mm_mullo_epi32(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn down<const N: i32>(self) -> Self {
        Self(unsafe { _mm_srai_epi32::<N>(self.0) })
    }
    #[inline(always)]
    pub(crate) fn up<const N: i32>(self) -> Self {
        Self(unsafe { _mm_slli_epi32::<N>(self.0) })
    }
    #[inline(always)]
    pub(crate) fn min(self, o: Self) -> Self {
        Self(unsafe { _mm_min_epi32(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn max(self, o: Self) -> Self {
        Self(unsafe { _mm_max_epi32(self.0, o.0) })
    }
    /// `a` in lanes where `self` is below 0, `b` elsewhere.
    #[inline(always)]
    pub(crate) fn negative(self, a: Self, b: Self) -> Self {
        Self(unsafe {
            _mm_castps_si128(_mm_blendv_ps(_mm_castsi128_ps(b.0), _mm_castsi128_ps(a.0), _mm_castsi128_ps(self.0)))
        })
    }
    /// Whether the first three lanes are at least `low`'s and below `high`'s.
    #[inline(always)]
    pub(crate) fn within(self, low: Self, high: Self) -> bool {
        unsafe {
            let out = _mm_or_si128(
                _mm_cmpgt_epi32(low.0, self.0),
                _mm_cmpgt_epi32(self.0, _mm_sub_epi32(high.0, _mm_set1_epi32(1))),
            );
            _mm_movemask_ps(_mm_castsi128_ps(out)) & 7 == 0
        }
    }
    #[inline(always)]
    pub(crate) fn to_f4(self) -> F4 {
        F4(unsafe { _mm_cvtepi32_ps(self.0) })
    }
    /// Sum of the first three lanes.
    #[inline(always)]
    pub(crate) fn sum3(self) -> i32 {
        unsafe {
            let b = _mm_shuffle_epi32::<0b00_00_00_01>(self.0);
            let c = _mm_shuffle_epi32::<0b00_00_00_10>(self.0);
            _mm_cvtsi128_si32(_mm_add_epi32(_mm_add_epi32(self.0, b), c))
        }
    }
}

/// Four double-precision numbers; the first three are along i, j, k.
#[derive(Copy, Clone)]
#[repr(transparent)]
pub(crate) struct D4(pub __m256d);

impl D4 {
    #[inline(always)]
    pub(crate) fn of([i, j, k]: [f64; 3]) -> Self {
        Self(unsafe { _mm256_setr_pd(i, j, k, 0.0) })
    }
    #[inline(always)]
    pub(crate) fn splat(x: f64) -> Self {
        Self(unsafe { _mm256_set1_pd(x) })
    }
    #[inline(always)]
    pub(crate) fn add(self, o: Self) -> Self {
        Self(unsafe { _mm256_add_pd(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn sub(self, o: Self) -> Self {
        Self(unsafe { _mm256_sub_pd(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn mul(self, o: Self) -> Self {
        Self(unsafe { _mm256_mul_pd(self.0, o.0) })
    }
    /// `self + a * b`, rounded once.
    #[inline(always)]
    pub(crate) fn fma(self, a: Self, b: Self) -> Self {
        Self(unsafe { _mm256_fmadd_pd(a.0, b.0, self.0) })
    }
    #[inline(always)]
    pub(crate) fn floor(self) -> Self {
        Self(unsafe { _mm256_floor_pd(self.0) })
    }
    /// Truncates to integers, which must fit.
    #[inline(always)]
    pub(crate) fn whole(self) -> I4 {
        I4(unsafe { _mm256_cvttpd_epi32(self.0) })
    }
    /// Rounds to the nearest integers, halves to even; they must fit.
    #[inline(always)]
    pub(crate) fn round(self) -> I4 {
        I4(unsafe { _mm256_cvtpd_epi32(self.0) })
    }
}

impl F4 {
    #[inline(always)]
    pub(crate) fn splat(x: f32) -> Self {
        Self(unsafe { _mm_set1_ps(x) })
    }
    #[inline(always)]
    pub(crate) fn from(a: [f32; 4]) -> Self {
        // SAFETY: the array has as many numbers as there are lanes.
        Self(unsafe { _mm_loadu_ps(a.as_ptr()) })
    }
    #[inline(always)]
    pub(crate) fn to_array(self) -> [f32; 4] {
        let mut a = [0.0; 4];
        // SAFETY: the array has as many numbers as there are lanes.
        unsafe { _mm_storeu_ps(a.as_mut_ptr(), self.0) };
        a
    }
    #[inline(always)]
    pub(crate) fn fma(self, a: Self, b: Self) -> Self {
        Self(unsafe { _mm_fmadd_ps(a.0, b.0, self.0) })
    }
    /// `self - a * b`, rounded once.
    #[inline(always)]
    pub(crate) fn fnma(self, a: Self, b: Self) -> Self {
        Self(unsafe { _mm_fnmadd_ps(a.0, b.0, self.0) })
    }
    #[inline(always)]
    pub(crate) fn mul(self, o: Self) -> Self {
        Self(unsafe { _mm_mul_ps(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn sub(self, o: Self) -> Self {
        Self(unsafe { _mm_sub_ps(self.0, o.0) })
    }
    #[inline(always)]
    pub(crate) fn over(self, o: Self) -> Self {
        Self(unsafe { _mm_div_ps(self.0, o.0) })
    }
    /// The least of the first three lanes and `o`, where NaN counts as `o`.
    #[inline(always)]
    pub(crate) fn least3(self, o: f32) -> f32 {
        unsafe {
            let a = _mm_min_ss(self.0, _mm_set_ss(o));
            let b = _mm_min_ss(_mm_movehdup_ps(self.0), a);
            _mm_cvtss_f32(_mm_min_ss(_mm_movehl_ps(self.0, self.0), b))
        }
    }
    /// The last lane in all.
    #[inline(always)]
    pub(crate) fn last(self) -> Self {
        Self(unsafe { _mm_permute_ps::<0b11_11_11_11>(self.0) })
    }
    #[inline(always)]
    pub(crate) fn first(self) -> f32 {
        unsafe { _mm_cvtss_f32(self.0) }
    }
}
