//! A mesh whose pieces have all come.

use super::piece::MeshLayout;
use crate::Provenance;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeshStats {
    /// Points.
    pub points: u64,
    /// Triangles.
    pub triangles: u64,
    /// Line segments.
    pub lines: u64,
    /// The least and the greatest coordinates, of points that are numbers; none where there are none.
    pub bounds: Option<[[f64; 3]; 2]>,
    /// Bytes of the file; 0 before it is whole.
    pub bytes: u64,
    /// Bytes that waited in temporary files.
    pub spilled_bytes: u64,
}

/// What the formats are told of a mesh that is complete.
pub(super) struct CompleteMesh<'a> {
    pub(super) layout: &'a MeshLayout,
    /// The fields' names as arrays.
    pub(super) names: &'a [String],
    pub(super) provenance: &'a Provenance,
    pub(super) partial: bool,
    pub(super) stats: MeshStats,
    /// Numbers below this fit 32 bits with a sign.
    pub(super) int32: u64,
}
