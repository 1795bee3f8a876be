//! A share of the ledger, for what grows in small pieces.

use crate::output;
use pager::{Charge, ChargeKind, Pager};
use std::sync::Arc;

/// A share of the ledger for something that asks in small amounts.
pub struct LedgerShare {
    pager: Arc<Pager>,
    held: Vec<Charge>,
    spare: usize,
}

/// Charges are taken from the ledger in pieces of this size.
const PIECE: usize = 64 << 10;

impl LedgerShare {
    /// Nothing yet.
    pub fn new(pager: Arc<Pager>) -> Self {
        Self { pager, held: Vec::new(), spare: 0 }
    }
}

impl output::Charge for LedgerShare {
    fn try_charge(&mut self, bytes: usize) -> bool {
        if bytes > self.spare {
            let more = (bytes - self.spare).div_ceil(PIECE) * PIECE;
            match self.pager.charge(ChargeKind::Results, more as u64) {
                Ok(c) => {
                    self.held.push(c);
                    self.spare += more;
                }
                Err(_) => return false,
            }
        }
        self.spare -= bytes;
        true
    }
    fn release(&mut self, bytes: usize) {
        self.spare += bytes;
        while let Some(last) = self.held.last() {
            let size = last.bytes() as usize;
            if size > self.spare {
                break;
            }
            self.spare -= size;
            self.held.pop();
        }
    }
}
