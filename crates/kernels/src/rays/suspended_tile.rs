//! Tiles whose rays wait, in little memory: what follows from the scene is left out, and made again when they go on.

use super::depth_samples::RayLight;
use super::lanes::F4;
use super::march::{Before, Lane};
use super::multichannel::ProjectionState;
use super::tile::{any_of, Bound, RayTile};

/// Of a ray what it has come to.
#[derive(Copy, Clone)]
struct Resting {
    n: i64,
    colour: [f32; 4],
    through: f32,
    done: bool,
    gap: bool,
}

/// Of each ray what its projection has come to.
enum Tallies {
    /// Of scenes of which nothing else is wanted: the largest number.
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

/// A tile that is under way, while nobody steps it.
pub struct RestingTile {
    rays: Vec<Resting>,
    /// Of the few that remember how they were before their last sample.
    before: Vec<(u16, Before)>,
    tallies: Tallies,
    /// How many stops each pixel's ray has come to, and what was gathered there, by its number among all.
    past: Vec<u8>,
    light: Vec<(u32, RayLight)>,
}

impl RestingTile {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let Self { rays, before, tallies, past, light } = self;
        size_of_val(&rays[..])
            + size_of_val(&before[..])
            + tallies.bytes()
            + size_of_val(&past[..])
            + size_of_val(&light[..])
    }
}

/// Where the rays of a tile that go on are along the axis of slabs.
#[derive(Copy, Clone, Debug)]
pub struct Front {
    /// The least place of those that go up, or along the slabs.
    up: f64,
    /// The most of those that go down.
    down: f64,
}

impl Front {
    /// Whether some ray has samples before it comes to the end of a slab. Now and then it has none after all.
    pub fn is_within(&self, bound: &Bound) -> bool {
        /// Places are off by less, in voxels.
        const SURE: f64 = 0.01;
        if bound.upward {
            self.up - SURE < bound.plane
        } else {
            self.down + SURE > bound.plane
        }
    }
}

impl RayTile {
    /// Where its rays are.
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

    /// Bytes of it while it rests, but for rays that wait at their last sample, which are few.
    pub fn resting_bytes(&self) -> usize {
        let tally = if self.sums { size_of::<ProjectionState>() } else { size_of::<f32>() };
        let rays = self.lanes.len() * (size_of::<Resting>() + 1) + self.tallies.len() * tally;
        rays + self.stops.as_ref().map_or(0, |stops| stops.count()) * size_of::<(u32, RayLight)>()
    }

    /// Lays it to rest.
    pub fn rest(self) -> RestingTile {
        let rest = |l: &Lane| Resting {
            n: l.n,
            colour: l.colour.to_array(),
            // All lanes are the same.
            through: l.through.first(),
            done: l.done,
            gap: l.gap,
        };
        // Those that are done go on nowhere, and only who stops on the way goes back by a sample.
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

    /// The same tile at its beginning comes to where it was when it was laid to rest.
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
