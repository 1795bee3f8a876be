//! The sample buffer of a band: the nearest point at every sample, before light.
//!
//! # Theory
//! Visibility is found at eight or sixteen fixed places in each pixel (Akeley's multisampling). Light is computed for
//! visible points only (deferred shading). The samples of a pixel are adjacent in memory. One vector register holds
//! their depths, and a primitive is tested against all of them at once.
//!
//! # Practice
//! A *cell* is the unit of loops. Here it is one pixel with its samples, and in the small depth picture for occlusion 4
//! x 2 whole pixels. Rows, columns and depths are those of the whole picture, never of the band, and every test uses
//! one sample alone. So a sample is the same to the bit in any band, thread and order.

use glam::Vec3;
use serde::{Deserialize, Serialize};
use wide::f32x8;

/// Depth of an empty sample.
pub(crate) const EMPTY: f32 = f32::INFINITY;

/// Number of samples of each pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Samples {
    /// Eight: the default.
    #[default]
    Eight,
    /// Sixteen: twice as many steps at edges, for twice the time and memory.
    Sixteen,
}

/// Sixteenths of a pixel from its middle. Each column and row of the 16 x 16 raster is used at most once (rooks that do
/// not attack each other). So near-horizontal and near-vertical edges get every step.
const EIGHT: [(i8, i8); 8] = [(1, -3), (-1, 3), (5, 1), (-3, -5), (-5, 5), (-7, -1), (3, 7), (7, -7)];
const SIXTEEN: [(i8, i8); 16] = [
    (1, 1),
    (-1, -3),
    (-3, 2),
    (4, -1),
    (-5, -2),
    (2, 5),
    (5, 3),
    (3, -5),
    (-2, 6),
    (0, -7),
    (-4, -6),
    (-6, 4),
    (-8, 0),
    (7, -4),
    (6, 7),
    (-7, -8),
];

/// The places of the samples of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Lattice {
    /// Pixels a cell, across and down.
    pub cell: [u32; 2],
    /// Sample positions in pixels from the cell's upper left corner, eight at a time.
    pub groups: Vec<(f32x8, f32x8)>,
}

impl Lattice {
    pub(crate) fn pixels(samples: Samples) -> Lattice {
        let places: &[(i8, i8)] = match samples {
            Samples::Eight => &EIGHT,
            Samples::Sixteen => &SIXTEEN,
        };
        let place = |v: i8| 0.5 + f32::from(v) / 16.0;
        let eight =
            |from: usize, pick: fn((i8, i8)) -> i8| f32x8::from(std::array::from_fn(|k| place(pick(places[from + k]))));
        let groups = (0..places.len() / 8).map(|g| (eight(g * 8, |p| p.0), eight(g * 8, |p| p.1))).collect();
        Lattice { cell: [1, 1], groups }
    }

    /// One sample in the middle of each pixel.
    pub(crate) fn plain() -> Lattice {
        let x = std::array::from_fn(|i| (i % 4) as f32 + 0.5);
        let y = std::array::from_fn(|i| (i / 4) as f32 + 0.5);
        Lattice { cell: [4, 2], groups: vec![(f32x8::from(x), f32x8::from(y))] }
    }
}

/// The record of a visible point: material, sRGB colour and view-space normal in eight bytes.
///
/// The normal is stored by Lambert's equal-area projection of the sphere seen from the eye, 16 bits a coordinate. It is
/// exact for surfaces that face the eye. Its one hole is where no normal is visible.
pub(crate) fn key(material: u8, colour: [u8; 3], normal: Vec3) -> u64 {
    let k = (2.0 * (1.0 - normal.z)).max(1e-12).sqrt().recip();
    let pack = |v: f32| ((v * k * 32767.0).round().clamp(-32767.0, 32767.0) as i16) as u16;
    u64::from(material) << 56
        | u64::from(colour[0]) << 48
        | u64::from(colour[1]) << 40
        | u64::from(colour[2]) << 32
        | u64::from(pack(normal.x)) << 16
        | u64::from(pack(normal.y))
}

pub(crate) fn material_of(key: u64) -> u8 {
    (key >> 56) as u8
}

pub(crate) fn colour_of(key: u64) -> [u8; 3] {
    [(key >> 48) as u8, (key >> 40) as u8, (key >> 32) as u8]
}

pub(crate) fn normal_of(key: u64) -> Vec3 {
    let unpack = |v: u64| f32::from(v as u16 as i16) * (1.0 / 32767.0);
    let (x, y) = (unpack(key >> 16), unpack(key));
    let square = (x * x + y * y).min(1.0);
    let k = 2.0 * (1.0 - square).sqrt();
    Vec3::new(x * k, y * k, 2.0 * square - 1.0)
}

/// The cells of a target.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    /// First row of cells.
    pub first_row: u32,
    /// Rows of cells.
    pub rows: u32,
    /// Columns of cells; always the whole width.
    pub columns: u32,
    pub lattice: Lattice,
}

impl Area {
    /// Index of the first group of a cell; the row is one of the whole picture.
    #[inline]
    pub(crate) fn index(&self, row: u32, column: u32) -> usize {
        ((row - self.first_row) as usize * self.columns as usize + column as usize) * self.lattice.groups.len()
    }

    pub(crate) fn groups(&self) -> usize {
        self.rows as usize * self.columns as usize * self.lattice.groups.len()
    }

    /// Rows of cells that the pixel rows `low..=high` touch, cut to the area.
    #[inline]
    pub(crate) fn row_range(&self, low: f32, high: f32) -> std::ops::Range<u32> {
        clip(low, high, self.lattice.cell[1], self.first_row, self.first_row + self.rows)
    }

    /// Columns of cells that the pixel columns `low..=high` touch.
    #[inline]
    pub(crate) fn column_range(&self, low: f32, high: f32) -> std::ops::Range<u32> {
        clip(low, high, self.lattice.cell[0], 0, self.columns)
    }

    pub(crate) fn pixel_rows(&self) -> [f32; 2] {
        let h = self.lattice.cell[1];
        [(self.first_row * h) as f32, ((self.first_row + self.rows) * h) as f32]
    }
}

#[inline]
fn clip(low: f32, high: f32, step: u32, first: u32, end: u32) -> std::ops::Range<u32> {
    // `max` turns NaN into a bound, and the casts saturate, so no position leaves the range.
    let low = ((low / step as f32).floor().max(first as f32) as u32).min(end);
    let high = (high / step as f32).floor();
    if !(high >= low as f32) {
        return 0..0;
    }
    low..((high as u32).saturating_add(1)).min(end)
}

/// A target of primitives.
pub(crate) trait DrawTarget {
    fn area(&self) -> &Area;

    /// Bits of the lanes of group `index` where `depth` would be visible, or ties with the present depth.
    fn visible(&self, index: usize, depth: f32x8) -> u32;

    /// Stores a visible point; `key` is called only if it is kept.
    fn put(&mut self, index: usize, lane: usize, depth: f32, key: impl FnOnce() -> u64);
}

/// The nearest point at every sample.
pub(crate) struct Band {
    area: Area,
    pub depth: Vec<f32x8>,
    pub keys: Vec<[u64; 8]>,
}

/// Bytes of a group of eight samples in a [`Band`].
pub(crate) const BAND_GROUP_BYTES: usize = 32 + 64;

impl Band {
    pub(crate) fn new(area: Area) -> Band {
        let n = area.groups();
        Band { area, depth: vec![f32x8::splat(EMPTY); n], keys: vec![[0; 8]; n] }
    }

    /// Makes this the empty band at another place, of the same or a smaller number of rows.
    pub(crate) fn reset(&mut self, first_row: u32, rows: u32) {
        self.area.first_row = first_row;
        self.area.rows = rows;
        let n = self.area.groups();
        self.depth.clear();
        self.depth.resize(n, f32x8::splat(EMPTY));
        // Keys of empty samples are never read, so only the length matters.
        self.keys.resize(n, [0; 8]);
    }
}

impl DrawTarget for Band {
    fn area(&self) -> &Area {
        &self.area
    }

    #[inline]
    fn visible(&self, index: usize, depth: f32x8) -> u32 {
        depth.simd_le(self.depth[index]).to_bitmask()
    }

    #[inline]
    fn put(&mut self, index: usize, lane: usize, depth: f32, key: impl FnOnce() -> u64) {
        let key = key();
        let held = &mut self.depth[index].as_mut_array()[lane];
        let held_key = &mut self.keys[index][lane];
        // At equal depth the smaller key wins, so that the order of drawing does not matter.
        if depth < *held || key < *held_key {
            *held = depth;
            *held_key = key;
        }
    }
}

/// Depth alone.
pub(crate) struct DepthOnly<'a> {
    pub area: Area,
    pub depth: &'a mut [f32x8],
}

impl DrawTarget for DepthOnly<'_> {
    fn area(&self) -> &Area {
        &self.area
    }

    #[inline]
    fn visible(&self, index: usize, depth: f32x8) -> u32 {
        depth.simd_lt(self.depth[index]).to_bitmask()
    }

    #[inline]
    fn put(&mut self, index: usize, lane: usize, depth: f32, _key: impl FnOnce() -> u64) {
        self.depth[index].as_mut_array()[lane] = depth;
    }
}

/// The nearest point behind `floor` and in front of `ceiling` at every sample: one peel of the transparent layers.
pub(crate) struct Peel<'a> {
    pub band: &'a mut Band,
    /// Depths of the last peel.
    pub floor: &'a [f32x8],
    /// Depths of opaque points.
    pub ceiling: &'a [f32x8],
}

impl DrawTarget for Peel<'_> {
    fn area(&self) -> &Area {
        &self.band.area
    }

    #[inline]
    fn visible(&self, index: usize, depth: f32x8) -> u32 {
        (depth.simd_le(self.band.depth[index]) & depth.simd_lt(self.ceiling[index]) & self.floor[index].simd_lt(depth))
            .to_bitmask()
    }

    #[inline]
    fn put(&mut self, index: usize, lane: usize, depth: f32, key: impl FnOnce() -> u64) {
        self.band.put(index, lane, depth, key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_what_it_was_made_of() {
        for i in 0..200 {
            let (a, z) = (i as f32 * 0.7, -1.0 + i as f32 * 0.0095);
            let r = (1.0 - z * z).sqrt();
            let n = Vec3::new(r * a.cos(), r * a.sin(), z);
            let k = key(7, [1, 2, 250], n);
            assert_eq!((material_of(k), colour_of(k)), (7, [1, 2, 250]));
            assert!((normal_of(k) - n).length() < 2e-4, "{n} {}", normal_of(k));
        }
        assert_eq!(normal_of(key(0, [0; 3], Vec3::NEG_Z)), Vec3::NEG_Z);
    }

    #[test]
    fn samples_are_spread_evenly() {
        for samples in [Samples::Eight, Samples::Sixteen] {
            let lattice = Lattice::pixels(samples);
            let n = (lattice.groups.len() * 8) as f32;
            let mean = |pick: fn(&(f32x8, f32x8)) -> f32x8| {
                lattice.groups.iter().map(|g| pick(g).reduce_add()).sum::<f32>() / n
            };
            assert!((mean(|g| g.0) - 0.5).abs() < 0.04 && (mean(|g| g.1) - 0.5).abs() < 0.04);
        }
    }

    #[test]
    fn ranges_survive_any_number() {
        let area = Area { first_row: 10, rows: 5, columns: 8, lattice: Lattice::pixels(Samples::Eight) };
        assert_eq!(area.row_range(-5.0, 100.0), 10..15);
        assert_eq!(area.row_range(11.5, 12.5), 11..13);
        for (a, b) in [
            (f32::NAN, f32::NAN),
            (0.0, 9.99),
            (15.0, 20.0),
            (f32::INFINITY, f32::INFINITY),
            (3.0, f32::NAN),
            (-9.0, -3.0),
        ] {
            assert!(area.row_range(a, b).is_empty(), "{a} {b}");
        }
        assert_eq!(area.column_range(f32::NEG_INFINITY, f32::INFINITY), 0..8);
    }

    #[test]
    fn ties_do_not_depend_on_order() {
        let area = Area { first_row: 0, rows: 1, columns: 1, lattice: Lattice::pixels(Samples::Eight) };
        let (a, b) = (key(1, [9, 9, 9], Vec3::NEG_Z), key(1, [8, 9, 9], Vec3::NEG_Z));
        for order in [[a, b], [b, a]] {
            let mut band = Band::new(area.clone());
            for k in order {
                assert_eq!(band.visible(0, f32x8::splat(1.0)), 255);
                band.put(0, 3, 1.0, || k);
            }
            assert_eq!(band.keys[0][3], b);
        }
    }
}
