//! Volumes between surfaces: their light in front of the visible point of each sample.
//!
//! # Theory
//! A ray through the middle of a pixel has, at each depth, gathered some light and transmits a share of the light
//! behind. For an opaque sample at depth d a picture shows the light gathered up to d, and the transmitted share of the
//! sample's own light. So volumes hide surfaces within them exactly. Transparent surfaces are blended in between, in
//! the order of their depths.
//!
//! # Practice
//! The drawing gives the depths of the samples of some rows ([`Depths`]). A [`Haze`] gives the light gathered up to
//! them ([`HazeRows`]).

use super::band::{Band, DrawTarget, EMPTY};
use super::camera::Camera;
use super::geometry::{Aabb, GeometryError};
use std::ops::Range;
use std::sync::Arc;

/// Most samples of a pixel.
pub const MOST_SAMPLES: usize = 16;

/// Volumes of a picture.
pub trait Haze: Sync {
    /// A box that holds all of them.
    fn bounds(&self) -> Aabb;
    /// Whether the volumes have more pages than fit in memory, so that each part of such a picture reads them again.
    fn is_large(&self, camera: &Camera, size: [u32; 2]) -> bool;
    /// Fills `light`: the gathered light and the transmission of each pixel of the rows of `depths`, at each of its
    /// depths. Calls `go_on` now and then, and ends early when it returns false.
    ///
    /// # Errors
    /// The error of its owner, when it cannot be read.
    fn cast(
        &self,
        camera: &Camera,
        size: [u32; 2],
        depths: &Depths,
        light: &mut HazeRows,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), GeometryError>;
}

/// Depths of the samples of some rows of pixels.
pub struct Depths {
    rows: Range<u32>,
    columns: u32,
    /// Index of each pixel's first depth.
    first: Arc<Vec<u32>>,
    /// In the length unit of the data.
    depths: Vec<f32>,
}

/// From depths of samples to lengths.
#[derive(Copy, Clone)]
pub(super) struct Ruler {
    /// Physical length of a unit of depth.
    pub(super) unit: f64,
    /// Distance by which the plane of zero depth is in front of the camera's position.
    pub(super) offset: f64,
}

/// The depths of a pixel's samples; one if all are equal.
fn depths_of(band: &Band, row: u32, column: u32) -> impl Iterator<Item = f32> + '_ {
    let (first, groups) = (band.area().index(row, column), band.area().lattice.groups.len());
    let each = move || band.depth[first..first + groups].iter().flat_map(|group| group.to_array());
    let one = each().next().unwrap_or(EMPTY);
    let count = if each().all(|d| d == one) { 1 } else { groups * 8 };
    each().take(count)
}

impl Depths {
    /// No rows yet; the first is to be `row`.
    pub(super) fn new(row: u32, columns: u32) -> Self {
        Self { rows: row..row, columns, first: Arc::new(vec![0]), depths: Vec::new() }
    }

    /// Adds the rows of a band, which follow the earlier ones.
    pub(super) fn add(&mut self, band: &Band, ruler: Ruler) {
        let area = band.area();
        let first = Arc::make_mut(&mut self.first);
        // Exactly the counted bytes: gathered light uses the rest of the charge later.
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

    /// Bytes of this many pixels with this many depths in all, and of their [`HazeRows`].
    pub(super) const fn bytes(pixels: u64, depths: u64) -> u64 {
        pixels * size_of::<u32>() as u64 + depths * (size_of::<f32>() + size_of::<[f32; 4]>()) as u64
    }

    /// Its rows of the whole picture.
    pub fn rows(&self) -> Range<u32> {
        self.rows.clone()
    }

    /// Pixels a row.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Depths of a pixel's samples in the length unit of the data, along the line of sight from the plane of the
    /// camera's position. Infinity for empty samples; one value if all samples are equal. Empty outside of the rows.
    pub fn of(&self, row: u32, column: u32) -> &[f32] {
        if !self.rows.contains(&row) || column >= self.columns {
            return &[];
        }
        let n = (row - self.rows.start) as usize * self.columns as usize + column as usize;
        &self.depths[self.first[n] as usize..self.first[n + 1] as usize]
    }
}

/// The gathered light and the transmission at the depths of some rows of pixels.
pub struct HazeRows {
    rows: Range<u32>,
    columns: u32,
    /// Index of each pixel's first entry.
    first: Arc<Vec<u32>>,
    /// Linear red, green and blue, as gathered, and the share of the light behind that is transmitted.
    light: Vec<[f32; 4]>,
}

impl HazeRows {
    /// For those depths, without gathered light and with full transmission.
    pub(super) fn new(depths: &Depths) -> Self {
        let light = vec![[0.0, 0.0, 0.0, 1.0]; depths.depths.len()];
        Self { rows: depths.rows(), columns: depths.columns(), first: depths.first.clone(), light }
    }

    fn range(&self, row: u32, column: u32) -> Range<usize> {
        let n = (row - self.rows.start) as usize * self.columns as usize + column as usize;
        self.first[n] as usize..self.first[n + 1] as usize
    }

    /// The entries of a pixel, one a depth.
    pub fn pixel(&self, row: u32, column: u32) -> &[[f32; 4]] {
        &self.light[self.range(row, column)]
    }

    /// The entries of a pixel, to be filled.
    pub fn pixel_mut(&mut self, row: u32, column: u32) -> &mut [[f32; 4]] {
        let range = self.range(row, column);
        &mut self.light[range]
    }

    /// Largest number of depths of a pixel.
    pub fn most(&self) -> usize {
        self.first.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0) as usize
    }

    /// Calls `each` for all pixels with more than `depth` depths, with the pixel's number, row by row, and its entry
    /// for that depth.
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
