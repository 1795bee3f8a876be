//! Progress and Ctrl-C while the engine works without the GIL.

use crate::errors::to_python;
use field::error::FieldError;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The exception of a signal that ended a wait for a remote file. The engine reports it as `Interrupted`.
static SIGNAL: Mutex<Option<PyErr>> = Mutex::new(None);

/// Lets waits for remote files end at Ctrl-C. Called once, when the extension is loaded.
pub fn end_waits_at_signals() {
    pager::place::on_wait(|| {
        Python::attach(|py| match py.check_signals() {
            Ok(()) => false,
            Err(e) => {
                *SIGNAL.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                true
            }
        })
    });
}

/// Takes the exception of the signal that ended a wait.
pub(crate) fn signal() -> Option<PyErr> {
    SIGNAL.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Runs `work` without the GIL. `work` gets a function that calls `progress` and checks signals, at most about ten
/// times a second. An exception of either replaces the engine's `Interrupted`.
pub fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&mut runtime::session::ProgressWatch<'_>) -> Result<T, FieldError> + Send,
) -> PyResult<T> {
    let callback: Option<Py<PyAny>> = progress.filter(|p| !p.is_none()).map(|p| p.clone().unbind());
    let (result, raised) = py.detach(move || {
        let mut raised: Option<PyErr> = None;
        let mut last: Option<(String, Instant)> = None;
        let result = work(&mut |phase: &str, done: f64, total: f64| {
            // The first and last call of a phase always pass.
            let soon = last.as_ref().is_some_and(|(p, t)| p == phase && t.elapsed() < Duration::from_millis(80));
            if soon && !(total > 0.0 && done >= total) {
                return true;
            }
            last = Some((phase.to_owned(), Instant::now()));
            Python::attach(|py| {
                let go_on = py.check_signals().and_then(|()| match &callback {
                    Some(c) => c.call1(py, (phase, done, total))?.is_truthy(py),
                    None => Ok(true),
                });
                go_on.unwrap_or_else(|e| {
                    raised = Some(e);
                    false
                })
            })
        });
        (result, raised)
    });
    match (result, raised) {
        (_, Some(e)) => Err(e),
        (Ok(v), None) => Ok(v),
        (Err(e), None) => Err(to_python(py, e)),
    }
}
