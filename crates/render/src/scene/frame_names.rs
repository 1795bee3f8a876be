//! Texts of a film's pictures: names of files, and times with equally many digits.

use std::path::{Path, PathBuf};

/// The name of a step's picture: `%04d` in the pattern becomes its number. `None` without a place for a number.
pub(super) fn numbered(pattern: &Path, step: usize) -> Option<PathBuf> {
    let text = pattern.to_str()?;
    let (before, rest) = text.split_once('%')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    let (width, after) = rest.split_at(digits);
    let after = after.strip_prefix('d')?;
    let width = if width.is_empty() { 0 } else { width.parse::<usize>().ok().filter(|w| *w <= 12)? };
    (!after.contains('%')).then(|| PathBuf::from(format!("{before}{step:0width$}{after}")))
}

/// A time with enough digits to distinguish all times of a series, equally many in every picture.
pub(super) fn fixed_point(time: f64, times: &[f64]) -> String {
    let gap = times.windows(2).map(|w| (w[1] - w[0]).abs()).filter(|g| *g > 0.0).fold(f64::INFINITY, f64::min);
    let gap = if gap.is_finite() { gap } else { time.abs().max(1.0) };
    let holds = |digits: &usize| {
        times.iter().all(|t| format!("{t:.digits$}").parse().is_ok_and(|p: f64| (p - t).abs() <= 1e-3 * gap))
    };
    let most = times.iter().fold(0.0f64, |m, t| m.max(t.abs()));
    match (0..=9).find(holds) {
        Some(digits) if most < 1e9 => format!("{time:.digits$}"),
        _ => format!("{time:.6e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_place_for_the_number() {
        let name = |pattern: &str| numbered(Path::new(pattern), 42).map(|p| p.display().to_string());
        assert_eq!(name("a/out_%04d.png").as_deref(), Some("a/out_0042.png"));
        assert_eq!(name("%d.png").as_deref(), Some("42.png"));
        assert_eq!(name("%1d.png").as_deref(), Some("42.png"));
        for bad in ["out.png", "%s.png", "%04d_%04d.png", "50%", "%99999999999d.png", "%"] {
            assert_eq!(name(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_have_the_same_digits_in_all_pictures() {
        let times = [0.5, 1.0, 1.25, 3.0];
        let all: Vec<String> = times.iter().map(|t| fixed_point(*t, &times)).collect();
        assert_eq!(all, ["0.50", "1.00", "1.25", "3.00"]);
        assert_eq!(fixed_point(2.0, &[0.0, 1.0, 2.0]), "2");
        assert_eq!(fixed_point(1e-12, &[0.0, 1e-12]), "1.000000e-12");
        assert_eq!(fixed_point(3e12, &[1e12, 3e12]), "3.000000e12");
    }
}
