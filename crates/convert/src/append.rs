//! Adds to a store the steps that a running simulation has written since.
//!
//! # Theory
//! A shard is of one step, and so are its ranges and boxes. So the shards of existing steps stay unchanged. The new
//! store is made beside the old one, as in every conversion, with the new shards and *links* to the old ones. It
//! replaces the old one in one step. So readers of the old store continue, and a kill leaves the old store or the new
//! one. The new one has the bytes of a single conversion of all steps.
//!
//! One difference remains if the files of existing steps are not given again. The store's description of its source
//! then has the remarks of both runs, and a digest over both.
//!
//! # Practice
//! [`append`] finds the new steps ([`Addition`]) and runs the conversion on top of the store.

use super::base::Base;
use super::job::ConvertJob;
use super::run::run;
use super::{commit, ArraySource, ChargeMemory, ConvertInput, ConvertOptions, ConvertReport, PieceProgress};
use crate::disk::{Disk, Partial};
use field::catalog::{Catalog, ReadCounter, Role, RowReader};
use field::error::FieldError;
use field::paging::Layout;
use field::series::{Sources, StepState};
use field::store::codec::Codec;
use field::store::Store;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// How the words for files of PLOT3D begin.
const PLOT3D: &str = "PLOT3D";

/// Requested properties of pages. Those of a store cannot change while steps are added.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedPages {
    /// Page edge.
    pub page: Option<usize>,
    /// Shape of pages.
    pub layout: Option<Layout>,
    /// How they are encoded.
    pub codec: Option<Codec>,
}

/// The result of an append.
#[derive(Clone, Debug, Default)]
pub struct AppendReport {
    /// The conversion of the new steps; `None` if there were none.
    pub converted: Option<ConvertReport>,
    /// The new steps, among all.
    pub steps: Range<usize>,
    /// Times of all steps.
    pub times: Vec<f64>,
    /// Page edge of the store.
    pub page: usize,
    /// Layout of pages.
    pub layout: Option<Layout>,
    /// Codec of pages.
    pub codec: Option<Codec>,
}

/// Adds the steps of `input` that the store at `dst` lacks. Without a store, one is made. The rest of an interrupted
/// run with the same steps is continued.
///
/// # Errors
/// As [`super::convert`]. [`FieldError::Format`] for another grid, and for other zones or fields.
/// [`FieldError::Format`] for a file changed since its step was added, and for steps that do not follow the existing
/// ones. [`FieldError::Usage`] if `asked` differs from the store's pages.
pub fn append(
    input: &ConvertInput,
    dst: &Path,
    options: &ConvertOptions,
    asked: RequestedPages,
    charge: &ChargeMemory<'_>,
    progress: &mut dyn FnMut(PieceProgress) -> bool,
) -> Result<AppendReport, FieldError> {
    append_on(input, dst, options, asked, &Disk::default(), charge, progress)
}

/// Repairs the state after a run killed between its two renames, on a file system that cannot exchange names at once.
/// The store, old or new, is in that run's folder and gets its name back.
fn put_back(dst: &Path, disk: &Disk) -> Result<(), FieldError> {
    if !Partial::place(dst).is_some_and(|p| p.is_dir()) {
        return Ok(());
    }
    let partial = Partial::lock(disk, dst, None)?;
    for left in [partial.store(), partial.old()] {
        if !dst.exists() && Store::open(&left).is_ok() {
            disk.rename(&left, dst)?;
            disk.sync_dir(dst.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
        }
    }
    Ok(())
}

pub(super) fn append_on(
    input: &ConvertInput,
    dst: &Path,
    options: &ConvertOptions,
    asked: RequestedPages,
    disk: &Disk,
    charge: &ChargeMemory<'_>,
    progress: &mut dyn FnMut(PieceProgress) -> bool,
) -> Result<AppendReport, FieldError> {
    let options = ConvertOptions { resume: true, overwrite: false, append: true, ..options.clone() };
    // A link stays; steps are added to the store that it points to.
    let leads = std::fs::symlink_metadata(dst).is_ok_and(|m| m.file_type().is_symlink()) && dst.exists();
    let real = if leads { std::fs::canonicalize(dst).map_err(|e| FieldError::io(dst, e))? } else { dst.to_path_buf() };
    let dst = real.as_path();
    if !dst.exists() {
        put_back(dst, disk)?;
    }
    let nothing = !dst.exists() || std::fs::read_dir(dst).is_ok_and(|mut d| d.next().is_none());
    if nothing {
        let converted = run(&ConvertJob::new(input, dst, &options), disk, charge, progress)?;
        let times = input.catalog.times.clone();
        return Ok(AppendReport {
            converted: Some(converted),
            steps: 0..times.len(),
            times,
            page: options.page,
            layout: Some(options.layout),
            codec: Some(options.codec),
        });
    }
    if !Store::is_store(dst) {
        return Err(FieldError::format(dst, "is no store of Farfield; --append adds steps to those"));
    }
    let store = Store::open(dst)?;
    let root = &store.root;
    check_pages(&store, asked)?;
    let Addition { input, base } = addition(input, store.clone())?;
    let options = ConvertOptions { page: root.page, layout: root.layout, codec: root.codec, ..options };
    let steps = base.steps..input.catalog.times.len().max(1);
    let times = input.catalog.times.clone();
    let converted = if steps.is_empty() {
        // The run may have died between the change of names and cleaning up.
        commit::clean(disk, dst, root.source.as_deref())?;
        None
    } else {
        let job = ConvertJob { base: Some(&base), ..ConvertJob::new(&input, dst, &options) };
        Some(run(&job, disk, charge, progress)?)
    };
    Ok(AppendReport { converted, steps, times, page: root.page, layout: Some(root.layout), codec: Some(root.codec) })
}

/// Refuses pages that differ from the store's.
fn check_pages(store: &Store, asked: RequestedPages) -> Result<(), FieldError> {
    let root = &store.root;
    if !root.data {
        return Err(FieldError::format(&store.path, "holds no data; --append adds steps to stores that convert made"));
    }
    let differ = |what: &str, have: String, asked: String| {
        Err(FieldError::Usage(format!(
            "{}: has {what} {have}, and steps with {what} {asked} cannot be added to it; leave --{what} out, or convert again",
            store.path.display()
        )))
    };
    match asked {
        RequestedPages { page: Some(page), .. } if page != root.page => {
            differ("page", root.page.to_string(), page.to_string())
        }
        RequestedPages { layout: Some(layout), .. } if layout != root.layout => {
            differ("layout", root.layout.name().into(), layout.name().into())
        }
        RequestedPages { codec: Some(codec), .. } if codec.name() != root.codec.name() => {
            differ("codec", root.codec.name().into(), codec.name().into())
        }
        _ => Ok(()),
    }
}

/// All steps, those of the store and the new ones, and their states.
struct Addition {
    input: ConvertInput,
    base: Base,
}

/// Finds the new steps of `input`.
fn addition(input: &ConvertInput, store: Store) -> Result<Addition, FieldError> {
    let (path, old) = (store.path.clone(), store.root.catalog.clone());
    let bad = |m: String| FieldError::format(&path, m);
    let Some(sources) = store.root.sources.clone() else {
        let message = "was written before stores kept what their steps were made of; convert it again once";
        return Err(bad(message.into()));
    };
    if input.series.steps.is_empty() || sources.steps.len() != old.times.len() {
        return Err(FieldError::Usage(format!(
            "{}: --append adds steps of files to a store that was made of such; convert again for anything else",
            path.display()
        )));
    }
    let is_plot3d = |format: &str| format.starts_with(PLOT3D);
    if is_plot3d(&store.origin) && !is_plot3d(&input.catalog.format) {
        return Err(bad(format!(
            "was made of PLOT3D files, or by a version that read others by way of such, and the source is {}; convert the whole series \
             again, with --overwrite",
            input.catalog.format
        )));
    }
    let (n, now) = (sources.steps.len(), input.series.identify()?);
    let known: Vec<StepState> = (0..input.series.steps.len()).map(|s| sources.known(&input.series, &now, s)).collect();
    check_times(input, &path, &old, &known)?;
    same_kind(&path, &old, &input.catalog)?;
    let (shown, times) = (span(&old.times), &input.catalog.times);
    let mut there = Vec::new();
    for (step, known) in known.into_iter().enumerate() {
        let file = input.series.name_of(step);
        let time = times.get(step).copied().unwrap_or(f64::NAN);
        let said = |m: String| Err(FieldError::format(file, m));
        match known {
            StepState::Changed(file) => {
                let message = format!(
                    "has changed since a step of {} was made of it; convert the whole series again, with --overwrite",
                    path.display()
                );
                return Err(FieldError::format(&file, message));
            }
            StepState::Step(known) if there.len() < step || there.last().is_some_and(|last| *last >= known) => {
                return said(format!(
                    "is step {known} of {}, but comes after steps which that has not: steps are added at the end only; \
                     convert the whole series again, with --overwrite",
                    path.display()
                ));
            }
            StepState::Step(known) => {
                if !same_time(old.times[known], time) {
                    return said(format!(
                        "was at time {} when step {known} of {} was made of it and is now at {time}; give the same --dt, and files \
                         whose headers tell all steps apart",
                        old.times[known],
                        path.display()
                    ));
                }
                there.push(known);
            }
            StepState::New if old.times.iter().any(|t| same_time(*t, time)) => {
                return said(format!(
                    "is at time {time}, which {} has already ({n} steps, {shown}); give the files of all its steps, or --dt where \
                     the files do not tell their times",
                    path.display()
                ));
            }
            StepState::New if old.times.last().is_some_and(|last| !(time > *last)) => {
                return said(format!(
                    "is at time {time}, but {} has steps up to {} ({n} steps, {shown}): steps are added at the end only; convert \
                     the whole series again, with --overwrite",
                    path.display(),
                    old.times.last().copied().unwrap_or(f64::NAN)
                ));
            }
            StepState::New => {}
        }
    }
    let whole = there.len() == n;
    if input.catalog.times_counted && !whole || old.times_counted && !input.catalog.times_counted {
        return Err(bad(format!(
            "numbers its {n} steps, or the source does, and nothing says when a step is; give the files of all steps, or --dt"
        )));
    }
    merged(input, store, &sources, &now, there.len(), whole)
}

/// Whether the time of an unchanged file is equal up to rounding. An older version may have read times in single
/// precision, or multiples of `--dt` as floats represent them.
fn same_time(was: f64, now: f64) -> bool {
    was.to_bits() == now.to_bits() || (was - now).abs() <= f64::from(f32::EPSILON / 2.0) * now.abs()
}

/// Refuses a source without times of its steps if the store has times. The error names the new file that is the reason.
fn check_times(input: &ConvertInput, path: &Path, old: &Catalog, known: &[StepState]) -> Result<(), FieldError> {
    if old.times_counted || known.iter().any(|k| matches!(k, StepState::Changed(_))) {
        return Ok(());
    }
    let of = |c: &Catalog| c.zones.first().map_or_else(Vec::new, |z| z.headers.iter().map(|h| h.time).collect());
    let headers: Vec<f64> = of(&input.catalog);
    let (why, name) = (input.catalog.untimed(), |step: usize| input.series.name_of(step));
    let told = |step: &usize| known[*step] == StepState::New && headers.len() == known.len();
    let new: Vec<usize> = (0..known.len()).filter(told).collect();
    // If existing steps have no times in their headers either, those of new ones are ignored.
    let trusted = of(old).iter().all(|t| t.is_finite());
    let odd = new.iter().find(|s| !headers[**s].is_finite());
    if let Some(&step) = odd.filter(|_| trusted && (why.is_some() || known.len() == 1)) {
        let message = format!(
            "the time in its header is no finite number but {}, so that nothing says when its step is; leave it out, or give the files \
             of all steps of {} with --dt",
            headers[step],
            path.display()
        );
        return Err(FieldError::format(name(step), message));
    }
    let Some(why) = why else { return Ok(()) };
    // A single step has the time of its header, which may be its number in a series.
    if old.times.len() < 2 && old.times.first() == input.catalog.times.first() {
        return Ok(());
    }
    for step in new {
        let alike = |s: &usize| *s != step && headers[*s] == headers[step];
        let Some(other) = (0..known.len()).filter(alike).min_by_key(|s| known[*s] == StepState::New) else { continue };
        let there = match known[other] {
            StepState::Step(n) => format!(" (step {n} of {}, at {})", path.display(), old.times[n]),
            _ => String::new(),
        };
        let message = format!(
            "has the time {} in its header, as has {}{there}: one time cannot have two steps; leave one of them out, or convert the \
             whole series again, with --overwrite and --dt",
            headers[step],
            name(other).display()
        );
        return Err(FieldError::format(name(step), message));
    }
    let message = format!("has times ({}), and nothing says when the steps of the source are. {why}", span(&old.times));
    Err(FieldError::format(path, message))
}

/// `first to last`.
fn span(times: &[f64]) -> String {
    match (times.first(), times.last()) {
        (Some(first), Some(last)) => format!("{first} to {last}"),
        _ => "no times".into(),
    }
}

/// Refuses differing zones, fields and units.
fn same_kind(path: &Path, old: &Catalog, new: &Catalog) -> Result<(), FieldError> {
    let differ = |what: &str, have: String, given: String| {
        Err(FieldError::format(
            path,
            format!(
                "has {what} {have}, and the source has {given}: steps of one store must be alike; convert into another"
            ),
        ))
    };
    let zones = |c: &Catalog| {
        let few: Vec<String> = c.zones.iter().take(3).map(|z| format!("{} {:?}", z.name, z.dims)).collect();
        format!("{} ({}{})", c.zones.len(), few.join(", "), if c.zones.len() > 3 { ", ..." } else { "" })
    };
    if old.zones.len() != new.zones.len() || old.dimension != new.dimension {
        return differ("zones", zones(old), zones(new));
    }
    for (a, b) in old.zones.iter().zip(&new.zones) {
        if (&a.name, a.dims) != (&b.name, b.dims) {
            return differ(
                "a zone",
                format!("{} of {:?} points", a.name, a.dims),
                format!("{} of {:?}", b.name, b.dims),
            );
        }
        let arrays =
            |z: &field::catalog::ZoneInfo| z.arrays.iter().map(|a| a.name.clone()).collect::<Vec<_>>().join(", ");
        if arrays(a) != arrays(b) {
            return differ(&format!("in {} the arrays", a.name), arrays(a), arrays(b));
        }
        for (x, y) in a.arrays.iter().zip(&b.arrays) {
            let words = |i: &field::catalog::ArrayInfo| {
                format!(
                    "{} {} of {} components in '{}' ({})",
                    i.name,
                    i.dtype.name(),
                    i.components,
                    i.units,
                    i.long_name
                )
            };
            if x != y {
                return differ(&format!("in {}", a.name), words(x), words(y));
            }
        }
    }
    if old.time_units != new.time_units {
        return differ("times in", format!("'{}'", old.time_units), format!("'{}'", new.time_units));
    }
    if old.settings != new.settings {
        return differ("settings (reference values, scales)", old.settings.to_string(), new.settings.to_string());
    }
    Ok(())
}

/// The catalog and rows of all steps; the first `there` of `input` are in the store.
fn merged(
    input: &ConvertInput,
    store: Store,
    sources: &Sources,
    now: &Sources,
    there: usize,
    whole: bool,
) -> Result<Addition, FieldError> {
    let (n, old, given) = (sources.steps.len(), &store.root.catalog, input.series.steps.len());
    let total = n + given - there;
    // A grid other than the common one moves; so does the grid of a store with a single step.
    let stranger = now.steady.iter().position(|f| !sources.has_steady(f));
    let mut catalog = input.catalog.clone();
    let mut arrays = Vec::with_capacity(input.arrays.len());
    for (z, zone) in input.arrays.iter().enumerate() {
        let mut made = Vec::with_capacity(zone.len());
        for (a, source) in zone.iter().enumerate() {
            let info = &old.zones[z].arrays[a];
            let had = store.zones[z].arrays[a].steps;
            let geometry = info.role != Role::Field;
            let moves = match (n, source.steps) {
                (1, 1) if geometry => stranger.is_some(),
                (1, 1) => true,
                (1, _) => true,
                _ => had > 1,
            };
            if !moves && (source.steps > 1 || geometry && stranger.is_some()) {
                let file = stranger.and_then(|s| input.series.steady.get(s)).map_or(input.series.name_of(there), |p| p);
                let message = format!(
                    "is not what {} has for all of its {n} steps ({}/{}, which does not change there); give that, or convert the \
                     whole series again, with --overwrite",
                    store.path.display(),
                    old.zones[z].name,
                    info.name
                );
                return Err(FieldError::format(file, message));
            }
            let mut steps = if moves { total } else { 1 };
            if whole {
                steps = source.steps;
                if (steps > 1) != moves && total > 1 && n > 1 {
                    let message = format!(
                        "{}/{} changes with time in one of the store and the source alone; convert again",
                        old.zones[z].name, info.name
                    );
                    return Err(FieldError::format(&store.path, message));
                }
            }
            let rows: Arc<dyn RowReader> =
                Arc::new(ShiftedRows { rows: source.rows.clone(), shift: n - there, last: source.steps.max(1) - 1 });
            made.push(ArraySource { rows, steps });
        }
        arrays.push(made);
    }
    let (mut made_of, mut files) = (now.clone(), input.series.clone());
    if !whole {
        add_catalog(&mut catalog, old, there);
        let moving = now.steady.iter().any(|f| !sources.has_steady(f)) || now.steady.is_empty();
        made_of = sources.clone();
        if n == 1 && moving {
            let grid = std::mem::take(&mut made_of.steady);
            made_of.steps[0].splice(0..0, grid);
        }
        for step in there..given {
            let mut of_step = now.steps[step].clone();
            // A file common to all steps of the source becomes each step's own, if the store's steps do not share it.
            of_step.splice(0..0, now.steady.iter().copied().filter(|f| !made_of.steady.contains(f)));
            made_of.steps.push(of_step);
        }
        files.steps.drain(..there);
    }
    let input = ConvertInput { catalog, arrays, files: input.files.clone(), series: files, made: input.made.clone() };
    Ok(Addition { input, base: Base { store, steps: n, sources: made_of, whole } })
}

/// Puts the store's entries of its steps before the source's entries of missing ones.
fn add_catalog(catalog: &mut Catalog, old: &Catalog, there: usize) {
    let new = catalog.times.split_off(there);
    catalog.times = old.times.iter().copied().chain(new).collect();
    for (zone, was) in catalog.zones.iter_mut().zip(&old.zones) {
        let new = if there < zone.headers.len() { zone.headers.split_off(there) } else { Vec::new() };
        zone.headers = was.headers.iter().copied().chain(new).collect();
    }
    let join = |list: &mut Vec<String>, was: &[String]| {
        let new: Vec<String> = list.drain(..).filter(|s| !was.contains(s)).collect();
        *list = was.iter().cloned().chain(new).collect();
    };
    join(&mut catalog.guessed, &old.guessed);
    join(&mut catalog.order_assumed, &old.order_assumed);
    catalog.format.clone_from(&old.format);
}

/// Rows of a source with its first step at a later step of the whole.
struct ShiftedRows {
    rows: Arc<dyn RowReader>,
    shift: usize,
    /// Last step of the source.
    last: usize,
}

impl ShiftedRows {
    fn step(&self, step: usize) -> usize {
        step.saturating_sub(self.shift).min(self.last)
    }
}

impl RowReader for ShiftedRows {
    fn read_rows(&self, step: usize, c: usize, k: usize, j: Range<usize>, out: &mut [u8]) -> Result<(), FieldError> {
        self.rows.read_rows(self.step(step), c, k, j, out)
    }
    fn by_boxes(&self) -> bool {
        self.rows.by_boxes()
    }
    fn read_box(&self, step: usize, points: &[Range<usize>; 3], out: &mut [u8]) -> Result<(), FieldError> {
        self.rows.read_box(self.step(step), points, out)
    }
    fn tally(&self) -> &ReadCounter {
        self.rows.tally()
    }
}
