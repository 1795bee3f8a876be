//! Place and shape of a cell.

use crate::cell::{Rst, FACE_TOLERANCE};
use crate::nodes::{bounds_of, within, Corners, Miss, Nodes};
use crate::simd::V4;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// The name of a cell of some kind of domain.
pub trait DomainCell: Copy + Eq + Ord + Hash + Debug + Send + 'static {
    /// No cell of any dataset.
    const NOWHERE: Self;
    /// Number of its domain, 0-based.
    fn domain(self) -> u32;
    /// Four numbers that identify it in saved lines.
    fn numbers(self) -> [u32; 4];
    /// The cell with these [`Self::numbers`].
    fn of_numbers(numbers: [u32; 4]) -> Self;
}

/// A cell of a curvilinear zone.
#[derive(Copy, Clone, Debug, Eq, PartialOrd, Ord, Default)]
pub struct CellId {
    /// Zone number, 0-based.
    pub zone: u32,
    /// Low corner, 0-based.
    pub ijk: [u32; 3],
}

impl PartialEq for CellId {
    /// Compared number by number. Arrays are compared in memory, by loads that wait for narrower stores, which took a
    /// twelfth of a step in a uniform grid.
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        let [a, b] = [self, other].map(|c| (c.zone, c.ijk[0], c.ijk[1], c.ijk[2]));
        ((a.0 ^ b.0) | (a.1 ^ b.1) | (a.2 ^ b.2) | (a.3 ^ b.3)) == 0
    }
}

impl Hash for CellId {
    /// Number by number, as in comparisons.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.numbers().iter().for_each(|n| state.write_u32(*n));
    }
}

impl CellId {
    /// No cell of any dataset.
    pub const NOWHERE: Self = Self { zone: u32::MAX, ijk: [0; 3] };
}

impl DomainCell for CellId {
    const NOWHERE: Self = Self::NOWHERE;
    #[inline(always)]
    fn domain(self) -> u32 {
        self.zone
    }
    #[inline(always)]
    fn numbers(self) -> [u32; 4] {
        [self.zone, self.ijk[0], self.ijk[1], self.ijk[2]]
    }
    #[inline(always)]
    fn of_numbers([zone, i, j, k]: [u32; 4]) -> Self {
        Self { zone, ijk: [i, j, k] }
    }
}

/// A located point.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct CellPoint<C = CellId> {
    /// The cell.
    pub cell: C,
    /// Fractions within it.
    pub rst: Rst,
}

/// A face of a cell, by its number in the [reference cell](crate::reference_cell::ReferenceCell).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Face<C = CellId> {
    /// The cell.
    pub cell: C,
    /// Number of the face.
    pub number: u32,
}

impl CellPoint {
    /// Fractional index along i, j, k, 0-based.
    pub fn index(&self) -> [f64; 3] {
        core::array::from_fn(|a| f64::from(self.cell.ijk[a]) + self.rst[a])
    }
}

/// Largest distance of a point from a surface (a zone one point thick), in local cell sizes: single precision.
const SURFACE_TOLERANCE: f64 = 1e-6;

/// The meaning of iblank for a cell.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Blank {
    /// No corner is 0 or negative.
    Field,
    /// A corner is negative: interpolated from that zone (0-based).
    Fringe(u32),
    /// A corner is 0 or not finite, or the cell itself is blanked out: no flow.
    Hole,
}

/// Geometry of a cell.
#[derive(Copy, Clone, Debug)]
pub struct CellGeometry {
    /// Corners; a direction of one point is extruded along the normal.
    pub corners: [V4; 8],
    /// Directions with one point.
    pub thin: [bool; 3],
}

impl CellGeometry {
    /// Loads the corners.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn load<N: Nodes>(nodes: &mut N, cell: CellId) -> Result<Self, Miss> {
        let zone = &nodes.zones()[cell.zone as usize];
        let (xyz, thin) = (zone.xyz, zone.thin());
        let mut shape = Self { corners: [V4::zero(); 8], thin };
        shape.fill(&mut nodes.at(cell.zone as usize, cell.ijk), xyz)?;
        Ok(shape)
    }

    /// Loads the corners, from coordinates in array `xyz`; `thin` is set before. It fills in place: moving 300 bytes
    /// took an eighth of the time to load a cell.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn fill(&mut self, at: &mut impl Corners, xyz: usize) -> Result<(), Miss> {
        at.vector(xyz, &mut self.corners)?;
        self.close();
        Ok(())
    }

    /// Completes the cell after its corners are filled in.
    #[inline(always)]
    pub(crate) fn close(&mut self) {
        if self.thin != [false; 3] {
            self.extrude();
        }
    }

    /// Gives a surface cell a thickness of its own size, so that it has an inverse. Lines and points stay collapsed and
    /// contain nothing.
    #[cold]
    fn extrude(&mut self) {
        if self.thin.iter().filter(|t| **t).count() != 1 {
            return;
        }
        let a = self.thin.iter().position(|t| *t).unwrap_or(2);
        let (b, c) = (1usize << ((a + 1) % 3), 1usize << ((a + 2) % 3));
        let p = &self.corners;
        let u = (p[b] - p[0]) + (p[b | c] - p[c]);
        let v = (p[c] - p[0]) + (p[b | c] - p[b]);
        let n = u.cross(v);
        let area4 = n.length3();
        let normal = if area4 > 0.0 { n * V4::splat(0.5 / area4.sqrt()) } else { V4::zero() };
        for k in 0..8 {
            if k & (1 << a) != 0 {
                self.corners[k] = self.corners[k] + normal;
            }
        }
    }

    /// Whether every corner is finite.
    #[inline(always)]
    pub fn finite(&self) -> bool {
        self.corners.iter().all(|p| p.is_finite_xyz())
    }

    /// Whether fractions lie in the cell. Along a direction of one point: on the surface.
    #[inline(always)]
    pub fn holds(thin: [bool; 3], q: Rst) -> bool {
        if thin == [false; 3] {
            return crate::cell::inside(q);
        }
        (0..3).all(|a| {
            if thin[a] {
                q[a].abs() <= SURFACE_TOLERANCE
            } else {
                q[a] >= -FACE_TOLERANCE && q[a] <= 1.0 + FACE_TOLERANCE
            }
        })
    }

    /// Whether a point may be in the cell: in its box, with the tolerance of [`Self::holds`].
    #[inline(always)]
    pub(crate) fn may_hold(&self, p: V4) -> bool {
        within(bounds_of(&self.corners), p)
    }
}
