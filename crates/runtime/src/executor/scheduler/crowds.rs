//! Tasks of one window that wait for a thread, by place.
//!
//! Tasks that have not started the window wait in *crowds*, one for each neighbourhood, since they mostly need the same
//! pages. While a task waits for pages in a neighbourhood its crowd is *shut*, and none of it makes a step in vain. It
//! is also shut while that task is amid the window and lacks the page beyond. The crowd may not need that page, but the
//! thread has other tasks. Decision 042 has the figures (docs/decisions/042-crowds-wait-as-one.md).

use super::task::{ActiveTask, Gone, Packed, WaitingTask, WITHIN};
use std::collections::BTreeMap;

/// Place and number of a task.
type TaskKey = (u64, u64);

/// A task that has not started the window.
enum Fresh<T> {
    Whole(Box<ActiveTask<T>>),
    /// The record of a packed task.
    Packed(u32),
}

/// A crowd of this many or fewer takes no more room than it needs. Where tasks lie far apart most are alone.
const FEW: usize = 4;

struct Crowd<T> {
    tasks: Vec<(TaskKey, Fresh<T>)>,
    /// The last task goes next. They are sorted when the first one starts, and later ones go before the others. To keep
    /// the order, each arrival would cost a sort under the lock of the queue. All read the same pages.
    begun: bool,
}

impl<T> Crowd<T> {
    fn new() -> Self {
        Self { tasks: Vec::new(), begun: false }
    }

    fn pop(&mut self, low_first: bool) -> Option<(TaskKey, Fresh<T>)> {
        if !core::mem::replace(&mut self.begun, true) {
            self.tasks.sort_unstable_by_key(|(key, _)| *key);
            if low_first {
                self.tasks.reverse();
            }
        }
        let next = self.tasks.pop();
        // Other crowds grow while this one shrinks.
        if self.tasks.capacity() > FEW.max(4 * self.tasks.len()) {
            self.tasks.shrink_to(2 * self.tasks.len());
        }
        next
    }

    fn push(&mut self, key: TaskKey, fresh: Fresh<T>) {
        if self.tasks.len() < FEW {
            self.tasks.reserve_exact(1);
        }
        self.tasks.push((key, fresh));
    }
}

pub(crate) struct Crowds<T> {
    /// Whether tasks at the low end of the data go first, or those at the high end.
    low_first: bool,
    /// Tasks whose pages have come.
    woken: BTreeMap<TaskKey, Box<ActiveTask<T>>>,
    /// 1. No crowd is empty. 2. A neighbourhood has at most one crowd: in `shut` while tasks wait for pages there, else
    ///    here.
    crowds: BTreeMap<u64, Crowd<T>>,
    /// Crowds of neighbourhoods where tasks wait for pages.
    shut: BTreeMap<u64, Crowd<T>>,
    /// Tasks in all crowds.
    fresh: usize,
    /// Tasks in shut crowds.
    kept_back: usize,
}

impl<T> Crowds<T> {
    pub(crate) fn new(low_first: bool) -> Self {
        Self {
            low_first,
            woken: BTreeMap::new(),
            crowds: BTreeMap::new(),
            shut: BTreeMap::new(),
            fresh: 0,
            kept_back: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.woken.len() + self.fresh
    }

    /// Adds a task. `shut`: others wait for pages in its neighbourhood.
    pub(crate) fn push(&mut self, waiting: WaitingTask<T>, shut: bool) {
        let (key, fresh) = match waiting {
            WaitingTask::Whole(task) if task.restarts > 0 => {
                self.woken.insert((task.place, task.number), task);
                return;
            }
            WaitingTask::Whole(task) => ((task.place, task.number), Fresh::Whole(task)),
            WaitingTask::Packed(packed) => ((packed.place, packed.number), Fresh::Packed(packed.record)),
        };
        let crowds = if shut { &mut self.shut } else { &mut self.crowds };
        let crowd = crowds.entry(key.0 >> WITHIN).or_insert_with(Crowd::new);
        crowd.push(key, fresh);
        self.fresh += 1;
        self.kept_back += usize::from(shut);
    }

    pub(crate) fn shut(&mut self, neighbourhood: u64) {
        if let Some(crowd) = self.crowds.remove(&neighbourhood) {
            self.kept_back += crowd.tasks.len();
            self.shut.insert(neighbourhood, crowd);
        }
    }

    pub(crate) fn open(&mut self, neighbourhood: u64) {
        if let Some(crowd) = self.shut.remove(&neighbourhood) {
            self.kept_back -= crowd.tasks.len();
            self.crowds.insert(neighbourhood, crowd);
        }
    }

    pub(crate) fn may_go_on(&self) -> usize {
        self.len() - self.kept_back
    }

    pub(crate) fn pop(&mut self, window: u32) -> Option<WaitingTask<T>> {
        let (woken, crowd) = if self.low_first {
            (self.woken.first_key_value(), self.crowds.first_key_value())
        } else {
            (self.woken.last_key_value(), self.crowds.last_key_value())
        };
        let (woken, crowd) = (woken.map(|(key, _)| *key), crowd.map(|(neighbourhood, _)| *neighbourhood));
        if let Some(key) = woken {
            let at = key.0 >> WITHIN;
            if crowd.is_none_or(|crowd| at == crowd || (at < crowd) == self.low_first) {
                return self.woken.remove(&key).map(WaitingTask::Whole);
            }
        }
        let mut entry = if self.low_first { self.crowds.first_entry() } else { self.crowds.last_entry() }?;
        let next = entry.get_mut().pop(self.low_first);
        if entry.get().tasks.is_empty() {
            entry.remove();
        }
        self.fresh -= usize::from(next.is_some());
        next.map(|(key, fresh)| match fresh {
            Fresh::Whole(task) => WaitingTask::Whole(task),
            Fresh::Packed(record) => WaitingTask::packed(key.1, window, key.0, record),
        })
    }

    /// Whether a task waits here that has started the window.
    pub(crate) fn has_woken(&self, number: u64) -> bool {
        self.woken.values().any(|task| task.number == number)
    }

    pub(crate) fn records(&mut self) -> impl Iterator<Item = &mut u32> {
        let crowds = self.crowds.values_mut().chain(self.shut.values_mut());
        crowds.flat_map(|crowd| &mut crowd.tasks).filter_map(|(_, fresh)| match fresh {
            Fresh::Packed(record) => Some(record),
            Fresh::Whole(_) => None,
        })
    }

    /// Moves tasks to `gone` until it has `most`: packed ones first, woken ones last. See
    /// [`super::ready::Ready::drop_those`].
    pub(crate) fn drop_those(
        &mut self,
        window: u32,
        most: usize,
        which: impl Fn(&ActiveTask<T>) -> bool,
        gone: &mut Gone<T>,
    ) {
        for whole in [false, true] {
            for (shut, crowds) in [(true, &mut self.shut), (false, &mut self.crowds)] {
                for crowd in crowds.values_mut().rev() {
                    let left = most.saturating_sub(gone.len());
                    let goes = |(_, fresh): &mut (TaskKey, Fresh<T>)| match fresh {
                        Fresh::Packed(_) => !whole,
                        Fresh::Whole(task) => whole && which(task),
                    };
                    for ((place, number), fresh) in crowd.tasks.extract_if(.., goes).take(left) {
                        self.fresh -= 1;
                        self.kept_back -= usize::from(shut);
                        match fresh {
                            Fresh::Whole(task) => gone.tasks.push(task),
                            Fresh::Packed(record) => {
                                gone.packed.push(Packed { number, window, place, record, from: 0 })
                            }
                        }
                    }
                }
                crowds.retain(|_, crowd| !crowd.tasks.is_empty());
            }
        }
        let left = most.saturating_sub(gone.len());
        let those = self.woken.iter().rev().filter(|(_, task)| which(task)).map(|(key, _)| *key).take(left);
        for key in those.collect::<Vec<_>>() {
            gone.tasks.extend(self.woken.remove(&key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::OF_RECORD;

    /// Bytes of all entries. A crowd of a few tasks counts its place in the map, too, at its largest.
    fn bytes(crowds: &Crowds<()>) -> usize {
        let of = |crowd: &Crowd<()>| crowd.tasks.capacity() * size_of::<(TaskKey, Fresh<()>)>();
        let crowds = crowds.crowds.values().chain(crowds.shut.values());
        crowds.map(|crowd| of(crowd) + if crowd.tasks.len() < FEW { 16 + 74 } else { 0 }).sum()
    }

    #[test]
    fn what_crowds_take_is_charged_with_their_records() {
        let packed = |number: u64, place: u64| WaitingTask::packed(number, 0, place, number as u32);
        // Each alone, all in one crowd, and some in each.
        for each in [1, 2, 3, 5, 40, 4000] {
            let mut crowds = Crowds::<()>::new(true);
            for n in 0..4000 {
                crowds.push(packed(n, (n / each) << WITHIN), false);
                assert!(bytes(&crowds) <= OF_RECORD * crowds.len(), "{n} of {each}: {}", bytes(&crowds));
            }
            for n in 0..4000 {
                let Some(WaitingTask::Packed(next)) = crowds.pop(0) else { panic!("{n} of {each}") };
                assert_eq!(next.number, n, "low first");
                // The last few of a crowd have the room of a few.
                let most = OF_RECORD * crowds.len() + FEW * size_of::<(TaskKey, Fresh<()>)>() + 90;
                assert!(bytes(&crowds) <= most, "{n} of {each}: {}", bytes(&crowds));
            }
            assert!(crowds.pop(0).is_none() && crowds.crowds.is_empty() && crowds.len() == 0);
        }
    }
}
