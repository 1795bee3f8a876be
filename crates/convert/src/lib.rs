//! Converts any dataset into Farfield's store, in bounded memory, so that it can be killed at any moment.
//!
//! # Theory
//! A *unit* is one shard. Units are independent and their bytes follow from the input and the options alone, whatever
//! the memory limit, the number of workers, or how often the work was interrupted. Everything happens in a folder
//! `DST.partial` beside the target, under a lock. A unit counts as done when its record is whole, and the record is written
//! after its shard is durable. When all units are done, ranges and boxes are gathered, everything is made durable, the
//! root document is written and made durable, and the finished folder takes the target's name in one step. So there is
//! never a store that reads wrong: at any moment there is the old one, none, or the new one.
//!
//! # Practice
//! [`convert`] does all that, [`dry_run`] says what it would cost, [`build_index`] makes only ranges and boxes, for data
//! that is paged where it lies.

mod aligned;
mod append;
pub mod check;
pub mod commit;
pub mod disk;
mod estimate;
pub mod grid;
mod levels;
mod piece;
mod pipeline;
mod plan;
mod record;
mod shard;
mod slab;
#[cfg(test)]
mod tests;
mod uniform;
pub mod volume;

pub use append::{append, AppendReport, AskedPages};
pub use estimate::{dry_run, DryRun};

use append::Base;
use commit::{begin, finish, Begun};
use disk::Disk;
use field::catalog::{Catalog, RowReader};
use field::error::FieldError;
use field::paging::{Layout, Paging};
use field::series::SeriesFiles;
use field::store::codec::Codec;
use pipeline::Places;
use plan::ConversionPlan;
use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One array to convert.
#[derive(Clone)]
pub struct ArraySource {
    /// Where its rows come from.
    pub rows: Arc<dyn RowReader>,
    /// Steps that it has: 1 (steady), or those of the dataset.
    pub steps: usize,
}

/// What is converted.
#[derive(Clone)]
pub struct ConvertInput {
    /// What it holds.
    pub catalog: Catalog,
    /// The arrays of each zone, in catalog order.
    pub arrays: Vec<Vec<ArraySource>>,
    /// The files it comes from: if one of them changes, nothing half done is used.
    pub files: Vec<PathBuf>,
    /// Which of them, as their user named them, are whose step's; empty for what is no series of files.
    pub series: SeriesFiles,
    /// What arrays are computed, and how; empty where all are those of the source.
    pub made: String,
}

impl ConvertInput {
    /// What was read of it so far: bytes, and reads.
    pub fn read(&self) -> [u64; 2] {
        let each = self.arrays.iter().flatten().map(|a| a.rows.tally().get());
        each.fold([0; 2], |sum, n| [sum[0] + n[0], sum[1] + n[1]])
    }
}

/// How it is converted.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvertOptions {
    /// Asked page edge, 16 unless the user says otherwise.
    pub page: usize,
    /// Shape of pages.
    pub layout: Layout,
    /// How pages are encoded.
    pub codec: Codec,
    /// Goes on with what an interrupted conversion left.
    pub resume: bool,
    /// Replaces a store that is there.
    pub overwrite: bool,
    /// Whether steps may come meanwhile: what an interrupted run left of fewer steps is begun anew without asking.
    pub append: bool,
    /// Bytes that the conversion may hold.
    pub memory_limit: u64,
    /// Threads that encode.
    pub workers: usize,
    /// Who is told what the threads do.
    pub spans: Spans,
}

/// Gets a name, a beginning and a duration for whatever a thread of the conversion did.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<SpanTold>>);

type SpanTold = dyn Fn(&'static str, Duration) + Send + Sync;

impl Spans {
    /// Tells `told`, on any thread.
    pub fn new(told: impl Fn(&'static str, Duration) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(told)))
    }

    fn time<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let Some(told) = &self.0 else { return work() };
        let begun = Instant::now();
        let done = work();
        told(name, begun.elapsed());
        done
    }
}

impl std::fmt::Debug for Spans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Spans(told)" } else { "Spans(nobody)" })
    }
}

impl PartialEq for Spans {
    /// Who watches does not change what is made.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Default for ConvertOptions {
    fn default() -> Self {
        Self {
            page: 16,
            layout: Layout::Cubed,
            codec: Codec::None,
            resume: false,
            overwrite: false,
            append: false,
            memory_limit: 256 << 20,
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            spans: Spans::default(),
        }
    }
}

/// How far it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PieceProgress {
    /// Bytes of the source that are converted.
    pub done: u64,
    /// Bytes of the source in all; 0 while it waits for another run that makes the same.
    pub total: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConvertReport {
    /// Bytes of the source's values.
    pub source_bytes: u64,
    /// Bytes of the store's shards.
    pub store_bytes: u64,
    /// Pages of the data.
    pub pages: u64,
    /// Units that an earlier run had finished.
    pub resumed_units: u64,
    /// Units in all: shards of the data.
    pub units: u64,
    /// Bytes that were charged.
    pub memory: u64,
    /// Bytes of all pages, edge pages in full, before encoding.
    pub padded_bytes: u64,
    /// Bytes of frames when all pages are resident.
    pub resident_bytes: u64,
    /// Page box (i, j, k) of each zone.
    pub page_boxes: Vec<[usize; 3]>,
}

/// Charges memory to the ledger before it is used; what it answers gives it back when dropped. The error says what
/// limit would do.
pub type ChargeMemory<'a> = dyn Fn(u64) -> Result<Box<dyn Any>, FieldError> + 'a;

/// Converts `input` into a store at `dst`. `progress` is called often, on the calling thread, and answers whether to go
/// on.
///
/// # Errors
/// [`FieldError::Io`] with "no space left on device" on a full disk; [`FieldError::Format`] if there is a store already, if
/// another conversion into `dst` is running, if what is to be resumed was begun with other options or another source, or
/// if the source changes meanwhile; [`FieldError::LimitTooSmall`]; [`FieldError::Interrupted`]; and what the source says.
/// Whatever is done stays in `DST.partial` for `resume`.
pub fn convert(
    input: &ConvertInput,
    dst: &Path,
    options: &ConvertOptions,
    charge: &ChargeMemory<'_>,
    progress: &mut dyn FnMut(PieceProgress) -> bool,
) -> Result<ConvertReport, FieldError> {
    run(input, dst, options, None, &Disk::default(), charge, progress)
}

/// Makes ranges and boxes of data that stays where it is, cut in pages as `pages` says, as a store without data at `dst`
/// (which [`field::store::Store::open`] opens). Goes on with what an interrupted run left and replaces what is out of
/// date. While another run works on the same index it waits for that, and takes what it made.
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

/// A plan whose memory could be charged: others may hold some of the limit, so smaller plans are tried, too.
fn plan_within<'a>(
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

/// What `plan` makes of a limit, and the bytes that takes, for the largest limit up to `most` whose bytes can be charged.
fn within<P>(
    most: u64,
    charge: &ChargeMemory<'_>,
    plan: impl Fn(u64) -> Result<(P, u64), FieldError>,
) -> Result<(P, Box<dyn Any>), FieldError> {
    let mut limit = most;
    let mut smallest = false;
    loop {
        let (plan, memory) = match plan(limit) {
            Ok(planned) => planned,
            // The smallest plan there is. What the ledger says of it is the truth about what would do.
            Err(FieldError::LimitTooSmall { needs, .. }) if !smallest => {
                (limit, smallest) = (needs, true);
                continue;
            }
            Err(e) => return Err(e),
        };
        match charge(memory) {
            Ok(charged) if memory <= most => return Ok((plan, charged)),
            // A ledger may have room for more than the conversion is to take.
            Ok(_) => {
                let what = "converting a page at a time".into();
                return Err(FieldError::LimitTooSmall { limit: most, needs: memory, what });
            }
            Err(e) if smallest => return Err(e),
            Err(_) => limit = memory.saturating_sub(1) / 4 * 3,
        }
    }
}

fn run(
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

/// [`run`], or, with a base, of the steps that it has not.
#[allow(clippy::too_many_arguments)] // what a run is
fn run_on(
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
        return Err(FieldError::Usage("zones and arrays differ in number".into()));
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
    // Of an index the user knows nothing: where two runs need the same one, the second waits for the first.
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
    // Slabs overlap a little, so what was read is more than what is done.
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

/// Puts bytes through what reads the notes of an interrupted conversion (the record of a unit, the plan), as a fuzzer does: they may
/// be refused, but nothing may panic, and what is taken is as it was written.
pub fn fuzz_notes(bytes: &[u8]) {
    record::fuzz(bytes);
    if let Some(plan) = std::str::from_utf8(bytes).ok().and_then(commit::check_plan) {
        assert!(bytes.ends_with(plan.as_bytes()));
    }
}

/// Codec of new stores unless the user says otherwise; chosen by the measurements in `docs/benchmarks.md`.
pub const DEFAULT_CODEC: &str = "none";
