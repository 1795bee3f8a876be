//! The budget of bytes that come before a page asks for them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The memory of first reads, and of extents that come with their indexes.
#[derive(Debug, Default)]
pub(crate) struct FirstBudget {
    most: AtomicU64,
    taken: AtomicU64,
}

impl FirstBudget {
    /// Sets the bound in bytes.
    pub(crate) fn set(&self, most: u64) {
        self.most.store(most, Relaxed);
    }

    pub(super) fn take(&self, bytes: u64) -> bool {
        let most = self.most.load(Relaxed);
        let more = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= most);
        self.taken.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    pub(super) fn give(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Relaxed);
    }
}
