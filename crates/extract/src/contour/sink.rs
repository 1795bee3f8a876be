//! Blocks in order: vertices get their numbers, and pieces are passed on.
//!
//! # Theory
//! Blocks finish in any order. Each needs the numbers of the vertices that earlier ones drew on their common faces. So
//! blocks that are too early wait: in memory while they use less than their share of the limit, else in an anonymous
//! file.
//!
//! The thread that adds a block has charged it, and may have used all memory. So this module depends on no more: the
//! file's buffer exists from the beginning. The next block also waits if there is no room for its borders. Waiting
//! blocks are passed on as soon as there is room, at the latest when all blocks are done and their memory is free.

use super::grid::Grid;
use field::error::FieldError;
use kernels::surface::{blocks, Borders, Edge, SurfacePiece, Vertices};
use output::{ByteLog, HeldMemory, MemoryAccount as _};
use pager::{PageError, PageId, Pager};
use runtime::ledger_share::LedgerShare;
use runtime::limits::{refused, results_budget};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Receives pieces in order.
pub type TakePiece<'a> = dyn FnMut(SurfacePiece) -> Result<(), FieldError> + Send + 'a;

/// Most unreadable pages that are counted separately; beyond it their number is a lower bound.
const TOLD_APART: usize = 1 << 16;

/// Time for attempts to pass on the last blocks: reads over a network take a part of a second.
const PATIENCE: Duration = Duration::from_secs(2);

/// One value's surface in a block.
pub(crate) struct BlockSurface {
    pub(crate) value: usize,
    pub(crate) edges: Vec<Edge>,
    pub(crate) triangles: Vec<[u32; 3]>,
    pub(crate) vertices: Vertices,
}

impl BlockSurface {
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.edges.capacity() * size_of::<Edge>()
            + self.triangles.capacity() * size_of::<[u32; 3]>()
            + self.vertices.bytes()
    }
}

/// The result of a block.
pub(crate) struct Results {
    pub(crate) grid: usize,
    pub(crate) block: [u32; 3],
    pub(crate) origin: [u32; 3],
    pub(crate) nodes: [u32; 3],
    pub(crate) made: Vec<BlockSurface>,
}

struct WaitingBlock {
    grid: usize,
    place: ResultStorage,
    /// Bytes in memory while it waits there.
    bytes: usize,
    /// Additional bytes for passing it on.
    handing: usize,
    /// Bytes that it may add to the tables of borders, value by value.
    borders: usize,
}

enum ResultStorage {
    Here(Results),
    /// Its place in the file, and its length.
    Away(u64, usize),
}

/// Additional bytes for passing on some surfaces: triangles with numbers of 64 bits beside those of 32, and the numbers
/// of the vertices.
pub(super) fn handing_bytes(made: &[BlockSurface]) -> usize {
    made.iter().map(|m| handing_bytes_of(m.triangles.len(), m.edges.len())).sum()
}

/// The same for this many triangles and edges.
pub(super) fn handing_bytes_of(triangles: usize, edges: usize) -> usize {
    triangles * 24 + edges * 9
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// Points.
    pub points: u64,
    /// Triangles.
    pub triangles: u64,
    /// Triangles of each value.
    pub by_value: Vec<u64>,
    /// Unreadable pages, without surface.
    pub failed_pages: u64,
    /// The first of them, as a message.
    pub failure: Option<String>,
    /// Bytes written to a temporary file.
    pub spilled_bytes: u64,
}

pub(crate) struct PieceSink<'a> {
    grids: &'a [Box<dyn Grid + 'a>],
    pager: Arc<Pager>,
    each: &'a mut TakePiece<'a>,
    /// The next block.
    next: u64,
    /// Later blocks that wait.
    waiting: BTreeMap<u64, WaitingBlock>,
    /// 1. The charge of blocks waiting in memory, of waiting blocks being passed on, and of the tables of borders.
    share: LedgerShare,
    waiting_bytes: usize,
    budget: usize,
    /// Blocks waiting on disk.
    log: ByteLog,
    /// The grid of these borders, by value, and their charge.
    grid: usize,
    borders: Vec<Borders>,
    charged: usize,
    failed: HashSet<PageId>,
    drawn: Drawn,
}

impl<'a> PieceSink<'a> {
    /// # Errors
    /// [`FieldError::LimitTooSmall`] if there is no memory even for the file's buffer.
    pub(crate) fn new(
        grids: &'a [Box<dyn Grid + 'a>],
        pager: &Arc<Pager>,
        directory: &Path,
        each: &'a mut TakePiece<'a>,
    ) -> Result<Self, FieldError> {
        let values = grids.iter().map(|g| g.values()).max().unwrap_or(0);
        let budget = results_budget(pager.ledger().limit());
        let held = HeldMemory::new(Box::new(LedgerShare::new(pager.clone())));
        let log = ByteLog::new(directory, budget / 8, held).map_err(|e| refused(pager, e.into()))?;
        Ok(Self {
            grids,
            pager: pager.clone(),
            each,
            next: 0,
            waiting: BTreeMap::new(),
            share: LedgerShare::new(pager.clone()),
            waiting_bytes: 0,
            budget,
            log,
            grid: usize::MAX,
            borders: Vec::new(),
            charged: 0,
            failed: HashSet::new(),
            drawn: Drawn { by_value: vec![0; values], ..Drawn::default() },
        })
    }

    /// Adapts to another memory limit. The last waiting blocks are moved to the file until the others fit.
    pub(crate) fn resized(&mut self, limit: u64) -> Result<(), FieldError> {
        self.budget = results_budget(limit);
        self.log.set_budget(self.budget / 8).map_err(FieldError::from)?;
        for waiting in self.waiting.values_mut().rev() {
            if self.waiting_bytes <= self.budget {
                break;
            }
            if let ResultStorage::Here(results) = &waiting.place {
                waiting.place = put_away(&mut self.log, results)?;
                self.waiting_bytes -= waiting.bytes;
                self.share.release(waiting.bytes);
            }
        }
        Ok(())
    }

    /// The result after the last block. Blocks that still wait are passed on.
    ///
    /// # Errors
    /// [`FieldError::LimitTooSmall`] if one finds no room although nothing else is in progress; errors of the receiver.
    pub(crate) fn finish(mut self) -> Result<Drawn, FieldError> {
        let began = Instant::now();
        while let Some(short) = self.go_on()? {
            // Abandoned reads hold their pages until they end.
            if began.elapsed() > PATIENCE {
                let what = "the borders between blocks of a surface".into();
                return Err(refused(&self.pager, FieldError::LimitTooSmall { limit: 0, needs: short as u64, what }));
            }
            std::thread::sleep(Duration::from_millis(1));
            while self.pager.work() {}
        }
        Ok(Drawn { spilled_bytes: self.log.spilled_bytes(), ..self.drawn })
    }

    /// Records unreadable pages.
    pub(crate) fn failed(&mut self, failed: Vec<(PageId, PageError)>) {
        for (id, e) in failed {
            self.drawn.failure.get_or_insert_with(|| e.to_string());
            if self.failed.len() < TOLD_APART && self.failed.insert(id) {
                self.drawn.failed_pages += 1;
            }
        }
    }

    /// Adds a block. The caller has charged its bytes and [`handing_bytes`].
    ///
    /// # Errors
    /// Errors of the receiver; a file that cannot be written or read.
    pub(crate) fn add(
        &mut self,
        number: u64,
        results: Results,
        failed: Vec<(PageId, PageError)>,
    ) -> Result<(), FieldError> {
        self.failed(failed);
        let of = blocks(self.grids[results.grid].dims());
        let borders = |m: &BlockSurface| Borders::bytes_of(of, results.block, results.nodes, &m.edges);
        let borders = results.made.iter().map(borders).sum();
        if number == self.next && self.charge_borders(results.grid, borders) {
            self.hand_over(results)?;
        } else {
            self.keep(number, results, borders)?;
        }
        self.go_on().map(|_short| ())
    }

    /// Passes on waiting blocks in order, as far as there is room. Returns the bytes that the next one lacks.
    fn go_on(&mut self) -> Result<Option<usize>, FieldError> {
        while let Some(waiting) = self.waiting.get(&self.next) {
            let own = match waiting.place {
                ResultStorage::Here(_) => 0,
                ResultStorage::Away(..) => waiting.bytes,
            };
            let (bytes, grid, borders) = (own + waiting.handing, waiting.grid, waiting.borders);
            if !self.share.try_charge(bytes) {
                return Ok(Some(bytes + borders));
            }
            if !self.charge_borders(grid, borders) {
                self.share.release(bytes);
                return Ok(Some(bytes + borders));
            }
            let Some(waiting) = self.waiting.remove(&self.next) else { break };
            let (results, held) = match waiting.place {
                ResultStorage::Here(results) => {
                    self.waiting_bytes -= waiting.bytes;
                    (results, bytes + waiting.bytes)
                }
                ResultStorage::Away(offset, written) => (self.bring_back(offset, written)?, bytes),
            };
            self.hand_over(results)?;
            self.share.release(held);
        }
        Ok(None)
    }

    /// Stores a block until its turn.
    fn keep(&mut self, number: u64, results: Results, borders: usize) -> Result<(), FieldError> {
        let bytes = results.made.iter().map(BlockSurface::bytes).sum::<usize>() + 128;
        let (grid, handing) = (results.grid, handing_bytes(&results.made));
        let place = if self.waiting_bytes + bytes <= self.budget && self.share.try_charge(bytes) {
            self.waiting_bytes += bytes;
            ResultStorage::Here(results)
        } else {
            put_away(&mut self.log, &results)?
        };
        self.waiting.insert(number, WaitingBlock { grid, place, bytes, handing, borders });
        Ok(())
    }

    fn bring_back(&self, mut offset: u64, bytes: usize) -> Result<Results, FieldError> {
        let lost = || FieldError::Internal("the surface of a block came back from its file with other bytes");
        let found = super::spill::read(bytes, &mut |into: &mut [u8]| {
            let read = self.log.read_at(offset, into);
            offset += into.len() as u64;
            read
        });
        found.map_err(FieldError::from)?.ok_or_else(lost)
    }

    /// Numbers the vertices of the next block and passes its pieces on.
    fn hand_over(&mut self, results: Results) -> Result<(), FieldError> {
        let Results { grid, block, origin, nodes, made } = results;
        self.next += 1;
        if made.is_empty() {
            return Ok(());
        }
        let of = &self.grids[grid];
        if self.grid != grid {
            self.grid = grid;
            self.borders = (0..of.values()).map(|_| Borders::new(of.dims(), blocks(of.dims()))).collect();
        }
        for BlockSurface { value, edges, triangles, mut vertices } in made {
            let first = self.drawn.points;
            let (mut numbers, mut all_new) = (Vec::new(), true);
            numbers.reserve_exact(edges.len());
            let mut kept = Vec::with_capacity(edges.len());
            self.borders[value].resolve(block, origin, nodes, &edges, first, |number, new| {
                numbers.push(number);
                kept.push(new);
                all_new &= new;
            });
            if !all_new {
                vertices.retain(&kept);
            }
            // New vertices have consecutive numbers.
            let triangles: Vec<[u64; 3]> = triangles.iter().map(|t| t.map(|v| numbers[v as usize])).collect();
            self.drawn.points += vertices.points.len() as u64;
            self.drawn.triangles += triangles.len() as u64;
            self.drawn.by_value[value] += triangles.len() as u64;
            (self.each)(SurfacePiece { zone: of.zone(), value, first, vertices, triangles })?;
        }
        Ok(())
    }

    /// Charges the tables of borders at their largest size with a block of a grid that adds this many bytes. False if
    /// there is no room.
    fn charge_borders(&mut self, grid: usize, more: usize) -> bool {
        let now = match grid == self.grid {
            true => self.borders.iter().map(Borders::bytes).sum::<usize>(),
            // Those of the grid before are dropped first.
            false => self.grids[grid].values() * Borders::empty_bytes(blocks(self.grids[grid].dims())),
        };
        let bytes = now + more;
        if bytes <= self.charged {
            return true;
        }
        // In steps, since they vary with each block.
        let more = (bytes - self.charged).next_multiple_of(64 << 10);
        let granted = self.share.try_charge(more);
        self.charged += if granted { more } else { 0 };
        granted
    }
}

/// Writes a block to the file.
fn put_away(log: &mut ByteLog, results: &Results) -> Result<ResultStorage, FieldError> {
    let offset = log.len();
    super::spill::write(results, &mut |part| log.append(part).map(|_at| ()))?;
    Ok(ResultStorage::Away(offset, (log.len() - offset) as usize))
}
