//! Pictures.

use ::render::scene;
use ::runtime::events::Events;
use pyo3::prelude::*;
use python_calls::watched;
use std::path::Path;

#[pyfunction]
#[pyo3(signature = (scene, output, resources, *, tables=Vec::new(), progress=None))]
pub fn render(
    py: Python<'_>,
    scene: &str,
    output: &str,
    resources: &str,
    tables: Vec<Vec<u8>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |watch| {
        let (resources, events) = Events::with_resources(resources)?;
        let drawn = scene::render(scene, tables, Path::new(output), resources, watch)?;
        events.finish(&drawn["stats"], watch)?;
        Ok(drawn.to_string())
    })
}
