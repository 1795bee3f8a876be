//! Copies of a brick's voxels out of pages: piece by piece, as pages come, or all at once.

use super::brick_shape::{BLOCKS, CORNERS, EDGE, PLANE, ROW, SIDE, STRIP};
use super::lanes::pick;
use super::sample::SampledVoxel;
use super::source::RaySource;
use field::volume::BLOCK;

/// A place in a page.
pub(crate) struct FlatBlock<T> {
    /// The number there.
    pub first: *const T,
    /// Voxels from it on in the page, along each axis.
    pub left: [usize; 3],
    /// The lowest and highest number of its block.
    pub ranges: *const T,
    /// Elements from there to those of the next block along each axis.
    pub blocks: [usize; 3],
}

/// Copies a box of voxels, page by page.
pub(crate) fn copy<T: SampledVoxel>(
    source: &RaySource,
    low: [u32; 3],
    size: [usize; 3],
    to: &mut [T],
    page: &mut impl FnMut([u32; 3]) -> Option<FlatBlock<T>>,
) -> Option<()> {
    let [si, sj, sk] = source.strides.map(|s| s as usize);
    let mut k = 0;
    while k < size[2] {
        let (mut j, mut planes) = (0, 0);
        while j < size[1] {
            let (mut i, mut rows) = (0, 0);
            while i < size[0] {
                let FlatBlock { first: from, left, .. } =
                    page([low[0] + i as u32, low[1] + j as u32, low[2] + k as u32])?;
                let count = left[0].min(size[0] - i);
                (rows, planes) = (left[1].min(size[1] - j), left[2].min(size[2] - k));
                // SAFETY: these voxels are in the page, and they are corners of the brick.
                unsafe {
                    let out = to.as_mut_ptr().add(k * PLANE + j * ROW);
                    for z in 0..planes {
                        for y in 0..rows {
                            let (row, out) = (from.add(y * sj + z * sk), out.add(z * PLANE + y * ROW));
                            match (si, i, count) {
                                (_, 0, EDGE..) => {
                                    match si {
                                        1 => lay(row, out, false),
                                        _ => lay_apart(row, si, out, false),
                                    }
                                    if count > EDGE {
                                        *out.add(LAST) = *row.add(EDGE * si);
                                    }
                                }
                                _ => lay_some(row, si, i, count, out),
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

/// A bit along i for each block, in rows.
pub(crate) type Masks = [u8; SIDE * SIDE];

/// Blocks as bits.
pub(crate) fn masks_of(shown: &[bool; BLOCKS]) -> Masks {
    let mut masks = [0; SIDE * SIDE];
    for (mask, row) in masks.iter_mut().zip(shown.as_chunks::<SIDE>().0) {
        // Byte n of eight, which is 0 or 1, becomes bit n of the highest byte.
        *mask = (u64::from_le_bytes(row.map(u8::from)).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
    }
    masks
}

/// Rows of corners of visible blocks: for each plane a bit a row.
pub(crate) fn rows_of(shown: &Masks) -> [u64; CORNERS] {
    let mut rows = [0; CORNERS];
    for (n, _) in shown.iter().enumerate().filter(|(_, mask)| **mask != 0) {
        let (j, k) = (n % SIDE * BLOCK, n / SIDE * BLOCK);
        let bits = (2 << BLOCK) - 1;
        rows[k..=k + BLOCK].iter_mut().for_each(|plane| *plane |= bits << j);
    }
    rows
}

/// Most pieces of a brick, with a bit each for presence. Bricks of pages of four rows in four planes have 81.
const MOST: usize = u128::BITS as usize;

/// A brick's corners, divided where pages end. In pages as large as bricks they are its own page, and a layer, a row or
/// a corner of seven others.
pub(crate) struct Pieces<T> {
    /// The first voxel of each, i running fastest; null if its page is absent, or was not requested.
    first: [*const T; MOST],
    /// A bit for each with a resident page.
    here: u128,
    /// Along each axis their number, the corners at which they begin, and the end of the last.
    counts: [usize; 3],
    starts: [[u8; CORNERS + 1]; 3],
    /// Numbers from a voxel to the next along each axis.
    strides: [usize; 3],
}

impl<T: SampledVoxel> Pieces<T> {
    /// The pieces of the brick with first voxel `low`; `None` if they are too many. Pieces in `had` have no place:
    /// their pages are no longer needed.
    pub(crate) fn of(
        source: &RaySource,
        low: [u32; 3],
        had: u128,
        page: &mut impl FnMut([u32; 3]) -> Option<FlatBlock<T>>,
    ) -> Option<Self> {
        let (mut counts, mut starts) = ([0; 3], [[0; CORNERS + 1]; 3]);
        for a in 0..3 {
            let (edge, end) = (source.page[a] as u32, (source.cells[a] + 1 - low[a]).min(CORNERS as u32));
            let mut at = 0;
            while at < end {
                starts[a][counts[a]] = at as u8;
                counts[a] += 1;
                at = at.saturating_add(edge - (low[a] + at) % edge);
            }
            starts[a][counts[a]] = end as u8;
        }
        let [ni, nj, nk] = counts;
        if ni * nj * nk > MOST {
            return None;
        }
        let (mut first, mut here) = ([core::ptr::null(); MOST], 0);
        for (n, first) in first[..ni * nj * nk].iter_mut().enumerate().filter(|(n, _)| had >> n & 1 == 0) {
            let at = [n % ni, n / ni % nj, n / (ni * nj)];
            if let Some(piece) = page(core::array::from_fn(|a| low[a] + u32::from(starts[a][at[a]]))) {
                (*first, here) = (piece.first, here | 1 << n);
            }
        }
        Some(Self { first, here, counts, starts, strides: source.strides.map(|s| s as usize) })
    }

    /// A bit for each requested piece with a resident page.
    pub(crate) fn here(&self) -> u128 {
        self.here
    }

    /// Whether these are all of its pieces.
    pub(crate) fn is_all(&self, pieces: u128) -> bool {
        pieces == u128::MAX >> (MOST - self.counts.iter().product::<usize>())
    }

    /// The blocks with all corners of their cells in these pieces.
    pub(crate) fn whole(&self, pieces: u128) -> Masks {
        if self.is_all(pieces) {
            return [u8::MAX; SIDE * SIDE];
        }
        let [ni, nj, nk] = self.counts;
        // The pieces of each block along an axis. Blocks behind the volume's end are like its last corners.
        let spans: [[[u8; 2]; SIDE]; 3] = core::array::from_fn(|a| {
            let (starts, last) = (&self.starts[a][..self.counts[a]], self.starts[a][self.counts[a]] - 1);
            let piece = |corner: usize| starts.iter().filter(|s| **s <= last.min(corner as u8)).count() as u8 - 1;
            core::array::from_fn(|block| [piece(block * BLOCK), piece(block * BLOCK + BLOCK)])
        });
        // Blocks along i of each row of pieces, then the intersection over rows of blocks.
        let mut rows = [0u8; MOST];
        for (n, row) in rows[..nj * nk].iter_mut().enumerate() {
            let of = pieces >> (n * ni);
            for (block, [from, to]) in spans[0].iter().enumerate() {
                *row |= u8::from((*from..=*to).all(|i| of >> i & 1 == 1)) << block;
            }
        }
        core::array::from_fn(|n| {
            let ([from_j, to_j], [from_k, to_k]) = (spans[1][n % SIDE], spans[2][n / SIDE]);
            let each = (from_k..=to_k).flat_map(|k| (from_j..=to_j).map(move |j| usize::from(k) * nj + usize::from(j)));
            each.fold(u8::MAX, |all, n| all & rows[n])
        })
    }

    /// Copies the voxels of these rows from these resident pieces.
    ///
    /// # Safety
    /// There is room for a brick at `to`.
    #[inline(always)]
    pub(crate) unsafe fn copy(&self, pieces: u128, rows: &[u64; CORNERS], to: *mut T) {
        let ([si, sj, sk], [ni, nj, _]) = (self.strides, self.counts);
        let mut left_over = pieces & self.here;
        while left_over != 0 {
            let n = left_over.trailing_zeros() as usize;
            left_over &= left_over - 1;
            let at = [n % ni, n / ni % nj, n / (ni * nj)];
            let [[i, end_i], [j0, end_j], [k0, end_k]]: [[usize; 2]; 3] =
                core::array::from_fn(|a| [0, 1].map(|end| usize::from(self.starts[a][at[a] + end])));
            let of_piece = (1 << end_j) - (1 << j0);
            for (k, rows) in (k0..end_k).zip(&rows[k0..end_k]) {
                let mut left = rows & of_piece;
                while left != 0 {
                    let j = left.trailing_zeros() as usize;
                    left &= left - 1;
                    let again = left >> (j + 1) & 1 == 1;
                    // SAFETY: the row is in the piece's page, which has ranges behind its voxels, and in the brick.
                    unsafe {
                        let row = self.first[n].add((j - j0) * sj + (k - k0) * sk);
                        let out = to.add(k * PLANE + j * ROW);
                        match (i, end_i - i, si) {
                            (EDGE, ..) => *out.add(LAST) = *row,
                            (0, EDGE.., stride) => {
                                match stride {
                                    1 => lay(row, out, again),
                                    _ => lay_apart(row, stride, out, again),
                                }
                                if end_i == CORNERS {
                                    *out.add(LAST) = *row.add(EDGE * stride);
                                }
                            }
                            (first, count, stride) => lay_some(row, stride, first, count, out),
                        }
                    }
                }
            }
        }
    }
}

/// Distance of the last corner of a row from its first.
const LAST: usize = (SIDE - 1) * STRIP + BLOCK;

/// Writes a row of [`EDGE`] consecutive corners into its strips. With `again`, the next row of the strips is written
/// later. Its first numbers may then be overwritten here: one move a strip instead of two.
///
/// # Safety
/// They can be read; `out` is the place of the first in a brick.
#[inline(always)]
unsafe fn lay<T: SampledVoxel>(row: *const T, out: *mut T, again: bool) {
    if again && size_of::<T>() == 1 {
        // SAFETY: the caller's. Eight numbers of any strip but the last belong to the row, and there is room for them.
        unsafe {
            // Numbers picked out of colours are in words: a strip that begins inside one would wait for a store.
            let words: [u64; EDGE / 8] = core::array::from_fn(|n| row.cast::<u64>().add(n).read_unaligned());
            for strip in 0..SIDE - 1 {
                let (n, half) = (strip / 2, strip % 2 == 1);
                let word = if half { words[n] >> 32 | words[n + 1] << 32 } else { words[n] };
                out.add(strip * STRIP).cast::<u64>().write_unaligned(word);
            }
            out.add((SIDE - 1) * STRIP).cast::<u32>().write_unaligned((words[EDGE / 8 - 1] >> 32) as u32);
        }
        return;
    }
    // SAFETY: the caller's. Eight numbers of any strip but the last belong to the row, and there is room for them.
    unsafe {
        // Lengths known to the compiler: one move, or two.
        let strips = (0..SIDE - 1).map(|strip| (row.add(strip * BLOCK), out.add(strip * STRIP)));
        if again {
            strips.for_each(|(row, out)| core::ptr::copy_nonoverlapping(row, out, 2 * BLOCK));
        } else {
            strips.for_each(|(row, out)| core::ptr::copy_nonoverlapping(row, out, ROW));
        }
        core::ptr::copy_nonoverlapping(row.add(EDGE - BLOCK), out.add((SIDE - 1) * STRIP), BLOCK);
    }
}

/// The same for numbers that are `stride` apart.
///
/// # Safety
/// They can be read, with all numbers of the last; `out` is the place of the first in a brick.
#[inline(always)]
unsafe fn lay_apart<T: SampledVoxel>(row: *const T, stride: usize, out: *mut T, again: bool) {
    let mut all = [T::LOWEST; EDGE];
    // SAFETY: the caller's.
    unsafe {
        if size_of::<T>() == 1 && (2..=4).contains(&stride) {
            for n in (0..EDGE).step_by(16) {
                pick(row.add(n * stride).cast(), stride, all.as_mut_ptr().add(n).cast());
            }
        } else {
            all.iter_mut().enumerate().for_each(|(n, to)| *to = *row.add(n * stride));
        }
        lay(all.as_ptr(), out, again);
    }
}

/// Writes `count` corners of a row, from number `first` on. They are `stride` numbers apart.
///
/// # Safety
/// They can be read; `out` is the place of the row's first in a brick.
#[inline(never)]
unsafe fn lay_some<T: SampledVoxel>(row: *const T, stride: usize, first: usize, count: usize, out: *mut T) {
    for n in 0..count {
        let i = first + n;
        // SAFETY: the caller's. The last corner of a strip is the first of the next.
        unsafe {
            let number = *row.add(n * stride);
            if i < EDGE {
                *out.add(i / BLOCK * STRIP + i % BLOCK) = number;
            }
            if i > 0 && i.is_multiple_of(BLOCK) {
                *out.add((i / BLOCK - 1) * STRIP + BLOCK) = number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a plane written in all possible ways: each corner of each block has its number, also over earlier rows.
    fn rows_are_where_blocks_have_them<T: SampledVoxel + PartialEq + core::fmt::Debug>(of: impl Fn(usize) -> T) {
        // Numbers behind a row do not belong to it.
        let row_of = |j: usize, stride: usize| -> Vec<T> {
            (0..CORNERS * stride + 16)
                .map(|n| of(if n.is_multiple_of(stride) { j * 50 + n / stride } else { 9999 }))
                .collect()
        };
        for stride in 1..=5 {
            for (again, some) in [(false, false), (true, false), (false, true)] {
                let mut plane = vec![T::LOWEST; PLANE + 8];
                // Also from the last to the first, where the bytes behind a row must stay.
                let order: Vec<usize> = if again { (0..CORNERS).collect() } else { (0..CORNERS).rev().collect() };
                for j in order {
                    let row = row_of(j, stride);
                    let again = again && j + 1 < CORNERS;
                    // SAFETY: that many are there, and there is room for a plane.
                    unsafe {
                        let out = plane.as_mut_ptr().add(j * ROW);
                        match stride {
                            _ if some => {
                                lay_some(row.as_ptr(), stride, 0, 7, out);
                                lay_some(row.as_ptr().add(7 * stride), stride, 7, CORNERS - 7, out);
                                continue;
                            }
                            1 => lay(row.as_ptr(), out, again),
                            _ => lay_apart(row.as_ptr(), stride, out, again),
                        }
                        *out.add(LAST) = of(j * 50 + EDGE);
                    }
                }
                for (block, j, i) in
                    (0..SIDE).flat_map(|b| (0..CORNERS).flat_map(move |j| (0..ROW).map(move |i| (b, j, i))))
                {
                    let found = plane[block * STRIP + j * ROW + i];
                    assert_eq!(
                        found,
                        of(j * 50 + block * BLOCK + i),
                        "stride {stride}, block {block}, row {j}, corner {i}"
                    );
                }
            }
        }
    }

    #[test]
    fn rows_of_bricks_lie_block_by_block() {
        rows_are_where_blocks_have_them(|n| (n * 167 % 251) as u8);
        rows_are_where_blocks_have_them(|n| n as u16);
        rows_are_where_blocks_have_them(|n| n as f32);
    }
}
