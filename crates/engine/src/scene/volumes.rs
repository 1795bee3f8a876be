//! Volumes in scenes: where they are, and their rays between the surfaces of a picture.

use super::maps::Settled;
use super::objects::VolumeLook;
use crate::picture::{Aabb, Camera, Depths, GeometryError, Haze, HazeRows, Lens, MOST_SAMPLES};
use crate::raycast::{cast_until, CastOptions};
use crate::session::Waited;
use field::error::FieldError;
use field::volume::{Placement, Volume, VolumeLevel};
use glam::DVec3;
use kernels::rays::{self, Clip, Look, Paint, TransferFunction};
use pager::Pager;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// Opacity at the upper end of a range whose opacity nobody has said.
const PLAIN_OPACITY: f32 = 0.6;
/// Parts of a volume's diagonal that are the length to which opacities belong.
const UNITS: f64 = 100.0;

/// Positions of the eight corners of a level: centres of its outermost voxels.
pub(crate) fn corners(level: &VolumeLevel) -> [DVec3; 8] {
    std::array::from_fn(|c| {
        let at = std::array::from_fn(|a| if c >> a & 1 == 1 { f64::from(level.dims[a]) - 1.0 } else { 0.0 });
        DVec3::from_array(level.placement.position(at))
    })
}

/// The box of a volume.
pub(crate) fn bounds(volume: &Volume) -> Aabb {
    volume.levels.first().map_or(Aabb::EMPTY, |level| Aabb::of(corners(level)))
}

/// The twelve edges of a volume, each its two ends.
pub(crate) fn edges(volume: &Volume) -> Vec<[[f64; 3]; 2]> {
    let Some(level) = volume.levels.first() else { return Vec::new() };
    let all = corners(level);
    let pairs = (0..8usize).flat_map(|c| (0..3).map(move |a| (c, c | 1 << a))).filter(|(a, b)| a != b);
    pairs.map(|(a, b)| [all[a].to_array(), all[b].to_array()]).filter(|[a, b]| a != b).collect()
}

/// Length of a pixel at the point of a volume that is nearest to the eye.
fn least_pixel(camera: &Camera, height: u32, bounds: &Aabb) -> f64 {
    let height = f64::from(height.max(1));
    match camera.lens {
        Lens::Orthographic { height: shown } => shown / height,
        Lens::Perspective { fov_degrees } => {
            let eye = DVec3::from_array(camera.position);
            let nearest = eye.clamp(bounds.min, bounds.max);
            2.0 * eye.distance(nearest) * (fov_degrees.to_radians() * 0.5).tan() / height
        }
    }
}

/// The coarsest level whose voxels are no larger than pixels, or the finest.
pub(crate) fn level_for(volume: &Volume, camera: &Camera, height: u32) -> usize {
    let pixel = least_pixel(camera, height, &bounds(volume));
    let largest = |p: &Placement| p.spacing().into_iter().fold(0.0, f64::max);
    volume.levels.iter().rposition(|l| largest(&l.placement) <= pixel * (1.0 + 1e-9)).unwrap_or(0)
}

/// The rays of a picture's volumes.
pub(crate) struct Fog<'a> {
    waited: &'a Waited,
    pager: Arc<Pager>,
    workers: usize,
    looks: Vec<Look>,
    bounds: Aabb,
    /// Length of a step along rays, and the length to which opacities belong.
    lengths: [f64; 2],
    /// Pixels that lack something.
    gaps: AtomicU64,
}

impl<'a> Fog<'a> {
    /// The volume as some objects show it at a time step.
    ///
    /// # Errors
    /// [`FieldError`]: channels, levels that there are not; functions that make no sense.
    #[allow(clippy::too_many_arguments)] // what a picture is made of
    pub(crate) fn new(
        pager: &Arc<Pager>,
        workers: usize,
        volume: &Volume,
        waited: &'a Waited,
        objects: &[&VolumeLook],
        maps: &[Settled],
        step: usize,
        camera: &Camera,
        height: u32,
    ) -> Result<Self, FieldError> {
        let mut looks = Vec::with_capacity(objects.len());
        let all = bounds(volume);
        let (mut dt, mut unit) = (f64::INFINITY, all.extent().length() / UNITS);
        for object in objects {
            let number = match object.level {
                None => level_for(volume, camera, height),
                Some(n) if n < volume.levels.len() => n,
                Some(n) => {
                    return Err(FieldError::Usage(format!(
                        "there is no level {n}; {} has {}, counted from 0",
                        volume.spec.path,
                        volume.levels.len()
                    )))
                }
            };
            let level = volume.levels[number].clone();
            if let Some(axis) = level.dims.iter().position(|n| *n < 2) {
                return Err(FieldError::Usage(format!(
                    "{}: at level {number} it is one voxel thick along {}, and rays need two; read it as an array instead",
                    volume.spec.path,
                    ["i", "j", "k"][axis]
                )));
            }
            let least = level.placement.spacing().into_iter().fold(f64::INFINITY, f64::min);
            dt = dt.min(least / object.samples);
            unit = object.unit.unwrap_or(unit);
            let finest = &volume.levels[0];
            let clip = Clip {
                planes: object.planes.iter().map(|[n, o]| (*n, (0..3).map(|a| n[a] * o[a]).sum())).collect(),
                within: object.within,
                voxels: voxels(object, finest, &level),
            };
            looks.push(Look { paint: paint(volume, object, maps)?, level, step: step as u32, clip });
        }
        Ok(Self {
            waited,
            pager: pager.clone(),
            workers,
            looks,
            bounds: all,
            lengths: [dt, unit],
            gaps: AtomicU64::new(0),
        })
    }

    /// Pixels in which something is missing, since pages could not be had.
    pub(crate) fn gaps(&self) -> u64 {
        self.gaps.load(Relaxed)
    }
}

/// Ranges of voxels of the finest level as ranges of those of another.
fn voxels(object: &VolumeLook, finest: &VolumeLevel, level: &VolumeLevel) -> Option<[[f64; 2]; 3]> {
    object.voxels.iter().any(Option::is_some).then(|| {
        std::array::from_fn(|a| {
            let last = f64::from(finest.dims[a]) - 1.0;
            let [low, high] = object.voxels[a].map_or([0.0, last], |e| e.map(f64::from));
            let scale = finest.placement.spacing()[a] / level.placement.spacing()[a];
            // Of the two grids along this axis: whole numbers are centres, and levels are shifted against each other.
            let shift: f64 = (0..3)
                .map(|c| {
                    (finest.placement.origin[c] - level.placement.origin[c]) * level.placement.axes[a][c]
                        / level.placement.spacing()[a].powi(2)
                })
                .sum();
            [low * scale + shift, high * scale + shift]
        })
    })
}

/// How a channel's stored numbers are seen.
fn paint(volume: &Volume, look: &VolumeLook, maps: &[Settled]) -> Result<Paint, FieldError> {
    let channel = match &look.field {
        Some(name) => volume.channel_named(name)?,
        None => 0,
    };
    let map = look.paint.map.as_ref().and_then(|name| maps.iter().find(|m| m.name == *name));
    let (range, colours): ([f64; 2], Vec<(f64, [f32; 3])>) = match map {
        Some(m) => {
            let [low, high] = m.range;
            let last = (m.lut.len() - 1).max(1) as f64;
            let node =
                |(n, c): (usize, &[u8; 3])| (low + (high - low) * n as f64 / last, c.map(|v| f32::from(v) / 255.0));
            (m.range, m.lut.iter().enumerate().map(node).collect())
        }
        None => ([0.0, 1.0], vec![(0.0, look.paint.rgb.map(|v| f32::from(v) / 255.0))]),
    };
    let opacities = match &look.opacities[..] {
        [] => vec![(range[0], 0.0), (range[1], PLAIN_OPACITY)],
        given => given.to_vec(),
    };
    let transfer = TransferFunction::new(colours, opacities).map_err(|e| FieldError::Usage(e.to_string()))?;
    let transfer = match volume.spec.channels[channel].scale {
        Some(scale) => transfer.stored(scale),
        None => transfer,
    };
    Ok(Paint::Scalar { channel, transfer })
}

impl Haze for Fog<'_> {
    fn bounds(&self) -> Aabb {
        self.bounds
    }

    fn cast(
        &self,
        camera: &Camera,
        size: [u32; 2],
        depths: &Depths<'_>,
        light: &mut HazeRows,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), GeometryError> {
        let [dt, unit] = self.lengths;
        let setting = rays::Setting { camera: *camera, size, dt, unit, skip: true };
        let scene = rays::Scene::new(setting, self.looks.clone())?;
        let options = CastOptions { workers: self.workers, rows: Some(depths.rows()) };
        let (rows, columns) = (depths.rows(), depths.columns());
        let most = rows.clone().flat_map(|row| (0..columns).map(move |column| (row, column)));
        let most = most.map(|(row, column)| light.pixel(row, column).len()).max().unwrap_or(0);
        // Samples of a pixel that lie at different depths, at edges, take a ray each; most pixels have one depth.
        for pass in 0..most {
            let depth = |x: u32, y: u32| {
                let mut each = [0.0; MOST_SAMPLES];
                let n = depths.of(y, x, &mut each);
                each[..n].get(pass).map_or(f64::NEG_INFINITY, |d| f64::from(*d))
            };
            let image = cast_until(&self.pager, &scene, &options, Some(&depth), &mut |_, _| go_on())?;
            self.waited.add(image.stats.wait_s);
            if pass == 0 {
                self.gaps.fetch_add(image.gap_count(), Relaxed);
            }
            let mut pixels = image.rgba.iter();
            for row in rows.clone() {
                for column in 0..columns {
                    let Some([r, g, b, a]) = pixels.next() else { return Ok(()) };
                    if let Some(to) = light.pixel_mut(row, column).get_mut(pass) {
                        *to = [*r, *g, *b, 1.0 - a];
                    }
                }
            }
        }
        Ok(())
    }
}
