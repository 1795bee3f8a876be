//! Tests of the PLOT3D reader: round trips of every variant, bad input, real files.

// Lists of one path read better as lists.
#![allow(clippy::cloned_ref_to_slice_refs)]

mod bad;
mod real;
mod records;
mod text_cache;
mod times;
mod variants;

use super::write::{write, WriteSpec};
use super::*;
use crate::array_layout::ArrayLayout;
use crate::catalog::{DType, RowReader};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of its own for each test, removed at the end.
pub(super) struct Plot3dFolder(pub PathBuf);

impl Plot3dFolder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("farfield-p3d-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
    pub fn open(&self, grid: &Path, q: &[PathBuf], f: &[PathBuf]) -> Result<Plot3d, FieldError> {
        Plot3d::open(grid, q, f, &Plot3dOptions::default(), &self.0.join("cache"))
    }
}

impl Drop for Plot3dFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Cases of a property test. A soak of `FARFIELD_SOAK_S` seconds runs about as many as fit that time.
pub(super) fn cases(usual: u32, a_second: u32) -> u32 {
    let soak_s = std::env::var("FARFIELD_SOAK_S").ok().and_then(|v| v.parse::<f64>().ok());
    soak_s.map_or(usual, |s| usual.max((s * f64::from(a_second)) as u32))
}

/// The value at a place: smooth, and different everywhere. iblank is a small integer.
pub(super) fn value(spec: &WriteSpec, zone: usize, variable: usize, k: usize, j: usize, i: usize) -> f64 {
    if spec.kind == Kind::Grid && variable == spec.dimension.count() {
        return [1.0, 0.0, 2.0, 1.0, -1.0][(i + 3 * j + 7 * k + zone) % 5];
    }
    let at = i as f64 + 0.37 * j as f64 + 0.0513 * k as f64 + 11.3 * zone as f64;
    at + (0.1 * at + variable as f64).sin() + 100.0 * variable as f64
}

pub(super) fn bytes(spec: &WriteSpec) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, spec, &mut |zone, variable, k, plane| {
        let ni = spec.dims[zone][0];
        for (n, v) in plane.iter_mut().enumerate() {
            *v = value(spec, zone, variable, k, n / ni, n % ni);
        }
    })
    .unwrap();
    out
}

/// Decodes native bytes.
pub(super) fn decode(bytes: &[u8], dtype: DType) -> Vec<f64> {
    match dtype {
        DType::Float32 => bytes.chunks_exact(4).map(|b| f64::from(f32::from_ne_bytes(b.try_into().unwrap()))).collect(),
        DType::Float64 => bytes.chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap())).collect(),
        DType::Int32 => bytes.chunks_exact(4).map(|b| f64::from(i32::from_ne_bytes(b.try_into().unwrap()))).collect(),
        DType::Uint8 => bytes.iter().map(|&b| f64::from(b)).collect(),
    }
}

/// Checks by rows and by extents that `layout` at `step` has the variables of `spec` from `first` on.
pub(super) fn check_layout(layout: &ArrayLayout, step: usize, spec: &WriteSpec, zone: usize, first: usize) {
    let [ni, nj, nk] = layout.dims();
    assert_eq!([ni, nj, nk], spec.dims[zone]);
    let size = layout.dtype().size();
    let file = std::fs::read(layout.path(step)).unwrap();
    let affine = layout.affine(step);
    for c in 0..layout.components() {
        for k in 0..nk {
            let mut rows = vec![0_u8; nj * ni * size];
            layout.read_rows(step, c, k, 0..nj, &mut rows).unwrap();
            let got = decode(&rows, layout.dtype());
            for j in 0..nj {
                for i in 0..ni {
                    let want = value(spec, zone, first + c, k, j, i);
                    let want = match layout.dtype() {
                        DType::Float32 => f64::from(want as f32),
                        _ => want,
                    };
                    assert_eq!(got[j * ni + i].to_bits(), want.to_bits(), "{spec:?} {} {c} {k} {j} {i}", layout.name());
                }
            }
            let swapped = layout.big_endian(step) != cfg!(target_endian = "big");
            for j in 0..nj {
                let (a, b) = (ni / 3, ni - ni / 4);
                let mut part = Vec::new();
                layout.row_extents(step, c, k, j, a..b, &mut |run| {
                    part.extend_from_slice(&file[run.offset as usize..(run.offset + run.len) as usize]);
                });
                if let Some(f) = affine {
                    let at =
                        f.base + c as u64 * f.component + k as u64 * f.plane + j as u64 * f.row + a as u64 * f.element;
                    assert_eq!(part, &file[at as usize..at as usize + (b - a) * size], "affine, {spec:?}");
                }
                if swapped {
                    crate::stored_numbers::swap(&mut part, size);
                }
                assert_eq!(part, &rows[(j * ni + a) * size..(j * ni + b) * size]);
            }
        }
    }
}
