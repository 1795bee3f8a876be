//! Which file goes to which servers, and whether they have room for it.

use super::{StageError, StageOptions, Target};
use crate::page_server::client::rendezvous::order;
use crate::page_server::wire::StagedFile;
use pager::place::{self, FileKind, FileStat, FileVersion};
use pager::PageErrorKind;
use std::path::PathBuf;

/// Files that are looked at together.
const BATCH: usize = 1024;
/// Documents up to this size go to all servers, so that an opening may ask any of them.
const SMALL: u64 = 1 << 20;
const NANOSECONDS: i64 = 1_000_000_000;

/// A file, and the servers that get it.
pub(super) struct PlannedFile {
    pub(super) path: PathBuf,
    pub(super) version: FileVersion,
    pub(super) staged: StagedFile,
    pub(super) servers: Vec<usize>,
}

/// See the module.
pub(super) struct Plan {
    pub(super) dataset: String,
    pub(super) files: Vec<PlannedFile>,
}

/// Whether a file describes others.
fn is_document(name: &str) -> bool {
    let leaf = name.rsplit('/').next().unwrap_or(name);
    matches!(leaf, ".zarray" | ".zgroup" | ".zattrs" | ".zmetadata")
        || [".json", ".p3d", ".nam", ".txt", ".xml"].iter().any(|end| leaf.ends_with(end))
}

/// The time of change that all replicas of a file get. A source that has none gives its version instead: a time before
/// 2001 that is another one for another version, and the same one whenever the file is staged again.
fn time_of(stat: &FileStat) -> i64 {
    if stat.modified_ns != 0 {
        return stat.modified_ns;
    }
    let crc = crc32c::crc32c(stat.version.tag.as_bytes());
    (i64::from(crc) % NANOSECONDS + 1) * NANOSECONDS
}

impl Plan {
    /// Looks at all files, and chooses their servers.
    pub(super) fn new(
        options: &StageOptions,
        servers: &[String],
        progress: &mut dyn FnMut(&str, f64, f64) -> bool,
    ) -> Result<Self, StageError> {
        if options.files.is_empty() {
            return Err(StageError::Usage("the source has no files".into()));
        }
        let mut files = Vec::with_capacity(options.files.len());
        for batch in options.files.chunks(BATCH) {
            if !progress("looking at files", files.len() as f64, options.files.len() as f64) {
                return Err(StageError::Interrupted);
            }
            let paths: Vec<PathBuf> = batch.iter().map(|file| file.path.clone()).collect();
            for (file, found) in batch.iter().zip(place::stat(&paths)) {
                let failed = |kind| StageError::Source { path: file.path.clone(), kind };
                let found = found.map_err(failed)?;
                if found.kind != FileKind::File {
                    return Err(failed(PageErrorKind::Io("this is no regular file".into())));
                }
                let name = match file.name.is_empty() {
                    true => options.dataset.clone(),
                    false => format!("{}/{}", options.dataset, file.name),
                };
                let size = found.version.size;
                let mut chosen = order(&name, 0, servers);
                if !(is_document(&name) && size < SMALL) {
                    chosen.truncate(options.replicas);
                }
                let staged = StagedFile { name, size, modified_ns: time_of(&found) };
                let (path, version) = (file.path.clone(), found.version);
                files.push(PlannedFile { path, version, staged, servers: chosen });
            }
        }
        Ok(Self { dataset: options.dataset.clone(), files })
    }

    /// Bytes of all files, once.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.staged.size).sum()
    }

    /// Copies of files, and their bytes.
    pub(super) fn copies(&self) -> (usize, u64) {
        let copies = self.files.iter().map(|file| (file.servers.len(), file.staged.size));
        copies.fold((0, 0), |(count, bytes), (n, size)| (count + n, bytes + n as u64 * size))
    }

    fn files_of(&self, server: usize) -> impl Iterator<Item = &PlannedFile> {
        self.files.iter().filter(move |file| file.servers.contains(&server))
    }

    /// Files of a server, and their bytes.
    pub(super) fn of_server(&self, server: usize) -> (usize, u64) {
        self.files_of(server).fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.staged.size))
    }

    /// Asks the servers for room, each at the same time.
    pub(super) fn check_room(&self, targets: &[Target]) -> Result<(), StageError> {
        std::thread::scope(|scope| {
            let checks: Vec<_> = (0..targets.len())
                .filter(|n| self.of_server(*n).0 > 0)
                .map(|n| scope.spawn(move || self.check_server(n, &targets[n])))
                .collect();
            checks.into_iter().try_for_each(|check| match check.join() {
                Ok(result) => result,
                Err(_) => Err(StageError::Refused("a thread that asks for room has ended without a word".into())),
            })
        })
    }

    fn check_server(&self, server: usize, target: &Target) -> Result<(), StageError> {
        let failed = |refusal| target.error(&self.dataset, refusal);
        let room = target.place.stage_room().map_err(failed)?;
        let (_, mut needs) = self.of_server(server);
        if needs <= room.left() {
            return Ok(());
        }
        // Some files may be there already.
        for file in self.files_of(server) {
            let found = target.place.stage_begin(&file.staged, true).map_err(failed)?;
            needs -= found.bytes.min(file.staged.size);
            if needs <= room.left() {
                return Ok(());
            }
        }
        Err(StageError::Refused(format!(
            "{}: {needs} bytes more are needed there, and {} are free: of {} bytes for staged data {} are used, and its \
             disk has {} free; stage less (--fields, --steps, --replicas), or remove a dataset (farfield stage --remove)",
            target.name,
            room.left(),
            room.limit,
            room.used,
            room.free
        )))
    }
}
