//! Rays through volumes and through cells of zones, on all cores and out of core.

mod brick_cache;
mod cells;
mod next_step;
mod progressive;
mod slab_sweep;
mod tile_order;
mod written_ahead;

pub use brick_cache::SharedBricks;
use brick_cache::{CastThreads, Lent, ThreadCaches};
pub use cells::{cast_cells, CellSource};
use field::error::FieldError;
use field::locator::LANES;
use kernels::rays::{RayCounts, RayLight, RayTile, Scene, MOST_STOPS};
use kernels::streamline::StepProgress;
use next_step::Next;
use pager::{Charge, ChargeKind, Pager, Worker};
use progressive::{Framebuffer, PassTiles, To};
use runtime::executor::{self, Budgeted, Outcome, RunLoad, RunStats, Windowed, Work};
use runtime::limits::would_do;
use slab_sweep::Sweep;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// How a picture is cast.
#[derive(Clone, Debug)]
pub struct CastOptions {
    /// Threads.
    pub workers: usize,
    /// Rows of the picture; `None`: all rows.
    pub rows: Option<Range<u32>>,
    /// When the picture must be complete. Pixels are then cast in progressive refinement until the deadline, and the
    /// others are filled from their neighbours. With enough time the picture equals one without a deadline.
    pub deadline: Option<Instant>,
    /// The time step of the next picture. Its pages at the places of used pages are read ahead. No page that this
    /// picture needs is evicted for them.
    pub next: Option<u32>,
    /// With a deadline: a coarser level, cast first, and visible where finer rays are not finished.
    pub coarse: Option<Coarse>,
    /// State shared by successive pictures. It does not change them.
    pub kept: Option<Arc<SharedBricks>>,
}

/// The same volumes at a coarser level.
#[derive(Clone)]
pub struct Coarse {
    /// A scene with the same camera and size.
    pub scene: Arc<Scene>,
    /// Smallest stride of cast pixels, a power of two. Its voxels cover more than one pixel.
    pub stride: u32,
    /// A deadline of its own, used where it is later.
    pub by: Option<Instant>,
}

impl std::fmt::Debug for Coarse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coarse").field("stride", &self.stride).finish_non_exhaustive()
    }
}

impl CastOptions {
    /// The rows that exist in a picture of `height` rows.
    fn rows_of(&self, height: u32) -> Range<u32> {
        let rows = self.rows.clone().unwrap_or(0..height);
        rows.start.min(height)..rows.end.min(height).max(rows.start.min(height))
    }
}

/// Rows of a picture of volumes.
pub struct Image {
    /// Pixels across.
    pub width: u32,
    /// Rows, counted from the top of the whole picture.
    pub rows: Range<u32>,
    /// Red, green and blue of linear light, premultiplied, and opacity, for each pixel row by row.
    pub rgba: Vec<[f32; 4]>,
    /// Whether failed pages were left out, for each pixel.
    pub gaps: Vec<bool>,
    /// Pixels not cast before the deadline.
    pub filled: u64,
    /// For each pixel, the grid that it was cast in, if there is a deadline; see [`Self::is_unknown`].
    marks: Vec<u8>,
    /// Counts of the work.
    pub counts: RayCounts,
    /// Figures of the run.
    pub stats: RunStats,
    _charge: Charge,
}

impl Image {
    /// Whether a pixel could not be filled, because no ray near it was cast in time.
    pub fn is_unknown(&self, n: usize) -> bool {
        self.marks.get(n) == Some(&progressive::UNKNOWN)
    }

    /// Number of pixels with gaps.
    pub fn gap_count(&self) -> u64 {
        self.gaps.iter().filter(|g| **g).count() as u64
    }
}

/// Stride of the coarsest grid before a deadline. Rays so far apart take each sample by itself, so they must be few.
/// About thirty rays of 800 x 450 leave no part unknown where a whole volume must be read. With a stride of 8, 200 ms
/// finished 9 of 104 tiles of a compressed volume of 256^3, beside other work.
const COARSEST: u32 = 128;

/// Bytes of a pixel of an [`Image`].
pub const PIXEL_BYTES: u64 = 17;

/// Divisor: the share of the room for pages that the pins of one step may take, on all threads together.
const PIN_SHARE: u64 = 6;

/// Divisor: the share of the room for pages held for the elder.
const HELD_SHARE: u64 = 3;

/// Casts the rays of a picture or of some rows. `watch` gets the numbers of finished tiles and of all tiles, and
/// returns whether to continue.
///
/// # Errors
/// [`FieldError::LimitTooSmall`], [`FieldError::Interrupted`]. Failed pages leave gaps and are no errors.
pub fn cast(
    pager: &Arc<Pager>,
    scene: &Arc<Scene>,
    options: &CastOptions,
    watch: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Image, FieldError> {
    cast_until(pager, scene, options, None, watch)
}

/// Depth at which a ray ends, by column and row of its pixel: along the line of sight, from the plane of the eye. A ray
/// of depth negative infinity is not cast.
pub type Depth<'a> = dyn Fn(u32, u32) -> f64 + Sync + 'a;

/// Where rays end.
#[derive(Copy, Clone)]
pub struct RayEnds<'a> {
    /// Their depths.
    pub depth: &'a Depth<'a>,
    /// Whether a pixel's ray is cast at all, as far as a cheap test shows. Tiles without such rays are left out. A few
    /// pixels at the edges of surfaces have many rays. A whole picture of tiles for each took a second at 1920 x 1080.
    pub wanted: Option<&'a (dyn Fn(u32, u32) -> bool + Sync)>,
    /// Stops on the way, the last at the end.
    pub stops: Option<Stops<'a>>,
}

/// Writes the depths of the pixel at this column and row, and returns their number.
pub type Depths<'a> = dyn Fn(u32, u32, &mut [f64; MOST_STOPS]) -> usize + Sync + 'a;

/// Takes the light gathered up to each depth of the pixel at this column and row.
pub type Take<'a> = dyn Fn([u32; 2], &[RayLight]) + Sync + 'a;

/// Depths at which rays report their gathered light.
#[derive(Copy, Clone)]
pub struct Stops<'a> {
    /// The depths of each pixel.
    pub depths: &'a Depths<'a>,
    /// Most depths of a pixel.
    pub most: usize,
    /// Called once for each cast pixel, from any thread.
    pub take: &'a Take<'a>,
}

/// As [`cast`], with rays that end at surfaces.
///
/// # Errors
/// As [`cast`].
pub fn cast_until(
    pager: &Arc<Pager>,
    scene: &Arc<Scene>,
    options: &CastOptions,
    ends: Option<RayEnds<'_>>,
    watch: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Image, FieldError> {
    let [width, height] = scene.size();
    let rows = options.rows_of(height);
    let pixels = u64::from(width) * rows.len() as u64;
    let limit = pager.ledger().limit();
    let short = |needs: u64, what: &str| FieldError::LimitTooSmall {
        limit,
        needs: would_do(pager, needs.saturating_mul(2)),
        what: what.into(),
    };
    let _held = written_ahead::ask(pager, scene);
    let kept = options.kept.as_deref();
    kept.inspect(|kept| kept.heed(limit));
    let bytes = Framebuffer::bytes(pixels, options.deadline.is_some());
    let charge = pager.charge(ChargeKind::Tiles, bytes).map_err(|_| short(bytes, "a picture of volumes"))?;
    let few = CastThreads::of(limit, bytes, scene, options.workers.max(1));
    let workers = few.threads;
    let mut grid = Framebuffer::new(width, rows.clone(), options.deadline.map(|_| COARSEST));
    let mut before = RunStats::default();
    if let Some(Coarse { scene, stride, by }) = options.coarse.as_ref().filter(|_| options.deadline.is_some()) {
        let options = &CastOptions { deadline: options.deadline.max(*by), ..options.clone() };
        // The coarse level is optional: without memory for both, the picture does without it.
        if let Ok(own) = ThreadCaches::new(pager, scene, few) {
            let ends = ends.map(|e| RayEnds { stops: None, ..e });
            let means = TileBudget::of(pager, scene, workers, 0);
            (grid, before) = grid.cast_coarse(*stride, options, ends, watch, |share, told| {
                let load = means.load(&share, workers, pager);
                let work = VolumeCast { scene, ends, share, own: &own, next: &None, means };
                executor::run(&work, pager, load, told)
            })?;
        }
    }
    let own = match kept {
        Some(kept) => kept.take(pager, scene, few),
        None => ThreadCaches::new(pager, scene, few),
    };
    let own = own.map_err(|bytes| short(bytes, "maps of a volume's blocks"))?;
    let next = match options.next {
        Some(step) => Some(Next::new(pager, step).map_err(|bytes| short(bytes, "what is read ahead"))?),
        None => None,
    };
    let means = TileBudget::of(pager, scene, workers, ends.and_then(|e| e.stops).map_or(0, |s| s.most));
    // If not all pages fit, those of the last tiles are still resident. If they fit, each thread keeps its half.
    let backwards = || means.in_runs < u64::MAX && kept.is_some_and(SharedBricks::is_backwards);
    let (grid, filled, mut stats) = grid.cast(options, ends, &backwards, watch, |share, told| {
        let load = means.load(&share, workers, pager);
        let work = VolumeCast { scene, ends, share, own: &own, next: &next, means };
        if options.deadline.is_none() && options.next.is_none() {
            if let Some(sweep) = Sweep::of(&work, &load, pager) {
                return sweep.run(work, pager, load, told);
            }
        }
        executor::run(&work, pager, load, told)
    })?;
    stats.add(&before);
    if let Some(kept) = kept {
        kept.put(own);
    }
    let Framebuffer { rgba, gaps, marks, counts, .. } = grid;
    Ok(Image { width, rows, rgba, gaps, filled, marks, counts, stats, _charge: charge })
}

/// Whether a scene has more pages than fit beside a picture. Each separately cast part of the picture then reads them
/// anew.
pub fn is_large(scene: &Scene, pager: &Pager) -> bool {
    scene.page_bytes() > pager.ledger().limit() / 4 * 3
}

/// Shares of a picture's tiles in the memory limit.
#[derive(Copy, Clone)]
struct TileBudget {
    tile_bytes: usize,
    pin_bytes: usize,
    holds: usize,
    in_runs: u64,
    room: u64,
}

impl TileBudget {
    /// For rays with `stops` stops. All else that the picture needs is charged already.
    fn of(pager: &Pager, scene: &Scene, workers: usize, stops: usize) -> Self {
        // Room for pages: the limit without the picture and the threads' own memory.
        let ledger = pager.ledger();
        let pages = ledger.of(ChargeKind::Frames) + ledger.of(ChargeKind::Cached);
        let room = ledger.limit().saturating_sub(ledger.used().saturating_sub(pages));
        Self {
            tile_bytes: RayTile::bytes(scene, stops),
            pin_bytes: (room / PIN_SHARE / workers as u64) as usize,
            holds: (room / HELD_SHARE / scene.largest_page() as u64).max(1) as usize,
            in_runs: in_runs(scene.page_bytes(), ledger.limit()),
            room,
        }
    }

    fn load(&self, share: &PassTiles<'_>, workers: usize, pager: &Pager) -> RunLoad {
        let busy = pager.readers().max(workers * 2 * LANES).max(BUSY);
        let active = (self.room / 8 / self.tile_bytes as u64).clamp(2 * workers as u64, busy as u64) as usize;
        RunLoad { tasks: share.tiles.len() as u64, workers, active }
    }
}

/// Successive tiles that one thread takes. Two threads on one line of tiles each make nearly all of its bricks: 31,000
/// to 35,000 a picture instead of 20,000.
///
/// If all pages fit, each thread has its own half. Otherwise threads stay near each other and share pages, in one place
/// if memory is little. At 7 % of the pages runs of 64 read a tenth more; at 49 to 100 % they took 5 % less time.
fn in_runs(page_bytes: u64, limit: u64) -> u64 {
    if page_bytes <= limit / 4 * 3 {
        u64::MAX
    } else if page_bytes / 2 <= limit {
        64
    } else {
        1
    }
}

/// Tiles that keep a disk busy.
const BUSY: usize = 128;

struct VolumeCast<'a> {
    scene: &'a Arc<Scene>,
    ends: Option<RayEnds<'a>>,
    share: PassTiles<'a>,
    own: &'a ThreadCaches,
    next: &'a Option<Next>,
    means: TileBudget,
}

/// A tile under way. At the deadline its present state is taken.
struct Under {
    tile: Option<RayTile>,
    counts: RayCounts,
    to: To,
}

impl Drop for Under {
    fn drop(&mut self) {
        if let Some(tile) = &self.tile {
            self.to.take_part(tile);
        }
    }
}

impl VolumeCast<'_> {
    /// Tile `n` at its beginning.
    fn tile(&self, n: u64) -> RayTile {
        let tile = RayTile::of(self.scene, self.share.pixels(n));
        match self.ends {
            Some(RayEnds { stops: Some(stops), .. }) => tile.stopping(self.scene, stops.depths),
            Some(RayEnds { depth, .. }) => tile.ending(self.scene, depth),
            None => tile,
        }
    }

    /// Takes the results of a finished tile.
    fn take(&self, tile: &RayTile, counts: &RayCounts) {
        if let Some(stops) = self.ends.and_then(|e| e.stops) {
            tile.stops().for_each(|(at, light)| (stops.take)(at, light));
        }
        self.share.to.take(tile.pixels(), counts);
    }
}

impl<'a> Work for VolumeCast<'a> {
    type Task = Under;
    type Context = Lent<'a>;

    fn context(&self, thread: usize, worker: Worker) -> Lent<'a> {
        let mut lent = self.own.context(thread, self.scene, worker);
        if self.next.is_some() {
            lent.context().note_touched();
        }
        lent
    }
    fn worker<'c>(&self, lent: &'c mut Lent<'a>) -> &'c mut Worker {
        lent.context().worker()
    }
    fn admit(&self, n: u64) -> Result<Self::Task, FieldError> {
        Ok(Under { tile: Some(self.tile(n)), counts: RayCounts::default(), to: self.share.to.clone() })
    }
    fn steps(&self, lent: &mut Lent<'a>, tasks: [Option<&mut Self::Task>; LANES], outcomes: &mut [Outcome; LANES]) {
        let context = lent.context();
        for (task, outcome) in tasks.into_iter().zip(outcomes) {
            let Some(Under { tile: Some(tile), counts, .. }) = task else { continue };
            outcome.progress = tile.step(self.scene, context, self.means.pin_bytes);
            if outcome.progress == StepProgress::Need {
                outcome.missing.append(context.missing());
            }
            outcome.moved = tile.moved();
            counts.add(&core::mem::take(&mut context.counts));
            if let Some(next) = self.next {
                next.ask(context.touched());
            }
        }
    }
    fn bytes(&self, _task: &Self::Task) -> usize {
        self.means.tile_bytes
    }
    fn finish(&self, mut task: Self::Task) -> Result<(), FieldError> {
        let Some(tile) = task.tile.take() else { return Ok(()) };
        self.take(&tile, &task.counts);
        Ok(())
    }
}

impl<'a> Windowed for VolumeCast<'a> {}

impl<'a> Budgeted for VolumeCast<'a> {
    fn in_runs(&self) -> u64 {
        self.means.in_runs
    }
    fn holds(&self) -> usize {
        self.means.holds
    }
    fn until(&self) -> Option<Instant> {
        self.share.to.deadline
    }
}
