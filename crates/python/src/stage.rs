//! Datasets that are brought to page servers.

use field::error::FieldError;
use pyo3::prelude::*;
use python_calls::{to_python, watched};
use remote::staging::{self, SourceFile, StageError, StageOptions};
use serde::Deserialize;
use std::path::PathBuf;

/// What is staged, as Python gives it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StageDocument {
    /// Path or URL of each file, and its name below the dataset.
    files: Vec<(PathBuf, String)>,
    servers: Vec<String>,
    dataset: String,
    replicas: usize,
    rate: Option<u64>,
    memory: u64,
    #[serde(default)]
    dry_run: bool,
}

fn failed(e: StageError) -> FieldError {
    match e {
        StageError::Usage(message) => FieldError::Usage(message),
        StageError::Source { path, kind } => FieldError::io(path, kind.into_io()),
        StageError::Server { url, kind } => FieldError::io(url, kind.into_io()),
        StageError::Refused(message) => FieldError::Output(message),
        StageError::Interrupted => FieldError::Interrupted,
    }
}

/// Brings files to page servers. Returns what was done, as JSON.
#[pyfunction]
#[pyo3(signature = (options, progress=None))]
pub fn stage_files(py: Python<'_>, options: &str, progress: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
    let wrong = |e: serde_json::Error| to_python(py, FieldError::Usage(format!("options: {e}")));
    let told: StageDocument = serde_json::from_str(options).map_err(wrong)?;
    let options = StageOptions {
        files: told.files.into_iter().map(|(path, name)| SourceFile { path, name }).collect(),
        servers: told.servers,
        dataset: told.dataset,
        replicas: told.replicas,
        rate: told.rate,
        memory: told.memory,
        dry_run: told.dry_run,
    };
    watched(py, progress, |watch| staging::stage(options, watch).map_err(failed).map(|report| report.to_string()))
}

/// Removes a staged dataset. Returns the servers that had it.
#[pyfunction]
pub fn remove_staged(py: Python<'_>, servers: Vec<String>, dataset: &str) -> PyResult<Vec<String>> {
    py.detach(|| staging::remove(&servers, dataset)).map_err(|e| to_python(py, failed(e)))
}
