//! The context of reading seeds, and the number of their coordinates.

use super::error::SeedError;
use output::{HeldMemory, MemoryAccount};
use runtime::session::ProgressWatch;

/// The number of coordinates of the dataset's points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Traced in the plane z = 0; seeds have two coordinates.
    Two,
    /// Seeds have three coordinates.
    Three,
}

/// A position from its coordinates, if their number is the dataset's. 2-D data also take a z of 0.
pub(super) fn planar(numbers: &[f64], dimension: Dimension) -> Option<[f64; 3]> {
    match (numbers, dimension) {
        ([x, y], Dimension::Two) => Some([*x, *y, 0.0]),
        ([x, y, z], Dimension::Two) if *z == 0.0 => Some([*x, *y, 0.0]),
        ([x, y, z], Dimension::Three) => Some([*x, *y, *z]),
        _ => None,
    }
}

/// The context of reading seeds: dimension, memory and progress.
pub struct SeedContext<'a, 'w> {
    pub(super) dimension: Dimension,
    /// Memory of all that reading makes. Lists of points keep their share.
    pub(super) held: HeldMemory,
    watch: &'a mut ProgressWatch<'w>,
}

impl<'a, 'w> SeedContext<'a, 'w> {
    /// Memory is charged to `charge`. `watch` gets the progress of a file, and may cancel.
    pub fn new(dimension: Dimension, charge: Box<dyn MemoryAccount>, watch: &'a mut ProgressWatch<'w>) -> Self {
        Self { dimension, held: HeldMemory::new(charge), watch }
    }

    pub(super) fn told(&mut self, done: u64, total: u64) -> Result<(), SeedError> {
        if (self.watch)("reading seeds", done as f64, total as f64) {
            Ok(())
        } else {
            Err(SeedError::Cancelled)
        }
    }
}
