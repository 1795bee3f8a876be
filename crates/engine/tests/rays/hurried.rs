//! Pictures by a time, of pages that come late: whatever is there by then is part of the picture, and it becomes the picture without a time.

use super::{cameras, colours, opacities, opened, spec, SIZE};
use engine::raycast::{cast, CastOptions};
use kernels::rays::{Clip, Look, Manner, Paint, Scene, Setting, TransferFunction};
use pager::{Pager, PagerConfig};
use std::time::{Duration, Instant};

#[test]
fn a_hurried_picture_shows_no_more_than_there_is_and_becomes_the_picture() {
    let folder = std::env::temp_dir().join(format!("farfield-rays-hurried-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let made = spec(&folder, Some([8, 8, 8]));
    let picture = |late: Option<u64>, allowed: Option<Duration>| {
        // Nothing is there of the picture before.
        let pager = Pager::new(PagerConfig { limit: 64 << 20, ..PagerConfig::default() }).unwrap();
        let volume = opened(&folder, made.clone(), &pager, late);
        let look = Look {
            level: volume.levels[0].clone(),
            step: 0,
            paint: Paint::Scalar { channel: 0, transfer: TransferFunction::new(colours(), opacities()).unwrap() },
            clip: Clip::default(),
            manner: Manner::default(),
        };
        let setting = Setting { camera: cameras()[0], size: SIZE, dt: 0.3, unit: 1.0, skip: true };
        let scene = Scene::new(setting, vec![look]).unwrap();
        let deadline = allowed.map(|time| Instant::now() + time);
        let options = CastOptions { workers: 2, rows: None, deadline, next: None, kept: None };
        cast(&pager, &scene, &options, &mut |_, _| true).unwrap()
    };
    let bits = |rgba: &[[f32; 4]]| rgba.iter().flatten().map(|c| c.to_bits()).collect::<Vec<_>>();
    let whole = picture(None, None);
    let most: [f32; 4] = core::array::from_fn(|c| whole.rgba.iter().map(|p| p[c]).fold(0.0, f32::max));
    let mut allowed = Duration::from_millis(1);
    for seed in 1.. {
        let by_then = picture(Some(seed), Some(allowed));
        // What lies between pixels is no brighter than they, and a ray that has come a part of its way has gathered less than all.
        let within = |p: &[f32; 4]| p.iter().zip(most).all(|(c, most)| (0.0..=most + 1e-5).contains(c));
        assert!(by_then.rgba.iter().all(within), "{allowed:?}");
        if by_then.filled == 0 {
            assert!(bits(&by_then.rgba) == bits(&whole.rgba));
            break;
        }
        assert!(allowed < Duration::from_secs(100), "{} are not there", by_then.filled);
        allowed = allowed.mul_f64(1.6);
    }
    std::fs::remove_dir_all(folder).unwrap();
}
