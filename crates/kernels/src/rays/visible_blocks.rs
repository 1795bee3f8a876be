//! The possibly visible blocks of a brick: by the ranges behind the voxels of pages, or by its voxels without ranges.

use super::brick_copy::FlatBlock;
use super::brick_shape::{BLOCKS, EDGE, PLANE, ROW, SIDE, STRIP};
use super::sample::SampledVoxel;
use super::source::RaySource;
use field::volume::BLOCK;

/// Blocks of a brick along an axis, and the next one.
const AND_NEXT: usize = SIDE + 1;

/// The known bounds of absent pages.
pub(crate) type Rest<'a, T> = &'a dyn Fn([u32; 3]) -> [T; 2];

/// The possibly visible blocks of a brick, and whether there are any, by the ranges of pages. `None` if pages are
/// absent, unless the bounds of the numbers in a voxel's page are known.
pub(crate) fn shows<T: SampledVoxel>(
    source: &RaySource,
    brick: [i32; 3],
    shown: &mut [bool; BLOCKS],
    rest: Option<Rest<'_, T>>,
    page: &mut impl FnMut([u32; 3]) -> Option<FlatBlock<T>>,
) -> Option<bool> {
    let low = brick.map(|b| b as u32 * EDGE as u32);
    // Blocks with voxels, with those that follow the brick, and blocks with cells.
    let of = |voxels: u32| voxels.div_ceil(BLOCK as u32) as usize;
    let whole: [usize; 3] = core::array::from_fn(|a| of(source.cells[a] + 1 - low[a]).min(AND_NEXT));
    let own: [usize; 3] = core::array::from_fn(|a| of(source.cells[a].saturating_sub(low[a])).min(SIDE));
    const STRIDES: [usize; 3] = [1, AND_NEXT, AND_NEXT * AND_NEXT];
    let mut ends = [[T::HIGHEST, T::LOWEST]; AND_NEXT * AND_NEXT * AND_NEXT];
    let mut k = 0;
    while k < whole[2] {
        let (mut j, mut planes) = (0, 0);
        while j < whole[1] {
            let (mut i, mut rows) = (0, 0);
            while i < whole[0] {
                let at: [usize; 3] = core::array::from_fn(|a| low[a] as usize + BLOCK * [i, j, k][a]);
                let piece = page(at.map(|n| n as u32));
                let mut between = [T::LOWEST, T::HIGHEST];
                if piece.is_none() {
                    between = rest?(at.map(|n| n as u32));
                }
                let voxels: [usize; 3] = core::array::from_fn(|a| {
                    piece.as_ref().map_or(source.page[a] as usize - at[a] % source.page[a] as usize, |p| p.left[a])
                });
                let left: [usize; 3] = core::array::from_fn(|a| voxels[a].div_ceil(BLOCK).min(whole[a] - [i, j, k][a]));
                if let Some(piece) = &piece {
                    // Their cache lines are fetched together: one after the other they took half of the time here.
                    for (z, y) in (0..left[2]).flat_map(|z| (0..left[1]).map(move |y| (z, y))) {
                        let row = piece.ranges.wrapping_add(z * piece.blocks[2] + y * piece.blocks[1]);
                        field::simd::prefetch(row.cast());
                    }
                }
                for z in 0..left[2] {
                    for y in 0..left[1] {
                        let to = &mut ends[(k + z) * STRIDES[2] + (j + y) * STRIDES[1] + i..][..left[0]];
                        let Some(piece) = &piece else {
                            to.fill(between);
                            continue;
                        };
                        // SAFETY: these blocks are in the page, and its frame has the ranges of all of them.
                        unsafe {
                            let from = piece.ranges.add(z * piece.blocks[2] + y * piece.blocks[1]);
                            // A brick's own, in one move.
                            if let (2, Ok(to)) = (piece.blocks[0], <&mut [[T; 2]; SIDE]>::try_from(&mut *to)) {
                                *to = *from.cast();
                                continue;
                            }
                            for (x, to) in to.iter_mut().enumerate() {
                                let block = from.add(x * piece.blocks[0]);
                                *to = [*block, *block.add(1)];
                            }
                        }
                    }
                }
                i += left[0];
                (rows, planes) = (left[1], left[2]);
            }
            j += rows;
        }
        k += planes;
    }
    // Most bricks are invisible, or are made long after their inspection: in lanes this took a tenth of the time.
    let (mut lows, mut highs) = ([T::HIGHEST; 16], [T::LOWEST; 16]);
    let (chunks, rest) = ends.as_flattened().as_chunks::<16>();
    for chunk in chunks {
        each(&mut lows, chunk, |a, b| if b < a { b } else { a });
        each(&mut highs, chunk, |a, b| if b > a { b } else { a });
    }
    let mut all = rest.as_chunks::<2>().0.iter().fold([T::HIGHEST, T::LOWEST], |all, r| both(all, *r));
    for (low, high) in lows.iter().step_by(2).zip(highs.iter().skip(1).step_by(2)) {
        all = both(all, [*low, *high]);
    }
    if !source.seen(all[0], all[1]) {
        return Some(false);
    }
    // A block's range includes the layers behind it if they are in its page; otherwise the blocks there have them.
    for axis in 0..3 {
        for b in 0..SIDE.min(whole[axis].saturating_sub(1)) {
            if !(low[axis] + (BLOCK * (b + 1)) as u32).is_multiple_of(source.page[axis] as u32) {
                continue;
            }
            let [p, q] = [(axis + 1) % 3, (axis + 2) % 3];
            for n in 0..whole[q] {
                for m in 0..whole[p] {
                    let at = b * STRIDES[axis] + m * STRIDES[p] + n * STRIDES[q];
                    ends[at] = both(ends[at], ends[at + STRIDES[axis]]);
                }
            }
        }
    }
    shown.fill(false);
    let mut any = false;
    for k in 0..own[2] {
        for j in 0..own[1] {
            let row = &ends[k * STRIDES[2] + j * STRIDES[1]..][..own[0]];
            let out = &mut shown[(k * SIDE + j) * SIDE..][..own[0]];
            for ([a, b], out) in row.iter().zip(out) {
                *out = source.seen(*a, *b);
                any |= *out;
            }
        }
    }
    Some(any)
}

/// The smallest range that contains both.
#[inline(always)]
fn both<T: Copy + PartialOrd>(a: [T; 2], b: [T; 2]) -> [T; 2] {
    [if b[0] < a[0] { b[0] } else { a[0] }, if b[1] > a[1] { b[1] } else { a[1] }]
}

/// For each two elements, in loops that the compiler vectorises.
#[inline(always)]
fn each<T: Copy>(to: &mut [T], with: &[T], of: impl Fn(T, T) -> T) {
    for (t, w) in to.iter_mut().zip(with) {
        *t = of(*t, *w);
    }
}

/// The same, to another place.
#[inline(always)]
fn each_of<T: Copy>(to: &mut [T], a: &[T], b: &[T], of: impl Fn(T, T) -> T) {
    for ((t, a), b) in to.iter_mut().zip(a).zip(b) {
        *t = of(*a, *b);
    }
}

/// For each element of a plane, the extreme of it and the next, as many as a block has rows. The last ones are
/// arbitrary.
#[inline(always)]
fn beyond<T: Copy>(plane: &mut [T; PLANE], scratch: &mut [T; PLANE], of: impl Fn(T, T) -> T + Copy) {
    const { assert!(ROW * ROW == 25) };
    // Over 2, 4, 8, 16, 25 elements.
    let (mut from, mut to) = (&mut *plane, &mut *scratch);
    for step in [1, 2, 4, 8, 9] {
        each_of(to, from, &from[step..], of);
        (from, to) = (to, from);
    }
    // After an odd number of copies the result is in the scratch.
    *plane = *scratch;
}

/// Writes the possibly visible blocks. Returns their number.
pub(crate) fn seen<T: SampledVoxel>(voxels: &[T], shown: &mut [bool; BLOCKS], source: &RaySource) -> usize {
    // NaN as the second operand is ignored.
    let lower = |a: T, b: T| if b < a { b } else { a };
    let higher = |a: T, b: T| if b > a { b } else { a };
    let (mut low, mut high) = ([T::HIGHEST; PLANE], [T::LOWEST; PLANE]);
    let mut scratch = [T::LOWEST; PLANE];
    let mut count = 0;
    for (k, shown) in shown.chunks_exact_mut(SIDE * SIDE).enumerate() {
        low.fill(T::HIGHEST);
        high.fill(T::LOWEST);
        for plane in voxels[k * BLOCK * PLANE..][..(BLOCK + 1) * PLANE].chunks_exact(PLANE) {
            for ((v, low), high) in plane.iter().zip(&mut low).zip(&mut high) {
                (*low, *high) = (lower(*low, *v), higher(*high, *v));
            }
        }
        beyond(&mut low, &mut scratch, lower);
        beyond(&mut high, &mut scratch, higher);
        for (n, out) in shown.iter_mut().enumerate() {
            let at = n % SIDE * STRIP + n / SIDE * BLOCK * ROW;
            *out = source.seen(low[at], high[at]);
            count += usize::from(*out);
        }
    }
    count
}
