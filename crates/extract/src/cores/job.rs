//! Vortex cores by JSON: from the options to the summary.

use super::{options, vortex_cores, CoreReport};
use crate::job::JobRequest;
use field::error::FieldError;
use output::Destination;
use runtime::session::{ProgressWatch, Session};
use serde_json::{json, Map, Value};
use std::path::Path;

/// The summary of a run, without statistics. `output` is the file of the lines, `None` for lines in memory.
pub fn summary(session: &Session, r: &CoreReport, output: Option<&Path>) -> Value {
    let reasons: Map<String, Value> =
        r.reasons.iter().map(|(name, count)| ((*name).to_owned(), (*count).into())).collect();
    let written = output.and_then(|path| std::fs::metadata(path).ok()).map_or(0, |m| m.len());
    json!({
        "lines": r.lines, "points": r.points, "found": r.found, "reasons": reasons,
        "partial": r.failed > 0, "failed": r.failed, "failure": r.failure,
        "output": output.map(Path::to_string_lossy), "bytes_written": written,
        "steps": r.run.steps, "restarts": r.run.restarts, "elders": r.run.elders, "dropped": r.run.dropped, "extract_s": r.run.wall_s,
        "spilled_bytes": r.spilled_bytes, "time_unit": session.dataset().catalog.time_units,
    })
}

/// Writes cores to a file of lines.
///
/// # Errors
/// [`FieldError`] for an invalid option, for an unknown one, and of the extraction.
pub fn job(session: &Session, request: &JobRequest<'_>, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let (spec, output) = (options::parse(request.options)?, request.output()?);
    let (report, _) = vortex_cores(session, &spec, Destination::File(output), watch)?;
    Ok(summary(session, &report, Some(output)))
}
