//! What a mesh has, and the pieces in which it comes.

use crate::{FieldSpec, FieldType, FieldValues};

/// What a mesh has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshLayout {
    /// Fields at each point, in the order of [`MeshPiece::fields`].
    pub fields: Vec<FieldSpec>,
    /// How positions are stored. A `.glb` has single precision about the middle of the mesh, made of this.
    pub positions: FieldType,
    /// True when each point has a normal.
    pub normals: bool,
    /// True when each point has a colour.
    pub colours: bool,
    /// True when there may be line segments beside triangles.
    pub lines: bool,
}

impl Default for MeshLayout {
    fn default() -> Self {
        Self { fields: Vec::new(), positions: FieldType::F64, normals: false, colours: false, lines: false }
    }
}

/// Positions of a piece; they are converted to what the layout says.
#[derive(Clone, Copy, Debug)]
pub enum MeshPoints<'a> {
    /// In single precision.
    F32(&'a [[f32; 3]]),
    /// In double precision.
    F64(&'a [[f64; 3]]),
}

impl MeshPoints<'_> {
    /// How many there are.
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

/// A piece of a mesh: points, and triangles of these and of points that came before.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeshPiece<'a> {
    /// The zone of its points as the output shall show it.
    pub zone: i32,
    /// Its points. The first has the number that [`super::MeshWriter::points`] says before the piece is pushed.
    pub points: MeshPoints<'a>,
    /// A normal of length 1 for each, where the layout has them.
    pub normals: Option<&'a [[f32; 3]]>,
    /// Red, green, blue and opacity of each (sRGB, 8 bits), where the layout has them.
    pub colours: Option<&'a [[u8; 4]]>,
    /// The fields at them.
    pub fields: &'a [FieldValues<'a>],
    /// Corners of triangles, numbered over all pieces.
    pub triangles: &'a [[u64; 3]],
    /// Ends of line segments, numbered over all pieces, where the layout has them.
    pub lines: &'a [[u64; 2]],
}
