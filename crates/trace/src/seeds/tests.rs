//! Seeds from a user's text, and from files.

use super::*;
use output::{FixedBudget, MemoryAccount};
use proptest::prelude::*;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use testing::{mutations, TestDir};

/// Reads with a megabyte of its own.
fn reading<T>(dimension: Dimension, read: impl FnOnce(&mut SeedContext<'_, '_>) -> T) -> T {
    read(&mut SeedContext::new(dimension, Box::new(FixedBudget::new(1 << 20)), &mut |_, _, _| true))
}

fn parse(spec: &str, dimension: Dimension) -> Result<Seeds, SeedError> {
    reading(dimension, |r| Seeds::parse(spec, r))
}

fn open(path: &Path, dimension: Dimension) -> Result<Seeds, SeedError> {
    reading(dimension, |r| Seeds::open(path, r))
}

fn three(spec: &str) -> Seeds {
    parse(spec, Dimension::Three).unwrap()
}

fn two(spec: &str) -> Seeds {
    parse(spec, Dimension::Two).unwrap()
}

fn refused(spec: &str, dimension: Dimension) -> String {
    parse(spec, dimension).unwrap_err().to_string()
}

/// All positions in physical space.
fn physical(seeds: &Seeds) -> Vec<[f64; 3]> {
    (0..seeds.len())
        .map(|i| match seeds.get(i).unwrap() {
            SeedPoint::Physical(point) => point,
            other => panic!("{other:?} is not in physical space"),
        })
        .collect()
}

fn computational(seeds: &Seeds) -> Vec<[f64; 3]> {
    (0..seeds.len())
        .map(|i| match seeds.get(i).unwrap() {
            SeedPoint::Computational { ijk, .. } => ijk,
            other => panic!("{other:?} is not in computational space"),
        })
        .collect()
}

#[test]
fn shapes_give_the_positions_they_say() {
    assert_eq!(physical(&three("point:1,-2.5,3e-1")), [[1.0, -2.5, 0.3]]);
    assert_eq!(physical(&three("line:0,0,0:0,1,2:3")), [[0.0; 3], [0.0, 0.5, 1.0], [0.0, 1.0, 2.0]]);
    assert_eq!(physical(&three("line:1,2,3:4,5,6:1")), [[1.0, 2.0, 3.0]]);
    assert_eq!(
        physical(&three("plane:0,0,0:2,0,0:0,0,4:2:3")),
        [[0.0; 3], [2.0, 0.0, 0.0], [0.0, 0.0, 2.0], [2.0, 0.0, 2.0], [0.0, 0.0, 4.0], [2.0, 0.0, 4.0]]
    );
    let corners = physical(&three("box:0,0,0:1,2,3:2:2:2"));
    assert_eq!(corners.len(), 8);
    assert_eq!((corners[1], corners[2], corners[7]), ([1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [1.0, 2.0, 3.0]));
    assert_eq!(physical(&two("point:1,2")), [[1.0, 2.0, 0.0]]);
    assert_eq!(physical(&two("point:1,2,0")), [[1.0, 2.0, 0.0]]);
    assert_eq!(physical(&two("box:0,0:1,1:2:2"))[3], [1.0, 1.0, 0.0]);
}

#[test]
fn ends_are_exact() {
    let seeds = three("line:0.1,0.2,0.3:0.7,1.1,-3.3:7");
    let points = physical(&seeds);
    assert_eq!(points[0], [0.1, 0.2, 0.3]);
    assert_eq!(points[6], [0.7, 1.1, -3.3]);
}

#[test]
fn spheres_are_round_and_even() {
    let points = physical(&three("sphere:1,2,3:2:1000"));
    let mut mean = [0.0; 3];
    for p in &points {
        let d = [p[0] - 1.0, p[1] - 2.0, p[2] - 3.0];
        assert!((d.iter().map(|v| v * v).sum::<f64>().sqrt() - 2.0).abs() < 1e-12);
        (0..3).for_each(|axis| mean[axis] += d[axis] / 1000.0);
    }
    assert!(mean.iter().all(|v| v.abs() < 0.01), "{mean:?}");
    let circle = physical(&two("sphere:0,0:1:4"));
    assert!((circle[1][0]).abs() < 1e-15 && circle[1][1] == 1.0 && circle[1][2] == 0.0);
}

#[test]
fn computational_space_is_counted_from_one_by_users() {
    let seeds = three("ijk:wing:1,2.5,3");
    assert_eq!(seeds.zone(), Some("wing"));
    assert_eq!(computational(&seeds), [[0.0, 1.5, 2.0]]);
    assert_eq!(computational(&three("ijk:1:1-3,2,2")), [[0.0, 1.0, 1.0], [1.0, 1.0, 1.0], [2.0, 1.0, 1.0]]);
    assert_eq!(computational(&three("ijk:1:3-1,2,2"))[2], [0.0, 1.0, 1.0]);
    assert_eq!(computational(&three("ijk:1:1.5-3.2,1,1")), [[0.5, 0.0, 0.0], [1.5, 0.0, 0.0]]);
    let grid = computational(&three("ijk:a:b:1-2/5,1-3,4"));
    assert_eq!(grid.len(), 15);
    assert_eq!((grid[1], grid[5], grid[14]), ([0.25, 0.0, 3.0], [0.0, 1.0, 3.0], [1.0, 2.0, 3.0]));
    assert_eq!(three("ijk:a:b:1,1,1").zone(), Some("a:b"));
    assert_eq!(computational(&two("ijk:1:2,3")), [[1.0, 2.0, 0.0]]);
}

#[test]
fn ten_million_random_seeds_cost_nothing() {
    let seeds = three("random:10000000:7");
    assert_eq!(seeds.len(), 10_000_000);
    let SeedPoint::Random(mut last) = seeds.get(9_999_999).unwrap() else { panic!("a random seed") };
    assert_eq!(last.next_u64(), SeedStream::new(7, 9_999_999).next_u64());
    let inside = last.next_in([-1.0, 0.0, 5.0], [1.0, 0.0, 6.0]);
    assert!((-1.0..1.0).contains(&inside[0]) && inside[1] == 0.0 && (5.0..6.0).contains(&inside[2]));
    assert!(matches!(seeds.get(10_000_000), Err(SeedError::Index { .. })));
}

#[test]
fn what_is_wrong_is_said_with_the_right_form() {
    let three = |spec: &str, words: &[&str]| {
        let message = refused(spec, Dimension::Three);
        for word in words {
            assert!(message.contains(word), "{spec}: {message}");
        }
    };
    three("point:1,2", &["2 coordinates", "3-D", "point:x,y,z"]);
    three("point:1,2,x", &["'x' is not a number"]);
    three("point:1,,2", &["missing"]);
    three("point:1,2,nan", &["finite"]);
    three("line:0,0,0:1,1,1", &["2 parts", "3 are due", "line:x,y,z:x,y,z:n"]);
    three("line:0,0,0:1,1,1:0", &["at least 1"]);
    three("line:0,0,0:1,1,1:2.5", &["not a count"]);
    three("box:1,0,0:0,1,1:2:2:2", &["highest"]);
    three("box:0,0,0:1,1,1:99999999:99999999:99999999", &["more than can be numbered"]);
    three("sphere:0,0,0:-1:5", &["negative"]);
    three("random:5", &["random:n:seed"]);
    three("random:5:-1", &["whole number"]);
    three("ijk:1:0,1,1", &["below 1"]);
    three("ijk:1:1,1", &["2 indices", "ijk:ZONE"]);
    three("ijk:1,1,1", &["no zone"]);
    three("ijk:1:1/3,1,1", &["no range"]);
    three("ijk:1:1e3,1,1", &["not an index"]);
    three("rake:0,0,0", &["'rake' is no shape", "line:"]);
    three("somewhere", &["neither", "point:"]);
    three("/none/such.csv", &["such.csv", "No such file"]);
    assert!(refused("point:1,2,3", Dimension::Two).contains("2-D"));
    assert!(refused("line:0,0:1,1,1:4", Dimension::Two).contains("line:x,y:x,y:n"));
}

#[test]
fn text_files() {
    let dir = TestDir::new("seeds-csv");
    let path = dir.path("seeds.csv");
    let read = |text: &str, dimension| {
        fs::write(&path, text).unwrap();
        open(&path, dimension).map(|seeds| physical(&seeds)).map_err(|e| e.to_string())
    };
    let three = |text: &str| read(text, Dimension::Three);
    let expected = vec![[1.0, 2.0, 3.0], [4.0, 5.5, -6.0]];
    for text in [
        "1,2,3\n4,5.5,-6\n",
        "x,y,z\n1,2,3\n4,5.5,-6",
        "\u{feff}X;Y;Z\r\n1;2;3\r\n4;5.5;-6\r\n",
        "# made by hand\n\n1 2 3\n 4\t5.5 -6".replace('\t', " ").as_str(),
        "1\t2\t3\n4\t5.5\t-6\n",
        "name,z,y,x\na,3,2,1\nb,-6,5.5,4\n",
        "\"p\",\"Points:0\",\"Points:1\",\"Points:2\"\n9,1,2,3\n9,4,5.5,-6\n",
    ] {
        assert_eq!(three(text).unwrap(), expected, "{text}");
    }
    assert_eq!(read("x,y\n1,2\n", Dimension::Two).unwrap(), [[1.0, 2.0, 0.0]]);
    assert_eq!(read("1,2,0\n", Dimension::Two).unwrap(), [[1.0, 2.0, 0.0]]);
    let wrong = |text: &str, word: &str| {
        let message = three(text).unwrap_err();
        assert!(message.contains(word), "{text}: {message}");
    };
    wrong("1,2\n", "3-D");
    wrong("x,y\n1,2\n", "no x and y and z");
    wrong("1,2,3\n4,five,6\n", "line 2 has 'five'");
    wrong("1,2,3\n4,5\n", "line 2 has 2 coordinates");
    wrong("1,2,nan\n", "line 1 has a coordinate");
    wrong("1,2,3,4\n", "4 coordinates");
    wrong("x,y,z\n", "no points");
    wrong("", "no points");
    wrong(&"1".repeat(100_000), "longer");
}

/// A `.npy` file of a type, order and shape.
fn npy_file(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let text = format!(
        "{{'descr': '{descr}', 'fortran_order': {}, 'shape': {shape}, }}\n",
        if fortran { "True" } else { "False" }
    );
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(data);
    out
}

#[test]
fn numpy_files() {
    let dir = TestDir::new("seeds-npy");
    let path = dir.path("seeds.npy");
    let read = |bytes: Vec<u8>, dimension| {
        fs::write(&path, bytes).unwrap();
        open(&path, dimension).map(|seeds| physical(&seeds)).map_err(|e| e.to_string())
    };
    let rows = [1.0, 2.0, 3.0, 4.0, 5.5, -6.0f64];
    let columns = [1.0, 4.0, 2.0, 5.5, 3.0, -6.0f64];
    let expected = [[1.0, 2.0, 3.0], [4.0, 5.5, -6.0]];
    let le = |v: &[f64]| v.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
    let three = |bytes| read(bytes, Dimension::Three);
    assert_eq!(three(npy_file("<f8", false, "(2, 3)", &le(&rows))).unwrap(), expected);
    assert_eq!(three(npy_file("<f8", true, "(2, 3)", &le(&columns))).unwrap(), expected);
    let be: Vec<u8> = columns.iter().flat_map(|v| (*v as f32).to_be_bytes()).collect();
    assert_eq!(three(npy_file(">f4", true, "(2, 3)", &be)).unwrap(), expected);
    let whole: Vec<u8> = [1i64, 2, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(three(npy_file("<i8", false, "(3,)", &whole)).unwrap(), [[1.0, 2.0, 3.0]]);
    assert_eq!(read(npy_file("<f8", false, "(1, 2)", &le(&[7.0, 8.0])), Dimension::Two).unwrap(), [[7.0, 8.0, 0.0]]);
    let wrong = |bytes, word: &str| {
        let message = three(bytes).unwrap_err();
        assert!(message.contains(word), "{message}");
    };
    wrong(npy_file("<f8", false, "(2, 3)", &le(&rows[..5])), "ends before");
    wrong(npy_file("<f8", false, "(1000000000000, 3)", &le(&rows)), "ends before");
    wrong(npy_file("<f8", false, "(18446744073709551615, 3)", &le(&rows)), "ends before");
    wrong(npy_file("<f8", false, "(3, 2)", &le(&rows)), "point 0 has 2 coordinates");
    wrong(npy_file("<f8", false, "(1, 6)", &le(&rows)), "shape [1, 6]");
    wrong(npy_file("<f8", false, "(1, 3)", &le(&[f64::NAN; 3])), "point 0 has a coordinate");
    wrong(npy_file("<f8", false, "(0, 3)", &[]), "no points");
    wrong(npy_file("<c16", false, "(1, 3)", &le(&rows)), "<c16");
    wrong(b"not an array".to_vec(), "not a .npy");
}

const VTP: &str = "<?xml version=\"1.0\"?>\n<VTKFile type=\"PolyData\" version=\"0.1\" byte_order=\"LittleEndian\">\n<PolyData>\n\
    <Piece NumberOfPoints=\"2\" NumberOfVerts=\"0\" NumberOfLines=\"0\">\n<PointData><DataArray type=\"Int32\" Name=\"a\" \
    format=\"ascii\">1 2</DataArray></PointData><Points>\n<DataArray type=\"Float32\" NumberOfComponents=\"3\" \
    format=\"ascii\">\n1 2 3\n4 5.5 -6\n</DataArray></Points></Piece></PolyData></VTKFile>";

#[test]
fn vtk_files() {
    let dir = TestDir::new("seeds-vtp");
    let path = dir.path("seeds.vtp");
    let read = |text: &str| {
        fs::write(&path, text).unwrap();
        open(&path, Dimension::Three).map(|seeds| physical(&seeds)).map_err(|e| e.to_string())
    };
    assert_eq!(read(VTP).unwrap(), [[1.0, 2.0, 3.0], [4.0, 5.5, -6.0]]);
    let binary = VTP
        .replace("format=\"ascii\">\n1 2 3\n4 5.5 -6\n", "format=\"binary\">GAAAAAAAgD8AAABAAABAQAAAgEAAALBAAADAwA==");
    assert_eq!(read(&binary).unwrap(), [[1.0, 2.0, 3.0], [4.0, 5.5, -6.0]]);
    let wrong = |text: String, word: &str| {
        let message = read(&text).unwrap_err();
        assert!(message.contains(word), "{message}");
    };
    wrong(VTP.replace("NumberOfPoints=\"2\"", "NumberOfPoints=\"3\""), "ends after 6 of 9 numbers");
    wrong(VTP.replace("NumberOfPoints=\"2\"", "NumberOfPoints=\"99999999999999999999\""), "NumberOfPoints");
    wrong(VTP.replace("NumberOfPoints=\"2\"", "NumberOfPoints=\"9999999999999999999\""), "longer than any file");
    wrong(VTP.replace("type=\"PolyData\"", "type=\"ImageData\""), "holds ImageData");
    wrong(VTP.replace("version=\"0.1\"", "compressor=\"vtkLZ4DataCompressor\""), "vtkLZ4DataCompressor");
    wrong("x".into(), "not a VTK XML file");
}

#[test]
fn many_seeds_from_a_file_go_to_disk() {
    let dir = TestDir::new("seeds-many");
    let path = dir.path("seeds.npy");
    let n = 100_000usize;
    let data: Vec<u8> = (0..3 * n).flat_map(|v| (v as f64).to_le_bytes()).collect();
    fs::write(&path, npy_file("<f8", false, &format!("({n}, 3)"), &data)).unwrap();
    let seeds = open(&path, Dimension::Three).unwrap();
    let Seeds::List(points) = &seeds else { panic!("a list") };
    assert!(points.log().spilled_bytes() > 0 && points.log().held_bytes() <= 64 << 10);
    for i in [0, 1, 50_000, 99_999] {
        let v = 3.0 * i as f64;
        assert_eq!(seeds.get(i).unwrap(), SeedPoint::Physical([v, v + 1.0, v + 2.0]));
    }
    assert_eq!(dir.names(), ["seeds.npy"]);
}

/// An account with a shared count.
struct Meter(Arc<AtomicUsize>, usize);

impl MemoryAccount for Meter {
    fn try_charge(&mut self, bytes: usize) -> bool {
        let fits = self.0.load(Ordering::SeqCst) + bytes <= self.1;
        self.0.fetch_add(if fits { bytes } else { 0 }, Ordering::SeqCst);
        fits
    }
    fn release(&mut self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::SeqCst);
    }
}

#[test]
fn points_are_charged_as_long_as_they_are_there() {
    let dir = TestDir::new("seeds-charged");
    let n = 50_000usize;
    let text: String = (0..n).map(|v| format!("{v} 0.5 -1\n")).collect();
    // Points between the tags are decoded before they are a list.
    let (head, tail) = VTP.split_once("<PointData>").unwrap();
    let (_, points) = tail.split_once("</PointData>").unwrap();
    let vtp =
        format!("{head}{points}").replace("Points=\"2\"", &format!("Points=\"{n}\"")).replace("1 2 3\n4 5.5 -6", &text);
    for (name, content) in [("seeds.csv", &text), ("seeds.vtp", &vtp)] {
        fs::write(dir.path(name), content).unwrap();
        // The least memory of a list is 8 KiB. With less than all of it the rest goes to disk.
        for (granted, most) in [(32 << 10, 32 << 10), (1 << 30, 64 << 10)] {
            let used = Arc::new(AtomicUsize::new(0));
            let mut watch = |_: &str, _: f64, _: f64| true;
            let charge = Box::new(Meter(Arc::clone(&used), granted));
            let mut reading = SeedContext::new(Dimension::Three, charge, &mut watch);
            let seeds = Seeds::open(&dir.path(name), &mut reading).unwrap();
            drop(reading);
            let held = used.load(Ordering::SeqCst);
            assert!((1..=most).contains(&held), "{name}: {held}");
            assert_eq!((seeds.len(), physical(&seeds)[n - 1]), (n as u64, [(n - 1) as f64, 0.5, -1.0]), "{name}");
            drop(seeds);
            assert_eq!(used.load(Ordering::SeqCst), 0, "{name}");
        }
        let mut watch = |_: &str, _: f64, _: f64| true;
        let charge = Box::new(FixedBudget::new(100));
        let refused = Seeds::open(&dir.path(name), &mut SeedContext::new(Dimension::Three, charge, &mut watch));
        assert!(matches!(refused, Err(SeedError::Memory { needs }) if needs > 100), "{name}");
    }
}

#[test]
fn reading_is_told_and_can_be_ended() {
    let dir = TestDir::new("seeds-told");
    let n = 20_000usize;
    let data: Vec<u8> = (0..3 * n).flat_map(|v| (v as f64).to_le_bytes()).collect();
    fs::write(dir.path("seeds.npy"), npy_file("<f8", false, &format!("({n}, 3)"), &data)).unwrap();
    fs::write(dir.path("seeds.csv"), "1,2,3\n".repeat(n)).unwrap();
    for name in ["seeds.npy", "seeds.csv"] {
        let mut told = Vec::new();
        let mut watch = |phase: &str, done: f64, total: f64| {
            assert!(phase == "reading seeds" && done <= total && told.last().is_none_or(|last| *last <= done));
            told.push(done);
            told.len() < 3
        };
        let charge = Box::new(FixedBudget::new(1 << 20));
        let ended = Seeds::open(&dir.path(name), &mut SeedContext::new(Dimension::Three, charge, &mut watch));
        assert!(matches!(ended, Err(SeedError::Cancelled)), "{name}");
        assert_eq!(told.len(), 3, "{name}");
    }
}

#[test]
fn what_is_no_regular_file_is_not_waited_for() {
    let dir = TestDir::new("seeds-pipe");
    let path = dir.path("seeds.csv");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    for (path, word) in [(path.as_path(), "regular file"), (dir.at(), "directory"), (Path::new("/none.csv"), "No such")]
    {
        let message = open(path, Dimension::Three).unwrap_err().to_string();
        assert!(message.contains(word) && message.contains(&path.display().to_string()), "{message}");
    }
}

#[test]
fn damaged_seeds_do_not_panic() {
    for spec in
        ["point:1,2,3", "plane:0,0,0:1,0,0:0,1,0:3:4", "ijk:z:1-3/2,1.5,2-9", "random:12:34", "box:0,0,0:1,1,1:2:2:2"]
    {
        mutations(spec.as_bytes(), 2000, fuzz_spec);
    }
    mutations(b"x,y,z\n1,2,3\n4,5,6\n\"7\",8;9,\n", 2000, fuzz_csv);
    mutations(&npy_file("<f8", true, "(2, 3)", &[0; 48]), 2000, fuzz_npy);
    mutations(VTP.as_bytes(), 2000, fuzz_vtp);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, rng_seed: prop::test_runner::RngSeed::Fixed(0x7365_6564), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_spec_or_an_error(text in "(point|line|plane|box|sphere|random|ijk)?:?[-0-9.,:/ eE]{0,40}") {
        fuzz_spec(text.as_bytes());
    }

    #[test]
    fn what_is_written_is_what_is_had(
        a in prop::array::uniform3(-1e9f64..1e9), b in prop::array::uniform3(-1e9f64..1e9), n in 2u64..1000,
    ) {
        let spec = format!("line:{},{},{}:{},{},{}:{n}", a[0], a[1], a[2], b[0], b[1], b[2]);
        let seeds = three(&spec);
        prop_assert_eq!(seeds.len(), n);
        prop_assert_eq!(seeds.get(0).unwrap(), SeedPoint::Physical(a));
        prop_assert_eq!(seeds.get(n - 1).unwrap(), SeedPoint::Physical(b));
        prop_assert!(seeds.get(n).is_err());
    }
}

#[test]
fn scattered_seeds_fill_a_box() {
    let seeds = three("scatter:0,-1,2:1,1,2:6");
    let found: Vec<SeedPoint<'_>> = (0..6).map(|n| seeds.get(n).unwrap()).collect();
    let x = [0.5, 0.25, 0.75, 0.125, 0.625, 0.375];
    for (n, point) in found.iter().enumerate() {
        let SeedPoint::Physical(at) = point else { panic!() };
        assert_eq!((at[0], at[2]), (x[n], 2.0));
        assert!(at[1] > -1.0 && at[1] < 1.0);
    }
    assert_eq!(two("scatter:0,0:2,2:1").get(0).unwrap(), SeedPoint::Physical([1.0, 2.0 / 3.0, 0.0]));
    assert!(refused("scatter:0,0,0:1,-1,1:5", Dimension::Three).contains("not the highest"));
    assert!(refused("scatter:0,0,0:5", Dimension::Three).contains("scatter:x,y,z:x,y,z:n"));
}

#[test]
fn seeds_of_interest_are_found_before_they_are_had() {
    let seeds = three("interest:7:3");
    assert!(matches!(seeds, Seeds::Interest { count: 7, seed: 3 }));
    assert!(matches!(seeds.get(0), Err(SeedError::Index { .. })));
    assert!(refused("interest:7:3:mach > 1", Dimension::Three).contains("interest:n:seed"));
}

#[test]
fn random_seeds_may_have_a_condition() {
    let Seeds::Where { count, seed, condition } = three("random:7:3: mach > 1 or \"odd:name\" < 2") else { panic!() };
    assert_eq!((count, seed, condition.as_str()), (7, 3, "mach > 1 or \"odd:name\" < 2"));
    assert!(matches!(two("random:7:3"), Seeds::Random { count: 7, seed: 3 }));
    assert!(refused("random:7:3:", Dimension::Three).contains("its condition is missing"));
    assert!(refused("random:7::mach > 1", Dimension::Two).contains("is not a whole number"));
    assert!(matches!(three("random:7:3:x > 1").get(0), Err(SeedError::Index { .. })), "nobody has looked for them");
}
