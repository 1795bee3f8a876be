//! The places of a ray's samples in a volume.
//!
//! Sample `n` is at `t = (n + 1/2) dt`. Samples are counted in *segments* of [`SEGMENT`]. Within one, places are
//! integer multiples of 2^-[`BITS`] voxels. So they follow from the ray and the number of the sample alone, however
//! many are computed at a time. The begin of a segment is computed in double precision: errors do not accumulate beyond
//! 2^-15 voxels.
//!
//! A sample covers the step around it. The first sample also covers the ray from its entry on, and the last one to its
//! exit. If the step extends outside, they cover less. So light is that of the exact length. If each sample covered a
//! step or nothing, smooth fog in a box had rings, and surfaces within it too. A ray in the volume for less than a step
//! has one sample in the middle of that length: otherwise box edges had teeth.

use super::lanes::{D4, F4, I4};

/// Samples of a segment.
pub(crate) const SEGMENT: i64 = 64;
/// Binary places of a position in voxels.
pub(crate) const BITS: u32 = 20;
/// One voxel.
pub(crate) const ONE: i32 = 1 << BITS;
/// Factor from parts of [`ONE`] to voxels.
pub(crate) const PART: f32 = 1.0 / ONE as f32;
/// Largest error of places in parts of [`ONE`]: half a part a step, and one at the begin of a segment.
const OFF: i64 = SEGMENT / 2 + 1;
/// Most voxels from a sample to the next along an axis: positions within a segment must fit 32 bits.
pub const LONGEST_STEP: f64 = 24.0;

/// A ray in voxel indices of a volume.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct Ray {
    /// The place at t = 0.
    pub origin: [f64; 3],
    /// From a sample to the next.
    pub step: [f64; 3],
    /// First sample in the volume, and the one after the last. Rounding may put others outside.
    pub first: i64,
    pub last: i64,
    /// Lengths of the first and the last sample beyond a step, in steps: from -1/2 to 1/2.
    pub ends: [f32; 2],
}

impl Ray {
    /// A ray that misses the volume.
    pub(crate) const NONE: Self = Self { origin: [0.0; 3], step: [0.0; 3], first: 0, last: 0, ends: [0.0; 2] };

    /// Length of sample `n` in steps.
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

    /// The first sample after `n` that may be outside of the box, in which `n` is.
    #[inline]
    pub(crate) fn leaves(&self, n: i64, low: [i32; 3], high: [i32; 3]) -> i64 {
        self.leaves_shifted(n, low, high, 0.0)
    }

    /// The same with `shift` added to positions before rounding to voxels.
    #[inline]
    pub(crate) fn leaves_shifted(&self, n: i64, low: [i32; 3], high: [i32; 3], shift: f64) -> i64 {
        /// More than the error of places, in voxels.
        const SURE: f64 = 0.01;
        let x = self.at(n as f64).map(|x| x + shift);
        let mut most = f64::INFINITY;
        for a in 0..3 {
            let edge = if self.step[a] >= 0.0 { f64::from(high[a]) - SURE } else { f64::from(low[a]) + SURE };
            // A ray without motion along an axis stays inside, if it is there.
            let steps = if self.step[a] == 0.0 { f64::INFINITY } else { (edge - x[a]) / self.step[a] };
            most = if steps < most { steps } else { most };
        }
        // A ray moves along at least one axis, since it has a length.
        n + (most.clamp(0.0, 1e15) as i64) + 1
    }
}

/// The lengths beyond a step of the first and the last of some samples, if these are the ends of their ray.
#[derive(Copy, Clone)]
pub(crate) struct Tips {
    pub first: f32,
    pub last: f32,
    /// Number of the last.
    pub n: i64,
}

impl Tips {
    /// Neither is an end of the ray.
    pub(crate) const NONE: Self = Self { first: 0.0, last: 0.0, n: i64::MAX };

    /// For samples from one number to another.
    #[inline(always)]
    pub(super) fn of(ray: &Ray, first: i64, last: i64) -> Self {
        Self {
            first: if first == ray.first { ray.ends[0] } else { 0.0 },
            last: if last == ray.last - 1 { ray.ends[1] } else { 0.0 },
            n: last,
        }
    }

    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.first != 0.0 || self.last != 0.0
    }

    /// Length of sample `at` of `count`, in steps.
    #[inline(always)]
    pub(crate) fn length(&self, at: usize, count: usize) -> f32 {
        let of = |is: bool, end: f32| if is { end } else { 0.0 };
        (1.0 + of(at == 0, self.first) + of(at + 1 == count, self.last)).max(0.0)
    }
}

/// A place on a ray.
#[derive(Copy, Clone, Debug, PartialEq, PartialOrd)]
pub(crate) struct RayPosition {
    /// The first sample beyond it.
    pub n: i64,
    /// Its distance from the end of the step of the sample before, in steps: from -1/2 to 1/2.
    pub beyond: f32,
}

impl RayPosition {
    /// Before all samples.
    pub(crate) const NONE: Self = Self { n: i64::MIN, beyond: 0.0 };

    /// This many steps from t = 0.
    pub(super) fn of(steps: f64) -> Self {
        // Sample numbers are exact up to 2^53; farther off their rounding does not matter.
        let n = (steps - 0.5).ceil().clamp(-9e15, 9e15);
        Self { n: n as i64, beyond: (steps - n).clamp(-0.5, 0.5) as f32 }
    }

    /// Ends a ray here, if it extends this far.
    pub(crate) fn end(self, ray: Ray) -> Ray {
        let own = Self { n: ray.last, beyond: ray.ends[1] };
        if self.n <= ray.first {
            Ray { last: ray.first.min(ray.last), ..ray }
        } else if self < own {
            Ray { last: self.n, ends: [ray.ends[0], self.beyond], ..ray }
        } else {
            ray
        }
    }
}

/// A ray in voxels, whether it hits the volume or not.
pub(super) struct VoxelRay {
    pub(super) origin: [f64; 3],
    pub(super) step: [f64; 3],
}

impl VoxelRay {
    /// The place after this many steps.
    pub(super) fn at(&self, t: f64) -> [f64; 3] {
        core::array::from_fn(|a| self.step[a].mul_add(t, self.origin[a]))
    }

    /// The length of a step, in voxels.
    pub(super) fn length(&self) -> f64 {
        self.step.iter().map(|s| s * s).sum::<f64>().sqrt()
    }
}

/// Samples of a ray with numbers from `SEGMENT * number` on.
#[derive(Copy, Clone)]
pub(crate) struct RaySegment {
    /// The voxel of its first sample.
    pub cell: I4,
    /// The place in it, in parts of [`ONE`].
    pub at: I4,
    /// From a sample to the next, in parts of [`ONE`].
    pub step: I4,
    /// One over that in voxels.
    pub inverse: F4,
    /// Its samples inside the volume.
    pub from: i32,
    pub to: i32,
}

impl RaySegment {
    /// Segment `number` of a ray through a volume with this many cells along each axis. `shift` is added to positions:
    /// half a voxel for nearest voxels.
    #[inline(always)]
    pub(crate) fn new(ray: &Ray, number: i64, cells: [u32; 3], shift: f64) -> Self {
        let begin = number * SEGMENT;
        // As [`Ray::at`] has it.
        let ray_step = D4::of(ray.step);
        let x = D4::of(ray.origin).fma(D4::splat(begin as f64 + 0.5), ray_step).add(D4::splat(shift));
        // Rays in the volume have coordinates below 2^31 there. NaN does not occur in rays that hit anything.
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
        // A sample moved in at one end may be out at the other.
        while s.from < s.to && is_out(&s, s.from) {
            s.from += 1;
        }
        s
    }

    /// Moves all samples so that `k` is in the volume, if it is outside by rounding only. At the cut face of a solid
    /// only the first sample is visible; without this single pixels were off by 3/255.
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

    /// The first sample after `k`, at most `to`, with a voxel that may be outside of the box. Sample `k` is inside.
    #[inline(always)]
    pub(crate) fn leaves(&self, k: i32, to: i32, low: I4, high: I4) -> i32 {
        let edge = self.step.negative(low, high).sub(self.cell);
        let way = edge.to_f4().fma(self.place(k).to_f4(), F4::splat(-PART));
        // Without motion that is infinite, or NaN on the edge: no limit.
        let most = way.mul(self.inverse).least3((to - 1 - k) as f32);
        // A sample at an edge is beyond it; rounding must not give too many.
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
        // Three samples a voxel, so that steps are rounded; the first or the last is on a face.
        for (origin, step, first, last) in [(9.0, -1.0 / 3.0, 0, 28), (0.0, 1.0 / 3.0, 0, 28), (9.0, -0.1, 0, 91)] {
            let ray =
                Ray { origin: [origin - 0.5 * step, 4.5, 4.5], step: [step, 0.0, 0.0], first, last, ends: [0.0; 2] };
            let found: i32 = (0..2).map(|n| RaySegment::new(&ray, n, [9; 3], 0.0)).map(|s| s.to - s.from).sum();
            assert_eq!(i64::from(found), last - first, "from {origin} by {step}");
        }
        // A sample outside by more than rounding stays outside.
        let ray = Ray { origin: [9.001, 4.5, 4.5], step: [-0.1, 0.0, 0.0], first: -1, last: 5, ends: [0.0; 2] };
        assert_eq!(RaySegment::new(&ray, 0, [9; 3], 0.0).from, 0);
        assert_eq!(RaySegment::new(&ray, -1, [9; 3], 0.0).from, 64);
    }

    proptest! {
        /// Jumps never leave out a sample outside of the box, and are nearly as long as possible.
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
