//! The search for the cell of a point: by a walk from a near cell, by boxes, or by arithmetic in a uniform grid.

use super::ZoneLocator;
use crate::cell::{CellMap, Inverse, FACE_TOLERANCE};
use crate::domain::WalkEnd;
use crate::lattice::{Lattice, LatticeLocation};
use crate::nodes::{box_holds, within, BoxLevel, Miss, Nodes};
use crate::shape::{Blank, CellGeometry, CellId, CellPoint};
use crate::simd::V4;

/// Most boxes of a level that are examined one by one.
const LOOKED_THROUGH: u64 = 1024;
/// The same in a moving grid, where boxes are merged from two steps and the way down from the top is shorter.
const LOOKED_THROUGH_MOVING: u64 = 8;

/// Fractions this far from a cell's faces are in no neighbour, whose faces are as wide as the tolerance in its own
/// fractions. This suffices beside a cell a million times as large.
const WELL_IN: f64 = 1e-3;

/// Cells along an edge of the smallest blocks with a box.
pub const BLOCK_CELLS: u32 = 4;

/// Hops of a walk before the search by boxes takes over.
const WALK_MAX: usize = 24;

impl<N: Nodes> ZoneLocator<N> {
    /// Walks from a cell towards a point, until the cell, a zone's edge, a hole, or a cycle.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub fn walk(&mut self, from: &CellPoint, p: V4) -> Result<WalkEnd<CellId>, Miss> {
        if let Some(lattice) = &self.lattices[from.cell.zone as usize] {
            let lattice = *lattice;
            let spot = match lattice.locate(p) {
                LatticeLocation::In(spot) => spot,
                LatticeLocation::Beyond(spot) => return Ok(WalkEnd::Edge(spot)),
            };
            if self.blank(spot.cell)? != Blank::Hole {
                return Ok(WalkEnd::Found(spot));
            }
            // On a face, the cell on its other side may be usable.
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
                // Hops over several cells at once: the fractions extrapolate the local spacing.
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

    /// Finds the lowest (k, j, i) usable cell of a zone that contains a point, with Newton from the cell's centre.
    /// `None` is proven: every block whose box holds the point was searched.
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
        // Starts at the finest level that can be examined whole: each level costs a page per crossing.
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
                // Reads only pages that the level needs anyway. A miss here is repeated and reported below.
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
            // In the order of their first cells. A later block may still hold a lower cell, so all are searched.
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

    /// As [`Self::find`], but first by a walk from a near cell. This is faster. Results are equal to the last bit,
    /// unless the zone overlaps itself at the point: there the start decides between the cells that hold it.
    ///
    /// # Errors
    /// [`Miss`], which may name pages on the way of the walk.
    pub fn find_near(&mut self, from: &CellPoint, p: V4) -> Result<Option<CellPoint>, Miss> {
        let zone = from.cell.zone as usize;
        if self.lattices[zone].is_none() && p.is_finite_xyz() {
            let near = match self.walk(from, p) {
                Ok(WalkEnd::Found(spot)) => Some(spot),
                // A failure on the way need not affect the search.
                Ok(_) | Err(Miss::Failed) => None,
                Err(Miss::Absent) => return Err(Miss::Absent),
            };
            if let Some(near) = near {
                // Newton from the cell's centre, as in the search. The walk has loaded the cell, which is usable.
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

    /// [`Self::find`] in a uniform grid, by arithmetic.
    fn find_even(&mut self, lattice: &Lattice, p: V4) -> Result<Option<CellPoint>, Miss> {
        let mut miss = None;
        for spot in lattice.holding(p) {
            match self.blank(spot.cell) {
                Ok(Blank::Hole) => {}
                Ok(_) if miss.is_none() => return Ok(Some(spot)),
                // A lower cell may still be usable.
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
                // A whole row if it lies in one page: few rows of a block hold the point. (A surface's cell is thicker
                // than its points.)
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
}
