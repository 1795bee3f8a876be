//! A line for a spool, and the layout of all lines of a run.

use super::{FieldSpec, FieldValues, Moments, Reason};

/// One finished line. All slices are over its `n` points in order along the line, from the backward end to the forward
/// end.
#[derive(Clone, Copy, Debug)]
pub struct FinishedLine<'a> {
    /// The seed's index.
    pub seed: u64,
    /// Positions in physical space, `n` of them; none when the seed is outside.
    pub points: &'a [[f64; 3]],
    /// Time along the line at each point, 0 at the seed.
    pub time: &'a [f64],
    /// The zone of each point, in the numbering of the outputs.
    pub zone: &'a [i32],
    /// Sampled fields at each point, in the layout's order.
    pub fields: &'a [FieldValues<'a>],
    /// Why the line ended: the forward end, or the only end.
    pub reason: Reason,
    /// Why the backward end ended; used only if the layout says `both`.
    pub reason_backward: Reason,
}

/// The layout of all lines of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineLayout {
    /// Fields sampled at each point, in the order of [`FinishedLine::fields`].
    pub fields: Vec<FieldSpec>,
    /// Whether lines run both ways from their seed: then each end has its own reason.
    pub both: bool,
    /// The times of the lines.
    pub moments: Moments,
}
