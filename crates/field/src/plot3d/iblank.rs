//! Meaning of iblank values: 0 hole, 1 field, 2 wall, `-n` interpolated from zone `n` (1-based, file order). Other
//! values count as field, and `info` lists them.
//!
//! Formats that blank out cells use values from [`OF_CELLS`] on: an ordinary point, with bits for blanked cells, edges
//! and faces that begin at it. So readers of a cell's corners also see whether the cell is blanked. A stencil along one
//! axis sees the same of its edges, from the points that it reads anyway.

/// The point has no data. A cell with this value at a corner is not usable.
pub const HOLE: i32 = 0;
/// An ordinary point.
pub const FIELD: i32 = 1;
/// A point on a solid wall.
pub const WALL: i32 = 2;

/// An ordinary point with one or more of the bits below.
pub const OF_CELLS: i32 = 1 << 30;
/// The cell with this low corner is blanked out.
pub const CELL: u32 = 1;
/// All cells around the edge from this point along i are blanked out. One bit and two bits further: along j and k.
pub const EDGE: u32 = 2;
/// All cells beside the face across i with this low corner are blanked out. One bit and two bits further: across j and
/// k.
pub const FACE: u32 = 16;
/// All of these bits.
const BITS: i32 = 0x7f;

/// The bits ([`CELL`], [`EDGE`], [`FACE`]) of an iblank value, as accessors give it.
///
/// ```
/// # use field::plot3d::iblank::{bits, CELL, EDGE, OF_CELLS};
/// assert_eq!(bits(f64::from(OF_CELLS) + 5.0), CELL | EDGE << 1);
/// assert_eq!(bits(1.0), 0);
/// ```
#[inline(always)]
pub fn bits(value: f64) -> u32 {
    let value = value as i32;
    if value & !BITS == OF_CELLS {
        (value & BITS) as u32
    } else {
        0
    }
}

/// Whether an iblank value blanks out the cell with this low corner.
#[inline(always)]
pub fn hides_cell(value: f64) -> bool {
    bits(value) & CELL != 0
}

/// The iblank value of the point alone, without bits.
#[inline(always)]
pub fn of_point(value: i32) -> i32 {
    if value & !BITS == OF_CELLS {
        FIELD
    } else {
        value
    }
}

/// The meaning of one iblank value.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Blank {
    /// No data here.
    Hole,
    /// An ordinary point.
    Field,
    /// A solid wall.
    Wall,
    /// Values come from this zone, 0-based.
    Interpolated(usize),
    /// A value that the format does not define. It counts as field.
    Unknown(i32),
}

impl Blank {
    /// The meaning of a value in a dataset of `zones` zones.
    ///
    /// ```
    /// # use field::plot3d::iblank::Blank;
    /// assert_eq!(Blank::of(-2, 3), Blank::Interpolated(1));
    /// assert_eq!(Blank::of(-4, 3), Blank::Unknown(-4));
    /// ```
    pub fn of(value: i32, zones: usize) -> Self {
        match of_point(value) {
            HOLE => Self::Hole,
            FIELD => Self::Field,
            WALL => Self::Wall,
            v if v < 0 => match usize::try_from(v.unsigned_abs()) {
                Ok(n) if n <= zones => Self::Interpolated(n - 1),
                _ => Self::Unknown(v),
            },
            v => Self::Unknown(v),
        }
    }
}
