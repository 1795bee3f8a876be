//! Derived fields with pages, on zones cut in pages: gradients, and a definition with gradients.

use super::paged;
use field::catalog::DType;
use field::derive::page::{DerivedPages, OfStep};
use field::derive::Definitions;
use field::expression::compile::{compile, ZoneNames};
use field::expression::parse::parse;
use field::expression::run::Parts;
use field::in_memory::{FlatArray, FlatNodes};
use field::in_memory_series::FlatSeries;
use field::nodes::{ArraySlot, Zone};
use field::quantity::FreeStream;
use pager::source::simulated::Simulation;
use pager::{Lookup, PageId, Pager, PagerConfig};
use std::sync::Arc;
use std::time::Duration;

/// Their names and expressions.
pub const FIELDS: [(&str, &str); 2] = [
    ("vorticity", "curl(velocity)"),
    ("own", "where(density > 1, q_criterion(velocity), 3 * magnitude(grad(density))) + time * velocity.x"),
];

/// The zones with derived fields after their arrays, at steps of `times`.
pub fn with_derived(zones: &[Zone], pager: &Pager, times: &[f64]) -> Arc<[Zone]> {
    let of_step = |time: &f64| OfStep { time: *time, gamma: 1.4, free: FreeStream::from(0.5) };
    let steps: Arc<[OfStep]> = times.iter().map(of_step).collect();
    let each = zones.iter().map(|z| {
        let mut zone = z.clone();
        for (name, text) in FIELDS {
            let e = Definitions::default().expanded(z, &parse(text).unwrap()).unwrap();
            let names = ZoneNames { zone: z, unit: &|_| None, length: None, time: None, known: &Vec::new };
            let program = compile(&e, &names).unwrap_or_else(|w| panic!("{text}: {w:?}")).program;
            let components = program.roots.len();
            let parts = Parts::of(&program).unwrap();
            let pages = DerivedPages::new(format!("{}/{name}", z.name), z, parts, DType::Float32, steps.clone());
            let slot = ArraySlot {
                name: name.to_owned(),
                id: pager::ArrayId(u32::MAX),
                components,
                dtype: DType::Float32,
                steady: pages.steady(),
                derived: true,
                making: 2 * pages.scratch_bytes() as u64,
            };
            let id = pager.add_array(Arc::new(pages));
            zone.arrays.push(ArraySlot { id, ..slot });
        }
        zone
    });
    each.collect()
}

/// The same flow with the derived fields' values in arrays. Each zone is one page, so that no node has a neighbour in
/// another page.
pub fn in_core(flow: &FlatSeries, times: &[f64], steady: &[&str]) -> FlatSeries {
    let pager = Pager::new(PagerConfig { limit: 256 << 20, ..PagerConfig::default() }).unwrap();
    let zones = paged(flow, [1 << 16; 3], &pager, Simulation::fixed(Duration::ZERO, 8));
    let zones = with_derived(&zones, &pager, times);
    let steps = flow.steps().iter().enumerate().map(|(step, nodes)| {
        let named = zones.iter().enumerate().map(|(zi, z)| {
            let count = z.translation.component;
            let arrays = z.arrays.iter().enumerate().map(|(n, a)| {
                let bytes: Vec<u8> = if a.derived {
                    let id = PageId::new(a.id, if a.steady { 0 } else { step as u32 }, 0);
                    let worker = pager.worker();
                    let _hold = pager.fetch(&[id]).unwrap();
                    let Lookup::Here(page) = worker.page(id) else { panic!("held") };
                    let size = a.dtype.size();
                    let element = |c: usize, at: usize| &page[(at * a.components + c) * size..][..size];
                    (0..a.components).flat_map(|c| (0..count).flat_map(move |at| element(c, at).to_vec())).collect()
                } else {
                    (0..a.components).flat_map(|c| (0..count).flat_map(move |at| nodes.raw(zi, n, c, at))).collect()
                };
                let four = bytes.chunks_exact(4).map(|b| b.try_into().unwrap());
                let array = match a.dtype {
                    DType::Float32 => FlatArray::F32(four.map(f32::from_ne_bytes).collect()),
                    DType::Int32 => FlatArray::I32(four.map(i32::from_ne_bytes).collect()),
                    other => panic!("{other:?} is not made here"),
                };
                (a.name.clone(), a.components, array)
            });
            (z.name.clone(), z.dims().map(|n| n as usize), arrays.collect())
        });
        FlatNodes::from_arrays(named.collect())
    });
    FlatSeries::new(steps.collect(), steady)
}
