//! `farfield_bench._native`: arms of the experiments that run in this process. What crosses is fixed by
//! `bench/python/farfield_bench/_native.pyi`.

use pyo3::prelude::*;
use python_calls::watched;

// As of the extension that users run: memory of pages and memory of results stay apart.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: runtime::allocator::Apart = runtime::allocator::Apart;

/// Runs one arm; what it takes and gives is said in the stubs.
#[pyfunction]
#[pyo3(name = "bench")]
fn run_arm(py: Python<'_>, options: &str) -> PyResult<String> {
    watched(py, None, |watch| ::bench::run(options, watch).map(|v| v.to_string()))
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(run_arm, m)?)?;
    Ok(())
}
