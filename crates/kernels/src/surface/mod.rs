//! Isosurfaces and planes of structured grids, block by block.
//!
//! # Theory
//! A zone is cut in blocks of [`BLOCK_CELLS`]^3 cells, whatever its pages are. Of each block first the *signs* are taken: one bit a node
//! says whether it is inside, that is, whether its value is not below the one that is looked for ([`signs`]). From bits alone follow
//! vertices and triangles ([`march`], Flying Edges), and from those which nodes' values are *needed* ([`needed`]): only these are taken,
//! in a second look at the pages, and [`vertices`] are made of them. At last vertices on faces between blocks get the numbers that
//! earlier blocks gave them ([`border`]). What comes out depends on the data alone, not on pages, limits, or the order in which blocks are
//! made.
//!
//! The surface is watertight by construction: whether an edge is crossed, and where, depends on its two ends, and how edges are joined on
//! a face on its four corners ([`cases`]). It ends where the zone ends, at cells that are not usable, and nowhere else.
//!
//! # Orientation
//! Normals point to lower values, and so do triangles (counter-clockwise seen from there), as those of VTK's contour filters.

pub mod border;
pub mod cases;
pub mod flying_edges;
pub mod node_values;
pub mod signs;
#[cfg(test)]
mod tests;
pub mod vertices;

pub use border::Borders;
pub use cases::{Case, Cases};
pub use flying_edges::{BlockMesh, Edge, MarchBlock, Marcher, Origin, NODE};
pub use node_values::{each_bit, Needed};
pub use signs::{row_signs, strided_signs, without_cells, without_corners, Compared, Signs, Threshold, BLOCK_CELLS};
pub use vertices::{Level, NodePositions, Normals, Plane, Points, VertexInputs, Vertices, LEAST};

/// A piece of a surface: what one block adds to one value's surface.
#[derive(Clone, Debug, PartialEq)]
pub struct SurfacePiece {
    /// Zone, counted from 0.
    pub zone: usize,
    /// Which of the values, counted from 0.
    pub value: usize,
    /// Number of its first point: points are numbered through all pieces.
    pub first: u64,
    /// The points, with normals and fields.
    pub vertices: Vertices,
    /// Three points each, by their numbers: those of this piece and of earlier ones of the same zone.
    pub triangles: Vec<[u64; 3]>,
}

/// How many blocks a zone of so many nodes is cut in along each axis.
pub fn blocks(dims: [u32; 3]) -> [u32; 3] {
    dims.map(|n| (n.max(2) - 1).div_ceil(BLOCK_CELLS))
}

/// First node of a block, and its nodes along each axis: one more than its cells.
pub fn block_nodes(dims: [u32; 3], block: [u32; 3]) -> ([u32; 3], [u32; 3]) {
    let first = block.map(|b| b * BLOCK_CELLS);
    (first, core::array::from_fn(|a| (BLOCK_CELLS + 1).min(dims[a] - first[a])))
}
