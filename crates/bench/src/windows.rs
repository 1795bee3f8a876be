//! Pathlines through the steps of a store, one particle at a time waiting or as always, on the disk or on a device of known latency.

use super::device::{open_on, Device};
use field::error::FieldError;
use output::Destination;
use runtime::process;
use runtime::session::{ProgressWatch, Resources, SourceSpec};
use serde_json::{json, Value};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use trace::{trace, ReadAhead, TraceSpec};

/// How pages come.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// One particle at a time waits, and nothing is read ahead.
    Waiting,
    /// As always.
    Ours,
}

/// What is run.
pub struct Windows {
    /// A store.
    pub store: PathBuf,
    /// Pathlines.
    pub trace: TraceSpec,
    /// Memory, threads, and the reads in flight.
    pub means: Resources,
    /// How pages come.
    pub way: Way,
    /// Where lines go.
    pub output: PathBuf,
    /// How long each read takes on the device; `None`: the disk as it is.
    pub latency: Option<Duration>,
}

/// Runs it once: wall and CPU seconds of the trace with its output.
///
/// # Errors
/// [`FieldError`] of opening and tracing.
pub fn windows(spec: &Windows, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let source = SourceSpec { path: spec.store.clone(), ..SourceSpec::default() };
    let (session, device) = open_on(spec.latency, source, spec.means.clone(), watch)?;
    session.located(watch)?;
    let mut trace_spec = spec.trace.clone();
    match (spec.way, trace_spec.path.as_mut()) {
        (Way::Ours, _) => {}
        (Way::Waiting, None) => return Err(FieldError::Usage("this arm takes pathlines".into())),
        (Way::Waiting, Some(path)) => (path.ahead, path.at_once) = (ReadAhead::None, Some(1)),
    }
    let before = session.pager.counters();
    let (began, cpu) = (Instant::now(), process::cpu_seconds());
    let (report, _) = trace(&session, &trace_spec, Destination::File(&spec.output), watch)?;
    let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), process::cpu_seconds() - cpu);
    let after = session.pager.counters();
    Ok(json!({
        "stats": session.stats(), "wall_s": wall_s, "cpu_s": cpu_s, "wait_s": report.run.wait_s, "points": report.points, "dropped": report.run.dropped,
        "restarts": report.run.restarts, "steps": report.run.steps,
        "faults": after.faults - before.faults, "bytes_read": after.bytes_read - before.bytes_read,
        "reads": after.reads - before.reads, "evictions": after.evictions - before.evictions,
        "prefetched": after.prefetched - before.prefetched, "prefetched_used": after.prefetched_used - before.prefetched_used,
        "device_latency_s": device.as_ref().map(Device::latency_s), "readers": session.pager.readers(),
    }))
}
