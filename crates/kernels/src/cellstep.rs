//! One step within one cell, in computational space.
//!
//! Theory. Within a cell both the map x(r) and the vector V(r) are trilinear. So dr/dt = J(r)^-1 V(r) is smooth, and
//! its solution is exactly the streamline of the interpolated field. Across faces the field has kinks, which reduce the
//! order of a method in physical space. A 5(4) pair with step control spends most of its steps there.
//!
//! So a step uses the cell's own polynomials, continued a little beyond its faces. If it ends outside, the dense output
//! of the pair (Hairer, Norsett, Wanner, Solving ODEs I, II.6) gives the crossing. No Newton inversion is needed on the
//! way, and a step needs the pages of one cell.
//!
//! A cell is crossed in one step, and the field changes little over one cell. Three stages with the cubic through both
//! ends (Bogacki and Shampine 1989, "A 3(2) pair of Runge-Kutta formulas") are usually exact enough. They take half the
//! rates of Dormand and Prince's 5(4) pair. So the low order is tried first, and the high one where its error is too
//! large.
//!
//! Practice. A rate takes about as long as one iteration of Newton. (After Sadarjoen et al., "Particle tracing
//! algorithms for 3D curvilinear grids", 1994. They found computational space less accurate with the Jacobian of nodes;
//! here it is the cell's own.)

use crate::rk::{DP_A, DP_E};
use field::cell::{CellMap, Interpolant, FACE_TOLERANCE};
use field::reference_cell::ReferenceCell;
use field::simd::V4;

/// Weights of the fifth polynomial of the dense output.
pub(crate) const DENSE: [f64; 7] = [
    -12715105075.0 / 11282082432.0,
    0.0,
    87487479700.0 / 32700410799.0,
    -10690763975.0 / 1880347072.0,
    701980252875.0 / 199316789632.0,
    -1453857185.0 / 822651844.0,
    69997945.0 / 29380423.0,
];

/// Second minus third order weights of Bogacki and Shampine.
pub(crate) const BS_E: [f64; 4] = [-5.0 / 72.0, 1.0 / 12.0, 1.0 / 9.0, -1.0 / 8.0];

/// A step made with a cell's own polynomials.
#[derive(Copy, Clone)]
pub struct CellStep {
    y0: V4,
    y1: V4,
    /// Rates at the ends.
    first: V4,
    last: V4,
    /// The fifth coefficient of the dense output; 0 for the cubic through both ends.
    c5: V4,
    /// Signed step, time.
    h: f64,
    /// Square of the error of the step, physical length.
    pub error2: f64,
    /// Square of the step's physical length, by the Jacobian at its end.
    pub length2: f64,
}

/// Largest ratio of the Jacobian's determinants within a step. Beyond it the cell counts as collapsed (a polar axis):
/// fractions there are no smooth function of time. The dense output, which has no error estimate, is then off by more
/// than the tolerance.
///
/// | ratio of determinants | error of the dense output, in cells |
/// |---|---|
/// | 4 | below 1e-7 |
/// | 1000 | 2e-5 |
pub(crate) const COLLAPSE: f64 = 4.0;

/// A rate of change of the fractions, and related values.
#[derive(Copy, Clone, Debug)]
pub struct Rate {
    /// Fractions a unit of time, with the vector.
    pub r: V4,
    /// Determinant of the Jacobian in every lane.
    pub det: V4,
}

/// The context of a step: a cell's map and vector, and its free directions. A direction is 1, or 0 in a zone that is
/// one point thick there. A particle on a surface follows the vector's part along it.
#[derive(Copy, Clone)]
pub struct StepContext<'a> {
    /// (r, s, t) to physical space.
    pub map: &'a CellMap,
    /// The interpolated vector field.
    pub vector: &'a Interpolant,
    /// 1 or 0 in the lanes r, s, t.
    pub along: V4,
}

impl<'a> StepContext<'a> {
    /// A cell with one point along the directions in `thin`.
    #[inline(always)]
    pub fn new(map: &'a CellMap, vector: &'a Interpolant, thin: [bool; 3]) -> Self {
        Self { map, vector, along: V4::from_xyz(thin.map(|t| if t { 0.0 } else { 1.0 })) }
    }
}

/// The rate of change of the fractions.
#[inline(always)]
pub fn rate(cell: StepContext<'_>, q: V4) -> Rate {
    rate_and_rows(cell, q).0
}

#[inline(always)]
fn rate_and_rows(cell: StepContext<'_>, q: V4) -> (Rate, [V4; 3]) {
    let v = cell.vector.at_v4(q);
    let rows @ [x, y, z] = cell.map.rows_v4(q);
    let (cx, cy, cz) = (y.cross(z), z.cross(x), x.cross(y));
    let d = x * cx;
    let det = d.lane::<0>() + d.lane::<1>() + d.lane::<2>();
    let r = (cx * v.lane::<0>()).fma(cy, v.lane::<1>()).fma(cz, v.lane::<2>()) / det;
    // Lane w is 0 / det, from the cross products.
    (Rate { r: r * cell.along, det }, rows)
}

/// The range of the determinants within a step.
struct Determinants(V4, V4);

impl Determinants {
    #[inline(always)]
    fn add(&mut self, det: V4) {
        self.0 = self.0.min(det);
        self.1 = self.1.max(det);
    }
    /// Whether all have one sign and one order of magnitude. (NaN fails both.)
    #[inline(always)]
    fn sound(&self) -> bool {
        let (a, b) = (self.0.first(), self.1.first());
        (a > 0.0 && b < a * COLLAPSE) || (b < 0.0 && a > b * COLLAPSE)
    }
}

/// Squares of a step's error (in fractions: `e`) and of its length `d`, in physical space by the Jacobian's rows at its
/// end. `None` if the error is not a number.
#[inline(always)]
fn measure(rows: [V4; 3], e: V4, d: V4) -> Option<(f64, f64)> {
    let [r, s, t, _] = V4::transpose([rows[0], rows[1], rows[2], V4::zero()]);
    let physical = |d: V4| (r * d.lane::<0>()).fma(s, d.lane::<1>()).fma(t, d.lane::<2>());
    let (e, d) = (physical(e), physical(d));
    let error2 = e.dot3(e);
    error2.is_finite().then(|| (error2, d.dot3(d)))
}

impl CellStep {
    /// Takes a step of `h` units of time (negative: against the vector) from fractions `y0` with the rate `k0` there,
    /// by Bogacki and Shampine's pair. `None` if the map collapses within it.
    #[inline(always)]
    pub fn take_low(cell: StepContext<'_>, y0: V4, k0: Rate, h: f64) -> Option<Self> {
        let mut dets = Determinants(k0.det, k0.det);
        let hv = V4::splat(h);
        let k1 = k0.r;
        let k2 = rate(cell, y0.fma(k1, V4::splat(0.5 * h)));
        let k3 = rate(cell, y0.fma(k2.r, V4::splat(0.75 * h)));
        let sum = (k1 * V4::splat(2.0 / 9.0)).fma(k2.r, V4::splat(3.0 / 9.0)).fma(k3.r, V4::splat(4.0 / 9.0));
        let y1 = y0.fma(sum, hv);
        let (k4, rows) = rate_and_rows(cell, y1);
        dets.add(k2.det);
        dets.add(k3.det);
        dets.add(k4.det);
        let e = (k1 * V4::splat(BS_E[0])).fma(k2.r, V4::splat(BS_E[1])).fma(k3.r, V4::splat(BS_E[2]));
        let e = e.fma(k4.r, V4::splat(BS_E[3])) * hv;
        dets.sound().then_some(())?;
        let (error2, length2) = measure(rows, e, y1 - y0)?;
        Some(Self { y0, y1, first: k1, last: k4.r, c5: V4::zero(), h, error2, length2 })
    }

    /// As [`Self::take_low`], by Dormand and Prince's pair.
    #[inline(always)]
    pub fn take(cell: StepContext<'_>, y0: V4, k0: Rate, h: f64) -> Option<Self> {
        let mut k = [V4::zero(); 7];
        k[0] = k0.r;
        let mut dets = Determinants(k0.det, k0.det);
        let hv = V4::splat(h);
        macro_rules! stage {
            ($n:literal, $($s:literal),*) => {{
                let row = &DP_A[$n - 1];
                let sum = V4::zero()$(.fma(V4::splat(row[$s]), k[$s]))*;
                let y = y0.fma(hv, sum);
                let (at, rows) = rate_and_rows(cell, y);
                k[$n] = at.r;
                dets.add(at.det);
                (y, rows)
            }};
        }
        stage!(1, 0);
        stage!(2, 0, 1);
        stage!(3, 0, 1, 2);
        stage!(4, 0, 1, 2, 3);
        stage!(5, 0, 1, 2, 3, 4);
        let (y1, rows) = stage!(6, 0, 2, 3, 4, 5);
        dets.sound().then_some(())?;
        let (mut e, mut c5) = (V4::zero(), V4::zero());
        for n in [0, 2, 3, 4, 5, 6] {
            e = e.fma(V4::splat(DP_E[n]), k[n]);
            c5 = c5.fma(V4::splat(DENSE[n]), k[n]);
        }
        let (error2, length2) = measure(rows, e * hv, y1 - y0)?;
        Some(Self { y0, y1, first: k[0], last: k[6], c5: c5 * hv, h, error2, length2 })
    }

    /// Fractions at the end.
    #[inline(always)]
    pub fn end(&self) -> V4 {
        self.y1
    }

    /// The rate at the end, which is the first of the next step in the same cell.
    #[inline(always)]
    pub fn end_rate(&self) -> V4 {
        self.last
    }

    /// Coefficients of the dense output in the form of Hairer's `contd5`. Without the fifth it is the cubic through
    /// both ends.
    #[inline(always)]
    pub fn dense(&self) -> Dense {
        let h = V4::splat(self.h);
        let dy = self.y1 - self.y0;
        let b = h * self.first - dy;
        let c4 = dy - h * self.last - b;
        Dense([self.y0, dy, b, c4, self.c5])
    }
}

/// The dense output of a step, a polynomial in theta = 0..1.
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

    /// The first theta at which the path from inside to `end` (outside) crosses a face, and its number. Faces with a
    /// bit in `along` are ignored.
    #[inline(always)]
    pub fn crossing<S: ReferenceCell>(&self, end: [f64; 3], thin: [bool; 3], along: u32) -> Option<(f64, u32)> {
        let mut first: Option<(f64, u32)> = None;
        for face in (0..S::FACES).filter(|face| along >> face & 1 == 0) {
            if !S::is_beyond(face, end) || S::is_thin(face, thin) && S::height(face, end).abs() <= 1e-6 {
                continue;
            }
            let theta = self.root::<S>(face);
            if first.is_none_or(|f| theta < f.0) {
                first = Some((theta, face));
            }
        }
        first
    }

    /// The theta at which the path crosses a face. For a start on the face itself the root at 0 is divided out. So a
    /// path that enters and comes back is followed to its return.
    #[inline(always)]
    fn root<S: ReferenceCell>(&self, face: u32) -> f64 {
        let c = self.0.map(|v| S::height(face, v.xyz()));
        let gap = c[0] - S::level(face);
        // The same polynomial by powers of theta.
        let a = [c[1] + c[2], c[3] + c[4] - c[2], -c[3] - 2.0 * c[4], c[4]];
        let slope = |t: f64| a[3].mul_add(t, a[2]).mul_add(t, a[1]).mul_add(t, a[0]);
        if gap.abs() <= FACE_TOLERANCE {
            return illinois(slope);
        }
        // Newton from the chord: paths within a cell are nearly straight, so three rounds suffice.
        let mut t = gap / -(a[0] + a[1] + a[2] + a[3]);
        for _ in 0..5 {
            let s = slope(t);
            let bend = (3.0 * a[3]).mul_add(t, 2.0 * a[2]).mul_add(t, a[1]);
            let step = t.mul_add(s, gap) / bend.mul_add(t, s);
            t -= step;
            // The remaining error is about its square.
            if step.abs() < 1e-8 {
                if t > 0.0 && t <= 1.0 {
                    return t;
                }
                break;
            }
        }
        illinois(|t| t.mul_add(slope(t), gap))
    }
}

/// The root of `f` in 0..1 by regula falsi with halving of the retained end's value (Dowell and Jarratt 1971). It takes
/// a handful of evaluations in practice. 0 if the signs at the ends are equal: the path leaves at once.
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
