//! A timeline as a restartable task: where the particles are at one time that were let go together along a curve.
//!
//! # Theory
//! A curve is a polyline through release points; its parameter `s` is the number of the point, with fractions between two of them. All
//! particles of a curve go from one time of the series to the next before any goes further. Where two neighbours have got further apart
//! there than they may, one is let go midway between them, on the curve as it was released and at the time of the release, and goes all
//! the way after them: so every point of a timeline is where a particle really is, however much the curve has stretched and bent.
//!
//! # Practice
//! Parameters are halved, so they are exact. Where the flow tears a curve apart (at a wall, at the edge of a wake) no particle brings
//! neighbours together: halving ends at [`CLOSEST`], and at the most points that a curve may have. Particles that have ended are left
//! out; between one that has and one that has not nothing is put in.

use crate::line::{Half, Joined, Line, Reason};
use crate::pathline::{PathOptions, Pathline};
use crate::streamline::{distance, Seed, StepProgress};
use crate::unsteady::{UnsteadyFlow, UnsteadyLine};
use field::nodes::{Miss, Nodes};
use std::sync::Arc;

/// How timelines are made.
#[derive(Clone, Debug)]
pub struct TimelineOptions {
    /// Of each particle; its times are the release and the time of the timeline.
    pub path: PathOptions,
    /// How far apart neighbours may get.
    pub refine: Refine,
    /// The most points that a curve may have.
    pub max_points: usize,
}

/// How far apart neighbours may get before a particle is put in between them.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Refine {
    /// However far.
    Never,
    /// So far.
    Length(f64),
    /// So many times as far as the two points were apart at the release between which they were let go.
    Times(f64),
}

/// What a timeline has of each particle beside the sampled fields: the parameter, and how long ago it was let go.
pub const OF_POINTS: usize = 2;

/// Parameters of neighbours are not closer than this.
const CLOSEST: f64 = 1.0 / (1 << 20) as f64;

/// A particle of the curve.
#[derive(Clone, Debug)]
struct CurvePoint {
    s: f64,
    particle: Pathline,
}

/// One curve's timeline, at each of the stops of [`PathOptions`] and at the end.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Release points.
    curve: Arc<[[f64; 3]]>,
    fields: usize,
    /// By parameter.
    points: Vec<CurvePoint>,
    /// The one that goes on next.
    current: usize,
    /// The time that all of them go to.
    until: f64,
    /// The time to which the first of them have come.
    front: f64,
    /// A point was wanted beyond the most.
    is_full: bool,
    /// One of the points was found in a zone.
    found: bool,
    line: Line,
}

impl Timeline {
    /// Of a curve through positions.
    pub fn along(curve: Arc<[[f64; 3]]>, options: &TimelineOptions, fields: usize) -> Self {
        let mut line = Line::new(fields + OF_POINTS);
        line.begin(Half::Forward);
        let release = options.path.times[0];
        let mut timeline = Self {
            curve,
            fields,
            points: Vec::new(),
            current: 0,
            until: release,
            front: release,
            is_full: false,
            found: false,
            line,
        };
        timeline.points = (0..timeline.curve.len()).map(|n| timeline.released(n as f64, release)).collect();
        timeline
    }

    /// Where the curve was at the release.
    fn at(&self, s: f64) -> [f64; 3] {
        let n = (s as usize).min(self.curve.len() - 1);
        let f = s - n as f64;
        let (a, b) = (self.curve[n], self.curve[(n + 1).min(self.curve.len() - 1)]);
        core::array::from_fn(|c| if f == 0.0 { a[c] } else { a[c] + (b[c] - a[c]) * f })
    }

    fn released(&self, s: f64, time: f64) -> CurvePoint {
        CurvePoint { s, particle: Pathline::released_at(Seed::Physical(self.at(s)), time, self.fields) }
    }

    /// Puts particles in where neighbours are too far apart; whether any was.
    fn refine(&mut self, o: &TimelineOptions) -> bool {
        let mut put_in = Vec::new();
        for pair in self.points.windows(2) {
            let ([a, b], s) = ([&pair[0], &pair[1]], 0.5 * (pair[0].s + pair[1].s));
            let there = |p: &Pathline| matches!(p.ended(), None | Some(Reason::Time));
            let (Some((xa, ..)), Some((xb, ..))) = (a.particle.last(), b.particle.last()) else { continue };
            if !there(&a.particle) || !there(&b.particle) || b.s - a.s < 2.0 * CLOSEST {
                continue;
            }
            let n = a.s as usize;
            let most = match o.refine {
                Refine::Never => continue,
                Refine::Length(length) => length,
                Refine::Times(times) => times * distance(self.curve[n], self.curve[(n + 1).min(self.curve.len() - 1)]),
            };
            if !(distance(xa, xb) > most) {
                continue;
            }
            if self.points.len() + put_in.len() >= o.max_points {
                self.is_full = true;
                break;
            }
            put_in.push(s);
        }
        if put_in.is_empty() {
            return false;
        }
        let new: Vec<CurvePoint> = put_in.into_iter().map(|s| self.released(s, o.path.times[0])).collect();
        self.points.reserve_exact(new.len());
        self.points.extend(new);
        self.points.sort_by(|a, b| a.s.total_cmp(&b.s));
        true
    }

    fn take_down(&mut self, release: f64) {
        let age = (self.until - release).abs();
        for p in &self.points {
            if let (None | Some(Reason::Time), Some((x, zone, fields))) = (p.particle.ended(), p.particle.last()) {
                self.line.push_at(x, self.until, zone, fields.iter().copied().chain([p.s, age]));
            }
        }
    }
}

impl UnsteadyLine for Timeline {
    type Options = TimelineOptions;

    fn times(options: &TimelineOptions) -> [f64; 2] {
        options.path.times
    }

    fn most_bytes(options: &TimelineOptions) -> usize {
        size_of::<Self>() + options.max_points * (Pathline::most_bytes(&options.path) + Pathline::step_bytes())
    }

    fn step_bytes() -> usize {
        0
    }

    /// A curve of one point, where it is a position.
    fn new(seed: Seed, options: &TimelineOptions, fields: usize) -> Self {
        let at = match seed {
            Seed::Physical(x) => vec![x],
            _ => Vec::new(),
        };
        Self::along(at.into(), options, fields)
    }

    fn bytes(&self) -> usize {
        // All particles but the one that goes are of one size, those not yet let go of less.
        let of = |p: Option<&CurvePoint>| p.map_or(0, |p| p.particle.bytes_under_way());
        let each = of(self.points.first()).max(of(self.points.get(self.current))) + size_of::<f64>();
        // What is put in next may double them.
        let room = 2 * self.points.len().max(self.points.capacity() / 2);
        size_of::<Self>() + room * each + size_of_val(&*self.curve) + self.line.bytes()
    }

    fn step<N: Nodes>(
        &mut self,
        flow: &mut UnsteadyFlow<N>,
        options: &TimelineOptions,
        lane: usize,
    ) -> Result<StepProgress, Miss> {
        if self.line.ended().is_some() {
            return Ok(StepProgress::Done);
        }
        let forward = options.path.forward();
        while let Some(CurvePoint { particle: p, .. }) = self.points.get_mut(self.current) {
            let there = if forward { p.time() >= self.until } else { p.time() <= self.until };
            if p.ended().is_some() || (there && p.is_located()) {
                self.current += 1;
                continue;
            }
            p.step(flow, &options.path, lane)?;
            return Ok(StepProgress::Yield);
        }
        // All of them are at one time, or further.
        let (now, [release, stop]) = (self.until, options.path.times);
        self.current = 0;
        if now == self.front {
            if self.refine(options) {
                // Those that were put in go all the way after the others.
                self.until = release;
                return Ok(StepProgress::Yield);
            }
            if now == stop || options.path.stops_at(now) {
                self.take_down(release);
            }
            if now == stop {
                let last = |r| self.points.iter().filter_map(|p| p.particle.ended()).any(|e| e == r);
                let reason = match (self.is_full, self.line.last_time() == Some(now)) {
                    (true, true) => Reason::Points,
                    (false, true) => Reason::Time,
                    // Nothing of it is left: why, in the order of what tells most.
                    _ => [Reason::Stopped, Reason::Hole, Reason::Wall, Reason::Length, Reason::Steps]
                        .into_iter()
                        .find(|r| last(*r))
                        .unwrap_or(Reason::Left),
                };
                self.found = self.points.iter().any(|p| p.particle.was_found());
                self.points = Vec::new();
                self.line.end(reason);
                return Ok(StepProgress::Done);
            }
        }
        let next = options.path.round_after(flow.series(), now);
        if now == self.front {
            self.front = next;
        }
        self.until = next;
        Ok(StepProgress::Yield)
    }

    /// Particles that are put in go all the way after the others: no segment is over before the end.
    fn window(&self) -> u32 {
        0
    }

    fn fail(&mut self) {
        self.points = Vec::new();
        self.line.end(Reason::Failed);
    }

    fn into_line(self) -> Joined {
        let found = self.found;
        let mut line = self.line.join();
        line.outside &= !found;
        line
    }
}
