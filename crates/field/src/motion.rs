//! Velocities of grid points, from their places at neighbouring steps.
//!
//! # Theory
//! A body that moves with its grid carries the flow at its surface along: there the fluid has the velocity of the grid
//! points. Their places are known at time steps alone. Their velocity at a step is that of the parabola in time through
//! three places, of second order.
//!
//! Let c1 and c2 be the chords to the places at times d1 and d2 from the step. Then it is `(c1 d2 - c2 d1) / (d2 -
//! d1)`. The error is bounded by a share of the chords and of their difference. The velocity of a point that stays is
//! exactly 0.

/// Error bound of this velocity, as a share of the point's speed: a swing of twenty steps differs by 1.6 %.
const OF_SPEED: f64 = 0.02;
/// The same as a share of the difference between the chords.
const OF_CHORDS: f64 = 0.1;
/// Largest share of a point's speed that rounding of its places may reach, before its motion is too uncertain.
const OF_ROUNDING: f64 = 0.1;

/// A step and its nearest steps, which give the velocity of points.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Neighbours {
    steps: [u32; 3],
    times: [f64; 3],
    count: usize,
}

impl Neighbours {
    /// The steps before and after a step of a series at `times`, or the two next to it at an end of the series.
    ///
    /// ```
    /// # use field::motion::Neighbours;
    /// assert_eq!(Neighbours::of(2, &[0.0, 1.0, 2.0, 3.0]).steps(), [2, 1, 3]);
    /// assert_eq!(Neighbours::of(0, &[0.0, 1.0, 2.0, 3.0]).steps(), [0, 1, 2]);
    /// assert_eq!(Neighbours::of(0, &[0.0]).steps(), [0]);
    /// ```
    pub fn of(step: usize, times: &[f64]) -> Self {
        let last = times.len().saturating_sub(1);
        let step = step.min(last);
        let first = step.saturating_sub(1).min(last.saturating_sub(2));
        let beside = (first..=last).take(3).filter(|n| *n != step);
        let (mut of, mut count) = (Self { steps: [step as u32; 3], times: [0.0; 3], count: 1 }, 1);
        of.times[0] = times.get(step).copied().unwrap_or(0.0);
        for n in beside {
            (of.steps[count], of.times[count]) = (n as u32, times[n]);
            count += 1;
        }
        of.count = count;
        of
    }

    /// The step, then its neighbours.
    pub fn steps(&self) -> &[u32] {
        &self.steps[..self.count]
    }

    /// Whether `velocity` is that of a point with `places` at [`Self::steps`]. `rounding`: the relative error of a
    /// place.
    pub fn moves_with(&self, velocity: [f64; 3], places: &[[f64; 3]], rounding: f64) -> bool {
        let here = places[0];
        let beside = &places[1..self.count];
        if beside.iter().all(|p| *p == here) {
            return velocity == [0.0; 3];
        }
        let apart = |n: usize| self.times[n] - self.times[0];
        let chord = |n: usize| -> [f64; 3] { core::array::from_fn(|c| (places[n][c] - here[c]) / apart(n)) };
        let first = chord(1);
        let second = if self.count > 2 { chord(2) } else { first };
        let (d1, d2) = (apart(1), if self.count > 2 { apart(2) } else { 2.0 * apart(1) });
        let own: [f64; 3] = core::array::from_fn(|c| (first[c] * d2 - second[c] * d1) / (d2 - d1));
        let length = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>().sqrt();
        let less = |a: [f64; 3], b: [f64; 3]| length(core::array::from_fn(|c| a[c] - b[c]));
        let speed = length(first).max(length(second));
        let rounded = 4.0 * rounding * length(here) / d1.abs().min(d2.abs());
        less(velocity, own) <= OF_SPEED * speed + OF_CHORDS * less(first, second) + rounded.min(OF_ROUNDING * speed)
    }
}

/// Whether a point that moves straight between two steps has the velocities given at them: their mean must be its
/// displacement over `time`, up to an error by their change.
pub fn moves_between(velocity: [[f64; 3]; 2], places: [[f64; 3]; 2], time: f64) -> bool {
    if places[0] == places[1] {
        return velocity == [[0.0; 3]; 2];
    }
    let length = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>().sqrt();
    let chord: [f64; 3] = core::array::from_fn(|c| (places[1][c] - places[0][c]) / time);
    let [a, b] = velocity;
    let off = length(core::array::from_fn(|c| 0.5 * (a[c] + b[c]) - chord[c]));
    off <= OF_SPEED * length(chord) + OF_CHORDS * length(core::array::from_fn(|c| b[c] - a[c]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A swing of 20 steps about an axis: a point's velocity moves with it, and fluid at rest does not.
    #[test]
    fn a_swing_is_known_at_every_step() {
        let turn = std::f64::consts::TAU / 20.0;
        let times: Vec<f64> = (0..21).map(f64::from).collect();
        let at = |t: f64| [2.0 + (turn * t).sin(), (turn * t).cos(), 0.3 * (turn * t).sin()];
        let v = |t: f64| [turn * (turn * t).cos(), -turn * (turn * t).sin(), 0.3 * turn * (turn * t).cos()];
        for step in 0..times.len() {
            let near = Neighbours::of(step, &times);
            let places: Vec<[f64; 3]> = near.steps().iter().map(|n| at(times[*n as usize])).collect();
            assert!(near.moves_with(v(times[step]), &places, f64::EPSILON), "{step}");
            for other in [[0.0; 3], v(times[step]).map(|c| 0.8 * c), v(times[step]).map(|c| -c)] {
                assert!(!near.moves_with(other, &places, f64::EPSILON), "{step} {other:?}");
            }
        }
        for step in 0..20 {
            let (t, u) = (times[step], times[step + 1]);
            assert!(moves_between([v(t), v(u)], [at(t), at(u)], u - t));
            assert!(!moves_between([[0.0; 3]; 2], [at(t), at(u)], u - t));
        }
    }

    #[test]
    fn what_stands_is_at_rest_to_the_last_bit() {
        let near = Neighbours::of(1, &[0.0, 1e-6, 2e-6]);
        let places = [[100.0, 3.0, 1.0]; 3];
        assert!(near.moves_with([0.0; 3], &places, 1e-7));
        assert!(!near.moves_with([1e-20, 0.0, 0.0], &places, 1e-7));
        // A motion smaller than rounding proves nothing.
        let places = [[100.0, 3.0, 1.0], [100.00001, 3.0, 1.0], [100.0, 3.0, 1.0]];
        assert!(!near.moves_with([0.0; 3], &places, 1e-7));
    }

    #[test]
    fn the_slope_of_the_velocity_out_of_three_places_is_two() {
        // x = sin t: the error bound shrinks with the square of the step.
        let worst = |h: f64| {
            let near = Neighbours::of(1, &[1.0 - h, 1.0, 1.0 + h]);
            let places = [1.0, 1.0 - h, 1.0 + h].map(|t: f64| [t.sin(), 0.0, 0.0]);
            let chords = [1, 2].map(|n| (places[n][0] - places[0][0]) / (near.times[n] - 1.0));
            ((chords[0] + chords[1]) / 2.0 - 1f64.cos()).abs()
        };
        let slope = (worst(0.1) / worst(0.05)).log2();
        assert!((1.9..2.1).contains(&slope), "{slope}");
    }
}
