//! A particle on a face beyond which its zone has no usable cell: it is in another zone, across a seam, or has left.

use super::walls::is_wall;
use super::{on_cell, rate, Face, Options, StepContext, Streamline, StreamlineState};
use crate::flow::{Exit, GridFlow, ParticlePosition};
use field::cell::Inverse;
use field::locator::{Blank, CellPoint};
use field::nodes::{Miss, Nodes};
use field::simd::V4;

/// A particle that leaves a zone is looked for this far beyond the face, in cells: beyond the tolerance that would find it
/// in the cell it has just left.
const BEYOND: f64 = 1e-6;
/// The point itself is at most this far from there, in cells of the other zone: else the cell found is not one that it stands on.
const NEAR: f64 = 1e-3;
/// Where nothing is there, and no wall, it is looked for this much farther ahead, since zones that abut may gape: their coordinates
/// are rounded, and faces of a curved interface with unlike spacing touch in points only.
const GAPS: [f64; 3] = [1e-4, 1e-2, 0.1];

impl Streamline {
    /// Finds a particle that stands on a face beyond which its zone has no usable cell.
    pub(super) fn beyond<N: Nodes>(
        &mut self,
        flow: &mut GridFlow<N>,
        options: &Options,
        place: ParticlePosition,
        face: Face,
        exit: Exit,
    ) -> Result<(), Miss> {
        let from = face.cell;
        let l = flow.space.full(from)?;
        let named = if let Blank::Fringe(z) = l.blank { Some(z) } else { None };
        // The particle's fractions in the cell that it comes from.
        let mut q = place.spot.rst;
        if exit == Exit::Hole {
            q[face.axis] = f64::from(face.side);
        }
        let k = (rate(StepContext::new(&l.map(), &l.vector, l.thin), V4::from_xyz(q)).r * V4::splat(self.sign)).xyz();
        let out = if face.side == 1 { BEYOND } else { -BEYOND };
        let along = out / k[face.axis];
        let past: [f64; 3] = core::array::from_fn(|a| match k[a] * along {
            _ if a == face.axis => q[a] + out,
            // It came to the face and moves along it now: the way is 0 times infinity.
            way if way.is_nan() => q[a],
            way => q[a] + way.clamp(-BEYOND, BEYOND),
        });
        let v = l.vector.at(q);
        let x = l.map().point(past);
        let mut found = if x.iter().all(|c| c.is_finite()) {
            flow.cross(V4::from_xyz(x), from.zone, named, exit == Exit::Left)?
        } else {
            None
        };
        if let Some(spot) = &mut found {
            // It was looked for beyond the face, and stands upon it: from there it goes on.
            let l = flow.space.shape(spot.cell)?;
            if let Inverse::At(q) = l.map().invert(V4::from_xyz(self.x), spot.rst) {
                let on = on_cell(q, l.thin);
                if (0..3).all(|a| (on[a] - q[a]).abs() <= BEYOND && (on[a] - spot.rst[a]).abs() <= NEAR) {
                    spot.rst = on;
                }
            }
        }
        let wall = found.is_none() && is_wall(flow, face)?;
        if found.is_none() && exit == Exit::Left && !wall {
            let cell_time = 1.0 / k[face.axis].abs();
            found = self.over_gap(flow, options, from.zone, v, cell_time)?;
        }
        match found {
            Some(spot) => {
                // A fringe cell that is all there is here is kept: the zone that it names is the one just left, or has nothing.
                let kept_fringe = matches!(flow.space.full(spot.cell)?.blank, Blank::Fringe(_)).then_some(spot.cell);
                self.carried = None;
                self.entered = Some(face);
                self.state = StreamlineState::Run(ParticlePosition { spot, kept_fringe });
                Ok(())
            }
            None => {
                let reason = exit.reason(wall);
                self.end_half(flow, options, reason)
            }
        }
    }

    /// Goes straight on over a gap between zones, if there is one: to where a zone holds the particle again. `cell_time` is the time in
    /// which it would cross a cell like the one that it leaves.
    #[cold]
    fn over_gap<N: Nodes>(
        &mut self,
        flow: &mut GridFlow<N>,
        options: &Options,
        zone: u32,
        v: V4,
        cell_time: f64,
    ) -> Result<Option<CellPoint>, Miss> {
        let speed = v.length3();
        for gap in GAPS {
            let dt = gap * cell_time;
            let x = V4::from_xyz(self.x).fma(v, V4::splat(self.sign * dt));
            // What would end the line ends it here.
            let ends = dt >= options.max_time - self.line.half_time()
                || speed * dt >= options.max_length - self.line.half_length()
                || self.line.half_steps() + 1 >= options.max_steps;
            if ends || !x.is_finite_xyz() {
                break;
            }
            if let Some(spot) = flow.cross(x, zone, None, true)? {
                self.record(flow, options, &spot, x.xyz(), dt)?;
                self.line.advance(speed * dt);
                self.x = x.xyz();
                self.stood = 0;
                return Ok(Some(spot));
            }
        }
        Ok(None)
    }
}
