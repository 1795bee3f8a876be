//! Gathered geometry, stored so that any part can be drawn again.
//!
//! # Theory
//! A picture is drawn in bands, and each band streams the geometry anew. If bands read pages, each band would read the
//! dataset again. So geometry is gathered once into a [`ByteLog`]: memory up to a share of the ledger, then a file
//! without a name. It is cut into blocks with a box each, and a band reads back only the blocks that it touches.
//!
//! Invariant: the blocks depend on the geometry alone, never on the memory limit. So pictures are equal bit for bit
//! under any limit.

use crate::picture::{Aabb, BoxFilter, Chunk, Geometry, GeometryError, Polyline, Positions};
use field::error::FieldError;
use glam::DVec3;
use output::{ByteLog, HeldMemory, SpoolOptions};
use pager::Pager;
use runtime::ledger_share::LedgerShare;
use runtime::limits::{refused, would_do};
use std::sync::Arc;

/// Most points of a block of lines: seven kilobytes to read for a band that touches its box.
const BLOCK_POINTS: usize = 256;

/// Storage of geometry.
pub(crate) struct Arena {
    log: ByteLog,
    /// Charges for the indexes of blocks.
    index: HeldMemory,
    /// Most bytes in memory.
    budget: usize,
    pager: Arc<Pager>,
}

impl Arena {
    /// An empty arena with at most `budget` bytes of geometry in memory.
    pub(crate) fn new(pager: &Arc<Pager>, budget: usize) -> Result<Self, FieldError> {
        let index = HeldMemory::new(Box::new(LedgerShare::new(pager.clone())));
        let log = ByteLog::new(&SpoolOptions::spill_directory(None), budget, index.sibling())
            .map_err(|e| refused(pager, e.into()))?;
        Ok(Self { log, index, budget, pager: pager.clone() })
    }

    /// Another, empty arena, with an eighth of this one's budget.
    pub(crate) fn sibling(&self) -> Result<Self, FieldError> {
        Self::new(&self.pager, self.budget / 8)
    }

    pub(crate) fn log(&self) -> &ByteLog {
        &self.log
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<u64, FieldError> {
        self.log.append(bytes).map_err(|e| refused(&self.pager, e.into()))
    }

    /// Appends the bytes that `write` puts into a buffer bit by bit, and returns their offset. They need not be in
    /// memory as a whole.
    pub(crate) fn append_in_parts(
        &mut self,
        write: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), FieldError>) -> Result<(), FieldError>,
    ) -> Result<u64, FieldError> {
        const PART: usize = 8 << 10;
        let offset = self.log.len();
        let mut part = Vec::with_capacity(PART);
        write(&mut |bytes| {
            if part.len() + bytes.len() > PART {
                self.append(&part)?;
                part.clear();
            }
            part.extend_from_slice(bytes);
            Ok(())
        })?;
        if !part.is_empty() {
            self.append(&part)?;
        }
        Ok(offset)
    }

    /// Charges an entry of an index, at twice its size: a growing vector doubles.
    pub(crate) fn charge_entry(&mut self, bytes: usize) -> Result<(), FieldError> {
        if self.index.grow(bytes * 2) {
            return Ok(());
        }
        Err(FieldError::LimitTooSmall {
            limit: self.pager.ledger().limit(),
            // The rest is unknown, so it is estimated as the part gathered so far.
            needs: would_do(&self.pager, self.pager.ledger().of(pager::ChargeKind::Results).max(bytes as u64 * 2)),
            what: "the index of what is drawn".into(),
        })
    }
}

/// Lowest and highest finite value. Finite means in single precision, as in colour maps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    low: f64,
    high: f64,
}

impl Range {
    pub(crate) const EMPTY: Range = Range { low: f64::INFINITY, high: f64::NEG_INFINITY };

    pub(crate) fn include(&mut self, v: f64) {
        if (v as f32).is_finite() {
            self.low = self.low.min(v);
            self.high = self.high.max(v);
        }
    }

    pub(crate) fn union(self, other: Range) -> Range {
        Range { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    pub(crate) fn ends(self) -> Option<[f64; 2]> {
        (self.low <= self.high).then_some([self.low, self.high])
    }
}

/// Parts of lines that lie together in the log.
struct LineBlock {
    bounds: Aabb,
    offset: u64,
    bytes: u32,
}

/// Lines in an arena.
pub(crate) struct LineStore {
    blocks: Vec<LineBlock>,
    coloured: bool,
    pub(crate) bounds: Aabb,
    pub(crate) range: Range,
    pub(crate) segments: u64,
}

/// Builds lines point by point.
pub(crate) struct LineBuilder<'a> {
    arena: &'a mut Arena,
    store: LineStore,
    /// The unfinished block, its points and its box.
    block: Vec<u8>,
    block_points: usize,
    block_bounds: Aabb,
    /// The unfinished part, and the vertex before it if the line began earlier.
    points: Vec<[f64; 3]>,
    values: Vec<f32>,
    before: Option<[f64; 3]>,
}

/// Flags of a part: a vertex before, a vertex after.
const BEFORE: u32 = 1;
const AFTER: u32 = 2;

impl<'a> LineBuilder<'a> {
    /// No lines yet. `coloured`: every point has a value.
    pub(crate) fn new(arena: &'a mut Arena, coloured: bool) -> Self {
        let store = LineStore { blocks: Vec::new(), coloured, bounds: Aabb::EMPTY, range: Range::EMPTY, segments: 0 };
        Self {
            arena,
            store,
            block: Vec::new(),
            block_points: 0,
            block_bounds: Aabb::EMPTY,
            points: Vec::new(),
            values: Vec::new(),
            before: None,
        }
    }

    /// Adds the next point of the line.
    pub(crate) fn point(&mut self, p: [f64; 3], value: f64) -> Result<(), FieldError> {
        self.store.range.include(value);
        if self.points.len() == BLOCK_POINTS {
            self.part(Some(p))?;
        }
        self.points.push(p);
        self.values.push(value as f32);
        Ok(())
    }

    pub(crate) fn end_line(&mut self) -> Result<(), FieldError> {
        // After a cut the last point is drawn already.
        if self.points.len() > 1 || (self.points.len() == 1 && self.before.is_none()) {
            self.part(None)?;
        }
        self.points.clear();
        self.values.clear();
        self.before = None;
        Ok(())
    }

    /// Moves the points into the block. The last one begins the next part.
    fn part(&mut self, after: Option<[f64; 3]>) -> Result<(), FieldError> {
        let n = self.points.len();
        if self.block_points > 0 && self.block_points + n > BLOCK_POINTS {
            self.flush()?;
        }
        let flags = if self.before.is_some() { BEFORE } else { 0 } | if after.is_some() { AFTER } else { 0 };
        self.block.extend_from_slice(&(n as u32).to_ne_bytes());
        self.block.extend_from_slice(&flags.to_ne_bytes());
        for p in self.before.iter().chain(&self.points).chain(&after) {
            for c in p {
                self.block.extend_from_slice(&c.to_ne_bytes());
            }
        }
        if self.store.coloured {
            for v in &self.values {
                self.block.extend_from_slice(&v.to_ne_bytes());
            }
        }
        let bounds = Aabb::of(self.points.iter().map(|p| DVec3::from_array(*p)));
        self.block_bounds = self.block_bounds.union(&bounds);
        self.block_points += n;
        self.store.segments += n as u64 - 1;
        // The bend at the next part's first point needs the point before it.
        self.before = if n > 1 { Some(self.points[n - 2]) } else { self.before };
        self.points.drain(..n - 1);
        self.values.drain(..n - 1);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), FieldError> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.arena.charge_entry(size_of::<LineBlock>())?;
        let offset = self.arena.append(&self.block)?;
        self.store.blocks.push(LineBlock { bounds: self.block_bounds, offset, bytes: self.block.len() as u32 });
        self.store.bounds = self.store.bounds.union(&self.block_bounds);
        self.block.clear();
        (self.block_points, self.block_bounds) = (0, Aabb::EMPTY);
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<LineStore, FieldError> {
        self.end_line()?;
        self.flush()?;
        Ok(self.store)
    }
}

/// Lines of a store as geometry for the renderer.
pub(crate) struct LineLayer<'a> {
    pub(crate) log: &'a ByteLog,
    pub(crate) lines: &'a LineStore,
}

impl Geometry for LineLayer<'_> {
    fn bounds(&self) -> Aabb {
        self.lines.bounds
    }

    fn for_each(&self, wanted: BoxFilter<'_>, visit: &mut dyn FnMut(Chunk<'_>)) -> Result<(), GeometryError> {
        let (mut bytes, mut points, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for block in &self.lines.blocks {
            // A block without finite points has no box, but must be counted.
            if !block.bounds.is_empty() && !wanted(&block.bounds) {
                continue;
            }
            bytes.resize(block.bytes as usize, 0);
            self.log.read_at(block.offset, &mut bytes)?;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (n, flags) = (word(&mut rest)? as usize, word(&mut rest)?);
                let extra = usize::from(flags & BEFORE != 0) + usize::from(flags & AFTER != 0);
                points.clear();
                positions(take(&mut rest, (n + extra) * 24)?, &mut points);
                values.clear();
                if self.lines.coloured {
                    floats(take(&mut rest, n * 4)?, &mut values);
                }
                let first = usize::from(flags & BEFORE != 0);
                visit(Chunk::Line(Polyline {
                    points: Positions::F64(&points[first..first + n]),
                    scalars: self.lines.coloured.then_some(&values[..]),
                    radii: None,
                    before: (flags & BEFORE != 0).then(|| DVec3::from_array(points[0])),
                    after: (flags & AFTER != 0).then(|| DVec3::from_array(points[first + n])),
                }));
            }
        }
        Ok(())
    }
}

fn take<'b>(rest: &mut &'b [u8], bytes: usize) -> Result<&'b [u8], GeometryError> {
    let (head, tail) = rest.split_at_checked(bytes).ok_or("what was gathered for the picture cannot be read back")?;
    *rest = tail;
    Ok(head)
}

fn word(rest: &mut &[u8]) -> Result<u32, GeometryError> {
    let head = take(rest, 4)?;
    Ok(u32::from_ne_bytes([head[0], head[1], head[2], head[3]]))
}

/// Appends positions from bytes.
pub(crate) fn positions(bytes: &[u8], out: &mut Vec<[f64; 3]>) {
    let number = |b: &[u8]| f64::from_ne_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
    out.extend(bytes.chunks_exact(24).map(|b| [number(b), number(&b[8..]), number(&b[16..])]));
}

/// Appends values from bytes.
pub(crate) fn floats(bytes: &[u8], out: &mut Vec<f32>) {
    out.extend(bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])));
}
