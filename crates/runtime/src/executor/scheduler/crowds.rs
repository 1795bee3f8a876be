//! Tasks of one window that wait for a thread, by where they are.
//!
//! Those that have not gone on in the window yet wait in *crowds*, one for each neighbourhood: what one of them lacks the others would
//! mostly lack, too. So while a task waits for pages in a neighbourhood its crowd is *shut*, and none of it makes a step in vain. It is
//! shut, too, where the task that waits is amid the window and lacks the page beyond: the crowd then waits for what it may not need, and
//! the thread has others. The figures stand in docs/decisions/042-crowds-wait-as-one.md.

use super::task::{ActiveTask, Gone, Packed, Waiting, WITHIN};
use std::collections::BTreeMap;

/// Place and number of a task.
type TaskKey = (u64, u64);

/// A task that has not gone on in the window yet.
enum Fresh<T> {
    Whole(Box<ActiveTask<T>>),
    /// The record of one that is packed.
    Packed(u32),
}

/// A crowd of so many or fewer takes no more room than it needs: where tasks lie far apart most are alone.
const FEW: usize = 4;

/// Those of a neighbourhood.
struct Crowd<T> {
    tasks: Vec<(TaskKey, Fresh<T>)>,
    /// The one that goes on next is the last: they are put in order when the first goes on, and who comes later goes before them. (All
    /// read the same pages. To keep the order, each that came would cost a sort of all under the lock of the queue.)
    begun: bool,
}

impl<T> Crowd<T> {
    fn new() -> Self {
        Self { tasks: Vec::new(), begun: false }
    }

    /// The next that goes on.
    fn pop(&mut self, low_first: bool) -> Option<(TaskKey, Fresh<T>)> {
        if !core::mem::replace(&mut self.begun, true) {
            self.tasks.sort_unstable_by_key(|(key, _)| *key);
            if low_first {
                self.tasks.reverse();
            }
        }
        let next = self.tasks.pop();
        // Others grow while this one shrinks.
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
    /// Whether those at the low end of the data go first, or those at the high end.
    low_first: bool,
    /// Those whose pages have come.
    woken: BTreeMap<TaskKey, Box<ActiveTask<T>>>,
    /// 1. No crowd is empty. 2. Of a neighbourhood there is one at most: in `shut` while tasks wait there, else here.
    crowds: BTreeMap<u64, Crowd<T>>,
    /// Those at places where others wait for pages.
    shut: BTreeMap<u64, Crowd<T>>,
    /// Tasks in all crowds.
    fresh: usize,
    /// Of them those in crowds that are shut.
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

    /// Adds one; `shut` says whether others wait for pages where it is.
    pub(crate) fn push(&mut self, waiting: Waiting<T>, shut: bool) {
        let (key, fresh) = match waiting {
            Waiting::Whole(task) if task.restarts > 0 => {
                self.woken.insert((task.place, task.number), task);
                return;
            }
            Waiting::Whole(task) => ((task.place, task.number), Fresh::Whole(task)),
            Waiting::Packed(packed) => ((packed.place, packed.number), Fresh::Packed(packed.record)),
        };
        let crowds = if shut { &mut self.shut } else { &mut self.crowds };
        let crowd = crowds.entry(key.0 >> WITHIN).or_insert_with(Crowd::new);
        crowd.push(key, fresh);
        self.fresh += 1;
        self.kept_back += usize::from(shut);
    }

    /// Others wait for pages in a neighbourhood now.
    pub(crate) fn shut(&mut self, neighbourhood: u64) {
        if let Some(crowd) = self.crowds.remove(&neighbourhood) {
            self.kept_back += crowd.tasks.len();
            self.shut.insert(neighbourhood, crowd);
        }
    }

    /// No others do any more.
    pub(crate) fn open(&mut self, neighbourhood: u64) {
        if let Some(crowd) = self.shut.remove(&neighbourhood) {
            self.kept_back -= crowd.tasks.len();
            self.crowds.insert(neighbourhood, crowd);
        }
    }

    /// How many may go on.
    pub(crate) fn may_go_on(&self) -> usize {
        self.len() - self.kept_back
    }

    /// The next that may go on.
    pub(crate) fn pop(&mut self, window: u32) -> Option<Waiting<T>> {
        let (woken, crowd) = if self.low_first {
            (self.woken.first_key_value(), self.crowds.first_key_value())
        } else {
            (self.woken.last_key_value(), self.crowds.last_key_value())
        };
        let (woken, crowd) = (woken.map(|(key, _)| *key), crowd.map(|(neighbourhood, _)| *neighbourhood));
        if let Some(key) = woken {
            let at = key.0 >> WITHIN;
            if crowd.is_none_or(|crowd| at == crowd || (at < crowd) == self.low_first) {
                return self.woken.remove(&key).map(Waiting::Whole);
            }
        }
        let mut entry = if self.low_first { self.crowds.first_entry() } else { self.crowds.last_entry() }?;
        let next = entry.get_mut().pop(self.low_first);
        if entry.get().tasks.is_empty() {
            entry.remove();
        }
        self.fresh -= usize::from(next.is_some());
        next.map(|(key, fresh)| match fresh {
            Fresh::Whole(task) => Waiting::Whole(task),
            Fresh::Packed(record) => Waiting::packed(key.1, window, key.0, record),
        })
    }

    /// Whether a task waits here that has gone on in the window.
    pub(crate) fn has_woken(&self, number: u64) -> bool {
        self.woken.values().any(|task| task.number == number)
    }

    /// The records of those that are packed.
    pub(crate) fn records(&mut self) -> impl Iterator<Item = &mut u32> {
        let crowds = self.crowds.values_mut().chain(self.shut.values_mut());
        crowds.flat_map(|crowd| &mut crowd.tasks).filter_map(|(_, fresh)| match fresh {
            Fresh::Packed(record) => Some(record),
            Fresh::Whole(_) => None,
        })
    }

    /// Moves tasks to `gone` until there are `most`: those that are packed before others, and woken ones last; see
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

    /// Bytes that entries take: of one that is alone with its place in the map, at its most.
    fn bytes(crowds: &Crowds<()>) -> usize {
        let of = |crowd: &Crowd<()>| crowd.tasks.capacity() * size_of::<(TaskKey, Fresh<()>)>();
        let crowds = crowds.crowds.values().chain(crowds.shut.values());
        crowds.map(|crowd| of(crowd) + if crowd.tasks.len() < FEW { 16 + 74 } else { 0 }).sum()
    }

    #[test]
    fn what_crowds_take_is_charged_with_their_records() {
        let packed = |number: u64, place: u64| Waiting::packed(number, 0, place, number as u32);
        // Each alone, all in one, and some in each; and whatever has gone on.
        for each in [1, 2, 3, 5, 40, 4000] {
            let mut crowds = Crowds::<()>::new(true);
            for n in 0..4000 {
                crowds.push(packed(n, (n / each) << WITHIN), false);
                assert!(bytes(&crowds) <= OF_RECORD * crowds.len(), "{n} of {each}: {}", bytes(&crowds));
            }
            for n in 0..4000 {
                let Some(Waiting::Packed(next)) = crowds.pop(0) else { panic!("{n} of {each}") };
                assert_eq!(next.number, n, "low first");
                // In the last few of a crowd its room is that of a few.
                let most = OF_RECORD * crowds.len() + FEW * size_of::<(TaskKey, Fresh<()>)>() + 90;
                assert!(bytes(&crowds) <= most, "{n} of {each}: {}", bytes(&crowds));
            }
            assert!(crowds.pop(0).is_none() && crowds.crowds.is_empty() && crowds.len() == 0);
        }
    }
}
