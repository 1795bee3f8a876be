//! Pictures with a deadline, by progressive refinement. Pixels between the cast ones are filled. A coarser level, if
//! there is one, is cast first: a few of its pages show more than the first of many.
//!
//! Rays are independent of each other, so a picture finished in time equals one without a deadline.

use super::{tile_order, CastOptions, Depth, RayEnds, PIXEL_BYTES};
use field::error::FieldError;
use kernels::rays::{Pixels, RayCounts, RayTile, TILE};
use runtime::executor::RunStats;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// One grid of pixels: every `stride`-th each way, without those of the previous grid if `rest`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) stride: u32,
    pub(super) rest: bool,
}

/// Depths that differ by at most this share belong to one inclined surface.
const SAME_DEPTH: f64 = 0.05;

/// All pixels at once, or grids from the coarsest to the finest.
fn stages(coarsest: Option<u32>) -> Vec<Pass> {
    let Some(coarsest) = coarsest else { return vec![Pass { stride: 1, rest: false }] };
    (0..=coarsest.ilog2()).rev().map(|n| Pass { stride: 1 << n, rest: 1 << n != coarsest }).collect()
}

/// Grids to be cast one after the other.
struct Passes<'a> {
    stages: Vec<Pass>,
    /// Whether their pixels belong to the coarser level, under the others.
    coarse: bool,
    /// Whether the last tile of the next grid comes first.
    backwards: &'a dyn Fn() -> bool,
}

/// Mark of a pixel without a ray.
const NOT_CAST: u8 = u8::MAX;
/// Mark of a pixel that could not be filled.
pub(super) const UNKNOWN: u8 = u8::MAX - 1;
/// Added to the mark of a pixel whose only ray went through the coarser level.
const COARSE: u8 = 0x40;

/// Mark of a pixel cast in a grid of this stride: its binary logarithm.
fn mark_of(stride: u32) -> u8 {
    stride.ilog2() as u8
}

/// Pixels as tiles deliver them.
pub(super) struct Framebuffer {
    pub(super) width: u32,
    /// Rows of the whole picture.
    pub(super) rows: Range<u32>,
    pub(super) rgba: Vec<[f32; 4]>,
    pub(super) gaps: Vec<bool>,
    pub(super) counts: RayCounts,
    /// Pixels with unfinished rays.
    parts: u64,
    /// Stride of the coarsest grid to be cast next, a power of two; `None`: all pixels at once.
    coarsest: Option<u32>,
    /// Stride of the first grid.
    widest: u32,
    /// The [mark](mark_of) of each pixel's grid, plus [`COARSE`] for the coarser level; or [`NOT_CAST`]. In the end
    /// [`UNKNOWN`] where no pixel nearby was cast. Empty if all pixels are cast.
    pub(super) marks: Vec<u8>,
}

/// The tiles of one grid.
pub(super) struct PassTiles<'a> {
    pub(super) tiles: &'a [[u32; 2]],
    rows: [u32; 2],
    pub(super) to: To,
}

impl PassTiles<'_> {
    pub(super) fn pixels(&self, tile: u64) -> Pixels {
        let Pass { stride, rest } = self.to.stage;
        Pixels { at: self.tiles[tile as usize], stride, rows: self.rows, rest }
    }
}

/// Destination of pixels.
#[derive(Clone)]
pub(super) struct To {
    stage: Pass,
    /// Whether they belong to the coarser level, under the others.
    coarse: bool,
    pub(super) deadline: Option<Instant>,
    grid: Arc<Mutex<Framebuffer>>,
}

impl To {
    /// Takes the pixels and counts of a tile.
    pub(super) fn take(&self, pixels: impl Iterator<Item = ([u32; 2], [f32; 4], bool)>, counts: &RayCounts) {
        let mut grid = self.grid.lock().unwrap_or_else(PoisonError::into_inner);
        pixels.for_each(|(at, rgba, gap)| grid.put(at, rgba, gap, self.mark()));
        grid.counts.add(counts);
    }

    /// Takes the pixels of an unfinished tile after the deadline. The coarsest grid takes and counts unfinished rays,
    /// which are better than nothing. In finer grids interpolated pixels are better.
    pub(super) fn take_part(&self, tile: &RayTile) {
        if !self.is_late() {
            return;
        }
        let mut grid = self.grid.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, rgba, gap, done) in tile.so_far() {
            if !done && (self.stage.rest || grid.mark(at) != Some(NOT_CAST)) {
                continue;
            }
            grid.put(at, rgba, gap, self.mark());
            // Unfinished pixels of a coarser level are counted with all its pixels.
            grid.parts += u64::from(!done && !self.coarse);
        }
    }

    /// The mark of a pixel cast now.
    fn mark(&self) -> u8 {
        mark_of(self.stage.stride) + if self.coarse { COARSE } else { 0 }
    }

    /// Whether the deadline has passed.
    pub(super) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|d| Instant::now() >= d)
    }
}

impl Framebuffer {
    /// Pixels of `rows` of a picture, none cast yet.
    pub(super) fn new(width: u32, rows: Range<u32>, coarsest: Option<u32>) -> Self {
        let pixels = width as usize * rows.len();
        Self {
            width,
            rows,
            rgba: vec![[0.0; 4]; pixels],
            gaps: vec![false; pixels],
            counts: RayCounts::default(),
            parts: 0,
            coarsest,
            widest: coarsest.unwrap_or(1),
            marks: if coarsest.is_some() { vec![NOT_CAST; pixels] } else { Vec::new() },
        }
    }

    /// Bytes of so many pixels and of the list of their tiles.
    pub(super) fn bytes(pixels: u64, hurried: bool) -> u64 {
        pixels * (PIXEL_BYTES + u64::from(hurried)) + (pixels / u64::from(TILE)).max(64) * 8
    }

    /// Casts pixels grid by grid until the deadline, and fills the others. Returns the number of filled pixels and the
    /// figures of the runs.
    ///
    /// `run` casts the tiles of a grid and reports finished ones. `backwards` chooses, for each grid, whether its last
    /// tile comes first.
    ///
    /// # Errors
    /// Those of `run`, except an interruption by the deadline.
    pub(super) fn cast(
        self,
        options: &CastOptions,
        ends: Option<RayEnds<'_>>,
        backwards: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(u64, u64) -> bool,
        run: impl FnMut(PassTiles<'_>, &mut dyn FnMut(u64) -> bool) -> Result<RunStats, FieldError>,
    ) -> Result<(Self, u64, RunStats), FieldError> {
        let passes = Passes { stages: stages(self.coarsest), coarse: false, backwards };
        let (mut grid, stats) = self.cast_passes(&passes, options, ends, watch, run)?;
        let filled = grid.fill(ends.map(|e| e.depth)) + grid.parts;
        Ok((grid, filled, stats))
    }

    /// Casts pixels of a coarser level as [`Self::cast`] does, in grids with strides of `finest` and more. They remain
    /// visible where [`Self::cast`] does not arrive in time.
    ///
    /// # Errors
    /// As [`Self::cast`].
    pub(super) fn cast_coarse(
        self,
        finest: u32,
        options: &CastOptions,
        ends: Option<RayEnds<'_>>,
        watch: &mut dyn FnMut(u64, u64) -> bool,
        run: impl FnMut(PassTiles<'_>, &mut dyn FnMut(u64) -> bool) -> Result<RunStats, FieldError>,
    ) -> Result<(Self, RunStats), FieldError> {
        let stages = stages(self.coarsest).into_iter().filter(|s| s.stride >= finest).collect();
        let passes = Passes { stages, coarse: true, backwards: &|| false };
        let (mut grid, stats) = self.cast_passes(&passes, options, ends, watch, run)?;
        // Single pixels of the shown level, far apart among those of this one, would be isolated dots.
        grid.coarsest = grid.coarsest.map(|coarsest| coarsest.min(finest * 2));
        Ok((grid, stats))
    }

    fn cast_passes(
        self,
        passes: &Passes<'_>,
        options: &CastOptions,
        ends: Option<RayEnds<'_>>,
        watch: &mut dyn FnMut(u64, u64) -> bool,
        mut run: impl FnMut(PassTiles<'_>, &mut dyn FnMut(u64) -> bool) -> Result<RunStats, FieldError>,
    ) -> Result<(Self, RunStats), FieldError> {
        let &Passes { ref stages, coarse, backwards } = passes;
        let (width, rows) = (self.width, self.rows.clone());
        let grid = Arc::new(Mutex::new(self));
        let late = || options.deadline.is_some_and(|d| Instant::now() >= d);
        let mut stats = RunStats::default();
        for stage in stages.iter().copied() {
            let mut tiles = tile_order::tiles(width, rows.clone(), TILE * stage.stride, ends.and_then(|e| e.wanted));
            if backwards() {
                tiles.reverse();
            }
            let total = tiles.len() as u64;
            let to = To { stage, coarse, deadline: options.deadline, grid: grid.clone() };
            let share = PassTiles { tiles: &tiles, rows: [rows.start, rows.end], to };
            let mut stopped = false;
            let ended = run(share, &mut |done| {
                stopped = !watch(done, total);
                !stopped
            });
            match ended {
                Ok(run) => stats.add(&run),
                Err(FieldError::Interrupted) if late() && !stopped => break,
                // Its pages may be too large. The picture does without it.
                Err(FieldError::LimitTooSmall { .. }) if coarse => break,
                Err(e) => return Err(e),
            }
            if late() {
                break;
            }
        }
        // The tasks that put pixels ended with the run.
        let mut held = grid.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((core::mem::replace(&mut *held, Self::new(0, 0..0, None)), stats))
    }

    fn number(&self, [x, y]: [u32; 2]) -> usize {
        (y - self.rows.start) as usize * self.width as usize + x as usize
    }

    /// The mark of a pixel, if there are marks.
    fn mark(&self, at: [u32; 2]) -> Option<u8> {
        self.marks.get(self.number(at)).copied()
    }

    fn put(&mut self, at: [u32; 2], rgba: [f32; 4], gap: bool, mark: u8) {
        let n = self.number(at);
        (self.rgba[n], self.gaps[n]) = (rgba, gap);
        if let Some(to) = self.marks.get_mut(n) {
            *to = mark;
        }
    }

    /// Fills pixels that were not cast, and returns their number. The sources, in order: the finest grid with all
    /// corners cast, the coarser level, a grid with any corner cast. Rays that ended at a surface in front of the
    /// pixel's are left out, if there are others.
    fn fill(&mut self, depth: Option<&Depth<'_>>) -> u64 {
        let mut filled = 0;
        // A pass over a grid without cast pixels costs some hundredths of a second for a megapixel.
        let least = |is: fn(u8) -> bool| self.marks.iter().filter(|m| is(**m)).map(|m| 1u32 << (m & !COARSE)).min();
        let Some(finest) = least(|s| s != NOT_CAST) else {
            self.marks.fill(UNKNOWN);
            return self.marks.len() as u64;
        };
        let exact = least(|s| s < COARSE).unwrap_or(self.widest * 2);
        let is_coarse = self.marks.iter().any(|s| *s != NOT_CAST && *s >= COARSE);
        let between = |from: u32, to: u32| (from.ilog2()..=to.ilog2()).map(|n| 1 << n);
        let strides = |from| between(from, self.widest);
        // No grid with a larger stride than the cast ones hides the coarser level: all its pixels may lie beside what
        // that level shows.
        let laid = between(exact, if is_coarse { self.coarsest.unwrap_or(1) } else { self.widest });
        for n in 0..self.marks.len() {
            if self.marks[n] < COARSE {
                continue;
            }
            filled += 1;
            let (x, y) = ((n % self.width as usize) as u32, self.rows.start + (n / self.width as usize) as u32);
            let own = depth.map(|d| d(x, y));
            let ended = |x, y| depth.zip(own).is_some_and(|(d, own)| d(x, y) < own * (1.0 - SAME_DEPTH));
            let found = laid.clone().find_map(|s| self.between(x, y, s, |s| s < COARSE, true, &ended));
            if found.is_none() && self.marks[n] != NOT_CAST {
                continue;
            }
            let any = |s| s != NOT_CAST && s != UNKNOWN;
            let found = found.or_else(|| {
                strides(finest).filter(|_| is_coarse).find_map(|s| self.between(x, y, s, any, true, &ended))
            });
            let found = found.or_else(|| strides(finest).find_map(|s| self.between(x, y, s, any, false, &ended)));
            let found =
                found.or_else(|| strides(finest).find_map(|s| self.between(x, y, s, any, false, &|_, _| false)));
            match found {
                Some(found) => (self.rgba[n], self.gaps[n]) = found,
                None => self.marks[n] = UNKNOWN,
            }
        }
        filled
    }

    /// Bilinear interpolation between the corners of the grid square around a pixel. Corners count if they lie in the
    /// picture, satisfy `is`, and have not `ended` before the pixel's surface.
    ///
    /// `None` if no corner counts, if less than half the weight is known, or with `all` if one corner fails `is`. A gap
    /// in any corner is a gap of the pixel.
    fn between(
        &self,
        x: u32,
        y: u32,
        stride: u32,
        is: fn(u8) -> bool,
        all: bool,
        ended: &dyn Fn(u32, u32) -> bool,
    ) -> Option<([f32; 4], bool)> {
        let (x0, y0) = (x - x % stride, y - (y - self.rows.start) % stride);
        let (fx, fy) = ((x - x0) as f32 / stride as f32, (y - y0) as f32 / stride as f32);
        let (mut sum, mut weights, mut gap) = ([0.0; 4], 0.0, false);
        let (mut known, mut lacks) = (0.0, 0.0);
        for c in 0..4u32 {
            let (on_x, on_y) = (c & 1, c >> 1);
            let weight = if on_x == 1 { fx } else { 1.0 - fx } * if on_y == 1 { fy } else { 1.0 - fy };
            let (x, y) = (x0 + on_x * stride, y0 + on_y * stride);
            if weight == 0.0 || x >= self.width || y >= self.rows.end {
                continue;
            }
            let n = self.number([x, y]);
            // Filled pixels belong to no grid.
            if !is(self.marks[n]) {
                if all {
                    return None;
                }
                lacks += weight;
                continue;
            }
            known += weight;
            if ended(x, y) {
                continue;
            }
            (0..4).for_each(|k| sum[k] += weight * self.rgba[n][k]);
            weights += weight;
            gap |= self.gaps[n];
        }
        (weights > 0.0 && known >= lacks).then(|| (sum.map(|v| v / weights), gap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_have_every_pixel_once() {
        let mut times = vec![0; 37 * 29];
        for Pass { stride, rest } in stages(Some(8)) {
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
        let mut grid = Framebuffer::new(9, 0..1, Some(8));
        (grid.rgba[8], grid.marks[0], grid.marks[8]) = ([1.0; 4], mark_of(8), mark_of(8));
        // The first ray ended at an edge that the others do not meet.
        assert_eq!(grid.fill(Some(&|x, _| if x == 0 { 1.0 } else { 100.0 })), 7);
        assert!(grid.rgba[1..].iter().all(|p| *p == [1.0; 4]), "{:?}", grid.rgba);
    }

    /// Pixels of the coarser level stay where no others came, and fill gaps between those. All are counted as filled.
    #[test]
    fn a_coarser_level_lies_under_what_is_cast() {
        let mut grid = Framebuffer::new(17, 0..9, Some(8));
        for (y, x) in (0..9).step_by(2).flat_map(|y| (0..17).step_by(2).map(move |x| (y, x))) {
            grid.put([x, y], [0.5; 4], false, COARSE + mark_of(2));
        }
        for (y, x) in [(0, 0), (0, 8), (8, 0), (8, 8), (0, 16)] {
            grid.put([x, y], [1.0; 4], false, mark_of(8));
        }
        assert_eq!(grid.fill(None), 17 * 9 - 5);
        let at = |x, y| grid.rgba[grid.number([x, y])][0];
        // The coarser level is invisible where the shown level surrounds a pixel.
        assert_eq!([at(0, 0), at(1, 0), at(2, 2), at(7, 7)], [1.0; 4]);
        assert_eq!([at(9, 4), at(10, 8), at(12, 6), at(16, 8)], [0.75, 0.5, 0.5, 0.5]);
        assert_eq!([at(9, 8), at(15, 0), at(16, 0)], [0.75, 1.0, 1.0]);
    }

    #[test]
    fn what_is_left_out_lies_between() {
        let mut grid = Framebuffer::new(17, 0..9, Some(8));
        for (x, y) in [(0, 0), (8, 0), (16, 0), (0, 8), (8, 8), (16, 8)] {
            let n = y * 17 + x;
            (grid.rgba[n], grid.marks[n]) = ([x as f32, y as f32, 1.0, 1.0], mark_of(8));
        }
        assert_eq!(grid.fill(None), 17 * 9 - 6);
        for (n, p) in grid.rgba.iter().enumerate() {
            let wanted = [(n % 17) as f32, (n / 17) as f32, 1.0, 1.0];
            assert!(p.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-5), "{n}: {p:?}");
        }
    }
}
