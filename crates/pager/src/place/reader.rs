//! Reads that wait, for headers and documents. A remote file is read in blocks, which stay for the next small read.

use super::pin::{FileVersion, VersionPin};
use super::registry::of;
use super::seam::{FileKind, FileRef, FileStat, Place};
use super::waiting::Answers;
use super::{known, local};
use crate::error::PageErrorKind;
use crate::source::{Buffer, Completion, Read, ReadClass};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a block: a header with what stands beside it, at the cost of one round trip.
pub(super) const BLOCK: usize = 64 << 10;
/// Blocks that stay.
const BLOCKS: usize = 32;
/// Blocks read at once by a reader that goes through a file. The number doubles from read to read up to this.
const MOST_AHEAD: usize = 16;
/// A read of at least this many bytes passes the blocks by.
const LARGE: usize = BLOCK * MOST_AHEAD / 2;
/// The piece of a large read; pieces are read at the same time.
const PIECE: usize = 1 << 20;

/// A file that is open for reading, local or remote.
pub struct FileReader(Opened);

enum Opened {
    Local(File, FileVersion),
    Remote { place: Arc<dyn Place>, file: FileRef, version: FileVersion, blocks: Mutex<Blocks> },
}

/// The last blocks, newest last.
#[derive(Default)]
struct Blocks {
    blocks: Vec<(u64, Arc<[u8]>)>,
    /// The block after the last read, and the blocks that this read took.
    next: u64,
    ahead: usize,
}

impl std::fmt::Debug for FileReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileReader").field("version", self.version()).finish_non_exhaustive()
    }
}

impl FileReader {
    /// Opens a file.
    ///
    /// # Errors
    /// [`PageErrorKind::Missing`] if it does not exist. Folders, pipes and devices are refused: they have no bytes at
    /// an offset.
    pub fn open(path: &Path) -> Result<Self, PageErrorKind> {
        let Some(place) = of(path)? else { return Self::open_local(path) };
        let (pin, head) = known::pin_and_head(path);
        let file = FileRef { path: path.into(), base: 0, pin: pin.clone() };
        let mut blocks = Blocks::default();
        let version = match pin.expected() {
            Some(version) => {
                head.into_iter().for_each(|head| blocks.put(0, head));
                version
            }
            // The first block says the version, too.
            None => {
                let first = read_up_to(&*place, &file, 0, BLOCK)?;
                let version = pin.expected();
                let version = version.ok_or_else(|| PageErrorKind::Io("its place did not say its size".into()))?;
                blocks.put(0, first.into());
                version
            }
        };
        Ok(Self(Opened::Remote { place, file, version, blocks: Mutex::new(blocks) }))
    }

    fn open_local(path: &Path) -> Result<Self, PageErrorKind> {
        // Otherwise opening a pipe waits for a writer.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let file = file.map_err(|e| PageErrorKind::from(&e))?;
        let FileStat { kind, version, .. } = local::of(&file.metadata().map_err(|e| PageErrorKind::from(&e))?);
        match kind {
            FileKind::File => Ok(Self(Opened::Local(file, version))),
            FileKind::Folder => Err(PageErrorKind::from(&std::io::ErrorKind::IsADirectory.into())),
            FileKind::Other => {
                Err(PageErrorKind::Io("this is no regular file; copy what it gives into one first".into()))
            }
        }
    }

    /// Size in bytes when it was opened.
    pub fn size(&self) -> u64 {
        self.version().size
    }

    /// Its version when it was opened.
    pub fn version(&self) -> &FileVersion {
        match &self.0 {
            Opened::Local(_, version) | Opened::Remote { version, .. } => version,
        }
    }

    /// The local file, for calls of the system.
    pub fn local(&self) -> Option<&File> {
        match &self.0 {
            Opened::Local(file, _) => Some(file),
            Opened::Remote { .. } => None,
        }
    }

    /// Fills `buf` from byte `offset`.
    ///
    /// # Errors
    /// [`PageErrorKind::Short`] past the end.
    pub fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), PageErrorKind> {
        match &self.0 {
            Opened::Local(file, _) => file.read_exact_at(buf, offset).map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => self.short(offset, buf.len()),
                _ => PageErrorKind::from(&e),
            }),
            Opened::Remote { place, file, version, blocks } => {
                let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= version.size);
                if end.is_none() {
                    return Err(self.short(offset, buf.len()));
                }
                if buf.len() >= LARGE {
                    return read_pieces(&**place, file, offset, buf);
                }
                let mut blocks = blocks.lock().unwrap_or_else(PoisonError::into_inner);
                blocks.read(&**place, file, version.size, offset, buf)
            }
        }
    }

    /// Bytes from `offset` on: `len`, or fewer at the end of the file.
    ///
    /// # Errors
    /// As [`Self::read_exact_at`].
    pub fn read_up_to(&self, offset: u64, len: usize) -> Result<Vec<u8>, PageErrorKind> {
        let left = self.size().saturating_sub(offset);
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(len)];
        self.read_exact_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn short(&self, offset: u64, len: usize) -> PageErrorKind {
        PageErrorKind::Short { offset, end: offset.saturating_add(len as u64), have: self.size() }
    }
}

impl Blocks {
    fn put(&mut self, number: u64, bytes: Arc<[u8]>) {
        if self.blocks.len() >= BLOCKS {
            self.blocks.remove(0);
        }
        self.blocks.push((number, bytes));
    }

    fn get(&mut self, number: u64) -> Option<Arc<[u8]>> {
        let at = self.blocks.iter().position(|(n, _)| *n == number)?;
        let block = self.blocks.remove(at);
        let bytes = block.1.clone();
        self.blocks.push(block);
        Some(bytes)
    }

    fn read(
        &mut self,
        place: &dyn Place,
        file: &FileRef,
        size: u64,
        offset: u64,
        mut buf: &mut [u8],
    ) -> Result<(), PageErrorKind> {
        let mut at = offset;
        while !buf.is_empty() {
            let (number, within) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let block = match self.get(number) {
                Some(block) => block,
                None => self.fetch(place, file, size, number)?,
            };
            let part = block.get(within..).unwrap_or_default();
            let n = part.len().min(buf.len());
            if n == 0 {
                return Err(PageErrorKind::Short { offset, end: at + buf.len() as u64, have: at });
            }
            let (to, rest) = buf.split_at_mut(n);
            to.copy_from_slice(&part[..n]);
            (buf, at) = (rest, at + n as u64);
        }
        Ok(())
    }

    /// Reads a block, and those after it if the last read ended here.
    fn fetch(&mut self, place: &dyn Place, file: &FileRef, size: u64, number: u64) -> Result<Arc<[u8]>, PageErrorKind> {
        self.ahead = if number == self.next && number > 0 { (self.ahead * 2).clamp(2, MOST_AHEAD) } else { 1 };
        let begin = number * BLOCK as u64;
        let len = size.saturating_sub(begin).min((self.ahead * BLOCK) as u64) as usize;
        let mut bytes = vec![0; len];
        read_pieces(place, file, begin, &mut bytes)?;
        let count = len.div_ceil(BLOCK) as u64;
        // The wanted block last: it must stay.
        for (n, block) in bytes.chunks(BLOCK).enumerate().rev() {
            self.put(number + n as u64, block.into());
        }
        self.next = number + count;
        self.get(number).ok_or_else(|| PageErrorKind::Short { offset: begin, end: begin + 1, have: size })
    }
}

/// Receives the size of a file and bytes of it.
pub(crate) type PartRead = Box<dyn FnOnce(Result<(u64, Vec<u8>), PageErrorKind>) + Send>;

/// Reads the first or the last `len` bytes of a file without waiting, or all of a shorter one. For the last bytes a place
/// may need the size first, which is a second round trip.
pub(crate) fn read_part(place: &Arc<dyn Place>, file: FileRef, at_end: bool, len: usize, then: PartRead) {
    if !at_end {
        return read_first(&**place, &file, len, then);
    }
    let told = Box::new(move |found: Result<(FileVersion, Vec<u8>), PageErrorKind>| {
        then(found.map(|(version, bytes)| (version.size, bytes)));
    });
    let Err(told) = place.tail(&file, len, told) else { return };
    let (then_place, path) = (place.clone(), file.path.to_path_buf());
    let looked = move |mut found: Vec<Result<FileStat, PageErrorKind>>| {
        let unanswered = Err(PageErrorKind::Io("its place gave no answer".into()));
        let version = match found.pop().unwrap_or(unanswered).and_then(|stat| match stat.kind {
            FileKind::File => file.pin.check(&stat.version).map(|()| stat.version),
            _ => Err(PageErrorKind::from(&std::io::ErrorKind::IsADirectory.into())),
        }) {
            Ok(version) => version,
            Err(kind) => return told(Err(kind)),
        };
        let len = usize::try_from(version.size).unwrap_or(usize::MAX).min(len);
        let from = version.size - len as u64;
        let file = FileRef { base: 0, ..file };
        let then = move |(bytes, result): ReadAnswer| told(result.map(|()| (version, bytes)));
        start(&*then_place, &file, from, len, Box::new(then));
    };
    place.look(vec![path], Box::new(looked));
}

/// Reads the first `len` bytes of a file, or all of a shorter one.
fn read_first(place: &dyn Place, file: &FileRef, len: usize, then: PartRead) {
    let pin = file.pin.clone();
    let told = move |(mut bytes, result): ReadAnswer| {
        let size = match result {
            Ok(()) => pin.size().unwrap_or(len as u64),
            Err(PageErrorKind::Short { have, .. }) => {
                bytes.truncate(usize::try_from(have).unwrap_or(0).min(len));
                have
            }
            Err(kind) => return then(Err(kind)),
        };
        then(Ok((size, bytes)));
    };
    start(place, &FileRef { base: 0, ..file.clone() }, 0, len, Box::new(told));
}

/// Starts one read, and calls `then` with its answer.
fn start(place: &dyn Place, file: &FileRef, offset: u64, len: usize, then: ReadAnswered) {
    let mut bytes = vec![0; len];
    let buffers = vec![Buffer { ptr: bytes.as_mut_ptr(), len }];
    let done: Arc<dyn Completion> = Arc::new(OneRead(Mutex::new(Some((bytes, then)))));
    place.submit(file, vec![Read { token: 0, offset, buffers, class: ReadClass::Demand }], &done);
}

/// The memory of one read, and who gets it.
struct OneRead(Mutex<Option<(Vec<u8>, ReadAnswered)>>);

/// Receives the answer to one read.
type ReadAnswered = Box<dyn FnOnce(ReadAnswer) + Send>;

impl Completion for OneRead {
    fn complete(&self, _: u64, result: Result<(), PageErrorKind>) {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((bytes, then)) = taken {
            then((bytes, result));
        }
    }
}

/// Starts a read of the first bytes of a file. `then` gets those that there are, or none after an error.
pub(super) fn start_first(place: &dyn Place, file: &FileRef, len: usize, then: impl FnOnce(Vec<u8>) + Send + 'static) {
    read_first(place, file, len, Box::new(move |found| then(found.map_or_else(|_| Vec::new(), |(_, bytes)| bytes))));
}

/// Up to `len` bytes of a file whose size may be unknown.
fn read_up_to(place: &dyn Place, file: &FileRef, offset: u64, len: usize) -> Result<Vec<u8>, PageErrorKind> {
    let (mut bytes, result) = read(place, file, &[(offset, len)])?.remove(0);
    match result {
        Ok(()) => {}
        Err(PageErrorKind::Short { have, .. }) => bytes.truncate(have.saturating_sub(offset) as usize),
        Err(kind) => return Err(kind),
    }
    Ok(bytes)
}

/// Fills a buffer in pieces that are read at the same time.
fn read_pieces(place: &dyn Place, file: &FileRef, offset: u64, buf: &mut [u8]) -> Result<(), PageErrorKind> {
    let pieces = buf.chunks(PIECE).enumerate().map(|(n, piece)| (offset + (n * PIECE) as u64, piece.len()));
    let pieces: Vec<(u64, usize)> = pieces.collect();
    for (to, (bytes, result)) in buf.chunks_mut(PIECE).zip(read(place, file, &pieces)?) {
        result?;
        to.copy_from_slice(&bytes);
    }
    Ok(())
}

/// A read's bytes, and whether all of them came.
type ReadAnswer = (Vec<u8>, Result<(), PageErrorKind>);

/// Reads ranges of a file, and waits for all of them.
///
/// # Errors
/// [`PageErrorKind::Interrupted`].
fn read(place: &dyn Place, file: &FileRef, ranges: &[(u64, usize)]) -> Result<Vec<ReadAnswer>, PageErrorKind> {
    let mut memory: Vec<Vec<u8>> = ranges.iter().map(|(_, len)| vec![0; *len]).collect();
    let reads = ranges.iter().zip(&mut memory).enumerate().map(|(n, ((offset, len), bytes))| Read {
        token: n as u64,
        offset: file.base + offset,
        buffers: vec![Buffer { ptr: bytes.as_mut_ptr(), len: *len }],
        class: ReadClass::Demand,
    });
    let reads: Vec<Read> = reads.collect();
    let answers = Answers::new(ranges.len());
    let memory = Mutex::new(memory.into_iter().map(Some).collect());
    // The place has the memory until each read's completion, also if this thread no longer waits.
    let done: Arc<dyn Completion> = Arc::new(Waiting { memory, answers: answers.clone() });
    place.submit(file, reads, &done);
    drop(done);
    answers.wait()
}

/// The memory of reads, handed over as they are completed.
struct Waiting {
    memory: Mutex<Vec<Option<Vec<u8>>>>,
    answers: Arc<Answers<ReadAnswer>>,
}

impl Completion for Waiting {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = memory.get_mut(token as usize).and_then(Option::take) {
            self.answers.tell(token as usize, (bytes, result));
        }
    }
}
