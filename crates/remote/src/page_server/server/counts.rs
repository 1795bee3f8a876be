//! Counts of a server since its start.

use super::super::wire::Op;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Bytes a second: when they were last looked at, the bytes until then, and the rate before.
pub(super) struct ByteRate(Mutex<(Instant, u64, f64)>);

impl ByteRate {
    pub(super) fn new() -> Self {
        Self(Mutex::new((Instant::now(), 0, 0.0)))
    }

    /// The rate since this was last asked, at least a second ago.
    pub(super) fn of(&self, bytes: u64) -> f64 {
        let mut looked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let passed = now.saturating_duration_since(looked.0).as_secs_f64();
        if passed >= 1.0 {
            *looked = (now, bytes, bytes.saturating_sub(looked.1) as f64 / passed);
        }
        looked.2
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident: $help:literal),* $(,)?) => {
        /// Counts since the start.
        pub(super) struct Counts {
            pub(super) begin: Instant,
            requests: [AtomicU64; Op::ALL.len()],
            congestion: Mutex<String>,
            rate: ByteRate,
            $($(#[$doc])* pub(super) $name: AtomicU64),*
        }

        impl Counts {
            pub(super) fn new() -> Self {
                Self {
                    begin: Instant::now(),
                    requests: std::array::from_fn(|_| AtomicU64::new(0)),
                    congestion: Mutex::default(),
                    rate: ByteRate::new(),
                    $($name: AtomicU64::new(0)),*
                }
            }

            pub(super) fn named(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $help, self.$name.load(Relaxed))),*]
            }
        }
    };
}

counts! {
    bytes: "Bytes of replies",
    from_cache: "Reads answered from the page cache",
    from_disk: "Reads that waited for a disk",
    from_memory: "Reads answered from the memory cache",
    from_origin: "Reads that waited for an origin",
    refused: "Connections refused for a missing or wrong token",
    turned_away: "Connections beyond the limits",
    faults: "Connections cut for a breach of the protocol",
    slow: "Connections closed for slowness or idleness",
    changed: "Reads of a file that has changed",
    held: "Bytes of buffers now",
}

impl Counts {
    pub(super) fn count(&self, op: Op) {
        if let Some(count) = self.requests.get(op as usize - 1) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn set_congestion(&self, name: String) {
        *self.congestion.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// Bytes a second of all clients.
    pub(super) fn rate(&self) -> f64 {
        self.rate.of(self.bytes.load(Relaxed))
    }

    pub(super) fn congestion(&self) -> String {
        self.congestion.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn of_ops(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        Op::ALL.iter().zip(&self.requests).map(|(op, n)| (format!("{op:?}").to_lowercase(), n.load(Relaxed)))
    }
}
