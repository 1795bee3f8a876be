//! The first and the last bytes of files, through the cache: each in one round trip where the cache has nothing of the
//! file.

use super::place::{lock, CachedFiles, CachedPlace, FetchedReads};
use pager::error::PageErrorKind;
use pager::place::{
    BeginRead, ExtentRead, FileKind, FileRef, FileStat, FileVersion, FoundExtent, IndexedExtent, Place, TailRead,
};
use pager::source::{Buffer, Completion, Read, ReadClass};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

impl CachedFiles {
    /// Reads the end of a file that the cache has nothing of.
    pub(super) fn fetch_tail(
        self: &Arc<Self>,
        file: &FileRef,
        digest: u64,
        len: usize,
        then: TailRead,
    ) -> Result<(), TailRead> {
        let storing = self.storing(file, digest, FetchedReads(HashMap::new()), Arc::new(NoCompletion));
        let asked = FileRef { pin: storing.pin.clone(), ..file.clone() };
        // The place may give it back.
        let then = Arc::new(Mutex::new(Some(then)));
        let told = then.clone();
        let store = move |found: Result<(FileVersion, Vec<u8>), PageErrorKind>| {
            if let Ok((version, bytes)) = &found {
                storing.pin.note(version);
                let mut copy = bytes.clone();
                let buffers = [Buffer { ptr: copy.as_mut_ptr(), len: copy.len() }];
                storing.store(version.size.saturating_sub(bytes.len() as u64), &buffers, u64::MAX);
            }
            storing.note_first(matches!(found, Err(PageErrorKind::Missing)));
            if let Some(then) = lock(&told).take() {
                then(found);
            }
        };
        let asked = self.inner.tail(&asked, len, Box::new(store));
        asked.map_err(|back| {
            let own = lock(&then).take();
            own.unwrap_or(back)
        })
    }

    /// Reads an index and an extent of a file that the cache has nothing of.
    pub(super) fn fetch_indexed(
        self: &Arc<Self>,
        file: &FileRef,
        digest: u64,
        wanted: &IndexedExtent,
        then: ExtentRead,
    ) -> bool {
        let storing = self.storing(file, digest, FetchedReads(HashMap::new()), Arc::new(NoCompletion));
        let asked = FileRef { pin: storing.pin.clone(), ..file.clone() };
        let wanted = *wanted;
        let store = move |found: Result<FoundExtent, PageErrorKind>| {
            if let Ok(found) = &found {
                storing.pin.note(&found.version);
                let len = found.index.len() as u64;
                let index_at = if wanted.at_end { found.version.size.saturating_sub(len) } else { 0 };
                let extent = found.extent.as_ref().map(|(at, bytes)| (*at, bytes));
                for (at, bytes) in [(index_at, &found.index)].into_iter().chain(extent) {
                    let mut copy = bytes.clone();
                    storing.store(at, &[Buffer { ptr: copy.as_mut_ptr(), len: copy.len() }], u64::MAX);
                }
            }
            storing.note_first(matches!(found, Err(PageErrorKind::Missing)));
            then(found);
        };
        self.inner.indexed(&asked, &wanted, Box::new(store))
    }

    /// Reads the begin of a file that the cache has nothing of, with its state.
    pub(super) fn fetch_begin(
        self: &Arc<Self>,
        file: &FileRef,
        digest: u64,
        len: usize,
        then: BeginRead,
    ) -> Result<(), BeginRead> {
        let storing = self.storing(file, digest, FetchedReads(HashMap::new()), Arc::new(NoCompletion));
        let asked = FileRef { pin: storing.pin.clone(), ..file.clone() };
        // The place may give it back.
        let then = Arc::new(Mutex::new(Some(then)));
        let told = then.clone();
        let store = move |mut found: Result<(FileStat, Vec<u8>), PageErrorKind>| {
            let answer = found.as_ref().map(|(stat, _)| stat.clone()).map_err(Clone::clone);
            if let Ok((stat, bytes)) = &mut found {
                storing.pin.note(&stat.version);
                let buffers = [Buffer { ptr: bytes.as_mut_ptr(), len: bytes.len() }];
                storing.store(0, &buffers, u64::MAX);
            }
            storing.place.note(&storing.path, &answer);
            if let Some(then) = lock(&told).take() {
                then(found);
            }
        };
        let asked = self.inner.begin(&asked, len, Box::new(store));
        asked.map_err(|back| {
            let own = lock(&then).take();
            own.unwrap_or(back)
        })
    }

    /// Finds the state of a file that the cache has bytes of, and then reads those.
    pub(super) fn begin_here(self: &Arc<Self>, file: &FileRef, len: usize, then: BeginRead) {
        let (this, file) = (self.clone(), file.clone());
        let (path, asked) = (file.path.to_path_buf(), file.path.to_path_buf());
        let met = move |found: Result<FileStat, PageErrorKind>| {
            let stat = match found {
                Ok(stat) if stat.kind == FileKind::File => match file.pin.check(&stat.version) {
                    Ok(()) => stat,
                    Err(kind) => return then(Err(kind)),
                },
                Ok(stat) => return then(Ok((stat, Vec::new()))),
                Err(kind) => return then(Err(kind)),
            };
            let len = usize::try_from(stat.version.size).unwrap_or(usize::MAX).min(len);
            if len == 0 {
                return then(Ok((stat, Vec::new())));
            }
            let mut bytes = vec![0; len];
            let buffers = vec![Buffer { ptr: bytes.as_mut_ptr(), len }];
            let done: Arc<dyn Completion> = Arc::new(BegunFile(Mutex::new(Some((stat, bytes, then)))));
            let read = Read { token: 0, offset: file.base, buffers, class: ReadClass::Demand };
            CachedPlace(this).submit(&file, vec![read], &done);
        };
        if self.offline {
            let this = self.clone();
            return self.cache.run(vec![Box::new(move |_| met(this.noted(&path)))]);
        }
        let this = self.clone();
        let told = move |mut answers: Vec<Result<FileStat, PageErrorKind>>| {
            let no_answer = || Err(PageErrorKind::Io("its place gave no answer".into()));
            let answer = answers.pop().unwrap_or_else(no_answer);
            this.note(&path, &answer);
            met(answer);
        };
        self.inner.look(vec![asked], Box::new(told));
    }
}

/// The state of a file whose first bytes are being read, their memory, and who gets both.
struct BegunFile(Mutex<Option<(FileStat, Vec<u8>, BeginRead)>>);

impl Completion for BegunFile {
    fn complete(&self, _: u64, result: Result<(), PageErrorKind>) {
        if let Some((stat, bytes, then)) = lock(&self.0).take() {
            then(result.map(|()| (stat, bytes)));
        }
    }
}

/// For what is completed by other means.
struct NoCompletion;

impl Completion for NoCompletion {
    fn complete(&self, _: u64, _: Result<(), PageErrorKind>) {}
}
