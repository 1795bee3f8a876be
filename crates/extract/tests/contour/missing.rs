//! Surfaces of volumes with missing voxels: cells with such a corner are omitted, whatever number is stored.

use crate::holes::{HoleSetup, Holed, OpenedVolume, StoredNumbers};
use crate::joined_pieces::{is_single, WholeSurface};
use extract::contour::{run_volume, VolumeContour, VolumeWhat};
use field::volume::{VolumeKind, VoxelType};

const DIMS: [usize; 3] = [96, 80, 75];
const MIDDLE: [f64; 3] = [46.3, 40.7, 36.2];
const RADIUS: f64 = 30.0;

/// A wedge of the ball, with the middle, and a wall beside it.
fn is_hole([i, j, k]: [usize; 3]) -> bool {
    (i >= 40 && j >= 38 && k >= 33) || (i < 12 && j < 70)
}

fn radius(at: [f64; 3]) -> f64 {
    (0..3).map(|a| (at[a] - MIDDLE[a]).powi(2)).sum::<f64>().sqrt()
}

/// Distance from the middle, in halves so that all types represent it.
const BALL: Holed = Holed {
    dims: DIMS,
    components: 1,
    kind: VolumeKind::Scalar,
    values: |at, _| (!is_hole(at)).then(|| (2.0 * radius(at.map(|n| n as f64))).round()),
};

const NONE: StoredNumbers = (VoxelType::Float32, f64::NAN);
const MEANS: HoleSetup = HoleSetup { chunk: Some([16, 16, 16]), limit: 64 << 20, late: None, ranges: false };

fn spec(values: &[f64]) -> VolumeContour {
    let what = VolumeWhat::Iso { channel: 0, values: values.to_vec() };
    VolumeContour { what, channels: vec![0], normals: true, near: None, step: 0, spill: None }
}

fn draw(of: &OpenedVolume, workers: usize, spec: &VolumeContour) -> WholeSurface {
    let mut all = WholeSurface::default();
    let mut each = |p| {
        assert!(is_single(&p));
        all.add(p)
    };
    let made = run_volume(&of.pager, workers, &of.level, spec, &mut each, &mut |_, _| true).unwrap();
    if matches!(spec.what, VolumeWhat::Iso { .. }) {
        all.check(&made.drawn);
    }
    assert!(!made.partial() && of.pager.ledger().peak() <= of.pager.ledger().limit());
    all
}

/// In voxels.
fn index(of: &OpenedVolume, x: [f64; 3]) -> [f64; 3] {
    let p = &of.level.placement;
    let spacing = p.spacing();
    std::array::from_fn(|a| {
        (0..3).map(|c| p.axes[a][c] * (x[c] - p.origin[c])).sum::<f64>() / (spacing[a] * spacing[a])
    })
}

fn all_stored() -> Vec<StoredNumbers> {
    use VoxelType::*;
    vec![
        (Float32, f64::from(1e20f32)),
        (Float32, -9999.0),
        (Float32, 60.5),
        (Float64, -1e30),
        (Uint8, 255.0),
        (Uint8, 0.0),
        (Int8, -128.0),
        (Int16, -32768.0),
        (Int16, 32767.0),
        (Uint16, 65535.0),
        (Int32, -9999.0),
        (Uint32, f64::from(u32::MAX)),
        (Int64, i64::MIN as f64),
        (Uint64, u64::MAX as f64),
    ]
}

#[test]
fn a_ball_with_a_hole_has_no_wall_around_it_in_any_type() {
    // Stored in place of missing voxels, these would give walls at every value.
    let values = [2.0 * RADIUS + 0.5, 41.25];
    let truth = draw(&BALL.open(NONE, MEANS), 1, &spec(&values));
    for stored in all_stored() {
        for ranges in [false, true] {
            let of = BALL.open(stored, HoleSetup { ranges, ..MEANS });
            let s = draw(&of, 2, &spec(&values));
            assert!(s.bits() == truth.bits(), "{stored:?}, ranges {ranges}");
        }
    }
    let of = BALL.open(all_stored()[0], MEANS);
    let cells_with_holes = |x: [f64; 3]| {
        // For a place on a face the cells on both sides; one of them is that of the triangle.
        let low: [[usize; 2]; 3] = x.map(|x| [(x - 1e-3).floor() as usize, (x + 1e-3).floor() as usize]);
        let mut cells = Vec::new();
        for n in 0..8 {
            let cell: [usize; 3] = std::array::from_fn(|a| low[a][n >> a & 1]);
            cells.push((0..8).any(|c| is_hole(std::array::from_fn(|a| cell[a] + (c >> a & 1)))));
        }
        cells
    };
    let mut beside = 0;
    for ((x, v), n) in truth.points.iter().zip(&truth.fields[0]).zip(&truth.normals) {
        let at = index(&of, *x);
        let holes = cells_with_holes(at);
        assert!(holes.iter().any(|h| !h), "a vertex in a cell without all values: {at:?}");
        beside += usize::from(holes.iter().any(|h| *h));
        // Halves are rounded to integers.
        assert!(values
            .iter()
            .any(|wanted| (f64::from(*v) - wanted).abs() < 1e-4 && (radius(at) - wanted / 2.0).abs() < 0.5));
        assert!(n.iter().all(|c| c.is_finite()));
    }
    assert!(beside > 50, "the surface ends at the hole: {beside} vertices");
    // Its rim is all at the holes.
    for end in truth.rim().iter().flatten() {
        assert!(cells_with_holes(index(&of, *end)).iter().any(|h| *h), "a rim at {end:?}");
    }
}

#[test]
fn with_missing_values_surfaces_are_equal_whatever_the_means() {
    let values = [2.0 * RADIUS + 0.5];
    let truth = draw(&BALL.open(NONE, MEANS), 1, &spec(&values));
    assert!(truth.triangles.len() > 5000);
    let arm = |chunk, limit, late, ranges| HoleSetup { chunk, limit, late, ranges };
    let means = [
        (arm(None, 12 << 20, None, true), 3),
        (arm(Some([64, 64, 64]), 48 << 20, Some(1), true), 2),
        (arm(Some([8, 9, 70]), 12 << 20, Some(2), false), 2),
        (arm(Some([11, 5, 7]), 12 << 20, None, true), 1),
    ];
    for stored in [(VoxelType::Float32, f64::from(1e20f32)), (VoxelType::Uint8, 0.0), (VoxelType::Int32, -9999.0)] {
        for (means, workers) in means {
            let s = draw(&BALL.open(stored, means), workers, &spec(&values));
            assert!(s.bits() == truth.bits(), "{stored:?} by {means:?}");
        }
    }
}

#[test]
fn pages_that_have_no_value_are_not_read() {
    let half = Holed { values: |at, c| (BALL.values)(at, c).filter(|_| at[2] < 32), ..BALL };
    let of = half.open((VoxelType::Int16, 32767.0), HoleSetup { ranges: true, ..MEANS });
    draw(&of, 1, &spec(&[2.0 * RADIUS + 0.5]));
    // Pages of 32^3: one of three layers, the next for the corners of cells between, and a page of ranges.
    let faults = of.pager.counters().faults;
    assert!(faults <= 2 * 3 * 3 + 1, "{faults} pages");
}

#[test]
fn planes_have_no_numbers_where_values_are_missing() {
    let of = BALL.open((VoxelType::Int16, -9999.0), MEANS);
    let level = &of.level.placement;
    let (origin, normal) = (level.position([0.0, 0.0, 50.25]), [0.0, 0.0, 1.0]);
    let s = draw(&of, 2, &VolumeContour { what: VolumeWhat::Plane { origin, normal }, ..spec(&[]) });
    let mut none = 0;
    for (x, v) in s.points.iter().zip(&s.fields[0]) {
        let at = index(&of, *x).map(|n| (n * 1024.0).round() / 1024.0);
        let low = at.map(|n| n.floor() as usize);
        let beside = (0..8).map(|c| -> [usize; 3] {
            std::array::from_fn(|a| low[a] + usize::from(c >> a & 1 == 1 && at[a].fract() != 0.0))
        });
        let missing = beside.into_iter().any(is_hole);
        assert_eq!(v.is_nan(), missing, "{at:?}: {v}");
        none += usize::from(missing);
    }
    assert!(none > 1000 && none < s.points.len() / 2, "{none} of {}", s.points.len());
}

#[test]
fn a_point_without_a_value_is_said_to_have_none() {
    let of = BALL.open((VoxelType::Float32, -9999.0), MEANS);
    let near = Some(of.level.placement.position([45.0, 45.0, 45.0]));
    let spec = VolumeContour { near, ..spec(&[]) };
    let e = run_volume(&of.pager, 1, &of.level, &spec, &mut |_| Ok(()), &mut |_, _| true).unwrap_err();
    assert!(e.to_string().contains("has no value"), "{e}");
}
