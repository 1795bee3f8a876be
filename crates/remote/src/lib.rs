//! Places over networks. It knows no cells, grids or formats.

pub mod disk_cache;
