//! What happens at a later time, one after the other, on a thread of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// What is done then.
pub(super) type Act = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    /// 1. In order of their times.
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
        // A device does not wait for a processor: where the system allows it, this thread comes before all that compute.
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

/// Who puts acts into the queue; any number of them.
#[derive(Clone)]
pub(super) struct Later(Arc<Shared>);

impl Later {
    /// Has some things done, each at its time, which is not before that of any that was put there. `of` is called under the queue's lock,
    /// so that times that follow from each other stay in order.
    pub fn put<I: IntoIterator<Item = (Instant, Act)>>(&self, of: impl FnOnce() -> I) {
        let mut queue = self.0.lock();
        queue.acts.extend(of());
        drop(queue);
        self.0.bell.notify_one();
    }
}

/// The thread. What is left when this goes happens at once.
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
            // A panic there has been reported on its own.
            let _panicked = t.join();
        }
    }
}
