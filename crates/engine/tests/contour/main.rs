//! Isosurfaces and planes, out of core.

mod gathered;
mod volumes;
mod zones;
