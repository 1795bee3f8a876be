//! A particle on a face beyond which its domain has no usable cell: it is in another domain, across a seam, or has left.

use super::{rate, Options, StepContext, Streamline, StreamlineState};
use crate::flow::{DomainFlow, Exit, ParticlePosition};
use field::cell::Inverse;
use field::domain::{Boundary, Locator, Neighbour};
use field::locator::{Blank, CellPoint};
use field::nodes::Miss;
use field::reference_cell::ReferenceCell;
use field::shape::{DomainCell, Face};
use field::simd::V4;

/// Distance beyond the face, in cells, at which a particle that leaves a zone is searched. It exceeds the tolerance
/// that would find the particle in the cell it leaves.
const BEYOND: f64 = 1e-6;
/// Largest distance of the point itself from there, in cells of the other zone. Otherwise the found cell does not touch
/// it.
const NEAR: f64 = 1e-3;
/// Further distances ahead, in cells, if no zone and no wall is there. Abutting zones may have gaps: their coordinates
/// are rounded, and faces of a curved interface with unlike spacing touch in points only.
const GAPS: [f64; 3] = [1e-4, 1e-2, 0.1];

impl<C: DomainCell> Streamline<C> {
    /// Locates a particle on a face beyond which its zone has no usable cell.
    pub(super) fn beyond<L: Locator<Cell = C>>(
        &mut self,
        flow: &mut DomainFlow<L>,
        options: &Options,
        place: ParticlePosition<C>,
        face: Face<C>,
        exit: Exit,
    ) -> Result<(), Miss> {
        let from = face.cell;
        flow.space.cell(from)?;
        if let (Exit::Left, Neighbour::Boundary(boundary)) = (exit, flow.space.beyond(face, &place.spot)) {
            return self.end_half(flow, options, exit.reason(boundary == Boundary::Wall));
        }
        let l = flow.space.cell(from)?;
        let named = if let Blank::Fringe(z) = l.blank { Some(z) } else { None };
        // The particle's fractions in the cell that it leaves.
        let mut q = place.spot.rst;
        if exit == Exit::Hole {
            q = L::Shape::onto_face(q, face.number);
        }
        let k = (rate(StepContext::new(&l.map(), &l.vector, l.thin), V4::from_xyz(q)).r * V4::splat(self.sign)).xyz();
        let past = L::Shape::past(face.number, q, k, BEYOND);
        let v = l.vector.at(q);
        let x = l.map().point(past);
        let mut found = if x.iter().all(|c| c.is_finite()) {
            flow.cross(V4::from_xyz(x), from.domain(), named, exit == Exit::Left)?
        } else {
            None
        };
        if let Some(spot) = &mut found {
            // It was searched beyond the face, and continues from its place on the face.
            let l = flow.space.geometry(spot.cell)?;
            if let Inverse::At(q) = l.map().invert(V4::from_xyz(self.x), spot.rst) {
                let on = L::Shape::onto(q, l.thin);
                if (0..3).all(|a| (on[a] - q[a]).abs() <= BEYOND && (on[a] - spot.rst[a]).abs() <= NEAR) {
                    spot.rst = on;
                }
            }
        }
        let wall = found.is_none() && flow.space.is_wall(face)?;
        if found.is_none() && exit == Exit::Left && !wall {
            let cell_time = 1.0 / L::Shape::height(face.number, k).abs();
            found = self.over_gap(flow, options, from.domain(), v, cell_time)?;
        }
        match found {
            Some(spot) => {
                // A fringe cell is kept if it is the only one here: its named zone is the one just left, or has no cell
                // here.
                let kept_fringe = matches!(flow.space.cell(spot.cell)?.blank, Blank::Fringe(_)).then_some(spot.cell);
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

    /// Continues straight over a gap between zones, if there is one, to a zone that contains the particle again.
    /// `cell_time` is the time to cross a cell like the last.
    #[cold]
    fn over_gap<L: Locator<Cell = C>>(
        &mut self,
        flow: &mut DomainFlow<L>,
        options: &Options,
        zone: u32,
        v: V4,
        cell_time: f64,
    ) -> Result<Option<CellPoint<C>>, Miss> {
        let speed = v.length3();
        for gap in GAPS {
            let dt = gap * cell_time;
            let x = V4::from_xyz(self.x).fma(v, V4::splat(self.sign * dt));
            // A limit of the line ends it here.
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
