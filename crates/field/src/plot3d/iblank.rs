//! What iblank values mean: 0 hole, 1 field, 2 wall, `-n` interpolated from zone `n` (1-based, file order). Other values
//! count as field and are listed by `info`.

/// The point has no data; a cell with such a corner is not usable.
pub const HOLE: i32 = 0;
/// An ordinary point.
pub const FIELD: i32 = 1;
/// A point on a solid wall.
pub const WALL: i32 = 2;

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
        match value {
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
