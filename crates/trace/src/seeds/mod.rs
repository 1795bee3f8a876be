//! Where lines begin.
//!
//! # Theory
//! A set of seeds is a rule that gives the position of seed number `n`, not a list: ten million of them cost nothing until they are
//! traced, and a seed's position depends on its number alone, so a result cannot depend on the order in which seeds are admitted. Random
//! seeds come from a counter-based generator (see [`SeedStream`]) for the same reason.
//!
//! # Practice
//! [`Seeds::parse`] reads what a user writes after `--seeds`; [`Seeds::get`] gives a position in physical space, a position in the
//! computational space of a zone, or, for random seeds, the numbers from which the dataset's owner draws a position in the domain. Seeds from
//! files and arrays are put once into a [`PointList`], a log whose memory is bounded and charged to whom [`SeedContext`] names.
//!
//! ```
//! use output::FixedBudget;
//! use trace::seeds::{Dimension, SeedContext, SeedPoint, Seeds};
//!
//! let mut watch = |_: &str, _: f64, _: f64| true;
//! let mut reading = SeedContext::new(Dimension::Three, Box::new(FixedBudget::new(1 << 20)), &mut watch);
//! let rake = Seeds::parse("line:0,0,0:0,1,0:5", &mut reading)?;
//! assert_eq!(rake.len(), 5);
//! assert_eq!(rake.get(1)?, SeedPoint::Physical([0.0, 0.25, 0.0]));
//!
//! let inlet = Seeds::parse("ijk:wing:1,1-9/3,2.5", &mut reading)?;
//! assert_eq!(inlet.get(2)?, SeedPoint::Computational { zone: "wing", ijk: [0.0, 8.0, 1.5] });
//!
//! let wrong = Seeds::parse("line:0,0,0:0,1,0", &mut reading).unwrap_err();
//! assert!(wrong.to_string().contains("line:x,y,z:x,y,z:n"));
//! # Ok::<(), trace::seeds::SeedError>(())
//! ```

mod cells;
mod context;
mod error;
mod file;
mod forms;
mod points;
mod random;
mod seed_point;
mod shapes;
mod spec;
#[cfg(test)]
mod tests;

pub use cells::SeedCells;
pub use context::{Dimension, SeedContext};
pub use error::SeedError;
pub use file::{fuzz_csv, fuzz_npy, fuzz_vtp};
pub use forms::FORMS;
pub use points::PointList;
pub use random::SeedStream;
pub use seed_point::SeedPoint;
pub use shapes::{IjkRange, Seeds};
pub use spec::fuzz_spec;

use std::path::Path;

impl Seeds {
    /// Reads what a user writes: a shape (see [`FORMS`]) or the name of a `.csv`, `.npy` or `.vtp` file, which is read now.
    ///
    /// # Errors
    /// [`SeedError`] that says what is wrong and shows the right form.
    pub fn parse(spec: &str, reading: &mut SeedContext<'_, '_>) -> Result<Self, SeedError> {
        spec::parse(spec, reading)
    }

    /// Reads a file of points.
    ///
    /// # Errors
    /// [`SeedError`] when it cannot be read or holds something else.
    pub fn open(path: &Path, reading: &mut SeedContext<'_, '_>) -> Result<Self, SeedError> {
        file::open(path, reading)
    }
}
