//! A piece of a surface.

use super::vertices::Vertices;

/// A piece of a surface: the part of one block in one value's surface.
#[derive(Clone, Debug, PartialEq)]
pub struct SurfacePiece {
    /// Zone, counted from 0.
    pub zone: usize,
    /// Index of the value, from 0.
    pub value: usize,
    /// Number of its first point: points are numbered through all pieces.
    pub first: u64,
    /// The points, with normals and fields.
    pub vertices: Vertices,
    /// Three points each, by their numbers, from this piece or earlier ones of the same zone.
    pub triangles: Vec<[u64; 3]>,
}
