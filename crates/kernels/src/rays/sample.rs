//! Values between voxels, eight along a ray at a time, or one.
//!
//! # Theory
//! Trilinear: along i, then j, then k, each as `a + f (b - a)`, so a cell of one value gives exactly that value. Along
//! i, numbers of up to 16 bits are mixed in integers with weights of 14 bits, exactly, as `value * 2^14`. All else is
//! in single precision. Lanes and single samples round equally, so the result does not depend on the grouping.

use super::brick_shape::{PLANE, ROW};
use super::lanes::{pairs_f32, F8, I4, I8};
use super::ray::{RaySegment, BITS, ONE, PART};
use field::volume::{Extremes, Voxel};

/// Binary places of weights in integers.
const WEIGHT_BITS: u32 = 14;
const WEIGHT: i32 = 1 << WEIGHT_BITS;

/// A voxel type that rays can sample.
pub(crate) trait SampledVoxel: Extremes {
    /// Factor of values in results: a power of two.
    const UNIT: f32;
    /// Whether the type has NaN.
    const FLOAT: bool;
    /// The number of this value, for types that single precision represents exactly.
    fn exact(_: f32) -> Option<Self> {
        None
    }
    /// Mixes two neighbours along i, `x` parts of [`ONE`] from the first.
    fn mix(a: Self, b: Self, x: i32) -> f32;
    /// The same for eight pairs of neighbours in a row.
    ///
    /// # Safety
    /// The pairs at `p + at[lane]` can be read.
    unsafe fn mix_rows(p: *const Self, at: &[i32; 8], x: &Along) -> F8;
    /// The same for each pair and the one in the next row of a brick.
    ///
    /// # Safety
    /// Eight numbers at each `p + at[lane]` can be read.
    #[inline(always)]
    unsafe fn mix_two_rows(p: *const Self, at: &[i32; 8], x: &Along) -> [F8; 2] {
        // SAFETY: the caller's.
        unsafe { [Self::mix_rows(p, at, x), Self::mix_rows(p.add(ROW), at, x)] }
    }
    /// The same for eight pairs.
    fn mix_pairs(a: &[Self; 8], b: &[Self; 8], x: &Along) -> F8;
}

/// Weights along i.
pub(crate) struct Along {
    /// Fraction.
    f: F8,
    /// One less the fraction in the low half, the fraction in the high half, in parts of [`WEIGHT`].
    pairs: I8,
}

#[inline(always)]
fn fraction(p: I8) -> F8 {
    scaled(p.and(I8::splat(ONE - 1)).to_f8())
}

#[inline(always)]
fn scaled(v: F8) -> F8 {
    F8::splat(0.0).fma(v, F8::splat(PART))
}

impl Along {
    #[inline(always)]
    fn new(p: I8) -> Self {
        let w = p.down::<{ (BITS - WEIGHT_BITS) as i32 }>().and(I8::splat(WEIGHT - 1));
        Self { f: fraction(p), pairs: I8::splat(WEIGHT).sub(w).or(w.up::<16>()) }
    }
}

#[inline(always)]
fn mix_f32(a: f32, b: f32, x: i32) -> f32 {
    (x as f32 * PART).mul_add(b - a, a)
}

macro_rules! narrow {
    ($($t:ty, $p:ident, $at:ident => $pairs:expr, $v:ident, $x:ident => $mixed:expr $(, $two_rows:item)?);*) => { $(
        impl SampledVoxel for $t {
            const UNIT: f32 = WEIGHT as f32;
            const FLOAT: bool = false;
            fn exact(value: f32) -> Option<Self> {
                (f32::from(value as Self) == value).then_some(value as Self)
            }
            #[inline(always)]
            fn mix(a: Self, b: Self, x: i32) -> f32 {
                let w = x >> (BITS - WEIGHT_BITS);
                (i32::from(a) * (WEIGHT - w) + i32::from(b) * w) as f32
            }
            #[inline(always)]
            unsafe fn mix_rows($p: *const Self, $at: &[i32; 8], $x: &Along) -> F8 {
                // SAFETY: the caller's.
                let $v = unsafe { $pairs };
                $mixed.to_f8()
            }
            $($two_rows)?
            #[inline(always)]
            fn mix_pairs(a: &[Self; 8], b: &[Self; 8], x: &Along) -> F8 {
                let w: [i32; 8] = x.pairs.to_array();
                F8::from(core::array::from_fn(|n| Self::mix(a[n], b[n], (w[n] >> 16) << (BITS - WEIGHT_BITS))))
            }
        }
    )* };
}

/// Offset from unsigned 16-bit numbers to signed ones, times the sum of the weights.
const SHIFTED: i32 = 1 << (15 + WEIGHT_BITS);

narrow!(
    u8, p, at => I8::pairs_u8(p, at), v, x => v.dot_halves(x.pairs),
    #[inline(always)]
    unsafe fn mix_two_rows(p: *const Self, at: &[i32; 8], x: &Along) -> [F8; 2] {
        // SAFETY: the caller's.
        unsafe { I8::dot_rows_u8::<ROW>(p, at, x.pairs) }.map(I8::to_f8)
    };
    u16, p, at => I8::pairs_16(p, at), v, x =>
        v.xor(I8::splat(0x8000_8000_u32 as i32)).dot_halves(x.pairs).add(I8::splat(SHIFTED));
    i16, p, at => I8::pairs_16(p.cast(), at), v, x => v.dot_halves(x.pairs)
);

macro_rules! wide {
    ($($t:ty),*) => { $(
        impl SampledVoxel for $t {
            const UNIT: f32 = 1.0;
            const FLOAT: bool = !matches!(Self::TYPE, field::volume::VoxelType::Int8
                | field::volume::VoxelType::Uint32 | field::volume::VoxelType::Int32
                | field::volume::VoxelType::Uint64 | field::volume::VoxelType::Int64);
            #[inline(always)]
            fn mix(a: Self, b: Self, x: i32) -> f32 {
                mix_f32(a.to_f32(), b.to_f32(), x)
            }
            #[inline(always)]
            unsafe fn mix_rows(p: *const Self, at: &[i32; 8], x: &Along) -> F8 {
                // SAFETY: the caller promises that both of each pair can be read.
                let of = |n: usize| unsafe { *p.offset(at[n] as isize) };
                // SAFETY: likewise.
                let next = |n: usize| unsafe { *p.offset(at[n] as isize + 1) };
                Self::mix_pairs(&core::array::from_fn(of), &core::array::from_fn(next), x)
            }
            #[inline(always)]
            fn mix_pairs(a: &[Self; 8], b: &[Self; 8], x: &Along) -> F8 {
                let (a, b) = (F8::from(a.map(Voxel::to_f32)), F8::from(b.map(Voxel::to_f32)));
                a.fma(x.f, b.sub(a))
            }
        }
    )* };
}

wide!(i8, u32, i32, u64, i64, f64);

impl SampledVoxel for f32 {
    const UNIT: f32 = 1.0;
    const FLOAT: bool = true;
    fn exact(value: f32) -> Option<Self> {
        (!value.is_nan()).then_some(value)
    }
    #[inline(always)]
    fn mix(a: Self, b: Self, x: i32) -> f32 {
        mix_f32(a, b, x)
    }
    #[inline(always)]
    unsafe fn mix_rows(p: *const Self, at: &[i32; 8], x: &Along) -> F8 {
        // SAFETY: the caller's.
        let [a, b] = unsafe { pairs_f32(p, at) };
        a.fma(x.f, b.sub(a))
    }
    #[inline(always)]
    fn mix_pairs(a: &[Self; 8], b: &[Self; 8], x: &Along) -> F8 {
        let (a, b) = (F8::from(*a), F8::from(*b));
        a.fma(x.f, b.sub(a))
    }
}

/// Samples of a segment with voxels in one page.
#[derive(Copy, Clone)]
pub(crate) struct PageRun {
    /// Place of sample 0, and from a sample to the next, along i, j, k.
    at: [I8; 3],
    step: [I8; 3],
    /// Elements from a voxel to the next.
    strides: [i32; 3],
    /// Element of the voxel at which places start.
    base: i32,
    /// That voxel within the page.
    voxel: [i32; 3],
}

impl PageRun {
    /// For samples in a page that begins at voxel `first`.
    #[inline(always)]
    pub(crate) fn new(s: &RaySegment, first: I4, strides: [i32; 3], component: i32) -> Self {
        let (at, step) = (s.at.to_array(), s.step.to_array());
        let v = s.cell.sub(first).to_array();
        let base = I4::new(v).mul(I4::new([strides[0], strides[1], strides[2], 0])).sum3().wrapping_add(component);
        Self {
            at: [I8::splat(at[0]), I8::splat(at[1]), I8::splat(at[2])],
            step: [I8::splat(step[0]), I8::splat(step[1]), I8::splat(step[2])],
            strides,
            base,
            voxel: [v[0], v[1], v[2]],
        }
    }

    /// Places of samples, in parts of a voxel.
    #[inline(always)]
    fn places(&self, k: I8) -> [I8; 3] {
        [self.at[0].add(self.step[0].mul(k)), self.at[1].add(self.step[1].mul(k)), self.at[2].add(self.step[2].mul(k))]
    }

    /// Blocks of eight samples from `k` on, as numbers in a page of this many blocks along i and j. And a bit for each
    /// sample with a cell that extends into other pages.
    #[inline(always)]
    pub(crate) fn blocks(&self, k: i32, page: [i32; 3], blocks: [i32; 2]) -> (I8, u32) {
        let [x, y, z] = self.places(I8::splat(k).add(I8::lanes()));
        let x = x.down::<{ BITS as i32 }>().add(I8::splat(self.voxel[0]));
        let y = y.down::<{ BITS as i32 }>().add(I8::splat(self.voxel[1]));
        let z = z.down::<{ BITS as i32 }>().add(I8::splat(self.voxel[2]));
        let over =
            x.above(I8::splat(page[0] - 2)).or(y.above(I8::splat(page[1] - 2))).or(z.above(I8::splat(page[2] - 2)));
        const OF_BLOCK: i32 = field::volume::BLOCK.trailing_zeros() as i32;
        let row = z.down::<OF_BLOCK>().mul(I8::splat(blocks[1])).add(y.down::<OF_BLOCK>());
        (row.mul(I8::splat(blocks[0])).add(x.down::<OF_BLOCK>()), over.signs())
    }

    /// Values of the samples with these numbers (a byte each). Samples with a bit in `unlike` get no valid value.
    ///
    /// # Safety
    /// The cells of the other samples are in the page at `page`.
    #[inline(always)]
    pub(crate) unsafe fn values<T: SampledVoxel>(&self, page: *const T, numbers: u64, unlike: I8) -> F8 {
        let [x, y, z] = self.places(I8::bytes(numbers));
        let [si, sj, sk] = self.strides;
        let row = x.down::<{ BITS as i32 }>();
        let row = if si == 1 { row } else { row.mul(I8::splat(si)) };
        let at = row
            .add(y.down::<{ BITS as i32 }>().mul(I8::splat(sj)))
            .add(z.down::<{ BITS as i32 }>().mul(I8::splat(sk)))
            .add(I8::splat(self.base));
        // The page's first cell replaces those in other pages.
        let at = unlike.not_and(at).to_array();
        let (sj, sk) = (sj as isize, sk as isize);
        if si == 1 {
            // SAFETY: the four rows of each cell are in the page, by the caller's promise.
            return unsafe { trilinear(page, &at, [x, y, z], [sj, sk]) };
        }
        let x = Along::new(x);
        // SAFETY: as above.
        let rows = unsafe {
            [
                apart(page, &at, si, &x),
                apart(page.offset(sj), &at, si, &x),
                apart(page.offset(sk), &at, si, &x),
                apart(page.offset(sj + sk), &at, si, &x),
            ]
        };
        mixed(rows, fraction(y), fraction(z))
    }
}

/// Values of eight cells with the elements `at` from `p` as first corners. The strides are elements from a row and from
/// a plane to the next. `places` are in their cells, in parts of [`ONE`]; whole voxels in them are ignored.
///
/// # Safety
/// The four rows of each cell can be read.
#[inline(always)]
pub(crate) unsafe fn trilinear<T: SampledVoxel>(
    p: *const T,
    at: &[i32; 8],
    [x, y, z]: [I8; 3],
    [sj, sk]: [isize; 2],
) -> F8 {
    let x = Along::new(x);
    // SAFETY: the caller's.
    let rows = unsafe {
        [
            T::mix_rows(p, at, &x),
            T::mix_rows(p.offset(sj), at, &x),
            T::mix_rows(p.offset(sk), at, &x),
            T::mix_rows(p.offset(sj + sk), at, &x),
        ]
    };
    mixed(rows, fraction(y), fraction(z))
}

/// The same for cells in bricks.
///
/// # Safety
/// Eight numbers from each first corner on can be read, and from the one in the next plane.
#[inline(always)]
pub(crate) unsafe fn in_brick<T: SampledVoxel>(p: *const T, at: &[i32; 8], [x, y, z]: [I8; 3]) -> F8 {
    let x = Along::new(x);
    // SAFETY: the caller's.
    let [[a, b], [c, d]] = unsafe { [T::mix_two_rows(p, at, &x), T::mix_two_rows(p.add(PLANE), at, &x)] };
    mixed([a, b, c, d], fraction(y), fraction(z))
}

/// Along j, then along k.
#[inline(always)]
fn mixed(rows: [F8; 4], y: F8, z: F8) -> F8 {
    let near = rows[0].fma(y, rows[1].sub(rows[0]));
    let far = rows[2].fma(y, rows[3].sub(rows[2]));
    near.fma(z, far.sub(near))
}

/// Mixes eight pairs of neighbours that are `stride` elements apart.
///
/// # Safety
/// All of them can be read.
#[inline(never)]
unsafe fn apart<T: SampledVoxel>(p: *const T, at: &[i32; 8], stride: i32, x: &Along) -> F8 {
    // SAFETY: the caller promises that both of each pair can be read.
    let of = |n: usize| unsafe { *p.offset(at[n] as isize) };
    // SAFETY: likewise.
    let next = |n: usize| unsafe { *p.offset(at[n] as isize + stride as isize) };
    T::mix_pairs(&core::array::from_fn(of), &core::array::from_fn(next), x)
}

/// The value between eight corners (bit 0 for i, 1 for j, 2 for k), at a place in parts of [`ONE`].
#[inline(always)]
pub(crate) fn between<T: SampledVoxel>(corners: [T; 8], p: [i32; 3]) -> f32 {
    let [a, b, c, d, e, f, g, h] = corners;
    let [x, y, z] = [p[0] & (ONE - 1), p[1] & (ONE - 1), p[2] & (ONE - 1)];
    let rows = [T::mix(a, b, x), T::mix(c, d, x), T::mix(e, f, x), T::mix(g, h, x)];
    let (y, z) = (y as f32 * PART, z as f32 * PART);
    let near = y.mul_add(rows[1] - rows[0], rows[0]);
    let far = y.mul_add(rows[3] - rows[2], rows[2]);
    z.mul_add(far - near, near)
}
