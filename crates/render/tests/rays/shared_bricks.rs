//! Pictures that share bricks: equal bit for bit to pictures cast alone.

use super::{cameras, colours, opacities, opened, spec_of, AMPLE, DT, SIZE, UNIT};
use kernels::rays::{Clip, Manner, RaySetting, Scene, TransferFunction, VolumeAppearance, VoxelPaint};
use pager::{ChargeKind, Pager, PagerConfig};
use render::raycast::{cast, CastOptions, SharedBricks};
use std::path::Path;
use std::sync::Arc;

/// A view: camera, transfer function, channel, and number of threads.
#[derive(Copy, Clone, Debug)]
struct ViewCase {
    camera: usize,
    shift: f64,
    channel: usize,
    workers: usize,
}

const fn seen(camera: usize, shift: f64, channel: usize, workers: usize) -> ViewCase {
    ViewCase { camera, shift, channel, workers }
}

/// Views from another place, repeated views, another function that shows other blocks, another channel, fewer and more
/// threads.
const FILM: [ViewCase; 10] = [
    seen(0, 0.0, 0, 1),
    seen(1, 0.0, 0, 1),
    seen(1, 0.0, 0, 1),
    seen(2, 0.0, 0, 1),
    seen(0, 60.0, 0, 1),
    seen(1, 60.0, 0, 2),
    seen(2, 60.0, 1, 3),
    seen(0, 0.0, 1, 3),
    seen(1, 0.0, 0, 2),
    seen(0, 0.0, 0, 2),
];

/// Bits of all pictures, bricks copied for each, and bytes that remain charged.
fn film(folder: &Path, limit: u64, late: Option<u64>, kept: bool) -> (Vec<Vec<u32>>, Vec<u64>, u64) {
    let pager = Pager::new(PagerConfig { limit, ..PagerConfig::default() }).unwrap();
    let volume = opened(folder, spec_of(folder, Some([32, 32, 32]), 2), &pager, late);
    let keeping = kept.then(|| Arc::new(SharedBricks::default()));
    let picture = |ViewCase { camera, shift, channel, workers }: ViewCase| {
        let opacities = opacities().into_iter().map(|(v, o)| (v - shift, o)).collect();
        let look = VolumeAppearance {
            level: volume.levels[0].clone(),
            step: 0,
            paint: VoxelPaint::Scalar { channel, transfer: TransferFunction::new(colours(), opacities).unwrap() },
            clip: Clip::default(),
            manner: Manner::default(),
        };
        let setting = RaySetting { camera: cameras()[camera], size: SIZE, dt: DT, unit: UNIT, skip: true };
        let scene = Scene::new(setting, vec![look]).unwrap();
        let options =
            CastOptions { workers, rows: None, deadline: None, next: None, kept: keeping.clone(), coarse: None };
        let image = cast(&pager, &scene, &options, &mut |_, _| true).unwrap();
        let bits: Vec<u32> = image.rgba.iter().flatten().map(|c| c.to_bits()).collect();
        (bits, image.counts.bricks)
    };
    let (pictures, bricks): (Vec<_>, Vec<_>) = FILM.into_iter().map(&picture).unzip();
    assert!(pager.ledger().peak() <= limit);
    if limit == AMPLE {
        // A lower limit releases bricks kept under the previous one.
        pager.set_limit(16 << 20);
        assert!(picture(FILM[9]).0 == pictures[9] && pager.ledger().used() <= 16 << 20);
        pager.set_limit(limit);
        picture(FILM[9]);
    }
    let kept = pager.ledger().of(ChargeKind::Tables);
    drop(keeping);
    let left = pager.ledger().of(ChargeKind::Tables);
    (pictures, bricks, kept - left)
}

#[test]
fn pictures_that_keep_bricks_for_each_other_are_those_that_are_cast_alone() {
    let folder = std::env::temp_dir().join(format!("farfield-rays-kept-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (alone, all, none) = film(&folder, AMPLE, None, false);
    assert_eq!(none, 0);
    // Room for bricks, room for none, and pages that come and go.
    for (limit, late) in [(AMPLE, None), (AMPLE, Some(7)), (40 << 20, Some(8)), (2 << 20, None), (2 << 20, Some(9))] {
        let (pictures, bricks, charged) = film(&folder, limit, late, true);
        for (n, (a, b)) in pictures.iter().zip(&alone).enumerate() {
            assert!(a == b, "picture {n} within {limit} bytes, {late:?}");
        }
        assert!(charged < limit / 3, "{charged} of {limit} bytes");
        if limit == AMPLE && late.is_none() {
            // One thread has all bricks of its rays.
            assert!(charged > 0 && bricks[2] == 0 && bricks[3] < all[3], "{bricks:?} for {all:?}");
            // Bricks that show elsewhere, and those of another channel, are different ones.
            assert!(bricks[4] > 0 && bricks[6] > 0, "{bricks:?} for {all:?}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}
