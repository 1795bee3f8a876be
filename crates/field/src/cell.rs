//! The trilinear map of a hexahedral cell and its inverse.
//!
//! *Theory.* With corners p(a b c), a, b, c in {0, 1} along i, j, k, a point is
//!
//! ```text
//! x(r, s, t) = a0 + a1 r + a2 s + a3 t + a4 rs + a5 st + a6 rt + a7 rst
//! ```
//!
//! Its inverse is found by Newton's method.
//!
//! *Practice.* A coordinate's row has four lanes (`K0 + K1 W1 + K2 W2 + K3 W3`): its three partial derivatives, and the
//! point of the bottom face. One iteration is nine fused multiply-adds, three cross products for the adjugate, and one
//! division: about 60 cycles of latency. If an edge is collapsed, or Newton does not converge, a damped least-squares
//! solve follows.

use crate::simd::V4;

/// Fractions along i, j, k within a cell.
pub type Rst = [f64; 3];

/// Fractions may pass the faces by this much: the spacing of doubles near 1 times the conditioning of a stretched cell.
/// So, despite rounding, a point on a shared face is in one of its cells.
pub const FACE_TOLERANCE: f64 = 1e-9;

/// Newton stops at a smaller correction. The remaining error is its square times the cell's warp.
const NEWTON_STEP: f64 = 1e-6;
/// More corrections than any nondegenerate cell has needed (eight in the property tests).
const NEWTON_MAX: usize = 12;

/// A cell's map from (r, s, t) to physical space.
#[derive(Copy, Clone, Debug)]
pub struct CellMap {
    k: [[V4; 4]; 3],
}

/// The result of an inversion.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Inverse {
    /// The fractions, inside or outside the unit cube.
    At(Rst),
    /// No solution near the cell.
    None,
}

impl CellMap {
    /// From the eight corners (bit 0 of the index is i, bit 1 j, bit 2 k), lanes x, y, z.
    #[inline(always)]
    pub fn new(p: &[V4; 8]) -> Self {
        Self::from_monomials(&monomials(p))
    }

    /// From the [`monomials`] of the corners.
    #[inline(always)]
    pub fn from_monomials(a: &[V4; 8]) -> Self {
        let k0 = V4::transpose([a[1], a[2], a[3], a[0]]);
        let k1 = V4::transpose([a[4], a[4], a[6], a[1]]);
        let k2 = V4::transpose([a[6], a[5], a[5], a[2]]);
        let k3 = V4::transpose([a[7], a[7], a[7], a[4]]);
        Self { k: [[k0[0], k1[0], k2[0], k3[0]], [k0[1], k1[1], k2[1], k3[1]], [k0[2], k1[2], k2[2], k3[2]]] }
    }

    /// Rows of (d/dr, d/ds, d/dt, point of the bottom face) for x, y, z.
    #[inline(always)]
    pub fn rows_v4(&self, q: V4) -> [V4; 3] {
        let w1 = q.srrr();
        let w2 = q.ttss();
        let w3 = w1 * w2;
        let f = |k: &[V4; 4]| k[0].fma(k[1], w1).fma(k[2], w2).fma(k[3], w3);
        [f(&self.k[0]), f(&self.k[1]), f(&self.k[2])]
    }

    /// The point at fractions in lanes, as lanes.
    #[inline(always)]
    pub fn point_v4(&self, q: V4) -> V4 {
        let [x, y, z] = self.rows_v4(q);
        let t = q.lane::<2>();
        let at = |r: V4| r.lane::<3>().fma(r.lane::<2>(), t).first();
        V4::new(at(x), at(y), at(z), 0.0)
    }

    /// The point at (r, s, t).
    #[inline(always)]
    pub fn point(&self, q: Rst) -> [f64; 3] {
        let rows = self.rows_v4(V4::from_xyz(q));
        core::array::from_fn(|c| {
            let a = rows[c].to_array();
            q[2].mul_add(a[2], a[3])
        })
    }

    /// The Jacobian's rows dx/d(r, s, t), dy/d(r, s, t), dz/d(r, s, t).
    pub fn jacobian(&self, q: Rst) -> [[f64; 3]; 3] {
        self.rows_v4(V4::from_xyz(q)).map(V4::xyz)
    }

    /// Determinant of the Jacobian at the centre: the cell's volume up to warp; negative for left-handed cells.
    pub fn volume(&self) -> f64 {
        let [x, y, z] = self.rows_v4(V4::from_xyz([0.5; 3]));
        x.dot3(y.cross(z))
    }

    /// A physical velocity at (r, s, t) in fractions per unit of time. `None` if the map is singular.
    pub fn computational(&self, q: Rst, v: [f64; 3]) -> Option<[f64; 3]> {
        let [x, y, z] = self.rows_v4(V4::from_xyz(q));
        let (cx, cy, cz) = (y.cross(z), z.cross(x), x.cross(y));
        let det = x.dot3(cx);
        let d = (cx * V4::splat(v[0])).fma(cy, V4::splat(v[1])).fma(cz, V4::splat(v[2])) * V4::splat(1.0 / det);
        let d = d.xyz();
        d.iter().all(|c| c.is_finite()).then_some(d)
    }

    /// Newton's method from `start`. The result depends on the arguments alone.
    #[inline(always)]
    pub fn invert(&self, p: V4, start: Rst) -> Inverse {
        let (px, py, pz) = (p.lane::<0>(), p.lane::<1>(), p.lane::<2>());
        let limit = V4::splat(NEWTON_STEP);
        let mut q = V4::from_xyz(start);
        for _ in 0..NEWTON_MAX {
            let [x, y, z] = self.rows_v4(q);
            let t = q.lane::<2>();
            let ex = px - x.lane::<3>().fma(x.lane::<2>(), t);
            let ey = py - y.lane::<3>().fma(y.lane::<2>(), t);
            let ez = pz - z.lane::<3>().fma(z.lane::<2>(), t);
            let (cx, cy, cz) = (y.cross(z), z.cross(x), x.cross(y));
            let d = x * cx;
            let det = d.lane::<0>() + d.lane::<1>() + d.lane::<2>();
            let step = (cx * ex).fma(cy, ey).fma(cz, ez) / det;
            q = q + step;
            if step.abs().all_less_xyz(limit) {
                return Inverse::At(q.xyz());
            }
            // NaN ends here as well: a singular map, or a point far outside, where the trilinear map may fold.
            if !q.abs().all_less_xyz(V4::splat(FAR)) {
                break;
            }
        }
        self.invert_damped(p.xyz(), start)
    }

    /// Levenberg-Marquardt on the residual, for collapsed edges and folds. Along a collapsed edge, any fractions that
    /// reproduce the point are valid.
    #[cold]
    #[inline(never)]
    fn invert_damped(&self, p: [f64; 3], start: Rst) -> Inverse {
        let scale = (0..3).fold(0.0f64, |m, c| self.k[c][0].xyz().iter().fold(m, |m, v| m.max(v.abs())));
        if scale <= 0.0 || !scale.is_finite() {
            return Inverse::None;
        }
        let mut q = [0.5; 3];
        if start.iter().all(|c| c.is_finite() && c.abs() < 2.0) {
            q = start;
        }
        let residual = |q: Rst| {
            let x = self.point(q);
            [p[0] - x[0], p[1] - x[1], p[2] - x[2]]
        };
        let norm = |e: [f64; 3]| e.iter().map(|c| c * c).sum::<f64>();
        let mut e = residual(q);
        let mut lambda = 1e-6;
        for _ in 0..60 {
            if norm(e) <= (1e-11 * scale).powi(2) {
                return Inverse::At(q);
            }
            let j = self.jacobian(q);
            let mut n = [[0.0; 3]; 3];
            let mut g = [0.0; 3];
            for a in 0..3 {
                for b in 0..3 {
                    n[a][b] = (0..3).map(|c| j[c][a] * j[c][b]).sum();
                }
                g[a] = (0..3).map(|c| j[c][a] * e[c]).sum();
            }
            let trace = n[0][0] + n[1][1] + n[2][2];
            for (a, row) in n.iter_mut().enumerate() {
                row[a] += lambda * trace;
            }
            let Some(d) = solve3(n, g) else { return Inverse::None };
            let next: Rst = core::array::from_fn(|c| (q[c] + d[c].clamp(-0.5, 0.5)).clamp(-1.0, 2.0));
            let e_next = residual(next);
            if norm(e_next) < norm(e) {
                (q, e) = (next, e_next);
                lambda = (lambda * 0.1).max(1e-15);
            } else {
                lambda *= 10.0;
                if lambda > 1e6 {
                    break;
                }
            }
        }
        if norm(e) <= (1e-9 * scale).powi(2) {
            Inverse::At(q)
        } else {
            Inverse::None
        }
    }
}

/// Cells away from which the trilinear map of a warped cell does not locate a point.
const FAR: f64 = 50.0;

fn solve3(m: [[f64; 3]; 3], b: [f64; 3]) -> Option<[f64; 3]> {
    let row = |n: usize| V4::from_xyz(m[n]);
    let (x, y, z) = (row(0), row(1), row(2));
    let (cx, cy, cz) = (y.cross(z), z.cross(x), x.cross(y));
    let det = x.dot3(cx);
    let d = (cx * V4::splat(b[0])).fma(cy, V4::splat(b[1])).fma(cz, V4::splat(b[2])) * V4::splat(1.0 / det);
    let d = d.xyz();
    d.iter().all(|c| c.is_finite()).then_some(d)
}

/// Coefficients of 1, r, s, t, rs, st, rt, rst in the trilinear interpolant of eight corner values.
#[inline(always)]
pub fn monomials(p: &[V4; 8]) -> [V4; 8] {
    let a1 = p[1] - p[0];
    let a2 = p[2] - p[0];
    let a3 = p[4] - p[0];
    let b = p[3] - p[2]; // d/dr at s = 1, t = 0
    let c = p[5] - p[4]; // d/dr at s = 0, t = 1
    let d = p[7] - p[6]; // d/dr at s = 1, t = 1
    let a4 = b - a1;
    let a6 = c - a1;
    let a5 = (p[6] - p[4]) - a2;
    let a7 = (d - c) - a4;
    [p[0], a1, a2, a3, a4, a5, a6, a7]
}

/// A trilinear interpolant of up to four components.
#[derive(Copy, Clone, Debug)]
pub struct Interpolant([V4; 8]);

impl Interpolant {
    /// From the values at the eight corners.
    #[inline(always)]
    pub fn new(corners: &[V4; 8]) -> Self {
        Self(monomials(corners))
    }
    /// Its [`monomials`].
    #[inline(always)]
    pub fn monomials(&self) -> &[V4; 8] {
        &self.0
    }
    /// The value at (r, s, t).
    #[inline(always)]
    pub fn at(&self, q: Rst) -> V4 {
        self.at_v4(V4::from_xyz(q))
    }
    /// The value at fractions in lanes.
    #[inline(always)]
    pub fn at_v4(&self, q: V4) -> V4 {
        let a = &self.0;
        let (r, s, t) = (q.lane::<0>(), q.lane::<1>(), q.lane::<2>());
        let lo = a[0].fma(a[1], r).fma(a[2].fma(a[4], r), s);
        let hi = a[3].fma(a[6], r).fma(a[5].fma(a[7], r), s);
        lo.fma(hi, t)
    }
}

/// The trilinear interpolant of one scalar at (r, s, t), with the arithmetic of [`Interpolant::at`].
#[inline]
pub fn interpolate_scalar(c: &[f64; 8], q: Rst) -> f64 {
    let p: [V4; 8] = core::array::from_fn(|n| V4::splat(c[n]));
    Interpolant::new(&p).at(q).first()
}

/// Whether fractions lie in the cell, faces included.
#[inline(always)]
pub fn inside(q: Rst) -> bool {
    let lo = -FACE_TOLERANCE;
    let hi = 1.0 + FACE_TOLERANCE;
    q[0] >= lo && q[0] <= hi && q[1] >= lo && q[1] <= hi && q[2] >= lo && q[2] <= hi
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn corners(mut f: impl FnMut(f64, f64, f64) -> [f64; 3]) -> [V4; 8] {
        core::array::from_fn(|n| {
            let b = |bit: usize| ((n >> bit) & 1) as f64;
            V4::from_xyz(f(b(0), b(1), b(2)))
        })
    }

    #[test]
    fn unit_cube_is_the_identity() {
        let m = CellMap::new(&corners(|r, s, t| [r, s, t]));
        assert_eq!(m.point([0.25, 0.5, 0.75]), [0.25, 0.5, 0.75]);
        assert!((m.volume() - 1.0).abs() < 1e-15);
        let Inverse::At(q) = m.invert(V4::from_xyz([0.1, 0.2, 0.9]), [0.5; 3]) else { panic!("no inverse") };
        assert!((q[0] - 0.1).abs() + (q[1] - 0.2).abs() + (q[2] - 0.9).abs() < 1e-14);
    }

    #[test]
    fn trilinear_function_is_reproduced() {
        let f =
            |r: f64, s: f64, t: f64| 2.0 + r - 3.0 * s + 0.5 * t + r * s - 2.0 * s * t + 4.0 * r * t + 7.0 * r * s * t;
        let c = core::array::from_fn(|n| f((n & 1) as f64, ((n >> 1) & 1) as f64, ((n >> 2) & 1) as f64));
        for q in [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.3, 0.6, 0.9], [-0.2, 1.1, 0.4]] {
            assert!((interpolate_scalar(&c, q) - f(q[0], q[1], q[2])).abs() < 1e-13);
        }
    }

    #[test]
    fn collapsed_edge_polar_axis() {
        // A wedge round an axis: the face r = 0 is a line, and every t there gives the same point.
        let m = CellMap::new(&corners(|r, s, t| {
            let a = 0.3 * t;
            [r * a.cos(), r * a.sin(), s]
        }));
        for p in [[0.5, 0.07, 0.5], [1e-3, 1e-4, 0.2], [0.0, 0.0, 0.5], [1e-9, 1e-10, 0.9]] {
            let Inverse::At(q) = m.invert(V4::from_xyz(p), [0.5; 3]) else { panic!("{p:?}: no inverse") };
            let x = m.point(q);
            assert!((0..3).all(|c| (x[c] - p[c]).abs() < 1e-9), "{p:?} -> {q:?} -> {x:?}");
        }
    }

    proptest! {
        #[test]
        fn inverse_of_warped_stretched_lefthanded(
            seed in prop::array::uniform24(-0.18f64..0.18), q in prop::array::uniform3(0.0f64..1.0),
            stretch in prop::array::uniform3(-4.0f64..2.0), left in any::<bool>(),
        ) {
            let scale: [f64; 3] = stretch.map(|e| 10f64.powf(e));
            let sign = if left { -1.0 } else { 1.0 };
            let mut n = 0;
            let p = corners(|r, s, t| { let d = &seed[n..n + 3]; n += 3; [sign * scale[0] * (r + d[0]), scale[1] * (s + d[1]), scale[2] * (t + d[2])] });
            let m = CellMap::new(&p);
            let x = m.point(q);
            let Inverse::At(got) = m.invert(V4::from_xyz(x), [0.5; 3]) else { return Err(TestCaseError::fail("no inverse")) };
            for c in 0..3 { prop_assert!((got[c] - q[c]).abs() < 1e-9, "{:?} {:?}", got, q); }
        }
    }
}
