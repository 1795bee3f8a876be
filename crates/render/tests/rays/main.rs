//! Rays through volumes: against an exact reference in double precision, and equal bit for bit under all resources.

mod appearances;
mod crowded;
mod deadlines;
#[path = "../../../extract/tests/holes/mod.rs"]
mod holes;
mod lengths;
mod missing;
mod series;
mod shared_bricks;
mod stops;

use field::volume::{ArraySpec, ChannelSpec, LevelSpec, PlaceSpec, Volume, VolumeKind, VolumeSpec};
use kernels::draw::{srgb_to_linear, Camera, Lens};
use kernels::rays::{Clip, Manner, RaySetting, Scene, TransferFunction, VolumeAppearance, VoxelPaint};
use pager::source::simulated::{Simulated, Simulation};
use pager::{Pager, PagerConfig};
use render::raycast::{cast, CastOptions};
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

const DIMS: [usize; 3] = [61, 47, 53];
const SIZE: [u32; 2] = [72, 48];

/// Shells around the middle, in voxels of unequal edges.
fn value(i: usize, j: usize, k: usize) -> u8 {
    let at = [i as f64 / 60.0 - 0.5, j as f64 / 46.0 - 0.45, k as f64 / 52.0 - 0.55];
    let r = at.iter().map(|c| c * c).sum::<f64>().sqrt();
    (127.0 + 127.0 * (r * 25.0).cos() * (-r * 2.0).exp()) as u8
}

/// Numbers of all voxels, i fastest.
fn numbers([ni, nj, nk]: [usize; 3], value: &dyn Fn(usize, usize, usize) -> u8) -> Vec<u8> {
    (0..ni * nj * nk).map(|n| value(n % ni, n / ni % nj, n / ni / nj)).collect()
}

/// A file of these numbers, in chunks of `chunk` if given.
fn spec(folder: &std::path::Path, chunk: Option<[u64; 3]>) -> (VolumeSpec, Vec<Vec<u8>>) {
    spec_of(folder, chunk, 1)
}

/// The same as the first of several channels, interleaved in each voxel.
fn spec_of(folder: &std::path::Path, chunk: Option<[u64; 3]>, channels: usize) -> (VolumeSpec, Vec<Vec<u8>>) {
    spec_with(folder, DIMS, &value, chunk, channels)
}

/// The same with any numbers.
fn spec_with(
    folder: &std::path::Path,
    dims: [usize; 3],
    value: &dyn Fn(usize, usize, usize) -> u8,
    chunk: Option<[u64; 3]>,
    channels: usize,
) -> (VolumeSpec, Vec<Vec<u8>>) {
    let path = folder.join("volume.raw");
    let voxel = |v: u8| (0..channels).map(move |c| v.wrapping_add(67 * c as u8));
    let [ni, nj, nk] = dims;
    let mut table = Vec::new();
    let mut file = std::fs::File::create(&path).unwrap();
    let name = path.display().to_string();
    let place = match chunk {
        None => {
            file.write_all(&numbers(dims, value).into_iter().flat_map(voxel).collect::<Vec<_>>()).unwrap();
            PlaceSpec::Contiguous { file: name.clone(), offset: 0 }
        }
        Some([ck, cj, ci]) => {
            let (counts, mut offset) = ([nk as u64, nj as u64, ni as u64], 0u64);
            let n: Vec<u64> = counts.iter().zip([ck, cj, ci]).map(|(n, c)| n.div_ceil(c)).collect();
            for c in 0..n[0] * n[1] * n[2] {
                let first = [c / (n[1] * n[2]) * ck, c / n[2] % n[1] * cj, c % n[2] * ci];
                let mut bytes = Vec::new();
                for k in first[0]..first[0] + ck {
                    for j in first[1]..first[1] + cj {
                        for i in first[2]..first[2] + ci {
                            let inside = k < counts[0] && j < counts[1] && i < counts[2];
                            // Padding beyond the end is never used.
                            bytes.extend(voxel(if inside { value(i as usize, j as usize, k as usize) } else { 255 }));
                        }
                    }
                }
                file.write_all(&bytes).unwrap();
                for word in [0, offset, bytes.len() as u64] {
                    table.extend_from_slice(&word.to_le_bytes());
                }
                offset += bytes.len() as u64;
            }
            PlaceSpec::Table { files: vec![name.clone()], table: 0 }
        }
    };
    let last = usize::from(channels > 1);
    let array = ArraySpec {
        name: "volume".into(),
        dtype: "uint8".into(),
        big_endian: false,
        shape: [nk, nj, ni, channels].iter().take(3 + last).map(|n| *n as u64).collect(),
        axes: "zyxc"[..3 + last].into(),
        chunk: chunk.map(|[k, j, i]| [k, j, i, channels as u64][..3 + last].to_vec()),
        order: None,
        channels: (0..channels).collect(),
        fill: None,
        codecs: Vec::new(),
        place,
    };
    let channel = ChannelSpec::named("v");
    let level = LevelSpec {
        dims: dims.map(|n| n as u64),
        origin: [1.0, -2.0, 0.5],
        spacing: [0.5, 0.75, 0.6],
        arrays: vec![array],
    };
    let spec = VolumeSpec {
        path: name,
        format: "test".into(),
        guessed: Vec::new(),
        kind: if channels > 1 { VolumeKind::Channels } else { VolumeKind::Scalar },
        channels: vec![channel; channels],
        length_unit: "mm".into(),
        anatomy: None,
        direction: [[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0]],
        times: Vec::new(),
        time_units: "1".into(),
        levels: vec![level],
        ranges: None,
        label_colors: Default::default(),
    };
    (spec, if table.is_empty() { Vec::new() } else { vec![table] })
}

fn colours() -> Vec<(f64, [f32; 3])> {
    vec![(0.0, [0.1, 0.2, 0.9]), (128.0, [0.9, 0.4, 0.1]), (255.0, [1.0, 1.0, 0.9])]
}

fn opacities() -> Vec<(f64, f32)> {
    vec![(90.0, 0.0), (140.0, 0.06), (180.0, 0.0), (230.0, 0.5)]
}

fn cameras() -> Vec<Camera> {
    let (target, up, center) = ([8.0, 19.0, 16.0], [0.0, 0.0, 1.0], [0.5, 0.5]);
    let seen = |position: [f64; 3], lens| Camera { position, target, up, lens, center };
    vec![
        seen([60.0, -40.0, 40.0], Lens::Perspective { fov_degrees: 35.0 }),
        seen([-70.0, 60.0, -20.0], Lens::Orthographic { height: 50.0 }),
        // An eye in the volume.
        seen([9.0, 12.0, 12.0], Lens::Perspective { fov_degrees: 70.0 }),
    ]
}

/// Everything fits.
const AMPLE: u64 = 1 << 30;
/// Up to this limit no thread has room for the bricks of this small volume, and rays go page by page.
const LITTLE: u64 = 4 << 20;

const DT: f64 = 0.4;
const UNIT: f64 = 1.3;

/// How a picture is cast.
#[derive(Copy, Clone, Debug)]
struct How {
    chunk: Option<[u64; 3]>,
    limit: u64,
    workers: usize,
    skip: bool,
    channels: usize,
    /// Seed of late pages in random order.
    late: Option<u64>,
}

const HOW: How = How { chunk: None, limit: AMPLE, workers: 2, skip: true, channels: 1, late: None };

/// Opens the volume of [`spec_of`]. If `late`, its pages come late, in an order determined by the number.
fn opened(
    folder: &std::path::Path,
    (spec, tables): (VolumeSpec, Vec<Vec<u8>>),
    pager: &Arc<Pager>,
    late: Option<u64>,
) -> Volume {
    let opened = Volume::open_through(spec, tables, pager, &|source| match late {
        None => source,
        Some(seed) => {
            let latency = Duration::from_micros(20)..Duration::from_micros(900);
            let simulation = Simulation { seed, latency, depth: 3, shuffle: true, ..Simulation::default() };
            Arc::new(Simulated::new(std::fs::read(folder.join("volume.raw")).unwrap(), simulation).unwrap())
        }
    });
    opened.unwrap()
}

fn cast_with(camera: Camera, how: How) -> Vec<[f32; 4]> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Relaxed);
    let How { limit, workers, skip, .. } = how;
    let folder = std::env::temp_dir().join(format!("farfield-rays-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (spec, tables) = spec_of(&folder, how.chunk, how.channels);
    let pager = Pager::new(PagerConfig { limit, ..PagerConfig::default() }).unwrap();
    let volume = opened(&folder, (spec, tables), &pager, how.late);
    let transfer = TransferFunction::new(colours(), opacities()).unwrap();
    let look = VolumeAppearance {
        level: volume.levels[0].clone(),
        step: 0,
        paint: VoxelPaint::Scalar { channel: 0, transfer },
        clip: Clip::default(),
        manner: Manner::default(),
    };
    let scene = Scene::new(RaySetting { camera, size: SIZE, dt: DT, unit: UNIT, skip }, vec![look]).unwrap();
    let image = cast(
        &pager,
        &scene,
        &CastOptions { workers, rows: None, deadline: None, next: None, kept: None, coarse: None },
        &mut |_, _| true,
    )
    .unwrap();
    assert_eq!(image.gap_count(), 0);
    assert_eq!(image.counts.bricks > 0, limit > LITTLE, "bricks copied with {limit} bytes");
    std::fs::remove_dir_all(&folder).unwrap();
    image.rgba
}

fn node<T: Copy>(nodes: &[(f64, T)], v: f64, mix: impl Fn(T, T, f64) -> T) -> T {
    let n = nodes.partition_point(|c| c.0 <= v);
    match (n.checked_sub(1).map(|n| nodes[n]), nodes.get(n)) {
        (None, _) => nodes[0].1,
        (Some(a), None) => a.1,
        (Some(a), Some(b)) => mix(a.1, b.1, (v - a.0) / (b.0 - a.0)),
    }
}

/// The value of [`spec`]'s voxels.
fn number(i: usize, j: usize, k: usize) -> f64 {
    f64::from(value(i, j, k))
}

/// The part of a ray in the volume. The ray is at `from` + t `by` in voxel indices. With `eye` it begins at t = 0.
fn span(from: [f64; 3], by: [f64; 3], eye: bool) -> [f64; 2] {
    let mut span = [if eye { 0.0 } else { f64::NEG_INFINITY }, f64::INFINITY];
    for a in 0..3 {
        let ends = [0.0, DIMS[a] as f64 - 1.0].map(|end| (end - from[a]) / by[a]);
        span = [span[0].max(ends[0].min(ends[1])), span[1].min(ends[0].max(ends[1]))];
    }
    span
}

/// Places of a ray's samples in the volume, and the steps of each. The first and last extend to the volume's faces. A
/// part too short for a sample has one in the middle.
fn samples([low, high]: [f64; 2]) -> Vec<(f64, f64)> {
    if !(low < high) {
        return Vec::new();
    }
    let number = |t: f64| (t / DT - 0.5).ceil() as i64;
    let (first, last) = (number(low), number(high));
    if first == last {
        return vec![((low + high) / 2.0, (high - low) / DT)];
    }
    let of = |n: i64| {
        let before = if n == first { first as f64 - low / DT } else { 0.0 };
        let behind = if n == last - 1 { high / DT - last as f64 } else { 0.0 };
        ((n as f64 + 0.5) * DT, 1.0 + before + behind)
    };
    (first..last).map(of).collect()
}

/// A ray in voxel indices: its place at t = 0, its change by length, and its part in the volume.
struct TrueRay {
    from: [f64; 3],
    by: [f64; 3],
    span: [f64; 2],
    /// Length along the ray of a unit along the line of sight.
    along: f64,
}

impl TrueRay {
    fn at(&self, t: f64) -> [f64; 3] {
        std::array::from_fn(|a| self.from[a] + self.by[a] * t)
    }
}

/// The rays of all pixels, row by row.
fn rays(camera: &Camera) -> Vec<TrueRay> {
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let cross =
        |a: [f64; 3], b: [f64; 3]| [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    let unit = |a: [f64; 3]| a.map(|c| c / dot(a, a).sqrt());
    let forward = unit(std::array::from_fn(|c| camera.target[c] - camera.position[c]));
    let right = unit(cross(forward, camera.up));
    let up = cross(right, forward);
    let [w, h] = SIZE.map(f64::from);
    let index = |q: [f64; 3]| -> [f64; 3] {
        let axes = [[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0]];
        let spacing = [0.5, 0.75, 0.6];
        std::array::from_fn(|a| dot(q, axes[a]) / spacing[a])
    };
    let of = |n: u32| {
        let (u, v) = (f64::from(n % SIZE[0]) + 0.5 - w / 2.0, h / 2.0 - f64::from(n / SIZE[0]) - 0.5);
        let beside = |o: [f64; 3], s: f64| std::array::from_fn(|c| o[c] + right[c] * u * s + up[c] * v * s);
        let (o, d, eye) = match camera.lens {
            Lens::Perspective { fov_degrees } => {
                let s = (fov_degrees.to_radians() / 2.0).tan() * 2.0 / h;
                (camera.position, unit(beside(forward, s)), true)
            }
            Lens::Orthographic { height } => (beside(camera.position, height / h), forward, false),
        };
        let (from, by) = (index(std::array::from_fn(|c| o[c] - [1.0, -2.0, 0.5][c])), index(d));
        TrueRay { from, by, span: span(from, by, eye), along: 1.0 / dot(d, forward) }
    };
    (0..SIZE[0] * SIZE[1]).map(of).collect()
}

/// The picture of voxels with these values, sample by sample, with nothing skipped and no tables. A cell with a missing
/// corner (NaN) is invisible.
fn reference(camera: &Camera, value: impl Fn(usize, usize, usize) -> f64) -> Vec<[f64; 4]> {
    let mut all = Vec::new();
    for ray in rays(camera) {
        let mut sum = [0.0f64; 4];
        for (t, steps) in samples(ray.span) {
            let at = ray.at(t);
            let low: [usize; 3] = std::array::from_fn(|a| (at[a].max(0.0) as usize).min(DIMS[a] - 2));
            let f: [f64; 3] = std::array::from_fn(|a| at[a] - low[a] as f64);
            let mut value_here = 0.0;
            for c in 0..8usize {
                let on = |a: usize| c >> a & 1;
                let weight: f64 = (0..3).map(|a| if on(a) == 1 { f[a] } else { 1.0 - f[a] }).product();
                value_here += weight * value(low[0] + on(0), low[1] + on(1), low[2] + on(2));
            }
            if value_here.is_nan() {
                continue;
            }
            let opacity = f64::from(node(&opacities(), value_here, |a, b, f| a + (b - a) * f as f32));
            let srgb = node(&colours(), value_here, |a, b, f| std::array::from_fn(|c| a[c] + (b[c] - a[c]) * f as f32));
            let a = 1.0 - (1.0 - opacity).powf(DT / UNIT * steps);
            for c in 0..3 {
                sum[c] += (1.0 - sum[3]) * a * f64::from(srgb_to_linear(srgb[c]));
            }
            sum[3] += (1.0 - sum[3]) * a;
        }
        all.push(sum);
    }
    all
}

#[test]
fn pictures_are_those_of_an_exact_reference() {
    for camera in cameras() {
        let (found, wanted) = (cast_with(camera, HOW), reference(&camera, number));
        let seen = wanted.iter().filter(|p| p[3] > 0.05).count();
        assert!(seen > 300, "only {seen} pixels show anything");
        for (n, (a, b)) in found.iter().zip(&wanted).enumerate() {
            for c in 0..4 {
                let off = (f64::from(a[c]) - b[c]).abs();
                assert!(off < 2.0 / 255.0, "pixel {n} of {camera:?}: {a:?} for {b:?}");
            }
        }
    }
}

#[test]
fn pictures_are_equal_to_the_bit_whatever_the_means() {
    for camera in cameras() {
        let whole = cast_with(camera, How { limit: LITTLE, workers: 1, ..HOW });
        let bits = |v: &[[f32; 4]]| v.iter().flatten().map(|c| c.to_bits()).collect::<Vec<_>>();
        let equal = |how: How| assert!(bits(&cast_with(camera, how)) == bits(&whole), "{how:?}");
        let same = |chunk, limit, workers, skip| equal(How { chunk, limit, workers, skip, ..HOW });
        same(None, 8 << 20, 2, false);
        same(None, AMPLE, 1, true);
        same(Some([8, 8, 8]), AMPLE, 2, true);
        same(Some([13, 11, 9]), AMPLE, 2, false);
        same(Some([8, 8, 8]), 8 << 20, 2, true);
        same(Some([13, 11, 9]), 8 << 20, 2, true);
        same(None, LITTLE, 2, false);
        same(Some([8, 8, 8]), LITTLE, 2, true);
        same(Some([13, 11, 9]), LITTLE, 2, true);
        same(Some([32, 32, 32]), 2 << 20, 1, true);
        same(Some([53, 4, 61]), 3 << 20, 2, false);
        // Bricks straight from pages, which arrive one by one.
        for (seed, chunk) in [[32, 32, 32], [64, 32, 32], [32, 64, 64], [36, 32, 40]].into_iter().enumerate() {
            for (late, channels) in [(None, 1), (Some(seed as u64), 1), (Some(100 + seed as u64), 3)] {
                for skip in [true, false] {
                    equal(How { chunk: Some(chunk), late, channels, skip, ..HOW });
                }
            }
        }
    }
}
