//! A third kind of domain behind the same traits as zones. Streamlines, probes and seeds in tetrahedra, in memory and
//! through the pager.

mod locator;
mod mesh;
#[path = "../cut/pages.rs"]
mod pages;

use field::domain::{Domains, Locator};
use field::error::FieldError;
use field::locator::LANES;
use kernels::flow::{DomainFlow, ZoneOrder};
use kernels::line::{JoinedLine, Reason};
use kernels::rk::Method;
use kernels::streamline::{Direction, Integrator, Options, Seed, StepProgress, Streamline};
use locator::{Access, TetLocator};
use mesh::{Bytes, Mesh, TetId};
use pager::{Backend, Pager, PagerConfig, PolicyKind, Worker};
use pages::{same, simulation};
use runtime::executor::{run, Budgeted, Outcome, RunLoad, Windowed, Work};
use runtime::limits::enough_limit;
use std::sync::{Arc, Mutex};
use trace::admission::RandomCells;
use trace::line_kinds::step_lines;
use trace::seeds::SeedStream;

/// Speed along the axis of the turning flow.
const RISE: f64 = 0.05;

/// A vortex about the middle of the box. It is linear, so tetrahedra represent it to the last digits.
fn vortex(x: [f64; 3]) -> [f64; 3] {
    [0.5 - x[1], x[0] - 0.5, RISE]
}

/// The place of a particle after a time.
fn turned(x: [f64; 3], time: f64) -> [f64; 3] {
    let (sin, cos) = time.sin_cos();
    let (a, b) = (x[0] - 0.5, x[1] - 0.5);
    [0.5 + a * cos - b * sin, 0.5 + a * sin + b * cos, x[2] + RISE * time]
}

/// A linear field.
fn linear(x: [f64; 3]) -> f64 {
    1.0 + 2.0 * x[0] - 3.0 * x[1] + 0.5 * x[2]
}

fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn in_memory() -> DomainFlow<TetLocator> {
    let (mesh, bytes) = Mesh::new(vortex, linear);
    DomainFlow::new(TetLocator::new(Arc::new(mesh), Access::Memory(Arc::new(bytes))), ZoneOrder::file(1))
}

fn line(flow: &mut DomainFlow<TetLocator>, seed: &Seed, o: &Options) -> JoinedLine {
    let mut line = Streamline::new(seed.clone(), o, 1);
    for _ in 0..100_000 {
        if line.step(flow, o).unwrap() == StepProgress::Done {
            return line.into_line();
        }
    }
    panic!("it does not end");
}

/// The middles of every `every`th cell, then as many random seeds.
fn seeds(mesh: &Mesh, every: usize) -> Vec<Seed> {
    let cells = (0..mesh.cells(0)).step_by(every);
    let middles = cells.clone().map(|n| Seed::Computational { zone: 0, ijk: [n as f64 + 0.25, 0.25, 0.25] });
    let random = RandomCells::of(mesh);
    let drawn = cells.enumerate().map(|(n, _)| {
        let (zone, ijk) = random.draw(mesh, &mut SeedStream::new(7, n as u64));
        Seed::Computational { zone, ijk }
    });
    middles.chain(drawn).collect()
}

#[test]
fn streamlines_follow_the_curve_with_their_order() {
    let mut flow = in_memory();
    let (x, time) = ([0.8, 0.45, 0.3], 5.0);
    let exact = turned(x, time);
    let mut end = |o: Options| {
        let line = line(&mut flow, &Seed::Physical(x), &Options { max_time: time, ..o });
        assert_eq!(line.reason, Some(Reason::Time));
        distance(*line.points.last().unwrap(), exact)
    };
    for (method, order, step) in [(Method::Euler, 1, 2e-3), (Method::Rk4, 4, 0.15)] {
        let error =
            |step: f64| Options { method: Integrator::Fixed(method), max_step: Some(step), ..Options::default() };
        let (coarse, fine) = (end(error(step)), end(error(step / 2.0)));
        let slope = (coarse / fine).log2();
        assert!((slope - f64::from(order)).abs() < 0.3, "{method:?}: {coarse} and {fine}, slope {slope}");
    }
    // At the fifth order, only the rounding of vectors to single precision remains.
    let rk45 = Options { method: Integrator::Fixed(Method::Rk45), max_step: Some(0.2), ..Options::default() };
    assert!(end(rk45) < 1e-7);
    // Steps within cells, over their faces.
    let error = |tolerance: f64| Options { tolerance, max_steps: 10_000, ..Options::default() };
    let errors = [1e-4, 1e-6, 1e-9].map(|tolerance| end(error(tolerance)));
    assert!(errors[0] < 1e-4 && errors[1] < 1e-6 && errors[2] < 1e-9, "{errors:?}");
}

#[test]
fn lines_end_at_boundaries_for_what_they_are() {
    let mut flow = in_memory();
    for (x, direction, reason) in [
        ([0.7, 0.5, 0.2], Direction::Forward, Reason::Left),
        ([0.7, 0.5, 0.2], Direction::Backward, Reason::Wall),
        ([0.97, 0.97, 0.5], Direction::Forward, Reason::Left),
    ] {
        for method in [Integrator::Rk45, Integrator::Rk45Physical] {
            let o = Options { method, direction, max_steps: 10_000, ..Options::default() };
            let line = line(&mut flow, &Seed::Physical(x), &o);
            let (found, end) = match direction {
                Direction::Backward => (line.reason_backward.or(line.reason), line.points[0]),
                _ => (line.reason, *line.points.last().unwrap()),
            };
            assert_eq!(found, Some(reason), "{x:?} {direction:?} {method:?}");
            let near = end.iter().any(|c| *c < 1e-2 || *c > 1.0 - 1e-2);
            assert!(near, "{end:?}");
        }
    }
    assert_eq!(line(&mut flow, &Seed::Physical([1.5, 0.5, 0.5]), &Options::default()).points.len(), 0);
}

#[test]
fn probes_of_a_linear_field_are_exact() {
    let mut flow = in_memory();
    for n in 0..500u32 {
        let x = [0.618_034, 0.754_878, 0.569_84].map(|g: f64| (f64::from(n) * g).fract());
        let spot = flow.start(x).unwrap().expect("it is in the box");
        let mut values = Vec::new();
        flow.space.sample(&spot, &mut values).unwrap();
        assert!((values[0] - linear(x)).abs() < 1e-13, "{x:?}: {values:?}");
    }
    assert_eq!(flow.start([0.5, 0.5, 1.0 + 1e-6]).unwrap(), None);
}

#[test]
fn seeds_lie_in_their_cells_and_random_ones_are_even() {
    let mut flow = in_memory();
    let mesh = flow.space.mesh.clone();
    for n in (0..mesh.cells(0)).step_by(97) {
        let mut stream = SeedStream::new(3, n);
        let index = mesh.index_in(0, n, &mut || stream.next_f64());
        let spot = mesh.spot(0, index);
        assert_eq!(spot.cell, TetId(n as u32));
        let x = flow.position(spot.cell, spot.rst).unwrap();
        assert_eq!(flow.start(x).unwrap().map(|s| s.cell), Some(spot.cell), "{x:?}");
    }
    let random = RandomCells::of(&*mesh);
    let count = 4000;
    let mut halves = [0; 3];
    for n in 0..count {
        let (zone, index) = random.draw(&*mesh, &mut SeedStream::new(1, n));
        let spot = mesh.spot(zone, index);
        let x = flow.position(spot.cell, spot.rst).unwrap();
        halves.iter_mut().zip(x).for_each(|(half, c)| *half += u64::from(c < 0.5));
    }
    // Four standard deviations of a fair coin.
    assert!(halves.iter().all(|half| half.abs_diff(count / 2) < 127), "{halves:?}");
}

struct Lines<'a> {
    mesh: Arc<Mesh>,
    seeds: &'a [Seed],
    options: &'a Options,
    out: Mutex<Vec<Option<JoinedLine>>>,
}

impl Work for Lines<'_> {
    type Task = (usize, Streamline<TetId>);
    type Context = DomainFlow<TetLocator>;
    fn context(&self, _thread: usize, worker: Worker) -> Self::Context {
        DomainFlow::new(TetLocator::new(self.mesh.clone(), Access::Pager(worker)), ZoneOrder::file(1))
    }
    fn worker<'c>(&self, flow: &'c mut Self::Context) -> &'c mut Worker {
        match &mut flow.space.access {
            Access::Pager(worker) => worker,
            Access::Memory(_) => unreachable!("it was made with a worker"),
        }
    }
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError> {
        Ok((n as usize, Streamline::new(self.seeds[n as usize].clone(), self.options, 1)))
    }
    fn steps(
        &self,
        flow: &mut Self::Context,
        tasks: [Option<&mut Self::Task>; LANES],
        outcomes: &mut [Outcome; LANES],
    ) {
        step_lines(flow, self.options, tasks.map(|t| t.map(|t| &mut t.1)), outcomes, |_, _| ());
    }
    fn bytes(&self, task: &Self::Task) -> usize {
        task.1.bytes()
    }
    fn finish(&self, task: Self::Task) -> Result<(), FieldError> {
        self.out.lock().unwrap()[task.0] = Some(task.1.into_line());
        Ok(())
    }
}

impl Windowed for Lines<'_> {}

impl Budgeted for Lines<'_> {}

/// The lines, and the number of evicted pages.
fn out_of_core(
    (limit, policy, workers): (u64, PolicyKind, usize),
    bytes: &Bytes,
    seeds: &[Seed],
    options: &Options,
) -> (Vec<JoinedLine>, u64) {
    let config = PagerConfig { limit, policy, readers: 8, backend: Backend::Threads, observer: None };
    let pager = Pager::new(config).unwrap();
    let mesh = Arc::new(Mesh::new(vortex, linear).0.paged(bytes, &pager, simulation(limit ^ workers as u64)));
    let work = Lines { mesh, seeds, options, out: Mutex::new(vec![None; seeds.len()]) };
    let load = RunLoad { tasks: seeds.len() as u64, workers, active: 12 };
    run(&work, &pager, load, &mut |_| true).unwrap();
    assert!(pager.ledger().peak() <= limit, "{} over {limit}", pager.ledger().peak());
    let lines = work.out.into_inner().unwrap().into_iter().map(|l| l.expect("a line a seed")).collect();
    (lines, pager.counters().evictions)
}

#[test]
fn out_of_core_equals_in_core() {
    let (mesh, bytes) = Mesh::new(vortex, linear);
    // Some begin in physical space, which needs a search.
    let in_space = (0..20u32).map(|n| {
        Seed::Physical([0.618_034, 0.754_878, 0.569_84].map(|g: f64| (f64::from(n + 1) * g).fract() * 1.04 - 0.02))
    });
    let seeds: Vec<Seed> = seeds(&mesh, 400).into_iter().chain(in_space).collect();
    let pager = Pager::new(PagerConfig { backend: Backend::Threads, ..PagerConfig::default() }).unwrap();
    let closure = mesh.paged(&bytes, &pager, simulation(1)).closure_bytes(&[()], &pager, 1);
    let mut evictions = 0;
    for method in [Integrator::Rk45, Integrator::Rk45Physical, Integrator::Fixed(Method::Rk4)] {
        let o = Options { method, direction: Direction::Both, max_steps: 150, tolerance: 1e-5, ..Options::default() };
        let mut flow = in_memory();
        let truth: Vec<JoinedLine> = seeds.iter().map(|s| line(&mut flow, s, &o)).collect();
        let points: usize = truth.iter().map(|l| l.points.len()).sum();
        assert!(points > 5000, "{points} points are too few to mean anything");
        let least = closure + (512 << 10);
        let arms = [
            (64 << 20, PolicyKind::Clock, 1),
            (enough_limit(closure), PolicyKind::Clock, 2),
            (least, PolicyKind::Lru, 1),
            (least, PolicyKind::Sieve, 3),
            (least + (200 << 10), PolicyKind::S3Fifo, 2),
        ];
        for arm in arms {
            let (lines, evicted) = out_of_core(arm, &bytes, &seeds, &o);
            assert!(same(&truth, &lines), "{method:?} {arm:?} differs");
            evictions += evicted;
        }
    }
    assert!(evictions > 100, "{evictions} evictions: memory was not short");
}
