//! Volumes: regular grids of numbers or colours, at one or more levels of resolution, paged where they lie.
//!
//! # Theory
//! A voxel is a sample at its centre; a cell lies between eight centres. Whole voxel indices are centres, so the volume's cells reach
//! from index 0 to `dims - 1` along each axis.
//!
//! # Practice
//! [`VolumeSpec`] is what a reader of a format says. [`VolumeLevel`] is what kernels know: for each level arrays of pages
//! ([`VolumeArray`]), each a [`Brick`] of voxels with ranges of its blocks behind them.

mod level;
mod spec;
mod voxel;

pub use level::{Placement, RangeLevel, VolumeArray, VolumeLevel};
pub use spec::{ArraySpec, ChannelSpec, CodecSpec, LevelSpec, PlaceSpec, VolumeKind, VolumeSpec};
pub use voxel::{Brick, Voxel, VoxelType, BLOCK};
