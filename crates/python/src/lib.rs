//! `farfield._native`: thin classes over the engine, one file a noun. What crosses, and in which shape, is fixed by
//! `python/farfield/_native.pyi`.

mod convert;
mod dataset;
mod events;
mod lines;
mod mesh;
mod render;
mod slices;
mod volume;
mod volumestore;

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
    m.add_class::<volume::PyVolume>()?;
    m.add_function(wrap_pyfunction!(mesh::save_mesh, m)?)?;
    m.add_function(wrap_pyfunction!(convert::convert, m)?)?;
    m.add_function(wrap_pyfunction!(convert::validate, m)?)?;
    m.add_function(wrap_pyfunction!(volumestore::convert_volume, m)?)?;
    m.add_function(wrap_pyfunction!(volumestore::known_ranges, m)?)?;
    m.add_function(wrap_pyfunction!(volumestore::stored_volume, m)?)?;
    m.add_function(wrap_pyfunction!(render::render, m)?)?;
    m.add_function(wrap_pyfunction!(events::summarise, m)?)?;
    m.add_function(wrap_pyfunction!(events::replay_events, m)?)?;
    m.add_function(wrap_pyfunction!(events::export_events, m)?)?;
    m.add_function(wrap_pyfunction!(resident_bytes, m)?)?;
    Ok(())
}
