//! Chunks that are images. Their width, height and samples are checked against the chunk before any allocation.

use pager::error::PageErrorKind;
use std::io::{BufRead, Cursor, Read, Seek, SeekFrom};
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

fn bad(codec: &str, m: impl std::fmt::Display) -> PageErrorKind {
    PageErrorKind::Decode(format!("{codec}: {m}"))
}

/// The required form of an image.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageShape {
    pub(super) width: usize,
    /// The largest height.
    pub(super) height: usize,
    pub(super) samples: usize,
    /// Bytes a sample.
    pub(super) size: usize,
    /// Byte order of the array, for samples of two bytes.
    pub(super) big: bool,
}

impl ImageShape {
    /// Bytes of an image of this size and samples, if it matches the chunk.
    fn bytes(&self, codec: &str, [width, height, samples, size]: [usize; 4]) -> Result<usize, PageErrorKind> {
        if (width, samples, size) != (self.width, self.samples, self.size) || height > self.height {
            return Err(bad(
                codec,
                format!(
                    "an image of {width} x {height} pixels of {samples} x {} bits where the chunk has {} x {} of {} x {}",
                    size * 8,
                    self.width,
                    self.height,
                    self.samples,
                    self.size * 8
                ),
            ));
        }
        Ok(width * height * samples * size)
    }

    /// The most memory of decoding, beside its result.
    pub(super) fn jpeg_memory(&self) -> usize {
        // 16-bit coefficients of whole blocks, in the worst case without subsampling, and rows under way.
        let blocks = |n: usize| n.div_ceil(16).saturating_mul(16);
        blocks(self.width)
            .saturating_mul(blocks(self.height))
            .saturating_mul(4 * self.samples)
            .saturating_add(256 << 10)
    }
}

/// Decodes a PNG and checks its checksums. Returns the number of decoded bytes.
pub(super) fn png(shape: ImageShape, from: &[u8], to: &mut [u8]) -> Result<usize, PageErrorKind> {
    let error = |e: png::DecodingError| bad("png", e);
    let mut decoder = png::Decoder::new(Cursor::new(from));
    decoder.set_limits(png::Limits { bytes: to.len().saturating_add(1 << 20) });
    decoder.set_transformations(png::Transformations::EXPAND);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let mut reader = decoder.read_info().map_err(error)?;
    let (color, depth) = reader.output_color_type();
    let samples = color.samples();
    let size = match depth {
        png::BitDepth::Eight => 1,
        png::BitDepth::Sixteen => 2,
        other => return Err(bad("png", format!("{other:?} bits a sample"))),
    };
    let info = reader.info();
    let n = shape.bytes("png", [info.width as usize, info.height as usize, samples, size])?;
    let to = to.get_mut(..n).ok_or_else(|| bad("png", "more bytes than the chunk has"))?;
    reader.next_frame(to).map_err(error)?;
    reader.finish().map_err(error)?;
    // Samples of a PNG are big-endian.
    if size == 2 && !shape.big {
        to.as_chunks_mut::<2>().0.iter_mut().for_each(|s| s.reverse());
    }
    Ok(n)
}

/// Decodes a JPEG, with the tables of a TIFF before it. Returns the number of decoded bytes.
pub(super) fn jpeg(
    shape: ImageShape,
    tables: Option<&[u8]>,
    from: &[u8],
    to: &mut [u8],
) -> Result<usize, PageErrorKind> {
    let error = |e: &dyn std::fmt::Display| bad("jpeg", e);
    let (first, second) = match tables {
        // The tables' end mark and the image's start mark would be in the middle.
        Some(t) => (t.strip_suffix(&[0xFF, 0xD9]).unwrap_or(t), from.strip_prefix(&[0xFF, 0xD8]).unwrap_or(from)),
        None => (from, &[][..]),
    };
    let color = match shape.samples {
        1 => ColorSpace::Luma,
        3 => ColorSpace::RGB,
        4 => ColorSpace::RGBA,
        n => return Err(bad("jpeg", format!("{n} samples a pixel"))),
    };
    let options = DecoderOptions::new_fast()
        .set_strict_mode(true)
        .set_max_width(shape.width)
        .set_max_height(shape.height)
        .jpeg_set_out_colorspace(color);
    let mut decoder = JpegDecoder::new_with_options(Two { first, second, at: 0 }, options);
    decoder.decode_headers().map_err(|e| error(&e))?;
    let info = decoder.info().ok_or_else(|| bad("jpeg", "no header"))?;
    let inside = usize::from(info.components);
    if inside != shape.samples && !(inside == 3 && shape.samples == 4) {
        return Err(bad("jpeg", format!("{inside} samples a pixel where the chunk has {}", shape.samples)));
    }
    let n = shape.bytes("jpeg", [info.width.into(), info.height.into(), shape.samples, 1])?;
    let to = to.get_mut(..n).ok_or_else(|| bad("jpeg", "more bytes than the chunk has"))?;
    decoder.decode_into(to).map_err(|e| error(&e))?;
    Ok(n)
}

/// Two runs of bytes as one.
struct Two<'a> {
    first: &'a [u8],
    second: &'a [u8],
    at: usize,
}

impl Read for Two<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let n = self.fill_buf()?.read(to)?;
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for Two<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        Ok(match self.at.checked_sub(self.first.len()) {
            None => &self.first[self.at..],
            Some(at) => self.second.get(at..).unwrap_or_default(),
        })
    }
    fn consume(&mut self, n: usize) {
        self.at += n;
    }
}

impl Seek for Two<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let end = (self.first.len() + self.second.len()) as i64;
        let to = match to {
            SeekFrom::Start(at) => i64::try_from(at).unwrap_or(i64::MAX),
            SeekFrom::End(by) => end.saturating_add(by),
            SeekFrom::Current(by) => (self.at as i64).saturating_add(by),
        };
        self.at = usize::try_from(to).map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
        Ok(self.at as u64)
    }
}
