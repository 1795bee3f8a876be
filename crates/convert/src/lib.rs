//! Converts any dataset into Farfield's store, in bounded memory, so that it can be killed at any moment.
//!
//! # Theory
//! A *unit* is one shard. Units are independent and their bytes follow from the input and the options alone, whatever
//! the memory limit, the number of workers, or how often the work was interrupted. Everything happens in a folder
//! `DST.partial` beside the target, under a lock. A unit counts as done when its record is whole, and the record is written
//! after its shard is durable. When all units are done, ranges and boxes are gathered, everything is made durable, the
//! root document is written and made durable, and the finished folder takes the target's name in one step. So there is
//! never a store that reads wrong: at any moment there is the old one, none, or the new one.
//!
//! # Practice
//! [`convert`] does all that, [`dry_run`] says what it would cost, [`build_index`] makes only ranges and boxes, for data
//! that is paged where it lies.

mod aligned;
mod append;
mod base;
pub mod check;
pub mod commit;
pub mod disk;
mod estimate;
pub mod grid;
mod input;
mod levels;
mod memory;
mod options;
mod piece;
mod pipeline;
mod plan;
mod record;
mod report;
mod request;
mod run;
mod shard;
mod slab;
mod spans;
#[cfg(test)]
mod tests;
mod uniform;
pub mod volume;

pub use append::{append, AppendReport, AskedPages};
pub use commit::fuzz_notes;
pub use estimate::{dry_run, DryRun};
pub use input::{ArraySource, ConvertInput};
pub use memory::ChargeMemory;
pub use options::{ConvertOptions, DEFAULT_CODEC};
pub use report::{ConvertReport, PieceProgress};
pub use request::{ConvertRequest, VolumeRequest};
pub use run::{build_index, convert};
pub use spans::Spans;
