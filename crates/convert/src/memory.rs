//! The memory of a conversion: charged before it is used.

use field::error::FieldError;
use std::any::Any;

/// Charges memory to the ledger before it is used; what it answers gives it back when dropped. The error says what
/// limit would do.
pub type ChargeMemory<'a> = dyn Fn(u64) -> Result<Box<dyn Any>, FieldError> + 'a;

/// What `plan` makes of a limit, and the bytes that takes, for the largest limit up to `most` whose bytes can be charged.
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
            // The smallest plan there is. What the ledger says of it is the truth about what would do.
            Err(FieldError::LimitTooSmall { needs, .. }) if !smallest => {
                (limit, smallest) = (needs, true);
                continue;
            }
            Err(e) => return Err(e),
        };
        match charge(memory) {
            Ok(charged) if memory <= most => return Ok((plan, charged)),
            // A ledger may have room for more than the conversion is to take.
            Ok(_) => {
                let what = "converting a page at a time".into();
                return Err(FieldError::LimitTooSmall { limit: most, needs: memory, what });
            }
            Err(e) if smallest => return Err(e),
            Err(_) => limit = memory.saturating_sub(1) / 4 * 3,
        }
    }
}
