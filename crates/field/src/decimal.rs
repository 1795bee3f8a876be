//! The decimal numbers that floats stand for.
//!
//! Times and spans are written as decimal numbers: 0.1, and 0.9 nine steps later. In single precision 0.9 is
//! 0.89999998, and three times the float64 nearest to 0.1 is 0.30000000000000004. Displays round this away. A user then
//! gives 0.9, which lies beyond the last time, or 0.3, which is no time step. This module recovers the intended number:
//! the shortest decimal with that nearest float.

/// Larger powers of ten are not exact in float64.
const EXACT_POWER: u32 = 22;
/// Whole numbers up to this are exact.
const EXACT_WHOLE: u128 = 1 << 53;

/// The float64 nearest to the shortest decimal number that rounds to `x`. For the float32 0.10000000149011612 this is
/// 0.1.
pub fn of_single(x: f32) -> f64 {
    // Rust writes the shortest text that reads back as the same number; `f64` parses it, NaN and infinities included.
    format!("{x:e}").parse().unwrap_or(f64::from(x))
}

/// `x` as a whole number and its power of ten; `None` for NaN and infinities.
fn split(x: f64) -> Option<(i128, i32)> {
    let text = format!("{x:e}");
    let (digits, power) = text.split_once('e')?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let power: i32 = power.parse().ok()?;
    Some((format!("{whole}{part}").parse().ok()?, power - i32::try_from(part.len()).ok()?))
}

/// `m` times ten to the power of `power`, rounded once.
fn joined(m: i128, power: i32) -> Option<f64> {
    if m.unsigned_abs() <= EXACT_WHOLE && power.unsigned_abs() <= EXACT_POWER {
        // Both are exact, so this rounds as reading the decimal number does.
        let ten = 10f64.powi(power.abs());
        return Some(if power < 0 { m as f64 / ten } else { m as f64 * ten });
    }
    format!("{m}e{power}").parse().ok()
}

/// Evenly spaced numbers in decimal arithmetic: 0.3 after 0, 0.1 and 0.2, not 0.30000000000000004.
///
/// ```
/// let tenths = field::decimal::Multiples::new(0.0, 0.1);
/// assert_eq!([tenths.at(3), tenths.at(9)], [0.3, 0.9]);
/// assert_eq!(field::decimal::of_single(0.1), 0.1);
/// ```
#[derive(Copy, Clone, Debug)]
pub struct Multiples {
    from: f64,
    step: f64,
    /// Both as whole numbers times one power of ten, unless they are too large.
    whole: Option<([i128; 2], i32)>,
}

impl Multiples {
    /// `from`, `from + step`, and so on.
    pub fn new(from: f64, step: f64) -> Self {
        let whole = split(from).zip(split(step)).and_then(|(a, b)| {
            // The power of 0 is arbitrary.
            let power = match (a.0, b.0) {
                (0, _) => b.1,
                (_, 0) => a.1,
                _ => a.1.min(b.1),
            };
            let to = |(m, p): (i128, i32)| match m {
                0 => Some(0),
                _ => m.checked_mul(10i128.checked_pow(u32::try_from(p.checked_sub(power)?).ok()?)?),
            };
            Some(([to(a)?, to(b)?], power))
        });
        Self { from, step, whole }
    }

    /// Number `n`, counted from 0.
    pub fn at(&self, n: u32) -> f64 {
        if n == 0 {
            return self.from;
        }
        let exact = self.whole.and_then(|([from, step], power)| {
            joined(step.checked_mul(i128::from(n)).and_then(|way| way.checked_add(from))?, power)
        });
        exact.unwrap_or(self.from + self.step * f64::from(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_numbers_are_what_was_meant() {
        for n in 0..2000u32 {
            for places in [1, 10, 100, 1000] {
                let meant = f64::from(n) / f64::from(places);
                assert_eq!(of_single(meant as f32).to_bits(), meant.to_bits(), "{n} / {places}");
            }
        }
        for x in [0.1f32, 1.0 / 3.0, 1e-45, f32::MAX, f32::MIN_POSITIVE, 16_777_216.0, -2.5e-7, -0.0] {
            assert_eq!((of_single(x) as f32).to_bits(), x.to_bits(), "{x}");
        }
        assert_eq!(of_single(3.25e20), 3.25e20);
        assert!(of_single(f32::NAN).is_nan() && of_single(f32::NEG_INFINITY) == f64::NEG_INFINITY);
    }

    #[test]
    fn multiples_are_decimal() {
        let tenths = Multiples::new(0.0, 0.1);
        for n in 0..1000 {
            assert_eq!(tenths.at(n), f64::from(n) / 10.0, "{n}");
        }
        let down = Multiples::new(1.3, -0.4);
        assert_eq!([0, 1, 2, 3].map(|n| down.at(n)), [1.3, 0.9, 0.5, 0.1]);
        assert_eq!(Multiples::new(2.5, 0.0).at(7), 2.5);
        assert_eq!(Multiples::new(1e300, 1e300).at(3), 4e300);
    }

    /// The results equal those of float64 up to rounding.
    #[test]
    fn multiples_are_near_what_floats_make() {
        let third = 1.0 / 3.0;
        for (from, step) in [(0.8999999761581421, third), (1e18, 0.1), (1e-300, 1e300), (third, -1e-17)] {
            let made = Multiples::new(from, step);
            for n in [0, 1, 2, 10, 12_345, u32::MAX] {
                let float = from + step * f64::from(n);
                let slack = 4.0 * f64::EPSILON * (from.abs() + (step * f64::from(n)).abs());
                let near = (made.at(n) - float).abs() <= slack || made.at(n) == float;
                assert!(near, "{from} {step} {n}: {}", made.at(n));
            }
        }
        assert!(Multiples::new(f64::NAN, 1.0).at(1).is_nan() && Multiples::new(0.0, f64::INFINITY).at(1).is_infinite());
    }
}
