//! Prefetch of the next time step: the same places as the pages that rays use now.

use pager::{Charge, ChargeKind, PageId, Pager, Priority, Wake};
use runtime::executor::Nobody;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Divisor: the share of the limit for the list of requested pages. A full list is cleared, and some pages are
/// requested again.
const SHARE: u64 = 256;
/// Bytes of an entry, with the free room of a set.
const EACH: u64 = 64;

/// Prefetch of one time step.
pub(super) struct Next {
    pager: Arc<Pager>,
    step: u32,
    asked: Mutex<HashSet<PageId>>,
    most: usize,
    nobody: Arc<dyn Wake>,
    _charge: Charge,
}

impl Next {
    /// The prefetch of time step `step`. The error is the number of missing bytes.
    pub(super) fn new(pager: &Arc<Pager>, step: u32) -> Result<Self, u64> {
        let bytes = (pager.ledger().limit() / SHARE).clamp(64 * EACH, 8 << 20);
        let charge = pager.charge(ChargeKind::Tables, bytes).map_err(|_| bytes)?;
        let (asked, most) = (Mutex::new(HashSet::new()), (bytes / EACH) as usize);
        Ok(Self { pager: pager.clone(), step, asked, most, nobody: Arc::new(Nobody), _charge: charge })
    }

    /// Requests the pages of the next step in the places of `touched`.
    pub(super) fn ask(&self, touched: impl Iterator<Item = PageId>) {
        let mut new = Vec::new();
        {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            for page in touched {
                let page = PageId { step: self.step, ..page };
                if asked.len() >= self.most {
                    asked.clear();
                }
                if asked.insert(page) {
                    new.push(page);
                }
            }
        }
        if !new.is_empty() {
            let _settled = self.pager.request(&new, 0, &self.nobody, Priority::Prefetch);
        }
    }
}
