//! Nodes over pages: translation is paid once a cell, absence is a value.

use crate::catalog::DType;
use crate::nodes::{box_holds, corner_steps, Grain, Miss, Nodes, Zone};
use crate::simd::V4;
use crate::translate::{Place, Translation};
use pager::error::PageError;
use pager::id::PageId;
use pager::{Lookup, Worker};
use std::cell::Cell;
use std::sync::Arc;

/// One worker's access to the pages of a dataset at one time step.
pub struct PagedNodes {
    zones: Arc<[Zone]>,
    worker: Worker,
    step: u32,
    corners: ((usize, [u32; 3]), Corners),
    /// Places of the last cells: several arrays are asked for at one, and each is asked to be fetched before.
    places: [Cell<Known>; KNOWN],
    missing: Vec<PageId>,
    failure: Option<PageError>,
}

impl PagedNodes {
    /// For the zones of a dataset and one worker's pins.
    pub fn new(zones: Arc<[Zone]>, worker: Worker, step: u32) -> Self {
        let corners = ((usize::MAX, [0; 3]), Corners::default());
        let nowhere = Known { key: [u32::MAX; 4], page: 0, element: 0, whole: false };
        let places = core::array::from_fn(|_| Cell::new(nowhere));
        Self { zones, worker, step, corners, places, missing: Vec::new(), failure: None }
    }

    /// Translates the low corner of a cell, and says whether the cell lies in one page.
    #[inline(always)]
    fn place(&self, zone: usize, cell: [u32; 3]) -> (Place, bool) {
        let key = [zone as u32, cell[0], cell[1], cell[2]];
        // Neighbours along any one axis have places of their own.
        let slot = &self.places
            [cell[0].wrapping_add(cell[1].wrapping_mul(2)).wrapping_add(cell[2].wrapping_mul(4)) as usize % KNOWN];
        let known = slot.get();
        if known.key == key {
            return (Place { page: known.page, element: known.element }, known.whole);
        }
        let (at, whole) = self.zones[zone].translation.cell(cell);
        slot.set(Known { key, page: at.page, element: at.element, whole });
        (at, whole)
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

    /// The pages of the corners of a cell that lies in more than one, once every page is there.
    #[inline(always)]
    fn pages(&mut self, zone: usize, array: usize, corners: &Corners) -> Result<[*const u8; 8], Miss> {
        let a = &self.zones[zone].arrays[array];
        let step = if a.steady { 0 } else { self.step };
        let mut pages = [core::ptr::null(); 8];
        let mut result = Ok(());
        for c in 0..8usize {
            if corners.first[c] == c {
                let id = PageId::new(a.id, step, corners.places[c].page);
                match Self::page(&self.worker, id, &mut self.missing, &mut self.failure) {
                    Ok(bytes) => pages[c] = bytes.cast::<u8>(),
                    // A failed page ends the line whatever else is absent.
                    Err(Miss::Failed) => result = Err(Miss::Failed),
                    Err(Miss::Absent) => result = result.and(Err(Miss::Absent)),
                }
            } else {
                pages[c] = pages[corners.first[c]];
            }
        }
        result.map(|()| pages)
    }

    /// Where the corners of a cell lie that lies in more than one page; the arrays of a zone are asked for one after the other.
    #[inline(always)]
    fn corners(&mut self, zone: usize, cell: [u32; 3]) -> Corners {
        if self.corners.0 != (zone, cell) {
            let (places, first) = self.zones[zone].translation.corners(cell);
            self.corners = ((zone, cell), Corners { places, first });
        }
        self.corners.1
    }

    #[inline(never)]
    fn vector_across(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss> {
        let corners = self.corners(zone, cell);
        let pages = self.pages(zone, array, &corners)?;
        let (t, a) = (&self.zones[zone].translation, &self.zones[zone].arrays[array]);
        for row in (0..8).step_by(2) {
            let grain = |c: usize| Grain::new(pages[c], a.dtype, a.components, t.strides());
            let (p, q) = (corners.places[row], corners.places[row + 1]);
            // SAFETY: `pages` has the page of each corner, and `corners` its place there.
            unsafe {
                if corners.first[row] == corners.first[row + 1] && p.element != q.element {
                    let pair = grain(row).pair(p.element);
                    out[row..row + 2].copy_from_slice(&pair);
                } else {
                    out[row] = grain(row).node(p.element * a.components);
                    out[row + 1] = grain(row + 1).node(q.element * a.components);
                }
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn scalar_across(
        &mut self,
        zone: usize,
        array: usize,
        component: usize,
        cell: [u32; 3],
        out: &mut [f64; 8],
    ) -> Result<(), Miss> {
        let corners = self.corners(zone, cell);
        let pages = self.pages(zone, array, &corners)?;
        let (t, a) = (&self.zones[zone].translation, &self.zones[zone].arrays[array]);
        for (c, v) in out.iter_mut().enumerate() {
            let grain = Grain::new(pages[c], a.dtype, a.components, t.strides());
            // SAFETY: as in `vector_across`.
            *v = unsafe { grain.element(corners.places[c].element * a.components + component) };
        }
        Ok(())
    }
}

/// Cells whose places are remembered.
const KNOWN: usize = 16;

/// Where a cell lies.
#[derive(Copy, Clone)]
struct Known {
    /// Zone and low corner.
    key: [u32; 4],
    page: u64,
    element: usize,
    whole: bool,
}

/// Where the corners of a cell lie, and for each the first corner in the same page.
#[derive(Copy, Clone, Default)]
struct Corners {
    places: [Place; 8],
    first: [usize; 8],
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
        let (at, whole) = self.place(zone, cell);
        if whole {
            let bytes =
                Self::page(&self.worker, PageId::new(a.id, step, at.page), &mut self.missing, &mut self.failure)?;
            let g = Self::grain(&z.translation, bytes, a.dtype, a.components);
            // SAFETY: `whole` says that the eight corners lie in this page, which holds a full page box.
            unsafe { g.vector(at.element, corner_steps(z.translation.dims), out) };
            return Ok(());
        }
        self.vector_across(zone, array, cell, out)
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
        let (at, whole) = self.place(zone, cell);
        if whole {
            let bytes =
                Self::page(&self.worker, PageId::new(a.id, step, at.page), &mut self.missing, &mut self.failure)?;
            let g = Self::grain(&z.translation, bytes, a.dtype, a.components);
            // SAFETY: as in `vector`; component < components.
            unsafe { g.scalar(at.element, component, corner_steps(z.translation.dims), out) };
            return Ok(());
        }
        self.scalar_across(zone, array, component, cell, out)
    }

    #[inline(always)]
    fn prefetch(&self, zone: usize, array: usize, cell: [u32; 3]) {
        let z = &self.zones[zone];
        let a = &z.arrays[array];
        let (at, whole) = self.place(zone, cell);
        let id = |page: u64| PageId::new(a.id, if a.steady { 0 } else { self.step }, page);
        if whole {
            if let Lookup::Here(bytes) = self.worker.page(id(at.page)) {
                let g = Self::grain(&z.translation, bytes, a.dtype, a.components);
                g.prefetch(at.element, corner_steps(z.translation.dims));
            }
            return;
        }
        let (places, first) = z.translation.corners(cell);
        let mut pages = [core::ptr::null(); 8];
        for c in 0..8 {
            pages[c] = if first[c] != c {
                pages[first[c]]
            } else if let Lookup::Here(bytes) = self.worker.page(id(places[c].page)) {
                bytes.as_ptr()
            } else {
                return;
            };
            Grain::new(pages[c], a.dtype, a.components, (0, 0)).prefetch_point(places[c].element);
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

    fn blocks_that_hold(&mut self, zone: usize, level: usize, p: V4, out: &mut Vec<[u32; 3]>) -> Result<(), Miss> {
        let l = &self.zones[zone].boxes[level];
        let t = &l.translation;
        let mut result = Ok(());
        for number in 0..t.count() {
            let bytes =
                match Self::page(&self.worker, PageId::new(l.id, 0, number), &mut self.missing, &mut self.failure) {
                    Ok(bytes) => bytes,
                    Err(Miss::Failed) => return Err(Miss::Failed),
                    Err(m) => {
                        result = Err(m);
                        continue;
                    }
                };
            // SAFETY: the pin is held until the next step, and the page holds six components of a full page box.
            let boxes = unsafe { core::slice::from_raw_parts(bytes.cast::<[f32; 6]>(), t.component) };
            let (first, inside) = t.extent(number);
            for k in 0..inside[2] {
                for j in 0..inside[1] {
                    let row = (k * t.page[1] + j) * t.page[0];
                    for i in 0..inside[0] {
                        if box_holds(&boxes[(row + i) as usize], p) {
                            out.push([first[0] + i, first[1] + j, first[2] + k]);
                        }
                    }
                }
            }
        }
        result
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
