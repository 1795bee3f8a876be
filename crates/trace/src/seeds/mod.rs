//! Seeds: where lines begin.
//!
//! # Theory
//! A set of seeds is a rule that gives the position of seed number `n`, not a list. So ten million seeds take no memory
//! until they are traced. A position depends on the number alone, so a result does not depend on the order of
//! admission. Random seeds come from a counter-based generator ([`SeedStream`]) for the same reason.
//!
//! # Practice
//! [`Seeds::parse`] reads a user's text after `--seeds`. [`Seeds::get`] gives a position in physical space or in the
//! computational space of a zone. For random seeds it gives the numbers from which a position in the domain is drawn.
//! Seeds from files and arrays are stored once in a [`PointList`], a log of bounded memory charged to the ledger of the
//! [`SeedContext`].
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
    /// Parses a user's text: a shape (see [`FORMS`]), or the name of a `.csv`, `.npy` or `.vtp` file, which is read
    /// now.
    ///
    /// # Errors
    /// [`SeedError`] with the right form.
    pub fn parse(spec: &str, reading: &mut SeedContext<'_, '_>) -> Result<Self, SeedError> {
        spec::parse(spec, reading)
    }

    /// Reads a file of points.
    ///
    /// # Errors
    /// [`SeedError`] for a file that cannot be read or has other content.
    pub fn open(path: &Path, reading: &mut SeedContext<'_, '_>) -> Result<Self, SeedError> {
        file::open(path, reading)
    }
}
