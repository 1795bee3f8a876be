//! Blocks back in order: vertices get their numbers, and pieces are handed over.
//!
//! # Theory
//! Blocks are finished in any order, and each needs the numbers of the vertices that earlier ones drew on their common faces. So those
//! that come too early wait: in memory as long as they take less than their share of the limit, else in a file without a name.

use super::grid::Grid;
use crate::limits::{refused, results_budget};
use crate::output::{ByteLog, Charge as _, Held};
use crate::share::LedgerShare;
use field::error::FieldError;
use kernels::surface::{blocks, Borders, Edge, Piece, Vertices};
use pager::{PageError, PageId, Pager};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Takes pieces as they come, in order.
pub type TakePiece<'a> = dyn FnMut(Piece) -> Result<(), FieldError> + Send + 'a;

/// Pages that cannot be had are told apart up to here; beyond it their number is a lower bound.
const TOLD_APART: usize = 1 << 16;

/// One value's surface in a block.
pub(crate) struct Made {
    pub(crate) value: usize,
    pub(crate) edges: Vec<Edge>,
    pub(crate) triangles: Vec<[u32; 3]>,
    pub(crate) vertices: Vertices,
}

impl Made {
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.edges.capacity() * size_of::<Edge>()
            + self.triangles.capacity() * size_of::<[u32; 3]>()
            + self.vertices.bytes()
    }
}

/// What a block has.
pub(crate) struct Results {
    pub(crate) grid: usize,
    pub(crate) block: [u32; 3],
    pub(crate) origin: [u32; 3],
    pub(crate) nodes: [u32; 3],
    pub(crate) made: Vec<Made>,
}

enum Waiting {
    Here(Results, usize),
    /// Where it lies in the file, and how long it is.
    Away(u64, usize),
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// Points.
    pub points: u64,
    /// Triangles.
    pub triangles: u64,
    /// Triangles of each value.
    pub by_value: Vec<u64>,
    /// Pages that cannot be had; nothing was drawn from them.
    pub failed_pages: u64,
    /// The first of them, in words.
    pub failure: Option<String>,
    /// Bytes that went through a temporary file.
    pub spilled_bytes: u64,
}

pub(crate) struct Sink<'a> {
    grids: &'a [Box<dyn Grid + 'a>],
    pager: Arc<Pager>,
    each: &'a mut TakePiece<'a>,
    /// The block that is handed over next.
    next: u64,
    /// Those after it that are there.
    waiting: BTreeMap<u64, Waiting>,
    /// 1. Charged with what waits in memory and with the tables of borders.
    share: LedgerShare,
    waiting_bytes: usize,
    budget: usize,
    directory: PathBuf,
    log: Option<ByteLog>,
    /// The grid whose borders these are, by value, and what they are charged with.
    grid: usize,
    borders: Vec<Borders>,
    charged: usize,
    failed: HashSet<PageId>,
    drawn: Drawn,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(
        grids: &'a [Box<dyn Grid + 'a>],
        pager: &Arc<Pager>,
        directory: PathBuf,
        each: &'a mut TakePiece<'a>,
    ) -> Self {
        let values = grids.iter().map(|g| g.values()).max().unwrap_or(0);
        Self {
            grids,
            pager: pager.clone(),
            each,
            next: 0,
            waiting: BTreeMap::new(),
            share: LedgerShare::new(pager.clone()),
            waiting_bytes: 0,
            budget: results_budget(pager.ledger().limit()),
            directory,
            log: None,
            grid: usize::MAX,
            borders: Vec::new(),
            charged: 0,
            failed: HashSet::new(),
            drawn: Drawn { by_value: vec![0; values], ..Drawn::default() },
        }
    }

    /// The memory limit is another one now.
    pub(crate) fn resized(&mut self, limit: u64) -> Result<(), FieldError> {
        self.budget = results_budget(limit);
        if let Some(log) = &mut self.log {
            log.set_budget(self.budget / 8).map_err(FieldError::from)?;
        }
        Ok(())
    }

    /// What came of it, when all blocks are there.
    pub(crate) fn finish(self) -> Drawn {
        let spilled_bytes = self.log.as_ref().map_or(0, ByteLog::spilled_bytes);
        Drawn { spilled_bytes, ..self.drawn }
    }

    /// Takes note of pages that cannot be had.
    pub(crate) fn failed(&mut self, failed: Vec<(PageId, PageError)>) {
        for (id, e) in failed {
            self.drawn.failure.get_or_insert_with(|| e.to_string());
            if self.failed.len() < TOLD_APART && self.failed.insert(id) {
                self.drawn.failed_pages += 1;
            }
        }
    }

    /// Takes a block.
    pub(crate) fn add(
        &mut self,
        number: u64,
        results: Results,
        failed: Vec<(PageId, PageError)>,
    ) -> Result<(), FieldError> {
        self.failed(failed);
        if number != self.next {
            return self.keep(number, results);
        }
        self.hand_over(results)?;
        self.next += 1;
        while let Some(waiting) = self.waiting.remove(&self.next) {
            let results = match waiting {
                Waiting::Here(results, bytes) => {
                    self.waiting_bytes -= bytes;
                    self.share.release(bytes);
                    results
                }
                Waiting::Away(offset, bytes) => self.bring_back(offset, bytes)?,
            };
            self.hand_over(results)?;
            self.next += 1;
        }
        Ok(())
    }

    /// Keeps a block whose turn it is not.
    fn keep(&mut self, number: u64, results: Results) -> Result<(), FieldError> {
        let bytes = results.made.iter().map(Made::bytes).sum::<usize>() + 128;
        if self.waiting_bytes + bytes <= self.budget && self.share.try_charge(bytes) {
            self.waiting_bytes += bytes;
            self.waiting.insert(number, Waiting::Here(results, bytes));
            return Ok(());
        }
        let log = match &mut self.log {
            Some(log) => log,
            None => {
                let held = Held::new(Box::new(LedgerShare::new(self.pager.clone())));
                let log =
                    ByteLog::new(&self.directory, self.budget / 8, held).map_err(|e| refused(&self.pager, e.into()))?;
                self.log.insert(log)
            }
        };
        let written = super::spill::write(&results);
        let offset = log.append(&written).map_err(FieldError::from)?;
        self.waiting.insert(number, Waiting::Away(offset, written.len()));
        Ok(())
    }

    fn bring_back(&self, offset: u64, bytes: usize) -> Result<Results, FieldError> {
        let lost = || FieldError::Usage("a block's surface that was put away is not what it was".into());
        let log = self.log.as_ref().ok_or_else(lost)?;
        let mut written = vec![0; bytes];
        log.read_at(offset, &mut written).map_err(FieldError::from)?;
        super::spill::read(&written).ok_or_else(lost)
    }

    /// Numbers the vertices of a block and hands its pieces over.
    fn hand_over(&mut self, results: Results) -> Result<(), FieldError> {
        let Results { grid, block, origin, nodes, made } = results;
        if made.is_empty() {
            return Ok(());
        }
        let of = &self.grids[grid];
        if self.grid != grid {
            self.grid = grid;
            self.borders = (0..of.values()).map(|_| Borders::new(of.dims(), blocks(of.dims()))).collect();
        }
        for Made { value, edges, triangles, mut vertices } in made {
            let first = self.drawn.points;
            let (mut numbers, mut all_new) = (Vec::new(), true);
            numbers.reserve_exact(edges.len());
            let mut kept = Vec::new();
            self.borders[value].resolve(block, origin, nodes, &edges, first, |number, new| {
                numbers.push(number);
                kept.push(new);
                all_new &= new;
            });
            if !all_new {
                vertices.retain(&kept);
            }
            // Those that are drawn by no earlier block follow each other.
            let triangles: Vec<[u64; 3]> = triangles.iter().map(|t| t.map(|v| numbers[v as usize])).collect();
            self.drawn.points += vertices.points.len() as u64;
            self.drawn.triangles += triangles.len() as u64;
            self.drawn.by_value[value] += triangles.len() as u64;
            (self.each)(Piece { zone: of.zone(), value, first, vertices, triangles })?;
        }
        self.charge_borders()
    }

    /// Charges the tables as large as they are now.
    fn charge_borders(&mut self) -> Result<(), FieldError> {
        let bytes = self.borders.iter().map(Borders::bytes).sum::<usize>();
        if bytes > self.charged {
            // In steps, as they go up and down with each block.
            let more = (bytes - self.charged).next_multiple_of(64 << 10);
            if !self.share.try_charge(more) {
                let needs = more as u64;
                let what = "the borders between blocks of a surface".into();
                return Err(refused(&self.pager, FieldError::LimitTooSmall { limit: 0, needs, what }));
            }
            self.charged += more;
        }
        Ok(())
    }
}
