//! A worker's cache of translated cells and of their pages. A page is looked up once while it is pinned.

use crate::nodes::Zone;
use crate::translate::NodeAddress;
use pager::error::PageError;
use pager::id::PageId;
use pager::{Lookup, Worker};
use std::cell::Cell;

/// A zone's pages, for one worker at one time step.
pub(crate) struct ZonePages<'a> {
    pub(crate) zone: usize,
    pub(crate) z: &'a Zone,
    pub(crate) worker: &'a Worker,
    pub(crate) step: u32,
}

impl ZonePages<'_> {
    /// A number for the worker's pins at this step: entries of other numbers are invalid. A worker that releases its
    /// pins a million times a second reaches the next step's numbers in twelve days.
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

/// Page numbers with cached pages: some tens are in use while four lines take turns.
pub(crate) const GROUPS: usize = 64;

/// The pages of equal number of a zone's arrays.
pub(crate) struct Group {
    zone: Cell<usize>,
    number: Cell<u64>,
    /// 1. The epoch of `pages`: while the worker's pins and the step are the same.
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
    pub(crate) fn of<'a>(groups: &'a [Self; GROUPS], pages: &ZonePages, number: u64) -> &'a Self {
        // Fibonacci hashing: neighbours along any axis, and other zones and steps, fall on different places.
        let of = (pages.zone as u64) << 32 | u64::from(pages.step) << 48;
        let mixed = number.wrapping_add(of).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &groups[(mixed >> (u64::BITS - GROUPS.trailing_zeros())) as usize % GROUPS]
    }

    #[inline(always)]
    fn is(&self, zone: usize, number: u64, epoch: u64) -> bool {
        self.number.get() == number && self.zone.get() == zone && self.epoch.get() == epoch
    }

    /// The page of an array; looked up once while it is pinned.
    #[inline(always)]
    pub(crate) fn page(&self, pages: &ZonePages, array: usize, number: u64) -> Result<*const u8, NotHere> {
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

/// Cells with cached places.
pub(crate) const KNOWN: usize = 16;
/// Arrays of a zone with cached pages. Coordinates, iblank and the variables of a solution come first.
const ARRAYS: usize = 8;

pub(crate) struct CellPages {
    /// Zone and low corner, two numbers in each word.
    key: [Cell<u64>; 2],
    pub(crate) low: Cell<NodeAddress>,
    /// Axes along which the cell's corners lie in different pages.
    pub(crate) apart: Cell<usize>,
    /// 1. The epoch of `pages`: while the worker's pins and the step are the same.
    epoch: Cell<u64>,
    /// 2. A bit for each of `pages` that is set.
    here: Cell<u64>,
    /// A row per corner that is the first in its page, a column per array.
    pages: [[Cell<*const u8>; ARRAYS]; 8],
}

// SAFETY: the pointers are to pages that the worker has pinned, which moves between threads together with them.
unsafe impl Send for CellPages {}

impl Default for CellPages {
    fn default() -> Self {
        Self {
            key: [Cell::new(u64::MAX), Cell::new(u64::MAX)],
            low: Cell::default(),
            apart: Cell::new(0),
            epoch: Cell::new(u64::MAX),
            here: Cell::new(0),
            pages: core::array::from_fn(|_| core::array::from_fn(|_| Cell::new(core::ptr::null()))),
        }
    }
}

impl CellPages {
    /// The place of a cell, from then on in `cells`.
    #[inline(always)]
    pub(crate) fn of<'a>(
        cells: &'a [Self; KNOWN],
        groups: &[Group; GROUPS],
        pages: &ZonePages,
        cell: [u32; 3],
    ) -> &'a Self {
        // Packed in registers: comparing four numbers in memory stalled.
        let two = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        let key = [two(pages.zone as u32, cell[0]), two(cell[1], cell[2])];
        // Neighbours along an axis, and the cell at the next step, have different places.
        let of_cell = cell[0].wrapping_add(cell[1].wrapping_mul(2)).wrapping_add(cell[2].wrapping_mul(4));
        let place = of_cell.wrapping_add(pages.step.wrapping_mul(8));
        let known = &cells[place as usize % KNOWN];
        let epoch = pages.epoch();
        let same = (known.key[0].get() ^ key[0]) | (known.key[1].get() ^ key[1]) | (known.epoch.get() ^ epoch);
        if same == 0 {
            return known;
        }
        let (low, apart) = pages.z.translation.cell(cell);
        known.key.iter().zip(key).for_each(|(known, key)| known.set(key));
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
    pub(crate) fn page(
        &self,
        groups: &[Group; GROUPS],
        pages: &ZonePages,
        array: usize,
        corner: usize,
    ) -> Result<*const u8, NotHere> {
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

    /// The corners of a cell in several pages. `not_here` gets each page that is not resident; its corners have null
    /// pointers.
    #[inline(always)]
    pub(crate) fn across(
        &self,
        groups: &[Group; GROUPS],
        pages: &ZonePages,
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

    /// The pages of all corners, if each is cached.
    #[inline(always)]
    fn all(&self, array: usize) -> Option<[*const u8; 8]> {
        let (apart, column) = (self.apart.get() % 8, array % ARRAYS);
        let wanted = FIRSTS[apart] << column;
        (array < ARRAYS && self.here.get() & wanted == wanted)
            .then(|| core::array::from_fn(|c| self.pages[c & apart][column].get()))
    }
}

/// A bit for each corner that is the first in its page, by the axes along which corners are apart. Bits are those of
/// `CellPages::here` for the first array.
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
pub(crate) struct NotHere(pub(crate) PageId, pub(crate) Option<PageError>);

impl NotHere {
    #[cold]
    pub(crate) fn new(id: PageId, found: Lookup<'_>) -> Self {
        Self(id, if let Lookup::Failed(e) = found { Some(e) } else { None })
    }
}

/// The corners of a cell in several pages.
pub(crate) struct Across {
    /// The page of each corner; null if not resident.
    pub(crate) pages: [*const u8; 8],
    /// Element of the low corner in its page.
    low: usize,
    pub(crate) step: [isize; 3],
}

impl Across {
    /// Element of a corner in its page.
    #[inline(always)]
    pub(crate) fn element(&self, corner: usize) -> usize {
        let step = |a: usize| if corner >> a & 1 == 1 { self.step[a] } else { 0 };
        self.low.wrapping_add_signed(step(0) + step(1) + step(2))
    }
}
