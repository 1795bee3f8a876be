//! Time steps as units: each window between two steps read whole and only then computed, beside reading while computing, on the disk
//! or on a device of known latency.

use super::device::{open_on, Device};
use field::error::FieldError;
use output::Destination;
use pager::id::ArrayId;
use pager::{Event, Hold, Observer, PageId};
use runtime::limits::pager_error;
use runtime::process;
use runtime::session::{ProgressWatch, Resources, SourceSpec};
use serde_json::{json, Value};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trace::{trace, ReadAhead, TraceSpec, Units};

/// How pages come.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// As particles ask for them, window by window; the list says which those of each window were.
    Listed,
    /// One particle at a time waits, and nothing is read ahead.
    Waiting,
    /// Those that the list names, window by window: all of one before anything goes on in it.
    Units,
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
    /// The pages of each window: written by [`Way::Listed`], read by [`Way::Units`].
    pub list: PathBuf,
    /// Where lines go.
    pub output: PathBuf,
    /// How long each read takes on the device; `None`: the disk as it is.
    pub latency: Option<Duration>,
}

/// The pages that became resident in each window.
#[derive(Default)]
struct Came(Mutex<Vec<Vec<PageId>>>);

impl Came {
    fn begin(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Vec::new());
    }
}

impl Observer for Came {
    fn event(&self, _: u64, event: &Event) {
        if let Event::Publish { page, .. } = event {
            let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if windows.is_empty() {
                // Before the first particle is let go: the first window's.
                windows.push(Vec::new());
            }
            windows.last_mut().into_iter().for_each(|window| window.push(*page));
        }
    }
}

/// What reading took by itself.
#[derive(Default)]
struct Reading {
    windows: usize,
    wall_s: f64,
    cpu_s: f64,
    bytes: u64,
    reads: u64,
    faults: u64,
    /// The present window's pages.
    held: Option<Hold>,
}

/// Runs it once: wall and CPU seconds of the trace with its output, and of the reading where that is by itself.
///
/// # Errors
/// [`FieldError`] of opening and tracing; of a list that cannot be written or read.
pub fn windows(spec: &Windows, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let came = Arc::new(Came::default());
    let observer: Option<Arc<dyn Observer>> = match spec.way {
        Way::Listed => Some(came.clone()),
        _ => spec.means.observer.clone(),
    };
    let means = Resources { observer, ..spec.means.clone() };
    let source = SourceSpec { path: spec.store.clone(), ..SourceSpec::default() };
    let (session, device) = open_on(spec.latency, source, means, watch)?;
    session.located(watch)?;
    let mut trace_spec = spec.trace.clone();
    let reading = Arc::new(Mutex::new(Reading::default()));
    match (spec.way, trace_spec.path.as_mut()) {
        (Way::Ours, _) => {}
        (_, None) => return Err(FieldError::Usage("this arm takes pathlines".into())),
        (Way::Waiting, Some(path)) => (path.ahead, path.at_once) = (ReadAhead::None, Some(1)),
        (Way::Listed, Some(path)) => {
            let came = came.clone();
            path.ahead = ReadAhead::None;
            path.units = Some(Units(Arc::new(move |window| {
                // What opening has read is the first window's.
                if window > 0 || came.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
                    came.begin();
                }
                Ok(())
            })));
        }
        (Way::Units, Some(path)) => {
            let (units, pager, reading) = (read_list(&spec.list)?, session.pager.clone(), reading.clone());
            path.ahead = ReadAhead::None;
            path.units = Some(Units(Arc::new(move |window| {
                let mut r = reading.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(pages) = units.get(window as usize) else { return Ok(()) };
                let (before, began, cpu) = (pager.counters(), Instant::now(), process::cpu_seconds());
                let held = pager.fetch(pages).map_err(pager_error)?;
                let after = pager.counters();
                r.windows += 1;
                r.wall_s += began.elapsed().as_secs_f64();
                r.cpu_s += process::cpu_seconds() - cpu;
                r.bytes += after.bytes_read - before.bytes_read;
                r.reads += after.reads - before.reads;
                r.faults += after.faults - before.faults;
                r.held = Some(held);
                Ok(())
            })));
        }
    }
    let before = session.pager.counters();
    let (began, cpu) = (Instant::now(), process::cpu_seconds());
    let (report, _) = trace(&session, &trace_spec, Destination::File(&spec.output), watch)?;
    let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), process::cpu_seconds() - cpu);
    let after = session.pager.counters();
    if spec.way == Way::Listed {
        write_list(&spec.list, &came.0.lock().unwrap_or_else(PoisonError::into_inner))?;
    }
    let mut r = reading.lock().unwrap_or_else(PoisonError::into_inner);
    r.held = None;
    Ok(json!({
        "stats": session.stats(), "wall_s": wall_s, "cpu_s": cpu_s, "wait_s": report.run.wait_s, "points": report.points, "dropped": report.run.dropped,
        "restarts": report.run.restarts, "steps": report.run.steps,
        "faults": after.faults - before.faults, "bytes_read": after.bytes_read - before.bytes_read,
        "reads": after.reads - before.reads, "evictions": after.evictions - before.evictions,
        "prefetched": after.prefetched - before.prefetched, "prefetched_used": after.prefetched_used - before.prefetched_used,
        "device_latency_s": device.as_ref().map(Device::latency_s), "readers": session.pager.readers(),
        "reading": {
            "windows": r.windows, "wall_s": r.wall_s, "cpu_s": r.cpu_s, "bytes_read": r.bytes, "reads": r.reads, "faults": r.faults,
        },
    }))
}

/// A line for each window (`w`), and for each of its pages: array, step, number.
fn write_list(list: &Path, windows: &[Vec<PageId>]) -> Result<(), FieldError> {
    let mut text = String::new();
    for pages in windows {
        text.push_str("w\n");
        for p in pages {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "{} {} {}", p.array.0, p.step, p.page);
        }
    }
    std::fs::write(list, text).map_err(|e| FieldError::io(list, e))
}

fn read_list(list: &Path) -> Result<Vec<Vec<PageId>>, FieldError> {
    let text = std::fs::read_to_string(list).map_err(|e| FieldError::io(list, e))?;
    let mut windows: Vec<Vec<PageId>> = Vec::new();
    for line in text.lines() {
        if line == "w" {
            windows.push(Vec::new());
            continue;
        }
        let numbers: Option<Vec<u64>> = line.split(' ').map(|n| n.parse().ok()).collect();
        let page = numbers.as_deref().and_then(|n| match n {
            [array, step, page] => {
                Some(PageId::new(ArrayId((*array).try_into().ok()?), (*step).try_into().ok()?, *page))
            }
            _ => None,
        });
        match (windows.last_mut(), page) {
            (Some(window), Some(page)) => window.push(page),
            _ => {
                let what = format!("{}: '{line}' is no line of a list of windows", list.display());
                return Err(FieldError::Usage(what));
            }
        }
    }
    Ok(windows)
}
