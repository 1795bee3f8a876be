//! The one connected part of an isosurface that is near a point.
//!
//! # Theory
//! A cell may hold several sheets of a surface that have no edge in common ([`Case::edges_of`]). The part grows from one of them: where it
//! leaves its cell through a face, the sheets of the neighbour that have the same edges are of it, too. What a cell needs is the signs
//! of its corners, so only pages are read that have a corner of a cell of the part (and those around the point, until it is
//! found). Afterwards the blocks that the part passes are drawn as always, with nothing but its cells and sheets.
//!
//! # Practice
//! [`Growing`] grows it within one zone and lists the edges through which it leaves that ([`Exit`]); [`super::across`] finds where it goes
//! on. Which cells are found does not depend on the order in which they are.

use super::grid::{meet, BlockSigns, Grid, Reads};
use crate::limits::{fetch_error, refused, too_large};
use crate::output::Charge as _;
use crate::share::LedgerShare;
use field::error::FieldError;
use kernels::surface::{cases, Cases, Origin, BLOCK_CELLS};
use pager::{PageError, PageId, Pager, Worker};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Cells from that of the point to where the surface is looked for.
const REACH: u32 = 8;
/// Bytes of a cell that is found, or waits, about.
const OF_CELL: usize = 24;
/// Bytes of an edge through which it leaves the zone, and of where it goes on, about.
const OF_EXIT: usize = 96;
/// Cells from where a part comes out of another zone to the surface, where the zones' nodes are not the same.
const JOINT_REACH: u32 = 1;
/// The same as a distance.
const JOINT_DISTANCE: f64 = 1.5;

/// An edge in an outermost face of a zone that the part crosses.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exit {
    /// Its lower node, and the axis along which it goes.
    pub node: [u32; 3],
    pub along: u8,
    /// The axis across the face, and at which end of it the face is.
    pub axis: u8,
    pub high: bool,
}

/// A point of the part in another zone.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct Joint {
    /// In the zone's computational space.
    pub place: [f64; 3],
    /// How far from the edge that it lies on, if it does.
    pub within: f64,
}

/// From where a part grows.
#[derive(Clone, Debug)]
pub(crate) enum Seeds {
    /// What is nearest to a place in the zone's computational space.
    Nearest([f64; 3]),
    /// What it has in common with parts in other zones.
    Joints(Vec<Joint>),
}

/// The cells of a part, by block.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// By row of cells of the block, `[k][j]`: in which cells there is a sheet of it.
    blocks: HashMap<[u32; 3], Vec<u64>>,
    /// Which sheets, where it is not the first alone: a bit each.
    sheets: HashMap<[u32; 3], u8>,
    /// Pages that cannot be had.
    pub failed: Vec<(PageId, PageError)>,
}

impl Part {
    /// Which cells of a block count, a word a row of `nodes`; `None`: it does not pass there.
    pub fn usable(&self, block: [u32; 3], nodes: [u32; 3]) -> Option<Vec<u64>> {
        let rows = self.blocks.get(&block)?;
        let (nj, nk) = ((nodes[1] - 1) as usize, (nodes[2] - 1) as usize);
        Some((0..nk).flat_map(|k| (0..nj).map(move |j| rows[k * BLOCK_CELLS as usize + j])).collect())
    }

    /// Whether it passes a block.
    pub fn passes(&self, block: [u32; 3]) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Tells of the cells in a block.
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

    /// Whether a triangle of a block is of it.
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

    fn bytes(&self) -> usize {
        let of_block = (BLOCK_CELLS * BLOCK_CELLS * 8) as usize + 64;
        self.blocks.len() * of_block + self.sheets.capacity() * 24
    }
}

/// Signs of the nodes of a page that lie in one block's range, two bits each.
struct Tile {
    first: [u32; 3],
    size: [u32; 3],
    /// Inside, then cannot be used.
    bits: [Vec<u64>; 2],
}

impl Tile {
    fn get(&self, node: [u32; 3]) -> [bool; 2] {
        let at: [usize; 3] = core::array::from_fn(|a| (node[a] - self.first[a]) as usize);
        let n = (at[2] * self.size[1] as usize + at[1]) * self.size[0] as usize + at[0];
        self.bits.each_ref().map(|b| b[n / 64] >> (n % 64) & 1 == 1)
    }
}

/// A page and the range of nodes of a block, within which a tile lies.
type TileKey = (u64, [u32; 3]);

/// Grows a part.
pub(crate) struct Growing<'a> {
    grid: &'a dyn Grid,
    reads: &'a Reads,
    value: usize,
    pager: &'a Arc<Pager>,
    worker: Worker,
    at_once: u64,
    tiles: HashMap<TileKey, Tile>,
    /// Bytes of the tiles.
    bytes: usize,
    share: LedgerShare,
    charged: usize,
    part: Part,
    exits: BTreeSet<Exit>,
}

/// What has grown.
pub(crate) struct Grown {
    /// All of the part in the zone.
    pub part: Part,
    /// Where it leaves the zone, as far as it has grown anew.
    pub exits: BTreeSet<Exit>,
    /// What it is charged with, beside what it was when it grew before.
    pub share: LedgerShare,
}

impl<'a> Growing<'a> {
    /// For one of the values of a grid, and what there is of the part, which is charged.
    pub fn new(
        grid: &'a dyn Grid,
        reads: &'a Reads,
        value: usize,
        pager: &'a Arc<Pager>,
        at_once: u64,
        part: Part,
    ) -> Self {
        let (worker, share) = (pager.worker(), LedgerShare::new(pager.clone()));
        let (tiles, exits, charged) = (HashMap::new(), BTreeSet::new(), part.bytes());
        Self { grid, reads, value, pager, worker, at_once, tiles, bytes: 0, share, charged, part, exits }
    }

    /// Grows from seeds. `told` gets how many cells were found; when it returns false the run stops.
    ///
    /// # Errors
    /// [`FieldError::Usage`] where no surface is near a place; [`FieldError::LimitTooSmall`]; [`FieldError::Interrupted`].
    pub fn grow(mut self, seeds: &Seeds, told: &mut dyn FnMut(u64) -> bool) -> Result<Grown, FieldError> {
        let mut ready: Vec<([u32; 3], u8)> = Vec::new();
        match seeds {
            Seeds::Nearest(place) => {
                let Some((_, cell, sheet)) = self.nearest(*place, REACH)? else {
                    return Err(FieldError::Usage(format!(
                        "the isosurface does not come within {REACH} cells of the point; choose a point on it"
                    )));
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
        let mut found = 0u64;
        // What waits for pages, by the first that it lacks.
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
            self.charge((waiting + ready.capacity()) * OF_CELL)?;
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
        // Tiles go: what is left is the part.
        self.tiles = HashMap::new();
        self.bytes = 0;
        self.charge(0)?;
        Ok(Grown { part: self.part, exits: self.exits, share: self.share })
    }

    /// Charges what is held now, with `more` beside it.
    fn charge(&mut self, more: usize) -> Result<(), FieldError> {
        let bytes = self.bytes + self.part.bytes() + self.exits.len() * OF_EXIT + more;
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

    /// Corners of a cell that are inside; nothing drawn where one cannot be used. What is lacking otherwise.
    fn corners(&self, cell: [u32; 3]) -> Result<Option<usize>, TileKey> {
        let (mut inside, mut usable) = (0, true);
        for c in 0..8usize {
            let node = core::array::from_fn(|a| cell[a] + (c >> a & 1) as u32);
            let key = self.key(node);
            let [is_in, bad] = self.tiles.get(&key).ok_or(key)?.get(node);
            inside |= usize::from(is_in) << c;
            usable &= !bad;
        }
        Ok(usable.then_some(inside))
    }

    /// Adds the neighbours of a sheet; says what is lacking before anything was added.
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
                // The edges of the sheet in this face, as the cell beyond it calls them.
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

    /// The sheets that have a point in common with another zone's.
    fn joined(&mut self, joint: &Joint) -> Result<Vec<([u32; 3], u8)>, FieldError> {
        let (dims, place) = (self.grid.dims(), joint.place);
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
                // The cells around the edge, as far as they are of the zone.
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
            let near = self.nearest(place, JOINT_REACH)?.filter(|(d, ..)| *d <= JOINT_DISTANCE * JOINT_DISTANCE);
            found.extend(near.map(|(_, cell, sheet)| (cell, sheet)));
        }
        Ok(found)
    }

    /// The crossed cell nearest to a place within some cells, its sheet there, and the square of how far it is.
    fn nearest(&mut self, place: [f64; 3], most: u32) -> Result<Option<(f64, [u32; 3], u8)>, FieldError> {
        let cells = self.grid.dims().map(|n| n - 1);
        let middle: [u32; 3] = core::array::from_fn(|a| (place[a].floor().max(0.0) as u32).min(cells[a] - 1));
        let mut best: Option<(f64, [u32; 3], u8)> = None;
        for reach in 0..=most {
            // What lies farther out is no nearer.
            if best.is_some_and(|(d, ..)| d < f64::from(reach - 1).powi(2)) {
                break;
            }
            let lo = middle.map(|n| n.saturating_sub(reach));
            let hi: [u32; 3] = core::array::from_fn(|a| (middle[a] + reach + 1).min(cells[a]));
            for k in lo[2]..hi[2] {
                for j in lo[1]..hi[1] {
                    for i in lo[0]..hi[0] {
                        let cell = [i, j, k];
                        if (0..3).all(|a| cell[a].abs_diff(middle[a]) < reach) {
                            continue;
                        }
                        for (distance, sheet) in self.sheets(cell, place)? {
                            if best.is_none_or(|(d, ..)| distance < d) {
                                best = Some((distance, cell, sheet));
                            }
                        }
                    }
                }
            }
        }
        Ok(best)
    }

    /// As [`Self::corners`], with what is lacking read.
    fn loaded_corners(&mut self, cell: [u32; 3]) -> Result<Option<usize>, FieldError> {
        loop {
            match self.corners(cell) {
                Ok(corners) => return Ok(corners),
                Err(lacking) => self.load(&[lacking])?,
            }
        }
    }

    /// The sheets of a cell, and squares of how far each is from a place, by the middles of its edges.
    fn sheets(&mut self, cell: [u32; 3], place: [f64; 3]) -> Result<Vec<(f64, u8)>, FieldError> {
        let Some(corners) = self.loaded_corners(cell)? else { return Ok(Vec::new()) };
        let case = &Cases::get().of[corners];
        let distance = |e: usize| {
            let [p, q] = cases::ends(e);
            let middle = |a: usize| f64::from(cell[a]) + ((p >> a & 1) + (q >> a & 1)) as f64 / 2.0;
            (0..3).map(|a| (middle(a) - place[a]).powi(2)).sum::<f64>()
        };
        let of = |s: u8| {
            let edges = (0..12).filter(|e| case.edges_of[usize::from(s)] >> e & 1 == 1);
            (edges.map(distance).fold(f64::INFINITY, f64::min), s)
        };
        Ok((0..case.sheets).map(of).collect())
    }

    /// Takes the signs of tiles.
    fn load(&mut self, keys: &[TileKey]) -> Result<(), FieldError> {
        let pages: BTreeSet<u64> = keys.iter().map(|k| k.0).collect();
        let ids: Vec<PageId> = pages.iter().flat_map(|p| self.reads.ids(*p)).collect();
        self.worker.release();
        let bytes = self.reads.bytes * pages.len() as u64;
        let short = |e| fetch_error(self.pager, e, bytes, self.reads.making);
        let _hold = match self.pager.fetch(&ids) {
            Ok(hold) => Some(hold),
            // Which it is shows one by one.
            Err(pager::PagerError::Page(_)) => None,
            Err(e) => return Err(short(e)),
        };
        for key in keys.iter().copied().collect::<HashSet<_>>() {
            self.load_one(key)?;
        }
        self.worker.release();
        self.charge(0)
    }

    fn load_one(&mut self, (page, block): TileKey) -> Result<(), FieldError> {
        let lo = block.map(|b| b * BLOCK_CELLS);
        let Some([first, end]) = meet(self.reads.nodes(page), [lo, lo.map(|n| n + BLOCK_CELLS)]) else { return Ok(()) };
        let size: [u32; 3] = core::array::from_fn(|a| end[a] - first[a]);
        let mut signs = BlockSigns::new(first, size, self.grid.values(), self.grid.is_plane());
        let mut failed = None;
        let (mut pages, mut holds) = (Vec::new(), Vec::new());
        for id in self.reads.ids(page) {
            match self.pager.fetch(&[id]) {
                Ok(hold) => holds.push(hold),
                Err(pager::PagerError::Page(e)) => match too_large(self.pager, &e) {
                    Some(e) => return Err(e),
                    None => failed = Some((id, e)),
                },
                Err(e) => return Err(fetch_error(self.pager, e, self.reads.bytes, self.reads.making)),
            }
        }
        if failed.is_none() {
            for id in self.reads.ids(page) {
                match self.worker.page(id) {
                    pager::Lookup::Here(bytes) => pages.push(bytes),
                    pager::Lookup::Failed(e) => failed = Some((id, e)),
                    // Held: it cannot have gone.
                    pager::Lookup::Absent => return Err(FieldError::Usage("a held page is absent".into())),
                }
            }
        }
        match failed {
            None => self.grid.signs(&pages, page, [first, end], &mut signs),
            Some(failed) => {
                signs.add_bad_box([first, end]);
                if !self.part.failed.iter().any(|(id, _)| *id == failed.0) {
                    self.part.failed.push(failed);
                }
            }
        }
        let nodes = size.iter().map(|n| *n as usize).product::<usize>();
        let mut bits = [(); 2].map(|()| vec![0u64; nodes.div_ceil(64)]);
        let mut n = 0;
        for k in 0..size[2] as usize {
            for j in 0..size[1] as usize {
                for i in 0..size[0] as usize {
                    let of =
                        [signs.inside[self.value].get([i, j, k]), signs.bad.as_ref().is_some_and(|b| b.get([i, j, k]))];
                    bits.iter_mut().zip(of).for_each(|(b, of)| b[n / 64] |= u64::from(of) << (n % 64));
                    n += 1;
                }
            }
        }
        self.bytes += size_of::<(TileKey, Tile)>() + 2 * bits[0].len() * 8;
        self.tiles.insert((page, block), Tile { first, size, bits });
        Ok(())
    }
}
