//! Particles stored at each time of the series and restored equal those that go without a stop. Out of core they equal
//! those in core, bit for bit.

#[allow(dead_code)] // these tests need a part of it
mod cut;

use cut::{flow, paged, seeds, simulation};
use field::error::FieldError;
use field::in_memory_series::FlatSeries;
use field::locator::{ZoneFields, LANES};
use field::nodes::{Nodes, Zone};
use field::paged::PagedNodes;
use kernels::flow::ZoneOrder;
use kernels::line::Reason;
use kernels::particle::{Particle, ParticleOptions};
use kernels::pathline::{PathOptions, Pathline};
use kernels::rk::Method;
use kernels::streamline::{Seed, StepProgress};
use kernels::unsteady::{Series, UnsteadyFlow, UnsteadyLine};
use pager::{Backend, Pager, PagerConfig, PolicyKind, Worker};
use runtime::executor::{run, Budgeted, Outcome, RunLoad, Windowed, Work};
use std::sync::{Arc, Mutex};
use trace::line_kinds::step_unsteady;

const TIMES: [f64; 5] = [0.0, 0.3, 0.5, 1.0, 1.2];

fn series(zones: &[Zone]) -> Arc<Series> {
    let named = |z: &Zone| ZoneFields::named(z, Some("velocity"), &["density".to_owned()], 1.4, 1.0).unwrap();
    let fields: Arc<[ZoneFields]> = zones.iter().map(named).collect();
    Arc::new(Series { times: TIMES.into(), fields: vec![fields; TIMES.len()].into(), linear: true })
}

fn options(times: [f64; 2], until: f64, within: Option<[[f64; 3]; 2]>) -> ParticleOptions {
    let path = PathOptions {
        method: Method::Rk45,
        tolerance: 1e-5,
        times,
        max_length: f64::INFINITY,
        max_steps: 400,
        time_step: None,
        step_cells: 0.25,
        every_step: true,
        stops: [].into(),
        stop: None,
    };
    ParticleOptions { path, until, within }
}

/// A particle's position, time, zone, fields and reason of end, as bits.
fn state(p: &Particle) -> (Vec<u64>, Option<Reason>) {
    let last =
        p.last().map(|(x, zone, fields)| x.iter().chain(fields).map(|v| v.to_bits()).chain([zone.into()]).collect());
    let mut bits: Vec<u64> = last.unwrap_or_default();
    bits.push(p.time().to_bits());
    (bits, p.ended())
}

fn go(p: &mut Particle, flow: &mut UnsteadyFlow<FlatSeries>, o: &ParticleOptions) {
    while p.step(flow, o, 0).unwrap() != StepProgress::Done {}
}

#[test]
fn putting_a_particle_away_changes_nothing() {
    let flat = FlatSeries::new(TIMES.iter().map(|t| flow(*t)).collect(), &[]);
    let mut flow = UnsteadyFlow::new(flat.clone(), series(flat.zones()), ZoneOrder::file(2));
    let mut reasons = Vec::new();
    for x in seeds() {
        let whole = options([0.0, 1.2], 1.2, None);
        let mut line = Pathline::new(Seed::Physical(x), &whole.path, 1);
        while line.step(&mut flow, &whole.path, 0).unwrap() != StepProgress::Done {}
        let line = line.into_line();
        let mut kept = Particle::released_at(Seed::Physical(x), 0.0, 1);
        let mut trail = Particle::with_points(Seed::Physical(x), 0.0, 1);
        let mut points = Vec::new();
        for until in TIMES {
            let o = options([0.0, 1.2], until, None);
            go(&mut kept, &mut flow, &o);
            let mut again = trail.clone();
            go(&mut again, &mut flow, &o);
            again.take(|x, time, zone, fields| points.push((x, time, zone as i32 + 1, fields[0])));
            trail = again;
            assert_eq!(state(&kept), state(&trail));
        }
        let known: Vec<_> =
            (0..line.points.len()).map(|n| (line.points[n], line.time[n], line.zone[n], line.fields[n])).collect();
        assert_eq!(points, known);
        assert_eq!(kept.ended(), line.reason);
        reasons.extend(kept.ended());
    }
    for reason in [Reason::Time, Reason::Left, Reason::Hole] {
        assert!(reasons.contains(&reason), "no particle ended by {reason:?}: {reasons:?}");
    }
}

#[test]
fn a_box_is_left_on_its_face() {
    let flat = FlatSeries::new(TIMES.iter().map(|t| flow(*t)).collect(), &[]);
    let mut flow = UnsteadyFlow::new(flat.clone(), series(flat.zones()), ZoneOrder::file(2));
    let (mut out, mut away) = (0, 0);
    for x in seeds() {
        let within = [[x[0] - 0.13, x[1] - 0.11, x[2] - 0.2], [x[0] + 0.1, x[1] + 0.12, x[2] + 0.2]];
        let mut p = Particle::released_at(Seed::Physical(x), 0.0, 1);
        go(&mut p, &mut flow, &options([0.0, 1.2], 1.2, Some(within)));
        let mut free = Particle::released_at(Seed::Physical(x), 0.0, 1);
        let Some((end, ..)) = p.last() else { continue };
        let off = |a: usize| (end[a] - within[0][a]).min(within[1][a] - end[a]);
        let nearest = (0..3).map(off).fold(f64::INFINITY, f64::min);
        if p.ended() == Some(Reason::Left) && nearest.abs() < 1e-10 {
            out += 1;
            // Traced to that time without the box, it is at that place, up to the tolerance of its steps.
            let o = options([0.0, p.time().max(1e-9)], p.time().max(1e-9), None);
            go(&mut free, &mut flow, &o);
            let (there, ..) = free.last().unwrap();
            let apart = (0..3).map(|a| (there[a] - end[a]).abs()).fold(0.0, f64::max);
            assert!(apart < 1e-3, "{apart}");
        } else {
            away += 1;
            assert!(nearest > 0.0 && p.ended().is_some());
        }
    }
    assert!(out > 20, "{out} particles left by a face, {away} did not");
}

/// Particles on their way to one time.
struct ParticleWindow<'a> {
    zones: Arc<[Zone]>,
    options: &'a ParticleOptions,
    particles: Mutex<Vec<Particle>>,
}

impl Work for ParticleWindow<'_> {
    type Task = (usize, Particle);
    type Context = UnsteadyFlow<PagedNodes>;
    fn context(&self, _thread: usize, worker: Worker) -> Self::Context {
        let nodes = PagedNodes::new(self.zones.clone(), worker, 0);
        UnsteadyFlow::new(nodes, series(&self.zones), ZoneOrder::file(self.zones.len()))
    }
    fn worker<'c>(&self, flow: &'c mut Self::Context) -> &'c mut Worker {
        flow.grid.space.nodes.nodes().worker()
    }
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError> {
        Ok((n as usize, self.particles.lock().unwrap()[n as usize].clone()))
    }
    fn steps(
        &self,
        flow: &mut Self::Context,
        tasks: [Option<&mut Self::Task>; LANES],
        outcomes: &mut [Outcome; LANES],
    ) {
        step_unsteady(flow, self.options, tasks.map(|t| t.map(|t| &mut t.1)), outcomes, |_, e| panic!("{e:?}"));
    }
    fn bytes(&self, task: &Self::Task) -> usize {
        task.1.bytes()
    }
    fn finish(&self, (n, particle): Self::Task) -> Result<(), FieldError> {
        self.particles.lock().unwrap()[n] = particle;
        Ok(())
    }
}

impl Windowed for ParticleWindow<'_> {}

impl Budgeted for ParticleWindow<'_> {}

#[test]
fn out_of_core_equals_in_core() {
    let flat = FlatSeries::new(TIMES.iter().map(|t| flow(*t)).collect(), &[]);
    for (case, (times, within)) in
        [([0.0, 1.2], None), ([1.2, 0.0], None), ([0.0, 1.2], Some([[-0.5, -0.6, 0.1], [0.6, 0.5, 0.8]]))]
            .into_iter()
            .enumerate()
    {
        let released = || -> Vec<Particle> {
            seeds().iter().map(|x| Particle::released_at(Seed::Physical(*x), times[0], 1).timed()).collect()
        };
        let mut flow = UnsteadyFlow::new(flat.clone(), series(flat.zones()), ZoneOrder::file(2));
        let mut known = released();
        let o = options(times, times[1], within);
        known.iter_mut().for_each(|p| go(p, &mut flow, &o));
        let known: Vec<_> = known.iter().map(state).collect();
        let arms = [
            ([8, 8, 8], 64 << 20, PolicyKind::Clock, 1, 1, 1, 5),
            ([8, 8, 8], 2 << 20, PolicyKind::Clock, 2, 8, 12, 1),
            ([5, 7, 6], 1800 << 10, PolicyKind::Lru, 3, 4, 12, 2),
            ([21, 4, 1], 2 << 20, PolicyKind::Lru, 5, 33, 12, 1),
        ];
        for (n, (edge, limit, policy, workers, readers, active, at_once)) in arms.into_iter().enumerate() {
            let config = PagerConfig { limit, policy, readers, backend: Backend::Threads, observer: None };
            let pager = Pager::new(config).unwrap();
            let zones = paged(&flat, edge, &pager, simulation(300 + n as u64));
            let mut particles = released();
            let edges: Vec<f64> =
                if times[1] > times[0] { TIMES.to_vec() } else { TIMES.iter().rev().copied().collect() };
            for until in edges.iter().skip(1).skip(at_once - 1).step_by(at_once).chain([&times[1]]) {
                let o = options(times, *until, within);
                let work = ParticleWindow { zones: zones.clone(), options: &o, particles: Mutex::new(particles) };
                let tasks = seeds().len() as u64;
                run(&work, &pager, RunLoad { tasks, workers, active }, &mut |_| true).unwrap();
                particles = work.particles.into_inner().unwrap();
            }
            let found: Vec<_> = particles.iter().map(state).collect();
            assert!(found == known, "arm {n} of case {case} differs");
            assert!(pager.ledger().peak() <= limit && pager.counters().faults > 0);
        }
    }
}
