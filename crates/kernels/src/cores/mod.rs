//! Vortex cores: lines along which two vectors are parallel.
//!
//! # Theory
//! R. Peikert and M. Roth, The "parallel vectors" operator, IEEE Visualization 1999: a core line is the set of points
//! where two vectors are parallel. [`Method`] defines the two. Both are given at nodes and are linear over the two
//! triangles of every cell face ([`pencil`]). So neighbours agree on the crossing of a core and their common face
//! ([`block`]). Within a cell such points are joined ([`cells`]), and segments are joined to lines across cells, blocks
//! and zones ([`chains`]).
//!
//! # Practice
//! Blocks of cells are tasks. Values of a core at a point are interpolated between the three nodes of its triangle.
//! Points on an edge are named by the edge, so that all adjacent cells identify them.

pub mod block;
pub mod cells;
pub mod chains;
pub mod method;
pub mod pencil;

pub use method::Method;
