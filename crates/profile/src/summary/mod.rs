//! The summary of a log of events for reports: one JSON object, made in a few passes in bounded memory.
//!
//! The first pass ([`Scan`]) finds the duration of the run and its contents. The second fills as many bins, rows and
//! lifelines as a page can show, whatever the length of the log. Memory grows only with the reads and waiting tasks at
//! one time, and with a bit for each touched page of a time step.

mod dist;
mod flows;
mod lifelines;
mod pages;
mod scan;
mod servers;
mod threads;

use super::model::Recording;
use super::{Events, Form};
use dist::{seconds, Bins, BINS};
use field::error::FieldError;
use flows::Flows;
use lifelines::Lifelines;
use pager::replay::Survey;
use pages::PageSummary;
use scan::Scan;
use serde_json::{json, Map, Value};
use servers::Servers;
use std::path::Path;
use threads::Threads;

/// Summarises a log. Times are in seconds since the begin of its run, sizes in bytes.
///
/// # Errors
/// [`FieldError`] when it cannot be read; [`FieldError::Interrupted`] if `watch` returned false.
pub fn summarise(path: &Path, watch: &mut dyn FnMut(&str, f64, f64) -> bool) -> Result<Value, FieldError> {
    let events = Events::open(path)?;
    let mut scan = Scan::default();
    let (mut survey, mut recording) = (Survey::without_order(), Recording::default());
    let ended = events.each_watched("reading", watch, &mut |at, thread, event| {
        scan.event(at, thread, event);
        survey.event(event);
        recording.event(at, thread, event);
    })?;
    let bins = Bins::over(scan.last_us, BINS);
    let (mut flows, mut pages) = (Flows::new(bins, &scan), PageSummary::new(bins, &scan));
    let (mut threads, mut lifelines) = (Threads::new(bins, &scan), Lifelines::new(&scan));
    let mut servers = Servers::new(&scan);
    events.each_watched("summing up", watch, &mut |at, thread, event| {
        threads.event(at, thread, event, &flows);
        flows.event(at, event);
        pages.event(at, event);
        lifelines.event(at, thread, event);
        servers.event(at, event);
    })?;
    flows.end(scan.last_us);
    lifelines.end();
    let mut series = flows.series();
    series.extend(threads.series());
    let kinds: Map<String, Value> = scan.kinds.iter().map(|(kind, n)| ((*kind).to_owned(), json!(n))).collect();
    let form = match events.form() {
        Form::Log => "log",
        Form::Chrome => "chrome",
        Form::Parquet => "parquet",
    };
    let cores = usize::try_from(scan.run["cores"].as_u64().unwrap_or(1)).unwrap_or(1);
    let depth = flows.depth();
    let deepest = usize::try_from(depth["max"].as_u64().unwrap_or(0)).unwrap_or(0);
    let (advice, model) = super::replay::advise(&events, (survey, recording), cores, deepest, watch)?;
    Ok(json!({
        "file": path, "form": form, "events": ended.events, "unknown": ended.unknown, "lost_bytes": ended.lost_bytes,
        "whole": ended.whole, "damaged": ended.damaged, "run": scan.run, "stats": scan.stats, "wall_s": seconds(scan.last_us), "kinds": kinds,
        "threads": threads.threads(), "where": threads.sums(),
        "bins": {"width_s": seconds(bins.width_us), "count": bins.count}, "series": series,
        "latency": flows.latency.json(), "waiting": flows.waiting.json(),
        "arrays": pages.arrays(), "history": pages.history(), "steps": pages.steps(), "touched": pages.touched(),
        "sources": flows.sources(), "depth": depth, "advice": advice, "model": model, "overlap": flows.overlap(threads.computing(), &scan),
        "frames": lifelines.frames(), "lifelines": lifelines.json(),
        "servers": servers.json(), "server_reads": servers.courses(),
    }))
}
