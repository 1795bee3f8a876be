//! A share of the ledger for memory that grows in small pieces.

use output;
use pager::{Charge, ChargeKind, Pager};
use std::sync::Arc;

/// A charge that grows in large pieces for a caller that needs small ones.
pub struct LedgerShare {
    charge: Charge,
    spare: usize,
}

/// The charge grows by multiples of this.
const PIECE: usize = 64 << 10;

impl LedgerShare {
    /// An empty share.
    pub fn new(pager: Arc<Pager>) -> Self {
        Self { charge: pager.no_charge(ChargeKind::Results), spare: 0 }
    }
}

impl output::MemoryAccount for LedgerShare {
    fn try_charge(&mut self, bytes: usize) -> bool {
        if bytes > self.spare {
            let more = (bytes - self.spare).next_multiple_of(PIECE);
            if self.charge.grow(self.charge.bytes() + more as u64).is_err() {
                return false;
            }
            self.spare += more;
        }
        self.spare -= bytes;
        true
    }
    fn release(&mut self, bytes: usize) {
        self.spare += bytes;
        let less = self.spare - self.spare % PIECE;
        self.spare -= less;
        self.charge.shrink(self.charge.bytes() - less as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use output::MemoryAccount as _;
    use pager::PagerConfig;

    #[test]
    fn what_is_released_is_free_whatever_was_charged_after_it() {
        let pager = Pager::new(PagerConfig { limit: 4 << 20, ..PagerConfig::default() }).unwrap();
        let held = || pager.ledger().of(ChargeKind::Results) as usize;
        let mut share = LedgerShare::new(pager.clone());
        assert!(share.try_charge(2 << 20) && share.try_charge(100) && held() == (2 << 20) + PIECE);
        share.release(2 << 20);
        assert_eq!(held(), PIECE);
        share.release(100);
        assert_eq!(held(), 0);
        assert!(!share.try_charge(4 << 20) && held() == 0);
    }
}
