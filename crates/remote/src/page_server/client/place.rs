//! A server as a place.

use super::super::wire::{
    read_entries, read_looks, write_names, Op, RemoteKind, Request, State, Via, ViaFound, WireFault, FOUND_BYTES,
    MOST_NAME, MOST_READ, MOST_REQUEST_BODY,
};
use super::address::{name_of, ServerAddress};
use super::ask::{Ask, Then};
use super::credentials::{credentials_for, Credentials};
use super::files::version_of;
use super::hub::Hub;
use super::link::error_of;
use super::options::ClientOptions;
use pager::place::{
    Entry, ExtentRead, FileKind, FileRef, FileStat, FoundExtent, IndexedExtent, Looked, Place, SeenPin,
};
use pager::source::{Completion, Read, ReadForm};
use pager::PageErrorKind;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{mpsc, Arc, Mutex, PoisonError};

/// Names of one question.
const MOST_NAMES: usize = 512;
/// Bytes of the names of one question.
const MOST_BYTES: usize = MOST_REQUEST_BODY / 2;

static SERVERS: Mutex<Option<HashMap<ServerAddress, Arc<RemotePlace>>>> = Mutex::new(None);

/// The name in a path. One that is too long for the protocol is an empty one, which is refused as it would be.
fn sendable(path: &Path) -> &str {
    let name = name_of(path.to_str().unwrap_or_default());
    if name.len() > MOST_NAME {
        ""
    } else {
        name
    }
}

/// The place of a URL, made at its first use.
pub(super) fn find(url: &str, options: ClientOptions) -> Result<Arc<RemotePlace>, PageErrorKind> {
    let address = ServerAddress::of(url).map_err(PageErrorKind::Unsupported)?;
    let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    let servers = servers.get_or_insert_default();
    if let Some(place) = servers.get(&address) {
        return Ok(place.clone());
    }
    let refused = |message| PageErrorKind::Unauthorized { server: address.to_string(), message };
    let credentials = credentials_for(&address).map_err(refused)?;
    let place = Arc::new(RemotePlace::at(address.clone(), credentials, options));
    servers.insert(address, place.clone());
    Ok(place)
}

/// The files of one server. Dropping it ends its connections.
pub struct RemotePlace {
    hub: Arc<Hub>,
}

impl std::fmt::Debug for RemotePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RemotePlace").field(&self.hub.server).finish()
    }
}

impl RemotePlace {
    /// A place beside those of [`super::register`], of the server that a URL names.
    ///
    /// # Errors
    /// When the URL names no server.
    pub fn open(url: &str, credentials: Credentials, options: ClientOptions) -> Result<Self, PageErrorKind> {
        let address = ServerAddress::of(url).map_err(PageErrorKind::Unsupported)?;
        Ok(Self::at(address, credentials, options))
    }

    pub(super) fn at(address: ServerAddress, credentials: Credentials, options: ClientOptions) -> Self {
        Self { hub: Hub::new(address, credentials, options) }
    }

    /// The last failure, while no connection is up and one has failed.
    pub(super) fn lost(&self) -> Option<String> {
        self.hub.why_lost()
    }

    /// Whether the server was ever reached.
    pub(super) fn was_reached(&self) -> bool {
        self.hub.was_reached()
    }

    /// The registered place of a URL.
    ///
    /// # Errors
    /// When the URL names no server.
    pub fn of(url: &str) -> Result<Arc<Self>, PageErrorKind> {
        find(url, crate::client_options())
    }

    /// The server's counts, as JSON.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn stats(&self) -> Result<serde_json::Value, PageErrorKind> {
        let body = self.wait(Request::new(Op::Stats, 0), Vec::new(), None)?;
        let wrong = |e: serde_json::Error| PageErrorKind::Protocol {
            server: self.hub.server.clone(),
            message: format!("its counts are no JSON: {e}"),
        };
        serde_json::from_slice(&body).map_err(wrong)
    }

    pub(super) fn fault(&self, fault: &WireFault) -> PageErrorKind {
        PageErrorKind::Protocol { server: self.hub.server.clone(), message: fault.to_string() }
    }

    /// Measurements: the shortest round trip in seconds, bytes a second, bytes of the window, connections.
    pub fn measured(&self) -> (f64, u64, u64, usize) {
        let (rtt, rate, window) = self.hub.traffic.state();
        (rtt.as_secs_f64(), rate, window, self.hub.state().links.len())
    }

    /// Ends its connections. What was asked ends with an error.
    pub fn close(&self) {
        self.hub.close();
    }

    /// Asks without waiting.
    pub(super) fn ask(&self, request: Request, body: Vec<u8>, then: Then) {
        self.hub.submit(vec![Ask::told(request, body, None, then)]);
    }

    /// Asks, and waits.
    pub(super) fn wait(
        &self,
        request: Request,
        body: Vec<u8>,
        file: Option<FileRef>,
    ) -> Result<Vec<u8>, PageErrorKind> {
        let (told, answer) = mpsc::channel();
        // The receiver waits for it.
        let then = Box::new(move |result| drop(told.send(result)));
        self.hub.submit(vec![Ask::told(request, body, file, then)]);
        answer.recv().unwrap_or_else(|_| Err(PageErrorKind::Io("the question was lost".into())))
    }
}

impl Drop for RemotePlace {
    fn drop(&mut self) {
        self.hub.close();
    }
}

fn kind_of(kind: RemoteKind) -> FileKind {
    match kind {
        RemoteKind::File => FileKind::File,
        RemoteKind::Folder => FileKind::Folder,
        RemoteKind::Other => FileKind::Other,
    }
}

/// Collects the answers of several questions about names.
struct Looks {
    answers: Vec<Option<Result<FileStat, PageErrorKind>>>,
    left: usize,
    then: Option<Looked>,
}

fn tell(looks: &Mutex<Looks>, first: usize, answers: Vec<Result<FileStat, PageErrorKind>>) {
    let mut all = looks.lock().unwrap_or_else(PoisonError::into_inner);
    for (n, answer) in answers.into_iter().enumerate() {
        all.answers[first + n] = Some(answer);
    }
    all.left -= 1;
    let then = if all.left == 0 { all.then.take() } else { None };
    let answers = if then.is_some() { std::mem::take(&mut all.answers) } else { Vec::new() };
    drop(all);
    if let Some(then) = then {
        let lost = || Err(PageErrorKind::Io("the question was lost".into()));
        then(answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect());
    }
}

impl Place for RemotePlace {
    fn describe(&self) -> String {
        self.hub.server.clone()
    }

    fn form(&self) -> ReadForm {
        ReadForm { depth: None, block: None, longest: self.hub.traffic.longest(), hole: 0 }
    }

    fn room(&self) -> usize {
        self.hub.traffic.room()
    }

    fn submit(&self, file: &FileRef, reads: Vec<Read>, done: &Arc<dyn Completion>) {
        let (some, none): (Vec<Read>, Vec<Read>) = reads.into_iter().partition(|read| !read.is_empty());
        none.iter().for_each(|read| done.complete(read.token, Ok(())));
        let asks: Vec<Ask> = some.into_iter().flat_map(|read| Ask::reads(file, read, done)).collect();
        if !asks.is_empty() {
            self.hub.submit(asks);
        }
    }

    fn promote(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        self.hub.promote(tokens, done);
    }

    fn withdraw(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        self.hub.withdraw(tokens, done);
    }

    fn indexed(&self, file: &FileRef, wanted: &IndexedExtent, then: ExtentRead) -> bool {
        let index_len = wanted.index_len;
        let most = FOUND_BYTES + index_len + wanted.longest;
        let (Ok(len), Ok(slot)) = (u32::try_from(index_len), u32::try_from(wanted.entry)) else { return false };
        if most > MOST_READ || wanted.entry + 16 > index_len {
            return false;
        }
        let index_offset = if wanted.at_end { u64::from(len) } else { 0 };
        let via = Via { index_offset, index_len: len, slot, base: 0, from_end: wanted.at_end };
        let mut request = Request::new(Op::Via, 0);
        request.len = most as u32;
        let pin = Arc::new(SeenPin::new(file.pin.clone()));
        let asked = FileRef { pin: pin.clone(), ..file.clone() };
        let server = self.hub.server.clone();
        let wrong = move |message: String| PageErrorKind::Protocol { server: server.clone(), message };
        let told = move |result: Result<Vec<u8>, PageErrorKind>| {
            then(result.and_then(|body| {
                let (found, index, extent) = ViaFound::split(&body).map_err(|fault| wrong(fault.to_string()))?;
                let version = pin.seen().cloned().ok_or_else(|| wrong("it told no version".into()))?;
                if index.len() != index_len {
                    return Err(wrong(format!("an index of {} bytes instead of {index_len}", index.len())));
                }
                let whole = |(at, len): (u64, u64)| (extent.len() as u64 == len).then(|| (at, extent.to_vec()));
                Ok(FoundExtent { version, index: index.to_vec(), extent: found.extent.and_then(whole) })
            }));
        };
        self.hub.submit(vec![Ask::told(request, via.bytes(), Some(asked), Box::new(told))]);
        true
    }

    fn look(&self, paths: Vec<PathBuf>, then: Looked) {
        let names: Vec<&str> = paths.iter().map(|path| sendable(path)).collect();
        let mut groups: Vec<(usize, usize)> = Vec::new();
        let mut bytes = 0;
        for (n, name) in names.iter().enumerate() {
            match groups.last_mut() {
                Some((_, count)) if *count < MOST_NAMES && bytes + name.len() + 2 <= MOST_BYTES => *count += 1,
                _ => {
                    groups.push((n, 1));
                    bytes = 0;
                }
            }
            bytes += name.len() + 2;
        }
        if groups.is_empty() {
            return then(Vec::new());
        }
        let looks =
            Arc::new(Mutex::new(Looks { answers: vec![None; names.len()], left: groups.len(), then: Some(then) }));
        let asks = groups.into_iter().map(|(first, count)| {
            let mut body = Vec::new();
            write_names(&mut body, names[first..first + count].iter().copied());
            let (looks, server) = (looks.clone(), self.hub.server.clone());
            let told = move |result: Result<Vec<u8>, PageErrorKind>| {
                let wrong = |e: super::super::wire::WireFault| PageErrorKind::Protocol {
                    server: server.clone(),
                    message: e.to_string(),
                };
                let found = result.and_then(|body| read_looks(&body, count).map_err(wrong));
                let answers = match found {
                    Err(kind) => vec![Err(kind); count],
                    Ok(found) => found
                        .into_iter()
                        .map(|(state, stat)| match state {
                            State::Ok => Ok(FileStat {
                                kind: kind_of(stat.kind),
                                version: version_of(&stat),
                                modified_ns: stat.modified_ns,
                            }),
                            state => Err(error_of(state, &server, &[])),
                        })
                        .collect(),
                };
                tell(&looks, first, answers);
            };
            Ask::told(Request::new(Op::Stat, 0), body, None, Box::new(told))
        });
        self.hub.submit(asks.collect());
    }

    fn list(&self, folder: &Path, most: usize) -> Result<Vec<Entry>, PageErrorKind> {
        let name = sendable(folder);
        if name.is_empty() && !name_of(folder.to_str().unwrap_or_default()).is_empty() {
            return Err(error_of(State::BadName, &self.hub.server, &[]));
        }
        let mut request = Request::new(Op::List, 0);
        request.file = u32::try_from(most).unwrap_or(u32::MAX);
        let body = self.wait(request, name.as_bytes().to_vec(), None).map_err(|kind| match kind {
            PageErrorKind::TooMany { .. } => PageErrorKind::TooMany { most },
            other => other,
        })?;
        let entries = read_entries(&body).map_err(|fault| self.fault(&fault))?;
        Ok(entries.into_iter().map(|(kind, size, name)| Entry { name, kind: kind_of(kind), size }).collect())
    }
}
