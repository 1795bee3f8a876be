//! Cells as a worker keeps them: geometry, iblank, vector and sampled fields, ready for a step.

use crate::cell::{monomials, CellMap, Interpolant};
use crate::lattice::Lattice;
use crate::nodes::{Corners, Miss, Nodes, Zone};
use crate::plot3d::iblank::hides_cell;
use crate::shape::{Blank, CellGeometry, CellId};
use crate::simd::V4;
use crate::time_interpolated::between;

/// A cell with everything that a step in it needs.
#[derive(Clone)]
pub struct Loaded {
    /// Which.
    pub cell: CellId,
    /// Directions of one point.
    pub thin: [bool; 3],
    /// What iblank says; a hole where the geometry is no number.
    pub blank: Blank,
    /// What iblank alone says, and of which cell: that may be known before the rest is.
    iblank: (CellId, Blank),
    /// The moment that the geometry is of, where the cell moves.
    pub(crate) weight: f64,
    /// Monomials of the map from (r, s, t) to physical space.
    pub shape: [V4; 8],
    /// The traced vector; meaningless until `full`.
    pub vector: Interpolant,
    /// Whether vector and sampled fields are loaded.
    pub(crate) full: bool,
    /// Corner values of the sampled fields, a row a component.
    pub sampled: Vec<[f64; 8]>,
}

impl Loaded {
    pub(crate) fn empty() -> Self {
        let zero = [V4::zero(); 8];
        let vector = Interpolant::new(&zero);
        Self {
            cell: CellId::NOWHERE,
            thin: [false; 3],
            blank: Blank::Hole,
            iblank: (CellId::NOWHERE, Blank::Hole),
            weight: 0.0,
            shape: zero,
            vector,
            full: false,
            sampled: Vec::new(),
        }
    }

    /// Nothing is kept any more.
    pub(crate) fn forget(&mut self) {
        (self.cell, self.iblank.0) = (CellId::NOWHERE, CellId::NOWHERE);
    }

    /// Takes over the geometry of a cell of a uniform grid.
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

    /// Takes over another cell's geometry, if all of it is there.
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

    /// Takes over the geometry of a cell that moves, as it is at the present moment. Its points at the steps are loaded once between
    /// two of them: a step of a method looks at a cell at several moments.
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

    /// What iblank says of a cell, kept from then on.
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

    /// (r, s, t) to physical space.
    #[inline(always)]
    pub fn map(&self) -> CellMap {
        CellMap::from_monomials(&self.shape)
    }
}

/// The points of a cell that moves, at the two steps between which the moment is.
pub(crate) struct MovingCorners {
    cell: CellId,
    corners: [[V4; 8]; 2],
}

impl MovingCorners {
    pub(crate) fn empty() -> Self {
        Self { cell: CellId::NOWHERE, corners: [[V4::zero(); 8]; 2] }
    }

    /// Nothing is kept any more.
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

/// What a zone says of its grid.
#[derive(Copy, Clone)]
pub(crate) struct GridSlots {
    xyz: usize,
    pub(crate) iblank: Option<usize>,
    thin: [bool; 3],
    /// Zones of the dataset.
    pub(crate) zones: usize,
}

impl GridSlots {
    #[inline(always)]
    pub(crate) fn of(zones: &[Zone], zone: usize) -> Self {
        let z = &zones[zone];
        Self { xyz: z.xyz, iblank: z.iblank, thin: z.thin(), zones: zones.len() }
    }
}

/// What iblank, array `array`, says of a cell in a dataset of so many zones. A negative value that names none of them counts as
/// field, as every value does that the format does not define.
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
