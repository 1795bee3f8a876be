//! A timeline as a restartable task: the places, at one time, of particles released together along a curve.
//!
//! # Theory
//! A curve is a polyline through release points. Its parameter `s` is the number of the point, with fractions between
//! two of them. All particles of a curve reach one time of the series before any advances further. If two neighbours
//! are further apart there than allowed, a particle is added midway between them. It starts on the curve at the time of
//! the release, and is traced to the time of the others. So every point of a timeline is the place of a real particle,
//! however much the curve has stretched and bent.
//!
//! # Practice
//! Parameters are halved, so they are exact. If the flow tears a curve apart (at a wall, at the edge of a wake) no
//! particle brings neighbours together. So halving ends at `CLOSEST`, and at the largest number of points of a curve.
//! Particles that have ended are omitted. Between an ended particle and another none is added.

use crate::line::{Half, JoinedLine, Line, Reason};
use crate::pathline::{PathOptions, Pathline};
use crate::streamline::{distance, Seed, StepProgress};
use crate::unsteady::{SeriesFlow, UnsteadyLine};
use field::domain::SeriesLocator;
use field::locator::CellId;
use field::nodes::Miss;
use field::shape::DomainCell;
use std::sync::Arc;

/// Options of timelines.
#[derive(Clone, Debug)]
pub struct TimelineOptions {
    /// Options of each particle; its times are the release and the time of the timeline.
    pub path: PathOptions,
    /// Largest distance of neighbours.
    pub refine: Refine,
    /// Most points of a curve.
    pub max_points: usize,
}

/// The distance of neighbours from which on a particle is added between them.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Refine {
    /// No bound.
    Never,
    /// A length.
    Length(f64),
    /// A multiple of the distance, at the release, of the two release points around them.
    Times(f64),
}

/// Numbers of each particle beside the sampled fields: the parameter, and its age.
pub const OF_POINTS: usize = 2;

/// Smallest difference of the parameters of neighbours.
const CLOSEST: f64 = 1.0 / (1 << 20) as f64;

/// A particle of the curve.
#[derive(Clone, Debug)]
struct CurvePoint<C> {
    s: f64,
    particle: Pathline<C>,
}

/// One curve's timeline, at each of the stops of [`PathOptions`] and at the end.
#[derive(Clone, Debug)]
pub struct Timeline<C = CellId> {
    /// Release points.
    curve: Arc<[[f64; 3]]>,
    fields: usize,
    /// By parameter.
    points: Vec<CurvePoint<C>>,
    /// The next particle to step.
    current: usize,
    /// The target time of all of them.
    until: f64,
    /// The time that the first of them have reached.
    front: f64,
    /// Whether a point beyond the most was needed.
    is_full: bool,
    /// Whether a point was found in a zone.
    found: bool,
    line: Line,
}

impl<C: DomainCell> Timeline<C> {
    /// A timeline of a curve through positions.
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

    /// The curve at the release.
    fn at(&self, s: f64) -> [f64; 3] {
        let n = (s as usize).min(self.curve.len() - 1);
        let f = s - n as f64;
        let (a, b) = (self.curve[n], self.curve[(n + 1).min(self.curve.len() - 1)]);
        core::array::from_fn(|c| if f == 0.0 { a[c] } else { a[c] + (b[c] - a[c]) * f })
    }

    fn released(&self, s: f64, time: f64) -> CurvePoint<C> {
        CurvePoint { s, particle: Pathline::released_at(Seed::Physical(self.at(s)), time, self.fields) }
    }

    /// Adds particles where neighbours are too far apart. Whether any was added.
    fn refine(&mut self, o: &TimelineOptions) -> bool {
        let mut put_in = Vec::new();
        for pair in self.points.windows(2) {
            let ([a, b], s) = ([&pair[0], &pair[1]], 0.5 * (pair[0].s + pair[1].s));
            let there = |p: &Pathline<C>| matches!(p.ended(), None | Some(Reason::Time));
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
        let new: Vec<CurvePoint<C>> = put_in.into_iter().map(|s| self.released(s, o.path.times[0])).collect();
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

impl<C: DomainCell> UnsteadyLine for Timeline<C> {
    type Options = TimelineOptions;
    type Cell = C;

    fn times(options: &TimelineOptions) -> [f64; 2] {
        options.path.times
    }

    fn most_bytes(options: &TimelineOptions) -> usize {
        let each = Pathline::<C>::most_bytes(&options.path) + Pathline::<C>::step_bytes();
        size_of::<Self>() + options.max_points * each
    }

    fn step_bytes() -> usize {
        0
    }

    /// A curve of one point, if the seed is a position.
    fn new(seed: Seed, options: &TimelineOptions, fields: usize) -> Self {
        let at = match seed {
            Seed::Physical(x) => vec![x],
            _ => Vec::new(),
        };
        Self::along(at.into(), options, fields)
    }

    fn bytes(&self) -> usize {
        // All particles except the moving one have one size; those not released yet have less.
        let of = |p: Option<&CurvePoint<C>>| p.map_or(0, |p| p.particle.bytes_under_way());
        let each = of(self.points.first()).max(of(self.points.get(self.current))) + size_of::<f64>();
        // The next refinement may double them.
        let room = 2 * self.points.len().max(self.points.capacity() / 2);
        size_of::<Self>() + room * each + size_of_val(&*self.curve) + self.line.bytes()
    }

    fn step<L: SeriesLocator<Cell = C>>(
        &mut self,
        flow: &mut SeriesFlow<L>,
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
        // All of them are at this time, or later.
        let (now, [release, stop]) = (self.until, options.path.times);
        self.current = 0;
        if now == self.front {
            if self.refine(options) {
                // Added particles are traced from the release on.
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
                    // The line is empty: the most specific reason first.
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

    /// Added particles are traced from the release on: no segment is over before the end.
    fn window(&self) -> u32 {
        0
    }

    fn fail(&mut self) {
        self.points = Vec::new();
        self.line.end(Reason::Failed);
    }

    fn into_line(self) -> JoinedLine {
        let found = self.found;
        let mut line = self.line.join();
        line.outside &= !found;
        line
    }
}
