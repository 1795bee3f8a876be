//! Ranges of blocks, computed when a page is decoded.

use super::voxel::{Brick, Voxel, BLOCK};
use crate::with_voxel;

/// Smallest and largest values of a type, so that anything is smaller than the one and larger than the other.
pub trait Extremes: Voxel {
    /// Nothing is above it.
    const HIGHEST: Self;
    /// Nothing is below it.
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
/// Where they are not aligned as such; frames are.
pub fn typed<T: Voxel>(bytes: &[u8]) -> &[T] {
    // SAFETY: `Voxel` is for numbers only (see its implementations), of which every pattern of bits is one.
    let (before, numbers, _) = unsafe { bytes.align_to::<T>() };
    assert!(before.is_empty(), "a frame that is not aligned");
    numbers
}

/// As [`typed`], to be written.
///
/// # Panics
/// As [`typed`].
pub fn typed_mut<T: Voxel>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: as in `typed`.
    let (before, numbers, _) = unsafe { bytes.align_to_mut::<T>() };
    assert!(before.is_empty(), "a frame that is not aligned");
    numbers
}

/// Writes the ranges of the blocks of a page, of which `inside` voxels along i, j, k are the volume's.
pub fn write_ranges(brick: &Brick, inside: [u32; 3], frame: &mut [u8]) {
    let (voxels, ranges) = frame.split_at_mut(brick.ranges_at());
    with_voxel!(brick.voxel, T => ranges_of::<T>(brick, inside, typed(voxels), typed_mut(ranges)));
}

/// Rows of lowest and highest values, for pages up to so many numbers a row, without memory of their own.
const ROW: usize = 1024;

fn ranges_of<T: Extremes>(brick: &Brick, inside: [u32; 3], voxels: &[T], out: &mut [T]) {
    let nc = brick.components;
    let row = brick.page[0] as usize * nc;
    let plane = row * brick.page[1] as usize;
    let [bi, bj, bk] = brick.blocks();
    let [ni, nj, nk] = inside.map(|n| n as usize);
    let width = (ni * nc).min(row);
    let (mut low, mut high) = ([T::HIGHEST; ROW], [T::LOWEST; ROW]);
    // Whole blocks of whole voxels a piece.
    let piece = (ROW - nc.min(ROW)) / (BLOCK * nc).max(1) * BLOCK * nc;
    for kb in 0..bk {
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
                // The layer that follows the last block belongs to it.
                let n = (piece + nc).min(width.saturating_sub(from));
                let (low, high) = (&mut low[..n], &mut high[..n]);
                low.fill(T::HIGHEST);
                high.fill(T::LOWEST);
                for k in ks.clone() {
                    for j in js.clone() {
                        let row = &voxels[k * plane + j * row + from..][..n];
                        for ((v, low), high) in row.iter().zip(low.iter_mut()).zip(high.iter_mut()) {
                            // Not a number is neither.
                            *low = if *v < *low { *v } else { *low };
                            *high = if *v > *high { *v } else { *high };
                        }
                    }
                }
                reduce(nc, low, high, out);
                from += piece;
            }
        }
    }
}

/// From a row of lowest and highest values to those of blocks.
fn reduce<T: Extremes>(nc: usize, low: &[T], high: &[T], out: &mut [T]) {
    if nc == 1 {
        // The blocks that have all five layers.
        let full = (low.len().saturating_sub(1)) / BLOCK;
        let (whole, rest) = out.split_at_mut((2 * full).min(out.len()));
        for (b, out) in whole.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let (l, h) = (&low[b * BLOCK..][..BLOCK + 1], &high[b * BLOCK..][..BLOCK + 1]);
            *out = [
                lesser(lesser(lesser(l[0], l[1]), lesser(l[2], l[3])), l[4]),
                greater(greater(greater(h[0], h[1]), greater(h[2], h[3])), h[4]),
            ];
        }
        for (b, out) in rest.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let at = ((full + b) * BLOCK).min(low.len())..((full + b) * BLOCK + BLOCK + 1).min(low.len());
            let first = (T::HIGHEST, T::LOWEST);
            let found = at.fold(first, |(l, h), i| (lesser(l, low[i]), greater(h, high[i])));
            *out = found.into();
        }
        return;
    }
    for (n, out) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        let (b, c) = (n / nc, n % nc);
        *out = [T::HIGHEST, T::LOWEST];
        for i in b * BLOCK..=b * BLOCK + BLOCK {
            if let (Some(l), Some(h)) = (low.get(i * nc + c), high.get(i * nc + c)) {
                *out = [lesser(out[0], *l), greater(out[1], *h)];
            }
        }
    }
}

/// For voxels of so many numbers that a block does not fit a row.
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
