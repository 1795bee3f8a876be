//! Selections of a spool's lines, and sums over them.

use super::spooled_line::SpooledLine;

/// Sums over the stored lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Stored lines, with points or without.
    pub(crate) lines: u64,
    pub(crate) points: u64,
    /// Lines with at least one point.
    pub(crate) drawn: u64,
    /// Characters of the reasons of the drawn lines, with one terminator each.
    pub(crate) reason_bytes: u64,
    pub(crate) reason_backward_bytes: u64,
}

/// Some of the lines: every `every`th from the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineStride {
    pub(crate) first: u64,
    pub(crate) every: u64,
}

impl LineStride {
    /// All of them.
    pub(crate) const ALL: Self = Self { first: 0, every: 1 };

    /// Their numbers, of `all` lines.
    pub(crate) fn of(self, all: u64) -> impl Iterator<Item = u64> {
        let every = self.every.max(1);
        let count = all.saturating_sub(self.first).div_ceil(every);
        (0..count).map(move |n| self.first + n * every)
    }
}

impl Totals {
    pub(crate) fn add(&mut self, entry: &SpooledLine) {
        self.lines += 1;
        self.points += entry.points;
        if entry.points > 0 {
            self.drawn += 1;
            self.reason_bytes += entry.reason.name().len() as u64 + 1;
            self.reason_backward_bytes += entry.reason_backward.name().len() as u64 + 1;
        }
    }
}
