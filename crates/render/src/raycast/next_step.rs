//! Pages of the next time step, read while one is drawn: those in whose place rays come to one now.

use pager::{Charge, ChargeKind, PageId, Pager, Priority, Wake};
use runtime::executor::Nobody;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Pages that are known to have been asked for take up to this share of the limit; when there are more, all are forgotten, and some are
/// asked for again, in vain.
const SHARE: u64 = 256;
/// Bytes of one, with the room that a set leaves.
const EACH: u64 = 64;

/// What is read ahead.
pub(super) struct Next {
    pager: Arc<Pager>,
    step: u32,
    asked: Mutex<HashSet<PageId>>,
    most: usize,
    nobody: Arc<dyn Wake>,
    _charge: Charge,
}

impl Next {
    /// For a time step; what it would take if there is no room for it.
    pub(super) fn new(pager: &Arc<Pager>, step: u32) -> Result<Self, u64> {
        let bytes = (pager.ledger().limit() / SHARE).clamp(64 * EACH, 8 << 20);
        let charge = pager.charge(ChargeKind::Tables, bytes).map_err(|_| bytes)?;
        let (asked, most) = (Mutex::new(HashSet::new()), (bytes / EACH) as usize);
        Ok(Self { pager: pager.clone(), step, asked, most, nobody: Arc::new(Nobody), _charge: charge })
    }

    /// Asks for pages of the next step in the place of these.
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
