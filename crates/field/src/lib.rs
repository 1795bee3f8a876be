//! Datasets: formats, grids, page maps, cell translation, point location, interpolation, derived fields.
//!
//! This crate knows cells and formats. It does not know algorithms or threads.

pub mod boxes;
pub mod cache_records;
pub mod catalog;
pub mod cell;
mod cell_cache;
mod cell_pages;
mod closure;
pub mod dataset;
pub mod decimal;
pub mod derive;
pub mod error;
pub mod expression;
pub mod field_selection;
pub mod file;
mod freestream;
mod heap_size;
pub mod in_memory;
pub mod in_memory_series;
pub mod inplace;
pub mod interleave;
pub mod json;
pub mod lattice;
pub mod locator;
pub mod motion;
pub mod nodes;
pub mod paged;
pub mod paging;
pub mod plot3d;
pub mod quantity;
pub mod series;
pub mod shape;
pub mod simd;
pub mod store;
pub mod time_interpolated;
pub mod translate;
pub mod uniform;
mod unique_names;
pub mod units;
pub mod usage;
pub mod volume;
