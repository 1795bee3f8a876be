//! The layout of a mesh, and its pieces.

use crate::{FieldSpec, FieldType, FieldValues};

/// The layout of a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshLayout {
    /// Fields at each point, in the order of [`MeshPiece::fields`].
    pub fields: Vec<FieldSpec>,
    /// The type of positions. A `.glb` has single precision relative to the middle of the mesh, computed from this.
    pub positions: FieldType,
    /// Whether each point has a normal.
    pub normals: bool,
    /// Whether each point has a colour.
    pub colours: bool,
    /// Whether there may be line segments beside triangles.
    pub lines: bool,
}

impl Default for MeshLayout {
    fn default() -> Self {
        Self { fields: Vec::new(), positions: FieldType::F64, normals: false, colours: false, lines: false }
    }
}

/// Positions of a piece, which are converted to the layout's type.
#[derive(Clone, Copy, Debug)]
pub enum MeshPoints<'a> {
    /// In single precision.
    F32(&'a [[f32; 3]]),
    /// In double precision.
    F64(&'a [[f64; 3]]),
}

impl MeshPoints<'_> {
    /// Number of positions.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(points) => points.len(),
            Self::F64(points) => points.len(),
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for MeshPoints<'_> {
    fn default() -> Self {
        Self::F64(&[])
    }
}

/// A piece of a mesh: points, and triangles over these and earlier points.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeshPiece<'a> {
    /// The zone of its points, in the numbering of the output.
    pub zone: i32,
    /// Its points. The number of the first is [`super::MeshWriter::points`] before the push.
    pub points: MeshPoints<'a>,
    /// A normal of length 1 for each point, if the layout has them.
    pub normals: Option<&'a [[f32; 3]]>,
    /// Red, green, blue and opacity of each (sRGB, 8 bits), if the layout has them.
    pub colours: Option<&'a [[u8; 4]]>,
    /// The fields at its points.
    pub fields: &'a [FieldValues<'a>],
    /// Corners of triangles, numbered over all pieces.
    pub triangles: &'a [[u64; 3]],
    /// Ends of line segments, numbered over all pieces, if the layout has them.
    pub lines: &'a [[u64; 2]],
}
