//! Shapes of seeds, and the position of seed number `n` of each.

use super::cells::SeedCells;
use super::error::SeedError;
use super::points::PointList;
use super::random::SeedStream;
use super::seed_point::SeedPoint;
use std::sync::Arc;

/// Values along one axis of computational space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IjkRange {
    /// First index, 0-based, fractions allowed.
    pub first: f64,
    /// Last index, 0-based.
    pub last: f64,
    /// Number of values, evenly spaced from `first` to `last`; a single one is `first`.
    pub count: u64,
}

/// Where lines begin. All coordinates are in physical space, except [`Seeds::Ijk`].
#[derive(Clone, Debug)]
pub enum Seeds {
    /// One point.
    Point([f64; 3]),
    /// `count` points from `from` to `to` (a rake); a single one is `from`.
    Line {
        /// First point.
        from: [f64; 3],
        /// Last point.
        to: [f64; 3],
        /// Number of points.
        count: u64,
    },
    /// `counts[0] * counts[1]` points over the parallelogram of a corner and its two neighbours; the first side varies
    /// fastest.
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
        /// Number of points.
        count: u64,
    },
    /// `count` points evenly around a circle in the plane, from angle 0 (the sphere of 2-D data).
    Circle {
        /// Centre.
        centre: [f64; 3],
        /// Radius.
        radius: f64,
        /// Number of points.
        count: u64,
    },
    /// `count` points in a box along the axes. Any first part of them fills it evenly: Halton's sequence of the bases
    /// 2, 3 and 5 (1960).
    Scatter {
        /// Lowest corner.
        low: [f64; 3],
        /// Highest corner.
        high: [f64; 3],
        /// Number of points.
        count: u64,
    },
    /// `count` random points of the domain, more of them where the flow changes. A search replaces them by
    /// [`Seeds::Found`].
    Interest {
        /// Number of points.
        count: u64,
        /// The seed of the generator.
        seed: u64,
    },
    /// `count` random points in the dataset's domain, even over its cells.
    Random {
        /// Number of points.
        count: u64,
        /// The seed of the generator.
        seed: u64,
    },
    /// `count` random points of the domain where a condition of fields holds, or as many as there are. A search
    /// replaces them by [`Seeds::Found`].
    Where {
        /// Number of points.
        count: u64,
        /// The seed of the generator.
        seed: u64,
        /// The condition.
        condition: String,
    },
    /// The points that a search has found.
    Found(Arc<SeedCells>),
    /// Points in the computational space of one zone, i fastest.
    Ijk {
        /// The zone's name, or its number counted from 1, as in the user's text.
        zone: String,
        /// Values along i, j, k.
        axes: [IjkRange; 3],
    },
    /// Points from a file or an array.
    List(Arc<PointList>),
}

impl Seeds {
    /// Number of seeds.
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
            // Parsing checks products; those of seeds made by hand saturate instead of wrapping.
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

    /// Position of seed number `index`.
    ///
    /// # Errors
    /// [`SeedError::Index`] for a number that is not below [`Seeds::len`]; [`SeedError::Spill`] for points on disk that
    /// cannot be read back.
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
                // Heights at the middles of `count` equal bands, so of equal areas. Angles by the golden ratio, from
                // the fraction of a turn, so that large indices lose no digits.
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
            // A search comes before tracing.
            Self::Where { .. } | Self::Interest { .. } => return Err(SeedError::Index { index, len: 0 }),
            Self::List(points) => points.get(index)?,
        };
        Ok(SeedPoint::Physical(physical))
    }

    /// The zone of seeds in computational space, as the user named it; `None` for all others.
    pub fn zone(&self) -> Option<&str> {
        match self {
            Self::Ijk { zone, .. } => Some(zone),
            _ => None,
        }
    }
}

/// The golden ratio less one: the fraction of a turn between neighbours of a Fibonacci lattice.
const GOLDEN_TURN: f64 = 0.618_033_988_749_894_9;

/// The fraction of value `index` of `count` between first and last.
fn fraction(index: u64, count: u64) -> f64 {
    match count {
        0 | 1 => 0.0,
        _ => index as f64 / (count - 1) as f64,
    }
}

/// Interpolates between two values, exact at both ends.
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
