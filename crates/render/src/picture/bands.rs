//! Bands: their number, their workers, and the order in which they are handed over.

use super::{volumetric, Budget, PictureError, Report, Subject};
use kernels::draw::{
    Aabb, BoxFilter, Canvas, Chunk, DrawCounts, Geometry, GeometryError, Layer, Stage, StageError, StageSetting,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bands of a worker where memory does not limit them. So many that the workers end together.
const BANDS_A_WORKER: u32 = 6;

/// Finished bands of a worker that may wait for the writer.
const WAITING_A_WORKER: u32 = 2;

/// Fewer rows cost a band more in streaming than they save in waiting.
const LEAST_ROWS: u32 = 16;

/// Interval between calls of the caller's progress function.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// The survey's share of reported progress.
const SURVEY_SHARE: f32 = 0.15;

/// Divisor: the share of a picture's memory for its buffers, if it has volumes. The rest is for their pages.
const HAZY_SHARE: u64 = 4;
/// Divisors: the shares of canvases and of gathered light where each group of rows reads the volumes anew. Large groups
/// are better. In groups that canvases hold, 1600 x 900 pixels within 64 MiB read 2048^3 bytes 5.9 times.
const CANVAS_SHARE: u64 = 8;
const GATHERED_SHARE: u64 = 5;

pub(super) struct BandPlan {
    pub(super) rows: u32,
    bands: u32,
    pub(super) workers: u32,
    /// Bytes for the depths and light of rows that are cast together; 0: canvases determine those rows.
    pub(super) gathered: u64,
    bytes: u64,
}

/// Chooses workers and rows that fit the budget.
fn plan(stage: &Stage<'_>, budget: u64, reserved: u64, workers: usize) -> Result<BandPlan, PictureError> {
    let [width, height] = stage.size();
    let fixed = stage.survey_bytes().saturating_add(reserved);
    let row_out = u64::from(width) * 3;
    // The band in work and the finished bands of a worker.
    let rows_out = u64::from(WAITING_A_WORKER + 1) * row_out;
    let per_worker = |rows: u32| stage.canvas_bytes(rows) + stage.gathered_bytes(rows) + u64::from(rows) * rows_out;
    let needed = |rows: u32, workers: u32| fixed.saturating_add(per_worker(rows).saturating_mul(u64::from(workers)));
    let mut workers = u32::try_from(workers.clamp(1, 1024)).unwrap_or(1).min(height);
    // Narrow bands stream the geometry over and over, so fewer workers get more rows.
    while workers > 1 && needed(LEAST_ROWS.min(height), workers) > budget {
        workers -= 1;
    }
    if needed(1, workers) > budget {
        return Err(PictureError::TooSmall { width, height, needed: needed(1, 1), budget });
    }
    let hazy = stage.haze().is_some();
    let all = budget;
    let budget = if hazy { (budget / HAZY_SHARE).max(needed(1, workers)) } else { budget };
    // Each band reads the same pages of the volumes again, so there are few bands.
    let bands = if hazy { 1 } else { BANDS_A_WORKER };
    let wanted = height.div_ceil(workers * bands).max(LEAST_ROWS).min(height);
    let rows = most_rows(wanted, |rows| needed(rows, workers) <= budget);
    let plan = |rows, gathered, bytes| BandPlan { rows, bands: height.div_ceil(rows), workers, gathered, bytes };
    if rows < wanted && stage.is_large() && !stage.see_through() {
        let gathered = (all / GATHERED_SHARE).saturating_sub(fixed);
        let canvases = |rows: u32| (stage.canvas_bytes(rows) + u64::from(rows) * rows_out) * u64::from(workers);
        let fits =
            |rows| canvases(rows) <= all / CANVAS_SHARE && stage.gathered_bytes(rows) * u64::from(workers) <= gathered;
        if fits(1) {
            let rows = most_rows(wanted, fits);
            return Ok(plan(rows, gathered, fixed + canvases(rows) + gathered));
        }
    }
    Ok(plan(rows, 0, needed(rows, workers)))
}

/// The most rows up to `wanted` that fit, at least one.
fn most_rows(wanted: u32, fits: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (1, wanted);
    while low < high {
        let middle = high - (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// The state shared by workers and writer.
#[derive(Default)]
struct BandState {
    finished: BTreeMap<u32, Vec<u8>>,
    /// Buffers for reuse.
    spare: Vec<Vec<u8>>,
    /// The band that the writer waits for.
    next: u32,
    error: Option<StageError>,
    /// Workers that have not ended.
    alive: u32,
}

/// Takes the lock. A worker that panicked with it held has left only whole bands.
fn lock(shared: &Mutex<BandState>) -> MutexGuard<'_, BandState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn render_rows(
    setting: StageSetting,
    subject: Subject<'_>,
    budget: Budget<'_>,
    reserved: u64,
    workers: usize,
    progress: &mut dyn FnMut(f32) -> bool,
    sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<Report, PictureError> {
    let stop = AtomicBool::new(false);
    let Subject { layers, haze } = subject;
    let held: Vec<_> = layers.iter().map(|l| Stoppable { inner: l.geometry, stop: &stop }).collect();
    let layers = layers.into_iter().zip(&held).map(|(l, geometry)| Layer { geometry, ..l }).collect();
    let mut stage = Stage::with_haze(setting, layers, haze)?;
    let plan = plan(&stage, budget.bytes, reserved, workers)?;
    let _guard = (budget.charge)(plan.bytes).map_err(PictureError::Refused)?;
    let counts = survey(&mut stage, plan.workers, &stop, progress)?;
    match stage.haze() {
        Some(_) => {
            volumetric::draw(&stage, &plan, &mut |share| progress(SURVEY_SHARE + (1.0 - SURVEY_SHARE) * share), sink)?
        }
        None => draw(&stage, &plan, &stop, progress, sink)?,
    }
    Ok(Report { counts, bands: plan.bands, band_rows: plan.rows, charged_bytes: plan.bytes, workers: plan.workers })
}

/// Makes the survey's small depth picture and the contact shadows, on all workers.
fn survey(
    stage: &mut Stage<'_>,
    workers: u32,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f32) -> bool,
) -> Result<DrawCounts, PictureError> {
    let rows = stage.survey_rows();
    let seen = &*stage;
    let surveys = interruptible(stop, &mut || progress(0.0), || in_parts(rows, workers, |rows| seen.survey(rows)))??;
    let surveys = surveys.into_iter().collect::<Result<Vec<_>, _>>()?;
    // The survey from row 0 visits all geometry.
    let counts = surveys.first().map(|p| p.counts).unwrap_or_default();
    stage.surveyed(surveys);
    let seen = &*stage;
    let mut go_on = || progress(SURVEY_SHARE * 0.6);
    let shadows = interruptible(stop, &mut go_on, || in_parts(rows, workers, |rows| seen.contacts(rows)))??;
    stage.shadowed(shadows);
    if progress(SURVEY_SHARE) {
        Ok(counts)
    } else {
        Err(PictureError::Interrupted)
    }
}

/// Geometry that yields nothing more once `stop` is set, so that its reader ends soon.
pub(crate) struct Stoppable<'a> {
    pub(crate) inner: &'a dyn Geometry,
    pub(crate) stop: &'a AtomicBool,
}

impl Geometry for Stoppable<'_> {
    fn bounds(&self) -> Aabb {
        self.inner.bounds()
    }

    fn for_each(&self, wanted: BoxFilter<'_>, visit: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        let stopped = || self.stop.load(Ordering::Relaxed);
        self.inner.for_each(&|b| !stopped() && wanted(b), &mut |chunk| {
            if !stopped() {
                visit(chunk);
            }
        })
    }
}

/// Runs `work` on another thread and calls `go_on` ten times a second. Sets `stop`, which `work` heeds, once `go_on`
/// returns false.
pub(crate) fn interruptible<T: Send>(
    stop: &AtomicBool,
    go_on: &mut dyn FnMut() -> bool,
    work: impl FnOnce() -> T + Send,
) -> Result<T, PictureError> {
    let mut ask = || {
        if !go_on() {
            stop.store(true, Ordering::Relaxed);
        }
    };
    ask();
    let result = std::thread::scope(|scope| {
        let (alive, ended) = std::sync::mpsc::channel::<()>();
        let worker = scope.spawn(move || {
            // Dropped with the thread, however it ends.
            let _alive = alive;
            work()
        });
        while ended.recv_timeout(TELL_EVERY) == Err(RecvTimeoutError::Timeout) {
            ask();
        }
        worker.join()
    });
    match result {
        _ if stop.load(Ordering::Relaxed) => Err(PictureError::Interrupted),
        Ok(value) => Ok(value),
        Err(_) => Err(PictureError::WorkerLost),
    }
}

/// Runs `work` on `rows` rows, cut among workers. Results are in the order of the rows.
fn in_parts<T: Send>(rows: u32, workers: u32, work: impl Fn(Range<u32>) -> T + Sync) -> Result<Vec<T>, PictureError> {
    let parts = workers.min(rows).max(1);
    let cut = |k: u32| (u64::from(rows) * u64::from(k) / u64::from(parts)) as u32;
    let work = &work;
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..parts).map(|k| scope.spawn(move || work(cut(k)..cut(k + 1)))).collect();
        handles.into_iter().map(|h| h.join().map_err(|_| PictureError::WorkerLost)).collect()
    })
}

fn draw(
    stage: &Stage<'_>,
    plan: &BandPlan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(f32) -> bool,
    sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), PictureError> {
    let shared = Mutex::new(BandState { alive: plan.workers, ..BandState::default() });
    let changed = Condvar::new();
    let ticket = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..plan.workers {
            scope.spawn(|| {
                // Counts the worker as ended however it ends, so that the writer does not wait for it.
                let _leave = BandWorkerExit { shared: &shared, changed: &changed };
                work(stage, plan, &shared, &changed, &ticket, stop);
            });
        }
        let result = write(plan, &shared, &changed, progress, sink);
        stop.store(true, Ordering::Relaxed);
        changed.notify_all();
        result
    })
}

struct BandWorkerExit<'a> {
    shared: &'a Mutex<BandState>,
    changed: &'a Condvar,
}

impl Drop for BandWorkerExit<'_> {
    fn drop(&mut self) {
        lock(self.shared).alive -= 1;
        self.changed.notify_all();
    }
}

/// Draws bands in the order of their tickets.
fn work(
    stage: &Stage<'_>,
    plan: &BandPlan,
    shared: &Mutex<BandState>,
    changed: &Condvar,
    ticket: &AtomicU32,
    stop: &AtomicBool,
) {
    let [width, height] = stage.size();
    let mut canvas = Canvas::new(stage, plan.rows);
    loop {
        let band = ticket.fetch_add(1, Ordering::Relaxed);
        if band >= plan.bands {
            return;
        }
        let mut out = {
            let mut state = lock(shared);
            // A worker holds every lower ticket, and the lowest of these never waits. So the writer always advances.
            while band >= state.next.saturating_add(plan.workers * WAITING_A_WORKER) && !stop.load(Ordering::Relaxed) {
                state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.spare.pop().unwrap_or_default()
        };
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let first = band * plan.rows;
        let rows = first..(first + plan.rows).min(height);
        out.clear();
        out.resize(rows.len() * width as usize * 3, 0);
        let drawn = canvas.draw(stage, rows, &mut out);
        let mut state = lock(shared);
        match drawn {
            Ok(()) => {
                state.finished.insert(band, out);
            }
            Err(error) => {
                state.error.get_or_insert(error);
                stop.store(true, Ordering::Relaxed);
            }
        }
        changed.notify_all();
    }
}

/// Hands over finished bands in order.
fn write(
    plan: &BandPlan,
    shared: &Mutex<BandState>,
    changed: &Condvar,
    progress: &mut dyn FnMut(f32) -> bool,
    sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), PictureError> {
    let mut told = std::time::Instant::now();
    for band in 0..plan.bands {
        let rows = loop {
            let mut state = lock(shared);
            if let Some(error) = state.error.take() {
                return Err(error.into());
            }
            if let Some(rows) = state.finished.remove(&band) {
                break rows;
            }
            if state.alive == 0 {
                return Err(PictureError::WorkerLost);
            }
            drop(changed.wait_timeout(state, TELL_EVERY));
            tell(&mut told, plan, band, progress)?;
        };
        sink(&rows)?;
        {
            let mut state = lock(shared);
            state.next = band + 1;
            state.spare.push(rows);
        }
        changed.notify_all();
        tell(&mut told, plan, band + 1, progress)?;
    }
    if !progress(1.0) {
        return Err(PictureError::Interrupted);
    }
    Ok(())
}

fn tell(
    told: &mut std::time::Instant,
    plan: &BandPlan,
    done: u32,
    progress: &mut dyn FnMut(f32) -> bool,
) -> Result<(), PictureError> {
    if told.elapsed() < TELL_EVERY {
        return Ok(());
    }
    *told = std::time::Instant::now();
    let share = SURVEY_SHARE + (1.0 - SURVEY_SHARE) * done as f32 / plan.bands as f32;
    if progress(share) {
        Ok(())
    } else {
        Err(PictureError::Interrupted)
    }
}
