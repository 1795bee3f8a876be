//! Windows as units: each window between two time steps is read whole and only then computed. The comparison reads
//! while it computes, on the disk or on a device of known latency.
//!
//! Each window is a run of its own, which continues from the saved state of the previous one, as in a series that
//! grows. The measured times leave out saving and loading these states.

use super::device::{open_on, Device};
use field::error::FieldError;
use kernels::streamline::Direction;
use output::Destination;
use pager::id::ArrayId;
use pager::{Event, Hold, Observer, PageId, Pager};
use runtime::executor::RunStats;
use runtime::limits::pager_error;
use runtime::process;
use runtime::session::{ProgressWatch, Resources, Session, SourceSpec};
use serde_json::{json, Value};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trace::{trace, OverTime, PathSpec, ReadAhead, TraceReport, TraceSpec};

/// How pages arrive.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// On demand, window by window; the pages of each window are listed.
    Listed,
    /// From the list, window by window: all pages of one before any particle advances in it.
    Units,
    /// As in an ordinary run.
    Ours,
}

/// Options of [`windows`].
pub struct Windows {
    /// A store.
    pub store: PathBuf,
    /// Pathlines.
    pub trace: TraceSpec,
    /// Memory, threads, and reads in flight.
    pub resources: Resources,
    /// How pages arrive.
    pub way: Way,
    /// The pages of each window: written by [`Way::Listed`], read by [`Way::Units`].
    pub list: PathBuf,
    /// File of the lines.
    pub output: PathBuf,
    /// Latency of each read on the device; `None`: the disk.
    pub latency: Option<Duration>,
}

/// The pages that became resident in each window.
#[derive(Default)]
pub(super) struct Came(Mutex<Vec<Vec<PageId>>>);

impl Came {
    fn begin(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Vec::new());
    }

    /// The pages of all windows.
    pub(super) fn pages(&self) -> Vec<PageId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).concat()
    }
}

impl Observer for Came {
    fn event(&self, _: u64, event: &Event) {
        if let Event::Publish { page, .. } = event {
            let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if windows.is_empty() {
                // Pages before the first release belong to the first window.
                windows.push(Vec::new());
            }
            windows.last_mut().into_iter().for_each(|window| window.push(*page));
        }
    }
}

/// Figures of reading by itself.
#[derive(Default)]
struct Reading {
    windows: usize,
    wall_s: f64,
    cpu_s: f64,
    bytes: u64,
    reads: u64,
    faults: u64,
    /// Pages of the present window.
    held: Option<Hold>,
}

impl Reading {
    /// Reads all pages of a window without computing, and releases the previous window.
    fn read(&mut self, pages: &[PageId], pager: &Arc<Pager>) -> Result<(), FieldError> {
        let (before, began, cpu) = (pager.counters(), Instant::now(), process::cpu_seconds());
        self.held = Some(pager.fetch(pages).map_err(pager_error)?);
        let after = pager.counters();
        self.windows += 1;
        self.wall_s += began.elapsed().as_secs_f64();
        self.cpu_s += process::cpu_seconds() - cpu;
        self.bytes += after.bytes_read - before.bytes_read;
        self.reads += after.reads - before.reads;
        self.faults += after.faults - before.faults;
        Ok(())
    }
}

/// Figures of the runs of all windows.
#[derive(Default)]
struct Computing {
    wall_s: f64,
    cpu_s: f64,
    /// Wall time between the windows' runs, which neither includes.
    handing_on_s: f64,
    points: u64,
    run: RunStats,
}

/// Runs pathlines window by window. `open` is called before each.
fn by_window(
    session: &Session,
    spec: &Windows,
    open: &mut dyn FnMut(usize) -> Result<(), FieldError>,
    watch: &mut ProgressWatch<'_>,
) -> Result<Computing, FieldError> {
    let wrong = || FieldError::Usage("this arm takes pathlines from one end of the series to the other".into());
    let path = spec.trace.path.as_ref().filter(|p| p.streak.is_none() && p.from.is_none() && p.to.is_none());
    let path = PathSpec { ahead: ReadAhead::None, ..path.ok_or_else(wrong)?.clone() };
    let mut times = session.dataset().catalog.times.clone();
    if spec.trace.options.direction == Direction::Backward {
        times.reverse();
    }
    let ends = times.get(1..).filter(|ends| !ends.is_empty()).ok_or_else(wrong)?;
    let state = spec.output.with_extension("state");
    let mut took = Computing::default();
    for (n, end) in ends.iter().enumerate() {
        open(n)?;
        let last = n + 1 == ends.len();
        let over = OverTime {
            resume: (n > 0).then(|| state.clone()),
            save_state: (!last).then(|| state.clone()),
            ..spec.trace.over.clone()
        };
        let window = TraceSpec { path: Some(PathSpec { to: Some(*end), ..path.clone() }), over, ..spec.trace.clone() };
        let (began, cpu) = (Instant::now(), process::cpu_seconds());
        let destination = if last { Destination::File(&spec.output) } else { Destination::Memory };
        let (TraceReport { points, run, .. }, _lines) = trace(session, &window, destination, watch)?;
        let (wall_s, cpu_s) = (began.elapsed().as_secs_f64(), process::cpu_seconds() - cpu);
        // The last run writes all lines.
        let counted = if last { wall_s } else { run.wall_s };
        took.wall_s += counted;
        took.cpu_s += cpu_s * counted / wall_s;
        took.handing_on_s += wall_s - counted;
        took.points = points;
        took.run.add(&run);
    }
    std::fs::remove_file(&state).or_else(|e| match e.kind() {
        // A single window has no state.
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(FieldError::io(&state, e)),
    })?;
    Ok(took)
}

/// Runs the arm once: wall and CPU seconds of the trace with its output, and of separate reading.
///
/// # Errors
/// [`FieldError`] of opening and tracing; of a list that cannot be written or read.
pub fn windows(spec: &Windows, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let came = Arc::new(Came::default());
    let observer: Option<Arc<dyn Observer>> = match spec.way {
        Way::Listed => Some(came.clone()),
        _ => spec.resources.observer.clone(),
    };
    let resources = Resources { observer, ..spec.resources.clone() };
    let source = SourceSpec { path: spec.store.clone(), ..SourceSpec::default() };
    let (session, device) = open_on(spec.latency, source, resources, watch)?;
    session.located(watch)?;
    let mut reading = Reading::default();
    let before = session.pager.counters();
    let took = match spec.way {
        Way::Ours => {
            let (began, cpu) = (Instant::now(), process::cpu_seconds());
            let (report, _) = trace(&session, &spec.trace, Destination::File(&spec.output), watch)?;
            Computing {
                wall_s: began.elapsed().as_secs_f64(),
                cpu_s: process::cpu_seconds() - cpu,
                handing_on_s: 0.0,
                points: report.points,
                run: report.run,
            }
        }
        Way::Listed => {
            let mut open = |window| {
                // Pages read by opening belong to the first window.
                if window > 0 {
                    came.begin();
                }
                Ok(())
            };
            let took = by_window(&session, spec, &mut open, watch)?;
            write_list(&spec.list, &came.0.lock().unwrap_or_else(PoisonError::into_inner))?;
            took
        }
        Way::Units => {
            let units = read_list(&spec.list)?;
            let mut open = |window: usize| {
                units.get(window).map_or(Ok(()), |pages: &Vec<PageId>| reading.read(pages, &session.pager))
            };
            by_window(&session, spec, &mut open, watch)?
        }
    };
    reading.held = None;
    let after = session.pager.counters();
    Ok(json!({
        "stats": session.stats(), "wall_s": reading.wall_s + took.wall_s, "cpu_s": reading.cpu_s + took.cpu_s,
        "handing_on_s": took.handing_on_s, "wait_s": took.run.wait_s, "points": took.points, "dropped": took.run.dropped,
        "restarts": took.run.restarts, "steps": took.run.steps,
        "faults": after.faults - before.faults, "bytes_read": after.bytes_read - before.bytes_read,
        "reads": after.reads - before.reads, "evictions": after.evictions - before.evictions,
        "prefetched": after.prefetched - before.prefetched, "prefetched_used": after.prefetched_used - before.prefetched_used,
        "device_latency_s": device.as_ref().map(Device::latency_s), "readers": session.pager.readers(),
        "reading": {
            "windows": reading.windows, "wall_s": reading.wall_s, "cpu_s": reading.cpu_s, "bytes_read": reading.bytes,
            "reads": reading.reads, "faults": reading.faults,
        },
    }))
}

/// Writes a line for each window (`w`), and one for each of its pages: array, step, number.
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
