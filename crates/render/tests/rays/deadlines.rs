//! Pictures with a deadline, of late pages: finished rays belong to the picture, and with enough time it equals one
//! without a deadline.

use super::{cameras, colours, opacities, opened, spec, spec_with, value, DIMS, SIZE};
use field::volume::Volume;
use kernels::rays::{
    Clip, Manner, Projection, RayLight, RaySetting, Scene, TransferFunction, VolumeAppearance, VoxelPaint, MOST_STOPS,
};
use pager::source::simulated::{Simulated, Simulation};
use pager::{Pager, PagerConfig};
use render::raycast::{cast, cast_until, CastOptions, Coarse, RayEnds, Stops};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn a_hurried_picture_shows_no_more_than_there_is_and_becomes_the_picture() {
    for projection in
        [Projection::Composite, Projection::Maximum, Projection::Mean, Projection::Surface { value: 150.0 }]
    {
        hurried(projection);
    }
}

/// A volume as the first camera sees it, with samples `dt` apart.
fn scene_of(volume: &Volume, projection: Projection, dt: f64) -> Arc<Scene> {
    let look = VolumeAppearance {
        level: volume.levels[0].clone(),
        step: 0,
        paint: VoxelPaint::Scalar { channel: 0, transfer: TransferFunction::new(colours(), opacities()).unwrap() },
        clip: Clip::default(),
        manner: Manner { projection, ..Manner::default() },
    };
    let setting = RaySetting { camera: cameras()[0], size: SIZE, dt, unit: 1.0, skip: true };
    Scene::new(setting, vec![look]).unwrap()
}

fn hurried(projection: Projection) {
    let folder = std::env::temp_dir().join(format!("farfield-rays-hurried-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let made = spec(&folder, Some([8, 8, 8]));
    let picture = |late: Option<u64>, allowed: Option<Duration>| {
        // No page of the previous picture is resident.
        let pager = Pager::new(PagerConfig { limit: 64 << 20, ..PagerConfig::default() }).unwrap();
        let volume = opened(&folder, made.clone(), &pager, late);
        let scene = scene_of(&volume, projection, 0.3);
        let deadline = allowed.map(|time| Instant::now() + time);
        let options = CastOptions { workers: 2, rows: None, deadline, next: None, kept: None, coarse: None };
        cast(&pager, &scene, &options, &mut |_, _| true).unwrap()
    };
    let whole = picture(None, None);
    let most: [f32; 4] = core::array::from_fn(|c| whole.rgba.iter().map(|p| p[c]).fold(0.0, f32::max));
    let mut allowed = Duration::from_millis(1);
    for seed in 1.. {
        let by_then = picture(Some(seed), Some(allowed));
        // Interpolated pixels are no brighter than their neighbours, and an unfinished ray has less light than a
        // finished one.
        let within = |p: &[f32; 4]| p.iter().zip(most).all(|(c, most)| (0.0..=most + 1e-5).contains(c));
        assert!(by_then.rgba.iter().all(within), "{projection:?}, {allowed:?}");
        // Pixels that are not counted as filled are final.
        let differ = by_then.rgba.iter().zip(&whole.rgba).filter(|(a, b)| a.map(f32::to_bits) != b.map(f32::to_bits));
        let differ = differ.count() as u64;
        assert!(differ <= by_then.filled, "{projection:?}, {allowed:?}: {differ} differ, {} filled", by_then.filled);
        if by_then.filled == 0 {
            break;
        }
        assert!(allowed < Duration::from_secs(100), "{} are not there", by_then.filled);
        allowed = allowed.mul_f64(1.6);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// With late pages, pixels with reported stops equal those of a picture without a deadline. A projection shows nothing
/// before the ends of its rays.
#[test]
fn stops_by_a_time_are_told_of_whole_pixels_alone() {
    let folder = std::env::temp_dir().join(format!("farfield-rays-hurried-stops-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let made = spec(&folder, Some([8, 8, 8]));
    let depths = |x: u32, y: u32, to: &mut [f64; MOST_STOPS]| {
        let each = [30.0 + f64::from(x % 7) * 5.0, 55.0 + f64::from(y % 5) * 4.0, f64::INFINITY];
        to[..3].copy_from_slice(&each);
        3
    };
    let infinite = |_: u32, _: u32| f64::INFINITY;
    for projection in [Projection::Composite, Projection::Maximum, Projection::Mean] {
        let cast = |late: Option<u64>, allowed: Option<Duration>| {
            let pager = Pager::new(PagerConfig { limit: 64 << 20, ..PagerConfig::default() }).unwrap();
            let volume = opened(&folder, made.clone(), &pager, late);
            let scene = scene_of(&volume, projection, 0.3);
            let told: Mutex<Vec<Option<Vec<RayLight>>>> = Mutex::new(vec![None; (SIZE[0] * SIZE[1]) as usize]);
            let take = |[x, y]: [u32; 2], light: &[RayLight]| {
                let before = told.lock().unwrap()[(y * SIZE[0] + x) as usize].replace(light.to_vec());
                assert!(before.is_none(), "{x} {y} was told twice");
            };
            let stops = Stops { depths: &depths, most: 3, take: &take };
            let ends = RayEnds { depth: &infinite, wanted: None, stops: Some(stops) };
            let deadline = allowed.map(|time| Instant::now() + time);
            let options = CastOptions { workers: 2, rows: None, deadline, next: None, kept: None, coarse: None };
            let image = cast_until(&pager, &scene, &options, Some(ends), &mut |_, _| true).unwrap();
            (image, told.into_inner().unwrap())
        };
        let (whole, all) = cast(None, None);
        assert!(all.iter().all(Option::is_some));
        let (mut allowed, mut in_the_middle) = (Duration::from_millis(1), 0);
        for seed in 1.. {
            let (by_then, told) = cast(Some(seed), Some(allowed));
            let here = told.iter().flatten().count();
            for (p, (found, wanted)) in told.iter().zip(&all).enumerate() {
                assert!(found.is_none() || found == wanted, "{projection:?}, {allowed:?}, pixel {p}");
                let same = by_then.rgba[p].map(f32::to_bits) == whole.rgba[p].map(f32::to_bits);
                assert!(found.is_none() || same, "{projection:?}, {allowed:?}, pixel {p}");
            }
            assert!((told.len() - here) as u64 <= by_then.filled, "{here} told, {} filled", by_then.filled);
            in_the_middle += usize::from(here > 0 && here < told.len());
            if by_then.filled == 0 {
                break;
            }
            assert!(allowed < Duration::from_secs(100), "{} are not there", by_then.filled);
            allowed = allowed.mul_f64(1.3);
        }
        assert!(in_the_middle > 0, "no picture of {projection:?} ended in the middle");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Pages of the shown level come too late, but those of a coarser level are resident.
#[test]
fn a_coarser_level_is_seen_where_nothing_else_came_in_time() {
    let folder = std::env::temp_dir().join(format!("farfield-rays-coarser-{}", std::process::id()));
    let beside = folder.join("coarse");
    std::fs::create_dir_all(&beside).unwrap();
    let finest = spec(&folder, Some([8, 8, 8]));
    let half = |i, j, k| value(2 * i, 2 * j, 2 * k);
    let mut coarse = spec_with(&beside, DIMS.map(|n| n.div_ceil(2)), &half, None, 1);
    let place = &finest.0.levels[0];
    (coarse.0.levels[0].origin, coarse.0.levels[0].spacing) = (place.origin, place.spacing.map(|s| 2.0 * s));
    let pager = || Pager::new(PagerConfig { limit: 64 << 20, ..PagerConfig::default() }).unwrap();
    let scene_of = |volume: Volume, dt| scene_of(&volume, Projection::Composite, dt);
    let picture = |latency: Duration, allowed: Option<Duration>, stride: Option<u32>| {
        let pager = pager();
        let simulation = Simulation { latency: latency..latency + Duration::from_micros(1), ..Simulation::default() };
        let late = |_| -> Arc<dyn pager::source::Source> {
            Arc::new(Simulated::new(std::fs::read(folder.join("volume.raw")).unwrap(), simulation.clone()).unwrap())
        };
        let (spec, tables) = finest.clone();
        let scene = scene_of(Volume::open_through(spec, tables, &pager, &late).unwrap(), 0.3);
        let under = scene_of(opened(&beside, coarse.clone(), &pager, None), 0.6);
        let coarse = stride.map(|stride| Coarse { scene: under, stride, by: None });
        let deadline = allowed.map(|time| Instant::now() + time);
        let options = CastOptions { workers: 2, rows: None, deadline, next: None, kept: None, coarse };
        cast(&pager, &scene, &options, &mut |_, _| true).unwrap()
    };
    let bits = |p: [f32; 4]| p.map(f32::to_bits);
    let soon = Duration::from_micros(10);
    let whole = picture(soon, None, Some(2));
    let pager = pager();
    let options = CastOptions { workers: 2, rows: None, deadline: None, next: None, kept: None, coarse: None };
    let under = scene_of(opened(&beside, coarse.clone(), &pager, None), 0.6);
    let under = cast(&pager, &under, &options, &mut |_, _| true).unwrap();

    let late = picture(Duration::from_secs(4), Some(Duration::from_secs(1)), Some(2));
    // Except rays of the first grid that miss everything and lack nothing. Its stride is twice that of the coarser
    // level.
    let first = (0..SIZE[1]).step_by(4).flat_map(|y| (0..SIZE[0]).step_by(4).map(move |x| (y * SIZE[0] + x) as usize));
    let misses = first.filter(|n| whole.rgba[*n][3] == 0.0).count() as u64;
    assert!(late.filled >= u64::from(SIZE[0] * SIZE[1]) - misses, "{} are filled, {misses} miss", late.filled);
    let mut shown = 0;
    for (n, (found, wanted)) in late.rgba.iter().zip(&under.rgba).enumerate() {
        let (x, y) = (n % SIZE[0] as usize, n / SIZE[0] as usize);
        if x % 2 == 0 && y % 2 == 0 {
            let misses = *found == [0.0; 4] && whole.rgba[n] == [0.0; 4];
            assert!(misses || bits(*found) == bits(*wanted), "{x} {y}: {found:?}, and not {wanted:?}");
            shown += usize::from(found[3] > 0.1);
        }
    }
    assert!(shown > 100, "{shown} pixels show something");

    let ample = picture(soon, Some(Duration::from_secs(600)), Some(2));
    assert_eq!(ample.filled, 0);
    assert!(ample.rgba.iter().zip(&whole.rgba).all(|(a, b)| bits(*a) == bits(*b)));
    std::fs::remove_dir_all(folder).unwrap();
}
