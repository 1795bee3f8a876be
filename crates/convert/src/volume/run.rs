//! A whole conversion of a volume, from the plan to the commit.

use super::estimate;
use super::options::VolumeOptions;
use super::piece::VolumeJob;
use super::plan::VolumePlan;
use super::report::VolumeReport;
use super::rows::VolumeInput;
use super::spool::Spool;
use super::store::{write_ranges, SealedVolume};
use crate::commit::is_whole;
use crate::disk::Disk;
use crate::memory::{within, ChargeMemory};
use crate::pipeline::{self, Places};
use crate::report::PieceProgress;
use crate::run::{make_store, StoreMade, StoreWork, WorkDone};
use crate::spans::Spans;
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
    let (mut plan, _charged) = plan_within(input, dst, options, charge)?;
    let StoreMade { store_bytes, resumed_units } = make_store(&mut plan, disk, dst, progress)?;
    Ok(VolumeReport { store_bytes, resumed_units, ..VolumeReport::of(&plan) })
}

impl StoreWork for VolumePlan<'_> {
    fn unit_count(&self) -> usize {
        VolumePlan::unit_count(self)
    }

    fn total_bytes(&self) -> u64 {
        self.value_bytes()
    }

    fn spans(&self) -> &Spans {
        &self.options.spans
    }

    fn work(
        &mut self,
        disk: &Disk,
        places: &Places<'_>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<WorkDone<SealedVolume>, FieldError> {
        let plan = &*self;
        let job = VolumeJob { plan, spool: Spool::new(plan, places.units) };
        let (mut done, mut resumed_units) = (0, 0);
        for step in 0..plan.layout.steps {
            let todo = left_to_do(&job, places, step);
            resumed_units += plan.per_step() - todo.iter().map(Vec::len).sum::<usize>();
            for (level, todo) in todo.iter().enumerate() {
                let of_level = plan.layout.value_bytes(level) / plan.layout.steps as u64;
                let all = plan.units_of(step, level).len() as u64;
                let before = done + of_level / all.max(1) * (all - todo.len() as u64);
                if !progress(before) {
                    return Err(FieldError::Interrupted);
                }
                if !todo.is_empty() {
                    if level + 1 < plan.layout.levels.len() {
                        job.spool.make(disk, step, level + 1)?;
                    }
                    pipeline::run(&job, disk, places, todo, &mut |read| progress(before + read))?;
                }
                if level > 0 {
                    job.spool.remove(disk, step, level)?;
                }
                done += of_level;
            }
        }
        let mut go_on = || progress(plan.value_bytes());
        let sealed = plan.options.spans.time("ranges", || write_ranges(plan, disk, places, &mut go_on))?;
        Ok(WorkDone { store_bytes: sealed.bytes(), sealed, resumed_units })
    }
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
