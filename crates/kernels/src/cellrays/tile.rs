//! A tile of rays as a restartable task.

use super::appearance::{AppearanceStates, ShownLight};
use super::block_search::Stack;
use super::ray::{Lane, Stepping, Visit};
use super::scene::{CellScene, Ray};
use crate::rays::{Pixels, TILE};
use crate::streamline::StepProgress;
use field::locator::ZoneLocator;
use field::nodes::Nodes;

/// Longest steps of all rays of a tile before any advances further. So a page stays in the processor's caches for all
/// of them.
const WINDOW: f64 = 8.0;

/// Counts of the work.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples inside a zone.
    pub samples: u64,
}

/// Rays of neighbouring pixels, or of pixels a stride apart.
pub struct CellTile {
    pixels: Pixels,
    size: [u32; 2],
    rays: Vec<Ray>,
    lanes: Vec<Lane>,
    owned: AppearanceStates,
    visits: Vec<Visit>,
    stack: Stack,
    seen: Vec<ShownLight>,
    /// Rays advance to this place first; `None` before the start of all rays.
    until: Option<f64>,
    /// A ray advanced in the last step.
    moved: bool,
    /// Counts of the work.
    pub counts: Counts,
}

impl CellTile {
    /// The tile with upper left pixel `at`.
    pub fn new(scene: &CellScene, at: [u32; 2]) -> Self {
        Self::of(scene, Pixels::all(at, scene.setting.size[1]))
    }

    /// The tile of some pixels.
    pub fn of(scene: &CellScene, pixels: Pixels) -> Self {
        let size = pixels.size(scene.setting.size);
        let ray = |n| {
            let (x, y) = pixels.place(size, n);
            if pixels.was_before(x, y) {
                Ray::NONE
            } else {
                scene.ray(x, y)
            }
        };
        let rays: Vec<Ray> = (0..size[0] * size[1]).map(ray).collect();
        let lanes = rays.iter().map(Lane::new).collect();
        let owned = AppearanceStates::new(&scene.looks, &rays);
        let (visits, stack, seen) = (Vec::new(), Stack::default(), Vec::with_capacity(scene.looks.len()));
        Self {
            pixels,
            size,
            rays,
            lanes,
            owned,
            visits,
            stack,
            seen,
            until: None,
            moved: false,
            counts: Counts::default(),
        }
    }

    /// Ends each ray at its pixel's depth, along the line of sight from the plane of the eye. Negative infinity: the
    /// ray is not cast.
    #[must_use]
    pub fn ending(mut self, scene: &CellScene, depth: &dyn Fn(u32, u32) -> f64) -> Self {
        for (n, ray) in self.rays.iter_mut().enumerate() {
            let (x, y) = self.pixels.place(self.size, n as u32);
            *ray = scene.ending(*ray, depth(x, y));
        }
        self.lanes = self.rays.iter().map(Lane::new).collect();
        self
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.rays.len() * (size_of::<Ray>() + size_of::<Lane>())
            + self.owned.bytes()
            + self.visits.capacity() * size_of::<Visit>()
            + self.stack.bytes()
    }

    /// Bytes of a tile when all its rays meet one zone.
    pub fn usual_bytes(scene: &CellScene) -> usize {
        let (rays, ray) = ((TILE * TILE) as usize, size_of::<Ray>() + size_of::<Lane>() + size_of::<Visit>());
        size_of::<Self>() + rays * ray + AppearanceStates::bytes_of(&scene.looks, rays)
    }

    /// For each newly cast pixel: its place, its colour (linear light, premultiplied, and opacity), and whether
    /// unreadable pages were left out.
    pub fn pixels<'a>(&'a self, scene: &'a CellScene) -> impl Iterator<Item = ([u32; 2], [f32; 4], bool)> + 'a {
        self.lanes.iter().enumerate().filter_map(move |(n, lane)| {
            let (x, y) = self.pixels.place(self.size, n as u32);
            (!self.pixels.was_before(x, y)).then(|| ([x, y], lane.colour(scene, &self.owned, n), lane.gap))
        })
    }

    /// Whether a ray advanced in the last step, even if pages were absent afterwards.
    pub fn moved(&self) -> bool {
        self.moved
    }

    /// Advances rays as far as pages are resident. Rays that lack pages stay in place, and [`Nodes::missing`] names the
    /// pages. `full` says whether so much is pinned or missing that passed pages should be released first.
    pub fn step<N: Nodes>(
        &mut self,
        scene: &CellScene,
        space: &mut ZoneLocator<N>,
        mut full: impl FnMut(&mut N) -> bool,
    ) -> StepProgress {
        space.nodes.missing().clear();
        let Self { rays, lanes, owned, visits, stack, seen, until, moved, counts, .. } = self;
        *moved = false;
        let mut s = Stepping { scene, space, stack, samples: &mut counts.samples, seen };
        loop {
            for (n, (ray, lane)) in rays.iter().zip(lanes.iter_mut()).enumerate() {
                if lane.done || lane.place(scene).is_some_and(|t| until.is_none_or(|until| t >= until)) {
                    continue;
                }
                let (listed, at) = (s.space.nodes.missing().len(), lane.place(scene));
                let went = match *until {
                    None => lane.begin(ray, visits, &mut s),
                    Some(until) => lane.go(ray, visits, &mut owned.of(n), until, &mut s),
                };
                *moved |= went.is_ok() || lane.place(scene) != at;
                if went.is_ok() {
                    // Pages requested on the way that turned out not to matter.
                    s.space.nodes.missing().truncate(listed);
                }
                if full(&mut s.space.nodes) {
                    return if s.space.nodes.missing().is_empty() { StepProgress::Yield } else { StepProgress::Need };
                }
            }
            if !s.space.nodes.missing().is_empty() {
                return StepProgress::Need;
            }
            // All rays have come this far: continue from the hindmost.
            let left = lanes.iter().filter(|l| !l.done).filter_map(|l| l.place(scene));
            let hindmost = left.fold(f64::INFINITY, f64::min);
            if hindmost == f64::INFINITY {
                return StepProgress::Done;
            }
            *until = Some(hindmost + WINDOW * scene.setting.longest);
        }
    }
}
