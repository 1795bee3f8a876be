//! Lists of positions in bounded memory.

use super::error::SeedError;
use output::{ByteLog, HeldMemory, MemoryAccount, SpoolOptions};

/// Bytes of a point in the log.
const POINT_BYTES: u64 = 24;

/// Memory of a list: at most its last 2,730 points. The others are in an unnamed file. A line reads its seed once, and
/// twice more if seeds are sorted, which takes almost no time beside tracing. So more memory would only be missing
/// elsewhere. A share of a ledger grows by this much.
pub(super) const LIST_BYTES: usize = 64 << 10;

/// A log of [`LIST_BYTES`], or less if `held` refuses.
pub(super) fn new_log(held: HeldMemory) -> Result<ByteLog, SeedError> {
    Ok(ByteLog::new(&SpoolOptions::spill_directory(None), LIST_BYTES, held)?)
}

/// Positions from a file or an array: appended one after another, then read anywhere.
#[derive(Debug)]
pub struct PointList(ByteLog);

impl PointList {
    /// An empty list. Its memory, at most 64 KiB, is charged to `charge`.
    ///
    /// # Errors
    /// [`SeedError::Memory`] if even the least memory is refused.
    pub fn new(charge: Box<dyn MemoryAccount>) -> Result<Self, SeedError> {
        Self::held(HeldMemory::new(charge))
    }

    pub(super) fn held(held: HeldMemory) -> Result<Self, SeedError> {
        Ok(Self(new_log(held)?))
    }

    /// Appends a position.
    ///
    /// # Errors
    /// [`SeedError::Spill`] if earlier positions cannot be written to disk.
    pub fn push(&mut self, point: [f64; 3]) -> Result<(), SeedError> {
        let mut bytes = [0; POINT_BYTES as usize];
        for (chunk, value) in bytes.chunks_exact_mut(8).zip(point) {
            chunk.copy_from_slice(&value.to_le_bytes());
        }
        self.0.append(&bytes)?;
        Ok(())
    }

    /// Number of positions.
    pub fn len(&self) -> u64 {
        self.0.len() / POINT_BYTES
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn get(&self, index: u64) -> Result<[f64; 3], SeedError> {
        let mut bytes = [0; POINT_BYTES as usize];
        self.0.read_at(index * POINT_BYTES, &mut bytes)?;
        let mut point = [0.0; 3];
        for (value, chunk) in point.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            *value = f64::from_le_bytes(word);
        }
        Ok(point)
    }

    #[cfg(test)]
    pub(super) fn log(&self) -> &ByteLog {
        &self.0
    }
}
