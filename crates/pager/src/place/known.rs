//! What the opening of a dataset has learned of remote files. Readers of headers ask for the same names and documents
//! several times, and each answer from afar costs a round trip.
//!
//! While an [`Opening`] is active, all readers share these answers, so a dataset is opened in one version. The next
//! opening that begins while none is active forgets them.

use super::local;
use super::pin::{FilePin, FileVersion, PinTable, VersionPin};
use super::reader::{start_first, FileReader, BLOCK};
use super::registry::{is_remote, of};
use super::seam::{Entry, FileKind, FileRef, FileStat, Place};
use super::waiting::Answers;
use crate::error::PageErrorKind;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most names with known answers. A name takes some 200 bytes.
const MOST_NAMES: usize = 1 << 16;
/// Bytes of all beginnings of files that are kept.
const MOST_HEADS: usize = 4 << 20;
/// Documents of a store. A folder with one of them is known to be one.
const DOCUMENTS: [&str; 5] = ["zarr.json", ".zgroup", ".zarray", ".zattrs", "attributes.json"];

#[derive(Default)]
struct KnownFile {
    /// `None`: there is no such name.
    stat: Option<Option<FileStat>>,
    pin: Arc<FilePin>,
    /// Its first block, or all of a shorter file.
    head: Option<Arc<[u8]>>,
}

impl KnownFile {
    /// Its first `most` bytes, if the head has them.
    fn first(&self, most: usize) -> Option<Arc<[u8]>> {
        let (Some(version), Some(head)) = (self.pin.expected(), &self.head) else { return None };
        let whole = head.len() as u64 == version.size;
        match head.get(..most) {
            Some(first) if first.len() < head.len() => Some(first.into()),
            Some(_) => Some(head.clone()),
            None => whole.then(|| head.clone()),
        }
    }
}

#[derive(Default)]
struct Known {
    openings: usize,
    files: HashMap<PathBuf, KnownFile>,
    /// Bytes of all heads.
    heads: usize,
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

/// One of many files, in the version that the opening has seen, if it has met it.
pub(crate) fn numbered(pins: &Arc<PinTable>, number: u64, path: PathBuf, base: u64) -> FileRef {
    let pin = pins.file(number);
    if pin.digest().is_none() {
        let seen = known().as_ref().and_then(|known| known.files.get(&path)?.pin.expected());
        // It fails only for a file that a reply has pinned since, whose reads fail then by themselves.
        let _pinned = seen.map(|version| pin.check(&version));
    }
    FileRef { path: path.into(), base, pin }
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

/// The same with the first block, if that is known.
pub(super) fn pin_and_head(path: &Path) -> (Arc<FilePin>, Option<Arc<[u8]>>) {
    with(path, |file| (file.pin.clone(), file.head.clone()))
}

/// The states of names, remote ones all at the same time.
///
/// # Errors
/// For each name: [`PageErrorKind::Missing`] only if its place says that there is no such name.
pub fn stat(paths: &[PathBuf]) -> Vec<Result<FileStat, PageErrorKind>> {
    answers(paths, |place, wanted, told, at| {
        place.look(wanted, Box::new(move |found| told.tell(at, found.into_iter().map(|stat| (stat, None)).collect())));
    })
}

/// As [`stat`], for files that will be read from their begin: their first blocks come with the answers where a place
/// gives both in one round trip, and a reader of a file then has its first block.
///
/// # Errors
/// As [`stat`].
pub fn begin(paths: &[PathBuf]) -> Vec<Result<FileStat, PageErrorKind>> {
    answers(paths, begin_at)
}

/// The answer about a name, with the first block of the file.
type StatAndHead = (Result<FileStat, PageErrorKind>, Option<Vec<u8>>);

/// Answers about names of one place, by its number.
type AnswersOfPlaces = Arc<Answers<Vec<StatAndHead>>>;

/// The answers about names. `ask` asks a place for those that are not known.
fn answers(
    paths: &[PathBuf],
    ask: impl Fn(&Arc<dyn Place>, Vec<PathBuf>, AnswersOfPlaces, usize),
) -> Vec<Result<FileStat, PageErrorKind>> {
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
        ask(place, numbers.iter().map(|n| paths[*n].clone()).collect(), told.clone(), at);
    }
    match told.wait() {
        Ok(told) => {
            for (n, (found, head)) in asked.iter().flat_map(|(_, numbers)| numbers).zip(told.into_iter().flatten()) {
                answers[*n] = Some(note(&paths[*n], found, head.as_deref()));
            }
        }
        Err(kind) => asked.iter().flat_map(|(_, numbers)| numbers).for_each(|n| answers[*n] = Some(Err(kind.clone()))),
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()
}

fn unanswered<T>() -> Result<T, PageErrorKind> {
    Err(PageErrorKind::Io("its place gave no answer".into()))
}

/// Asks a place for the states and the first blocks of files. One that needs two requests gets both at the same time.
fn begin_at(place: &Arc<dyn Place>, wanted: Vec<PathBuf>, told: AnswersOfPlaces, at: usize) {
    let begun = Arc::new(Begins::new(wanted.len(), told, at));
    let mut left: Vec<(usize, FileRef)> = Vec::new();
    for (n, path) in wanted.iter().enumerate() {
        let (file, own) = (FileRef { path: path.as_path().into(), base: 0, pin: pin(path) }, begun.clone());
        let then = Box::new(move |found: Result<(FileStat, Vec<u8>), PageErrorKind>| match found {
            Ok((stat, head)) => own.put(n, Some(Ok(stat)), Some(head)),
            Err(kind) => own.put(n, Some(Err(kind)), Some(Vec::new())),
        });
        if place.begin(&file, BLOCK, then).is_err() {
            left.push((n, file));
        }
    }
    if left.is_empty() {
        return;
    }
    let (numbers, own): (Vec<usize>, _) = (left.iter().map(|(n, _)| *n).collect(), begun.clone());
    let names = numbers.iter().map(|n| wanted[*n].clone()).collect();
    place.look(
        names,
        Box::new(move |mut found| {
            found.resize_with(numbers.len(), unanswered);
            numbers.iter().zip(found).for_each(|(n, stat)| own.put(*n, Some(stat), None));
        }),
    );
    for (n, file) in left {
        let own = begun.clone();
        start_first(&**place, &file, BLOCK, move |head| own.put(n, None, Some(head)));
    }
}

/// The parts of the answers about the names of one place. The last part tells all.
struct Begins(Mutex<(Vec<BegunParts>, Option<AnswersOfPlaces>)>, usize);

/// The state of a name, and its first block.
type BegunParts = (Option<Result<FileStat, PageErrorKind>>, Option<Vec<u8>>);

impl Begins {
    fn new(names: usize, told: AnswersOfPlaces, at: usize) -> Self {
        Self(Mutex::new(((0..names).map(|_| (None, None)).collect(), Some(told))), at)
    }

    fn put(&self, n: usize, stat: Option<Result<FileStat, PageErrorKind>>, head: Option<Vec<u8>>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(parts) = state.0.get_mut(n) {
            *parts = (stat.or(parts.0.take()), head.or(parts.1.take()));
        }
        if state.0.iter().any(|(stat, head)| stat.is_none() || head.is_none()) {
            return;
        }
        let (parts, told) = (std::mem::take(&mut state.0), state.1.take());
        drop(state);
        if let Some(told) = told {
            told.tell(self.1, parts.into_iter().map(|(stat, head)| (stat.unwrap_or_else(unanswered), head)).collect());
        }
    }
}

fn known_stat(path: &Path) -> Option<Result<FileStat, PageErrorKind>> {
    let known = known();
    let files = &known.as_ref()?.files;
    if let Some(stat) = files.get(path).and_then(|file| file.stat.clone()) {
        return Some(stat.ok_or(PageErrorKind::Missing));
    }
    let is_there = |file: &KnownFile| matches!(file.stat, Some(Some(_)));
    let is_folder = is_remote(path) && DOCUMENTS.iter().any(|name| files.get(&path.join(name)).is_some_and(is_there));
    let version = FileVersion { size: 0, tag: "".into() };
    is_folder.then_some(Ok(FileStat { kind: FileKind::Folder, version, modified_ns: 0 }))
}

/// Keeps an answer, and checks the version of a file against its pin.
fn note(path: &Path, found: Result<FileStat, PageErrorKind>, head: Option<&[u8]>) -> Result<FileStat, PageErrorKind> {
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
    if let (Ok(FileStat { kind: FileKind::File, version, .. }), Some(head)) = (&found, head) {
        keep_head(path, version.size, head);
    }
    found
}

/// Keeps the first block of a file, if it is all of it.
fn keep_head(path: &Path, size: u64, head: &[u8]) {
    if head.is_empty() || head.len() as u64 != size.min(BLOCK as u64) {
        return;
    }
    let mut known = known();
    let known = known.get_or_insert_default();
    let full = known.heads + head.len() > MOST_HEADS;
    if let Some(file) = known.files.get_mut(path).filter(|file| file.head.is_none() && !full) {
        known.heads += head.len();
        file.head = Some(head.into());
    }
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
    let wanted: Vec<PathBuf> = paths.iter().filter(|path| is_remote(path)).cloned().collect();
    let _said_later = begin(&wanted);
}

/// The first bytes of a file, at most `most`: a whole document, if it is shorter.
///
/// # Errors
/// [`PageErrorKind::Missing`] if it does not exist.
pub fn read_small(path: &Path, most: usize) -> Result<Arc<[u8]>, PageErrorKind> {
    let remote = is_remote(path);
    if remote {
        let first = || known().as_ref().and_then(|known| known.files.get(path)?.first(most));
        if let Some(first) = first() {
            return Ok(first);
        }
        if let Some(found) = begin_one(path) {
            found?;
            if let Some(first) = first() {
                return Ok(first);
            }
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
    if remote {
        keep_head(path, reader.size(), &bytes);
    }
    Ok(bytes.into())
}

/// As [`begin`], for one name. `None`: its place needs two requests for that, where a read says the same.
fn begin_one(path: &Path) -> Option<Result<FileStat, PageErrorKind>> {
    if let Some(known) = known_stat(path) {
        return Some(known);
    }
    let place = of(path).ok()??;
    let told = Answers::new(1);
    let own = told.clone();
    let file = FileRef { path: path.into(), base: 0, pin: pin(path) };
    place.begin(&file, BLOCK, Box::new(move |found| own.tell(0, found))).ok()?;
    Some(told.wait().and_then(|mut told| match told.pop().unwrap_or_else(unanswered) {
        Ok((stat, head)) => note(path, Ok(stat), Some(&head)),
        Err(kind) => note(path, Err(kind), None),
    }))
}
