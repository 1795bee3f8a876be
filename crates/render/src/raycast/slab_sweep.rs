//! Pictures of more than fits, slab by slab of the volume.
//!
//! # Theory
//! Where pages do not all fit, a tile of rays that goes to its end comes to pages of the whole depth of the volume, and the next tile comes to
//! nearly the same ones when they have gone: a file of 8.6 GB was read 23 times within 64 MiB. So the volume is cut in slabs, layers of pages
//! along the slowest axis of its file, and all rays go through one slab before any goes into the next. A ray comes to slabs in one direction
//! only: those that go up come first, those that go down after them, from the other end. Each slab is therefore read at most twice, and mostly
//! once. Where one layer does not fit either, tiles follow each other in strips ([`Strips`]), which share pages with their neighbours alone:
//! what a few strips come to in a slab has to fit.
//!
//! # Practice
//! A ray does not depend on where it waits, so a picture is the same as without, bit for bit. Rays under way are charged. Where tiles of all
//! pixels do not fit, those that wait are laid to rest in less memory, which costs making their rays again in each slab. Where these
//! do not fit either, the picture is cast in bands of strips, or of rows, one after the other: those of a band share their pages, and others few.
//! Pages that are pieces of the same rows of a file are read together.

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

/// Rays under way take this share of what a picture leaves of the limit.
const SHARE: u64 = 3;
/// The pages of a slab take this share of what is left, so that those of the one before that rays still reach into are here, too.
const SLAB_SHARE: u64 = 2;

/// A tile asks for pages of this share of the room together at most, those beside its own included.
const ASKED_SHARE: u64 = 8;

/// Tiles under way in a slab: each asks for many pages at a time, and what they come to has to fit.
const ACTIVE: usize = 32;
/// But as many a thread, so that none is idle while others wait.
const ACTIVE_A_THREAD: usize = 2 * LANES;

/// How a picture is cast in slabs.
pub(super) struct Sweep {
    layers: Layers,
    /// Where tiles follow each other in strips.
    strips: Option<Strips>,
    /// Tiles in the order in which they are gone through, and how many are a strip, or a row.
    order: Vec<usize>,
    each: usize,
    /// Tiles under way together.
    active: usize,
}

impl Sweep {
    /// For what is to be cast, if its pages do not all fit.
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

    /// Bytes of the pages that tiles under way together come to in so many layers.
    fn slab_bytes(&self, layers: u32) -> u64 {
        let whole = self.layers.bytes.saturating_mul(u64::from(layers));
        // Fewer tiles are under way where little fits. Strips of few tiles need no fewer pages for that: with five under way in strips of
        // five, 44 MB were read 3.3 times within 10 MB, and 2.35 times by this.
        let together = 1.0 + self.active.max(ACTIVE) as f64 / self.each as f64;
        self.strips.as_ref().map_or(whole, |strips| strips.bytes(together, layers).min(whole))
    }

    /// Layers of a slab.
    fn thick(&self, room: u64) -> u32 {
        (2..=self.layers.count).take_while(|n| self.slab_bytes(*n) <= room).last().unwrap_or(1)
    }

    /// Casts the tiles of `cast`.
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
            // Bands of less than a strip, or a row, read the volume once each.
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
                // Within a band neighbours follow each other as they do elsewhere.
                band.sort_unstable_by_key(|(n, ..)| *n);
            }
            let store = TileStore::new(&band, self.layers.axis, rests);
            let Ok(mut charge) = pager.charge(ChargeKind::Tiles, bytes) else {
                // What else is under way has taken the room: these tiles go to their ends one by one.
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
struct TileStore {
    axis: usize,
    /// Whether tiles are laid to rest.
    rests: bool,
    tiles: Vec<Mutex<BandTile>>,
}

/// A tile of a band.
struct BandTile {
    /// Its number in the picture.
    number: usize,
    /// Where its rays are; `None` where all are at their ends.
    front: Option<Front>,
    state: TileState,
}

/// What there is of it.
enum TileState {
    /// Nothing: it is at its beginning, under way, or done.
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

    /// Which tiles have rays that go on before the end of a slab.
    fn within(&self, bound: &Bound) -> Vec<usize> {
        (0..self.tiles.len()).filter(|n| self.at(*n).front.is_some_and(|front| front.is_within(bound))).collect()
    }

    /// Those that are not at their ends.
    fn left(&self) -> Vec<usize> {
        (0..self.tiles.len()).filter(|n| self.at(*n).front.is_some()).collect()
    }

    /// Bytes of tiles that rest.
    fn bytes(&self) -> u64 {
        let of = |tile: &Mutex<BandTile>| match &tile.lock().unwrap_or_else(PoisonError::into_inner).state {
            TileState::Resting(resting) => resting.bytes(),
            _ => 0,
        };
        let resting: usize = self.tiles.iter().map(of).sum();
        (resting + size_of_val(&self.tiles[..])) as u64
    }

    /// Takes out a tile, as it is now.
    fn take(&self, n: usize, cast: &VolumeCast<'_>) -> RayTile {
        let mut waiting = self.at(n);
        match core::mem::replace(&mut waiting.state, TileState::None) {
            TileState::Whole(tile) => *tile,
            TileState::Resting(resting) => cast.tile(waiting.number as u64).wake(resting),
            TileState::None => cast.tile(waiting.number as u64),
        }
    }

    /// Keeps a tile until it goes on.
    fn put(&self, n: usize, tile: RayTile) {
        let mut waiting = self.at(n);
        waiting.front = Some(tile.front(self.axis));
        waiting.state = if self.rests { TileState::Resting(tile.rest()) } else { TileState::Whole(Box::new(tile)) };
    }

    /// A tile is at its end.
    fn end(&self, n: usize) {
        self.at(n).front = None;
    }
}

/// One slab.
struct SlabPass<'p, 'a> {
    cast: &'p VolumeCast<'a>,
    /// Those that go on, by their place in the band.
    list: &'p [usize],
    store: Arc<TileStore>,
    /// `None`: they go to their ends.
    bound: Option<Bound>,
    /// Tiles that are done, of all passes.
    ended: &'p AtomicU64,
}

/// A tile under way. In a slab what it has come to is kept however it goes; one that goes to its end begins anew, since nothing is charged for
/// it meanwhile.
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
        // What whole tiles take between passes is charged; one that is gone through takes no more.
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
