//! The store of a volume: its sources, the ranges of all pages, its documents and its root.

use super::plan::VolumePlan;
use super::rows::VolumeInput;
use crate::commit::{check_target, DocumentSeal, Resumption, StorePlan, TargetState};
use crate::disk::Disk;
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
use std::path::Path;

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

/// A record that was complete at the begin of the run, or was written since.
fn read(plan: &VolumePlan<'_>, places: &Places<'_>, unit: usize) -> Result<Record, FieldError> {
    let path = places.record(unit);
    let (ranges, boxes) = plan.record_sizes(&plan.unit(unit));
    Record::read(&path, unit as u64, ranges, boxes)
        .ok_or_else(|| FieldError::format(path, "changed while it was used; run this again with --resume"))
}

/// The seals and ranges of a volume after its last unit.
pub(super) struct SealedVolume {
    seals: Vec<ArraySeal>,
    seen: Vec<[f64; 2]>,
}

impl SealedVolume {
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
) -> Result<SealedVolume, FieldError> {
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
    Ok(SealedVolume { seals, seen })
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

impl StorePlan for VolumePlan<'_> {
    type Source = VolumeSourceFiles;
    type Sealed = SealedVolume;

    fn source(&self, go_on: &mut dyn FnMut() -> bool) -> Result<VolumeSourceFiles, FieldError> {
        VolumeSourceFiles::of(self.input, go_on)
    }

    fn check_unchanged(&self, before: &VolumeSourceFiles, now: &VolumeSourceFiles) -> Result<(), FieldError> {
        match now.changed(before, self.input) {
            Some(path) => Err(FieldError::format(path, "changed while it was converted; convert it again")),
            None => Ok(()),
        }
    }

    fn bytes_made(&self, dst: &Path, source: &VolumeSourceFiles) -> Option<u64> {
        let store =
            (self.options.resume && VolumeStore::is_volume(dst)).then(|| VolumeStore::open(dst).ok()).flatten()?;
        let (documents, seals, seen) = (Vec::new(), Vec::new(), Vec::new());
        let bytes = store.bytes();
        (VolumeRoot { documents, seals, seen, ..store.root } == unfinished(self, source)).then_some(bytes)
    }

    fn target(&self, dst: &Path) -> Result<TargetState, FieldError> {
        check_target(dst, self.options.overwrite, self.options.resume)
    }

    fn resumption(&self, _dst: &Path, source: &VolumeSourceFiles) -> Result<Resumption, FieldError> {
        let document = plan_document(&unfinished(self, source));
        Ok(Resumption { document, needs: self.needs(), resume: self.options.resume, anew: false })
    }

    fn documents(&self) -> Box<dyn Iterator<Item = (String, Vec<u8>)> + '_> {
        Box::new(self.layout.documents())
    }

    fn folders(&self) -> Vec<String> {
        let layout = &self.layout;
        let levels = (0..layout.levels.len()).map(|n| n.to_string());
        levels.chain(layout.ranges().map(|a| a.path.clone())).collect()
    }

    fn range_shards(&self) -> Vec<String> {
        let mut names = Vec::new();
        for layout in self.layout.ranges() {
            for step in 0..layout.steps {
                names.extend((0..layout.grid.count()).map(|n| layout.shard_path(step, n)));
            }
        }
        names
    }

    fn root(&self, source: &VolumeSourceFiles, documents: Vec<DocumentSeal>, sealed: SealedVolume) -> Vec<u8> {
        let SealedVolume { seals, seen } = sealed;
        VolumeRoot { documents, seals, seen, ..unfinished(self, source) }.document()
    }
}
