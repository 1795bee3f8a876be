//! Seeds from a user's text.

use super::context::{planar, Dimension, SeedContext};
use super::error::SeedError;
use super::file;
use super::forms::SHAPES;
use super::shapes::{IjkRange, Seeds};
use std::path::Path;

/// Most seeds that every output can number (offsets and their sums are signed 64-bit).
const MAX_SEEDS: u64 = 1 << 40;

/// Parses a shape or opens a file.
pub(crate) fn parse(spec: &str, reading: &mut SeedContext<'_, '_>) -> Result<Seeds, SeedError> {
    if let Some(parsed) = parse_shape(spec, reading.dimension) {
        return parsed;
    }
    let path = Path::new(spec);
    let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    if matches!(extension.as_deref(), Some("csv" | "npy" | "vtp")) {
        return file::open(path, reading);
    }
    let reason = if path.is_file() {
        "a file of seeds ends in .csv, .npy or .vtp".to_owned()
    } else {
        match spec.split_once(':') {
            Some((word, _)) => format!("'{word}' is no shape of seeds"),
            None => "it is neither a shape nor a file".to_owned(),
        }
    };
    Err(SeedError::Unknown { spec: shown(spec), reason })
}

/// Parses a shape. `None`: the text does not begin like one.
pub(crate) fn parse_shape(spec: &str, dimension: Dimension) -> Option<Result<Seeds, SeedError>> {
    let (word, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let (_, form3, form2) = SHAPES.iter().find(|(name, ..)| *name == word)?;
    let parsed = shape(word, rest, dimension).and_then(|seeds| match seeds.len() {
        // The lengths saturate, so an overflow is above the limit, too.
        n if n > MAX_SEEDS => Err(format!("{n} seeds are more than can be numbered")),
        _ => Ok(seeds),
    });
    let form = if dimension == Dimension::Two { form2 } else { form3 };
    Some(parsed.map_err(|reason| SeedError::Shape { spec: shown(spec), reason, form }))
}

/// A text as messages show it.
fn shown(spec: &str) -> String {
    let mut short: String = spec.chars().take(200).map(|c| if c.is_control() { '?' } else { c }).collect();
    if spec.chars().nth(200).is_some() {
        short.push_str("...");
    }
    short
}

fn shape(word: &str, rest: &str, dimension: Dimension) -> Result<Seeds, String> {
    if word == "ijk" {
        return ijk(rest, dimension);
    }
    let mut parts: Vec<&str> = rest.split(':').collect();
    // Units and odd names may hold colons.
    let condition = if word == "random" { rest.splitn(3, ':').nth(2) } else { None };
    if condition.is_some() {
        parts.truncate(2);
    }
    let axes = if dimension == Dimension::Two { 2 } else { 3 };
    let due = match word {
        "point" => 1,
        "line" | "sphere" | "scatter" => 3,
        "plane" => 5,
        "box" => 2 + axes,
        _ => 2,
    };
    if parts.len() != due {
        return Err(format!("it has {} parts behind '{word}' where {due} are due", parts.len()));
    }
    let position = |at: usize| position(parts[at], dimension);
    let count = |at: usize| count(parts[at]);
    Ok(match word {
        "point" => Seeds::Point(position(0)?),
        "line" => Seeds::Line { from: position(0)?, to: position(1)?, count: count(2)? },
        "plane" => Seeds::Plane {
            origin: position(0)?,
            first: position(1)?,
            second: position(2)?,
            counts: [count(3)?, count(4)?],
        },
        "box" => {
            let (low, high) = (position(0)?, position(1)?);
            if low.iter().zip(&high).any(|(low, high)| low > high) {
                return Err("its second corner is not the highest".into());
            }
            let third = if dimension == Dimension::Two { 1 } else { count(4)? };
            Seeds::Box { low, high, counts: [count(2)?, count(3)?, third] }
        }
        "sphere" => {
            let (centre, radius, count) = (position(0)?, number(parts[1])?, count(2)?);
            if radius < 0.0 {
                return Err(format!("its radius {radius} is negative"));
            }
            match dimension {
                Dimension::Two => Seeds::Circle { centre, radius, count },
                Dimension::Three => Seeds::Sphere { centre, radius, count },
            }
        }
        "scatter" => {
            let (low, high) = (position(0)?, position(1)?);
            if low.iter().zip(&high).any(|(low, high)| low > high) {
                return Err("its second corner is not the highest".into());
            }
            Seeds::Scatter { low, high, count: count(2)? }
        }
        _ => {
            let seed = parts[1].trim().parse();
            let seed = seed.map_err(|_| format!("'{}' is not a whole number from 0 on", shown(parts[1])))?;
            match condition.map(str::trim) {
                None if word == "interest" => Seeds::Interest { count: count(0)?, seed },
                None => Seeds::Random { count: count(0)?, seed },
                Some("") => return Err("its condition is missing".into()),
                Some(text) => Seeds::Where { count: count(0)?, seed, condition: text.to_owned() },
            }
        }
    })
}

fn number(text: &str) -> Result<f64, String> {
    let value: f64 = text.trim().parse().map_err(|_| match text.trim() {
        "" => "a number is missing".to_owned(),
        text => format!("'{}' is not a number", shown(text)),
    })?;
    if !value.is_finite() {
        return Err(format!("'{}' is not a finite number", shown(text)));
    }
    Ok(value)
}

fn count(text: &str) -> Result<u64, String> {
    match text.trim().parse::<u64>() {
        Ok(0) => Err("a count must be at least 1".into()),
        Ok(n) => Ok(n),
        Err(_) => Err(format!("'{}' is not a count (a whole number from 1 on)", shown(text.trim()))),
    }
}

fn position(text: &str, dimension: Dimension) -> Result<[f64; 3], String> {
    let numbers = text.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
    planar(&numbers, dimension).ok_or_else(|| match dimension {
        Dimension::Two if numbers.len() == 3 => {
            format!("'{}' has a z that is not 0, but the data is 2-D", shown(text))
        }
        Dimension::Two => format!("'{}' has {} coordinates; the data is 2-D and takes x,y", shown(text), numbers.len()),
        Dimension::Three => {
            format!("'{}' has {} coordinates; the data is 3-D and takes x,y,z", shown(text), numbers.len())
        }
    })
}

fn ijk(rest: &str, dimension: Dimension) -> Result<Seeds, String> {
    // Zone names may hold colons: the last colon counts.
    let (zone, axes) = rest.rsplit_once(':').ok_or("it has no zone")?;
    if zone.trim().is_empty() {
        return Err("it has no zone".into());
    }
    let ranges = axes.split(',').map(range).collect::<Result<Vec<_>, _>>()?;
    let flat = IjkRange { first: 0.0, last: 0.0, count: 1 };
    let axes = match (&ranges[..], dimension) {
        ([i, j, k], _) => [*i, *j, *k],
        ([i, j], Dimension::Two) => [*i, *j, flat],
        _ => return Err(format!("it has {} indices", ranges.len())),
    };
    Ok(Seeds::Ijk { zone: zone.trim().to_owned(), axes })
}

/// `2.5`, `1-33` or `1-33/5`, 1-based as users count.
fn range(text: &str) -> Result<IjkRange, String> {
    let text = text.trim();
    let (ends, count_text) = match text.split_once('/') {
        Some((ends, n)) => (ends, Some(n)),
        None => (text, None),
    };
    let (first, last) = match ends.split_once('-') {
        Some((first, last)) => (index(first)?, Some(index(last)?)),
        None => (index(ends)?, None),
    };
    let count = match (last, count_text) {
        (None, None) => 1,
        (None, Some(_)) => return Err(format!("'{}' has a count but no range", shown(text))),
        (Some(_), Some(n)) => count(n)?,
        // Every integer step from the first index. A range shorter than that is its first end. Both ends are below
        // 2^53, so exact.
        (Some(last), None) => (last - first).abs().floor() as u64 + 1,
    };
    let last = match (last, count_text) {
        (Some(last), Some(_)) => last,
        (Some(last), None) => first + (last - first).abs().floor().copysign(last - first),
        (None, _) => first,
    };
    Ok(IjkRange { first: first - 1.0, last: last - 1.0, count })
}

fn index(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value = if plain { text.parse::<f64>().ok() } else { None };
    match value {
        // From 2^53 neighbours are equal, and no zone is as long.
        Some(value) if (1.0..9_007_199_254_740_992.0).contains(&value) => Ok(value),
        Some(value) => Err(format!("index {value} is below 1 or beyond any zone")),
        None => Err(format!("'{}' is not an index", shown(text))),
    }
}

/// For fuzzing: any text either parses or is an error, and every seed of a parsed text has a position. Only shapes: no
/// file is opened.
pub fn fuzz_spec(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for dimension in [Dimension::Two, Dimension::Three] {
        if let Some(Ok(seeds)) = parse_shape(text, dimension) {
            for index in [0, seeds.len() / 2, seeds.len().saturating_sub(1)] {
                let _ = seeds.get(index);
            }
        }
    }
}
