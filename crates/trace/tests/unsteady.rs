//! Pathlines out of core equal those in core, bit for bit: in a turning flow, on a grid that leans over, with a moving
//! hole.

mod cut;

use cut::{flow, paged, same, seeds, simulation, uniform};
use field::error::FieldError;
use field::in_memory_series::FlatSeries;
use field::locator::{ZoneFields, LANES};
use field::nodes::{Nodes, Zone};
use field::paged::PagedNodes;
use kernels::flow::ZoneOrder;
use kernels::line::{JoinedLine, Reason};
use kernels::pathline::{PathOptions, Pathline};
use kernels::rk::Method;
use kernels::streamline::{Seed, StepProgress};
use kernels::unsteady::{Series, UnsteadyFlow, UnsteadyLine};
use pager::{Backend, PageId, Pager, PagerConfig, PolicyKind, Worker};
use runtime::executor::{run, Budgeted, Outcome, RunLoad, Windowed, Work};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use trace::line_kinds::step_unsteady;

const TIMES: [f64; 5] = [0.0, 0.3, 0.5, 1.0, 1.2];

fn series(zones: &[Zone]) -> Arc<Series> {
    let named = |z: &Zone| ZoneFields::named(z, Some("velocity"), &["density".to_owned()], 1.4, 1.0).unwrap();
    let fields: Arc<[ZoneFields]> = zones.iter().map(named).collect();
    Arc::new(Series { times: TIMES.into(), fields: vec![fields; TIMES.len()].into(), linear: true })
}

fn options(method: Method, times: [f64; 2]) -> PathOptions {
    PathOptions {
        method,
        tolerance: 1e-5,
        times,
        max_length: f64::INFINITY,
        max_steps: 400,
        time_step: None,
        step_cells: 0.25,
        every_step: true,
        stops: [].into(),
        stop: None,
    }
}

fn in_core(flat: &FlatSeries, o: &PathOptions) -> Vec<JoinedLine> {
    let mut flow = UnsteadyFlow::new(flat.clone(), series(flat.zones()), ZoneOrder::file(2));
    let trace = |x: &[f64; 3]| {
        let mut line = Pathline::new(Seed::Physical(*x), o, 1);
        while line.step(&mut flow, o, 0).unwrap() != StepProgress::Done {}
        line.into_line()
    };
    seeds().iter().map(trace).collect()
}

struct Paths<'a> {
    zones: Arc<[Zone]>,
    seeds: &'a [[f64; 3]],
    options: &'a PathOptions,
    out: Mutex<Vec<Option<JoinedLine>>>,
    pager: Arc<Pager>,
    given_back: AtomicU64,
}

impl Work for Paths<'_> {
    /// The seed, its particle, and the pieces that it has handed over.
    type Task = (usize, Pathline, Vec<JoinedLine>);
    type Context = UnsteadyFlow<PagedNodes>;
    fn context(&self, _thread: usize, worker: Worker) -> Self::Context {
        let nodes = PagedNodes::new(self.zones.clone(), worker, 0);
        UnsteadyFlow::new(nodes, series(&self.zones), ZoneOrder::file(self.zones.len()))
    }
    fn worker<'c>(&self, flow: &'c mut Self::Context) -> &'c mut Worker {
        flow.grid.space.nodes.nodes().worker()
    }
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError> {
        Ok((n as usize, Pathline::new(Seed::Physical(self.seeds[n as usize]), self.options, 1), Vec::new()))
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
    fn finish(&self, (n, line, pieces): Self::Task) -> Result<(), FieldError> {
        let mut all = JoinedLine::default();
        for mut piece in pieces.into_iter().chain([line.into_line()]) {
            all.points.append(&mut piece.points);
            all.time.append(&mut piece.time);
            all.zone.append(&mut piece.zone);
            all.fields.append(&mut piece.fields);
            all.reason = piece.reason;
        }
        self.out.lock().unwrap()[n] = Some(all);
        Ok(())
    }
}

impl Windowed for Paths<'_> {
    const WINDOWED: bool = true;
    fn window(&self, task: &Self::Task) -> u32 {
        task.1.window()
    }
    fn turned(
        &self,
        flow: &mut Self::Context,
        lane: usize,
        (n, line, pieces): &mut Self::Task,
        ahead: &mut Vec<(u32, u64)>,
    ) -> Result<(), FieldError> {
        let zones = &self.zones;
        line.ahead(flow, self.options, lane, &mut |cell| {
            zones[cell.zone as usize].translation.pages_of_cell(cell.ijk, |page| ahead.push((cell.zone, page)));
        });
        // Pieces may have any length.
        pieces.extend(line.drain(*n % 7));
        Ok(())
    }
    fn of_page(&self, _window: u32, (zone, page): (u32, u64), pages: &mut Vec<PageId>) {
        // Any pages may be prefetched.
        let (z, step) = (&self.zones[zone as usize], (page as usize % TIMES.len()) as u32);
        pages.extend(z.arrays.iter().map(|a| PageId::new(a.id, if a.steady { 0 } else { step }, page)));
    }
    fn passed(&self, window: u32) -> Vec<PageId> {
        let unsteady = |z: &Zone| z.arrays.iter().filter(|a| !a.steady).map(|a| a.id).collect::<Vec<_>>();
        let mut arrays: Vec<_> = self.zones.iter().flat_map(unsteady).collect();
        arrays.sort_unstable();
        let steps = series(&self.zones).passed(window, self.options.times);
        self.given_back.fetch_add(self.pager.give_back_segments(&arrays, steps), Relaxed);
        Vec::new()
    }
}

impl Budgeted for Paths<'_> {}

#[test]
fn out_of_core_equals_in_core() {
    let turning = FlatSeries::new(TIMES.iter().map(|t| flow(*t)).collect(), &[]);
    let standing = FlatSeries::new(TIMES.iter().map(|t| flow(0.1 * t)).collect(), &["xyz", "iblank", "density"]);
    let even = |blanked| FlatSeries::new(TIMES.iter().map(|t| uniform(*t, blanked)).collect(), &["xyz"]);
    let (holed, open) = (even(true), even(false));
    let cases = [
        (&holed, Method::Rk4, [0.0, 1.2]),
        (&open, Method::Rk45, [1.2, 0.1]),
        (&turning, Method::Rk45, [0.0, 1.2]),
        (&turning, Method::Rk4, [1.1, 0.05]),
        (&standing, Method::Rk45, [0.2, 1.2]),
    ];
    for (case, (flat, method, times)) in cases.into_iter().enumerate() {
        let o = options(method, times);
        let truth = in_core(flat, &o);
        let points: usize = truth.iter().map(|l| l.points.len()).sum();
        assert!(points > 800, "{points} points are too few to mean anything");
        let reasons: Vec<_> = truth.iter().filter_map(|l| l.reason).collect();
        let holed = flat.zones()[0].iblank.is_some();
        assert!(reasons.contains(&Reason::Left) && reasons.contains(&Reason::Hole) == holed, "{reasons:?}");
        let arms = [
            ([8, 8, 8], 64 << 20, PolicyKind::Clock, 1, 1, 1),
            ([8, 8, 8], 2 << 20, PolicyKind::Clock, 2, 8, 12),
            ([5, 7, 6], 1800 << 10, PolicyKind::Lru, 3, 4, 12),
            ([13, 13, 11], 3 << 20, PolicyKind::Clock, 2, 16, 8),
            ([21, 4, 1], 2 << 20, PolicyKind::Lru, 5, 33, 12),
            ([8, 8, 8], 4 << 20, PolicyKind::Clock, 1, 4, 1000),
            ([8, 8, 8], 2 << 20, PolicyKind::Sieve, 2, 8, 12),
            ([13, 13, 11], 3 << 20, PolicyKind::S3Fifo, 2, 16, 8),
            ([21, 4, 1], 2 << 20, PolicyKind::TwoQueue, 3, 4, 12),
        ];
        for (n, (edge, limit, policy, workers, readers, active)) in arms.into_iter().enumerate() {
            let config = PagerConfig { limit, policy, readers, backend: Backend::Threads, observer: None };
            let pager = Pager::new(config).unwrap();
            let zones = paged(flat, edge, &pager, simulation(100 + n as u64));
            let seeds = seeds();
            let out = Mutex::new(vec![None; seeds.len()]);
            let (pager_of_work, given_back) = (pager.clone(), AtomicU64::new(0));
            let work = Paths { zones, seeds: &seeds, options: &o, out, pager: pager_of_work, given_back };
            let load = RunLoad { tasks: seeds.len() as u64, workers, active };
            run(&work, &pager, load, &mut |_| true).unwrap();
            assert!(work.given_back.load(Relaxed) > 0, "arm {n} of case {case} gave no segment back");
            let lines: Vec<JoinedLine> =
                work.out.into_inner().unwrap().into_iter().map(|l| l.expect("a line a seed")).collect();
            assert!(same(&truth, &lines), "arm {n} of case {case} differs");
            assert!(pager.ledger().peak() <= limit, "arm {n} of case {case}: {}", pager.ledger().peak());
            assert!(pager.counters().faults > 0);
        }
    }
}
