//! Reads every page of data that are paged in place, where there are no checksums: lengths and shapes are what can be held.

use crate::session::{pager_error, Session, Watch};
use field::error::FieldError;
use pager::{PageId, PagerError};

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct ReadAll {
    /// Pages read.
    pub pages: u64,
    /// Pages that cannot be had: what, and why.
    pub failures: Vec<(String, String)>,
}

/// Reads every page of every array and step once.
///
/// # Errors
/// [`FieldError::Interrupted`]; failed pages are no error but in the result.
pub fn read_all(session: &Session, watch: &mut Watch<'_>) -> Result<ReadAll, FieldError> {
    let dataset = session.dataset();
    let steps = dataset.catalog.times.len().max(1) as u32;
    let arrays = || dataset.zones.iter().flat_map(|z| z.arrays.iter().map(move |a| (z, a)));
    let total: u64 = arrays().map(|(z, a)| z.translation.count() * u64::from(if a.steady { 1 } else { steps })).sum();
    let mut found = ReadAll::default();
    for (z, a) in arrays() {
        for step in 0..if a.steady { 1 } else { steps } {
            let mut next = 0;
            while next < z.translation.count() {
                if !watch("validating", found.pages as f64, total as f64) {
                    return Err(FieldError::Interrupted);
                }
                let end = (next + BATCH).min(z.translation.count());
                let pages: Vec<PageId> = (next..end).map(|p| PageId::new(a.id, step, p)).collect();
                match session.pager.fetch(&pages) {
                    Ok(_) => {}
                    Err(PagerError::Page(_)) => {
                        for p in pages.iter().filter_map(|p| session.pager.failure(*p)) {
                            found.failures.push((p.what.to_string(), p.kind.to_string()));
                        }
                    }
                    Err(e) => return Err(pager_error(e)),
                }
                found.pages += end - next;
                next = end;
            }
        }
    }
    Ok(found)
}

/// Pages asked for at once.
const BATCH: u64 = 64;
