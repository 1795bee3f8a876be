//! Where a line lies in the spool.

use super::Reason;

/// Where a line lies and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpooledLine {
    /// Its pieces in order: where the arrays of each begin, and how many points they have.
    pub(super) pieces: Vec<(u64, u64)>,
    pub(crate) points: u64,
    pub(crate) reason: Reason,
    pub(crate) reason_backward: Reason,
}

impl SpooledLine {
    /// Its arrays lie behind each other.
    #[cfg(test)]
    pub(crate) fn is_whole(&self) -> bool {
        self.pieces.len() == 1
    }

    /// Of a seed whose line never came.
    pub(super) const NONE: Self =
        Self { pieces: Vec::new(), points: 0, reason: Reason::Unfinished, reason_backward: Reason::Unfinished };
}
