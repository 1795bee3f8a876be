//! Samples: every n-th voxel of an uncompressed array. They are a coarse form of a large volume without coarser levels.
//!
//! # Theory
//! Rays through a volume of 2048^3 without levels read gigabytes before a picture is complete. If voxels have fixed
//! places in a file, samples can be read alone. Every 32nd row of every 32nd plane is a thousandth of the volume, and
//! shows all of it. Samples are not means: a thin wall is only partly visible. So they are not levels: only pictures
//! with a deadline use them, where it leaves no time for more.

use super::chunk_location::ChunkExtent;
use super::level::{Placement, VolumeArray, VolumeLevel};
use super::masked_pages::ValuePages;
use super::scatter::{spread, Box4, Elements};
use super::shape::{ArrayShape, C, T, X, Y, Z};
use super::volume_map::{PageLayout, VolumeMap, VolumeMapParts};
use super::voxel::Brick;
use crate::translate::Translation;
use pager::error::{PageError, PageErrorKind};
use pager::id::PageId;
use pager::map::{Extent, ExtentTarget, Located};
use pager::Pager;
use std::sync::Arc;

/// Voxels from a sample to the next, along each axis.
const EVERY: [u32; 4] = [8, 16, 32, 64];
/// Smallest level that has samples. All pages of smaller ones are soon read.
const LEAST_VOXELS: u64 = 1 << 21;
/// Bytes of one read of a row of samples.
const ROW_BYTES: u64 = 8 << 10;
/// Rows of a page along each of the other two axes.
const ROWS: u32 = 8;

/// An array that is read by rows, with its page map's parts.
pub(super) struct InRows {
    pub(super) common: VolumeMapParts,
    pub(super) array: VolumeArray,
}

/// Samples of a level, finest first, and the number of their arrays. `of` must have all arrays of the level. None for a
/// small level.
pub(super) fn samples(level: &VolumeLevel, of: &[InRows], pager: &Pager) -> (Vec<VolumeLevel>, u64) {
    let voxels = level.dims.iter().fold(1u64, |n, of| n.saturating_mul(u64::from(*of)));
    // If elements are contiguous in time, each sample would be a read of its own.
    let in_time = |of: &InRows| of.common.chunks.shape.fastest() == T;
    let all = of.len() == level.arrays.len() && !of.is_empty() && !of.iter().any(in_time);
    if !all || voxels < LEAST_VOXELS || level.dims.contains(&1) {
        return (Vec::new(), 0);
    }
    let mut count = 0;
    let made = EVERY.map(|every| {
        // At least two along each axis, the last as near to its end as possible.
        let every = level.dims.map(|n| (n - 1) / (n - 1).div_ceil(every));
        let dims: [u32; 3] = std::array::from_fn(|a| level.dims[a].div_ceil(every[a]));
        let axes = std::array::from_fn(|a| level.placement.axes[a].map(|x| x * f64::from(every[a])));
        let arrays = of.iter().map(|of| {
            count += 1 + u64::from(of.array.valued.is_some());
            array(of, dims, every, pager)
        });
        let arrays = arrays.collect();
        VolumeLevel { dims, placement: Placement { origin: level.placement.origin, axes }, arrays }
    });
    (made.into(), count)
}

fn array(of: &InRows, dims: [u32; 3], every: [u32; 3], pager: &Pager) -> VolumeArray {
    let shape = &of.common.chunks.shape;
    let inner = inner(shape);
    let fast = inner.into_iter().flatten().find(|d| *d < C).unwrap_or(X);
    let mut page = [ROWS; 3];
    let each = u64::from(every[fast]) * shape.strides[fast].max(1) * shape.stored.size() as u64;
    page[fast] = (ROW_BYTES / each).clamp(1, 256) as u32;
    let page: [u32; 3] = std::array::from_fn(|a| page[a].min(dims[a]));
    let translation = Translation::new(dims.map(|n| n as usize), page.map(|n| n as usize));
    let brick = Brick { page, ..of.common.brick };
    let name = format!("{}, every {every:?} voxels", of.common.name);
    let map = |common| Arc::new(VolumeMap(SampleMap { common, every: every.map(u64::from), inner }));
    let common = VolumeMapParts { name: name.clone(), brick, translation, ..of.common.clone() };
    let id = pager.add_array(map(common.clone()));
    let none = VolumeArray { ranges: Vec::new(), vacant: None, shards: None, row_group: None, ..of.array.clone() };
    let made = VolumeArray { name, id, translation, brick, ..none };
    let valued = of.array.valued.is_some().then(|| {
        let pages = ValuePages::new(map(VolumeMapParts { ranges: false, ..common }), brick, translation, &made.missing);
        let id = pager.add_array(Arc::new(pages));
        Box::new(VolumeArray { id, brick: ValuePages::brick(brick), valued: None, ..made.clone() })
    });
    VolumeArray { valued, ..made }
}

/// The dimensions of a row of samples: the contiguous one, and, with interleaved components, the next.
fn inner(shape: &ArrayShape) -> [Option<usize>; 2] {
    let fast = shape.fastest();
    let next = || [X, Y, Z].into_iter().filter(|d| shape.chunk[*d] > 1).min_by_key(|d| shape.strides[*d]);
    [Some(fast), if fast == C { next() } else { None }]
}

/// Page map of samples.
struct SampleMap {
    /// Its translation and brick refer to samples.
    common: VolumeMapParts,
    /// Voxels from a sample to the next along x, y, z.
    every: [u64; 3],
    inner: [Option<usize>; 2],
}

/// A row of samples.
struct SampleRow {
    /// Its first element in the array, along x, y, z, c, t.
    at: [u64; 5],
    /// The destination of its elements.
    to: Box4,
}

impl SampleMap {
    fn every(&self, d: usize) -> u64 {
        self.every.get(d).copied().unwrap_or(1)
    }

    fn is_inner(&self, d: usize) -> bool {
        self.inner.contains(&Some(d))
    }

    /// Samples of a page along x, y, z, c.
    fn size(&self, page: PageId) -> [usize; 4] {
        let [x, y, z] = self.common.translation.extent(page.page).1.map(|n| n as usize);
        [x, y, z, self.common.brick.components]
    }

    fn bad(&self, page: PageId, kind: PageErrorKind) -> PageError {
        PageError::new(self.page_name(page), kind)
    }

    /// The rows of a page, in the order of the files.
    fn rows(&self, page: PageId) -> Vec<SampleRow> {
        let (first, _) = self.common.translation.extent(page.page);
        let size = self.size(page);
        let order = &self.common.chunks.shape.order;
        let outer: Vec<usize> = order.iter().copied().filter(|d| *d != T && !self.is_inner(*d)).collect();
        let count = outer.iter().map(|d| size[*d]).product();
        let within = std::array::from_fn(|d| if self.is_inner(d) { size[d] } else { 1 });
        let mut low = [0; 4];
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            let mut at = [0, 0, 0, self.common.first_component + low[C] as u64, page.step.into()];
            for d in [X, Y, Z] {
                at[d] = (u64::from(first[d]) + low[d] as u64) * self.every[d];
            }
            rows.push(SampleRow { at, to: Box4 { low, size: within } });
            for d in outer.iter().rev() {
                low[*d] += 1;
                if low[*d] < size[*d] {
                    break;
                }
                low[*d] = 0;
            }
        }
        rows
    }

    /// Elements from the first of a row to one past its last.
    fn row_len(&self, page: PageId) -> u64 {
        let (size, strides) = (self.size(page), self.common.chunks.shape.strides);
        let along = |d: usize| (size[d] as u64 - 1) * self.every(d) * strides[d];
        1 + self.inner.into_iter().flatten().map(along).sum::<u64>()
    }
}

impl PageLayout for SampleMap {
    fn parts(&self) -> &VolumeMapParts {
        &self.common
    }

    fn page_name(&self, page: PageId) -> String {
        let chunk = self.common.chunks.shape.chunk;
        let at = self.rows(page).first().map_or([0; 5], |row| std::array::from_fn(|d| row.at[d] / chunk[d]));
        self.common.chunks.describe(&self.common.name, at)
    }

    fn locate(&self, page: PageId, index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let c = &self.common;
        let shape = &c.chunks.shape;
        let size = shape.stored.size();
        let len = self.row_len(page) as usize * size;
        let rows = self.rows(page);
        let mut segments = Vec::with_capacity(rows.len());
        for (n, SampleRow { at, .. }) in rows.into_iter().enumerate() {
            let chunk = std::array::from_fn(|d| at[d] / shape.chunk[d]);
            let base = match c.chunks.entry(chunk, index) {
                ChunkExtent::At { offset, .. } => offset,
                ChunkExtent::Absent => return Located::Failed(self.bad(page, PageErrorKind::Missing)),
                ChunkExtent::Need(other) => return Located::Need(other),
                ChunkExtent::Failed(kind) => return Located::Failed(self.bad(page, kind)),
            };
            let within: u64 = (0..5).map(|d| at[d] % shape.chunk[d] * shape.strides[d]).sum();
            let Some(offset) = base.checked_add(within * size as u64) else {
                return Located::Failed(self.bad(page, PageErrorKind::Decode("it lies beyond all files".into())));
            };
            segments.push(Extent { source: c.chunks.source, offset, len, to: ExtentTarget::Encoded(n * len) });
        }
        let encoded_len = segments.len() * len;
        Located::Extents { segments, encoded_len, scratch_len: 0, found: Box::default() }
    }

    fn decode(&self, page: PageId, _: &[u64], encoded: &[u8], _: &mut [u8], frame: &mut [u8]) -> Result<(), PageError> {
        let c = &self.common;
        let shape = &c.chunks.shape;
        let len = self.row_len(page) as usize * shape.stored.size();
        let strides = [X, Y, Z, C].map(|d| (self.every(d) * shape.strides[d]) as usize);
        let short = || self.bad(page, PageErrorKind::Decode("it is not what was located".into()));
        for (row, bytes) in self.rows(page).into_iter().zip(encoded.chunks_exact(len)) {
            spread(shape.stored, Elements { bytes, first: 0, strides }, &c.brick, row.to, frame).ok_or_else(short)?;
        }
        Ok(())
    }
}
