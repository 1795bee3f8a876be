//! Tasks of one window that wait for a thread, by where they are.
//!
//! Those that have not gone on in the window yet wait in *crowds*, one for each neighbourhood: what one of them lacks the others would
//! lack, too. So while a task waits for pages in a neighbourhood its crowd is *shut*, and none of it makes a step in vain. (When
//! only those that are put away were kept back, 10,000 particles in 200 windows at 512 MiB, on a disk that was slow for a while, made 1.5
//! million steps in vain and took 22.9 s of processor time where they take 11.6 so, and 11.1 and 9.8 where the disk was fast.)

use super::parked::WITHIN;
use super::records::{Records, Waiting};
use super::shared::{Gone, Slot};
use std::collections::BTreeMap;

/// Place and number of a task.
type Key = (u64, u64);

/// A task that has not gone on in the window yet.
enum Fresh<T> {
    Whole(Box<Slot<T>>),
    /// The record of one that is put away.
    Away(u32),
}

/// A crowd of so many or fewer takes no more room than it needs: where tasks lie far apart most are alone, and room for four would be
/// twice what a task in the queue is charged with.
const FEW: usize = 4;

/// Those of a neighbourhood.
struct Crowd<T> {
    tasks: Vec<(Key, Fresh<T>)>,
    /// 1. If so, the one that goes on next is the last.
    sorted: bool,
}

impl<T> Crowd<T> {
    fn new() -> Self {
        Self { tasks: Vec::new(), sorted: true }
    }

    /// The next that goes on.
    fn pop(&mut self, low_first: bool) -> Option<(Key, Fresh<T>)> {
        if !core::mem::replace(&mut self.sorted, true) {
            self.tasks.sort_unstable_by_key(|(key, _)| *key);
            if low_first {
                self.tasks.reverse();
            }
        }
        self.tasks.pop()
    }
}

pub(super) struct Places<T> {
    /// Whether those at the low end of the data go first, or those at the high end.
    low_first: bool,
    /// Those whose pages have come.
    woken: BTreeMap<Key, Box<Slot<T>>>,
    /// 1. No crowd is empty.
    crowds: BTreeMap<u64, Crowd<T>>,
    /// Crowds at places where others wait for pages.
    shut: BTreeMap<u64, Crowd<T>>,
    /// Tasks in all crowds.
    fresh: usize,
}

impl<T> Places<T> {
    pub(super) fn new(low_first: bool) -> Self {
        Self { low_first, woken: BTreeMap::new(), crowds: BTreeMap::new(), shut: BTreeMap::new(), fresh: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.woken.len() + self.fresh
    }

    /// Adds one; `shut` says whether others wait for pages where it is.
    pub(super) fn push(&mut self, waiting: Waiting<T>, shut: bool) {
        let (key, fresh) = match waiting {
            Waiting::Whole(slot) if slot.restarts > 0 => {
                self.woken.insert((slot.place, slot.number), slot);
                return;
            }
            Waiting::Whole(slot) => ((slot.place, slot.number), Fresh::Whole(slot)),
            Waiting::Away(away) => ((away.place, away.number), Fresh::Away(away.record)),
        };
        let crowds = if shut { &mut self.shut } else { &mut self.crowds };
        let crowd = crowds.entry(key.0 >> WITHIN).or_insert_with(Crowd::new);
        if crowd.tasks.len() < FEW {
            crowd.tasks.reserve_exact(1);
        }
        crowd.tasks.push((key, fresh));
        crowd.sorted = crowd.tasks.len() == 1;
        self.fresh += 1;
    }

    /// Others wait for pages in a neighbourhood now.
    pub(super) fn shut(&mut self, neighbourhood: u64) {
        if let Some(crowd) = self.crowds.remove(&neighbourhood) {
            join(&mut self.shut, neighbourhood, crowd);
        }
    }

    /// No others do any more.
    pub(super) fn open(&mut self, neighbourhood: u64) {
        if let Some(crowd) = self.shut.remove(&neighbourhood) {
            join(&mut self.crowds, neighbourhood, crowd);
        }
    }

    /// Whether none may go on.
    pub(super) fn none(&self) -> bool {
        self.woken.is_empty() && self.crowds.is_empty()
    }

    /// The next that may go on.
    pub(super) fn pop(&mut self, window: u32) -> Option<Waiting<T>> {
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
            Fresh::Whole(slot) => Waiting::Whole(slot),
            Fresh::Away(record) => Waiting::away(key.1, window, key.0, record),
        })
    }

    /// How many are held.
    pub(super) fn held(&self) -> usize {
        // Of those that have not gone on none has been restarted.
        self.woken.values().filter(|slot| slot.hold.is_some()).count()
    }

    /// The records of those that are put away.
    pub(super) fn records(&mut self) -> impl Iterator<Item = &mut u32> {
        let crowds = self.crowds.values_mut().chain(self.shut.values_mut());
        crowds.flat_map(|crowd| &mut crowd.tasks).filter_map(|(_, fresh)| match fresh {
            Fresh::Away(record) => Some(record),
            Fresh::Whole(_) => None,
        })
    }

    /// Moves tasks to `gone` until there are `most`, the latest first; see [`super::ready::Ready::drop_those`].
    pub(super) fn drop_those(
        &mut self,
        window: u32,
        most: usize,
        which: impl Fn(&Slot<T>) -> bool,
        records: &mut Records,
        gone: &mut Gone<T>,
    ) {
        for whole in [false, true] {
            for crowds in [&mut self.shut, &mut self.crowds] {
                for crowd in crowds.values_mut().rev() {
                    let left = most.saturating_sub(gone.len());
                    let goes = |(_, fresh): &mut (Key, Fresh<T>)| match fresh {
                        Fresh::Away(_) => !whole,
                        Fresh::Whole(slot) => whole && which(slot),
                    };
                    for (key, fresh) in crowd.tasks.extract_if(.., goes).take(left) {
                        self.fresh -= 1;
                        match fresh {
                            Fresh::Whole(slot) => gone.slots.push(slot),
                            Fresh::Away(record) => {
                                records.put_back(record);
                                gone.away.push((key.1, window));
                            }
                        }
                    }
                }
                crowds.retain(|_, crowd| !crowd.tasks.is_empty());
            }
        }
        let left = most.saturating_sub(gone.len());
        let those = self.woken.iter().rev().filter(|(_, slot)| which(slot)).map(|(key, _)| *key).take(left);
        for key in those.collect::<Vec<_>>() {
            gone.slots.extend(self.woken.remove(&key));
        }
    }
}

/// Puts a crowd with that of its neighbourhood.
fn join<T>(crowds: &mut BTreeMap<u64, Crowd<T>>, neighbourhood: u64, mut crowd: Crowd<T>) {
    let there = crowds.entry(neighbourhood).or_insert_with(Crowd::new);
    if there.tasks.is_empty() {
        *there = crowd;
    } else {
        there.tasks.append(&mut crowd.tasks);
        there.sorted = false;
    }
}
