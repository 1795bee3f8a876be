//! A brick's voxels in rows, on the way from pages to blocks.

use super::bricks::{BLOCKS, EDGE, SIDE};
use super::sample::Sampled;
use super::scene::Source;
use field::volume::BLOCK;

/// Voxels of a brick in rows, as they are copied out of pages: a row has those of its cells, and what readers of eight may read too many.
pub(crate) const FLAT_ROW: usize = EDGE + 4;
pub(crate) const FLAT_PLANE: usize = FLAT_ROW * (EDGE + 1);
pub(crate) const FLAT: usize = FLAT_PLANE * (EDGE + 1) + 8;

/// A place in a page.
pub(crate) struct Piece<T> {
    /// The number that lies there.
    pub first: *const T,
    /// Voxels from it on that lie in the page, along each axis.
    pub left: [usize; 3],
    /// The lowest and highest number of its block.
    pub ranges: *const T,
    /// Elements from there to those of the next block along each axis.
    pub blocks: [usize; 3],
}

/// Copies a box of voxels, page by page.
pub(crate) fn copy<T: Sampled>(
    source: &Source,
    low: [u32; 3],
    size: [usize; 3],
    to: &mut [T],
    page: &mut impl FnMut([u32; 3]) -> Option<Piece<T>>,
) -> Option<()> {
    const WHOLE: usize = EDGE + 1;
    let [si, sj, sk] = source.strides.map(|s| s as usize);
    let mut k = 0;
    while k < size[2] {
        let (mut j, mut planes) = (0, 0);
        while j < size[1] {
            let (mut i, mut rows) = (0, 0);
            while i < size[0] {
                let Piece { first: from, left, .. } = page([low[0] + i as u32, low[1] + j as u32, low[2] + k as u32])?;
                let count = left[0].min(size[0] - i);
                (rows, planes) = (left[1].min(size[1] - j), left[2].min(size[2] - k));
                let at = k * FLAT_PLANE + j * FLAT_ROW + i;
                let out = &mut to[at..][..(planes - 1) * FLAT_PLANE + (rows - 1) * FLAT_ROW + count];
                // SAFETY: these voxels lie in the page, and in the part of the brick that was cut out here.
                unsafe {
                    let out = out.as_mut_ptr();
                    for z in 0..planes {
                        for y in 0..rows {
                            let (row, out) = (from.add(y * sj + z * sk), out.add(z * FLAT_PLANE + y * FLAT_ROW));
                            // Of lengths that the compiler knows: a few moves.
                            match (si, count) {
                                (1, EDGE) => core::ptr::copy_nonoverlapping(row, out, EDGE),
                                (1, WHOLE) => core::ptr::copy_nonoverlapping(row, out, WHOLE),
                                (_, 1) => *out = *row,
                                (1, _) => core::ptr::copy_nonoverlapping(row, out, count),
                                _ => (0..count).for_each(|n| *out.add(n) = *row.add(n * si)),
                            }
                        }
                    }
                }
                i += count;
            }
            j += rows;
        }
        k += planes;
    }
    Some(())
}

/// Of each two elements, in loops that the compiler makes vectors of.
#[inline(always)]
pub(crate) fn each<T: Copy>(to: &mut [T], with: &[T], of: impl Fn(T, T) -> T) {
    for (t, w) in to.iter_mut().zip(with) {
        *t = of(*t, *w);
    }
}

/// The same, to elsewhere.
#[inline(always)]
fn each_of<T: Copy>(to: &mut [T], a: &[T], b: &[T], of: impl Fn(T, T) -> T) {
    for ((t, a), b) in to.iter_mut().zip(a).zip(b) {
        *t = of(*a, *b);
    }
}

/// Of each element of a plane, the extreme of it and the [`BLOCK`] that follow along i and along j; of the last ones anything.
#[inline(always)]
fn beyond<T: Copy>(plane: &mut [T; FLAT_PLANE], scratch: &mut [[T; FLAT_PLANE]; 2], of: impl Fn(T, T) -> T + Copy) {
    let [two, four] = scratch;
    for step in [1, FLAT_ROW] {
        each_of(two, plane, &plane[step..], of);
        each_of(four, two, &two[2 * step..], of);
        each_of(two, four, &plane[BLOCK * step..], of);
        *plane = *two;
    }
}

/// Writes which blocks may show something, and says how many do.
pub(crate) fn seen<T: Sampled>(voxels: &[T], shown: &mut [bool; BLOCKS], source: &Source) -> usize {
    // What is no number is passed over, where it comes second.
    let lower = |a: T, b: T| if b < a { b } else { a };
    let higher = |a: T, b: T| if b > a { b } else { a };
    let (mut low, mut high) = ([T::HIGHEST; FLAT_PLANE], [T::LOWEST; FLAT_PLANE]);
    let mut scratch = [[T::LOWEST; FLAT_PLANE]; 2];
    let mut count = 0;
    for (k, shown) in shown.chunks_exact_mut(SIDE * SIDE).enumerate() {
        low.fill(T::HIGHEST);
        high.fill(T::LOWEST);
        for plane in voxels[k * BLOCK * FLAT_PLANE..][..(BLOCK + 1) * FLAT_PLANE].chunks_exact(FLAT_PLANE) {
            for ((v, low), high) in plane.iter().zip(&mut low).zip(&mut high) {
                (*low, *high) = (lower(*low, *v), higher(*high, *v));
            }
        }
        beyond(&mut low, &mut scratch, lower);
        beyond(&mut high, &mut scratch, higher);
        for (n, out) in shown.iter_mut().enumerate() {
            let at = (n / SIDE * FLAT_ROW + n % SIDE) * BLOCK;
            *out = source.seen(low[at], high[at]);
            count += usize::from(*out);
        }
    }
    count
}
