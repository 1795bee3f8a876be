//! Vortex cores: lines along which two vectors are parallel.
//!
//! # Theory
//! R. Peikert and M. Roth, The "parallel vectors" operator, IEEE Visualization 1999: a core line is where a vector is parallel to another.
//! [`Method`] says which two. Both are given at nodes and are linear over the two triangles of every cell face ([`pencil`]), so that
//! neighbours agree on where a core crosses the face between them ([`block`]). Within a cell such points are joined ([`cells`]), and segments are joined
//! to lines across cells, blocks and zones ([`chains`]).
//!
//! # Practice
//! Blocks of cells are tasks; what is known of a core at a point is interpolated between the three nodes of its triangle. Points that lie
//! on an edge are known by it, so that all cells around it take them for the same one.

pub mod block;
pub mod cells;
pub mod chains;
pub mod method;
pub mod pencil;

pub use method::Method;
