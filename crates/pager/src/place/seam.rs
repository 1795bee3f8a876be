//! What a place is: the calls, and what they tell.

use super::pin::{FileVersion, VersionPin};
use crate::error::PageErrorKind;
use crate::source::{Completion, Read, ReadForm};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kind of a name.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Bytes at offsets.
    File,
    /// Names below it.
    Folder,
    /// A pipe, a device, a broken link.
    Other,
}

/// What a place says of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Its kind.
    pub kind: FileKind,
    /// Its size and version.
    pub version: FileVersion,
    /// Last change, in nanoseconds since 1970. 0: the place does not say.
    pub modified_ns: i64,
}

/// One name of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Without the folder.
    pub name: String,
    /// Its kind.
    pub kind: FileKind,
    /// Bytes of a file; 0 for a folder.
    pub size: u64,
}

/// A file in a place, and the version that its bytes must have.
#[derive(Clone)]
pub struct FileRef {
    /// Its path or URL.
    pub path: Arc<Path>,
    /// Where it begins in the count of bytes of the reads. A read at `base + n` is at byte `n` of the file.
    pub base: u64,
    /// Its version.
    pub pin: Arc<dyn VersionPin>,
}

/// Receives the answers for [`Place::look`], in the order of the paths.
pub type Looked = Box<dyn FnOnce(Vec<Result<FileStat, PageErrorKind>>) + Send>;

/// An extent that an entry of a file's index names, as two little-endian 64-bit words: first byte in the file, length.
/// All ones: no extent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct IndexedExtent {
    /// Bytes of the index.
    pub index_len: usize,
    /// Whether the index is the last part of the file, else the first.
    pub at_end: bool,
    /// First byte of the entry in the index.
    pub entry: usize,
    /// A longer extent is not wanted.
    pub longest: usize,
}

/// An index, and the extent that its entry names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundExtent {
    /// The version of the file.
    pub version: FileVersion,
    /// The index.
    pub index: Vec<u8>,
    /// First byte in the file, and bytes. `None`: there is none, or it is too long.
    pub extent: Option<(u64, Vec<u8>)>,
}

/// Receives an index with an extent ([`Place::indexed`]).
pub type ExtentRead = Box<dyn FnOnce(Result<FoundExtent, PageErrorKind>) + Send>;

/// Receives the last bytes of a file with its version ([`Place::tail`]).
pub type TailRead = Box<dyn FnOnce(Result<(FileVersion, Vec<u8>), PageErrorKind>) + Send>;

/// Receives the state of a file and its first bytes ([`Place::begin`]).
pub type BeginRead = Box<dyn FnOnce(Result<(FileStat, Vec<u8>), PageErrorKind>) + Send>;

/// Where files are. Calls never wait, except [`Place::list`].
pub trait Place: Send + Sync {
    /// Name for messages, such as the server.
    fn describe(&self) -> String;
    /// The reads that suit it. Its depth is ignored: [`Place::room`] says it.
    fn form(&self) -> ReadForm;
    /// Further reads that it may have now, beside those under way. 0 means that a source should wait for its next
    /// completion; a source without reads under way may always start one.
    fn room(&self) -> usize;
    /// Bytes of buffers that each read in flight may take beside the pager's own. A pager has only so many of these
    /// reads in flight that their buffers are a small part of its limit.
    fn bytes_per_read(&self) -> u64 {
        0
    }
    /// Bytes of connections, queues and indexes now, which each pager that reads from it charges.
    fn held_bytes(&self) -> u64 {
        0
    }
    /// Starts reads of a file. The contract is that of [`Source::submit`](crate::source::Source::submit). Each reply
    /// is checked against the file's pin before its read completes with `Ok`.
    fn submit(&self, file: &FileRef, reads: Vec<Read>, done: &Arc<dyn Completion>);
    /// A task waits now for reads that were submitted as prefetches with the same `done`. Must not block.
    fn promote(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        let _ = (tokens, done);
    }
    /// Nobody waits any more for reads that were submitted with the same `done`. The contract is that of
    /// [`Source::withdraw`](crate::source::Source::withdraw).
    fn withdraw(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        let _ = (tokens, done);
    }
    /// Reads the last `len` bytes of a file, or all of a shorter one, in one round trip. A place that needs to know
    /// the size first gives `then` back.
    ///
    /// # Errors
    /// `then`, which was not called.
    fn tail(&self, file: &FileRef, len: usize, then: TailRead) -> Result<(), TailRead> {
        let _ = (file, len);
        Err(then)
    }
    /// Finds the state of a name and, if it is a file, reads its first `len` bytes or all of a shorter one, in one round
    /// trip. Fewer bytes come where the place has no more at hand. The pin is checked. A place that needs two requests
    /// gives `then` back.
    ///
    /// # Errors
    /// `then`, which was not called.
    fn begin(&self, file: &FileRef, len: usize, then: BeginRead) -> Result<(), BeginRead> {
        let _ = (file, len);
        Err(then)
    }
    /// Reads an index and an extent that it names, in one round trip. False: the place cannot do it, and `then` is not
    /// called. `then` gets [`PageErrorKind::Decode`] if the file ends before index or extent do.
    fn indexed(&self, file: &FileRef, wanted: &IndexedExtent, then: ExtentRead) -> bool {
        let _ = (file, wanted, then);
        false
    }
    /// Checks names, all at the same time. [`PageErrorKind::Missing`] only if the place says that there is no such
    /// name.
    fn look(&self, paths: Vec<PathBuf>, then: Looked);
    /// The names in a folder, in any order. `most`: stop with an error beyond that many.
    ///
    /// # Errors
    /// [`PageErrorKind::Missing`] if the folder does not exist, [`PageErrorKind::Unsupported`] if the place cannot list.
    fn list(&self, folder: &Path, most: usize) -> Result<Vec<Entry>, PageErrorKind>;
}
