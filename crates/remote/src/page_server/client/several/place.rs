//! Several servers as a place.

use super::super::address::ServerAddress;
use super::super::credentials::{credentials_for, Credentials};
use super::super::options::ClientOptions;
use super::super::place::RemotePlace;
use super::attempt::Dones;
use super::engine::{Engine, ServerPlace, SeveralOptions};
use super::lists;
use pager::place::{Entry, ExtentRead, FileRef, IndexedExtent, Looked, Place};
use pager::source::{Completion, Read, ReadForm, ReadNote};
use pager::PageErrorKind;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Deadlines of one server's connections: another server has the bytes, too.
const SILENCE: Duration = Duration::from_secs(1);
const STALL: Duration = Duration::from_secs(3);
/// The setting that says at how many servers each file is at least.
const REPLICAS: &str = "FARFIELD_REPLICAS";

/// The servers, and how many of them have each file at least.
type Key = (Vec<ServerAddress>, usize);

static PLACES: Mutex<Option<HashMap<Key, Arc<SeveralServers>>>> = Mutex::new(None);

/// The files of several servers.
pub struct SeveralServers {
    engine: Arc<Engine>,
    dones: Dones,
}

/// Takes what one server completes.
struct ServerDone {
    engine: Arc<Engine>,
    server: usize,
}

impl Completion for ServerDone {
    fn complete(&self, token: u64, result: Result<(), PageErrorKind>) {
        self.engine.ended(self.server, vec![(token, result)]);
    }

    fn complete_all(&self, results: Vec<(u64, Result<(), PageErrorKind>)>) {
        self.engine.ended(self.server, results);
    }

    fn note(&self, token: u64, note: ReadNote<'_>) {
        self.engine.note(self.server, token, note);
    }
}

impl ServerPlace for RemotePlace {
    fn lost(&self) -> Option<String> {
        Self::lost(self)
    }

    fn was_reached(&self) -> bool {
        Self::was_reached(self)
    }
}

/// The place of several servers, made at its first use.
pub(in super::super) fn find(
    servers: Vec<ServerAddress>,
    options: ClientOptions,
) -> Result<Arc<SeveralServers>, PageErrorKind> {
    let replicas = replicas(servers.len())?;
    let key = (servers, replicas);
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let places = places.get_or_insert_default();
    if let Some(place) = places.get(&key) {
        return Ok(place.clone());
    }
    let with_credentials = key.0.iter().map(|server| {
        let refused = |message| PageErrorKind::Unauthorized { server: server.to_string(), message };
        Ok((server.clone(), credentials_for(server).map_err(refused)?))
    });
    let with_credentials: Result<Vec<_>, PageErrorKind> = with_credentials.collect();
    let place = Arc::new(SeveralServers::of(with_credentials?, options, replicas));
    places.insert(key, place.clone());
    Ok(place)
}

/// The number of servers that have each file, as the environment says it; else one.
fn replicas(servers: usize) -> Result<usize, PageErrorKind> {
    let Some(text) = std::env::var(REPLICAS).ok().filter(|text| !text.trim().is_empty()) else { return Ok(1) };
    let number = text.trim().parse().ok().filter(|number| (1..=servers).contains(number));
    let wrong = || PageErrorKind::Unsupported(format!("{REPLICAS} is {text:?}, and there are {servers} servers"));
    number.ok_or_else(wrong)
}

impl SeveralServers {
    fn of(servers: Vec<(ServerAddress, Credentials)>, options: ClientOptions, replicas: usize) -> Self {
        let root = PathBuf::from("farfield://servers");
        let (network_timeout, first_timeout) = (options.network_timeout, options.first_timeout);
        let (silence, stall) = (options.silence.min(SILENCE), options.stall.min(STALL));
        let options = ClientOptions { silence, stall, ..options };
        let place = |(address, credentials)| Arc::new(RemotePlace::at(address, credentials, options));
        let places = servers.into_iter().map(|server| place(server) as Arc<dyn ServerPlace>).collect();
        Self::over(places, root, SeveralOptions { network_timeout, first_timeout, replicas })
    }

    pub(super) fn over(places: Vec<Arc<dyn ServerPlace>>, root: PathBuf, options: SeveralOptions) -> Self {
        let count = places.len();
        let engine = Engine::new(places, root, options);
        let done = |server| Arc::new(ServerDone { engine: engine.clone(), server }) as Arc<dyn Completion>;
        let dones = (0..count).map(done).collect();
        Self { engine, dones }
    }

    /// A place beside those of [`super::super::register`].
    ///
    /// # Errors
    /// When the URL names no servers, or one only.
    pub fn open(
        url: &str,
        credentials: Vec<Credentials>,
        options: ClientOptions,
        replicas: usize,
    ) -> Result<Self, PageErrorKind> {
        let servers = super::address::servers_of(url).map_err(PageErrorKind::Unsupported)?;
        let servers = servers.filter(|servers| servers.len() == credentials.len());
        let few = || PageErrorKind::Unsupported(format!("{url} names no servers with credentials for each"));
        Ok(Self::of(servers.ok_or_else(few)?.into_iter().zip(credentials).collect(), options, replicas))
    }
}

impl Place for SeveralServers {
    fn describe(&self) -> String {
        self.engine.names.join(", ")
    }

    fn form(&self) -> ReadForm {
        let longest = self.engine.places.iter().map(|place| place.form().longest).min();
        ReadForm { depth: None, block: None, longest: longest.unwrap_or(1 << 20), hole: 0 }
    }

    fn room(&self) -> usize {
        self.engine.with_room().iter().map(|place| place.room()).sum()
    }

    fn bytes_per_read(&self) -> u64 {
        self.engine.places.iter().map(|place| place.bytes_per_read()).max().unwrap_or(0)
    }

    fn held_bytes(&self) -> u64 {
        self.engine.places.iter().map(|place| place.held_bytes()).sum::<u64>() + self.engine.bytes()
    }

    fn submit(&self, file: &FileRef, reads: Vec<Read>, done: &Arc<dyn Completion>) {
        let (some, none): (Vec<Read>, Vec<Read>) = reads.into_iter().partition(|read| !read.is_empty());
        none.iter().for_each(|read| done.complete(read.token, Ok(())));
        if !some.is_empty() {
            self.engine.submit(file, some, done, &self.dones);
        }
    }

    fn promote(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        self.engine.promote(tokens, done);
    }

    fn withdraw(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        self.engine.withdraw(tokens, done);
    }

    fn indexed(&self, file: &FileRef, wanted: &IndexedExtent, then: ExtentRead) -> bool {
        self.engine.indexed(file, wanted, then)
    }

    fn look(&self, paths: Vec<PathBuf>, then: Looked) {
        if paths.is_empty() {
            return then(Vec::new());
        }
        let told = move |found: Vec<super::looks::Found>| then(found.into_iter().map(|(answer, _)| answer).collect());
        self.engine.look(paths, Box::new(told));
    }

    fn list(&self, folder: &Path, most: usize) -> Result<Vec<Entry>, PageErrorKind> {
        lists::list(&self.engine.places, &self.engine.names, self.engine.options.replicas, folder, most)
    }
}
