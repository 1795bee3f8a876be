//! Files that are brought to a server.

use super::super::wire::{
    write_stage_begin, write_stage_commit, write_stage_put, Op, Request, StageProgress, StageRoom, StagedFile,
};
use super::address::ServerAddress;
use super::credentials::credentials_for;
use super::place::RemotePlace;
use pager::PageErrorKind;
use std::sync::mpsc;

/// The reason why a server did not take part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StagingRefusal {
    /// It has no room.
    Full(String),
    /// The file does not go on like this: it was removed, or bytes have changed on their way.
    Unfit(String),
    /// As for reads.
    Other(PageErrorKind),
}

impl From<PageErrorKind> for StagingRefusal {
    fn from(kind: PageErrorKind) -> Self {
        match kind {
            PageErrorKind::Exhausted(why) => Self::Full(why),
            PageErrorKind::Decode(why) => Self::Unfit(why),
            other => Self::Other(other),
        }
    }
}

/// Bytes that are under way to a server.
pub(crate) struct StagedChunk(mpsc::Receiver<Result<Vec<u8>, PageErrorKind>>);

impl StagedChunk {
    /// Waits until the server has them.
    pub(crate) fn wait(self) -> Result<(), StagingRefusal> {
        let lost = || Err(PageErrorKind::Io("the question was lost".into()));
        Ok(self.0.recv().unwrap_or_else(|_| lost()).map(drop)?)
    }
}

impl RemotePlace {
    /// A place beside the registered one of a URL, with its credentials. It can be closed without harm to others.
    pub(crate) fn apart(url: &str) -> Result<Self, PageErrorKind> {
        let address = ServerAddress::of(url).map_err(PageErrorKind::Unsupported)?;
        let refused = |message| PageErrorKind::Unauthorized { server: address.to_string(), message };
        let credentials = credentials_for(&address).map_err(refused)?;
        Self::open(url, credentials, crate::client_options())
    }

    fn stage(&self, op: Op, body: Vec<u8>) -> Result<Vec<u8>, StagingRefusal> {
        Ok(self.wait(Request::new(op, 0), body, None)?)
    }

    fn progress(&self, op: Op, body: Vec<u8>) -> Result<StageProgress, StagingRefusal> {
        let answer = self.stage(op, body)?;
        StageProgress::parse(&answer).map_err(|fault| StagingRefusal::Other(self.fault(&fault)))
    }

    /// What can be staged there. A client without the right to stage is refused.
    pub(crate) fn stage_room(&self) -> Result<StageRoom, StagingRefusal> {
        let answer = self.stage(Op::StageRoom, Vec::new())?;
        StageRoom::parse(&answer).map_err(|fault| StagingRefusal::Other(self.fault(&fault)))
    }

    /// Begins a file, or goes on with it: how many of its bytes are there. `only_look`: how many have their room.
    pub(crate) fn stage_begin(&self, file: &StagedFile, only_look: bool) -> Result<StageProgress, StagingRefusal> {
        self.progress(Op::StageBegin, write_stage_begin(file, only_look))
    }

    /// Sends bytes of a file that is begun.
    pub(crate) fn stage_put(&self, file: &StagedFile, offset: u64, bytes: &[u8]) -> StagedChunk {
        let (told, answer) = mpsc::channel();
        let request = Request { offset, ..Request::new(Op::StagePut, 0) };
        // Who no longer waits needs no answer.
        self.ask(request, write_stage_put(file, bytes), Box::new(move |result| drop(told.send(result))));
        StagedChunk(answer)
    }

    /// Lets the server read a file back, a part for each call.
    pub(crate) fn stage_commit(&self, file: &StagedFile, crc: u32) -> Result<StageProgress, StagingRefusal> {
        self.progress(Op::StageCommit, write_stage_commit(file, crc))
    }

    /// Serves the whole files of a dataset.
    pub(crate) fn stage_publish(&self, dataset: &str) -> Result<(), StagingRefusal> {
        self.stage(Op::StagePublish, dataset.as_bytes().to_vec()).map(drop)
    }

    /// Removes a staged dataset, and what was begun of it.
    pub(crate) fn stage_remove(&self, dataset: &str) -> Result<(), StagingRefusal> {
        self.stage(Op::StageRemove, dataset.as_bytes().to_vec()).map(drop)
    }
}
