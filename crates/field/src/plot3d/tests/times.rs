//! Times of steps from the headers of q files.

use super::super::Plot3dInput;
use super::*;
use crate::catalog::{Catalog, FlowHeader};

/// A grid, and a q file for each time.
fn series(folder: &Plot3dFolder, spec: &WriteSpec, times: &[f64]) -> (PathBuf, Vec<PathBuf>) {
    let grid = WriteSpec { kind: Kind::Grid, overflow: None, headers: Vec::new(), ..spec.clone() };
    let q = times.iter().enumerate().map(|(n, &time)| {
        let headers = vec![FlowHeader { mach: 0.2, alpha: 2.0, reynolds: 1e5, time, gamma: 1.4 }];
        folder.file(&format!("s{n}.q"), &bytes(&WriteSpec { kind: Kind::Q, headers, ..spec.clone() }))
    });
    (folder.file("a.xyz", &bytes(&grid)), q.collect())
}

fn opened(spec: &WriteSpec, times: &[f64], dt: Option<f64>) -> Catalog {
    let folder = Plot3dFolder::new();
    let (grid, q) = series(&folder, spec, times);
    let given = Plot3dInput { grids: &[grid], q: &q, function: &[], times: &[], dt, untimed: "" };
    let cache = folder.0.join("cache");
    Plot3d::open_with_progress(given, &Plot3dOptions::default(), &cache, &mut |_, _| true).unwrap().catalog
}

fn plain() -> WriteSpec {
    WriteSpec::new(Kind::Grid, vec![[4, 3, 5]])
}

/// Solvers write single precision and mean decimal numbers.
#[test]
fn single_precision_is_decimal() {
    let times: Vec<f64> = (0..10).map(|n| f64::from(n) / 10.0).collect();
    for precision in [Precision::Single, Precision::Double] {
        let found = opened(&WriteSpec { precision, ..plain() }, &times, None);
        assert_eq!(found.times, times);
        assert_eq!(found.zones[0].headers[9].time, 0.9);
        assert!(!found.times_counted && found.untimed().is_none());
    }
    // OVERFLOW's times are in L / V_ref.
    let overflow = WriteSpec { precision: Precision::Single, overflow: Some((10, 2)), ..plain() };
    assert_eq!(opened(&overflow, &times, None).times, times);
    // Times in double precision are unchanged.
    let odd = [0.1f32, 0.9].map(f64::from);
    assert_eq!(opened(&plain(), &odd, None).times, odd);
}

#[test]
fn steps_that_are_counted_by_the_user_are_decimal() {
    let found = opened(&plain(), &[3.25; 10], Some(0.1));
    assert_eq!(found.times, (0..10).map(|n| f64::from(n) / 10.0).collect::<Vec<_>>());
    assert!(!found.times_counted);
}

/// Given times count: uneven ones stay, and `dt` overrides them.
#[test]
fn times_beside_the_files() {
    let folder = Plot3dFolder::new();
    let (grid, q) = series(&folder, &plain(), &[3.25; 3]);
    let cache = folder.0.join("cache");
    let open = |times: &[f64], dt| {
        let given = Plot3dInput { grids: std::slice::from_ref(&grid), q: &q, function: &[], times, dt, untimed: "" };
        Plot3d::open_with_progress(given, &Plot3dOptions::default(), &cache, &mut |_, _| true).map(|p| p.catalog)
    };
    let found = open(&[2.0, 2.5, 4.0], None).unwrap();
    assert!(found.times == [2.0, 2.5, 4.0] && !found.times_counted && found.untimed().is_none());
    assert_eq!(open(&[2.0, 2.5, 4.0], Some(0.5)).unwrap().times, [0.0, 0.5, 1.0]);
    for wrong in [&[2.0, 2.5][..], &[2.0, 2.0, 4.0][..], &[2.0, f64::NAN, 4.0][..]] {
        assert!(open(wrong, None).unwrap_err().to_string().contains("times for 3 steps"), "{wrong:?}");
    }
}

#[test]
fn headers_that_only_count_are_no_times() {
    let single = WriteSpec { precision: Precision::Single, ..plain() };
    for (spec, times, first, last) in
        [(plain(), [3.0, 4.0, 5.0], "s0.q has 3", "s2.q has 5"), (single, [2.0, 0.0, 1.0], "s1.q has 0", "s0.q has 2")]
    {
        let found = opened(&spec, &times, None);
        assert!(found.times_counted && found.times == [0.0, 1.0, 2.0], "{times:?}");
        let why = found.untimed().unwrap();
        assert!(why.contains(first) && why.contains(last) && why.contains("--dt 1 if these are"), "{why}");
        // Counted steps still order the files.
        assert!(found.zones[0].headers.windows(2).all(|h| h[0].time < h[1].time));
        assert_eq!(found.notes().count(), usize::from(times[0] == 2.0));
        let told = opened(&spec, &times, Some(1.0));
        assert!(!told.times_counted && told.times == [0.0, 1.0, 2.0]);
    }
    // Two times may be whole by chance, and a counter rises by ones.
    for times in [&[3.0, 4.0][..], &[0.0, 2.0, 4.0][..], &[0.0, 1.0, 3.0][..], &[0.5, 1.5, 2.5][..]] {
        let found = opened(&plain(), times, None);
        assert!(!found.times_counted && found.times == times, "{times:?}");
    }
}

#[test]
fn files_whose_headers_are_no_times_are_named() {
    let none = f64::NAN;
    for (times, says) in [
        (&[0.0, 0.25, 0.5, 0.5, 0.75][..], "each step a time of its own: s2.q and s3.q both have 0.5; steps"),
        (&[0.0, 0.5, 0.25, 0.5, 0.25][..], "s2.q and s4.q both have 0.25 (and 1 more pair)"),
        (&[3.25; 3][..], "give all 3 steps the same time (s0.q and s1.q both have 3.25)"),
        (&[0.0, none, 0.5][..], "in the header of s1.q is no finite number but NaN"),
        (&[0.0, 0.5, f64::INFINITY, none][..], "of s2.q (and 1 more file) is no finite number but inf"),
    ] {
        let found = opened(&plain(), times, None);
        let why = found.untimed().unwrap();
        assert!(why.contains(says) && why.contains("--dt") && found.guessed.contains(&why), "{why}");
        assert_eq!(why.contains("Leave"), times != [3.25; 3], "{why}");
    }
}
