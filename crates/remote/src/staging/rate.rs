//! Most bytes a second, over all threads.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// See the module.
pub(super) struct Rate {
    bytes_per_second: f64,
    /// When the next bytes may go.
    next: Mutex<Instant>,
}

impl Rate {
    pub(super) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1) as f64, next: Mutex::new(Instant::now()) }
    }

    /// The time to wait before so many bytes go.
    pub(super) fn take(&self, bytes: usize) -> Duration {
        let now = Instant::now();
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = (*next).max(now);
        *next = begin + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        begin.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_wait_for_those_before_them() {
        let rate = Rate::new(1000);
        assert_eq!(rate.take(500), Duration::ZERO);
        let waits = rate.take(500).as_secs_f64();
        assert!((0.4..=0.5).contains(&waits), "{waits}");
        let waits = rate.take(1).as_secs_f64();
        assert!((0.9..=1.0).contains(&waits), "{waits}");
    }
}
