//! An open dataset: a flow or a volume.

use crate::convert::failures;
use crate::lines::PyLines;
use crate::replies::{probed, summary};
use crate::seeds::VectorRows;
use crate::{slices, volume_store};
use ::extract::JobRequest;
use ::output::Destination;
use ::runtime::events::Events;
use ::runtime::info;
use ::runtime::options as run_options;
use ::runtime::session::Session;
use ::runtime::values::{self, NodeBox};
use ::trace::flowmap::FlowMapSpec;
use ::trace::options::{self as trace_options, Ground};
use field::catalog::DType;
use field::error::FieldError;
use field::quantity::Quantity;
use field::volume::Voxel;
use field::with_voxel;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray2};
use pyo3::prelude::*;
use python_calls::watched;
use python_calls::{raise, to_python};
use serde_json::json;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A session: catalog, pager and ledger.
#[pyclass(name = "Dataset", module = "farfield._native", frozen)]
pub struct PyDataset {
    open: Mutex<Option<OpenDataset>>,
    /// The process that opened the dataset. A forked child has neither its threads nor its frames.
    process: u32,
}

/// The session of an open dataset and its log. The log ends last.
struct OpenDataset {
    session: Arc<Session>,
    events: Events,
}

impl PyDataset {
    /// The session, under any limit: for calls that read no page.
    fn opened(&self, py: Python<'_>) -> PyResult<Arc<Session>> {
        let wrong = |message: &str| Err(raise(py, "UsageError", message.into()));
        if self.process != std::process::id() {
            return wrong("this dataset was opened before this process was forked; open it again here");
        }
        let held = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match held.as_ref() {
            Some(open) => Ok(open.session.clone()),
            None => wrong("this dataset is closed; open it again"),
        }
    }

    /// The session, for calls that read pages.
    fn session(&self, py: Python<'_>) -> PyResult<Arc<Session>> {
        let session = self.opened(py)?;
        session.check_limit().map_err(|e| to_python(py, e))?;
        Ok(session)
    }

    /// The session of a flow.
    fn flow(&self, py: Python<'_>) -> PyResult<Arc<Session>> {
        let session = self.opened(py)?;
        session.check_flow().map_err(|e| to_python(py, e))?;
        Ok(session)
    }
}

#[pymethods]
impl PyDataset {
    #[staticmethod]
    #[pyo3(signature = (source, resources, *, tables=Vec::new(), progress=None))]
    fn open(
        py: Python<'_>,
        source: &str,
        resources: &str,
        tables: Vec<Vec<u8>>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let open = watched(py, progress, |watch| {
            let source = run_options::dataset_source(source, tables)?;
            let (resources, events) = Events::with_resources(resources)?;
            Ok(OpenDataset { session: Arc::new(Session::open(source, resources, watch)?), events })
        })?;
        Ok(Self { open: Mutex::new(Some(open)), process: std::process::id() })
    }

    #[pyo3(signature = (*, ranges=false, progress=None))]
    fn info(&self, py: Python<'_>, ranges: bool, progress: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let session = self.opened(py)?;
        watched(py, progress, |watch| match session.is_flow() {
            true => info::info(&session, ranges, watch),
            false => Ok(session.volume_info()?.to_string()),
        })
    }

    #[pyo3(signature = (position, *, fields=None, step=0))]
    fn probe(&self, py: Python<'_>, position: [f64; 3], fields: Option<Vec<String>>, step: usize) -> PyResult<String> {
        let session = self.flow(py)?;
        watched(py, None, |watch| {
            let p = values::probe(&session, position, fields.as_deref(), step, watch)?;
            Ok(probed(&session, p))
        })
    }

    #[pyo3(signature = (zone, ijk, *, fields=None, step=0))]
    fn probe_ijk(
        &self,
        py: Python<'_>,
        zone: &str,
        ijk: [f64; 3],
        fields: Option<Vec<String>>,
        step: usize,
    ) -> PyResult<String> {
        let session = self.flow(py)?;
        watched(py, None, |_| {
            let zone = session.dataset().zone_named(zone)?;
            let p = values::probe_ijk(&session, zone, ijk.map(|c| c - 1.0), fields.as_deref(), step)?;
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
        let session = self.flow(py)?;
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
        let session = self.flow(py)?;
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
        let session = self.flow(py)?;
        watched(py, progress, |watch| {
            let spec = FlowMapSpec::parse(options, &session, watch)?;
            Ok(trace::flowmap::flow_map(&session, &spec, Path::new(output), watch)?.to_string())
        })
    }

    #[pyo3(signature = (options, *, progress=None))]
    fn vortex_cores(&self, py: Python<'_>, options: &str, progress: Option<&Bound<'_, PyAny>>) -> PyResult<PyLines> {
        let session = self.flow(py)?;
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
        let session = self.flow(py)?;
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
        let session = self.flow(py)?;
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

    fn read_box<'py>(
        &self,
        py: Python<'py>,
        level: usize,
        channel: usize,
        lo: [u32; 3],
        hi: [u32; 3],
        step: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let session = self.session(py)?;
        let volume = session.volume().map_err(|e| to_python(py, e))?;
        let array = volume.levels.get(level).and_then(|l| l.channel(channel)).map(|(a, _)| a.brick.voxel);
        let Some(voxel) = array else {
            let what = format!("there is no channel {channel} at a level {level}");
            return Err(raise(py, "UsageError", what));
        };
        let n: [usize; 3] = std::array::from_fn(|a| hi[a].saturating_sub(lo[a]) as usize);
        let Some(count) = n[0].checked_mul(n[1]).and_then(|c| c.checked_mul(n[2])) else {
            return Err(raise(py, "UsageError", format!("a box of {n:?} voxels is too large")));
        };
        with_voxel!(voxel, T => {
            // No other thread has access to the array during the fill.
            let made = PyArray1::<T>::zeros(py, count, false);
            {
                let mut numbers = made.readwrite();
                let numbers = numbers.as_slice_mut()?;
                // SAFETY: `count` numbers of `T` take this many bytes, and each pattern of bytes is a number.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast::<u8>(), count * T::TYPE.size())
                };
                watched(py, None, |watch| session.read_box(level, channel, [lo, hi], step, bytes, watch))?;
            }
            Ok(made.reshape([n[2], n[1], n[0]])?.into_any())
        })
    }

    #[pyo3(signature = (*, progress=None))]
    fn check_pages(&self, py: Python<'_>, progress: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let session = self.session(py)?;
        let (found, checked) = watched(py, progress, |watch| Ok((session.check(watch)?, session.volume()?.checked)))?;
        Ok(json!({
            "pages": found.pages, "failed": found.failed, "never_written": found.never_written,
            "failures": failures(&found.problems), "checked": checked, "stats": session.stats(),
        })
        .to_string())
    }

    #[pyo3(signature = (tables, folder, *, progress=None))]
    fn build_ranges(
        &self,
        py: Python<'_>,
        tables: Vec<Vec<u8>>,
        folder: &str,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let session = self.session(py)?;
        watched(py, progress, |watch| volume_store::build_ranges(&session, &tables, folder, watch))
    }

    fn define(&self, py: Python<'_>, definitions: Vec<String>) -> PyResult<()> {
        let session = self.flow(py)?;
        watched(py, None, |_| session.define(&definitions))
    }

    fn describe(&self, py: Python<'_>, field: &str, zone: &str) -> PyResult<String> {
        let session = self.flow(py)?;
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
        Ok(json!(self.opened(py)?.stats()).to_string())
    }

    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.opened(py)?.pager.counters().prometheus(""))
    }

    fn flush_events(&self, py: Python<'_>) -> PyResult<bool> {
        let session = self.opened(py)?;
        let flushed = py.detach(|| {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.as_ref().map_or(Ok(false), |open| open.events.flush(&json!(session.stats())))
        });
        flushed.map_err(|e| to_python(py, e))
    }

    fn set_memory_limit(&self, py: Python<'_>, memory_limit: u64) -> PyResult<()> {
        let session = self.opened(py)?;
        py.detach(|| session.set_limit(memory_limit)).map_err(|e| to_python(py, e))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let taken = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.process != std::process::id() {
            std::mem::forget(taken); // a drop would wait for threads of the parent
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
