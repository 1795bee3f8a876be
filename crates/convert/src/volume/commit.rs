//! Begin and end of a conversion: the rest of earlier work, the ranges of all pages, the commit mark.

use super::plan::VolumePlan;
use super::rows::VolumeInput;
use crate::commit::{look, make_ready, take_place, Resumption};
use crate::disk::{Disk, Partial};
use crate::grid::{write_level, LevelRows, Order};
use crate::pipeline::Places;
use crate::record::Record;
use field::error::FieldError;
use field::file::{identities, Digest, FileIdentity};
use field::store::layout::ArrayLayout;
use field::store::metadata::ArraySeal;
use field::volume::store::{VolumeRoot, VolumeStore, RANGE_STEP};
use field::volume::VolumeFiles;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

/// Whether there is work to do.
pub(super) enum Begun {
    /// Work in this folder, on these files.
    Work(Partial, VolumeSourceFiles),
    /// The target is the result already.
    Done {
        /// Bytes of its shards.
        bytes: u64,
    },
}

/// The sources of a volume.
pub(super) struct VolumeSourceFiles {
    files: Vec<FileIdentity>,
    folders: Digest,
}

impl VolumeSourceFiles {
    fn of(input: &VolumeInput, go_on: &mut dyn FnMut() -> bool) -> Result<Self, FieldError> {
        let folders = VolumeFiles { files: Vec::new(), folders: input.folders.clone() };
        Ok(Self { files: identities(&input.files)?, folders: folders.of_folders(go_on)? })
    }

    fn digest(&self) -> Digest {
        Digest::of(&self.files).text(&self.folders.to_string())
    }

    /// The changed file, if any.
    fn changed<'i>(&self, before: &Self, input: &'i VolumeInput) -> Option<&'i Path> {
        let file = (0..self.files.len()).find(|n| self.files.get(*n) != before.files.get(*n));
        let folder = (self.folders != before.folders).then(|| input.folders.first()).flatten();
        file.and_then(|n| input.files.get(n)).or(folder).map(|p| &**p)
    }
}

/// The root without the data known at the end.
fn unfinished(plan: &VolumePlan<'_>, made: &VolumeSourceFiles) -> VolumeRoot {
    VolumeRoot { source: made.digest().to_string(), ..plan.root.clone() }
}

/// The part of the plan that determines the store's bytes.
fn plan_document(root: &VolumeRoot) -> String {
    json!({"version": 1, "volume": String::from_utf8_lossy(&root.document())}).to_string()
}

/// Locks the target and examines the rest of earlier work.
pub(super) fn begin(
    plan: &VolumePlan<'_>,
    disk: &Disk,
    dst: &Path,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Begun, FieldError> {
    if let Some(parent) = dst.parent().filter(|p| !p.as_os_str().is_empty()) {
        disk.create_dir(parent)?;
    }
    let made = VolumeSourceFiles::of(plan.input, go_on)?;
    let root = unfinished(plan, &made);
    let partial = Partial::lock(disk, dst, None)?;
    // From here on no other run changes the target.
    match prepare(plan, disk, dst, &partial, &root) {
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

fn prepare(
    plan: &VolumePlan<'_>,
    disk: &Disk,
    dst: &Path,
    partial: &Partial,
    root: &VolumeRoot,
) -> Result<Option<u64>, FieldError> {
    let options = &plan.options;
    if options.resume {
        if let Some(store) = VolumeStore::is_volume(dst).then(|| VolumeStore::open(dst).ok()).flatten() {
            let (documents, seals, seen) = (Vec::new(), Vec::new(), Vec::new());
            let bytes = store.bytes();
            if (VolumeRoot { documents, seals, seen, ..store.root }) == *root {
                return Ok(Some(bytes));
            }
        }
    }
    look(dst, options.overwrite, options.resume)?;
    let levels: Vec<String> = (0..plan.layout.levels.len()).map(|n| n.to_string()).collect();
    let folders = levels.iter().map(|n| &**n).chain(plan.layout.ranges().map(|a| &*a.path)).collect::<Vec<_>>();
    let document = plan_document(root);
    let needs = plan.needs();
    make_ready(disk, partial, &Resumption { document, folders: &folders, needs, resume: options.resume, anew: false })?;
    Ok(None)
}

/// A record that was complete at the begin of the run, or was written since.
fn read(plan: &VolumePlan<'_>, places: &Places<'_>, unit: usize) -> Result<Record, FieldError> {
    let path = places.record(unit);
    let (ranges, boxes) = plan.record_sizes(&plan.unit(unit));
    Record::read(&path, unit as u64, ranges, boxes)
        .ok_or_else(|| FieldError::format(path, "changed while it was used; run this again with --resume"))
}

/// The seals and ranges of a volume after its last unit.
pub(super) struct Sealed {
    seals: Vec<ArraySeal>,
    seen: Vec<[f64; 2]>,
}

impl Sealed {
    /// Bytes of all shards.
    pub fn bytes(&self) -> u64 {
        self.seals.iter().map(|s| s.bytes).sum()
    }
}

/// Writes all ranges.
pub(super) fn write_ranges(
    plan: &VolumePlan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Sealed, FieldError> {
    let layout = &plan.layout;
    let mut seals = Vec::new();
    for level in 0..layout.levels.len() {
        let mut seal = ArraySeal { bytes: 0, pages: 0 };
        for unit in (0..layout.steps).flat_map(|step| plan.units_of(step, level)) {
            let record = read(plan, places, unit)?;
            seal.bytes += record.shard_bytes;
            seal.pages = crc32c::crc32c_append(seal.pages, &record.seal.to_le_bytes());
        }
        seals.push(seal);
    }
    let mut seen = Vec::new();
    for (number, level) in layout.levels.iter().enumerate() {
        for (group, ranges) in level.ranges.iter().enumerate() {
            let mut own = vec![ArraySeal { bytes: 0, pages: 0 }; ranges.len()];
            let mut whole = vec![[f64::INFINITY, f64::NEG_INFINITY]; layout.components];
            for step in 0..layout.steps {
                if !go_on() {
                    return Err(FieldError::Interrupted);
                }
                pyramid(plan, disk, places, (step, number, group), ranges, &mut own, &mut whole)?;
            }
            seals.extend(own);
            if number == 0 {
                seen.extend(whole);
            }
        }
    }
    Ok(Sealed { seals, seen })
}

/// Writes the ranges of one step of a level's group, finest first, and joins the last with `whole`.
fn pyramid(
    plan: &VolumePlan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    (step, level, group): (usize, usize, usize),
    ranges: &[ArrayLayout],
    seals: &mut [ArraySeal],
    whole: &mut [[f64; 2]],
) -> Result<(), FieldError> {
    // Two levels exist at once.
    let most = usize::try_from(plan.memory / 4).unwrap_or(usize::MAX);
    let scratch = |n: usize| places.units.join(format!("ranges.{n}"));
    let grid = &plan.layout.levels[level].grid;
    let components = 2 * plan.layout.components;
    let mut entries = LevelRows::new(disk, &scratch(0), grid.paging.pages, components, Order::Pairs, most)?;
    for (shard, unit) in plan.units_of_group(step, level, group).enumerate() {
        let record = read(plan, places, unit)?;
        let pages = grid.pages_of(shard as u64);
        for (n, row) in record.ranges.chunks_exact(pages[0].len() * components).enumerate() {
            let (j, k) = (pages[1].start + n % pages[1].len(), pages[2].start + n / pages[1].len());
            entries.put(disk, j, k, pages[0].start, row)?;
        }
    }
    for (n, (layout, seal)) in ranges.iter().zip(seals).enumerate() {
        if n > 0 {
            let dims = layout.grid.paging.dims;
            entries = entries.coarser(disk, &scratch(n), dims, RANGE_STEP, most)?;
        }
        write_level(disk, places.store, layout, step, &entries, seal)?;
    }
    let mut last = vec![0.0; components];
    entries.get(0, 0, 0, &mut last)?;
    for (whole, pair) in whole.iter_mut().zip(last.as_chunks::<2>().0) {
        *whole = [whole[0].min(pair[0]), whole[1].max(pair[1])];
    }
    (0..ranges.len()).try_for_each(|n| disk.remove(&scratch(n)))
}

/// Writes the documents, syncs everything to disk, writes the root, and gives the store its name.
pub(super) fn finish(
    plan: &VolumePlan<'_>,
    disk: &Disk,
    dst: &Path,
    partial: Partial,
    made: &VolumeSourceFiles,
    sealed: Sealed,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), FieldError> {
    let store = partial.store();
    let root_path = store.join("zarr.json");
    // A root from an earlier attempt must not validate the new data.
    disk.remove(&root_path)?;
    let mut known = Vec::new();
    // Shards of levels are durable already. Documents, ranges, and all names still need a sync.
    let mut paths = Vec::new();
    let mut folders = BTreeSet::from([store.clone()]);
    for layout in plan.layout.ranges() {
        for step in 0..layout.steps {
            paths.extend((0..layout.grid.count()).map(|n| store.join(layout.shard_path(step, n))));
        }
    }
    for (name, bytes) in plan.layout.documents() {
        let path = store.join(name);
        if let Some(parent) = path.parent() {
            disk.create_dir(parent)?;
            folders.insert(parent.to_owned());
        }
        disk.write(&path, &bytes)?;
        paths.push(path);
        known.push((bytes.len() as u64, crc32c::crc32c(&bytes)));
    }
    // The source is examined again: voxels from before and after a change must not mix.
    if let Some(path) = VolumeSourceFiles::of(plan.input, go_on)?.changed(made, plan.input) {
        return Err(FieldError::format(path, "changed while it was converted; convert it again"));
    }
    paths.extend(folders);
    disk.sync_paths(&store, &paths)?;
    let root = VolumeRoot { documents: known, seals: sealed.seals, seen: sealed.seen, ..unfinished(plan, made) };
    let file = disk.write(&root_path, &root.document())?;
    disk.sync(&file, &root_path)?;
    disk.sync_dir(&store)?;
    let target = look(dst, plan.options.overwrite, plan.options.resume)?;
    take_place(disk, partial, dst, &target)
}
