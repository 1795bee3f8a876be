//! Ranges of the pages of data in place: computed in one bounded pass, kept in the cache.
//!
//! # Theory
//! A page's range covers all cells whose low corner lies in it. So it includes the first layer of the pages that
//! follow. One page alone yields eight ranges, one for each set of axes: over its voxels whose index is 0 along these
//! axes. Each is joined to the page that lies one before it along these axes. So every page is read once, in any order,
//! and no two are needed at a time.

use crate::limits::{charge_other, fetch_error};
use crate::session::{ProgressWatch, Session};
use crate::volume::PageSet;
use convert::commit::{check_target, take_place};
use convert::disk::{Disk, Partial};
use convert::grid::{write_level, LevelRows, Order};
use convert::volume::number::{elements, VoxelNumber};
use field::error::FieldError;
use field::file::Digest;
use field::store::layout::ArrayLayout;
use field::store::metadata::ArraySeal;
use field::volume::store::{RangeDocument, RangedArray, RANGE_STEP};
use field::volume::{Brick, Volume, VolumeArray};
use field::with_voxel;
use pager::{Lookup, PageErrorKind, PageId, PagerError};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// One part in this many of the limit goes to the pages that all threads have at a time. Ranges in memory get as much.
const SHARE: u64 = 8;
/// Most pages that a thread requests at once.
const AT_ONCE: u64 = 32;
/// Interval of calls of the caller's watch.
const TELL_EVERY: Duration = Duration::from_millis(50);
/// Sets of axes.
const SETS: usize = 8;

/// The result of [`build_ranges`].
#[derive(Clone, Debug, PartialEq)]
pub struct RangesReport {
    /// The ranges.
    pub known: RangeDocument,
    /// Pages read; 0 if all ranges were known.
    pub pages: u64,
}

/// Computes the ranges of an open volume's pages in the folder `dst` of the cache, unless they exist. `state` is the
/// state of the volume's files, and an outdated folder is replaced. If another run computes the same, this one waits
/// for it. A failed page gets an unbounded range, so that any use of it meets the error.
///
/// # Errors
/// [`FieldError::Io`], as on a full disk; [`FieldError::LimitTooSmall`]; [`FieldError::Interrupted`].
pub fn build_ranges(
    session: &Session,
    dst: &Path,
    state: Digest,
    watch: &mut ProgressWatch<'_>,
) -> Result<RangesReport, FieldError> {
    let arrays = ranged(session.volume()?);
    let known = |arrays: &[RangedArray]| RangeDocument::open(dst, state, arrays);
    if let Some(known) = known(&arrays) {
        return Ok(RangesReport { known, pages: 0 });
    }
    let disk = &Disk::default();
    if let Some(parent) = dst.parent() {
        disk.create_dir(parent)?;
    }
    let mut wait = || watch("waiting for another run", 0.0, 0.0);
    let partial = Partial::lock(disk, dst, Some(&mut wait))?;
    // Another run may have computed them meanwhile.
    if let Some(known) = known(&arrays) {
        partial.remove(disk)?;
        return Ok(RangesReport { known, pages: 0 });
    }
    let made = make(session, disk, &partial, state, &arrays, watch);
    if made.is_err() {
        // A half-made folder is of no use.
        partial.clear(disk)?;
        partial.remove_empty();
        return made;
    }
    take_place(disk, partial, dst, &check_target(dst, true, false)?)?;
    made
}

/// The arrays of a volume whose pages have ranges.
fn ranged(volume: &Volume) -> Vec<RangedArray> {
    let levels = volume.levels.iter().enumerate();
    let of = |(n, level): (usize, &field::volume::VolumeLevel)| {
        let each = level.arrays.iter().enumerate();
        each.map(|(g, a)| RangedArray::of(n, g, a, volume.steps)).collect::<Vec<_>>()
    };
    levels.flat_map(of).collect()
}

fn make(
    session: &Session,
    disk: &Disk,
    partial: &Partial,
    state: Digest,
    arrays: &[RangedArray],
    watch: &mut ProgressWatch<'_>,
) -> Result<RangesReport, FieldError> {
    let volume = session.volume()?;
    partial.check_own()?;
    partial.clear(disk)?;
    let (store, units) = (partial.store(), partial.units());
    disk.create_dir(&units)?;
    disk.create_dir(&store)?;
    let limit = session.pager.ledger().limit();
    let most = usize::try_from(limit / SHARE / 2).unwrap_or(usize::MAX);
    // Two levels of ranges are in memory at once, beside the strip of the finest pages that is written.
    let strip = |a: &RangedArray| {
        let layouts = a.layouts();
        let of = |l: &ArrayLayout| {
            let p = l.grid.paging;
            (p.dims[0] * p.page[1] * p.page[2] * l.components() * 8 + 2 * l.page_bytes()) as u64
        };
        let entries = a.pages.iter().map(|n| u64::from(*n)).product::<u64>() * 16 * a.components as u64;
        layouts.iter().map(of).max().unwrap_or(0) + 2 * entries.min(most as u64)
    };
    let bytes = arrays.iter().map(strip).max().unwrap_or(0);
    let _charged = charge_other(&session.pager, bytes, "making the ranges of pages")?;
    let total = volume.levels.iter().flat_map(|l| &l.arrays);
    let total = total.map(|a| a.translation.count() * if a.steady { 1 } else { u64::from(volume.steps) }).sum();
    let mut known = RangeDocument { state, arrays: arrays.to_vec(), seen: Vec::new(), failed: 0 };
    let mut done = 0;
    known.seen = vec![[f64::INFINITY, f64::NEG_INFINITY]; volume.spec.channels.len()];
    let mut paths = vec![store.clone(), store.join("_farfield")];
    for ranged in arrays {
        let array = &volume.levels[ranged.level].arrays[ranged.group];
        let layouts = ranged.layouts();
        for layout in &layouts {
            let folder = store.join(&layout.path);
            disk.create_dir(&folder)?;
            // For other readers; ours derives these documents.
            let document = folder.join("zarr.json");
            disk.write(&document, &layout.document())?;
            paths.extend([folder, document]);
        }
        for step in 0..ranged.steps {
            let dims = ranged.pages.map(|n| n as usize);
            let scratch = |n: usize| units.join(format!("ranges.{n}"));
            let written = PageSet::of(session, array, step as u32);
            // A join keeps the fill value of an entry. So entries of cells without fill are cleared.
            let nothing = array.vacant.as_ref().map(|v| v.range().map(f64::from).repeat(ranged.components));
            let mut entries = match &nothing {
                Some(entry) if written.few(2 * ranged.components, most) => {
                    let mut grid = LevelRows::sparse(dims, Order::Pairs, entry.clone());
                    written.clear(disk, &mut grid)?;
                    grid
                }
                _ => LevelRows::new(disk, &scratch(0), dims, 2 * ranged.components, Order::Pairs, most)?,
            };
            if let (Some(entry), false) = (&nothing, entries.is_sparse()) {
                written.lay(disk, &mut entries, entry)?;
            }
            let pass = RangePass { session, array, step: step as u32, disk, written: &written };
            known.failed += pass.run(&mut entries, (done, total), watch)?;
            done += written.count();
            written.answered(session, array);
            for (n, layout) in layouts.iter().enumerate() {
                if n > 0 {
                    entries = entries.coarser(disk, &scratch(n), layout.grid.paging.dims, RANGE_STEP, most)?;
                }
                write_level(disk, &store, layout, step, &entries, &mut ArraySeal { bytes: 0, pages: 0 })?;
                paths.extend((0..layout.grid.count()).map(|s| store.join(layout.shard_path(step, s))));
            }
            if ranged.level == 0 {
                let mut whole = vec![0.0; 2 * ranged.components];
                entries.get(0, 0, 0, &mut whole)?;
                for (channel, pair) in array.channels.iter().zip(whole.chunks_exact(2)) {
                    let seen = &mut known.seen[*channel];
                    *seen = [seen[0].min(pair[0]), seen[1].max(pair[1])];
                }
            }
            (0..layouts.len()).try_for_each(|n| disk.remove(&scratch(n)))?;
        }
    }
    disk.sync_paths(&store, &paths)?;
    let root_path = store.join("zarr.json");
    let file = disk.write(&root_path, &known.document())?;
    disk.sync(&file, &root_path)?;
    disk.sync_dir(&store)?;
    Ok(RangesReport { known, pages: done })
}

struct RangePass<'p> {
    session: &'p Session,
    array: &'p VolumeArray,
    step: u32,
    disk: &'p Disk,
    /// The pages to read. Those never written are known.
    written: &'p PageSet,
}

struct RangeState<'g> {
    entries: &'g mut LevelRows,
    error: Option<FieldError>,
    failed: u64,
    alive: usize,
}

impl RangePass<'_> {
    /// Reads all pages on all threads. Returns how many fail.
    fn run(
        &self,
        entries: &mut LevelRows,
        (before, total): (u64, u64),
        watch: &mut ProgressWatch<'_>,
    ) -> Result<u64, FieldError> {
        let count = self.written.count();
        let limit = self.session.pager.ledger().limit();
        let workers = (self.session.threads() as u64).clamp(1, count.clamp(1, 64)) as usize;
        let each = 2 * self.array.brick.bytes() as u64;
        let at_once = (limit / SHARE / workers as u64 / each).clamp(1, AT_ONCE);
        let shared = Mutex::new(RangeState { entries, error: None, failed: 0, alive: workers });
        let (next, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let ended = Condvar::new();
        let work = || loop {
            let from = next.fetch_add(at_once, Relaxed);
            if from >= count || stop.load(Relaxed) {
                return;
            }
            let to = (from + at_once).min(count);
            if let Err(e) = self.some(&self.written.numbers(from, to), &shared) {
                stop.store(true, Relaxed);
                lock(&shared).error.get_or_insert(e);
            }
            done.fetch_add(to - from, Relaxed);
        };
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    let _leave = RangeWorkerExit { shared: &shared, ended: &ended };
                    work();
                });
            }
            loop {
                if !watch("finding ranges", (before + done.load(Relaxed)) as f64, total as f64) {
                    stop.store(true, Relaxed);
                }
                let state = lock(&shared);
                if state.alive == 0 {
                    break;
                }
                drop(ended.wait_timeout(state, TELL_EVERY).unwrap_or_else(PoisonError::into_inner));
            }
        });
        let RangeState { error, failed, .. } = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        match error {
            Some(e) => Err(e),
            None if done.load(Relaxed) < count => Err(FieldError::Interrupted),
            None => Ok(failed),
        }
    }

    /// Reads pages together, and one by one if one of them fails.
    fn some(&self, numbers: &[u64], shared: &Mutex<RangeState<'_>>) -> Result<(), FieldError> {
        let pager = &self.session.pager;
        let ids: Vec<PageId> = numbers.iter().map(|n| PageId::new(self.array.id, self.step, *n)).collect();
        let one = numbers.len() == 1;
        let nc = self.array.brick.components;
        match pager.fetch(&ids) {
            Ok(hold) => {
                let mut worker = pager.worker();
                let mut found = Vec::with_capacity(ids.len() * SETS * nc * 2);
                for id in &ids {
                    let Lookup::Here(frame) = worker.page(*id) else {
                        return Err(FieldError::Internal("a held page is absent"));
                    };
                    let (_, inside) = self.array.translation.extent(id.page);
                    limits(&self.array.brick, inside, frame, &mut found);
                }
                worker.release();
                drop(hold);
                // A reader that knows a page's range does not read a page of one value. `info --ranges` over 5,000 such
                // pages took 1.8 s with fresh memory for each, and 0.46 s since their memory is given back.
                let alike = |found: &[f64]| found.chunks_exact(2).all(|range| range[0] == range[1]);
                let sets = found.chunks_exact(SETS * nc * 2).zip(&ids);
                let same: Vec<PageId> = sets.filter(|(found, _)| alike(found)).map(|(_, id)| *id).collect();
                pager.give_back_pages(&same);
                self.join(numbers, &found, shared)
            }
            Err(PagerError::Page(e)) if !matches!(e.kind, PageErrorKind::TooLarge { .. }) => {
                if !one {
                    return numbers.chunks(1).try_for_each(|n| self.some(n, shared));
                }
                lock(shared).failed += 1;
                self.join(numbers, &[f64::NEG_INFINITY, f64::INFINITY].repeat(SETS * nc), shared)
            }
            Err(e) => match fetch_error(pager, e, (ids.len() * self.array.brick.bytes()) as u64, 0) {
                FieldError::LimitTooSmall { .. } if !one => numbers.chunks(1).try_for_each(|n| self.some(n, shared)),
                e => Err(e),
            },
        }
    }

    /// Joins the ranges found in pages to the entries that they belong to.
    fn join(&self, numbers: &[u64], found: &[f64], shared: &Mutex<RangeState<'_>>) -> Result<(), FieldError> {
        let [ni, nj, _] = self.array.translation.pages.map(u64::from);
        let one = 2 * self.array.brick.components;
        let mut shared = lock(shared);
        for (n, sets) in numbers.iter().copied().zip(found.chunks_exact(SETS * one)) {
            let at = [n % ni, n / ni % nj, n / ni / nj];
            for (set, row) in sets.chunks_exact(one).enumerate() {
                let before = |a: usize| at[a].checked_sub((set >> a & 1) as u64).map(|n| n as usize);
                if let (Some(i), Some(j), Some(k)) = (before(0), before(1), before(2)) {
                    shared.entries.join(self.disk, j, k, i, row)?;
                }
            }
        }
        Ok(())
    }
}

fn lock<'l, 'g>(shared: &'l Mutex<RangeState<'g>>) -> std::sync::MutexGuard<'l, RangeState<'g>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a thread out however it ends, so that no waiter waits for ever.
struct RangeWorkerExit<'l, 'g> {
    shared: &'l Mutex<RangeState<'g>>,
    ended: &'l Condvar,
}

impl Drop for RangeWorkerExit<'_, '_> {
    fn drop(&mut self) {
        lock(self.shared).alive -= 1;
        self.ended.notify_all();
    }
}

/// Adds the lowest and highest value of each component for each set of axes (bit a: axis a). `inside` is the number of
/// a page's voxels along i, j, k that belong to the volume.
fn limits(brick: &Brick, inside: [u32; 3], frame: &[u8], out: &mut Vec<f64>) {
    with_voxel!(brick.voxel, T => limits_of::<T>(brick, inside, &frame[..brick.voxel_bytes()], out));
}

fn limits_of<T: VoxelNumber>(brick: &Brick, inside: [u32; 3], bytes: &[u8], out: &mut Vec<f64>) {
    let voxels: &[T] = elements(bytes);
    let nc = brick.components;
    let [ni, nj, nk] = inside.map(|n| n as usize);
    let (row, plane) = (brick.page[0] as usize * nc, brick.page[0] as usize * brick.page[1] as usize * nc);
    let mut pairs = vec![(T::LARGEST, T::SMALLEST); SETS * nc];
    for k in 0..nk {
        for j in 0..nj {
            let line = &voxels[k * plane + j * row..][..ni * nc];
            // Sets without i, of the axes along which this row is the first.
            let sets = usize::from(j == 0) << 1 | usize::from(k == 0) << 2;
            for c in 0..nc {
                let (mut low, mut high) = (T::LARGEST, T::SMALLEST);
                if nc == 1 {
                    for &x in line {
                        low = if x < low { x } else { low };
                        high = if x > high { x } else { high };
                    }
                } else {
                    for &x in line.iter().skip(c).step_by(nc) {
                        low = if x < low { x } else { low };
                        high = if x > high { x } else { high };
                    }
                }
                let first = line[c];
                for set in [0, 2, 4, 6].into_iter().filter(|set| set & !sets == 0) {
                    widen(&mut pairs[set * nc + c], low, high);
                    widen(&mut pairs[(set | 1) * nc + c], first, first);
                }
            }
        }
    }
    for (low, high) in pairs {
        let none = low > high;
        let (low, high) = if none { (f32::INFINITY, f32::NEG_INFINITY) } else { (low.below(), high.above()) };
        out.extend([f64::from(low), f64::from(high)]);
    }
}

/// NaN compares false and is left out.
fn widen<T: VoxelNumber>(pair: &mut (T, T), low: T, high: T) {
    pair.0 = if low < pair.0 { low } else { pair.0 };
    pair.1 = if high > pair.1 { high } else { pair.1 };
}
