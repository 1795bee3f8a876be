//! Charges for memory outside the pool: taken from the ledger, given back when they are dropped.

use crate::event::Event;
use crate::ledger::{ChargeKind, Full, Ledger};
use crate::pager::Pager;
use std::sync::{Arc, Weak};

/// A charge that is taken back when it is dropped.
#[derive(Debug)]
pub struct Charge {
    ledger: Arc<Ledger>,
    pager: Weak<Pager>,
    kind: ChargeKind,
    bytes: u64,
}

impl Charge {
    /// Bytes charged.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives a part back.
    pub fn shrink(&mut self, to: u64) {
        let less = self.bytes.saturating_sub(to);
        if less > 0 {
            self.bytes = to;
            self.give(less);
        }
    }

    /// Moves up to `bytes` of another charge of the same ledger and kind to this one.
    pub fn take_from(&mut self, other: &mut Self, bytes: u64) {
        debug_assert!(Arc::ptr_eq(&self.ledger, &other.ledger) && self.kind == other.kind);
        let bytes = bytes.min(other.bytes);
        other.bytes -= bytes;
        self.bytes += bytes;
    }

    /// Grows the charge to `to` bytes, dropping clean pages to make room if that is needed.
    ///
    /// # Errors
    /// [`Full`]; the charge is then what it was.
    pub fn grow(&mut self, to: u64) -> Result<(), Full> {
        let more = to.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        match self.pager.upgrade() {
            Some(pager) => {
                let mut more = pager.charge(self.kind, more)?;
                self.bytes += std::mem::take(&mut more.bytes);
                Ok(())
            }
            None if self.ledger.try_charge(self.kind, more) => {
                self.bytes += more;
                Ok(())
            }
            None => Err(Full { needs: more, used: self.ledger.used(), limit: self.ledger.limit() }),
        }
    }

    fn give(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.ledger.release(self.kind, bytes);
        if let Some(pager) = self.pager.upgrade() {
            pager.relieved();
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.give(self.bytes);
    }
}

impl Pager {
    /// A charge of nothing, that can grow.
    pub fn no_charge(&self, kind: ChargeKind) -> Charge {
        Charge { ledger: self.ledger.clone(), pager: self.me.clone(), kind, bytes: 0 }
    }

    /// Charges bytes for something outside the pool, dropping clean pages to make room. The charge is taken back when the
    /// returned value is dropped.
    ///
    /// # Errors
    /// [`Full`] when everything else is in use. Not retried here: the caller hands something over, asks workers to let go
    /// ([`Self::press`]), or ends.
    pub fn charge(&self, kind: ChargeKind, bytes: u64) -> Result<Charge, Full> {
        let charged = self.charge_outside(kind, bytes);
        self.emit(|| Event::Charged { bytes, used: self.ledger.used(), ok: charged.is_ok() });
        charged?;
        Ok(Charge { ledger: self.ledger.clone(), pager: self.me.clone(), kind, bytes })
    }

    fn charge_outside(&self, kind: ChargeKind, bytes: u64) -> Result<(), Full> {
        if self.ledger.try_charge(kind, bytes) {
            return Ok(());
        }
        let mut st = self.lock();
        loop {
            self.make_room(&mut st, bytes)?;
            if self.ledger.try_charge(kind, bytes) {
                return Ok(());
            }
        }
    }
}
