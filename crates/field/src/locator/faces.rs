//! Faces of the cells of curvilinear zones, and the cells on a straight way.

use super::ZoneLocator;
use crate::catalog::DType;
use crate::domain::Neighbour;
use crate::field_selection::ZoneFields;
use crate::motion::moves_between;
use crate::nodes::{Miss, Nodes};
use crate::reference_cell::Hexahedron;
use crate::shape::{CellId, CellPoint, Face};
use crate::simd::V4;
use crate::time_interpolated::TimeInterpolated;

/// Most places examined along a particle's straight way, which misleads if it crosses more than half as many pages in a
/// window.
const LOOKS: f64 = 32.0;

impl<N: Nodes> ZoneLocator<N> {
    /// The cell beyond a face, in the same zone. The fractions along the face stay.
    #[inline(always)]
    pub(crate) fn beyond(&self, face: Face, on: &CellPoint) -> Neighbour<CellId> {
        let (axis, side) = (Hexahedron::axis(face.number), Hexahedron::side(face.number));
        let cells = self.nodes.zones()[face.cell.zone as usize].cells();
        let at = face.cell.ijk[axis];
        let to = if side == 1 {
            if at + 1 >= cells[axis] {
                return Neighbour::OtherDomain;
            }
            at + 1
        } else {
            match at.checked_sub(1) {
                Some(to) => to,
                None => return Neighbour::OtherDomain,
            }
        };
        // Computed anew: the read after a store to one index would stall (8 % of the executor's loop).
        let ijk = core::array::from_fn(|a| if a == axis { to } else { on.cell.ijk[a] });
        let rst = core::array::from_fn(|a| if a == axis { f64::from(1 - side) } else { on.rst[a] });
        Neighbour::Cell(CellPoint { cell: CellId { zone: on.cell.zone, ijk }, rst })
    }

    /// Whether a face is the entered one, seen from the cell beyond it.
    pub(crate) fn leads_back(entered: Face, over: Face) -> bool {
        let (axis, side) = (Hexahedron::axis(entered.number), Hexahedron::side(entered.number));
        let at = entered.cell.ijk[axis];
        let ahead = if side == 1 { at.checked_add(1) } else { at.checked_sub(1) };
        let mut cell = entered.cell;
        cell.ijk[axis] = ahead.unwrap_or(u32::MAX);
        cell == over.cell && axis == Hexahedron::axis(over.number) && side != Hexahedron::side(over.number)
    }

    /// Whether a face is all wall (iblank 2), or rests relative to the grid.
    pub(crate) fn is_wall(&mut self, face: Face) -> Result<bool, Miss> {
        let zone = face.cell.zone as usize;
        let on_face = |n: &usize| Hexahedron::has_corner(face.number, *n);
        if self.is_marked(face)? {
            return Ok(true);
        }
        let z = &self.nodes.zones()[zone];
        let (xyz, moves) = (z.xyz, !z.arrays[z.xyz].steady);
        let rounding = if z.arrays[xyz].dtype == DType::Float64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let v = self.vector_corners(face.cell);
        if let (true, Some(near)) = (moves, self.near) {
            let mut corners = [[V4::zero(); 8]; 3];
            let mut miss = v.err();
            let nodes = &mut self.nodes;
            for (step, corners) in near.steps().iter().zip(&mut corners) {
                nodes.set_step(*step);
                let found = nodes.vector(zone, xyz, face.cell.ijk, corners);
                miss = found.err().map_or(miss, |m| Some(Miss::worst([miss, Some(m), None])));
            }
            nodes.set_step(near.steps()[0]);
            let (Ok(v), None) = (v, miss) else { return Err(miss.unwrap_or(Miss::Absent)) };
            let with =
                |n: usize| near.moves_with(v[n].xyz(), &[0, 1, 2].map(|step: usize| corners[step][n].xyz()), rounding);
            return Ok((0..8).filter(on_face).all(with));
        }
        let v = v?;
        Ok((0..8).filter(on_face).all(|n| v[n].xyz() == [0.0; 3]))
    }

    /// Whether a face is all wall (iblank 2).
    fn is_marked(&mut self, face: Face) -> Result<bool, Miss> {
        let zone = face.cell.zone as usize;
        let Some(array) = self.nodes.zones()[zone].iblank else { return Ok(false) };
        let mut b = [0.0; 8];
        self.nodes.scalar(zone, array, 0, face.cell.ijk, &mut b)?;
        Ok((0..8).filter(|n| Hexahedron::has_corner(face.number, *n)).all(|n| b[n] == 2.0))
    }

    #[inline(always)]
    pub(crate) fn length(&mut self, cell: CellId) -> Result<f64, Miss> {
        match &self.lattices[cell.zone as usize] {
            Some(lattice) => Ok(lattice.shortest()),
            None => self.curved_length(cell),
        }
    }

    #[inline(never)]
    fn curved_length(&mut self, cell: CellId) -> Result<f64, Miss> {
        let l = self.geometry(cell)?;
        let (map, thin) = (l.map(), l.thin);
        // Four corners at which each edge begins or ends once. The longest of a direction's four edges counts. At a
        // polar axis one is a point, and a step scaled by the local width never passes the axis.
        let corners = [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]].map(|q| map.jacobian(q));
        let edge =
            |a: usize| corners.iter().map(|j| (0..3).map(|c| j[c][a] * j[c][a]).sum()).fold(0.0f64, f64::max).sqrt();
        // Without directions of one point.
        Ok((0..3).filter(|a| !thin[*a]).map(edge).filter(|e| *e > 0.0).fold(f64::INFINITY, f64::min))
    }

    /// See [`crate::domain::SeriesLocator::straight_on`].
    pub(crate) fn straight_on(&mut self, from: &CellPoint, vector: [f64; 3], time: f64, cells: &mut dyn FnMut(CellId)) {
        let cell = from.cell;
        cells(cell);
        let Some(map) = self.known_map(cell) else { return };
        let Some(rate) = map.computational(from.rst, vector) else { return };
        let zone = &self.nodes.zones()[cell.zone as usize];
        let (counts, page) = (zone.cells(), zone.translation.page);
        let way: [f64; 3] = core::array::from_fn(|a| rate[a] * time);
        let pages = (0..3).map(|a| way[a].abs() / f64::from(page[a])).fold(0.0, f64::max);
        if !pages.is_finite() {
            return;
        }
        let looks = (2.0 * pages).ceil().clamp(1.0, LOOKS);
        for n in 1..=looks as u32 {
            let share = f64::from(n) / looks;
            let at: [f64; 3] = core::array::from_fn(|a| f64::from(cell.ijk[a]) + from.rst[a] + way[a] * share);
            if (0..3).any(|a| !(at[a] >= 0.0 && at[a] < f64::from(counts[a]))) {
                return;
            }
            cells(CellId { zone: cell.zone, ijk: at.map(|x| x as u32) });
        }
    }
}

impl<N: Nodes> ZoneLocator<TimeInterpolated<N>> {
    /// [`Self::is_wall`] between two steps of a series, relative to the grid.
    pub(crate) fn is_wall_between(&mut self, face: Face, fields: [&[ZoneFields]; 2], time: f64) -> Result<bool, Miss> {
        let zone = face.cell.zone as usize;
        if self.is_marked(face)? {
            return Ok(true);
        }
        let mut places = [[V4::zero(); 8]; 2];
        let found = self.nodes.ends(zone, face.cell.ijk, &mut places);
        let v = match (found, self.both_vectors(face.cell, fields)) {
            (Ok(()), Ok(v)) => v,
            (a, b) => return Err(Miss::worst([a.err(), b.err(), None])),
        };
        let with = |n: usize| moves_between(v.map(|v| v[n].xyz()), places.map(|p| p[n].xyz()), time);
        Ok((0..8).filter(|n| Hexahedron::has_corner(face.number, *n)).all(with))
    }

    /// The traced vector at the corners of a cell, at both steps.
    fn both_vectors(&mut self, cell: CellId, fields: [&[ZoneFields]; 2]) -> Result<[[V4; 8]; 2], Miss> {
        let zone = cell.zone as usize;
        let mut found = [[V4::zero(); 8]; 2];
        let mut miss = None;
        for (later, fields) in fields.into_iter().enumerate() {
            self.nodes.set_later(later == 1);
            let vector = fields[zone].vector;
            let got = vector.corners(&mut self.nodes.at(zone, cell.ijk), &mut found[later]);
            miss = got.err().map_or(miss, |m| Some(Miss::worst([miss, Some(m), None])));
        }
        self.nodes.set_later(false);
        miss.map_or(Ok(found), Err)
    }
}
