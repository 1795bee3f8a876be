//! Seeds from files: text, NumPy arrays, VTK points.

use super::spec::planar;
use super::{Dimension, PointList, SeedError, Seeds};
use crate::output::npy::{self, NpyType};
use crate::output::read::{new_log, open_vtp, Column, FileBytes, ReadAt, Section, Storage, Want};
use crate::output::ByteLog;
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::Arc;

/// Bytes of a point in the log.
pub(crate) const POINT_BYTES: u64 = 24;

/// A longer line is no list of coordinates.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Tuples converted at once.
const BLOCK: usize = 4096;

/// Opens a file by its extension.
pub(crate) fn open(path: &Path, dimension: Dimension) -> Result<Seeds, SeedError> {
    let failed = |reason: String| SeedError::File { path: path.to_path_buf(), reason };
    let source: Arc<dyn ReadAt> = Arc::new(FileBytes::open(path).map_err(|e| failed(e.to_string()))?);
    let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    let log = match extension.as_deref() {
        Some("csv") => csv(source.as_ref(), dimension),
        Some("npy") => npy(&source, dimension),
        Some("vtp") => vtp(&source, dimension),
        _ => Err("a file of seeds ends in .csv, .npy or .vtp".into()),
    };
    let log = log.map_err(&failed)?;
    if log.is_empty() {
        return Err(failed("holds no points".into()));
    }
    Ok(Seeds::List(PointList::Log(Arc::new(log))))
}

/// Point number `index` of a log.
pub(crate) fn point(log: &ByteLog, index: u64) -> Result<[f64; 3], SeedError> {
    let mut bytes = [0; POINT_BYTES as usize];
    log.read_at(index * POINT_BYTES, &mut bytes).map_err(|e| SeedError::Spill(e.to_string()))?;
    let mut point = [0.0; 3];
    for (value, chunk) in point.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        *value = f64::from_le_bytes(word);
    }
    Ok(point)
}

/// Appends a point, which must be finite and have as many coordinates as the data.
fn push(log: &mut ByteLog, numbers: &[f64], dimension: Dimension) -> Result<(), String> {
    if numbers.iter().any(|v| !v.is_finite()) {
        return Err("has a coordinate that is not a finite number".into());
    }
    let point = planar(numbers, dimension).ok_or_else(|| match dimension {
        Dimension::Two if numbers.len() == 3 => "has a z that is not 0, but the data is 2-D".to_owned(),
        Dimension::Two => format!("has {} coordinates; the data is 2-D and takes x,y", numbers.len()),
        Dimension::Three => format!("has {} coordinates; the data is 3-D and takes x,y,z", numbers.len()),
    })?;
    let mut bytes = [0; POINT_BYTES as usize];
    for (chunk, value) in bytes.chunks_exact_mut(8).zip(point) {
        chunk.copy_from_slice(&value.to_le_bytes());
    }
    log.append(&bytes).map(|_| ()).map_err(|e| e.to_string())
}

/// Text: one point a line, separated by commas, semicolons or white space, with or without a line of names in front. With names the columns
/// `x`, `y`, `z` are taken (also `X`, and ParaView's `Points:0`); without, there are two or three columns. Lines that begin with `#` are skipped.
fn csv(source: &dyn ReadAt, dimension: Dimension) -> Result<ByteLog, String> {
    let mut section = Section::new(source, 0, source.len());
    let mut log = new_log()?;
    let mut line = Vec::new();
    let mut columns: Option<Vec<usize>> = None;
    let mut first = true;
    let mut number = 0u64;
    let mut values = Vec::new();
    loop {
        line.clear();
        let read = (&mut section).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(|e| e.to_string())?;
        if read == 0 {
            return Ok(log);
        }
        number += 1;
        if read as u64 == MAX_LINE_BYTES {
            return Err(format!("line {number} is longer than any list of coordinates"));
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
            return Err(not_a_number(number, cells[values.len()]));
        }
        push(&mut log, &values, dimension).map_err(|message| format!("line {number} {message}"))?;
    }
}

fn not_a_number(line: u64, cell: &str) -> String {
    format!("line {line} has '{}' where a number should stand", cell.chars().take(40).collect::<String>())
}

/// The cells of a line.
fn cells(text: &str) -> Vec<&str> {
    let separator = [',', ';', '\t'].into_iter().find(|c| text.contains(*c));
    match separator {
        Some(separator) => text.split(separator).map(|cell| cell.trim().trim_matches('"').trim()).collect(),
        None => text.split_whitespace().map(|cell| cell.trim_matches('"')).collect(),
    }
}

/// Which columns the coordinates are in.
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
fn npy(source: &Arc<dyn ReadAt>, dimension: Dimension) -> Result<ByteLog, String> {
    let mut head = vec![0; source.len().min(npy::MAX_HEADER_BYTES as u64) as usize];
    source.read_at(0, &mut head).map_err(|e| e.to_string())?;
    let header = npy::parse(&head)?;
    let NpyType::Number(number) = header.dtype else {
        return Err("holds text, not numbers".into());
    };
    let (tuples, components) = match header.shape[..] {
        [n, components @ (2 | 3)] => (n, components),
        [components @ (2 | 3)] => (1, components),
        ref other => return Err(format!("has shape {other:?}; an array of shape (N, 3) or (N, 2) is needed")),
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
    let mut log = new_log()?;
    push_column(&column, dimension, &mut log)?;
    Ok(log)
}

/// The points of a VTK PolyData file.
fn vtp(source: &Arc<dyn ReadAt>, dimension: Dimension) -> Result<ByteLog, String> {
    let mut log = new_log()?;
    for piece in open_vtp(source, Want::Points)? {
        if let Some(points) = piece.points {
            push_column(&points, dimension, &mut log)?;
        }
    }
    Ok(log)
}

fn push_column(column: &Column, dimension: Dimension, log: &mut ByteLog) -> Result<(), String> {
    let mut values = Vec::new();
    let mut first = 0;
    while first < column.tuples {
        let count = (column.tuples - first).min(BLOCK as u64) as usize;
        values.clear();
        column.read(first, count, &mut values)?;
        for (i, point) in values.chunks_exact(column.components).enumerate() {
            push(log, point, dimension).map_err(|message| format!("point {} {message}", first + i as u64))?;
        }
        first += count as u64;
    }
    Ok(())
}

/// For fuzzing: text that is read as seeds may do nothing but parse or fail.
pub fn fuzz_csv(bytes: &[u8]) {
    for dimension in [Dimension::Two, Dimension::Three] {
        let _ = csv(&bytes, dimension);
    }
}

/// The same for a NumPy array.
pub fn fuzz_npy(bytes: &[u8]) {
    let source: Arc<dyn ReadAt> = Arc::new(bytes.to_vec());
    for dimension in [Dimension::Two, Dimension::Three] {
        let _ = npy(&source, dimension);
    }
}

/// The same for VTK points.
pub fn fuzz_vtp(bytes: &[u8]) {
    let source: Arc<dyn ReadAt> = Arc::new(bytes.to_vec());
    for dimension in [Dimension::Two, Dimension::Three] {
        let _ = vtp(&source, dimension);
    }
}
