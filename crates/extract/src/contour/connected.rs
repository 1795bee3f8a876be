//! One connected part of an isosurface near a point.
//!
//! # Theory
//! A cell may hold several sheets of a surface without a common edge (`Case::edges_of`). The part grows from one of
//! them. If a sheet leaves its cell through a face, the neighbour's sheets with the same edges belong to the part, too.
//! A cell needs the signs of its corners only. So only pages with a corner of a cell of the part are read, and those
//! around the point until it is found. Afterwards the blocks that the part passes are drawn as always, with its cells
//! and sheets only.
//!
//! # Practice
//! [`PartGrowth`] starts with the sheet nearest to a point ([`nearest`]) and grows it within one zone. It lists the edges
//! through which the part leaves the zone ([`Exit`]). [`super::abutting`] finds the continuations. The cells found do not
//! depend on the order of the search.

mod nearest;

use super::grid::{meet, BlockSigns, Grid, Reads};
use field::error::FieldError;
use kernels::surface::{cases, Cases, Origin, BLOCK_CELLS};
use nearest::{NearestSheet, NodeCache};
use output::MemoryAccount as _;
use pager::{Hold, PageError, PageId, Pager, Worker};
use runtime::ledger_share::LedgerShare;
use runtime::limits::{fetch_error, refused, too_large};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Cells from the point's cell within which the surface is searched.
const REACH: u32 = 8;
/// Approximate bytes of a found or waiting cell.
const OF_CELL: usize = 24;
/// Approximate bytes of an edge out of the zone, and of its continuation.
const OF_EXIT: usize = 96;
/// Cells from the entry of a part out of another zone to the surface, if the zones have different nodes.
const JOINT_REACH: u32 = 1;
/// The same as a distance in the zone's computational space.
const JOINT_DISTANCE: f64 = 1.5;

/// An edge in an outermost face of a zone that the part crosses.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exit {
    /// Its lower node, and its axis.
    pub node: [u32; 3],
    pub along: u8,
    /// The axis across the face, and the end of that axis.
    pub axis: u8,
    pub high: bool,
}

/// The place of a point.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct ZonePoint {
    /// In the zone's computational space.
    pub index: [f64; 3],
    /// In space.
    pub x: [f64; 3],
}

/// A point of the part in another zone.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct Joint {
    pub at: ZonePoint,
    /// Distance from its edge, if it is on one.
    pub within: f64,
}

/// The seeds of a part.
#[derive(Clone, Debug)]
pub(crate) enum Seeds {
    /// The nearest sheet to a place.
    Nearest(ZonePoint),
    /// Points shared with parts in other zones.
    Joints(Vec<Joint>),
}

/// The cells of a part, by block.
#[derive(Debug, Default)]
pub(crate) struct ConnectedRegion {
    /// The cells with a sheet of the part, by row of cells of the block, `[k][j]`.
    blocks: HashMap<[u32; 3], Vec<u64>>,
    /// The sheets, if not only the first: a bit each.
    sheets: HashMap<[u32; 3], u8>,
    /// Unreadable pages.
    pub failed: Vec<(PageId, PageError)>,
}

impl ConnectedRegion {
    /// The cells of a block that belong to the part, a word a row of `nodes`; `None`: it does not pass there.
    pub fn usable(&self, block: [u32; 3], nodes: [u32; 3]) -> Option<Vec<u64>> {
        let rows = self.blocks.get(&block)?;
        let (nj, nk) = ((nodes[1] - 1) as usize, (nodes[2] - 1) as usize);
        Some((0..nk).flat_map(|k| (0..nj).map(move |j| rows[k * BLOCK_CELLS as usize + j])).collect())
    }

    /// Whether it passes a block.
    pub fn passes(&self, block: [u32; 3]) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Passes the cells in a block to `each`.
    pub fn cells(&self, block: [u32; 3], mut each: impl FnMut([u32; 3])) {
        for (n, row) in self.blocks.get(&block).map_or(&[][..], |r| &r[..]).iter().enumerate() {
            let (j, k) = (n as u32 % BLOCK_CELLS, n as u32 / BLOCK_CELLS);
            let mut bits = *row;
            while bits != 0 {
                let at = [bits.trailing_zeros(), j, k];
                each(core::array::from_fn(|a| block[a] * BLOCK_CELLS + at[a]));
                bits &= bits - 1;
            }
        }
    }

    /// Whether a triangle of a block belongs to it.
    pub fn has(&self, origin: [u32; 3], of: Origin) -> bool {
        let cell = core::array::from_fn(|a| origin[a] + u32::from(of.cell[a]));
        self.sheets.get(&cell).copied().unwrap_or(1) >> of.sheet & 1 == 1
    }

    /// Adds a sheet of a cell; false if it was there.
    fn add(&mut self, cell: [u32; 3], sheet: u8) -> bool {
        let block = cell.map(|n| n / BLOCK_CELLS);
        let rows = self.blocks.entry(block).or_insert_with(|| vec![0; (BLOCK_CELLS * BLOCK_CELLS) as usize]);
        let at = cell.map(|n| n % BLOCK_CELLS);
        let row = &mut rows[(at[2] * BLOCK_CELLS + at[1]) as usize];
        let bit = 1u64 << at[0];
        let before = if *row & bit == 0 { 0 } else { self.sheets.get(&cell).copied().unwrap_or(1) };
        *row |= bit;
        let now = before | 1 << sheet;
        if now != 1 {
            self.sheets.insert(cell, now);
        }
        now != before
    }

    /// Records an unreadable page.
    fn fail(&mut self, failed: (PageId, PageError)) {
        if !self.failed.iter().any(|(id, _)| *id == failed.0) {
            self.failed.push(failed);
        }
    }

    /// Whether a sheet of a cell belongs to it.
    fn has_cell(&self, cell: [u32; 3]) -> bool {
        let at = cell.map(|n| n % BLOCK_CELLS);
        let rows = self.blocks.get(&cell.map(|n| n / BLOCK_CELLS));
        rows.is_some_and(|rows| rows[(at[2] * BLOCK_CELLS + at[1]) as usize] >> at[0] & 1 == 1)
    }

    fn bytes(&self) -> usize {
        let of_block = (BLOCK_CELLS * BLOCK_CELLS * 8) as usize + 64;
        self.blocks.len() * of_block + self.sheets.capacity() * 24
    }
}

/// Signs of the nodes of a page within one block's range, as bits.
struct Tile {
    first: [u32; 3],
    size: [u32; 3],
    /// Inside, then unusable, then the low corner of a blanked-out cell.
    bits: [Vec<u64>; 3],
}

impl Tile {
    fn get(&self, node: [u32; 3]) -> [bool; 3] {
        let at: [usize; 3] = core::array::from_fn(|a| (node[a] - self.first[a]) as usize);
        let n = (at[2] * self.size[1] as usize + at[1]) * self.size[0] as usize + at[0];
        self.bits.each_ref().map(|b| b[n / 64] >> (n % 64) & 1 == 1)
    }
}

/// A page and the range of nodes of a block that contains a tile.
type TileKey = (u64, [u32; 3]);

/// Grows a part.
pub(crate) struct PartGrowth<'a> {
    grid: &'a dyn Grid,
    reads: &'a Reads,
    value: usize,
    pager: &'a Arc<Pager>,
    worker: Worker,
    at_once: u64,
    tiles: HashMap<TileKey, Tile>,
    /// Bytes of the tiles, and of waiting cells.
    bytes: usize,
    queued: usize,
    /// Known nodes near a point.
    known: NodeCache,
    share: LedgerShare,
    charged: usize,
    part: ConnectedRegion,
    exits: BTreeSet<Exit>,
}

/// The result of growth.
pub(crate) struct Grown {
    /// The whole part in the zone.
    pub part: ConnectedRegion,
    /// Edges out of the zone, from this growth.
    pub exits: BTreeSet<Exit>,
    /// Its charge, beside that of earlier growth.
    pub share: LedgerShare,
}

impl<'a> PartGrowth<'a> {
    /// For one of the values of a grid, and the charged present state of the part.
    pub fn new(
        grid: &'a dyn Grid,
        reads: &'a Reads,
        value: usize,
        pager: &'a Arc<Pager>,
        at_once: u64,
        part: ConnectedRegion,
    ) -> Self {
        let (worker, share) = (pager.worker(), LedgerShare::new(pager.clone()));
        let (tiles, exits, charged) = (HashMap::new(), BTreeSet::new(), part.bytes());
        let (bytes, queued, known) = (0, 0, NodeCache::default());
        Self { grid, reads, value, pager, worker, at_once, tiles, bytes, queued, known, share, charged, part, exits }
    }

    /// Grows from seeds. `told` gets the number of found cells; when it returns false the run stops.
    ///
    /// # Errors
    /// [`FieldError::Usage`] if no surface is near a place. [`FieldError::Page`] if the readable data near it have
    /// none. [`FieldError::LimitTooSmall`]; [`FieldError::Interrupted`].
    pub fn grow(mut self, seeds: &Seeds, told: &mut dyn FnMut(u64) -> bool) -> Result<Grown, FieldError> {
        let mut ready: Vec<([u32; 3], u8)> = Vec::new();
        match seeds {
            Seeds::Nearest(place) => {
                let Some(NearestSheet { cell, sheet, .. }) = self.nearest(place, REACH, true, told)? else {
                    // It may be in unreadable pages.
                    return Err(self.part.failed.first().map_or_else(
                        || {
                            FieldError::Usage(format!(
                                "the isosurface does not come within {REACH} cells of the point; choose a point on it"
                            ))
                        },
                        |(_, e)| e.clone().into(),
                    ));
                };
                self.part.add(cell, sheet);
                ready.push((cell, sheet));
            }
            Seeds::Joints(joints) => {
                for joint in joints {
                    for (cell, sheet) in self.joined(joint)? {
                        if self.part.add(cell, sheet) {
                            ready.push((cell, sheet));
                        }
                    }
                }
            }
        }
        self.known = NodeCache::default();
        let mut found = 0u64;
        // Cells that wait for pages, by the first missing one.
        let mut blocked: HashMap<TileKey, Vec<([u32; 3], u8)>> = HashMap::new();
        let mut waiting = 0;
        loop {
            while let Some((cell, sheet)) = ready.pop() {
                match self.spread(cell, sheet, &mut ready) {
                    None => found += 1,
                    Some(lacking) => {
                        blocked.entry(lacking).or_default().push((cell, sheet));
                        waiting += 1;
                    }
                }
            }
            if !told(found) {
                return Err(FieldError::Interrupted);
            }
            self.queued = (waiting + ready.capacity()) * OF_CELL;
            self.charge()?;
            if blocked.is_empty() {
                break;
            }
            let most = (self.at_once / self.reads.bytes.max(1)).max(1) as usize;
            let mut keys: Vec<TileKey> = blocked.keys().copied().collect();
            keys.sort_unstable();
            keys.truncate(most);
            self.load(&keys)?;
            for key in keys {
                let of = blocked.remove(&key).unwrap_or_default();
                waiting -= of.len();
                ready.extend(of);
            }
        }
        // Tiles are dropped; the part stays.
        self.tiles = HashMap::new();
        (self.bytes, self.queued) = (0, 0);
        self.charge()?;
        Ok(Grown { part: self.part, exits: self.exits, share: self.share })
    }

    /// Charges the present bytes.
    fn charge(&mut self) -> Result<(), FieldError> {
        let own = self.bytes + self.queued + self.known.bytes;
        let bytes = own + self.part.bytes() + self.exits.len() * OF_EXIT;
        if bytes > self.charged {
            let more = bytes - self.charged;
            if !self.share.try_charge(more) {
                let needs = more as u64;
                let what = "the cells of a local isosurface".into();
                return Err(refused(self.pager, FieldError::LimitTooSmall { limit: 0, needs, what }));
            }
        } else {
            self.share.release(self.charged - bytes);
        }
        self.charged = bytes;
        Ok(())
    }

    fn key(&self, node: [u32; 3]) -> TileKey {
        (self.reads.translation.node(node).page, node.map(|n| n / BLOCK_CELLS))
    }

    /// The inner corners of a cell; none if a corner is unusable. `Err`: a missing tile.
    fn corners(&self, cell: [u32; 3]) -> Result<Option<usize>, TileKey> {
        let (mut inside, mut usable) = (0, true);
        for c in 0..8usize {
            let node = core::array::from_fn(|a| cell[a] + (c >> a & 1) as u32);
            let key = self.key(node);
            let [is_in, bad, hidden] = self.tiles.get(&key).ok_or(key)?.get(node);
            inside |= usize::from(is_in) << c;
            let begins_hidden = c == 0 && hidden;
            usable &= !(bad || begins_hidden);
        }
        Ok(usable.then_some(inside))
    }

    /// Adds the neighbours of a sheet. Returns a missing tile before any is added.
    fn spread(&mut self, cell: [u32; 3], sheet: u8, ready: &mut Vec<([u32; 3], u8)>) -> Option<TileKey> {
        let dims = self.grid.dims();
        let cases = Cases::get();
        let corners = match self.corners(cell) {
            Ok(Some(c)) => c,
            Ok(None) => return None,
            Err(lacking) => return Some(lacking),
        };
        let edges = cases.of[corners].edges_of[usize::from(sheet)];
        let mut next: Vec<([u32; 3], u8)> = Vec::new();
        for axis in 0..3 {
            for high in [false, true] {
                let in_face =
                    |e: &usize| edges >> e & 1 == 1 && cases::ends(*e).iter().all(|c| (c >> axis & 1 == 1) == high);
                let mut other = cell;
                other[axis] = if high { cell[axis] + 1 } else { cell[axis].wrapping_sub(1) };
                if other[axis] >= dims[axis] - 1 {
                    for e in (0..12).filter(in_face) {
                        let node = core::array::from_fn(|a| cell[a] + (cases::ends(e)[0] >> a & 1) as u32);
                        self.exits.insert(Exit { node, along: (e / 4) as u8, axis: axis as u8, high });
                    }
                    continue;
                }
                // The edges of the sheet in this face, in the numbering of the cell beyond it.
                let beyond = (0..12).filter(in_face).fold(0u16, |bits, e| {
                    let ends = cases::ends(e).map(|c| c ^ 1 << axis);
                    bits | 1 << cases::between(ends[0], ends[1])
                });
                if beyond == 0 {
                    continue;
                }
                let corners = match self.corners(other) {
                    Ok(Some(c)) => c,
                    Ok(None) => continue,
                    Err(lacking) => return Some(lacking),
                };
                let case = &cases.of[corners];
                let of = (0..case.sheets).filter(|s| case.edges_of[usize::from(*s)] & beyond != 0);
                next.extend(of.map(|s| (other, s)));
            }
        }
        for (cell, sheet) in next {
            if self.part.add(cell, sheet) {
                ready.push((cell, sheet));
            }
        }
        None
    }

    /// The sheets with a point in common with another zone's.
    fn joined(&mut self, joint: &Joint) -> Result<Vec<([u32; 3], u8)>, FieldError> {
        let (dims, place) = (self.grid.dims(), joint.at.index);
        let mut found = Vec::new();
        for along in 0..3 {
            let others = [(along + 1) % 3, (along + 2) % 3];
            if others.iter().any(|a| (place[*a] - place[*a].round()).abs() > joint.within) {
                continue;
            }
            // Near a node the edges on both sides of it.
            let ends = [place[along] - joint.within, place[along] + joint.within].map(f64::floor);
            for low in if ends[0] == ends[1] { &ends[..1] } else { &ends[..] } {
                let mut edge = place.map(f64::round);
                edge[along] = *low;
                if (0..3).any(|a| edge[a] < 0.0 || edge[a] > f64::from(dims[a] - 1))
                    || *low > f64::from(dims[along] - 2)
                {
                    continue;
                }
                let edge = edge.map(|n| n as u32);
                // The cells around the edge inside the zone.
                for sides in 0..4usize {
                    let mut cell = edge;
                    let mut corner = 0;
                    for (n, a) in others.into_iter().enumerate() {
                        let side = (sides >> n & 1) as u32;
                        cell[a] = cell[a].wrapping_sub(side);
                        corner |= (side as usize) << a;
                    }
                    if others.iter().any(|a| cell[*a] > dims[*a] - 2) {
                        continue;
                    }
                    let Some(corners) = self.loaded_corners(cell)? else { continue };
                    let (case, edge) = (&Cases::get().of[corners], cases::between(corner, corner | 1 << along));
                    let of = (0..case.sheets).filter(|s| case.edges_of[usize::from(*s)] >> edge & 1 == 1);
                    found.extend(of.map(|s| (cell, s)));
                }
            }
        }
        if found.is_empty() {
            let near = self.nearest(&joint.at, JOINT_REACH, false, &mut |_| true)?;
            let near = near.filter(|f| f.cells_apart <= JOINT_DISTANCE * JOINT_DISTANCE);
            found.extend(near.map(|f| (f.cell, f.sheet)));
        }
        Ok(found)
    }

    /// As [`Self::corners`], with missing tiles loaded.
    fn loaded_corners(&mut self, cell: [u32; 3]) -> Result<Option<usize>, FieldError> {
        loop {
            match self.corners(cell) {
                Ok(corners) => return Ok(corners),
                Err(lacking) => self.load(&[lacking])?,
            }
        }
    }

    /// Loads the signs of tiles.
    fn load(&mut self, keys: &[TileKey]) -> Result<(), FieldError> {
        let pages: BTreeSet<u64> = keys.iter().map(|k| k.0).collect();
        let ids: Vec<PageId> = pages.iter().flat_map(|p| self.reads.ids(*p)).collect();
        self.worker.release();
        let bytes = self.reads.bytes * pages.len() as u64;
        let short = |e| fetch_error(self.pager, e, bytes, self.reads.making);
        let _hold = match self.pager.fetch(&ids) {
            Ok(hold) => Some(hold),
            // Single lookups show which one.
            Err(pager::PagerError::Page(_)) => None,
            Err(e) => return Err(short(e)),
        };
        for key in keys {
            self.load_one(*key)?;
        }
        self.worker.release();
        self.charge()
    }

    fn load_one(&mut self, (page, block): TileKey) -> Result<(), FieldError> {
        let lo = block.map(|b| b * BLOCK_CELLS);
        let Some([first, end]) = meet(self.reads.nodes(page), [lo, lo.map(|n| n + BLOCK_CELLS)]) else { return Ok(()) };
        let size: [u32; 3] = core::array::from_fn(|a| end[a] - first[a]);
        let mut signs = BlockSigns::new(first, size, self.grid.values(), self.grid.is_plane());
        match held(self.pager, &self.worker, self.reads, page)? {
            Ok((pages, _holds)) => self.grid.signs(&pages, page, [first, end], &mut signs),
            Err(failed) => {
                signs.add_bad_box([first, end]);
                self.part.fail(failed);
            }
        }
        let nodes = size.iter().map(|n| *n as usize).product::<usize>();
        let mut bits = [(); 3].map(|()| vec![0u64; nodes.div_ceil(64)]);
        let mut n = 0;
        for k in 0..size[2] as usize {
            for j in 0..size[1] as usize {
                for i in 0..size[0] as usize {
                    let marked = |of: &Option<kernels::surface::Signs>| of.as_ref().is_some_and(|b| b.get([i, j, k]));
                    let of = [signs.inside[self.value].get([i, j, k]), marked(&signs.bad), marked(&signs.hidden)];
                    bits.iter_mut().zip(of).for_each(|(b, of)| b[n / 64] |= u64::from(of) << (n % 64));
                    n += 1;
                }
            }
        }
        self.bytes += size_of::<(TileKey, Tile)>() + 3 * bits[0].len() * 8;
        self.tiles.insert((page, block), Tile { first, size, bits });
        Ok(())
    }
}

/// A page of each array with their holds, or the unreadable one.
type PinnedPages<'w> = Result<(Vec<&'w [u8]>, Vec<Hold>), (PageId, PageError)>;

fn held<'w>(pager: &Arc<Pager>, worker: &'w Worker, reads: &Reads, page: u64) -> Result<PinnedPages<'w>, FieldError> {
    let (mut pages, mut holds) = (Vec::new(), Vec::new());
    let mut failed = None;
    for id in reads.ids(page) {
        match pager.fetch(&[id]) {
            Ok(hold) => holds.push(hold),
            Err(pager::PagerError::Page(e)) => match too_large(pager, &e) {
                Some(e) => return Err(e),
                None => failed = failed.or(Some((id, e))),
            },
            Err(e) => return Err(fetch_error(pager, e, reads.bytes, reads.making)),
        }
    }
    if let Some(failed) = failed {
        return Ok(Err(failed));
    }
    for id in reads.ids(page) {
        match worker.page(id) {
            pager::Lookup::Here(bytes) => pages.push(bytes),
            pager::Lookup::Failed(e) => return Ok(Err((id, e))),
            // Held, so it is resident.
            pager::Lookup::Absent => return Err(FieldError::Internal("a held page is absent")),
        }
    }
    Ok(Ok((pages, holds)))
}
