//! Lines read back from files, in bounded memory.
//!
//! Arrays of plain numbers in the file (all that we write) are read in place. Others are decoded once, front to back,
//! into a [`super::ByteLog`] of a megabyte and an anonymous file. So every array can be read by ranges, and a file
//! larger than memory needs no memory.

mod column;
mod decode;
mod npz;
mod source;
mod tags;
mod vtp;

pub use column::{Column, Storage};
pub use source::{ReadAt, Section};
pub use vtp::{open as open_vtp, Want};

use super::log::{ByteLog, HeldMemory};
use super::{FixedBudget, SpoolOptions};
use field::file::FileBytes;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why lines cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {message}", path = path.display())]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// The fault.
    pub message: String,
}

/// The elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineArrayOn {
    /// One tuple a point.
    Point,
    /// One tuple a line.
    Line,
}

/// An array that can colour lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineArrayInfo {
    /// Its name.
    pub name: String,
    /// Numbers a point or line.
    pub components: usize,
    /// Its elements.
    pub on: LineArrayOn,
    /// Its unit, if the file has it.
    pub unit: Option<String>,
}

/// Some consecutive lines, or a part of a long one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChunk {
    /// Number of the first line here, counted over the file.
    pub first_line: u64,
    /// Positions, physical space.
    pub points: Vec<[f64; 3]>,
    /// Begin of each line in `points`, and the end: one number more than lines.
    pub offsets: Vec<usize>,
    /// For each requested array one number a point: the value, or the magnitude of a vector.
    pub values: Vec<Vec<f64>>,
    /// Whether the first line continues the chunk before; its first point here was the last one there.
    pub continues: bool,
    /// Whether the last line continues in the next chunk.
    pub to_be_continued: bool,
}

/// For fuzzing: any bytes read as a file of lines must give chunks or errors.
pub fn fuzz_lines(bytes: &[u8]) {
    let Ok(file) = LineFile::from_source(Arc::new(bytes.to_vec()), Path::new("fuzz")) else {
        return;
    };
    let names: Vec<String> = file.arrays.iter().map(|array| array.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // Results of damaged bytes do not matter; the calls must return.
    let _ = file.bounds();
    for name in &names {
        let _ = file.range(name);
    }
    let _ = file.for_each_chunk(&names, 16, |_| ControlFlow::Continue(()));
}

/// An array of a piece.
#[derive(Clone)]
pub(crate) struct NamedColumn {
    pub(crate) name: String,
    pub(crate) on: LineArrayOn,
    pub(crate) unit: Option<String>,
    pub(crate) column: Column,
}

/// Points with lines over them.
#[derive(Clone, Default)]
pub struct PointPiece {
    pub(crate) lines: u64,
    /// Number of the first line's tuple in arrays of cells.
    pub(crate) first_cell: u64,
    /// Positions.
    pub points: Option<Column>,
    pub(crate) offsets: Option<Column>,
    /// Whether the offsets begin with a zero.
    pub(crate) offsets_lead: bool,
    /// `None` if lines use the points in order.
    pub(crate) connectivity: Option<Column>,
    pub(crate) arrays: Vec<NamedColumn>,
}

/// Lines in a file.
pub struct LineFile {
    path: PathBuf,
    pieces: Vec<PointPiece>,
    arrays: Vec<LineArrayInfo>,
}

/// Memory of the log of decoded arrays: a fixed cost of an open file.
const DECODED_BYTES: usize = 1 << 20;

/// Offsets and tuples read at once.
const BLOCK: usize = 4096;

pub(crate) fn new_log() -> Result<ByteLog, String> {
    let held = HeldMemory::new(Box::new(FixedBudget::new(DECODED_BYTES)));
    ByteLog::new(&SpoolOptions::spill_directory(None), DECODED_BYTES, held).map_err(|e| e.to_string())
}

impl LineFile {
    /// Opens a `.vtp` or `.npz` file; the content decides.
    ///
    /// # Errors
    /// [`ReadError`] when it cannot be read or has another format.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let failed = |message: String| ReadError { path: path.to_path_buf(), message };
        let source = FileBytes::open(path).map_err(|e| failed(e.to_string()))?;
        Self::from_source(Arc::new(source), path).map_err(failed)
    }

    pub(crate) fn from_source(source: Arc<dyn ReadAt>, path: &Path) -> Result<Self, String> {
        let mut magic = [0; 4];
        let known = source.len() >= 4 && source.read_at(0, &mut magic).is_ok();
        if known && &magic == b"PAR1" {
            return Err("a Parquet table is for data frames and cannot be drawn; write the lines to a .vtp or .npz file as well".into());
        }
        let is_zip = known && magic.starts_with(b"PK");
        let pieces = if is_zip { npz::open(&source)? } else { vtp::open(&source, Want::Lines, new_log()?)? };
        // An array counts if every piece with lines has the same.
        let mut arrays: Vec<LineArrayInfo> = Vec::new();
        let mut drawn = pieces.iter().filter(|piece| piece.lines > 0);
        let first = drawn.next().or(pieces.first());
        for array in first.into_iter().flat_map(|piece| &piece.arrays) {
            let alike = |other: &NamedColumn| {
                other.name == array.name && other.on == array.on && other.column.components == array.column.components
            };
            let everywhere = pieces.iter().filter(|p| p.lines > 0).all(|p| p.arrays.iter().any(alike));
            if everywhere && !arrays.iter().any(|known| known.name == array.name) {
                arrays.push(LineArrayInfo {
                    name: array.name.clone(),
                    components: array.column.components,
                    on: array.on,
                    unit: array.unit.clone(),
                });
            }
        }
        Ok(Self { path: path.to_path_buf(), pieces, arrays })
    }

    /// Number of lines, with those without points.
    pub fn line_count(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.lines).sum()
    }

    /// Number of points.
    pub fn point_count(&self) -> u64 {
        self.pieces.iter().filter_map(|piece| piece.points.as_ref()).map(|points| points.tuples).sum()
    }

    /// The arrays of numbers.
    pub fn arrays(&self) -> &[LineArrayInfo] {
        &self.arrays
    }

    /// Lowest and highest coordinates of all finite points; `None` if there are none.
    ///
    /// # Errors
    /// [`ReadError`] when the file has become unreadable.
    pub fn bounds(&self) -> Result<Option<[[f64; 3]; 2]>, ReadError> {
        let mut bounds = [[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]];
        for points in self.pieces.iter().filter_map(|piece| piece.points.as_ref()) {
            self.for_tuples(points, |p| {
                if p.iter().all(|v| v.is_finite()) {
                    for axis in 0..3 {
                        bounds[0][axis] = bounds[0][axis].min(p[axis]);
                        bounds[1][axis] = bounds[1][axis].max(p[axis]);
                    }
                }
            })?;
        }
        Ok((bounds[0][0] <= bounds[1][0]).then_some(bounds))
    }

    /// Lowest and highest finite value of an array, or magnitude of a vector; `None` without values.
    ///
    /// # Errors
    /// [`ReadError`] for an unknown name, or when the file has become unreadable.
    pub fn range(&self, name: &str) -> Result<Option<[f64; 2]>, ReadError> {
        self.info(name)?;
        let mut range = [f64::INFINITY, f64::NEG_INFINITY];
        for piece in &self.pieces {
            if let Some(array) = piece.arrays.iter().find(|array| array.name == name) {
                self.for_tuples(&array.column, |tuple| {
                    let value = magnitude(tuple);
                    if value.is_finite() {
                        range = [range[0].min(value), range[1].max(value)];
                    }
                })?;
            }
        }
        Ok((range[0] <= range[1]).then_some(range))
    }

    /// Passes on all lines in order, in chunks of at most `max_points` points (at least 2), with the values of the
    /// arrays `names`. A longer line comes in parts. Memory is `max_points * (24 + 8 * names)` bytes and some buffers.
    /// It stops when `take` breaks.
    ///
    /// # Errors
    /// [`ReadError`] for an unknown name, or for lines that do not fit the points of the file.
    pub fn for_each_chunk(
        &self,
        names: &[&str],
        max_points: usize,
        mut take: impl FnMut(&LineChunk) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        for name in names {
            self.info(name)?;
        }
        let mut builder = ChunkBuilder::new(names.len(), max_points.max(2));
        let mut line = 0;
        for piece in &self.pieces {
            let stopped = self.piece_chunks(piece, names, &mut line, &mut builder, &mut take);
            if stopped.map_err(|message| self.failed(message))?.is_break() {
                return Ok(());
            }
        }
        if !builder.is_empty() {
            // The last chunk: a break makes no difference.
            let _ = take(&builder.chunk);
        }
        Ok(())
    }

    fn piece_chunks(
        &self,
        piece: &PointPiece,
        names: &[&str],
        line: &mut u64,
        builder: &mut ChunkBuilder,
        take: &mut dyn FnMut(&LineChunk) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, String> {
        let (Some(points), Some(offsets)) = (&piece.points, &piece.offsets) else {
            *line += piece.lines;
            return Ok(ControlFlow::Continue(()));
        };
        let arrays = names.iter().filter_map(|name| piece.arrays.iter().find(|array| array.name == *name)).collect();
        let columns = DrawnColumns { connectivity: piece.connectivity.as_ref(), points, arrays };
        let total = piece.connectivity.as_ref().unwrap_or(points).tuples;
        let lead = u64::from(piece.offsets_lead);
        let (mut ends, mut start, mut done) = (Vec::new(), 0u64, 0u64);
        let mut gather = FetchBuffers::default();
        while done < piece.lines {
            let count = (piece.lines - done).min(BLOCK as u64) as usize;
            ends.clear();
            offsets.read_whole(done + lead, count, &mut ends)?;
            for end in &ends {
                let end = u64::try_from(*end).ok().filter(|end| *end >= start && *end <= total);
                let end = end.ok_or("has offsets of lines that do not fit its points")?;
                builder.begin_line(*line);
                while start < end {
                    if builder.room() == 0 {
                        builder.end_part();
                        if take(&builder.chunk).is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                        builder.split(*line);
                    }
                    let part = (end - start).min(builder.room() as u64).min(BLOCK as u64) as usize;
                    gather.read(&columns, piece.first_cell + done, start, part, &mut builder.chunk)?;
                    start += part as u64;
                }
                builder.end_line();
                *line += 1;
                done += 1;
                if builder.full() {
                    if take(&builder.chunk).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    builder.clear();
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn info(&self, name: &str) -> Result<&LineArrayInfo, ReadError> {
        self.arrays.iter().find(|array| array.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.arrays.iter().map(|array| array.name.as_str()).collect();
            self.failed(format!("has no array '{name}'; there are: {}", known.join(", ")))
        })
    }

    fn for_tuples(&self, column: &Column, mut take: impl FnMut(&[f64])) -> Result<(), ReadError> {
        let mut values = Vec::new();
        let mut first = 0;
        while first < column.tuples {
            let count = (column.tuples - first).min(BLOCK as u64) as usize;
            values.clear();
            column.read(first, count, &mut values).map_err(|message| self.failed(message))?;
            values.chunks_exact(column.components).for_each(&mut take);
            first += count as u64;
        }
        Ok(())
    }

    fn failed(&self, message: String) -> ReadError {
        ReadError { path: self.path.clone(), message }
    }
}

/// The value of a tuple: itself, or a vector's length.
fn magnitude(tuple: &[f64]) -> f64 {
    match tuple {
        [value] => *value,
        _ => tuple.iter().map(|v| v * v).sum::<f64>().sqrt(),
    }
}

/// The columns of a piece that its chunks are read from.
struct DrawnColumns<'a> {
    /// `None` if lines use the points in order.
    connectivity: Option<&'a Column>,
    points: &'a Column,
    /// The requested arrays.
    arrays: Vec<&'a NamedColumn>,
}

/// Buffers for fetching points and their values.
#[derive(Default)]
struct FetchBuffers {
    indices: Vec<i64>,
    flat: Vec<f64>,
}

impl FetchBuffers {
    /// Appends `count` points of a line, from place `start` of the connectivity on, with their values. The line's tuple
    /// in arrays of cells is `cell`.
    fn read(
        &mut self,
        columns: &DrawnColumns<'_>,
        cell: u64,
        start: u64,
        count: usize,
        chunk: &mut LineChunk,
    ) -> Result<(), String> {
        // Runs of consecutive points: mostly one, since writers number points along the lines.
        let mut runs: Vec<(u64, usize)> = Vec::new();
        match columns.connectivity {
            None => runs.push((start, count)),
            Some(connectivity) => {
                self.indices.clear();
                connectivity.read_whole(start, count, &mut self.indices)?;
                for index in &self.indices {
                    let index = u64::try_from(*index).map_err(|_| "refers to a point below 0".to_owned())?;
                    match runs.last_mut() {
                        Some((first, n)) if *first + *n as u64 == index => *n += 1,
                        _ => runs.push((index, 1)),
                    }
                }
            }
        }
        for (first, n) in runs {
            self.flat.clear();
            columns.points.read(first, n, &mut self.flat)?;
            chunk.points.extend(self.flat.chunks_exact(3).map(|p| [p[0], p[1], p[2]]));
            for (array, values) in columns.arrays.iter().zip(&mut chunk.values) {
                self.flat.clear();
                match array.on {
                    LineArrayOn::Point => {
                        array.column.read(first, n, &mut self.flat)?;
                        values.extend(self.flat.chunks_exact(array.column.components).map(magnitude));
                    }
                    LineArrayOn::Line => {
                        array.column.read(cell, 1, &mut self.flat)?;
                        let value = magnitude(&self.flat);
                        values.extend(std::iter::repeat_n(value, n));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Fills chunks up to their size.
struct ChunkBuilder {
    chunk: LineChunk,
    max_points: usize,
}

impl ChunkBuilder {
    fn new(arrays: usize, max_points: usize) -> Self {
        let chunk = LineChunk { offsets: vec![0], values: vec![Vec::new(); arrays], ..LineChunk::default() };
        Self { chunk, max_points }
    }

    fn is_empty(&self) -> bool {
        self.chunk.offsets.len() == 1
    }

    /// Points that still fit.
    fn room(&self) -> usize {
        self.max_points.saturating_sub(self.chunk.points.len())
    }

    /// Whether to pass it on. Lines without points count too, so that their number is bounded.
    fn full(&self) -> bool {
        self.room() < 2 || self.chunk.offsets.len() > self.max_points
    }

    fn begin_line(&mut self, line: u64) {
        if self.is_empty() {
            self.chunk.first_line = line;
        }
    }

    fn end_line(&mut self) {
        self.chunk.offsets.push(self.chunk.points.len());
        self.chunk.to_be_continued = false;
    }

    /// Ends the part of a line that continues.
    fn end_part(&mut self) {
        self.end_line();
        self.chunk.to_be_continued = true;
    }

    fn clear(&mut self) {
        self.chunk.points.clear();
        self.chunk.values.iter_mut().for_each(Vec::clear);
        self.chunk.offsets.truncate(1);
        self.chunk.continues = false;
        self.chunk.to_be_continued = false;
    }

    /// After a chunk that ends within a line: starts again with that line's last point.
    fn split(&mut self, line: u64) {
        let last = self.chunk.points.last().copied();
        let values: Vec<Option<f64>> = self.chunk.values.iter().map(|values| values.last().copied()).collect();
        self.clear();
        self.chunk.points.extend(last);
        for (column, value) in self.chunk.values.iter_mut().zip(values) {
            column.extend(value);
        }
        self.chunk.first_line = line;
        self.chunk.continues = true;
    }
}
