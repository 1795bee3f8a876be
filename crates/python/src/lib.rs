//! `farfield._native`: thin classes over the crates below, one file a noun. `python/farfield/_native.pyi` fixes the
//! names and forms.

mod convert;
mod dataset;
mod events;
mod lines;
mod mesh;
mod render;
mod replies;
mod seeds;
mod slices;
mod volume_store;

use pyo3::prelude::*;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: runtime::allocator::Apart = runtime::allocator::Apart;

/// VmRSS of this process now.
#[pyfunction]
fn resident_bytes() -> u64 {
    runtime::process::resident_bytes()
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<dataset::PyDataset>()?;
    m.add_class::<lines::PyLines>()?;
    m.add_function(wrap_pyfunction!(mesh::save_mesh, m)?)?;
    m.add_function(wrap_pyfunction!(convert::convert, m)?)?;
    m.add_function(wrap_pyfunction!(convert::validate, m)?)?;
    m.add_function(wrap_pyfunction!(volume_store::known_ranges, m)?)?;
    m.add_function(wrap_pyfunction!(volume_store::stored_volume, m)?)?;
    m.add_function(wrap_pyfunction!(render::render, m)?)?;
    m.add_function(wrap_pyfunction!(events::summarise, m)?)?;
    m.add_function(wrap_pyfunction!(events::replay_events, m)?)?;
    m.add_function(wrap_pyfunction!(events::export_events, m)?)?;
    m.add_function(wrap_pyfunction!(resident_bytes, m)?)?;
    Ok(())
}
