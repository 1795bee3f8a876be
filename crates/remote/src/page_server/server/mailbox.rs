//! Letters from other threads to an event loop.

use super::answer::{Answer, Reading};
use super::origin::Fetched;
use super::schedule::QueuedRequest;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A reply that a reader made.
pub(super) struct Answered {
    pub(super) line: u64,
    pub(super) job: QueuedRequest,
    pub(super) begun: Instant,
    pub(super) answer: Answer,
    /// Bytes that were reserved for it.
    pub(super) charged: usize,
}

/// A read whose bytes came from an origin, or did not.
pub(super) struct OriginLetter {
    pub(super) line: u64,
    pub(super) job: QueuedRequest,
    pub(super) begun: Instant,
    pub(super) reading: Reading,
    pub(super) fetched: Fetched,
    /// Bytes that were reserved for it.
    pub(super) charged: usize,
}

/// One letter.
pub(super) enum Post {
    /// A connection to serve.
    Accepted(TcpStream, IpAddr),
    /// A reply to send.
    Answered(Box<Answered>),
    /// What a read waited for came from an origin, or did not.
    FromOrigin(Box<OriginLetter>),
    /// The server ends.
    Stop,
}

/// The letters of one event loop, and the descriptor that wakes it.
pub(super) struct Mailbox {
    bell: OwnedFd,
    letters: Mutex<Vec<Post>>,
}

impl Mailbox {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call gave this descriptor to the caller alone.
        Ok(Self { bell: unsafe { OwnedFd::from_raw_fd(fd) }, letters: Mutex::default() })
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    pub(super) fn post(&self, letter: Post) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.push(letter);
        if letters.len() == 1 {
            let one = 1u64;
            // SAFETY: the descriptor is open, and the integer has the 8 bytes that are read.
            unsafe { libc::write(self.descriptor(), (&raw const one).cast(), 8) };
        }
    }

    pub(super) fn take(&self) -> Vec<Post> {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0u64;
        // SAFETY: the descriptor is open, and the integer has the 8 bytes that are written.
        unsafe { libc::read(self.descriptor(), (&raw mut count).cast(), 8) };
        std::mem::take(&mut *letters)
    }
}
