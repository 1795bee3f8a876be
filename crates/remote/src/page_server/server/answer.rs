//! Answers that need files: read from the page cache by the event loop, from a disk by a reader.

use super::super::wire::{
    read_names, read_ranges, read_stage_begin, read_stage_commit, read_stage_put, write_entries, Op, Range, RemoteStat,
    Request, State, Via, ViaFound, WireFault, MOST_READ, MOST_TOLD, STAT_BYTES,
};
use super::files::{FileTable, Filled, ServedFile};
use super::names::NotOpened;
use super::origin::{refusal, FetchedRun, FetchedRuns, OriginFile, OriginOpened};
use super::staging::{StageRefusal, StagingArea};
use pager::PageErrorKind;
use std::sync::Arc;

/// Names of one STAT.
pub(super) const MOST_NAMES: usize = 4096;

/// The state and the bytes of a reply.
pub(super) struct Answer {
    pub(super) state: State,
    pub(super) version: u64,
    pub(super) body: Vec<u8>,
    /// For OPEN.
    pub(super) opened: Option<Arc<ServedFile>>,
}

impl Answer {
    pub(super) fn of(state: State) -> Self {
        Self::told(state, Vec::new())
    }

    pub(super) fn told(state: State, body: Vec<u8>) -> Self {
        Self { state, version: 0, body, opened: None }
    }

    /// To OPEN of a file at an origin.
    pub(super) fn opened(file: OriginOpened) -> Self {
        match file {
            Ok(file) => {
                let mut answer = Self::told(State::Ok, file.told.bytes().to_vec());
                answer.version = file.told.digest();
                answer.opened = Some(Arc::new(ServedFile::at_origin(file)));
                answer
            }
            Err((state, message)) => Self::told(state, message.into_bytes()),
        }
    }

    /// What an origin refuses.
    pub(super) fn refused(kind: &PageErrorKind) -> Self {
        match refusal(kind) {
            // Another version, or none any more.
            (State::Changed, _) => Self::told(State::Changed, RemoteStat::nothing().bytes().to_vec()),
            (state, message) => Self::told(state, message.into_bytes()),
        }
    }

    /// The client broke the protocol.
    pub(super) fn fault(fault: &WireFault) -> Self {
        Self::told(State::BadRequest, fault.0.clone().into_bytes())
    }
}

/// Bytes that the reply to a request takes at most, as far as it says so.
pub(super) fn bytes_of(request: &Request, body: usize) -> usize {
    match request.op {
        Op::Read | Op::ReadV | Op::Via => request.len as usize,
        // A name takes 2 bytes at least.
        Op::Stat => (body / 2).min(MOST_NAMES) * (STAT_BYTES + 1),
        Op::List => (request.file as usize).saturating_mul(32).min(MOST_TOLD),
        _ => 0,
    }
}

/// A read that has come some way.
pub(super) struct Reading {
    op: Op,
    file: Arc<ServedFile>,
    ranges: Vec<Range>,
    via: Option<Via>,
    out: Vec<u8>,
    /// The range that is next, and its bytes that have come.
    at: (usize, usize),
    /// Of a file at an origin: the part of an index or extent that is absent, and what came.
    absent: Option<Range>,
    came: FetchedRuns,
}

impl Reading {
    /// Begins.
    pub(super) fn new(request: &Request, body: &[u8], file: Arc<ServedFile>) -> Result<Self, WireFault> {
        let (mut ranges, mut via) = (Vec::new(), None);
        match request.op {
            Op::ReadV => ranges = read_ranges(body, request.len)?,
            Op::Via => {
                let rule = Via::parse(body)?;
                // The index with what is found must fit into the reply.
                if u64::from(rule.index_len) + 20 > u64::from(request.len) {
                    return Err(WireFault("an index is longer than the reply may be".into()));
                }
                via = Some(rule);
            }
            _ => ranges = vec![Range { offset: request.offset, len: request.len }],
        }
        let out = Vec::with_capacity(request.len as usize);
        Ok(Self { op: request.op, file, ranges, via, out, at: (0, 0), absent: None, came: FetchedRuns::default() })
    }

    /// The file at an origin that it reads, if it does.
    pub(super) fn origin(&self) -> Option<&Arc<OriginFile>> {
        self.file.origin()
    }

    /// What is absent of a file at an origin, and what came already.
    pub(super) fn wanted(&self) -> (Vec<Range>, FetchedRuns) {
        let of_via = self.absent.iter().copied();
        let rest = self.ranges.iter().skip(self.at.0).enumerate().map(|(n, range)| {
            let begun = if n == 0 { self.at.1 as u32 } else { 0 };
            Range { offset: range.offset.saturating_add(begun.into()), len: range.len - begun }
        });
        (of_via.chain(rest).collect(), self.came.clone())
    }

    /// Takes what came from an origin.
    pub(super) fn take(&mut self, came: Vec<Arc<FetchedRun>>) {
        self.came.extend(came);
    }

    /// Goes on. `None`: the rest waits for the disk, which `at_once` does not, or for an origin.
    pub(super) fn go_on(&mut self, files: &FileTable, at_once: bool) -> Option<Answer> {
        let result = if self.op == Op::Via { self.via(files, at_once) } else { self.ranges(files, at_once) };
        let state = match result {
            Ok(state) => state?,
            Err(state) => state,
        };
        let mut answer = Answer::of(state);
        answer.version = self.file.told.digest();
        match state {
            State::Ok | State::Short => answer.body = std::mem::take(&mut self.out),
            State::Changed => match files.now(&self.file) {
                Ok(now) => answer.body = now.bytes().to_vec(),
                Err(state) => answer.state = state,
            },
            _ => {}
        }
        Some(answer)
    }

    fn ranges(&mut self, files: &FileTable, at_once: bool) -> Result<Option<State>, State> {
        while let Some(range) = self.ranges.get(self.at.0) {
            let left = range.len as usize - self.at.1;
            let offset = range.offset.saturating_add(self.at.1 as u64);
            match read(files, &self.file, (offset, left), &self.came, &mut self.out, at_once)? {
                Filled::All(n) if n == left => self.at = (self.at.0 + 1, 0),
                Filled::All(_) => return Ok(Some(State::Short)),
                Filled::Waits(n) => {
                    self.at.1 += n;
                    return Ok(None);
                }
            }
        }
        Ok(Some(State::Ok))
    }

    /// Index and extent. It begins again where it waits: what was read is in the page cache then.
    fn via(&mut self, files: &FileTable, at_once: bool) -> Result<Option<State>, State> {
        let Some(rule) = self.via else { return Err(State::BadRequest) };
        self.out.clear();
        let most = self.out.capacity().min(MOST_READ);
        let index_offset = match rule.from_end {
            true => self.file.told.size.checked_sub(rule.index_offset).ok_or(State::Short)?,
            false => rule.index_offset,
        };
        let index_len = rule.index_len as usize;
        self.out.extend(ViaFound { index_len: rule.index_len, extent: None }.bytes());
        let begin = self.out.len();
        self.absent = Some(Range { offset: index_offset, len: rule.index_len });
        match read(files, &self.file, (index_offset, index_len), &self.came, &mut self.out, at_once)? {
            Filled::All(n) if n == index_len => {}
            Filled::All(_) => return Err(State::Short),
            Filled::Waits(_) => return Ok(None),
        }
        // An index that names no possible place is the client's to refuse: it has the index then.
        let extent = rule.extent(&self.out[begin..]).unwrap_or(None);
        self.out[..begin].copy_from_slice(&ViaFound { index_len: rule.index_len, extent }.bytes());
        let Some((at, len)) = extent else { return Ok(Some(State::Ok)) };
        let room = most - self.out.len();
        let Some(len) = usize::try_from(len).ok().filter(|len| *len <= room) else { return Ok(Some(State::Ok)) };
        self.absent = Some(Range { offset: at, len: len as u32 });
        match read(files, &self.file, (at, len), &self.came, &mut self.out, at_once)? {
            Filled::All(n) if n == len => Ok(Some(State::Ok)),
            Filled::All(_) => Ok(Some(State::Short)),
            Filled::Waits(_) => Ok(None),
        }
    }
}

/// Does what a client asks of staged files.
pub(super) fn stage(area: &StagingArea, request: &Request, body: &[u8]) -> Answer {
    fn done<T>(result: Result<T, StageRefusal>, bytes: impl FnOnce(T) -> Vec<u8>) -> Answer {
        match result {
            Ok(done) => Answer::told(State::Ok, bytes(done)),
            Err((state, why)) => Answer::told(state, why.into_bytes()),
        }
    }
    let name = std::str::from_utf8(body).unwrap_or("");
    let answered = match request.op {
        Op::StageRoom => Ok(Answer::told(State::Ok, area.room().bytes())),
        Op::StageBegin => {
            read_stage_begin(body).map(|(file, only_look)| done(area.begin(&file, only_look), |at| at.bytes()))
        }
        Op::StagePut => read_stage_put(body)
            .map(|(file, crc, bytes)| done(area.put(&file, request.offset, crc, bytes), |()| Vec::new())),
        Op::StageCommit => read_stage_commit(body).map(|(file, crc)| done(area.commit(&file, crc), |at| at.bytes())),
        Op::StagePublish => Ok(done(area.publish(name), |()| Vec::new())),
        Op::StageRemove => Ok(done(area.remove(name), |()| Vec::new())),
        other => Err(WireFault(format!("{other:?} stages nothing"))),
    };
    answered.unwrap_or_else(|fault| Answer::fault(&fault))
}

/// Appends a range of a file. One at an origin gives what is here or came, and never waits.
fn read(
    files: &FileTable,
    file: &Arc<ServedFile>,
    (offset, len): (u64, usize),
    came: &FetchedRuns,
    out: &mut Vec<u8>,
    at_once: bool,
) -> Result<Filled, State> {
    match file.origin() {
        Some(origin) => Ok(origin.read(offset, len, came, out).map_or_else(Filled::Waits, Filled::All)),
        None => files.read(file, offset, len, out, at_once),
    }
}

/// Opens a name. `None`: it would wait for the disk.
pub(super) fn open(files: &FileTable, body: &[u8], at_once: bool) -> Option<Answer> {
    let name = std::str::from_utf8(body).unwrap_or("");
    if files.origins().has(name) {
        return files.origins().open_at_once(name).map(Answer::opened);
    }
    match files.open(name, at_once) {
        Ok(served) => {
            let mut answer = Answer::told(State::Ok, served.told.bytes().to_vec());
            answer.version = served.told.digest();
            answer.opened = Some(served);
            Some(answer)
        }
        Err(NotOpened::WouldWait) => None,
        Err(NotOpened::State(state)) => Some(Answer::of(state)),
    }
}

/// The states of names.
pub(super) fn stat(files: &FileTable, body: &[u8]) -> Answer {
    let names = match read_names(body, MOST_NAMES) {
        Ok(names) => names,
        Err(fault) => return Answer::fault(&fault),
    };
    let mut out = Vec::with_capacity(names.len() * (STAT_BYTES + 1));
    for name in names {
        let (state, told) = match files.names().state(name) {
            Ok(found) => (State::Ok, found.told()),
            Err(state) => (state, RemoteStat::nothing()),
        };
        out.push(state as u8);
        out.extend(told.bytes());
    }
    Answer::told(State::Ok, out)
}

/// The names in a folder.
pub(super) fn list(files: &FileTable, body: &[u8], most: u32) -> Answer {
    let name = std::str::from_utf8(body).unwrap_or("/");
    let listed = match files.origins().list(name, most as usize) {
        Some(Err((state, message))) => return Answer::told(state, message.into_bytes()),
        Some(Ok(entries)) => Ok(entries),
        None => files.names().list(name, most as usize),
    };
    match listed {
        Ok(mut entries) => {
            if name.is_empty() {
                entries.extend(files.origins().entries());
            }
            let mut out = Vec::new();
            write_entries(&mut out, entries.iter().map(|(kind, size, name)| (*kind, *size, name.as_str())));
            if out.len() > MOST_TOLD {
                return Answer::of(State::TooMany);
            }
            Answer::told(State::Ok, out)
        }
        Err(state) => Answer::of(state),
    }
}
