//! Where threads with nothing to do wait.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Inside {
    /// Returns from `wait` that are owed. A notice given while every idler was still on its way here must not be lost, so a
    /// notice is good for as many returns as there are workers; too many returns only cost a look around.
    permits: usize,
    /// Counts notices.
    notices: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Idlers {
    inside: Mutex<Inside>,
    bell: Condvar,
    /// 1. Raised before `work` is read, and `work` is raised before this is read: either the idler sees the work or the other
    ///    sees the idler and rings, which it can only do when the idler sleeps, since it takes the lock.
    waiting: AtomicUsize,
    /// Pages that wait for a decoder.
    work: AtomicUsize,
}

impl Idlers {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn has_work(&self) -> bool {
        self.work.load(SeqCst) > 0
    }

    pub(crate) fn took_work(&self) {
        self.work.fetch_sub(1, SeqCst);
    }

    pub(crate) fn add_work(&self, n: usize) {
        if n == 0 {
            return;
        }
        self.work.fetch_add(n, SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            let _inside = self.lock();
            for _ in 0..n.min(self.waiting.load(SeqCst)) {
                self.bell.notify_one();
            }
        }
    }

    pub(crate) fn notify(&self, workers: usize) {
        let mut inside = self.lock();
        inside.permits = workers.max(1);
        inside.notices += 1;
        self.bell.notify_all();
    }

    pub(crate) fn wait(&self, timeout: Duration) {
        let until = Instant::now().checked_add(timeout);
        let mut inside = self.lock();
        let notices = inside.notices;
        self.waiting.fetch_add(1, SeqCst);
        loop {
            if inside.permits > 0 {
                inside.permits -= 1;
                break;
            }
            if self.has_work() || inside.notices != notices {
                break;
            }
            let left = match until {
                Some(t) => t.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3600),
            };
            if left.is_zero() {
                break;
            }
            inside = self.bell.wait_timeout(inside, left).unwrap_or_else(|e| e.into_inner()).0;
        }
        self.waiting.fetch_sub(1, SeqCst);
    }
}
