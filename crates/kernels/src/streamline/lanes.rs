//! Four lines at a time.

use super::{next_step, Integrator, Options, StepProgress, Streamline, StreamlineState, GROW_MAX};
use crate::cellsteps::{take, CellLanes, Starts, StepEnds};
use crate::flow::{DomainFlow, ParticlePosition};
use crate::line::Reason;
use field::domain::Locator;
use field::locator::{Blank, CellPoint, LANES};
use field::nodes::Miss;
use field::reference_cell::{Hexahedron, ReferenceCell};
use field::shape::{DomainCell, Face};

/// One restartable step of up to four lines, each in its lane of the space.
///
/// `report` is called once for each line, with the result that [`Streamline::step`] would give. Lines with absent cells
/// come first, then the others, both in lane order. Absent pages are listed in the flow's locator until `report`
/// returns. The result of a line does not depend on the other lanes.
#[inline(always)]
pub fn step_lanes<L: Locator>(
    flow: &mut DomainFlow<L>,
    options: &Options,
    mut lines: [Option<&mut Streamline<L::Cell>>; LANES],
    mut report: impl FnMut(usize, &mut DomainFlow<L>, &mut Streamline<L::Cell>, Result<StepProgress, Miss>),
) {
    let mut starts = Starts {
        q: [[0.5; LANES]; 3],
        x: [[0.0; LANES]; 3],
        h: [0.0; LANES],
        sign: [1.0; LANES],
        tolerance: options.tolerance,
        longest: options.max_step.unwrap_or(f64::INFINITY),
        high: [false; LANES],
        used: [false; LANES],
    };
    let mut cells = [L::Cell::NOWHERE; LANES];
    let mut places: [Option<ParticlePosition<L::Cell>>; LANES] = [None; LANES];
    for (n, line) in lines.iter_mut().enumerate() {
        let Some(l) = line else { continue };
        flow.space.take_turn(n);
        match l.ordinary(flow, options) {
            Ok(Some(place)) => {
                l.start(&mut starts, n, &place, options);
                cells[n] = place.spot.cell;
                places[n] = Some(place);
            }
            Ok(None) => {}
            Err(miss) => {
                report(n, flow, l, Err(miss));
                *line = None;
            }
        }
    }
    let ends = starts.used.contains(&true).then(|| {
        let first = starts.used.iter().position(|u| *u).unwrap_or(0);
        let kept = |n: usize| {
            let lane = if starts.used[n] { n } else { first };
            flow.space.kept(lane, cells[lane])
        };
        let loaded = [kept(0), kept(1), kept(2), kept(3)];
        take(&CellLanes::new(loaded.map(|l| &l.shape), loaded.map(|l| l.vector.monomials())), &starts)
    });
    for (n, line) in lines.iter_mut().enumerate() {
        let Some(line) = line else { continue };
        flow.space.take_turn(n);
        let done = match (&ends, &places[n]) {
            (Some(ends), Some(place)) if ends.ordinary >> n & 1 == 1 => line.finish(flow, options, place, ends, n),
            _ => Ok(false),
        };
        let result = match done {
            Ok(true) => Ok(()),
            Ok(false) => match line.state {
                StreamlineState::Run(_)
                | StreamlineState::Beyond(..)
                | StreamlineState::Rest(..)
                | StreamlineState::Physical(..)
                    if line.stopped =>
                {
                    line.end_half(flow, options, Reason::Stopped)
                }
                StreamlineState::Run(place) => {
                    let inexact = ends.as_ref().is_some_and(|e| e.inexact >> n & 1 == 1);
                    line.cell_step(flow, options, place, inexact && !starts.high[n])
                }
                _ => line.rare_step(flow, options),
            },
            Err(miss) => Err(miss),
        };
        let result = result.map(|()| line.progress());
        report(n, flow, line, result);
    }
}

impl<C: DomainCell> Streamline<C> {
    /// The particle's place, with its cell loaded, if its next step may be an ordinary one: in a whole cube of its
    /// domain.
    #[inline(always)]
    fn ordinary<L: Locator<Cell = C>>(
        &self,
        flow: &mut DomainFlow<L>,
        options: &Options,
    ) -> Result<Option<ParticlePosition<C>>, Miss> {
        if !L::Shape::IS_CUBE {
            return Ok(None);
        }
        let StreamlineState::Run(place) = self.state else { return Ok(None) };
        if options.method != Integrator::Rk45 || self.stopped || self.line.half_steps() + 1 >= options.max_steps {
            return Ok(None);
        }
        let cell = place.spot.cell;
        // A fringe moves the particle to another zone: no more of its cell is needed. If iblank is absent, this is
        // unknown, and everything is requested. Iblank may also arrive between the two checks.
        let stays = |blank: Blank| match blank {
            Blank::Field => true,
            Blank::Fringe(_) => place.kept_fringe == Some(cell),
            Blank::Hole => false,
        };
        if flow.space.blank(cell).is_ok_and(|blank| !stays(blank)) {
            return Ok(None);
        }
        let l = flow.space.cell(cell)?;
        Ok((stays(l.blank) && l.thin == [false; 3]).then_some(place))
    }

    #[inline(always)]
    fn start(&self, starts: &mut Starts, lane: usize, place: &ParticlePosition<C>, options: &Options) {
        for c in 0..3 {
            starts.q[c][lane] = place.spot.rst[c];
            starts.x[c][lane] = self.x[c];
        }
        starts.h[lane] = self.h.min(options.max_time - self.line.half_time());
        starts.sign[lane] = self.sign;
        starts.high[lane] = self.high > 1;
        starts.used[lane] = true;
    }

    /// Stores the end of an ordinary step. False for the half's last step, or one without motion: such a step is taken
    /// alone.
    #[inline(always)]
    fn finish<L: Locator<Cell = C>>(
        &mut self,
        flow: &mut DomainFlow<L>,
        options: &Options,
        place: &ParticlePosition<C>,
        ends: &StepEnds,
        n: usize,
    ) -> Result<bool, Miss> {
        let (chord, dt, h) = (ends.chord[n], ends.dt[n], ends.h[n]);
        let length_left = options.max_length - self.line.half_length();
        let time_left = options.max_time - self.line.half_time();
        if !(dt > 0.0 && chord < length_left && dt < time_left) {
            return Ok(false);
        }
        let cell = place.spot.cell;
        let spot = CellPoint { cell, rst: [ends.q[0][n], ends.q[1][n], ends.q[2][n]] };
        let x = [ends.x[0][n], ends.x[1][n], ends.x[2][n]];
        self.record(flow, options, &spot, x, dt)?;
        self.line.advance(chord);
        self.x = x;
        self.h = if self.high > 1 { next_step(self.h, h, ends.ratio2[n]) } else { self.h.max(h * GROW_MAX) };
        self.high = self.high.saturating_sub(1);
        self.carried = None;
        self.stood = 0;
        let number = || Hexahedron::face(ends.axis[n] as usize, ends.side[n] as u32);
        let face = (ends.axis[n] >= 0.0).then(|| Face { cell, number: number() });
        let next = ParticlePosition { spot, kept_fringe: place.kept_fringe };
        self.fastest = self.fastest.max(ends.speed[n]);
        if options.terminal_speed.rests(ends.speed[n], self.fastest) {
            self.state = StreamlineState::Rest(next, face);
        } else {
            self.go_over(flow, next, face);
        }
        Ok(true)
    }
}
