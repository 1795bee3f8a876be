//! Logs of events: summed up, replayed, exported.

use ::profile::replay::{self, ReplaySpec};
use ::profile::{summarise as sum_up, Events, Form};
use pyo3::prelude::*;
use python_calls::watched;
use serde_json::json;
use std::path::Path;

#[pyfunction]
#[pyo3(signature = (path, *, progress=None))]
pub fn summarise(py: Python<'_>, path: &str, progress: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
    watched(py, progress, |watch| sum_up(Path::new(path), watch).map(|v| v.to_string()))
}

#[pyfunction]
#[pyo3(signature = (path, *, options="{}", progress=None))]
pub fn replay_events(
    py: Python<'_>,
    path: &str,
    options: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |watch| {
        let spec = ReplaySpec::parse(options)?;
        replay::replay(Path::new(path), &spec, watch).map(|v| v.to_string())
    })
}

#[pyfunction]
#[pyo3(signature = (path, output, *, progress=None))]
pub fn export_events(
    py: Python<'_>,
    path: &str,
    output: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |watch| {
        let output = Path::new(output);
        let ended = Events::open(Path::new(path))?.export(output, Form::of(output), watch)?;
        Ok(json!({
            "output": output, "events": ended.events, "unknown": ended.unknown, "lost_bytes": ended.lost_bytes,
            "whole": ended.whole, "damaged": ended.damaged,
        })
        .to_string())
    })
}
