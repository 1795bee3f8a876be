//! Byte streams that libraries decode, each into a slice and never past its end. Each thread keeps reusable contexts.

use pager::error::PageErrorKind;
use std::cell::RefCell;

fn bad(codec: &str, m: impl std::fmt::Display) -> PageErrorKind {
    PageErrorKind::Decode(format!("{codec}: {m}"))
}

/// Magic numbers of a Zstandard frame and of a skippable one. Older formats are not supported.
const ZSTD: u32 = 0xFD2F_B528;
const SKIPPED: u32 = 0x184D_2A50;

thread_local! {
    // A context takes about 100 KB and as long to make as a small page to decode, so each decoding thread keeps one.
    static UNZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    static INFLATE: RefCell<Option<flate2::Decompress>> = const { RefCell::new(None) };
}

/// Consecutive Zstandard frames.
pub(super) fn zstd(from: &[u8], to: &mut [u8]) -> Result<usize, PageErrorKind> {
    let mut rest = from;
    while !rest.is_empty() {
        let magic = rest.first_chunk::<4>().map(|b| u32::from_le_bytes(*b));
        if !magic.is_some_and(|m| m == ZSTD || m & 0xFFFF_FFF0 == SKIPPED) {
            return Err(bad("zstd", "not a frame"));
        }
        let n = zstd::zstd_safe::find_frame_compressed_size(rest).ok().filter(|n| *n > 0);
        rest = n.and_then(|n| rest.get(n..)).ok_or_else(|| bad("zstd", "a frame is not whole"))?;
    }
    let n = UNZSTD.with(|cell| {
        let mut slot = cell.borrow_mut();
        if slot.is_none() {
            *slot = Some(zstd::bulk::Decompressor::new()?);
        }
        slot.as_mut().map_or(Ok(0), |d| d.decompress_to_buffer(from, to))
    });
    n.map_err(|e| bad("zstd", e))
}

/// numcodecs' LZ4: the decoded length, then a block.
pub(super) fn lz4(from: &[u8], to: &mut [u8]) -> Result<usize, PageErrorKind> {
    let (head, block) = from.split_first_chunk::<4>().ok_or_else(|| bad("lz4", "no length"))?;
    let len = u32::from_le_bytes(*head) as usize;
    let room = to.len();
    let to = to.get_mut(..len).ok_or_else(|| bad("lz4", format!("{len} bytes for a chunk of {room}")))?;
    let n = lz4_block(block, to)?;
    if n != len {
        return Err(bad("lz4", format!("{n} bytes where {len} are said")));
    }
    Ok(n)
}

/// An LZ4 block.
pub(super) fn lz4_block(from: &[u8], to: &mut [u8]) -> Result<usize, PageErrorKind> {
    lz4_flex::block::decompress_into(from, to).map_err(|e| bad("lz4", e))
}

/// One deflate stream, with or without zlib's header and checksum. Returns the bytes consumed and produced.
fn inflate(codec: &str, from: &[u8], to: &mut [u8], header: bool) -> Result<(usize, usize), PageErrorKind> {
    INFLATE.with(|cell| {
        let mut slot = cell.borrow_mut();
        let state = slot.get_or_insert_with(|| flate2::Decompress::new(header));
        state.reset(header);
        match state.decompress(from, to, flate2::FlushDecompress::Finish) {
            Ok(flate2::Status::StreamEnd) => Ok((state.total_in() as usize, state.total_out() as usize)),
            // If input and output are both at their end, either may be too short.
            Ok(_) if state.total_out() as usize == to.len() => Err(bad(codec, "more bytes than the chunk has")),
            Ok(_) => Err(bad(codec, "ends early")),
            Err(e) => Err(bad(codec, e)),
        }
    })
}

/// A zlib stream; its checksum is checked.
pub(super) fn zlib(from: &[u8], to: &mut [u8]) -> Result<usize, PageErrorKind> {
    inflate("zlib", from, to, true).map(|(_, n)| n)
}

/// A deflate stream.
pub(super) fn deflate(from: &[u8], to: &mut [u8]) -> Result<usize, PageErrorKind> {
    inflate("deflate", from, to, false).map(|(_, n)| n)
}

/// Consecutive gzip members; their checksums are checked.
pub(super) fn gzip(from: &[u8], to: &mut [u8]) -> Result<usize, PageErrorKind> {
    let (mut rest, mut out) = (from, 0);
    loop {
        let head = gzip_header(rest).ok_or_else(|| bad("gzip", "no header"))?;
        let (taken, given) = inflate("gzip", &rest[head..], &mut to[out..], false)?;
        let tail = rest.get(head + taken..).and_then(|t| t.split_first_chunk::<8>());
        let (&[a, b, c, d, e, f, g, h], more) = tail.ok_or_else(|| bad("gzip", "ends early"))?;
        let mut crc = flate2::Crc::new();
        crc.update(&to[out..out + given]);
        let (stored, computed) = (u32::from_le_bytes([a, b, c, d]), crc.sum());
        if stored != computed {
            return Err(PageErrorKind::Checksum { stored, computed });
        }
        if u32::from_le_bytes([e, f, g, h]) != given as u32 {
            return Err(bad("gzip", "its length does not hold"));
        }
        out += given;
        // Zeros may fill a block of a tape.
        if more.iter().all(|b| *b == 0) {
            return Ok(out);
        }
        rest = more;
    }
}

/// Bytes of a member's header.
fn gzip_header(bytes: &[u8]) -> Option<usize> {
    let &[0x1f, 0x8b, 8, flags, _, _, _, _, _, _] = bytes.first_chunk::<10>()? else { return None };
    let mut at = 10;
    if flags & 4 != 0 {
        let &[a, b] = bytes.get(at..)?.first_chunk::<2>()?;
        at += 2 + usize::from(u16::from_le_bytes([a, b]));
    }
    for name in [8, 16] {
        if flags & name != 0 {
            at += bytes.get(at..)?.iter().position(|b| *b == 0)? + 1;
        }
    }
    at += if flags & 2 != 0 { 2 } else { 0 };
    (at <= bytes.len()).then_some(at)
}

/// Consecutive bzip2 streams; their checksums are checked.
pub(super) fn bz2(from: &[u8], to: &mut [u8]) -> Result<usize, PageErrorKind> {
    let (mut rest, mut out) = (from, 0usize);
    while !rest.is_empty() {
        let mut state = bzip2::Decompress::new(false);
        loop {
            let (was_in, was_out) = (state.total_in() as usize, state.total_out() as usize);
            let status = state.decompress(&rest[was_in..], &mut to[out + was_out..]).map_err(|e| bad("bzip2", e))?;
            match status {
                bzip2::Status::StreamEnd => break,
                _ if (state.total_in() as usize, state.total_out() as usize) != (was_in, was_out) => {}
                _ if out + was_out == to.len() => return Err(bad("bzip2", "more bytes than the chunk has")),
                _ => return Err(bad("bzip2", "ends early")),
            }
        }
        out += state.total_out() as usize;
        rest = &rest[state.total_in() as usize..];
    }
    Ok(out)
}

/// TIFF's LZW. Codes go from the high bit down and grow one early, or, from the first writers, from the low bit up. The
/// stream ends with its end code, or where the chunk is full, as some writers omit the code.
pub(super) fn lzw(from: &[u8], to: &mut [u8]) -> Result<usize, PageErrorKind> {
    let mut state = match from {
        [0, second, ..] if second & 1 == 1 => weezl::decode::Decoder::new(weezl::BitOrder::Lsb, 8),
        _ => weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8),
    };
    let (mut taken, mut given) = (0, 0);
    loop {
        let step = state.decode_bytes(&from[taken..], &mut to[given..]);
        (taken, given) = (taken + step.consumed_in, given + step.consumed_out);
        match step.status {
            Ok(weezl::LzwStatus::Done) => return Ok(given),
            Ok(_) if given == to.len() => return Ok(given),
            Ok(weezl::LzwStatus::NoProgress) => return Err(bad("lzw", "ends early")),
            Ok(weezl::LzwStatus::Ok) if step.consumed_in + step.consumed_out == 0 => {
                return Err(bad("lzw", "ends early"))
            }
            Ok(weezl::LzwStatus::Ok) => {}
            Err(e) => return Err(bad("lzw", e)),
        }
    }
}
