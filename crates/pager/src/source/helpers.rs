//! Threads for blocking calls, mostly opening files, where a source must not block.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// Further threads only queue at the device or at the server.
const MOST_THREADS: usize = 16;
/// As a reader's.
const STACK_BYTES: usize = 256 << 10;

type HelperJob = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct HelperJobs {
    jobs: VecDeque<HelperJob>,
    threads: Vec<JoinHandle<()>>,
    waiting: usize,
    closed: bool,
}

#[derive(Default)]
struct HelperQueue {
    queue: Mutex<HelperJobs>,
    bell: Condvar,
}

/// Threads start when there are more jobs than idle threads.
pub(crate) struct Helpers {
    shared: Arc<HelperQueue>,
    most: usize,
}

impl Helpers {
    pub(crate) fn new(most: usize) -> Self {
        Self { shared: Arc::default(), most: most.clamp(1, MOST_THREADS) }
    }

    /// Runs jobs, several at a time, started in their order. If no thread can be started the caller runs them.
    pub(crate) fn run(&self, jobs: Vec<HelperJob>) {
        if jobs.is_empty() {
            return;
        }
        let mut q = self.shared.queue.lock().unwrap_or_else(|e| e.into_inner());
        q.jobs.extend(jobs);
        let wanted = q.jobs.len().saturating_sub(q.waiting);
        for _ in 0..wanted.min(self.most - q.threads.len().min(self.most)) {
            let shared = self.shared.clone();
            let builder = std::thread::Builder::new().name("farfield-open".into()).stack_size(STACK_BYTES);
            match builder.spawn(move || work(&shared)) {
                Ok(handle) => q.threads.push(handle),
                Err(_) => break,
            }
        }
        let mine = if q.threads.is_empty() { std::mem::take(&mut q.jobs) } else { VecDeque::new() };
        self.shared.bell.notify_all();
        drop(q);
        mine.into_iter().for_each(|job| job());
    }
}

fn work(shared: &HelperQueue) {
    loop {
        let mut q = shared.queue.lock().unwrap_or_else(|e| e.into_inner());
        let job = loop {
            if let Some(job) = q.jobs.pop_front() {
                break job;
            }
            if q.closed {
                return;
            }
            q.waiting += 1;
            q = shared.bell.wait(q).unwrap_or_else(|e| e.into_inner());
            q.waiting -= 1;
        };
        drop(q);
        job();
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        let mut q = self.shared.queue.lock().unwrap_or_else(|e| e.into_inner());
        q.closed = true;
        let threads = std::mem::take(&mut q.threads);
        self.shared.bell.notify_all();
        drop(q);
        let me = std::thread::current().id();
        for t in threads {
            // The last owner of the files can be a job on one of these threads.
            if t.thread().id() != me {
                // A panic there was reported already.
                let _panicked = t.join();
            }
        }
    }
}
