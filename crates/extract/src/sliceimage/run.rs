//! Tiles as tasks, and finished rows of pixels.

use field::error::FieldError;
use field::locator::LANES;
use kernels::slice::{Pixel, Tile, TILE};
use kernels::streamline::StepProgress;
use pager::error::PageError;
use pager::{PageId, Pager, Worker};
use runtime::executor::{self, Budgeted, Outcome, RunLoad, RunStats, Windowed, Work};
use runtime::limits::{active_lines, charge_other, enough_limit, least_limit, more_than};
use runtime::session::ProgressWatch;
use serde_json::{json, Value};
use std::sync::{Arc, Mutex, PoisonError};

/// The source of tiles.
pub(crate) trait TileSource: Sync {
    /// An unfinished tile.
    type Tile: Send + 'static;
    /// The context of a thread.
    type Context;
    /// Numbers a pixel.
    fn components(&self) -> usize;
    /// The number of pixels without a value.
    fn nothing(&self) -> f64 {
        f64::NAN
    }
    /// Pixels of a row, and rows.
    fn size(&self) -> [u32; 2];
    /// Bytes of pages for the largest step, and for any step that may follow.
    fn step_bytes(&self, pager: &Pager) -> [u64; 2];
    /// Creates a thread's context.
    fn context(&self, worker: Worker) -> Self::Context;
    /// The worker in it.
    fn worker<'c>(&self, context: &'c mut Self::Context) -> &'c mut Worker;
    /// Starts a tile.
    fn begin(&self, tile: Tile) -> Self::Tile;
    /// One step of it. Absent pages that stop it are added to `missing`.
    fn step(
        &self,
        context: &mut Self::Context,
        lane: usize,
        tile: &mut Self::Tile,
        missing: &mut Vec<PageId>,
        failure: &mut Option<PageError>,
    ) -> StepProgress;
    /// Bytes held.
    fn bytes(&self, tile: &Self::Tile) -> usize;
    /// A finished tile.
    fn end(&self, tile: Self::Tile) -> Tile;
}

/// Whole rows of a picture, from one on.
pub(crate) struct PictureRows {
    pub(crate) first: u32,
    pub(crate) width: usize,
    pub(crate) components: usize,
    /// Row by row, the numbers of a pixel side by side.
    pub(crate) values: Vec<f64>,
    pub(crate) pixels: Vec<Pixel>,
}

impl PictureRows {
    fn take(&mut self, tile: &Tile) {
        let (w, c) = (tile.size[0] as usize, self.components);
        for row in 0..tile.size[1] as usize {
            let to = (tile.first[1] as usize + row - self.first as usize) * self.width + tile.first[0] as usize;
            let from = row * w;
            self.pixels[to..to + w].copy_from_slice(&tile.pixels[from..from + w]);
            self.values[to * c..(to + w) * c].copy_from_slice(&tile.values[from * c..(from + w) * c]);
        }
    }

    const fn pixel_bytes(components: usize) -> u64 {
        8 * components as u64 + 1
    }
}

/// Counts of pixels by state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pixels {
    /// With values.
    pub values: u64,
    /// In a cell or voxel with all values NaN: missing.
    pub missing: u64,
    /// In no cell and no voxel.
    pub outside: u64,
    /// With an unreadable page.
    pub failed: u64,
    /// The first such page, as a message.
    pub failure: Option<String>,
}

impl Pixels {
    /// Their counts.
    pub fn told(&self) -> Value {
        json!({"values": self.values, "missing": self.missing, "outside": self.outside, "failed": self.failed})
    }
}

/// Tiles of some rows of tiles as tasks.
struct Band<'a, S> {
    source: &'a S,
    /// The first row of tiles, and the number of rows.
    first: u32,
    count: u32,
    rows: &'a Mutex<PictureRows>,
    failure: &'a Mutex<Option<PageError>>,
}

impl<S: TileSource> Work for Band<'_, S> {
    type Task = S::Tile;
    type Context = S::Context;

    fn context(&self, _thread: usize, worker: Worker) -> S::Context {
        self.source.context(worker)
    }
    fn worker<'c>(&self, context: &'c mut S::Context) -> &'c mut Worker {
        self.source.worker(context)
    }
    fn admit(&self, n: u64) -> Result<S::Tile, FieldError> {
        // Column by column: a tile's neighbours above and below use about the same pages as those at its sides.
        let (column, row) = (n / u64::from(self.count), n % u64::from(self.count));
        let at = [column as u32, self.first + row as u32];
        Ok(self.source.begin(Tile::new(at, self.source.size(), self.source.components())))
    }
    fn steps(&self, context: &mut S::Context, tasks: [Option<&mut S::Tile>; LANES], outcomes: &mut [Outcome; LANES]) {
        for (lane, (task, outcome)) in tasks.into_iter().zip(outcomes).enumerate() {
            let Some(tile) = task else { continue };
            let mut failure = None;
            outcome.progress = self.source.step(context, lane, tile, &mut outcome.missing, &mut failure);
            if failure.is_some() {
                let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                *first = first.take().or(failure);
            }
        }
    }
    fn bytes(&self, tile: &S::Tile) -> usize {
        self.source.bytes(tile)
    }
    fn finish(&self, tile: S::Tile) -> Result<(), FieldError> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).take(&self.source.end(tile));
        Ok(())
    }
}

impl<S: TileSource> Windowed for Band<'_, S> {}

impl<S: TileSource> Budgeted for Band<'_, S> {}

/// Uncharged bytes of a thread beside its tasks and pages. A thread on a slice of a derived field at 3840 x 2160 within
/// 16 MiB exceeded its share by 0.3 to 0.5 MB. All threads together reserve at most this part of the limit, which is
/// enough for a handful.
const OF_THREAD: u64 = 512 << 10;
const THREADS_SHARE: u64 = 8;

/// Part of the limit for rows in progress, if more than one row of tiles fits.
const ROWS_SHARE: u64 = 8;

/// Computes all tiles, and passes on whole rows of pixels from the top down. The number of rows at a time fits into an
/// eighth of the limit, and is at least that of one row of tiles.
///
/// # Errors
/// [`FieldError`]: a limit that is too small, an interruption, errors of `take`.
pub(crate) fn run<S: TileSource>(
    source: &S,
    pager: &Arc<Pager>,
    workers: usize,
    watch: &mut ProgressWatch<'_>,
    take: &mut dyn FnMut(&PictureRows) -> Result<(), FieldError>,
) -> Result<(Pixels, RunStats), FieldError> {
    let ([width, height], components) = (source.size(), source.components());
    let (columns, tile_rows) = (width.div_ceil(TILE), height.div_ceil(TILE));
    let of_row = u64::from(width) * u64::from(TILE) * PictureRows::pixel_bytes(components);
    let limit = pager.ledger().limit();
    let [step, closure] = source.step_bytes(pager);
    let tile_bytes = Tile::bytes(components) as u64;
    let least = least_limit(step).saturating_add(of_row);
    let enough = enough_limit(closure + of_row + 2 * workers as u64 * tile_bytes).max(least);
    if limit < least {
        return Err(FieldError::LimitTooSmall {
            limit,
            needs: enough,
            what: format!("the largest step of a slice, with {TILE} rows of it"),
        });
    }
    // No run is refused for lack of it.
    let of_threads = (workers as u64 * OF_THREAD).min(limit / THREADS_SHARE).min((limit - least) / 2);
    let _threads = charge_other(pager, of_threads, "the threads of a slice").map_err(|e| more_than(e, enough))?;
    let at_once = (limit / ROWS_SHARE / of_row).clamp(1, u64::from(tile_rows)) as u32;
    let bytes = of_row * u64::from(at_once);
    let _charged = charge_other(pager, bytes, "the rows of a slice").map_err(|e| more_than(e, enough))?;
    let count = (at_once * TILE).min(height) as usize * width as usize;
    let rows = PictureRows {
        first: 0,
        width: width as usize,
        components,
        values: vec![f64::NAN; count * components],
        pixels: vec![Pixel::Open; count],
    };
    let (rows, failure) = (Mutex::new(rows), Mutex::new(None));
    let (mut pixels, mut stats) = (Pixels::default(), RunStats::default());
    let all = u64::from(columns) * u64::from(tile_rows);
    let mut first = 0;
    while first < tile_rows {
        let tiles = (tile_rows - first).min(at_once);
        {
            let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
            rows.first = first * TILE;
            let lines = (tiles * TILE).min(height - rows.first) as usize;
            rows.pixels.truncate(lines * width as usize);
            rows.values.truncate(lines * width as usize * components);
        }
        let band = Band { source, first, count: tiles, rows: &rows, failure: &failure };
        let load = RunLoad {
            tasks: u64::from(columns) * u64::from(tiles),
            workers,
            active: active_lines(limit, step, tile_bytes, workers, pager.readers()),
        };
        let before = u64::from(columns) * u64::from(first);
        let ran = executor::run(&band, pager, load, &mut |done| watch("slicing", (before + done) as f64, all as f64));
        stats.add(&ran.map_err(|e| more_than(e, enough))?);
        let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
        let PictureRows { pixels: found, values, .. } = &mut *rows;
        // Integers are words, and any of them may have the bits of NaN.
        let numbers = source.nothing().is_nan();
        for (pixel, values) in found.iter().zip(values.chunks_exact_mut(components.max(1))) {
            match pixel {
                Pixel::Value if numbers && values.iter().all(|v| v.is_nan()) => pixels.missing += 1,
                Pixel::Value => pixels.values += 1,
                Pixel::Outside => pixels.outside += 1,
                Pixel::Failed | Pixel::Open => pixels.failed += 1,
            }
            if *pixel != Pixel::Value {
                values.fill(source.nothing());
            }
        }
        take(&rows)?;
        first += tiles;
        // A few rows may finish before the executor reports progress.
        if !watch("slicing", (u64::from(columns) * u64::from(first)) as f64, all as f64) {
            return Err(FieldError::Interrupted);
        }
    }
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    pixels.failure = failure.map(|e| e.to_string());
    Ok((pixels, stats))
}
