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
use super::context::Context;
use super::grid::{meet, BlockSigns, Candidates, Grid, IndexBox, PageLookup, Reads};
use super::sink::{handing_bytes, handing_bytes_of, PieceSink, Results};
use super::stage::{BlockStage, SignReading, SignedCells, StepPages, Stepped, ValueReading};
use field::error::FieldError;
use field::locator::LANES;
use kernels::streamline::StepProgress;
use kernels::surface::{block_nodes, blocks, BlockMesh, MarchBlock, Marcher, NodeSet, Normals, Signs};
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

pub(crate) struct BlockTask {
    number: u64,
    grid: usize,
    block: [u32; 3],
    origin: [u32; 3],
    nodes: [u32; 3],
    stage: BlockStage,
    failed: Vec<(PageId, PageError)>,
}

impl BlockTask {
    fn bytes(&self, grid: &dyn Grid) -> usize {
        size_of::<Self>() + BlockSigns::bytes(self.nodes, grid.values()) + self.stage.bytes(self.nodes, grid)
    }

    fn all_nodes(&self) -> IndexBox {
        [self.origin, core::array::from_fn(|a| self.origin[a] + self.nodes[a])]
    }

    /// Notes an unreadable page. Whether it is a new one.
    ///
    /// # Errors
    /// The page is too large for the limit.
    fn fail(&mut self, id: PageId, e: PageError) -> Result<bool, PageError> {
        if let PageErrorKind::TooLarge { .. } = e.kind {
            return Err(e);
        }
        let new = !self.failed.iter().any(|(other, _)| *other == id);
        if new {
            self.failed.push((id, e));
        }
        Ok(new)
    }

    /// One restartable step.
    fn step(
        &mut self,
        grid: &dyn Grid,
        c: &mut Context,
        parts: &[ConnectedRegion],
        pages: &mut StepPages<'_>,
    ) -> Result<Stepped, PageError> {
        match core::mem::replace(&mut self.stage, BlockStage::Fresh) {
            BlockStage::Fresh => Ok(self.begin(grid, c, parts, pages.missing)),
            BlockStage::Signs(reading) => self.read_signs(reading, grid, &c.worker, pages),
            BlockStage::Shape { cells, at_most } => {
                self.shape(grid, c, parts, cells, &at_most);
                Ok(self.state())
            }
            BlockStage::Values(reading) => self.read_values(reading, grid, c, pages),
            made @ BlockStage::Made(_) => {
                self.stage = made;
                Ok(Stepped::Done)
            }
        }
    }

    /// The cells that may be crossed, and the pages with the signs of their nodes.
    fn begin(
        &mut self,
        grid: &dyn Grid,
        c: &mut Context,
        parts: &[ConnectedRegion],
        missing: &mut Vec<PageId>,
    ) -> Stepped {
        let [lo, hi] = self.all_nodes();
        let cells = [lo, hi.map(|n| n - 1)];
        let candidates = match parts {
            [] => grid.candidates(&c.worker, cells, missing),
            // The cells of a part are known.
            parts if parts.iter().all(|p| !p.passes(self.block)) => Some(Candidates::In(Vec::new())),
            _ => Some(Candidates::All),
        };
        let Some(candidates) = candidates else { return Stepped::Need };
        if candidates == Candidates::In(Vec::new()) {
            self.stage = BlockStage::Made(Vec::new());
            return Stepped::Done;
        }
        let signs = c.signs(self.origin, self.nodes, grid);
        let pages = grid.sign_reads().map_or(Vec::new(), |reads| self.sign_pages(reads, &candidates, parts));
        let cells = SignedCells { signs, candidates };
        self.stage = BlockStage::Signs(SignReading { pages, next: 0, cells });
        Stepped::Again
    }

    /// Pages with the corners of candidates, or of the cells of parts.
    fn sign_pages(&self, reads: &Reads, candidates: &Candidates, parts: &[ConnectedRegion]) -> Vec<u64> {
        let mut pages = Vec::new();
        if parts.is_empty() {
            each_corner_box(candidates, self.all_nodes(), |nodes| reads.pages_of(nodes, &mut pages));
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
        pages
    }

    fn read_signs(
        &mut self,
        mut reading: SignReading,
        grid: &dyn Grid,
        worker: &Worker,
        pages: &mut StepPages<'_>,
    ) -> Result<Stepped, PageError> {
        let begun = reading.next;
        match grid.sign_reads() {
            Some(reads) => self.read_sign_pages(&mut reading, grid, reads, worker, pages)?,
            None => grid.signs(&[], 0, self.all_nodes(), &mut reading.cells.signs),
        }
        if reading.next < reading.pages.len() {
            let moved = reading.next > begun;
            self.stage = BlockStage::Signs(reading);
            return Ok(pages.progress(moved));
        }
        self.shapes(reading.cells);
        Ok(Stepped::Again)
    }

    /// Signs of as many pages as are resident and may be used in a step.
    fn read_sign_pages(
        &mut self,
        reading: &mut SignReading,
        grid: &dyn Grid,
        reads: &Reads,
        worker: &Worker,
        pages: &mut StepPages<'_>,
    ) -> Result<(), PageError> {
        let SignReading { pages: all, next, cells } = reading;
        let signs = &mut cells.signs;
        let mut used = 0;
        while *next < all.len() && used < pages.at_once {
            let page = all[*next];
            let nodes = meet(reads.nodes(page), self.all_nodes());
            match (reads.look(worker, page, pages.missing), nodes) {
                (PageLookup::Here(bytes), Some(nodes)) => grid.signs(&bytes, page, nodes, signs),
                (PageLookup::Failed(id, e), Some(nodes)) => {
                    self.fail(id, e)?;
                    signs.add_bad_box(nodes);
                }
                (PageLookup::Absent, _) => {
                    pages.ask_for(worker, reads.bytes, all[*next + 1..].iter().map(|p| (reads, *p)));
                    break;
                }
                (_, None) => {}
            }
            used += reads.bytes;
            *next += 1;
        }
        Ok(())
    }

    fn read_values(
        &mut self,
        mut reading: ValueReading,
        grid: &dyn Grid,
        c: &mut Context,
        pages: &mut StepPages<'_>,
    ) -> Result<Stepped, PageError> {
        let begun = reading.next;
        if reading.values.is_empty() {
            reading.values = vec![f64::NAN; reading.needed.count() * grid.columns()];
        }
        let lost = self.read_value_pages(&mut reading, grid, &c.worker, pages)?;
        if !lost && reading.next < reading.units.len() {
            let moved = reading.next > begun;
            self.stage = BlockStage::Values(reading);
            return Ok(pages.progress(moved));
        }
        if lost || reading.add_unusable(grid) {
            // Once for each unreadable page: its part of the surface is dropped.
            self.shapes(reading.cells);
            return Ok(Stepped::Again);
        }
        self.stage = BlockStage::Made(reading.surfaces(grid, self.origin, c));
        Ok(Stepped::Done)
    }

    /// Values of as many pages as are resident and may be used in a step. Whether some page is found unreadable.
    fn read_value_pages(
        &mut self,
        reading: &mut ValueReading,
        grid: &dyn Grid,
        worker: &Worker,
        pages: &mut StepPages<'_>,
    ) -> Result<bool, PageError> {
        let ValueReading { units, next, cells, needed, values, .. } = reading;
        let reads = grid.value_reads();
        let (mut used, mut lost) = (0, false);
        while *next < units.len() && used < pages.at_once {
            let (read, page) = units[*next];
            let of = &reads[read as usize];
            match of.look(worker, page, pages.missing) {
                PageLookup::Here(bytes) => grid.take(read as usize, &bytes, page, needed, values),
                PageLookup::Absent => {
                    let more = units[*next + 1..].iter().map(|(r, p)| (&reads[*r as usize], *p));
                    pages.ask_for(worker, of.bytes, more);
                    break;
                }
                PageLookup::Failed(id, e) => {
                    lost |= self.fail(id, e)?;
                    cells.signs.add_bad_box(of.nodes(page));
                }
            }
            used += of.bytes;
            *next += 1;
        }
        Ok(lost)
    }

    fn state(&self) -> Stepped {
        if matches!(self.stage, BlockStage::Made(_)) {
            Stepped::Done
        } else {
            Stepped::Again
        }
    }

    /// All signs are known: upper bounds of vertices and triangles.
    fn shapes(&mut self, cells: SignedCells) {
        let of =
            |inside| Marcher::at_most(&MarchBlock { inside, usable: None, hits: None, turned: false, origins: false });
        let at_most = cells.signs.inside.iter().map(of).collect();
        self.stage = BlockStage::Shape { cells, at_most };
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
        cells: SignedCells,
        at_most: &[[usize; 2]],
    ) {
        let signs = &cells.signs;
        let mut usable = self.usable(signs, &cells.candidates);
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
            c.keep_signs(*cells.signs);
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
        self.stage = BlockStage::Values(ValueReading { units, next: 0, cells, meshes, needed, values: Vec::new() });
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

/// The boxes of nodes that are corners of candidates.
fn each_corner_box(candidates: &Candidates, all: IndexBox, mut each: impl FnMut(IndexBox)) {
    match candidates {
        Candidates::All => each(all),
        Candidates::In(boxes) => boxes.iter().for_each(|[lo, hi]| each([*lo, hi.map(|n| n + 1)])),
    }
}

impl Work for Contouring<'_, '_> {
    type Task = BlockTask;
    type Context = Context;

    fn context(&self, _thread: usize, worker: Worker) -> Context {
        Context::new(worker)
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
            let mut pages = StepPages { at_once: self.at_once, missing: &mut outcome.missing };
            outcome.progress = match task.step(grid, c, parts, &mut pages) {
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
    let needed = NodeSet::bytes(nodes.map(|n| n + 2));
    (size_of::<BlockTask>() + BlockSigns::bytes(nodes, grid.values()) + needed + Signs::bytes([2; 3])) as u64
}
