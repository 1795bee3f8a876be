//! Results as JSON, in the forms of `python/farfield/_native.pyi`.

use ::runtime::session::Session;
use ::runtime::values;
use ::trace::{TraceReport, TraceSpec};
use serde_json::{json, Value};
use std::path::Path;

/// SUMMARY of `_native.pyi`: the summary of a trace.
pub fn summary(session: &Session, spec: &TraceSpec, r: &TraceReport, output: Option<&str>) -> Value {
    let mut reasons = serde_json::Map::new();
    for (name, n) in &r.reasons {
        let name = if *name == "outside" { "left" } else { name };
        let sum = reasons.get(name).and_then(Value::as_u64).unwrap_or(0) + n;
        reasons.insert(name.to_owned(), sum.into());
    }
    let empty: serde_json::Map<String, Value> =
        r.empty.iter().map(|(name, n)| ((*name).to_owned(), (*n).into())).collect();
    let written = output.map_or(0, |p| written(Path::new(p)));
    json!({
        "lines": r.lines, "points": r.points, "reasons": reasons, "outside": r.outside, "empty": empty,
        "partial": r.failed > 0, "failed": r.failed, "failure": r.failure, "state_saved": r.state_saved,
        "output": output, "bytes_written": written,
        "steps": r.run.steps, "restarts": r.run.restarts, "elders": r.run.elders, "dropped": r.run.dropped, "trace_s": r.run.wall_s,
        "spilled_bytes": r.spilled_bytes,
        "time_unit": trace::provenance(session, spec).time_unit, "stats": session.stats(),
    })
}

/// Bytes of a file, and of the files in the folder of a `.pvd`.
fn written(output: &Path) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    let folder = output.extension().filter(|e| e.eq_ignore_ascii_case("pvd")).map(|_| output.with_extension(""));
    let listed = folder.and_then(|f| std::fs::read_dir(f).ok());
    size(output) + listed.into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum::<u64>()
}

/// A number in JSON: null for NaN, "inf" or "-inf" for infinities.
fn number(x: f64) -> Value {
    match x {
        f64::INFINITY => json!("inf"),
        f64::NEG_INFINITY => json!("-inf"),
        x => json!(x),
    }
}

/// The values at a position as JSON.
pub fn probed(session: &Session, p: Option<values::ProbeResult>) -> String {
    let Some(p) = p else { return json!({"outside": true}).to_string() };
    let dataset = session.dataset();
    let mut values = serde_json::Map::new();
    let mut units = serde_json::Map::new();
    units.insert("position".to_owned(), dataset.length_unit().into());
    for (name, v) in &p.values {
        let each: Vec<Value> = v.iter().copied().map(number).collect();
        values.insert(name.clone(), if v.len() == 1 { number(v[0]) } else { each.into() });
        units.insert(name.clone(), dataset.units(name).into());
    }
    json!({
        "zone": dataset.zones[p.zone].name, "ijk": p.index.map(|c| c + 1.0), "position": p.position.map(number),
        "note": p.note, "values": values, "units": units,
    })
    .to_string()
}
