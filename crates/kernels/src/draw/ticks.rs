//! Round numbers on a scale: steps of 1, 2 or 5 times a power of ten, and their labels.

/// Marks of a scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticks {
    /// Values in rising order, all within the range.
    pub values: Vec<f64>,
    /// The label of each value, without the common factor.
    pub labels: Vec<String>,
    /// Power of ten of the common factor of all labels; 0: none.
    pub exponent: i32,
}

/// Most digits of a label before all labels get a common power of ten.
const PLAIN_DIGITS: i32 = 5;

/// At most `most` marks on the range from `low` to `high`. A few more if needed for two marks.
///
/// A range without extent gets one mark, its value in four digits.
///
/// ```
/// let t = kernels::draw::ticks(0.0, 1.0, 6);
/// assert_eq!(t.labels, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
/// ```
pub fn ticks(low: f64, high: f64, most: usize) -> Ticks {
    let none = Ticks { values: Vec::new(), labels: Vec::new(), exponent: 0 };
    if !(low.is_finite() && high.is_finite() && low <= high) {
        return none;
    }
    let largest = low.abs().max(high.abs());
    let span = high - low;
    // Below this the numbers at both ends agree in all digits that a double has.
    if !(span > largest * 1e-12 && span.is_finite() && span > 1e-290) {
        let exponent = power_of(largest);
        let exponent = if (-3..PLAIN_DIGITS).contains(&exponent) { 0 } else { exponent };
        let value = low / 10f64.powi(exponent);
        let decimals = (3 - if exponent == 0 { power_of(value) } else { 0 }).clamp(0, 9) as usize;
        return Ticks { values: vec![low], labels: vec![written(value, decimals)], exponent };
    }
    let (factor, power) = step(low, high, most.max(2));
    let size = factor as f64;
    // Steps are counted in integers, so that no tick has the rounding of earlier ones.
    let unit = |i: f64| if power < 0 { i * size / 10f64.powi(-power) } else { i * size * 10f64.powi(power) };
    let width = unit(1.0);
    let (first, last) = ((low / width - 1e-6).ceil(), (high / width + 1e-6).floor());
    let mut values = Vec::new();
    let mut i = first;
    while i <= last {
        values.push(unit(i).clamp(low, high));
        i += 1.0;
    }
    let top = power_of(largest);
    let exponent = if (-3..PLAIN_DIGITS).contains(&top) { 0 } else { top };
    let decimals = (exponent - power).clamp(0, 15) as usize;
    let scale = 10f64.powi(exponent.abs());
    let labels = (0..values.len()).map(|k| {
        let v = unit(first + k as f64);
        written(if exponent < 0 { v * scale } else { v / scale }, decimals)
    });
    let labels = labels.collect();
    Ticks { values, labels, exponent }
}

/// The least step of 1, 2 or 5 times a power of ten with at most `most` marks. One smaller if that gives one mark or
/// none.
fn step(low: f64, high: f64, most: usize) -> (u32, i32) {
    let marks = |(factor, power): (u32, i32)| {
        let width = f64::from(factor) * 10f64.powi(power);
        ((high / width + 1e-6).floor() - (low / width - 1e-6).ceil() + 1.0).max(0.0)
    };
    let mut finer = (5, power_of((high - low) / most as f64) - 2);
    loop {
        let next = match finer {
            (1, p) => (2, p),
            (2, p) => (5, p),
            (_, p) => (1, p + 1),
        };
        let n = marks(next);
        if n <= most as f64 {
            return if n < 2.0 { finer } else { next };
        }
        finer = next;
    }
}

/// The power of ten of a number's first digit; 0 for zero.
fn power_of(v: f64) -> i32 {
    if !v.is_finite() {
        return 0;
    }
    // Written out, since the logarithm of 1000 is slightly below 3.
    let written = format!("{v:e}");
    written.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0)
}

fn written(v: f64, decimals: usize) -> String {
    let plain = format!("{v:.decimals$}");
    let digits = plain.trim_start_matches('-');
    let zero = digits.bytes().all(|b| b == b'0' || b == b'.');
    if plain.starts_with('-') && !zero {
        format!("\u{2212}{digits}")
    } else {
        digits.to_owned()
    }
}

/// A whole number in superscript digits.
///
/// ```
/// assert_eq!(kernels::draw::superscript(-12), "⁻¹²");
/// ```
pub fn superscript(v: i32) -> String {
    v.to_string()
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            // The other superscript digits follow from U+2070 on.
            d => char::from_u32(0x2070 + (d as u32 - '0' as u32)).unwrap_or(d),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_one_two_five() {
        assert_eq!(ticks(0.0, 10.0, 6).labels, ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(ticks(-1.0, 1.0, 5).labels, ["\u{2212}1.0", "\u{2212}0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(ticks(0.13, 0.87, 5).labels, ["0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(ticks(101_300.0, 101_340.0, 5).exponent, 5);
        assert_eq!(ticks(0.0, 2.5e-7, 6).labels, ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]);
        assert_eq!(ticks(0.0, 2.5e-7, 6).exponent, -7);
        assert_eq!(ticks(0.0, 3e9, 4).labels, ["0", "1", "2", "3"]);
    }

    #[test]
    fn every_range_gives_few_round_values_inside() {
        let mut seed = 12345u64;
        let mut random = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 11) as f64 / (1u64 << 53) as f64
        };
        for _ in 0..5000 {
            let size = 10f64.powf(random() * 40.0 - 20.0);
            let low = (random() - 0.5) * size;
            let high = low + random() * size;
            let most = 2 + (random() * 9.0) as usize;
            let t = ticks(low, high, most);
            assert!(t.values.len() >= 2 && t.values.len() <= most.max(5), "{low} {high} {most} {t:?}");
            assert_eq!(t.values.len(), t.labels.len());
            assert!(t.values.iter().all(|v| (low..=high).contains(v)));
            assert!(t.values.windows(2).all(|w| w[0] < w[1]), "{low} {high} {most}");
            let mut labels = t.labels.clone();
            labels.dedup();
            assert_eq!(labels.len(), t.labels.len(), "{low} {high} {:?}", t.labels);
            for (v, l) in t.values.iter().zip(&t.labels) {
                let back: f64 = l.replace('\u{2212}', "-").parse::<f64>().unwrap() * 10f64.powi(t.exponent);
                assert!((back - v).abs() <= 1e-5 * (high - low), "{l} {v} {low} {high}");
            }
        }
    }

    #[test]
    fn odd_ranges() {
        assert_eq!(ticks(3.0, 3.0, 5).labels, ["3.000"]);
        assert_eq!(ticks(0.0, 0.0, 5).labels, ["0.000"]);
        assert_eq!(ticks(f64::NAN, 1.0, 5).values, Vec::<f64>::new());
        assert_eq!(ticks(2.0, 1.0, 5).values, Vec::<f64>::new());
        assert_eq!(ticks(1e300, 1e300, 5).labels, ["1.000"]);
        assert_eq!(ticks(-f64::MAX, f64::MAX, 5).values.len(), 1);
        assert_eq!(superscript(-1230), "⁻¹²³⁰");
    }
}
