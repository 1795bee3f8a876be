//! Volumes in scenes: their bounds, and their rays between the surfaces of a picture.

use super::appearance::{coarser, level_shown, look};
use super::colour_maps::RangedMap;
use super::depth_compositing::{lay, Lack, PreparedScene, Rays, TimeBudget};
use super::objects::VolumeLook;
use super::path::PictureSteps;
use super::studio::Studio;
use crate::picture::{Aabb, Camera, Depths, GeometryError, Haze, HazeRows};
use crate::raycast::{cast_until, is_large, CastOptions, Coarse, SharedBricks};
use field::error::FieldError;
use field::volume::{Volume, VolumeLevel};
use glam::DVec3;
use kernels::rays::{self, VolumeAppearance};
use runtime::session::Session;
use std::sync::{Arc, Mutex};

/// Divisor: the share of a volume's diagonal that is the default unit of opacities.
pub(super) const UNITS: f64 = 100.0;

/// Positions of a level's eight corners: centres of its outermost voxels.
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

/// The twelve edges of a volume, each with its two ends.
pub(crate) fn edges(volume: &Volume) -> Vec<[[f64; 3]; 2]> {
    let Some(level) = volume.levels.first() else { return Vec::new() };
    let all = corners(level);
    let pairs = (0..8usize).flat_map(|c| (0..3).map(move |a| (c, c | 1 << a))).filter(|(a, b)| a != b);
    pairs.map(|(a, b)| [all[a].to_array(), all[b].to_array()]).filter(|[a, b]| a != b).collect()
}

/// The rays of a picture's volumes.
pub(crate) struct Fog<'a> {
    session: &'a Session,
    kept: &'a Arc<SharedBricks>,
    shown: Shown,
    /// The same at coarser levels and their stride of pixels, before a deadline.
    coarse: Option<(Shown, u32)>,
    bounds: Aabb,
    /// Time step of the next picture.
    next: Option<u32>,
    budget: Option<TimeBudget>,
    lack: Mutex<Lack>,
}

/// Input of rays.
struct Shown {
    looks: Vec<VolumeAppearance>,
    /// Length of a step along rays, and the default unit of opacities.
    lengths: [f64; 2],
    scene: PreparedScene<rays::Scene>,
}

impl Shown {
    /// From appearances and the largest step of each.
    fn of(
        all: &Aabb,
        each: impl Iterator<Item = Result<(VolumeAppearance, f64), FieldError>>,
    ) -> Result<Self, FieldError> {
        let (mut looks, mut dt) = (Vec::new(), f64::INFINITY);
        for look in each {
            let (own, least) = look?;
            dt = dt.min(least);
            looks.push(own);
        }
        Ok(Self { looks, lengths: [dt, all.extent().length() / UNITS], scene: PreparedScene::default() })
    }

    fn scene(&self, camera: &Camera, size: [u32; 2]) -> Result<Arc<rays::Scene>, rays::SceneError> {
        self.scene.of(camera, size, || {
            let [dt, unit] = self.lengths;
            let setting = rays::RaySetting { camera: *camera, size, dt, unit, skip: true };
            rays::Scene::new(setting, self.looks.clone())
        })
    }
}

/// Stride of cast pixels for a level with voxels of `pixels` pixels.
fn stride(pixels: f64) -> u32 {
    (pixels.clamp(4.0, 32.0) as u32 / 2 + 1).next_power_of_two() / 2
}

impl<'a> Fog<'a> {
    /// The volume as some objects show it, in a picture of `height` rows.
    ///
    /// # Errors
    /// [`FieldError`]: missing channels or levels, functions without sense.
    pub(crate) fn new(
        studio: &Studio<'a>,
        volume: &Volume,
        objects: &[&VolumeLook],
        maps: &[RangedMap],
        PictureSteps { shown: step, next }: PictureSteps,
        camera: &Camera,
        height: u32,
    ) -> Result<Self, FieldError> {
        let &Studio { document, session, kept } = studio;
        let all = bounds(volume);
        let of = |object: &VolumeLook, level| look(volume, object, level, maps, &document.lighting, step, camera);
        let finest = objects.iter().map(|object| of(object, level_shown(volume, object, camera, height)?));
        let shown = Shown::of(&all, finest)?;
        let budget = TimeBudget::of(document);
        let levels = || objects.iter().map(|object| coarser(volume, object, camera, height)).collect();
        let levels: Option<Vec<_>> = if budget.is_some() { levels() } else { None };
        let coarse = match levels {
            Some(levels) => {
                let least = levels.iter().map(|(_, pixels)| *pixels).fold(f64::INFINITY, f64::min);
                let each = objects.iter().zip(&levels).map(|(object, (level, _))| of(object, *level));
                Some((Shown::of(&all, each)?, stride(least)))
            }
            None => None,
        };
        Ok(Self {
            session,
            kept,
            shown,
            coarse,
            bounds: all,
            budget,
            next: next.filter(|n| *n != step).map(|n| n as u32),
            lack: Mutex::default(),
        })
    }

    /// Pixels with gaps and filled pixels of all pictures.
    pub(crate) fn lack(&self) -> Lack {
        *pager::spin_lock::lock(&self.lack)
    }
}

impl Haze for Fog<'_> {
    fn bounds(&self) -> Aabb {
        self.bounds
    }

    fn is_large(&self, camera: &Camera, size: [u32; 2]) -> bool {
        self.shown.scene(camera, size).is_ok_and(|scene| is_large(&scene, &self.session.pager))
    }

    fn cast(
        &self,
        camera: &Camera,
        size: [u32; 2],
        depths: &Depths,
        light: &mut HazeRows,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), GeometryError> {
        let scene = self.shown.scene(camera, size)?;
        let coarse = match &self.coarse {
            Some((shown, stride)) => Some(Coarse { scene: shown.scene(camera, size)?, stride: *stride, by: None }),
            None => None,
        };
        let (rows, kept) = (Some(depths.rows()), Some(self.kept.clone()));
        let options =
            CastOptions { workers: self.session.threads(), rows, deadline: None, next: self.next, kept, coarse };
        let between = |x, y| scene.depths(x, y);
        let rays = Rays { stop: true, between: &between };
        let lack =
            lay(&self.session.pager, depths, size[1], self.budget.as_ref(), rays, light, &mut |ends, deadline| {
                let mut options = CastOptions { deadline, ..options.clone() };
                if let Some(coarse) = &mut options.coarse {
                    coarse.by = self.budget.as_ref().map(TimeBudget::a_moment);
                }
                let image = cast_until(&self.session.pager, &scene, &options, Some(ends), &mut |_, _| go_on())?;
                self.session.add_wait(image.stats.wait_s);
                Ok(image)
            })?;
        *pager::spin_lock::lock(&self.lack) += lack;
        Ok(())
    }
}
