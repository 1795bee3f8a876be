//! Streamlines over flat arrays, against flows with known lines.

use field::in_memory::{FlatArray, FlatNodes, NamedZone};
use field::locator::{ZoneFields, ZoneLocator};
use field::nodes::Nodes;
use kernels::flow::{GridFlow, ZoneOrder};
use kernels::line::{JoinedLine, Reason};
use kernels::rk::Method;
use kernels::streamline::{Direction, Integrator, Options, Seed, StepProgress, Streamline, TerminalSpeed};

type Map = dyn Fn(f64, f64, f64) -> [f64; 3];
type Vector = dyn Fn([f64; 3]) -> [f64; 3];

fn zone(
    name: &str,
    n: [usize; 3],
    lo: [f64; 3],
    hi: [f64; 3],
    map: &Map,
    v: &Vector,
    blank: Option<&dyn Fn([usize; 3]) -> i32>,
) -> NamedZone {
    let count = n[0] * n[1] * n[2];
    let mut xyz = vec![0.0; 3 * count];
    let mut vel = vec![0.0; 3 * count];
    let mut ib = vec![1; count];
    for k in 0..n[2] {
        for j in 0..n[1] {
            for i in 0..n[0] {
                let at = (k * n[1] + j) * n[0] + i;
                let f = |a: usize, m: usize| lo[a] + (hi[a] - lo[a]) * m as f64 / (n[a] - 1).max(1) as f64;
                let x = map(f(0, i), f(1, j), f(2, k));
                let u = v(x);
                for c in 0..3 {
                    xyz[c * count + at] = x[c];
                    vel[c * count + at] = u[c];
                }
                if let Some(b) = blank {
                    ib[at] = b([i, j, k]);
                }
            }
        }
    }
    let mut arrays = vec![("xyz".into(), 3, FlatArray::F64(xyz)), ("velocity".into(), 3, FlatArray::F64(vel))];
    if blank.is_some() {
        arrays.push(("iblank".into(), 1, FlatArray::I32(ib)));
    }
    (name.into(), n, arrays)
}

fn flow(zones: Vec<NamedZone>) -> GridFlow<FlatNodes> {
    let nodes = FlatNodes::from_arrays(zones);
    let fields: Vec<_> =
        nodes.zones().iter().map(|z| ZoneFields::named(z, Some("velocity"), &[], 1.4, 1.0).unwrap()).collect();
    let n = fields.len();
    GridFlow::new(ZoneLocator::new(nodes, fields.into()), ZoneOrder::file(n))
}

fn trace(flow: &mut GridFlow<FlatNodes>, x: [f64; 3], o: &Options) -> JoinedLine {
    let mut s = Streamline::new(Seed::Physical(x), o, 0);
    let mut n = 0;
    while s.step(flow, o).unwrap() != StepProgress::Done {
        n += 1;
        assert!(n < 1_000_000, "does not end");
    }
    s.into_line()
}

fn rotation(x: [f64; 3]) -> [f64; 3] {
    [-(x[1] - 0.5), x[0] - 0.5, 0.1]
}

fn warped(a: f64) -> impl Fn(f64, f64, f64) -> [f64; 3] {
    move |r, s, t| {
        [
            r + a * (3.0 * s).sin() * r * (1.0 - r),
            s + a * (2.0 * t + r).sin() * s * (1.0 - s),
            t + a * (2.0 * r).cos() * t * (1.0 - t),
        ]
    }
}

#[test]
fn circles_on_a_warped_grid() {
    let mut f = flow(vec![zone("a", [49, 41, 33], [0.0; 3], [1.0; 3], &warped(0.12), &rotation, None)]);
    for method in [Integrator::Rk45, Integrator::Rk45Physical] {
        let o = Options { method, tolerance: 1e-7, max_length: 1.0, direction: Direction::Both, ..Options::default() };
        for r in [0.05, 0.1, 0.2, 0.3] {
            let l = trace(&mut f, [0.5 + r, 0.5, 0.2], &o);
            assert!(l.points.len() > 5);
            let worst = l.points.iter().map(|p| ((p[0] - 0.5).hypot(p[1] - 0.5) - r).abs()).fold(0.0, f64::max);
            assert!(worst < 5e-4, "{method:?} r {r}: {worst}");
            // The slow inner circles leave the box first.
            assert_eq!(l.reason, Some(if r < 0.1 { Reason::Left } else { Reason::Length }));
            assert_eq!(l.points[l.seed], [0.5 + r, 0.5, 0.2]);
        }
    }
}

/// Both integrators follow the same interpolated field: run tightly, they end at the same point.
#[test]
fn computational_and_physical_space_agree() {
    let mut f = flow(vec![zone("a", [17, 15, 13], [0.0; 3], [1.0; 3], &warped(0.15), &rotation, None)]);
    for n in 0..20 {
        let x = [0.3 + 0.02 * f64::from(n), 0.45, 0.3];
        let o = Options { tolerance: 1e-9, max_time: 1.5, max_steps: 1_000_000, ..Options::default() };
        let a = trace(&mut f, x, &o);
        let b = trace(&mut f, x, &Options { method: Integrator::Rk45Physical, tolerance: 1e-8, ..o.clone() });
        assert_eq!((a.reason, b.reason), (Some(Reason::Time), Some(Reason::Time)));
        let (p, q) = (a.points.last().unwrap(), b.points.last().unwrap());
        let d = (0..3).map(|c| (p[c] - q[c]).abs()).fold(0.0, f64::max);
        assert!(d < 1e-6, "seed {n}: {d:e} apart, {} and {} points", a.points.len(), b.points.len());
    }
}

#[test]
fn second_order_in_grid_spacing() {
    let error = |n: usize| {
        let mut f = flow(vec![zone(
            "a",
            [n, n, 9],
            [0.0; 3],
            [1.0; 3],
            &|r, s, t| [r, s, t],
            &|x| {
                // A shear with a profile that is not piecewise linear: along a line x + const it turns by a known
                // amount.
                [1.0, (3.0 * x[0]).sin(), 0.0]
            },
            None,
        )]);
        let o = Options { tolerance: 1e-10, max_steps: 1_000_000, ..Options::default() };
        let l = trace(&mut f, [0.05, 0.3, 0.5], &o);
        let p = l.points.last().unwrap();
        let exact = 0.3 + ((3.0 * 0.05f64).cos() - (3.0 * p[0]).cos()) / 3.0;
        (p[1] - exact).abs()
    };
    let slope = (error(17) / error(65)).log2() / 2.0;
    assert!((slope - 2.0).abs() < 0.15, "slope {slope}");
}

#[test]
fn zones_cut_from_one_grid_give_the_same_lines() {
    let map = warped(0.12);
    let mut one = flow(vec![zone("a", [49, 21, 21], [0.0; 3], [1.0; 3], &map, &rotation, None)]);
    let cut = |a: usize, b: usize| {
        zone("c", [b - a + 1, 21, 21], [a as f64 / 48.0, 0.0, 0.0], [b as f64 / 48.0, 1.0, 1.0], &map, &rotation, None)
    };
    let mut four = flow(vec![cut(0, 12), cut(12, 24), cut(24, 36), cut(36, 48)]);
    let o = Options {
        tolerance: 1e-8,
        max_length: 2.0,
        max_steps: 100_000,
        direction: Direction::Both,
        ..Options::default()
    };
    for n in 0..30 {
        let x = [0.26 + 0.015 * f64::from(n), 0.5, 0.31];
        let (a, b) = (trace(&mut one, x, &o), trace(&mut four, x, &o));
        assert_eq!((a.reason, a.reason_backward), (b.reason, b.reason_backward), "seed {n}");
        let (p, q) = (a.points.last().unwrap(), b.points.last().unwrap());
        let d = (0..3).map(|c| (p[c] - q[c]).abs()).fold(0.0, f64::max);
        assert!(d < 1e-5, "seed {n}: {d:e}");
    }
}

#[test]
fn o_grid_seam_is_crossed() {
    // A ring: i runs round the axis, the seam doubled.
    let ring = |r: f64, s: f64, t: f64| {
        let a = std::f64::consts::TAU * r;
        [(0.5 + s) * a.cos(), (0.5 + s) * a.sin(), t]
    };
    let mut f = flow(vec![zone("o", [65, 17, 9], [0.0; 3], [1.0; 3], &ring, &|x| [-x[1], x[0], 0.0], None)]);
    let o = Options { tolerance: 1e-7, max_time: 4.0 * std::f64::consts::PI, max_steps: 10_000, ..Options::default() };
    let l = trace(&mut f, [1.0, 0.01, 0.5], &o);
    for n in (0..l.points.len()).rev().take(12) {
        println!("{:?} {} {}", l.points[n], l.time[n], n);
    }
    assert_eq!(l.reason, Some(Reason::Time));
    let worst = l.points.iter().map(|p| (p[0].hypot(p[1]) - 1.0).abs()).fold(0.0, f64::max);
    assert!(worst < 5e-3, "{worst}");
    let p = l.points.last().unwrap();
    assert!((p[0] - 1.0).abs() < 1e-2 && (p[1] - 0.01).abs() < 5e-2, "{p:?}");
}

#[test]
fn polar_axis_is_passed() {
    // A full disc with a collapsed edge at the axis; uniform flow across it.
    let disc = |r: f64, s: f64, t: f64| {
        let a = std::f64::consts::TAU * r;
        [s * a.cos(), s * a.sin(), t]
    };
    let mut f = flow(vec![zone("d", [33, 17, 5], [0.0; 3], [1.0; 3], &disc, &|_| [1.0, 0.0, 0.0], None)]);
    let methods = [Integrator::Rk45, Integrator::Rk45Physical, Integrator::Fixed(Method::Rk4)];
    for (method, y) in methods.into_iter().flat_map(|m| [0.0, 1e-9, 1e-7, 0.003, -0.02, 0.11].map(|y| (m, y))) {
        let o = Options { method, tolerance: 1e-6, max_steps: 10_000, ..Options::default() };
        let l = trace(&mut f, [-0.8, y, 0.5], &o);
        let p = l.points.last().unwrap();
        let case = format!("{method:?} from y {y}: {p:?} {:?} after {} points", l.reason, l.points.len());
        // The rim of the disc is a polygon of 32 sides; fixed steps end a part of a cell before it.
        assert!(p[0] > 0.97 && (p[1] - y).abs() < 1e-5, "{case}");
        assert_eq!(l.reason, Some(Reason::Left), "{case}");
        // Steps do not shrink with the width of the cells towards the axis.
        assert!(l.points.len() < 700, "{case}");
    }
}

#[test]
fn a_crossing_takes_no_way_for_nothing() {
    // Linear flow in four zones of unlike spacing along i, so that only the crossings could err.
    let v = |x: [f64; 3]| [1.0, 0.1 * x[0], 0.0];
    let edges = [0.0, 0.21, 0.5, 0.83, 1.2];
    let zones = (0..4)
        .map(|n| {
            let (lo, hi) = ([edges[n], 0.0, 0.0], [edges[n + 1], 1.0, 1.0]);
            zone(&format!("zone{}", n + 1), [4 + n, 5 + n, 4], lo, hi, &|r, s, t| [r, s, t], &v, None)
        })
        .collect();
    let o = Options { tolerance: 1e-10, max_time: 1.0, ..Options::default() };
    let line = trace(&mut flow(zones), [0.05, 0.4, 0.5], &o);
    assert_eq!(line.reason, Some(Reason::Time));
    for (p, t) in line.points.iter().zip(&line.time) {
        let x = 0.05 + t;
        assert!((p[0] - x).abs() < 1e-13, "{t}: {p:?}");
        assert!((p[1] - 0.4 - 0.05 * (x * x - 0.0025)).abs() < 1e-10, "{t}: {p:?}");
    }
}

/// Abutting zones may have gaps: by rounding, or where the faces of a curved interface have unlike spacing.
#[test]
fn zones_that_gape_a_little_hand_over() {
    let wind = |_: [f64; 3]| [1.0, 0.0, 0.0];
    let o = Options { tolerance: 1e-7, max_steps: 1000, ..Options::default() };
    let half =
        |a: f64, b: f64| zone("half", [9, 5, 5], [a, 0.0, 0.0], [b, 1.0, 1.0], &|r, s, t| [r, s, t], &wind, None);
    for gap in [0.0, 1e-7, 1e-5, 1e-3, 3e-3] {
        let mut f = flow(vec![half(0.0, 0.5), half(0.5 + gap, 1.0)]);
        let l = trace(&mut f, [0.1, 0.3, 0.4], &o);
        let p = l.points.last().unwrap();
        assert!((p[0] - 1.0).abs() < 1e-9 && l.reason == Some(Reason::Left), "gap {gap}: {p:?} {:?}", l.reason);
    }
    // Too wide for a rounding gap: three tenths of a cell.
    let mut f = flow(vec![half(0.0, 0.5), half(0.52, 1.0)]);
    assert!((trace(&mut f, [0.1, 0.3, 0.4], &o).points.last().unwrap()[0] - 0.5).abs() < 1e-9);

    let ring = |n: usize, inner: f64, outer: f64| {
        let map = move |r: f64, s: f64, t: f64| {
            let a = std::f64::consts::TAU * r;
            [s * a.cos(), s * a.sin(), t]
        };
        zone("ring", [n, 9, 3], [0.0, inner, 0.0], [1.0, outer, 1.0], &map, &wind, None)
    };
    let mut f = flow(vec![ring(33, 0.2, 1.0), ring(49, 1.0, 3.0)]);
    for n in 0..30 {
        let y = 0.25 + 0.024 * f64::from(n);
        let l = trace(&mut f, [-2.8, y, 0.5], &o);
        let p = l.points.last().unwrap();
        // As far as the outer rim, a polygon.
        assert!(p[0].hypot(p[1]) > 2.98 && (p[1] - y).abs() < 1e-5, "{y}: {p:?} {:?}", l.reason);
    }
}

/// A coordinate of NaN makes holes of the cells around it only, in either precision.
#[test]
fn a_coordinate_that_is_no_number_hides_only_its_own_cells() {
    const N: usize = 6;
    let node = |n: usize| [n % N, n / N % N, n / N / N];
    for bad in [[3, 1, 1], [0, 0, 0], [5, 2, 4], [2, 3, 0]] {
        let coordinate =
            |n: usize| if node(n % N.pow(3)) == bad { f64::NAN } else { node(n % N.pow(3))[n / N.pow(3)] as f64 };
        let xyz: Vec<f64> = (0..3 * N.pow(3)).map(coordinate).collect();
        let single = FlatArray::F32(xyz.iter().map(|v| *v as f32).collect());
        for xyz in [single, FlatArray::F64(xyz)] {
            let velocity = FlatArray::F64(vec![0.0; 3 * N.pow(3)]);
            let arrays = vec![("xyz".into(), 3, xyz), ("velocity".into(), 3, velocity)];
            let mut f = flow(vec![("a".into(), [N; 3], arrays)]);
            for n in (0..N.pow(3)).map(node).filter(|n| n.iter().all(|i| *i + 1 < N)) {
                let hidden = (0..3).all(|a| n[a] == bad[a] || n[a] + 1 == bad[a]);
                let l = trace(&mut f, n.map(|i| i as f64 + 0.5), &Options::default());
                assert_eq!(l.points.is_empty(), hidden, "cell {n:?} beside {bad:?}");
            }
        }
    }
}

/// Where the vector is NaN there is no flow: a line ends there as at a hole, with every integrator.
#[test]
fn no_numbers_are_holes() {
    let straight = |r: f64, s: f64, t: f64| [r, s, t];
    let v = |x: [f64; 3]| if x[0] > 0.55 { [f64::NAN; 3] } else { [1.0, 0.0, 0.0] };
    let mut f = flow(vec![zone("a", [11, 5, 5], [0.0; 3], [1.0; 3], &straight, &v, None)]);
    for method in [Integrator::Rk45, Integrator::Rk45Physical, Integrator::Fixed(kernels::rk::Method::Rk4)] {
        let o = Options { method, max_length: 5.0, ..Options::default() };
        let l = trace(&mut f, [0.11, 0.31, 0.42], &o);
        assert_eq!(l.reason, Some(Reason::Hole), "{method:?}");
        let end = l.points.last().unwrap();
        assert!(end.iter().all(|c| c.is_finite()) && end[0] > 0.4 && end[0] <= 0.5 + 1e-9, "{method:?}: {end:?}");
        // A seed there, too.
        assert_eq!(trace(&mut f, [0.8, 0.31, 0.42], &o).reason, Some(Reason::Hole), "{method:?}");
    }
}

#[test]
fn walls_holes_and_rest() {
    let cube = |r: f64, s: f64, t: f64| [r, s, t];
    // A wall by iblank 2 at i = max.
    let wall = |n: [usize; 3]| if n[0] == 10 { 2 } else { 1 };
    let mut f = flow(vec![zone("w", [11, 5, 5], [0.0; 3], [1.0; 3], &cube, &|_| [1.0, 0.0, 0.0], Some(&wall))]);
    let o = Options { direction: Direction::Both, ..Options::default() };
    let l = trace(&mut f, [0.33, 0.4, 0.4], &o);
    assert_eq!((l.reason, l.reason_backward), (Some(Reason::Wall), Some(Reason::Left)));
    assert!((l.points.last().unwrap()[0] - 1.0).abs() < 1e-12);
    // A hole in the middle.
    let hole = |n: [usize; 3]| i32::from(n[0] < 6);
    let mut f = flow(vec![zone("h", [11, 5, 5], [0.0; 3], [1.0; 3], &cube, &|_| [1.0, 0.0, 0.0], Some(&hole))]);
    let l = trace(&mut f, [0.33, 0.4, 0.4], &o);
    assert_eq!(l.reason, Some(Reason::Hole));
    assert!((l.points.last().unwrap()[0] - 0.5).abs() < 1e-12);
    // No slip: the velocity vanishes at i = max, and the particle slows down for ever.
    let mut f = flow(vec![zone("s", [11, 5, 5], [0.0; 3], [1.0; 3], &cube, &|x| [1.0 - x[0], 0.0, 0.0], None)]);
    let l = trace(
        &mut f,
        [0.33, 0.4, 0.4],
        &Options { terminal_speed: TerminalSpeed::Absolute(1e-6), ..Options::default() },
    );
    assert_eq!(l.reason, Some(Reason::Speed));
    // Outside from the start.
    let l = trace(&mut f, [3.0, 0.4, 0.4], &o);
    assert_eq!((l.points.len(), l.reason), (0, Some(Reason::Left)));
}

/// Powers of two change no digit. In a flow scaled by one, a line is the same, point for point, and ends for the same
/// reason.
#[test]
fn a_line_does_not_depend_on_the_unit_of_speed() {
    let cube = |r: f64, s: f64, t: f64| [r, s, t];
    fn stagnation(x: [f64; 3]) -> [f64; 3] {
        [x[0], -x[1], 0.0]
    }
    /// No slip on both walls of a corner.
    fn corner(x: [f64; 3]) -> [f64; 3] {
        [-x[0] * x[1], 0.5 * x[0] * x[1], 0.0]
    }
    type Velocity = fn([f64; 3]) -> [f64; 3];
    let flows: [(Velocity, [f64; 3], Reason); 3] = [
        (stagnation, [0.0, 0.9, 0.4], Reason::Speed),
        (stagnation, [0.1, 0.9, 0.4], Reason::Left),
        (corner, [0.62, 0.33, 0.4], Reason::Wall),
    ];
    for (v, seed, wanted) in flows {
        for method in [Integrator::Rk45, Integrator::Rk45Physical] {
            let mut one: Option<JoinedLine> = None;
            for by in [1.0, 2f64.powi(-47), 2f64.powi(-300), 2f64.powi(60)] {
                let scaled = move |x: [f64; 3]| v(x).map(|c| c * by);
                let mut f = flow(vec![zone("s", [11, 9, 5], [0.0; 3], [1.0; 3], &cube, &scaled, None)]);
                let l = trace(&mut f, seed, &Options { method, ..Options::default() });
                // A line into a corner ends long before it has made all its steps.
                assert!(l.points.len() > 5 && l.points.len() < 400, "{wanted:?} {method:?} {by}: {}", l.points.len());
                if method == Integrator::Rk45 {
                    assert_eq!(l.reason, Some(wanted), "{by}");
                }
                let first = one.get_or_insert_with(|| l.clone());
                assert_eq!((&l.points, l.reason), (&first.points, first.reason), "{wanted:?} {method:?} {by}");
            }
        }
    }
    // A given speed is absolute.
    let mut f = flow(vec![zone("s", [11, 9, 5], [0.0; 3], [1.0; 3], &cube, &stagnation, None)]);
    let given = Options { terminal_speed: TerminalSpeed::Absolute(0.5), ..Options::default() };
    let l = trace(&mut f, [0.0, 0.9, 0.4], &given);
    assert_eq!(l.reason, Some(Reason::Speed));
    assert!(l.points.last().unwrap()[1] <= 0.5 && l.points[l.points.len() - 2][1] > 0.5);
    let none = trace(&mut f, [0.0, 0.0, 0.4], &Options::default());
    assert_eq!(none.reason, Some(Reason::Speed));
}

#[test]
fn overset_zones_hand_over_at_the_fringe() {
    let cube = |r: f64, s: f64, t: f64| [r, s, t];
    let v = |_: [f64; 3]| [1.0, 0.2, 0.0];
    // A coarse background with its middle naming zone 2, and a fine inner zone.
    let fringe = |n: [usize; 3]| if (4..=6).contains(&n[0]) { -2 } else { 1 };
    let outer = zone("outer", [11, 11, 5], [0.0; 3], [1.0; 3], &cube, &v, Some(&fringe));
    let inner = zone("inner", [21, 41, 9], [0.28, -0.1, -0.1], [0.72, 1.1, 1.1], &cube, &v, None);
    let mut f = flow(vec![outer, inner]);
    let l = trace(&mut f, [0.05, 0.5, 0.5], &Options::default());
    assert_eq!(l.reason, Some(Reason::Left));
    assert!(l.zone.contains(&2), "never entered the inner zone");
    assert_eq!(*l.zone.last().unwrap(), 1, "comes back to the outer zone");
    for p in &l.points {
        assert!((p[1] - 0.5 - 0.2 * (p[0] - 0.05)).abs() < 1e-5, "{p:?}");
    }
    // Values that name no zone count as field. The particle stays, or moves to the zone of another corner.
    for (strange, changes) in [(-3, false), (-9, false), (i32::MIN, false), (7, false), (-2, true)] {
        let blank = |n: [usize; 3]| if n[0] == 5 { strange } else { 1 };
        let outer = zone("outer", [11, 11, 5], [0.0; 3], [1.0; 3], &cube, &v, Some(&blank));
        let inner = zone("inner", [21, 41, 9], [0.28, -0.1, -0.1], [0.72, 1.1, 1.1], &cube, &v, None);
        let l = trace(&mut flow(vec![outer, inner]), [0.05, 0.5, 0.5], &Options::default());
        assert_eq!(l.zone.contains(&2), changes, "iblank {strange}");
    }
    // A seed in both zones uses the finer.
    let l = trace(&mut f, [0.5, 0.5, 0.5], &Options::default());
    assert_eq!(l.zone[0], 2);
}

/// Through edges and corners of cells a line crosses two or three faces without motion, and is as straight as
/// elsewhere.
#[test]
fn lines_through_nodes_are_straight() {
    for v in [[1.0, 1.0, 1.0], [1.0, 0.5, 0.25], [-1.0, 1.0, 1.0], [-1.0, -1.0, -1.0], [-0.5, -1.0, 0.2]] {
        let mut f = flow(vec![zone("n", [9; 3], [0.0; 3], [8.0; 3], &|r, s, t| [r, s, t], &move |_| v, None)]);
        for seed in [[4.0, 4.0, 4.0], [4.0, 4.0, 4.5], [0.0, 4.0, 4.0], [4.0, 4.5, 0.0], [0.3, 0.3, 0.3]] {
            let o = Options { direction: Direction::Both, ..Options::default() };
            let l = trace(&mut f, seed, &o);
            let off = |(p, t): (&[f64; 3], &f64)| (0..3).map(|c| (p[c] - seed[c] - v[c] * t).abs()).fold(0.0, f64::max);
            let worst = l.points.iter().zip(&l.time).map(off).fold(0.0, f64::max);
            assert!(worst < 1e-12, "{v:?} from {seed:?}: {worst:e}");
            assert_eq!((l.reason, l.reason_backward), (Some(Reason::Left), Some(Reason::Left)), "{v:?} from {seed:?}");
            // Crossing a face is no step.
            for direction in [Direction::Forward, Direction::Backward] {
                let l = trace(&mut f, seed, &Options { direction, max_steps: 1, ..Options::default() });
                assert!(l.points.len() < 2 || l.points[0] != l.points[1], "{v:?} from {seed:?}: {:?}", l.points);
            }
        }
    }
}

/// Two layers of cells with fields that point at the face between them: the particle moves along it, and the line ends.
#[test]
fn a_face_that_attracts_is_followed() {
    let v = |x: [f64; 3]| [1.0, 4.0 * (0.5 - x[1]), 0.0];
    let mut f = flow(vec![zone("a", [9, 5, 3], [0.0; 3], [1.0; 3], &|r, s, t| [r, s, t], &v, None)]);
    for y in [0.2, 0.5, 0.9] {
        let l = trace(&mut f, [0.1, y, 0.5], &Options::default());
        let p = l.points.last().unwrap();
        assert!((p[0] - 1.0).abs() < 1e-9 && l.reason == Some(Reason::Left), "{p:?} {:?}", l.reason);
        let exact = 0.5 + (y - 0.5) * (-4.0 * 0.9f64).exp();
        assert!((p[1] - exact).abs() < 1e-5, "from {y}: {p:?}, exact {exact}");
    }
    // Not smooth: it reaches the face and cannot leave it.
    let v = |x: [f64; 3]| {
        [
            1.0,
            if x[1] < 0.4 {
                1.0
            } else if x[1] > 0.6 {
                -1.0
            } else {
                0.0
            },
            0.0,
        ]
    };
    let mut f = flow(vec![zone("b", [9, 4, 3], [0.0; 3], [1.0; 3], &|r, s, t| [r, s, t], &v, None)]);
    let l = trace(&mut f, [0.1, 0.45, 0.5], &Options::default());
    assert_eq!(l.reason, Some(Reason::Left));
}

/// Limits of 0 end the line at its begin, with finite numbers.
#[test]
fn limits_of_nothing() {
    let mut f = flow(vec![zone("a", [9; 3], [0.0; 3], [8.0; 3], &|r, s, t| [r, s, t], &rotation, None)]);
    for seed in [[1.0, 1.0, 1.0], [1.3, 1.4, 1.5]] {
        for (o, reason) in [
            (Options { max_length: 0.0, ..Options::default() }, Reason::Length),
            (Options { max_time: 0.0, ..Options::default() }, Reason::Time),
        ] {
            let l = trace(&mut f, seed, &o);
            assert_eq!(l.reason, Some(reason));
            assert!(l.points.iter().all(|p| *p == seed) && l.time.iter().all(|t| *t == 0.0), "{l:?}");
        }
    }
}

#[test]
fn a_surface_is_followed_round() {
    // A quarter of a turn and more on cylinders one point thick, with a flow that also blows away from them.
    for out in [-0.5, 0.0, 0.5] {
        let map = |r: f64, s: f64, _: f64| [r.cos(), r.sin(), s];
        let v = move |x: [f64; 3]| [-x[1] + out * x[0], x[0] + out * x[1], 0.1];
        let mut f = flow(vec![zone("z", [73, 9, 1], [0.0; 3], [6.0, 1.0, 0.0], &map, &v, None)]);
        let start = map(6.0 / 72.0, 0.1, 0.0);
        let line = trace(&mut f, start, &Options { max_steps: 1000, ..Options::default() });
        assert_eq!(line.reason, Some(Reason::Left));
        assert!(line.points.len() > 70, "{} points with {out}", line.points.len());
        // Half a cell's angle is 1/24: chords are that far inside.
        for x in &line.points {
            let r = (x[0] * x[0] + x[1] * x[1]).sqrt();
            assert!((r - 1.0).abs() < 1e-3, "{x:?} with {out}");
        }
        let end = line.points.last().unwrap();
        let angle = end[1].atan2(end[0]).rem_euclid(std::f64::consts::TAU);
        assert!((angle - 6.0).abs() < 1e-3, "{end:?} with {out}");
        assert!((end[2] - 0.1 - 0.1 * (6.0 - 6.0 / 72.0)).abs() < 2e-3, "{end:?} with {out}");
    }
}
