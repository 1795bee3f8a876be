//! Pictures of a volume by rays.

use super::volume::{Clock, VolumeArm};
use super::watcher::Watcher;
use field::error::FieldError;
use field::volume::VolumeLevel;
use kernels::draw::{linear_to_srgb, Camera};
use kernels::rays::{Clip, Manner, RaySetting, Scene, VolumeAppearance, VoxelPaint};
use pager::{Hold, PageId, Pager};
use render::raycast::{cast, CastOptions, SharedBricks};
use runtime::limits::pager_error;
use runtime::session::ProgressWatch;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Options of [`volume_rays`].
pub struct VolumeRays {
    /// The volume.
    pub of: VolumeArm,
    /// Colours and opacities.
    pub paint: VoxelPaint,
    /// Shading and projection.
    pub manner: Manner,
    /// One picture each, one after the other.
    pub cameras: Vec<Camera>,
    /// Pixels across and down.
    pub size: [u32; 2],
    /// Length of a step along rays, and the length that opacities refer to.
    pub lengths: [f64; 2],
    /// The level.
    pub level: usize,
    /// Time steps, each shown by all cameras.
    pub steps: Vec<u32>,
    /// Prefetches pages of the next step.
    pub ahead: bool,
    /// Number of rounds.
    pub rounds: usize,
    /// Prefix of the last round's pictures; the number of the picture and `.rgb` follow: 8-bit sRGB over black.
    pub pictures: Option<PathBuf>,
    /// Lists the pages that were read, which costs time.
    pub touched: bool,
    /// Does not skip invisible parts.
    pub everything: bool,
    /// Pictures share nothing.
    pub alone: bool,
    /// Reads all pages of a step before it is cast.
    pub first: bool,
}

/// Casts the pictures. For each: wall and CPU seconds, samples, and the pager's counters.
///
/// # Errors
/// [`FieldError`].
pub fn volume_rays(arm: &VolumeRays, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let watcher = Arc::new(Watcher::default());
    let mut resources = arm.of.resources.clone();
    if arm.touched {
        resources.observer = Some(watcher.clone());
    }
    let open = arm.of.open(&resources)?;
    let Some(level) = open.volume.levels.get(arm.level) else {
        return Err(FieldError::Usage(format!("bench options: there is no level {}", arm.level)));
    };
    let [dt, unit] = arm.lengths;
    let kept = (!arm.alone).then(|| Arc::new(SharedBricks::default()));
    let mut rows = Vec::new();
    for round in 0..arm.rounds {
        for (at, step) in arm.steps.iter().enumerate() {
            let next = arm.steps.get(at + 1).copied().filter(|_| arm.ahead);
            let kept = kept.clone();
            let options = CastOptions { workers: open.threads, rows: None, deadline: None, next, kept, coarse: None };
            for (n, camera) in arm.cameras.iter().enumerate() {
                watcher.next_run();
                let (began, whole) = (Instant::now(), Clock::new(&open.pager));
                let held = if arm.first && n == 0 { Some(fetch(&open.pager, level, *step)?) } else { None };
                let load_s = began.elapsed().as_secs_f64();
                let clock = Clock::new(&open.pager);
                let setting = RaySetting { camera: *camera, size: arm.size, dt, unit, skip: !arm.everything };
                let look = VolumeAppearance {
                    level: level.clone(),
                    step: *step,
                    paint: arm.paint.clone(),
                    clip: Clip::default(),
                    manner: arm.manner.clone(),
                };
                let scene = Scene::new(setting, vec![look]).map_err(|e| FieldError::Usage(e.to_string()))?;
                let image =
                    cast(&open.pager, &scene, &options, &mut |done, of| watch("casting rays", done as f64, of as f64))?;
                let mut row = clock.read(&open.pager);
                // Reads before the rays count, too.
                row["bytes_read"] = whole.read(&open.pager)["bytes_read"].take();
                drop(held);
                row["round"] = round.into();
                row["load_s"] = load_s.into();
                row["step"] = (*step).into();
                row["view"] = n.into();
                row["samples"] = image.counts.samples.into();
                row["across"] = image.counts.across.into();
                row["bricks"] = image.counts.bricks.into();
                row["wait_s"] = image.stats.wait_s.into();
                row["gaps"] = image.gap_count().into();
                if arm.touched {
                    row["touched"] = watcher.report();
                }
                if let Some(prefix) = arm.pictures.as_ref().filter(|_| round + 1 == arm.rounds) {
                    let number = rows.len() % (arm.steps.len() * arm.cameras.len());
                    write(prefix, number, &image.rgba)?;
                }
                rows.push(row);
            }
        }
    }
    let mut report = open.report(rows);
    report["page"] = json!(level.arrays.iter().map(|a| a.brick.page).collect::<Vec<_>>());
    Ok(report)
}

/// Reads all pages of a step.
fn fetch(pager: &Arc<Pager>, level: &VolumeLevel, step: u32) -> Result<Hold, FieldError> {
    let pages: Vec<PageId> = level
        .arrays
        .iter()
        .flat_map(|a| {
            (0..a.translation.count()).map(move |page| PageId::new(a.id, if a.steady { 0 } else { step }, page))
        })
        .collect();
    pager.fetch(&pages).map_err(pager_error)
}

pub(super) fn write(prefix: &Path, number: usize, rgba: &[[f32; 4]]) -> Result<(), FieldError> {
    let mut name = prefix.as_os_str().to_owned();
    name.push(format!("{number}.rgb"));
    let bytes: Vec<u8> =
        rgba.iter().flat_map(|p| [0, 1, 2].map(|c| (linear_to_srgb(p[c]) * 255.0 + 0.5) as u8)).collect();
    std::fs::write(&name, bytes).map_err(|e| FieldError::io(Path::new(&name), e))
}
