//! `farfield_bench._native`: arms of the experiments that run in this process.
//! `bench/python/farfield_bench/_native.pyi` declares the interface.

use pyo3::prelude::*;
use python_calls::watched;

// As in users' extension: memory of pages and memory of results are separate.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: runtime::allocator::Apart = runtime::allocator::Apart;

/// Runs one arm. The stubs describe options and results.
#[pyfunction]
#[pyo3(name = "bench")]
fn run_arm(py: Python<'_>, options: &str) -> PyResult<String> {
    watched(py, None, |watch| ::bench::run(options, watch).map(|v| v.to_string()))
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    #[cfg(target_os = "linux")]
    remote::net::on_start(runtime::allocator::keep_some);
    remote::register();
    m.add_function(wrap_pyfunction!(run_arm, m)?)?;
    Ok(())
}
