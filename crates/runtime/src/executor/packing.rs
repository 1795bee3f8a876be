//! Tasks of a run through time that wait for their turn, packed in records of one size: of ten thousand most wait at any time, and what
//! their states would take goes to pages.
//!
//! A thread that takes a task up keeps its record for the next that it packs. Where there is no memory for more records a task stays as
//! it is.

use super::body::{Body, TaskSlot};
use super::memory::{too_small, Refused};
use super::scheduler::{ActiveTask, Packed, Waiting};
use super::thread::Thread;
use super::work::{Budgeted, Windowed};
use pager::ChargeKind;
use std::sync::atomic::Ordering::Relaxed;

impl<W: Windowed + Budgeted> Thread<'_, W> {
    /// Packs a task that has come to another window, if its kind can be and there is room.
    pub(crate) fn pack(&mut self, slot: Box<TaskSlot<W::Task>>) -> Waiting<Body<W::Task>> {
        let size = self.work.record_bytes();
        if size == 0 {
            return Waiting::Whole(slot);
        }
        let Some(record) = self.record(slot.window) else { return Waiting::Whole(slot) };
        let Some(from) = self.cache.pack(size, |to| self.work.put_away(&slot.body.task, to)) else {
            self.cache.keep_record(record);
            return Waiting::Whole(slot);
        };
        let ActiveTask { number, window, place, body, .. } = *slot;
        self.cache.keep(body.charge);
        Waiting::Packed(Packed { number, window, place, record, from })
    }

    /// A record without a task.
    fn record(&mut self, window: u32) -> Option<u32> {
        let s = self.shared;
        loop {
            if let Some(record) = self.cache.pop_record() {
                return Some(record);
            }
            let (any, bytes) = self.cache.take_records(&mut s.lock().records);
            if any {
                continue;
            }
            let dropped = s.dropped.load(Relaxed);
            if self.cache.was_refused(window, dropped) {
                return None;
            }
            // Not under the lock: what is dropped for it may wake tasks.
            let Ok(charge) = s.pager.charge(ChargeKind::Tasks, bytes as u64) else {
                self.cache.refuse(window, dropped);
                return None;
            };
            s.lock().records.add(charge);
        }
    }

    /// The task itself; none where there is no memory for it now: it waits on.
    pub(crate) fn unpack(&mut self, waiting: Waiting<Body<W::Task>>) -> Option<Box<TaskSlot<W::Task>>> {
        let s = self.shared;
        let packed = match waiting {
            Waiting::Whole(slot) => return Some(slot),
            Waiting::Packed(packed) => packed,
        };
        let bytes = self.cache.taken(&packed);
        // Nobody else has had the bytes.
        let task = self.work.take_up(packed.number, bytes).expect("a task that was packed in this process comes back");
        let bytes = self.work.bytes(&task) as u64;
        let mut charge = self.kept(bytes);
        // What this thread has under way goes first: this one loses nothing by waiting.
        let charged = if self.lanes.iter().any(Option::is_some) {
            self.charged(&mut |_| charge.grow(bytes)).map_err(|refused| Refused { another: true, ..refused })
        } else {
            self.insist(|_| charge.grow(bytes))
        };
        match charged {
            Ok(()) => {
                let Packed { number, window, place, record, .. } = packed;
                if self.cache.keep_record(record) {
                    self.cache.give_records(&mut s.lock().records);
                }
                return Some(Box::new(ActiveTask {
                    number,
                    body: Body::new(task, charge),
                    restarts: 0,
                    window,
                    place,
                }));
            }
            Err(Refused { full, alone: true, .. }) => s.fail(too_small(full, "a line under way")),
            // Its record is as it was.
            Err(Refused { another: true, .. }) => s.lock().scheduler.push_first(Waiting::Packed(packed)),
            Err(_) => {
                drop((task, charge));
                self.cache.keep_record(packed.record);
                s.freed(&[(packed.number, packed.window)]);
            }
        }
        None
    }

    /// Lets go of all that this thread has of tasks that wait, and says whether any of them may go on.
    pub(crate) fn let_go(&mut self) -> bool {
        self.hand_back();
        let mut q = self.shared.lock();
        let any = !self.mine.is_empty();
        self.mine.drain(..).for_each(|waiting| q.scheduler.push_first(waiting));
        self.cache.give_back(&mut q.records);
        any
    }
}
