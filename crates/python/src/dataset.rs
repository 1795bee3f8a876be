//! An open dataset.

use crate::lines::PyLines;
use crate::slices;
use ::extract::JobRequest;
use ::output::Destination;
use ::runtime::events::Events;
use ::runtime::info;
use ::runtime::options as run_options;
use ::runtime::session::{ProgressWatch, Session};
use ::runtime::values::{self, NodeBox};
use ::trace::flowmap::FlowMapSpec;
use ::trace::options::{self as trace_options, Ground};
use ::trace::seeds::Seeds;
use ::trace::{TraceReport, TraceSpec};
use field::catalog::DType;
use field::error::FieldError;
use field::options::Object;
use field::quantity::Quantity;
use numpy::ndarray::s;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use python_calls::watched;
use python_calls::{raise, to_python};
use serde_json::{json, Value};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Catalog, pager and ledger.
#[pyclass(name = "Dataset", module = "farfield._native", frozen)]
pub struct PyDataset {
    open: Mutex<Option<OpenDataset>>,
    /// Who opened it. A forked child has none of its threads, nor its frames.
    process: u32,
}

/// What is open. The trace goes last.
struct OpenDataset {
    session: Arc<Session>,
    events: Events,
}

impl PyDataset {
    fn session(&self, py: Python<'_>) -> PyResult<Arc<Session>> {
        if self.process != std::process::id() {
            return Err(raise(
                py,
                "UsageError",
                "this dataset was opened before this process was forked; open it again here".into(),
            ));
        }
        let held = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        held.as_ref()
            .map(|o| o.session.clone())
            .ok_or_else(|| raise(py, "UsageError", "this dataset is closed; open it again".into()))
    }
}

/// Rows that are copied while Python waits: so few that nobody notices.
const ROWS_AT_ONCE: usize = 4096;

/// Rows of three numbers, or of two where the data lie in a plane. The array is the caller's, what is made of it is not.
struct VectorRows {
    array: Py<PyArray2<f64>>,
    shape: [usize; 2],
}

impl VectorRows {
    /// Looks at the shape alone. Whoever asks keeps `seeds`, by which the array is lent for reading, until the rows are copied.
    fn checked(py: Python<'_>, seeds: &Option<PyReadonlyArray2<'_, f64>>, ground: &Ground) -> PyResult<Option<Self>> {
        let Some(a) = seeds else { return Ok(None) };
        let (shape, planar) = ([a.shape()[0], a.shape()[1]], ground.planar());
        // Two coordinates in space would silently mean z = 0, which is seldom where anyone wants to start.
        if shape[1] != 3 && !(planar && shape[1] == 2) {
            let form = if planar { "(N, 2) or (N, 3)" } else { "(N, 3), for these data are 3-D" };
            return Err(raise(
                py,
                "UsageError",
                format!("seeds must have shape {form}; they have ({}, {})", shape[0], shape[1]),
            ));
        }
        Ok(Some(Self { array: (**a).clone().unbind(), shape }))
    }

    /// Copies the rows, some at a time, so that other threads of Python and Ctrl-C get their turn.
    fn seeds(&self, ground: &Ground, watch: &mut ProgressWatch<'_>) -> Result<Seeds, FieldError> {
        let (mut from, count) = (0, self.shape[0]);
        let mut copied = Vec::new().into_iter();
        ground.list(std::iter::from_fn(|| {
            if copied.len() == 0 && from < count {
                if !watch("reading seeds", from as f64, count as f64) {
                    return Some(Err(FieldError::Interrupted));
                }
                match self.copy(from) {
                    Ok(some) => copied = some.into_iter(),
                    Err(e) => return Some(Err(e)),
                }
                from += copied.len();
            }
            copied.next().map(Ok)
        }))
    }

    /// Some rows, with Python stopped: nobody writes into the array meanwhile.
    fn copy(&self, from: usize) -> Result<Vec<[f64; 3]>, FieldError> {
        Python::attach(|py| {
            let array = self.array.bind(py).try_readonly().ok().filter(|a| a.shape() == self.shape.as_slice());
            let array = array.ok_or_else(|| FieldError::Usage("the seeds were changed while they were read".into()))?;
            let rows = array.as_array();
            let some = rows.slice(s![from..self.shape[0].min(from + ROWS_AT_ONCE), ..]);
            Ok(some.rows().into_iter().map(|r| [r[0], r[1], if r.len() > 2 { r[2] } else { 0.0 }]).collect())
        })
    }
}

/// SUMMARY.
fn summary(session: &Session, spec: &TraceSpec, r: &TraceReport, output: Option<&str>) -> Value {
    let mut reasons = serde_json::Map::new();
    for (name, n) in &r.reasons {
        let name = if *name == "outside" { "left" } else { name };
        let sum = reasons.get(name).and_then(Value::as_u64).unwrap_or(0) + n;
        reasons.insert(name.to_owned(), sum.into());
    }
    let empty: serde_json::Map<String, Value> =
        r.empty.iter().map(|(name, n)| ((*name).to_owned(), (*n).into())).collect();
    let written = output.map_or(0, |p| written(Path::new(p)));
    json!({
        "lines": r.lines, "points": r.points, "reasons": reasons, "outside": r.outside, "empty": empty,
        "partial": r.failed > 0, "failed": r.failed, "failure": r.failure, "state_saved": r.state_saved,
        "output": output, "bytes_written": written,
        "steps": r.run.steps, "restarts": r.run.restarts, "elders": r.run.elders, "dropped": r.run.dropped, "trace_s": r.run.wall_s,
        "spilled_bytes": r.spilled_bytes,
        "time_unit": trace::provenance(session, spec).time_unit, "stats": session.stats(),
    })
}

/// Bytes of a file, and of the files that it lists where it is a list of them.
fn written(output: &Path) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    let folder = output.extension().filter(|e| e.eq_ignore_ascii_case("pvd")).map(|_| output.with_extension(""));
    let listed = folder.and_then(|f| std::fs::read_dir(f).ok());
    size(output) + listed.into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum::<u64>()
}

/// A number as JSON can have it: null where it is none, a word where it is infinite.
fn number(x: f64) -> Value {
    match x {
        f64::INFINITY => json!("inf"),
        f64::NEG_INFINITY => json!("-inf"),
        x => json!(x),
    }
}

fn probed(session: &Session, p: Option<values::Probed>) -> String {
    let Some(p) = p else { return json!({"outside": true}).to_string() };
    let dataset = session.dataset();
    let mut values = serde_json::Map::new();
    let mut units = serde_json::Map::new();
    units.insert("position".to_owned(), dataset.length_unit().into());
    for (name, v) in &p.values {
        let each: Vec<Value> = v.iter().copied().map(number).collect();
        values.insert(name.clone(), if v.len() == 1 { number(v[0]) } else { each.into() });
        units.insert(name.clone(), dataset.units(name).into());
    }
    json!({
        "zone": dataset.zones[p.zone].name, "ijk": p.index.map(|c| c + 1.0), "position": p.position.map(number),
        "note": p.note, "values": values, "units": units,
    })
    .to_string()
}

#[pymethods]
impl PyDataset {
    #[staticmethod]
    #[pyo3(signature = (source, *, q=None, function=None, options="{}", memory_limit, workers=0, readers=0, replacement="clock", events=None, progress=None))]
    #[allow(clippy::too_many_arguments)] // keywords of one call
    fn open(
        py: Python<'_>,
        source: &str,
        q: Option<Vec<String>>,
        function: Option<Vec<String>>,
        options: &str,
        memory_limit: u64,
        workers: usize,
        readers: usize,
        replacement: &str,
        events: Option<&str>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let open = watched(py, progress, |watch| {
            let mut o = Object::parse(options, "options")?;
            let spec = run_options::source(source, q, function, &mut o)?;
            o.done()?;
            let mut resources = run_options::resources(memory_limit, workers, readers, replacement)?;
            let events = Events::begin(events, &mut resources)?;
            Ok(OpenDataset { session: Arc::new(Session::open(spec, resources, watch)?), events })
        })?;
        Ok(Self { open: Mutex::new(Some(open)), process: std::process::id() })
    }

    #[pyo3(signature = (*, ranges=false, progress=None))]
    fn info(&self, py: Python<'_>, ranges: bool, progress: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let session = self.session(py)?;
        watched(py, progress, |watch| info::info(&session, ranges, watch))
    }

    #[pyo3(signature = (x, y, z, *, fields=None, step=0))]
    fn probe(
        &self,
        py: Python<'_>,
        x: f64,
        y: f64,
        z: f64,
        fields: Option<Vec<String>>,
        step: usize,
    ) -> PyResult<String> {
        let session = self.session(py)?;
        watched(py, None, |watch| {
            let p = values::probe(&session, [x, y, z], fields.as_deref(), step, watch)?;
            Ok(probed(&session, p))
        })
    }

    #[pyo3(signature = (zone, i, j, k, *, fields=None, step=0))]
    #[allow(clippy::too_many_arguments)] // keywords of one call
    fn probe_ijk(
        &self,
        py: Python<'_>,
        zone: &str,
        i: f64,
        j: f64,
        k: f64,
        fields: Option<Vec<String>>,
        step: usize,
    ) -> PyResult<String> {
        let session = self.session(py)?;
        watched(py, None, |_| {
            let zone = session.dataset().zone_named(zone)?;
            let p = values::probe_ijk(&session, zone, [i - 1.0, j - 1.0, k - 1.0], fields.as_deref(), step)?;
            Ok(probed(&session, Some(p)))
        })
    }

    #[pyo3(signature = (options, *, seeds=None, progress=None))]
    fn streamlines(
        &self,
        py: Python<'_>,
        options: &str,
        seeds: Option<PyReadonlyArray2<'_, f64>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyLines> {
        let session = self.session(py)?;
        let ground = Ground::of(&session);
        let rows = VectorRows::checked(py, &seeds, &ground)?;
        watched(py, progress, |watch| {
            let points = rows.as_ref().map(|rows| rows.seeds(&ground, watch)).transpose()?;
            let spec = trace_options::parse(options, points, &ground, watch)?;
            let (report, arrays) = trace::trace(&session, &spec, Destination::Memory, watch)?;
            let arrays = arrays.ok_or(FieldError::Internal("a trace in memory gives no lines"))?;
            let text = summary(&session, &spec, &report, None).to_string();
            Ok(PyLines::new(arrays, text, trace::provenance(&session, &spec)))
        })
    }

    #[pyo3(signature = (options, output, *, seeds=None, progress=None))]
    fn trace(
        &self,
        py: Python<'_>,
        options: &str,
        output: &str,
        seeds: Option<PyReadonlyArray2<'_, f64>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let session = self.session(py)?;
        let ground = Ground::of(&session);
        let rows = VectorRows::checked(py, &seeds, &ground)?;
        watched(py, progress, |watch| {
            let points = rows.as_ref().map(|rows| rows.seeds(&ground, watch)).transpose()?;
            let spec = trace_options::parse(options, points, &ground, watch)?;
            let (report, _) = trace::trace(&session, &spec, Destination::File(Path::new(output)), watch)?;
            Ok(summary(&session, &spec, &report, Some(output)).to_string())
        })
    }

    #[pyo3(signature = (options, output, *, progress=None))]
    fn flow_map(
        &self,
        py: Python<'_>,
        options: &str,
        output: &str,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let session = self.session(py)?;
        watched(py, progress, |watch| {
            let spec = FlowMapSpec::parse(options, &session, watch)?;
            Ok(trace::flowmap::flow_map(&session, &spec, Path::new(output), watch)?.to_string())
        })
    }

    #[pyo3(signature = (options, *, progress=None))]
    fn vortex_cores(&self, py: Python<'_>, options: &str, progress: Option<&Bound<'_, PyAny>>) -> PyResult<PyLines> {
        let session = self.session(py)?;
        watched(py, progress, |watch| {
            let spec = ::extract::cores::options::parse(options)?;
            let (report, arrays) = extract::cores::vortex_cores(&session, &spec, Destination::Memory, watch)?;
            let arrays = arrays.ok_or(FieldError::Internal("vortex cores in memory give no lines"))?;
            let mut summary = extract::cores::summary(&session, &report, None);
            summary["stats"] = json!(session.stats());
            Ok(PyLines::new(arrays, summary.to_string(), extract::cores::provenance(&session, &spec)))
        })
    }

    #[pyo3(signature = (job, options, *, output=None, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        job: &str,
        options: &str,
        output: Option<&str>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let session = self.session(py)?;
        let request = JobRequest { options, output: output.map(Path::new) };
        watched(py, progress, |watch| Ok(extract::run_job(job, &session, &request, watch)?.to_string()))
    }

    #[pyo3(signature = (*, step=0, progress=None))]
    fn look(&self, py: Python<'_>, step: usize, progress: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let session = self.session(py)?;
        watched(py, progress, |watch| Ok(render::scene::look(&session, step, watch)?.to_string()))
    }

    #[pyo3(signature = (options, output, *, progress=None))]
    fn write_slice(
        &self,
        py: Python<'_>,
        options: &str,
        output: &str,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let session = self.session(py)?;
        watched(py, progress, |watch| slices::write(&session, options, output, watch))
    }

    #[pyo3(signature = (options, *, progress=None))]
    fn slice_image<'py>(
        &self,
        py: Python<'py>,
        options: &str,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<slices::InMemory<'py>> {
        let session = self.session(py)?;
        let made = watched(py, progress, |watch| slices::make(&session, options, watch))?;
        Ok(slices::handed(py, made))
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        field: &str,
        zone: &str,
        step: usize,
        lo: (u32, u32, u32),
        hi: (u32, u32, u32),
    ) -> PyResult<Bound<'py, PyAny>> {
        let session = self.session(py)?;
        let at = |zone| NodeBox { zone, step, lo: [lo.0, lo.1, lo.2], hi: [hi.0, hi.1, hi.2] };
        let (data, components, dtype) = watched(py, None, |watch| {
            session.derive(&[field])?;
            let dataset = session.dataset();
            let zone = dataset.zone_named(zone)?;
            let q = dataset.quantity(zone, field)?;
            let z = &dataset.zones[zone];
            let dtype = match q {
                Quantity::Stored { array, .. } | Quantity::Component { array, .. } => z.arrays[array].dtype,
                Quantity::Derived(_) => z.array("density").map_or(DType::Float64, |a| z.arrays[a].dtype),
            };
            Ok((values::read_box(&session, &dataset, at(zone), &[q], watch)?, q.components(), dtype))
        })?;
        let n: [usize; 3] = [hi.0 - lo.0, hi.1 - lo.1, hi.2 - lo.2].map(|v| v as usize);
        let flat = match dtype {
            DType::Float32 => PyArray1::from_iter(py, data.iter().map(|v| *v as f32)).into_any(),
            DType::Int32 => PyArray1::from_iter(py, data.iter().map(|v| *v as i32)).into_any(),
            DType::Uint8 => PyArray1::from_iter(py, data.iter().map(|v| *v as u8)).into_any(),
            DType::Float64 => PyArray1::from_vec(py, data).into_any(),
        };
        if components == 1 {
            flat.call_method1("reshape", ((n[2], n[1], n[0]),))
        } else {
            flat.call_method1("reshape", ((components, n[2], n[1], n[0]),))
        }
    }

    fn define(&self, py: Python<'_>, definitions: Vec<String>) -> PyResult<()> {
        let session = self.session(py)?;
        watched(py, None, |_| session.define(&definitions))
    }

    fn describe(&self, py: Python<'_>, field: &str, zone: &str) -> PyResult<String> {
        let session = self.session(py)?;
        watched(py, None, |_| {
            session.derive(&[field])?;
            let dataset = session.dataset();
            let zone = dataset.zone_named(zone)?;
            let q = dataset.quantity(zone, field)?;
            let dtype = match q {
                Quantity::Stored { array, .. } | Quantity::Component { array, .. } => {
                    dataset.zones[zone].arrays[array].dtype
                }
                Quantity::Derived(_) => DType::Float64,
            };
            let found = json!({"components": q.components(), "dtype": dtype.name(), "units": dataset.units(field)});
            Ok(found.to_string())
        })
    }

    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        Ok(json!(self.session(py)?.stats()).to_string())
    }

    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.session(py)?.pager.counters().prometheus(""))
    }

    fn flush_events(&self, py: Python<'_>) -> PyResult<bool> {
        let session = self.session(py)?;
        let flushed = py.detach(|| {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.as_ref().map_or(Ok(false), |open| open.events.flush(&json!(session.stats())))
        });
        flushed.map_err(|e| to_python(py, e))
    }

    fn set_memory_limit(&self, py: Python<'_>, memory_limit: u64) -> PyResult<()> {
        let session = self.session(py)?;
        py.detach(|| session.set_limit(memory_limit)).map_err(|e| to_python(py, e))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let taken = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.process != std::process::id() {
            std::mem::forget(taken); // its threads, which dropping it would wait for, are the parent's
            return Ok(());
        }
        let ended = py.detach(|| {
            taken.map_or(Ok(()), |open| open.events.finish(&json!(open.session.stats()), &mut |_, _, _| true))
        });
        ended.map_err(|e| to_python(py, e))
    }
}

impl Drop for PyDataset {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.open.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
