//! Meshes written and read back by small readers of each format.

use super::sections::INT32;
use super::sink::SINK_BYTES;
use super::writer::LOGS_BYTES;
use super::*;
use crate::{
    npy, zip, FieldSpec, FieldType, FieldValues, FixedBudget, MemoryAccount, OutputError, OutputFile, Provenance,
};
use serde_json::Value;
use std::fs;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use testing::TestDir;

const NAMES: [&str; 4] = ["a.vtp", "a.ply", "a.glb", "a.npz"];

/// A bent sheet of `N * N` points far from the origin, with all features of a mesh.
struct Sheet {
    points: Vec<[f64; 3]>,
    normals: Vec<[f32; 3]>,
    colours: Vec<[u8; 4]>,
    pressure: Vec<f64>,
    velocity: Vec<f32>,
    stress: Vec<f64>,
    triangles: Vec<[u64; 3]>,
    lines: Vec<[u64; 2]>,
}

const N: usize = 60;

fn sheet() -> Sheet {
    let place = |p: usize| ((p % N) as f64, (p / N) as f64);
    let count = N * N;
    let points: Vec<[f64; 3]> =
        (0..count).map(place).map(|(x, y)| [1e6 + 0.01 * x, -3.0 + 0.1 * y, 0.001 * (x * y)]).collect();
    let cells = (0..(N - 1) * (N - 1)).map(|c| c / (N - 1) * N + c % (N - 1));
    let triangles = cells.flat_map(|p| [[p, p + 1, p + N], [p + 1, p + N + 1, p + N]].map(|t| t.map(|p| p as u64)));
    Sheet {
        normals: (0..count).map(|p| [0.0, (p as f32).sin(), (p as f32).cos()]).collect(),
        colours: (0..count).map(|p| [p as u8, (p / 256) as u8, 7, 255 - p as u8]).collect(),
        pressure: (0..count).map(|p| if p == 5 { f64::NAN } else { 0.1 * p as f64 }).collect(),
        velocity: (0..3 * count).map(|v| v as f32).collect(),
        stress: (0..6 * count).map(|v| -(v as f64)).collect(),
        triangles: triangles.collect(),
        lines: (1..N as u64).map(|p| [p - 1, p]).collect(),
        points,
    }
}

fn layout(positions: FieldType) -> MeshLayout {
    MeshLayout {
        fields: vec![
            FieldSpec::scalar("total pressure", "p <inf>"),
            FieldSpec { dtype: FieldType::F32, ..FieldSpec::vector("velocity", "m/s") },
            FieldSpec { components: 6, ..FieldSpec::scalar("stress", "") },
        ],
        positions,
        normals: true,
        colours: true,
        lines: true,
    }
}

fn provenance() -> Provenance {
    Provenance {
        program: "farfield test".into(),
        source: "grid\n<1>.xyz".into(),
        length_unit: "m".into(),
        time_unit: String::new(),
        notes: vec![("contour".into(), "1.5".into())],
    }
}

/// Pushes rows of the sheet. A triangle comes with the row of its last point.
fn push_rows(writer: &mut MeshWriter, sheet: &Sheet, rows: Range<usize>) -> Result<(), OutputError> {
    let at = rows.start * N..rows.end * N;
    let cells = rows.start.saturating_sub(1) * (N - 1) * 2..(rows.end - 1) * (N - 1) * 2;
    writer.push(&MeshPiece {
        zone: 7,
        points: MeshPoints::F64(&sheet.points[at.clone()]),
        normals: Some(&sheet.normals[at.clone()]),
        colours: Some(&sheet.colours[at.clone()]),
        fields: &[
            FieldValues::F64(&sheet.pressure[at.clone()]),
            FieldValues::F32(&sheet.velocity[3 * at.start..3 * at.end]),
            FieldValues::F64(&sheet.stress[6 * at.start..6 * at.end]),
        ],
        triangles: &sheet.triangles[cells],
        lines: if rows.start == 0 { &sheet.lines } else { &[] },
    })
}

fn writer(path: &Path, positions: FieldType, charge: Box<dyn MemoryAccount>) -> Result<MeshWriter, OutputError> {
    MeshWriter::new(OutputFile::create_mesh(path)?, layout(positions), provenance(), charge)
}

fn write(path: &Path, positions: FieldType, rows: usize, memory: usize) -> MeshStats {
    let (sheet, mut writer) = (sheet(), writer(path, positions, Box::new(FixedBudget::new(memory))).unwrap());
    for row in (0..N).step_by(rows) {
        assert_eq!(writer.points(), (row * N) as u64);
        push_rows(&mut writer, &sheet, row..(row + rows).min(N)).unwrap();
    }
    writer.finish(false).unwrap()
}

#[test]
fn the_file_depends_on_the_mesh_alone() {
    let dir = TestDir::new("mesh-same");
    for name in NAMES {
        let path = dir.path(name);
        let whole = write(&path, FieldType::F64, N, 16 << 20);
        let bytes = fs::read(&path).unwrap();
        let lines = N as u64 - 1;
        assert_eq!((whole.points, whole.triangles, whole.lines), ((N * N) as u64, 2 * lines * lines, lines));
        assert_eq!((whole.bytes, whole.spilled_bytes), (bytes.len() as u64, 0));
        assert_eq!(whole.bounds.unwrap()[0], [1e6, -3.0, 0.0]);
        // The least memory, with nearly all arrays on disk.
        for rows in [1, 7] {
            let stats = write(&path, FieldType::F64, rows, 400_000);
            assert!(stats.spilled_bytes > 400_000, "{name}: {stats:?}");
            assert!(fs::read(&path).unwrap() == bytes, "{name} in pieces of {rows} rows");
        }
    }
    assert_eq!(dir.names(), ["a.glb", "a.npz", "a.ply", "a.vtp"]);
}

#[test]
fn an_archive_has_all_arrays() {
    let dir = TestDir::new("mesh-npz");
    write(&dir.path("a.npz"), FieldType::F64, 7, 400_000);
    let (sheet, archive) = (sheet(), fs::read(dir.path("a.npz")).unwrap());
    let mut seen = Vec::new();
    for entry in zip::list(&&archive[..]).unwrap() {
        let bytes = &archive[entry.data_at as usize..][..entry.bytes as usize];
        let header = npy::parse(bytes).unwrap();
        assert_eq!(header.data_at + header.data_bytes().unwrap(), entry.bytes, "{}", entry.name);
        let data = &bytes[header.data_at as usize..];
        match entry.name.as_str() {
            "points.npy" => assert_eq!(f64s(data), sheet.points.as_flattened()),
            "normals.npy" => assert_eq!(f32s(data), sheet.normals.as_flattened()),
            "colours.npy" => assert_eq!(data, sheet.colours.as_flattened()),
            "velocity.npy" => assert_eq!(f32s(data), sheet.velocity),
            "stress.npy" => assert_eq!((header.shape, f64s(data)), (vec![(N * N) as u64, 6], sheet.stress.clone())),
            "triangles.npy" => {
                let expected: Vec<u8> = sheet.triangles.as_flattened().iter().flat_map(|n| n.to_le_bytes()).collect();
                assert_eq!(data, expected);
            }
            "lines.npy" => assert_eq!(header.shape, [N as u64 - 1, 2]),
            _ => {}
        }
        seen.push(entry.name);
    }
    let names = ["points", "zone", "normals", "colours", "total pressure", "velocity", "stress", "triangles"];
    let names = names.iter().chain(&["lines", "partial", "meta"]).map(|name| format!("{name}.npy"));
    assert_eq!(seen, names.collect::<Vec<_>>());
}

fn f64s(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn u32s(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn polygons_have_their_properties_side_by_side() {
    let dir = TestDir::new("mesh-ply");
    for (positions, bytes) in [(FieldType::F64, 8), (FieldType::F32, 4)] {
        write(&dir.path("a.ply"), positions, 7, 400_000);
        let (sheet, file) = (sheet(), fs::read(dir.path("a.ply")).unwrap());
        let end = file.windows(11).position(|w| w == b"end_header\n").unwrap() + 11;
        let header = std::str::from_utf8(&file[..end]).unwrap();
        assert!(
            header.contains("comment source grid?<1>.xyz\n") && header.contains("comment contour 1.5\n"),
            "{header}"
        );
        assert!(header.contains("comment unit of total_pressure: p <inf>\n"), "{header}");
        let properties: Vec<&str> = header
            .lines()
            .skip_while(|line| !line.starts_with("element vertex"))
            .skip(1)
            .map_while(|line| line.strip_prefix("property "))
            .collect();
        assert_eq!(
            properties[3..12],
            [
                "float nx",
                "float ny",
                "float nz",
                "uchar red",
                "uchar green",
                "uchar blue",
                "uchar alpha",
                "int zone",
                "double total_pressure",
            ]
        );
        assert_eq!(properties[12..16], ["float velocity_x", "float velocity_y", "float velocity_z", "double stress_0"]);
        let vertex = 3 * bytes + 12 + 4 + 4 + 8 + 12 + 48;
        let of = &file[end + 100 * vertex..][..vertex];
        match positions {
            FieldType::F64 => assert_eq!(f64s(&of[..24]), sheet.points[100]),
            FieldType::F32 => assert_eq!(f32s(&of[..12]), sheet.points[100].map(|v| v as f32)),
        }
        let rest = &of[3 * bytes..];
        assert_eq!((f32s(&rest[..12]), &rest[12..16]), (sheet.normals[100].to_vec(), &sheet.colours[100][..]));
        assert_eq!((u32s(&rest[16..20]), f64s(&rest[20..28])), (vec![7], vec![sheet.pressure[100]]));
        let faces = &file[end + N * N * vertex..];
        let last = sheet.triangles.len() - 1;
        assert_eq!(
            (faces[13 * last], u32s(&faces[13 * last + 1..][..12])),
            (3, sheet.triangles[last].map(|n| n as u32).to_vec())
        );
        assert_eq!(faces.len(), 13 * sheet.triangles.len() + 8 * sheet.lines.len());
    }
}

/// The description of a `.glb` and its buffer.
fn parse_glb(file: &[u8]) -> (Value, &[u8]) {
    assert_eq!((&file[..4], u32s(&file[4..12])), (&b"glTF"[..], vec![2, file.len() as u32]));
    let text = u32s(&file[12..16])[0] as usize;
    assert_eq!((&file[16..20], text % 4), (&b"JSON"[..], 0));
    let document = serde_json::from_slice(&file[20..20 + text]).unwrap();
    let rest = &file[20 + text..];
    if rest.is_empty() {
        return (document, rest);
    }
    assert_eq!((u32s(&rest[..4])[0] as usize, &rest[4..8]), (rest.len() - 8, &b"BIN\0"[..]));
    (document, &rest[8..])
}

/// The bytes of an accessor with `bytes` a point.
fn accessor(document: &Value, buffer: &[u8], accessor: &Value, bytes: usize) -> Vec<u8> {
    let accessor = &document["accessors"][accessor.as_u64().unwrap() as usize];
    let view = &document["bufferViews"][accessor["bufferView"].as_u64().unwrap() as usize];
    let number = |of: &Value, key: &str| of[key].as_u64().unwrap_or(0) as usize;
    let (begin, length) = (number(view, "byteOffset"), number(view, "byteLength"));
    let stride = number(view, "byteStride").max(bytes);
    let view = &buffer[begin..begin + length];
    let first = number(accessor, "byteOffset");
    (0..number(accessor, "count")).flat_map(|i| view[first + i * stride..][..bytes].to_vec()).collect()
}

#[test]
fn gltf_is_about_the_middle_and_keeps_its_shape() {
    let dir = TestDir::new("mesh-glb");
    write(&dir.path("a.glb"), FieldType::F64, 7, 400_000);
    let (sheet, file) = (sheet(), fs::read(dir.path("a.glb")).unwrap());
    let (document, buffer) = parse_glb(&file);
    let node = &document["nodes"][0];
    let middle: Vec<f64> = node["translation"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    assert!(middle.iter().all(|v| f64::from(*v as f32) == *v));
    let mesh = &document["meshes"][0];
    let attributes = &mesh["primitives"][0]["attributes"];
    let of = |name: &str, bytes: usize| accessor(&document, buffer, &attributes[name], bytes);
    let positions = f32s(&of("POSITION", 12));
    // A million from the origin single precision is accurate to 0.06; relative to the middle the sheet's hundredths are
    // there.
    for (stored, point) in positions.chunks(3).zip(&sheet.points) {
        for a in 0..3 {
            assert!((f64::from(stored[a]) + middle[a] - point[a]).abs() < 1e-6, "{stored:?} {point:?}");
        }
    }
    let bound = |key: &str, a: usize| document["accessors"][0][key][a].as_f64().unwrap() as f32;
    for a in 0..3 {
        let column = positions.iter().skip(a).step_by(3);
        assert_eq!(bound("min", a), column.clone().copied().fold(f32::MAX, f32::min));
        assert_eq!(bound("max", a), column.copied().fold(f32::MIN, f32::max));
    }
    assert_eq!(f32s(&of("NORMAL", 12)), sheet.normals.as_flattened());
    assert_eq!(f32s(&of("_VELOCITY", 12)), sheet.velocity);
    let third: Vec<f32> = sheet.stress.iter().skip(3).step_by(6).map(|v| *v as f32).collect();
    assert_eq!(f32s(&of("_STRESS_3", 4)), third);
    assert!(f32s(&of("_TOTAL_PRESSURE", 4))[5].is_nan());
    assert_eq!(f32s(&of("_ZONE", 4)), [7.0; N * N]);
    let colours = of("COLOR_0", 8);
    let colour = |p: usize| -> Vec<u16> {
        colours[8 * p..8 * p + 8].chunks(2).map(|b| u16::from_le_bytes(b.try_into().unwrap())).collect()
    };
    // sRGB 128 is 0.2158605 of the light, and opacity is linear.
    assert_eq!(colour(128)[0], (0.215_860_5_f64 * 65535.0).round() as u16);
    assert_eq!((colour(0)[3], colour(255)[3], colour(255)[0]), (65535, 0, 65535));
    assert_eq!(mesh["extras"]["fields"]["_STRESS_3"]["component"], 3);
    assert_eq!(mesh["extras"]["fields"]["_TOTAL_PRESSURE"]["unit"], "p <inf>");
    let indices = u32s(&accessor(&document, buffer, &mesh["primitives"][0]["indices"], 4));
    assert!(indices.iter().zip(sheet.triangles.as_flattened()).all(|(a, b)| u64::from(*a) == *b));
    assert_eq!(
        (mesh["primitives"][1]["mode"].as_u64(), document["buffers"][0]["byteLength"].as_u64()),
        (Some(1), Some(buffer.len() as u64))
    );
}

/// Text in front of the appended data, and that.
fn parse_vtp(file: &[u8]) -> (roxmltree::Document<'_>, &[u8]) {
    let mark = b"<AppendedData encoding=\"raw\">\n   _";
    let at = file.windows(mark.len()).position(|w| w == mark).unwrap() + mark.len();
    // The text ends in the middle: it is completed for parsing.
    let text = std::str::from_utf8(&file[..at]).unwrap().trim_end_matches('_');
    let text: &'static str = Box::leak(format!("{text}</AppendedData></VTKFile>").into_boxed_str());
    (roxmltree::Document::parse(text).unwrap(), &file[at..])
}

#[test]
fn polydata_is_as_wide_as_it_must_be() {
    let dir = TestDir::new("mesh-vtp");
    for wide in [false, true] {
        let (sheet, path) = (sheet(), dir.path("a.vtp"));
        let mut writer = writer(&path, FieldType::F32, Box::new(FixedBudget::new(1 << 20))).unwrap();
        if wide {
            // As if numbers of three digits did not fit 32 bits.
            (writer.int32, writer.sections.triangles.narrow_below) = (100, 1000);
        }
        push_rows(&mut writer, &sheet, 0..3).unwrap();
        push_rows(&mut writer, &sheet, 3..N).unwrap();
        writer.finish(true).unwrap();
        let file = fs::read(&path).unwrap();
        let (document, data) = parse_vtp(&file);
        let array = |name: &str| {
            let named = |node: &roxmltree::Node<'_, '_>| node.attribute("Name") == Some(name);
            let nodes: Vec<_> = document.descendants().filter(named).collect();
            let node = *nodes.last().unwrap();
            let at: usize = node.attribute("offset").unwrap().parse().unwrap();
            let bytes = u64::from_le_bytes(data[at..at + 8].try_into().unwrap()) as usize;
            (node.attribute("type").unwrap().to_owned(), &data[at + 8..at + 8 + bytes])
        };
        let numbers = |name: &str| -> Vec<u64> {
            match array(name) {
                (kind, bytes) if kind == "Int64" => {
                    assert!(wide);
                    bytes.chunks(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect()
                }
                (_, bytes) => u32s(bytes).into_iter().map(u64::from).collect(),
            }
        };
        // Lines come before triangles, so the last arrays of the name are theirs.
        assert_eq!(numbers("connectivity"), sheet.triangles.as_flattened());
        assert_eq!(numbers("offsets"), (1..=sheet.triangles.len() as u64).map(|t| 3 * t).collect::<Vec<_>>());
        assert_eq!(array("partial").1, 1i32.to_le_bytes());
        assert_eq!(array("zone").1.len(), 4 * N * N);
        assert_eq!(f32s(array("Normals").1), sheet.normals.as_flattened());
        assert_eq!(f64s(array("stress").1), sheet.stress);
        let points: Vec<f32> = sheet.points.as_flattened().iter().map(|v| *v as f32).collect();
        assert_eq!(f32s(array("Points").1), points);
        assert!(file.ends_with(b"\n  </AppendedData>\n</VTKFile>\n"));
    }
}

#[test]
fn pieces_that_do_not_fit_are_refused_and_others_go_on() {
    let dir = TestDir::new("mesh-wrong");
    let sheet = sheet();
    let mut writer = writer(&dir.path("a.vtp"), FieldType::F64, Box::new(FixedBudget::new(1 << 20))).unwrap();
    push_rows(&mut writer, &sheet, 0..2).unwrap();
    let mut wrong = |piece: MeshPiece, says: &str| {
        let error = writer.push(&piece).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    let point = [[0.0f32; 3]];
    let (normals, colours) = (Some(&[[0.0f32; 3]][..]), Some(&[[0u8; 4]][..]));
    let fields = [
        FieldValues::F64(&[0.0]),
        FieldValues::F32(&[0.0, 1.0, 2.0]),
        FieldValues::F64(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
    ];
    let good =
        MeshPiece { zone: 1, points: MeshPoints::F32(&point), normals, colours, fields: &fields, ..Default::default() };
    wrong(MeshPiece { normals: None, ..good }, "normal");
    wrong(MeshPiece { colours: None, ..good }, "colour");
    wrong(MeshPiece { fields: &fields[..2], ..good }, "fields");
    wrong(MeshPiece { triangles: &[[0, 1, 121]], ..good }, "point 121 came when there were 121 points");
    wrong(MeshPiece { lines: &[[0, 1 << 40]], ..good }, "point 1099511627776");
    writer.push(&MeshPiece { triangles: &[[0, 1, 120]], ..good }).unwrap();
    assert_eq!(writer.finish(false).unwrap().points, 121);

    let create = |name: &str| OutputFile::create_mesh(&dir.path(name)).unwrap_err().to_string();
    assert!(create("a.stl").contains(".vtp, .ply, .glb or .npz"));
    let csv = OutputFile::create(&dir.path("a.csv")).unwrap();
    let refused = MeshWriter::new(csv, MeshLayout::default(), provenance(), Box::new(FixedBudget::new(1 << 20)));
    assert!(refused.map(|_| ()).unwrap_err().to_string().contains(".glb"));
    let few = super::tests::writer(&dir.path("a.glb"), FieldType::F64, Box::new(FixedBudget::new(200_000)));
    let Err(OutputError::Memory { needs }) = few else { panic!("it needs more memory") };
    super::tests::writer(&dir.path("a.glb"), FieldType::F64, Box::new(FixedBudget::new(needs as usize)))
        .map(|_| ())
        .unwrap();
}

#[test]
fn what_a_format_does_not_hold_is_said_before_the_end() {
    let path = Path::new("/data/iso.glb");
    let layout = layout(FieldType::F64);
    let point = MeshPoints::F64(&[]);
    // 76 bytes a point and 12 a triangle: 32 and 64 million are 3.0 GiB, 40 and 160 million are 4.6.
    glb::check(path, &layout, 32_000_000, 64_000_000, 0, &point).unwrap();
    let refused = glb::check(path, &layout, 40_000_000, 160_000_000, 0, &point).unwrap_err().to_string();
    assert!(refused.contains("/data/iso.glb") && refused.contains("4 GiB") && refused.contains(".vtp"), "{refused}");
    let far = MeshPoints::F64(&[[1e300, 0.0, 0.0]]);
    assert!(glb::check(path, &layout, 1, 0, 0, &far).is_err());
    ply::check(path, INT32 - 1, 1, 1).unwrap();
    for (points, triangles) in [(INT32, 1), (1, INT32)] {
        assert!(ply::check(path, points, triangles, 0).unwrap_err().to_string().contains("2^31"));
    }
}

#[test]
fn an_empty_mesh_is_a_file() {
    let dir = TestDir::new("mesh-empty");
    for name in NAMES {
        let stats = writer(&dir.path(name), FieldType::F64, Box::new(FixedBudget::new(1 << 20))).unwrap().finish(false);
        assert_eq!(stats.unwrap().points, 0);
    }
    let file = fs::read(dir.path("a.glb")).unwrap();
    let (document, buffer) = parse_glb(&file);
    assert!(buffer.is_empty() && document.get("meshes").is_none() && document.get("buffers").is_none());
}

/// Counts charges.
struct Meter {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl MemoryAccount for Meter {
    fn try_charge(&mut self, bytes: usize) -> bool {
        let now = self.now.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.most.fetch_max(now, Ordering::SeqCst);
        true
    }
    fn release(&mut self, bytes: usize) {
        self.now.fetch_sub(bytes, Ordering::SeqCst);
    }
}

#[test]
fn memory_is_bounded_and_interruption_leaves_nothing() {
    let dir = TestDir::new("mesh-bounded");
    let sheet = sheet();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for name in NAMES {
        let meter = Box::new(Meter { now: Arc::clone(&now), most: Arc::clone(&most) });
        let mut writer = writer(&dir.path(name), FieldType::F64, meter).unwrap();
        // The sheet repeated, some 20 MB, with triangles always between the first points.
        for _ in 0..40 {
            push_rows(&mut writer, &sheet, 0..N).unwrap();
        }
        assert!(writer.sections.spilled_bytes() > 15 << 20);
        let mut told = 0;
        let stopped = writer.finish_watched(false, &mut |done, of| {
            assert!(done >= told && done <= of);
            told = done;
            if done > of / 2 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert!(matches!(stopped, Err(OutputError::Cancelled { .. })), "{name}");
        assert!(dir.names().is_empty());
        assert_eq!(now.load(Ordering::SeqCst), 0);
    }
    assert!(most.load(Ordering::SeqCst) <= LOGS_BYTES + 4 * SINK_BYTES, "{most:?}");
}
