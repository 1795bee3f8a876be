//! Pictures.

use crate::arguments::{self, Events, Ground, Object};
use crate::watch::watched;
use ::render::scene::{self, PartReaders};
use ::runtime::session::{ProgressWatch, Session, SourceSpec};
use ::trace::TraceSpec;
use field::error::FieldError;
use pyo3::prelude::*;
use serde_json::Value;
use std::path::Path;

/// The source of a scene: `{"path", "q", "function", "options"}`.
fn source(value: Value) -> Result<SourceSpec, FieldError> {
    let mut o = Object::of(value, "scene: source")?;
    let path = o.text("path")?.ok_or_else(|| FieldError::Usage("scene: source: there is no 'path'".into()))?;
    let (q, function) = (o.texts("q")?, o.texts("function")?);
    let mut options = Object::of(o.take("options").unwrap_or_else(|| serde_json::json!({})), "scene: source: options")?;
    let spec = arguments::source(&path, Some(q), Some(function), &mut options)?;
    options.done()?;
    o.done()?;
    Ok(spec)
}

/// Options of a trace in a scene.
fn trace(value: Value, session: &Session, watch: &mut ProgressWatch<'_>) -> Result<TraceSpec, FieldError> {
    let mut o = Object::of(value, "scene: trace")?;
    let spec = arguments::trace_object(&mut o, None, &Ground::of(session), watch)?;
    o.done()?;
    Ok(spec)
}

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
        let mut means = arguments::means(memory_limit, workers, readers, replacement)?;
        let events = Events::begin(events, &mut means)?;
        let reader = PartReaders { source: &source, trace: &trace, cores: &crate::cores::of_value };
        let drawn = scene::render(scene, tables, Path::new(output), means, &reader, watch)?;
        events.finish(&drawn["stats"], watch)?;
        Ok(drawn.to_string())
    })
}
