//! Stores of volumes, and ranges of pages of volumes paged in place.

use ::runtime::options as run_options;
use ::runtime::session::{ProgressWatch, Session, Source};
use field::error::FieldError;
use field::volume::store::{RangeDocument, VolumeStore};
use field::volume::VolumeFiles;
use pyo3::prelude::*;
use python_calls::watched;
use serde_json::{json, Value};
use std::path::Path;

#[pyfunction]
#[pyo3(signature = (path))]
pub fn stored_volume(py: Python<'_>, path: &str) -> PyResult<String> {
    watched(py, None, |_watch| {
        let store = VolumeStore::open(Path::new(path))?;
        Ok(json!({"spec": store.spec(), "described": store.described()}).to_string())
    })
}

#[pyfunction]
#[pyo3(signature = (source, tables, folder, *, progress=None))]
pub fn known_ranges(
    py: Python<'_>,
    source: &str,
    tables: Vec<Vec<u8>>,
    folder: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<String>> {
    watched(py, progress, |watch| {
        let Source::Volume(spec, tables) = run_options::dataset_source(source, tables)? else {
            return Err(FieldError::Usage("ranges are those of a volume".into()));
        };
        let mut go_on = || watch("looking at files", 0.0, 0.0);
        let state = VolumeFiles::of(&spec).state(&spec, &tables, &mut go_on)?;
        Ok(RangeDocument::read(Path::new(folder), state).map(|known| told(&known).to_string()))
    })
}

/// Ranges by channel: null without any number.
fn told(known: &RangeDocument) -> Value {
    let seen = known.seen.iter().map(|[a, b]| if a <= b { json!([finite(*a), finite(*b)]) } else { Value::Null });
    json!({"seen": seen.collect::<Vec<_>>(), "failed": known.failed})
}

/// A bound in JSON. It is infinite if a value is, or if a page cannot be read.
fn finite(x: f64) -> Value {
    match x {
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        x => json!(x),
    }
}

/// Makes the ranges of an open volume.
pub fn build_ranges(
    session: &Session,
    tables: &[Vec<u8>],
    folder: &str,
    watch: &mut ProgressWatch<'_>,
) -> Result<String, FieldError> {
    let spec = &session.volume()?.spec;
    let mut go_on = || watch("looking at files", 0.0, 0.0);
    let state = VolumeFiles::of(spec).state(spec, tables, &mut go_on)?;
    let made = runtime::volume::build_ranges(session, Path::new(folder), state, watch)?;
    let mut found = told(&made.known);
    found["pages"] = made.pages.into();
    found["stats"] = json!(session.stats());
    Ok(found.to_string())
}
