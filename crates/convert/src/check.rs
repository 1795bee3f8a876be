//! Checks every byte of a store on all workers: checksums, lengths, shapes, files that are missing and files that are not expected.

use crate::ChargeMemory;
use field::error::FieldError;
use field::store::{Buffers, ShardId, ShardSeal, Store, StoreCheck, Validation};
use field::volume::store::VolumeStore;
use pager::Event;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Candidate read sizes; the first that fits is used. The largest gives a disk's best rate, and the others suit little
/// memory.
const READ_BYTES: [usize; 4] = [4 << 20, 1 << 20, 256 << 10, 0];
/// Bytes of a decoder, for each worker.
const CONTEXT: usize = 256 << 10;
/// Bytes of a shard during the checks of others: its expected name, its seal, and its place in the list.
const KEPT: usize = 256;
/// Interval of progress reports and interruption checks.
const TELL_EVERY: Duration = Duration::from_millis(50);

/// Receives events of a validation, on any thread.
pub type EventCallback<'a> = dyn Fn(Event) + Sync + 'a;

/// The common data of the workers.
#[derive(Default)]
struct CheckState {
    found: Validation,
    seals: Vec<ShardSeal>,
    /// Results that precede those of earlier shards: they are reported in the order of the store.
    early: BTreeMap<u32, (Validation, ShardSeal)>,
    error: Option<FieldError>,
    /// Workers still running.
    alive: usize,
}

/// Checks every byte of the store at `path` on up to `workers` threads: checksums, lengths, shapes, missing and
/// unexpected files. `charge` is called for their buffers before they are allocated. `progress` gets the finished bytes
/// and all, and returns whether to continue.
///
/// # Errors
/// The errors of [`Store::open`] for damaged documents, [`FieldError::LimitTooSmall`], [`FieldError::Interrupted`].
/// Damaged pages are no error; they are in the [`Validation`].
pub fn check_store(
    path: &Path,
    workers: usize,
    charge: &ChargeMemory<'_>,
    told: Option<&EventCallback<'_>>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Validation, FieldError> {
    if VolumeStore::is_volume(path) {
        return check(&VolumeStore::open(path)?.checked(), workers, charge, told, progress);
    }
    check(&Store::open(path)?.checked(), workers, charge, told, progress)
}

fn check(
    store: &StoreCheck<'_>,
    workers: usize,
    charge: &ChargeMemory<'_>,
    told: Option<&EventCallback<'_>>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Validation, FieldError> {
    let total = store.bytes();
    let count = store.shards().count();
    let (workers, read_bytes, _charged) = room_for_workers(store, count, workers, charge)?;
    if let Some(told) = told {
        for (n, a) in store.arrays().enumerate() {
            let p = a.form().grid.paging;
            let [pages_i, pages_j, pages_k] = p.pages.map(|n| n as u64);
            let (pages, name) = (p.count(), a.name().into());
            let array = pager::ArrayId(n as u32);
            told(Event::Array { array, pages, pages_i, pages_j, pages_k, derived: false, name });
        }
    }
    let shards: Vec<ShardId> = store.shards().collect();
    let shared = Mutex::new(CheckState { alive: workers, seals: Vec::with_capacity(count), ..CheckState::default() });
    let (ended, next, stop, done) = (Condvar::new(), AtomicUsize::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let work = || {
        let mut buffers = Buffers::new(read_bytes);
        let mut each = |event: Event| {
            if let Event::ReadStart { bytes: len, .. } = &event {
                done.fetch_add(*len, Relaxed);
            }
            if let Some(told) = told {
                told(event);
            }
            !stop.load(Relaxed)
        };
        while let Some(id) = shards.get(next.fetch_add(1, Relaxed)) {
            match store.check_shard(*id, &mut buffers, &mut each) {
                Ok((found, seal)) => put(&shared, *id, found, seal),
                Err(e) => {
                    stop.store(true, Relaxed);
                    lock(&shared).error.get_or_insert(e);
                }
            }
            if stop.load(Relaxed) {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                // Reports the end of the worker, however it ends: waiting threads must not wait for ever.
                let _leave = CheckWorkerExit { shared: &shared, ended: &ended };
                work();
            });
        }
        // Called at least once, however soon they are done.
        loop {
            if !progress(done.load(Relaxed).min(total), total) {
                stop.store(true, Relaxed);
            }
            let state = lock(&shared);
            if state.alive == 0 {
                break;
            }
            drop(ended.wait_timeout(state, TELL_EVERY).unwrap_or_else(PoisonError::into_inner));
        }
    });
    let CheckState { mut found, seals, error, .. } = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    match error {
        Some(e) => return Err(e),
        None if stop.load(Relaxed) => return Err(FieldError::Interrupted),
        None => {}
    }
    store.conclude(&seals, &mut found)?;
    Ok(found)
}

/// As many workers as fit, and then the longest reads that fit.
fn room_for_workers(
    store: &StoreCheck<'_>,
    shards: usize,
    workers: usize,
    charge: &ChargeMemory<'_>,
) -> Result<(usize, usize, Box<dyn std::any::Any>), FieldError> {
    let mut workers = workers.clamp(1, shards.max(1));
    loop {
        for read_bytes in READ_BYTES {
            let bytes = workers * (store.buffer_bytes(read_bytes) + CONTEXT) + shards * KEPT;
            match charge(bytes as u64) {
                Ok(charged) => return Ok((workers, read_bytes, charged)),
                Err(e) if workers == 1 && read_bytes == 0 => return Err(e),
                Err(_) => {}
            }
        }
        workers = (workers / 2).max(1);
    }
}

fn lock(shared: &Mutex<CheckState>) -> std::sync::MutexGuard<'_, CheckState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the results of a shard, in the order of the shards.
fn put(shared: &Mutex<CheckState>, id: ShardId, found: Validation, seal: ShardSeal) {
    let mut guard = lock(shared);
    let state = &mut *guard;
    state.early.insert(id.number, (found, seal));
    while let Some((found, seal)) = state.early.remove(&(state.seals.len() as u32)) {
        state.found.add(found);
        state.seals.push(seal);
    }
}

struct CheckWorkerExit<'a> {
    shared: &'a Mutex<CheckState>,
    ended: &'a Condvar,
}

impl Drop for CheckWorkerExit<'_> {
    fn drop(&mut self) {
        lock(self.shared).alive -= 1;
        self.ended.notify_all();
    }
}
