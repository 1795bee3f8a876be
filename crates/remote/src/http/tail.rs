//! The last bytes of a file in one round trip: the index of a shard stands there.

use super::fault::AttemptFault;
use super::line::{buffer_of_reply, Attempts, LineJob, ServerLine};
use super::origin::{Ask, AskedPart, Patience};
use super::read::{read_bytes, Target};
use super::reply;
use super::status;
use futures_util::future::BoxFuture;
use pager::error::PageErrorKind;
use pager::place::{FileVersion, TailRead};
use reqwest::{Response, StatusCode};

/// Last bytes to read.
pub(super) struct TailJob {
    target: Target,
    len: u64,
    then: Option<TailRead>,
}

impl TailJob {
    pub(super) fn new(target: Target, len: usize, then: TailRead) -> Self {
        Self { target, len: len as u64, then: Some(then) }
    }

    async fn answer(mut self, line: &ServerLine) {
        let read = read_tail(line, &self.target, self.len).await;
        if let Some(then) = self.then.take() {
            then(read);
        }
    }
}

impl LineJob for TailJob {
    fn run(self: Box<Self>, line: &ServerLine) -> BoxFuture<'_, ()> {
        Box::pin(self.answer(line))
    }

    fn buffer_bytes(&self) -> u64 {
        buffer_of_reply(self.len)
    }
}

impl Drop for TailJob {
    fn drop(&mut self) {
        if let Some(then) = self.then.take() {
            then(Err(PageErrorKind::Exhausted("the network thread could not do it".into())));
        }
    }
}

/// What a request for the last bytes gives.
enum TailReply {
    Bytes(FileVersion, Vec<u8>),
    /// The version alone, of a server that counts no ranges from the end. The bytes can be asked for by their numbers.
    Version(FileVersion),
}

async fn read_tail(line: &ServerLine, target: &Target, len: u64) -> Result<(FileVersion, Vec<u8>), PageErrorKind> {
    let version = match target.pin.expected() {
        Some(version) => version,
        None => {
            let mut attempts = Attempts::new(line);
            let told = loop {
                match ask(line, target, len, attempts.patience(line)).await {
                    Ok(told) => break told,
                    Err(fault) => attempts.again(line, fault, false).await?,
                }
            };
            match told {
                TailReply::Bytes(version, bytes) => return Ok((version, bytes)),
                TailReply::Version(version) => version,
            }
        }
    };
    let begin = version.size.saturating_sub(len);
    let bytes = read_bytes(line, target, begin, (version.size - begin) as usize).await?;
    Ok((version, bytes))
}

/// Asks for the last bytes, by one attempt.
async fn ask(line: &ServerLine, target: &Target, len: u64, patience: Patience) -> Result<TailReply, AttemptFault> {
    let part = AskedPart::Last(len);
    let begun = line.meter.begin();
    let reply = line.send(Ask { name: &target.name, part, condition: None, patience }).await?;
    let headers = reply.headers();
    let protocol = |message: String| PageErrorKind::Protocol { server: line.server.clone(), message };
    match reply.status() {
        StatusCode::PARTIAL_CONTENT => {
            let told = reply::range(headers);
            let last = |(begin, end, size): &(u64, u64, u64)| end == size && *begin == size.saturating_sub(len);
            let Some((begin, end, size)) = told.filter(last) else {
                let range = reply::range_text(headers);
                return Err(protocol(format!("it was asked for the last {len} bytes and gave {range}")).into());
            };
            if let Some(length) = reply::length(headers).filter(|length| *length != end - begin) {
                return Err(protocol(format!("its Content-Length is {length} for {} bytes", end - begin)).into());
            }
            let read = take(line, target, reply, size, end - begin).await;
            line.meter.ended(begun, read.as_ref().map_or(0, |_| (end - begin) as usize));
            read
        }
        // The whole of a short file has the last bytes. Nothing is taken of a longer one.
        StatusCode::OK => match reply::length(headers) {
            Some(size) if size <= len => take(line, target, reply, size, size).await,
            Some(size) => checked(target, reply::version(headers, size)),
            None => by_state(line, target, patience).await,
        },
        StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::NOT_IMPLEMENTED | StatusCode::BAD_REQUEST => {
            status::drain(reply).await;
            by_state(line, target, patience).await
        }
        _ => Err(status::fault(line, reply).await),
    }
}

fn checked(target: &Target, version: FileVersion) -> Result<TailReply, AttemptFault> {
    target.pin.check(&version)?;
    Ok(TailReply::Version(version))
}

async fn by_state(line: &ServerLine, target: &Target, patience: Patience) -> Result<TailReply, AttemptFault> {
    checked(target, status::stat(line, &target.name, patience).await?.version)
}

async fn take(
    line: &ServerLine,
    target: &Target,
    reply: Response,
    size: u64,
    length: u64,
) -> Result<TailReply, AttemptFault> {
    let version = reply::version(reply.headers(), size);
    target.pin.check(&version)?;
    let mut bytes = Vec::with_capacity(length as usize);
    status::body(line, reply, length, |part| bytes.extend_from_slice(part)).await?;
    Ok(TailReply::Bytes(version, bytes))
}
