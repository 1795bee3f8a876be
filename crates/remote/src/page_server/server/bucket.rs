//! A token bucket.

use std::time::{Duration, Instant};

/// Time whose bytes may go at once.
const BURST: Duration = Duration::from_millis(20);

/// Bytes a second. A request that is larger than what is left leaves a debt.
pub(super) struct Bucket {
    rate: f64,
    left: f64,
    filled: Option<Instant>,
}

impl Bucket {
    pub(super) fn new(rate: u64) -> Self {
        let rate = rate.max(1) as f64;
        Self { rate, left: rate * BURST.as_secs_f64(), filled: None }
    }

    /// The time until it gives; `None`: now.
    pub(super) fn wait(&mut self, now: Instant) -> Option<Duration> {
        let passed = self.filled.map_or(Duration::ZERO, |filled| now.saturating_duration_since(filled));
        self.filled = Some(now);
        self.left = (self.left + passed.as_secs_f64() * self.rate).min(self.rate * BURST.as_secs_f64());
        (self.left <= 0.0).then(|| Duration::from_secs_f64((-self.left / self.rate).max(1e-4)))
    }

    pub(super) fn take(&mut self, bytes: u32) {
        self.left -= f64::from(bytes);
    }
}
