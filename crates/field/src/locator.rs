//! Where things are in curvilinear zones: cells with their map, iblank and boxes, one worker's view.

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

/// Loaded cells kept for each lane, direct mapped. The stages of a step in physical space visit few cells, in no fixed
/// order.
pub const KEPT: usize = 8;
/// Tasks that take turns in a space, each with cells of its own: 32 cells of 600 bytes stay in the
/// first-level cache. (Of cells that move the points at two steps are kept as well, 16 KiB.)
pub const LANES: usize = 4;

/// One worker's view of the zones of a dataset: locates points and loads cells with the traced vector and the sampled
/// fields. Values depend on what is asked, never on what was asked before, so any worker may continue any task.
pub struct ZoneLocator<N> {
    /// Access to the nodes.
    pub nodes: N,
    /// Of a step of a series, what the motion of grids at it follows from; none: they stand.
    pub near: Option<Neighbours>,
    fields: std::sync::Arc<[ZoneFields]>,
    kept: Box<[Loaded; KEPT * LANES]>,
    /// Of cells that move, in the places of `kept`; none where no zone moves.
    ends: Box<[MovingCorners]>,
    /// Of the zones that are uniform grids.
    lattices: Box<[Option<Lattice>]>,
    /// Whose turn it is.
    lane: usize,
    /// Boxes of whole zones, once they are known: most zones are ruled out by one look.
    bounds: Vec<Option<Bounds>>,
    frontier: Vec<[u32; 3]>,
    below: Vec<[u32; 3]>,
}

impl<N: Nodes> ZoneLocator<N> {
    /// `fields` says for each zone what is traced and sampled.
    pub fn new(nodes: N, fields: std::sync::Arc<[ZoneFields]>) -> Self {
        let kept = Box::new(core::array::from_fn(|_| Loaded::empty()));
        let bounds = vec![None; nodes.zones().len()];
        let lattices = nodes.zones().iter().enumerate().map(|(n, z)| Lattice::of(z, n)).collect();
        let moving = (0..nodes.zones().len()).any(|z| !nodes.stands(z));
        let ends = (0..if moving { KEPT * LANES } else { 0 }).map(|_| MovingCorners::empty()).collect();
        let (frontier, below) = (Vec::new(), Vec::new());
        Self { nodes, near: None, fields, kept, ends, lattices, lane: 0, bounds, frontier, below }
    }

    /// What iblank says of a cell, kept: a search asks, then the particle that goes there, and then whoever loads the
    /// rest.
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

    /// Gives the turn to a lane. What is kept for one lane is not overwritten by the others; answers do not depend on
    /// it.
    #[inline(always)]
    pub fn take_turn(&mut self, lane: usize) {
        self.lane = lane % LANES;
    }

    /// Forgets what was loaded for the lane that has the turn: the nodes answer for other time steps from now on.
    /// (Another moment between the same two steps is seen by itself.)
    pub fn forget(&mut self) {
        let lane = self.lane * KEPT..(self.lane + 1) * KEPT;
        self.kept[lane.clone()].iter_mut().for_each(Loaded::forget);
        self.ends.get_mut(lane).unwrap_or_default().iter_mut().for_each(MovingCorners::forget);
    }

    /// Changes what is traced and sampled; see [`Self::forget`].
    #[inline(always)]
    pub fn set_fields(&mut self, fields: &std::sync::Arc<[ZoneFields]>) {
        // Called at each step of a particle: the count of users is a line that all workers share.
        if !std::sync::Arc::ptr_eq(&self.fields, fields) {
            self.fields = fields.clone();
        }
    }

    /// The lattice of a zone without iblank: every point of it lies in a usable cell that is known without a look.
    #[inline(always)]
    pub(crate) fn open_lattice(&self, zone: usize) -> Option<&Lattice> {
        self.lattices[zone].as_ref().filter(|_| self.nodes.zones()[zone].iblank.is_none())
    }

    /// A cell with everything that a step in it needs, if it is loaded in the lane that has the turn.
    #[inline(always)]
    pub fn loaded(&self, cell: CellId) -> Option<&Loaded> {
        let kept = &self.kept[self.slot(cell)];
        (kept.full && kept.cell == cell).then_some(kept)
    }

    /// The map of a cell, if the lane that has the turn still keeps it; of one that moves, at some moment between the
    /// two steps.
    fn known_map(&self, cell: CellId) -> Option<CellMap> {
        let kept = &self.kept[self.slot(cell)];
        (kept.cell == cell).then(|| kept.map())
    }

    /// A cell as [`Self::cell`] last loaded it in a lane.
    #[inline(always)]
    pub fn kept(&self, lane: usize, cell: CellId) -> &Loaded {
        &self.kept[lane % LANES * KEPT + Self::parity(cell)]
    }

    /// Where a cell is kept in the lane that has the turn: for who keeps more of it.
    #[inline(always)]
    pub(crate) fn slot(&self, cell: CellId) -> usize {
        self.lane * KEPT + Self::parity(cell)
    }

    #[inline(always)]
    fn parity(cell: CellId) -> usize {
        // Neighbours in any direction fall on different slots.
        ((cell.ijk[0] & 1) | ((cell.ijk[1] & 1) << 1) | ((cell.ijk[2] & 1) << 2)) as usize % KEPT
    }

    /// Asks the processor to load what a step in a cell will read, while others compute.
    #[inline(always)]
    pub fn prefetch(&self, cell: CellId) {
        self.prefetch_of(cell, &self.fields);
    }

    /// [`Self::prefetch`] for other fields than those that are traced now.
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

    /// Loads a cell with its vector and sampled fields. Where anything is absent, everything that is absent is listed.
    /// The geometry of a cell that moves may be of another moment: that is asked for by [`Self::geometry`].
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn cell(&mut self, cell: CellId) -> Result<&Loaded, Miss> {
        let n = self.slot(cell);
        if !(self.kept[n].cell == cell && self.kept[n].full) {
            let [i, j, k] = cell.ijk;
            self.load_full(n, cell.zone, i, j, k)?;
        }
        Ok(&self.kept[n])
    }

    /// The cell in registers: handed over in memory, it is read in other pieces than it was written in, and waited for.
    #[inline(never)]
    fn load_full(&mut self, n: usize, zone: u32, i: u32, j: u32, k: u32) -> Result<(), Miss> {
        let cell = CellId { zone, ijk: [i, j, k] };
        let zone = zone as usize;
        let (l, fields) = (&mut self.kept[n], &self.fields[zone]);
        // Whatever cell is kept here, its samples are about to be overwritten, also if this load comes to nothing.
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

    /// What a cell's geometry says: its map, directions of one point, iblank.
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
