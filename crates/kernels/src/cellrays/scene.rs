//! Scenes prepared for rays: cameras become rays.

use super::appearance::{CellAppearance, PreparedLook};
use crate::draw::Camera;
use crate::rays::{SceneError, View, MOST_SOURCES};
use field::simd::V4;
use glam::DVec3;
use std::sync::Arc;

/// A picture of fields of zones. Lengths are in the unit of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRaySetting {
    /// The camera.
    pub camera: Camera,
    /// Width and height in pixels.
    pub size: [u32; 2],
    /// The longest step along rays.
    pub longest: f64,
    /// Most halvings of a step, up to `MOST_HALVINGS`.
    pub halvings: u8,
    /// Least steps in the length of a cell, as far as halvings allow.
    pub samples: f64,
    /// Numbers of the zones with the fields, in the order of search. None of them is one point thick.
    pub zones: Vec<u32>,
}

/// Bound of halvings: places along a ray stay integers.
pub const MOST_HALVINGS: u8 = 20;

/// A prepared scene.
pub struct CellScene {
    pub(super) setting: CellRaySetting,
    view: View,
    pub(super) looks: Vec<PreparedLook>,
    /// Some pixels are known only at the ends of rays.
    pub(super) projects: bool,
    /// The shortest step.
    pub(super) shortest: f64,
}

/// A ray in space: points are `o + t d`, `d` has length 1.
#[derive(Copy, Clone, Debug)]
pub(super) struct Ray {
    pub o: [f64; 3],
    pub d: [f64; 3],
    /// Begin and end. The begin is behind the end if the ray meets no scene.
    pub low: f64,
    pub high: f64,
}

impl Ray {
    /// A ray that meets no scene.
    pub const NONE: Self = Self { o: [0.0; 3], d: [0.0, 0.0, 1.0], low: f64::INFINITY, high: f64::NEG_INFINITY };

    #[inline(always)]
    pub fn at(&self, t: f64) -> V4 {
        let c = |n: usize| t.mul_add(self.d[n], self.o[n]);
        V4::new(c(0), c(1), c(2), 0.0)
    }

    /// Its part between two ends along each axis, with a margin for rounding. `None` if there is none.
    #[inline]
    pub fn within(&self, low: [f64; 3], high: [f64; 3]) -> Option<[f64; 2]> {
        let (mut from, mut to) = (f64::NEG_INFINITY, f64::INFINITY);
        for a in 0..3 {
            let (o, d) = (self.o[a], self.d[a]);
            if d == 0.0 {
                if !(o >= low[a] && o <= high[a]) {
                    return None;
                }
                continue;
            }
            let (x, y) = ((low[a] - o) / d, (high[a] - o) / d);
            (from, to) = (from.max(x.min(y)), to.min(x.max(y)));
        }
        (from <= to).then_some([from, to])
    }

    /// Cuts the ray to a part.
    pub fn cut(&mut self, part: Option<[f64; 2]>) {
        let [low, high] = part.unwrap_or([f64::INFINITY, f64::NEG_INFINITY]);
        (self.low, self.high) = (self.low.max(low), self.high.min(high));
    }
}

impl CellScene {
    /// Prepares a picture.
    ///
    /// # Errors
    /// [`SceneError`].
    pub fn new(setting: CellRaySetting, looks: Vec<CellAppearance>) -> Result<Arc<Self>, SceneError> {
        let view = View::new(&setting.camera, setting.size)?;
        let lengths =
            [(setting.longest, "the length of steps along rays"), (setting.samples, "the number of samples in a cell")];
        if let Some((_, what)) = lengths.into_iter().find(|(v, _)| !(*v > 0.0 && v.is_finite())) {
            return Err(SceneError::Length(what));
        }
        if looks.len() > MOST_SOURCES {
            return Err(SceneError::Many(looks.len()));
        }
        let looks = looks.into_iter().map(PreparedLook::new).collect::<Result<Vec<_>, _>>()?;
        let projects = looks.iter().any(PreparedLook::projects);
        let halvings = setting.halvings.min(MOST_HALVINGS);
        let shortest = setting.longest / (1u64 << halvings) as f64;
        Ok(Arc::new(Self { setting: CellRaySetting { halvings, ..setting }, view, looks, projects, shortest }))
    }

    /// Width and height in pixels.
    pub fn size(&self) -> [u32; 2] {
        self.setting.size
    }

    /// Bytes held beside the setting.
    pub fn bytes(&self) -> usize {
        self.looks.iter().map(PreparedLook::bytes).sum()
    }

    /// The ray of a pixel, as long as any field may be visible along it.
    pub(super) fn ray(&self, x: u32, y: u32) -> Ray {
        let (o, d) = self.view.ray(f64::from(x) + 0.5, f64::from(y) + 0.5);
        let low = if self.view.parallel() { f64::NEG_INFINITY } else { 0.0 };
        let mut ray = Ray { o: o.to_array(), d: d.to_array(), low, high: f64::INFINITY };
        let parts = self.looks.iter().map(|look| look.part(&ray)).filter(|[low, high]| low < high);
        let all = parts.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
        ray.cut(all);
        ray
    }

    /// The depths along the line of sight between which a pixel's ray may meet shown cells inside a box. `None` if it
    /// misses the box.
    pub fn depths(&self, x: u32, y: u32, [low, high]: [[f64; 3]; 2]) -> Option<[f64; 2]> {
        let mut ray = self.ray(x, y);
        ray.cut(ray.within(low, high));
        let cosine = DVec3::from_array(ray.d).dot(self.view.forward());
        (ray.low < ray.high).then(|| [ray.low, ray.high].map(|t| t * cosine))
    }

    /// A ray cut at a depth along the line of sight.
    pub(super) fn ending(&self, mut ray: Ray, depth: f64) -> Ray {
        let t = depth / DVec3::from_array(ray.d).dot(self.view.forward());
        ray.cut(Some([f64::NEG_INFINITY, if t.is_nan() { f64::NEG_INFINITY } else { t }]));
        ray
    }

    /// Halvings of a step in cells of this length.
    #[inline]
    pub(super) fn halvings(&self, cell: f64) -> u8 {
        let wanted = cell / self.setting.samples;
        let (mut n, mut step) = (0, self.setting.longest);
        while n < self.setting.halvings && step > wanted {
            (n, step) = (n + 1, 0.5 * step);
        }
        n
    }
}
