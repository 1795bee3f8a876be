//! Slices of datasets on grids.

use super::bits;
use convert::{convert, ConvertOptions};
use extract::sliceimage::{of_grid, PlaneSpec, SlicePaint};
use field::error::FieldError;
use field::plot3d::write::{write, WriteSpec};
use field::plot3d::{Kind, Precision};
use output::Provenance;
use pager::PolicyKind;
use runtime::session::{charge_for, Resources, Session, SourceSpec};
use runtime::values::probe;
use runtime::whole_dataset::convert_input;
use std::path::{Path, PathBuf};
use testing::TestDir;

const DIMS: [[usize; 3]; 3] = [[41, 31, 21], [25, 25, 25], [13, 49, 9]];

/// A warped box with a hole, a finer block rotated inside it, and a ring around a gap with coinciding ends.
fn place(zone: usize, at: [usize; 3]) -> [f64; 3] {
    let f: [f64; 3] = core::array::from_fn(|a| at[a] as f64 / (DIMS[zone][a] - 1) as f64);
    match zone {
        0 => [
            f[0] + 0.1 * (3.0 * f[1]).sin() * f[0] * (1.0 - f[0]),
            f[1] + 0.1 * (2.0 * f[2] + f[0]).sin() * f[1] * (1.0 - f[1]),
            f[2] + 0.1 * (2.0 * f[0]).cos() * f[2] * (1.0 - f[2]),
        ],
        1 => {
            let (x, y) = (0.3 * (f[0] - 0.5), 0.3 * (f[1] - 0.5));
            [0.5 + 0.8 * x - 0.6 * y, 0.5 + 0.6 * x + 0.8 * y, 0.35 + 0.3 * f[2]]
        }
        _ => {
            let (r, phi) = (0.2 + 0.4 * f[0], 2.0 * std::f64::consts::PI * f[1]);
            // Exactly the same point at both ends.
            let phi = if at[1] + 1 == DIMS[2][1] { 0.0 } else { phi };
            [1.7 + r * phi.cos(), 0.5 + r * phi.sin(), f[2]]
        }
    }
}

/// A linear field; density, and pressure by energy, follow from it.
fn linear(x: [f64; 3]) -> f64 {
    1.0 + 0.5 * x[0] - 0.25 * x[1] + 0.125 * x[2]
}

fn files(folder: &Path) -> (PathBuf, Vec<PathBuf>) {
    let file = |name: &str, kind: Kind| {
        let iblank = kind == Kind::Grid;
        let spec = WriteSpec { precision: Precision::Double, iblank, ..WriteSpec::new(kind, DIMS.to_vec()) };
        let mut bytes = Vec::new();
        write(&mut bytes, &spec, &mut |zone, variable, k, plane| {
            let ni = DIMS[zone][0];
            for (m, value) in plane.iter_mut().enumerate() {
                let at = [m % ni, m / ni, k];
                let x = place(zone, at);
                *value = match (kind, variable) {
                    (Kind::Grid, 0..=2) => x[variable],
                    (Kind::Grid, _) => {
                        let hole = zone == 0 && (x[0] - 0.8).hypot(x[1] - 0.2) < 0.1;
                        f64::from(u8::from(!hole))
                    }
                    (_, 0) => linear(x),
                    (_, v @ 1..=3) => linear(x) * [x[2].sin(), x[0], 0.3][v - 1],
                    _ => 5.0 + x[0] * x[1],
                };
            }
        })
        .unwrap();
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    (file("a.xyz", Kind::Grid), vec![file("a.q", Kind::Q)])
}

fn session(path: &Path, q: &[PathBuf], folder: &Path, memory_limit: u64, workers: usize) -> Session {
    let spec =
        SourceSpec { path: path.into(), q: q.to_vec(), cache_dir: folder.join("cache"), ..SourceSpec::default() };
    let means = Resources { memory_limit, workers, readers: 4, replacement: PolicyKind::Clock, observer: None };
    Session::open(spec, means, &mut |_, _, _| true).unwrap()
}

fn plane(normal: [f64; 3], size: [u32; 2]) -> PlaneSpec {
    PlaneSpec {
        normal,
        origin: Some([0.8, 0.5, 0.52]),
        up: None,
        rightward: [1.0; 3],
        extent: None,
        size: Some(size),
        resolution: None,
    }
}

#[test]
fn pixels_are_what_a_probe_finds() {
    let folder = TestDir::new("slice-grid");
    let (grid, q) = files(folder.at());
    let session = session(&grid, &q, folder.at(), 64 << 20, 2);
    let names = ["density".to_owned(), "velocity".to_owned(), "pressure".to_owned()];
    for normal in [[0.0, 0.0, 1.0], [0.2, 1.0, 0.3], [0.1, 0.0, 1.0]] {
        let size = [190, 90];
        let slice = of_grid(&session, &plane(normal, size), &names, 0, &mut |_, _, _| true).unwrap();
        assert_eq!(slice.components(), 5);
        let arrays = slice.arrays(&session.pager, 2, &mut |_, _, _| true).unwrap();
        let (mut inside, mut error) = (0, 0.0f64);
        for row in 0..size[1] {
            for column in 0..size[0] {
                let n = (row * size[0] + column) as usize;
                let x = slice.laid.plane.position([column, row]);
                let values = &arrays.values[5 * n..5 * n + 5];
                if arrays.pixels[n] == 1 {
                    error = error.max((values[0] - linear(x)).abs());
                    inside += 1;
                }
                // A probe takes a hundred times as long: some of them.
                if (column + 7 * row) % 11 != 0 {
                    continue;
                }
                match probe(&session, x, Some(&names), 0, &mut |_, _, _| true).unwrap() {
                    Some(found) => {
                        let truth: Vec<f64> = found.values.iter().flat_map(|v| v.1.clone()).collect();
                        assert_eq!(bits(values), bits(&truth), "{x:?} {found:?}");
                        assert_eq!(arrays.pixels[n], 1);
                    }
                    None => assert_eq!(arrays.pixels[n], 2, "{x:?}"),
                }
            }
        }
        assert!(inside > 5000, "{inside}");
        // Linear in space, and cells are trilinear in both.
        assert!(error < 1e-12, "{error}");
    }
}

#[test]
fn the_same_whatever_the_means() {
    let folder = TestDir::new("slice-grid-same");
    let (grid, q) = files(folder.at());
    let mut sources = vec![(grid.clone(), q.clone())];
    for page in [8, 16] {
        let from = session(&grid, &q, folder.at(), 64 << 20, 1);
        let input = convert_input(&from.dataset()).unwrap();
        let dst = folder.path(&format!("s{page}.zarr"));
        let options = ConvertOptions { page, workers: 1, ..Default::default() };
        convert(&input, &dst, &options, &charge_for(&from), &mut |_| true).unwrap();
        sources.push((dst, Vec::new()));
    }
    let names = ["pressure".to_owned(), "vorticity_magnitude".to_owned()];
    let mut truth: Option<Vec<u64>> = None;
    let mut files: Vec<Vec<u8>> = Vec::new();
    for (path, q) in &sources {
        for (limit, workers) in [(128 << 20, 1), (7 << 20, 2), (9 << 20, 3)] {
            let session = session(path, q, folder.at(), limit, workers);
            let slice = of_grid(&session, &plane([0.1, 0.3, 1.0], [400, 210]), &names, 0, &mut |_, _, _| true).unwrap();
            let arrays = slice.arrays(&session.pager, workers, &mut |_, _, _| true).unwrap();
            assert!(arrays.counts.values > 20_000 && arrays.counts.outside > 20_000, "{:?}", arrays.counts);
            let values = bits(&arrays.values);
            assert!(
                truth.get_or_insert_with(|| values.clone()) == &values,
                "{path:?}, limit {limit}, {workers} workers"
            );
            let slice = of_grid(&session, &plane([0.0, 0.0, 1.0], [300, 200]), &names[..1], 0, &mut |_, _, _| true);
            let (look, out) =
                (SlicePaint::Map { table: vec![[0, 0, 90], [255, 255, 0]], range: None }, folder.path("a.png"));
            let told = slice
                .unwrap()
                .write(&session.pager, workers, &out, Some(look), &Provenance::default(), &mut |_, _, _| true)
                .unwrap();
            assert_eq!(told["partial"], false);
            files.push(std::fs::read(out).unwrap());
        }
    }
    assert!(files.iter().all(|f| f == &files[0]));
}

#[test]
fn what_makes_no_slice_is_said() {
    let folder = TestDir::new("slice-grid-wrong");
    let (grid, q) = files(folder.at());
    let session = session(&grid, &q, folder.at(), 64 << 20, 1);
    let says = |names: &[&str], spec: &PlaneSpec| {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        of_grid(&session, spec, &names, 0, &mut |_, _, _| true).map(|_| ()).unwrap_err()
    };
    let good = plane([0.0, 0.0, 1.0], [30, 20]);
    assert!(matches!(says(&["densty"], &good), FieldError::Unknown { .. }));
    assert!(says(&[], &good).to_string().contains("name one"));
    let far = PlaneSpec { origin: Some([0.0, 0.0, 9.0]), ..good.clone() };
    assert!(says(&["density"], &far).to_string().contains("does not meet"));
    let slice = of_grid(&session, &good, &["velocity".to_owned()], 0, &mut |_, _, _| true).unwrap();
    let write = |name: &str| {
        let out = folder.path(name);
        let refused = slice.write(&session.pager, 1, &out, None, &Provenance::default(), &mut |_, _, _| true);
        assert!(!out.exists());
        refused.unwrap_err().to_string()
    };
    assert!(write("a.png").contains("velocity_x"));
    assert!(write("a.jpg").contains(".npz"));
}
