//! The work of a conversion: units (one shard each), the pieces in which a unit is read, and the memory for them.

use super::base::Base;
use super::job::ConvertJob;
use super::memory::{within, ChargeMemory};
use super::{ConvertInput, ConvertOptions};
use field::boxes::{cells, Bounds, BLOCK};
use field::error::FieldError;
use field::paging::Paging;
use field::store::codec::Codec;
use field::store::layout::{choose_pages, lay_out, ArrayLayout, ZoneLayout};
use field::uniform::Uniform;
use std::any::Any;
use std::ops::Range;

/// Larger buffers are no faster.
pub(super) const MAX_SLAB: usize = 32 << 20;
/// Buffers of each kind: one is filled while the other is used.
pub(super) const BUFFERS: usize = 2;
/// Records at once: one growing, one with the writer, two with the committers, and one as bytes.
pub(super) const RECORDS: usize = 5;
/// Bytes of a zstd context for pages of our sizes at low levels.
pub(super) const CONTEXT: usize = 2 << 20;

/// Concurrent reads, for disks that serve several faster than one.
pub(super) const READS: usize = 4;
/// Smallest part of a divided read.
pub(super) const READ_BYTES: usize = 256 << 10;

/// One shard of one array at one step: the smallest part that a resumed conversion does not repeat.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardUnit {
    pub zone: usize,
    pub array: usize,
    pub step: usize,
    pub shard: u64,
}

/// A part of a unit that is read at once: several planes of pages, or several rows of one plane. With little memory it
/// is several pages of one row; the file's rows are then read once for each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardPiece {
    pub unit: usize,
    /// Page coordinates along i, j, k.
    pub pages: [Range<usize>; 3],
    pub first: bool,
    pub last: bool,
}

/// The points of a piece's slab: its own and, where the zone continues, one more column, row and plane. These belong to
/// cells with low corners in the piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PieceSlab {
    /// Columns, rows, planes of the zone.
    pub points: [Range<usize>; 3],
    /// Their numbers.
    pub size: [usize; 3],
    /// Bytes of the array's components; iblank follows at the next multiple of 8.
    pub values: usize,
    /// Bytes in all.
    pub bytes: usize,
    /// Whether iblank is in it, too (for boxes).
    pub iblank: bool,
}

/// Bytes for testing the lines of an array: its longest line, and a row, or a box of a line's points, to read it.
fn look_bytes(layout: &ArrayLayout) -> usize {
    let longest = layout.grid.paging.dims.into_iter().max().unwrap_or(0);
    // The line, its copy in the fit, and the bytes read.
    longest * (2 * 8 + layout.components() * layout.dtype.size())
}

pub(super) struct ConversionPlan<'a> {
    pub input: &'a ConvertInput,
    pub zones: Vec<ZoneLayout>,
    pub options: ConvertOptions,
    /// The store with the first steps.
    pub base: Option<&'a Base>,
    /// Whether shards of data are written, or only ranges and boxes.
    pub data: bool,
    /// In the order of the work.
    pub units: Vec<ShardUnit>,
    /// Numbers of units by zone, array, and step * shards + shard.
    pub numbers: Vec<Vec<Vec<usize>>>,
    /// Bytes of a slab buffer, of an output buffer, and in all.
    pub slab_bytes: usize,
    pub out_bytes: usize,
    pub memory: u64,
    pub workers: usize,
    /// The possible uniform grid of each zone. [`Self::look_for_uniform`] sets it, and the conversion confirms it point
    /// by point.
    pub uniform: Vec<Option<Uniform>>,
}

impl<'a> ConversionPlan<'a> {
    /// A plan with charged memory: others may use a part of the limit, so smaller plans are tried, too.
    pub fn within(job: &ConvertJob<'a>, charge: &ChargeMemory<'_>) -> Result<(Self, Box<dyn Any>), FieldError> {
        within(job.options.memory_limit, charge, |limit| {
            let plan = Self::new(job, limit)?;
            let memory = plan.memory;
            Ok((plan, memory))
        })
    }

    /// Plans a conversion, or an index of data that stays where it is, within `limit` bytes.
    fn new(job: &ConvertJob<'a>, limit: u64) -> Result<Self, FieldError> {
        let ConvertJob { input, dst, options, pages, base } = *job;
        let steps: Vec<Vec<usize>> = input.arrays.iter().map(|z| z.iter().map(|a| a.steps).collect()).collect();
        let chosen =
            pages.map_or_else(|| choose_pages(&input.catalog, options.page, options.layout), <[Paging]>::to_vec);
        let chosen = base.map_or(chosen, |b| b.store.paging());
        let zones = lay_out(dst, &input.catalog, &chosen, &steps, options.codec)?;
        if let Some(base) = base {
            base.check(&zones)?;
        }
        let mut plan = Self {
            input,
            zones,
            options: options.clone(),
            base,
            data: pages.is_none(),
            units: Vec::new(),
            numbers: Vec::new(),
            slab_bytes: 0,
            out_bytes: 0,
            memory: 0,
            workers: options.workers.clamp(1, 64),
            uniform: vec![None; input.catalog.zones.len()],
        };
        plan.list_units();
        plan.find_memory(limit)?;
        Ok(plan)
    }

    /// Coordinates and iblank alternate, shard by shard. Boxes need both, and the second read of iblank then comes from
    /// the system's cache.
    fn list_units(&mut self) {
        for (z, zone) in self.zones.iter().enumerate() {
            let shards = |a: usize| {
                let layout = &zone.arrays[a];
                let first = self.base.map_or(0, |b| b.steps_of(layout)) as u64;
                first * layout.grid.count()..layout.shard_count()
            };
            let together: Vec<usize> = match (zone.xyz, zone.iblank) {
                (Some(x), Some(b)) if zone.arrays[x].steps == zone.arrays[b].steps => vec![x, b],
                _ => Vec::new(),
            };
            let mut numbers: Vec<Vec<usize>> = vec![Vec::new(); zone.arrays.len()];
            let mut add = |array: usize, n: u64| {
                let count = zone.arrays[array].grid.count();
                numbers[array].push(self.units.len());
                // It fits: steps are a usize.
                self.units.push(ShardUnit { zone: z, array, step: (n / count) as usize, shard: n % count });
            };
            if let Some(&first) = together.first() {
                for n in shards(first) {
                    together.iter().for_each(|&a| add(a, n));
                }
            }
            for a in (0..zone.arrays.len()).filter(|a| !together.contains(a)) {
                shards(a).for_each(|n| add(a, n));
            }
            self.numbers.push(numbers);
        }
    }

    pub fn layout(&self, unit: &ShardUnit) -> &ArrayLayout {
        &self.zones[unit.zone].arrays[unit.array]
    }

    /// Whether boxes are made of this array, and the iblank for them.
    pub fn boxes_of(&self, zone: usize, array: usize) -> (bool, Option<usize>) {
        let z = &self.zones[zone];
        if z.xyz == Some(array) {
            (true, z.iblank)
        } else {
            (false, None)
        }
    }

    /// Low corners of cells, along axis `a`, among points of pages `pages`.
    pub fn cells_of(paging: &Paging, a: usize, pages: &Range<usize>) -> Range<usize> {
        let most = cells(paging.dims)[a];
        (pages.start * paging.page[a]).min(most)..(pages.end * paging.page[a]).min(most)
    }

    /// Blocks along i, j, k with cells of a unit.
    pub fn blocks(&self, unit: &ShardUnit) -> [Range<usize>; 3] {
        let grid = &self.layout(unit).grid;
        let pages = grid.pages_of(unit.shard);
        std::array::from_fn(|a| {
            let c = Self::cells_of(&grid.paging, a, &pages[a]);
            c.start / BLOCK..if c.is_empty() { c.start / BLOCK } else { c.end.div_ceil(BLOCK) }
        })
    }

    /// Numbers of limits and of boxes in a unit's record.
    pub fn record_sizes(&self, unit: &ShardUnit) -> (usize, usize) {
        let layout = self.layout(unit);
        let pages: usize = layout.grid.pages_of(unit.shard).iter().map(ExactSizeIterator::len).product();
        let boxes = if self.boxes_of(unit.zone, unit.array).0 {
            self.blocks(unit).iter().map(ExactSizeIterator::len).product()
        } else {
            0
        };
        (pages * 2 * layout.components(), boxes)
    }

    /// The slab of a box of pages.
    pub fn slab(&self, zone: usize, array: usize, pages: &[Range<usize>; 3]) -> PieceSlab {
        let layout = &self.zones[zone].arrays[array];
        let p = &layout.grid.paging;
        let points: [Range<usize>; 3] =
            std::array::from_fn(|a| pages[a].start * p.page[a]..(pages[a].end * p.page[a] + 1).min(p.dims[a]));
        let size = [points[0].len(), points[1].len(), points[2].len()];
        let count = size[0] * size[1] * size[2];
        let values = count * layout.components() * layout.dtype.size();
        let iblank = self.boxes_of(zone, array).1.is_some();
        let bytes = values.next_multiple_of(8) + if iblank { count * 4 } else { 0 };
        PieceSlab { points, size, values, bytes, iblank }
    }

    /// The slab of a piece.
    pub fn slab_of(&self, piece: &ShardPiece) -> PieceSlab {
        let u = &self.units[piece.unit];
        self.slab(u.zone, u.array, &piece.pages)
    }

    /// The pieces of a unit.
    pub fn pieces(&self, unit: usize) -> Vec<ShardPiece> {
        let u = &self.units[unit];
        let pages = self.layout(u).grid.pages_of(u.shard);
        let mut out = self.split(u.zone, u.array, &pages, self.slab_bytes);
        number(&mut out, unit);
        out
    }

    /// [`cut`] for slabs of at most `most` bytes.
    pub fn split(&self, zone: usize, array: usize, pages: &[Range<usize>; 3], most: usize) -> Vec<ShardPiece> {
        // At the zone's low end, where the high end never shortens a slab.
        cut(pages, |n| self.slab(zone, array, &n.map(|n| 0..n)).bytes <= most)
    }

    /// Most bytes of a piece's encoded pages.
    fn piece_out(&self, zone: usize, array: usize, piece: &ShardPiece) -> usize {
        let layout = &self.zones[zone].arrays[array];
        let pages: usize = piece.pages.iter().map(ExactSizeIterator::len).product();
        pages * self.options.codec.max_encoded(layout.page_bytes())
    }

    /// Finds buffer sizes within the limit; with fewer workers if needed, since each has a page of its own.
    fn find_memory(&mut self, limit: u64) -> Result<(), FieldError> {
        loop {
            match self.find_buffers(limit) {
                Err(FieldError::LimitTooSmall { .. }) if self.workers > 1 => self.workers /= 2,
                done => return done,
            }
        }
    }

    fn find_buffers(&mut self, limit: u64) -> Result<(), FieldError> {
        let context = if matches!(self.options.codec, Codec::Zstd { .. }) { CONTEXT } else { 0 };
        let mut fixed = 0;
        let mut kinds = Vec::new();
        for (z, zone) in self.zones.iter().enumerate() {
            for (a, layout) in zone.arrays.iter().enumerate() {
                let unit = ShardUnit { zone: z, array: a, step: 0, shard: 0 };
                let (ranges, boxes) = self.record_sizes(&unit);
                let record = ranges * 8 + boxes * size_of::<Bounds>();
                let scratch =
                    2 * layout.page_bytes() + (2 * layout.components() + 2) * layout.grid.paging.dims[0] * 8 + context;
                let reads = READS * READ_BYTES.max(layout.grid.paging.dims[0] * layout.dtype.size());
                fixed = fixed.max(RECORDS * record + self.workers * scratch + reads);
                fixed = fixed.max(look_bytes(layout));
                // Shards at the zone's ends are smaller, so their pieces may have another shape.
                let [ni, nj, nk] = layout.grid.shards;
                for n in 0..8 {
                    let at = [(n & 1) * (ni - 1), (n >> 1 & 1) * (nj - 1), (n >> 2) * (nk - 1)];
                    kinds.push((z, a, layout.grid.pages_of(((at[2] * nj + at[1]) * ni + at[0]) as u64)));
                }
                kinds.dedup();
            }
        }
        let measure = |most: usize| {
            let (mut slab, mut out) = (0, 0);
            for (z, a, pages) in &kinds {
                for piece in self.split(*z, *a, pages, most) {
                    slab = slab.max(self.slab(*z, *a, &piece.pages).bytes);
                    out = out.max(if self.data { self.piece_out(*z, *a, &piece) } else { 0 });
                }
            }
            (slab, out, (BUFFERS * (slab + out) + fixed) as u64)
        };
        // Buffers for reading and for writing share the rest evenly. Padding and the codec's worst case may exceed the
        // plan, so smaller slabs are tried until everything fits.
        let room = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(fixed);
        let mut most = (room / (2 * BUFFERS)).min(MAX_SLAB);
        loop {
            // If one page of some array is larger than `most`, the others may use as much. A quarter of the limit is
            // left to others, unless no smaller plan fits.
            let (slab, out, total) = measure(measure(most).0);
            if total <= limit / 4 * 3 || most == 0 && total <= limit {
                (self.slab_bytes, self.out_bytes, self.memory) = (slab, out, total);
                return Ok(());
            }
            if most == 0 {
                return Err(FieldError::LimitTooSmall {
                    limit,
                    needs: total,
                    what: "converting a page at a time".into(),
                });
            }
            most = if most < 4096 { 0 } else { most / 4 * 3 };
        }
    }

    /// The first missing step of an array.
    pub fn first_step(&self, layout: &ArrayLayout) -> usize {
        self.base.map_or(0, |b| b.steps_of(layout))
    }

    /// Sum of `of` over all arrays, for their missing steps.
    fn sum(&self, of: impl Fn(&ArrayLayout) -> u64) -> u64 {
        let new = |a: &ArrayLayout| {
            let (all, new) = (a.steps.max(1) as u64, (a.steps - self.first_step(a)) as u64);
            of(a) / all * new
        };
        self.zones.iter().flat_map(|z| &z.arrays).map(new).fold(0, u64::saturating_add)
    }

    /// Pages of data to be written.
    pub fn pages(&self) -> u64 {
        self.sum(ArrayLayout::page_count)
    }

    /// Bytes to be read from the source, without the second reads of iblank and of slabs' edges.
    pub fn source_bytes(&self) -> u64 {
        self.sum(ArrayLayout::value_bytes)
    }

    /// Bytes of all pages, edge pages in full, before encoding.
    pub fn padded_bytes(&self) -> u64 {
        self.sum(|a| a.page_count().saturating_mul(a.page_bytes() as u64))
    }

    /// Bytes of frames when all pages are resident.
    pub fn resident_bytes(&self) -> u64 {
        self.sum(ArrayLayout::resident_bytes)
    }

    /// Page box (i, j, k) of each zone.
    pub fn page_boxes(&self) -> Vec<[usize; 3]> {
        self.zones.iter().map(|z| z.paging.page).collect()
    }

    /// The step of iblank for a step of the coordinates.
    pub fn iblank_step(&self, zone: usize, iblank: usize, step: usize) -> usize {
        step.min(self.zones[zone].arrays[iblank].steps - 1)
    }
}

/// Divides pages into pieces of as many pages along i, j, k as `fits` allows, at least one. Their order is that of the
/// pages' slots for any size, so the limit does not change the store.
pub(super) fn cut(pages: &[Range<usize>; 3], fits: impl Fn([usize; 3]) -> bool) -> Vec<ShardPiece> {
    let [ni, nj, nk] = [pages[0].len(), pages[1].len(), pages[2].len()];
    let largest = |n: usize, fits: &dyn Fn(usize) -> bool| (1..=n).take_while(|&n| fits(n)).last();
    let step = if let Some(n) = largest(nk, &|n| fits([ni, nj, n])) {
        [ni, nj, n]
    } else if let Some(n) = largest(nj, &|n| fits([ni, n, 1])) {
        [ni, n, 1]
    } else {
        [largest(ni, &|n| fits([n, 1, 1])).unwrap_or(1), 1, 1]
    };
    let parts = |a: usize| pages[a].clone().step_by(step[a]).map(move |n| n..(n + step[a]).min(pages[a].end));
    let mut out = Vec::new();
    for k in parts(2) {
        for j in parts(1) {
            out.extend(parts(0).map(|i| ShardPiece {
                unit: 0,
                pages: [i, j.clone(), k.clone()],
                first: false,
                last: false,
            }));
        }
    }
    out
}

/// Assigns the pieces to a unit.
pub(super) fn number(pieces: &mut [ShardPiece], unit: usize) {
    let last = pieces.len().saturating_sub(1);
    for (n, p) in pieces.iter_mut().enumerate() {
        p.unit = unit;
        p.first = n == 0;
        p.last = n == last;
    }
}
