//! Pictures of more than fits, slab by slab of the volume.
//!
//! # Theory
//! Where pages do not all fit, a tile of rays that goes to its end comes to pages of the whole depth of the volume, and the next tile comes to
//! nearly the same ones when they have gone: a file of 8.6 GB was read 23 times within 64 MiB. So the volume is cut in slabs, layers of pages
//! along the slowest axis of its file, and all rays go through one slab before any goes into the next. A ray comes to slabs in one direction
//! only: those that go up come first, those that go down after them, from the other end. Each slab is therefore read at most twice, and mostly
//! once, in the order of the file.
//!
//! # Practice
//! A ray does not depend on where it waits, so a picture is the same as without, bit for bit. Rays under way are charged. Where those of all pixels do
//! not fit, the picture is cast in bands of rows, one after the other: rays of neighbouring rows share their pages, and others few.

use super::{Cast, Lent, Means};
use crate::executor::{self, Load, Outcome, RunStats, Work};
use field::error::FieldError;
use field::space::LANES;
use kernels::rays::{Bound, Counts, Layers, RayTile, TILE};
use kernels::streamline::Progress;
use pager::{ChargeKind, Pager, Worker};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Rays under way take this share of what a picture leaves of the limit.
const SHARE: u64 = 3;
/// The pages of a slab take this share of what is left, so that those of the one before that rays still reach into are here, too.
const SLAB_SHARE: u64 = 2;

/// How a picture is cast in slabs.
pub(super) struct Sweep {
    layers: Layers,
    /// Tiles whose rays are under way together.
    band: usize,
}

impl Sweep {
    /// For what is to be cast, if its pages do not all fit.
    pub(super) fn of(cast: &Cast<'_>, pager: &Pager) -> Option<Self> {
        let layers = cast.scene.layers()?;
        let limit = pager.ledger().limit();
        if cast.scene.page_bytes() <= limit / 4 * 3 {
            return None;
        }
        let across = u64::from(cast.scene.size()[0].div_ceil(TILE)).max(1);
        let band = cast.means.room / SHARE / cast.means.tile_bytes as u64 / across * across;
        (band > 0).then_some(Self { layers, band: band as usize })
    }

    /// Casts the tiles of `cast`.
    pub(super) fn run(
        &self,
        cast: Cast<'_>,
        pager: &Arc<Pager>,
        load: Load,
        told: &mut dyn FnMut(u64) -> bool,
    ) -> Result<RunStats, FieldError> {
        let mut order: Vec<usize> = (0..cast.share.tiles.len()).collect();
        // Rows of tiles, in bands of equal size.
        order.sort_by_key(|n| (cast.share.tiles[*n][1], *n));
        let bands = order.len().div_ceil(self.band.max(1)).max(1);
        let each = order.len().div_ceil(bands).max(1);
        let mut stats = RunStats::default();
        let ended = AtomicU64::new(0);
        for band in order.chunks_mut(each) {
            // Within a band neighbours follow each other as they do elsewhere.
            band.sort_unstable();
            let bytes = (band.len() * cast.means.tile_bytes) as u64;
            let Ok(_charge) = pager.charge(ChargeKind::Tiles, bytes) else {
                // What else is under way has taken the room: these tiles go to their ends one by one.
                let store = Store::new(&cast, band);
                let all: Vec<usize> = (0..band.len()).collect();
                stats.add(&Pass { cast: &cast, list: &all, store, bound: None, ended: &ended }.run(pager, load, told)?);
                continue;
            };
            let means = Means { room: cast.means.room.saturating_sub(bytes), ..cast.means };
            let thick =
                (means.room / SLAB_SHARE / self.layers.bytes.max(1)).clamp(1, u64::from(self.layers.count)) as u32;
            let store = Store::new(&cast, band);
            let slabs = self.layers.count.div_ceil(thick);
            for pass in 0..2 * slabs {
                let bound = self.bound(pass, slabs, thick);
                let list = store.within(bound);
                if list.is_empty() {
                    continue;
                }
                let pass = Pass { cast: &cast, list: &list, store: store.clone(), bound: Some(bound), ended: &ended };
                stats.add(&pass.run(pager, load, told)?);
            }
        }
        Ok(stats)
    }

    /// Where rays wait in a pass: first those that go up, to the end of one slab after the other, then those that go down.
    fn bound(&self, pass: u32, slabs: u32, thick: u32) -> Bound {
        let Layers { axis, edge, .. } = self.layers;
        let upward = pass < slabs;
        let at = if upward { pass + 1 } else { 2 * slabs - 1 - pass };
        // A cell that begins before the last voxel of the slab lies in it.
        let plane = match (upward, at == slabs, at == 0) {
            (true, true, _) => f64::INFINITY,
            (true, false, _) => f64::from(at) * f64::from(thick) * f64::from(edge) - 1.0,
            (false, _, true) => f64::NEG_INFINITY,
            (false, _, false) => f64::from(at) * f64::from(thick) * f64::from(edge),
        };
        Bound { axis, plane, upward }
    }
}

/// Tiles of a band between passes.
struct Store {
    tiles: Vec<Mutex<Option<RayTile>>>,
}

impl Store {
    fn new(cast: &Cast<'_>, band: &[usize]) -> Arc<Self> {
        let tiles = band.iter().map(|n| Mutex::new(Some(cast.tile(*n as u64)))).collect();
        Arc::new(Self { tiles })
    }

    fn at(&self, n: usize) -> std::sync::MutexGuard<'_, Option<RayTile>> {
        self.tiles[n].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bounds all tiles, and says which have rays that go on.
    fn within(&self, bound: Bound) -> Vec<usize> {
        let goes = |n: &usize| {
            self.at(*n).as_mut().is_some_and(|tile| {
                tile.bound(bound);
                tile.is_within()
            })
        };
        (0..self.tiles.len()).filter(goes).collect()
    }
}

/// One slab.
struct Pass<'p, 'a> {
    cast: &'p Cast<'a>,
    /// Those that go on, by their place in the band.
    list: &'p [usize],
    store: Arc<Store>,
    /// `None`: they go to their ends.
    bound: Option<Bound>,
    /// Tiles that are done, of all passes.
    ended: &'p AtomicU64,
}

/// A tile under way. However it goes, what it has come to is kept.
struct Visit {
    n: usize,
    tile: Option<RayTile>,
    counts: Counts,
    store: Arc<Store>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        *self.store.at(self.n) = self.tile.take();
    }
}

impl<'a> Pass<'_, 'a> {
    fn run(&self, pager: &Arc<Pager>, load: Load, told: &mut dyn FnMut(u64) -> bool) -> Result<RunStats, FieldError> {
        let load = Load { tasks: self.list.len() as u64, ..load };
        executor::run(self, pager, load, &mut |_| told(self.ended.load(Relaxed)))
    }
}

impl<'a> Work for Pass<'_, 'a> {
    type Task = Visit;
    type Context = Lent<'a>;

    fn context(&self, worker: Worker) -> Lent<'a> {
        self.cast.context(worker)
    }
    fn context_of(&self, thread: usize, worker: Worker) -> Lent<'a> {
        self.cast.context_of(thread, worker)
    }
    fn worker<'c>(&self, lent: &'c mut Lent<'a>) -> &'c mut Worker {
        self.cast.worker(lent)
    }
    fn in_runs(&self) -> u64 {
        self.cast.in_runs()
    }
    fn holds(&self) -> usize {
        self.cast.holds()
    }
    fn admit(&self, n: u64) -> Result<Visit, FieldError> {
        let n = self.list[n as usize];
        let tile = self.store.at(n).take();
        Ok(Visit { n, tile, counts: Counts::default(), store: self.store.clone() })
    }
    fn steps(&self, lent: &mut Lent<'a>, tasks: [Option<&mut Visit>; LANES], outcomes: &mut [Outcome; LANES]) {
        let context = lent.context();
        for (task, outcome) in tasks.into_iter().zip(outcomes) {
            let Some(Visit { tile: Some(tile), counts, .. }) = task else { continue };
            outcome.progress = tile.step(self.cast.scene, context, self.cast.means.pin_bytes);
            if outcome.progress == Progress::Need {
                outcome.missing.append(context.missing());
            }
            outcome.moved = tile.moved();
            counts.add(&core::mem::take(&mut context.counts));
        }
    }
    fn bytes(&self, _task: &Visit) -> usize {
        // What tiles take between passes is charged; one that is gone through takes no more.
        if self.bound.is_some() {
            0
        } else {
            self.cast.means.tile_bytes
        }
    }
    fn finish(&self, mut task: Visit) -> Result<(), FieldError> {
        let Some(tile) = task.tile.take() else { return Ok(()) };
        let counts = core::mem::take(&mut task.counts);
        if tile.is_done() {
            if let Some(stops) = self.cast.ends.and_then(|e| e.stops) {
                tile.stops().for_each(|(at, light)| (stops.take)(at, light));
            }
            self.cast.share.to.take(tile.pixels(), &counts);
            self.ended.fetch_add(1, Relaxed);
        } else {
            self.cast.share.to.take(core::iter::empty(), &counts);
            task.tile = Some(tile);
        }
        Ok(())
    }
}
