//! A brick's voxels on the way from pages to blocks: straight where a page has all of its first corners, else through rows.

use super::bricks::{BLOCKS, EDGE, PLANE, ROW, SIDE};
use super::lanes::five;
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

/// How a brick's voxels come to its blocks.
pub(crate) enum Way<'a, T> {
    /// Out of rows of its own.
    Rows(&'a [T]),
    /// Out of the pages that have it, and the layers that follow it.
    Pages(Octants<T>),
}

/// A brick that lies in one page, and what follows it there or in others.
pub(crate) struct Octants<T> {
    /// Where the voxel lies that is [`EDGE`] further along i (bit 0), j (bit 1), k (bit 2); null where its page is not here.
    first: [*const T; 8],
    /// A bit for each whose page is.
    here: u8,
    /// By the sides at which a block ends at the page's (bits as above): whether all it has corners in is here.
    whole: [bool; 8],
    /// Whether that is another page.
    next: [bool; 3],
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
        let all = (0..3).all(|a| source.cells[a] >= low[a] + EDGE as u32);
        if !all {
            return None;
        }
        let own = page(low)?;
        if own.left.iter().any(|left| *left < EDGE) {
            return None;
        }
        let strides = source.strides.map(|s| s as usize);
        let next = own.left.map(|left| left == EDGE);
        let (mut first, mut here) = ([own.first; 8], 1);
        for (n, first) in first.iter_mut().enumerate().skip(1) {
            let bit = |a: usize| n >> a & 1;
            let other = |a: usize| bit(a) == 1 && next[a];
            *first = if (0..3).any(other) {
                let found = page(core::array::from_fn(|a| low[a] + (bit(a) * EDGE) as u32));
                here |= u8::from(found.is_some()) << n;
                found.map_or(core::ptr::null(), |piece| piece.first)
            } else {
                here |= 1 << n;
                let on: usize = (0..3).map(|a| EDGE * bit(a) * strides[a]).sum();
                // SAFETY: along axes whose bit is set the page goes on.
                unsafe { own.first.add(on) }
            };
        }
        let whole = core::array::from_fn(|sides| (0..8).all(|n| n & !sides != 0 || here >> n & 1 == 1));
        Some(Self { first, here, whole, next, strides })
    }

    /// A bit for each of its pages, and what follows, that is here.
    pub(crate) fn here(&self) -> u8 {
        self.here
    }

    /// Has the processor load what the blocks of row `n` are copied of, with the layers that follow them in other pages: their lines come
    /// from memory, a dozen at a time.
    #[inline(always)]
    fn prefetch(&self, n: usize, shown: &[bool]) {
        if !shown.iter().any(|s| *s) {
            return;
        }
        const LINE: usize = 64;
        let [si, sj, sk] = self.strides;
        let (bj, bk) = (n % SIDE, n / SIDE);
        let (_, end_j, end_k) = self.ends((0, bj, bk));
        let (j, k) = (bj * BLOCK, bk * BLOCK);
        let beyond = self.next[0] && shown[SIDE - 1];
        let row = |octant: usize, j: usize, k: usize| {
            let at = j * sj + k * sk;
            for line in (0..EDGE * si).step_by(LINE / size_of::<T>()) {
                field::simd::prefetch(self.first[octant].wrapping_add(at + line).cast());
            }
            if beyond {
                field::simd::prefetch(self.first[octant | 1].wrapping_add(at).cast());
            }
        };
        for z in 0..BLOCK {
            for y in (0..BLOCK).step_by(2) {
                row(0, j + y, k + z);
                if end_k && z == 0 {
                    row(4, j + y, 0);
                }
            }
            if end_j {
                row(2, 0, k + z);
            }
        }
    }

    /// Along which axes a block ends where the page does.
    #[inline(always)]
    fn ends(&self, (bi, bj, bk): (usize, usize, usize)) -> (bool, bool, bool) {
        let end = |at: usize, a: usize| at == SIDE - 1 && self.next[a];
        (end(bi, 0), end(bj, 1), end(bk, 2))
    }

    /// Copies the corners of the cells of a block.
    ///
    /// # Safety
    /// As for [`Way::block`].
    #[inline(always)]
    unsafe fn block(&self, (bi, bj, bk): (usize, usize, usize), to: *mut T) {
        let [si, sj, sk] = self.strides;
        let ends = self.ends((bi, bj, bk));
        let (i, j, k) = (bi * BLOCK, bj * BLOCK, bk * BLOCK);
        if !(ends.0 | ends.1 | ends.2) {
            // SAFETY: the block and what follows it lie in the page, and behind its voxels are ranges.
            unsafe { arrange(self.first[0].add(i * si + j * sj + k * sk), self.strides, to) };
            return;
        }
        for z in 0..ROW {
            for y in 0..ROW {
                let (over_j, over_k) = (ends.1 && y == BLOCK, ends.2 && z == BLOCK);
                let octant = usize::from(over_j) << 1 | usize::from(over_k) << 2;
                let row = if over_j { 0 } else { j + y } * sj + if over_k { 0 } else { k + z } * sk;
                // SAFETY: four lie in that page, and the fifth there or in the one that follows it.
                unsafe {
                    let out = to.add(z * PLANE + y * ROW);
                    let own = self.first[octant].add(row + i * si);
                    if si == 1 {
                        core::ptr::copy_nonoverlapping(own, out, BLOCK);
                    } else {
                        (0..BLOCK).for_each(|x| *out.add(x) = *own.add(x * si));
                    }
                    let last = if ends.0 { self.first[octant | 1].add(row) } else { own.add(BLOCK * si) };
                    *out.add(BLOCK) = *last;
                }
            }
        }
    }
}

/// Rows of blocks that are loaded while one is copied.
const AHEAD: usize = 4;

impl<T: Sampled> Way<'_, T> {
    /// Row `n` of a brick's blocks is about to be copied, and those after it will be.
    #[inline(always)]
    pub(crate) fn comes_to(&self, n: usize, shown: &[bool; BLOCKS]) {
        let Self::Pages(octants) = self else { return };
        let first = if n == 0 { 0 } else { n + AHEAD };
        for row in first..=n + AHEAD {
            if let Some(shown) = shown.get(row * SIDE..(row + 1) * SIDE) {
                octants.prefetch(row, shown);
            }
        }
    }

    /// Whether all corners of the cells of a block are here.
    #[inline(always)]
    pub(crate) fn has(&self, block: (usize, usize, usize)) -> bool {
        let Self::Pages(octants) = self else { return true };
        let ends = octants.ends(block);
        octants.whole[usize::from(ends.0) | usize::from(ends.1) << 1 | usize::from(ends.2) << 2]
    }

    /// Copies the corners of the cells of a block, which is so far along i, j and k in the brick.
    ///
    /// # Safety
    /// As many numbers as a block has can be written from `to` on; they are all here ([`Self::has`]).
    #[inline(always)]
    pub(crate) unsafe fn block(&self, (i, j, k): (usize, usize, usize), to: *mut T) {
        match self {
            Self::Rows(flat) => {
                let from = k * BLOCK * FLAT_PLANE + j * BLOCK * FLAT_ROW + i * BLOCK;
                // SAFETY: a block's rows lie in the brick's, which have room behind them.
                unsafe { arrange(flat.as_ptr().add(from), [1, FLAT_ROW, FLAT_PLANE], to) }
            }
            // SAFETY: the caller's.
            Self::Pages(octants) => unsafe { octants.block((i, j, k), to) },
        }
    }
}

/// Copies the corners of a block's cells out of rows: of bytes eight for five, which is one move; the next row is written over those that
/// are too many.
///
/// # Safety
/// From `from` on lies a block with so many numbers from a voxel, a row and a plane to the next, and eight bytes from each row on; as
/// many numbers as a block has can be written from `to` on.
#[inline(always)]
unsafe fn arrange<T: Sampled>(from: *const T, [si, sj, sk]: [usize; 3], to: *mut T) {
    for z in 0..ROW {
        for y in 0..ROW {
            // SAFETY: the caller's.
            unsafe {
                let (row, out) = (from.add(z * sk + y * sj), to.add(z * PLANE + y * ROW));
                match (si, size_of::<T>()) {
                    (1, 1) => core::ptr::copy_nonoverlapping(row, out, 8),
                    (1, _) => core::ptr::copy_nonoverlapping(row, out, ROW),
                    (_, 1) => out.cast::<u64>().write_unaligned(five(row.cast(), si).to_le()),
                    _ => (0..ROW).for_each(|x| *out.add(x) = *row.add(x * si)),
                }
            }
        }
    }
}
