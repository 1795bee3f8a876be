//! Isosurfaces of a volume.

use super::volume::{Clock, VolumeArm};
use super::watcher::Watcher;
use extract::contour::{run_volume, VolumeContour, VolumeWhat};
use field::error::FieldError;
use kernels::surface::{Points, SurfacePiece};
use runtime::session::ProgressWatch;
use serde_json::{json, Value};
use std::sync::Arc;

/// Options of [`volume_contour`].
pub struct VolumeSurface {
    /// The volume.
    pub of: VolumeArm,
    /// The stored number of the surface.
    pub value: f64,
    /// Whether points have normals.
    pub normals: bool,
    /// The level.
    pub level: usize,
    /// Number of rounds.
    pub rounds: usize,
    /// Measures the area of the surface in one more round.
    pub area: bool,
    /// Lists the pages that were read, which costs time.
    pub touched: bool,
}

/// Extracts the surface and drops every piece. For each round: wall and CPU seconds, triangles, and the pager's
/// counters.
///
/// # Errors
/// [`FieldError`].
pub fn volume_contour(arm: &VolumeSurface, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let watcher = Arc::new(Watcher::default());
    let mut resources = arm.of.resources.clone();
    if arm.touched {
        resources.observer = Some(watcher.clone());
    }
    let open = arm.of.open(&resources)?;
    let Some(level) = open.volume.levels.get(arm.level) else {
        return Err(FieldError::Usage(format!("bench options: there is no level {}", arm.level)));
    };
    let spec = VolumeContour {
        near: None,
        what: VolumeWhat::Iso { channel: 0, values: vec![arm.value] },
        channels: Vec::new(),
        normals: arm.normals,
        step: 0,
        spill: None,
    };
    let mut rows = Vec::with_capacity(arm.rounds);
    for _ in 0..arm.rounds {
        watcher.next_run();
        let clock = Clock::new(&open.pager);
        let mut blocks = |done: u64, of: u64| watch("drawing a surface", done as f64, of as f64);
        let made = run_volume(&open.pager, open.threads, level, &spec, &mut |_| Ok(()), &mut blocks)?;
        let mut row = clock.read(&open.pager);
        row["points"] = made.drawn.points.into();
        row["triangles"] = made.drawn.triangles.into();
        row["failed_pages"] = made.drawn.failed_pages.into();
        row["spilled_bytes"] = made.drawn.spilled_bytes.into();
        row["wait_s"] = made.run.wait_s.into();
        if arm.touched {
            row["touched"] = watcher.report();
        }
        rows.push(row);
    }
    let mut report = open.report(rows);
    if arm.area {
        let mut surface = Area::default();
        run_volume(&open.pager, open.threads, level, &spec, &mut |p| surface.add(&p), &mut |_, _| true)?;
        report["area"] = (surface.total / 2.0).into();
    }
    report["page"] = json!(level.arrays.iter().map(|a| a.brick.page).collect::<Vec<_>>());
    Ok(report)
}

/// Twice the area of a surface. Pieces refer to points of earlier ones, so all points stay in memory, which experiments
/// have to spare.
#[derive(Default)]
struct Area {
    points: Vec<[f32; 3]>,
    total: f64,
}

impl Area {
    fn add(&mut self, piece: &SurfacePiece) -> Result<(), FieldError> {
        match &piece.vertices.points {
            Points::F32(p) => self.points.extend_from_slice(p),
            Points::F64(p) => self.points.extend(p.iter().map(|v| v.map(|c| c as f32))),
        }
        for t in &piece.triangles {
            let [a, b, c] = t.map(|v| self.points[v as usize].map(f64::from));
            let (u, v): ([f64; 3], [f64; 3]) =
                (core::array::from_fn(|n| b[n] - a[n]), core::array::from_fn(|n| c[n] - a[n]));
            let n = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
            self.total += n.iter().map(|c| c * c).sum::<f64>().sqrt();
        }
        Ok(())
    }
}
