//! How a brick's voxels are copied out of pages: octant by octant where a page has all of its cells' first corners, else box by box.

use super::bricks::{BLOCKS, EDGE, SIDE};
use super::lanes::pick;
use super::sample::Sampled;
use super::scene::Source;
use field::volume::BLOCK;

/// Corners of a brick along each axis.
pub(crate) const CORNERS: usize = EDGE + 1;
/// Numbers from a row of a strip to the next: the corners of a block's cells.
pub(crate) const ROW: usize = BLOCK + 1;
/// From a strip to the next.
pub(crate) const STRIP: usize = ROW * CORNERS;
/// From a plane to the next.
pub(crate) const PLANE: usize = SIDE * STRIP;
/// From a brick to the next: words of them, and eight can be read from any.
pub(crate) const EACH: usize = (PLANE * CORNERS + 8 - ROW).next_multiple_of(8);

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
                // SAFETY: these voxels lie in the page, and they are corners of the brick.
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

/// Which rows of corners blocks that are shown have: of each plane a bit a row.
pub(crate) fn rows_of(shown: &[bool; BLOCKS]) -> [u64; CORNERS] {
    let mut rows = [0; CORNERS];
    for (n, blocks) in shown.chunks_exact(SIDE).enumerate() {
        if blocks.contains(&true) {
            let (j, k) = (n % SIDE * BLOCK, n / SIDE * BLOCK);
            let bits = (2 << BLOCK) - 1;
            rows[k..=k + BLOCK].iter_mut().for_each(|plane| *plane |= bits << j);
        }
    }
    rows
}

/// A brick that lies in one page, and what follows it there or in others. At the ends of a volume it has fewer corners, and nothing follows.
pub(crate) struct Octants<T> {
    /// Where the voxel lies that is [`EDGE`] further along i (bit 0), j (bit 1), k (bit 2); null where its page is not here.
    first: [*const T; 8],
    /// A bit for each that the volume has.
    there: u8,
    /// A bit for each whose page is here, and for those that the volume does not have.
    here: u8,
    /// By the sides at which a block ends at the page's (bits as above): whether all it has corners in is here.
    whole: [bool; 8],
    /// Whether that is another page.
    next: [bool; 3],
    /// Corners along each axis that are not those of what follows.
    own: [usize; 3],
    /// Numbers from a voxel to the next along each axis.
    strides: [usize; 3],
}

impl<T: Sampled> Octants<T> {
    /// Those of the brick whose first voxel is `low`, if it lies so and its own page is here.
    pub(crate) fn of(
        source: &Source,
        low: [u32; 3],
        page: &mut impl FnMut([u32; 3]) -> Option<Piece<T>>,
    ) -> Option<Self> {
        let corners: [usize; 3] = core::array::from_fn(|a| (source.cells[a] + 1 - low[a]).min(CORNERS as u32) as usize);
        let own = corners.map(|n| n.min(EDGE));
        let piece = page(low)?;
        if (0..3).any(|a| piece.left[a] < own[a]) {
            return None;
        }
        let strides = source.strides.map(|s| s as usize);
        let next = core::array::from_fn(|a| corners[a] == CORNERS && piece.left[a] == EDGE);
        let (mut first, mut here, mut there) = ([piece.first; 8], 1, 1);
        for (n, first) in first.iter_mut().enumerate().skip(1) {
            let bit = |a: usize| n >> a & 1;
            let other = |a: usize| bit(a) == 1 && next[a];
            if (0..3).any(|a| bit(a) == 1 && corners[a] < CORNERS) {
                here |= 1 << n;
                continue;
            }
            there |= 1 << n;
            *first = if (0..3).any(other) {
                let found = page(core::array::from_fn(|a| low[a] + (bit(a) * EDGE) as u32));
                here |= u8::from(found.is_some()) << n;
                found.map_or(core::ptr::null(), |piece| piece.first)
            } else {
                here |= 1 << n;
                let on: usize = (0..3).map(|a| EDGE * bit(a) * strides[a]).sum();
                // SAFETY: along axes whose bit is set the page goes on.
                unsafe { piece.first.add(on) }
            };
        }
        let whole = core::array::from_fn(|sides| (0..8).all(|n| n & !sides != 0 || here >> n & 1 == 1));
        Some(Self { first, there, here, whole, next, own, strides })
    }

    /// A bit for each of its pages, and what follows, that is here.
    pub(crate) fn here(&self) -> u8 {
        self.here
    }

    /// Whether all corners of the cells of a block, which is so far along i, j and k in the brick, are here.
    #[inline(always)]
    pub(crate) fn has(&self, (bi, bj, bk): (usize, usize, usize)) -> bool {
        let end = |at: usize, a: usize| usize::from(at == SIDE - 1 && self.next[a]) << a;
        self.whole[end(bi, 0) | end(bj, 1) | end(bk, 2)]
    }

    /// Copies the voxels of these rows from all octants that are here but those in `had`.
    ///
    /// # Safety
    /// There is room for a brick at `to`.
    #[inline(always)]
    pub(crate) unsafe fn copy(&self, had: u8, rows: &[u64; CORNERS], to: *mut T) {
        let ([si, sj, sk], [ni, nj, nk]) = (self.strides, self.own);
        for n in (0..8).filter(|n| (self.there & self.here & !had) >> n & 1 == 1) {
            let [last_i, last_j, last_k] = [0, 1, 2].map(|a| n >> a & 1 == 1);
            let of_octant = if last_j { 1 << EDGE } else { (1 << nj) - 1 };
            for k in if last_k { EDGE..CORNERS } else { 0..nk } {
                let mut left = rows[k] & of_octant;
                while left != 0 {
                    let j = left.trailing_zeros() as usize;
                    left &= left - 1;
                    // SAFETY: the row lies in the octant's page, whose voxels have their ranges behind them, and in the brick.
                    unsafe {
                        let row = self.first[n].add(if last_j { 0 } else { j * sj } + if last_k { 0 } else { k * sk });
                        let out = to.add(k * PLANE + j * ROW);
                        match (last_i, ni, si) {
                            (true, ..) => *out.add(LAST) = *row,
                            (_, EDGE, 1) => lay(row, out, left >> (j + 1) & 1 == 1),
                            (_, EDGE, _) => lay_apart(row, si, out, left >> (j + 1) & 1 == 1),
                            _ => lay_some(row, si, 0, ni, out),
                        }
                    }
                }
            }
        }
    }
}

/// Where the last corner of a row lies, from its first.
const LAST: usize = (SIDE - 1) * STRIP + BLOCK;

/// Writes a row of [`EDGE`] corners into its strips; their numbers lie one behind the other. Where the next row of the strips is written
/// later (`again`) so are those of its numbers that are written here: one move a strip in the place of two.
///
/// # Safety
/// They can be read; `out` is the place of the first in a brick.
#[inline(always)]
unsafe fn lay<T: Sampled>(row: *const T, out: *mut T, again: bool) {
    if again && size_of::<T>() == 1 {
        // SAFETY: the caller's. Eight numbers of any strip but the last are of the row, and there is room for them.
        unsafe {
            // What was picked out of colours lies in words: a strip that begins in the midst of one had to wait until it was in memory.
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
    // SAFETY: the caller's. Eight numbers of any strip but the last are of the row, and there is room for them.
    unsafe {
        // Of lengths that the compiler knows: one move, or two.
        let strips = (0..SIDE - 1).map(|strip| (row.add(strip * BLOCK), out.add(strip * STRIP)));
        if again {
            strips.for_each(|(row, out)| core::ptr::copy_nonoverlapping(row, out, 2 * BLOCK));
        } else {
            strips.for_each(|(row, out)| core::ptr::copy_nonoverlapping(row, out, ROW));
        }
        core::ptr::copy_nonoverlapping(row.add(EDGE - BLOCK), out.add((SIDE - 1) * STRIP), BLOCK);
    }
}

/// The same of numbers that are `stride` apart.
///
/// # Safety
/// They can be read, with all numbers of the last; `out` is the place of the first in a brick.
#[inline(always)]
unsafe fn lay_apart<T: Sampled>(row: *const T, stride: usize, out: *mut T, again: bool) {
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

/// Writes `count` corners of a row, from number `first` on; they are `stride` numbers apart.
///
/// # Safety
/// They can be read; `out` is the place of the row's first in a brick.
#[inline(never)]
unsafe fn lay_some<T: Sampled>(row: *const T, stride: usize, first: usize, count: usize, out: *mut T) {
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

    /// Rows of a plane in any way that they can be written: each corner of each block has the number that was said, also where rows were
    /// there before.
    fn rows_are_where_blocks_have_them<T: Sampled + PartialEq + core::fmt::Debug>(of: impl Fn(usize) -> T) {
        // Numbers that lie behind a row are no numbers of it.
        let row_of = |j: usize, stride: usize| -> Vec<T> {
            (0..CORNERS * stride + 16)
                .map(|n| of(if n.is_multiple_of(stride) { j * 50 + n / stride } else { 9999 }))
                .collect()
        };
        for stride in 1..=5 {
            for (again, some) in [(false, false), (true, false), (false, true)] {
                let mut plane = vec![T::LOWEST; PLANE + 8];
                // From the last to the first too, where what is behind a row must stay as it is.
                let order: Vec<usize> = if again { (0..CORNERS).collect() } else { (0..CORNERS).rev().collect() };
                for j in order {
                    let row = row_of(j, stride);
                    let again = again && j + 1 < CORNERS;
                    // SAFETY: so many are there, and there is room for a plane.
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
