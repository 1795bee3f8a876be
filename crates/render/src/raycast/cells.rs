//! Rays through the cells of a dataset, on all cores and out of core.

use super::progressive::{Framebuffer, PassTiles};
use super::{CastOptions, Depth, Image, RayEnds, BUSY, PIN_SHARE};
use field::dataset::Dataset;
use field::error::FieldError;
use field::locator::{ZoneFields, ZoneLocator, LANES};
use field::nodes::{Nodes, Zone};
use field::paged::PagedNodes;
use kernels::cellrays::{CellScene, CellTile};
use kernels::rays::RayCounts;
use kernels::streamline::StepProgress;
use pager::{ChargeKind, Pager, Worker};
use runtime::executor::{self, Budgeted, Outcome, RunLoad, Windowed, Work};
use runtime::limits::{active_lines, enough_limit, least_limit, more_than, would_do};
use std::sync::Arc;
use std::time::Instant;

/// Fields of a dataset at one time step, as rays sample them.
#[derive(Clone, Debug)]
pub struct CellSource {
    /// The zones, with the boxes of their blocks.
    pub zones: Arc<[Zone]>,
    /// Sampled fields of each zone; none in zones that the scene does not name.
    pub fields: Arc<[ZoneFields]>,
    /// Time step.
    pub step: u32,
    /// Bytes of the largest step, and of its closure wherever the ray goes.
    pub need: [u64; 2],
}

impl CellSource {
    /// Fields `names` of `zones`, which all have them.
    ///
    /// # Errors
    /// [`FieldError::Unknown`].
    pub fn new(
        dataset: &Dataset,
        names: &[String],
        zones: &[u32],
        step: usize,
        pager: &Pager,
    ) -> Result<Self, FieldError> {
        let of_zone = |zone: usize| if zones.contains(&(zone as u32)) { names.to_vec() } else { Vec::new() };
        let fields = dataset.fields_by_zone(step, &of_zone)?;
        let need = [dataset.step_bytes(&fields, pager, 1), dataset.closure_bytes(&fields, pager, 1)];
        Ok(Self { zones: dataset.zones.clone(), fields, step: step as u32, need })
    }
}

/// Most pages that a tile requests at once: enough to keep a disk busy.
const AT_ONCE: usize = 64;

/// Divisor: the share of the limit for a tile's requests before a deadline. Its rays lie apart and share few pages. All
/// requested pages of the elder are held.
const ASKED_SHARE: u64 = 16;
/// Least pages of the largest step where it needs several: a cell's corners lie in up to eight.
const OF_STEP: u64 = 8;

/// Stride of the coarsest grid before a deadline. A sample takes about ten times as long as in a volume. A thousandth
/// of a megapixel's rays takes a few hundredths of a second.
const COARSEST: u32 = 32;

/// Casts the rays of a picture or of some rows, each up to its end in `ends`. `watch` gets the numbers of finished
/// tiles and of all tiles, and returns whether to continue.
///
/// # Errors
/// [`FieldError::LimitTooSmall`], [`FieldError::Interrupted`]. Failed pages leave gaps and are no errors.
pub fn cast_cells(
    pager: &Arc<Pager>,
    source: &CellSource,
    scene: &Arc<CellScene>,
    options: &CastOptions,
    ends: Option<RayEnds<'_>>,
    watch: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Image, FieldError> {
    let [width, height] = scene.size();
    let rows = options.rows_of(height);
    let pixels = u64::from(width) * rows.len() as u64;
    let workers = options.workers.max(1);
    let limit = pager.ledger().limit();
    let [step_bytes, closure] = source.need;
    let bytes = Framebuffer::bytes(pixels, options.deadline.is_some()) + scene.bytes() as u64;
    let tile_bytes = CellTile::usual_bytes(scene) as u64;
    let enough = enough_limit(closure + bytes + 2 * workers as u64 * tile_bytes).max(least_limit(step_bytes));
    let short = |what: &str| FieldError::LimitTooSmall { limit, needs: enough, what: what.into() };
    if limit < least_limit(step_bytes) {
        return Err(short("the largest step of a ray"));
    }
    let charge = pager.charge(ChargeKind::Tiles, bytes).map_err(|_| {
        let needs = would_do(pager, bytes.saturating_mul(2)).max(enough);
        FieldError::LimitTooSmall { limit, needs, what: "a picture of fields".into() }
    })?;
    let pin_bytes = (limit / PIN_SHARE / workers as u64) as usize;
    let depth = ends.map(|e| e.depth);
    // A tile counts as one line, since its rays share most of their pages.
    let most = active_lines(limit, step_bytes, tile_bytes, workers, pager.readers()) as u64;
    let fit = (limit / 8 / tile_bytes).max(2 * workers as u64);
    let active = most.min(fit).min(BUSY as u64) as usize;
    let at_once = match options.deadline {
        Some(_) => (limit / ASKED_SHARE / (step_bytes / OF_STEP).max(1)).clamp(1, AT_ONCE as u64) as usize,
        None => AT_ONCE,
    };
    let grid = Framebuffer::new(width, rows.clone(), options.deadline.map(|_| COARSEST));
    let (grid, filled, stats) = grid.cast(options, ends, &|| false, watch, |share, told| {
        let load = RunLoad { tasks: share.tiles.len() as u64, workers, active };
        let work = CellCast { source, scene, depth, share, pin_bytes, at_once };
        executor::run(&work, pager, load, told).map_err(|e| more_than(e, enough))
    })?;
    let Framebuffer { rgba, gaps, marks, counts, .. } = grid;
    Ok(Image { width, rows, rgba, gaps, filled, marks, counts, stats, _charge: charge })
}

struct CellCast<'a> {
    source: &'a CellSource,
    scene: &'a CellScene,
    depth: Option<&'a Depth<'a>>,
    share: PassTiles<'a>,
    pin_bytes: usize,
    at_once: usize,
}

impl Work for CellCast<'_> {
    type Task = CellTile;
    type Context = ZoneLocator<PagedNodes>;

    fn context(&self, _thread: usize, worker: Worker) -> Self::Context {
        let nodes = PagedNodes::new(self.source.zones.clone(), worker, self.source.step);
        ZoneLocator::new(nodes, self.source.fields.clone())
    }
    fn worker<'c>(&self, space: &'c mut Self::Context) -> &'c mut Worker {
        space.nodes.worker()
    }
    fn admit(&self, n: u64) -> Result<CellTile, FieldError> {
        let tile = CellTile::of(self.scene, self.share.pixels(n));
        Ok(match self.depth {
            Some(depth) => tile.ending(self.scene, depth),
            None => tile,
        })
    }
    fn steps(&self, space: &mut Self::Context, tasks: [Option<&mut CellTile>; LANES], outcomes: &mut [Outcome; LANES]) {
        for (lane, (tile, outcome)) in tasks.into_iter().zip(outcomes).enumerate() {
            let Some(tile) = tile else { continue };
            if self.share.to.is_late() {
                // The run ends soon and drops unfinished tiles.
                outcome.progress = StepProgress::Yield;
                continue;
            }
            space.take_turn(lane);
            // A tile with all pages resident takes 0.1 s and more, so each ray checks the time.
            outcome.progress = tile.step(self.scene, space, |nodes| {
                let many = nodes.missing().len() >= self.at_once || nodes.worker().pinned_bytes() > self.pin_bytes;
                many || self.share.to.is_late()
            });
            match outcome.progress {
                StepProgress::Need => outcome.missing.append(space.nodes.missing()),
                _ => space.nodes.missing().clear(),
            }
            outcome.moved = tile.moved();
        }
    }
    fn bytes(&self, tile: &CellTile) -> usize {
        tile.bytes()
    }
    fn finish(&self, tile: CellTile) -> Result<(), FieldError> {
        let counts = RayCounts { samples: tile.counts.samples, ..RayCounts::default() };
        self.share.to.take(tile.pixels(self.scene), &counts);
        Ok(())
    }
}

impl Windowed for CellCast<'_> {}

impl Budgeted for CellCast<'_> {
    fn until(&self) -> Option<Instant> {
        self.share.to.deadline
    }
}
