//! Pictures of volumes larger than memory, slab by slab.
//!
//! # Theory
//! Without slabs each tile of rays needs pages of the volume's whole depth. If not all pages fit, the next tile needs
//! nearly the same ones after their eviction. A file of 8.6 GB was read 23 times within 64 MiB.
//!
//! So the volume is cut in slabs: layers of pages along the slowest axis of its file. All rays pass one slab before any
//! enters the next. A ray passes slabs in one direction. Rays upwards come first; rays downwards follow from the other
//! end. Each slab is therefore read at most twice, mostly once. If one layer does not fit, tiles follow each other in
//! strips ([`Strips`]), which share pages only with their neighbours. The pages of a few strips in one slab must fit.
//!
//! # Practice
//! A ray does not depend on where it waits, so the picture is equal bit for bit to one without slabs. Rays under way
//! are charged. If not all tiles fit, waiting ones rest in a smaller form, and their rays are made again in each slab.
//! If these do not fit, the picture is cast in successive bands of strips or rows. Tiles of one band share their pages,
//! different bands few. Pages that cut the same rows of a file are read together.

use super::{is_large, Lent, TileBudget, VolumeCast};
use field::error::FieldError;
use field::locator::LANES;
use kernels::rays::{Bound, Front, Layers, RayCounts, RayTile, RestingTile, Strips, TILE};
use kernels::streamline::StepProgress;
use pager::{ChargeKind, Pager, Worker};
use runtime::executor::{self, Budgeted, Outcome, RunLoad, RunStats, Windowed, Work};
use runtime::limits::would_do;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Divisor: the share of the room beside a picture for rays under way.
const SHARE: u64 = 3;
/// Divisor: the share of the remaining room for the pages of a slab. The previous slab, which rays still reach into,
/// has the other half.
const SLAB_SHARE: u64 = 2;

/// Divisor: the share of the room for one request of a tile, with the pages beside its own.
const ASKED_SHARE: u64 = 8;

/// Tiles under way in a slab. Each requests many pages at once, and these must fit.
const ACTIVE: usize = 32;
/// Least tiles of a thread, so that no thread is idle.
const ACTIVE_A_THREAD: usize = 2 * LANES;

/// A picture cast in slabs.
pub(super) struct Sweep {
    layers: Layers,
    /// The strips that order the tiles.
    strips: Option<Strips>,
    /// Tiles in their order, and the number of tiles of a strip or row.
    order: Vec<usize>,
    each: usize,
    /// Tiles under way together.
    active: usize,
}

impl Sweep {
    /// A sweep, if the pages do not all fit.
    pub(super) fn of(cast: &VolumeCast<'_>, load: &RunLoad, pager: &Pager) -> Option<Self> {
        if !is_large(cast.scene, pager) {
            return None;
        }
        let room = (cast.means.room - cast.means.room / SHARE) / SLAB_SHARE;
        let in_strips = cast.scene.strips().map(|strips| Self::in_strips(cast, load, strips));
        in_strips.filter(|sweep| sweep.slab_bytes(1) <= room).or_else(|| Self::in_rows(cast, load))
    }

    fn in_strips(cast: &VolumeCast<'_>, load: &RunLoad, strips: Strips) -> Self {
        let tiles = &cast.share.tiles;
        let places: Vec<_> = tiles.iter().map(|at| strips.place(cast.scene, *at)).collect();
        let mut order: Vec<usize> = (0..tiles.len()).collect();
        order.sort_by(|a, b| places[*a].0.cmp(&places[*b].0).then(places[*a].1.total_cmp(&places[*b].1)));
        let count = order.chunk_by(|a, b| places[*a].0 == places[*b].0).count();
        let each = tiles.len().div_ceil(count.max(1)).max(1);
        let active = load.active.min(ACTIVE.max(load.workers * ACTIVE_A_THREAD));
        Self { layers: strips.layers, strips: Some(strips), order, each, active }
    }

    fn in_rows(cast: &VolumeCast<'_>, load: &RunLoad) -> Option<Self> {
        let tiles = &cast.share.tiles;
        let mut order: Vec<usize> = (0..tiles.len()).collect();
        order.sort_by_key(|n| (tiles[*n][1], *n));
        let each = cast.scene.size()[0].div_ceil(TILE).max(1) as usize;
        Some(Self { layers: cast.scene.layers()?, strips: None, order, each, active: load.active })
    }

    /// Bytes of the pages that concurrent tiles use in so many layers.
    fn slab_bytes(&self, layers: u32) -> u64 {
        let whole = self.layers.bytes.saturating_mul(u64::from(layers));
        // Little room allows fewer tiles, but strips of few tiles need as many pages. Within 10 MB, 44 MB were read
        // 2.35 times by this rule. Five tiles under way in strips of five read them 3.3 times.
        let together = 1.0 + self.active.max(ACTIVE) as f64 / self.each as f64;
        self.strips.as_ref().map_or(whole, |strips| strips.bytes(together, layers).min(whole))
    }

    /// Layers of a slab.
    fn thick(&self, room: u64) -> u32 {
        (2..=self.layers.count).take_while(|n| self.slab_bytes(*n) <= room).last().unwrap_or(1)
    }

    pub(super) fn run(
        &self,
        cast: VolumeCast<'_>,
        pager: &Arc<Pager>,
        load: RunLoad,
        told: &mut dyn FnMut(u64) -> bool,
    ) -> Result<RunStats, FieldError> {
        let room = cast.means.room / SHARE;
        let rests = (self.order.len() * cast.means.tile_bytes) as u64 > room;
        let ended = AtomicU64::new(0);
        let begin = |n: usize| {
            let tile = cast.tile(n as u64);
            if tile.is_done() {
                cast.take(&tile, &RayCounts::default());
                ended.fetch_add(1, Relaxed);
                return None;
            }
            let bytes = if rests { tile.resting_bytes() } else { cast.means.tile_bytes };
            Some((n, tile.front(self.layers.axis), bytes + size_of::<Mutex<BandTile>>()))
        };
        let order: Vec<(usize, Front, usize)> = self.order.iter().copied().filter_map(begin).collect();
        let all: u64 = order.iter().map(|(.., bytes)| *bytes as u64).sum();
        if all / (self.order.len().div_ceil(self.each) as u64).max(1) > room {
            // Bands smaller than a strip or row would each read the volume once.
            let list: Vec<usize> = (0..order.len()).collect();
            let store = TileStore::new(&order, self.layers.axis, rests);
            return SlabPass { cast: &cast, list: &list, store, bound: None, ended: &ended }.run(pager, load, told);
        }
        let each = (all / all.div_ceil(room.max(1)).max(1)).max(1);
        let in_slab = RunLoad { active: self.active, ..load };
        let mut stats = RunStats::default();
        let mut left = &order[..];
        while !left.is_empty() {
            let mut bytes = 0;
            let fits = left.iter().take_while(|(.., own)| {
                let fits = bytes < each;
                bytes += if fits { *own as u64 } else { 0 };
                fits
            });
            let (band, rest) = left.split_at(fits.count());
            left = rest;
            let mut band = band.to_vec();
            if self.strips.is_none() {
                // Neighbours follow each other within a band, as elsewhere.
                band.sort_unstable_by_key(|(n, ..)| *n);
            }
            let store = TileStore::new(&band, self.layers.axis, rests);
            let Ok(mut charge) = pager.charge(ChargeKind::Tiles, bytes) else {
                // Another use has the room. These tiles go to their ends one by one.
                let list: Vec<usize> = (0..band.len()).collect();
                stats.add(
                    &SlabPass { cast: &cast, list: &list, store, bound: None, ended: &ended }.run(pager, load, told)?,
                );
                continue;
            };
            let means = TileBudget { room: cast.means.room.saturating_sub(bytes), ..cast.means };
            let thick = self.thick(means.room / SLAB_SHARE);
            let slabs = self.layers.count.div_ceil(thick);
            for pass in 0..2 * slabs {
                let bound = self.bound(pass, slabs, thick);
                let list = store.within(&bound);
                if list.is_empty() {
                    continue;
                }
                let pass =
                    SlabPass { cast: &cast, list: &list, store: store.clone(), bound: Some(bound), ended: &ended };
                stats.add(&pass.run(pager, in_slab, told)?);
                charge.grow(store.bytes()).map_err(|full| FieldError::LimitTooSmall {
                    limit: full.limit,
                    needs: would_do(pager, full.needs),
                    what: "rays of a picture that wait".into(),
                })?;
            }
            let list = store.left();
            if !list.is_empty() {
                let pass = SlabPass { cast: &cast, list: &list, store, bound: None, ended: &ended };
                stats.add(&pass.run(pager, load, told)?);
            }
        }
        Ok(stats)
    }

    /// The plane at which rays wait in a pass. Upward rays pass all slabs first, then downward ones.
    fn bound(&self, pass: u32, slabs: u32, thick: u32) -> Bound {
        let Layers { axis, edge, .. } = self.layers;
        let upward = pass < slabs;
        let at = if upward { pass + 1 } else { 2 * slabs - 1 - pass };
        // A cell that begins before the slab's last voxel lies in the slab.
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
struct TileStore {
    axis: usize,
    /// Whether waiting tiles rest in the smaller form.
    rests: bool,
    tiles: Vec<Mutex<BandTile>>,
}

struct BandTile {
    /// Number in the picture.
    number: usize,
    /// The places of its rays; `None` if all are at their ends.
    front: Option<Front>,
    state: TileState,
}

/// The state of a waiting tile.
enum TileState {
    /// Not begun, under way, or done.
    None,
    Whole(Box<RayTile>),
    Resting(RestingTile),
}

impl TileStore {
    fn new(band: &[(usize, Front, usize)], axis: usize, rests: bool) -> Arc<Self> {
        let of = |(number, front, _): &(usize, Front, usize)| {
            Mutex::new(BandTile { number: *number, front: Some(*front), state: TileState::None })
        };
        Arc::new(Self { axis, rests, tiles: band.iter().map(of).collect() })
    }

    fn at(&self, n: usize) -> MutexGuard<'_, BandTile> {
        self.tiles[n].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tiles with rays that continue before the end of a slab.
    fn within(&self, bound: &Bound) -> Vec<usize> {
        (0..self.tiles.len()).filter(|n| self.at(*n).front.is_some_and(|front| front.is_within(bound))).collect()
    }

    /// Tiles with unfinished rays.
    fn left(&self) -> Vec<usize> {
        (0..self.tiles.len()).filter(|n| self.at(*n).front.is_some()).collect()
    }

    /// Bytes of resting tiles.
    fn bytes(&self) -> u64 {
        let of = |tile: &Mutex<BandTile>| match &tile.lock().unwrap_or_else(PoisonError::into_inner).state {
            TileState::Resting(resting) => resting.bytes(),
            _ => 0,
        };
        let resting: usize = self.tiles.iter().map(of).sum();
        (resting + size_of_val(&self.tiles[..])) as u64
    }

    /// Takes out a tile in its present state.
    fn take(&self, n: usize, cast: &VolumeCast<'_>) -> RayTile {
        let mut waiting = self.at(n);
        match core::mem::replace(&mut waiting.state, TileState::None) {
            TileState::Whole(tile) => *tile,
            TileState::Resting(resting) => cast.tile(waiting.number as u64).wake(resting),
            TileState::None => cast.tile(waiting.number as u64),
        }
    }

    /// Stores a tile until the next pass.
    fn put(&self, n: usize, tile: RayTile) {
        let mut waiting = self.at(n);
        waiting.front = Some(tile.front(self.axis));
        waiting.state = if self.rests { TileState::Resting(tile.rest()) } else { TileState::Whole(Box::new(tile)) };
    }

    /// Marks a tile as done.
    fn end(&self, n: usize) {
        self.at(n).front = None;
    }
}

/// One pass through a slab.
struct SlabPass<'p, 'a> {
    cast: &'p VolumeCast<'a>,
    /// The tiles of this pass, by their place in the band.
    list: &'p [usize],
    store: Arc<TileStore>,
    /// Where rays wait; `None`: they go to their ends.
    bound: Option<Bound>,
    /// Finished tiles of all passes.
    ended: &'p AtomicU64,
}

/// A tile under way. In a slab its state is stored however the visit ends. A tile that goes to its end begins anew,
/// because no charge covers it meanwhile.
struct Visit {
    n: usize,
    tile: Option<RayTile>,
    counts: RayCounts,
    store: Arc<TileStore>,
    in_slab: bool,
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(tile) = self.tile.take().filter(|_| self.in_slab) {
            self.store.put(self.n, tile);
        }
    }
}

impl<'a> SlabPass<'_, 'a> {
    fn run(
        &self,
        pager: &Arc<Pager>,
        load: RunLoad,
        told: &mut dyn FnMut(u64) -> bool,
    ) -> Result<RunStats, FieldError> {
        let load = RunLoad { tasks: self.list.len() as u64, ..load };
        executor::run(self, pager, load, &mut |_| told(self.ended.load(Relaxed)))
    }
}

impl<'a> Work for SlabPass<'_, 'a> {
    type Task = Visit;
    type Context = Lent<'a>;

    fn context(&self, thread: usize, worker: Worker) -> Lent<'a> {
        self.cast.context(thread, worker)
    }
    fn worker<'c>(&self, lent: &'c mut Lent<'a>) -> &'c mut Worker {
        self.cast.worker(lent)
    }
    fn admit(&self, n: u64) -> Result<Visit, FieldError> {
        let n = self.list[n as usize];
        let mut tile = self.store.take(n, self.cast);
        match self.bound {
            Some(bound) => tile.bound(bound),
            None => tile.unbound(),
        }
        let in_slab = self.bound.is_some();
        Ok(Visit { n, tile: Some(tile), counts: RayCounts::default(), store: self.store.clone(), in_slab })
    }
    fn steps(&self, lent: &mut Lent<'a>, tasks: [Option<&mut Visit>; LANES], outcomes: &mut [Outcome; LANES]) {
        let context = lent.context();
        for (task, outcome) in tasks.into_iter().zip(outcomes) {
            let Some(Visit { tile: Some(tile), counts, .. }) = task else { continue };
            outcome.progress = tile.step(self.cast.scene, context, self.cast.means.pin_bytes);
            if outcome.progress == StepProgress::Need {
                outcome.missing.append(context.missing());
                if self.bound.is_some() {
                    self.cast.scene.read_with(&mut outcome.missing, self.cast.means.room / ASKED_SHARE);
                }
            }
            outcome.moved = tile.moved();
            counts.add(&core::mem::take(&mut context.counts));
        }
    }
    fn bytes(&self, _task: &Visit) -> usize {
        // The charge of waiting whole tiles also covers those under way.
        if self.bound.is_some() && !self.store.rests {
            0
        } else {
            self.cast.means.tile_bytes
        }
    }
    fn finish(&self, mut task: Visit) -> Result<(), FieldError> {
        let Some(tile) = task.tile.take() else { return Ok(()) };
        let counts = core::mem::take(&mut task.counts);
        if tile.is_done() {
            self.cast.take(&tile, &counts);
            self.store.end(task.n);
            self.ended.fetch_add(1, Relaxed);
        } else {
            self.cast.share.to.take(core::iter::empty(), &counts);
            task.tile = Some(tile);
        }
        Ok(())
    }
}

impl<'a> Windowed for SlabPass<'_, 'a> {}

impl<'a> Budgeted for SlabPass<'_, 'a> {
    fn in_runs(&self) -> u64 {
        self.cast.in_runs()
    }
    fn holds(&self) -> usize {
        self.cast.holds()
    }
}
