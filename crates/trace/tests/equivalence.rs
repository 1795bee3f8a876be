//! The main property: complete results are equal bit for bit under every limit, page size, policy, number of workers
//! and readers, and order of arrival. Runs also end with memory for hardly one step.

mod cut;

use cut::{flow, paged, same, seeds, simulation};
use field::error::FieldError;
use field::in_memory::FlatNodes;
use field::in_memory_series::FlatSeries;
use field::locator::{ZoneFields, ZoneLocator, LANES};
use field::nodes::{Nodes, Zone};
use field::paged::PagedNodes;
use kernels::flow::{GridFlow, ZoneOrder};
use kernels::line::{JoinedLine, Reason};
use kernels::streamline::{Direction, Integrator, Options, Seed, StepProgress, Streamline};
use pager::source::simulated::Simulation;
use pager::{Backend, Pager, PagerConfig, PolicyKind, Worker};
use runtime::executor::{run, Budgeted, Outcome, RunLoad, Windowed, Work};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trace::line_kinds::step_lines;

/// The flow as a steady series.
fn steady(flow: FlatNodes) -> FlatSeries {
    FlatSeries::new(vec![flow], &["xyz", "iblank", "density", "momentum"])
}

struct Lines<'a> {
    zones: Arc<[Zone]>,
    fields: Arc<[ZoneFields]>,
    seeds: &'a [[f64; 3]],
    options: &'a Options,
    out: Mutex<Vec<Option<JoinedLine>>>,
    /// Bytes that a task claims beyond its own.
    ballast: usize,
    /// Bytes that a result takes for a moment.
    finishing: usize,
}

impl<'a> Lines<'a> {
    fn new(zones: Arc<[Zone]>, seeds: &'a [[f64; 3]], options: &'a Options) -> Self {
        let out = Mutex::new(vec![None; seeds.len()]);
        Self { fields: fields(&zones), zones, seeds, options, out, ballast: 0, finishing: 0 }
    }

    fn lines(self) -> Vec<JoinedLine> {
        self.out.into_inner().unwrap().into_iter().map(|l| l.expect("a line a seed")).collect()
    }
}

impl Work for Lines<'_> {
    type Task = (usize, Streamline);
    type Context = GridFlow<PagedNodes>;
    fn context(&self, _thread: usize, worker: Worker) -> Self::Context {
        let nodes = PagedNodes::new(self.zones.clone(), worker, 0);
        GridFlow::new(ZoneLocator::new(nodes, self.fields.clone()), ZoneOrder::file(self.zones.len()))
    }
    fn worker<'c>(&self, flow: &'c mut Self::Context) -> &'c mut Worker {
        flow.space.nodes.worker()
    }
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError> {
        Ok((n as usize, Streamline::new(Seed::Physical(self.seeds[n as usize]), self.options, 4)))
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
        task.1.bytes() + self.ballast
    }
    fn finishing(&self, _: &Self::Task) -> usize {
        self.finishing
    }
    fn finish(&self, task: Self::Task) -> Result<(), FieldError> {
        self.out.lock().unwrap()[task.0] = Some(task.1.into_line());
        Ok(())
    }
}

impl Windowed for Lines<'_> {}

impl Budgeted for Lines<'_> {}

fn sampled() -> Vec<String> {
    ["density", "velocity"].map(str::to_owned).to_vec()
}

fn fields(zones: &[Zone]) -> Arc<[ZoneFields]> {
    zones.iter().map(|z| ZoneFields::named(z, Some("velocity"), &sampled(), 1.4, 1.0).unwrap()).collect()
}

fn in_core(flat: &FlatNodes, o: &Options) -> Vec<JoinedLine> {
    let mut flow = GridFlow::new(ZoneLocator::new(flat.clone(), fields(flat.zones())), ZoneOrder::file(2));
    let trace = |x: &[f64; 3]| {
        let mut s = Streamline::new(Seed::Physical(*x), o, 4);
        while s.step(&mut flow, o).unwrap() != StepProgress::Done {}
        s.into_line()
    };
    seeds().iter().map(trace).collect()
}

struct LimitArm {
    edge: [usize; 3],
    limit: u64,
    policy: PolicyKind,
    workers: usize,
    readers: usize,
    active: usize,
    simulation: Simulation,
}

fn out_of_core(
    flat: &FlatNodes,
    o: &Options,
    arm: &LimitArm,
) -> (Vec<JoinedLine>, u64, pager::Counters, runtime::executor::RunStats) {
    let config = PagerConfig {
        limit: arm.limit,
        policy: arm.policy,
        readers: arm.readers,
        backend: Backend::Threads,
        observer: None,
    };
    let pager = Pager::new(config).unwrap();
    let zones = paged(&steady(flat.clone()), arm.edge, &pager, arm.simulation.clone());
    let seeds = seeds();
    let work = Lines::new(zones, &seeds, o);
    let load = RunLoad { tasks: seeds.len() as u64, workers: arm.workers, active: arm.active };
    let stats = run(&work, &pager, load, &mut |_| true).unwrap();
    (work.lines(), pager.ledger().peak(), pager.counters(), stats)
}

fn options(method: Integrator) -> Options {
    Options { method, direction: Direction::Both, max_steps: 120, tolerance: 1e-5, ..Options::default() }
}

#[test]
fn out_of_core_equals_in_core() {
    let flat = flow(0.0);
    for method in [Integrator::Rk45, Integrator::Rk45Physical, Integrator::Fixed(kernels::rk::Method::Rk4)] {
        let o = options(method);
        let truth = in_core(&flat, &o);
        let points: usize = truth.iter().map(|l| l.points.len()).sum();
        assert!(points > 2000, "{points} points are too few to mean anything");
        let reasons: Vec<_> = truth.iter().filter_map(|l| l.reason).collect();
        assert!(reasons.contains(&Reason::Hole) && reasons.contains(&Reason::Left), "{reasons:?}");
        let arms = [
            LimitArm {
                edge: [8, 8, 8],
                limit: 64 << 20,
                policy: PolicyKind::Clock,
                workers: 1,
                readers: 1,
                active: 1,
                simulation: simulation(1),
            },
            LimitArm {
                edge: [8, 8, 8],
                limit: 1500 << 10,
                policy: PolicyKind::Clock,
                workers: 2,
                readers: 8,
                active: 12,
                simulation: simulation(2),
            },
            LimitArm {
                edge: [5, 7, 6],
                limit: 1300 << 10,
                policy: PolicyKind::Lru,
                workers: 3,
                readers: 4,
                active: 12,
                simulation: simulation(3),
            },
            LimitArm {
                edge: [13, 13, 11],
                limit: 1800 << 10,
                policy: PolicyKind::Clock,
                workers: 2,
                readers: 16,
                active: 8,
                simulation: simulation(4),
            },
            LimitArm {
                edge: [21, 4, 1],
                limit: 1500 << 10,
                policy: PolicyKind::Lru,
                workers: 5,
                readers: 33,
                active: 12,
                simulation: simulation(5),
            },
            LimitArm {
                edge: [8, 8, 8],
                limit: 1500 << 10,
                policy: PolicyKind::Sieve,
                workers: 2,
                readers: 8,
                active: 12,
                simulation: simulation(6),
            },
            LimitArm {
                edge: [5, 7, 6],
                limit: 1300 << 10,
                policy: PolicyKind::S3Fifo,
                workers: 3,
                readers: 4,
                active: 12,
                simulation: simulation(7),
            },
            LimitArm {
                edge: [21, 4, 1],
                limit: 1500 << 10,
                policy: PolicyKind::TwoQueue,
                workers: 5,
                readers: 33,
                active: 12,
                simulation: simulation(8),
            },
        ];
        for (n, arm) in arms.iter().enumerate() {
            let (lines, peak, c, _) = out_of_core(&flat, &o, arm);
            assert!(same(&truth, &lines), "arm {n} of {method:?} differs");
            assert!(peak <= arm.limit, "arm {n}: peak {peak} over {}", arm.limit);
            assert!(c.faults > 0 && c.touched <= c.total);
        }
    }
}

#[test]
fn many_tasks_on_little_memory_end() {
    // Eight active tasks need scattered pages, with memory for a few dozen. They thrash, elders finish, and the lines
    // are right.
    let flat = flow(0.0);
    let o = options(Integrator::Rk45);
    let truth = in_core(&flat, &o);
    let mut elders = 0;
    for seed in 0..4 {
        let arm = LimitArm {
            edge: [8, 8, 8],
            limit: 640 << 10,
            policy: PolicyKind::Clock,
            workers: 2,
            readers: 8,
            active: 8,
            simulation: simulation(10 + seed),
        };
        let (lines, peak, c, stats) = out_of_core(&flat, &o, &arm);
        assert!(same(&truth, &lines), "seed {seed}");
        assert!(peak <= arm.limit, "seed {seed}: peak {peak} over {}", arm.limit);
        assert!(c.evictions > 100, "{} evictions: memory was not short", c.evictions);
        elders += stats.elders;
    }
    println!("{elders} elders");
}

#[test]
fn one_page_wanted_by_all_is_read_once() {
    let flat = flow(0.0);
    let o = options(Integrator::Rk45);
    let arm = LimitArm {
        edge: [64, 64, 64],
        limit: 64 << 20,
        policy: PolicyKind::Clock,
        workers: 4,
        readers: 4,
        active: 60,
        simulation: simulation(20),
    };
    let (_, _, c, _) = out_of_core(&flat, &o, &arm);
    assert_eq!(c.published, c.touched, "a page was read twice");
}

#[test]
fn failed_pages_end_lines_as_failed() {
    let flat = flow(0.0);
    let o = options(Integrator::Rk45);
    let truth = in_core(&flat, &o);
    // A flipped bit in the first array's pages, in the middle of the data.
    let simulation = Simulation { flipped: vec![200_000], ..simulation(30) };
    let arm = LimitArm {
        edge: [8, 8, 8],
        limit: 16 << 20,
        policy: PolicyKind::Clock,
        workers: 2,
        readers: 8,
        active: 20,
        simulation,
    };
    let (lines, _, c, _) = out_of_core(&flat, &o, &arm);
    assert_eq!(c.failed, 1);
    let failed =
        lines.iter().filter(|l| l.reason == Some(Reason::Failed) || l.reason_backward == Some(Reason::Failed)).count();
    assert!(failed > 0, "no line met the broken page");
    for (a, b) in truth.iter().zip(&lines) {
        if b.reason != Some(Reason::Failed) && b.reason_backward != Some(Reason::Failed) {
            assert!(
                same(std::slice::from_ref(a), std::slice::from_ref(b)),
                "a line that never met the broken page differs"
            );
        }
    }
}

/// Tasks without memory for their state are dropped and begin again, in the end one at a time. Results are the same.
#[test]
fn tasks_without_room_are_begun_again() {
    let flat = flow(0.0);
    let o = options(Integrator::Rk45);
    let truth = in_core(&flat, &o);
    for workers in [1, 2] {
        let config = PagerConfig { limit: 3 << 20, readers: 8, backend: Backend::Threads, ..PagerConfig::default() };
        let pager = Pager::new(config).unwrap();
        let zones = paged(&steady(flat.clone()), [8, 8, 8], &pager, simulation(60));
        let seeds = seeds();
        // Ten fit at most, and sixty are active.
        let work = Lines { ballast: 300 << 10, ..Lines::new(zones, &seeds, &o) };
        let stats = run(&work, &pager, RunLoad { tasks: 60, workers, active: 60 }, &mut |_| true).unwrap();
        assert!(stats.dropped > 0);
        assert!(same(&truth, &work.lines()), "{workers} workers");
        assert_eq!(pager.ledger().of(pager::ChargeKind::Tasks), 0);
    }
}

/// The memory of a result during its handover is charged, too. Without room beside other tasks it waits, or its task is
/// dropped. Without any room, the error names the need of the run.
#[test]
fn results_without_room_wait_or_end_with_what_they_need() {
    let flat = flow(0.0);
    let o = Options { max_steps: 120, tolerance: 1e-6, ..options(Integrator::Rk45) };
    let truth = in_core(&flat, &o);
    for (workers, finishing) in [(1, 1 << 20), (2, 1 << 20), (1, 4 << 20), (2, 4 << 20)] {
        let config = PagerConfig { limit: 3 << 20, readers: 8, backend: Backend::Threads, ..PagerConfig::default() };
        let pager = Pager::new(config).unwrap();
        let zones = paged(&steady(flat.clone()), [8, 8, 8], &pager, simulation(70));
        let seeds = seeds();
        let work = Lines { ballast: 100 << 10, finishing, ..Lines::new(zones, &seeds, &o) };
        let ended = run(&work, &pager, RunLoad { tasks: 60, workers, active: 60 }, &mut |_| true);
        match ended {
            Ok(_) => assert!(finishing < 3 << 20 && same(&truth, &work.lines()), "{workers} workers"),
            Err(FieldError::LimitTooSmall { needs, .. }) => assert!(finishing > 3 << 20 && needs > 4 << 20, "{needs}"),
            Err(e) => panic!("{e}"),
        }
        assert_eq!(pager.ledger().of(pager::ChargeKind::Tasks), 0);
    }
}

/// A lowered limit takes memory from tasks. Some are dropped, depending on the moment, and results are the same.
#[test]
fn the_limit_may_change_while_lines_are_under_way() {
    let flat = flow(0.0);
    let o = Options { max_steps: 300, tolerance: 1e-6, ..options(Integrator::Rk45) };
    let truth = in_core(&flat, &o);
    for seed in 0..4u64 {
        let most = 8 << 20;
        let config = PagerConfig { limit: most, readers: 8, backend: Backend::Threads, ..PagerConfig::default() };
        let pager = Pager::new(config).unwrap();
        let zones = paged(&steady(flat.clone()), [8, 8, 8], &pager, simulation(50 + seed));
        let seeds = seeds();
        let work = Lines { ballast: 300 << 10, ..Lines::new(zones, &seeds, &o) };
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut n = seed;
                while !over.load(std::sync::atomic::Ordering::SeqCst) {
                    // One time in three there is hardly room for a line or two.
                    pager.set_limit([3 << 19, 3 << 20, most][n as usize % 3]);
                    n += 1;
                    std::thread::sleep(Duration::from_millis(8));
                }
            });
            let stats = run(&work, &pager, RunLoad { tasks: 60, workers: 2, active: 60 }, &mut |_| true);
            over.store(true, std::sync::atomic::Ordering::SeqCst);
            stats.unwrap();
        });
        assert!(same(&truth, &work.lines()), "seed {seed}");
        pager.set_limit(most);
        assert_eq!(pager.ledger().of(pager::ChargeKind::Tasks), 0, "seed {seed}");
    }
}

#[test]
fn a_limit_below_one_step_ends_with_what_it_needs() {
    // Each page fits alone, but not those of a step together.
    let flat = flow(0.0);
    let o = options(Integrator::Rk45);
    let config = PagerConfig { limit: 280 << 10, readers: 4, backend: Backend::Threads, ..PagerConfig::default() };
    let pager = Pager::new(config).unwrap();
    let zones = paged(&steady(flat.clone()), [21, 21, 21], &pager, simulation(40));
    let seeds = seeds();
    let work = Lines::new(zones, &seeds, &o);
    let e = run(&work, &pager, RunLoad { tasks: 60, workers: 2, active: 4 }, &mut |_| true).unwrap_err();
    assert!(matches!(e, FieldError::LimitTooSmall { needs, limit, .. } if needs > limit), "{e}");
}

#[test]
fn a_run_can_be_stopped() {
    let flat = flow(0.0);
    let o = Options { max_steps: 1_000_000, ..options(Integrator::Rk45) };
    let pager =
        Pager::new(PagerConfig { limit: 640 << 10, readers: 2, backend: Backend::Threads, ..PagerConfig::default() })
            .unwrap();
    let slow = Simulation::fixed(Duration::from_millis(20), 1);
    let zones = paged(&steady(flat.clone()), [8, 8, 8], &pager, slow);
    let seeds = seeds();
    let work = Lines::new(zones, &seeds, &o);
    let began = std::time::Instant::now();
    let e = run(&work, &pager, RunLoad { tasks: 60, workers: 2, active: 40 }, &mut |_| false).unwrap_err();
    assert!(matches!(e, FieldError::Interrupted), "{e}");
    assert!(began.elapsed() < Duration::from_secs(5));
}
