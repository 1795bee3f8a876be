//! Actions at later times, one after the other, on a thread of their own.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// An action.
pub(super) type Act = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    /// In order of time.
    acts: VecDeque<(Instant, Act)>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    bell: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        // A device does not wait for a processor, so this thread precedes all that compute, if the system allows it.
        let first = libc::sched_param { sched_priority: 1 };
        // SAFETY: both set properties of this thread; whether the second may is not our affair.
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1);
            libc::sched_setscheduler(0, libc::SCHED_FIFO, &first);
        }
        let mut queue = self.lock();
        loop {
            let now = Instant::now();
            match queue.acts.front().map(|(due, _)| *due) {
                None if queue.closed => return,
                None => queue = self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due <= now || queue.closed => {
                    if let Some((_, act)) = queue.acts.pop_front() {
                        drop(queue);
                        act();
                        queue = self.lock();
                    }
                }
                Some(due) => queue = self.bell.wait_timeout(queue, due - now).unwrap_or_else(PoisonError::into_inner).0,
            }
        }
    }
}

/// A handle that adds actions. It can be cloned.
#[derive(Clone)]
pub(super) struct Later(Arc<Shared>);

impl Later {
    /// Adds actions, each with its time, not earlier than any added before. `of` is called under the queue's lock, so
    /// that dependent times stay in order.
    pub fn put<I: IntoIterator<Item = (Instant, Act)>>(&self, of: impl FnOnce() -> I) {
        let mut queue = self.0.lock();
        queue.acts.extend(of());
        drop(queue);
        self.0.bell.notify_one();
    }
}

/// The thread. On drop the remaining actions run at once.
pub(super) struct Clockwork {
    later: Later,
    thread: Option<JoinHandle<()>>,
}

impl Clockwork {
    pub fn new(name: &str) -> std::io::Result<Self> {
        let later = Later(Arc::default());
        let theirs = later.0.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || theirs.run())?;
        Ok(Self { later, thread: Some(thread) })
    }

    pub fn later(&self) -> Later {
        self.later.clone()
    }
}

impl Drop for Clockwork {
    fn drop(&mut self) {
        self.later.0.lock().closed = true;
        self.later.0.bell.notify_all();
        if let Some(t) = self.thread.take() {
            // A panic there has been reported already.
            let _panicked = t.join();
        }
    }
}
