//! Reading, encoding, writing and making durable, each while the others go on.
//!
//! One thread fills slabs (with helpers, so that a disk has several reads to work on), the caller's thread and its
//! workers encode, one thread writes, two wait for the disk. Buffers travel in circles: who has none waits, so memory is
//! what the plan says however slow any part is.

use super::disk::Disk;
use super::piece::{Encoded, Work};
use super::plan::{Piece, Plan, Slab, BUFFERS};
use super::record::Record;
use super::shard::{Finished, ShardWriter};
use super::words::Words;
use field::error::FieldError;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::scope;

/// Reads that are under way at once, for disks that answer several faster than one.
pub(super) const READS: usize = 4;
/// Threads that wait for the disk.
const COMMITTERS: usize = 2;
/// A read is not cut in parts below this.
pub(super) const READ_BYTES: usize = 256 << 10;

/// The first error stops everything.
#[derive(Default)]
struct Failure {
    stop: AtomicBool,
    first: Mutex<Option<FieldError>>,
}

impl Failure {
    fn set(&self, e: FieldError) {
        self.stop.store(true, Ordering::SeqCst);
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
    }
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
    /// The value, or `None` after noting the error.
    fn check<T>(&self, r: Result<T, FieldError>) -> Option<T> {
        r.map_err(|e| self.set(e)).ok()
    }
}

/// A slab that was read.
struct Filled {
    piece: Piece,
    slab: Slab,
    words: Words,
}

/// A piece that was encoded.
struct Ready {
    unit: usize,
    first: bool,
    pages: Vec<Encoded>,
    /// On the unit's last piece.
    record: Option<Record>,
}

/// A unit that waits to become durable.
struct Closing {
    shard: Option<Finished>,
    record: Record,
}

/// Where things lie.
pub(super) struct Places<'a> {
    pub store: &'a Path,
    pub units: &'a Path,
}

impl Places<'_> {
    /// A unit's record.
    pub fn record(&self, unit: usize) -> std::path::PathBuf {
        self.units.join(unit.to_string())
    }
}

/// Does the units of `todo`. `progress` gets bytes of the source done since the start of this call and answers whether to
/// go on.
pub(super) fn run(
    plan: &Plan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    todo: &[usize],
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(), FieldError> {
    let failure = Failure::default();
    let (fill, filled) = sync_channel::<Filled>(BUFFERS);
    let (return_slab, slabs) = channel::<Words>();
    let (ready, to_write) = sync_channel::<Ready>(BUFFERS);
    let (return_pages, pages) = channel::<Vec<Encoded>>();
    let (close, closing) = sync_channel::<Closing>(0);
    // Each end of a channel belongs to the threads that use it, so whoever stops early is noticed by those who wait.
    let closing = Arc::new(Mutex::new(closing));
    for _ in 0..BUFFERS {
        // The receivers are there, so nothing is lost.
        let _taken = return_slab.send(Words::default());
        let _taken = return_pages.send(Vec::new());
    }
    scope(|threads| {
        let failure = &failure;
        threads.spawn(move || read_all(plan, todo, failure, slabs, fill));
        threads.spawn(move || write_all(plan, disk, places, failure, to_write, return_pages, close));
        for _ in 0..COMMITTERS {
            let closing = closing.clone();
            threads.spawn(move || commit_all(plan, disk, places, failure, &closing));
        }
        drop(closing);
        encode_all(plan, failure, filled, return_slab, pages, ready, progress);
    });
    match failure.first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(e) => Err(e),
        None => Ok(()),
    }
}

fn read_all(plan: &Plan<'_>, todo: &[usize], failure: &Failure, slabs: Receiver<Words>, fill: SyncSender<Filled>) {
    for &unit in todo {
        for piece in plan.pieces(unit) {
            let Ok(mut words) = slabs.recv() else { return };
            if failure.stopped() {
                return;
            }
            let u = &plan.units[unit];
            let slab = plan.slab(u.zone, u.array, &piece.pages);
            if words.bytes().len() < slab.bytes {
                // The old one goes first.
                drop(words);
                words = Words::new(plan.slab_bytes.max(slab.bytes));
            }
            if failure.check(plan.spans.time("read", || read_slab(plan, unit, &slab, words.bytes_mut()))).is_none() {
                return;
            }
            if fill.send(Filled { piece, slab, words }).is_err() {
                return;
            }
        }
    }
}

/// Some rows of one plane of one component.
struct Part<'b> {
    array: usize,
    step: usize,
    component: usize,
    k: usize,
    j: usize,
    out: &'b mut [u8],
}

/// Reads all components' planes of a slab, several at once.
pub(super) fn read_slab(plan: &Plan<'_>, unit: usize, slab: &Slab, bytes: &mut [u8]) -> Result<(), FieldError> {
    let u = &plan.units[unit];
    let size = plan.layout(u).dtype.size();
    let dims = plan.zones[u.zone].paging.dims;
    let arrays = &plan.input.arrays[u.zone];
    let [ni, nj, nk] = slab.size;
    let mut parts = Vec::new();
    let (values, behind) = bytes.split_at_mut(slab.values.next_multiple_of(8));
    if arrays[u.array].rows.by_boxes() {
        // A page of such a source holds pieces of many rows, which would each decode all of it.
        arrays[u.array].rows.read_box(u.step, &slab.points, &mut values[..slab.values])?;
        if let (true, Some(array)) = (slab.iblank, plan.boxes_of(u.zone, u.array).1) {
            let len = slab.bytes - slab.values.next_multiple_of(8);
            arrays[array].rows.read_box(plan.iblank_step(u.zone, array, u.step), &slab.points, &mut behind[..len])?;
        }
        return Ok(());
    }
    // Long planes are cut so that reads can go side by side.
    let row = ni * size;
    let rows = (READ_BYTES.max((row * nj).div_ceil(READS)) / row).max(1);
    for (n, out) in values[..slab.values].chunks_exact_mut(row * nj).enumerate() {
        for (m, out) in out.chunks_mut(rows * row).enumerate() {
            let (k, j) = (slab.points[2].start + n % nk, slab.points[1].start + m * rows);
            parts.push(Part { array: u.array, step: u.step, component: n / nk, k, j, out });
        }
    }
    if let (true, Some(array)) = (slab.iblank, plan.boxes_of(u.zone, u.array).1) {
        let step = plan.iblank_step(u.zone, array, u.step);
        let len = slab.bytes - slab.values.next_multiple_of(8);
        for (n, out) in behind[..len].chunks_exact_mut(ni * nj * 4).enumerate() {
            let (k, j) = (slab.points[2].start + n, slab.points[1].start);
            parts.push(Part { array, step, component: 0, k, j, out });
        }
    }
    let one = |p: &mut Part<'_>| -> Result<(), FieldError> {
        let source = &arrays[p.array].rows;
        let size = plan.zones[u.zone].arrays[p.array].dtype.size();
        let (row, whole) = (ni * size, dims[0] * size);
        let count = p.out.len() / row;
        if ni == dims[0] {
            return source.read_rows(p.step, p.component, p.k, p.j..p.j + count, p.out);
        }
        // Only some columns: whole rows pass through a small buffer.
        let most = (READ_BYTES / whole).max(1);
        let mut buffer = vec![0; most.min(count) * whole];
        let skip = slab.points[0].start * size;
        for (n, out) in p.out.chunks_mut(most * row).enumerate() {
            let buffer = &mut buffer[..out.len() / row * whole];
            let j = p.j + n * most;
            source.read_rows(p.step, p.component, p.k, j..j + out.len() / row, buffer)?;
            for (out, from) in out.chunks_exact_mut(row).zip(buffer.chunks_exact(whole)) {
                out.copy_from_slice(&from[skip..skip + row]);
            }
        }
        Ok(())
    };
    let total: usize = parts.iter().map(|p| p.out.len()).sum();
    let readers = READS.min(total / READ_BYTES).min(parts.len());
    if readers <= 1 {
        return parts.iter_mut().try_for_each(one);
    }
    // In the order of the file, whoever is free: the system's read-ahead sees one stream.
    let parts: Vec<Mutex<_>> = parts.into_iter().map(Mutex::new).collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), FieldError> {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(e) = one(&mut part.lock().unwrap_or_else(PoisonError::into_inner)) {
                next.store(usize::MAX / 2, Ordering::Relaxed);
                return Err(e);
            }
        }
        Ok(())
    };
    scope(|threads| {
        let others: Vec<_> = (1..readers).map(|_| threads.spawn(work)).collect();
        let mut done = work();
        for t in others {
            let result = t.join().unwrap_or_else(|_| Err(FieldError::Usage("a reader stopped".into())));
            if done.is_ok() {
                done = result;
            }
        }
        done
    })
}

#[allow(clippy::too_many_arguments)] // the ends of all channels that the thread owns
fn encode_all(
    plan: &Plan<'_>,
    failure: &Failure,
    filled: Receiver<Filled>,
    return_slab: Sender<Words>,
    pages: Receiver<Vec<Encoded>>,
    ready: SyncSender<Ready>,
    progress: &mut dyn FnMut(u64) -> bool,
) {
    let mut record = Record::default();
    let mut read = 0;
    while let Ok(Filled { piece, slab, words }) = filled.recv() {
        let unit = &plan.units[piece.unit];
        if piece.first {
            let (ranges, boxes) = plan.record_sizes(unit);
            record = Record {
                unit: piece.unit as u64,
                uniform: plan.uniform_of(unit.zone, unit.array).is_some(),
                ranges: vec![0.0; ranges],
                boxes: vec![field::boxes::EMPTY; boxes],
                ..Record::default()
            };
        }
        let Ok(mut out) = pages.recv() else { break };
        let done = slab.values as u64;
        let bytes = words.bytes();
        let work = Work { plan, unit: piece.unit, pages: piece.pages, slab, bytes };
        if failure.check(plan.spans.time("encode", || work.run(&mut record, &mut out))).is_none() {
            break;
        }
        // Who takes it back may have stopped on an error, which it has noted.
        let _nobody = return_slab.send(words);
        let record = piece.last.then(|| std::mem::take(&mut record));
        if ready.send(Ready { unit: piece.unit, first: piece.first, pages: out, record }).is_err() {
            break;
        }
        read += done;
        if !progress(read) {
            failure.set(FieldError::Interrupted);
        }
        if failure.stopped() {
            break;
        }
    }
}

fn write_all(
    plan: &Plan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    failure: &Failure,
    to_write: Receiver<Ready>,
    return_pages: Sender<Vec<Encoded>>,
    close: SyncSender<Closing>,
) {
    let mut shard: Option<ShardWriter> = None;
    while let Ok(Ready { unit, first, pages, record }) = to_write.recv() {
        let u = &plan.units[unit];
        let layout = plan.layout(u);
        if plan.data {
            if first {
                let path = places.store.join(layout.shard_path(u.step, u.shard));
                let Some(new) = failure.check(ShardWriter::new(disk, path, layout, u.shard)) else { return };
                shard = Some(new);
            }
            for part in &pages {
                let Some(shard) = &mut shard else { return };
                if failure
                    .check(plan.spans.time("write", || shard.append(disk, layout, &part.bytes, &part.lens)))
                    .is_none()
                {
                    return;
                }
            }
        }
        // Who takes it back may have stopped on an error, which it has noted.
        let _nobody = return_pages.send(pages);
        let Some(record) = record else { continue };
        let finished = match shard.take() {
            Some(s) => match failure.check(s.finish(disk, layout)) {
                Some(f) => Some(f),
                None => return,
            },
            None => None,
        };
        if close.send(Closing { shard: finished, record }).is_err() {
            return;
        }
    }
}

fn commit_all(
    plan: &Plan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    failure: &Failure,
    closing: &Mutex<Receiver<Closing>>,
) {
    loop {
        let next = closing.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Closing { shard, mut record }) = next else { return };
        if let Some(s) = shard {
            // The record vouches for the shard, so the shard must be on disk first.
            if failure.check(plan.spans.time("sync", || disk.sync(&s.file, &s.path))).is_none() {
                return;
            }
            record.shard_bytes = s.bytes;
            record.index_crc = s.index_crc;
            record.seal = s.seal;
        }
        let path = places.record(usize::try_from(record.unit).unwrap_or(usize::MAX));
        if failure.check(record.write(disk, &path)).is_none() {
            return;
        }
    }
}
