//! Fortran records of one array, one plane of an array, or iblank alone; and orders that only the values decide.

use super::super::records::Records;
use super::*;
use crate::catalog::FlowHeader;

/// A quarter of an annulus that grows along k. iblank is all ones. The flow differs from plane to plane, or is `even`.
fn number(spec: &WriteSpec, even: bool, variable: usize, at: [usize; 3]) -> f64 {
    let dims = spec.dims[0];
    let turn = 1.4 * at[1] as f64 / (dims[1] - 1) as f64;
    let radius = 1.0 + 0.2 * 1.3_f64.powi(at[2] as i32);
    match (spec.kind, variable) {
        (Kind::Grid, 0) => radius * turn.cos(),
        (Kind::Grid, 1) => radius * turn.sin(),
        (Kind::Grid, v) if v == spec.dimension.count() => 1.0,
        (Kind::Grid, _) => at[0] as f64 * 0.3,
        _ if even => 1.0 + variable as f64,
        (_, v) => (1.0 + v as f64) * (1.0 + 0.3 * (turn * (1.0 + v as f64)).sin() + 0.05 * (at[0] * (v + 1)) as f64),
    }
}

fn made(spec: &WriteSpec, even: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let ni = spec.dims[0][0];
    write(&mut out, spec, &mut |_, variable, k, plane| {
        plane.iter_mut().enumerate().for_each(|(n, v)| *v = number(spec, even, variable, [n % ni, n / ni, k]));
    })
    .unwrap();
    out
}

/// Checks that an array has the variables from `first` on.
fn holds(open: &Plot3d, array: usize, spec: &WriteSpec, even: bool, first: usize) {
    let layout = open.layout(0, array).unwrap();
    let ([ni, nj, nk], size) = (layout.dims(), layout.dtype().size());
    let mut row = vec![0; ni * size];
    for (c, k, j) in (0..layout.components()).flat_map(|c| (0..nk).flat_map(move |k| (0..nj).map(move |j| (c, k, j)))) {
        layout.read_rows(0, c, k, j..j + 1, &mut row).unwrap();
        for (i, got) in decode(&row, layout.dtype()).into_iter().enumerate() {
            let want = number(spec, even, first + c, [i, j, k]);
            assert!((got - want).abs() < 1e-5, "{spec:?} {c} {k} {j} {i}: {got} {want} {:?}", open.catalog.guessed);
        }
    }
}

/// As many records as planes and as arrays: the values decide, in grids and, if they vary, in q files.
#[test]
fn values_tell_planes_from_arrays() {
    for (byte_order, precision, iblank) in [
        (ByteOrder::Little, Precision::Single, false),
        (ByteOrder::Big, Precision::Double, false),
        (ByteOrder::Big, Precision::Single, true),
    ] {
        let planes = 3 + usize::from(iblank);
        for dims in [[9, 8, planes], [3, 4, planes], [9, 8, 5], [5, 4, 5]] {
            for (order, records) in [
                (Order::Planes, Records::Zone),
                (Order::Whole, Records::Array),
                (Order::Whole, Records::ArrayPlane),
                (Order::Planes, Records::ArrayPlane),
            ] {
                let spec = WriteSpec {
                    byte_order,
                    precision,
                    iblank,
                    order,
                    records,
                    ..WriteSpec::new(Kind::Grid, vec![dims])
                };
                for even in [false, true] {
                    let q = WriteSpec { kind: Kind::Q, iblank: false, ..spec.clone() };
                    let folder = Plot3dFolder::new();
                    let grid = folder.file("a.xyz", &made(&spec, even));
                    let open = folder.open(&grid, &[folder.file("a.q", &made(&q, even))], &[]).unwrap();
                    holds(&open, 0, &spec, even, 0);
                    (0..3).for_each(|n| holds(&open, 1 + usize::from(iblank) + n, &q, even, [0, 1, 4][n]));
                    let said = open.catalog.guessed.join(" ");
                    assert!(open.catalog.doubts().next().is_none(), "{said}");
                    assert_eq!(said.contains("a record for each"), records != Records::Zone, "{said}");
                }
            }
        }
    }
}

#[test]
fn what_nothing_tells_is_said_in_every_run() {
    let spec = WriteSpec { records: Records::Array, functions: 3, ..WriteSpec::new(Kind::Function, vec![[9, 8, 3]]) };
    let folder = Plot3dFolder::new();
    // The grid's records are zones, which tell nothing about functions, and the functions are the same everywhere.
    let whole = WriteSpec { kind: Kind::Grid, records: Records::Zone, ..spec.clone() };
    let grid = folder.file("a.xyz", &made(&whole, true));
    let function = folder.file("a.f", &made(&spec, true));
    let doubts = |options: &Plot3dOptions| {
        let open = Plot3d::open(&grid, &[], &[function.clone()], options, &folder.0.join("cache")).unwrap();
        let found: Vec<String> = open.catalog.doubts().map(str::to_owned).collect();
        found
    };
    // The values of the grid decide its order, and the function file gets the same.
    assert!(doubts(&Plot3dOptions::default()).is_empty());
    let flat = folder.file("b.xyz", &bytes(&WriteSpec { dims: vec![[2, 2, 3]], ..whole.clone() }));
    let function = folder.file("b.f", &made(&WriteSpec { dims: vec![[2, 2, 3]], ..spec }, true));
    let open = |order| {
        let options = Plot3dOptions { order, ..Plot3dOptions::default() };
        Plot3d::open(&flat, &[], &[function.clone()], &options, &folder.0.join("cache")).unwrap().catalog
    };
    let said = open(None);
    let doubt = said.doubts().next().unwrap_or_else(|| panic!("{:?}", said.guessed));
    assert!(
        doubt.contains("as many records as planes and as arrays") && doubt.contains("--plot3d-order whole"),
        "{doubt}"
    );
    for order in [Order::Whole, Order::Planes] {
        assert!(open(Some(order)).doubts().next().is_none());
    }
}

/// Opens a flow with given q headers and numbers for each zone.
fn flow(folder: &Plot3dFolder, headers: &[FlowHeader], values: [f64; 5], settings: &str) -> Result<Plot3d, FieldError> {
    let dims = vec![[4, 4, 3]; headers.len()];
    let grid = WriteSpec::new(Kind::Grid, dims);
    let q = WriteSpec { kind: Kind::Q, headers: headers.to_vec(), ..grid.clone() };
    let mut out = Vec::new();
    write(&mut out, &q, &mut |_, variable, _, plane| plane.fill(values[variable])).unwrap();
    folder.file("a.p3d.json", settings.as_bytes());
    folder.open(&folder.file("a.xyz", &bytes(&grid)), &[folder.file("a.q", &out)], &[])
}

const PLAIN: FlowHeader = FlowHeader { mach: 0.5, alpha: 2.0, reynolds: 1e5, time: 3.0, gamma: 1.4 };
/// The free stream at Mach 0.5, divided by a_inf.
const FREE: [f64; 5] = [1.0, 0.5, 0.0, 0.0, 1.0 / (1.4 * 0.4) + 0.125];

#[test]
fn headers_that_differ_and_numbers_that_do_not_go_with_them() {
    let unlike = |h: FlowHeader| [PLAIN, h];
    let by_freestream = [1.0, 1.0, 0.0, 0.0, 4.0 * FREE[4]];
    for (headers, values, settings, says) in [
        (unlike(PLAIN), FREE, "{}", ""),
        (
            unlike(FlowHeader { mach: 0.8, ..PLAIN }),
            FREE,
            "{}",
            "unlike Mach numbers: 0.5 (zone1), 0.8 (zone2). What is made of the free",
        ),
        (unlike(FlowHeader { mach: 0.8, ..PLAIN }), FREE, r#"{"reference": {"mach": 0.5}}"#, ""),
        (
            unlike(FlowHeader { time: 4.0, ..PLAIN }),
            FREE,
            "{}",
            "unlike times: 3 (zone1), 4 (zone2). The times of the steps are those of the first",
        ),
        (
            unlike(FlowHeader { alpha: 1.0, ..PLAIN }),
            FREE,
            "{}",
            "unlike angles of attack: 2 (zone1), 1 (zone2). Nothing",
        ),
        (unlike(PLAIN), [1.0, 0.5, 0.0, 0.0, 0.0], "{}", "a.q: energy is zero wherever"),
        (unlike(PLAIN), [1.0, 0.5, 0.0, 0.0, 0.1], "{}", "a.q: energy is less than density V^2 / 2"),
        (
            unlike(FlowHeader { mach: 0.0, ..PLAIN }),
            FREE,
            r#"{"reference": {"length": 1, "density": 1, "sound_speed": 1}}"#,
            "a.q: the Mach number of the header is 0.",
        ),
        (unlike(PLAIN), by_freestream, "{}", "\"velocity\": \"freestream\" there makes it 0"),
        (unlike(PLAIN), by_freestream, r#"{"reference": {"velocity": "freestream"}}"#, ""),
        (unlike(PLAIN), FREE, r#"{"reference": {"mach": 0.01}}"#, ""),
        (unlike(PLAIN), [1.0, 0.5, 0.0, 0.0, 900.0], "{}", "half of the pressure coefficients looked at are beyond"),
    ] {
        let folder = Plot3dFolder::new();
        let open = flow(&folder, &headers, values, settings).unwrap();
        let said: Vec<&String> = open.catalog.guessed.iter().filter(|s| !s.contains("Fortran unformatted")).collect();
        match says {
            "" => assert!(said.is_empty(), "{said:?}"),
            says => assert!(said.iter().any(|s| s.contains(says)), "{says}: {said:?}"),
        }
    }
}

/// Divided by U_inf or by a_inf: the values read are the same, times included.
#[test]
fn velocities_divided_by_that_of_the_free_stream() {
    let folder = Plot3dFolder::new();
    let by_freestream = [1.0, 1.0, 0.0, 0.0, 4.0 * FREE[4]];
    for (settings, density, speed, time) in [
        (r#"{"reference": {"velocity": "freestream"}}"#, 1.0, 1.0, 1.0),
        (
            r#"{"reference": {"velocity": "freestream", "length": 2, "density": 1.2, "sound_speed": 300}}"#,
            1.2,
            300.0,
            2.0 / 300.0,
        ),
    ] {
        let open = flow(&folder, &[PLAIN], by_freestream, settings).unwrap();
        let near = |array: usize, c: usize, want: f64| {
            let layout = open.layout(0, array).unwrap();
            let mut row = vec![0; 4 * 8];
            layout.read_rows(0, c, 1, 1..2, &mut row).unwrap();
            let got = decode(&row, DType::Float64)[0];
            assert!((got - want).abs() < 1e-12 * want.abs(), "{settings} {array}: {got} {want}");
        };
        near(1, 0, density);
        near(2, 0, density * speed * FREE[1]);
        near(3, 0, density * speed * speed * FREE[4]);
        // 3 L / U_inf are 6 L / a_inf at Mach 0.5.
        assert!((open.catalog.times[0] - 6.0 * time).abs() < 1e-12);
        assert_eq!(open.catalog.zones[0].headers[0].time, open.catalog.times[0]);
    }
    // The conversion needs one Mach number.
    let freestream = r#"{"reference": {"velocity": "freestream"}}"#;
    let unlike = [PLAIN, FlowHeader { mach: 0.8, ..PLAIN }];
    let e = flow(&folder, &unlike, by_freestream, freestream).unwrap_err().to_string();
    assert!(e.contains("a.p3d.json") && e.contains("0.5 and 0.8") && e.contains("'mach'"), "{e}");
    let none = FlowHeader { mach: 0.0, ..PLAIN };
    let e = flow(&folder, &[none], by_freestream, freestream).unwrap_err().to_string();
    assert!(e.contains("is 0") && e.contains("'mach'"), "{e}");
    flow(&folder, &unlike, by_freestream, r#"{"reference": {"velocity": "freestream", "mach": 0.5}}"#).unwrap();
}
