//! Replies: bytes from the socket into the pager's buffers, checksums, versions.

use super::super::wire::{Credits, RemoteStat, Reply, State, WireFault, HEAD, MOST_TOLD, NO_SEQ};
use super::ask::{Ask, Then, What};
use super::files::{version_of, Opened, OpenedFile};
use super::link::{error_of, Pending, ServerLink, Waiting};
use super::stream::{IoParts, Sealed, Stream};
use pager::place::FileRef;
use pager::source::{Completion, Read, ReadStep};
use pager::PageErrorKind;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Bytes received ahead: the next head with a part of what follows it.
const STAGING: usize = 4096;
/// IoParts of one receiving call.
const MOST_PARTS: usize = 64;
/// Memory for a body grows by so many bytes at a time, whatever its head claims.
const STEP: usize = 256 << 10;
/// Versions that may overtake one read.
const MOST_CHANGES: u32 = 3;

/// The reason why a connection ended.
#[derive(Clone, Debug)]
pub(super) enum LinkError {
    /// It was lost, or could not be made.
    Lost(String),
    /// Nothing came for too long.
    Slow(String),
    /// The server refuses this client, or the client this server. Trying again would not help.
    Refused(PageErrorKind),
    /// What came was wrong.
    Fault(String),
}

impl LinkError {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Lost(text) | Self::Slow(text) | Self::Fault(text) => text.clone(),
            Self::Refused(kind) => kind.to_string(),
        }
    }
}

impl From<io::Error> for LinkError {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::UnexpectedEof => Self::Lost("it closed the connection".into()),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Slow("it did not answer in time".into()),
            io::ErrorKind::InvalidData => Self::Fault(e.to_string()),
            _ => Self::Lost(e.to_string()),
        }
    }
}

impl From<WireFault> for LinkError {
    fn from(fault: WireFault) -> Self {
        Self::Fault(fault.0)
    }
}

/// Reads that are completed together at most, while further replies are there.
const MOST_ENDED: usize = 8;

/// A read that ended, to be completed.
pub(super) struct EndedRead {
    pub(super) done: Arc<dyn Completion>,
    pub(super) token: u64,
    pub(super) result: Result<(), PageErrorKind>,
}

/// Completes reads, together those of one receiver.
pub(super) fn complete(ended: Vec<EndedRead>) {
    let mut ended = ended.into_iter().peekable();
    while let Some(EndedRead { done, token, result }) = ended.next() {
        let mut all = vec![(token, result)];
        while let Some(next) = ended.next_if(|next| std::ptr::addr_eq(Arc::as_ptr(&next.done), Arc::as_ptr(&done))) {
            all.push((next.token, next.result));
        }
        done.complete_all(all);
    }
}

/// What is left of an answered ask.
pub(super) enum Finish {
    /// A read to complete.
    Read(EndedRead),
    /// The answer to a question.
    Told(Then, Result<Vec<u8>, PageErrorKind>),
}

impl Finish {
    fn failed(ask: Ask, kind: PageErrorKind) -> Self {
        match ask.what {
            What::Read { read, done, .. } => Self::Read(EndedRead { done, token: read.token, result: Err(kind) }),
            What::Told { then, .. } => Self::Told(then, Err(kind)),
        }
    }
}

/// The end of an ask, or its next attempt.
pub(super) enum ReplyOutcome {
    /// It is answered. Bytes, time since it was sent, time at the server.
    Done(Finish, u64, std::time::Instant, Duration),
    /// A withdrawn read of so many bytes is answered.
    Withdrawn(u64),
    /// It must be asked again, here.
    Again(Ask),
    /// Its reply was wrong.
    Wrong(Ask, LinkError),
}

/// Receives on one connection.
pub(super) struct Receiver<'a> {
    stream: &'a Stream,
    link: &'a ServerLink,
    server: &'a str,
    sealed: Sealed,
    staging: Box<[u8]>,
    begin: usize,
    end: usize,
    calls: IoParts,
    /// Reads that ended. They are completed before a wait for further bytes.
    ended: Vec<EndedRead>,
}

fn part(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn skip(part: &mut libc::iovec, n: usize) {
    part.iov_base = part.iov_base.wrapping_byte_add(n);
    part.iov_len -= n;
}

impl<'a> Receiver<'a> {
    pub(super) fn new(stream: &'a Stream, link: &'a ServerLink, server: &'a str) -> Self {
        let staging = vec![0; STAGING].into();
        let (calls, ended) = (IoParts::new(), Vec::new());
        Self { stream, link, server, sealed: Sealed::default(), staging, begin: 0, end: 0, calls, ended }
    }

    /// A read ended. It is completed with those that follow at once.
    pub(super) fn end_read(&mut self, read: EndedRead) {
        self.ended.push(read);
        if self.ended.len() >= MOST_ENDED {
            self.complete();
        }
    }

    /// Completes the reads that ended.
    pub(super) fn complete(&mut self) {
        if !self.ended.is_empty() {
            complete(std::mem::take(&mut self.ended));
        }
    }

    /// Receives into `calls`. Completes what ended before it waits.
    fn receive(&mut self) -> io::Result<usize> {
        if !self.ended.is_empty() {
            match self.stream.receive(&mut self.sealed, &mut self.calls, false) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.complete(),
                other => return other,
            }
        }
        self.stream.receive(&mut self.sealed, &mut self.calls, true)
    }

    /// Fills all parts.
    fn fill(&mut self, parts: &mut [libc::iovec]) -> io::Result<()> {
        let mut at = 0;
        while let Some(first) = parts.get_mut(at) {
            if first.iov_len == 0 {
                at += 1;
                continue;
            }
            if self.begin < self.end {
                let n = first.iov_len.min(self.end - self.begin);
                let from = self.staging[self.begin..].as_ptr();
                // SAFETY: the part has at least `n` bytes that belong to this thread, apart from the staging.
                unsafe { std::ptr::copy_nonoverlapping(from, first.iov_base.cast::<u8>(), n) };
                skip(first, n);
                self.begin += n;
                continue;
            }
            self.calls.clear();
            self.calls.extend(parts[at..].iter().take(MOST_PARTS));
            self.calls.push(part(&mut self.staging));
            let mut n = self.receive()?;
            self.link.hear();
            for part in parts[at..].iter_mut().take(MOST_PARTS) {
                let of_part = n.min(part.iov_len);
                skip(part, of_part);
                n -= of_part;
            }
            (self.begin, self.end) = (0, n);
        }
        Ok(())
    }

    /// The next head.
    pub(super) fn head(&mut self) -> Result<[u8; HEAD], LinkError> {
        let mut head = [0; HEAD];
        self.fill(&mut [part(&mut head)])?;
        Ok(head)
    }

    /// The body of a reply, checked.
    pub(super) fn body(&mut self, head: &[u8; HEAD], reply: &Reply, seed: u32) -> Result<Vec<u8>, LinkError> {
        let len = reply.len as usize;
        if len > MOST_TOLD {
            return Err(LinkError::Fault(format!("a reply claims {len} bytes")));
        }
        let mut body = Vec::new();
        while body.len() < len {
            let at = body.len();
            body.resize(len.min(at + STEP), 0);
            self.fill(&mut [part(&mut body[at..])])?;
        }
        if Reply::checksum(seed, head, [&body[..]]) != reply.crc {
            return Err(LinkError::Fault("the checksum of a reply is wrong".into()));
        }
        Ok(body)
    }

    /// Takes the next reply. `None`: it was no answer to an ask.
    pub(super) fn reply(&mut self) -> Result<Option<ReplyOutcome>, LinkError> {
        let head = self.head()?;
        let reply = Reply::parse(&head)?;
        if reply.seq == NO_SEQ {
            let body = self.body(&head, &reply, 0)?;
            match reply.state {
                State::Granted => self.link.set_credits(&Credits::parse(&body)?),
                State::Ending => self.link.up.store(false, std::sync::atomic::Ordering::Relaxed),
                _ => return Err(self.refusal(reply.state, &body)),
            }
            return Ok(None);
        }
        let Some(Pending { waiting, seed, sent }) = self.link.take(reply.seq) else {
            // The server ends a connection that broke the protocol by a reply to none of its requests.
            let body = self.body(&head, &reply, 0).ok();
            let told = body.map(|body| self.refusal(reply.state, &body));
            return Err(told.unwrap_or(LinkError::Fault("it answered what was not asked".into())));
        };
        match waiting {
            Waiting::Nothing => self.body(&head, &reply, seed).map(|_| None),
            Waiting::Withdrawn(bytes, number) => {
                self.skip(&reply, bytes)?;
                self.link.read_done(number, reply.state == State::Changed);
                Ok(Some(ReplyOutcome::Withdrawn(bytes)))
            }
            Waiting::Open(number) => {
                let body = self.body(&head, &reply, seed)?;
                let result = match reply.state {
                    State::Ok => Ok(OpenedFile::new(&RemoteStat::parse(&body)?)),
                    State::Unauthorized => return Err(self.refusal(reply.state, &body)),
                    state => Err(error_of(state, self.server, &body)),
                };
                self.link.opened(number, result);
                Ok(None)
            }
            Waiting::Ask(ask, number) => {
                let elsewhere = reply.queued + reply.served;
                let micros = |time: Duration| time.as_micros() as u64;
                let (queue_us, service_us) = (micros(reply.queued), micros(reply.served));
                ask.note(self.server, self.link.id, ReadStep::FirstByte { queue_us, service_us });
                let outcome = self.answer(&head, &reply, seed, ask, number);
                Ok(Some(match outcome {
                    Ok((done, bytes)) => ReplyOutcome::Done(done, bytes, sent, elsewhere),
                    Err(other) => *other,
                }))
            }
        }
    }

    /// Drops the body of the reply to a withdrawn read of so many bytes.
    fn skip(&mut self, reply: &Reply, bytes: u64) -> Result<(), LinkError> {
        let mut left = reply.len as usize;
        if left as u64 > bytes.max(MOST_TOLD as u64) {
            return Err(LinkError::Fault(format!("a reply claims {left} bytes")));
        }
        let mut sink = vec![0; left.min(STEP)];
        while left > 0 {
            let n = left.min(sink.len());
            self.fill(&mut [part(&mut sink[..n])])?;
            left -= n;
        }
        Ok(())
    }

    /// What a refusal of the whole connection means.
    fn refusal(&self, state: State, message: &[u8]) -> LinkError {
        match state {
            State::Unauthorized => LinkError::Refused(error_of(state, self.server, message)),
            // What was sent was right, so it changed on its way.
            State::BadRequest => LinkError::Fault(error_of(state, self.server, message).to_string()),
            _ => LinkError::Lost(format!("it answered {state:?}: {}", String::from_utf8_lossy(message))),
        }
    }

    /// Answers an ask: its callback and its bytes.
    fn answer(
        &mut self,
        head: &[u8; HEAD],
        reply: &Reply,
        seed: u32,
        ask: Ask,
        number: Option<u32>,
    ) -> Result<(Finish, u64), Box<ReplyOutcome>> {
        let bytes = ask.bytes;
        let with_bytes = matches!(reply.state, State::Ok | State::Short);
        if let (What::Read { file, read, .. }, true) = (&ask.what, with_bytes) {
            let result = self.read(head, reply, seed, file, read, ask.skips_holes(), number);
            // The number may stand for a file that lies elsewhere now: only what is opened anew has changed.
            let is_old = matches!(result, Ok(Err(PageErrorKind::Changed { .. })));
            if is_old && ask.changes == 0 {
                self.link.forget(number);
                return Err(Box::new(ReplyOutcome::Again(Ask { changes: 1, ..ask })));
            }
            return match (result, ask.what) {
                (Ok(result), What::Read { read, done, .. }) => {
                    Ok((Finish::Read(EndedRead { done, token: read.token, result }), bytes))
                }
                (Err(error), what) => Err(Box::new(ReplyOutcome::Wrong(Ask { what, ..ask }, error))),
                (Ok(_), What::Told { .. }) => unreachable!("only reads have buffers"),
            };
        }
        let body = match self.body(head, reply, seed) {
            Ok(body) => body,
            Err(error) => return Err(Box::new(ReplyOutcome::Wrong(ask, error))),
        };
        let opened = self.link.read_done(number, reply.state == State::Changed);
        let kind = match (reply.state, &ask.what) {
            (State::Ok, What::Told { file: Some(file), .. }) => match self.of_version(file, reply, opened) {
                Ok(Ok(())) => {
                    let What::Told { then, .. } = ask.what else { unreachable!("matched above") };
                    return Ok((Finish::Told(then, Ok(body)), bytes));
                }
                Ok(Err(kind)) => kind,
                Err(error) => return Err(Box::new(ReplyOutcome::Wrong(ask, error))),
            },
            (State::Ok, What::Told { .. }) => {
                let What::Told { then, .. } = ask.what else { unreachable!("matched above") };
                return Ok((Finish::Told(then, Ok(body)), bytes));
            }
            (State::Changed, _) => match (RemoteStat::parse(&body), ask.file()) {
                (Err(fault), _) => return Err(Box::new(ReplyOutcome::Wrong(ask, fault.into()))),
                (Ok(_), None) => error_of(reply.state, self.server, &body),
                // Without a version to keep, the new one is as good.
                (Ok(now), Some(file)) => match file.pin.check(&version_of(&now)) {
                    Ok(()) if ask.changes < MOST_CHANGES => {
                        return Err(Box::new(ReplyOutcome::Again(Ask { changes: ask.changes + 1, ..ask })));
                    }
                    Ok(()) => PageErrorKind::Changed {
                        was: "several versions while it was read".into(),
                        is: version_of(&now).to_string(),
                    },
                    Err(kind) => kind,
                },
            },
            (State::NotOpen, _) => match opened {
                Some(Err(kind)) => kind,
                _ => error_of(reply.state, self.server, &body),
            },
            (State::Busy, _) => return Err(Box::new(ReplyOutcome::Wrong(ask, self.refusal(reply.state, &body)))),
            (state, _) => error_of(state, self.server, &body),
        };
        Ok((Finish::failed(ask, kind), bytes))
    }

    /// Receives the bytes of a read. The inner result is that of the read.
    #[allow(clippy::too_many_arguments, reason = "a reply, and what it answers")]
    fn read(
        &mut self,
        head: &[u8; HEAD],
        reply: &Reply,
        seed: u32,
        file: &FileRef,
        read: &Read,
        skips_holes: bool,
        number: Option<u32>,
    ) -> Result<Result<(), PageErrorKind>, LinkError> {
        let holes = read.buffers.iter().filter(|b| b.is_hole() && !skips_holes).map(|b| b.len).sum();
        let mut sink: Vec<u8> = vec![0; holes];
        let mut in_sink = 0;
        let mut parts = IoParts::with_capacity(read.buffers.len());
        for buffer in &read.buffers {
            let base = match (buffer.is_hole(), skips_holes) {
                (false, _) => buffer.ptr.cast(),
                (true, true) => continue,
                (true, false) => {
                    in_sink += buffer.len;
                    sink[in_sink - buffer.len..].as_mut_ptr().cast()
                }
            };
            parts.push(libc::iovec { iov_base: base, iov_len: buffer.len });
        }
        let wanted: usize = parts.iter().map(|part| part.iov_len).sum();
        let len = reply.len as usize;
        let fits = if reply.state == State::Ok { len == wanted } else { len < wanted };
        if !fits {
            return Err(LinkError::Fault(format!("it sent {len} bytes for {wanted}")));
        }
        let mut left = len;
        for part in &mut parts {
            part.iov_len = part.iov_len.min(left);
            left -= part.iov_len;
        }
        let mut free = parts.clone();
        self.fill(&mut free)?;
        let slices = parts.iter().filter(|part| part.iov_len > 0).map(|part| {
            // SAFETY: the part is filled, and belongs to this read until it is completed.
            unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) }
        });
        if Reply::checksum(seed, head, slices) != reply.crc {
            return Err(LinkError::Fault("the checksum of a reply is wrong".into()));
        }
        let opened = self.link.read_done(number, false);
        let size = opened.as_ref().and_then(|opened| opened.as_ref().ok()).map_or(0, |opened| opened.version.size);
        Ok(self.of_version(file, reply, opened)?.and_then(|()| match reply.state {
            State::Ok => Ok(()),
            _ => {
                let end = read.offset.saturating_add(read.len() as u64);
                Err(PageErrorKind::Short { offset: read.offset, end, have: file.base.saturating_add(size) })
            }
        }))
    }

    /// Checks the version of bytes that came. The inner result is that of the pin.
    fn of_version(
        &self,
        file: &FileRef,
        reply: &Reply,
        opened: Opened,
    ) -> Result<Result<(), PageErrorKind>, LinkError> {
        let Some(Ok(opened)) = opened else {
            return Err(LinkError::Fault("it sent bytes of a file that is not open".into()));
        };
        if opened.digest != reply.version {
            return Err(LinkError::Fault("it sent bytes of another version than it opened".into()));
        }
        Ok(file.pin.check(&opened.version))
    }
}
