//! Appearances beyond one channel through a transfer function: against an exact reference, and equal bit for bit under
//! all resources.

use super::{cameras, DIMS, DT, SIZE, UNIT};
use field::volume::{ArraySpec, ChannelSpec, LevelSpec, PlaceSpec, Volume, VolumeKind, VolumeLevel, VolumeSpec};
use kernels::draw::{srgb_to_linear, Camera, Lens};
use kernels::rays::{
    colour_of, Clip, ColourOpacity, Manner, Projection, RaySetting, Scene, Shading, TransferFunction, VolumeAppearance,
    VoxelPaint,
};
use pager::{Pager, PagerConfig};
use render::raycast::{cast, CastOptions, Image};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Numbers of voxels, by i, j, k and component.
pub(super) type VoxelNumbers = fn(usize, usize, usize, usize) -> f64;

pub(super) struct StoredVoxels {
    pub(super) dtype: &'static str,
    pub(super) components: usize,
    pub(super) value: VoxelNumbers,
}

impl StoredVoxels {
    fn bytes(&self, v: f64) -> Vec<u8> {
        match self.dtype {
            "uint8" => vec![v as u8],
            "uint64" => (v as u64).to_le_bytes().to_vec(),
            _ => (v as f32).to_le_bytes().to_vec(),
        }
    }

    fn number(&self, at: [usize; 3], c: usize) -> f64 {
        let v = (self.value)(at[0], at[1], at[2], c);
        match self.dtype {
            "uint8" => f64::from(v as u8),
            "uint64" => v,
            _ => f64::from(v as f32),
        }
    }

    /// The volume in pages of `chunk` (k, j, i), with a pager of its own.
    pub(super) fn open(
        &self,
        chunk: [u64; 3],
        limit: u64,
        name: &str,
    ) -> (Arc<Pager>, VolumeLevel, std::path::PathBuf) {
        let folder = std::env::temp_dir().join(format!(
            "farfield-looks-{name}-{}-{:?}-{chunk:?}-{limit}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("volume.raw");
        let [ni, nj, nk] = DIMS.map(|n| n as u64);
        let [ck, cj, ci] = chunk;
        let n = [nk.div_ceil(ck), nj.div_ceil(cj), ni.div_ceil(ci)];
        let (mut all, mut table) = (Vec::new(), Vec::new());
        for c in 0..n[0] * n[1] * n[2] {
            let first = [c / (n[1] * n[2]) * ck, c / n[2] % n[1] * cj, c % n[2] * ci];
            let begun = all.len() as u64;
            for k in first[0]..first[0] + ck {
                for j in first[1]..first[1] + cj {
                    for i in first[2]..first[2] + ci {
                        for component in 0..self.components {
                            let inside = k < nk && j < nj && i < ni;
                            let at = [i as usize, j as usize, k as usize];
                            let v = if inside { (self.value)(at[0], at[1], at[2], component) } else { 77.0 };
                            all.extend(self.bytes(v));
                        }
                    }
                }
            }
            for word in [0, begun, all.len() as u64 - begun] {
                table.extend_from_slice(&word.to_le_bytes());
            }
        }
        std::fs::write(&file, &all).unwrap();
        let mut shape = vec![nk, nj, ni];
        let mut chunk = chunk.to_vec();
        if self.components > 1 {
            shape.push(self.components as u64);
            chunk.push(self.components as u64);
        }
        let array = ArraySpec {
            name: "volume".into(),
            dtype: self.dtype.into(),
            big_endian: false,
            shape,
            axes: if self.components > 1 { "zyxc" } else { "zyx" }.into(),
            chunk: Some(chunk),
            order: None,
            channels: (0..self.components).collect(),
            fill: None,
            codecs: Vec::new(),
            place: PlaceSpec::Table { files: vec![file.display().to_string()], table: 0 },
        };
        let channel = |n: usize| ChannelSpec::named(format!("c{n}"));
        let spec = VolumeSpec {
            path: file.display().to_string(),
            format: "test".into(),
            guessed: Vec::new(),
            kind: [VolumeKind::Scalar, VolumeKind::Rgb, VolumeKind::Rgba][self.components.saturating_sub(2)],
            channels: (0..self.components).map(channel).collect(),
            length_unit: "mm".into(),
            anatomy: None,
            direction: [[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0]],
            times: Vec::new(),
            time_units: "1".into(),
            levels: vec![LevelSpec {
                dims: DIMS.map(|n| n as u64),
                origin: [1.0, -2.0, 0.5],
                spacing: [0.5, 0.75, 0.6],
                arrays: vec![array],
            }],
            ranges: None,
            label_colors: Default::default(),
        };
        let pager = Pager::new(PagerConfig { limit, ..PagerConfig::default() }).unwrap();
        let level = Volume::open(spec, vec![table], &pager).unwrap().levels[0].clone();
        (pager, level, folder)
    }
}

const SCALARS: StoredVoxels =
    StoredVoxels { dtype: "uint8", components: 1, value: |i, j, k, _| f64::from(super::value(i, j, k)) };
const FLOATS: StoredVoxels =
    StoredVoxels { dtype: "float32", components: 1, value: |i, j, k, _| f64::from(super::value(i, j, k)) };
/// A coloured ball in blue.
const COLOURS: StoredVoxels = StoredVoxels {
    dtype: "uint8",
    components: 3,
    value: |i, j, k, c| {
        let at = [i as f64 - 30.0, j as f64 - 22.0, k as f64 - 27.0];
        if at.iter().map(|v| v * v).sum::<f64>() > 400.0 {
            [20.0, 40.0, 220.0][c]
        } else {
            [200.0 - at[0] * 2.0, 90.0 + at[1] * 3.0, 60.0 + at[2]][c]
        }
    },
};
const NAMES: StoredVoxels = StoredVoxels {
    dtype: "uint64",
    components: 1,
    value: |i, j, k, _| {
        let cell = (i / 13) + (j / 11) * 5 + (k / 17) * 25;
        if cell % 3 == 0 {
            0.0
        } else {
            // Beyond single precision, in which neighbours would coincide.
            (1u64 << 40) as f64 + cell as f64
        }
    },
};

fn transfer() -> TransferFunction {
    TransferFunction::new(super::colours(), super::opacities()).unwrap()
}

fn shading() -> Shading {
    Shading { ambient: [0.2; 3], lights: vec![([0.3, -0.5, 0.8], [0.7, 0.8, 0.9])], specular: 0.3, power: 12.0 }
}

/// All manners by name, with their voxels.
fn manners() -> Vec<(&'static str, &'static StoredVoxels, VoxelPaint, Manner)> {
    let scalar = || VoxelPaint::Scalar { channel: 0, transfer: transfer() };
    let ramp = || {
        let transfer = TransferFunction::new(super::colours(), vec![(120.0, 0.0), (250.0, 1.0)]).unwrap();
        VoxelPaint::Scalar { channel: 0, transfer }
    };
    let colour = |opacity| VoxelPaint::Colour { channels: [0, 1, 2], limits: [[0.0, 255.0]; 3], opacity };
    let background = [20.0 / 255.0, 40.0 / 255.0, 220.0 / 255.0];
    let distance = ColourOpacity::Distance { from: background, nodes: vec![(0.05, 0.0), (0.2, 0.3), (1.0, 0.6)] };
    let manner = Manner::default;
    let project = |projection| Manner { projection, ..manner() };
    vec![
        ("lit", &SCALARS, scalar(), Manner { shading: Some(shading()), ..manner() }),
        ("lit floats", &FLOATS, scalar(), Manner { shading: Some(shading()), ..manner() }),
        ("nearest", &SCALARS, scalar(), Manner { nearest: true, ..manner() }),
        ("lit nearest", &SCALARS, scalar(), Manner { nearest: true, shading: Some(shading()), ..manner() }),
        ("maximum", &SCALARS, ramp(), project(Projection::Maximum)),
        ("mean", &FLOATS, ramp(), project(Projection::Mean)),
        ("maximum of floats", &FLOATS, ramp(), project(Projection::Maximum)),
        ("mean of bytes", &SCALARS, ramp(), project(Projection::Mean)),
        (
            "surface",
            &SCALARS,
            ramp(),
            Manner { shading: Some(shading()), ..project(Projection::Surface { value: 170.0 }) },
        ),
        ("colour", &COLOURS, colour(distance), manner()),
        (
            "bright",
            &COLOURS,
            colour(ColourOpacity::Luminance(vec![(0.3, 0.0), (0.9, 0.5)])),
            Manner { shading: Some(shading()), ..manner() },
        ),
        (
            "names",
            &NAMES,
            VoxelPaint::Labels {
                channel: 0,
                colours: vec![((1 << 40) + 7, [1.0, 0.0, 0.0])],
                only: vec![],
                opacity: 0.4,
            },
            manner(),
        ),
        (
            "some names",
            &NAMES,
            VoxelPaint::Labels {
                channel: 0,
                colours: vec![],
                only: vec![(1 << 40) + 7, (1 << 40) + 40, (1 << 40) + 62],
                opacity: 0.8,
            },
            Manner { shading: None, ..manner() },
        ),
    ]
}

pub(super) fn look(level: &VolumeLevel, paint: &VoxelPaint, manner: &Manner) -> VolumeAppearance {
    VolumeAppearance {
        level: level.clone(),
        step: 0,
        paint: paint.clone(),
        clip: Clip::default(),
        manner: manner.clone(),
    }
}

pub(super) fn picture(
    pager: &Arc<Pager>,
    camera: Camera,
    looks: Vec<VolumeAppearance>,
    workers: usize,
    skip: bool,
) -> Image {
    let scene = Scene::new(RaySetting { camera, size: SIZE, dt: DT, unit: UNIT, skip }, looks).unwrap();
    cast(
        pager,
        &scene,
        &CastOptions { workers, rows: None, deadline: None, next: None, kept: None, coarse: None },
        &mut |_, _| true,
    )
    .unwrap()
}

fn bits(v: &[[f32; 4]]) -> Vec<u32> {
    v.iter().flatten().map(|c| c.to_bits()).collect()
}

#[test]
fn every_manner_is_equal_to_the_bit_whatever_the_means() {
    for (name, stored, paint, manner) in manners() {
        let made = |chunk, limit, workers, skip, camera| {
            let (pager, level, folder) = stored.open(chunk, limit, name);
            let image = picture(&pager, camera, vec![look(&level, &paint, &manner)], workers, skip);
            assert_eq!(image.gap_count(), 0, "{name}");
            assert!(pager.ledger().peak() <= limit, "{name}");
            std::fs::remove_dir_all(folder).unwrap();
            image.rgba
        };
        for camera in cameras() {
            let whole = made([64, 64, 64], 64 << 20, 1, true, camera);
            let seen = whole.iter().filter(|p| p[3] > 0.05).count();
            assert!(seen > 100, "{name}: only {seen} pixels show anything");
            let arms = [
                ([64u64, 64, 64], 64 << 20, 2, false),
                ([8, 8, 8], 64 << 20, 2, true),
                ([13, 11, 9], 8 << 20, 2, true),
                ([53, 4, 61], 8 << 20, 1, true),
                ([2, 3, 5], 24 << 20, 2, true),
            ];
            for (chunk, limit, workers, skip) in arms {
                let again = made(chunk, limit, workers, skip, camera);
                assert!(
                    bits(&again) == bits(&whole),
                    "{name}: chunks {chunk:?}, {limit} bytes, {workers} workers, skip {skip}"
                );
            }
        }
    }
}

#[test]
fn one_channel_shown_twice_is_as_opaque_as_two() {
    // The code for several sources and that for one give the same bits for one source, and twice the light for two.
    let (pager, level, folder) = SCALARS.open([16, 16, 16], 64 << 20, "twice");
    let paint = VoxelPaint::Scalar { channel: 0, transfer: transfer() };
    // A light from everywhere changes nothing, but uses the other code.
    let still = Shading { ambient: [1.0; 3], lights: Vec::new(), specular: 0.0, power: 1.0 };
    let plain = Manner::default();
    let other = Manner { shading: Some(still), ..Manner::default() };
    for camera in cameras() {
        let one = picture(&pager, camera, vec![look(&level, &paint, &plain)], 2, true);
        let same = picture(&pager, camera, vec![look(&level, &paint, &other)], 2, true);
        for (a, b) in one.rgba.iter().zip(&same.rgba) {
            assert!((0..4).all(|c| (a[c] - b[c]).abs() < 1e-6), "{a:?} {b:?}");
        }
        let two = picture(&pager, camera, vec![look(&level, &paint, &plain); 2], 2, true);
        for (a, b) in one.rgba.iter().zip(&two.rgba) {
            let (through, both) = (1.0 - a[3], 1.0 - b[3]);
            assert!((both - through * through).abs() < 0.003, "{through} {both}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Positions of each pixel's samples in voxels, from the eye on, with the steps of each.
fn walk(camera: &Camera, mut each: impl FnMut(usize, &mut dyn Iterator<Item = ([f64; 3], f64)>)) {
    for (n, ray) in super::rays(camera).iter().enumerate() {
        each(n, &mut super::samples(ray.span).into_iter().map(|(t, steps)| (ray.at(t), steps)));
    }
}

fn between(stored: &StoredVoxels, at: [f64; 3], c: usize) -> f64 {
    let low: [usize; 3] = std::array::from_fn(|a| (at[a].max(0.0) as usize).min(DIMS[a] - 2));
    let f: [f64; 3] = std::array::from_fn(|a| at[a] - low[a] as f64);
    (0..8usize)
        .map(|n| {
            let on: [usize; 3] = std::array::from_fn(|a| n >> a & 1);
            let weight: f64 = (0..3).map(|a| if on[a] == 1 { f[a] } else { 1.0 - f[a] }).product();
            weight * stored.number(std::array::from_fn(|a| low[a] + on[a]), c)
        })
        .sum()
}

#[test]
fn colours_maxima_and_means_are_those_of_an_exact_reference() {
    let all = manners();
    let of = |name: &str| all.iter().find(|m| m.0 == name).unwrap();
    for name in ["colour", "maximum", "mean", "names"] {
        let (_, stored, paint, manner) = of(name);
        let (pager, level, folder) = stored.open([16, 16, 16], 64 << 20, &format!("exact {name}"));
        for camera in cameras().into_iter().filter(|c| matches!(c.lens, Lens::Perspective { .. })) {
            let found = picture(&pager, camera, vec![look(&level, paint, manner)], 2, true).rgba;
            let mut wrong = 0;
            walk(&camera, |n, places| {
                let wanted = match name {
                    "colour" => {
                        let mut sum = [0.0; 4];
                        for (at, steps) in places {
                            let p: [f64; 3] = std::array::from_fn(|c| between(stored, at, c) / 255.0);
                            let from = [20.0 / 255.0, 40.0 / 255.0, 220.0 / 255.0];
                            let d = ((0..3).map(|c| (p[c] - from[c]).powi(2)).sum::<f64>() / 3.0).sqrt();
                            let nodes = [(0.05, 0.0f32), (0.2, 0.3), (1.0, 0.6)];
                            let o = f64::from(super::node(&nodes, d, |a, b, f| a + (b - a) * f as f32));
                            let a = 1.0 - (1.0 - o).powf(DT / UNIT * steps);
                            for c in 0..3 {
                                sum[c] += (1.0 - sum[3]) * a * f64::from(srgb_to_linear(p[c] as f32));
                            }
                            sum[3] += (1.0 - sum[3]) * a;
                        }
                        sum
                    }
                    "names" => {
                        let mut sum = [0.0; 4];
                        for (at, steps) in places {
                            let v = stored.number(at.map(|x| (x + 0.5).floor() as usize), 0);
                            if v == 0.0 {
                                continue;
                            }
                            let own = if v as u64 == (1 << 40) + 7 { [1.0, 0.0, 0.0] } else { colour_of(v as u64) };
                            let a = 1.0 - 0.6f64.powf(DT / UNIT * steps);
                            for c in 0..3 {
                                sum[c] += (1.0 - sum[3]) * a * f64::from(srgb_to_linear(own[c]));
                            }
                            sum[3] += (1.0 - sum[3]) * a;
                        }
                        sum
                    }
                    _ => {
                        let values: Vec<[f64; 2]> = places.map(|(at, n)| [between(stored, at, 0), n]).collect();
                        if values.is_empty() {
                            return;
                        }
                        let v = match name {
                            "maximum" => values.iter().fold(f64::MIN, |a, b| a.max(b[0])),
                            _ => {
                                values.iter().map(|v| v[0] * v[1]).sum::<f64>()
                                    / values.iter().map(|v| v[1]).sum::<f64>()
                            }
                        };
                        let a = ((v - 120.0) / 130.0).clamp(0.0, 1.0);
                        let c = super::node(&super::colours(), v, |a, b, f| {
                            std::array::from_fn(|c| a[c] + (b[c] - a[c]) * f as f32)
                        });
                        let [r, g, b] = c.map(|c| f64::from(srgb_to_linear(c)) * a);
                        [r, g, b, a]
                    }
                };
                let off = (0..4).map(|c| (f64::from(found[n][c]) - wanted[c]).abs()).fold(0.0, f64::max);
                wrong += usize::from(off >= 2.0 / 255.0);
            });
            // A sample at the face of a voxel may fall to either side, and changes the label of a few pixels.
            let most = if name == "names" { 8 } else { 0 };
            assert!(wrong <= most, "{name}: {wrong} pixels are more than 2 of 255 off");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn light_falls_on_gradients_and_surfaces_as_it_should() {
    // Values rise along i alone, so the surface is a plane, lit by one normal.
    const RAMP: StoredVoxels = StoredVoxels { dtype: "float32", components: 1, value: |i, _, _, _| i as f64 };
    let (pager, level, folder) = RAMP.open([16, 16, 16], 64 << 20, "ramp");
    let transfer = TransferFunction::new(vec![(0.0, [1.0; 3])], vec![(0.0, 1.0)]).unwrap();
    let paint = VoxelPaint::Scalar { channel: 0, transfer };
    let lamp = [0.8, 0.6, 0.0];
    for (turned, light) in [(lamp, 1.0), ([-0.6, 0.8, 0.0], 0.0), ([0.8 * 0.6, 0.6 * 0.6, 0.8], 0.6)] {
        let lit = Shading { ambient: [0.1; 3], lights: vec![(turned, [0.5; 3])], specular: 0.0, power: 1.0 };
        let manner =
            Manner { projection: Projection::Surface { value: 30.25 }, shading: Some(lit), ..Manner::default() };
        // From above the plane, against the direction of falling values: the face is turned to the eye.
        let camera = Camera {
            position: [1.0 + 80.0 * 0.8, -2.0 + 80.0 * 0.6, 16.0],
            target: [8.0, 19.0, 16.0],
            up: [0.0, 0.0, 1.0],
            lens: Lens::Perspective { fov_degrees: 30.0 },
            center: [0.5, 0.5],
        };
        let image = picture(&pager, camera, vec![look(&level, &paint, &manner)], 1, true);
        let seen: Vec<_> = image.rgba.iter().filter(|p| p[3] > 0.0).collect();
        assert!(seen.len() > 500);
        for p in seen {
            let wanted = 0.1 + 0.5 * light;
            assert!(p[3] == 1.0 && (p[0] - wanted as f32).abs() < 1e-4, "{p:?} for {wanted}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_surface_at_a_plateau_is_seen_whatever_is_skipped() {
    // In single precision 0.7 is less than in double, but a value of 0.7 reaches it.
    const PLATEAU: StoredVoxels = StoredVoxels {
        dtype: "float32",
        components: 1,
        value: |i, j, k, _| {
            let at = [i as f64 - 30.0, j as f64 - 22.0, k as f64 - 27.0];
            if at.iter().map(|v| v * v).sum::<f64>() > 300.0 {
                0.0
            } else {
                0.7
            }
        },
    };
    let transfer = TransferFunction::new(vec![(0.0, [1.0; 3])], vec![(0.0, 1.0)]).unwrap();
    let paint = VoxelPaint::Scalar { channel: 0, transfer };
    let manner = Manner { projection: Projection::Surface { value: 0.7 }, ..Manner::default() };
    for camera in cameras() {
        let made = |chunk, skip| {
            let (pager, level, folder) = PLATEAU.open(chunk, 64 << 20, "plateau");
            let image = picture(&pager, camera, vec![look(&level, &paint, &manner)], 2, skip);
            std::fs::remove_dir_all(folder).unwrap();
            image.rgba
        };
        let all = made([16, 16, 16], false);
        assert!(all.iter().filter(|p| p[3] > 0.0).count() > 50);
        for chunk in [[16, 16, 16], [8, 8, 8], [64, 64, 64], [13, 11, 9]] {
            assert!(bits(&made(chunk, true)) == bits(&all), "{chunk:?}");
        }
    }
}

#[test]
fn a_lit_surface_does_not_depend_on_where_the_numbers_of_samples_begin() {
    let (pager, level, folder) = SCALARS.open([16, 16, 16], 64 << 20, "begin");
    let paint = VoxelPaint::Scalar { channel: 0, transfer: transfer() };
    let manner =
        Manner { projection: Projection::Surface { value: 170.0 }, shading: Some(shading()), ..Manner::default() };
    // So many steps further away, samples have other numbers but the same places.
    let seen = |steps: i32| {
        let away = 90.0 + f64::from(steps) * super::DT;
        let camera = Camera {
            position: [30.0, 24.0 - away, 26.0],
            target: [30.0, 24.0, 26.0],
            up: [0.0, 0.0, 1.0],
            lens: Lens::Orthographic { height: 50.0 },
            center: [0.5, 0.5],
        };
        picture(&pager, camera, vec![look(&level, &paint, &manner)], 1, true)
    };
    let first = seen(0);
    assert!(first.rgba.iter().filter(|p| p[3] > 0.0).count() > 500);
    for steps in [1, 17, 40] {
        let other = seen(steps);
        let off = first.rgba.iter().zip(&other.rgba).flat_map(|(a, b)| (0..4).map(|c| (a[c] - b[c]).abs()));
        let most = off.fold(0.0, f32::max);
        assert!(most < 0.01, "{most} off, {steps} steps further away");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn with_time_enough_a_hurried_picture_is_the_picture_and_without_it_says_so() {
    let (pager, level, folder) = SCALARS.open([16, 16, 16], 64 << 20, "hurried");
    let paint = VoxelPaint::Scalar { channel: 0, transfer: transfer() };
    for camera in cameras() {
        let setting = RaySetting { camera, size: SIZE, dt: DT, unit: UNIT, skip: true };
        let scene = Scene::new(setting, vec![look(&level, &paint, &Manner::default())]).unwrap();
        let cast_by = |deadline, rows| {
            cast(
                &pager,
                &scene,
                &CastOptions { workers: 2, rows, deadline, next: None, kept: None, coarse: None },
                &mut |_, _| true,
            )
            .unwrap()
        };
        let whole = cast_by(None, None);
        let hurried = cast_by(Some(Instant::now() + Duration::from_secs(600)), None);
        assert_eq!((hurried.filled, whole.filled), (0, 0));
        assert!(bits(&whole.rgba) == bits(&hurried.rgba));
        // The first row of the part belongs to no coarse grid.
        let part = cast_by(Some(Instant::now() + Duration::from_secs(600)), Some(13..37));
        let width = SIZE[0] as usize;
        assert!(bits(&part.rgba) == bits(&whole.rgba[13 * width..37 * width]));
        let late = cast_by(Some(Instant::now()), None);
        assert!(late.filled > 0 && late.rgba.len() == whole.rgba.len());
    }
    std::fs::remove_dir_all(folder).unwrap();
}
