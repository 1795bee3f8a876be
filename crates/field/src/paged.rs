//! Nodes over pages: a cell is translated once, and absence is a value.

use crate::boxes::Bounds;
use crate::catalog::DType;
use crate::cell_pages::{Across, CellPages, Group, NotHere, ZonePages, GROUPS, KNOWN};
use crate::nodes::{box_holds, child, corner_steps, BoxLevel, Corners, Grain, Miss, Nodes, Zone};
use crate::simd::V4;
use pager::error::PageError;
use pager::id::PageId;
use pager::{Lookup, Worker};
use std::sync::Arc;

/// One worker's access to the pages of a dataset at one time step.
pub struct PagedNodes {
    zones: Arc<[Zone]>,
    worker: Worker,
    step: u32,
    /// Places of the last cells: several arrays are read, and prefetched, at each.
    cells: [CellPages; KNOWN],
    /// Pages of equal number: most cells lie in the page of the previous cell.
    groups: [Group; GROUPS],
    missing: Vec<PageId>,
    failure: Option<PageError>,
}

impl PagedNodes {
    /// For the zones of a dataset and one worker's pins.
    pub fn new(zones: Arc<[Zone]>, worker: Worker, step: u32) -> Self {
        let cells = core::array::from_fn(|_| CellPages::default());
        let groups = core::array::from_fn(|_| Group::default());
        Self { zones, worker, step, cells, groups, missing: Vec::new(), failure: None }
    }

    /// The worker's pins.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    #[inline(always)]
    fn step_of(&self, steady: bool) -> u32 {
        if steady {
            0
        } else {
            self.step
        }
    }

    /// The boxes under a block of the next level, by corner, with one lookup per page: mostly one for all eight.
    /// Returns the miss of absent ones.
    #[inline(always)]
    fn each_child(
        &mut self,
        zone: usize,
        level: usize,
        parent: [u32; 3],
        mut each: impl FnMut(usize, &Bounds),
    ) -> Option<Miss> {
        let BoxLevel { id, translation: t, steady } = self.zones[zone].boxes[level];
        let step = self.step_of(steady);
        let low = parent.map(|n| 2 * n);
        let (place, apart) = t.cell(low);
        let steps = t.corner_steps(apart);
        // Along each axis the second block exists, unless the zone ends.
        let there = (0..3).fold(0, |there, a| there | usize::from(low[a] + 1 < t.dims[a]) << a);
        let (mut pages, mut miss) = ([core::ptr::null::<u8>(); 8], None);
        for c in (0..8).filter(|c| c & there == *c) {
            let first = c & apart;
            if first == c {
                match self.boxes(PageId::new(id, step, t.corner_page(place.page, apart, c))) {
                    Ok(page) => pages[c] = page,
                    Err(m) => miss = Some(Miss::worst([miss, Some(m), None])),
                }
            }
            if !pages[first].is_null() {
                let over = (0..3).filter(|a| c >> a & 1 == 1).map(|a| steps[a]).sum();
                let at = place.element.wrapping_add_signed(over);
                // SAFETY: the page of this block, which holds six components of a full page box.
                each(c, unsafe { &*pages[first].cast::<Bounds>().add(at) });
            }
        }
        miss
    }

    #[inline(always)]
    fn boxes(&mut self, id: PageId) -> Result<*const u8, Miss> {
        match self.worker.page(id) {
            Lookup::Here(bytes) => Ok(bytes.as_ptr()),
            other => Err(note(NotHere::new(id, other), &mut self.missing, &mut self.failure)),
        }
    }
}

/// The arrays of a zone at the corners of one cell.
pub struct PagedCorners<'a> {
    pages: ZonePages<'a>,
    known: &'a CellPages,
    groups: &'a [Group; GROUPS],
    missing: &'a mut Vec<PageId>,
    failure: &'a mut Option<PageError>,
}

impl Corners for PagedCorners<'_> {
    #[inline(always)]
    fn vector(&mut self, array: usize, out: &mut [V4; 8]) -> Result<(), Miss> {
        if self.known.apart.get() != 0 {
            return self.vector_across(array, out);
        }
        let page = self.only_page(array)?;
        let (t, a) = (&self.pages.z.translation, &self.pages.z.arrays[array]);
        let g = Grain::new(page, a.dtype, a.components, t.strides());
        // SAFETY: all eight corners lie in this page (they are not apart), which holds a full page box.
        unsafe { g.vector(self.known.low.get().element, corner_steps(t.dims), out) };
        Ok(())
    }

    #[inline(always)]
    fn scalar(&mut self, array: usize, component: usize, out: &mut [f64; 8]) -> Result<(), Miss> {
        if self.known.apart.get() != 0 {
            return self.scalar_across(array, component, out);
        }
        let page = self.only_page(array)?;
        let (t, a) = (&self.pages.z.translation, &self.pages.z.arrays[array]);
        let g = Grain::new(page, a.dtype, a.components, t.strides());
        // SAFETY: as in `vector`; component < components.
        unsafe { g.scalar(self.known.low.get().element, component, corner_steps(t.dims), out) };
        Ok(())
    }
}

impl PagedCorners<'_> {
    #[inline(always)]
    fn only_page(&mut self, array: usize) -> Result<*const u8, Miss> {
        match self.known.page(self.groups, &self.pages, array, 0) {
            Ok(page) => Ok(page),
            Err(not_here) => Err(note(not_here, self.missing, self.failure)),
        }
    }

    #[inline(always)]
    fn across(&mut self, array: usize) -> Result<Across, Miss> {
        let mut miss = None;
        let (missing, failure) = (&mut *self.missing, &mut *self.failure);
        let across = self.known.across(self.groups, &self.pages, array, |not_here| {
            // A failed page ends the line whatever else is absent.
            miss = Some(Miss::worst([miss, Some(note(not_here, missing, failure)), None]));
        });
        miss.map_or(Ok(across), Err)
    }

    #[inline(never)]
    fn vector_across(&mut self, array: usize, out: &mut [V4; 8]) -> Result<(), Miss> {
        let across = self.across(array)?;
        let a = &self.pages.z.arrays[array];
        for row in (0..8).step_by(2) {
            let grain = |c: usize| Grain::new(across.pages[c], a.dtype, a.components, (0, 0));
            let at = across.element(row);
            // SAFETY: `pages` has the page of each corner, and `element` its place there.
            unsafe {
                if across.step[0] == 1 {
                    out[row..row + 2].copy_from_slice(&grain(row).pair(at));
                } else {
                    out[row] = grain(row).node(at * a.components);
                    out[row + 1] = grain(row + 1).node(across.element(row + 1) * a.components);
                }
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn scalar_across(&mut self, array: usize, component: usize, out: &mut [f64; 8]) -> Result<(), Miss> {
        let across = self.across(array)?;
        let a = &self.pages.z.arrays[array];
        if a.dtype == DType::Float32 && a.components == 1 && across.step[0] == 1 {
            for (k, out) in out.chunks_exact_mut(4).enumerate() {
                let pair = |c: usize| across.pages[c].cast::<f32>().wrapping_add(across.element(c));
                // SAFETY: as in `vector_across`.
                let v = unsafe { V4::pairs_f32(pair(4 * k), pair(4 * k + 2)) };
                out.copy_from_slice(&v.to_array());
            }
            return Ok(());
        }
        for (c, v) in out.iter_mut().enumerate() {
            let grain = Grain::new(across.pages[c], a.dtype, a.components, (0, 0));
            // SAFETY: as in `vector_across`; component < components.
            *v = unsafe { grain.element(across.element(c) * a.components + component) };
        }
        Ok(())
    }
}

/// Records an absent page or an error.
#[cold]
fn note(not_here: NotHere, missing: &mut Vec<PageId>, failure: &mut Option<PageError>) -> Miss {
    let Some(error) = not_here.1 else {
        if !missing.contains(&not_here.0) {
            missing.push(not_here.0);
        }
        return Miss::Absent;
    };
    *failure = Some(error);
    Miss::Failed
}

impl Nodes for PagedNodes {
    type At<'a> = PagedCorners<'a>;

    fn zones(&self) -> &[Zone] {
        &self.zones
    }

    #[inline(always)]
    fn at(&mut self, zone: usize, cell: [u32; 3]) -> PagedCorners<'_> {
        let pages = ZonePages { zone, z: &self.zones[zone], worker: &self.worker, step: self.step };
        PagedCorners {
            known: CellPages::of(&self.cells, &self.groups, &pages, cell),
            pages,
            groups: &self.groups,
            missing: &mut self.missing,
            failure: &mut self.failure,
        }
    }

    #[inline(always)]
    fn vector(&mut self, zone: usize, array: usize, cell: [u32; 3], out: &mut [V4; 8]) -> Result<(), Miss> {
        self.at(zone, cell).vector(array, out)
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
        self.at(zone, cell).scalar(array, component, out)
    }

    fn row_bounds(&mut self, zone: usize, array: usize, cell: [u32; 3], count: u32) -> Result<Option<(V4, V4)>, Miss> {
        let pages = ZonePages { zone, z: &self.zones[zone], worker: &self.worker, step: self.step };
        let (t, a) = (&pages.z.translation, &pages.z.arrays[array]);
        let Some(first) = t.row(cell, count) else { return Ok(None) };
        match Group::of(&self.groups, &pages, first.page).page(&pages, array, first.page) {
            Ok(page) => {
                let g = Grain::new(page, a.dtype, a.components, t.strides());
                // SAFETY: all corners of the cells lie in this page (`row`), which holds a full page box.
                Ok(Some(unsafe { g.row_bounds(first.element, count as usize) }))
            }
            Err(not_here) => Err(note(not_here, &mut self.missing, &mut self.failure)),
        }
    }

    #[inline(always)]
    fn prefetch(&self, zone: usize, arrays: &[usize], cell: [u32; 3]) {
        let z = &self.zones[zone];
        let pages = ZonePages { zone, z, worker: &self.worker, step: self.step };
        let known = CellPages::of(&self.cells, &self.groups, &pages, cell);
        let (low, apart) = (known.low.get().element, known.apart.get());
        if apart == 0 {
            for array in arrays {
                let a = &z.arrays[*array];
                if let Ok(page) = known.page(&self.groups, &pages, *array, 0) {
                    let g = Grain::new(page, a.dtype, a.components, z.translation.strides());
                    g.prefetch(low, corner_steps(z.translation.dims));
                }
            }
            return;
        }
        for array in arrays {
            let a = &z.arrays[*array];
            let mut here = true;
            let across = known.across(&self.groups, &pages, *array, |_| here = false);
            if !here {
                return;
            }
            for (c, page) in across.pages.iter().enumerate() {
                Grain::new(*page, a.dtype, a.components, (0, 0)).prefetch_point(across.element(c));
            }
        }
    }

    fn block(&mut self, zone: usize, level: usize, block: [u32; 3]) -> Result<[f32; 6], Miss> {
        let l = &self.zones[zone].boxes[level];
        let at = l.translation.node(block);
        let id = PageId::new(l.id, self.step_of(l.steady), at.page);
        let p = self.boxes(id)?.cast::<f32>();
        // SAFETY: a page of boxes holds six components of a full page box.
        Ok(core::array::from_fn(|c| unsafe { *p.add(at.element * 6 + c) }))
    }

    fn children(&mut self, zone: usize, level: usize, parent: [u32; 3], out: &mut [Bounds; 8]) -> (u8, Option<Miss>) {
        let mut here = 0;
        let miss = self.each_child(zone, level, parent, |c, bounds| {
            out[c] = *bounds;
            here |= 1 << c;
        });
        (here, miss)
    }

    fn children_that_hold(
        &mut self,
        zone: usize,
        level: usize,
        parent: [u32; 3],
        p: V4,
        out: &mut Vec<[u32; 3]>,
    ) -> Result<(), Miss> {
        let miss = self.each_child(zone, level, parent, |c, bounds| {
            if box_holds(bounds, p) {
                out.push(child(parent, c));
            }
        });
        miss.map_or(Ok(()), Err)
    }

    fn blocks_that_hold(&mut self, zone: usize, level: usize, p: V4, out: &mut Vec<[u32; 3]>) -> Result<(), Miss> {
        let BoxLevel { id, translation: t, steady } = self.zones[zone].boxes[level];
        let step = self.step_of(steady);
        let mut result = Ok(());
        for number in 0..t.count() {
            let page = match self.boxes(PageId::new(id, step, number)) {
                Ok(page) => page,
                Err(Miss::Failed) => return Err(Miss::Failed),
                Err(m) => {
                    result = Err(m);
                    continue;
                }
            };
            // SAFETY: the pin is held until the next step, and the page holds six components of a full page box.
            let boxes = unsafe { core::slice::from_raw_parts(page.cast::<[f32; 6]>(), t.component) };
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

    #[inline(always)]
    fn set_step(&mut self, step: u32) {
        self.step = step;
    }

    fn begin_step(&mut self) {
        self.worker.begin_step();
    }
}
