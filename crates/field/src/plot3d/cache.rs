//! Where converted text is kept. A conversion is found again by the text's path, size, time of change and the options it
//! was read with; the data are written first, the note that says how to read them last, so a note vouches for its data.

use super::ascii::{self, Progress};
use super::bytes::ByteSource;
use super::options::{Dimension, Format, Kind, Order, Plot3dOptions, ZoneCount};
use super::reading::{converted, Encoding, Header, Reading};
use super::sniff::Sniffed;
use crate::error::FieldError;
use serde_json::{json, Value};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes when the layout of converted files does.
const VERSION: u64 = 1;

/// A converted text file.
pub(super) struct Converted {
    /// The binary file.
    pub path: PathBuf,
    /// How the text was read.
    pub sniffed: Sniffed,
    /// How the binary file is read.
    pub binary: Reading,
}

/// FNV-1a: names of files in the cache need no more than to differ.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// The name of a conversion, without suffix.
fn key(path: &Path, kind: Kind, options: &Plot3dOptions) -> Result<String, FieldError> {
    let io = |e| FieldError::io(path, e);
    let meta = fs::metadata(path).map_err(io)?;
    let changed = meta.modified().map_err(io)?;
    let since = changed.duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let full = fs::canonicalize(path).map_err(io)?;
    let text = format!("{}|{}|{since}|{}|{:?}", full.display(), meta.len(), kind.word(), options.words());
    let stem: String = super::sniff::file_name(path)
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' })
        .take(64)
        .collect();
    Ok(format!("{stem}-{:016x}", fnv(&text)))
}

/// The conversion of `path` if it is there and whole.
pub(super) fn find(
    path: &Path,
    kind: Kind,
    options: &Plot3dOptions,
    cache_dir: &Path,
) -> Result<Option<Converted>, FieldError> {
    let name = key(path, kind, options)?;
    let Ok(note) = fs::read(cache_dir.join(format!("{name}.json"))) else { return Ok(None) };
    let Some((text, header)) = serde_json::from_slice(&note).ok().as_ref().and_then(|v| parse_note(v, kind)) else {
        return Ok(None);
    };
    let Some((binary, bytes)) = converted(&text, &header) else { return Ok(None) };
    let data = cache_dir.join(format!("{name}.bin"));
    if fs::metadata(&data).map(|m| m.len()).ok() != Some(bytes) {
        return Ok(None);
    }
    let reading = Reading { encoding: text, ..binary.clone() };
    Ok(Some(Converted { path: data, sniffed: Sniffed { reading, remarks: Vec::new() }, binary }))
}

/// Converts `path`, read as `sniffed`, into the cache.
pub(super) fn make(
    source: &dyn ByteSource,
    path: &Path,
    sniffed: Sniffed,
    options: &Plot3dOptions,
    cache_dir: &Path,
    progress: Progress<'_>,
) -> Result<Converted, FieldError> {
    let text = sniffed.reading.encoding;
    let zones = sniffed.reading.zones.iter().map(|z| (z.dims, z.variables)).collect();
    let header = Header { zones, species: sniffed.reading.species };
    let Some((binary, bytes)) = converted(&text, &header) else {
        return Err(FieldError::format(path, "its zones are too large for any file"));
    };
    fs::create_dir_all(cache_dir).map_err(|e| FieldError::io(cache_dir, e))?;
    let name = key(path, text.kind, options)?;
    let data = cache_dir.join(format!("{name}.bin"));
    publish(&data, &mut |file, temp| ascii::convert(source, path, &sniffed.reading, temp, file, progress))?;
    let written = fs::metadata(&data).map_err(|e| FieldError::io(&data, e))?.len();
    if written != bytes {
        return Err(FieldError::format(&data, format!("holds {written} bytes instead of {bytes}: remove it")));
    }
    let note = note(&text, &header).to_string();
    publish(&cache_dir.join(format!("{name}.json")), &mut |file, temp| {
        std::io::Write::write_all(file, note.as_bytes()).map_err(|e| FieldError::io(temp, e))
    })?;
    Ok(Converted { path: data, sniffed, binary })
}

/// Writes a file beside `target`, makes it durable, and renames it.
fn publish(
    target: &Path,
    write: &mut dyn FnMut(&mut fs::File, &Path) -> Result<(), FieldError>,
) -> Result<(), FieldError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut temp = target.as_os_str().to_owned();
    temp.push(format!(".{}-{number}.tmp", std::process::id()));
    let temp = PathBuf::from(temp);
    let io = |e| FieldError::io(&temp, e);
    let result = fs::File::create(&temp).map_err(io).and_then(|mut file| {
        write(&mut file, &temp)?;
        file.sync_all().map_err(io)?;
        fs::rename(&temp, target).map_err(|e| FieldError::io(target, e))
    });
    if result.is_err() {
        // The error that counts is the one above.
        let _ = fs::remove_file(&temp);
    }
    result
}

fn note(text: &Encoding, header: &Header) -> Value {
    json!({
        "version": VERSION,
        "options": text.options(),
        "overflow": text.overflow,
        "species": header.species,
        "zones": header.zones.iter().map(|(d, v)| json!([d[0], d[1], d[2], v])).collect::<Vec<_>>(),
    })
}

fn parse_note(note: &Value, kind: Kind) -> Option<(Encoding, Header)> {
    if note.get("version")?.as_u64()? != VERSION {
        return None;
    }
    let options: Plot3dOptions = serde_json::from_value(note.get("options")?.clone()).ok()?;
    let mut zones = Vec::new();
    for zone in note.get("zones")?.as_array()? {
        let mut four = [0_u32; 4];
        for (n, slot) in four.iter_mut().enumerate() {
            *slot = u32::try_from(zone.get(n)?.as_u64()?).ok().filter(|&v| v > 0 && v <= i32::MAX as u32)?;
        }
        zones.push(([four[0], four[1], four[2]], four[3]));
    }
    let text = Encoding {
        kind,
        format: Format::Ascii,
        mark: 4,
        byte_order: super::options::ByteOrder::Little,
        precision: super::options::Precision::Double,
        dimension: options.dimension.unwrap_or(Dimension::Three),
        zones: options.zones.unwrap_or(ZoneCount::Multi),
        iblank: options.iblank.unwrap_or(false),
        order: options.order.unwrap_or(Order::Whole),
        plane_records: false,
        overflow: note.get("overflow")?.as_bool()?,
    };
    let species = u32::try_from(note.get("species")?.as_u64()?).ok()?;
    Some((text, Header { zones, species }))
}

/// Reads `bytes` as the note of a converted text, as a fuzzer does: what is taken has sizes that can be counted.
pub fn fuzz_note(bytes: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    for kind in [Kind::Grid, Kind::Q, Kind::Function] {
        let Some((text, header)) = parse_note(&value, kind) else { continue };
        if let Some((binary, bytes)) = converted(&text, &header) {
            assert!(bytes > 0 || binary.zones.is_empty());
            assert_eq!(binary.zones.len(), header.zones.len());
        }
    }
}
