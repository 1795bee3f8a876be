//! How values become colours, once all that is drawn is known.

use super::document::{Document, LinesFrom, Object, Rgb};
use super::pieces::Range;
use crate::picture::ColourMap;
use crate::session::Session;
use field::error::FieldError;

/// A map with its range.
pub(crate) struct Settled {
    pub(crate) name: String,
    pub(crate) field: String,
    pub(crate) units: Option<String>,
    pub(crate) range: [f64; 2],
    pub(crate) label: String,
    pub(crate) colours: ColourMap,
}

/// Settles the maps for all that was gathered: object by object, in one picture or many. `known` are ranges that were settled before,
/// in the order of the maps that are used.
pub(crate) fn settle_maps(
    document: &Document,
    ranges: &[Range],
    session: Option<&Session>,
    known: Option<&[[f64; 2]]>,
) -> Result<Vec<Settled>, FieldError> {
    let mut settled = Vec::new();
    for (name, map) in &document.maps {
        let mut found = Range::EMPTY;
        let mut used = document.bars.contains(name);
        for (object, range) in document.objects.iter().zip(ranges) {
            if let Object::Lines { paint, .. } | Object::Surface { paint, .. } = object {
                if paint.map.as_ref() == Some(name) {
                    found = found.union(*range);
                    used = true;
                }
            }
        }
        if !used {
            continue;
        }
        let range = match (map.range, found.ends(), map.center) {
            _ if known.is_some_and(|k| k.len() > settled.len()) => known.map_or([0.0; 2], |k| k[settled.len()]),
            (Some(r), _, _) => r,
            (None, Some(r), Some(c)) => readable(around(r, c)),
            (None, Some(r), None) => readable(r),
            (None, None, c) => readable([c.unwrap_or(0.0); 2]),
        };
        let lut = map.center.map_or_else(|| map.lut.clone(), |c| centred(&map.lut, range, c));
        let units = map.units.clone().or_else(|| session.map(|s| unit_of(document, s, name, &map.field)));
        let label = map
            .label
            .clone()
            .unwrap_or_else(|| session.map_or_else(|| map.field.clone(), |s| s.dataset().long_name(&map.field)));
        let colours = ColourMap::new(lut, range).map_err(|e| FieldError::Usage(format!("scene: maps.{name}: {e}")))?;
        settled.push(Settled { name: name.clone(), field: map.field.clone(), units, range, label, colours });
    }
    Ok(settled)
}

/// Unit of what a map shows. Times that lines have are no fields: those of particles are the dataset's, those of streamlines follow from
/// lengths and speeds.
fn unit_of(document: &Document, session: &Session, map: &str, field: &str) -> String {
    let dataset = session.dataset();
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

/// An automatic range of values that have a reference value: as far to one side of it as to the other where they lie on both,
/// else from it, or, where all of them are far from it, their own.
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

/// Share of the distance to the farthest value below which nothing lies when all values are far from the reference value.
const FAR: f64 = 0.5;

/// The part of a diverging map that a range takes, so that its middle colour stands at the reference value and equal distances
/// look alike. A range on one side of it gets that side's colours from end to end.
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

/// Colours of a part of a map: as many as the eye tells apart.
const CENTRED: usize = 256;

/// An automatic range as a scale can show it: the noise of a wall at rest is zero, and a constant gets a range around it.
pub(crate) fn readable([low, high]: [f64; 2]) -> [f64; 2] {
    let most = low.abs().max(high.abs());
    if high - low <= NOISE * most || most == 0.0 {
        let reach = if most > 0.0 { most * 0.01 } else { 1.0 };
        return [low - reach, high + reach];
    }
    let clean = |v: f64| if v.abs() < NOISE * most { 0.0 } else { v };
    [clean(low), clean(high)]
}

/// Share of the largest value below which a difference is rounding in single precision.
const NOISE: f64 = 1e-6;
