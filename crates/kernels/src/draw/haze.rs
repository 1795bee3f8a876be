//! What fills the space between surfaces: the light of volumes, in front of what is seen at each sample.
//!
//! # Theory
//! A ray through the middle of a pixel has, at each depth, gathered so much light and lets so much through of what lies behind. Of an
//! opaque sample at depth d a picture shows what was gathered up to d, and the sample's own light as far as it comes through. So
//! surfaces within a volume are hidden by exactly what is in front of them. See-through surfaces are laid in between, in the order
//! of their depths.
//!
//! # Practice
//! The drawing says how deep the samples of some rows lie ([`Depths`]), a [`Haze`] says what was gathered there ([`HazeRows`]).

use super::band::{Band, Target, EMPTY};
use super::camera::Camera;
use super::geometry::{Aabb, GeometryError};
use std::ops::Range;

/// Samples of a pixel at most.
pub const MOST_SAMPLES: usize = 16;

/// Volumes of a picture.
pub trait Haze: Sync {
    /// A box that holds all of them.
    fn bounds(&self) -> Aabb;
    /// Fills `light`: for each pixel of the rows of `depths`, what was gathered and what comes through at each of its depths. Asks
    /// `go_on` now and then, and ends early when it says no.
    ///
    /// # Errors
    /// What its owner says, when it cannot be read.
    fn cast(
        &self,
        camera: &Camera,
        size: [u32; 2],
        depths: &Depths<'_>,
        light: &mut HazeRows,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), GeometryError>;
}

/// How deep the samples of some rows of pixels lie.
pub struct Depths<'a> {
    /// Bands below each other.
    bands: Vec<&'a Band>,
    /// Physical length of a unit of depth.
    unit: f64,
    /// How far the plane from which depths count lies before that of the camera's position.
    offset: f64,
}

impl<'a> Depths<'a> {
    pub(super) fn new(bands: Vec<&'a Band>, unit: f64, offset: f64) -> Self {
        Self { bands, unit, offset }
    }

    /// Rows of the whole picture that it is about.
    pub fn rows(&self) -> Range<u32> {
        let areas = || self.bands.iter().map(|b| b.area());
        let first = areas().map(|a| a.first_row).min().unwrap_or(0);
        first..areas().map(|a| a.first_row + a.rows).max().unwrap_or(first)
    }

    /// Pixels a row.
    pub fn columns(&self) -> u32 {
        self.bands.first().map_or(0, |b| b.area().columns)
    }

    /// Samples a pixel.
    pub fn samples(&self) -> usize {
        self.bands.first().map_or(8, |b| b.area().lattice.groups.len() * 8)
    }

    /// Depths of a pixel's samples, in the length unit of the data along the line of sight from the plane of the camera's
    /// position, infinity where there is
    /// nothing; one where all samples have the same. Answers how many were written to `out`, which has room for [`Self::samples`].
    pub fn of(&self, row: u32, column: u32, out: &mut [f32]) -> usize {
        let Some(band) = self.bands.iter().find(|b| row - b.area().first_row.min(row) < b.area().rows) else {
            return 0;
        };
        let area = band.area();
        let (first, groups) = (area.index(row, column), area.lattice.groups.len());
        let each = band.depth[first..first + groups].iter().flat_map(|g| g.to_array());
        for (to, depth) in out.iter_mut().zip(each) {
            *to = if depth == EMPTY { f32::INFINITY } else { (f64::from(depth) * self.unit + self.offset) as f32 };
        }
        let n = groups * 8;
        if out[1..n].iter().all(|d| *d == out[0]) {
            1
        } else {
            n
        }
    }
}

/// What was gathered, and what comes through, at the depths of some rows of pixels.
pub struct HazeRows {
    rows: Range<u32>,
    columns: u32,
    /// Where each pixel's begin.
    first: Vec<u32>,
    /// Linear red, green and blue, as gathered, and the share of the light from behind that comes through.
    light: Vec<[f32; 4]>,
}

/// Bytes that a pixel of [`HazeRows`] takes at most, with so many samples.
pub(super) const fn bytes_a_pixel(samples: usize) -> u64 {
    4 + 16 * samples as u64
}

impl HazeRows {
    /// For those depths; nothing is gathered yet, and everything comes through.
    pub(super) fn new(depths: &Depths<'_>) -> Self {
        let (rows, columns) = (depths.rows(), depths.columns());
        let mut first = Vec::with_capacity((rows.len() * columns as usize) + 1);
        let (mut all, mut buffer) = (0u32, vec![0.0; depths.samples()]);
        for row in rows.clone() {
            for column in 0..columns {
                first.push(all);
                all += depths.of(row, column, &mut buffer) as u32;
            }
        }
        first.push(all);
        Self { rows, columns, first, light: vec![[0.0, 0.0, 0.0, 1.0]; all as usize] }
    }

    fn range(&self, row: u32, column: u32) -> Range<usize> {
        let n = (row - self.rows.start) as usize * self.columns as usize + column as usize;
        self.first[n] as usize..self.first[n + 1] as usize
    }

    /// Of a pixel, an entry a depth.
    pub fn pixel(&self, row: u32, column: u32) -> &[[f32; 4]] {
        &self.light[self.range(row, column)]
    }

    /// Of a pixel, to be filled.
    pub fn pixel_mut(&mut self, row: u32, column: u32) -> &mut [[f32; 4]] {
        let range = self.range(row, column);
        &mut self.light[range]
    }

    /// The most depths that a pixel has.
    pub fn most(&self) -> usize {
        self.first.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0) as usize
    }

    /// Calls `each` for all pixels that have more than `depth` depths, with the pixel's number, row by row, and its entry for that one.
    pub fn at_depth(&mut self, depth: usize, mut each: impl FnMut(usize, &mut [f32; 4])) {
        for (n, ends) in self.first.windows(2).enumerate() {
            if (ends[1] - ends[0]) as usize > depth {
                each(n, &mut self.light[ends[0] as usize + depth]);
            }
        }
    }

    /// Of a sample of a pixel.
    #[inline]
    pub(super) fn sample(of_pixel: &[[f32; 4]], n: usize) -> [f32; 4] {
        match of_pixel {
            [] => [0.0, 0.0, 0.0, 1.0],
            [one] => *one,
            many => many[n],
        }
    }
}
