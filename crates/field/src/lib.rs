//! Datasets: formats, grids, page maps, cell translation, point location, interpolation, derived fields.
//!
//! This crate knows cells and formats. It does not know algorithms or threads.

pub mod between;
pub mod boxes;
pub mod catalog;
pub mod cell;
mod closure;
pub mod dataset;
pub mod decimal;
pub mod derive;
pub mod error;
pub mod expression;
pub mod file;
pub mod flat;
pub mod flatseries;
mod freestream;
mod held;
pub mod inplace;
pub mod interleave;
pub mod json;
pub mod kept;
mod known;
pub mod lattice;
mod loaded;
pub mod motion;
pub mod nodes;
pub mod paged;
pub mod paging;
pub mod plot3d;
pub mod quantity;
pub mod series;
pub mod shape;
pub mod simd;
pub mod space;
pub mod store;
mod taken;
pub mod translate;
pub mod uniform;
pub mod units;
pub mod uses;
pub mod volume;
pub mod wanted;
