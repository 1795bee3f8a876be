//! Points and segments of all blocks, until they are joined.
//!
//! # Practice
//! A point has an entry of 64 bytes in memory, and a segment one of 32: joining lines needs them. The numbers of a
//! point are in a bounded log. All of it is charged as it grows.

use field::error::FieldError;
use kernels::cores::block::FeatureKey;
use kernels::cores::chains;
use output::{ByteLog, HeldMemory, OutputError};
use pager::Pager;
use runtime::ledger_share::LedgerShare;
use runtime::limits::would_do;
use std::path::Path;
use std::sync::Arc;

/// A cell beside a point is beyond the zone.
pub(super) const BEYOND: u8 = 1;
/// It is a hole.
pub(super) const HOLE: u8 = 2;
/// It is unreadable.
pub(super) const FAILED: u8 = 4;

/// Numbers of a point that are not sampled: velocity, strength, normalized helicity.
pub(super) const OWN: usize = 5;

/// A point of a block.
pub(super) struct CorePoint<'a> {
    pub key: FeatureKey,
    /// The states of the cells around it, as far as the block knows them.
    pub flags: u8,
    pub x: [f64; 3],
    pub size: f32,
    pub v: [f64; 3],
    pub strength: f64,
    pub helicity: f64,
    pub scalars: &'a [f64],
}

/// The part of a point in memory.
#[derive(Copy, Clone, Debug)]
pub(super) struct StoredPoint {
    pub key: FeatureKey,
    /// The place of its numbers in the log.
    at: u64,
    pub x: [f64; 3],
    /// If several blocks have the point, the first one's numbers are used.
    block: u32,
    size: f32,
    pub flags: u8,
}

/// The results of blocks.
pub(super) struct CoreStore {
    pager: Arc<Pager>,
    log: ByteLog,
    held: HeldMemory,
    pub entries: Vec<StoredPoint>,
    pairs: Vec<[FeatureKey; 2]>,
    record: usize,
    found: u64,
}

impl CoreStore {
    /// An empty store of points with this many numbers.
    pub fn new(pager: &Arc<Pager>, directory: &Path, budget: usize, numbers: usize) -> Result<Self, FieldError> {
        let held = HeldMemory::new(Box::new(LedgerShare::new(pager.clone())));
        let log = ByteLog::new(directory, budget, held.sibling()).map_err(|e| refused(pager, e))?;
        let (entries, pairs) = (Vec::new(), Vec::new());
        Ok(Self { pager: pager.clone(), log, held, entries, pairs, record: 8 * numbers, found: 0 })
    }

    pub fn set_budget(&mut self, budget: usize) -> Result<(), FieldError> {
        self.log.set_budget(budget).map_err(|e| refused(&self.pager, e))
    }

    /// Number of found points.
    pub fn found(&self) -> u64 {
        self.found
    }

    /// Bytes in the log's file.
    pub fn spilled_bytes(&self) -> u64 {
        self.log.spilled_bytes()
    }

    fn charge(&mut self, bytes: usize) -> Result<(), FieldError> {
        if self.held.grow(bytes) {
            return Ok(());
        }
        Err(FieldError::LimitTooSmall {
            limit: self.pager.ledger().limit(),
            needs: would_do(&self.pager, 2 * bytes as u64),
            what: "joining the points of the cores".into(),
        })
    }

    /// Makes room for more elements in a list, charged beforehand.
    fn room<T>(&mut self, list: fn(&mut Self) -> &mut Vec<T>, more: usize) -> Result<(), FieldError> {
        let (capacity, wanted) = (list(self).capacity(), list(self).len() + more);
        if wanted > capacity {
            let grown = wanted.max(capacity + capacity / 2).max(64);
            // Both exist while one is copied to the other.
            self.charge(grown * size_of::<T>())?;
            let len = list(self).len();
            list(self).reserve_exact(grown - len);
            self.held.shrink(capacity * size_of::<T>());
        }
        Ok(())
    }

    /// Adds the results of a block: the number of found points, the kept ones, and pairs of them.
    pub fn add<'p>(
        &mut self,
        block: u64,
        found: u64,
        points: impl ExactSizeIterator<Item = CorePoint<'p>>,
        pairs: impl ExactSizeIterator<Item = [FeatureKey; 2]>,
    ) -> Result<(), FieldError> {
        self.found += found;
        self.room(|s| &mut s.entries, points.len())?;
        self.room(|s| &mut s.pairs, pairs.len())?;
        let mut record = Vec::with_capacity(self.record);
        for p in points {
            record.clear();
            let own = [p.v[0], p.v[1], p.v[2], p.strength, p.helicity];
            record.extend(own.iter().chain(p.scalars).flat_map(|v| v.to_le_bytes()));
            let at = self.log.append(&record).map_err(|e| refused(&self.pager, e))?;
            let block = u32::try_from(block).unwrap_or(u32::MAX);
            self.entries.push(StoredPoint { key: p.key, at, x: p.x, block, size: p.size, flags: p.flags });
        }
        self.pairs.extend(pairs);
        Ok(())
    }

    /// Reads the numbers of a point.
    pub fn numbers(&self, n: u32, out: &mut Vec<f64>) -> Result<(), FieldError> {
        let mut record = vec![0; self.record];
        self.log.read_at(self.entries[n as usize].at, &mut record).map_err(FieldError::from)?;
        out.clear();
        out.extend(record.chunks_exact(8).map(|b| f64::from_le_bytes(core::array::from_fn(|c| b[c]))));
        Ok(())
    }

    /// Joins all segments to lines of points, which are in order from now on.
    pub fn join(&mut self) -> Result<chains::Chains, FieldError> {
        self.entries.sort_unstable_by_key(|e| (e.key, e.block));
        // The blocks' knowledge of the cells around a place is joined.
        let mut kept = 0;
        for n in 0..self.entries.len() {
            if kept > 0 && self.entries[kept - 1].key == self.entries[n].key {
                self.entries[kept - 1].flags |= self.entries[n].flags;
            } else {
                self.entries[kept] = self.entries[n];
                kept += 1;
            }
        }
        self.entries.truncate(kept);
        let of_places = kept * size_of::<chains::ChainNode>() + self.pairs.len() * size_of::<[u32; 2]>();
        let bytes = of_places + chains::bytes(kept, self.pairs.len()) as usize;
        if u32::try_from(kept).is_err() {
            return Err(FieldError::Usage(
                "there are more points of cores than can be joined; raise the least strength".into(),
            ));
        }
        self.charge(bytes)?;
        let number = |k: &FeatureKey| self.entries.binary_search_by_key(k, |e| e.key).map_or(u32::MAX, |n| n as u32);
        let mut pairs: Vec<[u32; 2]> = Vec::with_capacity(self.pairs.len());
        pairs.extend(self.pairs.iter().map(|p| p.each_ref().map(number)).map(|[a, b]| [a.min(b), a.max(b)]));
        pairs.sort_unstable();
        pairs.dedup();
        let place = |e: &StoredPoint| chains::ChainNode { x: e.x, size: e.size, at_border: e.flags & BEYOND != 0 };
        let places: Vec<chains::ChainNode> = self.entries.iter().map(place).collect();
        self.held.shrink(self.pairs.capacity() * size_of::<[FeatureKey; 2]>());
        self.pairs = Vec::new();
        let lines = chains::chains(&places, &pairs);
        drop((places, pairs));
        self.held.shrink(of_places);
        Ok(lines)
    }

    /// An account with the ledger for data derived from it.
    pub fn account(&self) -> HeldMemory {
        self.held.sibling()
    }
}

/// An error of the outputs, with the limit that would suffice.
pub(super) fn refused(pager: &Pager, e: OutputError) -> FieldError {
    runtime::limits::refused(pager, FieldError::from(e))
}
