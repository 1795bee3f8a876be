//! Vortex cores of a dataset at a step.
//!
//! # Theory
//! [`kernels::cores`] defines cores. Each block of 64^3 cells of a zone is a task (`work`). It copies the values of a
//! slab of planes page by page into its own memory (`gather`). Then it finds the points on the faces of its cells,
//! computes their strength, joins them in cells, and samples fields at kept points. Points of all blocks are in a
//! bounded log, with an entry a point in memory (`store`). At the end they are joined to lines, which are filtered
//! and written (`lines`).
//!
//! Derived pages do all differentiation. Pages that no cell needs are not derived: those in holes. For lambda2, this
//! includes pages of its gradient and Hessian where no node of a cell is below the least strength.
//!
//! Invariant: lines depend on data and options alone. Blocks are fixed and slabs are not, so nothing is identified by
//! its slab.

mod gather;
mod job;
mod lines;
pub mod options;
mod plan;
mod run;
mod spec;
mod store;
#[cfg(test)]
mod tests;
mod work;

pub use job::{job, summary};
pub use kernels::cores::Method;
pub use lines::unit_of_strength;
pub use run::{layout, vortex_cores, CoreReport};
pub use spec::{provenance, CoreSpec};
