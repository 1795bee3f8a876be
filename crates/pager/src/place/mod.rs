//! Places: where files are. A path with a scheme (`https://host/wing.zarr`) belongs to the place registered for that
//! scheme, and every other path to the local file system.
//!
//! *Theory.* A place starts reads, checks many files at once and lists folders; nothing else differs between a disk, a
//! web server, an object store and a page server. The rest stands here once: sources for the pager, reading from code
//! that waits, and the versions of files. Every reply says the version of its file. The first reply pins it, and a
//! reply of another version is [`Changed`](crate::PageErrorKind::Changed): bytes of two versions are never mixed.
//!
//! *Practice.*
//!
//! | module | for |
//! |---|---|
//! | `registry` | places by scheme |
//! | `pin` | the version of a file, and of many files in few bytes |
//! | `known` | what the opening of a dataset has learned of remote files |
//! | `reader` | reads that wait: headers and small documents |
//! | `source` | a remote file as a source of pages |
//! | `waiting` | waiting for answers, which the user can end |

mod known;
mod local;
#[cfg(any(test, feature = "conformance"))]
pub mod mirror;
mod pin;
mod reader;
mod registry;
pub(crate) mod seam;
mod source;
#[cfg(test)]
mod tests;
mod waiting;

pub(crate) use known::numbered;
pub use known::{begin, fetch_small, list, read_small, stat, Opening};
pub use pin::{FilePin, FileVersion, PinTable, SeenPin, VersionPin};
pub(crate) use reader::read_part;
pub use reader::FileReader;
pub use registry::{is_remote, of, register, scheme, shown};
pub use seam::{
    BeginRead, Entry, ExtentRead, FileKind, FileRef, FileStat, FoundExtent, IndexedExtent, Looked, Place, TailRead,
};
pub(crate) use source::NoSource;
pub use source::PlaceFile;
pub use waiting::on_wait;
