//! Pictures.

use crate::arguments;
use crate::watch::watched;
use pyo3::prelude::*;

#[pyfunction]
#[pyo3(signature = (scene, output, *, memory_limit, workers=0, readers=0, replacement="clock", events=None, progress=None))]
#[allow(clippy::too_many_arguments)] // keywords of one call
pub fn render(
    py: Python<'_>,
    scene: &str,
    output: &str,
    memory_limit: u64,
    workers: usize,
    readers: usize,
    replacement: &str,
    events: Option<&str>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let _ = (scene, output, readers);
    watched(py, progress, |_| {
        let mut means = arguments::means(memory_limit, workers, readers, replacement)?;
        means.observer = arguments::observer(events)?;
        Err(field::error::FieldError::Usage("no pictures yet".into()))
    })
}
