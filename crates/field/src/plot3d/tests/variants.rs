//! The reader finds everything that the writer writes, without options.

use super::super::Plot3dInput;
use super::*;
use crate::catalog::{FlowHeader, Role};
use proptest::prelude::*;

fn header(time: f64) -> FlowHeader {
    FlowHeader { mach: 0.5, alpha: 2.0, reynolds: 1e5, time, gamma: 1.375 }
}

/// Whether another order gives the same records, so that only the values decide.
fn either(s: &WriteSpec) -> bool {
    let arrays = s.variables() + usize::from(s.iblank);
    let alike = !s.iblank || s.precision == Precision::Single;
    let as_many = s.dims.iter().all(|d| d[2] == 1 || d[2] == arrays);
    s.format == Format::Fortran
        && match (s.records, s.order) {
            (Records::ArrayPlane, _) => alike || as_many,
            (Records::Array, _) | (Records::Zone, Order::Planes) => alike && as_many,
            _ => false,
        }
}

/// Opens a grid with a q file and a function file, and compares every number.
fn round_trip(grid: &WriteSpec, q: Option<&WriteSpec>, f: Option<&WriteSpec>) {
    let folder = Plot3dFolder::new();
    let g = folder.file("a.xyz", &bytes(grid));
    let qs: Vec<PathBuf> = q.iter().map(|s| folder.file("a.q", &bytes(s))).collect();
    let fs: Vec<PathBuf> = f.iter().map(|s| folder.file("a.f", &bytes(s))).collect();
    let mut settings = serde_json::Map::new();
    for (key, spec) in [("grid", Some(grid)), ("q", q), ("function", f)] {
        if let Some(spec) = spec.filter(|s| either(s)) {
            settings.insert(key.to_owned(), serde_json::json!({"order": spec.order.word()}));
        }
    }
    if !settings.is_empty() {
        folder.file("a.p3d.json", serde_json::Value::Object(settings).to_string().as_bytes());
    }
    let open = folder.open(&g, &qs, &fs).unwrap_or_else(|e| panic!("{grid:?}\n{q:?}\n{f:?}\n{e}"));
    check_dataset(&open, grid, q, f);
}

fn check_dataset(open: &Plot3d, grid: &WriteSpec, q: Option<&WriteSpec>, f: Option<&WriteSpec>) {
    let catalog = &open.catalog;
    let dim = grid.dimension.count();
    assert_eq!(catalog.dimension, dim);
    assert_eq!(catalog.zones.len(), grid.dims.len(), "{grid:?} {:?}", catalog.guessed);
    for (z, zone) in catalog.zones.iter().enumerate() {
        assert_eq!(zone.dims, grid.dims[z]);
        let mut next = [0_usize; 3];
        for (a, array) in zone.arrays.iter().enumerate() {
            let layout = open.layout(z, a).unwrap();
            assert_eq!((layout.components(), layout.dtype()), (array.components, array.dtype));
            let which = match array.role {
                Role::Coordinates | Role::Iblank => 0,
                Role::Field if array.name.starts_with('f') => 2,
                Role::Field => 1,
            };
            let spec = [Some(grid), q, f][which].unwrap();
            let want = if spec.format == Format::Ascii || spec.precision == Precision::Double {
                DType::Float64
            } else {
                DType::Float32
            };
            assert_eq!(array.dtype, if array.role == Role::Iblank { DType::Int32 } else { want });
            check_layout(&layout, 0, spec, z, next[which]);
            next[which] += array.components;
        }
        assert_eq!(next[0], dim + usize::from(grid.iblank), "{grid:?}");
        assert_eq!(next[1], q.map_or(0, WriteSpec::variables));
        assert_eq!(next[2], f.map_or(0, WriteSpec::variables));
        if let Some(q) = q {
            let (h, want) = (zone.headers[0], q.headers.last().unwrap());
            assert_eq!((h.mach, h.alpha, h.reynolds, h.time), (want.mach, want.alpha, want.reynolds, want.time));
            assert_eq!(h.gamma, if q.overflow.is_some() { want.gamma } else { 1.4 });
            assert_eq!(catalog.times, [want.time]);
        }
    }
}

fn dims() -> impl Strategy<Value = Vec<[usize; 3]>> {
    let edge = prop_oneof![3 => 2_usize..7, 1 => Just(1_usize)];
    // Sizes cannot identify a single point alone in a file.
    let zone = [edge.clone(), edge.clone(), edge].prop_filter("a zone", |d| d.iter().product::<usize>() > 3);
    prop::collection::vec(zone, 1..4)
}

prop_compose! {
    fn spec(kind: Kind)(
        dims in dims(),
        format in prop_oneof![Just(Format::Fortran), Just(Format::Binary), Just(Format::Ascii)],
        big in any::<bool>(),
        double in any::<bool>(),
        two in prop::bool::weighted(0.3),
        count in any::<bool>(),
        iblank in any::<bool>(),
        planes in any::<bool>(),
        records in prop_oneof![
            4 => Just(Records::Zone), 2 => Just(Records::Array), 2 => Just(Records::ArrayPlane), 1 => Just(Records::Coordinates)
        ],
        mark8 in prop::bool::weighted(0.15),
        subrecord in prop_oneof![Just(super::super::write::MAX_SUBRECORD), 61_u64..400],
        functions in 1_usize..6,
        overflow in prop::option::weighted(0.4, (6_usize..12, 0_usize..4)),
    ) -> WriteSpec {
        let mut s = WriteSpec::new(kind, dims);
        s.format = format;
        s.byte_order = if big { ByteOrder::Big } else { ByteOrder::Little };
        s.precision = if double { Precision::Double } else { Precision::Single };
        s.zones = if count || s.dims.len() > 1 { ZoneCount::Multi } else { ZoneCount::Single };
        s.iblank = iblank && kind == Kind::Grid;
        s.order = if planes && format == Format::Fortran { Order::Planes } else { Order::Whole };
        s.records = match records {
            Records::Array if s.order == Order::Planes => Records::ArrayPlane,
            Records::Coordinates if !s.iblank => Records::Zone,
            _ if format != Format::Fortran => Records::Zone,
            records => records,
        };
        s.mark = if mark8 { 8 } else { 4 };
        s.max_subrecord = subrecord;
        s.functions = functions;
        s.headers = vec![header(3.25)];
        s.overflow = overflow.filter(|_| kind == Kind::Q && !two).map(|(nq, nqc)| (nq, nqc.min(nq - 6)));
        if two {
            s.dimension = Dimension::Two;
            for d in &mut s.dims {
                (d[0], d[1], d[2]) = (d[0].max(2), d[1].max(2), 1);
            }
        }
        s
    }
}

fn same_grid(of: &WriteSpec, mut s: WriteSpec) -> WriteSpec {
    s.dims = of.dims.clone();
    s.dimension = of.dimension;
    s.zones = if s.dims.len() > 1 { ZoneCount::Multi } else { s.zones };
    s.overflow = s.overflow.filter(|_| s.dimension == Dimension::Three);
    s
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(400, 50), failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(0x504c_4f54), ..ProptestConfig::default() })]

    #[test]
    fn every_variant(grid in spec(Kind::Grid), q in spec(Kind::Q), f in spec(Kind::Function)) {
        let (q, f) = (same_grid(&grid, q), same_grid(&grid, f));
        round_trip(&grid, Some(&q), Some(&f));
    }

    #[test]
    fn grids_alone(grid in spec(Kind::Grid)) {
        round_trip(&grid, None, None);
    }
}

/// The files of the acceptance check: three boxes, every encoding, q files with 3-D variables.
#[test]
fn the_plain_product() {
    let all = [[7, 6, 5], [4, 9, 3], [5, 5, 8]];
    for format in [Format::Fortran, Format::Binary, Format::Ascii] {
        for byte_order in [ByteOrder::Little, ByteOrder::Big] {
            for precision in [Precision::Single, Precision::Double] {
                for iblank in [false, true] {
                    for (many, zones) in [(1, ZoneCount::Multi), (1, ZoneCount::Single), (3, ZoneCount::Multi)] {
                        let grid = WriteSpec {
                            format,
                            byte_order,
                            precision,
                            iblank,
                            zones,
                            ..WriteSpec::new(Kind::Grid, all[..many].to_vec())
                        };
                        let q = WriteSpec { kind: Kind::Q, iblank: false, headers: vec![header(3.25)], ..grid.clone() };
                        round_trip(&grid, Some(&q), None);
                        round_trip(&grid, None, None);
                    }
                }
            }
        }
    }
}

#[test]
fn planes_of_a_plain_binary_file_need_the_option() {
    let folder = Plot3dFolder::new();
    for format in [Format::Binary, Format::Ascii] {
        let grid = WriteSpec {
            format,
            iblank: true,
            order: Order::Planes,
            ..WriteSpec::new(Kind::Grid, vec![[4, 3, 5], [3, 3, 2]])
        };
        let q = WriteSpec { kind: Kind::Q, iblank: false, headers: vec![header(1.5)], ..grid.clone() };
        let (g, s) = (folder.file("a.xyz", &bytes(&grid)), folder.file("a.q", &bytes(&q)));
        let mut options = Plot3dOptions::default();
        let cache = folder.0.join("cache");
        if format == Format::Binary {
            let whole = Plot3d::open(&g, &[s.clone()], &[], &options, &cache).unwrap();
            assert!(whole.catalog.guessed.iter().any(|s| s.contains("WHOLE order assumed")));
        }
        options.set("order", "planes").unwrap();
        let open = Plot3d::open(&g, &[s], &[], &options, &cache).unwrap();
        check_dataset(&open, &grid, Some(&q), None);
    }
}

#[test]
fn planes_order_in_one_record() {
    // A record a zone, but in the order of planes: nothing in the records shows it.
    let folder = Plot3dFolder::new();
    let planes =
        WriteSpec { format: Format::Binary, order: Order::Planes, ..WriteSpec::new(Kind::Grid, vec![[4, 3, 5]]) };
    let data = &bytes(&planes)[16..];
    let mut file = Vec::new();
    for part in [&1_i32.to_le_bytes()[..], &[4, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0], data] {
        let mark = (part.len() as i32).to_le_bytes();
        file.extend_from_slice(&[&mark[..], part, &mark].concat());
    }
    let g = folder.file("a.xyz", &file);
    let options = Plot3dOptions { order: Some(Order::Planes), ..Plot3dOptions::default() };
    let open = Plot3d::open(&g, &[], &[], &options, &folder.0).unwrap();
    check_dataset(&open, &planes, None, None);
}

#[test]
fn steps_by_time() {
    let folder = Plot3dFolder::new();
    let grid = WriteSpec::new(Kind::Grid, vec![[4, 3, 5], [3, 3, 2]]);
    let g = folder.file("a.xyz", &bytes(&grid));
    let times = [2.0, 3.5, 1.0];
    let mut specs: Vec<WriteSpec> =
        times.iter().map(|&t| WriteSpec { kind: Kind::Q, headers: vec![header(t)], ..grid.clone() }).collect();
    specs[1].byte_order = ByteOrder::Big;
    let paths: Vec<PathBuf> =
        specs.iter().enumerate().map(|(n, s)| folder.file(&format!("s{n}.q"), &bytes(s))).collect();
    let open = folder.open(&g, &paths, &[]).unwrap();
    assert_eq!(open.catalog.times, [1.0, 2.0, 3.5]);
    let momentum = open.layout(1, 2).unwrap();
    assert_eq!((momentum.name(), momentum.steps()), ("zone2/momentum", 3));
    assert_eq!(open.layout(1, 0).unwrap().steps(), 1);
    for step in 0..3 {
        assert_eq!(momentum.path(step), paths[[2, 0, 1][step]]);
        check_layout(&momentum, step, &specs[0], 1, 1);
        assert_eq!(open.catalog.zones[1].headers[step].time, open.catalog.times[step]);
    }
    assert!(open.catalog.guessed.iter().any(|s| s.contains("sorted")), "{:?}", open.catalog.guessed);
    // Equal times: the steps are numbered.
    let open = folder.open(&g, &[paths[0].clone(), paths[0].clone()], &[]).unwrap();
    assert_eq!(open.catalog.times, [0.0, 1.0]);
}

#[test]
fn overflow_names_time_and_tails() {
    let folder = Plot3dFolder::new();
    let grid = WriteSpec::new(Kind::Grid, vec![[4, 3, 5], [3, 3, 2]]);
    let g = folder.file("a.xyz", &bytes(&grid));
    let q = WriteSpec { kind: Kind::Q, overflow: Some((10, 2)), headers: vec![header(4.5)], ..grid };
    let plain = bytes(&q);
    let names = |p: &Plot3d| p.catalog.zones[0].arrays.iter().map(|a| a.name.clone()).collect::<Vec<_>>().join(" ");
    let open = folder.open(&g, &[folder.file("a.q", &plain)], &[]).unwrap();
    assert_eq!(names(&open), "xyz density momentum energy gamma species1 species2 turbulence1 turbulence2");
    // TVREF 2.25 at Mach 0.5 is 4.5 in L / a.
    assert_eq!(open.catalog.times, [4.5]);
    // A restart file repeats every zone for the previous time level.
    let header_len = (4 + 8) + (2 * 12 + 8 + 8);
    let restart = [&plain[..], &plain[header_len..]].concat();
    let open = folder.open(&g, &[folder.file("a.q", &restart)], &[]).unwrap();
    assert!(open.catalog.guessed.iter().any(|s| s.contains("previous time level")), "{:?}", open.catalog.guessed);
    // Averages end with the number of steps.
    let mean = WriteSpec { overflow: Some((11, 0)), ..q };
    let mut averaged = bytes(&mean);
    averaged.extend([4_i32, 200, 4].iter().flat_map(|v| v.to_le_bytes()));
    let open = folder.open(&g, &[folder.file("a.q", &averaged)], &[]).unwrap();
    assert!(names(&open).ends_with(
        "gamma density_variance velocity_x_variance velocity_y_variance velocity_z_variance pressure_variance"
    ));
}

#[test]
fn names_and_settings() {
    let folder = Plot3dFolder::new();
    let grid = WriteSpec::new(Kind::Grid, vec![[4, 3, 5]]);
    let g = folder.file("a.xyz", &bytes(&grid));
    let f = folder.file("b.f", &bytes(&WriteSpec { kind: Kind::Function, functions: 5, ..grid.clone() }));
    let q = folder.file("a.q", &bytes(&WriteSpec { kind: Kind::Q, headers: vec![header(1.0)], ..grid }));
    folder.file("b.nam", b"density\nu ; velocity\nv\nw\n");
    let names = |p: &Plot3d| p.catalog.zones[0].arrays.iter().map(|a| a.name.clone()).collect::<Vec<_>>().join(" ");
    let open = folder.open(&g, &[q.clone()], &[f.clone()]).unwrap();
    assert_eq!(names(&open), "xyz density momentum energy density_2 velocity f5");
    folder.file("a.p3d.json", br#"{"reference": {"gamma": 1.3}, "zone-names": ["wing"], "zones": {"wing": {"scale": 0.01}}, "names": ["cp"], "precision": 64}"#);
    let open = folder.open(&g, &[q.clone()], &[f.clone()]).unwrap();
    assert_eq!(names(&open), "xyz density momentum energy cp f2 f3 f4 f5");
    assert_eq!(open.catalog.zones[0].name, "wing");
    assert_eq!(open.catalog.zones[0].headers[0].gamma, 1.3);
    assert_eq!(open.settings.scales, [("wing".to_owned(), 0.01)]);
    assert_eq!(open.catalog.settings["zones"]["wing"]["scale"], 0.01);
    folder.file("a.p3d.json", br#"{"zones": {"tail": {"scale": 2}}}"#);
    let e = folder.open(&g, &[q.clone()], &[f.clone()]).unwrap_err().to_string();
    assert!(e.contains("tail") && e.contains("zone1"), "{e}");
    // Options in the settings apply; the command line overrides them.
    folder.file("a.p3d.json", br#"{"byte-order": "big"}"#);
    let e = folder.open(&g, &[], &[]).unwrap_err().to_string();
    assert!(e.contains("Without these options it reads as Fortran unformatted, little-endian"), "{e}");
    let little = Plot3dOptions { byte_order: Some(ByteOrder::Little), ..Plot3dOptions::default() };
    Plot3d::open(&g, &[], &[], &little, &folder.0).unwrap();
}

#[test]
fn vtk_meta_file() {
    let folder = Plot3dFolder::new();
    let grid = WriteSpec { format: Format::Binary, ..WriteSpec::new(Kind::Grid, vec![[4, 3, 5]]) };
    let q = WriteSpec { kind: Kind::Q, headers: vec![header(1.0)], ..grid.clone() };
    folder.file("a.xyz", &bytes(&grid));
    folder.file("b.xyz", &bytes(&WriteSpec { byte_order: ByteOrder::Big, ..grid.clone() }));
    folder.file("a.q", &bytes(&q));
    folder.file("b.q", &bytes(&q));
    let meta = folder.file(
        "run.p3d",
        br#"{"auto-detect-format": true, "gamma": 1.2, "filenames": [{"time": 3.5, "xyz": "a.xyz", "q": "a.q"},
            {"time": 4.5, "xyz": "b.xyz", "q": "b.q"},]}"#,
    );
    let open = folder.open(&meta, &[], &[]).unwrap();
    assert_eq!(open.catalog.times, [3.5, 4.5]);
    assert_eq!(open.catalog.zones[0].headers[1].gamma, 1.2);
    let xyz = open.layout(0, 0).unwrap();
    assert_eq!((xyz.steps(), xyz.big_endian(0), xyz.big_endian(1)), (2, false, true));
    check_layout(&xyz, 1, &grid, 0, 0);
    assert!(folder.open(&meta, &[folder.0.join("a.q")], &[]).is_err());
}

#[test]
fn text_as_people_write_it() {
    let folder = Plot3dFolder::new();
    let text = b"2\n2 2 1, 2*2 , 1\n 4*0.5 1.0D+00 .25d0 -1.5-103,2*2.\n 3*1 1\n 1e0,1 1 4*2\n8*3.5 -4 0 1 2\n";
    let g = folder.file("a.xyz", text);
    let open = folder.open(&g, &[], &[]).unwrap();
    assert_eq!(open.catalog.zones.len(), 2);
    let x = |zone: usize, array: usize, c: usize| {
        let layout = open.layout(zone, array).unwrap();
        let mut out = vec![0_u8; 4 * layout.dtype().size()];
        layout.read_rows(0, c, 0, 0..2, &mut out).unwrap();
        decode(&out, layout.dtype())
    };
    assert_eq!(open.catalog.zones[0].arrays.len(), 2, "{:?}", open.catalog.guessed);
    assert_eq!(x(0, 0, 0), [0.5; 4]);
    assert_eq!(x(0, 0, 1), [1.0, 0.25, -1.5e-103, 2.0]);
    assert_eq!(x(0, 0, 2), [2.0, 1.0, 1.0, 1.0]);
    assert_eq!(x(0, 1, 0), [1.0, 1.0, 1.0, 1.0]);
    assert_eq!(x(1, 0, 0), [2.0; 4]);
    assert_eq!(x(1, 0, 2), [3.5; 4]);
    assert_eq!(x(1, 1, 0), [-4.0, 0.0, 1.0, 2.0]);
    // The second open uses the cache, until the text changes.
    let mut calls = 0;
    let mut count = |_: u64, _: u64| {
        calls += 1;
        true
    };
    let cache = folder.0.join("cache");
    Plot3d::open_with_progress(
        Plot3dInput { grids: &[g.clone()], q: &[], function: &[], times: &[], dt: None, untimed: "" },
        &Plot3dOptions::default(),
        &cache,
        &mut count,
    )
    .unwrap();
    assert_eq!(calls, 0);
    let mut stop = |_: u64, _: u64| false;
    folder.file("a.xyz", &text.to_ascii_uppercase()[..text.len() - 2]);
    let e = Plot3d::open_with_progress(
        Plot3dInput { grids: &[g.clone()], q: &[], function: &[], times: &[], dt: None, untimed: "" },
        &Plot3dOptions::default(),
        &cache,
        &mut stop,
    )
    .unwrap_err();
    assert!(matches!(e, FieldError::Interrupted), "{e}");
}

/// Pages and rows of a scaled array are the file's numbers times the factor, rounded once, in any byte order.
#[test]
fn factors_reach_pages_and_rows_alike() {
    use crate::inplace::InPlace;
    use pager::id::{ArrayId, PageId, SourceId};
    use pager::map::{ExtentTarget, Located, PageMap};
    for byte_order in [ByteOrder::Little, ByteOrder::Big] {
        for precision in [Precision::Single, Precision::Double] {
            let folder = Plot3dFolder::new();
            let base = WriteSpec { byte_order, precision, ..WriteSpec::new(Kind::Grid, vec![[7, 6, 5], [4, 3, 2]]) };
            let q = WriteSpec { kind: Kind::Q, headers: vec![header(1.5)], ..base.clone() };
            let (g, s) = (folder.file("a.xyz", &bytes(&base)), folder.file("a.q", &bytes(&q)));
            let settings = r#"{"reference": {"length": 0.3, "density": 1.2, "sound_speed": 340},
                "zones": {"zone2": {"scale": 0.001}}}"#;
            folder.file("a.p3d.json", settings.as_bytes());
            let open = folder.open(&g, &[s], &[]).unwrap();
            assert_eq!((open.catalog.times[0], open.catalog.time_units.as_str()), (1.5 * (0.3 / 340.0), "s"));
            let density_momentum = 1.2 * 340.0;
            for (zone, array, first, spec, factor) in [
                (0, 0, 0, &base, 0.3),
                (1, 0, 0, &base, 0.3 * 0.001),
                (0, 2, 1, &q, density_momentum),
                (1, 3, 4, &q, density_momentum * 340.0),
            ] {
                let layout = open.layout(zone, array).unwrap();
                let [ni, nj, nk] = layout.dims();
                assert!(layout.affine(0).is_none());
                let size = layout.dtype().size();
                let file = std::fs::read(layout.path(0)).unwrap();
                let sources = vec![SourceId(0); open.files().paths().len()].into();
                let pages = InPlace::new(layout.clone(), sources);
                for k in 0..nk {
                    // Zones this small have one page a plane.
                    let id = PageId::new(ArrayId(0), 0, k as u64);
                    let mut frame = vec![0; pages.page_bytes(id)];
                    let Located::Extents { segments, encoded_len, .. } = pages.locate(id, &mut |_| None) else {
                        panic!()
                    };
                    let mut encoded = vec![0; encoded_len];
                    for s in segments {
                        let from = &file[s.offset as usize..s.offset as usize + s.len];
                        match s.to {
                            ExtentTarget::Frame(at) => frame[at..at + s.len].copy_from_slice(from),
                            ExtentTarget::Encoded(at) => encoded[at..at + s.len].copy_from_slice(from),
                        }
                    }
                    pages.decode(id, &[], &encoded, &mut [], &mut frame).unwrap();
                    let components = layout.components();
                    for c in 0..components {
                        let mut rows = vec![0; ni * nj * size];
                        layout.read_rows(0, c, k, 0..nj, &mut rows).unwrap();
                        for (n, row) in rows.chunks_exact(size).enumerate() {
                            assert_eq!(*row, frame[(n * components + c) * size..][..size]);
                        }
                        let got = super::decode(&rows, layout.dtype());
                        for (n, got) in got.into_iter().enumerate() {
                            let plain = value(spec, zone, first + c, k, n / ni, n % ni);
                            let want = match precision {
                                Precision::Single => f64::from((f64::from(plain as f32) * factor) as f32),
                                Precision::Double => plain * factor,
                            };
                            assert_eq!(got.to_bits(), want.to_bits());
                        }
                    }
                }
            }
        }
    }
}
