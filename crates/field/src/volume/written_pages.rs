//! Pages that were never written, as far as known without a read: from tables of chunks, and from listings of folders.
//!
//! # Theory
//! A page whose chunks were all never written has only the fill value, so its range is known. The same holds for a box
//! of pages without any file. So ranges of pages ([`RangeLevel`](super::RangeLevel)) are free: the fill value's where
//! nothing was written, unlimited elsewhere. Code that skips pages by their ranges also skips these.

use super::chunk_location::{row, ChunkLocation, Chunks};
use super::shape::{C, T, X, Y, Z};
use super::store::RANGE_STEP;
use super::volume_map::VolumeMapParts;
use super::voxel::{Brick, Voxel};
use crate::translate::Translation;
use crate::with_voxel;
use pager::error::PageError;
use pager::id::PageId;
use pager::map::{Located, PageMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// Most entries of a page of ranges along each axis.
const ENTRIES: usize = 16;
/// The unlimited range.
const ANY: [f32; 2] = [f32::NEG_INFINITY, f32::INFINITY];

/// The pages of an array that were never written: see the module.
pub struct Vacant {
    pub(super) chunks: Arc<Chunks>,
    pub(super) translation: Translation,
    pub(super) brick: Brick,
    pub(super) first_component: u64,
    /// Whether a page lies in one chunk, so that its lookup counts one fill.
    pub(super) by_rows: bool,
    /// Range of the fill value, rounded outward; the lowest above the highest if it is NaN.
    pub(super) range: [f32; 2],
    pub(super) fills: Arc<AtomicU64>,
}

impl std::fmt::Debug for Vacant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vacant").field("range", &self.range).finish_non_exhaustive()
    }
}

/// Pages of a step that may have been written, a bit each. The others were never written.
#[derive(Clone, Debug)]
pub struct WrittenPages {
    bits: Vec<u64>,
    pages: [u32; 3],
    written: u64,
}

impl WrittenPages {
    /// Bytes of the bits of `pages` pages.
    pub fn bytes(pages: u64) -> u64 {
        pages.div_ceil(64) * 8
    }

    /// All of `pages` pages along i, j, k.
    pub fn all(pages: [u32; 3]) -> Self {
        let count: u64 = pages.iter().map(|n| u64::from(*n)).product();
        Self { bits: vec![u64::MAX; count.div_ceil(64) as usize], pages, written: count }
    }

    /// Whether a page may have been written.
    #[inline]
    pub fn has(&self, page: u64) -> bool {
        self.bits.get((page / 64) as usize).is_some_and(|b| b >> (page % 64) & 1 == 1)
    }

    /// Number of pages that may have been written.
    pub fn count(&self) -> u64 {
        self.written
    }

    /// Number of pages that were never written.
    pub fn vacant(&self) -> u64 {
        self.pages.iter().map(|n| u64::from(*n)).product::<u64>() - self.written
    }

    /// The numbers of the pages that may have been written.
    pub fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        let count = self.written + self.vacant();
        self.bits.iter().enumerate().filter(|(_, b)| **b != 0).flat_map(move |(n, b)| {
            let base = n as u64 * 64;
            (0..64).filter(move |bit| b >> bit & 1 == 1 && base + bit < count).map(move |bit| base + bit)
        })
    }

    /// Whether all pages that the cells of a page reach into may have been written.
    pub fn around(&self, [i, j, k]: [u32; 3]) -> bool {
        let [ni, nj, nk] = self.pages;
        (0..8u32).all(|c| {
            let at =
                [(i + (c & 1)).min(ni - 1), (j + (c >> 1 & 1)).min(nj - 1), (k + (c >> 2)).min(nk - 1)].map(u64::from);
            self.has((at[2] * u64::from(nj) + at[1]) * u64::from(ni) + at[0])
        })
    }

    fn mark(&mut self, low: [u64; 3], high: [u64; 3]) {
        let [ni, nj, _] = self.pages.map(u64::from);
        for k in low[2]..high[2] {
            for j in low[1]..high[1] {
                for i in low[0]..high[0] {
                    let page = (k * nj + j) * ni + i;
                    let word = &mut self.bits[(page / 64) as usize];
                    self.written += u64::from(*word >> (page % 64) & 1 == 0);
                    *word |= 1 << (page % 64);
                }
            }
        }
    }
}

impl Vacant {
    /// The pages known to be never written, of an array with this fill value (as an element). `None` if there are none.
    pub(super) fn new(of: &VolumeMapParts, by_rows: bool, fill: &[u8]) -> Option<Arc<Self>> {
        let some = match (&of.chunks.place, &of.chunks.there) {
            (ChunkLocation::Table { rows }, _) => {
                (0..rows.len() as u64 / 24).any(|n| row(rows, n).is_some_and(|r| r[2] == 0))
            }
            (_, Some(there)) => (there.len() as u64) < of.chunks.folder.names().count(),
            _ => false,
        };
        let range = with_voxel!(of.brick.voxel, T => fill.first_chunk().map(|b| outward(T::from_ne_bytes(*b))));
        let range = range.filter(|_| some)?;
        Some(Arc::new(Self {
            chunks: of.chunks.clone(),
            translation: of.translation,
            brick: of.brick,
            first_component: of.first_component,
            by_rows,
            range,
            fills: of.fills.clone(),
        }))
    }

    /// Levels of ranges, finest first, each with the cut of its entries into pages.
    pub(super) fn ranges(self: &Arc<Self>, array: &str) -> Vec<(Translation, VacantRanges)> {
        let mut dims = self.translation.pages.map(|n| n as usize);
        let (mut out, mut pages) = (Vec::new(), 1);
        loop {
            let translation = Translation::new(dims, dims.map(|n| n.min(ENTRIES)));
            let name = format!("{array} what was written {}", out.len());
            out.push((translation, VacantRanges { name, vacant: self.clone(), translation, pages }));
            if dims == [1; 3] {
                return out;
            }
            (dims, pages) = (dims.map(|n| n.div_ceil(RANGE_STEP)), pages * RANGE_STEP as u64);
        }
    }

    /// The range of pages that were never written: see [`Vacant`]'s module.
    pub fn range(&self) -> [f32; 2] {
        self.range
    }

    /// Whether a page was never written.
    pub fn is(&self, step: u32, page: u64) -> bool {
        let (first, inside) = self.translation.extent(page);
        !self.any(first.map(u64::from), std::array::from_fn(|a| u64::from(first[a]) + u64::from(inside[a])), step)
    }

    /// The pages of a step that may have been written. Allocates [`WrittenPages::bytes`].
    pub fn written(&self, step: u32) -> WrittenPages {
        let pages = self.translation.pages;
        let count: u64 = pages.iter().map(|n| u64::from(*n)).product();
        let mut out = WrittenPages { bits: vec![0; count.div_ceil(64) as usize], pages, written: 0 };
        let dims = self.translation.dims.map(u64::from);
        self.each(step, |low, high| {
            let page = self.translation.page.map(u64::from);
            let high: [u64; 3] = std::array::from_fn(|a| high[a].min(dims[a]).div_ceil(page[a]));
            out.mark(std::array::from_fn(|a| low[a] / page[a]), high);
        });
        out
    }

    /// Counts the chunks of all other pages as found never written, as if each page had been requested.
    pub fn count_all_but(&self, written: &WrittenPages) {
        let of_axis = |a: usize| -> u64 { (0..self.translation.pages[a]).map(|p| self.span(a, p)).sum() };
        let all: u64 = if self.by_rows { written.count() + written.vacant() } else { (0..3).map(of_axis).product() };
        let t = &self.translation;
        let one = |page: u64| -> u64 {
            let (first, _) = t.extent(page);
            if self.by_rows {
                1
            } else {
                (0..3).map(|a| self.span(a, first[a] / t.page[a])).product()
            }
        };
        let rest = all - written.pages().map(one).sum::<u64>();
        let of = &self.chunks.shape.chunk[C];
        let (c0, c1) = (self.first_component, self.first_component + self.brick.components as u64);
        let components = if self.by_rows { 1 } else { c1.div_ceil(*of) - c0 / of };
        self.fills.fetch_add(rest * components, Relaxed);
    }

    /// Chunks that a page touches along an axis.
    fn span(&self, a: usize, page: u32) -> u64 {
        let (edge, chunk) = (u64::from(self.translation.page[a]), self.chunks.shape.chunk[a]);
        let low = u64::from(page) * edge;
        (low + edge).min(u64::from(self.translation.dims[a])).div_ceil(chunk) - low / chunk
    }

    /// Range of chunk indices that a box of voxels touches at a step: first, and one past the last.
    fn chunks_of(&self, low: [u64; 3], high: [u64; 3], step: u32) -> [[u64; 5]; 2] {
        let chunk = self.chunks.shape.chunk;
        let t = u64::from(step) / chunk[T];
        let (c0, c1) = (self.first_component, self.first_component + self.brick.components as u64);
        [
            [low[0] / chunk[X], low[1] / chunk[Y], low[2] / chunk[Z], c0 / chunk[C], t],
            [
                high[0].div_ceil(chunk[X]),
                high[1].div_ceil(chunk[Y]),
                high[2].div_ceil(chunk[Z]),
                c1.div_ceil(chunk[C]),
                t + 1,
            ],
        ]
    }

    /// Whether any voxel of a box may have been written.
    fn any(&self, low: [u64; 3], high: [u64; 3], step: u32) -> bool {
        let [from, to] = self.chunks_of(low, high, step);
        let per = self.chunks.per_file();
        let from: [u64; 5] = std::array::from_fn(|d| from[d] / per[d]);
        let to: [u64; 5] = std::array::from_fn(|d| to[d].div_ceil(per[d]));
        if let Some(there) = &self.chunks.there {
            let volume = (0..5).fold(1u64, |n, d| n.saturating_mul(to[d] - from[d]));
            if volume > there.len() as u64 {
                return there.iter().any(|n| {
                    let at = self.chunks.file_at(*n);
                    (0..5).all(|d| from[d] <= at[d] && at[d] < to[d])
                });
            }
        }
        boxed(from, to, |at| !self.chunks.never(std::array::from_fn(|d| at[d] * per[d])))
    }

    /// Calls `tell` with the boxes of voxels that may have been written at a step.
    fn each(&self, step: u32, mut tell: impl FnMut([u64; 3], [u64; 3])) {
        let [from, to] = self.chunks_of([0; 3], self.translation.dims.map(u64::from), step);
        let (per, chunk) = (self.chunks.per_file(), self.chunks.shape.chunk);
        let mut one = |at: [u64; 5]| {
            let own = |d: usize| at[d] * per[d] < to[d] && (at[d] + 1) * per[d] > from[d];
            if own(C) && own(T) {
                tell([X, Y, Z].map(|d| at[d] * per[d] * chunk[d]), [X, Y, Z].map(|d| (at[d] + 1) * per[d] * chunk[d]));
            }
        };
        match (&self.chunks.place, &self.chunks.there) {
            (ChunkLocation::Table { rows }, _) => {
                let count = rows.len() as u64 / 24;
                (0..count)
                    .filter(|n| row(rows, *n).is_some_and(|r| r[2] != 0))
                    .for_each(|n| one(self.chunks.file_at(n)));
            }
            (_, Some(there)) => there.iter().for_each(|n| one(self.chunks.file_at(*n))),
            _ => tell([0; 3], self.translation.dims.map(u64::from)),
        }
    }
}

/// A number's range in single precision; the lowest above the highest for NaN.
fn outward<T: Voxel>(x: T) -> [f32; 2] {
    let near = x.to_f32();
    if near.is_nan() {
        return [f32::INFINITY, f32::NEG_INFINITY];
    }
    // The conversion of 64-bit numbers to single precision may round either way.
    let exact = f64::from(near) == x.to_f64() && x.to_f64().abs() < 2f64.powi(53) || near.is_infinite();
    if exact {
        [near; 2]
    } else {
        [near.next_down(), near.next_up()]
    }
}

/// Whether `holds` is true anywhere in a box.
fn boxed(from: [u64; 5], to: [u64; 5], mut holds: impl FnMut([u64; 5]) -> bool) -> bool {
    let mut at = from;
    if (0..5).any(|d| from[d] >= to[d]) {
        return false;
    }
    loop {
        if holds(at) {
            return true;
        }
        let mut d = 0;
        loop {
            at[d] += 1;
            if at[d] < to[d] {
                break;
            }
            at[d] = from[d];
            d += 1;
            if d == 5 {
                return false;
            }
        }
    }
}

/// A level of ranges of pages, as known from [`Vacant`].
pub(super) struct VacantRanges {
    pub(super) name: String,
    pub(super) vacant: Arc<Vacant>,
    /// Its entries and their cut into pages.
    pub(super) translation: Translation,
    /// Pages of an entry along each axis.
    pub(super) pages: u64,
}

impl PageMap for VacantRanges {
    fn name(&self) -> &str {
        &self.name
    }
    fn pages(&self) -> u64 {
        self.translation.count()
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.translation.component * self.vacant.brick.components * 8
    }
    fn locate(&self, _: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        // Nothing is read.
        Located::Extents { segments: Vec::new(), encoded_len: 0, scratch_len: 0, found: Box::default() }
    }
    fn decode(&self, page: PageId, _: &[u64], _: &[u8], _: &mut [u8], frame: &mut [u8]) -> Result<(), PageError> {
        let (first, inside) = self.translation.extent(page.page);
        let v = &self.vacant;
        let (dims, edge) = (v.translation.dims.map(u64::from), v.translation.page.map(u64::from));
        let [pi, pj, _] = self.translation.page.map(|n| n as usize);
        let bytes = v.brick.components * 8;
        frame.fill(0);
        for k in 0..inside[2] {
            for j in 0..inside[1] {
                for i in 0..inside[0] {
                    let at: [u64; 3] = std::array::from_fn(|a| u64::from(first[a] + [i, j, k][a]));
                    // With the first layer after it, which its cells reach.
                    let low: [u64; 3] = std::array::from_fn(|a| at[a] * self.pages * edge[a]);
                    let high = std::array::from_fn(|a| ((at[a] + 1) * self.pages * edge[a] + 1).min(dims[a]));
                    let [least, most] = if v.any(low, high, page.step) { ANY } else { v.range };
                    let element = (k as usize * pj + j as usize) * pi + i as usize;
                    for pair in frame[element * bytes..(element + 1) * bytes].chunks_exact_mut(8) {
                        pair[..4].copy_from_slice(&least.to_ne_bytes());
                        pair[4..].copy_from_slice(&most.to_ne_bytes());
                    }
                }
            }
        }
        Ok(())
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        // Never called: `locate` never returns `Fill`.
        frame.fill(0);
    }
    fn checked(&self) -> bool {
        false
    }
}
