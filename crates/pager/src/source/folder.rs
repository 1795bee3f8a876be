//! Many files as one source: chunks, shards, slices. The begin of a file's bytes follows from its number. So no
//! memory is used for a file before it is read, or after it is closed.
//!
//! # Practice
//! Byte `b` of file `n` is at [`Folder::place`]`(n) + b`. Existence and length of a file are unknown beforehand and can
//! be read like bytes: [`Folder::about`] is the place of its [`About`]. [`Folder::index`] is the place of its
//! [`About`] followed by its index, which a shard has at its begin or at its end: one request for both.

use super::engine::Op;
use super::file::{FileHandle, FileSet};
use super::first_reads::{about_of, absent, AboutsRead, FirstReads};
use super::indexed::{put, IndexedExtents, WantedEntry};
use super::threads;
use super::{Completion, Read, ReadForm, Source};
use crate::error::PageErrorKind;
use crate::place::{self, FileKind, FileStat, IndexedExtent, PinTable, Place};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};
use std::sync::{Arc, Mutex, PoisonError};

/// Size of a file, and its index: all of it, or fewer bytes of a shorter file.
type FoundIndex = Result<(u64, Vec<u8>), PageErrorKind>;
/// Receives an index; `None` if it must be read by itself.
type IndexRead = Box<dyn FnOnce(Option<FoundIndex>) + Send>;

/// The files of a [`Folder`].
pub trait FileNames: Send + Sync {
    /// The name of all of them in messages: the folder, or the first.
    fn describe(&self) -> String;
    /// The largest possible number of files.
    fn count(&self) -> u64;
    /// The path of the file of that number, which is below [`Self::count`].
    fn path(&self, number: u64) -> PathBuf;
    /// The index that each file has, if [`Folder::index`] is to be read.
    fn index(&self) -> Option<FileIndex> {
        None
    }
    /// Bytes that a file has at most, in general: existence, length and bytes of a remote one are then read in one
    /// request. 0: files are read in parts.
    fn usual_len(&self) -> usize {
        0
    }
    /// The numbers of all existing files in order, if listing the folders finds them. `None` if that needs more than
    /// `most` names, or is not possible.
    fn there(&self, most: usize) -> Option<Vec<u64>> {
        let _ = most;
        None
    }
}

/// Where each file has its index.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FileIndex {
    /// Its bytes.
    pub len: usize,
    /// Whether it is the last part of the file, else the first.
    pub at_end: bool,
}

/// Bytes of an [`About`].
pub const ABOUT_BYTES: usize = 16;
/// Places from here on hold the [`About`]s.
const ABOUTS: u64 = 1 << 63;
/// Places from here to [`ABOUTS`] hold the [`About`] and the index of each file.
const INDEXES: u64 = 1 << 62;
/// The room of a file is at least this power of two bytes. Among very many files each has little, and a longer file is
/// an error.
const LEAST_SHIFT: u32 = 12;
/// Files that one helper checks in sequence: on a local disk a check is quicker than its hand-over.
const LOOKS: usize = 4;

/// The existence and length of a file, found without opening it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// It exists, with this many bytes.
    There(u64),
    /// There is no file of that name.
    Missing,
    /// The system's error number for the failed check.
    Unknown(i32),
}

impl About {
    /// Parses two native words, as they are read.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.get(..ABOUT_BYTES)?.as_chunks::<8>();
        let size = u64::from_ne_bytes(*words.first()?);
        Some(match u64::from_ne_bytes(*words.get(1)?) {
            0 => Self::There(size),
            1 => Self::Missing,
            code => Self::Unknown((code - 2) as i32),
        })
    }

    pub(super) fn bytes(self) -> [u8; ABOUT_BYTES] {
        let (size, state) = match self {
            Self::There(size) => (size, 0),
            Self::Missing => (0, 1),
            Self::Unknown(code) => (0, code.max(0) as u64 + 2),
        };
        let mut out = [0; ABOUT_BYTES];
        out[..8].copy_from_slice(&size.to_ne_bytes());
        out[8..].copy_from_slice(&state.to_ne_bytes());
        out
    }

    fn of(path: &std::path::Path) -> Self {
        if place::is_remote(path) {
            return Self::told(place::stat(&[path.to_owned()]).remove(0));
        }
        match std::fs::metadata(path) {
            Ok(m) if m.is_file() => Self::There(m.len()),
            Ok(_) => Self::Unknown(libc::EISDIR),
            // A broken link represents a file that was written, such as an annex has for files that were not fetched.
            Err(e) if e.kind() == io::ErrorKind::NotFound && path.is_symlink() => Self::Unknown(libc::ENOLINK),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Self::Missing,
            Err(e) => Self::Unknown(e.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    /// From the answer of a place. An error of a server stays one: it never becomes [`Self::Missing`].
    fn told(answer: Result<FileStat, PageErrorKind>) -> Self {
        match answer {
            Ok(FileStat { kind: FileKind::File, version, .. }) => Self::There(version.size),
            Ok(_) => Self::Unknown(libc::EISDIR),
            Err(PageErrorKind::Missing) => Self::Missing,
            Err(PageErrorKind::Unauthorized { .. } | PageErrorKind::Denied(_)) => Self::Unknown(libc::EACCES),
            Err(_) => Self::Unknown(libc::EIO),
        }
    }

    /// The error of a page that needs the file, if the file cannot be read.
    pub fn error(self) -> Option<PageErrorKind> {
        match self {
            Self::There(_) => None,
            Self::Missing => Some(PageErrorKind::Missing),
            Self::Unknown(code) => Some(PageErrorKind::from(&io::Error::from_raw_os_error(code))),
        }
    }
}

/// See the module.
pub struct Folder {
    files: FolderFiles,
    names: Arc<dyn FileNames>,
    /// A file's place is its number shifted by this.
    shift: u32,
}

/// The files of a folder.
enum FolderFiles {
    /// Local ones. `serial` is the number of the first among all open files.
    Local { files: Arc<FileSet>, serial: u64 },
    /// Those of one place.
    Remote { place: Arc<dyn Place>, pins: Arc<PinTable>, first: Arc<FirstReads>, extents: Arc<IndexedExtents> },
}

impl FileSet {
    /// A source over many files, each opened at its first read.
    ///
    /// # Errors
    /// When there are more files than one source can have.
    pub fn folder(this: &Arc<Self>, names: Arc<dyn FileNames>) -> io::Result<Arc<Folder>> {
        let first = if names.count() > 0 { names.path(0) } else { PathBuf::new() };
        let files = match place::of(&first).map_err(PageErrorKind::into_io)? {
            Some(place) => {
                let first = Arc::new(FirstReads::new(this.first_budget().clone()));
                let extents = Arc::new(IndexedExtents::new(this.first_budget().clone()));
                FolderFiles::Remote { place, pins: Arc::default(), first, extents }
            }
            None => FolderFiles::Local { files: this.clone(), serial: this.take_serials(names.count()) },
        };
        Folder::new(files, names).map(Arc::new)
    }
}

impl Folder {
    fn new(files: FolderFiles, names: Arc<dyn FileNames>) -> io::Result<Self> {
        let count = names.count().max(1);
        // Numbers include `count`, the place of the end.
        let bits = u64::BITS - count.leading_zeros();
        let shift = (INDEXES.trailing_zeros()).saturating_sub(bits);
        if shift < LEAST_SHIFT {
            return Err(io::Error::other(format!("{}: {count} files are too many", names.describe())));
        }
        Ok(Self { files, names, shift })
    }

    /// Whether its files are in a place with a scheme.
    pub fn is_remote(&self) -> bool {
        matches!(self.files, FolderFiles::Remote { .. })
    }

    /// The place in the source where a file begins.
    pub fn place(&self, number: u64) -> u64 {
        number << self.shift
    }

    /// The largest possible length of a file here.
    pub fn longest(&self) -> u64 {
        1 << self.shift
    }

    /// The place of a file's bytes for [`About::parse`]. Those of consecutive files are adjacent.
    pub fn about(&self, number: u64) -> u64 {
        ABOUTS + number * ABOUT_BYTES as u64
    }

    /// The place of a file's [`About`], followed by its index ([`FileNames::index`]). The index of a missing file, and of
    /// a file shorter than its index, is zeros.
    pub fn index(&self, number: u64) -> u64 {
        INDEXES + self.place(number)
    }

    /// A page needs the extent that an entry of a file's index names, and the index is not known. A place that can
    /// do so gives the extent together with the index. `at`: the entry's first byte in the index. `longest`: most
    /// bytes of the extent.
    pub fn want_entry(&self, number: u64, at: usize, longest: usize) {
        if let FolderFiles::Remote { extents, .. } = &self.files {
            extents.want(number, WantedEntry { at, longest });
        }
    }

    /// Asks for an index together with the extent that is wanted of it. Gives `then` back if nothing is wanted, or if
    /// the place cannot do it. `then` gets the size of the file and the index, or `None` to read it by other means.
    fn follow(&self, number: u64, index: FileIndex, then: IndexRead) -> Result<(), IndexRead> {
        let FolderFiles::Remote { place, pins, extents, .. } = &self.files else { return Err(then) };
        let Some(entry) = extents.take(number) else { return Err(then) };
        let file = place::numbered(pins, number, self.names.path(number), 0);
        let wanted =
            IndexedExtent { index_len: index.len, at_end: index.at_end, entry: entry.at, longest: entry.longest };
        // The place may give it back.
        let then = Arc::new(Mutex::new(Some(then)));
        let (told, kept) = (then.clone(), extents.clone());
        let answer = move |found: Result<place::FoundExtent, PageErrorKind>| {
            let Some(then) = told.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
            match found {
                Ok(found) => {
                    kept.put(number, entry, found.extent);
                    then(Some(Ok((found.version.size, found.index))));
                }
                Err(kind) => {
                    kept.put(number, entry, None);
                    // Only a plain read says which bytes a file lacks.
                    then(if matches!(kind, PageErrorKind::Decode(_)) { None } else { Some(Err(kind)) });
                }
            }
        };
        if place.indexed(&file, &wanted, Box::new(answer)) {
            return Ok(());
        }
        extents.put(number, entry, None);
        let back = then.lock().unwrap_or_else(PoisonError::into_inner).take();
        back.map_or(Ok(()), Err)
    }

    /// Completes a read at a place of [`Self::index`].
    fn read_index(&self, read: Read, done: &Arc<dyn Completion>, jobs: &mut Vec<Box<dyn FnOnce() + Send>>) {
        let number = (read.offset - INDEXES) >> self.shift;
        let skip = -((read.offset - self.index(number)) as i64);
        let short = |have: u64| {
            let (offset, end) = (read.offset, read.offset.saturating_add(read.len() as u64));
            PageErrorKind::Short { offset, end, have }
        };
        let Some(index) = self.names.index().filter(|_| number < self.names.count()) else {
            return done.complete(read.token, Err(short(INDEXES)));
        };
        let end = self.index(number) + (ABOUT_BYTES + index.len) as u64;
        let over = (read.offset + read.len() as u64 > end).then(|| short(end));
        let done = done.clone();
        let pin = match &self.files {
            FolderFiles::Local { .. } => None,
            FolderFiles::Remote { pins, .. } => Some(pins.file(number)),
        };
        let told = move |found: Result<(u64, Vec<u8>), PageErrorKind>| {
            let (about, mut bytes) = match found {
                Ok((size, bytes)) if bytes.len() == index.len => (About::There(size), bytes),
                Ok((size, _)) => (About::There(size), Vec::new()),
                Err(kind) => match absent(pin.as_deref(), kind) {
                    Ok(about) => (about, Vec::new()),
                    Err(kind) => return done.complete(read.token, Err(kind)),
                },
            };
            bytes.resize(index.len, 0);
            // SAFETY: the buffers are this read's until it is completed, and nothing else writes to them.
            unsafe {
                put(&read.buffers, skip, &about.bytes());
                put(&read.buffers, skip + ABOUT_BYTES as i64, &bytes);
            }
            done.complete(read.token, over.map_or(Ok(()), Err));
        };
        let path = self.names.path(number);
        match &self.files {
            FolderFiles::Local { files, serial } => {
                let (files, serial) = (files.clone(), serial.wrapping_add(number));
                jobs.push(Box::new(move || {
                    let read = || -> io::Result<(u64, Vec<u8>)> {
                        let file = files.get(serial, &path, false)?;
                        let size = file.metadata()?.len();
                        let mut bytes = vec![0; if size < index.len as u64 { 0 } else { index.len }];
                        let from = if index.at_end { size.saturating_sub(index.len as u64) } else { 0 };
                        file.read_exact_at(&mut bytes, from)?;
                        Ok((size, bytes))
                    };
                    told(read().map_err(|e| missing_link(&path, &e)));
                }));
            }
            FolderFiles::Remote { place, pins, .. } => {
                let file = place::numbered(pins, number, path, 0);
                let place = place.clone();
                let plain = move |found: Option<FoundIndex>| match found {
                    Some(found) => told(found),
                    None => place::read_part(&place, file, index.at_end, index.len, Box::new(told)),
                };
                if let Err(plain) = self.follow(number, index, Box::new(plain)) {
                    plain(None);
                }
            }
        }
    }

    /// Completes a read of a whole index at the begin of a remote file.
    fn read_first_index(&self, number: u64, index: FileIndex, read: Read, done: &Arc<dyn Completion>) {
        let FolderFiles::Remote { place, pins, .. } = &self.files else { return };
        let file = place::numbered(pins, number, self.names.path(number), self.place(number));
        let (place, done) = (place.clone(), done.clone());
        let plain = move |found: Option<FoundIndex>| match found {
            Some(Ok((_, bytes))) if bytes.len() == read.len() => {
                // SAFETY: the buffers are this read's until it is completed, and nothing else writes to them.
                unsafe { put(&read.buffers, 0, &bytes) };
                done.complete(read.token, Ok(()));
            }
            Some(Err(kind)) => done.complete(read.token, Err(kind)),
            Some(Ok(_)) | None => place.submit(&file, vec![read], &done),
        };
        if let Err(plain) = self.follow(number, index, Box::new(plain)) {
            plain(None);
        }
    }

    /// The files.
    pub fn names(&self) -> &Arc<dyn FileNames> {
        &self.names
    }

    /// Completes a read of remote files' [`About`]s: by the first read of each, or by a check.
    fn look_and_read(&self, remote: RemoteFiles<'_>, numbers: Range<u64>, read: Read, done: &Arc<dyn Completion>) {
        let RemoteFiles { place, pins, first } = remote;
        let len = self.names.usual_len();
        let abouts = AboutsRead::new(read, (numbers.end - numbers.start) as usize, done);
        let mut unknown: Vec<(usize, u64)> = Vec::new();
        for (part, number) in numbers.enumerate() {
            let file = place::numbered(pins, number, self.names.path(number), 0);
            if len == 0 || !first.start(&**place, &file, number, len, (&abouts, part)) {
                unknown.push((part, number));
            }
        }
        if unknown.is_empty() {
            return;
        }
        let (paths, pins) = (unknown.iter().map(|(_, number)| self.names.path(*number)).collect(), pins.clone());
        let told = move |answers: Vec<Result<FileStat, PageErrorKind>>| {
            let no_answer = || Err(PageErrorKind::Io("its place gave no answer".into()));
            let answers = answers.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
            for ((part, number), answer) in unknown.into_iter().zip(answers) {
                abouts.put(part, about_of(&pins, number, answer.unwrap_or_else(no_answer)));
            }
        };
        place.look(paths, Box::new(told));
    }

    /// Completes a read of [`About`]s, which several threads check.
    fn look(&self, read: Read, done: &Arc<dyn Completion>, jobs: &mut Vec<Box<dyn FnOnce() + Send>>) {
        let (size, at) = (ABOUT_BYTES as u64, read.offset - ABOUTS);
        let (first, last) = (at / size, (at + read.len().max(1) as u64).div_ceil(size));
        if last > self.names.count() {
            let kind = PageErrorKind::Short {
                offset: read.offset,
                end: read.offset.saturating_add(read.len() as u64),
                have: self.about(self.names.count()),
            };
            return done.complete(read.token, Err(kind));
        }
        if let FolderFiles::Remote { place, pins, first: first_reads, .. } = &self.files {
            let whole = at.is_multiple_of(size) && read.len() as u64 == (last - first) * size;
            if !whole {
                let message = "an answer about a file is read whole".into();
                return done.complete(read.token, Err(PageErrorKind::Io(message)));
            }
            return self.look_and_read(RemoteFiles { place, pins, first: first_reads }, first..last, read, done);
        }
        let looks = ((last - first) as usize).div_ceil(LOOKS);
        let shared = Arc::new(FolderStat { read, left: AtomicUsize::new(looks) });
        for n in 0..looks as u64 {
            let (shared, names, done) = (shared.clone(), self.names.clone(), done.clone());
            let part = first + n * LOOKS as u64..(first + (n + 1) * LOOKS as u64).min(last);
            jobs.push(Box::new(move || {
                let FolderStat { read, left } = &*shared;
                for number in part {
                    let about = About::of(&names.path(number)).bytes();
                    let skip = (number * size) as i64 - at as i64;
                    // SAFETY: the buffers are this read's until it is completed, and each helper has bytes of its own of them.
                    unsafe { put(&read.buffers, skip, &about) };
                }
                if left.fetch_sub(1, AcqRel) == 1 {
                    done.complete(read.token, Ok(()));
                }
            }));
        }
    }
}

/// The error of a file that cannot be opened. A broken link represents a file that was written.
fn missing_link(path: &std::path::Path, e: &io::Error) -> PageErrorKind {
    if e.kind() == io::ErrorKind::NotFound && path.is_symlink() {
        return PageErrorKind::from(&io::Error::from_raw_os_error(libc::ENOLINK));
    }
    PageErrorKind::from(e)
}

/// The files of a remote folder.
#[derive(Copy, Clone)]
struct RemoteFiles<'a> {
    place: &'a Arc<dyn Place>,
    pins: &'a Arc<PinTable>,
    first: &'a Arc<FirstReads>,
}

/// A read of [`About`]s by several threads.
struct FolderStat {
    read: Read,
    /// Unfinished parts.
    left: AtomicUsize,
}

// SAFETY: each thread writes its own bytes of the buffers, which belong to the read until the last thread completes it.
unsafe impl Sync for FolderStat {}

impl Source for Folder {
    fn describe(&self) -> String {
        self.names.describe()
    }

    fn explain(&self, offset: u64, kind: PageErrorKind) -> (String, PageErrorKind) {
        if offset >= ABOUTS {
            return (self.describe(), kind);
        }
        let number = (offset & (INDEXES - 1)) >> self.shift;
        if number >= self.names.count() {
            return (self.describe(), kind);
        }
        let base = self.place(number);
        let kind = match kind {
            PageErrorKind::Short { offset, end, have } => {
                let within = |at: u64| at.saturating_sub(base);
                PageErrorKind::Short { offset: within(offset), end: within(end), have: within(have) }
            }
            PageErrorKind::Missing => match &self.files {
                FolderFiles::Local { .. } => PageErrorKind::Missing,
                FolderFiles::Remote { pins, .. } => pins.file(number).missing(),
            },
            other => other,
        };
        (crate::place::shown(&self.names.path(number)), kind)
    }

    fn form(&self) -> ReadForm {
        match &self.files {
            FolderFiles::Local { files, .. } => ReadForm { block: files.direct_block(), ..ReadForm::default() },
            FolderFiles::Remote { place, .. } => place.form(),
        }
    }

    fn limited_by(&self) -> Option<Arc<dyn Place>> {
        match &self.files {
            FolderFiles::Local { .. } => None,
            FolderFiles::Remote { place, .. } => Some(place.clone()),
        }
    }

    fn promote(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        if let FolderFiles::Remote { place, first, .. } = &self.files {
            place.promote(tokens, done);
            first.under_way(tokens, done).iter().for_each(|(token, done)| place.promote(&[*token], done));
        }
    }

    fn withdraw(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        if let FolderFiles::Remote { place, first, .. } = &self.files {
            place.withdraw(tokens, done);
            first.under_way(tokens, done).iter().for_each(|(token, done)| place.withdraw(&[*token], done));
        }
    }

    fn held_bytes(&self) -> Option<u64> {
        match &self.files {
            FolderFiles::Local { .. } => None,
            FolderFiles::Remote { pins, first, extents, .. } => Some(pins.bytes() + first.bytes() + extents.bytes()),
        }
    }

    /// The end of the last file.
    fn size(&self) -> Result<u64, PageErrorKind> {
        let Some(last) = self.names.count().checked_sub(1) else { return Ok(0) };
        match About::of(&self.names.path(last)) {
            About::There(size) => Ok(self.place(last) + size),
            other => Err(other.error().unwrap_or(PageErrorKind::Missing)),
        }
    }

    fn submit(&self, batch: Vec<Read>, done: &Arc<dyn Completion>) {
        let mut jobs: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        let mut by_file: HashMap<u64, Vec<Read>> = HashMap::new();
        for read in batch {
            if read.offset >= ABOUTS {
                self.look(read, done, &mut jobs);
                continue;
            }
            if read.offset >= INDEXES {
                self.read_index(read, done, &mut jobs);
                continue;
            }
            let number = read.offset >> self.shift;
            if number < self.names.count() {
                by_file.entry(number).or_default().push(read);
            } else {
                let end = read.offset.saturating_add(read.len() as u64);
                let have = self.size().unwrap_or(0).min(read.offset);
                done.complete(read.token, Err(PageErrorKind::Short { offset: read.offset, end, have }));
            }
        }
        let (files, serial) = match &self.files {
            FolderFiles::Local { files, serial } => (files, *serial),
            FolderFiles::Remote { place, pins, first, extents } => {
                for (number, mut reads) in by_file {
                    let begin = self.place(number);
                    reads.retain(|read| {
                        let from = read.offset - begin;
                        let here = first.fill(number, from, read) || extents.fill(number, from, read);
                        if here {
                            done.complete(read.token, Ok(()));
                        }
                        !here
                    });
                    // An index at the begin of a file is a read like others.
                    if let Some(index) = self.names.index().filter(|index| !index.at_end) {
                        let (indexes, others): (Vec<Read>, Vec<Read>) =
                            reads.into_iter().partition(|read| read.offset == begin && read.len() == index.len);
                        reads = others;
                        for read in indexes {
                            self.read_first_index(number, index, read, done);
                        }
                    }
                    if reads.is_empty() {
                        continue;
                    }
                    let file = place::numbered(pins, number, self.names.path(number), self.place(number));
                    place.submit(&file, reads, done);
                }
                return;
            }
        };
        let mut ops: Vec<Op> = Vec::new();
        for (number, reads) in by_file {
            let (serial, base) = (serial.wrapping_add(number), self.place(number));
            if let Some(file) = files.opened(serial, false) {
                let path = self.names.path(number);
                ops.extend(files.ops(FileHandle { file: &file, serial, path: &path, base }, reads, done));
                continue;
            }
            let (files, names, done) = (files.clone(), self.names.clone(), done.clone());
            jobs.push(Box::new(move || {
                let path = names.path(number);
                match files.get(serial, &path, false) {
                    // Read here: this thread may wait. A thread that sleeps until the next arrival needs no notice of
                    // the read.
                    Ok(file) => {
                        let ops = files.ops(FileHandle { file: &file, serial, path: &path, base }, reads, &done);
                        ops.into_iter().for_each(threads::read);
                    }
                    Err(e) => {
                        let kind = PageErrorKind::from(&e);
                        reads.iter().for_each(|r| done.complete(r.token, Err(kind.clone())));
                    }
                }
            }));
        }
        if !ops.is_empty() {
            files.start(ops);
        }
        files.helpers().run(jobs);
    }
}
