//! Gathers the units' limits and boxes to the pyramids under `_farfield`.

use super::disk::{failed, Disk};
use super::pipeline::Places;
use super::plan::{Plan, Unit};
use super::record::Record;
use super::shard::ShardWriter;
use field::boxes::{widen, Bounds};
use field::catalog::DType;
use field::error::FieldError;
use field::store::codec::Encoder;
use field::store::layout::ArrayLayout;
use field::store::metadata::ArraySeal;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// One level of one step, row by row: `[k][j]` rows of `[i][component]`, in memory or, where it is large, in a file. The
/// first half of the components are lower limits, the rest upper ones.
struct Grid {
    dims: [usize; 3],
    components: usize,
    place: Place,
}

enum Place {
    Memory(Vec<f64>),
    File(File, PathBuf),
}

impl Grid {
    /// Empty: +inf and -inf. In memory if it takes at most `most` bytes.
    fn new(disk: &Disk, path: &Path, dims: [usize; 3], components: usize, most: usize) -> Result<Self, FieldError> {
        let values = dims.iter().product::<usize>() * components;
        let mut grid = Self { dims, components, place: Place::Memory(Vec::new()) };
        let row = grid.empty_row();
        if values * 8 <= most {
            let mut all = Vec::with_capacity(values);
            (0..dims[1] * dims[2]).for_each(|_| all.extend_from_slice(&row));
            grid.place = Place::Memory(all);
        } else {
            grid.place = Place::File(disk.create(path)?, path.to_owned());
            for k in 0..dims[2] {
                for j in 0..dims[1] {
                    grid.put(disk, j, k, 0, &row)?;
                }
            }
        }
        Ok(grid)
    }

    fn empty_row(&self) -> Vec<f64> {
        let half = self.components / 2;
        let one = |n: usize| if n % self.components < half { f64::INFINITY } else { f64::NEG_INFINITY };
        (0..self.dims[0] * self.components).map(one).collect()
    }

    /// First value of row (j, k) from column `i` on.
    fn at(&self, j: usize, k: usize, i: usize) -> usize {
        ((k * self.dims[1] + j) * self.dims[0] + i) * self.components
    }

    fn get(&self, j: usize, k: usize, i: usize, out: &mut [f64]) -> Result<(), FieldError> {
        let at = self.at(j, k, i);
        match &self.place {
            Place::Memory(v) => out.copy_from_slice(&v[at..at + out.len()]),
            Place::File(file, path) => {
                let mut bytes = vec![0; out.len() * 8];
                file.read_exact_at(&mut bytes, at as u64 * 8).map_err(|e| failed(path, e))?;
                for (x, b) in out.iter_mut().zip(bytes.chunks_exact(8)) {
                    *x = f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, disk: &Disk, j: usize, k: usize, i: usize, row: &[f64]) -> Result<(), FieldError> {
        let at = self.at(j, k, i);
        match &mut self.place {
            Place::Memory(v) => v[at..at + row.len()].copy_from_slice(row),
            Place::File(file, path) => {
                let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
                disk.write_at(file, path, &bytes, at as u64 * 8)?;
            }
        }
        Ok(())
    }

    /// Joins `row` into row (j, k) from column `i` on.
    fn join(&mut self, disk: &Disk, j: usize, k: usize, i: usize, row: &[f64]) -> Result<(), FieldError> {
        let mut have = vec![0.0; row.len()];
        self.get(j, k, i, &mut have)?;
        for (have, row) in have.chunks_exact_mut(self.components).zip(row.chunks_exact(self.components)) {
            merge(have, row);
        }
        self.put(disk, j, k, i, &have)
    }

    /// The next level: 2x2x2 joined.
    fn half(&self, disk: &Disk, path: &Path, dims: [usize; 3], most: usize) -> Result<Self, FieldError> {
        let mut next = Self::new(disk, path, dims, self.components, most)?;
        let mut row = vec![0.0; self.dims[0] * self.components];
        for k in 0..self.dims[2] {
            for j in 0..self.dims[1] {
                self.get(j, k, 0, &mut row)?;
                let mut short = next.empty_row();
                for (i, v) in row.chunks_exact(self.components).enumerate() {
                    merge(&mut short[i / 2 * self.components..][..self.components], v);
                }
                next.join(disk, j / 2, k / 2, 0, &short)?;
            }
        }
        Ok(next)
    }
}

/// Joins limits: the first half least, the rest greatest.
fn merge(have: &mut [f64], more: &[f64]) {
    let half = have.len() / 2;
    for (n, (h, m)) in have.iter_mut().zip(more).enumerate() {
        let better = if n < half { *m < *h } else { *m > *h };
        *h = if better { *m } else { *h };
    }
}

/// Writes all ranges and boxes; answers the seals in the order of `all_arrays`.
pub(super) fn write_all(
    plan: &Plan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Vec<ArraySeal>, FieldError> {
    let mut seals = Vec::new();
    // Those of what is there, in the same order.
    let empty = ArraySeal { bytes: 0, pages: 0 };
    let before = |n: usize| plan.base.and_then(|b| b.seals().get(n).copied()).unwrap_or(empty);
    // Two levels are there at once.
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

/// A record that was found whole when the run began or was written since.
pub(super) fn read(plan: &Plan<'_>, places: &Places<'_>, unit: usize) -> Result<Record, FieldError> {
    let path = places.record(unit);
    let (ranges, boxes) = plan.record_sizes(&plan.units[unit]);
    Record::read(&path, unit as u64, ranges, boxes)
        .ok_or_else(|| FieldError::format(path, "changed while it was used; run again with --resume"))
}

/// The units of a step.
fn units_of<'p>(
    plan: &'p Plan<'_>,
    (zone, array, step): (usize, usize, usize),
) -> impl Iterator<Item = (usize, &'p Unit)> {
    plan.numbers[zone][array].iter().map(|&n| (n, &plan.units[n])).filter(move |(_, u)| u.step == step)
}

/// Level 0 of ranges: one entry for each page.
fn limits(
    plan: &Plan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    of: (usize, usize, usize),
    grid: &mut Grid,
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

/// Level 0 of boxes: units share blocks, so they are joined, and rounded when all are there.
fn boxes(
    plan: &Plan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    of: (usize, usize, usize),
    grid: &mut Grid,
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
                // They were floats before.
                let bounds: Bounds = std::array::from_fn(|c| b[c] as f32);
                b.iter_mut().zip(widen(bounds)).for_each(|(x, w)| *x = f64::from(w));
            }
            grid.put(disk, j, k, 0, &row)?;
        }
    }
    Ok(())
}

/// Writes the levels of one array, finest first; their seals are the last ones.
fn pyramid(
    plan: &Plan<'_>,
    disk: &Disk,
    places: &Places<'_>,
    levels: &[ArrayLayout],
    most: usize,
    seals: &mut [ArraySeal],
    first: impl Fn(usize, &mut Grid) -> Result<(), FieldError>,
) -> Result<(), FieldError> {
    let Some(base) = levels.first() else { return Ok(()) };
    let from = seals.len() - levels.len();
    let scratch = |level: usize| places.units.join(format!("level{level}"));
    for step in plan.first_step(base)..base.steps {
        let mut grid = Grid::new(disk, &scratch(0), base.grid.paging.dims, base.components(), most)?;
        first(step, &mut grid)?;
        for (n, layout) in levels.iter().enumerate() {
            if n > 0 {
                grid = grid.half(disk, &scratch(n), layout.grid.paging.dims, most)?;
            }
            write_level(disk, places.store, layout, step, &grid, &mut seals[from + n])?;
        }
    }
    (0..levels.len()).try_for_each(|n| disk.remove(&scratch(n)))?;
    debug_assert_eq!(plan.zones.len(), plan.numbers.len());
    Ok(())
}

/// Writes one level of one step.
fn write_level(
    disk: &Disk,
    store: &Path,
    layout: &ArrayLayout,
    step: usize,
    grid: &Grid,
    seal: &mut ArraySeal,
) -> Result<(), FieldError> {
    let p = layout.grid.paging;
    let nc = layout.components();
    let size = layout.dtype.size();
    let io = |e: std::io::Error| failed(&store.join(&layout.path), e);
    let mut encoder = Encoder::new(layout.codec, size).map_err(io)?;
    let mut strip = vec![0.0; p.page[1] * p.page[2] * p.dims[0] * nc];
    let (mut scratch, mut out, mut lens) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..layout.grid.count() {
        let pages = layout.grid.pages_of(number);
        let mut shard = ShardWriter::new(disk, store.join(layout.shard_path(step, number)), layout, number)?;
        for pk in pages[2].clone() {
            for pj in pages[1].clone() {
                // Rows of this row of pages; past the end the last one goes on.
                for k in 0..p.page[2] {
                    for j in 0..p.page[1] {
                        let (gj, gk) =
                            ((pj * p.page[1] + j).min(p.dims[1] - 1), (pk * p.page[2] + k).min(p.dims[2] - 1));
                        grid.get(gj, gk, 0, &mut strip[(k * p.page[1] + j) * p.dims[0] * nc..][..p.dims[0] * nc])?;
                    }
                }
                out.clear();
                lens.clear();
                for pi in pages[0].clone() {
                    let fill = |page: &mut [u8]| {
                        let mut at = 0;
                        for c in 0..nc {
                            for row in strip.chunks_exact(p.dims[0] * nc) {
                                for i in 0..p.page[0] {
                                    let x = row[(pi * p.page[0] + i).min(p.dims[0] - 1) * nc + c];
                                    if layout.dtype == DType::Float32 {
                                        page[at..at + 4].copy_from_slice(&(x as f32).to_ne_bytes());
                                    } else {
                                        page[at..at + 8].copy_from_slice(&x.to_ne_bytes());
                                    }
                                    at += size;
                                }
                            }
                        }
                    };
                    let len = encoder.encode_with(layout.page_bytes(), &mut scratch, &mut out, fill).map_err(io)?;
                    lens.push(u32::try_from(len).map_err(|e| io(std::io::Error::other(e)))?);
                }
                shard.append(disk, layout, &out, &lens)?;
            }
        }
        let done = shard.finish(disk, layout)?;
        seal.bytes += done.bytes;
        seal.pages = crc32c::crc32c_append(seal.pages, &done.seal.to_le_bytes());
    }
    Ok(())
}
