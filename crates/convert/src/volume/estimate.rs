//! The cost of a conversion, without writing.

use super::piece::VolumeJob;
use super::plan::VolumePlan;
use super::report::VolumeReport;
use super::spool::Spool;
use crate::aligned::AlignedBytes;
use crate::estimate::{LEVEL_SHARE, WRITE_RATE};
use crate::pipeline::{Conversion, Output};
use field::error::FieldError;
use field::store::codec::CRC_BYTES;
use std::path::Path;
use std::time::Instant;

/// Bytes of the root beside a seal and a checksum for each array.
const ROOT_BYTES: u64 = 4096;

/// The report of a dry run. Reads a few megabytes.
pub(super) fn estimate(plan: &VolumePlan<'_>) -> Result<VolumeReport, FieldError> {
    let layout = &plan.layout;
    let mut report = VolumeReport::of(plan);
    let levels = 0..layout.levels.len();
    let indexes = levels.clone().map(|n| layout.shard_count(n) * layout.levels[n].grid.head_bytes() as u64);
    let ranges = layout.ranges().map(|a| a.page_count() * a.page_bytes() as u64).sum::<u64>();
    let range_indexes = layout.ranges().map(|a| a.shard_count() * a.grid.head_bytes() as u64).sum::<u64>();
    let documents = layout.documents().map(|(_, bytes)| bytes.len() as u64 + 48).sum::<u64>();
    let overhead = indexes.sum::<u64>()
        + (ranges as f64 * LEVEL_SHARE) as u64
        + range_indexes
        + plan.pages() * CRC_BYTES as u64
        + documents
        + ROOT_BYTES;
    let (ratio, rate) = sample(plan)?;
    let data = (report.padded_bytes as f64 * ratio) as u64;
    report.store_bytes = data + overhead;
    report.seconds = Some(report.value_bytes as f64 / rate.max(1.0) / 2.0 + (data + overhead) as f64 / WRITE_RATE);
    Ok(report)
}

/// The ratio of encoded to raw bytes, and the rate of reading and encoding in bytes a second. The sample is a piece
/// from the middle of the finest level.
fn sample(plan: &VolumePlan<'_>) -> Result<(f64, f64), FieldError> {
    let grid = &plan.layout.levels[0].grid;
    let shard = grid.locate(grid.paging.pages.map(|n| n / 2)).0;
    let unit = plan.units_of(plan.layout.steps / 2, 0).start + usize::try_from(shard).unwrap_or(0);
    let job = VolumeJob { plan, spool: Spool::new(plan, Path::new("")) };
    let pieces = job.pieces(unit);
    let Some(piece) = pieces.get(pieces.len() / 2) else { return Ok((1.0, 1.0)) };
    let started = Instant::now();
    let (values, bytes) = job.piece_bytes(piece);
    let mut words = AlignedBytes::new(bytes);
    job.read(piece, &mut words.bytes_mut()[..bytes])?;
    let (mut record, mut out) = (job.begin(unit), Output::default());
    job.encode(piece, &words.bytes()[..bytes], &mut record, &mut out)?;
    let seconds = started.elapsed().as_secs_f64();
    let pages: usize = out.pages.iter().map(|e| e.lens.len()).sum();
    let raw = (pages * plan.layout.page_bytes(0)) as f64;
    // Checksums belong to the overhead.
    let encoded: usize = out.pages.iter().map(|e| e.bytes.len() - CRC_BYTES * e.lens.len()).sum();
    Ok((encoded as f64 / raw.max(1.0), values as f64 / seconds.max(1e-6)))
}
