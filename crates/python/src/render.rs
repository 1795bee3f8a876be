//! Pictures.

use ::render::scene;
use ::runtime::events::Events;
use ::runtime::options as run_options;
use pyo3::prelude::*;
use python_calls::watched;
use std::path::Path;

#[pyfunction]
#[pyo3(signature = (scene, output, *, tables=Vec::new(), memory_limit, workers=0, readers=0, replacement="clock", events=None, progress=None))]
#[allow(clippy::too_many_arguments)] // keywords of one call
pub fn render(
    py: Python<'_>,
    scene: &str,
    output: &str,
    tables: Vec<Vec<u8>>,
    memory_limit: u64,
    workers: usize,
    readers: usize,
    replacement: &str,
    events: Option<&str>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |watch| {
        let mut resources = run_options::resources(memory_limit, workers, readers, replacement)?;
        let events = Events::begin(events, &mut resources)?;
        let drawn = scene::render(scene, tables, Path::new(output), resources, watch)?;
        events.finish(&drawn["stats"], watch)?;
        Ok(drawn.to_string())
    })
}
