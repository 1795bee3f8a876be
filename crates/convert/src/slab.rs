//! Fills slabs from the rows or boxes of a source: the pipeline's reader for grids.

use super::piece::ReadPiece;
use super::pipeline::{Conversion, Output};
use super::plan::{ConversionPlan, PieceSlab, ShardPiece, READS, READ_BYTES};
use super::record::Record;
use super::Spans;
use field::error::FieldError;
use field::store::layout::ShardGrid;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::scope;

impl Conversion for ConversionPlan<'_> {
    fn pieces(&self, unit: usize) -> Vec<ShardPiece> {
        ConversionPlan::pieces(self, unit)
    }

    fn piece_bytes(&self, piece: &ShardPiece) -> (usize, usize) {
        let slab = self.slab_of(piece);
        (slab.values, slab.bytes)
    }

    fn slab_bytes(&self) -> usize {
        self.slab_bytes
    }

    fn read(&self, piece: &ShardPiece, out: &mut [u8]) -> Result<(), FieldError> {
        read_slab(self, piece.unit, &self.slab_of(piece), out)
    }

    fn begin(&self, unit: usize) -> Record {
        let u = &self.units[unit];
        let (ranges, boxes) = self.record_sizes(u);
        Record {
            unit: unit as u64,
            uniform: self.uniform_of(u.zone, u.array).is_some(),
            ranges: vec![0.0; ranges],
            boxes: vec![field::boxes::EMPTY; boxes],
            ..Record::default()
        }
    }

    fn encode(
        &self,
        piece: &ShardPiece,
        bytes: &[u8],
        record: &mut Record,
        out: &mut Output,
    ) -> Result<(), FieldError> {
        let (slab, pages) = (self.slab_of(piece), piece.pages.clone());
        ReadPiece { plan: self, unit: piece.unit, pages, slab, bytes }.run(record, &mut out.pages)
    }

    fn shard(&self, unit: usize) -> Option<(&ShardGrid, u64, String)> {
        let u = &self.units[unit];
        let layout = self.layout(u);
        self.data.then(|| (&layout.grid, u.shard, layout.shard_path(u.step, u.shard)))
    }

    fn spans(&self) -> &Spans {
        &self.options.spans
    }
}

/// Some rows of one plane of one component.
struct RowTarget<'b> {
    array: usize,
    step: usize,
    component: usize,
    k: usize,
    j: usize,
    out: &'b mut [u8],
}

/// Reads all components' planes of a slab, several at once.
pub(super) fn read_slab(
    plan: &ConversionPlan<'_>,
    unit: usize,
    slab: &PieceSlab,
    bytes: &mut [u8],
) -> Result<(), FieldError> {
    let u = &plan.units[unit];
    let size = plan.layout(u).dtype.size();
    let dims = plan.zones[u.zone].paging.dims;
    let arrays = &plan.input.arrays[u.zone];
    let [ni, nj, nk] = slab.size;
    let mut parts = Vec::new();
    let (values, behind) = bytes.split_at_mut(slab.values.next_multiple_of(8));
    if arrays[u.array].rows.by_boxes() {
        // A page of such a source has pieces of many rows, and each row would decode all of it.
        arrays[u.array].rows.read_box(u.step, &slab.points, &mut values[..slab.values])?;
        if let (true, Some(array)) = (slab.iblank, plan.boxes_of(u.zone, u.array).1) {
            let len = slab.bytes - slab.values.next_multiple_of(8);
            arrays[array].rows.read_box(plan.iblank_step(u.zone, array, u.step), &slab.points, &mut behind[..len])?;
        }
        return Ok(());
    }
    // Long planes are divided so that reads can run in parallel.
    let row = ni * size;
    let rows = (READ_BYTES.max((row * nj).div_ceil(READS)) / row).max(1);
    for (n, out) in values[..slab.values].chunks_exact_mut(row * nj).enumerate() {
        for (m, out) in out.chunks_mut(rows * row).enumerate() {
            let (k, j) = (slab.points[2].start + n % nk, slab.points[1].start + m * rows);
            parts.push(RowTarget { array: u.array, step: u.step, component: n / nk, k, j, out });
        }
    }
    if let (true, Some(array)) = (slab.iblank, plan.boxes_of(u.zone, u.array).1) {
        let step = plan.iblank_step(u.zone, array, u.step);
        let len = slab.bytes - slab.values.next_multiple_of(8);
        for (n, out) in behind[..len].chunks_exact_mut(ni * nj * 4).enumerate() {
            let (k, j) = (slab.points[2].start + n, slab.points[1].start);
            parts.push(RowTarget { array, step, component: 0, k, j, out });
        }
    }
    let one = |p: &mut RowTarget<'_>| -> Result<(), FieldError> {
        let source = &arrays[p.array].rows;
        let size = plan.zones[u.zone].arrays[p.array].dtype.size();
        let (row, whole) = (ni * size, dims[0] * size);
        let count = p.out.len() / row;
        if ni == dims[0] {
            return source.read_rows(p.step, p.component, p.k, p.j..p.j + count, p.out);
        }
        // Only some columns: whole rows pass through a small buffer.
        let most = (READ_BYTES / whole).max(1);
        let mut buffer = vec![0; most.min(count) * whole];
        let skip = slab.points[0].start * size;
        for (n, out) in p.out.chunks_mut(most * row).enumerate() {
            let buffer = &mut buffer[..out.len() / row * whole];
            let j = p.j + n * most;
            source.read_rows(p.step, p.component, p.k, j..j + out.len() / row, buffer)?;
            for (out, from) in out.chunks_exact_mut(row).zip(buffer.chunks_exact(whole)) {
                out.copy_from_slice(&from[skip..skip + row]);
            }
        }
        Ok(())
    };
    let total: usize = parts.iter().map(|p| p.out.len()).sum();
    let readers = READS.min(total / READ_BYTES).min(parts.len());
    if readers <= 1 {
        return parts.iter_mut().try_for_each(one);
    }
    // In the order of the file, by any free thread: the system's read-ahead sees one stream.
    let parts: Vec<Mutex<_>> = parts.into_iter().map(Mutex::new).collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), FieldError> {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(e) = one(&mut part.lock().unwrap_or_else(PoisonError::into_inner)) {
                next.store(usize::MAX / 2, Ordering::Relaxed);
                return Err(e);
            }
        }
        Ok(())
    };
    scope(|threads| {
        let others: Vec<_> = (1..readers).map(|_| threads.spawn(work)).collect();
        let mut done = work();
        for t in others {
            let result = t.join().unwrap_or(Err(FieldError::Internal("a reader's thread panicked")));
            if done.is_ok() {
                done = result;
            }
        }
        done
    })
}
