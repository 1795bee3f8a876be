//! Colours of values, settled when all drawn objects are known.

use super::document::{MapSpec, Rgb, SceneDocument};
use super::geometry_log::Range;
use super::objects::{LinesFrom, Object};
use crate::picture::ColourMap;
use extract::cores::{unit_of_strength, Method};
use field::error::FieldError;
use field::expression::parse::in_words;
use kernels::draw::readable;
use runtime::session::Session;

/// A map with its range.
pub(crate) struct RangedMap {
    pub(crate) name: String,
    pub(crate) field: String,
    pub(crate) units: Option<String>,
    pub(crate) range: [f64; 2],
    pub(crate) label: String,
    pub(crate) colours: ColourMap,
    /// Colours from low to high.
    pub(crate) lut: Vec<Rgb>,
}

impl RangedMap {
    /// Whether no drawn value exists. Then there is no range, and a bar would invent one.
    pub(crate) fn is_empty(&self) -> bool {
        self.range[0] >= self.range[1]
    }

    /// The range, if there is one.
    pub(crate) fn shown(&self) -> Option<[f64; 2]> {
        (!self.is_empty()).then_some(self.range)
    }
}

/// The maps that colour an object or have a bar, in order. These are settled.
fn used(document: &SceneDocument) -> impl Iterator<Item = &(String, MapSpec)> {
    let is_used = move |name: &String| document.bars.contains(name) || document.objects.iter().any(|o| o.uses(name));
    document.maps.iter().filter(move |(name, _)| is_used(name))
}

/// Whether the settled ranges are the ones that the scene gives for all maps.
pub(crate) fn says_ranges(document: &SceneDocument, ranges: &[[f64; 2]]) -> bool {
    let near = |a: f64, b: f64, span: f64| (a - b).abs() <= 1e-9 * span;
    let says = |map: &MapSpec, settled: &[f64; 2]| match map.range {
        Some(said) => (0..2).all(|end| near(said[end], settled[end], said[1] - said[0])),
        None => false,
    };
    used(document).count() == ranges.len() && used(document).zip(ranges).all(|((_, map), settled)| says(map, settled))
}

/// Settles the maps for all gathered objects, of one picture or many. `known`: ranges settled before, in the order of
/// the used maps.
pub(crate) fn settle_maps(
    document: &SceneDocument,
    ranges: &[Range],
    session: Option<&Session>,
    known: Option<&[[f64; 2]]>,
) -> Result<Vec<RangedMap>, FieldError> {
    let mut settled = Vec::new();
    for (name, map) in used(document) {
        let mut found = Range::EMPTY;
        for (object, range) in document.objects.iter().zip(ranges) {
            if object.uses(name) {
                found = found.union(*range);
            }
        }
        let signed = map.signed.as_ref().filter(|_| map.center.is_none());
        let range = match (map.range, found.ends(), map.center) {
            _ if known.is_some_and(|k| k.len() > settled.len()) => known.map_or([0.0; 2], |k| k[settled.len()]),
            (Some(r), _, _) => r,
            (None, Some(r), Some(c)) => readable(around(r, c)),
            (None, Some(r), None) if signed.is_some() && is_signed(r) => readable(around(r, 0.0)),
            (None, Some(r), None) => readable(r),
            // No value: everything has the colour of NaN.
            (None, None, c) => [c.unwrap_or(0.0); 2],
        };
        let lut = match (map.center, signed) {
            (Some(c), _) => centred(&map.lut, range, c),
            (None, Some(colours)) if is_signed(range) => centred(colours, range, 0.0),
            _ => map.lut.clone(),
        };
        let units = map.units.clone().or_else(|| session.map(|s| unit_of(document, s, name, &map.field)));
        let label = map.label.clone().unwrap_or_else(|| match session {
            Some(session) => session.dataset().title(&map.field),
            None => in_words(&map.field),
        });
        let colours =
            ColourMap::new(lut.clone(), range).map_err(|e| FieldError::Usage(format!("scene: maps.{name}: {e}")))?;
        settled.push(RangedMap { name: name.clone(), field: map.field.clone(), units, range, label, colours, lut });
    }
    Ok(settled)
}

/// A label or unit with raised powers: `(a_inf^2 / L)`, and in a `unit` also `kg m-3`.
pub(crate) fn raised(text: &str, unit: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    while let Some(c) = chars.get(at) {
        let behind = at.checked_sub(1).and_then(|n| chars.get(n)).copied().unwrap_or(' ');
        let digits = at + usize::from(*c == '^');
        let signed = digits + usize::from(chars.get(digits) == Some(&'-'));
        let end = chars.iter().skip(signed).take_while(|c| c.is_ascii_digit()).count() + signed;
        let power: Option<i32> = chars.get(digits..end).and_then(|p| p.iter().collect::<String>().parse().ok());
        // `x^0.5` has no whole power, and the 2 of `H2O` is none.
        let whole = !chars.get(end).is_some_and(|next| *next == '.' || next.is_alphanumeric() || *next == '_');
        let is_power = *c == '^' || unit && (behind.is_alphabetic() || behind == ')');
        match power.filter(|_| whole && is_power) {
            Some(power) => {
                out.push_str(&kernels::draw::superscript(power));
                at = end;
            }
            None => {
                out.push(*c);
                at += 1;
            }
        }
    }
    out
}

/// Unit of a map's field. Times of lines are no fields: particles have the dataset's unit, streamlines that of length
/// by speed. The unit of a vortex core's strength depends on the method.
fn unit_of(document: &SceneDocument, session: &Session, map: &str, field: &str) -> String {
    let dataset = session.dataset();
    let cores = document.objects.iter().find_map(|o| match o {
        Object::Cores { options, paint, .. } if paint.map.as_deref() == Some(map) => Some(options),
        _ => None,
    });
    if let Some(options) = cores.filter(|_| field == "strength" && dataset.zones_with(field).next().is_none()) {
        let method = options["method"].as_str().and_then(Method::named).unwrap_or_default();
        return unit_of_strength(&dataset, method, options["field"].as_str().unwrap_or("velocity"));
    }
    let is_time = ["time", "line_time", "birth", "age"].contains(&field);
    if !is_time || dataset.zones_with(field).next().is_some() {
        return dataset.units(field);
    }
    let traced = document.objects.iter().find_map(|o| match o {
        Object::Lines { from: LinesFrom::Trace(how), paint, .. } if paint.map.as_deref() == Some(map) => Some(how),
        _ => None,
    });
    match traced {
        Some(how) if matches!(how["kind"].as_str(), None | Some("streamline")) => {
            dataset.travel_time_unit(how["field"].as_str().unwrap_or("velocity"))
        }
        Some(_) => dataset.catalog.time_units.clone(),
        None => dataset.units(field),
    }
}

/// The automatic range of values with a reference value. Values on both sides give a range symmetric to it. Values on
/// one side give a range from it, or their own range if all are far from it.
pub(crate) fn around([low, high]: [f64; 2], c: f64) -> [f64; 2] {
    let reach = (high - c).abs().max((c - low).abs());
    if low < c && high > c {
        [c - reach, c + reach]
    } else if low >= c {
        [if low - c > FAR * reach { low } else { c }, high]
    } else {
        [low, if c - high > FAR * reach { high } else { c }]
    }
}

/// Whether values lie on both sides of zero, beyond mere overshoot.
fn is_signed([low, high]: [f64; 2]) -> bool {
    low < 0.0 && high > 0.0 && (-low).min(high) >= OVERSHOOT * (-low).max(high)
}

/// Share of the reach to the farther side that counts as overshoot.
const OVERSHOOT: f64 = 0.05;

/// Values are far from the reference value if all lie beyond this share of the farthest one's distance.
const FAR: f64 = 0.5;

/// The part of a diverging map for a range: the middle colour is at the reference value, and equal distances differ
/// equally. A range on one side of it has that side's colours from end to end.
pub(crate) fn centred(lut: &[Rgb], [low, high]: [f64; 2], c: f64) -> Vec<Rgb> {
    let reach = (high - c).abs().max((c - low).abs());
    let place = |v: f64| 0.5 + 0.5 * (v - c) / reach;
    let [from, to] = match () {
        () if reach <= 0.0 => [0.0, 1.0],
        () if low >= c => [0.5, 1.0],
        () if high <= c => [0.0, 0.5],
        () => [place(low), place(high)],
    };
    if [from, to] == [0.0, 1.0] || lut.is_empty() {
        return lut.to_vec();
    }
    let last = lut.len() as f64 - 1.0;
    let entry = |n: usize| lut[((from + (to - from) * n as f64 / (CENTRED - 1) as f64) * last).round() as usize];
    (0..CENTRED).map(entry).collect()
}

/// Colours of a part of a map, as many as the eye can distinguish.
const CENTRED: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_on_both_sides_of_zero_is_signed() {
        assert!(is_signed([-1.0, 2.0]) && is_signed([-0.1, 1.0]));
        assert!(
            !is_signed([0.0, 2.0]) && !is_signed([-0.01, 1.0]) && !is_signed([-3.0, 0.0]) && !is_signed([1.0, 2.0])
        );
    }

    #[test]
    fn powers_are_raised() {
        for (text, unit, shown) in [
            ("kg m-3", true, "kg m⁻³"),
            ("m s-1", true, "m s⁻¹"),
            ("m^2/s", true, "m²/s"),
            ("m^(-3/2)", true, "m^(-3/2)"),
            ("speed / (a_inf^2 / L)", false, "speed / (a_inf² / L)"),
            ("x^0.5", false, "x^0.5"),
            ("grad_u2 / L", false, "grad_u2 / L"),
            ("(a_inf / L)^2", false, "(a_inf / L)²"),
        ] {
            assert_eq!(raised(text, unit), shown);
        }
    }
}
