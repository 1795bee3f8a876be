//! Chains of codecs: their memory, and the way of bytes from buffer to buffer.

use super::blosc;
use super::filters::{accumulate, fletcher32, float_predictor, packbits, unshuffle, Sum};
use super::images::{jpeg, png, ImageShape};
use super::spec::CodecSpec;
use super::streams;
use crate::store::check_crc;
use pager::error::PageErrorKind;
use std::ops::Range;

/// Room beyond the decoded bytes for an encoded stream inside another codec's stream.
const STREAM_ROOM: usize = 64 << 10;
/// Memory of bzip2 for blocks of its largest size.
const BZ2_MEMORY: usize = 4 << 20;
/// Bytes of a checksum.
const SUM_BYTES: usize = 4;

/// Elements of chunks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) size: usize,
    pub(super) float: bool,
    pub(super) big: bool,
}

/// One step of a chain.
#[derive(Clone, Debug)]
enum Step {
    /// A checksum at the end, which is checked and removed.
    Crc32c,
    Fletcher32,
    /// In place.
    Sum {
        what: Sum,
        row: usize,
        stride: usize,
    },
    /// From one buffer to another, with as many bytes.
    Shuffle(usize),
    FloatPredictor {
        row: usize,
        samples: usize,
    },
    /// Streams.
    Zstd,
    Gzip,
    Zlib,
    Deflate,
    Lz4,
    Blosc,
    Bz2,
    Lzw,
    Packbits,
    Jpeg(Option<Vec<u8>>),
    Png,
}

impl Step {
    fn stream(&self) -> bool {
        !matches!(
            self,
            Self::Crc32c | Self::Fletcher32 | Self::Sum { .. } | Self::Shuffle(_) | Self::FloatPredictor { .. }
        )
    }

    /// Whether its result is in another buffer than its input.
    fn moves(&self) -> bool {
        self.stream() || matches!(self, Self::Shuffle(_) | Self::FloatPredictor { .. })
    }
}

/// Place of a chunk's bytes during decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChunkBytes {
    /// In the encoded bytes.
    Encoded(Range<usize>),
    /// In the scratch buffer.
    Scratch(Range<usize>),
    /// In the result, with this length.
    Out(usize),
}

/// All steps of an array, with their buffers.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    steps: Vec<Step>,
    /// The most bytes after each step.
    after: Vec<usize>,
    element: Element,
    image: ImageShape,
    /// Bytes of the two buffers between steps, and of the one that a step shuffles through. `beside`: bytes of the
    /// libraries' allocations.
    buffers: [usize; 3],
    beside: usize,
    chunk_bytes: usize,
}

impl Chain {
    /// Plans the steps for chunks of `chunk_bytes`.
    ///
    /// # Errors
    /// A sentence about an invalid step.
    pub(super) fn new(
        codecs: &[CodecSpec],
        element: Element,
        chunk_bytes: usize,
        image: ImageShape,
    ) -> Result<Self, String> {
        let number = |float: bool| if float { Sum::Float(element.size) } else { Sum::Integer(element.size) };
        let steps = codecs.iter().map(|codec| {
            Ok(match codec {
                CodecSpec::Zstd {} => Step::Zstd,
                CodecSpec::Gzip {} => Step::Gzip,
                CodecSpec::Zlib {} => Step::Zlib,
                CodecSpec::Deflate {} => Step::Deflate,
                CodecSpec::Lz4 {} => Step::Lz4,
                CodecSpec::Blosc {} => Step::Blosc,
                CodecSpec::Bz2 {} => Step::Bz2,
                CodecSpec::Lzw {} => Step::Lzw,
                CodecSpec::Packbits {} => Step::Packbits,
                CodecSpec::Crc32c {} => Step::Crc32c,
                CodecSpec::Fletcher32 {} => Step::Fletcher32,
                CodecSpec::Png {} => Step::Png,
                CodecSpec::Shuffle { size: 0 } => return Err("shuffle of elements of 0 bytes".to_owned()),
                CodecSpec::Shuffle { size } => Step::Shuffle(*size),
                CodecSpec::Delta {} if element.float && element.size == 2 => {
                    return Err("differences of half-precision numbers are not read".into())
                }
                CodecSpec::Delta {} => Step::Sum { what: number(element.float), row: usize::MAX, stride: 1 },
                CodecSpec::Predictor { kind, width, samples } => {
                    let row = width.checked_mul(*samples).and_then(|n| n.checked_mul(element.size));
                    let row = row.filter(|row| *row > 0 && chunk_bytes.is_multiple_of(*row));
                    let row = row.ok_or_else(|| {
                        format!("a predictor of rows of {width} x {samples} numbers in chunks of {chunk_bytes} bytes")
                    })?;
                    match kind {
                        2 => Step::Sum { what: number(false), row, stride: *samples },
                        3 if element.float => Step::FloatPredictor { row, samples: *samples },
                        3 => return Err("predictor 3 is for floating point".into()),
                        _ => return Err(format!("there is no predictor {kind}; 2 and 3 are there")),
                    }
                }
                CodecSpec::Jpeg { .. } if element.size != 1 => return Err("JPEG samples have 8 bits".into()),
                CodecSpec::Jpeg { tables: None } => Step::Jpeg(None),
                CodecSpec::Jpeg { tables: Some(hex) } => {
                    Step::Jpeg(Some(unhex(hex).ok_or("the tables of the JPEG are no hexadecimal digits")?))
                }
            })
        });
        let steps: Vec<Step> = steps.collect::<Result<_, String>>()?;
        // From the end: the most bytes that each step may give.
        let mut after = vec![0; steps.len()];
        let mut most = chunk_bytes;
        let mut packed = false;
        for (step, after) in steps.iter().zip(&mut after).rev() {
            *after = most;
            match step {
                Step::Crc32c | Step::Fletcher32 => most = most.saturating_add(SUM_BYTES),
                s if s.stream() && !packed => {
                    packed = true;
                    most = chunk_bytes.saturating_mul(2).saturating_add(STREAM_ROOM);
                }
                _ => {}
            }
        }
        let images = steps.iter().any(|s| matches!(s, Step::Jpeg(_) | Step::Png));
        if images && image.width * image.height * image.samples * image.size != chunk_bytes {
            return Err("an image is a chunk of rows of pixels, with all samples of a pixel together".into());
        }
        let beside = steps.iter().map(|s| match s {
            Step::Bz2 => BZ2_MEMORY,
            Step::Jpeg(_) => image.jpeg_memory(),
            Step::Png => image.width.saturating_mul(4 * image.samples * image.size).saturating_add(128 << 10),
            _ => 0,
        });
        let beside = beside.max().unwrap_or(0);
        let mut chain = Self { steps, after, element, image, buffers: [0; 3], beside, chunk_bytes };
        chain.buffers = chain.plan();
        Ok(chain)
    }

    /// Sizes of the buffers between steps. They hold every result except that of the last step that moves bytes.
    fn plan(&self) -> [usize; 3] {
        let mut buffers = [0; 3];
        let (mut turn, last) = (0, self.last_move());
        let mut owned = false;
        for (n, step) in self.steps.iter().enumerate() {
            if step.moves() || matches!(step, Step::Sum { .. }) && !owned {
                owned = true;
                if Some(n) != last {
                    buffers[turn] = buffers[turn].max(self.after[n]);
                    turn ^= 1;
                }
            }
            if matches!(step, Step::Blosc) {
                buffers[2] = buffers[2].max(self.after[n]);
            }
        }
        buffers
    }

    /// The step whose result can go straight to the chunk's destination: the last that moves, if nothing is cut off
    /// after it.
    fn last_move(&self) -> Option<usize> {
        let mut owned = false;
        let mut last = None;
        for (n, step) in self.steps.iter().enumerate() {
            if step.moves() || matches!(step, Step::Sum { .. }) && !owned {
                owned = true;
                last = Some(n);
            }
        }
        last.filter(|n| !self.steps[n + 1..].iter().any(|s| matches!(s, Step::Crc32c | Step::Fletcher32)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Bytes of scratch for [`Self::decode`], and of the libraries' own allocations.
    pub(super) fn scratch(&self) -> [usize; 2] {
        [self.buffers.iter().fold(0, |sum: usize, b| sum.saturating_add(*b)), self.beside]
    }

    /// Whether chunks have a checksum that is checked.
    pub(super) fn checked(&self) -> bool {
        let sums =
            |s: &Step| matches!(s, Step::Crc32c | Step::Fletcher32 | Step::Gzip | Step::Zlib | Step::Bz2 | Step::Png);
        self.steps.iter().any(sums)
    }

    /// The most bytes of a valid encoded chunk.
    pub(super) fn most_encoded(&self) -> u64 {
        let most = self.chunk_bytes as u64;
        if self.steps.iter().any(Step::stream) {
            most.saturating_mul(4).saturating_add(1 << 20)
        } else {
            most + (self.steps.len() * SUM_BYTES) as u64
        }
    }

    /// Decodes a chunk. `out` has the length of a chunk, and gets the result if a step moves bytes there. Otherwise the
    /// returned value has its place. Writes only `scratch` and `out`.
    pub(super) fn decode(
        &self,
        encoded: &[u8],
        scratch: &mut [u8],
        out: &mut [u8],
    ) -> Result<ChunkBytes, PageErrorKind> {
        let [first, second, third] = self.buffers;
        let (Some(scratch), true) = (scratch.get_mut(..first + second + third), out.len() == self.chunk_bytes) else {
            return Err(PageErrorKind::Decode("no room to decode in".into()));
        };
        let mut at = ChunkBytes::Encoded(0..encoded.len());
        let (mut turn, last) = (0, self.last_move());
        for (n, step) in self.steps.iter().enumerate() {
            let moves = step.moves() || matches!((step, &at), (Step::Sum { .. }, ChunkBytes::Encoded(_)));
            if !moves {
                at = self.stay(step, encoded, scratch, out, at)?;
                continue;
            }
            let (between, spare) = scratch.split_at_mut(first + second);
            let (a, b) = between.split_at_mut(first);
            let (from, to): (&[u8], &mut [u8]) = match (&at, Some(n) == last, turn) {
                (ChunkBytes::Encoded(r), true, _) => (&encoded[r.clone()], &mut *out),
                (ChunkBytes::Encoded(r), false, 0) => (&encoded[r.clone()], a),
                (ChunkBytes::Encoded(r), false, _) => (&encoded[r.clone()], b),
                // Bytes in scratch are in the previous step's buffer.
                (ChunkBytes::Scratch(r), true, 0) => (&b[r.start - first..r.end - first], &mut *out),
                (ChunkBytes::Scratch(r), true, _) => (&a[r.clone()], &mut *out),
                (ChunkBytes::Scratch(r), false, 0) => (&b[r.start - first..r.end - first], a),
                (ChunkBytes::Scratch(r), false, _) => (&a[r.clone()], b),
                (ChunkBytes::Out(_), ..) => return Err(PageErrorKind::Decode("steps in an impossible order".into())),
            };
            let room = to.len().min(self.after[n]);
            let len = self.one(step, from, &mut to[..room], spare)?;
            at = if Some(n) == last {
                ChunkBytes::Out(len)
            } else {
                let begin = if turn == 0 { 0 } else { first };
                turn ^= 1;
                ChunkBytes::Scratch(begin..begin + len)
            };
        }
        Ok(at)
    }

    /// A step that removes bytes or works in place.
    fn stay(
        &self,
        step: &Step,
        encoded: &[u8],
        scratch: &mut [u8],
        out: &mut [u8],
        at: ChunkBytes,
    ) -> Result<ChunkBytes, PageErrorKind> {
        let bytes: &[u8] = match &at {
            ChunkBytes::Encoded(r) => &encoded[r.clone()],
            ChunkBytes::Scratch(r) => &scratch[r.clone()],
            ChunkBytes::Out(n) => &out[..*n],
        };
        match step {
            Step::Crc32c | Step::Fletcher32 => {
                let (body, sum) = bytes
                    .split_last_chunk::<SUM_BYTES>()
                    .ok_or_else(|| PageErrorKind::Decode(format!("{} bytes have no checksum", bytes.len())))?;
                let stored = u32::from_le_bytes(*sum);
                if matches!(step, Step::Crc32c) {
                    check_crc(body, stored)?;
                } else {
                    let computed = fletcher32(body);
                    // As older versions of HDF5 wrote it: with the bytes of each half exchanged.
                    let old = computed.rotate_left(16).swap_bytes();
                    if stored != computed && stored != old {
                        return Err(PageErrorKind::Checksum { stored, computed });
                    }
                }
                Ok(match at {
                    ChunkBytes::Encoded(r) => ChunkBytes::Encoded(r.start..r.end - SUM_BYTES),
                    ChunkBytes::Scratch(r) => ChunkBytes::Scratch(r.start..r.end - SUM_BYTES),
                    ChunkBytes::Out(n) => ChunkBytes::Out(n - SUM_BYTES),
                })
            }
            Step::Sum { what, row, stride } => {
                let bytes = match &at {
                    ChunkBytes::Scratch(r) => &mut scratch[r.clone()],
                    ChunkBytes::Out(n) => &mut out[..*n],
                    ChunkBytes::Encoded(_) => return Err(PageErrorKind::Decode("steps in an impossible order".into())),
                };
                self.sum(*what, *row, *stride, bytes);
                Ok(at)
            }
            _ => Ok(at),
        }
    }

    fn sum(&self, what: Sum, row: usize, stride: usize, bytes: &mut [u8]) {
        bytes.chunks_mut(row).for_each(|row| accumulate(what, self.element.big, stride, row));
    }

    /// A step from one buffer to another. Returns the number of bytes written.
    fn one(&self, step: &Step, from: &[u8], to: &mut [u8], spare: &mut [u8]) -> Result<usize, PageErrorKind> {
        let same = |to: &mut [u8]| match to.len().checked_sub(from.len()) {
            Some(_) => Ok(from.len()),
            None => Err(PageErrorKind::Decode(format!("{} bytes for a chunk of {}", from.len(), to.len()))),
        };
        match step {
            Step::Zstd => streams::zstd(from, to),
            Step::Gzip => streams::gzip(from, to),
            Step::Zlib => streams::zlib(from, to),
            Step::Deflate => streams::deflate(from, to),
            Step::Lz4 => streams::lz4(from, to),
            Step::Blosc => blosc::decode(from, spare, to),
            Step::Bz2 => streams::bz2(from, to),
            Step::Lzw => streams::lzw(from, to),
            Step::Packbits => packbits(from, to),
            Step::Jpeg(tables) => jpeg(self.image, tables.as_deref(), from, to),
            Step::Png => png(self.image, from, to),
            Step::Shuffle(size) => {
                let n = same(to)?;
                unshuffle(*size, from, &mut to[..n]);
                Ok(n)
            }
            Step::FloatPredictor { row, samples } => {
                let n = same(to)? / row * row;
                float_predictor(self.element, *samples, *row, &from[..n], &mut to[..n]);
                Ok(n)
            }
            Step::Sum { what, row, stride } => {
                let n = same(to)?;
                to[..n].copy_from_slice(from);
                self.sum(*what, *row, *stride, &mut to[..n]);
                Ok(n)
            }
            Step::Crc32c | Step::Fletcher32 => Ok(0),
        }
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    (0..digits.len() / 2).map(|n| u8::from_str_radix(&digits[2 * n..2 * n + 2], 16).ok()).collect()
}
