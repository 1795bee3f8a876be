//! The place of a web server or a bucket, and the table of all of them.

use super::address::{self, redact, Address, StoreKind};
use super::begin::BeginJob;
use super::bucket::Bucket;
use super::line::{buffer_of_reply, LineJob, ServerLine};
use super::list::list_all;
use super::look::{Answers, LookJob};
use super::origin::Origin;
use super::read::{ReadJob, Target};
use super::tail::TailJob;
use crate::net;
use crate::options::options;
use pager::error::PageErrorKind;
use pager::place::{BeginRead, Entry, FileRef, Looked, Place, TailRead};
use pager::source::{Completion, Read, ReadClass, ReadForm};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
struct HttpPlace(Arc<ServerLine>);

/// Places by address and credentials.
type Places = Option<HashMap<(String, u64), Arc<HttpPlace>>>;

static PLACES: Mutex<Places> = Mutex::new(None);

fn places() -> MutexGuard<'static, Places> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A digest of the settings that choose credentials and addresses: with others it is another place.
fn settings(kind: StoreKind) -> u64 {
    let prefix = match kind {
        StoreKind::Web => return 0,
        StoreKind::S3 => "AWS_",
        StoreKind::Google => "GOOGLE_",
        StoreKind::Azure => "AZURE_",
    };
    let mut all: Vec<_> =
        std::env::vars_os().filter(|(k, _)| k.as_encoded_bytes().starts_with(prefix.as_bytes())).collect();
    all.sort();
    let mut hasher = DefaultHasher::new();
    all.hash(&mut hasher);
    hasher.finish()
}

/// The place of a URL.
///
/// # Errors
/// [`PageErrorKind::Unsupported`] for an address that names no server or bucket.
pub(crate) fn find(url: &str) -> Result<Arc<dyn Place>, PageErrorKind> {
    let Address { kind, place, server, .. } = address::parse(url)?;
    let mut places = places();
    let found = places.get_or_insert_default().entry((place.clone(), settings(kind))).or_insert_with(|| {
        let line = match kind {
            StoreKind::Web => ServerLine::new(server, options(), None, Origin::Web),
            _ => {
                let bucket = place.split_once("://").map_or("", |(_, bucket)| bucket).to_owned();
                let name = server.clone();
                let authorities = (kind == StoreKind::S3).then(|| std::env::var_os("AWS_CA_BUNDLE")).flatten();
                let authorities = authorities.filter(|file| !file.is_empty());
                ServerLine::new(server, options(), authorities, |connections| {
                    Origin::Bucket(Bucket::new(kind, bucket, name, connections))
                })
            }
        };
        Arc::new(HttpPlace(Arc::new(line)))
    });
    Ok(found.clone())
}

/// Most bytes that connections and queues of all places take: up to 408 KiB a connection.
pub fn held_bytes() -> u64 {
    places().iter().flat_map(HashMap::values).map(|place| place.0.held_bytes()).sum()
}

/// Requests sent so far, by all places.
pub fn requests() -> u64 {
    places().iter().flat_map(HashMap::values).map(|place| place.0.requests()).sum()
}

impl Place for HttpPlace {
    fn describe(&self) -> String {
        self.0.server.clone()
    }

    fn form(&self) -> ReadForm {
        self.0.meter.form()
    }

    fn room(&self) -> usize {
        self.0.room()
    }

    fn bytes_per_read(&self) -> u64 {
        buffer_of_reply(self.0.meter.typical())
    }

    fn held_bytes(&self) -> u64 {
        self.0.held_bytes()
    }

    fn submit(&self, file: &FileRef, reads: Vec<Read>, done: &Arc<dyn Completion>) {
        let name = match address::parse(file.path.to_str().unwrap_or_default()) {
            Ok(address) => address.name,
            Err(kind) => return reads.iter().for_each(|read| done.complete(read.token, Err(kind.clone()))),
        };
        let target = Arc::new(Target { name, pin: file.pin.clone(), base: file.base });
        let (demand, prefetch): (Vec<Read>, Vec<Read>) = reads.into_iter().partition(|r| r.class == ReadClass::Demand);
        for (reads, ahead) in [(demand, false), (prefetch, true)] {
            let jobs = reads.into_iter().map(|read| {
                let job: Box<dyn LineJob> = Box::new(ReadJob::new(target.clone(), read, done.clone()));
                job
            });
            self.0.add(jobs.collect(), ahead);
        }
    }

    fn promote(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        self.0.promote(tokens, done);
    }

    fn withdraw(&self, tokens: &[u64], done: &Arc<dyn Completion>) {
        self.0.withdraw(tokens, done);
    }

    fn tail(&self, file: &FileRef, len: usize, then: TailRead) -> Result<(), TailRead> {
        // Azure has no ranges that count from the end.
        if self.0.origin.kind().0 == StoreKind::Azure || len == 0 {
            return Err(then);
        }
        match address::parse(file.path.to_str().unwrap_or_default()) {
            Ok(address) => {
                let target = Target { name: address.name, pin: file.pin.clone(), base: 0 };
                self.0.add(vec![Box::new(TailJob::new(target, len, then))], false);
            }
            Err(kind) => then(Err(kind)),
        }
        Ok(())
    }

    fn begin(&self, file: &FileRef, len: usize, then: BeginRead) -> Result<(), BeginRead> {
        if len == 0 {
            return Err(then);
        }
        match address::parse(file.path.to_str().unwrap_or_default()) {
            Ok(address) => {
                let target = Target { name: address.name, pin: file.pin.clone(), base: 0 };
                self.0.add(vec![Box::new(BeginJob::new(target, len, then))], false);
            }
            Err(kind) => then(Err(kind)),
        }
        Ok(())
    }

    fn look(&self, paths: Vec<PathBuf>, then: Looked) {
        let answers = Answers::new(paths.len(), then);
        let mut jobs = Vec::with_capacity(paths.len());
        for (number, path) in paths.iter().enumerate() {
            match address::parse(path.to_str().unwrap_or_default()) {
                Ok(address) => {
                    jobs.push(Box::new(LookJob::new(address.name, number, answers.clone())) as Box<dyn LineJob>)
                }
                Err(kind) => answers.put(number, Err(kind)),
            }
        }
        self.0.add(jobs, false);
    }

    fn list(&self, folder: &Path, most: usize) -> Result<Vec<Entry>, PageErrorKind> {
        let text = folder.to_str().unwrap_or_default();
        let address::Name::Key(key, _) = address::parse(text)?.name else {
            return Err(PageErrorKind::Unsupported(format!(
                "{} cannot be listed: a web server names no files. Give the names in a file (@names.txt), or use an \
                 object store (s3://, gs://, az://)",
                redact(text)
            )));
        };
        let line = self.0.clone();
        let listed = net::wait(async move {
            match &line.origin {
                Origin::Bucket(bucket) => list_all(&line, bucket, &key, most).await,
                Origin::Web(_) => Err(PageErrorKind::Unsupported("a web server names no files".into())),
            }
        });
        listed.unwrap_or_else(|| Err(PageErrorKind::Exhausted("the network thread could not do it".into())))
    }
}
