//! A line as a spool takes it, and what every line of a run has.

use super::{FieldSpec, FieldValues, Moments, Reason};

/// One finished line. All slices are of its `n` points in order along the line, from the backward end to the forward end.
#[derive(Clone, Copy, Debug)]
pub struct FinishedLine<'a> {
    /// The seed's index.
    pub seed: u64,
    /// Positions in physical space, `n` of them; none when the seed is outside.
    pub points: &'a [[f64; 3]],
    /// Time along the line at each point, 0 at the seed.
    pub time: &'a [f64],
    /// The zone of each point, numbered as the outputs shall show it.
    pub zone: &'a [i32],
    /// Fields sampled at each point, as the layout lists them.
    pub fields: &'a [FieldValues<'a>],
    /// Why the line ended: the forward end, or the only end.
    pub reason: Reason,
    /// Why the backward end ended; counted only when the layout says `both`.
    pub reason_backward: Reason,
}

/// What every line of a run has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineLayout {
    /// Fields sampled at each point, in the order of [`FinishedLine::fields`].
    pub fields: Vec<FieldSpec>,
    /// True when lines run both ways from their seed: then each end has its own reason.
    pub both: bool,
    /// The times at which lines are wanted.
    pub moments: Moments,
}
