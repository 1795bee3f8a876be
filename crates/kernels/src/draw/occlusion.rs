//! Contact shadows: the share of the sky that a visible point sees, from a small picture of depth.
//!
//! # Theory
//! Screen-space ambient occlusion (Mittring 2007; the weighting is that of McGuire et al. 2011). Points around a pixel
//! that rise above the plane of its surface, near to it, reduce its light. The sampled points are rotated from pixel to
//! pixel in a pattern of 4 x 4. A mean over 4 x 4 pixels of the same surface then removes the pattern.
//!
//! # Practice
//! Depth and shadow are kept for the whole picture at a lower resolution, in memory that does not grow with the
//! picture. So a band needs none of its neighbours, and its pixels do not depend on the division into bands.

use super::band::{Lattice, EMPTY};
use super::projector::Projector;
use glam::Vec3;
use std::ops::Range;
use wide::f32x8;

/// Most pixels of the small picture. At 720 x 400 a contact shadow is some twenty pixels wide, and depth takes a
/// megabyte.
const MOST_PIXELS: f64 = 720.0 * 400.0;

/// Points sampled around each pixel.
const TAPS: usize = 20;

/// Radius of the neighbourhood as a share of the scene's radius.
const REACH: f32 = 0.10;

/// The whole picture at low resolution: depths, then the light that contact shadows leave.
#[derive(Clone, Debug)]
pub(crate) struct DepthMap {
    /// Groups of 4 x 2 pixels, row by row.
    depth: Vec<f32x8>,
    /// Light, 0..=255, a byte a pixel, row by row. Empty until it is computed.
    light: Vec<u8>,
    /// Groups across and down.
    pub groups: [u32; 2],
    /// Its pixels for one of the picture.
    pub factor: f32,
}

impl DepthMap {
    /// The empty map of a picture of `size` pixels.
    pub(crate) fn new(size: [u32; 2]) -> DepthMap {
        let [w, h] = size.map(|v| f64::from(v.max(1)));
        let factor = (MOST_PIXELS / (w * h)).sqrt().min(0.5);
        let groups = [((w * factor / 4.0).ceil() as u32).max(1), ((h * factor / 2.0).ceil() as u32).max(1)];
        DepthMap { depth: Vec::new(), light: Vec::new(), groups, factor: factor as f32 }
    }

    /// Most bytes of the map: depths twice while its parts are joined, light twice while it is smoothed.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.groups[0]) * u64::from(self.groups[1]) * (32 * 2 + 8 * 2)
    }

    pub(crate) fn lattice() -> Lattice {
        Lattice::plain()
    }

    /// Stores depths from row `first_row` of groups on.
    pub(crate) fn fill(&mut self, first_row: u32, depth: &[f32x8]) {
        self.depth.resize(self.groups[0] as usize * self.groups[1] as usize, f32x8::splat(EMPTY));
        let first = first_row as usize * self.groups[0] as usize;
        if let Some(held) = self.depth.get_mut(first..first + depth.len()) {
            held.copy_from_slice(depth);
        }
    }

    fn width(&self) -> usize {
        self.groups[0] as usize * 4
    }

    fn height(&self) -> usize {
        self.groups[1] as usize * 2
    }

    /// Depth of a pixel of the map; [`EMPTY`] outside.
    #[inline]
    fn at(&self, x: isize, y: isize) -> f32 {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return EMPTY };
        if x >= self.width() || y >= self.height() {
            return EMPTY;
        }
        self.depth[(y / 2) * self.groups[0] as usize + x / 4].as_array()[(y % 2) * 4 + x % 4]
    }

    /// View position of the visible point of a pixel.
    #[inline]
    fn place(&self, p: &Projector, x: isize, y: isize, depth: f32) -> Vec3 {
        let (a, b) = p.slopes((x as f32 + 0.5) / self.factor, (y as f32 + 0.5) / self.factor);
        p.at(a, b, depth)
    }

    /// Light of the rows of pixels of the rows of groups `rows`. All depths must be stored.
    pub(crate) fn contacts(&self, p: &Projector, rows: Range<u32>) -> Vec<u8> {
        let tiles: Vec<Vec<[f32; 2]>> = (0..16).map(|k| taps(std::f32::consts::TAU * k as f32 / 16.0)).collect();
        let (first, end) = (rows.start as isize * 2, rows.end as isize * 2);
        let mut out = Vec::with_capacity((end - first) as usize * self.width());
        for y in first..end {
            for x in 0..self.width() as isize {
                // A magic square of 4 x 4, so that neighbours are rotated by very different angles.
                const ORDER: [usize; 16] = [0, 7, 13, 10, 14, 9, 3, 4, 11, 12, 6, 1, 5, 2, 8, 15];
                let tile = &tiles[ORDER[(y as usize % 4) * 4 + x as usize % 4]];
                out.push((self.contact(p, x, y, tile) * 255.0).round() as u8);
            }
        }
        out
    }

    /// Slope of depth at a pixel along one direction, as the difference of view positions to the neighbour nearer in depth.
    fn slope(&self, p: &Projector, here: Vec3, x: isize, y: isize, dx: isize, dy: isize) -> Option<Vec3> {
        let side = |s: isize| {
            let depth = self.at(x + dx * s, y + dy * s);
            (depth != EMPTY).then(|| (self.place(p, x + dx * s, y + dy * s, depth) - here) * s as f32)
        };
        match (side(-1), side(1)) {
            (Some(a), Some(b)) => Some(if a.z.abs() < b.z.abs() { a } else { b }),
            (a, b) => a.or(b),
        }
    }

    fn contact(&self, p: &Projector, x: isize, y: isize, taps: &[[f32; 2]]) -> f32 {
        let depth = self.at(x, y);
        if depth == EMPTY {
            return 1.0;
        }
        let here = self.place(p, x, y, depth);
        let scale = p.scale_at(depth) * self.factor;
        // At least a few pixels of the map, which could not resolve less; bounded, so that contact stays visible.
        let reach_px = (REACH * scale).clamp(6.0, 36.0);
        let reach = reach_px / scale;
        let pixel = reach / reach_px;
        let slopes = self.slope(p, here, x, y, 1, 0).zip(self.slope(p, here, x, y, 0, 1));
        // A steeper neighbour belongs to another surface. The pixel then counts as a line, which faces the eye.
        let flat = slopes.filter(|(a, b)| a.z.abs().max(b.z.abs()) < 4.0 * pixel);
        let normal =
            flat.and_then(|(a, b)| a.cross(b).try_normalize()).map_or(Vec3::NEG_Z, |n| if n.z > 0.0 { -n } else { n });
        let mut sum = 0.0;
        for t in taps {
            let (tx, ty) = (x + (t[0] * reach_px).round() as isize, y + (t[1] * reach_px).round() as isize);
            let depth = self.at(tx, ty);
            if depth == EMPTY {
                continue;
            }
            let away = self.place(p, tx, ty, depth) - here;
            // Points within a pixel of the plane belong to the surface itself.
            let height = away.dot(normal) - pixel;
            if height > 0.0 {
                let square = away.length_squared();
                let near = (1.0 - square / (reach * reach * 4.0)).max(0.0);
                sum += height / square.sqrt().max(1e-12) * near * near;
            }
        }
        (1.0 - sum * (2.0 / taps.len() as f32)).clamp(0.0, 1.0)
    }

    /// Stores the light of all rows in order, and smooths it.
    pub(crate) fn take_light(&mut self, parts: &[Vec<u8>], p: &Projector) {
        let raw: Vec<u8> = parts.concat();
        let (w, h) = (self.width(), self.height());
        if raw.len() != w * h {
            return;
        }
        let mut out = Vec::with_capacity(raw.len());
        for y in 0..h as isize {
            for x in 0..w as isize {
                let depth = self.at(x, y);
                if depth == EMPTY {
                    out.push(255);
                    continue;
                }
                let near = 3.0 / (p.scale_at(depth) * self.factor);
                let (mut sum, mut n) = (0u32, 0u32);
                for dy in -2..2 {
                    for dx in -2..2 {
                        let (tx, ty) = (x + dx, y + dy);
                        // Written so that an empty pixel, infinitely far, is left out.
                        if (self.at(tx, ty) - depth).abs() < near {
                            sum += u32::from(raw[ty as usize * w + tx as usize]);
                            n += 1;
                        }
                    }
                }
                out.push(((sum + n / 2) / n.max(1)) as u8);
            }
        }
        self.light = out;
    }

    /// Share of light, 0..=1, at the visible point at pixel position (u, v) of the picture and a depth.
    #[inline]
    pub(crate) fn light(&self, p: &Projector, u: f32, v: f32, depth: f32) -> f32 {
        if self.light.is_empty() {
            return 1.0;
        }
        let (x, y) = (u * self.factor - 0.5, v * self.factor - 0.5);
        let (fx, fy) = (x - x.floor(), y - y.floor());
        let (x, y) = (x.floor() as isize, y.floor() as isize);
        let grain = 2.0 / (p.scale_at(depth) * self.factor);
        let (mut sum, mut weight) = (0.0, 1e-6);
        for (dx, dy, w) in
            [(0, 0, (1.0 - fx) * (1.0 - fy)), (1, 0, fx * (1.0 - fy)), (0, 1, (1.0 - fx) * fy), (1, 1, fx * fy)]
        {
            let there = self.at(x + dx, y + dy);
            if there == EMPTY {
                continue;
            }
            // Pixels of the map that show another surface are irrelevant.
            let off = (there - depth) / grain;
            let w = (w + 0.01) / (1.0 + off * off * off * off);
            sum += w * f32::from(self.light[(y + dy) as usize * self.width() + (x + dx) as usize]);
            weight += w;
        }
        // A surface too thin for the map is in the light.
        ((sum + 1e-6 * 255.0) / (weight * 255.0)).min(1.0)
    }
}

/// Places around a pixel in units of the radius, rotated by an angle: Vogel's spiral, which is even over the disc in
/// all directions.
fn taps(turn: f32) -> Vec<[f32; 2]> {
    (0..TAPS)
        .map(|i| {
            let (r, a) = (((i as f32 + 0.5) / TAPS as f32).sqrt(), turn + i as f32 * 2.399_963_2);
            [r * a.cos(), r * a.sin()]
        })
        .collect()
}
