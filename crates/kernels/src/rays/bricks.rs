//! Bricks: what a tile works on, copied out of pages in an order for rays, so that no cell reaches into another piece of memory.
//!
//! # Theory
//! Rays touch a page hundreds of times. In the page itself a tenth of the samples in pages of 32^3, and a third in pages of whole rows, lie
//! in cells whose corners are in several pages, which take several times as long as others; at each page's end eight samples at a time
//! are fewer; and each shape of a page has its own strides. A brick is [`EDGE`]^3 cells at a fixed place in the volume whatever the pages
//! are. It is kept as blocks of [`BLOCK`]^3 cells with all their corners, each 128 numbers in a row, and only those blocks that may show
//! something: neighbouring rays, and the next samples of one, find their corners in the same two cache lines, and eight of a cell's 8-bit
//! corners come with two loads. Which blocks may show something is said by the ranges that lie behind the voxels of each page, so that
//! a brick that shows nothing is known without looking at its voxels.
//!
//! # Practice
//! A brick is made of pages that are here, and never asks for one: where some are not, rays go page by page and say which they lack
//! exactly as far as samples need them. Values are the same bits either way. Bricks are copies, so they outlive pins, and evictions.
//! What is known of bricks stands in a *window* of [`WINDOW`]^3 of them, at the place of a brick's number modulo that, so that eight samples
//! find their blocks by two gathers. It goes along with rays where the volume is larger.

use super::flat::{copy, each, seen, Piece, FLAT, FLAT_PLANE, FLAT_ROW};
use super::lanes::I4;
use super::sample::Sampled;
use super::scene::Source;
use field::volume::BLOCK;

/// Cells of a brick along each axis.
pub(crate) const EDGE: usize = 32;
/// As a power of two.
pub(crate) const EDGE_BITS: u32 = EDGE.trailing_zeros();
/// Corners of a block's cells along an axis: numbers from a row of them to the next.
pub(crate) const ROW: usize = BLOCK + 1;
/// Numbers from a plane of a block's corners to the next.
pub(crate) const PLANE: usize = ROW * ROW;
/// Numbers from a block to the next: those of its corners, and what readers of eight bytes may read too much.
const EACH: usize = 128;
/// Blocks of a brick along each axis.
pub(crate) const SIDE: usize = EDGE / BLOCK;
pub(crate) const BLOCKS: usize = SIDE * SIDE * SIDE;
/// Bricks of a window along each axis; one of 1024^3 voxels never moves.
pub(crate) const WINDOW: usize = 32;
/// Places of a window.
const PLACES: usize = WINDOW * WINDOW * WINDOW;
/// Fewer bricks would make room for each other before the rays of a tile are through.
const LEAST: usize = 24;
/// More than neighbouring tiles have in common are of no use.
const MOST: usize = 1024;

/// In place of where a block lies: nothing in it shows.
const NOTHING: i32 = -1;
/// Pages of it were not here, in this step of a tile.
const APART: i32 = -2;
/// Nobody has looked yet; what is below was not made yet either.
pub(crate) const UNKNOWN: i32 = -3;
/// Something in it may show.
const SHOWS: i32 = -4;
/// Maps that are those codes throughout, before those of bricks.
const CODES: [i32; 4] = [NOTHING, APART, UNKNOWN, SHOWS];

/// Where the map of a code begins.
const fn map_of(code: i32) -> i32 {
    (-1 - code) * BLOCKS as i32
}

/// What rays need to find their way.
#[derive(Copy, Clone)]
pub(crate) struct Known {
    /// Of each place of the window where its map begins among maps.
    pub window: *const i32,
    /// Of each block where its first corner is among the numbers of all bricks, or a code below 0.
    pub maps: *const i32,
}

/// What came of looking at a brick.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Here,
    Nothing,
    /// It cannot be had now.
    Apart,
}

/// The bricks of a source that a thread keeps.
pub(crate) struct Bricks {
    /// Numbers, in words so that they are aligned for every type.
    data: Vec<u64>,
    maps: Vec<i32>,
    window: Vec<i32>,
    /// The first brick of the window.
    corner: [i32; 3],
    /// The place that a slot was given to.
    owners: Vec<u32>,
    next: usize,
    /// Places that were found apart in this step.
    apart: Vec<u32>,
    /// A brick in rows.
    flat: Vec<u64>,
    words_each: usize,
}

/// What bricks take.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Room {
    /// Bytes of a number.
    pub element: usize,
    /// Bytes of all at most.
    pub bytes: usize,
    /// Cells of the volume along each axis.
    pub cells: [u32; 3],
}

impl Room {
    /// Bricks; none where there is too little room.
    fn slots(&self) -> usize {
        let all = self.cells.iter().fold(1usize, |n, cells| n.saturating_mul((*cells as usize).div_ceil(EDGE).max(1)));
        let most = all.min(MOST);
        let slots = self.bytes.saturating_sub(Bricks::fixed(self.element)) / Bricks::with_map(self.element);
        if slots < LEAST.min(most) {
            0
        } else {
            slots.min(most)
        }
    }

    /// Bytes that [`Bricks::new`] takes.
    pub(crate) fn taken(&self) -> usize {
        match self.slots() {
            0 => 0,
            slots => slots * Bricks::with_map(self.element) + Bricks::fixed(self.element),
        }
    }
}

impl Bricks {
    /// Bytes of a brick, with what is known of it.
    fn with_map(element: usize) -> usize {
        Self::each(element) + BLOCKS * 4 + 4
    }

    /// Bytes of a brick's numbers.
    fn each(element: usize) -> usize {
        BLOCKS * EACH * element
    }

    /// Bytes that do not grow with the number of bricks.
    fn fixed(element: usize) -> usize {
        (CODES.len() * BLOCKS + PLACES) * 4 + (FLAT * element).next_multiple_of(8)
    }

    /// As many as there is room for.
    pub(crate) fn new(room: Room) -> Self {
        let (element, slots) = (room.element, room.slots());
        let any = usize::from(slots > 0);
        let mut maps = vec![NOTHING; any * (CODES.len() + slots) * BLOCKS];
        for (map, code) in maps.chunks_exact_mut(BLOCKS).zip(CODES) {
            map.fill(code);
        }
        Self {
            data: vec![0; slots * Self::each(element) / 8],
            maps,
            window: vec![map_of(UNKNOWN); any * PLACES],
            corner: [0; 3],
            owners: vec![u32::MAX; slots],
            next: 0,
            apart: Vec::new(),
            flat: vec![0; any * (FLAT * element).div_ceil(8)],
            words_each: Self::each(element) / 8,
        }
    }

    /// Whether there is room for any.
    pub(crate) fn any(&self) -> bool {
        !self.owners.is_empty()
    }

    /// Another step: pages may have come.
    pub(crate) fn begin(&mut self) {
        for place in self.apart.drain(..) {
            let map = &mut self.window[place as usize];
            if *map == map_of(APART) {
                *map = map_of(UNKNOWN);
            }
        }
    }

    /// What rays find their way by, until bricks are made or the window moves.
    #[inline(always)]
    pub(crate) fn known(&self) -> Known {
        Known { window: self.window.as_ptr(), maps: self.maps.as_ptr() }
    }

    /// Where numbers are.
    #[inline(always)]
    pub(crate) fn data<T>(&self) -> *const T {
        self.data.as_ptr().cast()
    }

    #[inline(always)]
    fn place([i, j, k]: [i32; 3]) -> usize {
        const ALL: i32 = WINDOW as i32 - 1;
        (i & ALL | (j & ALL) << 5 | (k & ALL) << 10) as usize
    }

    fn in_window(&self, brick: [i32; 3]) -> bool {
        (0..3).all(|a| (0..WINDOW as i32).contains(&(brick[a].wrapping_sub(self.corner[a]))))
    }

    /// Has the bricks of two voxels, and all between, in the window. Whether there is room for them.
    #[inline(always)]
    pub(crate) fn reach(&mut self, from: I4, to: I4) -> bool {
        let (a, b) = (from.down::<{ EDGE_BITS as i32 }>(), to.down::<{ EDGE_BITS as i32 }>());
        let [i, j, k] = self.corner;
        let low = I4::new([i, j, k, 0]);
        let high = low.add(I4::splat(WINDOW as i32));
        a.within(low, high) && b.within(low, high) || self.moved(a.to_array(), b.to_array())
    }

    #[inline(never)]
    fn moved(&mut self, from: [i32; 4], to: [i32; 4]) -> bool {
        let edge = WINDOW as i32;
        if (0..3).any(|a| from[a].abs_diff(to[a]) >= WINDOW as u32) {
            return false;
        }
        for axis in 0..3 {
            let (low, high) = (from[axis].min(to[axis]), from[axis].max(to[axis]));
            let old = self.corner[axis];
            if low >= old && high < old + edge {
                continue;
            }
            // Rays go on the way they came, and neighbours do the same.
            let new = (low - (edge - 1 - (high - low)) / 2).max(0);
            self.corner[axis] = new;
            let gone = if new > old { old..new.min(old + edge) } else { (new + edge).max(old)..old + edge };
            for n in gone {
                let n = Self::place(core::array::from_fn(|a| if a == axis { n } else { 0 }));
                for other in 0..WINDOW * WINDOW {
                    let (low, high) = (other % WINDOW, other / WINDOW);
                    let at = match axis {
                        0 => n | low << 5 | high << 10,
                        1 => n | low | high << 10,
                        _ => n | other,
                    };
                    self.window[at] = map_of(UNKNOWN);
                }
            }
        }
        true
    }

    /// Remembers that nothing shows in a box of voxels, if a brick lies in it.
    pub(crate) fn nothing(&mut self, brick: [i32; 3], low: [i32; 3], high: [i32; 3]) {
        let edge = EDGE as i32;
        if self.in_window(brick) && (0..3).all(|a| brick[a] * edge >= low[a] && brick[a] * edge + edge <= high[a]) {
            self.window[Self::place(brick)] = map_of(NOTHING);
        }
    }

    /// Whether nothing shows in a box of bricks, from the first to the last, as far as is known; `look` is asked of those of which nothing
    /// is known.
    pub(crate) fn dark(
        &mut self,
        first: [i32; 3],
        last: [i32; 3],
        mut look: impl FnMut(&mut Self, [i32; 3]) -> Made,
    ) -> bool {
        let four = |[i, j, k]: [i32; 3]| I4::new([i, j, k, 0]).up::<{ EDGE_BITS as i32 }>();
        if !self.reach(four(first), four(last)) {
            return false;
        }
        for k in first[2]..=last[2] {
            for j in first[1]..=last[1] {
                for i in first[0]..=last[0] {
                    let map = self.window[Self::place([i, j, k])];
                    let dark =
                        map == map_of(NOTHING) || map == map_of(UNKNOWN) && look(self, [i, j, k]) == Made::Nothing;
                    if !dark {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Looks whether a brick shows something, by the ranges of its blocks; of which is written to `shown`. Where they do not say, it may.
    /// Nothing is done with voxels. `page` says where a voxel lies, if its page is here.
    pub(crate) fn look<T: Sampled>(
        &mut self,
        source: &Source,
        brick: [i32; 3],
        shown: &mut [bool; BLOCKS],
        page: &mut impl FnMut([u32; 3]) -> Option<Piece<T>>,
    ) -> Made {
        if !(source.skip && source.blocks_align) {
            return Made::Here;
        }
        let found = match shows(source, brick, shown, page) {
            None => Made::Apart,
            Some(false) => Made::Nothing,
            Some(true) => Made::Here,
        };
        match found {
            Made::Nothing => self.window[Self::place(brick)] = map_of(NOTHING),
            Made::Here => self.window[Self::place(brick)] = map_of(SHOWS),
            Made::Apart => {}
        }
        found
    }

    /// Copies a brick, which lies in the window. `page` says where a voxel lies, if its page is here; what it says holds until the next
    /// call of it, and longer.
    pub(crate) fn make<T: Sampled>(
        &mut self,
        source: &Source,
        brick: [i32; 3],
        mut page: impl FnMut([u32; 3]) -> Option<Piece<T>>,
    ) -> Made {
        debug_assert!(self.in_window(brick));
        let place = Self::place(brick);
        let mut shown = [true; BLOCKS];
        let found = self.look(source, brick, &mut shown, &mut page);
        if found == Made::Nothing {
            return found;
        }
        let low = brick.map(|b| b as u32 * EDGE as u32);
        let size: [usize; 3] = core::array::from_fn(|a| (source.cells[a] + 1 - low[a]).min(EDGE as u32 + 1) as usize);
        // SAFETY: FLAT of T are what there is room for, and words are aligned for all of them; any bits are a number.
        let flat = unsafe { core::slice::from_raw_parts_mut(self.flat.as_mut_ptr().cast::<T>(), FLAT) };
        if size != [EDGE + 1; 3] {
            // No sample lies there, and what is counted is not to depend on what was there before.
            flat.fill(T::LOWEST);
        }
        if found == Made::Apart || copy(source, low, size, flat, &mut page).is_none() {
            self.window[place] = map_of(APART);
            self.apart.push(place as u32);
            return Made::Apart;
        }
        if source.skip && !source.blocks_align && seen(flat, &mut shown, source) == 0 {
            self.window[place] = map_of(NOTHING);
            return Made::Nothing;
        }
        let slot = self.next;
        self.next = (slot + 1) % self.owners.len();
        let map = ((CODES.len() + slot) * BLOCKS) as i32;
        // Whoever is here goes.
        if let Some(old) = self.window.get_mut(self.owners[slot] as usize) {
            if *old == map {
                *old = map_of(UNKNOWN);
            }
        }
        self.owners[slot] = place as u32;
        self.window[place] = map;
        let first = slot * BLOCKS * EACH;
        let words = self.words_each;
        let data = self.data[slot * words..(slot + 1) * words].as_mut_ptr().cast::<T>();
        let mut count = 0;
        for (n, (shown, at)) in shown.iter().zip(&mut self.maps[map as usize..][..BLOCKS]).enumerate() {
            *at = NOTHING;
            if !shown {
                continue;
            }
            let (i, j, k) = (n % SIDE, n / SIDE % SIDE, n / (SIDE * SIDE));
            let from = k * BLOCK * FLAT_PLANE + j * BLOCK * FLAT_ROW + i * BLOCK;
            // SAFETY: a block's rows lie in the brick, and each slot has room for all blocks. Of bytes eight are moved for five, which is
            // one move; the next row is written over those that are too many, and behind the last there is room for them.
            unsafe { arrange(flat.as_ptr().add(from), data.add(count * EACH)) };
            *at = (first + count * EACH) as i32;
            count += 1;
        }
        Made::Here
    }
}

/// Copies the corners of a block's cells out of rows.
///
/// # Safety
/// From `from` on lies a block of rows with what belongs to it, and [`EACH`] numbers can be written from `to` on.
#[inline(always)]
unsafe fn arrange<T: Sampled>(from: *const T, to: *mut T) {
    for z in 0..ROW {
        for y in 0..ROW {
            // SAFETY: the caller's.
            unsafe {
                let (row, out) = (from.add(z * FLAT_PLANE + y * FLAT_ROW), to.add(z * PLANE + y * ROW));
                if size_of::<T>() == 1 {
                    core::ptr::copy_nonoverlapping(row, out, 8);
                } else {
                    core::ptr::copy_nonoverlapping(row, out, ROW);
                }
            }
        }
    }
}

/// Blocks of a brick along an axis, and the one that follows.
const AND_NEXT: usize = SIDE + 1;

/// Which blocks of a brick may show something, and whether any does, by the ranges of pages; `None` where some are not here.
fn shows<T: Sampled>(
    source: &Source,
    brick: [i32; 3],
    shown: &mut [bool; BLOCKS],
    page: &mut impl FnMut([u32; 3]) -> Option<Piece<T>>,
) -> Option<bool> {
    let low = brick.map(|b| b as u32 * EDGE as u32);
    // Blocks that have voxels, with those that follow the brick, and those that have cells.
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
                let piece = page(core::array::from_fn(|a| low[a] + (BLOCK * [i, j, k][a]) as u32))?;
                let left: [usize; 3] =
                    core::array::from_fn(|a| piece.left[a].div_ceil(BLOCK).min(whole[a] - [i, j, k][a]));
                for z in 0..left[2] {
                    for y in 0..left[1] {
                        let to = &mut ends[(k + z) * STRIDES[2] + (j + y) * STRIDES[1] + i..][..left[0]];
                        // SAFETY: these blocks lie in the page, whose frame has the ranges of all of them.
                        unsafe {
                            let from = piece.ranges.add(z * piece.blocks[2] + y * piece.blocks[1]);
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
    // Most bricks show nothing, or are made long after they were looked at: in lanes this took a tenth of the time.
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
    // A block's range has the layers behind it where they lie in its page; else the blocks there have them.
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

/// The range that two are part of.
#[inline(always)]
fn both<T: Copy + PartialOrd>(a: [T; 2], b: [T; 2]) -> [T; 2] {
    [if b[0] < a[0] { b[0] } else { a[0] }, if b[1] > a[1] { b[1] } else { a[1] }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bricks that fill a window of a volume of bytes.
    fn bricks() -> Bricks {
        Bricks::new(Room { element: 1, bytes: 4 << 20, cells: [1 << 20; 3] })
    }

    fn voxel([i, j, k]: [i32; 3]) -> I4 {
        I4::new([i, j, k, 0]).up::<{ EDGE_BITS as i32 }>()
    }

    proptest! {
        /// What is known of a brick is known after the window has moved if it lies in it then, and of no other.
        #[test]
        fn a_window_that_moves_knows_what_it_knew(ways in prop::collection::vec(prop::array::uniform3(0i32..90), 1..6)) {
            let mut bricks = bricks();
            let mut known = std::collections::HashSet::new();
            for (n, at) in ways.iter().enumerate() {
                let to = at.map(|a| (a + 7 * n as i32 % 20).min(a + 31));
                prop_assert!(bricks.reach(voxel(*at), voxel(to)));
                prop_assert!(bricks.in_window(*at) && bricks.in_window(to));
                let corner = bricks.corner;
                let inside = |b: &[i32; 3]| (0..3).all(|a| (corner[a]..corner[a] + WINDOW as i32).contains(&b[a]));
                known.retain(inside);
                // Of one place in seven something is found out.
                for place in (n..PLACES).step_by(7) {
                    let [i, j, k] = [place % WINDOW, place / WINDOW % WINDOW, place / (WINDOW * WINDOW)];
                    let brick = [corner[0] + i as i32, corner[1] + j as i32, corner[2] + k as i32];
                    bricks.nothing(brick, brick.map(|b| b * EDGE as i32), brick.map(|b| (b + 1) * EDGE as i32));
                    known.insert(brick);
                }
                for place in 0..PLACES {
                    let [i, j, k] = [place % WINDOW, place / WINDOW % WINDOW, place / (WINDOW * WINDOW)];
                    let brick = [corner[0] + i as i32, corner[1] + j as i32, corner[2] + k as i32];
                    let found = bricks.window[Bricks::place(brick)] == map_of(NOTHING);
                    prop_assert_eq!(found, known.contains(&brick), "{:?} of the window from {:?}", brick, corner);
                }
            }
        }
    }

    #[test]
    fn a_segment_longer_than_a_window_is_not_for_bricks() {
        assert!(!bricks().reach(voxel([0; 3]), voxel([0, WINDOW as i32, 0])));
    }

    #[test]
    fn bricks_take_no_more_than_they_are_given_and_than_a_volume_needs() {
        let room = |bytes, cells| Room { element: 1, bytes, cells };
        let two = room(64 << 20, [40, 30, 30]);
        assert_eq!(two.slots(), 2);
        assert_eq!(room(1 << 20, [1000; 3]).taken(), 0, "too few bricks of many");
        for bytes in [2 << 20, 5 << 20, 64 << 20] {
            let taken = room(bytes, [1000; 3]).taken();
            assert!(taken > bytes / 2 && taken <= bytes, "{taken} of {bytes}");
        }
    }
}
