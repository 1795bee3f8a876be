//! Surfaces of curvilinear zones.

use crate::joined_pieces::{is_single, WholeSurface};
use convert::{convert, ConvertOptions};
use extract::contour::{run, ContourKind, ContourSpec, Contoured};
use field::error::FieldError;
use field::plot3d::write::{write, WriteSpec};
use field::plot3d::{Kind, Precision};
use pager::PolicyKind;
use runtime::session::{charge_for, Resources, Session, SourceSpec};
use runtime::whole_dataset::convert_input;
use std::path::{Path, PathBuf};

pub struct ZonesFolder(pub PathBuf);

impl Drop for ZonesFolder {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

/// Two zones of a bent box, abutting in i, the second counted from its far end (so left-handed), each with a hole.
const N: [usize; 3] = [45, 30, 24];
const DIMS: [[usize; 3]; 2] = [[70, N[1], N[2]], [N[0], N[1], N[2]]];
const CENTRE: [f64; 3] = [1.0, 0.55, 0.45];
const RADIUS: f64 = 0.3;

/// Position of a node in the whole box.
fn place(zone: usize, ijk: [usize; 3]) -> [f64; 3] {
    let t = |n: usize, of: usize| n as f64 / (of - 1) as f64;
    let r = if zone == 0 { t(ijk[0], DIMS[0][0]) } else { 2.0 - t(ijk[0], DIMS[1][0]) };
    let (s, u) = (t(ijk[1], N[1]), t(ijk[2], N[2]));
    let bend = |a: f64, b: f64| 0.06 * (2.0 * a).sin() * (b * (1.0 - b));
    [r + bend(s * 3.0, u), s + bend(r * 2.0, s), u + bend(r + s, u)]
}

fn hole(zone: usize, ijk: [usize; 3]) -> bool {
    zone == 0 && (45..56).contains(&ijk[0]) && ijk[1] < 8
}

/// Density is the distance to the centre, plus 1.
fn density(x: [f64; 3]) -> f64 {
    1.0 + (0..3).map(|a| (x[a] - CENTRE[a]).powi(2)).sum::<f64>().sqrt()
}

impl ZonesFolder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("farfield-contour-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn write(&self, name: &str, spec: &WriteSpec, value: impl Fn(usize, usize, [usize; 3]) -> f64) -> PathBuf {
        let mut bytes = Vec::new();
        let dims = spec.dims.clone();
        write(&mut bytes, spec, &mut |zone, variable, k, plane| {
            for (n, v) in plane.iter_mut().enumerate() {
                *v = value(zone, variable, [n % dims[zone][0], n / dims[zone][0], k]);
            }
        })
        .unwrap();
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The two zones as files.
    fn files(&self, precision: Precision, dims: &[[usize; 3]], holes: bool) -> SourceSpec {
        let spec = WriteSpec { precision, iblank: holes, ..WriteSpec::new(Kind::Grid, dims.to_vec()) };
        let grid = self.write("grid.xyz", &spec, |zone, variable, ijk| match variable {
            3 => f64::from(u8::from(!hole(zone, ijk))),
            c => place(zone, ijk)[c],
        });
        let spec = WriteSpec { precision, ..WriteSpec::new(Kind::Q, dims.to_vec()) };
        let q = self.write("flow.q", &spec, |zone, variable, ijk| {
            let x = place(zone, ijk);
            match variable {
                0 => density(x),
                4 => 3.0,
                c => 0.1 * x[c - 1],
            }
        });
        SourceSpec { path: grid, q: vec![q], cache_dir: self.0.join("cache"), ..SourceSpec::default() }
    }

    pub fn store(&self, from: &Session, page: usize) -> SourceSpec {
        let path = self.0.join(format!("store-{page}"));
        let options = ConvertOptions { page, workers: 1, ..ConvertOptions::default() };
        let input = convert_input(&from.dataset()).unwrap();
        convert(&input, &path, &options, &charge_for(from), &mut |_| true).unwrap();
        SourceSpec { path, cache_dir: self.0.join("cache"), ..SourceSpec::default() }
    }
}

pub fn open(spec: &SourceSpec, memory_limit: u64, workers: usize) -> Session {
    let means = Resources { memory_limit, workers, readers: 4, replacement: PolicyKind::Clock, observer: None };
    Session::open(spec.clone(), means, &mut |_, _, _| true).unwrap()
}

pub fn iso(field: &str, values: &[f64]) -> ContourSpec {
    let what = ContourKind::Iso { field: field.into(), values: values.to_vec() };
    ContourSpec {
        what,
        scalars: vec!["density".into(), "velocity".into()],
        normals: true,
        near: None,
        step: 0,
        spill: None,
    }
}

pub fn draw(session: &Session, spec: &ContourSpec) -> (WholeSurface, Contoured) {
    let mut all = WholeSurface::default();
    let made = run(session, spec, &mut |p| all.add(p), &mut |_, _, _| true).unwrap();
    all.check(&made.drawn);
    (all, made)
}

fn distance(x: [f64; 3]) -> f64 {
    (0..3).map(|a| (x[a] - CENTRE[a]).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn a_ball_through_two_zones_meets_itself() {
    let folder = ZonesFolder::new("ball");
    let session = open(&folder.files(Precision::Double, &DIMS, false), 64 << 20, 2);
    let (s, _) = draw(&session, &iso("density", &[1.0 + RADIUS]));
    let (area, volume) =
        (4.0 * std::f64::consts::PI * RADIUS * RADIUS, 4.0 / 3.0 * std::f64::consts::PI * RADIUS.powi(3));
    assert!((s.area() / area - 1.0).abs() < 4e-3, "{}", s.area() / area);
    // Both zones have the same orientation, inwards, where values are lower: they enclose a volume together.
    assert!((s.volume() / -volume - 1.0).abs() < 1e-2, "{}", s.volume() / volume);
    for (x, n) in s.points.iter().zip(&s.normals) {
        assert!((distance(*x) - RADIUS).abs() < 2e-3);
        let out: [f64; 3] = std::array::from_fn(|a| (x[a] - CENTRE[a]) / distance(*x));
        // Density rises outward, and normals point to lower values.
        let along: f64 = (0..3).map(|a| out[a] * f64::from(n[a])).sum();
        assert!(along < -0.98, "{along}");
    }
    // Open only where the zones meet. There each edge has its partner, bit for bit.
    let rim = s.rim();
    assert!(rim.len() > 100);
    let mut ends: Vec<[[u64; 3]; 2]> = rim.iter().map(|e| e.map(|p| p.map(f64::to_bits))).collect();
    ends.sort_unstable();
    for [a, b] in &ends {
        assert!(ends.binary_search(&[*b, *a]).is_ok(), "a crack between zones");
    }
    assert!(s.fields[0].iter().all(|v| (v - 1.3).abs() < 1e-5));
    for (x, v) in s.points.iter().zip(s.fields[1].chunks(3)) {
        // Momentum is 0.1 x.
        assert!((0..3).all(|a| (f64::from(v[a]) - 0.1 * x[a] / (1.0 + RADIUS)).abs() < 1e-3));
    }
}

#[test]
fn equal_whatever_the_limit_the_pages_and_the_workers() {
    let folder = ZonesFolder::new("equal");
    let files = folder.files(Precision::Single, &DIMS, true);
    let session = open(&files, 128 << 20, 1);
    session.define(&["twice = 2 * density".to_owned()]).unwrap();
    let specs = [
        iso("density", &[1.3, 1.45]),
        iso("velocity_magnitude", &[0.07]),
        iso("twice", &[2.6]),
        ContourSpec { what: ContourKind::Plane { origin: [0.9, 0.4, 0.5], normal: [1.0, 0.3, -0.4] }, ..iso("", &[]) },
        ContourSpec { near: Some([1.0, 0.55, 0.75]), ..iso("density", &[1.3]) },
    ];
    let truth: Vec<WholeSurface> = specs.iter().map(|s| draw(&session, s).0).collect();
    assert!(
        truth.iter().all(|t| t.triangles.len() > 1000),
        "{:?}",
        truth.iter().map(|t| t.triangles.len()).collect::<Vec<_>>()
    );
    for (page, limit, workers) in [(8, 12 << 20, 2), (16, 10 << 20, 1), (11, 64 << 20, 3), (32, 16 << 20, 2)] {
        let store = folder.store(&session, page);
        let other = open(&store, limit, workers);
        other.define(&["twice = 2 * density".to_owned()]).unwrap();
        for (n, (spec, truth)) in specs.iter().zip(&truth).enumerate() {
            let (s, made) = draw(&other, spec);
            assert!(s.bits() == truth.bits(), "{n} with pages of {page} under {limit}");
            assert!(!made.partial());
        }
        assert!(other.pager.ledger().peak() <= limit);
    }
}

#[test]
fn holes_are_left_out() {
    let folder = ZonesFolder::new("holes");
    let session = open(&folder.files(Precision::Double, &DIMS, true), 64 << 20, 2);
    let spec =
        ContourSpec { what: ContourKind::Plane { origin: [0.5, 0.2, 0.5], normal: [0.0, 0.0, 2.0] }, ..iso("", &[]) };
    let (s, _) = draw(&session, &spec);
    let lo = place(0, [45, 0, 12]);
    let hi = place(0, [55, 7, 12]);
    // With a margin for the bend of the grid.
    let within = |x: &[f64; 3]| x[0] > lo[0] + 0.03 && x[0] < hi[0] - 0.03 && x[1] < hi[1] - 0.03;
    assert!(s.points.iter().all(|x| !within(x) && (x[2] - 0.5).abs() < 1e-12));
    assert!(s.points.iter().any(|x| x[0] > lo[0] && x[0] < hi[0]));
    for (t, n) in s.triangles.iter().map(|t| (t, s.cross(t))) {
        assert!(n[2] > 0.0, "{t:?}");
    }
}

#[test]
fn collapsed_cells_leave_no_gap() {
    // A cylinder with an axis: i from the axis outwards, j around and back to itself, k along.
    let folder = ZonesFolder::new("axis");
    let dims = [12, 25, 9];
    let at = |ijk: [usize; 3]| {
        let (r, a) = (ijk[0] as f64 / 11.0, ijk[1] as f64 / 24.0 * std::f64::consts::TAU);
        let (sin, cos) = if ijk[1] == 24 { (0.0, 1.0) } else { a.sin_cos() };
        [r * cos, r * sin, ijk[2] as f64 / 8.0]
    };
    let spec = WriteSpec::new(Kind::Grid, vec![dims]);
    let grid = folder.write("axis.xyz", &spec, |_, c, ijk| at(ijk)[c]);
    let q = folder.write("axis.q", &WriteSpec::new(Kind::Q, vec![dims]), |_, v, ijk| match v {
        0 => 2.0 + at(ijk)[2] + 0.1 * at(ijk)[0],
        4 => 5.0,
        _ => 0.0,
    });
    let source = SourceSpec { path: grid, q: vec![q], cache_dir: folder.0.join("cache"), ..SourceSpec::default() };
    let session = open(&source, 32 << 20, 1);
    for what in [
        ContourKind::Iso { field: "density".into(), values: vec![2.52] },
        ContourKind::Plane { origin: [0.0, 0.0, 0.5], normal: [0.0, 0.0, 1.0] },
    ] {
        let (s, _) = draw(&session, &ContourSpec { what, ..iso("", &[]) });
        for t in &s.triangles {
            let p = t.map(|v| s.points[v as usize]);
            assert!(p[0] != p[1] && p[1] != p[2] && p[2] != p[0]);
        }
        // Of a polygon of 24 corners, and slightly more where it leans.
        let flat = 12.0 * (std::f64::consts::TAU / 24.0).sin();
        assert!((s.area() / flat - 1.0).abs() < 6e-3, "{}", s.area() / flat);
        // Open edges coincide with each other, or with the rim of the cylinder.
        let mut open: Vec<[[u64; 3]; 2]> = s.rim().iter().map(|e| e.map(|p| p.map(|c| (c + 0.0).to_bits()))).collect();
        open.sort_unstable();
        let rim = |p: &[u64; 3]| (f64::from_bits(p[0]).hypot(f64::from_bits(p[1])) - 1.0).abs() < 9e-3;
        for [a, b] in &open {
            assert!(open.binary_search(&[*b, *a]).is_ok() || (rim(a) && rim(b)), "a gap");
        }
    }
}

#[test]
fn one_layer_of_cells_and_none() {
    let folder = ZonesFolder::new("thin");
    let session = open(&folder.files(Precision::Single, &[[30, 20, 2], [30, 20, 1]], false), 32 << 20, 1);
    let (s, made) = draw(&session, &iso("density", &[1.9]));
    assert!(!s.triangles.is_empty() && made.thin_zones == 1);
    assert!(s.zones.iter().all(|z| *z == 0));
    assert!(s.rim().len() > 10);
}

#[test]
fn names_and_values_are_checked_first() {
    let folder = ZonesFolder::new("names");
    let session = open(&folder.files(Precision::Single, &[[5, 5, 5]], false), 32 << 20, 1);
    let fails = |spec: ContourSpec| run(&session, &spec, &mut |_| Ok(()), &mut |_, _, _| true).unwrap_err();
    assert!(matches!(fails(iso("nothing", &[1.0])), FieldError::Unknown { .. }));
    assert!(matches!(fails(iso("velocity", &[1.0])), FieldError::Usage(_)));
    assert!(matches!(fails(iso("density", &[])), FieldError::Usage(_)));
    assert!(matches!(fails(iso("density", &[f64::NAN])), FieldError::Usage(_)));
    assert!(matches!(
        fails(ContourSpec { scalars: vec!["none".into()], ..iso("density", &[1.2]) }),
        FieldError::Unknown { .. }
    ));
    let what = ContourKind::Plane { origin: [0.0; 3], normal: [0.0; 3] };
    assert!(matches!(fails(ContourSpec { what, ..iso("", &[]) }), FieldError::Usage(_)));
    assert!(matches!(fails(ContourSpec { near: Some([9.0; 3]), ..iso("density", &[1.2]) }), FieldError::Usage(_)));
    assert!(matches!(fails(ContourSpec { step: 3, ..iso("density", &[1.2]) }), FieldError::Usage(_)));
}

#[test]
fn precision_is_that_of_the_grid() {
    let folder = ZonesFolder::new("precision");
    for precision in [Precision::Single, Precision::Double] {
        let session = open(&folder.files(precision, &[[9, 9, 9]], false), 32 << 20, 1);
        let mut single = None;
        run(
            &session,
            &iso("density", &[2.1]),
            &mut |p| {
                single = Some(is_single(&p));
                Ok(())
            },
            &mut |_, _, _| true,
        )
        .unwrap();
        assert_eq!(single, Some(precision == Precision::Single));
    }
}

/// A store with a damaged page: counted, reported, and without surface.
#[test]
fn a_damaged_page_leaves_a_hole() {
    let folder = ZonesFolder::new("damaged");
    let session = open(&folder.files(Precision::Single, &DIMS, false), 64 << 20, 1);
    let store = folder.store(&session, 8);
    let (whole, _) = draw(&open(&store, 64 << 20, 1), &iso("density", &[1.3]));
    let shard = shard_of(&store.path, "density");
    let mut bytes = std::fs::read(&shard).unwrap();
    // A byte of each page, in the second half: the index is in front.
    let half = bytes.len() / 2;
    bytes[half..].iter_mut().step_by(1 << 11).for_each(|b| *b ^= 1);
    std::fs::write(&shard, bytes).unwrap();
    let (s, made) = draw(&open(&store, 64 << 20, 2), &ContourSpec { scalars: Vec::new(), ..iso("density", &[1.3]) });
    assert!(s.triangles.len() <= whole.triangles.len());
    assert!(
        !made.partial()
            || (made.drawn.failed_pages > 0
                && made.drawn.failure.is_some()
                && s.triangles.len() < whole.triangles.len())
    );
}

/// The largest file below the folder of an array.
fn shard_of(store: &Path, array: &str) -> PathBuf {
    let mut folders = vec![store.to_owned()];
    let mut best: (u64, PathBuf) = (0, PathBuf::new());
    while let Some(folder) = folders.pop() {
        for e in std::fs::read_dir(folder).unwrap() {
            let path = e.unwrap().path();
            let inside = path.components().any(|c| c.as_os_str() == array)
                && !path.components().any(|c| c.as_os_str() == "_farfield");
            if path.is_dir() {
                folders.push(path);
            } else if inside && path.metadata().unwrap().len() > best.0 {
                best = (path.metadata().unwrap().len(), path);
            }
        }
    }
    best.1
}
