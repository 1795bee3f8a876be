//! One read: requests until all of its bytes have come, each reply checked before it counts.

use super::address::Name;
use super::fault::AttemptFault;
use super::line::{buffer_of_reply, Attempts, LineJob, ServerLine};

use super::origin::{Ask, AskedPart, Patience};
use super::reply;
use super::status;
use futures_util::future::BoxFuture;
use pager::error::PageErrorKind;
use pager::place::VersionPin;
use pager::source::{Buffer, Completion, Read, ReadNote, ReadStep};
use reqwest::{Response, StatusCode};
use std::sync::Arc;

/// The file of a read.
pub(super) struct Target {
    pub name: Name,
    pub pin: Arc<dyn VersionPin>,
    /// What the reads count as the file's first byte.
    pub base: u64,
}

/// A completion that is owed. Dropped unpaid, it says so.
struct Owed(Option<(u64, Arc<dyn Completion>)>);

impl Owed {
    fn note(&self, line: &ServerLine, step: ReadStep) {
        if let Some((token, done)) = &self.0 {
            done.note(*token, ReadNote { server: &line.server, connection: 0, step });
        }
    }

    fn pay(&mut self, result: Result<(), PageErrorKind>) {
        if let Some((token, done)) = self.0.take() {
            done.complete(token, result);
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        self.pay(Err(PageErrorKind::Exhausted("the network thread could not do it".into())));
    }
}

/// A read to do.
pub(super) struct ReadJob {
    target: Arc<Target>,
    offset: u64,
    buffers: Vec<Buffer>,
    owed: Owed,
}

impl ReadJob {
    pub(super) fn new(target: Arc<Target>, read: Read, done: Arc<dyn Completion>) -> Self {
        Self { target, offset: read.offset, buffers: read.buffers, owed: Owed(Some((read.token, done))) }
    }

    async fn answer(self, line: &ServerLine) {
        let Self { target, offset, buffers, mut owed } = self;
        let len: u64 = buffers.iter().map(|b| b.len as u64).sum();
        let wanted = Wanted { line, target: &target, offset, end: offset.saturating_add(len) };
        let mut reading = RangeRead { wanted, owed: &owed, filled: 0, into: Scatter::new(buffers) };
        let result = if len == 0 { Ok(()) } else { reading.all().await };
        drop(reading);
        owed.pay(result);
    }
}

impl LineJob for ReadJob {
    fn run(self: Box<Self>, line: &ServerLine) -> BoxFuture<'_, ()> {
        Box::pin(self.answer(line))
    }

    fn buffer_bytes(&self) -> u64 {
        buffer_of_reply(self.buffers.iter().map(|b| b.len as u64).sum())
    }

    fn is_one_of(&self, tokens: &[u64], done: &Arc<dyn Completion>) -> bool {
        // Addresses alone: one completion can have several tables of functions.
        let same = |known: &Arc<dyn Completion>| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(done));
        self.owed.0.as_ref().is_some_and(|(token, known)| same(known) && tokens.contains(token))
    }

    fn withdraw(&mut self) {
        self.owed.pay(Err(PageErrorKind::Withdrawn));
    }
}

/// Fills buffers in their order.
struct Scatter {
    buffers: std::vec::IntoIter<Buffer>,
    now: Buffer,
}

impl Scatter {
    fn new(buffers: Vec<Buffer>) -> Self {
        Self { buffers: buffers.into_iter(), now: Buffer::hole(0) }
    }

    /// The caller gives no more bytes than the buffers have.
    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            while self.now.len == 0 {
                let Some(next) = self.buffers.next() else { return };
                self.now = next;
            }
            let n = self.now.len.min(bytes.len());
            if !self.now.is_hole() {
                // SAFETY: the buffer has `len >= n` bytes and belongs to this read until its completion.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.now.ptr, n) };
                self.now.ptr = self.now.ptr.wrapping_add(n);
            }
            self.now.len -= n;
            bytes = &bytes[n..];
        }
    }
}

/// Reads bytes of a file to new memory.
pub(super) async fn read_bytes(
    line: &ServerLine,
    target: &Target,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, PageErrorKind> {
    let mut bytes = vec![0; len];
    let into = Scatter::new(vec![Buffer { ptr: bytes.as_mut_ptr(), len }]);
    let wanted = Wanted { line, target, offset, end: offset.saturating_add(len as u64) };
    if len > 0 {
        // The memory outlives the read, which ends here.
        RangeRead { wanted, owed: &Owed(None), filled: 0, into }.all().await?;
    }
    Ok(bytes)
}

/// What is asked for. The count of the bytes is that of the reads.
#[derive(Copy, Clone)]
struct Wanted<'a> {
    line: &'a ServerLine,
    target: &'a Target,
    offset: u64,
    end: u64,
}

struct RangeRead<'a> {
    wanted: Wanted<'a>,
    owed: &'a Owed,
    /// Bytes that have come.
    filled: u64,
    into: Scatter,
}

impl RangeRead<'_> {
    async fn all(&mut self) -> Result<(), PageErrorKind> {
        let line = self.wanted.line;
        let mut attempts = Attempts::new(line);
        loop {
            let before = self.filled;
            match self.attempt(attempts.patience(line)).await {
                Ok(()) => return Ok(()),
                Err(fault) => attempts.again(line, fault, self.filled > before).await?,
            }
            self.owed.note(line, ReadStep::Retried);
        }
    }

    async fn attempt(&mut self, patience: Patience) -> Result<(), AttemptFault> {
        let Wanted { line, target, offset, end } = self.wanted;
        let range = ((offset + self.filled).saturating_sub(target.base), end.saturating_sub(target.base));
        let expected = target.pin.expected();
        let condition = expected.as_ref().and_then(reply::condition);
        let begun = line.meter.begin();
        self.owed.note(line, ReadStep::Sent);
        let reply = line
            .send(Ask { name: &target.name, part: AskedPart::Bytes(range.0, range.1), condition, patience })
            .await?;
        self.owed.note(line, ReadStep::FirstByte { queue_us: 0, service_us: 0 });
        let before = self.filled;
        let result = self.accept(reply, range, patience).await;
        line.meter.ended(begun, (self.filled - before) as usize);
        result
    }

    async fn accept(
        &mut self,
        reply: Response,
        (begin, end): (u64, u64),
        patience: Patience,
    ) -> Result<(), AttemptFault> {
        let wanted = self.wanted;
        let headers = reply.headers();
        let (to, size) = match reply.status() {
            StatusCode::PARTIAL_CONTENT => {
                let told = reply::range(headers);
                let Some((_, to, size)) = told.filter(|(from, to, size)| *from == begin && *to == end.min(*size))
                else {
                    let range = reply::range_text(headers);
                    return Err(wanted.protocol(format!("it was asked for bytes {begin}-{} and gave {range}", end - 1)));
                };
                if let Some(length) = reply::length(headers).filter(|length| *length != to - begin) {
                    return Err(wanted.protocol(format!("its Content-Length is {length} for {} bytes", to - begin)));
                }
                (to, size)
            }
            // The whole file in place of its first bytes. Where it is shorter than these, they are the same.
            StatusCode::OK => match reply::length(headers) {
                Some(size) if begin == 0 && size < end => (size, size),
                _ => {
                    let advice =
                        "it serves no ranges of bytes; put the data on a server that does, such as nginx or S3";
                    return Err(wanted.protocol(format!("it was asked for a part and gave the whole file: {advice}")));
                }
            },
            StatusCode::RANGE_NOT_SATISFIABLE => return Err(wanted.past_the_end(reply, begin, patience).await),
            StatusCode::PRECONDITION_FAILED => return Err(wanted.changed(patience).await),
            StatusCode::NOT_FOUND => return Err(wanted.gone(reply).await),
            _ => return Err(status::fault(wanted.line, reply).await),
        };
        wanted.target.pin.check(&reply::version(headers, size))?;
        let (into, filled) = (&mut self.into, &mut self.filled);
        let put = |bytes: &[u8]| {
            into.put(bytes);
            *filled += bytes.len() as u64;
        };
        status::body(wanted.line, reply, to - begin, put).await?;
        if to < end {
            return Err(wanted.short(size));
        }
        Ok(())
    }
}

impl Wanted<'_> {
    fn protocol(&self, message: impl Into<String>) -> AttemptFault {
        PageErrorKind::Protocol { server: self.line.server.clone(), message: message.into() }.into()
    }

    fn short(&self, size: u64) -> AttemptFault {
        PageErrorKind::Short { offset: self.offset, end: self.end, have: self.target.base.saturating_add(size) }.into()
    }

    /// The range begins past the end of the file.
    async fn past_the_end(&self, reply: Response, begin: u64, patience: Patience) -> AttemptFault {
        let told = reply::size_of_unsatisfied(reply.headers());
        let version = told.map(|size| reply::version(reply.headers(), size));
        let known = self.target.pin.expected();
        status::drain(reply).await;
        let same_size = |size| known.as_ref().is_some_and(|known| known.size == size);
        let version = match version {
            Some(version) if !version.tag.is_empty() || same_size(version.size) => version,
            _ => match status::stat(self.line, &self.target.name, patience).await {
                Ok(found) => found.version,
                Err(fault) => return fault,
            },
        };
        let is_known = version.tag.is_empty() && same_size(version.size);
        if !is_known {
            if let Err(kind) = self.target.pin.check(&version) {
                return kind.into();
            }
        }
        if begin < version.size {
            return self.protocol(format!("it has no bytes from {begin} on of a file of {}", version.size));
        }
        self.short(version.size)
    }

    /// The server says that the file has another ETag.
    async fn changed(&self, patience: Patience) -> AttemptFault {
        match status::stat(self.line, &self.target.name, patience).await {
            Ok(found) => match self.target.pin.check(&found.version) {
                Err(kind) => kind.into(),
                Ok(()) => self.protocol("it says that the file has another version, and that it has the same"),
            },
            Err(AttemptFault::Final(PageErrorKind::Missing)) => self.missing(),
            Err(fault) => fault,
        }
    }

    async fn gone(&self, reply: Response) -> AttemptFault {
        match status::fault(self.line, reply).await {
            AttemptFault::Final(PageErrorKind::Missing) => self.missing(),
            fault => fault,
        }
    }

    /// A file that was there is not missing: it changed, and nothing may stand in for it.
    fn missing(&self) -> AttemptFault {
        self.target.pin.missing().into()
    }
}
