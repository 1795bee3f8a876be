//! Scenes prepared for rays: cameras become rays, and transfer functions tables.

use super::appearance::{Manner, Projection, VolumeAppearance, MOST_SOURCES};
use super::colour_rules::{tint, Tint};
use super::lanes::I4;
use super::ray::{Ray, RayPosition, VoxelRay, LONGEST_STEP};
use super::sample::SampledVoxel;
use super::scene_error::SceneError;
use super::shade::Lamps;
use super::source::{largest_page, RaySource};
use super::transfer::TransferTable;
use super::view::View;
use crate::draw::Camera;
use field::volume::{Placement, VolumeArray, VoxelType};
use glam::{DMat3, DVec3, Vec3};
use std::sync::Arc;

/// A picture of volumes.
#[derive(Clone, Debug, PartialEq)]
pub struct RaySetting {
    /// The camera.
    pub camera: Camera,
    /// Width and height in pixels.
    pub size: [u32; 2],
    /// Length from a sample to the next.
    pub dt: f64,
    /// The length to which opacities of transfer functions refer.
    pub unit: f64,
    /// Skips invisible parts without reading them. The picture is the same without it.
    pub skip: bool,
}

/// Affine map from space to voxel indices.
#[derive(Copy, Clone, Debug)]
struct Inverse {
    matrix: DMat3,
    origin: DVec3,
}

impl Inverse {
    fn of(p: &Placement) -> Option<Self> {
        let m = DMat3::from_cols_array_2d(&p.axes);
        let inverse = m.inverse();
        inverse.is_finite().then(|| Self { matrix: inverse, origin: DVec3::from_array(p.origin) })
    }
    fn point(&self, x: DVec3) -> DVec3 {
        self.matrix * (x - self.origin)
    }
}

/// A prepared scene.
pub struct Scene {
    pub(crate) setting: RaySetting,
    pub(crate) sources: Vec<RaySource>,
    view: View,
    looks: Vec<VolumeAppearance>,
    inverses: Vec<Inverse>,
}

impl Scene {
    /// Prepares appearances for a picture.
    ///
    /// # Errors
    /// [`SceneError`].
    pub fn new(setting: RaySetting, looks: Vec<VolumeAppearance>) -> Result<Arc<Self>, SceneError> {
        let view = View::new(&setting.camera, setting.size)?;
        if !(setting.dt > 0.0 && setting.dt.is_finite()) {
            return Err(SceneError::Length("the length of steps along rays"));
        }
        if !(setting.unit > 0.0 && setting.unit.is_finite()) {
            return Err(SceneError::Length("the unit of length of opacities"));
        }
        let (mut sources, mut inverses) = (Vec::new(), Vec::new());
        for (n, look) in looks.iter().enumerate() {
            inverses.push(Inverse::of(&look.level.placement).ok_or(SceneError::Flat)?);
            let spacing = look.level.placement.spacing();
            let least = spacing.into_iter().fold(f64::INFINITY, f64::min);
            if setting.dt > least * LONGEST_STEP {
                return Err(SceneError::LongSteps { dt: setting.dt, most: least * LONGEST_STEP });
            }
            if let Some(long) = look.level.dims.into_iter().find(|n| *n > 1 << 30) {
                return Err(SceneError::Long(long));
            }
            sources.push(source(&setting, look, n, &inverses[n])?);
        }
        if sources.len() > MOST_SOURCES {
            return Err(SceneError::Many(sources.len()));
        }
        Ok(Arc::new(Self { setting, sources, view, looks, inverses }))
    }

    /// Whether it is a single channel through a transfer function, which has its own implementation.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(&self.sources[..], [s] if s.is_plain())
    }

    /// Whether pixels are the largest or mean value of one channel.
    pub(crate) fn is_projected(&self) -> bool {
        matches!(&self.sources[..], [s] if s.is_projected())
    }

    /// Whether some pixels are known only at the ends of rays.
    pub fn projects(&self) -> bool {
        self.sources.iter().any(|s| matches!(s.projection, Projection::Maximum | Projection::Mean))
    }

    /// Whether some are means, which need more than the number so far.
    pub(super) fn sums(&self) -> bool {
        self.sources.iter().any(|s| s.projection == Projection::Mean)
    }

    /// Whether two sources are in the same place, as in one volume.
    pub(super) fn have_one_place(&self, a: &RaySource, b: &RaySource) -> bool {
        let [p, q] = [a, b].map(|s| &self.looks[s.look].level.placement);
        p == q
    }

    /// The line of sight through a place in the picture, in voxels of a source.
    pub(super) fn line(&self, source: &RaySource, x: f64, y: f64) -> VoxelRay {
        let inverse = &self.inverses[source.look];
        let (o, d) = self.view.ray(x, y);
        VoxelRay { origin: inverse.point(o).to_array(), step: (inverse.matrix * d).to_array() }
    }

    /// The ray of a pixel through a source.
    pub(crate) fn ray(&self, source: &RaySource, x: u32, y: u32) -> Ray {
        let look = &self.looks[source.look];
        let inverse = &self.inverses[source.look];
        let (o, d) = self.view.ray(f64::from(x) + 0.5, f64::from(y) + 0.5);
        let dt = self.setting.dt;
        let origin = inverse.point(o);
        let step = inverse.matrix * d * dt;
        let mut t = Interval { low: if self.view.parallel() { f64::NEG_INFINITY } else { 0.0 }, high: f64::INFINITY };
        for a in 0..3 {
            let mut ends = [0.0, f64::from(source.cells[a])];
            if let Some(v) = look.clip.voxels {
                ends = [ends[0].max(v[a][0]), ends[1].min(v[a][1])];
            }
            t.between(origin[a], step[a] / dt, ends);
        }
        if let Some([low, high]) = look.clip.within {
            (0..3).for_each(|a| t.between(o[a], d[a], [low[a], high[a]]));
        }
        for (normal, offset) in &look.clip.planes {
            let n = DVec3::from_array(*normal);
            t.between(n.dot(o), n.dot(d), [*offset, f64::INFINITY]);
        }
        if !(t.low < t.high) {
            return Ray::NONE;
        }
        let (begin, end) = (RayPosition::of(t.low / dt), RayPosition::of(t.high / dt));
        if begin.n == end.n {
            // No sample is in so short a part: one is put in its middle.
            let (middle, length) = ((t.low + t.high) / (2.0 * dt), (t.high - t.low) / dt);
            let n = (middle - 0.5).round().clamp(-9e15, 9e15);
            let (origin, n) = (origin + step * (middle - 0.5 - n), n as i64);
            let ends = [((length - 1.0) * 0.5).clamp(-0.5, 0.5) as f32; 2];
            return Ray { origin: origin.to_array(), step: step.to_array(), first: n, last: n + 1, ends };
        }
        let ends = [-begin.beyond, end.beyond];
        Ray { origin: origin.to_array(), step: step.to_array(), first: begin.n, last: end.n, ends }
    }
}

impl Scene {
    /// For a pixel, from a depth along the line of sight to the place on its ray.
    pub(crate) fn place_of(&self, x: u32, y: u32) -> impl Fn(f64) -> RayPosition + '_ {
        let (_, d) = self.view.ray(f64::from(x) + 0.5, f64::from(y) + 0.5);
        let cosine = d.dot(self.view.forward());
        move |depth| {
            let t = depth / cosine;
            if t > 0.0 || self.view.parallel() && t > f64::NEG_INFINITY {
                RayPosition::of(t / self.setting.dt)
            } else {
                RayPosition::NONE
            }
        }
    }

    /// The depths along the line of sight between which a pixel's ray passes through the scene, to within a step.
    /// `None` if it misses it.
    pub fn depths(&self, x: u32, y: u32) -> Option<[f64; 2]> {
        let rays = self.sources.iter().map(|source| self.ray(source, x, y)).filter(|ray| ray.first < ray.last);
        let steps = rays.map(|ray| [ray.first, ray.last]).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])?;
        let (_, d) = self.view.ray(f64::from(x) + 0.5, f64::from(y) + 0.5);
        Some(steps.map(|n| n as f64 * self.setting.dt * d.dot(self.view.forward())))
    }

    /// A ray of a pixel, cut at a depth along the line of sight.
    pub(crate) fn ending(&self, ray: Ray, x: u32, y: u32, depth: f64) -> Ray {
        match self.place_of(x, y)(depth) {
            RayPosition::NONE => Ray::NONE,
            place => place.end(ray),
        }
    }
}

impl Scene {
    /// Unit direction along the ray of a pixel.
    pub(crate) fn forward(&self, x: u32, y: u32) -> Vec3 {
        self.view.ray(f64::from(x) + 0.5, f64::from(y) + 0.5).1.as_vec3()
    }
}

struct Interval {
    low: f64,
    high: f64,
}

impl Interval {
    /// Intersects the ray with `o + t d` between two ends.
    fn between(&mut self, o: f64, d: f64, [low, high]: [f64; 2]) {
        if d == 0.0 {
            if !(o >= low && o <= high) {
                self.high = f64::NEG_INFINITY;
            }
            return;
        }
        let (a, b) = ((low - o) / d, (high - o) / d);
        self.low = self.low.max(a.min(b));
        self.high = self.high.min(a.max(b));
    }
}

fn source(setting: &RaySetting, look: &VolumeAppearance, n: usize, inverse: &Inverse) -> Result<RaySource, SceneError> {
    let Manner { projection, nearest, shading, unit: length } = &look.manner;
    let made = tint(look)?;
    let array = made.array;
    let unit = match array.brick.voxel {
        _ if !matches!(made.tint, Tint::Plain) => 1.0,
        VoxelType::Uint8 => <u8 as SampledVoxel>::UNIT,
        VoxelType::Uint16 => <u16 as SampledVoxel>::UNIT,
        VoxelType::Int16 => <i16 as SampledVoxel>::UNIT,
        _ => 1.0,
    };
    let length = length.unwrap_or(setting.unit);
    if !(length > 0.0 && length.is_finite()) {
        return Err(SceneError::Length("the unit of length of opacities"));
    }
    // Opacities of a projection are those of the pixel.
    let ratio = if matches!(projection, Projection::Maximum | Projection::Mean) { 1.0 } else { setting.dt / length };
    let table = TransferTable::new(&made.transfer, ratio, unit);
    let maximum = *projection == Projection::Maximum;
    let plain = matches!(made.tint, Tint::Plain) && (maximum || *projection == Projection::Composite);
    let next_seen = (plain && array.brick.voxel == VoxelType::Uint8).then(|| {
        let mut next = Box::new([256u16; 256]);
        for v in 0..256usize {
            let shows = |high: f32| if maximum { table.shows_up_to(high) } else { table.shows(v as f32 * unit, high) };
            let seen = (v..256).find(|h| shows(*h as f32 * unit));
            next[v] = seen.map_or(256, |h| h as u16);
        }
        next
    });
    let page = array.brick.page.map(|n| n as i32);
    let [pi, pj, pk] = page;
    let c = array.brick.components as i32;
    Ok(RaySource {
        number: n as u32,
        component: made.component,
        step: if array.steady { 0 } else { look.step },
        cells: look.level.dims.map(|n| n.saturating_sub(1)),
        strides: [c, c * pi, c * pi * pj],
        unit,
        page,
        blocks: array.brick.blocks().map(|n| n as i32),
        blocks_align: (0..3).all(|a| {
            let page = array.brick.page[a];
            page.is_multiple_of(field::volume::BLOCK as u32) || page >= look.level.dims[a]
        }),
        inner: I4::new([pi - 1, pj - 1, pk - 1, 0]),
        table,
        next_seen,
        skip: setting.skip && *projection != Projection::Mean,
        nearest: *nearest || matches!(made.tint, Tint::Labels(_)),
        tint: made.tint,
        projection: *projection,
        lamps: shading.as_ref().map(Lamps::of),
        to_space: inverse.matrix.transpose(),
        look: n,
        array: array.clone(),
    })
}

impl Scene {
    /// Width and height in pixels.
    pub fn size(&self) -> [u32; 2] {
        self.setting.size
    }

    /// Bytes of the pages of all its sources.
    pub fn page_bytes(&self) -> u64 {
        let of = |s: &RaySource| {
            let pages = s.array.translation.pages.iter().fold(1u64, |n, pages| n.saturating_mul(u64::from(*pages)));
            pages.saturating_mul(s.array.brick.bytes() as u64)
        };
        self.sources.iter().map(of).fold(0, u64::saturating_add)
    }

    /// The arrays of its sources, each with its time step.
    pub fn arrays(&self) -> impl Iterator<Item = (&VolumeArray, u32)> {
        self.sources.iter().map(|source| (&source.array, source.step))
    }

    /// Bytes of the largest page of any source.
    pub fn largest_page(&self) -> usize {
        largest_page(&self.sources)
    }
}
