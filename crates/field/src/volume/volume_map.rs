//! Page maps of volumes: the part common to all layouts of their pages in files.

use super::chunk_location::Chunks;
use super::ranges::write_ranges;
use super::scatter::repeat;
use super::shape::{C, T, X};
use super::voxel::{Brick, Voxel};
use crate::translate::Translation;
use crate::with_voxel;
use pager::error::{PageError, PageErrorKind};
use pager::id::PageId;
use pager::map::{Located, PageMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// Data common to a volume's page maps.
#[derive(Clone)]
pub(super) struct VolumeMapParts {
    pub(super) name: String,
    pub(super) chunks: Arc<Chunks>,
    pub(super) brick: Brick,
    pub(super) translation: Translation,
    /// First component, among those of the array.
    pub(super) first_component: u64,
    /// Value of a chunk that was never written, as bytes of an element in memory.
    pub(super) fill: Option<Vec<u8>>,
    /// Whether ranges of blocks follow the voxels.
    pub(super) ranges: bool,
    /// Count of lookups that found a chunk never written.
    pub(super) fills: Arc<AtomicU64>,
}

impl VolumeMapParts {
    fn page_bytes(&self) -> usize {
        if self.ranges {
            self.brick.bytes()
        } else {
            self.brick.voxel_bytes()
        }
    }

    pub(super) fn bad(&self, page: PageId, kind: PageErrorKind) -> PageError {
        PageError::new(self.page_name(page), kind)
    }

    pub(super) fn page_name(&self, page: PageId) -> String {
        let (first, _) = self.translation.extent(page.page);
        let [x, y, z] = std::array::from_fn(|d| u64::from(first[d]) / self.chunks.shape.chunk[d]);
        let (c, t) = (self.first_component / self.chunks.shape.chunk[C], self.chunk_step(page.step).0);
        let what = self.chunks.describe(&self.name, [x, y, z, c, t]);
        if self.chunks.shape.chunk[..3].iter().zip(self.brick.page).all(|(c, p)| *c == u64::from(p)) {
            return what;
        }
        format!("{what}, voxels from ({}, {}, {}) on", first[0], first[1], first[2])
    }

    /// The chunk of a step, and the step's place in it.
    pub(super) fn chunk_step(&self, step: u32) -> (u64, u64) {
        let per = self.chunks.shape.chunk[T];
        (u64::from(step) / per, u64::from(step) % per)
    }

    /// Whether the page and its step exist.
    fn exists(&self, page: PageId) -> bool {
        page.page < self.translation.count() && u64::from(page.step) < self.chunks.shape.shape[T]
    }

    /// Whether elements in files have the order of frames: rows of x, or of voxels with all their components.
    pub(super) fn alike(&self) -> bool {
        let shape = &self.chunks.shape;
        let nc = self.brick.components as u64;
        let rows = if nc == 1 {
            shape.strides[X] == 1 || shape.chunk[X] == 1
        } else {
            let all = shape.chunk[C] == nc && shape.strides[C] == 1;
            all && (shape.strides[X] == nc || shape.chunk[X] == 1)
        };
        rows && !shape.stored.half
    }

    /// Completes a frame that has its voxels.
    fn finish(&self, page: PageId, frame: &mut [u8]) {
        if self.ranges {
            let (_, inside) = self.translation.extent(page.page);
            write_ranges(&self.brick, inside, frame);
        }
    }

    fn fill(&self, page: PageId, frame: &mut [u8]) {
        if let Some(element) = &self.fill {
            repeat(element, &mut frame[..self.brick.voxel_bytes()]);
            // The ranges of a whole page of one number are that number, so its blocks are not searched.
            let whole = self.translation.extent(page.page).1 == self.brick.page;
            let number = with_voxel!(self.brick.voxel, T => element.first_chunk().is_some_and(|b| is_number(T::from_ne_bytes(*b))));
            if self.ranges && whole && number {
                repeat(element, &mut frame[self.brick.ranges_at()..self.brick.bytes()]);
                return;
            }
        }
        self.finish(page, frame);
    }

    pub(super) fn count_fill(&self, chunks: u64) {
        self.fills.fetch_add(chunks, Relaxed);
    }
}

/// Whether ranges count it: it is not NaN.
fn is_number<T: Voxel>(x: T) -> bool {
    x.partial_cmp(&x).is_some()
}

/// The layout of a volume's pages in files.
pub(super) trait PageLayout: Send + Sync {
    /// The part common to all layouts.
    fn parts(&self) -> &VolumeMapParts;
    /// As [`PageMap::page_name`].
    fn page_name(&self, page: PageId) -> String {
        self.parts().page_name(page)
    }
    /// As [`PageMap::checked`].
    fn checked(&self) -> bool {
        false
    }
    /// As [`PageMap::locate`], for a page that exists.
    fn locate(&self, page: PageId, index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located;
    /// As [`PageMap::decode`], without the ranges after the voxels.
    fn decode(
        &self,
        page: PageId,
        found: &[u64],
        encoded: &[u8],
        scratch: &mut [u8],
        frame: &mut [u8],
    ) -> Result<(), PageError>;
}

/// The page map of an array of a volume.
pub(super) struct VolumeMap<L>(pub(super) L);

impl<L: PageLayout> PageMap for VolumeMap<L> {
    fn name(&self) -> &str {
        &self.0.parts().name
    }
    fn page_name(&self, page: PageId) -> String {
        self.0.page_name(page)
    }
    fn pages(&self) -> u64 {
        self.0.parts().translation.count()
    }
    fn pages_along(&self) -> Option<[u64; 3]> {
        Some(self.0.parts().translation.pages.map(u64::from))
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.0.parts().page_bytes()
    }
    fn locate(&self, page: PageId, index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        if !self.0.parts().exists(page) {
            return Located::Failed(PageError::new(self.0.page_name(page), PageErrorKind::Missing));
        }
        self.0.locate(page, index)
    }
    fn decode(
        &self,
        page: PageId,
        found: &[u64],
        encoded: &[u8],
        scratch: &mut [u8],
        frame: &mut [u8],
    ) -> Result<(), PageError> {
        self.0.decode(page, found, encoded, scratch, frame)?;
        self.0.parts().finish(page, frame);
        Ok(())
    }
    fn fill(&self, page: PageId, frame: &mut [u8]) {
        self.0.parts().fill(page, frame);
    }
    fn checked(&self) -> bool {
        self.0.checked()
    }
}
