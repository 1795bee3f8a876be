//! What iblank values mean: 0 hole, 1 field, 2 wall, `-n` interpolated from zone `n` (1-based, file order). Other values
//! count as field and are listed by `info`.
//!
//! Formats that blank out cells become values from [`OF_CELLS`] on: an ordinary point, with a bit for each thing that begins at it and
//! is blanked out although its points are not. So whoever reads a cell's corners knows of the cell, and a stencil along one axis knows
//! of the edges that it goes along, out of the points that they read anyway.

/// The point has no data; a cell with such a corner is not usable.
pub const HOLE: i32 = 0;
/// An ordinary point.
pub const FIELD: i32 = 1;
/// A point on a solid wall.
pub const WALL: i32 = 2;

/// An ordinary point of which one or more of the bits below say more.
pub const OF_CELLS: i32 = 1 << 30;
/// The cell whose low corner the point is is blanked out.
pub const CELL: u32 = 1;
/// Nothing but cells that are blanked out lies around the edge from the point on along i; along j and k one bit and two further.
pub const EDGE: u32 = 2;
/// Nothing but cells that are blanked out lies beside the face across i whose low corner the point is; across j and k likewise.
pub const FACE: u32 = 16;
/// All of these bits.
const BITS: i32 = 0x7f;

/// What a value of iblank, as accessors give it, says beside its point: bits of [`CELL`], [`EDGE`] and [`FACE`].
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

/// Whether a value of iblank blanks out the cell whose low corner its point is.
#[inline(always)]
pub fn hides_cell(value: f64) -> bool {
    bits(value) & CELL != 0
}

/// What a value says of its point alone.
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
    /// Values come from that zone, 0-based.
    Interpolated(usize),
    /// A value that the format does not define; counts as field.
    Unknown(i32),
}

impl Blank {
    /// Reads a value in a dataset of `zones` zones.
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
