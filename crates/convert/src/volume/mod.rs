//! Converts any volume into Farfield's store, a pyramid as in OME-NGFF 0.5. It uses bounded memory and one pass over
//! the source, and can be killed at any moment.
//!
//! # Theory
//! A *unit* is one shard of one level. Where the level continues, its slab has one more column, row and plane than its
//! pages. The ranges of pages need them, and so do voxels of the next level with parts on both sides of the unit's
//! edge. So a unit makes the part of the next level that begins in it, for any page edges. That part is written to a
//! file as raw voxels. The next level's own units are read from the file when all parts are there. The source is read
//! once (except for those edges), and the files are an eighth of it, and an eighth of that.
//!
//! The rules for grids ([`super`]) hold here, too: bytes follow from the input and the options alone, and the root is
//! written last. A unit counts as done when its record is complete. The record is written after its shard *and its part
//! of the next level* are durable. Levels of one step come before the next step. A level's file is removed when all
//! units read from it are done. If it is missing later, the level before is converted again.
//!
//! # Practice
//! [`convert`] converts a [`VolumeInput`], and [`dry_run`] estimates the cost.

mod downsample;
mod estimate;
pub mod number;
mod options;
mod piece;
mod plan;
mod report;
mod rows;
mod run;
mod spool;
mod store;
#[cfg(test)]
mod tests;

pub use options::VolumeOptions;
pub use report::{LevelReport, VolumeReport};
pub use rows::{VolumeInput, VoxelRows};
pub use run::{convert, dry_run};
