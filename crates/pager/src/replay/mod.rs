//! Page traces replayed without data, for other limits, policies and page sizes.
//!
//! *Theory.* A trace-driven simulation in a fixed order: pages are used in the order of the log, whatever the settings.
//! In a real run the order depends on them, since a task that need not wait continues first. So results for other
//! settings are estimates. For the run's own settings [`Mirror`] is exact: it repeats the pager's decisions, and must
//! arrive at the same faults and evictions. Its policies see only the log.
//!
//! *Practice.* [`Survey`] reads a log first: sizes, and for each use the next use of the same page, which Belady's
//! optimum (1966) needs. Then any number of [`Stack`]s, or a [`Mirror`], process the same events. Policies are the
//! pager's own.

mod mirror;
mod optimal;
mod stack;
mod survey;

pub use mirror::Mirror;
pub use stack::{Choice, Stack};
pub use survey::Survey;

/// The counts of a replay.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayCounts {
    /// Uses of pages.
    pub uses: u64,
    /// Absent pages that tasks waited for; in a [`Stack`], pages absent at their use.
    pub faults: u64,
    /// Pages that became resident again after they were dropped.
    pub again: u64,
    /// Pages dropped to make room.
    pub evictions: u64,
    /// Bytes of the frames that became resident.
    pub bytes: u64,
}
