//! Pictures that have to be there at a time: pixels in a coarse grid first, then in finer ones, and what lies between them filled in.
//!
//! A ray does not depend on which others were cast, so a picture that is finished in time is the one that there is without a time.

use super::{order, CastOptions, Depth, Ends, PIXEL_BYTES};
use crate::executor::RunStats;
use field::error::FieldError;
use kernels::rays::{Counts, Pixels, RayTile, TILE};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Grids of pixels that are cast one after the other: every `stride`-th, except those that the grid before has where `rest` says so.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) stride: u32,
    pub(super) rest: bool,
}

/// Depths that differ by no more than this share are of one surface that leans.
const SAME_DEPTH: f64 = 0.05;

/// All pixels at once, or in grids from the coarsest on.
fn stages(coarsest: Option<u32>) -> Vec<Stage> {
    let Some(coarsest) = coarsest else { return vec![Stage { stride: 1, rest: false }] };
    (0..=coarsest.ilog2()).rev().map(|n| Stage { stride: 1 << n, rest: 1 << n != coarsest }).collect()
}

/// Of a pixel that no ray was cast through.
const NOT_CAST: u8 = u8::MAX;

/// Pixels as they come.
pub(super) struct Grid {
    pub(super) width: u32,
    /// Of the whole picture.
    pub(super) rows: Range<u32>,
    pub(super) rgba: Vec<[f32; 4]>,
    pub(super) gaps: Vec<bool>,
    pub(super) counts: Counts,
    /// Pixels of which a ray has only come a part of its way.
    parts: u64,
    /// Stride of the coarsest grid, a power of two; `None`: all pixels are cast at once.
    coarsest: Option<u32>,
    /// Of each pixel, the stride of the grid with which it was cast, or [`NOT_CAST`]. Empty where all are cast.
    strides: Vec<u8>,
}

/// Tiles of one grid to be cast: its share of the picture's work.
pub(super) struct Share<'a> {
    pub(super) tiles: &'a [[u32; 2]],
    rows: [u32; 2],
    pub(super) to: To,
}

impl Share<'_> {
    /// The pixels of a tile.
    pub(super) fn pixels(&self, tile: u64) -> Pixels {
        let Stage { stride, rest } = self.to.stage;
        Pixels { at: self.tiles[tile as usize], stride, rows: self.rows, rest }
    }
}

/// Where pixels go.
#[derive(Clone)]
pub(super) struct To {
    stage: Stage,
    /// When they have to be there.
    pub(super) deadline: Option<Instant>,
    grid: Arc<Mutex<Grid>>,
}

impl To {
    /// Takes the pixels of a tile, and what was done for them.
    pub(super) fn take(&self, pixels: impl Iterator<Item = ([u32; 2], [f32; 4], bool)>, counts: &Counts) {
        let mut grid = self.grid.lock().unwrap_or_else(PoisonError::into_inner);
        grid.take(pixels, self.stage.stride);
        grid.counts.add(counts);
    }

    /// Takes what there is of the pixels of a tile that is not done, if it is time. In the coarsest grid rays that have come a part of their
    /// way are better than nothing, and are counted; in others what lies between those of the grid before is better.
    pub(super) fn take_part(&self, tile: &RayTile) {
        if !self.is_late() {
            return;
        }
        let first = !self.stage.rest;
        let mut grid = self.grid.lock().unwrap_or_else(PoisonError::into_inner);
        grid.parts += tile.so_far().filter(|(.., done)| first && !done).count() as u64;
        let pixels = tile.so_far().filter(|(.., done)| first || *done);
        grid.take(pixels.map(|(at, rgba, gap, _)| (at, rgba, gap)), self.stage.stride);
    }

    /// Whether it is time.
    pub(super) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|d| Instant::now() >= d)
    }
}

impl Grid {
    /// Pixels of `rows` of a picture, none of which is cast yet.
    pub(super) fn new(width: u32, rows: Range<u32>, coarsest: Option<u32>) -> Self {
        let pixels = width as usize * rows.len();
        Self {
            width,
            rows,
            rgba: vec![[0.0; 4]; pixels],
            gaps: vec![false; pixels],
            counts: Counts::default(),
            parts: 0,
            coarsest,
            strides: if coarsest.is_some() { vec![NOT_CAST; pixels] } else { Vec::new() },
        }
    }

    /// Bytes of so many pixels, and of the list of their tiles.
    pub(super) fn bytes(pixels: u64, hurried: bool) -> u64 {
        pixels * (PIXEL_BYTES + u64::from(hurried)) + (pixels / u64::from(TILE)).max(64) * 8
    }

    /// Has its pixels cast, grid by grid, until all are, or it is time; those that are left are filled, and counted. `run` runs the
    /// tiles of a grid, and tells of those that are done. `backwards` says of each grid whether its last tile comes first. Says what the
    /// runs took.
    ///
    /// # Errors
    /// Those of `run`, except that it was interrupted since it was time.
    pub(super) fn cast(
        self,
        options: &CastOptions,
        ends: Option<Ends<'_>>,
        backwards: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(u64, u64) -> bool,
        mut run: impl FnMut(Share<'_>, &mut dyn FnMut(u64) -> bool) -> Result<RunStats, FieldError>,
    ) -> Result<(Self, u64, RunStats), FieldError> {
        let (width, rows, stages) = (self.width, self.rows.clone(), stages(self.coarsest));
        let grid = Arc::new(Mutex::new(self));
        let late = || options.deadline.is_some_and(|d| Instant::now() >= d);
        let mut stats = RunStats::default();
        for stage in stages {
            let mut tiles = order::tiles(width, rows.clone(), TILE * stage.stride, ends.and_then(|e| e.wanted));
            if backwards() {
                tiles.reverse();
            }
            let total = tiles.len() as u64;
            let to = To { stage, deadline: options.deadline, grid: grid.clone() };
            let share = Share { tiles: &tiles, rows: [rows.start, rows.end], to };
            let mut stopped = false;
            let ended = run(share, &mut |done| {
                stopped = !watch(done, total);
                !stopped
            });
            match ended {
                Ok(run) => stats.add(&run),
                Err(FieldError::Interrupted) if late() && !stopped => break,
                Err(e) => return Err(e),
            }
            if late() {
                break;
            }
        }
        // Whoever put pixels there is gone with the run.
        let mut held = grid.lock().unwrap_or_else(PoisonError::into_inner);
        let mut grid = core::mem::replace(&mut *held, Self::new(0, 0..0, None));
        let filled = grid.fill(ends.map(|e| e.depth)) + grid.parts;
        Ok((grid, filled, stats))
    }

    /// Takes pixels of the grid of a stride.
    fn take(&mut self, pixels: impl Iterator<Item = ([u32; 2], [f32; 4], bool)>, of: u32) {
        for ([x, y], rgba, gap) in pixels {
            let n = (y - self.rows.start) as usize * self.width as usize + x as usize;
            (self.rgba[n], self.gaps[n]) = (rgba, gap);
            if let Some(stride) = self.strides.get_mut(n) {
                *stride = of as u8;
            }
        }
    }

    /// Fills pixels that were not cast from the finest grid that is there all around them, or, where there is none, that has any pixel
    /// near them. Rays that ended at a surface in front of what a pixel shows are no help to it. Says how many were filled.
    fn fill(&mut self, depth: Option<&Depth<'_>>) -> u64 {
        let mut filled = 0;
        let coarsest = self.coarsest.unwrap_or(1);
        // Of a megapixel each look at a grid of which there is nothing costs some hundredths of a second.
        let cast = self.strides.iter().copied().filter(|s| *s != NOT_CAST);
        let Some(finest) = cast.min().map(u32::from) else { return self.strides.len() as u64 };
        for n in 0..self.strides.len() {
            if self.strides[n] != NOT_CAST {
                continue;
            }
            filled += 1;
            let (x, y) = ((n % self.width as usize) as u32, self.rows.start + (n / self.width as usize) as u32);
            let strides = || (finest.ilog2()..=coarsest.ilog2()).map(|n| 1 << n);
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
        for Stage { stride, rest } in stages(Some(8)) {
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
        let mut grid = Grid::new(9, 0..1, Some(8));
        (grid.rgba[8], grid.strides[0], grid.strides[8]) = ([1.0; 4], 8, 8);
        // The first ray ended at an edge that the others do not meet.
        assert_eq!(grid.fill(Some(&|x, _| if x == 0 { 1.0 } else { 100.0 })), 7);
        assert!(grid.rgba[1..].iter().all(|p| *p == [1.0; 4]), "{:?}", grid.rgba);
    }

    #[test]
    fn what_is_left_out_lies_between() {
        let mut grid = Grid::new(17, 0..9, Some(8));
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
