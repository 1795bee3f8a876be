//! Reads everything once: a store's shards against their checksums ([`check_store`]), and pages of data in place. Those
//! have no checksums, so only lengths and shapes are checked.

use crate::limits::{charge_other, fetch_error, held_together};
use crate::session::{ProgressWatch, Resources, Session, Source};
use crate::stats::Stats;
use convert::check::{check_store, EventCallback};
use field::error::FieldError;
use field::store::{Problem, Store, Validation};
use field::volume::store::VolumeStore;
use pager::{Event, PageErrorKind, PageId, PagerError};
use std::path::Path;

/// [`check_store`] as a run: with a ledger of its own, its events, and the numbers of every run.
///
/// # Errors
/// As [`check_store`].
pub fn run(
    path: &Path,
    resources: &Resources,
    watch: &mut ProgressWatch<'_>,
) -> Result<(Validation, Stats), FieldError> {
    let session = Session::open(Source::Nothing, resources.clone(), watch)?;
    let charge = |bytes: u64| charge_other(&session.pager, bytes, "checking a page at a time");
    let told = |e: Event| session.record(&e);
    let told = resources.observer.is_some().then_some(&told as &EventCallback<'_>);
    let mut progress = |done: u64, total: u64| watch("validating", done as f64, total as f64);
    let found = check_store(path, resources.threads(), &charge, told, &mut progress)?;
    let mut stats = session.stats();
    stats.pages.total = match VolumeStore::is_volume(path) {
        true => VolumeStore::open(path)?.checked().page_count(),
        false => Store::open(path)?.page_count(),
    };
    // Each page is read once, whether it is valid or not.
    (stats.pages.touched, stats.pages.faults) = (found.pages, found.pages);
    (stats.bytes_read, stats.reads) = (found.bytes, found.reads);
    Ok((found, stats))
}

/// The result of reading pages without checksums.
#[derive(Clone, Debug, Default)]
pub struct ReadAll {
    /// Pages read.
    pub pages: u64,
    /// Failed pages and their errors; the first hundred.
    pub problems: Vec<Problem>,
    /// Number of failed pages.
    pub problem_count: u64,
}

/// Reads every page of every array and step once.
///
/// # Errors
/// [`FieldError::LimitTooSmall`], [`FieldError::Interrupted`]. Failed pages are in the result, and no error.
pub fn read_all(session: &Session, watch: &mut ProgressWatch<'_>) -> Result<ReadAll, FieldError> {
    let dataset = session.dataset();
    let steps = dataset.catalog.times.len().max(1) as u32;
    let arrays = || dataset.zones.iter().flat_map(|z| z.arrays.iter().map(move |a| (z, a)));
    let total: u64 = arrays().map(|(z, a)| z.translation.count() * u64::from(if a.steady { 1 } else { steps })).sum();
    let mut found = ReadAll::default();
    for (z, a) in arrays() {
        // Enough pages at once to keep the readers busy, if they can be held together.
        let page_bytes = (z.translation.component * a.components * a.dtype.size()).max(1) as u64;
        let together = held_together(&session.pager, page_bytes);
        let batch = (together / page_bytes).clamp(1, 4 * session.pager.readers() as u64);
        for step in 0..if a.steady { 1 } else { steps } {
            let mut next = 0;
            while next < z.translation.count() {
                if !watch("validating", found.pages as f64, total as f64) {
                    return Err(FieldError::Interrupted);
                }
                let end = (next + batch).min(z.translation.count());
                let pages: Vec<PageId> = (next..end).map(|p| PageId::new(a.id, step, p)).collect();
                match session.pager.fetch(&pages) {
                    Ok(_) => {}
                    Err(PagerError::Page(p)) if !matches!(p.kind, PageErrorKind::TooLarge { .. }) => {
                        for p in pages.iter().filter_map(|p| session.pager.failure(*p)) {
                            found.problem_count += 1;
                            if found.problems.len() < NAMED {
                                let (what, error) = (p.what.to_string(), p.kind.to_string());
                                found.problems.push(Problem { what, error });
                            }
                        }
                    }
                    Err(e) => return Err(fetch_error(&session.pager, e, page_bytes * pages.len() as u64, 0)),
                }
                found.pages += end - next;
                next = end;
            }
        }
    }
    Ok(found)
}

/// Problems that are named; further ones are only counted.
const NAMED: usize = 100;
