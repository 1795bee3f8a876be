//! Codecs of the store's pages. Each page is a byte string followed by its crc32c, so a flipped bit is detected before
//! decoding.
//!
//! | codec | page |
//! |---|---|
//! | `none` | the page itself |
//! | `zstd` | one frame with its content size |
//! | `lz4` | Zarr's `blosc` codec with lz4 and byte shuffle |
//!
//! Blosc is the only container of lz4 that zarr-python, xarray and TensorStore all read. C blosc has had heap overflows
//! on crafted input. So its header and block table are checked against the page before the call.

use crate::error::FieldError;
use pager::error::PageErrorKind;
use serde_json::{json, Value};
use std::cell::RefCell;
use std::ffi::c_void;

/// Bytes of the checksum after each page.
pub const CRC_BYTES: usize = 4;
/// Bytes of a blosc header.
const BLOSC_HEADER: usize = 16;
/// Bytes of a blosc block. It fits the first-level cache together with its shuffled copy.
const BLOSC_BLOCK: usize = 16 << 10;
/// Blosc's middle compression level. For lz4 it sets the acceleration.
const BLOSC_LEVEL: i32 = 5;

/// Encoding of pages.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Codec {
    /// As in memory.
    None,
    /// One zstd frame.
    Zstd {
        /// Compression level, 1 to 19.
        level: i32,
    },
    /// Blosc with lz4 and byte shuffle.
    Lz4,
}

impl Codec {
    /// The codec with this name on the command line. `level` is for zstd, 1 by default.
    ///
    /// # Errors
    /// [`FieldError::Usage`] for an unknown name or level.
    pub fn parse(name: &str, level: Option<i32>) -> Result<Self, FieldError> {
        match (name, level) {
            ("none", None) => Ok(Self::None),
            ("lz4", None) => Ok(Self::Lz4),
            ("zstd", level) => match level.unwrap_or(1) {
                level @ 1..=19 => Ok(Self::Zstd { level }),
                level => Err(FieldError::Usage(format!("zstd level {level} is not in 1 to 19"))),
            },
            ("none" | "lz4", Some(_)) => Err(FieldError::Usage(format!("codec '{name}' has no level"))),
            _ => Err(FieldError::Usage(format!("no codec named '{name}'; there are: none, zstd, lz4"))),
        }
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Zstd { .. } => "zstd",
            Self::Lz4 => "lz4",
        }
    }

    /// The compression level, if the codec has one.
    pub const fn level(self) -> Option<i32> {
        match self {
            Self::Zstd { level } => Some(level),
            Self::None | Self::Lz4 => None,
        }
    }

    /// The most bytes of an encoded page of `page_bytes`, checksum included.
    pub fn max_encoded(self, page_bytes: usize) -> usize {
        CRC_BYTES
            + match self {
                Self::None => page_bytes,
                Self::Zstd { .. } => zstd::zstd_safe::compress_bound(page_bytes),
                Self::Lz4 => page_bytes + BLOSC_HEADER,
            }
    }

    /// The fewest bytes of an encoded page of `page_bytes`, checksum included.
    pub const fn min_encoded(self, page_bytes: usize) -> usize {
        CRC_BYTES
            + match self {
                Self::None => page_bytes,
                Self::Zstd { .. } => 1,
                Self::Lz4 => BLOSC_HEADER,
            }
    }

    /// The codec chain as Zarr metadata, for elements of `typesize` bytes.
    pub(crate) fn metadata(self, typesize: usize) -> Value {
        let bytes = match typesize {
            1 => json!({"name": "bytes"}),
            _ => json!({"name": "bytes", "configuration": {"endian": "little"}}),
        };
        let crc = json!({"name": "crc32c"});
        match self {
            Self::None => json!([bytes, crc]),
            Self::Zstd { level } => {
                json!([bytes, {"name": "zstd", "configuration": {"level": level, "checksum": false}}, crc])
            }
            Self::Lz4 => json!([bytes, {"name": "blosc", "configuration": {
                "typesize": typesize, "cname": "lz4", "clevel": BLOSC_LEVEL,
                "shuffle": if typesize > 1 { "shuffle" } else { "noshuffle" }, "blocksize": BLOSC_BLOCK}}, crc]),
        }
    }

    /// Checks and decodes a page. `encoded` is the page with its checksum. `frame` receives the page and must have
    /// exactly its length. Elements have `typesize` bytes, and get native byte order.
    ///
    /// # Errors
    /// [`PageErrorKind::Checksum`] if a bit is wrong, [`PageErrorKind::Decode`] if the bytes are not the page.
    pub fn decode(self, typesize: usize, encoded: &[u8], frame: &mut [u8]) -> Result<(), PageErrorKind> {
        let (body, crc) = split_crc(encoded)?;
        check_crc(body, crc)?;
        match self {
            Self::None => frame.copy_from_slice(of_length(body, frame.len())?),
            Self::Zstd { .. } => zstd_decode(body, frame)?,
            Self::Lz4 => blosc_decode(typesize, body, frame)?,
        }
        to_native(typesize, frame);
        Ok(())
    }
}

/// The bytes of an uncompressed page, if its checksum and its length are right.
///
/// # Errors
/// As [`Codec::decode`].
pub fn checked_body(encoded: &[u8], page_bytes: usize) -> Result<&[u8], PageErrorKind> {
    let (body, crc) = split_crc(encoded)?;
    check_crc(body, crc)?;
    of_length(body, page_bytes)
}

fn of_length(body: &[u8], page_bytes: usize) -> Result<&[u8], PageErrorKind> {
    if body.len() == page_bytes {
        return Ok(body);
    }
    Err(PageErrorKind::Decode(format!("{} bytes for a page of {page_bytes}", body.len())))
}

/// The body and the checksum of an encoded page.
fn split_crc(encoded: &[u8]) -> Result<(&[u8], u32), PageErrorKind> {
    let at = encoded.len().checked_sub(CRC_BYTES).filter(|&n| n > 0);
    let at = at.ok_or_else(|| PageErrorKind::Decode(format!("{} bytes are not a page", encoded.len())))?;
    let (body, crc) = encoded.split_at(at);
    Ok((body, u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]])))
}

/// Compares a stored checksum with that of `body`.
///
/// # Errors
/// [`PageErrorKind::Checksum`] with both checksums.
pub fn check_crc(body: &[u8], stored: u32) -> Result<(), PageErrorKind> {
    let computed = crc32c::crc32c(body);
    if stored == computed {
        Ok(())
    } else {
        Err(PageErrorKind::Checksum { stored, computed })
    }
}

/// Converts elements between little-endian and native order. Does nothing on little-endian machines.
pub fn to_native(typesize: usize, bytes: &mut [u8]) {
    if cfg!(target_endian = "big") && typesize > 1 {
        bytes.chunks_exact_mut(typesize).for_each(<[u8]>::reverse);
    }
}

thread_local! {
    // A context takes about 100 KB and as long to make as a small page to decode, so each reader keeps one.
    static UNZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

fn zstd_decode(body: &[u8], frame: &mut [u8]) -> Result<(), PageErrorKind> {
    let bad = |m: String| PageErrorKind::Decode(format!("zstd: {m}"));
    match zstd::zstd_safe::get_frame_content_size(body) {
        Ok(Some(n)) if n == frame.len() as u64 => {}
        Ok(n) => return Err(bad(format!("frame declares {n:?} bytes for a page of {}", frame.len()))),
        Err(_) => return Err(bad("not a frame".into())),
    }
    match zstd::zstd_safe::find_frame_compressed_size(body) {
        Ok(n) if n == body.len() => {}
        _ => return Err(bad("frame and page do not end together".into())),
    }
    let n = UNZSTD.with(|cell| {
        let mut slot = cell.borrow_mut();
        if slot.is_none() {
            *slot = Some(zstd::bulk::Decompressor::new()?);
        }
        match slot.as_mut() {
            Some(d) => d.decompress_to_buffer(body, frame),
            None => Ok(0),
        }
    });
    match n {
        Ok(n) if n == frame.len() => Ok(()),
        Ok(n) => Err(bad(format!("{n} bytes for a page of {}", frame.len()))),
        Err(e) => Err(bad(e.to_string())),
    }
}

/// Checks a blosc buffer against its page, so that C gets only sizes of ours.
fn blosc_check(typesize: usize, body: &[u8], page_bytes: usize) -> Result<(), PageErrorKind> {
    let bad = |m: &str| Err(PageErrorKind::Decode(format!("blosc: {m}")));
    let word = |at: usize| {
        let b = body.get(at..at + 4)?;
        usize::try_from(u32::from_le_bytes([b[0], b[1], b[2], b[3]])).ok()
    };
    let (Some(nbytes), Some(block), Some(cbytes)) = (word(4), word(8), word(12)) else { return bad("no header") };
    let (version, flags) = (body[0], body[2]);
    if version != 2 {
        return bad("unknown version");
    }
    if usize::from(body[3]) != typesize || nbytes != page_bytes || cbytes != body.len() {
        return bad("header and page differ");
    }
    // Bits: 0 shuffle, 1 stored, 2 bitshuffle, 3 reserved, 4 blocks not split, 5-7 format (1 is lz4).
    let stored = flags & 2 != 0;
    if flags & 0b1100 != 0 || (flags >> 5) != 1 && !stored {
        return bad("not lz4 with byte shuffle");
    }
    if stored {
        return if cbytes == nbytes + BLOSC_HEADER { Ok(()) } else { bad("stored length is wrong") };
    }
    if block == 0 || block > nbytes || block % typesize != 0 && block != nbytes {
        return bad("block size is wrong");
    }
    let blocks = nbytes.div_ceil(block);
    let first = BLOSC_HEADER + 4 * blocks;
    for n in 0..blocks {
        match word(BLOSC_HEADER + 4 * n) {
            Some(at) if at >= first && at + 4 <= cbytes => {}
            _ => return bad("block table points outside"),
        }
    }
    Ok(())
}

fn blosc_decode(typesize: usize, body: &[u8], frame: &mut [u8]) -> Result<(), PageErrorKind> {
    blosc_check(typesize, body, frame.len())?;
    // SAFETY: as checked above, the header gives `body` a length of `cbytes` and a decoded size of `frame.len()` bytes,
    // and the block table lies inside. Blosc gets the size of the destination and does not write beyond it.
    let n = unsafe {
        blosc_src::blosc_decompress_ctx(
            body.as_ptr().cast::<c_void>(),
            frame.as_mut_ptr().cast::<c_void>(),
            frame.len(),
            1,
        )
    };
    if usize::try_from(n) == Ok(frame.len()) {
        Ok(())
    } else {
        Err(PageErrorKind::Decode(format!("blosc: answered {n} for a page of {} bytes", frame.len())))
    }
}

/// Encodes pages, and reuses the codec's context. One for each encoding thread.
pub struct Encoder {
    codec: Codec,
    typesize: usize,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Encoder {
    /// An encoder of pages whose elements have `typesize` bytes.
    ///
    /// # Errors
    /// The codec's context cannot be made.
    pub fn new(codec: Codec, typesize: usize) -> std::io::Result<Self> {
        let zstd = match codec {
            Codec::Zstd { level } => Some(zstd::bulk::Compressor::new(level)?),
            Codec::None | Codec::Lz4 => None,
        };
        Ok(Self { codec, typesize, zstd })
    }

    /// Appends the encoded `page` (little-endian) and its checksum to `out`. Returns the number of bytes appended.
    /// Equal pages give equal bytes, whatever came before.
    ///
    /// # Errors
    /// Errors of the codec.
    pub fn encode(&mut self, page: &[u8], out: &mut Vec<u8>) -> std::io::Result<usize> {
        let start = out.len();
        match (&mut self.zstd, self.codec) {
            (Some(zstd), _) => {
                let room = zstd::zstd_safe::compress_bound(page.len());
                out.resize(start + room, 0);
                let n = zstd.compress_to_buffer(page, &mut out[start..])?;
                out.truncate(start + n);
            }
            (None, Codec::Lz4) => {
                let room = page.len() + BLOSC_HEADER;
                out.resize(start + room, 0);
                let shuffle = i32::from(self.typesize > 1);
                // SAFETY: both buffers are valid for the given lengths; the name is a C string; blosc writes at most
                // `room` bytes.
                let n = unsafe {
                    blosc_src::blosc_compress_ctx(
                        BLOSC_LEVEL,
                        shuffle,
                        self.typesize,
                        page.len(),
                        page.as_ptr().cast::<c_void>(),
                        out[start..].as_mut_ptr().cast::<c_void>(),
                        room,
                        c"lz4".as_ptr(),
                        BLOSC_BLOCK,
                        1,
                    )
                };
                match usize::try_from(n) {
                    Ok(n) if n > 0 => out.truncate(start + n),
                    _ => return Err(std::io::Error::other(format!("blosc answered {n}"))),
                }
            }
            (None, _) => out.extend_from_slice(page),
        }
        let crc = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        Ok(out.len() - start)
    }

    /// As [`Self::encode`], for a page of `len` bytes in native order that `fill` writes. `fill` writes straight into
    /// `out` if the codec is `none`, else into `scratch`. It must write every byte.
    ///
    /// # Errors
    /// Errors of the codec.
    pub fn encode_with(
        &mut self,
        len: usize,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
        fill: impl FnOnce(&mut [u8]),
    ) -> std::io::Result<usize> {
        if self.codec != Codec::None {
            scratch.resize(len, 0);
            fill(scratch);
            to_native(self.typesize, scratch);
            return self.encode(scratch, out);
        }
        let start = out.len();
        out.resize(start + len, 0);
        fill(&mut out[start..]);
        to_native(self.typesize, &mut out[start..]);
        let crc = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        Ok(len + CRC_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(n: usize) -> Vec<u8> {
        (0..n / 4).flat_map(|i| ((i as f32) * 0.01).sin().to_le_bytes()).collect()
    }

    const ALL: [Codec; 3] = [Codec::None, Codec::Zstd { level: 1 }, Codec::Lz4];

    #[test]
    fn round_trip() {
        for codec in ALL {
            for n in [4, 8, 64, 500, 8788, 16384, 65536, 3 * 64 * 64 * 64 * 4] {
                for p in
                    [page(n), vec![0; n], (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()]
                {
                    let mut e = Encoder::new(codec, 4).unwrap();
                    let mut out = vec![7; 3];
                    let len = e.encode(&p, &mut out).unwrap();
                    assert_eq!(len, out.len() - 3);
                    assert!(len <= codec.max_encoded(n) && len >= codec.min_encoded(n), "{codec:?} {n} {len}");
                    let mut back = vec![0; n];
                    codec.decode(4, &out[3..], &mut back).unwrap();
                    assert_eq!(back, p, "{codec:?} {n}");
                }
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        for codec in ALL {
            let p = page(400);
            let mut out = Vec::new();
            Encoder::new(codec, 4).unwrap().encode(&p, &mut out).unwrap();
            let mut back = vec![0; p.len()];
            for bit in 0..out.len() * 8 {
                out[bit / 8] ^= 1 << (bit % 8);
                assert!(matches!(codec.decode(4, &out, &mut back), Err(PageErrorKind::Checksum { .. })));
                out[bit / 8] ^= 1 << (bit % 8);
            }
            for n in 0..out.len() {
                assert!(codec.decode(4, &out[..n], &mut back).is_err());
            }
        }
    }

    /// A wrong page under a right checksum, as from a forger, is refused and never written past the frame.
    #[test]
    fn crafted_pages_are_refused() {
        let mut seed = 0x1234_5678_9abc_def0u64;
        for codec in [Codec::Zstd { level: 1 }, Codec::Lz4] {
            let p = page(40_000);
            let mut good = Vec::new();
            Encoder::new(codec, 4).unwrap().encode(&p, &mut good).unwrap();
            for _ in 0..20_000 {
                let mut bad = good[..good.len() - 4].to_vec();
                for _ in 0..3 {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    let reach = if seed & 1 == 0 { 40.min(bad.len()) } else { bad.len() };
                    bad[(seed >> 8) as usize % reach] = (seed >> 40) as u8;
                }
                let crc = crc32c::crc32c(&bad);
                bad.extend_from_slice(&crc.to_le_bytes());
                let mut frame = vec![0u8; p.len() + 64];
                frame[p.len()..].fill(0xa5);
                let _ = codec.decode(4, &bad, &mut frame[..p.len()]);
                assert!(frame[p.len()..].iter().all(|&b| b == 0xa5));
            }
        }
    }
}
