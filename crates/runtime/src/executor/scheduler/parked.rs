//! Parked tasks: they wait for pages.
//!
//! Each waits under a token until its wake comes. The places are counted, too. Tasks at one place mostly wait for the
//! same pages. So the number of places, and not of tasks, measures how many pages are on their way.

use super::task::{ActiveTask, Gone, Where};
use pager::PageHash;
use std::collections::HashMap;

pub(crate) struct Parked<T> {
    /// By token. A token is free again after its wake, even if its task was dropped.
    tasks: Vec<Option<Box<ActiveTask<T>>>>,
    /// The place of each token's task.
    at: Vec<Where>,
    free: Vec<usize>,
    /// Tasks in each neighbourhood.
    places: HashMap<Where, u32, PageHash>,
}

impl<T> Parked<T> {
    pub(crate) fn new() -> Self {
        Self { tasks: Vec::new(), at: Vec::new(), free: Vec::new(), places: HashMap::default() }
    }

    /// Parks a task. Returns its token, and its neighbourhood if it is the first to wait there.
    pub(crate) fn park(&mut self, task: Box<ActiveTask<T>>) -> (usize, Option<Where>) {
        let place = task.neighbourhood();
        let there = self.places.entry(place).or_insert(0);
        *there += 1;
        let first = (*there == 1).then_some(place);
        let token = self.free.pop().unwrap_or(self.tasks.len());
        if token == self.tasks.len() {
            self.tasks.push(None);
            self.at.push((0, 0));
        }
        (self.tasks[token], self.at[token]) = (Some(task), place);
        (token, first)
    }

    /// A wake has come. Returns its task unless dropped, and its neighbourhood if it was the last to wait there.
    pub(crate) fn wake(&mut self, token: usize) -> (Option<Box<ActiveTask<T>>>, Option<Where>) {
        let Some(task) = self.tasks.get_mut(token) else { return (None, None) };
        let (task, place) = (task.take(), self.at[token]);
        self.free.push(token);
        let mut last = None;
        if let Some(n) = self.places.get_mut(&place) {
            *n -= 1;
            if *n == 0 {
                self.places.remove(&place);
                last = Some(place);
            }
        }
        (task, last)
    }

    /// Numbers of waiting tasks and of their places.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.tasks.len() - self.free.len(), self.places.len())
    }

    pub(crate) fn any_at(&self, at: Where) -> bool {
        self.places.contains_key(&at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ActiveTask<T>> {
        self.tasks.iter().flatten().map(|task| &**task)
    }

    /// Moves tasks to `gone` until it has `most`, the last token first. Their wakes are still to come.
    pub(crate) fn drop_those(&mut self, most: usize, which: impl Fn(&ActiveTask<T>) -> bool, gone: &mut Gone<T>) {
        for task in self.tasks.iter_mut().rev() {
            if gone.len() >= most {
                break;
            }
            if task.as_deref().is_some_and(&which) {
                gone.tasks.extend(task.take());
            }
        }
    }
}
