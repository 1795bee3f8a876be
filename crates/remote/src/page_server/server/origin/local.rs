//! Files of this machine as a place: for disks that are slower than memory is dear.

use super::super::names::{FileState, Names, NotOpened};
use super::super::readers::Readers;
use crate::page_server::wire::{RemoteKind, State};
use pager::place::{Entry, FileKind, FileRef, FileStat, FileVersion, Looked, Place, VersionPin};
use pager::source::{Completion, Read, ReadForm};
use pager::PageErrorKind;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads at the same time.
const DEPTH: usize = 16;

/// See the module. A path is a served name.
pub(super) struct LocalOrigin {
    names: Arc<Names>,
    readers: Readers,
}

impl LocalOrigin {
    pub(super) fn new(names: Names) -> Self {
        Self { names: Arc::new(names), readers: Readers::new(DEPTH) }
    }
}

fn kind_of(kind: RemoteKind) -> FileKind {
    match kind {
        RemoteKind::File => FileKind::File,
        RemoteKind::Folder => FileKind::Folder,
        RemoteKind::Other => FileKind::Other,
    }
}

fn error(state: State) -> PageErrorKind {
    match state {
        State::Missing => PageErrorKind::Missing,
        State::Link => PageErrorKind::Denied("it is a symbolic link, or below one".into()),
        State::Denied | State::BadName => PageErrorKind::Denied("the server may not read it".into()),
        other => PageErrorKind::Io(format!("the system could not read it ({other:?})")),
    }
}

fn version(state: &FileState) -> FileVersion {
    let told = state.told();
    FileVersion { size: told.size, tag: format!("{:032x}", u128::from_be_bytes(told.version)).into() }
}

fn stat(names: &Names, path: &Path) -> Result<FileStat, PageErrorKind> {
    let state = names.state(path.to_str().unwrap_or_default()).map_err(error)?;
    Ok(FileStat { kind: kind_of(state.kind), version: version(&state), modified_ns: state.modified_ns })
}

/// Answers one read.
fn answer(names: &Names, path: &Path, pin: &dyn VersionPin, read: &Read) -> Result<(), PageErrorKind> {
    let (file, state) = names.file(path.to_str().unwrap_or_default(), false).map_err(|not| match not {
        NotOpened::State(state) => error(state),
        NotOpened::WouldWait => error(State::Io),
    })?;
    pin.check(&version(&state))?;
    fill(&file, read, state.size)?;
    // The kernel changes the times before the bytes: these are of that version, if its times still are.
    match FileState::of(&file) {
        Ok(now) if now == state => Ok(()),
        Ok(now) => pin.check(&version(&now)),
        Err(e) => Err(PageErrorKind::from(&e)),
    }
}

fn fill(file: &File, read: &Read, size: u64) -> Result<(), PageErrorKind> {
    let mut at = read.offset;
    for buffer in &read.buffers {
        if !buffer.is_hole() {
            // SAFETY: the buffer belongs to this read until it is completed.
            let part = unsafe { std::slice::from_raw_parts_mut(buffer.ptr, buffer.len) };
            file.read_exact_at(part, at).map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    let end = read.offset.saturating_add(read.len() as u64);
                    PageErrorKind::Short { offset: read.offset, end, have: size }
                }
                _ => PageErrorKind::from(&e),
            })?;
        }
        at = at.saturating_add(buffer.len as u64);
    }
    Ok(())
}

impl Place for LocalOrigin {
    fn describe(&self) -> String {
        "this machine".into()
    }

    fn form(&self) -> ReadForm {
        ReadForm::default()
    }

    fn room(&self) -> usize {
        if self.readers.full() {
            0
        } else {
            DEPTH
        }
    }

    fn submit(&self, file: &FileRef, reads: Vec<Read>, done: &Arc<dyn Completion>) {
        for read in reads {
            let (names, file, done) = (self.names.clone(), file.clone(), done.clone());
            self.readers.run(move || done.complete(read.token, answer(&names, &file.path, &*file.pin, &read)));
        }
    }

    fn look(&self, paths: Vec<PathBuf>, then: Looked) {
        let names = self.names.clone();
        self.readers.run(move || then(paths.iter().map(|path| stat(&names, path)).collect()));
    }

    fn list(&self, folder: &Path, most: usize) -> Result<Vec<Entry>, PageErrorKind> {
        let listed = self.names.list(folder.to_str().unwrap_or_default(), most).map_err(|state| match state {
            State::TooMany => PageErrorKind::TooMany { most },
            other => error(other),
        });
        Ok(listed?.into_iter().map(|(kind, size, name)| Entry { name, kind: kind_of(kind), size }).collect())
    }
}

impl Drop for LocalOrigin {
    fn drop(&mut self) {
        self.readers.close();
    }
}
