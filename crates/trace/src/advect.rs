//! Particles that all reach one time of a series before any goes further.
//!
//! # Theory
//! Lines traced one by one read the whole series once for each group under way. Here a particle is a value between two
//! times. Those of a batch go to the next time, are stored, and continue when all are there. So a batch reads each time
//! step once under any limit. Pictures of the particles on the way read it once, too.
//!
//! # Practice
//! [`March::new`] checks the specification, and [`March::go_to`] moves a batch to a time. The caller owns the particles
//! and charges them by [`Flock`].

use crate::line_fields::LineFields;
use crate::line_kinds::step_unsteady;
use crate::pathlines::Course;
use crate::{PathSpec, TraceSpec};
use field::domain::Domains;
use field::error::FieldError;
use field::locator::LANES;
use field::nodes::Zone;
use field::paged::PagedNodes;
use field::usage::Use;
use kernels::flow::ZoneOrder;
use kernels::line::Reason;
use kernels::particle::{Particle, ParticleOptions};
use kernels::pathline::PathOptions;
use kernels::unsteady::{Series, UnsteadyFlow, UnsteadyLine};
use pager::error::PageError;
use pager::{Charge, ChargeKind, Pager, Worker};
use runtime::executor::{self, Budgeted, Outcome, RunLoad, Windowed, Work};
use runtime::limits::{active_lines, enough_limit, least_limit, more_than, too_large, would_do};
use runtime::session::{ProgressWatch, Session};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// The series that particles go through, and how.
pub struct March {
    zones: Arc<[Zone]>,
    /// Times and fields of the steps.
    pub series: Arc<Series>,
    order: ZoneOrder,
    /// Options of each particle. Its times are the first release and the last time of all.
    pub path: PathOptions,
    /// See [`ParticleOptions::within`].
    pub(crate) within: Option<[[f64; 3]; 2]>,
    /// Number of sampled components.
    pub components: usize,
    step_bytes: u64,
    enough: u64,
}

/// Bytes of a stored particle: itself, the seed's point and the last with room for four each, and their fields.
fn particle_bytes(components: usize) -> u64 {
    (size_of::<Particle>() + 2 * 4 * (48 + 8 * components) + 64) as u64
}

/// Bytes of a moving particle's number, and of its place during sorting.
const OF_GOING: u64 = 20;

/// Particles with the charge of their memory.
pub struct Flock {
    /// The particles.
    pub particles: Vec<Particle>,
    charge: Charge,
    bytes: u64,
    /// Number of times to which they were moved.
    turns: u32,
}

impl Flock {
    /// No particles yet. `components` are sampled; a seed holds `seed_bytes`.
    pub fn new(pager: &Arc<Pager>, components: usize, seed_bytes: u64) -> Result<Self, FieldError> {
        let charge = pager.charge(ChargeKind::Tasks, 0).map_err(|f| short(pager, f.needs))?;
        Ok(Self { particles: Vec::new(), charge, bytes: particle_bytes(components) + seed_bytes + OF_GOING, turns: 0 })
    }

    /// Makes room for `count` particles in all.
    ///
    /// # Errors
    /// [`FieldError::LimitTooSmall`].
    pub fn reserve(&mut self, pager: &Arc<Pager>, count: usize) -> Result<(), FieldError> {
        let bytes = (count as u64).saturating_mul(self.bytes);
        if bytes > self.charge.bytes() {
            self.charge.grow(bytes).map_err(|_| short(pager, bytes))?;
        }
        self.particles.reserve_exact(count.saturating_sub(self.particles.len()));
        Ok(())
    }

    /// Number of particles that fit into `bytes`.
    pub(crate) fn fitting(bytes: u64, components: usize) -> usize {
        usize::try_from(bytes / (particle_bytes(components) + OF_GOING)).unwrap_or(usize::MAX).max(1)
    }
}

fn short(pager: &Arc<Pager>, bytes: u64) -> FieldError {
    FieldError::LimitTooSmall {
        limit: pager.ledger().limit(),
        needs: would_do(pager, bytes.saturating_mul(2)),
        what: "the particles' state".into(),
    }
}

/// The result of moving particles to a time.
#[derive(Clone, Debug, Default)]
pub struct MarchResult {
    /// The first failed page, in words.
    pub failure: Option<String>,
}

/// Receives a particle that has reached the time: its number, and itself.
pub(crate) type Arrived<'a> = dyn Fn(usize, &mut Particle) -> Result<(), FieldError> + Sync + 'a;

impl March {
    /// Checks the specification before any page is read. Returns also the charge for the series.
    ///
    /// # Errors
    /// [`FieldError`]: unknown fields, times outside the series, a limit that does not hold the largest step.
    pub fn new(
        session: &Session,
        spec: &TraceSpec,
        path: &PathSpec,
        watch: &mut ProgressWatch<'_>,
    ) -> Result<(Self, Box<dyn Any>), FieldError> {
        let LineFields { names: sampled, stop } = LineFields::of(session, spec)?;
        session.dataset().fields(Some(&spec.field), &sampled, 0)?;
        let dataset = session.located(watch)?;
        dataset.uses.note(Use::Time);
        let Course { series, options, held } =
            crate::pathlines::series(&dataset, &session.pager, spec, path, (&sampled, stop))?;
        let at_once = if series.linear { series.times.len().min(2) } else { 1 };
        let step_bytes = dataset.step_bytes(&series.fields[0], &session.pager, at_once);
        let closure = dataset.closure_bytes(&series.fields[0], &session.pager, at_once);
        let limit = session.pager.ledger().limit();
        let components = spec.scalars.iter().map(|n| dataset.quantity(0, n).map_or(1, |q| q.components())).sum();
        let workers = session.resources.threads() as u64;
        let enough = enough_limit(closure + 2 * workers * particle_bytes(components)).max(least_limit(step_bytes));
        if limit < least_limit(step_bytes) {
            let what = "the largest step of a particle".into();
            return Err(FieldError::LimitTooSmall { limit, needs: enough, what });
        }
        let order = session.zone_order(&dataset)?;
        let zones = dataset.zones.clone();
        Ok((Self { zones, series, order, path: options, within: None, components, step_bytes, enough }, held))
    }

    pub(crate) fn forward(&self) -> bool {
        self.path.times[1] >= self.path.times[0]
    }

    /// Moves particles to a time of the series, or the last of all, without a stop between. Those already there stay.
    ///
    /// # Errors
    /// [`FieldError`]; [`FieldError::Interrupted`] if `watch` returns false. `watch` gets the number of particles that
    /// have arrived.
    pub fn go_to(
        &self,
        session: &Session,
        flock: &mut Flock,
        until: f64,
        arrived: Option<&Arrived<'_>>,
        watch: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<MarchResult, FieldError> {
        let options = ParticleOptions { path: self.path.clone(), until, within: self.within };
        let going = flock.particles.iter().zip(0u32..).filter(|(p, _)| !p.is_there(&options)).map(|(_, n)| n);
        let mut going: Vec<u32> = going.collect();
        // Neighbours go together, and the order reverses at each time: resident pages of one end serve the next
        // beginning.
        let place = |n: &u32| flock.particles[*n as usize].place().map_or(0, |cell| self.zones.curve_key(cell));
        going.sort_by_cached_key(place);
        if flock.turns % 2 == 1 {
            going.reverse();
        }
        flock.turns += 1;
        if going.is_empty() {
            return Ok(MarchResult::default());
        }
        let (pager, workers) = (&session.pager, session.resources.threads());
        let each = particle_bytes(self.components);
        let active = active_lines(pager.ledger().limit(), self.step_bytes, each, workers, pager.readers());
        let total = going.len() as u64;
        let work = MarchWindow {
            march: self,
            options: &options,
            pager,
            going: &going,
            flock: Mutex::new(&mut flock.particles),
            arrived,
            failure: Mutex::new(None),
            workers,
        };
        let load = RunLoad { tasks: total, workers, active };
        let limit = pager.ledger().limit();
        let run = executor::run(&work, pager, load, &mut |done| watch(done, total))
            .map_err(|e| more_than(e, self.enough.max(limit + limit / 2)))?;
        session.add_wait(run.wait_s);
        let failure = work.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(MarchResult { failure })
    }
}

/// Particles on their way to one time.
struct MarchWindow<'a> {
    march: &'a March,
    options: &'a ParticleOptions,
    pager: &'a Arc<Pager>,
    going: &'a [u32],
    /// Each particle stays unchanged until its new state arrives. A dropped task begins again from it.
    flock: Mutex<&'a mut Vec<Particle>>,
    arrived: Option<&'a Arrived<'a>>,
    failure: Mutex<Option<String>>,
    workers: usize,
}

struct BatchProgress {
    number: usize,
    particle: Particle,
    failure: Option<PageError>,
}

impl Work for MarchWindow<'_> {
    type Task = BatchProgress;
    type Context = UnsteadyFlow<PagedNodes>;

    fn context(&self, _thread: usize, worker: Worker) -> Self::Context {
        let nodes = PagedNodes::new(self.march.zones.clone(), worker, 0);
        UnsteadyFlow::new(nodes, self.march.series.clone(), self.march.order.clone())
    }
    fn worker<'c>(&self, flow: &'c mut Self::Context) -> &'c mut Worker {
        flow.grid.space.nodes.nodes().worker()
    }
    fn admit(&self, n: u64) -> Result<BatchProgress, FieldError> {
        let number = self.going[n as usize] as usize;
        let particle = self.flock.lock().unwrap_or_else(PoisonError::into_inner)[number].clone();
        Ok(BatchProgress { number, particle, failure: None })
    }
    fn steps(
        &self,
        flow: &mut Self::Context,
        tasks: [Option<&mut BatchProgress>; LANES],
        outcomes: &mut [Outcome; LANES],
    ) {
        let mut failures = [const { None }; LANES];
        let mut particles = [const { None }; LANES];
        for ((task, particle), failure) in tasks.into_iter().zip(&mut particles).zip(&mut failures) {
            if let Some(BatchProgress { particle: p, failure: f, .. }) = task {
                (*particle, *failure) = (Some(p), Some(f));
            }
        }
        step_unsteady(flow, self.options, particles, outcomes, |lane, error| {
            if let Some(f) = &mut failures[lane] {
                **f = error;
            }
        });
    }
    fn bytes(&self, task: &BatchProgress) -> usize {
        kernels::unsteady::UnsteadyLine::bytes(&task.particle)
    }
    fn finish(&self, mut task: BatchProgress) -> Result<(), FieldError> {
        if let Some(e) = &task.failure {
            if let Some(e) = too_large(self.pager, e) {
                return Err(e);
            }
            let mut said = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            said.get_or_insert_with(|| e.to_string());
        }
        if let Some(arrived) = self.arrived {
            arrived(task.number, &mut task.particle)?;
        }
        self.flock.lock().unwrap_or_else(PoisonError::into_inner)[task.number] = task.particle;
        Ok(())
    }
}

impl Windowed for MarchWindow<'_> {}

impl Budgeted for MarchWindow<'_> {
    fn resized(&self, limit: u64, _active: usize) -> Result<usize, FieldError> {
        let each = particle_bytes(self.march.components);
        Ok(active_lines(limit, self.march.step_bytes, each, self.workers, self.pager.readers()))
    }
}

/// Whether a released particle is still under way, or at the last time.
pub fn is_under_way(p: &Particle) -> bool {
    matches!(p.ended(), None | Some(Reason::Time))
}
