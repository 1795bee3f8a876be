//! Limits of pages or blocks, as they are gathered and as they are written.

use super::disk::{failed, Disk};
use super::shard::ShardWriter;
use field::catalog::DType;
use field::error::FieldError;
use field::store::codec::Encoder;
use field::store::layout::ArrayLayout;
use field::store::metadata::ArraySeal;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The components of an entry that are lower limits; the others are upper ones.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first half.
    Halves,
    /// Every other one, from the first on.
    Pairs,
}

impl Order {
    const fn is_lower(self, n: usize, components: usize) -> bool {
        match self {
            Self::Halves => n < components / 2,
            Self::Pairs => n.is_multiple_of(2),
        }
    }
}

/// One level of one step, row by row: `[k][j]` rows of `[i][component]`, in memory or, if it is large, in a file.
pub struct LevelRows {
    /// Entries along i, j, k.
    pub dims: [usize; 3],
    /// Numbers of an entry.
    pub components: usize,
    order: Order,
    place: LevelStorage,
}

enum LevelStorage {
    Memory(Vec<f64>),
    File(File, PathBuf),
    /// Rows by their number; a missing row repeats the background's entry.
    Rows(HashMap<usize, Vec<f64>>, Vec<f64>),
}

impl LevelRows {
    /// Empty: +inf and -inf. In memory up to `most` bytes.
    ///
    /// # Errors
    /// [`FieldError::Io`] for a level in a file.
    pub fn new(
        disk: &Disk,
        path: &Path,
        dims: [usize; 3],
        components: usize,
        order: Order,
        most: usize,
    ) -> Result<Self, FieldError> {
        let values = dims.iter().product::<usize>() * components;
        let mut grid = Self { dims, components, order, place: LevelStorage::Memory(Vec::new()) };
        let row = grid.empty_row();
        if values * 8 <= most {
            let mut all = Vec::with_capacity(values);
            (0..dims[1] * dims[2]).for_each(|_| all.extend_from_slice(&row));
            grid.place = LevelStorage::Memory(all);
        } else {
            grid.place = LevelStorage::File(disk.create(path)?, path.to_owned());
            for k in 0..dims[2] {
                for j in 0..dims[1] {
                    grid.put(disk, j, k, 0, &row)?;
                }
            }
        }
        Ok(grid)
    }

    /// Most entries are `background`: only stored rows use memory. The caller ensures that they are few.
    pub fn sparse(dims: [usize; 3], order: Order, background: Vec<f64>) -> Self {
        let components = background.len();
        Self { dims, components, order, place: LevelStorage::Rows(HashMap::new(), background) }
    }

    /// Whether only stored rows use memory.
    pub fn is_sparse(&self) -> bool {
        matches!(self.place, LevelStorage::Rows(..))
    }

    /// Whether a row of a sparse grid is stored.
    fn was_put(&self, j: usize, k: usize) -> bool {
        match &self.place {
            LevelStorage::Rows(rows, _) => rows.contains_key(&(k * self.dims[1] + j)),
            _ => true,
        }
    }

    /// Whether no row of a part of a sparse grid is stored.
    fn is_background(&self, j: &Range<usize>, k: &Range<usize>) -> bool {
        k.clone().all(|k| j.clone().all(|j| !self.was_put(j, k)))
    }

    fn empty_row(&self) -> Vec<f64> {
        let lower = |n: usize| self.order.is_lower(n % self.components, self.components);
        let one = |n: usize| if lower(n) { f64::INFINITY } else { f64::NEG_INFINITY };
        (0..self.dims[0] * self.components).map(one).collect()
    }

    /// First value of row (j, k) from column `i` on.
    fn at(&self, j: usize, k: usize, i: usize) -> usize {
        ((k * self.dims[1] + j) * self.dims[0] + i) * self.components
    }

    /// Fills `out` with row (j, k) from column `i` on.
    ///
    /// # Errors
    /// [`FieldError::Io`] for a level in a file.
    pub fn get(&self, j: usize, k: usize, i: usize, out: &mut [f64]) -> Result<(), FieldError> {
        let at = self.at(j, k, i);
        match &self.place {
            LevelStorage::Rows(rows, background) => match rows.get(&(k * self.dims[1] + j)) {
                Some(row) => out.copy_from_slice(&row[i * self.components..][..out.len()]),
                None => out.chunks_exact_mut(background.len()).for_each(|e| e.copy_from_slice(background)),
            },
            LevelStorage::Memory(v) => out.copy_from_slice(&v[at..at + out.len()]),
            LevelStorage::File(file, path) => {
                let mut bytes = vec![0; out.len() * 8];
                file.read_exact_at(&mut bytes, at as u64 * 8).map_err(|e| failed(path, e))?;
                for (x, b) in out.iter_mut().zip(bytes.chunks_exact(8)) {
                    *x = f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
                }
            }
        }
        Ok(())
    }

    /// Stores `row` in row (j, k) from column `i` on.
    ///
    /// # Errors
    /// [`FieldError::Io`] for a level in a file.
    pub fn put(&mut self, disk: &Disk, j: usize, k: usize, i: usize, row: &[f64]) -> Result<(), FieldError> {
        let at = self.at(j, k, i);
        match &mut self.place {
            LevelStorage::Rows(rows, background) => {
                let whole = || background.repeat(self.dims[0]);
                let to = rows.entry(k * self.dims[1] + j).or_insert_with(whole);
                to[i * self.components..][..row.len()].copy_from_slice(row);
            }
            LevelStorage::Memory(v) => v[at..at + row.len()].copy_from_slice(row),
            LevelStorage::File(file, path) => {
                let bytes: Vec<u8> = row.iter().flat_map(|x| x.to_le_bytes()).collect();
                disk.write_at(file, path, &bytes, at as u64 * 8)?;
            }
        }
        Ok(())
    }

    /// Joins `row` into row (j, k) from column `i` on.
    ///
    /// # Errors
    /// [`FieldError::Io`] for a level in a file.
    pub fn join(&mut self, disk: &Disk, j: usize, k: usize, i: usize, row: &[f64]) -> Result<(), FieldError> {
        let mut have = vec![0.0; row.len()];
        self.get(j, k, i, &mut have)?;
        for (have, row) in have.chunks_exact_mut(self.components).zip(row.chunks_exact(self.components)) {
            merge(have, row, self.order);
        }
        self.put(disk, j, k, i, &have)
    }

    /// The next level: `by` entries along each axis joined.
    ///
    /// # Errors
    /// [`FieldError::Io`] for a level in a file.
    pub fn coarser(
        &self,
        disk: &Disk,
        path: &Path,
        dims: [usize; 3],
        by: usize,
        most: usize,
    ) -> Result<Self, FieldError> {
        if let LevelStorage::Rows(_, background) = &self.place {
            return self.coarser_sparse(disk, dims, by, background.clone());
        }
        let mut next = Self::new(disk, path, dims, self.components, self.order, most)?;
        let mut row = vec![0.0; self.dims[0] * self.components];
        for k in 0..self.dims[2] {
            for j in 0..self.dims[1] {
                self.get(j, k, 0, &mut row)?;
                let mut short = next.empty_row();
                for (i, v) in row.chunks_exact(self.components).enumerate() {
                    merge(&mut short[i / by * self.components..][..self.components], v, self.order);
                }
                next.join(disk, j / by, k / by, 0, &short)?;
            }
        }
        Ok(next)
    }
}

impl LevelRows {
    /// As [`Self::coarser`] for sparse rows: a row made from background rows only is background, too.
    fn coarser_sparse(
        &self,
        disk: &Disk,
        dims: [usize; 3],
        by: usize,
        background: Vec<f64>,
    ) -> Result<Self, FieldError> {
        let mut next = Self::sparse(dims, self.order, background);
        let mut row = vec![0.0; self.dims[0] * self.components];
        for k in 0..dims[2] {
            for j in 0..dims[1] {
                let rows = (k * by..((k + 1) * by).min(self.dims[2]))
                    .flat_map(|k| (j * by..((j + 1) * by).min(self.dims[1])).map(move |j| (j, k)));
                if !rows.clone().any(|(j, k)| self.was_put(j, k)) {
                    continue;
                }
                let mut short = next.empty_row();
                for (j, k) in rows {
                    self.get(j, k, 0, &mut row)?;
                    for (i, v) in row.chunks_exact(self.components).enumerate() {
                        merge(&mut short[i / by * self.components..][..self.components], v, self.order);
                    }
                }
                next.put(disk, j, k, 0, &short)?;
            }
        }
        Ok(next)
    }
}

/// Joins limits: the least of lower ones, the greatest of upper ones.
fn merge(have: &mut [f64], more: &[f64], order: Order) {
    let components = have.len();
    for (n, (h, m)) in have.iter_mut().zip(more).enumerate() {
        let better = if order.is_lower(n, components) { *m < *h } else { *m > *h };
        *h = if better { *m } else { *h };
    }
}

/// Writes one level of one step.
///
/// # Errors
/// [`FieldError::Io`].
pub fn write_level(
    disk: &Disk,
    store: &Path,
    layout: &ArrayLayout,
    step: usize,
    grid: &LevelRows,
    seal: &mut ArraySeal,
) -> Result<(), FieldError> {
    let p = layout.grid.paging;
    let nc = layout.components();
    let size = layout.dtype.size();
    let io = |e: std::io::Error| failed(&store.join(&layout.path), e);
    let mut encoder = Encoder::new(layout.codec, size).map_err(io)?;
    let mut strip = vec![0.0; p.page[1] * p.page[2] * p.dims[0] * nc];
    let (mut scratch, mut out, mut lens) = (Vec::new(), Vec::new(), Vec::new());
    // A page of background: it is encoded once for millions of them.
    let mut blank: Option<Vec<u8>> = None;
    for number in 0..layout.grid.count() {
        let pages = layout.grid.pages_of(number);
        let mut shard = ShardWriter::new(disk, store, &layout.shard_path(step, number), &layout.grid, number)?;
        for pk in pages[2].clone() {
            for pj in pages[1].clone() {
                out.clear();
                lens.clear();
                let rows = |n: usize, a: usize| n * p.page[a]..((n + 1) * p.page[a]).min(p.dims[a]);
                let is_blank = grid.is_background(&rows(pj, 1), &rows(pk, 2));
                if let (true, Some(page)) = (is_blank, &blank) {
                    for _ in pages[0].clone() {
                        out.extend_from_slice(page);
                        lens.push(u32::try_from(page.len()).map_err(|e| io(std::io::Error::other(e)))?);
                    }
                    shard.append(disk, &layout.grid, &out, &lens)?;
                    continue;
                }
                // Rows of this row of pages; past the end the last one is repeated.
                for k in 0..p.page[2] {
                    for j in 0..p.page[1] {
                        let (gj, gk) =
                            ((pj * p.page[1] + j).min(p.dims[1] - 1), (pk * p.page[2] + k).min(p.dims[2] - 1));
                        grid.get(gj, gk, 0, &mut strip[(k * p.page[1] + j) * p.dims[0] * nc..][..p.dims[0] * nc])?;
                    }
                }
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
                    if is_blank && blank.is_none() {
                        blank = Some(out.clone());
                    }
                }
                shard.append(disk, &layout.grid, &out, &lens)?;
            }
        }
        let done = shard.finish(disk, &layout.grid)?;
        seal.bytes += done.bytes;
        seal.pages = crc32c::crc32c_append(seal.pages, &done.seal.to_le_bytes());
    }
    Ok(())
}
