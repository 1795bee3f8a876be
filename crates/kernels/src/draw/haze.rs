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

use super::band::{Band, DrawTarget, EMPTY};
use super::camera::Camera;
use super::geometry::{Aabb, GeometryError};
use std::ops::Range;
use std::sync::Arc;

/// Samples of a pixel at most.
pub const MOST_SAMPLES: usize = 16;

/// Volumes of a picture.
pub trait Haze: Sync {
    /// A box that holds all of them.
    fn bounds(&self) -> Aabb;
    /// Whether what it reads for some rows of such a picture is not there any more for the next.
    fn is_large(&self, camera: &Camera, size: [u32; 2]) -> bool;
    /// Fills `light`: for each pixel of the rows of `depths`, what was gathered and what comes through at each of its depths. Asks
    /// `go_on` now and then, and ends early when it says no.
    ///
    /// # Errors
    /// What its owner says, when it cannot be read.
    fn cast(
        &self,
        camera: &Camera,
        size: [u32; 2],
        depths: &Depths,
        light: &mut HazeRows,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), GeometryError>;
}

/// How deep the samples of some rows of pixels lie.
pub struct Depths {
    rows: Range<u32>,
    columns: u32,
    /// Where each pixel's begin.
    first: Arc<Vec<u32>>,
    /// In the length unit of the data.
    depths: Vec<f32>,
}

/// From depths of samples to lengths.
#[derive(Copy, Clone)]
pub(super) struct Ruler {
    /// Physical length of a unit of depth.
    pub(super) unit: f64,
    /// How far the plane from which depths count lies before that of the camera's position.
    pub(super) offset: f64,
}

/// The depths of a pixel's samples; one where all have the same.
fn depths_of(band: &Band, row: u32, column: u32) -> impl Iterator<Item = f32> + '_ {
    let (first, groups) = (band.area().index(row, column), band.area().lattice.groups.len());
    let each = move || band.depth[first..first + groups].iter().flat_map(|group| group.to_array());
    let one = each().next().unwrap_or(EMPTY);
    let count = if each().all(|d| d == one) { 1 } else { groups * 8 };
    each().take(count)
}

impl Depths {
    /// Of no rows yet, the first of which is to be `row`.
    pub(super) fn new(row: u32, columns: u32) -> Self {
        Self { rows: row..row, columns, first: Arc::new(vec![0]), depths: Vec::new() }
    }

    /// Adds the rows of a band, which follow on those before.
    pub(super) fn add(&mut self, band: &Band, ruler: Ruler) {
        let area = band.area();
        let first = Arc::make_mut(&mut self.first);
        // No more than is counted: what is gathered takes the rest of it later.
        first.reserve_exact(area.rows as usize * area.columns as usize);
        self.depths.reserve_exact(Self::count(band) as usize);
        for row in area.first_row..area.first_row + area.rows {
            for column in 0..area.columns {
                let lengths = depths_of(band, row, column).map(|d| {
                    if d == EMPTY {
                        f32::INFINITY
                    } else {
                        (f64::from(d) * ruler.unit + ruler.offset) as f32
                    }
                });
                self.depths.extend(lengths);
                first.push(self.depths.len() as u32);
            }
        }
        self.rows.end += area.rows;
    }

    /// Depths of all pixels of a band.
    pub(super) fn count(band: &Band) -> u64 {
        let area = band.area();
        let rows = area.first_row..area.first_row + area.rows;
        rows.flat_map(|row| (0..area.columns).map(move |column| depths_of(band, row, column).count() as u64)).sum()
    }

    /// Bytes of so many pixels with so many depths in all, and of the [`HazeRows`] of these.
    pub(super) const fn bytes(pixels: u64, depths: u64) -> u64 {
        pixels * size_of::<u32>() as u64 + depths * (size_of::<f32>() + size_of::<[f32; 4]>()) as u64
    }

    /// Rows of the whole picture that it is about.
    pub fn rows(&self) -> Range<u32> {
        self.rows.clone()
    }

    /// Pixels a row.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Depths of a pixel's samples, in the length unit of the data along the line of sight from the plane of the camera's position, infinity
    /// where there is nothing; one where all samples have the same. None outside of the rows.
    pub fn of(&self, row: u32, column: u32) -> &[f32] {
        if !self.rows.contains(&row) || column >= self.columns {
            return &[];
        }
        let n = (row - self.rows.start) as usize * self.columns as usize + column as usize;
        &self.depths[self.first[n] as usize..self.first[n + 1] as usize]
    }
}

/// What was gathered, and what comes through, at the depths of some rows of pixels.
pub struct HazeRows {
    rows: Range<u32>,
    columns: u32,
    /// Where each pixel's begin.
    first: Arc<Vec<u32>>,
    /// Linear red, green and blue, as gathered, and the share of the light from behind that comes through.
    light: Vec<[f32; 4]>,
}

impl HazeRows {
    /// For those depths; nothing is gathered yet, and everything comes through.
    pub(super) fn new(depths: &Depths) -> Self {
        let light = vec![[0.0, 0.0, 0.0, 1.0]; depths.depths.len()];
        Self { rows: depths.rows(), columns: depths.columns(), first: depths.first.clone(), light }
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
