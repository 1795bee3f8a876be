//! Runge-Kutta steps in physical space over any [`Flow`]: Euler, the classical fourth-order method, and Dormand and
//! Prince's 5(4) pair. The pair is from "A family of embedded Runge-Kutta formulae", J. Comp. Appl. Math. 6, 1980.
//!
//! A stage is one restartable step: finished stages stay in [`Stepper`], and a stage with absent pages changes nothing.

use crate::flow::{Exit, Flow, Sample};
use field::nodes::Miss;
use field::simd::V4;

/// A Runge-Kutta method.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// First order.
    Euler,
    /// Classical fourth order.
    Rk4,
    /// Dormand-Prince 5(4).
    Rk45,
}

/// Dormand-Prince: rows of the tableau. The last row is the fifth-order solution (first same as last).
pub(crate) const DP_A: [[f64; 6]; 6] = [
    [1.0 / 5.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    [3.0 / 40.0, 9.0 / 40.0, 0.0, 0.0, 0.0, 0.0],
    [44.0 / 45.0, -56.0 / 15.0, 32.0 / 9.0, 0.0, 0.0, 0.0],
    [19372.0 / 6561.0, -25360.0 / 2187.0, 64448.0 / 6561.0, -212.0 / 729.0, 0.0, 0.0],
    [9017.0 / 3168.0, -355.0 / 33.0, 46732.0 / 5247.0, 49.0 / 176.0, -5103.0 / 18656.0, 0.0],
    [35.0 / 384.0, 0.0, 500.0 / 1113.0, 125.0 / 192.0, -2187.0 / 6784.0, 11.0 / 84.0],
];

/// Fifth minus fourth order weights.
pub(crate) const DP_E: [f64; 7] =
    [71.0 / 57600.0, 0.0, -71.0 / 16695.0, 71.0 / 1920.0, -17253.0 / 339200.0, 22.0 / 525.0, -1.0 / 40.0];

const RK4_A: [[f64; 6]; 4] = [
    [0.5, 0.0, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.5, 0.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
    [1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0, 0.0, 0.0],
];
const EULER_A: [[f64; 6]; 1] = [[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]];

impl Method {
    fn rows(self) -> &'static [[f64; 6]] {
        match self {
            Self::Euler => &EULER_A,
            Self::Rk4 => &RK4_A,
            Self::Rk45 => &DP_A,
        }
    }
    /// Time of each stage after the first, in steps.
    fn times(self) -> &'static [f64] {
        match self {
            Self::Euler => &[1.0],
            Self::Rk4 => &[0.5, 0.5, 1.0, 1.0],
            Self::Rk45 => &[0.2, 0.3, 0.8, 8.0 / 9.0, 1.0, 1.0],
        }
    }
    /// Order of accuracy of the continued solution.
    pub fn order(self) -> u32 {
        match self {
            Self::Euler => 1,
            Self::Rk4 => 4,
            Self::Rk45 => 5,
        }
    }
}

/// A step in progress.
#[derive(Clone, Debug)]
pub struct Stepper<C> {
    k: [V4; 7],
    /// Of the first stage, and of the last finished one, from which the next is searched. Thousands of steps may wait
    /// for pages at a time, so the others are not kept.
    cursors: [C; 2],
    done: usize,
}

/// A finished step.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Step<C> {
    /// Its end.
    pub x: [f64; 3],
    /// The vector there, and the cursor.
    pub end: ([f64; 3], C),
    /// Difference between the embedded solutions; 0 for methods without.
    pub error: f64,
}

/// The result of an attempt.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum StepOutcome<C> {
    /// The step is done.
    Done(Step<C>),
    /// A stage is outside.
    Outside(Exit),
}

impl<C: Copy + Send> Stepper<C> {
    /// A step from a point with known vector.
    pub fn new(v: [f64; 3], at: C) -> Self {
        let mut s = Self { k: [V4::zero(); 7], cursors: [at; 2], done: 1 };
        s.k[0] = V4::from_xyz(v);
        s
    }

    /// Moves to another point with known vector.
    #[inline(always)]
    pub fn begin(&mut self, v: [f64; 3], at: C) {
        self.k[0] = V4::from_xyz(v);
        self.cursors = [at; 2];
        self.done = 1;
    }

    /// The vector at the point.
    #[inline(always)]
    pub fn first(&self) -> V4 {
        self.k[0]
    }

    /// Drops all stages but the first, to try another step size from the same point.
    pub fn restart(&mut self) {
        self.done = 1;
        self.cursors[1] = self.cursors[0];
    }

    /// Continues a step of `h` (negative: backward) from `x` at `time`. On `Err` the finished stages are kept; call
    /// again.
    ///
    /// # Errors
    /// [`Miss`].
    pub fn go<F: Flow<Cursor = C>>(
        &mut self,
        flow: &mut F,
        method: Method,
        (x, time): ([f64; 3], f64),
        h: f64,
    ) -> Result<StepOutcome<C>, Miss> {
        let (rows, x) = (method.rows(), V4::from_xyz(x));
        if self.done == 1 {
            if let Some(step) = self.quick(flow, method, (x, time), h) {
                return Ok(StepOutcome::Done(step));
            }
        }
        loop {
            let n = self.done;
            let at = self.stage(&rows[n - 1], n, x, h).xyz();
            // A stage is searched from the stage before it. The cursor is part of the state, so the result does not
            // depend on the number of attempts.
            flow.set_time(time + h * method.times()[n - 1]);
            let from = self.cursors[1];
            match flow.at(at, &from)? {
                Sample::Outside(e) => return Ok(StepOutcome::Outside(e)),
                Sample::Value(v, c) => {
                    if n == rows.len() {
                        let error = if method == Method::Rk45 { self.embedded_error(v, h) } else { 0.0 };
                        return Ok(StepOutcome::Done(Step { x: at, end: (v, c), error }));
                    }
                    self.k[n] = V4::from_xyz(v);
                    self.cursors[1] = c;
                    self.done = n + 1;
                }
            }
        }
    }

    /// The whole step, if no stage needs a search: by the same arithmetic as stage by stage.
    #[inline(always)]
    fn quick<F: Flow<Cursor = C>>(
        &mut self,
        flow: &mut F,
        method: Method,
        (x, time): (V4, f64),
        h: f64,
    ) -> Option<Step<C>> {
        let rows = method.rows();
        let from = self.cursors[0];
        for (n, (row, c)) in rows.iter().zip(method.times()).enumerate() {
            let at = self.stage(row, n + 1, x, h);
            flow.set_time(time + h * c);
            let v = flow.quick(at, &from)?;
            if n + 1 == rows.len() {
                let error = if method == Method::Rk45 { self.embedded_error(v.xyz(), h) } else { 0.0 };
                return Some(Step { x: at.xyz(), end: (v.xyz(), flow.quick_cursor(at, &from)), error });
            }
            self.k[n + 1] = v;
        }
        None
    }

    /// The place of a stage after `n` others.
    #[inline(always)]
    fn stage(&self, row: &[f64; 6], n: usize, x: V4, h: f64) -> V4 {
        let way = row.iter().zip(&self.k).take(n).fold(V4::zero(), |way, (a, k)| way.fma(*k, V4::splat(*a)));
        x.fma(way, V4::splat(h))
    }

    fn embedded_error(&self, last: [f64; 3], h: f64) -> f64 {
        let last = V4::from_xyz(last) * V4::splat(DP_E[6]);
        let e = DP_E.iter().zip(&self.k).take(6).fold(last, |e, (weight, k)| e.fma(*k, V4::splat(*weight)));
        h.abs() * e.length3()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rigid rotation with a swirl in z, exact solution known.
    struct Analytic;
    impl Flow for Analytic {
        type Cursor = ();
        fn seed(&mut self, x: [f64; 3]) -> Result<Sample<()>, Miss> {
            self.at(x, &())
        }
        fn at(&mut self, x: [f64; 3], _: &()) -> Result<Sample<()>, Miss> {
            Ok(Sample::Value([-x[1], x[0], (x[0] * x[0] + x[1] * x[1]) * x[2]], ()))
        }
        fn length_scale(&mut self, _: &()) -> Result<f64, Miss> {
            Ok(1.0)
        }
    }

    fn error(method: Method, n: usize) -> f64 {
        let mut x = [1.0, 0.0, 1.0];
        let h = 1.5 / n as f64;
        for _ in 0..n {
            let Ok(Sample::Value(v, ())) = Analytic.at(x, &()) else { panic!("analytic") };
            let Ok(StepOutcome::Done(s)) = Stepper::new(v, ()).go(&mut Analytic, method, (x, 0.0), h) else {
                panic!("analytic")
            };
            x = s.x;
        }
        let exact = [1.5f64.cos(), 1.5f64.sin(), 1.5f64.exp()];
        (0..3).map(|c| (x[c] - exact[c]).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn slopes_are_the_orders() {
        for (m, n) in [(Method::Euler, 400), (Method::Rk4, 16), (Method::Rk45, 40)] {
            let slope = (error(m, n) / error(m, 2 * n)).log2();
            assert!((slope - f64::from(m.order())).abs() < 0.25, "{m:?}: slope {slope}");
        }
    }

    #[test]
    fn tableau_is_consistent() {
        // Row sums are the abscissae; the weights sum to one, the error weights to zero.
        for m in [Method::Euler, Method::Rk4, Method::Rk45] {
            for (row, c) in m.rows().iter().zip(m.times()) {
                assert!((row.iter().sum::<f64>() - c).abs() < 1e-14, "{m:?}");
            }
        }
        assert!(DP_E.iter().sum::<f64>().abs() < 1e-15);
    }
}
