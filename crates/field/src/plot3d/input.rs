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
    /// When the steps are, where whoever names the files knows it: rising, one a step, or none.
    pub times: &'a [f64],
    /// Why times that files give are not used, where whoever names them knows it; else empty.
    pub untimed: &'a str,
    /// How far apart the steps are, where the files' times are not to be used: the first is at 0.
    pub dt: Option<f64>,
}
