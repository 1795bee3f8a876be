//! Fuzzing of every parser of foreign files, on stable Rust: small valid files, damaged in many ways. It takes a few
//! seconds. With `FARFIELD_SOAK_S` set (`make soak`) the targets share that time.
//!
//! The formats' own tests check that errors are *found*. These check that no parser panics, hangs, or allocates what a
//! header claims, and that errors name the file.

mod corpus;
mod harness;
mod mutate;

use convert::fuzz_notes;
use field::catalog::DType;
use field::error::FieldError;
use field::plot3d::{fuzz_note, fuzz_sniff, Kind, Plot3d, Plot3dOptions};
use field::store::codec::{Codec, Encoder};
use field::store::layout::{all_arrays, documents, lay_out, ArrayLayout};
use field::store::metadata::Root;
use field::store::{check_index, Store};
use harness::{names, FuzzTarget};
use output::{fuzz_lines, FixedBudget, LineFile};
use render::scene::SceneDocument;
use std::path::{Path, PathBuf};
use testing::TestDir;
use trace::seeds::{fuzz_csv, fuzz_npy, fuzz_spec, fuzz_vtp, Dimension, SeedContext, Seeds};

/// Bound for an input of a kilobyte.
const MEGABYTE: usize = 1 << 20;

const PLAIN: FuzzTarget<'static> =
    FuzzTarget { name: "", corpus: Vec::new(), words: &[], cases: 3000, memory: MEGABYTE / 2, seal: &|_| {} };

/// Opens `grid` with `q` and `function` as a command does. An error must name a file.
fn open_plot3d(folder: &TestDir, grid: &Path, q: &[&Path], function: &[&Path]) {
    let own = |list: &[&Path]| list.iter().map(|p| p.to_path_buf()).collect::<Vec<_>>();
    let opened = Plot3d::open(grid, &own(q), &own(function), &Plot3dOptions::default(), &folder.path("cache"));
    match opened {
        // These errors carry a path and show it.
        Ok(_) | Err(FieldError::Io { .. } | FieldError::Format { .. } | FieldError::Ambiguous { .. }) => {}
        Err(e) => {
            let text = e.to_string();
            let named = |p: &&&Path| text.contains(&*p.file_name().unwrap().to_string_lossy());
            assert!([grid].iter().chain(q).chain(function).any(|p| named(&p)), "no file is named: {text}");
        }
    }
}

#[test]
fn plot3d_binary() {
    let folder = TestDir::new("binary");
    let kinds = [Kind::Grid, Kind::Q, Kind::Function];
    let corpus = kinds.iter().flat_map(|k| corpus::binary(*k)).collect();
    let mut n = 0;
    FuzzTarget { name: "plot3d-binary", corpus, ..PLAIN }.run(|bytes| {
        fuzz_sniff(bytes);
        n += 1;
        if n % 8 == 0 {
            open_plot3d(&folder, &folder.file("b.xyz", bytes), &[], &[]);
        }
    });
}

#[test]
fn plot3d_beside_a_good_grid() {
    let folder = TestDir::new("beside");
    let [grid, _, _] = corpus::files(&folder);
    let corpus: Vec<Vec<u8>> = ["a.q", "a.f"].iter().map(|n| std::fs::read(folder.path(n)).unwrap()).collect();
    let mut n = 0;
    FuzzTarget { name: "plot3d-beside", corpus, cases: 800, ..PLAIN }.run(|bytes| {
        let file = folder.file("b.dat", bytes);
        n += 1;
        match n % 2 {
            0 => open_plot3d(&folder, &grid, &[&file], &[]),
            _ => open_plot3d(&folder, &grid, &[], &[&file]),
        }
    });
}

#[test]
fn plot3d_ascii() {
    let folder = TestDir::new("ascii");
    let mut n = 0;
    // Two blocks of the text are in memory, and one of the result.
    let target = FuzzTarget { name: "plot3d-ascii", corpus: corpus::ascii(), memory: MEGABYTE, cases: 1500, ..PLAIN };
    FuzzTarget { words: &["3*", "*", "1.D+3", "********", "\n", ",", "1000000*1.5", "1e5"], ..target }.run(|bytes| {
        fuzz_sniff(bytes);
        n += 1;
        if n % 8 == 0 {
            open_plot3d(&folder, &folder.file("t.xyz", bytes), &[], &[]);
        }
    });
}

/// Words of the JSON documents beside PLOT3D files.
const JSON: &[&str] = &[
    "null", "true", "[", "]", "{", "}", ",", ":", "\"", "[[[[[[[[", "{\"a\":", "\\u0000", "\\ud800", "1e999", "-1",
    "//", "/*", "\u{feff}",
];

#[test]
fn plot3d_side_files() {
    let folder = TestDir::new("side");
    let [grid, q, function] = corpus::files(&folder);
    let settings: &[u8] = br#"{"byte-order": "little", "iblank": "yes", "q": {"precision": 64}, "reference": {"length": 0.1, "gamma": 1.4},
        "zones": {"zone2": {"scale": 0.001}}, "zone-names": ["body", "wake"], "names": ["cp", "u;velocity", "v", "w"]}"#;
    let meta: &[u8] = br#"{"auto-detect-format": false, "format": "binary", "language": "fortran", "byte-order": "little", "precision": 64,
        "multi-grid": true, "blanking": 1, "2D": false, "R": 1.0, "gamma": 1.4, // VTK lets this through
        "filenames": [{"time": 0.5, "xyz": "a.xyz", "q": "a.q", "function": "a.f"},], "function-names": ["a", "b"]}"#;
    let corpus = vec![settings.to_vec(), meta.to_vec(), b"cp\nu ; velocity\nv\nw\nx; X-vorticity\n".to_vec()];
    let (p3d, json, nam) = (folder.path("m.p3d"), folder.path("a.xyz.p3d.json"), folder.path("a.f.nam"));
    let target = FuzzTarget { name: "plot3d-side", corpus, words: JSON, cases: 600, ..PLAIN };
    target.run(|bytes| {
        fuzz_sniff(bytes);
        std::fs::write(&p3d, bytes).unwrap();
        open_plot3d(&folder, &p3d, &[], &[]);
        for side in [&json, &nam] {
            std::fs::write(side, bytes).unwrap();
            open_plot3d(&folder, &grid, &[&q], &[&function]);
            std::fs::remove_file(side).unwrap();
        }
    });
}

#[test]
fn seed_specs() {
    let specs = [
        "point:1,2,3",
        "line:0,0,0:1,1,1:5",
        "plane:0,0,0:1,0,0:0,1,0:3:4",
        "ijk:z:1-3/2,1.5,2-9",
        "random:12:34",
        "box:0,0,0:1,1,1:2:2:2",
        "sphere:0,0,0:1:9",
        "point:1,2",
        "ijk:a:b:1,2",
    ];
    let corpus = specs.iter().map(|s| s.as_bytes().to_vec()).collect();
    let words = &["random:", "ijk:", "-", "/", ":", ",", "1e308", "plane:", "sphere:"];
    FuzzTarget { name: "seed-spec", corpus, words, cases: 10_000, memory: 1 << 16, ..PLAIN }.run(fuzz_spec);
}

fn seed_file(
    name: &'static str,
    extension: &str,
    corpus: Vec<Vec<u8>>,
    words: &'static [&'static str],
    parse: fn(&[u8]),
) {
    let folder = TestDir::new(name);
    let mut n = 0;
    FuzzTarget { name, corpus, words, cases: 1500, memory: MEGABYTE, ..PLAIN }.run(|bytes| {
        parse(bytes);
        n += 1;
        if n % 8 == 0 {
            let path = folder.file(&format!("seeds.{extension}"), bytes);
            let charge = Box::new(FixedBudget::new(1 << 20));
            let mut watch = |_: &str, _: f64, _: f64| true;
            if let Err(e) = Seeds::open(&path, &mut SeedContext::new(Dimension::Three, charge, &mut watch)) {
                names(&path, &e);
            }
        }
    });
}

#[test]
fn seed_csv() {
    let texts =
        ["x,y,z\n1,2,3\n4,5,6\n\"7\",8;9,\n", "# made by hand\n1 2 3\n4\t5.5 -6\n", "\u{feff}Z;Y;X\r\n1;2;3\r\n"];
    let words = &["x,y,z", "\n", "\"", ";", "\t", "nan", "Points:0", "\u{feff}", "#"];
    seed_file("seed-csv", "csv", texts.iter().map(|t| t.as_bytes().to_vec()).collect(), words, fuzz_csv);
}

#[test]
fn seed_npy() {
    let corpus = vec![
        corpus::npy("<f8", false, "(2, 3)", &[0; 48]),
        corpus::npy(">f4", true, "(4, 3)", &[0; 48]),
        corpus::npy("<i8", false, "(3,)", &[0; 24]),
    ];
    let words = &["'shape': (18446744073709551615, 3)", "(2, 3)", "'<f8'", "'|O'", "True", ")", "L", "\x00"];
    seed_file("seed-npy", "npy", corpus, words, fuzz_npy);
}

#[test]
fn seed_vtp() {
    let text = "<?xml version=\"1.0\"?>\n<VTKFile type=\"PolyData\" version=\"0.1\" byte_order=\"LittleEndian\">\n<PolyData>\n\
        <Piece NumberOfPoints=\"2\" NumberOfVerts=\"0\" NumberOfLines=\"0\">\n<PointData><DataArray type=\"Int32\" Name=\"a\" \
        format=\"ascii\">1 2</DataArray></PointData><Points>\n<DataArray type=\"Float32\" NumberOfComponents=\"3\" \
        format=\"ascii\">\n1 2 3\n4 5.5 -6\n</DataArray></Points></Piece></PolyData></VTKFile>";
    let binary = text
        .replace("format=\"ascii\">\n1 2 3\n4 5.5 -6\n", "format=\"binary\">GAAAAAAAgD8AAABAAABAQAAAgEAAALBAAADAwA==");
    let folder = TestDir::new("seed-vtp-lines");
    let corpus = vec![text.as_bytes().to_vec(), binary.into_bytes(), corpus::lines(&folder.path("a.vtp"), false)];
    seed_file("seed-vtp", "vtp", corpus, XML, fuzz_vtp);
}

const XML: &[&str] = &[
    "<Piece>",
    "</Piece>",
    "<!--",
    "-->",
    "<![CDATA[",
    "&lt;",
    "&#0;",
    "offset=\"0\"",
    "format=\"appended\"",
    "<AppendedData encoding=\"raw\">_",
    "compressor=\"vtkZLibDataCompressor\"",
    "header_type=\"UInt64\"",
    "NumberOfComponents=\"4000000000\"",
    "NumberOfPoints=\"",
    "type=\"Int8\"",
];

fn line_file(name: &'static str, extension: &str, words: &'static [&'static str]) {
    let folder = TestDir::new(name);
    let path = folder.path(&format!("lines.{extension}"));
    let corpus = [true, false].map(|both| corpus::lines(&path, both)).to_vec();
    let mut n = 0;
    FuzzTarget { name, corpus, words, cases: 1500, memory: MEGABYTE, ..PLAIN }.run(|bytes| {
        fuzz_lines(bytes);
        n += 1;
        if n % 8 == 0 {
            std::fs::write(&path, bytes).unwrap();
            if let Err(e) = LineFile::open(&path) {
                names(&path, &e);
            }
        }
    });
}

#[test]
fn lines_vtp() {
    line_file("lines-vtp", "vtp", XML);
}

#[test]
fn lines_npz() {
    line_file(
        "lines-npz",
        "npz",
        &["points.npy", "offsets.npy", "PK\x01\x02", "PK\x05\x06", "PK\x03\x04", "(2, 3)", "'<i8'", "'<U9'"],
    );
}

/// Rewrites the root document's checksum, if its place still exists.
fn seal_root(bytes: &mut [u8]) {
    const KEY: &[u8] = b"\"crc32c\":\"";
    let Some(at) = bytes.windows(KEY.len()).position(|w| w == KEY).map(|n| n + KEY.len()) else { return };
    if at + 8 > bytes.len() {
        return;
    }
    bytes[at..at + 8].fill(b'0');
    let crc = format!("{:08x}", crc32c::crc32c(bytes));
    bytes[at..at + 8].copy_from_slice(crc.as_bytes());
}

/// A forged root with a valid checksum: its numbers size no allocation.
#[test]
fn store_root() {
    let folder = TestDir::new("root");
    let store = corpus::store(&folder, Codec::None);
    let path = store.join("zarr.json");
    let corpus = vec![std::fs::read(&path).unwrap()];
    let mut n = 0;
    FuzzTarget { name: "store-root", corpus, words: JSON, seal: &|b| seal_root(b), ..PLAIN }.run(|bytes| {
        match Root::parse(&path, bytes) {
            Err(e) => names(&path, &e),
            Ok(root) => match lay_out(&path, &root.catalog, &root.pagings(), &root.steps, root.codec) {
                Err(e) => names(&path, &e),
                Ok(zones) => {
                    for layout in all_arrays(&zones, root.data) {
                        assert!(layout.page_bytes() > 0 && layout.shard_count() > 0);
                    }
                    assert!(documents(&zones, root.data).all(|d| !d.1.is_empty()));
                }
            },
        }
        n += 1;
        if n % 16 == 0 {
            std::fs::write(&path, bytes).unwrap();
            match Store::open(&store) {
                Ok(s) => {
                    // Sums of forged numbers.
                    let sums = (s.bytes(), s.page_count(), s.checked().shards().count() as u64);
                    assert!(sums.1 >= sums.2, "{sums:?}");
                }
                Err(e) => assert!(e.to_string().contains(&*store.to_string_lossy()), "{e}"),
            }
        }
    });
}

/// A forged root with sizes near the largest number, so that both sums overflow.
#[test]
fn sizes_that_overflow() {
    let folder = TestDir::new("overflow");
    let store = corpus::store(&folder, Codec::None);
    let path = store.join("zarr.json");
    let whole = std::fs::read(&path).unwrap();
    let mut root = Root::parse(&path, &whole).unwrap();
    root.seals[0].bytes = u64::MAX - 7;
    root.seals[1].bytes = 8;
    std::fs::write(&path, root.document()).unwrap();
    let e = Store::open(&store).unwrap_err().to_string();
    assert!(e.contains("zarr.json") && e.contains("convert again"), "{e}");
    root.seals[1].bytes = 0;
    (2..root.seals.len()).for_each(|n| root.seals[n].bytes = 0);
    std::fs::write(&path, root.document()).unwrap();
    assert_eq!(Store::open(&store).unwrap().bytes(), u64::MAX - 7);
}

/// A store with any damaged document is refused by an error that names the document, even if it seems complete.
#[test]
fn store_documents() {
    let folder = TestDir::new("documents");
    let store = corpus::store(&folder, Codec::Lz4);
    let opened = Store::open(&store).unwrap();
    let listed: Vec<String> = documents(&opened.zones, opened.root.data).map(|d| d.0).collect();
    let originals: Vec<Vec<u8>> = listed.iter().map(|n| std::fs::read(store.join(n)).unwrap()).collect();
    let mut n = 0;
    FuzzTarget { name: "store-documents", corpus: originals.clone(), words: JSON, cases: 400, ..PLAIN }.run(|bytes| {
        let at = n % listed.len();
        n += 1;
        let path = store.join(&listed[at]);
        std::fs::write(&path, bytes).unwrap();
        match Store::open(&store) {
            Ok(_) => assert!(bytes == originals[at], "a damaged {} was taken", listed[at]),
            Err(e) => assert!(e.to_string().contains(&*path.to_string_lossy()), "{e}"),
        }
        std::fs::write(&path, &originals[at]).unwrap();
    });
}

/// A forged index: an accepted one has its pages in place, one after the other.
#[test]
fn shard_index() {
    let folder = TestDir::new("index");
    let layouts: Vec<(ArrayLayout, Vec<u8>)> = [Codec::None, Codec::Zstd { level: 1 }, Codec::Lz4]
        .into_iter()
        .map(|codec| {
            let store = corpus::store(&folder, codec);
            let opened = Store::open(&store).unwrap();
            let layout = opened.zones[0].arrays.last().unwrap().clone();
            let mut shard = std::fs::read(store.join(layout.shard_path(0, 0))).unwrap();
            shard.truncate(layout.grid.head_bytes());
            (layout, shard)
        })
        .collect();
    let seal = |bytes: &mut [u8]| {
        if let Some(at) = bytes.len().checked_sub(8) {
            let crc = crc32c::crc32c(&bytes[..at]);
            bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        }
    };
    let corpus = layouts.iter().map(|l| l.1.clone()).collect();
    FuzzTarget { name: "shard-index", corpus, seal: &seal, memory: 1 << 16, cases: 10_000, ..PLAIN }.run(|bytes| {
        let (entries, beside) = bytes.split_at(bytes.len().saturating_sub(8));
        for (layout, _) in &layouts {
            let name = layout.shard_path(0, 0);
            let Ok(end) = check_index(&layout.form(), 0, &name, entries, beside) else { continue };
            let count = layout.grid.slots() as u64;
            let most = layout.codec.max_encoded(layout.page_bytes()) as u64;
            assert!(end <= layout.grid.head_bytes() as u64 + count * most);
        }
    });
}

/// Forged pages: a decoder writes the whole frame or fails, and writes nothing beyond it.
#[test]
fn page_payloads() {
    const GUARD: u8 = 0xa5;
    let page: Vec<u8> = (0..5000_u32).flat_map(|i| ((i as f32) * 0.01).sin().to_le_bytes()).collect();
    let noise: Vec<u8> = (0..20_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let codecs = [Codec::None, Codec::Zstd { level: 1 }, Codec::Lz4];
    let mut corpus = Vec::new();
    for (n, codec) in codecs.into_iter().enumerate() {
        for page in [&page, &noise, &vec![0; page.len()]] {
            // The first byte chooses the codec.
            let mut bytes = vec![n as u8];
            Encoder::new(codec, 4).unwrap().encode(page, &mut bytes).unwrap();
            corpus.push(bytes);
        }
    }
    let seal = |bytes: &mut [u8]| {
        if bytes.len() > 5 {
            let at = bytes.len() - 4;
            let crc = crc32c::crc32c(&bytes[1..at]);
            bytes[at..].copy_from_slice(&crc.to_le_bytes());
        }
    };
    let mut frame = vec![GUARD; page.len() + 256];
    FuzzTarget { name: "page-payloads", corpus, seal: &seal, cases: 10_000, ..PLAIN }.run(|bytes| {
        let Some((first, bytes)) = bytes.split_first() else { return };
        let codec = codecs[usize::from(*first) % codecs.len()];
        let done = codec.decode(DType::Float32.size(), bytes, &mut frame[..page.len()]);
        if let Err(e) = done {
            assert!(!e.to_string().is_empty());
        }
        assert!(frame[page.len()..].iter().all(|&b| b == GUARD), "written past the frame");
    });
}

/// Corrects the checksum at the end of a unit's record, or before a plan.
fn seal_note(bytes: &mut [u8]) {
    let Some(end) = bytes.len().checked_sub(4) else { return };
    if bytes.starts_with(b"FFunit") {
        let crc = crc32c::crc32c(&bytes[..end]);
        bytes[end..].copy_from_slice(&crc.to_le_bytes());
    } else if bytes.len() > 8 {
        let crc = format!("{:08x}", crc32c::crc32c(&bytes[8..]));
        bytes[..8].copy_from_slice(crc.as_bytes());
    }
}

/// The forged plan and unit records of an interrupted conversion.
#[test]
fn conversion_notes() {
    let folder = TestDir::new("notes");
    let (partial, _, _session) = corpus::interrupted(&folder);
    let units = std::fs::read_dir(partial.join("units")).unwrap();
    let mut corpus: Vec<Vec<u8>> = units.map(|e| std::fs::read(e.unwrap().path()).unwrap()).collect();
    assert!(!corpus.is_empty(), "no unit was finished");
    corpus.push(std::fs::read(partial.join("plan.json")).unwrap());
    FuzzTarget { name: "conversion-notes", corpus, words: JSON, seal: &seal_note, cases: 10_000, ..PLAIN }
        .run(fuzz_notes);
}

/// The damaged plan and records in place: a resumed conversion makes the same store.
#[test]
fn conversions_gone_on_with() {
    let folder = TestDir::new("resumed");
    let (partial, target, session) = corpus::interrupted(&folder);
    let mut names: Vec<_> = std::fs::read_dir(partial.join("units")).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    names.push(partial.join("plan.json"));
    let kept: Vec<_> = files_below(&partial).into_iter().map(|p| (std::fs::read(&p).unwrap(), p)).collect();
    corpus::resume(&session, &target, &mut || true).unwrap();
    let whole: Vec<_> = files_below(&target).into_iter().map(|p| (std::fs::read(&p).unwrap(), p)).collect();
    let corpus = names.iter().map(|p| kept.iter().find(|k| k.1 == *p).unwrap().0.clone()).collect();
    let mut n = 0;
    // A conversion's own buffers.
    let memory = 64 * MEGABYTE;
    FuzzTarget { name: "conversions-gone-on-with", corpus, words: JSON, cases: 40, memory, ..PLAIN }.run(|bytes| {
        std::fs::remove_dir_all(&target).ok();
        for (bytes, path) in &kept {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        std::fs::write(&names[n % names.len()], bytes).unwrap();
        n += 1;
        corpus::resume(&session, &target, &mut || true).unwrap();
        assert!(!partial.exists() && files_below(&target).len() == whole.len());
        assert!(whole.iter().all(|(bytes, path)| std::fs::read(path).unwrap() == *bytes), "other bytes");
    });
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<PathBuf> = entries.flat_map(|p| if p.is_dir() { files_below(&p) } else { vec![p] }).collect();
    all.sort();
    all
}

/// The notes beside converted text, which describe how to read it.
#[test]
fn converted_text_notes() {
    let folder = TestDir::new("text-notes");
    let mut notes: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    let text = corpus::ascii().swap_remove(0);
    let grid = folder.file("t.xyz", &text);
    open_plot3d(&folder, &grid, &[], &[]);
    // Without the cache's own notes about the sources of its files.
    let of_text =
        |p: &PathBuf| p.extension().is_some_and(|e| e == "json") && !p.parent().unwrap().ends_with(".records");
    for path in files_below(&folder.path("cache")).into_iter().filter(of_text) {
        notes.push((path.clone(), std::fs::read(&path).unwrap()));
    }
    let [(note, whole)] = &notes[..] else { panic!("one text, one note") };
    let mut n = 0;
    let target = FuzzTarget { name: "text-notes", corpus: vec![whole.clone()], words: JSON, memory: MEGABYTE, ..PLAIN };
    target.run(|bytes| {
        fuzz_note(bytes);
        n += 1;
        if n % 16 == 0 {
            std::fs::write(note, bytes).unwrap();
            open_plot3d(&folder, &grid, &[], &[]);
        }
    });
}

#[test]
fn scenes() {
    let scene: &[u8] = br#"{"version": 1, "source": {"path": "a.xyz", "q": ["a.q"]}, "step": 0, "size": [640, 480], "samples": 2,
        "objects": [{"kind": "lines", "file": "l.vtp", "map": "m", "radius": 0.1}, {"kind": "lines", "trace": {"seeds": "random:3:1"}},
        {"kind": "surface", "walls": true, "rgb": [1, 2, 3], "mesh": true}, {"kind": "surface", "zone": "z", "axis": "k", "index": 1},
        {"kind": "outline", "width": 1.5}], "maps": {"m": {"field": "mach", "range": [0, 1], "center": null, "lut": [[0, 0, 0], [255, 255, 255]]}},
        "camera": {"direction": [1, 0, 0], "up": [0, 0, 1], "zoom": 2, "fov_deg": 30, "projection": "orthographic"},
        "background": {"top": [1, 2, 3], "bottom": [3, 2, 1]}, "bars": ["m"], "axes": true, "title": "t"}"#;
    let lines: &[u8] = br#"{"size": [64, 48], "objects": [{"kind": "lines", "file": "l.npz"}]}"#;
    FuzzTarget { name: "scenes", corpus: vec![scene.to_vec(), lines.to_vec()], words: JSON, ..PLAIN }.run(|bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        match SceneDocument::parse(text) {
            Ok(document) => {
                for name in &document.bars {
                    assert!(document.map(name).is_some(), "a bar without a map");
                }
            }
            Err(e) => assert!(e.to_string().contains("scene") || e.to_string().contains("map"), "{e}"),
        }
    });
}
