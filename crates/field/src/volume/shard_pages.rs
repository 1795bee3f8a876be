//! The written pages of a sharded array at a server, as the indexes of its shards say. Each index is a round trip, and a
//! page behind it another one. Asked for together, all of them take two.

use super::chunk_location::{ChunkLocation, Chunks, ENTRY};
use super::shape::{C, T, X, Y, Z};
use super::volume_map::VolumeMapParts;
use crate::translate::Translation;
use pager::id::{ArrayId, PageId};
use std::sync::Arc;

/// See the module.
pub struct ShardPages {
    chunks: Arc<Chunks>,
    translation: Translation,
    index: ArrayId,
    first_component: u64,
}

impl std::fmt::Debug for ShardPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardPages").field("index", &self.index).finish_non_exhaustive()
    }
}

impl ShardPages {
    /// Those of an array. `None` of one without shards, or on this machine, where a list or a read is quick.
    pub(super) fn new(of: &VolumeMapParts) -> Option<Arc<Self>> {
        let ChunkLocation::Shards { index, .. } = &of.chunks.place else { return None };
        of.chunks.folder.is_remote().then(|| {
            let (chunks, translation) = (of.chunks.clone(), of.translation);
            Arc::new(Self { chunks, translation, index: *index, first_component: of.first_component })
        })
    }

    /// Shards of a step, along x, y and z.
    fn shards(&self) -> [u64; 3] {
        match &self.chunks.place {
            ChunkLocation::Shards { grid, .. } => [X, Y, Z].map(|d| grid.shards[d]),
            _ => [0; 3],
        }
    }

    /// Number of indexes of a step, and bytes of each.
    pub fn index_size(&self) -> (u64, u64) {
        let slots: u64 = self.chunks.per_file().iter().product();
        (self.shards().iter().product(), slots * ENTRY as u64)
    }

    /// The first chunk of a shard at a step, along x, y, z, c, t.
    fn first_chunk(&self, shard: [u64; 3], step: u32) -> [u64; 5] {
        let (per, chunk) = (self.chunks.per_file(), self.chunks.shape.chunk);
        let mut at = [0; 5];
        for (d, n) in [X, Y, Z].into_iter().zip(shard) {
            at[d] = n * per[d];
        }
        at[C] = self.first_component / chunk[C];
        at[T] = u64::from(step) / chunk[T];
        at
    }

    /// Calls `tell` with each shard and the page of its index.
    fn each(&self, step: u32, mut tell: impl FnMut([u64; 3], PageId)) {
        let ChunkLocation::Shards { grid, .. } = &self.chunks.place else { return };
        let [nx, ny, nz] = self.shards();
        for z in 0..nz {
            for y in 0..ny {
                for x in 0..nx {
                    let number = self.chunks.split(grid, self.first_chunk([x, y, z], step)).0;
                    tell([x, y, z], PageId::new(self.index, 0, number));
                }
            }
        }
    }

    /// The pages of the indexes of a step.
    pub fn indexes(&self, step: u32) -> Vec<PageId> {
        let mut pages = Vec::new();
        self.each(step, |_, page| pages.push(page));
        pages
    }

    /// Numbers of the pages of a step that have a written chunk, in order. `index` calls its argument with the bytes of
    /// an index, if it has them.
    pub fn written(&self, step: u32, mut index: impl FnMut(PageId, &mut dyn FnMut(&[u8]))) -> Vec<u64> {
        let ChunkLocation::Shards { grid, .. } = &self.chunks.place else { return Vec::new() };
        let (shape, page, pages) = (&self.chunks.shape, self.translation.page, self.translation.pages.map(u64::from));
        let mut found = Vec::new();
        self.each(step, |shard, id| {
            let first = self.first_chunk(shard, step);
            index(id, &mut |bytes| {
                let along = |d: usize| first[d]..(first[d] + grid.per[d]).min(shape.grid[d]);
                for z in along(Z) {
                    for y in along(Y) {
                        for x in along(X) {
                            let slot = self.chunks.split(grid, [x, y, z, first[C], first[T]]).1 as usize;
                            let entry = bytes.get(slot * ENTRY..(slot + 1) * ENTRY);
                            if entry.is_none_or(|entry| entry.iter().all(|byte| *byte == 0xff)) {
                                continue;
                            }
                            let span = |d: usize, at: u64| {
                                let (edge, chunk) = (u64::from(page[d]), shape.chunk[d]);
                                at * chunk / edge..((at + 1) * chunk).min(shape.shape[d]).div_ceil(edge)
                            };
                            for k in span(Z, z) {
                                for j in span(Y, y) {
                                    found.extend(span(X, x).map(|i| (k * pages[1] + j) * pages[0] + i));
                                }
                            }
                        }
                    }
                }
            });
        });
        found.sort_unstable();
        found.dedup();
        found
    }
}
