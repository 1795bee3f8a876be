//! `farfield_bench._native`: arms of the experiments that run in this process. What crosses is fixed by
//! `bench/python/farfield_bench/_native.pyi`.

mod arms;

use pyo3::prelude::*;

// As of the extension that users run: memory of pages and memory of results stay apart.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: runtime::allocator::Apart = runtime::allocator::Apart;

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(arms::bench, m)?)?;
    Ok(())
}
