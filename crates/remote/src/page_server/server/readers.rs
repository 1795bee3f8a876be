//! Threads for what may wait for a disk.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Shallow calls only: a read, a lookup, a checksum.
const STACK_BYTES: usize = 256 << 10;

type ReaderJob = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct ReaderJobs {
    jobs: VecDeque<ReaderJob>,
    threads: Vec<JoinHandle<()>>,
    waiting: usize,
    closed: bool,
}

#[derive(Default)]
struct ReaderQueue {
    queue: Mutex<ReaderJobs>,
    bell: Condvar,
}

/// Threads start when there are more jobs than idle threads.
pub(super) struct Readers {
    shared: Arc<ReaderQueue>,
    most: usize,
    busy: Arc<AtomicUsize>,
}

impl Readers {
    pub(super) fn new(most: usize) -> Self {
        Self { shared: Arc::default(), most: most.max(1), busy: Arc::default() }
    }

    /// Whether further jobs would only queue here, out of the reach of fair use.
    pub(super) fn full(&self) -> bool {
        self.busy.load(Relaxed) >= 2 * self.most
    }

    /// Runs a job on one of the threads; on the caller's, if none can be started.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.busy.fetch_add(1, Relaxed);
        let busy = self.busy.clone();
        let job: ReaderJob = Box::new(move || {
            job();
            busy.fetch_sub(1, Relaxed);
        });
        let mut q = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        q.jobs.push_back(job);
        if q.jobs.len() > q.waiting && q.threads.len() < self.most {
            let shared = self.shared.clone();
            let builder = std::thread::Builder::new().name("farfield-serve-read".into()).stack_size(STACK_BYTES);
            if let Ok(handle) = builder.spawn(move || work(&shared)) {
                q.threads.push(handle);
            }
        }
        let mine = if q.threads.is_empty() { q.jobs.pop_back() } else { None };
        self.shared.bell.notify_one();
        drop(q);
        if let Some(job) = mine {
            job();
        }
    }

    /// Lets the threads end after their jobs, without waiting for them.
    pub(super) fn leave(&self) {
        let mut q = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        q.closed = true;
        q.threads.clear();
        self.shared.bell.notify_all();
    }

    /// Waits for all jobs and ends the threads.
    pub(super) fn close(&self) {
        let mut q = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        q.closed = true;
        let threads = std::mem::take(&mut q.threads);
        self.shared.bell.notify_all();
        drop(q);
        for thread in threads {
            // A panic there was reported already.
            let _panicked = thread.join();
        }
    }
}

fn work(shared: &ReaderQueue) {
    loop {
        let mut q = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let job = loop {
            if let Some(job) = q.jobs.pop_front() {
                break job;
            }
            if q.closed {
                return;
            }
            q.waiting += 1;
            q = shared.bell.wait(q).unwrap_or_else(PoisonError::into_inner);
            q.waiting -= 1;
        };
        drop(q);
        job();
    }
}
