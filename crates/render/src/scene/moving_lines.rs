//! Pathlines and streaklines of pictures, drawn up to each picture's time in one pass through the series.

use super::gather::GatheredObject;
use super::gather::ObjectGeometry;
use super::geometry_log::{Arena, LineBuilder, LineStore};
use field::error::FieldError;
use kernels::particle::Particle;
use kernels::streamline::Direction;
use output::{ByteLog, HeldMemory, SpoolOptions};
use runtime::ledger_share::LedgerShare;
use runtime::limits::{refused, would_do};
use runtime::session::{ProgressWatch, Session};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use trace::advect::{is_under_way, Flock, March};
use trace::pathlines::releases;
use trace::seeds::Seeds;
use trace::trace_times::Times;
use trace::{PathSpec, SeedRule, TraceSpec};

/// Bytes of a point of a trail: position, time, value.
const POINT_BYTES: usize = 40;

/// Bytes of a random seed: its possible places.
const RANDOM_SEED_BYTES: u64 = 1 << 10;

/// Divisor: the share of the limit for trails in memory. The rest goes to disk.
const TRAIL_SHARE: u64 = 16;

/// The values that colour lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineColouring {
    Nothing,
    /// The sampled field.
    Field,
    Time,
    Zone,
    Birth,
    Age,
}

impl LineColouring {
    /// The value of a point; the magnitude of a vector.
    fn of(self, fields: &[f64], time: f64, zone: u32, released: f64) -> f64 {
        match self {
            Self::Nothing => f64::NAN,
            Self::Field => match fields {
                [one] => *one,
                many => many.iter().map(|c| c * c).sum::<f64>().sqrt(),
            },
            Self::Time => time,
            Self::Zone => f64::from(zone + 1),
            Self::Birth => released,
            Self::Age => (time - released).abs(),
        }
    }
}

/// Trails of all particles between two times of the series.
struct Stretch {
    to: f64,
    /// Offset in the log and number of points, for each particle.
    parts: Vec<(u64, u32)>,
}

enum MovingKind {
    /// Past points of each particle.
    Trails { log: Mutex<ByteLog>, index: HeldMemory, stretches: Vec<Stretch>, tail: Option<f64> },
    /// The seed of each particle under way.
    Streaks { releases: Arc<[f64]>, released: usize, of: Vec<u32> },
}

/// Lines of particles up to the present time.
pub(crate) struct MovingLines {
    march: March,
    spec: TraceSpec,
    flock: Flock,
    valued: LineColouring,
    kind: MovingKind,
    /// Time of the particles.
    at: Option<f64>,
    failed: Option<String>,
    _held: Box<dyn Any>,
}

impl MovingLines {
    /// The lines of `spec`, which has a path, coloured by `field`. Pathlines are drawn for the last `tail` of time.
    ///
    /// # Errors
    /// [`FieldError`]: unknown fields, times without sense, too small a limit.
    pub(crate) fn new(
        session: &Session,
        mut spec: TraceSpec,
        field: Option<&str>,
        tail: Option<f64>,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<Self, FieldError> {
        if let Some(found) = trace::seeded(session, &spec, watch)? {
            spec = found;
        }
        let dataset = session.dataset();
        let path = spec.path.clone().unwrap_or_default();
        let streak = path.streak.clone();
        let known = |name: &str| dataset.quantity(0, name).is_ok();
        let valued = match field {
            None => LineColouring::Nothing,
            Some(name) if known(name) => LineColouring::Field,
            Some("time") => LineColouring::Time,
            Some("zone") => LineColouring::Zone,
            Some("birth") if streak.is_some() => LineColouring::Birth,
            Some("age") if streak.is_some() => LineColouring::Age,
            Some(_) => LineColouring::Field,
        };
        spec.scalars =
            if valued == LineColouring::Field { field.map(str::to_owned).into_iter().collect() } else { Vec::new() };
        spec.options.direction = Direction::Forward;
        if dataset.catalog.times.len() < 2 {
            return Err(FieldError::Usage(
                "the dataset has one time step, so nothing moves in it; draw streamlines instead of pathlines or streaklines".into(),
            ));
        }
        // The end is ignored, so that later pictures do not change an earlier one.
        let path = PathSpec { to: None, streak: None, ..path };
        let (march, mut held) = March::new(session, &spec, &path, watch)?;
        let seed_bytes = 24 + if matches!(spec.seeds, Seeds::Random { .. }) { RANDOM_SEED_BYTES } else { 0 };
        let flock = Flock::new(&session.pager, march.components, seed_bytes)?;
        let kind = match streak {
            Some(r) => {
                let Times { times, _held } = releases(&r, &march.series, &session.pager, march.path.times, None)?;
                held = Box::new((held, _held));
                MovingKind::Streaks { releases: times, released: 0, of: Vec::new() }
            }
            None => {
                let index = HeldMemory::new(Box::new(LedgerShare::new(session.pager.clone())));
                let budget = (session.pager.ledger().limit() / TRAIL_SHARE) as usize;
                let log = ByteLog::new(&SpoolOptions::spill_directory(None), budget, index.sibling());
                let log = Mutex::new(log.map_err(|e| refused(&session.pager, e.into()))?);
                MovingKind::Trails { log, index, stretches: Vec::new(), tail }
            }
        };
        Ok(Self { march, spec, flock, valued, kind, at: None, failed: None, _held: held })
    }

    /// Releases a particle at each seed at a time.
    fn release(&mut self, session: &Session, time: f64) -> Result<(), FieldError> {
        let seeds = usize::try_from(self.spec.seeds.len()).unwrap_or(usize::MAX);
        self.flock.reserve(&session.pager, self.flock.particles.len().saturating_add(seeds))?;
        let dataset = session.dataset();
        let rule = SeedRule::new(&self.spec.seeds, &dataset)?;
        for n in 0..self.spec.seeds.len() {
            let seed = rule.seed(n)?;
            let fields = self.march.components;
            self.flock.particles.push(match &mut self.kind {
                MovingKind::Trails { .. } => Particle::with_points(seed, time, fields),
                MovingKind::Streaks { of, .. } => {
                    of.push(n as u32);
                    Particle::released_at(seed, time, fields)
                }
            });
        }
        Ok(())
    }

    /// Advances to a time of the series, through all times before it.
    ///
    /// # Errors
    /// [`FieldError`]; an interruption.
    pub(crate) fn go_to(
        &mut self,
        session: &Session,
        time: f64,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(), FieldError> {
        let start = self.march.path.times[0];
        while time >= start && self.at.is_none_or(|at| at < time) {
            let to = self.march.series.edge_after(self.at.unwrap_or(start), time);
            match &self.kind {
                MovingKind::Trails { .. } if self.at.is_none() => self.release(session, start)?,
                MovingKind::Trails { .. } => {}
                MovingKind::Streaks { releases, released, .. } => {
                    let (releases, mut next) = (releases.clone(), *released);
                    while let Some(t) = releases.get(next).filter(|t| **t <= to) {
                        self.release(session, *t)?;
                        next += 1;
                    }
                    if let MovingKind::Streaks { released, .. } = &mut self.kind {
                        *released = next;
                    }
                }
            }
            let marched = match &mut self.kind {
                MovingKind::Streaks { .. } => {
                    let mut watch = |done: u64, total: u64| watch("following particles", done as f64, total as f64);
                    self.march.go_to(session, &mut self.flock, to, None, &mut watch)?
                }
                MovingKind::Trails { log, index, stretches, .. } => {
                    let count = self.flock.particles.len();
                    if !index.grow(count * size_of::<(u64, u32)>() + 64) {
                        return Err(FieldError::LimitTooSmall {
                            limit: session.pager.ledger().limit(),
                            needs: would_do(&session.pager, (count * 64) as u64),
                            what: "the index of the pathlines".into(),
                        });
                    }
                    let (log, parts) = (&*log, Mutex::new(vec![(0, 0); count]));
                    let valued = self.valued;
                    let arrived = |number: usize, particle: &mut Particle| {
                        let (mut bytes, mut points) = (Vec::new(), 0u32);
                        let released = particle.released();
                        particle.take(|x, t, zone, fields| {
                            let value = valued.of(fields, t, zone, released);
                            for v in [x[0], x[1], x[2], t, value] {
                                bytes.extend_from_slice(&v.to_ne_bytes());
                            }
                            points += 1;
                        });
                        if points > 0 {
                            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                            let at = log.append(&bytes).map_err(|e| refused(&session.pager, e.into()))?;
                            parts.lock().unwrap_or_else(PoisonError::into_inner)[number] = (at, points);
                        }
                        Ok(())
                    };
                    let mut watch = |done: u64, total: u64| watch("following particles", done as f64, total as f64);
                    let marched = self.march.go_to(session, &mut self.flock, to, Some(&arrived), &mut watch)?;
                    let parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
                    stretches.push(Stretch { to, parts });
                    marched
                }
            };
            if self.failed.is_none() {
                self.failed = marched.failure;
            }
            if let MovingKind::Streaks { of, .. } = &mut self.kind {
                let mut kept = self.flock.particles.iter().map(is_under_way);
                of.retain(|_| kept.next().unwrap_or(true));
                self.flock.particles.retain(is_under_way);
            }
            self.at = Some(to);
        }
        Ok(())
    }

    /// The lines at a time that the particles have reached.
    ///
    /// # Errors
    /// [`FieldError`]: a failed read, too small a limit.
    pub(crate) fn gather(&self, session: &Session, time: f64, arena: &mut Arena) -> Result<GatheredObject, FieldError> {
        let (name, lines) = match &self.kind {
            MovingKind::Trails { .. } => ("pathlines", self.trails(session, time, arena)?),
            MovingKind::Streaks { of, .. } => ("streaklines", self.streaks(of, time, arena)?),
        };
        Ok(GatheredObject {
            kind: "lines",
            name: name.into(),
            failed: self.failed.clone(),
            shape: ObjectGeometry::Lines(lines),
        })
    }

    fn trails(&self, session: &Session, time: f64, arena: &mut Arena) -> Result<LineStore, FieldError> {
        let mut builder = LineBuilder::new(arena, self.valued != LineColouring::Nothing);
        let MovingKind::Trails { log, stretches, tail, .. } = &self.kind else { return builder.finish() };
        let log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let from = tail.map_or(f64::NEG_INFINITY, |tail| time - tail);
        // The previous stretch has the point from which the tail's first segment comes.
        let first = stretches.partition_point(|s| s.to < from).saturating_sub(1);
        let mut bytes = Vec::new();
        for particle in 0..self.flock.particles.len() {
            // The last point before the tail, if the next one is in it.
            let mut before: Option<[f64; 5]> = None;
            for stretch in &stretches[first..] {
                let Some(&(at, points)) = stretch.parts.get(particle).filter(|p| p.1 > 0) else { continue };
                bytes.resize(points as usize * POINT_BYTES, 0);
                log.read_at(at, &mut bytes).map_err(|e| refused(&session.pager, e.into()))?;
                for point in bytes.chunks_exact(POINT_BYTES) {
                    let word = |n: usize| f64::from_ne_bytes(core::array::from_fn(|b| point[8 * n + b]));
                    let p: [f64; 5] = core::array::from_fn(word);
                    if p[3] < from {
                        before = Some(p);
                        continue;
                    }
                    if let Some(b) = before.take() {
                        let share = (from - b[3]) / (p[3] - b[3]);
                        let cut: [f64; 5] = core::array::from_fn(|n| b[n] + (p[n] - b[n]) * share);
                        builder.point([cut[0], cut[1], cut[2]], cut[4])?;
                    }
                    builder.point([p[0], p[1], p[2]], p[4])?;
                }
            }
            builder.end_line()?;
        }
        builder.finish()
    }

    /// Each line runs from the last released particle to the first, as in a file of streaklines.
    fn streaks(&self, of: &[u32], time: f64, arena: &mut Arena) -> Result<LineStore, FieldError> {
        let mut builder = LineBuilder::new(arena, self.valued != LineColouring::Nothing);
        let mut order: Vec<(u32, usize)> = of.iter().copied().zip(0..).collect();
        order.sort_unstable_by_key(|(seed, n)| (*seed, std::cmp::Reverse(*n)));
        for line in order.chunk_by(|a, b| a.0 == b.0) {
            for (_, n) in line {
                let p = &self.flock.particles[*n];
                if let Some((x, zone, fields)) = p.last() {
                    builder.point(x, self.valued.of(fields, time, zone, p.released()))?;
                }
            }
            builder.end_line()?;
        }
        builder.finish()
    }
}
