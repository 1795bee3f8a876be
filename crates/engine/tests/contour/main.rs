//! Isosurfaces and planes, out of core.

mod across;
mod gathered;
mod volumes;
mod zones;
