//! Volumes: regular grids of numbers or colours, at one or more levels of resolution, paged in place.
//!
//! # Theory
//! A voxel is a sample at its centre; a cell lies between eight centres. Integer voxel indices are centres. So the
//! volume's cells extend from index 0 to `dims - 1` along each axis.
//!
//! # Practice
//! [`VolumeSpec`] is the description by a format's reader. [`VolumeLevel`] is the view of kernels: arrays of pages
//! ([`VolumeArray`]) for each level. Each page is a [`Brick`] of voxels, with ranges of its blocks after them.

mod blosc;
mod chain;
mod chunk_location;
mod chunkmap;
mod file_state;
mod filters;
mod folder_listing;
mod images;
mod level;
mod masked_pages;
mod missing_values;
mod open;
mod page_size;
mod ranges;
mod rowmap;
mod scatter;
mod shape;
mod shard_pages;
mod spec;
pub mod store;
mod streams;
mod strided;
mod volume_map;
mod voxel;
mod written_pages;

pub use file_state::VolumeFiles;
pub use level::{Placement, RangeLevel, RowGroup, VolumeArray, VolumeLevel};
pub use missing_values::Missing;
pub use open::Volume;
pub use ranges::{typed, typed_mut, write_ranges, Extremes};
pub use shard_pages::ShardPages;
pub use spec::{rgb_of, ArraySpec, ChannelSpec, CodecSpec, Fill, LevelSpec, PlaceSpec, VolumeKind, VolumeSpec};
pub use voxel::{Brick, Voxel, VoxelType, BLOCK};
pub use written_pages::{Vacant, WrittenPages};
