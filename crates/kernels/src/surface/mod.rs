//! Isosurfaces and planes of structured grids, block by block.
//!
//! # Theory
//! A zone is divided into blocks of [`BLOCK_CELLS`]^3 cells, whatever its pages are. A block has these steps:
//!
//! 1. The *signs* of its nodes: one bit says whether a node is inside, that is, whether its value is at least the level
//!    ([`signs`]).
//! 2. Vertices and triangles, from bits alone ([`flying_edges`]).
//! 3. The nodes with *needed* values ([`node_values`]). Only these are read, in a second pass over the pages.
//! 4. The [`vertices`] at those values.
//! 5. The numbers of vertices on faces between blocks, as earlier blocks gave them ([`border`]).
//!
//! The result depends on the data alone, not on pages, limits, or the order of blocks.
//!
//! The surface is watertight by construction. The crossing of an edge depends on its two ends only, and the joins of
//! edges on a face on its four corners ([`cases`]). It ends at the ends of the zone and at unusable cells only.
//!
//! # Orientation
//! Normals and triangles face lower values (counter-clockwise from there), as those of VTK's contour filters.

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
pub use node_values::NodeSet;
pub use piece::SurfacePiece;
pub use signs::{each_bit, row_signs, strided_signs, without_cells, without_corners, Compared, Signs, Threshold};
pub use vertices::{Level, NodePositions, Normals, Plane, Points, VertexInputs, Vertices, LEAST};
