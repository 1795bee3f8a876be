//! Pages as rays use them: found once for all rays of a tile that pass.

use super::appearance::Projection;
use super::brick_copy::FlatBlock;
use super::bricks::{BrickState, Bricks, Room};
use super::colour_rules::Tint;
use super::empty_space::{known, range_of, Maps, PlaceState};
use super::sample::SampledVoxel;
use super::source::{largest_page, RaySource};
use field::translate::NodeAddress;
use field::volume::BLOCK;
use pager::{Lookup, PageId, Worker};

/// Remembered pages: a tile uses a few dozen at a time.
const SLOTS: usize = 256;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum TilePageState {
    /// Unknown.
    Empty,
    /// All samples in the box of the slot are invisible.
    Nothing,
    /// Resident.
    Here,
    /// Unreadable.
    Failed,
}

#[derive(Clone)]
pub(crate) struct TilePage {
    source: u32,
    pub(crate) state: TilePageState,
    pub(crate) page: u64,
    /// The count of [`Worker::releases`] when the pointers were stored.
    releases: u64,
    /// Box of voxels: of the page, or of the whole invisible region.
    pub(crate) low: [i32; 3],
    pub(crate) high: [i32; 3],
    /// The page, and the seven that follow it (bit 0 along i, 1 along j, 2 along k), as far as they were requested.
    pub(crate) near: [*const u8; 8],
    /// Its map of blocks, while [`Maps::has`] it.
    pub(crate) map: *const u8,
    /// Whether all of its blocks are visible.
    pub(crate) full: bool,
}

const UNUSED: TilePage = TilePage {
    source: u32::MAX,
    state: TilePageState::Empty,
    page: u64::MAX,
    releases: 0,
    low: [0; 3],
    high: [0; 3],
    near: [core::ptr::null(); 8],
    map: core::ptr::null(),
    full: true,
};

/// Counts of steps.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RayCounts {
    /// Samples.
    pub samples: u64,
    /// Samples with cells in several pages.
    pub across: u64,
    /// Maps of blocks made.
    pub maps: u64,
    /// Bricks made, or attempted.
    pub bricks: u64,
}

impl RayCounts {
    /// Adds the counts of another.
    pub fn add(&mut self, o: &Self) {
        self.samples += o.samples;
        self.across += o.across;
        self.maps += o.maps;
        self.bricks += o.bricks;
    }
}

/// Most bytes of maps of blocks. They are used where pages are absent, or where rays proceed sample by sample.
const MAPS_MOST: usize = 8 << 20;

/// The memory of a thread's context for maps of blocks and bricks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rooms {
    /// Bytes of both.
    pub bytes: usize,
    /// Bricks are kept for further pictures, so all bricks of a volume are useful.
    pub for_more: bool,
    /// There is room for enough useful bricks.
    pub bricks: bool,
}

impl Rooms {
    /// Bytes of the maps of each source, and the room for the bricks of a single one.
    fn shares(self, sources: &[RaySource]) -> (usize, Room) {
        let share = self.bytes / sources.len().max(1);
        let none = Room { element: 1, bytes: 0, cells: [0; 3], all: false };
        let room = |bytes| self.room(sources, bytes).filter(|_| self.bricks).unwrap_or(none);
        let bricks = room(share - share / 8);
        let any = bricks.taken() > 0;
        let maps = if any { share / 8 } else { share };
        (maps.min(MAPS_MOST / sources.len().max(1)), if any { bricks } else { room(0) })
    }

    /// The bricks that fit into this many bytes, for sources with bricks.
    fn room(self, sources: &[RaySource], bytes: usize) -> Option<Room> {
        let [s] = sources else { return None };
        let element = s.array.brick.voxel.size();
        s.by_bricks().then_some(Room { element, bytes, cells: s.cells, all: self.for_more })
    }

    /// The least [`Rooms::bytes`] for this many bricks, for sources with bricks.
    pub(super) fn bytes_for(sources: &[RaySource], bricks: usize) -> Option<usize> {
        let room = Self { bytes: 0, for_more: false, bricks: true }.room(sources, 0)?;
        // An eighth of it is for maps.
        Some((room.bytes_for(bricks) * 8).div_ceil(7))
    }

    /// Room for the bricks of sources. Only a single channel uses bricks, if there is room for some.
    pub(super) fn of_bricks(self, sources: &[RaySource]) -> Room {
        self.shares(sources).1
    }
}

/// The state with which a thread steps tiles.
pub struct Context {
    worker: Worker,
    slots: Box<[TilePage]>,
    maps: Vec<Maps>,
    /// Bricks of the single source.
    bricks: Bricks,
    /// Pages found absent in this step.
    pub(crate) missing: Vec<PageId>,
    /// Pages of unsteady arrays used since the last call of [`Context::touched`], if they are recorded.
    touched: Option<Vec<PageId>>,
    /// Counts since the context was made.
    pub counts: RayCounts,
    /// Bytes of the largest page.
    largest_page: usize,
}

// SAFETY: the raw pointers are into frames that the worker has pinned and into the context's own maps. A context moves
// between threads as a whole, with both.
unsafe impl Send for Context {}

impl Context {
    /// A context for sources, with bricks of an earlier one.
    pub(crate) fn new(worker: Worker, sources: &[RaySource], rooms: Rooms, bricks: Option<Bricks>) -> Self {
        let (maps, room) = rooms.shares(sources);
        Self {
            worker,
            slots: vec![UNUSED; SLOTS].into(),
            maps: sources.iter().map(|s| Maps::new(s.array.brick.blocks(), maps)).collect(),
            bricks: bricks.unwrap_or_else(|| Bricks::new(room)),
            missing: Vec::new(),
            touched: None,
            counts: RayCounts::default(),
            largest_page: largest_page(sources),
        }
    }

    /// Bytes of [`Context::new`].
    pub(crate) fn bytes(sources: &[RaySource], rooms: Rooms) -> usize {
        let (maps, room) = rooms.shares(sources);
        let each = sources.iter().map(|s| Maps::bytes(s.array.brick.blocks(), maps));
        SLOTS * size_of::<TilePage>() + each.sum::<usize>() + room.taken()
    }

    /// Its bricks, at its end.
    pub(super) fn into_bricks(self) -> Bricks {
        self.bricks
    }

    /// Records from now on the pages of unsteady arrays that rays use; [`Context::touched`] returns them.
    pub fn note_touched(&mut self) {
        // The pages of existing bricks would not be recorded.
        self.bricks.forget();
        self.touched.get_or_insert_default();
    }

    /// Pages of unsteady arrays that rays used since the last call, possibly repeated.
    pub fn touched(&mut self) -> std::vec::Drain<'_, PageId> {
        self.touched.get_or_insert_default().drain(..)
    }

    /// The worker of the pager.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Bytes of pinned pages.
    pub(crate) fn pinned(&self) -> usize {
        self.worker.pinned_bytes()
    }

    /// Bytes of the largest page of any source.
    pub(crate) fn largest_page(&self) -> usize {
        self.largest_page
    }

    pub(crate) fn miss(&mut self, page: PageId) {
        if !self.missing.contains(&page) {
            self.missing.push(page);
        }
    }

    /// The slot with the page of a voxel; `None` if the page, or a page of its ranges, is absent.
    #[inline]
    pub(crate) fn find<T: SampledVoxel>(&mut self, source: &RaySource, voxel: [i32; 4]) -> Option<usize> {
        let place = source.array.translation.node([voxel[0] as u32, voxel[1] as u32, voxel[2] as u32]);
        let slot = place.page.wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize;
        let slot = (slot >> 40 ^ source.number as usize) % SLOTS;
        let s = &self.slots[slot];
        if s.page == place.page && s.source == source.number {
            match s.state {
                TilePageState::Nothing | TilePageState::Failed => return Some(slot),
                TilePageState::Here if s.releases == self.worker.releases() => return Some(slot),
                _ => {}
            }
        }
        self.fill::<T>(source, slot, place.page)
    }

    pub(crate) fn slot(&self, slot: usize) -> &TilePage {
        // SAFETY: slots come from `find`, which takes the remainder by their number.
        unsafe { self.slots.get_unchecked(slot) }
    }

    #[inline(never)]
    fn fill<T: SampledVoxel>(&mut self, source: &RaySource, slot: usize, page: u64) -> Option<usize> {
        let t = &source.array.translation;
        let first = t.extent(page).0;
        let at: [u32; 3] = core::array::from_fn(|a| first[a] / t.page[a]);
        let mut new = TilePage { source: source.number, page, releases: self.worker.releases(), ..UNUSED };
        new.low = first.map(|v| v as i32);
        new.high = core::array::from_fn(|a| first[a].saturating_add(t.page[a]).min(i32::MAX as u32) as i32);
        if source.skip {
            match known(&self.worker, &source.array, source.step, at, |range| source.shows(range)) {
                PlaceState::Need(id) => {
                    self.miss(id);
                    return None;
                }
                PlaceState::Nothing(level) => {
                    // As many pages as the entry covers.
                    let (down, up) = (3 * level, 1i64 << (3 * level));
                    let edge = |n: u32, a: usize| (i64::from(n >> down) * up * i64::from(t.page[a])) as i32;
                    new.low = core::array::from_fn(|a| edge(at[a], a));
                    new.high = core::array::from_fn(|a| {
                        let end = (i64::from(at[a] >> down) + 1) * up * i64::from(t.page[a]);
                        end.min(i64::from(i32::MAX)) as i32
                    });
                    new.state = TilePageState::Nothing;
                    self.slots[slot] = new;
                    return Some(slot);
                }
                PlaceState::Seen => {}
            }
        }
        if let (Some(touched), false) = (&mut self.touched, source.array.steady) {
            touched.push(PageId::new(source.array.id, source.step, page));
        }
        match self.look(source, page) {
            Ok(Some(p)) => {
                new.near[0] = p;
                new.state = TilePageState::Here;
                self.slots[slot] = new;
                Some(slot)
            }
            Ok(None) => {
                new.state = TilePageState::Failed;
                self.slots[slot] = new;
                Some(slot)
            }
            Err(id) => {
                self.miss(id);
                None
            }
        }
    }

    /// The bytes of a page; `None` if it is unreadable.
    pub(crate) fn look(&self, source: &RaySource, page: u64) -> Result<Option<*const u8>, PageId> {
        let id = PageId::new(source.array.id, source.step, page);
        match self.worker.page(id) {
            Lookup::Here(bytes) if bytes.len() >= source.array.brick.bytes() => Ok(Some(bytes.as_ptr())),
            Lookup::Here(_) | Lookup::Failed(_) => Ok(None),
            Lookup::Absent => Err(id),
        }
    }

    /// Ensures the map of blocks of a slot's page, for the next samples.
    #[inline]
    pub(crate) fn mapped<T: SampledVoxel>(&mut self, source: &RaySource, slot: usize) {
        if source.skip
            && (self.slots[slot].map.is_null() || !self.maps[source.number as usize].has(self.slots[slot].page))
        {
            self.map::<T>(source, slot);
        }
    }

    #[inline(never)]
    fn map<T: SampledVoxel>(&mut self, source: &RaySource, slot: usize) {
        let brick = &source.array.brick;
        let page = self.slots[slot].page;
        let plain = matches!(source.tint, Tint::Plain) && source.projection == Projection::Composite;
        let maps = &mut self.maps[source.number as usize];
        let made = maps.made;
        let of = brick.components;
        // SAFETY: the frame has all of its brick, which `look` has checked; frames are aligned for every type.
        let (map, full) = unsafe {
            let ranges = self.slots[slot].near[0].add(brick.ranges_at()).cast::<T>();
            let end = |block: *const T, n: usize| *block.add(n);
            let own = source.component * 2;
            if plain {
                maps.of::<T>(page, ranges, of, |b| source.seen(end(b, own), end(b, own + 1)))
            } else {
                maps.of::<T>(page, ranges, of, |b| {
                    source.shows(|c| [end(b, 2 * c).to_f64(), end(b, 2 * c + 1).to_f64()])
                })
            }
        };
        (self.slots[slot].map, self.slots[slot].full) = (map, full);
        self.counts.maps += maps.made - made;
    }

    /// The bricks of the single source, if there is room for any.
    #[inline(always)]
    pub(crate) fn bricks(&mut self) -> &mut Bricks {
        &mut self.bricks
    }

    /// Makes a brick of resident pages.
    #[inline(never)]
    pub(crate) fn make<T: SampledVoxel>(&mut self, source: &RaySource, brick: [i32; 3]) -> BrickState {
        self.counts.bricks += 1;
        let rest = |voxel| between::<T>(&self.worker, source, voxel);
        self.bricks.make(source, brick, pieces::<T>(&self.worker, source, self.touched.as_mut()), &rest)
    }

    /// Whether a box of bricks, from the first to the last, is known to be invisible by resident pages.
    #[inline(never)]
    pub(crate) fn dark<T: SampledVoxel>(&mut self, source: &RaySource, first: [i32; 3], last: [i32; 3]) -> bool {
        let mut page = pieces(&self.worker, source, self.touched.as_mut());
        self.bricks.dark(first, last, |bricks, brick| bricks.look::<T>(source, brick, &mut page))
    }

    /// The page next to a slot's in the directions of `corner`; `Ok(None)` if it is unreadable.
    #[inline]
    pub(crate) fn near(&mut self, source: &RaySource, slot: usize, corner: usize) -> Result<Option<*const u8>, PageId> {
        let p = self.slots[slot].near[corner];
        if !p.is_null() {
            return Ok(Some(p));
        }
        let page = source.array.translation.corner_page(self.slots[slot].page, 7, corner);
        let found = self.look(source, page)?;
        if let Some(p) = found {
            self.slots[slot].near[corner] = p;
        }
        Ok(found)
    }
}

/// The bounds of the numbers in the absent page of a voxel.
fn between<T: SampledVoxel>(worker: &Worker, source: &RaySource, voxel: [u32; 3]) -> [T; 2] {
    let page = core::array::from_fn(|a| voxel[a] / source.array.translation.page[a]);
    let known = range_of(worker, &source.array, source.step, page, source.component);
    match known.map(|[low, high]| (low > high, T::exact(low as f32), T::exact(high as f32))) {
        Some((true, ..)) => [T::HIGHEST, T::LOWEST],
        Some((_, Some(low), Some(high))) => [low, high],
        _ => [T::LOWEST, T::HIGHEST],
    }
}

/// The places of voxels in resident pages. These are recorded among `touched`: rays in bricks use no page otherwise.
fn pieces<'a, T: SampledVoxel>(
    worker: &'a Worker,
    source: &'a RaySource,
    touched: Option<&'a mut Vec<PageId>>,
) -> impl FnMut([u32; 3]) -> Option<FlatBlock<T>> + 'a {
    let mut touched = touched.filter(|_| !source.array.steady);
    move |voxel| {
        let place = source.array.translation.node(voxel);
        let id = PageId::new(source.array.id, source.step, place.page);
        let Lookup::Here(bytes) = worker.page(id) else { return None };
        if let Some(touched) = touched.as_mut().filter(|all| all.last() != Some(&id)) {
            touched.push(id);
        }
        piece(source, place, voxel, bytes)
    }
}

/// The place of a voxel in its page with these bytes, and the page's extent from there; `None` if the page has too few
/// bytes.
#[inline(always)]
pub(super) fn piece<T: SampledVoxel>(
    source: &RaySource,
    place: NodeAddress,
    voxel: [u32; 3],
    bytes: &[u8],
) -> Option<FlatBlock<T>> {
    let (page, brick) = (source.array.translation.page, &source.array.brick);
    if bytes.len() < brick.bytes() {
        return None;
    }
    let pair = 2 * brick.components;
    let [bi, bj, _] = brick.blocks();
    let blocks = [pair, pair * bi, pair * bi * bj];
    let at: [usize; 3] = core::array::from_fn(|a| (voxel[a] % page[a]) as usize);
    let left = core::array::from_fn(|a| page[a] as usize - at[a]);
    let block: usize = (0..3).map(|a| at[a] / BLOCK * blocks[a]).sum();
    // SAFETY: the element is one of the page's, and the block is; ranges follow the voxels.
    let (first, ranges) = unsafe {
        let first = bytes.as_ptr().cast::<T>().add(place.element * brick.components + source.component);
        (first, bytes.as_ptr().add(brick.ranges_at()).cast::<T>().add(block + 2 * source.component))
    };
    Some(FlatBlock { first, left, ranges, blocks })
}
