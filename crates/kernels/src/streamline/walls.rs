//! The faces that a particle touches or moves towards.

use crate::flow::{DomainFlow, ParticlePosition};
use field::domain::Locator;
use field::nodes::Miss;
use field::reference_cell::ReferenceCell;
use field::shape::Face;
use field::simd::V4;

/// Distance of a touched face from a particle at rest, in cells.
const TOUCHES: f64 = 1e-9;

/// Whether a particle at rest touches a face that is a wall.
pub(super) fn rests_on_wall<L: Locator>(
    flow: &mut DomainFlow<L>,
    place: &ParticlePosition<L::Cell>,
) -> Result<bool, Miss> {
    let cell = place.spot.cell;
    for number in (0..L::Shape::FACES).filter(|n| L::Shape::touches(*n, place.spot.rst, TOUCHES)) {
        if flow.space.is_wall(Face { cell, number })? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The face that a particle in a cell moves towards.
pub(crate) fn facing<L: Locator>(
    flow: &mut DomainFlow<L>,
    place: &ParticlePosition<L::Cell>,
    v: V4,
    sign: f64,
) -> Result<Option<Face<L::Cell>>, Miss> {
    let l = flow.space.geometry(place.spot.cell)?;
    let q = place.spot.rst;
    let Some(k) = l.map().computational(q, v.xyz().map(|c| c * sign)) else { return Ok(None) };
    let mut first: Option<(f64, u32)> = None;
    for number in 0..L::Shape::FACES {
        let speed = L::Shape::height(number, k);
        // A speed of NaN counts as one towards the lower face.
        let towards = speed != 0.0 && (speed > 0.0) == L::Shape::is_upper(number);
        if !towards || L::Shape::is_thin(number, l.thin) {
            continue;
        }
        let t = (L::Shape::level(number) - L::Shape::height(number, q)) / speed;
        if first.is_none_or(|f| t < f.0) {
            first = Some((t, number));
        }
    }
    Ok(first.map(|(_, number)| Face { cell: place.spot.cell, number }))
}
