//! Voxels without a value: the stored number for it acts as NaN, in every type and manner and under all resources.
//! Cells with such a corner are invisible.

use super::holes::{HoleSetup, Holed, OpenedVolume, StoredNumbers};
use super::{cameras, colours, opacities, DIMS, DT, SIZE, UNIT};
use field::volume::{VolumeKind, VoxelType};
use kernels::draw::Camera;
use kernels::rays::{
    Clip, ColourOpacity, Manner, Projection, RaySetting, Scene, Shading, TransferFunction, VolumeAppearance, VoxelPaint,
};
use render::raycast::{cast, CastOptions, Image};

/// A block across the shells, a whole corner of the volume, and scattered voxels.
fn is_hole([i, j, k]: [usize; 3]) -> bool {
    let block = (20..34).contains(&i) && (12..27).contains(&j) && (17..40).contains(&k);
    let corner = i > 44 && j > 33 && k < 18;
    block || corner || (i * 7 + j * 13 + k * 29).is_multiple_of(997)
}

fn value([i, j, k]: [usize; 3], _: usize) -> Option<f64> {
    (!is_hole([i, j, k])).then(|| f64::from(super::value(i, j, k).min(253)))
}

const SHELLS: Holed = Holed { dims: DIMS, components: 1, kind: VolumeKind::Scalar, values: value };
/// Labels from 0 to 3.
const NAMES: Holed = Holed {
    dims: DIMS,
    components: 1,
    kind: VolumeKind::Labels,
    values: |at, c| value(at, c).map(|v| (v / 64.0).floor()),
};
const COLOURS: Holed = Holed {
    dims: DIMS,
    components: 3,
    kind: VolumeKind::Rgb,
    // Some voxels have two of the colours.
    values: |at, c| {
        value(at, c).or((at[2].is_multiple_of(2) && c < 2).then_some(90.0)).map(|v| (v + 40.0 * c as f64).min(253.0))
    },
};

const NONE: StoredNumbers = (VoxelType::Float32, f64::NAN);
const AMPLE: u64 = 1 << 30;
const MEANS: HoleSetup = HoleSetup { chunk: Some([32, 32, 32]), limit: AMPLE, late: None, ranges: false };

/// The largest, the smallest, one among the values, one far away.
fn all_stored() -> Vec<StoredNumbers> {
    use VoxelType::*;
    vec![
        (Float32, f64::from(1e20f32)),
        (Float32, -9999.0),
        (Float32, 140.5),
        (Float64, 9.969_209_968_386_869e36),
        (Float64, f64::NEG_INFINITY),
        (Uint8, 255.0),
        (Int16, -32768.0),
        (Int16, 32767.0),
        (Uint16, 65535.0),
        (Int32, -9999.0),
        (Uint32, f64::from(u32::MAX)),
        (Int64, i64::MIN as f64),
        (Uint64, u64::MAX as f64),
    ]
}

fn scalar(opacity: Vec<(f64, f32)>) -> VoxelPaint {
    VoxelPaint::Scalar { channel: 0, transfer: TransferFunction::new(colours(), opacity).unwrap() }
}

/// All manners for one number a voxel.
fn manners() -> Vec<(&'static str, VoxelPaint, Manner)> {
    let lit = Shading { ambient: [0.2; 3], lights: vec![([0.3, -0.5, 0.8], [0.7; 3])], specular: 0.3, power: 12.0 };
    let manner =
        |projection, shading: Option<&Shading>| Manner { projection, shading: shading.cloned(), ..Manner::default() };
    let (composite, ramp) = (Projection::Composite, || scalar(vec![(120.0, 0.0), (250.0, 1.0)]));
    let surface = Projection::Surface { value: 170.0 };
    // Numbers above all values are opaque, and would show a stored missing value.
    let above = || scalar([opacities(), vec![(254.0, 0.9)]].concat());
    let below = || scalar([vec![(-1.0, 0.9), (0.0, 0.0)], opacities()].concat());
    vec![
        ("above", above(), manner(composite, None)),
        ("below", below(), manner(composite, None)),
        ("lit", above(), manner(composite, Some(&lit))),
        ("nearest", above(), Manner { nearest: true, ..manner(composite, None) }),
        ("lit nearest", below(), Manner { nearest: true, ..manner(composite, Some(&lit)) }),
        ("maximum", ramp(), manner(Projection::Maximum, None)),
        ("mean", ramp(), manner(Projection::Mean, None)),
        ("surface", ramp(), manner(surface, None)),
        ("lit surface", ramp(), manner(surface, Some(&lit))),
    ]
}

fn picture(
    of: &OpenedVolume,
    camera: Camera,
    paint: &VoxelPaint,
    manner: &Manner,
    workers: usize,
    skip: bool,
) -> Image {
    let setting = RaySetting { camera, size: SIZE, dt: DT, unit: UNIT, skip };
    let level = of.level.clone();
    let look = VolumeAppearance { level, step: 0, paint: paint.clone(), clip: Clip::default(), manner: manner.clone() };
    let scene = Scene::new(setting, vec![look]).unwrap();
    let options = CastOptions { workers, rows: None, deadline: None, next: None, kept: None, coarse: None };
    let image = cast(&of.pager, &scene, &options, &mut |_, _| true).unwrap();
    assert_eq!(image.gap_count(), 0);
    assert!(of.pager.ledger().peak() <= of.pager.ledger().limit());
    image
}

fn bits(image: &Image) -> Vec<u32> {
    image.rgba.iter().flatten().map(|c| c.to_bits()).collect()
}

#[test]
fn what_stands_for_no_value_is_as_if_it_were_nan_in_every_type_and_manner() {
    let nan = SHELLS.open(NONE, MEANS);
    let all: Vec<_> = all_stored().into_iter().map(|s| (s, SHELLS.open(s, MEANS))).collect();
    for (name, paint, manner) in manners() {
        for camera in cameras() {
            let truth = picture(&nan, camera, &paint, &manner, 1, false);
            assert!(truth.rgba.iter().filter(|p| p[3] > 0.05).count() > 100, "{name}");
            for (stored, of) in &all {
                let again = picture(of, camera, &paint, &manner, 2, true);
                assert!(bits(&again) == bits(&truth), "{name} of {stored:?}");
            }
        }
    }
}

#[test]
fn with_missing_values_pictures_are_equal_to_the_bit_whatever_the_means() {
    let arm = |chunk, limit, late, ranges| HoleSetup { chunk, limit, late, ranges };
    let means = [
        (arm(None, 12 << 20, None, false), 2, true),
        (arm(Some([8, 8, 8]), AMPLE, None, true), 2, true),
        (arm(Some([13, 11, 9]), 8 << 20, None, true), 1, true),
        (arm(Some([53, 4, 61]), 12 << 20, None, false), 2, false),
        (arm(Some([32, 64, 64]), AMPLE, Some(3), true), 2, true),
        (arm(Some([16, 32, 8]), AMPLE, Some(4), false), 2, true),
        (arm(Some([2, 3, 5]), 24 << 20, None, true), 2, true),
    ];
    let nan = SHELLS.open(NONE, MEANS);
    let camera = cameras()[0];
    let all = manners();
    let truths: Vec<_> = all.iter().map(|(_, paint, m)| picture(&nan, camera, paint, m, 1, false)).collect();
    for stored in
        [NONE, (VoxelType::Float32, f64::from(1e20f32)), (VoxelType::Uint8, 255.0), (VoxelType::Int16, -9999.0)]
    {
        for (means, workers, skip) in means {
            let of = SHELLS.open(stored, means);
            for ((name, paint, manner), truth) in all.iter().zip(&truths) {
                let again = picture(&of, camera, paint, manner, workers, skip);
                assert!(bits(&again) == bits(truth), "{name} of {stored:?} by {means:?}, skip {skip}");
            }
        }
    }
}

#[test]
fn nothing_is_seen_of_cells_without_all_corners() {
    let of = SHELLS.open((VoxelType::Int16, -32768.0), HoleSetup { ranges: true, ..MEANS });
    let value = |i, j, k| value([i, j, k], 0).unwrap_or(f64::NAN);
    for camera in cameras() {
        let found = picture(&of, camera, &scalar(opacities()), &Manner::default(), 2, true);
        let (wanted, whole) = (super::reference(&camera, value), super::reference(&camera, super::number));
        let mut changed = 0;
        for (n, ((a, b), without)) in found.rgba.iter().zip(&wanted).zip(&whole).enumerate() {
            changed += usize::from((b[3] - without[3]).abs() > 0.02);
            for c in 0..4 {
                let off = (f64::from(a[c]) - b[c]).abs();
                assert!(off < 2.0 / 255.0, "pixel {n} of {camera:?}: {a:?} for {b:?}");
            }
        }
        assert!(changed > 150, "only in {changed} pixels holes are seen");
    }
}

#[test]
fn pages_that_have_no_value_are_not_read_where_their_ranges_say_so() {
    let dims = [DIMS[0], 2 * DIMS[1], DIMS[2]];
    let low = Holed { dims, values: |at, c| value(at, c).filter(|_| at[1] < 10), ..SHELLS };
    let stored = (VoxelType::Float32, f64::from(1e20f32));
    let read = |ranges, paint: &VoxelPaint| {
        let of = low.open(stored, HoleSetup { chunk: None, ranges, ..MEANS });
        let image = picture(&of, cameras()[0], paint, &Manner::default(), 1, true);
        let pages = of.level.arrays[0].translation.pages.map(u64::from);
        (bits(&image), of.pager.counters().faults, pages)
    };
    let all = scalar(vec![(0.0, 0.01)]);
    let ((a, most, pages), (b, least, _)) = (read(false, &all), read(true, &all));
    assert!(a == b && pages[1] > 2 && most == pages.iter().product::<u64>(), "{most} of {pages:?}");
    // The pages of one layer, the next one for the corners of cells between, and one page of ranges.
    assert!(least <= 2 * pages[0] * pages[2] + 1, "{least} of {pages:?}");
}

#[test]
fn a_name_that_stands_for_none_is_not_shown() {
    let paint = VoxelPaint::Labels { channel: 0, colours: vec![], only: vec![], opacity: 0.4 };
    let zero = NAMES.open((VoxelType::Uint8, 0.0), MEANS);
    for stored in [(VoxelType::Uint8, 200.0), (VoxelType::Int16, -1.0), (VoxelType::Uint64, (1u64 << 60) as f64)] {
        let of = NAMES.open(stored, MEANS);
        for camera in cameras() {
            let truth = picture(&zero, camera, &paint, &Manner::default(), 1, false);
            assert!(bits(&picture(&of, camera, &paint, &Manner::default(), 2, true)) == bits(&truth), "{stored:?}");
        }
    }
}

#[test]
fn a_colour_a_part_of_which_is_missing_is_none() {
    let distance = ColourOpacity::Distance { from: [1.0; 3], nodes: vec![(0.3, 0.0), (0.7, 0.3), (1.0, 0.6)] };
    let bright = ColourOpacity::Luminance(vec![(0.0, 0.3), (0.5, 0.0), (0.9, 0.5)]);
    for opacity in [distance, bright] {
        let paint = VoxelPaint::Colour { channels: [0, 1, 2], limits: [[0.0, 255.0]; 3], opacity };
        let nan = COLOURS.open(NONE, MEANS);
        for camera in cameras() {
            for nearest in [false, true] {
                let lit = Shading {
                    ambient: [0.3; 3],
                    lights: vec![([0.3, -0.5, 0.8], [0.6; 3])],
                    specular: 0.0,
                    power: 1.0,
                };
                let manner = Manner { nearest, shading: nearest.then_some(lit), ..Manner::default() };
                let truth = picture(&nan, camera, &paint, &manner, 1, false);
                for stored in [NONE, (VoxelType::Uint8, 255.0), (VoxelType::Uint16, 0xfffe as f64)] {
                    for chunk in [[32, 32, 32], [9, 8, 16]] {
                        let of = COLOURS.open(stored, HoleSetup { chunk: Some(chunk), ..MEANS });
                        assert!(bits(&picture(&of, camera, &paint, &manner, 2, true)) == bits(&truth), "{stored:?}");
                    }
                }
            }
        }
    }
}
