//! Pages made of whole chunks: read whole, decoded, and copied into their frame.

use super::chain::{Chain, ChunkBytes};
use super::chunk_location::ChunkExtent;
use super::scatter::{frame_strides, put_fill, spread, swap_all, Box4, Elements};
use super::shape::{C, T, X, Y, Z};
use super::volume_map::{PageLayout, VolumeMapParts};
use pager::error::{PageError, PageErrorKind};
use pager::id::PageId;
use pager::map::{Extent, ExtentTarget, Located};

/// Stands for the length of a chunk that was never written.
const NEVER: u64 = u64::MAX;

/// Page map of pages that are boxes of whole chunks, mostly of one.
pub(super) struct ChunkMap {
    pub(super) common: VolumeMapParts,
    pub(super) chain: Chain,
}

/// A chunk of a page.
#[derive(Copy, Clone, Debug)]
struct ChunkPart {
    /// Its place in the grid of chunks.
    at: [u64; 5],
    /// The destination of its voxels.
    to: Box4,
    /// The first component used of it.
    component: u64,
}

impl ChunkMap {
    /// The chunks of a page.
    fn chunk_parts(&self, page: PageId) -> Vec<ChunkPart> {
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

    /// Bytes for decoding: buffers between steps, the libraries' allocations, and the chunk unless it is decoded into
    /// the frame.
    fn scratch(&self, direct: bool) -> usize {
        let [between, beside] = self.chain.scratch();
        let chunk = if direct { 0 } else { self.common.chunks.shape.chunk_bytes() as usize };
        between.saturating_add(chunk).saturating_add(beside)
    }

    /// Whether a page is a chunk, byte for byte, except for the byte order of elements.
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

impl PageLayout for ChunkMap {
    fn parts(&self) -> &VolumeMapParts {
        &self.common
    }

    fn locate(&self, page: PageId, index: &mut dyn FnMut(PageId) -> Option<*const [u8]>) -> Located {
        let c = &self.common;
        let parts = self.chunk_parts(page);
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
            // As stored, straight into the frame.
            let len = *len as usize;
            if len == c.brick.voxel_bytes() {
                let segments = vec![Extent { source, offset: *offset, len, to: ExtentTarget::Frame(0) }];
                return Located::Extents { segments, encoded_len: 0, scratch_len: 0, found: Box::default() };
            }
        }
        // For a page of several chunks, decoding splits the encoded bytes by these lengths.
        let lengths = entries.iter().map(|entry| entry.map_or(NEVER, |(_, len)| len));
        let found = if parts.len() > 1 { lengths.collect() } else { Box::default() };
        let mut segments = Vec::with_capacity(parts.len());
        let mut at = 0usize;
        for (offset, len) in entries.into_iter().flatten() {
            segments.push(Extent { source, offset, len: len as usize, to: ExtentTarget::Encoded(at) });
            at = at.saturating_add(len as usize);
        }
        Located::Extents { segments, encoded_len: at, scratch_len: self.scratch(self.direct()), found }
    }

    fn decode(
        &self,
        page: PageId,
        found: &[u64],
        encoded: &[u8],
        scratch: &mut [u8],
        frame: &mut [u8],
    ) -> Result<(), PageError> {
        let c = &self.common;
        let shape = &c.chunks.shape;
        let voxels = c.brick.voxel_bytes();
        if encoded.is_empty() {
            if shape.stored.swapped() {
                swap_all(shape.stored.size(), &mut frame[..voxels]);
            }
            return Ok(());
        }
        let parts = self.chunk_parts(page);
        if let [part] = parts.as_slice() {
            let done = self.one(page, part, encoded, scratch, frame);
            done.map_err(|kind| PageError::new(c.chunks.describe(&c.name, part.at), kind))?;
            return Ok(());
        }
        let short = || c.bad(page, PageErrorKind::Decode("it is not what was located".into()));
        if found.len() != parts.len() {
            return Err(short());
        }
        let mut rest = encoded;
        for (part, len) in parts.iter().zip(found) {
            if *len == NEVER {
                if let Some(element) = &c.fill {
                    put_fill(&c.brick, part.to, frame, element);
                }
                continue;
            }
            let (mine, others) = rest.split_at_checked(*len as usize).ok_or_else(short)?;
            rest = others;
            let done = self.one(page, part, mine, scratch, frame);
            done.map_err(|kind| PageError::new(c.chunks.describe(&c.name, part.at), kind))?;
        }
        Ok(())
    }

    fn checked(&self) -> bool {
        self.chain.checked()
    }
}
