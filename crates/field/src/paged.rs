//! Nodes over pages: translation is paid once a cell, absence is a value.

use crate::catalog::DType;
use crate::nodes::{box_holds, corner_steps, BoxLevel, Corners, Grain, Miss, Nodes, Zone};
use crate::simd::V4;
use crate::translate::Place;
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
    /// Where the last cells lie: several arrays are asked for at one, and each is asked to be fetched before.
    cells: [Known; KNOWN],
    /// The pages of all arrays that have the same number: most cells lie in the page of the cell before.
    groups: [Group; GROUPS],
    missing: Vec<PageId>,
    failure: Option<PageError>,
}

impl PagedNodes {
    /// For the zones of a dataset and one worker's pins.
    pub fn new(zones: Arc<[Zone]>, worker: Worker, step: u32) -> Self {
        let cells = core::array::from_fn(|_| Known::default());
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

    /// A page of boxes.
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
    pages: Pages<'a>,
    known: &'a Known,
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
            // SAFETY: `pages` has the page of each corner, and `element` says where it is there.
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

/// Writes down what is not here.
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

/// A zone's pages, as a worker sees them at one time step.
struct Pages<'a> {
    zone: usize,
    z: &'a Zone,
    worker: &'a Worker,
    step: u32,
}

impl Pages<'_> {
    /// A number for the worker's pins at this step: what is remembered under another one is out of date, or of another step. A worker
    /// that lets go of its pins a million times a second gets to the next step's numbers in twelve days.
    #[inline(always)]
    fn epoch(&self) -> u64 {
        self.worker.releases().wrapping_add(u64::from(self.step) << 40)
    }

    #[inline(never)]
    fn look_up(&self, array: usize, number: u64) -> Result<*const u8, NotHere> {
        let a = &self.z.arrays[array];
        let id = PageId::new(a.id, if a.steady { 0 } else { self.step }, number);
        match self.worker.page(id) {
            Lookup::Here(bytes) => {
                debug_assert!(bytes.len() >= self.z.translation.component * a.components * a.dtype.size());
                Ok(bytes.as_ptr())
            }
            other => Err(NotHere::new(id, other)),
        }
    }
}

/// Page numbers whose pages are remembered: some tens are in play while four lines take turns.
const GROUPS: usize = 64;

/// The pages of a zone's arrays that have the same number.
struct Group {
    zone: Cell<usize>,
    number: Cell<u64>,
    /// 1. What `pages` says holds in this epoch: while the worker's pins and the step are the same.
    epoch: Cell<u64>,
    /// 2. A bit for each of `pages` that is set.
    here: Cell<u64>,
    pages: [Cell<*const u8>; ARRAYS],
}

// SAFETY: the pointers are to pages that the worker has pinned, which moves between threads together with them.
unsafe impl Send for Group {}

impl Default for Group {
    fn default() -> Self {
        Self {
            zone: Cell::new(usize::MAX),
            number: Cell::new(0),
            epoch: Cell::new(u64::MAX),
            here: Cell::new(0),
            pages: core::array::from_fn(|_| Cell::new(core::ptr::null())),
        }
    }
}

impl Group {
    /// The only place for a number.
    #[inline(always)]
    fn of<'a>(groups: &'a [Self; GROUPS], pages: &Pages, number: u64) -> &'a Self {
        // Neighbours along any axis, and the same number of other zones and steps, fall on different places (Fibonacci hashing).
        let of = (pages.zone as u64) << 32 | u64::from(pages.step) << 48;
        let mixed = number.wrapping_add(of).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &groups[(mixed >> (u64::BITS - GROUPS.trailing_zeros())) as usize % GROUPS]
    }

    #[inline(always)]
    fn is(&self, zone: usize, number: u64, epoch: u64) -> bool {
        self.number.get() == number && self.zone.get() == zone && self.epoch.get() == epoch
    }

    /// The page of an array, looked up once while it is pinned.
    #[inline(always)]
    fn page(&self, pages: &Pages, array: usize, number: u64) -> Result<*const u8, NotHere> {
        let epoch = pages.epoch();
        let same = self.is(pages.zone, number, epoch);
        if array < ARRAYS && same && self.here.get() >> array & 1 == 1 {
            return Ok(self.pages[array].get());
        }
        let page = pages.look_up(array, number)?;
        if !same {
            self.zone.set(pages.zone);
            self.number.set(number);
            self.epoch.set(epoch);
            self.here.set(0);
        }
        if array < ARRAYS {
            self.pages[array].set(page);
            self.here.set(self.here.get() | 1 << array);
        }
        Ok(page)
    }
}

/// Cells whose places are remembered.
const KNOWN: usize = 16;
/// Arrays of a zone whose pages are remembered with a cell: coordinates, iblank and the variables of a solution come first.
const ARRAYS: usize = 8;

/// Where a cell lies.
struct Known {
    /// Zone and low corner.
    key: Cell<[u32; 4]>,
    low: Cell<Place>,
    /// Axes along which its corners lie in different pages.
    apart: Cell<usize>,
    /// 1. What `pages` says holds in this epoch: while the worker's pins and the step are the same.
    epoch: Cell<u64>,
    /// 2. A bit for each of `pages` that is set.
    here: Cell<u64>,
    /// A row for each corner that is the first in its page, a column for each array.
    pages: [[Cell<*const u8>; ARRAYS]; 8],
}

// SAFETY: the pointers are to pages that the worker has pinned, which moves between threads together with them.
unsafe impl Send for Known {}

impl Default for Known {
    fn default() -> Self {
        Self {
            key: Cell::new([u32::MAX; 4]),
            low: Cell::default(),
            apart: Cell::new(0),
            epoch: Cell::new(u64::MAX),
            here: Cell::new(0),
            pages: core::array::from_fn(|_| core::array::from_fn(|_| Cell::new(core::ptr::null()))),
        }
    }
}

impl Known {
    /// Where a cell lies, as one of `cells` says from now on.
    #[inline(always)]
    fn of<'a>(cells: &'a [Self; KNOWN], groups: &[Group; GROUPS], pages: &Pages, cell: [u32; 3]) -> &'a Self {
        let key = [pages.zone as u32, cell[0], cell[1], cell[2]];
        // Neighbours along any one axis have places of their own, and so has the cell at the next step.
        let of_cell = cell[0].wrapping_add(cell[1].wrapping_mul(2)).wrapping_add(cell[2].wrapping_mul(4));
        let place = of_cell.wrapping_add(pages.step.wrapping_mul(8));
        let known = &cells[place as usize % KNOWN];
        let epoch = pages.epoch();
        if known.key.get() == key && known.epoch.get() == epoch {
            return known;
        }
        let (low, apart) = pages.z.translation.cell(cell);
        known.key.set(key);
        known.low.set(low);
        known.apart.set(apart);
        known.epoch.set(epoch);
        let mut here = 0;
        for c in 0..8 {
            if c & apart == c {
                let number = pages.z.translation.corner_page(low.page, apart, c);
                let group = Group::of(groups, pages, number);
                if group.is(pages.zone, number, epoch) {
                    here |= group.here.get() << (c * ARRAYS);
                    for (to, from) in known.pages[c].iter().zip(&group.pages) {
                        to.set(from.get());
                    }
                }
            }
            if apart == 0 {
                break;
            }
        }
        known.here.set(here);
        known
    }

    /// The page of a corner that is the first in its page; looked up once while it is pinned.
    #[inline(always)]
    fn page(&self, groups: &[Group; GROUPS], pages: &Pages, array: usize, corner: usize) -> Result<*const u8, NotHere> {
        let (row, column) = (corner % 8, array % ARRAYS);
        let bit = 1u64 << (row * ARRAYS + column);
        if array < ARRAYS && self.here.get() & bit != 0 {
            return Ok(self.pages[row][column].get());
        }
        let number = pages.z.translation.corner_page(self.low.get().page, self.apart.get(), corner);
        let page = Group::of(groups, pages, number).page(pages, array, number)?;
        if array < ARRAYS {
            self.pages[row][column].set(page);
            self.here.set(self.here.get() | bit);
        }
        Ok(page)
    }

    /// The corners of a cell that lies in more than one page; `not_here` is told of each page that is not, whose corners have none.
    #[inline(always)]
    fn across(
        &self,
        groups: &[Group; GROUPS],
        pages: &Pages,
        array: usize,
        mut not_here: impl FnMut(NotHere),
    ) -> Across {
        let (low, apart) = (self.low.get().element, self.apart.get());
        let of_corners = self.all(array).unwrap_or_else(|| {
            let mut of_corners = [core::ptr::null(); 8];
            for c in 0..8 {
                if c & apart != c {
                    of_corners[c] = of_corners[c & apart];
                    continue;
                }
                match self.page(groups, pages, array, c) {
                    Ok(page) => of_corners[c] = page,
                    Err(e) => not_here(e),
                }
            }
            of_corners
        });
        Across { pages: of_corners, low, step: pages.z.translation.corner_steps(apart) }
    }

    /// The pages of all corners, if each is known.
    #[inline(always)]
    fn all(&self, array: usize) -> Option<[*const u8; 8]> {
        let (apart, column) = (self.apart.get() % 8, array % ARRAYS);
        let wanted = FIRSTS[apart] << column;
        (array < ARRAYS && self.here.get() & wanted == wanted)
            .then(|| core::array::from_fn(|c| self.pages[c & apart][column].get()))
    }
}

/// For corners that are apart along some axes (bit 0 for i, 1 for j, 2 for k), a bit for each that is the first in its page, as in
/// `Known::here` for the first array.
const FIRSTS: [u64; 8] = {
    let mut firsts = [0; 8];
    let mut n = 0;
    while n < 64 {
        let (apart, corner) = (n / 8, n % 8);
        if corner & apart == corner {
            firsts[apart] |= 1 << (corner * ARRAYS);
        }
        n += 1;
    }
    firsts
};

/// A page that is absent or, with an error, failed.
struct NotHere(PageId, Option<PageError>);

impl NotHere {
    #[cold]
    fn new(id: PageId, found: Lookup<'_>) -> Self {
        Self(id, if let Lookup::Failed(e) = found { Some(e) } else { None })
    }
}

/// The corners of a cell that lies in more than one page.
struct Across {
    /// Of each corner.
    pages: [*const u8; 8],
    /// Point of the low corner in its page.
    low: usize,
    step: [isize; 3],
}

impl Across {
    /// Point of a corner in its page.
    #[inline(always)]
    fn element(&self, corner: usize) -> usize {
        let step = |a: usize| if corner >> a & 1 == 1 { self.step[a] } else { 0 };
        self.low.wrapping_add_signed(step(0) + step(1) + step(2))
    }
}

impl Nodes for PagedNodes {
    type At<'a> = PagedCorners<'a>;

    fn zones(&self) -> &[Zone] {
        &self.zones
    }

    #[inline(always)]
    fn at(&mut self, zone: usize, cell: [u32; 3]) -> PagedCorners<'_> {
        let pages = Pages { zone, z: &self.zones[zone], worker: &self.worker, step: self.step };
        PagedCorners {
            known: Known::of(&self.cells, &self.groups, &pages, cell),
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
        let pages = Pages { zone, z: &self.zones[zone], worker: &self.worker, step: self.step };
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
        let pages = Pages { zone, z, worker: &self.worker, step: self.step };
        let known = Known::of(&self.cells, &self.groups, &pages, cell);
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
