//! Turns a slab of points into encoded pages, limits and boxes.

use super::aligned::ElementSlice;
use super::plan::{ConversionPlan, PieceSlab};
use super::record::Record;
use field::boxes::{self, add_block_row, Bounds, SweepBuffers, BLOCK};
use field::error::FieldError;
use field::store::codec::Encoder;
use field::store::layout::ArrayLayout;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Encoded pages in the order of their slots: the bytes, and the length of each.
#[derive(Default)]
pub(super) struct Encoded {
    pub bytes: Vec<u8>,
    pub lens: Vec<u32>,
}

/// The buffers of one thread, reused from piece to piece.
#[derive(Default)]
struct PieceBuffers {
    page: Vec<u8>,
    lines: SweepBuffers,
}

/// One row of pages (those along i of the piece) and the place of its limits.
struct PageRow<'r> {
    j: usize,
    k: usize,
    limits: &'r mut [f64],
}

/// One row of blocks, the piece's cells in it, and the place of its boxes.
struct BlockRow<'r> {
    cells: [Range<usize>; 3],
    boxes: &'r mut [Bounds],
}

/// A piece with its bytes.
pub(super) struct ReadPiece<'a> {
    pub plan: &'a ConversionPlan<'a>,
    pub unit: usize,
    /// Page coordinates along i, j, k.
    pub pages: [Range<usize>; 3],
    pub slab: PieceSlab,
    pub bytes: &'a [u8],
}

impl ReadPiece<'_> {
    /// Encodes the pages into `out` (one entry for each worker, in order), and stores limits and boxes in the unit's
    /// record. The result does not depend on the number of workers.
    pub fn run(&self, record: &mut Record, out: &mut Vec<Encoded>) -> Result<(), FieldError> {
        let plan = self.plan;
        let unit = &plan.units[self.unit];
        let layout = plan.layout(unit);
        let pages = layout.grid.pages_of(unit.shard);
        let one = 2 * layout.components();
        // The piece's part of a row of the unit's limits.
        let own = (self.pages[0].start - pages[0].start) * one..(self.pages[0].end - pages[0].start) * one;
        let mut rows: Vec<PageRow<'_>> = Vec::new();
        for (n, limits) in record.ranges.chunks_exact_mut(one * pages[0].len()).enumerate() {
            let (j, k) = (pages[1].start + n % pages[1].len(), pages[2].start + n / pages[1].len());
            if self.pages[1].contains(&j) && self.pages[2].contains(&k) {
                rows.push(PageRow { j, k, limits: &mut limits[own.clone()] });
            }
        }
        let mut blocks: Vec<BlockRow<'_>> = Vec::new();
        if !record.boxes.is_empty() {
            let [bi, bj, bk] = plan.blocks(unit);
            let own: [Range<usize>; 3] =
                std::array::from_fn(|a| ConversionPlan::cells_of(&layout.grid.paging, a, &self.pages[a]));
            let meet = |b: usize, c: &Range<usize>| (b * BLOCK).max(c.start)..((b + 1) * BLOCK).min(c.end);
            let along_i = own[0].start / BLOCK - bi.start..own[0].end.div_ceil(BLOCK).max(bi.start) - bi.start;
            for (n, boxes) in record.boxes.chunks_exact_mut(bi.len()).enumerate() {
                let cells =
                    [own[0].clone(), meet(bj.start + n % bj.len(), &own[1]), meet(bk.start + n / bj.len(), &own[2])];
                if cells.iter().all(|c| !c.is_empty()) {
                    blocks.push(BlockRow { cells, boxes: &mut boxes[along_i.clone()] });
                }
            }
        }
        let workers = plan.workers.min(rows.len()).max(1);
        out.truncate(workers);
        out.resize_with(workers, Encoded::default);
        let (share, block_share) = (rows.len().div_ceil(workers), blocks.len().div_ceil(workers).max(1));
        let mut done = Ok(());
        let other = AtomicBool::new(!record.uniform);
        std::thread::scope(|scope| {
            let other = &other;
            let mut rows = rows.chunks_mut(share.max(1));
            let mut blocks = blocks.chunks_mut(block_share);
            let mut others = Vec::new();
            let mut own = None;
            for out in out.iter_mut() {
                let (rows, blocks) = (rows.next().unwrap_or_default(), blocks.next().unwrap_or_default());
                if own.is_none() {
                    own = Some((rows, blocks, out));
                } else {
                    others.push(scope.spawn(|| self.share(layout, rows, blocks, other, out)));
                }
            }
            if let Some((rows, blocks, out)) = own {
                done = self.share(layout, rows, blocks, other, out);
            }
            for t in others {
                let result = t.join().unwrap_or(Err(FieldError::Internal("an encoder's thread panicked")));
                if done.is_ok() {
                    done = result;
                }
            }
        });
        record.uniform = !other.into_inner();
        done
    }

    /// One worker's share. `other`: a point was found that is not the uniform grid's, or the result is not needed.
    fn share(
        &self,
        layout: &ArrayLayout,
        rows: &mut [PageRow<'_>],
        blocks: &mut [BlockRow<'_>],
        other: &AtomicBool,
        out: &mut Encoded,
    ) -> Result<(), FieldError> {
        let failed = |e: std::io::Error| FieldError::io(PathBuf::from(&layout.path), e);
        let pages_i = self.pages[0].clone();
        let mut scratch = PieceBuffers::default();
        out.bytes.clear();
        out.lens.clear();
        let mut encoder = Encoder::new(layout.codec, layout.dtype.size()).map_err(failed)?;
        let values = ElementSlice::of(layout.dtype, &self.bytes[..self.slab.values]);
        for row in rows {
            match values {
                ElementSlice::U8(v) => self.limits(layout, v, (u8::MAX, u8::MIN), &pages_i, row),
                ElementSlice::I32(v) => self.limits(layout, v, (i32::MAX, i32::MIN), &pages_i, row),
                ElementSlice::F32(v) => self.limits(layout, v, (f32::INFINITY, f32::NEG_INFINITY), &pages_i, row),
                ElementSlice::F64(v) => self.limits(layout, v, (f64::INFINITY, f64::NEG_INFINITY), &pages_i, row),
            }
            if !other.load(Relaxed) && !self.is_uniform(layout, values, row) {
                other.store(true, Relaxed);
            }
            if !self.plan.data {
                continue;
            }
            for i in pages_i.clone() {
                let len = encoder
                    .encode_with(layout.page_bytes(), &mut scratch.page, &mut out.bytes, |page| {
                        self.gather(layout, [i, row.j, row.k], page)
                    })
                    .map_err(failed)?;
                out.lens.push(u32::try_from(len).map_err(|e| failed(std::io::Error::other(e)))?);
            }
        }
        if let Some(xyz) = values.xyz().filter(|_| !blocks.is_empty()) {
            let behind = self.bytes.get(self.slab.values.next_multiple_of(8)..self.slab.bytes).unwrap_or_default();
            let iblank = match ElementSlice::of(field::catalog::DType::Int32, behind) {
                ElementSlice::I32(v) if self.slab.iblank => Some(v),
                _ => None,
            };
            let slab = boxes::PointSlab {
                xyz,
                components: layout.components(),
                iblank,
                size: self.slab.size,
                low: [0, 1, 2].map(|a| self.slab.points[a].start),
            };
            for b in blocks {
                add_block_row(&slab, &b.cells, &mut scratch.lines, b.boxes);
            }
        }
        Ok(())
    }

    /// Whether the points of a row of pages are those of the zone's possible uniform grid.
    fn is_uniform(&self, layout: &ArrayLayout, values: ElementSlice<'_>, row: &PageRow<'_>) -> bool {
        let unit = &self.plan.units[self.unit];
        let (Some(uniform), Some(xyz)) = (self.plan.uniform_of(unit.zone, unit.array), values.xyz()) else {
            return false;
        };
        let p = &layout.grid.paging;
        let [_, js, ks] = p.extent([0, row.j, row.k]);
        let low = [0, 1, 2].map(|a| self.slab.points[a].start);
        uniform.is_of(&[self.slab.points[0].clone(), js, ks], low, self.slab.size, layout.components(), xyz)
    }

    /// Copies one page out of the slab. Where the zone ends inside the page, the last value is repeated: it compresses
    /// well, and no reader mistakes it for data.
    fn gather(&self, layout: &ArrayLayout, at: [usize; 3], page: &mut [u8]) {
        let p = &layout.grid.paging;
        let size = layout.dtype.size();
        let e = p.extent(at);
        let [ni, nj, nk] = self.slab.size;
        let [i0, j0, k0] = [0, 1, 2].map(|a| e[a].start - self.slab.points[a].start);
        let (row, plane) = (p.page[0] * size, p.page[0] * p.page[1] * size);
        let used = e[0].len() * size;
        for c in 0..layout.components() {
            for k in 0..p.page[2] {
                let to = (c * p.page[2] + k) * plane;
                if k >= e[2].len() {
                    page.copy_within(to - plane..to, to);
                    continue;
                }
                let from = (((c * nk + k0 + k) * nj + j0) * ni + i0) * size;
                for j in 0..p.page[1] {
                    let to = to + j * row;
                    if j >= e[1].len() {
                        page.copy_within(to - row..to, to);
                        continue;
                    }
                    let from = from + j * ni * size;
                    page[to..to + used].copy_from_slice(&self.bytes[from..from + used]);
                    for n in (used..row).step_by(size) {
                        page.copy_within(to + n - size..to + n, to + n);
                    }
                }
            }
        }
    }

    /// Limits of a row of pages over all cells with low corners in it. NaN is ignored, since it compares with no
    /// number; a page of NaN only keeps +inf, -inf.
    fn limits<T: Copy + PartialOrd + Into<f64>>(
        &self,
        layout: &ArrayLayout,
        values: &[T],
        (largest, smallest): (T, T),
        pages_i: &Range<usize>,
        row: &mut PageRow<'_>,
    ) {
        let p = &layout.grid.paging;
        let [ni, nj, nk] = self.slab.size;
        let nc = layout.components();
        let e = p.extent([0, row.j, row.k]);
        let local =
            |points: &Range<usize>, start: usize, most: usize| points.start - start..(points.end - start + 1).min(most);
        let (js, ks) = (local(&e[1], self.slab.points[1].start, nj), local(&e[2], self.slab.points[2].start, nk));
        let mut lo = vec![largest; ni];
        let mut hi = vec![smallest; ni];
        for c in 0..nc {
            lo.fill(largest);
            hi.fill(smallest);
            for k in ks.clone() {
                for j in js.clone() {
                    let line = &values[((c * nk + k) * nj + j) * ni..][..ni];
                    for ((&x, lo), hi) in line.iter().zip(&mut lo).zip(&mut hi) {
                        *lo = if x < *lo { x } else { *lo };
                        *hi = if x > *hi { x } else { *hi };
                    }
                }
            }
            for (n, i) in pages_i.clone().enumerate() {
                let low = self.slab.points[0].start;
                let points = i * p.page[0] - low..((i + 1) * p.page[0] + 1 - low).min(ni);
                let least = lo[points.clone()].iter().fold(largest, |m, &x| if x < m { x } else { m });
                let most = hi[points].iter().fold(smallest, |m, &x| if x > m { x } else { m });
                row.limits[n * 2 * nc + c] = least.into();
                row.limits[n * 2 * nc + nc + c] = most.into();
            }
        }
    }
}
