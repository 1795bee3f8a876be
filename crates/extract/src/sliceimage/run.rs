//! Tiles as tasks, and rows of pixels as they are done.

use field::error::FieldError;
use field::locator::LANES;
use kernels::slice::{Pixel, Tile, TILE};
use kernels::streamline::StepProgress;
use pager::error::PageError;
use pager::{PageId, Pager, Worker};
use runtime::executor::{self, Outcome, RunLoad, RunStats, Work};
use runtime::limits::{active_lines, charge_other, enough_limit, least_limit, more_than};
use runtime::session::ProgressWatch;
use serde_json::{json, Value};
use std::sync::{Arc, Mutex, PoisonError};

/// What tiles are made of.
pub(crate) trait TileSource: Sync {
    /// A tile in the making.
    type Tile: Send + 'static;
    /// What a thread needs.
    type Context;
    /// Numbers a pixel.
    fn components(&self) -> usize;
    /// What a pixel has in the place of each number where it has no value.
    fn nothing(&self) -> f64 {
        f64::NAN
    }
    /// Pixels of a row, and rows.
    fn size(&self) -> [u32; 2];
    /// Bytes of pages that the largest step needs, and that any step may need wherever it leads.
    fn step_bytes(&self, pager: &Pager) -> [u64; 2];
    /// Makes a thread's context.
    fn context(&self, worker: Worker) -> Self::Context;
    /// The pager's part of it.
    fn worker<'c>(&self, context: &'c mut Self::Context) -> &'c mut Worker;
    /// Begins a tile.
    fn begin(&self, tile: Tile) -> Self::Tile;
    /// One step of it. What is absent goes to `missing` where that is why.
    fn step(
        &self,
        context: &mut Self::Context,
        lane: usize,
        tile: &mut Self::Tile,
        missing: &mut Vec<PageId>,
        failure: &mut Option<PageError>,
    ) -> StepProgress;
    /// Bytes that it holds.
    fn bytes(&self, tile: &Self::Tile) -> usize;
    /// A tile that is done.
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

    /// Bytes of a pixel.
    const fn pixel_bytes(components: usize) -> u64 {
        8 * components as u64 + 1
    }
}

/// What became of the pixels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pixels {
    /// With values.
    pub values: u64,
    /// In a cell or voxel whose values are no numbers, none of them: they are missing.
    pub missing: u64,
    /// In no cell and no voxel.
    pub outside: u64,
    /// Of which a page cannot be had.
    pub failed: u64,
    /// The first such page, in words.
    pub failure: Option<String>,
}

impl Pixels {
    /// How many there are of each.
    pub fn told(&self) -> Value {
        json!({"values": self.values, "missing": self.missing, "outside": self.outside, "failed": self.failed})
    }
}

/// Tiles of some rows of tiles as tasks.
struct Band<'a, S> {
    source: &'a S,
    /// The first row of tiles, and how many there are.
    first: u32,
    count: u32,
    rows: &'a Mutex<PictureRows>,
    failure: &'a Mutex<Option<PageError>>,
}

impl<S: TileSource> Work for Band<'_, S> {
    type Task = S::Tile;
    type Context = S::Context;

    fn context(&self, worker: Worker) -> S::Context {
        self.source.context(worker)
    }
    fn worker<'c>(&self, context: &'c mut S::Context) -> &'c mut Worker {
        self.source.worker(context)
    }
    fn admit(&self, n: u64) -> Result<S::Tile, FieldError> {
        // Column by column: a tile's neighbours above and below stand on much the same pages as those at its sides.
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

/// What a thread takes beside its tasks and pages that nobody else charges: at 3840 x 2160 within 16 MiB slices of a derived field were 0.3 to
/// 0.5 MB over the limit and what a process has for itself, for each thread. Together no more than this part of the limit, which is what
/// threads up to a handful take.
const OF_THREAD: u64 = 512 << 10;
const THREADS_SHARE: u64 = 8;

/// Part of the limit that rows take while they are made, if more than one row of tiles fits.
const ROWS_SHARE: u64 = 8;

/// Makes all tiles, and hands over whole rows of pixels from the top down. As many rows at a time as fit into an eighth of the limit, and
/// those of one row of tiles at least.
///
/// # Errors
/// [`FieldError`]: too small a limit, an interruption, what `take` says.
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
    // No run is refused for it.
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
        // Whole numbers are words, any of which may look like what is no number.
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
        // A few rows may take less time than the executor lets pass between two words.
        if !watch("slicing", (u64::from(columns) * u64::from(first)) as f64, all as f64) {
            return Err(FieldError::Interrupted);
        }
    }
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    pixels.failure = failure.map(|e| e.to_string());
    Ok((pixels, stats))
}
