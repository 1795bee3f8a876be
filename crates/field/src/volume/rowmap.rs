//! Pages that are boxes of uncompressed elements, read in place by rows.

use super::chunk_location::ChunkExtent;
use super::scatter::{frame_strides, spread, swap_all, Box4, Elements};
use super::shape::{C, T, X, Y, Z};
use super::volume_map::{PageLayout, VolumeMapParts};
use pager::error::{PageError, PageErrorKind};
use pager::id::PageId;
use pager::map::{Extent, ExtentTarget, Located};

/// Page map of such pages. A page lies in one chunk, or in several files of one plane each.
pub(super) struct RowMap {
    pub(super) common: VolumeMapParts,
}

/// The elements of a page, in the order of the files.
struct PageRows {
    /// First element along x, y, z, c, t in the array, and number of elements.
    low: [u64; 5],
    size: [u64; 5],
    /// The order of all five dimensions in files, slowest first.
    order: [usize; 5],
}

impl PageRows {
    /// Strides of the page's elements when they are packed together.
    fn packed(&self) -> [u64; 5] {
        let mut strides = [0; 5];
        let mut n = 1;
        for d in self.order.iter().rev() {
            strides[*d] = n;
            n *= self.size[*d];
        }
        strides
    }
}

impl RowMap {
    fn rows(&self, page: PageId) -> PageRows {
        let c = &self.common;
        let (first, inside) = c.translation.extent(page.page);
        let of = |v: [u32; 3]| v.map(u64::from);
        let ([x, y, z], [nx, ny, nz]) = (of(first), of(inside));
        let shape = &c.chunks.shape;
        // Dimensions that the array lacks change nothing.
        let mut order = [X; 5];
        let missing = (0..5).filter(|d| !shape.order.contains(d));
        for (to, d) in order.iter_mut().zip(missing.chain(shape.order.iter().copied())) {
            *to = d;
        }
        PageRows {
            low: [x, y, z, c.first_component, page.step.into()],
            size: [nx, ny, nz, c.brick.components as u64, 1],
            order,
        }
    }
}

impl RowMap {
    /// Length of a run of elements that is contiguous in files and in the frame, and the number of slower dimensions.
    fn run(&self, rows: &PageRows, alike: bool) -> (u64, usize) {
        let c = &self.common;
        let chunk = c.chunks.shape.chunk;
        let page = c.brick.page.map(u64::from);
        let full = |d: usize| rows.size[d] == page[d];
        let (mut run, mut slow) = (1, rows.order.len());
        let (mut rows_done, mut planes_done) = (page[X] == 1, page[Y] == 1);
        for &d in rows.order.iter().rev() {
            // A frame's rows and planes have their full length.
            let goes_on = match d {
                _ if !alike || rows.size[d] == 1 => true,
                X | C => true,
                Y => rows_done,
                _ => rows_done && planes_done,
            };
            if !goes_on || rows.size[d] > chunk[d] {
                break;
            }
            run *= rows.size[d];
            slow -= 1;
            rows_done |= d == X && full(X);
            planes_done |= d == Y && full(Y);
            if rows.size[d] != chunk[d] {
                break;
            }
        }
        (run, slow)
    }
}

impl PageLayout for RowMap {
    fn parts(&self) -> &VolumeMapParts {
        &self.common
    }

    fn locate(&self, page: PageId, index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let c = &self.common;
        let shape = &c.chunks.shape;
        let rows = self.rows(page);
        let size = shape.stored.size() as u64;
        let alike = c.alike();
        let (run, slow) = self.run(&rows, alike);
        let (outer, frame) = (&rows.order[..slow], frame_strides(&c.brick));
        let count: u64 = outer.iter().map(|d| rows.size[*d]).product();
        let (count, run_bytes) = (count as usize, (run * size) as usize);
        let mut segments = Vec::with_capacity(count);
        let mut at = rows.low;
        let mut chunk: Option<([u64; 5], u64)> = None;
        let mut packed = 0usize;
        for _ in 0..count {
            let number: [u64; 5] = std::array::from_fn(|d| at[d] / shape.chunk[d]);
            let base = match chunk {
                Some((known, base)) if known == number => base,
                _ => {
                    let base = match c.chunks.entry(number, index) {
                        ChunkExtent::At { len, .. } if len != shape.chunk_bytes() => {
                            let m = format!("{len} bytes where {} are a chunk", shape.chunk_bytes());
                            return Located::Failed(c.bad(page, PageErrorKind::Decode(m)));
                        }
                        ChunkExtent::At { offset, .. } => offset,
                        ChunkExtent::Absent if c.fill.is_some() => {
                            c.count_fill(1);
                            return Located::Fill;
                        }
                        ChunkExtent::Absent => return Located::Failed(c.bad(page, PageErrorKind::Missing)),
                        ChunkExtent::Need(other) => return Located::Need(other),
                        ChunkExtent::Failed(kind) => return Located::Failed(c.bad(page, kind)),
                    };
                    chunk = Some((number, base));
                    base
                }
            };
            let within: u64 = (0..5).map(|d| at[d] % shape.chunk[d] * shape.strides[d]).sum();
            let Some(offset) = base.checked_add(within * size) else {
                return Located::Failed(c.bad(page, PageErrorKind::Decode("it lies beyond all files".into())));
            };
            let to = if alike {
                let element: u64 = (0..3).map(|d| (at[d] - rows.low[d]) * frame[d] as u64).sum();
                let element = element + at[C] - rows.low[C];
                ExtentTarget::Frame((element * size) as usize)
            } else {
                ExtentTarget::Encoded(packed)
            };
            packed += run_bytes;
            segments.push(Extent { source: c.chunks.source, offset, len: run_bytes, to });
            for d in outer.iter().rev() {
                at[*d] += 1;
                if at[*d] < rows.low[*d] + rows.size[*d] {
                    break;
                }
                at[*d] = rows.low[*d];
            }
        }
        Located::Extents {
            segments,
            encoded_len: if alike { 0 } else { packed },
            scratch_len: 0,
            found: Box::default(),
        }
    }

    fn decode(&self, page: PageId, _: &[u64], encoded: &[u8], _: &mut [u8], frame: &mut [u8]) -> Result<(), PageError> {
        let c = &self.common;
        let stored = c.chunks.shape.stored;
        if encoded.is_empty() {
            if stored.swapped() {
                swap_all(stored.size(), &mut frame[..c.brick.voxel_bytes()]);
            }
        } else {
            let rows = self.rows(page);
            let packed = rows.packed();
            debug_assert_eq!(rows.size[T], 1);
            let from = Elements { bytes: encoded, first: 0, strides: [X, Y, Z, C].map(|d| packed[d] as usize) };
            let to = Box4 { low: [0; 4], size: [X, Y, Z, C].map(|d| rows.size[d] as usize) };
            let short = || c.bad(page, PageErrorKind::Decode("it is not what was located".into()));
            spread(stored, from, &c.brick, to, frame).ok_or_else(short)?;
        }
        Ok(())
    }
}
