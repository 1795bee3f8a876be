//! The local file system, in the words of places.

use super::pin::FileVersion;
use super::seam::{Entry, FileKind, FileStat};
use crate::error::PageErrorKind;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The state of a local name.
///
/// # Errors
/// [`PageErrorKind::Missing`] if it does not exist, else the system's error.
pub(super) fn stat(path: &Path) -> Result<FileStat, PageErrorKind> {
    match std::fs::metadata(path) {
        Ok(about) => Ok(of(&about)),
        Err(e) => Err(PageErrorKind::from(&e)),
    }
}

/// The state that metadata tell.
pub(super) fn of(about: &Metadata) -> FileStat {
    let kind = match about {
        m if m.is_file() => FileKind::File,
        m if m.is_dir() => FileKind::Folder,
        _ => FileKind::Other,
    };
    let modified_ns = about.mtime().saturating_mul(1_000_000_000).saturating_add(about.mtime_nsec());
    let tag = format!("{:x}-{modified_ns:x}-{:x}.{:x}", about.ino(), about.ctime(), about.ctime_nsec());
    FileStat { kind, version: FileVersion { size: about.len(), tag: tag.into() }, modified_ns }
}

/// The names in a local folder.
///
/// # Errors
/// The system's error, and [`PageErrorKind::TooMany`] beyond `most`.
pub(super) fn list(folder: &Path, most: usize) -> Result<Vec<Entry>, PageErrorKind> {
    let io = |e: std::io::Error| PageErrorKind::from(&e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let (kind, size) = match std::fs::metadata(entry.path()) {
            Ok(about) => (of(&about).kind, about.len()),
            Err(_) => (FileKind::Other, 0),
        };
        // A name that is no text cannot be part of a dataset.
        let Ok(name) = entry.file_name().into_string() else { continue };
        if found.len() == most {
            return Err(PageErrorKind::TooMany { most });
        }
        found.push(Entry { name, kind, size: if kind == FileKind::File { size } else { 0 } });
    }
    Ok(found)
}
