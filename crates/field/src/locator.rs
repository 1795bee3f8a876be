//! Where things are: cells with their map, iblank and boxes, one worker's view.

use crate::boxes::Bounds;
use crate::cell::{CellMap, Interpolant, Inverse, FACE_TOLERANCE};
pub use crate::cell_cache::Loaded;
use crate::cell_cache::{GridSlots, MovingCorners};
pub use crate::field_selection::{VectorSource, ZoneFields};
use crate::lattice::{Lattice, LatticeLocation};
use crate::nodes::{box_holds, within, BoxLevel, Miss, Nodes};
pub use crate::shape::{Blank, CellGeometry, CellId, CellPoint};
use crate::simd::V4;

/// Loaded cells kept for each lane, direct mapped. The stages of a step in physical space visit few cells, in no fixed order.
pub const KEPT: usize = 8;
/// Tasks that take turns in a space, each with cells of its own: 32 cells of 600 bytes stay in the
/// first-level cache. (Of cells that move the points at two steps are kept as well, 16 KiB.)
pub const LANES: usize = 4;

/// One worker's view of a dataset: locates points and loads cells with the traced vector and the sampled fields. Values
/// depend on what is asked, never on what was asked before, so any worker may continue any task.
pub struct ZoneLocator<N> {
    /// Access to the nodes.
    pub nodes: N,
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
        Self { nodes, fields, kept, ends, lattices, lane: 0, bounds, frontier: Vec::new(), below: Vec::new() }
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

    /// Forgets what was loaded for the lane that has the turn: the nodes answer for other time steps from now on. (Another moment
    /// between the same two steps is seen by itself.)
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

    /// The map of a cell, if the lane that has the turn still keeps it; of one that moves, at some moment between the two steps.
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

    /// Loads a cell with its vector and sampled fields. Where anything is absent, everything that is absent is listed. The geometry of
    /// a cell that moves may be of another moment: that is asked for by [`Self::shape`].
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

    /// Values of the sampled fields at a located point, appended to `out` component by component.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn sample(&mut self, spot: &CellPoint, out: &mut Vec<f64>) -> Result<(), Miss> {
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
    pub fn walk(&mut self, from: &CellPoint, p: V4) -> Result<WalkEnd, Miss> {
        if let Some(lattice) = &self.lattices[from.cell.zone as usize] {
            let lattice = *lattice;
            let spot = match lattice.locate(p) {
                LatticeLocation::In(spot) => spot,
                LatticeLocation::Beyond(spot) => return Ok(WalkEnd::Edge(spot)),
            };
            if self.blank(spot.cell)? != Blank::Hole {
                return Ok(WalkEnd::Found(spot));
            }
            // On a face the cell on its other side may do.
            return Ok(self.find_even(&lattice, p)?.map_or(WalkEnd::Hole(spot), WalkEnd::Found));
        }
        let mut cell = from.cell;
        let mut start = from.rst;
        for _ in 0..WALK_MAX {
            let n = self.load(cell)?;
            let l = &self.kept[n];
            let q = match l.map().invert(p, start) {
                Inverse::At(q) => q,
                Inverse::None => return Ok(WalkEnd::Lost { blank: l.blank == Blank::Hole }),
            };
            if CellGeometry::holds(l.thin, q) {
                let spot = CellPoint { cell, rst: q };
                return Ok(if l.blank == Blank::Hole { WalkEnd::Hole(spot) } else { WalkEnd::Found(spot) });
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
                return Ok(WalkEnd::Edge(CellPoint { cell, rst: q }));
            }
            cell = next;
        }
        Ok(WalkEnd::Lost { blank: false })
    }

    /// Finds a point in a zone from nothing: the lowest (k, j, i) usable cell that contains it, with Newton from the cell's
    /// centre. `None` is proven: every block of cells whose box holds the point was searched.
    ///
    /// # Errors
    /// [`Miss`]; the pages of all blocks that may hold the point are listed at once.
    pub fn find(&mut self, zone: usize, p: V4) -> Result<Option<CellPoint>, Miss> {
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
                let found = self.nodes.children_that_hold(zone, level, *b, p, &mut below);
                worst_miss = found.err().map_or(worst_miss, |m| Some(Miss::worst([worst_miss, Some(m), None])));
            }
            core::mem::swap(&mut frontier, &mut below);
        }
        let mut best: Option<CellPoint> = None;
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

    /// As [`Self::find`], by a walk from a cell near by where that leads well into a cell: faster, and the same to the last bit unless
    /// the zone lies over itself at the point. There it is one of the cells that hold it, which one depends on where the walk began.
    ///
    /// # Errors
    /// [`Miss`], which may name pages that the walk leads through.
    pub fn find_near(&mut self, from: &CellPoint, p: V4) -> Result<Option<CellPoint>, Miss> {
        let zone = from.cell.zone as usize;
        if self.lattices[zone].is_none() && p.is_finite_xyz() {
            let near = match self.walk(from, p) {
                Ok(WalkEnd::Found(spot)) => Some(spot),
                // What fails on the way need not be in the way of a search.
                Ok(_) | Err(Miss::Failed) => None,
                Err(Miss::Absent) => return Err(Miss::Absent),
            };
            if let Some(near) = near {
                // Newton from the cell's centre, as a search does it. The walk has loaded the cell, and found that it is usable.
                let n = self.load(near.cell)?;
                let thin = self.kept[n].thin;
                let well_in = |q: &f64| (WELL_IN..=1.0 - WELL_IN).contains(q);
                if let Inverse::At(rst) = self.kept[n].map().invert(p, [0.5; 3]) {
                    if CellGeometry::holds(thin, rst) && rst.iter().zip(thin).all(|(q, thin)| thin || well_in(q)) {
                        return Ok(Some(CellPoint { cell: near.cell, rst }));
                    }
                }
            }
        }
        self.find(zone, p)
    }

    /// In a uniform grid, by arithmetic.
    fn find_even(&mut self, lattice: &Lattice, p: V4) -> Result<Option<CellPoint>, Miss> {
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
        mut best: Option<CellPoint>,
    ) -> Result<Option<CellPoint>, Miss> {
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

    fn try_cell(&mut self, cell: CellId, p: V4) -> Result<Option<CellPoint>, Miss> {
        let shape = CellGeometry::load(&mut self.nodes, cell)?;
        if !shape.may_hold(p) || !shape.finite() {
            return Ok(None);
        }
        let Inverse::At(q) = CellMap::new(&shape.corners).invert(p, [0.5; 3]) else { return Ok(None) };
        if !CellGeometry::holds(shape.thin, q) || self.blank(cell)? == Blank::Hole {
            return Ok(None);
        }
        Ok(Some(CellPoint { cell, rst: q }))
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

/// Boxes of a level that are looked through one by one.
const LOOKED_THROUGH: u64 = 1024;
/// Where the grid moves: a box is then made of those at two steps, and the way down from the top is shorter.
const LOOKED_THROUGH_MOVING: u64 = 8;

/// Fractions this far from a cell's faces are in no cell beside it, whose faces are as wide as the tolerance of a search in its own
/// fractions: this much is enough beside a cell a million times as large.
const WELL_IN: f64 = 1e-3;

/// Edge of the smallest blocks of cells that have a box.
pub const BLOCK_CELLS: u32 = 4;

/// Hops of a walk before it is given up for a search by boxes.
const WALK_MAX: usize = 24;

/// How a walk ended.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum WalkEnd {
    /// In a usable cell that holds the point.
    Found(CellPoint),
    /// In a cell that holds the point but is not usable.
    Hole(CellPoint),
    /// At the zone's edge; the point lies beyond (if the zone does not fold back).
    Edge(CellPoint),
    /// Nowhere; `blank` if in a cell that is blanked out or has no geometry.
    Lost {
        /// Whether it is.
        blank: bool,
    },
}
