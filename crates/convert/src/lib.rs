//! Converts any dataset into Farfield's store, in bounded memory. A conversion can be killed at any moment.
//!
//! # Theory
//! A *unit* is one shard. Units are independent, and their bytes follow from the input and the options alone. The
//! memory limit, the number of workers, and interruptions do not matter. All work happens in a folder `DST.partial`
//! beside the target, under a lock. A unit counts as done when its record is complete, and the record is written after
//! its shard is durable.
//!
//! After the last unit these steps follow:
//!
//! 1. Ranges and boxes are gathered, and everything is synced to disk.
//! 2. The root document is written and synced.
//! 3. The finished folder gets the target's name in one step.
//!
//! So no invalid store ever exists under the target's name: at any moment it is the old store, none, or the new one.
//!
//! # Practice
//! [`convert`] runs a conversion, and [`append()`] adds steps to a store. [`dry_run`] estimates the cost. [`build_index`]
//! makes ranges and boxes only, for data read in place. [`volume`] has the same for volumes, and [`check`] validates
//! stores.

mod aligned;
mod append;
mod base;
pub mod check;
pub mod commit;
pub mod disk;
mod estimate;
pub mod grid;
mod input;
mod job;
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
mod zone_store;

pub use append::{append, AppendReport, RequestedPages};
pub use commit::fuzz_notes;
pub use estimate::{dry_run, DryRun};
pub use input::{ArraySource, ConvertInput};
pub use memory::ChargeMemory;
pub use options::{ConvertOptions, DEFAULT_CODEC};
pub use report::{ConvertReport, PieceProgress};
pub use request::{ConvertRequest, VolumeRequest};
pub use run::{build_index, convert};
pub use spans::Spans;
