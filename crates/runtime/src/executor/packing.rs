//! Packed tasks: tasks of a run through time that wait for their turn in records of one size. Most of ten thousand wait
//! at any time, and the memory of their states goes to pages.
//!
//! A thread that unpacks a task keeps its record for the next task to pack. Without memory for more records, a task
//! stays as it is.

use super::body::{Body, TaskSlot};
use super::memory::{too_small, ChargeRefusal};
use super::scheduler::{ActiveTask, Packed, WaitingTask};
use super::thread::Thread;
use super::work::{Budgeted, Windowed};
use pager::ChargeKind;
use std::sync::atomic::Ordering::Relaxed;

impl<W: Windowed + Budgeted> Thread<'_, W> {
    /// Packs a task that has reached another window, if its kind allows and there is room.
    pub(crate) fn pack(&mut self, slot: Box<TaskSlot<W::Task>>) -> WaitingTask<Body<W::Task>> {
        let size = self.work.record_bytes();
        if size == 0 {
            return WaitingTask::Whole(slot);
        }
        let Some(record) = self.record(slot.window) else { return WaitingTask::Whole(slot) };
        let Some(from) = self.cache.pack(size, |to| self.work.put_away(&slot.body.task, to)) else {
            self.cache.keep_record(record);
            return WaitingTask::Whole(slot);
        };
        let ActiveTask { number, window, place, body, .. } = *slot;
        self.cache.keep(body.charge);
        WaitingTask::Packed(Packed { number, window, place, record, from })
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
            // Not under the lock: the charge may drop pages, which may wake tasks.
            let Ok(charge) = s.pager.charge(ChargeKind::Tasks, bytes as u64) else {
                self.cache.refuse(window, dropped);
                return None;
            };
            s.lock().records.add(charge);
        }
    }

    /// Unpacks a task. `None`: there is no memory for it now, and it waits on.
    pub(crate) fn unpack(&mut self, waiting: WaitingTask<Body<W::Task>>) -> Option<Box<TaskSlot<W::Task>>> {
        let s = self.shared;
        let packed = match waiting {
            WaitingTask::Whole(slot) => return Some(slot),
            WaitingTask::Packed(packed) => packed,
        };
        let bytes = self.cache.taken(&packed);
        // Only this process wrote the bytes.
        let task = self.work.take_up(packed.number, bytes).expect("a task that was packed in this process comes back");
        let bytes = self.work.bytes(&task) as u64;
        let mut charge = self.kept(bytes);
        // Tasks in this thread's lanes go first: this one loses nothing by waiting.
        let charged = if self.lanes.iter().any(Option::is_some) {
            self.charged(&mut |_| charge.grow(bytes)).map_err(|refused| ChargeRefusal { another: true, ..refused })
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
            Err(ChargeRefusal { full, alone: true, .. }) => s.fail(too_small(full, "a line under way")),
            // Its record is unchanged.
            Err(ChargeRefusal { another: true, .. }) => s.lock().scheduler.push_first(WaitingTask::Packed(packed)),
            Err(_) => {
                drop((task, charge));
                self.cache.keep_record(packed.record);
                s.freed(&[(packed.number, packed.window)]);
            }
        }
        None
    }

    /// Hands back all waiting tasks of this thread. True if any of them may continue.
    pub(crate) fn let_go(&mut self) -> bool {
        self.hand_back();
        let mut q = self.shared.lock();
        let any = !self.mine.is_empty();
        self.mine.drain(..).for_each(|waiting| q.scheduler.push_first(waiting));
        self.cache.give_back(&mut q.records);
        any
    }
}
