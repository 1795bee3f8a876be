//! The copies of a file at several servers, and what makes them one file: the same size and the same time of change.
//! Each server has a version of its own for its copy, and each copy is pinned to that.

use super::super::rendezvous::key_of;
use pager::place::{FileKind, FilePin, FileStat, FileVersion};
use pager::PageErrorKind;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files with known copies. Beyond them all are forgotten, and asked for again.
const MOST_FILES: usize = 1 << 16;
/// Bytes of a file without its path and its copies, and of a copy.
const FILE_BYTES: u64 = 250;
const COPY_BYTES: u64 = 120;

/// What is known of a server's copy.
#[derive(Clone)]
pub(super) enum CopyState {
    /// Nothing: the server did not answer.
    Unknown,
    /// It was asked.
    Asked,
    /// It has none.
    Missing,
    /// It has one, of this version.
    Here(Arc<FilePin>),
}

/// A file, and its copies by the number of the server.
pub(super) struct SpreadFile {
    /// For [`super::super::rendezvous::score`].
    pub(super) key: u64,
    /// That of all copies, with a version of their size and time.
    pub(super) stat: FileStat,
    pub(super) digest: u64,
    copies: Mutex<Copies>,
}

struct Copies {
    of: Vec<CopyState>,
    bad: Option<PageErrorKind>,
}

impl SpreadFile {
    pub(super) fn new(path: &Path, stat: FileStat, copies: Vec<CopyState>) -> Self {
        let name = super::super::address::name_of(path.to_str().unwrap_or_default());
        Self {
            key: key_of(name),
            digest: stat.version.digest(),
            stat,
            copies: Mutex::new(Copies { of: copies, bad: None }),
        }
    }

    /// A file without any answer yet: it may be at each server, in any version.
    pub(super) fn anywhere(path: &Path, servers: usize) -> Self {
        let version = FileVersion { size: 0, tag: "".into() };
        let copies = (0..servers).map(|_| CopyState::Here(Arc::new(FilePin::default()))).collect();
        Self::new(path, FileStat { kind: FileKind::File, version, modified_ns: 0 }, copies)
    }

    fn copies(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of a server's copy, if it has one.
    pub(super) fn copy(&self, server: usize) -> Option<Arc<FilePin>> {
        match self.copies().of.get(server) {
            Some(CopyState::Here(pin)) => Some(pin.clone()),
            _ => None,
        }
    }

    /// The servers with a copy, by bit.
    pub(super) fn here(&self) -> u64 {
        let copies = self.copies();
        let here = copies.of.iter().enumerate().filter(|(_, copy)| matches!(copy, CopyState::Here(_)));
        here.fold(0, |bits, (server, _)| bits | 1 << server)
    }

    /// Takes the servers among some that were not asked yet; they count as asked from then on.
    pub(super) fn take_unknown(&self, among: u64) -> Vec<usize> {
        let mut copies = self.copies();
        let unknown = copies.of.iter_mut().enumerate();
        let unknown = unknown.filter(|(server, copy)| among & 1 << server != 0 && matches!(copy, CopyState::Unknown));
        unknown
            .map(|(server, copy)| {
                *copy = CopyState::Asked;
                server
            })
            .collect()
    }

    pub(super) fn set(&self, server: usize, copy: CopyState) {
        if let Some(known) = self.copies().of.get_mut(server) {
            *known = copy;
        }
    }

    /// The reason why its reads fail from now on, until it is opened anew.
    pub(super) fn spoil(&self, kind: PageErrorKind) {
        self.copies().bad.get_or_insert(kind);
    }

    /// That reason.
    pub(super) fn bad(&self) -> Option<PageErrorKind> {
        self.copies().bad.clone()
    }
}

/// The version of a file for whoever reads it: the same at each server, and in each run.
pub(super) fn version_of(stat: &FileStat) -> FileVersion {
    let tag = if stat.kind == FileKind::File { format!("{:x}", stat.modified_ns) } else { String::new() };
    FileVersion { size: stat.version.size, tag: tag.into() }
}

/// Whether two servers mean the same by a name. The versions of servers do not count.
pub(super) fn agree(one: &FileStat, other: &FileStat) -> bool {
    let same = (one.version.size, one.modified_ns) == (other.version.size, other.modified_ns);
    one.kind == other.kind && (one.kind != FileKind::File || same)
}

/// The error about copies that differ.
pub(super) fn differ(one: (&str, &FileStat), other: (&str, &FileStat)) -> PageErrorKind {
    PageErrorKind::Differs { one: state_at(one), other: state_at(other) }
}

fn state_at((server, stat): (&str, &FileStat)) -> String {
    match stat.kind {
        FileKind::File => {
            let (seconds, nanos) =
                (stat.modified_ns.div_euclid(1_000_000_000), stat.modified_ns.rem_euclid(1_000_000_000));
            format!("{server} has {} bytes of {seconds}.{nanos:09} s since 1970", stat.version.size)
        }
        FileKind::Folder => format!("{server} has a folder"),
        FileKind::Other => format!("{server} has neither a file nor a folder"),
    }
}

/// The files with known copies, by path.
#[derive(Default)]
pub(super) struct FileTable(Mutex<KnownFiles>);

#[derive(Default)]
struct KnownFiles {
    files: HashMap<Arc<Path>, Arc<SpreadFile>>,
    path_bytes: u64,
}

impl FileTable {
    fn known(&self) -> MutexGuard<'_, KnownFiles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, path: &Path) -> Option<Arc<SpreadFile>> {
        self.known().files.get(path).cloned()
    }

    pub(super) fn put(&self, path: &Path, file: Arc<SpreadFile>) {
        let mut known = self.known();
        if known.files.len() >= MOST_FILES && !known.files.contains_key(path) {
            *known = KnownFiles::default();
        }
        if known.files.insert(path.into(), file).is_none() {
            known.path_bytes += path.as_os_str().len() as u64;
        }
    }

    /// Bytes on the heap, with so many servers.
    pub(super) fn bytes(&self, servers: usize) -> u64 {
        let known = self.known();
        known.path_bytes + known.files.len() as u64 * (FILE_BYTES + COPY_BYTES * servers as u64)
    }
}
