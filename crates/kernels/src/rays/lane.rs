//! One ray in progress: its next sample, and its light.

use super::lanes::{F4, F8};
use super::ray::Ray;
use super::transfer::TransferEntry;

/// The progress of a ray.
#[derive(Copy, Clone)]
pub(crate) struct Lane {
    /// Next sample.
    pub n: i64,
    /// Light so far, and opacity.
    pub colour: F4,
    /// Transmission of the light behind, in each lane.
    pub through: F4,
    pub done: bool,
    /// An unreadable page was left out.
    pub gap: bool,
    /// Its state before the last sample, if that has another length than others: a continued ray takes it again.
    pub before: Before,
}

/// Light and opacity before sample `n`.
#[derive(Copy, Clone)]
pub(crate) struct Before {
    pub n: i64,
    pub colour: F4,
    pub through: F4,
}

impl Lane {
    /// Rays of one pixel, one through each source, at the first sample of any.
    pub(crate) fn of_all(rays: &[Ray]) -> Self {
        let first = rays.iter().filter(|r| r.first < r.last).map(|r| r.first).min();
        Self {
            n: first.unwrap_or(0),
            colour: F4::splat(0.0),
            through: F4::splat(1.0),
            done: first.is_none(),
            gap: false,
            before: Before { n: i64::MAX, colour: F4::splat(0.0), through: F4::splat(1.0) },
        }
    }

    /// Stores the state before sample `n`.
    #[inline(always)]
    pub(crate) fn remember(&mut self, n: i64) {
        self.before = Before { n, colour: self.colour, through: self.through };
    }

    /// Adds a sample.
    #[inline(always)]
    pub(crate) fn add(&mut self, e: TransferEntry) {
        let e = e.light();
        self.colour = self.colour.fma(self.through, e);
        self.through = self.through.fnma(self.through, e.last());
    }
}

/// Transmission at which a dark ray ends. Any light behind then changes no 8-bit sRGB channel of the pixel by half a
/// step. That is light of `0.0044 L^0.58` for a channel of light L, since the curve of sRGB rises by `0.44 L^-0.58`
/// there (12.9 near black). The bound is a straight line below that, for the darkest channel.
const DARK: f32 = 1.2e-4;
const OF_LIGHT: f32 = 0.0042;

#[inline(always)]
pub(crate) fn opaque(colour: F4, through: F4) -> bool {
    let t = through.first();
    if t > DARK + OF_LIGHT {
        return false;
    }
    let [r, g, b, _] = colour.to_array();
    let least = if r < g { r } else { g };
    let least = if least < b { least } else { b };
    t <= least.mul_add(OF_LIGHT, DARK)
}

/// Whether [`opaque`] may hold for any of four.
#[inline(always)]
pub(crate) fn may_be_opaque(throughs: [F8; 2]) -> bool {
    let most = F8::splat(DARK + OF_LIGHT);
    throughs[0].at_most(throughs[1]).any_at_most(most)
}

/// [`opaque`] of numbers.
pub(crate) fn opaque_at([r, g, b]: [f32; 3], through: f32) -> bool {
    opaque(F4::from([r, g, b, 0.0]), F4::splat(through))
}
