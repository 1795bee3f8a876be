//! Pictures that have to be there at a time: pixels in a coarse grid first, then in finer ones, and what lies between them filled in.
//!
//! A ray does not depend on which others were cast, so a picture that is finished in time is the one that there is without a time.

use super::Depth;
use kernels::rays::{Counts, RayTile};
use std::ops::Range;

/// Grids of pixels that are cast one after the other: every `stride`-th, except those that the grid before has where `rest` says so.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) stride: u32,
    pub(super) rest: bool,
}

/// The coarsest grid: so few rays that they take a hundredth of the time of all.
const COARSEST: u32 = 8;

/// Depths that differ by no more than this share are of one surface that leans.
const SAME_DEPTH: f64 = 0.05;

/// All pixels at once, or in grids.
pub(super) fn stages(hurried: bool) -> Vec<Stage> {
    if !hurried {
        return vec![Stage { stride: 1, rest: false }];
    }
    (0..=COARSEST.ilog2()).rev().map(|n| Stage { stride: 1 << n, rest: 1 << n != COARSEST }).collect()
}

/// Of a pixel that no ray was cast through.
pub(super) const NOT_CAST: u8 = u8::MAX;

/// Pixels as they come.
pub(super) struct Grid {
    pub(super) width: u32,
    /// Of the whole picture.
    pub(super) rows: Range<u32>,
    pub(super) rgba: Vec<[f32; 4]>,
    pub(super) gaps: Vec<bool>,
    pub(super) counts: Counts,
    /// Of each pixel, the stride of the grid with which it was cast, or [`NOT_CAST`]. Empty where all are cast.
    pub(super) strides: Vec<u8>,
}

impl Grid {
    /// Takes the pixels of a tile.
    pub(super) fn take(&mut self, tile: &RayTile, stage: Stage) {
        for ([x, y], rgba, gap) in tile.pixels() {
            if self.was_before(stage, x, y) {
                continue;
            }
            let n = (y - self.rows.start) as usize * self.width as usize + x as usize;
            (self.rgba[n], self.gaps[n]) = (rgba, gap);
            if let Some(stride) = self.strides.get_mut(n) {
                *stride = stage.stride as u8;
            }
        }
    }

    fn was_before(&self, stage: Stage, x: u32, y: u32) -> bool {
        let twice = 2 * stage.stride;
        stage.rest && x.is_multiple_of(twice) && (y - self.rows.start).is_multiple_of(twice)
    }

    /// Fills pixels that were not cast from the finest grid that is there all around them, or, where there is none, that has any pixel
    /// near them. Rays that ended at a surface in front of what a pixel shows are no help to it. Says how many were filled.
    pub(super) fn fill(&mut self, depth: Option<&Depth<'_>>) -> u64 {
        let mut filled = 0;
        for n in 0..self.strides.len() {
            if self.strides[n] != NOT_CAST {
                continue;
            }
            filled += 1;
            let (x, y) = ((n % self.width as usize) as u32, self.rows.start + (n / self.width as usize) as u32);
            let strides = || (1..=COARSEST.ilog2()).map(|n| 1 << n);
            let own = depth.map(|d| d(x, y));
            let ended = |x, y| depth.zip(own).is_some_and(|(d, own)| d(x, y) < own * (1.0 - SAME_DEPTH));
            let found = strides().find_map(|s| self.between(x, y, s, true, &ended));
            let found = found.or_else(|| strides().find_map(|s| self.between(x, y, s, false, &ended)));
            let found = found.or_else(|| strides().find_map(|s| self.between(x, y, s, false, &|_, _| false)));
            if let Some(found) = found {
                (self.rgba[n], self.gaps[n]) = found;
            }
        }
        filled
    }

    /// Straight between the corners of the square of a grid in which a pixel lies, as far as they were cast and lie in the picture.
    /// Those that `ended` before are left out. `None` if none is left, or, where `all` is asked for, one was not cast. What is made of
    /// any that has a gap has one.
    fn between(
        &self,
        x: u32,
        y: u32,
        stride: u32,
        all: bool,
        ended: &dyn Fn(u32, u32) -> bool,
    ) -> Option<([f32; 4], bool)> {
        let (x0, y0) = (x - x % stride, y - (y - self.rows.start) % stride);
        let (fx, fy) = ((x - x0) as f32 / stride as f32, (y - y0) as f32 / stride as f32);
        let (mut sum, mut weights, mut gap) = ([0.0; 4], 0.0, false);
        for c in 0..4u32 {
            let (on_x, on_y) = (c & 1, c >> 1);
            let weight = if on_x == 1 { fx } else { 1.0 - fx } * if on_y == 1 { fy } else { 1.0 - fy };
            let (x, y) = (x0 + on_x * stride, y0 + on_y * stride);
            if weight == 0.0 || x >= self.width || y >= self.rows.end {
                continue;
            }
            let n = (y - self.rows.start) as usize * self.width as usize + x as usize;
            // Those that were filled are no pixels of a grid.
            if self.strides[n] == NOT_CAST {
                if all {
                    return None;
                }
                continue;
            }
            if ended(x, y) {
                continue;
            }
            (0..4).for_each(|k| sum[k] += weight * self.rgba[n][k]);
            weights += weight;
            gap |= self.gaps[n];
        }
        (weights > 0.0).then(|| (sum.map(|v| v / weights), gap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_have_every_pixel_once() {
        let mut times = vec![0; 37 * 29];
        for Stage { stride, rest } in stages(true) {
            for y in (0..29u32).step_by(stride as usize) {
                for x in (0..37u32).step_by(stride as usize) {
                    let before = rest && x.is_multiple_of(2 * stride) && y.is_multiple_of(2 * stride);
                    times[(y * 37 + x) as usize] += usize::from(!before);
                }
            }
        }
        assert!(times.iter().all(|n| *n == 1), "{times:?}");
    }

    #[test]
    fn what_lies_behind_is_not_filled_with_what_is_in_front() {
        let mut grid = Grid {
            width: 9,
            rows: 0..1,
            rgba: vec![[0.0; 4]; 9],
            gaps: vec![false; 9],
            counts: Counts::default(),
            strides: vec![NOT_CAST; 9],
        };
        (grid.rgba[8], grid.strides[0], grid.strides[8]) = ([1.0; 4], 8, 8);
        // The first ray ended at an edge that the others do not meet.
        assert_eq!(grid.fill(Some(&|x, _| if x == 0 { 1.0 } else { 100.0 })), 7);
        assert!(grid.rgba[1..].iter().all(|p| *p == [1.0; 4]), "{:?}", grid.rgba);
    }

    #[test]
    fn what_is_left_out_lies_between() {
        let (width, rows) = (17, 0..9);
        let mut grid = Grid {
            width,
            rows,
            rgba: vec![[0.0; 4]; 17 * 9],
            gaps: vec![false; 17 * 9],
            counts: Counts::default(),
            strides: vec![NOT_CAST; 17 * 9],
        };
        for (x, y) in [(0, 0), (8, 0), (16, 0), (0, 8), (8, 8), (16, 8)] {
            let n = y * 17 + x;
            (grid.rgba[n], grid.strides[n]) = ([x as f32, y as f32, 1.0, 1.0], 8);
        }
        assert_eq!(grid.fill(None), 17 * 9 - 6);
        for (n, p) in grid.rgba.iter().enumerate() {
            let wanted = [(n % 17) as f32, (n / 17) as f32, 1.0, 1.0];
            assert!(p.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-5), "{n}: {p:?}");
        }
    }
}
