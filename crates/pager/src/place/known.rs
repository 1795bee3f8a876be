//! What the opening of a dataset has learned of remote files. Readers of headers ask for the same names and documents
//! several times, and each answer from afar costs a round trip.
//!
//! While an [`Opening`] is active, all readers share these answers, so a dataset is opened in one version. The next
//! opening that begins while none is active forgets them.

use super::local;
use super::pin::{FilePin, VersionPin};
use super::reader::FileReader;
use super::registry::{is_remote, of};
use super::seam::{Entry, FileKind, FileStat, Place};
use super::waiting::Answers;
use crate::error::PageErrorKind;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most names with known answers. A name takes some 200 bytes.
const MOST_NAMES: usize = 1 << 16;
/// Bytes of a document that is kept whole.
const SMALL: usize = 64 << 10;
/// Bytes of all documents that are kept.
const MOST_SMALL: usize = 4 << 20;

/// Documents that are read at the same time, each by a thread that waits.
const AT_ONCE: usize = 16;
/// A waiting thread has shallow calls only.
const STACK_BYTES: usize = 256 << 10;

#[derive(Default)]
struct KnownFile {
    /// `None`: there is no such name.
    stat: Option<Option<FileStat>>,
    pin: Arc<FilePin>,
    bytes: Option<Arc<[u8]>>,
}

#[derive(Default)]
struct Known {
    openings: usize,
    files: HashMap<PathBuf, KnownFile>,
    small: usize,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

fn known() -> MutexGuard<'static, Option<Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time in which a dataset is opened.
#[derive(Debug)]
pub struct Opening(());

impl Opening {
    /// Begins; dropping it ends the opening.
    pub fn begin() -> Self {
        let mut known = known();
        let known = known.get_or_insert_default();
        if known.openings == 0 {
            *known = Known::default();
        }
        known.openings += 1;
        Self(())
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(known) = known().as_mut() {
            known.openings = known.openings.saturating_sub(1);
        }
    }
}

/// Changes the record of a file. Beyond [`MOST_NAMES`] the change is made to a record that is dropped.
fn with<T>(path: &Path, change: impl FnOnce(&mut KnownFile) -> T) -> T {
    let mut known = known();
    let known = known.get_or_insert_default();
    if !known.files.contains_key(path) && known.files.len() >= MOST_NAMES {
        return change(&mut KnownFile::default());
    }
    change(known.files.entry(path.to_owned()).or_default())
}

/// The pin of a remote file, shared by everything that reads it in one opening.
pub(super) fn pin(path: &Path) -> Arc<FilePin> {
    with(path, |file| file.pin.clone())
}

/// The states of names, remote ones all at the same time.
///
/// # Errors
/// For each name: [`PageErrorKind::Missing`] only if its place says that there is no such name.
pub fn stat(paths: &[PathBuf]) -> Vec<Result<FileStat, PageErrorKind>> {
    let mut answers: Vec<Option<Result<FileStat, PageErrorKind>>> = paths.iter().map(|path| known_stat(path)).collect();
    // By place, since each takes many names at once.
    let mut asked: Vec<(Arc<dyn Place>, Vec<usize>)> = Vec::new();
    for (n, path) in paths.iter().enumerate().filter(|(n, _)| answers[*n].is_none()).collect::<Vec<_>>() {
        match of(path) {
            Err(kind) => answers[n] = Some(Err(kind)),
            Ok(None) => answers[n] = Some(local::stat(path)),
            Ok(Some(place)) => match asked.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &place)) {
                Some((_, numbers)) => numbers.push(n),
                None => asked.push((place, vec![n])),
            },
        }
    }
    let told = Answers::new(asked.len());
    for (at, (place, numbers)) in asked.iter().enumerate() {
        let told = told.clone();
        let wanted = numbers.iter().map(|n| paths[*n].clone()).collect();
        place.look(wanted, Box::new(move |found| told.tell(at, found)));
    }
    match told.wait() {
        Ok(told) => {
            for (n, found) in asked.iter().flat_map(|(_, numbers)| numbers).zip(told.into_iter().flatten()) {
                answers[*n] = Some(note_stat(&paths[*n], found));
            }
        }
        Err(kind) => asked.iter().flat_map(|(_, numbers)| numbers).for_each(|n| answers[*n] = Some(Err(kind.clone()))),
    }
    let unanswered = || Err(PageErrorKind::Io("its place gave no answer".into()));
    answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()
}

fn known_stat(path: &Path) -> Option<Result<FileStat, PageErrorKind>> {
    let known = known();
    let stat = known.as_ref()?.files.get(path)?.stat.clone()?;
    Some(stat.ok_or(PageErrorKind::Missing))
}

/// Keeps an answer, and checks the version of a file against its pin.
fn note_stat(path: &Path, found: Result<FileStat, PageErrorKind>) -> Result<FileStat, PageErrorKind> {
    match &found {
        Ok(stat) => with(path, |file| -> Result<(), PageErrorKind> {
            if stat.kind == FileKind::File {
                file.pin.check(&stat.version)?;
            }
            file.stat = Some(Some(stat.clone()));
            Ok(())
        })?,
        Err(PageErrorKind::Missing) => with(path, |file| file.stat = Some(None)),
        // Any other error may pass.
        Err(_) => {}
    }
    found
}

/// The names in a folder, in any order. `most`: an error beyond that many.
///
/// # Errors
/// [`PageErrorKind::Missing`] if the folder does not exist, [`PageErrorKind::Unsupported`] if the place cannot list.
pub fn list(folder: &Path, most: usize) -> Result<Vec<Entry>, PageErrorKind> {
    match of(folder)? {
        None => local::list(folder, most),
        Some(place) => place.list(folder, most),
    }
}

/// Reads small remote documents at the same time, so that [`read_small`] knows them. A document that cannot be read is
/// left to [`read_small`], which says why.
pub fn fetch_small(paths: &[PathBuf]) {
    let unknown = |path: &&PathBuf| {
        let known = known();
        let file = known.as_ref().and_then(|known| known.files.get(*path));
        is_remote(path) && file.is_none_or(|file| file.bytes.is_none() && file.stat != Some(None))
    };
    let wanted: Vec<&PathBuf> = paths.iter().filter(unknown).collect();
    std::thread::scope(|scope| {
        for part in wanted.chunks(wanted.len().div_ceil(AT_ONCE).max(1)) {
            let read = || part.iter().for_each(|path| drop(read_small(path, SMALL)));
            // Without a thread the documents are read one by one, later.
            let _started = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, read);
        }
    });
}

/// The first bytes of a file, at most `most`: a whole document, if it is shorter.
///
/// # Errors
/// [`PageErrorKind::Missing`] if it does not exist.
pub fn read_small(path: &Path, most: usize) -> Result<Arc<[u8]>, PageErrorKind> {
    let remote = is_remote(path);
    if remote {
        let known = known();
        let file = known.as_ref().and_then(|known| known.files.get(path));
        if let Some(bytes) = file.and_then(|file| file.bytes.clone()) {
            return Ok(if bytes.len() > most { bytes[..most].into() } else { bytes });
        }
        if file.is_some_and(|file| file.stat == Some(None)) {
            return Err(PageErrorKind::Missing);
        }
    }
    let reader = match FileReader::open(path) {
        Err(PageErrorKind::Missing) if remote => {
            with(path, |file| file.stat = Some(None));
            return Err(PageErrorKind::Missing);
        }
        reader => reader?,
    };
    let len = usize::try_from(reader.size()).unwrap_or(usize::MAX).min(most);
    let mut bytes = vec![0; len];
    reader.read_exact_at(0, &mut bytes)?;
    let bytes: Arc<[u8]> = bytes.into();
    if remote && len <= SMALL && len as u64 == reader.size() {
        let mut known = known();
        let known = known.get_or_insert_default();
        if let Some(file) = known.files.get_mut(path).filter(|_| known.small + len <= MOST_SMALL) {
            known.small += len;
            file.bytes = Some(bytes.clone());
        }
    }
    Ok(bytes)
}
