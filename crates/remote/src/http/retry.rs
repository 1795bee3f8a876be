//! Further attempts: how many there may be, and when.

use crate::options::NetworkOptions;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Further attempts that a place may make at once.
const MOST: f64 = 10.0;
/// Further attempts for each second.
const PER_SECOND: f64 = 10.0;
/// Further attempts for each first one.
const PER_REQUEST: f64 = 0.1;

/// The allowance of a place for further attempts: a tenth of its requests, and ten a second. So a server in
/// trouble gets fewer requests.
pub(super) struct Budget(Mutex<(f64, Instant)>);

impl Budget {
    pub(super) fn new() -> Self {
        Self(Mutex::new((MOST, Instant::now())))
    }

    fn change(&self, by: f64) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let earned = now.duration_since(state.1).as_secs_f64() * PER_SECOND;
        *state = ((state.0 + earned).min(MOST.max(state.0)), now);
        if state.0 + by < 0.0 {
            return false;
        }
        // Requests save up for a bad time, but not without bound.
        state.0 = (state.0 + by).min(10.0 * MOST);
        true
    }

    /// Notes a first attempt.
    pub(super) fn earn(&self) {
        self.change(PER_REQUEST);
    }

    /// Waits until a further attempt is allowed.
    pub(super) async fn spend(&self) {
        while !self.change(-1.0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The wait before attempt `number + 1`: any time up to a bound that doubles.
pub(super) fn backoff(options: &NetworkOptions, number: u32) -> Duration {
    let bound = options.backoff.saturating_mul(1 << number.saturating_sub(1).min(16)).min(options.longest_backoff);
    // A hasher's keys are random.
    let random = (RandomState::new().hash_one(number) >> 11) as f64 / (1u64 << 53) as f64;
    bound.mul_f64(random)
}
