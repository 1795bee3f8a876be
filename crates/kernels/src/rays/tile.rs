//! A tile of rays as a restartable task.

use super::march::{march, Lane};
use super::pages::Context;
use super::ray::Ray;
use super::scene::Scene;
use crate::streamline::Progress;
use field::with_voxel;
use pager::{PageId, Worker};
use std::sync::Arc;

/// Samples that all rays of a tile make before any makes more, so that a page stays in the processor's caches for all of them.
const SLAB: i64 = 128;

/// Voxels a sample from which on bricks cost more than they save: copying one takes as long as a thousand samples, and it is copied twice
/// a picture.
const SPARSE: f64 = 15.0;

/// Pixels of a tile along each edge.
pub const TILE: u32 = 16;

/// Rays of neighbouring pixels.
pub struct RayTile {
    at: [u32; 2],
    size: [u32; 2],
    rays: Vec<Ray>,
    lanes: Vec<Lane>,
    /// Samples before this one come first.
    until: i64,
}

impl RayTile {
    /// The tile whose upper left pixel is `at`.
    pub fn new(scene: &Scene, at: [u32; 2]) -> Self {
        let size: [u32; 2] = core::array::from_fn(|a| TILE.min(scene.setting.size[a].saturating_sub(at[a])));
        let count = (size[0] * size[1]) as usize;
        let mut rays = Vec::with_capacity(count);
        for n in 0..count as u32 {
            rays.push(scene.ray(&scene.sources[0], at[0] + n % size[0], at[1] + n / size[0]));
        }
        let lanes: Vec<Lane> = rays.iter().map(Lane::new).collect();
        let first = lanes.iter().filter(|l| !l.done).map(|l| l.n).min().unwrap_or(0);
        Self { at, size, rays, lanes, until: (first.div_euclid(SLAB) + 1) * SLAB }
    }

    /// Ends each ray at a depth, along the line of sight from the plane of the eye, as its pixel has it: samples beyond it are not taken.
    /// Where it is negative the ray is not cast.
    #[must_use]
    pub fn ending(mut self, scene: &Scene, depth: &dyn Fn(u32, u32) -> f64) -> Self {
        for (n, ray) in self.rays.iter_mut().enumerate() {
            let (x, y) = (self.at[0] + n as u32 % self.size[0], self.at[1] + n as u32 / self.size[0]);
            *ray = scene.ending(*ray, x, y, depth(x, y));
        }
        self.lanes = self.rays.iter().map(Lane::new).collect();
        let first = self.lanes.iter().filter(|l| !l.done).map(|l| l.n).min().unwrap_or(0);
        self.until = (first.div_euclid(SLAB) + 1) * SLAB;
        self
    }

    /// Bytes that a tile holds.
    pub const fn bytes() -> usize {
        size_of::<Self>() + (TILE * TILE) as usize * (size_of::<Ray>() + size_of::<Lane>())
    }

    /// Its upper left pixel.
    pub fn at(&self) -> [u32; 2] {
        self.at
    }

    /// Its pixels across and down.
    pub fn size(&self) -> [u32; 2] {
        self.size
    }

    /// Colour of each pixel, row by row: linear light, premultiplied, and opacity.
    pub fn colours(&self) -> impl Iterator<Item = [f32; 4]> + '_ {
        self.lanes.iter().map(|l| l.colour.to_array())
    }

    /// Pixels for which pages that cannot be had were left out.
    pub fn gaps(&self) -> impl Iterator<Item = bool> + '_ {
        self.lanes.iter().map(|l| l.gap)
    }

    /// Whether there are enough samples in bricks for these to pay, where the rays are now.
    fn dense(&self) -> bool {
        let mut live = self.rays.iter().enumerate().filter(|(_, r)| r.first < r.last);
        let (Some((n, a)), Some((m, b))) = (live.next(), live.next_back()) else { return false };
        let pixel = |n: usize| [n as u32 % self.size[0], n as u32 / self.size[0]].map(f64::from);
        let ([u, v], [x, y]) = (pixel(n), pixel(m));
        let (p, q) = (a.at(self.until as f64), b.at(self.until as f64));
        let apart: f64 = (0..3).map(|c| (p[c] - q[c]).powi(2)).sum::<f64>() / ((u - x).powi(2) + (v - y).powi(2));
        let step = a.step.iter().map(|c| c * c).sum::<f64>().sqrt();
        apart * step < SPARSE
    }

    /// Makes rays go as far as pages are here. Rays that lack some stay where they are; `missing` of the context then names the pages.
    pub fn step(&mut self, scene: &Scene, cx: &mut Context, pin_bytes: usize) -> Progress {
        cx.missing.clear();
        let source = &scene.sources[0];
        cx.bricks(source).begin();
        let bricks = cx.bricks(source).any() && self.dense();
        with_voxel!(source.array.brick.voxel, T => {
            loop {
                let mut left = false;
                for (ray, lane) in self.rays.iter().zip(&mut self.lanes) {
                    if lane.done {
                        continue;
                    }
                    left = true;
                    if lane.n < self.until {
                        march::<T>(source, ray, lane, self.until, cx, bricks);
                        // Enough is pinned: what is gone through is let go of before more is.
                        if cx.pinned() > pin_bytes {
                            return if cx.missing.is_empty() { Progress::Yield } else { Progress::Need };
                        }
                    }
                }
                if !cx.missing.is_empty() {
                    return Progress::Need;
                }
                if !left {
                    return Progress::Done;
                }
                self.until += SLAB;
            }
        })
    }
}

impl Scene {
    /// A thread's context; maps of blocks take up to `map_bytes`.
    pub fn context(self: &Arc<Self>, worker: Worker, map_bytes: usize) -> Context {
        Context::new(worker, &self.sources, map_bytes)
    }

    /// Bytes that [`Scene::context`] takes.
    pub fn context_bytes(&self, map_bytes: usize) -> usize {
        Context::bytes(&self.sources, map_bytes)
    }
}

impl Context {
    /// Pages found absent in the last step.
    pub fn missing(&mut self) -> &mut Vec<PageId> {
        &mut self.missing
    }
}
