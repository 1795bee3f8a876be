//! Ranges of blocks, computed when a page is decoded.

use super::voxel::{Brick, Voxel, BLOCK};
use crate::with_voxel;

/// Extreme values of a type: every number is at most [`Self::HIGHEST`] and at least [`Self::LOWEST`].
pub trait Extremes: Voxel {
    /// No number is above it.
    const HIGHEST: Self;
    /// No number is below it.
    const LOWEST: Self;
}

macro_rules! extremes {
    ($($t:ty: $low:expr, $high:expr;)*) => { $(
        impl Extremes for $t {
            const HIGHEST: Self = $high;
            const LOWEST: Self = $low;
        }
    )* };
}

extremes! {
    u8: Self::MIN, Self::MAX; i8: Self::MIN, Self::MAX; u16: Self::MIN, Self::MAX; i16: Self::MIN, Self::MAX;
    u32: Self::MIN, Self::MAX; i32: Self::MIN, Self::MAX; u64: Self::MIN, Self::MAX; i64: Self::MIN, Self::MAX;
    f32: Self::NEG_INFINITY, Self::INFINITY; f64: Self::NEG_INFINITY, Self::INFINITY;
}

/// Bytes as numbers.
///
/// # Panics
/// The bytes are not aligned for `T`. Frames are.
pub fn typed<T: Voxel>(bytes: &[u8]) -> &[T] {
    // SAFETY: `Voxel` is for numbers only (see its implementations), so every bit pattern is valid.
    let (before, numbers, _) = unsafe { bytes.align_to::<T>() };
    assert!(before.is_empty(), "a frame that is not aligned");
    numbers
}

/// As [`typed`], mutable.
///
/// # Panics
/// As [`typed`].
pub fn typed_mut<T: Voxel>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: as in `typed`.
    let (before, numbers, _) = unsafe { bytes.align_to_mut::<T>() };
    assert!(before.is_empty(), "a frame that is not aligned");
    numbers
}

/// Writes the ranges of a page's blocks. `inside` is the number of the volume's voxels in the page, along i, j, k.
pub fn write_ranges(brick: &Brick, inside: [u32; 3], frame: &mut [u8]) {
    let (voxels, ranges) = frame.split_at_mut(brick.ranges_at());
    with_voxel!(brick.voxel, T => ranges_of::<T>(brick, inside, typed(voxels), typed_mut(ranges)));
}

/// Longest row of lowest and highest values, for pages up to this many numbers a row. Needs no allocation.
const ROW: usize = 1024;

fn ranges_of<T: Extremes>(brick: &Brick, inside: [u32; 3], voxels: &[T], out: &mut [T]) {
    let nc = brick.components;
    let row = brick.page[0] as usize * nc;
    let plane = row * brick.page[1] as usize;
    let [bi, bj, bk] = brick.blocks();
    let [ni, nj, nk] = inside.map(|n| n as usize);
    let width = (ni * nc).min(row);
    let (mut low, mut high) = ([T::HIGHEST; ROW], [T::LOWEST; ROW]);
    let mut scratch = [[T::LOWEST; ROW]; 2];
    // Whole blocks of whole voxels a piece.
    let piece = (ROW - nc.min(ROW)) / (BLOCK * nc).max(1) * BLOCK * nc;
    for kb in 0..bk {
        // Prefetches the next planes while the present ones are processed, since their rows are scattered.
        let next = (kb * BLOCK + BLOCK + 1).min(nk) * plane..((kb + 1) * BLOCK + BLOCK + 1).min(nk) * plane;
        for line in voxels[next].chunks(crate::simd::CACHE_LINE / size_of::<T>()) {
            crate::simd::prefetch(line.as_ptr().cast());
        }
        let ks = (kb * BLOCK).min(nk)..(kb * BLOCK + BLOCK + 1).min(nk);
        for jb in 0..bj {
            let js = (jb * BLOCK).min(nj)..(jb * BLOCK + BLOCK + 1).min(nj);
            let out = &mut out[(kb * bj + jb) * bi * nc * 2..][..bi * nc * 2];
            if piece == 0 {
                wide_voxels(nc, [ni, row, plane], [js, ks.clone()], voxels, out);
                continue;
            }
            let mut from = 0;
            for out in out.chunks_mut(piece * 2 / BLOCK) {
                // The layer after the last block belongs to it.
                let n = (piece + nc).min(width.saturating_sub(from));
                rows_of(voxels, from, [row, plane], [&js, &ks], &mut low[..n], &mut high[..n]);
                let blocks = out.len().div_ceil(2 * nc) * BLOCK * nc;
                // Neutral values where there are no voxels.
                low[n..blocks + nc].fill(T::HIGHEST);
                high[n..blocks + nc].fill(T::LOWEST);
                reduce(nc, blocks, [&mut low, &mut high], &mut scratch, out);
                from += piece;
            }
        }
    }
}

/// Columns processed together: one register of bytes, eight of doubles.
const WIDE: usize = 32;

/// Lowest and highest of each column of some rows, from column `from` on. In arrays of constant length the extremes
/// stay in registers over all rows. Through memory, in rows of any length, a page of 32^3 bytes took 18 microseconds
/// instead of 7. That was a fifth of drawing a surface from a disk.
fn rows_of<T: Extremes>(
    voxels: &[T],
    from: usize,
    [row, plane]: [usize; 2],
    [js, ks]: [&std::ops::Range<usize>; 2],
    low: &mut [T],
    high: &mut [T],
) {
    let rest = low.len() / WIDE * WIDE;
    let (wide_low, low_rest) = low.as_chunks_mut::<WIDE>();
    let (wide_high, high_rest) = high.as_chunks_mut::<WIDE>();
    for (n, (low, high)) in wide_low.iter_mut().zip(wide_high).enumerate() {
        let (mut least, mut most) = ([T::HIGHEST; WIDE], [T::LOWEST; WIDE]);
        for k in ks.clone() {
            for j in js.clone() {
                let row = &voxels[k * plane + j * row + from + n * WIDE..][..WIDE].as_chunks::<WIDE>().0[0];
                #[allow(clippy::needless_range_loop)] // three arrays by the same column
                for i in 0..WIDE {
                    // NaN changes neither.
                    least[i] = lesser(least[i], row[i]);
                    most[i] = greater(most[i], row[i]);
                }
            }
        }
        (*low, *high) = (least, most);
    }
    if low_rest.is_empty() {
        return;
    }
    low_rest.fill(T::HIGHEST);
    high_rest.fill(T::LOWEST);
    for k in ks.clone() {
        for j in js.clone() {
            let row = &voxels[k * plane + j * row + from + rest..][..low_rest.len()];
            for ((v, low), high) in row.iter().zip(low_rest.iter_mut()).zip(high_rest.iter_mut()) {
                *low = lesser(*low, *v);
                *high = greater(*high, *v);
            }
        }
    }
}

/// Reduces a row of lowest and highest values (`count` numbers and the layer after them) to those of blocks. The five
/// voxels of a block are combined for all numbers of the row at once. Block by block, the ranges of a page of colours,
/// 32^3 voxels, took 21 microseconds instead of 9.
fn reduce<T: Extremes>(
    nc: usize,
    count: usize,
    [low, high]: [&mut [T; ROW]; 2],
    scratch: &mut [[T; ROW]; 2],
    out: &mut [T],
) {
    const { assert!(BLOCK == 4) };
    five(nc, count, low, scratch, lesser);
    five(nc, count, high, scratch, greater);
    for (block, out) in out.chunks_mut(2 * nc).enumerate() {
        let at = block * BLOCK * nc;
        for ((out, low), high) in out.as_chunks_mut::<2>().0.iter_mut().zip(&low[at..]).zip(&high[at..]) {
            *out = [*low, *high];
        }
    }
}

/// Replaces each number, up to the last block's, by the extreme of it and the numbers one to four voxels on.
#[inline(always)]
fn five<T: Extremes>(
    nc: usize,
    count: usize,
    row: &mut [T; ROW],
    [two, four]: &mut [[T; ROW]; 2],
    of: impl Fn(T, T) -> T,
) {
    let n = count.saturating_sub(3 * nc);
    for ((to, a), b) in two[..n + 2 * nc].iter_mut().zip(&*row).zip(&row[nc..]) {
        *to = of(*a, *b);
    }
    for ((to, a), b) in four[..n].iter_mut().zip(&*two).zip(&two[2 * nc..]) {
        *to = of(*a, *b);
    }
    let fifth = &mut two[..n];
    fifth.copy_from_slice(&row[BLOCK * nc..][..n]);
    for ((to, a), b) in row[..n].iter_mut().zip(&*four).zip(&*fifth) {
        *to = of(*a, *b);
    }
}

/// For voxels with so many numbers that a block does not fit a row.
fn wide_voxels<T: Extremes>(
    nc: usize,
    [ni, row, plane]: [usize; 3],
    [js, ks]: [std::ops::Range<usize>; 2],
    voxels: &[T],
    out: &mut [T],
) {
    for (n, out) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let (b, c) = (n / nc, n % nc);
        *out = [T::HIGHEST, T::LOWEST];
        for k in ks.clone() {
            for j in js.clone() {
                for i in (b * BLOCK).min(ni)..(b * BLOCK + BLOCK + 1).min(ni) {
                    let v = voxels[k * plane + j * row + i * nc + c];
                    *out = [lesser(out[0], v), greater(out[1], v)];
                }
            }
        }
    }
}

#[inline(always)]
fn lesser<T: PartialOrd>(a: T, b: T) -> T {
    if b < a {
        b
    } else {
        a
    }
}

#[inline(always)]
fn greater<T: PartialOrd>(a: T, b: T) -> T {
    if b > a {
        b
    } else {
        a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares ranges of blocks of random numbers with those computed voxel by voxel.
    fn check<T: Extremes>(page: [u32; 3], components: usize, inside: [u32; 3], number: impl Fn(u64) -> T) {
        let brick = Brick { page, components, voxel: T::TYPE };
        let mut seed = 0x2545_f491_4f6c_dd1du64;
        let voxels: Vec<T> = (0..brick.voxels() * components)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                number(seed >> 33)
            })
            .collect();
        let [bi, bj, bk] = brick.blocks();
        let mut found = vec![T::LOWEST; bi * bj * bk * components * 2];
        ranges_of(&brick, inside, &voxels, &mut found);
        let inside = inside.map(|n| n as usize);
        let [pi, pj, _] = page.map(|n| n as usize);
        for (n, pair) in found.as_chunks::<2>().0.iter().enumerate() {
            let (block, c) = (n / components, n % components);
            let at = [block % bi, block / bi % bj, block / bi / bj].map(|b| b * BLOCK);
            let (mut low, mut high) = (T::HIGHEST, T::LOWEST);
            for k in at[2]..(at[2] + BLOCK + 1).min(inside[2]) {
                for j in at[1]..(at[1] + BLOCK + 1).min(inside[1]) {
                    for i in at[0]..(at[0] + BLOCK + 1).min(inside[0]) {
                        let v = voxels[((k * pj + j) * pi + i) * components + c];
                        low = if v < low { v } else { low };
                        high = if v > high { v } else { high };
                    }
                }
            }
            assert!(pair[0] == low && pair[1] == high, "{page:?} {components} {inside:?}: block {block}");
        }
    }

    #[test]
    fn ranges_are_those_of_voxel_by_voxel() {
        check([32, 32, 32], 1, [32, 32, 32], |n| n as u8);
        check([64, 9, 8], 1, [63, 9, 7], |n| n as u8);
        check([33, 8, 5], 1, [33, 8, 5], |n| n as i16);
        check([13, 7, 6], 3, [12, 7, 6], |n| n as u16);
        check([2000, 4, 2], 1, [1990, 4, 2], |n| n as u8);
        check([40, 5, 9], 1, [40, 5, 9], |n| if n % 7 == 0 { f32::NAN } else { n as f32 });
        check([16, 16, 4], 2, [16, 15, 4], |n| n as f64);
    }
}
