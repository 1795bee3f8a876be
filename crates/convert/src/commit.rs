//! Beginning and ending: lock, plan, resumption, the commit mark, the change of names.

use super::append::Base;
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

/// Whether there is anything to do.
pub(super) enum Begun {
    /// Work in this folder, on files that are, one by one, these.
    Work(Partial, StoreSource),
    /// The target is what it would become.
    Done {
        /// Bytes of its shards.
        bytes: u64,
    },
}

/// What a store is made of.
pub(super) struct StoreSource {
    /// All files that hold pages.
    files: Vec<FileIdentity>,
    /// Those of each step, as the user named them.
    series: Sources,
}

impl StoreSource {
    fn of(plan: &ConversionPlan<'_>) -> Result<Self, FieldError> {
        Ok(Self { files: identities(&plan.input.files)?, series: plan.input.series.identify()? })
    }

    /// The digest of all of it. Where the first steps were not given again it is one over that of their store.
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

    /// What the root says of each step.
    fn sources(&self, plan: &ConversionPlan<'_>) -> Option<Sources> {
        let own = || (plan.data && !plan.input.series.steps.is_empty()).then(|| self.series.clone());
        plan.base.map_or_else(own, |base| Some(base.sources.clone()))
    }
}

/// What the plan is, as far as the store's bytes depend on it, and (by `source`, their [`Digest`]) which files it is for.
fn plan_document(
    plan: &ConversionPlan<'_>,
    dst: &Path,
    options: &ConvertOptions,
    source: &str,
) -> Result<String, FieldError> {
    let root = root_of(plan, options, source, Vec::new(), Vec::new(), Vec::new(), None);
    let root = String::from_utf8(root.document()).map_err(|_| FieldError::format(dst, "the catalog is not text"))?;
    // Units are numbered from the first step that is not there: what was begun on top of another store is of no use.
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

/// Whether the store at `path` is what this plan makes, out of the very same files. A store that does not say which it was made
/// of may have been made of others.
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

/// What stands at the target.
pub enum TargetState {
    /// Nothing, or an empty folder.
    Nothing,
    /// A store, which is replaced.
    Store,
}

/// Looks at the target before anything is touched.
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

/// Makes sure that the store which steps are added to is what it was when they were looked for.
fn still_there(base: &Base, dst: &Path) -> Result<(), FieldError> {
    // As documents: NaN in a header equals itself there.
    if Store::open(dst).is_ok_and(|now| now.root.document() == base.store.root.document()) {
        return Ok(());
    }
    Err(FieldError::format(dst, "was changed by another conversion meanwhile; run this again"))
}

/// Locks the target and finds out what is left of earlier work. `wait`: see [`Partial::lock`].
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
    // From here on nobody else changes the target.
    match prepare(plan, disk, dst, options, &partial, &made.digest(plan)) {
        Ok(None) => Ok(Begun::Work(partial, made)),
        Ok(Some(bytes)) => {
            // It may have died between the change of names and cleaning up.
            partial.remove(disk)?;
            Ok(Begun::Done { bytes })
        }
        Err(e) => {
            partial.remove_empty();
            Err(e)
        }
    }
}

/// Makes the folder ready for work, or answers the bytes of the store that is there already.
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
        // An index is a cache: what does not fit is made anew without asking.
        anew: !plan.data || options.append,
    };
    make_ready(disk, partial, &wanted)?;
    Ok(None)
}

/// What a conversion needs to know of what is left of another.
pub(super) struct Resumption<'w> {
    /// What it makes, as far as the store's bytes depend on it, and of what.
    pub document: String,
    /// Folders below the store that hold shards.
    pub folders: &'w [&'w str],
    /// Bytes of the store, where they are known beforehand.
    pub needs: Option<u64>,
    /// Whether to go on with what an interrupted one left.
    pub resume: bool,
    /// Whether what does not fit is cleared without asking.
    pub anew: bool,
}

/// Makes the folder ready for work: with what is left there, where that fits and is wanted, else empty.
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
        // Last, so that a plan means that the folders are there and empty of other work.
        let sealed = format!("{:08x}{}", crc32c::crc32c(wanted.document.as_bytes()), wanted.document);
        let file = disk.write(&partial.plan(), sealed.as_bytes())?;
        disk.sync(&file, &partial.plan())?;
        disk.sync_dir(&partial.path)?;
    }
    Ok(())
}

/// The plan's document if it is whole.
pub(super) fn check_plan(sealed: &str) -> Option<String> {
    let (crc, document) = sealed.split_at_checked(8)?;
    (u32::from_str_radix(crc, 16).ok()? == crc32c::crc32c(document.as_bytes())).then(|| document.to_owned())
}

/// Bytes of the data, where they are known beforehand.
fn needs(plan: &ConversionPlan<'_>) -> Option<u64> {
    if plan.codec != Codec::None || !plan.data {
        return None;
    }
    let new = |a: &ArrayLayout| (a.steps - plan.first_step(a)) as u64 * a.grid.paging.count();
    Some(plan.zones.iter().flat_map(|z| &z.arrays).map(|a| new(a) * (a.page_bytes() + CRC_BYTES) as u64).sum())
}

/// Says at once that a store cannot fit.
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

/// Whether a unit's record is whole and its shard is the one that the record speaks of.
pub(super) fn is_done(plan: &ConversionPlan<'_>, places: &Places<'_>, number: usize) -> bool {
    is_whole(plan, places, number, plan.record_sizes(&plan.units[number]))
}

/// As [`is_done`] for any kind of data, whose record has so many ranges and boxes.
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

/// Removes what is left of a conversion that made the store at `dst`, out of `source`, and had no time to. Where another runs, or one
/// into another store was interrupted, nothing is touched.
pub(super) fn clean(disk: &Disk, dst: &Path, source: Option<&str>) -> Result<(), FieldError> {
    let (Some(source), true) = (source, Partial::place(dst).is_some_and(|p| p.exists())) else { return Ok(()) };
    let Ok(partial) = Partial::lock(disk, dst, None) else { return Ok(()) };
    let left = std::fs::read_to_string(partial.plan()).ok().and_then(|s| check_plan(&s));
    // Without a plan, what is there is the rest of what was being removed.
    if partial.check_own().is_ok() && left.is_none_or(|plan| plan.contains(source)) {
        return partial.remove(disk);
    }
    partial.remove_empty();
    Ok(())
}

/// Writes the documents, makes everything durable, writes the root, and gives the store its name.
#[allow(clippy::too_many_arguments)] // what a run has when it ends
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
    // A root from an earlier try must not vouch for what is written now.
    disk.remove(&root_path)?;
    let mut known = Vec::new();
    // Shards of data are durable already; what is not are documents, ranges and boxes, and the names of all of them.
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
    // The source is looked at again: pages from before and after a change do not belong together.
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

/// Gives a finished store, durable with its root, the target's name, in one step where the file system can.
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
