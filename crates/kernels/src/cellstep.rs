//! One step within one cell, in computational space.
//!
//! Theory. Within a cell both the map x(r) and the vector V(r) are trilinear, so dr/dt = J(r)^-1 V(r) is smooth, and its
//! solution is exactly the streamline of the interpolated field. Across faces the field has kinks that cost a method in
//! physical space its order: a 5(4) pair with step control spends most of its steps there. So the step is taken with the
//! cell's own polynomials continued a little beyond its faces, and where it ends outside, the dense output of the pair
//! (Hairer, Norsett, Wanner, Solving ODEs I, II.6) says where it crossed. No Newton inversion is needed on the way, and a
//! step needs the pages of one cell.
//!
//! Practice. A rate costs about as much as one iteration of Newton; six of them and the crossing make a step of some 600
//! cycles, and a step crosses a cell. (After Sadarjoen et al., "Particle tracing algorithms for 3D curvilinear grids",
//! 1994, who found computational space the less accurate where the Jacobian is that of nodes; here it is the cell's own.)

use crate::rk::{DP_A, DP_E};
use field::cell::{CellMap, Interpolant, FACE_TOLERANCE};
use field::simd::V4;

/// Weights of the fifth polynomial of the dense output.
const DENSE: [f64; 7] = [
    -12715105075.0 / 11282082432.0,
    0.0,
    87487479700.0 / 32700410799.0,
    -10690763975.0 / 1880347072.0,
    701980252875.0 / 199316789632.0,
    -1453857185.0 / 822651844.0,
    69997945.0 / 29380423.0,
];

/// A step that a cell's own polynomials have made.
#[derive(Copy, Clone)]
pub struct CellStep {
    y0: V4,
    y1: V4,
    k: [V4; 7],
    h: f64,
    /// Error of the step, physical length.
    pub error: f64,
}

/// Determinants of the Jacobian may differ by this factor within a step; beyond it the cell is taken for collapsed (a
/// polar axis): fractions there are no smooth function of time, and the dense output, whose error is not estimated, is off
/// by more than the tolerance (2e-5 of a cell at a factor of 1000, below 1e-7 at 4).
const COLLAPSE: f64 = 4.0;

/// The rate of change of the fractions, the determinant of the Jacobian, and the vector.
#[inline(always)]
pub fn rate(map: &CellMap, vector: &Interpolant, q: V4) -> (V4, V4) {
    let v = vector.at_v4(q);
    let [x, y, z] = map.rows_v4(q);
    let (cx, cy, cz) = (y.cross(z), z.cross(x), x.cross(y));
    let d = x * cx;
    let det = d.lane::<0>() + d.lane::<1>() + d.lane::<2>();
    let r = (cx * v.lane::<0>()).fma(cy, v.lane::<1>()).fma(cz, v.lane::<2>()) / det;
    // Lane w carries what the cross products left there, 0 / det.
    (r, det)
}

impl CellStep {
    /// Takes a step of `h` units of time from fractions `y0` with the rate `k0` there (with its determinant); `sign` is -1
    /// for backward. `None` where the map collapses on the way.
    #[inline(always)]
    pub fn take(map: &CellMap, vector: &Interpolant, y0: V4, k0: (V4, V4), h: f64, sign: f64) -> Option<Self> {
        let mut k = [V4::zero(); 7];
        k[0] = k0.0;
        let (mut lo, mut hi) = (k0.1, k0.1);
        let hv = V4::splat(h);
        let sv = V4::splat(sign);
        macro_rules! stage {
            ($n:literal, $($s:literal),*) => {{
                let row = &DP_A[$n - 1];
                let sum = V4::zero()$(.fma(V4::splat(row[$s]), k[$s]))*;
                let y = y0.fma(hv, sum);
                let (r, det) = rate(map, vector, y);
                k[$n] = r * sv;
                lo = lo.min(det);
                hi = hi.max(det);
                y
            }};
        }
        stage!(1, 0);
        stage!(2, 0, 1);
        stage!(3, 0, 1, 2);
        stage!(4, 0, 1, 2, 3);
        stage!(5, 0, 1, 2, 3, 4);
        let y1 = stage!(6, 0, 2, 3, 4, 5);
        let (a, b) = (lo.first(), hi.first());
        // One sign throughout, and of one order of magnitude. (NaN fails both.)
        if !((a > 0.0 && b < a * COLLAPSE) || (b < 0.0 && a > b * COLLAPSE)) {
            return None;
        }
        let mut e = V4::zero();
        for n in [0, 2, 3, 4, 5, 6] {
            e = e.fma(V4::splat(DP_E[n]), k[n]);
        }
        let e = e * hv;
        let [jx, jy, jz] = map.rows_v4(y1);
        let error = V4::new(jx.dot3(e), jy.dot3(e), jz.dot3(e), 0.0).length3();
        error.is_finite().then_some(Self { y0, y1, k, h, error })
    }

    /// Fractions at the end.
    #[inline(always)]
    pub fn end(&self) -> V4 {
        self.y1
    }

    /// The rate at the end, which is the first of the next step in the same cell.
    #[inline(always)]
    pub fn end_rate(&self) -> V4 {
        self.k[6]
    }

    /// Coefficients of the dense output in the form of Hairer's `contd5`.
    #[inline(always)]
    pub fn dense(&self) -> Dense {
        let h = V4::splat(self.h);
        let dy = self.y1 - self.y0;
        let b = h * self.k[0] - dy;
        let c4 = dy - h * self.k[6] - b;
        let mut c5 = V4::zero();
        for n in [0, 2, 3, 4, 5, 6] {
            c5 = c5.fma(V4::splat(DENSE[n]), self.k[n]);
        }
        Dense([self.y0, dy, b, c4, c5 * h])
    }
}

/// The dense output of a step, a fourth-order polynomial in theta = 0..1.
#[derive(Copy, Clone)]
pub struct Dense([V4; 5]);

impl Dense {
    /// Fractions at theta.
    #[inline(always)]
    pub fn at(&self, theta: f64) -> V4 {
        let c = &self.0;
        let (t, u) = (V4::splat(theta), V4::splat(1.0 - theta));
        c[0].fma(t, c[1].fma(u, c[2].fma(t, c[3].fma(u, c[4]))))
    }

    /// The first theta at which the path from inside to `end` (outside) crosses a face, the axis and the side (0 or 1).
    #[inline(always)]
    pub fn crossing(&self, end: [f64; 3], thin: [bool; 3]) -> Option<(f64, usize, u32)> {
        let mut first: Option<(f64, usize, u32)> = None;
        for a in 0..3 {
            // With the slack that finds a point in a cell: a path along a face is not taken to cross it by rounding.
            let side = if end[a] > 1.0 + FACE_TOLERANCE {
                1
            } else if end[a] < -FACE_TOLERANCE {
                0
            } else {
                continue;
            };
            if thin[a] && end[a].abs() <= 1e-6 {
                continue;
            }
            let theta = self.root(a, f64::from(side));
            if first.is_none_or(|f| theta < f.0) {
                first = Some((theta, a, side));
            }
        }
        first
    }

    /// Where one component passes a value. From a start on the face itself the root at 0 is divided out, so that a path
    /// that goes in and comes back is followed until it does.
    #[inline(always)]
    fn root(&self, axis: usize, value: f64) -> f64 {
        let c = self.0.map(|v| v.to_array()[axis]);
        let slope = |t: f64| {
            let u = 1.0 - t;
            c[1] + u * (c[2] + t * (c[3] + u * c[4]))
        };
        let gap = c[0] - value;
        if gap.abs() <= FACE_TOLERANCE {
            illinois(slope)
        } else {
            illinois(|t| gap + t * slope(t))
        }
    }
}

/// The root of `f` in 0..1: regula falsi that halves the value of an end that stays (Dowell and Jarratt 1971); a handful of
/// evaluations in practice. 0 where the signs at the ends are the same: the path leaves at once.
#[inline(always)]
fn illinois(f: impl Fn(f64) -> f64) -> f64 {
    let (mut a, mut b) = (0.0, 1.0);
    let (mut fa, mut fb) = (f(a), f(b));
    if fa * fb >= 0.0 {
        return 0.0;
    }
    for _ in 0..60 {
        let t = (a * fb - b * fa) / (fb - fa);
        let ft = f(t);
        if ft.abs() < 1e-13 {
            return t;
        }
        if ft * fb < 0.0 {
            a = b;
            fa = fb;
        } else {
            fa *= 0.5;
        }
        b = t;
        fb = ft;
        if (b - a).abs() < 1e-15 {
            break;
        }
    }
    b.clamp(0.0, 1.0)
}
