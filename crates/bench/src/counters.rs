//! Prices of counters: the pager's, and those of the executor's counts and times.

use field::error::FieldError;
use pager::prices::{price, prices};
use serde_json::{json, Value};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Nanoseconds of each price, measured in a loop.
///
/// # Errors
/// [`FieldError`] when no pager can be made.
pub fn counters() -> Result<Value, FieldError> {
    let mut all = prices().map_err(runtime::limits::pager_error)?;
    // Each thread counts steps and rounds for itself.
    let mut steps = 0u64;
    all.push(("step", price(|_| *black_box(&mut steps) += 1)));
    // All threads together count restarts and the results of waiting.
    let shared = AtomicU64::new(0);
    all.push(("shared", price(|_| _ = black_box(&shared).fetch_add(1, Relaxed))));
    // A waiting thread reads the clock before and after.
    all.push(("clock", price(|_| _ = black_box(Instant::now()))));
    Ok(all.into_iter().map(|(name, ns)| (name.to_owned(), json!(ns))).collect())
}
