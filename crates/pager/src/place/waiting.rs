//! Waiting for answers of a place, which the user can end.

use crate::error::PageErrorKind;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Interval of checks for an interruption.
const CHECK_EVERY: Duration = Duration::from_millis(80);

static INTERRUPTED: OnceLock<fn() -> bool> = OnceLock::new();

/// Sets the check for an interruption, which waiting threads call some ten times a second. Later calls change nothing.
pub fn on_wait(interrupted: fn() -> bool) {
    let _first = INTERRUPTED.set(interrupted);
}

/// Answers by number, each given once, from any thread.
#[derive(Debug)]
pub(super) struct Answers<T> {
    answers: Mutex<Vec<Option<T>>>,
    bell: Condvar,
}

impl<T> Answers<T> {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new((0..count).map(|_| None).collect()), bell: Condvar::new() })
    }

    pub(super) fn tell(&self, number: usize, answer: T) {
        if let Some(slot) = self.answers.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
            *slot = Some(answer);
        }
        self.bell.notify_all();
    }

    /// Waits for all answers.
    ///
    /// # Errors
    /// [`PageErrorKind::Interrupted`]. Answers may still come, and are dropped.
    pub(super) fn wait(&self) -> Result<Vec<T>, PageErrorKind> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        while answers.iter().any(Option::is_none) {
            answers = self.bell.wait_timeout(answers, CHECK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
            if answers.iter().any(Option::is_none) && INTERRUPTED.get().is_some_and(|interrupted| interrupted()) {
                return Err(PageErrorKind::Interrupted);
            }
        }
        Ok(answers.drain(..).flatten().collect())
    }
}
