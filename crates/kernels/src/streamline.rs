//! The streamline of one seed as a restartable task.

mod crossing;
mod lanes;
mod options;
pub(crate) mod physical;
pub(crate) mod walls;

use crate::cellstep::{rate, CellStep, Rate, StepContext};
use crate::flow::{DomainFlow, Exit, ParticlePosition};
use crate::line::{Half, JoinedLine, Line, Reason};
use crate::rk::Stepper;
use field::cell::interpolate_scalar;
use field::domain::{Locator, Neighbour};
use field::locator::{Blank, CellId, CellPoint};
use field::nodes::Miss;
use field::reference_cell::ReferenceCell;
use field::shape::{DomainCell, Face};
use field::simd::V4;
pub use lanes::step_lanes;
pub use options::{Direction, Integrator, Options, Seed, TerminalSpeed};
use walls::rests_on_wall;

/// The result of a step.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StepProgress {
    /// The task is finished.
    Done,
    /// Pages are absent, and listed by the accessor. Nothing has changed.
    Need,
    /// A step was made.
    Yield,
}

#[derive(Clone, Debug)]
enum StreamlineState<C> {
    /// The seed must be located.
    Locate,
    /// A step within a cell comes next.
    Run(ParticlePosition<C>),
    /// The particle is on a face and must be located beyond it: in another domain, or across a seam.
    Beyond(ParticlePosition<C>, Face<C>, Exit),
    /// The particle is at rest; the face decides whether that is a wall.
    Rest(ParticlePosition<C>, Option<Face<C>>),
    /// A step in physical space is in progress.
    Physical(Box<Stepper<ParticlePosition<C>>>, ParticlePosition<C>),
    Finished,
}

/// One seed's streamline.
#[derive(Clone, Debug)]
pub struct Streamline<C = CellId> {
    seed: Seed,
    sign: f64,
    state: StreamlineState<C>,
    /// The place of the seed, where the second half starts.
    origin: Option<(ParticlePosition<C>, [f64; 3])>,
    /// Rate at the current point, if the last step computed it, and its cell.
    carried: Option<(C, Rate)>,
    /// Remaining steps without an attempt of the low order.
    high: u8,
    /// The entry face of the current cell, as a face of the last cell.
    entered: Option<Face<C>>,
    x: [f64; 3],
    /// Faces crossed since the particle last moved: it has left cells without motion.
    stood: u8,
    /// Step that the error control allows, in time.
    h: f64,
    /// The largest speed of the half so far, at ends of steps.
    fastest: f64,
    /// Whether its stop condition holds.
    stopped: bool,
    /// Whether the stop condition held at the seed: both halves stop.
    seed_stops: bool,
    line: Line,
}

/// Largest and smallest factor between steps; the usual bounds (Hairer, Norsett, Wanner, II.4).
const GROW_MAX: f64 = 5.0;
pub(crate) const SHRINK_MIN: f64 = 0.2;
const SAFETY: f64 = 0.9;
/// Steps of the high order after an inexact one of the low order: the next one would hardly be exact.
const HIGH_STEPS: u8 = 16;
/// After this many faces a particle has been in all eight cells that meet in a corner, and each assigned it to another.
const STOOD_MOST: u8 = 7;
/// Steps aim this much beyond the next face at the present rate, so that most end outside and cross.
pub(crate) const OVERSHOOT: f64 = 1.05;

impl<C: DomainCell> Streamline<C> {
    /// A task for a seed; `fields` is the number of sampled components.
    pub fn new(seed: Seed, options: &Options, fields: usize) -> Self {
        let sign = if options.direction == Direction::Forward { 1.0 } else { -1.0 };
        Self {
            seed,
            sign,
            state: StreamlineState::Locate,
            origin: None,
            carried: None,
            high: 0,
            entered: None,
            x: [0.0; 3],
            stood: 0,
            h: f64::INFINITY,
            fastest: 0.0,
            stopped: false,
            seed_stops: false,
            line: Line::new(fields),
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        core::mem::size_of::<Self>() + self.line.bytes()
    }

    /// Points so far.
    pub fn points(&self) -> usize {
        self.line.len()
    }

    /// The line, once done.
    pub fn into_line(self) -> JoinedLine {
        self.line.join()
    }

    /// Ends the line because of an unreadable page.
    pub fn fail(&mut self) {
        self.line.end(Reason::Failed);
        self.state = StreamlineState::Finished;
    }

    /// One restartable step. On `Err` nothing has changed.
    ///
    /// # Errors
    /// [`Miss`]: pages are absent (and listed by the accessor), or one failed.
    pub fn step<L: Locator<Cell = C>>(
        &mut self,
        flow: &mut DomainFlow<L>,
        options: &Options,
    ) -> Result<StepProgress, Miss> {
        let mut result = Ok(StepProgress::Done);
        step_lanes(flow, options, [Some(self), None, None, None], |_, _, _, r| result = r);
        result
    }

    fn progress(&self) -> StepProgress {
        if matches!(self.state, StreamlineState::Finished) {
            StepProgress::Done
        } else {
            StepProgress::Yield
        }
    }

    #[inline(never)]
    fn rare_step<L: Locator<Cell = C>>(&mut self, flow: &mut DomainFlow<L>, options: &Options) -> Result<(), Miss> {
        match &self.state {
            StreamlineState::Locate => self.locate(flow, options),
            StreamlineState::Beyond(place, face, exit) => {
                let (place, face, exit) = (*place, *face, *exit);
                self.beyond(flow, options, place, face, exit)
            }
            StreamlineState::Rest(place, face) => {
                let (place, face) = (*place, *face);
                let v = flow.space.cell(place.spot.cell)?.vector.at(place.spot.rst);
                let wall = match face {
                    Some(f) => flow.space.is_wall(f)?,
                    None => rests_on_wall(flow, &place)?,
                };
                // Where the vector is NaN there is no flow, as where coordinates are NaN.
                let reason = match (wall, v.is_finite_xyz()) {
                    (true, _) => Reason::Wall,
                    (false, true) => Reason::Speed,
                    (false, false) => Reason::Hole,
                };
                self.end_half(flow, options, reason)
            }
            StreamlineState::Physical(..) => self.physical_step(flow, options),
            StreamlineState::Run(_) | StreamlineState::Finished => Ok(()),
        }
    }

    fn locate<L: Locator<Cell = C>>(&mut self, flow: &mut DomainFlow<L>, options: &Options) -> Result<(), Miss> {
        let found = self.seed.place(flow)?;
        let Some((spot, x)) = found else {
            self.line.end(Reason::Left);
            self.state = StreamlineState::Finished;
            return Ok(());
        };
        let place = ParticlePosition { spot, kept_fringe: None };
        self.origin = Some((place, x));
        // The pages of the first step are loaded before anything changes.
        flow.space.cell(spot.cell)?;
        self.record(flow, options, &spot, x, 0.0)?;
        self.seed_stops = self.stopped;
        self.begin_half(flow, options, place, x)
    }

    /// Starts a half at the seed, in a loaded cell.
    fn begin_half<L: Locator<Cell = C>>(
        &mut self,
        flow: &mut DomainFlow<L>,
        options: &Options,
        place: ParticlePosition<C>,
        x: [f64; 3],
    ) -> Result<(), Miss> {
        let v = flow.space.cell(place.spot.cell)?.vector.at(place.spot.rst);
        self.x = x;
        self.h = options.initial_step.map_or(f64::INFINITY, |s| s / v.length3());
        // A half is the same whether or not the other was traced before it.
        self.carried = None;
        self.entered = None;
        self.high = 0;
        self.stood = 0;
        self.stopped = self.seed_stops;
        self.line.begin(if self.sign < 0.0 { Half::Backward } else { Half::Forward });
        self.fastest = v.length3();
        self.state = if options.terminal_speed.rests(self.fastest, self.fastest) {
            StreamlineState::Rest(place, None)
        } else {
            Self::running(options, place, v)
        };
        Ok(())
    }

    fn running(options: &Options, place: ParticlePosition<C>, v: V4) -> StreamlineState<C> {
        match options.method {
            Integrator::Rk45 => StreamlineState::Run(place),
            _ => StreamlineState::Physical(Box::new(Stepper::new(v.xyz(), place)), place),
        }
    }

    /// Ends a half, and begins the other if there is one. A stop condition takes precedence over other reasons.
    fn end_half<L: Locator<Cell = C>>(
        &mut self,
        flow: &mut DomainFlow<L>,
        options: &Options,
        reason: Reason,
    ) -> Result<(), Miss> {
        let reason = if self.stopped { Reason::Stopped } else { reason };
        match self.origin {
            Some((place, x)) if options.direction == Direction::Both && self.sign < 0.0 => {
                flow.space.cell(place.spot.cell)?;
                self.line.end(reason);
                self.sign = 1.0;
                self.begin_half(flow, options, place, x)
            }
            _ => {
                self.line.end(reason);
                self.state = StreamlineState::Finished;
                Ok(())
            }
        }
    }

    /// Adds a point, and tests the stop condition of the half: the next step ends it.
    #[inline(always)]
    fn record<L: Locator<Cell = C>>(
        &mut self,
        flow: &mut DomainFlow<L>,
        options: &Options,
        spot: &CellPoint<C>,
        x: [f64; 3],
        dt: f64,
    ) -> Result<(), Miss> {
        let l = flow.space.cell(spot.cell)?;
        let (q, kept) = (spot.rst, self.line.fields());
        if let Some(stop) = &options.stop {
            let side = |n: usize| l.sampled.get(kept + n).map_or(f64::NAN, |c| interpolate_scalar(c, q));
            self.stopped = stop.holds(side);
        }
        self.line.push(x, dt, spot.cell.domain(), l.sampled.iter().take(kept).map(|c| interpolate_scalar(c, q)));
        Ok(())
    }

    /// A step within the current cell, at most to its face; `low_failed`: the low order is known to be inexact.
    fn cell_step<L: Locator<Cell = C>>(
        &mut self,
        flow: &mut DomainFlow<L>,
        options: &Options,
        place: ParticlePosition<C>,
        low_failed: bool,
    ) -> Result<(), Miss> {
        let x0 = self.x;
        let settled = flow.settle(&place, |_| Ok(V4::from_xyz(x0)))?.unwrap_or(place);
        let cell = settled.spot.cell;
        let grazed = if self.stood == 0 { 0 } else { self.grazed(flow, cell)? };
        let l = flow.space.cell(cell)?;
        if l.blank == Blank::Hole {
            let face = self.entered.unwrap_or(Face { cell, number: 0 });
            self.state = StreamlineState::Beyond(settled, face, Exit::Hole);
            return Ok(());
        }
        let (map, vector, thin) = (&l.map(), &l.vector, l.thin);
        let within = StepContext::new(map, vector, thin);
        let q0 = settled.spot.rst;
        let y0 = V4::from_xyz(q0);
        let k0 = match self.carried {
            Some((c, k)) if c == cell => k,
            _ => rate(within, y0),
        };
        let sign = self.sign;
        let exit = L::Shape::time_to_face(q0, k0.r * V4::splat(sign));
        let time_left = options.max_time - self.line.half_time();
        let mut h = self.h.min(exit * OVERSHOOT).min(time_left);
        if let Some(longest) = options.max_step {
            h = h.min(longest / vector.at(q0).length3());
        }
        if !(h > 0.0 && h < f64::INFINITY) {
            return self.go_physical(flow, options, settled);
        }
        let tolerance2 = options.tolerance * options.tolerance;
        let mut high = self.high.saturating_sub(1);
        // Stored in `self` only at the end of the step: absent pages there restart it.
        let mut bound = self.h;
        let mut h_next = bound.max(h * GROW_MAX);
        let low = if high == 0 && !low_failed { CellStep::take_low(within, y0, k0, h * sign) } else { None };
        let step = match low {
            Some(step) if step.error2 <= tolerance2 * step.length2 => step,
            low => {
                if low.is_some() || low_failed {
                    high = HIGH_STEPS;
                }
                loop {
                    let Some(step) = CellStep::take(within, y0, k0, h * sign) else {
                        return self.go_physical(flow, options, settled);
                    };
                    let ratio2 = step.error2 / (tolerance2 * step.length2);
                    // Below the rounding of the position a smaller step is no better.
                    let rounding =
                        || f64::EPSILON * 16.0 * (x0[0].abs() + x0[1].abs() + x0[2].abs() + step.length2.sqrt());
                    if ratio2 <= 1.0 || step.error2 <= rounding().powi(2) {
                        h_next = next_step(bound, h, ratio2);
                        break step;
                    }
                    h *= growth(ratio2).max(SHRINK_MIN);
                    bound = h;
                    if !(h > exit * 1e-9) {
                        return self.go_physical(flow, options, settled);
                    }
                }
            }
        };

        let mut y = step.end();
        let mut dt = h;
        let mut face = None;
        let end = y.xyz();
        if !L::Shape::holds(thin, end) {
            let dense = step.dense();
            let mut along = 0;
            while let Some((theta, number)) = dense.crossing::<L::Shape>(end, thin, along) {
                let over = Face { cell, number };
                if theta <= 0.0 && grazed >> number & 1 == 1 {
                    along |= 1 << number;
                    continue;
                }
                y = dense.at(theta);
                dt = h * theta;
                face = Some(over);
                break;
            }
        }
        let mut rst = L::Shape::onto(y.xyz(), thin);
        if let Some(f) = face {
            rst = L::Shape::onto_face(rst, f.number);
        }
        let mut x = map.point(rst);
        let mut chord = distance(x, x0);
        let mut ended = None;
        let length_left = options.max_length - self.line.half_length();
        if chord >= length_left {
            // Two secant steps on theta bring the chord within rounding of the remaining length.
            let dense = step.dense();
            let mut theta = if chord > 0.0 { dt / h * (length_left / chord) } else { 0.0 };
            for _ in 0..2 {
                let d = distance(map.point(dense.at(theta).xyz()), x0);
                theta *= if d > 0.0 { length_left / d } else { 1.0 };
            }
            rst = L::Shape::onto(dense.at(theta).xyz(), thin);
            x = map.point(rst);
            chord = distance(x, x0);
            dt = theta * h;
            face = None;
            ended = Some(Reason::Length);
        } else if dt >= time_left {
            ended = Some(Reason::Time);
        } else if dt > 0.0 && self.line.half_steps() + 1 >= options.max_steps {
            ended = Some(Reason::Steps);
        }
        let spot = CellPoint { cell, rst };
        let speed = vector.at(rst).length3();
        if let Some(reason) = ended {
            // The second half needs the seed's cell, which is requested before anything changes.
            if let (Some((seed, _)), true) = (self.origin, self.sign < 0.0 && options.direction == Direction::Both) {
                flow.space.cell(seed.spot.cell)?;
            }
            self.record(flow, options, &spot, x, dt)?;
            self.line.advance(chord);
            return self.end_half(flow, options, reason);
        }
        let inside_end = L::Shape::holds(thin, end);
        self.carried = (face.is_none() && inside_end).then(|| (cell, Rate { r: step.end_rate(), det: k0.det }));
        self.high = high;
        if dt <= 0.0 {
            // No point to record: the particle starts on the face by which it leaves.
            self.stood = self.stood.saturating_add(1);
            self.h = bound;
            let next = ParticlePosition { spot, kept_fringe: settled.kept_fringe };
            self.go_over(flow, next, face);
            return Ok(());
        }
        self.stood = 0;
        self.record(flow, options, &spot, x, dt)?;
        self.line.advance(chord);
        self.x = x;
        self.h = h_next;
        self.fastest = self.fastest.max(speed);
        let next = ParticlePosition { spot, kept_fringe: settled.kept_fringe };
        if options.terminal_speed.rests(speed, self.fastest) {
            self.state = StreamlineState::Rest(next, face);
        } else {
            self.go_over(flow, next, face);
        }
        Ok(())
    }

    /// A bit for each face of a cell that a particle grazes if it leaves by it without motion; it must move along that
    /// face. Two cells assign such a particle to each other, by rounding or because the field points at the face from
    /// both sides. More cells may do so in a circle. On an edge or in a corner it may have to cross two or three faces
    /// before it moves.
    #[cold]
    fn grazed<L: Locator<Cell = C>>(&self, flow: &mut DomainFlow<L>, cell: C) -> Result<u32, Miss> {
        flow.space.cell(cell)?;
        let back = |number: u32| self.entered.is_some_and(|from| flow.space.leads_back(from, Face { cell, number }));
        let grazes = |number: &u32| self.stood >= STOOD_MOST || back(*number);
        Ok((0..L::Shape::FACES).filter(grazes).fold(0, |faces, number| faces | 1 << number))
    }

    /// Continues in the same cell, over a face to the next, or beyond the domain.
    #[inline(always)]
    fn go_over<L: Locator<Cell = C>>(
        &mut self,
        flow: &DomainFlow<L>,
        next: ParticlePosition<C>,
        face: Option<Face<C>>,
    ) {
        self.state = match face {
            None => StreamlineState::Run(next),
            Some(f) => {
                self.entered = face;
                match flow.space.beyond(f, &next.spot) {
                    Neighbour::Cell(spot) => {
                        flow.space.prefetch(spot.cell);
                        StreamlineState::Run(ParticlePosition { spot, ..next })
                    }
                    Neighbour::Boundary(_) | Neighbour::OtherDomain => StreamlineState::Beyond(next, f, Exit::Left),
                }
            }
        };
    }
}

/// Factor by which a step of the fifth order may grow, from the square of its error over the allowed one. The error a
/// length is proportional to the fourth power of the step.
#[inline(always)]
pub(crate) fn growth(ratio2: f64) -> f64 {
    const AMPLE: f64 = (SAFETY / GROW_MAX) * (SAFETY / GROW_MAX) * (SAFETY / GROW_MAX) * (SAFETY / GROW_MAX);
    if ratio2 <= AMPLE * AMPLE {
        return GROW_MAX;
    }
    (SAFETY / ratio2.sqrt().sqrt().sqrt()).min(GROW_MAX)
}

/// Step that the error control allows after one of the fifth order of `h`. `bound` was allowed before. A face may have
/// shortened `h`, which does not reduce `bound`.
#[inline(always)]
pub(crate) fn next_step(bound: f64, h: f64, ratio2: f64) -> f64 {
    let grown = h * growth(ratio2);
    if grown >= h && bound.is_finite() {
        bound.max(grown)
    } else {
        grown
    }
}

#[inline(always)]
pub(crate) fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    (V4::from_xyz(a) - V4::from_xyz(b)).length3()
}
