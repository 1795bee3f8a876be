//! Rays with stops at several depths: equal bit for bit to rays that end at each of them.

use super::{cameras, colours, opacities, opened, spec_of, AMPLE, DT, SIZE, UNIT};
use kernels::rays::{
    Clip, Manner, Projection, RayLight, RaySetting, Scene, Shading, TransferFunction, VolumeAppearance, VoxelPaint,
    MOST_STOPS,
};
use pager::{Pager, PagerConfig};
use render::raycast::{cast_until, CastOptions, RayEnds, Stops};
use std::sync::Mutex;

/// Depths of a pixel in any order: some equal, some before the eye, some behind everything.
fn depths(x: u32, y: u32, to: &mut [f64; MOST_STOPS]) -> usize {
    let mut word = (u64::from(x) << 32 | u64::from(y)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = |most: u64| {
        word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (word >> 33) % most
    };
    let count = next(8) as usize;
    for n in 0..count {
        to[n] = match next(9) {
            0 => f64::INFINITY,
            1 => -3.0,
            2 if n > 0 => to[n - 1],
            _ => next(4000) as f64 * 0.025,
        };
    }
    count
}

fn light() -> Shading {
    Shading { ambient: [0.2; 3], lights: vec![([0.3, -0.5, 0.8], [0.9; 3])], specular: 0.3, power: 20.0 }
}

#[test]
fn rays_say_at_each_stop_what_rays_that_end_there_gather() {
    let folder = std::env::temp_dir().join(format!("farfield-stops-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    use Projection::{Composite, Maximum, Mean};
    // With bricks, and sample by sample: channels of one volume, the first of several lit.
    let cases: [(&[Projection], u64, Option<u64>); 9] = [
        (&[Composite], AMPLE, None),
        (&[Composite], 2 << 20, Some(5)),
        (&[Composite, Composite], AMPLE, Some(7)),
        (&[Maximum], AMPLE, None),
        (&[Maximum], 2 << 20, Some(5)),
        (&[Mean], AMPLE, None),
        (&[Mean], 2 << 20, Some(5)),
        (&[Composite, Mean], AMPLE, Some(7)),
        (&[Mean, Maximum], 2 << 20, None),
    ];
    for (projections, limit, late) in cases {
        for (n, camera) in cameras().into_iter().enumerate() {
            let pager = Pager::new(PagerConfig { limit, ..PagerConfig::default() }).unwrap();
            let volume = opened(&folder, spec_of(&folder, Some([32, 32, 32]), 2), &pager, late);
            let look = |channel: usize, projection: Projection| VolumeAppearance {
                level: volume.levels[0].clone(),
                step: 0,
                paint: VoxelPaint::Scalar { channel, transfer: TransferFunction::new(colours(), opacities()).unwrap() },
                clip: Clip::default(),
                manner: Manner {
                    shading: (projection == Composite && projections.len() > 1 && channel == 0).then(light),
                    projection,
                    ..Manner::default()
                },
            };
            let looks = projections.iter().enumerate().map(|(n, p)| look(n, *p)).collect();
            let setting = RaySetting { camera, size: SIZE, dt: DT, unit: UNIT, skip: true };
            let scene = Scene::new(setting, looks).unwrap();
            let options = CastOptions { workers: 2, rows: None, deadline: None, next: None, kept: None, coarse: None };
            let found: Mutex<Vec<Option<Vec<RayLight>>>> = Mutex::new(vec![None; (SIZE[0] * SIZE[1]) as usize]);
            let take = |[x, y]: [u32; 2], light: &[RayLight]| {
                let before = found.lock().unwrap()[(y * SIZE[0] + x) as usize].replace(light.to_vec());
                assert!(before.is_none(), "{x} {y} was told twice");
            };
            let at = |x: u32, y: u32, which: usize| {
                let mut each = [0.0; MOST_STOPS];
                let count = depths(x, y, &mut each);
                each[..count].get(which).copied()
            };
            let farthest = |x: u32, y: u32| (0..8).filter_map(|n| at(x, y, n)).fold(f64::NEG_INFINITY, f64::max);
            let stops = Stops { depths: &depths, most: 8, take: &take };
            let ends = RayEnds { depth: &farthest, wanted: None, stops: Some(stops) };
            let once = cast_until(&pager, &scene, &options, Some(ends), &mut |_, _| true).unwrap();
            let found = found.into_inner().unwrap();
            let bits = |c: [f32; 4]| c.map(f32::to_bits);
            let mut differ = 0;
            for which in 0..8 {
                let depth = |x: u32, y: u32| at(x, y, which).unwrap_or(f64::NEG_INFINITY);
                let ends = RayEnds { depth: &depth, wanted: None, stops: None };
                let image = cast_until(&pager, &scene, &options, Some(ends), &mut |_, _| true).unwrap();
                for (p, found) in found.iter().enumerate() {
                    let (x, y) = (p as u32 % SIZE[0], p as u32 / SIZE[0]);
                    let found = found.as_ref().unwrap_or_else(|| panic!("nothing was told of {x} {y}"));
                    assert_eq!(found.get(which).is_some(), at(x, y, which).is_some());
                    if let Some((light, gap)) = found.get(which) {
                        assert!(!gap);
                        assert_eq!(
                            bits(*light),
                            bits(image.rgba[p]),
                            "camera {n}, {x} {y}, depth {:?}",
                            at(x, y, which)
                        );
                        differ += usize::from(*light != once.rgba[p]);
                    }
                }
            }
            assert!(differ > 100, "depths of camera {n} hardly matter");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// All pixels of a tile may stop before the volume and nowhere else. Waiting rays report these stops, too.
#[test]
fn stops_before_the_volume_are_told_of_where_rays_wait() {
    let folder = std::env::temp_dir().join(format!("farfield-stops-before-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let depths = |x: u32, y: u32, to: &mut [f64; MOST_STOPS]| {
        to[0] = -1.0;
        to[1] = if x < SIZE[0] / 2 { f64::INFINITY } else { -2.0 };
        to[2] = 30.0;
        if y < SIZE[1] / 2 {
            2
        } else {
            3
        }
    };
    for camera in cameras() {
        let told = [AMPLE, 2 << 20].map(|limit| {
            let pager = Pager::new(PagerConfig { limit, ..PagerConfig::default() }).unwrap();
            let volume = opened(&folder, spec_of(&folder, Some([32, 32, 32]), 2), &pager, None);
            let look = VolumeAppearance {
                level: volume.levels[0].clone(),
                step: 0,
                paint: VoxelPaint::Scalar {
                    channel: 0,
                    transfer: TransferFunction::new(colours(), opacities()).unwrap(),
                },
                clip: Clip::default(),
                manner: Manner::default(),
            };
            let scene =
                Scene::new(RaySetting { camera, size: SIZE, dt: DT, unit: UNIT, skip: true }, vec![look]).unwrap();
            let options = CastOptions { workers: 2, rows: None, deadline: None, next: None, kept: None, coarse: None };
            let found: Mutex<Vec<Option<Vec<RayLight>>>> = Mutex::new(vec![None; (SIZE[0] * SIZE[1]) as usize]);
            let take = |[x, y]: [u32; 2], light: &[RayLight]| {
                found.lock().unwrap()[(y * SIZE[0] + x) as usize] = Some(light.to_vec());
            };
            let farthest = |x: u32, y: u32| {
                let mut each = [0.0; MOST_STOPS];
                let n = depths(x, y, &mut each);
                each[..n].iter().copied().fold(f64::NEG_INFINITY, f64::max)
            };
            let stops = Stops { depths: &depths, most: 8, take: &take };
            let ends = RayEnds { depth: &farthest, wanted: None, stops: Some(stops) };
            cast_until(&pager, &scene, &options, Some(ends), &mut |_, _| true).unwrap();
            assert!(pager.ledger().peak() <= limit);
            found.into_inner().unwrap()
        });
        let [all, within] = told;
        assert!(all.iter().all(Option::is_some));
        assert!(all == within);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
