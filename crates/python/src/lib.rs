//! `farfield._native`: classes and functions of the extension, one file a noun.
//!
//! # Theory
//! Python parses users' input, and has their messages and defaults. The crates below do the work. This crate passes
//! calls on, without logic of its own. Anything with a growing set of keys crosses as one JSON document: a source,
//! resources, options, results. Arrays cross as NumPy arrays. `python/farfield/_native.pyi` fixes all names and forms,
//! and `stubtest` compares it with the extension.
//!
//! # Practice
//! `dataset` has the class of an open flow or volume; its methods run on a session. Functions of `convert` and `render`
//! open their own session. Each call runs within `python_calls::watched`: it releases the interpreter's lock, reports
//! progress, and ends at Ctrl-C. A forked child lacks the session's threads, so it may not use the parent's session.

mod convert;
mod dataset;
mod events;
mod lines;
mod mesh;
mod places;
mod render;
mod replies;
mod seeds;
mod serve;
mod slices;
mod stage;
mod volume_store;

use pyo3::prelude::*;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: runtime::allocator::Apart = runtime::allocator::Apart;

/// Resident bytes of this process now (VmRSS).
#[pyfunction]
fn resident_bytes() -> u64 {
    runtime::process::resident_bytes()
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    python_calls::end_waits_at_signals();
    #[cfg(target_os = "linux")]
    remote::net::on_start(runtime::allocator::keep_some);
    remote::register();
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<dataset::PyDataset>()?;
    m.add_class::<lines::PyLines>()?;
    m.add_class::<places::FileReader>()?;
    m.add_class::<places::PyOpening>()?;
    m.add_class::<serve::PageServer>()?;
    m.add_function(wrap_pyfunction!(serve::new_token, m)?)?;
    m.add_function(wrap_pyfunction!(serve::set_server_credentials, m)?)?;
    m.add_function(wrap_pyfunction!(serve::set_alias, m)?)?;
    m.add_function(wrap_pyfunction!(serve::set_disk_cache, m)?)?;
    m.add_function(wrap_pyfunction!(serve::flush_disk_cache, m)?)?;
    m.add_function(wrap_pyfunction!(serve::disk_cache_notice, m)?)?;
    m.add_function(wrap_pyfunction!(serve::disk_cache_info, m)?)?;
    m.add_function(wrap_pyfunction!(serve::disk_cache_clear, m)?)?;
    m.add_function(wrap_pyfunction!(serve::server_status, m)?)?;
    m.add_function(wrap_pyfunction!(serve::time_reads, m)?)?;
    m.add_function(wrap_pyfunction!(stage::stage_files, m)?)?;
    m.add_function(wrap_pyfunction!(stage::remove_staged, m)?)?;
    m.add_function(wrap_pyfunction!(places::stat_files, m)?)?;
    m.add_function(wrap_pyfunction!(places::list_folder, m)?)?;
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
