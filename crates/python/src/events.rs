//! Logs of events: summed up, replayed, exported.

use crate::arguments::Object;
use crate::watch::watched;
use ::profile::replay::{self, ReplaySpec};
use ::profile::{summarise as sum_up, Events, Form};
use field::error::FieldError;
use pyo3::prelude::*;
use serde_json::{json, Value};
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
        let mut o = Object::parse(options, "replay options")?;
        let spec = ReplaySpec {
            limits: wholes(&mut o, "limits")?,
            policies: o.texts("policies")?,
            coarser: wholes(&mut o, "coarser")?,
            latencies_s: numbers(&mut o, "latencies_s")?,
            readers: wholes(&mut o, "readers")?.into_iter().map(|n| n as usize).collect(),
            workers: wholes(&mut o, "workers")?.into_iter().map(|n| n as usize).collect(),
        };
        o.done()?;
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

fn list<T>(o: &mut Object, key: &str, of: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>, FieldError> {
    let wrong = || FieldError::Usage(format!("replay options: {key} must be a list of numbers, each at least 0"));
    match o.take(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(|v| of(v).ok_or_else(wrong)).collect(),
        Some(_) => Err(wrong()),
    }
}

fn wholes(o: &mut Object, key: &str) -> Result<Vec<u64>, FieldError> {
    list(o, key, Value::as_u64)
}

fn numbers(o: &mut Object, key: &str) -> Result<Vec<f64>, FieldError> {
    list(o, key, |v| v.as_f64().filter(|n| *n >= 0.0))
}
