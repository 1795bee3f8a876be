//! Reference cells: the fractions in a cell, and its faces by number.
//!
//! The map of every cell is trilinear in three fractions, and kinds of cells differ in the range of fractions. A face
//! is where a linear form of them, its height, has one value.

use crate::cell::{Rst, FACE_TOLERANCE};
use crate::shape::CellGeometry;
use crate::simd::V4;

/// Least distance to the next face, in cells. A particle on a face that moves along it, or back through it by a hair,
/// still tries a step.
pub const LEAST_GAP: f64 = 1e-3;

/// The shape of cells, as integration steps need it. Nothing here reads a page.
pub trait ReferenceCell {
    /// Number of faces.
    const FACES: u32;
    /// Whether it is the unit cube, within which four particles may step at a time.
    const IS_CUBE: bool;
    /// Whether fractions lie in the cell, faces included. Along a direction of one point: on the surface.
    fn holds(thin: [bool; 3], q: Rst) -> bool;
    /// Fractions moved onto the cell, which they may leave by rounding.
    fn onto(q: Rst, thin: [bool; 3]) -> Rst;
    /// Fractions moved onto a face to the last bit.
    fn onto_face(q: Rst, face: u32) -> Rst;
    /// Height of fractions, or of a rate of fractions, over the base of a face.
    fn height(face: u32, q: Rst) -> f64;
    /// Height of the face itself.
    fn level(face: u32) -> f64;
    /// Whether the cell lies below the face, and not above it.
    fn is_upper(face: u32) -> bool;
    /// Whether a zone has one point across the face.
    fn is_thin(face: u32, thin: [bool; 3]) -> bool;
    /// Time to the nearest face ahead at a rate, at least [`LEAST_GAP`] away.
    fn time_to_face(q: Rst, rate: V4) -> f64;
    /// Fractions at a distance `far` beyond a face along a rate, as far as it allows; `q` lies on the face.
    fn past(face: u32, q: Rst, rate: [f64; 3], far: f64) -> Rst;

    /// Whether fractions lie beyond a face, with the tolerance of [`Self::holds`]: rounding does not make a path along
    /// a face cross it.
    #[inline(always)]
    fn is_beyond(face: u32, q: Rst) -> bool {
        let (height, level) = (Self::height(face, q), Self::level(face));
        if Self::is_upper(face) {
            height > level + FACE_TOLERANCE
        } else {
            height < level - FACE_TOLERANCE
        }
    }

    /// Whether fractions are within `slack` of a face, or beyond it.
    #[inline(always)]
    fn touches(face: u32, q: Rst, slack: f64) -> bool {
        let (height, level) = (Self::height(face, q), Self::level(face));
        if Self::is_upper(face) {
            height >= level - slack
        } else {
            height <= level + slack
        }
    }
}

/// The unit cube, for the cells of curvilinear zones. Face `2 a + 0` is at fraction `a` = 0, face `2 a + 1` at 1.
#[derive(Copy, Clone, Debug)]
pub struct Hexahedron;

impl Hexahedron {
    /// Number of the face across an axis, on side 0 or 1.
    #[inline(always)]
    pub fn face(axis: usize, side: u32) -> u32 {
        2 * axis as u32 + side
    }
    /// The axis across a face.
    #[inline(always)]
    pub fn axis(face: u32) -> usize {
        (face >> 1) as usize
    }
    /// The side of a face on its axis.
    #[inline(always)]
    pub fn side(face: u32) -> u32 {
        face & 1
    }
    /// Whether a corner, numbered as in [`crate::nodes::Nodes::vector`], lies on a face.
    #[inline(always)]
    pub fn has_corner(face: u32, corner: usize) -> bool {
        (corner >> Self::axis(face)) & 1 == Self::side(face) as usize
    }
}

impl ReferenceCell for Hexahedron {
    const FACES: u32 = 6;
    const IS_CUBE: bool = true;

    #[inline(always)]
    fn holds(thin: [bool; 3], q: Rst) -> bool {
        CellGeometry::holds(thin, q)
    }
    #[inline(always)]
    fn onto(q: Rst, thin: [bool; 3]) -> Rst {
        core::array::from_fn(|a| if thin[a] { q[a] } else { q[a].clamp(0.0, 1.0) })
    }
    #[inline(always)]
    fn onto_face(mut q: Rst, face: u32) -> Rst {
        q[Self::axis(face)] = Self::level(face);
        q
    }
    #[inline(always)]
    fn height(face: u32, q: Rst) -> f64 {
        q[Self::axis(face)]
    }
    #[inline(always)]
    fn level(face: u32) -> f64 {
        f64::from(Self::side(face))
    }
    #[inline(always)]
    fn is_upper(face: u32) -> bool {
        Self::side(face) == 1
    }
    #[inline(always)]
    fn is_thin(face: u32, thin: [bool; 3]) -> bool {
        thin[Self::axis(face)]
    }
    #[inline(always)]
    fn time_to_face(q: Rst, rate: V4) -> f64 {
        let way = rate.xyz();
        let gap = |a: usize| {
            let gap = if way[a] > 0.0 { 1.0 - q[a] } else { q[a] };
            gap.max(LEAST_GAP)
        };
        let t = (V4::new(gap(0), gap(1), gap(2), 1.0) / rate.abs()).xyz();
        t.iter().fold(f64::INFINITY, |exit, t| if *t < exit { *t } else { exit })
    }
    #[inline(always)]
    fn past(face: u32, q: Rst, rate: [f64; 3], far: f64) -> Rst {
        let axis = Self::axis(face);
        let out = if Self::is_upper(face) { far } else { -far };
        let along = out / rate[axis];
        core::array::from_fn(|a| match rate[a] * along {
            _ if a == axis => q[a] + out,
            // It came to the face and moves along it now: the way is 0 times infinity.
            way if way.is_nan() => q[a],
            way => q[a] + way.clamp(-far, far),
        })
    }
}
