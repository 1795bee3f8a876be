//! Nodes over pages: translation is paid once a cell, absence is a value.

use crate::catalog::DType;
use crate::nodes::{corner_steps, Grain, Miss, Nodes, Zone};
use crate::simd::V4;
use crate::translate::Translation;
use pager::error::PageError;
use pager::id::{ArrayId, PageId};
use pager::{Lookup, Worker};
use std::sync::Arc;

/// One worker's access to the pages of a dataset at one time step.
pub struct PagedNodes {
    zones: Arc<[Zone]>,
    worker: Worker,
    step: u32,
    missing: Vec<PageId>,
    failure: Option<PageError>,
}

impl PagedNodes {
    /// For the zones of a dataset and one worker's pins.
    pub fn new(zones: Arc<[Zone]>, worker: Worker, step: u32) -> Self {
        Self { zones, worker, step, missing: Vec::new(), failure: None }
    }

    /// The worker's pins.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    #[inline(always)]
    fn page(
        worker: &Worker,
        id: PageId,
        missing: &mut Vec<PageId>,
        failure: &mut Option<PageError>,
    ) -> Result<*const [u8], Miss> {
        match worker.page(id) {
            Lookup::Here(bytes) => Ok(bytes),
            other => Self::not_here(other, id, missing, failure),
        }
    }

    #[cold]
    fn not_here(
        l: Lookup<'_>,
        id: PageId,
        missing: &mut Vec<PageId>,
        failure: &mut Option<PageError>,
    ) -> Result<*const [u8], Miss> {
        match l {
            Lookup::Here(b) => Ok(b),
            Lookup::Absent => {
                if !missing.contains(&id) {
                    missing.push(id);
                }
                Err(Miss::Absent)
            }
            Lookup::Failed(e) => {
                *failure = Some(e);
                Err(Miss::Failed)
            }
        }
    }

    #[inline(always)]
    fn grain(t: &Translation, bytes: *const [u8], dtype: DType, components: usize) -> Grain {
        debug_assert!(bytes.len() >= t.component * components * dtype.size());
        Grain::new(bytes.cast::<u8>(), dtype, components, t.strides())
    }

    /// Runs `each` for the eight corners of a cell that lies in more than one page, once every page is there.
    #[inline(never)]
    fn across(
        &mut self,
        id: (ArrayId, u32),
        shape: (DType, usize),
        t: &Translation,
        cell: [u32; 3],
        mut each: impl FnMut(usize, Grain, usize),
    ) -> Result<(), Miss> {
        let corner = corner_steps(t.dims);
        let mut result = Ok(());
        for c in 0..8usize {
            let node = core::array::from_fn(|a| cell[a] + (((c >> a) & 1) * corner[a]) as u32);
            let at = t.node(node);
            match Self::page(&self.worker, PageId::new(id.0, id.1, at.page), &mut self.missing, &mut self.failure) {
                Ok(bytes) => each(c, Self::grain(t, bytes, shape.0, shape.1), at.element),
                // A failed page ends the line whatever else is absent.
                Err(Miss::Failed) => result = Err(Miss::Failed),
                Err(Miss::Absent) => result = result.and(Err(Miss::Absent)),
            }
        }
        result
    }
}

impl Nodes for PagedNodes {
    fn zones(&self) -> &[Zone] {
        &self.zones
    }

    #[inline(always)]
    fn vector(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss> {
        let z = &self.zones[zone];
        let a = &z.arrays[array];
        let step = if a.steady { 0 } else { self.step };
        let (at, whole) = z.translation.cell(cell);
        if whole {
            let bytes =
                Self::page(&self.worker, PageId::new(a.id, step, at.page), &mut self.missing, &mut self.failure)?;
            let g = Self::grain(&z.translation, bytes, a.dtype, a.components);
            // SAFETY: `whole` says that the eight corners lie in this page, which holds a full page box.
            unsafe { g.vector(at.element, corner_steps(z.translation.dims), out) };
            return Ok(());
        }
        let (t, id, shape) = (z.translation, (a.id, step), (a.dtype, a.components));
        // SAFETY: `across` gives the grain of the corner's own page and its element there.
        self.across(id, shape, &t, cell, |c, g, n| out[c] = unsafe { g.node(n * shape.1) })
    }

    #[inline(always)]
    fn scalar(
        &mut self,
        zone: usize,
        array: usize,
        component: usize,
        cell: [u32; 3],
        out: &mut [f64; 8],
    ) -> Result<(), Miss> {
        let z = &self.zones[zone];
        let a = &z.arrays[array];
        let step = if a.steady { 0 } else { self.step };
        let (at, whole) = z.translation.cell(cell);
        if whole {
            let bytes =
                Self::page(&self.worker, PageId::new(a.id, step, at.page), &mut self.missing, &mut self.failure)?;
            let g = Self::grain(&z.translation, bytes, a.dtype, a.components);
            // SAFETY: as in `vector`; component < components.
            unsafe { g.scalar(at.element, component, corner_steps(z.translation.dims), out) };
            return Ok(());
        }
        let (t, id, shape) = (z.translation, (a.id, step), (a.dtype, a.components));
        // SAFETY: as in `vector`.
        self.across(id, shape, &t, cell, |c, g, n| out[c] = unsafe { g.element(n * shape.1 + component) })
    }

    #[inline(always)]
    fn prefetch(&self, zone: usize, array: usize, cell: [u32; 3]) {
        let z = &self.zones[zone];
        let a = &z.arrays[array];
        let (at, whole) = z.translation.cell(cell);
        // Cells across pages are few, and finding their pages costs more than it hides.
        if whole {
            let id = PageId::new(a.id, if a.steady { 0 } else { self.step }, at.page);
            if let Lookup::Here(bytes) = self.worker.page(id) {
                let g = Self::grain(&z.translation, bytes, a.dtype, a.components);
                g.prefetch(at.element, corner_steps(z.translation.dims));
            }
        }
    }
    fn block(&mut self, zone: usize, level: usize, block: [u32; 3]) -> Result<[f32; 6], Miss> {
        let l = &self.zones[zone].boxes[level];
        let at = l.translation.node(block);
        let bytes = Self::page(&self.worker, PageId::new(l.id, 0, at.page), &mut self.missing, &mut self.failure)?;
        let p = bytes.cast::<f32>();
        // SAFETY: a page of boxes holds six components of a full page box.
        Ok(core::array::from_fn(|c| unsafe { *p.add(at.element * 6 + c) }))
    }

    fn missing(&mut self) -> &mut Vec<PageId> {
        &mut self.missing
    }

    fn failure(&mut self) -> Option<PageError> {
        self.failure.take()
    }

    fn begin_step(&mut self) {
        self.worker.begin_step();
    }
}
