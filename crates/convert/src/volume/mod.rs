//! Converts any volume into Farfield's store, a pyramid as OME-NGFF 0.5 has it: in bounded memory, with one pass over the source, so
//! that it can be killed at any moment.
//!
//! # Theory
//! A *unit* is one shard of one level. Its slab has one more column, row and plane than its pages where the level goes on: the ranges of
//! pages need them, and so do the voxels of the next level whose parts lie on both sides of the unit's edge. So a unit makes the part of
//! the next level that begins in it, whatever the page edges are; it goes to a file as raw voxels, from which that level's own units are
//! read when all of them are there. The source is read once (but for those edges), and the files are an eighth of it, and an eighth
//! of that.
//!
//! What is said of grids ([`super`]) holds here, too: bytes follow from the input and the options alone; a unit counts as done when its
//! record is whole, which is written after its shard *and what it left for the next level* are durable; the root is written last.
//! Levels of one step come before the next step, and a level's file goes when all units read from it are done; if one is missed
//! later, what it was made of is made again.
//!
//! # Practice
//! [`convert`] does all that for a [`VolumeInput`], [`dry_run`] says what it would cost.

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
