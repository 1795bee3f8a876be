//! Bricks: what a tile works on, copied out of pages, so that no cell reaches into another piece of memory.
//!
//! # Theory
//! Rays touch a page hundreds of times. In the page itself a tenth of the samples in pages of 32^3, and a third in pages of whole rows, lie
//! in cells whose corners are in several pages, which take several times as long as others; at each page's end eight samples at a time
//! are fewer; and each shape of a page has its own strides. A brick is [`EDGE`]^3 cells with all their corners, at a fixed place in the
//! volume whatever the pages are, so that samples are gathered over bricks (`queue.rs`). Copying one takes about as long as a thousand
//! samples; at 1024^3 and 768 x 456 pixels there are 2,700 for each copy. A frame of 8-bit numbers in core took 1.80 s of the processor
//! instead of 3.67 with pages of 512 x 11 x 11, 1.26 s instead of 1.58 with pages of 32^3, and 1.37 s instead of 1.38 with 64^3.
//!
//! # Practice
//! A brick is made of pages that are here, and never asks for one: where some are not, rays go page by page and say which they lack
//! exactly as far as samples need them. Values are the same bits either way. Bricks are copies, so they outlive pins, and evictions.

use super::sample::Sampled;
use super::scene::Source;
use field::volume::BLOCK;

/// Cells of a brick along each axis.
pub(crate) const EDGE: usize = 32;
/// As a power of two.
pub(crate) const EDGE_BITS: u32 = EDGE.trailing_zeros();
/// Voxels from a row to the next: those of its cells, and what readers of a few bytes too many may read.
pub(crate) const ROW: usize = EDGE + 4;
/// Voxels from a plane to the next.
pub(crate) const PLANE: usize = ROW * (EDGE + 1);
/// Voxels of a brick.
const VOXELS: usize = PLANE * (EDGE + 1);
/// Blocks of a brick along each axis, as a power of two.
pub(crate) const BLOCK_BITS: u32 = EDGE_BITS - BLOCK.trailing_zeros();
const BLOCKS: usize = 1 << (3 * BLOCK_BITS);
/// Bytes of a map: a byte a block, and some that readers of four may read too many.
const MAP: usize = BLOCKS + 8;
/// What is known of bricks is remembered of so many, or of the last ones in the same place.
const ENTRIES: usize = 1 << 13;
/// Fewer bricks would make room for each other before the rays of a tile are through.
const LEAST: usize = 24;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// It is in this slot.
    Slot(u32),
    /// Nothing in it shows.
    Nothing,
    /// Pages of it were not here, in this step of a tile.
    Apart(u32),
}

#[derive(Copy, Clone)]
struct Entry {
    brick: [i32; 3],
    kind: Kind,
}

/// A brick as rays use it.
#[derive(Copy, Clone)]
pub(crate) struct Brick {
    /// Elements from [`Bricks::data`] to its first voxel.
    pub base: i32,
    /// Per block 0 where something may show, by `[k][j][i]`.
    pub map: *const u8,
    /// All blocks may show something.
    pub full: bool,
}

/// What there is of a brick.
pub(crate) enum Found {
    Here(Brick),
    Nothing,
    /// Nobody has looked yet.
    Unknown,
    /// It cannot be had now.
    Apart,
}

/// The bricks of a source that a thread keeps.
pub(crate) struct Bricks {
    /// Voxels, in words so that they are aligned for every type.
    data: Vec<u64>,
    maps: Vec<u8>,
    full: Vec<bool>,
    /// The entry that says what is in a slot.
    owners: Vec<u32>,
    entries: Vec<Entry>,
    next: usize,
    step: u32,
    bytes_each: usize,
}

const NOBODY: Entry = Entry { brick: [i32::MIN; 3], kind: Kind::Apart(0) };

impl Bricks {
    fn slots(element: usize, bytes: usize) -> usize {
        let slots = bytes.saturating_sub(ENTRIES * size_of::<Entry>()) / (Self::each(element) + MAP + 5);
        if slots < LEAST {
            0
        } else {
            slots.min(1 << 10)
        }
    }

    fn each(element: usize) -> usize {
        (VOXELS * element + 8).next_multiple_of(64)
    }

    /// Bricks of voxels of so many bytes in at most so many bytes; none where that is too few.
    pub(crate) fn new(element: usize, bytes: usize) -> Self {
        let (slots, each) = (Self::slots(element, bytes), Self::each(element));
        Self {
            data: vec![0; slots * each / 8],
            maps: vec![0; slots * MAP],
            full: vec![false; slots],
            owners: vec![u32::MAX; slots],
            entries: vec![NOBODY; if slots == 0 { 0 } else { ENTRIES }],
            next: 0,
            step: 1,
            bytes_each: each,
        }
    }

    /// Bytes that [`Bricks::new`] takes.
    pub(crate) fn bytes(element: usize, bytes: usize) -> usize {
        match Self::slots(element, bytes) {
            0 => 0,
            slots => slots * (Self::each(element) + MAP + 5) + ENTRIES * size_of::<Entry>(),
        }
    }

    /// Whether there is room for any.
    pub(crate) fn any(&self) -> bool {
        !self.owners.is_empty()
    }

    /// Another step: pages may have come.
    pub(crate) fn begin(&mut self) {
        self.step = self.step.wrapping_add(1);
    }

    /// Where voxels are.
    #[inline(always)]
    pub(crate) fn data<T>(&self) -> *const T {
        self.data.as_ptr().cast()
    }

    #[inline(always)]
    fn place([i, j, k]: [i32; 3]) -> usize {
        // Neighbours get places of their own: 32 x 16 x 16 of them.
        (i & 31 | (j & 15) << 5 | (k & 15) << 9) as usize
    }

    /// What there is of a brick.
    #[inline(always)]
    pub(crate) fn find(&self, brick: [i32; 3], element: usize) -> Found {
        // SAFETY: places are below ENTRIES, which there are since there are slots.
        let e = unsafe { self.entries.get_unchecked(Self::place(brick)) };
        if e.brick != brick {
            return Found::Unknown;
        }
        match e.kind {
            Kind::Slot(slot) => Found::Here(self.brick(slot as usize, element)),
            Kind::Nothing => Found::Nothing,
            Kind::Apart(step) if step == self.step => Found::Apart,
            Kind::Apart(_) => Found::Unknown,
        }
    }

    #[inline(always)]
    fn brick(&self, slot: usize, element: usize) -> Brick {
        let base = (slot * (self.bytes_each / element)) as i32;
        Brick { base, map: self.maps[slot * MAP..].as_ptr(), full: self.full[slot] }
    }

    /// Remembers that nothing shows in a box of voxels, if a brick lies in it.
    pub(crate) fn nothing(&mut self, brick: [i32; 3], low: [i32; 3], high: [i32; 3]) {
        let edge = EDGE as i32;
        if (0..3).all(|a| brick[a] * edge >= low[a] && brick[a] * edge + edge <= high[a]) {
            self.entries[Self::place(brick)] = Entry { brick, kind: Kind::Nothing };
        }
    }

    /// Copies a brick. `page` says where a voxel's page lies, if it is here: of voxel `[i, j, k]` its address, and the voxels from it
    /// on that lie in the page along each axis. What it says holds until the next call of `page`, and longer.
    pub(crate) fn make<T: Sampled>(
        &mut self,
        source: &Source,
        brick: [i32; 3],
        mut page: impl FnMut([u32; 3]) -> Option<(*const T, [usize; 3])>,
    ) -> Found {
        let entry = Self::place(brick);
        let slot = self.next;
        // Whoever is here goes, whether this one comes or not.
        if let Some(old) = self.entries.get_mut(self.owners[slot] as usize) {
            if old.kind == Kind::Slot(slot as u32) {
                *old = NOBODY;
            }
        }
        self.owners[slot] = u32::MAX;
        let words = self.bytes_each / 8;
        let data = &mut self.data[slot * words..(slot + 1) * words];
        // SAFETY: VOXELS of T are what `each` has room for, and words are aligned for all of them; any bits are a number.
        let voxels = unsafe { core::slice::from_raw_parts_mut(data.as_mut_ptr().cast::<T>(), VOXELS) };
        let low = brick.map(|b| b as u32 * EDGE as u32);
        let size: [usize; 3] = core::array::from_fn(|a| (source.cells[a] + 1 - low[a]).min(EDGE as u32 + 1) as usize);
        if size != [EDGE + 1; 3] {
            // No sample lies there, and what is counted is not to depend on what was there before.
            voxels.fill(T::LOWEST);
        }
        if copy(source, low, size, voxels, &mut page).is_none() {
            self.entries[entry] = Entry { brick, kind: Kind::Apart(self.step) };
            return Found::Apart;
        }
        let map = &mut self.maps[slot * MAP..][..BLOCKS];
        let shown = match source.skip {
            true => seen(voxels, map, source),
            false => {
                map.fill(0);
                BLOCKS
            }
        };
        if shown == 0 {
            self.entries[entry] = Entry { brick, kind: Kind::Nothing };
            return Found::Nothing;
        }
        self.full[slot] = shown == BLOCKS;
        self.next = (slot + 1) % self.owners.len();
        self.owners[slot] = entry as u32;
        self.entries[entry] = Entry { brick, kind: Kind::Slot(slot as u32) };
        Found::Here(self.brick(slot, size_of::<T>()))
    }
}

/// Copies a box of voxels, page by page.
fn copy<T: Sampled>(
    source: &Source,
    low: [u32; 3],
    size: [usize; 3],
    to: &mut [T],
    page: &mut impl FnMut([u32; 3]) -> Option<(*const T, [usize; 3])>,
) -> Option<()> {
    const WHOLE: usize = EDGE + 1;
    let [si, sj, sk] = source.strides.map(|s| s as usize);
    let mut k = 0;
    while k < size[2] {
        let (mut j, mut planes) = (0, 0);
        while j < size[1] {
            let (mut i, mut rows) = (0, 0);
            while i < size[0] {
                let (from, left) = page([low[0] + i as u32, low[1] + j as u32, low[2] + k as u32])?;
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
fn each<T: Copy>(to: &mut [T], a: &[T], b: &[T], of: impl Fn(T, T) -> T) {
    for ((t, a), b) in to.iter_mut().zip(a).zip(b) {
        *t = of(*a, *b);
    }
}

/// Of each element of a plane, the extreme of it and the [`BLOCK`] that follow along i and along j; of the last ones anything.
#[inline(always)]
fn beyond<T: Copy>(plane: &mut [T; PLANE], scratch: &mut [[T; PLANE]; 2], of: impl Fn(T, T) -> T + Copy) {
    let [two, four] = scratch;
    for step in [1, ROW] {
        each(two, plane, &plane[step..], of);
        each(four, two, &two[2 * step..], of);
        each(two, four, &plane[BLOCK * step..], of);
        *plane = *two;
    }
}

/// Writes 0 for each block that may show something, 1 for others, and says of how many it may.
fn seen<T: Sampled>(voxels: &[T], map: &mut [u8], source: &Source) -> usize {
    // What is no number is passed over, where it comes second.
    let lower = |a: T, b: T| if b < a { b } else { a };
    let higher = |a: T, b: T| if b > a { b } else { a };
    let (mut low, mut high, mut scratch) = ([T::HIGHEST; PLANE], [T::LOWEST; PLANE], [[T::LOWEST; PLANE]; 2]);
    let mut shown = 0;
    for (k, map) in map.chunks_exact_mut(1 << (2 * BLOCK_BITS)).enumerate() {
        low.fill(T::HIGHEST);
        high.fill(T::LOWEST);
        for plane in voxels[k * BLOCK * PLANE..][..(BLOCK + 1) * PLANE].chunks_exact(PLANE) {
            for ((v, low), high) in plane.iter().zip(&mut low).zip(&mut high) {
                (*low, *high) = (lower(*low, *v), higher(*high, *v));
            }
        }
        beyond(&mut low, &mut scratch, lower);
        beyond(&mut high, &mut scratch, higher);
        for (n, out) in map.iter_mut().enumerate() {
            let (i, j) = (n & ((1 << BLOCK_BITS) - 1), n >> BLOCK_BITS);
            let at = (j * ROW + i) * BLOCK;
            let shows = source.seen(low[at], high[at]);
            *out = u8::from(!shows);
            shown += usize::from(shows);
        }
    }
    shown
}
