//! Volumes in time: prefetch of the next step.

use super::{cameras, colours, numbers, opacities, spec, value, DIMS, DT, SIZE, UNIT};
use field::volume::{PlaceSpec, Volume};
use kernels::rays::{Clip, Manner, RaySetting, Scene, TransferFunction, VolumeAppearance, VoxelPaint};
use pager::{Pager, PagerConfig, PolicyKind};
use render::raycast::{cast, CastOptions};

#[test]
fn what_rays_come_to_is_read_ahead_for_the_next_step_and_changes_no_picture() {
    let folder = std::env::temp_dir().join(format!("farfield-rays-series-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (mut spec, _) = spec(&folder, None);
    let array = &mut spec.levels[0].arrays[0];
    array.shape.insert(0, 3);
    array.axes = "tzyx".into();
    // Different steps: the numbers of each begin one plane later.
    let all = numbers(DIMS, &value);
    let plane = DIMS[0] * DIMS[1];
    let steps: Vec<u8> = (0..3).flat_map(|t| [&all[t * plane..], &all[..t * plane]].concat()).collect();
    let PlaceSpec::Contiguous { file, .. } = &array.place else { panic!("a whole file") };
    std::fs::write(file, steps).unwrap();
    spec.times = vec![0.0, 1.0, 2.0];
    let run = |limit: u64, ahead: bool, workers: usize| {
        let pager = Pager::new(PagerConfig { limit, policy: PolicyKind::Clock, ..PagerConfig::default() }).unwrap();
        let volume = Volume::open(spec.clone(), Vec::new(), &pager).unwrap();
        let mut pictures = Vec::new();
        for step in 0..3u32 {
            let look = VolumeAppearance {
                level: volume.levels[0].clone(),
                step,
                paint: VoxelPaint::Scalar {
                    channel: 0,
                    transfer: TransferFunction::new(colours(), opacities()).unwrap(),
                },
                clip: Clip::default(),
                manner: Manner::default(),
            };
            let setting = RaySetting { camera: cameras()[0], size: SIZE, dt: DT, unit: UNIT, skip: true };
            let scene = Scene::new(setting, vec![look]).unwrap();
            let next = (ahead && step < 2).then_some(step + 1);
            let options = CastOptions { workers, rows: None, deadline: None, next, kept: None, coarse: None };
            let image = cast(&pager, &scene, &options, &mut |_, _| true).unwrap();
            pictures.push(image.rgba.iter().flatten().map(|c| c.to_bits()).collect::<Vec<_>>());
        }
        assert!(pager.ledger().peak() <= limit);
        (pictures, pager.counters())
    };
    let (truth, without) = run(64 << 20, false, 1);
    assert!(truth[0] != truth[1] && without.prefetched == 0);
    let (again, with) = run(64 << 20, true, 2);
    assert!(again == truth);
    assert!(with.prefetched > 0 && with.prefetched_used * 2 > with.prefetched, "{with:?}");
    // Without room for the prefetch the picture is equal.
    assert!(run(1 << 20, true, 2).0 == truth);
    std::fs::remove_dir_all(folder).unwrap();
}
