//! Lists of positions in memory that does not grow with them.

use super::SeedError;
use output::{ByteLog, HeldMemory, MemoryAccount, SpoolOptions};

/// Bytes of a point in the log.
const POINT_BYTES: u64 = 24;

/// Memory of a list: its last 2,730 points at most, the others are in a file without a name. A line takes its seed once, and twice
/// more where seeds are sorted, which is next to nothing beside tracing it wherever the seed comes from: more memory would only be
/// missing elsewhere. It is what a share of a ledger takes at a time.
pub(super) const LIST_BYTES: usize = 64 << 10;

/// A log of [`LIST_BYTES`], as far as `held` grants them.
pub(super) fn new_log(held: HeldMemory) -> Result<ByteLog, SeedError> {
    Ok(ByteLog::new(&SpoolOptions::spill_directory(None), LIST_BYTES, held)?)
}

/// Positions, from a file or an array: appended one after another, then read anywhere.
#[derive(Debug)]
pub struct PointList(ByteLog);

impl PointList {
    /// An empty one. Its memory, at most 64 KiB, is charged to `charge`.
    ///
    /// # Errors
    /// [`SeedError::Memory`] when not even the least of it is to be had.
    pub fn new(charge: Box<dyn MemoryAccount>) -> Result<Self, SeedError> {
        Self::held(HeldMemory::new(charge))
    }

    pub(super) fn held(held: HeldMemory) -> Result<Self, SeedError> {
        Ok(Self(new_log(held)?))
    }

    /// Appends a position.
    ///
    /// # Errors
    /// [`SeedError::Spill`] when those before it cannot be put on disk.
    pub fn push(&mut self, point: [f64; 3]) -> Result<(), SeedError> {
        let mut bytes = [0; POINT_BYTES as usize];
        for (chunk, value) in bytes.chunks_exact_mut(8).zip(point) {
            chunk.copy_from_slice(&value.to_le_bytes());
        }
        self.0.append(&bytes)?;
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.0.len() / POINT_BYTES
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Position number `index`.
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
