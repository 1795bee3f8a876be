//! A piece of a surface.

use super::vertices::Vertices;

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
