//! Derived fields out of core equal those in core, bit for bit: gradients, and a definition with gradients. Streamlines
//! sample them, and pathlines on a grid that leans over. The arms vary limit, page size, policy, number of workers and
//! readers, and order of arrival.

mod cut;

use cut::derived::{in_core, with_derived, FIELDS};
use cut::{flow, paged, same, seeds, simulation};
use field::error::FieldError;
use field::in_memory_series::FlatSeries;
use field::locator::{ZoneFields, ZoneLocator, LANES};
use field::nodes::{Nodes, Zone};
use field::paged::PagedNodes;
use kernels::flow::{GridFlow, ZoneOrder};
use kernels::line::{JoinedLine, Reason};
use kernels::pathline::{PathOptions, Pathline};
use kernels::rk::Method;
use kernels::streamline::{Direction, Options, Seed, StepProgress, Streamline};
use kernels::unsteady::{Series, UnsteadyFlow, UnsteadyLine};
use pager::{Backend, Counters, Pager, PagerConfig, PolicyKind, Worker};
use runtime::executor::{run, Budgeted, Outcome, RunLoad, Windowed, Work};
use std::sync::{Arc, Mutex};
use trace::line_kinds::{step_lines, step_unsteady};

const TIMES: [f64; 4] = [0.0, 0.3, 0.5, 1.0];
/// Components of all sampled fields.
const SAMPLED: usize = 4;

fn fields(zones: &[Zone]) -> Arc<[ZoneFields]> {
    let sampled: Vec<String> = FIELDS.iter().map(|f| f.0.to_owned()).collect();
    zones.iter().map(|z| ZoneFields::named(z, Some("velocity"), &sampled, 1.4, 1.0).unwrap()).collect()
}

fn series(zones: &[Zone]) -> Arc<Series> {
    Arc::new(Series { times: TIMES.into(), fields: vec![fields(zones); TIMES.len()].into(), linear: true })
}

fn steady_options() -> Options {
    Options { direction: Direction::Both, max_steps: 120, tolerance: 1e-5, ..Options::default() }
}

fn path_options() -> PathOptions {
    PathOptions {
        method: Method::Rk45,
        tolerance: 1e-5,
        times: [TIMES[0], TIMES[3]],
        max_length: f64::INFINITY,
        max_steps: 400,
        time_step: None,
        step_cells: 0.25,
        every_step: true,
        stop: None,
        stops: [].into(),
    }
}

type Out = Mutex<Vec<Option<JoinedLine>>>;

struct TracedLines<'a>(Arc<[Zone]>, &'a [[f64; 3]], Options, Out);

impl Work for TracedLines<'_> {
    type Task = (usize, Streamline);
    type Context = GridFlow<PagedNodes>;
    fn context(&self, _thread: usize, worker: Worker) -> Self::Context {
        let nodes = PagedNodes::new(self.0.clone(), worker, 0);
        GridFlow::new(ZoneLocator::new(nodes, fields(&self.0)), ZoneOrder::file(self.0.len()))
    }
    fn worker<'c>(&self, flow: &'c mut Self::Context) -> &'c mut Worker {
        flow.space.nodes.worker()
    }
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError> {
        Ok((n as usize, Streamline::new(Seed::Physical(self.1[n as usize]), &self.2, SAMPLED)))
    }
    fn steps(
        &self,
        flow: &mut Self::Context,
        tasks: [Option<&mut Self::Task>; LANES],
        outcomes: &mut [Outcome; LANES],
    ) {
        step_lines(flow, &self.2, tasks.map(|t| t.map(|t| &mut t.1)), outcomes, |_, e| panic!("{e:?}"));
    }
    fn bytes(&self, task: &Self::Task) -> usize {
        task.1.bytes()
    }
    fn finish(&self, (n, line): Self::Task) -> Result<(), FieldError> {
        self.3.lock().unwrap()[n] = Some(line.into_line());
        Ok(())
    }
}

impl Windowed for TracedLines<'_> {}

impl Budgeted for TracedLines<'_> {}

struct Paths<'a>(Arc<[Zone]>, &'a [[f64; 3]], PathOptions, Out);

impl Work for Paths<'_> {
    type Task = (usize, Pathline);
    type Context = UnsteadyFlow<PagedNodes>;
    fn context(&self, _thread: usize, worker: Worker) -> Self::Context {
        let nodes = PagedNodes::new(self.0.clone(), worker, 0);
        UnsteadyFlow::new(nodes, series(&self.0), ZoneOrder::file(self.0.len()))
    }
    fn worker<'c>(&self, flow: &'c mut Self::Context) -> &'c mut Worker {
        flow.grid.space.nodes.nodes().worker()
    }
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError> {
        Ok((n as usize, Pathline::new(Seed::Physical(self.1[n as usize]), &self.2, SAMPLED)))
    }
    fn steps(
        &self,
        flow: &mut Self::Context,
        tasks: [Option<&mut Self::Task>; LANES],
        outcomes: &mut [Outcome; LANES],
    ) {
        step_unsteady(flow, &self.2, tasks.map(|t| t.map(|t| &mut t.1)), outcomes, |_, e| panic!("{e:?}"));
    }
    fn bytes(&self, task: &Self::Task) -> usize {
        task.1.bytes()
    }
    fn finish(&self, (n, line): Self::Task) -> Result<(), FieldError> {
        self.3.lock().unwrap()[n] = Some(line.into_line());
        Ok(())
    }
}

impl Windowed for Paths<'_> {}

impl Budgeted for Paths<'_> {}

/// Lines over flat arrays of the derived fields' values.
fn truth(flat: &FlatSeries, unsteady: bool) -> Vec<JoinedLine> {
    let (o, p) = (steady_options(), path_options());
    let mut flow = UnsteadyFlow::new(flat.clone(), series(flat.zones()), ZoneOrder::file(2));
    let mut still = GridFlow::new(ZoneLocator::new(flat.steps()[0].clone(), fields(flat.zones())), ZoneOrder::file(2));
    let line = |x: &[f64; 3]| {
        if unsteady {
            let mut line = Pathline::new(Seed::Physical(*x), &p, SAMPLED);
            while line.step(&mut flow, &p, 0).unwrap() != StepProgress::Done {}
            line.into_line()
        } else {
            let mut line = Streamline::new(Seed::Physical(*x), &o, SAMPLED);
            while line.step(&mut still, &o).unwrap() != StepProgress::Done {}
            line.into_line()
        }
    };
    seeds().iter().map(line).collect()
}

/// Edges of pages, limit, policy, workers, readers, active tasks.
type RunOptions = ([usize; 3], u64, PolicyKind, usize, usize, usize);

fn out_of_core(
    flat: &FlatSeries,
    times: &[f64],
    unsteady: bool,
    arm: RunOptions,
    seed: u64,
) -> (Vec<JoinedLine>, Counters) {
    let (edge, limit, policy, workers, readers, active) = arm;
    let config = PagerConfig { limit, policy, readers, backend: Backend::Threads, observer: None };
    let pager = Pager::new(config).unwrap();
    let zones = with_derived(&paged(flat, edge, &pager, simulation(seed)), &pager, times);
    let seeds = seeds();
    let load = RunLoad { tasks: seeds.len() as u64, workers, active };
    let out = Mutex::new(vec![None; seeds.len()]);
    let out = if unsteady {
        let work = Paths(zones, &seeds, path_options(), out);
        run(&work, &pager, load, &mut |_| true).unwrap();
        work.3
    } else {
        let work = TracedLines(zones, &seeds, steady_options(), out);
        run(&work, &pager, load, &mut |_| true).unwrap();
        work.3
    };
    assert!(pager.ledger().peak() <= limit, "{edge:?}: peak {} over {limit}", pager.ledger().peak());
    (out.into_inner().unwrap().into_iter().map(|l| l.expect("a line a seed")).collect(), pager.counters())
}

fn check(flat: &FlatSeries, times: &[f64], steady: &[&str], unsteady: bool, arms: &[RunOptions]) {
    let truth = truth(&in_core(flat, times, steady), unsteady);
    let values: Vec<f64> = truth.iter().flat_map(|l| l.fields.iter().copied()).collect();
    assert!(values.len() > 800 * SAMPLED, "{} values are too few to mean anything", values.len());
    assert!(values.iter().filter(|v| v.abs() > 0.1).count() > values.len() / 2);
    let reasons: Vec<_> = truth.iter().filter_map(|l| l.reason).collect();
    assert!(reasons.contains(&Reason::Left) && reasons.contains(&Reason::Hole), "{reasons:?}");
    let mut again = 0;
    for (n, arm) in arms.iter().enumerate() {
        let (lines, c) = out_of_core(flat, times, unsteady, *arm, 200 + n as u64);
        assert!(same(&truth, &lines), "arm {n} differs");
        assert!(c.derived > 0 && c.faults > 0);
        again += c.evictions;
    }
    assert!(again > 100, "{again} evictions: memory was never short");
}

#[test]
fn of_one_step() {
    let steady = ["xyz", "iblank", "density", "momentum", "vorticity", "own"];
    let flat = FlatSeries::new(vec![flow(0.0)], &steady);
    let arms = [
        ([8, 8, 8], 64 << 20, PolicyKind::Clock, 1, 1, 1),
        ([8, 8, 8], 3 << 20, PolicyKind::Clock, 2, 8, 12),
        ([5, 7, 6], 2 << 20, PolicyKind::Lru, 3, 4, 12),
        ([13, 13, 11], 4 << 20, PolicyKind::Clock, 2, 16, 8),
        ([21, 4, 1], 3 << 20, PolicyKind::Lru, 5, 33, 12),
        ([64, 64, 64], 64 << 20, PolicyKind::Clock, 4, 4, 60),
    ];
    check(&flat, &TIMES[..1], &steady, false, &arms);
}

#[test]
fn of_a_grid_that_leans_over() {
    let flat = FlatSeries::new(TIMES.iter().map(|t| flow(*t)).collect(), &[]);
    let arms = [
        ([8, 8, 8], 64 << 20, PolicyKind::Clock, 1, 1, 1),
        ([8, 8, 8], 4 << 20, PolicyKind::Clock, 2, 8, 12),
        ([5, 7, 6], 3 << 20, PolicyKind::Lru, 3, 4, 12),
        ([21, 4, 1], 4 << 20, PolicyKind::Lru, 5, 33, 12),
    ];
    check(&flat, &TIMES, &[], true, &arms);
}
