//! Derived fields against known values: on warped grids, at edges and holes, in planes, for every cut into pages.

#[path = "worlds/mod.rs"]
mod worlds;

use field::catalog::DType;
use field::derive::page::{DerivedPages, OfStep};
use field::expression::bounds::{bounds, Interval};
use field::expression::compile::ZoneConstant;
use field::expression::run::Parts;
use field::quantity::{Conserved, Derived, FreeStream, DEFINITIONS};
use pager::PageId;
use proptest::prelude::*;
use std::f64::consts::TAU;
use std::sync::Arc;
use worlds::{Rule, World};

/// A warped box of n points along each axis.
fn warped(n: [usize; 3]) -> impl Fn([usize; 3]) -> [f64; 3] + Copy + Send + Sync + 'static {
    move |at| {
        let [r, s, t] = core::array::from_fn(|a| if n[a] > 1 { at[a] as f64 / (n[a] - 1) as f64 } else { 0.0 });
        [r + 0.05 * (2.0 * s + t).sin(), 1.5 * s + 0.06 * (3.0 * r - t).cos(), t + 0.04 * (2.0 * r).sin() * (1.0 + s)]
    }
}

/// A zone with a vector `u` and a scalar `f` that are functions of the position, in float64.
fn made(
    n: [usize; 3],
    page: [usize; 3],
    u: impl Fn([f64; 3]) -> [f64; 3] + Copy + Send + Sync + 'static,
    hole: impl Fn([usize; 3]) -> bool + Send + Sync + 'static,
) -> World {
    let x = warped(n);
    let arrays: [(&str, usize, DType, Rule); 3] = [
        ("xyz", 3, DType::Float64, Arc::new(move |at| x(at).to_vec())),
        ("iblank", 1, DType::Int32, Arc::new(move |at| vec![if hole(at) { 0.0 } else { 1.0 }])),
        ("velocity", 3, DType::Float64, Arc::new(move |at| u(x(at)).to_vec())),
    ];
    World::new(n, page, 16 << 20, &arrays)
}

fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance
}

#[test]
fn linear_fields_are_exact_on_any_grid_at_edges_and_at_holes() {
    let a = [[0.3, -1.1, 0.7], [2.0, 0.4, -0.6], [-0.2, 1.7, 0.9]];
    let u = move |x: [f64; 3]| a.map(|r| r[0] * x[0] + r[1] * x[1] + r[2] * x[2] + 1.0);
    let hole = |at: [usize; 3]| at == [4, 3, 3] || at[0] == 7 && at[1] < 2;
    let n = [11, 8, 9];
    let w = made(n, [4, 3, 5], u, hole);
    let count: usize = n.iter().product();
    for (c, row) in a.iter().enumerate() {
        let g = w.values(&format!("grad(velocity[{c}])"), DType::Float64);
        for at in 0..count {
            let node = [at % n[0], at / n[0] % n[1], at / n[0] / n[1]];
            for k in 0..3 {
                let v = g[k * count + at];
                assert!(if hole(node) { v.is_nan() } else { near(v, row[k], 1e-11) }, "{node:?}: {v} {}", row[k]);
            }
        }
    }
    let divergence = w.values("div(velocity)", DType::Float64);
    assert!(divergence.iter().any(|d| near(*d, 0.3 + 0.4 + 0.9, 1e-11)));
}

#[test]
fn a_node_between_holes_has_no_gradient() {
    let w = made([5, 4, 4], [3, 3, 3], |x| x, |at| at == [1, 1, 1] || at == [3, 1, 1]);
    let g = w.values("div(velocity)", DType::Float64);
    let at = |i: usize, j: usize, k: usize| g[(k * 4 + j) * 5 + i];
    assert!(at(2, 1, 1).is_nan() && at(1, 1, 1).is_nan());
    assert!(near(at(2, 2, 1), 3.0, 1e-11) && near(at(0, 0, 0), 3.0, 1e-11));
}

/// Rigid rotation: vorticity is twice the rate, Q the rate's square, lambda2 minus Q, and strain is zero.
#[test]
fn rigid_rotation() {
    let w = made([9, 10, 7], [4, 4, 4], |x| [-3.0 * x[1], 3.0 * x[0], 0.5], |_| false);
    for (text, truth) in [
        ("magnitude(curl(velocity))", 6.0),
        ("q_criterion(velocity)", 9.0),
        ("lambda2(velocity)", -9.0),
        ("swirling_strength(velocity)", 3.0),
        ("strain_rate(velocity)", 0.0),
        ("dot(velocity, curl(velocity))", 3.0),
    ] {
        for v in w.values(text, DType::Float64) {
            assert!(near(v, truth, 2e-7), "{text}: {v}");
        }
    }
}

/// The vorticity of the ABC flow is the flow (Arnold 1965). The error falls with the square of the spacing, inside and
/// at edges.
#[test]
fn the_abc_flow_is_its_own_vorticity_to_second_order() {
    let u = |x: [f64; 3]| {
        [x[2].sin() + 0.7 * x[1].cos(), 0.8 * x[0].sin() + x[2].cos(), 0.7 * x[1].sin() + 0.8 * x[0].cos()]
    };
    let error = |n: usize| {
        let w = made([n, n, n], [9, 8, 7], u, |_| false);
        let (curl, own) = (w.values("curl(velocity)", DType::Float64), w.values("velocity * 1", DType::Float64));
        curl.iter().zip(&own).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    let (coarse, fine) = (error(13), error(25));
    let order = (coarse / fine).log2();
    assert!((1.75..2.5).contains(&order), "order {order}: {coarse} {fine}");
}

#[test]
fn a_plane_zone_has_the_gradient_of_its_plane() {
    let flat: [(&str, usize, DType, Rule); 2] = [
        ("xyz", 2, DType::Float64, {
            let x = warped([9, 8, 1]);
            Arc::new(move |at| x(at)[..2].to_vec())
        }),
        ("velocity", 2, DType::Float64, {
            let x = warped([9, 8, 1]);
            Arc::new(move |at| vec![2.0 * x(at)[0] - x(at)[1], 5.0 * x(at)[0]])
        }),
    ];
    let w = World::new([9, 8, 1], [4, 3, 1], 8 << 20, &flat);
    let curl = w.values("curl(velocity)", DType::Float64);
    let count = 72;
    assert!(curl[..2 * count].iter().all(|v| *v == 0.0));
    assert!(curl[2 * count..].iter().all(|v| near(*v, 6.0, 1e-11)), "{:?}", &curl[2 * count..]);
}

/// The bits are equal for every cut of the zone and any amount of memory.
#[test]
fn pages_do_not_matter() {
    let u = |x: [f64; 3]| [(TAU * x[2]).sin(), (TAU * x[0]).cos() * x[1], (x[0] * x[1] * 3.0).sin()];
    let hole = |at: [usize; 3]| (at[0] + 3 * at[1] + 5 * at[2]).is_multiple_of(23);
    let n = [19, 14, 12];
    let texts = [
        "curl(velocity)",
        "lambda2(velocity) + x",
        "where(velocity.x > 0.2, q_criterion(velocity), time)",
        "velocity.y / x",
    ];
    let truth: Vec<Vec<u64>> = texts
        .iter()
        .map(|t| made(n, n, u, hole).values(t, DType::Float32).iter().map(|v| v.to_bits()).collect())
        .collect();
    for page in [[4, 4, 4], [19, 5, 1], [1, 1, 12], [2, 3, 2], [5, 14, 7], [18, 13, 11]] {
        for (text, truth) in texts.iter().zip(&truth) {
            let w = made(n, page, u, hole);
            w.pager.set_limit(640 << 10);
            let bits: Vec<u64> = w.values(text, DType::Float32).iter().map(|v| v.to_bits()).collect();
            assert!(bits == *truth, "{text} in pages of {page:?}");
        }
    }
}

/// Inputs of a derived page are the page at its place and the pages beside it, and no others.
#[test]
fn no_more_than_neighbours_are_read() {
    let w = made([20, 20, 20], [5, 5, 5], |x| x, |_| false);
    let parts = Parts::of(&w.checked("curl(velocity)").program).unwrap();
    let steps: Arc<[OfStep]> = Arc::new([]);
    let id = w.pager.add_array(Arc::new(DerivedPages::new("m".into(), &w.zone, parts, DType::Float32, steps)));
    let middle = w.zone.translation.node([7, 7, 7]).page;
    let _hold = w.pager.fetch(&[PageId::new(id, 0, middle)]).unwrap();
    let c = w.pager.counters();
    // Coordinates, iblank and velocity: seven pages each.
    assert_eq!((c.derived, c.published, c.touched), (1, 22, 21));
}

/// Expressions of the conserved variables have the bits of the table's formulas.
#[test]
fn pointwise_fields_are_those_of_the_table() {
    let q = |at: [usize; 3]| {
        let s = (at[0] * 31 + at[1] * 7 + at[2]) as f64;
        (1.0 + 0.3 * s.sin(), [0.4 * s.cos(), 0.2 * (2.0 * s).sin(), -0.1 * s.cos()], 2.6 + 0.2 * (3.0 * s).cos())
    };
    let arrays: [(&str, usize, DType, Rule); 4] = [
        ("xyz", 3, DType::Float64, Arc::new(|at| at.map(|n| n as f64).to_vec())),
        ("density", 1, DType::Float64, Arc::new(move |at| vec![q(at).0])),
        ("momentum", 3, DType::Float64, Arc::new(move |at| q(at).1.to_vec())),
        ("energy", 1, DType::Float64, Arc::new(move |at| vec![q(at).2])),
    ];
    let n = [7, 6, 5];
    let w = World::new(n, [4, 4, 4], 4 << 20, &arrays);
    for d in DEFINITIONS.iter().filter(|d| d.derived != Derived::Velocity) {
        for (at, v) in w.values(&format!("{} * 1", d.name), DType::Float64).iter().enumerate() {
            let (density, momentum, energy) = q([at % 7, at / 7 % 6, at / 42]);
            let truth = d.derived.value(&Conserved { density, momentum, energy, gamma: 1.4 }, FreeStream::from(0.5))[0];
            assert_eq!(v.to_bits(), truth.to_bits(), "{}: {v} {truth}", d.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, rng_seed: prop::test_runner::RngSeed::Fixed(0x626f_756e), ..ProptestConfig::default() })]
    /// All values lie within the bounds that follow from the ranges of their inputs.
    #[test]
    fn bounds_hold_every_value(
        seed in 0u32..1000, lift in -2.0f64..2.0, spread in 0.0f64..3.0,
        text in prop::sample::select(vec![
            "velocity.x * velocity.y - velocity.z^2", "magnitude(velocity)", "1 / velocity.x", "sqrt(velocity.y)",
            "where(velocity.x > 0.5, velocity.y, -velocity.z)", "exp(velocity.x) / (1 + velocity.y^2)", "log(abs(velocity.z))",
            "min(velocity.x, velocity.y) + max(velocity.z, 0.1)", "dot(velocity, vector(1, 2, -3))", "velocity.x^3 - velocity.x",
            "sin(velocity.x) + atan2(velocity.x, velocity.y)", "abs(velocity.x) ^ 1.7", "(velocity.x < 0.2) * velocity.y", "floor(velocity.x) - ceil(velocity.y)",
            "velocity.x > 0.5 and velocity.y < 0", "velocity.x > 0.5 or not velocity.y <= 0", "not (velocity.x or velocity.z > 1)",
            "where(not sqrt(velocity.x) and velocity.y, velocity.z, 2)", "(sqrt(velocity.y) > 0.5 or velocity.x == 0) + velocity.z",
        ]),
    ) {
        let rule = move |at: [usize; 3]| {
            let s = (at[0] * 5 + at[1] * 3 + at[2]) as f64 + f64::from(seed);
            vec![lift + spread * (1.3 * s).sin(), lift - spread * (0.7 * s).cos(), spread * (2.1 * s).sin()]
        };
        let arrays: [(&str, usize, DType, Rule); 2] = [
            ("xyz", 3, DType::Float32, Arc::new(|at| at.map(|n| n as f64).to_vec())),
            ("velocity", 3, DType::Float64, Arc::new(rule)),
        ];
        let n = [5, 4, 3];
        let w = World::new(n, n, 4 << 20, &arrays);
        let mut ranges = [[f64::INFINITY, f64::NEG_INFINITY]; 3];
        for at in 0..60 {
            for (r, v) in ranges.iter_mut().zip(rule([at % 5, at / 5 % 4, at / 20])) {
                *r = [r[0].min(v), r[1].max(v)];
            }
        }
        let program = w.checked(text).program;
        let b = bounds(&program, |_: ZoneConstant| f64::NAN, |_, c| Interval::of(ranges[c][0], ranges[c][1]));
        for (dtype, b) in [(DType::Float64, b[0]), (DType::Float32, b[0].in_float32())] {
            for v in w.values(text, dtype) {
                prop_assert!(b.holds(v), "{text} {dtype:?}: {v} not in {b:?}");
            }
        }
    }
}
