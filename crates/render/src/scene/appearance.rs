//! Appearance of volumes: from objects of a scene to the input of rays.

use super::colour_maps::RangedMap;
use super::objects::{ColourBy, VolumeLook, VolumeTint};
use super::volumes::bounds;
use crate::picture::{Aabb, Camera, Lens, Lighting};
use field::error::FieldError;
use field::volume::{Volume, VolumeLevel};
use glam::DVec3;
use kernels::rays::{
    full_range, Clip, ColourOpacity, Manner, Projection, Shading, TransferFunction, VolumeAppearance, VoxelPaint,
};
use runtime::gridface::AXES;

/// Default opacity at the upper end of a range.
pub(super) const PLAIN_OPACITY: f32 = 0.6;

/// Largest voxels of an automatic level, in pixels. In the volume's middle, the square root of 2 takes the level
/// nearest to pixels, as textures do. The other bound holds at the point nearest to the eye.
const IN_THE_MIDDLE: f64 = std::f64::consts::SQRT_2;
const NEAREST: f64 = 2.0;

/// Length of a pixel at a distance from the eye.
fn pixel(camera: &Camera, height: u32, distance: f64) -> f64 {
    let height = f64::from(height.max(1));
    match camera.lens {
        Lens::Orthographic { height: shown } => shown / height,
        Lens::Perspective { fov_degrees } => 2.0 * distance * (fov_degrees.to_radians() * 0.5).tan() / height,
    }
}

/// Length of a pixel at the point of a volume that is nearest to the eye.
pub(super) fn least_pixel(camera: &Camera, height: u32, bounds: &Aabb) -> f64 {
    let eye = DVec3::from_array(camera.position);
    pixel(camera, height, eye.distance(eye.clamp(bounds.min, bounds.max)))
}

/// Lengths of a pixel at the volume's nearest point to the eye, and in its middle.
fn pixels(volume: &Volume, camera: &Camera, height: u32) -> [f64; 2] {
    let bounds = bounds(volume);
    let middle = DVec3::from_array(camera.position).distance((bounds.min + bounds.max) * 0.5);
    [least_pixel(camera, height, &bounds), pixel(camera, height, middle)]
}

/// The longest edge of a level's voxels.
fn largest(level: &VolumeLevel) -> f64 {
    level.placement.spacing().into_iter().fold(0.0, f64::max)
}

/// The coarsest level with voxels about as large as pixels, or the finest level.
pub(crate) fn level_for(volume: &Volume, camera: &Camera, height: u32) -> usize {
    level_of(pixels(volume, camera, height), volume.levels.iter().map(largest))
}

/// As [`level_for`], from the lengths of a pixel (nearest, middle) and the voxel lengths of all levels, finest first.
fn level_of([nearest, middle]: [f64; 2], voxels: impl DoubleEndedIterator<Item = f64> + ExactSizeIterator) -> usize {
    let most = (NEAREST * nearest).min(IN_THE_MIDDLE * middle);
    voxels.enumerate().rfind(|(_, voxel)| *voxel <= most).map_or(0, |(level, _)| level)
}

/// Bounds of the level cast first before a deadline: most pixels of a voxel, and least levels below the shown one. With
/// factors of two it has a 64th of the voxels.
const COARSE_PIXELS: f64 = 8.0;
const COARSER: usize = 2;

/// A coarser level, or coarser samples, for rays before a deadline, and the length of its voxels in pixels in the
/// middle. `None` if none has two voxels or more each way.
pub(super) fn coarser<'v>(
    volume: &'v Volume,
    object: &VolumeLook,
    camera: &Camera,
    height: u32,
) -> Option<(AtLevel<'v>, f64)> {
    let shown = object.level.unwrap_or_else(|| level_for(volume, camera, height));
    let [nearest, middle] = pixels(volume, camera, height);
    let all: Vec<&VolumeLevel> = volume.levels.iter().chain(&volume.samples).collect();
    let by_pixels = level_of([nearest, middle].map(|p| COARSE_PIXELS * p), all.iter().map(|level| largest(level)));
    let last = all.iter().rposition(|level| level.dims.iter().all(|n| *n > 1))?;
    let number = by_pixels.max(shown + COARSER).min(last);
    let level = all[number];
    (number > shown).then(|| (AtLevel { level, number }, largest(level) / middle))
}

/// A shown level or samples, and its number in messages.
#[derive(Copy, Clone)]
pub(super) struct AtLevel<'v> {
    level: &'v VolumeLevel,
    number: usize,
}

/// The level that rays of an object sample.
///
/// # Errors
/// [`FieldError::Usage`] for a missing level.
pub(super) fn level_shown<'v>(
    volume: &'v Volume,
    object: &VolumeLook,
    camera: &Camera,
    height: u32,
) -> Result<AtLevel<'v>, FieldError> {
    let number = object.level.unwrap_or_else(|| level_for(volume, camera, height));
    match volume.levels.get(number) {
        Some(level) => Ok(AtLevel { level, number }),
        None => Err(FieldError::Usage(format!(
            "there is no level {number}; {} has {}, counted from 0",
            volume.spec.path,
            volume.levels.len()
        ))),
    }
}

/// The appearance of an object at a level, and its step along rays.
///
/// # Errors
/// [`FieldError`]: missing channels, functions without sense.
pub(super) fn look(
    volume: &Volume,
    object: &VolumeLook,
    AtLevel { level, number }: AtLevel<'_>,
    maps: &[RangedMap],
    lighting: &Lighting,
    step: usize,
    camera: &Camera,
) -> Result<(VolumeAppearance, f64), FieldError> {
    let level = level.clone();
    if let Some(axis) = level.dims.iter().position(|n| *n < 2) {
        return Err(FieldError::Usage(format!(
            "{}: at level {number} it is one voxel thick along {}, and rays need two; 'farfield extract slice' makes a picture of it, and so \
             does 'farfield render' without options for rays",
            volume.spec.path,
            AXES[axis]
        )));
    }
    let least = level.placement.spacing().into_iter().fold(f64::INFINITY, f64::min);
    let clip = Clip {
        planes: object.planes.iter().map(|[n, o]| (*n, (0..3).map(|a| n[a] * o[a]).sum())).collect(),
        within: object.within,
        voxels: voxels(object, &volume.levels[0], &level),
    };
    let (paint, projection) = paint(volume, object, &level, maps)?;
    let shading = object.shading.map(|[specular, power]| shading(lighting, camera, specular, power));
    let manner = Manner { projection, nearest: object.nearest, shading, unit: object.unit };
    Ok((VolumeAppearance { paint, level, step: step as u32, clip, manner }, least / object.samples))
}

/// A picture's lights in physical space.
pub(super) fn shading(lighting: &Lighting, camera: &Camera, specular: f32, power: f32) -> Shading {
    let axes = camera.axes();
    let seen = |d: [f64; 3]| (axes.x_axis * d[0] + axes.y_axis * d[1] - axes.z_axis * d[2]).to_array();
    let (ambient, lights) = match lighting {
        // As on surfaces: a key light from the upper left, a weak fill, and the sky. A surface that faces the eye shows
        // its own colour.
        Lighting::Standard => {
            ([0.355; 3], vec![(seen([-0.42, 0.62, 0.66]), [0.84; 3]), (seen([0.86, -0.12, 0.49]), [0.18; 3])])
        }
        Lighting::Given { ambient, lights } => {
            let each = lights.iter().map(|l| (if l.with_camera { seen(l.direction) } else { l.direction }, l.colour));
            (*ambient, each.collect())
        }
    };
    Shading { ambient, lights, specular, power }
}

/// Ranges of voxels of the finest level as ranges of `level`.
fn voxels(object: &VolumeLook, finest: &VolumeLevel, level: &VolumeLevel) -> Option<[[f64; 2]; 3]> {
    object.voxels.iter().any(Option::is_some).then(|| {
        std::array::from_fn(|a| {
            let last = f64::from(finest.dims[a]) - 1.0;
            let [low, high] = object.voxels[a].map_or([0.0, last], |e| e.map(f64::from));
            let scale = finest.placement.spacing()[a] / level.placement.spacing()[a];
            // Shift between the two grids along this axis. Whole numbers are centres of voxels.
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

/// How stored numbers become visible.
fn paint(
    volume: &Volume,
    look: &VolumeLook,
    level: &VolumeLevel,
    maps: &[RangedMap],
) -> Result<(VoxelPaint, Projection), FieldError> {
    let channel = match &look.field {
        Some(name) => volume.channel_named(name)?,
        None => 0,
    };
    match &look.tint {
        VolumeTint::Map => {
            let paint = VoxelPaint::Scalar { channel, transfer: transfer(volume, look, channel, maps)? };
            let projection = match (look.projection, volume.spec.channels[channel].scale) {
                (Projection::Surface { value }, Some(scale)) => {
                    if scale[0] < 0.0 {
                        return Err(FieldError::Usage(format!(
                            "'{}' is stored with a scale below 0, so that the first place that reaches a value cannot be told; draw a contour",
                            volume.spec.channels[channel].name
                        )));
                    }
                    Projection::Surface { value: (value - scale[1]) / scale[0] }
                }
                (other, _) => other,
            };
            Ok((paint, projection))
        }
        VolumeTint::Labels { colours, only } => {
            let colours = colours.iter().map(|(n, c)| (*n, parts(*c))).collect();
            let opacity = look.opacities.first().map_or(PLAIN_OPACITY, |o| o.1);
            Ok((VoxelPaint::Labels { channel, colours, only: only.clone(), opacity }, look.projection))
        }
        VolumeTint::Colour(by) => {
            let count = volume.spec.channels.len();
            let needs = if *by == ColourBy::Alpha { 4 } else { 3 };
            if count < needs {
                return Err(FieldError::Usage(format!(
                    "{} has {count} {}, and {} takes {needs}",
                    volume.spec.path,
                    if count == 1 { "channel" } else { "channels" },
                    if needs == 4 { "colour with an alpha of its own" } else { "colour" }
                )));
            }
            let limits: Vec<[f64; 2]> = (0..needs)
                .map(|c| {
                    let stored = || level.channel(c).map_or([0.0, 1.0], |(array, _)| full_range(array.brick.voxel));
                    volume.spec.channels[c].limits.unwrap_or_else(stored)
                })
                .collect();
            let nodes = match &look.opacities[..] {
                [] => vec![(0.0, 0.0), (1.0, PLAIN_OPACITY)],
                given => given.to_vec(),
            };
            let opacity = match by {
                ColourBy::Alpha => ColourOpacity::Channel { channel: 3, limits: limits[3], nodes },
                ColourBy::Luminance => ColourOpacity::Luminance(nodes),
                ColourBy::Distance(from) => ColourOpacity::Distance { from: parts(*from), nodes },
            };
            let limits = [limits[0], limits[1], limits[2]];
            Ok((VoxelPaint::Colour { channels: [0, 1, 2], limits, opacity }, look.projection))
        }
    }
}

fn parts(rgb: [u8; 3]) -> [f32; 3] {
    rgb.map(|v| f32::from(v) / 255.0)
}

/// Colours and opacities over a channel's stored numbers.
fn transfer(
    volume: &Volume,
    look: &VolumeLook,
    channel: usize,
    maps: &[RangedMap],
) -> Result<TransferFunction, FieldError> {
    let map = look.paint.map.as_ref().and_then(|name| maps.iter().find(|m| m.name == *name));
    let (range, colours): ([f64; 2], Vec<(f64, [f32; 3])>) = match map {
        Some(m) => {
            let [low, high] = m.range;
            let last = (m.lut.len() - 1).max(1) as f64;
            let node = |(n, c): (usize, &[u8; 3])| (low + (high - low) * n as f64 / last, parts(*c));
            (m.range, m.lut.iter().enumerate().map(node).collect())
        }
        None => ([0.0, 1.0], vec![(0.0, parts(look.paint.rgb))]),
    };
    let opacities = match &look.opacities[..] {
        [] => vec![(range[0], 0.0), (range[1], PLAIN_OPACITY)],
        given => given.to_vec(),
    };
    let transfer = TransferFunction::new(colours, opacities).map_err(|e| FieldError::Usage(e.to_string()))?;
    Ok(match volume.spec.channels[channel].scale {
        Some(scale) => transfer.stored(scale),
        None => transfer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_levels_the_one_nearer_to_pixels_is_taken_and_none_is_coarse_near_the_eye() {
        let level = |nearest, middle| level_of([nearest, middle], [1.0, 2.0, 4.0, 8.0].into_iter());
        // Equal distances everywhere: the level changes at a ratio halfway.
        assert_eq!([0.1, 1.0, 1.41, 1.42, 2.8, 2.9, 5.7, 99.0].map(|p| level(p, p)), [0, 0, 0, 1, 1, 2, 3, 3]);
        // A point of the volume is much nearer than its middle, or the eye is inside.
        assert_eq!([(2.0, 9.0), (1.9, 9.0), (0.0, 9.0)].map(|(nearest, middle)| level(nearest, middle)), [2, 1, 0]);
    }
}
