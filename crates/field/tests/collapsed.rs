//! Gradients at collapsed cells: at the axis of a cylinder, at poles, at the middle of a ball.

#[path = "worlds/mod.rs"]
mod worlds;

use field::catalog::DType;
use std::f64::consts::{FRAC_PI_2, PI, TAU};
use std::sync::Arc;
use worlds::{Rule, World};

type CoordinateMapping = Arc<dyn Fn([f64; 3]) -> [f64; 3] + Send + Sync>;

/// A zone of n points. Positions follow from fractions along i, j, k, and velocities from positions.
fn made(n: [usize; 3], page: [usize; 3], place: &CoordinateMapping, u: fn([f64; 3]) -> [f64; 3]) -> World {
    let place = place.clone();
    let at = Arc::new(move |at: [usize; 3]| place(core::array::from_fn(|a| at[a] as f64 / (n[a].max(2) - 1) as f64)));
    let of = at.clone();
    let arrays: [(&str, usize, DType, Rule); 2] = [
        ("xyz", 3, DType::Float64, Arc::new(move |n| at(n).to_vec())),
        ("velocity", 3, DType::Float64, Arc::new(move |n| u(of(n)).to_vec())),
    ];
    World::new(n, page, 32 << 20, &arrays)
}

/// A cylinder or a part of it. The numbers are the axes that go around, outwards and along the cylinder's axis. `high`:
/// this axis is at the upper end.
fn cylinder([around, out, along]: [usize; 3], high: bool, angle: f64) -> CoordinateMapping {
    Arc::new(move |q| {
        let r = if high { 1.0 - q[out] } else { q[out] };
        let (s, c) = (angle * q[around]).sin_cos();
        [3.0 + r * c, r * s - 1.0, 0.5 + 2.0 * q[along]]
    })
}

/// A shell from pole to pole. A ball has inner radius zero.
fn shell(inner: f64) -> CoordinateMapping {
    Arc::new(move |q| {
        let r = inner + (1.0 - inner) * q[0];
        let ((sp, cp), (sa, ca)) = ((PI * q[1]).sin_cos(), (TAU * q[2]).sin_cos());
        // Exactly on the axis: the computed sine of pi is not zero.
        let sp = if q[1] == 0.0 || q[1] == 1.0 { 0.0 } else { sp };
        [r * sp * ca, r * sp * sa, r * cp]
    })
}

fn linear(x: [f64; 3]) -> [f64; 3] {
    [1.0 + 0.5 * x[1] - 0.2 * x[2], -0.5 * x[0] + 0.3 * x[2], 0.1 * x[0] + 0.7 * x[2]]
}

const VORTICITY: [f64; 3] = [-0.3, -0.3, -1.0];

fn curved(x: [f64; 3]) -> [f64; 3] {
    [(1.3 * x[1]).sin() + x[2] * x[2], (0.9 * x[0]).cos() * (0.8 * x[2]).sin(), (x[0] * x[1]).sin()]
}

fn vorticity_of_curved(x: [f64; 3]) -> [f64; 3] {
    let p = (x[0] * x[1]).cos();
    [
        x[0] * p - 0.8 * (0.9 * x[0]).cos() * (0.8 * x[2]).cos(),
        2.0 * x[2] - x[1] * p,
        -0.9 * (0.9 * x[0]).sin() * (0.8 * x[2]).sin() - 1.3 * (1.3 * x[1]).cos(),
    ]
}

/// All kinds of collapse: name, points along i, j, k, positions.
fn kinds() -> Vec<(String, [usize; 3], CoordinateMapping)> {
    let mut all = Vec::new();
    for around in 0..3 {
        for out in (0..3).filter(|a| *a != around) {
            let along = 3 - around - out;
            for (high, angle) in [(false, TAU), (true, TAU), (false, PI), (true, FRAC_PI_2)] {
                let mut n = [0; 3];
                (n[around], n[out], n[along]) = (17, 6, 4);
                let name = format!("around {around}, out {out}, high {high}, {angle:.2}");
                all.push((name, n, cylinder([around, out, along], high, angle)));
            }
        }
    }
    all.push(("shell".into(), [5, 11, 13], shell(0.3)));
    all.push(("ball".into(), [6, 11, 13], shell(0.0)));
    // A whole face in one point.
    all.push(("apex".into(), [5, 6, 7], Arc::new(|q| [q[2] * (q[0] - 0.3), q[2] * (q[1] + 0.2), 1.5 * q[2]])));
    all
}

fn node(n: [usize; 3], at: usize) -> [usize; 3] {
    [at % n[0], at / n[0] % n[1], at / n[0] / n[1]]
}

/// Whether a point has no gradient: the last ones that are both the middle of a ball and on its axis. Three directions
/// vanish there, and the seam's last plane differs from its first by a rounding.
fn is_lost(name: &str, n: [usize; 3], at: usize) -> bool {
    let [i, j, k] = node(n, at);
    name == "ball" && i == 0 && (j == 0 || j + 1 == n[1]) && k + 1 == n[2]
}

#[test]
fn gradients_of_linear_fields_are_exact_wherever_cells_collapse() {
    for (name, n, place) in kinds() {
        let w = made(n, [5, 4, 3], &place, linear);
        let count: usize = n.iter().product();
        let curl = w.values("curl(velocity)", DType::Float64);
        for (c, truth) in VORTICITY.iter().enumerate() {
            let errors: Vec<f64> = curl[c * count..(c + 1) * count].iter().map(|v| (v - truth).abs()).collect();
            let wrong: Vec<_> =
                (0..count).filter(|at| errors[*at] >= 1e-9 || is_lost(&name, n, *at) != errors[*at].is_nan()).collect();
            assert!(
                wrong.is_empty(),
                "{name}, component {c}: {:?}",
                wrong.iter().map(|at| (node(n, *at), errors[*at])).collect::<Vec<_>>()
            );
        }
    }
}

/// The bits are equal for every cut of the zone. Pages of one and two points are shorter than a gradient's reach at a
/// collapsed edge.
#[test]
fn pages_do_not_matter_where_cells_collapse() {
    for (name, n, place) in kinds() {
        let bits = |page| -> Vec<u64> {
            made(n, page, &place, curved).values("curl(velocity)", DType::Float32).iter().map(|v| v.to_bits()).collect()
        };
        let truth = bits(n);
        let count: usize = n.iter().product();
        for (at, b) in truth.iter().enumerate() {
            assert_eq!(
                f64::from_bits(*b).is_finite(),
                !is_lost(&name, n, at % count),
                "{name}: {:?}",
                node(n, at % count)
            );
        }
        for page in [[4, 4, 4], [1, 5, 2], [5, 1, 1], [2, 2, 2], [16, 3, 5]] {
            assert!(bits(page) == truth, "{name} in pages of {page:?}");
        }
    }
}

/// At the axis itself the error falls with the square of the spacing.
#[test]
fn gradients_at_an_axis_are_of_second_order() {
    for (name, place, n) in [
        ("full", cylinder([0, 1, 2], false, TAU), [24, 8, 6]),
        ("half", cylinder([2, 0, 1], true, PI), [8, 6, 12]),
        ("pole", shell(0.3), [6, 12, 24]),
        ("ball", shell(0.0), [6, 12, 24]),
    ] {
        let error = |m: usize| {
            let n = n.map(|n| n * m + 1);
            let w = made(n, [16, 16, 16], &place, curved);
            let count: usize = n.iter().product();
            let curl = w.values("curl(velocity)", DType::Float64);
            let mut worst = 0.0f64;
            for at in 0..count {
                let node = [at % n[0], at / n[0] % n[1], at / n[0] / n[1]];
                let q: [f64; 3] = core::array::from_fn(|a| node[a] as f64 / (n[a] - 1) as f64);
                let collapsed = match name {
                    "full" => node[1] == 0,
                    "half" => node[0] + 1 == n[0],
                    "pole" => node[1] == 0,
                    _ => node[0] == 0,
                };
                if collapsed {
                    let truth = vorticity_of_curved(place(q));
                    (0..3).for_each(|c| worst = worst.max((curl[c * count + at] - truth[c]).abs()));
                }
            }
            worst
        };
        let (coarse, fine) = (error(2), error(4));
        let order = (coarse / fine).log2();
        assert!((1.6..2.6).contains(&order), "{name}: order {order}: {coarse} {fine}");
    }
}
