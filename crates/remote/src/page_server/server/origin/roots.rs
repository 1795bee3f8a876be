//! Names that stand for addresses, and the versions that were seen lately.

use super::super::super::wire::{RemoteKind, RemoteStat, State, MOST_NAME};
use super::super::memory_cache::{MemoryCache, MemoryUse};
use super::super::names::{is_component, Names};
use super::super::readers::Readers;
use super::address::OriginAddress;
use super::answers::{refusal, told};
use super::file::{OriginCounts, OriginFile};
use super::local::LocalOrigin;
use super::OriginOptions;
use crate::disk_cache::{CachedPlace, DiskCache, DiskCacheOptions};
use pager::place::{self, FileKind, FileStat, Place};
use pager::PageErrorKind;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Time for which a version that an origin said is taken as that of now: many connections and clients open a file at
/// the same time. Reads renew it, and a read of another version ends it.
const TRUSTED: Duration = Duration::from_secs(2);
/// Lists at the same time.
const LISTERS: usize = 4;
/// Time for what the disk cache has not written at the end.
const LAST_WRITES: Duration = Duration::from_secs(1);

struct OriginRoot {
    name: String,
    address: OriginAddress,
    place: Arc<dyn Place>,
}

/// See the module.
pub(in super::super) struct Origins {
    roots: Vec<OriginRoot>,
    cache: Arc<MemoryCache>,
    counts: Arc<OriginCounts>,
    disk: Option<Arc<DiskCache>>,
    known: Mutex<KnownFiles>,
    /// Threads that wait for lists, which can take as long as an origin is away.
    listers: Readers,
}

#[derive(Default)]
struct KnownFiles {
    files: HashMap<String, Weak<OriginFile>>,
    clean_at: usize,
}

/// A file that was opened, or the state for the client with a message.
pub(in super::super) type OriginOpened = Result<Arc<OriginFile>, (State, String)>;

/// Names of a folder, or the state for the client with a message.
type Listed = Result<Vec<(RemoteKind, u64, String)>, (State, String)>;

/// A name at an origin: which origin, and the address there.
#[derive(Clone)]
pub(in super::super) struct FoundName {
    root: usize,
    pub(in super::super) address: String,
}

impl Origins {
    /// Takes the names that are addresses, and with `cache_local` all others, too. Returns the others.
    ///
    /// # Errors
    /// For a name that is no single plain component or is given twice, and an address of no known place.
    pub(in super::super) fn open(
        names: &[(String, PathBuf)],
        options: &OriginOptions,
    ) -> io::Result<(Self, Vec<(String, PathBuf)>)> {
        let (far, near): (Vec<_>, Vec<_>) = names.iter().cloned().partition(|(_, path)| place::is_remote(path));
        let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
        let disk = options.cache_disk.as_ref().map(|(folder, bytes)| {
            DiskCache::open(folder, DiskCacheOptions { bytes: *bytes, ..DiskCacheOptions::default() })
        });
        if let Some(notice) = disk.as_ref().and_then(|disk| disk.take_notice()) {
            return Err(wrong(notice));
        }
        let mut roots: Vec<OriginRoot> = Vec::new();
        let mut cached: Vec<(Arc<dyn Place>, Arc<CachedPlace>)> = Vec::new();
        for (name, address) in &far {
            if !is_component(name) || names.iter().filter(|(other, _)| other == name).count() > 1 {
                return Err(wrong(format!("{name:?} is no name to serve, or it is given twice")));
            }
            let found = place::of(address).map_err(PageErrorKind::into_io)?;
            let found = found.ok_or_else(|| wrong(format!("{name}: its address has no scheme")))?;
            let text = address.to_str().unwrap_or_default();
            let mut place = found.clone();
            if let Some(disk) = &disk {
                // Once each: files of one place share its limits.
                let known =
                    cached.iter().find(|(inner, _)| Arc::ptr_eq(inner, &found)).map(|(_, cached)| cached.clone());
                let before = known.unwrap_or_else(|| {
                    let made = Arc::new(CachedPlace::new(found.clone(), disk.clone(), false));
                    cached.push((found, made.clone()));
                    made
                });
                place = before;
            }
            roots.push(OriginRoot { name: name.clone(), address: OriginAddress::new(text), place });
        }
        let mut others = near;
        if options.cache_local && !others.is_empty() {
            let local: Arc<dyn Place> = Arc::new(LocalOrigin::new(Names::open(&others)?));
            for (name, _) in std::mem::take(&mut others) {
                let address = OriginAddress::new(&name);
                roots.push(OriginRoot { name, address, place: local.clone() });
            }
        }
        let cache = Arc::new(MemoryCache::new(if roots.is_empty() { 0 } else { options.cache }));
        let this = Self {
            roots,
            cache,
            counts: Arc::default(),
            disk,
            known: Mutex::default(),
            listers: Readers::new(LISTERS),
        };
        Ok((this, others))
    }

    /// The memory cache.
    pub(in super::super) fn cache(&self) -> &Arc<MemoryCache> {
        &self.cache
    }

    /// Whether there is none.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// What the cache has, and the reads of origins.
    pub(in super::super) fn usage(&self) -> (MemoryUse, &OriginCounts) {
        (self.cache.usage(), &self.counts)
    }

    /// What the disk cache has to say, once.
    pub(in super::super) fn take_notice(&self) -> Option<String> {
        self.disk.as_ref().and_then(|disk| disk.take_notice())
    }

    /// Runs what waits for an origin.
    pub(in super::super) fn wait_on_thread(&self, job: impl FnOnce() + Send + 'static) {
        self.listers.run(job);
    }

    /// The server ends: writes what waits for the disk.
    pub(in super::super) fn end(&self) {
        self.listers.leave();
        if let Some(disk) = &self.disk {
            disk.flush(LAST_WRITES);
        }
    }

    /// The address of a name. `None`: it belongs to no origin.
    pub(in super::super) fn find(&self, name: &str) -> Option<Result<FoundName, State>> {
        let (first, rest) = name.split_once('/').map_or((name, None), |(first, rest)| (first, Some(rest)));
        let root = self.roots.iter().position(|root| root.name == first)?;
        let address = &self.roots[root].address;
        if name.len() > MOST_NAME || rest.is_some_and(|rest| !rest.split('/').all(is_component)) {
            return Some(Err(State::BadName));
        }
        Some(match rest {
            None => Ok(FoundName { root, address: address.root().to_owned() }),
            Some(rest) => address.below(rest).map(|address| FoundName { root, address }).ok_or(State::BadName),
        })
    }

    /// Whether a name belongs to an origin.
    pub(in super::super) fn has(&self, name: &str) -> bool {
        !self.roots.is_empty() && self.find(name).is_some()
    }

    pub(in super::super) fn place(&self, found: &FoundName) -> Arc<dyn Place> {
        self.roots[found.root].place.clone()
    }

    fn known(&self) -> MutexGuard<'_, KnownFiles> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file whose version was seen lately.
    pub(in super::super) fn open_at_once(&self, name: &str) -> Option<OriginOpened> {
        let found = match self.find(name)? {
            Ok(found) => found,
            Err(state) => return Some(Err((state, String::new()))),
        };
        let file = self.known().files.get(&found.address)?.upgrade()?;
        file.seen_within(TRUSTED).then_some(Ok(file))
    }

    /// The file of a name whose state the origin said.
    pub(in super::super) fn open_as(&self, found: &FoundName, stat: Result<FileStat, PageErrorKind>) -> OriginOpened {
        let stat = stat.map_err(|kind| refusal(&kind))?;
        if stat.kind != FileKind::File {
            return Err((State::NotFile, String::new()));
        }
        let mut known = self.known();
        let same = known.files.get(&found.address).and_then(Weak::upgrade);
        if let Some(same) = same.filter(|same| same.version == stat.version) {
            drop(known);
            same.set_seen(true);
            return Ok(same);
        }
        let told = told(&found.address, &stat);
        let place = self.place(found);
        let (cache, counts) = (self.cache.clone(), self.counts.clone());
        let file = Arc::new(OriginFile::new(place, &found.address, stat.version, told, cache, counts));
        if known.files.len() >= known.clean_at {
            known.files.retain(|_, file| file.strong_count() > 0);
            known.clean_at = (known.files.len() * 2).max(1024);
        }
        known.files.insert(found.address.clone(), Arc::downgrade(&file));
        Ok(file)
    }

    /// The state of a name in the words of the protocol, with what is known of its file brought up to date.
    pub(in super::super) fn told(
        &self,
        found: &FoundName,
        stat: Result<FileStat, PageErrorKind>,
    ) -> (State, RemoteStat) {
        let stat = match stat {
            Ok(stat) => stat,
            Err(kind) => return (refusal(&kind).0, RemoteStat::nothing()),
        };
        let known = self.known().files.get(&found.address).and_then(Weak::upgrade);
        if let Some(file) = known {
            file.set_seen(file.version == stat.version);
        }
        (State::Ok, told(&found.address, &stat))
    }

    /// The names in a folder at an origin, and for the empty name the origins. `None`: it belongs to none. May wait.
    pub(in super::super) fn list(&self, name: &str, most: usize) -> Option<Listed> {
        let found = match self.find(name)? {
            Ok(found) => found,
            Err(state) => return Some(Err((state, String::new()))),
        };
        let listed = self.place(&found).list(Path::new(&found.address), most).map_err(|kind| refusal(&kind));
        Some(listed.map(|entries| {
            let plain = entries.into_iter().filter(|entry| is_component(&entry.name));
            plain.map(|entry| (remote_kind(entry.kind), entry.size, entry.name)).collect()
        }))
    }

    /// The origins themselves, as entries of the list of all names. May wait.
    pub(in super::super) fn entries(&self) -> Vec<(RemoteKind, u64, String)> {
        let entry = |root: &OriginRoot| {
            let (tell, answer) = sync_channel(1);
            let looked = move |mut found: Vec<Result<FileStat, PageErrorKind>>| {
                // Who asked waits for it.
                let _gone = tell.send(found.pop());
            };
            root.place.look(vec![root.address.root().into()], Box::new(looked));
            match answer.recv() {
                Ok(Some(Ok(stat))) => (remote_kind(stat.kind), stat.version.size, root.name.clone()),
                // A folder at a server that knows no folders, or an origin that does not answer now.
                _ => (RemoteKind::Folder, 0, root.name.clone()),
            }
        };
        self.roots.iter().map(entry).collect()
    }
}

fn remote_kind(kind: FileKind) -> RemoteKind {
    match kind {
        FileKind::File => RemoteKind::File,
        FileKind::Folder => RemoteKind::Folder,
        FileKind::Other => RemoteKind::Other,
    }
}
