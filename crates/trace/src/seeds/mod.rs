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
//! use output::Budget;
//! use trace::seeds::{Dimension, Reading, SeedPoint, Seeds};
//!
//! let mut watch = |_: &str, _: f64, _: f64| true;
//! let mut reading = Reading::new(Dimension::Three, Box::new(Budget::new(1 << 20)), &mut watch);
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
mod error;
mod file;
mod points;
mod random;
mod spec;
#[cfg(test)]
mod tests;

pub use cells::SeedCells;
pub use error::SeedError;
pub use file::{fuzz_csv, fuzz_npy, fuzz_vtp};
pub use points::PointList;
pub use random::SeedStream;
pub use spec::{fuzz_spec, FORMS};

use output::{HeldMemory, MemoryAccount};
use runtime::session::ProgressWatch;
use std::path::Path;
use std::sync::Arc;

/// How many coordinates the dataset has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Traced in the plane z = 0; seeds have two coordinates.
    Two,
    /// Seeds have three coordinates.
    Three,
}

/// Values along one axis of computational space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IjkRange {
    /// First index, 0-based, fractions allowed.
    pub first: f64,
    /// Last index, 0-based.
    pub last: f64,
    /// How many values, evenly spaced from `first` to `last`; one is `first`.
    pub count: u64,
}

/// What seeds are read with: for data of which dimension, on whose account, and under whose eyes.
pub struct SeedContext<'a, 'w> {
    dimension: Dimension,
    /// The memory of all that reading makes; lists of points take their share of it with them.
    held: HeldMemory,
    watch: &'a mut ProgressWatch<'w>,
}

impl<'a, 'w> SeedContext<'a, 'w> {
    /// Memory is charged to `charge`; `watch` is told how far a file is read, and ends it.
    pub fn new(dimension: Dimension, charge: Box<dyn MemoryAccount>, watch: &'a mut ProgressWatch<'w>) -> Self {
        Self { dimension, held: HeldMemory::new(charge), watch }
    }

    /// Tells how much of how much is read.
    fn told(&mut self, done: u64, total: u64) -> Result<(), SeedError> {
        if (self.watch)("reading seeds", done as f64, total as f64) {
            Ok(())
        } else {
            Err(SeedError::Cancelled)
        }
    }
}

/// Where lines begin. All coordinates are in physical space, except [`Seeds::Ijk`].
#[derive(Clone, Debug)]
pub enum Seeds {
    /// One point.
    Point([f64; 3]),
    /// `count` points from `from` to `to` (a rake); one is `from`.
    Line {
        /// First point.
        from: [f64; 3],
        /// Last point.
        to: [f64; 3],
        /// How many.
        count: u64,
    },
    /// `counts[0] * counts[1]` points over the parallelogram of a corner and the two next to it; the first side varies fastest.
    Plane {
        /// The corner.
        origin: [f64; 3],
        /// The end of the first side.
        first: [f64; 3],
        /// The end of the second side.
        second: [f64; 3],
        /// Points along each side.
        counts: [u64; 2],
    },
    /// Points over a box along the axes, x fastest.
    Box {
        /// Lowest corner.
        low: [f64; 3],
        /// Highest corner.
        high: [f64; 3],
        /// Points along each axis.
        counts: [u64; 3],
    },
    /// `count` points spread evenly over a sphere by the Fibonacci lattice (Swinbank and Purser, 2006).
    Sphere {
        /// Centre.
        centre: [f64; 3],
        /// Radius.
        radius: f64,
        /// How many.
        count: u64,
    },
    /// `count` points evenly around a circle in the plane, from angle 0 on (the sphere of 2-D data).
    Circle {
        /// Centre.
        centre: [f64; 3],
        /// Radius.
        radius: f64,
        /// How many.
        count: u64,
    },
    /// `count` points that fill a box along the axes evenly, however many are taken: Halton's sequence of the bases 2, 3 and 5 (1960).
    Scatter {
        /// Lowest corner.
        low: [f64; 3],
        /// Highest corner.
        high: [f64; 3],
        /// How many.
        count: u64,
    },
    /// `count` random points of the domain, more of them where the flow changes: they are to be found before there are any
    /// ([`Seeds::Found`]).
    Interest {
        /// How many.
        count: u64,
        /// The seed of the generator.
        seed: u64,
    },
    /// `count` random points in the domain of the dataset, even over its cells.
    Random {
        /// How many.
        count: u64,
        /// The seed of the generator.
        seed: u64,
    },
    /// `count` random points of the domain at which a condition of fields holds, or as many as there are: they are to be found before
    /// there are any ([`Seeds::Found`]).
    Where {
        /// How many.
        count: u64,
        /// The seed of the generator.
        seed: u64,
        /// The condition.
        condition: String,
    },
    /// Those points.
    Found(Arc<SeedCells>),
    /// Points in the computational space of one zone, i fastest.
    Ijk {
        /// The zone's name, or its number counted from 1, as the user wrote it.
        zone: String,
        /// Values along i, j, k.
        axes: [IjkRange; 3],
    },
    /// Points from a file or an array.
    List(Arc<PointList>),
}

/// Where one line begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SeedPoint<'a> {
    /// A position in physical space.
    Physical([f64; 3]),
    /// A position in the computational space of a zone, 0-based: `[0.5, 0, 0]` lies between the first two points along i.
    Computational {
        /// The zone as the user named it.
        zone: &'a str,
        /// The position.
        ijk: [f64; 3],
    },
    /// A position in the computational space of the zone of a number, 0-based both.
    Place {
        /// The zone.
        zone: u32,
        /// The position.
        ijk: [f64; 3],
    },
    /// To be drawn in the dataset's domain from this stream of numbers, which is this seed's own.
    Random(SeedStream),
}

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

    /// How many seeds there are.
    pub fn len(&self) -> u64 {
        match self {
            Self::Point(_) => 1,
            Self::Line { count, .. }
            | Self::Sphere { count, .. }
            | Self::Circle { count, .. }
            | Self::Scatter { count, .. }
            | Self::Interest { count, .. }
            | Self::Random { count, .. }
            | Self::Where { count, .. } => *count,
            Self::Found(found) => found.len(),
            // Products are checked where seeds are made from text; made by hand they saturate instead of wrapping.
            Self::Plane { counts, .. } => counts.iter().fold(1, |n: u64, c| n.saturating_mul(*c)),
            Self::Box { counts, .. } => counts.iter().fold(1, |n: u64, c| n.saturating_mul(*c)),
            Self::Ijk { axes, .. } => axes.iter().fold(1, |n: u64, axis| n.saturating_mul(axis.count)),
            Self::List(points) => points.len(),
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where seed number `index` lies.
    ///
    /// # Errors
    /// [`SeedError::Index`] for a number that is not below [`Seeds::len`], [`SeedError::Spill`] when points that were put on disk cannot be
    /// read back.
    pub fn get(&self, index: u64) -> Result<SeedPoint<'_>, SeedError> {
        if index >= self.len() {
            return Err(SeedError::Index { index, len: self.len() });
        }
        let physical = match self {
            Self::Point(point) => *point,
            Self::Line { from, to, count } => {
                let t = fraction(index, *count);
                std::array::from_fn(|axis| mix(from[axis], to[axis], t))
            }
            Self::Plane { origin, first, second, counts } => {
                let u = fraction(index % counts[0], counts[0]);
                let v = fraction(index / counts[0], counts[1]);
                std::array::from_fn(|axis| {
                    origin[axis] + (first[axis] - origin[axis]) * u + (second[axis] - origin[axis]) * v
                })
            }
            Self::Box { low, high, counts } => {
                let at = split(index, *counts);
                std::array::from_fn(|axis| mix(low[axis], high[axis], fraction(at[axis], counts[axis])))
            }
            Self::Sphere { centre, radius, count } => {
                // Heights at the middles of `count` equal bands, so equal areas; angles by the golden ratio, from the
                // fraction of a turn so that large indices lose nothing.
                let z = 1.0 - (2.0 * index as f64 + 1.0) / *count as f64;
                let turn = (index as f64 * GOLDEN_TURN).fract();
                let (sine, cosine) = (std::f64::consts::TAU * turn).sin_cos();
                let ring = (1.0 - z * z).max(0.0).sqrt();
                [centre[0] + radius * ring * cosine, centre[1] + radius * ring * sine, centre[2] + radius * z]
            }
            Self::Circle { centre, radius, count } => {
                let (sine, cosine) = (std::f64::consts::TAU * (index as f64 / *count as f64)).sin_cos();
                [centre[0] + radius * cosine, centre[1] + radius * sine, centre[2]]
            }
            Self::Scatter { low, high, .. } => {
                std::array::from_fn(|axis| low[axis] + (high[axis] - low[axis]) * halton(index + 1, [2, 3, 5][axis]))
            }
            Self::Random { seed, .. } => return Ok(SeedPoint::Random(SeedStream::new(*seed, index))),
            Self::Ijk { zone, axes } => {
                let at = split(index, std::array::from_fn(|axis| axes[axis].count));
                let ijk = std::array::from_fn(|axis| {
                    mix(axes[axis].first, axes[axis].last, fraction(at[axis], axes[axis].count))
                });
                return Ok(SeedPoint::Computational { zone, ijk });
            }
            Self::Found(found) => return found.get(index).ok_or(SeedError::Index { index, len: self.len() }),
            // Whoever traces them looks for them first.
            Self::Where { .. } | Self::Interest { .. } => return Err(SeedError::Index { index, len: 0 }),
            Self::List(points) => points.get(index)?,
        };
        Ok(SeedPoint::Physical(physical))
    }

    /// The zone that seeds in computational space lie in, as the user named it; none for all others.
    pub fn zone(&self) -> Option<&str> {
        match self {
            Self::Ijk { zone, .. } => Some(zone),
            _ => None,
        }
    }
}

/// The golden ratio less one: the fraction of a turn between neighbours of a Fibonacci lattice.
const GOLDEN_TURN: f64 = 0.618_033_988_749_894_9;

/// Where value `index` of `count` lies between first and last.
fn fraction(index: u64, count: u64) -> f64 {
    match count {
        0 | 1 => 0.0,
        _ => index as f64 / (count - 1) as f64,
    }
}

/// Between two values, exact at both ends.
fn mix(from: f64, to: f64, t: f64) -> f64 {
    if t == 1.0 {
        to
    } else {
        from + (to - from) * t
    }
}

/// Number `n` of Halton's sequence: its digits to a base, mirrored at the point.
fn halton(mut n: u64, base: u64) -> f64 {
    let (mut value, mut part) = (0.0, 1.0);
    while n > 0 {
        part /= base as f64;
        value += part * (n % base) as f64;
        n /= base;
    }
    value
}

/// An index as three, the first fastest.
fn split(index: u64, counts: [u64; 3]) -> [u64; 3] {
    [index % counts[0], index / counts[0] % counts[1], index / counts[0] / counts[1]]
}
