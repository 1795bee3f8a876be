//! A whole conversion, from the plan to the commit.

use crate::commit::{begin, finish, is_whole, Begun, StorePlan};
use crate::disk::Disk;
use crate::input::ConvertInput;
use crate::job::ConvertJob;
use crate::memory::ChargeMemory;
use crate::options::ConvertOptions;
use crate::pipeline::{self, Places};
use crate::plan::ConversionPlan;
use crate::report::{ConvertReport, PieceProgress};
use crate::spans::Spans;
use crate::zone_store::SealedZones;
use crate::{levels, uniform};
use field::error::FieldError;
use field::paging::Paging;
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
    run(&ConvertJob::new(input, dst, options), &Disk::default(), charge, progress)
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
    let job = ConvertJob { pages: Some(pages), ..ConvertJob::new(input, dst, &options) };
    run(&job, &Disk::default(), charge, progress)
}

/// As [`convert`], on any disk.
pub(crate) fn run(
    job: &ConvertJob<'_>,
    disk: &Disk,
    charge: &ChargeMemory<'_>,
    progress: &mut dyn FnMut(PieceProgress) -> bool,
) -> Result<ConvertReport, FieldError> {
    if job.input.arrays.len() != job.input.catalog.zones.len() {
        return Err(FieldError::Internal("zones and arrays differ in number"));
    }
    let (mut plan, _charged) = ConversionPlan::within(job, charge)?;
    let made = make_store(&mut plan, disk, job.dst, progress)?;
    Ok(ConvertReport {
        source_bytes: plan.source_bytes(),
        store_bytes: made.store_bytes,
        pages: plan.pages(),
        resumed_units: made.resumed_units,
        units: plan.units.len() as u64,
        memory: plan.memory,
        padded_bytes: plan.padded_bytes(),
        resident_bytes: plan.resident_bytes(),
        page_boxes: plan.page_boxes(),
    })
}

/// The work of a plan, from the first unit to the seals.
pub(crate) trait StoreWork: StorePlan {
    /// Units in all.
    fn unit_count(&self) -> usize;
    /// Bytes of values that pass through the conversion.
    fn total_bytes(&self) -> u64;
    /// Receives the threads' spans of work.
    fn spans(&self) -> &Spans;
    /// Converts the unfinished units, then writes ranges and boxes. `progress` gets the finished bytes and returns
    /// whether to continue.
    fn work(
        &mut self,
        disk: &Disk,
        places: &Places<'_>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<WorkDone<Self::Sealed>, FieldError>;
}

/// The result of the work.
pub(crate) struct WorkDone<S> {
    pub sealed: S,
    /// Bytes of all shards.
    pub store_bytes: u64,
    /// Units finished by an earlier run.
    pub resumed_units: usize,
}

/// A store that was made, or existed already.
pub(crate) struct StoreMade {
    /// Bytes of its shards.
    pub store_bytes: u64,
    /// Units finished by an earlier run.
    pub resumed_units: u64,
}

/// A whole conversion of any kind of data: begins or resumes, works, commits.
pub(crate) fn make_store<P: StoreWork>(
    plan: &mut P,
    disk: &Disk,
    dst: &Path,
    progress: &mut dyn FnMut(PieceProgress) -> bool,
) -> Result<StoreMade, FieldError> {
    let total = plan.total_bytes();
    let mut wait = || progress(PieceProgress { done: 0, total: 0 });
    let (partial, source) = match begin(plan, disk, dst, &mut wait)? {
        Begun::Work(partial, source) => (partial, source),
        Begun::Done { bytes } => {
            progress(PieceProgress { done: total, total });
            return Ok(StoreMade { store_bytes: bytes, resumed_units: plan.unit_count() as u64 });
        }
    };
    let (store, units) = (partial.store(), partial.units());
    let places = Places { store: &store, units: &units };
    let mut tell = |done: u64| progress(PieceProgress { done: done.min(total), total });
    let done = plan.work(disk, &places, &mut tell)?;
    let (spans, mut go_on) = (plan.spans(), || tell(total));
    spans.time("commit", || finish(plan, disk, dst, partial, &source, done.sealed, &mut go_on))?;
    Ok(StoreMade { store_bytes: done.store_bytes, resumed_units: done.resumed_units as u64 })
}

impl StoreWork for ConversionPlan<'_> {
    fn unit_count(&self) -> usize {
        self.units.len()
    }

    fn total_bytes(&self) -> u64 {
        self.source_bytes()
    }

    fn spans(&self) -> &Spans {
        &self.options.spans
    }

    fn work(
        &mut self,
        disk: &Disk,
        places: &Places<'_>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<WorkDone<SealedZones>, FieldError> {
        let total = self.source_bytes();
        if self.base.is_none() {
            self.look_for_uniform()?;
        }
        let plan = &*self;
        let mut todo = Vec::new();
        let mut before = 0;
        for (n, unit) in plan.units.iter().enumerate() {
            if is_whole(plan, places, n, plan.record_sizes(unit)) {
                let layout = plan.layout(unit);
                let share: u64 = layout.grid.pages_of(unit.shard).iter().map(|r| r.len() as u64).product();
                before += (layout.value_bytes() / layout.page_count().max(1)).saturating_mul(share);
            } else {
                todo.push(n);
            }
        }
        let before = before.min(total);
        if !progress(before) {
            return Err(FieldError::Interrupted);
        }
        // Slabs overlap slightly, so more bytes are read than finished.
        pipeline::run(plan, disk, places, &todo, &mut |read| progress(before + read))?;
        let mut go_on = || progress(total);
        let write_all = || levels::write_all(plan, disk, places, &mut go_on);
        let seals = plan.options.spans.time("ranges and boxes", write_all)?;
        let uniform = match plan.base {
            Some(base) => base.uniform(&plan.zones),
            None => uniform::confirmed(plan, places)?,
        };
        if let Some(base) = plan.base {
            base.link(disk, places.store, &mut go_on)?;
        }
        let store_bytes = seals.iter().map(|s| s.bytes).sum();
        let resumed_units = plan.units.len() - todo.len();
        Ok(WorkDone { sealed: SealedZones { seals, uniform }, store_bytes, resumed_units })
    }
}
