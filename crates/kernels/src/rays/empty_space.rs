//! Parts that need not be read or sampled: pages by their ranges, blocks within a page by theirs.

use super::transfer::TransferTable;
use field::volume::{RangeLevel, VolumeArray, Voxel};
use pager::{Lookup, PageId, Worker};

/// The known state of a sample's place before its page is read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlaceState {
    /// It may be visible.
    Seen,
    /// Its entry of this level of ranges (each 8 x 8 x 8 of the one before) is invisible.
    Nothing(u32),
    /// This page of ranges is needed first.
    Need(PageId),
}

/// The state of a page by its ranges, coarse levels first. `shows` gets a function from component to range, and returns
/// whether the values may be visible.
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
                    // A missing range skips no page.
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
            // An unreadable range skips no page.
            Lookup::Failed(_) => {}
        }
    }
    PlaceState::Seen
}

/// The bounds of all values of a component of a page, as far as resident ranges give them. The lower is above the
/// higher if there are no values.
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

/// The page of level `n` of ranges for a page, and its element there.
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

/// Largest distance from an invisible block to a possibly visible one that maps record. All blocks nearer than that
/// distance can be skipped, in each direction.
const FARTHEST: u8 = 16;

/// For each block of some pages, the distance to the next visible block: 0 for a visible one. For as many pages as fit.
pub(crate) struct Maps {
    bytes: Vec<u8>,
    /// The page of a slot, or `u64::MAX`.
    tags: Vec<u64>,
    /// Whether all blocks of a slot's page are visible.
    full: Vec<bool>,
    blocks: [usize; 3],
    /// Maps made.
    pub(crate) made: u64,
    scratch: Vec<u8>,
}

impl Maps {
    /// For pages of this many blocks, in at most this many bytes (at least one page).
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

    /// Bytes of [`Maps::new`].
    pub(crate) fn bytes(blocks: [usize; 3], bytes: usize) -> usize {
        let each = blocks.iter().product::<usize>();
        (bytes / (each + 9)).clamp(1, 1 << 16) * (each + 9) + each
    }

    fn slot(&self, page: u64) -> usize {
        // A tile's pages are neighbours, and neighbours in k are far apart in number.
        let mixed = page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((mixed * self.tags.len() as u64) >> 32) as usize
    }

    /// The place of a page's map, made from its frame if needed, and whether the whole page is visible. `shows` gets
    /// the place of a block's ranges: lowest and highest of each component.
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

    /// Whether a page still has its slot.
    #[inline(always)]
    pub(crate) fn has(&self, page: u64) -> bool {
        self.tags[self.slot(page)] == page
    }
}

/// From 0 and [`FARTHEST`] to the distance to the nearest 0; diagonal neighbours have distance one.
fn spread(map: &mut [u8], scratch: &mut [u8], [ni, nj, nk]: [usize; 3]) {
    if !map.contains(&0) {
        return;
    }
    // The distance is the largest of those along the axes, so a box of each radius is tried: rounds of one block each.
    let farthest = (FARTHEST as usize).min(ni.max(nj).max(nk));
    for round in 1..farthest as u8 {
        // Blocks nearer than the round are marked; then the box around them, axis by axis.
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

/// Combines each row of `width` with its neighbours within groups of `group`.
fn widen(v: &mut [u8], width: usize, rows: usize, group: usize) {
    for g in v.chunks_exact_mut(group) {
        // Each row needs the old row before it. So mix pairs first.
        for r in 0..rows.saturating_sub(1) {
            let (a, b) = g[r * width..(r + 2) * width].split_at_mut(width);
            a.iter_mut().zip(b.iter()).for_each(|(a, b)| *a &= *b);
        }
        // Row r has rows r and r + 1 now; with row r - 1 of that kind it has all three.
        for r in (1..rows).rev() {
            let (a, b) = g[(r - 1) * width..(r + 1) * width].split_at_mut(width);
            b.iter_mut().zip(a.iter()).for_each(|(b, a)| *b &= *a);
        }
    }
}

/// Whether a range of raw numbers is visible under a table with values multiplied by `unit`.
#[inline(always)]
pub(crate) fn shows<T: Voxel>(table: &TransferTable, unit: f32, low: T, high: T) -> bool {
    // If the type has more digits than single precision, the table widens the ends.
    table.shows(low.to_f32() * unit, high.to_f32() * unit)
}
