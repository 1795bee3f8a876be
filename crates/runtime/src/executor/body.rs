//! The executor's part of a begun task: its state, the charge, and the pages of its step.

use super::scheduler::ActiveTask;
use pager::{Charge, Hold, PageId};

pub(crate) struct Body<T> {
    pub(crate) task: T,
    pub(crate) charge: Charge,
    pub(crate) wanted: WantedPages,
    /// The elder's pages. Boxed: one task at a time has them, and thousands wait.
    pub(crate) hold: Option<Box<Hold>>,
}

impl<T> Body<T> {
    pub(crate) fn new(task: T, charge: Charge) -> Self {
        Self { task, charge, wanted: WantedPages::default(), hold: None }
    }

    pub(crate) fn charged(&self) -> usize {
        self.charge.bytes() as usize
    }
}

/// A task with its body, as the scheduler holds it.
pub(crate) type TaskSlot<T> = ActiveTask<Body<T>>;

/// The pages requested by a step. The list takes no more room than they need, since hundreds of tasks wait with one.
#[derive(Debug, Default)]
pub(crate) struct WantedPages {
    pages: Vec<PageId>,
    /// Number of these pages that were requested before the last progress within the step.
    behind: usize,
}

impl WantedPages {
    pub(crate) fn bytes(&self) -> usize {
        self.pages.capacity() * size_of::<PageId>()
    }

    /// The step made progress: pages requested so far are behind it.
    pub(crate) fn go_on(&mut self) {
        self.behind = self.pages.len();
    }

    /// Adds pages requested by the step. True if one of them was requested before.
    pub(crate) fn add(&mut self, missing: &[PageId]) -> bool {
        let new = missing.iter().filter(|p| !self.pages.contains(p)).count();
        self.pages.reserve_exact(new);
        for p in missing {
            match self.pages.iter().position(|w| w == p) {
                None => self.pages.push(*p),
                // The step uses it once more.
                Some(at) if at < self.behind => {
                    self.pages[at..].rotate_left(1);
                    self.behind -= 1;
                }
                Some(_) => {}
            }
        }
        new < missing.len()
    }

    /// Pages that the elder holds: all requested since the last progress, and the latest of those before, `most` in
    /// all.
    pub(crate) fn held(&self, most: usize) -> &[PageId] {
        &self.pages[self.behind.min(self.pages.len().saturating_sub(most))..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pager::ArrayId;

    #[test]
    fn what_is_behind_is_held_as_far_as_there_is_room_and_what_is_asked_for_again_always() {
        let page = |n: u64| PageId::new(ArrayId(0), 0, n);
        let mut wanted = WantedPages::default();
        assert!(!wanted.add(&[page(0), page(1), page(2)]));
        assert_eq!(wanted.held(0), [page(0), page(1), page(2)]);
        wanted.go_on();
        assert!(wanted.held(0).is_empty());
        assert_eq!(wanted.held(2), [page(1), page(2)]);
        assert!(wanted.add(&[page(3), page(0)]), "one of them was asked for before");
        assert_eq!(wanted.held(0), [page(3), page(0)]);
        assert_eq!(wanted.held(3), [page(2), page(3), page(0)]);
        assert_eq!(wanted.bytes(), 4 * size_of::<PageId>());
    }
}
