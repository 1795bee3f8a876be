//! What a dataset is, as `info` prints it.

use crate::gridkind::GridKind;
use crate::session::{charge_other, Session, Watch};
use crate::surfaces::AXES;
use crate::values::{visit_box, walls, NodeBox};
use field::dataset::{Dataset, Origin};
use field::error::FieldError;
use field::plot3d::iblank::Blank;
use field::quantity::{Quantity, DEFINITIONS};
use serde_json::{json, Map, Value};

/// A number, or null where it is none.
fn finite(x: f64) -> Value {
    if x.is_finite() {
        json!(x)
    } else {
        Value::Null
    }
}

#[derive(Default)]
struct Found {
    ranges: Map<String, Value>,
    boxes: Vec<Value>,
    blanks: Vec<Value>,
    kinds: Vec<Value>,
    walls: Value,
}

/// Ranges and boxes by reading everything once, in bounded memory.
fn survey(session: &Session, dataset: &Dataset, watch: &mut Watch<'_>) -> Result<Found, FieldError> {
    let mut found = Found::default();
    let mut ranges: Vec<(String, f64, f64)> = Vec::new();
    for (zone, z) in dataset.zones.iter().enumerate() {
        let names: Vec<String> = Quantity::names(z);
        let mut fields = vec![Quantity::Stored { array: z.xyz, components: z.arrays[z.xyz].components }];
        fields.extend(z.iblank.map(|array| Quantity::Stored { array, components: 1 }));
        let first = fields.iter().map(|q| q.components()).sum::<usize>();
        let planar = z.arrays[z.xyz].components < 3;
        for n in &names {
            fields.push(dataset.quantity(zone, n)?);
        }
        let widths: Vec<usize> =
            names.iter().map(|n| dataset.quantity(zone, n).map(|q| q.components())).collect::<Result<_, _>>()?;
        let mut bounds = [[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]];
        let mut low = vec![f64::INFINITY; names.len()];
        let mut high = vec![f64::NEG_INFINITY; names.len()];
        let mut blanks: Vec<(i32, u64)> = Vec::new();
        let _charged = charge_other(&session.pager, GridKind::bytes(z.dims()), "looking at the kind of the grid")?;
        let mut kind = GridKind::new(z.dims());
        let whole = NodeBox { zone, step: 0, lo: [0; 3], hi: z.dims() };
        visit_box(session, dataset, whole, &fields, watch, &mut |at, v| {
            kind.node(at, &v[..if planar { 2 } else { 3 }]);
            for c in 0..if planar { 2 } else { 3 } {
                bounds[0][c] = bounds[0][c].min(v[c]);
                bounds[1][c] = bounds[1][c].max(v[c]);
            }
            let mut hole = false;
            if z.iblank.is_some() {
                let b = v[first - 1] as i32;
                hole = b == 0;
                match blanks.iter().position(|(k, _)| *k == b) {
                    Some(n) => blanks[n].1 += 1,
                    None if blanks.len() < 64 => blanks.push((b, 1)),
                    None => {}
                }
            }
            let mut at = first;
            for (n, w) in widths.iter().enumerate() {
                let x = if *w == 1 { v[at] } else { v[at..at + w].iter().map(|c| c * c).sum::<f64>().sqrt() };
                at += w;
                if !hole && x.is_finite() {
                    low[n] = low[n].min(x);
                    high[n] = high[n].max(x);
                }
            }
            true
        })?;
        if planar {
            (bounds[0][2], bounds[1][2]) = (0.0, 0.0);
        }
        // Of a grid without a number there is no box.
        let known = bounds.as_flattened().iter().all(|v| v.is_finite());
        found.boxes.push(if known { json!(bounds) } else { Value::Null });
        found.kinds.push(kind.word().into());
        blanks.sort_unstable();
        found.blanks.push(if z.iblank.is_some() {
            Value::Object(blanks.iter().map(|(k, n)| (k.to_string(), json!(n))).collect())
        } else {
            Value::Null
        });
        for (n, name) in names.into_iter().enumerate() {
            match ranges.iter_mut().find(|r| r.0 == name) {
                Some(r) => {
                    r.1 = r.1.min(low[n]);
                    r.2 = r.2.max(high[n]);
                }
                None => ranges.push((name, low[n], high[n])),
            }
        }
    }
    for (name, lo, hi) in ranges {
        found.ranges.insert(name, if lo <= hi { json!([lo, hi]) } else { Value::Null });
    }
    found.walls = walls_json(session, dataset, watch)?;
    Ok(found)
}

/// Ranges of stored scalars and boxes of zones out of the coarsest levels that `convert` or an index keeps: a few pages.
fn known(session: &Session, dataset: &Dataset) -> Result<Found, FieldError> {
    let mut found = Found { walls: Value::Null, ..Found::default() };
    let mut worker = session.pager.worker();
    let mut ranges: Vec<(String, f64, f64)> = Vec::new();
    for (n, z) in dataset.zones.iter().enumerate() {
        let mut bounds: Option<[[f64; 3]; 2]> = None;
        if let Some(top) = z.boxes.last() {
            each_of_level(session, &mut worker, top.id, &top.translation, 6, &mut |c| {
                let b = bounds.get_or_insert([[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]]);
                for a in 0..3 {
                    b[0][a] = b[0][a].min(c[a]);
                    b[1][a] = b[1][a].max(c[a + 3]);
                }
            })?;
        }
        let finite = bounds.filter(|b| b.as_flattened().iter().all(|v| v.is_finite()));
        found.boxes.push(finite.map_or(Value::Null, |b| json!(b)));
        let levels = dataset.ranges.get(n).map_or(&[][..], |l| &l[..]);
        for (array, level) in z.arrays.iter().zip(levels) {
            let Some(top) = level.last().filter(|_| array.components == 1) else { continue };
            let t = field::translate::Translation::new(top.paging.dims, top.paging.page);
            let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
            each_of_level(session, &mut worker, top.id, &t, 2, &mut |c| {
                lo = lo.min(c[0]);
                hi = hi.max(c[1]);
            })?;
            match ranges.iter_mut().find(|r| r.0 == array.name) {
                Some(r) => (r.1, r.2) = (r.1.min(lo), r.2.max(hi)),
                None => ranges.push((array.name.clone(), lo, hi)),
            }
        }
    }
    for (name, lo, hi) in ranges {
        found.ranges.insert(name, if lo <= hi { json!([lo, hi]) } else { Value::Null });
    }
    Ok(found)
}

/// Calls `each` with the components of every element of a level: float32 for boxes (six), float64 for ranges (two).
fn each_of_level(
    session: &Session,
    worker: &mut pager::Worker,
    id: pager::ArrayId,
    t: &field::translate::Translation,
    components: usize,
    each: &mut dyn FnMut(&[f64]),
) -> Result<(), FieldError> {
    // Ranges are the wider ones.
    let bytes = (t.component * components * 8) as u64;
    for page in 0..t.count() {
        let page_id = pager::PageId::new(id, 0, page);
        let _hold =
            session.pager.fetch(&[page_id]).map_err(|e| crate::session::fetch_error(&session.pager, e, bytes))?;
        if let pager::Lookup::Here(bytes) = worker.page(page_id) {
            let size = bytes.len() / (t.component * components);
            let value = |n: usize| match bytes.get(n * size..(n + 1) * size) {
                Some(&[a, b, c, d]) => f64::from(f32::from_ne_bytes([a, b, c, d])),
                Some(&[a, b, c, d, e, f, g, h]) => f64::from_ne_bytes([a, b, c, d, e, f, g, h]),
                _ => f64::NAN,
            };
            let first = [
                page % u64::from(t.pages[0]),
                page / u64::from(t.pages[0]) % u64::from(t.pages[1]),
                page / u64::from(t.pages[0]) / u64::from(t.pages[1]),
            ];
            for n in 0..t.component {
                let o = [n as u32 % t.page[0], n as u32 / t.page[0] % t.page[1], n as u32 / t.page[0] / t.page[1]];
                // Edge pages are padded.
                if (0..3).all(|a| first[a] as u32 * t.page[a] + o[a] < t.dims[a]) {
                    let v: Vec<f64> = (0..components).map(|c| value(n * components + c)).collect();
                    each(&v);
                }
            }
        }
        worker.release();
    }
    Ok(())
}

fn walls_json(session: &Session, dataset: &Dataset, watch: &mut Watch<'_>) -> Result<Value, FieldError> {
    let faces = walls(session, dataset, 0, watch)?;
    Ok(faces
        .iter()
        .map(|f| json!({"zone": dataset.zones[f.zone].name, "axis": AXES[f.axis], "index": f.index + 1}))
        .collect())
}

/// INFO as `_native.pyi` fixes it. With `ranges`, one pass over the data fills in what is null without it.
///
/// # Errors
/// [`FieldError`]; without `ranges` only the coarsest ranges of a store are read.
pub fn info(session: &Session, ranges: bool, watch: &mut Watch<'_>) -> Result<Value, FieldError> {
    let dataset = session.dataset();
    let c = &dataset.catalog;
    let found = if ranges { survey(session, &dataset, watch)? } else { known(session, &dataset)? };
    let null = Value::Null;
    let zones: Vec<Value> = c
        .zones
        .iter()
        .zip(dataset.zones.iter())
        .enumerate()
        .map(|(n, (z, d))| {
            let header = z.headers.first().map_or(Value::Null, |h| {
                json!({"mach": finite(h.mach), "alpha": finite(h.alpha), "reynolds": finite(h.reynolds),
                       "time": finite(h.time), "gamma": finite(h.gamma)})
            });
            let blanks = found.blanks.get(n).unwrap_or(&null);
            let unknown: Vec<&String> = match blanks {
                Value::Object(m) => m.keys().filter(|k| k.parse::<i32>().is_ok_and(|v| matches!(Blank::of(v, c.zones.len()), Blank::Unknown(_)))).collect(),
                _ => Vec::new(),
            };
            json!({
                "name": z.name, "dims": z.dims, "iblank": d.iblank.is_some(), "points": z.dims.iter().product::<usize>(),
                "page": d.translation.page, "pages": d.translation.count(), "box": found.boxes.get(n).unwrap_or(&null),
                "kind": found.kinds.get(n).unwrap_or(&null), "header": header, "iblank_values": blanks, "iblank_unknown": unknown,
            })
        })
        .collect();
    let mut fields = Vec::new();
    if let Some(z) = dataset.zones.first() {
        for name in Quantity::names(z) {
            let Some(q) = Quantity::named(z, &name) else { continue };
            let stored = c.zones[0].arrays.iter().find(|a| a.name == name);
            let d = DEFINITIONS.iter().find(|d| d.name == name && stored.is_none());
            let dtype = stored
                .map_or_else(|| z.array("density").map_or("float64", |a| z.arrays[a].dtype.name()), |a| a.dtype.name());
            fields.push(json!({
                "name": name, "components": q.components(), "dtype": dtype, "units": dataset.units(&name),
                "standard_name": stored.map(|a| a.standard_name.as_str()).or(d.map(|d| d.standard_name)).unwrap_or(""),
                "long_name": dataset.long_name(&name), "derived": d.is_some(),
                "definition": d.map(|d| if d.number > 0 { format!("{} (PLOT3D function {})", d.formula, d.number) } else { d.formula.to_owned() }),
                "range": found.ranges.get(&name).unwrap_or(&null), "center": d.and_then(|d| d.centre),
            }));
        }
    }
    let (mut disk, mut memory) = (0u64, 0u64);
    let steps = c.times.len().max(1) as u64;
    for (z, info) in dataset.zones.iter().zip(&c.zones) {
        for a in &z.arrays {
            let n = if a.steady { 1 } else { steps };
            memory += n * z.translation.count() * (z.translation.component * a.components * a.dtype.size()) as u64;
            disk += n * (info.dims.iter().product::<usize>() * a.components * a.dtype.size()) as u64;
        }
    }
    let (layout, codec) = match &dataset.origin {
        Origin::Plot3d(_) => ("in place", Value::Null),
        Origin::Store(s) => {
            disk = s.bytes();
            let flat = s.zones.iter().all(|z| z.paging.page[2] == 1 && z.paging.page[0] == z.paging.dims[0]);
            (if flat { "flat" } else { "cubed" }, json!(s.root.codec.name()))
        }
    };
    let page_bytes = dataset.zones.first().map_or(0, |z| z.translation.component * z.arrays[z.xyz].dtype.size());
    let fields_traced = dataset.fields(Some("velocity"), &[], 0).or_else(|_| dataset.fields(None, &[], 0))?;
    Ok(json!({
        "source": session.spec.path, "format": c.format, "guessed": c.guessed, "dimension": c.dimension,
        "length_unit": dataset.length_unit(),
        "coordinates_dtype": dataset.zones.first().map_or("float64", |z| z.arrays[z.xyz].dtype.name()),
        "zones": zones, "fields": fields, "times": c.times, "time_units": c.time_units,
        "pages": {"total": dataset.page_count()?, "bytes": page_bytes}, "bytes_disk": disk, "bytes_memory": memory,
        "checked": dataset.checked(), "layout": layout, "codec": codec,
        "limit_least_bytes": crate::trace::enough_limit(dataset.closure_bytes(&fields_traced, &session.pager)),
        "walls": if ranges { found.walls } else { Value::Null }, "settings": c.settings,
    }))
}
