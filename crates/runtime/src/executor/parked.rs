//! Tasks that wait for pages.
//!
//! Each waits under a token until its wake comes. How many places they wait at is counted, too: tasks in one place mostly wait for
//! the same pages, so that places, and not tasks, say how much is on its way for them.

use super::scheduler::{Gone, TaskSlot};
use pager::PageHash;
use std::collections::HashMap;

/// Bits of a [place](super::Work::place) that say where in a neighbourhood it is.
pub(super) const WITHIN: u32 = 12;

/// A window, and a neighbourhood in it.
pub(super) type Where = (u32, u64);

pub(super) struct Parked<T> {
    /// By token. A token is free again when its wake has come, whatever has become of its task.
    slots: Vec<Option<Box<TaskSlot<T>>>>,
    /// Of each token's task.
    at: Vec<Where>,
    free: Vec<usize>,
    /// Tasks in each neighbourhood.
    places: HashMap<Where, u32, PageHash>,
}

impl<T> Parked<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), at: Vec::new(), free: Vec::new(), places: HashMap::default() }
    }

    /// Parks a task, and gives the token under which it waits; and where that is, if it is the first there.
    pub(super) fn park(&mut self, slot: Box<TaskSlot<T>>) -> (usize, Option<Where>) {
        let place = (slot.window, slot.place >> WITHIN);
        let there = self.places.entry(place).or_insert(0);
        *there += 1;
        let first = (*there == 1).then_some(place);
        let token = self.free.pop().unwrap_or(self.slots.len());
        if token == self.slots.len() {
            self.slots.push(None);
            self.at.push((0, 0));
        }
        (self.slots[token], self.at[token]) = (Some(slot), place);
        (token, first)
    }

    /// A wake has come: the task that waited for it, if it is still there, and where it was the last that waited.
    pub(super) fn wake(&mut self, token: usize) -> (Option<Box<TaskSlot<T>>>, Option<Where>) {
        let Some(slot) = self.slots.get_mut(token) else { return (None, None) };
        let (slot, place) = (slot.take(), self.at[token]);
        self.free.push(token);
        let mut last = None;
        if let Some(n) = self.places.get_mut(&place) {
            *n -= 1;
            if *n == 0 {
                self.places.remove(&place);
                last = Some(place);
            }
        }
        (slot, last)
    }

    /// Tasks that wait, and places where they do.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.slots.len() - self.free.len(), self.places.len())
    }

    /// Whether a task of the window waits in the neighbourhood of a place.
    pub(super) fn any_at(&self, window: u32, place: u64) -> bool {
        self.places.contains_key(&(window, place >> WITHIN))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TaskSlot<T>> {
        self.slots.iter().flatten().map(|slot| &**slot)
    }

    /// Moves tasks to `gone` until there are `most`, the latest first; their wakes are still to come.
    pub(super) fn drop_those(&mut self, most: usize, which: impl Fn(&TaskSlot<T>) -> bool, gone: &mut Gone<T>) {
        for slot in self.slots.iter_mut().rev() {
            if gone.len() >= most {
                break;
            }
            if slot.as_deref().is_some_and(&which) {
                gone.slots.extend(slot.take());
            }
        }
    }
}
