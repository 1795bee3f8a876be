//! First reads of remote files of a folder: existence, length and bytes come in one request, where a check would cost a
//! round trip of its own. The bytes stay until the page that asked for the length reads them, which it does next.
//!
//! The memory of all folders of a pager has one bound ([`FirstBudget`]). Beyond it a file is checked first.

use super::first_budget::FirstBudget;
use super::folder::{About, ABOUT_BYTES};
use super::{Buffer, Completion, Read, ReadNote};
use crate::error::PageErrorKind;
use crate::place::{FileKind, FileRef, FileStat, PinTable, Place, VersionPin};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time after which bytes that no page has read give way to others.
const FORGOTTEN: Duration = Duration::from_secs(2);

/// Memory that is counted in a budget until it is dropped.
struct CountedBytes {
    bytes: Vec<u8>,
    counted: u64,
    budget: Arc<FirstBudget>,
}

impl CountedBytes {
    fn new(len: usize, budget: &Arc<FirstBudget>) -> Option<Self> {
        let counted = len as u64;
        budget.take(counted).then(|| Self { bytes: vec![0; len], counted, budget: budget.clone() })
    }

    fn shorten(&mut self, len: usize) {
        self.bytes.truncate(len);
        self.bytes.shrink_to_fit();
        let now = (self.bytes.capacity() as u64).min(self.counted);
        self.budget.give(self.counted - now);
        self.counted = now;
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.budget.give(self.counted);
    }
}

/// The first reads of a folder's files.
pub(super) struct FirstReads {
    budget: Arc<FirstBudget>,
    state: Mutex<FirstState>,
}

#[derive(Default)]
struct FirstState {
    /// Whole files, by number.
    kept: HashMap<u64, (CountedBytes, Instant)>,
    /// Reads under way, and some that ended.
    under_way: Vec<Weak<FirstRead>>,
}

impl FirstReads {
    pub(super) fn new(budget: Arc<FirstBudget>) -> Self {
        Self { budget, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, FirstState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of files that are kept.
    pub(super) fn bytes(&self) -> u64 {
        let state = self.state();
        let kept: u64 = state.kept.values().map(|(bytes, _)| bytes.counted).sum();
        let under_way = state.under_way.iter().filter_map(Weak::upgrade).map(|read| read.counted).sum::<u64>();
        kept + under_way
    }

    /// Starts the read of the first `len` bytes of a file, for one of the files of a read of [`About`]s. False: there is
    /// no memory for it.
    pub(super) fn start(
        self: &Arc<Self>,
        place: &dyn Place,
        file: &FileRef,
        number: u64,
        len: usize,
        of: (&Arc<AboutsRead>, usize),
    ) -> bool {
        let Some(mut memory) = self.memory(len) else { return false };
        let (abouts, part) = of;
        let buffers = vec![Buffer { ptr: memory.bytes.as_mut_ptr(), len }];
        let asked = Read { token: part as u64, offset: 0, buffers, class: abouts.read.class };
        let first = Arc::new(FirstRead {
            number,
            part,
            counted: memory.counted,
            pin: file.pin.clone(),
            reads: self.clone(),
            memory: Mutex::new(Some(memory)),
            abouts: abouts.clone(),
        });
        let mut state = self.state();
        if state.under_way.len() == state.under_way.capacity() {
            state.under_way.retain(|read| read.strong_count() > 0);
        }
        state.under_way.push(Arc::downgrade(&first));
        drop(state);
        let first: Arc<dyn Completion> = first;
        place.submit(file, vec![asked], &first);
        true
    }

    fn memory(&self, len: usize) -> Option<CountedBytes> {
        CountedBytes::new(len, &self.budget).or_else(|| {
            let forgotten = |since: &Instant| since.elapsed() > FORGOTTEN;
            let gone: Vec<_> = self.state().kept.extract_if(|_, (_, since)| forgotten(since)).collect();
            (!gone.is_empty()).then_some(gone).and_then(|gone| {
                drop(gone);
                CountedBytes::new(len, &self.budget)
            })
        })
    }

    /// Fills the buffers of a read of a file from byte `from` on, if the file is here. It is then forgotten.
    pub(super) fn fill(&self, number: u64, from: u64, read: &Read) -> bool {
        let Some((file, _)) = self.state().kept.remove(&number) else { return false };
        let part = usize::try_from(from).ok().and_then(|from| file.bytes.get(from..from.checked_add(read.len())?));
        let Some(mut part) = part else { return false };
        for buffer in &read.buffers {
            let (now, rest) = part.split_at(buffer.len);
            if !buffer.is_hole() {
                // SAFETY: the buffer has `len` bytes, which are this read's until it is completed.
                unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), buffer.ptr, now.len()) };
            }
            part = rest;
        }
        true
    }

    /// The reads under way with these tokens of `done`, as the place knows them.
    pub(super) fn under_way(&self, tokens: &[u64], done: &Arc<dyn Completion>) -> Vec<(u64, Arc<dyn Completion>)> {
        let same = |of: &AboutsRead| std::ptr::addr_eq(Arc::as_ptr(&of.done), Arc::as_ptr(done));
        let reads: Vec<Arc<FirstRead>> = self.state().under_way.iter().filter_map(Weak::upgrade).collect();
        let theirs = reads.into_iter().filter(|read| tokens.contains(&read.abouts.read.token) && same(&read.abouts));
        theirs.map(|read| (read.part as u64, read as Arc<dyn Completion>)).collect()
    }
}

/// A read of the [`About`]s of some files, each found in its own way.
pub(super) struct AboutsRead {
    read: Read,
    /// Files without an answer, and the first error.
    state: Mutex<(usize, Option<PageErrorKind>)>,
    done: Arc<dyn Completion>,
}

// SAFETY: each answer writes its own bytes of the buffers, which belong to the read until the last one completes it.
unsafe impl Sync for AboutsRead {}

impl AboutsRead {
    /// Of `files` files, whose [`About`]s fill the buffers.
    pub(super) fn new(read: Read, files: usize, done: &Arc<dyn Completion>) -> Arc<Self> {
        Arc::new(Self { read, state: Mutex::new((files, None)), done: done.clone() })
    }

    /// The answer for one of the files. The kind of a failed check says more than the number of a system's error can.
    pub(super) fn put(&self, part: usize, answer: Result<About, PageErrorKind>) {
        if let Ok(about) = &answer {
            // SAFETY: the buffers are this read's until it is completed, and these bytes are this answer's.
            unsafe { super::indexed::put(&self.read.buffers, (part * ABOUT_BYTES) as i64, &about.bytes()) };
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 -= 1;
        if let Err(kind) = answer {
            state.1.get_or_insert(kind);
        }
        let done = (state.0 == 0).then(|| state.1.take());
        drop(state);
        if let Some(error) = done {
            self.done.complete(self.read.token, error.map_or(Ok(()), Err));
        }
    }
}

/// A first read under way.
struct FirstRead {
    number: u64,
    /// The number of the file in `abouts`.
    part: usize,
    counted: u64,
    pin: Arc<dyn VersionPin>,
    reads: Arc<FirstReads>,
    /// What the place fills.
    memory: Mutex<Option<CountedBytes>>,
    abouts: Arc<AboutsRead>,
}

impl Completion for FirstRead {
    fn complete(&self, _: u64, result: Result<(), PageErrorKind>) {
        let Some(mut memory) = self.memory.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let (about, whole) = match result {
            Ok(()) => {
                let len = memory.bytes.len();
                let size = self.pin.size().unwrap_or(len as u64);
                (About::There(size), (size == len as u64).then_some(len))
            }
            Err(PageErrorKind::Short { have, .. }) => (About::There(have), usize::try_from(have).ok()),
            Err(kind) => match absent(Some(&*self.pin), kind) {
                Ok(about) => (about, None),
                Err(kind) => return self.abouts.put(self.part, Err(kind)),
            },
        };
        if let Some(len) = whole {
            memory.shorten(len);
            self.reads.state().kept.insert(self.number, (memory, Instant::now()));
        }
        self.abouts.put(self.part, Ok(about));
    }

    fn note(&self, _: u64, note: ReadNote<'_>) {
        self.abouts.done.note(self.abouts.read.token, note);
    }
}

/// What a place says of a file. Bytes must be of the version whose length is told here. A cache knows from it what it may
/// answer.
pub(super) fn about_of(
    pins: &Arc<PinTable>,
    number: u64,
    answer: Result<FileStat, PageErrorKind>,
) -> Result<About, PageErrorKind> {
    match answer {
        Ok(FileStat { kind: FileKind::File, version, .. }) => {
            pins.file(number).check(&version)?;
            Ok(About::There(version.size))
        }
        Ok(_) => Ok(About::Unknown(libc::EISDIR)),
        Err(kind) => absent(Some(&*pins.file(number)), kind),
    }
}

/// The answer about a file that could not be read. One that is missing and was there has changed: nothing may stand in
/// for it.
pub(super) fn absent(pin: Option<&dyn VersionPin>, kind: PageErrorKind) -> Result<About, PageErrorKind> {
    match kind {
        PageErrorKind::Missing => match pin.map_or(PageErrorKind::Missing, VersionPin::missing) {
            PageErrorKind::Missing => Ok(About::Missing),
            changed => Err(changed),
        },
        other => Err(other),
    }
}
