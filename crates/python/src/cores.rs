//! What is said of vortex cores.

use ::extract::cores::CoreReport;
use ::runtime::session::Session;
use serde_json::{json, Value};

/// SUMMARY.
pub fn summary(session: &Session, r: &CoreReport, output: Option<&str>, bytes_written: u64) -> Value {
    let reasons: serde_json::Map<String, Value> =
        r.reasons.iter().map(|(n, c)| ((*n).to_owned(), (*c).into())).collect();
    json!({
        "lines": r.lines, "points": r.points, "found": r.found, "reasons": reasons,
        "partial": r.failed > 0, "failed": r.failed, "failure": r.failure,
        "output": output, "bytes_written": bytes_written,
        "steps": r.run.steps, "restarts": r.run.restarts, "elders": r.run.elders, "dropped": r.run.dropped, "extract_s": r.run.wall_s,
        "spilled_bytes": r.spilled_bytes, "time_unit": session.dataset().catalog.time_units, "stats": session.stats(),
    })
}
