//! Turns a slab of voxels into encoded pages, their limits, and voxels of the next level.

use super::downsample::{Box3, Sums, VoxelReduction};
use super::number::{elements, elements_mut, VoxelNumber};
use super::plan::{LevelUnit, VolumePlan};
use super::spool::Spool;
use crate::aligned::AlignedBytes;
use crate::disk::Disk;
use crate::piece::Encoded;
use crate::pipeline::{Conversion, Output};
use crate::plan::ShardPiece;
use crate::record::Record;
use crate::Spans;
use field::error::FieldError;
use field::store::codec::Encoder;
use field::store::layout::ShardGrid;
use field::with_voxel;
use std::ops::Range;
use std::path::PathBuf;

/// A conversion in progress.
pub(super) struct VolumeJob<'a> {
    pub plan: &'a VolumePlan<'a>,
    pub spool: Spool<'a>,
}

impl Conversion for VolumeJob<'_> {
    fn pieces(&self, unit: usize) -> Vec<ShardPiece> {
        self.plan.pieces(unit)
    }

    fn piece_bytes(&self, piece: &ShardPiece) -> (usize, usize) {
        let level = self.plan.unit(piece.unit).level;
        let p = &self.plan.layout.levels[level].grid.paging;
        let own = |a: usize| (piece.pages[a].end * p.page[a]).min(p.dims[a]) - piece.pages[a].start * p.page[a];
        let values = own(0) * own(1) * own(2) * self.plan.layout.voxel_bytes();
        (values, self.plan.slab_size(level, &piece.pages))
    }

    fn slab_bytes(&self) -> usize {
        self.plan.slab_bytes
    }

    fn read(&self, piece: &ShardPiece, out: &mut [u8]) -> Result<(), FieldError> {
        let unit = self.plan.unit(piece.unit);
        let points = self.plan.slab(unit.level, &piece.pages);
        if unit.level == 0 {
            self.plan.input.rows.read_box(unit.step, unit.group, &points, out)
        } else {
            self.spool.read(&unit, &points, out)
        }
    }

    fn begin(&self, unit: usize) -> Record {
        let (ranges, _) = self.plan.record_sizes(&self.plan.unit(unit));
        Record { unit: unit as u64, ranges: vec![0.0; ranges], ..Record::default() }
    }

    fn encode(
        &self,
        piece: &ShardPiece,
        bytes: &[u8],
        record: &mut Record,
        out: &mut Output,
    ) -> Result<(), FieldError> {
        with_voxel!(self.plan.layout.voxel, T => VoxelPiece::<T>::new(self.plan, piece, bytes).run(record, out))
    }

    fn shard(&self, unit: usize) -> Option<(&ShardGrid, u64, String)> {
        let u = self.plan.unit(unit);
        let path = self.plan.layout.shard_path(u.level, u.step, u.group, u.shard);
        Some((&self.plan.layout.levels[u.level].grid, u.shard, path))
    }

    fn keep(&self, disk: &Disk, piece: &ShardPiece, aside: &[u8]) -> Result<(), FieldError> {
        let unit = self.plan.unit(piece.unit);
        match self.plan.coarse(unit.level, &piece.pages) {
            Some(points) if !aside.is_empty() => self.spool.write(disk, &unit, &points, aside),
            _ => Ok(()),
        }
    }

    fn settle(&self, disk: &Disk, unit: usize) -> Result<(), FieldError> {
        let unit = self.plan.unit(unit);
        if unit.level + 1 < self.plan.layout.levels.len() {
            return self.spool.sync(disk, &unit);
        }
        Ok(())
    }

    fn spans(&self) -> &Spans {
        &self.plan.options.spans
    }
}

/// One row of pages and the place of its limits.
struct PageRow<'r> {
    j: usize,
    k: usize,
    limits: &'r mut [f64],
}

struct VoxelPiece<'a, T> {
    plan: &'a VolumePlan<'a>,
    unit: LevelUnit,
    pages: &'a [Range<usize>; 3],
    bytes: &'a [u8],
    voxels: Box3<'a, T>,
}

impl<'a, T: VoxelNumber> VoxelPiece<'a, T> {
    fn new(plan: &'a VolumePlan<'a>, piece: &'a ShardPiece, bytes: &'a [u8]) -> Self {
        let unit = plan.unit(piece.unit);
        let points = plan.slab(unit.level, &piece.pages);
        let voxels = Box3 {
            values: elements(bytes),
            low: [0, 1, 2].map(|a| points[a].start),
            size: [0, 1, 2].map(|a| points[a].len()),
            components: plan.layout.components,
        };
        Self { plan, unit, pages: &piece.pages, bytes, voxels }
    }

    fn grid(&self) -> &'a ShardGrid {
        &self.plan.layout.levels[self.unit.level].grid
    }

    /// Encodes the pages (one entry for each worker, in order), stores their limits in the unit's record, and computes
    /// the next level's voxels. The result does not depend on the number of workers.
    fn run(&self, record: &mut Record, out: &mut Output) -> Result<(), FieldError> {
        let pages = self.grid().pages_of(self.unit.shard);
        let one = 2 * self.plan.layout.components;
        // The piece's part of a row of the unit's limits.
        let own = (self.pages[0].start - pages[0].start) * one..(self.pages[0].end - pages[0].start) * one;
        let mut rows: Vec<PageRow<'_>> = Vec::new();
        for (n, limits) in record.ranges.chunks_exact_mut(one * pages[0].len()).enumerate() {
            let (j, k) = (pages[1].start + n % pages[1].len(), pages[2].start + n / pages[1].len());
            if self.pages[1].contains(&j) && self.pages[2].contains(&k) {
                rows.push(PageRow { j, k, limits: &mut limits[own.clone()] });
            }
        }
        let coarse = self.plan.coarse(self.unit.level, self.pages);
        let width = coarse.as_ref().map_or(0, |c| c[0].len()) * self.plan.layout.components;
        let coarse_rows = coarse.as_ref().map_or(0, |c| if width == 0 { 0 } else { c[1].len() * c[2].len() });
        out.aside_bytes = width * coarse_rows * size_of::<T>();
        if out.aside.bytes().len() < out.aside_bytes {
            // The old one is dropped first.
            out.aside = AlignedBytes::default();
            out.aside = AlignedBytes::new(self.plan.aside_bytes.max(out.aside_bytes));
        }
        let aside: &mut [T] = elements_mut(&mut out.aside.bytes_mut()[..out.aside_bytes]);
        let workers = self.plan.workers.min(rows.len()).max(1);
        out.pages.truncate(workers);
        out.pages.resize_with(workers, Encoded::default);
        let share = rows.len().div_ceil(workers).max(1);
        let coarse_share = coarse_rows.div_ceil(workers).max(1);
        let mut done = Ok(());
        std::thread::scope(|scope| {
            let mut rows = rows.chunks_mut(share);
            let mut aside = aside.chunks_mut((coarse_share * width).max(1));
            let mut others = Vec::new();
            let mut own = None;
            for (n, out) in out.pages.iter_mut().enumerate() {
                let (rows, aside) = (rows.next().unwrap_or_default(), aside.next().unwrap_or_default());
                let coarse = coarse.as_ref();
                let work = move || {
                    if let Some(coarse) = coarse {
                        self.halve(coarse, n * coarse_share, aside);
                    }
                    self.share(rows, out)
                };
                if own.is_none() {
                    own = Some(work);
                } else {
                    others.push(scope.spawn(work));
                }
            }
            if let Some(mut own) = own {
                done = own();
            }
            for t in others {
                let result = t.join().unwrap_or(Err(FieldError::Internal("an encoder's thread panicked")));
                if done.is_ok() {
                    done = result;
                }
            }
        });
        done
    }

    /// Computes rows of the next level, from number `first` of the box `coarse` on.
    fn halve(&self, coarse: &[Range<usize>; 3], first: usize, out: &mut [T]) {
        let levels = &self.plan.layout.levels;
        let step = levels[self.unit.level].shape.step_to(&levels[self.unit.level + 1].shape);
        let halving =
            VoxelReduction { how: self.plan.root.downsample, step, missing: self.plan.missing(self.unit.group) };
        let mut sums = Sums::default();
        let width = coarse[0].len() * self.voxels.components;
        for (n, row) in out.chunks_exact_mut(width.max(1)).enumerate() {
            let (j, k) = ((first + n) % coarse[1].len(), (first + n) / coarse[1].len());
            halving.row(&self.voxels, &coarse[0], [coarse[1].start + j, coarse[2].start + k], &mut sums, row);
        }
    }

    /// One worker's share of the pages.
    fn share(&self, rows: &mut [PageRow<'_>], out: &mut Encoded) -> Result<(), FieldError> {
        let form = self.plan.layout.form(self.unit.level);
        let failed = |e: std::io::Error| FieldError::io(PathBuf::from(self.unit.level.to_string()), e);
        out.bytes.clear();
        out.lens.clear();
        let mut encoder = Encoder::new(form.codec, form.typesize).map_err(failed)?;
        let (mut scratch, mut low, mut high) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            self.limits(row, &mut low, &mut high);
            for i in self.pages[0].clone() {
                let fill = |page: &mut [u8]| self.gather([i, row.j, row.k], page);
                let len = encoder.encode_with(form.page_bytes, &mut scratch, &mut out.bytes, fill).map_err(failed)?;
                out.lens.push(u32::try_from(len).map_err(|e| failed(std::io::Error::other(e)))?);
            }
        }
        Ok(())
    }

    /// Limits of a row of pages over all cells with low corners in it, rounded outward to single precision. NaN is
    /// ignored, since it compares with no number; a page of NaN only keeps its lowest above its highest.
    fn limits(&self, row: &mut PageRow<'_>, low: &mut Vec<T>, high: &mut Vec<T>) {
        let p = &self.grid().paging;
        let [ni, nj, nk] = self.voxels.size;
        let nc = self.voxels.components;
        let local = |a: usize, page: usize, most: usize| {
            let from = page * p.page[a] - self.voxels.low[a];
            from..(from + p.page[a] + 1).min(most)
        };
        let (js, ks) = (local(1, row.j, nj), local(2, row.k, nk));
        low.clear();
        low.resize(ni * nc, T::LARGEST);
        high.clear();
        high.resize(ni * nc, T::SMALLEST);
        for k in ks {
            for j in js.clone() {
                let line = &self.voxels.values[(k * nj + j) * ni * nc..][..ni * nc];
                for ((&x, low), high) in line.iter().zip(low.iter_mut()).zip(high.iter_mut()) {
                    *low = if x < *low { x } else { *low };
                    *high = if x > *high { x } else { *high };
                }
            }
        }
        for (n, i) in self.pages[0].clone().enumerate() {
            let columns = local(0, i, ni);
            for c in 0..nc {
                let of = columns.clone().map(|i| i * nc + c);
                let (mut least, mut most) = (T::LARGEST, T::SMALLEST);
                for at in of {
                    least = if low[at] < least { low[at] } else { least };
                    most = if high[at] > most { high[at] } else { most };
                }
                let none = least > most;
                let pair = if none { (f32::INFINITY, f32::NEG_INFINITY) } else { (least.below(), most.above()) };
                row.limits[(n * nc + c) * 2] = f64::from(pair.0);
                row.limits[(n * nc + c) * 2 + 1] = f64::from(pair.1);
            }
        }
    }

    /// Copies one page out of the slab, component by component. Where the level ends inside the page, the last value is
    /// repeated: it compresses well, and no reader mistakes it for data.
    fn gather(&self, at: [usize; 3], page: &mut [u8]) {
        match size_of::<T>() {
            1 => self.gather_of::<1>(at, page),
            2 => self.gather_of::<2>(at, page),
            4 => self.gather_of::<4>(at, page),
            _ => self.gather_of::<8>(at, page),
        }
    }

    /// [`Self::gather`] for elements of `N` bytes: behind a checksum a page is not aligned for them.
    fn gather_of<const N: usize>(&self, at: [usize; 3], page: &mut [u8]) {
        let p = &self.grid().paging;
        let e = p.extent(at);
        let [ni, nj, _] = self.voxels.size;
        let nc = self.voxels.components;
        let [i0, j0, k0] = [0, 1, 2].map(|a| e[a].start - self.voxels.low[a]);
        let (row, plane) = (p.page[0], p.page[0] * p.page[1]);
        let page = page.as_chunks_mut::<N>().0;
        let from = self.bytes.as_chunks::<N>().0;
        let used = e[0].len();
        for c in 0..nc {
            for k in 0..p.page[2] {
                let to = (c * p.page[2] + k) * plane;
                if k >= e[2].len() {
                    page.copy_within(to - plane..to, to);
                    continue;
                }
                for j in 0..p.page[1] {
                    let to = to + j * row;
                    if j >= e[1].len() {
                        page.copy_within(to - row..to, to);
                        continue;
                    }
                    let from = &from[(((k0 + k) * nj + j0 + j) * ni + i0) * nc..][..used * nc];
                    let (own, padding) = page[to..to + row].split_at_mut(used);
                    if nc == 1 {
                        own.copy_from_slice(from);
                    } else {
                        own.iter_mut().zip(from[c..].iter().step_by(nc)).for_each(|(to, from)| *to = *from);
                    }
                    padding.fill(own[used - 1]);
                }
            }
        }
    }
}
