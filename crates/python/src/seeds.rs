//! Seeds of lines in NumPy arrays.

use ::runtime::session::ProgressWatch;
use ::trace::options::Ground;
use ::trace::seeds::Seeds;
use field::error::FieldError;
use numpy::ndarray::s;
use numpy::{PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use python_calls::raise;

/// Rows copied at a time while Python waits.
const ROWS_AT_ONCE: usize = 4096;

/// Rows of three numbers, or two for 2-D data, in an array of the caller.
pub struct VectorRows {
    array: Py<PyArray2<f64>>,
    shape: [usize; 2],
}

impl VectorRows {
    /// Checks the shape. The caller keeps `seeds`, which locks the array for reading, until the rows are copied.
    pub fn checked(
        py: Python<'_>,
        seeds: &Option<PyReadonlyArray2<'_, f64>>,
        ground: &Ground,
    ) -> PyResult<Option<Self>> {
        let Some(a) = seeds else { return Ok(None) };
        let (shape, planar) = ([a.shape()[0], a.shape()[1]], ground.planar());
        // In space two coordinates would silently mean z = 0.
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

    /// Copies the rows, some at a time, so that other threads of Python run and Ctrl-C works.
    pub fn seeds(&self, ground: &Ground, watch: &mut ProgressWatch<'_>) -> Result<Seeds, FieldError> {
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

    /// Some rows. Python waits meanwhile, so no thread writes into the array.
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
