//! Concurrent reading, encoding, writing and syncing.
//!
//! One thread fills slabs (with helpers, so that a disk has several reads to work on), and the caller's thread and its
//! workers encode. One thread writes, and two wait for the disk. Buffers circulate, and a thread without one waits. So
//! memory is as planned, however slow any part is.

use super::aligned::AlignedBytes;
use super::disk::Disk;
use super::piece::Encoded;
use super::plan::{ShardPiece, BUFFERS};
use super::record::Record;
use super::shard::{ShardWriter, WrittenShard};
use super::Spans;
use field::error::FieldError;
use field::store::layout::ShardGrid;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::scope;

/// Threads that wait for the disk.
const COMMITTERS: usize = 2;

/// The first error stops all threads.
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
    /// The value, or `None` after storing the error.
    fn check<T>(&self, r: Result<T, FieldError>) -> Option<T> {
        r.map_err(|e| self.set(e)).ok()
    }
}

/// The threads' work for any kind of data. A unit is one shard, read in pieces.
pub(super) trait Conversion: Sync {
    /// The pieces of a unit, in the order of their pages' slots.
    fn pieces(&self, unit: usize) -> Vec<ShardPiece>;
    /// Bytes of a piece's values, and of all bytes read for it.
    fn piece_bytes(&self, piece: &ShardPiece) -> (usize, usize);
    /// Bytes of the largest piece.
    fn slab_bytes(&self) -> usize;
    /// Reads a piece.
    fn read(&self, piece: &ShardPiece, out: &mut [u8]) -> Result<(), FieldError>;
    /// The record of a unit without finished pages.
    fn begin(&self, unit: usize) -> Record;
    /// Encodes a piece's pages and adds the piece's part to the record.
    fn encode(&self, piece: &ShardPiece, bytes: &[u8], record: &mut Record, out: &mut Output)
        -> Result<(), FieldError>;
    /// The grid of the unit's shards, the unit's shard number, and its file below the store; `None` if no shards are
    /// written.
    fn shard(&self, unit: usize) -> Option<(&ShardGrid, u64, String)>;
    /// Stores a piece's results beside its pages.
    fn keep(&self, _disk: &Disk, _piece: &ShardPiece, _aside: &[u8]) -> Result<(), FieldError> {
        Ok(())
    }
    /// Syncs the results of [`Self::keep`] for a unit to disk.
    fn settle(&self, _disk: &Disk, _unit: usize) -> Result<(), FieldError> {
        Ok(())
    }
    /// Receives the threads' spans of work.
    fn spans(&self) -> &Spans;
}

/// The result of a piece.
#[derive(Default)]
pub(super) struct Output {
    /// Its pages, in the order of their slots.
    pub pages: Vec<Encoded>,
    /// Results beside the pages: this many bytes of that memory.
    pub aside: AlignedBytes,
    pub aside_bytes: usize,
}

/// A slab with its values.
struct Filled {
    piece: ShardPiece,
    words: AlignedBytes,
}

struct EncodedPiece {
    piece: ShardPiece,
    output: Output,
    /// On the unit's last piece.
    record: Option<Record>,
}

/// A unit that waits for its sync.
struct PendingSync {
    shard: Option<WrittenShard>,
    record: Record,
}

/// The places of files.
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

/// Converts the units of `todo`. `progress` gets bytes of the source done since the start of this call, and returns
/// whether to continue.
pub(super) fn run<J: Conversion>(
    plan: &J,
    disk: &Disk,
    places: &Places<'_>,
    todo: &[usize],
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(), FieldError> {
    let failure = Failure::default();
    let (fill, filled) = sync_channel::<Filled>(BUFFERS);
    let (return_slab, slabs) = channel::<AlignedBytes>();
    let (ready, to_write) = sync_channel::<EncodedPiece>(BUFFERS);
    let (return_pages, pages) = channel::<Output>();
    let (close, closing) = sync_channel::<PendingSync>(0);
    // Each end of a channel belongs to the threads that use it, so waiting threads notice one that stops early.
    let closing = Arc::new(Mutex::new(closing));
    for _ in 0..BUFFERS {
        // The receivers exist, so the send cannot fail.
        let _taken = return_slab.send(AlignedBytes::default());
        let _taken = return_pages.send(Output::default());
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

fn read_all<J: Conversion>(
    plan: &J,
    todo: &[usize],
    failure: &Failure,
    slabs: Receiver<AlignedBytes>,
    fill: SyncSender<Filled>,
) {
    for &unit in todo {
        for piece in plan.pieces(unit) {
            let Ok(mut words) = slabs.recv() else { return };
            if failure.stopped() {
                return;
            }
            let (_, bytes) = plan.piece_bytes(&piece);
            if words.bytes().len() < bytes {
                // The old one is dropped first.
                drop(words);
                words = AlignedBytes::new(plan.slab_bytes().max(bytes));
            }
            let read = || plan.read(&piece, &mut words.bytes_mut()[..bytes]);
            if failure.check(plan.spans().time("read", read)).is_none() {
                return;
            }
            if fill.send(Filled { piece, words }).is_err() {
                return;
            }
        }
    }
}

fn encode_all<J: Conversion>(
    plan: &J,
    failure: &Failure,
    filled: Receiver<Filled>,
    return_slab: Sender<AlignedBytes>,
    pages: Receiver<Output>,
    ready: SyncSender<EncodedPiece>,
    progress: &mut dyn FnMut(u64) -> bool,
) {
    let mut record = Record::default();
    let mut read = 0;
    while let Ok(Filled { piece, words }) = filled.recv() {
        if piece.first {
            record = plan.begin(piece.unit);
        }
        let Ok(mut output) = pages.recv() else { break };
        let (values, bytes) = plan.piece_bytes(&piece);
        let encode = || plan.encode(&piece, &words.bytes()[..bytes], &mut record, &mut output);
        if failure.check(plan.spans().time("encode", encode)).is_none() {
            break;
        }
        // The receiver may have stopped on an error, which it has stored.
        let _nobody = return_slab.send(words);
        let record = piece.last.then(|| std::mem::take(&mut record));
        if ready.send(EncodedPiece { piece, output, record }).is_err() {
            break;
        }
        read += values as u64;
        if !progress(read) {
            failure.set(FieldError::Interrupted);
        }
        if failure.stopped() {
            break;
        }
    }
}

fn write_all<J: Conversion>(
    plan: &J,
    disk: &Disk,
    places: &Places<'_>,
    failure: &Failure,
    to_write: Receiver<EncodedPiece>,
    return_pages: Sender<Output>,
    close: SyncSender<PendingSync>,
) {
    let mut shard: Option<ShardWriter> = None;
    while let Ok(EncodedPiece { piece, output, record }) = to_write.recv() {
        let of = plan.shard(piece.unit);
        if let Some((grid, number, path)) = &of {
            if piece.first {
                let new = ShardWriter::new(disk, places.store, path, grid, *number);
                let Some(new) = failure.check(new) else { return };
                shard = Some(new);
            }
            for part in &output.pages {
                let Some(shard) = &mut shard else { return };
                let write = || shard.append(disk, grid, &part.bytes, &part.lens);
                if failure.check(plan.spans().time("write", write)).is_none() {
                    return;
                }
            }
        }
        let aside = &output.aside.bytes()[..output.aside_bytes];
        if failure.check(plan.keep(disk, &piece, aside)).is_none() {
            return;
        }
        // The receiver may have stopped on an error, which it has stored.
        let _nobody = return_pages.send(output);
        let Some(record) = record else { continue };
        let finished = match (shard.take(), &of) {
            (Some(s), Some((grid, _, _))) => match failure.check(s.finish(disk, grid)) {
                Some(f) => Some(f),
                None => return,
            },
            _ => None,
        };
        if close.send(PendingSync { shard: finished, record }).is_err() {
            return;
        }
    }
}

fn commit_all<J: Conversion>(
    plan: &J,
    disk: &Disk,
    places: &Places<'_>,
    failure: &Failure,
    closing: &Mutex<Receiver<PendingSync>>,
) {
    loop {
        let next = closing.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(PendingSync { shard, mut record }) = next else { return };
        if let Some(s) = shard {
            // The record validates the shard, so the shard must be on disk first.
            if failure.check(plan.spans().time("sync", || disk.sync(&s.file, &s.path))).is_none() {
                return;
            }
            record.shard_bytes = s.bytes;
            record.index_crc = s.index_crc;
            record.seal = s.seal;
        }
        let unit = usize::try_from(record.unit).unwrap_or(usize::MAX);
        if failure.check(plan.settle(disk, unit)).is_none() {
            return;
        }
        let path = places.record(unit);
        if failure.check(record.write(disk, &path)).is_none() {
            return;
        }
    }
}
