//! A whole conversion of a volume, from the plan to the commit.

use super::commit::{begin, finish, write_ranges, Begun};
use super::estimate;
use super::options::VolumeOptions;
use super::piece::VolumeJob;
use super::plan::VolumePlan;
use super::report::VolumeReport;
use super::rows::VolumeInput;
use super::spool::Spool;
use crate::commit::is_whole;
use crate::disk::Disk;
use crate::memory::{within, ChargeMemory};
use crate::pipeline::{self, Places};
use crate::report::PieceProgress;
use field::error::FieldError;
use std::any::Any;
use std::path::Path;

/// Converts `input` into a store at `dst`. `charge` is called for memory before its use. `progress` is called often, on
/// the calling thread, and returns whether to continue.
///
/// # Errors
/// As [`crate::convert`].
pub fn convert(
    input: &VolumeInput,
    dst: &Path,
    options: &VolumeOptions,
    charge: &ChargeMemory<'_>,
    progress: &mut dyn FnMut(PieceProgress) -> bool,
) -> Result<VolumeReport, FieldError> {
    run(input, dst, options, &Disk::default(), charge, progress)
}

/// A plan with charged memory: others may use a part of the limit, so smaller plans are tried, too.
fn plan_within<'a>(
    input: &'a VolumeInput,
    dst: &Path,
    options: &VolumeOptions,
    charge: &ChargeMemory<'_>,
) -> Result<(VolumePlan<'a>, Box<dyn Any>), FieldError> {
    within(options.memory_limit, charge, |limit| {
        let plan = VolumePlan::new(input, dst, options, limit)?;
        let memory = plan.memory;
        Ok((plan, memory))
    })
}

pub(super) fn run(
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

/// The unfinished units of each level of a step. If a level's file is missing or incomplete, the whole level before is
/// done again, which makes the file.
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

/// Reports the work of [`convert`].
///
/// # Errors
/// As [`convert`], for the source and the limit.
pub fn dry_run(
    input: &VolumeInput,
    dst: &Path,
    options: &VolumeOptions,
    charge: &ChargeMemory<'_>,
) -> Result<VolumeReport, FieldError> {
    let (plan, _charged) = plan_within(input, dst, options, charge)?;
    estimate::estimate(&plan)
}
