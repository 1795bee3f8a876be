//! Bricks: what a tile works on, copied out of pages in an order for rays, so that no cell reaches into another piece of memory.
//!
//! # Theory
//! Rays touch a page hundreds of times. In the page itself a tenth of the samples in pages of 32^3, and a third in pages of whole rows, lie
//! in cells whose corners are in several pages, which take several times as long as others; at each page's end eight samples at a time
//! are fewer; and each shape of a page has its own strides. A brick is [`EDGE`]^3 cells at a fixed place in the volume whatever the pages
//! are. It is kept in *strips* of the corners of [`BLOCK`] cells along i, row after row and plane after plane, so that of a cell of bytes
//! two rows come by one load: 44 KB. (In whole rows, 36 KB, rays in core took a twentieth more time. In blocks of [`BLOCK`]^3 cells with
//! all their corners it was twice as large; samples took as long, but making it took a third of all time.) Which of its blocks may
//! show something is said by the ranges that lie behind the voxels of each page, so that a brick that shows nothing is known without
//! looking at its voxels, and rows that nothing is shown of are not copied.
//!
//! # Practice
//! A brick is made of pages that are here, and never asks for one: where some are not, blocks that reach there are left out until they
//! are, and rays go through them page by page and say which they lack exactly as far as samples need them. Values are the same bits
//! either way. Bricks are copies, so they outlive pins, and evictions.
//! What is known of bricks stands in a *window* of them, at the place of a brick's number modulo its edges, so that eight samples find their
//! blocks by two gathers at most. Its edges are such that it has the whole volume, or else goes along with rays.

use super::brick_copy::{copy, masks_of, rows_of, FlatBlock, Masks, Pieces, CORNERS, EACH};
use super::lanes::I4;
use super::sample::SampledVoxel;
use super::scene::RaySource;
use super::visible_blocks::{seen, shows, Rest};
use super::window::WindowShape;
use field::volume::BLOCK;

/// Cells of a brick along each axis.
pub(crate) const EDGE: usize = 32;
/// As a power of two.
pub(crate) const EDGE_BITS: u32 = EDGE.trailing_zeros();
/// Blocks of a brick along each axis.
pub(crate) const SIDE: usize = EDGE / BLOCK;
pub(crate) const BLOCKS: usize = SIDE * SIDE * SIDE;
/// Fewer bricks make room for each other before the rays of a tile are through, even of a tile that is narrower than a brick.
const LEAST: usize = 20;
/// More than neighbouring tiles have in common are of no use to one picture.
const MOST: usize = 1024;

/// Bricks of which it is remembered what was found when they were looked at.
const LOOKED: usize = 256;

/// In the window, with a slot or a code: of all blocks of the brick the same is known, so that nobody needs to look at its map.
pub(crate) const ALIKE: i32 = i32::MIN;
/// In the window, in the place of the number of a brick's slot: nothing in it shows.
pub(crate) const NOTHING: i32 = ALIKE;
/// Pages of it were not here, in this step of a tile.
const APART: i32 = 1;
/// Nobody has looked yet.
const UNKNOWN: i32 = 2;
/// Something in it may show, and it was not made yet.
const SHOWS: i32 = 3;
/// From here on slots count in the window.
pub(crate) const CODES: usize = 4;

/// What is known of a block, in two bits: that it is here.
const BLOCK_HERE: u32 = 0;
const BLOCK_NOTHING: u32 = 1;
/// The upper bit says that it cannot be had as it is.
const BLOCK_APART: u32 = 2;
/// The brick was not looked at, or not made.
const BLOCK_UNKNOWN: u32 = 3;
/// Blocks of a word of a map.
const A_WORD: usize = 16;
/// Words of the map of a brick. (A number a block, of where it lies, filled the processor's first cache.)
pub(crate) const WORDS: usize = BLOCKS / A_WORD;
/// The same of all blocks.
const fn throughout(block: u32) -> i32 {
    (block * 0x5555_5555) as i32
}

/// How a slot is numbered in the window.
const fn numbered(slot: usize) -> i32 {
    (CODES + slot) as i32
}

/// What rays need to find their way.
#[derive(Copy, Clone)]
pub(crate) struct BrickTable {
    /// Of each place of the window the number of its brick's slot, or a code; the highest bit says [`ALIKE`].
    pub window: *const i32,
    /// Of each code, and of each slot, what is known of its blocks: [`WORDS`] words.
    pub maps: *const i32,
    /// Of the number of a brick along each axis: the bits that count in the window.
    pub last: [i32; 3],
    /// And how far up in a place they stand.
    pub shift: [i32; 3],
    /// The slot that the next brick takes.
    pub next: usize,
}

/// What came of looking at a brick.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum BrickState {
    Here,
    Nothing,
    /// It cannot be had now.
    Apart,
}

/// A brick whose last blocks show something and reach into pages that are not here: they are left out, and rays go through them page by
/// page. In each step it is looked whether others have come.
#[derive(Copy, Clone)]
struct PartialBrick {
    brick: [i32; 3],
    place: u32,
    slot: u32,
    /// Its pieces that were copied, as [`Pieces::here`] has them.
    here: u128,
}

/// The bricks of a source that a thread keeps.
pub(crate) struct Bricks {
    /// Numbers, in words so that they are aligned for every type.
    data: Vec<u64>,
    maps: Vec<i32>,
    window: Vec<i32>,
    shape: WindowShape,
    /// The first brick of the window.
    corner: [i32; 3],
    /// The place that a slot was given to.
    owners: Vec<u32>,
    next: usize,
    /// Places that were found apart in this step.
    apart: Vec<u32>,
    /// Bricks of which a part is here, each in a slot of its own.
    parts: Vec<PartialBrick>,
    /// Of bricks that were looked at, each at the place that its name gives it, which of their blocks may show something: most are made
    /// some time after.
    looked: Vec<([i32; 3], [bool; BLOCKS])>,
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
    /// More than one picture uses are of use.
    pub all: bool,
}

impl Room {
    /// As many bricks are of use.
    fn most(&self) -> usize {
        let all = self.cells.iter().fold(1usize, |n, cells| n.saturating_mul((*cells as usize).div_ceil(EDGE).max(1)));
        // Corners are numbered in 32 bits.
        all.min(if self.all { i32::MAX as usize / EACH - CODES } else { MOST })
    }

    /// Bricks; none where there is too little room.
    fn slots(&self) -> usize {
        let most = self.most();
        let slots = self.bytes.saturating_sub(self.fixed()) / Bricks::with_map(self.element);
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
            slots => slots * Bricks::with_map(self.element) + self.fixed(),
        }
    }

    /// The least `bytes` with which there are so many, if there are so many at all.
    pub(crate) fn bytes_for(&self, bricks: usize) -> usize {
        bricks.max(LEAST).min(self.most()) * Bricks::with_map(self.element) + self.fixed()
    }

    /// Bytes that do not grow with the number of bricks.
    fn fixed(&self) -> usize {
        let looked = LOOKED * size_of::<([i32; 3], [bool; BLOCKS])>();
        let window = WindowShape::of(self.cells).places();
        (CODES * WORDS + window) * 4 + looked
    }
}

impl Bricks {
    /// Bytes of a brick, with what is known of it.
    fn with_map(element: usize) -> usize {
        Self::each(element) + WORDS * 4 + 4 + size_of::<PartialBrick>()
    }

    /// Bytes of a brick's numbers.
    fn each(element: usize) -> usize {
        EACH * element
    }

    /// As many as there is room for.
    pub(crate) fn new(room: Room) -> Self {
        let (element, slots, shape) = (room.element, room.slots(), WindowShape::of(room.cells));
        let any = usize::from(slots > 0);
        let mut data = vec![0; slots * Self::each(element) / 8];
        pager::make_huge(&mut data);
        let mut maps = vec![0; any * (CODES + slots) * WORDS];
        let codes = [BLOCK_NOTHING, BLOCK_APART, BLOCK_UNKNOWN, BLOCK_UNKNOWN];
        for (map, block) in maps.chunks_exact_mut(WORDS).zip(codes) {
            map.fill(throughout(block));
        }
        Self {
            data,
            maps,
            window: vec![UNKNOWN; any * shape.places()],
            shape,
            corner: [0; 3],
            owners: vec![u32::MAX; slots],
            next: 0,
            apart: Vec::new(),
            parts: Vec::with_capacity(slots),
            looked: vec![([-1; 3], [false; BLOCKS]); any * LOOKED],
            words_each: Self::each(element) / 8,
        }
    }

    /// Whether they are as [`Bricks::new`] makes them for this room, but for what is known.
    pub(crate) fn fits(&self, room: Room) -> bool {
        self.owners.len() == room.slots() && self.is_for(room)
    }

    fn is_for(&self, room: Room) -> bool {
        self.words_each == Self::each(room.element) / 8 && self.shape == WindowShape::of(room.cells)
    }

    /// Nothing is known any more.
    pub(crate) fn forget(&mut self) {
        self.window.fill(UNKNOWN);
        self.owners.fill(u32::MAX);
        self.next = 0;
        self.apart.clear();
        self.parts.clear();
        self.looked.iter_mut().for_each(|looked| looked.0 = [-1; 3]);
    }

    /// Has room for more, if this is more of the same.
    pub(crate) fn grow(&mut self, room: Room) -> bool {
        let (had, slots) = (self.owners.len(), room.slots());
        if !self.is_for(room) || had == 0 || slots < had {
            return false;
        }
        // Memory that nobody has written to is not there yet: a vector that is made longer would have zeros written to all of it.
        let mut data = vec![0; slots * self.words_each];
        pager::make_huge(&mut data);
        data[..self.data.len()].copy_from_slice(&self.data);
        self.data = data;
        self.maps.resize((CODES + slots) * WORDS, 0);
        self.owners.resize(slots, u32::MAX);
        if self.next == 0 && self.owners[0] != u32::MAX {
            self.next = had % slots;
        }
        true
    }

    /// Whether there is room for any.
    pub(crate) fn any(&self) -> bool {
        !self.owners.is_empty()
    }

    /// Another step: pages may have come.
    pub(crate) fn begin(&mut self) {
        for place in self.apart.drain(..) {
            let map = &mut self.window[place as usize];
            if *map == APART {
                *map = UNKNOWN;
            }
        }
        for part in &self.parts {
            let map = &mut self.window[part.place as usize];
            if *map == numbered(part.slot as usize) {
                *map = UNKNOWN;
            }
        }
    }

    /// What rays find their way by, until bricks are made or the window moves.
    #[inline(always)]
    pub(crate) fn known(&self) -> BrickTable {
        let (last, shift) = (self.shape.edges().map(|edge| edge - 1), self.shape.shift());
        BrickTable { window: self.window.as_ptr(), maps: self.maps.as_ptr(), last, shift, next: self.next }
    }

    /// Where numbers are.
    #[inline(always)]
    pub(crate) fn data<T>(&self) -> *const T {
        self.data.as_ptr().cast()
    }

    /// Where it is remembered what was found of a brick.
    fn of_look([i, j, k]: [i32; 3]) -> usize {
        (i + 5 * j + 25 * k) as usize % LOOKED
    }

    #[inline(always)]
    fn place(&self, brick: [i32; 3]) -> usize {
        self.shape.place(brick)
    }

    fn in_window(&self, brick: [i32; 3]) -> bool {
        let edges = self.shape.edges();
        (0..3).all(|a| (0..edges[a]).contains(&(brick[a].wrapping_sub(self.corner[a]))))
    }

    /// Has the bricks of two voxels, and all between, in the window. Whether there is room for them.
    #[inline(always)]
    pub(crate) fn reach(&mut self, from: I4, to: I4) -> bool {
        let (a, b) = (from.down::<{ EDGE_BITS as i32 }>(), to.down::<{ EDGE_BITS as i32 }>());
        let ([i, j, k], [ni, nj, nk]) = (self.corner, self.shape.edges());
        let low = I4::new([i, j, k, 0]);
        let high = low.add(I4::new([ni, nj, nk, 1]));
        a.within(low, high) && b.within(low, high) || self.moved(a.to_array(), b.to_array())
    }

    #[inline(never)]
    fn moved(&mut self, from: [i32; 4], to: [i32; 4]) -> bool {
        let edges = self.shape.edges();
        if (0..3).any(|a| from[a].abs_diff(to[a]) >= edges[a] as u32) {
            return false;
        }
        for axis in 0..3 {
            let edge = edges[axis];
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
                let [p, q] = [(axis + 1) % 3, (axis + 2) % 3];
                for other in 0..edges[p] * edges[q] {
                    let mut brick = [n; 3];
                    (brick[p], brick[q]) = (other % edges[p], other / edges[p]);
                    let at = self.place(brick);
                    self.window[at] = UNKNOWN;
                }
            }
        }
        true
    }

    /// Remembers that nothing shows in a box of voxels, if a brick lies in it.
    pub(crate) fn nothing(&mut self, brick: [i32; 3], low: [i32; 3], high: [i32; 3]) {
        let edge = EDGE as i32;
        if self.in_window(brick) && (0..3).all(|a| brick[a] * edge >= low[a] && brick[a] * edge + edge <= high[a]) {
            let place = self.place(brick);
            self.window[place] = NOTHING;
        }
    }

    /// Whether nothing shows in a box of bricks, from the first to the last, as far as is known; `look` is asked of those of which nothing
    /// is known.
    pub(crate) fn dark(
        &mut self,
        first: [i32; 3],
        last: [i32; 3],
        mut look: impl FnMut(&mut Self, [i32; 3]) -> BrickState,
    ) -> bool {
        let four = |[i, j, k]: [i32; 3]| I4::new([i, j, k, 0]).up::<{ EDGE_BITS as i32 }>();
        if !self.reach(four(first), four(last)) {
            return false;
        }
        for k in first[2]..=last[2] {
            for j in first[1]..=last[1] {
                for i in first[0]..=last[0] {
                    let map = self.window[self.place([i, j, k])];
                    let dark = map == NOTHING || map == UNKNOWN && look(self, [i, j, k]) == BrickState::Nothing;
                    if !dark {
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Looks whether a brick shows something, by the ranges of its blocks. Where they do not say, it may. Nothing is done with voxels.
    /// `page` says where a voxel lies, if its page is here.
    pub(crate) fn look<T: SampledVoxel>(
        &mut self,
        source: &RaySource,
        brick: [i32; 3],
        page: &mut impl FnMut([u32; 3]) -> Option<FlatBlock<T>>,
    ) -> BrickState {
        if !by_ranges(source) {
            return BrickState::Here;
        }
        let looked = &mut self.looked[Self::of_look(brick)];
        if looked.0 == brick {
            return BrickState::Here;
        }
        // Until it is known that it shows something.
        looked.0 = [-1; 3];
        let (found, code) = match shows(source, brick, &mut looked.1, None, page) {
            None => return BrickState::Apart,
            Some(false) => (BrickState::Nothing, NOTHING),
            Some(true) => (BrickState::Here, SHOWS),
        };
        if found == BrickState::Here {
            looked.0 = brick;
        }
        let place = self.place(brick);
        self.window[place] = code;
        found
    }

    /// Copies a brick, which lies in the window. `page` says where a voxel lies, if its page is here; what it says holds until the next
    /// call of it, and longer. `rest` says what is known where it is not.
    pub(crate) fn make<T: SampledVoxel>(
        &mut self,
        source: &RaySource,
        brick: [i32; 3],
        mut page: impl FnMut([u32; 3]) -> Option<FlatBlock<T>>,
        rest: Rest<'_, T>,
    ) -> BrickState {
        debug_assert!(self.in_window(brick));
        let place = self.place(brick);
        let low = brick.map(|b| b as u32 * EDGE as u32);
        let part = self.parts.iter().find(|part| part.brick == brick).copied();
        let had = part.map_or(0, |part| part.here);
        let mut pieces = None;
        if !source.skip || by_ranges(source) {
            pieces = Pieces::of(source, low, had, &mut page);
        }
        // What was copied is here as long as the brick is, whether or not its page is.
        let here = pieces.as_ref().map_or(u128::MAX, |p| p.here() | had);
        if let Some(part) = part.filter(|_| here == had) {
            self.window[place] = numbered(part.slot as usize);
            return BrickState::Here;
        }
        let whole = pieces.as_ref().map_or([u8::MAX; SIDE * SIDE], |p| p.whole(here));
        if whole == [0; SIDE * SIDE] {
            return self.is_apart(place);
        }
        // Some pages are known not to be here: what all of them say cannot be asked for.
        let lacks = pieces.as_ref().is_some_and(|p| !p.is_all(here));
        let found = if lacks && by_ranges(source) && self.looked[Self::of_look(brick)].0 != brick {
            BrickState::Apart
        } else {
            self.look(source, brick, &mut page)
        };
        if found == BrickState::Nothing {
            return found;
        }
        let mut shown = [u8::MAX; SIDE * SIDE];
        if found == BrickState::Here {
            if by_ranges(source) {
                shown = masks_of(&self.looked[Self::of_look(brick)].1);
            }
        } else if part.is_none_or(|_| gains(pieces.as_ref(), had, &whole)) {
            let mut each = [true; BLOCKS];
            match pieces.as_ref().and_then(|_| shows(source, brick, &mut each, Some(rest), &mut page)) {
                None => return self.is_apart(place),
                // A page may have come since it was looked which are here.
                Some(false) => {
                    self.window[place] = NOTHING;
                    return BrickState::Nothing;
                }
                Some(true) => shown = masks_of(&each),
            }
        }
        if let Some(part) = part {
            // Rows of what was known to show nothing may not have been copied.
            shown_of(&self.maps[(CODES + part.slot as usize) * WORDS..], &mut shown);
        }
        let slot = part.map_or_else(|| self.free_slot(), |part| part.slot as usize);
        let words = &mut self.data[slot * self.words_each..(slot + 1) * self.words_each];
        // SAFETY: words are aligned for all types of numbers, and any bits are one; a brick has EACH.
        let data = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<T>(), EACH) };
        if let Some(pieces) = &pieces {
            // SAFETY: there is room for a brick.
            unsafe { pieces.copy(here & !had, &rows_of(&shown), data.as_mut_ptr()) };
        } else {
            let size: [usize; 3] =
                core::array::from_fn(|a| (source.cells[a] + 1 - low[a]).min(CORNERS as u32) as usize);
            let counted = source.skip && !by_ranges(source);
            if counted && size != [CORNERS; 3] {
                // No sample lies there, and what is counted is not to depend on what was there before.
                data.fill(T::LOWEST);
            }
            if copy(source, low, size, data, &mut page).is_none() {
                return self.is_apart(place);
            }
            if counted {
                let mut each = [true; BLOCKS];
                if seen(data, &mut each, source) == 0 {
                    self.window[place] = NOTHING;
                    return BrickState::Nothing;
                }
                shown = masks_of(&each);
            }
        }
        if part.is_none() {
            self.take(slot, place);
        }
        let map = &mut self.maps[(CODES + slot) * WORDS..][..WORDS];
        for (word, (shown, whole)) in map.iter_mut().zip(shown.chunks_exact(2).zip(whole.chunks_exact(2))) {
            let [low, high] = [0, 1].map(|n| {
                let (nothing, apart) = (!shown[n], shown[n] & !whole[n]);
                (BLOCK_NOTHING * spread(nothing)) | (BLOCK_APART * spread(apart))
            });
            *word = (low | high << A_WORD) as i32;
        }
        let apart = shown.iter().zip(&whole).any(|(shown, whole)| shown & !whole != 0);
        let alike = map.iter().all(|word| *word == throughout(BLOCK_HERE));
        self.window[place] = numbered(slot) | if alike { ALIKE } else { 0 };
        self.parts.retain(|part| part.brick != brick);
        if apart {
            self.parts.push(PartialBrick { brick, place: place as u32, slot: slot as u32, here });
        }
        BrickState::Here
    }

    /// A slot that is nobody's. Whoever was there is gone.
    fn free_slot(&mut self) -> usize {
        let slot = self.next;
        if let Some(old) = self.window.get_mut(self.owners[slot] as usize) {
            if *old & !ALIKE == numbered(slot) {
                *old = UNKNOWN;
            }
        }
        self.owners[slot] = u32::MAX;
        self.parts.retain(|part| part.slot as usize != slot);
        slot
    }

    /// Gives it to a brick.
    fn take(&mut self, slot: usize, place: usize) {
        self.owners[slot] = place as u32;
        self.next = (slot + 1) % self.owners.len();
    }

    /// Nothing of a brick can be had in this step.
    fn is_apart(&mut self, place: usize) -> BrickState {
        self.window[place] = APART;
        self.apart.push(place as u32);
        BrickState::Apart
    }
}

/// Whether any block is whole that was not when there were only the pieces that it `had`: only then is there more to know of what shows.
fn gains<T: SampledVoxel>(pieces: Option<&Pieces<T>>, had: u128, whole: &Masks) -> bool {
    pieces.is_some_and(|p| p.whole(had).iter().zip(whole).any(|(had, has)| has & !had != 0))
}

/// Each bit of a row of blocks in the lower of two.
const fn spread(row: u8) -> u32 {
    let row = row as u32;
    let row = (row | row << 4) & 0x0f0f;
    let row = (row | row << 2) & 0x3333;
    (row | row << 1) & 0x5555
}

/// Takes blocks out of which a map says that nothing of them is shown.
fn shown_of(map: &[i32], shown: &mut Masks) {
    for (n, row) in shown.iter_mut().enumerate() {
        let two = map[n / 2] as u32 >> (n % 2 * A_WORD);
        for block in 0..SIDE {
            *row &= !(u8::from(two >> (2 * block) & 3 == BLOCK_NOTHING) << block);
        }
    }
}

/// Whether the ranges of a source's pages say which of a brick's blocks may show something.
fn by_ranges(source: &RaySource) -> bool {
    source.skip && source.blocks_align
}

#[cfg(test)]
mod tests;
