//! Time steps in memory: the reference for flows that change.

use crate::in_memory::FlatNodes;
use crate::nodes::{Each, Miss, Nodes, Zone};
use crate::simd::V4;
use pager::error::PageError;
use pager::id::PageId;
use std::sync::Arc;

/// A series wholly in memory.
#[derive(Clone)]
pub struct FlatSeries {
    zones: Arc<[Zone]>,
    steps: Vec<FlatNodes>,
    step: usize,
}

impl FlatSeries {
    /// From its steps, which have the same zones. `steady`: the arrays that are the same in all of them.
    ///
    /// # Panics
    /// Without steps, or if they differ in their zones' sizes.
    pub fn new(steps: Vec<FlatNodes>, steady: &[&str]) -> Self {
        let mut zones = steps[0].zones().to_vec();
        for z in &mut zones {
            for a in &mut z.arrays {
                a.steady = steady.contains(&a.name.as_str());
            }
            let stands = z.arrays[z.xyz].steady;
            for b in &mut z.boxes {
                b.steady = stands;
            }
            z.uniform = z.uniform.filter(|_| stands);
        }
        let dims = |n: &FlatNodes| n.zones().iter().map(Zone::dims).collect::<Vec<_>>();
        assert!(steps.iter().all(|s| dims(s) == dims(&steps[0])), "steps of one size");
        Self { zones: zones.into(), steps, step: 0 }
    }

    /// The steps.
    pub fn steps(&self) -> &[FlatNodes] {
        &self.steps
    }

    #[inline(always)]
    fn of(&mut self, steady: bool) -> &mut FlatNodes {
        &mut self.steps[if steady { 0 } else { self.step }]
    }
}

impl Nodes for FlatSeries {
    type At<'a> = Each<'a, Self>;
    fn zones(&self) -> &[Zone] {
        &self.zones
    }
    fn at(&mut self, zone: usize, cell: [u32; 3]) -> Each<'_, Self> {
        Each::new(self, zone, cell)
    }
    fn vector(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss> {
        let steady = self.zones[zone].arrays[array].steady;
        self.of(steady).vector(zone, array, cell, out)
    }
    fn scalar(
        &mut self,
        zone: usize,
        array: usize,
        component: usize,
        cell: [u32; 3],
        out: &mut [f64; 8],
    ) -> Result<(), Miss> {
        let steady = self.zones[zone].arrays[array].steady;
        self.of(steady).scalar(zone, array, component, cell, out)
    }
    fn row_bounds(&mut self, zone: usize, array: usize, cell: [u32; 3], count: u32) -> Result<Option<(V4, V4)>, Miss> {
        let steady = self.zones[zone].arrays[array].steady;
        self.of(steady).row_bounds(zone, array, cell, count)
    }
    fn block(&mut self, zone: usize, level: usize, block: [u32; 3]) -> Result<[f32; 6], Miss> {
        let steady = self.zones[zone].boxes[level].steady;
        self.of(steady).block(zone, level, block)
    }
    fn missing(&mut self) -> &mut Vec<PageId> {
        self.steps[0].missing()
    }
    fn failure(&mut self) -> Option<PageError> {
        None
    }
    fn set_step(&mut self, step: u32) {
        self.step = step as usize;
    }
}
