//! A tile of rays as a restartable task.

use super::brick_cache::BrickCache;
use super::brick_shape::{EDGE, EDGE_BITS};
use super::depth_samples::{RayLight, Stops, MOST_STOPS};
use super::lane::Lane;
use super::lanes::F4;
use super::march::march;
use super::multichannel::{self, finish, ProjectionState};
use super::pages::{Context, Rooms};
use super::projected;
use super::queue::{drain_all, QueuedSamples, SampleQueue, TOGETHER};
use super::ray::Ray;
use super::sample::SampledVoxel;
use super::scene::Scene;
use super::source::RaySource;
use crate::streamline::StepProgress;
use core::ops::Range;
use field::with_voxel;
use pager::{PageId, Worker};
use std::sync::Arc;

/// Samples of all rays of a tile before any ray takes more. So bricks stay in the processor's second cache for all of
/// them.
const SLAB: i64 = 64;

/// Voxels a sample from which on bricks cost more time than they save. Making one takes as long as two thousand samples
/// gain by it.
const SPARSE: f64 = 15.0;

/// Most bricks inspected for a slab, to find that it is invisible.
const MOST_LOOKED: i64 = 256;

/// Pixels of a tile along each edge.
pub const TILE: u32 = 16;
/// Divisions of a picture across and down. At each of their corners a tile is examined for the number of its shared
/// bricks.
const LOOKED_AT: u32 = 6;

/// Rays of neighbouring pixels, or of pixels a stride apart.
pub struct RayTile {
    pixels: Pixels,
    size: [u32; 2],
    /// One ray through each source for each pixel.
    pub(super) rays: Vec<Ray>,
    pub(super) lanes: Vec<Lane>,
    /// The projection of each ray, in scenes with projections.
    pub(super) tallies: Vec<ProjectionState>,
    /// Whether more than the largest number is needed.
    pub(super) sums: bool,
    /// Rays advance to this sample first.
    until: i64,
    /// The bounds of the rays through the first source.
    beam: Option<Beam>,
    /// The stops of rays, if there are any.
    pub(super) stops: Option<Stops>,
    /// A ray advanced in the last step.
    moved: bool,
    /// The sample at which each ray waits, if it does: see [`RayTile::bound`].
    caps: Vec<i64>,
}

/// A plane at which rays wait for each other: the end of a slab of the volume. The pages of a slab are then shared by
/// all of them.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Bound {
    /// The axis across the slabs.
    pub axis: usize,
    /// The end of the slab, in voxels.
    pub plane: f64,
    /// Whether rays towards larger numbers along the axis continue, or those towards smaller ones. Rays along the slab
    /// continue with the former.
    pub upward: bool,
}

impl Bound {
    /// The first sample of a ray at or behind the plane.
    fn cap(&self, ray: &Ray) -> i64 {
        let (origin, step) = (ray.origin[self.axis], ray.step[self.axis]);
        let before = if self.upward { origin < self.plane } else { origin > self.plane };
        match (step == 0.0, (step > 0.0) == self.upward) {
            (true, _) => {
                if self.upward && before {
                    i64::MAX
                } else {
                    i64::MIN
                }
            }
            (_, false) => i64::MIN,
            // Sample n is at n + 1/2 steps. Numbers out of range are clamped.
            (_, true) => ((self.plane - origin) / step - 0.5).ceil() as i64,
        }
    }
}

/// A ray of a pixel that hits a volume, if any does: rays of volumes that are swept together are one line.
pub(super) fn any_of(rays: &[Ray]) -> &Ray {
    rays.iter().find(|ray| ray.first < ray.last).unwrap_or(&rays[0])
}

/// The light of a pixel with its rays at a stop.
fn seen(scene: &Scene, tallies: &[ProjectionState], mut lane: Lane) -> F4 {
    finish(scene, tallies, &mut lane);
    lane.colour
}

/// The bounds of all rays: least and largest origins and steps along each axis.
struct Beam {
    origin: [[f64; 3]; 2],
    step: [[f64; 3]; 2],
}

impl Beam {
    fn of<'a>(rays: impl Iterator<Item = &'a Ray>) -> Option<Self> {
        let least = |a: [f64; 3], b: [f64; 3]| core::array::from_fn(|n| a[n].min(b[n]));
        let most = |a: [f64; 3], b: [f64; 3]| core::array::from_fn(|n| a[n].max(b[n]));
        rays.filter(|r| r.first < r.last).fold(None, |beam, r| {
            let Self { origin, step } = beam.unwrap_or(Self { origin: [r.origin; 2], step: [r.step; 2] });
            Some(Self {
                origin: [least(origin[0], r.origin), most(origin[1], r.origin)],
                step: [least(step[0], r.step), most(step[1], r.step)],
            })
        })
    }
}

/// The pixels of a tile.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// The upper left one.
    pub at: [u32; 2],
    /// From one to the next, across and down.
    pub stride: u32,
    /// Rows to be cast, the first and the one after the last.
    pub rows: [u32; 2],
    /// Pixels with both column and row (counted from the first) multiples of twice the stride were cast before.
    pub rest: bool,
}

impl Pixels {
    /// All pixels of a picture of `height` rows from an upper left one on.
    pub(crate) fn all(at: [u32; 2], height: u32) -> Self {
        Self { at, stride: 1, rows: [0, height], rest: false }
    }

    /// Its pixels across and down in a picture.
    pub(crate) fn size(&self, picture: [u32; 2]) -> [u32; 2] {
        let ends = [picture[0], self.rows[1].min(picture[1])];
        core::array::from_fn(|a| TILE.min(ends[a].saturating_sub(self.at[a]).div_ceil(self.stride)))
    }

    /// Column and row of number `n` of a tile of `size`, row by row.
    pub(crate) fn place(&self, size: [u32; 2], n: u32) -> (u32, u32) {
        (self.at[0] + n % size[0] * self.stride, self.at[1] + n / size[0] * self.stride)
    }

    /// Whether a pixel was cast before.
    pub(crate) fn was_before(&self, x: u32, y: u32) -> bool {
        let twice = 2 * self.stride;
        self.rest && x.is_multiple_of(twice) && (y - self.rows[0]).is_multiple_of(twice)
    }
}

impl RayTile {
    /// The tile with upper left pixel `at`.
    pub fn new(scene: &Scene, at: [u32; 2]) -> Self {
        Self::of(scene, Pixels::all(at, scene.setting.size[1]))
    }

    /// The tile of some pixels.
    pub fn of(scene: &Scene, pixels: Pixels) -> Self {
        let size = pixels.size(scene.setting.size);
        let count = (size[0] * size[1]) as usize;
        let sources = &scene.sources;
        let mut rays = Vec::with_capacity(count * sources.len());
        for n in 0..count as u32 {
            let (x, y) = pixels.place(size, n);
            let before = pixels.was_before(x, y);
            rays.extend(sources.iter().map(|s| if before { Ray::NONE } else { scene.ray(s, x, y) }));
        }
        let tallies = if scene.projects() { vec![ProjectionState::NONE; rays.len()] } else { Vec::new() };
        let mut tile = Self {
            pixels,
            size,
            rays,
            lanes: Vec::new(),
            tallies,
            sums: scene.sums(),
            until: 0,
            beam: None,
            stops: None,
            moved: false,
            caps: Vec::new(),
        };
        tile.begin(sources.len());
        tile
    }

    /// Puts rays at their beginning.
    fn begin(&mut self, sources: usize) {
        self.lanes = self.rays.chunks_exact(sources.max(1)).map(Lane::of_all).collect();
        self.set_out(sources);
    }

    /// Starts slabs at the first sample to be taken.
    pub(super) fn set_out(&mut self, sources: usize) {
        let first = self.lanes.iter().filter(|l| !l.done).map(|l| l.n).min().unwrap_or(0);
        self.until = (first.div_euclid(SLAB) + 1) * SLAB;
        self.beam = Beam::of(self.rays.iter().step_by(sources.max(1)));
    }

    /// Ends each ray at its pixel's depth, along the line of sight from the plane of the eye: samples beyond it are not
    /// taken. If it is negative the ray is not cast.
    #[must_use]
    pub fn ending(mut self, scene: &Scene, depth: &dyn Fn(u32, u32) -> f64) -> Self {
        let sources = scene.sources.len().max(1);
        for (n, rays) in self.rays.chunks_exact_mut(sources).enumerate() {
            let (x, y) = self.pixels.place(self.size, n as u32);
            let depth = depth(x, y);
            rays.iter_mut().for_each(|ray| *ray = scene.ending(*ray, x, y, depth));
        }
        self.begin(sources);
        self
    }

    /// Makes each ray record its light at some depths, as for [`RayTile::ending`], on its way to the farthest of them.
    /// `depths` writes those of a pixel, and returns their number. With 0 the ray is not cast.
    #[must_use]
    pub fn stopping(mut self, scene: &Scene, depths: &dyn Fn(u32, u32, &mut [f64; MOST_STOPS]) -> usize) -> Self {
        let sources = scene.sources.len().max(1);
        let mut stops = Stops::new(self.lanes.len());
        for (n, rays) in self.rays.chunks_exact_mut(sources).enumerate() {
            let (x, y) = self.pixels.place(self.size, n as u32);
            let mut each = [0.0; MOST_STOPS];
            let count = if self.pixels.was_before(x, y) { 0 } else { depths(x, y, &mut each) };
            let place = scene.place_of(x, y);
            stops.push(each[..count].iter().map(|depth| place(*depth)), rays);
        }
        self.begin(sources);
        self.stops = Some(stops);
        // For rays that stop before they enter the volume.
        self.go_on(scene);
        self
    }

    /// Records the light at the stops that rays have reached. Whether any continues to another stop.
    fn go_on(&mut self, scene: &Scene) -> bool {
        let Some(stops) = &mut self.stops else { return false };
        let sources = self.rays.len() / self.lanes.len().max(1);
        let mut any = false;
        let lanes = self.lanes.iter_mut().zip(self.rays.chunks_exact_mut(sources.max(1)));
        // Rays that wait at the end of a slab are at no stop.
        for (n, (lane, rays)) in lanes.enumerate().filter(|(_, (lane, _))| lane.done) {
            let tallies = self.tallies.get_mut(n * sources..(n + 1) * sources).unwrap_or(&mut []);
            any |= stops.go_on(n, lane, rays, tallies, |lane, tallies| seen(scene, tallies, *lane));
        }
        if any {
            self.set_out(sources);
        }
        any
    }

    /// Most bytes of a tile with at most this many stops a ray.
    pub fn bytes(scene: &Scene, stops: usize) -> usize {
        let sources = scene.sources.len();
        let of_source = size_of::<Ray>() + if scene.projects() { size_of::<ProjectionState>() } else { 0 };
        let pixels = (TILE * TILE) as usize;
        let stops = if stops > 0 { Stops::bytes(pixels, stops, pixels * sources) } else { 0 };
        size_of::<Self>() + pixels * (sources * of_source + size_of::<Lane>() + size_of::<i64>()) + stops
    }

    /// Makes rays wait at the end of a slab of the volume; rays in the other direction wait in place. The result of a
    /// ray does not depend on its waits.
    pub fn bound(&mut self, bound: Bound) {
        let sources = (self.rays.len() / self.lanes.len().max(1)).max(1);
        self.caps.clear();
        self.caps.extend(self.rays.chunks_exact(sources).map(|rays| bound.cap(any_of(rays))));
        self.set_out(sources);
    }

    /// Ends all waits.
    pub fn unbound(&mut self) {
        self.caps.clear();
    }

    /// Whether all rays are finished.
    pub fn is_done(&self) -> bool {
        self.lanes.iter().all(|lane| lane.done)
    }

    /// The sample to which a ray advances now.
    #[inline(always)]
    fn cap(&self, n: usize) -> i64 {
        self.caps.get(n).copied().unwrap_or(i64::MAX)
    }

    /// For each newly cast pixel the light of its ray at its stops, in the caller's order.
    pub fn stops(&self) -> impl Iterator<Item = ([u32; 2], &[RayLight])> {
        (0..self.lanes.len()).filter_map(|n| {
            let (x, y) = self.pixels.place(self.size, n as u32);
            let stops = self.stops.as_ref().filter(|_| !self.pixels.was_before(x, y))?;
            Some(([x, y], stops.of(n)))
        })
    }

    /// Its pixels across and down.
    pub fn size(&self) -> [u32; 2] {
        self.size
    }

    /// For each newly cast pixel: its place, its colour (linear light, premultiplied, and opacity), and whether
    /// unreadable pages were left out.
    pub fn pixels(&self) -> impl Iterator<Item = ([u32; 2], [f32; 4], bool)> + '_ {
        self.lanes.iter().enumerate().filter_map(|(n, l)| {
            let (x, y) = self.pixels.place(self.size, n as u32);
            (!self.pixels.was_before(x, y)).then(|| ([x, y], l.colour.to_array(), l.gap))
        })
    }

    /// The present state of newly cast pixels of an unfinished tile. Finished rays have their result, and others their
    /// light so far, if it is visible. Whether the ray is finished comes last.
    pub fn so_far(&self) -> impl Iterator<Item = ([u32; 2], [f32; 4], bool, bool)> + '_ {
        // Projections are visible at the ends only.
        let shows = |l: &Lane| l.done || self.tallies.is_empty() && l.colour.to_array()[3] > 0.0;
        self.lanes.iter().enumerate().filter(move |(_, l)| shows(l)).filter_map(|(n, l)| {
            let (x, y) = self.pixels.place(self.size, n as u32);
            // Light at stops before the last is available for whole tiles only.
            let done = l.done && self.stops.is_none();
            (!self.pixels.was_before(x, y)).then(|| ([x, y], l.colour.to_array(), l.gap, done))
        })
    }

    /// Whether bricks have enough samples to be worthwhile, at the present place of the rays.
    fn dense(&self) -> bool {
        let mut live = self.rays.iter().enumerate().filter(|(_, r)| r.first < r.last);
        let (Some((n, a)), Some((m, b))) = (live.next(), live.next_back()) else { return false };
        let pixel =
            |n: usize| [n as u32 % self.size[0], n as u32 / self.size[0]].map(|p| f64::from(p * self.pixels.stride));
        let ([u, v], [x, y]) = (pixel(n), pixel(m));
        let (p, q) = (a.at(self.until as f64), b.at(self.until as f64));
        let apart: f64 = (0..3).map(|c| (p[c] - q[c]).powi(2)).sum::<f64>() / ((u - x).powi(2) + (v - y).powi(2));
        let step = a.step.iter().map(|c| c * c).sum::<f64>().sqrt();
        apart * step < SPARSE
    }

    /// Whether a ray advanced in the last step, even if pages were absent afterwards.
    pub fn moved(&self) -> bool {
        self.moved
    }

    /// Advances rays as far as pages are resident. Rays that lack pages stay in place; `missing` of the context then
    /// names the pages. If more than `pin_bytes` are pinned or missing, other rays wait until passed pages are
    /// released.
    pub fn step(&mut self, scene: &Scene, cx: &mut Context, pin_bytes: usize) -> StepProgress {
        self.moved = false;
        loop {
            let progress = self.go(scene, cx, pin_bytes);
            // Independent of the others: no ray of a tile at rest is at a stop from which it continues.
            let goes_on = self.go_on(scene);
            if progress != StepProgress::Done || !goes_on {
                return progress;
            }
        }
    }

    /// The same, to the ends or stops of rays.
    fn go(&mut self, scene: &Scene, cx: &mut Context, pin_bytes: usize) -> StepProgress {
        cx.missing.clear();
        // Pins of earlier steps are not needed. With too many of them a step would end at its first ray, and so would
        // all others until the pager requests releases. Two threads then took a quarter more processor time.
        if cx.pinned() > pin_bytes {
            cx.worker().release();
        }
        if scene.is_projected() {
            let source = &scene.sources[0];
            cx.bricks().begin();
            let mut cells = (cx.bricks().any() && self.dense()).then(QueuedSamples::new);
            return with_voxel!(source.array.brick.voxel, T => {
                // Rays must reach their ends: no part is skipped for all of them at once.
                self.rounds(cx, (pin_bytes, 1), |_, _| false, |tile, lanes, until, cx| {
                    let n = lanes.start;
                    let (ray, tally, lane) = (&tile.rays[n], &mut tile.tallies[n], &mut tile.lanes[n]);
                    let until = until.min(tile.caps.get(n).copied().unwrap_or(i64::MAX));
                    projected::march::<T>(source, ray, tally, lane, until, cx, cells.as_mut());
                    if lane.done && tile.stops.is_none() {
                        finish(scene, core::slice::from_ref(tally), lane);
                    }
                })
            });
        }
        if !scene.is_plain() {
            return self.rounds(
                cx,
                (pin_bytes, 1),
                |_, _| false,
                |tile, lanes, until, cx| {
                    let n = lanes.start;
                    let of = n * scene.sources.len()..(n + 1) * scene.sources.len();
                    let (x, y) = tile.pixels.place(tile.size, n as u32);
                    let tallies = tile.tallies.get_mut(of.clone()).unwrap_or(&mut []);
                    let until = until.min(tile.caps.get(n).copied().unwrap_or(i64::MAX));
                    let lane = &mut tile.lanes[n];
                    multichannel::march(scene, &tile.rays[of], scene.forward(x, y), tallies, lane, until, cx);
                    if lane.done && tile.stops.is_none() {
                        finish(scene, tallies, lane);
                    }
                },
            );
        }
        let source = &scene.sources[0];
        cx.bricks().begin();
        let bricks = cx.bricks().any() && self.dense();
        let mut queues = bricks.then(|| core::array::from_fn(|_| SampleQueue::new()));
        let together = if bricks { TOGETHER } else { 1 };
        with_voxel!(source.array.brick.voxel, T => {
            let dark = |tile: &Self, cx: &mut Context| bricks && tile.dark::<T>(source, cx);
            self.rounds(cx, (pin_bytes, together), dark, |tile, lanes, until, cx| {
                let base = lanes.start;
                let (rays, lanes) = (&tile.rays[lanes.clone()], &mut tile.lanes[lanes]);
                for (n, (ray, lane)) in rays.iter().zip(lanes.iter_mut()).enumerate() {
                    let until = until.min(tile.caps.get(base + n).copied().unwrap_or(i64::MAX));
                    if !lane.done && lane.n < until {
                        march::<T>(source, ray, lane, until, cx, queues.as_mut().map(|all| (all, n)));
                    }
                }
                if let Some(queues) = &mut queues {
                    drain_all::<T>(queues, &source.table, lanes, cx);
                }
            })
        })
    }

    /// Whether all bricks in which rays may be within the slab are known to be invisible.
    fn dark<T: SampledVoxel>(&self, source: &RaySource, cx: &mut Context) -> bool {
        /// More than the error of places, in voxels.
        const SURE: f64 = 0.01;
        let Some(beam) = &self.beam else { return false };
        let t = [self.until - SLAB, self.until].map(|n| n as f64 + 0.5);
        let (mut first, mut last) = ([0; 3], [0; 3]);
        for a in 0..3 {
            let ways = [t[0] * beam.step[0][a], t[0] * beam.step[1][a], t[1] * beam.step[0][a], t[1] * beam.step[1][a]];
            let low = beam.origin[0][a] + ways.into_iter().fold(f64::INFINITY, f64::min) - SURE;
            let high = beam.origin[1][a] + ways.into_iter().fold(f64::NEG_INFINITY, f64::max) + SURE;
            let top = f64::from(source.cells[a].saturating_sub(1));
            (first[a], last[a]) = (low.clamp(0.0, top) as i32 >> EDGE_BITS, high.clamp(0.0, top) as i32 >> EDGE_BITS);
        }
        let count: i64 = (0..3).map(|a| i64::from(last[a] - first[a]) + 1).product();
        count <= MOST_LOOKED && cx.dark::<T>(source, first, last)
    }

    /// Steps of all rays, slab by slab; `march` gets this many neighbours together, some of which may be there already.
    #[inline(always)]
    fn rounds(
        &mut self,
        cx: &mut Context,
        (pin_bytes, together): (usize, usize),
        dark: impl Fn(&Self, &mut Context) -> bool,
        mut march: impl FnMut(&mut Self, Range<usize>, i64, &mut Context),
    ) -> StepProgress {
        let asked = (pin_bytes / cx.largest_page()).max(1);
        loop {
            let (mut left, mut within) = (false, false);
            if dark(self, cx) {
                // Rays may wait before the slab, where bricks were not inspected.
                let from = self.until - SLAB;
                for (lane, ray) in self.lanes.iter_mut().zip(&self.rays).filter(|(l, _)| !l.done && l.n >= from) {
                    lane.n = lane.n.max(self.until);
                    lane.done = lane.n >= ray.last;
                }
            }
            for first in (0..self.lanes.len()).step_by(together) {
                let lanes = first..(first + together).min(self.lanes.len());
                let this = &*self;
                let live = || lanes.clone().map(move |n| (&this.lanes[n], this.cap(n))).filter(|(l, _)| !l.done);
                left |= live().count() > 0;
                within |= live().any(|(l, cap)| l.n < cap);
                if live().any(|(l, cap)| l.n < this.until.min(cap)) {
                    let far = |tile: &Self| -> i64 {
                        tile.lanes[lanes.clone()].iter().map(|l| l.n + i64::from(l.done)).sum()
                    };
                    let before = far(self);
                    march(self, lanes.clone(), self.until, cx);
                    self.moved |= far(self) != before;
                    // Enough is pinned, or requested: passed pages are released first.
                    if cx.pinned() > pin_bytes || cx.missing.len() >= asked {
                        return if cx.missing.is_empty() { StepProgress::Yield } else { StepProgress::Need };
                    }
                }
            }
            if !cx.missing.is_empty() {
                return StepProgress::Need;
            }
            // Rays that wait at the end of a slab count as done here.
            if !left || !within {
                return StepProgress::Done;
            }
            self.until += SLAB;
        }
    }
}

impl Scene {
    /// A thread's context, with the reusable part of an earlier one.
    pub fn context(self: &Arc<Self>, worker: Worker, rooms: Rooms, kept: Option<BrickCache>) -> Context {
        let bricks = kept.map(|kept| kept.bricks(self, rooms));
        Context::new(worker, &self.sources, rooms, bricks)
    }

    /// Bytes of [`Scene::context`].
    pub fn context_bytes(&self, rooms: Rooms) -> usize {
        Context::bytes(&self.sources, rooms)
    }

    /// The least [`Rooms::bytes`] with which a thread has this many bricks, for a picture with rays in bricks.
    pub fn room_for(&self, bricks: usize) -> Option<usize> {
        Rooms::bytes_for(&self.sources, bricks)
    }

    /// Approximate number of bricks that the rays of a tile share where they are most. It is a third of those along one
    /// ray times those side by side. Rays end early, and most of a volume is usually invisible. The third is a guess.
    /// It separates one volume that gains by 20 bricks from one that loses by them (see
    /// `render/raycast/brick_cache.rs`), and is not measured for others.
    pub fn bricks_of_a_tile(&self) -> usize {
        let [source] = &self.sources[..] else { return 0 };
        let of = |n: f64| 1.0 + n / EDGE as f64;
        let tile = |[x, y]: [u32; 2]| {
            let (a, b) = (self.ray(source, x, y), self.ray(source, x + TILE, y + TILE));
            if a.first >= a.last {
                return 0.0;
            }
            let way: f64 = a.step.iter().map(|s| s.abs()).sum::<f64>() * (a.last - a.first) as f64;
            let middle = (a.first + a.last) as f64 / 2.0;
            let (p, q) = (a.at(middle), b.at(middle));
            let mut apart: [f64; 3] = core::array::from_fn(|n| if b == Ray::NONE { 0.0 } else { (p[n] - q[n]).abs() });
            apart.sort_by(f64::total_cmp);
            of(way) * of(apart[1]) * of(apart[2])
        };
        let places = (1..LOOKED_AT).flat_map(|j| (1..LOOKED_AT).map(move |i| [i, j]));
        let most = places.map(|at| tile([0, 1].map(|n| self.setting.size[n] * at[n] / LOOKED_AT))).fold(0.0, f64::max);
        (most / 3.0) as usize
    }
}

impl Context {
    /// Pages found absent in the last step.
    pub fn missing(&mut self) -> &mut Vec<PageId> {
        &mut self.missing
    }
}
