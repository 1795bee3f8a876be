//! Tiles with waiting rays in little memory: the parts that follow from the scene are dropped, and computed again when
//! they continue.

use super::depth_samples::RayLight;
use super::lane::{Before, Lane};
use super::lanes::F4;
use super::multichannel::ProjectionState;
use super::tile::{any_of, Bound, RayTile};

/// The state of a ray.
#[derive(Copy, Clone)]
struct RayState {
    n: i64,
    colour: [f32; 4],
    through: f32,
    done: bool,
    gap: bool,
}

/// The projection of each ray.
enum Tallies {
    /// In scenes that need nothing else: the largest number.
    Best(Vec<f32>),
    Whole(Vec<ProjectionState>),
}

impl Tallies {
    fn bytes(&self) -> usize {
        match self {
            Self::Best(best) => size_of_val(&best[..]),
            Self::Whole(tallies) => size_of_val(&tallies[..]),
        }
    }
}

/// A tile in progress that no thread steps.
pub struct RestingTile {
    rays: Vec<RayState>,
    /// For the few rays that store their state before the last sample.
    before: Vec<(u16, Before)>,
    tallies: Tallies,
    /// The number of stops reached by each pixel's ray, and the light there, by stop number.
    past: Vec<u8>,
    light: Vec<(u32, RayLight)>,
}

impl RestingTile {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let Self { rays, before, tallies, past, light } = self;
        size_of_val(&rays[..])
            + size_of_val(&before[..])
            + tallies.bytes()
            + size_of_val(&past[..])
            + size_of_val(&light[..])
    }
}

/// The places of a tile's unfinished rays along the axis of slabs.
#[derive(Copy, Clone, Debug)]
pub struct Front {
    /// The least place of those that move up, or along the slabs.
    up: f64,
    /// The largest of those that move down.
    down: f64,
}

impl Front {
    /// Whether some ray may have samples before the end of a slab. Occasionally it has none.
    pub fn is_within(&self, bound: &Bound) -> bool {
        /// More than the error of places, in voxels.
        const SURE: f64 = 0.01;
        if bound.upward {
            self.up - SURE < bound.plane
        } else {
            self.down + SURE > bound.plane
        }
    }
}

impl RayTile {
    /// The places of its rays.
    pub fn front(&self, axis: usize) -> Front {
        let mut front = Front { up: f64::INFINITY, down: f64::NEG_INFINITY };
        let sources = (self.rays.len() / self.lanes.len().max(1)).max(1);
        let rays = self.rays.chunks_exact(sources).map(any_of);
        for (lane, ray) in self.lanes.iter().zip(rays).filter(|(lane, _)| !lane.done) {
            let at = ray.at(lane.n as f64)[axis];
            if ray.step[axis] < 0.0 {
                front.down = front.down.max(at);
            } else {
                front.up = front.up.min(at);
            }
        }
        front
    }

    /// Bytes at rest, except for the few rays that wait at their last sample.
    pub fn resting_bytes(&self) -> usize {
        let tally = if self.sums { size_of::<ProjectionState>() } else { size_of::<f32>() };
        let rays = self.lanes.len() * (size_of::<RayState>() + 1) + self.tallies.len() * tally;
        rays + self.stops.as_ref().map_or(0, |stops| stops.count()) * size_of::<(u32, RayLight)>()
    }

    /// Converts it to its form at rest.
    pub fn rest(self) -> RestingTile {
        let rest = |l: &Lane| RayState {
            n: l.n,
            colour: l.colour.to_array(),
            // All lanes are equal.
            through: l.through.first(),
            done: l.done,
            gap: l.gap,
        };
        // Finished rays do not continue, and only stops need the state before a sample.
        let stops = self.stops.is_some();
        let remembers =
            |(n, l): (usize, &Lane)| (stops && !l.done && l.before.n != i64::MAX).then_some((n as u16, l.before));
        let (past, mut light) = self.stops.map(|stops| stops.rest()).unwrap_or_default();
        let mut before: Vec<_> = self.lanes.iter().enumerate().filter_map(remembers).collect();
        before.shrink_to_fit();
        light.shrink_to_fit();
        let tallies = if self.sums {
            Tallies::Whole(self.tallies)
        } else {
            Tallies::Best(self.tallies.iter().map(|t| t.best).collect())
        };
        RestingTile { rays: self.lanes.iter().map(rest).collect(), before, tallies, past, light }
    }

    /// Restores the state at rest on the same tile at its beginning.
    #[must_use]
    pub fn wake(mut self, resting: RestingTile) -> Self {
        let sources = (self.rays.len() / self.lanes.len().max(1)).max(1);
        for (lane, r) in self.lanes.iter_mut().zip(&resting.rays) {
            (lane.n, lane.done, lane.gap) = (r.n, r.done, r.gap);
            (lane.colour, lane.through) = (F4::from(r.colour), F4::splat(r.through));
        }
        for (n, before) in resting.before {
            self.lanes[usize::from(n)].before = before;
        }
        self.tallies = match resting.tallies {
            Tallies::Whole(tallies) => tallies,
            Tallies::Best(best) => best.into_iter().map(ProjectionState::of_best).collect(),
        };
        if let Some(stops) = &mut self.stops {
            stops.wake(resting.past, resting.light, &mut self.rays, sources);
        }
        self.set_out(sources);
        self
    }
}
