//! Vortex cores of a dataset at a step.
//!
//! # Theory
//! See [`kernels::cores`] for what a core is. Each block of 64^3 cells of a zone is a task ([`work`]): it gathers what it needs of a slab of
//! planes page by page into memory of its own ([`gather`]), finds the points on the faces of its cells, computes their strength, joins
//! them in cells, and samples fields where points are kept. Points of all blocks go to a bounded log, of which an entry a point stays in memory ([`store`]);
//! when all are there they are joined to lines, which are filtered and written ([`lines`]).
//!
//! Derived pages do all differentiation; those that no cell needs are not made: of holes, and, for lambda2, those of its gradient and its
//! Hessian where no node of a cell is below the least strength.
//!
//! Invariant: lines depend on data and options alone. Blocks are fixed, slabs are not, and nothing is known by its slab.

mod gather;
mod lines;
pub mod options;
mod plan;
mod run;
mod spec;
mod store;
#[cfg(test)]
mod tests;
mod work;

pub use kernels::cores::Method;
pub use lines::unit_of_strength;
pub use run::{layout, vortex_cores, CoreReport};
pub use spec::{provenance, CoreSpec};
