//! From the bytes of one file to the one reading that fits.
//!
//! Every encoding that the options allow is tested ([`super::reading::check`]).
//!
//! | readings that fit | result |
//! |---|---|
//! | none | an error with the nearest misses |
//! | one | that reading |
//! | several | the values decide ([`super::evidence`]); else an error with the readings and the options that choose |

use super::ascii;
use super::bytes::ByteSource;
use super::evidence;
use super::options::{ByteOrder, Dimension, Format, Kind, Plot3dOptions, Precision, ZoneCount};
use super::reading::{check, Encoding, Expected, FileReading, ReadRequest, ZoneReading};
use super::records::Records;
use super::walk::{Stop, Why};
use crate::error::FieldError;
use std::path::Path;

/// Rank below which a reading has found no plausible header.
const HEADER: u32 = 20;
/// Near misses in an error.
const SHOWN: usize = 4;

/// One sniffed file.
#[derive(Clone, Debug)]
pub struct Sniffed {
    /// The reading.
    pub reading: FileReading,
    /// Decisions by values, and other remarks, one sentence each.
    pub remarks: Vec<String>,
}

/// Every binary encoding of a kind.
pub(super) fn encodings(kind: Kind) -> Vec<Encoding> {
    let mut all = Vec::new();
    let iblanks: &[bool] = if kind == Kind::Grid { &[false, true] } else { &[false] };
    let overflows: &[bool] = if kind == Kind::Q { &[false, true] } else { &[false] };
    for (format, mark) in [(Format::Fortran, 4), (Format::Binary, 4), (Format::Fortran, 8)] {
        for byte_order in [ByteOrder::Little, ByteOrder::Big] {
            for zones in [ZoneCount::Multi, ZoneCount::Single] {
                for dimension in [Dimension::Three, Dimension::Two] {
                    for &overflow in overflows {
                        for &iblank in iblanks {
                            for precision in [Precision::Single, Precision::Double] {
                                for &(order, records) in Records::all(format, iblank) {
                                    all.push(Encoding {
                                        kind,
                                        format,
                                        mark,
                                        byte_order,
                                        precision,
                                        dimension,
                                        zones,
                                        iblank,
                                        order,
                                        records,
                                        overflow,
                                    });
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    all
}

/// The binary readings that hold, and why the others do not.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn binary_candidates(
    source: &dyn ByteSource,
    asked: ReadRequest<'_>,
) -> std::io::Result<(Vec<FileReading>, Vec<Why>)> {
    let mut fits: Vec<FileReading> = Vec::new();
    let mut not = Vec::new();
    for encoding in encodings(asked.kind) {
        if !encoding.allowed(asked.options) {
            continue;
        }
        match check(source, encoding, asked.expected) {
            Ok(reading) => {
                let same = fits.iter_mut().find(|r| {
                    let like = Encoding { order: encoding.order, records: encoding.records, ..r.encoding };
                    r.zones == reading.zones && like == encoding
                });
                match same {
                    None => fits.push(reading),
                    // If every zone is one plane thick or has one array, WHOLE and PLANES are the same bytes.
                    Some(r)
                        if r.encoding.order == encoding.order || r.zones.iter().all(|z| one_order(z, &encoding)) => {}
                    // Three planes of x, y and z, or x, y and z: equal records, different numbers.
                    Some(r) => r.also = r.also.or(Some((encoding.order, encoding.records))),
                }
            }
            Err(Stop::Why(why)) => not.push(why),
            Err(Stop::Io(e)) if e.kind() == std::io::ErrorKind::UnexpectedEof => {}
            Err(Stop::Io(e)) => return Err(e),
        }
    }
    Ok((fits, not))
}

/// Whether both orders put a zone's numbers in the same places.
fn one_order(zone: &ZoneReading, e: &Encoding) -> bool {
    zone.dims[2] == 1 || zone.variables == 1 && !e.iblank
}

/// Whether a file is read as text: by the options, or else by its first bytes.
pub(super) fn is_text(source: &dyn ByteSource, options: &Plot3dOptions) -> std::io::Result<bool> {
    match options.format {
        Some(format) => Ok(format == Format::Ascii),
        None => ascii::looks_like_text(source),
    }
}

/// All readings of one file, text or binary.
pub(super) fn candidates(
    source: &dyn ByteSource,
    path: &Path,
    asked: ReadRequest<'_>,
    progress: ascii::ConversionProgress<'_>,
) -> Result<(Vec<FileReading>, Vec<Why>), FieldError> {
    let io = |e| FieldError::io(path, e);
    if source.size() == 0 {
        return Err(FieldError::format(path, "the file is empty"));
    }
    if is_text(source, asked.options).map_err(io)? {
        return ascii::candidates(source, path, asked, progress);
    }
    binary_candidates(source, asked).map_err(io)
}

/// Chooses by their values among readings that add up under `options`.
///
/// # Errors
/// [`FieldError::Io`], or [`FieldError::Ambiguous`] if the values do not decide.
pub(super) fn choose(
    source: &dyn ByteSource,
    path: &Path,
    options: &Plot3dOptions,
    mut fits: Vec<FileReading>,
) -> Result<Sniffed, FieldError> {
    let mut remarks = Vec::new();
    if fits.len() > 1 && fits[0].encoding.format != Format::Ascii {
        let plausible = evidence::most_plausible(source, &fits, options).map_err(|e| FieldError::io(path, e))?;
        if let Some(winner) = plausible {
            let chosen = fits.swap_remove(winner);
            let others: Vec<String> = fits.iter().map(|r| r.encoding.describe()).collect();
            remarks.push(format!(
                "{}: the sizes also add up for {}; the values decided.",
                file_name(path),
                others.join("; or ")
            ));
            fits = vec![chosen];
        }
    }
    if fits.len() > 1 {
        return Err(FieldError::Ambiguous { path: path.to_owned(), readings: list(&fits) });
    }
    let Some(reading) = fits.pop() else {
        return Err(FieldError::format(path, "no reading fits"));
    };
    if !reading.tail.is_empty() {
        remarks.push(format!("{}: {}.", file_name(path), reading.tail));
    }
    Ok(Sniffed { reading, remarks })
}

/// Readings in words, each with the options in which it differs from the others.
fn list(fits: &[FileReading]) -> Vec<String> {
    let words: Vec<_> = fits.iter().map(|r| r.encoding.options().words()).collect();
    fits.iter()
        .zip(&words)
        .map(|(reading, mine)| {
            let options: Vec<String> = mine
                .iter()
                .filter(|w| words.iter().any(|other| !other.contains(w)))
                .map(|(k, w)| format!("--plot3d-{k} {w}"))
                .collect();
            format!("  {} ({}): {}", reading.encoding.describe(), zones_text(reading), options.join(" "))
        })
        .collect()
}

fn zones_text(reading: &FileReading) -> String {
    let dimension = reading.encoding.dimension.count();
    let dims: Vec<String> = reading.dims().take(3).map(|d| super::reading::dims_text(&d, dimension)).collect();
    let n = reading.zones.len();
    format!("{n} zone{}: {}{}", if n == 1 { "" } else { "s" }, dims.join(", "), if n > 3 { ", ..." } else { "" })
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned())
}

/// The error for a file that nothing fits, with the nearest misses and other kinds that fit.
pub(super) fn nothing_fits(
    source: &dyn ByteSource,
    path: &Path,
    asked: ReadRequest<'_>,
    not: &[Why],
    progress: ascii::ConversionProgress<'_>,
) -> FieldError {
    let what = match asked.kind {
        Kind::Grid => "a PLOT3D grid",
        Kind::Q => "a PLOT3D solution (q) file",
        Kind::Function => "a PLOT3D function file",
    };
    let mut message = format!("this is not {what}: no reading of its {} bytes adds up", source.size());
    let given = asked.options.words();
    if !given.is_empty() {
        let words: Vec<String> = given.iter().map(|(k, w)| format!("--plot3d-{k} {w}")).collect();
        message.push_str(&format!(" with {}", words.join(" ")));
    }
    message.push('.');
    match what_else(source, path, asked, progress) {
        Ok(Some(other)) => return FieldError::format(path, format!("{message} {other}")),
        Ok(None) => {}
        Err(e) => return e,
    }
    let mut near: Vec<&Why> = not.iter().collect();
    near.sort_by_key(|w| std::cmp::Reverse(w.rank));
    let best = near.first().map_or(0, |w| w.rank);
    near.retain(|w| w.rank + 5 >= best);
    if best < HEADER {
        message.push_str(" Nothing in it looks like the header of one.");
        near.truncate(1);
    }
    let mut seen = Vec::new();
    for why in near {
        if !seen.iter().any(|(_, text)| *text == &why.text) {
            seen.push((why.encoding.describe(), &why.text));
        }
        if seen.len() == SHOWN {
            break;
        }
    }
    let misses: Vec<String> = seen.iter().map(|(encoding, text)| format!("\n  as {encoding}: {text}")).collect();
    if !misses.is_empty() {
        message.push_str(&format!(" Nearest:{}", misses.concat()));
    }
    message.push_str(
        "\nTried: Fortran unformatted, plain binary and ASCII, both byte orders, 32 and 64 bit, 2-D and 3-D, with and \
         without zone count and iblank. If you know how it was written, say so with --plot3d-*, or check that the file \
         is complete.",
    );
    FieldError::format(path, message)
}

/// A hint if the file fits under other options or as another kind.
///
/// # Errors
/// [`FieldError::Interrupted`].
fn what_else(
    source: &dyn ByteSource,
    path: &Path,
    asked: ReadRequest<'_>,
    progress: ascii::ConversionProgress<'_>,
) -> Result<Option<String>, FieldError> {
    let free = Plot3dOptions::default();
    let ReadRequest { kind, options, expected } = asked;
    let mut try_as = |kind: Kind, options: &Plot3dOptions, expected: Option<&Expected>| {
        match candidates(source, path, ReadRequest { kind, options, expected }, progress) {
            Ok((fits, _)) => Ok(fits.into_iter().next()),
            Err(FieldError::Interrupted) => Err(FieldError::Interrupted),
            // The caller already reports the mismatch. An error of a guess would only confuse.
            Err(_) => Ok(None),
        }
    };
    let unbound = if *options == free { None } else { try_as(kind, &free, expected)? };
    if let Some(reading) = unbound {
        return Ok(Some(format!("Without these options it reads as {}.", reading.encoding.describe())));
    }
    let alone = if expected.is_some() { try_as(kind, &free, None)? } else { None };
    if let Some(reading) = alone {
        return Ok(Some(format!(
            "By itself it reads as {} ({}), which does not go with the grid.",
            reading.encoding.describe(),
            zones_text(&reading)
        )));
    }
    for other in [Kind::Grid, Kind::Q, Kind::Function] {
        if other == kind {
            continue;
        }
        if let Some(reading) = try_as(other, options, None)? {
            let does = match other {
                Kind::Grid => "it reads as a grid",
                Kind::Q => "it reads as a solution (q) file, which is opened with its grid: GRID+q=FILE",
                Kind::Function => "it reads as a function file, which is opened with its grid: GRID+f=FILE",
            };
            let how = reading.encoding.describe();
            return Ok(Some(format!("But {does} ({how}, {}).", zones_text(&reading))));
        }
    }
    Ok(None)
}
