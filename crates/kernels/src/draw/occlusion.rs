//! Contact shadows: how much of the sky a visible point sees, from a small picture of depth.
//!
//! # Theory
//! Screen-space ambient occlusion (Mittring 2007; the weighting is that of McGuire et al. 2011): points around a pixel that rise above
//! the plane of its surface, near to it, take away light.
//!
//! # Practice
//! Depth is kept for the whole picture at a lower resolution, in memory that does not grow with the picture. So a band needs
//! nothing of its neighbours, and its pixels come out the same wherever the bands are cut.

use super::band::{Lattice, EMPTY};
use super::projector::Projector;
use glam::Vec3;
use wide::f32x8;

/// Most pixels of the small picture. At 640 x 360 a contact shadow is some twenty pixels wide, and the picture takes a megabyte.
const MOST_PIXELS: f64 = 640.0 * 400.0;

/// Points looked at around each pixel.
const TAPS: usize = 16;

/// Radius of the neighbourhood as a share of the scene's radius.
const REACH: f32 = 0.10;

/// Depths of the whole picture at low resolution.
#[derive(Clone, Debug)]
pub struct DepthMap {
    /// Groups of 4 x 2 pixels, row by row.
    pub(crate) depth: Vec<f32x8>,
    /// Groups across and down.
    pub(crate) groups: [u32; 2],
    /// Its pixels for one of the picture, across and down.
    pub(crate) factor: [f32; 2],
    taps: Vec<[f32; 2]>,
}

/// Groups of eight pixels of the small picture for a picture of `size`.
fn plan(size: [u32; 2]) -> ([u32; 2], f64) {
    let [w, h] = size.map(|v| f64::from(v.max(1)));
    let factor = (MOST_PIXELS / (w * h)).sqrt().min(0.5);
    let groups = [((w * factor / 4.0).ceil() as u32).max(1), ((h * factor / 2.0).ceil() as u32).max(1)];
    (groups, factor)
}

impl DepthMap {
    /// Bytes of the map for a picture of `size` pixels.
    pub fn bytes(size: [u32; 2]) -> u64 {
        let (groups, _) = plan(size);
        u64::from(groups[0]) * u64::from(groups[1]) * 32
    }

    /// An empty map for a picture of `size` pixels.
    pub fn new(size: [u32; 2]) -> DepthMap {
        let (groups, factor) = plan(size);
        // Vogel's spiral: even over the disc, with no direction that stands out.
        let taps = (0..TAPS)
            .map(|i| {
                let (r, a) = (((i as f32 + 0.5) / TAPS as f32).sqrt(), i as f32 * 2.399_963_2);
                [r * a.cos(), r * a.sin()]
            })
            .collect();
        let n = groups[0] as usize * groups[1] as usize;
        DepthMap { depth: vec![f32x8::splat(EMPTY); n], groups, factor: [factor as f32; 2], taps }
    }

    /// A map without its depths, for its measures.
    pub(crate) fn shape(size: [u32; 2]) -> DepthMap {
        let (groups, factor) = plan(size);
        DepthMap { depth: Vec::new(), groups, factor: [factor as f32; 2], taps: Vec::new() }
    }

    /// Rows of groups of the map of a picture.
    pub(crate) fn new_rows(size: [u32; 2]) -> u32 {
        plan(size).0[1]
    }

    pub(crate) fn lattice() -> Lattice {
        Lattice::plain()
    }

    #[inline]
    fn at(&self, x: f32, y: f32) -> Option<f32> {
        if !(x >= 0.0 && y >= 0.0) {
            return None;
        }
        let (x, y) = (x as usize, y as usize);
        let (gx, gy) = (x / 4, y / 2);
        if gx >= self.groups[0] as usize || gy >= self.groups[1] as usize {
            return None;
        }
        let depth = self.depth[gy * self.groups[0] as usize + gx].as_array()[(y % 2) * 4 + x % 4];
        (depth != EMPTY).then_some(depth)
    }

    /// Share of light, 0..=1, that reaches a point seen at the pixel position (u, v), with the unit normal `n`, at depth z.
    pub(crate) fn light(&self, p: &Projector, u: f32, v: f32, z: f32, n: Vec3, turn: (f32, f32)) -> f32 {
        let (a, b) = p.slopes(u, v);
        let here = p.at(a, b, z);
        let scale = p.scale_at(z);
        // Not narrower than a few pixels of the map, which could not resolve it, nor so wide that contact is lost.
        let reach_px = (REACH * scale * self.factor[0]).clamp(6.0, 40.0);
        let reach = reach_px / (scale * self.factor[0]);
        let (x, y) = (u * self.factor[0], v * self.factor[1]);
        let mut sum = 0.0;
        // One pixel of the map, in view units: what lies within it of the plane is the surface itself.
        let grain = 1.5 * reach / reach_px;
        for t in &self.taps {
            let (dx, dy) = (t[0] * turn.0 - t[1] * turn.1, t[0] * turn.1 + t[1] * turn.0);
            let (tx, ty) = ((x + dx * reach_px).floor(), (y + dy * reach_px).floor());
            let Some(depth) = self.at(tx, ty) else { continue };
            let (a, b) = p.slopes((tx + 0.5) / self.factor[0], (ty + 0.5) / self.factor[1]);
            let away = p.at(a, b, depth) - here;
            let square = away.length_squared();
            let height = away.dot(n) - grain;
            let near = (1.0 - square / (reach * reach * 4.0)).max(0.0);
            if height > 0.0 {
                sum += height / square.sqrt().max(1e-12) * near * near;
            }
        }
        (1.0 - sum * (2.2 / TAPS as f32)).clamp(0.0, 1.0)
    }
}
