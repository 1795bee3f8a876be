//! Where the samples of a ray lie in a volume.
//!
//! Sample `n` stands at `t = (n + 1/2) dt`. Samples are counted in *segments* of [`SEGMENT`]; within one, places are whole multiples of
//! 2^-[`BITS`] voxels, so that they follow from the ray and the number of the sample alone, however many are computed at a time. Where a
//! segment begins is computed in double precision: errors do not add up beyond 2^-15 voxels.
//!
//! A sample stands for the step of which it is the middle. The first and the last also stand for what is left of the ray from where it comes
//! in and up to where it goes out, or not for what lies outside, so that light is that of the whole length and of no more. (Where each
//! stood for a step or nothing smooth fog in a box had rings, and surfaces within it too.) Where a ray is in the volume for less than a step its
//! one sample is in the middle of that: box edges had teeth.

use super::lanes::{D4, F4, I4};
use super::march::Tips;

/// Samples of a segment.
pub(crate) const SEGMENT: i64 = 64;
/// Binary places of a position in voxels.
pub(crate) const BITS: u32 = 20;
/// One voxel.
pub(crate) const ONE: i32 = 1 << BITS;
/// From parts of [`ONE`] to voxels.
pub(crate) const PART: f32 = 1.0 / ONE as f32;
/// Places are off by so many parts of [`ONE`] at most: half a part a step, and one where a segment begins.
const OFF: i64 = SEGMENT / 2 + 1;
/// Voxels from a sample to the next along an axis at most: positions within a segment have to fit 32 bits.
pub const LONGEST_STEP: f64 = 24.0;

/// A ray in voxel indices of a volume.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct Ray {
    /// Where t = 0 is.
    pub origin: [f64; 3],
    /// From a sample to the next.
    pub step: [f64; 3],
    /// First sample in the volume, and the one after the last; further ones may lie outside by rounding.
    pub first: i64,
    pub last: i64,
    /// How much more than a step the first and the last sample stand for, in steps: from -1/2 to 1/2.
    pub ends: [f32; 2],
}

impl Ray {
    /// A ray that meets nothing.
    pub(crate) const NONE: Self = Self { origin: [0.0; 3], step: [0.0; 3], first: 0, last: 0, ends: [0.0; 2] };

    /// How many steps sample `n` stands for.
    #[inline(always)]
    pub(crate) fn length(&self, n: i64) -> f32 {
        Tips::of(self, n, n).length(0, 1)
    }

    /// Position of sample `n` in voxel indices.
    #[inline(always)]
    pub(crate) fn at(&self, n: f64) -> [f64; 3] {
        let t = n + 0.5;
        [
            t.mul_add(self.step[0], self.origin[0]),
            t.mul_add(self.step[1], self.origin[1]),
            t.mul_add(self.step[2], self.origin[2]),
        ]
    }

    /// The first sample after `n`, which lies in the box, that may lie outside.
    #[inline]
    pub(crate) fn leaves(&self, n: i64, low: [i32; 3], high: [i32; 3]) -> i64 {
        self.leaves_shifted(n, low, high, 0.0)
    }

    /// The same with `shift` added to positions before their voxels are taken.
    #[inline]
    pub(crate) fn leaves_shifted(&self, n: i64, low: [i32; 3], high: [i32; 3], shift: f64) -> i64 {
        /// Further than places are off, in voxels.
        const SURE: f64 = 0.01;
        let x = self.at(n as f64).map(|x| x + shift);
        let mut most = f64::INFINITY;
        for a in 0..3 {
            let edge = if self.step[a] >= 0.0 { f64::from(high[a]) - SURE } else { f64::from(low[a]) + SURE };
            // A ray that stands still stays; rounding puts it in the box, if it is there, wherever in it.
            let steps = if self.step[a] == 0.0 { f64::INFINITY } else { (edge - x[a]) / self.step[a] };
            most = if steps < most { steps } else { most };
        }
        // Standing still in all directions does not occur: rays have a length.
        n + (most.clamp(0.0, 1e15) as i64) + 1
    }
}

/// Samples of a ray with numbers from `SEGMENT * number` on.
#[derive(Copy, Clone)]
pub(crate) struct RaySegment {
    /// The voxel in which its first sample lies.
    pub cell: I4,
    /// Where in it, in parts of [`ONE`].
    pub at: I4,
    /// From a sample to the next, in parts of [`ONE`].
    pub step: I4,
    /// One over that in voxels.
    pub inverse: F4,
    /// Samples of it that lie in the volume.
    pub from: i32,
    pub to: i32,
}

impl RaySegment {
    /// Segment `number` of a ray through a volume whose cells are so many along each axis. `shift` is added to positions: half a voxel where
    /// the nearest voxel is wanted.
    #[inline(always)]
    pub(crate) fn new(ray: &Ray, number: i64, cells: [u32; 3], shift: f64) -> Self {
        let begin = number * SEGMENT;
        // As [`Ray::at`] has it.
        let ray_step = D4::of(ray.step);
        let x = D4::of(ray.origin).fma(D4::splat(begin as f64 + 0.5), ray_step).add(D4::splat(shift));
        // Rays in the volume have coordinates below 2^31 there; NaN does not occur in rays that meet anything.
        let low = x.floor();
        let one = D4::splat(f64::from(ONE));
        let step = ray_step.mul(one).round();
        let mut s = Self {
            cell: low.whole(),
            at: x.sub(low).mul(one).whole(),
            step,
            inverse: F4::splat(ONE as f32).over(step.to_f4()),
            from: (ray.first - begin).clamp(0, SEGMENT) as i32,
            to: (ray.last - begin).clamp(0, SEGMENT) as i32,
        };
        let (low, high) = (I4::splat(0), I4::new([cells[0] as i32, cells[1] as i32, cells[2] as i32, 0]));
        let is_out = |s: &Self, k: i32| !s.voxel(k).within(low, high);
        while s.from < s.to && is_out(&s, s.from) {
            if !s.moved_in(s.from, cells) {
                s.from += 1;
            }
        }
        while s.to > s.from && is_out(&s, s.to - 1) {
            if !s.moved_in(s.to - 1, cells) {
                s.to -= 1;
            }
        }
        // What was moved in at one end may be out at the other.
        while s.from < s.to && is_out(&s, s.from) {
            s.from += 1;
        }
        s
    }

    /// Moves all samples so that `k` lies in the volume, if it is outside by rounding alone: at the cut face of something solid the first
    /// sample is all that is seen, and without it single pixels were off by 3/255.
    #[cold]
    fn moved_in(&mut self, k: i32, cells: [u32; 3]) -> bool {
        let (cell, place, mut at) = (self.cell.to_array(), self.place(k).to_array(), self.at.to_array());
        for a in 0..3 {
            let p = (i64::from(cell[a]) << BITS) + i64::from(place[a]);
            let over = p - p.clamp(0, (i64::from(cells[a]) << BITS) - 1);
            if over.abs() > OFF {
                return false;
            }
            at[a] -= over as i32;
        }
        self.at = I4::new(at);
        true
    }

    /// Position of sample `k`, from the voxel of the first, in parts of [`ONE`].
    #[inline(always)]
    pub(crate) fn place(&self, k: i32) -> I4 {
        self.at.add(self.step.mul(I4::splat(k)))
    }

    /// Voxel of sample `k`: the low corner of its cell.
    #[inline(always)]
    pub(crate) fn voxel(&self, k: i32) -> I4 {
        self.cell.add(self.place(k).down::<{ BITS as i32 }>())
    }

    /// The first sample after `k`, not above `to`, of which it is not sure that its voxel lies in the box; sample `k` does.
    #[inline(always)]
    pub(crate) fn leaves(&self, k: i32, to: i32, low: I4, high: I4) -> i32 {
        let edge = self.step.negative(low, high).sub(self.cell);
        let way = edge.to_f4().fma(self.place(k).to_f4(), F4::splat(-PART));
        // Where the ray stands still that is infinite, or no number on the edge: no limit.
        let most = way.mul(self.inverse).least3((to - 1 - k) as f32);
        // One that goes to an edge is over it there; nor may rounding take too many.
        let mut n = (most as i32).max(0);
        while n > 0 && !self.voxel(k + n).within(low, high) {
            n -= 1;
        }
        k + n + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn samples_on_the_faces_of_a_volume_are_in_it() {
        // Three samples a voxel, so that steps are rounded; the first or the last lies on a face.
        for (origin, step, first, last) in [(9.0, -1.0 / 3.0, 0, 28), (0.0, 1.0 / 3.0, 0, 28), (9.0, -0.1, 0, 91)] {
            let ray =
                Ray { origin: [origin - 0.5 * step, 4.5, 4.5], step: [step, 0.0, 0.0], first, last, ends: [0.0; 2] };
            let found: i32 = (0..2).map(|n| RaySegment::new(&ray, n, [9; 3], 0.0)).map(|s| s.to - s.from).sum();
            assert_eq!(i64::from(found), last - first, "from {origin} by {step}");
        }
        // Outside by more than rounding is outside.
        let ray = Ray { origin: [9.001, 4.5, 4.5], step: [-0.1, 0.0, 0.0], first: -1, last: 5, ends: [0.0; 2] };
        assert_eq!(RaySegment::new(&ray, 0, [9; 3], 0.0).from, 0);
        assert_eq!(RaySegment::new(&ray, -1, [9; 3], 0.0).from, 64);
    }

    proptest! {
        /// Jumps never leave out a sample outside of the box, and go nearly as far as they can.
        #[test]
        fn jumps_stay_in_their_box(
            origin in prop::array::uniform3(-50.0f64..250.0),
            step in prop::array::uniform3(-2.0f64..2.0),
            still in 0usize..8,
            size in 1i32..40,
        ) {
            let step: [f64; 3] = core::array::from_fn(|a| if still >> a & 1 == 1 { 0.0 } else { step[a] });
            let ray = Ray { origin, step, first: -1000, last: 1000, ends: [0.0; 2] };
            for number in -3..3 {
                let s = RaySegment::new(&ray, number, [200; 3], 0.0);
                let mut k = s.from;
                while k < s.to {
                    let v = s.voxel(k).to_array();
                    let low: [i32; 3] = core::array::from_fn(|a| v[a].div_euclid(size) * size);
                    let high = low.map(|l| l + size);
                    let four = |a: [i32; 3]| I4::new([a[0], a[1], a[2], 0]);
                    let inside = |k: i32| s.voxel(k).within(four(low), four(high));
                    let next = s.leaves(k, s.to, four(low), four(high));
                    prop_assert!(next > k && next <= s.to);
                    prop_assert!((k..next).all(inside));
                    prop_assert!(next == s.to || !inside(next) || next + 1 == s.to || !inside(next + 1) || next - k < 2);
                    let n = number * SEGMENT;
                    let far = ray.leaves(n + i64::from(k), low, high) - n;
                    prop_assert!(far > i64::from(k));
                    prop_assert!((i64::from(k)..far.min(i64::from(s.to))).all(|k| inside(k as i32)));
                    k = next;
                }
            }
        }
    }
}
