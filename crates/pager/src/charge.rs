//! Charges for memory outside the pool. A charge returns its bytes to the ledger when it is dropped.

use crate::event::Event;
use crate::ledger::{ChargeKind, Full, Ledger};
use crate::pager::Pager;
use std::sync::{Arc, Weak};

/// Charged bytes outside the pool, released on drop.
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

    /// Releases all but `to` bytes.
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

    /// Grows the charge to `to` bytes. Clean pages are dropped if the ledger is full.
    ///
    /// # Errors
    /// [`Full`]; the charge is unchanged then.
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
    /// An empty charge, which can grow.
    pub fn no_charge(&self, kind: ChargeKind) -> Charge {
        Charge { ledger: self.ledger.clone(), pager: self.me.clone(), kind, bytes: 0 }
    }

    /// Charges `bytes` outside the pool. Clean pages are dropped if the ledger is full. Dropping the returned value
    /// releases the charge.
    ///
    /// # Errors
    /// [`Full`] when everything else is in use. The call does not retry: the caller finishes other work, asks workers
    /// to release pins ([`Self::press`]), or ends.
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
