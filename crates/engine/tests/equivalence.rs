//! The property above all: complete results are equal bit for bit for every memory limit, page size, policy, number of
//! workers and readers, and order in which pages arrive; and runs end, also where memory holds hardly one step.

use engine::executor::{run, Load, Outcome, Work};
use engine::tracers::step_lines;
use field::error::FieldError;
use field::flat::{FlatArray, FlatNodes};
use field::nodes::{ArraySlot, BoxLevel, Nodes, Zone};
use field::paged::PagedNodes;
use field::space::{Space, ZoneFields, LANES};
use field::translate::Translation;
use kernels::flow::{GridFlow, ZoneOrder};
use kernels::line::{Joined, Reason};
use kernels::streamline::{Direction, Integrator, Options, Progress, Seed, Streamline};
use pager::source::simulated::{Simulated, Simulation};
use pager::{
    Backend, Located, PageError, PageErrorKind, PageId, PageMap, Pager, PagerConfig, PolicyKind, Segment, SourceId,
    Target, Worker,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One array cut in pages, each followed by its checksum, one after the other in a source.
struct TestMap {
    name: String,
    source: SourceId,
    first: u64,
    pages: u64,
    bytes: usize,
}

impl PageMap for TestMap {
    fn name(&self) -> &str {
        &self.name
    }
    fn pages(&self) -> u64 {
        self.pages
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.bytes
    }
    fn locate(&self, id: PageId, _: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let offset = self.first + id.page * (self.bytes as u64 + 4);
        let page = Segment { source: self.source, offset, len: self.bytes, to: Target::Frame(0) };
        let crc = Segment { source: self.source, offset: offset + self.bytes as u64, len: 4, to: Target::Encoded(0) };
        Located::Extents { segments: vec![page, crc], encoded_len: 4, scratch_len: 0 }
    }
    fn decode(&self, _: PageId, crc: &[u8], _: &mut [u8], frame: &mut [u8]) -> Result<(), PageError> {
        let (computed, stored) = (crc32c::crc32c(frame), u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]));
        if computed == stored {
            return Ok(());
        }
        Err(PageError::new(self.name.as_str(), PageErrorKind::Checksum { stored, computed }))
    }
    fn fill(&self, _: PageId, frame: &mut [u8]) {
        frame.fill(0);
    }
    fn checked(&self) -> bool {
        true
    }
}

/// The same two-zone flow flat: a warped box cut in two along i, with ABC-like velocity as momentum over density.
fn flat() -> FlatNodes {
    let zone = |name: &str, a: usize, b: usize, n: [usize; 3]| {
        let dims = [b - a + 1, n[1], n[2]];
        let count = dims[0] * dims[1] * dims[2];
        let (mut xyz, mut m, mut rho) = (vec![0f32; 3 * count], vec![0f32; 3 * count], vec![0f32; count]);
        let mut ib = vec![1i32; count];
        for k in 0..dims[2] {
            for j in 0..dims[1] {
                for i in 0..dims[0] {
                    let at = (k * dims[1] + j) * dims[0] + i;
                    let f = |m: usize, n: usize| m as f64 / (n - 1) as f64;
                    let (r, s, t) = (f(i + a, n[0]), f(j, n[1]), f(k, n[2]));
                    let x = [
                        r + 0.1 * (3.0 * s).sin() * r * (1.0 - r),
                        s + 0.1 * (2.0 * t + r).sin() * s * (1.0 - s),
                        t + 0.1 * (2.0 * r).cos() * t * (1.0 - t),
                    ];
                    let d = 1.0 + 0.2 * (5.0 * x[0]).sin();
                    let v = [(6.0 * x[2]).sin() + 0.7, 0.8 * (6.0 * x[0]).cos(), 0.7 * (6.0 * x[1]).sin()];
                    for c in 0..3 {
                        xyz[c * count + at] = x[c] as f32;
                        m[c * count + at] = (v[c] * d) as f32;
                    }
                    rho[at] = d as f32;
                    let hole = (r - 0.4).hypot(s - 0.6) < 0.06;
                    ib[at] = i32::from(!hole);
                }
            }
        }
        let arrays = vec![
            ("xyz".to_owned(), 3, FlatArray::F32(xyz)),
            ("iblank".to_owned(), 1, FlatArray::I32(ib)),
            ("density".to_owned(), 1, FlatArray::F32(rho)),
            ("momentum".to_owned(), 3, FlatArray::F32(m)),
        ];
        (name.to_owned(), dims, arrays)
    };
    let n = [41, 25, 21];
    FlatNodes::from_arrays(vec![zone("zone1", 0, 20, n), zone("zone2", 20, 40, n)])
}

/// An array that was cut: first byte, pages, bytes a page.
type Cut = (u64, u64, usize);

/// Cuts the flat data in pages of `edge` points, in a simulated source.
fn paged(flat: &FlatNodes, edge: [usize; 3], pager: &Arc<Pager>, simulation: Simulation) -> Arc<[Zone]> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut made: Vec<(usize, Zone, Vec<Cut>)> = Vec::new();
    for (zi, z) in flat.zones().iter().enumerate() {
        let dims = z.dims().map(|d| d as usize);
        let translation = Translation::new(dims, core::array::from_fn(|a| edge[a].min(dims[a])));
        let mut runs = Vec::new();
        for (n, a) in z.arrays.iter().enumerate() {
            let value = |c: usize, at: usize| flat.raw(zi, n, c, at);
            runs.push(cut(&mut bytes, &translation, dims, a.components, a.dtype.size(), &value));
        }
        let mut boxes = Vec::new();
        for (level, b) in z.boxes.iter().enumerate() {
            let d = b.translation.dims.map(|d| d as usize);
            let t = Translation::new(d, d.map(|n| n.min(3)));
            let value = |c: usize, at: usize| {
                let block = [at % d[0], at / d[0] % d[1], at / d[0] / d[1]].map(|v| v as u32);
                flat.clone().block(zi, level, block).unwrap()[c].to_ne_bytes().to_vec()
            };
            runs.push(cut(&mut bytes, &t, d, 6, 4, &value));
            boxes.push(BoxLevel { id: b.id, translation: t, steady: true });
        }
        made.push((zi, Zone { translation, boxes, ..z.clone() }, runs));
    }
    let source = pager.add_source(Arc::new(Simulated::new(bytes, simulation).unwrap()));
    let zones = made.into_iter().map(|(zi, mut z, runs)| {
        let add = |n: usize, what: &str| {
            let (first, pages, bytes) = runs[n];
            pager.add_array(Arc::new(TestMap { name: format!("{}/{what}", zi + 1), source, first, pages, bytes }))
        };
        let count = z.arrays.len();
        z.arrays = z.arrays.iter().enumerate().map(|(n, a)| ArraySlot { id: add(n, &a.name), ..a.clone() }).collect();
        for (l, b) in z.boxes.iter_mut().enumerate() {
            b.id = add(count + l, "boxes");
        }
        z
    });
    zones.collect()
}

fn cut(
    bytes: &mut Vec<u8>,
    t: &Translation,
    dims: [usize; 3],
    components: usize,
    size: usize,
    value: &dyn Fn(usize, usize) -> Vec<u8>,
) -> Cut {
    let first = bytes.len() as u64;
    let page_bytes = t.component * components * size;
    let mut pages = vec![vec![0u8; page_bytes]; t.count() as usize];
    for k in 0..dims[2] {
        for j in 0..dims[1] {
            for i in 0..dims[0] {
                let p = t.node([i as u32, j as u32, k as u32]);
                for c in 0..components {
                    let at = (p.element * components + c) * size;
                    pages[p.page as usize][at..at + size].copy_from_slice(&value(c, (k * dims[1] + j) * dims[0] + i));
                }
            }
        }
    }
    for p in &pages {
        bytes.extend_from_slice(p);
        bytes.extend_from_slice(&crc32c::crc32c(p).to_le_bytes());
    }
    (first, pages.len() as u64, page_bytes)
}

struct Lines<'a> {
    zones: Arc<[Zone]>,
    fields: Arc<[ZoneFields]>,
    seeds: &'a [[f64; 3]],
    options: &'a Options,
    out: Mutex<Vec<Option<Joined>>>,
    /// A task says that it holds this many bytes more than it does.
    ballast: usize,
    /// Bytes that a result takes for a moment.
    finishing: usize,
}

impl<'a> Lines<'a> {
    fn new(zones: Arc<[Zone]>, seeds: &'a [[f64; 3]], options: &'a Options) -> Self {
        let out = Mutex::new(vec![None; seeds.len()]);
        Self { fields: fields(&zones), zones, seeds, options, out, ballast: 0, finishing: 0 }
    }

    fn lines(self) -> Vec<Joined> {
        self.out.into_inner().unwrap().into_iter().map(|l| l.expect("a line a seed")).collect()
    }
}

impl Work for Lines<'_> {
    type Task = (usize, Streamline);
    type Context = GridFlow<PagedNodes>;
    fn context(&self, worker: Worker) -> Self::Context {
        let nodes = PagedNodes::new(self.zones.clone(), worker, 0);
        GridFlow::new(Space::new(nodes, self.fields.clone()), ZoneOrder::file(self.zones.len()))
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

fn sampled() -> Vec<String> {
    ["density", "velocity"].map(str::to_owned).to_vec()
}

fn fields(zones: &[Zone]) -> Arc<[ZoneFields]> {
    zones.iter().map(|z| ZoneFields::named(z, Some("velocity"), &sampled(), 1.4, 1.0).unwrap()).collect()
}

fn seeds() -> Vec<[f64; 3]> {
    // Low discrepancy, some outside.
    (0..60u32)
        .map(|n| [0.618_034, 0.754_878, 0.569_84].map(|g: f64| (f64::from(n + 1) * g).fract() * 1.04 - 0.02))
        .collect()
}

fn in_core(flat: &FlatNodes, o: &Options) -> Vec<Joined> {
    let mut flow = GridFlow::new(Space::new(flat.clone(), fields(flat.zones())), ZoneOrder::file(2));
    let trace = |x: &[f64; 3]| {
        let mut s = Streamline::new(Seed::Physical(*x), o, 4);
        while s.step(&mut flow, o).unwrap() != Progress::Done {}
        s.into_line()
    };
    seeds().iter().map(trace).collect()
}

struct Arm {
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
    arm: &Arm,
) -> (Vec<Joined>, u64, pager::Counters, engine::executor::RunStats) {
    let config = PagerConfig {
        limit: arm.limit,
        policy: arm.policy,
        readers: arm.readers,
        backend: Backend::Threads,
        observer: None,
    };
    let pager = Pager::new(config).unwrap();
    let zones = paged(flat, arm.edge, &pager, arm.simulation.clone());
    let seeds = seeds();
    let work = Lines::new(zones, &seeds, o);
    let load = Load { tasks: seeds.len() as u64, workers: arm.workers, active: arm.active };
    let stats = run(&work, &pager, load, &mut |_| true).unwrap();
    (work.lines(), pager.ledger().peak(), pager.counters(), stats)
}

fn same(a: &[Joined], b: &[Joined]) -> bool {
    let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    a.len() == b.len()
        && a.iter().zip(b).all(|(p, q)| {
            bits(p.points.as_flattened()) == bits(q.points.as_flattened())
                && bits(&p.time) == bits(&q.time)
                && bits(&p.fields) == bits(&q.fields)
                && (p.zone.clone(), p.seed, p.reason, p.reason_backward)
                    == (q.zone.clone(), q.seed, q.reason, q.reason_backward)
        })
}

fn simulation(seed: u64) -> Simulation {
    Simulation {
        seed,
        latency: Duration::from_micros(5)..Duration::from_micros(400),
        depth: 8,
        shuffle: true,
        short_reads: 0.2,
        transient_errors: 0.02,
        ..Simulation::fixed(Duration::ZERO, 8)
    }
}

fn options(method: Integrator) -> Options {
    Options { method, direction: Direction::Both, max_steps: 120, tolerance: 1e-5, ..Options::default() }
}

#[test]
fn out_of_core_equals_in_core() {
    let flat = flat();
    for method in [Integrator::Rk45, Integrator::Rk45Physical, Integrator::Fixed(kernels::rk::Method::Rk4)] {
        let o = options(method);
        let truth = in_core(&flat, &o);
        let points: usize = truth.iter().map(|l| l.points.len()).sum();
        assert!(points > 2000, "{points} points are too few to mean anything");
        let reasons: Vec<_> = truth.iter().filter_map(|l| l.reason).collect();
        assert!(reasons.contains(&Reason::Hole) && reasons.contains(&Reason::Left), "{reasons:?}");
        let arms = [
            Arm {
                edge: [8, 8, 8],
                limit: 64 << 20,
                policy: PolicyKind::Clock,
                workers: 1,
                readers: 1,
                active: 1,
                simulation: simulation(1),
            },
            Arm {
                edge: [8, 8, 8],
                limit: 1500 << 10,
                policy: PolicyKind::Clock,
                workers: 2,
                readers: 8,
                active: 12,
                simulation: simulation(2),
            },
            Arm {
                edge: [5, 7, 6],
                limit: 1300 << 10,
                policy: PolicyKind::Lru,
                workers: 3,
                readers: 4,
                active: 12,
                simulation: simulation(3),
            },
            Arm {
                edge: [13, 13, 11],
                limit: 1800 << 10,
                policy: PolicyKind::Clock,
                workers: 2,
                readers: 16,
                active: 8,
                simulation: simulation(4),
            },
            Arm {
                edge: [21, 4, 1],
                limit: 1500 << 10,
                policy: PolicyKind::Lru,
                workers: 5,
                readers: 33,
                active: 12,
                simulation: simulation(5),
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
    // Eight tasks at a time that want pages all over, and memory for a few dozen pages: it thrashes, elders get through, and the
    // lines are right.
    let flat = flat();
    let o = options(Integrator::Rk45);
    let truth = in_core(&flat, &o);
    let mut elders = 0;
    for seed in 0..4 {
        let arm = Arm {
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
    let flat = flat();
    let o = options(Integrator::Rk45);
    let arm = Arm {
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
    let flat = flat();
    let o = options(Integrator::Rk45);
    let truth = in_core(&flat, &o);
    // A flipped bit in the first array's pages somewhere in the middle of the data.
    let simulation = Simulation { flipped: vec![200_000], ..simulation(30) };
    let arm = Arm {
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

/// Tasks whose state finds no room are begun again, one at a time if it must be, and nobody can tell.
#[test]
fn tasks_without_room_are_begun_again() {
    let flat = flat();
    let o = options(Integrator::Rk45);
    let truth = in_core(&flat, &o);
    for workers in [1, 2] {
        let config = PagerConfig { limit: 3 << 20, readers: 8, backend: Backend::Threads, ..PagerConfig::default() };
        let pager = Pager::new(config).unwrap();
        let zones = paged(&flat, [8, 8, 8], &pager, simulation(60));
        let seeds = seeds();
        // Ten at most, and sixty are let in.
        let work = Lines { ballast: 300 << 10, ..Lines::new(zones, &seeds, &o) };
        let stats = run(&work, &pager, Load { tasks: 60, workers, active: 60 }, &mut |_| true).unwrap();
        assert!(stats.dropped > 0);
        assert!(same(&truth, &work.lines()), "{workers} workers");
        assert_eq!(pager.ledger().of(pager::ChargeKind::Tasks), 0);
    }
}

/// What a result takes while it is handed over is charged, too: where there is no room for it beside the other tasks it waits, or its
/// task is begun again; where there is none at all, the run says what it needs.
#[test]
fn results_without_room_wait_or_end_with_what_they_need() {
    let flat = flat();
    let o = Options { max_steps: 120, tolerance: 1e-6, ..options(Integrator::Rk45) };
    let truth = in_core(&flat, &o);
    for (workers, finishing) in [(1, 1 << 20), (2, 1 << 20), (1, 4 << 20), (2, 4 << 20)] {
        let config = PagerConfig { limit: 3 << 20, readers: 8, backend: Backend::Threads, ..PagerConfig::default() };
        let pager = Pager::new(config).unwrap();
        let zones = paged(&flat, [8, 8, 8], &pager, simulation(70));
        let seeds = seeds();
        let work = Lines { ballast: 100 << 10, finishing, ..Lines::new(zones, &seeds, &o) };
        let ended = run(&work, &pager, Load { tasks: 60, workers, active: 60 }, &mut |_| true);
        match ended {
            Ok(_) => assert!(finishing < 3 << 20 && same(&truth, &work.lines()), "{workers} workers"),
            Err(FieldError::LimitTooSmall { needs, .. }) => assert!(finishing > 3 << 20 && needs > 4 << 20, "{needs}"),
            Err(e) => panic!("{e}"),
        }
        assert_eq!(pager.ledger().of(pager::ChargeKind::Tasks), 0);
    }
}

/// A limit that is lowered takes tasks their memory: some are begun again, depending on the moment, and nobody can tell.
#[test]
fn the_limit_may_change_while_lines_are_under_way() {
    let flat = flat();
    let o = Options { max_steps: 300, tolerance: 1e-6, ..options(Integrator::Rk45) };
    let truth = in_core(&flat, &o);
    for seed in 0..4u64 {
        let most = 8 << 20;
        let config = PagerConfig { limit: most, readers: 8, backend: Backend::Threads, ..PagerConfig::default() };
        let pager = Pager::new(config).unwrap();
        let zones = paged(&flat, [8, 8, 8], &pager, simulation(50 + seed));
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
            let stats = run(&work, &pager, Load { tasks: 60, workers: 2, active: 60 }, &mut |_| true);
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
    // Any page fits alone, those of a step do not.
    let flat = flat();
    let o = options(Integrator::Rk45);
    let config = PagerConfig { limit: 280 << 10, readers: 4, backend: Backend::Threads, ..PagerConfig::default() };
    let pager = Pager::new(config).unwrap();
    let zones = paged(&flat, [21, 21, 21], &pager, simulation(40));
    let seeds = seeds();
    let work = Lines::new(zones, &seeds, &o);
    let e = run(&work, &pager, Load { tasks: 60, workers: 2, active: 4 }, &mut |_| true).unwrap_err();
    assert!(matches!(e, FieldError::LimitTooSmall { needs, limit, .. } if needs > limit), "{e}");
}

#[test]
fn a_run_can_be_stopped() {
    let flat = flat();
    let o = Options { max_steps: 1_000_000, ..options(Integrator::Rk45) };
    let pager =
        Pager::new(PagerConfig { limit: 640 << 10, readers: 2, backend: Backend::Threads, ..PagerConfig::default() })
            .unwrap();
    let slow = Simulation::fixed(Duration::from_millis(20), 1);
    let zones = paged(&flat, [8, 8, 8], &pager, slow);
    let seeds = seeds();
    let work = Lines::new(zones, &seeds, &o);
    let began = std::time::Instant::now();
    let e = run(&work, &pager, Load { tasks: 60, workers: 2, active: 40 }, &mut |_| false).unwrap_err();
    assert!(matches!(e, FieldError::Interrupted), "{e}");
    assert!(began.elapsed() < Duration::from_secs(5));
}
