//! Streaklines and timelines out of core equal those in core, bit for bit. Particles that continue from a state equal
//! those of one run.

mod cut;

use cut::{flow, paged, same, seeds, simulation};
use field::error::FieldError;
use field::in_memory_series::FlatSeries;
use field::locator::{CellId, ZoneFields, LANES};
use field::nodes::{Nodes, Zone};
use field::paged::PagedNodes;
use kernels::flow::ZoneOrder;
use kernels::line::{JoinedLine, Reason};
use kernels::pathline::{PathOptions, Pathline};
use kernels::rk::Method;
use kernels::saved_state::{SavedState, Saver};
use kernels::streakline::{StreakOptions, Streakline};
use kernels::streamline::{Seed, StepProgress};
use kernels::timeline::{Refine, Timeline, TimelineOptions};
use kernels::unsteady::{Series, UnsteadyFlow, UnsteadyLine};
use pager::{Backend, Pager, PagerConfig, PolicyKind, Worker};
use runtime::executor::{run, Budgeted, Outcome, RunLoad, Windowed, Work};
use std::sync::{Arc, Mutex};
use trace::line_kinds::step_unsteady;

const TIMES: [f64; 7] = [0.0, 0.2, 0.3, 0.5, 0.8, 1.0, 1.2];

fn series(zones: &[Zone], steps: usize, linear: bool) -> Arc<Series> {
    let named = |z: &Zone| ZoneFields::named(z, Some("velocity"), &["density".to_owned()], 1.4, 1.0).unwrap();
    let fields: Arc<[ZoneFields]> = zones.iter().map(named).collect();
    Arc::new(Series { times: TIMES[..steps].into(), fields: vec![fields; steps].into(), linear })
}

/// The first steps of a turning flow, on a grid that leans over, with a moving hole.
fn turning(steps: usize) -> FlatSeries {
    FlatSeries::new(TIMES[..steps].iter().map(|t| flow(*t)).collect(), &[])
}

fn path(method: Method, times: [f64; 2], stops: &[f64]) -> PathOptions {
    PathOptions {
        method,
        tolerance: 1e-4,
        times,
        max_length: f64::INFINITY,
        max_steps: 400,
        time_step: None,
        step_cells: 0.25,
        stops: stops.into(),
        stop: None,
        every_step: true,
    }
}

fn streaks(path: PathOptions) -> StreakOptions {
    let [from, to] = path.times;
    let sign = if to < from { -1.0 } else { 1.0 };
    let all = (0..60).map(|n| from + sign * 0.04 * f64::from(n));
    StreakOptions { releases: all.take_while(|t| (t - to) * sign <= 0.0).collect(), path }
}

fn curve(n: usize) -> Arc<[[f64; 3]]> {
    let all = seeds();
    (0..3).map(|m| all[(3 * n + m) % all.len()]).collect()
}

fn finished<L: UnsteadyLine<Cell = CellId>>(flow: &mut UnsteadyFlow<FlatSeries>, o: &L::Options, mut line: L) -> L {
    while line.step(flow, o, 0).unwrap() != StepProgress::Done {}
    line
}

type Make<'a, L> = &'a (dyn Fn(usize) -> L + Sync);

struct TimeLines<'a, L: UnsteadyLine> {
    zones: Arc<[Zone]>,
    options: &'a L::Options,
    make: Make<'a, L>,
    out: Mutex<Vec<Option<JoinedLine>>>,
}

impl<L: UnsteadyLine<Cell = CellId> + 'static> Work for TimeLines<'_, L> {
    type Task = (usize, L);
    type Context = UnsteadyFlow<PagedNodes>;
    fn context(&self, _thread: usize, worker: Worker) -> Self::Context {
        let nodes = PagedNodes::new(self.zones.clone(), worker, 0);
        UnsteadyFlow::new(nodes, series(&self.zones, TIMES.len(), true), ZoneOrder::file(self.zones.len()))
    }
    fn worker<'c>(&self, flow: &'c mut Self::Context) -> &'c mut Worker {
        flow.grid.space.nodes.nodes().worker()
    }
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError> {
        Ok((n as usize, (self.make)(n as usize)))
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
    fn finish(&self, task: Self::Task) -> Result<(), FieldError> {
        self.out.lock().unwrap()[task.0] = Some(task.1.into_line());
        Ok(())
    }
}

impl<L: UnsteadyLine<Cell = CellId> + 'static> Windowed for TimeLines<'_, L> {}

impl<L: UnsteadyLine<Cell = CellId> + 'static> Budgeted for TimeLines<'_, L> {}

/// Traces the same lines in core, and out of core in several ways. All must be equal. Returns those in core.
fn all_equal<L: UnsteadyLine<Cell = CellId> + 'static>(
    count: usize,
    options: &L::Options,
    make: Make<'_, L>,
) -> Vec<JoinedLine> {
    let flat = turning(TIMES.len());
    let mut core = UnsteadyFlow::new(flat.clone(), series(flat.zones(), TIMES.len(), true), ZoneOrder::file(2));
    let truth: Vec<JoinedLine> = (0..count).map(|n| finished(&mut core, options, make(n)).into_line()).collect();
    let arms = [
        ([8, 8, 8], 64 << 20, PolicyKind::Clock, 1, 1, 1),
        ([8, 8, 8], 3 << 20, PolicyKind::Clock, 2, 8, 8),
        ([5, 7, 6], 3 << 20, PolicyKind::Lru, 3, 4, 6),
    ];
    for (n, (edge, limit, policy, workers, readers, active)) in arms.into_iter().enumerate() {
        let config = PagerConfig { limit, policy, readers, backend: Backend::Threads, observer: None };
        let pager = Pager::new(config).unwrap();
        let zones = paged(&flat, edge, &pager, simulation(300 + n as u64));
        let work = TimeLines { zones, options, make, out: Mutex::new(vec![None; count]) };
        run(&work, &pager, RunLoad { tasks: count as u64, workers, active }, &mut |_| true).unwrap();
        let lines: Vec<JoinedLine> = work.out.into_inner().unwrap().into_iter().map(Option::unwrap).collect();
        assert!(same(&truth, &lines), "arm {n} differs");
        assert!(pager.ledger().peak() <= limit, "arm {n}: {}", pager.ledger().peak());
    }
    truth
}

#[test]
fn streaklines_out_of_core_equal_those_in_core() {
    for (times, stops) in [([0.0, 1.2], vec![]), ([1.1, 0.1], vec![]), ([0.1, 1.1], vec![0.1, 0.35, 0.5, 1.1])] {
        let options = streaks(path(Method::Rk45, times, &stops));
        let make = |n: usize| Streakline::new(Seed::Physical(seeds()[n]), &options, 1);
        let lines = all_equal(30, &options, &make);
        let points: usize = lines.iter().map(|l| l.points.len()).sum();
        assert!(points > 100, "{points} points are too few to mean anything");
        let at: Vec<f64> = stops.iter().chain([&times[1]]).copied().collect();
        assert!(lines.iter().flat_map(|l| &l.time).all(|t| at.contains(t)));
    }
}

#[test]
fn timelines_out_of_core_equal_those_in_core() {
    for (times, stops) in [([0.0, 1.2], vec![]), ([1.0, 0.2], vec![]), ([0.1, 0.9], vec![0.3, 0.6])] {
        let path = path(Method::Rk45, times, &stops);
        let options = TimelineOptions { path, refine: Refine::Length(0.1), max_points: 60 };
        let make = |n: usize| Timeline::along(curve(n), &options, 1);
        let lines = all_equal(12, &options, &make);
        let points: usize = lines.iter().map(|l| l.points.len()).sum();
        assert!(points > 100, "{points} points are too few to mean anything");
        assert!(lines.iter().any(|l| l.reason == Some(Reason::Points)) && lines.iter().any(|l| l.points.len() > 3));
    }
}

/// Traces lines to the end of a shorter series, saves them, and continues in the whole one.
fn in_two<L: UnsteadyLine<Cell = CellId>>(
    steps: [usize; 2],
    linear: bool,
    options: impl Fn(f64) -> L::Options,
    fresh: impl Fn(&Seed, &L::Options) -> L,
) -> [Vec<JoinedLine>; 2] {
    let ends = steps.map(|n| TIMES[n - 1]);
    let [old, new] = ends.map(&options);
    let flow = |steps: usize| {
        let flat = turning(steps);
        let series = series(flat.zones(), steps, linear);
        UnsteadyFlow::new(flat, series, ZoneOrder::file(2))
    };
    // If the run ends within the series, all steps are there from the beginning.
    let (mut short, mut long) = (flow(steps[0]), flow(TIMES.len()));
    let mut out = [vec![], vec![]];
    for x in seeds().into_iter().step_by(2) {
        let seed = Seed::Physical(x);
        let mut kept = Saver::default();
        finished(&mut short, &old, fresh(&seed, &old)).save(&old, &mut kept);
        let mut from = SavedState(&kept.0);
        let line = L::restore(seed.clone(), &new, 1, &mut from).unwrap();
        assert!(from.is_at_end());
        for cut in [0, 1, kept.0.len() / 2, kept.0.len() - 1] {
            assert!(L::restore(seed.clone(), &new, 1, &mut SavedState(&kept.0[..cut])).is_none(), "cut at {cut}");
        }
        out[0].push(finished(&mut long, &new, line).into_line());
        out[1].push(finished(&mut long, &new, fresh(&seed, &new)).into_line());
    }
    out
}

#[test]
fn particles_go_on_as_in_one_run() {
    for (method, linear, max_steps) in
        [(Method::Rk45, true, 400), (Method::Rk45, false, 400), (Method::Rk4, true, 400), (Method::Rk45, true, 9)]
    {
        for steps in [[2, 7], [3, 4], [4, 7], [6, 7], [5, 5]] {
            let of =
                |stops: &'static [f64]| move |end: f64| PathOptions { max_steps, ..path(method, [0.1, end], stops) };
            for stops in [&[][..], &[0.1, 0.25, 0.3, 0.8, 0.9]] {
                let [two, one] = in_two::<Pathline>(steps, linear, of(stops), |s, o| Pathline::new(s.clone(), o, 1));
                assert!(same(&one, &two), "pathlines {method:?} {linear} {steps:?} {stops:?}");
                let [two, one] = in_two::<Streakline>(
                    steps,
                    linear,
                    |end| streaks(of(stops)(end)),
                    |s, o| Streakline::new(s.clone(), o, 1),
                );
                assert!(same(&one, &two), "streaklines {method:?} {linear} {steps:?} {stops:?}");
                let points: usize = one.iter().map(|l| l.points.len()).sum();
                assert!(points > 10, "{points} points are too few to mean anything");
            }
        }
    }
}
