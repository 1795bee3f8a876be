//! One read or question, from its submission until it is answered.

use super::super::wire::{write_ranges, Op, Range, Request, Urgency, MOST_NAME, MOST_REQUEST_BODY};
use super::address::name_of;
use pager::place::FileRef;
use pager::source::{Buffer, Completion, Read, ReadClass, ReadNote, ReadStep};
use pager::PageErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Bytes of a range in the body of READV.
const RANGE_BYTES: usize = 12;
/// The longest request. Longer reads are parts that go at the same time.
const MOST_PART: usize = 4 << 20;

/// Receives the bytes of an answer.
pub(super) type Then = Box<dyn FnOnce(Result<Vec<u8>, PageErrorKind>) + Send>;

/// Its subject.
pub(super) enum What {
    /// Bytes of a file, into the pager's buffers. `whole`: the longer read, if this is a part of one.
    Read { file: FileRef, read: Read, done: Arc<dyn Completion>, whole: Option<WholeRead> },
    /// Anything else.
    Told { request: Request, body: Vec<u8>, file: Option<FileRef>, then: Then },
}

/// The token of a read, and what receives its completion.
pub(super) type WholeRead = (u64, Arc<dyn Completion>);

/// See the module.
pub(super) struct Ask {
    pub(super) what: What,
    /// Bytes that it counts.
    pub(super) bytes: u64,
    pub(super) begun: Instant,
    /// Times that it went out.
    pub(super) tries: u32,
    /// Replies whose checksum was wrong.
    pub(super) faults: u32,
    /// Versions that were overtaken.
    pub(super) changes: u32,
    /// The first loss of its connection.
    pub(super) failed: Option<Instant>,
    /// The connection that it must not take again, if there is another.
    pub(super) not_on: u64,
}

impl Ask {
    fn new(what: What, bytes: u64) -> Self {
        Self { what, bytes, begun: Instant::now(), tries: 0, faults: 0, changes: 0, failed: None, not_on: 0 }
    }

    /// The asks for a read, which has bytes.
    pub(super) fn reads(file: &FileRef, read: Read, done: &Arc<dyn Completion>) -> Vec<Self> {
        let ask = |read: Read, done: &Arc<dyn Completion>, whole: Option<WholeRead>| {
            let bytes = read.len() as u64;
            Self::new(What::Read { file: file.clone(), read, done: done.clone(), whole }, bytes)
        };
        if read.len() <= MOST_PART {
            return vec![ask(read, done, None)];
        }
        let token = read.token;
        let parts = parts(&read);
        let all: Arc<dyn Completion> = Arc::new(PartsOfRead {
            token,
            whole: (read.offset, read.offset.saturating_add(read.len() as u64)),
            state: Mutex::new((parts.len(), Ok(()))),
            done: done.clone(),
        });
        parts.into_iter().map(|part| ask(part, &all, Some((token, done.clone())))).collect()
    }

    /// The read that the pager knows.
    pub(super) fn whole(&self) -> Option<(u64, &Arc<dyn Completion>)> {
        match &self.what {
            What::Read { whole: Some((token, done)), .. } => Some((*token, done)),
            What::Read { read, done, whole: None, .. } => Some((read.token, done)),
            What::Told { .. } => None,
        }
    }

    /// Whether it belongs to one of these reads.
    pub(super) fn is_of(&self, tokens: &[u64], done: &Arc<dyn Completion>) -> bool {
        self.whole().is_some_and(|(token, own)| {
            std::ptr::addr_eq(Arc::as_ptr(own), Arc::as_ptr(done)) && tokens.contains(&token)
        })
    }

    /// Tells what happens to it.
    pub(super) fn note(&self, server: &str, connection: u64, step: ReadStep) {
        if let Some((token, done)) = self.whole() {
            done.note(token, ReadNote { server, connection: connection as u32, step });
        }
    }

    /// A task waits for it from now on. Whether none did before.
    pub(super) fn promote(&mut self) -> bool {
        match &mut self.what {
            What::Read { read, .. } if read.class == ReadClass::Prefetch => {
                read.class = ReadClass::Demand;
                true
            }
            _ => false,
        }
    }

    /// A question. `file`: the one whose number belongs into the request.
    pub(super) fn told(request: Request, body: Vec<u8>, file: Option<FileRef>, then: Then) -> Self {
        let bytes = u64::from(request.len) + body.len() as u64;
        Self::new(What::Told { request, body, file, then }, bytes)
    }

    /// Whether a task waits for it.
    pub(super) fn urgency(&self) -> Urgency {
        match &self.what {
            What::Read { read, .. } if read.class == ReadClass::Prefetch => Urgency::Prefetch,
            _ => Urgency::Demand,
        }
    }

    /// Its file.
    pub(super) fn file(&self) -> Option<&FileRef> {
        match &self.what {
            What::Read { file, .. } => Some(file),
            What::Told { file, .. } => file.as_ref(),
        }
    }

    /// The served name of its file.
    pub(super) fn name(&self) -> Option<&str> {
        let file = self.file();
        // One that is too long for the protocol is an empty one, which is refused as it would be.
        file.map(|file| name_of(file.path.to_str().unwrap_or_default())).map(|name| {
            if name.len() > MOST_NAME {
                ""
            } else {
                name
            }
        })
    }

    /// The request and its body.
    pub(super) fn request(&self, seq: u32, number: u32) -> (Request, Vec<u8>) {
        match &self.what {
            What::Told { request, body, file, .. } => {
                let number = if file.is_some() { number } else { request.file };
                (Request { seq, file: number, body: body.len() as u32, ..*request }, body.clone())
            }
            What::Read { file, read, .. } => {
                let mut request = Request::new(Op::Read, seq);
                (request.file, request.urgency) = (number, self.urgency());
                request.offset = read.offset.saturating_sub(file.base);
                request.len = read.len() as u32;
                let mut body = Vec::new();
                if self.skips_holes() {
                    request.op = Op::ReadV;
                    write_ranges(&mut body, pieces(request.offset, &read.buffers));
                    request.len = read.buffers.iter().filter(|b| !b.is_hole()).map(|b| b.len as u32).sum();
                    request.body = body.len() as u32;
                }
                (request, body)
            }
        }
    }

    /// Whether its holes do not cross the wire.
    pub(super) fn skips_holes(&self) -> bool {
        let What::Read { read, .. } = &self.what else { return false };
        read.buffers.iter().any(Buffer::is_hole) && read.buffers.len() * RANGE_BYTES <= MOST_REQUEST_BODY
    }

    /// Ends it with an error.
    pub(super) fn fail(self, kind: PageErrorKind) {
        match self.what {
            What::Read { read, done, .. } => done.complete(read.token, Err(kind)),
            What::Told { then, .. } => then(Err(kind)),
        }
    }
}

/// The pieces between holes.
fn pieces(mut offset: u64, buffers: &[Buffer]) -> Vec<Range> {
    let mut out: Vec<Range> = Vec::new();
    for buffer in buffers {
        let len = buffer.len as u32;
        if !buffer.is_hole() && len > 0 {
            match out.last_mut().filter(|last| last.offset + u64::from(last.len) == offset) {
                Some(last) => last.len += len,
                None => out.push(Range { offset, len }),
            }
        }
        offset = offset.saturating_add(buffer.len as u64);
    }
    out
}

/// A long read in parts.
fn parts(read: &Read) -> Vec<Read> {
    let mut out: Vec<Read> = Vec::new();
    let (mut offset, mut room) = (read.offset, 0);
    for buffer in &read.buffers {
        let mut rest = *buffer;
        while rest.len > 0 {
            if room == 0 {
                out.push(Read { token: out.len() as u64, offset, buffers: Vec::new(), class: read.class });
                room = MOST_PART;
            }
            let len = rest.len.min(room);
            if let Some(part) = out.last_mut() {
                part.buffers.push(Buffer { ptr: rest.ptr, len });
            }
            // A hole stays one: its pointer is null.
            let ptr = if rest.is_hole() { rest.ptr } else { rest.ptr.wrapping_add(len) };
            rest = Buffer { ptr, len: rest.len - len };
            (offset, room) = (offset.saturating_add(len as u64), room - len);
        }
    }
    out
}

/// Completes a long read once all its parts are.
struct PartsOfRead {
    token: u64,
    whole: (u64, u64),
    state: Mutex<(usize, Result<(), PageErrorKind>)>,
    done: Arc<dyn Completion>,
}

impl Completion for PartsOfRead {
    fn complete(&self, _: u64, result: Result<(), PageErrorKind>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 -= 1;
        if let Err(kind) = result {
            let kind = match kind {
                PageErrorKind::Short { have, .. } => {
                    PageErrorKind::Short { offset: self.whole.0, end: self.whole.1, have }
                }
                other => other,
            };
            // An end within the read says less than any other error.
            if matches!(state.1, Ok(()) | Err(PageErrorKind::Short { .. })) {
                state.1 = Err(kind);
            }
        }
        let whole = (state.0 == 0).then(|| std::mem::replace(&mut state.1, Ok(())));
        drop(state);
        if let Some(result) = whole {
            self.done.complete(self.token, result);
        }
    }
}
