//! Slices in files and in memory.

use ::extract::sliceimage::{options::laid, Slice, SliceArrays, SliceNumbers};
use ::output::{FieldType, Provenance};
use ::runtime::session::{ProgressWatch, Session};
use ::runtime::stats::Stats;
use field::error::FieldError;
use numpy::PyArray1;
use pyo3::prelude::*;
use serde_json::{json, Value};
use std::path::Path;

/// A slice in memory: its description as JSON, its numbers in a row, and the state of each pixel.
pub type InMemory<'py> = (String, Bound<'py, PyAny>, Bound<'py, PyAny>);

fn provenance(source: String) -> Provenance {
    let program = concat!("farfield ", env!("CARGO_PKG_VERSION")).to_owned();
    Provenance { program, source, ..Provenance::default() }
}

/// Adds the stats of a run.
fn with_stats(mut told: Value, stats: &Stats) -> String {
    if let Some(told) = told.as_object_mut() {
        told.remove("wait_s");
        told.insert("stats".into(), json!(stats));
    }
    told.to_string()
}

/// Writes a slice to a file.
pub fn write(
    session: &Session,
    options: &str,
    output: &str,
    watch: &mut ProgressWatch<'_>,
) -> Result<String, FieldError> {
    let (slice, look) = laid(session, options, watch)?;
    let (workers, output) = (session.threads(), Path::new(output));
    let provenance = provenance(pager::place::shown(&session.spec.path));
    let told = slice.write(&session.pager, workers, output, look, &provenance, watch)?;
    session.add_wait(told["wait_s"].as_f64().unwrap_or(0.0));
    Ok(with_stats(told, &session.stats()))
}

/// A slice in memory: its description, its numbers, whether they need double precision, and their kind.
type SliceReply = (Value, SliceArrays, bool, SliceNumbers);

/// Makes a slice in memory.
pub fn make(session: &Session, options: &str, watch: &mut ProgressWatch<'_>) -> Result<SliceReply, FieldError> {
    let (slice, _) = laid(session, options, watch)?;
    let arrays = slice.arrays(&session.pager, session.threads(), watch)?;
    session.add_wait(arrays.run.wait_s);
    Ok(made(&slice, arrays))
}

fn made(slice: &Slice, arrays: SliceArrays) -> SliceReply {
    let mut told = slice.about();
    let counts = &arrays.counts;
    told.insert("pixels".into(), counts.told());
    told.insert("failure".into(), json!(counts.failure));
    let wide = slice.fields.iter().any(|f| f.dtype == FieldType::F64);
    (Value::Object(told), arrays, wide, slice.numbers)
}

/// Converts a slice into NumPy arrays.
pub fn handed<'py>(py: Python<'py>, (told, arrays, wide, numbers): SliceReply) -> InMemory<'py> {
    let values = match (numbers, wide) {
        (SliceNumbers::Unsigned, _) => PyArray1::from_iter(py, arrays.values.into_iter().map(f64::to_bits)).into_any(),
        (SliceNumbers::Signed, _) => {
            PyArray1::from_iter(py, arrays.values.into_iter().map(|v| v.to_bits().cast_signed())).into_any()
        }
        (SliceNumbers::Doubles, true) => PyArray1::from_vec(py, arrays.values).into_any(),
        (SliceNumbers::Doubles, false) => {
            PyArray1::from_iter(py, arrays.values.into_iter().map(|v| v as f32)).into_any()
        }
    };
    (told.to_string(), values, PyArray1::from_vec(py, arrays.pixels).into_any())
}
