//! The description of a dataset that `info` prints.

use crate::gridface::AXES;
use crate::session::{ProgressWatch, Session};
use crate::survey::{known, survey};
use field::catalog::{Catalog, DType};
use field::dataset::{Dataset, FieldName};
use field::derive::derived_field::DerivedField;
use field::derive::Definitions;
use field::error::FieldError;
use field::json::Each;
use field::quantity::DEFINITIONS;
use field::uniform::Uniform;
use serde::Serialize;
use serde_json::{json, Value};

fn finite(x: f64) -> Value {
    if x.is_finite() {
        json!(x)
    } else {
        Value::Null
    }
}

/// The files of a stored field of a zone at two steps.
fn files(dataset: &Dataset, zone: usize, name: &str, steps: [usize; 2]) -> Option<[String; 2]> {
    let array = dataset.catalog.zones[zone].arrays.iter().position(|a| a.name == name)?;
    let layout = dataset.format.as_ref()?.layout(zone, array)?;
    Some(steps.map(|step| layout.path(step).display().to_string()))
}

fn holders(dataset: &Dataset, name: &str) -> Vec<String> {
    dataset.zones_with(name).map(|zone| dataset.zones[zone].name.clone()).collect()
}

/// INFO as `_native.pyi` fixes it, in JSON. With `ranges`, the values that are otherwise null come from one pass over
/// the data in bounded memory. Outer faces of zones, which may be walls, are read a second time.
///
/// # Errors
/// [`FieldError`]. Without `ranges` only the coarsest ranges of a store are read.
pub fn info(session: &Session, ranges: bool, watch: &mut ProgressWatch<'_>) -> Result<String, FieldError> {
    let dataset = session.dataset();
    let c = &dataset.catalog;
    let found = if ranges { survey(session, &dataset, watch)? } else { known(session, &dataset)? };
    let null = Value::Null;
    let uniform = session.uniform();
    let zone = |n: usize| {
        let (z, d) = (&c.zones[n], &dataset.zones[n]);
        let header = z.headers.first().map_or(Value::Null, |h| {
            json!({"mach": finite(h.mach), "alpha": finite(h.alpha), "reynolds": finite(h.reynolds),
                   "time": finite(h.time), "gamma": finite(h.gamma)})
        });
        let blanks = found.blanks.get(n).filter(|_| d.iblank.is_some());
        let (values, unknown, others) = blanks.map_or((Value::Null, json!([]), Value::Null), |b| b.json());
        json!({
            "name": z.name, "dims": z.dims, "iblank": d.iblank.is_some(), "points": z.dims.iter().product::<usize>(),
            "page": d.translation.page, "pages": d.translation.count(), "box": found.boxes.get(n).unwrap_or(&null),
            "kind": found.kinds.get(n).map(|k| k.word()), "header": header, "iblank_values": values, "iblank_unknown": unknown,
            "iblank_others": others, "hidden_cells": blanks.map(|b| b.hidden_cells()), "uniform": uniform.get(n).and_then(|u| u.as_ref()).map(Uniform::value),
        })
    };
    let mut fields = Vec::new();
    for FieldName { name, first, zones } in dataset.field_names() {
        let (z, q) = (&dataset.zones[first], dataset.quantity(first, &name)?);
        let stored = c.zones[first].arrays.iter().find(|a| a.name == name);
        let d = DEFINITIONS.iter().find(|d| d.name == name && stored.is_none());
        let bad = found.not_numbers.get(&name).and_then(|n| n.steps);
        let dtype = stored
            .map_or_else(|| z.array("density").map_or("float64", |a| z.arrays[a].dtype.name()), |a| a.dtype.name());
        fields.push(json!({
            "name": name, "components": q.components(), "dtype": dtype, "units": dataset.units(&name),
            "standard_name": stored.map(|a| a.standard_name.as_str()).or(d.map(|d| d.standard_name)).unwrap_or(""),
            "long_name": dataset.long_name(&name), "derived": d.is_some(),
            "definition": d.map(|d| if d.number > 0 { format!("{} (PLOT3D function {})", d.formula, d.number) } else { d.formula.to_owned() }),
            "range": found.ranges.get(&name).unwrap_or(&null), "not_numbers": found.not_numbers.get(&name).map(|n| n.points),
            "not_numbers_steps": bad, "not_numbers_files": bad.and_then(|steps| files(&dataset, first, &name, steps)),
            "pages_skipped": null, "center": d.and_then(|d| d.centre), "defined": false,
            "zones": if zones == c.zones.len() { Value::Null } else { holders(&dataset, &name).into() },
        }));
    }
    let mut defined = Vec::new();
    if ranges {
        for (name, _) in session.defined() {
            defined.push((name.clone(), session.range(&name, watch)?));
        }
    }
    fields.extend(derived_fields(session, &dataset, &defined));
    fields.sort_by_key(|f| !f["zones"].is_null());
    let mut disk = 0u64;
    let steps = c.times.len().max(1) as u64;
    for (z, info) in dataset.zones.iter().zip(&c.zones) {
        for a in z.arrays.iter().filter(|a| !a.derived) {
            let n = if a.steady { 1 } else { steps };
            disk += n * (info.dims.iter().product::<usize>() * a.components * a.dtype.size()) as u64;
        }
    }
    let storage = dataset.format.as_ref().map(|f| f.storage()).unwrap_or_default();
    disk = storage.bytes.unwrap_or(disk);
    let page_bytes = dataset.zones.first().map_or(0, |z| z.translation.component * z.arrays[z.xyz].dtype.size());
    let beside = dataset.neighbour_bytes(&session.pager);
    let fields_traced = dataset.fields(Some("velocity"), &[], 0).or_else(|_| dataset.fields(None, &[], 0))?;
    let mut all = json!({
        "source": session.spec.path, "format": c.format, "guessed": c.guessed, "order_assumed": c.order_assumed, "dimension": c.dimension,
        "length_unit": dataset.length_unit(),
        "coordinates_dtype": dataset.zones.first().map_or("float64", |z| z.arrays[z.xyz].dtype.name()),
        "fields": fields, "times": c.times, "times_counted": c.times_counted, "times_gaps": gaps(&c.times), "time_units": c.time_units,
        "times_step": apart(&c.times), "times_equal": times_equal(c),
        "pages": {"total": dataset.page_count()?, "bytes": page_bytes}, "bytes_disk": disk, "bytes_memory": dataset.bytes(),
        "checked": dataset.checked(), "layout": storage.layout, "codec": storage.codec,
        "limit_least_bytes": crate::limits::enough_limit(beside + dataset.closure_bytes(&fields_traced, &session.pager, c.times.len().clamp(1, 2))),
        "walls": found.walls.map(|walls| walls.iter().map(|f| json!({
            "zone": dataset.zones[f.zone].name, "axis": AXES[f.axis], "index": f.index + 1,
        })).collect::<Vec<_>>()),
        "ranges_steps": found.steps, "ranges_with_blanked": found.with_holes, "settings": c.settings,
    });
    all["notes"] = json!(notes(&dataset));
    all["times_why"] = json!(c.untimed());
    let zones = Each(|| (0..c.zones.len()).map(zone));
    serde_json::to_string(&Info { all, zones }).map_err(|e| FieldError::format(&session.spec.path, e.to_string()))
}

/// INFO. Zones are made one by one as they are written. With a tree of values for 4,000 of them the process took 79 MB
/// instead of 52.
#[derive(Serialize)]
struct Info<Z> {
    zones: Z,
    #[serde(flatten)]
    all: Value,
}

/// The interval between steps, if all are equal to a millionth.
fn apart(times: &[f64]) -> Option<f64> {
    let (first, last) = (times.first()?, times.last().filter(|_| times.len() > 1)?);
    let mean = (last - first) / (times.len() - 1) as f64;
    let alike = times.windows(2).all(|t| (t[1] - t[0] - mean).abs() <= 1e-6 * mean.abs());
    (alike && mean > 0.0).then_some(mean)
}

/// The steps that have an equal time later. If equal times are the reason for numbered steps, the times of the headers
/// are compared.
fn times_equal(catalog: &Catalog) -> Vec<usize> {
    match catalog.zones.first().filter(|_| catalog.times_counted) {
        Some(zone) => equal(&zone.headers.iter().map(|h| h.time).collect::<Vec<_>>()),
        None => equal(&catalog.times),
    }
}

/// The same for any times.
fn equal(times: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|a, b| times[*a].total_cmp(&times[*b]));
    let mut found: Vec<usize> = order.windows(2).filter(|w| times[w[0]] == times[w[1]]).map(|w| w[0]).collect();
    found.sort_unstable();
    found
}

/// Remarks about the files. A store has none: its conversion has printed them.
fn notes(dataset: &Dataset) -> Vec<&str> {
    if dataset.is_in_place() {
        dataset.catalog.notes().collect()
    } else {
        Vec::new()
    }
}

/// A defined field's name, its range, and the number of pages not read for it.
type FieldRange = (String, (Option<[f64; 2]>, u64));

/// Fields computed through derived pages: the user's, then those of gradients.
fn derived_fields(session: &Session, dataset: &Dataset, ranges: &[FieldRange]) -> Vec<Value> {
    let all = dataset.zones.len();
    let held = |name: &str| {
        let zones = holders(dataset, name);
        if zones.len() == all {
            Value::Null
        } else {
            zones.into()
        }
    };
    let row = |made: &DerivedField,
               components: usize,
               dtype: DType,
               definition: String,
               centre: Option<f64>,
               of: &str| {
        json!({
            "name": made.name, "components": components, "dtype": dtype.name(), "units": made.units(), "standard_name": "",
            "long_name": made.long_name, "derived": true, "definition": definition, "range": null, "not_numbers": null,
            "not_numbers_steps": null, "not_numbers_files": null,
            "pages_skipped": null, "center": centre, "zones": held(of), "defined": false,
        })
    };
    let mut rows = Vec::new();
    for (name, text) in session.defined() {
        let zone = dataset.zones_with(&name).next().map(|n| &dataset.zones[n]);
        let slot = zone.and_then(|z| z.array(&name).map(|a| &z.arrays[a]));
        let made = dataset.made_named(&name).zip(slot).map(|(made, s)| (made.clone(), s.components, s.dtype));
        let known = made.is_some();
        // A field from a file of settings has no pages before the first use of its name.
        let definitions = session.definitions();
        let made = made.or_else(|| dataset.preview(&name, &definitions, &session.pager));
        if let Some((made, components, dtype)) = made {
            let mut found = row(&made, components, dtype, text, None, &name);
            found["defined"] = json!(true);
            if !known {
                let zones = dataset.previews(&name, &definitions, &session.pager);
                let names: Vec<&str> = zones.iter().map(|n| dataset.zones[*n].name.as_str()).collect();
                found["zones"] = if names.len() == all { Value::Null } else { json!(names) };
            }
            if let Some((_, (range, skipped))) = ranges.iter().find(|(n, _)| *n == name) {
                found["range"] = json!(range);
                found["pages_skipped"] = json!(skipped);
            }
            rows.push(found);
        }
    }
    for g in dataset.gradients() {
        let Some((made, components, dtype)) = dataset.preview(g.name, &Definitions::default(), &session.pager) else {
            continue;
        };
        let definition = match g.number {
            0 => g.expression.to_owned(),
            n => format!("{} (PLOT3D function {n})", g.expression),
        };
        rows.push(row(
            &made,
            components,
            dtype,
            definition,
            g.centre,
            if g.number == 210 { "pressure" } else { "velocity" },
        ));
    }
    rows
}

/// The steps before a gap: the interval after them is longer than 1.5 times the median.
pub fn gaps(times: &[f64]) -> Vec<usize> {
    let mut spans: Vec<f64> = times.windows(2).map(|t| t[1] - t[0]).collect();
    let each = spans.clone();
    spans.sort_by(f64::total_cmp);
    let Some(median) = spans.get(spans.len() / 2).copied() else { return Vec::new() };
    each.iter().enumerate().filter(|(_, span)| **span > 1.5 * median).map(|(n, _)| n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_are_found_in_any_order() {
        assert_eq!(equal(&[0.0, 0.25, 0.5, 0.5, 0.75]), [2]);
        assert_eq!(equal(&[0.5, 0.0, 0.5, 0.25, 0.5]), [0, 2]);
        assert_eq!(equal(&[3.0; 3]), [0, 1]);
        assert!(equal(&[0.0, f64::NAN, f64::NAN]).is_empty() && equal(&[]).is_empty());
    }
}
