//! Volumes in scenes: where they are, and their rays between the surfaces of a picture.

use super::appearance::{coarser, level_shown, look};
use super::colour_maps::Settled;
use super::depth_compositing::{lay, Lack, PreparedScene, Rays, TimeBudget};
use super::objects::VolumeLook;
use super::SceneDocument;
use crate::picture::{Aabb, Camera, Depths, GeometryError, Haze, HazeRows};
use crate::raycast::{cast_until, is_large, CastOptions, Coarse, KeptBricks};
use field::error::FieldError;
use field::volume::{Volume, VolumeLevel};
use glam::DVec3;
use kernels::rays::{self, VolumeAppearance};
use pager::Pager;
use runtime::session::Waited;
use std::sync::{Arc, Mutex};

/// Parts of a volume's diagonal that are the length to which opacities belong.
pub(super) const UNITS: f64 = 100.0;

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

/// The rays of a picture's volumes.
pub(crate) struct Fog<'a> {
    waited: &'a Waited,
    kept: &'a Arc<KeptBricks>,
    pager: Arc<Pager>,
    workers: usize,
    shown: Shown,
    /// The same of coarser levels, and every how many-th pixel of them is cast, where a picture has to be there at a time.
    coarse: Option<(Shown, u32)>,
    bounds: Aabb,
    /// The time step that is drawn next.
    next: Option<u32>,
    budget: Option<TimeBudget>,
    lack: Mutex<Lack>,
}

/// What rays are given.
struct Shown {
    looks: Vec<VolumeAppearance>,
    /// Length of a step along rays, and the length to which opacities belong of looks that say none.
    lengths: [f64; 2],
    scene: PreparedScene<rays::Scene>,
}

impl Shown {
    /// Of looks and the steps that each asks for.
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

/// Every how many-th pixel is cast of a level whose voxels are so many pixels large.
fn stride(pixels: f64) -> u32 {
    (pixels.clamp(4.0, 32.0) as u32 / 2 + 1).next_power_of_two() / 2
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
        (waited, kept): (&'a Waited, &'a Arc<KeptBricks>),
        objects: &[&VolumeLook],
        maps: &[Settled],
        step: usize,
        camera: &Camera,
        document: &SceneDocument,
        height: u32,
        next: Option<usize>,
    ) -> Result<Self, FieldError> {
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
            waited,
            kept,
            pager: pager.clone(),
            workers,
            shown,
            coarse,
            bounds: all,
            budget,
            next: next.filter(|n| *n != step).map(|n| n as u32),
            lack: Mutex::default(),
        })
    }

    /// What pictures lack.
    pub(crate) fn lack(&self) -> Lack {
        *pager::spin_lock::lock(&self.lack)
    }
}

impl Haze for Fog<'_> {
    fn bounds(&self) -> Aabb {
        self.bounds
    }

    fn is_large(&self, camera: &Camera, size: [u32; 2]) -> bool {
        self.shown.scene(camera, size).is_ok_and(|scene| is_large(&scene, &self.pager))
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
        let options = CastOptions { workers: self.workers, rows, deadline: None, next: self.next, kept, coarse };
        let between = |x, y| scene.depths(x, y);
        let rays = Rays { stop: true, between: &between };
        let lack = lay(&self.pager, depths, size[1], self.budget.as_ref(), rays, light, &mut |ends, deadline| {
            let mut options = CastOptions { deadline, ..options.clone() };
            if let Some(coarse) = &mut options.coarse {
                coarse.by = self.budget.as_ref().map(TimeBudget::a_moment);
            }
            let image = cast_until(&self.pager, &scene, &options, Some(ends), &mut |_, _| go_on())?;
            self.waited.add(image.stats.wait_s);
            Ok(image)
        })?;
        *pager::spin_lock::lock(&self.lack) += lack;
        Ok(())
    }
}
