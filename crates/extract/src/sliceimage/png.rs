//! Slices as PNG.

use super::edges::MarkedSlice;
use super::paint::{Painter, SlicePaint};
use super::run::PictureRows;
use field::error::FieldError;
use kernels::draw::readable;
use kernels::draw::Marks;
use kernels::slice::Pixel;
use output::png_rows;
use output::{ByteLog, HeldMemory, NewFile, OutputError, SpoolOptions};
use runtime::session::ProgressWatch;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Most bytes of waiting numbers in memory until the range is known; the others are on disk.
const WAIT_BYTES: usize = 1 << 20;

/// Bytes of rows painted at a time.
const PAINT_BYTES: usize = 64 << 10;

/// Writes a picture as rows come. If its range must be found first, numbers wait (in single precision) in memory and in
/// an anonymous file until the last row.
pub(super) struct PngWriter {
    file: NewFile,
    size: [u32; 2],
    components: usize,
    look: SlicePaint,
    text: Vec<(&'static str, String)>,
    /// Once the range is known.
    stream: Option<(png::StreamWriter<'static, Arc<File>>, Painter)>,
    waiting: Option<ByteLog>,
    found: Vec<[f64; 2]>,
    painted: Vec<u8>,
    /// The present row, and its annotations.
    row: Vec<u8>,
    marked: MarkedSlice,
    marks: Option<Marks>,
    held: HeldMemory,
}

impl PngWriter {
    pub(super) fn create(
        path: &Path,
        (size, components): ([u32; 2], usize),
        look: SlicePaint,
        text: Vec<(&'static str, String)>,
        marked: MarkedSlice,
        mut held: HeldMemory,
    ) -> Result<Self, FieldError> {
        // The compressor, and painted rows; a row of the picture is four bytes a pixel.
        let needs = png_rows::bytes(size[0]) as usize * 4 / 3 + 2 * PAINT_BYTES + 4 * size[0] as usize;
        if !held.grow(needs) {
            return Err(OutputError::Memory { needs: needs as u64 }.into());
        }
        let file = NewFile::create(path)?;
        let waiting = match look.seeks() {
            true => {
                let beside = file.path().parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let directory = match std::env::var_os("TMPDIR").filter(|v| !v.is_empty()) {
                    Some(_) => SpoolOptions::spill_directory(None),
                    None => beside.to_path_buf(),
                };
                Some(ByteLog::new(&directory, WAIT_BYTES, held.sibling())?)
            }
            false => None,
        };
        let found = vec![[f64::INFINITY, f64::NEG_INFINITY]; components];
        let mut made = Self {
            file,
            size,
            components,
            look,
            text,
            stream: None,
            waiting,
            found,
            painted: Vec::with_capacity(PAINT_BYTES + 8),
            row: Vec::with_capacity(4 * size[0] as usize),
            marked,
            marks: None,
            held,
        };
        if made.waiting.is_none() {
            made.begin()?;
        }
        Ok(made)
    }

    fn failed(&self, e: std::io::Error) -> FieldError {
        OutputError::io(self.file.path(), "write", e).into()
    }

    /// The range is known: the head of the file.
    fn begin(&mut self) -> Result<(), FieldError> {
        let painter = Painter::new(self.look.clone()).map_err(|e| FieldError::Usage(e.to_string()))?;
        self.marks = self.marked.over(&self.look, self.size);
        if let Some(needs) = self.marks.as_ref().map(|marks| marks.bytes(self.size[0])) {
            if !self.held.grow(needs as usize) {
                return Err(OutputError::Memory { needs }.into());
            }
        }
        let channels = match self.look.is_grey16() {
            true => (png::ColorType::GrayscaleAlpha, png::BitDepth::Sixteen),
            false => (png::ColorType::Rgba, png::BitDepth::Eight),
        };
        let out = Arc::clone(self.file.file());
        let writer = png_rows::begin_as(out, self.size, channels, &self.text).map_err(|e| self.failed(e))?;
        let stream = writer.into_stream_writer_with_size(png_rows::CHUNK_BYTES);
        self.stream = Some((stream.map_err(|e| self.failed(png_rows::plain(e)))?, painter));
        Ok(())
    }

    pub(super) fn push(&mut self, rows: &PictureRows) -> Result<(), FieldError> {
        let Some(waiting) = &mut self.waiting else {
            let first = u64::from(rows.first) * rows.width as u64;
            return self.paint(first, &rows.pixels, &rows.values);
        };
        for (pixel, values) in rows.pixels.iter().zip(rows.values.chunks_exact(self.components)) {
            self.painted.push(*pixel as u8);
            for (value, range) in values.iter().zip(&mut self.found) {
                self.painted.extend_from_slice(&(*value as f32).to_le_bytes());
                if value.is_finite() {
                    *range = [range[0].min(*value), range[1].max(*value)];
                }
            }
            if self.painted.len() >= PAINT_BYTES - 4 * (self.components + 1) {
                waiting.append(&self.painted)?;
                self.painted.clear();
            }
        }
        waiting.append(&self.painted)?;
        self.painted.clear();
        Ok(())
    }

    /// Paints pixels, from one on (counted in rows).
    fn paint(&mut self, first: u64, pixels: &[Pixel], values: &[f64]) -> Result<(), FieldError> {
        let width = u64::from(self.size[0]);
        let mut written = Ok(());
        if let Some((stream, painter)) = &mut self.stream {
            let each = pixels.iter().zip(values.chunks_exact(self.components)).zip(first..);
            for ((pixel, values), n) in each {
                painter.paint([(n % width) as u32, (n / width) as u32], *pixel, values, &mut self.row);
                if n % width == width - 1 {
                    if let Some(marks) = &self.marks {
                        marks.lay((n / width) as u32, &mut self.row);
                    }
                    written = written.and_then(|()| std::io::Write::write_all(stream, &self.row));
                    self.row.clear();
                }
            }
        }
        written.map_err(|e| self.failed(e))
    }

    /// Completes the file and gives it its name. Returns its bytes, and the ranges of colours.
    pub(super) fn finish(mut self, watch: &mut ProgressWatch<'_>) -> Result<(u64, Vec<[f64; 2]>), FieldError> {
        if let Some(waiting) = self.waiting.take() {
            let found: Vec<[f64; 2]> =
                self.found.iter().map(|r| if r[0] <= r[1] { readable(*r) } else { [0.0, 1.0] }).collect();
            self.look = self.look.settled(&found);
            self.begin()?;
            let item = 1 + 4 * self.components;
            let run = PAINT_BYTES / item;
            let (mut bytes, mut pixels, mut values) = (vec![0; run * item], Vec::with_capacity(run), Vec::new());
            let all = waiting.len() / item as u64;
            let mut first = 0;
            while first < all {
                let count = (all - first).min(run as u64) as usize;
                let bytes = &mut bytes[..count * item];
                waiting.read_at(first * item as u64, bytes)?;
                pixels.clear();
                values.clear();
                for pixel in bytes.chunks_exact(item) {
                    pixels.push(match pixel[0] {
                        1 => Pixel::Value,
                        2 => Pixel::Outside,
                        _ => Pixel::Failed,
                    });
                    values.extend(
                        pixel[1..].chunks_exact(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
                    );
                }
                self.paint(first, &pixels, &values)?;
                first += count as u64;
                if !watch("painting", first as f64, all as f64) {
                    return Err(FieldError::Interrupted);
                }
            }
        }
        if let Some((stream, _)) = self.stream.take() {
            stream.finish().map_err(|e| self.failed(png_rows::plain(e)))?;
        }
        let ranges = self.look.ranges();
        Ok((self.file.commit()?, ranges))
    }
}
