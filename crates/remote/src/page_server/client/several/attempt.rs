//! A read and its attempts at servers, and the steps that follow an event.

use super::copies::SpreadFile;
use pager::place::FileRef;
use pager::source::{Buffer, Completion, Read, ReadClass, ReadStep};
use pager::PageErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What completes the reads of each server.
pub(super) type Dones = Arc<[Arc<dyn Completion>]>;

/// A step to take.
pub(super) enum Effect {
    /// A read ends.
    Complete { done: Arc<dyn Completion>, token: u64, result: Result<(), PageErrorKind> },
    /// A read ends with the bytes of its hedge.
    Copy { done: Arc<dyn Completion>, token: u64, memory: Vec<u8>, buffers: Vec<Buffer> },
    /// A server is asked.
    Submit { server: usize, done: Arc<dyn Completion>, file: FileRef, read: Read },
    /// A server need not answer.
    Withdraw { server: usize, done: Arc<dyn Completion>, token: u64 },
    /// A task waits for what a server was asked.
    Promote { server: usize, done: Arc<dyn Completion>, token: u64 },
    /// Something happens to a read.
    Note { done: Arc<dyn Completion>, token: u64, server: usize, step: ReadStep },
    /// A server is asked if it is back.
    Probe { server: usize },
}

/// A read at a server.
pub(super) struct Attempt {
    pub(super) server: usize,
    pub(super) since: Instant,
    pub(super) withdrawn: Option<Instant>,
}

impl Attempt {
    pub(super) fn new(server: usize, since: Instant) -> Self {
        Self { server, since, withdrawn: None }
    }
}

/// The same read at another server, into memory of its own: that of the read has one writer at a time.
pub(super) struct Hedge {
    pub(super) attempt: Attempt,
    pub(super) memory: Vec<u8>,
    pub(super) arrived: bool,
}

pub(super) struct SpreadRead {
    pub(super) token: u64,
    pub(super) done: Arc<dyn Completion>,
    pub(super) dones: Dones,
    pub(super) file: Arc<SpreadFile>,
    pub(super) path: Arc<Path>,
    pub(super) base: u64,
    pub(super) offset: u64,
    pub(super) buffers: Vec<Buffer>,
    pub(super) class: ReadClass,
    /// When a task began to wait for it.
    pub(super) clock: Instant,
    /// The attempt that writes to the read's own buffers.
    pub(super) primary: Option<Attempt>,
    pub(super) hedge: Option<Hedge>,
    pub(super) promoted: bool,
    /// Servers that failed it, by bit, and the last failure.
    pub(super) failed: u64,
    pub(super) last: Option<PageErrorKind>,
    /// Times that it went from a server that stood still to another.
    pub(super) moves: u32,
    /// Whether nobody waits for it any more.
    pub(super) withdrawn: bool,
    /// Since when no server with a copy can be used.
    pub(super) trouble: Option<Instant>,
}

impl SpreadRead {
    pub(super) fn len(&self) -> usize {
        self.buffers.iter().map(|buffer| buffer.len).sum()
    }
}

/// A hedge whose read has ended, until its server has ended it, too.
pub(super) struct Orphan {
    pub(super) attempt: Attempt,
    pub(super) done: Arc<dyn Completion>,
    pub(super) memory: Vec<u8>,
}
