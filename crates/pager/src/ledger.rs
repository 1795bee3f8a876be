//! The one ledger: every byte that grows with the data is charged here before it is allocated or requested.
//!
//! The ledger only counts. [`crate::Pager::charge`] makes room when it is full, by dropping clean pages.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The purpose of a charge.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum ChargeKind {
    /// Frames of pages that are resident or under a read.
    Frames,
    /// Free pool memory that the system does not have back yet.
    Cached,
    /// Encoded bytes in flight.
    Encoded,
    /// Memory for decoding.
    Scratch,
    /// Page table, frame records, queues, touched bitmaps.
    Tables,
    /// State of tasks.
    Tasks,
    /// Results that are not delivered yet.
    Results,
    /// Picture tiles.
    Tiles,
    /// Anything else.
    Other,
}

const KINDS: usize = 9;

/// All kinds, in the order of their discriminants.
pub const CHARGE_KINDS: [ChargeKind; KINDS] = [
    ChargeKind::Frames,
    ChargeKind::Cached,
    ChargeKind::Encoded,
    ChargeKind::Scratch,
    ChargeKind::Tables,
    ChargeKind::Tasks,
    ChargeKind::Results,
    ChargeKind::Tiles,
    ChargeKind::Other,
];

/// The ledger has no room, and no page can be dropped. Callers never spin on it: they wait for a release, or end with
/// the needed size.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("memory is full: {needs} bytes are needed, {used} of {limit} are in use and none of them can be dropped now")]
pub struct Full {
    /// Requested bytes.
    pub needs: u64,
    /// Bytes in use.
    pub used: u64,
    /// The limit.
    pub limit: u64,
}

/// Counts bytes against a limit.
#[derive(Debug)]
pub struct Ledger {
    /// 1. `used <= limit` after every successful [`Ledger::try_charge`] on any thread: the sum is raised by
    ///    compare-and-swap. It exceeds the limit in two cases only: after [`Ledger::set_limit`] lowered it, until the
    ///    pool has shrunk; and by the bytes of [`Ledger::force`].
    used: AtomicU64,
    limit: AtomicU64,
    peak: AtomicU64,
    overdraft: AtomicU64,
    /// 2. The sum over kinds is `used`, except between the two halves of one call.
    kinds: [AtomicU64; KINDS],
}

impl Ledger {
    /// An empty ledger. `limit`: bytes.
    pub fn new(limit: u64) -> Self {
        Self {
            used: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
            peak: AtomicU64::new(0),
            overdraft: AtomicU64::new(0),
            kinds: Default::default(),
        }
    }

    /// Bytes that may be in use.
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Most bytes that were ever in use.
    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }

    /// Most bytes by which the use ever exceeded the limit: bookkeeping that cannot be refused.
    pub fn overdraft(&self) -> u64 {
        self.overdraft.load(Relaxed)
    }

    /// Bytes in use for one kind.
    pub fn of(&self, kind: ChargeKind) -> u64 {
        self.kinds[kind as usize].load(Relaxed)
    }

    /// Bytes that can be charged now.
    pub fn available(&self) -> u64 {
        self.limit().saturating_sub(self.used())
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// Charges `bytes` if they fit. Does not make room.
    #[must_use]
    pub fn try_charge(&self, kind: ChargeKind, bytes: u64) -> bool {
        let mut used = self.used.load(Relaxed);
        loop {
            let Some(sum) = used.checked_add(bytes) else { return false };
            if sum > self.limit.load(Relaxed) {
                return false;
            }
            match self.used.compare_exchange_weak(used, sum, Relaxed, Relaxed) {
                Ok(_) => {
                    self.kinds[kind as usize].fetch_add(bytes, Relaxed);
                    self.peak.fetch_max(sum, Relaxed);
                    return true;
                }
                Err(now) => used = now,
            }
        }
    }

    /// Charges without a check. Only for small bookkeeping that a run needs to continue.
    pub(crate) fn force(&self, kind: ChargeKind, bytes: u64) {
        let sum = self.used.fetch_add(bytes, Relaxed).saturating_add(bytes);
        self.kinds[kind as usize].fetch_add(bytes, Relaxed);
        self.peak.fetch_max(sum, Relaxed);
        self.overdraft.fetch_max(sum.saturating_sub(self.limit()), Relaxed);
    }

    /// Releases a charge.
    pub fn release(&self, kind: ChargeKind, bytes: u64) {
        self.kinds[kind as usize].fetch_sub(bytes, Relaxed);
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// Moves charged bytes to another kind.
    pub(crate) fn transfer(&self, from: ChargeKind, to: ChargeKind, bytes: u64) {
        self.kinds[from as usize].fetch_sub(bytes, Relaxed);
        self.kinds[to as usize].fetch_add(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn charges_fit_or_are_refused() {
        let l = Ledger::new(100);
        assert!(l.try_charge(ChargeKind::Frames, 60));
        assert!(!l.try_charge(ChargeKind::Encoded, 41));
        assert!(l.try_charge(ChargeKind::Encoded, 40));
        assert_eq!((l.used(), l.available(), l.peak()), (100, 0, 100));
        l.release(ChargeKind::Frames, 60);
        assert_eq!((l.used(), l.of(ChargeKind::Frames), l.peak()), (40, 0, 100));
        assert!(!l.try_charge(ChargeKind::Other, u64::MAX));
        l.force(ChargeKind::Tables, 70);
        assert_eq!((l.overdraft(), l.peak()), (10, 110));
    }

    #[test]
    fn many_threads_never_pass_the_limit() {
        let l = Arc::new(Ledger::new(1000));
        std::thread::scope(|s| {
            for t in 0..4u64 {
                let l = l.clone();
                s.spawn(move || {
                    for i in 0..20_000u64 {
                        let b = 1 + (i * 7 + t * 13) % 400;
                        if l.try_charge(ChargeKind::Other, b) {
                            assert!(l.used() <= 1000);
                            l.release(ChargeKind::Other, b);
                        }
                    }
                });
            }
        });
        assert_eq!(l.used(), 0);
        assert!(l.peak() <= 1000);
    }
}
