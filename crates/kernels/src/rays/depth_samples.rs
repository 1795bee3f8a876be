//! The light that rays have gathered at several depths, with one ray a pixel.
//!
//! Transparent surfaces in a volume, and inclined ones, give each sample of a pixel a depth of its own. The ray of the
//! pixel stops at each of them, nearest first, and continues from there. With a new ray for each depth, a picture with
//! a translucent surface took eight times as long as one without.

use super::lane::{opaque, Lane};
use super::lanes::F4;
use super::multichannel::ProjectionState;
use super::ray::{Ray, RayPosition};
use crate::draw::MOST_SAMPLES;
use core::cmp::Ordering;

/// Most depths of a pixel: one for each of its samples.
pub const MOST_STOPS: usize = MOST_SAMPLES;

/// The light of a ray at a stop (linear, premultiplied, and opacity), and whether unreadable pages were left out.
pub type RayLight = ([f32; 4], bool);

/// The stops of the rays of a tile.
pub(super) struct Stops {
    /// The first stop of each pixel, and the end of the last.
    first: Vec<u32>,
    /// In the order of a pixel's ray: the place of the stop, and the number of its depth in the pixel.
    at: Vec<(RayPosition, u8)>,
    /// Stops that each pixel's ray has reached.
    past: Vec<u8>,
    /// By pixel and depth, in the caller's order.
    light: Vec<RayLight>,
    /// The own end of each ray.
    last: Vec<RayPosition>,
}

impl Stops {
    /// Bytes of the stops of this many pixels with this many depths each, and of this many rays.
    pub(super) fn bytes(pixels: usize, depths: usize, rays: usize) -> usize {
        let stop = size_of::<(RayPosition, u8)>() + size_of::<RayLight>();
        size_of::<Self>() + pixels * (size_of::<u32>() + 1 + depths * stop) + rays * size_of::<RayPosition>()
    }

    /// For this many pixels, without stops.
    pub(super) fn new(pixels: usize) -> Self {
        let mut first = Vec::with_capacity(pixels + 1);
        first.push(0);
        Self {
            first,
            at: Vec::new(),
            past: Vec::with_capacity(pixels),
            light: Vec::new(),
            last: Vec::with_capacity(pixels),
        }
    }

    /// Adds the next pixel: the stops of its rays, in any order. The rays end at the first.
    pub(super) fn push(&mut self, stops: impl Iterator<Item = RayPosition>, rays: &mut [Ray]) {
        let begin = self.at.len();
        self.at.extend(stops.zip(0..));
        self.at[begin..].sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        self.light.resize(self.at.len(), RayLight::default());
        self.past.push(0);
        self.first.push(self.at.len() as u32);
        self.last.extend(rays.iter().map(|r| RayPosition { n: r.last, beyond: r.ends[1] }));
        match self.at.get(begin) {
            Some((stop, _)) => rays.iter_mut().for_each(|r| *r = stop.end(*r)),
            None => rays.fill(Ray::NONE),
        }
    }

    /// Records the light `seen` of a pixel at the stop of its rays, and sends them to the next stop with possibly
    /// different light. Whether there is one. `tallies`: of each ray, in scenes with projections.
    pub(super) fn go_on(
        &mut self,
        pixel: usize,
        lane: &mut Lane,
        rays: &mut [Ray],
        tallies: &mut [ProjectionState],
        seen: impl Fn(&Lane, &[ProjectionState]) -> F4,
    ) -> bool {
        let (begin, end) = (self.first[pixel] as usize, self.first[pixel + 1] as usize);
        while begin + usize::from(self.past[pixel]) < end {
            let now = begin + usize::from(self.past[pixel]);
            let (stop, which) = self.at[now];
            let colour = seen(lane, tallies);
            self.light[begin + usize::from(which)] = (colour.to_array(), lane.gap);
            self.past[pixel] += 1;
            if now + 1 == end {
                lane.colour = colour;
                continue;
            }
            // The sample before the stop covered only the length before it: it is taken again.
            let mut from = stop.n;
            if lane.before.n == stop.n.saturating_sub(1) {
                (lane.colour, lane.through) = (lane.before.colour, lane.before.through);
                (from, lane.before.n) = (lane.before.n, i64::MAX);
                tallies.iter_mut().for_each(ProjectionState::recall);
            }
            if tallies.is_empty() && opaque(lane.colour, lane.through) {
                continue;
            }
            let until = self.at[now + 1].0;
            let mut next = None::<i64>;
            let last = &self.last[pixel * rays.len()..];
            for (ray, last) in rays.iter_mut().zip(last) {
                *ray = until.end(Ray { last: last.n, ends: [ray.ends[0], last.beyond], ..*ray });
                let first = ray.first.max(from);
                if first < ray.last {
                    next = Some(next.map_or(first, |n| n.min(first)));
                }
            }
            if let Some(n) = next {
                (lane.n, lane.done) = (n, false);
                return true;
            }
        }
        false
    }

    /// Number of stops.
    pub(super) fn count(&self) -> usize {
        self.at.len()
    }

    /// The number of stops reached by each pixel's ray, and the light there.
    pub(super) fn rest(self) -> (Vec<u8>, Vec<(u32, RayLight)>) {
        let begins = self.first.iter().zip(&self.past);
        let come_to = begins.flat_map(|(first, past)| (*first..*first + u32::from(*past)).map(move |n| (*first, n)));
        let light = come_to.map(|(first, n)| {
            let at = first + u32::from(self.at[n as usize].1);
            (at, self.light[at as usize])
        });
        let light = light.collect();
        (self.past, light)
    }

    /// Restores the state of [`Self::rest`]: rays end at their next stop.
    pub(super) fn wake(&mut self, past: Vec<u8>, light: Vec<(u32, RayLight)>, rays: &mut [Ray], sources: usize) {
        for (n, gathered) in light {
            self.light[n as usize] = gathered;
        }
        for (pixel, past) in past.iter().enumerate().filter(|(_, past)| **past > 0) {
            // They stay at the last.
            let next = (self.first[pixel] + u32::from(*past)).min(self.first[pixel + 1] - 1);
            let all = pixel * sources..(pixel + 1) * sources;
            for (ray, last) in rays[all.clone()].iter_mut().zip(&self.last[all]) {
                let whole = Ray { last: last.n, ends: [ray.ends[0], last.beyond], ..*ray };
                *ray = self.at[next as usize].0.end(whole);
            }
        }
        self.past = past;
    }

    /// The light of a pixel at its depths.
    pub(super) fn of(&self, pixel: usize) -> &[RayLight] {
        &self.light[self.first[pixel] as usize..self.first[pixel + 1] as usize]
    }
}
