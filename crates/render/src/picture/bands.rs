//! Bands: how many, who draws which, and in what order they are handed over.

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

/// Bands a worker draws where memory allows any number: enough that the workers end together.
const BANDS_A_WORKER: u32 = 6;

/// Finished bands that may wait for the writer, a worker.
const WAITING_A_WORKER: u32 = 2;

/// Rows below which a band costs more in streaming than it saves in waiting.
const LEAST_ROWS: u32 = 16;

/// How often the caller is told, and asked whether to go on.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Share of the work that the survey counts for in progress.
const SURVEY_SHARE: f32 = 0.15;

/// Share of the memory for a picture that goes to its buffers where volumes are drawn: the rest is for their pages.
const HAZY_SHARE: u64 = 4;
/// Where each group of rows reads the volumes anew, canvases get this share and the light of rays the other: the larger a group the
/// better. A picture of 1600 x 900 pixels within 64 MiB read 2048^3 bytes 5.9 times in groups of as many rows as canvases hold.
const CANVAS_SHARE: u64 = 8;
const GATHERED_SHARE: u64 = 5;

/// How a picture is cut.
pub(super) struct BandPlan {
    pub(super) rows: u32,
    bands: u32,
    pub(super) workers: u32,
    /// Bytes for the depths and the light of rows that are cast together; 0: as many rows are as canvases hold.
    pub(super) gathered: u64,
    bytes: u64,
}

/// Chooses workers and rows so that everything fits into the budget.
fn plan(stage: &Stage<'_>, budget: u64, reserved: u64, workers: usize) -> Result<BandPlan, PictureError> {
    let [width, height] = stage.size();
    let fixed = stage.survey_bytes().saturating_add(reserved);
    let row_out = u64::from(width) * 3;
    // One canvas and the finished bands of a worker.
    let rows_out = u64::from(WAITING_A_WORKER + 1) * row_out;
    let per_worker = |rows: u32| stage.canvas_bytes(rows) + stage.gathered_bytes(rows) + u64::from(rows) * rows_out;
    let needed = |rows: u32, workers: u32| fixed.saturating_add(per_worker(rows).saturating_mul(u64::from(workers)));
    let mut workers = u32::try_from(workers.clamp(1, 1024)).unwrap_or(1).min(height);
    // Bands of a few rows on all workers stream the geometry over and over: rather fewer workers with more rows.
    while workers > 1 && needed(LEAST_ROWS.min(height), workers) > budget {
        workers -= 1;
    }
    if needed(1, workers) > budget {
        return Err(PictureError::TooSmall { width, height, needed: needed(1, 1), budget });
    }
    let hazy = stage.haze().is_some();
    let all = budget;
    let budget = if hazy { (budget / HAZY_SHARE).max(needed(1, workers)) } else { budget };
    // Each band of volumes passes through the same pages as the next: as few as can be.
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

/// The most rows up to `wanted` that fit: one at least.
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

/// What workers and writer share.
#[derive(Default)]
struct BandState {
    finished: BTreeMap<u32, Vec<u8>>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    /// Next band that the writer waits for.
    next: u32,
    error: Option<StageError>,
    /// Workers that have not ended.
    alive: u32,
}

/// Takes the lock; a worker that panicked while it held it has left whole bands only.
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

/// Fills the small picture of depth and contact shadows on all workers.
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
    // The part that starts at row 0 looks at everything.
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

/// Geometry of which nothing more is wanted once `stop` is set, so that whoever streams it ends soon, however much there is.
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

/// Does `work` on a thread of its own while this one asks, ten times a second, whether to go on; if not it sets `stop`, by
/// which the work is to end.
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
            // Goes with the thread, however it ends.
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

/// Does a work on `rows` rows, cut among workers; results are in the order of the rows.
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
                // Says that the worker is gone however it ends, so that the writer cannot wait for it for ever.
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

/// Draws bands in the order of their tickets until there are none.
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
            // Every ticket below this one is held by some worker, and the lowest of them is never kept waiting, so the writer
            // always gets on.
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
