//! The place of a line in the spool.

use super::Reason;

/// The place of a line and the reasons of its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpooledLine {
    /// Its pieces in order: the begin of the arrays of each, and its number of points.
    pub(super) pieces: Vec<(u64, u64)>,
    pub(crate) points: u64,
    pub(crate) reason: Reason,
    pub(crate) reason_backward: Reason,
}

impl SpooledLine {
    /// Whether its arrays are adjacent.
    #[cfg(test)]
    pub(crate) fn is_whole(&self) -> bool {
        self.pieces.len() == 1
    }

    /// For a seed without a line.
    pub(super) const NONE: Self =
        Self { pieces: Vec::new(), points: 0, reason: Reason::Unfinished, reason_backward: Reason::Unfinished };
}
