//! A mesh with all its pieces.

use super::piece::MeshLayout;
use crate::Provenance;

/// Counts of a written mesh.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeshStats {
    /// Points.
    pub points: u64,
    /// Triangles.
    pub triangles: u64,
    /// Line segments.
    pub lines: u64,
    /// Least and greatest coordinates of finite points; `None` if there are none.
    pub bounds: Option<[[f64; 3]; 2]>,
    /// Bytes of the file; 0 before it is complete.
    pub bytes: u64,
    /// Bytes in temporary files.
    pub spilled_bytes: u64,
}

/// A complete mesh, as the formats get it.
pub(super) struct CompleteMesh<'a> {
    pub(super) layout: &'a MeshLayout,
    /// The array names of the fields.
    pub(super) names: &'a [String],
    pub(super) provenance: &'a Provenance,
    pub(super) partial: bool,
    pub(super) stats: MeshStats,
    /// Numbers below this fit signed 32 bits.
    pub(super) int32: u64,
}
