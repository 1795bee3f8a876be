//! Isosurfaces and planes, out of core.

mod across;
#[path = "../holes/mod.rs"]
mod holes;
mod joined_pieces;
mod missing;
mod near;
mod volumes;
mod zones;
