//! Derivatives at the nodes of curvilinear grids.
//!
//! # Theory
//! With r(xi, eta, zeta) the position, the gradient of f is `(a f_xi + b f_eta + c f_zeta) / J`. Here a = r_eta x
//! r_zeta, with b and c cyclic, and J = r_xi . a (J. F. Thompson, Z. U. A. Warsi and C. W. Mastin, Numerical Grid
//! Generation, 1985, chapter III).
//!
//! The derivatives in computational space are differences, the same for f as for r:
//! - between two usable neighbours: central;
//! - at the first and last node of a zone: one-sided, of second order;
//! - beside a hole: between two nodes.
//!
//! They never depend on page boundaries.
//!
//! Along an axis with collapsed cells (the axis of a cylinder, a pole), the derivatives of f and r are zero, and so is
//! J. But `f_eta = grad f . r_eta` may be differentiated along the axis xi at whose end the cells collapse. This gives
//! `f_xi_eta = grad f . r_xi_eta`, since r_eta is zero. So the mixed derivatives of f and r replace those along eta,
//! also with second order. If r_xi_eta is zero too (the pole of a ball, at its middle), those along all three axes do.
//!
//! There is no gradient (NaN) if an axis has no usable neighbour, if the node itself is a hole, or if J is still zero.
//! In a zone one point thick that axis does not count. The gradient is the one within the surface, and in a plane zone
//! the plane's.

/// The difference for a derivative along one axis.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// (f(+1) - f(-1)) / 2.
    Central,
    /// (-3 f(0) + 4 f(+1) - f(+2)) / 2.
    Forward,
    /// (3 f(0) - 4 f(-1) + f(-2)) / 2.
    Backward,
    /// f(+1) - f(0).
    Next,
    /// f(0) - f(-1).
    Previous,
    /// The axis has one point.
    Thin,
    /// There is no usable neighbour.
    None,
}

/// Chooses the difference at node `n` of `count` along an axis. `usable(n)`: whether node `n` is usable. `cut(n)`:
/// whether only blanked-out cells lie between node `n` and the next.
#[inline]
pub fn choose(n: u32, count: u32, mut usable: impl FnMut(u32) -> bool, mut cut: impl FnMut(u32) -> bool) -> Difference {
    if count == 1 {
        return Difference::Thin;
    }
    if !usable(n) {
        return Difference::None;
    }
    let last = n + 1 == count;
    let previous = n > 0 && usable(n - 1) && !cut(n - 1);
    let next = !last && usable(n + 1) && !cut(n);
    match (previous, next) {
        (true, true) => Difference::Central,
        (false, true) if n == 0 && count > 2 && usable(2) && !cut(1) => Difference::Forward,
        (true, false) if last && count > 2 && usable(n - 2) && !cut(n - 2) => Difference::Backward,
        (false, true) => Difference::Next,
        (true, false) => Difference::Previous,
        (false, false) => Difference::None,
    }
}

impl Difference {
    /// The derivative; `f` gives values by their distance from the node.
    #[inline(always)]
    pub fn of(self, mut f: impl FnMut(isize) -> f64) -> f64 {
        match self {
            Self::Central => (f(1) - f(-1)) * 0.5,
            Self::Forward => (4.0 * f(1) - f(2) - 3.0 * f(0)) * 0.5,
            Self::Backward => (3.0 * f(0) - 4.0 * f(-1) + f(-2)) * 0.5,
            Self::Next => f(1) - f(0),
            Self::Previous => f(0) - f(-1),
            Self::Thin => 0.0,
            Self::None => f64::NAN,
        }
    }
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// The rows a / J, b / J, c / J of the gradient. `r` has the derivatives of the position along each axis. Thin axes
/// have zero rows.
#[inline(always)]
pub fn metrics(r: [[f64; 3]; 3], thin: [bool; 3]) -> [[f64; 3]; 3] {
    let mut r = r;
    match thin {
        [false, false, false] => {}
        [true, true, true] => return [[f64::NAN; 3]; 3],
        _ if thin.iter().filter(|t| **t).count() == 2 => {
            let a = thin.iter().position(|t| !t).unwrap_or(0);
            let mut m = [[0.0; 3]; 3];
            let square = dot(r[a], r[a]);
            m[a] = r[a].map(|x| if square > 0.0 { x / square } else { f64::NAN });
            return m;
        }
        _ => {
            // The surface's normal replaces the missing axis.
            let a = thin.iter().position(|t| *t).unwrap_or(0);
            let n = cross(r[(a + 1) % 3], r[(a + 2) % 3]);
            let len = dot(n, n).sqrt();
            r[a] = n.map(|x| x / len);
        }
    }
    let rows = [cross(r[1], r[2]), cross(r[2], r[0]), cross(r[0], r[1])];
    let j = dot(r[0], rows[0]);
    let inverse = if j == 0.0 { f64::NAN } else { 1.0 / j };
    let mut m = rows.map(|row| row.map(|x| x * inverse));
    for (m, thin) in m.iter_mut().zip(thin) {
        if thin {
            *m = [0.0; 3];
        }
    }
    m
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_and_holes() {
        let (all, whole) = (|_| true, |_| false);
        assert_eq!([0, 1, 2, 3].map(|n| choose(n, 4, all, whole)), {
            use Difference::*;
            [Forward, Central, Central, Backward]
        });
        assert_eq!([0, 1].map(|n| choose(n, 2, all, whole)), [Difference::Next, Difference::Previous]);
        assert_eq!(choose(0, 1, all, whole), Difference::Thin);
        let holes = |n: u32| n != 2;
        let got: Vec<Difference> = (0..6).map(|n| choose(n, 6, holes, whole)).collect();
        use Difference::*;
        assert_eq!(got, [Next, Previous, None, Next, Central, Backward]);
        assert_eq!(choose(1, 3, |n| n == 1, whole), None);
        // Between 2 and 3 the cells are blanked out.
        let got: Vec<Difference> = (0..5).map(|n| choose(n, 5, all, |n| n == 2)).collect();
        assert_eq!(got, [Forward, Central, Previous, Next, Previous]);
    }

    #[test]
    fn parabolas_are_differentiated_exactly_from_the_side_too() {
        let f = |x: isize| (x * x) as f64 + 3.0 * x as f64;
        for d in [Difference::Central, Difference::Forward, Difference::Backward] {
            assert_eq!(d.of(f), 3.0, "{d:?}");
        }
    }

    #[test]
    fn a_plane_in_space_has_a_gradient_within_it() {
        let r = [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0; 3]];
        let m = metrics(r, [false, false, true]);
        // For f = y on the plane y = z: (0, 1/2, 1/2).
        let g: [f64; 3] = core::array::from_fn(|c| m[1][c] * 0.5);
        assert!((g[0]).abs() < 1e-15 && (g[1] - 0.5).abs() < 1e-15 && (g[2] - 0.5).abs() < 1e-15);
        assert!(metrics([[0.0; 3]; 3], [false; 3])[0][0].is_nan());
    }
}
