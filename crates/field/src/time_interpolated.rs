//! Nodes between two time steps: geometry of a moment, values of either step.
//!
//! Coordinates that change are interpolated linearly, corner by corner. So a cell of a moving grid is the same
//! trilinear map at every moment, with corners on straight lines. A corner is blanked out between two steps if it is at
//! either. Fields are not interpolated here: derived ones are computed at each step first.

use crate::boxes::{Bounds, EMPTY};
use crate::nodes::{beyond, child, look_through, Corners, Miss, Nodes, Zone};
use crate::plot3d::iblank::{bits, OF_CELLS};
use crate::simd::V4;
use pager::error::PageError;
use pager::id::PageId;

/// A view of a dataset at a moment between two steps.
pub struct TimeInterpolated<N> {
    nodes: N,
    /// The earlier step.
    step: u32,
    /// The next step; the same as `step` if there is none, or none is needed.
    next: u32,
    /// The moment, from 0 at the earlier step to 1 at the later.
    weight: f64,
    /// Whether fields are those of the later step.
    later: bool,
}

impl<N: Nodes> TimeInterpolated<N> {
    /// At step 0.
    pub fn new(nodes: N) -> Self {
        Self { nodes, step: 0, next: 0, weight: 0.0, later: false }
    }

    /// The nodes of single steps.
    pub fn nodes(&mut self) -> &mut N {
        &mut self.nodes
    }

    /// Goes to the interval between two steps.
    pub fn set_steps(&mut self, step: u32, next: u32) {
        (self.step, self.next) = (step, next);
        self.set_later(false);
    }

    /// Goes to a moment between the two steps.
    pub fn set_weight(&mut self, weight: f64) {
        self.weight = weight;
    }

    /// Chooses the step of all fields read from now on: the later one or the earlier.
    #[inline(always)]
    pub fn set_later(&mut self, later: bool) {
        self.later = later;
        self.nodes.set_step(if later { self.next } else { self.step });
    }

    /// The earlier step, if the moment is at it: the later one's boxes are then not needed. At the later step,
    /// interpolated points may differ from that step's in the last bit.
    #[inline(always)]
    fn only(&self) -> Option<u32> {
        (self.weight == 0.0).then_some(self.step)
    }

    /// The result of `of` at one step.
    #[inline(always)]
    fn at_step<T>(&mut self, step: u32, of: impl FnOnce(&mut N) -> T) -> T {
        self.nodes.set_step(step);
        let found = of(&mut self.nodes);
        self.nodes.set_step(if self.later { self.next } else { self.step });
        found
    }

    /// The results of `of` at both steps. Absent pages of both are listed.
    #[inline(always)]
    fn both<T>(&mut self, mut of: impl FnMut(&mut N) -> Result<T, Miss>) -> Result<(T, T), Miss> {
        match (self.at_step(self.step, &mut of), self.at_step(self.next, &mut of)) {
            (Ok(a), Ok(b)) => Ok((a, b)),
            (a, b) => Err(Miss::worst([a.err(), b.err(), None])),
        }
    }

    fn moving_corners(&mut self, zone: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss> {
        let mut ends = [[V4::zero(); 8]; 2];
        self.ends(zone, cell, &mut ends)?;
        *out = between(&ends, self.weight);
        Ok(())
    }

    /// iblank from both steps: a hole if either is, else the zone that the earlier step names, else the later one's.
    fn both_blanks(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [f64; 8]) -> Result<(), Miss> {
        let (a, b) = self.both(|n| {
            let mut v = [0.0; 8];
            n.scalar(zone, array, 0, cell, &mut v).map(|()| v)
        })?;
        for (out, (a, b)) in out.iter_mut().zip(a.iter().zip(&b)) {
            *out = match (*a, *b) {
                (0.0, _) | (_, 0.0) => 0.0,
                (a, _) if a < 0.0 => a,
                // Cells blanked out at either step are combined.
                (a, b) if bits(a) != 0 => f64::from(OF_CELLS) + f64::from(bits(a) | bits(b)),
                (_, b) => b,
            };
        }
        Ok(())
    }
}

/// Points on straight lines from those of one step to those of the next.
#[inline(always)]
pub(crate) fn between([first, second]: &[[V4; 8]; 2], weight: f64) -> [V4; 8] {
    let w = V4::splat(weight);
    core::array::from_fn(|n| first[n] + (second[n] - first[n]) * w)
}

/// The box at a moment, from those at the two steps. Points move on straight lines.
fn mixed(a: &Bounds, b: &Bounds, weight: f64) -> Bounds {
    // Boxes without a usable cell are inverted. If either is, nothing is searched.
    let none = |b: &Bounds| b[0] > b[3];
    if none(a) || none(b) {
        return if none(a) { *a } else { *b };
    }
    let (lo, hi) = mixed_bounds(corners_of(a), corners_of(b), V4::splat(weight));
    let ([x0, y0, z0], [x1, y1, z1]) = (lo.xyz(), hi.xyz());
    // Outwards, as boxes are rounded.
    let down = |x: f64| if f64::from(x as f32) > x { (x as f32).next_down() } else { x as f32 };
    let up = |x: f64| if f64::from(x as f32) < x { (x as f32).next_up() } else { x as f32 };
    [down(x0), down(y0), down(z0), up(x1), up(y1), up(z1)]
}

#[inline(always)]
fn corners_of(b: &Bounds) -> (V4, V4) {
    // SAFETY: six values.
    let [lo, hi] = unsafe { V4::pair_f32(b.as_ptr()) };
    (lo, hi)
}

/// Whether the box of [`mixed`] may hold a point.
#[inline(always)]
fn mixed_holds(a: &Bounds, b: &Bounds, weight: V4, p: V4) -> bool {
    let ((al, ah), (bl, bh)) = (corners_of(a), corners_of(b));
    let (lo, hi) = mixed_bounds((al, ah), (bl, bh), weight);
    beyond(lo, hi, p).either(ah.below(al)).either(bh.below(bl)).bits() & 7 == 0
}

/// The bounds at a moment, from those at the two steps. Points move on straight lines.
#[inline(always)]
fn mixed_bounds((al, ah): (V4, V4), (bl, bh): (V4, V4), weight: V4) -> (V4, V4) {
    // Wider by more than the rounding of these lines and of the interpolation of points.
    let slack = al.abs().max(ah.abs()).max(bl.abs()).max(bh.abs()) * V4::splat(8.0 * f64::EPSILON);
    (al + (bl - al) * weight - slack, ah + (bh - ah) * weight + slack)
}

/// A cell's corners between two steps.
pub struct BetweenCorners<'a, N> {
    nodes: &'a mut TimeInterpolated<N>,
    zone: usize,
    cell: [u32; 3],
}

impl<N: Nodes> Corners for BetweenCorners<'_, N> {
    #[inline(always)]
    fn vector(&mut self, array: usize, out: &mut [V4; 8]) -> Result<(), Miss> {
        self.nodes.vector(self.zone, array, self.cell, out)
    }
    #[inline(always)]
    fn scalar(&mut self, array: usize, component: usize, out: &mut [f64; 8]) -> Result<(), Miss> {
        self.nodes.scalar(self.zone, array, component, self.cell, out)
    }
}

impl<N: Nodes> Nodes for TimeInterpolated<N> {
    type At<'a>
        = BetweenCorners<'a, N>
    where
        N: 'a;

    fn zones(&self) -> &[Zone] {
        self.nodes.zones()
    }

    #[inline(always)]
    fn at(&mut self, zone: usize, cell: [u32; 3]) -> BetweenCorners<'_, N> {
        BetweenCorners { nodes: self, zone, cell }
    }

    #[inline(always)]
    fn vector(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss> {
        if array == self.nodes.zones()[zone].xyz && self.moves(zone) {
            return self.moving_corners(zone, cell, out);
        }
        self.nodes.at(zone, cell).vector(array, out)
    }

    #[inline(always)]
    fn scalar(
        &mut self,
        zone: usize,
        array: usize,
        component: usize,
        cell: [u32; 3],
        out: &mut [f64; 8],
    ) -> Result<(), Miss> {
        let z = &self.nodes.zones()[zone];
        if z.iblank == Some(array) && !z.arrays[array].steady && self.next != self.step {
            return self.both_blanks(zone, array, cell, out);
        }
        self.nodes.at(zone, cell).scalar(array, component, out)
    }

    fn row_bounds(&mut self, zone: usize, array: usize, cell: [u32; 3], count: u32) -> Result<Option<(V4, V4)>, Miss> {
        if array != self.nodes.zones()[zone].xyz || !self.moves(zone) {
            return self.nodes.row_bounds(zone, array, cell, count);
        }
        if let Some(step) = self.only() {
            return self.at_step(step, |n| n.row_bounds(zone, array, cell, count));
        }
        let (a, b) = self.both(|n| n.row_bounds(zone, array, cell, count))?;
        let w = V4::splat(self.weight);
        Ok(a.zip(b).map(|(a, b)| mixed_bounds(a, b, w)))
    }

    fn block(&mut self, zone: usize, level: usize, block: [u32; 3]) -> Result<[f32; 6], Miss> {
        if !self.moves(zone) {
            return self.nodes.block(zone, level, block);
        }
        let (a, b) = self.both(|n| n.block(zone, level, block))?;
        Ok(mixed(&a, &b, self.weight))
    }

    fn children_that_hold(
        &mut self,
        zone: usize,
        level: usize,
        parent: [u32; 3],
        p: V4,
        out: &mut Vec<[u32; 3]>,
    ) -> Result<(), Miss> {
        if !self.moves(zone) {
            return self.nodes.children_that_hold(zone, level, parent, p, out);
        }
        if let Some(step) = self.only() {
            return self.at_step(step, |n| n.children_that_hold(zone, level, parent, p, out));
        }
        let mut boxes = [[EMPTY; 8]; 2];
        let [of_first, of_second] = &mut boxes;
        let (first, a) = self.at_step(self.step, |n| n.children(zone, level, parent, of_first));
        let (second, b) = self.at_step(self.next, |n| n.children(zone, level, parent, of_second));
        let (here, weight) = (first & second, V4::splat(self.weight));
        let holds = |c: &usize| here >> c & 1 == 1 && mixed_holds(&boxes[0][*c], &boxes[1][*c], weight, p);
        out.extend((0..8).filter(holds).map(|c| child(parent, c)));
        if a.is_some() || b.is_some() {
            return Err(Miss::worst([a, b, None]));
        }
        Ok(())
    }

    fn bounds(&mut self, zone: usize, level: usize) -> Result<Bounds, Miss> {
        self.nodes.bounds(zone, level)
    }

    fn stands(&self, zone: usize) -> bool {
        let z = &self.nodes.zones()[zone];
        z.arrays[z.xyz].steady
    }

    #[inline(always)]
    fn moves(&self, zone: usize) -> bool {
        !self.stands(zone) && self.next != self.step
    }

    #[inline(always)]
    fn weight(&self) -> f64 {
        self.weight
    }

    fn ends(&mut self, zone: usize, cell: [u32; 3], out: &mut [[V4; 8]; 2]) -> Result<(), Miss> {
        let xyz = self.nodes.zones()[zone].xyz;
        let [first, second] = out;
        let a = self.at_step(self.step, |n| n.at(zone, cell).vector(xyz, first));
        let b = self.at_step(self.next, |n| n.at(zone, cell).vector(xyz, second));
        match (a, b) {
            (Ok(()), Ok(())) => Ok(()),
            (a, b) => Err(Miss::worst([a.err(), b.err(), None])),
        }
    }

    fn blocks_that_hold(&mut self, zone: usize, level: usize, p: V4, out: &mut Vec<[u32; 3]>) -> Result<(), Miss> {
        if !self.moves(zone) {
            return self.nodes.blocks_that_hold(zone, level, p, out);
        }
        look_through(self, zone, level, p, out)
    }

    fn missing(&mut self) -> &mut Vec<PageId> {
        self.nodes.missing()
    }

    fn failure(&mut self) -> Option<PageError> {
        self.nodes.failure()
    }

    fn prefetch(&self, zone: usize, arrays: &[usize], cell: [u32; 3]) {
        self.nodes.prefetch(zone, arrays, cell);
    }

    fn begin_step(&mut self) {
        self.nodes.begin_step();
    }
}
