//! Files by path or URL, for the readers of headers in Python.

use field::error::FieldError;
use pager::place::{self, FileKind};
use pager::PageErrorKind;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use python_calls::to_python;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Most names of one folder. A name takes some hundred bytes.
const MOST_NAMES: usize = 1 << 20;

fn failed(py: Python<'_>, path: &str, kind: PageErrorKind) -> PyErr {
    to_python(py, FieldError::io(path, kind.into_io()))
}

/// Kind, size in bytes, version, and last change in nanoseconds since 1970.
type StatTuple = (&'static str, u64, String, i64);

#[pyfunction]
#[pyo3(signature = (paths, *, first_bytes = false))]
pub fn stat_files(py: Python<'_>, paths: Vec<String>, first_bytes: bool) -> PyResult<Vec<Option<StatTuple>>> {
    let asked: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    let found = py.detach(|| if first_bytes { place::begin(&asked) } else { place::stat(&asked) });
    let each = paths.iter().zip(found).map(|(path, stat)| match stat {
        Ok(stat) => {
            let kind = match stat.kind {
                FileKind::File => "file",
                FileKind::Folder => "folder",
                FileKind::Other => "other",
            };
            Ok(Some((kind, stat.version.size, stat.version.tag.to_string(), stat.modified_ns)))
        }
        Err(PageErrorKind::Missing) => Ok(None),
        Err(kind) => Err(failed(py, path, kind)),
    });
    each.collect()
}

#[pyfunction]
pub fn list_folder(py: Python<'_>, folder: &str) -> PyResult<Vec<(String, bool, u64)>> {
    let found = py.detach(|| place::list(Path::new(folder), MOST_NAMES)).map_err(|kind| failed(py, folder, kind))?;
    Ok(found.into_iter().map(|entry| (entry.name, entry.kind == FileKind::Folder, entry.size)).collect())
}

/// An open file.
#[pyclass(frozen, module = "farfield._native")]
pub struct FileReader {
    path: String,
    reader: place::FileReader,
}

#[pymethods]
impl FileReader {
    #[new]
    fn new(py: Python<'_>, path: String) -> PyResult<Self> {
        let opened = py.detach(|| place::FileReader::open(Path::new(&path)));
        match opened {
            Ok(reader) => Ok(Self { path, reader }),
            Err(kind) => Err(failed(py, &path, kind)),
        }
    }

    #[getter]
    fn size(&self) -> u64 {
        self.reader.size()
    }

    #[getter]
    fn version(&self) -> String {
        self.reader.version().tag.to_string()
    }

    fn read_at<'py>(&self, py: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.reader.read_up_to(offset, length));
        bytes.map(|bytes| PyBytes::new(py, &bytes)).map_err(|kind| failed(py, &self.path, kind))
    }
}

/// The time in which a dataset is opened, as a context.
#[pyclass(frozen, name = "Opening", module = "farfield._native")]
pub struct PyOpening(Mutex<Option<place::Opening>>);

#[pymethods]
impl PyOpening {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn __enter__(slf: Py<Self>) -> PyResult<Py<Self>> {
        match slf.get().0.lock() {
            Ok(mut opening) if opening.is_none() => *opening = Some(place::Opening::begin()),
            _ => return Err(PyRuntimeError::new_err("an opening is entered once")),
        }
        Ok(slf)
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, _error: &Bound<'_, PyTuple>) {
        if let Ok(mut opening) = self.0.lock() {
            *opening = None;
        }
    }
}
