//! Prices of the counters, which are always on. An experiment computes their share of a run from them.
//!
//! Each price is the time of a loop over the pager's work for one count. All data are in the nearest cache, and nothing
//! runs beside it. In a run other instructions overlap most of it. So the price is an upper bound there, except for
//! cache lines that were evicted.

use crate::event::Event;
use crate::id::{ArrayId, PageId};
use crate::ledger::{ChargeKind, Ledger};
use crate::pager::{Pager, PagerConfig, PagerError};
use crate::state::LockedCounters;
use crate::touched::Touched;
use crate::worker::count;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::Mutex;
use std::time::Instant;

/// Counts in one loop.
const TIMES: u64 = 1 << 20;
/// Number of loops. Their median is the price.
const LOOPS: usize = 7;

/// Nanoseconds of one call of `once`, which is given numbers from 0 on.
pub fn price(mut once: impl FnMut(u64)) -> f64 {
    let mut of_loop = || {
        let begin = Instant::now();
        for n in 0..TIMES {
            once(black_box(n));
        }
        begin.elapsed().as_nanos() as f64 / TIMES as f64
    };
    let mut all: [f64; LOOPS] = core::array::from_fn(|_| of_loop());
    all.sort_unstable_by(f64::total_cmp);
    all[LOOPS / 2]
}

/// The pager's counters by name, with the nanoseconds of one count.
///
/// # Errors
/// [`PagerError`] when no pager can be made.
pub fn prices() -> Result<Vec<(&'static str, f64)>, PagerError> {
    /// A worker's counters, on a line that no other thread writes.
    #[repr(align(128))]
    struct Own(AtomicU64);
    let own = Own(AtomicU64::new(0));
    let lookup = price(|_| count(black_box(&own.0)));
    // Under the pager's lock, which is held for other reasons.
    let under_lock = Mutex::new(LockedCounters::default());
    let mut tally = under_lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let tally = price(|_| black_box(&mut *tally).faults += 1);
    // Consecutive pages of a region, with those of other arrays in between.
    let mut touched = Touched::default();
    let page = |n: u64| PageId::new(ArrayId((n % 4) as u32), 0, n / 4 % 4096);
    let touch = price(|n| black_box(&mut touched).mark(page(n), 4096, u64::MAX));
    let ledger = Ledger::new(u64::MAX);
    let charge = price(|n| {
        let _fits = black_box(&ledger).try_charge(ChargeKind::Frames, n);
        ledger.release(ChargeKind::Frames, n);
    });
    let pager = Pager::new(PagerConfig { limit: 1 << 20, ..PagerConfig::default() })?;
    let ask = price(|n| black_box(&pager).record(|| Event::Evict { page: page(n) }));
    Ok(vec![("lookup", lookup), ("tally", tally), ("touch", touch), ("charge", charge), ("ask", ask)])
}
