//! The state of a name and the first bytes of the file in one round trip: opening asks for both.

use super::address::Name;
use super::fault::AttemptFault;
use super::line::{buffer_of_reply, Attempts, LineJob, ServerLine};
use super::look::{look_once, may_be_folder, state_of_folder};
use super::origin::{Ask, AskedPart, Patience};
use super::read::Target;
use super::reply;
use super::status;
use futures_util::future::BoxFuture;
use pager::error::PageErrorKind;
use pager::place::{BeginRead, FileKind, FileStat, FileVersion};
use reqwest::{Response, StatusCode};

/// A file to begin with.
pub(super) struct BeginJob {
    target: Target,
    len: u64,
    then: Option<BeginRead>,
}

impl BeginJob {
    pub(super) fn new(target: Target, len: usize, then: BeginRead) -> Self {
        Self { target, len: len as u64, then: Some(then) }
    }

    async fn answer(mut self, line: &ServerLine) {
        let begun = begin(line, &self.target, self.len).await;
        if let Some(then) = self.then.take() {
            then(begun);
        }
    }
}

impl LineJob for BeginJob {
    fn run(self: Box<Self>, line: &ServerLine) -> BoxFuture<'_, ()> {
        Box::pin(self.answer(line))
    }

    fn buffer_bytes(&self) -> u64 {
        buffer_of_reply(self.len)
    }
}

impl Drop for BeginJob {
    fn drop(&mut self) {
        if let Some(then) = self.then.take() {
            then(Err(PageErrorKind::Exhausted("the network thread could not do it".into())));
        }
    }
}

async fn begin(line: &ServerLine, target: &Target, len: u64) -> Result<(FileStat, Vec<u8>), PageErrorKind> {
    let mut attempts = Attempts::new(line);
    loop {
        match ask(line, target, len, attempts.patience(line)).await {
            Ok((stat, bytes)) => {
                if stat.kind == FileKind::File {
                    target.pin.check(&stat.version)?;
                }
                return Ok((stat, bytes));
            }
            Err(fault) => attempts.again(line, fault, false).await?,
        }
    }
}

/// Asks for the first bytes, by one attempt. What is no plain reply to that is asked for by the name's state.
async fn ask(
    line: &ServerLine,
    target: &Target,
    len: u64,
    patience: Patience,
) -> Result<(FileStat, Vec<u8>), AttemptFault> {
    let name = &target.name;
    if name.is_folder() {
        return by_state(line, name, patience).await;
    }
    let begun = line.meter.begin();
    let reply = line.send(Ask { name, part: AskedPart::Bytes(0, len), condition: None, patience }).await?;
    if status::leads_to_folder(name, &reply) {
        status::drain(reply).await;
        return by_state(line, name, patience).await;
    }
    let headers = reply.headers();
    let (length, size) = match reply.status() {
        StatusCode::PARTIAL_CONTENT => {
            let told = reply::range(headers);
            let Some((_, end, size)) = told.filter(|(from, to, size)| *from == 0 && *to == len.min(*size)) else {
                let message = format!("it was asked for bytes 0-{} and gave {}", len - 1, reply::range_text(headers));
                return Err(PageErrorKind::Protocol { server: line.server.clone(), message }.into());
            };
            (end, size)
        }
        // The whole file in place of its first bytes. Nothing is taken of a longer one.
        StatusCode::OK => match reply::length(headers) {
            Some(size) if size <= len => (size, size),
            Some(size) => return Ok((stat(&reply, size), Vec::new())),
            None => return by_state(line, name, patience).await,
        },
        StatusCode::NOT_FOUND if may_be_folder(name.last()) => {
            return match status::fault(line, reply).await {
                AttemptFault::Final(PageErrorKind::Missing) => state_of_folder(line, name, patience).await,
                fault => Err(fault),
            }
            .map(|stat| (stat, Vec::new()));
        }
        StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::NOT_IMPLEMENTED => {
            status::drain(reply).await;
            return by_state(line, name, patience).await;
        }
        _ => return Err(status::fault(line, reply).await),
    };
    let found = stat(&reply, size);
    let mut bytes = Vec::with_capacity(length as usize);
    status::body(line, reply, length, |part| bytes.extend_from_slice(part)).await?;
    line.meter.ended(begun, bytes.len());
    Ok((found, bytes))
}

fn stat(reply: &Response, size: u64) -> FileStat {
    let headers = reply.headers();
    let version: FileVersion = reply::version(headers, size);
    FileStat { kind: FileKind::File, version, modified_ns: reply::modified_ns(headers) }
}

async fn by_state(line: &ServerLine, name: &Name, patience: Patience) -> Result<(FileStat, Vec<u8>), AttemptFault> {
    Ok((look_once(line, name, patience).await?, Vec::new()))
}
