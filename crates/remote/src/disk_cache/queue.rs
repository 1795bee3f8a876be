//! Records that wait to be written, up to a number of bytes, and the thread that writes them.

use super::state::CacheState;
use super::writer::{CacheWriter, NewRecord};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

enum WriteJob {
    Store(NewRecord),
    /// Look for segments of other processes.
    Refresh,
}

#[derive(Default)]
struct WriteJobs {
    jobs: VecDeque<WriteJob>,
    bytes: usize,
    busy: bool,
    closed: bool,
    thread: Option<JoinHandle<()>>,
}

/// Bytes of a waiting record beside its own.
const EACH: usize = 128;

/// Invariants:
/// 1. `bytes` is that of the waiting records, with what they are kept in. It is at most the queue's limit.
/// 2. The thread starts with the first job: a process that stores nothing has none.
pub(super) struct WriteQueue {
    shared: Arc<(Mutex<WriteJobs>, Condvar)>,
    state: Arc<CacheState>,
    writer: Mutex<Option<CacheWriter>>,
}

fn lock(jobs: &Mutex<WriteJobs>) -> MutexGuard<'_, WriteJobs> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WriteQueue {
    pub fn new(state: Arc<CacheState>, writer: CacheWriter) -> Self {
        Self { shared: Arc::default(), state, writer: Mutex::new(Some(writer)) }
    }

    /// Bytes of the waiting records.
    pub fn bytes(&self) -> usize {
        lock(&self.shared.0).bytes
    }

    /// Whether so many bytes would be taken now.
    pub fn has_room(&self, bytes: usize) -> bool {
        lock(&self.shared.0).bytes + bytes + EACH <= self.state.options.queue
    }

    /// Takes a record, or drops it.
    pub fn store(&self, record: NewRecord) {
        let bytes = record.bytes.len() + EACH;
        let mut jobs = lock(&self.shared.0);
        if jobs.bytes + bytes > self.state.options.queue || jobs.closed {
            self.state.counters.dropped.fetch_add(1, Relaxed);
            return;
        }
        jobs.bytes += bytes;
        self.push(jobs, WriteJob::Store(record));
    }

    /// Looks for segments of other processes.
    pub fn refresh(&self) {
        self.push(lock(&self.shared.0), WriteJob::Refresh);
    }

    fn push(&self, mut jobs: MutexGuard<'_, WriteJobs>, job: WriteJob) {
        jobs.jobs.push_back(job);
        if jobs.thread.is_none() {
            let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(writer) = writer else { return };
            let (shared, state) = (self.shared.clone(), self.state.clone());
            let builder = std::thread::Builder::new().name("farfield-cache".into());
            // Without a thread the queue fills, and what comes then is dropped.
            jobs.thread = builder.spawn(move || write(&shared, &state, writer)).ok();
        }
        drop(jobs);
        self.shared.1.notify_all();
    }

    /// Waits until everything is written, at most so long. Returns whether it is.
    pub fn flush(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let mut jobs = lock(&self.shared.0);
        while jobs.thread.is_some() && (jobs.busy || !jobs.jobs.is_empty()) {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return false };
            jobs = self.shared.1.wait_timeout(jobs, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

fn write(shared: &(Mutex<WriteJobs>, Condvar), state: &CacheState, mut writer: CacheWriter) {
    loop {
        let mut jobs = lock(&shared.0);
        jobs.busy = false;
        let job = loop {
            if let Some(job) = jobs.jobs.pop_front() {
                break job;
            }
            shared.1.notify_all();
            if jobs.closed {
                return;
            }
            jobs = shared.1.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        };
        jobs.busy = true;
        drop(jobs);
        match job {
            WriteJob::Store(record) => {
                writer.store(&record);
                lock(&shared.0).bytes -= record.bytes.len() + EACH;
            }
            // A folder that cannot be listed has no news.
            WriteJob::Refresh => drop(state.refresh(false)),
        }
    }
}

impl Drop for WriteQueue {
    /// Writes what waits, and seals the segments.
    fn drop(&mut self) {
        let mut jobs = lock(&self.shared.0);
        jobs.closed = true;
        let thread = jobs.thread.take();
        drop(jobs);
        self.shared.1.notify_all();
        if let Some(thread) = thread {
            // A panic there was reported already.
            let _panicked = thread.join();
        }
    }
}
