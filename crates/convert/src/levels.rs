//! Gathers the units' limits and boxes into the pyramids under `_farfield`.

use super::disk::Disk;
use super::grid::{write_level, LevelRows, Order};
use super::pipeline::Places;
use super::plan::{ConversionPlan, ShardUnit};
use super::record::Record;
use field::boxes::{widen, Bounds};
use field::error::FieldError;
use field::store::layout::ArrayLayout;
use field::store::metadata::ArraySeal;

/// Writes all ranges and boxes. Returns the seals in the order of `all_arrays`.
pub(super) fn write_all(
    plan: &ConversionPlan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Vec<ArraySeal>, FieldError> {
    let mut seals = Vec::new();
    // Those of existing steps, in the same order.
    let empty = ArraySeal { bytes: 0, pages: 0 };
    let before = |n: usize| plan.base.and_then(|b| b.seals().get(n).copied()).unwrap_or(empty);
    // Two levels exist at once.
    let most = usize::try_from(plan.memory / 4).unwrap_or(usize::MAX);
    for (z, zone) in plan.zones.iter().enumerate() {
        if plan.data {
            for (a, layout) in zone.arrays.iter().enumerate() {
                let mut seal = before(seals.len());
                for &unit in &plan.numbers[z][a] {
                    let record = read(plan, places, unit)?;
                    seal.bytes += record.shard_bytes;
                    seal.pages = crc32c::crc32c_append(seal.pages, &record.seal.to_le_bytes());
                }
                let there = plan.first_step(layout) as u64 * layout.grid.count();
                debug_assert_eq!(plan.numbers[z][a].len() as u64 + there, layout.shard_count());
                seals.push(seal);
            }
        }
        for (a, levels) in zone.ranges.iter().enumerate() {
            if !go_on() {
                return Err(FieldError::Interrupted);
            }
            seals.extend((0..levels.len()).map(|n| before(seals.len() + n)).collect::<Vec<_>>());
            pyramid(plan, disk, places, levels, most, &mut seals, |step, grid| {
                limits(plan, disk, places, (z, a, step), grid)
            })?;
        }
        if let Some(xyz) = zone.xyz {
            if !go_on() {
                return Err(FieldError::Interrupted);
            }
            seals.extend((0..zone.boxes.len()).map(|n| before(seals.len() + n)).collect::<Vec<_>>());
            pyramid(plan, disk, places, &zone.boxes, most, &mut seals, |step, grid| {
                boxes(plan, disk, places, (z, xyz, step), grid)
            })?;
        }
    }
    Ok(seals)
}

/// A record that was complete at the begin of the run, or was written since.
pub(super) fn read(plan: &ConversionPlan<'_>, places: &Places<'_>, unit: usize) -> Result<Record, FieldError> {
    let path = places.record(unit);
    let (ranges, boxes) = plan.record_sizes(&plan.units[unit]);
    Record::read(&path, unit as u64, ranges, boxes)
        .ok_or_else(|| FieldError::format(path, "changed while it was used; run again with --resume"))
}

/// The units of a step.
fn units_of<'p>(
    plan: &'p ConversionPlan<'_>,
    (zone, array, step): (usize, usize, usize),
) -> impl Iterator<Item = (usize, &'p ShardUnit)> {
    plan.numbers[zone][array].iter().map(|&n| (n, &plan.units[n])).filter(move |(_, u)| u.step == step)
}

/// Level 0 of ranges: one entry for each page.
fn limits(
    plan: &ConversionPlan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    of: (usize, usize, usize),
    grid: &mut LevelRows,
) -> Result<(), FieldError> {
    for (number, unit) in units_of(plan, of) {
        let record = read(plan, places, number)?;
        let pages = plan.layout(unit).grid.pages_of(unit.shard);
        for (n, row) in record.ranges.chunks_exact(pages[0].len() * grid.components).enumerate() {
            let (j, k) = (pages[1].start + n % pages[1].len(), pages[2].start + n / pages[1].len());
            grid.put(disk, j, k, pages[0].start, row)?;
        }
    }
    Ok(())
}

/// Level 0 of boxes: units share blocks, so they are joined, and rounded after the last.
fn boxes(
    plan: &ConversionPlan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    of: (usize, usize, usize),
    grid: &mut LevelRows,
) -> Result<(), FieldError> {
    for (number, unit) in units_of(plan, of) {
        let record = read(plan, places, number)?;
        let [bi, bj, bk] = plan.blocks(unit);
        let mut row = vec![0.0; bi.len() * 6];
        for (n, from) in record.boxes.chunks_exact(bi.len().max(1)).enumerate() {
            row.iter_mut().zip(from.iter().flatten()).for_each(|(x, &b)| *x = f64::from(b));
            grid.join(disk, bj.start + n % bj.len(), bk.start + n / bj.len(), bi.start, &row)?;
        }
    }
    let mut row = vec![0.0; grid.dims[0] * 6];
    for k in 0..grid.dims[2] {
        for j in 0..grid.dims[1] {
            grid.get(j, k, 0, &mut row)?;
            for b in row.chunks_exact_mut(6) {
                // Their values come from floats.
                let bounds: Bounds = std::array::from_fn(|c| b[c] as f32);
                b.iter_mut().zip(widen(bounds)).for_each(|(x, w)| *x = f64::from(w));
            }
            grid.put(disk, j, k, 0, &row)?;
        }
    }
    Ok(())
}

/// Writes the levels of one array, finest first. Their seals are added at the end.
fn pyramid(
    plan: &ConversionPlan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    levels: &[ArrayLayout],
    most: usize,
    seals: &mut [ArraySeal],
    first: impl Fn(usize, &mut LevelRows) -> Result<(), FieldError>,
) -> Result<(), FieldError> {
    let Some(base) = levels.first() else { return Ok(()) };
    let from = seals.len() - levels.len();
    let scratch = |level: usize| places.units.join(format!("level{level}"));
    for step in plan.first_step(base)..base.steps {
        let mut grid =
            LevelRows::new(disk, &scratch(0), base.grid.paging.dims, base.components(), Order::Halves, most)?;
        first(step, &mut grid)?;
        for (n, layout) in levels.iter().enumerate() {
            if n > 0 {
                grid = grid.coarser(disk, &scratch(n), layout.grid.paging.dims, 2, most)?;
            }
            write_level(disk, places.store, layout, step, &grid, &mut seals[from + n])?;
        }
    }
    (0..levels.len()).try_for_each(|n| disk.remove(&scratch(n)))?;
    debug_assert_eq!(plan.zones.len(), plan.numbers.len());
    Ok(())
}
