//! Decoder of Blosc 1 buffers. The container is a header, a table of blocks, and streams of other codecs. Every offset
//! and length in it is checked against the chunk before use. (The C library has written past its buffers on crafted
//! input.)
//!
//! # Theory
//! The header has 16 bytes: versions, flags, element size, then decoded length, block length and encoded length. The
//! offsets of the blocks follow. A block is one stream, or one for each byte of the element, each after its length. A
//! stream as long as its decoded bytes is stored as it is. Last, bytes or bits are unshuffled.

use super::filters::{bitunshuffle, unshuffle};
use super::streams::{lz4_block, zlib, zstd};
use pager::error::PageErrorKind;

const HEADER: usize = 16;
/// Larger elements, and blocks of fewer elements than `MIN_BUFFER`, are not split into streams.
const MAX_SPLITS: usize = 16;
const MIN_BUFFER: usize = 128;
/// Distance from which matches have the long form.
const FAR: usize = 8191;

fn bad(m: impl std::fmt::Display) -> PageErrorKind {
    PageErrorKind::Decode(format!("blosc: {m}"))
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let b = bytes.get(at..at.checked_add(4)?)?;
    usize::try_from(u32::from_le_bytes([b[0], b[1], b[2], b[3]])).ok()
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Inner {
    Blosclz,
    Lz4,
    Zlib,
    Zstd,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Order {
    Plain,
    Bytes,
    Bits,
}

/// Decodes `body` into `out`, with `scratch` of the same length. Returns the number of decoded bytes.
pub(super) fn decode(body: &[u8], scratch: &mut [u8], out: &mut [u8]) -> Result<usize, PageErrorKind> {
    let (Some(nbytes), Some(block), Some(cbytes)) = (word(body, 4), word(body, 8), word(body, 12)) else {
        return Err(bad("no header"));
    };
    let (version, flags, size) = (body[0], body[2], usize::from(body[3]));
    if version != 2 {
        return Err(bad(format!("version {version} is not known; 2 is")));
    }
    if nbytes > out.len() || cbytes != body.len() {
        let whole = (out.len(), body.len());
        return Err(bad(format!(
            "the header says {nbytes} bytes of {cbytes}, the chunk is {} of {}",
            whole.0, whole.1
        )));
    }
    if nbytes == 0 {
        return Ok(0);
    }
    let out = &mut out[..nbytes];
    // Bits: 0 shuffle, 1 stored, 2 bitshuffle, 3 reserved, 4 blocks are not split, 5-7 the inner codec.
    if flags & 2 != 0 {
        let stored = body.get(HEADER..).filter(|b| b.len() == nbytes);
        out.copy_from_slice(stored.ok_or_else(|| bad("the stored length is wrong"))?);
        return Ok(nbytes);
    }
    let inner = match flags >> 5 {
        0 => Inner::Blosclz,
        1 => Inner::Lz4,
        3 => Inner::Zlib,
        4 => Inner::Zstd,
        2 => return Err(bad("snappy inside it is not read; write it anew with lz4 or zstd")),
        other => return Err(bad(format!("inner codec {other} is not known"))),
    };
    if size == 0 || block == 0 || block > nbytes {
        return Err(bad("block or element size is wrong"));
    }
    let order = match flags & 0b101 {
        0b001 if size > 1 => Order::Bytes,
        0b100 if block >= size => Order::Bits,
        0b101 => return Err(bad("shuffled twice")),
        _ => Order::Plain,
    };
    let blocks = nbytes.div_ceil(block);
    let table = HEADER + 4 * blocks;
    for (n, to) in out.chunks_mut(block).enumerate() {
        let at = word(body, HEADER + 4 * n).filter(|&at| at >= table);
        let at = at.ok_or_else(|| bad("the table of blocks points outside"))?;
        let split = flags & 0x10 == 0 && size <= MAX_SPLITS && block / size >= MIN_BUFFER && to.len() == block;
        let streams = if split { size } else { 1 };
        if to.len() % streams != 0 {
            return Err(bad("a block is no whole number of streams"));
        }
        match order {
            Order::Plain => block_streams(body, at, inner, streams, to)?,
            Order::Bytes | Order::Bits => {
                let from = scratch.get_mut(..to.len()).ok_or_else(|| bad("no room"))?;
                block_streams(body, at, inner, streams, from)?;
                let elements = to.len() / size;
                match order {
                    Order::Bits if elements % 8 == 0 => {
                        let whole = elements * size;
                        bitunshuffle(size, &from[..whole], &mut to[..whole]);
                        to[whole..].copy_from_slice(&from[whole..]);
                    }
                    Order::Bits => to.copy_from_slice(from),
                    _ => unshuffle(size, from, to),
                }
            }
        }
    }
    Ok(nbytes)
}

fn block_streams(body: &[u8], at: usize, inner: Inner, streams: usize, to: &mut [u8]) -> Result<(), PageErrorKind> {
    let mut at = at;
    let each = to.len() / streams;
    for to in to.chunks_exact_mut(each) {
        let len = word(body, at).ok_or_else(|| bad("a stream lies outside"))?;
        at += 4;
        let from = at.checked_add(len).and_then(|end| body.get(at..end)).ok_or_else(|| bad("a stream lies outside"))?;
        at += len;
        if len == to.len() {
            to.copy_from_slice(from);
            continue;
        }
        let n = match inner {
            Inner::Blosclz => blosclz(from, to)?,
            Inner::Lz4 => lz4_block(from, to)?,
            Inner::Zlib => zlib(from, to)?,
            Inner::Zstd => zstd(from, to)?,
        };
        if n != to.len() {
            return Err(bad(format!("a stream gave {n} bytes of {}", to.len())));
        }
    }
    Ok(())
}

/// BloscLZ: literals of up to 32 bytes, and matches of at least 3 with distances of 13 or 16 bits.
fn blosclz(from: &[u8], to: &mut [u8]) -> Result<usize, PageErrorKind> {
    let mut input = from.iter().copied();
    let mut next = || input.next();
    let short = || bad("a stream ends early");
    let long = || bad("a stream gives more bytes than it may");
    let Some(first) = next() else { return Ok(0) };
    let (mut head, mut out) = (usize::from(first & 31), 0usize);
    loop {
        if head < 32 {
            for _ in 0..=head {
                let byte = next().ok_or_else(short)?;
                *to.get_mut(out).ok_or_else(long)? = byte;
                out += 1;
            }
        } else {
            let (mut len, high) = ((head >> 5) + 2, (head & 31) << 8);
            if len == 9 {
                loop {
                    let more = usize::from(next().ok_or_else(short)?);
                    len += more;
                    if more != 255 {
                        break;
                    }
                    if len > to.len() {
                        return Err(long());
                    }
                }
            }
            let low = usize::from(next().ok_or_else(short)?);
            let mut back = high + low + 1;
            if low == 255 && high == 31 << 8 {
                let (a, b) = (next().ok_or_else(short)?, next().ok_or_else(short)?);
                back = FAR + 1 + (usize::from(a) << 8 | usize::from(b));
            }
            let begin = out.checked_sub(back).ok_or_else(|| bad("a match begins before the stream"))?;
            let end = out.checked_add(len).filter(|&end| end <= to.len()).ok_or_else(long)?;
            if back >= len {
                to.copy_within(begin..begin + len, out);
            } else {
                for n in out..end {
                    to[n] = to[n - back];
                }
            }
            out = end;
        }
        match next() {
            Some(h) => head = usize::from(h),
            None => return Ok(out),
        }
    }
}
