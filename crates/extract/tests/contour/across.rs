//! Parts of surfaces that go on from zone to zone.

use crate::joined_pieces::WholeSurface;
use crate::zones::{draw, iso, open, ZonesFolder};
use extract::contour::ContourSpec;
use field::plot3d::write::WriteSpec;
use field::plot3d::{Kind, Precision};
use runtime::session::SourceSpec;
use std::f64::consts::{PI, TAU};

const RADIUS: f64 = 0.3;

/// Files of zones with nodes at `place` and with density `value`.
pub fn files(
    folder: &ZonesFolder,
    dims: &[[usize; 3]],
    precision: Precision,
    place: impl Fn(usize, [f64; 3]) -> [f64; 3],
    value: impl Fn([f64; 3]) -> f64,
) -> SourceSpec {
    let at = |zone: usize, ijk: [usize; 3]| {
        place(zone, core::array::from_fn(|a| ijk[a] as f64 / (dims[zone][a] - 1) as f64))
    };
    let spec = WriteSpec { precision, ..WriteSpec::new(Kind::Grid, dims.to_vec()) };
    let grid = folder.write("grid.xyz", &spec, |zone, c, ijk| at(zone, ijk)[c]);
    let spec = WriteSpec { precision, ..WriteSpec::new(Kind::Q, dims.to_vec()) };
    let q = folder.write("flow.q", &spec, |zone, variable, ijk| match variable {
        0 => value(at(zone, ijk)),
        4 => 9.0,
        _ => 0.0,
    });
    SourceSpec { path: grid, q: vec![q], cache_dir: folder.0.join("cache"), ..SourceSpec::default() }
}

/// Two boxes adjacent along x, the second one rotated: its i runs against x and its j along z.
fn boxes(zone: usize, f: [f64; 3]) -> [f64; 3] {
    match zone {
        0 => f,
        _ => [2.0 - f[0], f[2], f[1]],
    }
}

/// The distance to the nearest of some points, plus 1.
fn density(centres: &'static [[f64; 3]]) -> impl Fn([f64; 3]) -> f64 {
    move |x| 1.0 + centres.iter().map(|c| distance(x, *c)).fold(f64::INFINITY, f64::min)
}

fn distance(x: [f64; 3], c: [f64; 3]) -> f64 {
    (0..3).map(|a| (x[a] - c[a]).powi(2)).sum::<f64>().sqrt()
}

/// Every open edge coincides with an opposite one, bit for bit.
fn is_closed(s: &WholeSurface) -> bool {
    let mut ends: Vec<[[u64; 3]; 2]> = s.rim().iter().map(|e| e.map(|p| p.map(f64::to_bits))).collect();
    ends.sort_unstable();
    ends.iter().all(|[a, b]| ends.binary_search(&[*b, *a]).is_ok())
}

fn near(x: [f64; 3]) -> ContourSpec {
    ContourSpec { near: Some(x), scalars: vec!["density".into()], ..iso("density", &[1.0 + RADIUS]) }
}

#[test]
fn one_of_two_balls_through_two_zones() {
    const CENTRES: &[[f64; 3]] = &[[1.02, 0.5, 0.4], [0.98, 0.5, 1.3]];
    let folder = ZonesFolder::new("across");
    let tall = |zone: usize, f: [f64; 3]| {
        let [x, y, z] = boxes(zone, f);
        [x, y, 1.7 * z]
    };
    let dims = [[45, 40, 70], [40, 70, 40]];
    let session = open(&files(&folder, &dims, Precision::Double, tall, density(CENTRES)), 64 << 20, 2);
    let (both, _) = draw(&session, &iso("density", &[1.0 + RADIUS]));
    let mut parts = 0;
    for c in CENTRES {
        let mut seen: Vec<Vec<u64>> = Vec::new();
        for x in [c[0] - RADIUS, c[0] + RADIUS] {
            let (s, made) = draw(&session, &near([x, c[1], c[2]]));
            assert!(!made.partial());
            assert!(s.zones.contains(&0) && s.zones.contains(&1));
            assert!((s.area() / (4.0 * PI * RADIUS.powi(2)) - 1.0).abs() < 5e-3, "{}", s.area());
            assert!((s.volume().abs() / (4.0 / 3.0 * PI * RADIUS.powi(3)) - 1.0).abs() < 1e-2);
            assert!(s.points.iter().all(|p| (distance(*p, *c) - RADIUS).abs() < 2e-3));
            assert!(s.rim().len() > 50 && is_closed(&s), "a crack between the zones");
            seen.push(s.bits());
            parts += s.triangles.len();
        }
        assert!(seen[0] == seen[1], "the part depends on where it grows from");
    }
    assert_eq!(parts, 2 * both.triangles.len());
    // Pages, limits and workers make no difference.
    let truth = draw(&session, &near([0.72, 0.5, 0.4])).0.bits();
    for (page, limit, workers) in [(8, 14 << 20, 2), (16, 12 << 20, 1), (32, 32 << 20, 3)] {
        let other = open(&folder.store(&session, page), limit, workers);
        assert!(draw(&other, &near([0.72, 0.5, 0.4])).0.bits() == truth, "pages of {page} under {limit}");
        assert!(other.pager.ledger().peak() <= limit);
    }
}

#[test]
fn zones_of_other_spacing_and_zones_that_overlap() {
    const CENTRES: &[[f64; 3]] = &[[1.02, 0.5, 0.5]];
    for (n, dims, shift) in [(0, [[45, 40, 40], [60, 65, 51]], 0.0), (1, [[45, 40, 40], [31, 24, 20]], 0.11)] {
        let folder = ZonesFolder::new(&format!("spacing-{n}"));
        let place = |zone: usize, f: [f64; 3]| {
            let [x, y, z] = boxes(zone, f);
            [x - if zone == 1 { shift } else { 0.0 }, y, z]
        };
        let session = open(&files(&folder, &dims, Precision::Single, place, density(CENTRES)), 64 << 20, 2);
        let whole = draw(&session, &ContourSpec { near: None, ..near([0.0; 3]) }).0.bits();
        for x in [0.72, 1.32] {
            assert!(draw(&session, &near([x, 0.5, 0.5])).0.bits() == whole, "{n} from {x}");
        }
    }
}

#[test]
fn a_zone_that_meets_itself() {
    // Around an axis, and back to itself; the ball is across the seam.
    const CENTRES: &[[f64; 3]] = &[[1.5, 0.0, 0.5], [-1.5, 0.0, 0.5]];
    let folder = ZonesFolder::new("seam");
    let place = |_: usize, f: [f64; 3]| {
        let (r, (sin, cos)) = (1.0 + f[0], if f[1] == 1.0 { (0.0, 1.0) } else { (TAU * f[1]).sin_cos() });
        [r * cos, r * sin, f[2]]
    };
    let session = open(&files(&folder, &[[40, 200, 41]], Precision::Double, place, density(CENTRES)), 64 << 20, 2);
    for y in [-0.3, 0.3] {
        let (s, _) = draw(&session, &near([1.5, y, 0.5]));
        assert!((s.area() / (4.0 * PI * RADIUS.powi(2)) - 1.0).abs() < 8e-3, "{}", s.area());
        assert!(s.points.iter().all(|p| (distance(*p, CENTRES[0]) - RADIUS).abs() < 3e-3) && is_closed(&s));
    }
}
