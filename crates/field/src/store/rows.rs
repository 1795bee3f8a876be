//! Reads a store's arrays in rows, for conversion into another store (other pages, other codec).

use super::array::check_index;
use super::layout::{ArrayLayout, ENTRY_BYTES};
use super::Store;
use crate::catalog::{ReadCounter, RowReader};
use crate::error::FieldError;
use crate::file::FileBytes;
use pager::error::{PageError, PageErrorKind};
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Cached shard indexes: enough for a slab of planes.
const KEPT_SHARDS: usize = 16;

/// One array of a store, read by rows. Each page is needed for every plane and component, so decoded pages are cached.
/// The cache holds up to a number of bytes that the owner charges, and at least one page. Reads of boxes need a page
/// once a box.
pub struct StoreRows {
    root: PathBuf,
    layout: ArrayLayout,
    keep: usize,
    kept: Mutex<RowCache>,
    tally: ReadCounter,
}

#[derive(Default)]
struct RowCache {
    clock: u64,
    bytes: usize,
    pages: HashMap<(usize, u64), (u64, Vec<u8>)>,
    shards: HashMap<(usize, u64), (u64, Shard)>,
}

struct Shard {
    file: FileBytes,
    path: PathBuf,
    entries: Vec<u8>,
}

impl Shard {
    /// Fills `out`; `what` names the part for errors.
    fn read(&self, out: &mut [u8], offset: u64, what: impl Fn() -> String) -> Result<(), FieldError> {
        self.file.read_exact_at(offset, out).map_err(|e| {
            if e.kind() != std::io::ErrorKind::UnexpectedEof {
                return FieldError::io(&self.path, e);
            }
            let have = match self.file.size_now() {
                Ok(size) => size,
                Err(e) => return FieldError::io(&self.path, e),
            };
            let short = PageErrorKind::Short { offset, end: offset.saturating_add(out.len() as u64), have };
            let message = format!(
                "{}: {short}: the file was cut off since it was written; copy the store again, or convert its source again",
                what()
            );
            FieldError::format(&self.path, message)
        })
    }
}

impl StoreRows {
    /// Array `array` of zone `zone` (catalog order), with a cache of up to `keep` bytes of decoded pages.
    ///
    /// # Errors
    /// [`FieldError::Usage`] if the store has no such array or no data.
    pub fn new(store: &Store, zone: usize, array: usize, keep: usize) -> Result<Self, FieldError> {
        let layout = store.root.data.then(|| store.zones.get(zone)?.arrays.get(array)).flatten();
        let layout = layout.ok_or_else(|| FieldError::Usage(format!("{}: no such array", store.path.display())))?;
        Ok(Self {
            root: store.path.clone(),
            layout: layout.clone(),
            keep,
            kept: Mutex::default(),
            tally: ReadCounter::default(),
        })
    }

    /// Steps of the array.
    pub fn steps(&self) -> usize {
        self.layout.steps
    }

    /// The page, from the cache or read into it.
    fn page<'a>(&self, kept: &'a mut RowCache, step: usize, at: [usize; 3]) -> Result<&'a [u8], FieldError> {
        let layout = &self.layout;
        let key = (step, layout.grid.paging.number(at));
        kept.clock += 1;
        let clock = kept.clock;
        if !kept.pages.contains_key(&key) {
            let bytes = layout.page_bytes();
            while kept.bytes + bytes > self.keep && !kept.pages.is_empty() {
                let oldest = kept.pages.iter().min_by_key(|(_, p)| p.0).map(|(k, _)| *k);
                if let Some((_, page)) = oldest.and_then(|k| kept.pages.remove(&k)) {
                    kept.bytes -= page.len();
                }
            }
            let (number, slot) = layout.grid.locate(at);
            let shard = self.shard(kept, step, number)?;
            let name = || format!("{}, page (i {}, j {}, k {})", shard.path.display(), at[0], at[1], at[2]);
            let word = |n: usize| {
                let mut w = [0; 8];
                w.copy_from_slice(&shard.entries[slot * ENTRY_BYTES + n * 8..][..8]);
                u64::from_le_bytes(w)
            };
            // `check_index` bounds the length by the codec's largest page.
            let mut encoded = vec![0; usize::try_from(word(1)).unwrap_or(0)];
            shard.read(&mut encoded, word(0), || format!("page (i {}, j {}, k {})", at[0], at[1], at[2]))?;
            self.tally.add(encoded.len() as u64);
            let mut frame = vec![0; bytes];
            layout
                .codec
                .decode(layout.dtype.size(), &encoded, &mut frame)
                .map_err(|kind| FieldError::Page(PageError::new(name(), kind)))?;
            kept.bytes += bytes;
            kept.pages.insert(key, (clock, frame));
        }
        match kept.pages.get_mut(&key) {
            Some(page) => {
                page.0 = clock;
                Ok(&page.1)
            }
            None => Err(FieldError::Internal("a decoded page is not in its cache")),
        }
    }

    fn shard<'a>(&self, kept: &'a mut RowCache, step: usize, number: u64) -> Result<&'a Shard, FieldError> {
        let key = (step, number);
        let clock = kept.clock;
        if !kept.shards.contains_key(&key) {
            if kept.shards.len() >= KEPT_SHARDS {
                let oldest = kept.shards.iter().min_by_key(|(_, s)| s.0).map(|(k, _)| *k);
                oldest.and_then(|k| kept.shards.remove(&k));
            }
            let name = self.layout.shard_path(step, number);
            let path = self.root.join(&name);
            let failed = |kind| FieldError::Page(PageError::new(format!("{}, index", path.display()), kind));
            let file = FileBytes::open(&path).map_err(|e| match e.kind() {
                std::io::ErrorKind::NotFound => failed(PageErrorKind::Missing),
                _ => FieldError::io(&path, e),
            })?;
            let mut shard = Shard { file, path: path.clone(), entries: Vec::new() };
            let mut entries = vec![0; self.layout.grid.head_bytes()];
            shard.read(&mut entries, 0, || "index".into())?;
            self.tally.add(entries.len() as u64);
            let beside = entries.split_off(self.layout.grid.slots() * ENTRY_BYTES);
            check_index(&self.layout.form(), number, &name, &entries, &beside).map_err(failed)?;
            shard.entries = entries;
            kept.shards.insert(key, (clock, shard));
        }
        match kept.shards.get_mut(&key) {
            Some(s) => {
                s.0 = clock;
                Ok(&s.1)
            }
            None => Err(FieldError::Internal("an index of a shard is not in its cache")),
        }
    }
}

impl RowReader for StoreRows {
    fn read_rows(&self, step: usize, c: usize, k: usize, j: Range<usize>, out: &mut [u8]) -> Result<(), FieldError> {
        let p = self.layout.grid.paging;
        let size = self.layout.dtype.size();
        if step >= self.layout.steps
            || c >= self.layout.components()
            || k >= p.dims[2]
            || j.start > j.end
            || j.end > p.dims[1]
            || out.len() != j.len() * p.dims[0] * size
        {
            return Err(FieldError::Usage(format!("{}: rows {j:?} of plane {k} are not there", self.layout.path)));
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut row = j.start;
        while row < j.end {
            let pj = row / p.page[1];
            let rows = row..((pj + 1) * p.page[1]).min(j.end);
            for pi in 0..p.pages[0] {
                let at = [pi, pj, k / p.page[2]];
                let points = p.extent(at)[0].clone();
                let page = self.page(&mut kept, step, at)?;
                for jj in rows.clone() {
                    let from = ((c * p.page[2] + k % p.page[2]) * p.page[1] + jj % p.page[1]) * p.page[0] * size;
                    let to = ((jj - j.start) * p.dims[0] + points.start) * size;
                    out[to..to + points.len() * size].copy_from_slice(&page[from..from + points.len() * size]);
                }
            }
            row = rows.end;
        }
        Ok(())
    }
    fn by_boxes(&self) -> bool {
        true
    }

    fn read_box(&self, step: usize, points: &[Range<usize>; 3], out: &mut [u8]) -> Result<(), FieldError> {
        let p = self.layout.grid.paging;
        let size = self.layout.dtype.size();
        let n: [usize; 3] = core::array::from_fn(|a| points[a].len());
        let inside = (0..3).all(|a| points[a].start < points[a].end && points[a].end <= p.dims[a]);
        if !inside || step >= self.layout.steps || out.len() != self.layout.components() * n[0] * n[1] * n[2] * size {
            return Err(FieldError::Usage(format!("{}: the box {points:?} is not there", self.layout.path)));
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let pages = |a: usize| points[a].start / p.page[a]..(points[a].end - 1) / p.page[a] + 1;
        for (pk, pj, pi) in pages(2).flat_map(|k| pages(1).flat_map(move |j| pages(0).map(move |i| (k, j, i)))) {
            let first = [pi * p.page[0], pj * p.page[1], pk * p.page[2]];
            let part: [Range<usize>; 3] =
                core::array::from_fn(|a| first[a].max(points[a].start)..(first[a] + p.page[a]).min(points[a].end));
            let page = self.page(&mut kept, step, [pi, pj, pk])?;
            let row = part[0].len() * size;
            for c in 0..self.layout.components() {
                for k in part[2].clone() {
                    for j in part[1].clone() {
                        let from = ((c * p.page[2] + k - first[2]) * p.page[1] + j - first[1]) * p.page[0];
                        let from = (from + part[0].start - first[0]) * size;
                        let to = ((c * n[2] + k - points[2].start) * n[1] + j - points[1].start) * n[0];
                        let to = (to + part[0].start - points[0].start) * size;
                        out[to..to + row].copy_from_slice(&page[from..from + row]);
                    }
                }
            }
        }
        // A converter reads one array after the other, so the caches of all would add up.
        if kept.bytes > self.keep {
            kept.pages.clear();
            kept.bytes = 0;
        }
        Ok(())
    }

    fn tally(&self) -> &ReadCounter {
        &self.tally
    }
}
