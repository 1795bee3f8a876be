//! Rays through the cells of zones: equal bit for bit under all resources, and equal to rays through a volume if the
//! grid is one.

#[path = "../../trace/tests/cut/mod.rs"]
mod cut;

use cut::{flow, paged, simulation, uniform};
use field::error::FieldError;
use field::in_memory::FlatNodes;
use field::in_memory_series::FlatSeries;
use field::locator::{ZoneFields, ZoneLocator};
use field::nodes::{Nodes, Zone};
use field::translate::Translation;
use field::volume::{ArraySpec, ChannelSpec, LevelSpec, PlaceSpec, Volume, VolumeKind, VolumeSpec};
use kernels::cellrays::{CellAppearance, CellRaySetting, CellScene, CellTile};
use kernels::draw::{Camera, Lens};
use kernels::rays::{self, Clip, Manner, Projection, Shading, TransferFunction, VolumeAppearance, VoxelPaint, TILE};
use kernels::streamline::StepProgress;
use pager::source::simulated::Simulation;
use pager::{Backend, Pager, PagerConfig, PolicyKind};
use render::raycast::{cast, cast_cells, CastOptions, CellSource, Image};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: [u32; 2] = [40, 32];

fn steady(flow: FlatNodes) -> FlatSeries {
    FlatSeries::new(vec![flow], &["xyz", "iblank", "density", "momentum"])
}

/// Sampled fields; `velocity_magnitude` is computed at the corners.
fn fields(zones: &[Zone], fields: &str) -> Arc<[ZoneFields]> {
    let names: Vec<String> = fields.split(' ').map(str::to_owned).collect();
    zones.iter().map(|z| ZoneFields::named(z, None, &names, 1.4, 1.0).unwrap()).collect()
}

fn transfer() -> TransferFunction {
    let colours = vec![(0.0, [0.1, 0.2, 0.9]), (1.0, [0.9, 0.4, 0.1]), (1.8, [1.0, 1.0, 0.9])];
    TransferFunction::new(colours, vec![(0.0, 0.0), (0.8, 0.02), (1.0, 0.12), (1.2, 0.02), (1.8, 0.2)]).unwrap()
}

fn cameras() -> [Camera; 3] {
    let at =
        |position: [f64; 3], lens| Camera { position, target: [0.5; 3], up: [0.0, 0.0, 1.0], lens, center: [0.5; 2] };
    [
        at([2.3, -1.4, 1.2], Lens::Perspective { fov_degrees: 40.0 }),
        at([-1.5, 1.9, 0.9], Lens::Orthographic { height: 1.9 }),
        at([0.45, 0.3, 0.35], Lens::Perspective { fov_degrees: 80.0 }),
    ]
}

fn setting(camera: Camera) -> CellRaySetting {
    CellRaySetting { camera, size: SIZE, longest: 0.04, halvings: 5, samples: 2.0, zones: vec![0, 1] }
}

fn look() -> CellAppearance {
    CellAppearance::new(transfer(), 0.05)
}

/// Scenes of some fields. Vectors are shown by their length.
fn scene(setting: CellRaySetting, fields: &str) -> Arc<CellScene> {
    let looks = match fields {
        "density velocity" => {
            let lights = vec![([1.0, 0.3, 0.2], [0.6, 0.5, 0.4])];
            let shading = Some(Shading { ambient: [0.3; 3], lights, specular: 0.3, power: 8.0 });
            let planes = vec![([0.0, 1.0, 0.2], 0.4)];
            let lit = CellAppearance { shading, gradient: Some(1), planes, ..look() };
            let mean = CellAppearance { projection: Projection::Mean, ..look() };
            let maximum = CellAppearance { projection: Projection::Maximum, value: 1..4, ..look() };
            let surface = CellAppearance { projection: Projection::Surface { value: 1.3 }, value: 1..4, ..look() };
            vec![maximum, lit, surface, mean]
        }
        "velocity" => vec![CellAppearance { value: 0..3, ..look() }],
        _ => vec![look()],
    };
    CellScene::new(setting, looks).unwrap()
}

fn in_core(flat: &FlatNodes, field: &str, scene: &CellScene) -> Vec<[f32; 4]> {
    let mut space = ZoneLocator::new(flat.clone(), fields(flat.zones(), field));
    let mut out = vec![[0.0; 4]; (SIZE[0] * SIZE[1]) as usize];
    for y in (0..SIZE[1]).step_by(TILE as usize) {
        for x in (0..SIZE[0]).step_by(TILE as usize) {
            let mut tile = CellTile::new(scene, [x, y]);
            assert_eq!(tile.step(scene, &mut space, |_| false), StepProgress::Done);
            for ([column, row], colour, _) in tile.pixels(scene) {
                out[(row * SIZE[0] + column) as usize] = colour;
            }
        }
    }
    out
}

fn means(workers: usize, rows: Option<Range<u32>>, deadline: Option<Instant>) -> CastOptions {
    CastOptions { workers, rows, deadline, next: None, kept: None, coarse: None }
}

struct RayArm {
    edge: [usize; 3],
    limit: u64,
    policy: PolicyKind,
    workers: usize,
    readers: usize,
    simulation: Simulation,
}

fn out_of_core(flat: &FlatNodes, field: &str, scene: &Arc<CellScene>, arm: &RayArm) -> (Image, Arc<Pager>) {
    let config = PagerConfig {
        limit: arm.limit,
        policy: arm.policy,
        readers: arm.readers,
        backend: Backend::Threads,
        observer: None,
    };
    let pager = Pager::new(config).unwrap();
    let zones = paged(&steady(flat.clone()), arm.edge, &pager, arm.simulation.clone());
    let source = CellSource { fields: fields(&zones, field), zones, step: 0, need: [96 << 10, 256 << 10] };
    // Cast in two parts, as in pictures.
    let cast = |rows, deadline| {
        cast_cells(&pager, &source, scene, &means(arm.workers, rows, deadline), None, &mut |_, _| true).unwrap()
    };
    let (mut image, upper) = (cast(None, None), cast(Some(0..9), None));
    let same = |a: &[[f32; 4]], b: &[[f32; 4]]| a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| a == b);
    assert!(same(&upper.rgba, &image.rgba), "rows alone differ from those of the whole");
    // With enough time, in grids of pixels. The first row of the part belongs to no coarse grid.
    let enough = Some(Instant::now() + Duration::from_secs(600));
    let (hurried, part) = (cast(None, enough), cast(Some(13..29), enough));
    assert_eq!((image.filled, hurried.filled, part.filled), (0, 0, 0));
    // Other parts missing from a ray with a gap depend on the arrival order of pages.
    let whole = |a: &Image, b: &Image, from: usize| {
        let pairs = a.rgba.iter().zip(&b.rgba[from..]).enumerate();
        a.gaps[..] == b.gaps[from..from + a.gaps.len()]
            && pairs.into_iter().all(|(n, (a_rgba, b_rgba))| a.gaps[n] || bits(&[*a_rgba]) == bits(&[*b_rgba]))
    };
    assert!(whole(&hurried, &image, 0), "a picture by a time differs");
    assert!(whole(&part, &image, 13 * SIZE[0] as usize), "rows by a time differ");
    assert!(image.gap_count() > 0 || hurried.counts.samples == image.counts.samples);
    image.counts.samples += upper.counts.samples;
    (image, pager)
}

fn bits(v: &[[f32; 4]]) -> Vec<u32> {
    v.iter().flatten().map(|c| c.to_bits()).collect()
}

#[test]
fn pictures_are_the_same_whatever_the_means() {
    let flat = flow(0.0);
    let arm = |edge, limit: u64, policy, workers, readers, seed| RayArm {
        edge,
        limit: limit << 10,
        policy,
        workers,
        readers,
        simulation: simulation(seed),
    };
    let arms = [
        arm([8, 8, 8], 64 << 10, PolicyKind::Clock, 1, 1, 1),
        arm([8, 8, 8], 4400, PolicyKind::Clock, 2, 8, 2),
        arm([5, 7, 6], 4200, PolicyKind::Lru, 3, 4, 3),
        arm([13, 13, 11], 4600, PolicyKind::Clock, 2, 16, 4),
        arm([21, 4, 1], 4600, PolicyKind::S3Fifo, 5, 33, 5),
    ];
    let [a, b, c] = cameras();
    let seen = [(a, "density"), (b, "velocity_magnitude"), (c, "velocity"), (a, "density velocity")];
    for (camera, field) in seen {
        let scene = scene(setting(camera), field);
        let truth = in_core(&flat, field, &scene);
        let seen = truth.iter().filter(|c| c[3] > 0.1).count();
        assert!(seen > 100, "{seen} pixels are too few to mean anything");
        for (n, arm) in arms.iter().enumerate() {
            let (image, pager) = out_of_core(&flat, field, &scene, arm);
            assert_eq!(bits(&truth), bits(&image.rgba), "arm {n} of {field} differs");
            assert_eq!(image.gap_count(), 0);
            assert!(image.counts.samples > 1000);
            assert!(pager.ledger().peak() <= arm.limit, "arm {n}: {} over the limit", pager.ledger().peak());
            assert!(pager.counters().faults > 0);
        }
    }
    // A vector's length is nearly its magnitude at the corners.
    let [of_vector, of_scalar] =
        ["velocity", "velocity_magnitude"].map(|field| in_core(&flat, field, &scene(setting(a), field)));
    let apart =
        of_vector.iter().flatten().zip(of_scalar.iter().flatten()).fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
    assert!(apart > 0.0 && apart < 0.1, "{apart}");
}

#[test]
fn little_memory_is_enough_and_too_little_is_said() {
    let flat = flow(0.0);
    let scene = scene(setting(cameras()[0]), "density");
    let truth = in_core(&flat, "density", &scene);
    for seed in 0..3 {
        let (limit, policy) = (900 << 10, PolicyKind::Clock);
        let arm = RayArm { edge: [8, 8, 8], limit, policy, workers: 2, readers: 8, simulation: simulation(20 + seed) };
        let (image, pager) = out_of_core(&flat, "density", &scene, &arm);
        assert_eq!(bits(&truth), bits(&image.rgba));
        assert!(pager.counters().evictions > 50, "{} evictions: memory was not short", pager.counters().evictions);
    }
    let pager = Pager::new(PagerConfig { limit: 900 << 10, ..PagerConfig::default() }).unwrap();
    let zones = paged(&steady(flat), [8, 8, 8], &pager, simulation(1));
    let source = CellSource { fields: fields(&zones, "density"), zones, step: 0, need: [16 << 20, 32 << 20] };
    match cast_cells(&pager, &source, &scene, &means(2, None, None), None, &mut |_, _| true).map(|_| ()) {
        Err(FieldError::LimitTooSmall { needs, .. }) => assert!(needs > 32 << 20),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_had_is_a_gap_and_the_rest_is_what_it_was() {
    let flat = flow(0.0);
    let edge = [8, 8, 8];
    let scene = scene(setting(cameras()[0]), "density");
    let truth = in_core(&flat, "density", &scene);
    // The first zone's arrays follow each other: coordinates, iblank, density.
    let t = Translation::new(flat.zones()[0].dims().map(|n| n as usize), edge);
    let page = |components: u64| t.component as u64 * components * 4 + 4;
    let (points, density) = (0, t.count() * (page(3) + page(1)));
    let middle = t.count() / 2;
    for first in [density + middle * page(1), points + middle * page(3)] {
        let broken: Vec<_> = std::iter::once(first..first + 8).collect();
        let (limit, policy) = (8 << 20, PolicyKind::Clock);
        let simulation = Simulation { broken, ..simulation(7) };
        let (image, _) =
            out_of_core(&flat, "density", &scene, &RayArm { edge, limit, policy, workers: 2, readers: 8, simulation });
        let gaps = image.gap_count();
        assert!(gaps > 10 && gaps < truth.len() as u64 / 2, "{gaps} gaps");
        let whole = image.gaps.iter().enumerate().filter(|(_, gap)| !**gap);
        assert!(whole.into_iter().all(|(n, _)| bits(&truth[n..=n]) == bits(&image.rgba[n..=n])));
        assert!((0..truth.len()).any(|n| truth[n] != image.rgba[n]));
    }
}

#[test]
fn who_stops_it_stops_it() {
    let pager = Pager::new(PagerConfig { limit: 8 << 20, ..PagerConfig::default() }).unwrap();
    let slow = Simulation::fixed(std::time::Duration::from_millis(300), 1);
    let zones = paged(&steady(flow(0.0)), [8, 8, 8], &pager, slow);
    let source = CellSource { fields: fields(&zones, "density"), zones, step: 0, need: [96 << 10, 256 << 10] };
    let scene = scene(setting(cameras()[0]), "density");
    for deadline in [None, Some(Instant::now() + Duration::from_secs(600))] {
        let stopped = cast_cells(&pager, &source, &scene, &means(2, None, deadline), None, &mut |_, _| false);
        assert!(matches!(stopped.map(|_| ()), Err(FieldError::Interrupted)));
    }
}

#[test]
fn when_it_is_time_there_is_a_picture_that_says_what_it_lacks() {
    // One case takes seconds to read, the other seconds to compute.
    let (slow, fast) = (Simulation::fixed(Duration::from_millis(300), 1), simulation(3));
    for (simulation, size, budget_ms) in [(slow, SIZE, 0), (fast.clone(), SIZE, 0), (fast, [1000, 800], 60)] {
        let pager = Pager::new(PagerConfig { limit: 64 << 20, ..PagerConfig::default() }).unwrap();
        let zones = paged(&steady(flow(0.0)), [8, 8, 8], &pager, simulation);
        let source = CellSource { fields: fields(&zones, "density"), zones, step: 0, need: [96 << 10, 256 << 10] };
        let scene = scene(CellRaySetting { size, samples: 16.0, halvings: 7, ..setting(cameras()[2]) }, "density");
        let begun = Instant::now();
        let options = means(2, None, Some(begun + Duration::from_millis(budget_ms)));
        let image = cast_cells(&pager, &source, &scene, &options, None, &mut |_, _| true).unwrap();
        let took = begun.elapsed();
        let pixels = u64::from(size[0] * size[1]);
        assert!(image.filled > pixels / 100 && image.filled <= pixels, "{} filled", image.filled);
        assert_eq!(image.rgba.len() as u64, pixels);
        // Alone it takes 0.1 s, and several seconds without a budget. Other tests use processors, too.
        assert!(took < Duration::from_millis(1500), "{took:?} for {budget_ms} ms");
    }
}

/// A file with the density of a uniform flow, as a volume.
fn as_volume(flat: &FlatNodes, folder: &std::path::Path) -> VolumeSpec {
    let dims = [41usize, 25, 21];
    let mut bytes = Vec::new();
    for k in 0..dims[2] {
        for j in 0..dims[1] {
            for i in 0..dims[0] {
                // The zones have the plane i = 20 in common.
                let (zone, i) = if i <= 20 { (0, i) } else { (1, i - 20) };
                let array = flat.zones()[zone].array("density").unwrap();
                bytes.extend(flat.raw(zone, array, 0, (k * dims[1] + j) * 21 + i));
            }
        }
    }
    let path = folder.join("density.raw");
    std::fs::write(&path, bytes).unwrap();
    let name = path.display().to_string();
    let array = ArraySpec {
        name: "density".into(),
        dtype: "float32".into(),
        big_endian: false,
        shape: [dims[2], dims[1], dims[0]].map(|n| n as u64).to_vec(),
        axes: "zyx".into(),
        chunk: None,
        order: None,
        channels: vec![0],
        fill: None,
        codecs: Vec::new(),
        place: PlaceSpec::Contiguous { file: name.clone(), offset: 0 },
    };
    let channel = ChannelSpec::named("v");
    let level = LevelSpec {
        dims: dims.map(|n| n as u64),
        origin: [0.0; 3],
        spacing: dims.map(|n| 1.0 / (n - 1) as f64),
        arrays: vec![array],
    };
    VolumeSpec {
        path: name,
        format: "test".into(),
        guessed: Vec::new(),
        kind: VolumeKind::Scalar,
        channels: vec![channel],
        length_unit: "mm".into(),
        anatomy: None,
        direction: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        times: Vec::new(),
        time_units: "1".into(),
        levels: vec![level],
        ranges: None,
        label_colors: Default::default(),
    }
}

#[test]
fn a_uniform_grid_looks_as_a_volume_does() {
    let folder = std::env::temp_dir().join(format!("farfield-cellrays-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let flat = uniform(0.0, false);
    let (dt, unit) = (0.0025, 0.05);
    for camera in cameras() {
        let pager = Pager::new(PagerConfig { limit: 64 << 20, ..PagerConfig::default() }).unwrap();
        let volume = Volume::open(as_volume(&flat, &folder), Vec::new(), &pager).unwrap();
        for projection in [Projection::Composite, Projection::Maximum, Projection::Mean] {
            let seen = VolumeAppearance {
                level: volume.levels[0].clone(),
                step: 0,
                paint: VoxelPaint::Scalar { channel: 0, transfer: transfer() },
                clip: Clip::default(),
                manner: Manner { projection, ..Manner::default() },
            };
            let scene = rays::RaySetting { camera, size: SIZE, dt, unit, skip: true };
            let scene = rays::Scene::new(scene, vec![seen]).unwrap();
            let truth = cast(&pager, &scene, &means(1, None, None), &mut |_, _| true).unwrap();
            let looks = vec![CellAppearance { projection, ..look() }];
            // A maximum loses up to half a step.
            let samples = if projection == Projection::Composite { 4.0 } else { 16.0 };
            let scene = CellScene::new(CellRaySetting { samples, ..setting(camera) }, looks).unwrap();
            let image = in_core(&flat, "density", &scene);
            // At corners a ray may be too short for a sample, and a projection then shows all or nothing.
            let only_one = |(a, b): &(&[f32; 4], &[f32; 4])| (a[3] > 0.0) != (b[3] > 0.0);
            let pairs = || image.iter().zip(&truth.rgba);
            let corners = pairs().filter(only_one).count();
            assert!(corners <= 3, "{projection:?}: {corners} pixels are seen by one of both");
            let both = pairs().filter(|pair| projection == Projection::Composite || !only_one(pair));
            let both = both.flat_map(|(a, b)| a.iter().zip(b));
            let most = both.fold(0.0f32, |m, (a, b)| m.max((a - b).abs()));
            assert!(truth.rgba.iter().filter(|c| c[3] > 0.01).count() > 100);
            assert!(most <= 2.0 / 255.0, "{projection:?}: {} / 255 apart", most * 255.0);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
