//! Why a line ended.

/// Why a line ended, as the outputs name it. Codes 0 to 7, 10 and 11 are those of the tracer; 8 and 9 are no end of a line but the want of
/// one; 12 is of lines that are extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The length asked for is reached.
    Length = 0,
    /// The number of steps asked for is reached.
    Steps = 1,
    /// The time asked for is reached.
    Time = 2,
    /// The speed is below the terminal speed.
    Speed = 3,
    /// A wall.
    Wall = 4,
    /// It left the grid by any other boundary.
    Left = 5,
    /// It met a hole (iblank 0).
    Hole = 6,
    /// A page could not be read, or the step size fell below what the numbers carry.
    Failed = 7,
    /// The seed lies in no zone: there is no line.
    Outside = 8,
    /// The run ended before this line did.
    Unfinished = 9,
    /// The number of points asked for is reached: the line is not as fine as was asked.
    Points = 10,
    /// The condition that it was to stop at holds where it is.
    Stopped = 11,
    /// It comes back to where it began.
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
    pub fn name(self) -> &'static str {
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

    /// The code, as `.vtp` files hold it.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The reason of a code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
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
