//! An analytic flow, cut in pages of a simulated source, for comparisons out of core.

#[allow(dead_code, reason = "not every test wants derived fields")]
pub mod derived;
mod pages;

use field::in_memory::{FlatArray, FlatNodes};
use field::in_memory_series::FlatSeries;
use field::nodes::{ArraySlot, BoxLevel, Nodes, Zone};
use field::translate::Translation;
use pager::source::simulated::{Simulated, Simulation};
use pager::Pager;
use pages::TestMap;
#[allow(unused_imports, reason = "not every test has lines")]
pub use pages::{same, simulation};
use std::sync::Arc;

/// A two-zone flow: a warped box cut in two along i, with ABC-like velocity as momentum over density. In time the box
/// leans over, the flow turns, and a hole moves through it.
pub fn flow(time: f64) -> FlatNodes {
    made(time, false, true)
}

/// The same on a uniform grid at rest, with the hole or without iblank.
#[allow(dead_code, reason = "not every test wants one")]
pub fn uniform(time: f64, blanked: bool) -> FlatNodes {
    let made = made(time, true, blanked);
    assert!(made.zones().iter().all(|z| z.uniform.is_some()));
    made
}

fn made(time: f64, uniform: bool, blanked: bool) -> FlatNodes {
    let zone = |name: &str, a: usize, b: usize, n: [usize; 3]| {
        let dims = [b - a + 1, n[1], n[2]];
        let count = dims[0] * dims[1] * dims[2];
        let (mut xyz, mut m, mut rho) = (vec![0f32; 3 * count], vec![0f32; 3 * count], vec![0f32; count]);
        let mut ib = vec![1i32; count];
        for k in 0..dims[2] {
            for j in 0..dims[1] {
                for i in 0..dims[0] {
                    let at = (k * dims[1] + j) * dims[0] + i;
                    let f = |m: usize, n: usize| m as f64 / (n - 1) as f64;
                    let (r, s, t) = (f(i + a, n[0]), f(j, n[1]), f(k, n[2]));
                    let x = [
                        r + 0.1 * (3.0 * s).sin() * r * (1.0 - r),
                        s + 0.1 * (2.0 * t + r).sin() * s * (1.0 - s),
                        t + 0.1 * (2.0 * r).cos() * t * (1.0 - t),
                    ];
                    let x = [x[0] + 0.2 * time * x[2], x[1] + 0.05 * time, x[2]];
                    let x = if uniform { [r, s, t] } else { x };
                    let d = 1.0 + 0.2 * (5.0 * x[0]).sin();
                    let v = [(6.0 * x[2] + time).sin() + 0.7, 0.8 * (6.0 * x[0]).cos(), 0.7 * (6.0 * x[1]).sin()];
                    for c in 0..3 {
                        xyz[c * count + at] = x[c] as f32;
                        m[c * count + at] = (v[c] * d) as f32;
                    }
                    rho[at] = d as f32;
                    let hole = (r - 0.4 - 0.1 * time).hypot(s - 0.6) < 0.06;
                    ib[at] = i32::from(!hole);
                }
            }
        }
        let mut arrays = vec![
            ("xyz".to_owned(), 3, FlatArray::F32(xyz)),
            ("iblank".to_owned(), 1, FlatArray::I32(ib)),
            ("density".to_owned(), 1, FlatArray::F32(rho)),
            ("momentum".to_owned(), 3, FlatArray::F32(m)),
        ];
        arrays.retain(|(name, ..)| blanked || name != "iblank");
        (name.to_owned(), dims, arrays)
    };
    let n = [41, 25, 21];
    FlatNodes::from_arrays(vec![zone("zone1", 0, 20, n), zone("zone2", 20, 40, n)])
}

/// An array cut in pages: first byte, number of pages, bytes of a page.
type CutArray = (u64, u64, usize);

/// Cuts the data in pages of `edge` points, in a simulated source.
pub fn paged(flow: &FlatSeries, edge: [usize; 3], pager: &Arc<Pager>, simulation: Simulation) -> Arc<[Zone]> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut made: Vec<(usize, Zone, Vec<CutArray>)> = Vec::new();
    for (zi, z) in flow.zones().iter().enumerate() {
        let dims = z.dims().map(|d| d as usize);
        let translation = Translation::new(dims, core::array::from_fn(|a| edge[a].min(dims[a])));
        let mut runs = Vec::new();
        for (n, a) in z.arrays.iter().enumerate() {
            let steps = &flow.steps()[..if a.steady { 1 } else { flow.steps().len() }];
            runs.push(cut(&mut bytes, &translation, dims, (a.components, a.dtype.size()), steps, &|step, c, at| {
                step.raw(zi, n, c, at)
            }));
        }
        let mut boxes = Vec::new();
        for (level, b) in z.boxes.iter().enumerate() {
            let d = b.translation.dims.map(|d| d as usize);
            let t = Translation::new(d, d.map(|n| n.min(3)));
            let steps = &flow.steps()[..if b.steady { 1 } else { flow.steps().len() }];
            runs.push(cut(&mut bytes, &t, d, (6, 4), steps, &|step, c, at| {
                let block = [at % d[0], at / d[0] % d[1], at / d[0] / d[1]].map(|v| v as u32);
                step.clone().block(zi, level, block).unwrap()[c].to_ne_bytes().to_vec()
            }));
            boxes.push(BoxLevel { translation: t, ..b.clone() });
        }
        made.push((zi, Zone { translation, boxes, ..z.clone() }, runs));
    }
    let source = pager.add_source(Arc::new(Simulated::new(bytes, simulation).unwrap()));
    let zones = made.into_iter().map(|(zi, mut z, runs)| {
        let add = |n: usize, what: &str| {
            let (first, pages, bytes) = runs[n];
            pager.add_array(Arc::new(TestMap { name: format!("{}/{what}", zi + 1), source, first, pages, bytes }))
        };
        let count = z.arrays.len();
        z.arrays = z.arrays.iter().enumerate().map(|(n, a)| ArraySlot { id: add(n, &a.name), ..a.clone() }).collect();
        for (l, b) in z.boxes.iter_mut().enumerate() {
            b.id = add(count + l, "boxes");
        }
        z
    });
    zones.collect()
}

fn cut(
    bytes: &mut Vec<u8>,
    t: &Translation,
    dims: [usize; 3],
    (components, size): (usize, usize),
    steps: &[FlatNodes],
    value: &dyn Fn(&FlatNodes, usize, usize) -> Vec<u8>,
) -> CutArray {
    let first = bytes.len() as u64;
    let page_bytes = t.component * components * size;
    for step in steps {
        let mut pages = vec![vec![0u8; page_bytes]; t.count() as usize];
        for k in 0..dims[2] {
            for j in 0..dims[1] {
                for i in 0..dims[0] {
                    let p = t.node([i as u32, j as u32, k as u32]);
                    for c in 0..components {
                        let at = (p.element * components + c) * size;
                        let value = value(step, c, (k * dims[1] + j) * dims[0] + i);
                        pages[p.page as usize][at..at + size].copy_from_slice(&value);
                    }
                }
            }
        }
        for p in &pages {
            bytes.extend_from_slice(p);
            bytes.extend_from_slice(&crc32c::crc32c(p).to_le_bytes());
        }
    }
    (first, t.count(), page_bytes)
}

/// Seeds of lines.
#[allow(dead_code, reason = "not every test has lines")]
pub fn seeds() -> Vec<[f64; 3]> {
    // Low discrepancy, some outside.
    (0..60u32)
        .map(|n| [0.618_034, 0.754_878, 0.569_84].map(|g: f64| (f64::from(n + 1) * g).fract() * 1.04 - 0.02))
        .collect()
}
