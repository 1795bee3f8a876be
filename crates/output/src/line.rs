//! A line as a spool takes it.

use super::{FieldValues, Reason};

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
