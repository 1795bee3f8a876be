//! What a thread keeps from block to block.

use super::grid::{BlockSigns, Grid};
use kernels::surface::{Marcher, NodeSet};
use pager::Worker;

/// The context of a thread that steps blocks. The signs and the needed nodes of a finished block are reused for the
/// next one. Allocated each time, with pages cleared by the system, they took an eighth of all time.
pub(crate) struct Context {
    pub(crate) worker: Worker,
    pub(crate) marcher: Marcher,
    signs: Vec<BlockSigns>,
    needed: Vec<NodeSet>,
}

/// Kept of each kind.
const SPARE: usize = 2;

impl Context {
    /// Of a thread that has stepped no block yet.
    pub(crate) fn new(worker: Worker) -> Self {
        Self { worker, marcher: Marcher::default(), signs: Vec::new(), needed: Vec::new() }
    }

    /// Signs of a block, unset.
    pub(crate) fn signs(&mut self, origin: [u32; 3], nodes: [u32; 3], grid: &dyn Grid) -> Box<BlockSigns> {
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
    pub(crate) fn needed(&mut self, lo: [u32; 3], size: [u32; 3]) -> NodeSet {
        let mut needed = self.needed.pop().unwrap_or_default();
        needed.clear(lo, size);
        needed
    }

    pub(crate) fn keep_signs(&mut self, signs: BlockSigns) {
        if self.signs.len() < SPARE {
            self.signs.push(signs);
        }
    }

    pub(crate) fn keep_needed(&mut self, needed: NodeSet) {
        if self.needed.len() < SPARE {
            self.needed.push(needed);
        }
    }
}
