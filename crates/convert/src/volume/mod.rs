//! Converts any volume into Farfield's store, a pyramid as OME-NGFF 0.5 has it: in bounded memory, with one pass over the source, so
//! that it can be killed at any moment.
//!
//! # Theory
//! A *unit* is one shard of one level. Its slab has one more column, row and plane than its pages where the level goes on: the ranges of
//! pages need them, and so do the voxels of the next level whose parts lie on both sides of the unit's edge. So a unit makes the part of
//! the next level that begins in it, whatever the page edges are; it goes to a file as raw voxels, from which that level's own units are
//! read when all of them are there. The source is read once (but for those edges), and the files are an eighth of it, and an eighth
//! of that.
//!
//! What is said of grids ([`super`]) holds here, too: bytes follow from the input and the options alone; a unit counts as done when its
//! record is whole, which is written after its shard *and what it left for the next level* are durable; the root is written last.
//! Levels of one step come before the next step, and a level's file goes when all units read from it are done; if one is missed
//! later, what it was made of is made again.
//!
//! # Practice
//! [`convert`] does all that for a [`VolumeInput`], [`dry_run`] says what it would cost.

mod commit;
mod downsample;
mod estimate;
pub mod number;
mod piece;
mod plan;
mod rows;
mod spool;
#[cfg(test)]
mod tests;

pub use rows::{VolumeInput, VoxelRows};

use super::commit::is_whole;
use super::disk::Disk;
use super::pipeline::{self, Places};
use super::{ChargeMemory, PieceProgress, Spans};
use commit::{begin, finish, write_ranges, Begun};
use field::error::FieldError;
use field::paging::Layout;
use field::store::codec::Codec;
use field::volume::store::Downsample;
use piece::VolumeJob;
use plan::VolumePlan;
use spool::Spool;
use std::any::Any;
use std::path::Path;

/// How a volume is converted.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeOptions {
    /// Asked page edge, 32 unless the user says otherwise.
    pub page: usize,
    /// Shape of pages.
    pub layout: Layout,
    /// How pages are encoded.
    pub codec: Codec,
    /// How levels are made; what suits the kind of volume where nothing is said.
    pub downsample: Option<Downsample>,
    /// Levels at most; down to where the longest side has at most 64 voxels where nothing is said.
    pub levels: Option<usize>,
    /// Goes on with what an interrupted conversion left.
    pub resume: bool,
    /// Replaces a store that is there.
    pub overwrite: bool,
    /// Bytes that the conversion may hold.
    pub memory_limit: u64,
    /// Threads that encode.
    pub workers: usize,
    /// Who is told what the threads do.
    pub spans: Spans,
}

impl Default for VolumeOptions {
    fn default() -> Self {
        Self {
            page: 32,
            layout: Layout::Cubed,
            codec: Codec::None,
            downsample: None,
            levels: None,
            resume: false,
            overwrite: false,
            memory_limit: 64 << 20,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            spans: Spans::default(),
        }
    }
}

/// One level as it is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LevelReport {
    /// Voxels along i, j, k.
    pub dims: [usize; 3],
    /// Voxels of a page along i, j, k.
    pub page: [usize; 3],
    /// Pages of all steps and channels.
    pub pages: u64,
    /// Shards of all steps and channels.
    pub shards: u64,
}

/// What was done, or what would be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VolumeReport {
    /// Bytes of the finest level's values.
    pub source_bytes: u64,
    /// Bytes of the store's shards; of a dry run, of all of it, exact with codec none but for ranges, else by a sample.
    pub store_bytes: u64,
    /// Units that an earlier run had finished.
    pub resumed_units: u64,
    /// Units in all: shards of all levels.
    pub units: u64,
    /// Bytes that were charged.
    pub memory: u64,
    /// Bytes of all pages, edge pages in full, before encoding.
    pub padded_bytes: u64,
    /// Bytes of values of all levels.
    pub value_bytes: u64,
    /// Bytes of files in which levels wait to be written, at most; gone at the end.
    pub spool_bytes: u64,
    /// Levels, finest first.
    pub levels: Vec<LevelReport>,
    /// Seconds that it may take; of a dry run only.
    pub seconds: Option<f64>,
}

impl VolumeReport {
    fn of(plan: &VolumePlan<'_>) -> Self {
        let level = |n: usize| {
            let grid = &plan.layout.levels[n].grid;
            let (pages, shards) = (plan.layout.page_count(n), plan.layout.shard_count(n));
            LevelReport { dims: grid.paging.dims, page: grid.paging.page, pages, shards }
        };
        Self {
            source_bytes: plan.layout.value_bytes(0),
            units: plan.unit_count() as u64,
            memory: plan.memory,
            padded_bytes: plan.padded_bytes(),
            value_bytes: plan.value_bytes(),
            spool_bytes: plan.spool_bytes(),
            levels: (0..plan.layout.levels.len()).map(level).collect(),
            ..Self::default()
        }
    }
}

/// Converts `input` into a store at `dst`. `charge` is asked for memory before it is used; `progress` is called often, on the calling
/// thread, and answers whether to go on.
///
/// # Errors
/// As [`super::convert`].
pub fn convert(
    input: &VolumeInput,
    dst: &Path,
    options: &VolumeOptions,
    charge: &ChargeMemory<'_>,
    progress: &mut dyn FnMut(PieceProgress) -> bool,
) -> Result<VolumeReport, FieldError> {
    run(input, dst, options, &Disk::default(), charge, progress)
}

/// A plan whose memory could be charged: others may hold some of the limit, so smaller plans are tried, too.
fn plan_within<'a>(
    input: &'a VolumeInput,
    dst: &Path,
    options: &VolumeOptions,
    charge: &ChargeMemory<'_>,
) -> Result<(VolumePlan<'a>, Box<dyn Any>), FieldError> {
    super::within(options.memory_limit, charge, |limit| {
        let plan = VolumePlan::new(input, dst, options, limit)?;
        let memory = plan.memory;
        Ok((plan, memory))
    })
}

fn run(
    input: &VolumeInput,
    dst: &Path,
    options: &VolumeOptions,
    disk: &Disk,
    charge: &ChargeMemory<'_>,
    progress: &mut dyn FnMut(PieceProgress) -> bool,
) -> Result<VolumeReport, FieldError> {
    let (plan, _charged) = plan_within(input, dst, options, charge)?;
    let total = plan.value_bytes();
    let mut report = VolumeReport::of(&plan);
    let mut wait = || progress(PieceProgress { done: 0, total: 0 });
    let (partial, made) = match begin(&plan, disk, dst, &mut wait)? {
        Begun::Work(partial, made) => (partial, made),
        Begun::Done { bytes } => {
            (report.store_bytes, report.resumed_units) = (bytes, report.units);
            progress(PieceProgress { done: total, total });
            return Ok(report);
        }
    };
    let (store, units) = (partial.store(), partial.units());
    let places = Places { store: &store, units: &units };
    let job = VolumeJob { plan: &plan, spool: Spool::new(&plan, &units) };
    let mut done = 0;
    for step in 0..plan.layout.steps {
        let todo = left_to_do(&job, &places, step);
        let left: usize = todo.iter().map(Vec::len).sum();
        report.resumed_units += (plan.per_step() - left) as u64;
        for (level, todo) in todo.iter().enumerate() {
            let of_level = plan.layout.value_bytes(level) / plan.layout.steps as u64;
            let all = plan.units_of(step, level).len() as u64;
            let before = done + of_level / all.max(1) * (all - todo.len() as u64);
            if !progress(PieceProgress { done: before.min(total), total }) {
                return Err(FieldError::Interrupted);
            }
            let further = level + 1 < plan.layout.levels.len();
            if !todo.is_empty() {
                if further {
                    job.spool.make(disk, step, level + 1)?;
                }
                let mut tell = |read: u64| progress(PieceProgress { done: (before + read).min(total), total });
                pipeline::run(&job, disk, &places, todo, &mut tell)?;
            }
            if level > 0 {
                job.spool.remove(disk, step, level)?;
            }
            done += of_level;
        }
    }
    let mut tell = || progress(PieceProgress { done: total, total });
    let sealed = options.spans.time("ranges", || write_ranges(&plan, disk, &places, &mut tell))?;
    report.store_bytes = sealed.bytes();
    options.spans.time("commit", || finish(&plan, disk, dst, partial, &made, sealed, &mut tell))?;
    Ok(report)
}

/// The units of each level of a step that are not done. Where a level is to be read from a file that is not there, or not whole, all of
/// the level before is done again, which makes it.
fn left_to_do(job: &VolumeJob<'_>, places: &Places<'_>, step: usize) -> Vec<Vec<usize>> {
    let plan = job.plan;
    let missed = |n: &usize| !is_whole(job, places, *n, plan.record_sizes(&plan.unit(*n)));
    let levels = plan.layout.levels.len();
    let mut todo: Vec<Vec<usize>> = (0..levels).map(|n| plan.units_of(step, n).filter(missed).collect()).collect();
    for level in (1..levels).rev() {
        if !todo[level].is_empty() && !job.spool.is_there(step, level) {
            todo[level - 1] = plan.units_of(step, level - 1).collect();
        }
    }
    todo
}

/// Says what [`convert`] would do.
///
/// # Errors
/// As [`convert`], as far as the source and the limit go.
pub fn dry_run(
    input: &VolumeInput,
    dst: &Path,
    options: &VolumeOptions,
    charge: &ChargeMemory<'_>,
) -> Result<VolumeReport, FieldError> {
    let (plan, _charged) = plan_within(input, dst, options, charge)?;
    estimate::estimate(&plan)
}
