//! Seeds from files: text, NumPy arrays, VTK points.

use super::context::{planar, Dimension, SeedContext};
use super::error::SeedError;
use super::points::{new_log, PointList};
use super::shapes::Seeds;
use field::file::FileBytes;
use output::npy::{self, NpyType};
use output::read::{open_vtp, Column, ReadAt, Section, Storage, Want};
use output::FixedBudget;
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::Arc;

/// Most bytes of a line. A longer one is no list of coordinates.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Tuples converted at once, and lines between two calls of the watch.
const BLOCK: usize = 4096;

/// Why a file gives no seeds: its content, which is reported with its name, or another error.
enum SeedFileError {
    Content(String),
    Else(SeedError),
}

impl From<String> for SeedFileError {
    fn from(reason: String) -> Self {
        Self::Content(reason)
    }
}

impl From<&str> for SeedFileError {
    fn from(reason: &str) -> Self {
        Self::Content(reason.to_owned())
    }
}

impl From<SeedError> for SeedFileError {
    fn from(e: SeedError) -> Self {
        Self::Else(e)
    }
}

/// Opens a file by its extension.
pub(crate) fn open(path: &Path, reading: &mut SeedContext<'_, '_>) -> Result<Seeds, SeedError> {
    let source = FileBytes::open(path).map_err(|source| SeedError::Open { path: path.to_path_buf(), source })?;
    let source: Arc<dyn ReadAt> = Arc::new(source);
    let mut list = PointList::held(reading.held.sibling())?;
    let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    let read = match extension.as_deref() {
        Some("csv") => csv(source.as_ref(), reading, &mut list),
        Some("npy") => npy(&source, reading, &mut list),
        Some("vtp") => vtp(&source, reading, &mut list),
        _ => Err("a file of seeds ends in .csv, .npy or .vtp".into()),
    };
    match read {
        Ok(()) if list.is_empty() => {
            Err(SeedError::File { path: path.to_path_buf(), reason: "holds no points".into() })
        }
        Ok(()) => Ok(Seeds::List(Arc::new(list))),
        Err(SeedFileError::Content(reason)) => Err(SeedError::File { path: path.to_path_buf(), reason }),
        Err(SeedFileError::Else(e)) => Err(e),
    }
}

/// A point. It must be finite and have the data's number of coordinates.
fn point(numbers: &[f64], dimension: Dimension) -> Result<[f64; 3], String> {
    if numbers.iter().any(|v| !v.is_finite()) {
        return Err("has a coordinate that is not a finite number".into());
    }
    planar(numbers, dimension).ok_or_else(|| match dimension {
        Dimension::Two if numbers.len() == 3 => "has a z that is not 0, but the data is 2-D".to_owned(),
        Dimension::Two => format!("has {} coordinates; the data is 2-D and takes x,y", numbers.len()),
        Dimension::Three => format!("has {} coordinates; the data is 3-D and takes x,y,z", numbers.len()),
    })
}

/// Text: one point a line, separated by commas, semicolons or white space. A line of names may come first. Then the
/// columns `x`, `y`, `z` are read (also `X`, and ParaView's `Points:0`). Without names there are two or three columns.
/// Lines that begin with `#` are skipped.
fn csv(source: &dyn ReadAt, reading: &mut SeedContext<'_, '_>, list: &mut PointList) -> Result<(), SeedFileError> {
    let mut section = Section::new(source, 0, source.len());
    let dimension = reading.dimension;
    let mut line = Vec::new();
    let mut columns: Option<Vec<usize>> = None;
    let mut first = true;
    let mut number = 0u64;
    let mut values = Vec::new();
    loop {
        line.clear();
        let read = (&mut section).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(|e| e.to_string())?;
        if read == 0 {
            return Ok(());
        }
        number += 1;
        if number.is_multiple_of(BLOCK as u64) {
            reading.told(section.position(), source.len())?;
        }
        if read as u64 == MAX_LINE_BYTES {
            return Err(format!("line {number} is longer than any list of coordinates").into());
        }
        let text = std::str::from_utf8(&line).map_err(|_| format!("line {number} is not text"))?;
        let text = if number == 1 { text.trim_start_matches('\u{feff}') } else { text }.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let cells = cells(text);
        values.clear();
        values.extend(cells.iter().map_while(|cell| cell.parse::<f64>().ok()));
        if std::mem::take(&mut first) && values.len() < cells.len() && values.is_empty() {
            columns = Some(named(&cells, dimension).ok_or_else(|| {
                format!(
                    "line {number} names the columns {}, among which there is no x and y{}",
                    cells.join(", "),
                    if dimension == Dimension::Three { " and z" } else { "" }
                )
            })?);
            continue;
        }
        if let Some(columns) = &columns {
            values.clear();
            for column in columns {
                let cell = cells.get(*column).ok_or_else(|| format!("line {number} has too few columns"))?;
                values.push(cell.parse().map_err(|_| not_a_number(number, cell))?);
            }
        } else if values.len() < cells.len() {
            return Err(not_a_number(number, cells[values.len()]).into());
        }
        list.push(point(&values, dimension).map_err(|message| format!("line {number} {message}"))?)?;
    }
}

fn not_a_number(line: u64, cell: &str) -> String {
    format!("line {line} has '{}' where a number should stand", cell.chars().take(40).collect::<String>())
}

fn cells(text: &str) -> Vec<&str> {
    let separator = [',', ';', '\t'].into_iter().find(|c| text.contains(*c));
    match separator {
        Some(separator) => text.split(separator).map(|cell| cell.trim().trim_matches('"').trim()).collect(),
        None => text.split_whitespace().map(|cell| cell.trim_matches('"')).collect(),
    }
}

/// The columns of the coordinates.
fn named(cells: &[&str], dimension: Dimension) -> Option<Vec<usize>> {
    let find = |names: [&str; 3]| cells.iter().position(|cell| names.contains(&cell.to_ascii_lowercase().as_str()));
    let x = find(["x", "points:0", "points_0"])?;
    let y = find(["y", "points:1", "points_1"])?;
    match (find(["z", "points:2", "points_2"]), dimension) {
        (Some(z), _) => Some(vec![x, y, z]),
        (None, Dimension::Two) => Some(vec![x, y]),
        (None, Dimension::Three) => None,
    }
}

/// A NumPy array of shape (N, 3) or (N, 2), or of one point (3,) or (2,).
fn npy(source: &Arc<dyn ReadAt>, reading: &mut SeedContext<'_, '_>, list: &mut PointList) -> Result<(), SeedFileError> {
    let mut head = vec![0; source.len().min(npy::MAX_HEADER_BYTES as u64) as usize];
    source.read_at(0, &mut head).map_err(|e| e.to_string())?;
    let header = npy::parse(&head)?;
    let NpyType::Number(number) = header.dtype else {
        return Err("holds text, not numbers".into());
    };
    let (tuples, components) = match header.shape[..] {
        [n, components @ (2 | 3)] => (n, components),
        [components @ (2 | 3)] => (1, components),
        ref other => return Err(format!("has shape {other:?}; an array of shape (N, 3) or (N, 2) is needed").into()),
    };
    let end = header.data_bytes().and_then(|bytes| bytes.checked_add(header.data_at));
    if end.is_none_or(|end| end > source.len()) {
        return Err("ends before its array does".into());
    }
    let column = Column {
        storage: Storage::Source(Arc::clone(source)),
        at: header.data_at,
        number,
        big_endian: header.big_endian,
        components: components as usize,
        tuples,
        fortran: header.fortran && header.shape.len() == 2,
    };
    push_column(&column, reading, list)
}

fn vtp(source: &Arc<dyn ReadAt>, reading: &mut SeedContext<'_, '_>, list: &mut PointList) -> Result<(), SeedFileError> {
    let decoded = new_log(reading.held.sibling())?;
    for piece in open_vtp(source, Want::Points, decoded)? {
        if let Some(points) = piece.points {
            push_column(&points, reading, list)?;
        }
    }
    Ok(())
}

fn push_column(column: &Column, reading: &mut SeedContext<'_, '_>, list: &mut PointList) -> Result<(), SeedFileError> {
    let mut values = Vec::new();
    let mut first = 0;
    while first < column.tuples {
        reading.told(first, column.tuples)?;
        let count = (column.tuples - first).min(BLOCK as u64) as usize;
        values.clear();
        column.read(first, count, &mut values)?;
        for (i, numbers) in values.chunks_exact(column.components).enumerate() {
            let point = point(numbers, reading.dimension);
            list.push(point.map_err(|message| format!("point {} {message}", first + i as u64))?)?;
        }
        first += count as u64;
    }
    Ok(())
}

/// Reads bytes as a file of seeds of either dimension, and ignores the result.
fn fuzz(read: impl Fn(&mut SeedContext<'_, '_>, &mut PointList) -> Result<(), SeedFileError>) {
    for dimension in [Dimension::Two, Dimension::Three] {
        let mut watch = |_: &str, _: f64, _: f64| true;
        let mut reading = SeedContext::new(dimension, Box::new(FixedBudget::new(1 << 20)), &mut watch);
        if let Ok(mut list) = PointList::held(reading.held.sibling()) {
            let _ = read(&mut reading, &mut list);
        }
    }
}

/// For fuzzing: any text read as seeds either parses or is an error.
pub fn fuzz_csv(bytes: &[u8]) {
    fuzz(|reading, list| csv(&bytes, reading, list));
}

/// The same for a NumPy array.
pub fn fuzz_npy(bytes: &[u8]) {
    let source: Arc<dyn ReadAt> = Arc::new(bytes.to_vec());
    fuzz(|reading, list| npy(&source, reading, list));
}

/// The same for VTK points.
pub fn fuzz_vtp(bytes: &[u8]) {
    let source: Arc<dyn ReadAt> = Arc::new(bytes.to_vec());
    fuzz(|reading, list| vtp(&source, reading, list));
}
