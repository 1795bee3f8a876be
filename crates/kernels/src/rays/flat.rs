//! How a brick's voxels are copied out of pages: octant by octant where a page has all of its cells' first corners, else box by box.

use super::bricks::{BLOCKS, EDGE, SIDE};
use super::lanes::pick;
use super::sample::Sampled;
use super::scene::Source;
use field::volume::BLOCK;

/// Numbers from a row of a brick's corners to the next: no more, so that a brick of bytes fits into the processor's first cache.
pub(crate) const ROW: usize = EDGE + 1;
/// From a plane to the next.
pub(crate) const PLANE: usize = ROW * ROW;
/// From a brick to the next: words of them.
pub(crate) const EACH: usize = (PLANE * ROW).next_multiple_of(8);

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
                let at = k * PLANE + j * ROW + i;
                let out = &mut to[at..][..(planes - 1) * PLANE + (rows - 1) * ROW + count];
                // SAFETY: these voxels lie in the page, and in the part of the brick that was cut out here.
                unsafe {
                    let out = out.as_mut_ptr();
                    for z in 0..planes {
                        for y in 0..rows {
                            let (row, out) = (from.add(y * sj + z * sk), out.add(z * PLANE + y * ROW));
                            // Of lengths that the compiler knows: a few moves.
                            match (si, count) {
                                (1, EDGE) => core::ptr::copy_nonoverlapping(row, out, EDGE),
                                (1, ROW) => core::ptr::copy_nonoverlapping(row, out, ROW),
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

/// Which rows of corners blocks that are shown have: of each plane a bit a row.
pub(crate) fn rows_of(shown: &[bool; BLOCKS]) -> [u64; ROW] {
    let mut rows = [0; ROW];
    for (n, blocks) in shown.chunks_exact(SIDE).enumerate() {
        if blocks.contains(&true) {
            let (j, k) = (n % SIDE * BLOCK, n / SIDE * BLOCK);
            let bits = (2 << BLOCK) - 1;
            rows[k..=k + BLOCK].iter_mut().for_each(|plane| *plane |= bits << j);
        }
    }
    rows
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
    pub(crate) unsafe fn copy(&self, had: u8, rows: &[u64; ROW], to: *mut T) {
        let [si, sj, sk] = self.strides;
        for n in (0..8).filter(|n| (self.here & !had) >> n & 1 == 1) {
            let [last_i, last_j, last_k] = [0, 1, 2].map(|a| n >> a & 1 == 1);
            let of_octant = if last_j { 1 << EDGE } else { (1 << EDGE) - 1 };
            for k in if last_k { EDGE..ROW } else { 0..EDGE } {
                let mut left = rows[k] & of_octant;
                while left != 0 {
                    let j = left.trailing_zeros() as usize;
                    left &= left - 1;
                    // SAFETY: the row lies in the octant's page, whose voxels have their ranges behind them, and in the brick.
                    unsafe {
                        let row = self.first[n].add(if last_j { 0 } else { j * sj } + if last_k { 0 } else { k * sk });
                        let out = to.add(k * PLANE + j * ROW);
                        match (last_i, si) {
                            (true, _) => *out.add(EDGE) = *row,
                            (_, 1) => core::ptr::copy_nonoverlapping(row, out, EDGE),
                            _ => row_apart(row, si, out),
                        }
                    }
                }
            }
        }
    }
}

/// Copies a row of voxels that are `stride` numbers apart.
///
/// # Safety
/// They can be read, with all numbers of the last; there is room for them.
#[inline(always)]
unsafe fn row_apart<T: Sampled>(row: *const T, stride: usize, out: *mut T) {
    // SAFETY: the caller's.
    unsafe {
        if size_of::<T>() == 1 && (2..=4).contains(&stride) {
            (0..EDGE).step_by(16).for_each(|n| pick(row.add(n * stride).cast(), stride, out.add(n).cast()));
        } else {
            (0..EDGE).for_each(|n| *out.add(n) = *row.add(n * stride));
        }
    }
}
