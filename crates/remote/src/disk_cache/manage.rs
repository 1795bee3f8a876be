//! Looking at a cache's folder, and clearing it.

use super::folder::{self, ListedSegment, LockedFile};
use super::format;
use super::segment;
use super::state::PATIENCE;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

/// What a folder has.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskCacheInfo {
    /// Bytes of its segments.
    pub bytes: u64,
    /// Records in them.
    pub records: u64,
    /// Segments.
    pub segments: u64,
    /// Segments that a process writes now. Their records are not counted.
    pub growing: u64,
}

/// What the segments of a folder have. A folder that does not exist has none.
///
/// # Errors
/// Those of the system.
pub fn info(folder: &Path) -> io::Result<DiskCacheInfo> {
    let mut info = DiskCacheInfo::default();
    for listed in list(folder)? {
        let name = format::file_name(listed.number, listed.sealed);
        // A segment that was removed meanwhile counts no more.
        let Ok(file) = folder::open(folder, &name, OpenOptions::new().read(true)) else { continue };
        let Ok(Some(loaded)) = segment::load(&file, listed.number) else { continue };
        let growing = !listed.sealed && LockedFile::take(file).is_err();
        info.bytes += listed.bytes;
        info.segments += 1;
        info.growing += u64::from(growing);
        info.records += if growing { 0 } else { loaded.rows.len() as u64 };
    }
    Ok(info)
}

fn list(folder: &Path) -> io::Result<Vec<ListedSegment>> {
    match folder::list(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed,
    }
}

/// Removes the segments of a folder, except those that a process writes now. Returns what was removed.
///
/// # Errors
/// Those of the system, and a folder whose lock another process holds.
pub fn clear(folder: &Path) -> io::Result<DiskCacheInfo> {
    let (mut removed, listed) = (DiskCacheInfo::default(), list(folder)?);
    if listed.is_empty() {
        return Ok(removed);
    }
    let Some(_lock) = folder::lock(folder, PATIENCE)? else {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process makes room in it; try again"));
    };
    for listed in listed {
        let name = format::file_name(listed.number, listed.sealed);
        let Ok(file) = folder::open(folder, &name, OpenOptions::new().read(true)) else { continue };
        let Ok(file) = LockedFile::take(file) else {
            removed.growing += 1;
            continue;
        };
        let Ok(Some(loaded)) = segment::load(&file, listed.number) else { continue };
        folder::remove(folder, &loaded.name, listed.sealed)?;
        removed.bytes += listed.bytes;
        removed.segments += 1;
        removed.records += loaded.rows.len() as u64;
    }
    Ok(removed)
}
