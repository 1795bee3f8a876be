//! Volumes in scenes: where they are, and their rays between the surfaces of a picture.

use super::looks::look;
use super::maps::Settled;
use super::objects::VolumeLook;
use super::passes::{lay, Budget, Lack, Ready};
use super::Document;
use crate::picture::{Aabb, Camera, Depths, GeometryError, Haze, HazeRows};
use crate::raycast::{cast_until, CastOptions, KeptBricks};
use crate::session::Waited;
use field::error::FieldError;
use field::volume::{Volume, VolumeLevel};
use glam::DVec3;
use kernels::rays::{self, Look};
use pager::Pager;
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
    looks: Vec<Look>,
    bounds: Aabb,
    /// Length of a step along rays, and the length to which opacities belong of looks that say none.
    lengths: [f64; 2],
    /// The time step that is drawn next.
    next: Option<u32>,
    budget: Option<Budget>,
    lack: Mutex<Lack>,
    scene: Ready<rays::Scene>,
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
        document: &Document,
        height: u32,
        next: Option<usize>,
    ) -> Result<Self, FieldError> {
        let all = bounds(volume);
        let mut looks = Vec::with_capacity(objects.len());
        let mut dt = f64::INFINITY;
        for object in objects {
            let (own, least) = look(volume, object, maps, &document.lighting, step, camera, height)?;
            dt = dt.min(least);
            looks.push(own);
        }
        Ok(Self {
            waited,
            kept,
            pager: pager.clone(),
            workers,
            looks,
            bounds: all,
            lengths: [dt, all.extent().length() / UNITS],
            budget: Budget::of(document),
            next: next.filter(|n| *n != step).map(|n| n as u32),
            lack: Mutex::default(),
            scene: Ready::default(),
        })
    }

    /// What pictures lack.
    pub(crate) fn lack(&self) -> Lack {
        *pager::patient::lock(&self.lack)
    }
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
        let scene = self.scene.of(camera, size, || {
            let [dt, unit] = self.lengths;
            let setting = rays::Setting { camera: *camera, size, dt, unit, skip: true };
            rays::Scene::new(setting, self.looks.clone())
        })?;
        let (rows, kept) = (Some(depths.rows()), Some(self.kept.clone()));
        let options = CastOptions { workers: self.workers, rows, deadline: None, next: self.next, kept };
        let lack = lay(
            &self.pager,
            depths,
            size[1],
            self.budget.as_ref(),
            !scene.projects(),
            light,
            &mut |ends, deadline| {
                let options = CastOptions { deadline, ..options.clone() };
                let image = cast_until(&self.pager, &scene, &options, Some(ends), &mut |_, _| go_on())?;
                self.waited.add(image.stats.wait_s);
                Ok(image)
            },
        )?;
        *pager::patient::lock(&self.lack) += lack;
        Ok(())
    }
}
