//! Surfaces of volumes: exact values, equality for all settings without influence, unreadable pages.

use crate::joined_pieces::{is_single, WholeSurface};
use extract::contour::{run_volume, Contoured, VolumeContour, VolumeWhat};
use field::volume::{VolumeLevel, VoxelType};
use pager::source::simulated::{Simulated, Simulation};
use pager::{Backend, Charge, ChargeKind, Pager, PagerConfig, PolicyKind};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use testing::volumes::Formula;

pub fn ball(dims: [u32; 3], page: [u32; 3], voxel: VoxelType, r: f64) -> Formula {
    let middle = dims.map(|n| f64::from(n) * 0.5 - 0.3);
    let scale = if voxel.size() == 1 { 1.0 } else { 100.0 };
    let value = move |x: [u32; 3]| {
        let d: f64 = (0..3).map(|a| (f64::from(x[a]) - middle[a]).powi(2)).sum();
        (scale * (100.0 + r - d.sqrt())).max(0.0)
    };
    Formula { name: "ball".into(), dims, page, voxel, value: Arc::new(value) }
}

/// Waves across blocks' faces, edges and corners, with few kinds of numbers.
fn waves(dims: [u32; 3], page: [u32; 3], voxel: VoxelType) -> Formula {
    let value = |x: [u32; 3]| {
        let [x, y, z] = x.map(f64::from);
        100.0 + (20.0 * ((x * 0.08).sin() + (y * 0.09 + 1.0).cos() + (z * 0.07 + x * 0.02).sin())).round()
    };
    Formula { name: "waves".into(), dims, page, voxel, value: Arc::new(value) }
}

pub fn spec(values: &[f64]) -> VolumeContour {
    let what = VolumeWhat::Iso { channel: 0, values: values.to_vec() };
    VolumeContour { what, channels: vec![0], normals: true, near: None, step: 0, spill: None }
}

pub fn pager(limit: u64, policy: PolicyKind, readers: usize) -> Arc<Pager> {
    Pager::new(PagerConfig { limit, policy, readers, backend: Backend::Threads, observer: None }).unwrap()
}

pub fn draw(
    pager: &Arc<Pager>,
    level: &VolumeLevel,
    workers: usize,
    spec: &VolumeContour,
) -> (WholeSurface, Contoured) {
    let mut all = WholeSurface::default();
    let made = run_volume(
        pager,
        workers,
        level,
        spec,
        &mut |p| {
            assert!(is_single(&p));
            all.add(p)
        },
        &mut |_, _| true,
    );
    let made = made.unwrap();
    all.check(&made.drawn);
    (all, made)
}

#[test]
fn a_ball_is_a_ball_in_every_type() {
    for voxel in VoxelType::ALL {
        let f = ball([80, 70, 66], [32, 16, 20], voxel, 25.0);
        let p = pager(64 << 20, PolicyKind::Clock, 4);
        let value = if voxel.size() == 1 { 100.0 } else { 10_000.0 };
        let (s, made) = draw(&p, &f.level(&p, None, Some(f.ranges())), 2, &spec(&[value]));
        assert!(s.rim().is_empty() && s.euler() == 2, "{voxel:?}");
        let (area, volume) = (4.0 * std::f64::consts::PI * 625.0, 4.0 / 3.0 * std::f64::consts::PI * 15625.0);
        // For integers a step from one to the next is as wide as a voxel.
        let within = if voxel.size() == 1 { 0.1 } else { 0.003 };
        assert!((s.area() / area - 1.0).abs() < within, "{voxel:?} {}", s.area());
        assert!((s.volume() / volume - 1.0).abs() < within, "{voxel:?} {}", s.volume());
        // Between the nodes there is the value, up to rounding.
        assert!(s.fields[0].iter().all(|v| (f64::from(*v) - value).abs() < value * 1e-5), "{voxel:?}");
        assert_eq!((made.partial(), made.drawn.failed_pages), (false, 0));
    }
}

#[test]
fn normals_and_triangles_look_to_lower_values() {
    let f = ball([70, 70, 70], [16; 3], VoxelType::Float32, 20.0);
    let p = pager(64 << 20, PolicyKind::Clock, 4);
    let mut level = f.level(&p, None, None);
    for turned in [false, true] {
        // Axes of a left-handed volume, askew.
        level.placement.axes = [[0.5, 0.0, 0.0], [0.1, if turned { -2.0 } else { 2.0 }, 0.0], [0.0, 0.3, 1.0]];
        level.placement.origin = [3.0, 1.0, -2.0];
        let (s, _) = draw(&p, &level, 1, &spec(&[10_000.0]));
        assert!(s.rim().is_empty() && s.volume() > 0.0);
        for t in &s.triangles {
            let n = s.cross(t);
            let mean: [f64; 3] = std::array::from_fn(|c| t.iter().map(|v| f64::from(s.normals[*v as usize][c])).sum());
            let along = (0..3).map(|c| n[c] * mean[c]).sum::<f64>();
            let length = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>().sqrt();
            assert!(along >= 0.9 * length(n) * length(mean) || length(n) < 1e-3, "{n:?} {mean:?}");
        }
    }
}

struct ContourArm {
    page: [u32; 3],
    limit: u64,
    policy: PolicyKind,
    workers: usize,
    readers: usize,
    ranges: bool,
}

#[test]
fn equal_whatever_the_limit_the_pages_and_the_workers() {
    let dims = [200, 150, 140];
    let arm =
        |page, limit, policy, workers, readers, ranges| ContourArm { page, limit, policy, workers, readers, ranges };
    for (voxel, values) in [(VoxelType::Uint8, vec![100.0, 104.5]), (VoxelType::Float32, vec![91.0])] {
        let f = waves(dims, [64; 3], voxel);
        let p = pager(256 << 20, PolicyKind::Clock, 4);
        let (truth, _) = draw(&p, &f.level(&p, None, None), 1, &spec(&values));
        assert!(truth.triangles.len() > 20_000);
        let edge =
            |p: [f64; 3], q: [f64; 3]| (0..3).any(|a| p[a] == q[a] && (p[a] == 0.0 || p[a] == f64::from(dims[a] - 1)));
        assert!(truth.rim().iter().all(|[p, q]| edge(*p, *q)), "a crack within");
        let arms = [
            arm([16; 3], 8 << 20, PolicyKind::Clock, 2, 8, true),
            arm([17, 5, 90], 8 << 20, PolicyKind::Lru, 3, 16, false),
            arm([200, 8, 8], 8 << 20, PolicyKind::Sieve, 1, 1, true),
            arm([64; 3], 24 << 20, PolicyKind::Clock, 5, 33, true),
            arm([13, 31, 9], 128 << 20, PolicyKind::S3Fifo, 4, 4, false),
        ];
        for (n, a) in arms.iter().enumerate() {
            let f = waves(dims, a.page, voxel);
            let p = pager(a.limit, a.policy, a.readers);
            let mut bytes = Vec::new();
            let mut frame = vec![0; f.brick().bytes()];
            for page in 0..f.translation().count() {
                f.frame(page, &mut frame);
                bytes.extend_from_slice(&frame);
            }
            let simulation = Simulation {
                seed: n as u64 + 1,
                latency: Duration::from_micros(5)..Duration::from_micros(500),
                depth: 8,
                shuffle: true,
                short_reads: 0.2,
                ..Simulation::fixed(Duration::ZERO, 8)
            };
            let source = p.add_source(Arc::new(Simulated::new(bytes, simulation).unwrap()));
            let level = f.level(&p, Some(source), a.ranges.then(|| f.ranges()));
            let (s, made) = draw(&p, &level, a.workers, &spec(&values));
            assert!(s.bits() == truth.bits(), "arm {n} of {voxel:?} differs");
            assert!(p.ledger().peak() <= a.limit, "{} of {}", p.ledger().peak(), a.limit);
            assert_eq!(made.drawn.failed_pages, 0);
        }
    }
}

/// When a block is done, memory may be full with other blocks and pages. Here it is full for some milliseconds after
/// each piece.
#[test]
fn a_full_memory_when_blocks_are_done_ends_no_run() {
    let f = waves([200, 150, 140], [16; 3], VoxelType::Float32);
    let p = pager(256 << 20, PolicyKind::Clock, 4);
    let (truth, _) = draw(&p, &f.level(&p, None, None), 1, &spec(&[91.0]));
    for workers in [1, 3] {
        let p = pager(8 << 20, PolicyKind::Clock, 4);
        let level = f.level(&p, None, None);
        let (taken, back) = std::sync::mpsc::channel::<Vec<Charge>>();
        let giver = std::thread::spawn(move || {
            let mut bytes = 0;
            for held in back {
                bytes += held.iter().map(Charge::bytes).sum::<u64>();
                std::thread::sleep(Duration::from_millis(3));
                drop(held);
            }
            bytes
        });
        let mut all = WholeSurface::default();
        let mut each = |piece| {
            all.add(piece)?;
            let rest = core::iter::from_fn(|| p.charge(ChargeKind::Other, 16 << 10).ok());
            taken.send(rest.collect()).unwrap();
            Ok(())
        };
        let made = run_volume(&p, workers, &level, &spec(&[91.0]), &mut each, &mut |_, _| true).unwrap();
        drop(taken);
        assert!(giver.join().unwrap() > 8 << 20, "nobody was in the way");
        all.check(&made.drawn);
        assert!(all.bits() == truth.bits(), "{workers} workers");
        assert!(p.ledger().peak() <= 8 << 20, "{}", p.ledger().peak());
    }
}

#[test]
fn pages_that_cannot_be_crossed_are_not_read() {
    let f = ball([256, 192, 128], [16; 3], VoxelType::Uint8, 30.0);
    let p = pager(64 << 20, PolicyKind::Clock, 4);
    let (s, _) = draw(&p, &f.level(&p, None, Some(f.ranges())), 2, &spec(&[100.5]));
    assert!(s.rim().is_empty());
    let faults = p.counters().faults;
    // The pages of the ball's box, and those beside it for the gradient.
    assert!(faults < 6 * 6 * 6 + 4, "{faults} of {}", f.translation().count());
    // A value that does not occur reads ranges alone.
    let q = pager(64 << 20, PolicyKind::Clock, 4);
    let (none, _) = draw(&q, &f.level(&q, None, Some(f.ranges())), 2, &spec(&[254.0]));
    assert!(none.triangles.is_empty() && q.counters().faults <= 1, "{}", q.counters().faults);
}

#[test]
fn nothing_is_drawn_from_pages_that_cannot_be_had() {
    let f = waves([100, 70, 66], [16; 3], VoxelType::Float32);
    let mut bytes = Vec::new();
    let mut frame = vec![0; f.brick().bytes()];
    for page in 0..f.translation().count() {
        f.frame(page, &mut frame);
        bytes.extend_from_slice(&frame);
    }
    let broken_page = 60u64;
    let at = broken_page * frame.len() as u64;
    #[allow(clippy::single_range_in_vec_init)] // one range of bytes is broken
    let broken: Vec<Range<u64>> = vec![at..at + 8];
    let mut results = Vec::new();
    for workers in [1, 3] {
        let p = pager(32 << 20, PolicyKind::Clock, 4);
        let simulation = Simulation { broken: broken.clone(), ..Simulation::default() };
        let source = p.add_source(Arc::new(Simulated::new(bytes.clone(), simulation).unwrap()));
        let (s, made) = draw(&p, &f.level(&p, Some(source), None), workers, &spec(&[100.5]));
        assert!(made.partial() && made.drawn.failed_pages == 1, "{:?}", made.drawn);
        assert!(made.drawn.failure.as_ref().is_some_and(|e| e.contains("waves")), "{:?}", made.drawn.failure);
        results.push(s);
    }
    assert!(results[0].bits() == results[1].bits());
    // No triangle is in a cell with a corner there; the rest ends at the edge of the missing page.
    let (first, inside) = f.translation().extent(broken_page);
    let within =
        |x: [f64; 3]| (0..3).all(|a| x[a] > f64::from(first[a]) - 1.0 && x[a] < f64::from(first[a] + inside[a]));
    assert!(results[0].points.iter().all(|x| !within(*x)));
    let whole = pager(32 << 20, PolicyKind::Clock, 4);
    let (all, _) = draw(&whole, &f.level(&whole, None, None), 1, &spec(&[100.5]));
    let cells_left = |s: &WholeSurface| s.triangles.len();
    assert!(cells_left(&results[0]) > cells_left(&all) * 9 / 10 && cells_left(&results[0]) < cells_left(&all));
}

#[test]
fn planes_of_volumes_are_exact() {
    let f = Formula {
        name: "ramp".into(),
        dims: [130, 60, 50],
        page: [32; 3],
        voxel: VoxelType::Float32,
        value: Arc::new(|x| f64::from(x[0]) + 2.0 * f64::from(x[1]) - f64::from(x[2])),
    };
    let p = pager(32 << 20, PolicyKind::Clock, 4);
    let level = f.level(&p, None, Some(f.ranges()));
    for (origin, normal) in [
        ([0.0, 0.0, 20.25], [0.0, 0.0, 5.0]),
        ([64.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ([30.0, 20.0, 10.0], [1.0, 2.0, -1.0]),
    ] {
        let spec = VolumeContour { what: VolumeWhat::Plane { origin, normal }, ..spec(&[]) };
        let (s, _) = draw(&p, &level, 2, &spec);
        let length = normal.iter().map(|c| c * c).sum::<f64>().sqrt();
        for ((x, n), v) in s.points.iter().zip(&s.normals).zip(&s.fields[0]) {
            let d: f64 = (0..3).map(|a| (x[a] - origin[a]) * normal[a]).sum::<f64>() / length;
            assert!(d.abs() < 1e-5, "{d}");
            assert!((0..3).all(|a| (f64::from(n[a]) - normal[a] / length).abs() < 1e-6));
            assert!((f64::from(*v) - (x[0] + 2.0 * x[1] - x[2])).abs() < 1e-4);
        }
        assert!(s.triangles.iter().all(|t| (0..3).map(|c| s.cross(t)[c] * normal[c]).sum::<f64>() > 0.0));
        let rim = s.rim();
        let edge = |p: [f64; 3], q: [f64; 3]| {
            let hi = [129.0, 59.0, 49.0];
            (0..3).any(|a| p[a] == q[a] && (p[a] == 0.0 || p[a] == hi[a]))
        };
        assert!(!rim.is_empty() && rim.iter().all(|[p, q]| edge(*p, *q)));
    }
}

/// VTK 9.7.2's vtkFlyingEdges3D of the same volumes, normals off: triangles and area.
#[test]
fn counts_and_areas_are_vtks() {
    let known = [
        ("balls", VoxelType::Float32, 170.5, 1_792_856u64, 554_508.172),
        ("ball", VoxelType::Float32, 170.5, 271_292, 90_428.211),
    ];
    for (name, voxel, value, triangles, area) in known {
        let f = testing::volumes::scene(name, 256, 64, voxel).unwrap();
        let p = pager(160 << 20, PolicyKind::Clock, 4);
        let spec = VolumeContour { channels: Vec::new(), normals: false, ..spec(&[value]) };
        let (s, made) = draw(&p, &f.level(&p, None, None), 2, &spec);
        assert_eq!(made.drawn.triangles, triangles);
        assert!((s.area() / area - 1.0).abs() < 1e-6, "{}", s.area());
    }
}

#[test]
fn too_little_memory_is_said_at_once_and_what_would_do() {
    let f = waves([300, 100, 100], [100; 3], VoxelType::Float32);
    let p = pager(4 << 20, PolicyKind::Clock, 4);
    let level = f.level(&p, None, None);
    let e = run_volume(&p, 1, &level, &spec(&[100.0]), &mut |_| Ok(()), &mut |_, _| true).unwrap_err();
    let field::error::FieldError::LimitTooSmall { needs, .. } = e else { panic!("{e}") };
    let q = pager(needs, PolicyKind::Clock, 4);
    draw(&q, &f.level(&q, None, None), 1, &spec(&[100.0]));
}

#[test]
fn a_part_grows_from_a_point() {
    // Two balls that do not touch, and a third that shares cells with the first but no edge of its surface.
    let balls = [([40.0, 40.0, 40.0], 20.0), ([100.0, 50.0, 45.0], 25.0)];
    let value = move |x: [u32; 3]| {
        let of = |(c, r): &([f64; 3], f64)| r - (0..3).map(|a| (f64::from(x[a]) - c[a]).powi(2)).sum::<f64>().sqrt();
        100.0 + balls.iter().map(of).fold(f64::MIN, f64::max)
    };
    let f = Formula {
        name: "balls".into(),
        dims: [140, 90, 80],
        page: [16; 3],
        voxel: VoxelType::Float32,
        value: Arc::new(value),
    };
    let p = pager(64 << 20, PolicyKind::Clock, 4);
    let level = f.level(&p, None, None);
    let (all, _) = draw(&p, &level, 2, &spec(&[100.0]));
    assert_eq!(all.euler(), 4);
    for (n, (c, r)) in balls.iter().enumerate() {
        // Nearby, not on it.
        let near = Some([c[0] + r - 3.0, c[1], c[2]]);
        let q = pager(64 << 20, PolicyKind::Clock, 4);
        let level = f.level(&q, None, None);
        let (part, made) = draw(&q, &level, 2, &VolumeContour { near, ..spec(&[100.0]) });
        assert!(part.rim().is_empty() && part.euler() == 2, "{n}");
        let inside = |x: &[f64; 3]| (0..3).map(|a| (x[a] - c[a]).powi(2)).sum::<f64>().sqrt() < r + 1.0;
        assert!(part.points.iter().all(inside));
        let count = all.triangles.iter().filter(|t| inside(&all.points[t[0] as usize])).count();
        assert_eq!((part.triangles.len(), made.partial()), (count, false));
        // Pages of the part, and those beside it: far fewer than all.
        assert!(q.counters().faults < 200, "{} of {}", q.counters().faults, f.translation().count());
        // With the value of the point.
        let on = [c[0] + r, c[1], c[2]];
        let (by_point, _) = draw(&q, &level, 1, &VolumeContour { near: Some(on), ..spec(&[]) });
        assert!(by_point.rim().is_empty() && (by_point.triangles.len() as f64 / count as f64 - 1.0).abs() < 0.05);
    }
    let far = VolumeContour { near: Some([70.0, 5.0, 5.0]), ..spec(&[100.0]) };
    let e = run_volume(&p, 1, &level, &far, &mut |_| Ok(()), &mut |_, _| true).unwrap_err();
    assert!(e.to_string().contains("8 cells"), "{e}");
}

#[test]
fn parts_are_all_there_is_and_no_more() {
    // Noise: parts through cells that hold several sheets. Together they are everything, each once.
    let mut s = 0x1234_5678_9abc_def1u64;
    let noise: Vec<f64> = (0..14 * 12 * 70)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s >> 40) as f64 % 10.0
        })
        .collect();
    let value = move |x: [u32; 3]| noise[((x[2] * 12 + x[1]) * 14 + x[0]) as usize];
    let f = Formula {
        name: "noise".into(),
        dims: [14, 12, 70],
        page: [5, 6, 7],
        voxel: VoxelType::Uint8,
        value: Arc::new(value),
    };
    let p = pager(64 << 20, PolicyKind::Clock, 4);
    let level = f.level(&p, None, None);
    let (all, _) = draw(&p, &level, 2, &spec(&[7.5]));
    let key = |s: &WholeSurface, t: &[u64; 3]| t.map(|v| s.points[v as usize].map(f64::to_bits));
    let sorted = |s: &WholeSurface| {
        let mut keys: Vec<_> = s.triangles.iter().map(|t| key(s, t)).collect();
        keys.sort_unstable();
        keys
    };
    let mut left: std::collections::BTreeSet<_> = sorted(&all).into_iter().collect();
    let mut parts = 0;
    while let Some(first) = left.first().copied() {
        let middle: [f64; 3] = std::array::from_fn(|c| first.iter().map(|p| f64::from_bits(p[c])).sum::<f64>() / 3.0);
        let (part, _) = draw(&p, &level, 1, &VolumeContour { near: Some(middle), ..spec(&[7.5]) });
        let keys = sorted(&part);
        assert!(keys.binary_search(&first).is_ok(), "of a point on a triangle another part is drawn");
        // Whole: closed except for the rim of the volume, so that no other triangle has an edge in common with it.
        let edge = |p: [f64; 3], q: [f64; 3]| {
            let hi = [13.0, 11.0, 69.0];
            (0..3).any(|a| p[a] == q[a] && (p[a] == 0.0 || p[a] == hi[a]))
        };
        assert!(part.rim().iter().all(|[p, q]| edge(*p, *q)));
        for k in keys {
            left.remove(&k);
        }
        parts += 1;
    }
    assert!(parts > 10, "{parts}");
}
