//! Lines from a NumPy archive: `points` (N, 3), `offsets` (L+1,), and any arrays of N or L numbers.

use super::column::{Column, Storage};
use super::decode::copy;
use super::source::{ReadAt, Section};
use super::{new_log, LineArrayOn, NamedColumn, PointPiece};
use crate::npy::{self, NpyType};
use crate::zip::{self, ZipEntry, ZipMethod};
use std::io::{BufReader, Read};
use std::sync::Arc;

/// An array's name, column and shape.
struct NpzArray {
    name: String,
    header: npy::NpyHeader,
    decoded: bool,
    at: u64,
}

pub fn open(source: &Arc<dyn ReadAt>) -> Result<Vec<PointPiece>, String> {
    let mut log = new_log()?;
    let mut found = Vec::new();
    let mut units = None;
    for entry in zip::list(source.as_ref())? {
        let Some(name) = entry.name.strip_suffix(".npy").map(str::to_owned) else {
            continue;
        };
        let about = |message: String| format!("array '{name}' {message}");
        let mut stream = stream(source.as_ref(), &entry);
        let mut head = Vec::new();
        (&mut stream)
            .take(npy::MAX_HEADER_BYTES as u64)
            .read_to_end(&mut head)
            .map_err(|e| about(super::decode::said(&e)))?;
        let header = match npy::parse(&head) {
            Ok(header) => header,
            // Of an unusable kind; only the needed arrays must be readable.
            Err(_) if name != "points" && name != "offsets" => continue,
            Err(message) => return Err(about(message)),
        };
        if let (NpyType::Text(_), "meta") = (header.dtype, name.as_str()) {
            units = parse_units(&head, &header, &mut stream);
            continue;
        }
        let NpyType::Number(_) = header.dtype else {
            continue;
        };
        let bytes = header.data_bytes().filter(|bytes| bytes.checked_add(header.data_at) == Some(entry.bytes));
        let bytes = bytes.ok_or_else(|| about("has another size than its shape says".into()))?;
        check(source.as_ref(), &entry).map_err(about)?;
        let (decoded, at) = match entry.method {
            ZipMethod::Stored => (false, entry.data_at + header.data_at),
            ZipMethod::Deflated => {
                let at = log.len();
                let after = &head[(header.data_at as usize).min(head.len())..];
                let first = after.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
                log.append(&after[..first]).map_err(|e| e.to_string())?;
                copy(&mut stream, bytes - first as u64, &mut log).map_err(about)?;
                (true, at)
            }
        };
        found.push(NpzArray { name, header, decoded, at });
    }
    let log = Arc::new(log);
    let column = |found: &NpzArray| -> Option<Column> {
        let NpyType::Number(number) = found.header.dtype else {
            return None;
        };
        let components = match found.header.shape[..] {
            [_] => 1,
            [_, components] => usize::try_from(components).ok().filter(|n| (1..=64).contains(n))?,
            _ => return None,
        };
        Some(Column {
            storage: if found.decoded {
                Storage::Decoded(Arc::clone(&log))
            } else {
                Storage::Source(Arc::clone(source))
            },
            at: found.at,
            number,
            big_endian: found.header.big_endian,
            components,
            tuples: found.header.shape[0],
            fortran: found.header.fortran,
        })
    };
    let named = |name: &str| found.iter().find(|f| f.name == name).and_then(column);
    let points = named("points").filter(|c| c.components == 3).ok_or("has no array 'points' of shape (N, 3)")?;
    let offsets = named("offsets")
        .filter(|c| c.components == 1 && c.tuples > 0)
        .ok_or("has no array 'offsets' of shape (L+1,)")?;
    let lines = offsets.tuples - 1;
    let mut arrays = Vec::new();
    for f in found.iter().filter(|f| f.name != "points" && f.name != "offsets") {
        let Some(column) = column(f) else { continue };
        // If both counts are equal it counts as an array of points, unless it is known to be one of lines.
        let on = if column.tuples == points.tuples && f.name != "seed" {
            LineArrayOn::Point
        } else if column.tuples == lines {
            LineArrayOn::Line
        } else {
            continue;
        };
        let unit = units.as_ref().and_then(|units: &serde_json::Value| units.get(&f.name)?.as_str().map(str::to_owned));
        arrays.push(NamedColumn { name: f.name.clone(), on, unit: unit.filter(|u| !u.is_empty()), column });
    }
    Ok(vec![PointPiece {
        lines,
        points: Some(points),
        offsets: Some(offsets),
        offsets_lead: true,
        arrays,
        ..PointPiece::default()
    }])
}

/// Verifies the checksum of an entry, in one pass before any of its bytes is used.
fn check(source: &dyn ReadAt, entry: &ZipEntry) -> Result<(), String> {
    let (mut from, mut part, mut crc) = (stream(source, entry), vec![0; 1 << 16], crc32fast::Hasher::new());
    loop {
        match from.read(&mut part).map_err(|e| super::decode::said(&e))? {
            0 => break,
            got => crc.update(&part[..got]),
        }
    }
    match crc.finalize() == entry.crc {
        true => Ok(()),
        false => Err("is damaged: its checksum is wrong; make the file again, or copy it again".into()),
    }
}

fn stream<'a>(source: &'a dyn ReadAt, entry: &ZipEntry) -> Box<dyn Read + 'a> {
    let section = Section::new(source, entry.data_at, entry.data_at + entry.compressed_bytes);
    match entry.method {
        ZipMethod::Stored => Box::new(section),
        ZipMethod::Deflated => Box::new(BufReader::new(flate2::bufread::DeflateDecoder::new(section))),
    }
}

/// The units in our own `meta` array; `None` for any other content.
fn parse_units(head: &[u8], header: &npy::NpyHeader, rest: &mut dyn Read) -> Option<serde_json::Value> {
    let bytes = usize::try_from(header.data_bytes()?).ok().filter(|bytes| *bytes <= 1 << 20)?;
    let mut data = head.get(header.data_at as usize..)?.to_vec();
    rest.take(bytes.saturating_sub(data.len()) as u64).read_to_end(&mut data).ok()?;
    let text: String = data
        .get(..bytes)?
        .chunks_exact(4)
        .map(|c| {
            let word = [c[0], c[1], c[2], c[3]];
            if header.big_endian {
                u32::from_be_bytes(word)
            } else {
                u32::from_le_bytes(word)
            }
        })
        .map_while(|code| char::from_u32(code).filter(|c| *c != '\0'))
        .collect();
    let meta: serde_json::Value = serde_json::from_str(&text).ok()?;
    meta.get("units").cloned()
}
