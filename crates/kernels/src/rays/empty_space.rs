//! What need not be read or sampled: pages by their ranges, blocks within a page by theirs.

use super::transfer::TransferTable;
use field::volume::{RangeLevel, VolumeArray, Voxel};
use pager::{Lookup, PageId, Worker};

/// What is known of the place where a sample lies before its page is read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlaceState {
    /// Something may be seen there.
    Seen,
    /// Nothing is seen in the entry of this level of ranges (each 8 x 8 x 8 of the one before) where it lies.
    Nothing(u32),
    /// This page of ranges is needed first.
    Need(PageId),
}

/// What ranges say of a page, coarse levels first. `shows` is given a function from component to range, and says whether anything is seen.
pub(crate) fn known(
    worker: &Worker,
    array: &VolumeArray,
    step: u32,
    page: [u32; 3],
    shows: impl Fn(&dyn Fn(usize) -> [f64; 2]) -> bool,
) -> PlaceState {
    for (n, level) in array.ranges.iter().enumerate().rev() {
        let (id, element) = entry(level, step, page, n);
        match worker.page(id) {
            Lookup::Here(bytes) => {
                let range = |component: usize| {
                    // What is not there skips nothing.
                    range_at(bytes, element * array.brick.components + component)
                        .map_or([f64::NEG_INFINITY, f64::INFINITY], |ends| {
                            array.value_range(component, ends.map(f64::from))
                        })
                };
                if !shows(&range) {
                    return PlaceState::Nothing(n as u32);
                }
            }
            Lookup::Absent => return PlaceState::Need(id),
            // Ranges that cannot be read skip nothing.
            Lookup::Failed(_) => {}
        }
    }
    PlaceState::Seen
}

/// Within which ends all values of a component of a page lie, as far as that is known from what is here; the lower above the higher
/// where there are none.
pub(crate) fn range_of(
    worker: &Worker,
    array: &VolumeArray,
    step: u32,
    page: [u32; 3],
    component: usize,
) -> Option<[f64; 2]> {
    array.ranges.iter().enumerate().find_map(|(n, level)| {
        let (id, element) = entry(level, step, page, n);
        let Lookup::Here(bytes) = worker.page(id) else { return None };
        let ends = range_at(bytes, element * array.brick.components + component)?;
        Some(array.value_range(component, ends.map(f64::from)))
    })
}

/// The page of level `n` of ranges that says something of a page, and which of its elements does.
fn entry(level: &RangeLevel, step: u32, page: [u32; 3], n: usize) -> (PageId, usize) {
    let at = page.map(|p| p.checked_shr(3 * n as u32).unwrap_or(0));
    let place = level.translation.node(at);
    (PageId::new(level.id, step, place.page), place.element)
}

/// The range of this number in a page of them.
fn range_at(bytes: &[u8], number: usize) -> Option<[f32; 2]> {
    let of = |n: usize| bytes.get(n..n + 4).and_then(|b| b.try_into().ok()).map(f32::from_ne_bytes);
    Some([of(number * 8)?, of(number * 8 + 4)?])
}

/// Blocks of a page that show nothing are told how far from one that may: as many blocks in each direction, less one, can be jumped.
const FARTHEST: u8 = 16;

/// Per block of some pages, how far the next block is that shows something: 0 where it does itself. Of so many pages as fit.
pub(crate) struct Maps {
    bytes: Vec<u8>,
    /// The page that a slot belongs to, or `u64::MAX`.
    tags: Vec<u64>,
    /// Whether all blocks of a slot's page show something.
    full: Vec<bool>,
    blocks: [usize; 3],
    /// Maps made.
    pub(crate) made: u64,
    scratch: Vec<u8>,
}

impl Maps {
    /// For pages of so many blocks, in at most so many bytes (one page at least).
    pub(crate) fn new(blocks: [usize; 3], bytes: usize) -> Self {
        let each = blocks.iter().product::<usize>();
        let slots = (bytes / (each + 9)).clamp(1, 1 << 16);
        Self {
            bytes: vec![0; slots * each],
            tags: vec![u64::MAX; slots],
            full: vec![false; slots],
            blocks,
            made: 0,
            scratch: vec![0; each],
        }
    }

    /// Bytes that [`Maps::new`] takes.
    pub(crate) fn bytes(blocks: [usize; 3], bytes: usize) -> usize {
        let each = blocks.iter().product::<usize>();
        (bytes / (each + 9)).clamp(1, 1 << 16) * (each + 9) + each
    }

    fn slot(&self, page: u64) -> usize {
        // A tile's pages are neighbours, and neighbours in k are far apart in number.
        let mixed = page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((mixed * self.tags.len() as u64) >> 32) as usize
    }

    /// Where the map of a page stands, made of its frame if it is not there, and whether all of the page shows something. `shows` is
    /// given where the ranges of a block stand, lowest and highest of each component.
    ///
    /// # Safety
    /// `ranges` are those of the blocks of a page of `components` numbers of type `T` a voxel.
    #[inline]
    pub(crate) unsafe fn of<T: Voxel>(
        &mut self,
        page: u64,
        ranges: *const T,
        components: usize,
        shows: impl Fn(*const T) -> bool,
    ) -> (*const u8, bool) {
        let each = self.scratch.len();
        let slot = self.slot(page);
        if self.tags[slot] != page {
            self.tags[slot] = page;
            self.made += 1;
            let map = &mut self.bytes[slot * each..(slot + 1) * each];
            for (n, b) in map.iter_mut().enumerate() {
                // SAFETY: the caller's.
                let of = unsafe { ranges.add(n * components * 2) };
                *b = if shows(of) { 0 } else { FARTHEST };
            }
            self.full[slot] = map.iter().all(|m| *m == 0);
            if !self.full[slot] {
                spread(map, &mut self.scratch, self.blocks);
            }
        }
        (self.bytes[slot * each..].as_ptr(), self.full[slot])
    }

    /// Whether the slot of a page still is that page's.
    #[inline(always)]
    pub(crate) fn has(&self, page: u64) -> bool {
        self.tags[self.slot(page)] == page
    }
}

/// From 0 and [`FARTHEST`] to the distance to the nearest 0, where diagonal neighbours are one apart.
fn spread(map: &mut [u8], scratch: &mut [u8], [ni, nj, nk]: [usize; 3]) {
    if !map.contains(&0) {
        return;
    }
    // The distance is the largest of those along the axes, so a box of each radius is tried: rounds of one block each.
    let farthest = (FARTHEST as usize).min(ni.max(nj).max(nk));
    for round in 1..farthest as u8 {
        // Blocks nearer than the round stand out; the box around them, axis by axis.
        for (s, m) in scratch.iter_mut().zip(map.iter()) {
            *s = if *m < round { 0 } else { 255 };
        }
        let mut changed = false;
        for row in scratch.chunks_exact_mut(ni) {
            let mut before = 255;
            for n in 0..ni {
                let (here, next) = (row[n], if n + 1 < ni { row[n + 1] } else { 255 });
                row[n] = here & before & next;
                before = here;
            }
        }
        widen(scratch, ni, nj, ni * nj);
        widen(scratch, ni * nj, nk, ni * nj * nk);
        for (m, s) in map.iter_mut().zip(scratch.iter()) {
            if *s == 0 && *m > round {
                *m = round;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
}

/// Each row of `width` becomes what it and its neighbours within groups of `group` have in common.
fn widen(v: &mut [u8], width: usize, rows: usize, group: usize) {
    for g in v.chunks_exact_mut(group) {
        // Downward with what was above kept: the row before, as it was, is the one it was mixed into minus itself, so mix pairs first.
        for r in 0..rows.saturating_sub(1) {
            let (a, b) = g[r * width..(r + 2) * width].split_at_mut(width);
            a.iter_mut().zip(b.iter()).for_each(|(a, b)| *a &= *b);
        }
        // Row r is now rows r and r + 1; with row r - 1 of that kind it is all three.
        for r in (1..rows).rev() {
            let (a, b) = g[(r - 1) * width..(r + 1) * width].split_at_mut(width);
            b.iter_mut().zip(a.iter()).for_each(|(b, a)| *b &= *a);
        }
    }
}

/// Whether a range of raw numbers shows anything under a table whose values are multiplied by `unit`.
#[inline(always)]
pub(crate) fn shows<T: Voxel>(table: &TransferTable, unit: f32, low: T, high: T) -> bool {
    // Where the type has more digits than single precision the ends are widened by the table.
    table.shows(low.to_f32() * unit, high.to_f32() * unit)
}
