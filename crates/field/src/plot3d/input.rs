//! The files that a user names.

use std::path::PathBuf;

/// The files of a dataset.
#[derive(Copy, Clone, Debug)]
pub struct Plot3dInput<'a> {
    /// Grids: one, or one a step.
    pub grids: &'a [PathBuf],
    /// Solutions: none, one, or one a step.
    pub q: &'a [PathBuf],
    /// Function files: none, one, or one a step.
    pub function: &'a [PathBuf],
    /// Times of the steps, if the caller has them: rising, one a step, or none.
    pub times: &'a [f64],
    /// Why times in the files are not used; empty if they are.
    pub untimed: &'a str,
    /// Interval between steps, which replaces the files' times: the first step is at 0.
    pub dt: Option<f64>,
}
