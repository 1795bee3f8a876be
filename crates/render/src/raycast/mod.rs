//! Rays through volumes, and through the cells of zones, on all cores, out of core.

mod brick_cache;
mod cells;
mod next_step;
mod progressive;
mod slab_sweep;
mod tile_order;

pub use brick_cache::KeptBricks;
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
    /// Rows of the picture; `None`: all.
    pub rows: Option<Range<u32>>,
    /// When the picture has to be there. Pixels are then cast in a coarse grid first, and in finer ones until it is time; those that are
    /// left are filled from those around them. With time enough the picture is the same as without.
    pub deadline: Option<Instant>,
    /// The time step that is drawn next: what rays come to is read ahead for it. Nothing is evicted for that which this picture needs.
    pub next: Option<u32>,
    /// With a deadline: a coarser level of the same, which is cast first, and seen where the rest is not there in time.
    pub coarse: Option<Coarse>,
    /// What pictures that are cast one after the other keep for each other. Pictures are the same without.
    pub kept: Option<Arc<KeptBricks>>,
}

/// The same volumes at coarser levels.
#[derive(Clone)]
pub struct Coarse {
    /// Of the same camera and size.
    pub scene: Arc<Scene>,
    /// Every so many-th pixel each way is cast at most: a power of two. Its voxels cover more.
    pub stride: u32,
    /// It has time up to then, even where the rest has less.
    pub by: Option<Instant>,
}

impl std::fmt::Debug for Coarse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coarse").field("stride", &self.stride).finish_non_exhaustive()
    }
}

impl CastOptions {
    /// Those of its rows that a picture of `height` has.
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
    /// Of each pixel, row by row: red, green and blue of linear light, premultiplied, and opacity.
    pub rgba: Vec<[f32; 4]>,
    /// Of each pixel, whether pages that cannot be had were left out: it has a gap.
    pub gaps: Vec<bool>,
    /// Pixels that were not cast, since it was time.
    pub filled: u64,
    /// Of each pixel by which grid it was cast, if it had to be there by a time; see [`Self::is_unknown`].
    marks: Vec<u8>,
    /// What was done.
    pub counts: RayCounts,
    /// What the run took.
    pub stats: RunStats,
    _charge: Charge,
}

impl Image {
    /// Whether a pixel could not be filled, since no ray near it was cast in time.
    pub fn is_unknown(&self, n: usize) -> bool {
        self.marks.get(n) == Some(&progressive::UNKNOWN)
    }

    /// Pixels that lack something.
    pub fn gap_count(&self) -> u64 {
        self.gaps.iter().filter(|g| **g).count() as u64
    }
}

/// The coarsest grid of pixels that are cast by a time. Rays that are so far apart take each sample by itself, so that there are few: some
/// thirty of 800 x 450, which leave no part of a picture unknown where a whole volume has to be read. With every eighth each way 9 of the 104
/// tiles of a compressed volume of 256^3 were done in 200 ms, beside other work.
const COARSEST: u32 = 128;

/// Bytes of a pixel of an [`Image`].
pub const PIXEL_BYTES: u64 = 17;

/// Pages that a step pins before it lets go take this share of the room for pages, divided by the threads.
const PIN_SHARE: u64 = 6;

/// Pages that are held for the elder take this share of it.
const HELD_SHARE: u64 = 3;

/// Casts rays for a picture, or for some rows of it. `watch` is told of finished tiles and their number, and says whether to go on.
///
/// # Errors
/// [`FieldError::LimitTooSmall`], [`FieldError::Interrupted`]. Pages that cannot be had leave gaps, and are no errors.
pub fn cast(
    pager: &Arc<Pager>,
    scene: &Arc<Scene>,
    options: &CastOptions,
    watch: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Image, FieldError> {
    cast_until(pager, scene, options, None, watch)
}

/// How deep a ray goes at most, by the column and row of its pixel: along the line of sight, from the plane of the eye. Negative
/// infinity: it is not cast.
pub type Depth<'a> = dyn Fn(u32, u32) -> f64 + Sync + 'a;

/// Where rays end.
#[derive(Copy, Clone)]
pub struct RayEnds<'a> {
    /// How deep they go.
    pub depth: &'a Depth<'a>,
    /// Whether a pixel's ray is cast at all, as far as that is known for little: tiles without one are left out. At the edges of
    /// surfaces a few pixels have many rays, and a whole picture of tiles for each of these cost a second at 1920 x 1080.
    pub wanted: Option<&'a (dyn Fn(u32, u32) -> bool + Sync)>,
    /// Where they stop on their way, the last time where they end.
    pub stops: Option<Stops<'a>>,
}

/// Writes the depths of the pixel at this column and row, and says how many they are.
pub type Depths<'a> = dyn Fn(u32, u32, &mut [f64; MOST_STOPS]) -> usize + Sync + 'a;

/// Takes what was gathered at the depths of the pixel at this column and row.
pub type Take<'a> = dyn Fn([u32; 2], &[RayLight]) + Sync + 'a;

/// At which depths rays say what they have gathered.
#[derive(Copy, Clone)]
pub struct Stops<'a> {
    /// Those of each pixel.
    pub depths: &'a Depths<'a>,
    /// So many at most.
    pub most: usize,
    /// Is given them once for each pixel that is cast, from any thread.
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
        // It is there to help: where memory is too little for both, the picture does without.
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
    // Of pages that do not all fit the tiles that come last have theirs still here. Where they fit each thread keeps its half.
    let backwards = || means.in_runs < u64::MAX && kept.is_some_and(KeptBricks::is_backwards);
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

/// Whether a scene has more pages than fit beside a picture: each part of the picture that is cast by itself then reads them anew.
pub fn is_large(scene: &Scene, pager: &Pager) -> bool {
    scene.page_bytes() > pager.ledger().limit() / 4 * 3
}

/// What a picture's tiles may take of a memory limit.
#[derive(Copy, Clone)]
struct TileBudget {
    tile_bytes: usize,
    pin_bytes: usize,
    holds: usize,
    in_runs: u64,
    room: u64,
}

impl TileBudget {
    /// Of rays with so many stops, when what else the picture needs is charged.
    fn of(pager: &Pager, scene: &Scene, workers: usize, stops: usize) -> Self {
        // What pages have room in beside the picture, and what threads have for themselves.
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

/// Tiles that follow each other which a thread takes, of a scene whose pages take so much under a limit. Where both threads go along one
/// line of tiles each makes the bricks of nearly all of them: 31,000 to 35,000 a picture in the place of 20,000. Where all pages fit
/// each has its own half; where they do not they stay near each other, so that they share pages, and in one place where memory is little: at
/// 7 % of the pages runs of 64 read a tenth more, at 49 to 100 % they took 5 % less time.
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

/// A tile under way. When it is time what there is of it is taken.
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
    /// Tile number `n`, at its beginning.
    fn tile(&self, n: u64) -> RayTile {
        let tile = RayTile::of(self.scene, self.share.pixels(n));
        match self.ends {
            Some(RayEnds { stops: Some(stops), .. }) => tile.stopping(self.scene, stops.depths),
            Some(RayEnds { depth, .. }) => tile.ending(self.scene, depth),
            None => tile,
        }
    }

    /// Takes what a tile that is done has come to.
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
