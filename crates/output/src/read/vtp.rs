//! VTK XML PolyData as VTK, ParaView, PyVista, meshio and Farfield write it. Data are appended raw or base64, inline
//! base64 or text, with or without zlib, in either byte order, with both header widths.

use super::column::{Column, Storage};
use super::decode::{copy, text_numbers, zlib_blocks, Base64, HeaderType};
use super::source::{ReadAt, Section};
use super::tags::{unescape, Tag, Tags, Text};
use super::{LineArrayOn, NamedColumn, PointPiece};
use crate::log::ByteLog;
use crate::number::Number;
use std::io::{BufReader, Read};
use std::sync::Arc;

/// The requested parts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The points only.
    Points,
    /// Lines with all arrays of numbers.
    Lines,
}

/// An array as its tag declares it.
struct Declared {
    place: VtpSection,
    name: String,
    number: Number,
    components: usize,
    encoding: Encoding,
    unit: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VtpSection {
    Points,
    Lines,
    PointData,
    CellData,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// At an offset from the underscore.
    Appended(u64),
    /// Base64 between the tags.
    Binary(Text),
    /// Numbers between the tags.
    Ascii(Text),
}

/// A piece as its tags declare it.
#[derive(Default)]
struct DeclaredPiece {
    points: u64,
    verts: u64,
    lines: u64,
    arrays: Vec<Declared>,
}

/// The declarations of the whole file.
struct VtpDocument {
    header: HeaderType,
    zlib: bool,
    pieces: Vec<DeclaredPiece>,
    /// Encoding of the appended data and the byte behind the underscore.
    appended: Option<(bool, u64)>,
}

/// Most arrays and pieces of a valid file of lines.
const MAX_ARRAYS: usize = 4096;
const MAX_DEPTH: usize = 64;

/// Opens a file. Plain arrays are read in place later; the rest is decoded now, into `log`.
///
/// # Errors
/// A message for a file that is no valid PolyData, or is unreadable.
pub fn open(source: &Arc<dyn ReadAt>, want: Want, mut log: ByteLog) -> Result<Vec<PointPiece>, String> {
    let document = scan(source.as_ref())?;
    let mut pieces = Vec::new();
    for piece in &document.pieces {
        let mut columns = Vec::new();
        for declared in &piece.arrays {
            let tuples = match (declared.place, declared.name.as_str()) {
                (VtpSection::Points | VtpSection::PointData, _) => piece.points,
                _ if want == Want::Points => continue,
                (VtpSection::Lines, "offsets") => piece.lines,
                // Its length is the last offset, which is read first.
                (VtpSection::Lines, _) => continue,
                // Vertices come first; cells behind the lines are not needed.
                (VtpSection::CellData, _) => piece.verts.saturating_add(piece.lines),
            };
            if want == Want::Points && declared.place != VtpSection::Points {
                continue;
            }
            columns.push((declared, decode(source.as_ref(), &document, declared, tuples, &mut log)?));
        }
        pieces.push(columns);
    }
    // The connectivity's length is the last offset, which is among the decoded arrays.
    let mut tails = Vec::new();
    for (piece, columns) in document.pieces.iter().zip(&pieces) {
        let total = match columns.iter().find(|(d, _)| d.place == VtpSection::Lines) {
            Some((declared, found)) if piece.lines > 0 => {
                last_offset(source.as_ref(), &log, declared, *found, piece.lines, document.header.big_endian)?
            }
            _ => 0,
        };
        let connectivity = piece.arrays.iter().find(|d| d.place == VtpSection::Lines && d.name == "connectivity");
        tails.push(match connectivity {
            Some(declared) if want == Want::Lines && piece.lines > 0 => {
                Some((declared, decode(source.as_ref(), &document, declared, total, &mut log)?, total))
            }
            None if want == Want::Lines && piece.lines > 0 => return Err("has lines without their connectivity".into()),
            _ => None,
        });
    }
    let log = Arc::new(log);
    let column = |declared: &Declared, found: ArrayBytes, tuples: u64| Column {
        storage: if found.decoded { Storage::Decoded(Arc::clone(&log)) } else { Storage::Source(Arc::clone(source)) },
        at: found.at,
        number: declared.number,
        // Numbers from text were encoded here, little-endian.
        big_endian: document.header.big_endian && !matches!(declared.encoding, Encoding::Ascii(_)),
        components: declared.components,
        tuples,
        fortran: false,
    };
    let mut out = Vec::new();
    for ((piece, columns), tail) in document.pieces.iter().zip(pieces).zip(tails) {
        let mut built = PointPiece { lines: piece.lines, first_cell: piece.verts, ..PointPiece::default() };
        for (declared, found) in columns {
            let (tuples, on) = match declared.place {
                VtpSection::Points | VtpSection::PointData => (piece.points, LineArrayOn::Point),
                VtpSection::Lines => (piece.lines, LineArrayOn::Line),
                VtpSection::CellData => (piece.verts.saturating_add(piece.lines), LineArrayOn::Line),
            };
            let column = column(declared, found, tuples);
            match declared.place {
                VtpSection::Points if declared.components == 3 => built.points = Some(column),
                VtpSection::Points => return Err("has points that do not have three coordinates".into()),
                VtpSection::Lines => built.offsets = Some(column),
                VtpSection::PointData | VtpSection::CellData => built.arrays.push(NamedColumn {
                    name: declared.name.clone(),
                    on,
                    unit: declared.unit.clone(),
                    column,
                }),
            }
        }
        built.connectivity = tail.map(|(declared, found, total)| column(declared, found, total));
        if built.points.is_none() && piece.points > 0 {
            return Err("has no array of points".into());
        }
        if built.offsets.is_none() && piece.lines > 0 && want == Want::Lines {
            return Err("has lines without their offsets".into());
        }
        out.push(built);
    }
    Ok(out)
}

fn last_offset(
    source: &dyn ReadAt,
    log: &ByteLog,
    declared: &Declared,
    found: ArrayBytes,
    lines: u64,
    big_endian: bool,
) -> Result<u64, String> {
    let mut bytes = [0; 8];
    let bytes = &mut bytes[..declared.number.bytes()];
    let at = found.at + (lines - 1) * bytes.len() as u64;
    if found.decoded {
        log.read_at(at, bytes).map_err(|e| e.to_string())?;
    } else {
        source.read_at(at, bytes).map_err(|e| super::decode::said(&e))?;
    }
    let big_endian = big_endian && !matches!(declared.encoding, Encoding::Ascii(_));
    let value = declared.number.to_i64(bytes, big_endian).and_then(|value| u64::try_from(value).ok());
    value.ok_or_else(|| "has offsets of lines that are not whole numbers".into())
}

/// The place of an array's bytes.
#[derive(Clone, Copy)]
struct ArrayBytes {
    decoded: bool,
    at: u64,
}

/// Finds or decodes an array of `tuples` tuples.
fn decode(
    source: &dyn ReadAt,
    document: &VtpDocument,
    declared: &Declared,
    tuples: u64,
    log: &mut ByteLog,
) -> Result<ArrayBytes, String> {
    let name = &declared.name;
    let about = |message: String| format!("array '{name}' {message}");
    let numbers = tuples.checked_mul(declared.components as u64);
    let bytes = numbers.and_then(|count| count.checked_mul(declared.number.bytes() as u64));
    let (Some(numbers), Some(bytes)) = (numbers, bytes) else {
        return Err(about("is longer than any file".into()));
    };
    let at = log.len();
    let section = |from: u64, to: u64| Section::new(source, from, to);
    match declared.encoding {
        Encoding::Ascii(text) => {
            text_numbers(&mut section(text.start, text.end), declared.number, numbers, log).map_err(about)?;
        }
        Encoding::Binary(text) => {
            let mut stream = Base64::new(section(text.start, text.end));
            binary(&mut stream, document, bytes, log).map_err(about)?;
        }
        Encoding::Appended(offset) => {
            let (base64, data_at) =
                document.appended.ok_or_else(|| about("is said to be in appended data, but there is none".into()))?;
            let from = data_at.checked_add(offset).filter(|from| *from <= source.len());
            let from = from.ok_or_else(|| about("lies behind the end of the file".into()))?;
            let mut stream = section(from, source.len());
            if base64 {
                binary(&mut Base64::new(stream), document, bytes, log).map_err(about)?;
            } else if document.zlib {
                binary(&mut stream, document, bytes, log).map_err(about)?;
            } else if bytes > 0 {
                check_length(document.header.read(&mut stream).map_err(about)?, bytes).map_err(about)?;
                let at = from + document.header.bytes as u64;
                if at.checked_add(bytes).is_none_or(|end| end > source.len()) {
                    return Err(about("ends before its data does".into()));
                }
                return Ok(ArrayBytes { decoded: false, at });
            }
        }
    }
    Ok(ArrayBytes { decoded: true, at })
}

/// Decodes data with a header of lengths.
fn binary(stream: &mut dyn Read, document: &VtpDocument, bytes: u64, log: &mut ByteLog) -> Result<(), String> {
    if bytes == 0 {
        // Writers leave out even the header of an empty array.
        return Ok(());
    }
    // Headers are read a number at a time.
    let mut stream = BufReader::with_capacity(4 << 10, stream);
    if document.zlib {
        return zlib_blocks(&mut stream, document.header, bytes, log);
    }
    check_length(document.header.read(&mut stream)?, bytes)?;
    copy(&mut stream, bytes, log)
}

/// A longer array is fine (cell data of cells behind the lines); a shorter one is not.
fn check_length(has: u64, needs: u64) -> Result<(), String> {
    if has < needs {
        return Err(format!("has {has} bytes where {needs} are needed"));
    }
    Ok(())
}

/// Reads the tags.
fn scan(source: &dyn ReadAt) -> Result<VtpDocument, String> {
    let mut tags = Tags::new(Section::new(source, 0, source.len()));
    let mut document: Option<VtpDocument> = None;
    let mut stack: Vec<String> = Vec::new();
    let mut arrays = 0;
    // The array with open tags, and whether its text was found.
    let mut open: Option<Declared> = None;
    let mut unit_at: Option<u64> = None;
    while let Some((text, tag)) = tags.next()? {
        if let Some(declared) = &mut open {
            if stack.last().is_some_and(|name| name == "DataArray") && !text.blank {
                match &mut declared.encoding {
                    Encoding::Ascii(at) | Encoding::Binary(at) if at.blank => *at = text,
                    _ => {}
                }
            }
        }
        let (name, attributes, empty) = match tag {
            Tag::Close { name } => {
                if unit_at.take().is_some() && name == "InformationKey" {
                    if let Some(declared) = &mut open {
                        declared.unit = short_text(source, text);
                    }
                }
                if name == "DataArray" {
                    finish_array(&mut document, open.take());
                }
                if stack.pop().as_deref() != Some(&name) {
                    return Err(format!("has a tag '</{name}>' that closes nothing"));
                }
                continue;
            }
            Tag::Open { name, attributes, empty } => (name, attributes, empty),
        };
        let get = |key: &str| attributes.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        match (name.as_str(), &mut document) {
            ("VTKFile", None) => document = Some(root(&get)?),
            (_, None) => return Err("is not a VTK XML file".into()),
            ("Piece", Some(document)) => {
                let count = |key| match get(key) {
                    None => Ok(0),
                    Some(value) => value.trim().parse().map_err(|_| format!("has {key}=\"{value}\"")),
                };
                document.pieces.push(DeclaredPiece {
                    points: count("NumberOfPoints")?,
                    verts: count("NumberOfVerts")?,
                    lines: count("NumberOfLines")?,
                    arrays: Vec::new(),
                });
            }
            ("DataArray", Some(_)) => {
                open = declare(&stack, &get)?;
                if empty {
                    finish_array(&mut document, open.take());
                }
            }
            ("InformationKey", Some(_)) if get("name") == Some("UNITS_LABEL") && !empty => {
                unit_at = Some(tags.position());
            }
            ("AppendedData", Some(document)) => {
                let base64 = match get("encoding") {
                    Some("raw") => false,
                    Some("base64") | None => true,
                    Some(other) => return Err(format!("has appended data in encoding '{other}'")),
                };
                document.appended = Some((base64, underscore(source, tags.position())?));
                // The rest is not text.
                break;
            }
            _ => {}
        }
        arrays += 1;
        if arrays > 4 * MAX_ARRAYS || stack.len() > MAX_DEPTH {
            return Err("has more elements than a file of lines".into());
        }
        if !empty {
            stack.push(name);
        }
    }
    let document = document.ok_or("is not a VTK XML file")?;
    if document.pieces.is_empty() {
        return Err("has no pieces".into());
    }
    Ok(document)
}

fn root<'a>(get: &impl Fn(&str) -> Option<&'a str>) -> Result<VtpDocument, String> {
    match get("type") {
        Some("PolyData") => {}
        Some("PPolyData") => return Err("only lists pieces (.pvtp); name one of its .vtp files".into()),
        other => return Err(format!("holds {}, not PolyData", other.unwrap_or("nothing known"))),
    }
    let zlib = match get("compressor") {
        None | Some("") => false,
        Some("vtkZLibDataCompressor") => true,
        Some(other) => {
            return Err(format!("is compressed with {other}; save it with zlib or without compression"));
        }
    };
    let bytes = match get("header_type") {
        None | Some("UInt32") => 4,
        Some("UInt64") => 8,
        Some(other) => return Err(format!("has header_type \"{other}\"")),
    };
    let big_endian = get("byte_order") == Some("BigEndian");
    Ok(VtpDocument { header: HeaderType { bytes, big_endian }, zlib, pieces: Vec::new(), appended: None })
}

/// An array of numbers at a relevant place; `None` for others.
fn declare<'a>(stack: &[String], get: &impl Fn(&str) -> Option<&'a str>) -> Result<Option<Declared>, String> {
    let place = match stack.last().map(String::as_str) {
        Some("Points") => VtpSection::Points,
        Some("Lines") => VtpSection::Lines,
        Some("PointData") => VtpSection::PointData,
        Some("CellData") => VtpSection::CellData,
        _ => return Ok(None),
    };
    let Some(number) = get("type").and_then(Number::from_vtk) else {
        return Ok(None);
    };
    let name = get("Name").unwrap_or("").to_owned();
    let components = match get("NumberOfComponents").map(|n| n.trim().parse::<usize>()) {
        None => 1,
        Some(Ok(0)) => 1,
        Some(Ok(n)) if n <= 64 => n,
        _ => return Err(format!("has a wrong number of components in array '{name}'")),
    };
    let nothing = Text { start: 0, end: 0, blank: true };
    let encoding = match get("format") {
        Some("appended") => {
            let offset = get("offset").and_then(|offset| offset.trim().parse().ok());
            Encoding::Appended(offset.ok_or_else(|| format!("has no offset for array '{name}'"))?)
        }
        Some("binary") => Encoding::Binary(nothing),
        Some("ascii") | None => Encoding::Ascii(nothing),
        Some(other) => return Err(format!("has array '{name}' in format '{other}'")),
    };
    Ok(Some(Declared { place, name, number, components, encoding, unit: None }))
}

fn finish_array(document: &mut Option<VtpDocument>, declared: Option<Declared>) {
    let piece = document.as_mut().and_then(|document| document.pieces.last_mut());
    if let (Some(piece), Some(declared)) = (piece, declared) {
        if piece.arrays.len() < MAX_ARRAYS {
            piece.arrays.push(declared);
        }
    }
}

fn short_text(source: &dyn ReadAt, text: Text) -> Option<String> {
    let mut bytes = vec![0; usize::try_from(text.end.checked_sub(text.start)?).ok().filter(|n| *n <= 1000)?];
    source.read_at(text.start, &mut bytes).ok()?;
    Some(unescape(std::str::from_utf8(&bytes).ok()?.trim()))
}

/// The begin of the appended data: behind the first underscore.
fn underscore(source: &dyn ReadAt, from: u64) -> Result<u64, String> {
    let mut section = Section::new(source, from, from.saturating_add(4096));
    while let Some(byte) = section.byte().map_err(|e| e.to_string())? {
        match byte {
            b'_' => return Ok(section.position()),
            byte if byte.is_ascii_whitespace() => {}
            _ => break,
        }
    }
    Err("has appended data without its underscore".into())
}
