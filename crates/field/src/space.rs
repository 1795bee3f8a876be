//! Where things are: cells with their map, iblank and boxes, one worker's view.

use crate::boxes::Bounds;
use crate::cell::{monomials, CellMap, Interpolant, Inverse, FACE_TOLERANCE};
use crate::lattice::{Found, Lattice};
use crate::nodes::{box_holds, within, BoxLevel, Corners, Miss, Nodes, Zone};
pub use crate::shape::{Blank, CellId, Shape, Spot};
use crate::simd::V4;
pub use crate::wanted::{VectorSource, ZoneFields};

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
    /// Monomials of the map from (r, s, t) to physical space.
    pub shape: [V4; 8],
    /// The traced vector; meaningless until `full`.
    pub vector: Interpolant,
    /// Whether vector and sampled fields are loaded.
    full: bool,
    /// Corner values of the sampled fields, a row a component.
    pub sampled: Vec<[f64; 8]>,
}

impl Loaded {
    fn empty() -> Self {
        let zero = [V4::zero(); 8];
        let vector = Interpolant::new(&zero);
        Self {
            cell: CellId::NOWHERE,
            thin: [false; 3],
            blank: Blank::Hole,
            iblank: (CellId::NOWHERE, Blank::Hole),
            shape: zero,
            vector,
            full: false,
            sampled: Vec::new(),
        }
    }

    /// Takes over the geometry of a cell of a uniform grid.
    #[inline(always)]
    fn take_even(
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
    fn take_shape(&mut self, cell: CellId, at: &mut impl Corners, grid: Grid) -> Result<(), Miss> {
        let mut shape = Shape { corners: [V4::zero(); 8], thin: grid.thin };
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

    /// What iblank says of a cell, kept from then on.
    #[inline(always)]
    fn take_iblank(
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

/// What a zone says of its grid.
#[derive(Copy, Clone)]
struct Grid {
    xyz: usize,
    iblank: Option<usize>,
    thin: [bool; 3],
    /// Zones of the dataset.
    zones: usize,
}

impl Grid {
    #[inline(always)]
    fn of(zones: &[Zone], zone: usize) -> Self {
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
    if b.contains(&0.0) {
        return Ok(Blank::Hole);
    }
    let named = b.iter().find(|v| (1.0..=zones as f64).contains(&-**v));
    Ok(named.map_or(Blank::Field, |v| Blank::Fringe((-v) as u32 - 1)))
}

/// Loaded cells kept for each lane, direct mapped. The stages of a step in physical space visit few cells, in no fixed order.
pub const KEPT: usize = 8;
/// Tasks that take turns in a space, each with cells of its own: 32 cells of 600 bytes stay in the first-level cache.
pub const LANES: usize = 4;

/// One worker's view of a dataset: locates points and loads cells with the traced vector and the sampled fields. Values
/// depend on what is asked, never on what was asked before, so any worker may continue any task.
pub struct Space<N> {
    /// Access to the nodes.
    pub nodes: N,
    fields: std::sync::Arc<[ZoneFields]>,
    kept: Box<[Loaded; KEPT * LANES]>,
    /// Of the zones that are uniform grids.
    lattices: Box<[Option<Lattice>]>,
    /// Whose turn it is.
    lane: usize,
    /// Boxes of whole zones, once they are known: most zones are ruled out by one look.
    bounds: Vec<Option<Bounds>>,
    frontier: Vec<[u32; 3]>,
    below: Vec<[u32; 3]>,
}

impl<N: Nodes> Space<N> {
    /// `fields` says for each zone what is traced and sampled.
    pub fn new(nodes: N, fields: std::sync::Arc<[ZoneFields]>) -> Self {
        let kept = Box::new(core::array::from_fn(|_| Loaded::empty()));
        let bounds = vec![None; nodes.zones().len()];
        let lattices = nodes.zones().iter().enumerate().map(|(n, z)| Lattice::of(z, n)).collect();
        Self { nodes, fields, kept, lattices, lane: 0, bounds, frontier: Vec::new(), below: Vec::new() }
    }

    /// What iblank says of a cell, kept: a search asks, then the particle that goes there, and then whoever loads the rest.
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

    /// Gives the turn to a lane. What is kept for one lane is not overwritten by the others; answers do not depend on it.
    #[inline(always)]
    pub fn take_turn(&mut self, lane: usize) {
        self.lane = lane % LANES;
    }

    /// Forgets what was loaded for the lane that has the turn: the nodes answer for another moment from now on.
    pub fn forget(&mut self) {
        for kept in &mut self.kept[self.lane * KEPT..][..KEPT] {
            (kept.cell, kept.iblank.0) = (CellId::NOWHERE, CellId::NOWHERE);
        }
    }

    /// Changes what is traced and sampled; see [`Self::forget`].
    #[inline(always)]
    pub fn set_fields(&mut self, fields: &std::sync::Arc<[ZoneFields]>) {
        // Called at each step of a particle: the count of users is a line that all workers share.
        if !std::sync::Arc::ptr_eq(&self.fields, fields) {
            self.fields = fields.clone();
        }
    }

    /// Where a cell is kept in the lane that has the turn: for who keeps more of it.
    #[inline(always)]
    pub fn place(&self, cell: CellId) -> usize {
        self.slot(cell)
    }

    /// The lattice of a zone without iblank: every point of it lies in a usable cell that is known without a look.
    #[inline(always)]
    pub fn open_lattice(&self, zone: usize) -> Option<&Lattice> {
        self.lattices[zone].as_ref().filter(|_| self.nodes.zones()[zone].iblank.is_none())
    }

    /// A cell with everything that a step in it needs, if it is loaded in the lane that has the turn.
    #[inline(always)]
    pub fn loaded(&self, cell: CellId) -> Option<&Loaded> {
        let kept = &self.kept[self.slot(cell)];
        (kept.full && kept.cell == cell).then_some(kept)
    }

    /// Length of the shortest edge of a zone's cells, where all are alike.
    #[inline(always)]
    pub fn even_length(&self, zone: usize) -> Option<f64> {
        self.lattices[zone].as_ref().map(Lattice::shortest)
    }

    /// The map of a cell, if the lane that has the turn still keeps it.
    pub fn known_map(&self, cell: CellId) -> Option<CellMap> {
        let kept = &self.kept[self.slot(cell)];
        (kept.cell == cell).then(|| kept.map())
    }

    /// A cell as [`Self::full`] last loaded it in a lane.
    #[inline(always)]
    pub fn kept(&self, lane: usize, cell: CellId) -> &Loaded {
        &self.kept[lane % LANES * KEPT + Self::parity(cell)]
    }

    #[inline(always)]
    fn slot(&self, cell: CellId) -> usize {
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
        let zone = cell.zone as usize;
        let xyz = self.nodes.zones()[zone].xyz;
        match self.fields[zone].vector {
            VectorSource::Stored(a) => self.nodes.prefetch(zone, &[xyz, a], cell.ijk),
            VectorSource::Quotient(a, b) => self.nodes.prefetch(zone, &[xyz, a, b], cell.ijk),
            VectorSource::None => self.nodes.prefetch(zone, &[xyz], cell.ijk),
        }
    }

    /// Loads a cell's geometry.
    #[inline(always)]
    fn load(&mut self, cell: CellId) -> Result<usize, Miss> {
        let n = self.slot(cell);
        if self.kept[n].cell == cell {
            return Ok(n);
        }
        self.load_shape(cell, n)
    }

    #[inline(never)]
    fn load_shape(&mut self, cell: CellId, n: usize) -> Result<usize, Miss> {
        let grid = Grid::of(self.nodes.zones(), cell.zone as usize);
        let mut at = self.nodes.at(cell.zone as usize, cell.ijk);
        match &self.lattices[cell.zone as usize] {
            Some(lattice) => self.kept[n].take_even(cell, &mut at, lattice, (grid.iblank, grid.zones))?,
            None => self.kept[n].take_shape(cell, &mut at, grid)?,
        }
        Ok(n)
    }

    /// Loads a cell with its vector and sampled fields. Where anything is absent, everything that is absent is listed.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn full(&mut self, cell: CellId) -> Result<&Loaded, Miss> {
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
        let grid = Grid::of(self.nodes.zones(), zone);
        let mut at = self.nodes.at(zone, cell.ijk);
        let shape = match &self.lattices[zone] {
            _ if l.cell == cell => None,
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

    /// Values of the sampled fields at a located point, appended to `out` component by component.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn sample(&mut self, spot: &Spot, out: &mut Vec<f64>) -> Result<(), Miss> {
        let l = self.full(spot.cell)?;
        out.extend(l.sampled.iter().map(|c| crate::cell::interpolate_scalar(c, spot.rst)));
        Ok(())
    }

    /// What a cell's geometry says: its map, directions of one point, iblank.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn shape(&mut self, cell: CellId) -> Result<&Loaded, Miss> {
        let n = self.load(cell)?;
        Ok(&self.kept[n])
    }

    /// Walks from a cell towards a point. The cell is found, or the walk ends at a zone's edge, in a hole, or in a circle.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn walk(&mut self, from: &Spot, p: V4) -> Result<Walk, Miss> {
        if let Some(lattice) = &self.lattices[from.cell.zone as usize] {
            let lattice = *lattice;
            let spot = match lattice.locate(p) {
                Found::In(spot) => spot,
                Found::Beyond(spot) => return Ok(Walk::Edge(spot)),
            };
            if self.blank(spot.cell)? != Blank::Hole {
                return Ok(Walk::Found(spot));
            }
            // On a face the cell on its other side may do.
            return Ok(self.find_even(&lattice, p)?.map_or(Walk::Hole(spot), Walk::Found));
        }
        let mut cell = from.cell;
        let mut start = from.rst;
        for _ in 0..WALK_MAX {
            let n = self.load(cell)?;
            let l = &self.kept[n];
            let q = match l.map().invert(p, start) {
                Inverse::At(q) => q,
                Inverse::None => return Ok(Walk::Lost { blank: l.blank == Blank::Hole }),
            };
            if Shape::holds(l.thin, q) {
                let spot = Spot { cell, rst: q };
                return Ok(if l.blank == Blank::Hole { Walk::Hole(spot) } else { Walk::Found(spot) });
            }
            let cells = self.nodes.zones()[cell.zone as usize].cells();
            let mut next = cell;
            for a in 0..3 {
                if l.thin[a] {
                    continue;
                }
                // Several cells at once where the point is several away: the fractions extrapolate the local spacing.
                let hop = if q[a] < -FACE_TOLERANCE {
                    q[a].floor().max(-8.0) as i64
                } else if q[a] > 1.0 + FACE_TOLERANCE {
                    (q[a].ceil() - 1.0).clamp(1.0, 8.0) as i64
                } else {
                    0
                };
                let to = (i64::from(cell.ijk[a]) + hop).clamp(0, i64::from(cells[a]) - 1);
                start[a] = (q[a] - (to - i64::from(cell.ijk[a])) as f64).clamp(0.0, 1.0);
                next.ijk[a] = to as u32;
            }
            if next.ijk == cell.ijk {
                return Ok(Walk::Edge(Spot { cell, rst: q }));
            }
            cell = next;
        }
        Ok(Walk::Lost { blank: false })
    }

    /// Finds a point in a zone from nothing: the lowest (k, j, i) usable cell that contains it, with Newton from the cell's
    /// centre. `None` is proven: every block of cells whose box holds the point was searched.
    ///
    /// # Errors
    /// [`Miss`]; the pages of all blocks that may hold the point are listed at once.
    pub fn find(&mut self, zone: usize, p: V4) -> Result<Option<Spot>, Miss> {
        let x = p.xyz();
        if !x.iter().all(|c| c.is_finite()) {
            return Ok(None);
        }
        if let Some(lattice) = self.lattices[zone] {
            return self.find_even(&lattice, p);
        }
        // From the finest level that can be looked at as a whole: each further one costs a page at a crossing.
        let boxes = &self.nodes.zones()[zone].boxes;
        let most = if self.nodes.stands(zone) { LOOKED_THROUGH } else { LOOKED_THROUGH_MOVING };
        let few = |l: &BoxLevel| l.translation.dims.iter().map(|n| u64::from(*n)).product::<u64>() <= most;
        let levels = boxes.iter().position(few).map_or(boxes.len(), |top| top + 1);
        let cells = self.nodes.zones()[zone].cells();
        let mut worst_miss: Option<Miss> = None;
        let mut frontier = core::mem::take(&mut self.frontier);
        let mut below = core::mem::take(&mut self.below);
        frontier.clear();
        for level in (0..levels).rev() {
            let dims = self.nodes.zones()[zone].boxes[level].translation.dims;
            if level + 1 == levels {
                // Its pages are in memory, or found absent, either way; and what misses here misses below, which says so.
                if self.bounds[zone].is_none() && self.nodes.stands(zone) {
                    self.bounds[zone] = self.nodes.bounds(zone, level).ok();
                }
                if self.bounds[zone].is_none_or(|b| box_holds(&b, p)) {
                    worst_miss = self.nodes.blocks_that_hold(zone, level, p, &mut frontier).err();
                }
                continue;
            }
            below.clear();
            for b in &frontier {
                for c in 0..8u32 {
                    let n = [b[0] * 2 + (c & 1), b[1] * 2 + ((c >> 1) & 1), b[2] * 2 + (c >> 2)];
                    if (0..3).all(|a| n[a] < dims[a]) {
                        below.push(n);
                    }
                }
            }
            frontier.clear();
            for b in &below {
                match self.nodes.block(zone, level, *b) {
                    Ok(bx) if box_holds(&bx, p) => frontier.push(*b),
                    Ok(_) => {}
                    Err(m) => worst_miss = Some(Miss::worst([worst_miss, Some(m), None])),
                }
            }
        }
        let mut best: Option<Spot> = None;
        if levels > 0 {
            // In the order of their first cells; a later block may still hold a lower cell, so all are searched.
            frontier.sort_unstable_by_key(|b| [b[2], b[1], b[0]]);
            for b in &frontier {
                match self.find_in_block(zone, *b, cells, p, best) {
                    Ok(s) => best = s,
                    Err(m) => worst_miss = Some(Miss::worst([worst_miss, Some(m), None])),
                }
            }
        }
        self.frontier = frontier;
        self.below = below;
        match worst_miss {
            Some(m) => Err(m),
            None => Ok(best),
        }
    }

    /// In a uniform grid, by arithmetic.
    fn find_even(&mut self, lattice: &Lattice, p: V4) -> Result<Option<Spot>, Miss> {
        let mut miss = None;
        for spot in lattice.holding(p) {
            match self.blank(spot.cell) {
                Ok(Blank::Hole) => {}
                Ok(_) if miss.is_none() => return Ok(Some(spot)),
                // A lower one may still be usable.
                Ok(_) => {}
                Err(m) => miss = Some(Miss::worst([miss, Some(m), None])),
            }
        }
        miss.map_or(Ok(None), Err)
    }

    fn find_in_block(
        &mut self,
        zone: usize,
        block: [u32; 3],
        cells: [u32; 3],
        p: V4,
        mut best: Option<Spot>,
    ) -> Result<Option<Spot>, Miss> {
        let lo: [u32; 3] = block.map(|b| b * BLOCK_CELLS);
        let hi: [u32; 3] = core::array::from_fn(|a| (lo[a] + BLOCK_CELLS).min(cells[a]));
        let xyz = self.nodes.zones()[zone].xyz;
        let mut miss = None;
        for k in lo[2]..hi[2] {
            for j in lo[1]..hi[1] {
                if matches!(&best, Some(s) if [s.cell.ijk[2], s.cell.ijk[1], s.cell.ijk[0]] < [k, j, lo[0]]) {
                    return miss.map_or(Ok(best), Err);
                }
                // A row at a time where it lies in one page: few of a block's hold the point. (A cell of a surface is thicker
                // than its points say.)
                match self.nodes.row_bounds(zone, xyz, [lo[0], j, k], hi[0] - lo[0]) {
                    Ok(Some(bounds)) if !within(bounds, p) => continue,
                    Ok(_) => {}
                    Err(m) => {
                        miss = Some(Miss::worst([miss, Some(m), None]));
                        continue;
                    }
                }
                for i in lo[0]..hi[0] {
                    let cell = CellId { zone: zone as u32, ijk: [i, j, k] };
                    if matches!(&best, Some(s) if [s.cell.ijk[2], s.cell.ijk[1], s.cell.ijk[0]] < [k, j, i]) {
                        return miss.map_or(Ok(best), Err);
                    }
                    match self.try_cell(cell, p) {
                        Ok(Some(s)) => best = Some(s),
                        Ok(None) => {}
                        Err(m) => miss = Some(Miss::worst([miss, Some(m), None])),
                    }
                }
            }
        }
        miss.map_or(Ok(best), Err)
    }

    fn try_cell(&mut self, cell: CellId, p: V4) -> Result<Option<Spot>, Miss> {
        let shape = Shape::load(&mut self.nodes, cell)?;
        if !shape.may_hold(p) || !shape.finite() {
            return Ok(None);
        }
        let Inverse::At(q) = CellMap::new(&shape.corners).invert(p, [0.5; 3]) else { return Ok(None) };
        if !Shape::holds(shape.thin, q) || self.blank(cell)? == Blank::Hole {
            return Ok(None);
        }
        Ok(Some(Spot { cell, rst: q }))
    }

    /// Volume of a cell.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn volume(&mut self, cell: CellId) -> Result<f64, Miss> {
        if let Some(lattice) = &self.lattices[cell.zone as usize] {
            return Ok(lattice.volume());
        }
        Ok(CellMap::new(&Shape::load(&mut self.nodes, cell)?.corners).volume().abs())
    }
}

/// Boxes of a level that are looked through one by one.
const LOOKED_THROUGH: u64 = 1024;
/// Where the grid moves: a box is then made of those at two steps, one at a time, and the way down from the top is shorter.
const LOOKED_THROUGH_MOVING: u64 = 8;

/// Edge of the smallest blocks of cells that have a box.
pub const BLOCK_CELLS: u32 = 4;

/// Hops of a walk before it is given up for a search by boxes.
const WALK_MAX: usize = 24;

/// How a walk ended.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Walk {
    /// In a usable cell that holds the point.
    Found(Spot),
    /// In a cell that holds the point but is not usable.
    Hole(Spot),
    /// At the zone's edge; the point lies beyond (if the zone does not fold back).
    Edge(Spot),
    /// Nowhere; `blank` if in a cell that is blanked out or has no geometry.
    Lost {
        /// Whether it is.
        blank: bool,
    },
}
