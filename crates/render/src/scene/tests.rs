//! Scenes without sense, and equal pictures whatever the resources.

use super::colour_maps::{around, centred};
use super::faces::{FaceBuilder, FaceLayer, MeshLayer};
use super::geometry_log::{Arena, LineBuilder, LineLayer};
use super::*;
use crate::picture::{Chunk, Geometry};
use field::plot3d::write::{write, WriteSpec};
use field::plot3d::Kind;
use kernels::draw::readable;
use pager::PolicyKind;
use std::path::PathBuf;
use testing::{Lcg, TestDir};

fn resources(limit: u64, workers: usize) -> Resources {
    Resources { memory_limit: limit, workers, readers: 4, replacement: PolicyKind::Clock, observer: None }
}

fn arena(limit: u64, budget: usize) -> Arena {
    Arena::new(&resources(limit, 1).pager().unwrap(), budget).unwrap()
}

/// Two zones of a quarter ring about a body at rest (j = 1), with a rotation about z.
fn ring(dir: &TestDir) -> PathBuf {
    let dims = vec![[13, 9, 7], [13, 9, 7]];
    let place = |zone: usize, i: usize, j: usize, k: usize| {
        let (a, r) = ((zone as f64 + i as f64 / 12.0) * 0.7, 1.0 + j as f64 / 4.0);
        [r * a.cos(), r * a.sin(), k as f64 / 3.0]
    };
    for (name, kind, variables) in [("ring.xyz", Kind::Grid, 3), ("ring.q", Kind::Q, 5)] {
        let spec = WriteSpec::new(kind, dims.clone());
        let mut file = std::fs::File::create(dir.path(name)).unwrap();
        let mut plane = |zone: usize, variable: usize, k: usize, out: &mut [f64]| {
            for (n, value) in out.iter_mut().enumerate() {
                let p = place(zone, n % 13, n / 13, k);
                let v = if n < 13 { [0.0; 3] } else { [-p[1], p[0], 0.1] };
                let q = [1.0, v[0], v[1], v[2], 3.0];
                *value = if variables == 3 { p[variable] } else { q[variable] };
            }
        };
        write(&mut file, &spec, &mut plane).unwrap();
    }
    dir.path("ring.xyz")
}

/// Source of a scene: a grid with its solution.
fn source(path: &Path) -> Value {
    let cache = path.parent().unwrap().join("cache");
    json!({"path": path, "q": [path.with_extension("q")], "options": {"cache_dir": cache}})
}

fn trace_options() -> Value {
    json!({"seeds": "random:40:1", "direction": "both"})
}

fn drawn(scene: &Value, dir: &TestDir, resources: Resources) -> Result<(Value, Vec<u8>), FieldError> {
    let path = dir.path("out.png");
    let _ = std::fs::remove_file(&path);
    let found = render(&scene.to_string(), Vec::new(), &path, resources, &mut |_, _, _| true)?;
    Ok((found, std::fs::read(path).unwrap()))
}

fn full(source: &Path) -> Value {
    json!({
        "version": 1, "source": self::source(source), "size": [240, 160],
        "objects": [
            {"kind": "lines", "trace": trace_options(), "map": "speed", "rgb": null, "radius": null},
            {"kind": "surface", "walls": true, "rgb": [200, 200, 200], "mesh": true},
            {"kind": "surface", "zone": "zone2", "axis": "k", "index": 1, "map": "p"},
            {"kind": "outline", "width": 1.0},
        ],
        "maps": {
            "speed": {"field": "velocity", "lut": [[0, 0, 90], [250, 250, 0]], "units": "m/s"},
            "p": {"field": "velocity_x", "center": 0.0, "lut": [[0, 0, 90], [250, 250, 250], [90, 0, 0]]},
        },
        "bars": ["speed", "p"], "camera": {"zoom": 1.2},
    })
}

#[test]
fn the_same_picture_for_every_limit_and_any_number_of_workers() {
    let dir = TestDir::new("scene-same");
    let scene = full(&ring(&dir));
    let (found, whole) = drawn(&scene, &dir, resources(256 << 20, 1)).unwrap();
    assert!(whole.starts_with(b"\x89PNG"));
    let names: Vec<&str> = found["drawn"].as_array().unwrap().iter().map(|d| d["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["streamlines", "walls", "zone2:k=1", "outline"]);
    assert!(found["drawn"].as_array().unwrap().iter().all(|d| d["primitives"].as_u64().unwrap() > 0), "{found}");
    assert_eq!(found["drawn"][1]["primitives"], 2 * 12 * 6);
    assert_eq!(found["drawn"][2]["primitives"], 12 * 8);
    // Signed values; values on one side of the centre, with a range from it; and a vector by its magnitude.
    let range = |name: &str| [0, 1].map(|n| found["maps"][name]["range"][n].as_f64().unwrap());
    assert!(range("p").contains(&0.0) && range("p")[0] < range("p")[1], "{:?}", range("p"));
    assert!(range("speed")[0] >= 0.0 && range("speed")[1] < 3.1 && range("speed")[1] > 2.0, "{found}");
    for (limit, workers) in [(256 << 20, 2), (64 << 20, 3), (6 << 20, 1), (5 << 20, 2)] {
        let (again, bytes) = drawn(&scene, &dir, resources(limit, workers)).unwrap();
        assert!(bytes == whole, "{limit} bytes, {workers} workers");
        assert_eq!(again["camera"], found["camera"]);
        assert!(again["stats"]["peak_bytes"].as_u64().unwrap() <= limit);
    }
    // The reported camera draws the same picture.
    let mut fixed = scene.clone();
    fixed["camera"] = found["camera"].clone();
    let (again, _) = drawn(&fixed, &dir, resources(64 << 20, 2)).unwrap();
    for key in ["direction", "target", "distance"] {
        let numbers = |v: &Value| v.as_array().cloned().unwrap_or_else(|| vec![v.clone()]);
        for (a, b) in numbers(&again["camera"][key]).iter().zip(numbers(&found["camera"][key])) {
            assert!((a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-12, "{key}");
        }
    }
}

#[test]
fn signed_values_keep_their_side_of_a_diverging_map() {
    assert_eq!(around([-1.0, 3.0], 0.0), [-3.0, 3.0]);
    assert_eq!(around([0.1, 3.0], 0.0), [0.0, 3.0]);
    assert_eq!(around([830.0, 884.0], 0.0), [830.0, 884.0]);
    assert_eq!(around([-3.0, -2.9], 0.0), [-3.0, -2.9]);
    let lut: Vec<Rgb> = (0..=200).map(|n| [n, n, n]).collect();
    assert_eq!(centred(&lut, [-3.0, 3.0], 0.0), lut);
    let ends = |range, c| {
        let part = centred(&lut, range, c);
        [part[0][0], part[part.len() - 1][0]]
    };
    assert_eq!(ends([830.0, 884.0], 0.0), [100, 200]);
    assert_eq!(ends([-3.0, 0.0], 0.0), [0, 100]);
    // A given range: a value on the left is as far from the middle colour as the same value on the right.
    assert_eq!(ends([-1.0, 3.0], 0.0), [67, 200]);
    assert_eq!(centred(&lut, [0.0, 0.0], 0.0), lut);
}

#[test]
fn too_small_a_limit_names_one_that_does() {
    let dir = TestDir::new("scene-small");
    let mut scene = full(&ring(&dir));
    scene["size"] = json!([4000, 30]);
    let mut limit = 3 << 20;
    for attempt in 0.. {
        match drawn(&scene, &dir, resources(limit, 2)) {
            Err(FieldError::LimitTooSmall { needs, .. }) => {
                assert!(needs > limit && attempt < 4, "{needs}");
                limit = needs;
            }
            other => {
                other.unwrap();
                break;
            }
        }
    }
    assert!(!dir.names().iter().any(|n| n.ends_with(".part")));
}

#[test]
fn scenes_that_make_no_sense() {
    let dir = TestDir::new("scene-bad");
    let good = full(&ring(&dir));
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 14] = [
        ("colour", |s| s["colour"] = json!(1)),
        ("objects[0]", |s| s["objects"][0]["radios"] = json!(1.0)),
        ("objects[0]", |s| s["objects"][0]["file"] = json!("a.vtp")),
        ("objects[1]", |s| s["objects"][1]["zone"] = json!("zone1")),
        ("objects[3]", |s| s["objects"][3]["kind"] = json!("box")),
        ("maps.speed", |s| s["maps"]["speed"]["range"] = json!([2.0, 1.0])),
        ("maps.speed", |s| s["maps"]["speed"]["lut"] = json!([])),
        ("pressure", |s| s["objects"][0]["map"] = json!("pressure")),
        ("nothing", |s| s["maps"]["speed"]["field"] = json!("nothing")),
        ("zone9", |s| s["objects"][2]["zone"] = json!("zone9")),
        ("within 1 to 7", |s| s["objects"][2]["index"] = json!(8)),
        ("direction", |s| s["camera"]["direction"] = json!([0, 0, 0])),
        ("samples", |s| s["samples"] = json!(5)),
        ("pixels", |s| s["size"] = json!([0, 10])),
    ];
    for (word, change) in cases {
        let mut scene = good.clone();
        change(&mut scene);
        let error = drawn(&scene, &dir, resources(64 << 20, 1)).unwrap_err();
        assert!(
            matches!(error, FieldError::Usage(_) | FieldError::Unknown { .. } | FieldError::At { .. }),
            "{word}: {error:?}"
        );
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    let mut scene = good.clone();
    scene["source"] = Value::Null;
    assert!(drawn(&scene, &dir, resources(64 << 20, 1)).unwrap_err().to_string().contains("without a source"));
    assert!(!dir.names().iter().any(|n| n.contains("png")), "{:?}", dir.names());
}

#[test]
fn it_stops_when_told_to_and_leaves_nothing() {
    let dir = TestDir::new("scene-stop");
    let scene = full(&ring(&dir)).to_string();
    let mut calls = 0;
    render(&scene, Vec::new(), &dir.path("a.png"), resources(64 << 20, 2), &mut |_, _, _| {
        calls += 1;
        true
    })
    .unwrap();
    std::fs::remove_file(dir.path("a.png")).unwrap();
    for stop_at in (0..calls).step_by((calls / 12).max(1)) {
        let mut n = 0;
        let stopped = render(&scene, Vec::new(), &dir.path("b.png"), resources(64 << 20, 2), &mut |_, _, _| {
            n += 1;
            n <= stop_at
        });
        // A run that ends before the next call of the watch is complete.
        if stopped.is_ok() {
            std::fs::remove_file(dir.path("b.png")).unwrap();
        } else {
            assert!(matches!(stopped, Err(FieldError::Interrupted)), "{stopped:?}");
        }
        assert!(!dir.names().iter().any(|name| name.contains("png")), "{:?}", dir.names());
    }
}

#[test]
fn a_scene_of_files_alone_needs_no_source() {
    let dir = TestDir::new("scene-files");
    let mut scene = full(&ring(&dir));
    let session =
        Session::open(parts::source(scene["source"].clone()).unwrap(), resources(64 << 20, 1), &mut |_, _, _| true)
            .unwrap();
    assert_eq!(session.dataset().catalog.dimension, 3);
    let mut spec = parts::trace(trace_options(), &session, &mut |_, _, _| true).unwrap();
    spec.scalars = vec!["velocity".into()];
    for name in ["l.vtp", "l.npz"] {
        trace::trace(&session, &spec, output::Destination::File(&dir.path(name)), &mut |_, _, _| true).unwrap();
    }
    scene["source"] = Value::Null;
    scene["maps"].as_object_mut().unwrap().remove("p");
    scene["bars"] = json!(["speed"]);
    let mut pictures = Vec::new();
    for name in ["l.vtp", "l.npz"] {
        scene["objects"] = json!([{"kind": "lines", "file": dir.path(name), "map": "speed"}]);
        let (found, bytes) = drawn(&scene, &dir, resources(64 << 20, 2)).unwrap();
        assert_eq!((&found["drawn"][0]["name"], found["maps"]["speed"]["units"].as_str()), (&json!(name), Some("m/s")));
        pictures.push(bytes);
    }
    assert!(pictures[0] == pictures[1]);
    scene["maps"]["speed"]["field"] = json!("no_such");
    let error = drawn(&scene, &dir, resources(64 << 20, 2)).unwrap_err().to_string();
    assert!(error.contains("no_such") && error.contains("velocity"), "{error}");
    scene["objects"][0]["file"] = json!("/no/such/file.vtp");
    assert!(matches!(drawn(&scene, &dir, resources(64 << 20, 2)), Err(FieldError::Format { .. })));
}

/// Segments of lines, as (from, to, values).
type Segments = Vec<([f64; 3], [f64; 3], [f32; 2])>;

#[test]
fn lines_come_back_whole_from_memory_and_from_disk() {
    for budget in [1, 20_000, 1 << 24] {
        let mut arena = arena(64 << 20, budget);
        let mut random = Lcg(5);
        let mut expected: Segments = Vec::new();
        let (mut lone, mut highest) = (0, 0.0f64);
        let mut builder = LineBuilder::new(&mut arena, true);
        for line in 0..300 {
            let n = if line % 50 == 0 { 256 + random.below(900) } else { random.below(6) };
            lone += u64::from(n == 1);
            let mut last: Option<([f64; 3], f32)> = None;
            for _ in 0..n {
                let p = [random.below(1000) as f64, random.below(1000) as f64, line as f64];
                let v = random.below(1000) as f32;
                builder.point(p, f64::from(v)).unwrap();
                highest = highest.max(p[2]);
                expected.extend(last.map(|(q, w)| (q, p, [w, v])));
                last = Some((p, v));
            }
            builder.end_line().unwrap();
        }
        let lines = builder.finish().unwrap();
        assert_eq!(lines.segments, expected.len() as u64);
        let layer = LineLayer { log: arena.log(), lines: &lines };
        let (mut found, mut single): (Segments, u64) = (Vec::new(), 0);
        let mut visit = |c: Chunk<'_>| {
            let Chunk::Line(l) = c else { panic!("lines only") };
            let v = l.scalars.unwrap();
            single += u64::from(l.points.len() == 1);
            for n in 1..l.points.len() {
                found.push((l.points.get(n - 1).to_array(), l.points.get(n).to_array(), [v[n - 1], v[n]]));
            }
        };
        layer.for_each(&|_| true, &mut visit).unwrap();
        assert!(found == expected && single == lone, "{budget}");
        assert_eq!(layer.bounds().max.z, highest);
    }
}

#[test]
fn surfaces_come_back_whole_with_their_neighbours_over_the_seam() {
    // A tube closed along i, in more than one tile each way, with a hole.
    let (ni, nj) = (70, 41);
    let at = |i: usize, j: usize| {
        let a = (i % (ni - 1)) as f64 / (ni - 1) as f64 * std::f64::consts::TAU;
        [a.cos(), a.sin(), j as f64 * 0.1]
    };
    for budget in [1, 1 << 24] {
        let mut arena = arena(64 << 20, budget);
        let mut builder = FaceBuilder::new(&mut arena, [ni, nj], true).unwrap();
        for j in 0..nj {
            let points: Vec<[f64; 3]> = (0..ni).map(|i| at(i, j)).collect();
            let usable: Vec<bool> = (0..ni).map(|i| (i, j) != (10, 20)).collect();
            builder
                .push_row(
                    &points,
                    &|i| if (i, j) == (10, 20) { 1e9 } else { (i + j) as f64 },
                    [&usable, &vec![false; ni]],
                )
                .unwrap();
        }
        let face = builder.finish().unwrap();
        assert_eq!(face.quads, (ni - 1) as u64 * (nj - 1) as u64 - 4);
        assert_eq!(face.range.ends(), Some([0.0, (ni + nj - 2) as f64]));
        let layer = FaceLayer { log: arena.log(), face: &face };
        let (mut drawn, mut holes) = (0, 0);
        let mut visit = |c: Chunk<'_>| {
            let Chunk::Quads(q) = c else { panic!("quads only") };
            let [[i0, i1], [j0, j1]] = q.draw.unwrap();
            // The tube is closed along i: there is always a neighbour.
            assert!(i0 == 1 && i1 + 2 == q.size[0]);
            for j in j0..j1 {
                for i in i0..i1 {
                    let p = q.points.get(j * q.size[0] + i);
                    drawn += 1;
                    holes += usize::from(p.is_nan());
                    let value = q.scalars.unwrap()[j * q.size[0] + i];
                    if !p.is_nan() {
                        let angle = p.y.atan2(p.x).rem_euclid(std::f64::consts::TAU);
                        let n = (angle / std::f64::consts::TAU * (ni - 1) as f64).round() as usize % (ni - 1)
                            + (p.z / 0.1).round() as usize;
                        assert_eq!(value as usize, n);
                        // Neighbours follow at the same angle, also over the seam.
                        let before = q.points.get(j * q.size[0] + i - 1);
                        if !before.is_nan() {
                            assert!((before - p).length() < 1.1 * std::f64::consts::TAU / (ni - 1) as f64);
                        }
                    }
                }
            }
        };
        layer.for_each(&|_| true, &mut visit).unwrap();
        assert_eq!((drawn, holes), ((ni - 1) * (nj - 1), 1));
        // Each grid line once, whatever the tiles.
        let mesh = MeshLayer::new(arena.log(), &face, 1000);
        let mut segments = 0;
        mesh.for_each(&|_| true, &mut |_| segments += 1).unwrap();
        assert_eq!(segments, (ni - 1) * nj + ni * (nj - 1));
        let none = |_: &crate::picture::Aabb| false;
        layer.for_each(&none, &mut |_| panic!("nothing was wanted")).unwrap();
    }
}

#[test]
fn ranges_that_a_scale_can_show() {
    assert_eq!(readable([8e-13, 0.4]), [0.0, 0.4]);
    let [low, high] = readable([2.0, 2.0 + 1e-7]);
    assert!((low - 1.98).abs() < 1e-6 && (high - 2.02).abs() < 1e-6);
    assert_eq!(readable([0.0, 0.0]), [-1.0, 1.0]);
    assert_eq!(readable([-3.0, 5.0]), [-3.0, 5.0]);
}
