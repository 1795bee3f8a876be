//! Cache of text files, which have no random access.
//!
//! The cache has a note of the readings that fit a text, so that its numbers are counted once. It also has a binary
//! file for each reading. Both are keyed by the text's identity ([`crate::file::FileIdentity`]).
//!
//! The cache does not choose a reading. The choice depends on options, other files and a `.p3d` file, so it is made
//! anew each time. A binary file is named after its reading. It gets its name when it is whole and durable, so a file
//! of that name is whole.

use super::ascii::{self, ConversionProgress};
use super::bytes::ByteSource;
use super::options::{Dimension, Format, Kind, Order, Plot3dOptions, ZoneCount};
use super::reading::{converted, Encoding, FileReading, Header, ReadRequest};
use crate::cache_records::note_use;
use crate::error::FieldError;
use crate::file::{Digest, FileBytes, FileIdentity};
use serde_json::{json, Value};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes when the notes or the layout of converted files do.
const VERSION: u64 = 2;

/// The cache of one file.
pub(super) struct Shelf {
    dir: PathBuf,
    /// The file's name, as far as other file names can contain it.
    stem: String,
    /// Digest of the file before any of it is read.
    digest: Digest,
    identity: FileIdentity,
}

impl Shelf {
    /// The cache of the text `path`, which is `source`. If the text changes during reading, the entry has the identity
    /// of the opened state, which never occurs again.
    ///
    /// # Errors
    /// [`FieldError::Io`] if the file has vanished.
    pub fn of(path: &Path, source: &FileBytes, cache_dir: &Path) -> Result<Self, FieldError> {
        let identity = source.identity(path).map_err(|e| FieldError::io(path, e))?;
        let stem: String = super::sniff::file_name(path)
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' })
            .take(64)
            .collect();
        let digest = Digest::default().text(&format!("{VERSION}|")).state(&identity);
        Ok(Self { dir: cache_dir.to_owned(), stem, digest, identity })
    }

    fn file(&self, digest: Digest, suffix: &str) -> PathBuf {
        self.dir.join(format!("{}-{digest}.{suffix}", self.stem))
    }

    /// Path of the note of readings found under the same conditions.
    fn note(&self, asked: ReadRequest<'_>) -> PathBuf {
        let mut digest = self.digest.text(&format!("|{}|{:?}", asked.kind.word(), asked.options.words()));
        if let Some(expected) = asked.expected {
            digest = digest.text(&format!("|{}-D", expected.dimension.word()));
            digest = expected.dims.iter().fold(digest, |sum, d| sum.text(&format!("|{d:?}")));
        }
        self.file(digest, "json")
    }

    /// The noted readings of the text, equal to the result of [`super::sniff::candidates`]. `None` without a note.
    pub fn readings(&self, asked: ReadRequest<'_>) -> Option<Vec<FileReading>> {
        parse_note(&fs::read(self.note(asked)).ok()?, asked.kind)
    }

    /// Notes readings of text for [`Self::readings`]. A note only saves time, so errors are ignored and the disk is not
    /// awaited. A part of a note does not parse, so a crash leaves nothing that passes for a note.
    pub fn keep(&self, asked: ReadRequest<'_>, fits: &[FileReading]) {
        let each: Vec<Value> = fits.iter().map(reading_json).collect();
        let note = json!({"version": VERSION, "readings": each}).to_string();
        let _not_kept = fs::create_dir_all(&self.dir).map_err(|e| FieldError::io(&self.dir, e)).and_then(|()| {
            publish(&self.note(asked), &mut |file, temp| {
                std::io::Write::write_all(file, note.as_bytes()).map_err(|e| FieldError::io(temp, e))
            })
        });
    }

    /// The binary file of the text `path` under `reading`, and the binary file's own reading. Makes the file if it does
    /// not exist.
    ///
    /// # Errors
    /// As [`ascii::convert`]; [`FieldError::Format`] for zones that are too large.
    pub fn converted(
        &self,
        source: &dyn ByteSource,
        path: &Path,
        reading: &FileReading,
        progress: ConversionProgress<'_>,
    ) -> Result<(PathBuf, FileReading), FieldError> {
        let Some((binary, bytes)) = converted(&reading.encoding, &header(reading)) else {
            return Err(FieldError::format(path, "its zones are too large for any file"));
        };
        // The zones follow from the text and its encoding.
        let e = &reading.encoding;
        let words = format!("|{}|{:?}|{}", e.kind.word(), e.options().words(), e.overflow);
        let data = self.file(self.digest.text(&words), "bin");
        if fs::metadata(&data).map(|m| m.len()).ok() == Some(bytes) {
            note_use(&data, std::slice::from_ref(&self.identity));
            return Ok((data, binary));
        }
        fs::create_dir_all(&self.dir).map_err(|e| FieldError::io(&self.dir, e))?;
        publish(&data, &mut |file, temp| {
            ascii::convert(source, path, reading, temp, file, progress)?;
            // A later open checks only its size.
            file.sync_all().map_err(|e| FieldError::io(temp, e))
        })?;
        let written = fs::metadata(&data).map_err(|e| FieldError::io(&data, e))?.len();
        if written != bytes {
            return Err(FieldError::format(&data, format!("holds {written} bytes instead of {bytes}: remove it")));
        }
        note_use(&data, std::slice::from_ref(&self.identity));
        Ok((data, binary))
    }
}

/// Writes a file beside `target` and renames it to `target`.
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
        drop(file);
        fs::rename(&temp, target).map_err(|e| FieldError::io(target, e))
    });
    if result.is_err() {
        // The earlier error counts.
        let _left = fs::remove_file(&temp);
    }
    result
}

fn header(reading: &FileReading) -> Header {
    Header { zones: reading.zones.iter().map(|z| (z.dims, z.variables)).collect(), species: reading.species }
}

fn reading_json(reading: &FileReading) -> Value {
    json!({
        "options": reading.encoding.options(),
        "overflow": reading.encoding.overflow,
        "species": reading.species,
        "zones": reading.zones.iter().map(|z| json!([z.dims[0], z.dims[1], z.dims[2], z.variables])).collect::<Vec<_>>(),
    })
}

/// The readings in a note. `None` if any part of it is invalid.
fn parse_note(note: &[u8], kind: Kind) -> Option<Vec<FileReading>> {
    let note: Value = serde_json::from_slice(note).ok()?;
    if note.get("version")?.as_u64()? != VERSION {
        return None;
    }
    note.get("readings")?.as_array()?.iter().map(|r| parse_reading(r, kind)).collect()
}

fn parse_reading(note: &Value, kind: Kind) -> Option<FileReading> {
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
        records: super::records::Records::Zone,
        overflow: note.get("overflow")?.as_bool()?,
    };
    let species = u32::try_from(note.get("species")?.as_u64()?).ok()?;
    let (binary, _) = converted(&text, &Header { zones, species })?;
    Some(FileReading { encoding: text, ..binary })
}

/// Parses `bytes` as a note, for fuzzers. Accepted readings have sizes that fit 64 bits.
pub fn fuzz_note(bytes: &[u8]) {
    for kind in [Kind::Grid, Kind::Q, Kind::Function] {
        for reading in parse_note(bytes, kind).into_iter().flatten() {
            let binary = converted(&reading.encoding, &header(&reading));
            assert!(binary.is_some_and(|(b, bytes)| (bytes > 0 || b.zones.is_empty()) && b.zones == reading.zones));
        }
    }
}
