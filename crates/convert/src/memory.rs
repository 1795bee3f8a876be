//! The memory of a conversion, charged before its use.

use field::error::FieldError;
use std::any::Any;

/// Charges memory to the ledger before its use; dropping the returned value releases it. The error names a sufficient
/// limit.
pub type ChargeMemory<'a> = dyn Fn(u64) -> Result<Box<dyn Any>, FieldError> + 'a;

/// The result of `plan` and its charged bytes, for the largest limit up to `most` with bytes that can be charged.
pub(crate) fn within<P>(
    most: u64,
    charge: &ChargeMemory<'_>,
    plan: impl Fn(u64) -> Result<(P, u64), FieldError>,
) -> Result<(P, Box<dyn Any>), FieldError> {
    let mut limit = most;
    let mut smallest = false;
    loop {
        let (plan, memory) = match plan(limit) {
            Ok(planned) => planned,
            // The smallest plan. The ledger's error for it names the limit that suffices.
            Err(FieldError::LimitTooSmall { needs, .. }) if !smallest => {
                (limit, smallest) = (needs, true);
                continue;
            }
            Err(e) => return Err(e),
        };
        match charge(memory) {
            Ok(charged) if memory <= most => return Ok((plan, charged)),
            // A ledger may have room for more than the conversion may use.
            Ok(_) => {
                let what = "converting a page at a time".into();
                return Err(FieldError::LimitTooSmall { limit: most, needs: memory, what });
            }
            Err(e) if smallest => return Err(e),
            Err(_) => limit = memory.saturating_sub(1) / 4 * 3,
        }
    }
}
