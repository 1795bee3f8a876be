//! Cores are independent of limits and threads, and are at their known places.

use super::*;
use convert::{convert, ConvertOptions, Spans};
use field::dataset::Dataset;
use field::error::FieldError;
use field::paging::Layout;
use field::plot3d::write::{write, WriteSpec};
use field::plot3d::Kind;
use field::store::codec::Codec;
use field::store::{Register, Store as Zarr};
use output::{Destination, LineArrays};
use pager::id::{ArrayId, SourceId};
use pager::map::PageMap;
use pager::source::simulated::{Simulated, Simulation};
use pager::{Pager, PolicyKind};
use runtime::session::{Resources, Session, SourceSpec};
use runtime::whole_dataset::convert_input;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use testing::TestDir;

fn resources(limit: u64, workers: usize) -> Resources {
    Resources { memory_limit: limit, workers, readers: 8, replacement: PolicyKind::Clock, observer: None }
}

/// The core at a height: it leans and winds.
fn axis(z: f64) -> [f64; 2] {
    [0.5 + 0.12 * (3.0 * z).sin(), 0.45 + 0.1 * (2.0 * z).cos()]
}

const DIMS: [[usize; 3]; 2] = [[22, 19, 70], [20, 19, 70]];

/// Position and velocity at a node of two zones that abut at i, warped.
fn node(zone: usize, i: usize, j: usize, k: usize) -> ([f64; 3], [f64; 3]) {
    let (i, j, k) = ((i + zone * 21) as f64 / 40.0, j as f64 / 18.0, k as f64 / 69.0);
    let x = [
        i + 0.08 * (3.0 * j).sin() * i * (1.0 - i),
        j + 0.08 * (2.0 * k + i).sin() * j * (1.0 - j),
        2.0 * k + 0.08 * (2.0 * i).cos() * k * (1.0 - k),
    ];
    let [a, b] = axis(x[2]);
    let (dx, dy) = (x[0] - a, x[1] - b);
    let turn = 12.0 * (-(dx * dx + dy * dy) / 0.03).exp() + 0.02 * (20.0 * x[2] + 15.0 * x[0]).sin();
    (x, [0.36 * (3.0 * x[2]).cos() - turn * dy, turn * dx - 0.2 * (2.0 * x[2]).sin(), 1.0])
}

/// Grid and solution, with a hole across both zones.
fn made(dir: &TestDir) -> PathBuf {
    for (name, kind, variables) in [("f.xyz", Kind::Grid, 3), ("f.q", Kind::Q, 5)] {
        let spec = WriteSpec { iblank: variables == 3, ..WriteSpec::new(kind, DIMS.to_vec()) };
        let mut file = std::fs::File::create(dir.path(name)).unwrap();
        let mut plane = |zone: usize, variable: usize, k: usize, out: &mut [f64]| {
            let ni = DIMS[zone][0];
            for (n, value) in out.iter_mut().enumerate() {
                let (i, j) = (n % ni, n / ni);
                let (x, v) = node(zone, i, j, k);
                *value = match (variables, variable) {
                    (3, 3) => f64::from(u8::from(!(k == 40 && j < 12))),
                    (3, c) => x[c],
                    (_, c) => [1.0, v[0], v[1], v[2], 3.0 + v[2] + x[0]][c],
                };
            }
        };
        write(&mut file, &spec, &mut plane).unwrap();
    }
    dir.path("f.xyz")
}

fn source(path: &Path) -> SourceSpec {
    let q = if path.is_dir() { Vec::new() } else { vec![path.with_extension("q")] };
    SourceSpec { q, cache_dir: path.parent().unwrap().join("cache"), path: path.to_owned(), ..SourceSpec::default() }
}

fn spec(method: Method) -> CoreSpec {
    CoreSpec {
        method,
        field: "velocity".into(),
        step: 0,
        scalars: vec!["pressure".into(), "velocity".into()],
        min_strength: 0.2,
        min_length: 0.1,
        max_angle: Some(40.0),
    }
}

/// Puts a slow and failing source in place of a store's files.
struct Unwilling<'a>(&'a Pager, u64);

impl Register for Unwilling<'_> {
    fn add_file(&mut self, path: &Path) -> SourceId {
        self.1 += 1;
        let simulation = Simulation {
            seed: self.1,
            latency: Duration::from_micros(5)..Duration::from_micros(300),
            depth: 8,
            shuffle: true,
            short_reads: 0.2,
            transient_errors: 0.02,
            ..Simulation::fixed(Duration::ZERO, 8)
        };
        // Read if it exists: missing shards of a store are not among its files.
        self.0.add_source(Arc::new(Simulated::new(std::fs::read(path).unwrap(), simulation).unwrap()))
    }
    fn add_array(&mut self, map: Arc<dyn PageMap>) -> ArrayId {
        self.0.add_array(map)
    }
}

fn extracted(session: &Session, spec: &CoreSpec) -> (CoreReport, LineArrays) {
    let (report, arrays) = vortex_cores(session, spec, Destination::Memory, &mut |_, _, _| true).unwrap();
    (report, arrays.unwrap())
}

fn bits(a: &LineArrays) -> Vec<u64> {
    let mut all: Vec<u64> = a.points.iter().chain(&a.time).map(|x| x.to_bits()).collect();
    all.extend(a.zone.iter().map(|z| *z as u64).chain(a.offsets.iter().map(|o| *o as u64)));
    all.extend(a.reason.iter().chain(a.reason_backward.iter().flatten()).map(|r| u64::from(r.code())));
    for (_, column) in &a.fields {
        let output::LineColumn::F64(v) = column else { panic!("float64") };
        all.extend(v.iter().map(|x| x.to_bits()));
    }
    all
}

#[test]
fn cores_are_the_same_whatever_the_means() {
    let dir = TestDir::new("cores-same");
    let grid = made(&dir);
    let open = |limit, workers| Session::open(source(&grid), resources(limit, workers), &mut |_, _, _| true).unwrap();
    let whole = open(256 << 20, 1);
    let truth = Method::ALL.map(|m| extracted(&whole, &spec(m)));
    assert!(truth.iter().all(|(r, _)| r.lines > 0 && r.points > 60), "{:?}", truth.each_ref().map(|t| t.0.lines));
    let mut stores = Vec::new();
    for (page, layout) in [(5, Layout::Cubed), (8, Layout::Cubed), (32, Layout::Cubed), (16, Layout::Flat)] {
        let to = dir.path(&format!("{page}.zarr"));
        let options = ConvertOptions {
            page,
            layout,
            codec: Codec::None,
            resume: false,
            overwrite: false,
            append: false,
            memory_limit: 64 << 20,
            workers: 2,
            spans: Spans::default(),
        };
        let input = convert_input(&whole.dataset()).unwrap();
        convert(&input, &to, &options, &|_| Ok(Box::new(())), &mut |_| true).unwrap();
        stores.push(to);
    }
    let arms: [(Option<usize>, u64, usize); 7] = [
        (None, 12 << 20, 2),
        (None, 64 << 20, 5),
        (Some(0), 10 << 20, 2),
        (Some(1), 10 << 20, 3),
        (Some(1), 64 << 20, 1),
        (Some(2), 40 << 20, 2),
        (Some(3), 14 << 20, 2),
    ];
    let mut evictions = 0;
    for (n, (store, limit, workers)) in arms.into_iter().enumerate() {
        let session = match store {
            None => open(limit, workers),
            Some(s) => Session::open_as(source(&stores[s]), resources(limit, workers), |source, pager| {
                let store = Zarr::open(&source.path)?;
                Dataset::from_store_by(store, pager, &mut Unwilling(pager, 10 * n as u64))
            })
            .unwrap(),
        };
        for (method, (report, lines)) in Method::ALL.into_iter().zip(&truth) {
            let (r, l) = extracted(&session, &spec(method));
            assert!(bits(&l) == bits(lines), "arm {n}, {method:?}: {} lines, {}", l.line_count(), lines.line_count());
            assert_eq!((r.found, r.failed, r.lines), (report.found, 0, report.lines), "arm {n}, {method:?}");
        }
        let c = session.pager.counters();
        evictions += c.evictions;
        assert_eq!(session.pager.ledger().of(pager::ChargeKind::Tasks), 0);
    }
    assert!(evictions > 1000, "{evictions} evictions: memory was never short");
}

#[test]
fn a_winding_core_is_followed_through_zones_up_to_a_hole() {
    let dir = TestDir::new("cores-true");
    let session = Session::open(source(&made(&dir)), resources(256 << 20, 2), &mut |_, _, _| true).unwrap();
    for method in Method::ALL {
        let (_, lines) = extracted(&session, &CoreSpec { min_length: 0.3, min_strength: 5.0, ..spec(method) });
        let far = lines.points.chunks_exact(3).map(|p| {
            let [a, b] = axis(p[2]);
            (p[0] - a).hypot(p[1] - b)
        });
        // A cell is 0.025 to 0.055 wide.
        let far = far.fold(0.0, f64::max);
        assert!(far < 0.03, "{method:?}: {far}");
        let ends = (&lines.reason[..], lines.reason_backward.as_deref().unwrap());
        use output::Reason::{Hole, Left};
        // Third derivatives of velocity, one-sided at the border, have larger errors than the joining distance.
        match method {
            Method::Lambda2 => assert!((2..5).contains(&lines.line_count())),
            _ => assert_eq!(ends, (&[Hole, Left][..], &[Left, Hole][..]), "{method:?}"),
        }
        assert!(lines.zone.contains(&1) && lines.zone.contains(&2));
        // With the flow, which is upwards.
        let heights = lines.points.chunks_exact(3).map(|p| p[2]);
        let [low, high] = [heights.clone().fold(9.0, f64::min), heights.fold(0.0, f64::max)];
        assert!(low < 0.3 && high > 1.7, "{method:?}: {low} {high}");
        assert!(lines
            .offsets
            .windows(2)
            .all(|w| lines.points[3 * w[0] as usize + 2] < lines.points[3 * w[1] as usize - 1]));
    }
}

#[test]
fn what_makes_no_sense_is_said() {
    let dir = TestDir::new("cores-wrong");
    let session = Session::open(source(&made(&dir)), resources(64 << 20, 1), &mut |_, _, _| true).unwrap();
    let said = |spec: CoreSpec| {
        vortex_cores(&session, &spec, Destination::Memory, &mut |_, _, _| true).map(|_| ()).unwrap_err().to_string()
    };
    let good = || spec(Method::Levy);
    assert!(said(CoreSpec { field: "speed".into(), ..good() }).contains("speed"));
    assert!(said(CoreSpec { field: "density".into(), ..good() }).contains("three components; 'density' has 1"));
    assert!(said(CoreSpec { scalars: vec!["nothing".into()], ..good() }).contains("nothing"));
    assert!(said(CoreSpec { min_strength: f64::NAN, ..good() }).contains("least strength"));
    assert!(said(CoreSpec { min_length: -1.0, ..good() }).contains("least length"));
    assert!(said(CoreSpec { max_angle: Some(91.0), ..good() }).contains("0 to 90"));
    assert!(said(CoreSpec { step: 1, ..good() }).contains("no time step 1"));
    let stopped = vortex_cores(&session, &good(), Destination::Memory, &mut |what, _, _| what != "joining");
    assert!(matches!(stopped, Err(FieldError::Interrupted)));
}
