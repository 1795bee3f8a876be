//! Whether what a particle runs into is a wall.

use super::Face;
use crate::flow::{GridFlow, ParticlePosition};
use crate::unsteady::UnsteadyFlow;
use field::catalog::DType;
use field::motion::moves_between;
use field::nodes::{Miss, Nodes};
use field::simd::V4;

/// Whether a face is all wall (iblank 2) or all at rest: where its grid moves, relative to that.
pub(crate) fn is_wall<N: Nodes>(flow: &mut GridFlow<N>, face: Face) -> Result<bool, Miss> {
    let zone = face.cell.zone as usize;
    let on_face = |n: usize| (n >> face.axis) & 1 == face.side as usize;
    if is_marked(&mut flow.space.nodes, face)? {
        return Ok(true);
    }
    let z = &flow.space.nodes.zones()[zone];
    let (xyz, moves) = (z.xyz, !z.arrays[z.xyz].steady);
    let rounding = if z.arrays[xyz].dtype == DType::Float64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let v = flow.space.vector_corners(face.cell);
    if let (true, Some(near)) = (moves, flow.near) {
        let mut corners = [[V4::zero(); 8]; 3];
        let mut miss = v.err();
        let nodes = &mut flow.space.nodes;
        for (step, corners) in near.steps().iter().zip(&mut corners) {
            nodes.set_step(*step);
            let found = nodes.vector(zone, xyz, face.cell.ijk, corners);
            miss = found.err().map_or(miss, |m| Some(Miss::worst([miss, Some(m), None])));
        }
        nodes.set_step(near.steps()[0]);
        let (Ok(v), None) = (v, miss) else { return Err(miss.unwrap_or(Miss::Absent)) };
        let with =
            |n: usize| near.moves_with(v[n].xyz(), &[0, 1, 2].map(|step: usize| corners[step][n].xyz()), rounding);
        return Ok((0..8).filter(|n| on_face(*n)).all(with));
    }
    let v = v?;
    Ok((0..8).filter(|n| on_face(*n)).all(|n| v[n].xyz() == [0.0; 3]))
}

/// Whether a face is all wall (iblank 2).
fn is_marked<N: Nodes>(nodes: &mut N, face: Face) -> Result<bool, Miss> {
    let zone = face.cell.zone as usize;
    let Some(array) = nodes.zones()[zone].iblank else { return Ok(false) };
    let mut b = [0.0; 8];
    nodes.scalar(zone, array, 0, face.cell.ijk, &mut b)?;
    Ok((0..8).filter(|n| (n >> face.axis) & 1 == face.side as usize).all(|n| b[n] == 2.0))
}

/// As [`is_wall`], between two steps of a series: all is relative to the grid.
pub(crate) fn is_wall_between<N: Nodes>(flow: &mut UnsteadyFlow<N>, face: Face) -> Result<bool, Miss> {
    let (zone, ijk) = (face.cell.zone as usize, face.cell.ijk);
    let Some(time) = flow.time_between(zone) else { return is_wall(&mut flow.grid, face) };
    if is_marked(&mut flow.grid.space.nodes, face)? {
        return Ok(true);
    }
    let mut places = [[V4::zero(); 8]; 2];
    let found = flow.grid.space.nodes.ends(zone, ijk, &mut places);
    let v = match (found, flow.both_vectors(face.cell)) {
        (Ok(()), Ok(v)) => v,
        (a, b) => return Err(Miss::worst([a.err(), b.err(), None])),
    };
    let on_face = |n: &usize| (n >> face.axis) & 1 == face.side as usize;
    let with = |n: usize| moves_between(v.map(|v| v[n].xyz()), places.map(|p| p[n].xyz()), time);
    Ok((0..8).filter(on_face).all(with))
}

/// Whether a particle at rest touches a face that is a wall.
pub(super) fn rests_on_wall<N: Nodes>(flow: &mut GridFlow<N>, place: &ParticlePosition) -> Result<bool, Miss> {
    for axis in 0..3 {
        let side = if place.spot.rst[axis] <= 1e-9 {
            0
        } else if place.spot.rst[axis] >= 1.0 - 1e-9 {
            1
        } else {
            continue;
        };
        if is_wall(flow, Face { cell: place.spot.cell, axis, side })? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The face that a particle in a cell moves towards.
pub(crate) fn facing<N: Nodes>(
    flow: &mut GridFlow<N>,
    place: &ParticlePosition,
    v: V4,
    sign: f64,
) -> Result<Option<Face>, Miss> {
    let l = flow.space.shape(place.spot.cell)?;
    let q = place.spot.rst;
    let Some(k) = l.map().computational(q, v.xyz().map(|c| c * sign)) else { return Ok(None) };
    let mut first: Option<(f64, Face)> = None;
    for a in 0..3 {
        if k[a] == 0.0 || l.thin[a] {
            continue;
        }
        let side = u32::from(k[a] > 0.0);
        let t = (f64::from(side) - q[a]) / k[a];
        if first.is_none_or(|f| t < f.0) {
            first = Some((t, Face { cell: place.spot.cell, axis: a, side }));
        }
    }
    Ok(first.map(|f| f.1))
}
