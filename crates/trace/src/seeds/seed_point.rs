//! The place where one line begins.

use super::random::SeedStream;

/// The place where one line begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SeedPoint<'a> {
    /// A position in physical space.
    Physical([f64; 3]),
    /// A position in the computational space of a zone, 0-based: `[0.5, 0, 0]` is between the first two points along i.
    Computational {
        /// The zone as the user named it.
        zone: &'a str,
        /// The position.
        ijk: [f64; 3],
    },
    /// As `Computational`, with the zone's number, 0-based.
    Place {
        /// The zone.
        zone: u32,
        /// The position.
        ijk: [f64; 3],
    },
    /// A random position, drawn from this stream of numbers, which is this seed's own.
    Random(SeedStream),
}
