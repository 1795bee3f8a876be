//! Begin and end of any conversion: lock, plan, resumption, the commit mark, the change of names.
//!
//! # Theory
//! A `StorePlan` names the sources and the documents of a store. `begin` locks the target. It keeps the work of an
//! interrupted run with the same plan document. `finish` syncs all files to disk, then the root, and then gives the
//! store its name. A root marks a complete store, so it is written last.

use super::disk::{free_bytes, Disk, Partial};
use super::pipeline::{Conversion, Places};
use super::record::Record;
use field::error::FieldError;
use field::store::codec::CRC_BYTES;
use field::store::layout::ENTRY_BYTES;
use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Length and CRC-32C of a document.
pub(super) type DocumentSeal = (u64, u32);

/// The result of a conversion of any kind of data.
pub(super) trait StorePlan {
    /// Identities of all source files of the store.
    type Source;
    /// The data known after the last unit.
    type Sealed;

    /// Examines the source files of the store. `go_on` is called now and then; false ends it.
    fn source(&self, go_on: &mut dyn FnMut() -> bool) -> Result<Self::Source, FieldError>;
    /// Fails if the source differs from its state `before`, and names the file.
    fn check_unchanged(&self, before: &Self::Source, now: &Self::Source) -> Result<(), FieldError>;
    /// Whether to wait for another run with the same result.
    fn waits(&self) -> bool {
        false
    }
    /// Bytes of the shards of the store at `dst`, if this plan resumes and the store is its result from the very same files.
    fn bytes_made(&self, dst: &Path, source: &Self::Source) -> Option<u64>;
    /// The state of the target; an error if it must not be replaced.
    fn target(&self, dst: &Path) -> Result<TargetState, FieldError>;
    /// The conditions for continuing an interrupted run.
    fn resumption(&self, dst: &Path, source: &Self::Source) -> Result<Resumption, FieldError>;
    /// Names below the store, and contents, of the documents beside the root.
    fn documents(&self) -> Box<dyn Iterator<Item = (String, Vec<u8>)> + '_>;
    /// Folders below the store that hold shards.
    fn folders(&self) -> Vec<String>;
    /// Shards below the store that still need a sync after the last unit: ranges and boxes.
    fn range_shards(&self) -> Vec<String>;
    /// The root document.
    fn root(&self, source: &Self::Source, documents: Vec<DocumentSeal>, sealed: Self::Sealed) -> Vec<u8>;
}

/// Whether there is work to do.
pub(super) enum Begun<S> {
    /// Work in this folder, on these files.
    Work(Partial, S),
    /// The target is the result already.
    Done {
        /// Bytes of its shards.
        bytes: u64,
    },
}

/// The state of the target.
pub enum TargetState {
    /// No file, or an empty folder.
    Nothing,
    /// A store, to be replaced.
    Store,
}

/// Examines the target before any change.
///
/// # Errors
/// [`FieldError::Format`] for a target that must not be replaced, [`FieldError::Io`] for an unreadable one.
pub fn check_target(dst: &Path, overwrite: bool, resume: bool) -> Result<TargetState, FieldError> {
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

/// Locks the target and examines the rest of earlier work. `go_on` is called during the wait for another run and the
/// examination of the source.
pub(super) fn begin<P: StorePlan>(
    plan: &P,
    disk: &Disk,
    dst: &Path,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Begun<P::Source>, FieldError> {
    if let Some(parent) = dst.parent().filter(|p| !p.as_os_str().is_empty()) {
        disk.create_dir(parent)?;
    }
    let source = plan.source(go_on)?;
    let partial = Partial::lock(disk, dst, if plan.waits() { Some(go_on) } else { None })?;
    // From here on no other run changes the target.
    match prepare(plan, disk, dst, &partial, &source) {
        Ok(None) => Ok(Begun::Work(partial, source)),
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
fn prepare<P: StorePlan>(
    plan: &P,
    disk: &Disk,
    dst: &Path,
    partial: &Partial,
    source: &P::Source,
) -> Result<Option<u64>, FieldError> {
    if let Some(bytes) = plan.bytes_made(dst, source) {
        return Ok(Some(bytes));
    }
    plan.target(dst)?;
    make_ready(disk, partial, &plan.resumption(dst, source)?, &plan.folders())?;
    Ok(None)
}

/// A conversion's view of the rest of another.
pub(super) struct Resumption {
    /// The part of the plan that determines the store's bytes, and its sources.
    pub document: String,
    /// Bytes of the store, if known beforehand.
    pub needs: Option<u64>,
    /// Whether to continue an interrupted run.
    pub resume: bool,
    /// Whether to clear a rest that does not fit without a question.
    pub anew: bool,
}

/// Prepares the folder for work: with the earlier rest, if it fits and is wanted, else empty.
fn make_ready(disk: &Disk, partial: &Partial, wanted: &Resumption, folders: &[String]) -> Result<(), FieldError> {
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
    folders.iter().try_for_each(|folder| disk.create_dir(&partial.store().join(folder)))?;
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

/// Whether a unit's record, of this many ranges and boxes, is complete and belongs to its shard.
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
pub(super) fn finish<P: StorePlan>(
    plan: &P,
    disk: &Disk,
    dst: &Path,
    partial: Partial,
    source: &P::Source,
    sealed: P::Sealed,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), FieldError> {
    let store = partial.store();
    let root_path = store.join("zarr.json");
    // A root from an earlier attempt must not validate the new data.
    disk.remove(&root_path)?;
    let mut document_seals = Vec::new();
    // Shards of data are durable already. Documents, ranges, boxes, and all names still need a sync.
    let mut paths: Vec<_> = plan.range_shards().into_iter().map(|name| store.join(name)).collect();
    let mut folders: BTreeSet<_> = plan.folders().into_iter().map(|name| store.join(name)).collect();
    folders.insert(store.clone());
    for (name, bytes) in plan.documents() {
        let path = store.join(name);
        if let Some(parent) = path.parent() {
            disk.create_dir(parent)?;
            folders.insert(parent.to_owned());
        }
        disk.write(&path, &bytes)?;
        paths.push(path);
        document_seals.push((bytes.len() as u64, crc32c::crc32c(&bytes)));
    }
    // The source is examined again: pages from before and after a change must not mix.
    plan.check_unchanged(source, &plan.source(go_on)?)?;
    paths.extend(folders);
    disk.sync_paths(&store, &paths)?;
    let file = disk.write(&root_path, &plan.root(source, document_seals, sealed))?;
    disk.sync(&file, &root_path)?;
    disk.sync_dir(&store)?;
    take_place(disk, partial, dst, &plan.target(dst)?)
}

/// Gives a finished and durable store the target's name, in one step if the file system can.
///
/// # Errors
/// [`FieldError::Io`].
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
///
/// # Panics
/// When an accepted note differs from the bytes read.
pub fn fuzz_notes(bytes: &[u8]) {
    super::record::fuzz(bytes);
    if let Some(plan) = std::str::from_utf8(bytes).ok().and_then(check_plan) {
        assert!(bytes.ends_with(plan.as_bytes()));
    }
}
