//! Four steps within four cells at a time, one particle a lane.
//!
//! Theory. [`crate::cellstep`] defines a step. Here the same instructions take it for four particles, in little more
//! time than one. A single step is one long chain of dependent operations.
//!
//! Practice. Lanes are independent, so the result of one does not depend on the others. A lane is not ordinary if its
//! error is too large, its map collapses, or it grazes the face of its start. The caller takes the step of such a lane
//! alone. Over flat arrays a point of a line takes 0.33 us by four and 0.53 us one by one.

use crate::cellstep::{BS_E, COLLAPSE, DENSE};
use crate::rk::{DP_A, DP_E};
use crate::streamline::OVERSHOOT;
use field::cell::FACE_TOLERANCE;
use field::reference_cell::LEAST_GAP;
use field::simd::V4;

/// A vector of four particles, component by component.
type Three = [V4; 3];

/// Four cells: monomials of their maps and vectors, component by component, one particle a lane.
pub struct CellLanes {
    shape: [Three; 8],
    vector: [Three; 8],
}

impl CellLanes {
    /// From the monomials of four cells.
    #[inline(always)]
    pub fn new(shapes: [&[V4; 8]; 4], vectors: [&[V4; 8]; 4]) -> Self {
        let across = |m: [&[V4; 8]; 4]| -> [Three; 8] {
            core::array::from_fn(|n| {
                let [x, y, z, _] = V4::transpose([m[0][n], m[1][n], m[2][n], m[3][n]]);
                [x, y, z]
            })
        };
        Self { shape: across(shapes), vector: across(vectors) }
    }

    #[inline(always)]
    fn value(of: &[Three; 8], q: Three, c: usize) -> V4 {
        let [r, s, t] = q;
        let lo = of[0][c].fma(of[1][c], r).fma(of[2][c].fma(of[4][c], r), s);
        let hi = of[3][c].fma(of[6][c], r).fma(of[5][c].fma(of[7][c], r), s);
        lo.fma(hi, t)
    }

    #[inline(always)]
    fn point(&self, q: Three) -> Three {
        [Self::value(&self.shape, q, 0), Self::value(&self.shape, q, 1), Self::value(&self.shape, q, 2)]
    }

    #[inline(always)]
    fn vector(&self, q: Three) -> Three {
        [Self::value(&self.vector, q, 0), Self::value(&self.vector, q, 1), Self::value(&self.vector, q, 2)]
    }

    /// Columns of the Jacobian: d/dr, d/ds, d/dt.
    #[inline(always)]
    fn jacobian(&self, q: Three) -> [Three; 3] {
        let a = &self.shape;
        let [r, s, t] = q;
        let (rs, st, rt) = (r * s, s * t, r * t);
        let each = |f: &dyn Fn(usize) -> V4| [f(0), f(1), f(2)];
        [
            each(&|c| a[1][c].fma(a[4][c], s).fma(a[6][c], t).fma(a[7][c], st)),
            each(&|c| a[2][c].fma(a[4][c], r).fma(a[5][c], t).fma(a[7][c], rt)),
            each(&|c| a[3][c].fma(a[5][c], s).fma(a[6][c], r).fma(a[7][c], rs)),
        ]
    }

    /// Rate of change of the fractions, determinant of the Jacobian, and the Jacobian's columns.
    #[inline(always)]
    fn rate(&self, q: Three) -> (Three, V4, [Three; 3]) {
        let columns @ [jr, js, jt] = self.jacobian(q);
        let v = self.vector(q);
        let (nr, ns, nt) = (cross(js, jt), cross(jt, jr), cross(jr, js));
        let det = dot(jr, nr);
        let inverse = V4::splat(1.0) / det;
        ([dot(nr, v) * inverse, dot(ns, v) * inverse, dot(nt, v) * inverse], det, columns)
    }
}

#[inline(always)]
fn dot(a: Three, b: Three) -> V4 {
    (a[0] * b[0]).fma(a[1], b[1]).fma(a[2], b[2])
}

#[inline(always)]
fn cross(a: Three, b: Three) -> Three {
    [(a[1] * b[2]).fnma(a[2], b[1]), (a[2] * b[0]).fnma(a[0], b[2]), (a[0] * b[1]).fnma(a[1], b[0])]
}

#[inline(always)]
fn map3(f: impl Fn(usize) -> V4) -> Three {
    [f(0), f(1), f(2)]
}

/// The starts of four particles, and the bounds of their steps; a lane each.
#[derive(Clone)]
#[repr(align(32))]
pub struct Starts {
    /// Fractions.
    pub q: [[f64; 4]; 3],
    /// Positions.
    pub x: [[f64; 4]; 3],
    /// Longest step, time.
    pub h: [f64; 4],
    /// -1 against the vector, else 1.
    pub sign: [f64; 4],
    /// Largest share of the error in the step's length.
    pub tolerance: f64,
    /// Longest step, length.
    pub longest: f64,
    /// Lanes that use the high order.
    pub high: [bool; 4],
    /// Lanes in use.
    pub used: [bool; 4],
}

/// The ends of four steps; a lane each. Only `ordinary` lanes are valid, and `inexact` ones, which have too large an
/// error.
#[derive(Clone)]
#[repr(align(32))]
pub struct StepEnds {
    /// A bit for each lane with a valid step.
    pub ordinary: u8,
    /// A bit for each lane with a step that is sound except for its error.
    pub inexact: u8,
    /// Fractions at the end, on the face exactly where one was reached.
    pub q: [[f64; 4]; 3],
    /// Positions there.
    pub x: [[f64; 4]; 3],
    /// Distance from the start.
    pub chord: [f64; 4],
    /// Time of the step, and the attempted time.
    pub dt: [f64; 4],
    /// Attempted time of the step.
    pub h: [f64; 4],
    /// Square of the error over the allowed one.
    pub ratio2: [f64; 4],
    /// Speed at the end.
    pub speed: [f64; 4],
    /// Axis of the reached face, -1 for none.
    pub axis: [f64; 4],
    /// 0 or 1: the side of that axis.
    pub side: [f64; 4],
}

/// The result of an integrator: fractions and rate at the end, the fifth coefficient of the dense output, and the
/// error. Also the columns of the Jacobian at the end, and the range of its determinants.
struct StepTrial {
    y: Three,
    last: Three,
    c5: Three,
    error: Three,
    columns: [Three; 3],
    least: V4,
    most: V4,
}

#[inline(always)]
fn low(cells: &CellLanes, y0: Three, k1: Three, det: V4, h: V4) -> StepTrial {
    let at = |k: Three, share: f64| map3(|c| y0[c].fma(k[c], h * V4::splat(share)));
    let (k2, d2, _) = cells.rate(at(k1, 0.5));
    let (k3, d3, _) = cells.rate(at(k2, 0.75));
    let third = V4::splat(1.0 / 3.0);
    let y = map3(|c| {
        let sum = (k1[c] * V4::splat(2.0 / 9.0)).fma(k2[c], third).fma(k3[c], V4::splat(4.0 / 9.0));
        y0[c].fma(sum, h)
    });
    let (last, d4, columns) = cells.rate(y);
    let error = map3(|c| {
        let sum = (k1[c] * V4::splat(BS_E[0])).fma(k2[c], V4::splat(BS_E[1])).fma(k3[c], V4::splat(BS_E[2]));
        sum.fma(last[c], V4::splat(BS_E[3])) * h
    });
    let (least, most) = (det.min(d2).min(d3.min(d4)), det.max(d2).max(d3.max(d4)));
    StepTrial { y, last, c5: [V4::zero(); 3], error, columns, least, most }
}

#[inline(never)]
fn high(cells: &CellLanes, y0: Three, k1: Three, det: V4, h: V4) -> StepTrial {
    let mut k = [[V4::zero(); 3]; 7];
    k[0] = k1;
    let (mut least, mut most) = (det, det);
    let (mut y, mut columns) = (y0, [y0; 3]);
    for n in 1..7 {
        let row = &DP_A[n - 1];
        y = map3(|c| {
            let sum = (0..n).fold(V4::zero(), |sum, s| sum.fma(V4::splat(row[s]), k[s][c]));
            y0[c].fma(h, sum)
        });
        let (rate, d, j) = cells.rate(y);
        k[n] = rate;
        columns = j;
        least = least.min(d);
        most = most.max(d);
    }
    let weighted = |w: &[f64; 7]| map3(|c| (0..7).fold(V4::zero(), |sum, n| sum.fma(V4::splat(w[n]), k[n][c])) * h);
    StepTrial { y, last: k[6], c5: weighted(&DENSE), error: weighted(&DP_E), columns, least, most }
}

/// Takes four steps.
#[inline(never)]
pub fn take(cells: &CellLanes, s: &Starts) -> StepEnds {
    let load = |a: &[f64; 4]| V4::new(a[0], a[1], a[2], a[3]);
    let (zero, one) = (V4::zero(), V4::splat(1.0));
    let (y0, x0) = (map3(|c| load(&s.q[c])), map3(|c| load(&s.x[c])));
    let sign = load(&s.sign);
    let (k1, det, _) = cells.rate(y0);

    // As far as the nearest face ahead, and a little beyond. A particle that starts on a face still tries a step.
    let mut exit = V4::splat(f64::INFINITY);
    for c in 0..3 {
        let ahead = zero.below(k1[c] * sign);
        let gap = y0[c].replace(ahead, one - y0[c]).max(V4::splat(LEAST_GAP));
        exit = (gap / k1[c].abs()).min(exit);
    }
    let v0 = cells.vector(y0);
    let longest = V4::splat(s.longest) / dot(v0, v0).sqrt();
    let h = (exit * V4::splat(OVERSHOOT)).min(load(&s.h)).min(longest);
    let hs = h * sign;

    // Both orders if lanes differ: that is rare, and no lane depends on the others.
    let wants = |high: bool| (0..4).any(|n| s.used[n] && s.high[n] == high);
    let tried = match (wants(false), wants(true)) {
        (_, false) => low(cells, y0, k1, det, hs),
        (false, true) => high(cells, y0, k1, det, hs),
        (true, true) => {
            let (a, b) = (low(cells, y0, k1, det, hs), high(cells, y0, k1, det, hs));
            let mask = zero.below(load(&s.high.map(|h| f64::from(u8::from(h)))));
            let pick = |a: Three, b: Three| map3(|c| a[c].replace(mask, b[c]));
            StepTrial {
                y: pick(a.y, b.y),
                last: pick(a.last, b.last),
                c5: pick(a.c5, b.c5),
                error: pick(a.error, b.error),
                columns: core::array::from_fn(|n| pick(a.columns[n], b.columns[n])),
                least: a.least.replace(mask, b.least),
                most: a.most.replace(mask, b.most),
            }
        }
    };
    let StepTrial { y: y1, last, c5, error, columns: [jr, js, jt], least, most } = tried;
    let dy = map3(|c| y1[c] - y0[c]);
    let physical = |d: Three| map3(|c| (jr[c] * d[0]).fma(js[c], d[1]).fma(jt[c], d[2]));
    let (e, way) = (physical(error), physical(dy));
    let ratio2 = dot(e, e) / (dot(way, way) * V4::splat(s.tolerance * s.tolerance));
    let collapse = V4::splat(COLLAPSE);
    let sound = zero.below(least).both(most.below(least * collapse));
    let sound = sound.either(most.below(zero).both((most * collapse).below(least)));
    let sound = sound.both(zero.below(h)).both(h.below(V4::splat(f64::INFINITY)));
    // Not above 1; false for NaN.
    let exact = ratio2.below(V4::splat(1.0 + f64::EPSILON));

    // Where the path first crosses a face: Newton from the chord on the dense output, by powers of theta.
    let (mut theta, mut axis, mut side) = (V4::splat(2.0), V4::splat(-1.0), zero);
    let mut odd = zero;
    let mut dense = [[zero; 4]; 3];
    for c in 0..3 {
        let b = (hs * k1[c]) - dy[c];
        let c4 = dy[c] - hs * last[c] - b;
        let p = [dy[c] + b, c4 + c5[c] - b, zero - c4 - c5[c] - c5[c], c5[c]];
        dense[c] = p;
        let over = V4::splat(1.0 + FACE_TOLERANCE).below(y1[c]);
        let under = y1[c].below(V4::splat(-FACE_TOLERANCE));
        let out = over.either(under);
        if out.bits() == 0 {
            continue;
        }
        let to = zero.replace(over, one);
        let gap = y0[c] - to;
        let mut t = gap / (zero - (p[0] + p[1] + p[2] + p[3]));
        let mut step = zero;
        for _ in 0..4 {
            let slope = p[2].fma(p[3], t);
            let slope = p[0].fma(p[1].fma(slope, t), t);
            let bend = (p[2] + p[2]).fma(p[3] * V4::splat(3.0), t);
            let bend = p[1].fma(bend, t);
            step = gap.fma(t, slope) / slope.fma(bend, t);
            t = t - step;
        }
        let found = step.abs().below(V4::splat(1e-8)).both(zero.below(t)).both(t.below(V4::splat(1.0 + f64::EPSILON)));
        let away = V4::splat(FACE_TOLERANCE).below(gap.abs());
        // Lanes outside without a found root are not ordinary.
        odd = odd.either(out.both(one.below(V4::splat(2.0).replace(found.both(away), zero))));
        let first = out.both(t.below(theta));
        theta = theta.replace(first, t);
        axis = axis.replace(first, V4::splat(c as f64));
        side = side.replace(first, to);
    }
    let crossed = theta.below(V4::splat(1.5));
    let y = map3(|c| {
        let p = &dense[c];
        let slope = p[0].fma(p[1].fma(p[2].fma(p[3], theta), theta), theta);
        let at = y1[c].replace(crossed, y0[c].fma(slope, theta)).max(zero).min(one);
        let here = axis.below(V4::splat(c as f64 + 0.5)).both(V4::splat(c as f64 - 0.5).below(axis));
        at.replace(here, side)
    });
    let x = cells.point(y);
    let d = map3(|c| x[c] - x0[c]);
    let v = cells.vector(y);
    let used = s.used.iter().enumerate().fold(0u8, |bits, (n, used)| bits | u8::from(*used) << n);
    let fair = sound.bits() & !odd.bits() & used;
    StepEnds {
        ordinary: fair & exact.bits(),
        inexact: sound.bits() & !exact.bits() & used,
        q: y.map(V4::to_array),
        x: x.map(V4::to_array),
        chord: dot(d, d).sqrt().to_array(),
        dt: h.replace(crossed, h * theta).to_array(),
        h: h.to_array(),
        ratio2: ratio2.to_array(),
        speed: dot(v, v).sqrt().to_array(),
        axis: axis.to_array(),
        side: side.to_array(),
    }
}
