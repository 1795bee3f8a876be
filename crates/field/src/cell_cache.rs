//! Loaded cells of a worker, ready for a step.

use crate::cell::{monomials, CellMap, Interpolant};
use crate::lattice::Lattice;
use crate::nodes::{Corners, Miss, Nodes, Zone};
use crate::plot3d::iblank::hides_cell;
use crate::shape::{Blank, CellGeometry, CellId, DomainCell};
use crate::simd::V4;
use crate::time_interpolated::between;

/// A cell with all data of a step in it; all are trilinear in the fractions.
#[derive(Clone)]
pub struct Loaded<C = CellId> {
    /// The cell.
    pub cell: C,
    /// Directions with only one point.
    pub thin: [bool; 3],
    /// From iblank; a hole if the geometry is not finite.
    pub blank: Blank,
    /// From iblank alone, with its cell: it may be loaded first.
    iblank: (C, Blank),
    /// The moment of the geometry, if the cell moves.
    pub(crate) weight: f64,
    /// Monomials of the map from (r, s, t) to physical space.
    pub shape: [V4; 8],
    /// The traced vector; meaningless until `full`.
    pub vector: Interpolant,
    /// Whether vector and sampled fields are loaded.
    pub(crate) full: bool,
    /// Corner values of the sampled fields, a row per component.
    pub sampled: Vec<[f64; 8]>,
}

impl<C: DomainCell> Loaded<C> {
    /// No cell.
    pub fn empty() -> Self {
        let zero = [V4::zero(); 8];
        let vector = Interpolant::new(&zero);
        Self {
            cell: C::NOWHERE,
            thin: [false; 3],
            blank: Blank::Hole,
            iblank: (C::NOWHERE, Blank::Hole),
            weight: 0.0,
            shape: zero,
            vector,
            full: false,
            sampled: Vec::new(),
        }
    }

    pub(crate) fn forget(&mut self) {
        (self.cell, self.iblank.0) = (C::NOWHERE, C::NOWHERE);
    }

    /// Loads a usable cell from positions and vectors at the corners of the unit cube of its fractions; `sampled` is
    /// loaded already. A cell with a linear map passes the corners of the parallelepiped that its edges span.
    pub fn take(&mut self, cell: C, corners: &[V4; 8], vector: &[V4; 8]) {
        (self.cell, self.blank, self.thin, self.full) = (cell, Blank::Field, [false; 3], true);
        self.shape = monomials(corners);
        self.vector = Interpolant::new(vector);
    }

    /// The map from (r, s, t) to physical space.
    #[inline(always)]
    pub fn map(&self) -> CellMap {
        CellMap::from_monomials(&self.shape)
    }
}

impl Loaded {
    /// Loads the geometry of a cell of a uniform grid.
    #[inline(always)]
    pub(crate) fn take_even(
        &mut self,
        cell: CellId,
        at: &mut impl Corners,
        lattice: &Lattice,
        blank: (Option<usize>, usize),
    ) -> Result<(), Miss> {
        self.blank = self.take_iblank(cell, at, blank)?;
        self.cell = cell;
        self.thin = [false; 3];
        self.shape = lattice.shape(cell);
        self.full = false;
        Ok(())
    }

    /// Loads the geometry of any other cell, if all of it is resident.
    #[inline(always)]
    pub(crate) fn take_shape(&mut self, cell: CellId, at: &mut impl Corners, grid: GridSlots) -> Result<(), Miss> {
        let mut shape = CellGeometry { corners: [V4::zero(); 8], thin: grid.thin };
        let filled = shape.fill(at, grid.xyz);
        let blank = match self.take_iblank(cell, at, (grid.iblank, grid.zones)) {
            Ok(blank) if filled.is_ok() => blank,
            b => return Err(Miss::worst([filled.err(), b.err(), None])),
        };
        self.cell = cell;
        self.thin = shape.thin;
        self.blank = if shape.finite() { blank } else { Blank::Hole };
        self.shape = monomials(&shape.corners);
        self.full = false;
        Ok(())
    }

    /// Loads the geometry of a moving cell at the present moment. Its points at the two steps are loaded once, because
    /// a step reads a cell at several moments.
    #[inline(never)]
    pub(crate) fn take_moving<N: Nodes>(
        &mut self,
        cell: CellId,
        nodes: &mut N,
        ends: &mut MovingCorners,
        grid: GridSlots,
    ) -> Result<(), Miss> {
        let zone = cell.zone as usize;
        let known = ends.take(cell, nodes);
        let blank = self.take_iblank(cell, &mut nodes.at(zone, cell.ijk), (grid.iblank, grid.zones));
        let blank = match (blank, known) {
            (Ok(blank), Ok(())) => blank,
            (b, k) => return Err(Miss::worst([b.err(), k.err(), None])),
        };
        let shape = ends.at(nodes.weight(), grid.thin);
        self.full &= self.cell == cell;
        self.cell = cell;
        self.weight = nodes.weight();
        self.thin = shape.thin;
        self.blank = if shape.finite() { blank } else { Blank::Hole };
        self.shape = monomials(&shape.corners);
        Ok(())
    }

    /// Loads and caches the iblank of a cell.
    #[inline(always)]
    pub(crate) fn take_iblank(
        &mut self,
        cell: CellId,
        at: &mut impl Corners,
        (array, zones): (Option<usize>, usize),
    ) -> Result<Blank, Miss> {
        let Some(array) = array else { return Ok(Blank::Field) };
        if self.iblank.0 != cell {
            self.iblank = (cell, blank(at, array, zones)?);
        }
        Ok(self.iblank.1)
    }
}

/// Vector and sampled fields of a cell at the later of two steps.
#[derive(Clone)]
pub struct LaterValues {
    /// The traced vector.
    pub vector: Interpolant,
    /// Corner values of the sampled fields, a row per component.
    pub sampled: Vec<[f64; 8]>,
}

impl Default for LaterValues {
    fn default() -> Self {
        Self { vector: Interpolant::new(&[V4::zero(); 8]), sampled: Vec::new() }
    }
}

/// The points of a moving cell at the two steps around the moment.
pub(crate) struct MovingCorners {
    cell: CellId,
    corners: [[V4; 8]; 2],
}

impl MovingCorners {
    pub(crate) fn empty() -> Self {
        Self { cell: CellId::NOWHERE, corners: [[V4::zero(); 8]; 2] }
    }

    pub(crate) fn forget(&mut self) {
        self.cell = CellId::NOWHERE;
    }

    fn take<N: Nodes>(&mut self, cell: CellId, nodes: &mut N) -> Result<(), Miss> {
        if self.cell != cell {
            self.cell = CellId::NOWHERE;
            nodes.ends(cell.zone as usize, cell.ijk, &mut self.corners)?;
            self.cell = cell;
        }
        Ok(())
    }

    fn at(&self, weight: f64, thin: [bool; 3]) -> CellGeometry {
        let mut shape = CellGeometry { corners: between(&self.corners, weight), thin };
        shape.close();
        shape
    }
}

#[derive(Copy, Clone)]
pub(crate) struct GridSlots {
    xyz: usize,
    pub(crate) iblank: Option<usize>,
    thin: [bool; 3],
    pub(crate) zones: usize,
}

impl GridSlots {
    #[inline(always)]
    pub(crate) fn of(zones: &[Zone], zone: usize) -> Self {
        let z = &zones[zone];
        Self { xyz: z.xyz, iblank: z.iblank, thin: z.thin(), zones: zones.len() }
    }
}

/// The meaning of iblank (`array`) for a cell, in a dataset of `zones` zones. Negative values that name no zone count
/// as field, as do undefined ones.
#[inline(always)]
fn blank(at: &mut impl Corners, array: usize, zones: usize) -> Result<Blank, Miss> {
    let mut b = [0.0; 8];
    at.scalar(array, 0, &mut b)?;
    if b.contains(&0.0) || hides_cell(b[0]) {
        return Ok(Blank::Hole);
    }
    let named = b.iter().find(|v| (1.0..=zones as f64).contains(&-**v));
    Ok(named.map_or(Blank::Field, |v| Blank::Fringe((-v) as u32 - 1)))
}
