//! Traced lines in memory owned by Python.

use ::output::{LineArrays, LineColumn, LineSpool, OutputError, OutputFile, Provenance, Reason, SpoolOptions};
use field::error::FieldError;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use python_calls::to_python;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::OnceLock;

/// Traced lines.
#[pyclass(name = "Lines", module = "farfield._native", frozen)]
pub struct PyLines {
    lines: LineArrays,
    summary: String,
    provenance: Provenance,
    points: OnceLock<Py<PyArray2<f64>>>,
    offsets: OnceLock<Py<PyArray1<i64>>>,
    time: OnceLock<Py<PyArray1<f64>>>,
    zone: OnceLock<Py<PyArray1<i32>>>,
    arrays: OnceLock<Py<PyDict>>,
}

impl PyLines {
    /// Lines from the result of a trace.
    pub fn new(lines: LineArrays, summary: String, provenance: Provenance) -> Self {
        Self {
            lines,
            summary,
            provenance,
            points: OnceLock::new(),
            offsets: OnceLock::new(),
            time: OnceLock::new(),
            zone: OnceLock::new(),
            arrays: OnceLock::new(),
        }
    }
}

/// Name of the reason of a line's end. A seed outside every zone counts as left.
fn word(r: Reason) -> &'static str {
    if r == Reason::Outside {
        Reason::Left.name()
    } else {
        r.name()
    }
}

#[pymethods]
impl PyLines {
    /// (N, 3).
    #[getter]
    fn points<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        if let Some(a) = self.points.get() {
            return Ok(a.bind(py).clone());
        }
        let flat = &self.lines.points;
        let a = PyArray1::from_slice(py, flat).reshape([flat.len() / 3, 3])?;
        Ok(self.points.get_or_init(|| a.unbind()).bind(py).clone())
    }
    /// (L + 1,).
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        self.offsets.get_or_init(|| PyArray1::from_slice(py, &self.lines.offsets).unbind()).bind(py).clone()
    }
    /// (N,).
    #[getter]
    fn time<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.time.get_or_init(|| PyArray1::from_slice(py, &self.lines.time).unbind()).bind(py).clone()
    }
    /// (N,), 1 for the first zone of the file.
    #[getter]
    fn zone<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        self.zone.get_or_init(|| PyArray1::from_slice(py, &self.lines.zone).unbind()).bind(py).clone()
    }
    /// Why each line ended at its last point.
    #[getter]
    fn reason(&self) -> Vec<&'static str> {
        self.lines.reason.iter().map(|r| word(*r)).collect()
    }
    /// Why each line ended at its first point, the end of backward tracing.
    #[getter]
    fn reason_backward(&self) -> Option<Vec<&'static str>> {
        self.lines.reason_backward.as_ref().map(|all| all.iter().map(|r| word(*r)).collect())
    }
    /// Seed of each line.
    #[getter]
    fn seed<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let lines = 0..self.lines.line_count() as u64;
        PyArray1::from_iter(py, lines.map(|n| self.lines.moments.seed(n) as i64))
    }
    /// Output time of each line, if a seed has one line at each of several times.
    #[getter]
    fn line_time<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        let of = |n| self.lines.moments.time(n);
        of(0).map(|_| PyArray1::from_iter(py, (0..self.lines.line_count() as u64).filter_map(of)))
    }
    /// Time step of each line, if a seed has one line at each of several steps.
    #[getter]
    fn line_step<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<i64>>> {
        let of = |n| self.lines.moments.step(n);
        of(0).map(|_| PyArray1::from_iter(py, (0..self.lines.line_count() as u64).filter_map(of).map(i64::from)))
    }
    /// Sampled fields.
    #[getter]
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(d) = self.arrays.get() {
            return Ok(d.bind(py).clone());
        }
        let d = PyDict::new(py);
        for (spec, column) in &self.lines.fields {
            let n = spec.components;
            match column {
                LineColumn::F64(v) if n == 1 => d.set_item(&spec.name, PyArray1::from_slice(py, v))?,
                LineColumn::F64(v) => d.set_item(&spec.name, PyArray1::from_slice(py, v).reshape([v.len() / n, n])?)?,
                LineColumn::F32(v) if n == 1 => d.set_item(&spec.name, PyArray1::from_slice(py, v))?,
                LineColumn::F32(v) => d.set_item(&spec.name, PyArray1::from_slice(py, v).reshape([v.len() / n, n])?)?,
            }
        }
        Ok(self.arrays.get_or_init(|| d.unbind()).bind(py).clone())
    }
    /// Unit of each sampled field.
    #[getter]
    fn units<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let d = PyDict::new(py);
        for (spec, _) in &self.lines.fields {
            d.set_item(&spec.name, &spec.unit)?;
        }
        Ok(d)
    }
    /// SUMMARY.
    #[getter]
    fn summary(&self) -> &str {
        &self.summary
    }
    /// Writes .vtp, .npz, .parquet or .pvd.
    fn save(&self, py: Python<'_>, path: &str) -> PyResult<()> {
        py.detach(|| {
            let file = OutputFile::create(Path::new(path))?;
            let options = SpoolOptions {
                seeds: self.lines.line_count() as u64,
                layout: self.lines.layout(),
                budget_bytes: SAVE_BUDGET,
                directory: SpoolOptions::spill_directory(Some(&file)),
            };
            let mut spool = LineSpool::new(options, Box::new(output::FixedBudget::new(2 * SAVE_BUDGET)))?;
            self.lines.add_to(&mut spool)?;
            spool.write(file, &self.provenance, false, &mut |_, _| ControlFlow::Continue(()))
        })
        .map_err(|e: OutputError| {
            let e = match e {
                OutputError::Memory { needs } => {
                    let what = "saving so many fields".into();
                    FieldError::LimitTooSmall { limit: SAVE_BUDGET as u64, needs, what }
                }
                e => e.into(),
            };
            to_python(py, e)
        })?;
        Ok(())
    }
    fn __len__(&self) -> usize {
        self.lines.line_count()
    }
}

/// Memory for saving, in bytes, beside the existing arrays; as much again for the contents of a table's footer.
const SAVE_BUDGET: usize = 32 << 20;
