//! PNG, row by row.

use std::io::{self, Write};

/// Bytes of compression for any picture: window, tables, output chunk.
const DEFLATE_BYTES: u64 = 1 << 20;

/// Bytes of compressed data written at a time.
pub const CHUNK_BYTES: usize = 1 << 16;

/// Bytes of a picture's encoder: the compressor and a few rows for the filters.
pub fn bytes(width: u32) -> u64 {
    DEFLATE_BYTES + u64::from(width) * 3 * 8
}

/// Writes the head of a PNG of `size` pixels, 8 bits a channel, sRGB, with `text` (key, value).
///
/// # Errors
/// Errors of `out`.
pub fn begin<W: Write>(out: W, size: [u32; 2], text: &[(&str, String)]) -> io::Result<png::Writer<W>> {
    begin_as(out, size, (png::ColorType::Rgb, png::BitDepth::Eight), text)
}

/// As [`begin`], with other channels.
///
/// # Errors
/// Errors of `out`.
pub fn begin_as<W: Write>(
    out: W,
    size: [u32; 2],
    (colour, depth): (png::ColorType, png::BitDepth),
    text: &[(&str, String)],
) -> io::Result<png::Writer<W>> {
    let mut encoder = png::Encoder::new(out, size[0], size[1]);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    encoder.set_source_srgb(png::SrgbRenderingIntent::Perceptual);
    encoder.set_compression(png::Compression::Fast);
    for (key, value) in text {
        encoder.add_itxt_chunk((*key).to_owned(), value.clone()).map_err(plain)?;
    }
    encoder.write_header().map_err(plain)
}

/// The error of the writer itself, if it is one: the encoder's wrapper loses its kind.
pub fn plain(error: png::EncodingError) -> io::Error {
    match error {
        png::EncodingError::IoError(error) => error,
        other => io::Error::other(other),
    }
}
