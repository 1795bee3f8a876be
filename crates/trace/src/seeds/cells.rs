//! Seeds that a search has found.

use super::seed_point::SeedPoint;
use pager::Charge;
use std::fmt;

/// Places in computational space, each with its zone, and their charge.
pub struct SeedCells {
    places: Vec<(u32, [f64; 3])>,
    _held: Charge,
}

impl SeedCells {
    /// Places charged to `held`.
    pub(crate) fn new(places: Vec<(u32, [f64; 3])>, held: Charge) -> Self {
        Self { places, _held: held }
    }

    /// Number of places.
    pub fn len(&self) -> u64 {
        self.places.len() as u64
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn get(&self, index: u64) -> Option<SeedPoint<'static>> {
        let (zone, ijk) = *self.places.get(usize::try_from(index).ok()?)?;
        Some(SeedPoint::Place { zone, ijk })
    }
}

impl fmt::Debug for SeedCells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Found").field(&self.places.len()).finish()
    }
}
