//! Pages that are chunks: read whole, decoded, and put into their frame.

use super::chain::{Chain, ChunkBytes};
use super::chunk_location::{ChunkExtent, Chunks};
use super::ranges::write_ranges;
use super::scatter::{frame_strides, put_fill, repeat, spread, swap_all, Box4, Elements};
use super::shape::{C, T, X, Y, Z};
use super::voxel::{Brick, Voxel};
use crate::translate::Translation;
use crate::with_voxel;
use pager::error::{PageError, PageErrorKind};
use pager::id::{PageId, SourceId};
use pager::map::{Extent, ExtentTarget, Located, PageMap};
use pager::source::told::TOLD_BYTES;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// What is told of a chunk that was never written.
const NEVER: u64 = 1 << 62;

/// What the page maps of a volume have in common.
#[derive(Clone)]
pub(super) struct VolumeMapParts {
    pub(super) name: String,
    pub(super) chunks: Arc<Chunks>,
    pub(super) brick: Brick,
    pub(super) translation: Translation,
    /// First component, of those of the array.
    pub(super) first_component: u64,
    /// What a chunk that was never written holds, as bytes of an element in memory.
    pub(super) fill: Option<Vec<u8>>,
    /// Whether ranges of blocks stand behind the voxels.
    pub(super) ranges: bool,
    /// Chunks found never written, each time one was looked for.
    pub(super) fills: Arc<AtomicU64>,
}

impl VolumeMapParts {
    pub(super) fn page_bytes(&self) -> usize {
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

    /// The chunk in which a step lies, and its place there.
    pub(super) fn chunk_step(&self, step: u32) -> (u64, u64) {
        let per = self.chunks.shape.chunk[T];
        (u64::from(step) / per, u64::from(step) % per)
    }

    /// Whether there is such a page at such a step.
    pub(super) fn exists(&self, page: PageId) -> bool {
        page.page < self.translation.count() && u64::from(page.step) < self.chunks.shape.shape[T]
    }

    /// Whether elements in files are in the order of frames: rows of x, or of voxels with all their components.
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

    /// Completes a frame whose voxels are there.
    pub(super) fn finish(&self, page: PageId, frame: &mut [u8]) {
        if self.ranges {
            let (_, inside) = self.translation.extent(page.page);
            write_ranges(&self.brick, inside, frame);
        }
    }

    pub(super) fn fill(&self, page: PageId, frame: &mut [u8]) {
        if let Some(element) = &self.fill {
            repeat(element, &mut frame[..self.brick.voxel_bytes()]);
            // Blocks of a whole page that are all one number are not gone through for their ranges.
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

/// Whether ranges do not pass over it.
fn is_number<T: Voxel>(x: T) -> bool {
    x.partial_cmp(&x).is_some()
}

/// See the module. A page is a box of whole chunks; most often one.
pub(super) struct ChunkMap {
    pub(super) common: VolumeMapParts,
    pub(super) chain: Chain,
    /// The source of numbers that are told, where pages are of several chunks.
    pub(super) told: Option<SourceId>,
}

/// A chunk of a page.
#[derive(Copy, Clone, Debug)]
struct ChunkPart {
    /// Its place in the grid of chunks.
    at: [u64; 5],
    /// Where its voxels go.
    to: Box4,
    /// The first component that is taken of it.
    component: u64,
}

impl ChunkMap {
    /// The chunks of a page.
    fn parts(&self, page: PageId) -> Vec<ChunkPart> {
        let c = &self.common;
        let shape = &c.chunks.shape;
        let (first, inside) = c.translation.extent(page.page);
        let (step, _) = c.chunk_step(page.step);
        let chunk = shape.chunk;
        let (c0, c1) = (c.first_component, c.first_component + c.brick.components as u64);
        // Chunks along each axis that the page touches.
        let span = |d: usize| {
            let low = u64::from(first[d]);
            low / chunk[d]..(low + u64::from(inside[d])).div_ceil(chunk[d])
        };
        let mut parts = Vec::new();
        for cc in c0 / chunk[C]..c1.div_ceil(chunk[C]) {
            let components = (cc * chunk[C]).max(c0)..((cc + 1) * chunk[C]).min(c1);
            for z in span(Z) {
                for y in span(Y) {
                    for x in span(X) {
                        let at = [x, y, z, cc, step];
                        let low = |d: usize| (at[d] * chunk[d] - u64::from(first[d])) as usize;
                        let size = |d: usize| chunk[d].min(shape.shape[d] - at[d] * chunk[d]) as usize;
                        parts.push(ChunkPart {
                            at,
                            to: Box4 {
                                low: [low(X), low(Y), low(Z), (components.start - c0) as usize],
                                size: [size(X), size(Y), size(Z), (components.end - components.start) as usize],
                            },
                            component: components.start - cc * chunk[C],
                        });
                    }
                }
            }
        }
        parts
    }

    /// Bytes that decoding takes: between steps, the chunk if it does not become the frame as it is, and what libraries take.
    fn scratch(&self, direct: bool) -> usize {
        let [between, beside] = self.chain.scratch();
        let chunk = if direct { 0 } else { self.common.chunks.shape.chunk_bytes() as usize };
        between.saturating_add(chunk).saturating_add(beside)
    }

    /// Whether a page is a chunk, byte for byte (but for their order in an element).
    fn direct(&self) -> bool {
        let c = &self.common;
        let shape = &c.chunks.shape;
        let strides = frame_strides(&c.brick).map(|n| n as u64);
        let same = (0..4).all(|d| shape.chunk[d] == 1 || shape.strides[d] == strides[d]);
        let whole = (0..3).all(|d| shape.chunk[d] == u64::from(c.brick.page[d]));
        same && whole && c.alike() && shape.chunk[C] == c.brick.components as u64 && shape.chunk[T] == 1
    }

    fn one(
        &self,
        page: PageId,
        part: &ChunkPart,
        encoded: &[u8],
        scratch: &mut [u8],
        frame: &mut [u8],
    ) -> Result<(), PageErrorKind> {
        let c = &self.common;
        let shape = &c.chunks.shape;
        let chunk_bytes = shape.chunk_bytes() as usize;
        let between = self.chain.scratch()[0];
        let whole = |n: usize| {
            let needed = shape.needed_bytes(part.at) as usize;
            if n == chunk_bytes || n == needed {
                return Ok(());
            }
            Err(PageErrorKind::Decode(format!("{n} bytes where {chunk_bytes} are a chunk")))
        };
        if self.direct() {
            let voxels = &mut frame[..c.brick.voxel_bytes()];
            let at = self.chain.decode(encoded, &mut scratch[..between], voxels)?;
            match at {
                ChunkBytes::Out(n) => whole(n)?,
                ChunkBytes::Encoded(r) => {
                    whole(r.len())?;
                    voxels[..r.len()].copy_from_slice(&encoded[r]);
                }
                ChunkBytes::Scratch(r) => {
                    whole(r.len())?;
                    voxels[..r.len()].copy_from_slice(&scratch[r]);
                }
            }
            if shape.stored.swapped() {
                swap_all(shape.stored.size(), voxels);
            }
            return Ok(());
        }
        let room = || PageErrorKind::Decode("no room to decode in".into());
        let (between, rest) = scratch.split_at_mut_checked(between).ok_or_else(room)?;
        let out = rest.get_mut(..chunk_bytes).ok_or_else(room)?;
        let bytes = match self.chain.decode(encoded, between, out)? {
            ChunkBytes::Out(n) => &out[..n],
            ChunkBytes::Encoded(r) => &encoded[r],
            ChunkBytes::Scratch(r) => &between[r],
        };
        whole(bytes.len())?;
        let (_, step) = c.chunk_step(page.step);
        let strides = std::array::from_fn(|d| shape.strides[d] as usize);
        let first = (part.component * shape.strides[C] + step * shape.strides[T]) as usize;
        let from = Elements { bytes, first, strides };
        spread(shape.stored, from, &c.brick, part.to, frame)
            .ok_or_else(|| PageErrorKind::Decode(format!("{} bytes are too few for a chunk", bytes.len())))
    }
}

impl PageMap for ChunkMap {
    fn name(&self) -> &str {
        &self.common.name
    }
    fn page_name(&self, page: PageId) -> String {
        self.common.page_name(page)
    }
    fn pages(&self) -> u64 {
        self.common.translation.count()
    }
    fn pages_along(&self) -> Option<[u64; 3]> {
        Some(self.common.translation.pages.map(u64::from))
    }
    fn page_bytes(&self, _: PageId) -> usize {
        self.common.page_bytes()
    }

    fn locate(&self, page: PageId, index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let c = &self.common;
        if !c.exists(page) {
            return Located::Failed(c.bad(page, PageErrorKind::Missing));
        }
        let parts = self.parts(page);
        let most = self.chain.most_encoded();
        let failed =
            |part: &ChunkPart, kind| Located::Failed(PageError::new(c.chunks.describe(&c.name, part.at), kind));
        let mut entries = Vec::with_capacity(parts.len());
        for part in &parts {
            match c.chunks.entry(part.at, index) {
                ChunkExtent::At { len, .. } if len > most => {
                    let m = format!("{len} bytes for a chunk of {}", c.chunks.shape.chunk_bytes());
                    return failed(part, PageErrorKind::Decode(m));
                }
                ChunkExtent::At { len: 0, .. } => return failed(part, PageErrorKind::Decode("it is empty".into())),
                ChunkExtent::At { offset, len } => entries.push(Some((offset, len))),
                ChunkExtent::Absent if c.fill.is_some() => entries.push(None),
                ChunkExtent::Absent => return failed(part, PageErrorKind::Missing),
                ChunkExtent::Need(other) => return Located::Need(other),
                ChunkExtent::Failed(kind) => return failed(part, kind),
            }
        }
        let absent = entries.iter().filter(|e| e.is_none()).count();
        c.count_fill(absent as u64);
        if absent == parts.len() {
            return Located::Fill;
        }
        let source = c.chunks.source;
        if let ([Some((offset, len))], true) = (entries.as_slice(), self.chain.is_empty() && self.direct()) {
            // As it lies, straight into the frame.
            let len = *len as usize;
            if len == c.brick.voxel_bytes() {
                let segments = vec![Extent { source, offset: *offset, len, to: ExtentTarget::Frame(0) }];
                return Located::Extents { segments, encoded_len: 0, scratch_len: 0 };
            }
        }
        let mut segments = Vec::with_capacity(2 * parts.len());
        let mut at = 0usize;
        if let (Some(told), true) = (self.told, parts.len() > 1) {
            for entry in &entries {
                let offset = entry.map_or(NEVER, |(_, len)| len);
                segments.push(Extent { source: told, offset, len: TOLD_BYTES, to: ExtentTarget::Encoded(at) });
                at += TOLD_BYTES;
            }
        }
        for (offset, len) in entries.into_iter().flatten() {
            segments.push(Extent { source, offset, len: len as usize, to: ExtentTarget::Encoded(at) });
            at = at.saturating_add(len as usize);
        }
        Located::Extents { segments, encoded_len: at, scratch_len: self.scratch(self.direct()) }
    }

    fn decode(&self, page: PageId, encoded: &[u8], scratch: &mut [u8], frame: &mut [u8]) -> Result<(), PageError> {
        let c = &self.common;
        let shape = &c.chunks.shape;
        let voxels = c.brick.voxel_bytes();
        if encoded.is_empty() {
            if shape.stored.swapped() {
                swap_all(shape.stored.size(), &mut frame[..voxels]);
            }
            c.finish(page, frame);
            return Ok(());
        }
        let parts = self.parts(page);
        if let [part] = parts.as_slice() {
            let done = self.one(page, part, encoded, scratch, frame);
            done.map_err(|kind| PageError::new(c.chunks.describe(&c.name, part.at), kind))?;
            c.finish(page, frame);
            return Ok(());
        }
        let short = || c.bad(page, PageErrorKind::Decode("it is not what was located".into()));
        let (heads, mut rest) = encoded.split_at_checked(TOLD_BYTES * parts.len()).ok_or_else(short)?;
        for (part, head) in parts.iter().zip(heads.as_chunks::<TOLD_BYTES>().0) {
            let len = u64::from_le_bytes(*head);
            if len == NEVER {
                if let Some(element) = &c.fill {
                    put_fill(&c.brick, part.to, frame, element);
                }
                continue;
            }
            let (mine, others) = rest.split_at_checked(len as usize).ok_or_else(short)?;
            rest = others;
            let done = self.one(page, part, mine, scratch, frame);
            done.map_err(|kind| PageError::new(c.chunks.describe(&c.name, part.at), kind))?;
        }
        c.finish(page, frame);
        Ok(())
    }

    fn fill(&self, page: PageId, frame: &mut [u8]) {
        self.common.fill(page, frame);
    }
    fn checked(&self) -> bool {
        self.chain.checked()
    }
}
