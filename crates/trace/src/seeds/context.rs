//! What seeds are read with, and how many coordinates they have.

use super::error::SeedError;
use output::{HeldMemory, MemoryAccount};
use runtime::session::ProgressWatch;

/// How many coordinates the dataset has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Traced in the plane z = 0; seeds have two coordinates.
    Two,
    /// Seeds have three coordinates.
    Three,
}

/// A position from its coordinates, if they are as many as the dataset has; 2-D data also takes a z of 0.
pub(super) fn planar(numbers: &[f64], dimension: Dimension) -> Option<[f64; 3]> {
    match (numbers, dimension) {
        ([x, y], Dimension::Two) => Some([*x, *y, 0.0]),
        ([x, y, z], Dimension::Two) if *z == 0.0 => Some([*x, *y, 0.0]),
        ([x, y, z], Dimension::Three) => Some([*x, *y, *z]),
        _ => None,
    }
}

/// What seeds are read with: for data of which dimension, on whose account, and under whose eyes.
pub struct SeedContext<'a, 'w> {
    pub(super) dimension: Dimension,
    /// The memory of all that reading makes; lists of points take their share of it with them.
    pub(super) held: HeldMemory,
    watch: &'a mut ProgressWatch<'w>,
}

impl<'a, 'w> SeedContext<'a, 'w> {
    /// Memory is charged to `charge`; `watch` is told how far a file is read, and ends it.
    pub fn new(dimension: Dimension, charge: Box<dyn MemoryAccount>, watch: &'a mut ProgressWatch<'w>) -> Self {
        Self { dimension, held: HeldMemory::new(charge), watch }
    }

    /// Tells how much of how much is read.
    pub(super) fn told(&mut self, done: u64, total: u64) -> Result<(), SeedError> {
        if (self.watch)("reading seeds", done as f64, total as f64) {
            Ok(())
        } else {
            Err(SeedError::Cancelled)
        }
    }
}
