//! A volume larger than memory, cast repeatedly while pages come and go under the bricks of several threads: always the
//! same picture. Errors here depend on the timing of two threads, so `make soak` repeats the runs.

use super::{colours, opened, spec_with};
use field::volume::{Placement, VolumeLevel, VolumeSpec};
use kernels::draw::{Camera, Lens};
use kernels::rays::{
    Clip, Manner, Projection, RaySetting, Scene, Shading, TransferFunction, VolumeAppearance, VoxelPaint,
};
use pager::{Pager, PagerConfig};
use render::raycast::{cast, CastOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Whole pages: 85 MB, where memory for bricks begins at 48 MiB.
const LARGE: [usize; 3] = [480, 448, 416];
const PAGE: [u64; 3] = [32; 3];

type CrowdSpec = (VolumeSpec, Vec<Vec<u8>>);

/// A body in invisible noise, with specks. Most bricks at its surface show something only in some of their pages.
fn body(i: usize, j: usize, k: usize) -> u8 {
    let far: f64 =
        [(i, 240.0), (j, 220.0), (k, 200.0)].map(|(n, middle)| ((n as f64 - middle) / middle).powi(2)).iter().sum();
    let noise = ((i * 7 + j * 13 + k * 29) % 5) as u8;
    match (far < 0.45, (i * 31 + j * 17 + k * 5) % 39_979) {
        (true, _) => 140 + 20 * noise,
        (_, 7) => 160,
        _ => 34 + noise,
    }
}

fn manners() -> [(&'static str, Manner); 4] {
    let of = |projection| Manner { projection, ..Manner::default() };
    let lights = vec![([0.3, -0.8, 0.5], [0.7; 3])];
    let shading = Shading { ambient: [0.3; 3], lights, specular: 0.2, power: 20.0 };
    [
        ("light", Manner::default()),
        ("shaded", Manner { shading: Some(shading), ..Manner::default() }),
        ("maximum", of(Projection::Maximum)),
        ("surface", of(Projection::Surface { value: 120.0 })),
    ]
}

/// Bits of a picture, and number of copied bricks.
fn picture(pager: &Arc<Pager>, level: &VolumeLevel, manner: &Manner, workers: usize) -> (Vec<u32>, u64) {
    // So near that neighbouring rays are two to four voxels apart. Rays further apart use no bricks.
    let camera = ([430.0, -700.0, 300.0], 21.0);
    picture_of(pager, level, (LARGE, camera, [224, 216]), manner, workers)
}

/// An eye, relative to the volume's middle, and its angle of view.
type From = ([f64; 3], f64);

fn picture_of(
    pager: &Arc<Pager>,
    level: &VolumeLevel,
    (dims, (from, fov_degrees), size): ([usize; 3], From, [u32; 2]),
    manner: &Manner,
    workers: usize,
) -> (Vec<u32>, u64) {
    // So thin that rays pass the whole volume.
    let opacities = vec![(0.0, 0.0), (99.0, 0.0), (100.0, 0.004), (255.0, 0.02)];
    let look = VolumeAppearance {
        level: level.clone(),
        step: 0,
        paint: VoxelPaint::Scalar { channel: 0, transfer: TransferFunction::new(colours(), opacities).unwrap() },
        clip: Clip::default(),
        manner: manner.clone(),
    };
    let Placement { origin, axes } = level.placement;
    let target: [f64; 3] =
        core::array::from_fn(|a| origin[a] + (0..3).map(|n| 0.5 * dims[n] as f64 * axes[n][a]).sum::<f64>());
    let position = core::array::from_fn(|a| target[a] + from[a]);
    let lens = Lens::Perspective { fov_degrees };
    let camera = Camera { position, target, up: [0.0, 0.0, 1.0], lens, center: [0.5; 2] };
    let setting = RaySetting { camera, size, dt: 0.4, unit: 1.0, skip: true };
    let scene = Scene::new(setting, vec![look]).unwrap();
    let options = CastOptions { workers, rows: None, deadline: None, next: None, kept: None, coarse: None };
    let image = cast(pager, &scene, &options, &mut |_, _| true).unwrap();
    assert_eq!(image.gap_count(), 0);
    (image.rgba.iter().flatten().map(|c| c.to_bits()).collect(), image.counts.bricks)
}

/// One pager for each limit, so that a picture begins with the pages of the previous one.
fn pictures_are(alone: &[Vec<u32>], folder: &Path, spec: &CrowdSpec, limit: u64, late: Option<u64>) {
    let pager = Pager::new(PagerConfig { limit, ..PagerConfig::default() }).unwrap();
    let volume = opened(folder, spec.clone(), &pager, late);
    let workers = 2 + usize::from(late.is_some());
    for ((name, manner), alone) in manners().iter().zip(alone) {
        let (bits, bricks) = picture(&pager, &volume.levels[0], manner, workers);
        let other = bits.iter().zip(alone).filter(|(a, b)| a != b).count();
        assert!(other == 0, "{name}, within {limit} bytes, {late:?}: {other} numbers of {} are others", bits.len());
        assert!(
            bricks > 0 || ["shaded", "surface"].contains(name),
            "{name}, within {limit} bytes: no brick was copied"
        );
    }
    assert!(pager.evictions() > 0 && pager.ledger().peak() <= limit);
}

#[test]
fn pictures_are_the_same_however_often_pages_come_and_go_under_bricks() {
    let folder = std::env::temp_dir().join(format!("farfield-rays-crowded-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let spec = spec_with(&folder, LARGE, &body, Some(PAGE), 1);
    let pager = Pager::new(PagerConfig { limit: 1 << 30, ..PagerConfig::default() }).unwrap();
    let volume = opened(&folder, spec.clone(), &pager, None);
    let alone: Vec<_> = manners().iter().map(|(_, manner)| picture(&pager, &volume.levels[0], manner, 1).0).collect();
    assert_eq!(pager.evictions(), 0);
    let begun = Instant::now();
    let soak_s = std::env::var("FARFIELD_SOAK_S").ok().and_then(|v| v.parse().ok()).unwrap_or(0.0);
    let mut seed = 1;
    loop {
        for limit in [50 << 20, 64 << 20] {
            pictures_are(&alone, &folder, &spec, limit, None);
            pictures_are(&alone, &folder, &spec, limit, Some(seed));
            seed += 1;
        }
        if begun.elapsed().as_secs_f64() >= soak_s {
            break;
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Pages of whole rows: the rays of a tile need several times as many as fit.
#[test]
fn a_tile_may_come_to_more_pages_than_fit() {
    const DIMS: [usize; 3] = [640, 160, 160];
    let value = |i: usize, j: usize, k: usize| {
        (128.0 + 60.0 * (i as f64 * 0.05).sin() * (j as f64 * 0.07).cos() + 60.0 * (k as f64 * 0.09).sin()) as u8
    };
    let folder = std::env::temp_dir().join(format!("farfield-rays-narrow-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let spec = spec_with(&folder, DIMS, &value, None, 1);
    let view = (DIMS, ([330.0, -480.0, 260.0], 30.0), [64, 48]);
    for (name, manner) in manners() {
        let bits = |limit: u64| {
            let pager = Pager::new(PagerConfig { limit, ..PagerConfig::default() }).unwrap();
            let volume = opened(&folder, spec.clone(), &pager, None);
            let (bits, _) = picture_of(&pager, &volume.levels[0], view, &manner, 2);
            (bits, pager.ledger().peak(), pager.evictions())
        };
        let (alone, ..) = bits(256 << 20);
        for limit in [2 << 20, 3 << 20, 5 << 20, 8 << 20] {
            let (bits, peak, evictions) = bits(limit);
            assert!(bits == alone, "{name}, within {limit} bytes: another picture");
            assert!(peak <= limit, "{name}: {peak} bytes within {limit}");
            // The first solid place lies in few of the pages.
            assert!(evictions > 0 || limit > 2 << 20, "{name}, within {limit} bytes: all fits");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}
