//! Finite-time Lyapunov exponents from a flow map.
//!
//! The columns of the deformation gradient F are differences of end points over those of seeds along each axis. C = F^T
//! F is the right Cauchy-Green tensor. The exponent is ln(sqrt(largest eigenvalue of C)) / |t1 - t0| (G. Haller,
//! Distinguished material surfaces and coherent structures in three-dimensional fluid flows, Physica D 149, 2001; S.
//! Shadden, F. Lekien and J. Marsden, Definition and properties of Lagrangian coherent structures, Physica D 212,
//! 2005).
//!
//! Where seeds span only a plane or a line, C is that of line elements in it.

/// The largest eigenvalue of C, for columns of F (one for each axis that seeds span).
pub fn largest_stretch(columns: &[[f64; 3]]) -> f64 {
    let n = columns.len().min(3);
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let mut c = [[0.0; 3]; 3];
    for (i, row) in c.iter_mut().enumerate().take(n) {
        for (j, v) in row.iter_mut().enumerate().take(n) {
            *v = dot(columns[i], columns[j]);
        }
    }
    // Jacobi's rotations: exact for diagonal matrices, and to the last digits for others. Six sweeps are always more
    // than enough.
    for _ in 0..6 {
        for (p, q) in [(0, 1), (0, 2), (1, 2)] {
            let off = c[p][q];
            if off == 0.0 {
                continue;
            }
            let theta = (c[q][q] - c[p][p]) / (2.0 * off);
            let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
            let t = if t.is_finite() { t } else { 0.0 };
            let cos = 1.0 / (t * t + 1.0).sqrt();
            let sin = t * cos;
            let before = c;
            let r = 3 - p - q;
            c[p][p] = before[p][p] - t * off;
            c[q][q] = before[q][q] + t * off;
            (c[p][q], c[q][p]) = (0.0, 0.0);
            let (a, b) = (cos * before[r][p] - sin * before[r][q], sin * before[r][p] + cos * before[r][q]);
            (c[r][p], c[p][r], c[r][q], c[q][r]) = (a, a, b, b);
        }
    }
    if c.iter().flatten().any(|v| !v.is_finite()) {
        return f64::NAN;
    }
    (0..n).map(|a| c[a][a]).fold(0.0, f64::max)
}

/// The exponent for columns of F, over a time span.
pub fn exponent(columns: &[[f64; 3]], time: f64) -> f64 {
    0.5 * largest_stretch(columns).ln() / time.abs()
}

/// The difference quotient of end points along an axis. Each argument is a coordinate on the axis and an end point. The
/// quotient is central with both neighbours, else one-sided; `None` with neither.
pub fn quotient(
    before: Option<(f64, [f64; 3])>,
    here: (f64, [f64; 3]),
    after: Option<(f64, [f64; 3])>,
) -> Option<[f64; 3]> {
    let (a, b) = match (before, after) {
        (Some(a), Some(b)) => (a, b),
        (Some(a), None) => (a, here),
        (None, Some(b)) => (here, b),
        (None, None) => return None,
    };
    Some(core::array::from_fn(|c| (b.1[c] - a.1[c]) / (b.0 - a.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_maps_that_are_known() {
        // A rotation about any axis stretches nothing.
        let (s, c) = 0.7f64.sin_cos();
        assert!(exponent(&[[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]], 2.0).abs() < 1e-15);
        // Strain at a rate of 0.5 for a time of 3, in any order of axes.
        let (e, f) = (1.5f64.exp(), (-1.5f64).exp());
        for columns in
            [[[e, 0.0, 0.0], [0.0, f, 0.0], [0.0, 0.0, 1.0]], [[0.0, 1.0, 0.0], [f, 0.0, 0.0], [0.0, 0.0, e]]]
        {
            assert!((exponent(&columns, -3.0) - 0.5).abs() < 1e-15);
        }
        // Simple shear by g: the largest eigenvalue of [[1, g], [g, 1 + g^2]].
        let g = 0.8f64;
        let known = 1.0 + 0.5 * g * g + g * (1.0 + 0.25 * g * g).sqrt();
        assert!((largest_stretch(&[[1.0, 0.0, 0.0], [g, 1.0, 0.0]]) - known).abs() < 1e-14);
        // A full matrix: the norm of [[2, 1], [1, 2]] (x) [1] turned in space stays 3, squared.
        let r = [[c, s, 0.0], [-s, c, 0.0]];
        let turned = |x: f64, y: f64| core::array::from_fn(|n| x * r[0][n] + y * r[1][n]);
        let columns: [[f64; 3]; 3] = [turned(2.0, 1.0), turned(1.0, 2.0), [0.0, 0.0, 1.5]];
        assert!((largest_stretch(&columns) - 9.0).abs() < 1e-13);
        assert!(exponent(&[[f64::NAN, 0.0, 0.0]], 1.0).is_nan());
    }

    #[test]
    fn quotients_take_what_is_there() {
        let p = |x: f64| (x, [x * x, 0.0, 0.0]);
        assert_eq!(quotient(Some(p(1.0)), p(2.0), Some(p(3.0))).unwrap()[0], 4.0);
        assert_eq!(quotient(Some(p(1.0)), p(2.0), None).unwrap()[0], 3.0);
        assert_eq!(quotient(None, p(2.0), Some(p(3.0))).unwrap()[0], 5.0);
        assert_eq!(quotient(None, p(2.0), None), None);
    }
}
