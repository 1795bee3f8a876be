//! The points where two vectors that are linear over a triangle are parallel.
//!
//! # Theory
//! Let l be barycentric weights, and V and W the matrices with the vectors at the corners as columns. The vectors are
//! parallel where `V l = m W l`: an eigenvector of a pencil of 3x3 matrices, with components of one sign (R. Peikert
//! and M. Roth, The "parallel vectors" operator, IEEE Visualization 1999, section 4). There are at most three such
//! points.
//!
//! Deviations. Either matrix may be singular: that of vorticity if it has one direction, both if the gradient vanishes
//! along a straight core. So the pencil is rotated until it is as regular as possible. The first column is replaced by
//! the vectors at the first corner and the others by differences to it. Columns are scaled, so that small cells are as
//! accurate as large ones. Before that a triangle is ruled out if a component of the cross product, a quadratic form in
//! l, has Bernstein coefficients of one sign.

/// A vector.
pub type Vec3 = [f64; 3];

/// The cross product.
#[inline(always)]
pub fn cross(a: Vec3, b: Vec3) -> Vec3 {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// The inner product.
#[inline(always)]
pub fn dot(a: Vec3, b: Vec3) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

#[inline(always)]
fn largest(v: &[Vec3; 3]) -> f64 {
    v.iter().flatten().fold(0.0, |m: f64, x| m.max(x.abs()))
}

/// Weights up to this count as zero: the point is on an edge, and the neighbours at that edge find the same. Rounding
/// is amplified by the condition of the pencil, which leaves ten digits at worst.
pub const SNAP: f64 = 1e-6;

/// Determinant of the scaled columns up to which a pencil has no isolated points.
const SINGULAR: f64 = 1e-10;

/// Whether the vectors may be parallel somewhere in the triangle.
#[inline(always)]
pub fn may_be_parallel(v: &[Vec3; 3], w: &[Vec3; 3]) -> bool {
    let own: [Vec3; 3] = core::array::from_fn(|n| cross(v[n], w[n]));
    let mixed: [Vec3; 3] = core::array::from_fn(|n| {
        let m = (n + 1) % 3;
        let (a, b) = (cross(v[n], w[m]), cross(v[m], w[n]));
        core::array::from_fn(|c| a[c] + b[c])
    });
    // Rounding of values that are zero on an edge.
    let slack = 1e-12 * largest(v) * largest(w);
    (0..3).all(|c| {
        let (mut lo, mut hi) = (own[0][c], own[0][c]);
        for x in [own[1][c], own[2][c], mixed[0][c], mixed[1][c], mixed[2][c]] {
            (lo, hi) = (lo.min(x), hi.max(x));
        }
        lo <= slack && hi >= -slack
    })
}

/// Finds the points of a triangle at which two vectors are parallel. Returns their weights, in a fixed order, and their
/// number. Weights below [`SNAP`] are 0. Vectors with NaN have no such points, nor have vectors that are parallel along
/// a curve.
pub fn parallel(v: &[Vec3; 3], w: &[Vec3; 3]) -> ([Vec3; 3], usize) {
    let mut found = ([[0.0; 3]; 3], 0);
    let (sv, sw) = (largest(v), largest(w));
    if !(sv > 0.0 && sw > 0.0 && sv.is_finite() && sw.is_finite()) {
        return found;
    }
    let columns = |v: &[Vec3; 3], scale: f64| -> [Vec3; 3] {
        let beside = |n: usize| core::array::from_fn(|c| (v[n][c] - v[0][c]) / scale);
        [v[0].map(|x| x / scale), beside(1), beside(2)]
    };
    let (mut a, mut b) = (columns(v, sv), columns(w, sw));
    let mut scale = [1.0; 3];
    for n in 0..3 {
        scale[n] = a[n].iter().chain(&b[n]).fold(0.0, |m: f64, x| m.max(x.abs()));
        if !(scale[n] > 0.0) {
            return found;
        }
        (a[n], b[n]) = (a[n].map(|x| x / scale[n]), b[n].map(|x| x / scale[n]));
    }
    // p a + q b, by columns.
    let mix =
        |p: f64, q: f64| -> [Vec3; 3] { core::array::from_fn(|n| core::array::from_fn(|c| p * a[n][c] + q * b[n][c])) };
    let mut best = (0.0, [0.0, 0.0]);
    for turn in TURNS {
        let m = mix(turn[0], turn[1]);
        let d = dot(m[0], cross(m[1], m[2])).abs();
        if d > best.0 {
            best = (d, turn);
        }
    }
    let (d, [p, q]) = best;
    if !(d > SINGULAR) {
        return found;
    }
    let (m, other) = (mix(p, q), mix(-q, p));
    // Rows of the inverse of a matrix of columns.
    let det = dot(m[0], cross(m[1], m[2]));
    let inverse = [cross(m[1], m[2]), cross(m[2], m[0]), cross(m[0], m[1])].map(|r| r.map(|x| x / det));
    let n: [Vec3; 3] = core::array::from_fn(|r| core::array::from_fn(|c| dot(inverse[r], other[c])));
    let (roots, count) = real_eigenvalues(&n);
    for s in &roots[..count] {
        let Some(y) = null_vector(&n, *s) else { continue };
        let y: Vec3 = core::array::from_fn(|c| y[c] / scale[c]);
        let l = [1.0 - y[1] / y[0] - y[2] / y[0], y[1] / y[0], y[2] / y[0]];
        if !l.iter().all(|x| *x > -SNAP && x.is_finite()) {
            continue;
        }
        let l = l.map(|x| if x < SNAP { 0.0 } else { x });
        let sum = l[0] + l[1] + l[2];
        let l = l.map(|x| x / sum);
        // Two coinciding points count once.
        if found.0[..found.1].iter().all(|o| (0..3).any(|c| (o[c] - l[c]).abs() > 2.0 * SNAP)) {
            found.0[found.1] = l;
            found.1 += 1;
        }
    }
    found
}

/// Combinations of the two matrices. One of them is regular unless all are singular: a determinant that is not zero
/// everywhere has at most three zeros.
const TURNS: [[f64; 2]; 4] = [[1.0, 0.0], [0.0, 1.0], [0.8, 0.6], [0.8, -0.6]];

/// Real eigenvalues of a matrix of rows, rising.
fn real_eigenvalues(n: &[Vec3; 3]) -> (Vec3, usize) {
    let trace = n[0][0] + n[1][1] + n[2][2];
    let third = trace / 3.0;
    // Of the matrix less a third of its trace: s^3 + p s + q = 0.
    let m: [Vec3; 3] = core::array::from_fn(|r| core::array::from_fn(|c| n[r][c] - if r == c { third } else { 0.0 }));
    let minor = |a: usize, b: usize| m[a][a] * m[b][b] - m[a][b] * m[b][a];
    let p = minor(0, 1) + minor(1, 2) + minor(0, 2);
    let q = -dot(m[0], cross(m[1], m[2]));
    let polished = |mut s: f64| {
        for _ in 0..3 {
            let slope = 3.0 * s * s + p;
            let step = (s * s * s + p * s + q) / slope;
            if !step.is_finite() || step.abs() > 0.1 * s.abs().max(p.abs().sqrt()) {
                break;
            }
            s -= step;
        }
        s + third
    };
    let (half, part) = (0.5 * q, -p / 3.0);
    let inside = half * half - part * part * part;
    // Rounding decides whether two equal ones exist: count them.
    if inside <= 1e-13 * (half * half).max(part.abs().powi(3)) && part > 0.0 {
        let r = part.sqrt();
        let angle = (-half / (r * r * r)).clamp(-1.0, 1.0).acos() / 3.0;
        let turn = core::f64::consts::TAU / 3.0;
        let mut roots = [angle, angle - turn, angle + turn].map(|a| polished(2.0 * r * a.cos()));
        roots.sort_by(f64::total_cmp);
        return (roots, 3);
    }
    let root = inside.max(0.0).sqrt();
    // The larger of the two first: the other follows without cancellation.
    let u = if half > 0.0 { -(half + root).cbrt() } else { (root - half).cbrt() };
    let s = if u == 0.0 { 0.0 } else { u + part / u };
    ([polished(s), 0.0, 0.0], 1)
}

/// A null vector of a matrix of rows less `s`.
fn null_vector(n: &[Vec3; 3], s: f64) -> Option<Vec3> {
    let m: [Vec3; 3] = core::array::from_fn(|r| core::array::from_fn(|c| n[r][c] - if r == c { s } else { 0.0 }));
    let mut best = (0.0, [0.0; 3]);
    for (a, b) in [(0, 1), (1, 2), (2, 0)] {
        let c = cross(m[a], m[b]);
        let square = dot(c, c);
        if square > best.0 {
            best = (square, c);
        }
    }
    (best.0 > 0.0).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(v: &[Vec3; 3], l: Vec3) -> Vec3 {
        core::array::from_fn(|c| l[0] * v[0][c] + l[1] * v[1][c] + l[2] * v[2][c])
    }

    fn corners(f: impl Fn(f64, f64) -> Vec3) -> [Vec3; 3] {
        [f(0.0, 0.0), f(1.0, 0.0), f(0.0, 1.0)]
    }

    /// A vortex across the triangle: v = (-(y - b), x - a, c), J v = (-(x - a), -(y - b), 0).
    #[test]
    fn a_straight_vortex_is_found() {
        for [a, b] in [[0.3, 0.2], [0.0, 0.0], [0.5, 0.5], [0.5, 0.0], [0.0, 0.7], [1e-9, 0.2]] {
            let v = corners(|x, y| [-(y - b), x - a, 0.7]);
            for w in [corners(|x, y| [-(x - a), -(y - b), 0.0]), corners(|_, _| [0.0, 0.0, 2.0])] {
                assert!(may_be_parallel(&v, &w));
                let (l, n) = parallel(&v, &w);
                assert_eq!(n, 1, "{a} {b}: {l:?}");
                assert!((l[0][1] - a).abs() < 1e-8 && (l[0][2] - b).abs() < 1e-8, "{l:?}");
            }
        }
        let v = corners(|x, y| [-(y - 0.7), x - 0.7, 0.7]);
        let w = corners(|_, _| [0.0, 0.0, 2.0]);
        assert!(!may_be_parallel(&v, &w) || parallel(&v, &w).1 == 0);
    }

    /// The gradient of a field with a minimum along a straight line, and the line's direction: both matrices are
    /// singular.
    #[test]
    fn singular_matrices_have_their_point() {
        let v = corners(|x, y| [x - 0.25, 2.0 * (y - 0.5), 0.0]);
        let w = corners(|_, _| [0.0, 0.0, 1.0]);
        let (l, n) = parallel(&v, &w);
        assert_eq!(n, 1);
        assert!((l[0][1] - 0.25).abs() < 1e-12 && (l[0][2] - 0.5).abs() < 1e-12, "{l:?}");
    }

    #[test]
    fn what_is_parallel_everywhere_or_no_number_has_no_points() {
        let v = corners(|x, y| [1.0 + x, y, 2.0]);
        assert_eq!(parallel(&v, &v).1, 0);
        let plane = corners(|x, y| [x - 0.3, y - 0.3, 0.0]);
        assert_eq!(parallel(&plane, &corners(|x, y| [y, 1.0 - x, 0.0])).1, 0);
        let none = corners(|x, _| [if x > 0.5 { f64::NAN } else { 1.0 }, 0.0, 0.0]);
        assert_eq!((parallel(&v, &none).1, parallel(&none, &v).1, parallel(&[[0.0; 3]; 3], &v).1), (0, 0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, rng_seed: prop::test_runner::RngSeed::Fixed(0x7065_6e63), ..ProptestConfig::default() })]
        /// Constructed points are found, and all found points are parallel, in cells far from the origin and in small
        /// ones.
        #[test]
        fn points_that_are_put_in_are_found(
            a in prop::array::uniform9(-1.0f64..1.0), b in prop::array::uniform9(-1.0f64..1.0),
            l in prop::array::uniform2(0.05f64..0.45), m in -3.0f64..3.0, small in -3.0f64..0.0,
        ) {
            let size = 10f64.powf(small);
            // Vectors change by `size` over the triangle.
            let make = |a: &[f64; 9]| -> [Vec3; 3] {
                core::array::from_fn(|n| core::array::from_fn(|c| a[c] + if n > 0 { size * a[3 * n + c] } else { 0.0 }))
            };
            let l = [1.0 - l[0] - l[1], l[0], l[1]];
            let v = make(&a);
            let mut w = make(&b);
            // Moved so that it is m v at l.
            let (there, want) = (at(&w, l), at(&v, l).map(|x| m * x));
            for c in 0..3 {
                (0..3).for_each(|n| w[n][c] += want[c] - there[c]);
            }
            prop_assume!(largest(&w) > 1e-2 && m.abs() > 1e-2);
            prop_assert!(may_be_parallel(&v, &w));
            let (found, n) = parallel(&v, &w);
            let near = found[..n].iter().any(|f| (0..3).all(|c| (f[c] - l[c]).abs() < 1e-4));
            prop_assert!(near, "{:?} not in {:?}", l, &found[..n]);
            for f in &found[..n] {
                prop_assert!(may_be_parallel(&v, &w));
                let (x, y) = (at(&v, *f), at(&w, *f));
                let c = cross(x, y);
                prop_assert!(dot(c, c).sqrt() < 1e-5 * size * largest(&v) * largest(&w), "{:?}: {:?}", f, c);
            }
        }
    }
}
