//! Isosurfaces and planes, out of core.

mod across;
mod gathered;
#[path = "../holes/mod.rs"]
mod holes;
mod missing;
mod near;
mod volumes;
mod zones;
