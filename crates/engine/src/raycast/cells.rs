//! Rays through the cells of a dataset on all cores, out of core.

use super::{order, Depth, Ends, Image, BUSY, PIN_SHARE, PIXEL_BYTES};
use crate::executor::{self, Load, Outcome, Work};
use crate::limits::{active_lines, enough_limit, least_limit, more_than, would_do};
use field::dataset::Dataset;
use field::error::FieldError;
use field::nodes::{Nodes, Zone};
use field::paged::PagedNodes;
use field::space::{Space, ZoneFields, LANES};
use kernels::cellrays::{CellScene, CellTile, TILE};
use kernels::rays::Counts;
use kernels::streamline::Progress;
use pager::{ChargeKind, Pager, Worker};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// A scalar of a dataset at a time step, as rays meet it.
#[derive(Clone, Debug)]
pub struct CellSource {
    /// The zones, with the boxes of their blocks.
    pub zones: Arc<[Zone]>,
    /// What is sampled, for each zone: one field in those that the scene names.
    pub fields: Arc<[ZoneFields]>,
    /// Time step.
    pub step: u32,
    /// Bytes of the largest step, and of any wherever it leads.
    pub need: [u64; 2],
}

impl CellSource {
    /// A field of a dataset in the zones that have it.
    ///
    /// # Errors
    /// [`FieldError::Unknown`].
    pub fn new(dataset: &Dataset, field: &str, step: usize, pager: &Pager) -> Result<Self, FieldError> {
        let has: Vec<usize> = dataset.zones_with(field).collect();
        if has.is_empty() {
            return Err(dataset.unknown_field(field));
        }
        let of_zone = |zone: usize| if has.contains(&zone) { vec![field.to_owned()] } else { Vec::new() };
        let fields = dataset.fields_by_zone(step, &of_zone)?;
        let need = [dataset.step_bytes(&fields, pager, 1), dataset.closure_bytes(&fields, pager, 1)];
        Ok(Self { zones: dataset.zones.clone(), fields, step: step as u32, need })
    }
}

/// Pages that a tile asks for at once: no more than keep a disk busy.
const AT_ONCE: usize = 64;

/// Casts rays through cells for `rows` of a picture, each up to where it ends, if that is said. `watch` is told of finished tiles and their
/// number, and says whether to go on.
///
/// # Errors
/// [`FieldError::LimitTooSmall`], [`FieldError::Interrupted`]. Pages that cannot be had leave gaps, and are no errors.
pub fn cast_cells(
    pager: &Arc<Pager>,
    source: &CellSource,
    scene: &Arc<CellScene>,
    workers: usize,
    rows: Range<u32>,
    ends: Option<Ends<'_>>,
    watch: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Image, FieldError> {
    let [width, height] = scene.size();
    let rows = rows.start.min(height)..rows.end.min(height);
    let pixels = u64::from(width) * u64::from(rows.end.saturating_sub(rows.start));
    let tiles = order::tiles(width, rows.clone(), TILE, ends.and_then(|e| e.wanted));
    let workers = workers.max(1);
    let limit = pager.ledger().limit();
    let [step_bytes, closure] = source.need;
    let bytes = pixels * PIXEL_BYTES + tiles.len() as u64 * 8 + scene.bytes() as u64;
    let tile_bytes = CellTile::usual_bytes() as u64;
    let enough = enough_limit(closure + bytes + 2 * workers as u64 * tile_bytes).max(least_limit(step_bytes));
    let short = |what: &str| FieldError::LimitTooSmall { limit, needs: enough, what: what.into() };
    if limit < least_limit(step_bytes) {
        return Err(short("the largest step of a ray"));
    }
    let charge = pager.charge(ChargeKind::Tiles, bytes).map_err(|_| {
        let needs = would_do(pager, bytes.saturating_mul(2)).max(enough);
        FieldError::LimitTooSmall { limit, needs, what: "a picture of a field".into() }
    })?;
    let image =
        Mutex::new(Parts { rgba: vec![[0.0; 4]; pixels as usize], gaps: vec![false; pixels as usize], samples: 0 });
    let total = tiles.len() as u64;
    let pin_bytes = (limit / PIN_SHARE / workers as u64) as usize;
    let depth = ends.map(|e| e.depth);
    let work = Cast { source, scene, depth, tiles: &tiles, width, rows: rows.clone(), image, pin_bytes };
    // A tile is as many lines side by side, which share most of their pages.
    let most = active_lines(limit, step_bytes, tile_bytes, workers, pager.readers()) as u64;
    let fit = (limit / 8 / tile_bytes).max(2 * workers as u64);
    let active = most.min(fit).min(BUSY as u64) as usize;
    let load = Load { tasks: total, workers, active, at_once: usize::MAX };
    let stats = executor::run(&work, pager, load, &mut |done| watch(done, total)).map_err(|e| more_than(e, enough))?;
    let Parts { rgba, gaps, samples } = work.image.into_inner().unwrap_or_else(PoisonError::into_inner);
    let counts = Counts { samples, ..Counts::default() };
    Ok(Image { width, rows, rgba, gaps, filled: 0, counts, stats, _charge: charge })
}

struct Parts {
    rgba: Vec<[f32; 4]>,
    gaps: Vec<bool>,
    samples: u64,
}

struct Cast<'a> {
    source: &'a CellSource,
    scene: &'a CellScene,
    depth: Option<&'a Depth<'a>>,
    tiles: &'a [[u32; 2]],
    width: u32,
    rows: Range<u32>,
    image: Mutex<Parts>,
    pin_bytes: usize,
}

impl Work for Cast<'_> {
    type Task = CellTile;
    type Context = Space<PagedNodes>;

    fn context(&self, worker: Worker) -> Self::Context {
        let nodes = PagedNodes::new(self.source.zones.clone(), worker, self.source.step);
        Space::new(nodes, self.source.fields.clone())
    }
    fn worker<'c>(&self, space: &'c mut Self::Context) -> &'c mut Worker {
        space.nodes.worker()
    }
    fn admit(&self, n: u64) -> Result<CellTile, FieldError> {
        let depth = self.depth.map(|depth| move |x: u32, y: u32| depth(x, y));
        let depth = depth.as_ref().map(|d| d as &dyn Fn(u32, u32) -> f64);
        Ok(CellTile::ending(self.scene, self.tiles[n as usize], depth))
    }
    fn steps(&self, space: &mut Self::Context, tasks: [Option<&mut CellTile>; LANES], outcomes: &mut [Outcome; LANES]) {
        for (lane, (tile, outcome)) in tasks.into_iter().zip(outcomes).enumerate() {
            let Some(tile) = tile else { continue };
            space.take_turn(lane);
            outcome.progress = tile.step(self.scene, space, |nodes| {
                nodes.missing().len() >= AT_ONCE || nodes.worker().pinned_bytes() > self.pin_bytes
            });
            match outcome.progress {
                Progress::Need => outcome.missing.append(space.nodes.missing()),
                _ => space.nodes.missing().clear(),
            }
        }
    }
    fn bytes(&self, tile: &CellTile) -> usize {
        tile.bytes()
    }
    fn finish(&self, tile: CellTile) -> Result<(), FieldError> {
        let mut image = self.image.lock().unwrap_or_else(PoisonError::into_inner);
        image.samples += tile.counts.samples;
        let ([x, y], [w, h]) = (tile.at(), tile.size());
        let mut pixels = tile.colours().zip(tile.gaps());
        for row in y..(y + h).min(self.rows.end) {
            let first = (row - self.rows.start) as usize * self.width as usize + x as usize;
            for n in first..first + w as usize {
                let Some((rgba, gap)) = pixels.next() else { return Ok(()) };
                (image.rgba[n], image.gaps[n]) = (rgba, gap);
            }
        }
        Ok(())
    }
}
