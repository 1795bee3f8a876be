//! Names that stand for addresses: files of a slower place, through the memory of this machine.
//!
//! *Theory.* An origin is a place like any client's: a web server, a bucket, another page server, or with
//! `--cache-local` a disk of this machine. A file is opened in its version of then. Its bytes come from the memory cache
//! under that version, else from the origin, which is told the version and refuses another. Blocks that several clients
//! want are read once. Nothing here waits: an event loop asks for what is absent and goes on, and the answer comes back
//! to it as a letter.
//!
//! *Practice.*
//!
//! | module | for |
//! |---|---|
//! | `roots` | names to addresses, and never outside; versions that were seen lately |
//! | `file` | a file in one version: blocks here, reads under way |
//! | `local` | files of this machine as a place |
//! | `answers` | what an origin says, in the words of the protocol |

mod address;
mod answers;
mod file;
mod local;
mod roots;

pub(super) use answers::{refusal, told};
pub(super) use file::{Fetched, FetchedRun, FetchedRuns, OriginFile};
pub(super) use roots::{FoundName, OriginOpened, Origins};

use super::memory_cache::HostMemory;
use std::path::PathBuf;

/// How origins are kept in the memory and on the disk of this machine.
#[derive(Clone, Debug)]
pub struct OriginOptions {
    /// Most bytes of memory. 0: nothing is kept.
    pub cache: u64,
    /// Whether local files are kept in that memory, too. Otherwise they are in the kernel's page cache only.
    pub cache_local: bool,
    /// A folder before the origins, and its most bytes.
    pub cache_disk: Option<(PathBuf, u64)>,
    /// Says how much memory the host has left.
    pub host: fn() -> Option<HostMemory>,
}

impl Default for OriginOptions {
    fn default() -> Self {
        Self { cache: 0, cache_local: false, cache_disk: None, host: HostMemory::read }
    }
}
