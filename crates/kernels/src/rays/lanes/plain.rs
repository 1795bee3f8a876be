//! The same arithmetic without AVX2.

use core::array::from_fn;

/// Eight single-precision numbers.
#[derive(Copy, Clone)]
pub(crate) struct F8(pub [f32; 8]);

/// Eight 32-bit integers.
#[derive(Copy, Clone)]
pub(crate) struct I8(pub [i32; 8]);

/// Four single-precision numbers.
#[derive(Copy, Clone)]
pub(crate) struct F4(pub [f32; 4]);

impl F8 {
    pub(crate) fn splat(x: f32) -> Self {
        Self([x; 8])
    }
    pub(crate) fn from(a: [f32; 8]) -> Self {
        Self(a)
    }
    pub(crate) fn sub(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n] - o.0[n]))
    }
    /// `self + a * b`, rounded once.
    pub(crate) fn fma(self, a: Self, b: Self) -> Self {
        Self(from_fn(|n| a.0[n].mul_add(b.0[n], self.0[n])))
    }
    /// `self - a * b`, rounded once.
    pub(crate) fn fnma(self, a: Self, b: Self) -> Self {
        Self(from_fn(|n| (-a.0[n]).mul_add(b.0[n], self.0[n])))
    }
    /// Four and four.
    pub(crate) fn pair(a: F4, b: F4) -> Self {
        Self(from_fn(|n| if n < 4 { a.0[n] } else { b.0[n - 4] }))
    }
    /// The first four, or the others.
    pub(crate) fn half(self, n: usize) -> F4 {
        F4(from_fn(|m| self.0[4 * n + m]))
    }
    /// The last lane of each four in all of them.
    pub(crate) fn last(self) -> Self {
        Self(from_fn(|n| self.0[n | 3]))
    }
    pub(crate) fn any_at_most(self, most: Self) -> bool {
        (0..8).any(|n| self.0[n] <= most.0[n])
    }
    /// The larger; `least` for NaN.
    pub(crate) fn at_least(self, least: Self) -> Self {
        Self(from_fn(|n| if self.0[n] > least.0[n] { self.0[n] } else { least.0[n] }))
    }
    pub(crate) fn at_most(self, most: Self) -> Self {
        Self(from_fn(|n| if self.0[n] < most.0[n] { self.0[n] } else { most.0[n] }))
    }
    /// To the nearest integers, those halfway to the even ones.
    pub(crate) fn round(self) -> I8 {
        I8(self.0.map(|v| v.round_ties_even() as i32))
    }
    /// `of` in lanes where `self` is a number, `or` elsewhere.
    pub(crate) fn number(self, of: I8, or: I8) -> I8 {
        I8(from_fn(|n| if self.0[n].is_nan() { or.0[n] } else { of.0[n] }))
    }
    /// Lanes with a set bit; all others are those of `o`.
    pub(crate) fn among(self, bits: u32, o: Self) -> Self {
        Self(from_fn(|n| if bits >> n & 1 == 1 { self.0[n] } else { o.0[n] }))
    }
    pub(crate) fn to_array(self) -> [f32; 8] {
        self.0
    }
}

impl I8 {
    pub(crate) fn splat(x: i32) -> Self {
        Self([x; 8])
    }
    pub(crate) fn lanes() -> Self {
        Self([0, 1, 2, 3, 4, 5, 6, 7])
    }
    pub(crate) fn add(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n].wrapping_add(o.0[n])))
    }
    pub(crate) fn sub(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n].wrapping_sub(o.0[n])))
    }
    pub(crate) fn mul(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n].wrapping_mul(o.0[n])))
    }
    pub(crate) fn and(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n] & o.0[n]))
    }
    pub(crate) fn or(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n] | o.0[n]))
    }
    /// All ones in lanes that are the same.
    pub(crate) fn equal(self, o: Self) -> Self {
        Self(from_fn(|n| -i32::from(self.0[n] == o.0[n])))
    }
    /// For lanes that are all ones or all zeros: `a` where they are ones, `b` elsewhere.
    pub(crate) fn choose(self, a: Self, b: Self) -> Self {
        Self(from_fn(|n| if self.0[n] < 0 { a.0[n] } else { b.0[n] }))
    }
    /// The first lane and the last.
    pub(crate) fn ends(self) -> [i32; 2] {
        [self.0[0], self.0[7]]
    }
    /// All ones in lanes where `self` is above `o`.
    pub(crate) fn above(self, o: Self) -> Self {
        Self(from_fn(|n| -i32::from(self.0[n] > o.0[n])))
    }
    pub(crate) fn down<const N: i32>(self) -> Self {
        Self(self.0.map(|v| v >> N))
    }
    pub(crate) fn up<const N: i32>(self) -> Self {
        Self(self.0.map(|v| v << N))
    }
    /// Shifts each lane left by the other, which is below 32.
    pub(crate) fn up_by(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n] << o.0[n]))
    }
    pub(crate) fn to_f8(self) -> F8 {
        F8(self.0.map(|v| v as f32))
    }
    pub(crate) fn to_array(self) -> [i32; 8] {
        self.0
    }
    /// For each lane, the products of the low halves and of the high halves (as i16), added.
    pub(crate) fn dot_halves(self, o: Self) -> Self {
        let halves = |v: i32| (i32::from(v as i16), v >> 16);
        Self(from_fn(|n| {
            let ((a, b), (c, d)) = (halves(self.0[n]), halves(o.0[n]));
            a.wrapping_mul(c).wrapping_add(b.wrapping_mul(d))
        }))
    }
    /// A bit for each lane below 0.
    pub(crate) fn signs(self) -> u32 {
        (0..8).map(|n| u32::from(self.0[n] < 0) << n).sum()
    }
    /// Lanes from bytes.
    pub(crate) fn bytes(b: u64) -> Self {
        Self(b.to_le_bytes().map(i32::from))
    }
    /// Writes them from `at` on.
    ///
    /// # Safety
    /// Eight can be written there.
    pub(crate) unsafe fn store(self, at: *mut i32) {
        // SAFETY: the caller's.
        unsafe { at.cast::<[i32; 8]>().write(self.0) }
    }
    /// The eight from `at` on.
    ///
    /// # Safety
    /// They can be read.
    pub(crate) unsafe fn load(at: *const i32) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { at.cast::<[i32; 8]>().read() })
    }
    /// Lanes of these numbers.
    pub(crate) fn chosen(self, lanes: Self) -> Self {
        Self(lanes.0.map(|n| self.0[n as usize & 7]))
    }
    /// For each lane the number at `p + lane`.
    ///
    /// # Safety
    /// All of them can be read.
    pub(crate) unsafe fn gather(self, p: *const i32) -> Self {
        // SAFETY: the caller's.
        Self(self.0.map(|n| unsafe { *p.offset(n as isize) }))
    }
    /// `o` without the bits of `self`.
    pub(crate) fn not_and(self, o: Self) -> Self {
        Self(from_fn(|n| !self.0[n] & o.0[n]))
    }
    /// For each lane the byte at `p + at[lane]`, lane 0 lowest.
    ///
    /// # Safety
    /// All of them can be read.
    pub(crate) unsafe fn gather_bytes(p: *const u8, at: &[i32; 8]) -> u64 {
        u64::from_le_bytes(from_fn(|n| unsafe { *p.offset(at[n] as isize) }))
    }
    /// For each lane the two bytes at `p + at[lane]`, as the two halves.
    ///
    /// # Safety
    /// All of them can be read.
    pub(crate) unsafe fn pairs_u8(p: *const u8, at: &[i32; 8]) -> Self {
        Self(from_fn(|n| unsafe {
            let q = p.offset(at[n] as isize);
            i32::from(*q) | i32::from(*q.add(1)) << 16
        }))
    }
    /// For each lane the two bytes at `p + at[lane]` times the low and the high half of `by`, added. The second result
    /// is the same for those `ROW` bytes on.
    ///
    /// # Safety
    /// All of them can be read.
    pub(crate) unsafe fn dot_rows_u8<const ROW: usize>(p: *const u8, at: &[i32; 8], by: Self) -> [Self; 2] {
        // SAFETY: the caller's.
        unsafe { [Self::pairs_u8(p, at), Self::pairs_u8(p.add(ROW), at)] }.map(|pairs| pairs.dot_halves(by))
    }
    /// For each lane the two 16-bit numbers at `p + at[lane]`, as the two halves.
    ///
    /// # Safety
    /// All of them can be read.
    pub(crate) unsafe fn pairs_16(p: *const u16, at: &[i32; 8]) -> Self {
        Self(from_fn(|n| unsafe {
            let q = p.offset(at[n] as isize);
            (u32::from(*q) | u32::from(*q.add(1)) << 16) as i32
        }))
    }
    pub(crate) fn xor(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n] ^ o.0[n]))
    }
}

/// For each lane the two numbers at `p + at[lane]`: all first ones, all second ones.
///
/// # Safety
/// All of them can be read.
pub(crate) unsafe fn pairs_f32(p: *const f32, at: &[i32; 8]) -> [F8; 2] {
    let of = |m: usize| F8(from_fn(|n| unsafe { *p.offset(at[n] as isize + m as isize) }));
    [of(0), of(1)]
}

/// See [`super::pick`].
///
/// # Safety
/// As there.
pub(crate) unsafe fn pick<const STRIDE: usize>(p: *const u8, to: *mut u8) {
    (0..16).for_each(|n| unsafe { *to.add(n) = *p.add(n * STRIDE) });
}

/// Four 32-bit integers; the first three are i, j, k.
#[derive(Copy, Clone, Debug)]
pub(crate) struct I4(pub [i32; 4]);

impl I4 {
    pub(crate) fn new(a: [i32; 4]) -> Self {
        Self(a)
    }
    pub(crate) fn splat(x: i32) -> Self {
        Self([x; 4])
    }
    pub(crate) fn to_array(self) -> [i32; 4] {
        self.0
    }
    pub(crate) fn add(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n].wrapping_add(o.0[n])))
    }
    pub(crate) fn sub(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n].wrapping_sub(o.0[n])))
    }
    pub(crate) fn mul(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n].wrapping_mul(o.0[n])))
    }
    pub(crate) fn down<const N: i32>(self) -> Self {
        Self(self.0.map(|v| v >> N))
    }
    pub(crate) fn up<const N: i32>(self) -> Self {
        Self(self.0.map(|v| v << N))
    }
    pub(crate) fn min(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n].min(o.0[n])))
    }
    pub(crate) fn max(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n].max(o.0[n])))
    }
    /// `a` in lanes where `self` is below 0, `b` elsewhere.
    pub(crate) fn negative(self, a: Self, b: Self) -> Self {
        Self(from_fn(|n| if self.0[n] < 0 { a.0[n] } else { b.0[n] }))
    }
    /// Whether the first three lanes are at least `low`'s and below `high`'s.
    pub(crate) fn within(self, low: Self, high: Self) -> bool {
        (0..3).all(|n| self.0[n] >= low.0[n] && self.0[n] < high.0[n])
    }
    pub(crate) fn to_f4(self) -> F4 {
        F4(self.0.map(|v| v as f32))
    }
    /// Sum of the first three lanes.
    pub(crate) fn sum3(self) -> i32 {
        self.0[0].wrapping_add(self.0[1]).wrapping_add(self.0[2])
    }
}

/// Four double-precision numbers; the first three are along i, j, k.
#[derive(Copy, Clone)]
pub(crate) struct D4(pub [f64; 4]);

impl D4 {
    pub(crate) fn of([i, j, k]: [f64; 3]) -> Self {
        Self([i, j, k, 0.0])
    }
    pub(crate) fn splat(x: f64) -> Self {
        Self([x; 4])
    }
    pub(crate) fn add(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n] + o.0[n]))
    }
    pub(crate) fn sub(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n] - o.0[n]))
    }
    pub(crate) fn mul(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n] * o.0[n]))
    }
    /// `self + a * b`, rounded once.
    pub(crate) fn fma(self, a: Self, b: Self) -> Self {
        Self(from_fn(|n| a.0[n].mul_add(b.0[n], self.0[n])))
    }
    pub(crate) fn floor(self) -> Self {
        Self(self.0.map(f64::floor))
    }
    /// Truncates to integers, which must fit.
    pub(crate) fn whole(self) -> I4 {
        I4(self.0.map(|v| v as i32))
    }
    /// Rounds to the nearest integers, halves to even; they must fit.
    pub(crate) fn round(self) -> I4 {
        I4(self.0.map(|v| v.round_ties_even() as i32))
    }
}

impl F4 {
    pub(crate) fn over(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n] / o.0[n]))
    }
    pub(crate) fn splat(x: f32) -> Self {
        Self([x; 4])
    }
    pub(crate) fn from(a: [f32; 4]) -> Self {
        Self(a)
    }
    pub(crate) fn to_array(self) -> [f32; 4] {
        self.0
    }
    pub(crate) fn fma(self, a: Self, b: Self) -> Self {
        Self(from_fn(|n| a.0[n].mul_add(b.0[n], self.0[n])))
    }
    /// `self - a * b`, rounded once.
    pub(crate) fn fnma(self, a: Self, b: Self) -> Self {
        Self(from_fn(|n| (-a.0[n]).mul_add(b.0[n], self.0[n])))
    }
    pub(crate) fn sub(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n] - o.0[n]))
    }
    pub(crate) fn mul(self, o: Self) -> Self {
        Self(from_fn(|n| self.0[n] * o.0[n]))
    }
    /// The least of the first three lanes and `o`, where NaN counts as `o`.
    pub(crate) fn least3(self, o: f32) -> f32 {
        (0..3).fold(o, |m, n| if self.0[n] < m { self.0[n] } else { m })
    }
    /// The last lane in all.
    pub(crate) fn last(self) -> Self {
        Self([self.0[3]; 4])
    }
    pub(crate) fn first(self) -> f32 {
        self.0[0]
    }
}
