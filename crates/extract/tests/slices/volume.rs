//! Slices of volumes.

use super::bits;
use super::simulated_volumes::{channel, level, pager, straight, SyntheticArray};
use extract::sliceimage::{of_volume, PlaneSpec, SliceArrays, SlicePaint, VolumeChoice, VolumeView};
use field::error::FieldError;
use field::volume::{ChannelSpec, Placement, VolumeKind, VolumeLevel, VoxelType};
use kernels::slice::Filter;
use output::Provenance;
use pager::source::simulated::Simulation;
use pager::Pager;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use testing::TestDir;

const GO_ON: fn(&str, f64, f64) -> bool = |_, _, _| true;

fn plane(normal: [f64; 3]) -> PlaneSpec {
    PlaneSpec { normal, origin: None, up: None, rightward: [1.0; 3], extent: None, size: None, resolution: None }
}

fn view<'a>(levels: &'a [VolumeLevel], kind: VolumeKind, channels: &'a [ChannelSpec]) -> VolumeView<'a> {
    const NONE: &BTreeMap<u64, String> = &BTreeMap::new();
    VolumeView { levels, kind, channels, length_unit: "mm", label_colors: NONE }
}

fn slice(
    levels: &[VolumeLevel],
    channels: &[ChannelSpec],
    plane: &PlaneSpec,
    choice: &VolumeChoice,
    pager: &Arc<Pager>,
) -> (extract::sliceimage::Slice, SliceArrays) {
    let kind = if channels.len() == 1 { VolumeKind::Scalar } else { VolumeKind::Channels };
    let slice = of_volume(view(levels, kind, channels), plane, choice).unwrap();
    let arrays = slice.arrays(pager, 2, &mut GO_ON.clone()).unwrap();
    (slice, arrays)
}

/// A number that varies strongly from voxel to voxel.
fn rough(at: [u32; 3]) -> f64 {
    let mixed = (at[0] * 7919 + at[1] * 104_729 + at[2] * 1_299_709).wrapping_mul(2_654_435_761);
    f64::from(mixed >> 16)
}

/// Interpolates by independent arithmetic: the definition of trilinear, slowly.
fn reference(dims: [u32; 3], placement: &Placement, x: [f64; 3], rule: &dyn Fn([u32; 3]) -> f64) -> Option<f64> {
    // Solves for the place by elimination.
    let mut m = [[0.0; 4]; 3];
    for (a, row) in m.iter_mut().enumerate() {
        for (d, axis) in placement.axes.iter().enumerate() {
            row[d] = axis[a];
        }
        row[3] = x[a] - placement.origin[a];
    }
    for column in 0..3 {
        let pivot = (column..3).max_by(|a, b| m[*a][column].abs().total_cmp(&m[*b][column].abs())).unwrap();
        m.swap(column, pivot);
        for row in 0..3 {
            if row != column {
                let f = m[row][column] / m[column][column];
                #[allow(clippy::needless_range_loop)] // components
                for c in 0..4 {
                    m[row][c] -= f * m[column][c];
                }
            }
        }
    }
    let place = [0, 1, 2].map(|a| m[a][3] / m[a][a]);
    if (0..3).any(|a| place[a] < -0.5 || place[a] > f64::from(dims[a]) - 0.5) {
        return None;
    }
    let place = [0, 1, 2].map(|a| place[a].clamp(0.0, f64::from(dims[a] - 1)));
    let mut sum = 0.0;
    for c in 0..8u32 {
        let mut weight = 1.0;
        let mut at = [0; 3];
        for a in 0..3 {
            let low = place[a].floor().min((f64::from(dims[a]) - 2.0).max(0.0));
            let part = place[a] - low;
            weight *= if c >> a & 1 == 1 { part } else { 1.0 - part };
            at[a] = (low as u32 + (c >> a & 1)).min(dims[a] - 1);
        }
        sum += weight * rule(at);
    }
    Some(sum)
}

/// Axes without right angles.
fn oblique() -> Placement {
    Placement { origin: [-3.0, 10.0, 2.0], axes: [[0.5, 0.1, 0.0], [-0.1, 0.7, 0.2], [0.0, 0.05, 1.3]] }
}

#[test]
fn linear_fields_are_exact() {
    let dims = [37, 23, 19];
    let pager = pager(16 << 20, 4);
    let rule =
        |at: [u32; 3], _: usize, _: u32| 3.0 * f64::from(at[0]) - 2.0 * f64::from(at[1]) + 0.5 * f64::from(at[2]);
    let array = SyntheticArray::scalar(dims, 8, VoxelType::Float32, &rule).array(&pager, None);
    let levels = [level(dims, straight([5.0, 0.0, -1.0], [0.5, 0.25, 2.0]), vec![array])];
    for normal in [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, -2.0, 0.7]] {
        let spec = PlaneSpec { size: Some([150, 90]), ..plane(normal) };
        let (made, arrays) = slice(&levels, &[channel("a")], &spec, &VolumeChoice::default(), &pager);
        let mut seen = 0;
        for row in 0..90 {
            for column in 0..150 {
                let n = (row * 150 + column) as usize;
                let x = made.laid.plane.position([column, row]);
                let ijk = [(x[0] - 5.0) / 0.5, x[1] / 0.25, (x[2] + 1.0) / 2.0];
                let inside = (0..3).all(|a| (0.0..=f64::from(dims[a] - 1)).contains(&ijk[a]));
                if inside {
                    assert_eq!(arrays.pixels[n], 1);
                    let truth = 3.0 * ijk[0] - 2.0 * ijk[1] + 0.5 * ijk[2];
                    assert!((arrays.values[n] - truth).abs() < 1e-11, "{} {truth}", arrays.values[n]);
                    seen += 1;
                }
                assert_eq!(arrays.values[n].is_nan(), arrays.pixels[n] == 2);
            }
        }
        assert!(seen > 1000, "{seen}");
    }
}

#[test]
fn rough_volumes_are_those_of_the_reference() {
    let dims = [41, 30, 22];
    let pager = pager(16 << 20, 4);
    let rule = |at: [u32; 3], _: usize, _: u32| rough(at);
    for voxel in [VoxelType::Uint16, VoxelType::Int32, VoxelType::Float64] {
        let array =
            SyntheticArray { page: [16, 8, 4], ..SyntheticArray::scalar(dims, 1, voxel, &rule) }.array(&pager, None);
        let levels = [level(dims, oblique(), vec![array])];
        let spec = PlaneSpec { size: Some([133, 101]), ..plane([0.3, 1.0, -0.4]) };
        let (made, arrays) = slice(&levels, &[channel("a")], &spec, &VolumeChoice::default(), &pager);
        let mut inside = 0;
        for row in 0..101 {
            for column in 0..133 {
                let n = (row * 133 + column) as usize;
                let x = made.laid.plane.position([column, row]);
                match reference(dims, &levels[0].placement, x, &rough) {
                    Some(truth) => {
                        inside += 1;
                        assert!((arrays.values[n] - truth).abs() < 1e-6, "{} {truth}", arrays.values[n]);
                    }
                    None => assert_eq!(arrays.pixels[n], 2),
                }
            }
        }
        assert!(inside > 4000);
        let counts = &arrays.counts;
        assert_eq!((counts.values, counts.outside, counts.failed), (inside, 133 * 101 - inside, 0));
    }
}

#[test]
fn the_same_whatever_the_means() {
    let dims = [120, 100, 60];
    let rule = |at: [u32; 3], c: usize, step: u32| rough(at) + (1000 * c) as f64 + f64::from(step);
    let channels = [channel("a"), channel("b"), channel("c")];
    let spec = PlaneSpec { size: Some([300, 270]), ..plane([1.0, 2.0, 0.5]) };
    let choice = VolumeChoice { step: 1, ..VolumeChoice::default() };
    let mut truth: Option<Vec<u64>> = None;
    for (n, (page, limit, workers, readers)) in
        [(60, 256 << 20, 1, 1), (16, 64 << 20, 2, 8), (8, 4 << 20, 2, 16), (13, 5 << 20, 3, 3), (16, 6 << 20, 1, 8)]
            .into_iter()
            .enumerate()
    {
        let pager = pager(limit, readers);
        let simulation = Simulation {
            latency: Duration::from_micros(20)..Duration::from_micros(300),
            short_reads: 0.02,
            shuffle: true,
            ..Simulation::fixed(Duration::ZERO, readers)
        };
        let simulation = Simulation { seed: n as u64, ..simulation };
        let two = SyntheticArray {
            channels: vec![0, 2],
            steps: 2,
            ..SyntheticArray::scalar(dims, page, VoxelType::Float32, &rule)
        };
        let one = SyntheticArray {
            channels: vec![1],
            steps: 2,
            ..SyntheticArray::scalar(dims, page, VoxelType::Uint16, &rule)
        };
        let arrays = vec![two.array(&pager, Some(simulation.clone())), one.array(&pager, Some(simulation))];
        let levels = [level(dims, oblique(), arrays)];
        let made = of_volume(view(&levels, VolumeKind::Channels, &channels), &spec, &choice).unwrap();
        let arrays = made.arrays(&pager, workers, &mut GO_ON.clone()).unwrap();
        assert!(arrays.counts.values > 20_000);
        let values = bits(&arrays.values);
        assert!(
            truth.get_or_insert_with(|| values.clone()) == &values,
            "page {page}, limit {limit}, {workers} workers"
        );
    }
}

#[test]
fn a_thin_volume_has_half_a_voxel_on_either_side() {
    let dims = [20, 10, 1];
    let pager = pager(8 << 20, 2);
    let rule = |at: [u32; 3], _: usize, _: u32| f64::from(at[0] + 100 * at[1]);
    let array = SyntheticArray::scalar(dims, 8, VoxelType::Int16, &rule).array(&pager, None);
    let levels = [level(dims, straight([0.0; 3], [1.0; 3]), vec![array])];
    let at = |z: f64| PlaneSpec { origin: Some([0.0, 0.0, z]), resolution: Some(1.0), ..plane([0.0, 0.0, 1.0]) };
    for z in [0.0, 0.3, -0.5, 0.5] {
        let (made, arrays) = slice(&levels, &[channel("a")], &at(z), &VolumeChoice::default(), &pager);
        assert_eq!(made.laid.plane.size, [20, 10]);
        // A pixel a voxel, from the top down.
        let truth: Vec<f64> = (0..200).map(|n| f64::from(n % 20 + 100 * (9 - n / 20))).collect();
        assert_eq!(arrays.values, truth, "{z}");
    }
    let beyond = of_volume(view(&levels, VolumeKind::Scalar, &[channel("a")]), &at(0.6), &VolumeChoice::default());
    assert!(matches!(beyond.map(|_| ()), Err(FieldError::Usage(m)) if m.contains("does not meet")));
}

#[test]
fn what_is_missing_is_missing_and_no_more() {
    let dims = [9, 9, 9];
    let pager = pager(8 << 20, 2);
    let rule = |at: [u32; 3], _: usize, _: u32| if at == [4, 4, 4] { -999.0 } else { f64::from(at[0]) };
    let array = SyntheticArray::scalar(dims, 4, VoxelType::Float32, &rule).array(&pager, None);
    let levels = [level(dims, straight([0.0; 3], [1.0; 3]), vec![array])];
    let scaled = ChannelSpec { missing: field::volume::Missing::one(-999.0), scale: Some([2.0, 10.0]), ..channel("a") };
    let spec = |resolution, z| PlaneSpec {
        origin: Some([0.0, 0.0, z]),
        resolution: Some(resolution),
        ..plane([0.0, 0.0, 1.0])
    };
    let nan = |arrays: &SliceArrays| arrays.values.iter().filter(|v| v.is_nan()).count();
    // In its own plane only the voxel itself: the others have no weight.
    let (_, arrays) = slice(&levels, std::slice::from_ref(&scaled), &spec(1.0, 4.0), &VolumeChoice::default(), &pager);
    assert_eq!((nan(&arrays), arrays.values[0], arrays.values[8]), (1, 10.0, 26.0));
    assert!(arrays.values[4 * 9 + 4].is_nan() && arrays.counts.outside == 0);
    assert_eq!((arrays.counts.values, arrays.counts.missing), (arrays.pixels.len() as u64 - 1, 1));
    let (_, arrays) = slice(&levels, std::slice::from_ref(&scaled), &spec(1.0, 5.0), &VolumeChoice::default(), &pager);
    assert_eq!(nan(&arrays), 0);
    // Between voxels all four cells around it.
    let (_, arrays) = slice(&levels, std::slice::from_ref(&scaled), &spec(0.5, 4.25), &VolumeChoice::default(), &pager);
    assert_eq!(nan(&arrays), 16);
    let nearest = VolumeChoice { filter: Some(Filter::Nearest), ..VolumeChoice::default() };
    let (_, arrays) = slice(&levels, &[scaled], &spec(0.5, 4.25), &nearest, &pager);
    assert_eq!(nan(&arrays), 4);
}

#[test]
fn pages_that_fail_are_counted_and_hatched() {
    let dims = [32, 32, 4];
    let rule = |at: [u32; 3], _: usize, _: u32| f64::from(at[0]);
    let folder = TestDir::new("slice-failed");
    let spec = PlaneSpec { resolution: Some(1.0), ..plane([0.0, 0.0, 1.0]) };
    let mut files = Vec::new();
    for workers in [1, 2] {
        let pager = pager(8 << 20, 2);
        let made = SyntheticArray { failing: vec![5], ..SyntheticArray::scalar(dims, 8, VoxelType::Uint8, &rule) };
        let levels = [level(dims, straight([0.0; 3], [1.0; 3]), vec![made.array(&pager, None)])];
        let channels = [channel("a")];
        let slice = of_volume(view(&levels, VolumeKind::Scalar, &channels), &spec, &VolumeChoice::default()).unwrap();
        let path = folder.path("a.png");
        let told = slice.write(&pager, workers, &path, None, &Provenance::default(), &mut GO_ON.clone()).unwrap();
        // Page 5 is the second in each direction.
        assert_eq!(told["pixels"], serde_json::json!({"values": 960, "missing": 0, "outside": 0, "failed": 64}));
        assert!(told["partial"] == true && told["failure"].as_str().unwrap().contains("made page 5"), "{told}");
        assert_eq!(told["ranges"], serde_json::json!([[0.0, 31.0]]));
        let (size, pixels) = rgba(&path);
        assert_eq!(size, [32, 32]);
        let at = |column: usize, row: usize| &pixels[4 * (row * 32 + column)..][..4];
        assert_eq!((at(0, 0), at(31, 31)), (&[0, 0, 0, 255][..], &[255, 255, 255, 255][..]));
        for (column, row, hatch) in [(8, 16, [255, 0, 255, 255]), (12, 16, [0, 0, 0, 255])] {
            assert_eq!(at(column, row), hatch);
        }
        files.push(std::fs::read(&path).unwrap());
    }
    assert!(files[0] == files[1]);
}

/// Size and pixels of a PNG.
fn rgba(path: &std::path::Path) -> ([u32; 2], Vec<u8>) {
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    ([info.width, info.height], pixels)
}

#[test]
fn colours_channels_and_labels_have_colours_of_their_own() {
    let dims = [16, 8, 3];
    let pager = pager(8 << 20, 2);
    let folder = TestDir::new("slice-colours");
    let spec = PlaneSpec { resolution: Some(1.0), ..plane([0.0, 0.0, 1.0]) };
    let write = |levels: &[VolumeLevel], kind, channels: &[ChannelSpec], look: Option<SlicePaint>| {
        let slice = of_volume(view(levels, kind, channels), &spec, &VolumeChoice::default()).unwrap();
        let path = folder.path("a.png");
        slice.write(&pager, 1, &path, look, &Provenance::default(), &mut GO_ON.clone()).unwrap();
        rgba(&path).1
    };
    let rgb = |at: [u32; 3], c: usize, _: u32| f64::from(10 * at[0] + c as u32);
    let array = SyntheticArray { channels: vec![0, 1, 2], ..SyntheticArray::scalar(dims, 8, VoxelType::Uint8, &rgb) }
        .array(&pager, None);
    let levels = [level(dims, straight([0.0; 3], [1.0; 3]), vec![array])];
    let three = [channel("r"), channel("g"), channel("b")];
    let pixels = write(&levels, VolumeKind::Rgb, &three, None);
    assert_eq!(pixels[..8], [0, 1, 2, 255, 10, 11, 12, 255]);

    let red = ChannelSpec { color: Some("#ff0000".into()), limits: Some([0.0, 150.0]), ..channel("r") };
    let green = ChannelSpec { color: Some("#00ff00".into()), ..channel("g") };
    let blue = ChannelSpec { color: Some("#0000ff".into()), limits: Some([0.0, 1.0]), ..channel("b") };
    let pixels = write(&levels, VolumeKind::Channels, &[red, green, blue], None);
    assert_eq!((pixels[..4].to_vec(), pixels[60..64].to_vec()), (vec![0, 0, 255, 255], vec![255, 255, 255, 255]));

    let label = |at: [u32; 3], _: usize, _: u32| f64::from(at[0] / 4) + if at[0] >= 4 { 1e9 } else { 0.0 };
    let array = SyntheticArray::scalar(dims, 8, VoxelType::Uint32, &label).array(&pager, None);
    let levels = [level(dims, straight([0.0; 3], [1.0; 3]), vec![array])];
    let pixels = write(&levels, VolumeKind::Labels, &[channel("l")], None);
    assert_eq!(pixels[3], 0, "nothing is transparent");
    assert!(pixels[16..20] == pixels[28..32] && pixels[16..20] != pixels[32..36] && pixels[19] == 255);
    let between = VolumeChoice { filter: Some(Filter::Trilinear), ..VolumeChoice::default() };
    let refused = of_volume(view(&levels, VolumeKind::Labels, &[channel("l")]), &spec, &between);
    assert!(refused.map(|_| ()).unwrap_err().to_string().contains("labels"));
    // Labels are exact: single precision does not represent 10^9 + 1.
    let slice = of_volume(view(&levels, VolumeKind::Labels, &[channel("l")]), &spec, &VolumeChoice::default()).unwrap();
    let told = slice.write(&pager, 1, &folder.path("l.npy"), None, &Provenance::default(), &mut GO_ON.clone()).unwrap();
    let file = std::fs::read(folder.path("l.npy")).unwrap();
    assert!(String::from_utf8_lossy(&file[..120]).contains("'<f8'") && told["bytes_written"] == file.len());
    assert_eq!(f64::from_le_bytes(file[128 + 32..128 + 40].try_into().unwrap()), 1_000_000_001.0);

    let grey = SlicePaint::Grey16 { range: Some([0.0, 150.0]), inverted: false };
    let one = VolumeChoice { channels: Some(vec![0]), ..VolumeChoice::default() };
    let array = SyntheticArray { channels: vec![0, 1, 2], ..SyntheticArray::scalar(dims, 8, VoxelType::Uint8, &rgb) }
        .array(&pager, None);
    let levels = [level(dims, straight([0.0; 3], [1.0; 3]), vec![array])];
    let slice = of_volume(view(&levels, VolumeKind::Rgb, &three), &spec, &one).unwrap();
    let path = folder.path("g.png");
    slice.write(&pager, 1, &path, Some(grey), &Provenance::default(), &mut GO_ON.clone()).unwrap();
    let (_, pixels) = rgba(&path);
    assert_eq!((pixels.len(), &pixels[60..64]), (16 * 8 * 4, &[255, 255, 255, 255][..]));
    assert_eq!(pixels[4..6], 4369u16.to_be_bytes());
}

#[test]
fn coarse_pixels_show_a_coarse_level_and_pages_of_it_alone() {
    let pager = pager(16 << 20, 4);
    let rules: Vec<Box<super::simulated_volumes::VoxelRule>> = (0..3)
        .map(|n| {
            Box::new(move |_: [u32; 3], _: usize, _: u32| f64::from(n)) as Box<super::simulated_volumes::VoxelRule>
        })
        .collect();
    let levels: Vec<VolumeLevel> = (0..3u32)
        .map(|n| {
            let (dims, spacing) = ([64 >> n; 3], f64::from(1 << n));
            let array = SyntheticArray::scalar(dims, 16, VoxelType::Float32, &*rules[n as usize]).array(&pager, None);
            level(dims, straight([0.5 * spacing - 0.5; 3], [spacing; 3]), vec![array])
        })
        .collect();
    for (resolution, shown) in [(0.5, 0), (1.0, 0), (2.5, 1), (4.0, 2), (20.0, 2)] {
        let spec = PlaneSpec { resolution: Some(resolution), ..plane([0.0, 0.0, 1.0]) };
        let before = pager.counters().touched;
        let (made, arrays) = slice(&levels, &[channel("a")], &spec, &VolumeChoice::default(), &pager);
        assert_eq!(made.level, Some(shown));
        assert!(arrays.values.iter().all(|v| v.is_nan() || *v == shown as f64));
        assert!(pager.counters().touched - before <= 32);
    }
    let fixed = VolumeChoice { level: Some(1), ..VolumeChoice::default() };
    let (made, _) = slice(&levels, &[channel("a")], &plane([1.0, 0.0, 0.0]), &fixed, &pager);
    assert_eq!(made.level, Some(1));
    let none = VolumeChoice { level: Some(3), ..VolumeChoice::default() };
    let refused = of_volume(view(&levels, VolumeKind::Scalar, &[channel("a")]), &plane([1.0, 0.0, 0.0]), &none);
    assert!(refused.map(|_| ()).unwrap_err().to_string().contains("3 levels"));
}

/// The picture of a large slice stays within the limit, also if its range is found first.
#[test]
fn pictures_larger_than_memory() {
    let dims = [96, 96, 8];
    let rule = |at: [u32; 3], _: usize, _: u32| rough(at);
    let folder = TestDir::new("slice-large");
    let spec = PlaneSpec { size: Some([2000, 2000]), ..plane([0.0, 0.1, 1.0]) };
    let mut files: Vec<[Vec<u8>; 3]> = Vec::new();
    for limit in [8 << 20, 200 << 20] {
        let pager = pager(limit, 4);
        let levels = [level(
            dims,
            straight([0.0; 3], [1.0; 3]),
            vec![SyntheticArray::scalar(dims, 16, VoxelType::Uint16, &rule).array(&pager, None)],
        )];
        let channels = [channel("a")];
        let slice = of_volume(view(&levels, VolumeKind::Scalar, &channels), &spec, &VolumeChoice::default()).unwrap();
        let made = ["a.png", "a.npy", "a.npz"].map(|name| {
            slice.write(&pager, 2, &folder.path(name), None, &Provenance::default(), &mut GO_ON.clone()).unwrap();
            std::fs::read(folder.path(name)).unwrap()
        });
        assert!(pager.counters().peak_bytes <= limit, "{} {limit}", pager.counters().peak_bytes);
        files.push(made);
    }
    assert!(files[0] == files[1]);
    assert_eq!(files[0][1].len(), 128 + 4 * 4_000_000);
    // A stopped run leaves nothing.
    let pager = pager(64 << 20, 4);
    let levels = [level(
        dims,
        straight([0.0; 3], [1.0; 3]),
        vec![SyntheticArray::scalar(dims, 16, VoxelType::Uint16, &rule).array(&pager, None)],
    )];
    let channels = [channel("a")];
    let spec = PlaneSpec { size: Some([20_000, 20_000]), ..spec };
    let slice = of_volume(view(&levels, VolumeKind::Scalar, &channels), &spec, &VolumeChoice::default()).unwrap();
    let stopped =
        slice.write(&pager, 2, &folder.path("b.png"), None, &Provenance::default(), &mut |_, done, _| done < 500.0);
    assert!(matches!(stopped, Err(FieldError::Interrupted)), "{stopped:?}");
    assert_eq!(std::fs::read_dir(folder.at()).unwrap().count(), 3);
}

#[test]
fn a_limit_that_is_too_small_says_what_would_do() {
    let dims = [64, 64, 64];
    let rule = |at: [u32; 3], _: usize, _: u32| rough(at);
    let spec = PlaneSpec { size: Some([3000, 3000]), ..plane([1.0, 1.0, 1.0]) };
    let run = |limit: u64| {
        let pager = pager(limit, 4);
        let array = SyntheticArray::scalar(dims, 64, VoxelType::Float64, &rule).array(&pager, None);
        let levels = [level(dims, straight([0.0; 3], [1.0; 3]), vec![array])];
        let channels = [channel("a")];
        let slice = of_volume(view(&levels, VolumeKind::Scalar, &channels), &spec, &VolumeChoice::default()).unwrap();
        slice.arrays(&pager, 1, &mut GO_ON.clone()).map(|a| a.counts.values)
    };
    let Err(FieldError::LimitTooSmall { needs, .. }) = run(4 << 20) else { panic!("it needs more") };
    assert!(needs < 64 << 20, "{needs}");
    assert!(run(needs).unwrap() > 1_000_000);
}
