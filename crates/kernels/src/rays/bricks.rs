//! Bricks: a tile's working memory, copied out of pages in a layout for rays, so that no cell crosses into another
//! piece of memory.
//!
//! # Theory
//! Rays touch a page hundreds of times. In pages of 32^3 a tenth of the samples are in cells with corners in several
//! pages, and in pages of whole rows a third. These take several times as long. Groups of eight samples end at each
//! page, and each shape of page has its own strides.
//!
//! A brick is [`EDGE`]^3 cells at a fixed place in the volume, for any page shape. It is kept in *strips* of the
//! corners of [`field::volume::BLOCK`] cells along i, row after row and plane after plane. So one load reads two rows
//! of a cell of bytes. The layouts compare as follows:
//!
//! | layout | size | time |
//! |---|---|---|
//! | strips | 44 KB | the reference |
//! | whole rows | 36 KB | a twentieth more for rays in memory |
//! | blocks of [`field::volume::BLOCK`]^3 cells with all corners | twice the size | equal for samples; copying takes a third of all time |
//!
//! The ranges behind the voxels of each page say which blocks may be visible. So an invisible brick is found without
//! its voxels, and invisible rows are not copied.
//!
//! # Practice
//! A brick is made of resident pages and requests none. Blocks with absent pages are left out until the pages come.
//! Rays pass those page by page, and request exactly the pages that samples need. Values are the same bits either way.
//! Bricks are copies, so they outlive pins and evictions.
//!
//! The state of bricks is in a *window* of them, at the place of a brick's number modulo its edges. So eight samples
//! find their blocks by at most two gathers. The window has the whole volume, or else moves with the rays.

use super::brick_copy::{copy, masks_of, rows_of, FlatBlock, Masks, Pieces};
use super::brick_shape::{BLOCKS, CORNERS, EACH, EDGE, EDGE_BITS, SIDE};
use super::lanes::I4;
use super::sample::SampledVoxel;
use super::source::RaySource;
use super::visible_blocks::{seen, shows, Rest};
use super::window::WindowShape;

/// With fewer bricks, the rays of a tile evict each other's bricks before their end, even in a tile narrower than a
/// brick.
const LEAST: usize = 20;
/// Neighbouring tiles share no more bricks than this, so one picture needs no more.
const MOST: usize = 1024;

/// Inspected bricks with a remembered result.
const LOOKED: usize = 256;

/// A bit in the window beside a slot or a code. All blocks of the brick have the same state then, and its map is not
/// needed.
pub(crate) const ALIKE: i32 = i32::MIN;
/// In place of a slot in the window: the whole brick is invisible.
pub(crate) const NOTHING: i32 = ALIKE;
/// Pages of it were absent in this step of a tile.
const APART: i32 = 1;
/// Not inspected yet.
const UNKNOWN: i32 = 2;
/// Part of it may be visible, and it was not made yet.
const SHOWS: i32 = 3;
/// Slots in the window count from here on.
pub(crate) const CODES: usize = 4;

/// The state of a block, in two bits: it is present.
const BLOCK_HERE: u32 = 0;
const BLOCK_NOTHING: u32 = 1;
/// The upper bit: it is not available as it is.
const BLOCK_APART: u32 = 2;
/// The brick was not inspected, or not made.
const BLOCK_UNKNOWN: u32 = 3;
/// Blocks of a word of a map.
const A_WORD: usize = 16;
/// Words of the map of a brick. (With a number a block for its place, maps filled the processor's first cache.)
pub(crate) const WORDS: usize = BLOCKS / A_WORD;
/// The same state for all blocks.
const fn throughout(block: u32) -> i32 {
    (block * 0x5555_5555) as i32
}

/// The number of a slot in the window.
const fn numbered(slot: usize) -> i32 {
    (CODES + slot) as i32
}

/// Tables for the rays.
#[derive(Copy, Clone)]
pub(crate) struct BrickTable {
    /// For each place of the window the number of its brick's slot, or a code. The highest bit is [`ALIKE`].
    pub window: *const i32,
    /// For each code and each slot, the states of its blocks: [`WORDS`] words.
    pub maps: *const i32,
    /// The bits of a brick's number along each axis that count in the window.
    pub last: [i32; 3],
    /// And their position in a place.
    pub shift: [i32; 3],
    /// The slot of the next brick.
    pub next: usize,
}

/// The result of an inspection of a brick.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum BrickState {
    Here,
    Nothing,
    /// Not available now.
    Apart,
}

/// A brick whose last blocks are visible and extend into absent pages. They are left out, and rays pass them page by
/// page. Each step checks whether more pages have come.
#[derive(Copy, Clone)]
struct PartialBrick {
    brick: [i32; 3],
    place: u32,
    slot: u32,
    /// Its copied pieces, as [`Pieces::here`] has them.
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
    /// The place of each slot's brick.
    owners: Vec<u32>,
    next: usize,
    /// Places found unavailable in this step.
    apart: Vec<u32>,
    /// Partly present bricks, each in a slot of its own.
    parts: Vec<PartialBrick>,
    /// The possibly visible blocks of inspected bricks, each at the place of its hash: most bricks are made some time
    /// later.
    looked: Vec<([i32; 3], [bool; BLOCKS])>,
    words_each: usize,
}

/// The memory of bricks.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Room {
    /// Bytes of a number.
    pub element: usize,
    /// Most bytes of all.
    pub bytes: usize,
    /// Cells of the volume along each axis.
    pub cells: [u32; 3],
    /// More bricks than those of one picture are useful.
    pub all: bool,
}

impl Room {
    /// Most useful bricks.
    fn most(&self) -> usize {
        let all = self.cells.iter().fold(1usize, |n, cells| n.saturating_mul((*cells as usize).div_ceil(EDGE).max(1)));
        // Corners are numbered in 32 bits.
        all.min(if self.all { i32::MAX as usize / EACH - CODES } else { MOST })
    }

    /// Number of bricks; 0 if there is too little room.
    fn slots(&self) -> usize {
        let most = self.most();
        let slots = self.bytes.saturating_sub(self.fixed()) / Bricks::with_map(self.element);
        if slots < LEAST.min(most) {
            0
        } else {
            slots.min(most)
        }
    }

    /// Bytes of [`Bricks::new`].
    pub(crate) fn taken(&self) -> usize {
        match self.slots() {
            0 => 0,
            slots => slots * Bricks::with_map(self.element) + self.fixed(),
        }
    }

    /// The least `bytes` for this many bricks, if there are as many.
    pub(crate) fn bytes_for(&self, bricks: usize) -> usize {
        bricks.max(LEAST).min(self.most()) * Bricks::with_map(self.element) + self.fixed()
    }

    /// Bytes independent of the number of bricks.
    fn fixed(&self) -> usize {
        let looked = LOOKED * size_of::<([i32; 3], [bool; BLOCKS])>();
        let window = WindowShape::of(self.cells).places();
        (CODES * WORDS + window) * 4 + looked
    }
}

impl Bricks {
    /// Bytes of a brick, with its map.
    fn with_map(element: usize) -> usize {
        Self::each(element) + WORDS * 4 + 4 + size_of::<PartialBrick>()
    }

    /// Bytes of a brick's numbers.
    fn each(element: usize) -> usize {
        EACH * element
    }

    /// As many bricks as there is room for.
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

    /// Whether they equal those that [`Bricks::new`] makes for this room, except for their states.
    pub(crate) fn fits(&self, room: Room) -> bool {
        self.owners.len() == room.slots() && self.is_for(room)
    }

    fn is_for(&self, room: Room) -> bool {
        self.words_each == Self::each(room.element) / 8 && self.shape == WindowShape::of(room.cells)
    }

    /// Resets all states.
    pub(crate) fn forget(&mut self) {
        self.window.fill(UNKNOWN);
        self.owners.fill(u32::MAX);
        self.next = 0;
        self.apart.clear();
        self.parts.clear();
        self.looked.iter_mut().for_each(|looked| looked.0 = [-1; 3]);
    }

    /// Adds room for more bricks, if only their number differs.
    pub(crate) fn grow(&mut self, room: Room) -> bool {
        let (had, slots) = (self.owners.len(), room.slots());
        if !self.is_for(room) || had == 0 || slots < had {
            return false;
        }
        // Untouched memory is not resident: extending a vector would write zeros to all of it.
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

    /// Whether there is room for a brick.
    pub(crate) fn any(&self) -> bool {
        !self.owners.is_empty()
    }

    /// Begins another step: pages may have come.
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

    /// Tables for the rays, valid until bricks are made or the window moves.
    #[inline(always)]
    pub(crate) fn known(&self) -> BrickTable {
        let (last, shift) = (self.shape.edges().map(|edge| edge - 1), self.shape.shift());
        BrickTable { window: self.window.as_ptr(), maps: self.maps.as_ptr(), last, shift, next: self.next }
    }

    /// The numbers.
    #[inline(always)]
    pub(crate) fn data<T>(&self) -> *const T {
        self.data.as_ptr().cast()
    }

    /// The place of a brick's remembered inspection.
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

    /// Moves the window so that it has the bricks of two voxels, and all between. Whether there is room for them.
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
            // Rays continue in their direction, and neighbours do the same.
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

    /// Records that a box of voxels is invisible, if a brick is inside it.
    pub(crate) fn nothing(&mut self, brick: [i32; 3], low: [i32; 3], high: [i32; 3]) {
        let edge = EDGE as i32;
        if self.in_window(brick) && (0..3).all(|a| brick[a] * edge >= low[a] && brick[a] * edge + edge <= high[a]) {
            let place = self.place(brick);
            self.window[place] = NOTHING;
        }
    }

    /// Whether a box of bricks, from the first to the last, is known to be invisible. Calls `look` for bricks of
    /// unknown state.
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

    /// Inspects the ranges of a brick's blocks for visibility. Without ranges it may be visible. Voxels are not read.
    /// `page` gives the place of a voxel, if its page is resident.
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
        // Until the brick is found to be visible.
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

    /// Copies a brick of the window. `page` gives the place of a voxel, if its page is resident; the place is valid
    /// until the next call, and longer. `rest` gives the state of absent parts.
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
        // A copied piece stays as long as the brick, whether or not its page does.
        let here = pieces.as_ref().map_or(u128::MAX, |p| p.here() | had);
        if let Some(part) = part.filter(|_| here == had) {
            self.window[place] = numbered(part.slot as usize);
            return BrickState::Here;
        }
        let whole = pieces.as_ref().map_or([u8::MAX; SIDE * SIDE], |p| p.whole(here));
        if whole == [0; SIDE * SIDE] {
            return self.is_apart(place);
        }
        // Some pages are known to be absent, so their ranges are unavailable.
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
                // A page may have come since the check for resident pages.
                Some(false) => {
                    self.window[place] = NOTHING;
                    return BrickState::Nothing;
                }
                Some(true) => shown = masks_of(&each),
            }
        }
        if let Some(part) = part {
            // Rows that were known to be invisible may be missing in the copy.
            shown_of(&self.maps[(CODES + part.slot as usize) * WORDS..], &mut shown);
        }
        let slot = part.map_or_else(|| self.free_slot(), |part| part.slot as usize);
        let words = &mut self.data[slot * self.words_each..(slot + 1) * self.words_each];
        // SAFETY: words are aligned for all types of numbers, and all bit patterns are valid; a brick has EACH.
        let data = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<T>(), EACH) };
        if let Some(pieces) = &pieces {
            // SAFETY: there is room for a brick.
            unsafe { pieces.copy(here & !had, &rows_of(&shown), data.as_mut_ptr()) };
        } else {
            let size: [usize; 3] =
                core::array::from_fn(|a| (source.cells[a] + 1 - low[a]).min(CORNERS as u32) as usize);
            let counted = source.skip && !by_ranges(source);
            if counted && size != [CORNERS; 3] {
                // No sample is there. The counts must not depend on earlier content.
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

    /// A free slot. Its earlier brick is dropped.
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

    /// Assigns a slot to a brick.
    fn take(&mut self, slot: usize, place: usize) {
        self.owners[slot] = place as u32;
        self.next = (slot + 1) % self.owners.len();
    }

    /// The whole brick is unavailable in this step.
    fn is_apart(&mut self, place: usize) -> BrickState {
        self.window[place] = APART;
        self.apart.push(place as u32);
        BrickState::Apart
    }
}

/// Whether a block is complete that was not with the pieces in `had`. Only then is more known of its visibility.
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

/// Removes blocks that are invisible by a map.
fn shown_of(map: &[i32], shown: &mut Masks) {
    for (n, row) in shown.iter_mut().enumerate() {
        let two = map[n / 2] as u32 >> (n % 2 * A_WORD);
        for block in 0..SIDE {
            *row &= !(u8::from(two >> (2 * block) & 3 == BLOCK_NOTHING) << block);
        }
    }
}

/// Whether the ranges of a source's pages give the visibility of a brick's blocks.
fn by_ranges(source: &RaySource) -> bool {
    source.skip && source.blocks_align
}

#[cfg(test)]
mod tests;
