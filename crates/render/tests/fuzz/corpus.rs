//! Small valid inputs of every format, made by the writers.

use convert::{convert, ConvertOptions};
use field::error::FieldError;
use field::plot3d::write::{write, WriteSpec};
use field::plot3d::{ByteOrder, Dimension, Format, Kind, Order, Precision, ZoneCount};
use field::store::codec::Codec;
use output::{
    FieldSpec, FieldValues, FinishedLine, FixedBudget, LineLayout, LineSpool, Moments, OutputFile, Provenance, Reason,
    SpoolOptions,
};
use pager::PolicyKind;
use runtime::session::{charge_for, Resources, Session, SourceSpec};
use runtime::whole_dataset::convert_input;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use testing::TestDir;

/// A PLOT3D file whose values make a grid, and a flow on it.
pub fn plot3d(spec: &WriteSpec) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut plane = |zone: usize, variable: usize, k: usize, plane: &mut [f64]| {
        let ni = spec.dims[zone][0];
        for (n, value) in plane.iter_mut().enumerate() {
            let at = [n % ni, n / ni, k].map(|v| v as f64);
            *value = match (spec.kind, variable) {
                (Kind::Grid, 0..=2) => at[variable.min(2)] + 0.1 * at[1] + zone as f64 * 10.0,
                (Kind::Grid, _) => 1.0,
                (_, 0) => 1.5,
                (_, v) => 0.25 * v as f64 + 0.01 * at[0],
            };
        }
    };
    write(&mut bytes, spec, &mut plane).expect("memory takes everything");
    bytes
}

/// Every way to write a file of a kind that is not text.
pub fn binary(kind: Kind) -> Vec<Vec<u8>> {
    let base = WriteSpec { precision: Precision::Single, ..WriteSpec::new(kind, vec![[3, 4, 2], [2, 2, 3]]) };
    let mut all = Vec::new();
    for format in [Format::Fortran, Format::Binary] {
        let spec = WriteSpec { format, ..base.clone() };
        all.push(plot3d(&spec));
        all.push(plot3d(&WriteSpec { byte_order: ByteOrder::Big, precision: Precision::Double, ..spec.clone() }));
        all.push(plot3d(&WriteSpec { zones: ZoneCount::Single, dims: vec![[4, 3, 2]], ..spec.clone() }));
        all.push(plot3d(&WriteSpec { order: Order::Planes, iblank: kind == Kind::Grid, ..spec.clone() }));
        all.push(plot3d(&WriteSpec { dimension: Dimension::Two, dims: vec![[4, 5, 1]], ..spec.clone() }));
        all.push(plot3d(&WriteSpec { max_subrecord: 60, functions: 4, ..spec.clone() }));
        if kind == Kind::Q {
            all.push(plot3d(&WriteSpec { overflow: Some((7, 1)), ..spec }));
        }
    }
    // Planes with enough points to distinguish WHOLE from PLANES by their values.
    for order in [Order::Whole, Order::Planes] {
        for iblank in [false, kind == Kind::Grid] {
            let dims = vec![[6, 5, 4], [4, 4, 3], [1, 40, 2]];
            all.push(plot3d(&WriteSpec { format: Format::Binary, order, iblank, dims, ..base.clone() }));
        }
    }
    all
}

/// Text of all kinds.
pub fn ascii() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for kind in [Kind::Grid, Kind::Q, Kind::Function] {
        let spec =
            WriteSpec { format: Format::Ascii, functions: 2, ..WriteSpec::new(kind, vec![[3, 2, 2], [2, 2, 2]]) };
        all.push(plot3d(&WriteSpec { iblank: kind == Kind::Grid, ..spec.clone() }));
        all.push(plot3d(&WriteSpec { dimension: Dimension::Two, dims: vec![[3, 3, 1]], ..spec }));
    }
    all.push(b"1\n2 2 2\n8*0.5, 8*1.D0\n8*-2.5E+00\n".to_vec());
    all.push(b"2 2 2 24*1.5".to_vec());
    all
}

/// A grid and a q file of two zones, and a function file.
pub fn files(folder: &TestDir) -> [PathBuf; 3] {
    let spec = |kind, functions| WriteSpec { functions, ..WriteSpec::new(kind, vec![[9, 8, 7], [5, 6, 4]]) };
    [
        folder.file("a.xyz", &plot3d(&WriteSpec { iblank: true, ..spec(Kind::Grid, 1) })),
        folder.file("a.q", &plot3d(&spec(Kind::Q, 1))),
        folder.file("a.f", &plot3d(&spec(Kind::Function, 5))),
    ]
}

fn session(folder: &TestDir, [grid, q, _]: &[PathBuf; 3]) -> Session {
    let spec =
        SourceSpec { path: grid.clone(), q: vec![q.clone()], cache_dir: folder.path("cache"), ..SourceSpec::default() };
    let means =
        Resources { memory_limit: 64 << 20, workers: 1, readers: 1, replacement: PolicyKind::Clock, observer: None };
    Session::open(spec, means, &mut |_, _, _| true).expect("the files are good")
}

/// A store of those files.
pub fn store(folder: &TestDir, codec: Codec) -> PathBuf {
    let session = session(folder, &files(folder));
    let input = convert_input(&session.dataset()).expect("it can be read");
    let path = folder.path(codec.name());
    let options = ConvertOptions { page: 4, codec, workers: 1, ..Default::default() };
    convert(&input, &path, &options, &charge_for(&session), &mut |_| true).expect("it is converted");
    path
}

/// The part left by an interrupted conversion, its target, and its source.
pub fn interrupted(folder: &TestDir) -> (PathBuf, PathBuf, Session) {
    let session = session(folder, &files(folder));
    let target = folder.path("s.zarr");
    let mut calls = 0;
    let stopped = resume(&session, &target, &mut || {
        calls += 1;
        calls < 5
    });
    assert!(matches!(stopped, Err(FieldError::Interrupted)), "it was to be interrupted");
    (folder.path("s.zarr.partial"), target, session)
}

/// Resumes that conversion. `go_on` is called now and then.
pub fn resume(session: &Session, target: &Path, go_on: &mut dyn FnMut() -> bool) -> Result<(), FieldError> {
    let input = convert_input(&session.dataset())?;
    let options = ConvertOptions { page: 4, workers: 1, resume: true, ..Default::default() };
    convert(&input, target, &options, &charge_for(session), &mut |_| go_on()).map(drop)
}

/// A file of three lines with a scalar and a vector. One line has no points.
pub fn lines(path: &Path, both: bool) -> Vec<u8> {
    let fields = vec![FieldSpec::scalar("density", "rho_inf"), FieldSpec::vector("velocity <a&b>", "a_inf")];
    let options = SpoolOptions {
        seeds: 3,
        layout: LineLayout { fields, both, moments: Moments::One },
        budget_bytes: 1 << 20,
        directory: std::env::temp_dir(),
    };
    let mut spool = LineSpool::new(options, Box::new(FixedBudget::new(1 << 20))).expect("memory for the lines");
    for seed in 0..3_u64 {
        let n = [5, 0, 2][seed as usize];
        let points: Vec<[f64; 3]> = (0..n).map(|i| [i as f64, seed as f64, 0.5]).collect();
        let (time, zone) = (vec![0.25; n], vec![1; n]);
        let (density, velocity) = (vec![1.5; n], vec![0.125; 3 * n]);
        let line = FinishedLine {
            seed,
            points: &points,
            time: &time,
            zone: &zone,
            fields: &[FieldValues::F64(&density), FieldValues::F64(&velocity)],
            reason: Reason::Left,
            reason_backward: Reason::Length,
        };
        spool.add(&line).expect("it is taken");
    }
    let file = OutputFile::create(path).expect("a file");
    spool.write(file, &Provenance::default(), false, &mut |_, _| ControlFlow::Continue(())).expect("it is written");
    std::fs::read(path).expect("it is there")
}

/// A `.npy` file of points.
pub fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(data);
    out
}
