//! Point location in curvilinear zones: one worker's view of cells, with their maps, iblank and boxes.

mod faces;
mod search;

use crate::boxes::Bounds;
use crate::cell::{CellMap, Interpolant};
pub use crate::cell_cache::Loaded;
use crate::cell_cache::{GridSlots, MovingCorners};
pub use crate::field_selection::{VectorSource, ZoneFields};
use crate::lattice::Lattice;
use crate::motion::Neighbours;
use crate::nodes::{Miss, Nodes};
pub use crate::shape::{Blank, CellGeometry, CellId, CellPoint};
use crate::simd::V4;
pub use search::BLOCK_CELLS;

/// Loaded cells per lane, direct mapped. A step in physical space visits few cells, in no fixed order.
pub const KEPT: usize = 8;
/// Tasks that take turns, each with its own cells: 32 cells of 600 bytes stay in the first-level cache. Moving cells
/// add 16 KiB of points at two steps.
pub const LANES: usize = 4;

/// One worker's view of the zones of a dataset: locates points, and loads cells with the traced vector and sampled
/// fields. Values do not depend on earlier calls, so any worker may continue any task.
pub struct ZoneLocator<N> {
    /// Access to the nodes.
    pub nodes: N,
    /// A step of a series and its nearest steps, for the motion of grids; `None` if they stand.
    pub near: Option<Neighbours>,
    fields: std::sync::Arc<[ZoneFields]>,
    kept: Box<[Loaded; KEPT * LANES]>,
    /// Corners of cells that move, at the places of `kept`; empty if no zone moves.
    ends: Box<[MovingCorners]>,
    /// The lattices of the zones that are uniform grids.
    lattices: Box<[Option<Lattice>]>,
    /// The present one.
    lane: usize,
    /// Boxes of whole zones, once read: one comparison rules out most zones.
    bounds: Vec<Option<Bounds>>,
    frontier: Vec<[u32; 3]>,
    below: Vec<[u32; 3]>,
}

impl<N: Nodes> ZoneLocator<N> {
    /// `fields`: the traced vector and sampled fields of each zone.
    pub fn new(nodes: N, fields: std::sync::Arc<[ZoneFields]>) -> Self {
        let kept = Box::new(core::array::from_fn(|_| Loaded::empty()));
        let bounds = vec![None; nodes.zones().len()];
        let lattices = nodes.zones().iter().enumerate().map(|(n, z)| Lattice::of(z, n)).collect();
        let moving = (0..nodes.zones().len()).any(|z| !nodes.stands(z));
        let ends = (0..if moving { KEPT * LANES } else { 0 }).map(|_| MovingCorners::empty()).collect();
        let (frontier, below) = (Vec::new(), Vec::new());
        Self { nodes, near: None, fields, kept, ends, lattices, lane: 0, bounds, frontier, below }
    }

    /// Whether a cell is usable, cached for the search, the particle and the full load.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn blank(&mut self, cell: CellId) -> Result<Blank, Miss> {
        let zones = self.nodes.zones();
        let array = (zones[cell.zone as usize].iblank, zones.len());
        if array.0.is_none() {
            return Ok(Blank::Field);
        }
        let n = self.slot(cell);
        self.kept[n].take_iblank(cell, &mut self.nodes.at(cell.zone as usize, cell.ijk), array)
    }

    /// Makes a lane the present one. Each has its own loaded cells; results do not depend on it.
    #[inline(always)]
    pub fn take_turn(&mut self, lane: usize) {
        self.lane = lane % LANES;
    }

    /// Forgets the cells of the present lane, because the nodes have changed time steps. Other moments between the same
    /// steps need no call.
    pub fn forget(&mut self) {
        let lane = self.lane * KEPT..(self.lane + 1) * KEPT;
        self.kept[lane.clone()].iter_mut().for_each(Loaded::forget);
        self.ends.get_mut(lane).unwrap_or_default().iter_mut().for_each(MovingCorners::forget);
    }

    /// Replaces the traced vector and sampled fields; see [`Self::forget`].
    #[inline(always)]
    pub fn set_fields(&mut self, fields: &std::sync::Arc<[ZoneFields]>) {
        // Called at each step of a particle: all workers share the cache line of the reference count.
        if !std::sync::Arc::ptr_eq(&self.fields, fields) {
            self.fields = fields.clone();
        }
    }

    /// The lattice of a zone without iblank, in which every cell is usable.
    #[inline(always)]
    pub(crate) fn open_lattice(&self, zone: usize) -> Option<&Lattice> {
        self.lattices[zone].as_ref().filter(|_| self.nodes.zones()[zone].iblank.is_none())
    }

    /// A cell with all data of a step in it, if loaded in the present lane.
    #[inline(always)]
    pub fn loaded(&self, cell: CellId) -> Option<&Loaded> {
        let kept = &self.kept[self.slot(cell)];
        (kept.full && kept.cell == cell).then_some(kept)
    }

    /// The map of a cell, if loaded in the present lane; of a moving cell, at some moment between the steps.
    fn known_map(&self, cell: CellId) -> Option<CellMap> {
        let kept = &self.kept[self.slot(cell)];
        (kept.cell == cell).then(|| kept.map())
    }

    /// A cell as [`Self::cell`] last loaded it in a lane.
    #[inline(always)]
    pub fn kept(&self, lane: usize, cell: CellId) -> &Loaded {
        &self.kept[lane % LANES * KEPT + Self::parity(cell)]
    }

    /// The slot of a cell in the present lane, under which callers may store more data.
    #[inline(always)]
    pub(crate) fn slot(&self, cell: CellId) -> usize {
        self.lane * KEPT + Self::parity(cell)
    }

    #[inline(always)]
    fn parity(cell: CellId) -> usize {
        // Neighbours in any direction have different slots.
        ((cell.ijk[0] & 1) | ((cell.ijk[1] & 1) << 1) | ((cell.ijk[2] & 1) << 2)) as usize % KEPT
    }

    /// Prefetches the numbers that a step in a cell reads, while other lanes compute.
    #[inline(always)]
    pub fn prefetch(&self, cell: CellId) {
        self.prefetch_of(cell, &self.fields);
    }

    /// [`Self::prefetch`] for other fields than the present ones.
    #[inline(always)]
    pub fn prefetch_of(&self, cell: CellId, fields: &[ZoneFields]) {
        let zone = cell.zone as usize;
        let mut arrays = [0; 4];
        let mut count = 0;
        let mut add = |array: Option<usize>| {
            if let (Some(array), Some(place)) = (array, arrays.get_mut(count)) {
                (*place, count) = (array, count + 1);
            }
        };
        let z = &self.nodes.zones()[zone];
        add(self.lattices[zone].is_none().then_some(z.xyz));
        add(z.iblank);
        match fields[zone].vector {
            VectorSource::Stored(a) => add(Some(a)),
            VectorSource::Quotient(a, b) => [a, b].into_iter().for_each(|a| add(Some(a))),
            VectorSource::None => {}
        }
        self.nodes.prefetch(zone, &arrays[..count], cell.ijk);
    }

    /// Loads a cell's geometry.
    #[inline(always)]
    fn load(&mut self, cell: CellId) -> Result<usize, Miss> {
        let n = self.slot(cell);
        if self.kept[n].cell == cell && (self.ends.is_empty() || self.kept[n].weight == self.nodes.weight()) {
            return Ok(n);
        }
        self.load_shape(cell, n)
    }

    #[inline(never)]
    fn load_shape(&mut self, cell: CellId, n: usize) -> Result<usize, Miss> {
        let zone = cell.zone as usize;
        let grid = GridSlots::of(self.nodes.zones(), zone);
        if self.nodes.moves(zone) {
            self.kept[n].take_moving(cell, &mut self.nodes, &mut self.ends[n], grid)?;
            return Ok(n);
        }
        let weight = self.nodes.weight();
        if self.kept[n].cell != cell {
            let mut at = self.nodes.at(zone, cell.ijk);
            match &self.lattices[zone] {
                Some(lattice) => self.kept[n].take_even(cell, &mut at, lattice, (grid.iblank, grid.zones))?,
                None => self.kept[n].take_shape(cell, &mut at, grid)?,
            }
        }
        self.kept[n].weight = weight;
        Ok(n)
    }

    /// Loads a cell with its vector and sampled fields. A moving cell's geometry may be of another moment; see
    /// [`Self::geometry`].
    ///
    /// # Errors
    /// [`Miss`]; all absent pages are listed at once.
    #[inline(always)]
    pub fn cell(&mut self, cell: CellId) -> Result<&Loaded, Miss> {
        let n = self.slot(cell);
        if !(self.kept[n].cell == cell && self.kept[n].full) {
            let [i, j, k] = cell.ijk;
            self.load_full(n, cell.zone, i, j, k)?;
        }
        Ok(&self.kept[n])
    }

    /// The cell comes in registers: from memory it would be read in other pieces than it was written in, which stalls.
    #[inline(never)]
    fn load_full(&mut self, n: usize, zone: u32, i: u32, j: u32, k: u32) -> Result<(), Miss> {
        let cell = CellId { zone, ijk: [i, j, k] };
        let zone = zone as usize;
        let (l, fields) = (&mut self.kept[n], &self.fields[zone]);
        // Even a failed load overwrites the samples of the cell in this slot.
        l.full = false;
        let grid = GridSlots::of(self.nodes.zones(), zone);
        let moved = if l.cell != cell && self.nodes.moves(zone) {
            l.take_moving(cell, &mut self.nodes, &mut self.ends[n], grid).err()
        } else {
            None
        };
        let mut at = self.nodes.at(zone, cell.ijk);
        let shape = match &self.lattices[zone] {
            _ if l.cell == cell || moved.is_some() => moved,
            Some(lattice) => l.take_even(cell, &mut at, lattice, (grid.iblank, grid.zones)).err(),
            None => l.take_shape(cell, &mut at, grid).err(),
        };
        let mut corners = [V4::zero(); 8];
        let vector = fields.vector.corners(&mut at, &mut corners);
        let sampled = if fields.sampled.is_empty() { None } else { fields.sample(&mut at, &mut l.sampled).err() };
        match vector {
            Ok(()) if shape.is_none() && sampled.is_none() => {
                l.vector = Interpolant::new(&corners);
                l.full = true;
                Ok(())
            }
            v => Err(Miss::worst([shape, sampled, v.err()])),
        }
    }

    /// The traced vector at the corners of a cell.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn vector_corners(&mut self, cell: CellId) -> Result<[V4; 8], Miss> {
        let zone = cell.zone as usize;
        let mut corners = [V4::zero(); 8];
        self.fields[zone].vector.corners(&mut self.nodes.at(zone, cell.ijk), &mut corners)?;
        Ok(corners)
    }

    /// The geometry of a cell: its map, directions with only one point, iblank.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn geometry(&mut self, cell: CellId) -> Result<&Loaded, Miss> {
        let n = self.load(cell)?;
        Ok(&self.kept[n])
    }

    /// Volume of a cell.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn volume(&mut self, cell: CellId) -> Result<f64, Miss> {
        if let Some(lattice) = &self.lattices[cell.zone as usize] {
            return Ok(lattice.volume());
        }
        Ok(CellMap::new(&CellGeometry::load(&mut self.nodes, cell)?.corners).volume().abs())
    }
}
