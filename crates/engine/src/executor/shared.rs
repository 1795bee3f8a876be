//! What the threads of a run share: the tasks in nobody's hands, and the counts.

use field::error::FieldError;
use pager::{Charge, Hold, PageId, Pager, Wake};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};

pub(super) struct Slot<T> {
    pub(super) number: u64,
    pub(super) task: T,
    pub(super) charge: Charge,
    pub(super) charged: usize,
    /// Restarts of the present step, and the pages that it has asked for.
    pub(super) restarts: u32,
    pub(super) wanted: Vec<PageId>,
    pub(super) hold: Option<Hold>,
}

pub(super) struct Queue<T> {
    pub(super) ready: VecDeque<Box<Slot<T>>>,
    /// By token. A token is free again when its wake has come, whatever has become of its task.
    pub(super) parked: Vec<Option<Box<Slot<T>>>>,
    pub(super) free: Vec<usize>,
    /// Numbers of tasks that were dropped.
    pub(super) again: Vec<u64>,
    pub(super) error: Option<FieldError>,
}

pub(super) struct Shared<T> {
    pub(super) queue: Mutex<Queue<T>>,
    pub(super) pager: Arc<Pager>,
    pub(super) next: AtomicU64,
    pub(super) active: AtomicUsize,
    /// Tasks active at most.
    pub(super) allowed: AtomicUsize,
    /// The memory limit for which that is.
    pub(super) limit: AtomicU64,
    pub(super) done: AtomicU64,
    pub(super) stop: AtomicBool,
    /// Threads that have neither tasks nor pins, and wait. Only when all do is nothing left that could release any.
    pub(super) waiting: AtomicUsize,
    /// Threads that have not left.
    pub(super) live: AtomicUsize,
    /// Who waits for the last of them.
    pub(super) caller: std::thread::Thread,
    pub(super) elder: AtomicBool,
    pub(super) waited_us: AtomicU64,
    pub(super) restarts: AtomicU64,
    pub(super) elders: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) steps: AtomicU64,
}

impl<T> Shared<T> {
    pub(super) fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        // A panic on another thread is carried to the caller by the scope; the queue itself is never left half changed.
        pager::patient::lock(&self.queue)
    }
    pub(super) fn fail(&self, e: FieldError) {
        self.lock().error.get_or_insert(e);
        self.stop.store(true, SeqCst);
        self.pager.notify();
    }

    /// Takes note that a task in nobody's hands was dropped, to begin it again when fewer are active.
    pub(super) fn dropped(&self, q: &mut Queue<T>, slot: &Slot<T>) {
        if slot.hold.is_some() {
            self.elder.store(false, SeqCst);
        }
        q.again.push(slot.number);
        self.dropped.fetch_add(1, Relaxed);
        self.active.fetch_sub(1, SeqCst);
    }

    /// Drops up to `count` of the parked tasks, but not the elder, and says how many.
    pub(super) fn drop_parked(&self, count: usize) -> usize {
        let mut gone: Vec<Box<Slot<T>>> = Vec::new();
        let mut q = self.lock();
        for token in (0..q.parked.len()).rev() {
            if gone.len() == count {
                break;
            }
            if q.parked[token].as_ref().is_some_and(|slot| slot.hold.is_none()) {
                gone.extend(q.parked[token].take());
            }
        }
        for slot in &gone {
            self.dropped(&mut q, slot);
        }
        drop(q);
        self.pager.notify();
        gone.len()
    }

    /// From now on no more tasks than these.
    pub(super) fn no_more_than_now(&self) {
        self.allowed.fetch_min(self.active.load(SeqCst).max(1), SeqCst);
    }
}

impl<T: Send> Wake for Shared<T> {
    fn wake(&self, token: u64) {
        let mut q = self.lock();
        // Tasks are parked before their pages are asked for, so it is there, or was dropped.
        let slot = q.parked.get_mut(token as usize).and_then(Option::take);
        q.free.push(token as usize);
        q.ready.extend(slot);
        drop(q);
        self.pager.notify();
    }
}

/// A thread on its way out. One that panics takes its tasks with it: the others must not wait for them.
pub(super) struct Leaving<'a, T>(pub(super) &'a Shared<T>);

impl<T> Drop for Leaving<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, SeqCst);
            self.0.pager.notify();
        }
        self.0.live.fetch_sub(1, SeqCst);
        self.0.caller.unpark();
    }
}
