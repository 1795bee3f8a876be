//! The streamline of one seed as a restartable task.

mod crossing;
mod lanes;
mod options;
pub(crate) mod physical;
pub(crate) mod walls;

use crate::cellstep::{rate, CellStep, Rate, StepContext};
use crate::flow::{Exit, GridFlow, ParticlePosition};
use crate::line::{Half, Joined, Line, Reason};
use crate::rk::Stepper;
use field::cell::interpolate_scalar;
use field::locator::{Blank, CellGeometry, CellId, CellPoint};
use field::nodes::{Miss, Nodes};
use field::simd::V4;
pub use lanes::step_lanes;
pub use options::{Direction, Integrator, Options, Seed, TerminalSpeed};
use walls::{is_wall, rests_on_wall};

/// What a step came to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StepProgress {
    /// The task is finished.
    Done,
    /// Pages are absent: they are listed by the accessor. Nothing has changed.
    Need,
    /// A step was made.
    Yield,
}

/// The face of a cell through which a particle goes.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Face {
    cell: CellId,
    axis: usize,
    side: u32,
}

#[derive(Clone, Debug)]
enum StreamlineState {
    /// The seed is to be located.
    Locate,
    /// A step within a cell comes next.
    Run(ParticlePosition),
    /// The particle stands on a face and is to be found beyond it: in another zone, or across a seam.
    Beyond(ParticlePosition, Face, Exit),
    /// The particle came to rest; the face says whether that is a wall.
    Rest(ParticlePosition, Option<Face>),
    /// A step in physical space is under way.
    Physical(Box<Stepper<ParticlePosition>>, ParticlePosition),
    Finished,
}

/// One seed's streamline.
#[derive(Clone, Debug)]
pub struct Streamline {
    seed: Seed,
    sign: f64,
    state: StreamlineState,
    /// Where the seed was found: the second half starts there.
    origin: Option<(ParticlePosition, [f64; 3])>,
    /// Rate at the current point, if the last step left it, and its cell.
    carried: Option<(CellId, Rate)>,
    /// Steps for which the low order is not tried.
    high: u8,
    /// The face by which the current cell was entered, as the last cell's.
    entered: Option<Face>,
    x: [f64; 3],
    /// Faces gone over since the particle last moved: it left its cells where it stood.
    stood: u8,
    /// Step that the error control allows, in time.
    h: f64,
    /// The largest speed of the half so far, at ends of steps.
    fastest: f64,
    /// It is to stop where it is.
    stopped: bool,
    /// It was to stop at the seed: both halves do.
    seed_stops: bool,
    line: Line,
}

/// A step may grow or shrink by these factors; the usual bounds (Hairer, Norsett, Wanner, II.4).
const GROW_MAX: f64 = 5.0;
pub(crate) const SHRINK_MIN: f64 = 0.2;
const SAFETY: f64 = 0.9;
/// Steps of the high order after one of the low order was not exact enough: where one was not, the next will hardly be.
const HIGH_STEPS: u8 = 16;
/// Over this many faces a particle has been in all eight cells that meet in a corner: each took it for another's.
const STOOD_MOST: u8 = 7;
/// Steps aim this much beyond the face that they would reach at the present rate, so that most end outside and cross.
pub(crate) const OVERSHOOT: f64 = 1.05;
/// The next face is taken to be at least this far, in cells: a particle that starts on a face and moves along it, or back
/// through it by a hair, still tries a step.
pub(crate) const LEAST_GAP: f64 = 1e-3;
impl Streamline {
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

    /// Bytes that the task holds.
    pub fn bytes(&self) -> usize {
        core::mem::size_of::<Self>() + self.line.bytes()
    }

    /// Points so far.
    pub fn points(&self) -> usize {
        self.line.len()
    }

    /// The line, once done.
    pub fn into_line(self) -> Joined {
        self.line.join()
    }

    /// Ends the line where it is because a page of it failed.
    pub fn fail(&mut self) {
        self.line.end(Reason::Failed);
        self.state = StreamlineState::Finished;
    }

    /// One restartable step: on `Err` nothing has changed.
    ///
    /// # Errors
    /// [`Miss`]: pages are absent (and listed by the accessor), or one failed.
    pub fn step<N: Nodes>(&mut self, flow: &mut GridFlow<N>, options: &Options) -> Result<StepProgress, Miss> {
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
    fn rare_step<N: Nodes>(&mut self, flow: &mut GridFlow<N>, options: &Options) -> Result<(), Miss> {
        match &self.state {
            StreamlineState::Locate => self.locate(flow, options),
            StreamlineState::Beyond(place, face, exit) => {
                let (place, face, exit) = (*place, *face, *exit);
                self.beyond(flow, options, place, face, exit)
            }
            StreamlineState::Rest(place, face) => {
                let (place, face) = (*place, *face);
                let v = flow.space.full(place.spot.cell)?.vector.at(place.spot.rst);
                let wall = match face {
                    Some(f) => is_wall(flow, f)?,
                    None => rests_on_wall(flow, &place)?,
                };
                // Where the vector is no number there is no flow, as where coordinates are none.
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

    fn locate<N: Nodes>(&mut self, flow: &mut GridFlow<N>, options: &Options) -> Result<(), Miss> {
        let found = self.seed.place(flow)?;
        let Some((spot, x)) = found else {
            self.line.end(Reason::Left);
            self.state = StreamlineState::Finished;
            return Ok(());
        };
        let place = ParticlePosition { spot, kept_fringe: None };
        self.origin = Some((place, x));
        // Everything that the first step needs is loaded before anything changes.
        flow.space.full(spot.cell)?;
        self.record(flow, options, &spot, x, 0.0)?;
        self.seed_stops = self.stopped;
        self.begin_half(flow, options, place, x)
    }

    /// Starts a half at the seed, whose cell is loaded.
    fn begin_half<N: Nodes>(
        &mut self,
        flow: &mut GridFlow<N>,
        options: &Options,
        place: ParticlePosition,
        x: [f64; 3],
    ) -> Result<(), Miss> {
        let v = flow.space.full(place.spot.cell)?.vector.at(place.spot.rst);
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

    fn running(options: &Options, place: ParticlePosition, v: V4) -> StreamlineState {
        match options.method {
            Integrator::Rk45 => StreamlineState::Run(place),
            _ => StreamlineState::Physical(Box::new(Stepper::new(v.xyz(), place)), place),
        }
    }

    /// Ends a half, and begins the other where there is one. Where it is to stop that is the reason, whatever else ends it there.
    fn end_half<N: Nodes>(&mut self, flow: &mut GridFlow<N>, options: &Options, reason: Reason) -> Result<(), Miss> {
        let reason = if self.stopped { Reason::Stopped } else { reason };
        match self.origin {
            Some((place, x)) if options.direction == Direction::Both && self.sign < 0.0 => {
                flow.space.full(place.spot.cell)?;
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

    /// Adds a point, and takes note of whether the half is to stop there: the next step ends it.
    #[inline(always)]
    fn record<N: Nodes>(
        &mut self,
        flow: &mut GridFlow<N>,
        options: &Options,
        spot: &CellPoint,
        x: [f64; 3],
        dt: f64,
    ) -> Result<(), Miss> {
        let l = flow.space.full(spot.cell)?;
        let (q, kept) = (spot.rst, self.line.fields());
        if let Some(stop) = &options.stop {
            let side = |n: usize| l.sampled.get(kept + n).map_or(f64::NAN, |c| interpolate_scalar(c, q));
            self.stopped = stop.holds(side);
        }
        self.line.push(x, dt, spot.cell.zone, l.sampled.iter().take(kept).map(|c| interpolate_scalar(c, q)));
        Ok(())
    }

    /// A step within the current cell, up to its face at most; `low_failed`: the low order is known not to be exact enough.
    fn cell_step<N: Nodes>(
        &mut self,
        flow: &mut GridFlow<N>,
        options: &Options,
        place: ParticlePosition,
        low_failed: bool,
    ) -> Result<(), Miss> {
        let x0 = self.x;
        let settled = flow.settle(&place, |_| Ok(V4::from_xyz(x0)))?.unwrap_or(place);
        let cell = settled.spot.cell;
        let l = flow.space.full(cell)?;
        if l.blank == Blank::Hole {
            let face = self.entered.unwrap_or(Face { cell, axis: 0, side: 0 });
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
        let exit = time_to_face(q0, k0.r * V4::splat(sign));
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
        // Not in `self` before the step is over: pages that are absent at its end make it start anew.
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
                    // Below the rounding of the position no step is better than another.
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
        if !CellGeometry::holds(thin, end) {
            let dense = step.dense();
            let mut along = [false; 3];
            while let Some((theta, axis, side)) = dense.crossing(end, thin, along) {
                let over = Face { cell, axis, side };
                if theta <= 0.0 && self.grazes(over) {
                    along[axis] = true;
                    continue;
                }
                y = dense.at(theta);
                dt = h * theta;
                face = Some(over);
                break;
            }
        }
        let mut rst = on_cell(y.xyz(), thin);
        if let Some(f) = face {
            rst[f.axis] = f64::from(f.side);
        }
        let mut x = map.point(rst);
        let mut chord = distance(x, x0);
        let mut ended = None;
        let length_left = options.max_length - self.line.half_length();
        if chord >= length_left {
            // Two secant steps on theta bring the chord within rounding of the length that is left.
            let dense = step.dense();
            let mut theta = if chord > 0.0 { dt / h * (length_left / chord) } else { 0.0 };
            for _ in 0..2 {
                let d = distance(map.point(dense.at(theta).xyz()), x0);
                theta *= if d > 0.0 { length_left / d } else { 1.0 };
            }
            rst = on_cell(dense.at(theta).xyz(), thin);
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
            // The second half needs the seed's cell: that is asked for before anything changes.
            if let (Some((seed, _)), true) = (self.origin, self.sign < 0.0 && options.direction == Direction::Both) {
                flow.space.full(seed.spot.cell)?;
            }
            self.record(flow, options, &spot, x, dt)?;
            self.line.advance(chord);
            return self.end_half(flow, options, reason);
        }
        let inside_end = CellGeometry::holds(thin, end);
        self.carried = (face.is_none() && inside_end).then(|| (cell, Rate { r: step.end_rate(), det: k0.det }));
        self.high = high;
        if dt <= 0.0 {
            // Nothing to record: the particle starts on the face by which it leaves.
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

    /// Whether a particle that leaves by a face where it stands grazes it, and is to move along it: two cells each take it for
    /// the other's, by rounding or because the field points at the face from both sides; or more cells do, in a circle. (Where
    /// it stands on an edge or in a corner, it may well have to go over two or three faces before it moves.)
    #[cold]
    fn grazes(&self, face: Face) -> bool {
        let back = |from: Face| {
            let ahead = if from.side == 1 {
                from.cell.ijk[from.axis].checked_add(1)
            } else {
                from.cell.ijk[from.axis].checked_sub(1)
            };
            let mut cell = from.cell;
            cell.ijk[from.axis] = ahead.unwrap_or(u32::MAX);
            cell == face.cell && from.axis == face.axis && from.side != face.side
        };
        self.stood >= STOOD_MOST || self.stood > 0 && self.entered.is_some_and(back)
    }

    /// Goes on in the same cell, over a face to the next, or beyond the zone.
    #[inline(always)]
    fn go_over<N: Nodes>(&mut self, flow: &GridFlow<N>, next: ParticlePosition, face: Option<Face>) {
        self.state = match face {
            None => StreamlineState::Run(next),
            Some(f) => {
                self.entered = face;
                match neighbour(flow, next, f) {
                    Some(n) => {
                        flow.space.prefetch(n.spot.cell);
                        StreamlineState::Run(n)
                    }
                    None => StreamlineState::Beyond(next, f, Exit::Left),
                }
            }
        };
    }
}

/// Factor by which a step of the fifth order may grow, from the square of its error over what is allowed. The error a length
/// goes with the fourth power of the step.
#[inline(always)]
pub(crate) fn growth(ratio2: f64) -> f64 {
    const AMPLE: f64 = (SAFETY / GROW_MAX) * (SAFETY / GROW_MAX) * (SAFETY / GROW_MAX) * (SAFETY / GROW_MAX);
    if ratio2 <= AMPLE * AMPLE {
        return GROW_MAX;
    }
    (SAFETY / ratio2.sqrt().sqrt().sqrt()).min(GROW_MAX)
}

/// Step that the error control allows after one of the fifth order of `h`: `bound` was allowed before, and `h` may have been
/// cut short of it by a face, which says nothing against `bound`.
#[inline(always)]
pub(crate) fn next_step(bound: f64, h: f64, ratio2: f64) -> f64 {
    let grown = h * growth(ratio2);
    if grown >= h && bound.is_finite() {
        bound.max(grown)
    } else {
        grown
    }
}

/// Time to the nearest face ahead at a rate.
#[inline(always)]
fn time_to_face(q: [f64; 3], k: V4) -> f64 {
    let way = k.xyz();
    let gap = |a: usize| {
        let gap = if way[a] > 0.0 { 1.0 - q[a] } else { q[a] };
        gap.max(LEAST_GAP)
    };
    let t = (V4::new(gap(0), gap(1), gap(2), 1.0) / k.abs()).xyz();
    t.iter().fold(f64::INFINITY, |exit, t| if *t < exit { *t } else { exit })
}

#[inline(always)]
pub(crate) fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    (V4::from_xyz(a) - V4::from_xyz(b)).length3()
}

/// Fractions brought onto the cell, whose faces the arithmetic may pass by rounding.
#[inline(always)]
fn on_cell(q: [f64; 3], thin: [bool; 3]) -> [f64; 3] {
    core::array::from_fn(|a| if thin[a] { q[a] } else { q[a].clamp(0.0, 1.0) })
}

/// The cell beyond a face of the same zone: the fractions along the face are the same there.
#[inline(always)]
fn neighbour<N: Nodes>(flow: &GridFlow<N>, place: ParticlePosition, face: Face) -> Option<ParticlePosition> {
    let cells = flow.space.nodes.zones()[face.cell.zone as usize].cells();
    let at = face.cell.ijk[face.axis];
    let to = if face.side == 1 {
        if at + 1 >= cells[face.axis] {
            return None;
        }
        at + 1
    } else {
        at.checked_sub(1)?
    };
    // Each index anew, not one of them in memory: what reads them next would wait for that store (8 % of the executor's loop).
    let spot = place.spot;
    let ijk = core::array::from_fn(|a| if a == face.axis { to } else { spot.cell.ijk[a] });
    let rst = core::array::from_fn(|a| if a == face.axis { f64::from(1 - face.side) } else { spot.rst[a] });
    Some(ParticlePosition { spot: CellPoint { cell: CellId { zone: spot.cell.zone, ijk }, rst }, ..place })
}
