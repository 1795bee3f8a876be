//! An open volume.

use crate::slices;
use ::extract::JobRequest;
use ::runtime::events::Events;
use ::runtime::options as run_options;
use ::runtime::session::{Session, Source};
use field::error::FieldError;
use field::volume::{VolumeSpec, Voxel};
use field::with_voxel;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use python_calls::watched;
use python_calls::{raise, to_python};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};

/// What a reader said, with its pager and ledger.
#[pyclass(name = "Volume", module = "farfield._native", frozen)]
pub struct PyVolume {
    open: Mutex<Option<OpenVolume>>,
    /// Who opened it. A forked child has none of its threads, nor its frames.
    process: u32,
}

struct OpenVolume {
    session: Arc<Session>,
    events: Events,
}

/// A reader's description out of JSON.
pub fn spec(text: &str) -> Result<VolumeSpec, FieldError> {
    serde_json::from_str(text).map_err(|e| FieldError::Usage(format!("a volume's description: {e}")))
}

impl PyVolume {
    /// The open volume, for whatever reads pages of it.
    pub(crate) fn session(&self, py: Python<'_>) -> PyResult<Arc<Session>> {
        let session = self.opened(py)?;
        session.check_limit().map_err(|e| to_python(py, e))?;
        Ok(session)
    }

    /// The open volume, under whatever limit: what it is takes no page.
    fn opened(&self, py: Python<'_>) -> PyResult<Arc<Session>> {
        let wrong = |message: &str| Err(raise(py, "UsageError", message.into()));
        if self.process != std::process::id() {
            return wrong("this volume was opened before this process was forked; open it again here");
        }
        let held = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match held.as_ref() {
            Some(open) => Ok(open.session.clone()),
            None => wrong("this volume is closed; open it again"),
        }
    }
}

#[pymethods]
impl PyVolume {
    #[staticmethod]
    #[pyo3(signature = (spec_json, tables, *, memory_limit, workers=0, readers=0, replacement="clock", events=None, progress=None))]
    #[allow(clippy::too_many_arguments)] // keywords of one call
    fn open(
        py: Python<'_>,
        spec_json: &str,
        tables: Vec<Vec<u8>>,
        memory_limit: u64,
        workers: usize,
        readers: usize,
        replacement: &str,
        events: Option<&str>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let open = watched(py, progress, |watch| {
            let mut resources = run_options::resources(memory_limit, workers, readers, replacement)?;
            let events = Events::begin(events, &mut resources)?;
            let source = Source::Volume(Box::new(spec(spec_json)?), tables);
            Ok(OpenVolume { session: Arc::new(Session::open(source, resources, watch)?), events })
        })?;
        Ok(Self { open: Mutex::new(Some(open)), process: std::process::id() })
    }

    fn info(&self, py: Python<'_>) -> PyResult<String> {
        self.opened(py)?.volume_info().map(|info| info.to_string()).map_err(|e| to_python(py, e))
    }

    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        Ok(json!(self.opened(py)?.stats()).to_string())
    }

    #[pyo3(signature = (level, channel, lo, hi, step, *, progress=None))]
    #[allow(clippy::too_many_arguments)] // keywords of one call
    fn read_box<'py>(
        &self,
        py: Python<'py>,
        level: usize,
        channel: usize,
        lo: [u32; 3],
        hi: [u32; 3],
        step: usize,
        progress: Option<&Bound<'py, PyAny>>,
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
            // The array is the caller's; nobody else has it while it is filled.
            let made = PyArray1::<T>::zeros(py, count, false);
            {
                let mut numbers = made.readwrite();
                let numbers = numbers.as_slice_mut()?;
                // SAFETY: the bytes of numbers, of which every pattern is one.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast::<u8>(), count * T::TYPE.size())
                };
                watched(py, progress, |watch| session.read_box(level, channel, [lo, hi], step, bytes, watch))?;
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
            "failures": crate::convert::failures(&found.problems), "checked": checked, "stats": session.stats(),
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
        watched(py, progress, |watch| crate::volumestore::build_ranges(&session, &tables, folder, watch))
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
        let request = JobRequest { options, output: output.map(std::path::Path::new) };
        watched(py, progress, |watch| Ok(extract::run_job(job, &session, &request, watch)?.to_string()))
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
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<slices::InMemory<'py>> {
        let session = self.session(py)?;
        let made = watched(py, progress, |watch| slices::make(&session, options, watch))?;
        Ok(slices::handed(py, made))
    }

    fn set_memory_limit(&self, py: Python<'_>, memory_limit: u64) -> PyResult<()> {
        let session = self.opened(py)?;
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

impl Drop for PyVolume {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.open.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
