//! Blocks as the executor's tasks.
//!
//! A task has these stages:
//!
//! 1. The cells that may be crossed.
//! 2. The signs of their nodes, page by page.
//! 3. Vertices and triangles without positions.
//! 4. The values of the nodes at their edges, page by page again.
//! 5. Positions, normals and fields.
//!
//! A step stores the resident pages' part. So it needs only the pages of one place at a time, and never needs one
//! again. All nodes of an unreadable page count as blanked out. The memory of the next step is known and charged before
//! it. A block of noise has a million triangles: charged afterwards, they would exceed the limit.

use super::connected::ConnectedRegion;
use super::grid::{meet, BlockSigns, Candidates, Grid, IndexBox, Looked, Reads};
use super::sink::{handing_bytes, handing_bytes_of, BlockSurface, PieceSink, Results};
use field::error::FieldError;
use field::locator::LANES;
use kernels::streamline::StepProgress;
use kernels::surface::{block_nodes, blocks, BlockMesh, Edge, MarchBlock, Marcher, Needed, Normals, Signs, Vertices};
use pager::{PageError, PageErrorKind, PageId, Pager, Worker};
use runtime::executor::{Budgeted, Outcome, Windowed, Work};
use runtime::limits::too_large;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The common data of all blocks.
pub(crate) struct Contouring<'a, 's> {
    pub(crate) pager: &'a Arc<Pager>,
    pub(crate) grids: &'a [Box<dyn Grid + 's>],
    /// Number of the first block of each grid, and of all.
    pub(crate) firsts: &'a [u64],
    /// Bytes of pages that a step requests or uses together.
    pub(crate) at_once: u64,
    /// Most active tasks.
    pub(crate) active: &'a (dyn Fn(u64) -> usize + Sync),
    /// Parts of surfaces to be drawn: in one grid, one for each value.
    pub(crate) parts: Option<&'a [Vec<ConnectedRegion>]>,
    pub(crate) sink: &'a Mutex<PieceSink<'s>>,
    /// Most bytes of a block from its shape to its hand-over, over the shapes so far.
    pub(crate) largest: &'a AtomicUsize,
}

/// The context of a thread that steps blocks. The signs and the needed nodes of a finished block are reused for the
/// next one. Allocated each time, with pages cleared by the system, they took an eighth of all time.
pub(crate) struct Context {
    worker: Worker,
    marcher: Marcher,
    signs: Vec<BlockSigns>,
    needed: Vec<Needed>,
}

/// Kept of each kind.
const SPARE: usize = 2;

impl Context {
    /// Signs of a block, unset.
    fn signs(&mut self, origin: [u32; 3], nodes: [u32; 3], grid: &dyn Grid) -> Box<BlockSigns> {
        let (values, plane) = (grid.values(), grid.is_plane());
        match self.signs.pop().filter(|s| s.inside.len() == values && s.hits.is_some() == plane) {
            Some(mut signs) => {
                signs.clear(origin, nodes);
                Box::new(signs)
            }
            None => Box::new(BlockSigns::new(origin, nodes, values, plane)),
        }
    }

    /// A box of nodes without needed ones.
    fn needed(&mut self, lo: [u32; 3], size: [u32; 3]) -> Needed {
        let mut needed = self.needed.pop().unwrap_or_default();
        needed.clear(lo, size);
        needed
    }

    fn keep_signs(&mut self, signs: BlockSigns) {
        if self.signs.len() < SPARE {
            self.signs.push(signs);
        }
    }

    fn keep_needed(&mut self, needed: Needed) {
        if self.needed.len() < SPARE {
            self.needed.push(needed);
        }
    }
}

enum BlockStage {
    Fresh,
    /// Reading signs from pages; those before `next` are done.
    Signs {
        pages: Vec<u64>,
        next: usize,
        signs: Box<BlockSigns>,
        candidates: Candidates,
    },
    /// Vertices and triangles are next.
    Shape {
        signs: Box<BlockSigns>,
        candidates: Candidates,
        /// Most vertices and triangles of each value.
        at_most: Vec<[usize; 2]>,
    },
    /// Values are next.
    Values {
        units: Vec<(u32, u64)>,
        next: usize,
        signs: Box<BlockSigns>,
        candidates: Candidates,
        meshes: Vec<BlockMesh>,
        needed: Needed,
        values: Vec<f64>,
    },
    Made(Vec<BlockSurface>),
}

pub(crate) struct BlockTask {
    number: u64,
    grid: usize,
    block: [u32; 3],
    origin: [u32; 3],
    nodes: [u32; 3],
    stage: BlockStage,
    failed: Vec<(PageId, PageError)>,
}

/// The result of a step.
enum Stepped {
    Done,
    Again,
    /// Pages are missing.
    Need,
}

impl BlockTask {
    fn bytes(&self, grid: &dyn Grid) -> usize {
        let of_signs = BlockSigns::bytes(self.nodes, grid.values());
        let of_stage = match &self.stage {
            BlockStage::Fresh => 0,
            BlockStage::Signs { pages, .. } => pages.capacity() * 8,
            BlockStage::Shape { at_most, .. } => {
                let of = |[edges, triangles]: &[usize; 2]| {
                    edges * (size_of::<Edge>() + vertex_bytes(grid)) + triangles * size_of::<[u32; 3]>()
                };
                at_most.iter().map(of).sum::<usize>() + Needed::bytes(self.nodes.map(|n| n + 2))
            }
            BlockStage::Values { units, meshes, needed, .. } => {
                let [lo, hi] = needed.bounds();
                let vertices = meshes.iter().map(|m| m.edges.len() * vertex_bytes(grid));
                units.capacity() * 16
                    + meshes.iter().map(BlockMesh::bytes).sum::<usize>()
                    + Needed::bytes(core::array::from_fn(|a| hi[a] - lo[a]))
                    + needed.count() * grid.columns() * 8
                    + vertices.sum::<usize>()
            }
            BlockStage::Made(made) => made.iter().map(BlockSurface::bytes).sum(),
        };
        size_of::<Self>() + of_signs + of_stage
    }

    fn all_nodes(&self) -> IndexBox {
        [self.origin, core::array::from_fn(|a| self.origin[a] + self.nodes[a])]
    }

    fn fail(&mut self, id: PageId, e: PageError) {
        if !self.failed.iter().any(|(other, _)| *other == id) {
            self.failed.push((id, e));
        }
    }

    /// One restartable step.
    fn step(
        &mut self,
        grid: &dyn Grid,
        c: &mut Context,
        (at_once, parts): (u64, &[ConnectedRegion]),
        missing: &mut Vec<PageId>,
    ) -> Result<Stepped, PageError> {
        match core::mem::replace(&mut self.stage, BlockStage::Fresh) {
            BlockStage::Fresh => {
                let [lo, hi] = self.all_nodes();
                let cells = [lo, hi.map(|n| n - 1)];
                let candidates = match parts {
                    [] => grid.candidates(&c.worker, cells, missing),
                    // The cells of a part are known.
                    parts if parts.iter().all(|p| !p.passes(self.block)) => Some(Candidates::In(Vec::new())),
                    _ => Some(Candidates::All),
                };
                let Some(candidates) = candidates else { return Ok(Stepped::Need) };
                if candidates == Candidates::In(Vec::new()) {
                    self.stage = BlockStage::Made(Vec::new());
                    return Ok(Stepped::Done);
                }
                let signs = c.signs(self.origin, self.nodes, grid);
                let mut pages = Vec::new();
                if let Some(reads) = grid.sign_reads() {
                    if parts.is_empty() {
                        each_corner_box(&candidates, self.all_nodes(), |nodes| reads.pages_of(nodes, &mut pages));
                    }
                    for part in parts {
                        part.cells(self.block, |cell| {
                            reads.translation.pages_of_cell(cell, |page| {
                                // Consecutive cells mostly have the same.
                                if pages.last() != Some(&page) {
                                    pages.push(page);
                                }
                            })
                        });
                    }
                    pages.sort_unstable();
                    pages.dedup();
                }
                self.stage = BlockStage::Signs { pages, next: 0, signs, candidates };
                Ok(Stepped::Again)
            }
            BlockStage::Signs { pages, mut next, mut signs, candidates } => {
                let begun = next;
                if let Some(reads) = grid.sign_reads() {
                    let mut used = 0;
                    while next < pages.len() && used < at_once {
                        let nodes = meet(reads.nodes(pages[next]), self.all_nodes());
                        match (reads.look(&c.worker, pages[next], missing), nodes) {
                            (Looked::Here(bytes), Some(nodes)) => grid.signs(&bytes, pages[next], nodes, &mut signs),
                            (Looked::Failed(id, e), Some(nodes)) => {
                                if let PageErrorKind::TooLarge { .. } = e.kind {
                                    return Err(e);
                                }
                                self.fail(id, e);
                                signs.add_bad_box(nodes);
                            }
                            (Looked::Absent, _) => {
                                let more = pages[next + 1..].iter().map(|p| (reads, *p));
                                ask_for(&c.worker, reads.bytes, more, at_once, missing);
                                break;
                            }
                            (_, None) => {}
                        }
                        used += reads.bytes;
                        next += 1;
                    }
                } else {
                    grid.signs(&[], 0, self.all_nodes(), &mut signs);
                }
                if next < pages.len() {
                    let moved = next > begun;
                    self.stage = BlockStage::Signs { pages, next, signs, candidates };
                    return Ok(progress(moved, missing));
                }
                self.shapes(signs, candidates);
                Ok(Stepped::Again)
            }
            BlockStage::Shape { signs, candidates, at_most } => {
                self.shape(grid, c, parts, (signs, candidates, at_most));
                Ok(self.state())
            }
            BlockStage::Values { units, mut next, mut signs, candidates, meshes, needed, mut values } => {
                let reads = grid.value_reads();
                let begun = next;
                if values.is_empty() {
                    values = vec![f64::NAN; needed.count() * grid.columns()];
                }
                let (mut used, mut lost) = (0, false);
                while next < units.len() && used < at_once {
                    let (read, page) = units[next];
                    let of = &reads[read as usize];
                    match of.look(&c.worker, page, missing) {
                        Looked::Here(bytes) => grid.take(read as usize, &bytes, page, &needed, &mut values),
                        Looked::Absent => {
                            let more = units[next + 1..].iter().map(|(r, p)| (&reads[*r as usize], *p));
                            ask_for(&c.worker, of.bytes, more, at_once, missing);
                            break;
                        }
                        Looked::Failed(id, e) => {
                            if let PageErrorKind::TooLarge { .. } = e.kind {
                                return Err(e);
                            }
                            let new = !self.failed.iter().any(|(other, _)| *other == id);
                            self.fail(id, e);
                            signs.add_bad_box(of.nodes(page));
                            lost |= new;
                        }
                    }
                    used += of.bytes;
                    next += 1;
                }
                if lost {
                    // Once for each unreadable page: its part of the surface is dropped.
                    self.shapes(signs, candidates);
                    return Ok(Stepped::Again);
                }
                if next < units.len() {
                    let moved = next > begun;
                    self.stage = BlockStage::Values { units, next, signs, candidates, meshes, needed, values };
                    return Ok(progress(moved, missing));
                }
                grid.unusable(&needed, &values, &mut |node| {
                    if let Some([node, _]) = meet([node, node.map(|n| n + 1)], signs.nodes()) {
                        lost |= !signs.is_bad(node);
                        signs.add_bad(node, 1);
                    }
                });
                if lost {
                    self.shapes(signs, candidates);
                    return Ok(Stepped::Again);
                }
                drop((candidates, units));
                c.keep_signs(*signs);
                let made = meshes.into_iter().enumerate();
                let made = made.filter(|(_, m)| !m.edges.is_empty());
                self.stage =
                    BlockStage::Made(made.map(|(v, m)| make(grid, self.origin, v, m, &needed, &values)).collect());
                c.keep_needed(needed);
                Ok(Stepped::Done)
            }
            made @ BlockStage::Made(_) => {
                self.stage = made;
                Ok(Stepped::Done)
            }
        }
    }

    fn state(&self) -> Stepped {
        if matches!(self.stage, BlockStage::Made(_)) {
            Stepped::Done
        } else {
            Stepped::Again
        }
    }

    /// All signs are known: upper bounds of vertices and triangles.
    fn shapes(&mut self, signs: Box<BlockSigns>, candidates: Candidates) {
        let of =
            |inside| Marcher::at_most(&MarchBlock { inside, usable: None, hits: None, turned: false, origins: false });
        let at_most = signs.inside.iter().map(of).collect();
        self.stage = BlockStage::Shape { signs, candidates, at_most };
    }

    /// Most bytes at [`BlockStage::Shape`]: vertices and triangles, their values, and the hand-over.
    fn whole(&self, grid: &dyn Grid) -> usize {
        let BlockStage::Shape { at_most, .. } = &self.stage else { return 0 };
        let [edges, triangles] = at_most.iter().fold([0, 0], |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
        // With normals each node needs its neighbours.
        let around = self.nodes.map(|n| n as usize + 2).iter().product::<usize>();
        let each = if matches!(grid.normals(), Normals::None) { 2 } else { 14 };
        let values = around.min(edges.saturating_mul(each)) * grid.columns() * 8;
        self.bytes(grid) + values + handing_bytes_of(triangles, edges)
    }

    /// Vertices and triangles from signs, and the needed values.
    fn shape(
        &mut self,
        grid: &dyn Grid,
        c: &mut Context,
        parts: &[ConnectedRegion],
        (signs, candidates, at_most): (Box<BlockSigns>, Candidates, Vec<[usize; 2]>),
    ) {
        let mut usable = self.usable(&signs, &candidates);
        let mut meshes = Vec::with_capacity(signs.inside.len());
        for (value, inside) in signs.inside.iter().enumerate() {
            let mut mesh = BlockMesh::default();
            if let Some(part) = parts.get(value) {
                let Some(mut own) = part.usable(self.block, self.nodes) else {
                    meshes.push(mesh);
                    continue;
                };
                signs.take_away(&mut own);
                usable = Some(own);
            }
            let hits = signs.hits.as_ref().filter(|h| h.any());
            let origins = !parts.is_empty();
            let block = MarchBlock { inside, usable: usable.as_deref(), hits, turned: false, origins };
            let [edges, triangles] = at_most[value];
            mesh.edges.reserve_exact(edges);
            mesh.triangles.reserve_exact(triangles);
            c.marcher.march(&block, &mut mesh);
            if let Some(part) = parts.get(value) {
                let of = core::mem::take(&mut mesh.origins);
                mesh.retain(|n| part.has(self.origin, of[n]));
            }
            if hits.is_some() {
                // Dropped degenerate triangles may have left vertices behind.
                mesh.retain(|_| true);
            }
            meshes.push(mesh);
        }
        if meshes.iter().all(|m| m.edges.is_empty()) {
            c.keep_signs(*signs);
            self.stage = BlockStage::Made(Vec::new());
            return;
        }
        let beside = u32::from(!grid.is_plane() && !matches!(grid.normals(), Normals::None));
        let dims = grid.dims();
        let lo = self.origin.map(|n| n.saturating_sub(beside));
        let size = core::array::from_fn(|a| (self.origin[a] + self.nodes[a] + beside).min(dims[a]) - lo[a]);
        let mut needed = c.needed(lo, size);
        meshes.iter().for_each(|m| needed.add_ends(self.origin, &m.edges));
        if beside > 0 {
            needed.add_beside(dims);
        }
        needed.number();
        let mut units = Vec::new();
        let mut pages = Vec::new();
        for (n, reads) in grid.value_reads().iter().enumerate() {
            pages.clear();
            reads.pages_of(needed.bounds(), &mut pages);
            let wanted = |page: &u64| {
                let [lo, hi] = reads.nodes(*page);
                needed.any_in(lo, hi)
            };
            units.extend(pages.iter().copied().filter(wanted).map(|page| (n as u32, page)));
        }
        self.stage = BlockStage::Values { units, next: 0, signs, candidates, meshes, needed, values: Vec::new() };
    }

    /// Usable cells, a word a row; `None`: all.
    fn usable(&self, signs: &BlockSigns, candidates: &Candidates) -> Option<Vec<u64>> {
        let rows = (self.nodes[1] - 1) as usize * (self.nodes[2] - 1) as usize;
        let mut usable = match candidates {
            Candidates::All if signs.bad.is_none() && signs.hidden.is_none() => return None,
            Candidates::All => vec![u64::MAX; rows],
            Candidates::In(boxes) => {
                let mut usable = vec![0u64; rows];
                for [lo, hi] in boxes {
                    let at: [usize; 3] = core::array::from_fn(|a| (lo[a] - self.origin[a]) as usize);
                    let bits = (u64::MAX >> (64 - (hi[0] - lo[0]))) << at[0];
                    for k in at[2]..at[2] + (hi[2] - lo[2]) as usize {
                        for j in at[1]..at[1] + (hi[1] - lo[1]) as usize {
                            usable[k * (self.nodes[1] - 1) as usize + j] |= bits;
                        }
                    }
                }
                usable
            }
        };
        signs.take_away(&mut usable);
        Some(usable)
    }
}

/// Bytes of a vertex of a surface.
fn vertex_bytes(grid: &dyn Grid) -> usize {
    let points = 3 * if grid.is_double() { size_of::<f64>() } else { size_of::<f32>() };
    let normals = if matches!(grid.normals(), Normals::None) { 0 } else { 3 };
    let fields: usize = grid.fields().iter().map(|[from, to]| to - from).sum();
    points + (normals + fields) * size_of::<f32>()
}

/// The result of a step at a page: progress, or the missing pages.
fn progress(moved: bool, missing: &mut Vec<PageId>) -> Stepped {
    if moved {
        missing.clear();
        return Stepped::Again;
    }
    if missing.is_empty() {
        Stepped::Again
    } else {
        Stepped::Need
    }
}

/// Lists the absent pages of the next reads too, so that they are read together.
fn ask_for<'r>(
    worker: &Worker,
    first: u64,
    more: impl Iterator<Item = (&'r Reads, u64)>,
    at_once: u64,
    missing: &mut Vec<PageId>,
) {
    let mut bytes = first;
    for (reads, page) in more {
        bytes += reads.bytes;
        if bytes > at_once {
            return;
        }
        // An unreadable page is reported at its turn.
        let _looked = reads.look(worker, page, missing);
    }
}

/// The boxes of nodes that are corners of candidates.
fn each_corner_box(candidates: &Candidates, all: IndexBox, mut each: impl FnMut(IndexBox)) {
    match candidates {
        Candidates::All => each(all),
        Candidates::In(boxes) => boxes.iter().for_each(|[lo, hi]| each([*lo, hi.map(|n| n + 1)])),
    }
}

/// Computes the vertices of one value's mesh.
fn make(
    grid: &dyn Grid,
    origin: [u32; 3],
    value: usize,
    mut mesh: BlockMesh,
    needed: &Needed,
    values: &[f64],
) -> BlockSurface {
    let ends = grid.ends(origin, value, needed, values);
    let normals = !matches!(grid.normals(), Normals::None);
    let mut vertices = Vertices::empty(grid.is_double(), normals, grid.fields().len());
    ends.add(&mesh.edges, &mut vertices);
    if grid.turned().unwrap_or_else(|| ends.turned(&mesh, &vertices.points)) {
        mesh.triangles.iter_mut().for_each(|t| t.swap(1, 2));
    }
    if grid.turned().is_none() {
        // Collapsed cells: triangles without area are omitted. They leave no gap, since their corners coincide.
        let same = |a: u32, b: u32| vertices.points.get(a as usize) == vertices.points.get(b as usize);
        let flat: Vec<bool> =
            mesh.triangles.iter().map(|t| same(t[0], t[1]) || same(t[1], t[2]) || same(t[2], t[0])).collect();
        if flat.contains(&true) {
            let used = mesh.retain(|n| !flat[n]);
            vertices.retain(&used);
        }
    }
    BlockSurface { value, edges: mesh.edges, triangles: mesh.triangles, vertices }
}

impl Work for Contouring<'_, '_> {
    type Task = BlockTask;
    type Context = Context;

    fn context(&self, _thread: usize, worker: Worker) -> Context {
        Context { worker, marcher: Marcher::default(), signs: Vec::new(), needed: Vec::new() }
    }
    fn worker<'c>(&self, context: &'c mut Context) -> &'c mut Worker {
        &mut context.worker
    }
    fn admit(&self, n: u64) -> Result<BlockTask, FieldError> {
        let grid = self.firsts.partition_point(|first| *first <= n) - 1;
        let within = n - self.firsts[grid];
        let dims = self.grids[grid].dims();
        let [bi, bj, _] = blocks(dims).map(u64::from);
        let block = [within % bi, within / bi % bj, within / bi / bj].map(|v| v as u32);
        let (origin, nodes) = block_nodes(dims, block);
        Ok(BlockTask { number: n, grid, block, origin, nodes, stage: BlockStage::Fresh, failed: Vec::new() })
    }
    fn steps(&self, c: &mut Context, tasks: [Option<&mut BlockTask>; LANES], outcomes: &mut [Outcome; LANES]) {
        for (task, outcome) in tasks.into_iter().zip(outcomes) {
            let Some(task) = task else { continue };
            outcome.missing.clear();
            let grid = &*self.grids[task.grid];
            let parts = self.parts.map_or(&[][..], |parts| &parts[task.grid][..]);
            outcome.progress = match task.step(grid, c, (self.at_once, parts), &mut outcome.missing) {
                Ok(Stepped::Done) => StepProgress::Done,
                Ok(Stepped::Again) => StepProgress::Yield,
                Ok(Stepped::Need) => StepProgress::Need,
                Err(e) => {
                    // The limit is too small for it: the run ends at the hand-over of the block.
                    let id = PageId::new(pager::ArrayId(0), 0, 0);
                    task.failed = vec![(id, e)];
                    task.stage = BlockStage::Made(Vec::new());
                    StepProgress::Done
                }
            };
        }
    }
    const EACH_STEP: bool = true;
    fn bytes(&self, task: &BlockTask) -> usize {
        let grid = &*self.grids[task.grid];
        self.largest.fetch_max(task.whole(grid), Relaxed);
        task.bytes(grid)
    }
    fn finishing(&self, task: &BlockTask) -> usize {
        match &task.stage {
            BlockStage::Made(made) => handing_bytes(made),
            _ => 0,
        }
    }
    fn finish(&self, task: BlockTask) -> Result<(), FieldError> {
        if let Some(e) = task.failed.iter().find_map(|(_, e)| too_large(self.pager, e)) {
            return Err(e);
        }
        let made = match task.stage {
            BlockStage::Made(made) => made,
            _ => Vec::new(),
        };
        let results = Results { grid: task.grid, block: task.block, origin: task.origin, nodes: task.nodes, made };
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.add(task.number, results, task.failed)
    }
}

impl Windowed for Contouring<'_, '_> {}

impl Budgeted for Contouring<'_, '_> {
    fn resized(&self, limit: u64, _active: usize) -> Result<usize, FieldError> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner).resized(limit)?;
        Ok((self.active)(limit))
    }
}

/// Bytes of a block before anything of it is known.
pub(crate) fn block_bytes(grid: &dyn Grid) -> u64 {
    let nodes = grid.dims().map(|n| n.min(65));
    let needed = Needed::bytes(nodes.map(|n| n + 2));
    (size_of::<BlockTask>() + BlockSigns::bytes(nodes, grid.values()) + needed + Signs::bytes([2; 3])) as u64
}
