//! Page traces run again, without data: what another limit, policy or page size would have meant.
//!
//! *Theory.* A trace-driven simulation in a fixed order: pages are used in the order in which the log says that they were, whatever the
//! means. In a real run the order changes with them (a task that need not wait goes on first), so that what is said of other means is an
//! estimate. Of a run's own means it is none: [`Mirror`] does what the pager did, step by step, with policies of its own that see
//! nothing but what the log says, and must come to the same faults and evictions.
//!
//! *Practice.* [`Survey`] reads a log first: sizes, and when each use is followed by the next one of the same page, which Belady's
//! optimum (1966) needs. Then any number of [`Stack`]s, or a [`Mirror`], are told the events once more. Policies are the pager's own.

mod mirror;
mod optimal;
mod stack;
mod survey;

pub use mirror::Mirror;
pub use stack::{Choice, Stack};
pub use survey::Survey;

/// What a replay came to.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Uses of pages.
    pub uses: u64,
    /// Pages waited for that were absent; in a [`Stack`] all that were absent when they were used.
    pub faults: u64,
    /// Pages that became resident again after they were dropped.
    pub again: u64,
    /// Pages dropped to make room.
    pub evictions: u64,
    /// Bytes of the frames that became resident.
    pub bytes: u64,
}
