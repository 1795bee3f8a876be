//! Isosurfaces of a volume that is in memory, or in a file page after page.

use super::volumes::Formula;
use crate::contour::{run_volume, VolumeContour, VolumeWhat};
use crate::limits::pager_error;
use crate::process;
use field::error::FieldError;
use field::volume::VoxelType;
use kernels::surface::Piece;
use pager::{Pager, PagerConfig};
use serde_json::{json, Value};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// What is drawn, and how.
pub struct ContourArm {
    /// `balls`: a small one every 64 voxels, so that every page is crossed; `ball`: a large one, which a tenth of the pages meet.
    pub scene: String,
    /// Voxels along each axis.
    pub edge: u32,
    /// Of a page.
    pub page: u32,
    /// `uint8`, `uint16` or `float32`.
    pub voxel: VoxelType,
    /// Values.
    pub values: Vec<f64>,
    /// Whether normals are made.
    pub normals: bool,
    /// Threads.
    pub workers: usize,
    /// Memory limit.
    pub limit: u64,
    /// Whether ranges of pages are known.
    pub ranges: bool,
    /// Frames one after the other, written if they are not there; else pages are made and all in memory before the clock starts.
    pub file: Option<PathBuf>,
    /// Where the voxels go as other programs read them, if they are to.
    pub raw: Option<PathBuf>,
}

/// The volume of a scene.
///
/// # Errors
/// [`FieldError::Usage`] for a scene that there is not.
pub fn scene(name: &str, edge: u32, page: u32, voxel: VoxelType) -> Result<Formula, FieldError> {
    let scale = match voxel {
        VoxelType::Uint16 => 256.0,
        _ => 1.0,
    };
    let round = move |v: f64| if voxel == VoxelType::Float32 { v } else { v.round() };
    let value: Arc<super::volumes::Value> = match name {
        "balls" => {
            let wave = |n: u32| 28.0 * (f64::from(n) * std::f64::consts::TAU / 64.0 + 0.3).cos();
            let rows: Arc<[f64]> = (0..edge).map(|n| wave(n) + 14.0 * (f64::from(n) * 0.0123).sin()).collect();
            Arc::new(move |[i, j, k]| round(scale * (127.0 + rows[i as usize] + rows[j as usize] + rows[k as usize])))
        }
        "ball" => {
            let middle = f64::from(edge) * 0.47;
            let squares: Arc<[f64]> = (0..edge).map(|n| (f64::from(n) - middle).powi(2)).collect();
            let most = f64::from(edge);
            Arc::new(move |[i, j, k]| {
                let r = (squares[i as usize] + squares[j as usize] + squares[k as usize]).sqrt();
                round(scale * 255.0 * (1.0 - r / most).max(0.0))
            })
        }
        _ => return Err(FieldError::Usage(format!("there is no scene '{name}'; there are balls and ball"))),
    };
    Ok(Formula { name: name.to_owned(), dims: [edge; 3], page: [page; 3], voxel, value })
}

/// Draws it: seconds of processor and of the clock, points, triangles and what was read.
///
/// # Errors
/// [`FieldError`].
pub fn contour(arm: &ContourArm) -> Result<Value, FieldError> {
    let formula = scene(&arm.scene, arm.edge, arm.page, arm.voxel)?;
    if let Some(raw) = arm.raw.as_ref().filter(|p| !p.exists()) {
        formula.write_raw(raw)?;
    }
    let pager = Pager::new(PagerConfig { limit: arm.limit, ..PagerConfig::default() }).map_err(pager_error)?;
    let mut source = None;
    if let Some(file) = &arm.file {
        if !file.exists() {
            formula.write_frames(file)?;
        }
        source = Some(pager.add_file(file));
        pager.set_direct(true);
    }
    let level = formula.level(&pager, source, arm.ranges.then(|| formula.ranges()));
    let spec = VolumeContour {
        what: VolumeWhat::Iso { channel: 0, values: arm.values.clone() },
        channels: Vec::new(),
        normals: arm.normals,
        near: None,
        step: 0,
        spill: None,
    };
    let once = |keep: bool| -> Result<Value, FieldError> {
        let mut pieces: Vec<Piece> = Vec::new();
        let before = pager.counters();
        let (began, cpu) = (Instant::now(), process::cpu_seconds());
        let mut take = |piece: Piece| {
            if keep {
                pieces.push(piece);
            }
            Ok(())
        };
        let made = run_volume(&pager, arm.workers, &level, &spec, &mut take, &mut |_, _| true)?;
        let (wall, cpu) = (began.elapsed().as_secs_f64(), process::cpu_seconds() - cpu);
        let area = area(&pieces);
        let after = pager.counters();
        Ok(json!({
            "wall_s": wall, "cpu_s": cpu, "points": made.drawn.points, "triangles": made.drawn.triangles, "area": area,
            "steps": made.run.steps, "restarts": made.run.restarts, "dropped": made.run.dropped,
            "faults": after.faults - before.faults, "bytes_read": after.bytes_read - before.bytes_read,
            "peak_bytes": after.peak_bytes, "kept": keep,
        }))
    };
    let mut rounds = Vec::new();
    if arm.file.is_none() {
        // All pages that are needed are made in the first round.
        once(false)?;
    }
    for keep in [false, true] {
        rounds.push(once(keep)?);
        if arm.file.is_some() {
            break;
        }
    }
    Ok(json!({ "scene": arm.scene, "edge": arm.edge, "page": arm.page, "voxel": arm.voxel.name(), "rounds": rounds }))
}

/// Area of all triangles.
fn area(pieces: &[Piece]) -> f64 {
    let firsts: Vec<u64> = pieces.iter().map(|p| p.first).collect();
    let point = |v: u64| {
        let n = firsts.partition_point(|f| *f <= v) - 1;
        pieces[n].vertices.points.get((v - firsts[n]) as usize)
    };
    let of = |t: &[u64; 3]| {
        let [a, b, c] = t.map(point);
        let (u, v): ([f64; 3], [f64; 3]) =
            (core::array::from_fn(|n| b[n] - a[n]), core::array::from_fn(|n| c[n] - a[n]));
        let n = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
        (n[0] * n[0] + n[1] * n[1] + n[2] * n[2]).sqrt() / 2.0
    };
    pieces.iter().flat_map(|p| &p.triangles).map(of).sum()
}
