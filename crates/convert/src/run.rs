//! A whole conversion, from the plan to the commit.

use crate::base::Base;
use crate::commit::{self, begin, finish, Begun};
use crate::disk::Disk;
use crate::input::ConvertInput;
use crate::memory::{within, ChargeMemory};
use crate::options::ConvertOptions;
use crate::pipeline::{self, Places};
use crate::plan::ConversionPlan;
use crate::report::{ConvertReport, PieceProgress};
use crate::{levels, uniform};
use field::error::FieldError;
use field::paging::Paging;
use std::any::Any;
use std::path::Path;

/// Converts `input` into a store at `dst`. `progress` is called often, on the calling thread, and returns whether to
/// continue. Finished units stay in `DST.partial` for `resume`.
///
/// # Errors
/// - [`FieldError::Io`] with "no space left on device" on a full disk.
/// - [`FieldError::Format`] if there is a store already, or another conversion into `dst` is running.
/// - [`FieldError::Format`] if the interrupted run had other options or another source, or if the source changes
///   meanwhile.
/// - [`FieldError::LimitTooSmall`], [`FieldError::Interrupted`], and errors of the source.
pub fn convert(
    input: &ConvertInput,
    dst: &Path,
    options: &ConvertOptions,
    charge: &ChargeMemory<'_>,
    progress: &mut dyn FnMut(PieceProgress) -> bool,
) -> Result<ConvertReport, FieldError> {
    run(input, dst, options, None, &Disk::default(), charge, progress)
}

/// Makes ranges and boxes of data that stay in place, in pages by `pages`. The result is a store without data at `dst`,
/// which [`field::store::Store::open`] opens. Continues an interrupted run and replaces an outdated index. If another
/// run makes the same index, it waits for that, and uses its result.
///
/// # Errors
/// As [`convert`].
pub fn build_index(
    input: &ConvertInput,
    pages: &[Paging],
    dst: &Path,
    memory_limit: u64,
    workers: usize,
    charge: &ChargeMemory<'_>,
    progress: &mut dyn FnMut(PieceProgress) -> bool,
) -> Result<ConvertReport, FieldError> {
    let options = ConvertOptions { resume: true, overwrite: true, memory_limit, workers, ..ConvertOptions::default() };
    run(input, dst, &options, Some(pages), &Disk::default(), charge, progress)
}

/// A plan with charged memory: others may use a part of the limit, so smaller plans are tried, too.
pub(crate) fn plan_within<'a>(
    input: &'a ConvertInput,
    dst: &Path,
    options: &ConvertOptions,
    pages: Option<&[Paging]>,
    base: Option<&'a Base>,
    charge: &ChargeMemory<'_>,
) -> Result<(ConversionPlan<'a>, Box<dyn Any>), FieldError> {
    within(options.memory_limit, charge, |limit| {
        let plan = ConversionPlan::new(input, dst, options, pages, base, limit)?;
        let memory = plan.memory;
        Ok((plan, memory))
    })
}

pub(crate) fn run(
    input: &ConvertInput,
    dst: &Path,
    options: &ConvertOptions,
    pages: Option<&[Paging]>,
    disk: &Disk,
    charge: &ChargeMemory<'_>,
    progress: &mut dyn FnMut(PieceProgress) -> bool,
) -> Result<ConvertReport, FieldError> {
    run_on(input, dst, options, pages, None, disk, charge, progress)
}

/// [`run`], or, with a base, for its missing steps.
#[allow(clippy::too_many_arguments)] // the state of a run
pub(crate) fn run_on(
    input: &ConvertInput,
    dst: &Path,
    options: &ConvertOptions,
    pages: Option<&[Paging]>,
    base: Option<&Base>,
    disk: &Disk,
    charge: &ChargeMemory<'_>,
    progress: &mut dyn FnMut(PieceProgress) -> bool,
) -> Result<ConvertReport, FieldError> {
    if input.arrays.len() != input.catalog.zones.len() {
        return Err(FieldError::Internal("zones and arrays differ in number"));
    }
    let (mut plan, _charged) = plan_within(input, dst, options, pages, base, charge)?;
    let total = plan.source_bytes();
    let mut report = ConvertReport {
        source_bytes: total,
        pages: plan.pages(),
        units: plan.units.len() as u64,
        memory: plan.memory,
        padded_bytes: plan.padded_bytes(),
        resident_bytes: plan.resident_bytes(),
        page_boxes: plan.page_boxes(),
        ..ConvertReport::default()
    };
    // The user does not see indexes: if two runs need the same one, the second waits for the first.
    let mut wait = || progress(PieceProgress { done: 0, total: 0 });
    let wait: Option<&mut dyn FnMut() -> bool> = if plan.data { None } else { Some(&mut wait) };
    let (partial, sources) = match begin(&plan, disk, dst, options, wait)? {
        Begun::Work(partial, sources) => (partial, sources),
        Begun::Done { bytes } => {
            report.store_bytes = bytes;
            report.resumed_units = report.units;
            progress(PieceProgress { done: total, total });
            return Ok(report);
        }
    };
    if base.is_none() {
        plan.look_for_uniform()?;
    }
    let (store, units) = (partial.store(), partial.units());
    let places = Places { store: &store, units: &units };
    let mut todo = Vec::new();
    let mut before = 0;
    for (n, unit) in plan.units.iter().enumerate() {
        if commit::is_done(&plan, &places, n) {
            report.resumed_units += 1;
            let layout = plan.layout(unit);
            let share: u64 = layout.grid.pages_of(unit.shard).iter().map(|r| r.len() as u64).product();
            before += (layout.value_bytes() / layout.page_count().max(1)).saturating_mul(share);
        } else {
            todo.push(n);
        }
    }
    let before = before.min(total);
    if !progress(PieceProgress { done: before, total }) {
        return Err(FieldError::Interrupted);
    }
    // Slabs overlap slightly, so more bytes are read than finished.
    let mut tell = |read: u64| progress(PieceProgress { done: (before + read).min(total), total });
    pipeline::run(&plan, disk, &places, &todo, &mut tell)?;
    let spans = &options.spans;
    let seals = spans.time("ranges and boxes", || levels::write_all(&plan, disk, &places, &mut || tell(total)))?;
    let uniform = match base {
        Some(base) => base.uniform(&plan.zones),
        None => uniform::confirmed(&plan, &places)?,
    };
    if let Some(base) = base {
        base.link(disk, &store, &mut || tell(total))?;
    }
    report.store_bytes = seals.iter().map(|s| s.bytes).sum();
    spans.time("commit", || finish(&plan, disk, dst, options, partial, &sources, seals, uniform))?;
    Ok(report)
}
