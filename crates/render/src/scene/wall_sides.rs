//! The side of a wall with the flow, and whether walls enclose the flow.
//!
//! # Theory
//! A wall hides the flow next to it if its flow side points away from the eye. On a body in a flow this is the back,
//! which its front hides anyway. In a pipe it is the near half. So a picture of an enclosed flow draws each wall from
//! its flow side alone.
//!
//! Gauss's theorem shows which flows are enclosed. Let `x` be the position from the middle of the walls, and `n` the
//! normal towards the flow. The integral of `x . n` over the walls is three times the volume of a closed body, and
//! minus three times that of a closed room. For a plate it is zero. For an open part of a body it keeps the body's
//! sign.

use crate::picture::VisibleSides;
use field::dataset::Dataset;
use field::error::FieldError;
use field::quantity::Quantity;
use glam::DVec3;
use runtime::gridface::{along, GridFace};
use runtime::session::{ProgressWatch, Session};
use runtime::values::{read_box, NodeBox};

/// Places along each direction of a face where the next layer of points is compared with it.
const COMPARED: u32 = 5;

/// Least share of the integral of a sphere around the flow, with the same area, for enclosing walls. It exceeds the
/// rounding errors of a plate.
const ENCLOSED: f64 = 1e-3;

/// The side of a face with its zone. Both, if the zone is one point thick or its cells there have no volume.
///
/// # Errors
/// [`FieldError`] of a failed page, [`FieldError::Interrupted`].
pub(super) fn flow_side(
    session: &Session,
    dataset: &Dataset,
    face: &GridFace,
    step: usize,
    watch: &mut ProgressWatch<'_>,
) -> Result<VisibleSides, FieldError> {
    let z = &dataset.zones[face.zone];
    let dims = z.dims();
    let components = z.arrays[z.xyz].components;
    let [a, b] = along(face.axis);
    if components < 3 || [a, b, face.axis].iter().any(|axis| dims[*axis] < 2) || face.points().contains(&1) {
        return Ok(VisibleSides::Both);
    }
    let inner = if face.index == 0 { 1 } else { face.index - 1 };
    let position = [Quantity::Stored { array: z.xyz, components }];
    let spread = |n: usize, at: u32| {
        let cells = face.to[n] - face.from[n] - 1;
        face.from[n] + (u64::from(cells - 1) * u64::from(at) / u64::from(COMPARED - 1)) as u32
    };
    let mut votes = 0i32;
    for at in 0..COMPARED * COMPARED {
        let (mut lo, mut hi) = ([0; 3], [0; 3]);
        (lo[a], lo[b], lo[face.axis]) = (spread(0, at % COMPARED), spread(1, at / COMPARED), face.index.min(inner));
        (hi[a], hi[b], hi[face.axis]) = (lo[a] + 2, lo[b] + 2, face.index.max(inner) + 1);
        let v = read_box(session, dataset, NodeBox { zone: face.zone, step, lo, hi }, &position, watch)?;
        // The bits of a corner's number are its places along i, j, k.
        let corner = |n: usize| DVec3::new(v[n], v[8 + n], v[16 + n]);
        let layer = |index: u32| usize::from(index > face.index.min(inner)) << face.axis;
        let (own, next) = (layer(face.index), layer(inner));
        let [p, q, r, s] = [0, 1 << a, (1 << a) + (1 << b), 1 << b];
        let normal = (corner(own + r) - corner(own + p)).cross(corner(own + s) - corner(own + q));
        let inward = [p, q, r, s].iter().fold(DVec3::ZERO, |sum, n| sum + corner(next + n) - corner(own + n));
        let towards = normal.dot(inward);
        votes += i32::from(towards > 0.0) - i32::from(towards < 0.0);
    }
    Ok(match votes.signum() {
        1 => VisibleSides::Front,
        -1 => VisibleSides::Back,
        _ => VisibleSides::Both,
    })
}

/// Integrals over all walls.
#[derive(Default)]
pub(super) struct Enclosure {
    /// Origin of positions, so that no digits are lost far from zero.
    origin: Option<DVec3>,
    area: f64,
    /// Integrals of the position, its square, the normal, and the product of position and normal.
    place: DVec3,
    square: f64,
    normal: DVec3,
    product: f64,
}

/// A wall that is added to an [`Enclosure`].
pub(super) struct Side<'a> {
    of: &'a mut Enclosure,
    sign: f64,
    below: Vec<DVec3>,
}

impl Enclosure {
    /// Adds a wall, row by row.
    pub(super) fn side(&mut self, seen_from: VisibleSides) -> Side<'_> {
        let sign = match seen_from {
            VisibleSides::Front => 1.0,
            VisibleSides::Back => -1.0,
            VisibleSides::Both => 0.0,
        };
        Side { of: self, sign, below: Vec::new() }
    }

    /// Whether the walls enclose the flow.
    pub(super) fn encloses(&self) -> bool {
        let middle = self.place / self.area;
        let radius = (self.square / self.area - middle.length_squared()).max(0.0).sqrt();
        self.product - middle.dot(self.normal) < -ENCLOSED * self.area * radius
    }
}

impl Side<'_> {
    /// Adds the next row of points.
    pub(super) fn row(&mut self, points: &[[f64; 3]]) {
        let row: Vec<DVec3> = points.iter().map(|p| DVec3::from_array(*p)).collect();
        if self.sign != 0.0 && self.below.len() == row.len() {
            for (below, above) in self.below.windows(2).zip(row.windows(2)) {
                let middle = (below[0] + below[1] + above[0] + above[1]) * 0.25;
                let normal = (above[1] - below[0]).cross(above[0] - below[1]) * (0.5 * self.sign);
                if !(middle.is_finite() && normal.is_finite()) {
                    continue;
                }
                let middle = middle - *self.of.origin.get_or_insert(middle);
                let area = normal.length();
                self.of.area += area;
                self.of.place += middle * area;
                self.of.square += middle.length_squared() * area;
                self.of.normal += normal;
                self.of.product += middle.dot(normal);
            }
        }
        self.below = row;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sphere, or the first `share` of its latitudes, seen from outside or inside.
    fn sphere(enclosure: &mut Enclosure, radius: f64, middle: [f64; 3], share: f64, outside: bool) {
        let mut side = enclosure.side(if outside { VisibleSides::Front } else { VisibleSides::Back });
        for j in 0..=20 {
            let (b_sin, b_cos) = (std::f64::consts::PI * share * f64::from(j) / 20.0).sin_cos();
            let at = |i: i32| {
                let (sin, cos) = (std::f64::consts::TAU * f64::from(i) / 40.0).sin_cos();
                // The order of points makes the normal point outwards as latitudes go down from the pole.
                [middle[0] + radius * b_sin * cos, middle[1] - radius * b_sin * sin, middle[2] + radius * b_cos]
            };
            side.row(&(0..=40).map(at).collect::<Vec<_>>());
        }
    }

    fn plate(enclosure: &mut Enclosure, height: f64, up: bool) {
        let mut side = enclosure.side(if up { VisibleSides::Front } else { VisibleSides::Back });
        for j in 0..9 {
            side.row(&(0..9).map(|i| [f64::from(i), f64::from(j), height]).collect::<Vec<_>>());
        }
    }

    fn walls(make: impl FnOnce(&mut Enclosure)) -> bool {
        let mut enclosure = Enclosure::default();
        make(&mut enclosure);
        enclosure.encloses()
    }

    #[test]
    fn rooms_enclose_a_flow_and_bodies_do_not() {
        for far in [[0.0; 3], [1e6, -3e6, 2e6]] {
            assert!(walls(|e| sphere(e, 2.0, far, 1.0, false)));
            assert!(!walls(|e| sphere(e, 2.0, far, 1.0, true)));
            // Half a body, at a plane of symmetry, and half a room.
            assert!(!walls(|e| sphere(e, 2.0, far, 0.5, true)));
            assert!(walls(|e| sphere(e, 2.0, far, 0.5, false)));
            // A body in a room.
            assert!(walls(|e| {
                sphere(e, 1.0, far, 1.0, true);
                sphere(e, 5.0, far, 1.0, false);
            }));
        }
    }

    #[test]
    fn plates_enclose_nothing_but_what_lies_between_two() {
        assert!(!walls(|e| plate(e, 0.0, true)));
        assert!(!walls(|_| ()));
        assert!(walls(|e| {
            plate(e, 0.0, true);
            plate(e, 1.0, false);
        }));
        // A thin body: its upper side faces up.
        assert!(!walls(|e| {
            plate(e, 0.0, false);
            plate(e, 0.1, true);
        }));
    }
}
