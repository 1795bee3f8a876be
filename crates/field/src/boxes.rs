//! Bounding boxes of blocks of cells, for point location without a global tree in memory.
//!
//! # Theory
//! Level 0 holds one axis-aligned box per block of 4x4x4 cells, whatever the page size. So the blocks that a search
//! visits do not depend on the storage. Each further level joins 2x2x2 boxes.
//!
//! Only usable cells count: not blanked out, all corners finite, and none with iblank 0. A box holds its cells and may
//! be a little larger. Each side is rounded outward to a multiple of 1/64 (at most) of the box's width. The few
//! significant bits left compress to about half.
//!
//! # Practice
//! [`add_block_row`] grows the boxes of one row of blocks from a slab of points, part by part in any order.
//! [`BoxPyramid`] holds all levels of a zone in memory.

use crate::nodes::box_holds;
use crate::plot3d::iblank::{hides_cell, OF_CELLS};
use crate::simd::V4;
use std::ops::Range;

/// Cells along an edge of a block of level 0. Small enough that trying a block's cells costs about as much as finding
/// the block. Large enough that boxes take about 1 % of the data.
pub const BLOCK: usize = 4;

/// Lower x, y, z and upper x, y, z.
pub type Bounds = [f32; 6];

/// The box of no cell.
pub const EMPTY: Bounds =
    [f32::INFINITY, f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY];

/// A box's sides become multiples of its width over two to this power (times less than two).
const WIDEN_BITS: i32 = 6;

/// Cells along each axis of a zone of `dims` points; one layer along a direction of one point.
pub fn cells(dims: [usize; 3]) -> [usize; 3] {
    dims.map(|n| n.max(2) - 1)
}

/// Number of boxes (i, j, k) at each level of a zone of `dims` points, finest first, down to at most 8 along each axis.
pub fn level_dims(dims: [usize; 3]) -> Vec<[usize; 3]> {
    halvings(cells(dims).map(|n| n.div_ceil(BLOCK)))
}

/// `dims` and its halves, rounded up, down to at most 8 along each axis.
pub(crate) fn halvings(dims: [usize; 3]) -> Vec<[usize; 3]> {
    let mut levels = vec![dims];
    let mut last = dims;
    while last.iter().any(|&n| n > 8) {
        last = last.map(|n| n.div_ceil(2));
        levels.push(last);
    }
    levels
}

/// Grows `a` to hold `b`.
#[inline]
pub fn merge(a: &mut Bounds, b: &Bounds) {
    for c in 0..3 {
        a[c] = if b[c] < a[c] { b[c] } else { a[c] };
        a[c + 3] = if b[c + 3] > a[c + 3] { b[c + 3] } else { a[c + 3] };
    }
}

/// The stored box: a little larger, with few significant bits. Empty boxes stay empty.
pub fn widen(b: Bounds) -> Bounds {
    let mut out = b;
    for c in 0..3 {
        let (lo, hi) = (f64::from(b[c]), f64::from(b[c + 3]));
        let width = hi - lo;
        // Empty, flat and overflowing boxes stay as they are.
        if !(width > 0.0 && width < f64::from(f32::MAX)) {
            continue;
        }
        // The exponent from the bits is exact and portable. Differences of two floats are never subnormal doubles.
        let exponent = ((width.to_bits() >> 52) & 0x7ff) as i32 - 1023 - WIDEN_BITS;
        let step = 2f64.powi(exponent);
        out[c] = below((lo / step).floor() * step);
        out[c + 3] = above((hi / step).ceil() * step);
    }
    out
}

/// The largest float that is not above `x`.
#[inline]
fn below(x: f64) -> f32 {
    let f = x as f32;
    if f64::from(f) > x {
        -up(-f)
    } else {
        f
    }
}

/// The smallest float that is not below `x`.
#[inline]
fn above(x: f64) -> f32 {
    -below(-x)
}

/// The next float above a number that is not +inf or NaN.
#[inline]
fn up(f: f32) -> f32 {
    let bits = f.to_bits();
    f32::from_bits(if f == 0.0 {
        1
    } else if bits >> 31 == 0 {
        bits + 1
    } else {
        bits - 1
    })
}

/// Coordinates `[component][k][j][i]`, 2 or 3 components, in the precision of the file.
#[derive(Copy, Clone, Debug)]
pub enum Xyz<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Double precision.
    F64(&'a [f64]),
}

/// Points of a zone: columns i, rows j, planes k.
#[derive(Copy, Clone, Debug)]
pub struct PointSlab<'a> {
    /// Coordinates.
    pub xyz: Xyz<'a>,
    /// 2 or 3.
    pub components: usize,
    /// iblank `[k][j][i]`, if the zone has it.
    pub iblank: Option<&'a [i32]>,
    /// Columns, rows and planes in the slab.
    pub size: [usize; 3],
    /// Its first point in the zone.
    pub low: [usize; 3],
}

/// Scratch of the sweep over a block row, one per thread.
#[derive(Default, Debug)]
pub struct SweepBuffers {
    f32: Vec<f32>,
    f64: Vec<f64>,
    hole: Vec<i32>,
}

/// Grows a row of boxes by the usable cells with low corners in `cells` (columns, rows, planes of the zone). The cells'
/// rows and planes lie in one row of blocks; `row` begins with the block of the first column. The slab also holds the
/// cells' upper corners, if the zone has them. Boxes are rounded outward to float32, not [`widen`]ed.
pub fn add_block_row(slab: &PointSlab<'_>, cells: &[Range<usize>; 3], lines: &mut SweepBuffers, row: &mut [Bounds]) {
    let SweepBuffers { f32, f64, hole } = lines;
    match slab.xyz {
        Xyz::F32(v) => sweep(v, slab, cells, f32, hole, row),
        Xyz::F64(v) => sweep(v, slab, cells, f64, hole, row),
    }
}

/// The operations of the sweep on a float type.
trait Real: Copy + PartialOrd + std::ops::Mul<Output = Self> + std::ops::AddAssign + Default {
    const LARGEST: Self;
    const SMALLEST: Self;
    fn low(self) -> f32;
    fn high(self) -> f32;
}

impl Real for f32 {
    const LARGEST: Self = Self::INFINITY;
    const SMALLEST: Self = Self::NEG_INFINITY;
    fn low(self) -> f32 {
        self
    }
    fn high(self) -> f32 {
        self
    }
}

impl Real for f64 {
    const LARGEST: Self = Self::INFINITY;
    const SMALLEST: Self = Self::NEG_INFINITY;
    fn low(self) -> f32 {
        below(self)
    }
    fn high(self) -> f32 {
        above(self)
    }
}

fn sweep<T: Real>(
    xyz: &[T],
    slab: &PointSlab<'_>,
    [i, j, k]: &[Range<usize>; 3],
    lines: &mut Vec<T>,
    hole: &mut Vec<i32>,
    row: &mut [Bounds],
) {
    let [ni, nj, nk] = slab.size;
    let plane = ni * nj;
    let component = plane * nk;
    let nc = slab.components;
    // Local rows and planes of the corners; none past the last point (a thin direction, or the zone's end).
    let js = j.start - slab.low[1]..(j.end - slab.low[1] + 1).min(nj);
    let ks = k.start - slab.low[2]..(k.end - slab.low[2] + 1).min(nk);
    // A line of minima and one of maxima per component; then one that is zero where all values are finite.
    lines.clear();
    for c in 0..nc {
        lines.resize((2 * c + 1) * ni, T::LARGEST);
        lines.resize((2 * c + 2) * ni, T::SMALLEST);
    }
    lines.resize((2 * nc + 1) * ni, T::default());
    hole.clear();
    hole.resize(ni, 0);
    let (extremes, odd) = lines.split_at_mut(2 * nc * ni);
    for kk in ks.clone() {
        for jj in js.clone() {
            let at = kk * plane + jj * ni;
            for c in 0..nc {
                let v = &xyz[c * component + at..][..ni];
                let (lo, hi) = extremes[2 * c * ni..][..2 * ni].split_at_mut(ni);
                for (((&x, lo), hi), odd) in v.iter().zip(lo).zip(hi).zip(odd.iter_mut()) {
                    *lo = if x < *lo { x } else { *lo };
                    *hi = if x > *hi { x } else { *hi };
                    // 0 for a finite number and NaN for any other.
                    *odd += x * T::default();
                }
            }
            if let Some(ib) = slab.iblank {
                for (&b, h) in ib[at..at + ni].iter().zip(hole.iter_mut()) {
                    // Blanked-out cells are found one by one.
                    *h |= i32::from(b == 0 || b >= OF_CELLS);
                }
            }
        }
    }
    let first = i.start / BLOCK;
    for (b, bounds) in row.iter_mut().enumerate() {
        let low = (first + b) * BLOCK;
        let cells = low.max(i.start) - slab.low[0]..(low + BLOCK).min(i.end) - slab.low[0];
        let points = cells.start..(cells.end + 1).min(ni);
        let usable = points.clone().all(|i| hole[i] == 0 && odd[i] == T::default());
        if usable {
            let mut found = EMPTY;
            found[2] = 0.0;
            found[5] = 0.0;
            for c in 0..nc {
                let (lo, hi) = extremes[2 * c * ni..][..2 * ni].split_at(ni);
                let lo = lo[points.clone()].iter().fold(T::LARGEST, |m, &x| if x < m { x } else { m });
                let hi = hi[points.clone()].iter().fold(T::SMALLEST, |m, &x| if x > m { x } else { m });
                found[c] = lo.low();
                found[c + 3] = hi.high();
            }
            merge(bounds, &found);
        } else {
            for kk in ks.start..ks.start + k.len() {
                for jj in js.start..js.start + j.len() {
                    for i in cells.clone() {
                        let at = kk * plane + jj * ni + i;
                        let corners = [[kk, kk + 1], [jj, jj + 1], [i, i + 1]];
                        add_cell(xyz, slab, at, [corners[2][1] < ni, corners[1][1] < nj, corners[0][1] < nk], bounds);
                    }
                }
            }
        }
    }
}

/// Grows `bounds` by one cell if it is usable. `up`: the axes along which it has an upper corner.
fn add_cell<T: Real>(xyz: &[T], slab: &PointSlab<'_>, at: usize, up: [bool; 3], bounds: &mut Bounds) {
    let [ni, nj, nk] = slab.size;
    let component = ni * nj * nk;
    let steps = [usize::from(up[0]), if up[1] { ni } else { 0 }, if up[2] { ni * nj } else { 0 }];
    let corner = |n: usize| at + (0..3).map(|a| if n >> a & 1 == 1 { steps[a] } else { 0 }).sum::<usize>();
    let mut found = EMPTY;
    found[2] = 0.0;
    found[5] = 0.0;
    let mut lo = [T::LARGEST; 3];
    let mut hi = [T::SMALLEST; 3];
    if slab.iblank.is_some_and(|ib| hides_cell(f64::from(ib[at]))) {
        return;
    }
    for n in 0..8 {
        let p = corner(n);
        if slab.iblank.is_some_and(|ib| ib[p] == 0) {
            return;
        }
        for c in 0..slab.components {
            let x = xyz[c * component + p];
            if x * T::default() != T::default() {
                return;
            }
            lo[c] = if x < lo[c] { x } else { lo[c] };
            hi[c] = if x > hi[c] { x } else { hi[c] };
        }
    }
    for c in 0..slab.components {
        found[c] = lo[c].low();
        found[c + 3] = hi[c].high();
    }
    merge(bounds, &found);
}

/// All levels of a zone's boxes, in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxPyramid {
    /// Finest first: the number of boxes (i, j, k), and the boxes `[k][j][i]`.
    levels: Vec<([usize; 3], Vec<Bounds>)>,
}

impl BoxPyramid {
    /// The boxes of a whole zone of `dims` points: the same numbers as a store's.
    ///
    /// ```
    /// use field::boxes::{BoxPyramid, Xyz};
    /// let xyz = [0.0f32, 1.0, 0.0, 1.0, 0.0, 0.0, 2.0, 2.0]; // four points in the plane
    /// let boxes = BoxPyramid::build([2, 2, 1], 2, Xyz::F32(&xyz), None);
    /// assert_eq!(boxes.get(0, [0, 0, 0]), [0.0, 0.0, 0.0, 1.0, 2.0, 0.0]);
    /// ```
    ///
    /// # Panics
    /// If an array is shorter than `dims` requires.
    pub fn build(dims: [usize; 3], components: usize, xyz: Xyz<'_>, iblank: Option<&[i32]>) -> Self {
        let slab = PointSlab { xyz, components, iblank, size: dims, low: [0; 3] };
        let shapes = level_dims(dims);
        let count = cells(dims);
        let n = shapes[0];
        let mut first = vec![EMPTY; n[0] * n[1] * n[2]];
        let mut lines = SweepBuffers::default();
        for (number, row) in first.chunks_exact_mut(n[0]).enumerate() {
            let (bj, bk) = (number % n[1], number / n[1]);
            let along = |b: usize, a: usize| b * BLOCK..((b + 1) * BLOCK).min(count[a]);
            add_block_row(&slab, &[0..count[0], along(bj, 1), along(bk, 2)], &mut lines, row);
        }
        first.iter_mut().for_each(|b| *b = widen(*b));
        let mut levels = vec![(n, first)];
        for &shape in &shapes[1..] {
            let mut next = vec![EMPTY; shape[0] * shape[1] * shape[2]];
            if let Some((from, boxes)) = levels.last() {
                for (number, b) in boxes.iter().enumerate() {
                    let at = [number % from[0] / 2, number / from[0] % from[1] / 2, number / from[0] / from[1] / 2];
                    merge(&mut next[(at[2] * shape[1] + at[1]) * shape[0] + at[0]], b);
                }
            }
            levels.push((shape, next));
        }
        Self { levels }
    }

    /// Number of levels.
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// Number of boxes (i, j, k) of a level.
    pub fn dims(&self, level: usize) -> [usize; 3] {
        self.levels[level].0
    }

    /// The box at (i, j, k) of a level, which must exist.
    #[inline]
    pub fn get(&self, level: usize, block: [u32; 3]) -> Bounds {
        let (n, boxes) = &self.levels[level];
        boxes[(block[2] as usize * n[1] + block[1] as usize) * n[0] + block[0] as usize]
    }

    /// Adds the blocks of a level whose boxes hold a point to `out`, i fastest.
    pub fn that_hold(&self, level: usize, p: V4, out: &mut Vec<[u32; 3]>) {
        let (n, boxes) = &self.levels[level];
        for (row, boxes) in boxes.chunks_exact(n[0]).enumerate() {
            for (i, _) in boxes.iter().enumerate().filter(|(_, b)| box_holds(b, p)) {
                out.push([i as u32, (row % n[1]) as u32, (row / n[1]) as u32]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounding_is_outward() {
        for x in [
            0.1f64,
            -0.1,
            1.0,
            1e-60,
            -1e-60,
            1e60,
            -1e60,
            16_777_217.0,
            -16_777_217.0,
            f64::from(f32::MAX) * 1.0000001,
            0.0,
        ] {
            assert!(f64::from(below(x)) <= x && f64::from(above(x)) >= x, "{x}");
        }
        assert_eq!(below(1e60), f32::MAX);
        assert_eq!(above(1e60), f32::INFINITY);
        assert_eq!((below(0.5), above(0.5)), (0.5, 0.5));
        assert_eq!(widen(EMPTY), EMPTY);
    }

    /// The expected boxes, one cell at a time.
    fn truth(d: [usize; 3], nc: usize, xyz: &[f64], ib: Option<&[i32]>) -> Vec<Bounds> {
        let n = level_dims(d)[0];
        let c = cells(d);
        let mut out = vec![EMPTY; n[0] * n[1] * n[2]];
        for k in 0..c[2] {
            for j in 0..c[1] {
                for i in 0..c[0] {
                    let mut points = Vec::new();
                    for q in 0..8 {
                        let p = [
                            (i + (q & 1)).min(d[0] - 1),
                            (j + (q >> 1 & 1)).min(d[1] - 1),
                            (k + (q >> 2)).min(d[2] - 1),
                        ];
                        points.push((p[2] * d[1] + p[1]) * d[0] + p[0]);
                    }
                    let total = d[0] * d[1] * d[2];
                    if points
                        .iter()
                        .any(|&p| ib.is_some_and(|b| b[p] == 0) || (0..nc).any(|m| !xyz[m * total + p].is_finite()))
                    {
                        continue;
                    }
                    let b = &mut out[((k / 4) * n[1] + j / 4) * n[0] + i / 4];
                    for p in points {
                        let x: [f64; 3] = std::array::from_fn(|m| if m < nc { xyz[m * total + p] } else { 0.0 });
                        merge(b, &[below(x[0]), below(x[1]), below(x[2]), above(x[0]), above(x[1]), above(x[2])]);
                    }
                }
            }
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, rng_seed: prop::test_runner::RngSeed::Fixed(0x626f_7865), ..ProptestConfig::default() })]
        #[test]
        fn equals_brute_force(d in prop::array::uniform3(1usize..14), nc in 2usize..4, single: bool, holes in 0u64..4, seed: u64) {
            let total = d[0] * d[1] * d[2];
            let mut s = seed | 1;
            let mut random = || { s ^= s << 13; s ^= s >> 7; s ^= s << 17; s };
            let mut xyz: Vec<f64> = (0..nc * total).map(|_| (random() >> 11) as f64 / (1u64 << 53) as f64 - 0.5).collect();
            if single { xyz.iter_mut().for_each(|x| *x = f64::from(*x as f32)); }
            if holes > 2 { xyz.iter_mut().for_each(|x| if random() % 50 == 0 { *x = f64::NAN }); }
            let ib: Vec<i32> = (0..total).map(|_| if holes > 0 && random() % 20 == 0 { 0 } else { (random() % 4) as i32 * 2 - 3 }).collect();
            let ib = (holes > 0).then_some(&ib[..]);
            let narrow: Vec<f32> = xyz.iter().map(|&x| x as f32).collect();
            let values = if single { Xyz::F32(&narrow) } else { Xyz::F64(&xyz) };
            let p = BoxPyramid::build(d, nc, values, ib);
            let want = truth(d, nc, &xyz, ib);
            prop_assert_eq!(&p.levels[0].1, &want.iter().map(|b| widen(*b)).collect::<Vec<_>>());
            for (w, t) in p.levels[0].1.iter().zip(&want) {
                for c in 0..3 {
                    let width = t[c + 3] - t[c];
                    prop_assert!(w[c] <= t[c] && w[c + 3] >= t[c + 3]);
                    prop_assert!(!width.is_finite() || w[c + 3] - w[c] <= width * 1.0626, "{:?} {:?}", w, t);
                }
            }
            // Pieces in any order give equal boxes.
            let n = level_dims(d)[0];
            let slab = PointSlab { xyz: values, components: nc, iblank: ib, size: d, low: [0; 3] };
            let mut pieces = vec![EMPTY; n[0] * n[1] * n[2]];
            let c = cells(d);
            for k in (0..c[2]).rev() {
                for j in 0..c[1] {
                    let row = &mut pieces[((k / 4) * n[1] + j / 4) * n[0]..][..n[0]];
                    let cut = (random() as usize) % (c[0] + 1);
                    for i in [cut..c[0], 0..cut] {
                        let blocks = i.start / 4..if i.is_empty() { i.start / 4 } else { i.end.div_ceil(4) };
                        add_block_row(&slab, &[i, j..j + 1, k..k + 1], &mut SweepBuffers::default(), &mut row[blocks]);
                    }
                }
            }
            prop_assert_eq!(pieces, want);
        }
    }
}
