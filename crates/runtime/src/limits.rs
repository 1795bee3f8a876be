//! Memory that a limit must leave free, and a sufficient limit if one is too small.

use field::error::FieldError;
use field::locator::LANES;
use kernels::streamline::Options;
use pager::{Charge, ChargeKind, PageError, PageErrorKind, Pager, PagerError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The smallest memory limit of a run. Small data need less. But then the limit that one part of a run names is too
/// small for its next part. Every machine has this much.
pub const SMALLEST_LIMIT: u64 = 4 << 20;

pub(crate) fn check_limit(limit: u64) -> Result<(), FieldError> {
    if limit < SMALLEST_LIMIT {
        let what = "any run, with its tables and buffers,".into();
        return Err(FieldError::LimitTooSmall { limit, needs: SMALLEST_LIMIT, what });
    }
    Ok(())
}

/// Share of the limit that [`crate::session::Session`] keeps free for memory outside the ledger, with its lower and
/// upper bound. Code is touched before the base is measured. Stacks and freed lines in the allocator came to 0.1 to 1.2
/// MiB at limits of 4 to 32 MiB.
const UNSEEN_SHARE: u64 = 16;
const UNSEEN_LEAST: u64 = 3 << 19;
const UNSEEN_MOST: u64 = 4 << 20;

fn unseen(limit: u64) -> u64 {
    (limit / UNSEEN_SHARE).clamp(UNSEEN_LEAST, UNSEEN_MOST)
}

/// The charge for memory that a session keeps free.
pub(crate) struct Unseen(Mutex<Charge>);

impl Unseen {
    /// Charges it under the present limit. `what` names the subject of a limit that is too small.
    pub(crate) fn new(pager: &Pager, what: &str) -> Result<Self, FieldError> {
        let bytes = unseen(pager.ledger().limit());
        let charge = pager.charge(ChargeKind::Other, bytes).map_err(|f| FieldError::LimitTooSmall {
            limit: f.limit,
            needs: would_do(pager, bytes),
            what: what.into(),
        })?;
        Ok(Self(Mutex::new(charge)))
    }

    pub(crate) fn set_limit(&self, pager: &Pager, limit: u64) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = held.bytes();
        held.shrink(unseen(limit).min(before));
        pager.set_limit(limit);
        // A refused part is in use for something else until that is done. Until then less is kept free.
        let _less_is_free = held.grow(unseen(limit));
    }
}

/// Each computing thread has this much of the limit, or there are fewer threads.
const OF_THREAD: u64 = 2 << 20;

/// A thread's stack, and its share of the allocator's freed memory: 0.18 MB (vortex cores) to 0.28 (pictures) each,
/// with 30 threads more.
const OF_STACK: u64 = 192 << 10;

/// Threads covered by the memory that a session keeps free. Any limit has room for them.
const WITHOUT_CHARGE: usize = 2;

/// Most threads that compute under a limit.
pub fn most_threads(limit: u64) -> usize {
    usize::try_from(limit / OF_THREAD).unwrap_or(usize::MAX).max(WITHOUT_CHARGE)
}

/// Bytes of the stacks of `threads`, beside the memory that a session keeps free.
pub(crate) fn stack_bytes(threads: usize) -> u64 {
    threads.saturating_sub(WITHOUT_CHARGE) as u64 * OF_STACK
}

/// Bytes that grow with a limit: those kept free, the pager's own, and the stacks of one thread a core.
fn grows(limit: u64) -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    unseen(limit) + pager_reserve(limit) + stack_bytes(most_threads(limit).min(cores))
}

/// Most bytes that the pager reserves for its own tables, under a limit that [`check_limit`] accepts.
fn pager_reserve(limit: u64) -> u64 {
    (limit / 32).min(8 << 20)
}

/// The error of a page that is too large for the limit, since the limit was lowered. `None` for any other failed page.
pub fn too_large(pager: &Pager, e: &PageError) -> Option<FieldError> {
    let PageErrorKind::TooLarge { needs, .. } = e.kind else { return None };
    let needs = would_do(pager, needs.saturating_mul(2));
    Some(FieldError::LimitTooSmall { limit: pager.ledger().limit(), needs, what: e.what.to_string() })
}

/// The limit under which `bytes` fit beside the bytes held now. A refused charge names it.
pub fn would_do(pager: &Pager, bytes: u64) -> u64 {
    let ledger = pager.ledger();
    // Clean pages are dropped for a charge.
    let held = ledger.used().saturating_sub(ledger.of(ChargeKind::Frames) + ledger.of(ChargeKind::Cached));
    let own = held.saturating_sub(grows(ledger.limit())).saturating_add(bytes).saturating_add(SLACK);
    let mut limit = own.max(ledger.limit());
    // It ends, since the growing bytes are less than a fifth.
    while own.saturating_add(grows(limit)) > limit {
        limit = own.saturating_add(grows(limit));
    }
    limit
}

/// The smallest limit under which `bytes` fit beside the bytes that grow with it. These are the bytes kept free, the
/// pager's reserve, and one part in `share` for results.
pub fn limit_for(bytes: u64, share: u64) -> u64 {
    let grows = |limit: u64| grows(limit) + limit / share;
    let mut limit = bytes.max(SMALLEST_LIMIT);
    // It ends, since the shares together are less than a third.
    while bytes.saturating_add(grows(limit)) > limit {
        limit = bytes.saturating_add(grows(limit));
    }
    limit
}

/// Added for short-lived memory (tables, requests) at the time of a charge.
const SLACK: u64 = 128 << 10;

/// An error of the pager as callers of the crate see it.
pub fn pager_error(e: PagerError) -> FieldError {
    match e {
        PagerError::LimitTooSmall { limit, needs } => {
            FieldError::LimitTooSmall { limit, needs, what: "the page pool".into() }
        }
        PagerError::Page(p) => match p.kind {
            // The page itself is valid.
            PageErrorKind::TooLarge { needs, limit } => {
                FieldError::LimitTooSmall { limit, needs: needs.saturating_mul(2), what: p.what.to_string() }
            }
            _ => FieldError::Page(p),
        },
        PagerError::Full(f) => {
            FieldError::LimitTooSmall { limit: f.limit, needs: f.limit.saturating_add(f.needs), what: "this".into() }
        }
        PagerError::Map(e) => FieldError::Io { path: PathBuf::from("memory"), source: e },
    }
}

/// Charges bytes outside pages, as of a converter, to the ledger. `what` names their use.
pub fn charge_other(pager: &Arc<Pager>, bytes: u64, what: &str) -> Result<Box<dyn std::any::Any>, FieldError> {
    match pager.charge(ChargeKind::Other, bytes) {
        Ok(c) => Ok(Box::new(c)),
        Err(f) => Err(FieldError::LimitTooSmall { limit: f.limit, needs: would_do(pager, bytes), what: what.into() }),
    }
}

/// An error of [`Pager::fetch`] as callers of the crate see it. `bytes` of pages were requested; one of them takes
/// `making` more while it is derived.
pub fn fetch_error(pager: &Pager, e: PagerError, bytes: u64, making: u64) -> FieldError {
    let short = match &e {
        PagerError::Full(_) => true,
        PagerError::Page(p) => matches!(p.kind, PageErrorKind::TooLarge { .. }),
        _ => false,
    };
    if !short {
        return pager_error(e);
    }
    // A page may be in memory twice, encoded and decoded.
    FieldError::LimitTooSmall {
        limit: pager.ledger().limit(),
        needs: would_do(pager, bytes.saturating_mul(2).saturating_add(making)),
        what: "reading a page of each field".into(),
    }
}

/// Bytes of pages that may be held together; `making` bytes are needed to derive or read one of them. They are an
/// eighth of the limit, and at most half of the room that other charges leave to pages. Beyond that the last pages
/// would find no room, since those before them are held.
pub(crate) fn held_together(pager: &Pager, making: u64) -> u64 {
    let ledger = pager.ledger();
    let pages = ledger.of(ChargeKind::Frames) + ledger.of(ChargeKind::Cached);
    let room = ledger.limit().saturating_sub(ledger.used().saturating_sub(pages));
    (ledger.limit() / 8).min(room.saturating_sub(making) / 2)
}

/// The error of an output without room, with a sufficient limit. Outputs have no access to limit and ledger.
pub fn refused(pager: &Pager, e: FieldError) -> FieldError {
    match e {
        FieldError::LimitTooSmall { needs, .. } => FieldError::LimitTooSmall {
            limit: pager.ledger().limit(),
            needs: would_do(pager, needs),
            what: "holding the results".into(),
        },
        e => e,
    }
}

/// Bytes of finished lines that stay in memory; the others go to disk.
pub fn results_budget(limit: u64) -> usize {
    usize::try_from(limit / 8).unwrap_or(usize::MAX)
}

/// An error of a limit that is too small, with at least `enough` as the sufficient one.
pub fn more_than(e: FieldError, enough: u64) -> FieldError {
    match e {
        FieldError::LimitTooSmall { limit, needs, what } => {
            FieldError::LimitTooSmall { limit, needs: needs.max(enough), what }
        }
        e => e,
    }
}

/// Most bytes of a line under way, with room to grow.
pub fn line_bytes(options: &Options, components: usize) -> u64 {
    let points = 2 * (u64::from(options.max_steps) + 1);
    points.saturating_mul(48 + 8 * components as u64).min(LONG_LINE)
}

/// Bytes of `points` of a line through time while it is in a window. It usually makes a few steps there.
pub fn window_bytes(components: usize, points: usize) -> u64 {
    points as u64 * (40 + 8 * components as u64)
}

/// Most bytes set aside for a line, whatever its options allow. Hardly any line gets that long, and few lines under way
/// would leave readers idle.
const LONG_LINE: u64 = 256 << 10;

/// Lines under way at a time. Each uses a page or two of each array that it reads, and grows, in half of the memory.
/// The number is also bounded by what keeps readers and workers busy. A line mostly waits for a page or two of each of
/// three arrays.
pub fn active_lines(limit: u64, step_bytes: u64, line_bytes: u64, workers: usize, readers: usize) -> usize {
    let each = (step_bytes / 4).max(64 << 10).max(line_bytes);
    let busy = readers.max(workers * 2 * LANES).max(BUSY);
    (limit / 2 / each).clamp(workers as u64 * 2, busy as u64) as usize
}

/// Lines that keep a disk busy. With 512 under way 1.10 times the bytes of the touched pages were read, with 64 to 128
/// 1.05. The run then took 0.63 s instead of 0.68; with 32 it took 0.84.
const BUSY: usize = 128;

/// The smallest limit for a largest step of `step_bytes`: the elder's pages beside an eighth for results, and tables.
pub fn least_limit(step_bytes: u64) -> u64 {
    ((step_bytes + step_bytes / 4).max(LEAST) * 8 / 7).div_ceil(64 << 10) * (64 << 10) + (64 << 10)
}

/// A limit that suffices for steps of `closure_bytes`, wherever they lead. It also holds the bytes kept free, the
/// pager's tables, and the results.
pub fn enough_limit(closure_bytes: u64) -> u64 {
    limit_for(closure_bytes + 2 * LEAST, 8).div_ceil(64 << 10) * (64 << 10)
}

/// Least memory of a run with any data: buffers of the outputs, tables, a few tasks.
const LEAST: u64 = 512 << 10;

/// Points that a pathline has room for, if all lines fit into a sixteenth of the memory. It hands over half of them in
/// one piece. A piece takes a dozen allocations and a lock.
pub const KEPT_POINTS: usize = 32;

/// The same if they do not fit.
pub const KEPT_LEAST: usize = 8;

/// Lines through time are packed between windows if their states take more than one part in this many of the memory. To
/// pack and unpack one takes half a microsecond of processor time, and more for memory outside the caches. 10,000
/// particles in 200 windows at 64 MiB took 2 s of 17 for it.
pub const OF_STATES: u64 = 5;

/// Points kept with a packed line. As many as fit with all `tasks` into `states` bytes, beside `others` bytes each.
pub fn kept_away(states: u64, tasks: u64, others: u64, components: usize) -> usize {
    let points = (states / tasks.max(1)).saturating_sub(others) / window_bytes(components, 1);
    usize::try_from(points).unwrap_or(usize::MAX).clamp(2, KEPT_LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_as_many_threads_as_it_has_room_for_and_two_at_least() {
        assert_eq!([4 << 20, 5 << 20, 16 << 20, 1 << 30].map(most_threads), [2, 2, 8, 512]);
    }
}
