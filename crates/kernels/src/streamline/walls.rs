//! Whether what a particle runs into is a wall.

use super::Face;
use crate::flow::{GridFlow, Place};
use field::nodes::{Miss, Nodes};
use field::simd::V4;

/// Whether a face is all wall (iblank 2) or all at rest.
pub(crate) fn is_wall<N: Nodes>(flow: &mut GridFlow<N>, face: Face) -> Result<bool, Miss> {
    let zone = face.cell.zone as usize;
    let on_face = |n: usize| (n >> face.axis) & 1 == face.side as usize;
    if let Some(array) = flow.space.nodes.zones()[zone].iblank {
        let mut b = [0.0; 8];
        flow.space.nodes.scalar(zone, array, 0, face.cell.ijk, &mut b)?;
        if (0..8).filter(|n| on_face(*n)).all(|n| b[n] == 2.0) {
            return Ok(true);
        }
    }
    let v = flow.space.vector_corners(face.cell)?;
    Ok((0..8).filter(|n| on_face(*n)).all(|n| v[n].xyz() == [0.0; 3]))
}

/// Whether a particle at rest touches a face that is a wall.
pub(super) fn rests_on_wall<N: Nodes>(flow: &mut GridFlow<N>, place: &Place) -> Result<bool, Miss> {
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
pub(crate) fn facing<N: Nodes>(flow: &mut GridFlow<N>, place: &Place, v: V4, sign: f64) -> Result<Option<Face>, Miss> {
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
