//! Volumes: regular grids of numbers or colours, at one or more levels of resolution, paged where they lie.
//!
//! # Theory
//! A voxel is a sample at its centre; a cell lies between eight centres. Whole voxel indices are centres, so the volume's cells reach
//! from index 0 to `dims - 1` along each axis.
//!
//! # Practice
//! [`VolumeSpec`] is what a reader of a format says. [`VolumeLevel`] is what kernels know: for each level arrays of pages
//! ([`VolumeArray`]), each a [`Brick`] of voxels with ranges of its blocks behind them.

mod blosc;
mod chain;
mod chunkmap;
mod filters;
mod images;
mod level;
mod missing;
mod nothing;
mod open;
mod pages;
mod place;
mod ranges;
mod rowmap;
mod samples;
mod shape;
mod spec;
mod spread;
mod state;
pub mod store;
mod streams;
mod vacant;
mod voxel;
mod written;

pub use level::{Placement, RangeLevel, RowGroup, VolumeArray, VolumeLevel};
pub use nothing::Missing;
pub use open::Volume;
pub use ranges::{typed, typed_mut, write_ranges, Extremes};
pub use spec::{rgb_of, ArraySpec, ChannelSpec, CodecSpec, Fill, LevelSpec, PlaceSpec, VolumeKind, VolumeSpec};
pub use state::VolumeFiles;
pub use vacant::{Vacant, Written};
pub use voxel::{Brick, Voxel, VoxelType, BLOCK};
