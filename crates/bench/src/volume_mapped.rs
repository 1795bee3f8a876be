//! The comparison to paged rays: a file of bytes mapped into memory, or read whole, and a plain loop of rays over it.
//! The system does the paging.

use super::mmap::{Region, Whole};
use super::volume_rays::write;
use field::error::FieldError;
use glam::DVec3;
use kernels::draw::{Camera, Lens};
use kernels::rays::{TransferFunction, TILE};
use runtime::process;
use runtime::session::ProgressWatch;
use serde_json::{json, Value};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Mutex;
use std::time::Instant;

/// Options of [`volume_mapped`]. Samples have the places of [`VolumeRays`](crate::volume_rays::VolumeRays).
pub struct VolumeMapped {
    /// Bytes, k slowest, components interleaved.
    pub file: PathBuf,
    /// How it comes into memory.
    pub how: Whole,
    /// Voxels along i, j, k.
    pub dims: [usize; 3],
    /// Components of a voxel. The first is shown.
    pub components: usize,
    /// Distances between voxels.
    pub spacing: [f64; 3],
    /// Colours and opacities.
    pub transfer: TransferFunction,
    /// One picture each, in perspective.
    pub cameras: Vec<Camera>,
    /// Pixels across and down.
    pub size: [u32; 2],
    /// Length of a step along rays, and the length that opacities refer to.
    pub lengths: [f64; 2],
    /// Number of rounds.
    pub rounds: usize,
    /// Threads; 0: one for each core.
    pub workers: usize,
    /// As in [`VolumeRays`](crate::volume_rays::VolumeRays).
    pub pictures: Option<PathBuf>,
}

/// Entries of the table for each step of a value.
const FINE: usize = 16;
const ENTRIES: usize = 255 * FINE + 1;
/// A ray ends below this transmission: half a step of 8-bit sRGB at its darkest.
const DARK: f32 = 1.2e-4;

/// Casts the pictures. For each: wall and CPU seconds. The time to read a whole file is separate.
///
/// # Errors
/// [`FieldError::Io`], [`FieldError::Usage`] for a file that is too short or a camera without perspective.
pub fn volume_mapped(arm: &VolumeMapped, watch: &mut ProgressWatch<'_>) -> Result<Value, FieldError> {
    let began = Instant::now();
    let region = Region::new(&arm.file, arm.how)?;
    let load_s = began.elapsed().as_secs_f64();
    let [nx, ny, nz] = arm.dims;
    let wanted = [nx, ny, nz, arm.components].iter().try_fold(1usize, |a, n| a.checked_mul(*n));
    if wanted.is_none_or(|n| n > region.bytes().len()) || arm.dims.iter().any(|n| *n < 2) {
        return Err(FieldError::Usage(format!("{}: shorter than its sizes say, or too thin", arm.file.display())));
    }
    let [dt, unit] = arm.lengths;
    let table: Vec<[f32; 4]> = (0..ENTRIES).map(|n| entry(&arm.transfer, n as f64 / FINE as f64, dt / unit)).collect();
    let workers = match arm.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let mut rows = Vec::new();
    for round in 0..arm.rounds {
        for (n, camera) in arm.cameras.iter().enumerate() {
            if !watch("casting rays", (round * arm.cameras.len() + n) as f64, (arm.rounds * arm.cameras.len()) as f64) {
                return Err(FieldError::Interrupted);
            }
            let (clock, cpu) = (Instant::now(), process::cpu_seconds());
            let rgba = picture(arm, region.bytes(), &table, camera, workers)?;
            let (wall, cpu) = (clock.elapsed().as_secs_f64(), process::cpu_seconds() - cpu);
            rows.push(json!({"round": round, "view": n, "wall_s": wall, "cpu_s": cpu}));
            if let Some(prefix) = arm.pictures.as_ref().filter(|_| round + 1 == arm.rounds) {
                write(prefix, n, &rgba)?;
            }
        }
    }
    let resident = process::peak_resident_bytes();
    Ok(json!({"rounds": rows, "load_s": load_s, "resident_peak_bytes": resident, "threads": workers}))
}

/// Linear light times opacity, and opacity, of a step.
fn entry(transfer: &TransferFunction, value: f64, share: f64) -> [f32; 4] {
    let a = (1.0 - (1.0 - f64::from(transfer.opacity(value))).powf(share)) as f32;
    let [r, g, b] = transfer.colour(value);
    [r * a, g * a, b * a, a]
}

/// Origin and directions of rays, in units of voxels.
struct Eye {
    position: DVec3,
    ahead: DVec3,
    right: DVec3,
    above: DVec3,
    scale: f64,
}

fn picture(
    arm: &VolumeMapped,
    voxels: &[u8],
    table: &[[f32; 4]],
    camera: &Camera,
    workers: usize,
) -> Result<Vec<[f32; 4]>, FieldError> {
    let Lens::Perspective { fov_degrees } = camera.lens else {
        return Err(FieldError::Usage("bench options: rays over mapped files have perspective".into()));
    };
    let position = DVec3::from_array(camera.position);
    let ahead = (DVec3::from_array(camera.target) - position).normalize();
    let right = ahead.cross(DVec3::from_array(camera.up)).normalize();
    let scale = f64::from(arm.size[1]) / 2.0 / (fov_degrees.to_radians() / 2.0).tan();
    let eye = Eye { position, ahead, right, above: right.cross(ahead), scale };
    let [w, h] = arm.size;
    let tiles = (w.div_ceil(TILE), h.div_ceil(TILE));
    let next = AtomicUsize::new(0);
    let image = Mutex::new(vec![[0f32; 4]; (w * h) as usize]);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut pixels = Vec::with_capacity((TILE * TILE) as usize);
                loop {
                    let tile = next.fetch_add(1, Relaxed) as u32;
                    if tile >= tiles.0 * tiles.1 {
                        return;
                    }
                    let (x0, y0) = (tile % tiles.0 * TILE, tile / tiles.0 * TILE);
                    pixels.clear();
                    for y in y0..(y0 + TILE).min(h) {
                        for x in x0..(x0 + TILE).min(w) {
                            pixels.push(((y * w + x) as usize, ray(arm, voxels, table, &eye, x, y)));
                        }
                    }
                    let mut image = image.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    pixels.iter().for_each(|(n, p)| image[*n] = *p);
                }
            });
        }
    });
    Ok(image.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn ray(arm: &VolumeMapped, voxels: &[u8], table: &[[f32; 4]], eye: &Eye, x: u32, y: u32) -> [f32; 4] {
    let a = (f64::from(x) + 0.5 - f64::from(arm.size[0]) / 2.0) / eye.scale;
    let b = (f64::from(arm.size[1]) / 2.0 - f64::from(y) - 0.5) / eye.scale;
    let spacing = DVec3::from_array(arm.spacing);
    let to = (eye.ahead + eye.right * a + eye.above * b).normalize() / spacing;
    let from = eye.position / spacing;
    let (mut near, mut far) = (0f64, f64::INFINITY);
    for axis in 0..3 {
        let last = (arm.dims[axis] - 1) as f64;
        let (p, d) = (from[axis], to[axis]);
        if d == 0.0 {
            if !(0.0..=last).contains(&p) {
                return [0.0; 4];
            }
            continue;
        }
        let (t0, t1) = (-p / d, (last - p) / d);
        near = near.max(t0.min(t1));
        far = far.min(t0.max(t1));
    }
    if near > far {
        return [0.0; 4];
    }
    let dt = arm.lengths[0];
    let mut light = [0f32; 4];
    let mut through = 1f32;
    let first = (near / dt - 0.5).ceil();
    let end = (far / dt - 0.5).ceil();
    if first == end {
        let e = table[index(sample(arm, voxels, from + to * ((near + far) * 0.5)))];
        return over(e, ((far - near) / dt) as f32);
    }
    let mut n = first;
    while n < end && through > DARK {
        let v = sample(arm, voxels, from + to * ((n + 0.5) * dt));
        let mut e = table[index(v)];
        if n == first || n == end - 1.0 {
            // The first and last steps extend to the volume's faces.
            let steps = 1.0
                + if n == first { first - near / dt } else { 0.0 }
                + if n == end - 1.0 { far / dt - end } else { 0.0 };
            e = over(e, steps as f32);
        }
        for c in 0..4 {
            light[c] += through * e[c];
        }
        through *= 1.0 - e[3];
        n += 1.0;
    }
    light
}

/// Index of a value in the table.
fn index(v: f32) -> usize {
    ((v * FINE as f32 + 0.5) as usize).min(ENTRIES - 1)
}

/// Light of `steps` steps, from that of one.
fn over(e: [f32; 4], steps: f32) -> [f32; 4] {
    if e[3] > 0.0 {
        let more = -((-e[3]).ln_1p() * steps).exp_m1() / e[3];
        return e.map(|c| c * more);
    }
    e
}

/// The value between eight voxels.
fn sample(arm: &VolumeMapped, voxels: &[u8], at: DVec3) -> f32 {
    let top = arm.dims.map(|n| n - 2);
    let cell: [usize; 3] = core::array::from_fn(|a| (at[a].max(0.0) as usize).min(top[a]));
    let f: [f32; 3] = core::array::from_fn(|a| (at[a] - cell[a] as f64) as f32);
    let (i, j) = (arm.components, arm.components * arm.dims[0]);
    let k = j * arm.dims[1];
    let base = cell[0] * i + cell[1] * j + cell[2] * k;
    let row = |at: usize| {
        let (a, b) = (f32::from(voxels[at]), f32::from(voxels[at + i]));
        a + f[0] * (b - a)
    };
    let plane = |at: usize| {
        let (a, b) = (row(at), row(at + j));
        a + f[1] * (b - a)
    };
    let (a, b) = (plane(base), plane(base + k));
    a + f[2] * (b - a)
}
