//! Light along the whole length of a ray in the volume, up to its end: against the law of Beer and Lambert in closed
//! form.

use super::appearances::{look, picture, StoredVoxels};
use super::{cameras, rays, DIMS, DT, SIZE, UNIT};
use kernels::rays::{ColourOpacity, Manner, RaySetting, Scene, Shading, TransferFunction, VoxelPaint};
use render::raycast::{cast_until, CastOptions, RayEnds};

/// A constant value.
const FOG: StoredVoxels = StoredVoxels { dtype: "uint8", components: 1, value: |_, _, _, _| 100.0 };
const OPACITY: f64 = 0.3;

fn fog() -> VoxelPaint {
    let transfer = TransferFunction::new(vec![(0.0, [1.0, 0.5, 0.2])], vec![(0.0, OPACITY as f32)]).unwrap();
    VoxelPaint::Scalar { channel: 0, transfer }
}

fn opacity_of(length: f64) -> f64 {
    1.0 - (1.0 - OPACITY).powf(length.max(0.0) / UNIT)
}

#[test]
fn fog_is_as_opaque_as_its_length_says_to_the_end_of_the_volume_and_to_any_depth() {
    let still = Shading { ambient: [1.0; 3], lights: Vec::new(), specular: 0.0, power: 1.0 };
    let lit = Manner { shading: Some(still), ..Manner::default() };
    // With bricks, page by page, and sample by sample.
    for (limit, manner) in [(super::AMPLE, Manner::default()), (4 << 20, Manner::default()), (4 << 20, lit)] {
        let (pager, level, folder) = FOG.open([16, 16, 16], limit, "fog");
        for camera in cameras() {
            let setting = RaySetting { camera, size: SIZE, dt: DT, unit: UNIT, skip: true };
            let scene = Scene::new(setting, vec![look(&level, &fog(), &manner)]).unwrap();
            let options = CastOptions { workers: 2, rows: None, deadline: None, next: None, kept: None, coarse: None };
            let rays = rays(&camera);
            // A slope from before the volume to behind it.
            let slope = |x: u32, y: u32| f64::from(x) * 1.7 + f64::from(y) * 0.31;
            let endless = |_: u32, _: u32| f64::INFINITY;
            for (name, depth) in [("endless", &endless as &(dyn Fn(u32, u32) -> f64 + Sync)), ("slope", &slope)] {
                let ends = RayEnds { depth, wanted: None, stops: None };
                let image = cast_until(&pager, &scene, &options, Some(ends), &mut |_, _| true).unwrap();
                let (mut seen, mut off) = (0, 0.0f64);
                for (n, ray) in rays.iter().enumerate() {
                    let [low, high] = ray.span;
                    let (x, y) = (n as u32 % SIZE[0], n as u32 / SIZE[0]);
                    let length = high.min(depth(x, y) * ray.along) - low;
                    // Less than a step of the volume before a surface may contain no sample.
                    if length > 0.0 && length < DT && length < high - low {
                        continue;
                    }
                    seen += usize::from(length > 0.0);
                    let found = f64::from(image.rgba[n][3]);
                    // A ray ends where nothing behind it is visible, which is some thousandths.
                    let wanted = opacity_of(length);
                    off = off.max(if wanted > 0.99 { (found - wanted).abs() / 10.0 } else { (found - wanted).abs() });
                }
                assert!(seen > 200, "{name}: only {seen} pixels show anything");
                assert!(off < 5e-4, "{name} of {camera:?} within {limit}: {off} off");
            }
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn what_is_clear_has_no_colour_between_voxels() {
    // Red up to the middle, and transparent black beyond: red is nowhere darker than it is.
    const CUT: StoredVoxels = StoredVoxels {
        dtype: "uint8",
        components: 4,
        value: |i, _, _, c| if i <= DIMS[0] / 2 { [255.0, 0.0, 0.0, 255.0][c] } else { 0.0 },
    };
    let (pager, level, folder) = CUT.open([16, 16, 16], 64 << 20, "clear");
    let opacity = ColourOpacity::Channel { channel: 3, limits: [0.0, 255.0], nodes: vec![(0.0, 0.0), (1.0, 0.4)] };
    let paint = VoxelPaint::Colour { channels: [0, 1, 2], limits: [[0.0, 255.0]; 3], opacity };
    for camera in cameras() {
        let image = picture(&pager, camera, vec![look(&level, &paint, &Manner::default())], 2, true);
        let seen: Vec<_> = image.rgba.iter().filter(|p| p[3] > 0.0).collect();
        assert!(seen.len() > 300);
        for [r, g, b, a] in seen {
            assert!((r - a).abs() <= 1e-5 && *g == 0.0 && *b == 0.0, "{r} {g} {b} of {a}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}
