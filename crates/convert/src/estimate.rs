//! The cost of a conversion, without writing.

use super::aligned::AlignedBytes;
use super::piece::ReadPiece;
use super::plan::ConversionPlan;
use super::record::Record;
use super::request::ConvertRequest;
use super::slab::read_slab;
use super::{ChargeMemory, ConvertInput, ConvertOptions};
use field::error::FieldError;
use field::store::codec::CRC_BYTES;
use field::store::layout::{documents, ArrayLayout};
use std::path::Path;
use std::time::Instant;

/// Assumed writing rate of a disk in bytes a second, since a dry run does not write.
pub(super) const WRITE_RATE: f64 = 400e6;
/// Size of compressed ranges and boxes with their indexes, relative to their values.
pub(super) const LEVEL_SHARE: f64 = 0.6;

/// The cost of a conversion.
#[derive(Clone, Debug, PartialEq)]
pub struct DryRun {
    /// Bytes of the source's values.
    pub source_bytes: u64,
    /// Bytes of the store. Exact except for ranges and boxes with codec none, otherwise by a sample.
    pub store_bytes: u64,
    /// Of those, ranges, boxes, indexes and documents.
    pub overhead_bytes: u64,
    /// Pages of the data.
    pub pages: u64,
    /// Bytes of pages before encoding over bytes of values; 1 is no padding.
    pub padding_disk: f64,
    /// Bytes of frames over bytes of values when all pages are resident. It has the padding on disk, and the rounding
    /// of each page to whole pages of the system.
    pub padding_memory: f64,
    /// Page box (i, j, k) of each zone.
    pub page_boxes: Vec<[usize; 3]>,
    /// Shards of the data.
    pub shards: u64,
    /// Memory of the conversion, as charged.
    pub memory: u64,
    /// Estimated seconds: reading and encoding by a sample, writing by an assumed rate.
    pub seconds: f64,
}

/// Reports the work of [`super::convert`]. Reads a few megabytes.
///
/// # Errors
/// As [`super::convert`], for the source and the limit.
pub fn dry_run(
    input: &ConvertInput,
    dst: &Path,
    options: &ConvertOptions,
    charge: &ChargeMemory<'_>,
) -> Result<DryRun, FieldError> {
    let (plan, _charged) = ConversionPlan::within(&ConvertRequest::new(input, dst, options), charge)?;
    let arrays = || plan.zones.iter().flat_map(|z| &z.arrays);
    let source_bytes = plan.source_bytes();
    let padded = plan.padded_bytes();
    let levels = || plan.zones.iter().flat_map(|z| z.ranges.iter().flatten().chain(&z.boxes));
    let level_values: u64 = levels().map(|a| a.page_count() * a.page_bytes() as u64).sum();
    let index = |a: &ArrayLayout| a.shard_count() * a.grid.head_bytes() as u64;
    let document_bytes = 2048 + documents(&plan.zones, true).map(|(_, bytes)| bytes.len() as u64 + 16).sum::<u64>();
    let overhead_bytes = (level_values as f64 * LEVEL_SHARE) as u64
        + arrays().map(index).sum::<u64>()
        + levels().map(index).sum::<u64>()
        + arrays().map(|a| a.page_count() * 4).sum::<u64>()
        + document_bytes;
    let (ratio, rate) = sample(&plan)?;
    let data = (padded as f64 * ratio) as u64;
    let padding = padded as f64 / source_bytes.max(1) as f64;
    let seconds = source_bytes as f64 / rate.max(1.0) / 2.0 + (data + overhead_bytes) as f64 / WRITE_RATE;
    Ok(DryRun {
        source_bytes,
        store_bytes: data + overhead_bytes,
        overhead_bytes,
        pages: arrays().map(ArrayLayout::page_count).sum(),
        padding_disk: padding,
        padding_memory: plan.resident_bytes() as f64 / source_bytes.max(1) as f64,
        page_boxes: plan.page_boxes(),
        shards: plan.units.len() as u64,
        memory: plan.memory,
        seconds,
    })
}

/// The ratio of encoded to raw bytes, and the rate of reading and encoding in bytes a second. The sample is a row of
/// pages from the middle of each array of the largest zone.
fn sample(plan: &ConversionPlan<'_>) -> Result<(f64, f64), FieldError> {
    let Some((zone, layout)) = plan.zones.iter().enumerate().max_by_key(|(_, z)| z.paging.points()) else {
        return Ok((1.0, 1.0));
    };
    let (mut raw, mut encoded, mut seconds) = (0u64, 0u64, 0.0);
    for (array, layout) in layout.arrays.iter().enumerate() {
        let started = Instant::now();
        let [_, nj, nk] = layout.grid.paging.pages;
        let (shard, _) = layout.grid.locate([0, nj / 2, nk / 2]);
        let count = usize::try_from(shard).unwrap_or(0);
        let unit = plan.numbers[zone][array].get(count).copied().unwrap_or(0);
        let pages = layout.grid.pages_of(shard);
        let row = [pages[0].clone(), nj / 2..nj / 2 + 1, nk / 2..nk / 2 + 1];
        let Some(piece) = plan.split(zone, array, &row, plan.slab_bytes).into_iter().next() else { continue };
        let slab = plan.slab(zone, array, &piece.pages);
        let mut words = AlignedBytes::new(slab.bytes);
        read_slab(plan, unit, &slab, words.bytes_mut())?;
        let (ranges, boxes) = plan.record_sizes(&plan.units[unit]);
        let mut record =
            Record { ranges: vec![0.0; ranges], boxes: vec![field::boxes::EMPTY; boxes], ..Record::default() };
        let mut out = Vec::new();
        let read = slab.values as u64;
        ReadPiece { plan, unit, pages: piece.pages, slab, bytes: words.bytes() }.run(&mut record, &mut out)?;
        let pages: usize = out.iter().map(|e| e.lens.len()).sum();
        raw += (pages * layout.page_bytes()) as u64;
        // Checksums belong to the overhead.
        encoded += out.iter().map(|e| (e.bytes.len() - CRC_BYTES * e.lens.len()) as u64).sum::<u64>();
        seconds += started.elapsed().as_secs_f64() * (raw as f64 / read.max(1) as f64).min(1.0);
    }
    Ok((encoded as f64 / raw.max(1) as f64, raw as f64 / seconds.max(1e-6)))
}
