//! A place with a cache before it.
//!
//! *Theory.* A version of a file never changes, so its bytes may come from the disk as soon as the file's version is
//! known. In each run this takes one check of a file, which its opening makes anyway: a reply, an answer of
//! [`Place::look`], or a check of this place's own if the cache has bytes of the file and nobody has asked. What the
//! cache does not have comes from the place, and is stored behind the run.
//!
//! *Practice.* Offline, the last known versions are used and the place is never asked.

use super::cache::DiskCache;
use super::choice::{ByteOrigin, OriginChoice};
use super::format::FileKey;
use super::notes::NameNote;
use super::readers::{part, HitJob, Scratch};
use super::state::HitPiece;
use pager::error::PageErrorKind;
use pager::place::{
    BeginRead, Entry, ExtentRead, FileKind, FileRef, FileStat, IndexedExtent, Looked, Place, SeenPin, TailRead,
    VersionPin,
};
use pager::source::{Buffer, Completion, Read, ReadClass, ReadForm, ReadNote};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

/// Reads at the same time where no server limits them.
const OFFLINE_DEPTH: usize = 64;
/// A record ends with the buffer that reaches this length: a later read of one page need not check a whole joined read.
const RECORD: usize = 64 << 10;
/// Batches at the place before those that ended are dropped from the list.
const MANY_BATCHES: usize = 64;
/// The subjects of notes.
const STAT: &str = "stat";
const NAMES: &str = "names";

/// See the module. Clones are the same place.
#[derive(Clone)]
pub struct CachedPlace(pub(super) Arc<CachedFiles>);

/// Invariants:
/// 1. `queued` is the number of reads that wait for the disk. Each may still go to the place.
/// 2. A file in `first` is being checked; its reads wait for the answer.
pub(super) struct CachedFiles {
    pub(super) inner: Arc<dyn Place>,
    pub(super) cache: Arc<DiskCache>,
    /// Of the place, in digests and messages.
    pub(super) name: String,
    pub(super) offline: bool,
    choice: OriginChoice,
    queued: AtomicUsize,
    first: Mutex<HashMap<u64, Vec<WaitingReads>>>,
    /// Batches at the place, and some that ended: a promotion names the read by what its caller gave.
    at_place: Mutex<Vec<Weak<StoringCompletion>>>,
}

struct WaitingReads {
    file: FileRef,
    reads: Vec<Read>,
    done: Arc<dyn Completion>,
}

impl CachedPlace {
    /// Puts a cache before a place. `offline`: the place is never asked.
    pub fn new(inner: Arc<dyn Place>, cache: Arc<DiskCache>, offline: bool) -> Self {
        let name = inner.describe();
        let (choice, queued) = (OriginChoice::default(), AtomicUsize::new(0));
        let (first, at_place) = (Mutex::default(), Mutex::default());
        Self(Arc::new(CachedFiles { inner, cache, name, offline, choice, queued, first, at_place }))
    }

    #[cfg(test)]
    pub(super) fn choice(&self) -> &OriginChoice {
        &self.0.choice
    }
}

/// A path for messages, without what may be secret.
pub(super) fn shown(path: &Path) -> String {
    let path = path.to_string_lossy();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = path.split_once("://") else { return path.to_owned() };
    let (host, file) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/{file}")
}

pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parts of a read that are wanted, as bytes of the file from `from` on, up to byte `end`.
fn ranges(buffers: &[Buffer], from: u64, end: u64) -> Vec<(u64, u64)> {
    let (mut out, mut at): (Vec<(u64, u64)>, u64) = (Vec::new(), from);
    for b in buffers {
        let next = at.saturating_add(b.len as u64).min(end);
        if !b.is_hole() && next > at {
            match out.last_mut() {
                Some((_, to)) if *to == at => *to = next,
                _ => out.push((at, next)),
            }
        }
        at = next;
    }
    out
}

impl CachedFiles {
    /// Those of these reads that the place has, by the batches in which it got them.
    fn reads_at_place(&self, tokens: &[u64], done: &Arc<dyn Completion>) -> Vec<(Vec<u64>, Arc<dyn Completion>)> {
        let at_place: Vec<Arc<StoringCompletion>> = lock(&self.at_place).iter().filter_map(Weak::upgrade).collect();
        let mut found: Vec<(Vec<u64>, Arc<dyn Completion>)> = Vec::new();
        for batch in at_place.into_iter().filter(|batch| Arc::ptr_eq(&batch.done, done)) {
            let reads = lock(&batch.kept);
            let theirs: Vec<u64> = tokens.iter().copied().filter(|token| reads.0.contains_key(token)).collect();
            drop(reads);
            if !theirs.is_empty() {
                found.push((theirs, batch));
            }
        }
        found
    }

    fn missing_here(&self, path: &Path) -> PageErrorKind {
        let last = format!("{} is not in the disk cache", shown(path));
        PageErrorKind::Unreachable { server: self.name.clone(), tried: "offline".into(), last }
    }

    /// Answers reads of a file whose version is known, from the disk where it can.
    fn answer(
        self: &Arc<Self>,
        file: &FileRef,
        key: FileKey,
        size: Option<u64>,
        reads: Vec<Read>,
        done: &Arc<dyn Completion>,
    ) {
        let (mut jobs, mut misses): (Vec<HitJob>, _) = (Vec::new(), Vec::new());
        for read in reads {
            let (from, end) = (read.offset - file.base, size.unwrap_or(u64::MAX));
            let short = from.saturating_add(read.len() as u64) > end;
            let wanted = ranges(&read.buffers, from, end);
            if self.offline && short && from >= end {
                let kind = self.short(file, &read, end);
                done.complete(read.token, Err(kind));
                continue;
            }
            let plan = if wanted.is_empty() { None } else { self.cache.plan(key, &wanted) };
            let pieces = plan.filter(|_| self.offline || self.choice.choose(read.len()) == ByteOrigin::Disk);
            let Some(pieces) = pieces else {
                misses.push(read);
                continue;
            };
            let (this, file, done, start) = (self.clone(), file.clone(), done.clone(), Instant::now());
            self.queued.fetch_add(1, Relaxed);
            jobs.push(Box::new(move |scratch| {
                let have = short.then_some(end);
                this.read(&file, key, read, &pieces, have, &done, start, scratch);
            }));
        }
        if !jobs.is_empty() {
            self.cache.run(jobs);
        }
        if !misses.is_empty() {
            self.fetch(file, key.file, misses, done);
        }
    }

    fn short(&self, file: &FileRef, read: &Read, size: u64) -> PageErrorKind {
        let end = read.offset.saturating_add(read.len() as u64);
        PageErrorKind::Short { offset: read.offset, end, have: file.base.saturating_add(size) }
    }

    /// Reads from the disk, on a thread of the cache. `have`: the file ends there, before the read.
    #[allow(clippy::too_many_arguments, reason = "the parts of one read, which one caller has")]
    fn read(
        self: &Arc<Self>,
        file: &FileRef,
        key: FileKey,
        read: Read,
        pieces: &[HitPiece],
        have: Option<u64>,
        done: &Arc<dyn Completion>,
        start: Instant,
        scratch: &mut Scratch,
    ) {
        // SAFETY: the buffers are this read's until it is completed.
        let filled = unsafe { self.cache.fill(key, (read.offset - file.base, &read.buffers), pieces, scratch) };
        self.queued.fetch_sub(1, Relaxed);
        if !filled {
            return self.fetch(file, key.file, vec![read], done);
        }
        self.choice.note(ByteOrigin::Disk, read.len(), start.elapsed());
        let result = have.map_or(Ok(()), |size| Err(self.short(file, &read, size)));
        done.complete(read.token, result);
    }

    /// Reads from the place, and stores what comes.
    fn fetch(self: &Arc<Self>, file: &FileRef, digest: u64, reads: Vec<Read>, done: &Arc<dyn Completion>) {
        if self.offline {
            let kind = self.missing_here(&file.path);
            return reads.iter().for_each(|read| done.complete(read.token, Err(kind.clone())));
        }
        let of = |read: &Read| (read.token, (read.offset - file.base, read.buffers.clone()));
        let kept = FetchedReads(reads.iter().map(of).collect());
        let storing = Arc::new(self.storing(file, digest, kept, done.clone()));
        let pin = storing.pin.clone();
        let mut at_place = lock(&self.at_place);
        if at_place.len() >= MANY_BATCHES && at_place.len() == at_place.capacity() {
            at_place.retain(|batch| batch.strong_count() > 0);
        }
        at_place.push(Arc::downgrade(&storing));
        drop(at_place);
        let storing: Arc<dyn Completion> = storing;
        self.inner.submit(&FileRef { path: file.path.clone(), base: file.base, pin }, reads, &storing);
    }

    /// Stores what the place gives of a file.
    pub(super) fn storing(
        self: &Arc<Self>,
        file: &FileRef,
        digest: u64,
        kept: FetchedReads,
        done: Arc<dyn Completion>,
    ) -> StoringCompletion {
        StoringCompletion {
            place: self.clone(),
            path: file.path.clone(),
            digest,
            base: file.base,
            first: file.pin.digest().is_none(),
            pin: Arc::new(SeenPin::new(file.pin.clone())),
            noted: OnceLock::new(),
            kept: Mutex::new(kept),
            start: Instant::now(),
            done,
        }
    }

    /// Notes what the place says of a name.
    pub(super) fn note(&self, path: &Path, answer: &Result<FileStat, PageErrorKind>) {
        let note = match answer {
            // Replies say no time: with one, each check would be news.
            Ok(stat) => NameNote::There(FileStat { modified_ns: 0, ..stat.clone() }),
            Err(PageErrorKind::Missing) => NameNote::Missing,
            Err(_) => return,
        };
        if let Some(bytes) = note.bytes() {
            self.cache.note(STAT, &self.name, path, bytes);
        }
    }

    /// What was last known of a name.
    pub(super) fn noted(&self, path: &Path) -> Result<FileStat, PageErrorKind> {
        let note = self.cache.note_of(STAT, &self.name, path).and_then(|bytes| NameNote::parse(&bytes));
        match note {
            Some(NameNote::There(stat)) => Ok(stat),
            Some(NameNote::Missing) => Err(PageErrorKind::Missing),
            Some(NameNote::Names(_)) | None => Err(self.missing_here(path)),
        }
    }

    /// Lets reads of a file wait for the answer of one check.
    fn first_contact(self: &Arc<Self>, digest: u64, waiting: WaitingReads) {
        let (path, asked) = (waiting.file.path.to_path_buf(), waiting.file.path.to_path_buf());
        let mut first = lock(&self.first);
        let known = first.entry(digest).or_default();
        known.push(waiting);
        if known.len() > 1 {
            return;
        }
        drop(first);
        let this = self.clone();
        if self.offline {
            return self.cache.run(vec![Box::new(move |_| this.met(digest, this.noted(&path)))]);
        }
        let told = move |mut answers: Vec<Result<FileStat, PageErrorKind>>| {
            let no_answer = || Err(PageErrorKind::Io("its place gave no answer".into()));
            let answer = answers.pop().unwrap_or_else(no_answer);
            this.note(&path, &answer);
            this.met(digest, answer);
        };
        self.inner.look(vec![asked], Box::new(told));
    }

    /// Goes on with the reads that waited for a check.
    fn met(self: &Arc<Self>, digest: u64, answer: Result<FileStat, PageErrorKind>) {
        let waiting = lock(&self.first).remove(&digest).unwrap_or_default();
        for WaitingReads { file, reads, done } in waiting {
            let checked = match &answer {
                Ok(stat) if stat.kind == FileKind::File => file.pin.check(&stat.version).map(|()| Some(&stat.version)),
                Err(kind) if self.offline => Err(kind.clone()),
                // The place itself says best what is wrong.
                Ok(_) | Err(_) => Ok(None),
            };
            match checked {
                Ok(Some(version)) => {
                    let key = FileKey { file: digest, version: version.digest() };
                    self.answer(&file, key, Some(version.size), reads, &done);
                }
                Ok(None) => self.fetch(&file, digest, reads, &done),
                Err(kind) => reads.iter().for_each(|read| done.complete(read.token, Err(kind.clone()))),
            }
        }
    }
}

/// The place in the file and the buffers of reads, by token.
pub(super) struct FetchedReads(pub(super) HashMap<u64, (u64, Vec<Buffer>)>);

/// Stores what a place gave before the read is completed: afterwards the buffers are no longer its own.
pub(super) struct StoringCompletion {
    pub(super) place: Arc<CachedFiles>,
    pub(super) path: Arc<Path>,
    digest: u64,
    base: u64,
    pub(super) pin: Arc<SeenPin>,
    noted: OnceLock<()>,
    /// Whether nothing was known of the file.
    first: bool,
    kept: Mutex<FetchedReads>,
    start: Instant,
    done: Arc<dyn Completion>,
}

impl StoringCompletion {
    /// Stores the bytes of a read up to byte `end` of the file.
    pub(super) fn store(&self, from: u64, buffers: &[Buffer], end: u64) {
        let place = &self.place;
        // Without a tag two versions may be taken for one.
        let version = self.pin.seen().cloned().or_else(|| self.pin.expected()).filter(|v| !v.tag.is_empty());
        let Some(version) = version else { return };
        let len = buffers.iter().map(|b| b.len).sum();
        // Also where the server is faster now: what was read is there for work without it.
        if !place.cache.wants(len) {
            return;
        }
        let key = FileKey { file: self.digest, version: version.digest() };
        for (run_from, run_to) in ranges(buffers, from, end) {
            let (mut record, mut begin) = (Vec::new(), run_from);
            for b in part(buffers, (run_from - from) as usize, (run_to - from) as usize) {
                // SAFETY: the read is not completed yet, and its place has filled the buffer.
                record.extend_from_slice(unsafe { std::slice::from_raw_parts(b.ptr, b.len) });
                if record.len() >= RECORD {
                    let next = begin + record.len() as u64;
                    place.cache.store(key, begin, std::mem::take(&mut record));
                    begin = next;
                }
            }
            place.cache.store(key, begin, record);
        }
    }
}

impl StoringCompletion {
    /// Notes what the first reply says of the file.
    pub(super) fn note_first(&self, missing: bool) {
        if !self.first {
            return;
        }
        let seen = self.pin.seen().cloned();
        let stat = seen.map(|version| Ok(FileStat { kind: FileKind::File, version, modified_ns: 0 }));
        if let Some(news) = stat.or(missing.then_some(Err(PageErrorKind::Missing))) {
            self.noted.get_or_init(|| self.place.note(&self.path, &news));
        }
    }
}

impl Completion for StoringCompletion {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        let read = lock(&self.kept).0.remove(&token);
        if let Some((from, buffers)) = read {
            match &result {
                Ok(()) => {
                    let len = buffers.iter().map(|b| b.len).sum();
                    self.place.choice.note(ByteOrigin::Server, len, self.start.elapsed());
                    self.store(from, &buffers, u64::MAX);
                }
                Err(PageErrorKind::Short { have, .. }) if *have > self.base + from => {
                    self.store(from, &buffers, have - self.base);
                }
                Err(_) => {}
            }
        }
        self.note_first(result == Err(PageErrorKind::Missing));
        self.done.complete(token, result);
    }

    fn note(&self, token: u64, note: ReadNote<'_>) {
        self.done.note(token, note);
    }
}

impl Place for CachedPlace {
    fn describe(&self) -> String {
        self.0.inner.describe()
    }

    fn form(&self) -> ReadForm {
        self.0.inner.form()
    }

    fn room(&self) -> usize {
        let room = if self.0.offline { OFFLINE_DEPTH } else { self.0.inner.room() };
        room.saturating_sub(self.0.queued.load(Relaxed))
    }

    fn bytes_per_read(&self) -> u64 {
        self.0.inner.bytes_per_read()
    }

    fn held_bytes(&self) -> u64 {
        self.0.inner.held_bytes() + self.0.cache.index_bytes() + self.0.cache.waiting_bytes()
    }

    fn submit(&self, file: &FileRef, reads: Vec<Read>, done: &Arc<dyn Completion>) {
        if reads.is_empty() {
            return;
        }
        if !self.0.offline && !self.0.cache.is_usable() {
            return self.0.inner.submit(file, reads, done);
        }
        let digest = DiskCache::file(&self.0.name, &file.path);
        match file.pin.digest() {
            Some(version) => {
                let size = file.pin.size();
                self.0.answer(file, FileKey { file: digest, version }, size, reads, done);
            }
            None if self.0.offline || self.0.cache.has_any(digest) => {
                self.0.first_contact(digest, WaitingReads { file: file.clone(), reads, done: done.clone() });
            }
            None => {
                self.0.cache.missed();
                self.0.fetch(file, digest, reads, done);
            }
        }
    }

    fn promote(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        // Reads of files that are being checked are not at the place yet.
        for waiting in lock(&self.0.first).values_mut().flatten().filter(|w| Arc::ptr_eq(&w.done, done)) {
            let promoted = waiting.reads.iter_mut().filter(|read| tokens.contains(&read.token));
            promoted.for_each(|read| read.class = ReadClass::Demand);
        }
        for (theirs, batch) in self.0.reads_at_place(tokens, done) {
            self.0.inner.promote(&theirs, &batch);
        }
    }

    fn withdraw(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        let mut ended = Vec::new();
        for waiting in lock(&self.0.first).values_mut().flatten().filter(|w| Arc::ptr_eq(&w.done, done)) {
            let all = std::mem::take(&mut waiting.reads).into_iter();
            let (withdrawn, others) = all.partition(|read| tokens.contains(&read.token));
            waiting.reads = others;
            ended.extend::<Vec<Read>>(withdrawn);
        }
        done.complete_all(ended.iter().map(|read| (read.token, Err(PageErrorKind::Withdrawn))).collect());
        for (theirs, batch) in self.0.reads_at_place(tokens, done) {
            self.0.inner.withdraw(&theirs, &batch);
        }
    }

    fn tail(&self, file: &FileRef, len: usize, then: TailRead) -> Result<(), TailRead> {
        if !self.0.offline && !self.0.cache.is_usable() {
            return self.0.inner.tail(file, len, then);
        }
        let digest = DiskCache::file(&self.0.name, &file.path);
        // With bytes here, its size is worth the round trip.
        if self.0.offline || self.0.cache.has_any(digest) {
            return Err(then);
        }
        self.0.cache.missed();
        self.0.fetch_tail(file, digest, len, then)
    }

    fn begin(&self, file: &FileRef, len: usize, then: BeginRead) -> Result<(), BeginRead> {
        if !self.0.offline && !self.0.cache.is_usable() {
            return self.0.inner.begin(file, len, then);
        }
        let digest = DiskCache::file(&self.0.name, &file.path);
        if self.0.offline || self.0.cache.has_any(digest) {
            self.0.begin_here(file, len, then);
            return Ok(());
        }
        self.0.cache.missed();
        self.0.fetch_begin(file, digest, len, then)
    }

    fn indexed(&self, file: &FileRef, wanted: &IndexedExtent, then: ExtentRead) -> bool {
        if !self.0.offline && !self.0.cache.is_usable() {
            return self.0.inner.indexed(file, wanted, then);
        }
        let digest = DiskCache::file(&self.0.name, &file.path);
        if self.0.offline || self.0.cache.has_any(digest) {
            return false;
        }
        self.0.cache.missed();
        self.0.fetch_indexed(file, digest, wanted, then)
    }

    fn look(&self, paths: Vec<PathBuf>, then: Looked) {
        let this = self.0.clone();
        if self.0.offline {
            let looked = move |_: &mut Scratch| then(paths.iter().map(|path| this.noted(path)).collect());
            return self.0.cache.run(vec![Box::new(looked)]);
        }
        let names = paths.clone();
        let told = move |answers: Vec<Result<FileStat, PageErrorKind>>| {
            names.iter().zip(&answers).for_each(|(path, answer)| this.note(path, answer));
            then(answers);
        };
        self.0.inner.look(paths, Box::new(told));
    }

    fn list(&self, folder: &Path, most: usize) -> Result<Vec<Entry>, PageErrorKind> {
        if self.0.offline {
            let note = self.0.cache.note_of(NAMES, &self.0.name, folder).and_then(|bytes| NameNote::parse(&bytes));
            return match note {
                Some(NameNote::Names(names)) if names.len() > most => Err(PageErrorKind::TooMany { most }),
                Some(NameNote::Names(names)) => Ok(names),
                Some(NameNote::Missing) => Err(PageErrorKind::Missing),
                Some(NameNote::There(_)) | None => Err(self.0.missing_here(folder)),
            };
        }
        let found = self.0.inner.list(folder, most);
        let note = match &found {
            Ok(names) => NameNote::Names(names.clone()).bytes(),
            Err(PageErrorKind::Missing) => NameNote::Missing.bytes(),
            Err(_) => None,
        };
        if let Some(bytes) = note {
            self.0.cache.note(NAMES, &self.0.name, folder, bytes);
        }
        found
    }
}
