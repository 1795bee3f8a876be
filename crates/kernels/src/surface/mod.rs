//! Isosurfaces and planes of structured grids, block by block.
//!
//! # Theory
//! A zone is cut in blocks of [`BLOCK_CELLS`]^3 cells, whatever its pages are. Of each block first the *signs* are taken: one bit a node
//! says whether it is inside, that is, whether its value is not below the one that is looked for ([`signs`]). From bits alone follow
//! vertices and triangles ([`flying_edges`]), and from those which nodes' values are *needed* ([`node_values`]): only these are taken,
//! in a second look at the pages, and [`vertices`] are made of them. At last vertices on faces between blocks get the numbers that
//! earlier blocks gave them ([`border`]). What comes out depends on the data alone, not on pages, limits, or the order in which blocks are
//! made.
//!
//! The surface is watertight by construction: whether an edge is crossed, and where, depends on its two ends, and how edges are joined on
//! a face on its four corners ([`cases`]). It ends where the zone ends, at cells that are not usable, and nowhere else.
//!
//! # Orientation
//! Normals point to lower values, and so do triangles (counter-clockwise seen from there), as those of VTK's contour filters.

pub mod blocks;
pub mod border;
pub mod cases;
pub mod edge;
pub mod flying_edges;
pub mod node_values;
pub mod piece;
pub mod signs;
#[cfg(test)]
mod tests;
pub mod vertices;

pub use blocks::{block_nodes, blocks, BLOCK_CELLS};
pub use border::Borders;
pub use cases::{Case, Cases};
pub use edge::{Edge, NODE};
pub use flying_edges::{BlockMesh, MarchBlock, Marcher, Origin};
pub use node_values::Needed;
pub use piece::SurfacePiece;
pub use signs::{each_bit, row_signs, strided_signs, without_cells, without_corners, Compared, Signs, Threshold};
pub use vertices::{Level, NodePositions, Normals, Plane, Points, VertexInputs, Vertices, LEAST};
