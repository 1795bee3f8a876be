//! The work of a conversion of a volume: units (one shard each), step by step and level by level, and the memory for
//! them.

use super::options::VolumeOptions;
use super::rows::VolumeInput;
use crate::plan::{cut, number, ShardPiece, BUFFERS, CONTEXT, MAX_SLAB, READ_BYTES, RECORDS};
use field::error::FieldError;
use field::paging::choose;
use field::store::codec::{Codec, CRC_BYTES};
use field::volume::store::{grouped, kept, pyramid, Downsample, VolumeLayout, VolumeRoot};
use field::volume::Missing;
use std::ops::Range;
use std::path::Path;

/// Most units that are listed: more than any disk has files.
const MOST_UNITS: u64 = 1 << 31;
/// Bytes for examining a file again: twice its name, and the system's data.
const FILE_BYTES: usize = 1024;
/// Bytes of a unit in the list of work.
const UNIT_BYTES: usize = 16;

/// One shard of one level at one step.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct LevelUnit {
    pub step: usize,
    pub level: usize,
    pub group: usize,
    pub shard: u64,
}

pub(super) struct VolumePlan<'a> {
    pub input: &'a VolumeInput,
    pub options: VolumeOptions,
    /// The root as written, without the data known at the end.
    pub root: VolumeRoot,
    pub layout: VolumeLayout,
    /// Number of the first unit of each level at a step, and of the first of the next step.
    first: Vec<usize>,
    /// Bytes of a slab buffer, of an output buffer, of the part of the next level, and in all.
    pub slab_bytes: usize,
    pub out_bytes: usize,
    pub aside_bytes: usize,
    pub memory: u64,
    pub workers: usize,
}

impl<'a> VolumePlan<'a> {
    /// Plans a conversion within `limit` bytes.
    pub fn new(input: &'a VolumeInput, dst: &Path, options: &VolumeOptions, limit: u64) -> Result<Self, FieldError> {
        let about = kept(&input.spec)?;
        let Some(level) = about.levels.first() else {
            return Err(FieldError::Usage(format!("{}: no level says how large the volume is", input.spec.path)));
        };
        let downsample = options.downsample.unwrap_or(Downsample::of(about.kind));
        if options.levels == Some(0) {
            return Err(FieldError::Usage(
                "a volume has at least one level; ask for 1 or more, or leave it out".into(),
            ));
        }
        let dims = level.dims.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let (_, components) = grouped(about.kind, about.channels.len());
        let voxel_bytes = components * input.voxel.size();
        let choose = |dims| choose(dims, options.page, options.layout, voxel_bytes).page;
        let root = VolumeRoot {
            page: options.page,
            layout: options.layout,
            codec: options.codec,
            downsample,
            voxel: input.voxel,
            pages: pyramid(dims, level.spacing, options.levels).iter().map(|l| choose(l.dims)).collect(),
            about,
            source: String::new(),
            seen: Vec::new(),
            documents: Vec::new(),
            seals: Vec::new(),
        };
        // A misfit is the source's fault: the store's layout follows from it.
        let layout = VolumeLayout::new(dst, &root)?;
        let mut first = vec![0u64];
        for level in &layout.levels {
            first.push(first[first.len() - 1].saturating_add(layout.groups as u64 * level.grid.count()));
        }
        let units = first[first.len() - 1].saturating_mul(layout.steps as u64);
        if units > MOST_UNITS {
            return Err(FieldError::format(dst, format!("{units} files would be too many; choose larger pages")));
        }
        let mut plan = Self {
            input,
            options: options.clone(),
            root,
            layout,
            first: first.into_iter().map(|n| n as usize).collect(),
            slab_bytes: 0,
            out_bytes: 0,
            aside_bytes: 0,
            memory: 0,
            workers: options.workers.clamp(1, 64),
        };
        plan.find_memory(limit)?;
        Ok(plan)
    }

    /// Units of a step.
    pub fn per_step(&self) -> usize {
        self.first[self.first.len() - 1]
    }

    /// Units of a level at a step.
    pub fn units_of(&self, step: usize, level: usize) -> Range<usize> {
        let from = step * self.per_step();
        from + self.first[level]..from + self.first[level + 1]
    }

    /// Units in all.
    pub fn unit_count(&self) -> usize {
        self.layout.steps * self.per_step()
    }

    pub fn unit(&self, number: usize) -> LevelUnit {
        let (step, rest) = (number / self.per_step(), number % self.per_step());
        let level = self.first.partition_point(|&first| first <= rest) - 1;
        let count = self.layout.levels[level].grid.count();
        let rest = (rest - self.first[level]) as u64;
        LevelUnit { step, level, group: (rest / count) as usize, shard: rest % count }
    }

    /// Numbers of the units of a group at a level and step, in the order of shards.
    pub fn units_of_group(&self, step: usize, level: usize, group: usize) -> Range<usize> {
        let units = self.units_of(step, level);
        let each = units.len() / self.layout.groups;
        units.start + group * each..units.start + (group + 1) * each
    }

    /// The voxels for a box of pages: its own and, where the level continues, one more column, row and plane. These
    /// belong to cells with low corners in the box, and to voxels of the next level.
    pub fn slab(&self, level: usize, pages: &[Range<usize>; 3]) -> [Range<usize>; 3] {
        let p = &self.layout.levels[level].grid.paging;
        std::array::from_fn(|a| pages[a].start * p.page[a]..(pages[a].end * p.page[a] + 1).min(p.dims[a]))
    }

    /// Bytes of that slab.
    pub fn slab_size(&self, level: usize, pages: &[Range<usize>; 3]) -> usize {
        self.slab(level, pages).iter().map(ExactSizeIterator::len).product::<usize>() * self.layout.voxel_bytes()
    }

    /// The voxels of the next level that a box of pages makes.
    pub fn coarse(&self, level: usize, pages: &[Range<usize>; 3]) -> Option<[Range<usize>; 3]> {
        let (own, next) = (&self.layout.levels[level], self.layout.levels.get(level + 1)?);
        let step = own.shape.step_to(&next.shape);
        let p = &own.grid.paging;
        Some(std::array::from_fn(|a| {
            let points = pages[a].start * p.page[a]..(pages[a].end * p.page[a]).min(p.dims[a]);
            points.start.div_ceil(step[a])..points.end.div_ceil(step[a])
        }))
    }

    /// The numbers of missing values in a group, if all its channels have the same.
    pub fn missing(&self, group: usize) -> &Missing {
        const NONE: &Missing = &Missing::none();
        let channels = &self.root.about.channels;
        let of = |n: usize| channels.get(group * self.layout.components + n).map_or(NONE, |c| &c.missing);
        let first = of(0);
        if (1..self.layout.components).all(|n| of(n) == first) {
            first
        } else {
            NONE
        }
    }

    /// The pieces of a unit.
    pub fn pieces(&self, number_of: usize) -> Vec<ShardPiece> {
        let unit = self.unit(number_of);
        let pages = self.layout.levels[unit.level].grid.pages_of(unit.shard);
        let mut out = self.split(unit.level, &pages, self.slab_bytes);
        number(&mut out, number_of);
        out
    }

    /// [`cut`] for slabs of at most `most` bytes.
    fn split(&self, level: usize, pages: &[Range<usize>; 3], most: usize) -> Vec<ShardPiece> {
        cut(pages, |n| self.slab_size(level, &n.map(|n| 0..n)) <= most)
    }

    /// Numbers in a unit's record: lowest and highest of each component of each page.
    pub fn record_sizes(&self, unit: &LevelUnit) -> (usize, usize) {
        let pages = self.layout.levels[unit.level].grid.pages_of(unit.shard);
        (pages.iter().map(ExactSizeIterator::len).product::<usize>() * 2 * self.layout.components, 0)
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
        let (components, size) = (self.layout.components, self.layout.voxel.size());
        let mut kinds = Vec::new();
        let mut fixed = 0;
        for (n, level) in self.layout.levels.iter().enumerate() {
            let grid = &level.grid;
            let record = grid.slots() * 2 * components * 8;
            // Lowest, highest and sums of a row of voxels; a row of limits and the one joined with it.
            let row = grid.paging.dims[0] * components * (2 * size + 16) + grid.paging.pages[0] * components * 4 * 8;
            let scratch = 2 * self.layout.page_bytes(n) + row + context;
            fixed = fixed.max(RECORDS * record + self.workers * scratch + READ_BYTES);
            // Shards at the level's ends are smaller, so their pieces may have another shape.
            let [ni, nj, nk] = grid.shards;
            for corner in 0..8 {
                let at = [(corner & 1) * (ni - 1), (corner >> 1 & 1) * (nj - 1), (corner >> 2) * (nk - 1)];
                kinds.push((n, grid.pages_of(((at[2] * nj + at[1]) * ni + at[0]) as u64)));
            }
            kinds.dedup();
        }
        fixed += self.unit_count() * UNIT_BYTES + self.input.files.len() * FILE_BYTES;
        let measure = |most: usize| {
            let (mut slab, mut out, mut aside) = (0, 0, 0);
            for (level, pages) in &kinds {
                for piece in self.split(*level, pages, most) {
                    let count: usize = piece.pages.iter().map(ExactSizeIterator::len).product();
                    slab = slab.max(self.slab_size(*level, &piece.pages));
                    out = out.max(count * self.options.codec.max_encoded(self.layout.page_bytes(*level)));
                    let coarse = self.coarse(*level, &piece.pages);
                    let coarse = coarse.map_or(0, |c| c.iter().map(ExactSizeIterator::len).product());
                    aside = aside.max(coarse * self.layout.voxel_bytes());
                }
            }
            (slab, out, aside, (BUFFERS * (slab + out + aside) + fixed) as u64)
        };
        // As for grids, buffers for reading and for writing share the rest. A quarter of the limit is left to others
        // unless no smaller plan fits.
        let room = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(fixed);
        let mut most = (room / (2 * BUFFERS)).min(MAX_SLAB);
        loop {
            let (slab, out, aside, total) = measure(measure(most).0);
            if total <= limit / 4 * 3 || most == 0 && total <= limit {
                (self.slab_bytes, self.out_bytes, self.aside_bytes, self.memory) = (slab, out, aside, total);
                return Ok(());
            }
            if most == 0 {
                let what = "converting a page at a time".into();
                return Err(FieldError::LimitTooSmall { limit, needs: total, what });
            }
            most = if most < 4096 { 0 } else { most / 4 * 3 };
        }
    }

    /// Bytes of all levels' values, which pass through the conversion.
    pub fn value_bytes(&self) -> u64 {
        (0..self.layout.levels.len()).map(|n| self.layout.value_bytes(n)).fold(0, u64::saturating_add)
    }

    /// Bytes of all pages, edge pages in full, before encoding.
    pub fn padded_bytes(&self) -> u64 {
        let of = |n: usize| self.layout.page_count(n).saturating_mul(self.layout.page_bytes(n) as u64);
        (0..self.layout.levels.len()).map(of).fold(0, u64::saturating_add)
    }

    /// Pages of all levels.
    pub fn pages(&self) -> u64 {
        (0..self.layout.levels.len()).map(|n| self.layout.page_count(n)).sum()
    }

    /// Most bytes of the files of waiting levels.
    pub fn spool_bytes(&self) -> u64 {
        let steps = self.layout.steps.max(1) as u64;
        let of = |n: usize| self.layout.levels.get(n).map_or(0, |_| self.layout.value_bytes(n) / steps);
        (1..self.layout.levels.len()).map(|n| of(n) + of(n + 1)).max().unwrap_or(0)
    }

    /// Bytes on the disk during the conversion, if known beforehand.
    pub fn needs(&self) -> Option<u64> {
        let crcs = self.pages().saturating_mul(CRC_BYTES as u64);
        let known = self.options.codec == Codec::None;
        known.then(|| self.padded_bytes().saturating_add(crcs).saturating_add(self.spool_bytes()))
    }
}
