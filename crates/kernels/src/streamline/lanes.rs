//! Four lines at a time.

use super::{next_step, Face, Integrator, Options, StepProgress, Streamline, StreamlineState, GROW_MAX};
use crate::cellsteps::{take, CellLanes, Starts, StepEnds};
use crate::flow::{GridFlow, ParticlePosition};
use crate::line::Reason;
use field::locator::{Blank, CellId, CellPoint, LANES};
use field::nodes::{Miss, Nodes};

/// One restartable step of up to four lines, each in its lane of the space. `report` is called once for each line, with what
/// [`Streamline::step`] would have said of it: first for the lines whose cells are absent, then for the others, both in lane
/// order. Absent pages stand in the flow's nodes until `report` returns. What comes of a line does not depend on the other lanes.
#[inline(always)]
pub fn step_lanes<N: Nodes>(
    flow: &mut GridFlow<N>,
    options: &Options,
    mut lines: [Option<&mut Streamline>; LANES],
    mut report: impl FnMut(usize, &mut GridFlow<N>, &mut Streamline, Result<StepProgress, Miss>),
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
    let mut cells = [CellId::default(); LANES];
    let mut places: [Option<ParticlePosition>; LANES] = [None; LANES];
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

impl Streamline {
    /// Where the particle is, with its cell loaded, if its next step may be an ordinary one: in a whole cell of its zone.
    #[inline(always)]
    fn ordinary<N: Nodes>(&self, flow: &mut GridFlow<N>, options: &Options) -> Result<Option<ParticlePosition>, Miss> {
        let StreamlineState::Run(place) = self.state else { return Ok(None) };
        if options.method != Integrator::Rk45 || self.stopped || self.line.half_steps() + 1 >= options.max_steps {
            return Ok(None);
        }
        let cell = place.spot.cell;
        // A fringe sends the particle on to another zone: nothing else of its cell is wanted. (If iblank is absent, so that this
        // is not known, everything is asked for; and it may come between the two looks.)
        let stays = |blank: Blank| match blank {
            Blank::Field => true,
            Blank::Fringe(_) => place.kept_fringe == Some(cell),
            Blank::Hole => false,
        };
        if flow.space.blank(cell).is_ok_and(|blank| !stays(blank)) {
            return Ok(None);
        }
        let l = flow.space.full(cell)?;
        Ok((stays(l.blank) && l.thin == [false; 3]).then_some(place))
    }

    #[inline(always)]
    fn start(&self, starts: &mut Starts, lane: usize, place: &ParticlePosition, options: &Options) {
        for c in 0..3 {
            starts.q[c][lane] = place.spot.rst[c];
            starts.x[c][lane] = self.x[c];
        }
        starts.h[lane] = self.h.min(options.max_time - self.line.half_time());
        starts.sign[lane] = self.sign;
        starts.high[lane] = self.high > 1;
        starts.used[lane] = true;
    }

    /// Takes over the end of an ordinary step. False where it is the half's last, or leads nowhere: then it is taken alone.
    #[inline(always)]
    fn finish<N: Nodes>(
        &mut self,
        flow: &mut GridFlow<N>,
        options: &Options,
        place: &ParticlePosition,
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
        let face = (ends.axis[n] >= 0.0).then(|| Face { cell, axis: ends.axis[n] as usize, side: ends.side[n] as u32 });
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
