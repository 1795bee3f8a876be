//! Why a line ended.

/// Why a line, or a half of one, ended. Results have its name, or its code.
///
/// Codes 8 and 9 mark lines that are missing or unfinished. Code 12 is for extracted lines. Tracers give none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// Its length reached the limit.
    Length = 0,
    /// Its steps reached the limit.
    Steps = 1,
    /// Its time reached the limit.
    Time = 2,
    /// The speed fell below the terminal speed.
    Speed = 3,
    /// It reached a face that is all wall or all at rest.
    Wall = 4,
    /// It left the last zone by any other boundary (or began outside).
    Left = 5,
    /// It reached cells that are blanked out (iblank 0).
    Hole = 6,
    /// A needed page is unreadable, or the step size fell below the precision of the numbers.
    Failed = 7,
    /// The seed is in no zone: there is no line.
    Outside = 8,
    /// The run ended before this line did.
    Unfinished = 9,
    /// Its points reached the limit: it is not as fine as requested.
    Points = 10,
    /// Its stop condition holds at its end.
    Stopped = 11,
    /// It returns to its beginning.
    Closed = 12,
}

impl Reason {
    /// Every reason, by code.
    pub const ALL: [Self; 13] = [
        Self::Length,
        Self::Steps,
        Self::Time,
        Self::Speed,
        Self::Wall,
        Self::Left,
        Self::Hole,
        Self::Failed,
        Self::Outside,
        Self::Unfinished,
        Self::Points,
        Self::Stopped,
        Self::Closed,
    ];

    /// Characters of the longest name (`unfinished`); the width of the string arrays.
    pub const WIDTH: usize = 10;

    /// The word in the outputs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Steps => "steps",
            Self::Time => "time",
            Self::Speed => "speed",
            Self::Wall => "wall",
            Self::Left => "left",
            Self::Hole => "hole",
            Self::Failed => "failed",
            Self::Outside => "outside",
            Self::Unfinished => "unfinished",
            Self::Points => "points",
            Self::Stopped => "stopped",
            Self::Closed => "closed",
        }
    }

    /// The code in `.vtp` files.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The reason of a code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Whether tracers end lines with it.
    pub fn is_of_tracers(self) -> bool {
        !matches!(self, Self::Outside | Self::Unfinished | Self::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_one_to_one() {
        for (code, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(usize::from(reason.code()), code);
            assert_eq!(Reason::from_code(code as u8), Some(*reason));
            assert!(reason.name().len() <= Reason::WIDTH);
        }
        assert_eq!(Reason::from_code(13), None);
    }
}
