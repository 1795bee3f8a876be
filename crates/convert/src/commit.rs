//! Begin and end of a conversion: lock, plan, resumption, the commit mark, the change of names.

use super::base::Base;
use super::disk::{free_bytes, Disk, Partial};
use super::pipeline::{Conversion, Places};
use super::plan::ConversionPlan;
use super::record::Record;
use super::ConvertOptions;
use field::error::FieldError;
use field::file::{identities, Digest, FileIdentity};
use field::series::Sources;
use field::store::codec::{Codec, CRC_BYTES};
use field::store::layout::{all_arrays, documents, ArrayLayout, ENTRY_BYTES};
use field::store::metadata::{catalog_value, ArraySeal, Root};
use field::store::Store;
use field::uniform::Uniform;
use serde_json::{json, Value};
use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Whether there is work to do.
pub(super) enum Begun {
    /// Work in this folder, on these very files.
    Work(Partial, StoreSource),
    /// The target is the result already.
    Done {
        /// Bytes of its shards.
        bytes: u64,
    },
}

/// The sources of a store.
pub(super) struct StoreSource {
    /// All files with pages.
    files: Vec<FileIdentity>,
    /// The files of each step, as the user named them.
    series: Sources,
}

impl StoreSource {
    fn of(plan: &ConversionPlan<'_>) -> Result<Self, FieldError> {
        Ok(Self { files: identities(&plan.input.files)?, series: plan.input.series.identify()? })
    }

    /// The digest of all of it. If the files of the first steps were not given again, it is over the digest of their
    /// store.
    fn digest(&self, plan: &ConversionPlan<'_>) -> String {
        let mut own = Digest::of(&self.files);
        if !plan.input.made.is_empty() {
            own = own.text(&plan.input.made);
        }
        match plan.base {
            Some(base) if !base.whole => {
                let before = base.store.root.source.as_deref().unwrap_or_default();
                Digest::default().text(before).text(&own.to_string()).to_string()
            }
            _ => own.to_string(),
        }
    }

    /// The root's sources of each step.
    fn sources(&self, plan: &ConversionPlan<'_>) -> Option<Sources> {
        let own = || (plan.data && !plan.input.series.steps.is_empty()).then(|| self.series.clone());
        plan.base.map_or_else(own, |base| Some(base.sources.clone()))
    }
}

/// The part of the plan that determines the store's bytes, and (by `source`, their [`Digest`]) its files.
fn plan_document(
    plan: &ConversionPlan<'_>,
    dst: &Path,
    options: &ConvertOptions,
    source: &str,
) -> Result<String, FieldError> {
    let root = root_of(plan, options, source, Vec::new(), Vec::new(), Vec::new(), None);
    let root = String::from_utf8(root.document()).map_err(|_| FieldError::format(dst, "the catalog is not text"))?;
    // Units are numbered from the first missing step: work on top of another store is useless.
    let base = plan.base.map(|b| json!([b.steps, b.store.root.source]));
    let value: Value = json!({"version": 2, "root": root, "base": base});
    Ok(value.to_string())
}

fn root_of(
    plan: &ConversionPlan<'_>,
    options: &ConvertOptions,
    source: &str,
    documents: Vec<(u64, u32)>,
    seals: Vec<ArraySeal>,
    uniform: Vec<Option<Uniform>>,
    sources: Option<Sources>,
) -> Root {
    Root {
        data: plan.data,
        page: options.page,
        layout: options.layout,
        codec: options.codec,
        catalog: plan.input.catalog.clone(),
        source: Some(source.to_owned()),
        time_axis: plan.data,
        sources,
        pages: plan.page_boxes(),
        steps: plan.zones.iter().map(|z| z.arrays.iter().map(|a| a.steps).collect()).collect(),
        uniform,
        documents,
        seals,
    }
}

/// Whether the store at `path` is the result of this plan from the very same files. A store without a record of its
/// sources may come from others.
fn is_made(plan: &ConversionPlan<'_>, path: &Path, options: &ConvertOptions, source: &str) -> Option<u64> {
    let store = Store::open(path).ok()?;
    let want = root_of(plan, options, source, Vec::new(), Vec::new(), Vec::new(), None);
    let r = &store.root;
    let same = (r.data, r.layout, r.codec) == (want.data, want.layout, want.codec)
        && (!r.data || r.page == want.page)
        && (&r.pages, &r.steps, &r.source) == (&want.pages, &want.steps, &want.source)
        // As text: NaN in a header equals itself there.
        && catalog_value(&r.catalog) == catalog_value(&want.catalog);
    same.then(|| store.bytes())
}

/// The state of the target.
pub enum TargetState {
    /// No file, or an empty folder.
    Nothing,
    /// A store, to be replaced.
    Store,
}

/// Examines the target before any change.
pub fn look(dst: &Path, overwrite: bool, resume: bool) -> Result<TargetState, FieldError> {
    let meta: Metadata = match std::fs::symlink_metadata(dst) {
        Ok(m) => m,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(TargetState::Nothing),
        Err(e) => return Err(FieldError::io(dst, e)),
    };
    let empty = || std::fs::read_dir(dst).is_ok_and(|mut d| d.next().is_none());
    if meta.is_dir() && empty() {
        return Ok(TargetState::Nothing);
    }
    let zarr = ["zarr.json", ".zgroup", ".zarray"].iter().any(|n| dst.join(n).exists());
    if overwrite {
        return if meta.is_dir() && zarr {
            Ok(TargetState::Store)
        } else {
            Err(FieldError::format(
                dst,
                "is there and is no Zarr store, so --overwrite leaves it alone; remove it or choose another target",
            ))
        };
    }
    let hint = if resume {
        "exists and was made from another source or with other options; --overwrite replaces it"
    } else {
        "exists; --overwrite replaces it"
    };
    Err(FieldError::format(dst, hint))
}

/// Verifies that the store to be extended has not changed since it was examined.
fn still_there(base: &Base, dst: &Path) -> Result<(), FieldError> {
    // As documents: NaN in a header equals itself there.
    if Store::open(dst).is_ok_and(|now| now.root.document() == base.store.root.document()) {
        return Ok(());
    }
    Err(FieldError::format(dst, "was changed by another conversion meanwhile; run this again"))
}

/// Locks the target and examines the rest of earlier work. `wait`: see [`Partial::lock`].
pub(super) fn begin(
    plan: &ConversionPlan<'_>,
    disk: &Disk,
    dst: &Path,
    options: &ConvertOptions,
    wait: Option<&mut dyn FnMut() -> bool>,
) -> Result<Begun, FieldError> {
    if let Some(parent) = dst.parent().filter(|p| !p.as_os_str().is_empty()) {
        disk.create_dir(parent)?;
    }
    let made = StoreSource::of(plan)?;
    let partial = Partial::lock(disk, dst, wait)?;
    // From here on no other run changes the target.
    match prepare(plan, disk, dst, options, &partial, &made.digest(plan)) {
        Ok(None) => Ok(Begun::Work(partial, made)),
        Ok(Some(bytes)) => {
            // The run may have died between the change of names and cleaning up.
            partial.remove(disk)?;
            Ok(Begun::Done { bytes })
        }
        Err(e) => {
            partial.remove_empty();
            Err(e)
        }
    }
}

/// Prepares the folder for work, or returns the bytes of the finished store.
fn prepare(
    plan: &ConversionPlan<'_>,
    disk: &Disk,
    dst: &Path,
    options: &ConvertOptions,
    partial: &Partial,
    source: &str,
) -> Result<Option<u64>, FieldError> {
    if options.resume {
        if let Some(bytes) = is_made(plan, dst, options, source) {
            return Ok(Some(bytes));
        }
    }
    match plan.base {
        Some(base) => still_there(base, dst)?,
        None => look(dst, options.overwrite, options.resume).map(|_| ())?,
    }
    let folders: Vec<&str> = all_arrays(&plan.zones, plan.data).map(|layout| &*layout.path).collect();
    let wanted = Resumption {
        document: plan_document(plan, dst, options, source)?,
        folders: &folders,
        needs: needs(plan),
        resume: options.resume,
        // An index is a cache: one that does not fit is made again without a question.
        anew: !plan.data || options.append,
    };
    make_ready(disk, partial, &wanted)?;
    Ok(None)
}

/// A conversion's view of the rest of another.
pub(super) struct Resumption<'w> {
    /// The part of the plan that determines the store's bytes, and its sources.
    pub document: String,
    /// Folders below the store that hold shards.
    pub folders: &'w [&'w str],
    /// Bytes of the store, if known beforehand.
    pub needs: Option<u64>,
    /// Whether to continue an interrupted run.
    pub resume: bool,
    /// Whether to clear a rest that does not fit without a question.
    pub anew: bool,
}

/// Prepares the folder for work: with the earlier rest, if it fits and is wanted, else empty.
pub(super) fn make_ready(disk: &Disk, partial: &Partial, wanted: &Resumption<'_>) -> Result<(), FieldError> {
    partial.check_own()?;
    let left = std::fs::read_to_string(partial.plan()).ok().and_then(|s| check_plan(&s));
    let go_on = match (&left, wanted.resume) {
        (Some(left), true) if *left == wanted.document => true,
        (Some(_), true) if !wanted.anew => {
            return Err(FieldError::format(
                &partial.path,
                "was begun from another source, or the source has changed, or with other options, \
                 or by another version of Farfield; use the same ones, or leave out --resume to start anew",
            ));
        }
        _ => false,
    };
    if !go_on {
        partial.clear(disk)?;
    }
    if let (Some(needs), false) = (wanted.needs, go_on) {
        check_room(needs, &partial.path)?;
    }
    disk.create_dir(&partial.units())?;
    disk.create_dir(&partial.store())?;
    wanted.folders.iter().try_for_each(|folder| disk.create_dir(&partial.store().join(folder)))?;
    if !go_on {
        // Last, so that a plan means that the folders exist without other work.
        let sealed = format!("{:08x}{}", crc32c::crc32c(wanted.document.as_bytes()), wanted.document);
        let file = disk.write(&partial.plan(), sealed.as_bytes())?;
        disk.sync(&file, &partial.plan())?;
        disk.sync_dir(&partial.path)?;
    }
    Ok(())
}

/// The plan's document, if it is complete.
pub(super) fn check_plan(sealed: &str) -> Option<String> {
    let (crc, document) = sealed.split_at_checked(8)?;
    (u32::from_str_radix(crc, 16).ok()? == crc32c::crc32c(document.as_bytes())).then(|| document.to_owned())
}

/// Bytes of the data, if known beforehand.
fn needs(plan: &ConversionPlan<'_>) -> Option<u64> {
    if plan.codec != Codec::None || !plan.data {
        return None;
    }
    let new = |a: &ArrayLayout| (a.steps - plan.first_step(a)) as u64 * a.grid.paging.count();
    Some(plan.zones.iter().flat_map(|z| &z.arrays).map(|a| new(a) * (a.page_bytes() + CRC_BYTES) as u64).sum())
}

/// Reports at once that a store cannot fit.
fn check_room(needs: u64, path: &Path) -> Result<(), FieldError> {
    match free_bytes(path) {
        Some(free) if free < needs => Err(FieldError::io(
            path,
            std::io::Error::new(
                std::io::ErrorKind::StorageFull,
                format!("no space left on device: the store needs {needs} bytes and {free} are free; make room or use --codec zstd"),
            ),
        )),
        _ => Ok(()),
    }
}

/// Whether a unit's record is complete and belongs to its shard.
pub(super) fn is_done(plan: &ConversionPlan<'_>, places: &Places<'_>, number: usize) -> bool {
    is_whole(plan, places, number, plan.record_sizes(&plan.units[number]))
}

/// As [`is_done`] for any kind of data, with this many ranges and boxes in the record.
pub(super) fn is_whole<J: Conversion>(plan: &J, places: &Places<'_>, number: usize, sizes: (usize, usize)) -> bool {
    let Some(record) = Record::read(&places.record(number), number as u64, sizes.0, sizes.1) else { return false };
    let Some((grid, _, path)) = plan.shard(number) else { return true };
    let crc = || -> std::io::Result<(u64, u32)> {
        let file = File::open(places.store.join(path))?;
        let mut crc = [0; CRC_BYTES];
        file.read_exact_at(&mut crc, (grid.slots() * ENTRY_BYTES) as u64)?;
        Ok((file.metadata()?.len(), u32::from_le_bytes(crc)))
    };
    crc().is_ok_and(|found| found == (record.shard_bytes, record.index_crc))
}

/// Removes the rest of a conversion that made the store at `dst` from `source` and had no time to clean up. The rest of
/// a running one, or of an interrupted one into another store, stays.
pub(super) fn clean(disk: &Disk, dst: &Path, source: Option<&str>) -> Result<(), FieldError> {
    let (Some(source), true) = (source, Partial::place(dst).is_some_and(|p| p.exists())) else { return Ok(()) };
    let Ok(partial) = Partial::lock(disk, dst, None) else { return Ok(()) };
    let left = std::fs::read_to_string(partial.plan()).ok().and_then(|s| check_plan(&s));
    // A folder without a plan is the rest of an earlier removal.
    if partial.check_own().is_ok() && left.is_none_or(|plan| plan.contains(source)) {
        return partial.remove(disk);
    }
    partial.remove_empty();
    Ok(())
}

/// Writes the documents, syncs everything to disk, writes the root, and gives the store its name.
#[allow(clippy::too_many_arguments)] // the final state of a run
pub(super) fn finish(
    plan: &ConversionPlan<'_>,
    disk: &Disk,
    dst: &Path,
    options: &ConvertOptions,
    partial: Partial,
    made: &StoreSource,
    seals: Vec<ArraySeal>,
    uniform: Vec<Option<Uniform>>,
) -> Result<(), FieldError> {
    let store = partial.store();
    let root_path = store.join("zarr.json");
    // A root from an earlier attempt must not validate the new data.
    disk.remove(&root_path)?;
    let mut known = Vec::new();
    // Shards of data are durable already. Documents, ranges, boxes, and all names still need a sync.
    let mut paths = Vec::new();
    let mut folders = BTreeSet::from([store.clone()]);
    for layout in all_arrays(&plan.zones, plan.data) {
        folders.insert(store.join(&layout.path));
    }
    for layout in plan.zones.iter().flat_map(|z| z.ranges.iter().flatten().chain(&z.boxes)) {
        for step in plan.first_step(layout)..layout.steps {
            paths.extend((0..layout.grid.count()).map(|n| store.join(layout.shard_path(step, n))));
        }
    }
    for (name, bytes) in documents(&plan.zones, plan.data) {
        let path = store.join(name);
        if let Some(parent) = path.parent() {
            disk.create_dir(parent)?;
            folders.insert(parent.to_owned());
        }
        disk.write(&path, &bytes)?;
        paths.push(path);
        known.push((bytes.len() as u64, crc32c::crc32c(&bytes)));
    }
    // The source is examined again: pages from before and after a change must not mix.
    let now = StoreSource::of(plan)?;
    let again = if plan.data { "converted; convert it again" } else { "looked through; run this again" };
    if let Some(n) = (0..now.files.len()).find(|n| now.files.get(*n) != made.files.get(*n)) {
        return Err(FieldError::format(&plan.input.files[n], format!("changed while it was {again}")));
    }
    if now.series != made.series {
        let first = plan.input.series.name_of(0);
        return Err(FieldError::format(first, format!("or a file beside it changed while it was {again}")));
    }
    paths.extend(folders);
    disk.sync_paths(&store, &paths)?;
    let root = root_of(plan, options, &made.digest(plan), known, seals, uniform, made.sources(plan));
    let file = disk.write(&root_path, &root.document())?;
    disk.sync(&file, &root_path)?;
    disk.sync_dir(&store)?;
    let target = match plan.base {
        Some(base) => still_there(base, dst).map(|()| TargetState::Store)?,
        None => look(dst, options.overwrite, options.resume)?,
    };
    take_place(disk, partial, dst, &target)
}

/// Gives a finished and durable store the target's name, in one step if the file system can.
pub fn take_place(disk: &Disk, partial: Partial, dst: &Path, target: &TargetState) -> Result<(), FieldError> {
    let store = partial.store();
    match target {
        TargetState::Nothing => disk.rename(&store, dst)?,
        TargetState::Store => {
            if !disk.exchange(&store, dst)? {
                let old = partial.old();
                disk.remove(&old)?;
                disk.rename(dst, &old)?;
                disk.rename(&store, dst)?;
            }
        }
    }
    disk.sync_dir(dst.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    partial.remove(disk)
}

/// For fuzzing: parses bytes as the notes of an interrupted conversion (the record of a unit, the plan). They may be
/// refused, but must not cause a panic. Accepted bytes must equal what is written for their content.
pub fn fuzz_notes(bytes: &[u8]) {
    super::record::fuzz(bytes);
    if let Some(plan) = std::str::from_utf8(bytes).ok().and_then(check_plan) {
        assert!(bytes.ends_with(plan.as_bytes()));
    }
}
